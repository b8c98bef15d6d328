//! A run as a link's agent gets it: AG-UI's `RunAgentInput`, whatever the caller
//! spoke. Built from the record, so a second offer carries the same bytes.

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Delivery, Dialect, ItemKind, ReplyItem};

use crate::bag;

/// The flat `run` frame of the link (wire.md, The link). Nulls are kept.
#[must_use]
pub fn frame(delivery: &Delivery) -> String {
    format!(
        "{{\"type\":\"run\",\"runId\":{},\"agentName\":{},\"runInput\":{},\"threadId\":{},\"metadata\":{{}}}}",
        json::quote(delivery.run.as_str()),
        json::quote(delivery.agent.name.as_str()),
        run_input(delivery),
        json::quote(delivery.thread.as_str()),
    )
}

/// The `runInput` of a delivery, JSON text. Ids are ours; what a provider's SDK
/// requires and the caller left out is filled in.
#[must_use]
pub fn run_input(delivery: &Delivery) -> String {
    let words = &*delivery.leg.words.text;
    let reply = delivery.leg.reply.as_deref();
    let body = RawObject::parse(words).unwrap_or_default();
    let raw = |name: &str| body.get(name).map(RawValue::get).filter(|raw| *raw != "null");
    let agui = delivery.leg.words.dialect == Dialect::AgUi;
    let messages = match delivery.leg.words.dialect {
        Dialect::AgUi => raw("messages").unwrap_or("[]").to_owned(),
        Dialect::A2a => from_a2a(raw("message").unwrap_or("{}"), reply),
        Dialect::Plain => format!("[{}]", tool_messages(delivery, reply).join(",")),
    };
    let callers_bag = match delivery.leg.words.dialect {
        Dialect::AgUi => raw("forwardedProps"),
        Dialect::A2a => raw("metadata"),
        Dialect::Plain => None,
    };
    let resume = reply.map(|_| match raw("resume").filter(|_| agui) {
        Some(resume) => without_proofs(resume),
        None => entries(reply),
    });
    let null = || "null".to_owned();
    let own = |name: &str, default: &str| raw(name).filter(|_| agui).unwrap_or(default).to_owned();
    let edits = [
        ("threadId", json::quote(delivery.thread.as_str())),
        ("runId", json::quote(delivery.run.as_str())),
        ("parentRunId", delivery.parent_run.as_deref().map_or_else(null, json::quote)),
        ("state", own("state", "{}")),
        ("messages", messages),
        ("tools", own("tools", "[]")),
        ("context", own("context", "[]")),
        ("forwardedProps", forwarded(callers_bag, delivery).unwrap_or_else(null)),
        ("resume", resume.filter(|entries| entries != "[]").unwrap_or_else(null)),
    ];
    let mut edits: Vec<(&str, Option<&str>)> = edits.iter().map(|(name, new)| (*name, Some(new.as_str()))).collect();
    // An AG-UI caller's own members, known here or not, travel on as they came. The
    // reference's old clients keep their bag in `metadata`: proofs were for us.
    let metadata = raw("metadata").filter(|_| agui).and_then(bag::without_bag);
    edits.push(("metadata", metadata.as_deref()));
    let base = if agui { words } else { "{}" };
    json::edit(base, &edits).unwrap_or_else(|_| base.to_owned())
}

/// The body for an AG-UI agent behind HTTP. A caller of the same dialect is passed on byte
/// for byte but for the named edits: the ids, the bag, the proofs beside resume entries.
/// `thread` and `run` are what the agent shall call the thread and this leg.
#[must_use]
pub fn agui_body(delivery: &Delivery, thread: &str, run: &str) -> String {
    if delivery.leg.words.dialect != Dialect::AgUi {
        let input = run_input(delivery);
        let names = [("threadId", Some(&*json::quote(thread))), ("runId", Some(&json::quote(run)))];
        return json::edit(&input, &names).unwrap_or(input);
    }
    let words = &*delivery.leg.words.text;
    let body = RawObject::parse(words).unwrap_or_default();
    let raw = |name: &str| body.get(name).map(RawValue::get).filter(|raw| *raw != "null");
    let (thread, run) = (json::quote(thread), json::quote(run));
    let mut edits = vec![("threadId", Some(thread)), ("runId", Some(run))];
    if let Some(bag) = forwarded(raw("forwardedProps"), delivery) {
        edits.push(("forwardedProps", Some(bag)));
    }
    if let Some(resume) = raw("resume").map(without_proofs) {
        edits.push(("resume", Some(resume)));
    }
    if let Some(metadata) = raw("metadata") {
        edits.push(("metadata", bag::without_bag(metadata)));
    }
    let edits: Vec<(&str, Option<&str>)> = edits.iter().map(|(name, new)| (*name, new.as_deref())).collect();
    json::edit(words, &edits).unwrap_or_else(|_| words.to_owned())
}

/// The members of `forwardedProps` that older frameworks take an answer from, whatever case
/// they are written in (some fold it before they look): each with the value it resumes with.
pub(crate) fn commands(props: &str) -> Vec<(String, String)> {
    let members = RawObject::parse(props).unwrap_or_default();
    let mut found = Vec::new();
    for (name, command) in members.iter().filter(|(name, _)| name.eq_ignore_ascii_case("command")) {
        let command = RawObject::parse(command.get()).unwrap_or_default();
        let resumes = command.iter().filter(|(name, _)| name.eq_ignore_ascii_case("resume"));
        found.extend(resumes.map(|(_, value)| (name.to_owned(), value.get().to_owned())));
    }
    found
}

/// The bag as an AG-UI agent may see it. A command that resumes is an answer, and
/// reaches the agent only as the one that was let through: by any other turn, or beside
/// entries that were checked, anybody who may speak could answer what the agent asked.
fn forwarded(callers: Option<&str>, delivery: &Delivery) -> Option<String> {
    let bag = bag::delivered(callers, delivery)?;
    let answer = delivery.leg.reply.is_some()
        && delivery.leg.words.dialect == Dialect::AgUi
        && RawObject::parse(&delivery.leg.words.text)
            .is_ok_and(|body| body.get("resume").is_none_or(|raw| raw.get() == "null"));
    if answer {
        return Some(bag);
    }
    let commands = commands(&bag);
    let gone: Vec<(&str, Option<&str>)> = commands.iter().map(|(name, _)| (name.as_str(), None)).collect();
    Some(json::edit(&bag, &gone).unwrap_or(bag))
}

/// Resume entries without the proofs beside them; the rest of their `metadata` stays.
fn without_proofs(resume: &str) -> String {
    let edited = json::edit_each(resume, |entry| {
        let metadata = RawObject::parse(entry).ok()?.get("metadata")?.get().to_owned();
        if !bag::carries(&metadata) {
            return None;
        }
        json::edit(entry, &[("metadata", bag::without_bag(&metadata).as_deref())]).ok()
    });
    edited.unwrap_or_else(|_| resume.to_owned())
}

/// Resume entries for the interrupts of a reply: `[{interruptId, status, payload}]`.
pub fn entries(reply: Option<&[ReplyItem]>) -> String {
    let entries: Vec<String> = reply
        .unwrap_or_default()
        .iter()
        .filter(|item| item.kind == ItemKind::Interrupt)
        .map(|item| {
            let id = json::quote(&item.id);
            match (&item.payload, item.abandoned) {
                (Some(payload), false) => {
                    format!("{{\"interruptId\":{id},\"status\":\"resolved\",\"payload\":{payload}}}")
                }
                (None, false) => format!("{{\"interruptId\":{id},\"status\":\"resolved\"}}"),
                (_, true) => format!("{{\"interruptId\":{id},\"status\":\"cancelled\"}}"),
            }
        })
        .collect();
    format!("[{}]", entries.join(","))
}

/// An A2A message as AG-UI messages: its text, and results for the calls it answers.
fn from_a2a(message: &str, reply: Option<&[ReplyItem]>) -> String {
    let Ok(members) = RawObject::parse(message) else { return "[]".to_owned() };
    let id = members.get("messageId").or_else(|| members.get("message_id")).map_or("\"msg\"", RawValue::get);
    let calls: Vec<String> = reply
        .unwrap_or_default()
        .iter()
        .filter(|item| item.kind == ItemKind::Call)
        .enumerate()
        .map(|(n, item)| tool_message(&format!("{}-{n}", json::string(id).unwrap_or_default()), item))
        .collect();
    if !calls.is_empty() {
        return format!("[{}]", calls.join(","));
    }
    let parts = members.get("parts").map_or("[]", RawValue::get);
    let list: Vec<&RawValue> = serde_json::from_str(parts).unwrap_or_default();
    let mut texts = Vec::new();
    let mut only_text = true;
    for part in list {
        match RawObject::parse(part.get())
            .ok()
            .and_then(|part| part.get("text").and_then(|raw| json::string(raw.get())))
        {
            Some(text) => texts.push(text),
            None => only_text = false,
        }
    }
    let agent = members.get("role").is_some_and(|raw| matches!(raw.get(), "\"ROLE_AGENT\"" | "2"));
    let role = if agent { "assistant" } else { "user" };
    let content = json::quote(&texts.join("\n"));
    // What AG-UI has no word for here lands in one named place, whole.
    let rest = if only_text { String::new() } else { format!(",\"metadata\":{{\"a2a\":{{\"parts\":{parts}}}}}") };
    format!("[{{\"id\":{id},\"role\":\"{role}\",\"content\":{content}{rest}}}]")
}

fn tool_messages(delivery: &Delivery, reply: Option<&[ReplyItem]>) -> Vec<String> {
    reply
        .unwrap_or_default()
        .iter()
        .filter(|item| item.kind == ItemKind::Call)
        .map(|item| tool_message(&format!("{}-{}-{}", delivery.run, delivery.leg.ordinal, item.id), item))
        .collect()
}

/// A call's result: a string is its content, anything else its JSON text.
pub(crate) fn tool_message(id: &str, item: &ReplyItem) -> String {
    let payload = item.payload.as_deref().unwrap_or("\"\"");
    let content = json::string(payload).unwrap_or_else(|| payload.to_owned());
    format!(
        "{{\"id\":{},\"role\":\"tool\",\"toolCallId\":{},\"content\":{}}}",
        json::quote(id),
        json::quote(&item.id),
        json::quote(&content)
    )
}
