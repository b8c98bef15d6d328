//! Obligations: answers that are owed. One accepted request demands an answer from exactly
//! one party, and the record tracks whether that answer was durably recognised.
//!
//! The parties are those of the thread's authority set: the head asks, the provider answers;
//! or, where the provider stops to ask, the other way round.
//! Delivery is custody and no more: that a message arrived, was taken or was read never
//! means that anybody owns what it asks. Only signed acts do that, each fenced by the
//! revision its signer saw, and only a typed response closes.
//!
//! | room | what it decides |
//! |---|---|
//! | `moves` | which state follows which event |
//! | `owe` | a request that demands an answer |
//! | `ask` | a question that demands one: the provider asks, the head owes |
//! | `entitlement` | what the operator denies |
//! | `deeds` | accept, decline, progress, cancel |
//! | `respond` | the typed response |
//! | `response` | its exact bytes |
//! | `facts` | what is known of the delivery, and what follows from it |
//! | `ledger` | the transitions as a chain of digests |
//! | `look` | what a party may read |

mod ask;
mod deeds;
mod entitlement;
mod facts;
pub mod ledger;
mod look;
mod moves;
mod owe;
mod respond;
pub mod response;

use std::fmt;

use wikala_certs::SignedDeed;
use wikala_chain::{Digest, PublicKey};

use crate::ids::{EventId, RunId, ThreadId};
use crate::model::Consented;

pub(crate) use ask::AnsweredBy;
pub use entitlement::{Denied, Entitlement};
pub use facts::{MailboxAck, Reconciled};
pub use ledger::LedgerEntry;
pub use look::{AckView, Inbox, ListFilter, ObligationView, Role};
pub use moves::{Event as Move, State, next};
pub(crate) use owe::{Made, owed};

/// An obligation's id: `ob_` and the first 32 hex digits of
/// SHA-256(`wikala-obligation-id:{request_event_id}:{responsible_key}`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObligationId(String);

impl ObligationId {
    /// The id of what this key owes for that request.
    #[must_use]
    pub fn of(event: &str, responsible: &PublicKey) -> Self {
        let digest = Digest::of(format!("wikala-obligation-id:{event}:{responsible}").as_bytes()).to_hex();
        ObligationId(format!("ob_{}", &digest[..32]))
    }

    /// Reads an id of our form; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let tail = text.strip_prefix("ob_")?;
        let ours = tail.len() == 32 && tail.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        ours.then(|| ObligationId(text.to_owned()))
    }

    /// The id as it stands on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObligationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A schema that the response must fit: its id, and its canonical text, past the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemandedSchema {
    /// The requester's name for it.
    pub id: String,
    /// Canonical JSON (RFC 8785).
    pub text: String,
}

/// What an accepted request demands, verified off the desk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owing {
    /// The author's `wikala-obligation-create`, verified for `payload` and the thread.
    pub deed: SignedDeed,
    /// A message's own id, as its author gave it.
    pub message_id: String,
    /// The same request sent again has the same key and the same bytes.
    pub idempotency_key: String,
    /// The exact request, canonical JSON.
    pub payload: String,
    /// Who is to answer, if it was named.
    pub responsible: Option<PublicKey>,
    /// Until when, Unix seconds.
    pub deadline_at: Option<u64>,
    /// What the answer must fit.
    pub schema: Option<DemandedSchema>,
    /// The witness may expire it by itself.
    pub auto_expire: bool,
}

/// A request's obligation as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// Its id.
    pub id: ObligationId,
    /// The event it is bound to.
    pub event: EventId,
    /// SHA-256 of the exact request.
    pub request: Digest,
    /// Where it stands.
    pub state: State,
    /// How many moves it made, from 1.
    pub revision: u64,
    /// It was there before.
    pub duplicate: bool,
}

/// What is owed by a run, as its agent is told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demanded {
    /// What the response must repeat.
    pub owed: Owed,
    /// The exact request, canonical JSON; its `obligation` is the spec.
    pub payload: String,
}

/// A signed act on an obligation.
#[derive(Debug)]
pub struct Act {
    /// Which one.
    pub id: ObligationId,
    /// Verified for it.
    pub deed: SignedDeed,
    /// A certificate beside it.
    pub certificate: Option<Consented>,
}

/// A typed response.
#[derive(Debug)]
pub struct Response {
    /// The signed act: obligation, event, request and response digest.
    pub act: Act,
    /// It could be done.
    pub completed: bool,
    /// The exact response, canonical JSON, whose digest was signed.
    pub payload: String,
    /// The same response sent again has the same key.
    pub idempotency_key: String,
    /// The thread it was sent in, where one was named.
    pub thread: Option<ThreadId>,
    /// Which schema it says it fits.
    pub schema_id: Option<String>,
    /// The stored schema it was checked against, off the desk, and what came of it. `None`:
    /// it has no structured part.
    pub checked: Option<(Digest, Result<(), crate::schema::Violation>)>,
}

/// What became of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Which obligation.
    pub id: ObligationId,
    /// Where it stands after it.
    pub state: State,
    /// The revision it made.
    pub revision: u64,
    /// The same act came before; nothing changed.
    pub replayed: bool,
}

/// A request's delivery to one recipient, weakest first. What is known never falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryFact {
    /// On record, for the recipient.
    Queued,
    /// Read back from the record by another connection, the same bytes.
    Delivered,
    /// Offered on a live link.
    Dispatched,
    /// Taken: the offer was accepted, or the recipient acknowledged its custody.
    Committed,
    /// The recipient began on it.
    Read,
}

impl DeliveryFact {
    /// All of them, weakest first.
    pub const ALL: [DeliveryFact; 5] = [
        DeliveryFact::Queued,
        DeliveryFact::Delivered,
        DeliveryFact::Dispatched,
        DeliveryFact::Committed,
        DeliveryFact::Read,
    ];

    /// Its name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryFact::Queued => "queued",
            DeliveryFact::Delivered => "delivered",
            DeliveryFact::Dispatched => "dispatched",
            DeliveryFact::Committed => "committed",
            DeliveryFact::Read => "read",
        }
    }
}

/// An obligation as its row has it.
#[derive(Debug, Clone)]
pub(crate) struct ObligationRow {
    pub(crate) id: ObligationId,
    pub(crate) thread: ThreadId,
    pub(crate) run: RunId,
    /// The pause and the question that ask for it; `None`: the run's request does.
    pub(crate) ask: Option<(u64, String)>,
    pub(crate) event: EventId,
    pub(crate) message_id: String,
    pub(crate) request: Digest,
    pub(crate) requester: PublicKey,
    pub(crate) author: PublicKey,
    pub(crate) responsible: PublicKey,
    /// The two as they resolve through the record now: a key that was bound as it is may act
    /// for somebody since, whose these rights are then.
    pub(crate) requester_now: PublicKey,
    pub(crate) responsible_now: PublicKey,
    pub(crate) dispatch: Option<Digest>,
    pub(crate) schema_id: Option<String>,
    pub(crate) schema: Option<Digest>,
    pub(crate) deadline_at: Option<u64>,
    pub(crate) auto_expire: bool,
    pub(crate) created_at: u64,
    pub(crate) state: State,
    pub(crate) reason: String,
    pub(crate) revision: u64,
    pub(crate) resume_to: Option<State>,
    pub(crate) response_event: Option<EventId>,
    pub(crate) response: Option<Digest>,
    pub(crate) closed_at: Option<u64>,
}
