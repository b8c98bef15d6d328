//! Obligations through the real doors: a head that asks, a provider that owes, and everybody
//! else. Numbers are those of the scenarios in the design.

mod answered;
mod asked;
pub(crate) mod asks;
mod denied;
mod hostile;
mod onward;
mod owned;
mod races;
mod resolved;
mod revoked;
mod strict;
mod wake;

use axum::http::Method;
use http_body_util::BodyExt;
use rusqlite::Connection;
use serde_json::{Value, json};
use wikala_certs::{Deed, Moment};
use wikala_chain::{Digest, SigningKey, VerifiedChain};
use wikala_doors::client::{Client, Signer};
use wikala_doors::obligations::spec::{Asked, request};
use wikala_witness::ThreadId;

use crate::a2a::{head, provider, stranger, value};
use crate::house::{Puppet, TestHouse};

pub struct Scene {
    pub house: TestHouse,
    pub puppet: Puppet,
    pub thread: String,
    http: Client,
}

/// An obligation as its creation told it.
#[derive(Debug, Clone, PartialEq)]
pub struct Owed {
    pub id: String,
    pub event: String,
    pub request: Digest,
    pub run: String,
}

impl Scene {
    pub async fn open() -> Scene {
        Self::of(TestHouse::open().await).await
    }

    async fn of(house: TestHouse) -> Scene {
        let puppet = Puppet::attach(&house, &provider(), "ask").await;
        let mut scene = Scene { house, puppet, thread: String::new(), http: Client::new() };
        scene.thread = scene.new_thread().await;
        scene
    }

    pub async fn new_thread(&self) -> String {
        let path = format!("/threads/{}/ask", self.puppet.agent.provider);
        let (status, made) = self.send(Method::POST, &path, None, None).await;
        assert_eq!(status, 201, "{made}");
        made["threadId"].as_str().expect("an id").to_owned()
    }

    pub fn now(&self) -> u64 {
        self.house.now()
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&SigningKey>,
    ) -> (u16, Value) {
        let (status, text) = self.text(method, path, body, key).await;
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}")))
    }

    pub async fn text(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&SigningKey>,
    ) -> (u16, String) {
        let url = format!("{}{path}", self.house.url);
        let signer = key.map(|key| Signer { key, at_s: self.now() });
        let headers: &[(&str, &str)] = if body.is_some() { &[("content-type", "application/json")] } else { &[] };
        let body = body.map(|body| body.to_string().into_bytes());
        let (status, _, body) = self.http.send(method, &url, body, headers, signer).await.expect("an answer");
        let bytes = body.collect().await.expect("whole").to_bytes();
        (status.as_u16(), String::from_utf8(bytes.to_vec()).expect("text"))
    }

    /// Posts a text as it is.
    pub async fn raw(&self, path: &str, body: String) -> (u16, Value) {
        let url = format!("{}{path}", self.house.url);
        let json = [("content-type", "application/json")];
        let (status, _, body) =
            self.http.send(Method::POST, &url, Some(body.into_bytes()), &json, None).await.expect("an answer");
        let bytes = body.collect().await.expect("whole").to_bytes();
        (status.as_u16(), serde_json::from_slice(&bytes).expect("JSON"))
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(Method::POST, path, Some(body), None).await
    }

    pub async fn get(&self, path: &str, key: &SigningKey) -> (u16, Value) {
        self.send(Method::GET, path, None, Some(key)).await
    }

    pub fn demand_in(&self, thread: &str, author: &SigningKey, id: &str, spec: &Value) -> Value {
        demand(thread, author, id, spec, self.now())
    }

    pub fn demand(&self, id: &str, spec: &Value) -> Value {
        self.demand_in(&self.thread, &head(), id, spec)
    }

    pub async fn act_in(&self, thread: &str, body: &Value) -> (u16, Value) {
        self.post(&format!("/v1/conversations/{thread}/actions"), body).await
    }

    pub async fn ask(&self, body: &Value) -> (u16, Value) {
        self.act_in(&self.thread, body).await
    }

    /// An obligation of these terms.
    pub async fn owed(&self, id: &str, spec: Value) -> Owed {
        let (status, told) = self.ask(&self.demand(id, &spec)).await;
        assert_eq!(status, 202, "{told}");
        read(&told)
    }

    /// The same in a thread of its own.
    pub async fn owed_apart(&self, id: &str, spec: Value) -> Owed {
        let thread = self.new_thread().await;
        let (status, told) = self.act_in(&thread, &self.demand_in(&thread, &head(), id, &spec)).await;
        assert_eq!(status, 202, "{told}");
        read(&told)
    }

    pub fn prove(&self, key: &SigningKey, deed: &Deed) -> Value {
        value(&deed.sign(key, Moment::from_secs(self.now())))
    }

    pub async fn accept(&self, key: &SigningKey, id: &str, revision: u64) -> (u16, Value) {
        let deed = Deed::Accept { obligation: id.to_owned(), revision };
        self.post(&route(id, "accept"), &json!({ "revision": revision, "act": self.prove(key, &deed) })).await
    }

    pub async fn decline(&self, key: &SigningKey, id: &str, revision: u64, reason: &str) -> (u16, Value) {
        let deed = Deed::Decline { obligation: id.to_owned(), revision, reason: reason.to_owned() };
        let body = json!({ "revision": revision, "decline_reason": reason, "act": self.prove(key, &deed) });
        self.post(&route(id, "decline"), &body).await
    }

    pub async fn progress(&self, key: &SigningKey, id: &str, revision: u64, to: &str) -> (u16, Value) {
        let deed =
            Deed::Progress { obligation: id.to_owned(), revision, to: to.to_owned(), reason: "because".to_owned() };
        let body = json!({ "revision": revision, "to_state": to, "reason": "because", "act": self.prove(key, &deed) });
        self.post(&route(id, "transition"), &body).await
    }

    pub async fn cancel(&self, key: &SigningKey, id: &str, revision: u64) -> (u16, Value) {
        let deed = Deed::Cancel { obligation: id.to_owned(), revision, reason: "requester_canceled".to_owned() };
        self.post(&route(id, "cancel"), &json!({ "revision": revision, "act": self.prove(key, &deed) })).await
    }

    pub fn response(&self, key: &SigningKey, owed: &Owed, members: &Value) -> Value {
        response(key, owed, members, self.now())
    }

    pub async fn respond(&self, key: &SigningKey, owed: &Owed, members: &Value) -> (u16, Value) {
        self.post(&route(&owed.id, "respond"), &self.response(key, owed, members)).await
    }

    /// As a party sees it.
    pub async fn view(&self, id: &str) -> Value {
        let (status, view) = self.get(&format!("/v1/response-obligations/{id}"), &head()).await;
        assert_eq!(status, 200, "{view}");
        view
    }

    pub async fn stands(&self, id: &str) -> (String, u64) {
        let view = self.view(id).await;
        (view["state"].as_str().expect("a state").to_owned(), view["revision"].as_u64().expect("a number"))
    }

    pub async fn inbox(&self, key: &SigningKey) -> Value {
        let (status, inbox) = self.get("/v1/response-obligations/inbox", key).await;
        assert_eq!(status, 200, "{inbox}");
        inbox
    }

    pub async fn reconcile(&self, key: &SigningKey) -> Value {
        let path = "/v1/response-obligations/reconcile";
        let (status, moved) = self.send(Method::POST, path, None, Some(key)).await;
        assert_eq!(status, 200, "{moved}");
        moved
    }

    /// How many rows a table has, read past the program.
    pub fn rows(&self, table: &str) -> u64 {
        let db = Connection::open(self.house.file()).expect("the record");
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0)).expect("a count") as u64
    }
}

/// A post in a thread that demands an answer, signed by its author.
pub fn demand(thread: &str, author: &SigningKey, id: &str, spec: &Value, now: u64) -> Value {
    let parts = json!([{ "text": "what?" }]).to_string();
    let known = ThreadId::parse(thread).expect("ours");
    let asked = Asked { thread: &known, kind: "post", message_id: id, role: "ROLE_USER", parts: &parts };
    let payload = request(asked, &spec.to_string()).unwrap_or_else(|_| "{}".to_owned());
    let deed = Deed::Create { thread: thread.to_owned(), request: Digest::of(payload.as_bytes()) };
    json!({
        "kind": "post", "message_id": id, "body": "what?", "response_obligation": spec,
        "act": value(&deed.sign(author, Moment::from_secs(now))),
        "metadata": { "actorChain": VerifiedChain::start(author).tokens().collect::<Vec<_>>() },
    })
}

/// A typed response with these members beside its binding, signed for what it says.
pub fn response(key: &SigningKey, owed: &Owed, members: &Value, now: u64) -> Value {
    let mut body = json!({
        "request_event_id": owed.event, "request_digest": owed.request.to_hex(), "outcome": "completed", "body": "so",
    });
    for (name, value) in members.as_object().expect("members") {
        body[name] = value.clone();
    }
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let id = wikala_witness::obligation::ObligationId::parse(&owed.id).expect("ours");
    let request = Digest::from_hex(&text("request_digest")).expect("a digest");
    let structured = body.get("structured_response").map(Value::to_string);
    let payload = wikala_doors::obligations::acts::response(
        &id,
        &text("request_event_id"),
        &request,
        &text("outcome"),
        &text("body"),
        body["response_schema_id"].as_str(),
        structured.as_deref(),
    )
    .expect("exact");
    let response = Digest::of(payload.as_bytes());
    let deed = Deed::Respond { obligation: owed.id.clone(), event: text("request_event_id"), request, response };
    body["act"] = value(&deed.sign(key, Moment::from_secs(now)));
    body
}

pub fn read(told: &Value) -> Owed {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    let obligation = &told["obligation"];
    Owed {
        id: text(&obligation["obligation_id"]),
        event: text(&obligation["request_event_id"]),
        request: Digest::from_hex(&text(&obligation["request_digest"])).expect("a digest"),
        run: text(&told["run_id"]),
    }
}

pub fn route(id: &str, what: &str) -> String {
    format!("/v1/response-obligations/{id}/{what}")
}

pub fn code(answer: &(u16, Value)) -> String {
    format!("{} {}", answer.0, answer.1["error"]["code"].as_str().unwrap_or("none"))
}

pub fn plain() -> Value {
    json!({ "response_required": true })
}

/// A short-lived key.
pub fn session() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

pub fn nobody() -> SigningKey {
    stranger()
}
