//! The four verbs for callers begin here: *verify* (done, off the desk), *copy the
//! head*, compare the presenter, refuse. Everything about who somebody is stands
//! in this file, so that every door gets the same answer.

use wikala_certs::{ActingFor, AuthoritySet, Moment, Revoked, SignedCertificate, SignedPresenter, SignedRevocation};
use wikala_chain::PublicKey;

use crate::model::{AgentId, Caller, Consented, Presenting};
use crate::refusal::{Code, No, Refusal};
use crate::store::Store;
use crate::store::threads::ThreadRow;
use crate::{PresenterPolicy, Witness};

/// Who stands at the door, after certificates and comparison, before anything is
/// spent.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The effective head: the authority behind hop 0's signer.
    pub(crate) head: Option<PublicKey>,
    /// Hop 0's signer itself.
    pub(crate) raw_head: Option<PublicKey>,
    /// Who presents, raw. Under `--presenter optional` the last hop is taken at its word.
    pub(crate) presenter: Option<PublicKey>,
    /// The presenter proved itself; only then it is an opener.
    pub(crate) proved: bool,
    /// The proof to spend once membership is settled.
    pub(crate) pending: Option<SignedPresenter>,
}

impl Store {
    /// The authority a key acts for: recorded pairs are never un-resolved.
    pub(crate) fn resolve(&self, key: PublicKey) -> Result<PublicKey, crate::Fault> {
        Ok(self.delegate(key)?.map_or(key, |row| row.authority))
    }

    /// A set as it is checked: raw keys resolve through the record.
    pub(crate) fn resolved_set(
        &self,
        set: Option<(Option<PublicKey>, PublicKey)>,
    ) -> Result<AuthoritySet, crate::Fault> {
        let Some((head, provider)) = set else { return Ok(AuthoritySet::open()) };
        let mut members = Vec::with_capacity(2);
        for key in head.into_iter().chain([provider]) {
            members.push(self.resolve(key)?);
        }
        Ok(AuthoritySet::of(members))
    }

    /// Writing is membership: on a bound thread the provider, or the head's
    /// segment presented by somebody who belongs to it.
    pub(crate) fn is_member(
        &self,
        thread: &ThreadRow,
        provider: PublicKey,
        who: &Standing,
    ) -> Result<bool, crate::Fault> {
        let Some(bound_to) = thread.head else { return Ok(true) };
        let Some(presenter) = who.presenter else { return Ok(false) };
        let authority = self.resolve(presenter)?;
        if presenter == provider || authority == provider {
            return Ok(true);
        }
        let head = self.resolve(bound_to)?;
        // Compare the presenter too, not only the head: anyone who was sent this
        // chain can replay it with the head intact.
        let same_segment = match who.head {
            Some(key) => self.resolve(key)? == head,
            None => false,
        };
        Ok(same_segment && (authority == head || self.is_actor(&thread.id, presenter)?))
    }
}

impl Witness {
    /// Records that a delegate acts for an authority, ahead of its first use.
    ///
    /// # Errors
    /// `certificate-expired`, `certificate-not-accepted`, `delegate-rebound`.
    pub fn record_certificate(&mut self, now: Moment, certificate: &Consented) -> Result<(), No> {
        certificate.certificate.live(now)?;
        self.counts(&certificate.certificate)?;
        if !self.record_if_consented(now, certificate)? {
            return Err(not_accepted(certificate));
        }
        Ok(())
    }

    /// As [`Witness::record_certificate`], and spends the request's own signature:
    /// a write signed by HTTP happens once.
    ///
    /// # Errors
    /// As [`Witness::record_certificate`]; `presenter-spent`, `presenter-proof`.
    pub fn record_signed_certificate(
        &mut self,
        now: Moment,
        certificate: &Consented,
        signed: SignedPresenter,
    ) -> Result<(), No> {
        self.record_certificate(now, certificate)?;
        let mut who = Standing {
            head: None,
            raw_head: None,
            presenter: Some(signed.signer()),
            proved: true,
            pending: Some(signed),
        };
        self.spend_presenter(now, &mut who)
    }

    /// Records that a certificate, or all that an authority gave until now, no longer counts.
    /// Who may: the authority, or the delegate for its own. `certificate`: the one it names.
    ///
    /// # Errors
    /// `not-an-authority`, `act-stale`.
    pub fn revoke(
        &mut self,
        now: Moment,
        revocation: &SignedRevocation,
        certificate: Option<&SignedCertificate>,
    ) -> Result<(), No> {
        let may = match (revocation.target(), certificate) {
            (Revoked::Certificate(id), Some(certificate)) if certificate.id() == id => {
                revocation.by(&[certificate.authority(), certificate.delegate()])
            }
            (Revoked::Certificate(_), _) => false,
            (Revoked::Authority(key), _) => revocation.by(&[key]),
        };
        if !may {
            return Err(Refusal::new(
                Code::NotAnAuthority,
                format!("revoke: {} neither gave this nor holds it", revocation.signer().fingerprint()),
            )
            .into());
        }
        revocation.fresh(now)?;
        Ok(self.store.revoke(revocation.target(), revocation.signer(), now)?)
    }

    /// As [`Witness::record_signed_certificate`], by the authority: after it revoked all it had
    /// given, only what it gives by its own signature since then counts.
    ///
    /// # Errors
    /// As [`Witness::record_signed_certificate`].
    pub fn record_renewed_certificate(
        &mut self,
        now: Moment,
        certificate: &SignedCertificate,
        signed: SignedPresenter,
    ) -> Result<(), No> {
        certificate.live(now)?;
        if self.store.certificate_is_revoked(certificate.id())? {
            return Err(revoked(certificate.delegate()));
        }
        let consented = Consented { certificate: certificate.clone(), by_request: false };
        if !self.record_if_consented(now, &consented)? {
            return Err(not_accepted(&consented));
        }
        self.store.renew_delegate(certificate.delegate(), now)?;
        let presenter = Some(signed.signer());
        let mut who = Standing { head: None, raw_head: None, presenter, proved: true, pending: Some(signed) };
        self.spend_presenter(now, &mut who)
    }

    /// Settles head and presenter of a request to an agent.
    pub(crate) fn stand(&mut self, now: Moment, agent: &AgentId, caller: Caller) -> Result<Standing, No> {
        let hop_0 = caller.chain.as_ref().map(|chain| chain.head().0);
        let last_hop = caller.chain.as_ref().map(|chain| chain.presenter().0);
        let signer = caller.presenter.signer();
        if let Some(consented) = &caller.certificate {
            // Without a chain the delegate may stand at the door itself.
            self.belongs(now, consented, &[hop_0.or(signer)])?;
            if !self.record_if_consented(now, consented)? {
                return Err(not_accepted(consented));
            }
        }
        let presenter = match (last_hop, signer) {
            (Some(tail), Some(signer)) if tail != signer => {
                return Err(Refusal::new(
                    Code::PresenterMismatch,
                    format!(
                        "presenter: {} presents a chain whose last hop {} signed, extend the chain before presenting it",
                        signer.fingerprint(),
                        tail.fingerprint()
                    ),
                )
                .into());
            }
            (Some(tail), None) => match self.policy.presenter {
                PresenterPolicy::Required => {
                    return Err(Refusal::new(
                        Code::PresenterRequired,
                        format!(
                            "presenter: a chain came without proof that {} sends it to {}/{}, add `presenter` to the bag or sign the request (RFC 9421)",
                            tail.fingerprint(),
                            agent.provider.fingerprint(),
                            agent.name.as_str()
                        ),
                    )
                    .into());
                }
                PresenterPolicy::Optional => Some(tail),
            },
            (_, signer) => signer,
        };
        // A delegate that acts itself needs a live certificate; chains that others
        // extended still resolve.
        if let Some(key) = presenter {
            self.acting_for(now, Some(key), None, None)?;
        }
        let head = match hop_0 {
            Some(key) if self.store.delegate(key)?.is_some_and(|row| row.revoked) => return Err(revoked(key)),
            Some(key) => Some(self.store.resolve(key)?),
            None => None,
        };
        let pending = match caller.presenter {
            Presenting::Signed(proof) => Some(proof),
            _ => None,
        };
        Ok(Standing { head, raw_head: hop_0, presenter, proved: signer.is_some(), pending })
    }

    /// Spends the presenter proof: once, and fresh. Last of the checks, so that a
    /// refused request does not burn it.
    pub(crate) fn spend_presenter(&mut self, now: Moment, who: &mut Standing) -> Result<(), No> {
        let Some(proof) = who.pending.take() else { return Ok(()) };
        let (signer, digest, at) = (proof.signer(), proof.digest(), proof.timestamp());
        if self.store.was_presented(signer, digest)? {
            return Err(presenter_spent(signer));
        }
        // Below the watermark rows were pruned, so spent could not be told from
        // new: stale whatever the clock says.
        if at < self.presented_watermark()? {
            return Err(Refusal::new(
                Code::PresenterProof,
                "presenter: signed before what is still remembered, sign again",
            )
            .into());
        }
        let presented = proof.fresh(now)?;
        if !self.store.spend_presenter(presented.signer(), presented.digest(), at)? {
            return Err(presenter_spent(signer));
        }
        Ok(())
    }

    pub(crate) fn presented_watermark(&self) -> Result<u64, No> {
        let Some(bytes) = self.store.meta("presented-watermark")? else { return Ok(0) };
        let bytes =
            <[u8; 8]>::try_from(bytes.as_slice()).map_err(|_| crate::Fault::Corrupt("meta.presented-watermark"))?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// For whom the signer of an act acts: by the certificate beside the act, else
    /// by the record. A delegate on record that acts without a live certificate is
    /// expired. `signer` is `None` for a request without an act: a certificate beside
    /// it is judged all the same. `caller` is who stands behind hop 0, or presents
    /// without a chain: the certificate may be that key's.
    pub(crate) fn acting_for(
        &self,
        now: Moment,
        signer: Option<PublicKey>,
        beside: Option<&Consented>,
        caller: Option<PublicKey>,
    ) -> Result<Option<ActingFor>, No> {
        if let Some(consented) = beside {
            let acting = self.belongs(now, consented, &[signer, caller])?;
            if signer == Some(acting.delegate()) {
                return Ok(Some(acting));
            }
        }
        let Some(signer) = signer else { return Ok(None) };
        match self.store.delegate(signer)? {
            Some(row) if row.revoked => Err(revoked(signer)),
            Some(row) => Ok(Some(ActingFor::recorded(signer, row.authority, row.expires_at, now)?)),
            None => Ok(None),
        }
    }

    /// A certificate is live, of a key that signed this request, and of no key that
    /// is on record for another authority. Anything else was slipped in beside
    /// somebody else's request.
    fn belongs(&self, now: Moment, consented: &Consented, signed: &[Option<PublicKey>]) -> Result<ActingFor, No> {
        let acting = consented.certificate.live(now)?;
        self.counts(&consented.certificate)?;
        let delegate = acting.delegate();
        if !signed.contains(&Some(delegate)) {
            return Err(Refusal::new(
                Code::CertificateNotSigner,
                format!(
                    "delegation: {} signed neither hop 0 nor the act, send the certificate of the key that did",
                    delegate.fingerprint()
                ),
            )
            .into());
        }
        if self.store.delegate(delegate)?.is_some_and(|row| row.authority != acting.authority()) {
            return Err(rebound(delegate));
        }
        Ok(acting)
    }

    /// It was not revoked, nor was all that its authority had given when this was not yet on
    /// record here: without a date on it, it could be any of those.
    fn counts(&self, certificate: &SignedCertificate) -> Result<(), No> {
        let given_since = self.store.delegate(certificate.delegate())?.is_some_and(|row| !row.revoked);
        let gone = self.store.certificate_is_revoked(certificate.id())?
            || (!given_since && self.store.authority_revoked(certificate.authority())?);
        if gone { Err(revoked(certificate.delegate())) } else { Ok(()) }
    }

    /// Records the pair if the delegate consented to be recorded, here or before.
    pub(crate) fn record_if_consented(&mut self, now: Moment, consented: &Consented) -> Result<bool, No> {
        let certificate = &consented.certificate;
        let known = self.store.delegate(certificate.delegate())?;
        if known.is_none() && !certificate.accepted() && !consented.by_request {
            return Ok(false);
        }
        // The statement says whether the delegate is on record for another authority, or
        // either key on the other side of a delegation.
        let recorded = self.store.record_delegate(
            certificate.delegate(),
            certificate.authority(),
            certificate.id(),
            certificate.expires_at(),
            now,
        )?;
        if recorded { Ok(true) } else { Err(rebound(certificate.delegate())) }
    }
}

fn presenter_spent(signer: PublicKey) -> No {
    Refusal::new(
        Code::PresenterSpent,
        format!("presenter: {} presented with these bytes before, sign again with a new nonce", signer.fingerprint()),
    )
    .into()
}

pub(crate) fn revoked(delegate: PublicKey) -> No {
    Refusal::new(
        Code::CertificateRevoked,
        format!("delegation: what {} acted by was revoked, ask its authority for another", delegate.fingerprint()),
    )
    .into()
}

fn rebound(delegate: PublicKey) -> No {
    Refusal::new(
        Code::DelegateRebound,
        format!(
            "delegation: {} is on record for another authority, or this pair would make a second level, make a new session key",
            delegate.fingerprint()
        ),
    )
    .into()
}

fn not_accepted(consented: &Consented) -> No {
    let delegate = consented.certificate.delegate().fingerprint();
    // Without this B could sign "H is my delegate", attach it to H's chain, and take the segment.
    Refusal::new(
        Code::CertificateNotAccepted,
        format!("delegation: {delegate} has not consented to act for that key, add `acceptance` (wikala cert accept) or sign the request body with {delegate}"),
    )
    .into()
}
