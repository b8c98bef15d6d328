//! Long seeded lives of one record against a small model: whatever happens, in
//! whatever order, these hold.
//!
//! - a run moves only as record.md lets it, and never again once it has ended
//! - an ask has one winner, and a spent act never a second one
//! - every run's entries are numbered without gaps, and what was recorded stays
//! - one active run a thread, and never more than eight waiting

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wikala_chain::SigningKey;
use wikala_witness::{Fact, Holding, LinkId, Place, Recorded, RunId, Status, ThreadId, Verdict};

use crate::harness::*;

const SEEDS: u64 = 12;
const STEPS: usize = 420;

/// What the model remembers of a run.
struct Seen {
    thread: ThreadId,
    status: Status,
    entries: Vec<Recorded>,
    /// Pauses that were won, and the acts that won or stopped.
    won: BTreeSet<u64>,
}

struct Life {
    world: World,
    rng: StdRng,
    runs: BTreeMap<RunId, Seen>,
    /// Each provider and its link, while it has one.
    links: Vec<(SigningKey, Option<LinkId>)>,
    /// Acts used once: run, when signed, answer or cancel.
    used: Vec<(RunId, u64, bool)>,
    refused: usize,
}

/// Every status that one verb may lead to. A verb may take several legal moves.
fn may_become(from: Status, to: Status) -> bool {
    use Status::{Cancelled, Cancelling, Completed, Failed, InputRequired, Offering, Queued, Running};
    match from {
        Completed | Failed | Cancelled => false,
        Queued => matches!(to, Offering | Cancelled | Failed),
        Offering => matches!(to, Queued | Running | Cancelling | Cancelled | Failed),
        Running => matches!(to, InputRequired | Cancelling | Completed | Failed | Cancelled),
        Cancelling => matches!(to, InputRequired | Completed | Failed | Cancelled),
        InputRequired => matches!(to, Queued | Offering | Running | Cancelled | Failed),
    }
}

impl Life {
    fn begin(seed: u64) -> Self {
        let mut world = World::new();
        let links = [a(), b()].map(|key| (world.serve(&key), key));
        Life {
            world,
            rng: StdRng::seed_from_u64(seed),
            runs: BTreeMap::new(),
            links: links.into_iter().map(|(link, key)| (key, Some(link))).collect(),
            used: vec![],
            refused: 0,
        }
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.rng.random_range(0..all.len())].clone()) }
    }

    fn any_run(&mut self, of: &[Status]) -> Option<RunId> {
        let all: Vec<_> = self.runs.iter().filter(|(_, r)| of.contains(&r.status)).map(|(id, _)| id.clone()).collect();
        self.pick(&all)
    }

    /// The link of the provider that serves a run, if it has one now.
    fn link_of(&self, run: &RunId) -> Option<LinkId> {
        let provider = self.world.view(run).agent.provider;
        self.links.iter().find(|(key, _)| key.public() == provider).and_then(|(_, link)| *link)
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..16 => self.send(),
            16..40 => self.verdict(),
            40..66 => self.words(),
            66..78 => self.answer(),
            78..82 => self.cancel(),
            82..86 => self.replay(),
            86..89 => {
                let seconds = [1, 4, 5, 29, 30, 45, 61][self.rng.random_range(0..7)];
                self.world.advance(seconds);
            }
            89..91 => self.lose(),
            91..99 => self.come_back(),
            _ => {
                self.world.crash();
                self.links.iter_mut().for_each(|(_, link)| *link = None);
            }
        }
        // A withdrawn provider lost its link without asking.
        let closed: Vec<LinkId> = self
            .world
            .effects
            .drain(..)
            .filter_map(|e| if let wikala_witness::Effect::Close { link, .. } = e { Some(link) } else { None })
            .collect();
        for (_, link) in &mut self.links {
            if link.is_some_and(|link| closed.contains(&link)) {
                *link = None;
            }
        }
    }

    fn send(&mut self) {
        let threads: Vec<_> = self.runs.values().map(|r| r.thread.clone()).rev().take(3).collect();
        let provider = if self.rng.random_bool(0.5) { a() } else { b() };
        let to = agent(&provider);
        let place = match self.pick(&threads) {
            Some(thread) if self.rng.random_bool(0.7) => Place::Thread(thread),
            _ => Place::New,
        };
        let waiting = |life: &Life, thread: &ThreadId| {
            life.runs
                .values()
                .filter(|r| r.thread == *thread && matches!(r.status, Status::Queued | Status::Offering))
                .count()
        };
        let full = matches!(&place, Place::Thread(thread) if waiting(self, thread) >= 8);
        let caller = self.world.carrying(chain(&[head()]), &head(), &to);
        match self.world.speak(&to, place, caller) {
            Ok(opened) => {
                assert!(!full, "the queue is full");
                let seen =
                    Seen { thread: opened.thread, status: Status::Queued, entries: vec![], won: BTreeSet::new() };
                self.runs.insert(opened.run, seen);
            }
            Err(refusal) => {
                let expected = if full { "queue-full" } else { "thread-unknown" };
                // The thread may be the other agent's.
                assert!([expected, "thread-unknown"].contains(&refusal.code.as_str()), "{refusal}");
                self.refused += 1;
            }
        }
    }

    fn verdict(&mut self) {
        let Some(run) = self.any_run(&[Status::Offering, Status::Offering, Status::Queued]) else { return };
        let offered = self.runs[&run].status == Status::Offering;
        let Some(link) = self.link_of(&run) else { return };
        let verdict = match self.rng.random_range(0..10) {
            0 => Verdict::Declined,
            1 => Verdict::Refused("no".into()),
            _ => Verdict::Accepted,
        };
        assert_eq!(self.world.verdict(link, &run, verdict), offered, "an offer on this link stands, nothing else does");
    }

    fn words(&mut self) {
        let Some(run) = self.any_run(&[Status::Running, Status::Cancelling, Status::InputRequired, Status::Completed])
        else {
            return;
        };
        let Some(link) = self.link_of(&run) else { return };
        let before = self.runs[&run].status;
        let told = match self.rng.random_range(0..20) {
            0 => self.world.event(link, &run, Fact::Failed("broke".into()), None).map(drop),
            1..5 => self.world.event(link, &run, Fact::Said, None).map(drop),
            5..11 => self.world.event(link, &run, done(), None).map(drop),
            11..13 => self.world.finish(link, &run),
            _ => self.world.event(link, &run, asking(&["q"]), None).map(drop),
        };
        if let Err(refusal) = told {
            assert_eq!(refusal.code.as_str(), "run-ended", "{refusal}");
            assert!(!matches!(before, Status::Running | Status::Cancelling), "its claimer may speak: {refusal}");
            self.refused += 1;
        }
    }

    fn answer(&mut self) {
        let Some(run) = self.any_run(&[Status::InputRequired, Status::InputRequired, Status::Queued, Status::Failed])
        else {
            return;
        };
        let key = match self.rng.random_range(0..4) {
            0 => stranger(),
            1 => SigningKey::from_seed(
                [if self.world.view(&run).agent.provider == a().public() { 0x0A } else { 0x0B }; 32],
            ),
            _ => head(),
        };
        let open = self.world.view(&run).asks.last().filter(|ask| ask.closed_at.is_none()).map(|ask| ask.ordinal);
        let signed = self.world.now;
        match self.world.answer_by(&run, "1", &key) {
            Ok(answered) if answered.replayed => {}
            Ok(_) => {
                assert_ne!(key.public(), stranger().public());
                let ordinal = open.expect("only an open ask is won");
                assert!(self.runs.get_mut(&run).expect("known").won.insert(ordinal), "one winner an ask");
                if key.public() == head().public() {
                    self.used.push((run, signed, true));
                }
            }
            Err(refusal) => {
                let code = refusal.code.as_str();
                if key.public() == stranger().public() {
                    assert_eq!(code, "not-an-authority");
                } else if open.is_some() {
                    assert!(["agent-offline", "act-spent"].contains(&code), "{refusal}");
                } else {
                    assert!(["already-answered", "no-open-ask", "act-spent"].contains(&code), "{refusal}");
                }
                self.refused += 1;
            }
        }
    }

    fn cancel(&mut self) {
        let all = [Status::Queued, Status::Offering, Status::Running, Status::InputRequired, Status::Completed];
        let Some(run) = self.any_run(&all) else { return };
        let ended = self.runs[&run].status.is_terminal();
        let signed = self.world.now;
        match self.world.stop_by(&run, &head()) {
            Ok(stopped) => {
                assert!(!ended || stopped.replayed);
                self.used.push((run, signed, false));
            }
            Err(refusal) => {
                assert!(["run-ended", "act-spent"].contains(&refusal.code.as_str()), "{refusal}");
                self.refused += 1;
            }
        }
    }

    /// An act that was used before, by whoever carried it: it moves nothing again.
    fn replay(&mut self) {
        let used = self.used.clone();
        let Some((run, signed, answer)) = self.pick(&used) else { return };
        let at = wikala_certs::Moment::from_secs(signed);
        let before = self.world.view(&run);
        let moved = if answer {
            let act = Some(resolve(&head(), &run, at));
            self.world.answer(&run, "1", act).is_ok_and(|answered| !answered.replayed)
        } else {
            let act = Some(cancel(&head(), &run, at));
            self.world.stop(&run, act).is_ok_and(|stopped| !stopped.replayed)
        };
        assert!(!moved, "spent");
        assert_eq!(self.world.status(&run), before.status);
    }

    fn lose(&mut self) {
        let at = self.rng.random_range(0..self.links.len());
        if let Some(link) = self.links[at].1.take() {
            self.world.run(|w, now| w.detach(now, link)).expect("lost");
        }
    }

    fn come_back(&mut self) {
        let lost = self.links.iter().position(|(_, link)| link.is_none());
        // Who is here seldom attaches again; who is not comes back.
        let again = self.rng.random_bool(0.1).then(|| self.rng.random_range(0..self.links.len()));
        let Some(at) = lost.or(again) else { return };
        let link = self.world.serve(&SigningKey::from_seed([[0x0A, 0x0B][at]; 32]));
        self.links[at].1 = Some(link);
        if self.rng.random_bool(0.7) {
            let held: Vec<_> = self.runs.keys().map(|run| Holding { run: run.clone(), last_seq: 0 }).collect();
            self.world.run(|w, _| w.holding(link, &held)).expect("held");
        }
    }

    fn look(&mut self, reader: &wikala_witness::Reader, all: bool) {
        let mut active: BTreeMap<ThreadId, usize> = BTreeMap::new();
        let live: BTreeSet<_> =
            self.runs.values().filter(|seen| !seen.status.is_terminal()).map(|seen| seen.thread.clone()).collect();
        let stand: BTreeMap<RunId, Status> =
            live.iter().flat_map(|thread| reader.thread(thread, None).expect("never gone").runs).collect();
        // What has ended is read once more when the life is over.
        for (id, seen) in self.runs.iter_mut().filter(|(_, seen)| !seen.status.is_terminal()) {
            let status = stand[id];
            let moved = status != seen.status;
            if moved {
                assert!(may_become(seen.status, status), "{id}: {:?} -> {:?}", seen.status, status);
                seen.status = status;
            }
            if moved || all {
                let new = reader.entries(id, seen.entries.len() as u64, 1000, None).expect("read");
                assert!(new.is_empty() || !is_over(&seen.entries), "{id}: a terminal run never changes");
                seen.entries.extend(new);
                assert!(seen.entries.iter().zip(1..).all(|(entry, seq)| entry.seq == seq), "{id}: no gaps");
                assert_eq!(status.is_terminal(), is_over(&seen.entries), "{id}: every end is on record");
            }
            if matches!(status, Status::Offering | Status::Running | Status::Cancelling) {
                *active.entry(seen.thread.clone()).or_default() += 1;
            }
        }
        assert!(active.values().all(|n| *n <= 1), "one active run a thread");
    }
}

fn is_over(entries: &[Recorded]) -> bool {
    use wikala_witness::{Entry, Mark};
    entries.last().is_some_and(|last| matches!(last.entry, Entry::Mark(Mark::Ended { .. })))
}

#[test]
fn many_lives_keep_the_invariants() {
    let mut refused = 0;
    let mut ends: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut life = Life::begin(seed);
        let reader = life.world.reader();
        for step in 1..=STEPS {
            life.step();
            life.look(&reader, step % 16 == 0 || step == STEPS);
        }
        // What was recorded first still stands as it was read first.
        for (id, seen) in &life.runs {
            assert_eq!(life.world.entries(id), seen.entries, "seed {seed}: the record only grows");
            assert_eq!(life.world.status(id), seen.status, "seed {seed}: a terminal run never changes");
            *ends.entry(seen.status.as_str()).or_default() += 1;
        }
        refused += life.refused;
    }
    // The lives were lives: every end was reached, and much was refused.
    for end in ["completed", "failed", "cancelled"] {
        assert!(ends.get(end).is_some_and(|n| *n > 20), "{ends:?}");
    }
    assert!(refused > 100, "{refused}");
}
