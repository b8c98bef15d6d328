//! Key files: PKCS#8 PEM (RFC 8410, RFC 5958), and a bare seed in hex.
//!
//! Written as version 1, which OpenSSL, Node and Python read; versions 1 and 2
//! are read. Anything else in the file is refused rather than skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::encoding::unhex;
use crate::key::{PublicKey, SigningKey};

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// `SEQUENCE { INTEGER 0, SEQUENCE { OID 1.3.101.112 }, OCTET STRING { OCTET STRING {` seed.
const V1: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];
/// What stands between the length byte and the seed, with the version cut out.
const ALGORITHM: [u8; 11] = [0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// The public key that version 2 may append: `[1] BIT STRING` as RFC 5958 tags
/// it (implicit), and as some libraries wrote it (explicit).
const PUBLIC_IMPLICIT: [u8; 3] = [0x81, 0x21, 0];
const PUBLIC_EXPLICIT: [u8; 5] = [0xa1, 0x23, 3, 0x21, 0];

/// Why a text is not a private key we read. Never shows any of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// Not one PEM block labelled `PRIVATE KEY`.
    #[error(
        "key file: not one PEM block, -----BEGIN PRIVATE KEY----- expected (encrypted keys are not read)"
    )]
    NotPem,
    /// The block is not PKCS#8 for Ed25519, version 1 or 2.
    #[error("key file: not an Ed25519 key, PKCS#8 version 1 or 2 expected")]
    NotEd25519,
    /// The public key inside the file is not the one this seed gives.
    #[error("key file: the public key in it belongs to another private key, make a new file")]
    PublicMismatch,
    /// Not 64 lower-case hex digits.
    #[error("key: not a seed, 64 lower-case hex digits expected")]
    NotSeedHex,
}

impl SigningKey {
    /// The key as PKCS#8 version 1 PEM, with a final line break.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let mut der = Zeroizing::new([0u8; 48]);
        der[..16].copy_from_slice(&V1);
        der[16..].copy_from_slice(self.seed());
        // 48 bytes are 64 characters: one PEM line.
        let body = Zeroizing::new(STANDARD.encode(&der[..]));
        Zeroizing::new(format!("{BEGIN}\n{}\n{END}\n", *body))
    }

    /// Reads PKCS#8 PEM, version 1 or 2; when the file also holds the public
    /// key, it must be the right one.
    pub fn from_pem(text: &str) -> Result<Self, KeyFileError> {
        let body = text
            .trim()
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.strip_suffix(END))
            .ok_or(KeyFileError::NotPem)?;
        let body: Zeroizing<String> =
            Zeroizing::new(body.chars().filter(|c| !c.is_ascii_whitespace()).collect());
        let der = Zeroizing::new(STANDARD.decode(&*body).map_err(|_| KeyFileError::NotPem)?);
        let (seed, public) = parse_der(&der).ok_or(KeyFileError::NotEd25519)?;
        let key = SigningKey::from_seed(*seed);
        match public {
            Some(public) if public != key.public().as_bytes() => Err(KeyFileError::PublicMismatch),
            _ => Ok(key),
        }
    }

    /// Reads a seed as 64 lower-case hex digits, as it comes on standard input
    /// (surrounding white space is ignored).
    pub fn from_seed_hex(text: &str) -> Result<Self, KeyFileError> {
        let seed = Zeroizing::new(unhex(text.trim()).ok_or(KeyFileError::NotSeedHex)?);
        Ok(SigningKey::from_seed(*seed))
    }
}

/// The seed and, in version 2, the public key. DER has one spelling for each
/// of these shapes, so comparing bytes is parsing.
fn parse_der(der: &[u8]) -> Option<(&[u8; 32], Option<&[u8]>)> {
    let [0x30, length, 2, 1, version, rest @ ..] = der else {
        return None;
    };
    if usize::from(*length) != der.len() - 2 {
        return None;
    }
    let (seed, tail) = rest.strip_prefix(&ALGORITHM)?.split_first_chunk::<32>()?;
    let public = match (version, tail) {
        (0 | 1, []) => None,
        (1, tail) => {
            let public = tail
                .strip_prefix(&PUBLIC_IMPLICIT)
                .or_else(|| tail.strip_prefix(&PUBLIC_EXPLICIT))?;
            Some(public).filter(|public| public.len() == 32)?.into()
        }
        _ => return None,
    };
    Some((seed, public))
}

/// So that `key show` can print what a file would sign as without holding the key.
impl From<&SigningKey> for PublicKey {
    fn from(key: &SigningKey) -> Self {
        key.public()
    }
}
