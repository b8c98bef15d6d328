//! The nouns: what comes in, what is kept, what goes out. No protocol is named
//! here; a [`Dialect`] is a tag on bytes that only the doors read.

use std::sync::Arc;

use wikala_certs::{Cancel, Resolve, SignedAct, SignedCertificate, SignedPresenter};
use wikala_chain::{AgentName, Digest, PublicKey, VerifiedChain};

use crate::entry::Recorded;
use crate::ids::{RunId, ThreadId};
use crate::obligation::Owing;

/// An agent's address: the key that serves it, and its name there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentId {
    /// The provider's key.
    pub provider: PublicKey,
    /// The agent's name under that key.
    pub name: AgentName,
}

/// In whose language words are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// A2A 1.0 JSON.
    A2a,
    /// AG-UI 1.0 JSON.
    AgUi,
    /// A plain answer on our own route.
    Plain,
}

impl Dialect {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Dialect::A2a => "a2a",
            Dialect::AgUi => "agui",
            Dialect::Plain => "plain",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Dialect::A2a, Dialect::AgUi, Dialect::Plain].into_iter().find(|d| d.as_str() == text)
    }
}

/// Somebody's words: bytes as received, never re-serialised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Who can read them.
    pub dialect: Dialect,
    /// JSON text.
    pub text: Arc<str>,
}

/// What a request proved, every signature verified, the clock not yet asked.
#[derive(Debug, Default)]
pub struct Caller {
    /// The chain, if one came along.
    pub chain: Option<VerifiedChain>,
    /// The session certificate, if one came along.
    pub certificate: Option<Consented>,
    /// Who stands at the door, if that was proved.
    pub presenter: Presenting,
}

/// A certificate with what its delegate consented to *in this request*.
#[derive(Debug, Clone)]
pub struct Consented {
    /// The certificate; its authority's signature holds.
    pub certificate: SignedCertificate,
    /// The delegate signed this very request body (RFC 9421). The certificate's
    /// own `acceptance` counts besides.
    pub by_request: bool,
}

/// How the presenter was proved.
#[derive(Debug, Default)]
pub enum Presenting {
    /// Not at all.
    #[default]
    Nobody,
    /// By a signature made for this request; spent when it is used.
    Signed(SignedPresenter),
    /// By a gateway that the operator trusts.
    Vouched(PublicKey),
}

impl Presenting {
    /// The key that was proved, if one was.
    #[must_use]
    pub fn signer(&self) -> Option<PublicKey> {
        match self {
            Presenting::Nobody => None,
            Presenting::Signed(proof) => Some(proof.signer()),
            Presenting::Vouched(key) => Some(*key),
        }
    }
}

/// Where an utterance wants to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A new thread.
    New,
    /// A thread of ours; unknown is refused.
    Thread(ThreadId),
    /// A name the client chose; private to (agent, head, presenter).
    Alias(String),
}

/// Ids the caller named. They build lineage and grant nothing.
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    /// The first reference to an earlier run.
    pub reference: Option<String>,
    /// The run that spawned this one.
    pub parent_run: Option<String>,
}

/// Something said to an agent: opens a run.
#[derive(Debug)]
pub struct Utterance {
    /// To whom.
    pub agent: AgentId,
    /// Where.
    pub place: Place,
    /// By whom.
    pub caller: Caller,
    /// What, as received.
    pub words: Words,
    /// The protocol extensions it is said under, URIs: its agent is told them.
    pub extensions: Vec<String>,
    /// Which earlier runs it names.
    pub lineage: Lineage,
    /// Vouchers to relay, JSON text.
    pub vouchers: Option<String>,
    /// An interjection names the live run it wants to join.
    pub addressed: Option<String>,
    /// The client's own run id and the digest of its body, for joining again.
    pub client_run: Option<(String, Digest)>,
    /// The answer it demands.
    pub owing: Option<crate::obligation::Owing>,
}

/// One item of an ask, as answered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReplyItem {
    /// The interrupt's or the call's id.
    pub id: String,
    /// Which of the two.
    pub kind: ItemKind,
    /// The human abandoned the question instead of answering it.
    pub abandoned: bool,
    /// JSON text; absent when abandoned.
    pub payload: Option<String>,
}

/// What kind of question an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ItemKind {
    /// The agent stopped and asked.
    Interrupt,
    /// The agent announced a call and left its result to the caller.
    Call,
}

/// The content of an answer.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// Items named by id.
    pub items: Vec<ReplyItem>,
    /// The answer read as the value of a single open item, JSON text.
    pub single: Option<String>,
}

/// Which lane an answer came through. All lanes are gated alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// A message that names the waiting run.
    Message,
    /// Resume entries.
    Resume,
    /// Results of deferred calls, in a resent history.
    CallResult,
    /// Our own answer route, the only one a `wikala-answer` binds.
    Direct,
}

/// An answer to a paused run.
#[derive(Debug)]
pub struct Answer {
    /// The agent at whose door it came in; `None` on our own route.
    pub agent: Option<AgentId>,
    /// The paused run.
    pub run: RunId,
    /// The lane.
    pub lane: Lane,
    /// The content.
    pub reply: Reply,
    /// sha256 of the answer bytes (record.md, Asks: which bytes those are).
    pub digest: Digest,
    /// The right to answer, verified for the key it names and for `run`.
    pub act: Option<SignedAct<Resolve>>,
    /// A certificate beside the act.
    pub certificate: Option<Consented>,
    /// Who stands at the door; only a no-op for an ask closed elsewhere needs it.
    pub caller: Caller,
    /// The caller's words, delivered with the continuation.
    pub words: Words,
    /// The protocol extensions they are said under, URIs.
    pub extensions: Vec<String>,
}

/// A request to stop a run.
#[derive(Debug)]
pub struct Stop {
    /// The agent at whose door it came in; `None` on our own route.
    pub agent: Option<AgentId>,
    /// The run.
    pub run: RunId,
    /// The right to stop it.
    pub act: Option<SignedAct<Cancel>>,
    /// A certificate beside the act.
    pub certificate: Option<Consented>,
}

/// Where a run stands (record.md, Runs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each name is its own status in kebab-case
pub enum Status {
    Queued,
    Offering,
    Running,
    InputRequired,
    Cancelling,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// The status as stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Offering => "offering",
            Status::Running => "running",
            Status::InputRequired => "input-required",
            Status::Cancelling => "cancelling",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Reads what [`Status::as_str`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        use Status::{Cancelled, Cancelling, Completed, Failed, InputRequired, Offering, Queued, Running};
        [Queued, Offering, Running, InputRequired, Cancelling, Completed, Failed, Cancelled]
            .into_iter()
            .find(|s| s.as_str() == text)
    }

    /// No move leads out of it.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }
}

/// A question a provider asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its id; `None` where the protocol has none (the witness gives one).
    pub id: Option<String>,
    /// The announced call it is about: that call is not asked a second time.
    pub call: Option<String>,
    /// The question, JSON text as received.
    pub text: String,
    /// An answer is owed to it, as its provider signed; or why none is.
    pub owing: Option<Result<Box<Owing>, NotOwed>>,
}

/// Why a question that wants to be owed an answer is owed none. It is asked all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOwed {
    /// The refusal's stable code.
    pub code: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// The little the witness decides on, read out of a provider's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The run (or its continuation) began.
    Started,
    /// A call whose result may be left to the caller.
    CallOpened(String),
    /// A call's result, given by the provider itself.
    CallAnswered(String),
    /// The provider's last word on this leg.
    Ended {
        /// Questions it stopped for.
        questions: Vec<Question>,
        /// Calls it declares unanswered; `None`: the witness counts for itself.
        pending: Option<Vec<String>>,
        /// It says it was cancelled.
        cancelled: bool,
    },
    /// The provider failed, in its own words.
    Failed(String),
    /// Anything else: relayed, decides nothing.
    Said,
}

/// A live link of a provider. Serial numbers, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkId(pub i64);

/// An agent as its provider registers it.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Its name.
    pub name: AgentName,
    /// It takes interjections into a live turn.
    pub interjections: bool,
    /// The registration as received, JSON text.
    pub text: String,
}

/// A provider's verdict on an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It took the run.
    Accepted,
    /// Full now; ask again later.
    Declined,
    /// Refused for good, with the reason.
    Refused(String),
}

/// One turn of a run as delivered: the caller's words, and an answer if the
/// turn continues a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// 0 for the opening, then one more with each answer.
    pub ordinal: u64,
    /// The caller's words.
    pub words: Words,
    /// The protocol extensions they are said under, URIs.
    pub extensions: Vec<String>,
    /// The items answered.
    pub reply: Option<Vec<ReplyItem>>,
}

/// A run as it is handed to its agent: stored == delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// What it is to answer, where an answer is owed.
    pub owed: Option<crate::obligation::Demanded>,
    /// The run.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// The agent.
    pub agent: AgentId,
    /// The turn.
    pub leg: Leg,
    /// The caller's hops and ours, JSON text; `None` for a run without a chain.
    pub chain: Option<String>,
    /// The certificate, JSON text as received.
    pub delegation: Option<String>,
    /// Vouchers, JSON text as received.
    pub vouchers: Option<String>,
    /// The live run an interjection joins.
    pub addressed: Option<String>,
    /// The run the caller says spawned this one.
    pub parent_run: Option<String>,
}

/// What is to be done once the transaction is committed, and never before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Offer a run over a link.
    Offer {
        /// The link.
        link: LinkId,
        /// The run.
        delivery: Box<Delivery>,
    },
    /// Ask the provider to stop a run.
    AskToStop {
        /// The link.
        link: LinkId,
        /// The run.
        run: RunId,
    },
    /// Tell the run's subscribers.
    Tell {
        /// The run.
        run: RunId,
        /// The new entry.
        recorded: Recorded,
    },
    /// Something that a party's counters count has changed.
    Wake {
        /// The party.
        party: PublicKey,
    },
    /// Close a link: replaced by a newer one, or withdrawn.
    Close {
        /// The link.
        link: LinkId,
        /// Why.
        reason: &'static str,
    },
}
