//! A task, written out of its record: JSON text, so that what was received stays the
//! bytes it was.

use std::time::{Duration, SystemTime};

use wikala_chain::{RawObject, json};
use wikala_witness::{AskView, Dialect, ItemKind, Leg, ReplyItem, RunView};

use super::draft::{Draft, Line, State, Told};
use super::heard::{Kind, kind};
use super::relayed::{self, Ids};
use crate::bag::{self, URN};
use crate::obligations;

/// Who asked to stop waits for the provider: A2A has no state for that.
pub(super) const CANCEL_REQUESTED: &str = "funduq/cancelRequested";

/// What is read beside the entries: read after them, so it knows at least as much.
#[derive(Debug, Clone)]
pub(super) struct Sheet {
    pub(super) view: RunView,
    pub(super) legs: Vec<Leg>,
}

impl Sheet {
    /// Told to whom a request came from again: what it demands is no second one.
    pub(super) fn of(mut self, duplicate: bool) -> Sheet {
        if let Some(owed) = self.view.owed.as_mut() {
            owed.duplicate |= duplicate;
        }
        self
    }
}

/// How much of a task is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Show {
    /// The last so many messages; `None`: all.
    pub(super) history: Option<u64>,
    /// Artifacts, and the events the protocol has no word for.
    pub(super) artifacts: bool,
}

/// The whole task.
pub(super) fn task(draft: &Draft, sheet: &Sheet, show: Show) -> String {
    let view = &sheet.view;
    let answer = |ordinal| said(Line::Answer(ordinal), draft, sheet);
    if let Some(told) = draft.relayed.task(ids(sheet), &status(draft, sheet), &answer, show.artifacts) {
        // The agent speaks the same protocol: its own task, with our words beside its.
        return relayed::history(&noted(&told, &notes(draft, sheet)), show.history);
    }
    let mut members = vec![
        ("id", json::quote(view.run.as_str())),
        ("contextId", json::quote(context(sheet))),
        ("status", status(draft, sheet)),
    ];
    if show.artifacts && !draft.artifacts.is_empty() {
        members.push(("artifacts", list(draft.artifacts.iter().map(|(id, text)| artifact(id, text)))));
    }
    if show.history != Some(0) {
        let mut history: Vec<String> = draft.lines.iter().filter_map(|line| said(*line, draft, sheet)).collect();
        let all = history.len();
        let from = show.history.map_or(0, |last| all.saturating_sub(usize::try_from(last).unwrap_or(usize::MAX)));
        history.drain(..from);
        members.push(("history", list(history.into_iter())));
    }
    let mut metadata = notes(draft, sheet);
    if show.artifacts && !draft.events.is_empty() {
        metadata.push(("agui_events", list(draft.events.iter().map(|event| (**event).to_owned()))));
    }
    members.push(("metadata", object(&metadata)));
    object(&members)
}

/// The task, or the message an agent answered with instead of making one.
pub(super) fn whole(draft: &Draft, sheet: &Sheet, show: Show) -> String {
    let message = draft.relayed.message.as_deref().and_then(|text| relayed::event(text, ids(sheet)));
    message.unwrap_or_else(|| object(&[("task", task(draft, sheet, show))]))
}

/// The context as its caller knows it.
fn context(sheet: &Sheet) -> &str {
    sheet.view.client_thread.as_deref().unwrap_or(sheet.view.thread.as_str())
}

fn ids(sheet: &Sheet) -> Ids<'_> {
    Ids { task: sheet.view.run.as_str(), context: context(sheet) }
}

/// A task or an update of an agent's, with our words in its metadata.
fn noted(text: &str, notes: &[(&str, String)]) -> String {
    let Ok(members) = RawObject::parse(text) else { return text.to_owned() };
    let base = members.get("metadata").map(|raw| raw.get()).filter(|raw| raw.starts_with('{')).unwrap_or("{}");
    let edits: Vec<(&str, Option<&str>)> = notes.iter().map(|(name, raw)| (*name, Some(raw.as_str()))).collect();
    let metadata = json::edit(base, &edits).unwrap_or_else(|_| base.to_owned());
    json::edit(text, &[("metadata", Some(&metadata))]).unwrap_or_else(|_| text.to_owned())
}

/// The agent's own last word of a leg, as callers see it.
fn closing(text: &str, draft: &Draft, sheet: &Sheet) -> Option<String> {
    let told = relayed::event(text, ids(sheet))?;
    let response = RawObject::parse(&told).ok()?;
    match kind(&response)? {
        (kind @ (Kind::Task | Kind::Status), raw) => {
            let inner = noted(raw.get(), &notes(draft, sheet));
            json::edit(&told, &[(kind.name(), Some(&inner))]).ok()
        }
        _ => Some(told),
    }
}

/// One stream event: a `StreamResponse`.
pub(super) fn event(told: &Told, draft: &Draft, sheet: &Sheet) -> String {
    match told {
        Told::Relayed(text) => {
            if let Some(told) = relayed::event(text, ids(sheet)) {
                return told;
            }
        }
        Told::Paused | Told::Ended if draft.relays() => {
            if let Some(told) = draft.closing.as_deref().and_then(|text| closing(text, draft, sheet)) {
                return told;
            }
        }
        _ => {}
    }
    let ids = [("taskId", json::quote(sheet.view.run.as_str())), ("contextId", json::quote(context(sheet)))];
    let (name, rest) = match told {
        Told::Text { artifact: id, text, append, last } => {
            let rest =
                vec![("artifact", artifact(id, text)), ("append", append.to_string()), ("lastChunk", last.to_string())];
            ("artifactUpdate", rest)
        }
        Told::Working | Told::Event(_) | Told::Relayed(_) => {
            let mut metadata = Vec::new();
            if let Told::Event(event) | Told::Relayed(event) = told {
                metadata.push(("agui_event", (**event).to_owned()));
            }
            if draft.stop_asked {
                metadata.push((CANCEL_REQUESTED, "true".to_owned()));
            }
            let working = object(&[("state", json::quote(State::Working.as_str())), ("timestamp", time(draft.since))]);
            ("statusUpdate", with_metadata(vec![("status", working)], &metadata))
        }
        Told::Paused | Told::Ended => {
            let mut metadata = notes(draft, sheet);
            if let Some(closing) = &draft.closing {
                metadata.push(("agui_event", (**closing).to_owned()));
            }
            ("statusUpdate", with_metadata(vec![("status", status(draft, sheet))], &metadata))
        }
    };
    let members: Vec<_> = ids.into_iter().chain(rest).collect();
    object(&[(name, object(&members))])
}

fn with_metadata<'a>(mut members: Vec<(&'a str, String)>, metadata: &[(&str, String)]) -> Vec<(&'a str, String)> {
    if !metadata.is_empty() {
        members.push(("metadata", object(metadata)));
    }
    members
}

fn status(draft: &Draft, sheet: &Sheet) -> String {
    let mut members = vec![("state", json::quote(draft.state.as_str()))];
    let message = match (draft.state, &draft.open) {
        (State::InputRequired, Some((ordinal, _))) => question(*ordinal, draft, sheet),
        (State::Failed, _) => {
            let reason = draft.reason.as_deref().unwrap_or("failed");
            let parts = list([object(&[("text", json::quote(reason))])].into_iter());
            Some(message(&format!("{}-error", sheet.view.run), "ROLE_AGENT", &parts, sheet))
        }
        _ => None,
    };
    members.extend(message.map(|message| ("message", message)));
    members.push(("timestamp", time(draft.since)));
    object(&members)
}

/// What the witness says about the run, and what it waits for.
fn notes(draft: &Draft, sheet: &Sheet) -> Vec<(&'static str, String)> {
    let mut words = bag::outward(&sheet.view);
    // As of the entry heard last, not as of the moment of reading: a replay says the same.
    words["asks"] = draft.open.iter().flat_map(|(_, asks)| asks.iter().map(String::as_str)).collect();
    let mut notes = vec![(URN, words.to_string())];
    notes.extend(sheet.view.owed.as_ref().map(|owed| (obligations::EXTENSION, bag::stands(owed).to_string())));
    let asked = draft.open.as_ref().filter(|_| !draft.relays());
    if let Some(ask) = asked.and_then(|(ordinal, _)| ask(*ordinal, sheet)) {
        let of = |kind: ItemKind| ask.items.iter().filter(move |item| item.kind == kind);
        let interrupts: Vec<String> = of(ItemKind::Interrupt).map(|item| item.question.clone()).collect();
        let calls: Vec<String> = of(ItemKind::Call).map(|item| json::quote(&item.id)).collect();
        if !interrupts.is_empty() {
            notes.push(("interrupts", list(interrupts.into_iter())));
        }
        if !calls.is_empty() {
            notes.push(("pendingToolCalls", list(calls.into_iter())));
        }
    }
    if draft.stop_asked && !draft.state.is_terminal() {
        notes.push((CANCEL_REQUESTED, "true".to_owned()));
    }
    notes
}

fn ask(ordinal: u64, sheet: &Sheet) -> Option<&AskView> {
    sheet.view.asks.iter().find(|ask| ask.ordinal == ordinal)
}

/// The question of a pause as a message: its text for people, its bytes for programs.
fn question(ordinal: u64, draft: &Draft, sheet: &Sheet) -> Option<String> {
    let mut parts = Vec::new();
    for item in &ask(ordinal, sheet)?.items {
        match item.kind {
            ItemKind::Interrupt => {
                let text = RawObject::parse(&item.question)
                    .ok()
                    .and_then(|interrupt| interrupt.get("message").and_then(|raw| json::string(raw.get())));
                parts.extend(text.map(|text| object(&[("text", json::quote(&text))])));
                parts.push(object(&[("data", item.question.clone())]));
            }
            ItemKind::Call => {
                let mut call = vec![("toolCallId", json::quote(&item.id))];
                if let Some(known) = draft.calls.iter().find(|call| call.id == item.id) {
                    call.extend(known.name.as_deref().map(|name| ("toolCallName", json::quote(name))));
                    call.push(("args", json::quote(&known.args)));
                }
                parts.push(object(&[("data", object(&call))]));
            }
        }
    }
    let id = format!("{}-ask-{ordinal}", sheet.view.run);
    Some(message(&id, "ROLE_AGENT", &list(parts.into_iter()), sheet))
}

fn said(line: Line, draft: &Draft, sheet: &Sheet) -> Option<String> {
    match line {
        Line::Opening => caller_said(sheet.legs.first()?, sheet),
        Line::Text(at) => {
            let (id, text) = draft.artifacts.get(at)?;
            let parts = list([object(&[("text", json::quote(text))])].into_iter());
            Some(message(id, "ROLE_AGENT", &parts, sheet))
        }
        Line::Question(ordinal) => question(ordinal, draft, sheet),
        Line::Answer(ordinal) => {
            let answered = |ask: &&AskView| ask.closed_as.as_deref() == Some("answered");
            ask(ordinal, sheet).filter(answered)?;
            // A pause that the provider ended by itself has no leg of a caller.
            let legs = sheet.view.asks.iter().filter(|ask| ask.ordinal <= ordinal).filter(answered).count();
            caller_said(sheet.legs.get(legs)?, sheet)
        }
    }
}

/// A caller's message as received; from another door, what it says as a message.
fn caller_said(leg: &Leg, sheet: &Sheet) -> Option<String> {
    let id = format!("{}-said-{}", sheet.view.run, leg.ordinal);
    if leg.words.dialect == Dialect::A2a {
        let params = RawObject::parse(&leg.words.text).ok()?;
        let message = params.get("message")?.get();
        if sheet.view.insider {
            return Some(message.to_owned());
        }
        // Which earlier runs it names is told inside the segment only (record.md, Lineage).
        let mut members = RawObject::parse(message).ok()?;
        for name in ["referenceTaskIds", "reference_task_ids"] {
            members.remove(name);
        }
        return Some(members.to_raw().get().to_owned());
    }
    if let Some(items) = &leg.reply {
        let entries = list(items.iter().map(resume_entry));
        let parts = list([object(&[("data", entries)])].into_iter());
        return Some(message(&id, "ROLE_USER", &parts, sheet));
    }
    let body = RawObject::parse(&leg.words.text).ok()?;
    let messages: Vec<Box<serde_json::value::RawValue>> = serde_json::from_str(body.get("messages")?.get()).ok()?;
    let newest = messages.iter().rev().find_map(|raw| {
        let message = RawObject::parse(raw.get()).ok()?;
        let role = json::string(message.get("role")?.get())?;
        (role == "user").then_some(message)
    })?;
    let content = newest.get("content")?.get();
    let part = match json::string(content) {
        Some(_) => object(&[("text", content.to_owned())]),
        None => object(&[("data", content.to_owned())]),
    };
    let id = newest.get("id").and_then(|raw| json::string(raw.get())).unwrap_or(id);
    Some(message(&id, "ROLE_USER", &list([part].into_iter()), sheet))
}

fn resume_entry(item: &ReplyItem) -> String {
    let status = if item.abandoned { "\"cancelled\"" } else { "\"resolved\"" };
    let mut members = vec![("interruptId", json::quote(&item.id)), ("status", status.to_owned())];
    members.extend(item.payload.clone().map(|payload| ("payload", payload)));
    object(&members)
}

fn message(id: &str, role: &str, parts: &str, sheet: &Sheet) -> String {
    object(&[
        ("messageId", json::quote(id)),
        ("contextId", json::quote(context(sheet))),
        ("taskId", json::quote(sheet.view.run.as_str())),
        ("role", json::quote(role)),
        ("parts", parts.to_owned()),
    ])
}

fn artifact(id: &str, text: &str) -> String {
    let parts = list([object(&[("text", json::quote(text))])].into_iter());
    object(&[("artifactId", json::quote(id)), ("parts", parts)])
}

/// RFC 3339, UTC, with the milliseconds that A2A asks for; ours are whole seconds.
pub(super) fn time(at_s: u64) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at_s.min(253_402_300_799));
    json::quote(&humantime::format_rfc3339_millis(at).to_string())
}

/// An object of members that are JSON text.
pub(super) fn object(members: &[(&str, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, raw)| format!("{}:{raw}", json::quote(name))).collect();
    format!("{{{}}}", members.join(","))
}

/// A list of items that are JSON text.
pub(super) fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}
