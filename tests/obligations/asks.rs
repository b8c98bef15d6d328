//! The other way round: a provider stops to ask, and its head owes the answer.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_certs::{Deed, Moment};
use wikala_chain::AgentName;
use wikala_chain::{Digest, SigningKey};
use wikala_doors::agui::words;
use wikala_doors::client::Client;
use wikala_doors::obligations::EXTENSION;
use wikala_doors::obligations::spec::{Asked, request};
use wikala_witness::{AgentId, RunId, ThreadId};

use super::{Owed, Scene, code, plain, route, session};
use crate::a2a::{Caller, certificate, head, provider, resolve, value};
use crate::agui;
use crate::house::Puppet;
use crate::link::peer::Peer;

/// A question with this demand, as its provider says it.
pub(crate) fn demanding(thread: &str, mut question: Value, spec: &Value, key: &SigningKey, now: u64) -> Value {
    let known = ThreadId::parse(thread).expect("ours");
    let id = question["id"].as_str().expect("an id").to_owned();
    let parts = json!([{ "data": question }]).to_string();
    let asked = Asked { thread: &known, kind: "ask", message_id: &id, role: "ROLE_AGENT", parts: &parts };
    let payload = request(asked, &spec.to_string()).unwrap_or_default();
    let deed = Deed::Create { thread: thread.to_owned(), request: Digest::of(payload.as_bytes()) };
    let act = value(&deed.sign(key, Moment::from_secs(now)));
    question["metadata"] = json!({ EXTENSION: { "v": 1, "obligation": spec, "act": act } });
    question
}

/// The provider stops to ask this.
pub(crate) async fn stops(puppet: &Puppet, run: &RunId, question: Value) {
    let outcome = json!({ "type": "interrupt", "interrupts": [question] });
    let text = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome }).to_string();
    let event = words::read(&text).expect("an event");
    puppet.say(run, event.fact, &event.words.text).await;
    puppet.finish(run).await;
}

impl Scene {
    /// A run of the head's that its provider has begun.
    pub(super) async fn begun(&mut self, id: &str) -> RunId {
        let mut said = self.demand(id, &plain());
        for name in ["response_obligation", "act"] {
            said.as_object_mut().unwrap().remove(name);
        }
        // Who speaks without a demand presents itself.
        said["metadata"] = Caller::of(&self.house, &self.puppet.agent).bag(&head(), self.now());
        let (status, told) = self.ask(&said).await;
        assert_eq!(status, 202, "{told}");
        let run = self.puppet.take().await.run;
        self.puppet.begins(&run).await;
        run
    }

    pub(super) async fn stops(&self, run: &RunId, question: Value) {
        stops(&self.puppet, run, question).await;
    }

    async fn run(&self, run: &RunId) -> Value {
        self.send(Method::GET, &format!("/v1/runs/{run}"), None, None).await.1
    }

    /// What is owed to the question of a run.
    pub(super) async fn owed_to(&self, run: &RunId) -> Owed {
        let view = self.run(run).await;
        let told = &view["asks"][0]["items"][0]["obligation"];
        let text = |name: &str| told[name].as_str().unwrap_or_else(|| panic!("{view}")).to_owned();
        let request = Digest::from_hex(&text("request_digest")).expect("a digest");
        Owed { id: text("obligation_id"), event: text("request_event_id"), request, run: run.to_string() }
    }

    pub(super) async fn answer(
        &self,
        run: &RunId,
        key: &SigningKey,
        answer: Value,
        certificate: Option<Value>,
    ) -> (u16, Value) {
        // Always a text; what is JSON is taken as that.
        let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
        let mut body = json!({ "answer": answer, "resolution": resolve(key, run.as_str(), self.now()) });
        if let Some(certificate) = certificate {
            body["delegation"] = certificate;
        }
        self.post(&format!("/v1/runs/{run}/answer"), &body).await
    }
}

fn question(id: &str) -> Value {
    json!({ "id": id, "reason": "confirmation", "message": "how many?" })
}

#[tokio::test]
async fn n59_the_answer_of_a_pause_and_what_is_owed_are_one() {
    let mut scene = Scene::open().await;
    let run = scene.begun("m1").await;
    let until = std::time::UNIX_EPOCH + std::time::Duration::from_secs(scene.now() + 600);
    let mut asked = question("q");
    asked["responseSchema"] =
        json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    asked["expiresAt"] = humantime::format_rfc3339_seconds(until).to_string().into();
    scene.stops(&run, demanding(&scene.thread, asked.clone(), &plain(), &provider(), scene.now())).await;

    let owed = scene.owed_to(&run).await;
    let view = scene.view(&owed.id).await;
    assert_eq!(
        (&view["requester"], &view["responsible"]),
        (&json!(provider().public().to_hex()), &json!(head().public().to_hex()))
    );
    assert_eq!((&view["ask_id"], &view["deadline_at"]), (&json!("q"), &json!(scene.now() + 600)));
    assert_eq!((&view["response_schema_id"], &view["response_schema"]), (&json!("q"), &asked["responseSchema"]));
    assert_eq!(view["request"]["parts"], json!([{ "data": asked }]));
    let facts: Vec<&str> = view["delivery"].as_array().unwrap().iter().filter_map(|f| f["fact"].as_str()).collect();
    assert_eq!(facts, ["queued", "delivered", "read"], "read back, and read by who owes it");
    let counts = |inbox: &Value| (inbox["action_required"].clone(), inbox["awaiting_peer"].clone());
    assert_eq!(counts(&scene.inbox(&head()).await), (json!(1), json!(0)));
    assert_eq!(counts(&scene.inbox(&provider()).await), (json!(0), json!(1)));

    // A session of the head's takes it; the answer goes to the run and nowhere else.
    let given = certificate(&head(), &session(), scene.now() + 600, true);
    let deed = Deed::Accept { obligation: owed.id.clone(), revision: 1 };
    let accept = json!({ "revision": 1, "act": scene.prove(&session(), &deed), "certificate": given });
    assert_eq!(scene.post(&route(&owed.id, "accept"), &accept).await.1["state"], "acknowledged");
    let aside = json!({ "response_schema_id": "q", "structured_response": { "n": 4 } });
    assert_eq!(code(&scene.respond(&head(), &owed, &aside).await), "409 answer-the-run");

    let wrong = scene.answer(&run, &session(), json!({ "n": "four" }), Some(given.clone())).await;
    assert_eq!(code(&wrong), "422 answer-schema");
    assert_eq!(
        (scene.stands(&owed.id).await, scene.run(&run).await["status"].clone()),
        (("acknowledged".into(), 2), json!("input-required"))
    );
    // Nothing was spent: the same second, the same act.
    let right = scene.answer(&run, &session(), json!({ "n": 4 }), Some(given)).await;
    assert_eq!(right.0, 200, "{}", right.1);
    let view = scene.view(&owed.id).await;
    assert_eq!(
        (&view["state"], &view["revision"], &view["response"]["structured_response"]),
        (&json!("completed"), &json!(3), &json!({ "n": 4 }))
    );
    let last = view["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["actorKey"], &last["effectiveKey"]),
        (&json!(session().public().to_hex()), &json!(head().public().to_hex()))
    );
    let again = scene.puppet.take().await;
    assert_eq!((again.run.clone(), again.leg.reply.map(|reply| reply.len())), (run.clone(), Some(1)));
    scene.puppet.begins(&run).await;
    scene.puppet.ends(&run).await;
    assert_eq!(scene.stands(&owed.id).await, ("completed".into(), 3));
}

#[tokio::test]
async fn what_cannot_be_owed_is_asked_all_the_same() {
    let mut scene = Scene::open().await;
    let (thread, now) = (scene.thread.clone(), scene.now());
    let spec = |members: Value| agui::with(plain(), members);
    let with = |name: &str, value: Value| agui::with(question("q"), json!({ name: value }));
    let of = |question: Value, spec: Value| demanding(&thread, question, &spec, &provider(), now);
    let cases = [
        ("not-owed requester-not-author", demanding(&thread, question("q"), &plain(), &head(), now)),
        ("not-owed act-signature", {
            let mut other = of(question("q"), plain());
            other["message"] = "how few?".into();
            other
        }),
        ("not-owed act-stale", demanding(&thread, question("q"), &plain(), &provider(), now - 61)),
        ("not-owed unknown-field", of(question("q"), spec(json!({ "foo": 1 })))),
        ("not-owed deadline-not-future", of(with("expiresAt", json!("2001-01-01T00:00:00Z")), plain())),
        ("not-owed schema-in-place-cycle", of(with("responseSchema", json!({ "$ref": "#" })), plain())),
        (
            "not-owed body-malformed",
            of(with("responseSchema", json!({})), spec(json!({ "response_schema_id": "s", "response_schema": {} }))),
        ),
        (
            "not-owed responsible-not-recipient",
            of(question("q"), spec(json!({ "responsible": session().public().to_hex() }))),
        ),
    ];
    for (n, (expect, asked)) in cases.into_iter().enumerate() {
        let run = scene.begun(&format!("m{n}")).await;
        scene.stops(&run, asked).await;
        let view = scene.run(&run).await;
        assert_eq!(view["status"], "input-required", "{expect}");
        assert_eq!(scene.answer(&run, &head(), json!("yes"), None).await.0, 200);
        scene.puppet.take().await;
        scene.puppet.begins(&run).await;
        scene.puppet.ends(&run).await;
        let (_, events) = scene.text(Method::GET, &format!("/v1/runs/{run}/events"), None, None).await;
        let (kind, code) = expect.split_once(' ').unwrap();
        assert!(events.contains(kind) && events.contains(&format!("\"code\":\"{code}\"")), "{expect}: {events}");
    }
    assert_eq!((scene.rows("event"), scene.rows("obligation"), scene.rows("spent_act")), (0, 0, 8));
    // One that was asked before, by its id and by its act.
    let first = scene.begun("first").await;
    let asked = of(question("q"), plain());
    scene.stops(&first, asked.clone()).await;
    assert_eq!(scene.answer(&first, &head(), json!("yes"), None).await.0, 200);
    scene.puppet.take().await;
    scene.puppet.begins(&first).await;
    scene.puppet.ends(&first).await;
    let second = scene.begun("second").await;
    scene.stops(&second, asked).await;
    assert_eq!(scene.rows("obligation"), 1);
    assert!(scene.run(&second).await["asks"][0]["items"][0]["obligation"].is_null());
}

#[tokio::test]
async fn who_asked_takes_it_back_and_who_owes_may_give_up() {
    let mut scene = Scene::open().await;
    let provider = provider();
    let ask = async |scene: &mut Scene, id: &str| {
        let run = scene.begun(&format!("m-{id}")).await;
        scene.stops(&run, demanding(&scene.thread, question(id), &plain(), &provider, scene.now())).await;
        (scene.owed_to(&run).await, run)
    };
    let (owed, run) = ask(&mut scene, "goes-on").await;
    scene.puppet.begins(&run).await;
    assert_eq!(scene.stands(&owed.id).await, ("canceled".into(), 2));
    scene.puppet.ends(&run).await;

    let (owed, run) = ask(&mut scene, "answers-itself").await;
    assert_eq!(scene.answer(&run, &provider, json!("yes"), None).await.0, 200);
    let view = scene.view(&owed.id).await;
    assert_eq!((&view["state"], &view["reason"]), (&json!("canceled"), &json!("answered_by_requester")));
    scene.puppet.take().await;
    scene.puppet.begins(&run).await;
    scene.puppet.ends(&run).await;

    let (owed, run) = ask(&mut scene, "abandoned").await;
    let bag = json!({ "resolution": resolve(&head(), run.as_str(), scene.now()) });
    let entries = json!([{ "interruptId": "abandoned", "status": "cancelled" }]);
    let body = agui::with(agui::body(&scene.thread, "r2", bag), json!({ "resume": entries }));
    let path = format!("/agui/{}/ask", provider.public());
    let (puppet, followed) = (&mut scene.puppet, run.clone());
    let goes_on = async {
        puppet.take().await;
        puppet.begins(&followed).await;
        puppet.ends(&followed).await;
    };
    // The stream ends with the run.
    let client = Client::new();
    let url = format!("{}{path}", scene.house.url);
    let (told, ()) = tokio::join!(
        client.send(
            Method::POST,
            &url,
            Some(body.to_string().into_bytes()),
            &[("content-type", "application/json")],
            None
        ),
        goes_on
    );
    assert_eq!(told.expect("an answer").0, 200);
    let view = scene.view(&owed.id).await;
    assert_eq!((&view["state"], &view["reason"]), (&json!("failed"), &json!("abandoned")));

    // The end of the run is no end of what is owed; without a run to answer it is answered here.
    let (owed, run) = ask(&mut scene, "ended").await;
    let failed = words::read(r#"{"type":"RUN_ERROR","message":"no more"}"#).unwrap();
    scene.puppet.say(&run, failed.fact, &failed.words.text).await;
    assert_eq!(scene.stands(&owed.id).await, ("created".into(), 1));
    assert_eq!(code(&scene.respond(&provider, &owed, &json!({})).await), "403 exact-responsible-required");
    let (status, told) = scene.respond(&head(), &owed, &json!({})).await;
    assert_eq!((status, &told["state"]), (200, &json!("completed")), "{told}");

    let (owed, _) = ask(&mut scene, "withdrawn").await;
    assert_eq!(code(&scene.cancel(&head(), &owed.id, 1).await), "403 exact-requester-required");
    assert_eq!(scene.cancel(&provider, &owed.id, 1).await.1["state"], "canceled");
}

/// The agent's own obligation waits for the human that its question is for.
#[tokio::test]
async fn a_question_of_a_run_that_owes_is_owed_beside_it() {
    let mut scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    let run = scene.puppet.take().await.run;
    scene.puppet.begins(&run).await;
    assert_eq!(scene.accept(&provider(), &owed.id, 1).await.0, 200);
    scene.stops(&run, demanding(&scene.thread, question("q"), &plain(), &provider(), scene.now())).await;
    let asked = scene.owed_to(&run).await;
    assert_ne!(asked.id, owed.id);
    assert_eq!(scene.stands(&owed.id).await, ("pending_human".into(), 3));
    assert_eq!(scene.answer(&run, &head(), json!("yes"), None).await.0, 200);
    assert_eq!(scene.stands(&owed.id).await, ("acknowledged".into(), 4));
    assert_eq!(scene.stands(&asked.id).await, ("completed".into(), 2));
    let inbox = scene.inbox(&provider()).await;
    assert_eq!((&inbox["action_required"], &inbox["awaiting_peer"]), (&json!(1), &json!(0)));
}

/// The schema that was stored with the demand holds, whatever the question says of itself.
#[tokio::test]
async fn an_answer_fits_the_schema_that_was_demanded() {
    let mut scene = Scene::open().await;
    let run = scene.begun("m1").await;
    let spec = agui::with(plain(), json!({ "response_schema_id": "s", "response_schema": { "type": "integer" } }));
    scene.stops(&run, demanding(&scene.thread, question("q"), &spec, &provider(), scene.now())).await;
    let owed = scene.owed_to(&run).await;
    assert_eq!(code(&scene.answer(&run, &head(), json!("many"), None).await), "422 answer-schema");
    assert_eq!(scene.stands(&owed.id).await, ("created".into(), 1));
    assert_eq!(scene.answer(&run, &head(), json!(4), None).await.0, 200);
    assert_eq!(scene.stands(&owed.id).await, ("completed".into(), 2));
}

/// A key of one's own names one message; another question by that key is none.
#[tokio::test]
async fn a_key_that_named_another_question_names_no_second_one() {
    let mut scene = Scene::open().await;
    for (n, id) in ["one", "two"].into_iter().enumerate() {
        let run = scene.begun(&format!("m-{id}")).await;
        let mut asked = demanding(&scene.thread, question(id), &plain(), &provider(), scene.now());
        asked["metadata"][EXTENSION]["idempotency_key"] = "same".into();
        scene.stops(&run, asked).await;
        assert_eq!(scene.rows("obligation"), 1, "{id}");
        assert_eq!(scene.run(&run).await["asks"][0]["items"][0]["obligation"].is_null(), n == 1);
        assert_eq!(scene.answer(&run, &head(), json!("yes"), None).await.0, 200);
        scene.puppet.take().await;
        scene.puppet.begins(&run).await;
        scene.puppet.ends(&run).await;
    }
}

/// Who came later with a chain did not bind the thread, and owes nothing in it.
#[tokio::test]
async fn a_thread_that_was_born_without_a_head_has_nobody_who_owes() {
    let mut scene = Scene::open().await;
    let said = json!({ "kind": "post", "message_id": "m0", "body": "hello" });
    assert_eq!(scene.ask(&said).await.0, 202);
    let run = scene.puppet.take().await.run;
    scene.puppet.begins(&run).await;
    scene.puppet.ends(&run).await;
    let run = scene.begun("m1").await;
    scene.stops(&run, demanding(&scene.thread, question("q"), &plain(), &provider(), scene.now())).await;
    assert_eq!(scene.rows("obligation"), 0);
}

/// A provider says that it stops and that it is done in one breath; what it demands is looked
/// at in between, and must not be overtaken.
#[tokio::test]
async fn a_question_over_a_link_is_not_overtaken_by_the_end_of_its_leg() {
    let house = crate::house::TestHouse::open().await;
    let mut peer = Peer::attach(&house, &provider(), &["ask"]).await;
    let agent = AgentId { provider: provider().public(), name: AgentName::new("ask").expect("a name") };
    let client = Client::new();
    for round in 0..20 {
        let made = client.post_json(&format!("{}/threads/{}/ask", house.url, agent.provider), &json!({}), &[]).await;
        let thread = made.expect("up").1["threadId"].as_str().expect("an id").to_owned();
        let said = json!({
            "kind": "post", "message_id": "m", "body": "go", "metadata": Caller::of(&house, &agent).bag(&head(), house.now()),
        });
        let path = format!("{}/v1/conversations/{thread}/actions", house.url);
        assert_eq!(client.post_json(&path, &said, &[]).await.expect("up").0, 202);
        let run = RunId::parse(peer.take().await["runId"].as_str().expect("an id")).expect("ours");
        let mut asked = question("q");
        asked["responseSchema"] = json!({ "type": "object", "title": format!("round {round}") });
        let asked = demanding(&thread, asked, &plain(), &provider(), house.now());
        let outcome = json!({ "type": "interrupt", "interrupts": [asked] });
        for event in [
            json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" }),
            json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome }),
        ] {
            peer.say(&run, event, None).await;
        }
        peer.finish(&run).await;
        peer.silent().await;
        let (_, view) = client.get_json(&format!("{}/v1/runs/{run}", house.url)).await.expect("up");
        assert_eq!(view["status"], "input-required", "{round}: {view}");
        assert!(view["asks"][0]["items"][0]["obligation"]["obligation_id"].is_string(), "{view}");
    }
}

/// Names of ours are none that a party could have taken.
#[tokio::test]
async fn what_a_party_calls_its_messages_stands_in_no_answers_way() {
    let mut scene = Scene::open().await;
    let run = scene.begun("m1").await;
    scene.stops(&run, demanding(&scene.thread, question("q"), &plain(), &provider(), scene.now())).await;
    let taken = scene.demand_in(&scene.thread, &head(), &format!("answer-{run}-1-q"), &plain());
    assert_eq!(scene.ask(&taken).await.0, 202);
    let told = scene.answer(&run, &head(), json!("yes"), None).await;
    assert_eq!(told.0, 200, "{told:?}");
}

/// An answer may be null, where null is what was agreed on.
#[tokio::test]
async fn null_is_an_answer_too() {
    let scene = Scene::open().await;
    let spec = agui::with(plain(), json!({ "response_schema_id": "s", "response_schema": { "type": "null" } }));
    let owed = scene.owed("m1", spec).await;
    let members = json!({ "response_schema_id": "s", "structured_response": null });
    let told = scene.respond(&provider(), &owed, &members).await;
    assert_eq!((told.0, &told.1["state"]), (200, &json!("completed")), "{told:?}");
}

/// A zone is two digits, a colon and two digits.
#[tokio::test]
async fn a_zone_that_is_none_is_refused() {
    let scene = Scene::open().await;
    for zone in ["+-5:-3", "++5:+3", "+5:30", "+05:3", "+05:300"] {
        let spec = agui::with(plain(), json!({ "deadline_at": format!("2090-01-15T08:00:00{zone}") }));
        assert!(matches!(scene.ask(&scene.demand("m1", &spec)).await.0, 400 | 422), "{zone}");
    }
}

/// Whoever owns an obligation does not make its history too long to read.
#[tokio::test]
async fn after_a_thousand_moves_an_obligation_can_only_end() {
    let scene = Scene::open().await;
    let owed = scene.owed("m1", plain()).await;
    assert_eq!(scene.accept(&provider(), &owed.id, 1).await.0, 200);
    // As if it had moved so often: a thousand requests say nothing more.
    let db = rusqlite::Connection::open(scene.house.file()).expect("the record");
    db.execute_batch(
        "DROP TRIGGER obligation_fence; DROP TRIGGER obligation_entered; UPDATE obligation SET revision = 1000",
    )
    .expect("moved");
    drop(db);
    assert_eq!(code(&scene.progress(&provider(), &owed.id, 1000, "in_progress").await), "409 illegal-transition");
    assert_ne!(code(&scene.respond(&provider(), &owed, &json!({})).await), "409 illegal-transition");
}
