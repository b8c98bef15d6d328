//! The proof as JSON carries it: who, when, signature.

use wikala_chain::json::{self, JsonError};
use wikala_chain::{AgentName, Digest, Payload, PublicKey, RawObject, Signature, SigningKey, is_nonce, payload};

use crate::error::ProofError;
use crate::moment::Moment;

/// `{"publicKey":hex,"timestamp":N,"signature":hex}`, and `nonce` for presenters.
///
/// A claim, nothing verified: it does not say what was signed. The place it
/// stands in does, and [`crate::SignedAct`] or [`crate::SignedPresenter`] checks it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The key that is said to have signed.
    pub public_key: PublicKey,
    /// When, in Unix seconds, as in the signed bytes.
    pub timestamp: u64,
    /// Over a payload that the place decides.
    pub signature: Signature,
    /// 32 lower-case hex digits; presenters only.
    pub nonce: Option<String>,
}

impl Proof {
    /// Reads a proof from JSON text.
    ///
    /// # Errors
    /// `proof-malformed` for anything else than the closed set of members in
    /// their one encoding, keys that are not admitted included.
    pub fn parse(raw: &str) -> Result<Self, ProofError> {
        let members = json::members(raw).map_err(|error| match error {
            JsonError::DuplicateKey(key) => malformed(format!("{key:?} is there twice")),
            _ => malformed("not a JSON object"),
        })?;
        let (mut public_key, mut timestamp, mut signature, mut nonce) = (None, None, None, None);
        for (key, raw) in members {
            let text = || json::string(raw).ok_or_else(|| malformed(format!("{key} is not a string")));
            match &*key {
                "publicKey" => {
                    let admitted = PublicKey::from_hex(&text()?);
                    public_key = Some(admitted.map_err(|error| malformed(format!("publicKey: {error}")))?);
                }
                "timestamp" => {
                    let seconds = json::integer(raw);
                    timestamp = Some(seconds.map_err(|_| malformed("timestamp is not whole seconds"))?);
                }
                "signature" => {
                    let read = Signature::from_hex(&text()?);
                    signature = Some(read.map_err(|_| malformed("signature is not 128 lower-case hex digits"))?);
                }
                "nonce" => {
                    let read = text()?;
                    if !is_nonce(&read) {
                        return Err(malformed("nonce is not 32 lower-case hex digits"));
                    }
                    nonce = Some(read);
                }
                _ => return Err(malformed(format!("member {key:?} is unknown"))),
            }
        }
        let missing = |name| malformed(format!("{name} is missing"));
        Ok(Proof {
            public_key: public_key.ok_or_else(|| missing("publicKey"))?,
            timestamp: timestamp.ok_or_else(|| missing("timestamp"))?,
            signature: signature.ok_or_else(|| missing("signature"))?,
            nonce,
        })
    }

    /// The proof as compact JSON.
    pub fn to_json(&self) -> String {
        let mut object = RawObject::new();
        object.set("publicKey", quoted(&self.public_key.to_hex()));
        object.set("timestamp", number(self.timestamp));
        object.set("signature", quoted(&self.signature.to_hex()));
        if let Some(nonce) = &self.nonce {
            object.set("nonce", quoted(nonce));
        }
        object.to_raw().get().to_owned()
    }

    /// Signs `funduq-resolve`: "I answer this paused run, now".
    pub fn resolve(key: &SigningKey, run: &str, now: Moment) -> Self {
        Self::sign(key, &payload::resolve(run, now.as_secs()), now, None)
    }

    /// Signs `wikala-answer`: as a resolve, bound to these asks and this answer.
    pub fn answer(key: &SigningKey, run: &str, asks: &[&str], answer: &[u8], now: Moment) -> Self {
        Self::sign(key, &payload::answer(run, asks, answer, now.as_secs()), now, None)
    }

    /// Signs `funduq-cancel`: "I ask this run to stop, now".
    pub fn cancel(key: &SigningKey, run: &str, now: Moment) -> Self {
        Self::sign(key, &payload::cancel(run, now.as_secs()), now, None)
    }

    /// Signs `wikala-present`: "I present this here, to this agent, once".
    /// `nonce`: 32 lower-case hex digits, as [`wikala_chain::nonce`] makes them.
    pub fn present(
        key: &SigningKey,
        witness: &PublicKey,
        provider: &PublicKey,
        name: &AgentName,
        tip: Option<Digest>,
        nonce: &str,
        now: Moment,
    ) -> Self {
        let payload = payload::present(witness, provider, name, tip, nonce, now.as_secs());
        Self::sign(key, &payload, now, Some(nonce.to_owned()))
    }

    fn sign(key: &SigningKey, payload: &Payload, now: Moment, nonce: Option<String>) -> Self {
        Proof { public_key: key.public(), timestamp: now.as_secs(), signature: key.sign(payload.as_bytes()), nonce }
    }

    /// Whether the claimed key signed this payload.
    pub(crate) fn covers(&self, payload: &Payload) -> bool {
        self.public_key.verify(payload.as_bytes(), &self.signature).is_ok()
    }
}

fn malformed(sentence: impl std::fmt::Display) -> ProofError {
    ProofError::new("proof-malformed", format!("proof: {sentence}"))
}

/// A JSON string as raw text.
pub(crate) fn quoted(text: &str) -> Box<serde_json::value::RawValue> {
    // A quoted str is JSON whatever it holds.
    serde_json::value::RawValue::from_string(json::quote(text)).expect("a JSON string")
}

/// A JSON number as raw text.
pub(crate) fn number(n: u64) -> Box<serde_json::value::RawValue> {
    // Decimal digits are JSON.
    serde_json::value::RawValue::from_string(n.to_string()).expect("a JSON number")
}
