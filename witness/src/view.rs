//! How the record is shown: plain values, read in one moment.

use wikala_chain::{Digest, PublicKey};

use crate::entry::Recorded;
use crate::ids::{RunId, ThreadId};
use crate::lineage::Onward;
use crate::model::{AgentId, Dialect, ItemKind, Leg, Status};
use crate::store::agents::Counters;

/// A run as it may be shown.
#[derive(Debug, Clone)]
pub struct RunView {
    /// What it was opened to answer, as it stands.
    pub owed: Option<crate::obligation::Owed>,
    /// Its id.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// What its caller calls the thread, where that is another name.
    pub client_thread: Option<String>,
    /// Its agent.
    pub agent: AgentId,
    /// The witness made and holds the agent's key.
    pub custodial: bool,
    /// Where it stands.
    pub status: Status,
    /// Why it failed or was cancelled.
    pub reason: Option<String>,
    /// The reason is the provider's, in its own words.
    pub reason_by_provider: bool,
    /// The effective head it was opened under.
    pub head: Option<PublicKey>,
    /// The authenticated key that opened it; `None`: anonymous.
    pub opener: Option<PublicKey>,
    /// The chain delivered, JSON text.
    pub chain: Option<String>,
    /// The client's own id for it.
    pub client_run: Option<String>,
    /// The viewer stands in its segment, or there is none: ids of other runs that its
    /// words name may be told.
    pub insider: bool,
    /// What a reader should know.
    pub flags: Vec<String>,
    /// Its asks, oldest first.
    pub asks: Vec<AskView>,
    /// Who asked it to stop.
    pub cancel_requested_by: Vec<CancelView>,
    /// Dispatches in its window, once it ended.
    pub onward: Option<Onward>,
    /// The authorities that may answer and stop it; empty: whoever knows the id.
    pub authorities: Vec<PublicKey>,
    /// Its times.
    pub times: Times,
}

/// The times of a run, unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Opened.
    pub created_at: u64,
    /// First taken by its provider.
    pub started_at: Option<u64>,
    /// The last change of its status.
    pub changed_at: u64,
    /// Ended.
    pub ended_at: Option<u64>,
}

/// An ask as it may be shown.
#[derive(Debug, Clone)]
pub struct AskView {
    /// Which pause, from 1.
    pub ordinal: u64,
    /// Its items.
    pub items: Vec<AskItemView>,
    /// Who may answer; empty: whoever knows the run's id.
    pub authorities: Vec<PublicKey>,
    /// Unix seconds.
    pub opened_at: u64,
    /// Unix seconds; `None`: open.
    pub closed_at: Option<u64>,
    /// `answered`, `by-provider`, `cancelled` or `failed`.
    pub closed_as: Option<String>,
    /// Under whose authority it was closed.
    pub answered_by: Option<PublicKey>,
    /// With which key.
    pub answered_with: Option<PublicKey>,
    /// sha256 of the answer bytes.
    pub answer_digest: Option<Digest>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskItemView {
    /// Its id.
    pub id: String,
    /// What kind.
    pub kind: ItemKind,
    /// The question as received, JSON text.
    pub question: String,
    /// Is the schema it demands enforced? `enforced`, or why not; `None`: it demands none.
    pub schema: Option<String>,
    /// The answer that is owed to it, as it stands.
    pub owed: Option<crate::obligation::Owed>,
}

/// A request to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelView {
    /// Unix seconds.
    pub at: u64,
    /// Under whose authority; `None` where nobody needed to be asked.
    pub authority: Option<PublicKey>,
    /// With which key.
    pub signer: Option<PublicKey>,
}

/// A thread as it may be shown.
#[derive(Debug, Clone)]
pub struct ThreadView {
    /// Its id.
    pub thread: ThreadId,
    /// Its agent.
    pub agent: AgentId,
    /// The head it is bound to.
    pub head: Option<PublicKey>,
    /// Unix seconds.
    pub created_at: u64,
    /// It has had its first run: bound or unbound for ever.
    pub born: bool,
    /// Its runs, in the order opened.
    pub runs: Vec<(RunId, Status)>,
}

/// An agent on the roster.
#[derive(Debug, Clone)]
pub struct AgentView {
    /// Its address.
    pub id: AgentId,
    /// Served now, or lost only within the grace.
    pub online: bool,
    /// As registered, JSON text.
    pub registration: String,
    /// Its provider's counters.
    pub counters: Counters,
    /// It stands behind HTTP and speaks that; `None`: its provider dials in.
    pub upstream: Option<Dialect>,
    /// The witness made and holds its provider's key.
    pub custodial: bool,
}

/// One run of a thread with everything said in it.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: Status,
    /// What the callers said, leg by leg.
    pub legs: Vec<Leg>,
    /// What the provider and the witness said.
    pub entries: Vec<Recorded>,
}

/// Which runs of an agent to list.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only this thread.
    pub thread: Option<ThreadId>,
    /// Only these statuses; empty: all.
    pub statuses: Vec<Status>,
    /// Only changed at or after, unix seconds.
    pub since: Option<u64>,
    /// Where the last page ended.
    pub cursor: Option<(u64, RunId)>,
    /// At most so many.
    pub limit: usize,
}

/// A page of runs.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The runs, newest change first.
    pub runs: Vec<RunId>,
    /// Where the next page begins.
    pub next: Option<(u64, RunId)>,
    /// How many match in all.
    pub total: usize,
}
