//! The right to answer and to stop, through every lane.

use serde_json::{Value, json};
use wikala_witness::{Fact, RunId};

use super::stage::{Paused, Stage, cancel, certificate, head, message, provider, resolve, session, stranger};
use super::table::{Ask, Table};
use crate::agui;

pub async fn answers(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let (run, now) = (paused.run.as_str().to_owned(), stage.now());
    let right = stage.act(&head(), &paused.run);
    let act = |proof: Value| json!({ "resolution": proof });
    let mut tampered = resolve(&head(), &run, now);
    tampered["timestamp"] = (now + 1).into();
    let mut nonced = resolve(&head(), &run, now);
    nonced["nonce"] = "00".repeat(16).into();
    for (code, why, bag) in [
        ("act-required", "nothing at all", json!({})),
        ("act-required", "the head's own chain", stage.bag(&head())),
        ("act-required", "the provider's own chain", stage.bag(&provider())),
        ("not-an-authority", "an outsider's act", act(resolve(&stranger(), &run, now))),
        ("not-an-authority", "an outsider's, stale too", act(resolve(&stranger(), &run, now - 61))),
        ("act-signature", "another time than signed", act(tampered)),
        ("act-signature", "a nonce nobody signed", act(nonced)),
        ("act-signature", "a cancel", act(cancel(&head(), &run, now))),
        ("act-signature", "for another run", act(resolve(&head(), "run_other", now))),
        ("act-stale", "signed 61 s ago", act(resolve(&head(), &run, now - 61))),
        ("act-stale", "signed 61 s ahead", act(resolve(&head(), &run, now + 61))),
        ("proof-malformed", "no proof", act(json!({ "publicKey": "x" }))),
        ("proof-malformed", "no object", act(json!("x"))),
    ] {
        table.refused(&stage, code, why, stage.answers(&paused, paused.entries("yes"), bag)).await;
    }
    let entry = |id: &str| agui::entry(id, "yes");
    for (code, why, entries) in [
        ("answer-incomplete", "one of two", json!([entry("a")])),
        ("answer-unknown-ask", "one that is not open", json!([entry("a"), entry("b"), entry("z")])),
        ("answer-schema", "one that does not fit", json!([agui::entry("a", "misfit"), entry("b")])),
        ("answer-duplicate", "one twice", json!([entry("a"), entry("b"), entry("a")])),
    ] {
        table.refused(&stage, code, why, stage.answers(&paused, entries, right.clone())).await;
    }
    // Two proofs in one request: which of them would count?
    let signed = |id: &str, proof: Value| agui::with(entry(id), json!({ "metadata": { "resolution": proof } }));
    let both = json!([signed("a", resolve(&head(), &run, now)), signed("b", resolve(&stranger(), &run, now))]);
    let [_, _, resume, _] = stage.answers(&paused, both, json!({}));
    table.refused(&stage, "proof-malformed", "two that differ", [resume]).await;
    let certified = |until: u64| certificate(&head(), &session(), until, true);
    let two = json!([agui::with(entry("a"), json!({ "metadata": { "delegation": certified(now + 9) } })), entry("b")]);
    let [_, _, resume, _] = stage.answers(&paused, two, json!({ "delegation": certified(now + 8) }));
    table.refused(&stage, "certificate-malformed", "two that differ", [resume]).await;
    // And none of all this cost the head its act.
    stage.answered(&paused, &right).await;
}

/// The lanes of AG-UI are gated alike.
pub async fn lanes(table: &mut Table) {
    let mut stage = Stage::open().await;
    let running = stage.running().await;
    let call = Fact::CallOpened("call".to_owned());
    let words = r#"{"type":"TOOL_CALL_START","toolCallId":"call","toolCallName":"look"}"#;
    stage.puppet.say(&running.run, call, words).await;
    stage.puppet.ends(&running.run).await;
    let (run, now) = (running.run.as_str().to_owned(), stage.now());
    for (code, why, bag) in [
        ("act-required", "nothing at all", json!({})),
        ("act-required", "the head's own chain", stage.bag(&head())),
        ("not-an-authority", "an outsider's act", json!({ "resolution": resolve(&stranger(), &run, now) })),
        ("act-signature", "a cancel", json!({ "resolution": cancel(&head(), &run, now) })),
        ("act-stale", "signed 61 s ago", json!({ "resolution": resolve(&head(), &run, now - 61) })),
        ("proof-malformed", "no proof", json!({ "resolution": 5 })),
    ] {
        for ask in calls(&stage, &running.thread, bag) {
            table.refused(&stage, code, why, [ask]).await;
        }
    }
    table.must(stage.puppet.was_told_nothing(), "an answer that was refused was told to the agent");
}

/// A call's result in the history, and in `command.resume`.
pub fn calls(stage: &Stage, thread: &str, bag: Value) -> [Ask; 2] {
    let results = agui::with(agui::body(thread, "r", bag.clone()), json!({ "messages": agui::tool("call", "here") }));
    let command = agui::with(bag, json!({ "command": { "resume": "here" } }));
    let [mut results, mut command] = [results, agui::body(thread, "r", command)].map(|body| stage.agui(body));
    "tool".clone_into(&mut results.name);
    "command.resume".clone_into(&mut command.name);
    [results, command]
}

pub async fn cancels(table: &mut Table) {
    let mut stage = Stage::open().await;
    let (waiting, live) = (stage.paused(&["a", "b"]).await, stage.running().await);
    let now = stage.now();
    for run in [&waiting.run, &live.run].map(RunId::as_str) {
        for (code, why, bag) in [
            ("act-required", "nothing at all", json!({})),
            ("not-an-authority", "an outsider's act", json!({ "cancel": cancel(&stranger(), run, now) })),
            ("act-signature", "a resolve", json!({ "cancel": resolve(&head(), run, now) })),
            ("act-signature", "for another run", json!({ "cancel": cancel(&head(), "run_other", now) })),
            ("act-stale", "signed 61 s ago", json!({ "cancel": cancel(&head(), run, now - 61) })),
            ("act-stale", "signed 61 s ahead", json!({ "cancel": cancel(&head(), run, now + 61) })),
            ("proof-malformed", "no proof", json!({ "cancel": 5 })),
        ] {
            table.refused(&stage, code, why, stage.cancels(run, bag)).await;
        }
    }
    table.must(stage.puppet.was_told_nothing(), "a stop that was refused was told to the agent");
    let stop = |paused: &Paused| json!({ "cancel": cancel(&head(), paused.run.as_str(), now) });
    let stopped = stop(&live);
    let [task, ours] = stage.cancels(live.run.as_str(), stopped);
    assert_eq!(task.send(&stage).await.expect("taken").0, 200);
    stage.puppet.asked_to_stop().await;
    stage.puppet.ends(&live.run).await;
    let again = json!({ "cancel": cancel(&head(), live.run.as_str(), now + 1) });
    let ended = stage.cancels(live.run.as_str(), again);
    table.refused(&stage, "run-ended", "stopped before", ended).await;
    assert_eq!(ours.send(&stage).await.expect("a repeat").0, 200);
    // A stop that stopped one round is none for the next: asked to stop, it asked back.
    let mut round = stage.running().await;
    let [task, _] = stage.cancels(round.run.as_str(), stop(&round));
    assert_eq!(task.send(&stage).await.expect("taken").0, 200);
    stage.puppet.asked_to_stop().await;
    stage.asks(&mut round, &["c"]).await;
    let act = stage.act(&head(), &round.run);
    stage.answered(&round, &act).await;
    let spent = stage.cancels(round.run.as_str(), stop(&round));
    table.refused(&stage, "act-spent", "spent on the round before", spent).await;
}

/// What an act is told that comes second, or when nothing is asked.
pub async fn afterwards(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let act = stage.act(&head(), &paused.run);
    stage.answered(&paused, &act).await;
    let late = stage.act(&provider(), &paused.run);
    for (why, bag) in [("another authority, second", late), ("the same act, another answer", act.clone())] {
        let asks = stage.answers(&paused, paused.entries("second"), bag);
        table.refused(&stage, "already-answered", why, asks).await;
    }
    // It asks again: one proof answers one pause.
    stage.puppet.asks(&paused.run, &["c", "d"]).await;
    let again = json!([agui::entry("c", "yes"), agui::entry("d", "yes")]);
    table.refused(&stage, "act-spent", "spent on the pause before", stage.answers(&paused, again, act)).await;

    let live = stage.running().await;
    let act = stage.act(&head(), &live.run);
    let entries = json!([agui::entry("a", "yes")]);
    let asks = stage.answers(&live, entries.clone(), act.clone());
    table.refused(&stage, "no-open-ask", "it runs, and asks nothing", asks).await;
    for ask in calls(&stage, &live.thread, act.clone()).into_iter().skip(1) {
        table.refused(&stage, "no-open-ask", "it runs, and asks nothing", [ask]).await;
    }
    let follow_up = message("more", json!({ "taskId": live.run.as_str() }), json!({}));
    table.refused(&stage, "run-ended", "it waits for nothing", [stage.a2a("SendMessage", follow_up.clone())]).await;
    stage.puppet.ends(&live.run).await;
    table.refused(&stage, "no-open-ask", "it is over", stage.answers(&live, entries, act)).await;
    table.refused(&stage, "run-ended", "it is over", [stage.a2a("SendMessage", follow_up)]).await;
    let stop = json!({ "cancel": cancel(&head(), live.run.as_str(), stage.now()) });
    table.refused(&stage, "run-ended", "it is over", stage.cancels(live.run.as_str(), stop)).await;
    table.must(stage.puppet.was_told_nothing(), "an act that came late was told to the agent");
}

/// Nobody serves the agent any more.
pub async fn away(table: &mut Table) {
    let mut stage = Stage::open().await;
    let paused = stage.paused(&["a", "b"]).await;
    let link = stage.puppet.link;
    stage.house.app.desk.ask(move |w, now| w.detach(now, link)).await.expect("detached");
    stage.house.advance(31).await;
    let act = stage.act(&head(), &paused.run);
    let asks = stage.answers(&paused, paused.entries("yes"), act);
    table.refused(&stage, "agent-offline", "nothing is spent", asks).await;
}
