//! One AG-UI event of a provider: the fact the witness decides on, and the words as
//! they are relayed. What is not understood is passed on; what could be read in two
//! ways, or would speak in the witness's name, is refused.

use std::sync::Arc;

use wikala_chain::{RawObject, json};
use wikala_witness::{Fact, Question};

use crate::bag::URN;

/// Where the witness's own words stand in an event's `metadata`.
const OURS: [&str; 2] = ["wikala", URN];
/// The prefix of CUSTOM names and error codes that only the witness writes.
const OUR_NAMES: &str = "wikala.";

/// Members that must be strings, by event type (AG-UI 1.0, events). Types that are not
/// listed are relayed as they are: the protocol may grow.
const STRINGS: [(&str, &[&str]); 14] = [
    ("RUN_ERROR", &["message"]),
    ("STEP_STARTED", &["stepName"]),
    ("STEP_FINISHED", &["stepName"]),
    ("TEXT_MESSAGE_START", &["messageId"]),
    ("TEXT_MESSAGE_CONTENT", &["messageId", "delta"]),
    ("TEXT_MESSAGE_END", &["messageId"]),
    ("TOOL_CALL_START", &["toolCallId", "toolCallName"]),
    ("TOOL_CALL_ARGS", &["toolCallId", "delta"]),
    ("TOOL_CALL_END", &["toolCallId"]),
    ("TOOL_CALL_RESULT", &["messageId", "toolCallId"]),
    ("CUSTOM", &["name"]),
    ("REASONING_MESSAGE_CONTENT", &["messageId", "delta"]),
    ("SUBAGENT_STARTED", &["subagentRunId", "name"]),
    ("SUBAGENT_ERROR", &["subagentRunId", "message"]),
];

/// An event, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What the witness decides on.
    pub fact: Fact,
    /// The event as received, without what only the witness may say.
    pub words: Arc<str>,
}

/// The event is not one: *fact, expectation*. It ends its run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

fn malformed(why: impl Into<String>) -> Malformed {
    Malformed(why.into())
}

/// The members of an object, names decoded: `RUN\u005fFINISHED` is what it says.
struct Members<'a>(Vec<(std::borrow::Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    fn parse(text: &'a str) -> Result<Self, Malformed> {
        json::members(text).map(Members).map_err(|error| malformed(error.to_string()))
    }

    /// The value of a member; absent and null are one.
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw).filter(|raw| *raw != "null")
    }

    fn string(&self, name: &str) -> Result<Option<String>, Malformed> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        json::string(raw).map(Some).ok_or_else(|| malformed(format!("{name}: not a string")))
    }

    fn required(&self, name: &str) -> Result<String, Malformed> {
        self.string(name)?.ok_or_else(|| malformed(format!("{name}: missing, a string expected")))
    }
}

/// Reads one event, JSON text.
///
/// # Errors
/// Not a JSON object, a key twice, `type` missing or not a string, a known type without
/// what it must carry, a name or code that only the witness may use.
pub fn read(text: &str) -> Result<Event, Malformed> {
    let event = Members::parse(text)?;
    let kind = event.required("type")?;
    if let Some((_, names)) = STRINGS.iter().find(|(known, _)| *known == kind) {
        for name in *names {
            event.required(name)?;
        }
    }
    let fact = match kind.as_str() {
        "RUN_STARTED" => Fact::Started,
        "RUN_FINISHED" => ended(&event)?,
        "RUN_ERROR" => {
            if event.string("code")?.is_some_and(|code| code.starts_with(OUR_NAMES)) {
                return Err(malformed("code: wikala.* is the witness's own, use another"));
            }
            Fact::Failed(event.required("message")?)
        }
        "TOOL_CALL_START" => Fact::CallOpened(event.required("toolCallId")?),
        // The first chunk of a call names it; later ones may, which announces nothing new.
        "TOOL_CALL_CHUNK" => event.string("toolCallId")?.map_or(Fact::Said, Fact::CallOpened),
        "TOOL_CALL_RESULT" => Fact::CallAnswered(event.required("toolCallId")?),
        "CUSTOM" if event.required("name")?.starts_with(OUR_NAMES) => {
            return Err(malformed("name: wikala.* is the witness's own, use another"));
        }
        _ => Fact::Said,
    };
    let words = match event.get("metadata") {
        // A provider must not put another run's id before a signer.
        Some(metadata) if metadata.starts_with('{') => stripped(text, metadata)?,
        _ => None,
    };
    Ok(Event { fact, words: words.unwrap_or_else(|| text.into()) })
}

/// The last word of a leg: done, cancelled, or questions.
fn ended(event: &Members<'_>) -> Result<Fact, Malformed> {
    let done = |pending| Fact::Ended { questions: Vec::new(), pending, cancelled: false };
    let Some(outcome) = event.get("outcome") else { return Ok(done(None)) };
    let outcome = Members::parse(outcome).map_err(|error| malformed(format!("outcome: {error}")))?;
    match outcome.required("type")?.as_str() {
        "success" => {
            let pending = outcome.get("pendingToolCallIds").map(|raw| {
                serde_json::from_str::<Vec<String>>(raw)
                    .map_err(|_| malformed("outcome.pendingToolCallIds: not a list of strings"))
            });
            Ok(done(pending.transpose()?))
        }
        "cancelled" => Ok(Fact::Ended { questions: Vec::new(), pending: None, cancelled: true }),
        "interrupt" => {
            let questions = questions(outcome.get("interrupts").unwrap_or("[]"))?;
            // The calls it is about are in the questions; others stay with the witness's count.
            Ok(Fact::Ended { questions, pending: None, cancelled: false })
        }
        other => {
            Err(malformed(format!("outcome.type: {other:?} is unknown, success, interrupt or cancelled expected")))
        }
    }
}

fn questions(raw: &str) -> Result<Vec<Question>, Malformed> {
    let list: Vec<&serde_json::value::RawValue> =
        serde_json::from_str(raw).map_err(|_| malformed("outcome.interrupts: not a list"))?;
    if list.is_empty() {
        // A pause that asks nothing could never be answered.
        return Err(malformed("outcome.interrupts: empty, one at least expected"));
    }
    let mut questions: Vec<Question> = Vec::with_capacity(list.len());
    for raw in list {
        let interrupt = Members::parse(raw.get()).map_err(|error| malformed(format!("outcome.interrupts: {error}")))?;
        let id = interrupt.required("id")?;
        if id.is_empty() || questions.iter().any(|earlier| earlier.id.as_deref() == Some(&id)) {
            // Two questions under one id could not be told apart by an answer.
            return Err(malformed("outcome.interrupts: an id is empty or stands twice"));
        }
        let call = interrupt.string("toolCallId")?;
        questions.push(Question { id: Some(id), call, text: raw.get().to_owned() });
    }
    Ok(questions)
}

/// The event without our own members of its metadata; `None`: it had none.
fn stripped(text: &str, metadata: &str) -> Result<Option<Arc<str>>, Malformed> {
    let again = |text: &str| RawObject::parse(text).map_err(|error| malformed(error.to_string()));
    let mut metadata = again(metadata)?;
    let mut found = false;
    for name in OURS {
        found |= metadata.remove(name).is_some();
    }
    if !found {
        return Ok(None);
    }
    let mut event = again(text)?;
    event.set("metadata", metadata.to_raw());
    Ok(Some(event.to_raw().get().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(text: &str) -> Result<Fact, String> {
        read(text).map(|event| event.fact).map_err(|error| error.to_string())
    }

    fn done(pending: Option<&[&str]>) -> Fact {
        let pending = pending.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
        Fact::Ended { questions: Vec::new(), pending, cancelled: false }
    }

    #[test]
    fn facts_are_read_and_the_rest_is_said() {
        for (text, expect) in [
            (r#"{"type":"RUN_STARTED"}"#, Fact::Started),
            (r#"{"type":"RUN\u005fSTARTED","threadId":"t"}"#, Fact::Started),
            (r#"{"typ\u0065":"RUN_FINISHED"}"#, done(None)),
            (r#"{"type":"RUN_FINISHED","outcome":null}"#, done(None)),
            (r#"{"type":"RUN_FINISHED","outcome":{"type":"success"}}"#, done(None)),
            (r#"{"type":"RUN_FINISHED","outcome":{"type":"success","pendingToolCallIds":[]}}"#, done(Some(&[]))),
            (r#"{"type":"RUN_FINISHED","outcome":{"type":"success","pendingToolCallIds":["c"]}}"#, done(Some(&["c"]))),
            (
                r#"{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}"#,
                Fact::Ended { questions: vec![], pending: None, cancelled: true },
            ),
            (r#"{"type":"RUN_ERROR","message":"no"}"#, Fact::Failed("no".into())),
            (r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#, Fact::CallOpened("c".into())),
            (r#"{"type":"TOOL_CALL_CHUNK","toolCallId":"c"}"#, Fact::CallOpened("c".into())),
            (r#"{"type":"TOOL_CALL_CHUNK","delta":"x"}"#, Fact::Said),
            (
                r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"1"}"#,
                Fact::CallAnswered("c".into()),
            ),
            (r#"{"type":"SOMETHING_NEW","x":1e999}"#, Fact::Said),
            (r#"{"type":"CUSTOM","name":"mine","value":null}"#, Fact::Said),
        ] {
            assert_eq!(fact(text), Ok(expect), "{text}");
        }
        let text =
            r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[ {"id":"q", "toolCallId":"c"} ]}}"#;
        let question =
            Question { id: Some("q".into()), call: Some("c".into()), text: r#"{"id":"q", "toolCallId":"c"}"#.into() };
        assert_eq!(fact(text), Ok(Fact::Ended { questions: vec![question], pending: None, cancelled: false }));
    }

    #[test]
    fn what_could_mislead_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"type":null}"#,
            r#"{"type":7}"#,
            r#"{"type":"A","type":"RUN_FINISHED"}"#,
            r#"{"type":"A","\u0074ype":"RUN_FINISHED"}"#,
            r#"{"type":"A","x":{"y":1,"y":2}}"#,
            r#"{"type":"RUN_ERROR"}"#,
            r#"{"type":"RUN_ERROR","message":"m","code":"wikala.cancelled"}"#,
            r#"{"type":"RUN_ERROR","message":"m","code":"wikal\u0061.x"}"#,
            r#"{"type":"CUSTOM","name":"wikala.dispatched","value":1}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":3,"toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_CHUNK","toolCallId":3}"#,
            r#"{"type":"RUN_FINISHED","outcome":"success"}"#,
            r#"{"type":"RUN_FINISHED","outcome":{}}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"paused"}}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[]}}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"a"},{"id":"\u0061"}]}}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"message":"?"}]}}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"success","pendingToolCallIds":[1]}}"#,
        ] {
            assert!(fact(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_witness_speaks_in_its_own_name() {
        let words = |text: &str| read(text).unwrap().words.to_string();
        let plain = r#"{ "type":"RUN_STARTED", "metadata":{"a" :1.10} }"#;
        assert_eq!(words(plain), plain);
        assert_eq!(
            words(
                r#"{"type":"X","metadata":{"a":1.10,"wikala":{"runId":"run_other"},"urn:wikala:witness:1":1},"z":[ 1 ]}"#
            ),
            r#"{"type":"X","metadata":{"a":1.10},"z":[ 1 ]}"#
        );
        assert_eq!(words(r#"{"type":"X","metadat\u0061":{"wik\u0061la":1}}"#), r#"{"type":"X","metadata":{}}"#);
    }
}
