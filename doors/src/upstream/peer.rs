//! An A2A agent behind HTTP: its operations, whichever binding it speaks. What comes back
//! is the operation's own result as received, without the envelope around it.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};

use super::card::{Binding, Card};
use super::legacy;
use super::outbound::{Failed, Outbound, is_stream, whole};
use crate::client::Events;

/// How long an agent may say nothing, not even a comment.
const SILENCE: Duration = Duration::from_secs(300);

/// An operation of A2A 1.0 that the witness asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each name is the protocol's own
pub enum Op {
    SendMessage,
    SendStreamingMessage,
    GetTask,
    CancelTask,
    SubscribeToTask,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Op::SendMessage => "SendMessage",
            Op::SendStreamingMessage => "SendStreamingMessage",
            Op::GetTask => "GetTask",
            Op::CancelTask => "CancelTask",
            Op::SubscribeToTask => "SubscribeToTask",
        }
    }

    /// Method and path of the HTTP+JSON binding (A2A 1.0 §11.3).
    fn route(self, task: &str) -> (Method, String) {
        match self {
            Op::SendMessage => (Method::POST, "/message:send".to_owned()),
            Op::SendStreamingMessage => (Method::POST, "/message:stream".to_owned()),
            Op::GetTask => (Method::GET, format!("/tasks/{task}")),
            Op::CancelTask => (Method::POST, format!("/tasks/{task}:cancel")),
            Op::SubscribeToTask => (Method::GET, format!("/tasks/{task}:subscribe")),
        }
    }
}

/// What an agent said.
#[derive(Debug)]
pub enum Said {
    /// A whole result, JSON text.
    Whole(String),
    /// Results to come, one an event.
    Stream(Box<Frames>),
}

/// An agent that told how it is called.
#[derive(Debug)]
pub struct Peer {
    /// Its card.
    pub card: Card,
    outbound: Outbound,
}

impl Peer {
    /// Reads an agent's card: below its address, or at the root of its origin.
    ///
    /// # Errors
    /// One sentence.
    pub async fn meet(outbound: Outbound, url: &str) -> Result<Peer, String> {
        const CARD: &str = "/.well-known/agent-card.json";
        let below =
            if url.ends_with(".json") { url.to_owned() } else { format!("{}{CARD}", url.trim_end_matches('/')) };
        let root = super::outbound::within(url, CARD).unwrap_or_else(|| below.clone());
        let mut why = String::new();
        for place in [below.clone(), root] {
            match outbound.text(Method::GET, &place, None, &[("accept", "application/json")]).await {
                Ok((StatusCode::OK, _, text)) => {
                    return Card::read(&text, &place).map(|card| Peer { card, outbound });
                }
                Ok((status, ..)) => why = format!("card: {place} answered {}", status.as_u16()),
                Err(failed) => return Err(format!("card: {place}: {}", failed.reason())),
            }
        }
        Err(why)
    }

    /// The same, with patience for an agent that restarts ([`Outbound::patient`]).
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Peer { outbound: self.outbound.patient(patience), ..self }
    }

    /// Asks for an operation. `params` is the request message, JSON text; `task` the id
    /// it is about, for those that are about one; `under`: extensions its caller activated.
    ///
    /// # Errors
    /// It was not reached, it may have been, or it refused.
    pub async fn ask(&self, op: Op, task: &str, params: &str, under: &[String]) -> Result<Said, Failed> {
        let extensions = self.extensions(params, under);
        let version = if self.card.binding == Binding::Legacy { "0.3" } else { "1.0" };
        let mut headers = vec![("accept", "application/json, text/event-stream"), ("a2a-version", version)];
        if !extensions.is_empty() {
            let name = if self.card.binding == Binding::Legacy { "x-a2a-extensions" } else { "a2a-extensions" };
            headers.push((name, extensions.as_str()));
        }
        let (method, url, body) = self.request(op, task, params)?;
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        let (status, received, answer) = self.outbound.send(method, &url, body.as_deref(), &headers).await?;
        if is_stream(&received) && status.is_success() {
            let events = Outbound::events(received, answer);
            return Ok(Said::Stream(Box::new(Frames { events, binding: self.card.binding })));
        }
        let text = whole(answer).await?;
        if !status.is_success() {
            return Err(refused(status, &text));
        }
        result(self.card.binding, &text).map(|result| Said::Whole(wrapped(op, self.card.binding, result)))
    }

    fn request(&self, op: Op, task: &str, params: &str) -> Result<(Method, String, Option<String>), Failed> {
        let envelope = |method: &str, params: &str| {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":{},\"params\":{params}}}", json::quote(method))
        };
        match self.card.binding {
            Binding::JsonRpc => {
                let tenant = self.card.tenant.as_deref().map(json::quote);
                let params = json::edit(params, &[("tenant", tenant.as_deref())]).unwrap_or_else(|_| params.to_owned());
                Ok((Method::POST, self.card.url.clone(), Some(envelope(op.name(), &params))))
            }
            Binding::Legacy => {
                let (method, params) = legacy::request(op, params)
                    .ok_or_else(|| Failed::Refused("this cannot be said in A2A 0.3".to_owned()))?;
                Ok((Method::POST, self.card.url.clone(), Some(envelope(method, &params))))
            }
            Binding::Rest => {
                let (method, path) = op.route(&segment(task));
                let tenant = self.card.tenant.as_deref().map(|tenant| format!("/{}", segment(tenant)));
                let url = format!("{}{}{path}", self.card.url, tenant.unwrap_or_default());
                let body = match op {
                    Op::SendMessage | Op::SendStreamingMessage => Some(params.to_owned()),
                    Op::CancelTask => Some("{}".to_owned()),
                    Op::GetTask | Op::SubscribeToTask => None,
                };
                Ok((method, url, body))
            }
        }
    }

    /// Extensions to activate: those without which it answers nobody (each caller here was
    /// asked for them too), those its caller activated, and those the message says it uses.
    fn extensions(&self, params: &str, under: &[String]) -> String {
        let mut uris = self.card.required.clone();
        let message =
            RawObject::parse(params).ok().and_then(|params| RawObject::parse(params.get("message")?.get()).ok());
        let used =
            message.and_then(|message| serde_json::from_str::<Vec<String>>(message.get("extensions")?.get()).ok());
        for uri in under.iter().cloned().chain(used.unwrap_or_default()) {
            let plain = uri.bytes().all(|b| b.is_ascii_graphic() && b != b',');
            if plain && !uris.contains(&uri) {
                uris.push(uri);
            }
        }
        uris.join(", ")
    }
}

/// What is still to come of an answer.
#[derive(Debug)]
pub struct Frames {
    events: Events,
    binding: Binding,
}

impl Frames {
    /// The next result, JSON text; `None` at the end of the stream.
    ///
    /// # Errors
    /// It broke off, or the agent says that it failed.
    pub async fn next(&mut self) -> Result<Option<String>, Failed> {
        let event = self.events.next_within(SILENCE).await.map_err(Failed::Lost)?;
        event.map(|event| result(self.binding, &event.data)).transpose()
    }
}

/// The result inside an envelope, as received.
fn result(binding: Binding, text: &str) -> Result<String, Failed> {
    let broken = |why: String| Failed::Refused(format!("no A2A answer ({why})"));
    let members = RawObject::parse(text).map_err(|error| broken(error.to_string()))?;
    if let Some(error) = members.get("error").map(RawValue::get).filter(|raw| *raw != "null") {
        return Err(Failed::Refused(sentence(error)));
    }
    match binding {
        Binding::Rest => Ok(text.to_owned()),
        Binding::JsonRpc | Binding::Legacy => {
            let result = members.get("result").map(|raw| raw.get().to_owned());
            let result = result.ok_or_else(|| broken("neither result nor error".to_owned()))?;
            if binding == Binding::JsonRpc {
                return Ok(result);
            }
            legacy::result(&result).ok_or_else(|| broken("no event of A2A 0.3".to_owned()))
        }
    }
}

/// GetTask and CancelTask answer with a bare task: written as a stream writes one.
fn wrapped(op: Op, binding: Binding, result: String) -> String {
    match op {
        Op::GetTask | Op::CancelTask if binding != Binding::Legacy => format!("{{\"task\":{result}}}"),
        _ => result,
    }
}

fn refused(status: StatusCode, text: &str) -> Failed {
    let said = RawObject::parse(text).ok().and_then(|members| members.get("error").map(|raw| sentence(raw.get())));
    match said {
        Some(said) => Failed::Refused(format!("HTTP {}, {said}", status.as_u16())),
        None if status.is_server_error() || matches!(status.as_u16(), 408 | 429) => {
            Failed::Busy(format!("HTTP {}", status.as_u16()))
        }
        None => Failed::Refused(format!("HTTP {}", status.as_u16())),
    }
}

/// An error's message, short.
fn sentence(error: &str) -> String {
    let members = RawObject::parse(error).unwrap_or_default();
    let message = members.get("message").and_then(|raw| json::string(raw.get())).unwrap_or_default();
    // A number, and no more: it goes on record and into answers.
    let code =
        members.get("code").and_then(|raw| raw.get().parse::<i64>().ok()).map_or_else(String::new, |n| n.to_string());
    format!("error {code} {}", message.chars().take(300).collect::<String>())
}

/// A path segment: what is not unreserved is escaped (RFC 3986).
fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
