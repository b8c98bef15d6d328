//! Statements that only read across rows: lists, onward counts, resume targets.

use rusqlite::named_params;
use wikala_chain::{Digest, PublicKey};

use super::runs::{RunRow, run, run_where};
use super::{Key, Sha, Store, number};
use crate::ids::{RunId, ThreadId};
use crate::refusal::Fault;

/// One dispatch recorded in another run's window.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    pub(crate) run: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) opener: Option<PublicKey>,
    pub(crate) under_chain: bool,
}

/// Which runs of an agent a list shows to a viewer: its own, or all without one.
macro_rules! listed_where {
    () => {
        "WHERE agent = :agent AND (:thread IS NULL OR thread = :thread)
           AND (:statuses = '' OR instr(:statuses, ',' || status || ',') > 0)
           AND (:since IS NULL OR changed_at >= :since)
           AND (:is_provider = 1 OR :viewer IS NULL
             OR head = :viewer OR opener_authority = :viewer
             OR head IN (SELECT delegate FROM delegate WHERE authority = :viewer)
             OR opener IN (SELECT delegate FROM delegate WHERE authority = :viewer)
             OR thread IN (SELECT id FROM thread WHERE thread.head = :viewer))"
    };
}

/// A number from a reader's request, for a column that holds less.
fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Store {
    pub(crate) fn runs_of_thread(&self, thread: &ThreadId) -> Result<Vec<RunRow>, Fault> {
        // runs of a thread, in the order opened
        self.all(run_where!("WHERE thread = :thread ORDER BY opened"), named_params! {":thread": thread}, run)
    }

    /// At most two: more than one is no answer.
    pub(crate) fn delivered_to(&self, tip: Digest, but: &ThreadId) -> Result<Vec<ThreadId>, Fault> {
        // threads a chain was delivered to
        self.all(
            "SELECT DISTINCT thread FROM run WHERE delivered_tip = :tip AND thread <> :but LIMIT 2",
            named_params! {":tip": Sha(tip), ":but": but},
            |row| row.get("thread"),
        )
    }

    pub(crate) fn newest_run(&self, thread: &ThreadId) -> Result<Option<RunId>, Fault> {
        // newest run of a thread
        self.find(
            "SELECT id FROM run WHERE thread = :thread ORDER BY opened DESC LIMIT 1",
            named_params! {":thread": thread},
            |row| row.get("id"),
        )
    }

    pub(crate) fn roots(&self) -> Result<Vec<ThreadId>, Fault> {
        // threads without a parent
        self.all(
            "SELECT id FROM thread WHERE parent IS NULL
             ORDER BY created_at, (SELECT opened FROM run WHERE run.id = thread.birth), id",
            [],
            |row| row.get("id"),
        )
    }

    pub(crate) fn flags(&self, run: &RunId) -> Result<Vec<String>, Fault> {
        // flags
        self.all("SELECT flag FROM flag WHERE run = :run ORDER BY flag", named_params! {":run": run}, |row| {
            row.get("flag")
        })
    }

    /// Dispatches between a run's own dispatch and its terminal entry, by place in
    /// the record. The run itself is not its own onward.
    pub(crate) fn dispatches_between(
        &self,
        from: i64,
        to: i64,
        delivered: Option<Digest>,
    ) -> Result<Vec<Dispatch>, Fault> {
        // dispatches between
        self.all(
            "SELECT id, thread, opener, coalesce(witness_tip = :delivered, 0) AS under FROM run
             WHERE opened > :from AND opened < :to ORDER BY opened",
            named_params! {":from": from, ":to": to, ":delivered": delivered.map(Sha)},
            |row| {
                Ok(Dispatch {
                    run: row.get("id")?,
                    thread: row.get("thread")?,
                    opener: super::key(row, "opener")?,
                    under_chain: row.get::<_, i64>("under")? != 0,
                })
            },
        )
    }

    pub(crate) fn shared_with(&self, id: &RunId, tip: Digest, from: i64, to: i64) -> Result<u64, Fault> {
        // other runs with the identical delivered chain and an overlapping window
        self.one(
            "SELECT count(*) AS n FROM run WHERE delivered_tip = :tip AND id <> :id
               AND opened < :to AND (ended IS NULL OR ended > :from)",
            named_params! {":tip": Sha(tip), ":id": id, ":from": from, ":to": to},
            |row| number(row, "n"),
        )
    }

    /// How many runs all pages hold, up to `limit`.
    #[allow(clippy::too_many_arguments)] // the filters of one list
    pub(crate) fn page_total(
        &self,
        agent: i64,
        thread: Option<&ThreadId>,
        viewer: Option<PublicKey>,
        is_provider: bool,
        statuses: &str,
        since: Option<u64>,
        limit: usize,
    ) -> Result<usize, Fault> {
        // total of runs
        self.one(
            concat!("SELECT count(*) AS n FROM (SELECT 1 FROM run ", listed_where!(), " LIMIT :limit)"),
            named_params! {
                ":agent": agent, ":thread": thread, ":statuses": statuses, ":since": since.map(whole),
                ":is_provider": i64::from(is_provider), ":viewer": viewer.map(Key), ":limit": count(limit),
            },
            |row| Ok(usize::try_from(number(row, "n")?).unwrap_or(usize::MAX)),
        )
    }

    /// A page of an agent's runs, newest change first. `viewer` limits it to the
    /// runs whose head, provider or opener is that authority.
    #[allow(clippy::too_many_arguments)] // the filters of one list
    pub(crate) fn page(
        &self,
        agent: i64,
        thread: Option<&ThreadId>,
        viewer: Option<PublicKey>,
        is_provider: bool,
        statuses: &str,
        since: Option<u64>,
        before: Option<(u64, &RunId)>,
        limit: usize,
    ) -> Result<Vec<RunRow>, Fault> {
        // page of runs
        self.all(
            concat!(
                "SELECT run.* FROM run ",
                listed_where!(),
                " AND (:at IS NULL OR changed_at < :at OR (changed_at = :at AND id < :id))
                 ORDER BY changed_at DESC, id DESC LIMIT :limit"
            ),
            named_params! {
                ":agent": agent, ":thread": thread, ":statuses": statuses, ":since": since.map(whole),
                ":at": before.map(|(at, _)| whole(at)), ":id": before.map(|(_, id)| id),
                ":is_provider": i64::from(is_provider), ":viewer": viewer.map(Key), ":limit": count(limit),
            },
            run,
        )
    }

    /// The runs of a thread that ever asked, newest first.
    pub(crate) fn asking_runs(&self, thread: &ThreadId) -> Result<Vec<RunRow>, Fault> {
        // asking runs
        self.all(
            run_where!(
                "WHERE thread = :thread AND EXISTS (SELECT 1 FROM ask WHERE ask.run = run.id)
                 ORDER BY (status = 'input-required') DESC, opened DESC LIMIT 64"
            ),
            named_params! {":thread": thread},
            run,
        )
    }
}
