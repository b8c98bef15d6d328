//! Segments, discovery and `onward`. Lineage is always recorded and grants
//! nothing; what a viewer is shown of it stops at segment boundaries.

use serde::Serialize;
use wikala_chain::PublicKey;

use crate::AgentId;
use crate::ids::{RunId, ThreadId};
use crate::read::Reader;
use crate::refusal::{Code, Fault, No, Refusal};
use crate::store::runs::RunRow;
use crate::store::threads::ThreadRow;

/// A thread in a tree, as one viewer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode {
    /// The thread.
    pub thread: ThreadId,
    /// Its agent.
    pub agent: AgentId,
    /// It is bound to a head.
    pub bound: bool,
    /// Its listed children, oldest first. What is not listed leaves no trace here.
    pub children: Vec<TreeNode>,
    /// The operator's view only: heads, openers and runs.
    pub operator: Option<OperatorView>,
}

/// What only the operator's tree shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorView {
    /// When it was made, unix seconds.
    pub created_at: u64,
    /// The head the thread is bound to.
    pub head: Option<PublicKey>,
    /// Who opened its first run.
    pub opener: Option<PublicKey>,
    /// Its runs: id, status, flags.
    pub runs: Vec<(RunId, crate::Status, Vec<String>)>,
}

/// Dispatches recorded here between a run's own dispatch and its end, each counted
/// once, in the first class that fits. It tells *that*, never *to whom*: 0 proves
/// that this key dispatched nothing here in that window; more than 0 proves nothing
/// about this run's content. Fresh keys are free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Onward {
    /// Under a chain that extends the one delivered to this run.
    pub under_chain: u64,
    /// Opened by the serving provider's key, or by a recorded delegate of it.
    pub by_provider_key: u64,
    /// Opened by nobody authenticated.
    pub anonymous: u64,
    /// Other runs with the identical delivered chain and an overlapping window.
    pub shared_with: u64,
    /// With `sharedWith` > 0 the counts are upper bounds.
    pub upper_bounds: bool,
    /// The runs counted that stand in the viewer's own segment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
}

/// How deep a tree is followed. Threads nest as agents delegate; a tree deeper than
/// this is a loop between agents, not a delegation.
const DEPTH: usize = 64;

impl Reader {
    /// The tree below a thread as `viewer` may see it: a child is listed iff the
    /// viewer is its head, its provider or its first opener, or parent and child
    /// are both unbound.
    ///
    /// # Errors
    /// `thread-unknown`.
    pub fn tree(&self, id: &ThreadId, viewer: Option<PublicKey>) -> Result<TreeNode, No> {
        let thread = self.readable_thread(id, viewer)?;
        Ok(self.node(&thread, &|parent, child| self.listed(parent, child, viewer), false, 0)?)
    }

    /// The operator's tree: everything. Never behind a public door.
    ///
    /// # Errors
    /// `thread-unknown`.
    pub fn operator_tree(&self, id: &ThreadId) -> Result<TreeNode, No> {
        let thread = self.store.thread(id)?.ok_or_else(|| unknown(id))?;
        Ok(self.node(&thread, &|_, _| Ok(true), true, 0)?)
    }

    /// Threads without a parent, oldest first: where an operator begins.
    ///
    /// # Errors
    /// Only faults.
    pub fn roots(&self) -> Result<Vec<ThreadId>, No> {
        Ok(self.store.roots()?)
    }

    fn node(
        &self,
        thread: &ThreadRow,
        listed: &dyn Fn(&ThreadRow, &ThreadRow) -> Result<bool, Fault>,
        operator: bool,
        depth: usize,
    ) -> Result<TreeNode, Fault> {
        let agent = self.store.agent_row(thread.agent)?.ok_or(Fault::Corrupt("thread.agent"))?;
        let mut children = Vec::new();
        if depth < DEPTH {
            for child in self.store.children(&thread.id)? {
                if listed(thread, &child)? {
                    children.push(self.node(&child, listed, operator, depth + 1)?);
                }
            }
        }
        let operator = if operator { Some(self.operator_view(thread)?) } else { None };
        Ok(TreeNode { thread: thread.id.clone(), agent: agent.id, bound: thread.head.is_some(), children, operator })
    }

    fn operator_view(&self, thread: &ThreadRow) -> Result<OperatorView, Fault> {
        let mut runs = Vec::new();
        for run in self.store.runs_of_thread(&thread.id)? {
            let flags = self.store.flags(&run.id)?;
            runs.push((run.id, run.status, flags));
        }
        Ok(OperatorView { created_at: thread.created_at, head: thread.head, opener: thread.opener, runs })
    }

    fn listed(&self, parent: &ThreadRow, child: &ThreadRow, viewer: Option<PublicKey>) -> Result<bool, Fault> {
        if parent.head.is_none() && child.head.is_none() {
            return Ok(true);
        }
        self.is_party_of(child, viewer)
    }

    /// Head, provider or first opener of a thread.
    pub(crate) fn is_party_of(&self, thread: &ThreadRow, viewer: Option<PublicKey>) -> Result<bool, Fault> {
        let Some(viewer) = viewer else { return Ok(false) };
        let provider = self.store.agent_row(thread.agent)?.map(|agent| agent.id.provider);
        for key in [thread.head, provider, thread.opener].into_iter().flatten() {
            if key == viewer || self.store.resolve(key)? == viewer {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `onward` of a run that has ended; `None` before.
    pub(crate) fn onward(&self, run: &RunRow, viewer: Option<PublicKey>) -> Result<Option<Onward>, Fault> {
        let Some(ended) = run.ended else { return Ok(None) };
        let agent = self.store.agent_row(run.agent)?.ok_or(Fault::Corrupt("run.agent"))?;
        let provider = self.store.resolve(agent.id.provider)?;
        let mut onward = Onward {
            under_chain: 0,
            by_provider_key: 0,
            anonymous: 0,
            shared_with: 0,
            upper_bounds: false,
            runs: Vec::new(),
        };
        for dispatch in self.store.dispatches_between(run.opened, ended, run.delivered_tip)? {
            let by_provider = match dispatch.opener {
                Some(key) => key == agent.id.provider || self.store.resolve(key)? == provider,
                None => false,
            };
            if dispatch.under_chain {
                onward.under_chain += 1;
            } else if by_provider {
                onward.by_provider_key += 1;
            } else if dispatch.opener.is_none() {
                onward.anonymous += 1;
            } else {
                continue;
            }
            if let Some(thread) = self.store.thread(&dispatch.thread)?
                && self.is_party_of(&thread, viewer)?
            {
                onward.runs.push(dispatch.run.to_string());
            }
        }
        if let Some(tip) = run.delivered_tip {
            onward.shared_with = self.store.shared_with(&run.id, tip, run.opened, ended)?;
            onward.upper_bounds = onward.shared_with > 0;
        }
        Ok(Some(onward))
    }

    /// The thread, if this viewer may read it; else it is as unknown as any id.
    pub(crate) fn readable_thread(&self, id: &ThreadId, viewer: Option<PublicKey>) -> Result<ThreadRow, No> {
        let thread = self.store.thread(id)?.ok_or_else(|| unknown(id))?;
        if self.policy.reads == crate::ReadPolicy::Parties && thread.head.is_some() {
            let actor = match viewer {
                Some(key) => self.is_party_of(&thread, viewer)? || self.is_birth_actor(id, key)?,
                None => false,
            };
            if !actor {
                return Err(unknown(id));
            }
        }
        Ok(thread)
    }

    fn is_birth_actor(&self, id: &ThreadId, viewer: PublicKey) -> Result<bool, Fault> {
        for key in self.store.actors(id)? {
            if key == viewer || self.store.resolve(key)? == viewer {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn unknown(id: &ThreadId) -> No {
    Refusal::new(Code::ThreadUnknown, format!("thread: {id} is not known here")).into()
}
