//! Whose agent it is, and by which road: one carrier a name, by the operator, with the
//! provider's consent.

use serde_json::{Value, json};
use wikala_certs::Consent;
use wikala_chain::AgentName;
use wikala_doors::client::Client;
use wikala_doors::upstream;
use wikala_doors::upstream::agents::Change;
use wikala_witness::{Code, Dialect, NewUpstream, No, Registration, RunId, Status};

use super::fake::{Fake, Say, frame, task};
use super::{add, added, key, online};
use crate::house::{Puppet, TestHouse, until};

fn code<T>(said: Result<T, No>) -> Option<Code> {
    match said {
        Err(No::Refusal(refusal)) => Some(refusal.code),
        _ => None,
    }
}

#[tokio::test]
async fn a_name_has_one_carrier_a_link_or_an_upstream() {
    let house = TestHouse::open().await;
    let fake = Fake::open().await;
    let provider = key(0xA1);
    added(&house, "far", Dialect::A2a, &fake.url).await;
    assert_eq!(code(add(&house, &provider, "far", Dialect::A2a, &fake.url).await), Some(Code::CarrierTaken));

    // One that nobody could reach yet is there all the same.
    let nowhere = "http://127.0.0.1:1/";
    add(&house, &provider, "gone", Dialect::A2a, nowhere).await.expect("added");
    assert_eq!(code(add(&house, &provider, "gone", Dialect::A2a, nowhere).await), Some(Code::CarrierTaken));

    // The same key dials in beside it, for other names.
    let puppet = Puppet::attach(&house, &provider, "near").await;
    let link = puppet.link;
    let register = |names: &[&str]| {
        let roster: Vec<Registration> = names
            .iter()
            .map(|name| Registration {
                name: AgentName::new(name).expect("a name"),
                interjections: false,
                text: json!({ "name": name }).to_string(),
            })
            .collect();
        house.app.desk.ask(move |w, now| w.register(now, link, &roster, None))
    };
    assert_eq!(code(register(&["near", "far"]).await), Some(Code::CarrierTaken));
    assert_eq!(code(add(&house, &provider, "near", Dialect::A2a, &fake.url).await), Some(Code::CarrierTaken));

    // Taken away, the name is the provider's to serve again, and not before.
    let id = wikala_witness::AgentId { provider: provider.public(), name: AgentName::new("far").expect("a name") };
    upstream::remove(&house.app, id.clone()).await.expect("removed");
    let (agent, now) = (id.clone(), house.app.desk.now());
    let view = house.app.readers.read(move |reader| reader.agent(&agent, now)).await.expect("its history stays");
    assert!(!view.online && view.upstream.is_none());
    register(&["near", "far"]).await.expect("free");
    assert_eq!(code(upstream::remove(&house.app, id).await), Some(Code::AgentUnknown));
}

/// An agent that is gone takes its work with it, and whoever comes under its name begins anew.
#[tokio::test]
async fn a_removed_agent_leaves_nothing_to_its_successor() {
    let house = TestHouse::open().await;
    let fake = Fake::open().await;
    let id = added(&house, "far", Dialect::A2a, &fake.url).await;
    let old = house.app.readers.read(|reader| reader.upstreams()).await.expect("read").remove(0);
    let url = format!("{}/a2a/{}/far", house.url, id.provider);
    let call = async |text: &str, context: &Value| {
        let mut message = json!({ "messageId": text, "role": "ROLE_USER", "parts": [{ "text": text }] });
        if context.is_string() {
            message["contextId"] = context.clone();
        }
        let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
        let (_, answer) = Client::new().post_json(&url, &body, &[("a2a-version", "1.0")]).await.expect("an answer");
        answer["result"]["task"].clone()
    };
    fake.say("\"first\"", Say::Hang(vec![frame(json!({ "task": task("WORKING") }))]));
    let told = call("first", &Value::Null).await;
    let run = RunId::parse(told["id"].as_str().expect("an id")).expect("ours");
    until("it is heard", || fake.listened.load(std::sync::atomic::Ordering::SeqCst) == 1).await;

    upstream::remove(&house.app, id.clone()).await.expect("removed");
    let view = house.app.readers.read(move |reader| reader.run_for_operator(&run)).await.expect("known");
    assert_eq!((view.status, view.reason.as_deref()), (Status::Failed, Some("agent_removed")));
    until("nobody listens any more", || fake.listened.load(std::sync::atomic::Ordering::SeqCst) == 0).await;

    let other = Fake::open().await;
    assert_eq!(added(&house, "far", Dialect::A2a, &other.url).await, id);
    // A carrier of the old one that still tries to reach it has nothing to attach to.
    let text = json!({ "name": "far" }).to_string();
    let registration = Registration { name: id.name.clone(), interjections: false, text };
    let attached = house.app.desk.ask(move |w, now| w.attach_upstream(now, &old, &registration).map(|_| ())).await;
    assert_eq!(code(attached), Some(Code::AgentUnknown));
    online(&house, &id).await;
    other.say("\"second\"", Say::Stream(vec![frame(json!({ "task": task("COMPLETED") }))]));
    call("second", &told["contextId"]).await;
    until("it is asked", || other.sent("\"second\"").len() == 1).await;
    let sent: Value = serde_json::from_str(&other.sent("\"second\"")[0].body).expect("JSON");
    let told = &sent["params"]["message"];
    assert!(told["contextId"].is_null() && told["taskId"].is_null(), "{told}");
}

#[tokio::test]
async fn nobody_is_put_in_front_of_an_address_without_consent() {
    let house = TestHouse::open().await;
    let (witness, name) = (house.app.public_key(), AgentName::new("far").expect("a name"));
    let url = "http://127.0.0.1:1/";
    let add = |url: &str, consent: &Consent| {
        let request = json!({
            "op": "agent-add", "name": "far", "url": url, "dialect": "agui", "consent": consent.to_json(), "custodial": false,
        });
        let Some(Change::Add(new)) = Change::read(&request) else { panic!("a change") };
        new.and_then(|new| new.verify(&witness)).map(|new: NewUpstream| new.consent.provider())
    };
    let consent = Consent::sign(&key(1), &witness, &name, url);
    assert_eq!(add(url, &consent), Ok(key(1).public()));
    assert!(add("http://127.0.0.1:2/", &consent).is_err(), "another address");
    assert!(add(url, &Consent { provider: key(2).public(), ..consent }).is_err(), "another key");
    let elsewhere = Consent::sign(&key(1), &key(3).public(), &name, url);
    assert!(add(url, &elsewhere).is_err(), "another witness");
    for bad in ["ftp://x/", "http://u:p@x/", "nonsense", ""] {
        assert!(add(bad, &Consent::sign(&key(1), &witness, &name, bad)).is_err(), "{bad}");
    }
}
