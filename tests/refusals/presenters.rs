//! Who stands at the door: chains, presenter proofs, signed requests, certificates.

use std::path::Path;

use serde_json::{Value, json};
use wikala_certs::{Moment, Revoked, SignedCertificate};
use wikala_chain::{MAX_HOPS, SigningKey, VerifiedChain};

use super::stage::{Stage, cancel, certificate, head, message, nobody, provider, session, stranger};
use super::table::{Ask, Table};
use crate::a2a::{Caller, value};
use crate::agui;
use crate::house::Puppet;

/// Every bad chain among the vectors, by its code.
fn bad_chains() -> Vec<(String, String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors/chain");
    let mut bad = Vec::new();
    for file in std::fs::read_dir(folder).expect("vectors") {
        let path = file.expect("a file").path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).expect("a case")).expect("JSON");
        if let Some(code) = case["expect"]["code"].as_str() {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            bad.push((code.to_owned(), name, case["inputs"]["chain"].clone()));
        }
    }
    bad.sort_by(|a, b| a.1.cmp(&b.1));
    bad
}

pub async fn chains(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    for (code, name, chain) in bad_chains() {
        table.refused(&stage, &code, &name, stage.speaks(json!({ "actorChain": chain }))).await;
    }
    // Whole as it is, and one hop too long with ours.
    let mut long = VerifiedChain::start(&head());
    while long.hops().len() < MAX_HOPS {
        long = long.extend(&head()).expect("a hop");
    }
    let bag = stage.caller.bag_of(&head(), &long, stage.now());
    table.refused(&stage, "chain-too-long", "with our hop", stage.speaks(bag)).await;
    // Verified wherever it comes along, beside an act that would do without it too.
    let bad = json!({ "actorChain": [] });
    let act = agui::with(bad.clone(), stage.act(&head(), &paused.run));
    let [told, streamed, resume, _] = stage.answers(&paused, paused.entries("yes"), act);
    table.refused(&stage, "chain-empty", "beside an act", [told, streamed, resume]).await;
    let stop = json!({ "cancel": cancel(&head(), paused.run.as_str(), stage.now()) });
    let [stop, _] = stage.cancels(paused.run.as_str(), agui::with(bad, stop));
    table.refused(&stage, "chain-empty", "beside a cancel", [stop]).await;
    table.must(stage.puppet.was_told_nothing(), "a bad chain was told to the agent");
}

pub async fn proofs(table: &mut Table) {
    let mut stage = Stage::open().await;
    let other = Puppet::attach(&stage.house, &SigningKey::from_seed([9; 32]), "echo").await;
    let mine = stage.bag(&head());
    stage.caller.task("SendMessage", crate::a2a::at_once(message("x", json!({}), mine.clone()))).await;
    stage.puppet.take().await;
    let now = stage.now();
    let chain = VerifiedChain::start(&head());
    let by = |key: &SigningKey, chain: &VerifiedChain, at: u64| stage.caller.presenter(key, chain, at);
    let with = |proof: Value| stage.bag_with(&head(), json!({ "presenter": proof }));
    let mut spoofed = by(&head(), &chain, now);
    spoofed["publicKey"] = stranger().public().to_hex().into();
    let mut bare = by(&head(), &chain, now);
    bare.as_object_mut().expect("a proof").remove("nonce");
    for (code, why, bag) in [
        ("presenter-required", "a chain alone", json!({ "actorChain": mine["actorChain"] })),
        ("presenter-spent", "used before", mine),
        ("presenter-proof", "for another agent", Caller::of(&stage.house, &other.agent).bag(&head(), now)),
        ("presenter-proof", "of another key", with(spoofed)),
        ("presenter-proof", "without a nonce", with(bare)),
        ("presenter-proof", "for another chain", with(by(&head(), &chain.extend(&head()).unwrap(), now))),
        ("presenter-proof", "signed 61 s ago", with(by(&head(), &chain, now - 61))),
        ("presenter-proof", "signed 61 s ahead", with(by(&head(), &chain, now + 61))),
        ("presenter-mismatch", "somebody else's", with(by(&stranger(), &chain, now))),
        ("proof-malformed", "no proof", with(json!({ "publicKey": 7 }))),
        ("proof-malformed", "no object", with(json!("x"))),
        (
            "run-input",
            "an interjection into nothing",
            stage.bag_with(&head(), json!({ "addressedRunId": nobody("run") })),
        ),
        ("body-malformed", "an id that is none", stage.bag_with(&head(), json!({ "addressedRunId": 5 }))),
    ] {
        table.refused(&stage, code, why, stage.speaks(bag)).await;
    }
    table.must(stage.puppet.was_told_nothing(), "an unproved caller was told to the agent");
}

/// RFC 9421: the same codes, on every route that takes a signature.
pub async fn signed_requests(table: &mut Table) {
    let mut stage = Stage::open().await;
    let now = stage.now();
    let chain: Vec<String> = VerifiedChain::start(&head()).tokens().map(str::to_owned).collect();
    let bag = json!({ "actorChain": chain });
    // Taken once, on either protocol, and never again.
    let [said, _, run] = stage.speaks(bag.clone());
    let said = Ask { body: Some(at_once(said.body.expect("a body"))), ..stage.a2a("SendMessage", json!({})) };
    for ask in [said.signed(&stage, &head()), run.signed(&stage, &head())] {
        for taken in ask.signed_twin.iter().map(|twin| &**twin).chain([&ask]) {
            let (status, _, body) = taken.send(&stage).await.expect("taken");
            assert!(status == 200 && body["error"].is_null(), "{body}");
            let id = stage.puppet.take().await.run;
            stage.puppet.ends(&id).await;
            let view = stage.house.app.readers.read(move |r| r.run_for_operator(&id)).await.expect("a run");
            assert_eq!((view.head, view.opener), (Some(head().public()), Some(head().public())));
        }
        table.refused(&stage, "presenter-spent", "a signed request, replayed", [ask]).await;
    }
    let pair = json!({ "delegation": certificate(&head(), &session(), now + 600, false) });
    let certify = || stage.post("/v1/certificates", pair.clone());
    let twice = certify().signed(&stage, &session());
    assert_eq!(twice.send(&stage).await.expect("taken").0, 200);
    table.refused(&stage, "presenter-spent", "a signed request, replayed", [twice]).await;
    table.refused(&stage, "presenter-required", "unsigned", [certify()]).await;
    let read = || stage.get("/v1/runs/run_000000000000000000000000");

    for unsigned in stage.speaks(bag).into_iter().chain([certify(), read()]) {
        let key = if unsigned.path.starts_with("/v1") { session() } else { head() };
        let elsewhere = format!("{}/elsewhere", stage.house.url);
        let swapped = unsigned.clone().signed(&stage, &key).changed(|ask| {
            let body = ask.body.take().map_or_else(|| b"{}".to_vec(), |body| [&b" "[..], &body].concat());
            ask.body = Some(body);
        });
        let cut = unsigned.clone().signed(&stage, &key);
        let cut = cut.changed(|ask| ask.headers.retain(|(name, _)| name != "signature"));
        for (why, ask) in [
            ("signed for another target", unsigned.clone().signed_for(&key, &elsewhere, now)),
            ("signed 61 s ago", unsigned.clone().signed_as_of(&stage, &key, now - 61)),
            ("signed 61 s ahead", unsigned.clone().signed_as_of(&stage, &key, now + 61)),
            ("over another body", swapped),
            ("without its signature", cut),
        ] {
            table.refused(&stage, "presenter-proof", why, [ask]).await;
        }
        if unsigned.path.starts_with("/a") {
            let ask = unsigned.signed(&stage, &stranger());
            table.refused(&stage, "presenter-mismatch", "signed by somebody else", [ask]).await;
        }
    }
    table.must(stage.puppet.was_told_nothing(), "a request signed badly was told to the agent");
}

/// The same message, to be answered before the agent is done with it.
fn at_once(body: Vec<u8>) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&body).expect("JSON");
    body["params"] = crate::a2a::at_once(body["params"].take());
    body.to_string().into_bytes()
}

pub async fn certificates(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let until = stage.now() + 600;
    let of = |authority: &SigningKey, key: &SigningKey, at: u64| certificate(authority, key, at, true);
    // The session key is the head's from here on.
    let certify = |delegation: &Value| stage.post("/v1/certificates", json!({ "delegation": delegation }));
    let recorded = certify(&of(&head(), &session(), until)).signed(&stage, &session());
    assert_eq!(recorded.send(&stage).await.expect("taken").0, 200);
    let mut forged = of(&stranger(), &head(), until);
    forged["signature"] = "0".repeat(128).into();
    let mut unwilling = of(&stranger(), &head(), until);
    unwilling["acceptance"] = "0".repeat(128).into();
    let expired = of(&stranger(), &head(), stage.now() - 1);
    let other = of(&stranger(), &session(), until);
    // Beside the chain of the key it is for.
    for (code, why, key, delegation) in [
        ("certificate-malformed", "no certificate", head(), json!({})),
        ("certificate-signature", "not signed by its authority", head(), forged),
        ("certificate-signature", "accepted by somebody else", head(), unwilling),
        ("certificate-expired", "a second too old", head(), expired),
        ("certificate-not-signer", "of another key", head(), of(&stranger(), &provider(), until)),
        ("delegate-rebound", "for a second authority", session(), other),
    ] {
        let bag = stage.bag_with(&key, json!({ "delegation": delegation }));
        table.refused(&stage, code, why, stage.speaks(bag)).await;
        // Beside that key's act, and at the route of its own.
        let mut act = stage.act(&key, &paused.run);
        act["delegation"] = delegation.clone();
        table.refused(&stage, code, why, stage.answers(&paused, paused.entries("yes"), act)).await;
        let mut stop = json!({ "cancel": cancel(&key, paused.run.as_str(), stage.now()) });
        stop["delegation"] = delegation.clone();
        table.refused(&stage, code, why, stage.cancels(paused.run.as_str(), stop)).await;
        table.refused(&stage, code, why, [certify(&delegation).signed(&stage, &key)]).await;
    }
    let unaccepted = certificate(&stranger(), &head(), until, false);
    let bag = stage.bag_with(&head(), json!({ "delegation": unaccepted }));
    table.refused(&stage, "certificate-not-accepted", "a head made a delegate", stage.speaks(bag)).await;
    table.refused(&stage, "body-malformed", "no certificate", [certify(&Value::Null).signed(&stage, &head())]).await;

    // A second session, revoked by its authority: presenting, answering, stopping, reading,
    // and shown again.
    let gone = SigningKey::from_seed([8; 32]);
    let given = of(&head(), &gone, until);
    assert_eq!(certify(&given).signed(&stage, &gone).send(&stage).await.expect("taken").0, 200);
    let target = Revoked::Certificate(SignedCertificate::issue(&head(), &gone.public(), until).id());
    let revoke = |key: &SigningKey| {
        let proof = value(&target.sign(key, Moment::from_secs(stage.now())));
        stage.post("/v1/revocations", json!({ "certificate": given, "revocation": proof }))
    };
    table.refused(&stage, "not-an-authority", "somebody else revokes", [revoke(&stranger())]).await;
    for key in [&gone, &head()] {
        assert_eq!(revoke(key).send(&stage).await.expect("taken").0, 200);
    }
    let code = "certificate-revoked";
    table.refused(&stage, code, "a delegate presents", stage.speaks(stage.bag(&gone))).await;
    let act = stage.act(&gone, &paused.run);
    table.refused(&stage, code, "a delegate answers", stage.answers(&paused, paused.entries("yes"), act)).await;
    let stop = json!({ "cancel": cancel(&gone, paused.run.as_str(), stage.now()) });
    table.refused(&stage, code, "a delegate stops", stage.cancels(paused.run.as_str(), stop)).await;
    let read = stage.get(&format!("/v1/runs/{}", paused.run)).signed(&stage, &gone);
    table.refused(&stage, code, "a delegate reads", [read, certify(&given).signed(&stage, &gone)]).await;

    // A delegate on record, its certificate run out: presenting, answering, stopping, reading.
    stage.house.advance(601).await;
    let code = "certificate-expired";
    table.refused(&stage, code, "a delegate presents", stage.speaks(stage.bag(&session()))).await;
    let act = stage.act(&session(), &paused.run);
    table.refused(&stage, code, "a delegate answers", stage.answers(&paused, paused.entries("yes"), act)).await;
    let stop = json!({ "cancel": cancel(&session(), paused.run.as_str(), stage.now()) });
    table.refused(&stage, code, "a delegate stops", stage.cancels(paused.run.as_str(), stop)).await;
    let read = stage.get(&format!("/v1/runs/{}", paused.run)).signed(&stage, &session());
    table.refused(&stage, code, "a delegate reads", [read]).await;
}
