//! What one peer can cost the house: bounds on everything that somebody else chooses.

use wikala_certs::{Proof, SignedAct};
use wikala_chain::Digest;
use wikala_witness::{
    AGENT_QUEUE, AGENTS_A_KEY, ASK_ITEMS, Answer, Effect, Fact, OFFERS_AT_ONCE, Place, RUN_BYTES, Registration, Reply,
    ReplyItem, Status,
};

use crate::harness::*;

fn item(id: &str) -> ReplyItem {
    ReplyItem {
        id: id.to_owned(),
        kind: wikala_witness::ItemKind::Interrupt,
        abandoned: false,
        payload: Some("1".to_owned()),
    }
}

/// A crowd in front of its door is not the provider's silence.
#[test]
fn so_many_offers_are_out_at_once_and_a_verdict_makes_room() {
    let mut world = World::new();
    let link = world.serve(&a());
    for _ in 0..OFFERS_AT_ONCE + 4 {
        world.open(&a());
    }
    let out = world.offers();
    assert_eq!(out.len() as u64, OFFERS_AT_ONCE);
    assert!(world.verdict(link, &out[0].1.run, wikala_witness::Verdict::Accepted));
    assert_eq!(world.offers().len(), 1);
}

/// Our own stall (a slow disk, a foreign lock) is not charged to a provider.
#[test]
fn what_the_witness_slept_is_added_to_every_deadline() {
    let mut world = World::new();
    let link = world.serve(&a());
    let offered = world.open(&a());
    world.now += 10;
    world.run(|w, _| w.pardon(10)).expect("pardoned");
    world.tick();
    assert_eq!(world.status(&offered.run), Status::Offering);
    world.take();
    world.run(|w, now| w.detach(now, link)).expect("a blip");
    world.now += 35;
    world.run(|w, _| w.pardon(35)).expect("pardoned");
    world.tick();
    assert_eq!(world.status(&offered.run), Status::Running);
    world.advance(30);
    assert_eq!(world.status(&offered.run), Status::Failed);
}

#[test]
fn a_stop_asked_for_again_writes_nothing_and_asks_nobody() {
    let mut world = World::new();
    world.serve(&a());
    let opened = world.open(&a());
    world.take();
    world.stop_by(&opened.run, &head()).expect("asked");
    let (entries, asked) = (world.entries(&opened.run).len(), stops(&world));
    for _ in 0..3 {
        world.now += 1;
        let again = world.stop_by(&opened.run, &head()).expect("told how it stands");
        assert!(again.replayed && again.status == Status::Cancelling);
    }
    assert_eq!((world.entries(&opened.run).len(), stops(&world)), (entries, asked));
    assert_eq!(world.view(&opened.run).cancel_requested_by.len(), 1);
    // Another authority's wish is its own line.
    world.stop_by(&opened.run, &a()).expect("asked");
    assert_eq!(world.view(&opened.run).cancel_requested_by.len(), 2);
}

fn stops(world: &World) -> usize {
    world.effects.iter().filter(|effect| matches!(effect, Effect::AskToStop { .. })).count()
}

#[test]
fn calls_left_open_are_bounded_and_the_run_fails_loudly() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    for n in 0..ASK_ITEMS {
        world.event(link, &opened.run, Fact::CallOpened(format!("c{n}")), None).expect("heard");
    }
    assert_eq!(world.status(&opened.run), Status::Running);
    world.event(link, &opened.run, Fact::CallOpened("more".into()), None).expect("on record");
    let view = world.view(&opened.run);
    assert_eq!((view.status, view.reason.as_deref()), (Status::Failed, Some("provider_asked_too_much")));
    assert!(!view.reason_by_provider);
}

#[test]
fn a_run_puts_so_much_on_record_and_then_fails() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    let million = format!("\"{}\"", "x".repeat(1024 * 1024 - 2));
    for _ in 0..RUN_BYTES / (1024 * 1024) {
        let words = words(&million);
        world.run(|w, now| w.event(now, link, &opened.run, Fact::Said, words, None)).expect("heard");
    }
    assert_eq!(world.status(&opened.run), Status::Running);
    world.event(link, &opened.run, Fact::Said, None).expect("on record");
    assert_eq!(world.view(&opened.run).reason.as_deref(), Some("provider_said_too_much"));
}

#[test]
fn an_agent_has_so_many_runs_waiting_and_then_says_no() {
    let mut world = World::new();
    world.serve(&a());
    for _ in 0..AGENT_QUEUE + OFFERS_AT_ONCE {
        world.open(&a());
    }
    let to = agent(&a());
    let caller = world.carrying(chain(&[head()]), &head(), &to);
    assert_eq!(code(world.speak(&to, Place::New, caller)), "queue-full");
}

#[test]
fn names_without_history_are_freed_and_a_key_holds_so_many() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    let named = |prefix: &str, count: u64| -> Vec<Registration> {
        (0..count)
            .map(|n| Registration {
                name: wikala_chain::AgentName::new(&format!("{prefix}{n}")).expect("a name"),
                interjections: false,
                text: "{}".into(),
            })
            .collect()
    };
    let rows = |world: &World| world.reader().roster(world.at(), 0, 10_000).expect("read").0.len() as u64;
    let roster = named("p", AGENTS_A_KEY - 1);
    world.run(|w, now| w.register(now, link, &roster, None)).expect("registered");
    assert_eq!(rows(&world), AGENTS_A_KEY);
    let roster = named("q", 10);
    world.run(|w, now| w.register(now, link, &roster, None)).expect("registered");
    assert_eq!(rows(&world), 11, "the ten, and the one with history");
    let roster = named("x", AGENTS_A_KEY);
    assert_eq!(code(world.run(|w, now| w.register(now, link, &roster, None))), "registration-malformed");
    assert_eq!(rows(&world), 11);
    assert_eq!(world.view(&opened.run).agent, agent(&a()));
}

#[test]
fn the_roster_is_read_a_page_at_a_time() {
    let mut world = World::new();
    for key in [a(), b(), c()] {
        world.serve(&key);
    }
    let reader = world.reader();
    let (first, next) = reader.roster(world.at(), 0, 2).expect("read");
    let (second, end) = reader.roster(world.at(), next.expect("more"), 2).expect("read");
    let all: Vec<_> = first.iter().chain(&second).map(|view| view.id.provider).collect();
    assert_eq!((all, end), (vec![a().public(), b().public(), c().public()], None));
}

/// Signed before another question was asked, it says nothing about that one.
#[test]
fn an_act_bound_to_its_asks_answers_exactly_those() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1", "q2"]);
    let bound = |world: &World, asks: &[&str]| {
        let proof = Proof::answer(&head(), opened.run.as_str(), asks, b"1", world.at());
        SignedAct::answer(&proof, opened.run.as_str(), asks, b"1").expect("just signed")
    };
    let answer = |act, items: Vec<ReplyItem>| Answer {
        reply: Reply { items, single: None },
        digest: Digest::of(b"1"),
        ..single(&opened.run, "1", Some(act))
    };
    for (asks, refused) in [
        (&[][..], "answer-incomplete"),
        (&["q1"], "answer-incomplete"),
        (&["q1", "q9"], "answer-unknown-ask"),
        (&["q1", "q2", "q3"], "answer-unknown-ask"),
    ] {
        let act = bound(&world, asks);
        assert_eq!(code(world.answer_with(answer(act, vec![item("q1"), item("q2")]))), refused, "{asks:?}");
        assert_eq!(world.status(&opened.run), Status::InputRequired);
    }
    let act = bound(&world, &["q2", "q1"]);
    world.answer_with(answer(act, vec![item("q1"), item("q2")])).expect("answered");
}
