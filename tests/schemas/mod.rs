//! Schemas of answers, through every lane: what does not fit is told by its place, the ask
//! stands and nothing is spent.

use serde_json::{Value, json};
use wikala_certs::{Moment, Proof};
use wikala_chain::SigningKey;
use wikala_doors::client::Client;
use wikala_witness::{Fact, Question, RunId};

use crate::house::{Puppet, TestHouse};

const THREAD: &str = "0e9f6ef0-95b5-4f5f-8f2e-4e5d1c2b3a49";

struct Scene {
    house: TestHouse,
    puppet: Puppet,
    run: RunId,
}

fn provider() -> SigningKey {
    SigningKey::from_seed([0x0A; 32])
}

/// A run that asks one thing, with this schema.
async fn asked(schema: Value) -> Scene {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let url = format!("{}/agui/{}/echo", house.url, puppet.agent.provider);
    let body =
        json!({ "threadId": THREAD, "runId": "r0", "messages": [{ "id": "u", "role": "user", "content": "x" }] });
    let http = Client::new();
    let _stream = http.events(axum::http::Method::POST, &url, Some(&body), &[], None).await.expect("a stream");
    let run = puppet.take().await.run;
    let text = json!({ "id": "q", "reason": "input", "responseSchema": schema }).to_string();
    let fact = Fact::Ended {
        questions: vec![Question { id: Some("q".to_owned()), call: None, text, owing: None }],
        pending: None,
        cancelled: false,
    };
    puppet.say(&run, fact, r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}"#).await;
    puppet.finish(&run).await;
    Scene { house, puppet, run }
}

impl Scene {
    /// Status and code of an answer with this value, by a lane.
    async fn answer(&self, lane: &str, value: Value) -> (u16, Value) {
        let proof = Proof::resolve(&provider(), self.run.as_str(), Moment::from_secs(self.house.now())).to_json();
        let proof: Value = serde_json::from_str(&proof).expect("JSON");
        let (at, provider) = (&self.house.url, self.puppet.agent.provider);
        let messages = json!([{ "id": "u", "role": "user", "content": "x" }]);
        let (url, body) = match lane {
            "direct" => (
                format!("{at}/v1/runs/{}/answer", self.run),
                json!({ "answer": value.to_string(), "resolution": proof }),
            ),
            "a2a" => (
                format!("{at}/a2a/{provider}/echo/message:send"),
                json!({ "message": { "messageId": "m", "role": "ROLE_USER", "taskId": self.run.as_str(), "parts": [{ "data": value }] },
                    "configuration": { "returnImmediately": true }, "metadata": { "resolution": proof } }),
            ),
            "resume" => (
                format!("{at}/agui/{provider}/echo"),
                json!({ "threadId": THREAD, "runId": "r1", "messages": messages,
                    "resume": [{ "interruptId": "q", "status": "resolved", "payload": value, "metadata": { "resolution": proof } }] }),
            ),
            "command" => (
                format!("{at}/agui/{provider}/echo"),
                json!({ "threadId": THREAD, "runId": "r2", "messages": messages,
                    "forwardedProps": { "command": { "resume": value }, "resolution": proof } }),
            ),
            _ => (
                format!("{at}/agui/{provider}/echo"),
                json!({ "threadId": THREAD, "runId": "r3", "messages": messages,
                    "resume": [{ "interruptId": "q", "status": "cancelled", "metadata": { "resolution": proof } }] }),
            ),
        };
        let headers = [("content-type", "application/json"), ("a2a-version", "1.0")];
        let sent = Client::new()
            .send(axum::http::Method::POST, &url, Some(body.to_string().into_bytes()), &headers, None)
            .await
            .expect("an answer");
        let status = sent.0.as_u16();
        if status == 200 {
            return (status, Value::Null);
        }
        let text = http_body_util::BodyExt::collect(sent.2).await.expect("whole").to_bytes();
        (status, serde_json::from_slice(&text).expect("JSON"))
    }

    async fn view(&self) -> Value {
        Client::new().get_json(&format!("{}/v1/runs/{}", self.house.url, self.run)).await.expect("a run").1
    }
}

fn approval() -> Value {
    json!({ "type": "object", "properties": { "approved": { "type": "boolean" } }, "required": ["approved"], "additionalProperties": false })
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused_in_every_lane_and_the_ask_stands() {
    for lane in ["direct", "a2a", "resume", "command"] {
        let scene = asked(approval()).await;
        assert_eq!(scene.view().await["asks"][0]["items"][0]["schema"], "enforced");
        for wrong in
            [json!("yes, hunter2"), json!({ "approved": "hunter2" }), json!({ "approved": true, "hunter2": 1 })]
        {
            let (status, no) = scene.answer(lane, wrong.clone()).await;
            assert_eq!(status, 422, "{lane} {wrong}: {no}");
            let no = no.to_string();
            assert!(no.contains("answer-schema") && !no.contains("hunter2"), "{lane}: {no}");
            assert_eq!(scene.view().await["status"], "input-required", "{lane}");
        }
        // The very same second, the very same act: nothing of it was spent.
        let (status, said) = scene.answer(lane, json!({ "approved": true })).await;
        assert_eq!(status, 200, "{lane}: {said}");
        assert_ne!(scene.view().await["status"], "input-required", "{lane}");
    }
}

#[tokio::test]
async fn an_abandoned_question_has_no_answer_to_fit() {
    let scene = asked(approval()).await;
    assert_eq!(scene.answer("abandon", Value::Null).await.0, 200);
}

/// Or whoever asks could lock out whoever may answer.
#[tokio::test]
async fn a_schema_that_the_gate_refuses_is_told_and_not_enforced() {
    for (schema, word) in [
        (json!({ "$ref": "https://example.com/schema" }), "schema_external_reference"),
        (json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), "schema_dialect"),
        (json!({ "$ref": "#" }), "schema_in_place_cycle"),
        (json!(true), "schema_invalid"),
    ] {
        let scene = asked(schema).await;
        assert_eq!(scene.view().await["asks"][0]["items"][0]["schema"], word);
        assert_eq!(scene.answer("direct", json!("anything")).await.0, 200);
    }
}

/// Authority before what an answer says: nobody else learns what would fit.
#[tokio::test]
async fn an_outsider_learns_nothing_from_a_schema() {
    let mut scene = asked(approval()).await;
    // The same question in a thread that belongs to somebody.
    let head = SigningKey::from_seed([1; 32]);
    let chain = wikala_chain::VerifiedChain::start(&head);
    let (witness, agent) = (scene.house.app.public_key(), scene.puppet.agent.clone());
    let now = Moment::from_secs(scene.house.now());
    let nonce = wikala_chain::nonce();
    let presenter = Proof::present(&head, &witness, &agent.provider, &agent.name, Some(chain.tip()), &nonce, now);
    let presenter: Value = serde_json::from_str(&presenter.to_json()).expect("JSON");
    let bag = json!({ "actorChain": chain.tokens().collect::<Vec<_>>(), "presenter": presenter });
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] });
    let body = json!({ "message": message, "metadata": bag, "configuration": { "returnImmediately": true } });
    let url = format!("{}/a2a/{}/echo/message:send", scene.house.url, agent.provider);
    Client::new().post_json(&url, &body, &[("a2a-version", "1.0")]).await.expect("opened");
    let run = scene.puppet.take().await.run;
    let text = json!({ "id": "q", "responseSchema": approval() }).to_string();
    let questions = vec![Question { id: Some("q".to_owned()), call: None, text, owing: None }];
    let fact = Fact::Ended { questions, pending: None, cancelled: false };
    scene.puppet.say(&run, fact, r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}"#).await;

    let url = format!("{}/v1/runs/{run}/answer", scene.house.url);
    let stranger = SigningKey::from_seed([0x5E; 32]);
    let proof = Proof::resolve(&stranger, run.as_str(), now).to_json();
    let proof: Value = serde_json::from_str(&proof).expect("JSON");
    let mut told = Vec::new();
    for answer in ["{\"approved\":true}", "nonsense"] {
        for proof in [json!(null), proof.clone()] {
            let body = json!({ "answer": answer, "resolution": proof });
            told.push(Client::new().post_json(&url, &body, &[]).await.expect("an answer"));
        }
    }
    assert_eq!(told[..2], told[2..]);
    assert!(told.iter().all(|(status, _)| *status == 401 || *status == 403), "{told:?}");
}
