//! Key files: PKCS#8 PEM (RFC 8410, RFC 5958), and a bare seed in hex.
//!
//! Written as version 1, which OpenSSL, Node and Python read; versions 1 and 2
//! are read. Anything else in the file is refused rather than skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::encoding::unhex;
use crate::key::SigningKey;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// Version 1 up to the algorithm: `SEQUENCE (46) { INTEGER 0,`
const V1: [u8; 5] = [0x30, 0x2e, 2, 1, 0];
/// `SEQUENCE { OID 1.3.101.112 }, OCTET STRING { OCTET STRING {`, then 32 bytes of seed.
const ALGORITHM: [u8; 11] = [0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// The public key that version 2 may append: `[1] BIT STRING` as RFC 5958 tags
/// it (implicit), and as some libraries wrote it (explicit).
const PUBLIC_IMPLICIT: [u8; 3] = [0x81, 0x21, 0];
const PUBLIC_EXPLICIT: [u8; 5] = [0xa1, 0x23, 3, 0x21, 0];

/// Why a text is not a private key we read. Never shows any of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// Not one PEM block labelled `PRIVATE KEY`.
    #[error("key file: not one PEM block, -----BEGIN PRIVATE KEY----- expected (encrypted keys are not read)")]
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
        der[..5].copy_from_slice(&V1);
        der[5..16].copy_from_slice(&ALGORITHM);
        der[16..].copy_from_slice(self.seed());
        // 48 bytes are 64 characters: one PEM line.
        let body = Zeroizing::new(STANDARD.encode(&der[..]));
        Zeroizing::new(format!("{BEGIN}\n{}\n{END}\n", *body))
    }

    /// Reads PKCS#8 PEM, version 1 or 2; when the file also holds the public
    /// key, it must be the right one.
    pub fn from_pem(text: &str) -> Result<Self, KeyFileError> {
        let body =
            text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END)).ok_or(KeyFileError::NotPem)?;
        let body: Zeroizing<String> = Zeroizing::new(body.chars().filter(|c| !c.is_ascii_whitespace()).collect());
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
fn parse_der(der: &[u8]) -> Option<(&[u8; 32], Option<&[u8; 32]>)> {
    let [0x30, length, 2, 1, version @ (0 | 1), rest @ ..] = der else {
        return None;
    };
    if usize::from(*length) != der.len() - 2 {
        return None;
    }
    let (seed, tail) = rest.strip_prefix(&ALGORITHM)?.split_first_chunk::<32>()?;
    // Attributes, `[0]`: a friendly name and the like, nothing we act on.
    let tail = match tail {
        [0xa0, length, rest @ ..] => rest.get(usize::from(*length)..)?,
        _ => tail,
    };
    if tail.is_empty() {
        return Some((seed, None));
    }
    let public = tail.strip_prefix(&PUBLIC_IMPLICIT).or_else(|| tail.strip_prefix(&PUBLIC_EXPLICIT))?;
    // Version 1 of the format has no place for a public key.
    let public = Some(public).filter(|_| *version == 1)?;
    Some((seed, Some(public.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8410 section 10.3, both examples; the second has attributes and the public key.
    const RFC_V1: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
    const RFC_V2: &str = "-----BEGIN PRIVATE KEY-----
MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB
Z9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PRIVATE KEY-----
";
    const RFC_PUBLIC: &str = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";

    fn pem(der: &[u8]) -> String {
        format!("{BEGIN}\r\n{}\r\n{END}\r\n", STANDARD.encode(der))
    }

    fn public(text: &str) -> Result<String, KeyFileError> {
        SigningKey::from_pem(text).map(|key| key.public().to_hex())
    }

    #[test]
    fn both_versions_are_read_and_the_first_is_written() {
        assert_eq!(public(RFC_V1).as_deref(), Ok(RFC_PUBLIC));
        assert_eq!(public(RFC_V2).as_deref(), Ok(RFC_PUBLIC));
        assert_eq!(*SigningKey::from_pem(RFC_V2).unwrap().to_pem(), RFC_V1);

        let key = SigningKey::from_seed([7; 32]);
        for (head, tag) in [(0x51u8, &PUBLIC_IMPLICIT[..]), (0x53, &PUBLIC_EXPLICIT[..])] {
            let mut der = vec![0x30, head, 2, 1, 1];
            der.extend_from_slice(&ALGORITHM);
            der.extend_from_slice(&[7; 32]);
            der.extend_from_slice(tag);
            der.extend_from_slice(key.public().as_bytes());
            assert_eq!(public(&pem(&der)), Ok(key.public().to_hex()));
            *der.last_mut().unwrap() ^= 1;
            assert_eq!(public(&pem(&der)), Err(KeyFileError::PublicMismatch));
            der.pop();
            assert_eq!(public(&pem(&der)), Err(KeyFileError::NotEd25519));
            der[1] -= 1;
            der[4] = 0;
            assert_eq!(public(&pem(&der)), Err(KeyFileError::NotEd25519));
        }
    }

    #[test]
    fn anything_else_is_refused_without_a_panic() {
        let encrypted = RFC_V1.replace("PRIVATE", "ENCRYPTED PRIVATE");
        for bad in ["", "x", BEGIN, &format!("{BEGIN}{END}x"), &encrypted, &RFC_V1.replace("MC4", "MC#")] {
            assert_eq!(public(bad), Err(KeyFileError::NotPem), "{bad}");
        }
        let der = STANDARD.decode(RFC_V2.lines().skip(1).take(3).collect::<String>()).unwrap();
        for cut in 0..der.len() {
            let mut short = der[..cut].to_vec();
            assert!(public(&pem(&short)).is_err(), "{cut} bytes");
            if let Some(length) = short.get_mut(1) {
                *length = (cut - 2) as u8;
            }
            if cut != 48 && cut != 81 {
                assert!(public(&pem(&short)).is_err(), "{cut} bytes, length put right");
            }
        }
        assert_eq!(SigningKey::from_seed_hex("zz").unwrap_err(), KeyFileError::NotSeedHex);
        assert!(SigningKey::from_seed_hex(&format!("{}\n", "07".repeat(32))).is_ok());
    }

    #[test]
    fn secrets_do_not_show() {
        let key = SigningKey::from_seed([7; 32]);
        let shown = format!("{key:?}");
        assert_eq!(shown, format!("SigningKey({})", key.public().fingerprint()));
    }
}
