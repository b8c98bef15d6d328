//! The messages of a conversation as its events leave them, put together the way AG-UI's
//! own client does (npm `@ag-ui/client` 1.0.0): for who joins late, and must end up with
//! what everybody else has.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::patch::Budget;

/// A message, and the results of the calls it makes, which stand right behind it.
#[derive(Debug, Default)]
struct Row {
    message: Value,
    results: Vec<Value>,
}

/// Where a message stands: its row, and which of its results it is.
type Place = (usize, Option<usize>);

/// The messages, found by id at the cost of one look: how many there are is the agent's choice.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    ids: HashMap<String, Place>,
    calls: HashMap<String, (usize, usize)>,
}

/// A member that is a string.
pub(super) fn word<'a>(event: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    event.get(name).and_then(Value::as_str)
}

impl Rows {
    /// These messages, in this order.
    pub(super) fn of(messages: Vec<Value>) -> Rows {
        let mut rows = Rows::default();
        messages.into_iter().for_each(|message| rows.push(message));
        rows
    }

    /// All of them, in order.
    pub(super) fn into_messages(self) -> Vec<Value> {
        self.rows.into_iter().flat_map(|row| std::iter::once(row.message).chain(row.results)).collect()
    }

    /// One more at the end; a result goes on where results of the same calls end.
    fn push(&mut self, message: Value) {
        if !message.is_object() {
            return;
        }
        let calls_before = |row: &Row| row.message["toolCalls"].is_array();
        match self.rows.last() {
            Some(last) if message["role"] == "tool" && calls_before(last) => self.result(self.rows.len() - 1, message),
            _ => self.row(message),
        }
    }

    fn row(&mut self, message: Value) {
        let at = self.rows.len();
        if let Some(id) = message["id"].as_str() {
            self.ids.entry(id.to_owned()).or_insert((at, None));
        }
        for (n, call) in message["toolCalls"].as_array().into_iter().flatten().enumerate() {
            if let Some(id) = call["id"].as_str() {
                self.calls.entry(id.to_owned()).or_insert((at, n));
            }
        }
        self.rows.push(Row { message, results: Vec::new() });
    }

    fn result(&mut self, row: usize, message: Value) {
        if let Some(id) = message["id"].as_str() {
            self.ids.entry(id.to_owned()).or_insert((row, Some(self.rows[row].results.len())));
        }
        self.rows[row].results.push(message);
    }

    /// Those that are not there yet: clients resend whole histories. Whether there were any.
    pub(super) fn add(&mut self, messages: Vec<Value>) -> bool {
        let mut added = false;
        for message in messages {
            if message["id"].as_str().is_none_or(|id| !self.ids.contains_key(id)) {
                added = true;
                let owner = message["toolCallId"].as_str().and_then(|call| self.calls.get(call)).map(|(row, _)| *row);
                match owner.filter(|_| message["role"] == "tool") {
                    Some(row) => self.result(row, message),
                    None => self.push(message),
                }
            }
        }
        added
    }

    /// The message with this id, unless it is an activity's: text is not written into one.
    fn text(&mut self, id: &str) -> Option<&mut Value> {
        self.message(id).filter(|message| message["role"] != "activity")
    }

    fn message(&mut self, id: &str) -> Option<&mut Value> {
        let (row, result) = *self.ids.get(id)?;
        let row = self.rows.get_mut(row)?;
        match result {
            None => Some(&mut row.message),
            Some(at) => row.results.get_mut(at),
        }
    }

    fn call(&mut self, id: &str) -> Option<&mut Value> {
        let (row, at) = *self.calls.get(id)?;
        let call = self.rows.get_mut(row)?.message["toolCalls"].get_mut(at)?;
        // A guest's list may hold anything; what is no call is left as it is.
        (call["function"].is_object() || call["function"].is_null()).then_some(call)
    }

    /// A message begins, or is opened again; a role where the event names none.
    pub(super) fn start(&mut self, id: &str, event: &Map<String, Value>, role: &str) {
        if !self.ids.contains_key(id) {
            let mut message = json!({ "id": id, "role": word(event, "role").unwrap_or(role), "content": "" });
            carry(&mut message, event, &["name", "subagentRunId"]);
            self.row(message);
        }
        self.text(id).into_iter().for_each(|message| note(message, event));
    }

    /// A piece of a message.
    pub(super) fn content(&mut self, id: &str, event: &Map<String, Value>) {
        let Some(message) = self.text(id) else { return };
        match (&mut message["content"], word(event, "delta").unwrap_or("")) {
            (Value::String(content), delta) => content.push_str(delta),
            (other, delta) => *other = delta.into(),
        }
        note(message, event);
    }

    /// A message ends: what is said late about it.
    pub(super) fn end(&mut self, id: &str, event: &Map<String, Value>) {
        self.text(id).into_iter().for_each(|message| note(message, event));
    }

    /// A call is announced, or announced again.
    pub(super) fn call_start(&mut self, id: &str, event: &Map<String, Value>) {
        let name = word(event, "toolCallName").unwrap_or("");
        if !self.calls.contains_key(id) {
            let parent = word(event, "parentMessageId");
            let known = parent.and_then(|parent| self.ids.get(parent).copied());
            let row = match known {
                Some((row, None)) if self.rows[row].message["role"] == "assistant" => row,
                _ => {
                    // A parent's id that somebody else bears is no name for a new message.
                    let own = parent.filter(|_| known.is_none()).unwrap_or(id);
                    let mut message = json!({ "id": own, "role": "assistant" });
                    carry(&mut message, event, &["subagentRunId"]);
                    self.row(message);
                    self.rows.len() - 1
                }
            };
            let call = json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
            let calls = &mut self.rows[row].message["toolCalls"];
            let mut list = if let Value::Array(list) = calls.take() { list } else { Vec::new() };
            self.calls.insert(id.to_owned(), (row, list.len()));
            list.push(call);
            *calls = list.into();
        }
        let Some(call) = self.call(id) else { return };
        call["function"]["name"] = name.into();
        note(call, event);
    }

    /// A piece of a call's arguments.
    pub(super) fn call_args(&mut self, id: &str, event: &Map<String, Value>) {
        let Some(call) = self.call(id) else { return };
        if let Value::String(arguments) = &mut call["function"]["arguments"] {
            arguments.push_str(word(event, "delta").unwrap_or(""));
        }
        note(call, event);
    }

    /// A call ends: what is said late about it.
    pub(super) fn call_end(&mut self, id: &str, event: &Map<String, Value>) {
        self.call(id).into_iter().for_each(|call| note(call, event));
    }

    /// The result of a call.
    pub(super) fn call_result(&mut self, call: &str, event: &Map<String, Value>) {
        let mut message = json!({ "id": word(event, "messageId").unwrap_or(call), "toolCallId": call, "role": "tool" });
        carry(&mut message, event, &["content", "subagentRunId"]);
        note(&mut message, event);
        match self.calls.get(call).map(|(row, _)| *row) {
            Some(row) => self.result(row, message),
            None => self.row(message),
        }
    }

    /// An encrypted value of a message or a call.
    pub(super) fn encrypted(&mut self, event: &Map<String, Value>) {
        let (Some(id), Some(value)) = (word(event, "entityId"), event.get("encryptedValue")) else { return };
        let target = if word(event, "subtype") == Some("tool-call") { self.call(id) } else { self.text(id) };
        target.into_iter().for_each(|target| target["encryptedValue"] = value.clone());
    }

    /// An activity as it is.
    pub(super) fn activity(&mut self, id: &str, event: &Map<String, Value>) {
        let mut fresh = json!({ "id": id, "role": "activity" });
        carry(&mut fresh, event, &["activityType", "content", "subagentRunId"]);
        let replaces = event.get("replace") != Some(&Value::Bool(false));
        match self.message(id) {
            None => self.row(fresh),
            Some(message) if replaces => {
                let before = message.get("metadata").cloned().filter(|_| message["role"] == "activity");
                before.into_iter().for_each(|before| fresh["metadata"] = before);
                *message = fresh;
            }
            Some(_) => {}
        }
        self.message(id).into_iter().for_each(|message| note(message, event));
    }

    /// A change of an activity. `None`: it costs too much to follow.
    pub(super) fn activity_delta(&mut self, id: &str, event: &Map<String, Value>, budget: &mut Budget) -> Option<()> {
        let Some(message) = self.message(id).filter(|message| message["role"] == "activity") else { return Some(()) };
        note(message, event);
        if budget.patch(&mut message["content"], event.get("patch"))? {
            carry(message, event, &["activityType"]);
        }
        Some(())
    }

    /// All messages anew: those it leaves out are gone, but for activities and reasoning,
    /// which agents that keep none leave out as well.
    pub(super) fn snapshot(&mut self, messages: Vec<Value>) {
        let role = |role: &'static str| messages.iter().any(|message| message["role"] == role);
        let (activities, reasoning) = (role("activity"), role("reasoning"));
        let mut fresh: HashMap<String, Value> = HashMap::new();
        let mut order = Vec::new();
        for message in messages {
            let id = message["id"].as_str().unwrap_or_default().to_owned();
            if fresh.insert(id.clone(), message).is_none() {
                order.push(id);
            }
        }
        let mut kept = Vec::new();
        let mut told = HashSet::new();
        for message in std::mem::take(self).into_messages() {
            let id = message["id"].as_str().unwrap_or_default();
            let stays = match message["role"].as_str() {
                Some("activity") => !activities,
                Some("reasoning") => !reasoning,
                _ => false,
            };
            match fresh.get(id) {
                Some(new) if told.insert(id.to_owned()) => kept.push(new.clone()),
                None if stays => kept.push(message),
                _ => {}
            }
        }
        kept.extend(order.into_iter().filter(|id| !told.contains(id)).filter_map(|id| fresh.remove(&id)));
        *self = Rows::of(kept);
    }
}

/// Members of the event that the message keeps.
fn carry(message: &mut Value, event: &Map<String, Value>, names: &[&str]) {
    for name in names {
        if let Some(value) = event.get(*name).filter(|value| !value.is_null()) {
            message[*name] = value.clone();
        }
    }
}

/// An event's metadata goes with what it builds, key by key, the last word counting.
fn note(target: &mut Value, event: &Map<String, Value>) {
    let Some(metadata) = event.get("metadata").and_then(Value::as_object) else { return };
    if !target["metadata"].is_object() {
        target["metadata"] = json!({});
    }
    for (name, value) in metadata {
        target["metadata"][name.as_str()] = value.clone();
    }
}
