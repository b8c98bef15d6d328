//! What the agent does: the first word of the user's text says it.

use std::time::Duration;

use serde_json::{Value, json};
use wikala_certs::{Moment, Proof};
use wikala_chain::{AgentName, Chain, PrefixCache, PublicKey, VerifiedChain, nonce};

use super::agent::Agent;
use super::owes;
use crate::client::Signer;
use axum::http::Method;

/// Plays one leg of a run to its end.
pub(super) async fn play(agent: &Agent, run: &str, input: &str) {
    let input: Value = serde_json::from_str(input).unwrap_or(Value::Null);
    let stage = Stage { agent, run, thread: input["threadId"].as_str().unwrap_or("").to_owned() };
    stage.say(json!({ "type": "RUN_STARTED", "threadId": stage.thread, "runId": run, "protocolVersion": "1.0" }));
    let outcome = match answered(&input) {
        Some(answer) => {
            stage.text("answer", &format!("you said: {answer}"));
            Ok(None)
        }
        None => stage.act(&input).await,
    };
    match outcome {
        Ok(Some(outcome)) => {
            stage.say(json!({ "type": "RUN_FINISHED", "threadId": stage.thread, "runId": run, "outcome": outcome }))
        }
        Ok(None) => stage.say(json!({ "type": "RUN_FINISHED", "threadId": stage.thread, "runId": run })),
        Err(why) => stage.say(json!({ "type": "RUN_ERROR", "message": why, "code": "script" })),
    }
}

/// What a continuation brings: resume payloads, or results of calls.
fn answered(input: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(entries) = input["resume"].as_array().filter(|entries| !entries.is_empty()) {
        let said = entries.iter().map(|entry| match entry["status"].as_str() {
            Some("cancelled") => "nothing".to_owned(),
            _ => text(&entry["payload"]),
        });
        return Some(said.collect::<Vec<_>>().join(" and "));
    }
    let last = input["messages"].as_array()?.last()?;
    (last["role"] == "tool").then(|| text(&last["content"]))
}

struct Stage<'a> {
    agent: &'a Agent,
    run: &'a str,
    thread: String,
}

impl Stage<'_> {
    fn say(&self, event: Value) {
        self.agent.say(self.run, &event.to_string());
    }

    /// An id of this run's own.
    fn id(&self, what: &str) -> String {
        format!("{what}-{}", self.run.trim_start_matches("run_"))
    }

    fn text(&self, what: &str, text: &str) {
        let id = self.id(what);
        self.say(json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }));
        self.say(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text }));
        self.say(json!({ "type": "TEXT_MESSAGE_END", "messageId": id }));
    }

    /// One turn: its outcome, `None` for plain success.
    async fn act(&self, input: &Value) -> Result<Option<Value>, String> {
        let said = users_text(input);
        let (word, rest) = said.split_once(char::is_whitespace).unwrap_or((&said, ""));
        let rest = rest.trim();
        match word {
            "echo" => self.text("echo", rest),
            "stream" => {
                let id = self.id("stream");
                self.say(json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }));
                for n in 1..=rest.parse::<u32>().unwrap_or(3) {
                    self.say(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": format!("{n} ") }));
                    tokio::task::yield_now().await;
                }
                self.say(json!({ "type": "TEXT_MESSAGE_END", "messageId": id }));
            }
            "slow" => {
                let seconds = rest.parse::<f64>().unwrap_or(1.0).clamp(0.0, 86_400.0);
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                self.text("slow", "done");
            }
            "ask" => return Ok(Some(interrupts([self.question("q1", rest, None)]))),
            "askjson" => {
                let schema = json!({
                    "type": "object", "properties": { "approved": { "type": "boolean" } }, "required": ["approved"],
                });
                return Ok(Some(interrupts([self.question("q1", rest, Some(schema))])));
            }
            "two" => {
                return Ok(Some(interrupts([
                    self.question("q1", "the first?", None),
                    self.question("q2", "the second?", None),
                ])));
            }
            "tool" => {
                let id = self.id("call");
                self.say(json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "lookup" }));
                self.say(
                    json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": json!({ "text": rest }).to_string() }),
                );
                self.say(json!({ "type": "TOOL_CALL_END", "toolCallId": id }));
            }
            "fail" => return Err(if rest.is_empty() { "asked to fail".to_owned() } else { rest.to_owned() }),
            "vanish" => {
                self.text("before", "going");
                self.agent.drop_link.notify_one();
                self.agent.back().await;
                self.text("after", "back again");
            }
            "die" => {
                self.text("before", "going for good");
                self.agent.die();
                std::future::pending::<()>().await;
            }
            "delegate" => self.delegate(rest, input).await?,
            "owe" => {
                let state = owes::owe(self.agent, input, rest, now()).await?;
                self.text("owed", &format!("the answer is {state}"));
            }
            // What does not fit is refused, and stays owed.
            "owebad" => {
                let refused = owes::owe(self.agent, input, rest, now()).await.err();
                self.text("owed", &refused.unwrap_or_else(|| "it was taken".to_owned()));
            }
            _ => self.text("echo", &said),
        }
        Ok(None)
    }

    fn question(&self, id: &str, message: &str, schema: Option<Value>) -> Value {
        let mut question = json!({ "id": self.id(id), "reason": "input_required", "message": message });
        if let Some(schema) = schema {
            question["responseSchema"] = schema;
        }
        question
    }

    /// `PROVIDER/NAME WAY TEXT`: hands the text on through the same witness.
    async fn delegate(&self, order: &str, input: &Value) -> Result<(), String> {
        let mut words = order.splitn(3, char::is_whitespace);
        let (address, way, text) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
        let (provider, name) = address.split_once('/').ok_or("delegate: say PROVIDER/NAME WAY TEXT")?;
        let key = &self.agent.key;
        let delivered = &input["forwardedProps"]["actorChain"];
        let chain = match way {
            "extend" => Some(received(delivered)?.extend(key).map_err(|error| error.to_string())?),
            "fresh" => Some(VerifiedChain::start(key)),
            // The caller's hops without the witness's dispatch, then our own: it walks past the witness.
            "strip" => Some(stripped(delivered)?.extend(key).map_err(|error| error.to_string())?),
            "bare" | "anon" => None,
            other => return Err(format!("delegate: {other:?} is none of extend fresh bare anon strip")),
        };
        let now = now();
        let mut metadata = json!({});
        if let Some(chain) = &chain {
            let provider = PublicKey::from_hex(provider).map_err(|error| format!("delegate: {error}"))?;
            let name = AgentName::new(name).map_err(|error| format!("delegate: {error}"))?;
            let witness = self.agent.witness().ok_or("delegate: no witness yet")?;
            let proof = Proof::present(key, &witness, &provider, &name, Some(chain.tip()), &nonce(), now);
            metadata["actorChain"] = chain.tokens().collect::<Vec<_>>().into();
            metadata["presenter"] = serde_json::from_str(&proof.to_json()).unwrap_or(Value::Null);
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {
            "message": { "messageId": self.id(way), "role": "ROLE_USER", "parts": [{ "text": text }] },
            "metadata": metadata,
        } });
        let url = format!("{}/a2a/{provider}/{name}", self.agent.url);
        let signer = (way == "bare").then_some(Signer { key, at_s: now.as_secs() });
        let (_, answer) =
            self.agent.http.json(Method::POST, &url, Some(&body), &[("a2a-version", "1.0")], signer).await?;
        if let Some(error) = answer.get("error") {
            return Err(format!("delegate: refused, {}", error["message"].as_str().unwrap_or("")));
        }
        let result = &answer["result"]["task"];
        let said: Vec<&str> = result["artifacts"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|artifact| artifact["parts"].as_array().into_iter().flatten())
            .filter_map(|part| part["text"].as_str())
            .collect();
        self.text("delegated", &said.join(" "));
        Ok(())
    }
}

fn interrupts<const N: usize>(questions: [Value; N]) -> Value {
    json!({ "type": "interrupt", "interrupts": questions.to_vec() })
}

/// The newest thing a user said.
fn users_text(input: &Value) -> String {
    let messages = input["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let content = messages.iter().rev().find(|message| message["role"] == "user").map(|message| &message["content"]);
    match content {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join(" ").trim().to_owned()
        }
        _ => String::new(),
    }
}

/// The chain as delivered: an agent verifies for itself, it never trusts a relay's word.
fn received(chain: &Value) -> Result<VerifiedChain, String> {
    let chain = Chain::parse_json(&chain.to_string()).map_err(|error| error.to_string())?;
    chain.ok_or("delegate: no chain was delivered")?.verify(&PrefixCache::disabled()).map_err(|error| error.to_string())
}

fn stripped(chain: &Value) -> Result<VerifiedChain, String> {
    let mut tokens: Vec<String> = received(chain)?.tokens().map(str::to_owned).collect();
    tokens.pop();
    let chain = Chain::parse(tokens).map_err(|error| error.to_string())?;
    chain.verify(&PrefixCache::disabled()).map_err(|error| error.to_string())
}

fn now() -> Moment {
    #[allow(clippy::disallowed_methods)] // an agent has its own clock, it is not the witness
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Moment::from_secs(since.map_or(0, |since| since.as_secs()))
}
