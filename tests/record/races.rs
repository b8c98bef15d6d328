//! Two witnesses on one file, released together: one of them wins, and the loser is
//! told so. The guards stand in the statements, so the order does not matter.

use std::sync::Barrier;

use wikala_certs::Moment;
use wikala_witness::{Fact, Holding, No, Refusal, Status, Stop, Verdict, Witness};

use crate::harness::*;

const ROUNDS: usize = 200;

/// Runs two verbs on two connections at once.
fn both<T: Send, U: Send>(
    pair: &mut (Witness, Witness),
    now: Moment,
    one: impl FnOnce(&mut Witness, Moment) -> Result<T, No> + Send,
    two: impl FnOnce(&mut Witness, Moment) -> Result<U, No> + Send,
) -> (Result<T, Refusal>, Result<U, Refusal>) {
    let barrier = Barrier::new(2);
    let (left, right) = (&mut pair.0, &mut pair.1);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| {
            barrier.wait();
            judged(left.transact(|w| one(w, now)))
        });
        let two = scope.spawn(|| {
            barrier.wait();
            judged(right.transact(|w| two(w, now)))
        });
        (one.join().expect("no panic"), two.join().expect("no panic"))
    })
}

fn judged<T, E>(done: Result<(T, E), No>) -> Result<T, Refusal> {
    match done {
        Ok((done, _)) => Ok(done),
        Err(No::Refusal(refusal)) => Err(*refusal),
        Err(No::Fault(fault)) => panic!("a fault: {fault}"),
    }
}

fn pair(world: &mut World) -> (Witness, Witness) {
    (world.second(), world.second())
}

#[test]
fn two_answers() {
    let mut world = World::new();
    let link = world.serve(&a());
    let mut two = pair(&mut world);
    for _ in 0..ROUNDS {
        world.now += 1;
        let run = world.open(&a()).run;
        world.take();
        world.pause(link, &run, &["q1"]);
        let answers = [head(), a()].map(|key| single(&run, "1", Some(resolve(&key, &run, world.at()))));
        let [mine, theirs] = answers;
        let told = both(&mut two, world.at(), |w, now| w.answer(now, mine), |w, now| w.answer(now, theirs));
        let (won, lost) = match told {
            (Ok(_), Err(lost)) => (head(), lost),
            (Err(lost), Ok(_)) => (a(), lost),
            other => panic!("one winner: {other:?}"),
        };
        assert_eq!(lost.code.as_str(), "already-answered");
        assert_eq!(lost.winner().expect("who").authority, Some(won.public()));
        assert_eq!(world.view(&run).asks[0].answered_by, Some(won.public()));
        world.verdict(link, &run, Verdict::Accepted);
        world.complete(link, &run);
    }
}

/// The same act twice at once: one win, and its stored result.
#[test]
fn one_act_twice() {
    let mut world = World::new();
    let link = world.serve(&a());
    let mut two = pair(&mut world);
    for _ in 0..ROUNDS {
        world.now += 1;
        let run = world.open(&a()).run;
        world.take();
        world.pause(link, &run, &["q1"]);
        let [one, again] = [(); 2].map(|()| single(&run, "1", Some(resolve(&head(), &run, world.at()))));
        let told = both(&mut two, world.at(), |w, now| w.answer(now, one), |w, now| w.answer(now, again));
        let (Ok(one), Ok(again)) = told else { panic!("{told:?}") };
        assert!(one.replayed != again.replayed && one.after == again.after);
        world.verdict(link, &run, Verdict::Accepted);
        world.complete(link, &run);
    }
}

#[test]
fn an_answer_and_a_cancel() {
    let mut world = World::new();
    let link = world.serve(&a());
    let mut two = pair(&mut world);
    for _ in 0..ROUNDS {
        world.now += 1;
        let run = world.open(&a()).run;
        world.take();
        world.pause(link, &run, &["q1"]);
        let answer = single(&run, "1", Some(resolve(&head(), &run, world.at())));
        let stop = Stop { agent: None, run: run.clone(), act: Some(cancel(&a(), &run, world.at())), certificate: None };
        let told = both(&mut two, world.at(), |w, now| w.answer(now, answer), |w, now| w.stop(now, stop));
        let ask = world.view(&run).asks.remove(0);
        match told {
            // Answered first: the cancel is for the round that follows.
            (Ok(_), Ok(stopped)) => {
                assert_eq!(ask.closed_as.as_deref(), Some("answered"));
                assert_eq!(stopped.status, Status::Offering);
                world.verdict(link, &run, Verdict::Declined);
            }
            (Err(lost), Ok(stopped)) => {
                assert_eq!((lost.code.as_str(), stopped.status), ("no-open-ask", Status::Cancelled));
                assert_eq!(ask.closed_as.as_deref(), Some("cancelled"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(world.status(&run), Status::Cancelled);
    }
}

#[test]
fn a_cancel_and_the_end() {
    let mut world = World::new();
    let link = world.serve(&a());
    let mut two = pair(&mut world);
    for round in 0..ROUNDS {
        world.now += 1;
        let run = world.open(&a()).run;
        world.take();
        let stop =
            Stop { agent: None, run: run.clone(), act: Some(cancel(&head(), &run, world.at())), certificate: None };
        let says_done = round % 2 == 0;
        let ending = |w: &mut Witness, now| {
            if says_done {
                w.event(now, link, &run, done(), words("{}"), None).map(drop)
            } else {
                w.finish(now, link, &run)
            }
        };
        let told = both(&mut two, world.at(), ending, |w, now| w.stop(now, stop));
        let status = world.status(&run);
        match told {
            (Ok(()), Ok(stopped)) => {
                assert_eq!(stopped.status, Status::Cancelling);
                assert_eq!(status, if says_done { Status::Completed } else { Status::Cancelled });
            }
            (Ok(()), Err(lost)) => {
                assert_eq!(lost.code.as_str(), "run-ended");
                assert_eq!(status, if says_done { Status::Completed } else { Status::Failed });
            }
            other => panic!("{other:?}"),
        }
        if says_done {
            world.finish(link, &run).expect("finished");
        }
    }
}

#[test]
fn an_offer_expires_and_is_taken() {
    let mut world = World::new();
    let mut two = pair(&mut world);
    for _ in 0..ROUNDS {
        let link = world.serve(&a());
        world.offers();
        let run = world.open(&a()).run;
        world.now += 5;
        let claim = |w: &mut Witness, now| w.verdict(now, link, &run, Verdict::Accepted);
        let told = both(&mut two, world.at(), claim, |w, now| w.tick(now));
        match told {
            (Ok(true), Ok(())) => {
                assert_eq!(world.status(&run), Status::Running);
                world.complete(link, &run);
            }
            (Ok(false), Ok(())) => {
                assert_eq!(world.status(&run), Status::Queued);
                assert_eq!(code(world.event(link, &run, Fact::Started, None)), code_of_closed(&mut world, &run));
                world.stop_by(&run, &head()).expect("stopped");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A withdrawn provider's link is closed: its words are told apart from a run's end.
fn code_of_closed(world: &mut World, run: &wikala_witness::RunId) -> &'static str {
    assert_eq!(world.status(run), Status::Queued);
    if world.reader().agent(&agent(&a()), world.at()).expect("known").online { "run-ended" } else { "run-unknown" }
}

#[test]
fn a_lease_ends_and_its_provider_comes_back() {
    let mut world = World::new();
    let mut two = pair(&mut world);
    for _ in 0..ROUNDS {
        let link = world.serve(&a());
        let run = world.open(&a()).run;
        world.take();
        world.run(|w, now| w.detach(now, link)).expect("lost");
        world.now += 30;
        let link = world.serve(&a());
        let held = [Holding { run: run.clone(), last_seq: 0 }];
        let told = both(&mut two, world.at(), |w, _| w.holding(link, &held), |w, now| w.tick(now));
        // The third lost lease in a row withdraws the provider: then its link is closed too.
        let resumed = match told {
            (Ok(resumed), Ok(())) => resumed,
            (Err(closed), Ok(())) if closed.code.as_str() == "run-unknown" => vec![],
            other => panic!("{other:?}"),
        };
        if resumed.is_empty() {
            assert_eq!(world.view(&run).reason.as_deref(), Some("provider_left_holding_it"));
            assert!(world.finish(link, &run).is_err());
        } else {
            assert_eq!(world.status(&run), Status::Running);
            world.complete(link, &run);
        }
    }
}

/// Two first runs on a thread created ahead: it binds once.
#[test]
fn two_births() {
    let mut world = World::new();
    world.serve(&a());
    let mut two = pair(&mut world);
    let to = agent(&a());
    for _ in 0..ROUNDS {
        world.now += 1;
        let thread = world.run(|w, now| w.open_thread(now, &agent(&a()))).expect("a thread");
        let [mine, theirs] = [head(), stranger()].map(|key| {
            let caller = world.carrying(chain(&[key_of(&key)]), &key, &to);
            utterance(&to, wikala_witness::Place::Thread(thread.clone()), caller)
        });
        let told = both(&mut two, world.at(), |w, now| w.speak(now, mine), |w, now| w.speak(now, theirs));
        let bound = match told {
            (Ok(_), Err(lost)) => (head(), lost),
            (Err(lost), Ok(_)) => (stranger(), lost),
            other => panic!("{other:?}"),
        };
        assert_eq!(bound.1.code.as_str(), "not-a-member");
        assert_eq!(world.thread_head(&thread), Some(bound.0.public()));
    }
}

fn key_of(key: &wikala_chain::SigningKey) -> wikala_chain::SigningKey {
    if key.public() == head().public() { head() } else { stranger() }
}
