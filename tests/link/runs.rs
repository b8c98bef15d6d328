//! Offers, events, sequence numbers, blips and leases.

use std::time::Duration;

use serde_json::json;
use wikala_witness::{Entry, Mark, Place, Policy};

use super::peer::{Peer, entries, finished, key, said, speak, speak_at, started, stop, until, until_attached, view};
use crate::house::TestHouse;

#[tokio::test]
async fn an_offer_is_flat_and_a_run_ends_as_it_was_said() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (run, thread) = speak(&house, &key, "a", "hi").await;
    let offer = peer.take().await;
    let expect = json!({
        "type": "run", "runId": run.as_str(), "agentName": "a", "threadId": thread.as_str(), "metadata": {},
        "runInput": {
            "threadId": thread.as_str(), "runId": run.as_str(), "parentRunId": null, "state": {},
            "messages": [{ "id": "m-hi", "role": "user", "content": "hi" }], "tools": [], "context": [],
            "forwardedProps": null, "resume": null,
        },
    });
    assert_eq!(offer, expect);
    peer.say(&run, started(), None).await;
    peer.say(&run, json!({ "type": "NEW_IN_2", "x": [1.10] }), None).await;
    peer.say(&run, finished(), None).await;
    peer.finish(&run).await;
    until(&house, &run, "completed").await;
    assert_eq!(said(&house, &run).await, ["RUN_STARTED", "NEW_IN_2", "RUN_FINISHED"]);
    peer.say(&run, started(), None).await;
    let answer = peer.next().await;
    assert_eq!((answer["type"].as_str(), answer["runId"].as_str()), (Some("error"), Some(run.as_str())), "{answer}");
}

/// A line that was cut without a word: nobody closes, nobody answers.
#[tokio::test]
async fn two_lost_pings_lose_the_link_and_its_runs_keep_a_lease() {
    let house = TestHouse::made(Policy::default(), |settings| settings.ping = Duration::from_millis(400)).await;
    let (quick, dead) = (key(3), key(4));
    let mut awake = Peer::attach(&house, &quick, &["a"]).await;
    // Whoever reads its socket answers pings by itself; whoever does not is lost at the third beat.
    let reads = tokio::spawn(async move {
        loop {
            awake.next().await;
        }
    });
    let mut asleep = Peer::attach(&house, &dead, &["b"]).await;
    let (run, _) = speak(&house, &dead, "b", "hi").await;
    asleep.take().await;
    until(&house, &run, "running").await;
    until_attached(&house, 1).await;
    assert_eq!(house.app.desk.ask(|w, _| w.attached()).await.expect("links"), [quick.public()]);
    assert_eq!(view(&house, &run).await.status.as_str(), "running", "a blip is not a death");
    house.advance(30).await;
    assert_eq!(until(&house, &run, "failed").await.reason.as_deref(), Some("provider_left_holding_it"));
    assert!(!reads.is_finished());
    drop(asleep);
}

#[tokio::test]
async fn verdicts_decline_refuse_and_come_too_late() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach_with(&house, &key, &["a"], json!(8)).await;
    let ack = |run: &wikala_witness::RunId, accepted, reason: serde_json::Value| json!({ "type": "ack", "runId": run.as_str(), "accepted": accepted, "reason": reason });
    let (declined, _) = speak(&house, &key, "a", "one").await;
    peer.next().await;
    peer.send(ack(&declined, false, json!(null))).await;
    until(&house, &declined, "queued").await;
    house.advance(45).await;
    assert_eq!(peer.next().await["runId"], declined.as_str(), "offered again");
    peer.send(ack(&declined, false, json!("not my trade"))).await;
    let ended = until(&house, &declined, "failed").await;
    assert_eq!(ended.reason.as_deref(), Some("not my trade"));

    let (silent, _) = speak(&house, &key, "a", "two").await;
    peer.next().await;
    house.advance(5).await;
    until(&house, &silent, "queued").await;
    // Too late: it matches nothing.
    peer.send(ack(&silent, true, json!(null))).await;
    peer.silent().await;
    assert_eq!(view(&house, &silent).await.status.as_str(), "queued");
    // Nobody else's, and nothing at all: told alike.
    let stranger = super::peer::key(4);
    let mut other = Peer::attach(&house, &stranger, &["b"]).await;
    other.say(&silent, started(), None).await;
    let foreign = other.next().await["message"].to_string();
    let unknown = wikala_witness::RunId::parse(&format!("run_{}", "0".repeat(24))).unwrap();
    other.say(&unknown, started(), None).await;
    let nothing = other.next().await["message"].to_string();
    assert_eq!(foreign.replace(silent.as_str(), "R"), nothing.replace(unknown.as_str(), "R"));
}

#[tokio::test]
async fn three_silences_withdraw_a_provider_until_it_registers_again() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    for text in ["one", "two", "three"] {
        speak(&house, &key, "a", text).await;
        peer.next().await;
    }
    house.advance(5).await;
    let (code, reason) = peer.closed().await;
    assert!(code == 1008 && reason.starts_with("withdrawn"), "{code} {reason}");
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    peer.take().await;
}

#[tokio::test]
async fn numbers_drop_duplicates_and_tell_gaps() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (run, _) = speak(&house, &key, "a", "hi").await;
    peer.take().await;
    peer.say(&run, started(), Some(1)).await;
    peer.say(&run, json!({ "type": "A" }), Some(2)).await;
    peer.say(&run, json!({ "type": "A" }), Some(2)).await;
    peer.say(&run, started(), Some(1)).await;
    peer.say(&run, json!({ "type": "B" }), Some(5)).await;
    let question = json!({ "type": "interrupt", "interrupts": [{ "id": "q", "reason": "input_required" }] });
    peer.say(&run, json!({ "type": "RUN_FINISHED", "outcome": question }), Some(6)).await;
    // A beginning that was sent before continues no pause.
    peer.say(&run, started(), Some(1)).await;
    peer.finish(&run).await;
    until(&house, &run, "input-required").await;
    peer.silent().await;
    assert_eq!(said(&house, &run).await, ["RUN_STARTED", "A", "gap 3 5", "B", "RUN_FINISHED"]);
    assert_eq!(view(&house, &run).await.status.as_str(), "input-required");
    peer.say(&run, started(), Some(0)).await;
    assert!(peer.next().await["message"].as_str().unwrap().contains("numbers begin with 1"));
}

#[tokio::test]
async fn a_malformed_event_is_told_and_fails_its_run_with_a_terminal_entry() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    for event in [
        json!({ "type": 7 }),
        json!({ "no": "type" }),
        json!([]),
        json!({ "type": "CUSTOM", "name": "wikala.approved", "value": 1 }),
        json!({ "type": "RUN_FINISHED", "outcome": { "type": "interrupt", "interrupts": [] } }),
    ] {
        let (run, _) = speak(&house, &key, "a", "hi").await;
        peer.take().await;
        peer.say(&run, started(), Some(1)).await;
        peer.say(&run, event.clone(), Some(2)).await;
        let answer = peer.next().await;
        assert_eq!((answer["type"].as_str(), answer["runId"].as_str()), (Some("error"), Some(run.as_str())));
        let ended = until(&house, &run, "failed").await;
        let reason = ended.reason.unwrap();
        assert!(reason.starts_with("provider_event_malformed: "), "{event}: {reason}");
        let last = entries(&house, &run).await.pop().unwrap();
        assert!(matches!(last.entry, Entry::Mark(Mark::Ended { in_words: false, .. })), "{last:?}");
        peer.finish(&run).await;
    }
    let (run, _) = speak(&house, &key, "a", "hi").await;
    peer.take().await;
    peer.say(&run, json!({ "type": "RUN_STARTED", "metadata": { "wikala": { "runId": "run_other" }, "k": 1 } }), None)
        .await;
    peer.say(&run, finished(), None).await;
    until(&house, &run, "completed").await;
    let words = entries(&house, &run).await.into_iter().find_map(|recorded| match recorded.entry {
        Entry::Words(words) => Some(words.text),
        Entry::Mark(_) => None,
    });
    let words: serde_json::Value = serde_json::from_str(&words.unwrap()).unwrap();
    assert_eq!(words, json!({ "type": "RUN_STARTED", "metadata": { "k": 1 } }));
}

#[tokio::test]
async fn a_blip_is_not_a_death() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (named, _) = speak(&house, &key, "a", "one").await;
    peer.take().await;
    let (spoken, _) = speak(&house, &key, "a", "two").await;
    peer.take().await;
    let (lost, _) = speak(&house, &key, "a", "three").await;
    peer.take().await;
    peer.say(&named, started(), Some(1)).await;
    peer.say(&spoken, started(), Some(1)).await;
    until(&house, &lost, "running").await;
    peer.silent().await;
    drop(peer);
    until_attached(&house, 0).await;
    house.advance(20).await;

    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let foreign = format!("run_{}", "0".repeat(24));
    let runs = json!([{ "runId": named.as_str(), "lastSeq": 3 }, { "runId": foreign, "lastSeq": 1 }]);
    peer.send(json!({ "type": "holding", "runs": runs })).await;
    assert_eq!(peer.next().await, json!({ "type": "resume", "runId": named.as_str(), "after": 1 }));
    peer.say(&named, started(), Some(1)).await;
    peer.say(&named, finished(), Some(2)).await;
    // The first event that names a run ends its lease too.
    peer.say(&spoken, json!({ "type": "A" }), Some(2)).await;
    peer.silent().await;
    house.advance(11).await;
    let failed = until(&house, &lost, "failed").await;
    assert_eq!(failed.reason.as_deref(), Some("provider_left_holding_it"));
    assert_eq!(said(&house, &named).await, ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!(view(&house, &named).await.status.as_str(), "completed");
    assert_eq!(view(&house, &spoken).await.status.as_str(), "running");
}

#[tokio::test]
async fn a_cancel_is_sent_again_on_the_next_link_and_ends_a_lost_run_as_cancelled() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (held, _) = speak(&house, &key, "a", "one").await;
    peer.take().await;
    let (lost, _) = speak(&house, &key, "a", "two").await;
    peer.take().await;
    until(&house, &lost, "running").await;
    stop(&house, &held).await;
    assert_eq!(peer.next().await, json!({ "type": "cancel", "runId": held.as_str() }));
    drop(peer);
    until_attached(&house, 0).await;
    stop(&house, &lost).await;
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    peer.send(json!({ "type": "holding", "runs": [{ "runId": held.as_str(), "lastSeq": 0 }] })).await;
    let (one, two) = (peer.next().await, peer.next().await);
    for expect in [
        json!({ "type": "resume", "runId": held.as_str(), "after": 0 }),
        json!({ "type": "cancel", "runId": held.as_str() }),
    ] {
        assert!(one == expect || two == expect, "{one} {two}");
    }
    peer.finish(&held).await;
    until(&house, &held, "cancelled").await;
    house.advance(30).await;
    until(&house, &lost, "cancelled").await;
}

#[tokio::test]
async fn histories_are_told_to_the_provider_of_the_thread_alone() {
    let house = TestHouse::open().await;
    let (key, other) = (key(3), super::peer::key(4));
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let mut stranger = Peer::attach(&house, &other, &["a"]).await;
    let (run, thread) = speak(&house, &key, "a", "hi").await;
    peer.take().await;
    peer.say(&run, started(), None).await;
    peer.say(&run, json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "r1", "delta": "hello" }), None).await;
    peer.say(&run, finished(), None).await;
    peer.finish(&run).await;
    until(&house, &run, "completed").await;
    let body = json!({ "messages": [{ "id": "m-hi", "role": "user", "content": "hi" }, { "id": "m2", "role": "user", "content": "again" }] });
    speak_at(&house, &key, "a", Place::Thread(thread.clone()), body).await;
    peer.take().await;
    let query = |limit| json!({ "type": "query", "queryId": "q1", "method": "thread_messages", "params": { "threadId": thread.as_str(), "limit": limit } });
    peer.send(query(200)).await;
    let all = json!([
        { "id": "m-hi", "role": "user", "content": "hi" },
        { "id": "r1", "role": "assistant", "content": "hello" },
        { "id": "m2", "role": "user", "content": "again" },
    ]);
    assert_eq!(peer.next().await, json!({ "type": "queryResult", "queryId": "q1", "result": all }));
    peer.send(query(1)).await;
    assert_eq!(peer.next().await["result"], json!([all[2]]));
    stranger.send(query(200)).await;
    let answer = stranger.next().await;
    assert!(answer["result"].is_null() && answer["error"].as_str().unwrap().contains("no thread of yours"), "{answer}");
}

#[tokio::test]
async fn large_words_cost_the_provider_nothing() {
    let house = TestHouse::with(Policy::default()).await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (run, _) = speak(&house, &key, "a", &"x".repeat(1024 * 1024)).await;
    let ended = until(&house, &run, "failed").await;
    assert!(ended.reason.unwrap().contains("a link carries"));
    let (run, _) = speak(&house, &key, "a", "small").await;
    assert_eq!(peer.take().await["runId"], run.as_str());
}

#[tokio::test]
async fn last_words_before_a_goodbye_are_on_record() {
    let house = TestHouse::open().await;
    let key = key(3);
    for round in 0..20 {
        let mut peer = Peer::attach(&house, &key, &["a"]).await;
        let (run, _) = speak(&house, &key, "a", &format!("hi {round}")).await;
        peer.take().await;
        peer.say(&run, started(), Some(1)).await;
        for seq in 2..40 {
            peer.say(&run, json!({ "type": "A" }), Some(seq)).await;
        }
        peer.say(&run, finished(), Some(40)).await;
        peer.finish(&run).await;
        drop(peer);
        until_attached(&house, 0).await;
        assert_eq!(view(&house, &run).await.status.as_str(), "completed", "{round}");
    }
}
