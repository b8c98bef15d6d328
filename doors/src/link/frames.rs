//! The frames of the link (wire.md, The link): JSON text, closed sets of members.

use serde_json::value::RawValue;
use wikala_chain::{AgentName, JsonError, RawObject, json};
use wikala_witness::{Holding, Registration, RunId, ThreadId, Verdict};

/// The version of the link spoken here.
pub const VERSION: u64 = 4;
/// The largest frame, bytes.
pub const FRAME: usize = 1024 * 1024;
/// Agents on one roster.
pub const AGENTS: usize = 256;
/// Messages one query returns at most.
pub const MESSAGES: usize = 200;
/// Runs one `holding` names at most.
const HELD: usize = 4096;

/// The first frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// As sent; admitted later.
    pub public_key: String,
    /// The ticket.
    pub ticket: String,
    /// 32 hex.
    pub nonce: String,
    /// Declared capacity; `None`: no limit.
    pub capacity: Option<u64>,
    /// 128 hex.
    pub proof: String,
}

/// What a provider says.
#[derive(Debug, Clone)]
pub enum Frame {
    /// The handshake.
    Hello(Hello),
    /// The roster.
    Register(Vec<Registration>, Option<String>),
    /// Free a name.
    DeleteAgent(AgentName),
    /// The verdict on an offer.
    Ack(RunId, Verdict),
    /// An event of a run: its text as sent, its number.
    Event(RunId, String, Option<u64>),
    /// Done with a run.
    Finish(RunId),
    /// Messages of a thread: query id as JSON text, thread, limit; or why it is none.
    Query(String, Result<(ThreadId, usize), String>),
    /// What it still works on after it came back.
    Holding(Vec<Holding>),
}

/// Why a frame does not read: a sentence, and the run it named, if it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// *place: fact, expectation*.
    pub sentence: String,
    /// The run named.
    pub run: Option<String>,
}

impl Frame {
    /// Reads a frame.
    ///
    /// # Errors
    /// Unknown types and members, wrong shapes, keys twice.
    pub fn parse(text: &str) -> Result<Frame, Unread> {
        let unread = |sentence: String| Unread { sentence, run: None };
        let members = match RawObject::parse(text) {
            Ok(members) => members,
            // An event with a key twice is malformed like any other: it is known whose, so
            // that its run fails and nothing is lost in silence.
            Err(JsonError::DuplicateKey(key)) => match serde_json::from_str::<Outline>(text) {
                Ok(Outline { kind, run_id, event }) if kind == "event" => {
                    let run =
                        RunId::parse(&run_id).ok_or_else(|| unread("event: runId is no run of yours".to_owned()))?;
                    return Ok(Frame::Event(run, event.get().to_owned(), None));
                }
                _ => return Err(unread(format!("frame: key {key:?} is there twice"))),
            },
            Err(error) => return Err(unread(format!("frame: {error}"))),
        };
        let kind = members.get("type").and_then(|raw| json::string(raw.get()));
        let kind = kind.ok_or_else(|| unread("frame: type is missing".to_owned()))?;
        let reader = Members { kind, members };
        let run = reader.text("runId");
        reader.read().map_err(|sentence| Unread { sentence, run })
    }
}

/// An event frame, seen past what repeats inside it. A repeated member of its own does
/// not read.
#[derive(serde::Deserialize)]
struct Outline {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "runId")]
    run_id: String,
    event: Box<RawValue>,
}

struct Members {
    kind: String,
    members: RawObject,
}

impl Members {
    fn read(&self) -> Result<Frame, String> {
        match self.kind.as_str() {
            "hello" => self.hello(),
            "register" => self.register(),
            "deleteAgent" => {
                self.only(&["name"])?;
                Ok(Frame::DeleteAgent(agent_name(&self.needed("name")?)?))
            }
            "ack" => self.ack(),
            "event" => {
                self.only(&["runId", "event", "seq"])?;
                let event = self.raw("event").ok_or("event: event is missing")?.to_owned();
                let seq = self.number("seq")?;
                if seq == Some(0) {
                    return Err("event: seq is 0, numbers begin with 1".to_owned());
                }
                Ok(Frame::Event(self.run()?, event, seq))
            }
            "finish" => {
                self.only(&["runId"])?;
                Ok(Frame::Finish(self.run()?))
            }
            "query" => self.query(),
            "holding" => self.holding(),
            other => Err(format!("frame: {other:?} is no type of this link")),
        }
    }

    fn hello(&self) -> Result<Frame, String> {
        self.only(&["version", "publicKey", "ticket", "nonce", "maxConcurrentRuns", "proof"])?;
        if self.number("version")? != Some(VERSION) {
            return Err(format!("hello: another version of the link, this witness speaks {VERSION}"));
        }
        let capacity = self.number("maxConcurrentRuns")?;
        if capacity == Some(0) {
            return Err("hello: maxConcurrentRuns is 0, leave it out for no limit".to_owned());
        }
        Ok(Frame::Hello(Hello {
            public_key: self.needed("publicKey")?,
            ticket: self.needed("ticket")?,
            nonce: self.needed("nonce")?,
            capacity,
            proof: self.needed("proof")?,
        }))
    }

    fn register(&self) -> Result<Frame, String> {
        self.only(&["agents", "providerName"])?;
        let raw = self.raw("agents").unwrap_or("null");
        let list: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| "register: agents is no list")?;
        if list.len() > AGENTS {
            return Err(format!("register: more than {AGENTS} agents, use another key for the rest"));
        }
        let mut agents = Vec::with_capacity(list.len());
        for agent in list {
            agents.push(registration(agent.get())?);
        }
        Ok(Frame::Register(agents, self.text("providerName")))
    }

    fn ack(&self) -> Result<Frame, String> {
        self.only(&["runId", "accepted", "reason"])?;
        if self.raw("reason").is_some() {
            self.needed("reason")?;
        }
        let verdict = match (self.raw("accepted"), self.text("reason")) {
            (Some("true"), _) => Verdict::Accepted,
            (Some("false"), None) => Verdict::Declined,
            (Some("false"), Some(reason)) => Verdict::Refused(reason),
            _ => return Err("ack: accepted is neither true nor false".to_owned()),
        };
        Ok(Frame::Ack(self.run()?, verdict))
    }

    fn query(&self) -> Result<Frame, String> {
        self.only(&["queryId", "method", "params"])?;
        let id = self.raw("queryId").ok_or("query: queryId is missing")?.to_owned();
        // From here on a fault is the query's answer: its caller waits for this id.
        Ok(Frame::Query(id, self.asked()))
    }

    fn asked(&self) -> Result<(ThreadId, usize), String> {
        if self.text("method").as_deref() != Some("thread_messages") {
            return Err("query: method is not thread_messages".to_owned());
        }
        let params = Members {
            kind: "query".to_owned(),
            members: RawObject::parse(self.raw("params").unwrap_or("{}")).map_err(|error| format!("query: {error}"))?,
        };
        params.only(&["threadId", "limit"])?;
        let thread = ThreadId::parse(&params.needed("threadId")?).ok_or("query: threadId is no thread of yours")?;
        let limit = params.number("limit")?.map_or(MESSAGES, |limit| usize::try_from(limit).unwrap_or(MESSAGES));
        Ok((thread, limit.min(MESSAGES)))
    }

    fn holding(&self) -> Result<Frame, String> {
        self.only(&["runs"])?;
        let list: Vec<&RawValue> =
            serde_json::from_str(self.raw("runs").unwrap_or("null")).map_err(|_| "holding: runs is no list")?;
        let mut held = Vec::new();
        for entry in list.into_iter().take(HELD) {
            let members = RawObject::parse(entry.get()).map_err(|error| format!("holding: {error}"))?;
            let entry = Members { kind: "holding".to_owned(), members };
            entry.only(&["runId", "lastSeq"])?;
            held.push(Holding { run: entry.run()?, last_seq: entry.number("lastSeq")?.unwrap_or(0) });
        }
        Ok(Frame::Holding(held))
    }

    fn raw(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(RawValue::get).filter(|raw| *raw != "null")
    }

    fn text(&self, name: &str) -> Option<String> {
        self.raw(name).and_then(json::string)
    }

    fn needed(&self, name: &str) -> Result<String, String> {
        self.text(name).ok_or_else(|| format!("{}: {name} is missing or no string", self.kind))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        self.raw(name)
            .map(|raw| json::integer(raw).map_err(|_| format!("{}: {name} is no whole number", self.kind)))
            .transpose()
    }

    fn run(&self) -> Result<RunId, String> {
        RunId::parse(&self.needed("runId")?).ok_or_else(|| format!("{}: runId is no run of yours", self.kind))
    }

    /// A misspelt member is told, not passed over.
    fn only(&self, known: &[&str]) -> Result<(), String> {
        match self.members.iter().find(|(name, _)| *name != "type" && !known.contains(name)) {
            Some((name, _)) => Err(format!("{}: {name:?} is no member of this frame", self.kind)),
            None => Ok(()),
        }
    }
}

/// The name an agent has in routes.
///
/// # Errors
/// What fits.
pub fn agent_name(text: &str) -> Result<AgentName, String> {
    let fits = !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    AgentName::new(text)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| format!("name: {text:?} does not fit into an address, 1 to 128 of A-Z a-z 0-9 _ -"))
}

fn registration(text: &str) -> Result<Registration, String> {
    let members = RawObject::parse(text).map_err(|error| format!("register: {error}"))?;
    let agent = Members { kind: "register".to_owned(), members };
    agent.only(&["name", "description", "agentCardExtra", "metadata", "takesInterjections"])?;
    for object in ["agentCardExtra", "metadata"] {
        if agent.raw(object).is_some_and(|raw| !raw.starts_with('{')) {
            return Err(format!("register: {object} is no object"));
        }
    }
    if agent.raw("description").is_some() {
        agent.needed("description")?;
    }
    let interjections = match agent.raw("takesInterjections") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err("register: takesInterjections is neither true nor false".to_owned()),
    };
    Ok(Registration { name: agent_name(&agent.needed("name")?)?, interjections, text: text.to_owned() })
}

/// `{"type":"error","message",…}` about a run.
#[must_use]
pub fn error(message: &str, run: Option<&str>) -> String {
    let run = run.map(|run| format!(",\"runId\":{}", json::quote(run))).unwrap_or_default();
    format!("{{\"type\":\"error\",\"message\":{}{run}}}", json::quote(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_closed_and_typed() {
        let run = "run_0123456789abcdef01234567";
        assert!(matches!(Frame::parse(&format!(r#"{{"type":"finish","runId":"{run}"}}"#)), Ok(Frame::Finish(_))));
        let event = format!(r#"{{"type":"event","runId":"{run}","event":{{ "type":"X" }},"seq":2.0}}"#);
        match Frame::parse(&event) {
            Ok(Frame::Event(_, text, Some(2))) => assert_eq!(text, r#"{ "type":"X" }"#),
            other => panic!("{other:?}"),
        }
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"type":"x"}"#,
            r#"{"type":"finish"}"#,
            r#"{"type":"finish","runId":"run_1"}"#,
            r#"{"type":"register","agents":[{"name":"a b"}]}"#,
            r#"{"type":"register","agents":[{"name":"a","x":1}]}"#,
            r#"{"type":"hello","version":3,"publicKey":"","ticket":"","nonce":"","proof":""}"#,
            r#"{"type":"register","type":"finish","agents":[]}"#,
            r#"{"type":"ack","runId":"run_0123456789abcdef01234567","accepted":1}"#,
        ] {
            assert!(Frame::parse(wrong).is_err(), "{wrong}");
        }
    }
}
