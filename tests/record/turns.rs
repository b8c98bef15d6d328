//! What a provider does with a run: goes on by itself, fails, declines, interjects.

use wikala_witness::{Effect, Fact, Place, Question, Status, Verdict};

use crate::harness::*;

#[test]
fn a_provider_goes_on_with_its_own_pause_visibly() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    assert_eq!(code(world.event(link, &opened.run, Fact::Said, None)), "run-ended", "stray words continue nothing");
    world.event(link, &opened.run, Fact::Started, None).expect("a new beginning");
    let ask = &world.view(&opened.run).asks[0];
    assert_eq!((ask.closed_as.as_deref(), ask.answered_by), (Some("by-provider"), Some(a().public())));
    assert_eq!(world.status(&opened.run), Status::Running);
    assert_eq!(code(world.answer_by(&opened.run, "1", &head())), "already-answered");
}

/// A paused run gives its turn away; who goes on by itself does not take it back.
#[test]
fn a_thread_never_has_two_active_runs_though_a_provider_goes_on_by_itself() {
    let mut world = World::new();
    let (link, first) = world.waiting(&["q1"]);
    let to = agent(&a());
    let caller = world.carrying(chain(&[head()]), &head(), &to);
    let second = world.speak(&to, Place::Thread(first.thread.clone()), caller).expect("its turn");
    world.take();
    assert_eq!(code(world.event(link, &first.run, Fact::Started, None)), "run-ended");
    assert_eq!(world.status(&first.run), Status::InputRequired, "the ask stands");
    world.complete(link, &second.run);
    world.event(link, &first.run, Fact::Started, None).expect("the turn is free");
    assert_eq!(world.status(&first.run), Status::Running);
}

#[test]
fn nameless_questions_of_one_pause_are_questions_each() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    let nameless = |text: &str| Question { id: None, call: None, text: format!("\"{text}\""), owing: None };
    let asked = Fact::Ended { questions: vec![nameless("x"), nameless("y")], pending: None, cancelled: false };
    world.event(link, &opened.run, asked, None).expect("asked");
    let items = &world.view(&opened.run).asks[0].items;
    let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, [format!("{}.1", opened.run), format!("{}.1.2", opened.run)]);
}

/// Frameworks tell the whole history again when they go on.
#[test]
fn a_call_told_again_is_not_asked_again() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    world.event(link, &opened.run, Fact::CallOpened("c1".into()), None).expect("heard");
    world.event(link, &opened.run, done(), None).expect("asks for c1");
    world.finish(link, &opened.run).expect("finished");
    assert_eq!(world.view(&opened.run).asks[0].items[0].id, "c1");
    world.answer_by(&opened.run, "1", &head()).expect("answered");
    world.take();
    world.event(link, &opened.run, Fact::CallOpened("c1".into()), None).expect("told again");
    world.complete(link, &opened.run);
    assert_eq!(world.status(&opened.run), Status::Completed);
}

#[test]
fn a_provider_that_fails_while_it_waits_answers_nothing() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    world.event(link, &opened.run, Fact::Failed("lost interest".into()), None).expect("heard");
    let view = world.view(&opened.run);
    assert_eq!((view.status, view.asks[0].closed_as.as_deref()), (Status::Failed, Some("failed")));
    assert_eq!(view.asks[0].answered_by, None);
    assert_eq!(code(world.answer_by(&opened.run, "1", &head())), "no-open-ask");
}

#[test]
fn a_provider_that_speaks_no_protocol_fails_its_run_once() {
    let mut world = World::new();
    let link = world.serve(&a());
    for (stopped, ends) in [(false, Status::Failed), (true, Status::Cancelled)] {
        let opened = world.open(&a());
        world.take();
        if stopped {
            world.stop_by(&opened.run, &head()).expect("asked");
        }
        world.run(|w, now| w.fail(now, link, &opened.run, "malformed")).expect("on record");
        let view = world.view(&opened.run);
        assert_eq!((view.status, view.reason.as_deref()), (ends, Some("malformed")));
        assert_eq!(code(world.run(|w, now| w.fail(now, link, &opened.run, "again"))), "run-ended");
        world.finish(link, &opened.run).expect("finished");
    }
}

#[test]
fn a_waiting_ask_can_be_cancelled_by_its_authority() {
    let mut world = World::new();
    let (_, opened) = world.waiting(&["q1"]);
    assert_eq!(world.stop_by(&opened.run, &head()).expect("stopped").status, Status::Cancelled);
    assert_eq!(world.view(&opened.run).asks[0].closed_as.as_deref(), Some("cancelled"));
    world.now += 1;
    assert_eq!(code(world.answer_by(&opened.run, "1", &head())), "no-open-ask");
    assert_eq!(code(world.stop_by(&opened.run, &head())), "run-ended");
}

#[test]
fn an_agent_left_out_of_the_roster_is_offline_at_once() {
    let mut world = World::new();
    let link = world.serve(&a());
    let other = [wikala_witness::Registration {
        name: wikala_chain::AgentName::new("other").expect("a name"),
        interjections: false,
        text: "{}".into(),
    }];
    world.run(|w, now| w.register(now, link, &other, None)).expect("replaced");
    assert!(!world.reader().agent(&agent(&a()), world.at()).expect("known").online);
    let opened = world.open(&a());
    assert_eq!(world.view(&opened.run).reason.as_deref(), Some("agent_offline"));
}

#[test]
fn a_declared_interjection_joins_the_live_turn() {
    let mut world = World::new();
    let link = world.serve_with(&a(), None, true);
    let opened = world.open(&a());
    world.take();
    let to = agent(&a());
    let mut say = |addressed: Option<&str>| {
        let caller = world.carrying(chain(&[head()]), &head(), &to);
        let mut said = utterance(&to, Place::Thread(opened.thread.clone()), caller);
        said.addressed = addressed.map(str::to_owned);
        world.run(|w, now| w.speak(now, said))
    };
    say(None).expect("its turn comes");
    let joined = say(Some(opened.run.as_str())).expect("joins");
    assert_eq!(code(say(Some("run_000000000000000000000000"))), "run-input");
    assert_eq!(world.take().run, joined.run);
    world.complete(link, &joined.run);
    world.complete(link, &opened.run);
    assert_eq!(world.offers().len(), 1);
}

/// A verb that panics takes only its own effects with it.
#[test]
fn a_panic_in_the_group_does_not_silence_the_others() {
    let mut world = World::new();
    world.serve(&a());
    let caller = world.carrying(chain(&[head()]), &head(), &agent(&a()));
    let said = utterance(&agent(&a()), Place::New, caller);
    let now = world.at();
    let w = world.witness();
    w.begin().expect("begun");
    w.job(|w| w.speak(now, said)).expect("opened");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: Result<(), _> = w.job(|w| {
            w.open_thread(now, &agent(&a())).expect("half of it");
            panic!("on purpose")
        });
    }));
    assert!(panicked.is_err());
    w.abandon();
    let effects = w.commit().expect("committed");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Offer { .. })), "{effects:?}");
}

#[test]
fn a_refused_or_declined_offer() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.offers();
    assert!(world.verdict(link, &opened.run, Verdict::Refused("not my trade".into())));
    assert_eq!(world.view(&opened.run).reason.as_deref(), Some("not my trade"));
    for verdict in [Verdict::Accepted, Verdict::Declined, Verdict::Refused("again".into())] {
        assert!(!world.verdict(link, &opened.run, verdict), "late verdicts match nothing");
    }
    assert_eq!(world.status(&opened.run), Status::Failed);
}
