//! Reads: what a run, a thread or the roster looks like to somebody who may look.
//! A read changes nothing and sees the last commit.

use wikala_certs::Moment;
use wikala_chain::{Fingerprint, PublicKey};

use crate::entry::Recorded;
use crate::ids::{RunId, ThreadId};
use crate::model::{AgentId, Leg};
use crate::obligation::ObligationRow;
use crate::refusal::{Code, Fault, No, Refusal};
use crate::store::Store;
use crate::store::agents::AgentRow;
use crate::store::runs::RunRow;
use crate::view::{AgentView, AskItemView, AskView, CancelView, Page, RunFilter, RunView, ThreadView, Times, Turn};
use crate::{Policy, ReadPolicy};

/// A read-only connection with the verbs of a reader.
#[derive(Debug)]
pub struct Reader {
    pub(crate) store: Store,
    pub(crate) policy: Policy,
}

impl Reader {
    /// Several reads of one moment: without it a commit between two of them would
    /// show a run as it never was.
    ///
    /// # Errors
    /// What the verb said.
    pub fn snapshot<T>(&self, verb: impl FnOnce(&Self) -> Result<T, No>) -> Result<T, No> {
        // Dropped at the end, whatever happens: there is nothing to commit.
        let _moment = self.store.db.unchecked_transaction()?;
        verb(self)
    }

    /// The authority an authenticated reader stands for.
    ///
    /// # Errors
    /// `certificate-expired`: a delegate that reads for itself needs a live certificate.
    pub fn viewer(&self, now: Moment, key: PublicKey) -> Result<PublicKey, No> {
        match self.store.delegate(key)? {
            Some(row) if row.revoked => Err(crate::caller::revoked(key)),
            Some(row) => Ok(wikala_certs::ActingFor::recorded(key, row.authority, row.expires_at, now)?.authority()),
            None => Ok(key),
        }
    }

    /// A run.
    ///
    /// # Errors
    /// `run-unknown`, also for a run the viewer may not read.
    pub fn run(&self, id: &RunId, viewer: Option<PublicKey>) -> Result<RunView, No> {
        let row = self.readable_run(id, viewer)?;
        let thread = self.store.thread(&row.thread)?.ok_or(Fault::Corrupt("run.thread"))?;
        let insider = thread.head.is_none() || self.is_party_of(&thread, viewer)?;
        self.view(row, viewer, insider)
    }

    /// A run, whoever's: the operator's view, never behind a public door.
    ///
    /// # Errors
    /// `run-unknown`.
    pub fn run_for_operator(&self, id: &RunId) -> Result<RunView, No> {
        let unknown = || Refusal::new(Code::RunUnknown, format!("run: {id} is not known here"));
        let row = self.store.run(id)?.ok_or_else(unknown)?;
        self.view(row, None, true)
    }

    fn view(&self, row: RunRow, viewer: Option<PublicKey>, insider: bool) -> Result<RunView, No> {
        let id = &row.id;
        let thread = self.store.thread(&row.thread)?.ok_or(Fault::Corrupt("run.thread"))?;
        let agent = self.store.agent_row(row.agent)?.ok_or(Fault::Corrupt("run.agent"))?;
        let mut asks = Vec::new();
        let owed = self.store.owed_to_asks(id)?;
        let owed_to = |ordinal: u64, item: &str| {
            let asked = |row: &&ObligationRow| row.ask.as_ref().is_some_and(|(o, i)| *o == ordinal && i == item);
            owed.iter().find(asked).map(crate::obligation::owed)
        };
        for ask in self.store.asks(id)? {
            let items = self.store.items(id, ask.ordinal)?;
            asks.push(AskView {
                ordinal: ask.ordinal,
                items: items
                    .into_iter()
                    .map(|item| AskItemView {
                        owed: owed_to(ask.ordinal, &item.id),
                        id: item.id,
                        kind: item.kind,
                        question: item.question,
                        schema: item.schema,
                    })
                    .collect(),
                authorities: ask.head.into_iter().chain(ask.provider).collect(),
                opened_at: ask.opened_at,
                closed_at: ask.closed_at,
                closed_as: ask.closed_as,
                answered_by: ask.authority,
                answered_with: ask.signer,
                answer_digest: ask.answer_digest,
            });
        }
        let head = thread.head.or(row.head);
        Ok(RunView {
            owed: self.store.obligation_of_run(id)?.as_ref().map(crate::obligation::owed),
            insider,
            flags: self.store.flags(id)?,
            cancel_requested_by: self
                .store
                .cancel_requests(id)?
                .into_iter()
                .map(|c| CancelView { at: c.at, authority: c.authority, signer: c.signer })
                .collect(),
            onward: self.onward(&row, viewer)?,
            authorities: head.map_or_else(Vec::new, |head| vec![head, agent.id.provider]),
            times: Times {
                created_at: row.created_at,
                started_at: row.started_at,
                changed_at: row.changed_at,
                ended_at: row.ended_at,
            },
            run: row.id,
            thread: row.thread,
            custodial: agent.upstream.is_some_and(|(_, ours)| ours),
            agent: agent.id,
            status: row.status,
            reason: row.reason,
            reason_by_provider: row.reason_by_provider,
            head: row.head,
            opener: row.opener,
            chain: row.chain,
            client_run: row.client_run,
            client_thread: row.client_thread,
            asks,
        })
    }

    /// A thread.
    ///
    /// # Errors
    /// `thread-unknown`, also for a thread the viewer may not read.
    pub fn thread(&self, id: &ThreadId, viewer: Option<PublicKey>) -> Result<ThreadView, No> {
        let row = self.readable_thread(id, viewer)?;
        let agent = self.store.agent_row(row.agent)?.ok_or(Fault::Corrupt("thread.agent"))?;
        let runs = self.store.runs_of_thread(id)?.into_iter().map(|run| (run.id, run.status)).collect();
        Ok(ThreadView {
            thread: row.id,
            agent: agent.id,
            head: row.head,
            created_at: row.created_at,
            born: row.birth.is_some(),
            runs,
        })
    }

    /// Whose thread it is, whoever asks: for a door that takes a message for it.
    ///
    /// # Errors
    /// `thread-unknown`.
    pub fn agent_of_thread(&self, id: &ThreadId) -> Result<AgentId, No> {
        let unknown = || Refusal::new(Code::ThreadUnknown, format!("thread: {id} is not known here"));
        let row = self.store.thread(id)?.ok_or_else(unknown)?;
        Ok(self.store.agent_row(row.agent)?.ok_or(Fault::Corrupt("thread.agent"))?.id)
    }

    /// Entries of a run after a sequence number, at most `limit`; fewer where they are large.
    ///
    /// # Errors
    /// `run-unknown`.
    pub fn entries(
        &self,
        id: &RunId,
        after: u64,
        limit: usize,
        viewer: Option<PublicKey>,
    ) -> Result<Vec<Recorded>, No> {
        self.readable_run(id, viewer)?;
        Ok(self.store.entries(id, after, limit, PAGE_BYTES)?)
    }

    /// The last sequence number of a run's record.
    ///
    /// # Errors
    /// `run-unknown`.
    pub fn last_entry(&self, id: &RunId, viewer: Option<PublicKey>) -> Result<u64, No> {
        self.readable_run(id, viewer)?;
        Ok(self.store.last_entry(id)?)
    }

    /// What the callers said in a run, leg by leg.
    ///
    /// # Errors
    /// `run-unknown`.
    pub fn legs(&self, id: &RunId, viewer: Option<PublicKey>) -> Result<Vec<Leg>, No> {
        self.readable_run(id, viewer)?;
        Ok(self.store.legs(id)?)
    }

    /// Everything said in a run.
    ///
    /// # Errors
    /// `run-unknown`.
    pub fn turn(&self, id: &RunId, viewer: Option<PublicKey>) -> Result<Turn, No> {
        let run = self.readable_run(id, viewer)?;
        Ok(self.turn_of(run)?)
    }

    /// As [`Reader::turn`], whoever's: for who opened it a moment ago, and the operator.
    ///
    /// # Errors
    /// `run-unknown`.
    pub fn turn_for_operator(&self, id: &RunId) -> Result<Turn, No> {
        let unknown = || Refusal::new(Code::RunUnknown, format!("run: {id} is not known here"));
        let run = self.store.run(id)?.ok_or_else(unknown)?;
        Ok(self.turn_of(run)?)
    }

    /// As [`Reader::entries`], for a stream whose right to read was checked when it began.
    ///
    /// # Errors
    /// Only faults.
    pub fn entries_unchecked(&self, id: &RunId, after: u64, limit: usize) -> Result<Vec<Recorded>, No> {
        Ok(self.store.entries(id, after, limit, PAGE_BYTES)?)
    }

    /// The number of a run's newest entry, whoever's: for who opened it a moment ago.
    ///
    /// # Errors
    /// A fault of the record.
    pub fn newest_entry(&self, id: &RunId) -> Result<u64, No> {
        Ok(self.store.last_entry(id)?)
    }

    /// What was said to a run's agent at its opening (0) or with its n-th answer, whoever's.
    ///
    /// # Errors
    /// A fault of the record.
    pub fn leg_for_operator(&self, id: &RunId, ordinal: usize) -> Result<Option<Leg>, No> {
        Ok(self.store.legs(id)?.into_iter().nth(ordinal))
    }

    /// Everything said in a thread, run after run: material for histories.
    ///
    /// # Errors
    /// `thread-unknown`.
    pub fn turns(&self, id: &ThreadId, viewer: Option<PublicKey>) -> Result<Vec<Turn>, No> {
        self.readable_thread(id, viewer)?;
        let mut turns = Vec::new();
        for run in self.store.runs_of_thread(id)? {
            turns.push(self.turn_of(run)?);
        }
        Ok(turns)
    }

    /// As [`Reader::turns`], for the provider that serves the thread and nobody else.
    ///
    /// # Errors
    /// `thread-unknown`, the same for unknown and foreign.
    pub fn turns_for_provider(&self, id: &ThreadId, provider: PublicKey) -> Result<Vec<Turn>, No> {
        let unknown = || Refusal::new(Code::ThreadUnknown, format!("thread: {id} is no thread of yours"));
        let thread = self.store.thread(id)?.ok_or_else(unknown)?;
        let agent = self.store.agent_row(thread.agent)?.ok_or(Fault::Corrupt("thread.agent"))?;
        if agent.id.provider != provider {
            return Err(unknown().into());
        }
        let mut turns = Vec::new();
        for run in self.store.runs_of_thread(id)? {
            turns.push(self.turn_of(run)?);
        }
        Ok(turns)
    }

    fn turn_of(&self, run: RunRow) -> Result<Turn, Fault> {
        let legs = self.store.legs(&run.id)?;
        let entries = self.store.entries(&run.id, 0, usize::MAX >> 1, usize::MAX)?;
        Ok(Turn { run: run.id, status: run.status, legs, entries })
    }

    /// A page of the roster after a place in it, and where the next page begins.
    ///
    /// # Errors
    /// Only faults.
    pub fn roster(&self, now: Moment, after: u64, limit: u64) -> Result<(Vec<AgentView>, Option<u64>), No> {
        let mut views = Vec::new();
        let mut rows = self.store.roster(after, limit.saturating_add(1))?;
        let more = rows.len() as u64 > limit;
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let next = rows.last().filter(|_| more).map(|row| row.row.unsigned_abs());
        for row in rows {
            views.push(self.agent_view(row, now)?);
        }
        Ok((views, next))
    }

    /// One agent.
    ///
    /// # Errors
    /// `agent-unknown`.
    pub fn agent(&self, id: &AgentId, now: Moment) -> Result<AgentView, No> {
        let row = self.store.agent(id)?.ok_or_else(|| {
            Refusal::new(
                Code::AgentUnknown,
                format!(
                    "agent: {}/{} is not known here, GET /agents lists who is",
                    id.provider.fingerprint(),
                    id.name.as_str()
                ),
            )
        })?;
        Ok(self.agent_view(row, now)?)
    }

    fn agent_view(&self, row: AgentRow, now: Moment) -> Result<AgentView, Fault> {
        let counters = self.store.counters(row.id.provider)?.ok_or(Fault::Corrupt("agent.provider"))?;
        let in_grace = row.lost_at.is_some_and(|lost| now.as_secs() < lost.saturating_add(self.policy.link_grace_s));
        let online = row.link.is_some() || (in_grace && !row.withdrawn);
        let (upstream, custodial) =
            (row.upstream.map(|(dialect, _)| dialect), row.upstream.is_some_and(|(_, ours)| ours));
        Ok(AgentView { id: row.id, online, registration: row.registration, counters, upstream, custodial })
    }

    /// The key behind a fingerprint.
    ///
    /// # Errors
    /// `agent-unknown`, or `fingerprint-ambiguous` for two keys on one fingerprint.
    pub fn provider(&self, fingerprint: Fingerprint) -> Result<PublicKey, No> {
        match self.store.providers_by_fingerprint(fingerprint)?.as_slice() {
            [one] => Ok(*one),
            [] => {
                Err(Refusal::new(Code::AgentUnknown, format!("agent: no provider {fingerprint} is known here")).into())
            }
            _ => Err(Refusal::new(
                Code::FingerprintAmbiguous,
                format!("agent: several keys share the fingerprint {fingerprint}, use the whole key"),
            )
            .into()),
        }
    }

    /// A list of an agent's runs: those of the viewer, or without a viewer those of
    /// a thread whose id is known. Nothing else is enumerated.
    ///
    /// # Errors
    /// `agent-unknown`.
    pub fn runs(&self, agent: &AgentId, viewer: Option<PublicKey>, filter: &RunFilter) -> Result<Page, No> {
        let row = self.store.agent(agent)?.ok_or_else(|| Refusal::new(Code::AgentUnknown, "agent: not known here"))?;
        match (&filter.thread, viewer) {
            (None, None) => return Ok(Page::default()),
            (Some(thread), _) => match self.readable_thread(thread, viewer) {
                Ok(thread) if thread.agent == row.row => {}
                Ok(_) | Err(No::Refusal(_)) => return Ok(Page::default()),
                Err(fault) => return Err(fault),
            },
            (None, Some(_)) => {}
        }
        // A thread whose id is known is read like any known id; a list without one is the viewer's own.
        let scope = if filter.thread.is_some() { None } else { viewer };
        let is_provider = match viewer {
            Some(key) => key == agent.provider || self.store.resolve(agent.provider)? == key,
            None => false,
        };
        let statuses = if filter.statuses.is_empty() {
            String::new()
        } else {
            format!(",{},", filter.statuses.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(","))
        };
        let fetch = |cursor: Option<(u64, &RunId)>, limit: usize| {
            self.store.page(row.row, filter.thread.as_ref(), scope, is_provider, &statuses, filter.since, cursor, limit)
        };
        let mut rows = fetch(filter.cursor.as_ref().map(|(at, id)| (*at, id)), filter.limit.saturating_add(1))?;
        let total = self.store.page_total(
            row.row,
            filter.thread.as_ref(),
            scope,
            is_provider,
            &statuses,
            filter.since,
            LIST_TOTAL,
        )?;
        let more = rows.len() > filter.limit;
        rows.truncate(filter.limit);
        let next = rows.last().filter(|_| more).map(|run| (run.changed_at, run.id.clone()));
        Ok(Page { runs: rows.into_iter().map(|run| run.id).collect(), next, total })
    }

    /// The record answers: for readiness.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn ready(&self) -> Result<(), No> {
        self.store.record_end()?;
        Ok(())
    }

    fn readable_run(&self, id: &RunId, viewer: Option<PublicKey>) -> Result<RunRow, No> {
        let unknown = || Refusal::new(Code::RunUnknown, format!("run: {id} is not known here"));
        let run = self.store.run(id)?.ok_or_else(unknown)?;
        if self.policy.reads == ReadPolicy::Parties {
            match self.readable_thread(&run.thread, viewer) {
                Ok(_) => {}
                // The words of an unknown id, byte for byte.
                Err(No::Refusal(_)) => return Err(unknown().into()),
                Err(fault) => return Err(fault),
            }
        }
        Ok(run)
    }
}

/// A page of entries ends with the one that fills so many bytes.
const PAGE_BYTES: usize = 256 * 1024;
/// A list counts no further than this.
const LIST_TOTAL: usize = 10_000;
