//! What the house cannot or will not do now: limits, admission, a broken record, closing.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use wikala_doors::house::Admission;
use wikala_doors::limits::STREAMS;
use wikala_witness::Policy;

use super::stage::{Stage, cancel, head, provider, stranger};
use super::table::{Ask, Table};
use crate::house::TestHouse;

pub async fn counted(table: &mut Table) {
    let mut stage = Stage::open().await;
    let live = stage.running().await;
    let peer = [127, 0, 0, 1].into();
    let limits = &stage.house.app.limits;
    // Before anything is handed in: a run nobody may watch does not begin.
    let places: Vec<_> = (0..STREAMS).map(|_| limits.streams.take(peer).expect("a place")).collect();
    let [_, streamed, run] = stage.speaks(stage.bag(&head()));
    let watch = stage.a2a("SubscribeToTask", json!({ "id": live.run.as_str() }));
    let events = stage.get(&format!("/v1/runs/{}/events", live.run));
    table.refused(&stage, "rate-limited", "a stream too many", [streamed, run, watch, events]).await;
    drop(places);

    while limits.anonymous_runs.take(peer, stage.now(), "run").is_ok() {}
    let threads = format!("/threads/{}/ask", stage.agent.provider);
    let ahead = [stage.post(&threads, json!({}))];
    let asks = stage.speaks(json!({})).into_iter().chain(ahead);
    table.refused(&stage, "rate-limited", "nameless runs", asks).await;
    while limits.tickets.take(peer, stage.now(), "ticket").is_ok() {}
    let ticket = stage.post("/tickets", json!({ "publicKey": provider().public().to_hex() }));
    table.refused(&stage, "rate-limited", "tickets", [ticket]).await;
    table.must(stage.puppet.was_told_nothing(), "a request over the limit was told to the agent");
    // Who is somebody is not counted as nobody.
    let [_, _, run] = stage.speaks(stage.bag(&head()));
    assert_eq!(run.send(&stage).await.expect("taken").0, 200);
}

pub async fn admission(table: &mut Table) {
    let listed = Admission::Listed(Arc::new(Mutex::new(HashSet::from([provider().public()]))));
    let stage = Stage::of(TestHouse::admitting(Policy::default(), listed).await).await;
    let ticket = |key: &str| stage.post("/tickets", json!({ "publicKey": key }));
    table.refused(&stage, "not-admitted", "not listed", [ticket(&stranger().public().to_hex())]).await;
    assert_eq!(ticket(&provider().public().to_hex()).send(&stage).await.expect("a ticket").0, 200);
}

/// The statements go through and the commit fails, for real: what they wrote refers to
/// a row that is not there, which is looked at when the transaction ends. Then a
/// statement fails.
pub async fn a_record_that_does_not_take_it(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let live = stage.running().await;
    let act = stage.act(&head(), &paused.run);
    let asks = || -> Vec<Ask> {
        let threads = stage.post(&format!("/threads/{}/ask", stage.agent.provider), json!({}));
        let stop = json!({ "cancel": cancel(&head(), live.run.as_str(), stage.now()) });
        stage
            .speaks(stage.bag(&head()))
            .into_iter()
            .chain(stage.answers(&paused, paused.entries("yes"), act.clone()))
            .chain(stage.cancels(live.run.as_str(), stop))
            .chain([threads])
            .collect()
    };
    let asks = asks();
    let triggers = |body: &str| {
        let on = ["INSERT ON thread", "INSERT ON run", "UPDATE ON run"].into_iter().enumerate();
        on.map(|(n, on)| format!("CREATE TRIGGER broken_{n} AFTER {on} BEGIN {body}; END;")).collect::<String>()
    };
    stage.tamper("CREATE TABLE broken (x TEXT REFERENCES thread (id) DEFERRABLE INITIALLY DEFERRED) STRICT");
    stage.tamper(&triggers("INSERT INTO broken VALUES ('nobody')"));
    table.refused(&stage, "cannot-record", "the commit fails", asks.clone()).await;
    stage.tamper("DROP TRIGGER broken_0; DROP TRIGGER broken_1; DROP TRIGGER broken_2; DROP TABLE broken");
    stage.tamper(&triggers("SELECT RAISE(ABORT, 'broken')"));
    table.refused(&stage, "cannot-record", "a statement fails", asks.clone()).await;
    stage.tamper("DROP TRIGGER broken_0; DROP TRIGGER broken_1; DROP TRIGGER broken_2");
    // A read that fails is no "not found".
    stage.tamper("ALTER TABLE flag RENAME TO lost");
    let run = json!({ "id": paused.run.as_str() });
    let reads = ["GetTask", "SubscribeToTask"].map(|method| stage.a2a(method, run.clone()));
    let reads = reads.into_iter().chain([stage.get(&format!("/v1/runs/{}", paused.run))]);
    table.refused(&stage, "cannot-record", "a table is gone", reads).await;
    stage.tamper("ALTER TABLE lost RENAME TO flag");
    table.must(stage.puppet.was_told_nothing(), "what is not on record was told to the agent");
    // Nothing was spent, and the desk goes on: the very same requests are taken now.
    for ask in asks.iter().filter(|ask| matches!(ask.name.as_str(), "run" | "POST /v1/runs/{id}/answer" | "CancelTask"))
    {
        let (status, _, body) = ask.send(&stage).await.expect("an answer");
        assert!(status == 200 && body["error"].is_null(), "{} {body}", ask.name);
    }
}

/// The house closes while another socket of it still takes connections.
pub async fn a_closing_house(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    stage.base = format!("http://{}", listener.local_addr().expect("bound"));
    let (_open, never) = tokio::sync::watch::channel(false);
    let app = stage.house.app.clone();
    tokio::spawn(wikala_doors::http::serve(app, listener, never, Duration::from_secs(2)));
    stage.house.close();
    let act = stage.act(&head(), &paused.run);
    let threads = stage.post(&format!("/threads/{}/ask", stage.agent.provider), json!({}));
    let ticket = stage.post("/tickets", json!({ "publicKey": provider().public().to_hex() }));
    let asks = stage.speaks(stage.bag(&head())).into_iter();
    let asks = asks.chain(stage.answers(&paused, paused.entries("yes"), act)).chain([threads, ticket]);
    table.refused(&stage, "shutting-down", "closing", asks).await;
    table.must(stage.puppet.was_told_nothing(), "what came too late was told to the agent");
}
