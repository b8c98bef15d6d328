//! A stream that dies is never a clean end: what became of the work is asked, and only
//! then is there a verdict, with an event that says so.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use wikala_doors::client::Client;
use wikala_witness::{Dialect, Policy, RunId, RunView};

use super::added;
use super::fake::{Fake, Say, error, frame, status, task, whole};
use crate::house::TestHouse;

async fn scene(dialect: Dialect) -> (TestHouse, Fake, wikala_witness::AgentId) {
    let house = TestHouse::with(Policy { link_grace_s: 1, ..Policy::default() }).await;
    let fake = Fake::open().await;
    let id = added(&house, "far", dialect, &fake.url).await;
    (house, fake, id)
}

/// A message, answered whole.
async fn send(house: &TestHouse, id: &wikala_witness::AgentId, text: &str) -> Value {
    send_to(house, id, text, &Value::Null).await
}

/// The same, to a task that waits.
async fn send_to(house: &TestHouse, id: &wikala_witness::AgentId, text: &str, task: &Value) -> Value {
    let url = format!("{}/a2a/{}/{}", house.url, id.provider, id.name.as_str());
    let mut message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": text }] });
    if task.is_string() {
        message["taskId"] = task.clone();
    }
    let params = json!({ "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
    let (status, answer) = Client::new().post_json(&url, &body, &[("a2a-version", "1.0")]).await.expect("an answer");
    assert_eq!(status, 200);
    answer["result"]["task"].clone()
}

async fn view(house: &TestHouse, task: &Value) -> RunView {
    let run = RunId::parse(task["id"].as_str().expect("an id")).expect("ours");
    house.app.readers.read(move |reader| reader.run_for_operator(&run)).await.expect("known")
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or("none")
}

#[tokio::test]
async fn a_cut_stream_is_subscribed_again_and_goes_on_to_its_end() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    fake.say(
        "SendStreamingMessage",
        Say::Stream(vec![frame(json!({ "task": task("SUBMITTED") })), frame(status("WORKING"))]),
    )
    .say("SubscribeToTask", Say::Stream(vec![frame(json!({ "task": task("WORKING") })), frame(status("COMPLETED"))]));
    let task = send(&house, &id, "x").await;
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
    assert_eq!(fake.sent("SendStreamingMessage").len(), 1, "what may have arrived is not sent twice");
}

#[tokio::test]
async fn a_task_that_ended_meanwhile_is_read() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    fake.say("SendStreamingMessage", Say::Stream(vec![frame(json!({ "task": task("WORKING") }))]))
        .say("SubscribeToTask", error(-32004))
        .say("GetTask", whole(task("FAILED")));
    let told = send(&house, &id, "x").await;
    assert_eq!(state(&told), "TASK_STATE_FAILED");
    assert_eq!(view(&house, &told).await.reason.as_deref(), Some("failed"));
}

/// The grace is for an agent that does not answer, not for a task that takes longer.
#[tokio::test]
async fn an_agent_that_answers_is_asked_until_its_task_ends_and_told_once_that_it_works() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    fake.say("SendStreamingMessage", Say::Stream(vec![frame(json!({ "task": task("SUBMITTED") }))]));
    for state in ["WORKING", "WORKING", "WORKING", "COMPLETED"] {
        fake.say("SubscribeToTask", error(-32004)).say("GetTask", whole(task(state)));
    }
    let told = send(&house, &id, "x").await;
    assert_eq!(state(&told), "TASK_STATE_COMPLETED", "{:?}", view(&house, &told).await.reason);
    let run = RunId::parse(told["id"].as_str().expect("an id")).expect("ours");
    let entries = house.app.readers.read(move |reader| reader.entries_unchecked(&run, 0, 99)).await.expect("read");
    let words = entries.iter().filter(|recorded| matches!(recorded.entry, wikala_witness::Entry::Words(_)));
    assert_eq!(words.count(), 3, "submitted, working, completed");
}

#[tokio::test]
async fn an_agent_that_stays_silent_has_failed_after_the_grace() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    fake.say("SendStreamingMessage", Say::Stream(vec![frame(json!({ "task": task("WORKING") }))]));
    let told = send(&house, &id, "x").await;
    assert_eq!(state(&told), "TASK_STATE_FAILED");
    let reason = view(&house, &told).await.reason.expect("a reason");
    assert!(reason.starts_with("upstream_"), "{reason}");
}

#[tokio::test]
async fn what_is_no_a2a_answer_fails_the_run_with_its_reason() {
    let two = |one: &str, other: &str| json!({ one: task("COMPLETED"), other: status("WORKING")["statusUpdate"] });
    // What stands where a number belongs goes into no record and no answer.
    let loud = json!({ "error": { "code": "x".repeat(9999), "message": "no" } }).to_string();
    for (say, reason) in [
        (Say::Whole(500, "text/html", "<html>".to_owned()), "upstream_refused: HTTP 500"),
        (Say::Whole(200, "application/json", "{}".to_owned()), "upstream_refused: no A2A answer"),
        (error(-32600), "upstream_refused: error -32600 no"),
        (Say::Stream(vec!["nonsense".to_owned()]), "upstream_refused: no A2A answer"),
        (Say::Stream(vec![frame(json!({ "later": 1 }))]), "provider_event_malformed: "),
        (Say::Stream(vec![frame(two("task", "statusUpdate"))]), "provider_event_malformed: event: says several"),
        (Say::Stream(vec![frame(two("task", "status_update"))]), "provider_event_malformed: event: says several"),
        (Say::Whole(400, "application/json", loud), "upstream_refused: HTTP 400, error  no"),
        (Say::Stream(vec![format!("{{\"result\":{{}},\"result\":{{}}}}")]), "upstream_refused: no A2A answer"),
        (Say::Redirect("http://localhost:1/".to_owned()), "upstream_refused: redirected"),
        (Say::Stream(Vec::new()), "upstream_lost: "),
    ] {
        let (house, fake, id) = scene(Dialect::A2a).await;
        fake.say("SendStreamingMessage", say.clone());
        let told = send(&house, &id, "x").await;
        assert_eq!(state(&told), "TASK_STATE_FAILED", "{say:?}");
        let said = view(&house, &told).await.reason.expect("a reason");
        assert!(said.starts_with(reason), "{said}");
    }
}

#[tokio::test]
async fn an_ag_ui_stream_without_a_last_event_ends_in_an_error_event() {
    let started = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#.to_owned();
    for (say, code) in [
        (Say::Stream(vec![started.clone()]), "wikala.upstream-truncated"),
        (Say::Stream(Vec::new()), "wikala.upstream-truncated"),
        (Say::Whole(200, "application/json", "{}".to_owned()), "wikala.upstream-refused"),
        (Say::Whole(401, "application/json", "{}".to_owned()), "wikala.upstream-refused"),
        (Say::Redirect("//elsewhere.example/".to_owned()), "wikala.upstream-refused"),
        (Say::Stream(vec![started, r#"{"type":"CUSTOM","name":"wikala.x"}"#.to_owned()]), "wikala.failed"),
    ] {
        let (house, fake, id) = scene(Dialect::AgUi).await;
        fake.say("runId", say.clone());
        let url = format!("{}/agui/{}/{}", house.url, id.provider, id.name.as_str());
        let body =
            json!({ "threadId": "t", "runId": "r", "messages": [{ "id": "u", "role": "user", "content": "x" }] });
        let http = Client::new();
        let mut events = http.events(axum::http::Method::POST, &url, Some(&body), &[], None).await.expect("a stream");
        let mut last = Value::Null;
        while let Some(event) = events.next().await.expect("whole") {
            last = serde_json::from_str(&event.data).expect("JSON");
        }
        assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!(code)), "{say:?}: {last}");
    }
}

#[tokio::test]
async fn a_redirect_within_the_origin_keeps_method_and_body() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    fake.say("/here", Say::Stream(vec![frame(json!({ "task": task("COMPLETED") }))]));
    fake.say("SendStreamingMessage", Say::Redirect("/here".to_owned()));
    assert_eq!(state(&send(&house, &id, "x").await), "TASK_STATE_COMPLETED");
    let sent = fake.sent("SendStreamingMessage");
    assert_eq!((sent[0].path.as_str(), sent[1].path.as_str()), ("/", "/here"));
    assert_eq!(sent[0].body, sent[1].body);
}

#[tokio::test]
async fn nothing_of_a_callers_headers_leaves() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    fake.say("SendStreamingMessage", Say::Stream(vec![frame(json!({ "task": task("COMPLETED") }))]));
    let url = format!("{}/a2a/{}/{}", house.url, id.provider, id.name.as_str());
    let params = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
    let headers = [
        ("a2a-version", "1.0"),
        ("authorization", "Bearer secret"),
        ("cookie", "secret=1"),
        ("x-forwarded-for", "1.2.3.4"),
        ("forwarded", "for=1.2.3.4"),
        ("x-api-key", "secret"),
        ("wikala-run-id", "x"),
    ];
    Client::new().post_json(&url, &body, &headers).await.expect("an answer");
    let sent = &fake.sent("SendStreamingMessage")[0];
    let mut names: Vec<&str> = sent.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a2a-version", "accept", "accept-encoding", "content-length", "content-type", "host"]);
}

#[tokio::test]
async fn a_stop_is_asked_of_the_task_and_told_as_the_task_tells_it() {
    let house =
        TestHouse::made(Policy::default(), |settings| settings.stop_time = std::time::Duration::from_secs(10)).await;
    let fake = Fake::open().await;
    let id = added(&house, "far", Dialect::A2a, &fake.url).await;
    fake.say("SendStreamingMessage", Say::Hang(vec![frame(json!({ "task": task("WORKING") }))]))
        .say("CancelTask", whole(task("CANCELED")));
    let url = format!("{}/a2a/{}/{}", house.url, id.provider, id.name.as_str());
    let call = async |method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Client::new().post_json(&url, &body, &[("a2a-version", "1.0")]).await.expect("an answer").1["result"].clone()
    };
    let params = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] }, "configuration": { "returnImmediately": true } });
    let run = call("SendMessage", params).await["task"]["id"].clone();
    let stopped = call("CancelTask", json!({ "id": run })).await;
    assert_eq!(state(&stopped), "TASK_STATE_CANCELED");
    assert!(fake.sent("CancelTask")[0].body.contains("\"params\":{\"id\":\"t\"}"));
    // It has had its last word: its stream is not held open for the sake of it.
    let none = || fake.listened.load(Ordering::SeqCst) == 0;
    crate::house::until("nobody listens any more", none).await;
}

/// A gateway's 503 in front of an agent says nothing of the task behind it.
#[tokio::test]
async fn a_gateway_that_is_busy_has_said_nothing_of_the_task() {
    for busy in [503, 429, 408] {
        let (house, fake, id) = scene(Dialect::A2a).await;
        fake.say("SendStreamingMessage", Say::Stream(vec![frame(json!({ "task": task("WORKING") }))]))
            .say("SubscribeToTask", Say::Whole(busy, "text/html", "<html>".to_owned()))
            .say("SubscribeToTask", Say::Stream(vec![frame(status("COMPLETED"))]));
        let told = send(&house, &id, "x").await;
        assert_eq!(state(&told), "TASK_STATE_COMPLETED", "{busy}: {:?}", view(&house, &told).await.reason);
    }
}

/// What went on since is a question of its own, in the same words.
#[tokio::test]
async fn a_question_asked_again_in_the_same_words_is_asked() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    let asks = || frame(json!({ "task": task("INPUT_REQUIRED") }));
    fake.say("\"first\"", Say::Stream(vec![asks()]))
        .say("\"second\"", Say::Stream(vec![asks(), frame(status("WORKING")), asks()]))
        .say("\"third\"", Say::Stream(vec![frame(status("COMPLETED"))]));
    let mut told = send(&house, &id, "first").await;
    for (text, then) in [("second", "TASK_STATE_INPUT_REQUIRED"), ("third", "TASK_STATE_COMPLETED")] {
        assert_eq!(state(&told), "TASK_STATE_INPUT_REQUIRED");
        told = send_to(&house, &id, text, &told["id"]).await;
        assert_eq!(state(&told), then, "{:?}", view(&house, &told).await.reason);
    }
}

/// protobuf's own names for the ids: SDKs read them, and one could be another run's.
#[tokio::test]
async fn no_second_spelling_of_an_id_is_told() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    let mut told = task("COMPLETED");
    told["context_id"] = json!("theirs");
    told["status"]["message"] = json!({ "messageId": "m", "task_id": "theirs", "context_id": "theirs" });
    told["history"] = json!([{ "messageId": "h", "task_id": "theirs" }]);
    let mut first = status("WORKING");
    first["statusUpdate"]["task_id"] = json!("theirs");
    fake.say("SendStreamingMessage", Say::Stream(vec![frame(first), frame(json!({ "task": told }))]));
    let told = send(&house, &id, "x").await;
    assert_eq!(state(&told), "TASK_STATE_COMPLETED");
    assert!(!told.to_string().contains("theirs"), "{told}");
}

/// A stop reaches the leg that is under way, however soon after another it began.
#[tokio::test]
async fn a_stop_reaches_the_leg_that_is_under_way() {
    let (house, fake, id) = scene(Dialect::A2a).await;
    let url = format!("{}/a2a/{}/{}", house.url, id.provider, id.name.as_str());
    for round in 1..=40 {
        fake.say("\"ask\"", Say::Stream(vec![frame(json!({ "task": task("INPUT_REQUIRED") }))]))
            .say("\"go on\"", Say::Hang(vec![frame(json!({ "task": task("WORKING") }))]))
            .say("CancelTask", whole(task("CANCELED")));
        let asked = send(&house, &id, "ask").await;
        let message =
            json!({ "messageId": "g", "taskId": asked["id"], "role": "ROLE_USER", "parts": [{ "text": "go on" }] });
        let call = async |method: &str, params: Value| {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            Client::new().post_json(&url, &body, &[("a2a-version", "1.0")]).await.expect("an answer").1
        };
        let configuration = json!({ "returnImmediately": true });
        call("SendMessage", json!({ "message": message, "configuration": configuration })).await;
        crate::house::until("the second leg is heard", || fake.listened.load(Ordering::SeqCst) == 1).await;
        call("CancelTask", json!({ "id": asked["id"] })).await;
        crate::house::until("it is asked to stop", || fake.sent("CancelTask").len() == round).await;
        crate::house::until("nobody listens any more", || fake.listened.load(Ordering::SeqCst) == 0).await;
    }
}

/// Nothing has left that could be there twice.
#[tokio::test]
async fn an_agent_that_restarts_is_waited_for() {
    let house = TestHouse::with(Policy::default()).await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let id = added(&house, "far", Dialect::AgUi, &format!("http://{free}")).await;
    let later = async {
        // Long enough for one try, and the test holds whether it was or not.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let fake = Fake::at(&free.to_string()).await;
        let end = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;
        fake.say("runId", Say::Stream(vec![end.to_owned()]));
    };
    let (told, ()) = tokio::join!(send(&house, &id, "x"), later);
    assert_eq!(state(&told), "TASK_STATE_COMPLETED", "{:?}", view(&house, &told).await.reason);
}
