//! What the agent has said, run by run. The record of a run here is the truth; a link
//! only copies it out, so a lost link loses nothing.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

/// Finished runs that are remembered: a finish has no receipt, so it may be lost with
/// its link and be asked for again.
const REMEMBERED: usize = 64;

/// One turn of a run.
#[derive(Debug)]
struct Run {
    /// Tells this turn from an earlier one of the same run.
    turn: u64,
    events: Vec<Value>,
    finished: bool,
    /// How many were sent on this link; `None`: the witness did not ask for it here.
    sent: Option<usize>,
    finish_sent: bool,
    cancel: watch::Sender<bool>,
}

/// All runs at hand.
#[derive(Debug, Default)]
pub(super) struct Book {
    runs: Mutex<HashMap<String, Run>>,
    turns: std::sync::atomic::AtomicU64,
    /// Something is to be sent.
    pub(super) more: Notify,
}

/// A turn that is being worked on.
#[derive(Debug)]
pub(super) struct Turn {
    run: String,
    number: u64,
    /// True once a cancel came.
    pub(super) cancel: watch::Receiver<bool>,
}

impl Book {
    /// Begins a turn; an earlier one of the same run is forgotten.
    pub(super) fn begin(&self, run: &str) -> Turn {
        let number = self.turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (cancel, asked) = watch::channel(false);
        if let Ok(mut runs) = self.runs.lock() {
            let begun =
                Run { turn: number, events: Vec::new(), finished: false, sent: Some(0), finish_sent: false, cancel };
            runs.insert(run.to_owned(), begun);
            prune(&mut runs);
        }
        Turn { run: run.to_owned(), number, cancel: asked }
    }

    /// Says an event in a turn.
    pub(super) fn say(&self, turn: &Turn, event: Value) {
        self.change(turn, |run| run.events.push(event));
    }

    /// The turn is done.
    pub(super) fn finish(&self, turn: &Turn) {
        self.change(turn, |run| run.finished = true);
    }

    fn change(&self, turn: &Turn, change: impl FnOnce(&mut Run)) {
        if let Ok(mut runs) = self.runs.lock()
            && let Some(run) = runs.get_mut(&turn.run)
            && run.turn == turn.number
        {
            change(run);
        }
        self.more.notify_one();
    }

    /// Asks the turn of a run to stop.
    pub(super) fn cancel(&self, run: &str) {
        if let Ok(runs) = self.runs.lock()
            && let Some(run) = runs.get(run)
        {
            let _ = run.cancel.send(true);
        }
    }

    /// Turns that are not done.
    pub(super) fn busy(&self) -> u64 {
        self.runs.lock().map_or(0, |runs| runs.values().filter(|run| !run.finished).count() as u64)
    }

    /// A new link: nothing is sent on it before the witness asks. The `holding` frame, if
    /// there is anything to name.
    pub(super) fn attached(&self) -> Option<Value> {
        let mut runs = self.runs.lock().ok()?;
        let held: Vec<Value> = runs
            .iter_mut()
            .map(|(id, run)| {
                (run.sent, run.finish_sent) = (None, false);
                json!({ "runId": id, "lastSeq": run.events.len() })
            })
            .collect();
        if held.is_empty() { None } else { Some(json!({ "type": "holding", "runs": held })) }
    }

    /// The witness asks for what comes after.
    pub(super) fn resume(&self, run: &str, after: u64) {
        if let Ok(mut runs) = self.runs.lock()
            && let Some(run) = runs.get_mut(run)
        {
            run.sent = Some(usize::try_from(after).unwrap_or(usize::MAX).min(run.events.len()));
        }
        self.more.notify_one();
    }

    /// The frames that are due on this link now.
    pub(super) fn due(&self) -> Vec<Value> {
        let mut frames = Vec::new();
        let Ok(mut runs) = self.runs.lock() else { return frames };
        for (id, run) in runs.iter_mut() {
            let Some(sent) = run.sent else { continue };
            for (at, event) in run.events.iter().enumerate().skip(sent) {
                frames.push(json!({ "type": "event", "runId": id, "event": event, "seq": at + 1 }));
            }
            run.sent = Some(run.events.len());
            if run.finished && !run.finish_sent {
                run.finish_sent = true;
                frames.push(json!({ "type": "finish", "runId": id }));
            }
        }
        frames
    }
}

fn prune(runs: &mut HashMap<String, Run>) {
    while runs.values().filter(|run| run.finished).count() > REMEMBERED {
        let oldest = runs.iter().filter(|(_, run)| run.finished).min_by_key(|(_, run)| run.turn);
        let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { return };
        runs.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_link_loses_nothing_and_says_nothing_twice() {
        let book = Book::default();
        let turn = book.begin("r");
        book.say(&turn, json!(1));
        assert_eq!(book.due().len(), 1);
        book.say(&turn, json!(2));
        let holding = book.attached().unwrap();
        assert_eq!(holding["runs"], json!([{ "runId": "r", "lastSeq": 2 }]));
        assert!(book.due().is_empty(), "not asked for yet");
        book.resume("r", 1);
        book.finish(&turn);
        let due = book.due();
        assert_eq!(due[0], json!({ "type": "event", "runId": "r", "event": 2, "seq": 2 }));
        assert_eq!(due[1]["type"], "finish");
        assert!(book.due().is_empty());
        let again = book.begin("r");
        book.say(&turn, json!(3));
        assert!(book.due().is_empty(), "an earlier turn says nothing any more");
        book.say(&again, json!(1));
        assert_eq!(book.due()[0]["seq"], 1);
    }
}
