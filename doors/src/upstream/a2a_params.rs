//! A leg as an A2A agent behind HTTP gets it. A caller of the same dialect is passed on
//! byte for byte but for the named edits: the ids, the tenant, the bag. From another
//! dialect it is a message: its text and files as parts, everything else in one place.

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Delivery, Dialect, ItemKind, ReplyItem, UpstreamNames};

use crate::bag;

/// Where an AG-UI input stands in a message's metadata, whole: what A2A has no word for.
pub const AGUI_INPUT: &str = "agui_input";

/// The earlier runs a caller's message refers to, as it names them.
pub(super) fn references(delivery: &Delivery) -> Vec<String> {
    let params = RawObject::parse(&delivery.leg.words.text).unwrap_or_default();
    let message = params.get("message").and_then(|raw| RawObject::parse(raw.get()).ok()).unwrap_or_default();
    let list = message.get("referenceTaskIds").or_else(|| message.get("reference_task_ids"));
    list.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The parameters of SendMessage, JSON text. `references`: what the agent calls the runs of
/// its own that the caller refers to.
pub(super) fn send(delivery: &Delivery, names: &UpstreamNames, references: &[String]) -> String {
    let words = &*delivery.leg.words.text;
    let body = RawObject::parse(words).unwrap_or_default();
    let raw = |name: &str| body.get(name).map(RawValue::get).filter(|raw| *raw != "null");
    // The thread goes on where the agent has it; the task, only when it waits.
    let context = names.context.as_deref().map(json::quote);
    let task = if delivery.leg.ordinal > 0 { names.task.as_deref().map(json::quote) } else { None };
    let references = (!references.is_empty())
        .then(|| format!("[{}]", references.iter().map(|id| json::quote(id)).collect::<Vec<_>>().join(",")));
    let ids = [
        ("contextId", context.as_deref()),
        ("taskId", task.as_deref()),
        ("context_id", None),
        ("task_id", None),
        // Ids of ours name nothing there, and other agents' runs are not this one's to know.
        ("referenceTaskIds", references.as_deref()),
        ("reference_task_ids", None),
    ];
    match delivery.leg.words.dialect {
        Dialect::A2a => {
            let message = raw("message").unwrap_or("{}");
            let message = json::edit(message, &ids).unwrap_or_else(|_| message.to_owned());
            let bag = bag::delivered(raw("metadata"), delivery);
            let mut edits = vec![("message", Some(message.as_str())), ("tenant", None)];
            if bag.is_some() || raw("metadata").is_some() {
                edits.push(("metadata", bag.as_deref()));
            }
            // The witness waits for the agent, whatever its own caller does.
            let configuration = raw("configuration").map(|raw| {
                let gone = [("returnImmediately", None), ("return_immediately", None)];
                json::edit(raw, &gone).unwrap_or_else(|_| raw.to_owned())
            });
            edits.extend(configuration.as_deref().map(|raw| ("configuration", Some(raw))));
            json::edit(words, &edits).unwrap_or_else(|_| words.to_owned())
        }
        Dialect::AgUi | Dialect::Plain => {
            let agui = delivery.leg.words.dialect == Dialect::AgUi;
            let (id, mut parts) = if agui { newest(&body) } else { (None, Vec::new()) };
            if let Some(reply) = delivery.leg.reply.as_deref() {
                parts = answer(reply);
            }
            if parts.is_empty() {
                parts.push("{\"text\":\"\"}".to_owned());
            }
            let id = id.unwrap_or_else(|| format!("{}-{}", delivery.run, delivery.leg.ordinal));
            let mut message = format!(
                "{{\"messageId\":{},\"role\":\"ROLE_USER\",\"parts\":[{}]}}",
                json::quote(&id),
                parts.join(",")
            );
            message = json::edit(&message, &ids[..2]).unwrap_or(message);
            if agui {
                let input = crate::delivery::agui_body(delivery, delivery.thread.as_str(), delivery.run.as_str());
                let input = json::edit(&input, &[("forwardedProps", None)]).unwrap_or(input);
                let metadata = format!("{{{}:{input}}}", json::quote(AGUI_INPUT));
                message = json::edit(&message, &[("metadata", Some(&metadata))]).unwrap_or(message);
            }
            let callers = if agui { raw("forwardedProps") } else { None };
            let bag = bag::delivered(callers.filter(|raw| raw.trim_start().starts_with('{')), delivery);
            let params = format!("{{\"message\":{message}}}");
            match bag {
                Some(bag) => json::edit(&params, &[("metadata", Some(&bag))]).unwrap_or(params),
                None => params,
            }
        }
    }
}

/// The parameters of an operation about a task, JSON text.
pub(super) fn about(task: &str) -> String {
    format!("{{\"id\":{}}}", json::quote(task))
}

/// The newest message of the caller's, as parts.
fn newest(body: &RawObject) -> (Option<String>, Vec<String>) {
    let list = body.get("messages").map_or("[]", RawValue::get);
    let messages: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default();
    let newest = messages.iter().rev().find_map(|raw| {
        let message = RawObject::parse(raw.get()).ok()?;
        (json::string(message.get("role")?.get())? == "user").then_some(message)
    });
    let Some(message) = newest else { return (None, Vec::new()) };
    let id = message.get("id").and_then(|raw| json::string(raw.get()));
    let content = message.get("content").map_or("\"\"", RawValue::get);
    let parts = match json::string(content) {
        Some(_) => vec![format!("{{\"text\":{content}}}")],
        None => serde_json::from_str::<Vec<&RawValue>>(content).unwrap_or_default().into_iter().map(part).collect(),
    };
    (id, parts)
}

/// A content part of AG-UI as a part of A2A; one without a counterpart as data, whole.
fn part(raw: &RawValue) -> String {
    let whole = || format!("{{\"data\":{}}}", raw.get());
    let Ok(part) = RawObject::parse(raw.get()) else { return whole() };
    if let Some(text) = part.get("text") {
        return format!("{{\"text\":{}}}", text.get());
    }
    let source = part.get("source").and_then(|source| RawObject::parse(source.get()).ok());
    let Some(source) = source else { return whole() };
    let member = |name: &str| source.get(name).map(RawValue::get);
    let kind = member("type").and_then(json::string);
    let media = member("mimeType").map(|raw| format!(",\"mediaType\":{raw}")).unwrap_or_default();
    match (kind.as_deref(), member("value")) {
        (Some("data"), Some(value)) => format!("{{\"raw\":{value}{media}}}"),
        (Some("url"), Some(value)) => format!("{{\"url\":{value}{media}}}"),
        _ => whole(),
    }
}

/// An answer as parts: one item's value, or the resume entries of several.
fn answer(reply: &[ReplyItem]) -> Vec<String> {
    match reply {
        [one] if !one.abandoned && one.kind == ItemKind::Interrupt => {
            let payload = one.payload.as_deref().unwrap_or("\"\"");
            match json::string(payload) {
                Some(_) => vec![format!("{{\"text\":{payload}}}")],
                None => vec![format!("{{\"data\":{payload}}}")],
            }
        }
        _ => vec![format!("{{\"data\":{}}}", crate::delivery::entries(Some(reply)))],
    }
}
