//! Every signed byte string other than hops, on one page.
//!
//! Each has its own tag, so no signature can be spent as another act. Inside a
//! payload at most one part is of free form; all others are hex or decimal of
//! known shape, so no two sets of values give the same bytes. Run ids are the
//! witness's own (`run_` + 24 hex) and must be parsed as such before they come here.
//!
//! `funduq-` strings are the reference's, byte for byte; `wikala-` strings are ours.

use std::fmt;

use crate::digest::Digest;
use crate::key::PublicKey;
use crate::name::AgentName;

/// Bytes to be signed, made only by the functions on this page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(String);

impl Payload {
    /// The bytes to sign or verify.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The same as text: all payloads are UTF-8.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the bytes: what a spent act is remembered by. Never of the
    /// signature, of which one set of bytes can have several under one key.
    pub fn digest(&self) -> Digest {
        Digest::of(self.as_bytes())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `funduq-connect-provider:{witness_key}:{ticket}:{provider_nonce}`: a provider opens a link.
/// Names the witness, so it cannot be carried to another; the ticket makes it good once.
pub fn connect_provider(witness: &PublicKey, ticket: &str, nonce: &str) -> Payload {
    Payload(format!("funduq-connect-provider:{witness}:{ticket}:{nonce}"))
}

/// `funduq-connect-funduq:{ticket}:{provider_nonce}`: the witness's answer, over the provider's nonce.
pub fn connect_witness(ticket: &str, nonce: &str) -> Payload {
    Payload(format!("funduq-connect-funduq:{ticket}:{nonce}"))
}

/// `funduq-delegate:{delegate_key}:{expires_at}`: the signer says "this key acts for me until then".
pub fn delegate(delegate: &PublicKey, expires_at_s: u64) -> Payload {
    Payload(format!("funduq-delegate:{delegate}:{expires_at_s}"))
}

/// The id of an Ed25519 certificate: SHA-256 of
/// `wikala-certificate:{authority}:{delegate}:{expires_at}`. Of what it says,
/// not of its signature.
pub fn certificate_id(authority: &PublicKey, delegate: &PublicKey, expires_at_s: u64) -> Digest {
    Digest::of(format!("wikala-certificate:{authority}:{delegate}:{expires_at_s}").as_bytes())
}

/// `wikala-accept:{certificate id}`: the delegate says "yes, I act for that
/// authority". Without it anybody could name a stranger's key as delegate and take what it opens.
pub fn accept(certificate: &Digest) -> Payload {
    Payload(format!("wikala-accept:{certificate}"))
}

/// `funduq-resolve:{run_id}:{timestamp}`: "I answer this paused run, now".
/// Covers neither asks nor answer; [`answer`] does.
pub fn resolve(run: &str, at_s: u64) -> Payload {
    Payload(format!("funduq-resolve:{run}:{at_s}"))
}

/// `funduq-cancel:{run_id}:{timestamp}`: "I ask this run to stop, now".
/// Its own tag, so a resolution can never be spent as a cancel.
pub fn cancel(run: &str, at_s: u64) -> Payload {
    Payload(format!("funduq-cancel:{run}:{at_s}"))
}

/// `wikala-present:{witness_key}:{provider_key}:{agent_name}:{tip}:{nonce}:{timestamp}`:
/// "I present this here, to this agent, once". `tip` is the SHA-256 of the last
/// hop token, 64 zeros if chainless. The name may contain colons: all that
/// follows it is of fixed shape.
pub fn present(
    witness: &PublicKey,
    provider: &PublicKey,
    name: &AgentName,
    tip: Option<Digest>,
    nonce: &str,
    at_s: u64,
) -> Payload {
    let tip = tip.unwrap_or(Digest::ZERO);
    Payload(format!("wikala-present:{witness}:{provider}:{name}:{tip}:{nonce}:{at_s}"))
}

/// `wikala-answer:{run_id}:{asks_digest}:{sha256hex(answer bytes)}:{timestamp}`:
/// as [`resolve`], bound to the asks and the answer, so a carrier cannot swap it.
pub fn answer(run: &str, asks: &[&str], answer: &[u8], at_s: u64) -> Payload {
    let (asks, answer) = (asks_digest(asks), Digest::of(answer));
    Payload(format!("wikala-answer:{run}:{asks}:{answer}:{at_s}"))
}

/// SHA-256 over the ask ids sorted bytewise, each as `u32` big-endian length
/// then UTF-8. The lengths keep `["ab","c"]` and `["a","bc"]` apart.
pub fn asks_digest(asks: &[&str]) -> Digest {
    let mut sorted = asks.to_vec();
    sorted.sort_unstable();
    let mut bytes = Vec::new();
    for id in sorted {
        // Ids are bounded by the body; one of 4 GiB cannot reach this line.
        let length = u32::try_from(id.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(id.as_bytes());
    }
    Digest::of(&bytes)
}

/// `wikala-revoke:certificate/{id}:{timestamp}`: this certificate no longer
/// counts. Signed by its authority, or by its delegate.
pub fn revoke_certificate(certificate: &Digest, at_s: u64) -> Payload {
    Payload(format!("wikala-revoke:certificate/{certificate}:{at_s}"))
}

/// `wikala-revoke:authority/{key}:{timestamp}`: no certificate this authority
/// gave until now counts any longer.
pub fn revoke_authority(authority: &PublicKey, at_s: u64) -> Payload {
    Payload(format!("wikala-revoke:authority/{authority}:{at_s}"))
}

/// `wikala-consent:{witness_key}:{agent_name}:{sha256hex(upstream url)}`: the
/// provider key lets this witness dispatch to that address under this name.
pub fn consent(witness: &PublicKey, name: &AgentName, upstream_url: &str) -> Payload {
    let url = Digest::of(upstream_url.as_bytes());
    Payload(format!("wikala-consent:{witness}:{name}:{url}"))
}

/// `wikala-obligation-create:{thread_id}:{request_digest}:{timestamp}`: the author of a
/// request says "this demands an answer". `request` is the digest of the exact request.
pub fn obligation_create(thread: &str, request: &Digest, at_s: u64) -> Payload {
    Payload(format!("wikala-obligation-create:{thread}:{request}:{at_s}"))
}

/// `wikala-obligation-accept:{obligation_id}:{revision}:{timestamp}`: "I own this question".
/// The revision is the one the signer saw: carried again later, it fits no more.
pub fn obligation_accept(obligation: &str, revision: u64, at_s: u64) -> Payload {
    Payload(format!("wikala-obligation-accept:{obligation}:{revision}:{at_s}"))
}

/// `wikala-obligation-decline:{obligation_id}:{revision}:{sha256hex(reason)}:{timestamp}`:
/// "I do not take it". The reason is free text, so its digest is signed.
pub fn obligation_decline(obligation: &str, revision: u64, reason: &str, at_s: u64) -> Payload {
    let reason = Digest::of(reason.as_bytes());
    Payload(format!("wikala-obligation-decline:{obligation}:{revision}:{reason}:{at_s}"))
}

/// `wikala-obligation-progress:{obligation_id}:{revision}:{to_state}:{reason_code}:{timestamp}`:
/// "I stand there now". State and reason are codes, without colons.
pub fn obligation_progress(obligation: &str, revision: u64, to: &str, reason: &str, at_s: u64) -> Payload {
    Payload(format!("wikala-obligation-progress:{obligation}:{revision}:{to}:{reason}:{at_s}"))
}

/// `wikala-obligation-respond:{obligation_id}:{request_event_id}:{request_digest}:{response_digest}:{timestamp}`:
/// "this is my answer to exactly that request".
pub fn obligation_respond(obligation: &str, event: &str, request: &Digest, response: &Digest, at_s: u64) -> Payload {
    Payload(format!("wikala-obligation-respond:{obligation}:{event}:{request}:{response}:{at_s}"))
}

/// `wikala-obligation-cancel:{obligation_id}:{revision}:{reason_code}:{timestamp}`: the
/// requester says "no answer is owed any more".
pub fn obligation_cancel(obligation: &str, revision: u64, reason: &str, at_s: u64) -> Payload {
    Payload(format!("wikala-obligation-cancel:{obligation}:{revision}:{reason}:{at_s}"))
}

/// `wikala-mailbox-ack:{event_id}:{envelope_digest}:{timestamp}`: the recipient says "this is
/// stored with me". Custody of a message, and no word on what it asks.
pub fn mailbox_ack(event: &str, envelope: &Digest, at_s: u64) -> Payload {
    Payload(format!("wikala-mailbox-ack:{event}:{envelope}:{at_s}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::key::SigningKey;

    const RUN: &str = "run_2c26b46b68ffc68ff99b453c";

    fn key(n: u8) -> PublicKey {
        SigningKey::from_seed([n; 32]).public()
    }

    #[test]
    fn every_string_is_as_the_table_has_it() {
        let (w, p, d) = (key(1), key(2), Digest::of(b"x"));
        let name = AgentName::new("a:b \u{1f4e6}").unwrap();
        let (t, n, zeros) = ("aa".repeat(16), "bb".repeat(16), "0".repeat(64));
        let empty = Digest::of(b"");
        for (payload, expect) in [
            (connect_provider(&w, &t, &n), format!("funduq-connect-provider:{w}:{t}:{n}")),
            (connect_witness(&t, &n), format!("funduq-connect-funduq:{t}:{n}")),
            (delegate(&p, 9), format!("funduq-delegate:{p}:9")),
            (accept(&d), format!("wikala-accept:{d}")),
            (resolve(RUN, 9), format!("funduq-resolve:{RUN}:9")),
            (cancel(RUN, 9), format!("funduq-cancel:{RUN}:9")),
            (present(&w, &p, &name, Some(d), &n, 9), format!("wikala-present:{w}:{p}:a:b \u{1f4e6}:{d}:{n}:9")),
            (present(&w, &p, &name, None, &n, 9), format!("wikala-present:{w}:{p}:a:b \u{1f4e6}:{zeros}:{n}:9")),
            (answer(RUN, &[], b"", 9), format!("wikala-answer:{RUN}:{empty}:{empty}:9")),
            (revoke_certificate(&d, 9), format!("wikala-revoke:certificate/{d}:9")),
            (revoke_authority(&p, 9), format!("wikala-revoke:authority/{p}:9")),
            (obligation_create("thread_1", &d, 9), format!("wikala-obligation-create:thread_1:{d}:9")),
            (obligation_accept("ob_1", 2, 9), "wikala-obligation-accept:ob_1:2:9".to_owned()),
            (obligation_decline("ob_1", 2, "x", 9), format!("wikala-obligation-decline:ob_1:2:{d}:9")),
            (
                obligation_progress("ob_1", 2, "blocked", "r", 9),
                "wikala-obligation-progress:ob_1:2:blocked:r:9".to_owned(),
            ),
            (
                obligation_respond("ob_1", "msg_1", &d, &empty, 9),
                format!("wikala-obligation-respond:ob_1:msg_1:{d}:{empty}:9"),
            ),
            (obligation_cancel("ob_1", 2, "r", 9), "wikala-obligation-cancel:ob_1:2:r:9".to_owned()),
            (mailbox_ack("msg_1", &d, 9), format!("wikala-mailbox-ack:msg_1:{d}:9")),
            (
                consent(&w, &name, "https://agent.example/"),
                format!("wikala-consent:{w}:a:b \u{1f4e6}:{}", Digest::of(b"https://agent.example/")),
            ),
        ] {
            assert_eq!(payload.as_str(), expect);
            assert_eq!(payload.digest(), Digest::of(expect.as_bytes()));
        }
        let id = Digest::of(format!("wikala-certificate:{w}:{p}:9").as_bytes());
        assert_eq!(certificate_id(&w, &p, 9), id);
    }

    #[test]
    fn ask_ids_are_a_set_with_lengths() {
        assert_eq!(asks_digest(&["b", "a"]), asks_digest(&["a", "b"]));
        let bytes = b"\0\0\0\x01a\0\0\0\x02bc";
        assert_eq!(asks_digest(&["bc", "a"]), Digest::of(bytes));
        let different = [&["ab", "c"][..], &["a", "bc"], &["abc"], &[], &[""], &["a"], &["a", "a"]];
        let digests: HashSet<_> = different.iter().map(|asks| asks_digest(asks)).collect();
        assert_eq!(digests.len(), different.len());
    }
}
