//! `RunAgentInput`, read once from the text that came: the few members that matter
//! here. The text itself is what is recorded and passed on.

use serde_json::value::RawValue;
use wikala_chain::{Digest, RawObject, json};
use wikala_witness::{ItemKind, Reply, ReplyItem};

use crate::answer::{Door, Problem};
use crate::delivery::without_metadata;

/// What matters of an input.
#[derive(Debug)]
pub(super) struct Input {
    /// The client's own id for the thread.
    pub(super) thread_id: String,
    /// The client's own id for the run.
    pub(super) run_id: String,
    /// The run that spawned this one.
    pub(super) parent_run: Option<String>,
    /// The proof bag, JSON text.
    pub(super) bag: Option<String>,
    /// Proofs found in resume entries, JSON text.
    pub(super) resolutions: Vec<String>,
    /// The caller knows the `cancelled` outcome (1.0).
    pub(super) takes_cancelled: bool,
    /// sha256 of the body without its presenter proof: the same body joins its run.
    pub(super) digest: Digest,
    resume: Option<String>,
    command: Option<String>,
    results: Vec<(String, String)>,
}

/// An answer's content and the digest of its bytes.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) said: Reply,
    pub(super) digest: Digest,
}

impl Content {
    /// Both together; nothing more leaves the first as it was.
    pub(super) fn and(mut self, more: Content) -> Content {
        if !more.said.items.is_empty() {
            self.digest = Digest::of([self.digest.to_hex(), more.digest.to_hex()].concat().as_bytes());
            self.said.items.extend(more.said.items);
        }
        self
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.said.items.iter().map(|item| item.id.clone()).collect()
    }
}

fn malformed(sentence: impl Into<String>) -> Problem {
    Problem::door(Door::BodyMalformed, sentence)
}

impl Input {
    /// Reads an input.
    pub(super) fn parse(text: &str) -> Result<Input, Problem> {
        let body = RawObject::parse(text)?;
        // Whole-field nulls are absent: pre-1.0 clients send them.
        let raw = |name: &str| body.get(name).map(RawValue::get).filter(|raw| *raw != "null");
        let id = |name: &str| {
            raw(name)
                .and_then(json::string)
                .filter(|id| !id.is_empty() && id.len() <= 256)
                .ok_or_else(|| malformed(format!("{name}: missing, send a string of 1 to 256 bytes")))
        };
        let list = |name: &str| -> Result<Vec<&RawValue>, Problem> {
            raw(name).map_or(Ok(Vec::new()), |raw| {
                serde_json::from_str(raw).map_err(|_| malformed(format!("{name}: not a list")))
            })
        };
        if raw("messages").is_none() {
            return Err(malformed("messages: missing, send a list"));
        }
        let mut results = Vec::new();
        for message in list("messages")? {
            let message = RawObject::parse(message.get()).map_err(|_| malformed("messages: one is no object"))?;
            let member = |name: &str| message.get(name).and_then(|raw| json::string(raw.get()));
            if member("role").as_deref() == Some("tool")
                && let (Some(call), Some(content)) = (member("toolCallId"), message.get("content"))
            {
                results.push((call, content.get().to_owned()));
            }
        }
        let mut resolutions = Vec::new();
        let resume = raw("resume").map(str::to_owned);
        for entry in list("resume")? {
            let entry = RawObject::parse(entry.get()).map_err(|_| malformed("resume: an entry is no object"))?;
            let metadata = entry.get("metadata").and_then(|raw| RawObject::parse(raw.get()).ok());
            resolutions.extend(metadata.and_then(|members| Some(members.get("resolution")?.get().to_owned())));
        }
        let props = raw("forwardedProps");
        let bag = bag(props, raw("metadata"));
        let command = props
            .and_then(|raw| RawObject::parse(raw).ok())
            .and_then(|props| RawObject::parse(props.get("command")?.get()).ok())
            .and_then(|command| Some(command.get("resume")?.get().to_owned()));
        let version = raw("protocolVersion").and_then(json::string).unwrap_or_default();
        Ok(Input {
            thread_id: id("threadId")?,
            run_id: id("runId")?,
            parent_run: raw("parentRunId").and_then(json::string),
            bag,
            resolutions,
            takes_cancelled: version.split('.').next() == Some("1"),
            digest: digest(&body),
            resume,
            command,
            results,
        })
    }

    /// The resume entries as an answer; an empty list is none.
    pub(super) fn resume(&self) -> Result<Option<Content>, Problem> {
        let Some(resume) = &self.resume else { return Ok(None) };
        let entries: Vec<&RawValue> = serde_json::from_str(resume).map_err(|_| malformed("resume: not a list"))?;
        if entries.is_empty() {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            let entry = RawObject::parse(entry.get()).map_err(|_| malformed("resume: an entry is no object"))?;
            let member = |name: &str| entry.get(name).and_then(|raw| json::string(raw.get()));
            let id = member("interruptId").ok_or_else(|| malformed("resume: an entry without interruptId"))?;
            let abandoned = match member("status").as_deref() {
                Some("resolved") => false,
                Some("cancelled") => true,
                _ => return Err(malformed("resume: status is neither \"resolved\" nor \"cancelled\"")),
            };
            let payload = entry.get("payload").map(|raw| raw.get().to_owned()).filter(|_| !abandoned);
            items.push(ReplyItem { id, kind: ItemKind::Interrupt, abandoned, payload });
        }
        // Proofs in entry metadata are about the answer, not of it.
        let bytes = without_metadata(resume);
        Ok(Some(Content { said: Reply { items, single: None }, digest: Digest::of(bytes.as_bytes()) }))
    }

    /// `forwardedProps.command.resume`: the value for the one open item.
    pub(super) fn command(&self) -> Option<Content> {
        let value = self.command.clone()?;
        let digest = Digest::of(value.as_bytes());
        Some(Content { said: Reply { items: Vec::new(), single: Some(value) }, digest })
    }

    /// There are results of calls at all.
    pub(super) fn has_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// There is a result for this call.
    pub(super) fn answers(&self, call: &str) -> bool {
        self.results.iter().any(|(id, _)| id == call)
    }

    /// The results for these calls, as an answer.
    pub(super) fn results(&self, calls: &[&str]) -> Content {
        let mine = || self.results.iter().filter(|(id, _)| calls.contains(&id.as_str()));
        let items = mine().map(|(id, content)| result(id, content)).collect();
        let bytes = mine().map(|(_, content)| content.as_str()).collect::<Vec<_>>().join("\n");
        Content { said: Reply { items, single: None }, digest: Digest::of(bytes.as_bytes()) }
    }
}

fn result(call: &str, content: &str) -> ReplyItem {
    ReplyItem { id: call.to_owned(), kind: ItemKind::Call, abandoned: false, payload: Some(content.to_owned()) }
}

/// `forwardedProps` is the bag; the reference's old clients put it into an extra
/// body member `metadata` instead.
fn bag(props: Option<&str>, metadata: Option<&str>) -> Option<String> {
    let carries = |text: &str| {
        RawObject::parse(text).is_ok_and(|members| {
            ["actorChain", "delegation", "presenter", "resolution", "cancel"]
                .iter()
                .any(|name| members.get(name).is_some())
        })
    };
    match (props, metadata) {
        (Some(props), Some(metadata)) if !carries(props) && carries(metadata) => Some(metadata.to_owned()),
        (Some(props), _) => Some(props.to_owned()),
        (None, metadata) => metadata.map(str::to_owned),
    }
}

/// A join proves its own presenter, so the proof is no part of what must be the same.
fn digest(body: &RawObject) -> Digest {
    let mut text = String::new();
    for (name, value) in body.iter() {
        text.push_str(&json::quote(name));
        match (name, RawObject::parse(value.get())) {
            ("forwardedProps" | "metadata", Ok(mut members)) => {
                members.remove("presenter");
                text.push_str(members.to_raw().get());
            }
            _ => text.push_str(value.get()),
        }
        text.push('\n');
    }
    Digest::of(text.as_bytes())
}
