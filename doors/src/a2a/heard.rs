//! What an A2A agent says, a `StreamResponse` of A2A 1.0: the little the witness decides
//! on, read out of its bytes, and the members nobody but us may write, spliced out of them.

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Dialect, Fact, Question, UpstreamNames, Words};

use super::fields::camel;
use crate::bag::URN;

/// An event as it goes on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// What the witness decides on.
    pub fact: Fact,
    /// The bytes that are recorded and relayed.
    pub words: Words,
    /// What the agent calls thread and run.
    pub names: UpstreamNames,
    /// The status it tells, JSON text.
    pub status: Option<String>,
}

/// One of the four things a stream says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The task as it is.
    Task,
    /// An answer without a task.
    Message,
    /// A new status.
    Status,
    /// An artifact, or a piece of one.
    Artifact,
}

impl Kind {
    /// The member's name, as ProtoJSON spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Message => "message",
            Kind::Status => "statusUpdate",
            Kind::Artifact => "artifactUpdate",
        }
    }
}

const KINDS: [Kind; 4] = [Kind::Task, Kind::Message, Kind::Status, Kind::Artifact];

/// The thing a stream event says, JSON text: `{"task": …}` and its three siblings.
#[must_use]
pub fn kind(response: &RawObject) -> Option<(Kind, &RawValue)> {
    KINDS.into_iter().find_map(|kind| response.get(kind.name()).map(|raw| (kind, raw)))
}

/// Reads one event.
///
/// # Errors
/// One sentence: no object, a key twice, none of the four.
pub fn read(text: &str) -> Result<Heard, String> {
    let response = RawObject::parse(text).map_err(|error| format!("event: {error}"))?;
    // Readers differ in which of two they take, and SDKs take another spelling for the name:
    // what was decided on here must be what they read.
    let says = response.iter().filter(|(name, _)| KINDS.iter().any(|kind| kind.name() == camel(name))).count();
    if says > 1 {
        return Err("event: says several things at once, one of task, message, statusUpdate, artifactUpdate".to_owned());
    }
    let (kind, raw) = kind(&response).ok_or("event: none of task, message, statusUpdate, artifactUpdate")?;
    let body = RawObject::parse(raw.get()).map_err(|error| format!("event: {} {error}", kind.name()))?;
    let word = |name: &str| body.get(name).and_then(|raw| json::string(raw.get())).filter(|text| !text.is_empty());
    let names =
        UpstreamNames { context: word("contextId"), task: word(if kind == Kind::Task { "id" } else { "taskId" }) };
    let status = body.get("status").map(|raw| raw.get().to_owned()).filter(|raw| raw != "null");
    let fact = match (kind, &status) {
        // A whole answer, and nothing that could go on.
        (Kind::Message, _) => Fact::Ended { questions: Vec::new(), pending: Some(Vec::new()), cancelled: false },
        (Kind::Task | Kind::Status, Some(status)) => fact(status),
        (Kind::Task, None) => Fact::Started,
        _ => Fact::Said,
    };
    Ok(Heard {
        fact,
        words: Words { dialect: Dialect::A2a, text: without_our_words(text, kind, &body).into() },
        names,
        status,
    })
}

/// A status's state: its name on the wire, from its name or its number (ProtoJSON).
#[must_use]
pub fn state(status: &str) -> Option<String> {
    const NAMES: [&str; 9] = [
        "UNSPECIFIED",
        "SUBMITTED",
        "WORKING",
        "COMPLETED",
        "FAILED",
        "CANCELED",
        "INPUT_REQUIRED",
        "REJECTED",
        "AUTH_REQUIRED",
    ];
    let raw = RawObject::parse(status).ok()?;
    let raw = raw.get("state")?.get();
    match json::string(raw) {
        Some(name) => Some(name),
        None => NAMES.get(raw.parse::<usize>().ok()?).map(|name| format!("TASK_STATE_{name}")),
    }
}

fn fact(status: &str) -> Fact {
    let ended = |questions, cancelled| Fact::Ended { questions, pending: Some(Vec::new()), cancelled };
    match state(status).as_deref() {
        Some("TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING") => Fact::Started,
        // Authorization is a question like any other: a state alone grants nothing.
        Some("TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED") => {
            ended(vec![Question { id: None, call: None, text: status.to_owned(), owing: None }], false)
        }
        Some("TASK_STATE_COMPLETED") => ended(Vec::new(), false),
        Some("TASK_STATE_CANCELED") => ended(Vec::new(), true),
        Some("TASK_STATE_FAILED") => Fact::Failed(sentence(status, "failed")),
        Some("TASK_STATE_REJECTED") => Fact::Failed(sentence(status, "rejected")),
        // A state of a later day: relayed, decides nothing.
        _ => Fact::Said,
    }
}

/// What its message says, for a reason.
fn sentence(status: &str, otherwise: &str) -> String {
    let message = RawObject::parse(status).ok().and_then(|status| RawObject::parse(status.get("message")?.get()).ok());
    let text = message.map(|message| crate::messages::a2a_text(&message)).filter(|text| !text.is_empty());
    text.unwrap_or_else(|| otherwise.to_owned())
}

/// Takes our own names out of every `metadata` we also write: an agent could put another
/// run's id before somebody who signs.
fn without_our_words(text: &str, kind: Kind, body: &RawObject) -> String {
    let Some(metadata) = body.get("metadata").map(RawValue::get) else { return text.to_owned() };
    if RawObject::parse(metadata).is_ok_and(|members| members.get(URN).is_none()) {
        return text.to_owned();
    }
    let edited = || {
        let metadata = json::edit(metadata, &[(URN, None)]).ok()?;
        edit_inside(text, &[kind.name()], "metadata", Some(&metadata))
    };
    edited().unwrap_or_else(|| text.to_owned())
}

/// Edits a member of an object that stands inside others, at this path.
fn edit_inside(text: &str, path: &[&str], name: &str, new: Option<&str>) -> Option<String> {
    match path.split_first() {
        None => json::edit(text, &[(name, new)]).ok(),
        Some((outer, rest)) => {
            let inner = RawObject::parse(text).ok()?.get(outer)?.get().to_owned();
            let inner = edit_inside(&inner, rest, name, new)?;
            json::edit(text, &[(outer, Some(&inner))]).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_a_fact_and_one_of_a_later_day_is_none() {
        let says = |state: &str| {
            read(&format!(
                "{{\"statusUpdate\":{{\"taskId\":\"t\",\"contextId\":\"c\",\"status\":{{\"state\":{state}}}}}}}"
            ))
            .unwrap()
        };
        for started in ["\"TASK_STATE_WORKING\"", "2", "\"TASK_STATE_SUBMITTED\"", "1"] {
            assert_eq!(says(started).fact, Fact::Started, "{started}");
        }
        for asks in ["\"TASK_STATE_INPUT_REQUIRED\"", "6", "\"TASK_STATE_AUTH_REQUIRED\"", "8"] {
            assert!(matches!(says(asks).fact, Fact::Ended { questions, .. } if questions.len() == 1), "{asks}");
        }
        assert!(matches!(says("5").fact, Fact::Ended { cancelled: true, .. }));
        assert_eq!(says("7").fact, Fact::Failed("rejected".into()));
        assert_eq!(says("\"TASK_STATE_PONDERING\"").fact, Fact::Said);
        assert_eq!(says("99").fact, Fact::Said);
        let heard = says("3");
        assert_eq!(heard.names, UpstreamNames { context: Some("c".into()), task: Some("t".into()) });
    }

    #[test]
    fn bytes_stay_as_they_came_but_for_our_own_names() {
        let text = "{ \"task\" : {\"id\":\"t\",\"x\":1.10,\"metadata\":{ \"a\":1e2 }} }";
        assert_eq!(&*read(text).unwrap().words.text, text);
        let ours = text.replace("{ \"a\":1e2 }", &format!("{{ \"a\":1e2 ,\"{URN}\":{{\"runId\":\"run_x\"}} }}"));
        assert_eq!(&*read(&ours).unwrap().words.text, text);
        for bad in ["", "[]", "{}", "{\"task\":1}", "{\"task\":{\"id\":\"a\",\"id\":\"b\"}}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
