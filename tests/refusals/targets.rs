//! What a request is about: agents, threads, runs, routes.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_chain::SigningKey;

use super::stage::{Stage, head, message, nobody, stranger};
use super::table::{Ask, At, Table};
use crate::a2a::{Caller, at_once};
use crate::agui;
use crate::house::Puppet;

pub async fn unknown(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let key = stage.agent.provider;
    for (why, agent) in [
        ("no such name", format!("{key}/nobody")),
        ("no name of a route's", format!("{key}/a.b")),
        ("no such key", format!("{}/ask", stranger().public())),
        ("no such fingerprint", "0123456789abcdef/ask".to_owned()),
        ("neither key nor fingerprint", "00/ask".to_owned()),
    ] {
        let [told, streamed, run] = stage.speaks(json!({}));
        let threads = stage.post(&format!("/threads/{agent}"), json!({}));
        let there = |ask: Ask, door: &str| Ask { path: format!("/{door}/{agent}"), ..ask };
        let card = card(&stage, &agent);
        let asks = [there(told, "a2a"), there(streamed, "a2a"), card, there(run, "agui"), threads];
        table.refused(&stage, "agent-unknown", why, asks).await;
    }

    let other = Puppet::attach(&stage.house, &SigningKey::from_seed([9; 32]), "echo").await;
    let elsewhere = Caller::of(&stage.house, &other.agent);
    let said = at_once(message("x", json!({}), elsewhere.bag(&head(), stage.now())));
    let foreign = elsewhere.task("SendMessage", said).await;
    let foreign = |name: &str| foreign[name].as_str().expect("an id").to_owned();

    for (why, id) in [("never was", nobody("thread")), ("of another agent", foreign("contextId"))] {
        table.refused(&stage, "thread-unknown", why, stage.speaks_there(&id, stage.bag(&head()))).await;
    }
    for id in [nobody("thread"), "thread_x".to_owned()] {
        let reads = [format!("/threads/{id}"), format!("/threads/{id}/tree")].map(|path| stage.get(&path));
        table.refused(&stage, "thread-unknown", "never was", reads).await;
    }
    for id in [nobody("run"), foreign("id"), "run_x".to_owned(), "x".to_owned()] {
        let own = id == foreign("id");
        let told = message("x", json!({ "taskId": id }), json!({}));
        let asks = ["GetTask", "CancelTask", "SubscribeToTask"].map(|method| stage.a2a(method, json!({ "id": id })));
        table.refused(&stage, "run-unknown", &id, asks).await;
        table
            .refused(
                &stage,
                "run-unknown",
                &id,
                ["SendMessage", "SendStreamingMessage"].map(|method| stage.a2a(method, told.clone())),
            )
            .await;
        if own {
            continue;
        }
        let run = format!("/v1/runs/{id}");
        let reads = [stage.get(&run), stage.get(&format!("{run}/events"))];
        table.refused(&stage, "run-unknown", &id, reads).await;
        let answer = stage.post(&format!("{run}/answer"), json!({ "answer": "x" }));
        table.refused(&stage, "run-unknown", &id, [answer, stage.post(&format!("{run}/cancel"), json!({}))]).await;
    }

    for (at, path) in [(At::A2a, "/a2a/x"), (At::AgUi, "/agui/x"), (At::Ours, "/v1/x")] {
        let asks = [Method::GET, Method::POST].map(|method| stage.raw(at, method, path, None));
        table.refused(&stage, "route-unknown", "never was", asks).await;
    }
    let below = ["x", "tasks/r/x", "x/y/tasks"].map(|path| format!("{}/{path}", stage.address()));
    let below = below.iter().flat_map(|path| [Method::GET, Method::POST].map(|method| (method, path)));
    let below: Vec<Ask> = below.map(|(method, path)| stage.raw(At::Rest, method, path, None)).collect();
    table.refused(&stage, "route-unknown", "never was", below).await;
    // Not even text, once decoded.
    for (at, path) in [(At::A2a, "/a2a/%ff/ask"), (At::AgUi, "/agui/%ff/ask"), (At::Ours, "/threads/%ff/ask")] {
        let ask = stage.raw(at, Method::POST, path, Some("{}".to_owned()));
        table.refused(&stage, "route-unknown", "not UTF-8", [ask]).await;
    }
    let asks = ["/v1/runs/%ff", "/v1/runs/%ff/events", "/threads/%ff", "/threads/%ff/tree"].map(|path| stage.get(path));
    table.refused(&stage, "route-unknown", "not UTF-8", asks).await;
    let agent = format!("{key}/ask");
    for (at, method, path) in [
        (At::A2a, Method::GET, format!("/a2a/{agent}")),
        (At::A2a, Method::POST, format!("/a2a/{agent}/.well-known/agent-card.json")),
        (At::Rest, Method::GET, format!("/a2a/{agent}/message:send")),
        (At::Rest, Method::DELETE, format!("/a2a/{agent}/tasks/{}", paused.run)),
        (At::AgUi, Method::GET, format!("/agui/{agent}")),
        (At::Ours, Method::DELETE, format!("/threads/{agent}")),
        (At::Ours, Method::GET, "/tickets".to_owned()),
        (At::Ours, Method::POST, format!("/v1/runs/{}", paused.run)),
    ] {
        table.refused(&stage, "method-not-allowed", "another verb", [stage.raw(at, method, &path, None)]).await;
    }
    table.must(stage.puppet.was_told_nothing(), "a stray request was told to the agent");
}

fn card(stage: &Stage, agent: &str) -> Ask {
    stage.raw(At::A2a, Method::GET, &format!("/a2a/{agent}/.well-known/agent-card.json"), None)
}

/// A run of another agent must not be told from one that never was: word for word the
/// same, but for the id.
#[tokio::test]
async fn another_agents_task_is_told_in_the_words_of_none() {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let other = Puppet::attach(&stage.house, &SigningKey::from_seed([9; 32]), "echo").await;
    let there = Caller::of(&stage.house, &other.agent);
    for method in ["GetTask", "CancelTask", "SubscribeToTask", "SendMessage"] {
        let mut said = Vec::new();
        for id in [paused.run.as_str().to_owned(), nobody("run")] {
            let params = match method {
                "SendMessage" => message("x", json!({ "taskId": id }), json!({})),
                _ => json!({ "id": id }),
            };
            said.push(there.call(method, params).await.to_string().replace(&id, "ID"));
        }
        assert_eq!(said[0], said[1], "{method}");
    }
}

pub async fn threads(table: &mut Table) {
    let mut stage = Stage::open().await;
    let bound = stage.running().await;
    let members = |bag: Value| stage.speaks_there(&bound.thread, bag);
    table.refused(&stage, "not-a-member", "nobody in particular", members(json!({}))).await;
    table.refused(&stage, "not-a-member", "another head", members(stage.bag(&stranger()))).await;

    // The same run of a client's, with another body.
    let first = stage.agui(agui::body("mine", "first", stage.bag(&head())));
    assert_eq!(first.send(&stage).await.expect("taken").0, 200);
    stage.puppet.take().await;
    let other = agui::with(agui::body("mine", "first", stage.bag(&head())), json!({ "state": { "n": 1 } }));
    table.refused(&stage, "run-id-reused", "another body", [stage.agui(other)]).await;

    // A thread that has enough to do.
    let open = stage.caller.task("SendMessage", at_once(message("x", json!({}), json!({})))).await;
    let thread = open["contextId"].as_str().expect("a thread");
    stage.puppet.take().await;
    for _ in 0..wikala_witness::QUEUE_LIMIT {
        let more = message("x", json!({ "contextId": thread }), json!({}));
        stage.caller.task("SendMessage", at_once(more)).await;
    }
    table.refused(&stage, "queue-full", "one too many", stage.speaks_there(thread, json!({}))).await;
    table.must(stage.puppet.was_told_nothing(), "an utterance that was refused was told to the agent");
}

/// Two keys of one fingerprint cannot be made in a lifetime, so the second is written
/// into the record by hand.
pub async fn fingerprints(table: &mut Table) {
    let stage = Stage::open().await;
    let fingerprint = stage.agent.provider.fingerprint();
    let twin = stranger().public().to_hex();
    stage.tamper(&format!("INSERT INTO provider (key, fingerprint) VALUES (x'{twin}', x'{fingerprint}')"));
    let [told, streamed, run] = stage.speaks(stage.bag(&head()));
    let there = |ask: Ask, door: &str| Ask { path: format!("/{door}/{fingerprint}/ask"), ..ask };
    let threads = stage.post(&format!("/threads/{fingerprint}/ask"), json!({}));
    let card = card(&stage, &format!("{fingerprint}/ask"));
    let asks = [there(told, "a2a"), there(streamed, "a2a"), card, there(run, "agui"), threads];
    table.refused(&stage, "fingerprint-ambiguous", "two keys of one", asks).await;
    // By its whole key it is who it was.
    let whole = stage.post(&format!("/threads/{}/ask", stage.agent.provider), json!({}));
    assert_eq!(whole.send(&stage).await.expect("an answer").0, 201);
}
