//! Saying no. A [`Refusal`] is our answer to someone; a [`Fault`] is our own
//! failure. They are different types, so no door can confuse them.

use std::fmt;

use wikala_certs::{ActError, CertError, PresenterError};
use wikala_chain::PublicKey;

use crate::moment_text;
use crate::obligation::State;

/// One list makes the codes, their words on the wire and [`Code::ALL`], so that
/// none of the three can forget what another has.
macro_rules! codes {
    ($($name:ident = $text:literal,)+) => {
        /// The stable codes of the witness (wire.md, Refusals). Sentences may improve;
        /// these never change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // each name is its own code in kebab-case
        pub enum Code {
            $($name,)+
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Code] = &[$(Code::$name,)+];

            /// The code as it goes over the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    PresenterRequired = "presenter-required",
    PresenterMismatch = "presenter-mismatch",
    PresenterSpent = "presenter-spent",
    PresenterProof = "presenter-proof",
    ActRequired = "act-required",
    ActStale = "act-stale",
    ActSpent = "act-spent",
    CertificateExpired = "certificate-expired",
    CertificateRevoked = "certificate-revoked",
    CertificateNotSigner = "certificate-not-signer",
    CertificateNotAccepted = "certificate-not-accepted",
    DelegateRebound = "delegate-rebound",
    CarrierTaken = "carrier-taken",
    NotAnAuthority = "not-an-authority",
    NotAMember = "not-a-member",
    AgentUnknown = "agent-unknown",
    ThreadUnknown = "thread-unknown",
    RunUnknown = "run-unknown",
    AlreadyAnswered = "already-answered",
    RunEnded = "run-ended",
    RunIdReused = "run-id-reused",
    AnswerForm = "answer-form",
    AnswerTheRun = "answer-the-run",
    EntitlementDenied = "entitlement-denied",
    AnswerIncomplete = "answer-incomplete",
    AnswerUnknownAsk = "answer-unknown-ask",
    AnswerDuplicate = "answer-duplicate",
    AnswerSchema = "answer-schema",
    RunInput = "run-input",
    NoOpenAsk = "no-open-ask",
    FingerprintAmbiguous = "fingerprint-ambiguous",
    QueueFull = "queue-full",
    AgentOffline = "agent-offline",
    ChainTooLong = "chain-too-long",
    RegistrationMalformed = "registration-malformed",
    ObligationRequiresBoundThread = "obligation-requires-bound-thread",
    RequesterNotAuthor = "requester-not-author",
    ResponsibleNotRecipient = "responsible-not-recipient",
    SelfObligation = "self-obligation",
    DeadlineNotFuture = "deadline-not-future",
    IdempotencyConflict = "idempotency-conflict",
    MessageIdReused = "message-id-reused",
    ObligationUnavailable = "obligation-unavailable",
    ExactResponsibleRequired = "exact-responsible-required",
    ExactRequesterRequired = "exact-requester-required",
    RevisionConflict = "revision-conflict",
    IllegalTransition = "illegal-transition",
    StateNotAssertable = "state-not-assertable",
    DeclineAfterAcceptance = "decline-after-acceptance",
    DeliveryFactMissing = "delivery-fact-missing",
    ResponseBindingMismatch = "response-binding-mismatch",
    ResponseSchemaIdRequired = "response-schema-id-required",
    ResponseSchemaViolation = "response-schema-violation",
    ResponseTooCostly = "response-too-costly",
    ObligationTerminal = "obligation-terminal",
    ResponseConflict = "response-conflict",
    EnvelopeDigestMismatch = "envelope-digest-mismatch",
}

/// Who closed an ask before the caller did, told to the loser of the race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Winner {
    /// The authority under which the ask was closed; `None` for an open ask
    /// answered without a signature.
    pub authority: Option<PublicKey>,
    /// Unix seconds.
    pub at_s: u64,
}

/// What a refusal says beside its sentence, for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beside {
    /// With `already-answered`: who was first, and when.
    Winner(Winner),
    /// Where an obligation stands that did not move.
    Stands {
        /// Its state.
        state: State,
        /// Its revision.
        revision: u64,
    },
}

/// Our answer to someone: a stable code and one sentence with a way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What clients compare.
    pub code: Code,
    /// *place: fact, expectation*.
    pub sentence: String,
    /// What else there is to say.
    pub beside: Option<Beside>,
}

impl Refusal {
    /// A refusal with its sentence.
    pub fn new(code: Code, sentence: impl Into<String>) -> Self {
        Refusal { code, sentence: sentence.into(), beside: None }
    }

    pub(crate) fn already_answered(winner: Winner) -> Self {
        let who = winner.authority.map_or_else(|| "somebody".to_owned(), |key| key.fingerprint().to_string());
        Refusal {
            code: Code::AlreadyAnswered,
            sentence: format!(
                "answer: {who} answered this ask at {}, read the run for what follows",
                moment_text(winner.at_s)
            ),
            beside: Some(Beside::Winner(winner)),
        }
    }

    /// Who was first, with `already-answered`.
    #[must_use]
    pub fn winner(&self) -> Option<&Winner> {
        match &self.beside {
            Some(Beside::Winner(winner)) => Some(winner),
            _ => None,
        }
    }

    /// An obligation that did not move, and where it stands.
    pub(crate) fn stands(code: Code, sentence: impl Into<String>, state: State, revision: u64) -> Self {
        Refusal { code, sentence: sentence.into(), beside: Some(Beside::Stands { state, revision }) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.sentence, self.code.as_str())
    }
}

/// Our own failure. Nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The database said no: disk full, corruption, a lock never released.
    #[error("record: {0}")]
    Database(#[from] rusqlite::Error),
    /// A row that our own code wrote does not parse.
    #[error("record: {0} does not read back")]
    Corrupt(&'static str),
}

/// Either kind of no.
#[derive(Debug, thiserror::Error)]
pub enum No {
    /// Our answer to someone.
    #[error("{0}")]
    Refusal(Box<Refusal>),
    /// Our own failure.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        No::Refusal(Box::new(refusal))
    }
}

impl From<rusqlite::Error> for No {
    fn from(error: rusqlite::Error) -> Self {
        No::Fault(Fault::Database(error))
    }
}

impl From<CertError> for No {
    fn from(error: CertError) -> Self {
        let code = match error.code() {
            "certificate-not-signer" => Code::CertificateNotSigner,
            "certificate-not-accepted" => Code::CertificateNotAccepted,
            _ => Code::CertificateExpired,
        };
        Refusal::new(code, error.to_string()).into()
    }
}

impl From<ActError> for No {
    fn from(error: ActError) -> Self {
        let code = if error.code() == "act-stale" { Code::ActStale } else { Code::NotAnAuthority };
        Refusal::new(code, error.to_string()).into()
    }
}

impl From<PresenterError> for No {
    fn from(error: PresenterError) -> Self {
        Refusal::new(Code::PresenterProof, error.to_string()).into()
    }
}

impl From<Fault> for OpenFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Database(error) => OpenFault::Database(error),
            Fault::Corrupt(_) => OpenFault::Database(rusqlite::Error::InvalidQuery),
        }
    }
}

/// Why the file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenFault {
    /// The file cannot be read or written.
    #[error("record: {0}")]
    Database(#[from] rusqlite::Error),
    /// The file was written by another version of this program.
    #[error(
        "record: the file is at version {found}, this build knows {known}: run the newer build, or restore a backup"
    )]
    Version {
        /// `user_version` of the file.
        found: i64,
        /// The newest version this build writes.
        known: i64,
    },
    /// The file belongs to a witness with another key.
    #[error("record: the file belongs to witness {found}, the key given is {given}: start with the key that made it")]
    OtherWitness {
        /// Fingerprint on record.
        found: String,
        /// Fingerprint of the key given.
        given: String,
    },
}
