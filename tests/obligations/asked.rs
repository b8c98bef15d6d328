//! Creation: the strict spec, its exact bytes, one obligation a request.

use serde_json::{Value, json};
use wikala_certs::{Deed, Moment};
use wikala_chain::Digest;

use super::{Scene, code, nobody, plain, read};
use crate::a2a::{Caller, head, provider, value};

#[tokio::test]
async fn n1_a_request_is_owed_and_both_sides_count_it() {
    let scene = Scene::open().await;
    let (status, told) = scene.ask(&scene.demand("m1", &plain())).await;
    assert_eq!(
        (status, &told["obligation"]["state"], &told["obligation"]["revision"]),
        (202, &json!("created"), &json!(1))
    );
    let counts = |inbox: Value| (inbox["awaiting_peer"].clone(), inbox["action_required"].clone());
    assert_eq!(counts(scene.inbox(&head()).await), (json!(1), json!(0)));
    assert_eq!(counts(scene.inbox(&provider()).await), (json!(0), json!(1)));
    assert_eq!(counts(scene.inbox(&nobody()).await), (json!(0), json!(0)));
    let owed = read(&told);
    let view = scene.view(&owed.id).await;
    assert_eq!(
        (&view["requester"], &view["responsible"]),
        (&json!(head().public().to_hex()), &json!(provider().public().to_hex()))
    );
    assert_eq!(view["request"]["obligation"], plain());
    assert!(view["dispatch_digest"].is_string(), "the hop of ours that sent it");
    let facts: Vec<&str> =
        view["delivery"].as_array().unwrap().iter().filter_map(|fact| fact["fact"].as_str()).collect();
    assert!(facts.contains(&"queued") && facts.contains(&"delivered"), "{facts:?}");
}

#[tokio::test]
async fn n2_to_n6_the_spec_is_strict_and_a_refused_one_leaves_nothing() {
    let scene = Scene::open().await;
    let now = scene.now();
    let at = |seconds: u64| {
        humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).to_string()
    };
    for (spec, expect) in [
        (json!({ "response_required": false }), "422 response-required-must-be-true"),
        (json!({ "foo": 1 }), "422 unknown-field"),
        (json!({ "class": "P0" }), "422 unknown-field"),
        (json!({ "responsible": nobody().public().to_hex() }), "422 responsible-not-recipient"),
        (json!({ "responsible": "x" }), "400 body-malformed"),
        (json!({ "deadline_at": "2027-01-15T08:00:00" }), "422 deadline-not-timezone-aware"),
        (json!({ "deadline_at": at(now) }), "422 deadline-not-future"),
        (json!({ "response_schema": {} }), "422 schema-pair-incomplete"),
        (json!({ "response_schema_id": "a" }), "422 schema-pair-incomplete"),
    ] {
        assert_eq!(code(&scene.ask(&scene.demand("m", &spec)).await), expect, "{spec}");
    }
    assert_eq!((scene.rows("event"), scene.rows("obligation"), scene.rows("run")), (0, 0, 0));
    let later = now + 1;
    let zoned = format!("{}+03:00", at(later + 3 * 3600).trim_end_matches('Z'));
    for (id, deadline) in [("a", at(later)), ("b", zoned)] {
        let owed =
            scene.owed(id, json!({ "deadline_at": deadline, "responsible": provider().public().to_hex() })).await;
        assert_eq!(scene.view(&owed.id).await["deadline_at"], later, "{deadline}");
    }
}

#[tokio::test]
async fn n7_to_n10_a_schema_passes_the_gate_or_the_request_is_refused() {
    let scene = Scene::open().await;
    let with = |schema: Value| json!({ "response_schema_id": "s", "response_schema": schema });
    let sized = |size: usize| {
        let empty = json!({ "description": "", "type": "object" }).to_string().len();
        json!({ "description": "d".repeat(size - empty), "type": "object" })
    };
    // Nothing is fetched, wherever it stands.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let remote = format!("http://{}/x", listener.local_addr().unwrap());
    for (schema, expect) in [
        (sized(65_537), "422 schema-too-large"),
        (json!({ "$ref": remote }), "422 schema-external-reference"),
        (json!({ "$defs": { "a": { "b": { "$ref": remote } } } }), "422 schema-external-reference"),
        (json!({ "const": { "$ref": remote } }), "422 schema-external-reference"),
        (json!({ "$id": remote, "$ref": remote }), "422 schema-external-reference"),
        (json!({ "$schema": remote }), "422 schema-dialect"),
        (json!({ "$defs": { "a": { "b": { "$ref": "https://e.example/x" } } } }), "422 schema-external-reference"),
        (json!({ "enum": [{ "$ref": "https://e.example/x" }] }), "422 schema-external-reference"),
        (json!({ "$dynamicRef": "https://e.example/x" }), "422 schema-external-reference"),
        (json!({ "$ref": "file:///etc/passwd" }), "422 schema-external-reference"),
        (json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), "422 schema-dialect"),
        (json!({ "$ref": "#" }), "422 schema-in-place-cycle"),
        (json!({ "type": "strng" }), "422 schema-invalid"),
        (json!(true), "422 schema-invalid"),
        (json!({ "pattern": "(?=a)" }), "422 schema-pattern-refused"),
        (fan_out(26), "422 schema-too-costly"),
    ] {
        assert_eq!(
            code(&scene.ask(&scene.demand("m", &with(schema.clone()))).await),
            expect,
            "{:.80}",
            schema.to_string()
        );
    }
    assert_eq!(scene.rows("response_schema"), 0);
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // Measured as canonical bytes: the white space of 70,000 raw ones is nobody's schema.
    let mut raw = scene.demand("raw", &with(sized(60_000))).to_string();
    let at = raw.find("\"response_schema\":").expect("there") + "\"response_schema\":".len();
    raw.insert_str(at, &" ".repeat(10_000));
    let path = format!("/v1/conversations/{}/actions", scene.thread);
    assert_eq!(scene.raw(&path, raw).await.0, 202);
    let owed = scene.owed("whole", with(sized(65_536))).await;
    let view = scene.view(&owed.id).await;
    let text = serde_json::to_string(&view["response_schema"]).unwrap();
    assert_eq!(
        view["response_schema_digest"],
        Digest::of(text.as_bytes()).to_hex(),
        "keys are in order, so this is canonical"
    );
}

/// Each level applies the next twice.
fn fan_out(levels: usize) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..levels {
        let next = format!("#/$defs/{}", level + 1);
        defs.insert(level.to_string(), json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }));
    }
    defs.insert(levels.to_string(), json!({ "type": "object" }));
    json!({ "$defs": defs, "$ref": "#/$defs/0" })
}

#[tokio::test]
async fn n11_n12_the_same_request_again_is_the_same_obligation() {
    let mut scene = Scene::open().await;
    let body = scene.demand("m1", &plain());
    let (_, first) = scene.ask(&body).await;
    let owed = read(&first);
    let (status, again) = scene.ask(&body).await;
    assert_eq!((status, read(&again), &again["obligation"]["duplicate"]), (202, owed.clone(), &json!(true)));
    scene.puppet.take().await;
    assert_eq!(scene.accept(&provider(), &owed.id, 1).await.0, 200);
    // Signed anew, long after the window of the first: still the same request.
    scene.house.set_clock(120);
    for body in [&body, &scene.demand("m1", &plain())] {
        let (_, again) = scene.ask(body).await;
        assert_eq!(
            (&again["obligation"]["state"], &again["obligation"]["revision"]),
            (&json!("acknowledged"), &json!(2))
        );
    }
    assert_eq!((scene.rows("obligation"), scene.rows("run"), scene.rows("event")), (1, 1, 1));

    let deadline = json!({ "deadline_at": "2099-01-01T00:00:00Z" });
    assert_eq!(code(&scene.ask(&scene.demand("m1", &deadline)).await), "409 idempotency-conflict");
    let mut other_key = scene.demand("m1", &deadline);
    other_key["idempotency_key"] = "k2".into();
    assert_eq!(code(&scene.ask(&other_key).await), "409 message-id-reused");
}

#[tokio::test]
async fn n13_two_at_once_are_one() {
    let scene = Scene::open().await;
    for round in 0..20 {
        let thread = scene.new_thread().await;
        let body = scene.demand_in(&thread, &head(), &format!("m{round}"), &plain());
        let (a, b) = tokio::join!(scene.act_in(&thread, &body), scene.act_in(&thread, &body));
        assert_eq!((a.0, b.0), (202, 202), "{a:?} {b:?}");
        assert_eq!(read(&a.1), read(&b.1));
        assert_ne!(a.1["obligation"]["duplicate"] == true, b.1["obligation"]["duplicate"] == true);
    }
    assert_eq!(scene.rows("obligation"), 20);
}

#[tokio::test]
async fn only_a_bound_thread_and_only_its_author() {
    let scene = Scene::open().await;
    // Nobody's thread has nobody to owe to.
    let mut nobodys = scene.demand("m", &plain());
    nobodys["metadata"] = json!({});
    assert_eq!(code(&scene.ask(&nobodys).await), "409 obligation-requires-bound-thread");
    // A signature of somebody else over the same bytes.
    let mut forged = scene.demand("m", &plain());
    let signed = scene.demand_in(&scene.thread, &nobody(), "m", &plain());
    forged["act"] = signed["act"].clone();
    let caller = Caller::of(&scene.house, &scene.puppet.agent);
    forged["metadata"] = caller.bag(&head(), scene.now());
    assert_eq!(code(&scene.ask(&forged).await), "403 requester-not-author");
    // Without a presenter, and without an act of the last hop's key, nobody sent it.
    forged["metadata"] = scene.demand("m", &plain())["metadata"].clone();
    assert_eq!(code(&scene.ask(&forged).await), "401 presenter-required");
    // Changed on the way.
    let mut changed = scene.demand("m", &plain());
    changed["body"] = "something else".into();
    assert_eq!(code(&scene.ask(&changed).await), "401 act-signature");
    // Signed a minute ago and a second.
    let late = scene.demand("m", &plain());
    scene.house.set_clock(61);
    assert_eq!(code(&scene.ask(&late).await), "401 act-stale");
    // Head and provider in one.
    let own = scene.demand_in(&scene.thread, &provider(), "m", &plain());
    assert_eq!(code(&scene.ask(&own).await), "422 self-obligation");
    assert_eq!((scene.rows("obligation"), scene.rows("run")), (0, 0));
}

#[tokio::test]
async fn an_agent_is_told_what_it_owes_and_a_reply_demands_nothing() {
    let mut scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let delivery = scene.puppet.take().await;
    let input: Value = serde_json::from_str(&wikala_doors::delivery::run_input(&delivery)).unwrap();
    let told = &input["forwardedProps"]["urn:wikala:obligation:1"];
    assert_eq!((&told["obligation_id"], &told["request_event_id"]), (&json!(owed.id), &json!(owed.event)));
    assert_eq!((&told["request_digest"], &told["obligation"]), (&json!(owed.request.to_hex()), &plain()));
    let mut reply = scene.demand("m2", &plain());
    reply["kind"] = "reply".into();
    assert_eq!(code(&scene.ask(&reply).await), "422 unknown-field");
    assert_eq!(code(&scene.ask(&json!({ "kind": "shout" })).await), "400 body-malformed");
}

/// The same by both protocols: where it is activated it is a demand, elsewhere the
/// sender's own word, passed on untouched.
#[tokio::test]
async fn an_a2a_message_and_an_ag_ui_run_demand_alike() {
    let mut scene = Scene::open().await;
    let caller = Caller::of(&scene.house, &scene.puppet.agent);
    let extension =
        |demand: &Value| json!({ "v": 1, "obligation": demand["response_obligation"], "act": demand["act"] });
    let demand = scene.demand("m1", &plain());
    let message = json!({
        "messageId": "m1", "contextId": scene.thread, "role": "ROLE_USER", "parts": [{ "text": "what?" }],
        "metadata": { "urn:wikala:obligation:1": extension(&demand) },
    });
    let params =
        json!({ "message": message, "metadata": demand["metadata"], "configuration": { "returnImmediately": true } });
    let url = format!("{}/a2a/{}/ask", scene.house.url, scene.puppet.agent.provider);
    let send = async |headers: &[(&str, &str)]| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
        wikala_doors::client::Client::new().post_json(&url, &body, headers).await.expect("an answer").1
    };
    // Not activated: the words go on as they came, and nothing proves who sends them.
    let no = send(&[("a2a-version", "1.0")]).await;
    assert_eq!(no["error"]["data"][0]["reason"], "PRESENTER_REQUIRED", "{no}");
    let sent = send(&[("a2a-version", "1.0"), ("a2a-extensions", "urn:wikala:obligation:1")]).await;
    let note = sent["result"]["task"]["metadata"]["urn:wikala:obligation:1"].clone();
    assert_eq!((&note["state"], &note["revision"]), (&json!("created"), &json!(1)), "{sent}");
    let run = scene.puppet.take().await.run;
    assert_eq!(scene.accept(&provider(), note["obligation_id"].as_str().unwrap(), 1).await.0, 200);
    let task = caller.task("GetTask", json!({ "id": run.as_str() })).await;
    assert_eq!(task["metadata"]["urn:wikala:obligation:1"]["state"], "acknowledged", "{task}");

    let thread = scene.new_thread().await;
    let known = wikala_witness::ThreadId::parse(&thread).unwrap();
    let content = json!("what?").to_string();
    let asked = wikala_doors::obligations::spec::Asked {
        thread: &known,
        kind: "post",
        message_id: "u1",
        role: "user",
        parts: &content,
    };
    let payload = wikala_doors::obligations::spec::request(asked, &plain().to_string()).unwrap();
    let deed = Deed::Create { thread: thread.clone(), request: Digest::of(payload.as_bytes()) };
    let act = value(&deed.sign(&head(), Moment::from_secs(scene.now())));
    let mut props = demand["metadata"].clone();
    props["urn:wikala:obligation:1"] = json!({ "v": 1, "obligation": plain(), "act": act });
    let mut body = crate::agui::body(&thread, "r1", props);
    body["messages"] = json!([{ "id": "u1", "role": "user", "content": "what?" }]);
    let url = format!("{}/agui/{}/ask", scene.house.url, scene.puppet.agent.provider);
    let stream = tokio::spawn({
        let url = url.clone();
        async move {
            let http = wikala_doors::client::Client::new();
            let mut events =
                http.events(axum::http::Method::POST, &url, Some(&body), &[], None).await.expect("a stream");
            let mut all = Vec::new();
            while let Some(event) = events.next().await.expect("whole") {
                all.push(serde_json::from_str::<Value>(&event.data).expect("JSON"));
            }
            all
        }
    });
    let run = scene.puppet.take().await.run;
    scene.puppet.begins(&run).await;
    scene.puppet.ends(&run).await;
    let events = stream.await.expect("ended");
    assert_eq!(events[0]["metadata"]["urn:wikala:obligation:1"]["state"], "created", "{events:?}");
    assert_eq!(scene.rows("obligation"), 2);
}
