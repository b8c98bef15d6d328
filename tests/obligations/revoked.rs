//! A key that was revoked does nothing more: no act, no read, no retry. The record stays.

use serde_json::{Value, json};
use wikala_certs::{Deed, Moment, Proof, Revoked, SignedCertificate};
use wikala_chain::{SigningKey, VerifiedChain, nonce};
use wikala_witness::AgentId;

use super::{Scene, code, nobody, plain, route, session};
use crate::a2a::{certificate, head, provider, value};

async fn revoke(scene: &Scene, key: &SigningKey, target: Revoked, mut body: Value) -> (u16, Value) {
    body["revocation"] = value(&target.sign(key, Moment::from_secs(scene.now())));
    scene.post("/v1/revocations", &body).await
}

#[tokio::test]
async fn n35_n58_a_revoked_session_reads_acts_and_retries_no_more() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let until = scene.now() + 600;
    let given = certificate(&head(), &session(), until, true);
    let deed = |revision| Deed::Cancel { obligation: owed.id.clone(), revision, reason: "requester_canceled".into() };
    // Known by an act that was refused for another reason: it is on record, and may read.
    let certified = scene
        .send(axum::http::Method::POST, "/v1/certificates", Some(&json!({ "delegation": given })), Some(&session()))
        .await;
    assert_eq!(certified.0, 200, "{certified:?}");
    let read = format!("/v1/response-obligations/{}", owed.id);
    assert_eq!(scene.get(&read, &session()).await.0, 200);
    let mut asked = scene.demand_in(&scene.thread, &session(), "m2", &plain());
    asked["metadata"]["delegation"] = given.clone();
    assert_eq!(scene.ask(&asked).await.0, 202, "a session of the head's asks for it");

    let target = Revoked::Certificate(SignedCertificate::issue(&head(), &session().public(), until).id());
    let body = json!({ "certificate": given });
    assert_eq!(code(&revoke(&scene, &provider(), target, body.clone()).await), "403 not-an-authority");
    assert_eq!(revoke(&scene, &head(), target, body).await.0, 200);
    assert_eq!(code(&scene.get(&read, &session()).await), "401 certificate-revoked");
    let act = json!({ "revision": 1, "act": scene.prove(&session(), &deed(1)), "certificate": given });
    assert_eq!(code(&scene.post(&route(&owed.id, "cancel"), &act).await), "401 certificate-revoked");
    assert_eq!(code(&scene.ask(&asked).await), "401 certificate-revoked", "no receipt for a retry either");
    asked["metadata"].as_object_mut().expect("a bag").remove("delegation");
    assert_eq!(
        code(&scene.ask(&asked).await),
        "401 certificate-revoked",
        "nor a run of its own, without the certificate"
    );
    // Nor by the hand of another, to whom it gave its chain.
    let carried = VerifiedChain::start(&session()).extend(&nobody()).expect("a longer chain");
    let AgentId { provider: at, name } = &scene.puppet.agent;
    let proof = Proof::present(
        &nobody(),
        &scene.house.app.public_key(),
        at,
        name,
        Some(carried.tip()),
        &nonce(),
        Moment::from_secs(scene.now()),
    );
    let bag = json!({ "actorChain": carried.tokens().collect::<Vec<_>>(), "presenter": value(&proof) });
    let message = json!({ "messageId": "m3", "role": "ROLE_USER", "parts": [{ "text": "x" }] });
    let params = json!({ "message": message, "metadata": bag, "configuration": { "returnImmediately": true } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
    let (_, no) = scene.post(&format!("/a2a/{at}/ask?A2A-Version=1.0"), &call).await;
    assert_eq!(no["error"]["data"][0]["metadata"]["code"], "certificate-revoked", "{no}");
    // What it did stays, and is the head's.
    let (_, list) = scene.get("/v1/response-obligations?role=requester", &head()).await;
    assert_eq!(list["obligations"].as_array().map(Vec::len), Some(2));
    assert_eq!(scene.cancel(&head(), &owed.id, 1).await.0, 200);
}

#[tokio::test]
async fn an_authority_revokes_all_it_gave_and_gives_anew_by_its_own_word() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let read = format!("/v1/response-obligations/{}", owed.id);
    let (old, unseen, fresh) = (session(), SigningKey::from_seed([8; 32]), SigningKey::from_seed([9; 32]));
    let given = |key: &SigningKey| json!({ "delegation": certificate(&head(), key, scene.now() + 600, true) });
    let record = async |key: &SigningKey, by: &SigningKey| {
        scene.send(axum::http::Method::POST, "/v1/certificates", Some(&given(key)), Some(by)).await
    };
    assert_eq!(record(&old, &old).await.0, 200);
    assert_eq!(scene.get(&read, &old).await.0, 200);
    let target = Revoked::Authority(head().public());
    let body = json!({ "authority": head().public().to_hex() });
    assert_eq!(code(&revoke(&scene, &old, target, body.clone()).await), "403 not-an-authority");
    assert_eq!(revoke(&scene, &head(), target, body).await.0, 200);
    assert_eq!(code(&scene.get(&read, &old).await), "401 certificate-revoked");
    // One that was never shown here carries no date: it could be older than the revocation.
    assert_eq!(code(&record(&unseen, &unseen).await), "401 certificate-revoked");
    // What the authority gives by its own signature now is no older than this.
    scene.house.set_clock(1);
    assert_eq!(record(&fresh, &head()).await.0, 200);
    assert_eq!(scene.get(&read, &fresh).await.0, 200);
    assert_eq!(code(&scene.get(&read, &old).await), "401 certificate-revoked");
}
