//! Tickets: admission to open a link, once, within a minute. Issuing costs no write;
//! only a burned one is remembered.
//!
//! ```text
//! hex( u32 unix time · 4 random bytes · first 8 bytes of HMAC-SHA256(secret, key · time · random) )
//! ```

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use wikala_certs::Moment;
use wikala_chain::PublicKey;

/// How long a ticket is valid, seconds.
pub const VALID_S: u64 = 60;

/// Issues a ticket to a key.
#[must_use]
pub fn issue(secret: &[u8; 32], key: &PublicKey, now: Moment, random: [u8; 4]) -> String {
    // Wraps in 2106 together with every ticket then out.
    let time = (now.as_secs() as u32).to_be_bytes();
    let mut ticket = Vec::with_capacity(16);
    ticket.extend_from_slice(&time);
    ticket.extend_from_slice(&random);
    ticket.extend_from_slice(&seal(secret, key, time, random));
    hex::encode(ticket)
}

/// Is this a ticket of ours, for this key, still valid?
#[must_use]
pub fn is_valid(secret: &[u8; 32], key: &PublicKey, ticket: &str, now: Moment) -> bool {
    let lower = ticket.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let Some(bytes) = hex::decode(ticket).ok().filter(|bytes| bytes.len() == 16 && lower) else { return false };
    let (mut time, mut random) = ([0; 4], [0; 4]);
    time.copy_from_slice(&bytes[..4]);
    random.copy_from_slice(&bytes[4..8]);
    let issued = u64::from(u32::from_be_bytes(time));
    let age = now.as_secs().checked_sub(issued);
    // Compares digests, so that time tells nothing about the seal.
    let sealed = wikala_chain::Digest::of(&seal(secret, key, time, random)) == wikala_chain::Digest::of(&bytes[8..]);
    sealed && age.is_some_and(|age| age <= VALID_S)
}

fn seal(secret: &[u8; 32], key: &PublicKey, time: [u8; 4], random: [u8; 4]) -> [u8; 8] {
    // A key shorter than the block is padded with zeros (RFC 2104, 2).
    let mut block = [0; 64];
    block[..32].copy_from_slice(secret);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(key.as_bytes());
    mac.update(&time);
    mac.update(&random);
    let mut seal = [0; 8];
    seal.copy_from_slice(&mac.finalize().into_bytes()[..8]);
    seal
}

#[cfg(test)]
mod tests {
    use super::*;
    use wikala_chain::SigningKey;

    #[test]
    fn a_ticket_is_for_one_key_one_witness_and_one_minute() {
        let (key, other) = (SigningKey::from_seed([1; 32]).public(), SigningKey::from_seed([2; 32]).public());
        let at = Moment::from_secs(1_790_000_000);
        let ticket = issue(&[9; 32], &key, at, [1, 2, 3, 4]);
        assert_eq!(ticket.len(), 32);
        assert!(is_valid(&[9; 32], &key, &ticket, at));
        assert!(is_valid(&[9; 32], &key, &ticket, at.plus(60)));
        assert!(!is_valid(&[9; 32], &key, &ticket, at.plus(61)));
        assert!(!is_valid(&[9; 32], &key, &ticket, Moment::from_secs(1_789_999_999)));
        assert!(!is_valid(&[9; 32], &other, &ticket, at));
        assert!(!is_valid(&[8; 32], &key, &ticket, at));
        assert!(!is_valid(&[9; 32], &key, &ticket.to_uppercase(), at));
        assert!(!is_valid(&[9; 32], &key, "", at));
    }
}
