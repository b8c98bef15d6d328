//! Obligations: what is refused where a demand is made, on every protocol, and at the
//! routes of their own.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_certs::{Deed, Moment};
use wikala_chain::{Digest, SigningKey, VerifiedChain};
use wikala_doors::obligations::acts::response;
use wikala_doors::obligations::spec::{Asked, request};
use wikala_witness::ThreadId;
use wikala_witness::obligation::{Denied, ObligationId};

use super::stage::{Stage, head, provider, stranger};
use super::table::{Ask, At, Table};
use crate::a2a::value;
use crate::agui;
use crate::obligations::asks::{demanding, stops};

const EXTENSION: &str = "urn:wikala:obligation:1";

/// A demand: by whom, in which thread, of which message, on which terms.
struct Demand<'a> {
    thread: &'a str,
    author: &'a SigningKey,
    id: &'a str,
    spec: Value,
    /// The bag beside it; the author's chain if there is none.
    bag: Option<Value>,
}

impl Demand<'_> {
    fn act(&self, stage: &Stage, role: &str, parts: &Value) -> Value {
        let Some(thread) = ThreadId::parse(self.thread) else { return self.other_act(stage) };
        let parts = parts.to_string();
        let asked = Asked { thread: &thread, kind: "post", message_id: self.id, role, parts: &parts };
        let payload = request(asked, &self.spec.to_string()).unwrap_or_default();
        self.sign(stage, self.thread, Digest::of(payload.as_bytes()))
    }

    /// Signed for nothing in particular: what comes before the signature is refused first.
    fn other_act(&self, stage: &Stage) -> Value {
        self.sign(stage, "thread_0", Digest::ZERO)
    }

    fn sign(&self, stage: &Stage, thread: &str, request: Digest) -> Value {
        let deed = Deed::Create { thread: thread.to_owned(), request };
        value(&deed.sign(self.author, Moment::from_secs(stage.now())))
    }

    /// In each way a caller can make it.
    fn asks(&self, stage: &Stage) -> [Ask; 4] {
        let chain: Vec<String> = VerifiedChain::start(self.author).tokens().map(str::to_owned).collect();
        let bag = self.bag.clone().unwrap_or(json!({ "actorChain": chain }));
        let parts = json!([{ "text": "x" }]);
        let act = self.act(stage, "ROLE_USER", &parts);
        let extension = json!({ "v": 1, "obligation": self.spec, "act": act });
        let message = json!({
            "messageId": self.id, "contextId": self.thread, "role": "ROLE_USER", "parts": parts,
            "metadata": { EXTENSION: extension },
        });
        let said = json!({ "message": message, "metadata": bag });
        let [told, streamed] = ["SendMessage", "SendStreamingMessage"]
            .map(|method| stage.a2a(method, said.clone()).with("a2a-extensions", EXTENSION));
        let act_of_run = self.act(stage, "user", &json!("x"));
        let props =
            agui::with(bag.clone(), json!({ EXTENSION: { "v": 1, "obligation": self.spec, "act": act_of_run } }));
        let mut body = agui::body(self.thread, "r", props);
        body["messages"] = json!([{ "id": self.id, "role": "user", "content": "x" }]);
        let action = json!({
            "kind": "post", "message_id": self.id, "body": "x", "response_obligation": self.spec, "act": act, "metadata": bag,
        });
        [told, streamed, stage.agui(body), stage.post(&format!("/v1/conversations/{}/actions", self.thread), action)]
    }
}

async fn thread(stage: &Stage) -> String {
    let path = format!("/threads/{}/ask", stage.agent.provider);
    let made = stage.raw(At::Ours, Method::POST, &path, None).send(stage).await.expect("made").2;
    made["threadId"].as_str().expect("an id").to_owned()
}

/// What a demand must be.
pub async fn demands(table: &mut Table) {
    let stage = Stage::open().await;
    let thread = thread(&stage).await;
    let head = head();
    let of = |spec: Value| Demand { thread: &thread, author: &head, id: "m", spec, bag: None };
    let schema = |schema: Value| json!({ "response_schema_id": "s", "response_schema": schema });
    for (code, spec) in [
        ("unknown-field", json!({ "foo": 1 })),
        ("response-required-must-be-true", json!({ "response_required": false })),
        ("responsible-not-recipient", json!({ "responsible": stranger().public().to_hex() })),
        ("deadline-not-timezone-aware", json!({ "deadline_at": "2027-01-15T08:00:00" })),
        ("deadline-not-future", json!({ "deadline_at": "2001-01-15T08:00:00Z" })),
        ("schema-pair-incomplete", json!({ "response_schema_id": "s" })),
        ("schema-too-large", schema(json!({ "description": "d".repeat(65_536) }))),
        ("schema-invalid", schema(json!(true))),
        ("schema-external-reference", schema(json!({ "$ref": "https://e.example/" }))),
        ("schema-dialect", schema(json!({ "$schema": "http://json-schema.org/draft-07/schema#" }))),
        ("schema-in-place-cycle", schema(json!({ "$ref": "#" }))),
        ("schema-too-costly", schema(costly())),
        ("schema-pattern-refused", schema(json!({ "pattern": "(?=a)" }))),
    ] {
        table.refused(&stage, code, "its terms", of(spec).asks(&stage)).await;
    }
    let plain = || json!({ "response_required": true });
    let nobodys = Demand { bag: Some(json!({})), ..of(plain()) };
    table.refused(&stage, "obligation-requires-bound-thread", "nobody's thread", nobodys.asks(&stage)).await;
    let provider = provider();
    let own = Demand { author: &provider, ..of(plain()) };
    table.refused(&stage, "self-obligation", "head and provider in one", own.asks(&stage)).await;
    // Each presents itself once.
    let stranger = stranger();
    for n in 0..4 {
        let bag = Some(stage.bag(&head));
        let [told, streamed, run, ours] = Demand { author: &stranger, bag, ..of(plain()) }.asks(&stage);
        let ask = match n {
            0 => told,
            1 => streamed,
            2 => run,
            _ => ours,
        };
        table.refused(&stage, "requester-not-author", "signed by somebody else", [ask]).await;
    }
    let [.., first] = of(plain()).asks(&stage);
    let (status, _, made) = first.send(&stage).await.expect("taken");
    assert_eq!(status, 202, "{made}");
    // The same message with other terms; and with a key of its own.
    let later = of(json!({ "deadline_at": "2099-01-15T08:00:00Z" }));
    table.refused(&stage, "idempotency-conflict", "other bytes", later.asks(&stage)).await;
    let rekeyed = later.asks(&stage).map(|ask| {
        let text = String::from_utf8(ask.body.clone().expect("a body")).expect("text");
        let ours = ask.at == At::Ours;
        let mut body: Value = serde_json::from_str(&text).expect("JSON");
        let place = match () {
            () if ours => &mut body,
            () if ask.at == At::AgUi => &mut body["forwardedProps"][EXTENSION],
            () => &mut body["params"]["message"]["metadata"][EXTENSION],
        };
        place["idempotency_key"] = "another".into();
        Ask { body: Some(body.to_string().into_bytes()), ..ask }
    });
    table.refused(&stage, "message-id-reused", "another key", rekeyed).await;
    let denied = vec![Denied::parse(&format!("deny obligation.create {}", head.public())).expect("a line")];
    let set = stage.house.app.desk.ask(move |witness, _| {
        witness.set_denied(denied);
        Ok(())
    });
    set.await.expect("set");
    for n in 0..4 {
        let bag = Some(stage.bag(&head));
        let ask = Demand { id: "denied", bag, ..of(plain()) }.asks(&stage).into_iter().nth(n).expect("one of four");
        table.refused(&stage, "entitlement-denied", "the operator", [ask]).await;
    }
}

/// Each level applies the next twice.
fn costly() -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..26 {
        let next = format!("#/$defs/{}", level + 1);
        defs.insert(level.to_string(), json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }));
    }
    defs.insert("26".to_owned(), json!({}));
    json!({ "$defs": defs, "$ref": "#/$defs/0" })
}

/// Acts on them, and reads.
pub async fn routes(table: &mut Table) {
    let stage = Stage::open().await;
    let (head, provider) = (head(), provider());
    let mut ids = Vec::new();
    let schema = json!({ "response_schema_id": "s", "response_schema": { "required": ["n"], "type": "object" } });
    for (n, spec) in [json!({}), json!({}), schema].into_iter().enumerate() {
        let thread = thread(&stage).await;
        let [.., ours] = Demand { thread: &thread, author: &head, id: &format!("m{n}"), spec, bag: None }.asks(&stage);
        let made = ours.send(&stage).await.expect("taken").2["obligation"].clone();
        ids.push(made);
    }
    let text = |n: usize, name: &str| ids[n][name].as_str().unwrap_or_else(|| panic!("{:?}", ids[n])).to_owned();
    let route = |n: usize, what: &str| format!("/v1/response-obligations/{}/{what}", text(n, "obligation_id"));
    let sign = |key: &SigningKey, deed: &Deed| value(&deed.sign(key, Moment::from_secs(stage.now())));
    let accept = |key: &SigningKey, n: usize, revision: u64| {
        let deed = Deed::Accept { obligation: text(n, "obligation_id"), revision };
        stage.post(&route(n, "accept"), json!({ "revision": revision, "act": sign(key, &deed) }))
    };
    let progress = |n: usize, revision: u64, to: &str| {
        let (to, reason) = (to.to_owned(), "progress".to_owned());
        let deed = Deed::Progress { obligation: text(n, "obligation_id"), revision, to: to.clone(), reason };
        stage.post(
            &route(n, "transition"),
            json!({ "revision": revision, "to_state": to, "act": sign(&provider, &deed) }),
        )
    };
    let decline = |n: usize, revision: u64| {
        let (obligation, reason) = (text(n, "obligation_id"), "no".to_owned());
        let act = sign(&provider, &Deed::Decline { obligation, revision, reason });
        stage.post(&route(n, "decline"), json!({ "revision": revision, "decline_reason": "no", "act": act }))
    };
    let respond = |n: usize, event: &str, members: Value| {
        let id = ObligationId::parse(&text(n, "obligation_id")).expect("ours");
        let request = Digest::from_hex(&text(n, "request_digest")).expect("a digest");
        let structured = members.get("structured_response").map(Value::to_string);
        let schema_id = members["response_schema_id"].as_str();
        let payload = response(&id, event, &request, "completed", "", schema_id, structured.as_deref()).expect("exact");
        let response = Digest::of(payload.as_bytes());
        let deed = Deed::Respond { obligation: id.as_str().to_owned(), event: event.to_owned(), request, response };
        let binding = json!({ "request_event_id": event, "request_digest": request.to_hex(), "outcome": "completed", "act": sign(&provider, &deed) });
        stage.post(&route(n, "respond"), agui::with(members, binding))
    };
    let read = |path: &str, key: &SigningKey| stage.get(path).signed(&stage, key);
    let one = format!("/v1/response-obligations/{}", text(0, "obligation_id"));

    let strangers = [accept(&stranger(), 0, 1), read(&one, &stranger()), read("/v1/response-obligations/x", &head)];
    table.refused(&stage, "obligation-unavailable", "not a party", strangers).await;
    table.refused(&stage, "presenter-required", "an unsigned read", [stage.get(&one)]).await;
    table.refused(&stage, "exact-responsible-required", "the head", [accept(&head, 0, 1)]).await;
    let (obligation, reason) = (text(0, "obligation_id"), "requester_canceled".to_owned());
    let act = sign(&provider, &Deed::Cancel { obligation, revision: 1, reason });
    let cancel = stage.post(&route(0, "cancel"), json!({ "revision": 1, "act": act }));
    table.refused(&stage, "exact-requester-required", "the provider", [cancel]).await;
    table.refused(&stage, "revision-conflict", "another revision", [accept(&provider, 0, 2)]).await;
    table.refused(&stage, "illegal-transition", "nobody owns it", [progress(0, 1, "blocked")]).await;
    table.refused(&stage, "state-not-assertable", "by a word", [progress(0, 1, "completed")]).await;
    table
        .refused(
            &stage,
            "unknown-state",
            "none",
            [progress(0, 1, "tired"), read("/v1/response-obligations?state=x", &head)],
        )
        .await;
    table.refused(&stage, "limit-out-of-range", "none", [read("/v1/response-obligations?limit=0", &head)]).await;
    let committed = [progress(0, 1, "recipient_committed")];
    table.refused(&stage, "delivery-fact-missing", "not yet there", committed).await;
    let silent = stage.post(&route(0, "decline"), json!({ "revision": 1, "act": {} }));
    table.refused(&stage, "decline-reason-required", "no reason", [silent]).await;
    let prose = stage.post(&route(0, "cancel"), json!({ "revision": 1, "reason_code": "a b", "act": {} }));
    table.refused(&stage, "reason-not-a-code", "prose", [prose]).await;
    let ack = Deed::MailboxAck { event: text(0, "request_event_id"), envelope: Digest::ZERO };
    let ack = json!({ "event_id": text(0, "request_event_id"), "envelope_digest": "0".repeat(64), "act": sign(&provider, &ack) });
    table.refused(&stage, "envelope-digest-mismatch", "another", [stage.post("/v1/mailbox/ack", ack)]).await;
    let event = text(2, "request_event_id");
    let other = respond(2, &text(0, "request_event_id"), json!({}));
    table.refused(&stage, "response-binding-mismatch", "another event", [other]).await;
    table.refused(&stage, "response-schema-id-required", "none named", [respond(2, &event, json!({}))]).await;
    let with =
        |instance: Value| respond(2, &event, json!({ "response_schema_id": "s", "structured_response": instance }));
    table.refused(&stage, "response-schema-violation", "does not fit", [with(json!({}))]).await;
    table.refused(&stage, "response-too-costly", "too large", [with(json!({ "n": "y".repeat(1024 * 1024) }))]).await;
    let sent = accept(&provider, 0, 1).send(&stage).await.expect("taken");
    assert_eq!(sent.0, 200, "{}", sent.2);
    table.refused(&stage, "decline-after-acceptance", "it was taken", [decline(0, 2)]).await;
    assert_eq!(decline(1, 1).send(&stage).await.expect("taken").0, 200);
    table.refused(&stage, "obligation-terminal", "over", [accept(&provider, 1, 2)]).await;
    assert_eq!(with(json!({ "n": 1 })).send(&stage).await.expect("taken").0, 200);
    table.refused(&stage, "response-conflict", "another answer", [with(json!({ "n": 2 }))]).await;
    a_question(table).await;
}

/// While a run waits for the answer it goes to the run.
async fn a_question(table: &mut Table) {
    let mut stage = Stage::open().await;
    let run = stage.running().await;
    let question = json!({ "id": "q", "reason": "confirmation" });
    let asked = demanding(&run.thread, question, &json!({}), &provider(), stage.now());
    stops(&stage.puppet, &run.run, asked).await;
    let (_, _, view) = stage.get(&format!("/v1/runs/{}", run.run)).send(&stage).await.expect("read");
    let owed = &view["asks"][0]["items"][0]["obligation"];
    let text = |name: &str| owed[name].as_str().unwrap_or_else(|| panic!("{view}")).to_owned();
    let id = ObligationId::parse(&text("obligation_id")).expect("ours");
    let (event, request) = (text("request_event_id"), Digest::from_hex(&text("request_digest")).expect("a digest"));
    let payload = response(&id, &event, &request, "completed", "", None, None).expect("exact");
    let deed = Deed::Respond {
        obligation: id.as_str().to_owned(),
        event: event.clone(),
        request,
        response: Digest::of(payload.as_bytes()),
    };
    let act = value(&deed.sign(&head(), Moment::from_secs(stage.now())));
    let said =
        json!({ "request_event_id": event, "request_digest": request.to_hex(), "outcome": "completed", "act": act });
    let aside = stage.post(&format!("/v1/response-obligations/{}/respond", id.as_str()), said);
    table.refused(&stage, "answer-the-run", "a run waits for it", [aside]).await;
}
