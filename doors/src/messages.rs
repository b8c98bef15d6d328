//! The messages of a thread as AG-UI has them, oldest first: what callers said, and
//! what providers said, put together from their events.

use std::collections::{BTreeMap, HashMap, HashSet};

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
        let mut open = Open::default();
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
    told.texts()
}

/// A message under way.
struct Begun {
    id: String,
    role: String,
    content: String,
}

/// The messages under way, in the order begun. How many is the provider's choice.
#[derive(Default)]
struct Open {
    begun: BTreeMap<usize, Begun>,
    places: HashMap<String, usize>,
    next: usize,
}

impl Open {
    fn last(&self) -> Option<String> {
        self.begun.last_key_value().map(|(_, message)| message.id.clone())
    }

    fn at(&mut self, id: String, role: impl FnOnce() -> String) -> &mut Begun {
        let place = *self.places.entry(id.clone()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.begun.entry(place).or_insert_with(|| Begun { id, role: role(), content: String::new() })
    }

    fn end(&mut self, id: &str) -> Option<Begun> {
        self.begun.remove(&self.places.remove(id)?)
    }

    fn drain(&mut self) -> impl Iterator<Item = Begun> {
        self.places.clear();
        std::mem::take(&mut self.begun).into_values()
    }
}

/// A message as told so far: a caller's as received, or an agent's put together.
enum Message {
    Received(String),
    Made { begun: Begun, calls: Vec<Call> },
}

/// A call that an agent announced.
struct Call {
    id: String,
    name: String,
    args: String,
}

#[derive(Default)]
struct Told {
    ids: HashSet<String>,
    messages: Vec<Message>,
    /// Where each message of an agent stands, and the message each call belongs to.
    places: HashMap<String, usize>,
    called: HashMap<String, (usize, usize)>,
}

impl Told {
    fn texts(self) -> Vec<String> {
        self.messages.into_iter().map(Message::text).collect()
    }

    fn push(&mut self, id: String, message: String) {
        if self.ids.insert(id) {
            self.messages.push(Message::Received(message));
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

    fn event(&mut self, text: &str, open: &mut Open) {
        let Ok(event) = RawObject::parse(text) else { return };
        let member = |name: &str| event.get(name).and_then(|raw| json::string(raw.get()));
        let Some(kind) = member("type") else { return };
        match kind.as_str() {
            "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_CHUNK" => {
                let Some(id) = member("messageId").or_else(|| open.last()) else { return };
                let message = open.at(id, || member("role").unwrap_or_else(|| "assistant".to_owned()));
                message.content.push_str(&member("delta").unwrap_or_default());
            }
            "TEXT_MESSAGE_END" => {
                if let Some(message) = member("messageId").and_then(|id| open.end(&id)) {
                    self.close(message);
                }
            }
            "TOOL_CALL_START" | "TOOL_CALL_CHUNK" | "TOOL_CALL_ARGS" => {
                let Some(id) = member("toolCallId") else { return };
                if let (Some(name), false) = (member("toolCallName"), self.called.contains_key(&id)) {
                    // What was said before a call stands before it.
                    self.flush(open);
                    self.call(id.clone(), name, member("parentMessageId"));
                }
                self.arguments(&id, &member("delta").unwrap_or_default());
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

    fn close(&mut self, message: Begun) {
        // A provider that speaks as the user is relayed as it spoke, and is no caller: here
        // it would be read as one, and take the id of the caller's own next words.
        if message.role == "user" || !self.ids.insert(message.id.clone()) {
            return;
        }
        self.places.insert(message.id.clone(), self.messages.len());
        self.messages.push(Message::Made { begun: message, calls: Vec::new() });
    }

    /// A call belongs to the message it names, else to one of its own.
    fn call(&mut self, id: String, name: String, parent: Option<String>) {
        let known = parent.as_ref().and_then(|parent| self.places.get(parent)).copied();
        let at = known.unwrap_or_else(|| {
            let own = parent.unwrap_or_else(|| id.clone());
            self.close(Begun { id: own, role: "assistant".to_owned(), content: String::new() });
            self.messages.len().saturating_sub(1)
        });
        if let Some(Message::Made { calls, .. }) = self.messages.get_mut(at) {
            self.called.insert(id.clone(), (at, calls.len()));
            calls.push(Call { id, name, args: String::new() });
        }
    }

    fn arguments(&mut self, id: &str, delta: &str) {
        if let Some((at, n)) = self.called.get(id).copied()
            && let Some(Message::Made { calls, .. }) = self.messages.get_mut(at)
            && let Some(call) = calls.get_mut(n)
        {
            call.args.push_str(delta);
        }
    }

    fn flush(&mut self, open: &mut Open) {
        for message in open.drain() {
            self.close(message);
        }
    }
}

impl Message {
    fn text(self) -> String {
        let (begun, calls) = match self {
            Message::Received(text) => return text,
            Message::Made { begun, calls } => (begun, calls),
        };
        let calls: Vec<String> = calls
            .iter()
            .map(|call| {
                let function =
                    format!("{{\"name\":{},\"arguments\":{}}}", json::quote(&call.name), json::quote(&call.args));
                format!("{{\"id\":{},\"type\":\"function\",\"function\":{function}}}", json::quote(&call.id))
            })
            .collect();
        let calls = if calls.is_empty() { String::new() } else { format!(",\"toolCalls\":[{}]", calls.join(",")) };
        format!(
            "{{\"id\":{},\"role\":{},\"content\":{}{calls}}}",
            json::quote(&begun.id),
            json::quote(&begun.role),
            json::quote(&begun.content)
        )
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
