//! The scripted provider in process, over its real link.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use wikala_chain::{AgentName, Digest, SigningKey};
use wikala_doors::exit::Failure;
use wikala_doors::provider;
use wikala_witness::{Answer, Caller, Dialect, Entry, ItemKind, Lane, Mark, Reply, ReplyItem, RunId, RunView, Words};

use super::peer::{entries, key, speak, stop, until, until_attached, view};
use crate::house::TestHouse;

/// A provider that is attached; it ends with the test's runtime.
async fn attached(house: &TestHouse, key: &SigningKey, max_runs: Option<u64>) -> JoinHandle<Result<(), Failure>> {
    let (url, key) = (house.url.clone(), Arc::new(SigningKey::from_pem(&key.to_pem()).unwrap()));
    let names = vec![AgentName::new("a").unwrap()];
    let task = tokio::spawn(async move { provider::serve(&url, key, names, max_runs).await });
    for _ in 0..1000 {
        let now = house.app.desk.now();
        let (roster, _) = house.app.readers.read(move |r| r.roster(now, 0, 10)).await.unwrap();
        if roster.iter().any(|agent| agent.online) {
            return task;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("never attached");
}

/// Everything the agent said as text or arguments.
async fn text(house: &TestHouse, run: &RunId) -> String {
    let delta = |entry: Entry| match entry {
        Entry::Words(words) => serde_json::from_str::<Value>(&words.text).unwrap()["delta"].as_str().map(str::to_owned),
        Entry::Mark(_) => None,
    };
    let said: Vec<String> = entries(house, run).await.into_iter().filter_map(|entry| delta(entry.entry)).collect();
    said.join("|")
}

async fn answer(house: &TestHouse, run: &RunId, items: Vec<(String, ItemKind)>, payload: &str) {
    let item = |(id, kind)| ReplyItem { id, kind, abandoned: false, payload: Some(payload.to_owned()) };
    let answer = Answer {
        agent: None,
        run: run.clone(),
        lane: Lane::Direct,
        reply: Reply { items: items.into_iter().map(item).collect(), single: None },
        digest: Digest::of(b"x"),
        act: None,
        certificate: None,
        caller: Caller::default(),
        words: Words { dialect: Dialect::Plain, text: "\"x\"".into() },
    };
    house.app.desk.ask(move |w, now| w.answer(now, answer)).await.expect("answered");
}

fn asked(view: &RunView) -> Vec<(String, ItemKind)> {
    view.asks[0].items.iter().map(|item| (item.id.clone(), item.kind)).collect()
}

#[tokio::test]
async fn every_script_does_what_its_word_says() {
    let house = TestHouse::open().await;
    let key = key(5);
    let _provider = attached(&house, &key, None).await;
    for (said, status, heard) in [
        ("echo hello there", "completed", "hello there"),
        ("stream 3", "completed", "1 |2 |3 "),
        ("slow 0", "completed", "done"),
        ("fail", "failed", ""),
        ("something else", "completed", "something else"),
        ("delegate nobody", "failed", ""),
    ] {
        let (run, _) = speak(&house, &key, "a", said).await;
        until(&house, &run, status).await;
        assert_eq!(text(&house, &run).await, heard, "{said}");
    }
    for (said, kind, payload, heard) in [
        ("ask which colour", ItemKind::Interrupt, "\"green\"", "you said: green"),
        ("askjson", ItemKind::Interrupt, "{\"approved\":true}", "you said: {\"approved\":true}"),
        ("two", ItemKind::Interrupt, "\"x\"", "you said: x and x"),
        ("tool weather", ItemKind::Call, "\"sun\"", "{\"text\":\"weather\"}|you said: sun"),
    ] {
        let (run, _) = speak(&house, &key, "a", said).await;
        let asked = asked(&until(&house, &run, "input-required").await);
        assert!(asked.len() == if said == "two" { 2 } else { 1 } && asked.iter().all(|item| item.1 == kind));
        answer(&house, &run, asked, payload).await;
        until(&house, &run, "completed").await;
        assert_eq!(text(&house, &run).await, heard, "{said}");
    }
}

#[tokio::test]
async fn it_vanishes_comes_back_and_says_nothing_twice() {
    let house = TestHouse::open().await;
    let key = key(5);
    let _provider = attached(&house, &key, None).await;
    let (run, _) = speak(&house, &key, "a", "vanish").await;
    until(&house, &run, "completed").await;
    assert_eq!(text(&house, &run).await, "going|back again");
    let gap = |entry: &Entry| matches!(entry, Entry::Mark(Mark::LinkGap { .. }));
    assert!(!entries(&house, &run).await.iter().any(|recorded| gap(&recorded.entry)));
}

/// An offer that waits for a provider comes with its roster: it is told `registered`
/// first, or it would not know yet that it is attached.
#[tokio::test]
async fn what_waited_is_taken_at_once_when_it_comes_back() {
    let house = TestHouse::open().await;
    let key = key(5);
    for round in 0..10 {
        let provider = attached(&house, &key, None).await;
        provider.abort();
        until_attached(&house, 0).await;
        let (run, _) = speak(&house, &key, "a", &format!("echo {round}")).await;
        let provider = attached(&house, &key, None).await;
        until(&house, &run, "completed").await;
        provider.abort();
        until_attached(&house, 0).await;
    }
}

#[tokio::test]
async fn it_dies_and_the_run_gets_one_verdict() {
    let house = TestHouse::open().await;
    let key = key(5);
    let provider = attached(&house, &key, None).await;
    let (run, _) = speak(&house, &key, "a", "die").await;
    assert!(provider.await.unwrap().is_ok());
    until_attached(&house, 0).await;
    house.advance(30).await;
    let ended = until(&house, &run, "failed").await;
    assert_eq!(ended.reason.as_deref(), Some("provider_left_holding_it"));
}

#[tokio::test]
async fn it_stops_when_asked_and_is_offered_no_more_than_its_room() {
    let house = TestHouse::open().await;
    let key = key(5);
    let _provider = attached(&house, &key, Some(1)).await;
    let (slow, _) = speak(&house, &key, "a", "slow 600").await;
    until(&house, &slow, "running").await;
    let (next, _) = speak(&house, &key, "a", "echo next").await;
    assert_eq!(json!(view(&house, &next).await.status.as_str()), "queued");
    stop(&house, &slow).await;
    until(&house, &slow, "cancelled").await;
    until(&house, &next, "completed").await;
}
