//! Base64url without padding, canonical (RFC 4648 §5, RFC 7515 §2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Writes bytes as unpadded base64url.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads unpadded base64url; `None` unless [`encode`] would write `text` again.
///
/// Padding, line breaks, the other alphabet and stray bits in the last
/// character are refused: each would be a second spelling of one signed token.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_spelling_is_read() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", &[0xff, 0xef, 0xbe]] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
        }
        for bad in ["YQ==", "YR", "Y", "YQ\n", " YQ", "+/8", "YW=", "YWI=", "Y Q"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        // Every two-character text: read only if it is its own re-encoding.
        for a in 0u8..128 {
            for b in 0u8..128 {
                let text = String::from_utf8(vec![a, b]).unwrap(); // ASCII by the loop bounds
                if let Some(bytes) = decode(&text) {
                    assert_eq!(encode(&bytes), text);
                }
            }
        }
    }
}
