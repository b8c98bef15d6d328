//! The runs an agent works on, across links: what was said of each, so that it can
//! be said again from any number on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc, watch};
use wikala_chain::{PublicKey, SigningKey, json};

use super::script;
use crate::cli::io;
use crate::client::Client;

/// A run under way.
#[derive(Debug)]
struct Work {
    /// Its events of this leg, each JSON text; number n stands at n - 1.
    said: Vec<String>,
    finished: bool,
    /// The link was lost since: say nothing until the witness says from where on.
    waits: bool,
    cancel: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    out: Option<mpsc::UnboundedSender<String>>,
    runs: HashMap<String, Work>,
    witness: Option<PublicKey>,
}

/// The agent behind a key.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) url: String,
    pub(super) key: Arc<SigningKey>,
    pub(super) http: Client,
    pub(super) max_runs: Option<u64>,
    /// The script wants the link dropped.
    pub(super) drop_link: Notify,
    inner: Mutex<Inner>,
    attached: watch::Sender<bool>,
    dead: AtomicBool,
}

impl Agent {
    pub(super) fn new(url: &str, key: Arc<SigningKey>, http: Client, max_runs: Option<u64>) -> Self {
        Agent {
            url: url.to_owned(),
            key,
            http,
            max_runs,
            drop_link: Notify::new(),
            inner: Mutex::default(),
            attached: watch::channel(false).0,
            dead: AtomicBool::new(false),
        }
    }

    /// Nobody panics while holding the lock, so it is never poisoned; if it were,
    /// what it guards would still be whole.
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Pins the witness: the first one answers for the address from then on.
    pub(super) fn pin(&self, key: PublicKey) -> bool {
        *self.inner().witness.get_or_insert(key) == key
    }

    pub(super) fn witness(&self) -> Option<PublicKey> {
        self.inner().witness
    }

    /// A link is open: `out` is its writer. The runs still held.
    pub(super) fn opened(&self, out: mpsc::UnboundedSender<String>) -> Vec<(String, usize)> {
        let mut inner = self.inner();
        inner.out = Some(out);
        let held = inner.runs.iter().map(|(run, work)| (run.clone(), work.said.len())).collect();
        drop(inner);
        self.attached.send_replace(true);
        held
    }

    /// The link is gone: what is said now waits.
    pub(super) fn lost(&self) {
        let mut inner = self.inner();
        inner.out = None;
        for work in inner.runs.values_mut() {
            work.waits = true;
        }
        drop(inner);
        self.attached.send_replace(false);
    }

    /// The witness says from where on.
    pub(super) fn resume(&self, run: &str, after: usize) {
        let mut inner = self.inner();
        let Inner { out, runs, .. } = &mut *inner;
        let (Some(out), Some(work)) = (out, runs.get_mut(run)) else { return };
        work.waits = false;
        for (at, event) in work.said.iter().enumerate().skip(after) {
            let _ = out.send(event_frame(run, event, at + 1));
        }
        if work.finished {
            let _ = out.send(finish_frame(run));
            runs.remove(run);
        }
    }

    /// The witness asks for nothing more of the runs it did not name.
    pub(super) fn forget_waiting(&self) {
        self.inner().runs.retain(|_, work| !work.waits);
    }

    /// Takes a run, or declines it when full.
    pub(super) fn take(self: &Arc<Self>, run: &str, name: &str, input: &str) {
        let cancelled = {
            let mut inner = self.inner();
            let full = self.max_runs.is_some_and(|max| inner.runs.len() as u64 >= max);
            let Some(out) = &inner.out else { return };
            let _ = out.send(format!("{{\"type\":\"ack\",\"runId\":{},\"accepted\":{}}}", json::quote(run), !full));
            if full {
                return;
            }
            let (cancel, cancelled) = watch::channel(false);
            inner.runs.insert(run.to_owned(), Work { said: Vec::new(), finished: false, waits: false, cancel });
            cancelled
        };
        // For whoever watches: one line a run.
        // Nobody may be: a reader who hung up stops no agent.
        let _ = io::say(format!("took {run} {name}"));
        let (agent, run, input) = (self.clone(), run.to_owned(), input.to_owned());
        tokio::spawn(async move {
            let mut cancelled = cancelled;
            tokio::select! {
                biased;
                asked = cancelled.wait_for(|asked| *asked) => {
                    // Forgotten, or offered again and begun anew: it is another's to finish.
                    if asked.is_err() {
                        return;
                    }
                    // Asked to stop: it ends without a last word, and the witness says what that means.
                }
                () = script::play(&agent, &run, &input) => {}
            }
            agent.finish(&run);
        });
    }

    pub(super) fn cancel(&self, run: &str) {
        if let Some(work) = self.inner().runs.get(run) {
            work.cancel.send_replace(true);
        }
    }

    /// Says an event of a run, now or when the link is back.
    pub(super) fn say(&self, run: &str, event: &str) {
        let mut inner = self.inner();
        let Inner { out, runs, .. } = &mut *inner;
        let Some(work) = runs.get_mut(run) else { return };
        work.said.push(event.to_owned());
        if let (Some(out), false) = (out, work.waits) {
            let _ = out.send(event_frame(run, event, work.said.len()));
        }
    }

    fn finish(&self, run: &str) {
        let mut inner = self.inner();
        let Inner { out, runs, .. } = &mut *inner;
        let Some(work) = runs.get_mut(run) else { return };
        work.finished = true;
        if let (Some(out), false) = (out, work.waits) {
            let _ = out.send(finish_frame(run));
            runs.remove(run);
        }
    }

    /// Waits until the link was lost and is back.
    pub(super) async fn back(&self) {
        let mut attached = self.attached.subscribe();
        let _ = attached.wait_for(|attached| !*attached).await;
        let _ = attached.wait_for(|attached| *attached).await;
    }

    pub(super) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.drop_link.notify_one();
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }
}

fn event_frame(run: &str, event: &str, seq: usize) -> String {
    format!("{{\"type\":\"event\",\"runId\":{},\"event\":{event},\"seq\":{seq}}}", json::quote(run))
}

fn finish_frame(run: &str) -> String {
    format!("{{\"type\":\"finish\",\"runId\":{}}}", json::quote(run))
}
