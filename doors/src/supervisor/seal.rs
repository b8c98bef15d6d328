//! What a supervisor keeps on disk is sealed: XChaCha20-Poly1305 under a key that only the
//! holder of the agent's key can make. A changed bit, or a row put in another's place, does
//! not open.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use sha2::Sha256;
use wikala_chain::SigningKey;
use zeroize::Zeroizing;

/// The string whose signature is the key material. No payload of ours begins like it, so no
/// other signature of the key is this one.
const MATERIAL: &[u8] = b"wikala-supervisor-seal:1";
const NONCE: usize = 24;

/// Seals and opens.
pub struct Seal(XChaCha20Poly1305);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// The seal of a key in one directory. `salt` is the directory's own.
    ///
    /// Ed25519 signatures are deterministic (RFC 8032 §5.1.6), so the same key makes the same
    /// material wherever it is held; HKDF (RFC 5869) makes a key of it.
    #[must_use]
    pub fn of(key: &SigningKey, salt: &[u8; 32]) -> Seal {
        let material = Zeroizing::new(*key.sign(MATERIAL).as_bytes());
        let mut sealing = Zeroizing::new([0; 32]);
        // 32 bytes are within what HKDF gives, so this cannot fail.
        let _ = Hkdf::<Sha256>::new(Some(salt), &*material).expand(b"snapshot", &mut *sealing);
        Seal(XChaCha20Poly1305::new(&Key::from(*sealing)))
    }

    /// Seals text for one place.
    #[must_use]
    pub fn close(&self, place: &str, text: &str) -> Vec<u8> {
        let nonce: [u8; NONCE] = rand::random();
        let sealed = self.0.encrypt(&XNonce::from(nonce), Payload { msg: text.as_bytes(), aad: place.as_bytes() });
        [&nonce[..], &sealed.unwrap_or_default()].concat()
    }

    /// Opens what was sealed for this place. `None`: another key, another place, or changed since.
    #[must_use]
    pub fn open(&self, place: &str, sealed: &[u8]) -> Option<String> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        let text = self.0.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: place.as_bytes() }).ok()?;
        String::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_opens_for_its_key_its_directory_and_its_place_and_only_whole() {
        let key = SigningKey::from_seed([1; 32]);
        let seal = Seal::of(&key, &[2; 32]);
        let sealed = seal.close("here", "words");
        assert_eq!(Seal::of(&key, &[2; 32]).open("here", &sealed).as_deref(), Some("words"));
        assert!(!sealed.windows(5).any(|part| part == b"words"));
        assert_ne!(sealed, seal.close("here", "words"), "a nonce of its own each time");
        assert_eq!(seal.open("there", &sealed), None);
        assert_eq!(Seal::of(&key, &[3; 32]).open("here", &sealed), None);
        assert_eq!(Seal::of(&SigningKey::from_seed([9; 32]), &[2; 32]).open("here", &sealed), None);
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(seal.open("here", &flipped), None, "bit {bit}");
        }
        assert_eq!(seal.open("here", &sealed[..NONCE]), None);
        assert_eq!(seal.open("here", b""), None);
    }
}
