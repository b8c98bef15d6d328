//! SHA-256 digests and the short fingerprints that stand for keys in sentences.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::encoding::{NotHex, unhex};

/// A SHA-256 value; written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// 32 zero bytes: stands in a presenter proof where a chainless request has no tip.
    pub const ZERO: Digest = Digest([0; 32]);

    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }

    /// Takes 32 bytes as they are, for instance from a database column.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }

    /// Reads 64 lower-case hex digits.
    pub fn from_hex(text: &str) -> Result<Self, NotHex> {
        unhex(text).map(Digest).ok_or(NotHex { digits: 64 })
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The first 8 bytes of the SHA-256 of a raw key; written as 16 lower-case hex digits.
///
/// A name for people and logs, never an identity: 64 bits can be collided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 8]);

impl Fingerprint {
    /// The fingerprint of these raw key bytes.
    pub(crate) fn of(key: &[u8; 32]) -> Self {
        let mut short = [0; 8];
        short.copy_from_slice(&Digest::of(key).0[..8]);
        Fingerprint(short)
    }

    /// Reads 16 lower-case hex digits.
    pub fn from_hex(text: &str) -> Result<Self, NotHex> {
        unhex(text).map(Fingerprint).ok_or(NotHex { digits: 16 })
    }

    /// The 8 bytes.
    pub fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    /// 16 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_lower_case_and_exact() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(Digest::from_hex(&digest.to_hex()), Ok(digest));
        let upper = digest.to_hex().to_uppercase();
        for bad in [&upper[..], "", "e3", &digest.to_hex()[1..], "0xe3b0", "é"] {
            assert!(Digest::from_hex(bad).is_err(), "{bad}");
        }
        assert!(Fingerprint::from_hex("0123456789abcdef").is_ok());
        assert!(Fingerprint::from_hex("0123456789abcdeF").is_err());
    }
}
