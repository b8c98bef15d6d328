//! An A2A agent's words as AG-UI events. Exhaustive: what A2A says and AG-UI has no word
//! for is a `CUSTOM` event named [`EVENT`] with the event as received for its value.
//!
//! | A2A | AG-UI |
//! |---|---|
//! | first word | RUN_STARTED |
//! | artifact, text parts | TEXT_MESSAGE_START/CONTENT/END under the artifact's id |
//! | artifact, other parts, append to an ended one | the same, and CUSTOM |
//! | status message, not final | TEXT_MESSAGE_* under its message id |
//! | INPUT_REQUIRED, AUTH_REQUIRED | RUN_FINISHED, one interrupt: its text, the status in `metadata.a2a` |
//! | COMPLETED, a lone message | its message as text, RUN_FINISHED |
//! | FAILED, REJECTED | RUN_ERROR `a2a.failed`, `a2a.rejected` |
//! | CANCELED | RUN_FINISHED cancelled, RUN_ERROR for older clients |

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};

use crate::a2a::heard::{Kind, kind, state};
use crate::messages::a2a_text;

/// The name of the CUSTOM event that carries what has no other word.
pub const EVENT: &str = "a2a.event";

/// What of an A2A agent's task was told so far in one stream.
#[derive(Debug, Default, Clone)]
pub(super) struct Telling {
    started: bool,
    /// Messages begun and not ended, in the order begun: clients refuse a RUN_FINISHED over them.
    open: BTreeMap<usize, String>,
    /// Messages told, by id: a snapshot tells some of them again.
    told: HashSet<String>,
    begun: usize,
}

/// The last word of a leg, for whoever adds ids and our note to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// RUN_FINISHED, JSON text without ids.
    Finished(String),
    /// RUN_ERROR: message and code.
    Error(String, &'static str),
    /// It was cancelled.
    Cancelled,
}

impl Telling {
    /// A new leg begins: its stream is another one.
    pub(super) fn leg(&mut self) {
        (self.started, self.open) = (false, BTreeMap::new());
    }

    /// RUN_STARTED comes first, once.
    pub(super) fn starts(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }

    /// One event of the agent's, as events to send, and its last word if it is one.
    /// `item`: the id of the ask, when this opened one.
    pub(super) fn hear(&mut self, text: &str, item: Option<&str>) -> (Vec<Arc<str>>, Option<Last>) {
        let mut out = Vec::new();
        let Ok(response) = RawObject::parse(text) else { return (vec![custom(text)], None) };
        let Some((kind, raw)) = kind(&response) else { return (vec![custom(text)], None) };
        let Ok(body) = RawObject::parse(raw.get()) else { return (vec![custom(text)], None) };
        let last = match kind {
            Kind::Message => {
                self.message(&body, &mut out);
                Some(Last::Finished(finished(None)))
            }
            Kind::Artifact => {
                let append = body.get("append").is_some_and(|raw| raw.get() == "true");
                let last = body.get("lastChunk").is_some_and(|raw| raw.get() == "true");
                let whole =
                    body.get("artifact").is_some_and(|artifact| self.artifact(artifact.get(), append, last, &mut out));
                if !whole {
                    out.push(custom(text));
                }
                None
            }
            Kind::Status | Kind::Task => {
                if kind == Kind::Task {
                    self.snapshot(&body, &mut out);
                }
                let Some(status) = body.get("status").map(RawValue::get) else { return (vec![custom(text)], None) };
                let last = self.status(status, item, &mut out);
                let says_more = kind == Kind::Status && body.get("metadata").is_some();
                if last.is_none() && (says_more || state(status).is_none_or(|state| !known(&state))) {
                    out.push(custom(text));
                }
                last
            }
        };
        if last.is_some() {
            self.end_all(&mut out);
        }
        (out, last)
    }

    /// Artifacts of a snapshot that were not told yet.
    fn snapshot(&mut self, task: &RawObject, out: &mut Vec<Arc<str>>) {
        let list = task.get("artifacts").map_or("[]", RawValue::get);
        for artifact in serde_json::from_str::<Vec<&RawValue>>(list).unwrap_or_default() {
            let known = RawObject::parse(artifact.get()).ok().and_then(|members| word(&members, "artifactId"));
            if known.is_some_and(|id| !self.told.contains(&id)) && !self.artifact(artifact.get(), false, true, out) {
                out.push(custom(&format!("{{\"artifactUpdate\":{{\"artifact\":{}}}}}", artifact.get())));
            }
        }
    }

    /// True: all of it was told as text.
    fn artifact(&mut self, text: &str, append: bool, last: bool, out: &mut Vec<Arc<str>>) -> bool {
        let Ok(members) = RawObject::parse(text) else { return false };
        let Some(id) = word(&members, "artifactId") else { return false };
        let list = members.get("parts").map_or("[]", RawValue::get);
        let parts = serde_json::from_str::<Vec<&RawValue>>(list).unwrap_or_default();
        let texts: Vec<Option<String>> =
            parts.iter().map(|part| RawObject::parse(part.get()).ok().and_then(|part| word(&part, "text"))).collect();
        let whole = texts.iter().all(Option::is_some) && members.get("metadata").is_none();
        if append && !self.is_open(&id) && self.told.contains(&id) {
            // Ended before: clients may not hear it go on, so it is told in the one named place.
            return false;
        }
        for text in texts.into_iter().flatten().filter(|text| !text.is_empty()) {
            self.begin(&id, out);
            out.push(event("TEXT_MESSAGE_CONTENT", &id, &format!(",\"delta\":{}", json::quote(&text))));
        }
        self.told.insert(id.clone());
        if last {
            self.end(&id, out);
        }
        whole
    }

    fn status(&mut self, status: &str, item: Option<&str>, out: &mut Vec<Arc<str>>) -> Option<Last> {
        let members = RawObject::parse(status).ok()?;
        let message = members.get("message").and_then(|raw| RawObject::parse(raw.get()).ok());
        let text = message.as_ref().map(a2a_text).filter(|text| !text.is_empty());
        match state(status).as_deref() {
            Some("TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED") => {
                // Without an ask of its own it is the old question, told once more.
                item.map(|id| Last::Finished(finished(Some(&interrupt(id, text.as_deref(), status)))))
            }
            Some("TASK_STATE_COMPLETED") => {
                message.inspect(|message| self.message(message, out));
                Some(Last::Finished(finished(None)))
            }
            Some("TASK_STATE_CANCELED") => Some(Last::Cancelled),
            Some("TASK_STATE_FAILED") => Some(Last::Error(text.unwrap_or_else(|| "failed".to_owned()), "a2a.failed")),
            Some("TASK_STATE_REJECTED") => {
                Some(Last::Error(text.unwrap_or_else(|| "rejected".to_owned()), "a2a.rejected"))
            }
            _ => {
                message.inspect(|message| self.message(message, out));
                None
            }
        }
    }

    /// A whole message of the agent's; what is not text in it is told beside it.
    fn message(&mut self, message: &RawObject, out: &mut Vec<Arc<str>>) {
        let id = word(message, "messageId").unwrap_or_else(|| "message".to_owned());
        if !self.told.insert(id.clone()) {
            return;
        }
        let text = a2a_text(message);
        if !text.is_empty() {
            self.begin(&id, out);
            out.push(event("TEXT_MESSAGE_CONTENT", &id, &format!(",\"delta\":{}", json::quote(&text))));
            self.end(&id, out);
        }
        let list = message.get("parts").map_or("[]", RawValue::get);
        let parts = serde_json::from_str::<Vec<&RawValue>>(list).unwrap_or_default();
        let plain = |part: &&RawValue| RawObject::parse(part.get()).is_ok_and(|part| part.get("text").is_some());
        if !parts.iter().all(plain) || message.get("metadata").is_some() {
            out.push(custom(&format!("{{\"message\":{}}}", message.to_raw().get())));
        }
    }

    fn is_open(&self, id: &str) -> bool {
        self.open.values().any(|open| open == id)
    }

    fn begin(&mut self, id: &str, out: &mut Vec<Arc<str>>) {
        if !self.is_open(id) {
            self.begun += 1;
            self.open.insert(self.begun, id.to_owned());
            out.push(event("TEXT_MESSAGE_START", id, ",\"role\":\"assistant\""));
        }
    }

    fn end(&mut self, id: &str, out: &mut Vec<Arc<str>>) {
        let place = self.open.iter().find(|(_, open)| *open == id).map(|(place, _)| *place);
        if let Some(place) = place {
            self.open.remove(&place);
            out.push(event("TEXT_MESSAGE_END", id, ""));
        }
    }

    /// Ends what is still open: clients refuse an end over it.
    pub(super) fn end_all(&mut self, out: &mut Vec<Arc<str>>) {
        for id in std::mem::take(&mut self.open).into_values() {
            out.push(event("TEXT_MESSAGE_END", &id, ""));
        }
    }
}

fn known(state: &str) -> bool {
    matches!(
        state,
        "TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING" | "TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED"
    )
}

fn word(members: &RawObject, name: &str) -> Option<String> {
    json::string(members.get(name)?.get())
}

fn event(kind: &str, id: &str, rest: &str) -> Arc<str> {
    format!("{{\"type\":\"{kind}\",\"messageId\":{}{rest}}}", json::quote(id)).into()
}

fn custom(value: &str) -> Arc<str> {
    format!("{{\"type\":\"CUSTOM\",\"name\":\"{EVENT}\",\"value\":{value}}}").into()
}

fn finished(interrupt: Option<&str>) -> String {
    let outcome = match interrupt {
        Some(interrupt) => format!("{{\"type\":\"interrupt\",\"interrupts\":[{interrupt}]}}"),
        None => "{\"type\":\"success\"}".to_owned(),
    };
    format!("{{\"type\":\"RUN_FINISHED\",\"threadId\":\"\",\"runId\":\"\",\"outcome\":{outcome}}}")
}

/// The question of a status as an interrupt: its text for people, all of it beside that.
fn interrupt(id: &str, text: Option<&str>, status: &str) -> String {
    let message = text.map(|text| format!(",\"message\":{}", json::quote(text))).unwrap_or_default();
    format!(
        "{{\"id\":{},\"reason\":\"input_required\"{message},\"metadata\":{{\"a2a\":{{\"status\":{status}}}}}}}",
        json::quote(id)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(events: &[Arc<str>]) -> Vec<String> {
        events.iter().map(|event| word(&RawObject::parse(event).unwrap(), "type").unwrap()).collect()
    }

    #[test]
    fn pieces_of_an_artifact_are_one_message() {
        let mut telling = Telling::default();
        let piece = |text: &str, append: bool, last: bool| {
            format!(
                r#"{{"artifactUpdate":{{"artifact":{{"artifactId":"a","parts":[{{"text":"{text}"}}]}},"append":{append},"lastChunk":{last}}}}}"#
            )
        };
        let mut events = Vec::new();
        for (text, append, last) in [("1", false, false), ("2", true, false), ("3", true, true)] {
            events.extend(telling.hear(&piece(text, append, last), None).0);
        }
        let content = "TEXT_MESSAGE_CONTENT";
        assert_eq!(types(&events), ["TEXT_MESSAGE_START", content, content, content, "TEXT_MESSAGE_END"]);
        // Once ended it goes on in the one named place.
        assert_eq!(types(&telling.hear(&piece("4", true, true), None).0), ["CUSTOM"]);
        // A snapshot does not tell it again.
        let task = r#"{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"123"}]}]}}"#;
        assert_eq!(telling.hear(task, None), (vec![], Some(Last::Finished(finished(None)))));
    }

    #[test]
    fn what_has_no_word_stands_in_the_one_named_place_whole() {
        for text in [
            r#"{"artifactUpdate":{"artifact":{"artifactId":"a","parts":[{"raw":"AA=="}]}}}"#,
            r#"{"statusUpdate":{"status":{"state":"TASK_STATE_WORKING"},"metadata":{"progress":0.5}}}"#,
            r#"{"statusUpdate":{"status":{"state":"TASK_STATE_PONDERING"}}}"#,
            r#"{"later":{}}"#,
        ] {
            let (events, last) = Telling::default().hear(text, None);
            assert_eq!((events, last), (vec![custom(text)], None), "{text}");
        }
    }

    #[test]
    fn a_question_is_an_interrupt_with_the_status_beside_it() {
        let status = r#"{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"q","parts":[{"text":"which?"}]}}"#;
        let text = format!("{{\"statusUpdate\":{{\"status\":{status}}}}}");
        let (events, last) = Telling::default().hear(&text, Some("run_1.1"));
        assert!(events.is_empty());
        let Some(Last::Finished(last)) = last else { panic!("{last:?}") };
        let last: serde_json::Value = serde_json::from_str(&last).unwrap();
        let interrupt = &last["outcome"]["interrupts"][0];
        assert_eq!((&interrupt["id"], &interrupt["message"]), (&"run_1.1".into(), &"which?".into()));
        assert_eq!(interrupt["metadata"]["a2a"]["status"], serde_json::from_str::<serde_json::Value>(status).unwrap());
        // The same question once more opens nothing.
        assert_eq!(Telling::default().hear(&text, None).1, None);
    }
}
