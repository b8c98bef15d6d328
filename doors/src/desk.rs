//! The desk: one thread owns the record. Jobs come in arrival order, share a
//! transaction, and are answered after it is durable; only then their effects go
//! out. The only file that reads the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};
use wikala_certs::Moment;
use wikala_witness::{Effect, Fault, No, Witness};

/// How many jobs share one commit.
const GROUP: usize = 256;
/// How many jobs may wait; callers beyond it wait in line themselves.
const WAITING: usize = 4096;
/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(250);

/// A look at the deadlines that comes so late was held up by us, seconds.
const STALL_S: u64 = 2;

/// Where `now` comes from.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// Set by hand, unix seconds: in tests it also drives every deadline.
    Hand(Arc<AtomicU64>),
}

impl Clock {
    fn read(&self) -> u64 {
        match self {
            #[allow(clippy::disallowed_methods)] // the one place that asks the time
            Clock::System => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            Clock::Hand(at) => at.load(Ordering::SeqCst),
        }
    }
}

/// Carries effects out, after the commit.
pub trait Outward: Send + 'static {
    /// Must not block: the desk waits for nobody.
    fn carry(&self, effect: Effect);
}

/// Answers a job: with what the verb said if the group was committed, else with the fault.
type Reply = Box<dyn FnOnce(bool) + Send>;
/// Runs with the record at hand; without it (no transaction to be had) it only answers.
type Job = Box<dyn FnOnce(Option<(&mut Witness, Moment)>) -> Reply + Send>;

/// A handle to the desk. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Desk {
    jobs: mpsc::Sender<Job>,
    clock: Clock,
    newest: Arc<AtomicU64>,
}

impl Desk {
    /// Starts the desk's thread. It ends when every handle is dropped, after the
    /// last job is committed; then the channel returned says so.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn open(witness: Witness, clock: Clock, outward: impl Outward) -> Result<(Desk, oneshot::Receiver<()>), Fault> {
        let (jobs, waiting) = mpsc::channel(WAITING);
        let newest = Arc::new(AtomicU64::new(witness.newest_time()?.as_secs()));
        let (done, ended) = oneshot::channel();
        let desk = Desk { jobs, clock: clock.clone(), newest: newest.clone() };
        std::thread::Builder::new()
            .name("desk".to_owned())
            .spawn(move || {
                work(witness, waiting, &clock, &newest, &outward);
                let _ = done.send(());
            })
            .map_err(|_| Fault::Corrupt("desk thread"))?;
        Ok((desk, ended))
    }

    /// Gives the desk a job and waits until its effect is durable.
    ///
    /// # Errors
    /// What the verb said; a fault if the commit failed.
    pub async fn ask<T: Send + 'static>(
        &self,
        verb: impl FnOnce(&mut Witness, Moment) -> Result<T, No> + Send + 'static,
    ) -> Result<T, No> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |at_hand| {
            let said = match at_hand {
                Some((witness, now)) => witness.job(|witness| verb(witness, now)),
                None => Err(Fault::Corrupt("transaction").into()),
            };
            Box::new(move |committed| {
                let said = if committed { said } else { said.and(Err(Fault::Corrupt("commit").into())) };
                // Nobody waits any more: the run outlives its caller's socket.
                let _ = answer.send(said);
            })
        });
        if self.jobs.send(job).await.is_err() {
            return Err(Fault::Corrupt("desk closed").into());
        }
        answered.await.unwrap_or(Err(Fault::Corrupt("desk closed").into()))
    }

    /// How many jobs wait for the desk.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.jobs.max_capacity() - self.jobs.capacity()
    }

    /// Now, never before the newest time on record.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment::from_secs(self.clock.read().max(self.newest.load(Ordering::SeqCst)))
    }

    /// Looks at every deadline now.
    ///
    /// # Errors
    /// Only faults.
    pub async fn tick(&self) -> Result<(), No> {
        self.ask(|witness, now| witness.tick(now)).await
    }

    /// Looks at the deadlines four times a second, while the desk is open.
    ///
    /// A stall of ours (a slow disk, a foreign lock, a suspended machine) is nobody's
    /// silence: what it cost is added to every deadline before it is looked at.
    pub async fn keep_time(self) {
        let mut beat = tokio::time::interval(TICK);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let looked = Arc::new(Mutex::new(Instant::now()));
        while !self.jobs.is_closed() {
            beat.tick().await;
            let looked = looked.clone();
            let tick = self.ask(move |witness, now| {
                if let Ok(mut looked) = looked.lock() {
                    let late = looked.elapsed().as_secs();
                    *looked = Instant::now();
                    if late >= STALL_S {
                        tracing::warn!(late_s = late, "stalled: every deadline waits as long");
                        witness.pardon(late)?;
                    }
                }
                witness.tick(now)
            });
            if let Err(no) = tick.await {
                tracing::error!(%no, "deadlines could not be looked at");
            }
        }
    }
}

fn work(
    mut witness: Witness,
    mut waiting: mpsc::Receiver<Job>,
    clock: &Clock,
    newest: &AtomicU64,
    outward: &impl Outward,
) {
    let mut group: Vec<Job> = Vec::with_capacity(GROUP);
    while waiting.blocking_recv_many(&mut group, GROUP) > 0 {
        // A clock that was set back does not take the record with it.
        let now = clock.read().max(newest.load(Ordering::SeqCst));
        newest.store(now, Ordering::SeqCst);
        let now = Moment::from_secs(now);
        metrics::histogram!("wikala_desk_group_jobs").record(group.len() as f64);
        if let Err(fault) = witness.begin() {
            // Without a transaction a savepoint would commit by itself: run nothing.
            tracing::error!(%fault, "no transaction");
            group.drain(..).for_each(|job| job(None)(false));
            continue;
        }
        let replies: Vec<Reply> = group.drain(..).map(|job| careful(job, &mut witness, now)).collect();
        let effects = match witness.commit() {
            Ok(effects) => Some(effects),
            Err(fault) => {
                tracing::error!(%fault, "nothing of this group is on record");
                witness.rollback();
                None
            }
        };
        let committed = effects.is_some();
        // Log before effect: only what is durable leaves the house.
        for effect in effects.into_iter().flatten() {
            outward.carry(effect);
        }
        for reply in replies {
            reply(committed);
        }
    }
}

/// A verb that panics is a fault of ours, told as one: its half-done work is
/// rolled back, the rest of the group and the desk go on.
fn careful(job: Job, witness: &mut Witness, now: Moment) -> Reply {
    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(Some((&mut *witness, now)))));
    tried.unwrap_or_else(|_| {
        tracing::error!("a verb panicked");
        witness.abandon();
        Box::new(|_| {})
    })
}
