//! Whose an obligation is, is asked of the record when it is asked: a key that was bound as
//! it is may act for somebody since.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_certs::{Deed, Moment, Revoked, SignedCertificate};
use wikala_chain::{Digest, SigningKey, VerifiedChain};

use super::asks::demanding;
use super::{Scene, code, plain, route, session};
use crate::a2a::{certificate, head, provider, value};

/// The authority that the head turns out to act for.
fn above() -> SigningKey {
    SigningKey::from_seed([0x61; 32])
}

impl Scene {
    /// Records that one acts for another, by that one's own signature.
    async fn records(&self, authority: &SigningKey, delegate: &SigningKey) -> Value {
        let given = certificate(authority, delegate, self.now() + 600, true);
        let body = json!({ "delegation": given });
        let told = self.send(Method::POST, "/v1/certificates", Some(&body), Some(delegate)).await;
        assert_eq!(told.0, 200, "{told:?}");
        given
    }
}

#[tokio::test]
async fn what_a_key_asked_for_is_its_authoritys_once_that_is_on_record() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let read = format!("/v1/response-obligations/{}", owed.id);
    assert_eq!(code(&scene.get(&read, &above()).await), "404 obligation-unavailable");
    let given = scene.records(&above(), &head()).await;
    for key in [above(), head()] {
        assert_eq!(scene.get(&read, &key).await.0, 200);
        let inbox = scene.inbox(&key).await;
        assert_eq!(inbox["awaiting_peer"], 1, "{inbox}");
        let (_, list) = scene.get("/v1/response-obligations?role=requester", &key).await;
        assert_eq!(list["obligations"].as_array().map(Vec::len), Some(1), "{list}");
    }
    // What the head said to whom is the authority's to end when the head may do nothing more.
    let target = Revoked::Certificate(SignedCertificate::issue(&above(), &head().public(), scene.now() + 600).id());
    let revocation = value(&target.sign(&above(), Moment::from_secs(scene.now())));
    let told = scene.post("/v1/revocations", &json!({ "certificate": given, "revocation": revocation })).await;
    assert_eq!(told.0, 200, "{told:?}");
    assert_eq!(code(&scene.get(&read, &head()).await), "401 certificate-revoked");
    assert_eq!(scene.get(&read, &above()).await.0, 200);
    assert_eq!(scene.cancel(&above(), &owed.id, 1).await.0, 200);
    assert_eq!(scene.get(&read, &above()).await.1["state"], "canceled");
}

#[tokio::test]
async fn its_overdue_ones_expire_when_the_authority_reconciles() {
    let scene = Scene::open().await;
    let mut spec = plain();
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(scene.now() + 30);
    spec["deadline_at"] = humantime::format_rfc3339_seconds(at).to_string().into();
    let owed = scene.owed("m1", spec).await;
    scene.records(&above(), &head()).await;
    scene.house.set_clock(31);
    assert_eq!(scene.reconcile(&above()).await["expired"], json!([owed.id]));
}

#[tokio::test]
async fn a_question_to_a_key_is_answered_by_whom_it_acts_for() {
    let mut scene = Scene::open().await;
    let run = scene.begun("m1").await;
    let question = json!({ "id": "q", "reason": "confirmation", "message": "how many?" });
    scene.stops(&run, demanding(&scene.thread, question, &plain(), &provider(), scene.now())).await;
    let owed = scene.owed_to(&run).await;
    scene.records(&above(), &head()).await;
    let told = scene.answer(&run, &head(), json!("four"), None).await;
    assert_eq!(told.0, 200, "{told:?}");
    let view = scene.get(&format!("/v1/response-obligations/{}", owed.id), &above()).await.1;
    assert_eq!((&view["state"], &view["reason"]), (&json!("completed"), &json!("answered")), "{view}");
}

/// What was dispatched to a key is that key's to answer, and no session's of it.
#[tokio::test]
async fn a_session_of_a_provider_owns_nothing_for_it() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let given = certificate(&provider(), &session(), scene.now() + 600, true);
    let deed = Deed::Accept { obligation: owed.id.clone(), revision: 1 };
    let body = json!({ "revision": 1, "act": scene.prove(&session(), &deed), "certificate": given });
    assert_eq!(code(&scene.post(&route(&owed.id, "accept"), &body).await), "403 exact-responsible-required");
    let mut response = scene.response(&session(), &owed, &json!({}));
    response["certificate"] = given;
    assert_eq!(code(&scene.post(&route(&owed.id, "respond"), &response).await), "403 exact-responsible-required");
    assert_eq!(scene.stands(&owed.id).await, ("created".to_owned(), 1));
}

#[tokio::test]
async fn a_provider_demands_nothing_of_itself_in_its_heads_name() {
    let scene = Scene::open().await;
    // Bound by what the head asked.
    scene.owed("m1", plain()).await;
    let before = scene.inbox(&head()).await;
    let own = scene.demand_in(&scene.thread, &provider(), "m2", &plain());
    assert_eq!(code(&scene.ask(&own).await), "403 requester-not-author");
    // With the chain it was handed, carried on.
    let mut handed = scene.demand_in(&scene.thread, &provider(), "m3", &plain());
    let chain = VerifiedChain::start(&head()).extend(&provider()).expect("a longer chain");
    handed["metadata"]["actorChain"] = chain.tokens().collect::<Vec<_>>().into();
    assert_eq!(code(&scene.ask(&handed).await), "422 self-obligation");
    assert_eq!(scene.inbox(&head()).await, before);
    assert_eq!(scene.rows("obligation"), 1);
}

/// Nobody makes us look at a schema that nobody signed.
#[tokio::test]
async fn a_signature_is_checked_before_a_schema() {
    let scene = Scene::open().await;
    let spec = json!({
        "response_required": true, "response_schema_id": "s", "response_schema": { "$ref": "https://x.example/" },
    });
    let mut asked = scene.demand_in(&scene.thread, &head(), "m1", &spec);
    assert_eq!(code(&scene.ask(&asked).await), "422 schema-external-reference");
    asked["act"]["signature"] = "0".repeat(128).into();
    assert_eq!(code(&scene.ask(&asked).await), "401 act-signature");
}

#[tokio::test]
async fn custody_is_a_providers_own_word_and_told_again_the_same() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let view = scene.view(&owed.id).await;
    let envelope = Digest::from_hex(view["envelope_digest"].as_str().expect("a digest")).expect("a digest");
    let deed = Deed::MailboxAck { event: owed.event.clone(), envelope };
    let body = |key: &SigningKey| json!({ "event_id": owed.event, "envelope_digest": envelope.to_hex(), "act": scene.prove(key, &deed) });
    let mut by_session = body(&session());
    by_session["certificate"] = certificate(&provider(), &session(), scene.now() + 600, true);
    assert_eq!(code(&scene.post("/v1/mailbox/ack", &by_session).await), "403 exact-responsible-required");
    assert_eq!(code(&scene.post("/v1/mailbox/ack", &body(&head())).await), "404 obligation-unavailable", "its author");
    let own = body(&provider());
    let first = scene.post("/v1/mailbox/ack", &own).await;
    assert_eq!((first.0, &first.1["fact"]), (200, &json!("committed")));
    // The same word after its minute is the same word.
    scene.house.set_clock(300);
    assert_eq!(scene.post("/v1/mailbox/ack", &own).await, first);
    assert_eq!(scene.stands(&owed.id).await, ("created".to_owned(), 1));
}
