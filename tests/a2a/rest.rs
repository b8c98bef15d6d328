//! The HTTP+JSON binding: the same methods, answered with a status.

use axum::http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use wikala_chain::{PublicKey, Signature, SigningKey, base64url};
use wikala_doors::client::{Client, Signer};
use wikala_witness::{Policy, ReadPolicy, Registration};

use super::{Caller, at_once, head, message, provider};
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
    assert_eq!(scene.get("/tasks").await.json()["totalSize"], 0);
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
    assert_eq!((listed.len(), &listed[1]["uri"], &listed[0]["required"]), (2, &json!(uri), &json!(false)));

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
/// no spaces, nothing that is at its default.
fn canonical(value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, String)> = members
                .iter()
                .filter(|(name, value)| *name != "signatures" && !(*name == "required" && **value == json!(false)))
                .filter_map(|(name, value)| Some((name, canonical(value)?)))
                .collect();
            sorted.sort();
            let members: Vec<String> = sorted.iter().map(|(name, text)| format!("{}:{text}", json!(name))).collect();
            (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().filter_map(canonical).collect();
            (!items.is_empty()).then(|| format!("[{}]", items.join(",")))
        }
        Value::String(text) if text.is_empty() => None,
        other => Some(other.to_string()),
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
        let payload = base64url::encode(canonical(card).expect("members").as_bytes());
        key.verify(format!("{protected}.{payload}").as_bytes(), &signature).is_ok()
    };
    assert!(holds(&card));
    let mut other = card.clone();
    other["supportedInterfaces"][0]["url"] = "http://evil/".into();
    assert!(!holds(&other));
}
