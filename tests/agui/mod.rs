//! The AG-UI door over real HTTP: an in-process house, a provider played by hand.

mod answers;
mod joins;
mod refusals;
mod streams;

use std::time::Duration;

use axum::http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use wikala_certs::{Moment, Proof};
use wikala_chain::{SigningKey, VerifiedChain, nonce};
use wikala_doors::agui::words;
use wikala_doors::client::Client;
use wikala_witness::{Delivery, Policy, RunId, RunView};

use crate::house::{Puppet, TestHouse};

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"theirs","runId":"theirs"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"theirs","runId":"theirs"}"#;
/// A name nobody can guess.
const UUID: &str = "0e9f6ef0-95b5-4f5f-8f2e-4e5d1c2b3a49";

fn head() -> SigningKey {
    SigningKey::from_seed([0x01; 32])
}
fn stranger() -> SigningKey {
    SigningKey::from_seed([0x5E; 32])
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// A house, an agent, a client.
struct Scene {
    house: TestHouse,
    puppet: Puppet,
    http: Client,
    url: String,
}

impl Scene {
    async fn open() -> Self {
        Self::at(TestHouse::open().await).await
    }

    async fn with(policy: Policy) -> Self {
        Self::at(TestHouse::with(policy).await).await
    }

    async fn at(house: TestHouse) -> Self {
        let puppet = Puppet::attach(&house, &SigningKey::from_seed([0x0A; 32]), "echo").await;
        let url = format!("{}/agui/{}/echo", house.url, puppet.agent.provider);
        Scene { house, puppet, http: Client::new(), url }
    }

    fn now(&self) -> Moment {
        Moment::from_secs(self.house.now())
    }

    /// A chain of one hop, presented here, once.
    fn bag(&self, key: &SigningKey) -> Value {
        self.carrying(&VerifiedChain::start(key), key)
    }

    fn carrying(&self, chain: &VerifiedChain, presenter: &SigningKey) -> Value {
        let to = &self.puppet.agent;
        let witness = self.house.app.public_key();
        let proof =
            Proof::present(presenter, &witness, &to.provider, &to.name, Some(chain.tip()), &nonce(), self.now());
        json!({ "actorChain": chain.tokens().collect::<Vec<_>>(), "presenter": parsed(&proof.to_json()) })
    }

    fn resolution(&self, key: &SigningKey, run: &RunId) -> Value {
        parsed(&Proof::resolve(key, run.as_str(), self.now()).to_json())
    }

    async fn post(&self, body: &Value) -> Got {
        self.send(body.to_string().into_bytes(), &[]).await
    }

    async fn send(&self, body: Vec<u8>, headers: &[(&str, &str)]) -> Got {
        let sent = self.http.send(Method::POST, &self.url, Some(body), headers, None).await;
        let (status, headers, body) = sent.expect("an answer");
        Got { status: status.as_u16(), headers, body }
    }

    /// What the provider says, as it came over its link.
    async fn say(&self, run: &RunId, text: &str) {
        let event = words::read(text).expect("an event");
        self.puppet.say(run, event.fact, &event.words.text).await;
    }

    /// The provider takes the next run and says all this.
    async fn play(&mut self, events: &[&str]) -> Delivery {
        let delivery = self.puppet.take().await;
        for event in events {
            self.say(&delivery.run, event).await;
        }
        self.puppet.finish(&delivery.run).await;
        delivery
    }

    /// A run in this thread that stopped to ask for these; the first of `ids` may be a call.
    async fn paused(&mut self, thread: &str, bag: Value, asks: &[&str]) -> RunId {
        let got = self.post(&body(thread, &format!("first-{thread}"), bag)).await;
        let delivery = self.play(asks).await;
        let events = got.events().await;
        assert_eq!(kind(events.last().expect("an end")), "RUN_FINISHED");
        delivery.run
    }

    async fn view(&self, run: &RunId) -> RunView {
        let run = run.clone();
        self.house.app.readers.read(move |reader| reader.run_for_operator(&run)).await.expect("a run")
    }

    async fn is_open(&self, run: &RunId) -> bool {
        self.view(run).await.asks.last().is_some_and(|ask| ask.closed_at.is_none())
    }
}

/// An answer of the house.
struct Got {
    status: u16,
    headers: HeaderMap,
    body: hyper::body::Incoming,
}

impl Got {
    async fn text(self) -> String {
        let whole = tokio::time::timeout(Duration::from_secs(20), self.body.collect()).await;
        String::from_utf8(whole.expect("an end").expect("a body").to_bytes().to_vec()).expect("UTF-8")
    }

    /// The data of every event, lines joined, as clients do.
    async fn data(self) -> Vec<String> {
        assert_eq!(self.status, 200);
        let text = self.text().await;
        assert!(!text.contains('\r'), "LF framing only");
        let frames = text.split("\n\n").filter(|frame| frame.contains("data: "));
        frames.map(|f| f.lines().filter_map(|l| l.strip_prefix("data: ")).collect::<Vec<_>>().join("\n")).collect()
    }

    async fn events(self) -> Vec<Value> {
        self.data().await.iter().map(|data| parsed(data)).collect()
    }

    /// The code of a refusal, with its status.
    async fn refused(self) -> (u16, String) {
        let status = self.status;
        let text = self.text().await;
        (status, parsed(&text)["error"]["code"].as_str().unwrap_or(&text).to_owned())
    }

    fn run(&self) -> String {
        self.headers["wikala-run-id"].to_str().expect("an id").to_owned()
    }

    fn thread(&self) -> String {
        self.headers["wikala-thread-id"].to_str().expect("an id").to_owned()
    }
}

fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap_or("")
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(kind).collect()
}

/// An utterance.
pub(crate) fn body(thread: &str, run: &str, bag: Value) -> Value {
    json!({
        "threadId": thread, "runId": run, "protocolVersion": "1.0", "state": null,
        "messages": [{ "id": "m1", "role": "user", "content": "hello" }], "tools": [], "context": [],
        "forwardedProps": bag,
    })
}

/// The same with more members.
pub(crate) fn with(mut body: Value, members: Value) -> Value {
    for (name, value) in members.as_object().expect("members") {
        body[name] = value.clone();
    }
    body
}

/// A bag with more members.
fn and(bag: Value, name: &str, value: Value) -> Value {
    with(bag, json!({ name: value }))
}

/// RUN_FINISHED that asks.
fn asking(ids: &[&str]) -> String {
    let interrupts: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "reason": "confirmation" })).collect();
    let outcome = json!({ "type": "interrupt", "interrupts": interrupts });
    json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome }).to_string()
}

pub(crate) fn entry(id: &str, payload: &str) -> Value {
    json!({ "interruptId": id, "status": "resolved", "payload": payload })
}

fn calling(call: &str) -> [String; 2] {
    [
        json!({ "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "ask" }).to_string(),
        json!({ "type": "TOOL_CALL_END", "toolCallId": call }).to_string(),
    ]
}

pub(crate) fn tool(call: &str, content: &str) -> Value {
    json!([
        { "id": "m1", "role": "user", "content": "hello" },
        { "id": "m2", "role": "tool", "toolCallId": call, "content": content },
    ])
}
