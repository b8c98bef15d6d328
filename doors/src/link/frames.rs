//! The frames of the link (wire.md, The link): JSON text, closed members, read once.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::json;
use serde_json::value::RawValue;
use wikala_chain::{AgentName, PublicKey, RawObject, Signature, is_nonce, json as strict};
use wikala_witness::{Holding, Registration, Resumed, RunId, ThreadId};

/// The version of the link's wire.
pub const VERSION: u64 = 4;
/// The largest frame in either direction, bytes.
pub const FRAME: usize = 1024 * 1024;
/// Agents in one roster.
pub const ROSTER: usize = 256;
/// Runs in one `holding`.
pub const HELD: usize = 4096;
/// Messages in one answer to `thread_messages`.
pub const MESSAGES: u64 = 200;
/// A provider's own name, characters.
const PROVIDER_NAME: usize = 128;

/// What a provider sends.
#[derive(Debug)]
pub enum Frame {
    /// Opens the link.
    Hello(Hello),
    /// The full roster of this link.
    Register {
        /// The agents.
        agents: Vec<Registration>,
        /// What the provider calls itself.
        provider_name: Option<String>,
    },
    /// Frees a name.
    DeleteAgent(AgentName),
    /// The receipt of an offer.
    Ack {
        /// The run.
        run: RunId,
        /// Taken.
        accepted: bool,
        /// With a refusal: for good, and why.
        reason: Option<String>,
    },
    /// An event of a run.
    Event {
        /// The run.
        run: RunId,
        /// The event, JSON text as received.
        event: String,
        /// Its number, from 1 in each turn.
        seq: Option<u64>,
    },
    /// Done with a run.
    Finish(RunId),
    /// Asks for a thread's messages.
    Query {
        /// Echoed in the answer: JSON text of a string or number.
        id: String,
        /// The thread; `None`: not of our form.
        thread: Option<ThreadId>,
        /// How many at most.
        limit: usize,
    },
    /// The runs it still works on.
    Holding(Vec<Holding>),
}

/// The handshake's claim, nothing verified.
#[derive(Debug)]
pub struct Hello {
    /// The key that wants to attach.
    pub key: PublicKey,
    /// Its ticket.
    pub ticket: String,
    /// Its nonce, 32 hex.
    pub nonce: String,
    /// How many runs it takes at once.
    pub capacity: Option<u64>,
    /// Over `funduq-connect-provider:{witness_key}:{ticket}:{nonce}`.
    pub proof: Signature,
}

/// A frame that does not read: the sentence, and the run it was about, if that much was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// *place: fact, expectation*.
    pub sentence: String,
    /// The run it named.
    pub run: Option<String>,
}

/// An integer as the wire writes it: `N` or `N.0`.
#[derive(Debug, Clone, Copy)]
struct Integer(u64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        strict::integer(raw.get()).map(Integer).map_err(D::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawHello<'a> {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    version: Integer,
    public_key: String,
    ticket: String,
    nonce: String,
    #[serde(default, borrow)]
    max_concurrent_runs: Option<&'a RawValue>,
    proof: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawRegister<'a> {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    #[serde(borrow)]
    agents: Vec<&'a RawValue>,
    #[serde(default)]
    provider_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawAgent {
    name: String,
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default, rename = "agentCardExtra")]
    _agent_card_extra: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default, rename = "metadata")]
    _metadata: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    takes_interjections: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDelete {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawAck {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    run_id: String,
    accepted: bool,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawEvent<'a> {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    run_id: String,
    #[serde(borrow)]
    event: &'a RawValue,
    #[serde(default, borrow)]
    seq: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawFinish {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    run_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawQuery<'a> {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    #[serde(borrow)]
    query_id: &'a RawValue,
    method: String,
    params: RawParams,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawParams {
    thread_id: String,
    #[serde(default)]
    limit: Option<Integer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHolding {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    runs: Vec<RawHeld>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawHeld {
    run_id: String,
    last_seq: Integer,
}

/// Reads one text frame.
///
/// # Errors
/// Not JSON, a key twice, an unknown type or member, a value of another shape.
pub fn read(text: &str) -> Result<Frame, Unreadable> {
    let members =
        RawObject::parse(text).map_err(|error| Unreadable { sentence: format!("frame: {error}"), run: None })?;
    let word = |name: &str| members.get(name).and_then(|raw| strict::string(raw.get()));
    let kind = word("type").ok_or_else(|| Unreadable {
        sentence: "frame: has no type, hello, register, deleteAgent, ack, event, finish, query or holding expected"
            .to_owned(),
        run: None,
    })?;
    shaped(&kind, text).map_err(|why| Unreadable { sentence: format!("{kind:.32}: {why}"), run: word("runId") })
}

fn shaped(kind: &str, text: &str) -> Result<Frame, String> {
    Ok(match kind {
        "hello" => Frame::Hello(hello(parsed(text)?)?),
        "register" => register(parsed(text)?)?,
        "deleteAgent" => Frame::DeleteAgent(name(&parsed::<RawDelete>(text)?.name)?),
        "ack" => {
            let ack: RawAck = parsed(text)?;
            Frame::Ack { run: run(&ack.run_id)?, accepted: ack.accepted, reason: ack.reason }
        }
        "event" => {
            let event: RawEvent<'_> = parsed(text)?;
            let seq = event.seq.map(|raw| strict::integer(raw.get()).map_err(|error| format!("seq: {error}")));
            let seq = seq.transpose()?;
            if seq == Some(0) {
                return Err("seq: is 0, numbers begin with 1".to_owned());
            }
            Frame::Event { run: run(&event.run_id)?, event: event.event.get().to_owned(), seq }
        }
        "finish" => Frame::Finish(run(&parsed::<RawFinish>(text)?.run_id)?),
        "query" => query(&parsed(text)?)?,
        "holding" => {
            let holding: RawHolding = parsed(text)?;
            if holding.runs.len() > HELD {
                return Err(format!("runs: more than {HELD}"));
            }
            // An id that is not ours was never held; it is left out of the answer like any other.
            let held = holding
                .runs
                .iter()
                .filter_map(|held| Some(Holding { run: RunId::parse(&held.run_id)?, last_seq: held.last_seq.0 }));
            Frame::Holding(held.collect())
        }
        _ => return Err("is no frame of a provider".to_owned()),
    })
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn run(text: &str) -> Result<RunId, String> {
    RunId::parse(text).ok_or_else(|| "runId: not an id of ours".to_owned())
}

/// A name that a route can carry, or nobody could ever call the agent.
fn name(text: &str) -> Result<AgentName, String> {
    let routable = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    AgentName::new(text)
        .ok()
        .filter(|name| name.as_str().bytes().all(routable))
        .ok_or_else(|| "name: not 1 to 128 of A-Z a-z 0-9 _ -".to_owned())
}

fn hello(raw: RawHello<'_>) -> Result<Hello, String> {
    if raw.version.0 != VERSION {
        return Err(format!("version: {} is not spoken here, {VERSION} is", raw.version.0));
    }
    if !is_nonce(&raw.nonce) {
        return Err("nonce: not 32 lower-case hex digits".to_owned());
    }
    let capacity = match raw.max_concurrent_runs.map(RawValue::get) {
        None | Some("null") => None,
        Some(text) => match strict::integer(text) {
            Ok(runs) if runs > 0 => Some(runs),
            _ => return Err("maxConcurrentRuns: not a positive integer, leave it out for no limit".to_owned()),
        },
    };
    Ok(Hello {
        key: PublicKey::from_hex(&raw.public_key).map_err(|error| format!("publicKey: {error}"))?,
        ticket: raw.ticket,
        nonce: raw.nonce,
        capacity,
        proof: Signature::from_hex(&raw.proof).map_err(|error| format!("proof: {error}"))?,
    })
}

fn register(raw: RawRegister<'_>) -> Result<Frame, String> {
    if raw.agents.len() > ROSTER {
        return Err(format!("agents: more than {ROSTER}"));
    }
    let mut agents = Vec::with_capacity(raw.agents.len());
    for agent in raw.agents {
        let read: RawAgent = parsed(agent.get()).map_err(|why| format!("agents: {why}"))?;
        agents.push(Registration {
            name: name(&read.name)?,
            interjections: read.takes_interjections.unwrap_or(false),
            text: agent.get().to_owned(),
        });
    }
    if raw.provider_name.as_ref().is_some_and(|name| name.chars().count() > PROVIDER_NAME) {
        return Err(format!("providerName: more than {PROVIDER_NAME} characters"));
    }
    Ok(Frame::Register { agents, provider_name: raw.provider_name })
}

fn query(raw: &RawQuery<'_>) -> Result<Frame, String> {
    let id = raw.query_id.get();
    if !id.starts_with('"') && strict::integer(id).is_err() {
        return Err("queryId: neither a string nor a number".to_owned());
    }
    if raw.method != "thread_messages" {
        return Err("method: not known, thread_messages is".to_owned());
    }
    let limit = raw.params.limit.map_or(MESSAGES, |limit| limit.0);
    if limit == 0 || limit > MESSAGES {
        return Err(format!("params.limit: not 1 to {MESSAGES}"));
    }
    let thread = ThreadId::parse(&raw.params.thread_id);
    Ok(Frame::Query { id: id.to_owned(), thread, limit: limit as usize })
}

/// `welcome`: the witness's proof; the provider verifies it before anything else.
#[must_use]
pub fn welcome(witness: &PublicKey, answer: &Signature) -> String {
    json!({ "type": "welcome", "funduqPublicKey": witness.to_hex(), "answer": answer.to_hex() }).to_string()
}

/// `registered`.
#[must_use]
pub fn registered(names: &[String]) -> String {
    json!({ "type": "registered", "names": names }).to_string()
}

/// `deleted`.
#[must_use]
pub fn deleted(name: &str) -> String {
    json!({ "type": "deleted", "name": name }).to_string()
}

/// `cancel`.
#[must_use]
pub fn cancel(run: &RunId) -> String {
    json!({ "type": "cancel", "runId": run.as_str() }).to_string()
}

/// `resume`: send again what comes after.
#[must_use]
pub fn resume(resumed: &Resumed) -> String {
    json!({ "type": "resume", "runId": resumed.run.as_str(), "after": resumed.after }).to_string()
}

/// `error`.
#[must_use]
pub fn error(message: &str, run: Option<&str>, name: Option<&str>) -> String {
    let mut frame = json!({ "type": "error", "message": message });
    if let Some(run) = run {
        frame["runId"] = run.into();
    }
    if let Some(name) = name {
        frame["name"] = name.into();
    }
    frame.to_string()
}

/// `queryResult`: messages as JSON text each, or an error. Envelopes keep their nulls.
#[must_use]
pub fn query_result(id: &str, result: Result<&[String], &str>) -> String {
    let (result, error) = match result {
        Ok(messages) => (format!("[{}]", messages.join(",")), "null".to_owned()),
        Err(sentence) => ("null".to_owned(), strict::quote(sentence)),
    };
    format!(r#"{{"type":"queryResult","queryId":{id},"result":{result},"error":{error}}}"#)
}
