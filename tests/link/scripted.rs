//! The scripted provider in process, over its real link.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use wikala_chain::{AgentName, Digest, SigningKey, payload};
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
        extensions: Vec::new(),
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

/// A witness by hand: its first link greets, hears the roster and does what it is told;
/// the counter says how often it was asked for a ticket.
async fn by_hand(after: Message) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let tickets = Arc::new(AtomicUsize::new(0));
    let counter = tickets.clone();
    tokio::spawn(async move {
        let witness = key(9);
        let ticket = "07".repeat(16);
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 8];
            stream.peek(&mut head).await.unwrap();
            if head.starts_with(b"POST") {
                counter.fetch_add(1, Ordering::SeqCst);
                let body = json!({ "ticket": ticket, "funduqPublicKey": witness.public().to_hex() }).to_string();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.read(&mut [0; 4096]).await;
                stream.write_all(answer.as_bytes()).await.unwrap();
                continue;
            }
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            let hello = socket.next().await.unwrap().unwrap().into_text().unwrap();
            let hello: Value = serde_json::from_str(&hello).unwrap();
            let said = payload::connect_witness(&ticket, hello["nonce"].as_str().unwrap());
            let answer = witness.sign(said.as_bytes()).to_hex();
            let welcome = json!({ "type": "welcome", "funduqPublicKey": witness.public().to_hex(), "answer": answer });
            socket.send(Message::text(welcome.to_string())).await.unwrap();
            // The roster.
            socket.next().await.unwrap().unwrap();
            let _ = socket.send(after.clone()).await;
            tokio::spawn(async move { while let Some(Ok(_)) = socket.next().await {} });
        }
    });
    (url, tickets)
}

fn close(code: u16, reason: &str) -> Message {
    Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
}

fn provider_at(url: &str) -> JoinHandle<Result<(), Failure>> {
    let (url, key) = (url.to_owned(), Arc::new(key(5)));
    tokio::spawn(async move { provider::serve(&url, key, vec![AgentName::new("a").unwrap()], None).await })
}

#[tokio::test]
async fn what_would_be_the_same_the_next_time_ends_it() {
    let error = json!({ "type": "error", "message": "register: a is listed twice" }).to_string();
    for (after, sentence) in [
        (Message::text(error), "register: a is listed twice"),
        (close(1008, "replaced: the same key attached again"), "stop one of the two"),
        (close(1008, "not-admitted: this key was removed from the admission list"), "not-admitted"),
        (close(1008, "hello: another version of the link, this witness speaks 5"), "another version"),
    ] {
        let (url, tickets) = by_hand(after).await;
        let ended = tokio::time::timeout(Duration::from_secs(20), provider_at(&url)).await.expect(sentence).unwrap();
        let failure = ended.expect_err(sentence);
        assert!(failure.code == 1 && failure.sentence.contains(sentence), "{failure:?}");
        assert_eq!(tickets.load(Ordering::SeqCst), 1, "{sentence}");
    }
}

#[tokio::test]
async fn what_heals_is_tried_again() {
    for after in [
        close(1008, "house: closing, attach again in a moment"),
        close(1008, "hello: ticket was used before, POST /tickets for a new one"),
        close(1008, "link: reads too slowly"),
        close(1012, "replaced by a restart"),
        Message::text(json!({ "type": "error", "message": "record: database is locked" }).to_string()),
    ] {
        let (url, tickets) = by_hand(after.clone()).await;
        let task = provider_at(&url);
        for _ in 0..1000 {
            if tickets.load(Ordering::SeqCst) > 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(tickets.load(Ordering::SeqCst) > 1 && !task.is_finished(), "{after}");
        task.abort();
    }
}

/// Two processes on one key would take it from each other for ever.
#[tokio::test]
async fn the_one_that_is_replaced_gives_way() {
    let house = TestHouse::open().await;
    let key = key(5);
    let first = attached(&house, &key, None).await;
    let second = attached(&house, &key, None).await;
    let failure = tokio::time::timeout(Duration::from_secs(20), first).await.expect("it ends").unwrap().unwrap_err();
    assert!(failure.code == 1 && failure.sentence.contains("replaced"), "{failure:?}");
    assert!(!second.is_finished());
    let (run, _) = speak(&house, &key, "a", "echo still here").await;
    until(&house, &run, "completed").await;
}
