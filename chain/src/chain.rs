//! Chains: from a list of tokens to a proof of origin.
//!
//! [`Chain`] is what came in, [`VerifiedChain`] what may be believed; the step
//! between consumes the first. A verified chain proves where work comes from.
//! It never proves who sends it now: anyone who was shown it can show it on.

use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::cache::Recent;
use crate::digest::Digest;
use crate::error::{ChainError, Flaw};
use crate::hop::{Hop, Target};
use crate::json;
use crate::key::{PublicKey, SigningKey};

/// The longest chain read or written, in hops.
pub const MAX_HOPS: usize = 64;
/// The largest token read or written, in bytes.
pub const MAX_HOP_BYTES: usize = 2 * 1024;

/// Who began a chain: the signer of hop 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Head(pub PublicKey);

/// Who extended a chain last: the signer of its last hop. A different type from
/// [`Head`], because comparing the wrong one lets anyone replay a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Presenter(pub PublicKey);

/// A list of tokens within the limits; nothing in it is verified.
#[derive(Clone)]
pub struct Chain {
    tokens: Vec<String>,
}

impl Chain {
    /// Reads the JSON text of an `actorChain` value; `null` is no chain.
    ///
    /// # Errors
    /// `chain-not-a-list`, `chain-empty`, `chain-too-long`, `hop-not-a-string`,
    /// `hop-too-large`, looked for in this order.
    pub fn parse_json(raw: &str) -> Result<Option<Chain>, ChainError> {
        if raw.trim() == "null" {
            return Ok(None);
        }
        let mut reader = serde_json::Deserializer::from_str(raw);
        let values = Elements.deserialize(&mut reader);
        let whole = reader.end();
        let (Ok(values), Ok(())) = (values, whole) else {
            return Err(ChainError::list(Flaw::NotAList));
        };
        check_length(values.len())?;
        let read = |(n, raw): (usize, &&RawValue)| json::string(raw.get()).ok_or(ChainError::at(n, Flaw::NotAString));
        let tokens = values.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Self::parse(tokens).map(Some)
    }

    /// Takes tokens that are already strings.
    ///
    /// # Errors
    /// `chain-empty`, `chain-too-long`, `hop-too-large`.
    pub fn parse(tokens: Vec<String>) -> Result<Chain, ChainError> {
        check_length(tokens.len())?;
        for (n, token) in tokens.iter().enumerate() {
            check_size(n, token)?;
        }
        Ok(Chain { tokens })
    }

    /// Verifies every hop and every link; the first flaw, by hop, is the answer.
    ///
    /// Prefixes that the cache has seen verified are taken from it: extending a
    /// known chain costs one signature.
    pub fn verify(self, cache: &PrefixCache) -> Result<VerifiedChain, ChainError> {
        let mut hops: Vec<Hop> = Vec::with_capacity(self.tokens.len() + 1);
        let mut prefix = Digest::ZERO;
        for (n, token) in self.tokens.into_iter().enumerate() {
            let digest = Digest::of(token.as_bytes());
            prefix = extend_prefix(&prefix, &digest);
            let hop = match cache.find(&prefix) {
                Some(hop) => hop,
                None => {
                    let hop = Hop::verify(token, digest).map_err(|flaw| ChainError::at(n, flaw))?;
                    check_link(hops.last(), &hop, n).map_err(|flaw| ChainError::at(n, flaw))?;
                    cache.insert(prefix, &hop);
                    hop
                }
            };
            hops.push(hop);
        }
        Ok(VerifiedChain { hops })
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({} hops, unverified)", self.tokens.len())
    }
}

/// Names a prefix by SHA-256 over what came before it and its last token, so
/// an entry stands for these tokens in this order from the first hop on.
fn extend_prefix(before: &Digest, token: &Digest) -> Digest {
    let mut both = [0; 64];
    both[..32].copy_from_slice(before.as_bytes());
    both[32..].copy_from_slice(token.as_bytes());
    Digest::of(&both)
}

fn check_length(hops: usize) -> Result<(), ChainError> {
    match hops {
        0 => Err(ChainError::list(Flaw::Empty)),
        1..=MAX_HOPS => Ok(()),
        _ => Err(ChainError::list(Flaw::TooLong)),
    }
}

fn check_size(n: usize, token: &str) -> Result<(), ChainError> {
    match token.len() {
        0..=MAX_HOP_BYTES => Ok(()),
        bytes => Err(ChainError::at(n, Flaw::TooLarge(bytes))),
    }
}

/// The checks between neighbours: the hash link, then the successor rule.
fn check_link(before: Option<&Hop>, hop: &Hop, n: usize) -> Result<(), Flaw> {
    let Some(before) = before else {
        return if hop.prev().is_some() { Err(Flaw::NotFirst) } else { Ok(()) };
    };
    if hop.prev() != Some(before.digest()) {
        return Err(Flaw::BrokenLink(n - 1));
    }
    let Some(target) = before.dispatched_to() else {
        return Ok(());
    };
    let signer = hop.actor();
    if signer == target.provider {
        return Ok(()); // the party that was named, whatever it does next
    }
    if signer != before.actor() {
        let (signer, target) = (signer.fingerprint(), target.provider.fingerprint());
        return Err(Flaw::WrongSuccessor { signer, target });
    }
    // The dispatcher again: only to offer the work to someone else, never to
    // slip into the chain as a party to the work it passes on.
    match hop.dispatched_to() {
        Some(_) => Ok(()),
        None => Err(Flaw::WitnessAsParty(signer.fingerprint())),
    }
}

/// A chain whose every hop and link was verified; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedChain {
    hops: Vec<Hop>,
}

impl VerifiedChain {
    /// Begins a chain: one hop by this key, its head and presenter.
    pub fn start(key: &SigningKey) -> Self {
        VerifiedChain { hops: vec![Hop::sign(key, None, None)] }
    }

    /// Adds a plain hop: "I take this on".
    ///
    /// # Errors
    /// What any reader would refuse: `hop-witness-as-party`,
    /// `hop-wrong-successor`, `chain-too-long`.
    pub fn extend(&self, key: &SigningKey) -> Result<Self, ChainError> {
        self.append(Hop::sign(key, Some(self.tip()), None))
    }

    /// Adds a dispatch hop: "I sent this to that agent".
    ///
    /// # Errors
    /// `hop-wrong-successor`, `chain-too-long`, `hop-too-large`.
    pub fn dispatch(&self, key: &SigningKey, to: Target) -> Result<Self, ChainError> {
        self.append(Hop::sign(key, Some(self.tip()), Some(to)))
    }

    fn append(&self, hop: Hop) -> Result<Self, ChainError> {
        let n = self.hops.len();
        check_length(n + 1)?;
        check_size(n, hop.token())?;
        check_link(self.hops.last(), &hop, n).map_err(|flaw| ChainError::at(n, flaw))?;
        let mut hops = Vec::with_capacity(n + 1);
        hops.extend_from_slice(&self.hops);
        hops.push(hop);
        Ok(VerifiedChain { hops })
    }

    /// The signer of hop 0: whose responsibility this is.
    pub fn head(&self) -> Head {
        Head(self.hops[0].actor()) // never empty: start makes one hop, parse refuses none
    }

    /// The signer of the last hop: who must now be there in person.
    pub fn presenter(&self) -> Presenter {
        Presenter(self.last().actor())
    }

    /// The hops in order.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// SHA-256 of the last token.
    pub fn tip(&self) -> Digest {
        self.last().digest()
    }

    /// The tokens in order, as received.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.hops.iter().map(Hop::token)
    }

    /// The signers in order.
    pub fn actors(&self) -> impl Iterator<Item = PublicKey> {
        self.hops.iter().map(Hop::actor)
    }

    /// The tokens as a compact JSON array.
    pub fn to_json(&self) -> String {
        // A verified token is base64url and dots: nothing to escape.
        let tokens: Vec<&str> = self.tokens().collect();
        format!("[\"{}\"]", tokens.join("\",\""))
    }

    fn last(&self) -> &Hop {
        &self.hops[self.hops.len() - 1] // never empty, as above
    }
}

/// Verified prefixes seen lately, so that a known chain costs hashes only.
///
/// Bounded; holds only valid results, so a flood of bad chains cannot grow it
/// and no entry can turn a refusal into an acceptance. Shared by reference.
pub struct PrefixCache(Recent<Digest, Hop>);

impl PrefixCache {
    /// Remembers at most `capacity` prefixes, each about 600 bytes, 3 KiB at worst.
    pub fn new(capacity: usize) -> Self {
        PrefixCache(Recent::new(capacity))
    }

    /// Remembers nothing: every signature is verified each time.
    pub fn disabled() -> Self {
        Self::new(0)
    }

    /// Remembers a chain whose last hop was signed here, so that the reader of
    /// what comes back need not verify our own signature. Valid by construction.
    pub fn remember(&self, chain: &VerifiedChain) {
        let mut prefix = Digest::ZERO;
        for hop in &chain.hops {
            prefix = extend_prefix(&prefix, &hop.digest());
            self.insert(prefix, hop);
        }
    }

    /// How many prefixes are remembered now.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no prefix is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find(&self, prefix: &Digest) -> Option<Hop> {
        self.0.find(prefix)
    }

    fn insert(&self, prefix: Digest, hop: &Hop) {
        self.0.insert(prefix, hop.clone());
    }
}

impl fmt::Debug for PrefixCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixCache({} prefixes)", self.len())
    }
}

/// Reads a JSON array but keeps no more than one element past the limit, so a
/// body full of `0,0,0` is not multiplied in memory.
struct Elements;

impl<'de> DeserializeSeed<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while kept.len() <= MAX_HOPS {
            match list.next_element()? {
                Some(value) => kept.push(value),
                None => return Ok(kept),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept)
    }
}
