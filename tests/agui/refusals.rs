//! Every no before the stream: a status and a short JSON body, and nothing on record.

use serde_json::{Value, json};
use wikala_certs::Proof;
use wikala_chain::{SigningKey, VerifiedChain, nonce};
use wikala_doors::door::BODY;

use super::{FINISHED, STARTED, Scene, UUID, and, body, head, parsed, stranger, with};

async fn threads(scene: &Scene) -> usize {
    let agent = scene.puppet.agent.clone();
    let viewer = Some(agent.provider);
    let filter = wikala_witness::RunFilter { limit: 1000, ..Default::default() };
    scene.house.app.readers.read(move |reader| reader.runs(&agent, viewer, &filter)).await.unwrap().runs.len()
}

#[tokio::test]
async fn what_is_no_input_is_refused() {
    let scene = Scene::open().await;
    let deep = format!(r#"{{"threadId":"t","runId":"r","messages":[],"x":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    for (text, status, code) in [
        ("", 400, "body-malformed"),
        ("nonsense", 400, "body-malformed"),
        ("[]", 400, "body-malformed"),
        (r#"{"runId":"r","messages":[]}"#, 400, "body-malformed"),
        (r#"{"threadId":"t","messages":[]}"#, 400, "body-malformed"),
        (r#"{"threadId":"t","runId":"r"}"#, 400, "body-malformed"),
        (r#"{"threadId":"t","runId":"r","messages":{}}"#, 400, "body-malformed"),
        (r#"{"threadId":"t","runId":"r","messages":[1]}"#, 400, "body-malformed"),
        (r#"{"threadId":"t","runId":"r","messages":[],"runId":"s"}"#, 400, "body-duplicate-key"),
        (r#"{"threadId":"t","runId":"r","messages":[],"x":{"a":1,"a":1}}"#, 400, "body-duplicate-key"),
        (&deep, 400, "body-malformed"),
    ] {
        let got = scene.send(text.as_bytes().to_vec(), &[]).await;
        assert_eq!(got.refused().await, (status, code.to_owned()), "{text:.80}");
    }
    assert_eq!(scene.send(b"\xff{}".to_vec(), &[]).await.refused().await, (400, "body-malformed".into()));
    let plain = [("content-type", "text/plain")];
    assert_eq!(scene.send(b"{}".to_vec(), &plain).await.refused().await, (415, "media-type".into()));
    let large = vec![b' '; BODY + 1];
    assert_eq!(scene.send(large, &[]).await.refused().await, (413, "too-large".into()));
    assert_eq!(threads(&scene).await, 0);
}

#[tokio::test]
async fn who_is_nobody_here_is_told() {
    let mut scene = Scene::open().await;
    let unknown = scene.post(&body("thread_0123456789abcdef01234567", "r", Value::Null)).await;
    assert_eq!(unknown.refused().await, (404, "thread-unknown".into()));
    for path in ["agui/00/echo", "agui/0123456789abcdef/echo"] {
        scene.url = format!("{}/{path}", scene.house.url);
        assert_eq!(scene.post(&body(UUID, "r", Value::Null)).await.refused().await, (404, "agent-unknown".into()));
    }
    scene.url = format!("{}/agui/{}/other", scene.house.url, scene.puppet.agent.provider);
    assert_eq!(scene.post(&body(UUID, "r", Value::Null)).await.refused().await, (404, "agent-unknown".into()));
    // By fingerprint, and with a slash at the end.
    scene.url = format!("{}/agui/{}/echo/", scene.house.url, scene.puppet.agent.provider.fingerprint());
    let got = scene.post(&body(UUID, "r", Value::Null)).await;
    scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(got.events().await.len(), 2);
}

#[tokio::test]
async fn proofs_that_do_not_hold_are_refused_by_their_codes() {
    let scene = Scene::open().await;
    let good = scene.bag(&head());
    let to = scene.puppet.agent.clone();
    let tip = VerifiedChain::start(&head()).tip();
    let present = |witness, tip, at| {
        parsed(&Proof::present(&head(), &witness, &to.provider, &to.name, Some(tip), &nonce(), at).to_json())
    };
    let us = scene.house.app.public_key();
    let other_tip = VerifiedChain::start(&stranger()).tip();
    let mut broken = good["actorChain"][0].as_str().unwrap().to_owned();
    let last = broken.pop().unwrap();
    broken.push(if last == 'A' { 'Q' } else { 'A' });
    let twice = json!([good["actorChain"][0], good["actorChain"][0]]);
    let strangers = scene.bag(&stranger())["presenter"].clone();
    for (bag, status, code) in [
        (and(good.clone(), "actorChain", json!("x")), 400, "chain-not-a-list"),
        (and(good.clone(), "actorChain", json!([])), 400, "chain-empty"),
        (and(good.clone(), "actorChain", json!([1])), 400, "hop-not-a-string"),
        (and(good.clone(), "actorChain", json!(["a.b"])), 400, "hop-not-jws"),
        (and(good.clone(), "actorChain", twice), 400, "hop-broken-link"),
        (json!({ "actorChain": good["actorChain"] }), 401, "presenter-required"),
        (and(good.clone(), "presenter", strangers), 401, "presenter-proof"),
        (and(good.clone(), "presenter", json!({})), 400, "proof-malformed"),
        (and(good.clone(), "presenter", present(stranger().public(), tip, scene.now())), 401, "presenter-proof"),
        (and(good.clone(), "presenter", present(us, other_tip, scene.now())), 401, "presenter-proof"),
        (and(good.clone(), "presenter", present(us, tip, scene.now().plus(61))), 401, "presenter-proof"),
        (and(good.clone(), "delegation", json!({ "x": 1 })), 400, "certificate-malformed"),
        (and(good.clone(), "addressedRunId", json!(5)), 400, "body-malformed"),
    ] {
        let got = scene.post(&body("t", "r", bag)).await;
        assert_eq!(got.refused().await, (status, code.to_owned()));
    }
    let got = scene.post(&body("t", "r", and(good, "actorChain", json!([broken])))).await;
    assert!(matches!(got.refused().await.1.as_str(), "hop-signature" | "hop-base64"));
    assert_eq!(threads(&scene).await, 0);
}

#[tokio::test]
async fn a_presenter_is_spent_and_a_bound_thread_has_members() {
    let mut scene = Scene::open().await;
    let bag = scene.bag(&head());
    let got = scene.post(&body("t", "r1", bag.clone())).await;
    let thread = got.thread();
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(got.events().await.len(), 2);
    assert_eq!(scene.post(&body("t", "r2", bag)).await.refused().await, (401, "presenter-spent".into()));
    for bag in [Value::Null, scene.bag(&stranger())] {
        assert_eq!(scene.post(&body(&thread, "r3", bag)).await.refused().await, (403, "not-a-member".into()));
    }
    // Who was sent the chain cannot walk upstream with it.
    let downstream = SigningKey::from_seed([0x0B; 32]);
    let sent: Vec<String> = serde_json::from_str(delivery.chain.as_deref().unwrap()).unwrap();
    let stolen = json!({ "actorChain": sent[..1], "presenter": scene.bag(&downstream)["presenter"] });
    assert_eq!(scene.post(&body(&thread, "r4", stolen)).await.refused().await.0, 401);
    assert_eq!(threads(&scene).await, 1);
}

#[tokio::test]
async fn a_full_queue_a_stray_interjection_and_a_closing_house_are_loud() {
    let mut scene = Scene::open().await;
    let first = scene.post(&body(UUID, "r", Value::Null)).await;
    let delivery = scene.puppet.take().await;
    let mut waiting = Vec::new();
    for n in 0..wikala_witness::QUEUE_LIMIT {
        waiting.push(scene.post(&body(UUID, &format!("w{n}"), Value::Null)).await);
    }
    assert_eq!(scene.post(&body(UUID, "more", Value::Null)).await.refused().await, (429, "queue-full".into()));
    let stray = and(json!({}), "addressedRunId", json!("run_0123456789abcdef01234567"));
    assert_eq!(scene.post(&body(UUID, "stray", stray)).await.refused().await, (422, "run-input".into()));
    drop((first, waiting, delivery));
    scene.house.close();
    let closed = scene.http.send(axum::http::Method::POST, &scene.url, Some(b"{}".to_vec()), &[], None).await;
    // Refused in words on a connection that is still open, else not reached at all.
    if let Ok((status, _, _)) = closed {
        assert_eq!(status.as_u16(), 503);
    }
}

#[tokio::test]
async fn unknown_members_of_an_input_reach_the_record_as_received() {
    let mut scene = Scene::open().await;
    let said = with(body(UUID, "r", Value::Null), json!({ "later": { "n": 1.5 }, "resume": null }));
    let text = said.to_string().replace("1.5", "1.50");
    let got = scene.send(text.clone().into_bytes(), &[]).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(&*delivery.leg.words.text, text);
    assert_eq!(got.events().await.len(), 2);
}
