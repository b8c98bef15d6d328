//! The messages of a thread as AG-UI has them, oldest first: what callers said, and
//! what providers said, put together from their events.

use std::collections::HashSet;

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Dialect, Entry, Turn};

/// All messages of a thread, each JSON text. A message is told once: clients resend
/// whole histories.
#[must_use]
pub fn of(turns: &[Turn]) -> Vec<String> {
    let mut told = Told::default();
    for turn in turns {
        // A leg's words came before what the provider then said, but which entries
        // belong to which leg is only known by the marks between them.
        let mut legs = turn.legs.iter();
        if let Some(leg) = legs.next() {
            told.callers(&leg.words.dialect, &leg.words.text);
        }
        let mut open = Vec::new();
        for recorded in &turn.entries {
            match &recorded.entry {
                Entry::Mark(wikala_witness::Mark::Answered { by_provider: false, .. }) => {
                    told.flush(&mut open);
                    if let Some(leg) = legs.next() {
                        told.callers(&leg.words.dialect, &leg.words.text);
                    }
                }
                Entry::Mark(_) => {}
                Entry::Words(words) => told.event(&words.text, &mut open),
            }
        }
        told.flush(&mut open);
    }
    told.messages
}

/// A message under way.
struct Open {
    id: String,
    role: String,
    content: String,
}

#[derive(Default)]
struct Told {
    ids: HashSet<String>,
    messages: Vec<String>,
}

impl Told {
    fn push(&mut self, id: String, message: String) {
        if self.ids.insert(id) {
            self.messages.push(message);
        }
    }

    fn callers(&mut self, dialect: &Dialect, words: &str) {
        let Ok(body) = RawObject::parse(words) else { return };
        match dialect {
            Dialect::AgUi => {
                let list = body.get("messages").map_or("[]", RawValue::get);
                for message in serde_json::from_str::<Vec<&RawValue>>(list).unwrap_or_default() {
                    let id = RawObject::parse(message.get()).ok().and_then(|m| json::string(m.get("id")?.get()));
                    if let Some(id) = id {
                        self.push(id, message.get().to_owned());
                    }
                }
            }
            Dialect::A2a => {
                let Some(message) = body.get("message").and_then(|raw| RawObject::parse(raw.get()).ok()) else {
                    return;
                };
                let Some(id) = message.get("messageId").and_then(|raw| json::string(raw.get())) else { return };
                let text = a2a_text(&message);
                let words =
                    format!("{{\"id\":{},\"role\":\"user\",\"content\":{}}}", json::quote(&id), json::quote(&text));
                self.push(id, words);
            }
            Dialect::Plain => {}
        }
    }

    fn event(&mut self, text: &str, open: &mut Vec<Open>) {
        let Ok(event) = RawObject::parse(text) else { return };
        let member = |name: &str| event.get(name).and_then(|raw| json::string(raw.get()));
        let Some(kind) = member("type") else { return };
        match kind.as_str() {
            "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_CHUNK" => {
                let id = member("messageId").or_else(|| open.last().map(|o| o.id.clone()));
                let Some(id) = id else { return };
                if !open.iter().any(|o| o.id == id) {
                    let role = member("role").unwrap_or_else(|| "assistant".to_owned());
                    open.push(Open { id: id.clone(), role, content: String::new() });
                }
                if let (Some(message), Some(delta)) = (open.iter_mut().find(|o| o.id == id), member("delta")) {
                    message.content.push_str(&delta);
                }
            }
            "TEXT_MESSAGE_END" => {
                if let Some(at) = member("messageId").and_then(|id| open.iter().position(|o| o.id == id)) {
                    let message = open.remove(at);
                    self.close(message);
                }
            }
            "TOOL_CALL_RESULT" => {
                let (Some(id), Some(call)) = (member("messageId"), event.get("toolCallId")) else { return };
                let content = event.get("content").map_or("\"\"", RawValue::get);
                let words = format!(
                    "{{\"id\":{},\"role\":\"tool\",\"toolCallId\":{},\"content\":{content}}}",
                    json::quote(&id),
                    call.get()
                );
                self.push(id, words);
            }
            _ => {}
        }
    }

    fn close(&mut self, message: Open) {
        let words = format!(
            "{{\"id\":{},\"role\":{},\"content\":{}}}",
            json::quote(&message.id),
            json::quote(&message.role),
            json::quote(&message.content)
        );
        self.push(message.id, words);
    }

    fn flush(&mut self, open: &mut Vec<Open>) {
        for message in open.drain(..) {
            self.close(message);
        }
    }
}

/// The text of an A2A message: its text parts, a line each.
#[must_use]
pub fn a2a_text(message: &RawObject) -> String {
    let parts = message.get("parts").map_or("[]", RawValue::get);
    serde_json::from_str::<Vec<&RawValue>>(parts)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|part| RawObject::parse(part.get()).ok().and_then(|part| json::string(part.get("text")?.get())))
        .collect::<Vec<_>>()
        .join("\n")
}
