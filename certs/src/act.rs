//! Acts: a signature that opens a paused run or stops one, step by step.
//!
//! ```text
//! Proof ──verify──► SignedAct<A> ──stand(set)──► Standing<A> ──fresh(now)──► Authorized<A>
//!                   bytes                        authority                   clock
//! ```
//! Each step consumes the one before, and the last is not `Clone`: a
//! permission is spent where it is used. Whether the act was spent before is
//! asked between `stand` and `fresh`, by its digest.

use std::marker::PhantomData;

use wikala_chain::{Digest, Payload, PublicKey, payload};

use crate::authority::AuthoritySet;
use crate::delegation::ActingFor;
use crate::error::ActError;
use crate::moment::{Moment, is_fresh, staleness};
use crate::proof::Proof;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Resolve {}
    impl Sealed for super::Cancel {}
}

/// What an act does. Sealed: the two kinds are the two things a signature can do to a run.
pub trait Act: sealed::Sealed {
    /// The word that opens this act's sentences.
    const NAME: &'static str;
}

/// Answers a paused run.
#[derive(Debug)]
pub enum Resolve {}

/// Asks a run to stop.
#[derive(Debug)]
pub enum Cancel {}

impl Act for Resolve {
    const NAME: &'static str = "resolve";
}

impl Act for Cancel {
    const NAME: &'static str = "cancel";
}

/// Which bytes a resolve was signed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `funduq-resolve`: the run and the time alone.
    Resolve,
    /// `wikala-answer`: bound to the asks and the answer.
    Answer,
}

/// An act whose signature was verified for the key it claims and this run.
/// Says nothing yet about whether that key may.
#[derive(Debug)]
pub struct SignedAct<A: Act> {
    run: String,
    signer: PublicKey,
    timestamp: u64,
    digest: Digest,
    /// What a `wikala-answer` was signed for.
    asks: Option<Vec<String>>,
    act: PhantomData<A>,
}

impl SignedAct<Resolve> {
    /// Verifies a proof as `funduq-resolve:{run}:{timestamp}`.
    ///
    /// # Errors
    /// `act-signature`.
    pub fn resolve(proof: &Proof, run: &str) -> Result<Self, ActError> {
        Self::verify(proof, run, payload::resolve(run, proof.timestamp), Resolve::NAME)
    }

    /// Verifies a proof as `wikala-answer` over these asks and this answer.
    ///
    /// # Errors
    /// `act-signature`.
    pub fn answer(proof: &Proof, run: &str, asks: &[&str], answer: &[u8]) -> Result<Self, ActError> {
        let payload = payload::answer(run, asks, answer, proof.timestamp);
        let signed = Self::verify(proof, run, payload, "answer")?;
        Ok(SignedAct { asks: Some(asks.iter().map(|ask| (*ask).to_owned()).collect()), ..signed })
    }

    /// Which bytes were signed.
    pub fn form(&self) -> Form {
        if self.asks.is_some() { Form::Answer } else { Form::Resolve }
    }

    /// The asks a `wikala-answer` was signed for: it answers these together and no
    /// others. `None` for a `funduq-resolve`, which names none.
    pub fn asks(&self) -> Option<&[String]> {
        self.asks.as_deref()
    }
}

impl SignedAct<Cancel> {
    /// Verifies a proof as `funduq-cancel:{run}:{timestamp}`.
    ///
    /// # Errors
    /// `act-signature`.
    pub fn cancel(proof: &Proof, run: &str) -> Result<Self, ActError> {
        Self::verify(proof, run, payload::cancel(run, proof.timestamp), Cancel::NAME)
    }
}

impl<A: Act> SignedAct<A> {
    fn verify(proof: &Proof, run: &str, payload: Payload, form: &str) -> Result<Self, ActError> {
        let wrong = |sentence: String| ActError::new("act-signature", format!("{form}: {sentence}"));
        // A nonce is not among an act's signed bytes: anyone could have put it there.
        if proof.nonce.is_some() {
            return Err(wrong("carries a nonce, which this act does not sign".into()));
        }
        if !proof.covers(&payload) {
            let signer = proof.public_key.fingerprint();
            return Err(wrong(format!("signature of {signer} does not verify for this run and time")));
        }
        Ok(SignedAct {
            run: run.to_owned(),
            signer: proof.public_key,
            timestamp: proof.timestamp,
            digest: payload.digest(),
            asks: None,
            act: PhantomData,
        })
    }

    /// The run that was named in the signed bytes.
    pub fn run(&self) -> &str {
        &self.run
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

    /// Asks whether the signer stands in the set: as itself, or as the
    /// authority it acts for.
    ///
    /// A certificate for another key does not help the signer. On an open set
    /// anyone stands, under the authority it acts for if it shows one.
    ///
    /// # Errors
    /// `not-an-authority`.
    pub fn stand(self, set: &AuthoritySet, acting: Option<&ActingFor>) -> Result<Standing<A>, ActError> {
        let behind = acting.filter(|acting| acting.delegate() == self.signer).map(ActingFor::authority);
        let authority = if set.is_open() {
            Some(behind.unwrap_or(self.signer))
        } else {
            [Some(self.signer), behind].into_iter().flatten().find(|key| set.contains(key))
        };
        match authority {
            Some(authority) => Ok(Standing { authority, signed: self }),
            None => {
                let signer = self.signer.fingerprint();
                let sentence = format!("{}: {signer} is neither head nor provider of this run", A::NAME);
                Err(ActError::new("not-an-authority", sentence))
            }
        }
    }
}

/// An act whose signer stands in the authority set; not yet known to be fresh.
#[derive(Debug)]
pub struct Standing<A: Act> {
    signed: SignedAct<A>,
    authority: PublicKey,
}

impl<A: Act> Standing<A> {
    /// Under whose authority.
    pub fn authority(&self) -> PublicKey {
        self.authority
    }

    /// By which key.
    pub fn signer(&self) -> PublicKey {
        self.signed.signer
    }

    /// On which run.
    pub fn run(&self) -> &str {
        &self.signed.run
    }

    /// SHA-256 of the signed bytes, by which it is spent.
    pub fn digest(&self) -> Digest {
        self.signed.digest
    }

    /// When it was signed, Unix seconds.
    pub fn timestamp(&self) -> u64 {
        self.signed.timestamp
    }

    /// Asks the clock.
    ///
    /// # Errors
    /// `act-stale` if it was signed more than 60 s from now, either way.
    pub fn fresh(self, now: Moment) -> Result<Authorized<A>, ActError> {
        if !is_fresh(now, self.timestamp()) {
            let sentence = format!("{}: {}", A::NAME, staleness(now, self.timestamp()));
            return Err(ActError::new("act-stale", sentence));
        }
        Ok(Authorized { standing: self, at: now })
    }
}

impl Standing<Resolve> {
    /// Which bytes were signed.
    pub fn form(&self) -> Form {
        self.signed.form()
    }
}

/// An act whose signer stood in the authority set, inside the window.
///
/// Only [`Standing::fresh`] makes one, and it is not `Clone`: the store takes
/// it by value, so a permission is spent where it is used.
///
/// It cannot be built by hand,
/// ```compile_fail,E0451
/// use wikala_certs::{Authorized, Resolve};
/// fn forge(standing: wikala_certs::Standing<Resolve>, now: wikala_certs::Moment) -> Authorized<Resolve> {
///     Authorized { standing, at: now }
/// }
/// ```
/// cloned,
/// ```compile_fail,E0599
/// fn twice(may: wikala_certs::Authorized<wikala_certs::Resolve>) {
///     let other = may.clone();
/// }
/// ```
/// used twice,
/// ```compile_fail,E0382
/// use wikala_certs::{Authorized, Resolve};
/// fn reopen(_: Authorized<Resolve>) {}
/// fn twice(may: Authorized<Resolve>) {
///     reopen(may);
///     reopen(may);
/// }
/// ```
/// or spent as another act.
/// ```compile_fail,E0308
/// use wikala_certs::{Authorized, Cancel, Resolve};
/// fn stop(_: Authorized<Cancel>) {}
/// fn swap(may: Authorized<Resolve>) {
///     stop(may);
/// }
/// ```
#[derive(Debug)]
pub struct Authorized<A: Act> {
    standing: Standing<A>,
    at: Moment,
}

impl<A: Act> Authorized<A> {
    /// Under whose authority.
    pub fn authority(&self) -> PublicKey {
        self.standing.authority
    }

    /// By which key.
    pub fn signer(&self) -> PublicKey {
        self.standing.signer()
    }

    /// On which run.
    pub fn run(&self) -> &str {
        self.standing.run()
    }

    /// SHA-256 of the signed bytes, by which it is spent.
    pub fn digest(&self) -> Digest {
        self.standing.digest()
    }

    /// When it was signed, Unix seconds.
    pub fn timestamp(&self) -> u64 {
        self.standing.timestamp()
    }

    /// When it was found to be fresh.
    pub fn at(&self) -> Moment {
        self.at
    }
}

impl Authorized<Resolve> {
    /// Which bytes were signed.
    pub fn form(&self) -> Form {
        self.standing.form()
    }
}
