//! Session certificates: a durable key lets a short-lived one act for it, and
//! that one consents.
//!
//! ```text
//! {"authorityPublicKey":D,"delegatePublicKey":SK,"expiresAt":T,"signature":D over funduq-delegate:SK:T,
//!  "acceptance":SK over wikala-accept:{certificate id}}
//! ```
//! One level: what a delegate signs as an authority makes it that authority, and no more.

use wikala_chain::json::{self, JsonError};
use wikala_chain::{Digest, PublicKey, RawObject, Signature, SigningKey, payload};

use crate::error::CertError;
use crate::moment::Moment;
use crate::proof::{number, quoted};

/// A certificate of the right shape; nothing in it is verified.
#[derive(Debug, Clone)]
pub struct Certificate {
    authority: PublicKey,
    delegate: PublicKey,
    expires_at: u64,
    signature: Signature,
    acceptance: Option<Signature>,
    raw: String,
}

impl Certificate {
    /// Reads a certificate from JSON text.
    ///
    /// # Errors
    /// `certificate-malformed` for anything else than the closed set of members
    /// in their one encoding, keys that are not admitted included.
    pub fn parse(raw: &str) -> Result<Self, CertError> {
        let members = json::members(raw).map_err(|error| match error {
            JsonError::DuplicateKey(key) => malformed(format!("{key:?} is there twice")),
            _ => malformed("not a JSON object"),
        })?;
        let (mut authority, mut delegate, mut expires_at) = (None, None, None);
        let (mut signature, mut acceptance) = (None, None);
        for (key, raw) in members {
            match &*key {
                "authorityPublicKey" => authority = Some(parse_key(&key, raw)?),
                "delegatePublicKey" => delegate = Some(parse_key(&key, raw)?),
                "expiresAt" => {
                    let seconds = json::integer(raw);
                    expires_at = Some(seconds.map_err(|_| malformed("expiresAt is not whole seconds"))?);
                }
                "signature" => signature = Some(parse_signature(&key, raw)?),
                "acceptance" => acceptance = Some(parse_signature(&key, raw)?),
                _ => return Err(malformed(format!("member {key:?} is unknown"))),
            }
        }
        let missing = |name: &str| malformed(format!("{name} is missing"));
        Ok(Certificate {
            authority: authority.ok_or_else(|| missing("authorityPublicKey"))?,
            delegate: delegate.ok_or_else(|| missing("delegatePublicKey"))?,
            expires_at: expires_at.ok_or_else(|| missing("expiresAt"))?,
            signature: signature.ok_or_else(|| missing("signature"))?,
            acceptance,
            raw: raw.to_owned(),
        })
    }

    /// Verifies the authority's signature, and the acceptance if there is one.
    ///
    /// # Errors
    /// `certificate-signature`. A wrong acceptance is not a missing one: whoever
    /// put it there meant it to count.
    pub fn verify(self) -> Result<SignedCertificate, CertError> {
        let wrong = |sentence: String| CertError::new("certificate-signature", format!("certificate: {sentence}"));
        let says = payload::delegate(&self.delegate, self.expires_at);
        if self.authority.verify(says.as_bytes(), &self.signature).is_err() {
            return Err(wrong(format!("not signed by {}", self.authority.fingerprint())));
        }
        let id = payload::certificate_id(&self.authority, &self.delegate, self.expires_at);
        if let Some(acceptance) = &self.acceptance {
            let yes = payload::accept(&id);
            if self.delegate.verify(yes.as_bytes(), acceptance).is_err() {
                let delegate = self.delegate.fingerprint();
                return Err(wrong(format!("acceptance is not signed by the delegate {delegate}")));
            }
        }
        Ok(SignedCertificate { id, certificate: self })
    }
}

/// A certificate whose signatures were verified. Whether it is live is a
/// question to the clock, whether it is revoked one to the record.
#[derive(Debug, Clone)]
pub struct SignedCertificate {
    id: Digest,
    certificate: Certificate,
}

impl SignedCertificate {
    /// The authority signs "this delegate acts for me until then"; not yet accepted.
    pub fn issue(authority: &SigningKey, delegate: &PublicKey, expires_at: u64) -> Self {
        let signature = authority.sign(payload::delegate(delegate, expires_at).as_bytes());
        Self::assemble(authority.public(), *delegate, expires_at, signature, None)
    }

    /// The delegate consents. Any earlier acceptance is replaced.
    ///
    /// # Errors
    /// `certificate-not-signer` if the key is not the delegate's.
    pub fn accept(self, delegate: &SigningKey) -> Result<Self, CertError> {
        if delegate.public() != self.delegate() {
            return Err(CertError::not_signer(&delegate.public(), &self.delegate()));
        }
        let acceptance = delegate.sign(payload::accept(&self.id).as_bytes());
        let Certificate { authority, delegate, expires_at, signature, .. } = self.certificate;
        Ok(Self::assemble(authority, delegate, expires_at, signature, Some(acceptance)))
    }

    /// Writes the text that belongs to values signed here.
    fn assemble(
        authority: PublicKey,
        delegate: PublicKey,
        expires_at: u64,
        signature: Signature,
        acceptance: Option<Signature>,
    ) -> Self {
        let mut object = RawObject::new();
        object.set("authorityPublicKey", quoted(&authority.to_hex()));
        object.set("delegatePublicKey", quoted(&delegate.to_hex()));
        object.set("expiresAt", number(expires_at));
        object.set("signature", quoted(&signature.to_hex()));
        if let Some(acceptance) = &acceptance {
            object.set("acceptance", quoted(&acceptance.to_hex()));
        }
        let raw = object.to_raw().get().to_owned();
        let id = payload::certificate_id(&authority, &delegate, expires_at);
        let certificate = Certificate { authority, delegate, expires_at, signature, acceptance, raw };
        SignedCertificate { id, certificate }
    }

    /// The durable key that is acted for.
    pub fn authority(&self) -> PublicKey {
        self.certificate.authority
    }

    /// The key that acts.
    pub fn delegate(&self) -> PublicKey {
        self.certificate.delegate
    }

    /// The last Unix second at which it is live.
    pub fn expires_at(&self) -> u64 {
        self.certificate.expires_at
    }

    /// SHA-256 of what the certificate says ([`payload::certificate_id`]).
    pub fn id(&self) -> Digest {
        self.id
    }

    /// Whether the delegate's own consent is inside, so that the pair may be recorded.
    pub fn accepted(&self) -> bool {
        self.certificate.acceptance.is_some()
    }

    /// The text as received, to be stored and relayed.
    pub fn raw(&self) -> &str {
        &self.certificate.raw
    }

    /// The same text, owned.
    pub fn to_json(&self) -> String {
        self.certificate.raw.clone()
    }

    /// What it allows now: live while now <= expiresAt.
    ///
    /// # Errors
    /// `certificate-expired`.
    pub fn live(&self, now: Moment) -> Result<ActingFor, CertError> {
        ActingFor::recorded(self.delegate(), self.authority(), self.expires_at(), now)
    }
}

/// A delegate that may act for an authority at this moment. Only a live
/// certificate, or the record of one, makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActingFor {
    delegate: PublicKey,
    authority: PublicKey,
}

impl ActingFor {
    /// From a pair that the record holds, while its certificate is live. The
    /// caller vouches that the pair was recorded with the delegate's consent.
    ///
    /// # Errors
    /// `certificate-expired`.
    pub fn recorded(
        delegate: PublicKey,
        authority: PublicKey,
        expires_at: u64,
        now: Moment,
    ) -> Result<Self, CertError> {
        let late = now.since(Moment::from_secs(expires_at));
        if late > 0 {
            let who = authority.fingerprint();
            let sentence = format!("certificate: of {who}, expired {late} s ago, a live one expected");
            return Err(CertError::new("certificate-expired", sentence));
        }
        Ok(ActingFor { delegate, authority })
    }

    /// The key that acts.
    pub fn delegate(&self) -> PublicKey {
        self.delegate
    }

    /// The key it acts for.
    pub fn authority(&self) -> PublicKey {
        self.authority
    }
}

impl CertError {
    /// `certificate-not-signer`: the delegate signed neither hop 0 nor the act.
    pub fn not_signer(signer: &PublicKey, delegate: &PublicKey) -> Self {
        let (signer, delegate) = (signer.fingerprint(), delegate.fingerprint());
        let sentence = format!("certificate: for {delegate}, but {signer} signed, one for the signer expected");
        Self::new("certificate-not-signer", sentence)
    }

    /// `certificate-not-accepted`: nobody may be made a delegate without consent.
    pub fn not_accepted(delegate: &PublicKey) -> Self {
        let delegate = delegate.fingerprint();
        let sentence = format!(
            "certificate: {delegate} has not accepted it, add its signature over wikala-accept:{{certificate id}} \
             as `acceptance` (wikala cert accept), or record the pair ahead at /v1/certificates"
        );
        Self::new("certificate-not-accepted", sentence)
    }
}

fn malformed(sentence: impl std::fmt::Display) -> CertError {
    CertError::new("certificate-malformed", format!("certificate: {sentence}"))
}

fn parse_key(name: &str, raw: &str) -> Result<PublicKey, CertError> {
    let text = json::string(raw).ok_or_else(|| malformed(format!("{name} is not a string")))?;
    PublicKey::from_hex(&text).map_err(|error| malformed(format!("{name}: {error}")))
}

fn parse_signature(name: &str, raw: &str) -> Result<Signature, CertError> {
    let read = json::string(raw).and_then(|text| Signature::from_hex(&text).ok());
    read.ok_or_else(|| malformed(format!("{name} is not 128 lower-case hex digits")))
}
