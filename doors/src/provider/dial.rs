//! Dialling in: a ticket, a proof, the witness's own proof, the roster; then frames.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use wikala_chain::{AgentName, PublicKey, RawObject, Signature, json as strict, nonce, payload};

use super::agent::Agent;

/// Why there is no link.
#[derive(Debug)]
pub(super) enum Lost {
    /// For good: another witness, or this key is not wanted.
    Refused(String),
    /// For now.
    Broken(String),
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// Attaches, serves, and returns when the link is gone.
pub(super) async fn attach(agent: &Arc<Agent>, names: &[AgentName]) -> Result<(), Lost> {
    let broken = |why: String| Lost::Broken(why);
    let url = format!("{}/tickets", agent.url);
    let body = json!({ "publicKey": agent.key.public().to_hex() });
    let (status, issued) = agent.http.post_json(&url, &body, &[]).await.map_err(broken)?;
    if status.as_u16() == 403 {
        return Err(Lost::Refused(issued["error"]["message"].as_str().unwrap_or("not admitted").to_owned()));
    }
    let ticket = issued["ticket"].as_str().ok_or_else(|| broken(format!("{url}: answered {status}, no ticket")))?;
    let witness = issued["funduqPublicKey"].as_str().and_then(|key| PublicKey::from_hex(key).ok());
    let witness = witness.ok_or_else(|| broken(format!("{url}: names no witness key")))?;
    if !agent.pin(witness) {
        return Err(Lost::Refused(format!("witness: {} answers where another did before", witness.fingerprint())));
    }
    let address = format!("{}/ws/provider", agent.url.replacen("http", "ws", 1));
    let (mut socket, _) =
        tokio_tungstenite::connect_async(address).await.map_err(|error| broken(format!("link: {error}")))?;
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
        return Err(Lost::Refused(format!("witness: {} did not prove its key", witness.fingerprint())));
    }
    let agents: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name.as_str(), "description": "a scripted agent", "takesInterjections": false }))
        .collect();
    send(&mut socket, json!({ "type": "register", "agents": agents, "providerName": "wikala provider" }).to_string())
        .await?;
    frames(agent, &mut socket).await
}

async fn frames(agent: &Arc<Agent>, socket: &mut Socket) -> Result<(), Lost> {
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
                        println!("attached");
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
                    "error" => tracing::warn!(message = %member("message"), run = %member("runId"), "the witness says no"),
                    _ => {}
                }
            }
        }
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
                let reason = frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                return Err(match reason.starts_with("not-admitted") {
                    true => Lost::Refused(reason),
                    false => Lost::Broken(format!("link: closed, {reason}")),
                });
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Lost::Broken(format!("link: {error}"))),
            None => return Err(Lost::Broken("link: ended".to_owned())),
        }
    }
}
