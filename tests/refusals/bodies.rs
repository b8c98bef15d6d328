//! Bytes that are no request.

use axum::http::Method;
use serde_json::json;
use wikala_doors::door::BODY;

use super::stage::{Stage, head, message};
use super::table::{Ask, At, Table};
use crate::agui;

pub async fn shapes(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let answer = format!("/v1/runs/{}/answer", paused.run);
    let say = |body: Vec<u8>| {
        let told = stage.a2a("SendMessage", json!({}));
        let run = stage.agui(json!({}));
        let ours = stage.post(&answer, json!({}));
        [told, run, ours].map(|ask| Ask { body: Some(body.clone()), ..ask })
    };
    for ask in say(b"{}".to_vec()) {
        let mut plain = Ask { headers: Vec::new(), ..ask }.with("content-type", "text/plain");
        table.refused(&stage, "media-type", "plain text", [plain.clone()]).await;
        plain.headers[0].1 = "application/x-www-form-urlencoded".to_owned();
        table.refused(&stage, "media-type", "what a page's form sends", [plain]).await;
    }
    table.refused(&stage, "too-large", "one byte more", say(vec![b' '; BODY + 1])).await;
    let twice = br#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","a":1,"a":1}"#;
    table.refused(&stage, "body-duplicate-key", "at the top", say(twice.to_vec())).await;
    let deep = br#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"x":[{"a":1,"\u0061":1}]}}"#;
    table.refused(&stage, "body-duplicate-key", "deep inside, escaped", say(deep.to_vec())).await;
    let spelt = message("x", json!({ "contextId": "a", "context_id": "b" }), stage.bag(&head()));
    table.refused(&stage, "body-duplicate-key", "in two spellings", [stage.a2a("SendMessage", spelt)]).await;

    let nested = format!(r#"{{"threadId":"t","runId":"r","messages":[],"x":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    for text in [
        "",
        "nonsense",
        "[]",
        r#"{"runId":"r","messages":[]}"#,
        r#"{"threadId":"t","messages":[]}"#,
        r#"{"threadId":"t","runId":"r"}"#,
        r#"{"threadId":"t","runId":"r","messages":[1]}"#,
        r#"{"threadId":"t","runId":"r","messages":[],"resume":{}}"#,
        r#"{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"a"}]}"#,
        r#"{"threadId":"t","runId":"r","messages":[],"parentRunId":7}"#,
        &nested,
    ] {
        let run = Ask { body: Some(text.into()), ..stage.agui(json!({})) };
        table.refused(&stage, "body-malformed", text.get(..40).unwrap_or(text), [run]).await;
    }
    let run = Ask { body: Some(b"\xff{}".to_vec()), ..stage.agui(json!({})) };
    table.refused(&stage, "body-malformed", "not UTF-8", [run]).await;
    let act = stage.act(&head(), &paused.run);
    for (why, body) in [
        ("no answer", json!({})),
        ("no text", json!({ "answer": 5 })),
        ("a member nobody knows", json!({ "answer": "x", "ask": [] })),
        ("no list", json!({ "answer": "x", "asks": 5 })),
        ("no form", agui::with(json!({ "answer": "x", "form": "other" }), act)),
    ] {
        table.refused(&stage, "body-malformed", why, [stage.post(&answer, body)]).await;
    }
    for (why, path, body) in [
        ("a member nobody knows", format!("/v1/runs/{}/cancel", paused.run), r#"{"act":1}"#),
        ("no key", "/tickets".to_owned(), r#"{"publicKey":"x"}"#),
        ("no object", "/tickets".to_owned(), "[]"),
        ("no object", "/v1/certificates".to_owned(), "7"),
    ] {
        let ask = stage.raw(At::Ours, Method::POST, &path, Some(body.to_owned()));
        table.refused(&stage, "body-malformed", why, [ask]).await;
    }
    let events = stage.get(&format!("/v1/runs/{}/events?after=x", paused.run));
    table.refused(&stage, "body-malformed", "no number", [events]).await;
    table.refused(&stage, "body-malformed", "no handshake", [stage.get("/ws/provider")]).await;
    table.must(stage.puppet.was_told_nothing(), "what is no request was told to the agent");
}
