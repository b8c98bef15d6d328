//! The provider's end of the link: asks for a ticket, proves its key, verifies the
//! witness, registers, and copies frames both ways until the line drops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use wikala_chain::{PublicKey, Signature, nonce, payload};

use super::{Agent, Severed};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// How long the witness may take to say its part of the handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a link ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The line dropped, or we dropped it: come back.
    Lost(String),
    /// Come back never: the sentence says why, empty if that was our own wish.
    ForGood(String),
}

/// One link, from the ticket to its end. `attached` is told once the roster stands.
pub(super) async fn link(agent: &Arc<Agent>, attached: impl FnOnce()) -> Ended {
    match open(agent).await {
        Ok(socket) => {
            attached();
            carry(agent, socket).await
        }
        Err(ended) => ended,
    }
}

async fn open(agent: &Agent) -> Result<Socket, Ended> {
    let lost = |what: &str| {
        let what = what.to_owned();
        move |error: String| Ended::Lost(format!("{what}: {error}"))
    };
    let own = agent.key.public();
    let url = format!("{}/tickets", agent.url);
    let (status, answer) =
        agent.http.post_json(&url, &json!({ "publicKey": own.to_hex() }), &[]).await.map_err(lost("ticket"))?;
    let Some(ticket) = answer["ticket"].as_str() else {
        let why = answer["error"]["message"].as_str().unwrap_or("no ticket in the answer");
        return Err(Ended::Lost(format!("ticket: {status}, {why}")));
    };
    let witness = answer["funduqPublicKey"].as_str().and_then(|key| PublicKey::from_hex(key).ok());
    let witness = witness.ok_or_else(|| Ended::Lost("ticket: names no witness key".to_owned()))?;
    // The key seen first is the key of this witness; another one later is somebody else.
    let pinned = agent.pin(witness);
    if pinned != witness {
        return Err(Ended::ForGood(format!(
            "witness: answers as {}, it was {} before",
            witness.fingerprint(),
            pinned.fingerprint()
        )));
    }
    let address = match agent.url.strip_prefix("http") {
        Some(rest) => format!("ws{rest}/ws/provider"),
        None => return Err(Ended::ForGood(format!("witness: {} is no http or https URL", agent.url))),
    };
    let (mut socket, _) =
        connect_async(address).await.map_err(|error| Ended::Lost(format!("link: not reached, {error}")))?;

    let own_nonce = nonce();
    let proof = agent.key.sign(payload::connect_provider(&witness, ticket, &own_nonce).as_bytes());
    let mut hello = json!({
        "type": "hello", "version": 4, "publicKey": own.to_hex(), "ticket": ticket, "nonce": own_nonce,
        "proof": proof.to_hex(),
    });
    if let Some(runs) = agent.max_runs {
        hello["maxConcurrentRuns"] = runs.into();
    }
    send(&mut socket, &hello).await.map_err(lost("hello"))?;
    let welcome = receive(&mut socket).await.map_err(lost("hello"))?;
    let answer = welcome["answer"].as_str().and_then(|text| Signature::from_hex(text).ok());
    let said = payload::connect_witness(ticket, &own_nonce);
    // Before anything else: whoever answers must hold the witness's key.
    if answer.is_none_or(|answer| witness.verify(said.as_bytes(), &answer).is_err()) {
        return Err(Ended::Lost(format!("welcome: not signed by {}", witness.fingerprint())));
    }
    let agents: Vec<Value> = agent
        .names
        .iter()
        .map(|name| json!({ "name": name, "description": "a scripted agent of wikala", "takesInterjections": false }))
        .collect();
    let register = json!({ "type": "register", "agents": agents, "providerName": "wikala provider" });
    send(&mut socket, &register).await.map_err(lost("register"))?;
    let registered = receive(&mut socket).await.map_err(lost("register"))?;
    if registered["type"] != "registered" {
        let why = registered["message"].as_str().unwrap_or("not registered");
        return Err(Ended::ForGood(format!("register: {why}")));
    }
    if let Some(holding) = agent.book.attached() {
        send(&mut socket, &holding).await.map_err(lost("holding"))?;
    }
    Ok(socket)
}

async fn carry(agent: &Arc<Agent>, mut socket: Socket) -> Ended {
    let mut severed = agent.severed.subscribe();
    severed.borrow_and_update();
    loop {
        tokio::select! {
            message = socket.next() => match message {
                None => return Ended::Lost("link: closed".to_owned()),
                Some(Err(error)) => return Ended::Lost(format!("link: {error}")),
                Some(Ok(Message::Close(frame))) => {
                    let reason = frame.map_or_else(String::new, |frame| frame.reason.as_str().to_owned());
                    // Coming back would throw the other one out, and so for ever.
                    if reason.starts_with("replaced") {
                        return Ended::ForGood(format!("link: {reason}"));
                    }
                    return Ended::Lost(format!("link: closed, {reason}"));
                }
                Some(Ok(Message::Text(text))) => {
                    let frame = serde_json::from_str(text.as_str()).unwrap_or(Value::Null);
                    if let Some(answer) = heard(agent, &frame)
                        && let Err(error) = send(&mut socket, &answer).await
                    {
                        return Ended::Lost(error);
                    }
                }
                Some(Ok(_)) => {}
            },
            () = agent.book.more.notified() => {}
            _ = severed.changed() => {
                // No goodbye: a dropped line says none.
                return match *severed.borrow() {
                    Severed::ForGood => Ended::ForGood(String::new()),
                    _ => Ended::Lost("link: dropped as asked".to_owned()),
                };
            }
        }
        // Also after a frame: it may have begun or resumed a run.
        for frame in agent.book.due() {
            if let Err(error) = send(&mut socket, &frame).await {
                return Ended::Lost(error);
            }
        }
    }
}

/// What a frame of the witness's asks for; the answer, if it wants one.
fn heard(agent: &Arc<Agent>, frame: &Value) -> Option<Value> {
    let run = frame["runId"].as_str().unwrap_or("");
    match frame["type"].as_str() {
        Some("run") => {
            let full = agent.max_runs.is_some_and(|most| agent.book.busy() >= most);
            if !full {
                agent.begin(run, frame["runInput"].clone());
            }
            Some(json!({ "type": "ack", "runId": run, "accepted": !full }))
        }
        Some("cancel") => {
            agent.book.cancel(run);
            None
        }
        Some("resume") => {
            agent.book.resume(run, frame["after"].as_u64().unwrap_or(0));
            None
        }
        Some("error") => {
            tracing::warn!(run, message = frame["message"].as_str(), "the witness says");
            None
        }
        _ => None,
    }
}

async fn send(socket: &mut Socket, frame: &Value) -> Result<(), String> {
    socket.send(Message::text(frame.to_string())).await.map_err(|error| format!("link: {error}"))
}

/// The next frame of a handshake.
async fn receive(socket: &mut Socket) -> Result<Value, String> {
    let next = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    return serde_json::from_str(text.as_str()).map_err(|_| "not JSON".to_owned());
                }
                Some(Ok(Message::Close(Some(frame)))) => return Err(format!("refused, {}", frame.reason)),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(_)) | None => return Err("closed".to_owned()),
                Some(Err(error)) => return Err(error.to_string()),
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.unwrap_or_else(|_| Err(format!("no answer in {PATIENCE:?}")))
}
