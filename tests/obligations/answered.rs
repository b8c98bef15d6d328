//! The typed response: the exact binding, the stored schema, once.

use axum::http::Method;
use serde_json::json;
use wikala_chain::{Digest, SigningKey};
use wikala_witness::obligation::ledger;

use super::{Owed, Scene, code, nobody, plain};
use crate::a2a::{head, provider};

fn with_schema() -> serde_json::Value {
    json!({ "response_schema_id": "inventory.v1", "response_schema": {
        "type": "object", "properties": { "quantity": { "type": "integer", "minimum": 0 } },
        "required": ["quantity"], "additionalProperties": false,
    } })
}

#[tokio::test]
async fn n27_n28_another_binding_is_no_answer() {
    let scene = Scene::open().await;
    let one = scene.owed("m1", plain()).await;
    let two = scene.owed("m2", plain()).await;
    let mixed = |event: &Owed, request: &Owed| Owed {
        id: one.id.clone(),
        event: event.event.clone(),
        request: request.request,
        run: String::new(),
    };
    for wrong in [mixed(&two, &one), mixed(&one, &two), mixed(&two, &two)] {
        assert_eq!(code(&scene.respond(&provider(), &wrong, &json!({})).await), "403 response-binding-mismatch");
    }
    assert_eq!(code(&scene.respond(&head(), &one, &json!({})).await), "403 exact-responsible-required");
    assert_eq!(code(&scene.respond(&nobody(), &one, &json!({})).await), "404 obligation-unavailable");
    // In another thread, by the action.
    let elsewhere = scene.new_thread().await;
    let mut action = scene.response(&provider(), &one, &json!({}));
    action["kind"] = "obligation_response".into();
    action["obligation_id"] = one.id.clone().into();
    assert_eq!(code(&scene.act_in(&elsewhere, &action).await), "403 response-binding-mismatch");
    assert_eq!(scene.stands(&one.id).await, ("created".into(), 1));
    // A word changed on the way.
    let mut changed = scene.response(&provider(), &one, &json!({}));
    changed["body"] = "no".into();
    assert_eq!(code(&scene.post(&super::route(&one.id, "respond"), &changed).await), "401 act-signature");
    // And in its own thread it closes, straight from where nobody owned it.
    let (status, done) = scene.ask(&action).await;
    assert_eq!((status, &done["state"]), (200, &json!("completed")), "{done}");
}

#[tokio::test]
async fn n29_the_stored_schema_is_the_judge_and_tells_no_content() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", with_schema()).await;
    let answer = async |members: serde_json::Value| scene.respond(&provider(), &owed, &members).await;
    let named = "inventory.v1";
    assert_eq!(code(&answer(json!({})).await), "422 response-schema-id-required");
    assert_eq!(
        code(&answer(json!({ "structured_response": { "quantity": 4 } })).await),
        "422 response-schema-id-required"
    );
    assert_eq!(
        code(&answer(json!({ "response_schema_id": "other", "structured_response": { "quantity": 4 } })).await),
        "422 response-schema-id-required"
    );
    assert_eq!(code(&answer(json!({ "response_schema_id": named })).await), "422 response-schema-violation");
    let wrong = answer(json!({ "response_schema_id": named, "structured_response": { "quantity": "fourteen" } })).await;
    assert_eq!(code(&wrong), "422 response-schema-violation");
    let sentence = wrong.1["error"]["message"].as_str().unwrap();
    assert!(sentence.contains("/quantity") && !sentence.contains("fourteen"), "{sentence}");
    let large = json!({ "quantity": 1, "x": "y".repeat(1024 * 1024) });
    assert_eq!(
        code(&answer(json!({ "response_schema_id": named, "structured_response": large })).await),
        "422 response-too-costly"
    );
    assert_eq!(scene.stands(&owed.id).await, ("created".into(), 1));
    let (status, done) =
        answer(json!({ "response_schema_id": named, "structured_response": { "quantity": 4.0 } })).await;
    assert_eq!((status, &done["state"]), (200, &json!("completed")), "an integer is an integer: {done}");
    let view = scene.view(&owed.id).await;
    assert_eq!(view["response"]["structured_response"], json!({ "quantity": 4 }));
    // A failure needs no structured part.
    let owed = scene.owed("m2", with_schema()).await;
    let (_, done) = scene.respond(&provider(), &owed, &json!({ "outcome": "failed", "body": "sold out" })).await;
    assert_eq!(done["state"], "failed", "{done}");
    assert_eq!(scene.inbox(&head()).await["failed"], 1);
}

#[tokio::test]
async fn n30_the_first_answer_counts_and_the_same_again_is_it() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let body = scene.response(&provider(), &owed, &json!({}));
    let path = super::route(&owed.id, "respond");
    let (_, first) = scene.post(&path, &body).await;
    assert_eq!((&first["state"], &first["duplicate"]), (&json!("completed"), &json!(false)));
    scene.house.set_clock(3600);
    // The same bytes, and the same answer signed anew.
    for body in [&body, &scene.response(&provider(), &owed, &json!({}))] {
        let (status, again) = scene.post(&path, body).await;
        assert_eq!((status, &again["revision"], &again["duplicate"]), (200, &json!(2), &json!(true)), "{again}");
    }
    let other = scene.respond(&provider(), &owed, &json!({ "outcome": "failed" })).await;
    assert_eq!(code(&other), "409 response-conflict");
    assert_eq!(scene.rows("event"), 2);
    let unread = async || scene.inbox(&head()).await["unread_information"].clone();
    assert_eq!(unread().await, 1, "the answer lies there");
    assert_eq!(scene.stands(&owed.id).await, ("completed".into(), 2));
    assert_eq!(unread().await, 0, "and was read");
    // A key that named another message.
    let two = scene.owed("m2", plain()).await;
    let key = Digest::of(b"x").to_hex();
    assert_eq!(scene.respond(&provider(), &two, &json!({ "idempotency_key": key })).await.0, 200);
    let three = scene.owed("m3", plain()).await;
    let reused = scene.respond(&provider(), &three, &json!({ "idempotency_key": key })).await;
    assert_eq!(code(&reused), "409 idempotency-conflict");
}

#[tokio::test]
async fn n32_n33_a_deadline_is_executed_by_who_asked_or_by_leave() {
    let scene = Scene::open().await;
    let due = |seconds: u64| {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(scene.now() + seconds);
        json!({ "deadline_at": humantime::format_rfc3339_seconds(at).to_string() })
    };
    let mut by_leave = due(60);
    by_leave["auto_expire"] = true.into();
    let late = scene.owed("m1", due(60)).await;
    let gone = scene.owed("m2", due(60)).await;
    let left = scene.owed("m3", by_leave).await;
    scene.house.set_clock(60);
    let overdue = async |key: SigningKey| scene.inbox(&key).await["overdue"].clone();
    assert_eq!((overdue(head()).await, overdue(provider()).await), (json!(3), json!(3)), "derived, not reconciled");
    assert_eq!(scene.reconcile(&provider()).await["expired"], json!([]), "who owes does not end its own debt");
    let (_, done) = scene.respond(&provider(), &late, &json!({})).await;
    assert_eq!(done["state"], "completed", "late is better than never");
    assert_eq!(scene.view(&late.id).await["reason"], "responded_late");
    scene.house.app.desk.tick().await.expect("looked at");
    assert_eq!(scene.stands(&left.id).await, ("expired".into(), 2));
    assert_eq!(scene.stands(&gone.id).await.0, "created");
    assert_eq!(scene.reconcile(&head()).await["expired"], json!([gone.id]));
    assert_eq!(code(&scene.respond(&provider(), &gone, &json!({})).await), "409 obligation-terminal");
    let view = scene.view(&gone.id).await;
    assert_eq!(view["history"][1]["effectiveAt"], view["deadline_at"], "when it happened, not when it was noticed");
}

#[tokio::test]
async fn n43_n60_prose_closes_nothing_and_the_ledger_verifies_without_us() {
    let mut scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let run = scene.puppet.take().await.run;
    scene.puppet.begins(&run).await;
    scene.puppet.ends(&run).await;
    let reply = json!({ "kind": "reply", "message_id": "m2", "body": "done, see m1", "metadata":
        crate::a2a::Caller::of(&scene.house, &scene.puppet.agent).bag(&head(), scene.now()) });
    assert_eq!(scene.ask(&reply).await.0, 202);
    assert_eq!((scene.stands(&owed.id).await.0.as_str(), scene.rows("ack")), ("created", 0));
    assert_eq!(scene.accept(&provider(), &owed.id, 1).await.0, 200);
    for n in 0..11 {
        let to = if n % 2 == 0 { "in_progress" } else { "blocked" };
        assert_eq!(scene.progress(&provider(), &owed.id, n + 2, to).await.0, 200);
    }
    assert_eq!(scene.respond(&provider(), &owed, &json!({})).await.0, 200);
    let path = super::route(&owed.id, "ledger");
    let (status, lines) = scene.text(Method::GET, &path, None, Some(&provider())).await;
    assert_eq!((status, ledger::verify(&lines)), (200, Ok(14)));
    let changed: Vec<String> = lines
        .lines()
        .enumerate()
        .map(|(n, line)| if n == 6 { line.replace("because", "becouse") } else { line.to_owned() })
        .collect();
    assert_eq!(ledger::verify(&changed.join("\n")).unwrap_err().entry, 7);
    assert_eq!(scene.text(Method::GET, &path, None, Some(&nobody())).await.0, 404);
}
