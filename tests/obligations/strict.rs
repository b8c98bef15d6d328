//! What is passed over in silence is refused, and what comes twice is said to have come before.

use serde_json::{Value, json};
use wikala_doors::client::Client;
use wikala_doors::obligations::EXTENSION;

use super::{Scene, code, plain};
use crate::a2a::{Caller, head, provider};

#[tokio::test]
async fn each_kind_of_action_takes_what_is_its_own() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let demanded = scene.demand("m2", &plain());
    let mut bare = demanded.clone();
    bare.as_object_mut().expect("an object").remove("response_obligation");
    let with = |base: &Value, name: &str, value: Value| {
        let mut body = base.clone();
        body[name] = value;
        body
    };
    let mut response = scene.response(&provider(), &owed, &json!({}));
    response["kind"] = "obligation_response".into();
    response["obligation_id"] = owed.id.as_str().into();
    for body in [
        // An act and a key are about a demand.
        bare.clone(),
        with(&with(&bare, "act", Value::Null), "idempotency_key", json!("k")),
        with(&demanded, "request_type", json!("x")),
        with(&with(&demanded, "kind", json!("reply")), "body", json!("x")),
        with(&response, "response_obligation", plain()),
        with(&response, "message_id", json!("m9")),
        with(&response, "metadata", json!({})),
    ] {
        assert_eq!(code(&scene.ask(&body).await), "422 unknown-field", "{body}");
    }
    for text in [String::new(), "x".repeat(64 * 1024 + 1)] {
        assert_eq!(code(&scene.ask(&with(&demanded, "body", text.into())).await), "400 body-malformed");
    }
    assert_eq!(scene.rows("obligation"), 1);
    assert_eq!(scene.ask(&response).await.0, 200, "and as it is it counts");
    // The response is on its way as a request is.
    let view = scene.view(&owed.id).await;
    let event = view["response_event_id"].as_str().expect("an event").to_owned();
    let facts = scene.rows(&format!("delivery_fact WHERE event = '{event}' AND fact IN ('queued', 'delivered')"));
    assert_eq!(facts, 2);
}

/// A request with arguments demands an answer as a post does.
#[tokio::test]
async fn a_structured_request_is_bound_with_its_arguments() {
    use wikala_certs::{Deed, Moment};
    use wikala_chain::{Digest, VerifiedChain};
    use wikala_doors::obligations::spec::{Asked, request};
    let scene = Scene::open().await;
    let (thread, spec) = (wikala_witness::ThreadId::parse(&scene.thread).expect("ours"), plain());
    let body = |arguments: Value, signed: Value| {
        let parts = json!([{ "data": { "request_type": "stock", "arguments": signed } }]).to_string();
        let asked =
            Asked { thread: &thread, kind: "structured_request", message_id: "m1", role: "ROLE_USER", parts: &parts };
        let payload = request(asked, &spec.to_string()).unwrap_or_default();
        let deed = Deed::Create { thread: scene.thread.clone(), request: Digest::of(payload.as_bytes()) };
        json!({
            "kind": "structured_request", "message_id": "m1", "request_type": "stock", "arguments": arguments,
            "response_obligation": spec,
            "act": crate::a2a::value(&deed.sign(&head(), Moment::from_secs(scene.now()))),
            "metadata": { "actorChain": VerifiedChain::start(&head()).tokens().collect::<Vec<_>>() },
        })
    };
    let signed = json!({ "sku": "A", "n": 1 });
    assert_eq!(code(&scene.ask(&body(json!({ "sku": "A", "n": 2 }), signed.clone())).await), "401 act-signature");
    let (status, told) = scene.ask(&body(json!({ "n": 1, "sku": "A" }), signed)).await;
    assert_eq!(status, 202, "{told}");
    let view = scene.view(told["obligation"]["obligation_id"].as_str().expect("an id")).await;
    assert_eq!(view["request"]["parts"][0]["data"]["arguments"]["sku"], "A");
}

#[tokio::test]
async fn a_request_that_comes_again_over_a2a_is_said_to() {
    let scene = Scene::open().await;
    let caller = Caller::of(&scene.house, &scene.puppet.agent);
    let parts = json!([{ "text": "what?" }]);
    let demanded = scene.demand("m1", &plain());
    let message = json!({
        "messageId": "m1", "contextId": scene.thread, "role": "ROLE_USER", "parts": parts,
        "metadata": { EXTENSION: { "v": 1, "obligation": plain(), "act": demanded["act"] } },
    });
    let url = format!("{}/a2a/{}/ask", scene.house.url, scene.puppet.agent.provider);
    let headers = [("a2a-version", "1.0"), ("a2a-extensions", EXTENSION)];
    let mut told = Vec::new();
    for _ in 0..2 {
        let params = json!({
            "message": message, "metadata": caller.bag(&head(), scene.now()), "configuration": { "returnImmediately": true },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
        let (_, answer) = Client::new().post_json(&url, &body, &headers).await.expect("an answer");
        told.push(answer["result"]["task"]["metadata"][EXTENSION].clone());
    }
    assert!(told[0]["obligation_id"].is_string() && told[0]["duplicate"].is_null(), "{told:?}");
    assert_eq!((&told[1]["obligation_id"], &told[1]["duplicate"]), (&told[0]["obligation_id"], &json!(true)));
}
