//! A provider by hand: it sends exactly the frames a test gives it.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use wikala_chain::{AgentName, Signature, SigningKey, payload};
use wikala_doors::client::Client;
use wikala_witness::{
    AgentId, Caller, Dialect, Entry, Lineage, Mark, Place, Recorded, RunId, RunView, Stop, ThreadId, Utterance, Words,
};

use crate::house::TestHouse;

/// A nonce that needs no luck.
pub const NONCE: &str = "c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9";

pub struct Peer(WebSocketStream<MaybeTlsStream<TcpStream>>);

pub fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

pub async fn ticket(house: &TestHouse, key: &SigningKey) -> String {
    let body = json!({ "publicKey": key.public().to_hex() });
    let (status, answer) = Client::new().post_json(&format!("{}/tickets", house.url), &body, &[]).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["funduqPublicKey"], house.app.public_key().to_hex());
    answer["ticket"].as_str().unwrap().to_owned()
}

pub fn hello(house: &TestHouse, key: &SigningKey, ticket: &str) -> Value {
    let said = payload::connect_provider(&house.app.public_key(), ticket, NONCE);
    json!({
        "type": "hello", "version": 4, "publicKey": key.public().to_hex(), "ticket": ticket, "nonce": NONCE,
        "proof": key.sign(said.as_bytes()).to_hex(),
    })
}

pub fn register(names: &[&str]) -> Value {
    let agents: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    json!({ "type": "register", "agents": agents })
}

impl Peer {
    pub async fn dial(house: &TestHouse) -> Peer {
        let address = format!("{}/ws/provider", house.url.replacen("http", "ws", 1));
        Peer(connect_async(address).await.expect("a socket").0)
    }

    /// From an address that a proxy names; else the status it is refused with.
    pub async fn dial_as(house: &TestHouse, forwarded_for: &str) -> Result<Peer, u16> {
        let address = format!("{}/ws/provider", house.url.replacen("http", "ws", 1));
        let mut request = address.into_client_request().expect("an address");
        request.headers_mut().insert("x-forwarded-for", forwarded_for.parse().expect("a header"));
        match connect_async(request).await {
            Ok((socket, _)) => Ok(Peer(socket)),
            Err(tungstenite::Error::Http(refused)) => Err(refused.status().as_u16()),
            Err(other) => panic!("{other}"),
        }
    }

    /// Greets and registers on a socket that is open.
    pub async fn greet(&mut self, house: &TestHouse, key: &SigningKey, names: &[&str]) {
        let ticket = ticket(house, key).await;
        self.send(hello(house, key, &ticket)).await;
        assert_eq!(self.next().await["type"], "welcome");
        self.send(register(names)).await;
        assert_eq!(self.next().await["type"], "registered");
    }

    /// Attached, with nothing registered yet.
    pub async fn attach_only(house: &TestHouse, key: &SigningKey) -> Peer {
        let ticket = ticket(house, key).await;
        let mut peer = Peer::dial(house).await;
        peer.send(hello(house, key, &ticket)).await;
        assert_eq!(peer.next().await["type"], "welcome");
        peer
    }

    /// It was told that a newer one replaced it; else it answers.
    pub async fn was_replaced(&mut self) -> bool {
        let _ = self.0.send(Message::text("{\"type\":\"nothing\"}")).await;
        match tokio::time::timeout(Duration::from_secs(10), self.0.next()).await.expect("in time") {
            Some(Ok(Message::Close(frame))) => frame.is_some_and(|frame| frame.reason.starts_with("replaced")),
            Some(Ok(Message::Text(_))) => false,
            other => panic!("{other:?}"),
        }
    }

    /// Attached and registered; the witness's answer is verified.
    pub async fn attach(house: &TestHouse, key: &SigningKey, names: &[&str]) -> Peer {
        Self::attach_with(house, key, names, Value::Null).await
    }

    pub async fn attach_with(house: &TestHouse, key: &SigningKey, names: &[&str], capacity: Value) -> Peer {
        let ticket = ticket(house, key).await;
        let mut hello = hello(house, key, &ticket);
        hello["maxConcurrentRuns"] = capacity;
        let mut peer = Peer::dial(house).await;
        peer.send(hello).await;
        let welcome = peer.next().await;
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        let answer = Signature::from_hex(welcome["answer"].as_str().unwrap()).unwrap();
        let said = payload::connect_witness(&ticket, NONCE);
        house.app.public_key().verify(said.as_bytes(), &answer).expect("the witness's own answer");
        peer.send(register(names)).await;
        let registered = peer.next().await;
        assert_eq!(registered, json!({ "type": "registered", "names": names }));
        peer
    }

    pub async fn send(&mut self, frame: Value) {
        self.text(&frame.to_string()).await;
    }

    pub async fn text(&mut self, text: &str) {
        self.0.send(Message::text(text.to_owned())).await.expect("sent");
    }

    pub async fn binary(&mut self, bytes: Vec<u8>) {
        self.0.send(Message::binary(bytes)).await.expect("sent");
    }

    /// The next frame.
    pub async fn next(&mut self) -> Value {
        match self.message().await {
            Message::Text(text) => serde_json::from_str(text.as_str()).expect("JSON"),
            other => panic!("{other:?}"),
        }
    }

    /// The code and reason it is closed with.
    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            if let Message::Close(frame) = self.message().await {
                let frame = frame.expect("a reason");
                return (frame.code.into(), frame.reason.as_str().to_owned());
            }
        }
    }

    async fn message(&mut self) -> Message {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(10), self.0.next()).await.expect("in time");
            match next.expect("still open").expect("a message") {
                Message::Ping(_) | Message::Pong(_) => {}
                message => return message,
            }
        }
    }

    /// Nothing waits: the answer to a frame sent now is the next to come.
    pub async fn silent(&mut self) {
        self.send(json!({ "type": "nothing" })).await;
        let answer = self.next().await;
        assert!(answer["message"].as_str().is_some_and(|why| why.contains("\"nothing\"")), "{answer}");
    }

    /// Waits for an offer and takes it.
    pub async fn take(&mut self) -> Value {
        let offer = self.next().await;
        assert_eq!(offer["type"], "run", "{offer}");
        self.send(json!({ "type": "ack", "runId": offer["runId"], "accepted": true })).await;
        offer
    }

    pub async fn say(&mut self, run: &RunId, event: Value, seq: Option<u64>) {
        let mut frame = json!({ "type": "event", "runId": run.as_str(), "event": event });
        if let Some(seq) = seq {
            frame["seq"] = seq.into();
        }
        self.send(frame).await;
    }

    pub async fn finish(&mut self, run: &RunId) {
        self.send(json!({ "type": "finish", "runId": run.as_str() })).await;
    }
}

/// Says something to an agent, as nobody in particular.
pub async fn speak(house: &TestHouse, key: &SigningKey, name: &str, text: &str) -> (RunId, ThreadId) {
    let body = json!({ "messages": [{ "id": format!("m-{text}"), "role": "user", "content": text }] });
    speak_at(house, key, name, Place::New, body).await
}

pub async fn speak_at(house: &TestHouse, key: &SigningKey, name: &str, place: Place, body: Value) -> (RunId, ThreadId) {
    let said = Utterance {
        agent: AgentId { provider: key.public(), name: AgentName::new(name).unwrap() },
        place,
        caller: Caller::default(),
        words: Words { dialect: Dialect::AgUi, text: body.to_string().into() },
        extensions: Vec::new(),
        lineage: Lineage::default(),
        vouchers: None,
        addressed: None,
        client_run: None,
        owing: None,
    };
    let opened = house.app.desk.ask(move |w, now| w.speak(now, said)).await.expect("spoken");
    (opened.run, opened.thread)
}

pub async fn stop(house: &TestHouse, run: &RunId) {
    let stop = Stop { agent: None, run: run.clone(), act: None, certificate: None };
    house.app.desk.ask(move |w, now| w.stop(now, stop)).await.expect("stopped");
}

pub async fn view(house: &TestHouse, run: &RunId) -> RunView {
    let run = run.clone();
    house.app.readers.read(move |r| r.run(&run, None)).await.expect("a run")
}

/// Waits until a run stands there.
pub async fn until(house: &TestHouse, run: &RunId, status: &str) -> RunView {
    for _ in 0..1000 {
        let view = view(house, run).await;
        if view.status.as_str() == status {
            return view;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{run} is {:?}, never {status}", view(house, run).await);
}

/// Waits until so many links are attached.
pub async fn until_attached(house: &TestHouse, links: usize) {
    for _ in 0..1000 {
        if house.app.desk.ask(|w, _| w.attached()).await.expect("links").len() == links {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never {links} links");
}

pub async fn entries(house: &TestHouse, run: &RunId) -> Vec<Recorded> {
    let run = run.clone();
    house.app.readers.read(move |r| r.entries(&run, 0, 10_000, None)).await.expect("entries")
}

/// The types of the provider's words on record, in order.
pub async fn said(house: &TestHouse, run: &RunId) -> Vec<String> {
    let kind = |recorded: Recorded| match recorded.entry {
        Entry::Words(words) => serde_json::from_str::<Value>(&words.text).unwrap()["type"].as_str().map(str::to_owned),
        Entry::Mark(Mark::LinkGap { expected, received }) => Some(format!("gap {expected} {received}")),
        Entry::Mark(_) => None,
    };
    entries(house, run).await.into_iter().filter_map(kind).collect()
}

pub fn started() -> Value {
    json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" })
}

pub fn finished() -> Value {
    json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" })
}
