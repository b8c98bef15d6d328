//! Ownership: who may say where it stands, at which revision, and how often.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_certs::Deed;
use wikala_chain::{Digest, SigningKey};

use super::{Scene, code, nobody, plain, route, session};
use crate::a2a::{certificate, head, provider};

#[tokio::test]
async fn n14_to_n16_custody_is_no_ownership() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    assert_eq!(
        code(&scene.progress(&provider(), &owed.id, 1, "recipient_committed").await),
        "409 delivery-fact-missing"
    );
    let envelope = Digest::from_hex(scene.view(&owed.id).await["envelope_digest"].as_str().unwrap()).unwrap();
    let ack = |key: SigningKey, envelope: Digest| {
        let deed = Deed::MailboxAck { event: owed.event.clone(), envelope };
        json!({ "event_id": owed.event, "envelope_digest": envelope.to_hex(), "act": scene.prove(&key, &deed) })
    };
    let path = "/v1/mailbox/ack";
    assert_eq!(code(&scene.post(path, &ack(nobody(), envelope)).await), "404 obligation-unavailable");
    assert_eq!(code(&scene.post(path, &ack(provider(), Digest::ZERO)).await), "409 envelope-digest-mismatch");
    for _ in 0..2 {
        assert_eq!(scene.post(path, &ack(provider(), envelope)).await.0, 200);
    }
    assert_eq!(scene.stands(&owed.id).await, ("created".into(), 1), "the obligation did not move");
    assert_eq!(scene.reconcile(&provider()).await["recipient_committed"], json!([owed.id]));
    assert_eq!(scene.reconcile(&provider()).await["recipient_committed"], json!([]));
    assert_eq!(scene.stands(&owed.id).await, ("recipient_committed".into(), 2));
    // Its own signed read: read, and still to do. Its requester's says nothing about it.
    let facts = async |key: SigningKey| {
        let (_, view) = scene.get(&format!("/v1/response-obligations/{}", owed.id), &key).await;
        let facts = view["delivery"].as_array().unwrap().iter();
        (view["state"].clone(), facts.filter_map(|fact| fact["fact"].as_str()).any(|fact| fact == "read"))
    };
    assert_eq!(facts(head()).await, (json!("recipient_committed"), false));
    assert_eq!(facts(provider()).await, (json!("recipient_committed"), true), "told in the same answer");
    assert_eq!(scene.inbox(&provider()).await["action_required"], 1);
}

#[tokio::test]
async fn a_link_that_takes_the_offer_has_it_and_one_that_began_has_read_it() {
    let mut scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let run = scene.puppet.take().await.run;
    scene.puppet.begins(&run).await;
    let view = scene.view(&owed.id).await;
    let facts: Vec<&str> =
        view["delivery"].as_array().unwrap().iter().filter_map(|fact| fact["fact"].as_str()).collect();
    // Read back it is when its author is told, which the link does not wait for.
    let ladder: Vec<&str> = facts.iter().copied().filter(|fact| *fact != "delivered").collect();
    assert_eq!(ladder, ["queued", "dispatched", "committed", "read"]);
    assert!(facts.contains(&"delivered"), "{facts:?}");
    assert_eq!(view["state"], "created", "and nobody owns it");
}

#[tokio::test]
async fn n17_to_n20_accept_decline_and_what_is_not_to_be_claimed() {
    let scene = Scene::open().await;
    let one = scene.owed("m1", plain()).await;
    let two = scene.owed("m2", plain()).await;
    assert_eq!(code(&scene.progress(&provider(), &one.id, 1, "in_progress").await), "409 illegal-transition");
    for to in ["completed", "failed", "declined", "canceled", "expired", "created"] {
        assert_eq!(code(&scene.progress(&provider(), &one.id, 1, to).await), "422 state-not-assertable", "{to}");
    }
    assert_eq!(code(&scene.progress(&provider(), &one.id, 1, "resting").await), "400 unknown-state");
    let (status, done) = scene.accept(&provider(), &one.id, 1).await;
    assert_eq!((status, &done["state"], &done["revision"]), (200, &json!("acknowledged"), &json!(2)));
    assert_eq!(code(&scene.decline(&provider(), &one.id, 2, "no").await), "409 decline-after-acceptance");
    assert_eq!(code(&scene.decline(&provider(), &two.id, 1, " ").await), "422 decline-reason-required");
    assert_eq!(scene.decline(&provider(), &two.id, 1, "not mine").await.1["state"], "declined");
    assert_eq!(code(&scene.respond(&provider(), &two, &json!({})).await), "409 obligation-terminal");
    assert_eq!(code(&scene.accept(&provider(), &two.id, 2).await), "409 obligation-terminal");
    assert_eq!(scene.rows("ack"), 2);
    // An artifact of its own: the request stays as it was.
    let digest = scene.view(&one.id).await["request_digest"].clone();
    assert_eq!(digest, one.request.to_hex());
    let artifact =
        async |event: &str, key: SigningKey| scene.get(&format!("/v1/messages/{event}.ack.json"), &key).await;
    let (status, ack) = artifact(&one.event, head()).await;
    assert_eq!((status, &ack["status"], &ack["msg_id"]), (200, &json!("ACCEPTED"), &json!(one.event)));
    let (status, ack) = artifact(&two.event, provider()).await;
    assert_eq!((status, &ack["status"], &ack["decline_reason"]), (200, &json!("DECLINED"), &json!("not mine")));
    let three = scene.owed("m3", plain()).await;
    let nowhere = artifact("msg_000000000000000000000000", head()).await;
    assert_eq!(code(&nowhere), "404 obligation-unavailable");
    for (event, key) in [(&one.event, nobody()), (&three.event, head()), (&"x".to_owned(), head())] {
        assert_eq!(artifact(event, key).await, nowhere, "a stranger's, one not given, none");
    }
    let mut odd = json!({ "revision": 2, "to_state": "in_progress", "reason": "a:b", "act": {} });
    assert_eq!(code(&scene.post(&route(&one.id, "transition"), &odd).await), "422 reason-not-a-code");
    odd["extra"] = 1.into();
    assert_eq!(code(&scene.post(&route(&one.id, "transition"), &odd).await), "400 body-malformed");
}

#[tokio::test]
async fn n21_n22_every_move_makes_the_next_revision_and_fits_the_one_it_saw() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    assert_eq!(scene.accept(&provider(), &owed.id, 1).await.0, 200);
    let human = async |key: SigningKey| scene.inbox(&key).await["awaiting_human"].clone();
    for (revision, to) in [(2, "in_progress"), (3, "pending_human"), (4, "in_progress"), (5, "blocked")] {
        let (status, done) = scene.progress(&provider(), &owed.id, revision, to).await;
        assert_eq!((status, &done["revision"]), (200, &json!(revision + 1)), "{done}");
        let waits = json!(u64::from(to == "pending_human"));
        assert_eq!((human(head()).await, human(provider()).await), (waits.clone(), waits), "{to}");
    }
    let stale = scene.progress(&provider(), &owed.id, 2, "blocked").await;
    assert_eq!(code(&stale), "409 revision-conflict");
    assert_eq!((&stale.1["error"]["state"], &stale.1["error"]["revision"]), (&json!("blocked"), &json!(6)));
    let view = scene.view(&owed.id).await;
    let revisions: Vec<u64> =
        view["history"].as_array().unwrap().iter().filter_map(|e| e["revision"].as_u64()).collect();
    assert_eq!(revisions, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn n23_to_n26_an_act_is_done_once_and_told_the_same_ever_after() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let deed = Deed::Accept { obligation: owed.id.clone(), revision: 1 };
    let act = json!({ "revision": 1, "act": scene.prove(&provider(), &deed) });
    let path = route(&owed.id, "accept");
    let (status, first) = scene.post(&path, &act).await;
    assert_eq!((status, &first["duplicate"]), (200, &json!(false)));
    assert_eq!(scene.progress(&provider(), &owed.id, 2, "in_progress").await.0, 200);
    for seconds in [5, 3600] {
        scene.house.set_clock(seconds);
        let (status, again) = scene.post(&path, &act).await;
        assert_eq!(
            (status, &again["revision"], &again["duplicate"]),
            (200, &json!(2), &json!(true)),
            "the stored result"
        );
        assert_eq!(code(&scene.accept(&provider(), &owed.id, 1).await), "409 revision-conflict", "a fresh one");
    }
    assert_eq!(scene.stands(&owed.id).await, ("in_progress".into(), 3));
    // Another tag over the same values, and the window to the second.
    let as_cancel = scene.post(&route(&owed.id, "cancel"), &act).await;
    assert_eq!(code(&as_cancel), "401 act-signature");
    let resolve = crate::a2a::resolve(&provider(), &owed.run, scene.now());
    assert_eq!(code(&scene.post(&path, &json!({ "revision": 3, "act": resolve })).await), "401 act-signature");
    let blocked = |revision| Deed::Progress {
        obligation: owed.id.clone(),
        revision,
        to: "blocked".into(),
        reason: "progress".into(),
    };
    let signed = scene.prove(&provider(), &blocked(3));
    let body = json!({ "revision": 3, "to_state": "blocked", "act": signed });
    scene.house.set_clock(61);
    assert_eq!(code(&scene.post(&route(&owed.id, "transition"), &body).await), "401 act-stale");
    let signed = scene.prove(&provider(), &blocked(3));
    scene.house.set_clock(60);
    let body = json!({ "revision": 3, "to_state": "blocked", "act": signed });
    assert_eq!(scene.post(&route(&owed.id, "transition"), &body).await.0, 200);
    // Carried from an earlier pass: the revision in it fits no more.
    assert_eq!(scene.progress(&provider(), &owed.id, 4, "in_progress").await.0, 200);
    assert_eq!(scene.post(&route(&owed.id, "transition"), &body).await.1["revision"], 4, "its own result, no new move");
    assert_eq!(scene.stands(&owed.id).await, ("in_progress".into(), 5));
}

#[tokio::test]
async fn n34_n36_only_the_party_itself_and_a_stranger_learns_nothing() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    assert_eq!(code(&scene.cancel(&provider(), &owed.id, 1).await), "403 exact-requester-required");
    assert_eq!(code(&scene.accept(&head(), &owed.id, 1).await), "403 exact-responsible-required");
    let nowhere = "ob_00000000000000000000000000000000";
    for key in [&nobody(), &session()] {
        let texts =
            async |id: &str| scene.text(Method::GET, &format!("/v1/response-obligations/{id}"), None, Some(key)).await;
        assert_eq!(texts(&owed.id).await, texts(nowhere).await);
        assert_eq!(texts("x").await, texts(nowhere).await);
        assert_eq!(scene.cancel(key, &owed.id, 1).await, scene.cancel(key, nowhere, 1).await);
        assert_eq!(scene.accept(key, &owed.id, 1).await, scene.accept(key, nowhere, 1).await);
        let (status, list) = scene.get("/v1/response-obligations", key).await;
        assert_eq!((status, &list["obligations"]), (200, &json!([])));
    }
    let unsigned = scene.send(Method::GET, &format!("/v1/response-obligations/{}", owed.id), None, None).await;
    assert_eq!(code(&unsigned), "401 presenter-required");
    // A session key of the head's, with a certificate that holds, and with one that ended.
    let deed = Deed::Cancel { obligation: owed.id.clone(), revision: 1, reason: "requester_canceled".into() };
    let body = |expires: u64| json!({ "revision": 1, "act": scene.prove(&session(), &deed), "certificate": certificate(&head(), &session(), expires, true) });
    let path = route(&owed.id, "cancel");
    assert_eq!(code(&scene.post(&path, &body(scene.now() - 1)).await), "401 certificate-expired");
    let (status, done) = scene.post(&path, &body(scene.now() + 60)).await;
    assert_eq!((status, &done["state"]), (200, &json!("canceled")), "{done}");
    // Recorded by it, the sibling reads; it does not act for the provider.
    let (status, view) = scene.get(&format!("/v1/response-obligations/{}", owed.id), &session()).await;
    assert_eq!((status, &view["reason"]), (200, &json!("requester_canceled")));
}

#[tokio::test]
async fn a_pause_of_its_run_waits_for_a_human_and_gives_it_back() {
    let mut scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let run = scene.puppet.take().await.run;
    scene.puppet.begins(&run).await;
    assert_eq!(scene.accept(&provider(), &owed.id, 1).await.0, 200);
    scene.puppet.asks(&run, &["q"]).await;
    assert_eq!(scene.stands(&owed.id).await, ("pending_human".into(), 3));
    let answer = json!({ "answer": "yes", "resolution": crate::a2a::resolve(&head(), run.as_str(), scene.now()) });
    assert_eq!(scene.post(&format!("/v1/runs/{run}/answer"), &answer).await.0, 200);
    assert_eq!(scene.stands(&owed.id).await, ("acknowledged".into(), 4));
    assert_eq!(scene.puppet.take().await.run, run);
    scene.puppet.begins(&run).await;
    scene.puppet.ends(&run).await;
    assert_eq!(scene.stands(&owed.id).await, ("acknowledged".into(), 4), "the end of a run closes nothing");
}

#[tokio::test]
async fn lists_are_a_partys_own_in_pages_and_strict_about_what_is_asked() {
    let scene = Scene::open().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(scene.owed_apart(&format!("m{n}"), plain()).await.id);
    }
    ids.sort();
    assert_eq!(scene.accept(&provider(), &ids[0], 1).await.0, 200);
    let list = async |query: &str| scene.get(&format!("/v1/response-obligations?{query}"), &head()).await;
    let told = |answer: &(u16, Value)| -> Vec<String> {
        let list = answer.1["obligations"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
        list.iter().map(|one| one["obligation_id"].as_str().unwrap().to_owned()).collect()
    };
    let first = list("limit=2").await;
    let mut all = told(&first);
    let mut next = first.1["next"].clone();
    while let Some(after) = next.as_str().map(str::to_owned) {
        let page = list(&format!("limit=2&after={after}")).await;
        all.extend(told(&page));
        next = page.1["next"].clone();
    }
    all.sort();
    assert_eq!(all, ids);
    assert_eq!(told(&list("state=acknowledged&state=blocked").await), [ids[0].clone()]);
    assert_eq!(told(&list("role=responsible").await), Vec::<String>::new());
    assert_eq!(told(&list("role=requester").await).len(), 5);
    for (query, expect) in [
        ("limit=0", "400 limit-out-of-range"),
        ("limit=1001", "400 limit-out-of-range"),
        ("state=tired", "400 unknown-state"),
        ("role=boss", "400 body-malformed"),
        ("colour=red", "400 body-malformed"),
        ("limit=1&limit=2", "400 body-malformed"),
        ("after=ob_00000000000000000000000000000000", "404 obligation-unavailable"),
    ] {
        assert_eq!(code(&list(query).await), expect, "{query}");
    }
}
