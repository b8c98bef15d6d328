//! A2A 0.3, for agents that still speak it: requests written in it, results read into
//! 1.0. The one place where words are rewritten on their way, since 0.3 spells the same
//! things otherwise; members it has no other word for pass through.

use serde_json::{Map, Value, json};

use super::peer::Op;

/// The method and its parameters, JSON text. `None`: params that are no request.
pub(super) fn request(op: Op, params: &str) -> Option<(&'static str, String)> {
    let mut params: Value = serde_json::from_str(params).ok()?;
    let method = match op {
        Op::SendMessage => "message/send",
        Op::SendStreamingMessage => "message/stream",
        Op::GetTask => "tasks/get",
        Op::CancelTask => "tasks/cancel",
        Op::SubscribeToTask => "tasks/resubscribe",
    };
    if let Some(message) = params.get_mut("message") {
        older_message(message);
        let configuration = params.as_object_mut()?.entry("configuration").or_insert_with(|| json!({}));
        if let Some(configuration) = configuration.as_object_mut() {
            let at_once = configuration.remove("returnImmediately").is_some_and(|value| value == true);
            configuration.insert("blocking".into(), (!at_once).into());
        }
    }
    Some((method, params.to_string()))
}

/// A result of 0.3 as a stream event of 1.0, JSON text.
pub(super) fn result(text: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let name = match value["kind"].as_str()? {
        "task" => "task",
        "message" => "message",
        "status-update" => "statusUpdate",
        "artifact-update" => "artifactUpdate",
        _ => return None,
    };
    let members = value.as_object_mut()?;
    members.remove("kind");
    members.remove("final");
    match name {
        "message" => newer_message(&mut value),
        "task" => {
            newer_status(members.get_mut("status"));
            members.get_mut("history").and_then(Value::as_array_mut).into_iter().flatten().for_each(newer_message);
            members.get_mut("artifacts").and_then(Value::as_array_mut).into_iter().flatten().for_each(newer_parts);
        }
        "statusUpdate" => newer_status(members.get_mut("status")),
        _ => {
            if let Some(artifact) = members.get_mut("artifact") {
                newer_parts(artifact);
            }
        }
    }
    Some(json!({ name: value }).to_string())
}

fn older_message(message: &mut Value) {
    let Some(members) = message.as_object_mut() else { return };
    members.insert("kind".into(), "message".into());
    let agent = members.get("role").is_some_and(|role| role == "ROLE_AGENT" || role == 2);
    members.insert("role".into(), if agent { "agent" } else { "user" }.into());
    for part in members.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(one) = part.as_object_mut() else { continue };
        let (media, name) = (one.remove("mediaType"), one.remove("filename"));
        let kind = if one.contains_key("text") {
            "text"
        } else if one.contains_key("data") {
            "data"
        } else {
            let mut file = Map::new();
            file.extend(one.remove("raw").map(|raw| ("bytes".to_owned(), raw)));
            file.extend(one.remove("url").map(|url| ("uri".to_owned(), url)));
            file.extend(media.map(|media| ("mimeType".to_owned(), media)));
            file.extend(name.map(|name| ("name".to_owned(), name)));
            one.insert("file".into(), file.into());
            "file"
        };
        one.insert("kind".into(), kind.into());
    }
}

fn newer_message(message: &mut Value) {
    let Some(members) = message.as_object_mut() else { return };
    members.remove("kind");
    let role = if members.get("role").is_some_and(|role| role == "user") { "ROLE_USER" } else { "ROLE_AGENT" };
    members.insert("role".into(), role.into());
    newer_parts(message);
}

/// The parts of a message or an artifact.
fn newer_parts(whole: &mut Value) {
    for part in whole.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(one) = part.as_object_mut() else { continue };
        one.remove("kind");
        let Some(Value::Object(mut file)) = one.remove("file") else { continue };
        one.extend(file.remove("bytes").map(|raw| ("raw".to_owned(), raw)));
        one.extend(file.remove("uri").map(|url| ("url".to_owned(), url)));
        one.extend(file.remove("mimeType").map(|media| ("mediaType".to_owned(), media)));
        one.extend(file.remove("name").map(|name| ("filename".to_owned(), name)));
    }
}

fn newer_status(status: Option<&mut Value>) {
    let Some(members) = status.and_then(Value::as_object_mut) else { return };
    if let Some(state) = members.get("state").and_then(Value::as_str) {
        let state = format!("TASK_STATE_{}", state.replace('-', "_").to_uppercase());
        members.insert("state".into(), state.into());
    }
    if let Some(message) = members.get_mut("message") {
        newer_message(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_0_3_says_is_read_as_1_0() {
        let said = r#"{"kind":"status-update","taskId":"t","contextId":"c","final":true,"x":1,"status":{"state":"input-required",
            "message":{"kind":"message","role":"agent","messageId":"m","parts":[{"kind":"text","text":"?"},
            {"kind":"file","file":{"uri":"u","mimeType":"a/b","name":"n"}}]}}}"#;
        let read: Value = serde_json::from_str(&result(said).unwrap()).unwrap();
        assert_eq!(
            read,
            json!({"statusUpdate": {"taskId": "t", "contextId": "c", "x": 1, "status": {"state": "TASK_STATE_INPUT_REQUIRED",
                "message": {"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": "?"},
                {"url": "u", "mediaType": "a/b", "filename": "n"}]}}}})
        );
        assert!(result("{}").is_none() && result("[]").is_none());
    }

    #[test]
    fn what_1_0_asks_is_asked_as_0_3() {
        let params = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"AA==","mediaType":"a/b"}]},
            "configuration":{"returnImmediately":false},"metadata":{"a":1}}"#;
        let (method, params) = request(Op::SendMessage, params).unwrap();
        let params: Value = serde_json::from_str(&params).unwrap();
        assert_eq!(method, "message/send");
        assert_eq!(
            params,
            json!({"message": {"kind": "message", "messageId": "m", "role": "user",
                "parts": [{"kind": "file", "file": {"bytes": "AA==", "mimeType": "a/b"}}]},
                "configuration": {"blocking": true}, "metadata": {"a": 1}})
        );
        assert!(request(Op::GetTask, "x").is_none());
    }
}
