//! Events are a guest's: whatever stands where, folding them must not fall over.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use wikala_chain::json;

use super::picture::Picture;

#[test]
fn ten_thousand_spoiled_events_fold_into_something() {
    let kinds = [
        "RUN_STARTED",
        "RUN_FINISHED",
        "RUN_ERROR",
        "STATE_SNAPSHOT",
        "STATE_DELTA",
        "STEP_STARTED",
        "STEP_FINISHED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TEXT_MESSAGE_CHUNK",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_CHUNK",
        "TOOL_CALL_RESULT",
        "MESSAGES_SNAPSHOT",
        "ACTIVITY_SNAPSHOT",
        "ACTIVITY_DELTA",
        "REASONING_START",
        "REASONING_END",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CHUNK",
        "REASONING_ENCRYPTED_VALUE",
        "SUBAGENT_STARTED",
        "SUBAGENT_FINISHED",
        "CUSTOM",
        "RAW",
        "LATER",
    ];
    let names = [
        "messageId",
        "toolCallId",
        "parentMessageId",
        "entityId",
        "subtype",
        "delta",
        "patch",
        "content",
        "messages",
        "snapshot",
        "metadata",
        "role",
        "subagentRunId",
        "stepName",
        "toolCallName",
        "input",
        "replace",
    ];
    let call = json!({ "id": "b", "function": "no object" });
    let junk = [
        json!(null),
        json!(1),
        json!("a"),
        json!("b"),
        json!(""),
        json!([]),
        json!({}),
        json!(true),
        json!([1, null]),
        json!({ "messages": [{ "id": "a", "role": "tool", "toolCallId": "b" }, 7], "k": { "l": 1 } }),
        json!([{ "id": "a", "role": "assistant", "toolCalls": [call, 1] }, { "id": "b", "toolCalls": {} }, []]),
        json!([{ "op": "add", "path": "", "value": 1 }]),
        json!([{ "op": "add", "path": "/a", "value": {} }]),
        json!("tool-call"),
        json!("activity"),
    ];
    let mut rng = SmallRng::seed_from_u64(3);
    let body = r#"{"messages":[{"id":"a","role":"assistant","toolCalls":7},{}],"state":[1]}"#;
    let mut picture = Picture::of(body);
    for round in 0..10_000 {
        let mut event = json!({ "type": kinds[rng.random_range(0..kinds.len())] });
        for _ in 0..rng.random_range(0..7) {
            event[names[rng.random_range(0..names.len())]] = junk[rng.random_range(0..junk.len())].clone();
        }
        picture.hear(&event.to_string().into());
        if round % 100 == 99 {
            for shown in picture.show().into_iter().flatten() {
                assert!(json::check(&shown).is_ok(), "{shown}");
            }
            picture = Picture::of(body);
        }
    }
}
