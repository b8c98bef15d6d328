//! Readers that take nothing, and a house that closes.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wikala_doors::client::Client;
use wikala_witness::Policy;

use crate::house::TestHouse;
use crate::link::peer::{Peer, key, speak, started, until};

/// It may read as slowly as it likes, until it reads nothing: then its place is free.
#[tokio::test]
async fn a_reader_that_takes_nothing_is_let_go() {
    let house = TestHouse::made(Policy::default(), |s| s.write_time = Duration::from_millis(200)).await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (run, _) = speak(&house, &key, "a", "hi").await;
    peer.take().await;
    for _ in 0..24 {
        peer.say(&run, json!({ "type": "X", "x": "x".repeat(900 * 1024) }), None).await;
    }
    let mut deaf = TcpStream::connect(house.url.trim_start_matches("http://")).await.unwrap();
    let head = format!("GET /v1/runs/{run}/events HTTP/1.1\r\nhost: x\r\n\r\n");
    deaf.write_all(head.as_bytes()).await.unwrap();
    // Its stream holds a place, until it is dropped.
    let all_free = || {
        let take = |_| house.app.limits.streams.take([127, 0, 0, 1].into());
        (0..wikala_doors::limits::STREAMS).map(take).collect::<Vec<_>>().iter().all(Result::is_ok)
    };
    for free in [false, true] {
        for round in 0.. {
            if all_free() == free {
                break;
            }
            assert!(round < 1000, "never {free}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let mut rest = Vec::new();
    let _ = deaf.read_to_end(&mut rest).await;
    assert!(rest.len() < 24 * 900 * 1024, "{} bytes of it", rest.len());
}

#[tokio::test]
async fn a_closing_house_says_so_to_who_follows_a_record() {
    let house = TestHouse::open().await;
    let key = key(3);
    let mut peer = Peer::attach(&house, &key, &["a"]).await;
    let (run, _) = speak(&house, &key, "a", "hi").await;
    peer.take().await;
    peer.say(&run, started(), None).await;
    until(&house, &run, "running").await;
    let url = format!("{}/v1/runs/{run}/events", house.url);
    let mut events = Client::new().events(axum::http::Method::GET, &url, None, &[], None).await.unwrap();
    while !events.next().await.unwrap().expect("words").data.contains("RUN_STARTED") {}
    house.close();
    let last = events.next().await.unwrap().expect("a word");
    assert_eq!((last.kind.as_deref(), last.data.as_str()), (Some("wikala"), r#"{"mark":"house-closing"}"#));
    assert!(events.next().await.unwrap().is_none());
}
