//! Revocations: a certificate, or all that an authority gave until now, no longer count.

use wikala_chain::{Digest, PublicKey, SigningKey, payload};

use crate::error::ActError;
use crate::moment::{Moment, is_fresh, staleness};
use crate::proof::Proof;

/// What no longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// One certificate, by its id.
    Certificate(Digest),
    /// Every certificate this authority gave until now.
    Authority(PublicKey),
}

impl Revoked {
    /// Signs that it no longer counts.
    #[must_use]
    pub fn sign(&self, key: &SigningKey, now: Moment) -> Proof {
        let payload = self.payload(now.as_secs());
        let signature = key.sign(payload.as_bytes());
        Proof { public_key: key.public(), timestamp: now.as_secs(), signature, nonce: None }
    }

    fn payload(&self, at_s: u64) -> wikala_chain::Payload {
        match self {
            Revoked::Certificate(id) => payload::revoke_certificate(id, at_s),
            Revoked::Authority(key) => payload::revoke_authority(key, at_s),
        }
    }
}

/// A revocation whose signature was verified for the key it claims. Whether that key may
/// revoke it is asked by [`SignedRevocation::by`], and the clock by [`SignedRevocation::fresh`].
#[derive(Debug)]
pub struct SignedRevocation {
    target: Revoked,
    signer: PublicKey,
    timestamp: u64,
}

impl SignedRevocation {
    /// Verifies a proof as the revocation of this target.
    ///
    /// # Errors
    /// `act-signature`.
    pub fn verify(proof: &Proof, target: Revoked) -> Result<Self, ActError> {
        if proof.nonce.is_some() || !proof.covers(&target.payload(proof.timestamp)) {
            let signer = proof.public_key.fingerprint();
            let sentence = format!("revoke: signature of {signer} does not verify for what is sent with it");
            return Err(ActError::new("act-signature", sentence));
        }
        Ok(SignedRevocation { target, signer: proof.public_key, timestamp: proof.timestamp })
    }

    /// Whether one of these signed it.
    #[must_use]
    pub fn by(&self, allowed: &[PublicKey]) -> bool {
        allowed.contains(&self.signer)
    }

    /// What no longer counts.
    #[must_use]
    pub fn target(&self) -> Revoked {
        self.target
    }

    /// The key whose signature was verified.
    #[must_use]
    pub fn signer(&self) -> PublicKey {
        self.signer
    }

    /// Asks the clock.
    ///
    /// # Errors
    /// `act-stale` if it was signed more than 60 s from now, either way.
    pub fn fresh(&self, now: Moment) -> Result<(), ActError> {
        if is_fresh(now, self.timestamp) {
            return Ok(());
        }
        Err(ActError::new("act-stale", format!("revoke: {}", staleness(now, self.timestamp))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_is_good_for_its_target_alone() {
        let key = SigningKey::from_seed([1; 32]);
        let now = Moment::from_secs(1_800_000_000);
        let targets = [
            Revoked::Certificate(Digest::of(b"a")),
            Revoked::Certificate(Digest::of(b"b")),
            Revoked::Authority(key.public()),
        ];
        for signed in targets {
            for target in targets {
                assert_eq!(SignedRevocation::verify(&signed.sign(&key, now), target).is_ok(), signed == target);
            }
        }
        let signed = SignedRevocation::verify(&targets[0].sign(&key, now), targets[0]).unwrap();
        assert!(signed.by(&[key.public()]) && !signed.by(&[SigningKey::from_seed([2; 32]).public()]));
        assert!(signed.fresh(now.plus(60)).is_ok() && signed.fresh(now.plus(61)).is_err());
    }
}
