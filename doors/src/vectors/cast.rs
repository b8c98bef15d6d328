//! The parties of the cases, the same in every family. Their seeds are public: never
//! accept one of these keys.

use wikala_chain::{Digest, PublicKey, Signature, SigningKey, base64url};

/// A party: its seed is this byte 32 times.
#[derive(Clone, Copy)]
pub(super) struct Party(pub(super) u8);

/// The head: begins the chain.
pub(super) const H: Party = Party(0xa1);
/// A party that takes the work on.
pub(super) const A: Party = Party(0xa2);
/// Another.
pub(super) const B: Party = Party(0xa3);
/// The witness.
pub(super) const W: Party = Party(0xa4);
/// Another witness. Its seed is the reference's test key.
pub(super) const W2: Party = Party(0xa5);
/// The provider.
pub(super) const P: Party = Party(0xa6);
/// A stranger.
pub(super) const X: Party = Party(0xa7);
/// A session key.
pub(super) const S: Party = Party(0xa8);
/// The durable key behind it.
pub(super) const D: Party = Party(0xa9);

/// The run of the cases.
pub(super) const RUN: &str = "run_2c26b46b68ffc68ff99b453c";
/// The time of the cases.
pub(super) const NOW: u64 = 1_764_540_000;
/// The nonce of the cases.
pub(super) const NONCE: &str = "c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9";

impl Party {
    pub(super) fn key(self) -> SigningKey {
        SigningKey::from_seed([self.0; 32])
    }

    pub(super) fn public(self) -> PublicKey {
        self.key().public()
    }

    pub(super) fn hex(self) -> String {
        self.public().to_hex()
    }

    pub(super) fn seed_hex(self) -> String {
        format!("{:02x}", self.0).repeat(32)
    }

    /// A signature over any text, as hex.
    pub(super) fn sign(self, text: &str) -> String {
        self.key().sign(text.as_bytes()).to_hex()
    }

    /// A token over any claims, well-formed or not.
    pub(super) fn token(self, header: &str, claims: impl AsRef<[u8]>) -> String {
        let signed = format!("{}.{}", base64url::encode(header.as_bytes()), base64url::encode(claims.as_ref()));
        let signature = self.key().sign(signed.as_bytes());
        format!("{signed}.{}", base64url::encode(signature.as_bytes()))
    }
}

pub(super) fn sha256(text: &str) -> String {
    Digest::of(text.as_bytes()).to_hex()
}

/// The order of the base point, little-endian (RFC 8032, 5.1).
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// The same signature with S + L: a lenient verifier takes both, so the text of a proof
/// could change without its signer.
pub(super) fn malleated(signature: &str) -> String {
    let mut bytes = Signature::from_hex(signature).map_or([0; 64], |signature| *signature.as_bytes());
    let mut carry = 0u16;
    for (byte, order) in bytes[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
    Signature::from_bytes(bytes).to_hex()
}
