//! What one peer can cost the house, through its doors.

mod streams;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wikala_chain::SigningKey;
use wikala_doors::client::Client;
use wikala_witness::Policy;

use crate::house::{Puppet, TestHouse};
use crate::link::peer::{Peer, key, speak, started, until, until_attached, view};

fn provider() -> SigningKey {
    SigningKey::from_seed([3; 32])
}

async fn rpc(house: &TestHouse, body: String) -> Value {
    let puppet = format!("{}/a2a/{}/a", house.url, provider().public());
    let headers = [("a2a-version", "1.0"), ("content-type", "application/json")];
    let post = axum::http::Method::POST;
    let (_, _, answer) = Client::new().send(post, &puppet, Some(body.into_bytes()), &headers, None).await.unwrap();
    let bytes = http_body_util::BodyExt::collect(answer).await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

/// Searched for each other's names, 200,000 of them would take minutes of a worker.
#[tokio::test]
async fn many_members_cost_what_their_bytes_cost() {
    let house = TestHouse::open().await;
    let _puppet = Puppet::attach(&house, &provider(), "a").await;
    let members: Vec<String> = (0..200_000).map(|n| format!("\"m{n}\":1")).collect();
    let began = Instant::now();
    let params = members.join(",");
    let answer = rpc(&house, format!(r#"{{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{{{params}}}}}"#)).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_pause_asks_so_many_things_and_more_fail_the_run() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    for outcome in ["pendingToolCallIds", "interrupts"] {
        let (run, _) = speak(&house, &key, "a", outcome).await;
        peer.take().await;
        let ids: Vec<Value> = (0..257).map(|n| json!(format!("c{n}"))).collect();
        let outcome = match outcome {
            "interrupts" => {
                let list: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "reason": "x" })).collect();
                json!({ "type": "interrupt", "interrupts": list })
            }
            _ => json!({ "type": "success", "pendingToolCallIds": ids }),
        };
        peer.say(&run, json!({ "type": "RUN_FINISHED", "outcome": outcome }), None).await;
        let refused = peer.next().await;
        assert!(refused["message"].as_str().is_some_and(|why| why.contains("at most 256")), "{refused}");
        until(&house, &run, "failed").await;
        peer.finish(&run).await;
    }
}

/// A key twice inside an event: it is known whose event, so its run is told and fails.
#[tokio::test]
async fn an_event_that_repeats_a_key_fails_its_run() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (run, _) = speak(&house, &key, "a", "hi").await;
    peer.take().await;
    peer.text(&format!(r#"{{"type":"event","runId":"{run}","event":{{"type":"X","a":1,"a":2}}}}"#)).await;
    let told = peer.next().await;
    assert_eq!((&told["type"], &told["runId"]), (&json!("error"), &json!(run.as_str())), "{told}");
    assert!(until(&house, &run, "failed").await.reason.is_some_and(|why| why.contains("twice")));
    // A repeated member of the frame itself names nothing for sure.
    peer.text(&format!(r#"{{"type":"event","runId":"{run}","runId":"{run}","event":{{}}}}"#)).await;
    assert_eq!(peer.next().await.get("runId"), None);
}

/// A provider's library closes a link over a larger frame.
#[tokio::test]
async fn a_history_fits_a_frame_and_leaves_the_oldest_out() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (run, thread) = speak(&house, &key, "a", "hi").await;
    peer.take().await;
    peer.say(&run, started(), None).await;
    for n in 0..3 {
        let delta = format!("{n}{}", "x".repeat(400 * 1024));
        peer.say(&run, json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": format!("m{n}"), "delta": delta }), None)
            .await;
    }
    // Words of the user from a provider are nobody's here, and take nobody's id.
    peer.say(&run, json!({ "type": "TEXT_MESSAGE_START", "messageId": "u", "role": "user" }), None).await;
    peer.say(&run, json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "u", "delta": "I approve" }), None).await;
    peer.say(&run, json!({ "type": "TEXT_MESSAGE_END", "messageId": "u" }), None).await;
    let query = json!({ "type": "query", "queryId": "q", "method": "thread_messages", "params": { "threadId": thread.as_str() } });
    peer.send(query).await;
    let answer = peer.next().await;
    let told: Vec<&str> = answer["result"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(told, ["m1", "m2"]);
    assert!(answer.to_string().len() <= 1024 * 1024);
    let last = house.app.readers.read(move |reader| reader.last_entry(&run, None)).await.expect("read");
    assert_eq!(last, 9, "all of it is on record: two marks and seven events");
}

/// A body of one byte a minute would hold a connection's place for ever.
#[tokio::test]
async fn a_body_that_does_not_come_is_refused() {
    let house = TestHouse::made(Policy::default(), |s| s.body_time = Duration::from_millis(100)).await;
    let mut slow = TcpStream::connect(house.url.trim_start_matches("http://")).await.unwrap();
    let head = "POST /tickets HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let read = tokio::time::timeout(Duration::from_secs(10), slow.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("did not come within"), "{answer}");
}

/// Whoever never greets keeps nobody out but its own address.
#[tokio::test]
async fn strangers_at_the_link_have_places_of_their_own() {
    let house = TestHouse::made(Policy::default(), |settings| settings.behind_proxy = true).await;
    let mut silent = Vec::new();
    for _ in 0..wikala_doors::limits::GREETINGS {
        silent.push(Peer::dial_as(&house, "203.0.113.9").await.expect("a place"));
    }
    assert_eq!(Peer::dial_as(&house, "203.0.113.9").await.err(), Some(429));
    // What stands before the proxy's own word is the client's to invent.
    assert_eq!(Peer::dial_as(&house, "198.51.100.1, 203.0.113.9").await.err(), Some(429));
    let mut other = Peer::dial_as(&house, "203.0.113.10").await.expect("another address");
    other.greet(&house, &key(3), &["a"]).await;
    let mut own = silent.pop().expect("one of them");
    own.greet(&house, &key(4), &["b"]).await;
    // Greeted, it is no stranger any more: its place is free.
    Peer::dial_as(&house, "203.0.113.9").await.expect("a place");
}

/// Twelve sockets of one key at once: one stays, the others are told.
#[tokio::test]
async fn sockets_that_race_to_attach_leave_one() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut closed = 0;
    let peers = futures_util::future::join_all((0..12).map(|_| Peer::attach_only(&house, &key))).await;
    until_attached(&house, 1).await;
    for mut peer in peers {
        closed += usize::from(peer.was_replaced().await);
    }
    assert_eq!(closed, 11);
}

#[tokio::test]
async fn numbers_beyond_the_record_are_its_end() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    for after in ["9999", "18446744073709551615"] {
        let (run, _) = speak(&house, &key, "a", after).await;
        peer.take().await;
        until(&house, &run, "running").await;
        let url = format!("{}/v1/runs/{run}/events?after={after}", house.url);
        let get = axum::http::Method::GET;
        let mut events = Client::new().events(get.clone(), &url, None, &[], None).await.unwrap();
        peer.say(&run, json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" }), None).await;
        peer.finish(&run).await;
        let first = events.next().await.unwrap().expect("what follows is told");
        assert!(first.data.contains("RUN_FINISHED"), "{}", first.data);
        while events.next().await.unwrap().is_some() {}
        // A browser comes back with the last id it saw, in a header.
        let url = format!("{}/v1/runs/{run}/events", house.url);
        let seen = [("last-event-id", "2")];
        let mut again = Client::new().events(get, &url, None, &seen, None).await.unwrap();
        assert_eq!(again.next().await.unwrap().expect("the third").id.as_deref(), Some("3"));
        assert_eq!(view(&house, &run).await.status.as_str(), "completed");
    }
}
