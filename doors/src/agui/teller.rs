//! Tells a run's record in AG-UI: the provider's words as stored, with the caller's own
//! ids and the witness's note spliced into the two events that begin and end a run,
//! and a last word of ours where the provider has none.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Entry, Mark, RunView};

use crate::bag;

/// Under which names the caller knows the run.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    /// It knows the `cancelled` outcome.
    pub(super) takes_cancelled: bool,
}

/// Tells one run to one caller.
#[derive(Debug)]
pub(super) struct Teller {
    names: Names,
    /// What does not change about the run; `asks` is set for each event.
    note: Value,
    /// A run was started in this stream and not ended.
    started: bool,
    /// Messages, calls, steps begun and not ended: clients refuse a RUN_FINISHED over them.
    open: HashSet<String>,
    /// A RUN_FINISHED waits for the mark after it, which says whether it asks.
    finished: Option<Arc<str>>,
}

impl Teller {
    pub(super) fn new(names: Names, view: &RunView) -> Self {
        Teller { names, note: bag::outward(view), started: false, open: HashSet::new(), finished: None }
    }

    /// One entry of the record, as the events to send.
    pub(super) fn hear(&mut self, entry: &Entry) -> Vec<Arc<str>> {
        let mut events = Vec::new();
        if let Some(text) = self.finished.take() {
            // What it asked then, not what is open now: a replay tells the same.
            let asks: &[String] = if let Entry::Mark(Mark::Paused { asks, .. }) = entry { asks } else { &[] };
            events.push(self.edited(&text, asks));
        }
        match entry {
            Entry::Mark(mark) => events.extend(self.ours(mark)),
            Entry::Words(words) => match self.follow(&words.text).as_deref() {
                Some("RUN_STARTED") => events.push(self.edited(&words.text, &[])),
                Some("RUN_FINISHED") => self.finished = Some(words.text.clone()),
                // Everything else, known or not, is the provider's own bytes.
                _ => events.push(words.text.clone()),
            },
        }
        events
    }

    /// Keeps account of what is begun; the event's type.
    fn follow(&mut self, text: &str) -> Option<String> {
        let members = json::members(text).ok()?;
        let member = |name: &str| members.iter().find(|(key, _)| key == name).and_then(|(_, raw)| json::string(raw));
        let kind = member("type")?;
        if matches!(kind.as_str(), "RUN_STARTED" | "RUN_FINISHED" | "RUN_ERROR") {
            self.started = kind == "RUN_STARTED";
            self.open.clear();
            return Some(kind);
        }
        let id = member(match kind.split('_').next() {
            Some("TOOL") => "toolCallId",
            Some("STEP") => "stepName",
            Some("SUBAGENT") => "subagentRunId",
            _ => "messageId",
        })
        .unwrap_or_default();
        // The family goes with the id: a message and a call may share one.
        let ends = |tail: &str| kind.strip_suffix(tail).map(|family| format!("{family} {id}"));
        if let Some(begun) = ends("_START").or_else(|| ends("_STARTED")) {
            self.open.insert(begun);
        } else if let Some(ended) = ends("_END").or_else(|| ends("_FINISHED")).or_else(|| ends("_ERROR")) {
            self.open.remove(&ended);
        }
        Some(kind)
    }

    /// The caller's ids and our note, spliced into the provider's bytes.
    fn edited(&self, text: &str, asks: &[String]) -> Arc<str> {
        let Ok(mut event) = RawObject::parse(text) else { return text.into() };
        let metadata = event.get("metadata").and_then(|raw| RawObject::parse(raw.get()).ok());
        let mut metadata = metadata.unwrap_or_default();
        let mut note = self.note.clone();
        note["asks"] = asks.into();
        set(&mut metadata, "wikala", note.to_string());
        set(&mut event, "threadId", json::quote(&self.names.thread_id));
        set(&mut event, "runId", json::quote(&self.names.run_id));
        event.set("metadata", metadata.to_raw());
        event.to_raw().get().into()
    }

    /// What we must say ourselves, where the provider has no last word of its own.
    fn ours(&mut self, mark: &Mark) -> Vec<Arc<str>> {
        let Mark::Ended { status, reason, in_words: false, by_provider } = mark else { return Vec::new() };
        if status != "cancelled" {
            let reason = reason.as_deref().unwrap_or("failed");
            let code = if *by_provider { "wikala.failed" } else { code(reason) };
            return vec![error(reason, code).into()];
        }
        // Older clients reject the outcome as malformed, and every client a RUN_FINISHED
        // over a message that is still open. We do not end a guest's message for it.
        if !self.names.takes_cancelled || !self.open.is_empty() {
            return vec![error("the run was cancelled", "wikala.cancelled").into()];
        }
        let mut events = Vec::new();
        if !self.started {
            events.push(self.edited("{\"type\":\"RUN_STARTED\",\"threadId\":\"\",\"runId\":\"\"}", &[]));
        }
        let finished =
            "{\"type\":\"RUN_FINISHED\",\"threadId\":\"\",\"runId\":\"\",\"outcome\":{\"type\":\"cancelled\"}}";
        events.push(self.edited(finished, &[]));
        events
    }
}

fn set(object: &mut RawObject, name: &str, text: String) {
    // Quoted by us or printed by serde_json: JSON in any case.
    if let Ok(raw) = RawValue::from_string(text) {
        object.set(name, raw);
    }
}

/// Our reasons have codes of their own.
fn code(reason: &str) -> &'static str {
    match reason {
        "agent_offline" => "wikala.agent-offline",
        "no_provider_took_it" => "wikala.no-provider-took-it",
        "provider_left_holding_it" => "wikala.provider-left-holding-it",
        "provider_said_too_much" => "wikala.provider-said-too-much",
        "provider_asked_too_much" => "wikala.provider-asked-too-much",
        "provider_stream_ended_without_finishing" => "wikala.provider-stream-ended-without-finishing",
        _ => "wikala.failed",
    }
}

/// A RUN_ERROR of ours.
pub(super) fn error(message: &str, code: &str) -> String {
    format!("{{\"type\":\"RUN_ERROR\",\"message\":{},\"code\":{}}}", json::quote(message), json::quote(code))
}
