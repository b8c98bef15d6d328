//! The A2A door through a real port: callers as plain HTTP, a provider by hand.

mod envelope;
mod journeys;
mod refusals;
mod rest;

use serde_json::{Value, json};
use wikala_certs::{Moment, Proof, SignedCertificate};
use wikala_chain::{SigningKey, VerifiedChain, nonce};
use wikala_doors::client::{Client, Events};
use wikala_witness::{AgentId, Fact, Question, RunFilter, RunId};

use crate::house::{Puppet, TestHouse};

/// A caller's end of the door.
#[derive(Clone)]
pub(crate) struct Caller {
    http: Client,
    url: String,
    base: String,
    witness: wikala_chain::PublicKey,
    agent: AgentId,
}

impl Caller {
    pub(crate) fn of(house: &TestHouse, agent: &AgentId) -> Self {
        let url = format!("{}/a2a/{}/{}", house.url, agent.provider, agent.name.as_str());
        Caller {
            http: Client::new(),
            url,
            base: house.url.clone(),
            witness: house.app.public_key(),
            agent: agent.clone(),
        }
    }

    /// A whole answer: the envelope.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": "x", "method": method, "params": params });
        let (status, answer) = self.http.post_json(&self.url, &body, &[("a2a-version", "1.0")]).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// The task of an answer that must be one.
    pub(crate) async fn task(&self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("error").is_none(), "{answer:#}");
        answer["result"].get("task").cloned().unwrap_or_else(|| answer["result"].clone())
    }

    /// A call in the background: a blocking send.
    fn spawn(&self, method: &'static str, params: Value) -> tokio::task::JoinHandle<Value> {
        let caller = self.clone();
        tokio::spawn(async move { caller.call(method, params).await })
    }

    async fn stream(&self, method: &str, params: Value) -> Events {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.http
            .events(axum::http::Method::POST, &self.url, Some(&body), &[("a2a-version", "1.0")], None)
            .await
            .unwrap()
    }

    async fn get(&self, id: &str) -> Value {
        self.task("GetTask", json!({ "id": id })).await
    }

    /// A chain of one hop, presented here, to this agent, once.
    pub(crate) fn bag(&self, key: &SigningKey, now: u64) -> Value {
        self.bag_of(key, &VerifiedChain::start(key), now)
    }

    pub(crate) fn bag_of(&self, key: &SigningKey, chain: &VerifiedChain, now: u64) -> Value {
        json!({ "actorChain": chain.tokens().collect::<Vec<_>>(), "presenter": self.presenter(key, chain, now) })
    }

    pub(crate) fn presenter(&self, key: &SigningKey, chain: &VerifiedChain, now: u64) -> Value {
        let AgentId { provider, name } = &self.agent;
        let tip = Some(chain.tip());
        value(&Proof::present(key, &self.witness, provider, name, tip, &nonce(), Moment::from_secs(now)))
    }
}

pub(crate) fn value(proof: &Proof) -> Value {
    serde_json::from_str(&proof.to_json()).unwrap()
}

pub(crate) fn resolve(key: &SigningKey, run: &str, at: u64) -> Value {
    value(&Proof::resolve(key, run, Moment::from_secs(at)))
}

pub(crate) fn cancel(key: &SigningKey, run: &str, at: u64) -> Value {
    value(&Proof::cancel(key, run, Moment::from_secs(at)))
}

pub(crate) fn certificate(authority: &SigningKey, delegate: &SigningKey, expires_at: u64, accepted: bool) -> Value {
    let issued = SignedCertificate::issue(authority, &delegate.public(), expires_at);
    let issued = if accepted { issued.accept(delegate).unwrap() } else { issued };
    serde_json::from_str(&issued.to_json()).unwrap()
}

pub(crate) fn head() -> SigningKey {
    SigningKey::from_seed([1; 32])
}

pub(crate) fn stranger() -> SigningKey {
    SigningKey::from_seed([2; 32])
}

pub(crate) fn provider() -> SigningKey {
    SigningKey::from_seed([3; 32])
}

/// A message of one text part, with more members and a bag.
pub(crate) fn message(text: &str, more: Value, bag: Value) -> Value {
    let mut message = json!({ "messageId": nonce(), "role": "ROLE_USER", "parts": [{ "text": text }] });
    for (name, value) in more.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({ "message": message, "metadata": bag })
}

pub(crate) fn at_once(mut params: Value) -> Value {
    params["configuration"] = json!({ "returnImmediately": true });
    params
}

fn id(task: &Value) -> String {
    task["id"].as_str().unwrap_or_else(|| panic!("no task: {task:#}")).to_owned()
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

/// The code of an error, as clients compare it: ours, else the number.
fn code(answer: &Value) -> String {
    let infos = answer["error"]["data"].as_array().cloned().unwrap_or_default();
    let ours = infos.iter().find_map(|info| info["metadata"]["code"].as_str().map(str::to_owned));
    ours.unwrap_or_else(|| answer["error"]["code"].to_string())
}

fn number(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or(0)
}

/// What an agent says, by hand.
impl Puppet {
    pub(crate) async fn begins(&self, run: &RunId) {
        self.say(run, Fact::Started, r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#).await;
    }

    async fn writes(&self, run: &RunId, message: &str, pieces: &[&str]) {
        let said = |event: Value| async move { self.say(run, Fact::Said, &event.to_string()).await };
        said(json!({ "type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant" })).await;
        for piece in pieces {
            said(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": piece })).await;
        }
        said(json!({ "type": "TEXT_MESSAGE_END", "messageId": message })).await;
    }

    pub(crate) async fn ends(&self, run: &RunId) {
        let fact = Fact::Ended { questions: vec![], pending: None, cancelled: false };
        self.say(run, fact, r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#).await;
        self.finish(run).await;
    }

    /// Asks these; anything fits but `misfit`.
    pub(crate) async fn asks(&self, run: &RunId, ids: &[&str]) {
        let schema = r#"{"max": 1.0,"not":{"const":"misfit"}}"#;
        let text =
            |id: &str| format!(r#"{{"id":"{id}","reason":"input","message":"{id}?","responseSchema":{schema}}}"#);
        let questions = ids
            .iter()
            .map(|id| Question { id: Some((*id).to_owned()), call: None, text: text(id), owing: None })
            .collect();
        let fact = Fact::Ended { questions, pending: None, cancelled: false };
        self.say(run, fact, r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}"#).await;
        self.finish(run).await;
    }

    /// Takes a run and echoes a text.
    async fn echoes(&mut self, text: &str) -> RunId {
        let run = self.take().await.run;
        self.begins(&run).await;
        self.writes(&run, "m1", &[text]).await;
        self.ends(&run).await;
        run
    }

    /// Takes a run and pauses it.
    pub(crate) async fn takes_and_asks(&mut self, ids: &[&str]) -> RunId {
        let run = self.take().await.run;
        self.begins(&run).await;
        self.asks(&run, ids).await;
        run
    }
}

/// Everything on record about an agent's runs, to see that a refusal changed nothing.
async fn record(house: &TestHouse, agent: &AgentId) -> String {
    let agent = agent.clone();
    let filter = RunFilter { limit: 1000, ..RunFilter::default() };
    let viewer = Some(agent.provider);
    house
        .app
        .readers
        .read(move |reader| {
            let mut all = String::new();
            for run in reader.runs(&agent, viewer, &filter)?.runs {
                all += &format!("{:?}\n{:?}\n", reader.run(&run, viewer)?, reader.turn(&run, viewer)?);
            }
            Ok(all)
        })
        .await
        .unwrap()
}

/// All results of a stream, to its end.
async fn rest(events: &mut Events) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        all.push(serde_json::from_str(&event.data).unwrap());
    }
    all
}

/// A stream event in a word: its kind and what matters of it.
fn word(envelope: &Value) -> String {
    let result = &envelope["result"];
    if let Some(task) = result.get("task") {
        return format!("task {}", state(task));
    }
    if let Some(update) = result.get("statusUpdate") {
        let kind = if update["metadata"].get("agui_event").is_some() { " +event" } else { "" };
        return format!("{}{kind}", state(update));
    }
    if let Some(update) = result.get("artifactUpdate") {
        let text = update["artifact"]["parts"][0]["text"].as_str().unwrap_or("?");
        return format!(
            "{} {text:?} append={} last={}",
            update["artifact"]["artifactId"].as_str().unwrap_or("?"),
            update["append"],
            update["lastChunk"]
        );
    }
    format!("error {}", code(envelope))
}

fn words(envelopes: &[Value]) -> Vec<String> {
    envelopes.iter().map(word).collect()
}
