//! One hop: who acted, after what, and on a dispatch to whom.
//!
//! ```text
//! {"actorPublicKey":"bc7c..","prevHash":null}
//! {"actorPublicKey":"a0a0..","prevHash":"1037..","dispatchedTo":{"providerKey":"38aa..","name":"translator"}}
//! ```
//! The claims are a closed set. A hop carries keys and no time, so it never
//! expires; whether its presenter is there now is another signature's matter.

use std::fmt;
use std::sync::Arc;

use crate::digest::Digest;
use crate::encoding::unhex;
use crate::error::Flaw;
use crate::json::{self, JsonError};
use crate::key::{KeyError, PublicKey, SigningKey};
use crate::name::AgentName;
use crate::token::{self, Token};

/// RFC 7519 §4.1. Told apart from other unknown claims because a JWT library
/// would act on them, each by its own clock and rules.
const REGISTERED: [&str; 7] = ["iss", "sub", "aud", "exp", "nbf", "iat", "jti"];

/// The agent a dispatch went to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The key that must sign next.
    pub provider: PublicKey,
    /// The agent's name with that provider.
    pub name: AgentName,
}

/// A hop with a valid signature of its own. Cheap to clone: the text is shared.
#[derive(Clone, PartialEq, Eq)]
pub struct Hop(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    token: String,
    digest: Digest,
    actor: PublicKey,
    prev: Option<Digest>,
    dispatched_to: Option<Target>,
}

impl Hop {
    /// The key that signed this hop.
    pub fn actor(&self) -> PublicKey {
        self.0.actor
    }

    /// SHA-256 of the token before it; `None` on hop 0.
    pub fn prev(&self) -> Option<Digest> {
        self.0.prev
    }

    /// Whom a witness sent the work to, if this hop is a dispatch.
    pub fn dispatched_to(&self) -> Option<&Target> {
        self.0.dispatched_to.as_ref()
    }

    /// The token as received, never re-serialised.
    pub fn token(&self) -> &str {
        &self.0.token
    }

    /// SHA-256 of the whole token.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Decodes one token and verifies its signature under the key it names:
    /// every check that needs no other hop, in the order of the codes.
    pub(crate) fn verify(token: String, digest: Digest) -> Result<Hop, Flaw> {
        let parts = Token::parse(&token)?;
        let claims = Claims::parse(&parts.claims)?;
        let actor = PublicKey::from_hex(&claims.actor).map_err(|error| match error {
            KeyError::Malformed => Flaw::Key,
            KeyError::Weak => Flaw::WeakKey,
        })?;
        let signed = parts.signature.and_then(|s| actor.verify(parts.signed, &s).ok());
        signed.ok_or(Flaw::Signature(actor.fingerprint()))?;
        let Claims { prev, dispatched_to, .. } = claims;
        Ok(Hop(Arc::new(Inner { token, digest, actor, prev, dispatched_to })))
    }

    /// Signs a new hop; claims in the one order, compact.
    pub(crate) fn sign(key: &SigningKey, prev: Option<Digest>, to: Option<Target>) -> Hop {
        let actor = key.public();
        let prev_json = prev.map_or("null".to_owned(), |digest| format!("\"{digest}\""));
        let mut claims = format!("{{\"actorPublicKey\":\"{actor}\",\"prevHash\":{prev_json}");
        if let Some(Target { provider, name }) = &to {
            let name = json::quote(name.as_str());
            claims += &format!(",\"dispatchedTo\":{{\"providerKey\":\"{provider}\",\"name\":{name}}}");
        }
        claims.push('}');
        let token = token::sign(key, &claims);
        let digest = Digest::of(token.as_bytes());
        Hop(Arc::new(Inner { token, digest, actor, prev, dispatched_to: to }))
    }
}

impl fmt::Debug for Hop {
    /// Who, after what, to whom; never the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hop")
            .field("actor", &self.0.actor)
            .field("prev", &self.0.prev)
            .field("dispatched_to", &self.0.dispatched_to)
            .finish()
    }
}

/// The one place where claims become values.
struct Claims {
    /// Not yet admitted: a bad actor key has its own codes.
    actor: String,
    prev: Option<Digest>,
    dispatched_to: Option<Target>,
}

impl Claims {
    fn parse(bytes: &[u8]) -> Result<Self, Flaw> {
        let text = std::str::from_utf8(bytes).map_err(|_| Flaw::Json("not UTF-8".into()))?;
        let members = json::members(text).map_err(|error| match error {
            JsonError::DuplicateKey(key) => Flaw::DuplicateKey(key),
            other => Flaw::Json(other.to_string()),
        })?;
        for name in REGISTERED {
            if members.iter().any(|(key, _)| key == name) {
                return Err(Flaw::RegisteredClaim(name));
            }
        }
        let (mut actor, mut prev, mut dispatched_to) = (None, None, None);
        for (key, raw) in members {
            match &*key {
                "actorPublicKey" => {
                    actor = Some(json::string(raw).ok_or_else(|| claims("actorPublicKey is not a string"))?);
                }
                "prevHash" => prev = Some(parse_prev(raw)?),
                "dispatchedTo" => dispatched_to = Some(parse_target(raw)?),
                _ => {
                    return Err(claims(format!("claim {key:?} is unknown, the set is closed")));
                }
            }
        }
        Ok(Claims {
            actor: actor.ok_or_else(|| claims("actorPublicKey is missing"))?,
            prev: prev.ok_or_else(|| claims("prevHash is missing, null expected on the first hop"))?,
            dispatched_to,
        })
    }
}

fn claims(sentence: impl Into<String>) -> Flaw {
    Flaw::Claims(sentence.into())
}

fn parse_prev(raw: &str) -> Result<Option<Digest>, Flaw> {
    if raw == "null" {
        return Ok(None);
    }
    let digest = json::string(raw).and_then(|text| unhex(&text)).map(Digest::from_bytes);
    digest.map(Some).ok_or_else(|| claims("prevHash is neither null nor 64 lower-case hex digits"))
}

/// `{"providerKey":hex,"name":string}`, closed; the key by the actor key's
/// rules, since it is the key that must sign next.
fn parse_target(raw: &str) -> Result<Target, Flaw> {
    // The claims were scanned to every depth, so what fails here is no object.
    let members = json::members(raw).map_err(|_| claims("dispatchedTo is not an object"))?;
    let (mut provider, mut name) = (None, None);
    for (key, raw) in members {
        let text = json::string(raw);
        match &*key {
            "providerKey" => provider = text.and_then(|text| PublicKey::from_hex(&text).ok()),
            "name" => name = text.and_then(|text| AgentName::new(&text).ok()),
            _ => {
                return Err(claims(format!("dispatchedTo.{key:?} is unknown, the set is closed")));
            }
        }
    }
    Ok(Target {
        provider: provider.ok_or_else(|| claims("dispatchedTo.providerKey is not an admissible key"))?,
        name: name.ok_or_else(|| claims("dispatchedTo.name is not 1 to 128 characters without controls"))?,
    })
}
