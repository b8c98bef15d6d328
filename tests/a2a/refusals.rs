//! Every no this door says, by its code, with the record as it was.

use serde_json::{Value, json};
use wikala_witness::{AnswerPolicy, Policy};

use super::*;

#[tokio::test]
async fn what_does_not_prove_itself_opens_nothing() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let now = house.now();
    let mine = caller.bag(&head(), now);
    let sending = caller.spawn("SendMessage", message("x", json!({}), mine.clone()));
    puppet.echoes("x").await;
    let context = sending.await.unwrap()["result"]["task"]["contextId"].clone();

    let chain = VerifiedChain::start(&head());
    let other = Puppet::attach(&house, &SigningKey::from_seed([9; 32]), "echo").await;
    let elsewhere = Caller::of(&house, &other.agent).bag(&head(), now);
    let with = |name: &str, value: Value| {
        let mut bag = caller.bag(&head(), now);
        bag[name] = value;
        bag
    };
    let mut forged = chain.tokens().next().unwrap().to_owned();
    forged.replace_range(forged.len() - 4.., "AAAA");
    let mut bad_certificate = certificate(&stranger(), &head(), now + 60, true);
    bad_certificate["signature"] = "0".repeat(128).into();
    let spoofed = {
        let mut proof = mine["presenter"].clone();
        proof["publicKey"] = stranger().public().to_hex().into();
        proof
    };
    // Whole as it is, and one hop too long with ours.
    let mut long = chain.clone();
    while long.hops().len() < wikala_chain::MAX_HOPS {
        long = long.extend(&head()).unwrap();
    }
    let cases = [
        (json!({ "actorChain": "x" }), "chain-not-a-list"),
        (json!({ "actorChain": [] }), "chain-empty"),
        (json!({ "actorChain": [7] }), "hop-not-a-string"),
        (json!({ "actorChain": ["a.b"] }), "hop-not-jws"),
        (json!({ "actorChain": [forged] }), "hop-signature"),
        (caller.bag_of(&head(), &long, now), "chain-too-long"),
        (json!({ "actorChain": mine["actorChain"] }), "presenter-required"),
        (mine.clone(), "presenter-spent"),
        (elsewhere, "presenter-proof"),
        (with("presenter", spoofed), "presenter-proof"),
        (with("presenter", caller.presenter(&stranger(), &chain, now)), "presenter-mismatch"),
        (with("presenter", caller.presenter(&head(), &chain, now - 61)), "presenter-proof"),
        (with("presenter", json!({ "publicKey": 7 })), "proof-malformed"),
        (with("resolution", json!("x")), "proof-malformed"),
        (with("delegation", json!({})), "certificate-malformed"),
        (with("delegation", bad_certificate), "certificate-signature"),
        (with("delegation", certificate(&stranger(), &head(), now - 1, true)), "certificate-expired"),
        (with("delegation", certificate(&stranger(), &head(), now + 60, false)), "certificate-not-accepted"),
        (with("delegation", certificate(&stranger(), &provider(), now + 60, true)), "certificate-not-signer"),
        (with("addressedRunId", json!(format!("run_{}", "0".repeat(24)))), "run-input"),
        (with("addressedRunId", json!(5)), "body-malformed"),
    ];
    let before = record(&house, &puppet.agent).await;
    for (bag, expect) in cases {
        for method in ["SendMessage", "SendStreamingMessage"] {
            let answer = caller.call(method, message("x", json!({}), bag.clone())).await;
            assert_eq!(code(&answer), expect, "{answer:#}");
        }
    }
    // In a thread that is not theirs.
    let there = json!({ "contextId": context });
    let answer = caller.call("SendMessage", message("x", there.clone(), caller.bag(&stranger(), now))).await;
    assert_eq!((code(&answer).as_str(), number(&answer)), ("not-a-member", -32600));
    assert_eq!(code(&caller.call("SendMessage", message("x", there.clone(), json!({}))).await), "not-a-member");
    let unknown = json!({ "contextId": format!("thread_{}", "0".repeat(24)) });
    let answer = caller.call("SendMessage", message("x", unknown, json!({}))).await;
    assert_eq!((code(&answer).as_str(), number(&answer)), ("thread-unknown", -32602));
    // Another agent's thread is as unknown there as one that never was.
    let answer = Caller::of(&house, &other.agent).call("SendMessage", message("x", there, json!({}))).await;
    assert_eq!(code(&answer), "thread-unknown");
    assert_eq!(record(&house, &puppet.agent).await, before);
}

#[tokio::test]
async fn what_is_no_message_opens_nothing() {
    let house = TestHouse::open().await;
    let puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let before = record(&house, &puppet.agent).await;
    let part = json!([{ "text": "x" }]);
    for (params, field) in [
        (json!({}), "message"),
        (json!({ "message": 5 }), "message"),
        (json!({ "message": { "role": "ROLE_USER", "parts": part } }), "message.messageId"),
        (json!({ "message": { "messageId": "m", "role": "user", "parts": part } }), "message.role"),
        (json!({ "message": { "messageId": "m", "parts": part } }), "message.role"),
        (json!({ "message": { "messageId": "m", "role": 1, "parts": [] } }), "message.parts"),
        (json!({ "message": { "messageId": "m", "role": 1, "parts": [5] } }), "message.parts[0]"),
        (
            json!({ "message": { "messageId": "m", "role": 1, "parts": [{ "text": "x", "data": 1 }] } }),
            "message.parts[0]",
        ),
        (json!({ "message": { "messageId": "m", "role": 1, "parts": part, "taskId": 5 } }), "message.taskId"),
        (
            json!({ "message": { "messageId": "m", "role": 1, "parts": part, "referenceTaskIds": [5] } }),
            "message.referenceTaskIds",
        ),
        (
            json!({ "message": { "messageId": "m", "role": 1, "parts": part }, "configuration": { "historyLength": -1 } }),
            "configuration.historyLength",
        ),
    ] {
        let answer = caller.call("SendMessage", params).await;
        assert_eq!(number(&answer), -32602, "{answer}");
        assert_eq!(answer["error"]["data"][1]["fieldViolations"][0]["field"], field, "{answer}");
    }
    // By the name A2A 0.3 gave it too: an agent of that version would take it.
    for name in ["taskPushNotificationConfig", "pushNotificationConfig", "push_notification_config"] {
        let mut push = message("x", json!({}), json!({}));
        push["configuration"] = json!({ name: { "url": "http://x/" } });
        assert_eq!(number(&caller.call("SendMessage", push).await), -32003, "{name}");
    }
    assert_eq!(record(&house, &puppet.agent).await, before);

    let mut nobody = caller.clone();
    nobody.url = format!("{}/a2a/{}/nobody", caller.base, puppet.agent.provider);
    assert_eq!(code(&nobody.call("SendMessage", message("x", json!({}), json!({}))).await), "agent-unknown");
    nobody.url = format!("{}/a2a/0123456789abcdef/echo", caller.base);
    assert_eq!(code(&nobody.call("GetTask", json!({ "id": "x" })).await), "agent-unknown");

    let large = message(&"x".repeat(4 * 1024 * 1024), json!({}), json!({}));
    let refused = caller.call("SendMessage", large).await;
    assert_eq!((number(&refused), code(&refused).as_str()), (-32600, "too-large"));
}

#[tokio::test]
async fn an_ask_stands_until_its_authority_answers_all_of_it() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let other = Puppet::attach(&house, &SigningKey::from_seed([9; 32]), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    let sending = caller.spawn("SendMessage", message("ask", json!({}), caller.bag(&head(), house.now())));
    let run = puppet.takes_and_asks(&["a", "b"]).await;
    let context = sending.await.unwrap()["result"]["task"]["contextId"].clone();
    let (run, now) = (run.as_str(), house.now());
    let right = || resolve(&head(), run, now);
    let mut tampered = right();
    tampered["timestamp"] = (now + 1).into();
    let entries = |entries: Value| json!([{ "data": entries }]);
    let full = json!([{ "interruptId": "a", "payload": 1 }, { "interruptId": "b", "payload": 2 }]);
    let expired = certificate(&head(), &stranger(), now - 1, true);
    let cases = [
        (entries(full.clone()), json!({}), "act-required"),
        (entries(full.clone()), caller.bag(&head(), now), "act-required"),
        (entries(full.clone()), caller.bag(&provider(), now), "act-required"),
        (entries(full.clone()), json!({ "resolution": resolve(&stranger(), run, now) }), "not-an-authority"),
        (entries(full.clone()), json!({ "resolution": tampered }), "act-signature"),
        (entries(full.clone()), json!({ "resolution": cancel(&head(), run, now) }), "act-signature"),
        (entries(full.clone()), json!({ "resolution": resolve(&head(), "run_other", now) }), "act-signature"),
        (entries(full.clone()), json!({ "resolution": resolve(&head(), run, now - 61) }), "act-stale"),
        (entries(full.clone()), json!({ "resolution": resolve(&head(), run, now + 61) }), "act-stale"),
        (entries(full.clone()), json!({ "resolution": { "publicKey": "x" } }), "proof-malformed"),
        (
            entries(full.clone()),
            json!({ "resolution": right(), "delegation": certificate(&head(), &stranger(), now + 60, true) }),
            "certificate-not-signer",
        ),
        (
            entries(full.clone()),
            json!({ "resolution": resolve(&stranger(), run, now), "delegation": expired }),
            "certificate-expired",
        ),
        (entries(full.clone()), json!({ "resolution": right(), "actorChain": [] }), "chain-empty"),
        (json!([{ "text": "yes" }]), json!({ "resolution": right() }), "answer-incomplete"),
        (entries(json!([{ "interruptId": "a", "payload": 1 }])), json!({ "resolution": right() }), "answer-incomplete"),
        (
            entries(json!([{ "interruptId": "a" }, { "interruptId": "z" }])),
            json!({ "resolution": right() }),
            "answer-unknown-ask",
        ),
        (
            entries(json!([{ "interruptId": "a" }, { "interruptId": "a" }])),
            json!({ "resolution": right() }),
            "answer-duplicate",
        ),
    ];
    let before = record(&house, &puppet.agent).await;
    let reply = |parts: &Value, bag: &Value, more: Value| {
        let mut reply = message("", more, bag.clone());
        reply["message"]["parts"] = parts.clone();
        reply["message"]["taskId"] = run.into();
        reply
    };
    for (parts, bag, expect) in &cases {
        for method in ["SendMessage", "SendStreamingMessage"] {
            let answer = caller.call(method, reply(parts, bag, json!({}))).await;
            assert_eq!(code(&answer), *expect, "{answer:#}");
            assert_eq!(answer["error"]["data"][0]["metadata"]["taskId"], run);
        }
    }
    let good = json!({ "resolution": right() });
    let elsewhere = json!({ "contextId": format!("thread_{}", "0".repeat(24)) });
    assert_eq!(number(&caller.call("SendMessage", reply(&entries(full.clone()), &good, elsewhere)).await), -32602);
    let agent_role = json!({ "role": "ROLE_AGENT" });
    assert_eq!(number(&caller.call("SendMessage", reply(&entries(full.clone()), &good, agent_role)).await), -32602);
    let there = Caller::of(&house, &other.agent);
    assert_eq!(number(&there.call("SendMessage", reply(&entries(full.clone()), &good, json!({}))).await), -32001);
    for id in ["run_x", "x", &format!("run_{}", "0".repeat(24))] {
        let answer = caller.call("SendMessage", message("x", json!({ "taskId": id }), json!({}))).await;
        assert_eq!((number(&answer), &answer["error"]["data"][0]["metadata"]["taskId"]), (-32001, &json!(id)));
        assert_eq!(number(&caller.call("GetTask", json!({ "id": id })).await), -32001);
        assert_eq!(number(&caller.call("CancelTask", json!({ "id": id })).await), -32001);
    }
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        assert_eq!(number(&there.call(method, json!({ "id": run })).await), -32001, "{method} at another agent");
    }
    for (bag, expect) in [
        (json!({}), "act-required"),
        (json!({ "cancel": cancel(&stranger(), run, now) }), "not-an-authority"),
        (json!({ "cancel": resolve(&head(), run, now) }), "act-signature"),
        (json!({ "cancel": cancel(&head(), run, now - 61) }), "act-stale"),
        (json!({ "cancel": 5 }), "proof-malformed"),
    ] {
        let answer = caller.call("CancelTask", json!({ "id": run, "metadata": bag })).await;
        assert_eq!(code(&answer), expect, "{answer:#}");
    }
    // The agent is away: nothing is spent.
    let link = puppet.link;
    house.app.desk.ask(move |w, now| w.detach(now, link)).await.unwrap();
    house.advance(31).await;
    let answer = caller.call("SendMessage", reply(&entries(full.clone()), &good, json!({}))).await;
    assert_eq!(code(&answer), "agent-offline");
    assert_eq!(record(&house, &puppet.agent).await, before);

    // And none of these cost the head its act.
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let more = json!({ "contextId": context });
    let task = caller.task("SendMessage", at_once(reply(&entries(full.clone()), &good, more))).await;
    assert_eq!(state(&task), "TASK_STATE_SUBMITTED");
    let run = puppet.takes_and_asks(&["c"]).await;
    // One proof answers one pause.
    let answer = caller.call("SendMessage", reply(&json!([{ "text": "again" }]), &good, json!({}))).await;
    assert_eq!(code(&answer), "act-spent");
    let fresh = json!({ "resolution": resolve(&head(), run.as_str(), house.now()) });
    caller.task("SendMessage", at_once(reply(&json!([{ "text": "again" }]), &fresh, json!({})))).await;
    // The loser is told who was first.
    let late = json!({ "resolution": resolve(&provider(), run.as_str(), house.now()) });
    let answer = caller.call("SendMessage", reply(&json!([{ "text": "mine" }]), &late, json!({}))).await;
    assert_eq!(code(&answer), "already-answered");
    assert_eq!(answer["error"]["data"][0]["metadata"]["answeredBy"], head().public().to_hex());
}

#[tokio::test]
async fn a_task_that_asks_nothing_takes_no_message() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "echo").await;
    let caller = Caller::of(&house, &puppet.agent);
    caller.task("SendMessage", at_once(message("x", json!({}), caller.bag(&head(), house.now())))).await;
    let run = puppet.take().await.run;
    let send = |bag: Value| caller.call("SendMessage", message("y", json!({ "taskId": run.as_str() }), bag));
    let running = send(json!({})).await;
    assert_eq!((number(&running), code(&running).as_str()), (-32004, "run-ended"));
    assert!(running["error"]["message"].as_str().unwrap().contains("contextId only"), "{running}");
    let act = json!({ "resolution": resolve(&head(), run.as_str(), house.now()) });
    assert_eq!(code(&send(act.clone()).await), "no-open-ask");
    puppet.begins(&run).await;
    puppet.ends(&run).await;
    assert_eq!(number(&send(json!({})).await), -32004);
    assert_eq!(code(&send(act).await), "no-open-ask");
    let stop = json!({ "id": run.as_str(), "metadata": { "cancel": cancel(&head(), run.as_str(), house.now()) } });
    let answer = caller.call("CancelTask", stop).await;
    assert_eq!((number(&answer), code(&answer).as_str()), (-32002, "run-ended"));
}

#[tokio::test]
async fn a_thread_takes_so_many_waiting_runs() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "slow").await;
    let caller = Caller::of(&house, &puppet.agent);
    let task = caller.task("SendMessage", at_once(message("x", json!({}), json!({})))).await;
    puppet.take().await;
    let there = json!({ "contextId": task["contextId"] });
    for _ in 0..8 {
        caller.task("SendMessage", at_once(message("x", there.clone(), json!({})))).await;
    }
    let before = record(&house, &puppet.agent).await;
    let answer = caller.call("SendMessage", message("x", there, json!({}))).await;
    assert_eq!(code(&answer), "queue-full");
    assert_eq!(record(&house, &puppet.agent).await, before);
}

#[tokio::test]
async fn streams_and_nameless_runs_are_bounded_an_address() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "slow").await;
    let caller = Caller::of(&house, &puppet.agent);
    let task = caller.task("SendMessage", at_once(message("x", json!({}), json!({})))).await;
    puppet.take().await;
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(caller.stream("SubscribeToTask", json!({ "id": task["id"] })).await);
    }
    let before = record(&house, &puppet.agent).await;
    assert_eq!(code(&caller.call("SubscribeToTask", json!({ "id": task["id"] })).await), "rate-limited");
    let answer = caller.call("SendStreamingMessage", message("x", json!({}), json!({}))).await;
    assert_eq!(code(&answer), "rate-limited");
    assert_eq!(record(&house, &puppet.agent).await, before, "a run nobody may watch did not begin");
    let now = house.now();
    while house.app.limits.anonymous_runs.take([127, 0, 0, 1].into(), now, "run").is_ok() {}
    assert_eq!(code(&caller.call("SendMessage", message("x", json!({}), json!({}))).await), "rate-limited");
    caller.task("SendMessage", at_once(message("x", json!({}), caller.bag(&head(), now)))).await;
}

#[tokio::test]
async fn a_witness_that_wants_bound_answers_takes_none_here() {
    let house = TestHouse::with(Policy { answers: AnswerPolicy::Bound, ..Policy::default() }).await;
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let caller = Caller::of(&house, &puppet.agent);
    let sending = caller.spawn("SendMessage", message("ask", json!({}), caller.bag(&head(), house.now())));
    let run = puppet.takes_and_asks(&["a"]).await;
    sending.await.unwrap();
    let bag = json!({ "resolution": resolve(&head(), run.as_str(), house.now()) });
    let answer = caller.call("SendMessage", message("yes", json!({ "taskId": run.as_str() }), bag)).await;
    assert_eq!(code(&answer), "answer-form");
    assert_eq!(state(&caller.get(run.as_str()).await), "TASK_STATE_INPUT_REQUIRED");
}

#[tokio::test]
async fn a_session_key_speaks_for_its_authority_and_for_no_other() {
    let house = TestHouse::open().await;
    let mut puppet = Puppet::attach(&house, &provider(), "ask").await;
    let caller = Caller::of(&house, &puppet.agent);
    let session = SigningKey::from_seed([7; 32]);
    let until = house.now() + 600;
    let mut bag = caller.bag(&session, house.now());
    bag["delegation"] = certificate(&head(), &session, until, true);
    let sending = caller.spawn("SendMessage", message("ask", json!({}), bag));
    let run = puppet.takes_and_asks(&["a"]).await;
    let task = sending.await.unwrap()["result"]["task"].clone();
    assert_eq!(task["metadata"]["urn:wikala:witness:1"]["authorities"][0], head().public().to_hex());
    let mut stolen = caller.bag(&session, house.now());
    stolen["delegation"] = certificate(&stranger(), &session, until, true);
    assert_eq!(code(&caller.call("SendMessage", message("x", json!({}), stolen)).await), "delegate-rebound");
    let bag = json!({ "resolution": resolve(&session, run.as_str(), house.now()) });
    let task = caller.task("SendMessage", at_once(message("yes", json!({ "taskId": run.as_str() }), bag))).await;
    assert_eq!(state(&task), "TASK_STATE_SUBMITTED");
}
