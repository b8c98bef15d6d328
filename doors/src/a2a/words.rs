//! A caller's A2A message, read: where it goes, what it says, what it answers.

use serde_json::value::RawValue;
use wikala_chain::{Digest, RawObject, json};
use wikala_witness::{ItemKind, Reply, ReplyItem};

use super::fields::Fields;
use super::refused::Refused;
use crate::bag::REFERENCE_ADDRESSED;
use crate::obligations;

/// A message as sent.
#[derive(Debug)]
pub(super) struct Message {
    /// The waiting task it answers.
    pub(super) task: Option<String>,
    /// The thread it goes on in.
    pub(super) context: Option<String>,
    /// The first earlier task it names.
    pub(super) reference: Option<String>,
    /// The live run it wants to join, where the reference's clients put it.
    pub(super) addressed: Option<String>,
    /// Its own id.
    pub(super) id: String,
    /// What it demands, JSON text of `metadata[urn:wikala:obligation:1]`.
    pub(super) obligation: Option<String>,
    /// It speaks for the user, not for an agent.
    pub(super) by_user: bool,
    pub(super) parts: String,
}

impl Message {
    /// Reads `params.message`.
    pub(super) fn read(params: &Fields) -> Result<Message, Refused> {
        let fields = params.inner("message")?.ok_or_else(|| params.wrong("message", "required"))?;
        let id = fields.required("messageId")?;
        let by_user = match fields.raw("role") {
            Some("\"ROLE_USER\"" | "1") => true,
            Some("\"ROLE_AGENT\"" | "2") => false,
            _ => return Err(fields.wrong("role", "neither ROLE_USER nor ROLE_AGENT")),
        };
        let parts = fields.list("parts")?;
        if parts.is_empty() {
            return Err(fields.wrong("parts", "at least one is required"));
        }
        for (n, part) in parts.iter().enumerate() {
            let place = format!("message.parts[{n}]");
            let part = Fields::parse(part.get(), &place)?;
            // Two contents in one part would let two readers see two answers.
            if ["text", "raw", "url", "data"].iter().filter(|name| part.has(name)).count() > 1 {
                return Err(Refused::field(place, "more than one of text, raw, url, data"));
            }
        }
        let references = fields.list("referenceTaskIds")?;
        let reference = match references.first() {
            None => None,
            Some(raw) => {
                Some(json::string(raw.get()).ok_or_else(|| fields.wrong("referenceTaskIds", "not a list of ids"))?)
            }
        };
        let addressed = fields.raw("metadata").and_then(|raw| RawObject::parse(raw).ok()).and_then(|metadata| {
            [REFERENCE_ADDRESSED, "addressedRunId"].iter().find_map(|name| json::string(metadata.get(name)?.get()))
        });
        let obligation = fields.raw("metadata").and_then(|raw| RawObject::parse(raw).ok());
        let obligation = obligation.and_then(|metadata| Some(metadata.get(obligations::EXTENSION)?.get().to_owned()));
        Ok(Message {
            id,
            obligation,
            task: fields.text("taskId")?,
            context: fields.text("contextId")?,
            reference,
            addressed: addressed.filter(|id| !id.is_empty()),
            by_user,
            // Present: at least one part was read from it.
            parts: fields.raw("parts").unwrap_or_default().to_owned(),
        })
    }

    /// The digest of the answer bytes: the parts as received.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(self.parts.as_bytes())
    }

    /// The message as an answer. One open item takes the one part's value; several
    /// take a data part with an entry each. Which of the two it is, the ask decides.
    pub(super) fn reply(&self) -> Reply {
        let nothing = Reply { items: Vec::new(), single: None };
        let Ok(parts) = serde_json::from_str::<Vec<Box<RawValue>>>(&self.parts) else { return nothing };
        let [part] = parts.as_slice() else { return nothing };
        let Ok(part) = Fields::parse(part.get(), "part") else { return nothing };
        if let Some(text) = part.raw("text").filter(|raw| json::string(raw).is_some()) {
            return Reply { items: Vec::new(), single: Some(text.to_owned()) };
        }
        if !part.has("data") {
            return nothing;
        }
        let data = part.raw("data").unwrap_or("null");
        Reply { items: entries(data), single: Some(data.to_owned()) }
    }
}

/// Resume entries: a list of them, or an object that holds one under `resume`.
fn entries(data: &str) -> Vec<ReplyItem> {
    let held = RawObject::parse(data).ok();
    let list = held.as_ref().and_then(|object| object.get("resume")).map_or(data, RawValue::get);
    let Ok(list) = serde_json::from_str::<Vec<Box<RawValue>>>(list) else { return Vec::new() };
    let mut items = Vec::with_capacity(list.len());
    for raw in &list {
        // One that names nothing makes the whole list an ordinary value.
        let Some(item) = entry(raw.get()) else { return Vec::new() };
        items.push(item);
    }
    items
}

fn entry(raw: &str) -> Option<ReplyItem> {
    let entry = RawObject::parse(raw).ok()?;
    let text = |name: &str| entry.get(name).and_then(|raw| json::string(raw.get()));
    let id = text("interruptId").or_else(|| text("toolCallId"))?;
    let abandoned = text("status").as_deref() == Some("cancelled");
    let payload = entry.get("payload").or_else(|| entry.get("content")).filter(|_| !abandoned);
    // The witness puts the kind as asked: a caller cannot turn an approval into a result.
    Some(ReplyItem { id, kind: ItemKind::Interrupt, abandoned, payload: payload.map(|raw| raw.get().to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parts: &str) -> Result<Message, Refused> {
        let params = format!(r#"{{"message":{{"messageId":"m","role":1,"parts":{parts}}}}}"#);
        Message::read(&Fields::parse(&params, "params").unwrap())
    }

    #[test]
    fn one_part_is_a_value_and_a_list_of_entries_is_both() {
        let single = |parts: &str| message(parts).unwrap().reply().single;
        assert_eq!(single(r#"[{"text":"l\u00e9ft"}]"#).as_deref(), Some(r#""l\u00e9ft""#));
        assert_eq!(single(r#"[{"data":{"n": 1.0}}]"#).as_deref(), Some(r#"{"n": 1.0}"#));
        assert_eq!(single(r#"[{"data":null}]"#).as_deref(), Some("null"));
        assert_eq!(single(r#"[{"text":"a"},{"text":"b"}]"#), None);
        assert_eq!(single(r#"[{"url":"http://x/"}]"#), None);
        let both = message(r#"[{"data":[{"interruptId":"a","payload":7},{"interruptId":"b","status":"cancelled"}]}]"#);
        let items = both.unwrap().reply().items;
        assert_eq!(
            items.iter().map(|item| (item.id.as_str(), item.abandoned)).collect::<Vec<_>>(),
            [("a", false), ("b", true)]
        );
        assert_eq!(items[0].payload.as_deref(), Some("7"));
        assert!(message(r#"[{"data":[{"interruptId":"a"},5]}]"#).unwrap().reply().items.is_empty());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for parts in ["[]", "null", "{}", "[1]", r#"[{"text":"a","data":1}]"#] {
            assert!(message(parts).is_err(), "{parts}");
        }
    }

    #[test]
    fn the_digest_covers_the_parts_as_received() {
        let raw = r#"[ {"text" : "a" } ]"#;
        assert_eq!(message(raw).unwrap().digest(), Digest::of(raw.as_bytes()));
    }
}
