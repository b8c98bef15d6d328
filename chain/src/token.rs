//! One compact JWS (RFC 7515 §3.1, RFC 8037 §3.1), split and decoded, not yet believed.
//!
//! ```text
//! eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9 . eyJhY3RvclB1YmxpY0tleSI6... . signature
//! header                                 claims                        64 bytes
//! ```
//! No JWT library: their acceptance sets differ between versions, and each
//! difference is a token that one reader believes and another does not.

use crate::base64url;
use crate::error::Flaw;
use crate::json;
use crate::key::{Signature, SigningKey};

/// `{"alg":"EdDSA","typ":"JWT"}`, the header we write.
const HEADER: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9";

/// A token whose three segments decode and whose header is the one allowed.
pub(crate) struct Token<'t> {
    /// `header.claims` as received: the bytes under the signature.
    pub(crate) signed: &'t [u8],
    /// The decoded claims segment.
    pub(crate) claims: Vec<u8>,
    /// `None` if the third segment is not 64 bytes: no signature verifies then.
    pub(crate) signature: Option<Signature>,
}

impl<'t> Token<'t> {
    pub(crate) fn parse(token: &'t str) -> Result<Self, Flaw> {
        let segments = token.split('.').count();
        let [header, claims, signature] = token.splitn(3, '.').collect::<Vec<_>>()[..] else {
            return Err(Flaw::NotJws(segments));
        };
        if segments != 3 {
            return Err(Flaw::NotJws(segments));
        }
        let decode = |name, segment| base64url::decode(segment).ok_or(Flaw::Base64(name));
        let header_bytes = decode("header", header)?;
        let claims_bytes = decode("claims segment", claims)?;
        let signature_bytes = decode("signature", signature)?;
        if header != HEADER {
            check_header(&header_bytes)?;
        }
        Ok(Token {
            signed: &token.as_bytes()[..header.len() + 1 + claims.len()],
            claims: claims_bytes,
            signature: signature_bytes.try_into().ok().map(Signature::from_bytes),
        })
    }
}

/// `alg` = `EdDSA`, optional `typ` = `JWT`, nothing else. A closed header keeps
/// out `kid`, `jwk`, `crit` and `b64`, each of which tells some reader to
/// verify something else.
fn check_header(bytes: &[u8]) -> Result<(), Flaw> {
    let text = std::str::from_utf8(bytes).map_err(|_| Flaw::Header)?;
    let members = json::members(text).map_err(|_| Flaw::Header)?;
    let mut alg = false;
    for (key, raw) in members {
        match (&*key, json::string(raw).as_deref()) {
            ("alg", Some("EdDSA")) => alg = true,
            ("typ", Some("JWT")) => {}
            _ => return Err(Flaw::Header),
        }
    }
    if alg { Ok(()) } else { Err(Flaw::Header) }
}

/// Signs these claims into a token, header as we write it.
pub(crate) fn sign(key: &SigningKey, claims: &str) -> String {
    let mut token = format!("{HEADER}.{}", base64url::encode(claims.as_bytes()));
    let signature = key.sign(token.as_bytes());
    token.push('.');
    token.push_str(&base64url::encode(signature.as_bytes()));
    token
}
