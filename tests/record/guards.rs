//! Who may speak about a run at all, and what a file may be opened as.

use std::sync::Arc;

use wikala_chain::{AgentName, SigningKey};
use wikala_witness::{Fact, Holding, OpenFault, Place, Policy, Status, ThreadId, Verdict, Witness};

use crate::harness::*;

#[test]
fn only_the_claimer_speaks_about_a_run() {
    let mut world = World::new();
    let link = world.serve(&a());
    let other = world.serve(&b());
    let opened = world.open(&a());
    assert!(!world.verdict(other, &opened.run, Verdict::Accepted));
    assert!(!world.verdict(other, &opened.run, Verdict::Refused("no".into())));
    assert_eq!(code(world.event(link, &opened.run, Fact::Started, None)), "run-ended", "not before it took it");
    assert_eq!(code(world.finish(link, &opened.run)), "run-ended");
    world.take();
    assert_eq!(code(world.event(other, &opened.run, done(), None)), "run-unknown");
    assert_eq!(code(world.finish(other, &opened.run)), "run-unknown");
    let held = [Holding { run: opened.run.clone(), last_seq: 0 }];
    assert!(world.run(|w, _| w.holding(other, &held)).expect("asked").is_empty());
    world.complete(link, &opened.run);
    assert_eq!(code(world.event(link, &opened.run, Fact::Said, None)), "run-ended");
    assert_eq!(code(world.event(link, &opened.run, Fact::Failed("late".into()), None)), "run-ended");
    assert_eq!(code(world.finish(link, &opened.run)), "run-ended", "twice");
    assert_eq!(world.status(&opened.run), Status::Completed);
}

#[test]
fn a_replaced_link_has_no_say_and_its_clean_up_drops_nothing() {
    let mut world = World::new();
    let old = world.serve(&a());
    let opened = world.open(&a());
    let new = world.serve(&a());
    assert!(!world.verdict(old, &opened.run, Verdict::Accepted));
    world.run(|w, now| w.detach(now, old)).expect("late");
    assert!(world.reader().agent(&agent(&a()), world.at()).expect("known").online);
    assert_eq!(world.offers().last().map(|(link, _)| *link), Some(new));
    assert!(world.verdict(new, &opened.run, Verdict::Accepted));
    assert_eq!(code(world.event(old, &opened.run, done(), None)), "run-unknown");
    world.complete(new, &opened.run);
}

#[test]
fn another_agents_thread_and_run_are_unknown_at_this_door() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1"]);
    world.serve(&b());
    let to = agent(&b());
    let caller = world.carrying(chain(&[head()]), &head(), &to);
    assert_eq!(code(world.speak(&to, Place::Thread(opened.thread.clone()), caller)), "thread-unknown");
    let none = ThreadId::parse("thread_000000000000000000000000").expect("an id");
    assert_eq!(code(world.speak(&to, Place::Thread(none), Default::default())), "thread-unknown");
    let mut answer = single(&opened.run, "1", Some(resolve(&head(), &opened.run, world.at())));
    answer.agent = Some(to);
    assert_eq!(code(world.answer_with(answer)), "run-unknown");
    assert_eq!(code(world.speak(&agent(&c()), Place::New, Default::default())), "agent-unknown");
}

#[test]
fn capacity_is_kept() {
    let mut world = World::new();
    let link = world.serve_with(&a(), Some(2), false);
    let runs: Vec<_> = (0..3).map(|_| world.open(&a()).run).collect();
    assert_eq!(world.offers().len(), 2);
    for run in &runs[..2] {
        assert!(world.verdict(link, run, Verdict::Accepted));
    }
    world.complete(link, &runs[0]);
    assert_eq!(world.take().run, runs[2]);
    // It claims room for two, so declining one is a mark against it.
    world.complete(link, &runs[1]);
    let extra = world.open(&a());
    world.offers();
    world.verdict(link, &extra.run, Verdict::Declined);
    assert_eq!(world.reader().agent(&agent(&a()), world.at()).expect("known").counters.declined_with_room, 1);
}

#[test]
fn a_name_with_history_is_never_freed() {
    let mut world = World::new();
    let link = world.serve(&a());
    let name = AgentName::new("echo").expect("a name");
    world.open(&a());
    assert_eq!(code(world.run(|w, _| w.delete_agent(link, &name))), "registration-malformed");
    let other = world.serve(&b());
    world.run(|w, _| w.delete_agent(other, &name)).expect("nothing ever ran");
    assert_eq!(code(world.run(|w, _| w.delete_agent(other, &name))), "agent-unknown");
}

#[test]
fn a_stream_that_ends_without_a_word_is_a_failure() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    world.finish(link, &opened.run).expect("heard");
    assert_eq!(world.view(&opened.run).reason.as_deref(), Some("provider_stream_ended_without_finishing"));
    let opened = world.open(&a());
    world.take();
    world.stop_by(&opened.run, &head()).expect("asked");
    world.finish(link, &opened.run).expect("heard");
    assert_eq!(world.status(&opened.run), Status::Cancelled);
}

#[test]
fn a_record_belongs_to_one_witness_key() {
    let world = World::new();
    let other = Arc::new(SigningKey::from_seed([0xB7; 32]));
    let opened = Witness::open(&world.path, other, Policy::default());
    assert!(matches!(opened, Err(OpenFault::OtherWitness { .. })), "{opened:?}");
}

#[test]
fn the_answer_policy_bound_takes_only_answers_bound_to_their_bytes() {
    use wikala_certs::{Proof, SignedAct};
    use wikala_witness::{AnswerPolicy, Lane};
    let mut world = World::with(Policy { answers: AnswerPolicy::Bound, ..Policy::default() });
    let (_, opened) = world.waiting(&["q1"]);
    assert_eq!(code(world.answer_by(&opened.run, "1", &head())), "answer-form");
    let bound = |world: &World| {
        let proof = Proof::answer(&head(), opened.run.as_str(), &["q1"], b"1", world.at());
        SignedAct::answer(&proof, opened.run.as_str(), &["q1"], b"1").expect("just signed")
    };
    let mut elsewhere = single(&opened.run, "1", Some(bound(&world)));
    elsewhere.lane = Lane::Resume;
    assert_eq!(code(world.answer_with(elsewhere)), "answer-form");
    let proof = Proof::answer(&head(), opened.run.as_str(), &["q1"], b"1", world.at());
    for (asks, bytes) in [(&["q2"][..], &b"1"[..]), (&["q1", "q1"], b"1"), (&["q1"], b"2")] {
        assert!(SignedAct::answer(&proof, opened.run.as_str(), asks, bytes).is_err());
    }
    let act = bound(&world);
    world.answer(&opened.run, "1", Some(act)).expect("bound");
}
