//! The other dialect, exhaustively: what has a word is said in it, and what has none lands
//! in the one named place, whole. What we write ourselves fits AG-UI 1.0.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_doors::client::Client;
use wikala_witness::Dialect;

use super::added;
use super::fake::{Fake, Say, frame, status, task};
use crate::house::TestHouse;

/// One of each event type of AG-UI 1.0, in an order that clients accept.
fn every_event() -> Vec<Value> {
    let of = |kind: &str, rest: Value| {
        let mut event = json!({ "type": kind });
        event.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
        event
    };
    vec![
        of("RUN_STARTED", json!({ "threadId": "t", "runId": "r" })),
        of("STEP_STARTED", json!({ "stepName": "s" })),
        of("TEXT_MESSAGE_START", json!({ "messageId": "m", "role": "assistant" })),
        of("TEXT_MESSAGE_CONTENT", json!({ "messageId": "m", "delta": "hello" })),
        of("TEXT_MESSAGE_END", json!({ "messageId": "m" })),
        of("TEXT_MESSAGE_CHUNK", json!({ "messageId": "m2", "delta": "again" })),
        of("TOOL_CALL_START", json!({ "toolCallId": "c", "toolCallName": "look" })),
        of("TOOL_CALL_ARGS", json!({ "toolCallId": "c", "delta": "{}" })),
        of("TOOL_CALL_END", json!({ "toolCallId": "c" })),
        of("TOOL_CALL_RESULT", json!({ "messageId": "m3", "toolCallId": "c", "content": "seen" })),
        of("TOOL_CALL_CHUNK", json!({ "toolCallId": "c" })),
        of("STATE_SNAPSHOT", json!({ "snapshot": { "n": 1 } })),
        of("STATE_DELTA", json!({ "delta": [] })),
        of("MESSAGES_SNAPSHOT", json!({ "messages": [] })),
        of("ACTIVITY_SNAPSHOT", json!({ "messageId": "a", "activityType": "PLAN", "content": {} })),
        of("ACTIVITY_DELTA", json!({ "messageId": "a", "activityType": "PLAN", "patch": [] })),
        of("RAW", json!({ "event": { "x": 1 } })),
        of("CUSTOM", json!({ "name": "mine", "value": null })),
        of("REASONING_START", json!({ "messageId": "r1" })),
        of("REASONING_MESSAGE_START", json!({ "messageId": "r2", "role": "reasoning" })),
        of("REASONING_MESSAGE_CONTENT", json!({ "messageId": "r2", "delta": "hm" })),
        of("REASONING_MESSAGE_END", json!({ "messageId": "r2" })),
        of("REASONING_MESSAGE_CHUNK", json!({ "messageId": "r3", "delta": "hm" })),
        of("REASONING_ENCRYPTED_VALUE", json!({ "subtype": "message", "entityId": "r2", "encryptedValue": "x" })),
        of("REASONING_END", json!({ "messageId": "r1" })),
        of("SUBAGENT_STARTED", json!({ "subagentRunId": "sub", "name": "n" })),
        of("SUBAGENT_FINISHED", json!({ "subagentRunId": "sub" })),
        of("SUBAGENT_STARTED", json!({ "subagentRunId": "sub2", "name": "n" })),
        of("SUBAGENT_ERROR", json!({ "subagentRunId": "sub2", "message": "m" })),
        of("STEP_FINISHED", json!({ "stepName": "s" })),
        of("OF_A_LATER_DAY", json!({ "x": 1.5 })),
        of("RUN_FINISHED", json!({ "threadId": "t", "runId": "r", "result": { "n": 1 } })),
    ]
}

/// The types that the schema lists are the types that are walked.
#[test]
fn every_event_type_of_ag_ui_1_0_is_walked() {
    let schema: Value = serde_json::from_str(include_str!("../agui/schema-1.0.json")).expect("JSON");
    let listed = schema["$defs"]["EventType"]["enum"].as_array().expect("a list").clone();
    let walked: Vec<Value> = every_event().iter().map(|event| event["type"].clone()).collect();
    for kind in &listed {
        assert!(walked.contains(kind) || kind == "RUN_ERROR", "{kind}");
    }
}

async fn a2a_stream(house: &TestHouse, id: &wikala_witness::AgentId) -> Vec<Value> {
    let url = format!("{}/a2a/{}/{}", house.url, id.provider, id.name.as_str());
    let params = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params });
    let http = Client::new();
    let mut events =
        http.events(Method::POST, &url, Some(&body), &[("a2a-version", "1.0")], None).await.expect("a stream");
    let mut all = Vec::new();
    while let Some(event) = events.next().await.expect("whole") {
        all.push(serde_json::from_str::<Value>(&event.data).expect("JSON")["result"].clone());
    }
    all
}

#[tokio::test]
async fn every_ag_ui_event_reaches_an_a2a_caller() {
    let house = TestHouse::open().await;
    let fake = Fake::open().await;
    let id = added(&house, "far", Dialect::AgUi, &fake.url).await;
    fake.say("runId", Say::Stream(every_event().iter().map(Value::to_string).collect()));
    let told = a2a_stream(&house, &id).await;
    let text: String =
        told.iter().filter_map(|event| event["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str()).collect();
    assert_eq!(text, "helloagain");
    let whole: Vec<&Value> = told
        .iter()
        .map(|event| &event["statusUpdate"]["metadata"]["agui_event"])
        .filter(|event| event.is_object())
        .collect();
    for event in every_event() {
        let kind = event["type"].as_str().expect("a type");
        if kind == "RUN_STARTED" || (kind.starts_with("TEXT_MESSAGE") && event["role"] != "user") {
            continue;
        }
        assert!(whole.contains(&&event), "{event} is lost");
    }
    assert_eq!(told.last().expect("an end")["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

/// One AG-UI 1.0 event, strictly: what we write must be nothing else.
fn fits() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(include_str!("../agui/schema-1.0.json")).expect("JSON");
    jsonschema::draft202012::new(&schema).expect("a schema")
}

#[tokio::test]
async fn every_a2a_event_reaches_an_ag_ui_caller_in_words_of_ag_ui_1_0() {
    let message = |id: &str, parts: Value| json!({ "messageId": id, "role": "ROLE_AGENT", "taskId": "t", "contextId": "c", "parts": parts });
    let with = |state: &str, more: Value| {
        let mut update = status(state);
        for (name, value) in more.as_object().expect("an object") {
            match name.as_str() {
                "message" => update["statusUpdate"]["status"]["message"] = value.clone(),
                _ => update["statusUpdate"][name] = value.clone(),
            }
        }
        update
    };
    let artifact = |id: &str, parts: Value, append: bool, last: bool| json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": { "artifactId": id, "parts": parts }, "append": append, "lastChunk": last } });
    let validator = fits();
    for (last, expect) in [
        (
            with("COMPLETED", json!({ "message": message("bye", json!([{ "text": "bye" }])) })),
            json!({ "type": "RUN_FINISHED" }),
        ),
        (
            with("FAILED", json!({ "message": message("no", json!([{ "text": "no luck" }])) })),
            json!({ "type": "RUN_ERROR", "code": "a2a.failed", "message": "no luck" }),
        ),
        (status("REJECTED"), json!({ "type": "RUN_ERROR", "code": "a2a.rejected" })),
        (status("CANCELED"), json!({ "type": "RUN_FINISHED", "outcome": { "type": "cancelled" } })),
        (
            with("INPUT_REQUIRED", json!({ "message": message("q", json!([{ "text": "which?" }])) })),
            json!({ "type": "RUN_FINISHED" }),
        ),
        (status("AUTH_REQUIRED"), json!({ "type": "RUN_FINISHED" })),
        (json!({ "message": message("all", json!([{ "text": "all there is" }])) }), json!({ "type": "RUN_FINISHED" })),
    ] {
        let house = TestHouse::open().await;
        let fake = Fake::open().await;
        let id = added(&house, "far", Dialect::A2a, &fake.url).await;
        let odd = [
            with("WORKING", json!({ "metadata": { "progress": 0.5 } })),
            with("PONDERING", json!({})),
            artifact("pic", json!([{ "raw": "AA==", "mediaType": "image/png" }, { "data": null }]), false, true),
            artifact("a", json!([{ "text": "more" }]), true, true),
        ];
        let mut said = vec![
            json!({ "task": task("SUBMITTED") }),
            with("WORKING", json!({ "message": message("w", json!([{ "text": "at it" }])) })),
            artifact("a", json!([{ "text": "one " }]), false, false),
            artifact("a", json!([{ "text": "two" }]), true, true),
        ];
        said.extend(odd.clone());
        if last.get("message").is_some() {
            said = Vec::new();
        }
        said.push(last.clone());
        fake.say("SendStreamingMessage", Say::Stream(said.into_iter().map(frame).collect()));
        let url = format!("{}/agui/{}/far", house.url, id.provider);
        let body = json!({ "threadId": "t1", "runId": "r1", "protocolVersion": "1.0", "messages": [{ "id": "u", "role": "user", "content": "x" }] });
        let http = Client::new();
        let mut events = http.events(Method::POST, &url, Some(&body), &[], None).await.expect("a stream");
        let mut told = Vec::new();
        while let Some(event) = events.next().await.expect("whole") {
            let event: Value = serde_json::from_str(&event.data).expect("JSON");
            let wrong: Vec<String> = validator.iter_errors(&event).map(|error| error.to_string()).collect();
            assert!(wrong.is_empty(), "{event}: {wrong:?}");
            told.push(event);
        }
        assert_eq!(told[0]["type"], "RUN_STARTED");
        let end = told.last().expect("an end");
        for (name, value) in expect.as_object().expect("an object") {
            assert_eq!(&end[name], value, "{last}: {end}");
        }
        if last.get("message").is_none() {
            let custom: Vec<&Value> =
                told.iter().filter(|event| event["name"] == "a2a.event").map(|event| &event["value"]).collect();
            assert_eq!(custom.len(), odd.len(), "{custom:?}");
            let text: String = told.iter().filter_map(|event| event["delta"].as_str()).collect();
            assert!(text.starts_with("at itone two"), "{text}");
        }
        // Every message that was begun was ended: clients refuse an end over an open one.
        let count = |kind: &str| told.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(count("TEXT_MESSAGE_START"), count("TEXT_MESSAGE_END"));
    }
}

/// What we say ourselves where an agent has no last word.
#[tokio::test]
async fn our_own_last_words_are_ag_ui_1_0_as_well() {
    let house = TestHouse::open().await;
    let fake = Fake::open().await;
    let id = added(&house, "far", Dialect::AgUi, &fake.url).await;
    fake.say("runId", Say::Whole(500, "text/plain", "no".to_owned()));
    let url = format!("{}/agui/{}/far", house.url, id.provider);
    let body = json!({ "threadId": "t1", "runId": "r1", "messages": [{ "id": "u", "role": "user", "content": "x" }] });
    let http = Client::new();
    let mut events = http.events(Method::POST, &url, Some(&body), &[], None).await.expect("a stream");
    let validator = fits();
    while let Some(event) = events.next().await.expect("whole") {
        assert!(validator.is_valid(&serde_json::from_str(&event.data).expect("JSON")), "{}", event.data);
    }
}

/// Files, data and several texts of an AG-UI caller as parts of one message.
#[tokio::test]
async fn an_ag_ui_callers_words_are_one_a2a_message_with_all_of_it_beside() {
    let house = TestHouse::open().await;
    let fake = Fake::open().await;
    let id = added(&house, "far", Dialect::A2a, &fake.url).await;
    fake.say("SendStreamingMessage", Say::Stream(vec![frame(json!({ "task": task("COMPLETED") }))]));
    let url = format!("{}/agui/{}/far", house.url, id.provider);
    let content = json!([
        { "type": "text", "text": "look" },
        { "type": "image", "source": { "type": "data", "value": "AA==", "mimeType": "image/png" } },
        { "type": "document", "source": { "type": "url", "value": "http://x/doc" } },
        { "type": "image", "source": { "type": "file", "value": "id", "provider": "p" } },
    ]);
    let body = json!({ "threadId": "t1", "runId": "r1", "state": { "n": 1 }, "forwardedProps": { "mine": 1 },
        "messages": [{ "id": "u0", "role": "user", "content": "old" }, { "id": "u1", "role": "user", "content": content }] });
    let http = Client::new();
    let mut events = http.events(Method::POST, &url, Some(&body), &[], None).await.expect("a stream");
    while events.next().await.expect("whole").is_some() {}
    let sent: Value = serde_json::from_str(&fake.sent("SendStreamingMessage")[0].body).expect("JSON");
    let message = &sent["params"]["message"];
    assert_eq!(message["messageId"], "u1");
    assert_eq!(
        message["parts"],
        json!([
            { "text": "look" },
            { "raw": "AA==", "mediaType": "image/png" },
            { "url": "http://x/doc" },
            { "data": { "type": "image", "source": { "type": "file", "value": "id", "provider": "p" } } },
        ])
    );
    assert_eq!(message["metadata"]["agui_input"]["state"], json!({ "n": 1 }));
    assert_eq!(sent["params"]["metadata"], json!({ "mine": 1 }));
}
