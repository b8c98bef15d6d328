//! Tickets, proofs, rosters, and everything a socket can do wrong.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wikala_doors::client::Client;
use wikala_doors::house::Admission;
use wikala_doors::link;
use wikala_witness::Policy;

use super::peer::{Peer, hello, key, register, speak, ticket, until_attached};
use crate::house::TestHouse;

async fn refused(house: &TestHouse, hello: Value) -> String {
    let mut peer = Peer::dial(house).await;
    peer.send(hello).await;
    let (code, reason) = peer.closed().await;
    assert_eq!(code, 1008, "{reason}");
    reason
}

#[tokio::test]
async fn a_ticket_is_burned_by_its_own_keys_valid_proof_alone() {
    let house = TestHouse::open().await;
    let (honest, thief) = (key(3), key(4));
    let paper = ticket(&house, &honest).await;

    let mut wrong = hello(&house, &honest, &paper);
    wrong["proof"] = honest.sign(b"something else").to_hex().into();
    assert!(refused(&house, wrong).await.contains("proof does not hold"));
    // Somebody else's valid proof over this very ticket.
    assert!(refused(&house, hello(&house, &thief, &paper)).await.contains("not valid for this key"));

    let mut peer = Peer::dial(&house).await;
    peer.send(hello(&house, &honest, &paper)).await;
    assert_eq!(peer.next().await["type"], "welcome");
    assert!(refused(&house, hello(&house, &honest, &paper)).await.contains("used before"));

    for (age, welcome) in [(60, true), (61, false)] {
        let paper = ticket(&house, &thief).await;
        house.advance(age).await;
        let mut peer = Peer::dial(&house).await;
        peer.send(hello(&house, &thief, &paper)).await;
        if welcome {
            assert_eq!(peer.next().await["type"], "welcome");
        } else {
            assert!(peer.closed().await.1.contains("not valid for this key now"));
        }
    }
    // A proof for another witness is none here.
    let paper = ticket(&house, &honest).await;
    let said = wikala_chain::payload::connect_provider(&thief.public(), &paper, super::peer::NONCE);
    let mut elsewhere = hello(&house, &honest, &paper);
    elsewhere["proof"] = honest.sign(said.as_bytes()).to_hex().into();
    assert!(refused(&house, elsewhere).await.contains("proof does not hold"));
}

#[tokio::test]
async fn a_hello_is_exactly_what_it_must_be() {
    let house = TestHouse::open().await;
    let key = key(3);
    let good = hello(&house, &key, &ticket(&house, &key).await);
    for (name, value, reason) in [
        ("version", json!(3), "another version"),
        ("version", json!("4"), "hello:"),
        ("publicKey", json!("00"), "publicKey"),
        ("publicKey", json!("01".to_owned() + &"00".repeat(31)), "publicKey"),
        ("ticket", json!("x"), "ticket is not valid"),
        ("nonce", json!("C9".repeat(16)), "nonce"),
        ("proof", json!("zz"), "proof"),
        ("maxConcurrentRuns", json!(0), "maxConcurrentRuns"),
        ("maxConcurrentRuns", json!(1.5), "maxConcurrentRuns"),
        ("extra", json!(1), "no member of this frame"),
    ] {
        let mut edited = good.clone();
        edited[name] = value;
        let said = refused(&house, edited).await;
        assert!(said.contains(reason), "{name}: {said}");
    }
    for first in [register(&["a"]), json!({ "type": "finish" }), json!([]), json!(null)] {
        refused(&house, first).await;
    }
    for text in ["", "{", "{\"type\":\"hello\",\"type\":\"hello\"}", "\u{feff}{}"] {
        let mut peer = Peer::dial(&house).await;
        peer.text(text).await;
        assert_eq!(peer.closed().await.0, 1008, "{text}");
    }
    let mut silent = Peer::dial(&house).await;
    assert_eq!(silent.closed().await, (1008, "hello: did not come within 5 s".to_owned()));
    // Nothing of this burned the ticket.
    let mut peer = Peer::dial(&house).await;
    peer.send(good).await;
    assert_eq!(peer.next().await["type"], "welcome");
}

#[tokio::test]
async fn a_bad_frame_is_told_and_a_wrong_kind_of_frame_closes() {
    let house = TestHouse::open().await;
    let mut peer = Peer::attach(&house, &key(3), &["a"]).await;
    for text in [
        "{".to_owned(),
        "[]".to_owned(),
        json!({ "type": "event" }).to_string(),
        json!({ "type": "event", "runId": "run_1", "event": {} }).to_string(),
        json!({ "type": "ack", "runId": "x", "accepted": "yes" }).to_string(),
        json!({ "type": "holding", "runs": [{ "runId": 1 }] }).to_string(),
        json!({ "type": "query", "method": "thread_messages", "params": {} }).to_string(),
        "{\"a\":".repeat(2000),
    ] {
        peer.text(&text).await;
        assert_eq!(peer.next().await["type"], "error", "{text:.60}");
    }
    peer.binary(vec![0; 3]).await;
    assert_eq!(peer.next().await["type"], "error");
    // Whoever asked waits for its id: a faulty question is answered, not only refused.
    peer.send(json!({ "type": "query", "queryId": 1, "method": "other", "params": { "threadId": "x" } })).await;
    let answer = peer.next().await;
    assert_eq!((&answer["type"], &answer["queryId"]), (&json!("queryResult"), &json!(1)), "{answer}");
    assert!(answer["error"].as_str().is_some_and(|why| why.contains("thread_messages")), "{answer}");
    peer.silent().await;
    peer.text(&" ".repeat(1024 * 1024 + 1)).await;
    until_attached(&house, 0).await;
}

#[tokio::test]
async fn a_roster_is_replaced_whole_and_a_name_without_history_is_freed() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a", "b"]).await;
    let online = || async {
        let (_, roster) = Client::new().get_json(&format!("{}/agents", house.url)).await.unwrap();
        let agents = roster["agents"].as_array().unwrap().clone();
        agents.iter().filter(|agent| agent["online"] == true).map(|agent| agent["name"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(online().await, ["\"a\"", "\"b\""]);
    for (bad, reason) in [
        (json!({ "type": "register", "agents": [] }), "no agents"),
        (register(&["c", "c"]), "twice"),
        (register(&["with space"]), "name"),
        (json!({ "type": "register", "agents": [{ "name": "c", "colour": 1 }] }), "no member"),
        (json!({ "type": "register", "agents": [{ "name": "c", "metadata": 1 }] }), "register"),
        (json!({ "type": "register", "agents": [{ "name": "c" }], "x": 1 }), "no member"),
    ] {
        peer.send(bad.clone()).await;
        let answer = peer.next().await;
        assert!(answer["message"].as_str().unwrap().contains(reason), "{bad}: {answer}");
    }
    assert_eq!(online().await, ["\"a\"", "\"b\""]);
    let full =
        json!({ "name": "b", "description": null, "agentCardExtra": {}, "metadata": null, "takesInterjections": true });
    peer.send(json!({ "type": "register", "agents": [full], "providerName": "me" })).await;
    assert_eq!(peer.next().await, json!({ "type": "registered", "names": ["b"] }));
    house.advance(31).await;
    assert_eq!(online().await, ["\"b\""]);

    speak(&house, &key, "b", "hi").await;
    assert_eq!(peer.take().await["agentName"], "b");
    peer.send(json!({ "type": "deleteAgent", "name": "b" })).await;
    let answer = peer.next().await;
    assert_eq!((answer["type"].as_str(), answer["name"].as_str()), (Some("error"), Some("b")), "{answer}");
    peer.send(json!({ "type": "deleteAgent", "name": "a" })).await;
    assert_eq!(peer.next().await, json!({ "type": "deleted", "name": "a" }));
    peer.send(json!({ "type": "deleteAgent", "name": "a" })).await;
    assert_eq!(peer.next().await["type"], "error");
}

#[tokio::test]
async fn a_newer_link_replaces_and_the_old_ones_clean_up_changes_nothing() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut old = Peer::attach(&house, &key, &["a"]).await;
    let mut new = Peer::attach(&house, &key, &["a"]).await;
    assert_eq!(old.closed().await, (1008, "replaced: the same key attached again".to_owned()));
    drop(old);
    until_attached(&house, 1).await;
    let (run, _) = speak(&house, &key, "a", "hi").await;
    assert_eq!(new.take().await["runId"], run.as_str());
}

#[tokio::test]
async fn admission_is_the_ticket_and_removal_closes_the_link() {
    let (member, stranger) = (key(3), key(4));
    let listed = |keys: &[&wikala_chain::SigningKey]| keys.iter().map(|key| key.public()).collect::<HashSet<_>>();
    let list = Arc::new(Mutex::new(listed(&[&member])));
    let house = TestHouse::admitting(Policy::default(), Admission::Listed(list)).await;
    let body = json!({ "publicKey": stranger.public().to_hex() });
    let (status, answer) = Client::new().post_json(&format!("{}/tickets", house.url), &body, &[]).await.unwrap();
    assert_eq!((status.as_u16(), answer["error"]["code"].as_str()), (403, Some("not-admitted")));

    let mut peer = Peer::attach(&house, &member, &["a"]).await;
    let spare = ticket(&house, &member).await;
    link::readmit(&house.app, listed(&[&stranger])).await;
    let (code, reason) = peer.closed().await;
    assert!(code == 1008 && reason.starts_with("not-admitted"), "{code} {reason}");
    // A ticket from before the removal opens nothing.
    assert!(refused(&house, hello(&house, &member, &spare)).await.contains("not on the admission list"));
    Peer::attach(&house, &stranger, &["a"]).await;
}

#[tokio::test]
async fn tickets_are_asked_for_properly_and_not_too_often() {
    let house = TestHouse::open().await;
    let url = format!("{}/tickets", house.url);
    let key = key(3).public().to_hex();
    for body in [json!({}), json!({ "publicKey": 1 }), json!({ "publicKey": "x" })] {
        let (status, answer) = Client::new().post_json(&url, &body, &[]).await.unwrap();
        assert_eq!((status.as_u16(), answer["error"]["code"].as_str()), (400, Some("body-malformed")), "{body}");
    }
    let body = json!({ "publicKey": key });
    let mut last = (200, Value::Null);
    for _ in 0..=120 {
        let (status, answer) = Client::new().post_json(&url, &body, &[]).await.unwrap();
        last = (status.as_u16(), answer);
        if last.0 != 200 {
            break;
        }
    }
    assert_eq!((last.0, last.1["error"]["code"].as_str()), (429, Some("rate-limited")));
    let (status, _) = Client::new().get_json(&format!("{}/ws/provider", house.url)).await.unwrap();
    assert_eq!(status, 400);
}
