//! Ed25519 keys and signatures, strict: one acceptance set everywhere.

use std::fmt;
use std::sync::LazyLock;

use ed25519_dalek::{Signer as _, VerifyingKey};
use rand::TryRng as _;
use zeroize::Zeroizing;

use crate::cache::Recent;
use crate::digest::Fingerprint;
use crate::encoding::{NotHex, unhex};

/// Admitted keys remembered with their curve point, about 250 bytes each.
const ADMITTED_KEYS: usize = 16 * 1024;

/// Admission costs a scalar multiplication (the torsion check) and is for
/// ever; only keys that passed are kept, so junk keys cannot crowd them out
/// without paying for a real key each.
static ADMITTED: LazyLock<Recent<[u8; 32], VerifyingKey>> = LazyLock::new(|| Recent::new(ADMITTED_KEYS));

/// An admitted Ed25519 public key: canonical, not weak, torsion-free.
///
/// No other key has this type. A weak key signs everything for everybody, a
/// key with a torsion component has signatures on which libraries disagree,
/// and a second encoding of one point would be a second head. Displays as 64
/// lower-case hex digits, debugs as its fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// Why bytes are not a public key we admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not 64 lower-case hex digits, not on the curve, or not canonically encoded.
    #[error("key: not a canonical Ed25519 public key, 64 lower-case hex digits expected")]
    Malformed,
    /// A point of small order or with a torsion component.
    #[error("key: weak point, a key of prime order expected")]
    Weak,
}

impl PublicKey {
    /// Admits a key written as 64 lower-case hex digits.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(&unhex(text).ok_or(KeyError::Malformed)?)
    }

    /// Admits 32 raw bytes; the result is remembered, bounded.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        if ADMITTED.find(bytes).is_none() {
            ADMITTED.insert(*bytes, admit(bytes)?);
        }
        Ok(PublicKey(*bytes))
    }

    /// The 32 raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// First 16 hex digits of the SHA-256 of the raw key.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.0)
    }

    /// Verifies strictly: canonical `R` and `S`, no small-order `R`, the
    /// cofactorless equation. Never ZIP-215, never a batch verdict, whose
    /// acceptance sets differ from each other.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), BadSignature> {
        let point = match ADMITTED.find(&self.0) {
            Some(point) => point,
            None => VerifyingKey::from_bytes(&self.0).map_err(|_| BadSignature)?,
        };
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        point.verify_strict(message, &signature).map_err(|_| BadSignature)
    }
}

/// The three admission checks, in the order of their codes.
fn admit(bytes: &[u8; 32]) -> Result<VerifyingKey, KeyError> {
    let key = VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::Malformed)?;
    let point = key.to_edwards();
    if point.compress().as_bytes() != bytes {
        return Err(KeyError::Malformed);
    }
    if point.is_small_order() || !point.is_torsion_free() {
        return Err(KeyError::Weak);
    }
    Ok(key)
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

/// 64 bytes that claim to be an Ed25519 signature; written as 128 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Takes 64 bytes as they are; only [`PublicKey::verify`] judges them.
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        Signature(bytes)
    }

    /// Reads 128 lower-case hex digits.
    pub fn from_hex(text: &str) -> Result<Self, NotHex> {
        unhex(text).map(Signature).ok_or(NotHex { digits: 128 })
    }

    /// The 64 bytes.
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }

    /// 128 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({}..)", hex::encode(&self.0[..8]))
    }
}

/// The signature does not verify under this key over these bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("signature: does not verify under this key")]
pub struct BadSignature;

/// A private key. Wiped when dropped; shows only its fingerprint; not `Clone`,
/// so share it behind an `Arc`.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// The key that grows from these 32 bytes.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        SigningKey(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    /// A new key from the operating system's randomness.
    pub fn generate() -> Self {
        let mut seed = Zeroizing::new([0u8; 32]);
        // The system generator fails only where no key should be made at all;
        // there is no wire input on this path.
        rand::rngs::SysRng.try_fill_bytes(&mut seed[..]).expect("the operating system gives random bytes");
        SigningKey(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    /// The public half. A multiple of the base point by a clamped scalar: of
    /// prime order and canonically encoded, so admitted by construction.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs these bytes; Ed25519 is deterministic, the same bytes give the same signature.
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }

    /// The 32 secret bytes, for the key file alone.
    pub(crate) fn seed(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().fingerprint())
    }
}
