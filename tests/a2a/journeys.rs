//! What works: sending, streaming, reading, pausing and answering, stopping.

use serde_json::{Value, json};
use wikala_doors::client::Signer;
use wikala_witness::Fact;

use super::*;

#[tokio::test]
async fn a_send_waits_for_the_end_and_the_task_is_read_again() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let sent = message("hello", json!({ "x-unknown": { "n": 1.0 } }), json!({}));
    let sending = caller.spawn("SendMessage", sent.clone());
    let delivery = puppet.take().await;
    let run = delivery.run.clone();
    let params: Value = serde_json::from_str(&delivery.leg.words.text).unwrap();
    assert_eq!(params, sent, "the agent gets the request as it was");
    puppet.begins(&run).await;
    puppet.say(&run, Fact::Said, r#"{"type":"CUSTOM","name":"n","value":{"n":1.50}}"#).await;
    puppet.writes(&run, "m1", &["hel", "lo"]).await;
    puppet.ends(&run).await;
    let answer = sending.await.unwrap();
    let task = &answer["result"]["task"];
    assert_eq!((id(task), state(task)), (run.to_string(), "TASK_STATE_COMPLETED"));
    assert_eq!(task["artifacts"], json!([{ "artifactId": "m1", "parts": [{ "text": "hello" }] }]));
    assert_eq!(task["metadata"]["agui_events"], json!([{ "type": "CUSTOM", "name": "n", "value": { "n": 1.5 } }]));
    assert_eq!(task["history"][0], sent["message"], "the caller's message as received");
    assert_eq!(task["history"][1]["role"], "ROLE_AGENT");
    let note = &task["metadata"]["urn:wikala:witness:1"];
    assert_eq!((&note["runId"], &note["asks"], &note["authorities"]), (&task["id"], &json!([]), &json!([])));
    assert_eq!(caller.get(run.as_str()).await, *task);
    assert!(task["status"]["timestamp"].as_str().unwrap().ends_with(".000Z"));

    for (length, expect) in [(0, Value::Null), (1, json!([task["history"][1]])), (9, task["history"].clone())] {
        let got = caller.task("GetTask", json!({ "id": run.as_str(), "historyLength": length })).await;
        assert_eq!(got["history"], expect, "historyLength {length}");
    }
}

#[tokio::test]
async fn returning_at_once_shows_the_task_as_it_stands() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let task = caller.task("SendMessage", at_once(message("x", json!({}), json!({})))).await;
    assert_eq!(state(&task), "TASK_STATE_SUBMITTED");
    let run = puppet.take().await.run;
    assert_eq!(state(&caller.get(run.as_str()).await), "TASK_STATE_WORKING");
}

#[tokio::test]
async fn a_stream_tells_each_thing_once_and_one_final_status() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let mut events =
        caller.stream("SendStreamingMessage", message("x", json!({}), caller.bag(&head(), house.now()))).await;
    assert!(events.headers["wikala-run-id"].to_str().unwrap().starts_with("run_"));
    let run = puppet.take().await.run;
    assert_eq!(events.headers["wikala-run-id"], run.as_str());
    puppet.begins(&run).await;
    puppet.say(&run, Fact::Said, "{\"type\":\"STEP_STARTED\",\n \"stepName\":\"s\", \"n\":1.0}").await;
    puppet.writes(&run, "m1", &["a", "b"]).await;
    puppet.ends(&run).await;
    let told = rest(&mut events).await;
    let expect = [
        "task TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
        "TASK_STATE_WORKING +event",
        "m1 \"a\" append=false last=false",
        "m1 \"b\" append=true last=false",
        "m1 \"\" append=true last=true",
        "TASK_STATE_COMPLETED",
    ];
    assert_eq!(words(&told), expect);
    assert!(told.iter().all(|envelope| envelope["id"] == 7 && envelope["jsonrpc"] == "2.0"));
    let event = &told[2]["result"]["statusUpdate"]["metadata"]["agui_event"];
    assert_eq!(event.to_string(), r#"{"type":"STEP_STARTED","stepName":"s","n":1.0}"#, "as the provider wrote it");
    let note = &told[0]["result"]["task"]["metadata"]["urn:wikala:witness:1"];
    assert_eq!(note["authorities"], json!([head().public().to_hex(), provider().public().to_hex()]));
    assert!(note["dispatch"].is_string(), "the hop we signed goes with a chained run");
}

#[tokio::test]
async fn a_failure_is_one_status_with_its_reason() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let mut events = caller.stream("SendStreamingMessage", message("x", json!({}), json!({}))).await;
    let run = puppet.take().await.run;
    puppet.begins(&run).await;
    puppet.say(&run, Fact::Failed("no luck".into()), r#"{"type":"RUN_ERROR","message":"no luck","code":"E1"}"#).await;
    puppet.finish(&run).await;
    let told = rest(&mut events).await;
    assert_eq!(words(&told), ["task TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_FAILED +event"]);
    let update = &told[2]["result"]["statusUpdate"];
    assert_eq!(update["status"]["message"]["messageId"], format!("{run}-error"));
    assert_eq!(update["status"]["message"]["parts"], json!([{ "text": "no luck" }]));
    assert_eq!(update["metadata"]["agui_event"]["code"], "E1");
    assert_eq!(state(&caller.get(run.as_str()).await), "TASK_STATE_FAILED");
}

#[tokio::test]
async fn an_agent_that_is_offline_fails_the_task_on_record() {
    let house = TestHouse::open().await;
    let puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let link = puppet.link;
    house.app.desk.ask(move |w, now| w.detach(now, link)).await.unwrap();
    house.advance(31).await;
    let mut events = caller.stream("SendStreamingMessage", message("x", json!({}), json!({}))).await;
    let told = rest(&mut events).await;
    assert_eq!(words(&told), ["task TASK_STATE_SUBMITTED", "TASK_STATE_FAILED"]);
    assert_eq!(told[1]["result"]["statusUpdate"]["status"]["message"]["parts"][0]["text"], "agent_offline");
    let task = caller.task("SendMessage", message("x", json!({}), json!({}))).await;
    assert_eq!(state(&task), "TASK_STATE_FAILED");
}

#[tokio::test]
async fn a_pause_is_answered_by_its_head_and_the_answer_is_replayed_not_repeated() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let caller = Caller::of(&house, &puppet.agent);
    let sending = caller.spawn("SendMessage", message("ask", json!({}), caller.bag(&head(), house.now())));
    let run = puppet.takes_and_asks(&["q1"]).await;
    let paused = sending.await.unwrap()["result"]["task"].clone();
    assert_eq!(state(&paused), "TASK_STATE_INPUT_REQUIRED");
    let asked = &paused["status"]["message"];
    assert_eq!(asked["parts"][0], json!({ "text": "q1?" }));
    assert_eq!(asked["parts"][1]["data"]["responseSchema"], json!({ "max": 1.0, "not": { "const": "misfit" } }));
    assert_eq!(paused["metadata"]["interrupts"][0]["id"], "q1");
    assert_eq!(paused["metadata"]["urn:wikala:witness:1"]["asks"], json!(["q1"]));

    // A protobuf SDK writes the timestamp with a fraction.
    let proof = resolve(&head(), run.as_str(), house.now()).to_string();
    let proof = proof.replace(&house.now().to_string(), &format!("{}.0", house.now()));
    let ids = json!({ "taskId": run.as_str(), "contextId": paused["contextId"] });
    let mut reply = message("left", ids, json!({}));
    reply["metadata"] = json!({ "resolution": serde_json::from_str::<Value>(&proof).unwrap() });
    assert!(reply.to_string().contains(&format!("{}.0", house.now())), "{reply}");
    let answering = caller.spawn("SendMessage", reply.clone());
    let delivery = puppet.take().await;
    assert_eq!(delivery.leg.reply.as_ref().unwrap()[0].payload.as_deref(), Some("\"left\""));
    puppet.begins(&run).await;
    puppet.writes(&run, "m2", &["went left"]).await;
    puppet.ends(&run).await;
    let task = answering.await.unwrap()["result"]["task"].clone();
    assert_eq!(
        (state(&task), &task["artifacts"][0]["parts"][0]["text"]),
        ("TASK_STATE_COMPLETED", &json!("went left"))
    );
    let roles: Vec<_> = task["history"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["ROLE_USER", "ROLE_AGENT", "ROLE_USER", "ROLE_AGENT"]);
    assert_eq!(task["history"][1], *asked);
    assert_eq!(task["history"][2], reply["message"]);

    house.advance(600).await;
    let before = record(&house, &puppet.agent).await;
    let again = caller.task("SendMessage", reply.clone()).await;
    assert_eq!(again, task, "the stored result, also after the window");
    let mut events = caller.stream("SendStreamingMessage", reply.clone()).await;
    let told = rest(&mut events).await;
    assert_eq!(words(&told)[..2], ["task TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"]);
    assert_eq!(word(told.last().unwrap()), "TASK_STATE_COMPLETED");
    let mut other = reply.clone();
    other["message"]["parts"] = json!([{ "text": "right" }]);
    let lost = caller.call("SendMessage", other).await;
    assert_eq!(code(&lost), "already-answered");
    let info = &lost["error"]["data"][0]["metadata"];
    assert_eq!(info["answeredBy"], head().public().to_hex());
    assert_eq!(record(&house, &puppet.agent).await, before);
}

#[tokio::test]
async fn the_provider_answers_its_own_ask_with_a_data_part_and_two_asks_take_entries() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let caller = Caller::of(&house, &puppet.agent);
    let mut events =
        caller.stream("SendStreamingMessage", message("ask", json!({}), caller.bag(&head(), house.now()))).await;
    let run = puppet.takes_and_asks(&["a", "b"]).await;
    let told = rest(&mut events).await;
    assert_eq!(words(&told), ["task TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"]);
    let entries = json!([
        { "interruptId": "b", "status": "resolved", "payload": { "n": 2 } }, { "interruptId": "a", "status": "cancelled" },
    ]);
    let bag = json!({ "resolution": resolve(&provider(), run.as_str(), house.now()) });
    let mut reply = message("", json!({ "taskId": run.as_str() }), bag);
    reply["message"]["parts"] = json!([{ "data": entries }]);
    let task = caller.task("SendMessage", at_once(reply)).await;
    assert_eq!(state(&task), "TASK_STATE_SUBMITTED");
    let items = puppet.take().await.leg.reply.unwrap();
    let items: Vec<_> = items.iter().map(|item| (item.id.as_str(), item.payload.as_deref(), item.abandoned)).collect();
    assert_eq!(items, [("b", Some("{\"n\":2}"), false), ("a", None, true)]);
}

#[tokio::test]
async fn a_tool_call_left_open_is_input_required_and_never_completed_first() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "tool").await;
    let caller = Caller::of(&house, &puppet.agent);
    let mut events = caller.stream("SendStreamingMessage", message("tool", json!({}), json!({}))).await;
    let run = puppet.take().await.run;
    puppet.begins(&run).await;
    let start = r#"{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"look"}"#;
    puppet.say(&run, Fact::CallOpened("c1".into()), start).await;
    puppet.say(&run, Fact::Said, r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"at\":1}"}"#).await;
    puppet.say(&run, Fact::Said, r#"{"type":"TOOL_CALL_END","toolCallId":"c1"}"#).await;
    puppet.ends(&run).await;
    let told = rest(&mut events).await;
    let statuses: Vec<_> = words(&told).into_iter().filter(|word| !word.contains("event")).collect();
    assert_eq!(statuses, ["task TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"]);
    let last = &told.last().unwrap()["result"]["statusUpdate"];
    assert_eq!(last["metadata"]["pendingToolCalls"], json!(["c1"]));
    let call = &last["status"]["message"]["parts"][0]["data"];
    assert_eq!(*call, json!({ "toolCallId": "c1", "toolCallName": "look", "args": "{\"at\":1}" }));
    // No head at all: whoever knows the id may answer.
    let task = caller.task("SendMessage", at_once(message("seen", json!({ "taskId": run.as_str() }), json!({})))).await;
    assert_eq!(state(&task), "TASK_STATE_SUBMITTED");
}

#[tokio::test]
async fn a_subscriber_stays_through_a_pause_and_all_are_told_the_same() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let caller = Caller::of(&house, &puppet.agent);
    let sending = caller.spawn("SendMessage", message("ask", json!({}), json!({})));
    let run = puppet.takes_and_asks(&["q"]).await;
    sending.await.unwrap();
    let subscribe = || caller.stream("SubscribeToTask", json!({ "id": run.as_str() }));
    let (mut one, mut two) = (subscribe().await, subscribe().await);
    let first = one.next().await.unwrap().unwrap();
    assert_eq!(word(&serde_json::from_str(&first.data).unwrap()), "task TASK_STATE_INPUT_REQUIRED");
    caller.task("SendMessage", at_once(message("yes", json!({ "taskId": run.as_str() }), json!({})))).await;
    puppet.echoes("done").await;
    let told = rest(&mut one).await;
    let expect = [
        "TASK_STATE_WORKING",
        "m1 \"done\" append=false last=false",
        "m1 \"\" append=true last=true",
        "TASK_STATE_COMPLETED",
    ];
    assert_eq!(words(&told), expect);
    assert_eq!(rest(&mut two).await[1..], told);
    let over = caller.call("SubscribeToTask", json!({ "id": run.as_str() })).await;
    assert_eq!(number(&over), -32004);
    assert_eq!(number(&caller.call("SubscribeToTask", json!({ "id": "run_x" })).await), -32001);
}

#[tokio::test]
async fn a_running_task_is_asked_to_stop_and_a_waiting_one_stops() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "slow").await;
    let caller = Caller::of(&house, &puppet.agent);
    let mut events =
        caller.stream("SendStreamingMessage", message("slow", json!({}), caller.bag(&head(), house.now()))).await;
    let run = puppet.take().await.run;
    puppet.begins(&run).await;
    let stop = json!({ "id": run.as_str(), "metadata": { "cancel": cancel(&head(), run.as_str(), house.now()) } });
    let task = caller.task("CancelTask", stop.clone()).await;
    assert_eq!(state(&task), "TASK_STATE_WORKING");
    assert_eq!(task["metadata"]["funduq/cancelRequested"], true);
    assert_eq!(puppet.asked_to_stop().await, run);
    assert_eq!(state(&caller.task("CancelTask", stop.clone()).await), "TASK_STATE_WORKING", "the same act again");
    let fact = Fact::Ended { questions: vec![], pending: None, cancelled: true };
    puppet.say(&run, fact, r#"{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}"#).await;
    puppet.finish(&run).await;
    let told = rest(&mut events).await;
    let expect = ["task TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_WORKING", "TASK_STATE_CANCELED"];
    assert_eq!(words(&told), expect);
    assert_eq!(told[2]["result"]["statusUpdate"]["metadata"]["funduq/cancelRequested"], true);
    let again = json!({ "id": run.as_str(), "metadata": { "cancel": cancel(&head(), run.as_str(), house.now() + 1) } });
    assert_eq!(number(&caller.call("CancelTask", again).await), -32002);

    let sending = caller.spawn("SendMessage", message("ask", json!({}), caller.bag(&head(), house.now())));
    let run = puppet.takes_and_asks(&["q"]).await;
    sending.await.unwrap();
    let stop = json!({ "id": run.as_str(), "metadata": { "cancel": cancel(&head(), run.as_str(), house.now()) } });
    let task = caller.task("CancelTask", stop).await;
    assert_eq!((state(&task), &task["metadata"]["urn:wikala:witness:1"]["asks"]), ("TASK_STATE_CANCELED", &json!([])));
}

#[tokio::test]
async fn a_closed_socket_is_not_a_cancel() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "slow").await;
    let caller = Caller::of(&house, &puppet.agent);
    let sending = caller.spawn("SendMessage", message("slow", json!({}), json!({})));
    let run = puppet.take().await.run;
    sending.abort();
    let mut events = caller.stream("SubscribeToTask", json!({ "id": run.as_str() })).await;
    events.next().await.unwrap();
    drop(events);
    puppet.begins(&run).await;
    puppet.ends(&run).await;
    assert_eq!(state(&caller.get(run.as_str()).await), "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn lists_page_filter_and_enumerate_to_nobody() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let mut context = Value::Null;
    let mut runs = Vec::new();
    for n in 0..5 {
        let more = if n == 0 { json!({}) } else { json!({ "contextId": context }) };
        let sending = caller.spawn("SendMessage", message("x", more, caller.bag(&head(), house.now())));
        runs.push(puppet.echoes("x").await.to_string());
        context = sending.await.unwrap()["result"]["task"]["contextId"].clone();
        house.advance(10).await;
    }
    runs.reverse();
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = caller.call("ListTasks", json!({ "contextId": context, "pageSize": 2, "pageToken": token })).await;
        let page = &page["result"];
        assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(5), &json!(2)));
        for task in page["tasks"].as_array().unwrap() {
            assert!(task.get("artifacts").is_none() && task.get("history").is_none());
            seen.push(id(task));
        }
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, runs, "newest first, none twice, none left out");
    let list = |filter: Value| {
        let caller = caller.clone();
        let mut params = json!({ "contextId": context });
        filter.as_object().unwrap().iter().for_each(|(name, value)| params[name] = value.clone());
        async move { caller.call("ListTasks", params).await["result"].clone() }
    };
    let full = list(json!({ "includeArtifacts": true, "historyLength": 1 })).await;
    assert_eq!(full["tasks"][0]["artifacts"][0]["artifactId"], "m1");
    assert_eq!(full["tasks"][0]["history"].as_array().unwrap().len(), 1);
    let newest = full["tasks"][0]["status"]["timestamp"].clone();
    assert_eq!(list(json!({ "statusTimestampAfter": newest })).await["totalSize"], 1);
    assert_eq!(list(json!({ "status": "TASK_STATE_COMPLETED" })).await["totalSize"], 5);
    assert_eq!(list(json!({ "status": 2 })).await["totalSize"], 0);
    assert_eq!(list(json!({ "status": "TASK_STATE_REJECTED" })).await["totalSize"], 0);
    assert_eq!(list(json!({ "contextId": "nobody's" })).await["totalSize"], 0);
    let none = caller.call("ListTasks", json!({})).await["result"].clone();
    assert_eq!(none, json!({ "tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0 }));
    for (params, place) in [
        (json!({ "pageSize": 0 }), "pageSize"),
        (json!({ "pageSize": 101 }), "pageSize"),
        (json!({ "pageSize": -1 }), "pageSize"),
        (json!({ "pageToken": "!" }), "pageToken"),
        (json!({ "status": "DONE" }), "status"),
        (json!({ "statusTimestampAfter": "yesterday" }), "statusTimestampAfter"),
        (json!({ "historyLength": -1 }), "historyLength"),
    ] {
        let answer = caller.call("ListTasks", params).await;
        assert_eq!(number(&answer), -32602);
        assert_eq!(answer["error"]["data"][1]["fieldViolations"][0]["field"], place);
    }
    // A signed reader is listed what is its own.
    for (key, expect) in [(head(), 5), (provider(), 5), (stranger(), 0)] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
        let signer = Some(Signer { key: &key, at_s: house.now() });
        let headers = [("a2a-version", "1.0")];
        let (_, answer) =
            caller.http.json(axum::http::Method::POST, &caller.url, Some(&body), &headers, signer).await.unwrap();
        assert_eq!(answer["result"]["totalSize"], expect, "{answer}");
    }
}

#[tokio::test]
async fn a_signed_request_needs_no_proof_in_its_bag_and_a_thread_goes_on() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let chain = VerifiedChain::start(&head());
    let bag = json!({ "actorChain": chain.tokens().collect::<Vec<_>>() });
    let params = at_once(message("x", json!({ "referenceTaskIds": [format!("run_{}", "0".repeat(24))] }), bag));
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
    let key = head();
    let signer = Some(Signer { key: &key, at_s: house.now() });
    let (_, answer) = caller
        .http
        .json(axum::http::Method::POST, &caller.url, Some(&body), &[("a2a-version", "1.0")], signer)
        .await
        .unwrap();
    let context = answer["result"]["task"]["contextId"].clone();
    let run = puppet.echoes("x").await;
    // The provider continues the thread it serves.
    let more = json!({ "contextId": context });
    let next = caller.task("SendMessage", at_once(message("y", more, caller.bag(&provider(), house.now())))).await;
    assert_eq!(next["contextId"], context);
    assert_ne!(id(&next), run.to_string());
}

#[tokio::test]
async fn reads_of_parties_are_for_parties_but_a_caller_is_answered() {
    let policy = wikala_witness::Policy { reads: wikala_witness::ReadPolicy::Parties, ..Default::default() };
    let house = TestHouse::with(policy).await;
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let caller = Caller::of(&house, &puppet.agent);
    let mut events =
        caller.stream("SendStreamingMessage", message("ask", json!({}), caller.bag(&head(), house.now()))).await;
    let run = puppet.takes_and_asks(&["q"]).await;
    assert_eq!(words(&rest(&mut events).await).last().unwrap(), "TASK_STATE_INPUT_REQUIRED");
    for method in ["GetTask", "SubscribeToTask"] {
        let answer = caller.call(method, json!({ "id": run.as_str() })).await;
        let unknown = caller.call(method, json!({ "id": format!("run_{}", "0".repeat(24)) })).await;
        assert_eq!((number(&answer), number(&unknown)), (-32001, -32001));
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": run.as_str() } });
    for (key, expect) in [(head(), true), (stranger(), false)] {
        let signer = Some(Signer { key: &key, at_s: house.now() });
        let headers = [("a2a-version", "1.0")];
        let (_, answer) =
            caller.http.json(axum::http::Method::POST, &caller.url, Some(&body), &headers, signer).await.unwrap();
        assert_eq!(answer.get("result").is_some(), expect, "{answer}");
    }
    let bag = json!({ "resolution": resolve(&head(), run.as_str(), house.now()) });
    let task = caller.task("SendMessage", at_once(message("yes", json!({ "taskId": run.as_str() }), bag))).await;
    assert_eq!(state(&task), "TASK_STATE_SUBMITTED");
}

#[tokio::test]
async fn a_house_that_closes_tells_the_streams_and_the_waiting() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "slow").await;
    let caller = Caller::of(&house, &puppet.agent);
    let mut events = caller.stream("SendStreamingMessage", message("slow", json!({}), json!({}))).await;
    let run = puppet.take().await.run;
    puppet.begins(&run).await;
    let context = caller.get(run.as_str()).await["contextId"].clone();
    let waiting = caller.spawn("SendMessage", message("next", json!({ "contextId": context }), json!({})));
    while caller.call("ListTasks", json!({ "contextId": context })).await["result"]["totalSize"] != 2 {
        tokio::task::yield_now().await;
    }
    house.close();
    let told = rest(&mut events).await;
    assert_eq!(word(told.last().unwrap()), "error shutting-down");
    assert_eq!(code(&waiting.await.unwrap()), "shutting-down");
}

#[tokio::test]
async fn a_replayed_stream_is_the_live_one_frame_by_frame() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let caller = Caller::of(&house, &puppet.agent);
    let sending = caller.spawn("SendMessage", message("ask", json!({}), caller.bag(&head(), house.now())));
    let run = puppet.takes_and_asks(&["q"]).await;
    sending.await.unwrap();
    let bag = json!({ "resolution": resolve(&head(), run.as_str(), house.now()) });
    let reply = message("yes", json!({ "taskId": run.as_str() }), bag);
    let mut live = caller.stream("SendStreamingMessage", reply.clone()).await;
    let again = puppet.take().await.run;
    house.advance(5).await;
    puppet.begins(&again).await;
    // The lost answer's client is told how the task stands, not made to wait.
    assert_eq!(state(&caller.task("SendMessage", reply.clone()).await), "TASK_STATE_WORKING");
    puppet.writes(&again, "m2", &["a", "b"]).await;
    puppet.say(&again, Fact::Said, r#"{"type":"CUSTOM","name":"n","value":1}"#).await;
    puppet.asks(&again, &["r"]).await;
    let live = rest(&mut live).await;
    assert_eq!(word(live.last().unwrap()), "TASK_STATE_INPUT_REQUIRED");
    house.advance(90).await;
    let replayed = rest(&mut caller.stream("SendStreamingMessage", reply).await).await;
    assert_eq!(replayed, live);
}

#[tokio::test]
async fn an_interjection_names_the_live_run_where_the_reference_s_clients_put_it() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "slow").await;
    let caller = Caller::of(&house, &puppet.agent);
    let task = caller.task("SendMessage", at_once(message("x", json!({}), json!({})))).await;
    let live = puppet.take().await.run;
    puppet.begins(&live).await;
    let more = json!({
        "contextId": task["contextId"],
        "metadata": { wikala_doors::bag::REFERENCE_ADDRESSED: live.as_str() },
    });
    let next = caller.task("SendMessage", at_once(message("y", more, json!({})))).await;
    // This agent takes none: the message waits for its turn.
    assert_eq!(state(&next), "TASK_STATE_SUBMITTED");
    puppet.ends(&live).await;
    let delivery = puppet.take().await;
    assert_eq!((delivery.run.to_string(), delivery.addressed.as_deref()), (id(&next), Some(live.as_str())));
    let gone = json!({ "contextId": task["contextId"], "metadata": { "addressedRunId": live.as_str() } });
    assert_eq!(number(&caller.call("SendMessage", message("z", gone, json!({}))).await), -32602);
}

/// As on AG-UI: a name is private to who gave it, and a guessable one of nobody's opens
/// a fresh thread each time.
#[tokio::test]
async fn a_context_the_caller_named_keeps_its_name_and_is_private_to_the_caller() {
    let house = TestHouse::open().await;
    let puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let send = async |context: &str, bag: Value| {
        let task = caller.task("SendMessage", at_once(message("x", json!({ "contextId": context }), bag))).await;
        assert_eq!(task["contextId"], context, "no other is put in its place");
        task["metadata"]["urn:wikala:witness:1"]["threadId"].as_str().unwrap().to_owned()
    };
    let stranger = SigningKey::from_seed([0x5E; 32]);
    let bag = |key: &SigningKey| caller.bag(key, house.now());
    let mine = send("main", bag(&head())).await;
    assert_eq!(send("main", bag(&head())).await, mine);
    assert_ne!(send("main", bag(&stranger)).await, mine);
    let nobodys = send("main", json!({})).await;
    assert_ne!(nobodys, mine);
    assert_ne!(send("main", json!({})).await, nobodys, "anybody could have guessed it");
    let uuid = "0e9f6ef0-95b5-4f5f-8f2e-4e5d1c2b3a49";
    let private = send(uuid, json!({})).await;
    assert_eq!(send(uuid, json!({})).await, private);
    // A list by a name shows what that caller's name stands for.
    let list = async |context: &str| {
        caller.call("ListTasks", json!({ "contextId": context })).await["result"]["totalSize"].clone()
    };
    assert_eq!((list(uuid).await, list("main").await), (json!(2), json!(0)));
}
