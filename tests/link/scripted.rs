//! `wikala provider` in process, over its real link.

use std::sync::Arc;

use serde_json::{Value, json};
use wikala_chain::{Digest, SigningKey};
use wikala_doors::provider::Provider;
use wikala_witness::{Answer, Caller, Dialect, Entry, ItemKind, Lane, Reply, ReplyItem, RunId, RunView, Words};

use super::peer::{Peer, entries, key, speak, stop, until, until_attached};
use crate::house::TestHouse;

async fn provider(house: &TestHouse, key: &SigningKey, max_runs: Option<u64>) -> Provider {
    let key = Arc::new(SigningKey::from_pem(&key.to_pem()).unwrap());
    let mut provider = Provider::start_at(&house.url, key, vec!["a".to_owned()], max_runs, house.clock());
    assert!(provider.attached(1).await);
    provider
}

/// Everything the agent said as text.
async fn text(house: &TestHouse, run: &RunId) -> String {
    let delta = |entry: Entry| match entry {
        Entry::Words(words) => serde_json::from_str::<Value>(&words.text).unwrap()["delta"].as_str().map(str::to_owned),
        Entry::Mark(_) => None,
    };
    entries(house, run).await.into_iter().filter_map(|recorded| delta(recorded.entry)).collect()
}

async fn answer(house: &TestHouse, run: &RunId, items: Vec<(String, ItemKind, &str)>) {
    let item = |(id, kind, payload): (String, ItemKind, &str)| ReplyItem {
        id,
        kind,
        abandoned: false,
        payload: Some(payload.to_owned()),
    };
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
    let _provider = provider(&house, &key, None).await;
    for (said, status, heard) in [
        ("echo hello there", "completed", "hello there"),
        ("stream 3", "completed", "1 2 3 "),
        ("slow 0", "completed", "took my time"),
        ("fail", "failed", ""),
        ("something else", "completed", "something else"),
        ("delegate nobody", "completed", "delegate: PROVIDER/NAME extend|fresh|bare|anon|strip TEXT expected"),
    ] {
        let (run, _) = speak(&house, &key, "a", said).await;
        until(&house, &run, status).await;
        assert_eq!(text(&house, &run).await, heard, "{said}");
    }
    for (said, kind, payload, heard) in [
        ("ask which colour", ItemKind::Interrupt, "\"green\"", "you said green"),
        ("askjson", ItemKind::Interrupt, "{\"approved\":true}", "you said {\"approved\":true}"),
        ("two", ItemKind::Interrupt, "\"x\"", "you said x and x"),
        ("tool weather", ItemKind::Call, "\"sun\"", "{\"query\":\"weather\"}you said sun"),
    ] {
        let (run, _) = speak(&house, &key, "a", said).await;
        let view = until(&house, &run, "input-required").await;
        let asked = asked(&view);
        assert!(asked.len() == if said == "two" { 2 } else { 1 } && asked.iter().all(|item| item.1 == kind));
        answer(&house, &run, asked.into_iter().map(|(id, kind)| (id, kind, payload)).collect()).await;
        until(&house, &run, "completed").await;
        assert_eq!(text(&house, &run).await, heard, "{said}");
    }
}

#[tokio::test]
async fn it_vanishes_comes_back_and_says_nothing_twice() {
    let house = TestHouse::open().await;
    let key = key(5);
    let mut provider = provider(&house, &key, None).await;
    let (run, _) = speak(&house, &key, "a", "vanish").await;
    assert!(provider.attached(2).await);
    until(&house, &run, "completed").await;
    assert_eq!(text(&house, &run).await, "before, after");
    let gaps = entries(&house, &run).await;
    assert!(!gaps.iter().any(|r| matches!(r.entry, Entry::Mark(wikala_witness::Mark::LinkGap { .. }))));
}

#[tokio::test]
async fn it_dies_and_the_run_gets_one_verdict() {
    let house = TestHouse::open().await;
    let key = key(5);
    let provider = provider(&house, &key, None).await;
    let (run, _) = speak(&house, &key, "a", "die").await;
    assert!(provider.ended().await.is_ok());
    until_attached(&house, 0).await;
    house.advance(30).await;
    let ended = until(&house, &run, "failed").await;
    assert_eq!(ended.reason.as_deref(), Some("provider_left_holding_it"));
}

#[tokio::test]
async fn it_stops_when_asked_and_declines_beyond_its_room() {
    let house = TestHouse::open().await;
    let key = key(5);
    let _provider = provider(&house, &key, Some(1)).await;
    let (slow, _) = speak(&house, &key, "a", "slow 600").await;
    until(&house, &slow, "running").await;
    let (next, _) = speak(&house, &key, "a", "echo next").await;
    assert_eq!(super::peer::view(&house, &next).await.status.as_str(), "queued");
    stop(&house, &slow).await;
    until(&house, &slow, "cancelled").await;
    until(&house, &next, "completed").await;
}

#[tokio::test]
async fn two_of_one_key_do_not_throw_each_other_out_for_ever() {
    let house = TestHouse::open().await;
    let key = key(5);
    let first = provider(&house, &key, None).await;
    let mut second = Peer::attach(&house, &key, &["a"]).await;
    let failure = first.ended().await.unwrap_err();
    assert!(failure.sentence.contains("replaced"), "{failure}");
    let (run, _) = speak(&house, &key, "a", "x").await;
    assert_eq!(second.take().await["runId"], json!(run.as_str()));
}
