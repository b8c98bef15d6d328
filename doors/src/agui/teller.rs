//! Tells a run's record in AG-UI: the provider's words as stored, with the caller's own
//! ids and the witness's note spliced into the two events that begin and end a run,
//! and a last word of ours where the provider has none.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Dialect, Entry, Fact, Mark, RunView};

use super::from_a2a::{Last, Telling};
use crate::a2a::heard;
use crate::bag;
use crate::obligations;

/// Under which names the caller knows the run.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    /// It knows the `cancelled` outcome.
    pub(super) takes_cancelled: bool,
}

/// Tells one run to one caller.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    names: Names,
    /// What does not change about the run; `asks` is set for each event.
    note: Value,
    /// What the run was opened to answer, as it stood when the stream began.
    owed: Option<String>,
    /// A run was started in this stream and not ended.
    started: bool,
    /// Messages, calls, steps begun and not ended: clients refuse a RUN_FINISHED over them.
    open: HashSet<String>,
    /// A RUN_FINISHED waits for the mark after it, which says whether it asks.
    finished: Option<Arc<str>>,
    /// What an A2A agent said so far.
    a2a: Telling,
    /// Its newest words wait for the mark that says what they mean.
    held: Option<Arc<str>>,
}

impl Teller {
    pub(super) fn new(names: Names, view: &RunView) -> Self {
        Teller {
            names,
            note: bag::outward(view),
            owed: view.owed.as_ref().map(|owed| bag::stands(owed).to_string()),
            started: false,
            open: HashSet::new(),
            finished: None,
            a2a: Telling::default(),
            held: None,
        }
    }

    /// One entry of the record, as the events to send.
    pub(super) fn hear(&mut self, entry: &Entry) -> Vec<Arc<str>> {
        let mut events = Vec::new();
        if let Some(text) = self.finished.take() {
            // What it asked then, not what is open now: a replay tells the same.
            let asks: &[String] = if let Entry::Mark(Mark::Paused { asks, .. }) = entry { asks } else { &[] };
            events.push(self.edited(&text, asks));
        }
        if let Some(text) = self.held.take() {
            let asks: &[String] = if let Entry::Mark(Mark::Paused { asks, .. }) = entry { asks } else { &[] };
            self.a2a_said(&text, asks, entry, &mut events);
        }
        match entry {
            Entry::Mark(mark) => {
                if matches!(mark, Mark::Answered { .. }) {
                    self.a2a.leg();
                }
                events.extend(self.ours(mark));
            }
            // Whether it is a last word the mark after it says, if one follows.
            Entry::Words(words) if words.dialect == Dialect::A2a => {
                let held = heard::read(&words.text)
                    .is_ok_and(|heard| matches!(heard.fact, Fact::Ended { .. } | Fact::Failed(_)));
                if held {
                    self.held = Some(words.text.clone());
                } else {
                    self.a2a_said(&words.text, &[], entry, &mut events);
                }
            }
            Entry::Words(words) => match self.follow(&words.text).as_deref() {
                Some("RUN_STARTED") => events.push(self.edited(&words.text, &[])),
                Some("RUN_FINISHED") => self.finished = Some(words.text.clone()),
                // Everything else, known or not, is the provider's own bytes.
                _ => events.push(words.text.clone()),
            },
        }
        events
    }

    /// An A2A agent's words, in this protocol's. A last word counts only where the mark
    /// after it says so.
    fn a2a_said(&mut self, text: &str, asks: &[String], entry: &Entry, events: &mut Vec<Arc<str>>) {
        if self.a2a.starts() {
            events.push(self.edited("{\"type\":\"RUN_STARTED\",\"threadId\":\"\",\"runId\":\"\"}", &[]));
        }
        // An upstream's own ids name nothing here.
        let id = |name: &str| self.note[name].as_str().unwrap_or_default();
        let patched = crate::a2a::patched(text, id("runId"), id("threadId"));
        let text = patched.as_deref().unwrap_or(text);
        let (told, last) = self.a2a.hear(text, asks.first().map(String::as_str));
        events.extend(told);
        let settled = matches!(entry, Entry::Mark(Mark::Paused { .. } | Mark::Ended { in_words: true, .. }));
        match last.filter(|_| settled) {
            None => {}
            Some(Last::Finished(text)) => events.push(self.edited(&text, asks)),
            Some(Last::Error(message, code)) => events.push(error(&message, code).into()),
            Some(Last::Cancelled) if self.names.takes_cancelled => {
                let finished =
                    "{\"type\":\"RUN_FINISHED\",\"threadId\":\"\",\"runId\":\"\",\"outcome\":{\"type\":\"cancelled\"}}";
                events.push(self.edited(finished, &[]));
            }
            Some(Last::Cancelled) => events.push(error("the run was cancelled", "wikala.cancelled").into()),
        }
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
        let Ok(event) = RawObject::parse(text) else { return text.into() };
        let mut note = self.note.clone();
        note["asks"] = asks.into();
        let metadata = event.get("metadata").map(RawValue::get).filter(|raw| raw.starts_with('{')).unwrap_or("{}");
        let note = note.to_string();
        let mut notes = vec![("wikala", Some(&*note))];
        notes.extend(self.owed.as_deref().map(|owed| (obligations::EXTENSION, Some(owed))));
        let metadata = json::edit(metadata, &notes).unwrap_or_default();
        let (thread, run) = (json::quote(&self.names.thread_id), json::quote(&self.names.run_id));
        let edits = [("threadId", Some(&*thread)), ("runId", Some(&*run)), ("metadata", Some(&*metadata))];
        json::edit(text, &edits).map_or_else(|_| text.into(), Into::into)
    }

    /// What we must say ourselves, where the provider has no last word of its own.
    fn ours(&mut self, mark: &Mark) -> Vec<Arc<str>> {
        let Mark::Ended { status, reason, in_words: false, by_provider } = mark else { return Vec::new() };
        let mut events = Vec::new();
        self.a2a.end_all(&mut events);
        events.extend(self.verdict(status, reason.as_deref(), *by_provider));
        events
    }

    fn verdict(&mut self, status: &str, reason: Option<&str>, by_provider: bool) -> Vec<Arc<str>> {
        if status != "cancelled" {
            let reason = reason.unwrap_or("failed");
            let code = if by_provider { "wikala.failed" } else { code(reason) };
            let mut events = Vec::new();
            if !self.started && self.owed.is_some() && self.a2a.starts() {
                // An answer is owed all the same: its id stands in what begins a run.
                events.push(self.edited("{\"type\":\"RUN_STARTED\",\"threadId\":\"\",\"runId\":\"\"}", &[]));
            }
            events.push(error(reason, code).into());
            return events;
        }
        // Older clients reject the outcome as malformed, and every client a RUN_FINISHED
        // over a message that is still open. We do not end a guest's message for it.
        if !self.names.takes_cancelled || !self.open.is_empty() {
            return vec![error("the run was cancelled", "wikala.cancelled").into()];
        }
        let mut events = Vec::new();
        if !self.started && self.a2a.starts() {
            events.push(self.edited("{\"type\":\"RUN_STARTED\",\"threadId\":\"\",\"runId\":\"\"}", &[]));
        }
        let finished =
            "{\"type\":\"RUN_FINISHED\",\"threadId\":\"\",\"runId\":\"\",\"outcome\":{\"type\":\"cancelled\"}}";
        events.push(self.edited(finished, &[]));
        events
    }
}

/// Our reasons have codes of their own.
fn code(reason: &str) -> &'static str {
    // Details stand behind a colon.
    match reason.split(':').next().unwrap_or(reason) {
        "upstream_unreachable" => "wikala.upstream-unreachable",
        "upstream_refused" => "wikala.upstream-refused",
        "upstream_lost" => "wikala.upstream-lost",
        "upstream_truncated" => "wikala.upstream-truncated",
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
