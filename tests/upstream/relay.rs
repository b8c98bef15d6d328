//! Same dialect passes: not one byte changes but at the named places, in either direction.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_certs::Proof;
use wikala_chain::{VerifiedChain, nonce};
use wikala_doors::client::Client;
use wikala_witness::{AgentId, Dialect, Policy};

use super::fake::{Fake, Say, frame, status};
use super::{added, key};
use crate::house::TestHouse;

const URN: &str = "urn:wikala:witness:1";

async fn raw(url: &str, body: &str, headers: &[(&str, &str)]) -> Vec<String> {
    let http = Client::new();
    let (status, received, answer) =
        http.send(Method::POST, url, Some(body.as_bytes().to_vec()), headers, None).await.expect("an answer");
    let mut events = wikala_doors::client::Events::over(received, answer, 1 << 20);
    let mut all = Vec::new();
    while let Some(event) = events.next().await.expect("whole") {
        all.push(event.data);
    }
    assert_eq!(status, 200, "{all:?}");
    all
}

/// What only we may add at the end of an object, taken out again.
fn without_note(text: &str, note: &str) -> String {
    text.replacen(&format!(",\"metadata\":{{\"{URN}\":{note}}}"), "", 1).replacen(&format!(",\"{URN}\":{note}"), "", 1)
}

#[tokio::test]
async fn an_a2a_request_and_its_events_change_at_the_named_places_and_nowhere_else() {
    let house = TestHouse::open().await;
    let fake = Fake::open().await;
    let id = added(&house, "far", Dialect::A2a, &fake.url).await;
    let url = format!("{}/a2a/{}/far", house.url, id.provider);
    // As no serialiser of ours would write it: order, spaces, escapes, numbers, unknown members.
    let params = r#"{ "later":{"n":1.10,"big":12345678901234567890123} , "message" : {"parts":[{"text":"h\u00e9","future":1e2}, {"data":null}],
        "role":"ROLE_USER", "messageId":"m-1" ,"metadata":{"z":1,"a":[ 1.0 ]},"extensions":["urn:x"] }, "metadata":{"own":  0.10} }"#;
    let events = [
        r#"{"task":{"id":"up-task","contextId":"up-context", "n":1.10,"status":{"state":"TASK_STATE_SUBMITTED","timestamp":"2026-01-01T00:00:00.000001Z"}, "history":[ {"messageId":"m-1","taskId":"up-task","contextId":"up-context","role":"ROLE_USER","parts":[{"text":"x"}]}]}}"#,
        r#"{"statusUpdate":{ "contextId":"up-context","taskId":"up-task","status":{"state":"TASK_STATE_PONDERING","message":{"messageId":"m2","taskId":"up-task","contextId":"up-context","role":"ROLE_AGENT","parts":[{"text":"\u00e9"}]}},"metadata":{"progress":0.50}}}"#,
        r#"{"artifactUpdate":{"taskId":"up-task","contextId":"up-context","artifact":{"artifactId":"a","parts":[{"data":{"count":42.0,"k":null}}],"metadata":{"deep":{"er":1e400}}},"append":false,"future":true}}"#,
        r#"{"statusUpdate":{"taskId":"up-task","contextId":"up-context","status":{"state":3},"final":true}}"#,
    ];
    let frames = events.iter().map(|event| format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{event}}}"));
    fake.say("SendStreamingMessage", Say::Stream(frames.collect()));
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"SendStreamingMessage\",\"params\":{params}}}");
    // What a caller activates reaches an agent that declares it, and no more of its headers.
    let headers = [("a2a-version", "1.0"), ("a2a-extensions", "urn:undeclared, urn:optional"), ("cookie", "c=1")];
    let told = raw(&url, &body, &headers).await;

    let sent = fake.sent("SendStreamingMessage").remove(0);
    assert_eq!(
        sent.body,
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"SendStreamingMessage\",\"params\":{params}}}"),
        "an unsigned request of a new thread has no place to edit"
    );
    assert_eq!(sent.headers["a2a-extensions"], "urn:optional, urn:x");
    assert!(sent.headers.get("cookie").is_none());

    assert_eq!(told.len(), events.len(), "{told:?}");
    let first: Value = serde_json::from_str(&told[0]).expect("JSON");
    let note = &first["result"]["task"]["metadata"][URN];
    let (run, thread) = (note["runId"].as_str().expect("named"), note["threadId"].as_str().expect("named"));
    for (told, event) in told.iter().zip(events) {
        let expect = event.replace("up-task", run).replace("up-context", thread);
        let expect = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{expect}}}");
        assert_eq!(without_note(told, &note.to_string()), expect);
    }
}

/// A question is a question whatever its state is called: AUTH_REQUIRED grants nothing either.
#[tokio::test]
async fn a_chain_rides_along_with_our_hop_and_proofs_stay_here() {
    for state in ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"] {
        a_question_is_its_heads(state).await;
    }
}

async fn a_question_is_its_heads(state: &str) {
    let house = TestHouse::open().await;
    let fake = Fake::open().await;
    let id = added(&house, "far", Dialect::A2a, &fake.url).await;
    let url = format!("{}/a2a/{}/far", house.url, id.provider);
    let (head, stranger) = (key(1), key(2));
    let asked = json!({ "state": state, "timestamp": "2026-01-01T00:00:01Z",
        "message": { "messageId": "q", "taskId": "up", "contextId": "ctx", "role": "ROLE_AGENT", "parts": [{ "text": "which?" }] } });
    let task = |status: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": { "id": "up", "contextId": "ctx", "status": status } } })
            .to_string()
    };
    fake.say("\"open\"", Say::Stream(vec![task(asked.clone())]));
    let call = async |message: Value, bag: Value| {
        let params = json!({ "message": message, "metadata": bag });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
        Client::new().post_json(&url, &body, &[("a2a-version", "1.0")]).await.expect("an answer").1
    };
    let message = |id: &str, task: Option<&str>| {
        let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": id }] });
        if let Some(task) = task {
            message["taskId"] = task.into();
        }
        message
    };
    let chain = VerifiedChain::start(&head);
    let now = wikala_certs::Moment::from_secs(house.now());
    let proof = |proof: Proof| -> Value { serde_json::from_str(&proof.to_json()).expect("JSON") };
    let carried = || {
        let presenter =
            Proof::present(&head, &house.app.public_key(), &id.provider, &id.name, Some(chain.tip()), &nonce(), now);
        json!({ "actorChain": chain.tokens().collect::<Vec<_>>(), "presenter": proof(presenter), "mine": 1 })
    };
    let opened = call(message("open", None), carried()).await["result"]["task"].clone();
    assert_eq!(opened["status"]["state"], state, "{opened}");
    let run = opened["id"].as_str().expect("an id").to_owned();

    let sent: Value = serde_json::from_str(&fake.sent("\"open\"")[0].body).expect("JSON");
    let bag = sent["params"]["metadata"].as_object().expect("a bag");
    assert_eq!(bag.keys().collect::<Vec<_>>(), ["actorChain", "mine"]);
    assert_eq!(bag["actorChain"].as_array().expect("a list").len(), 2, "the caller's hop and ours");

    // Another participant's words, an act of somebody else: the question stands.
    for (bag, reason) in [
        (json!({}), "ACT_REQUIRED"),
        (json!({ "resolution": proof(Proof::resolve(&stranger, &run, now)) }), "NOT_AN_AUTHORITY"),
    ] {
        let no = call(message("steal", Some(&run)), bag).await;
        assert_eq!(no["error"]["data"][0]["reason"], reason, "{no}");
    }
    assert!(fake.sent("steal").is_empty(), "what is refused here never leaves");

    let done = json!({ "state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:02Z" });
    // The old question once more, before the answer is taken up.
    fake.say("\"answer\"", Say::Stream(vec![task(asked), task(done)]));
    let resolution = json!({ "resolution": proof(Proof::resolve(&head, &run, now)) });
    let answered = call(message("answer", Some(&run)), resolution).await["result"]["task"].clone();
    assert_eq!(answered["status"]["state"], "TASK_STATE_COMPLETED", "{answered}");
    let sent: Value = serde_json::from_str(&fake.sent("\"answer\"")[0].body).expect("JSON");
    let told = &sent["params"]["message"];
    assert_eq!((&told["taskId"], &told["contextId"]), (&json!("up"), &json!("ctx")));
    let bag = sent["params"]["metadata"].as_object().expect("a bag");
    assert_eq!(bag.keys().collect::<Vec<_>>(), ["actorChain"], "the run's own chain, and no proof");

    // The callers' side of the talk is history too, before the agent tells its task anew.
    fake.say("\"ask again\"", Say::Stream(vec![task(json!({ "state": state, "message": { "messageId": "q2" } }))]))
        .say("\"fine\"", Say::Stream(vec![frame(status("COMPLETED"))]));
    let opened = call(message("ask again", None), json!({})).await["result"]["task"].clone();
    let answered = call(message("fine", opened["id"].as_str()), json!({})).await["result"]["task"].clone();
    let history = answered["history"].as_array().expect("a list").iter();
    assert_eq!(history.map(|one| one["messageId"].clone()).collect::<Vec<_>>(), ["q2", "fine"], "{answered}");

    // What it refers to is told by the agent's own names, and only what is the agent's.
    // Another head's task is not his to point the agent at.
    let mut refers = message("refer", None);
    refers["referenceTaskIds"] = json!([run, "run_000000000000000000000000", "theirs"]);
    for (n, bag, told) in [(0, carried(), json!(["up"])), (1, json!({}), Value::Null)] {
        fake.say("\"refer\"", Say::Stream(vec![task(json!({ "state": "TASK_STATE_COMPLETED" }))]));
        call(refers.clone(), bag).await;
        let sent: Value = serde_json::from_str(&fake.sent("\"refer\"")[n].body).expect("JSON");
        assert_eq!(sent["params"]["message"]["referenceTaskIds"], told);
    }
}

#[tokio::test]
async fn an_ag_ui_body_changes_at_the_named_places_and_nowhere_else() {
    let house = TestHouse::with(Policy::default()).await;
    let fake = Fake::open().await;
    let id: AgentId = added(&house, "far", Dialect::AgUi, &fake.url).await;
    let url = format!("{}/agui/{}/far", house.url, id.provider);
    let body = r#"{ "runId":"mine-r", "threadId" : "mine-t","protocolVersion":"1.0", "state":{"n":1.10},"messages":[ {"id":"u","role":"user","content":"h\u00e9","later":1e2}],
        "tools":null,"forwardedProps":{"mine":  0.10 } ,"unknown":[1.0] }"#;
    let events = [
        r#"{"type":"RUN_STARTED","threadId":"their-t", "runId":"their-r","input":{"x":1.10}}"#,
        r#"{"type":"SOMETHING_NEW","big":12345678901234567890123 , "f":1.10}"#,
        r#"{"type":"RUN_FINISHED","threadId":"their-t","runId":"their-r","result":{"n":1.0}}"#,
    ];
    // Some servers frame as the standard allows and clients do not read.
    fake.say(
        "mine",
        Say::Whole(200, "text/event-stream", events.map(|e| format!(": hi\r\ndata: {e}\r\n\r\n")).concat()),
    );
    let told = raw(&url, body, &[]).await;
    let sent = fake.sent("mine").remove(0);
    let first: Value = serde_json::from_str(&told[0]).expect("JSON");
    let note = &first["metadata"]["wikala"];
    let (run, thread) = (note["runId"].as_str().expect("named"), note["threadId"].as_str().expect("named"));
    let input: Value = serde_json::from_str(&sent.body).expect("JSON");
    let theirs = input["threadId"].as_str().expect("named");
    assert!(theirs.len() == 36 && !theirs.contains(thread), "a UUID, no id of ours: {theirs}");
    assert_eq!(sent.body, body.replace("mine-r", run).replace("mine-t", theirs));
    assert_eq!(
        (&sent.headers["accept"], &sent.headers["accept-encoding"]),
        (&"text/event-stream".parse().unwrap(), &"identity".parse().unwrap())
    );
    assert_eq!(told[1], events[1]);
    let note = |event: &str| event.replacen(&format!(",\"metadata\":{{\"wikala\":{note}}}"), "", 1);
    for n in [0, 2] {
        assert_eq!(note(&told[n]), events[n].replace("their-r", "mine-r").replace("their-t", "mine-t"));
    }
}
