//! Answers: every lane gated alike, the ask standing until the one that counts.

use serde_json::{Value, json};
use wikala_certs::SignedCertificate;
use wikala_chain::{SigningKey, VerifiedChain};
use wikala_witness::{Policy, RunId, Status};

use wikala_doors::delivery;

use super::{
    FINISHED, STARTED, Scene, UUID, and, asking, body, calling, entry, head, kinds, parsed, stranger, tool, with,
};

fn resume(thread: &str, run: &str, bag: Value, entries: Value) -> Value {
    with(body(thread, run, bag), json!({ "resume": entries }))
}

#[tokio::test]
async fn a_resume_with_the_heads_act_in_the_bag_goes_on_under_the_new_runs_id() {
    let mut scene = Scene::open().await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q1", "q2"])]).await;
    let bag = and(scene.bag(&head()), "resolution", scene.resolution(&head(), &run));
    let said = resume("t", "r2", bag, json!([entry("q1", "yes"), entry("q2", "no")]));
    let got = scene.post(&said).await;
    assert_eq!(got.run(), run.as_str());
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    let reply = delivery.leg.reply.unwrap();
    assert_eq!(reply.iter().map(|item| item.payload.as_deref().unwrap()).collect::<Vec<_>>(), ["\"yes\"", "\"no\""]);
    // The words go along whole, as received.
    assert_eq!(&*delivery.leg.words.text, said.to_string());
    let first = got.text().await;
    assert!(first.contains(r#""runId":"r2""#) && !first.contains("theirs"));
    let view = scene.view(&run).await;
    assert_eq!((view.status, view.asks[0].answered_by), (Status::Completed, Some(head().public())));

    // The same act with the same request, long after: the same continuation.
    scene.house.advance(3600).await;
    assert_eq!(scene.post(&said).await.text().await, first);
    // With another answer: who was first, and when.
    let other = resume("t", "r3", said["forwardedProps"].clone(), json!([entry("q1", "no"), entry("q2", "no")]));
    let lost = scene.post(&other).await;
    assert_eq!(lost.status, 409);
    let lost = parsed(&lost.text().await);
    assert_eq!(lost["error"]["code"], "already-answered");
    assert_eq!(lost["error"]["answeredBy"], head().public().to_hex());
}

#[tokio::test]
async fn an_act_in_entry_metadata_counts_and_several_must_be_one() {
    let mut scene = Scene::open().await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q1", "q2"])]).await;
    let act = scene.resolution(&head(), &run);
    let signed = |id: &str, act: &Value| and(entry(id, "yes"), "metadata", json!({ "resolution": act }));
    let other = scene.resolution(&stranger(), &run);
    let mixed = resume("t", "r2", scene.bag(&head()), json!([signed("q1", &act), signed("q2", &other)]));
    assert_eq!(scene.post(&mixed).await.refused().await, (400, "proof-malformed".into()));
    assert!(scene.is_open(&run).await);
    // No chain, no presenter: the act is the whole right, and its authority the alias's owner.
    let said = resume("t", "r2", Value::Null, json!([signed("q1", &act), signed("q2", &act)]));
    let got = scene.post(&said).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(delivery.run, run);
    assert_eq!(kinds(&got.events().await), ["RUN_STARTED", "RUN_FINISHED"]);
}

#[tokio::test]
async fn a_session_keys_certificate_may_stand_beside_its_act() {
    let mut scene = Scene::open().await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q"])]).await;
    let session = SigningKey::from_seed([0x55; 32]);
    let until = scene.house.now() + 600;
    let certificate = SignedCertificate::issue(&head(), &session.public(), until).accept(&session).unwrap();
    let metadata =
        json!({ "resolution": scene.resolution(&session, &run), "delegation": parsed(&certificate.to_json()) });
    let other = SignedCertificate::issue(&head(), &session.public(), until + 1);
    let two = and(scene.bag(&head()), "delegation", parsed(&other.to_json()));
    let entries = json!([and(entry("q", "yes"), "metadata", metadata)]);
    let refused = scene.post(&resume("t", "r2", two, entries.clone())).await.refused().await;
    assert_eq!(refused, (400, "certificate-malformed".into()));
    let got = scene.post(&resume("t", "r2", Value::Null, entries)).await;
    scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(got.events().await.len(), 2);
    let ask = scene.view(&run).await.asks.remove(0);
    assert_eq!((ask.answered_by, ask.answered_with), (Some(head().public()), Some(session.public())));
}

#[tokio::test]
async fn without_a_valid_act_the_ask_stands_and_no_run_opens() {
    let mut scene = Scene::open().await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q"])]).await;
    let thread = scene.view(&run).await.thread.as_str().to_owned();
    let earlier = scene.resolution(&head(), &run);
    let entries = || json!([entry("q", "yes")]);
    let another = RunId::parse("run_0123456789abcdef01234567").unwrap();
    let for_another = scene.resolution(&head(), &another);
    scene.house.advance(61).await;
    let by = |key: &SigningKey| and(scene.bag(key), "resolution", scene.resolution(key, &run));
    let acts = [
        ("t", scene.bag(&head()), (401, "act-required")),
        (&*thread, Value::Null, (401, "act-required")),
        (&*thread, scene.bag(&stranger()), (401, "act-required")),
        (&*thread, by(&stranger()), (403, "not-an-authority")),
        ("t", and(scene.bag(&head()), "resolution", earlier), (401, "act-stale")),
        ("t", and(scene.bag(&head()), "resolution", for_another), (401, "act-signature")),
        ("t", and(scene.bag(&head()), "resolution", json!({ "publicKey": 5 })), (400, "proof-malformed")),
    ];
    for (thread, bag, (status, code)) in acts {
        let got = scene.post(&resume(thread, "r2", bag, entries())).await;
        assert_eq!(got.refused().await, (status, code.to_owned()));
        assert!(scene.is_open(&run).await);
    }
    assert_eq!(runs(&scene, &run).await, 1);
}

async fn runs(scene: &Scene, run: &RunId) -> usize {
    let thread = scene.view(run).await.thread;
    scene.house.app.readers.read(move |reader| reader.thread(&thread, None)).await.unwrap().runs.len()
}

#[tokio::test]
async fn an_answer_covers_every_open_item_once_and_no_other_or_nothing_is_spent() {
    let mut scene = Scene::open().await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q1", "q2"])]).await;
    let act = scene.resolution(&head(), &run);
    for (entries, code) in [
        (json!([entry("q1", "yes")]), "answer-incomplete"),
        (json!([]), "answer-incomplete"),
        (json!([entry("q1", "a"), entry("q2", "b"), entry("q3", "c")]), "answer-unknown-ask"),
        (json!([entry("q1", "a"), entry("q2", "b"), entry("q1", "a")]), "answer-duplicate"),
        (json!([entry("q9", "a")]), "answer-unknown-ask"),
    ] {
        let bag = and(scene.bag(&head()), "resolution", act.clone());
        assert_eq!(scene.post(&resume("t", "r2", bag, entries)).await.refused().await, (422, code.to_owned()));
        assert!(scene.is_open(&run).await);
    }
    let abandoned = json!({ "interruptId": "q2", "status": "cancelled" });
    let bag = and(scene.bag(&head()), "resolution", act);
    let got = scene.post(&resume("t", "r2", bag, json!([entry("q1", "yes"), abandoned]))).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    let reply = delivery.leg.reply.unwrap();
    assert!(!reply[0].abandoned && reply[1].abandoned && reply[1].payload.is_none());
    assert_eq!(got.events().await.len(), 2);
}

#[tokio::test]
async fn a_tool_result_for_an_open_call_is_an_answer_and_for_a_closed_one_history() {
    let mut scene = Scene::open().await;
    let [start, end] = calling("call_1");
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &start, &end, FINISHED]).await;
    let said =
        |id: &str, bag: Value, content: &str| with(body("t", id, bag), json!({ "messages": tool("call_1", content) }));
    let unsigned = scene.post(&said("r2", scene.bag(&head()), "here")).await;
    assert_eq!(unsigned.refused().await, (401, "act-required".into()));
    let act = scene.resolution(&head(), &run);
    let signed = said("r2", and(scene.bag(&head()), "resolution", act.clone()), "here");
    let got = scene.post(&signed).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!((&delivery.run, delivery.leg.ordinal), (&run, 1));
    assert_eq!(delivery.leg.reply.unwrap()[0].payload.as_deref(), Some("\"here\""));
    let first = got.text().await;
    // Sent again after a lost connection, it opens no second run; another answer is told it lost.
    assert_eq!(scene.post(&signed).await.text().await, first);
    let late = said("r3", and(scene.bag(&head()), "resolution", act), "there");
    assert_eq!(scene.post(&late).await.refused().await, (409, "already-answered".into()));
    assert_eq!(runs(&scene, &run).await, 1);
    // The whole history comes along with the next thing said.
    let next = scene.post(&said("r4", scene.bag(&head()), "here")).await;
    assert_ne!(next.run(), run.as_str());
    scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(next.events().await.len(), 2);
}

#[tokio::test]
async fn one_pause_may_want_a_resume_and_a_result() {
    let mut scene = Scene::open().await;
    let [start, end] = calling("call_1");
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &start, &end, &asking(&["q"])]).await;
    let act = scene.resolution(&head(), &run);
    let bag = |scene: &Scene| and(scene.bag(&head()), "resolution", act.clone());
    let half = scene.post(&resume("t", "r2", bag(&scene), json!([entry("q", "yes")]))).await;
    assert_eq!(half.refused().await, (422, "answer-incomplete".into()));
    let both = resume("t", "r2", bag(&scene), json!([entry("q", "yes")]));
    let both = with(both, json!({ "messages": tool("call_1", "here") }));
    let got = scene.post(&both).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(delivery.leg.reply.unwrap().len(), 2);
    let first = got.text().await;
    assert_eq!(scene.post(&both).await.text().await, first);
}

#[tokio::test]
async fn command_resume_is_gated_like_the_rest() {
    let mut scene = Scene::open().await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q"])]).await;
    let command = |bag: Value| and(bag, "command", json!({ "resume": { "approved": true } }));
    let unsigned = scene.post(&body("t", "r2", command(scene.bag(&head())))).await;
    assert_eq!(unsigned.refused().await, (401, "act-required".into()));
    let bag = and(scene.bag(&head()), "resolution", scene.resolution(&head(), &run));
    let got = scene.post(&body("t", "r2", command(bag.clone()))).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(delivery.leg.reply.unwrap()[0].payload.as_deref(), Some(r#"{"approved":true}"#));
    assert_eq!(got.events().await.len(), 2);
    // The same act with the same request: the stored result. With another answer: too late.
    let again = scene.post(&body("t", "r2", command(bag.clone()))).await;
    assert_eq!((again.run(), again.events().await.len()), (run.to_string(), 2));
    let other = and(bag, "command", json!({ "resume": "no" }));
    assert_eq!(scene.post(&body("t", "r2", other)).await.refused().await, (409, "already-answered".into()));
    let none = scene.post(&body("t", "r3", command(scene.bag(&head())))).await;
    assert_eq!(none.refused().await, (422, "no-open-ask".into()));
}

/// The official client refuses its next run until a resume covers what was open.
#[tokio::test]
async fn an_ask_closed_elsewhere_lets_its_member_follow() {
    let mut scene = Scene::open().await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q"])]).await;
    let url = format!("{}/v1/runs/{run}/answer", scene.house.url);
    let answer = json!({ "answer": "yes", "asks": ["q"], "resolution": scene.resolution(&head(), &run) });
    assert_eq!(scene.http.post_json(&url, &answer, &[]).await.unwrap().0.as_u16(), 200);
    scene.play(&[STARTED, FINISHED]).await;
    let abandon = json!([{ "interruptId": "q", "status": "cancelled" }]);
    let got = scene.post(&resume("t", "r2", scene.bag(&head()), abandon.clone())).await;
    assert_eq!(got.run(), run.as_str());
    let events = got.events().await;
    assert_eq!(kinds(&events), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!(events[0]["runId"], "r2");
    let other = scene.post(&resume("t", "r3", scene.bag(&head()), json!([entry("q", "no")]))).await;
    assert_eq!(other.refused().await, (409, "already-answered".into()));
    let thread = scene.view(&run).await.thread.as_str().to_owned();
    let outsider = scene.post(&resume(&thread, "r4", scene.bag(&stranger()), abandon)).await;
    assert_eq!(outsider.refused().await.0, 401);
}

#[tokio::test]
async fn a_resume_that_nothing_asks_for_is_never_an_utterance() {
    let mut scene = Scene::open().await;
    for thread in ["fresh", UUID, "thread_0123456789abcdef01234567"] {
        for entries in [json!([]), json!([entry("q", "yes")])] {
            let got = scene.post(&resume(thread, "r", scene.bag(&head()), entries)).await;
            assert_eq!(got.refused().await, (422, "no-open-ask".into()));
        }
    }
    let got = scene.post(&body("fresh", "r", scene.bag(&head()))).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(got.run(), delivery.run.as_str());
    assert_eq!(runs(&scene, &delivery.run).await, 1);
}

#[tokio::test]
async fn an_answer_for_an_offline_agent_spends_nothing() {
    let mut scene = Scene::with(Policy { link_grace_s: 5, ..Policy::default() }).await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q"])]).await;
    let link = scene.puppet.link;
    scene.house.app.desk.ask(move |w, now| w.detach(now, link)).await.unwrap();
    scene.house.advance(6).await;
    let bag = and(scene.bag(&head()), "resolution", scene.resolution(&head(), &run));
    let got = scene.post(&resume("t", "r2", bag, json!([entry("q", "yes")]))).await;
    assert_eq!(got.refused().await, (503, "agent-offline".into()));
    assert!(scene.is_open(&run).await);
}

#[tokio::test]
async fn an_alias_belongs_to_its_caller_and_a_guessable_one_to_nobody() {
    let mut scene = Scene::open().await;
    let mut threads = Vec::new();
    let agent = SigningKey::from_seed([0x77; 32]);
    let extended = VerifiedChain::start(&head()).extend(&agent).unwrap();
    for (n, bag) in [
        scene.bag(&head()),
        scene.bag(&stranger()),
        scene.carrying(&extended, &agent),
        Value::Null,
        Value::Null,
        scene.bag(&head()),
    ]
    .into_iter()
    .enumerate()
    {
        let got = scene.post(&body("main", &format!("r{n}"), bag)).await;
        threads.push(got.thread());
        scene.play(&[STARTED, FINISHED]).await;
    }
    assert_eq!(threads[0], threads[5]);
    threads.pop();
    threads.sort();
    threads.dedup();
    assert_eq!(threads.len(), 5);
    let mut nameless = Vec::new();
    for run in ["r1", "r2"] {
        nameless.push(scene.post(&body(UUID, run, Value::Null)).await.thread());
        scene.play(&[STARTED, FINISHED]).await;
    }
    assert_eq!(nameless[0], nameless[1]);
}

/// Claiming to be somebody must not tell whether that somebody is being asked.
#[tokio::test]
async fn mere_claims_learn_nothing_about_an_alias() {
    let mut scene = Scene::open().await;
    let run = scene.paused("t", scene.bag(&head()), &[STARTED, &asking(&["q"])]).await;
    let mut forged = scene.resolution(&head(), &run);
    forged["timestamp"] = (scene.house.now() - 1).into();
    let copied = json!({ "actorChain": scene.bag(&head())["actorChain"] });
    let entries = || json!([entry("q", "yes")]);
    for thread in ["t", "never"] {
        for bag in [json!({ "resolution": forged }), and(copied.clone(), "resolution", forged.clone())] {
            let got = scene.post(&resume(thread, "r2", bag, entries())).await;
            assert_eq!(got.refused().await, (422, "no-open-ask".into()), "{thread}");
        }
        let got = scene.post(&resume(thread, "r2", copied.clone(), entries())).await;
        assert_eq!(got.refused().await, (422, "no-open-ask".into()), "{thread}");
    }
}

#[tokio::test]
async fn old_clients_carry_their_bag_in_metadata() {
    let mut scene = Scene::open().await;
    let said = with(body("t", "r", json!({ "mine": 1 })), json!({ "metadata": scene.bag(&head()) }));
    let got = scene.post(&said).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert!(delivery.chain.is_some());
    assert_eq!(got.events().await.len(), 2);
    assert_eq!(scene.view(&delivery.run).await.head, Some(head().public()));
}

#[tokio::test]
async fn the_run_that_spawned_this_one_is_lineage() {
    let mut scene = Scene::open().await;
    let parent = scene.post(&body(UUID, "r1", Value::Null)).await;
    scene.play(&[STARTED, FINISHED]).await;
    let said = with(body("child", "r2", Value::Null), json!({ "parentRunId": parent.run() }));
    let child = scene.post(&said).await;
    let delivery = scene.play(&[STARTED, FINISHED]).await;
    assert_eq!(delivery.parent_run.as_deref(), Some(parent.run().as_str()));
    let root = wikala_witness::ThreadId::parse(&parent.thread()).unwrap();
    let tree = scene.house.app.readers.read(move |reader| reader.tree(&root, None)).await.unwrap();
    assert_eq!(tree.children[0].thread.as_str(), child.thread());
}

/// What an outsider is told never depends on what the thread does: nothing tells a
/// waiting run from one that goes on, ended, or never asked.
#[tokio::test]
async fn an_outsider_is_told_the_same_whatever_the_thread_does() {
    let mut scene = Scene::open().await;
    let mut told: Vec<Vec<(u16, String)>> = Vec::new();
    let waiting = scene.paused("waits", scene.bag(&head()), &[STARTED, &asking(&["q"])]).await;
    let ended = scene.paused("ended", scene.bag(&head()), &[STARTED, FINISHED]).await;
    let running = {
        scene.post(&body("runs", "r", scene.bag(&head()))).await;
        let run = scene.puppet.take().await.run;
        scene.say(&run, STARTED).await;
        run
    };
    for run in [waiting, ended, running] {
        let thread = scene.view(&run).await.thread.as_str().to_owned();
        let forged = and(json!({}), "resolution", scene.resolution(&stranger(), &run));
        let mut claimed = scene.resolution(&stranger(), &run);
        claimed["publicKey"] = head().public().to_hex().into();
        let mut answers = Vec::new();
        for bag in [json!({}), scene.bag(&stranger()), forged, and(json!({}), "resolution", claimed)] {
            let command = and(bag.clone(), "command", json!({ "resume": "yes" }));
            for said in [
                resume(&thread, "o1", bag.clone(), json!([])),
                resume(&thread, "o2", bag.clone(), json!([entry("q", "yes")])),
                resume(&thread, "o3", bag, json!([entry("q9", "yes")])),
                body(&thread, "o4", command),
            ] {
                let got = scene.post(&said).await;
                let status = got.status;
                let text = got.text().await;
                assert!(!text.contains("run_"), "an id of somebody else's run: {text}");
                answers.push((status, text.replace(&thread, "thread")));
            }
        }
        told.push(answers);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
    let codes: std::collections::BTreeSet<String> =
        told[0].iter().map(|(_, text)| parsed(text)["error"]["code"].as_str().unwrap_or(text).to_owned()).collect();
    assert_eq!(codes.into_iter().collect::<Vec<_>>(), ["act-required", "act-signature", "not-an-authority"]);
}

/// A member may speak in the thread; only the head and the provider answer what the agent
/// asked. No spelling of words is an answer to the agent that was none to the gate.
#[tokio::test]
async fn who_may_speak_and_not_answer_answers_in_no_spelling() {
    let mut scene = Scene::open().await;
    let middle = SigningKey::from_seed([0x4D; 32]);
    let chain = VerifiedChain::start(&head()).extend(&middle).unwrap();
    // It opened the thread, so it is a member of it.
    let asks = json!({ "type": "interrupt", "interrupts": [{ "id": "q", "reason": "tool_call", "toolCallId": "c" }] });
    let asks = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": asks }).to_string();
    let [start, end] = calling("c");
    let run = scene.paused("t", scene.carrying(&chain, &middle), &[STARTED, &start, &end, &asks]).await;
    let thread = scene.view(&run).await.thread;

    let bag = |scene: &Scene| scene.carrying(&chain, &middle);
    let spelled = |scene: &Scene, name: &str| and(bag(scene), name, json!({ "resume": "APPROVED" }));
    let mut other = tool("c", "APPROVED");
    other[1]["tool_call_id"] = other[1]["toolCallId"].take();
    other[1].as_object_mut().unwrap().remove("toolCallId");
    for (words, said, code) in [
        ("a command", body("t", "r2", spelled(&scene, "command")), "act-required"),
        ("in another case, as some fold it", body("t", "r3", spelled(&scene, "Command")), "act-required"),
        (
            "two of them",
            body("t", "r4", and(spelled(&scene, "command"), "Command", json!({ "resume": "no" }))),
            "body-malformed",
        ),
        (
            "a result for the call",
            with(body("t", "r5", bag(&scene)), json!({ "messages": tool("c", "x") })),
            "act-required",
        ),
        ("another spelling of it", with(body("t", "r6", bag(&scene)), json!({ "messages": other })), "body-malformed"),
        (
            "another bag",
            with(body("t", "r7", bag(&scene)), json!({ "forwarded_props": spelled(&scene, "command") })),
            "body-malformed",
        ),
        (
            "another entry",
            with(
                body("t", "r8", bag(&scene)),
                json!({ "resume": [{ "interruptId": "x", "interrupt_id": "q", "status": "resolved" }] }),
            ),
            "body-malformed",
        ),
    ] {
        assert_eq!(scene.post(&said).await.refused().await.1, code, "{words}");
    }
    // The other protocol's words become a turn of this one's.
    for name in ["command", "Command"] {
        let message = json!({ "messageId": name, "contextId": thread.as_str(), "role": "ROLE_USER", "parts": [{ "text": "hi" }] });
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
            "params": { "message": message, "metadata": spelled(&scene, name), "configuration": { "returnImmediately": true } },
        });
        let url = scene.url.replace("/agui/", "/a2a/");
        let (status, answer) = scene.http.post_json(&url, &call, &[("A2A-Version", "1.0")]).await.unwrap();
        assert!(status.is_success() && answer["result"]["task"].is_object(), "it may speak: {answer}");
        let delivery = scene.play(&[STARTED, FINISHED]).await;
        for words in [delivery::run_input(&delivery), delivery::agui_body(&delivery, "t", "r")] {
            assert!(words.contains("hi") && !words.contains("APPROVED"), "{words}");
        }
    }
    assert!(scene.is_open(&run).await);
}

/// The command that was let through reaches an agent that reads answers there; beside
/// checked entries it would be a second answer, which nobody checked.
#[tokio::test]
async fn the_command_that_was_checked_goes_on_and_no_other() {
    let mut scene = Scene::open().await;
    for (thread, beside, goes_on) in [("alone", false, true), ("beside", true, false)] {
        let run = scene.paused(thread, scene.bag(&head()), &[STARTED, &asking(&["q"])]).await;
        let bag = and(scene.bag(&head()), "resolution", scene.resolution(&head(), &run));
        let bag = and(bag, "command", json!({ "resume": "SIDEWAYS" }));
        let said = if beside { resume(thread, "r2", bag, json!([entry("q", "yes")])) } else { body(thread, "r2", bag) };
        let got = scene.post(&said).await;
        assert_eq!(got.status, 200);
        let delivery = scene.play(&[STARTED, FINISHED]).await;
        for words in [delivery::run_input(&delivery), delivery::agui_body(&delivery, "t", "r")] {
            assert_eq!(words.contains("SIDEWAYS"), goes_on, "{words}");
        }
    }
}
