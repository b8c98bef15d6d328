//! Subscribers of a run: they follow its record, entry by entry, without gaps.
//! A slow one falls back to reading the record and never holds up the desk.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use tokio::sync::broadcast;
use wikala_witness::{No, Recorded, RunId};

use crate::house::App;

/// How many entries a subscriber may be behind before it reads the record instead.
const BEHIND: usize = 64;
/// How many entries are read from the record at once.
const PAGE: usize = 256;

/// Who listens to which run.
#[derive(Debug, Default)]
pub struct Fanout {
    runs: Mutex<HashMap<RunId, broadcast::Sender<Recorded>>>,
}

impl Fanout {
    /// Tells the subscribers of a run, if there are any.
    pub fn tell(&self, run: &RunId, recorded: Recorded) {
        let Ok(mut runs) = self.runs.lock() else { return };
        if let Some(subscribers) = runs.get(run)
            && subscribers.send(recorded).is_err()
        {
            runs.remove(run);
        }
    }

    fn subscribe(&self, run: &RunId) -> Option<broadcast::Receiver<Recorded>> {
        let mut runs = self.runs.lock().ok()?;
        if runs.len() >= 1024 {
            runs.retain(|_, subscribers| subscribers.receiver_count() > 0);
        }
        Some(runs.entry(run.clone()).or_insert_with(|| broadcast::channel(BEHIND).0).subscribe())
    }
}

/// One subscriber: the record after a sequence number, then what follows.
#[derive(Debug)]
pub struct Tail {
    app: App,
    run: RunId,
    after: u64,
    live: broadcast::Receiver<Recorded>,
    read: VecDeque<Recorded>,
    behind: bool,
}

impl Tail {
    /// Follows a run from `after` on. Subscribes before it reads, so nothing falls
    /// between. Whether the reader may read is asked before, once.
    #[must_use]
    pub fn of(app: &App, run: RunId, after: u64) -> Option<Tail> {
        let live = app.fanout.subscribe(&run)?;
        Some(Tail { app: app.clone(), run, after, live, read: VecDeque::new(), behind: true })
    }

    /// Begins again with the first entry.
    pub fn rewind(&mut self) {
        (self.after, self.behind) = (0, true);
        self.read.clear();
    }

    /// The next entry; `None` when the house closes.
    ///
    /// # Errors
    /// The record cannot be read.
    pub async fn next(&mut self) -> Result<Option<Recorded>, No> {
        loop {
            while let Some(recorded) = self.read.pop_front() {
                if recorded.seq > self.after {
                    self.after = recorded.seq;
                    return Ok(Some(recorded));
                }
            }
            if self.behind {
                let (run, after) = (self.run.clone(), self.after);
                let page = self.app.readers.read(move |reader| reader.entries_unchecked(&run, after, PAGE)).await?;
                // A page may be short because its entries are large: only an empty one is the end.
                self.behind = !page.is_empty();
                self.read = page.into();
                if !self.read.is_empty() {
                    continue;
                }
            }
            let mut closing = self.app.closing.clone();
            let received = tokio::select! {
                biased;
                received = self.live.recv() => received,
                _ = closing.wait_for(|closing| *closing) => return Ok(None),
            };
            match received {
                Ok(recorded) if recorded.seq == self.after.saturating_add(1) => self.read.push_back(recorded),
                Ok(recorded) if recorded.seq <= self.after => {}
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => self.behind = true,
                Err(broadcast::error::RecvError::Closed) => match self.app.fanout.subscribe(&self.run) {
                    Some(live) => (self.live, self.behind) = (live, true),
                    None => return Ok(None),
                },
            }
        }
    }
}
