//! Tickets: admission without a write. One names one key, lives for a minute, and is
//! burned by that key's valid proof alone.
//!
//! ```text
//! u32 time, big-endian | 4 random bytes | first 8 bytes of HMAC-SHA256(secret, key | time | random)
//! ```
//! as 32 hex digits.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use wikala_certs::Moment;
use wikala_chain::{PublicKey, is_nonce};

/// How long a ticket is valid, seconds.
pub const VALID_S: u64 = 60;

/// A ticket that this house issued to a certain key; whether it is still valid is not yet asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    text: String,
    issued_s: u64,
}

impl Ticket {
    /// A new ticket for a key.
    #[must_use]
    pub fn issue(secret: &[u8; 32], key: &PublicKey, now: Moment) -> String {
        let mut bytes = [0u8; 16];
        // Wraps in 2106; a ticket only lives a minute.
        bytes[..4].copy_from_slice(&(now.as_secs() as u32).to_be_bytes());
        rand::fill(&mut bytes[4..8]);
        let tag = mac(secret, key, &bytes[..8]).finalize().into_bytes();
        bytes[8..].copy_from_slice(&tag[..8]);
        hex::encode(bytes)
    }

    /// Reads a ticket that was issued to `key`; `None` for anything else, so that nobody
    /// else's proof can burn it.
    #[must_use]
    pub fn parse(text: &str, secret: &[u8; 32], key: &PublicKey) -> Option<Ticket> {
        if !is_nonce(text) {
            return None;
        }
        let mut bytes = [0u8; 16];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        let (head, tag) = bytes.split_at(8);
        mac(secret, key, head).verify_truncated_left(tag).ok()?;
        let issued_s = u64::from(u32::from_be_bytes([head[0], head[1], head[2], head[3]]));
        Some(Ticket { text: text.to_owned(), issued_s })
    }

    /// Valid now, by the desk's clock, which never goes back.
    #[must_use]
    pub fn is_live(&self, now: Moment) -> bool {
        now.as_secs().checked_sub(self.issued_s).is_some_and(|age| age <= VALID_S)
    }

    /// The ticket as it stands on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn mac(secret: &[u8; 32], key: &PublicKey, head: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of any length; this one is always 32 bytes.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes any key length");
    mac.update(key.as_bytes());
    mac.update(head);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use wikala_chain::SigningKey;

    #[test]
    fn a_ticket_is_one_keys_for_a_minute() {
        let (secret, at) = ([7; 32], 1_790_000_000);
        let key = SigningKey::from_seed([1; 32]).public();
        let other = SigningKey::from_seed([2; 32]).public();
        let text = Ticket::issue(&secret, &key, Moment::from_secs(at));
        let ticket = Ticket::parse(&text, &secret, &key).unwrap();
        for (seconds, live) in [(at - 1, false), (at, true), (at + 60, true), (at + 61, false)] {
            assert_eq!(ticket.is_live(Moment::from_secs(seconds)), live, "{seconds}");
        }
        assert_eq!(Ticket::parse(&text, &secret, &other), None);
        assert_eq!(Ticket::parse(&text, &[8; 32], &key), None);
        assert_eq!(Ticket::parse(&text.to_uppercase(), &secret, &key), None);
        for at in 0..32 {
            let mut edited = text.clone().into_bytes();
            edited[at] = if edited[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(Ticket::parse(&String::from_utf8(edited).unwrap(), &secret, &key), None);
        }
    }
}
