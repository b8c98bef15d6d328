//! A party is woken when something of its own changed, and told nothing of what.

use std::time::Duration;

use axum::http::Method;
use serde_json::json;
use wikala_certs::{Moment, Revoked, SignedCertificate};
use wikala_chain::SigningKey;
use wikala_doors::client::{Client, Events, Signer};

use super::{Scene, code, nobody, plain, session};
use crate::a2a::{certificate, head, provider, value};

const LONG: Duration = Duration::from_secs(20);

async fn listen(scene: &Scene, key: &SigningKey) -> Events {
    let url = format!("{}/v1/response-obligations/wake", scene.house.url);
    let signer = Some(Signer { key, at_s: scene.now() });
    let mut events = Client::new().events(Method::GET, &url, None, &[], signer).await.expect("a stream");
    woken(&mut events).await;
    events
}

async fn woken(events: &mut Events) {
    let event = events.next_within(LONG).await.expect("whole").expect("an event");
    assert_eq!((event.kind.as_deref(), &*event.data), (Some("wake"), "{}"));
}

/// Everything there is to hear by now, if anything.
async fn silent(events: &mut Events) -> bool {
    tokio::time::timeout(Duration::from_millis(100), events.next()).await.is_err()
}

#[tokio::test]
async fn both_parties_are_woken_by_what_is_theirs_and_a_stranger_by_nothing() {
    let scene = Scene::open().await;
    let (mut asks, mut owes, mut other) =
        (listen(&scene, &head()).await, listen(&scene, &provider()).await, listen(&scene, &nobody()).await);
    let owed = scene.owed("m1", plain()).await;
    woken(&mut asks).await;
    woken(&mut owes).await;
    while !silent(&mut owes).await {}
    while !silent(&mut asks).await {}
    assert_eq!(scene.accept(&provider(), &owed.id, 1).await.0, 200);
    woken(&mut asks).await;
    woken(&mut owes).await;
    while !silent(&mut owes).await {}
    // A refused act changes nothing, so it wakes nobody.
    assert_eq!(code(&scene.accept(&provider(), &owed.id, 7).await), "409 revision-conflict");
    assert!(silent(&mut owes).await);
    assert!(silent(&mut other).await);
    let unsigned = scene.send(Method::GET, "/v1/response-obligations/wake", None, None).await;
    assert_eq!(code(&unsigned), "401 presenter-required");
}

#[tokio::test]
async fn a_revoked_session_is_woken_no_more() {
    let scene = Scene::open().await;
    let until = scene.now() + 600;
    let given = json!({ "delegation": certificate(&head(), &session(), until, true) });
    assert_eq!(scene.send(Method::POST, "/v1/certificates", Some(&given), Some(&session())).await.0, 200);
    let mut heard = listen(&scene, &session()).await;
    scene.owed("m1", plain()).await;
    woken(&mut heard).await;
    let target = Revoked::Certificate(SignedCertificate::issue(&head(), &session().public(), until).id());
    let body = json!({
        "certificate": given["delegation"], "revocation": value(&target.sign(&head(), Moment::from_secs(scene.now()))),
    });
    while !silent(&mut heard).await {}
    assert_eq!(scene.post("/v1/revocations", &body).await.0, 200);
    scene.owed_apart("m2", plain()).await;
    assert_eq!(heard.next_within(LONG).await.expect("an end"), None);
}
