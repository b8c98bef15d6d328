//! What a run has come to, for who joins it: AG-UI has no resumption, and its 1.0 asks that
//! history be told as snapshots (transports). So everything told so far is folded into
//! RUN_STARTED, the state and the messages as snapshots, and the beginnings of what is still
//! open; what no snapshot can hold is told again as it was.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};
use wikala_chain::json;
use wikala_witness::{Dialect, ItemKind, Leg, RunId};

use super::patch::Budget;
use super::rows::{Rows, word};
use crate::delivery::tool_message;

/// The largest frame a client reads is 10 MiB: beyond this the events themselves are told.
const SNAPSHOT: usize = 8 * 1024 * 1024;

/// What was begun and not ended, in the order begun.
#[derive(Debug, Default)]
struct Open {
    begun: BTreeMap<usize, (String, Arc<str>)>,
    places: HashMap<String, usize>,
    next: usize,
}

impl Open {
    fn begin(&mut self, key: String, text: &Arc<str>) {
        self.next += 1;
        if let Some(before) = self.places.insert(key.clone(), self.next) {
            self.begun.remove(&before);
        }
        self.begun.insert(self.next, (key, text.clone()));
    }

    fn end(&mut self, key: &str) {
        self.places.remove(key).map(|at| self.begun.remove(&at));
    }
}

/// A run's events so far.
#[derive(Debug)]
pub(super) struct Picture {
    rows: Rows,
    rows_changed: bool,
    state: Value,
    state_changed: bool,
    budget: Budget,
    /// What no snapshot holds, as told; and whether it is about a subagent.
    again: Vec<(bool, Arc<str>)>,
    /// The leg's RUN_STARTED, and its last word.
    begun: Option<Arc<str>>,
    last: Option<Arc<str>>,
    open: Open,
    /// What is being told in chunks, by the lane it is told in: a chunk without an id goes
    /// on with it.
    chunks: BTreeMap<String, (&'static str, String)>,
    /// It cannot be folded: its events are told instead.
    whole: bool,
}

/// Events beside which a message told in chunks goes on; every other one ends it.
const BESIDE: [&str; 5] =
    ["RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "REASONING_ENCRYPTED_VALUE", "SUBAGENT_STARTED"];

/// What is told in pieces, by its name in event types.
const FAMILIES: [&str; 3] = ["TEXT_MESSAGE", "TOOL_CALL", "REASONING_MESSAGE"];

/// The member that holds the id of such a thing.
fn member(family: &str) -> &'static str {
    if family == "TOOL_CALL" { "toolCallId" } else { "messageId" }
}

impl Picture {
    /// Before the first event: the messages and the state the joiner came with.
    pub(super) fn of(body: &str) -> Picture {
        let mut body: Value = serde_json::from_str(body).unwrap_or_default();
        Picture {
            rows: Rows::of(list(body["messages"].take())),
            rows_changed: false,
            state: body["state"].take(),
            state_changed: false,
            budget: Budget::default(),
            again: Vec::new(),
            begun: None,
            last: None,
            open: Open::default(),
            chunks: BTreeMap::new(),
            whole: false,
        }
    }

    /// It can be shown: a leg began, or all is over.
    pub(super) fn is_ready(&self) -> bool {
        self.begun.is_some() || self.last.is_some()
    }

    /// What a caller said when it answered: its messages, or the results of the calls it
    /// answered by another way. The next leg has yet to begin.
    pub(super) fn answered(&mut self, run: &RunId, leg: &Leg) {
        (self.begun, self.last) = (None, None);
        let items = leg.reply.iter().flatten().filter(|item| item.kind == ItemKind::Call);
        let results = items.map(|item| tool_message(&format!("{run}-{}-{}", leg.ordinal, item.id), item));
        let results: Vec<Value> = results.filter_map(|text| serde_json::from_str(&text).ok()).collect();
        let said = match leg.words.dialect {
            Dialect::AgUi => {
                serde_json::from_str::<Value>(&leg.words.text).map(|mut body| list(body["messages"].take()))
            }
            _ => Ok(results),
        };
        let said = said.unwrap_or_default();
        self.rows_changed |= self.rows.add(said);
    }

    /// The next event that others were told.
    pub(super) fn hear(&mut self, text: &Arc<str>) {
        let Ok(Value::Object(event)) = serde_json::from_str(text) else {
            return self.again.push((false, text.clone()));
        };
        let kind = word(&event, "type").unwrap_or("");
        let id = |name: &str| word(&event, name).unwrap_or("");
        if !BESIDE.contains(&kind) && !kind.ends_with("_CHUNK") {
            self.close(id("subagentRunId"));
        }
        match kind {
            "RUN_STARTED" => {
                (self.begun, self.last) = (Some(text.clone()), None);
                (self.open, self.chunks) = (Open::default(), BTreeMap::new());
                // A run's subagents are its own: the next one may use their ids again.
                self.again.retain(|(subagent, _)| !subagent);
                let echoed = event.get("input").map(|input| list(input["messages"].clone()));
                self.rows.add(echoed.unwrap_or_default());
            }
            "RUN_FINISHED" | "RUN_ERROR" => self.last = Some(text.clone()),
            "STATE_SNAPSHOT" => {
                (self.state, self.state_changed) = (event.get("snapshot").cloned().unwrap_or_default(), true);
            }
            "STATE_DELTA" => match self.budget.patch(&mut self.state, event.get("delta")) {
                Some(done) => self.state_changed |= done,
                None => self.whole = true,
            },
            "STEP_STARTED" | "STEP_FINISHED" => {
                self.opens(kind == "STEP_STARTED", format!("STEP {} {}", id("subagentRunId"), id("stepName")), text);
            }
            "REASONING_START" | "REASONING_END" => {
                self.opens(kind == "REASONING_START", format!("REASONING {}", id("messageId")), text);
            }
            "MESSAGES_SNAPSHOT"
            | "ACTIVITY_SNAPSHOT"
            | "ACTIVITY_DELTA"
            | "REASONING_ENCRYPTED_VALUE"
            | "TOOL_CALL_RESULT" => {
                self.rows_changed = true;
                self.messages(kind, &event);
            }
            _ => {
                let found = FAMILIES.iter().find_map(|family| Some((*family, kind.strip_prefix(family)?)));
                match found {
                    Some((family, "_CHUNK")) => self.chunk(family, &event, text),
                    Some((family, part @ ("_START" | "_CONTENT" | "_ARGS" | "_END"))) => {
                        self.piece(family, part, id(member(family)), &event, text);
                    }
                    _ => self.again.push((kind.starts_with("SUBAGENT_"), text.clone())),
                }
            }
        }
    }

    /// Events about messages that are whole.
    fn messages(&mut self, kind: &str, event: &Map<String, Value>) {
        let id = |name: &str| word(event, name).unwrap_or("");
        match kind {
            "MESSAGES_SNAPSHOT" => {
                // An agent that declares which activities are its own: not followed here.
                self.whole |= event.get("metadata").is_some_and(|metadata| !metadata["ag-ui"].is_null());
                self.chunks.clear();
                self.rows.snapshot(event.get("messages").cloned().map(list).unwrap_or_default());
            }
            "ACTIVITY_SNAPSHOT" => self.rows.activity(id("messageId"), event),
            "ACTIVITY_DELTA" => {
                self.whole |= self.rows.activity_delta(id("messageId"), event, &mut self.budget).is_none();
            }
            "REASONING_ENCRYPTED_VALUE" => self.rows.encrypted(event),
            _ => self.rows.call_result(id("toolCallId"), event),
        }
    }

    fn opens(&mut self, begins: bool, key: String, text: &Arc<str>) {
        if begins { self.open.begin(key, text) } else { self.open.end(&key) }
    }

    /// One part of a message or a call.
    fn piece(&mut self, family: &str, part: &str, id: &str, event: &Map<String, Value>, text: &Arc<str>) {
        self.rows_changed = true;
        let role = if family == "TEXT_MESSAGE" { "assistant" } else { "reasoning" };
        match (family, part) {
            ("TOOL_CALL", "_START") => self.rows.call_start(id, event),
            ("TOOL_CALL", "_END") => self.rows.call_end(id, event),
            ("TOOL_CALL", _) => self.rows.call_args(id, event),
            (_, "_START") => self.rows.start(id, event, role),
            (_, "_END") => self.rows.end(id, event),
            _ => self.rows.content(id, event),
        }
        if matches!(part, "_START" | "_END") {
            self.opens(part == "_START", format!("{family} {id}"), text);
        }
    }

    /// A chunk: the first of a message is its beginning too.
    fn chunk(&mut self, family: &'static str, event: &Map<String, Value>, text: &Arc<str>) {
        let tag = word(event, "subagentRunId").unwrap_or("");
        let mut held = self.chunks.iter().filter(|(_, held)| held.0 == family);
        let found = match word(event, member(family)) {
            Some(id) => {
                let lane = held.find(|(_, held)| held.1 == id).map_or(tag, |(lane, _)| lane);
                Some((lane.to_owned(), id.to_owned()))
            }
            // Without a name it goes on with what its lane tells, or with the only one there is.
            None => {
                let own = self.chunks.get(tag).filter(|held| held.0 == family).map(|held| (tag, held));
                let found = own.or_else(|| held.next().map(|(lane, held)| (lane.as_str(), held)));
                found.map(|(lane, held)| (lane.to_owned(), held.1.clone()))
            }
        };
        let Some((lane, id)) = found else { return self.again.push((false, text.clone())) };
        if self.chunks.get(&lane).is_none_or(|held| held.0 != family || held.1 != id) {
            self.close(&lane);
            self.piece(family, "_START", &id, event, text);
            self.chunks.insert(lane, (family, id.clone()));
        }
        let part = if family == "TOOL_CALL" { "_ARGS" } else { "_CONTENT" };
        self.piece(family, part, &id, event, text);
    }

    /// What was told in chunks in this lane ends with the next other event.
    fn close(&mut self, lane: &str) {
        if let Some((family, id)) = self.chunks.remove(lane) {
            self.open.end(&format!("{family} {id}"));
        }
    }

    /// The events that show it. `None`: they would not do, its own events must be told.
    pub(super) fn show(&mut self) -> Option<Vec<Arc<str>>> {
        if self.whole {
            return None;
        }
        let again = std::mem::take(&mut self.again).into_iter().map(|(_, text)| text);
        let mut events: Vec<Arc<str>> = self.begun.take().into_iter().chain(again).collect();
        if self.state_changed {
            events.push(format!("{{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{}}}", self.state).into());
        }
        if self.rows_changed {
            let messages = Value::Array(std::mem::take(&mut self.rows).into_messages());
            events.push(format!("{{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":{messages}}}").into());
        }
        if events.iter().any(|event| event.len() > SNAPSHOT) {
            return None;
        }
        match self.last.take() {
            Some(last) => events.push(last),
            None => events.extend(self.open.begun.values().map(|(_, text)| opened(text))),
        }
        Some(events)
    }
}

/// A beginning told once more: what it says beside its id is in the snapshot already, and
/// would overwrite what was said later.
fn opened(text: &Arc<str>) -> Arc<str> {
    let has = |name: &str| json::members(text).is_ok_and(|members| members.iter().any(|(member, _)| member == name));
    let mut edits = vec![("metadata", None)];
    if has("delta") {
        edits.push(("delta", Some("\"\"")));
    }
    json::edit(text, &edits).map_or_else(|_| text.clone(), Into::into)
}

/// The elements of a list.
fn list(value: Value) -> Vec<Value> {
    if let Value::Array(list) = value { list } else { Vec::new() }
}
