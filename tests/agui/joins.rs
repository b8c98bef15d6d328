//! Joining a run: AG-UI has no resumption, so who comes late is shown what the run came to,
//! and must end with what everybody else has. Joined after every single event, by stock clients.

use serde_json::{Value, json};

use super::{Scene, UUID, asking, body, entry, kind, kinds, parsed, with};

/// One of everything a run may say, some of it cut in the middle by whoever joins there.
fn story(old: bool) -> Vec<Value> {
    let mut story = vec![
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": { "threadId": "t", "runId": "r",
            "messages": [{ "id": "u0", "role": "user", "content": "echoed" }], "tools": [], "context": [] } }),
        json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": 1, "list": [], "f": 1.5 } }),
        json!({ "type": "STEP_STARTED", "stepName": "a" }),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "t1", "role": "assistant", "metadata": { "k": 0, "c": 0 } }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "t1", "delta": "Hel", "metadata": { "k": 1, "c": 1 } }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "add", "path": "/list/0", "value": { "a": "b" } }] }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "t1", "delta": "lo \u{1f600}" }),
        json!({ "type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "find", "parentMessageId": "t1" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"a\":" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "1}", "metadata": { "cost": 2 } }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": "t1", "metadata": { "k": 2 } }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": "c1" }),
        json!({ "type": "TOOL_CALL_START", "toolCallId": "c2", "toolCallName": "count" }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": "c2" }),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "m2", "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": "two" }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": "m2" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "c1", "content": "found" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "r2", "toolCallId": "c2", "content": "2" }),
        json!({ "type": "CUSTOM", "name": "x.progress", "value": { "at": 1 } }),
        json!({ "type": "REASONING_START", "messageId": "z" }),
        json!({ "type": "REASONING_MESSAGE_START", "messageId": "q", "role": "reasoning" }),
        json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": "q", "delta": "hm" }),
        json!({ "type": "REASONING_MESSAGE_END", "messageId": "q" }),
        json!({ "type": "REASONING_END", "messageId": "z" }),
        json!({ "type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "q", "encryptedValue": "e1" }),
        json!({ "type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c2", "encryptedValue": "e2" }),
        json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": { "steps": [1] } }),
        json!({ "type": "ACTIVITY_DELTA", "messageId": "a1", "activityType": "PLAN",
            "patch": [{ "op": "add", "path": "/steps/-", "value": 2 }] }),
        json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": {}, "replace": false }),
        json!({ "type": "RAW", "event": { "any": [1] }, "source": "s" }),
        json!({ "type": "STEP_FINISHED", "stepName": "a" }),
        json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "k1", "role": "assistant", "delta": "chu" }),
        json!({ "type": "TEXT_MESSAGE_CHUNK", "delta": "nk" }),
        json!({ "type": "TOOL_CALL_CHUNK", "toolCallId": "k2", "toolCallName": "chunked", "delta": "[" }),
        json!({ "type": "RAW", "event": 1 }),
        json!({ "type": "TOOL_CALL_CHUNK", "delta": "]" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "r3", "toolCallId": "k2", "content": "done" }),
        json!({ "type": "REASONING_MESSAGE_CHUNK", "messageId": "k3", "delta": "th" }),
        json!({ "type": "REASONING_MESSAGE_CHUNK", "messageId": "k3", "delta": "ink" }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "replace", "path": "/n", "value": 2 },
            { "op": "remove", "path": "/nowhere" }] }),
        json!({ "type": "STATE_DELTA", "delta": [{ "op": "test", "path": "/n", "value": 1 },
            { "op": "move", "from": "/list", "path": "/moved" }] }),
    ];
    if !old {
        story.extend([
            json!({ "type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "scout" }),
            json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "k4", "delta": "from ", "subagentRunId": "s1" }),
            json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "k5", "delta": "beside" }),
            json!({ "type": "TEXT_MESSAGE_CHUNK", "delta": "below", "subagentRunId": "s1" }),
            json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "s1" }),
        ]);
    }
    story.extend([
        json!({ "type": "MESSAGES_SNAPSHOT", "messages": [
            { "id": "m2", "role": "assistant", "content": "two, again" },
            { "id": "t1", "role": "assistant", "content": "Hello", "toolCalls": [
                { "id": "c1", "type": "function", "function": { "name": "find", "arguments": "{}" } }] },
            { "id": "r1", "role": "tool", "toolCallId": "c1", "content": "found" },
            { "id": "new", "role": "user", "content": [{ "type": "text", "text": "x" }] },
        ] }),
        json!({ "type": "TOOL_CALL_START", "toolCallId": "c4", "toolCallName": "more", "parentMessageId": "new" }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": "c4" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "r4", "toolCallId": "c4", "content": "4" }),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "m3", "role": "assistant", "metadata": { "c": 0 } }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m3", "delta": "three", "metadata": { "c": 1 } }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": "m3" }),
        parsed(&asking(&["q1"])),
    ]);
    story
}

/// What stock clients make of it: told from the start, and joined.
fn stock_clients(case: &Value, old: bool) {
    let Some(node) = crate::interop::installed("node") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("case.json");
    std::fs::write(&file, case.to_string()).expect("written");
    let script = node.join("joined.mjs");
    let mut command = std::process::Command::new("node");
    command.args([script.as_path(), file.as_path()]);
    if old {
        command.arg("--old");
    }
    let said = command.output().expect("node starts");
    assert!(
        said.status.success(),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
    println!("{}", String::from_utf8_lossy(&said.stdout));
}

async fn joined_after_every_event(old: bool) {
    let mut scene = Scene::open().await;
    let schema: Value = serde_json::from_str(include_str!("schema-1.0.json")).expect("JSON");
    let fits = jsonschema::draft202012::new(&schema).expect("a schema");
    let input = with(body(UUID, "r", Value::Null), json!({ "protocolVersion": "1.0", "state": { "first": true } }));
    let first = scene.post(&input).await;
    let run = scene.puppet.take().await.run;
    let mut late = Vec::new();
    for (n, event) in story(old).iter().enumerate() {
        assert!(fits.is_valid(event), "{event}");
        scene.say(&run, &event.to_string()).await;
        late.push((n, scene.post(&input).await));
    }
    scene.puppet.finish(&run).await;
    let mut full = vec![first.events().await];
    let mut joins = Vec::new();
    for (n, got) in late {
        joins.push(json!({ "name": format!("after event {n}"), "events": got.events().await, "until": 1 }));
    }
    let paused = scene.post(&input).await.events().await;
    assert_eq!(kinds(&paused)[..1], ["RUN_STARTED"]);
    assert_eq!(
        (kind(&paused[paused.len() - 2]), kind(&paused[paused.len() - 1])),
        ("MESSAGES_SNAPSHOT", "RUN_FINISHED")
    );
    joins.push(json!({ "name": "while it waits", "events": paused, "until": 1 }));

    let resume = with(body(UUID, "r2", Value::Null), json!({ "resume": [entry("q1", "yes")], "messages": [] }));
    let second = scene.post(&resume).await;
    let between = scene.post(&input).await;
    assert_eq!(scene.puppet.take().await.run, run);
    for event in [
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" }),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "m5", "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m5", "delta": "five" }),
    ] {
        scene.say(&run, &event.to_string()).await;
    }
    if !old {
        // Its own subagents: another run's may have had the same ids.
        for event in [
            json!({ "type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "scout" }),
            json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "s1" }),
        ] {
            scene.say(&run, &event.to_string()).await;
        }
    }
    let within = scene.post(&input).await;
    for event in [json!({ "type": "TEXT_MESSAGE_END", "messageId": "m5" }), parsed(super::FINISHED)] {
        scene.say(&run, &event.to_string()).await;
    }
    scene.puppet.finish(&run).await;
    full.push(second.events().await);
    let ended = scene.post(&input).await;
    for (name, got) in [("answered, not begun", between), ("in the second leg", within), ("when it is over", ended)] {
        joins.push(json!({ "name": name, "events": got.events().await }));
    }
    for join in &joins {
        for event in join["events"].as_array().expect("a list") {
            assert!(fits.is_valid(event), "{}: {event}", join["name"]);
        }
    }
    stock_clients(&json!({ "input": input, "full": full, "joins": joins }), old);
}

#[tokio::test]
async fn a_stock_client_joins_after_any_event_and_ends_with_what_all_have() {
    joined_after_every_event(false).await;
}

#[tokio::test]
async fn an_older_stock_client_joins_after_any_event_and_ends_with_what_all_have() {
    joined_after_every_event(true).await;
}

/// A copy doubles what it copies: a few of them in one event would be more than there is
/// memory for. Whoever joins such a run is told its events, as everybody else was.
#[tokio::test]
async fn what_costs_too_much_to_fold_is_told_as_it_was() {
    let mut scene = Scene::open().await;
    let input = body(UUID, "r", Value::Null);
    let first = scene.post(&input).await;
    let double = |n: usize| json!({ "op": "copy", "from": "", "path": format!("/d{n}") });
    let bomb = json!({ "type": "STATE_DELTA", "delta": (0..40).map(double).collect::<Vec<_>>() }).to_string();
    let state = json!({ "type": "STATE_SNAPSHOT", "snapshot": { "a": "b" } }).to_string();
    let run = scene.puppet.take().await.run;
    for event in [super::STARTED, &state, &bomb] {
        scene.say(&run, event).await;
    }
    let late = scene.post(&input).await;
    scene.say(&run, super::FINISHED).await;
    scene.puppet.finish(&run).await;
    assert_eq!(late.data().await, first.data().await);
}
