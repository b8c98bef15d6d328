//! A thread as AG-UI messages, oldest first: what callers said, and what its agent
//! said in answer, put together from the record. For the link's `thread_messages`.

use std::collections::HashMap;

use serde_json::json;
use serde_json::value::RawValue;
use wikala_chain::{RawObject, json as strict};
use wikala_witness::{Dialect, Entry, Leg, Mark, RunId, Turn};

use crate::delivery;

/// The last `limit` messages of a thread's turns, JSON text each.
#[must_use]
pub fn of_thread(turns: &[Turn], limit: usize) -> Vec<String> {
    let mut history = History::default();
    for turn in turns {
        let mut legs = turn.legs.iter();
        if let Some(opening) = legs.next() {
            history.caller(&turn.run, opening);
        }
        for recorded in &turn.entries {
            match &recorded.entry {
                Entry::Words(words) if words.dialect == Dialect::AgUi => history.provider(&words.text),
                Entry::Mark(Mark::Answered { by_provider: false, .. }) => {
                    if let Some(leg) = legs.next() {
                        history.caller(&turn.run, leg);
                    }
                }
                _ => {}
            }
        }
    }
    let from = history.messages.len().saturating_sub(limit);
    history.messages[from..].iter().map(Message::text).collect()
}

#[derive(Debug)]
enum Message {
    /// As it was received, or made of one event.
    Raw(String),
    /// An agent's, as its events come.
    Assistant { id: String, text: String, calls: Vec<Call> },
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Message {
    fn text(&self) -> String {
        match self {
            Message::Raw(text) => text.clone(),
            Message::Assistant { id, text, calls } => {
                let mut message = json!({ "id": id, "role": "assistant", "content": text });
                if !calls.is_empty() {
                    message["toolCalls"] = calls
                        .iter()
                        .map(|call| {
                            let function = json!({ "name": call.name, "arguments": call.arguments });
                            json!({ "id": call.id, "type": "function", "function": function })
                        })
                        .collect();
                }
                message.to_string()
            }
        }
    }
}

#[derive(Debug, Default)]
struct History {
    messages: Vec<Message>,
    /// Clients resend whole histories: a message is what it was when it was first said.
    places: HashMap<String, usize>,
    /// The message each announced call stands in.
    calls: HashMap<String, usize>,
    /// The message and the call that a chunk without an id goes on with.
    open_text: Option<String>,
    open_call: Option<String>,
}

impl History {
    fn caller(&mut self, run: &RunId, leg: &Leg) {
        let words = &leg.words;
        match words.dialect {
            Dialect::AgUi => {
                let body = RawObject::parse(&words.text).unwrap_or_default();
                let said: Vec<Box<RawValue>> =
                    body.get("messages").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
                said.iter().for_each(|message| self.raw(message.get()));
            }
            Dialect::A2a => {
                let (message, _) = delivery::a2a_message(&words.text);
                self.raw(delivery::spoken(&message, &format!("{run}.{}", leg.ordinal)).get());
                self.results(run, leg);
            }
            Dialect::Plain => self.results(run, leg),
        }
    }

    fn results(&mut self, run: &RunId, leg: &Leg) {
        delivery::results(run, leg).iter().for_each(|message| self.raw(message.get()));
    }

    fn raw(&mut self, text: &str) {
        let id = RawObject::parse(text).ok().and_then(|message| strict::string(message.get("id")?.get()));
        if let Some(id) = id {
            if self.places.contains_key(&id) {
                return;
            }
            self.places.insert(id, self.messages.len());
        }
        self.messages.push(Message::Raw(text.to_owned()));
    }

    fn provider(&mut self, text: &str) {
        let Ok(event) = RawObject::parse(text) else { return };
        let word = |name: &str| event.get(name).and_then(|raw| strict::string(raw.get()));
        let delta = word("delta").unwrap_or_default();
        match word("type").as_deref() {
            // Words with role user from a provider are not a caller's.
            Some("TEXT_MESSAGE_START") if word("role").is_none_or(|role| role == "assistant") => {
                self.assistant(&word("messageId").unwrap_or_default());
            }
            Some("TEXT_MESSAGE_CONTENT") => self.append(&word("messageId").unwrap_or_default(), &delta),
            Some("TEXT_MESSAGE_CHUNK") => {
                if let Some(id) = word("messageId") {
                    if word("role").is_none_or(|role| role == "assistant") {
                        self.assistant(&id);
                    }
                    self.open_text = Some(id);
                }
                if let Some(id) = self.open_text.clone() {
                    self.append(&id, &delta);
                }
            }
            Some("TOOL_CALL_START") => self.call(word("toolCallId"), word("toolCallName"), word("parentMessageId")),
            Some("TOOL_CALL_ARGS") => self.argue(word("toolCallId"), &delta),
            Some("TOOL_CALL_CHUNK") => {
                if let Some(id) = word("toolCallId") {
                    self.call(Some(id.clone()), word("toolCallName"), word("parentMessageId"));
                    self.open_call = Some(id);
                }
                self.argue(self.open_call.clone(), &delta);
            }
            Some("TOOL_CALL_RESULT") => {
                let mut message = RawObject::new();
                for (to, from) in [("id", "messageId"), ("toolCallId", "toolCallId"), ("content", "content")] {
                    if let Some(raw) = event.get(from) {
                        message.set(to, raw.to_owned());
                    }
                    if to == "id"
                        && let Ok(role) = RawValue::from_string("\"tool\"".to_owned())
                    {
                        message.set("role", role);
                    }
                }
                self.raw(message.to_raw().get());
            }
            _ => {}
        }
    }

    /// The place of an agent's message, made if it is new; `None` if a caller has the id.
    fn assistant(&mut self, id: &str) -> Option<usize> {
        if let Some(place) = self.places.get(id).copied() {
            return matches!(self.messages[place], Message::Assistant { .. }).then_some(place);
        }
        let place = self.messages.len();
        self.messages.push(Message::Assistant { id: id.to_owned(), text: String::new(), calls: Vec::new() });
        self.places.insert(id.to_owned(), place);
        Some(place)
    }

    fn append(&mut self, id: &str, delta: &str) {
        if let Some(place) = self.places.get(id)
            && let Some(Message::Assistant { text, .. }) = self.messages.get_mut(*place)
        {
            text.push_str(delta);
        }
    }

    fn call(&mut self, id: Option<String>, name: Option<String>, parent: Option<String>) {
        let Some(id) = id else { return };
        if self.calls.contains_key(&id) {
            return;
        }
        let Some(place) = self.assistant(parent.as_ref().unwrap_or(&id)) else { return };
        if let Message::Assistant { calls, .. } = &mut self.messages[place] {
            calls.push(Call { id: id.clone(), name: name.unwrap_or_default(), arguments: String::new() });
            self.calls.insert(id, place);
        }
    }

    fn argue(&mut self, id: Option<String>, delta: &str) {
        let Some(id) = id else { return };
        if let Some(place) = self.calls.get(&id)
            && let Some(Message::Assistant { calls, .. }) = self.messages.get_mut(*place)
            && let Some(call) = calls.iter_mut().find(|call| call.id == id)
        {
            call.arguments.push_str(delta);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wikala_witness::{Recorded, Status, Words};

    fn words(text: &str) -> Entry {
        Entry::Words(Words { dialect: Dialect::AgUi, text: text.into() })
    }

    #[test]
    fn a_thread_reads_as_one_conversation() {
        let run = RunId::parse(&format!("run_{}", "1".repeat(24))).unwrap();
        let leg = |ordinal, text: &str| Leg {
            ordinal,
            words: Words { dialect: Dialect::AgUi, text: text.into() },
            reply: None,
        };
        let answered = Mark::Answered { ordinal: 1, authority: None, by_provider: false };
        let entries = [
            words(r#"{"type":"TEXT_MESSAGE_START","messageId":"a"}"#),
            words(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"he"}"#),
            words(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"llo"}"#),
            words(r#"{"type":"TEXT_MESSAGE_START","messageId":"fake","role":"user"}"#),
            words(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"fake","delta":"pay"}"#),
            words(r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"a"}"#),
            words(r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}"#),
            Entry::Mark(answered),
            words(r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"b","delta":"x"}"#),
            words(r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"y"}"#),
        ];
        let entries = entries.into_iter().zip(1..).map(|(entry, seq)| Recorded { seq, at_s: 0, entry }).collect();
        let turn = Turn {
            run,
            status: Status::Completed,
            legs: vec![
                leg(0, r#"{"messages":[{"id":"m1","role":"user","content":"hi"}]}"#),
                leg(
                    1,
                    r#"{"messages":[{"id":"m1","role":"user","content":"hi"},{"id":"a","role":"assistant"},{"id":"t","role":"tool","toolCallId":"c","content":"1"}]}"#,
                ),
            ],
            entries,
        };
        let all = of_thread(std::slice::from_ref(&turn), 10);
        assert_eq!(
            all,
            [
                r#"{"id":"m1","role":"user","content":"hi"}"#,
                r#"{"id":"a","role":"assistant","content":"hello","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"id":"t","role":"tool","toolCallId":"c","content":"1"}"#,
                r#"{"id":"b","role":"assistant","content":"xy"}"#,
            ]
        );
        assert_eq!(of_thread(&[turn], 1), all[3..]);
    }
}
