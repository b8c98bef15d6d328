//! What a caller is told, and that it is the record.

use std::time::Duration;

use axum::http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use wikala_doors::limits::STREAMS;
use wikala_witness::{Policy, Status, Verdict};

use super::{FINISHED, STARTED, Scene, UUID, asking, body, head, kind, kinds, parsed};
use crate::house::TestHouse;

#[tokio::test]
async fn everything_but_ids_and_our_note_is_relayed_byte_for_byte() {
    let mut scene = Scene::open().await;
    let said = [
        r#"{ "type":"RUN_STARTED", "runId":"x","threadId":"y", "n":1.10, "metadata":{"theirs":12345678901234567890123}}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"a"}"#,
        r#"{ "type" : "TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\u00e9\r\n","threadId":"y" }"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"a"}"#,
        r#"{"type":"SOMETHING_NEW","big":12345678901234567890123,"f":1.10,"e":{}}"#,
        r#"{"type":"CUSTOM","name":"x","value":null}"#,
        r#"{"type":"RUN\u005fFINISHED","outcome":{"type":"success"},"usage":[{"x":1.0}]}"#,
    ];
    let got = scene.post(&body("mine", "mine-1", scene.bag(&head()))).await;
    assert_eq!(got.headers["content-type"], "text/event-stream");
    assert_eq!(got.headers["x-accel-buffering"], "no");
    let (run, thread) = (got.run(), got.thread());
    let delivery = scene.play(&said).await;
    assert_eq!((delivery.run.as_str(), delivery.thread.as_str()), (run.as_str(), thread.as_str()));
    let told = got.data().await;
    assert_eq!(told.len(), said.len());
    assert_eq!(told[1..6], said[1..6]);
    let view = scene.view(&delivery.run).await;
    let note = json!({
        "runId": run, "threadId": thread, "asks": [],
        "authorities": [head().public().to_hex(), scene.puppet.agent.provider.to_hex()],
        "dispatch": parsed(view.chain.as_deref().unwrap()).as_array().unwrap().last().unwrap(),
    });
    assert_eq!(
        told[0],
        format!(
            r#"{{ "type":"RUN_STARTED", "runId":"mine-1","threadId":"mine", "n":1.10, "metadata":{{"theirs":12345678901234567890123,"wikala":{note}}}}}"#
        )
    );
    assert_eq!(
        told[6],
        format!(
            r#"{{"type":"RUN\u005fFINISHED","outcome":{{"type":"success"}},"usage":[{{"x":1.0}}],"threadId":"mine","runId":"mine-1","metadata":{{"wikala":{note}}}}}"#
        )
    );
}

#[tokio::test]
async fn line_ends_inside_an_event_never_break_the_framing() {
    let mut scene = Scene::open().await;
    let pretty = "{\r\n \"type\": \"CUSTOM\",\r \"name\": \"x\",\n \"value\": 1\n}";
    let got = scene.post(&body(UUID, "r", Value::Null)).await;
    scene.play(&[STARTED, pretty, FINISHED]).await;
    let events = got.events().await;
    assert_eq!(events[1], parsed(pretty));
}

#[tokio::test]
async fn the_same_run_and_body_joins_and_is_told_the_same() {
    let mut scene = Scene::open().await;
    let first = scene.post(&body("t", "r", scene.bag(&head()))).await;
    let delivery = scene.puppet.take().await;
    scene.say(&delivery.run, STARTED).await;
    // Live, with a presenter proof of its own.
    let live = scene.post(&body("t", "r", scene.bag(&head()))).await;
    assert_eq!(live.run(), first.run());
    scene.say(&delivery.run, FINISHED).await;
    scene.puppet.finish(&delivery.run).await;
    let first = first.text().await;
    assert_eq!(live.text().await, first);
    let replay = scene.post(&body("t", "r", scene.bag(&head()))).await;
    assert_eq!(replay.text().await, first);
    let mut other = body("t", "r", scene.bag(&head()));
    other["messages"][0]["content"] = "another".into();
    assert_eq!(scene.post(&other).await.refused().await, (409, "run-id-reused".into()));
}

#[tokio::test]
async fn a_join_tells_the_pause_as_it_was_and_once_it_is_answered_what_followed() {
    let mut scene = Scene::open().await;
    let first = scene.post(&body(UUID, "r", Value::Null)).await;
    let delivery = scene.play(&[STARTED, &asking(&["q"])]).await;
    let first = first.data().await;
    assert_eq!(parsed(&first[1])["metadata"]["wikala"]["asks"], json!(["q"]));
    assert_eq!(scene.post(&body(UUID, "r", Value::Null)).await.data().await, first);
    let resume = super::with(body(UUID, "r2", Value::Null), json!({ "resume": [super::entry("q", "yes")] }));
    let second = scene.post(&resume).await;
    scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(second.events().await[0]["runId"], "r2");
    // The pause is over: who joins now is told the leg that followed.
    let now = scene.post(&body(UUID, "r", Value::Null)).await.events().await;
    assert_eq!(kinds(&now), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!((&now[1]["runId"], now[1].get("outcome")), (&json!("r"), None));
    assert_eq!(scene.view(&delivery.run).await.status, Status::Completed);
}

#[tokio::test]
async fn an_offline_agents_run_fails_on_record_and_in_the_stream() {
    let scene = Scene::open().await;
    let link = scene.puppet.link;
    scene.house.app.desk.ask(move |w, now| w.detach(now, link)).await.unwrap();
    scene.house.advance(31).await;
    let got = scene.post(&body(UUID, "r", Value::Null)).await;
    let run = wikala_witness::RunId::parse(&got.run()).unwrap();
    assert_eq!(
        got.events().await,
        [json!({ "type": "RUN_ERROR", "message": "agent_offline", "code": "wikala.agent-offline" })]
    );
    assert_eq!(scene.view(&run).await.reason.as_deref(), Some("agent_offline"));
}

#[tokio::test]
async fn a_stream_without_an_end_is_a_failure_and_a_refusal_speaks_in_no_code_of_ours() {
    let mut scene = Scene::open().await;
    let got = scene.post(&body(UUID, "r", Value::Null)).await;
    scene.play(&[STARTED]).await;
    let last = got.events().await.pop().unwrap();
    assert_eq!(last["code"], "wikala.provider-stream-ended-without-finishing");

    let got = scene.post(&body(UUID, "r2", Value::Null)).await;
    let run = wikala_witness::RunId::parse(&got.run()).unwrap();
    let link = scene.puppet.link;
    let refused = Verdict::Refused("cancelled".into());
    while !scene
        .house
        .app
        .desk
        .ask({
            let (run, refused) = (run.clone(), refused.clone());
            move |w, now| w.verdict(now, link, &run, refused)
        })
        .await
        .unwrap()
    {}
    assert_eq!(got.events().await, [json!({ "type": "RUN_ERROR", "message": "cancelled", "code": "wikala.failed" })]);
}

#[tokio::test]
async fn a_providers_own_error_is_not_doubled() {
    let mut scene = Scene::open().await;
    let got = scene.post(&body(UUID, "r", Value::Null)).await;
    let error = r#"{"type":"RUN_ERROR","message":"no","code":"theirs"}"#;
    scene.play(&[STARTED, error]).await;
    let told = got.data().await;
    assert_eq!(told[1..], [error]);
}

/// Older clients reject the outcome, and every client one over an open message.
#[tokio::test]
async fn a_cancelled_run_ends_as_its_caller_can_read_it() {
    let open = r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#;
    let end = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    for (version, said, expect) in [
        (json!("1.0"), vec![STARTED], "RUN_FINISHED"),
        (json!("1.4"), vec![STARTED, open, end], "RUN_FINISHED"),
        (json!("1.0"), vec![STARTED, open], "RUN_ERROR"),
        (json!("0.9"), vec![STARTED], "RUN_ERROR"),
        (Value::Null, vec![STARTED], "RUN_ERROR"),
    ] {
        let mut scene = Scene::open().await;
        let mut input = body(UUID, "r", Value::Null);
        input["protocolVersion"] = version.clone();
        let got = scene.post(&input).await;
        let delivery = scene.puppet.take().await;
        for event in &said {
            scene.say(&delivery.run, event).await;
        }
        stop(&scene, &got.run()).await;
        scene.puppet.asked_to_stop().await;
        scene.puppet.finish(&delivery.run).await;
        let events = got.events().await;
        assert_eq!(events.len(), said.len() + 1);
        let last = events.last().unwrap();
        assert_eq!(kind(last), expect, "{version} {said:?}");
        if expect == "RUN_FINISHED" {
            assert_eq!(last["outcome"], json!({ "type": "cancelled" }));
            assert_eq!((&last["threadId"], &last["runId"]), (&json!(UUID), &json!("r")));
        } else {
            assert_eq!(last["code"], "wikala.cancelled");
        }
    }
}

#[tokio::test]
async fn a_run_stopped_before_it_began_still_begins_with_run_started() {
    let mut scene = Scene::open().await;
    let first = scene.post(&body(UUID, "r1", Value::Null)).await;
    let delivery = scene.puppet.take().await;
    let queued = scene.post(&body(UUID, "r2", Value::Null)).await;
    stop(&scene, &queued.run()).await;
    let events = queued.events().await;
    assert_eq!(kinds(&events), ["RUN_STARTED", "RUN_FINISHED"]);
    assert!(events.iter().all(|event| event["runId"] == "r2" && event["metadata"]["wikala"]["asks"] == json!([])));
    scene.say(&delivery.run, STARTED).await;
    scene.say(&delivery.run, FINISHED).await;
    scene.puppet.finish(&delivery.run).await;
    assert_eq!(first.events().await.len(), 2);
}

async fn stop(scene: &Scene, run: &str) {
    let url = format!("{}/v1/runs/{run}/cancel", scene.house.url);
    let (status, _) = scene.http.post_json(&url, &json!({}), &[]).await.unwrap();
    assert_eq!(status.as_u16(), 200);
}

#[tokio::test]
async fn a_closing_house_says_so_and_never_ends_cleanly() {
    let mut scene = Scene::open().await;
    let got = scene.post(&body(UUID, "r", Value::Null)).await;
    let delivery = scene.puppet.take().await;
    scene.say(&delivery.run, STARTED).await;
    scene.house.close();
    let events = got.events().await;
    assert_eq!(events.last().unwrap()["code"], "wikala.shutting-down");
    assert_eq!(scene.view(&delivery.run).await.status, Status::Running);
}

#[tokio::test]
async fn hanging_up_is_not_a_cancel() {
    let mut scene = Scene::open().await;
    let got = scene.post(&body(UUID, "r", Value::Null)).await;
    let delivery = scene.puppet.take().await;
    drop(got);
    scene.say(&delivery.run, STARTED).await;
    scene.say(&delivery.run, FINISHED).await;
    scene.puppet.finish(&delivery.run).await;
    let view = scene.view(&delivery.run).await;
    assert_eq!((view.status, view.cancel_requested_by.len()), (Status::Completed, 0));
}

#[tokio::test]
async fn an_idle_stream_is_kept_alive_by_a_comment_between_frames() {
    let house = TestHouse::commenting(Policy::default(), Duration::from_millis(20)).await;
    let mut scene = Scene::at(house).await;
    let mut got = scene.post(&body(UUID, "r", Value::Null)).await;
    let delivery = scene.puppet.take().await;
    let frame = got.body.frame().await.unwrap().unwrap();
    assert_eq!(frame.data_ref().unwrap().as_ref(), b": keep-alive\n\n");
    scene.say(&delivery.run, STARTED).await;
    scene.say(&delivery.run, FINISHED).await;
    scene.puppet.finish(&delivery.run).await;
    let events = got.events().await;
    assert_eq!(kinds(&events), ["RUN_STARTED", "RUN_FINISHED"]);
}

#[tokio::test]
async fn browsers_may_ask_first() {
    let scene = Scene::open().await;
    let headers = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,authorization,x-mine"),
    ];
    let (status, headers, _) = scene.http.send(Method::OPTIONS, &scene.url, None, &headers, None).await.unwrap();
    assert_eq!(status.as_u16(), 200);
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert!(headers["access-control-allow-methods"].to_str().unwrap().contains("POST"));
    let allowed = headers["access-control-allow-headers"].to_str().unwrap();
    assert_eq!(allowed, "content-type,authorization,x-mine");
}

#[tokio::test]
async fn a_refused_stream_has_not_opened_a_run() {
    let mut scene = Scene::open().await;
    let peer = std::net::IpAddr::from([127, 0, 0, 1]);
    let places: Vec<_> = (0..STREAMS).map(|_| scene.house.app.limits.streams.take(peer).unwrap()).collect();
    assert_eq!(scene.post(&body(UUID, "r", Value::Null)).await.refused().await, (429, "rate-limited".into()));
    drop(places);
    let got = scene.post(&body(UUID, "r", Value::Null)).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(got.run(), delivery.run.as_str());
}
