//! Dialling in: a ticket, a proof, the witness's own proof, the roster; then frames.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::{self, Message};
use wikala_chain::{AgentName, PublicKey, RawObject, Signature, json as strict, nonce, payload};

use super::agent::Agent;
use crate::cli::{io, operator};
use crate::exit::Failure;

/// Why there is no link.
#[derive(Debug)]
pub(super) enum Lost {
    /// Nothing that waiting mends: another witness, none at all, or this provider is not
    /// wanted as it is.
    ForGood(Failure),
    /// Not reached for now.
    Broken(String),
    /// Attached, and lost for now.
    Dropped(String),
}

/// What a witness may close a link with (1008) that another dial mends: a ticket too old
/// or used, a greeting too slow, a house that closes, a reader that fell behind. Any other
/// reason would be the same the next time.
const HEALS: [&str; 5] = ["hello: ticket", "hello: did not come", "hello: cannot be recorded", "house:", "link:"];

/// Where a sentence about the roster itself begins.
const ROSTER: [&str; 3] = ["register:", "name:", "frame:"];

fn refused(why: impl Into<String>) -> Lost {
    Lost::ForGood(Failure::refused(why))
}

/// The witness closed the link.
fn closed(code: u16, reason: &str) -> Lost {
    if code != POLICY || HEALS.iter().any(|heals| reason.starts_with(heals)) {
        return Lost::Broken(format!("link: closed with {code}, {reason}"));
    }
    // Two processes on one key would replace each other for ever.
    let way_out = if reason.starts_with("replaced") { ", stop one of the two or give it a key of its own" } else { "" };
    refused(format!("{reason}{way_out}"))
}

/// An answer over HTTP that is none of ours: a fault of the moment, or nobody's address.
fn unexpected(url: &str, status: StatusCode, words: &Value) -> Lost {
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Lost::Broken(format!("{url}: answered {}", status.as_u16()));
    }
    match words["error"]["message"].as_str() {
        Some(message) => refused(message),
        None => Lost::ForGood(operator::no_witness(url, status)),
    }
}

/// "Policy violation" (RFC 6455, 7.4.1): how a witness refuses.
const POLICY: u16 = 1008;

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// Attaches, serves, and returns when the link is gone.
pub(super) async fn attach(agent: &Arc<Agent>, names: &[AgentName]) -> Result<(), Lost> {
    let url = format!("{}/tickets", agent.url);
    let body = json!({ "publicKey": agent.key.public().to_hex() });
    let (status, issued) = agent.http.answer(Method::POST, &url, Some(&body), &[], None).await.map_err(Lost::Broken)?;
    let issued = issued.unwrap_or(Value::Null);
    let named = issued["funduqPublicKey"].as_str().and_then(|key| PublicKey::from_hex(key).ok());
    let (Some(ticket), Some(witness)) = (issued["ticket"].as_str(), named) else {
        return Err(unexpected(&url, status, &issued));
    };
    if !agent.pin(witness) {
        return Err(refused(format!(
            "witness: {} answers where another did before, start again if that is right",
            witness.fingerprint()
        )));
    }
    let address = format!("{}/ws/provider", agent.url.replacen("http", "ws", 1));
    let (mut socket, _) = tokio_tungstenite::connect_async(&address).await.map_err(|error| match error {
        tungstenite::Error::Http(answer) => unexpected(&address, answer.status(), &Value::Null),
        error => Lost::Broken(format!("link: {error}")),
    })?;
    let nonce = nonce();
    let proof = agent.key.sign(payload::connect_provider(&witness, ticket, &nonce).as_bytes());
    let hello = json!({
        "type": "hello", "version": 4, "publicKey": agent.key.public().to_hex(), "ticket": ticket, "nonce": nonce,
        "maxConcurrentRuns": agent.max_runs, "proof": proof.to_hex(),
    });
    send(&mut socket, hello.to_string()).await?;
    let welcome: Value = serde_json::from_str(&receive(&mut socket).await?).unwrap_or(Value::Null);
    // Whoever answers must prove the key pinned, before it hears anything else of us.
    let answered = welcome["answer"]
        .as_str()
        .and_then(|hex| Signature::from_hex(hex).ok())
        .is_some_and(|answer| witness.verify(payload::connect_witness(ticket, &nonce).as_bytes(), &answer).is_ok());
    if !answered {
        return Err(refused(format!("witness: {} did not prove its key", witness.fingerprint())));
    }
    let agents: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name.as_str(), "description": "a scripted agent", "takesInterjections": false }))
        .collect();
    send(&mut socket, json!({ "type": "register", "agents": agents, "providerName": "wikala provider" }).to_string())
        .await?;
    let mut registered = false;
    frames(agent, &mut socket, &mut registered).await.map_err(|lost| match lost {
        Lost::Broken(why) if registered => Lost::Dropped(why),
        lost => lost,
    })
}

async fn frames(agent: &Arc<Agent>, socket: &mut Socket, registered: &mut bool) -> Result<(), Lost> {
    let (out, mut waiting) = mpsc::unbounded_channel();
    let mut unnamed = false;
    loop {
        tokio::select! {
            frame = waiting.recv() => match frame {
                Some(frame) => send(socket, frame).await?,
                None => return Ok(()),
            },
            () = agent.drop_link.notified() => {
                // What was said before the drop is on the line: dropped, not unsaid. Without
                // its receipt the run would be offered, and the link dropped, again and again.
                while let Ok(frame) = waiting.try_recv() {
                    send(socket, frame).await?;
                }
                return Ok(());
            }
            text = receive(socket) => {
                let text = text?;
                let Ok(frame) = RawObject::parse(&text) else { continue };
                let member = |name: &str| frame.get(name).and_then(|raw| strict::string(raw.get())).unwrap_or_default();
                match member("type").as_str() {
                    "registered" => {
                        *registered = true;
                        let _ = io::say("attached");
                        let held = agent.opened(out.clone());
                        if !held.is_empty() {
                            unnamed = true;
                            let runs: Vec<Value> =
                                held.iter().map(|(run, last)| json!({ "runId": run, "lastSeq": last })).collect();
                            send(socket, json!({ "type": "holding", "runs": runs }).to_string()).await?;
                            // The answers to it come before the answer to this question.
                            let query = json!({ "type": "query", "queryId": "held", "method": "thread_messages",
                                "params": { "threadId": "thread_000000000000000000000000", "limit": 1 } });
                            send(socket, query.to_string()).await?;
                        }
                    }
                    "resume" => {
                        let after = frame.get("after").and_then(|raw| strict::integer(raw.get()).ok()).unwrap_or(0);
                        agent.resume(&member("runId"), usize::try_from(after).unwrap_or(usize::MAX));
                    }
                    "queryResult" if unnamed => {
                        unnamed = false;
                        agent.forget_waiting();
                    }
                    "run" => {
                        let input = frame.get("runInput").map_or("{}", |raw| raw.get());
                        agent.take(&member("runId"), &member("agentName"), input);
                    }
                    "cancel" => agent.cancel(&member("runId")),
                    // The answer to the roster: this link would serve nobody. A roster that is
                    // refused stays so; a record that failed, or a link just replaced, does not.
                    "error" if !*registered => {
                        let why = member("message");
                        // Nor is a name that is served otherwise given up by waiting for it.
                        let taken = !*registered && why.ends_with("(carrier-taken)");
                        let refusal = taken || ROSTER.iter().any(|place| why.starts_with(place));
                        return Err(if refusal { refused(why) } else { Lost::Broken(why) });
                    }
                    "error" => told(&member("message"), &member("runId")),
                    _ => {}
                }
            }
        }
    }
}

/// A no about something said earlier, of a run if it names one.
fn told(message: &str, run: &str) {
    if run.is_empty() {
        tracing::warn!(message, "the witness says no");
    } else {
        tracing::warn!(message, run, "the witness says no");
    }
}

async fn send(socket: &mut Socket, frame: String) -> Result<(), Lost> {
    socket.send(Message::text(frame)).await.map_err(|error| Lost::Broken(format!("link: {error}")))
}

async fn receive(socket: &mut Socket) -> Result<String, Lost> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
            Some(Ok(Message::Close(frame))) => {
                return Err(match frame {
                    Some(frame) => closed(frame.code.into(), &frame.reason),
                    None => Lost::Broken("link: closed".to_owned()),
                });
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Lost::Broken(format!("link: {error}"))),
            None => return Err(Lost::Broken("link: ended".to_owned())),
        }
    }
}
