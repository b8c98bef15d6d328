//! The HTTP+JSON binding: the same methods, answered with a status.

use axum::http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use wikala_chain::{PublicKey, Signature, SigningKey, base64url};
use wikala_doors::client::{Client, Events, Signer};
use wikala_witness::{Policy, ReadPolicy, Registration};

use super::{Caller, at_once, cancel, head, message, provider, resolve};
use crate::house::{Puppet, TestHouse};

struct Scene {
    house: TestHouse,
    puppet: Puppet,
    caller: Caller,
    url: String,
}

struct Got {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }

    fn reason(&self) -> String {
        self.json()["error"]["details"]
            .as_array()
            .and_then(|list| list.last())
            .map_or_else(String::new, |info| info["reason"].to_string())
    }
}

impl Scene {
    async fn with(policy: Policy) -> Scene {
        let house = TestHouse::with(policy).await;
        let puppet = Puppet::attach(&house, &provider(), "echo").await;
        let caller = Caller::of(&house, &puppet.agent);
        let url = format!("{}/a2a/{}/echo", house.url, puppet.agent.provider);
        Scene { house, puppet, caller, url }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
        key: Option<&SigningKey>,
    ) -> Got {
        let mut all = vec![("a2a-version", "1.0")];
        all.extend_from_slice(headers);
        let signer = key.map(|key| Signer { key, at_s: self.house.now() });
        let url = format!("{}{path}", self.url);
        let sent = Client::new().send(method, &url, body.map(|body| body.as_bytes().to_vec()), &all, signer).await;
        let (status, headers, body) = sent.expect("an answer");
        let text = String::from_utf8(body.collect().await.expect("whole").to_bytes().to_vec()).expect("text");
        Got { status: status.as_u16(), headers, text }
    }

    async fn get(&self, path: &str) -> Got {
        self.ask(Method::GET, path, None, &[], None).await
    }

    async fn post(&self, path: &str, body: &Value) -> Got {
        self.ask(Method::POST, path, Some(&body.to_string()), &[], None).await
    }

    /// A run of the head's that waits for an answer.
    async fn waiting(&mut self) -> String {
        let opened = self
            .post("/message:send", &at_once(message("x", json!({}), self.caller.bag(&head(), self.house.now()))))
            .await;
        let delivery = self.puppet.take().await;
        self.puppet.asks(&delivery.run, &["q"]).await;
        opened.json()["task"]["id"].as_str().expect("an id").to_owned()
    }
}

#[tokio::test]
async fn every_method_answers_at_its_address_with_and_without_a_tenant() {
    let scene = Scene::with(Policy::default()).await;
    for tenant in ["", "/acme"] {
        let sent = scene.post(&format!("{tenant}/message:send"), &at_once(message("x", json!({}), json!({})))).await;
        assert_eq!((sent.status, &sent.headers["content-type"]), (200, &"application/json".parse().unwrap()));
        let task = sent.json()["task"].clone();
        let id = task["id"].as_str().expect("an id").to_owned();
        assert_eq!(sent.headers["wikala-run-id"], id.as_str());
        assert_eq!(sent.headers["a2a-version"], "1.0");
        let got = scene.get(&format!("{tenant}/tasks/{id}?historyLength=0")).await.json();
        assert_eq!((&got["id"], got.get("history")), (&task["id"], None));
        let context = task["contextId"].as_str().expect("a context");
        let listed =
            scene.get(&format!("{tenant}/tasks?contextId={context}&pageSize=1&includeArtifacts=true")).await.json();
        assert_eq!((&listed["tasks"][0]["id"], &listed["totalSize"]), (&task["id"], &json!(1)));
        let cancelled = scene.ask(Method::POST, &format!("{tenant}/tasks/{id}:cancel"), None, &[], None).await;
        assert_eq!(cancelled.json()["id"], task["id"], "{}", cancelled.text);
        assert_eq!(scene.get(&format!("{tenant}/extendedAgentCard")).await.status, 400);
        let push =
            scene.post(&format!("{tenant}/tasks/{id}/pushNotificationConfigs"), &json!({ "url": "http://x/" })).await;
        assert_eq!((push.status, push.reason().contains("PUSH")), (400, true), "{}", push.text);
    }
}

#[tokio::test]
async fn a_stream_is_bare_and_both_verbs_subscribe() {
    let mut scene = Scene::with(Policy::default()).await;
    let id = scene.waiting().await;
    for verb in [Method::GET, Method::POST] {
        let url = format!("{}/tasks/{id}:subscribe", scene.url);
        let mut events =
            Client::new().events(verb, &url, None, &[("a2a-version", "1.0")], None).await.expect("a stream");
        let first: Value = serde_json::from_str(&events.next().await.expect("whole").expect("one").data).expect("JSON");
        assert_eq!(first["task"]["id"], id.as_str(), "no envelope");
    }
}

#[tokio::test]
async fn a_no_has_a_status_a_word_and_its_details() {
    let scene = Scene::with(Policy::default()).await;
    let good = at_once(message("x", json!({}), json!({}))).to_string();
    let nobody = "run_000000000000000000000000";
    let plain = [("content-type", "text/plain")];
    for (verb, path, body, headers, status, word) in [
        (Method::POST, "/message:send".to_owned(), Some("not json"), &plain[..], 415, "INVALID_ARGUMENT"),
        (Method::POST, "/message:send".to_owned(), Some("{"), &[], 400, "INVALID_ARGUMENT"),
        (Method::POST, "/message:send".to_owned(), Some("{\"a\":1,\"a\":1}"), &[], 400, "INVALID_ARGUMENT"),
        (Method::POST, "/message:send".to_owned(), Some("{}"), &[], 400, "INVALID_ARGUMENT"),
        (Method::GET, "/message:send".to_owned(), None, &[], 405, "UNIMPLEMENTED"),
        (Method::GET, "/tasks?pageSize=0".to_owned(), None, &[], 400, "INVALID_ARGUMENT"),
        (Method::GET, "/tasks?pageSize=x".to_owned(), None, &[], 400, "INVALID_ARGUMENT"),
        (Method::GET, "/nothing".to_owned(), None, &[], 404, "NOT_FOUND"),
        (Method::GET, format!("/tasks/{nobody}"), None, &[], 404, "NOT_FOUND"),
        (Method::GET, format!("/tasks/{nobody}:subscribe"), None, &[], 404, "NOT_FOUND"),
        (Method::POST, format!("/tasks/{nobody}:cancel"), None, &[], 404, "NOT_FOUND"),
    ] {
        let got = scene.ask(verb.clone(), &path, body, headers, None).await;
        let error = &got.json()["error"];
        assert_eq!(
            (got.status, &error["status"], &error["code"]),
            (status, &json!(word), &json!(status)),
            "{verb} {path}: {}",
            got.text
        );
        assert!(error["message"].is_string() && error["details"][0]["@type"].is_string(), "{}", got.text);
        assert_eq!(got.headers["content-type"], "application/json");
    }
    // Without a version a client speaks 0.3; the query names one as well as the header.
    let url = |query: &str| format!("{}/message:send{query}", scene.url);
    let send = async |query: &str| {
        let headers = [("content-type", "application/json")];
        Client::new()
            .send(Method::POST, &url(query), Some(good.clone().into_bytes()), &headers, None)
            .await
            .unwrap()
            .0
            .as_u16()
    };
    assert_eq!((send("").await, send("?A2A-Version=1.0").await), (400, 200));
}

#[tokio::test]
async fn the_protocols_own_media_type_is_for_who_names_it() {
    let scene = Scene::with(Policy::default()).await;
    let body = at_once(message("x", json!({}), json!({}))).to_string();
    for header in ["content-type", "accept"] {
        let mut headers = vec![(header, "application/a2a+json")];
        if header == "accept" {
            headers.push(("content-type", "application/json"));
        }
        let got = scene.ask(Method::POST, "/message:send", Some(&body), &headers, None).await;
        assert_eq!((got.status, &got.headers["content-type"]), (200, &"application/a2a+json".parse().unwrap()));
    }
}

/// One authority function for every door: what an outsider may not do by one binding it
/// may not do by the other.
#[tokio::test]
async fn an_outsider_answers_stops_and_reads_nothing_by_either_binding() {
    let mut scene = Scene::with(Policy { reads: ReadPolicy::Parties, ..Policy::default() }).await;
    let id = scene.waiting().await;
    let stranger = SigningKey::from_seed([0x5E; 32]);
    let steal = message("mine now", json!({ "taskId": id }), scene.caller.bag(&stranger, scene.house.now()));
    let rpc = |method: &'static str, params: Value| scene.caller.call(method, params);
    for (method, path, params) in
        [("SendMessage", "/message:send", steal.clone()), ("SendStreamingMessage", "/message:stream", steal)]
    {
        let no = rpc(method, params.clone()).await;
        assert_eq!(no["error"]["data"][0]["reason"], "ACT_REQUIRED", "{no}");
        let no = scene.post(path, &params).await;
        assert_eq!((no.status, no.reason().contains("ACT_REQUIRED")), (401, true), "{}", no.text);
    }
    let no = rpc("CancelTask", json!({ "id": id })).await;
    assert_eq!(no["error"]["data"][0]["reason"], "ACT_REQUIRED", "{no}");
    let no = scene.ask(Method::POST, &format!("/tasks/{id}:cancel"), None, &[], Some(&stranger)).await;
    assert_eq!(no.status, 401, "{}", no.text);
    for (method, verb, path) in [
        ("GetTask", Method::GET, format!("/tasks/{id}")),
        ("SubscribeToTask", Method::GET, format!("/tasks/{id}:subscribe")),
        ("SubscribeToTask", Method::POST, format!("/tasks/{id}:subscribe")),
    ] {
        let no = rpc(method, json!({ "id": id })).await;
        assert_eq!(no["error"]["code"], -32001, "{no}");
        for key in [None, Some(&stranger)] {
            let no = scene.ask(verb.clone(), &path, None, &[], key).await;
            assert_eq!(no.status, 404, "{}", no.text);
        }
    }
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} }).to_string();
    let json_type = [("content-type", "application/json")];
    for (key, count) in [(None, 0), (Some(&stranger), 0), (Some(&head()), 1)] {
        let got = scene.ask(Method::GET, "/tasks", None, &[], key).await;
        assert_eq!(got.json()["totalSize"], count, "{}", got.text);
        let got = scene.ask(Method::POST, "", Some(&list), &json_type, key).await;
        assert_eq!(got.json()["result"]["totalSize"], count, "{}", got.text);
    }
    // The head reads by its signature, and its question still stands.
    let got = scene.ask(Method::GET, &format!("/tasks/{id}"), None, &[], Some(&head())).await;
    assert_eq!(got.json()["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{}", got.text);
}

#[tokio::test]
async fn an_agent_that_demands_an_extension_answers_only_those_who_activate_it() {
    let scene = Scene::with(Policy::default()).await;
    let uri = "https://ext.example/demanded";
    let text = json!({ "name": "echo", "agentCardExtra": { "capabilities": { "extensions": [
        { "uri": uri, "required": true }, { "uri": "urn:wikala:witness:1", "required": true } ] } } });
    let (link, name) = (scene.puppet.link, scene.puppet.agent.name.clone());
    let roster = [Registration { name, interjections: false, text: text.to_string() }];
    scene.house.app.desk.ask(move |w, now| w.register(now, link, &roster, None)).await.expect("registered");
    let card = scene.get("/.well-known/agent-card.json").await.json();
    let listed = card["capabilities"]["extensions"].as_array().expect("a list").clone();
    assert_eq!((listed.len(), &listed[2]["uri"], listed[0].get("required")), (3, &json!(uri), None));

    let body = at_once(message("x", json!({}), json!({})));
    let no = scene.post("/message:send", &body).await;
    assert_eq!((no.status, no.reason().contains("EXTENSION_SUPPORT_REQUIRED")), (400, true), "{}", no.text);
    let no = scene.caller.call("SendStreamingMessage", body.clone()).await;
    assert_eq!(no["error"]["code"], -32008, "{no}");
    for name in ["a2a-extensions", "x-a2a-extensions"] {
        let headers = [(name, "urn:other, https://ext.example/demanded"), ("content-type", "application/json")];
        let yes = scene.ask(Method::POST, "/message:send", Some(&body.to_string()), &headers, None).await;
        assert_eq!((yes.status, &yes.headers["a2a-extensions"]), (200, &uri.parse().unwrap()), "{}", yes.text);
    }
    let original = scene.get("/.well-known/provider-card.json").await;
    assert_eq!(original.text, text["agentCardExtra"].to_string(), "the provider's own, as received");
}

/// The canonical form written out here, as another implementation would: members sorted,
/// no spaces, everything that is there.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().filter(|(name, _)| *name != "signatures").collect();
            sorted.sort_by_key(|(name, _)| name.encode_utf16().collect::<Vec<_>>());
            let members = sorted.iter().map(|(name, value)| format!("{}:{}", json!(name), canonical(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

#[tokio::test]
async fn the_card_is_signed_by_the_witness_over_its_canonical_form() {
    let scene = Scene::with(Policy::default()).await;
    let card = scene.get("/.well-known/agent-card.json").await.json();
    let signature = &card["signatures"][0];
    let protected = signature["protected"].as_str().expect("a header");
    let header: Value = serde_json::from_slice(&base64url::decode(protected).expect("base64url")).expect("JSON");
    assert_eq!((&header["alg"], &header["typ"]), (&json!("EdDSA"), &json!("JOSE")));
    let key = PublicKey::from_hex(header["kid"].as_str().expect("a key")).expect("admitted");
    assert_eq!(key, scene.house.app.public_key());
    let bytes = base64url::decode(signature["signature"].as_str().expect("a signature")).expect("base64url");
    let signature = Signature::from_bytes(bytes.try_into().expect("64 bytes"));
    let holds = |card: &Value| {
        let payload = base64url::encode(canonical(card).as_bytes());
        key.verify(format!("{protected}.{payload}").as_bytes(), &signature).is_ok()
    };
    assert!(holds(&card));
    let mut other = card.clone();
    other["supportedInterfaces"][0]["url"] = "http://evil/".into();
    assert!(!holds(&other));
}

/// What a provider may put into its card, and a reader who knows the closed set of members
/// would not: such a member in the card we sign would break the signature for that reader.
#[tokio::test]
async fn the_cards_signature_holds_in_the_sdks_own_verifier_whatever_a_provider_wrote() {
    let Some(python) = crate::interop::installed("python/bin/python") else { return };
    let scene = Scene::with(Policy::default()).await;
    let text = json!({ "name": "echo", "description": "", "agentCardExtra": {
        "x-unknown": 1, "preferredTransport": "JSONRPC", "icon_url": "http://i/", "documentationUrl": "",
        "securitySchemes": { "key": { "type": "apiKey", "in": "header", "name": "k" } },
        "security": [{ "key": [] }],
        "provider": { "organization": "O", "url": "http://o/", "more": true },
        "defaultInputModes": [],
        "skills": [{ "id": "s", "name": "S\u{fffd}\u{1f600}", "description": "", "tags": ["a", ""], "input_modes": ["x"], "more": {} }],
        "capabilities": { "extensions": [
            { "uri": "urn:x:1", "params": { "required": false, "n": 1.10, "big": 1e21, "i": 9_007_199_254_740_993_u64,
                "none": null, "empty": "", "deep": [{ "a": [] }, 2] }, "more": 1 },
            { "uri": "urn:x:2", "required": false, "description": 7 } ] },
    } });
    let (link, name) = (scene.puppet.link, scene.puppet.agent.name.clone());
    let roster = [Registration { name, interjections: true, text: text.to_string() }];
    scene.house.app.desk.ask(move |w, now| w.register(now, link, &roster, None)).await.expect("registered");
    let key = scene.house.app.public_key().to_hex();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/clients/python/a2a_card.py");
    let mut verify = std::process::Command::new(python);
    verify.args([script, &scene.url, &key]);
    let said = tokio::task::spawn_blocking(move || verify.output()).await.expect("ran").expect("starts");
    let card = scene.get("/.well-known/agent-card.json").await.text;
    assert!(said.status.success(), "{card}\n{}", String::from_utf8_lossy(&said.stderr));
}

/// A form or an empty body is what a page of somebody else's may post without asking the
/// browser first: nothing stops a task that way.
#[tokio::test]
async fn a_page_of_somebody_elses_stops_nothing() {
    let mut scene = Scene::with(Policy::default()).await;
    let task = scene.post("/message:send", &at_once(message("x", json!({}), json!({})))).await.json()["task"].clone();
    scene.puppet.take().await;
    let id = task["id"].as_str().expect("an id");
    let url = format!("{}/tasks/{id}:cancel?A2A-Version=1.0", scene.url);
    let send = async |headers: &[(&str, &str)], body: Option<&str>| {
        let body = body.map(|body| body.as_bytes().to_vec());
        Client::new().send(Method::POST, &url, body, headers, None).await.expect("an answer").0.as_u16()
    };
    assert_eq!(send(&[], None).await, 415);
    assert_eq!(send(&[("content-type", "application/x-www-form-urlencoded")], None).await, 415);
    assert_eq!(send(&[("content-type", "text/plain"), ("a2a-version", "1.0")], None).await, 415);
    assert_eq!(send(&[("content-type", "text/plain")], Some("{}")).await, 415);
    assert_eq!(scene.get(&format!("/tasks/{id}")).await.json()["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(send(&[("a2a-version", "1.0")], None).await, 200);
}

#[tokio::test]
async fn a_body_names_the_task_of_its_address_or_none() {
    let mut scene = Scene::with(Policy::default()).await;
    let (one, two) = (scene.waiting().await, scene.waiting().await);
    let proof = |run: &str| json!({ "cancel": cancel(&head(), run, scene.house.now()) });
    for (path, body) in [
        (format!("/tasks/{one}:cancel"), json!({ "id": two, "metadata": proof(&one) })),
        (format!("/acme/tasks/{one}:cancel"), json!({ "tenant": "other", "metadata": proof(&one) })),
    ] {
        let no = scene.post(&path, &body).await;
        assert_eq!(no.status, 400, "{}", no.text);
        assert!(no.text.contains("is not what the address names"), "{}", no.text);
    }
    let body = json!({ "id": one, "tenant": "acme", "metadata": proof(&one) });
    let yes = scene.post(&format!("/acme/tasks/{one}:cancel"), &body).await;
    assert_eq!(yes.status, 200, "{}", yes.text);
}

/// Every event until the end of a stream: its name and its data.
async fn told(events: &mut Events) -> Vec<(Option<String>, Value)> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await.expect("whole") {
        all.push((event.kind, serde_json::from_str(&event.data).expect("JSON")));
    }
    all
}

#[tokio::test]
async fn a_question_is_streamed_and_its_answer_goes_on_to_the_end() {
    let mut scene = Scene::with(Policy::default()).await;
    let version = [("a2a-version", "1.0"), ("content-type", "application/json")];
    let url = format!("{}/message:stream", scene.url);
    let stream = async |params: Value| {
        Client::new().events(Method::POST, &url, Some(&params), &version, None).await.expect("a stream")
    };
    let mut events = stream(message("x", json!({}), scene.caller.bag(&head(), scene.house.now()))).await;
    let run = scene.puppet.takes_and_asks(&["q"]).await;
    let told_first = told(&mut events).await;
    let last = &told_first.last().expect("one").1["statusUpdate"];
    assert_eq!(
        (&last["taskId"], &last["status"]["state"]),
        (&json!(run.as_str()), &json!("TASK_STATE_INPUT_REQUIRED"))
    );
    assert!(told_first.iter().all(|(name, _)| name.is_none()), "{told_first:?}");
    let proof = json!({ "resolution": resolve(&head(), run.as_str(), scene.house.now()) });
    let mut events = stream(message("yes", json!({ "taskId": run.as_str() }), proof)).await;
    assert_eq!(scene.puppet.take().await.run, run);
    scene.puppet.begins(&run).await;
    scene.puppet.ends(&run).await;
    let told_last = told(&mut events).await;
    assert_eq!(told_last.last().expect("one").1["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

/// Bare events have no envelope that could say so: SDKs tell an error by the event's name.
#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_event_named_error() {
    let mut scene = Scene::with(Policy::default()).await;
    let id = scene.waiting().await;
    let url = format!("{}/tasks/{id}:subscribe", scene.url);
    let version = [("a2a-version", "1.0")];
    let mut events = Client::new().events(Method::GET, &url, None, &version, None).await.expect("a stream");
    assert!(events.next().await.expect("whole").is_some());
    scene.house.close();
    let told = told(&mut events).await;
    let (name, error) = told.last().expect("one");
    assert_eq!((name.as_deref(), &error["error"]["code"]), (Some("error"), &json!(503)), "{error}");
    assert_eq!(error["error"]["details"][1]["reason"], "SHUTTING_DOWN", "{error}");
}
