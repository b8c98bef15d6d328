//! Which thread and which run a request means that names neither: by a client's alias,
//! by the ids of items, by the act beside it. It only finds; who may is decided later.

use std::collections::HashSet;

use wikala_chain::PublicKey;

use crate::ids::{RunId, ThreadId};
use crate::model::{AgentId, Status};
use crate::read::Reader;
use crate::refusal::{Code, No, Refusal};

impl Reader {
    /// The run that an answer naming only item ids is for: the newest waiting run of
    /// the thread whose open items it covers, else the newest that asked for any of
    /// them. `ids` empty: the newest waiting run.
    ///
    /// # Errors
    /// Only faults.
    pub fn resume_target(&self, thread: &ThreadId, ids: &HashSet<&str>) -> Result<Option<RunId>, No> {
        let mut second_best = None;
        for run in self.store.asking_runs(thread)? {
            let Some(ask) = self.store.newest_ask(&run.id)? else { continue };
            let items = self.store.items(&run.id, ask.ordinal)?;
            let covers = items.iter().all(|item| ids.contains(item.id.as_str()));
            if ask.closed_at.is_none() && (covers || ids.is_empty()) {
                return Ok(Some(run.id));
            }
            if second_best.is_none() && items.iter().any(|item| ids.contains(item.id.as_str())) {
                second_best = Some(run.id);
            }
        }
        Ok(second_best)
    }

    /// The runs of a thread that an act may be for, likeliest first: those that ever
    /// asked, waiting ones before others, newest first, at most 64; then the newest of all.
    ///
    /// # Errors
    /// Only faults.
    pub fn likely_targets(&self, thread: &ThreadId) -> Result<Vec<RunId>, No> {
        let mut runs: Vec<RunId> = self.store.asking_runs(thread)?.into_iter().map(|run| run.id).collect();
        if let Some(newest) = self.store.newest_run(thread)?
            && !runs.contains(&newest)
        {
            runs.push(newest);
        }
        Ok(runs)
    }

    /// The open calls of the thread's waiting runs, asked for by themselves or by an
    /// interrupt: a result for one of them is an answer, a result for anything else is
    /// history.
    ///
    /// # Errors
    /// Only faults.
    pub fn open_calls(&self, thread: &ThreadId) -> Result<Vec<(RunId, String)>, No> {
        let mut open = Vec::new();
        for run in self.store.asking_runs(thread)?.into_iter().filter(|run| run.status == Status::InputRequired) {
            open.extend(self.store.unanswered_calls(&run.id)?.into_iter().map(|call| (run.id.clone(), call)));
        }
        Ok(open)
    }

    /// The thread a client's alias stands for, seen from each of the given stands
    /// (effective head, presenter's authority), first match. Raw keys resolve.
    ///
    /// # Errors
    /// `agent-unknown`.
    pub fn alias(
        &self,
        agent: &AgentId,
        stands: &[(Option<PublicKey>, Option<PublicKey>)],
        name: &str,
    ) -> Result<Option<ThreadId>, No> {
        let row = self.store.agent(agent)?.ok_or_else(|| Refusal::new(Code::AgentUnknown, "agent: not known here"))?;
        for stand in stands {
            if let Some(thread) = self.store.find_alias(row.row, *stand, name)? {
                return Ok(Some(thread));
            }
        }
        Ok(None)
    }
}
