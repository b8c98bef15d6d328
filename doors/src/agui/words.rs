//! A provider's AG-UI event: the little the witness decides on, read out of its
//! bytes, and the few members nobody but us may write, spliced out of them. The rest
//! is relayed as received.

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Dialect, Fact, Question, Words};

use crate::bag::URN;

/// Questions and open calls of one pause.
pub const ITEMS: usize = wikala_witness::ASK_ITEMS;

/// An event as it goes on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What the witness decides on.
    pub fact: Fact,
    /// The bytes that are recorded and relayed.
    pub words: Words,
}

/// Reads one event.
///
/// Unknown types are words like any others (AG-UI 1.0 adds types; a relay must not
/// break on them). What is refused ends the run: its provider does not speak the
/// protocol.
///
/// # Errors
/// One sentence: no object, a key twice, no type, a reserved name, a known type
/// without what decides it.
pub fn read(text: &str) -> Result<Event, String> {
    let event = RawObject::parse(text).map_err(|error| format!("event: {error}"))?;
    let kind =
        event.get("type").and_then(|raw| json::string(raw.get())).ok_or("event: type is missing or no string")?;
    let member = |name: &str| event.get(name).and_then(|raw| json::string(raw.get()));
    let needed = |name: &str| member(name).ok_or_else(|| format!("event: {kind} without {name}"));
    let fact = match kind.as_str() {
        "RUN_STARTED" => Fact::Started,
        "TOOL_CALL_START" => Fact::CallOpened(needed("toolCallId")?),
        // The first chunk names the call and its tool; later ones may leave both out.
        "TOOL_CALL_CHUNK" => match (member("toolCallId"), member("toolCallName")) {
            (Some(call), Some(_)) => Fact::CallOpened(call),
            _ => Fact::Said,
        },
        "TOOL_CALL_RESULT" => Fact::CallAnswered(needed("toolCallId")?),
        "RUN_FINISHED" => ended(event.get("outcome"))?,
        "RUN_ERROR" => {
            reserved(event.get("code"))?;
            Fact::Failed(needed("message")?)
        }
        "CUSTOM" => {
            reserved(event.get("name"))?;
            Fact::Said
        }
        _ => Fact::Said,
    };
    Ok(Event { fact, words: Words { dialect: Dialect::AgUi, text: without_our_words(text, &event).into() } })
}

/// A provider must not speak in the witness's name, nor in one that only looks
/// unreadable: half a surrogate pair is dropped or replaced by whoever reads it.
fn reserved(name: Option<&RawValue>) -> Result<(), String> {
    let Some(raw) = name.map(RawValue::get).filter(|raw| *raw != "null") else { return Ok(()) };
    match json::string(raw) {
        Some(name) if name.starts_with("wikala.") => {
            Err(format!("event: {name:?} is the witness's own name, choose another"))
        }
        Some(_) => Ok(()),
        None => Err("event: a name or code that is no text".to_owned()),
    }
}

/// Takes out `metadata.wikala` and `metadata[URN]`: a provider could put another
/// run's id before somebody who signs. Every other byte stays as it came.
fn without_our_words(text: &str, event: &RawObject) -> String {
    let edited = || {
        let metadata = event.get("metadata")?.get();
        let metadata = json::edit(metadata, &[("wikala", None), (URN, None)]).ok()?;
        json::edit(text, &[("metadata", Some(&metadata))]).ok()
    };
    edited().unwrap_or_else(|| text.to_owned())
}

/// The last word of a leg: what it asks, which calls it leaves open.
fn ended(outcome: Option<&RawValue>) -> Result<Fact, String> {
    let mut fact = (Vec::new(), None, false);
    let outcome = match outcome.map(RawValue::get) {
        None | Some("null") => None,
        Some(text) => Some(RawObject::parse(text).map_err(|error| format!("event: outcome {error}"))?),
    };
    if let Some(outcome) = outcome {
        let kind = outcome.get("type").and_then(|raw| json::string(raw.get()));
        match kind.as_deref() {
            Some("interrupt") => fact.0 = questions(outcome.get("interrupts"))?,
            Some("cancelled") => fact.2 = true,
            Some("success") => {
                let pending = outcome.get("pendingToolCallIds").map(RawValue::get).filter(|raw| *raw != "null");
                if let Some(raw) = pending {
                    let ids: Vec<String> =
                        serde_json::from_str(raw).map_err(|_| "event: pendingToolCallIds is no list of ids")?;
                    fact.1 = Some(bounded(ids)?);
                }
            }
            // Read as an end it might hide a question.
            _ => return Err("event: outcome is none of success, interrupt, cancelled".to_owned()),
        }
    }
    let (questions, pending, cancelled) = fact;
    Ok(Fact::Ended { questions, pending, cancelled })
}

/// One pause asks so many things at most: each is looked at beside all others.
fn bounded<T>(list: Vec<T>) -> Result<Vec<T>, String> {
    if list.len() > ITEMS {
        return Err(format!("event: a pause asks {} things, at most {ITEMS} at once", list.len()));
    }
    Ok(list)
}

fn questions(raw: Option<&RawValue>) -> Result<Vec<Question>, String> {
    let raw = raw.map_or("null", RawValue::get);
    let list: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| "event: interrupts is no list")?;
    if list.is_empty() {
        return Err("event: an interrupt outcome without interrupts".to_owned());
    }
    let list = bounded(list)?;
    let mut questions: Vec<Question> = Vec::with_capacity(list.len());
    for interrupt in list {
        let members = RawObject::parse(interrupt.get()).map_err(|error| format!("event: interrupt {error}"))?;
        let text = |name: &str| members.get(name).and_then(|raw| json::string(raw.get()));
        let id = text("id").filter(|id| !id.is_empty()).ok_or("event: an interrupt without id")?;
        if questions.iter().any(|earlier| earlier.id.as_deref() == Some(&id)) {
            // An answer could not tell the two apart.
            return Err("event: an interrupt id stands twice".to_owned());
        }
        if let Some(schema) = wikala_witness::schema::of_question(interrupt.get()) {
            // Compiled here and kept: the desk, which everybody waits for, finds it done.
            let _ = wikala_witness::schema::gate(&schema);
        }
        questions.push(Question {
            id: Some(id),
            call: text("toolCallId"),
            text: interrupt.get().to_owned(),
            owing: None,
        });
    }
    Ok(questions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_are_not_a_providers_to_use_nor_half_of_them() {
        for event in [
            r#"{"type":"CUSTOM","name":"wikala.dispatched"}"#,
            r#"{"type":"CUSTOM","name":"wikala.dispatched\ud800"}"#,
            r#"{"type":"RUN_ERROR","message":"m","code":"wikala.cancelled\udc00"}"#,
            r#"{"type":"RUN_ERROR","message":"m","code":7}"#,
        ] {
            assert!(read(event).is_err(), "{event}");
        }
        assert!(read(r#"{"type":"CUSTOM","name":"wikalas"}"#).is_ok());
        assert!(read(r#"{"type":"RUN_ERROR","message":"m","code":null}"#).is_ok());
    }

    fn fact(text: &str) -> Fact {
        read(text).unwrap().fact
    }

    #[test]
    fn unknown_types_and_members_are_words_as_received() {
        let text = r#"{ "type" : "SOMETHING_NEW", "x": 1.10, "n": 12345678901234567890123 }"#;
        let event = read(text).unwrap();
        assert_eq!(event.fact, Fact::Said);
        assert_eq!(&*event.words.text, text);
    }

    #[test]
    fn escaped_names_are_read_as_they_mean() {
        assert_eq!(fact(r#"{"type":"RUN_STARTED"}"#), Fact::Started);
        assert_eq!(fact(r#"{"t\u0079pe":"RUN\u005fSTARTED"}"#), Fact::Started);
    }

    #[test]
    fn a_key_twice_or_no_type_is_refused() {
        assert!(read(r#"{"type":"RUN_STARTED","type":"CUSTOM"}"#).is_err());
        for text in ["", "[]", "{}", r#"{"type":1}"#, r#"{"type":"RUN_ERROR"}"#, r#"{"type":"TOOL_CALL_START"}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_witness_own_words_are_taken_out_and_its_names_refused() {
        let event =
            read(r#"{"type":"CUSTOM","name":"x","metadata":{"a":1,"wikala":{"runId":"r"},"urn:wikala:witness:1":2}}"#)
                .unwrap();
        assert_eq!(&*event.words.text, r#"{"type":"CUSTOM","name":"x","metadata":{"a":1}}"#);
        assert!(read(r#"{"type":"CUSTOM","name":"wikala.dispatched","value":1}"#).is_err());
        assert!(read(r#"{"type":"RUN_ERROR","message":"m","code":"wikala.cancelled"}"#).is_err());
    }

    #[test]
    fn an_ending_says_what_it_asks() {
        let asked = fact(
            r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"q","reason":"x","toolCallId":"c"}]}}"#,
        );
        let Fact::Ended { questions, .. } = asked else { panic!() };
        assert_eq!(questions[0].id.as_deref(), Some("q"));
        assert_eq!(questions[0].call.as_deref(), Some("c"));
        assert_eq!(questions[0].text, r#"{"id":"q","reason":"x","toolCallId":"c"}"#);
        for outcome in [
            r#"{"type":"interrupt","interrupts":[]}"#,
            r#"{"type":"interrupt"}"#,
            r#"{"type":"interrupt","interrupts":[{"id":"a"},{"id":"\u0061"}]}"#,
            r#"{"type":"paused"}"#,
            r#"{"type":7}"#,
            "{}",
            "\"success\"",
        ] {
            assert!(read(&format!("{{\"type\":\"RUN_FINISHED\",\"outcome\":{outcome}}}")).is_err(), "{outcome}");
        }
        assert_eq!(
            fact(r#"{"type":"RUN_FINISHED","outcome":{"type":"success","pendingToolCallIds":["c"]}}"#),
            Fact::Ended { questions: vec![], pending: Some(vec!["c".into()]), cancelled: false }
        );
        assert_eq!(
            fact(r#"{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}"#),
            Fact::Ended { questions: vec![], pending: None, cancelled: true }
        );
    }
}
