//! Agents that stand behind HTTP: the witness is their client. Each has a link of its
//! own here, attached by us, so that everything a provider says comes in by one road.

use wikala_certs::{Moment, SignedConsent};

use crate::entry::Why;
use crate::ids::{RunId, ThreadId};
use crate::model::{AgentId, Dialect, Effect, LinkId, Registration, Status};
use crate::read::Reader;
use crate::refusal::{Code, No, Refusal};
use crate::store::runs::RunRow;
use crate::{UPSTREAM_RUNS, Witness};

/// An agent behind HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its address here.
    pub agent: AgentId,
    /// What it speaks: [`Dialect::A2a`] or [`Dialect::AgUi`].
    pub dialect: Dialect,
    /// Where it is.
    pub url: String,
    /// The witness made and holds the key in its name.
    pub custodial: bool,
    /// A file with headers to send to it.
    pub headers: Option<String>,
    /// Unix seconds.
    pub added_at: u64,
}

/// An agent behind HTTP, as the operator adds it.
#[derive(Debug)]
pub struct NewUpstream {
    /// Whose agent, under which name, where: with that provider's consent.
    pub consent: SignedConsent,
    /// What it speaks.
    pub dialect: Dialect,
    /// The witness made and holds the key.
    pub custodial: bool,
    /// A file with headers to send to it.
    pub headers: Option<String>,
}

/// What an upstream calls a thread and a run of ours, as far as it has said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamNames {
    /// The thread's.
    pub context: Option<String>,
    /// The run's.
    pub task: Option<String>,
}

impl Witness {
    /// Adds an agent behind HTTP.
    ///
    /// # Errors
    /// `carrier-taken`: a link serves that name, or it is an upstream agent already.
    pub fn add_upstream(&mut self, now: Moment, new: &NewUpstream) -> Result<AgentId, No> {
        let id = AgentId { provider: new.consent.provider(), name: new.consent.name().clone() };
        self.store.know_provider(id.provider, None)?;
        let registration = serde_json::json!({ "name": id.name.as_str() }).to_string();
        self.store.ensure_agent(&id, &registration)?;
        if !self.store.insert_upstream(new, now)? {
            return Err(taken(&id));
        }
        Ok(id)
    }

    /// Takes an agent behind HTTP away: it is offline from now on, its history stays.
    ///
    /// # Errors
    /// `agent-unknown`.
    pub fn remove_upstream(&mut self, now: Moment, id: &AgentId) -> Result<(), No> {
        let agent = self.known_agent(id)?;
        if !self.store.remove_upstream(id, now)? {
            let sentence = format!("agent: {} is no upstream agent, its provider dials in itself", id.name.as_str());
            return Err(Refusal::new(Code::AgentUnknown, sentence).into());
        }
        // What it was doing is over: whoever is added under this name later knows nothing of it.
        for run in self.store.held_at(id)? {
            self.end_run(now, &run, Status::Failed, Some(Why::Ours("agent_removed")), false)?;
            self.store.release(&run)?;
        }
        self.store.forget_names(id)?;
        if let Some(link) = agent.link {
            // Sent away, not lost: no grace, it is offline from now on.
            self.store.clear_roster(link, self.graceless(now))?;
            self.drop_link(now, link)?;
            self.outbox.push(Effect::Close { link, reason: "removed by the operator" });
        }
        Ok(())
    }

    /// Attaches our own link to an upstream agent. The runs it held before come along:
    /// whoever attached it goes on with them or says that they have failed.
    ///
    /// # Errors
    /// `agent-unknown`: it is no upstream agent (any more), or was added anew meanwhile.
    pub fn attach_upstream(
        &mut self,
        now: Moment,
        upstream: &Upstream,
        registration: &Registration,
    ) -> Result<(LinkId, Vec<RunId>), No> {
        let id = &upstream.agent;
        if let Some(old) = self.known_agent(id)?.link {
            // Added again before its earlier carrier had gone: one at a time.
            self.drop_link(now, old)?;
            self.outbox.push(Effect::Close { link: old, reason: "replaced: attached again" });
        }
        let Some(link) = self.store.carry(upstream, &registration.text, UPSTREAM_RUNS, now)? else {
            let sentence = format!("agent: {} is no upstream agent", id.name.as_str());
            return Err(Refusal::new(Code::AgentUnknown, sentence).into());
        };
        let mut held = Vec::new();
        for run in self.store.held_at(id)? {
            if !self.store.take_over(&run, link)? {
                continue;
            }
            if self.store.run(&run)?.is_some_and(|row| row.status == Status::Cancelling) {
                // Who was to ask may have been stopped before it did.
                self.outbox.push(Effect::AskToStop { link, run: run.clone() });
            }
            held.push(run);
        }
        self.store.retry_now(id.provider)?;
        self.offer_ready(now, id.provider)?;
        Ok((link, held))
    }

    /// Keeps what an upstream calls a thread and a run, with the event that says so.
    ///
    /// # Errors
    /// Only faults.
    pub fn name_upstream(&mut self, thread: &ThreadId, run: &RunId, names: &UpstreamNames) -> Result<(), No> {
        if let Some(context) = &names.context {
            self.store.name_thread(thread, context)?;
        }
        if let Some(task) = &names.task {
            self.store.name_run(run, task)?;
        }
        Ok(())
    }

    /// A run as it was handed to its agent, for a carrier that came back to it.
    ///
    /// # Errors
    /// Only faults.
    pub fn delivered(&self, run: &RunId) -> Result<crate::Delivery, No> {
        self.delivery(run)
    }
}

impl Reader {
    /// Every agent behind HTTP.
    ///
    /// # Errors
    /// Only faults.
    pub fn upstreams(&self) -> Result<Vec<Upstream>, No> {
        Ok(self.store.upstreams()?)
    }

    /// What an upstream calls a thread and a run of ours.
    ///
    /// # Errors
    /// Only faults.
    pub fn upstream_names(&self, thread: &ThreadId, run: &RunId) -> Result<UpstreamNames, No> {
        Ok(UpstreamNames { context: self.store.context_of(thread)?, task: self.store.task_of(run)? })
    }
}

impl Reader {
    /// What an upstream agent calls runs that a run of its refers to: those of the same thread
    /// or head, or nobody's. Any other names nothing there, or who knows an id could point the
    /// agent at another head's work.
    ///
    /// # Errors
    /// Only faults.
    pub fn upstream_tasks(&self, from: &RunId, runs: &[String]) -> Result<Vec<String>, No> {
        let Some(from) = self.store.run(from)? else { return Ok(Vec::new()) };
        let mut tasks = Vec::new();
        for id in runs.iter().filter_map(|text| RunId::parse(text)) {
            let near = |run: RunRow| {
                run.agent == from.agent && (run.thread == from.thread || run.head.is_none() || run.head == from.head)
            };
            if self.store.run(&id)?.is_some_and(near) {
                tasks.extend(self.store.task_of(&id)?);
            }
        }
        Ok(tasks)
    }
}

pub(crate) fn taken(id: &AgentId) -> No {
    let sentence = format!(
        "agent: {}/{} is served already, by a link or as an agent behind HTTP, take another name or end the other first",
        id.provider.fingerprint(),
        id.name.as_str()
    );
    Refusal::new(Code::CarrierTaken, sentence).into()
}
