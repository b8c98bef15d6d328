//! A provider's consent: this witness may dispatch to me, under this name, at this address.
//!
//! ```text
//! {"publicKey":P,"signature":P over wikala-consent:{witness}:{name}:{sha256hex(url)}}
//! ```
//! Without it an operator could put anybody's key in front of any address, and the
//! witness would sign hops to a party that never agreed to be one. It carries no time:
//! it holds until the operator removes the agent.

use wikala_chain::json::{self, JsonError};
use wikala_chain::{AgentName, PublicKey, RawObject, Signature, SigningKey, payload};

use crate::error::ProofError;
use crate::proof::quoted;

/// A consent of the right shape; nothing in it is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consent {
    /// The provider that is said to consent.
    pub provider: PublicKey,
    /// Over [`payload::consent`].
    pub signature: Signature,
}

impl Consent {
    /// Reads a consent from JSON text.
    ///
    /// # Errors
    /// `proof-malformed` for anything else than the two members.
    pub fn parse(raw: &str) -> Result<Self, ProofError> {
        let members = json::members(raw).map_err(|error| match error {
            JsonError::DuplicateKey(key) => malformed(format!("{key:?} is there twice")),
            _ => malformed("not a JSON object"),
        })?;
        let (mut provider, mut signature) = (None, None);
        for (key, raw) in members {
            let text = json::string(raw).ok_or_else(|| malformed(format!("{key} is not a string")))?;
            match &*key {
                "publicKey" => {
                    let key = PublicKey::from_hex(&text).map_err(|error| malformed(format!("publicKey: {error}")))?;
                    provider = Some(key);
                }
                "signature" => {
                    let read = Signature::from_hex(&text);
                    signature = Some(read.map_err(|_| malformed("signature is not 128 lower-case hex digits"))?);
                }
                _ => return Err(malformed(format!("member {key:?} is unknown"))),
            }
        }
        Ok(Consent {
            provider: provider.ok_or_else(|| malformed("publicKey is missing"))?,
            signature: signature.ok_or_else(|| malformed("signature is missing"))?,
        })
    }

    /// The provider's key consents.
    #[must_use]
    pub fn sign(key: &SigningKey, witness: &PublicKey, name: &AgentName, url: &str) -> Self {
        let says = payload::consent(witness, name, url);
        Consent { provider: key.public(), signature: key.sign(says.as_bytes()) }
    }

    /// The consent as compact JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut object = RawObject::new();
        object.set("publicKey", quoted(&self.provider.to_hex()));
        object.set("signature", quoted(&self.signature.to_hex()));
        object.to_raw().get().to_owned()
    }

    /// Verifies that the provider consents to this witness, name and address.
    ///
    /// # Errors
    /// `act-signature`.
    pub fn verify(self, witness: &PublicKey, name: &AgentName, url: &str) -> Result<SignedConsent, ProofError> {
        let says = payload::consent(witness, name, url);
        if self.provider.verify(says.as_bytes(), &self.signature).is_err() {
            let who = self.provider.fingerprint();
            let witness = witness.fingerprint();
            let sentence = format!(
                "consent: {who} did not sign this one, it was checked for witness {witness}, name {} and address {url}",
                name.as_str()
            );
            return Err(ProofError::new("act-signature", sentence));
        }
        Ok(SignedConsent { consent: self, name: name.clone(), url: url.to_owned() })
    }
}

/// A consent whose signature was verified: the address it is for, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedConsent {
    consent: Consent,
    name: AgentName,
    url: String,
}

impl SignedConsent {
    /// Who consents.
    #[must_use]
    pub fn provider(&self) -> PublicKey {
        self.consent.provider
    }

    /// The signature, to be stored.
    #[must_use]
    pub fn signature(&self) -> Signature {
        self.consent.signature
    }

    /// Under which name.
    #[must_use]
    pub fn name(&self) -> &AgentName {
        &self.name
    }

    /// At which address, as it was signed.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn malformed(sentence: impl std::fmt::Display) -> ProofError {
    ProofError::new("proof-malformed", format!("consent: {sentence}"))
}
