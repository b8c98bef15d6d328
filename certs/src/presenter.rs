//! Presenters: who is here, now, holding the end of a chain.
//!
//! A chain proves origin, not possession. The key of its last hop signs the
//! place (this witness, this agent), the chain's tip, a nonce and the time; or
//! an RFC 9421 signature over the request does the same.

use wikala_chain::{AgentName, Digest, PublicKey, payload};

use crate::error::PresenterError;
use crate::moment::{Moment, is_fresh, staleness};
use crate::proof::Proof;

/// A presenter whose signature was verified; not yet known to be fresh.
#[derive(Debug)]
pub struct SignedPresenter {
    signer: PublicKey,
    timestamp: u64,
    digest: Digest,
}

impl SignedPresenter {
    /// Verifies a proof as `wikala-present` for this place and this chain's tip
    /// (`None` if the request is chainless).
    ///
    /// Whether the signer is the one it must be is for the caller to compare.
    ///
    /// # Errors
    /// `presenter-proof`.
    pub fn verify(
        proof: &Proof,
        witness: &PublicKey,
        provider: &PublicKey,
        name: &AgentName,
        tip: Option<Digest>,
    ) -> Result<Self, PresenterError> {
        let Some(nonce) = &proof.nonce else {
            return Err(refused("has no nonce, 32 lower-case hex digits expected".into()));
        };
        let payload = payload::present(witness, provider, name, tip, nonce, proof.timestamp);
        if !proof.covers(&payload) {
            let signer = proof.public_key.fingerprint();
            return Err(refused(format!("signature of {signer} does not verify for this witness, agent and chain")));
        }
        Ok(SignedPresenter { signer: proof.public_key, timestamp: proof.timestamp, digest: payload.digest() })
    }

    /// From an HTTP message signature (RFC 9421) that the door has verified
    /// over its signature base: its key, its `created`, the base's SHA-256.
    pub fn from_http(signer: PublicKey, created: u64, digest: Digest) -> Self {
        SignedPresenter { signer, timestamp: created, digest }
    }

    /// The key whose signature was verified.
    pub fn signer(&self) -> PublicKey {
        self.signer
    }

    /// When it was signed, Unix seconds.
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// SHA-256 of the signed bytes, by which it is spent.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Asks the clock.
    ///
    /// # Errors
    /// `presenter-proof` if it was signed more than 60 s from now, either way.
    pub fn fresh(self, now: Moment) -> Result<Presented, PresenterError> {
        if !is_fresh(now, self.timestamp) {
            return Err(refused(staleness(now, self.timestamp)));
        }
        Ok(Presented { signed: self, at: now })
    }
}

/// A key that is here now. Not `Clone`: a presentation is spent where it is used.
#[derive(Debug)]
pub struct Presented {
    signed: SignedPresenter,
    at: Moment,
}

impl Presented {
    /// The key that is here.
    pub fn signer(&self) -> PublicKey {
        self.signed.signer
    }

    /// When it was signed, Unix seconds; below the record's watermark it is stale.
    pub fn timestamp(&self) -> u64 {
        self.signed.timestamp
    }

    /// SHA-256 of the signed bytes, by which it is spent.
    pub fn digest(&self) -> Digest {
        self.signed.digest
    }

    /// When it was found to be fresh.
    pub fn at(&self) -> Moment {
        self.at
    }
}

fn refused(sentence: String) -> PresenterError {
    PresenterError::new("presenter-proof", format!("presenter: {sentence}"))
}
