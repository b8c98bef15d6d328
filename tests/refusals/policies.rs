//! What an operator may choose: answers bound to their bytes, presenters taken at their
//! word, a gateway that vouches for them.

use serde_json::{Value, json};
use wikala_certs::{Moment, Proof};
use wikala_chain::{PublicKey, VerifiedChain};
use wikala_doors::house::Gateway;
use wikala_witness::{AnswerPolicy, Fact, Policy, PresenterPolicy, ReadPolicy};

use super::acts::calls;
use super::stage::{Stage, head, message, nobody, stranger};
use super::table::{Ask, Table};
use crate::a2a::{at_once, value};
use crate::agui;
use crate::house::TestHouse;

const SECRET: &str = "only the gateway knows";

/// `--answers bound`: no other lane, and no other form on that one.
pub async fn bound_answers(table: &mut Table) {
    let mut stage = Stage::with(Policy { answers: AnswerPolicy::Bound, ..Policy::default() }).await;
    let paused = stage.paused(&["a", "b"]).await;
    let called = stage.running().await;
    let words = r#"{"type":"TOOL_CALL_START","toolCallId":"call","toolCallName":"look"}"#;
    stage.puppet.say(&called.run, Fact::CallOpened("call".to_owned()), words).await;
    stage.puppet.ends(&called.run).await;
    for (why, bag) in [("a plain act", stage.act(&head(), &paused.run)), ("no act", json!({}))] {
        let asks = stage.answers(&paused, paused.entries("yes"), bag);
        table.refused(&stage, "answer-form", why, asks).await;
    }
    // In an entry's metadata it is the same act.
    let signed = |id: &str| agui::with(agui::entry(id, "yes"), json!({ "metadata": stage.act(&head(), &paused.run) }));
    let [_, _, resume, _] = stage.answers(&paused, json!([signed("a"), signed("b")]), json!({}));
    table.refused(&stage, "answer-form", "a plain act in entries", [resume]).await;
    let act = stage.act(&head(), &called.run);
    table.refused(&stage, "answer-form", "a plain act", calls(&stage, &called.thread, act)).await;
    table.must(stage.puppet.was_told_nothing(), "an unbound answer was told to the agent");
    // Bound to what it says, it is taken; to anything else, it is nobody's.
    let [.., ours] = stage.answers(&paused, paused.entries("yes"), json!({}));
    let mut body: Value = serde_json::from_slice(&ours.body.expect("a body")).expect("JSON");
    let answer = body["answer"].as_str().expect("an answer").to_owned();
    let at = Moment::from_secs(stage.now());
    body["form"] = "answer".into();
    let signed = |says: &str| value(&Proof::answer(&head(), paused.run.as_str(), &["a", "b"], says.as_bytes(), at));
    body["resolution"] = signed("something else");
    table.refused(&stage, "act-signature", "another answer than signed", [stage.post(&ours.path, body.clone())]).await;
    body["resolution"] = signed(&answer);
    assert_eq!(stage.post(&ours.path, body).send(&stage).await.expect("taken").0, 200);
}

/// The run that the provider takes next: head and opener.
async fn opened(stage: &mut Stage, ask: Ask) -> (Option<PublicKey>, Option<PublicKey>) {
    let (status, _, body) = ask.send(stage).await.expect("taken");
    assert!(status == 200 && body["error"].is_null(), "{} {body}", ask.name);
    let run = stage.puppet.take().await.run;
    stage.puppet.ends(&run).await;
    let view = stage.house.app.readers.read(move |reader| reader.run_for_operator(&run)).await.expect("a run");
    (view.head, view.opener)
}

/// An utterance on each protocol that is answered before the agent is done.
fn utterances(stage: &Stage, name: &str, bag: &Value) -> [Ask; 2] {
    let said = at_once(message("x", json!({}), bag.clone()));
    [stage.a2a("SendMessage", said), stage.agui(agui::body(name, "r", bag.clone()))]
}

/// `--presenter optional`: the last hop is taken at its word, what is said beside it is not.
pub async fn optional_presenters(table: &mut Table) {
    let mut stage = Stage::with(Policy { presenter: PresenterPolicy::Optional, ..Policy::default() }).await;
    let chain = VerifiedChain::start(&head());
    let alone = json!({ "actorChain": chain.tokens().collect::<Vec<_>>() });
    for ask in utterances(&stage, "alone", &alone) {
        assert_eq!(opened(&mut stage, ask).await, (Some(head().public()), None), "its opener stays unnamed");
    }
    let proved = stage.bag(&head());
    let [first, ..] = utterances(&stage, "proved", &proved);
    assert_eq!(opened(&mut stage, first).await, (Some(head().public()), Some(head().public())));
    let now = stage.now();
    let proof = |at: u64| json!({ "presenter": stage.caller.presenter(&head(), &chain, at) });
    let others = json!({ "presenter": stage.caller.presenter(&stranger(), &chain, now) });
    let other_tip = json!({ "presenter": stage.bag(&stranger())["presenter"] });
    for (code, why, bag) in [
        ("presenter-spent", "used before", proved),
        ("presenter-proof", "stale", agui::with(alone.clone(), proof(now - 61))),
        ("presenter-proof", "for another chain", agui::with(alone.clone(), other_tip)),
        ("presenter-mismatch", "somebody else's", agui::with(alone.clone(), others)),
        ("proof-malformed", "no proof", agui::with(alone.clone(), json!({ "presenter": {} }))),
    ] {
        table.refused(&stage, code, why, stage.speaks(bag)).await;
    }
    for ask in stage.speaks(alone) {
        let ask = ask.signed_for(&head(), "http://elsewhere.example/", now);
        table.refused(&stage, "presenter-proof", "signed for another target", [ask]).await;
    }
    table.must(stage.puppet.was_told_nothing(), "a wrong proof was told to the agent");
}

/// `--reads parties`: what is there is told in the words of what never was.
pub async fn reads_by_parties(table: &mut Table) {
    let mut stage = Stage::with(Policy { reads: ReadPolicy::Parties, ..Policy::default() }).await;
    let bound = stage.paused(&["a", "b"]).await;
    let (run, thread) = (bound.run.as_str().to_owned(), bound.thread.clone());
    let reads = |run: &str, thread: &str| {
        let task = json!({ "id": run });
        let runs = [
            stage.a2a("GetTask", task.clone()),
            stage.a2a("SubscribeToTask", task),
            stage.get(&format!("/v1/runs/{run}")),
            stage.get(&format!("/v1/runs/{run}/events")),
        ];
        (runs, [stage.get(&format!("/threads/{thread}")), stage.get(&format!("/threads/{thread}/tree"))])
    };
    let (runs, threads) = reads(&run, &thread);
    table.refused(&stage, "run-unknown", "nobody reads", runs.clone()).await;
    table.refused(&stage, "thread-unknown", "nobody reads", threads.clone()).await;
    let (none, nowhere) = reads(&nobody("run"), &nobody("thread"));
    for (there, never) in runs.iter().chain(&threads).zip(none.iter().chain(&nowhere)) {
        let [said, words] = [there, never].map(|ask| ask.clone().signed(&stage, &stranger()));
        let said = said.send(&stage).await.expect("a no").2.to_string();
        let words = words.send(&stage).await.expect("a no").2.to_string();
        let words = words.replace(&nobody("run"), &run).replace(&nobody("thread"), &thread);
        table.must(said == words, &format!("{}: {said} instead of {words}", there.name));
    }
    let signed = |asks: &[Ask]| asks.iter().map(|ask| ask.clone().signed(&stage, &stranger())).collect::<Vec<_>>();
    table.refused(&stage, "run-unknown", "an outsider reads", signed(&runs)).await;
    table.refused(&stage, "thread-unknown", "an outsider reads", signed(&threads)).await;
    for ask in runs.into_iter().chain(threads) {
        let (status, _, body) = ask.signed(&stage, &head()).send(&stage).await.expect("an answer");
        assert!(status == 200 && body["error"].is_null(), "its head may read: {body}");
    }
}

fn trusted(network: [u8; 4]) -> Gateway {
    Gateway { network: (network.into(), 32), header: "x-presenter".to_owned(), secret: SECRET.to_owned() }
}

/// A gateway's header counts from the gateway alone, and from it as a signature would.
pub async fn gateway(table: &mut Table) {
    let mut stage = Stage::of(TestHouse::behind(Policy::default(), trusted([127, 0, 0, 1])).await).await;
    let chain = VerifiedChain::start(&head());
    let alone = json!({ "actorChain": chain.tokens().collect::<Vec<_>>() });
    let named = |ask: Ask, key: &PublicKey| ask.with("x-presenter", &key.to_hex());
    let vouched = |ask: Ask, key: &PublicKey| named(ask, key).with("wikala-gateway-secret", SECRET);
    for ask in utterances(&stage, "vouched", &alone) {
        let ask = vouched(ask, &head().public());
        assert_eq!(opened(&mut stage, ask).await, (Some(head().public()), Some(head().public())));
    }
    for ask in utterances(&stage, "chainless", &json!({})) {
        let ask = vouched(ask, &stranger().public());
        assert_eq!(opened(&mut stage, ask).await, (None, Some(stranger().public())));
    }
    // Without the header it is as without a gateway.
    for ask in utterances(&stage, "proved", &json!({})) {
        assert_eq!(opened(&mut stage, ask).await, (None, None));
    }
    let [proved, ..] = utterances(&stage, "proved", &stage.bag(&head()));
    assert_eq!(opened(&mut stage, proved).await, (Some(head().public()), Some(head().public())));
    table.refused(&stage, "presenter-required", "no header", stage.speaks(alone.clone())).await;
    let read = || stage.get("/v1/runs/run_000000000000000000000000");
    for ask in stage.speaks(alone.clone()).into_iter().chain([read()]) {
        let secret = |text: &str| named(ask.clone(), &head().public()).with("wikala-gateway-secret", text);
        for (why, ask) in [
            ("no secret", named(ask.clone(), &head().public())),
            ("an empty secret", secret("")),
            ("a wrong secret", secret("guessed")),
            // A gateway that appends would let its client go first.
            ("there twice", vouched(ask.clone(), &head().public()).with("x-presenter", &head().public().to_hex())),
            ("no key", ask.clone().with("x-presenter", "root").with("wikala-gateway-secret", SECRET)),
        ] {
            table.refused(&stage, "body-malformed", why, [ask]).await;
        }
    }
    for ask in stage.speaks(alone.clone()) {
        let ask = vouched(ask, &stranger().public());
        table.refused(&stage, "presenter-mismatch", "vouched for somebody else", [ask]).await;
    }
    table.must(stage.puppet.was_told_nothing(), "an unvouched caller was told to the agent");

    // The right secret from another address: whoever found it is no gateway.
    let stage = Stage::of(TestHouse::behind(Policy::default(), trusted([127, 0, 0, 2])).await).await;
    for ask in stage.speaks(alone) {
        let ask = vouched(ask, &head().public());
        table.refused(&stage, "body-malformed", "not the gateway's address", [ask]).await;
    }
}
