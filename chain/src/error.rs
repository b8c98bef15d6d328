//! Why a chain was refused: a stable code, the hop, and a sentence that may improve.

use crate::digest::Fingerprint;
use crate::{MAX_HOP_BYTES, MAX_HOPS};

/// A refused chain: what is wrong, and at which hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainError {
    hop: Option<usize>,
    flaw: Flaw,
}

impl ChainError {
    pub(crate) fn list(flaw: Flaw) -> Self {
        ChainError { hop: None, flaw }
    }

    pub(crate) fn at(hop: usize, flaw: Flaw) -> Self {
        ChainError { hop: Some(hop), flaw }
    }

    /// The stable code clients and vectors compare, for instance `hop-broken-link`.
    pub fn code(&self) -> &'static str {
        self.flaw.code().as_str()
    }

    /// The hop that was refused, counted from 0; `None` when it is the list itself.
    pub fn hop(&self) -> Option<usize> {
        self.hop
    }
}

impl std::fmt::Display for ChainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.hop {
            Some(hop) => write!(f, "hop {hop}: {}", self.flaw),
            None => write!(f, "chain: {}", self.flaw),
        }
    }
}

impl std::error::Error for ChainError {}

/// The flaws in the order they are looked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    #[error("not a list, an array of tokens expected")]
    NotAList,
    #[error("empty, leave it out or send at least one hop")]
    Empty,
    #[error("too long, at most {MAX_HOPS} hops are read")]
    TooLong,
    #[error("not a string, a compact JWS expected")]
    NotAString,
    #[error("{0} bytes, at most {MAX_HOP_BYTES} are read")]
    TooLarge(usize),
    #[error("{0} segments, a compact JWS has three")]
    NotJws(usize),
    #[error("{0} is not canonical base64url without padding")]
    Base64(&'static str),
    #[error("header is not {{\"alg\":\"EdDSA\"}} with an optional \"typ\":\"JWT\" and nothing else")]
    Header,
    #[error("claims are not one JSON object ({0})")]
    Json(String),
    #[error("claim {0:?} is there twice")]
    DuplicateKey(String),
    #[error("{0}")]
    Claims(String),
    #[error("registered claim {0:?}, a hop carries keys and no time")]
    RegisteredClaim(&'static str),
    #[error("actorPublicKey is not a canonical Ed25519 key, 64 lower-case hex digits expected")]
    Key,
    #[error("actorPublicKey is a weak point, a key of prime order expected")]
    WeakKey,
    #[error("signature does not verify under {0}, the key the hop itself names")]
    Signature(Fingerprint),
    #[error("prevHash is not null, nothing comes before the first hop")]
    NotFirst,
    #[error("prevHash does not match hop {0}")]
    BrokenLink(usize),
    #[error("{0} signed the dispatch before it and is not its target, so it may only dispatch again")]
    WitnessAsParty(Fingerprint),
    #[error("signed by {signer}, the hop before it dispatched to {target}")]
    WrongSuccessor { signer: Fingerprint, target: Fingerprint },
}

/// One list makes the codes, their words on the wire and [`ChainError::CODES`]; a
/// flaw has one of these and no other.
macro_rules! codes {
    ($($name:ident = $text:literal,)+) => {
        #[derive(Debug, Clone, Copy)]
        enum Code {
            $($name,)+
        }

        impl Code {
            fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)+
                }
            }
        }

        impl ChainError {
            /// Every code there is.
            pub const CODES: &[&'static str] = &[$($text,)+];
        }
    };
}

codes! {
    ChainNotAList = "chain-not-a-list",
    ChainEmpty = "chain-empty",
    ChainTooLong = "chain-too-long",
    HopNotAString = "hop-not-a-string",
    HopTooLarge = "hop-too-large",
    HopNotJws = "hop-not-jws",
    HopBase64 = "hop-base64",
    HopHeader = "hop-header",
    HopJson = "hop-json",
    HopDuplicateKey = "hop-duplicate-key",
    HopClaims = "hop-claims",
    HopRegisteredClaim = "hop-registered-claim",
    HopKey = "hop-key",
    HopWeakKey = "hop-weak-key",
    HopSignature = "hop-signature",
    HopBrokenLink = "hop-broken-link",
    HopWitnessAsParty = "hop-witness-as-party",
    HopWrongSuccessor = "hop-wrong-successor",
}

impl Flaw {
    fn code(&self) -> Code {
        match self {
            Flaw::NotAList => Code::ChainNotAList,
            Flaw::Empty => Code::ChainEmpty,
            Flaw::TooLong => Code::ChainTooLong,
            Flaw::NotAString => Code::HopNotAString,
            Flaw::TooLarge(_) => Code::HopTooLarge,
            Flaw::NotJws(_) => Code::HopNotJws,
            Flaw::Base64(_) => Code::HopBase64,
            Flaw::Header => Code::HopHeader,
            Flaw::Json(_) => Code::HopJson,
            Flaw::DuplicateKey(_) => Code::HopDuplicateKey,
            Flaw::Claims(_) => Code::HopClaims,
            Flaw::RegisteredClaim(_) => Code::HopRegisteredClaim,
            Flaw::Key => Code::HopKey,
            Flaw::WeakKey => Code::HopWeakKey,
            Flaw::Signature(_) => Code::HopSignature,
            Flaw::NotFirst | Flaw::BrokenLink(_) => Code::HopBrokenLink,
            Flaw::WitnessAsParty(_) => Code::HopWitnessAsParty,
            Flaw::WrongSuccessor { .. } => Code::HopWrongSuccessor,
        }
    }
}
