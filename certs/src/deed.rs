//! Deeds: what a signature does to an obligation. Each has its own tag and names the exact
//! obligation, request or event, so none can be spent as another.
//!
//! ```text
//! Proof ──verify──► SignedDeed ──stand(set)──► StandingDeed ──fresh(now)──► AuthorizedDeed
//!                   bytes                      authority                    clock
//! ```

use wikala_chain::{Digest, Payload, PublicKey, SigningKey, payload};

use crate::authority::AuthoritySet;
use crate::delegation::ActingFor;
use crate::error::ActError;
use crate::moment::{Moment, is_fresh, staleness};
use crate::proof::Proof;

/// What a deed says. Texts that stand in signed bytes must be codes ([`is_code`]) or ids of
/// the witness: nothing with a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// This request, in this thread, demands an answer.
    Create {
        /// The thread's id.
        thread: String,
        /// SHA-256 of the exact request.
        request: Digest,
    },
    /// I own this question.
    Accept {
        /// The obligation's id.
        obligation: String,
        /// The revision that was seen.
        revision: u64,
    },
    /// I do not take it.
    Decline {
        /// The obligation's id.
        obligation: String,
        /// The revision that was seen.
        revision: u64,
        /// Why, free text.
        reason: String,
    },
    /// I stand there now.
    Progress {
        /// The obligation's id.
        obligation: String,
        /// The revision that was seen.
        revision: u64,
        /// The state's name.
        to: String,
        /// Why, a code.
        reason: String,
    },
    /// This is my answer to exactly that request.
    Respond {
        /// The obligation's id.
        obligation: String,
        /// The request's event.
        event: String,
        /// SHA-256 of the exact request.
        request: Digest,
        /// SHA-256 of the exact response.
        response: Digest,
    },
    /// No answer is owed any more.
    Cancel {
        /// The obligation's id.
        obligation: String,
        /// The revision that was seen.
        revision: u64,
        /// Why, a code.
        reason: String,
    },
    /// This message is stored with me.
    MailboxAck {
        /// The event's id.
        event: String,
        /// SHA-256 of its envelope.
        envelope: Digest,
    },
}

impl Deed {
    /// The word that opens this deed's sentences.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Deed::Create { .. } => "create",
            Deed::Accept { .. } => "accept",
            Deed::Decline { .. } => "decline",
            Deed::Progress { .. } => "progress",
            Deed::Respond { .. } => "respond",
            Deed::Cancel { .. } => "cancel",
            Deed::MailboxAck { .. } => "ack",
        }
    }

    /// The bytes that are signed at this time, Unix seconds.
    #[must_use]
    pub fn payload(&self, at_s: u64) -> Payload {
        match self {
            Deed::Create { thread, request } => payload::obligation_create(thread, request, at_s),
            Deed::Accept { obligation, revision } => payload::obligation_accept(obligation, *revision, at_s),
            Deed::Decline { obligation, revision, reason } => {
                payload::obligation_decline(obligation, *revision, reason, at_s)
            }
            Deed::Progress { obligation, revision, to, reason } => {
                payload::obligation_progress(obligation, *revision, to, reason, at_s)
            }
            Deed::Respond { obligation, event, request, response } => {
                payload::obligation_respond(obligation, event, request, response, at_s)
            }
            Deed::Cancel { obligation, revision, reason } => {
                payload::obligation_cancel(obligation, *revision, reason, at_s)
            }
            Deed::MailboxAck { event, envelope } => payload::mailbox_ack(event, envelope, at_s),
        }
    }

    /// Signs it.
    #[must_use]
    pub fn sign(&self, key: &SigningKey, now: Moment) -> Proof {
        let signature = key.sign(self.payload(now.as_secs()).as_bytes());
        Proof { public_key: key.public(), timestamp: now.as_secs(), signature, nonce: None }
    }
}

/// The longest code, bytes.
const CODE: usize = 128;

/// A code that may stand in signed bytes: 1 to 128 of `A-Z a-z 0-9 . _ -`, beginning with a
/// letter or a digit. A colon would let two sets of values give the same bytes.
#[must_use]
pub fn is_code(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    text.len() <= CODE && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric()) && text.bytes().all(plain)
}

/// A deed whose signature was verified for the key it claims. Says nothing yet about
/// whether that key may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedDeed {
    deed: Deed,
    signer: PublicKey,
    timestamp: u64,
    digest: Digest,
}

impl SignedDeed {
    /// Verifies a proof as this deed.
    ///
    /// # Errors
    /// `act-signature`.
    pub fn verify(proof: &Proof, deed: Deed) -> Result<Self, ActError> {
        let wrong = |sentence: String| ActError::new("act-signature", format!("{}: {sentence}", deed.name()));
        // A nonce is not among a deed's signed bytes: anyone could have put it there.
        if proof.nonce.is_some() {
            return Err(wrong("carries a nonce, which this act does not sign".into()));
        }
        let payload = deed.payload(proof.timestamp);
        if !proof.covers(&payload) {
            let signer = proof.public_key.fingerprint();
            return Err(wrong(format!("signature of {signer} does not verify for what is sent with it")));
        }
        let (signer, timestamp, digest) = (proof.public_key, proof.timestamp, payload.digest());
        Ok(SignedDeed { deed, signer, timestamp, digest })
    }

    /// What it says.
    #[must_use]
    pub fn deed(&self) -> &Deed {
        &self.deed
    }

    /// The key whose signature was verified.
    #[must_use]
    pub fn signer(&self) -> PublicKey {
        self.signer
    }

    /// SHA-256 of the signed bytes, by which it is spent.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Asks whether the signer stands in the set, as itself or as the authority it acts for.
    /// `None`: it does not. The set is never open: an obligation has two parties.
    #[must_use]
    pub fn stand(self, set: &AuthoritySet, acting: Option<&ActingFor>) -> Option<StandingDeed> {
        let behind = acting.filter(|acting| acting.delegate() == self.signer).map(ActingFor::authority);
        let named = |key: &PublicKey| !set.is_open() && set.contains(key);
        let authority = [Some(self.signer), behind].into_iter().flatten().find(named)?;
        Some(StandingDeed { authority, signed: self })
    }
}

/// A deed of a party; not yet known to be fresh.
#[derive(Debug)]
pub struct StandingDeed {
    signed: SignedDeed,
    authority: PublicKey,
}

impl StandingDeed {
    /// Under whose authority.
    #[must_use]
    pub fn authority(&self) -> PublicKey {
        self.authority
    }

    /// As it was signed.
    #[must_use]
    pub fn signed(&self) -> &SignedDeed {
        &self.signed
    }

    /// Asks the clock.
    ///
    /// # Errors
    /// `act-stale` if it was signed more than 60 s from now, either way.
    pub fn fresh(self, now: Moment) -> Result<AuthorizedDeed, ActError> {
        if !is_fresh(now, self.signed.timestamp) {
            let sentence = format!("{}: {}", self.signed.deed.name(), staleness(now, self.signed.timestamp));
            return Err(ActError::new("act-stale", sentence));
        }
        Ok(AuthorizedDeed { authority: self.authority, signed: self.signed })
    }
}

/// A deed of a party, inside the window. Only [`StandingDeed::fresh`] makes one, and it is
/// not `Clone`: the store takes it by value, so it is spent where it is used.
#[derive(Debug)]
pub struct AuthorizedDeed {
    signed: SignedDeed,
    authority: PublicKey,
}

impl AuthorizedDeed {
    /// Under whose authority.
    #[must_use]
    pub fn authority(&self) -> PublicKey {
        self.authority
    }

    /// By which key.
    #[must_use]
    pub fn signer(&self) -> PublicKey {
        self.signed.signer
    }

    /// SHA-256 of the signed bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.signed.digest
    }

    /// What it says.
    #[must_use]
    pub fn deed(&self) -> &Deed {
        &self.signed.deed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Deed> {
        let (obligation, revision, d) = ("ob_1".to_owned(), 2, Digest::of(b"x"));
        let (o, reason) = (obligation.clone(), "r".to_owned());
        vec![
            Deed::Create { thread: "thread_1".into(), request: d },
            Deed::Accept { obligation: o.clone(), revision },
            Deed::Decline { obligation: o.clone(), revision, reason: reason.clone() },
            Deed::Progress { obligation: o.clone(), revision, to: "blocked".into(), reason: reason.clone() },
            Deed::Respond { obligation: o.clone(), event: "msg_1".into(), request: d, response: d },
            Deed::Cancel { obligation, revision, reason },
            Deed::MailboxAck { event: "msg_1".into(), envelope: d },
        ]
    }

    #[test]
    fn a_signature_is_good_for_its_own_deed_and_no_other() {
        let key = SigningKey::from_seed([1; 32]);
        let now = Moment::from_secs(1_800_000_000);
        for signed in all() {
            let proof = signed.sign(&key, now);
            for deed in all() {
                let good = deed == signed;
                assert_eq!(
                    SignedDeed::verify(&proof, deed.clone()).is_ok(),
                    good,
                    "{} as {}",
                    signed.name(),
                    deed.name()
                );
            }
            let with_nonce = Proof { nonce: Some("aa".repeat(16)), ..proof };
            assert!(SignedDeed::verify(&with_nonce, signed).is_err());
        }
    }

    #[test]
    fn it_stands_for_a_party_and_within_the_window() {
        let (key, other) = (SigningKey::from_seed([1; 32]), SigningKey::from_seed([2; 32]));
        let at = |seconds: u64| Moment::from_secs(1_800_000_000 + seconds);
        let signed = || SignedDeed::verify(&all()[1].sign(&key, at(100)), all()[1].clone()).unwrap();
        assert!(signed().stand(&AuthoritySet::of([other.public()]), None).is_none());
        assert!(signed().stand(&AuthoritySet::open(), None).is_none(), "an obligation is nobody's in particular never");
        let set = AuthoritySet::of([other.public(), key.public()]);
        for (now, good) in [(39, false), (40, true), (160, true), (161, false)] {
            let standing = signed().stand(&set, None).unwrap();
            assert_eq!(standing.fresh(at(now)).is_ok(), good, "{now}");
        }
    }

    #[test]
    fn a_code_has_no_colon() {
        for good in ["a", "requester_canceled", "A.b-1", "7"] {
            assert!(is_code(good), "{good}");
        }
        for bad in ["", "a:b", "_a", "a b", "\u{e9}", &"a".repeat(129)] {
            assert!(!is_code(bad), "{bad}");
        }
    }
}
