//! The promises the reference does not keep and the record alone can show, by their
//! numbers in the design.

use wikala_witness::{
    Caller, Effect, Entry, Fact, ItemKind, Lane, Mark, Place, Policy, Question, ReadPolicy, Reply, ReplyItem, Status,
};

use crate::harness::*;

fn item(id: &str) -> ReplyItem {
    ReplyItem { id: id.into(), kind: ItemKind::Interrupt, abandoned: false, payload: Some("1".into()) }
}

#[test]
fn p02_a_thread_created_ahead_binds_at_its_first_run() {
    let mut world = World::new();
    world.serve(&a());
    let to = agent(&a());
    let thread = world.run(|w, now| w.open_thread(now, &agent(&a()))).expect("a thread");
    assert_eq!(world.thread_head(&thread), None);
    let caller = world.carrying(chain(&[head()]), &head(), &to);
    world.speak(&to, Place::Thread(thread.clone()), caller).expect("its first run");
    assert_eq!(world.thread_head(&thread), Some(head().public()));
    let caller = world.carrying(chain(&[stranger()]), &stranger(), &to);
    assert_eq!(code(world.speak(&to, Place::Thread(thread.clone()), caller)), "not-a-member");
    assert_eq!(code(world.speak(&to, Place::Thread(thread), Caller::default())), "not-a-member");
}

#[test]
fn p04_the_head_answers_and_stops_what_the_provider_opened_on_its_thread() {
    let mut world = World::new();
    let link = world.serve(&a());
    let to = agent(&a());
    let opened = world.open(&a());
    world.take();
    world.complete(link, &opened.run);
    let caller = world.carrying(chain(&[a()]), &a(), &to);
    let own = world.speak(&to, Place::Thread(opened.thread.clone()), caller).expect("the provider is a member");
    assert_eq!(world.view(&own.run).head, Some(a().public()));
    world.take();
    world.pause(link, &own.run, &["q1"]);
    world.answer_by(&own.run, "1", &head()).expect("the head answers");
    world.take();
    assert_eq!(world.stop_by(&own.run, &head()).expect("the head stops").status, Status::Cancelling);
    assert_eq!(code(world.stop_by(&own.run, &stranger())), "not-an-authority");
}

#[test]
fn p05_every_run_stores_its_opener_and_a_missing_hop_is_flagged() {
    let mut world = World::new();
    world.serve(&a());
    world.serve(&b());
    let opened = world.open(&a());
    assert_eq!(world.view(&opened.run).opener, Some(head().public()));
    let anonymous = world.speak(&agent(&b()), Place::New, Caller::default()).expect("opened");
    assert_eq!(world.view(&anonymous.run).opener, None);
    // A takes H's hop without ours and goes on to B.
    let to = agent(&b());
    let caller = world.carrying(chain(&[head(), a()]), &a(), &to);
    let past = world.speak(&to, Place::New, caller).expect("accepted, the head may have handed it over");
    assert_eq!(world.view(&past.run).flags, ["dispatch-hop-missing"]);
    // An honest second [H] is none, nor is H extended by somebody who served nothing.
    let again = world.open(&a());
    assert!(world.view(&again.run).flags.is_empty());
    let caller = world.carrying(chain(&[head(), c()]), &c(), &to);
    let other = world.speak(&to, Place::New, caller).expect("opened");
    assert!(world.view(&other.run).flags.is_empty());
}

#[test]
fn p06_partial_foreign_and_doubled_answers_are_refused_and_the_ask_stands() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1", "q2"]);
    let act = world.at();
    let cases: [(&[&str], &str); 4] = [
        (&["q1"], "answer-incomplete"),
        (&["q1", "q2", "q3"], "answer-unknown-ask"),
        (&["q1", "q1", "q2"], "answer-duplicate"),
        (&[], "answer-incomplete"),
    ];
    for (ids, expected) in cases {
        let mut answer = single(&opened.run, "x", Some(resolve(&head(), &opened.run, act)));
        answer.reply = Reply { items: ids.iter().map(|id| item(id)).collect(), single: None };
        assert_eq!(code(world.answer_with(answer)), expected, "{ids:?}");
        assert_eq!(world.status(&opened.run), Status::InputRequired);
    }
    assert_eq!(code(world.answer(&opened.run, "x", Some(resolve(&head(), &opened.run, act)))), "answer-incomplete");
    // Nothing was spent: the very same act wins once the answer is whole. An item of the
    // wrong kind is read as what was asked.
    let mut answer = single(&opened.run, "x", Some(resolve(&head(), &opened.run, act)));
    let call = ReplyItem { kind: ItemKind::Call, ..item("q2") };
    answer.reply = Reply { items: vec![item("q1"), call], single: None };
    world.answer_with(answer).expect("whole");
    let leg = world.take().leg;
    assert!(leg.reply.expect("an answer").iter().all(|item| item.kind == ItemKind::Interrupt));
}

#[test]
fn p07_calls_left_open_pause_the_run_and_never_complete_it() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    for call in ["c1", "c2"] {
        world.event(link, &opened.run, Fact::CallOpened(call.into()), None).expect("heard");
    }
    world.event(link, &opened.run, Fact::CallAnswered("c1".into()), None).expect("heard");
    // A question about a call asks for it once.
    let question = Question { id: Some("q".into()), call: Some("c2".into()), text: "{}".into(), owing: None };
    world.event(link, &opened.run, Fact::CallOpened("c3".into()), None).expect("heard");
    let ended = Fact::Ended { questions: vec![question], pending: None, cancelled: false };
    world.event(link, &opened.run, ended, None).expect("heard");
    let view = world.view(&opened.run);
    assert_eq!(view.status, Status::InputRequired);
    let ids: Vec<_> = view.asks[0].items.iter().map(|item| (item.id.as_str(), item.kind)).collect();
    assert_eq!(ids, [("q", ItemKind::Interrupt), ("c3", ItemKind::Call)]);
    assert!(!world.entries(&opened.run).iter().any(|e| matches!(e.entry, Entry::Mark(Mark::Ended { .. }))));
    // A result for the call of a question would answer the question past its gate: it is open too.
    let open = ["c2", "c3"].map(|call| (opened.run.clone(), call.to_owned()));
    assert_eq!(world.reader().open_calls(&opened.thread).expect("read"), open);
    assert_eq!(world.reader().resume_target(&opened.thread, &["q", "c3"].into()).expect("read"), Some(opened.run));
}

#[test]
fn p07_what_the_provider_declares_pending_decides() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    world.event(link, &opened.run, Fact::CallOpened("c1".into()), None).expect("heard");
    let ended = Fact::Ended { questions: vec![], pending: Some(vec![]), cancelled: false };
    world.event(link, &opened.run, ended, None).expect("heard");
    assert_eq!(world.status(&opened.run), Status::Completed);
}

#[test]
fn a_pause_without_ids_is_named_by_run_and_ordinal() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    for ordinal in 1..=2 {
        let question = Question { id: None, call: None, text: "{}".into(), owing: None };
        let ended = Fact::Ended { questions: vec![question], pending: None, cancelled: false };
        world.event(link, &opened.run, ended, None).expect("asked");
        world.finish(link, &opened.run).expect("finished");
        let asks = world.view(&opened.run).asks;
        assert_eq!(asks.last().expect("an ask").items[0].id, format!("{}.{ordinal}", opened.run));
        world.now += 1;
        world.answer_by(&opened.run, "1", &head()).expect("answered");
        world.take();
    }
}

/// Whether it waits, runs or has ended: an outsider hears the same.
#[test]
fn p09_authority_comes_before_state() {
    // Where reads are open the state is no secret, and an unsigned message to a task that
    // waits for nothing is told so (`run-ended`); everywhere else nobody learns it here.
    let mut world = World::with(Policy { reads: ReadPolicy::Parties, ..Policy::default() });
    let link = world.serve(&a());
    let opened = world.open(&a());
    let to = agent(&a());
    let mut heard: Vec<Vec<&'static str>> = vec![];
    let look = |world: &mut World, heard: &mut Vec<Vec<&'static str>>| {
        world.now += 1;
        let mut codes = vec![];
        for lane in [Lane::Message, Lane::Resume, Lane::CallResult, Lane::Direct] {
            for signed in [true, false] {
                let act = signed.then(|| resolve(&stranger(), &opened.run, world.at()));
                let mut answer = single(&opened.run, "1", act);
                answer.lane = lane;
                codes.push(code(world.answer_with(answer)));
                let mut answer = single(&opened.run, "1", None);
                answer.lane = lane;
                answer.caller = world.carrying(chain(&[stranger()]), &stranger(), &to);
                codes.push(code(world.answer_with(answer)));
                // H's words in a stranger's hands: the chain replayed without its presenter.
                let mut answer = single(&opened.run, "1", None);
                answer.lane = lane;
                answer.caller = Caller { chain: Some(chain(&[head()])), ..Caller::default() };
                codes.push(code(world.answer_with(answer)));
            }
        }
        codes.push(code(world.stop_by(&opened.run, &stranger())));
        codes.push(code(world.stop(&opened.run, None)));
        heard.push(codes);
    };
    look(&mut world, &mut heard);
    world.take();
    look(&mut world, &mut heard);
    world.pause(link, &opened.run, &["q1"]);
    look(&mut world, &mut heard);
    world.answer_by(&opened.run, "1", &head()).expect("answered");
    look(&mut world, &mut heard);
    world.take();
    world.complete(link, &opened.run);
    look(&mut world, &mut heard);
    assert!(heard.windows(2).all(|pair| pair[0] == pair[1]), "{heard:?}");
}

#[test]
fn p12_queued_runs_survive_a_restart_in_their_order() {
    let mut world = World::new();
    world.serve(&a());
    let first = world.open(&a());
    let to = agent(&a());
    let mut waiting = vec![];
    for _ in 0..3 {
        let caller = world.carrying(chain(&[head()]), &head(), &to);
        waiting.push(world.speak(&to, Place::Thread(first.thread.clone()), caller).expect("queued").run);
    }
    world.take();
    world.crash();
    assert_eq!(world.status(&first.run), Status::Running, "taken: a lease, not a death");
    let link = world.serve(&a());
    world
        .run(|w, _| w.holding(link, &[wikala_witness::Holding { run: first.run.clone(), last_seq: 0 }]))
        .expect("held");
    let mut run = first.run.clone();
    for next in waiting {
        world.complete(link, &run);
        run = world.take().run;
        assert_eq!(run, next);
    }
}

#[test]
fn p12_an_offline_agents_run_has_its_terminal_entry_on_record() {
    let mut world = World::new();
    let link = world.serve(&a());
    world.run(|w, now| w.detach(now, link)).expect("detached");
    world.now += 30;
    let opened = world.open(&a());
    let view = world.view(&opened.run);
    assert_eq!((view.status, view.reason.as_deref()), (Status::Failed, Some("agent_offline")));
    let last = world.entries(&opened.run).pop().expect("an entry");
    assert!(matches!(last.entry, Entry::Mark(Mark::Ended { ref status, .. }) if status == "failed"));
    assert!(world.effects.iter().any(|e| matches!(e, Effect::Tell { recorded, .. } if *recorded == last)), "told live");
}

#[test]
fn p12_an_offer_that_was_to_be_cancelled_is_cancelled_by_the_restart() {
    let mut world = World::new();
    world.serve(&a());
    let opened = world.open(&a());
    assert_eq!(world.stop_by(&opened.run, &head()).expect("asked").status, Status::Offering);
    world.crash();
    assert_eq!(world.status(&opened.run), Status::Cancelled, "a queued run is cancelled at once");
}

#[test]
fn p14_a_link_blip_does_not_fail_a_run_and_cancels_are_sent_again() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    world.event(link, &opened.run, Fact::Started, Some(1)).expect("heard");
    world.run(|w, now| w.detach(now, link)).expect("lost");
    world.stop_by(&opened.run, &head()).expect("asked while it was away");
    world.effects.clear();
    world.advance(29);
    let link = world.serve(&a());
    world.advance(0);
    assert_eq!(world.status(&opened.run), Status::Cancelling);
    let held = [wikala_witness::Holding { run: opened.run.clone(), last_seq: 1 }];
    let resumed = world.run(|w, _| w.holding(link, &held)).expect("held");
    assert_eq!(resumed[0].after, 1);
    assert!(world.effects.contains(&Effect::AskToStop { link, run: opened.run.clone() }), "sent again");
    world.advance(60);
    assert_eq!(world.status(&opened.run), Status::Cancelling, "the lease ended well");
    world.complete(link, &opened.run);
    assert_eq!(world.status(&opened.run), Status::Completed, "the outcome is what the provider does");
}

#[test]
fn p14_reattaching_alone_does_not_end_the_lease() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    world.run(|w, now| w.detach(now, link)).expect("lost");
    world.advance(10);
    world.serve(&a());
    world.advance(20);
    let view = world.view(&opened.run);
    assert_eq!((view.status, view.reason.as_deref()), (Status::Failed, Some("provider_left_holding_it")));
}

/// Words sent again after a blip move nothing a second time.
#[test]
fn p14_numbered_words_are_dropped_twice_and_missed_ones_are_noted() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    let heard = |world: &mut World, fact, seq| world.event(link, &opened.run, fact, Some(seq));
    heard(&mut world, Fact::Started, 1).expect("heard");
    assert_eq!(heard(&mut world, Fact::Started, 1).expect("again"), wikala_witness::Heard::Duplicate);
    heard(&mut world, Fact::Said, 4).expect("heard");
    heard(&mut world, asking(&["q1"]), 5).expect("asked");
    // The beginning once more, on a paused run: it would be the provider's own answer.
    assert_eq!(heard(&mut world, Fact::Started, 1).expect("again"), wikala_witness::Heard::Duplicate);
    assert_eq!(world.status(&opened.run), Status::InputRequired);
    let gaps: Vec<_> = world
        .entries(&opened.run)
        .into_iter()
        .filter_map(|e| match e.entry {
            Entry::Mark(Mark::LinkGap { expected, received }) => Some((expected, received)),
            _ => None,
        })
        .collect();
    assert_eq!(gaps, [(2, 4)]);
}

#[test]
fn p15_the_loser_is_told_who_was_first_and_when() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1"]);
    world.now += 5;
    world.answer_by(&opened.run, "1", &a()).expect("the provider's own answer, visibly");
    world.now += 1;
    let refusal = world.answer_by(&opened.run, "2", &head()).expect_err("lost");
    assert_eq!(refusal.code.as_str(), "already-answered");
    let winner = refusal.winner().expect("who");
    assert_eq!((winner.authority, winner.at_s), (Some(a().public()), START + 5));
    // Also where the answer does not fit, and where the agent has gone offline since.
    let mut answer = single(&opened.run, "x", Some(resolve(&head(), &opened.run, world.at())));
    answer.reply = Reply { items: vec![item("nothing")], single: None };
    assert_eq!(code(world.answer_with(answer)), "already-answered");
    assert!(matches!(
        world.entries(&opened.run).last().expect("an entry").entry,
        Entry::Mark(Mark::Answered { by_provider: true, .. })
    ));
}

#[test]
fn p15_whoever_resumes_what_was_answered_elsewhere_may_follow_it() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1"]);
    let to = agent(&a());
    let resume = |world: &mut World, text: &str, abandoned: bool| {
        let mut answer = single(&opened.run, text, None);
        answer.lane = Lane::Resume;
        answer.reply = Reply { items: vec![ReplyItem { abandoned, ..item("q1") }], single: None };
        answer.caller = world.carrying(chain(&[head()]), &head(), &to);
        world.answer_with(answer)
    };
    // Never for an open ask.
    assert_eq!(code(resume(&mut world, "1", true)), "act-required");
    let mut won = single(&opened.run, "1", Some(resolve(&a(), &opened.run, world.at())));
    won.lane = Lane::Resume;
    won.reply = Reply { items: vec![item("q1")], single: None };
    let won = world.answer_with(won).expect("won");
    assert_eq!(resume(&mut world, "1", false).expect("the same answer").after, won.after);
    assert!(resume(&mut world, "2", true).expect("abandoned").replayed);
    assert_eq!(code(resume(&mut world, "2", false)), "already-answered");
}

#[test]
fn an_answer_for_an_offline_agent_spends_nothing() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    world.run(|w, now| w.detach(now, link)).expect("lost");
    world.now += 30;
    let signed = world.at();
    assert_eq!(code(world.answer(&opened.run, "1", Some(resolve(&head(), &opened.run, signed)))), "agent-offline");
    world.serve(&a());
    world.answer(&opened.run, "1", Some(resolve(&head(), &opened.run, signed))).expect("the same act");
}

#[test]
fn p16_counters_and_withdrawal_survive_a_restart() {
    let mut world = World::new();
    for _ in 0..3 {
        world.serve(&a());
        let opened = world.open(&a());
        world.offers();
        world.advance(5);
        assert_eq!(world.status(&opened.run), Status::Queued);
    }
    let agent_view = world.reader().agent(&agent(&a()), world.at()).expect("known");
    assert!(agent_view.counters.never_answered >= 3 && agent_view.counters.withdrawn && !agent_view.online);
    world.crash();
    let again = world.reader().agent(&agent(&a()), world.at()).expect("known");
    assert_eq!(again.counters, agent_view.counters);
    // Registering again lifts it, on probation.
    world.serve(&a());
    assert!(!world.reader().agent(&agent(&a()), world.at()).expect("known").counters.withdrawn);
    world.advance(5);
    assert!(world.reader().agent(&agent(&a()), world.at()).expect("known").counters.withdrawn);
}

/// The third silence withdraws the provider and closes its link; a fourth silent
/// offer, already cancelled, must not stop the clock for everybody.
#[test]
fn a_tick_survives_a_withdrawal_among_its_silent_offers() {
    let mut world = World::new();
    world.serve(&a());
    let runs: Vec<_> = (0..5).map(|_| world.open(&a()).run).collect();
    for run in &runs {
        world.stop_by(run, &head()).expect("asked");
    }
    world.advance(5);
    assert!(runs.iter().all(|run| world.status(run) == Status::Cancelled));
    assert_eq!(world.reader().agent(&agent(&a()), world.at()).expect("known").counters.never_answered, 3);
}
