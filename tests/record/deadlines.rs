//! Every deadline, one second before, at, and after it.

use wikala_certs::{Moment, SignedPresenter};
use wikala_witness::{Caller, Fact, Holding, Place, Presenting, Status, Verdict};

use crate::harness::*;

const WINDOW: [(i64, bool); 5] = [(-61, false), (-60, true), (0, true), (60, true), (61, false)];

fn moved(from: u64, by: i64) -> u64 {
    from.checked_add_signed(by).expect("near")
}

#[test]
fn acts_are_fresh_for_sixty_seconds_on_both_sides() {
    for (late, fresh) in WINDOW {
        let mut world = World::new();
        let (_, opened) = world.waiting(&["q1"]);
        let signed = world.at();
        world.now = moved(START, late);
        let said = world.answer(&opened.run, "1", Some(resolve(&head(), &opened.run, signed)));
        assert_eq!(said.is_ok(), fresh, "resolve {late}");
        if !fresh {
            assert_eq!(code(said), "act-stale");
            assert_eq!(world.status(&opened.run), Status::InputRequired);
        }
        let mut world = World::new();
        world.serve(&a());
        let opened = world.open(&a());
        let signed = world.at();
        world.now = moved(START, late);
        let said = world.stop(&opened.run, Some(cancel(&head(), &opened.run, signed)));
        assert_eq!(said.is_ok(), fresh, "cancel {late}");
        if !fresh {
            assert_eq!(code(said), "act-stale");
        }
    }
}

#[test]
fn presenters_are_fresh_for_sixty_seconds_on_both_sides() {
    for (late, fresh) in WINDOW {
        let mut world = World::new();
        world.serve(&a());
        let to = agent(&a());
        let caller = world.carrying(chain(&[head()]), &head(), &to);
        world.now = moved(START, late);
        let said = world.speak(&to, Place::New, caller);
        assert_eq!(said.is_ok(), fresh, "{late}");
        if !fresh {
            assert_eq!(code(said), "presenter-proof");
        }
    }
}

/// A strangers' stale act says nothing about freshness, a spent one nothing about staleness.
#[test]
fn authority_then_spent_then_fresh() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    let signed = world.at();
    world.answer(&opened.run, "1", Some(resolve(&head(), &opened.run, signed))).expect("won");
    world.take();
    world.pause(link, &opened.run, &["q2"]);
    world.now += 1000;
    assert_eq!(
        code(world.answer(&opened.run, "2", Some(resolve(&stranger(), &opened.run, signed)))),
        "not-an-authority"
    );
    assert_eq!(code(world.answer(&opened.run, "2", Some(resolve(&head(), &opened.run, signed)))), "act-spent");
    assert_eq!(code(world.answer(&opened.run, "2", Some(resolve(&a(), &opened.run, signed)))), "act-stale");
}

#[test]
fn an_offer_is_silent_after_five_seconds_and_made_again_after_forty_five() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    assert_eq!(world.offers().len(), 1);
    world.advance(4);
    assert_eq!(world.status(&opened.run), Status::Offering);
    world.advance(1);
    assert_eq!(world.status(&opened.run), Status::Queued);
    assert!(!world.verdict(link, &opened.run, Verdict::Accepted), "late");
    world.advance(44);
    assert!(world.offers().is_empty());
    world.advance(1);
    assert_eq!(world.offers().len(), 1);
    assert!(world.verdict(link, &opened.run, Verdict::Accepted), "in time");
    world.advance(6);
    assert_eq!(world.status(&opened.run), Status::Running);
}

#[test]
fn a_declined_offer_is_made_again_after_forty_five_seconds() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.offers();
    assert!(world.verdict(link, &opened.run, Verdict::Declined));
    world.advance(44);
    assert!(world.offers().is_empty());
    // Nor on the occasion of another run.
    let other = world.open(&a());
    assert_eq!(world.take().run, other.run);
    world.advance(1);
    assert_eq!(world.offers().len(), 1);
    // Sooner, when something changes there.
    assert!(world.verdict(link, &opened.run, Verdict::Declined));
    world.serve(&a());
    assert_eq!(world.offers().len(), 1);
}

#[test]
fn a_lease_lasts_thirty_seconds() {
    for (after, status) in [(29, Status::Running), (30, Status::Failed), (31, Status::Failed)] {
        let mut world = World::new();
        let link = world.serve(&a());
        let opened = world.open(&a());
        world.take();
        world.run(|w, now| w.detach(now, link)).expect("lost");
        world.advance(after);
        assert_eq!(world.status(&opened.run), status, "{after}");
        let counters = world.reader().agent(&agent(&a()), world.at()).expect("known").counters;
        assert_eq!(counters.took_never_ended, u64::from(status == Status::Failed));
        // Back in time, or too late.
        let link = world.serve(&a());
        let held = [Holding { run: opened.run.clone(), last_seq: 0 }];
        let resumed = world.run(|w, _| w.holding(link, &held)).expect("asked");
        assert_eq!(resumed.len(), usize::from(status == Status::Running));
        world.advance(31);
        assert_eq!(world.status(&opened.run), status);
    }
}

#[test]
fn a_late_clean_up_does_not_prolong_a_lease() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    world.run(|w, now| w.detach(now, link)).expect("lost");
    world.advance(20);
    world.run(|w, now| w.detach(now, link)).expect("late");
    world.advance(10);
    assert_eq!(world.status(&opened.run), Status::Failed);
}

#[test]
fn a_lease_that_ends_after_a_cancel_was_asked_is_a_cancelled_run() {
    let mut world = World::new();
    let link = world.serve(&a());
    let opened = world.open(&a());
    world.take();
    world.stop_by(&opened.run, &head()).expect("asked");
    world.run(|w, now| w.detach(now, link)).expect("lost");
    world.advance(30);
    assert_eq!(world.status(&opened.run), Status::Cancelled);
    let counters = world.reader().agent(&agent(&a()), world.at()).expect("known").counters;
    assert_eq!(counters.took_never_ended, 0);
}

#[test]
fn an_agent_is_online_within_the_grace_and_its_queue_waits_forty_five_seconds() {
    for (after, online) in [(29, true), (30, false), (31, false)] {
        let mut world = World::new();
        let link = world.serve(&a());
        world.run(|w, now| w.detach(now, link)).expect("lost");
        world.now += after;
        assert_eq!(world.reader().agent(&agent(&a()), world.at()).expect("known").online, online, "{after}");
        let opened = world.open(&a());
        assert_eq!(world.status(&opened.run), if online { Status::Queued } else { Status::Failed }, "{after}");
    }
    for (after, status) in [(44, Status::Queued), (45, Status::Failed), (46, Status::Failed)] {
        let mut world = World::new();
        let link = world.serve(&a());
        world.run(|w, now| w.detach(now, link)).expect("lost");
        let opened = world.open(&a());
        world.advance(after);
        let view = world.view(&opened.run);
        assert_eq!(view.status, status, "{after}");
        assert_eq!(view.reason.as_deref(), (status == Status::Failed).then_some("no_provider_took_it"));
    }
}

#[test]
fn a_settled_run_keeps_its_slot_for_thirty_seconds() {
    for (after, offered) in [(29, 0), (30, 1), (31, 1)] {
        let mut world = World::new();
        let link = world.serve_with(&a(), Some(1), false);
        let opened = world.open(&a());
        world.take();
        let next = world.open(&a());
        world.event(link, &opened.run, done(), None).expect("done, but no finish");
        world.advance(after);
        assert_eq!(world.offers().len(), offered, "{after}");
        assert_eq!(world.status(&next.run), if offered == 0 { Status::Queued } else { Status::Offering });
        assert_eq!(world.status(&opened.run), Status::Completed);
    }
}

#[test]
fn certificates_live_through_their_last_second() {
    for (late, live) in [(-1, true), (0, true), (1, false)] {
        let mut world = World::new();
        let pair = accepted(&head(), &session(), START + 100);
        world.now = moved(START + 100, late);
        assert_eq!(world.run(|w, now| w.record_certificate(now, &pair)).is_ok(), live, "{late}");
    }
}

/// The clock is set back behind what was forgotten: nothing old becomes new.
#[test]
fn a_clock_set_back_revives_no_presenter_and_no_act() {
    let mut world = World::new();
    let (link, opened) = world.waiting(&["q1"]);
    let to = agent(&a());
    let own = chain(&[head()]);
    let proof = world.presenter_proof(&head(), &to, Some(own.tip()));
    let caller = || Caller {
        chain: Some(own.clone()),
        certificate: None,
        presenter: Presenting::Signed(
            SignedPresenter::verify(&proof, &witness().public(), &to.provider, &to.name, Some(own.tip()))
                .expect("signed"),
        ),
    };
    world.speak(&to, Place::New, caller()).expect("once");
    let signed = world.at();
    world.answer(&opened.run, "1", Some(resolve(&head(), &opened.run, signed))).expect("won");
    for (_, delivery) in world.offers() {
        world.verdict(link, &delivery.run, Verdict::Accepted);
    }
    world.event(link, &opened.run, Fact::Started, None).expect("heard");
    world.pause(link, &opened.run, &["q2"]);
    world.advance(600);
    assert_eq!(code(world.speak(&to, Place::New, caller())), "presenter-spent", "remembered for 600 s");
    world.advance(1);
    assert_eq!(code(world.speak(&to, Place::New, caller())), "presenter-proof", "forgotten");
    world.now = START;
    assert_eq!(code(world.speak(&to, Place::New, caller())), "presenter-proof", "stale whatever the clock says");
    assert_eq!(code(world.answer(&opened.run, "2", Some(resolve(&head(), &opened.run, signed)))), "act-spent");
    world.tick();
    assert_eq!(world.status(&opened.run), Status::InputRequired);
}

#[test]
fn the_record_knows_its_newest_time() {
    let mut world = World::new();
    world.now = START + 77;
    world.waiting(&["q1"]);
    world.now = START;
    world.crash();
    assert_eq!(world.witness().newest_time().expect("read"), Moment::from_secs(START + 77));
}
