//! Lower-case hex: the one way keys, signatures and digests are written.

/// Reads exactly `N` bytes of lower-case hex.
///
/// `None` for any other length, an upper-case digit or a space: two spellings
/// of one key would be two heads to whoever compares strings.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let canonical = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if text.len() != 2 * N || !text.bytes().all(canonical) {
        return None;
    }
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

/// A text stood exactly where a fixed number of lower-case hex digits must stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hex: not {digits} lower-case hex digits")]
pub struct NotHex {
    /// How many digits were expected.
    pub digits: usize,
}

/// Whether `text` is a nonce or ticket as the wire writes them: 32 lower-case hex digits.
pub fn is_nonce(text: &str) -> bool {
    unhex::<16>(text).is_some()
}

/// A fresh nonce: 16 random bytes as 32 lower-case hex digits.
pub fn nonce() -> String {
    let mut bytes = [0u8; 16];
    rand::fill(&mut bytes[..]);
    hex::encode(bytes)
}
