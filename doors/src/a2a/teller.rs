//! A run's record told in A2A: the same telling makes the snapshot of a task and the
//! events of a stream, so whoever joins late sees what the others saw.
//!
//! Statuses come from the witness's marks, not from the provider's RUN_FINISHED:
//! what a leg came to is decided once, and told once.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use wikala_chain::{RawObject, json as strict};
use wikala_witness::{Dialect, Entry, Leg, Mark, Recorded, RunView, Turn};

use crate::bag;

/// A text under way or done.
#[derive(Debug, Clone)]
struct Artifact {
    id: String,
    text: String,
    done: bool,
}

/// The state of the telling.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    run: String,
    thread: String,
    state: &'static str,
    at_s: u64,
    message: Option<Value>,
    artifacts: Vec<Artifact>,
    /// Events A2A has no word for, in order: the one named place.
    unmapped: Vec<Value>,
    interrupts: Vec<Value>,
    pending: Vec<String>,
    cancel_requested: bool,
    /// The last entry heard.
    pub(super) seq: u64,
}

/// What an entry means to a stream.
pub(super) enum Pause {
    /// It goes on.
    No,
    /// The task waits for an answer.
    Interrupted,
    /// The task has ended.
    Terminal,
}

impl Teller {
    /// The beginning of a run.
    pub(super) fn new(view: &RunView) -> Self {
        Teller {
            run: view.run.to_string(),
            thread: view.thread.to_string(),
            state: "TASK_STATE_SUBMITTED",
            at_s: view.times.created_at,
            message: None,
            artifacts: Vec::new(),
            unmapped: Vec::new(),
            interrupts: Vec::new(),
            pending: Vec::new(),
            cancel_requested: false,
            seq: 0,
        }
    }

    /// The telling up to an entry.
    pub(super) fn up_to(view: &RunView, turn: &Turn, seq: u64) -> Self {
        let mut teller = Teller::new(view);
        for recorded in turn.entries.iter().take_while(|recorded| recorded.seq <= seq) {
            teller.hear(recorded);
        }
        teller
    }

    /// Hears an entry; the stream events it makes, and what it means.
    pub(super) fn hear(&mut self, recorded: &Recorded) -> (Vec<Value>, Pause) {
        self.seq = recorded.seq;
        match &recorded.entry {
            Entry::Words(words) => (self.words(&words.text, recorded.at_s), Pause::No),
            Entry::Mark(mark) => self.mark(mark, recorded.at_s),
        }
    }

    fn words(&mut self, text: &str, at_s: u64) -> Vec<Value> {
        let Ok(event) = RawObject::parse(text) else { return Vec::new() };
        let member = |name: &str| event.get(name).and_then(|raw| strict::string(raw.get()));
        match member("type").as_deref() {
            Some("RUN_STARTED") => vec![self.enter("TASK_STATE_WORKING", at_s, None, None)],
            Some("TEXT_MESSAGE_START") => Vec::new(),
            Some("TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_CHUNK") => {
                let id = member("messageId").or_else(|| self.artifacts.last().map(|artifact| artifact.id.clone()));
                match (id, member("delta")) {
                    (Some(id), Some(delta)) if !delta.is_empty() => vec![self.chunk(id, &delta)],
                    _ => Vec::new(),
                }
            }
            Some("TEXT_MESSAGE_END") => self.close(member("messageId")).into_iter().collect(),
            Some("RUN_FINISHED") => {
                let outcome = event.get("outcome").and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
                self.interrupts =
                    outcome.and_then(|outcome| outcome["interrupts"].as_array().cloned()).unwrap_or_default();
                Vec::new()
            }
            // Told by the mark that follows it.
            Some("RUN_ERROR") => Vec::new(),
            _ => {
                let event: Value = serde_json::from_str(text).unwrap_or(Value::Null);
                self.unmapped.push(event.clone());
                vec![self.status("TASK_STATE_WORKING", at_s, None, json!({ "agui_event": event }))]
            }
        }
    }

    fn mark(&mut self, mark: &Mark, at_s: u64) -> (Vec<Value>, Pause) {
        match mark {
            Mark::Opened | Mark::Claimed | Mark::LinkGap { .. } => (Vec::new(), Pause::No),
            Mark::Answered { .. } => {
                self.interrupts.clear();
                self.pending.clear();
                (vec![self.enter("TASK_STATE_WORKING", at_s, None, None)], Pause::No)
            }
            Mark::CancelRequested { .. } => {
                self.cancel_requested = true;
                let marker = json!({ "funduq/cancelRequested": true });
                (vec![self.status(self.state, at_s, self.message.clone(), marker)], Pause::No)
            }
            Mark::Paused { asks, .. } => {
                let known: Vec<&str> = self.interrupts.iter().filter_map(|i| i["id"].as_str()).collect();
                self.pending = asks.iter().filter(|id| !known.contains(&id.as_str())).cloned().collect();
                let message = self.question();
                (vec![self.enter("TASK_STATE_INPUT_REQUIRED", at_s, Some(message), None)], Pause::Interrupted)
            }
            Mark::Ended { status, reason, .. } => {
                let state = match status.as_str() {
                    "completed" => "TASK_STATE_COMPLETED",
                    "cancelled" => "TASK_STATE_CANCELED",
                    _ => "TASK_STATE_FAILED",
                };
                self.cancel_requested = false;
                let message = reason.as_deref().map(|reason| self.said("error", vec![json!({ "text": reason })]));
                (vec![self.enter(state, at_s, message, None)], Pause::Terminal)
            }
        }
    }

    /// The question, readable for a person and whole for a program.
    fn question(&self) -> Value {
        let mut parts: Vec<Value> =
            self.interrupts.iter().filter_map(|i| i["message"].as_str()).map(|text| json!({ "text": text })).collect();
        let mut data = json!({});
        if !self.interrupts.is_empty() {
            data["interrupts"] = self.interrupts.clone().into();
        }
        if !self.pending.is_empty() {
            data["pendingToolCalls"] = self.pending.clone().into();
        }
        parts.push(json!({ "data": data }));
        self.said("question", parts)
    }

    fn said(&self, what: &str, parts: Vec<Value>) -> Value {
        json!({
            "messageId": format!("{}-{what}", self.run), "role": "ROLE_AGENT", "parts": parts,
            "taskId": self.run, "contextId": self.thread,
        })
    }

    fn enter(&mut self, state: &'static str, at_s: u64, message: Option<Value>, metadata: Option<Value>) -> Value {
        self.state = state;
        self.at_s = at_s;
        self.message = message.clone();
        let metadata = metadata.unwrap_or_else(|| self.marks());
        self.status(state, at_s, message, metadata)
    }

    /// What is still open, under the names the reference's clients look for.
    fn marks(&self) -> Value {
        let mut metadata = json!({});
        if !self.interrupts.is_empty() && self.state == "TASK_STATE_INPUT_REQUIRED" {
            metadata["interrupts"] = self.interrupts.clone().into();
        }
        if !self.pending.is_empty() && self.state == "TASK_STATE_INPUT_REQUIRED" {
            metadata["pendingToolCalls"] = self.pending.clone().into();
        }
        if self.cancel_requested {
            metadata["funduq/cancelRequested"] = true.into();
        }
        metadata
    }

    fn status(&self, state: &str, at_s: u64, message: Option<Value>, metadata: Value) -> Value {
        let mut update = json!({
            "taskId": self.run, "contextId": self.thread, "status": { "state": state, "timestamp": timestamp(at_s) },
        });
        if let Some(message) = message {
            update["status"]["message"] = message;
        }
        if metadata.as_object().is_some_and(|members| !members.is_empty()) {
            update["metadata"] = metadata;
        }
        json!({ "statusUpdate": update })
    }

    fn chunk(&mut self, id: String, delta: &str) -> Value {
        let append = match self.artifacts.iter_mut().find(|artifact| artifact.id == id) {
            Some(artifact) => {
                artifact.text.push_str(delta);
                true
            }
            None => {
                self.artifacts.push(Artifact { id: id.clone(), text: delta.to_owned(), done: false });
                false
            }
        };
        self.artifact(&id, delta, append, false)
    }

    fn close(&mut self, id: Option<String>) -> Option<Value> {
        let id = id?;
        let artifact = self.artifacts.iter_mut().find(|artifact| artifact.id == id && !artifact.done)?;
        artifact.done = true;
        Some(self.artifact(&id, "", true, true))
    }

    fn artifact(&self, id: &str, text: &str, append: bool, last: bool) -> Value {
        json!({ "artifactUpdate": {
            "taskId": self.run, "contextId": self.thread,
            "artifact": { "artifactId": id, "parts": [{ "text": text }] },
            "append": append, "lastChunk": last,
        } })
    }

    /// The task as told so far.
    pub(super) fn task(&self, view: &RunView, legs: &[Leg], history: Option<usize>, artifacts: bool) -> Value {
        let mut task = json!({
            "id": self.run, "contextId": self.thread,
            "status": { "state": self.state, "timestamp": timestamp(self.at_s) },
        });
        if let Some(message) = &self.message {
            task["status"]["message"] = message.clone();
        }
        if artifacts && !self.artifacts.is_empty() {
            task["artifacts"] = self
                .artifacts
                .iter()
                .map(|artifact| json!({ "artifactId": artifact.id, "parts": [{ "text": artifact.text }] }))
                .collect();
        }
        let mut said = self.history(legs);
        match history {
            Some(0) => {}
            limit => {
                said.drain(..said.len().saturating_sub(limit.unwrap_or(usize::MAX)));
                task["history"] = said.into();
            }
        }
        let mut metadata = self.marks();
        if artifacts && !self.unmapped.is_empty() {
            metadata["agui_events"] = self.unmapped.clone().into();
        }
        metadata[bag::URN] = bag::outward(view);
        task["metadata"] = metadata;
        task
    }

    /// What was said: the callers' messages as received, the agent's texts.
    fn history(&self, legs: &[Leg]) -> Vec<Value> {
        let mut said: Vec<Value> = legs.iter().filter_map(|leg| self.callers(leg)).collect();
        said.extend(self.artifacts.iter().map(|artifact| {
            json!({
                "messageId": artifact.id, "role": "ROLE_AGENT", "parts": [{ "text": artifact.text }],
                "taskId": self.run, "contextId": self.thread,
            })
        }));
        said
    }

    fn callers(&self, leg: &Leg) -> Option<Value> {
        let body = RawObject::parse(&leg.words.text).ok()?;
        let ids = |mut message: Value| {
            message["taskId"] = self.run.clone().into();
            message["contextId"] = self.thread.clone().into();
            message
        };
        match leg.words.dialect {
            Dialect::A2a => Some(ids(serde_json::from_str(body.get("message")?.get()).ok()?)),
            Dialect::AgUi => {
                let messages: Vec<&RawValue> = serde_json::from_str(body.get("messages")?.get()).ok()?;
                let last = RawObject::parse(messages.last()?.get()).ok()?;
                let id = strict::string(last.get("id")?.get())?;
                let text =
                    last.get("content").map(|raw| strict::string(raw.get()).unwrap_or_else(|| raw.get().to_owned()))?;
                Some(ids(json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] })))
            }
            Dialect::Plain => {
                let text = strict::string(&leg.words.text)?;
                Some(ids(json!({
                    "messageId": format!("{}-answer-{}", self.run, leg.ordinal), "role": "ROLE_USER", "parts": [{ "text": text }],
                })))
            }
        }
    }
}

/// RFC 3339 UTC with milliseconds.
pub(super) fn timestamp(at_s: u64) -> String {
    let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at_s.min(253_402_300_799));
    humantime::format_rfc3339_millis(at).to_string()
}
