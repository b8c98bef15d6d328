//! The envelope: media type, parsing, versions, ids, extensions, the card.

use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::*;

type Headers = Vec<(&'static str, &'static str)>;

async fn raw(caller: &Caller, path: &str, body: &str, headers: &[(&str, &str)]) -> (axum::http::HeaderMap, String) {
    let url = format!("{}{path}", caller.url);
    let sent = caller.http.send(axum::http::Method::POST, &url, Some(body.as_bytes().to_vec()), headers, None).await;
    let (status, headers, body) = sent.unwrap();
    assert_eq!(status, 200);
    (headers, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

#[tokio::test]
async fn envelopes_are_checked_in_one_order() {
    let house = TestHouse::open().await;
    let puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let v1 = ("a2a-version", "1.0");
    let call = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#);
    let cases: Vec<(String, Headers, i64)> = vec![
        ("not json".into(), vec![("content-type", "text/plain"), v1], -32005),
        ("not json".into(), vec![v1], -32700),
        ("\u{feff}{}".into(), vec![v1], -32700),
        (format!("{}1{}", "[".repeat(80), "]".repeat(80)), vec![v1], -32700),
        (format!("[{}]", call("GetTask")), vec![v1], -32600),
        ("[]".into(), vec![v1], -32600),
        ("7".into(), vec![v1], -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}"#.into(), vec![v1], -32600),
        (r#"{"id":1,"method":"GetTask"}"#.into(), vec![v1], -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#.into(), vec![v1], -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"GetTask"}"#.into(), vec![v1], -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#.into(), vec![v1], -32600),
        (call("GetTask"), vec![], -32009),
        (call("GetTask"), vec![("a2a-version", "")], -32009),
        (call("GetTask"), vec![("a2a-version", "0.3")], -32009),
        (call("GetTask"), vec![("a2a-version", "2.0")], -32009),
        (call("GetTask"), vec![("a2a-version", "1.x")], -32009),
        (call("GetTask"), vec![("a2a-version", "1.7.2")], -32602),
        (call("GetTask"), vec![("a2a-version", "1")], -32602),
        (call("message/send"), vec![v1], -32601),
        (call("getTask"), vec![v1], -32601),
        (call("CreateTaskPushNotificationConfig"), vec![v1], -32003),
        (call("GetTaskPushNotificationConfig"), vec![v1], -32003),
        (call("ListTaskPushNotificationConfigs"), vec![v1], -32003),
        (call("DeleteTaskPushNotificationConfig"), vec![v1], -32003),
        (call("GetExtendedAgentCard"), vec![v1], -32004),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}"#.into(), vec![v1], -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask"}"#.into(), vec![v1], -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"parts":[]}}}"#.into(),
            vec![v1],
            -32602,
        ),
    ];
    for (body, headers, expect) in cases {
        let (_, answer) = raw(&caller, "", &body, &headers).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(number(&answer), expect, "{body:.120} {answer}");
        let info = &answer["error"]["data"][0];
        assert!(info["@type"].as_str().unwrap().ends_with("ErrorInfo") && info["reason"].is_string(), "{answer}");
    }
}

#[tokio::test]
async fn ids_are_echoed_exactly_and_versions_are_read_from_the_query() {
    let house = TestHouse::open().await;
    let puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    for id in ["\"a\\u0062\"", "1.50", "-7", "9007199254740993", "null", "\"\""] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ListTasks"}}"#);
        for path in ["?A2A-Version=1.0", "/?a=b&A2A-Version=1.1"] {
            let (headers, answer) = raw(&caller, path, &body, &[]).await;
            assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)), "{answer}");
            assert_eq!(headers["a2a-version"], "1.0");
        }
    }
    let (_, answer) = raw(&caller, "", r#"{"jsonrpc":"2.0","method":"ListTasks"}"#, &[("a2a-version", "1.0")]).await;
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":null,"#), "{answer}");
}

#[tokio::test]
async fn extensions_of_ours_are_echoed_whatever_the_header_is_called() {
    let house = TestHouse::open().await;
    let puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks"}"#;
    for name in ["a2a-extensions", "x-a2a-extensions"] {
        let headers = [("a2a-version", "1.0"), (name, "http://other/, urn:wikala:witness:1")];
        let (headers, _) = raw(&caller, "", body, &headers).await;
        assert_eq!(headers["a2a-extensions"], "urn:wikala:witness:1");
    }
    let (headers, _) = raw(&caller, "", body, &[("a2a-version", "1.0"), ("a2a-extensions", "http://other/")]).await;
    assert!(!headers.contains_key("a2a-extensions"));
}

#[tokio::test]
async fn snake_case_integers_and_nulls_are_read_as_clients_write_them() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let params = json!({
        "message": { "message_id": "m", "role": 1, "parts": [{ "text": "x", "media_type": "text/plain" }],
                     "task_id": "", "context_id": null, "reference_task_ids": [], "metadata": null },
        "configuration": { "return_immediately": true, "history_length": 1.0 },
        "metadata": { "actorChain": null, "presenter": null },
        "tenant": "",
    });
    let task = caller.task("SendMessage", params).await;
    assert_eq!(task["history"].as_array().unwrap().len(), 1);
    puppet.echoes("x").await;
    let both = json!({ "message": { "messageId": "m", "message_id": "n", "role": 1, "parts": [{ "text": "x" }] } });
    assert_eq!(code(&caller.call("SendMessage", both).await), "body-duplicate-key");
}

#[tokio::test]
async fn the_card_is_the_witness_s_own_and_is_cached() {
    let house = TestHouse::open().await;
    let puppet = Puppet::attach(&house, &provider(), "echo").await;
    let link = puppet.link;
    let name = puppet.agent.name.clone();
    let text = json!({
        "name": "echo", "description": "Says it again.", "takesInterjections": true,
        "agentCardExtra": { "name": "Echo", "url": "http://evil/", "supported_interfaces": [{ "url": "http://evil/" }], "protocol_version": "0.3", "skills": [{ "id": "s", "name": "s", "description": "s", "tags": ["t"] }],
                            "capabilities": { "pushNotifications": true }, "signatures": [{}], "supportedInterfaces": [] },
    });
    let roster = [wikala_witness::Registration { name, interjections: true, text: text.to_string() }];
    house.app.desk.ask(move |w, now| w.register(now, link, &roster, None)).await.unwrap();
    let caller = Caller::of(&house, &puppet.agent);
    let fingerprint = puppet.agent.provider.fingerprint().to_string();
    for key in [puppet.agent.provider.to_hex(), fingerprint] {
        let url = format!("{}/a2a/{key}/echo/.well-known/agent-card.json", caller.base);
        let get = |headers: Vec<(&'static str, String)>| {
            let (http, url) = (caller.http.clone(), url.clone());
            async move {
                let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                http.send(axum::http::Method::GET, &url, None, &headers, None).await.unwrap()
            }
        };
        let (status, headers, body) = get(vec![]).await;
        assert_eq!(status, 200);
        let body = body.collect().await.unwrap().to_bytes();
        let card: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&card["name"], &card["description"]), (&json!("Echo"), &json!("Says it again.")));
        assert_eq!(
            card["supportedInterfaces"],
            json!([
                { "url": caller.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
                { "url": caller.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" },
            ])
        );
        assert!(!card.to_string().contains("evil") && card.get("protocol_version").is_none(), "{card}");
        assert_eq!(card["capabilities"]["pushNotifications"], false);
        assert_eq!(card["capabilities"]["extensions"][0]["params"]["witnessKey"], house.app.public_key().to_hex());
        assert_eq!(card["capabilities"]["extensions"][2]["uri"], wikala_doors::a2a::EXTENSION_INTERJECTION);
        assert!(card.get("url").is_none() && card["skills"][0]["id"] == "s");
        assert_eq!(card["signatures"].as_array().map(Vec::len), Some(1), "ours, and not the provider's");
        let tag = headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(tag, format!("\"{}\"", wikala_chain::Digest::of(&body).to_hex()));
        assert_eq!(headers["cache-control"], "max-age=60");
        assert!(headers["last-modified"].to_str().unwrap().ends_with(" GMT"));
        for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let (status, headers, body) = get(vec![("if-none-match", known)]).await;
            assert_eq!((status.as_u16(), headers["etag"].to_str().unwrap()), (304, tag.as_str()));
            assert!(body.collect().await.unwrap().to_bytes().is_empty());
        }
        assert_eq!(get(vec![("if-none-match", "\"x\"".into())]).await.0, 200);
    }
    let (status, _) = caller
        .http
        .get_json(&format!("{}/a2a/{}/nobody/.well-known/agent-card.json", caller.base, puppet.agent.provider))
        .await
        .unwrap();
    assert_eq!(status, 404);
}
