//! The handshake of a link, both sides. A refusal here is no code on the wire: the
//! witness closes with 1008 and a sentence, a provider hangs up.

use serde_json::{Value, json};
use wikala_certs::Moment;
use wikala_chain::{PublicKey, RawObject, Signature, SigningKey, json as strict, payload};

use super::case::{Case, no, number, ok, text, with};
use super::cast::{NONCE, NOW, P, Party, W, W2, X, malleated};
use crate::link::machine::{Do, Machine};
use crate::link::ticket;

const SECRET: [u8; 32] = [0x5e; 32];
const REFUSED: &str = "handshake";

pub(super) fn replay(inputs: &Value) -> Value {
    let verdict = if text(inputs, "side") == "witness" { witness(inputs) } else { provider(inputs) };
    verdict.unwrap_or_else(|| no(REFUSED))
}

/// The real machine of the link, given one frame.
fn witness(inputs: &Value) -> Option<Value> {
    let key = SigningKey::from_seed_hex(text(inputs, "witnessSeed")).ok()?;
    let secret = hex::decode(text(inputs, "ticketSecret")).ok()?.try_into().ok()?;
    let now = Moment::from_secs(number(inputs, "now"));
    match Machine::new(&key, &secret).read(text(inputs, "hello"), now, |_| true) {
        Do::Attach { provider, capacity, welcome, .. } => Some(ok(json!({
            "provider": provider.to_hex(), "maxConcurrentRuns": capacity, "welcome": welcome,
        }))),
        _ => None,
    }
}

/// What a provider does with a welcome: nothing, unless its pinned witness signed this ticket and nonce.
fn provider(inputs: &Value) -> Option<Value> {
    let pinned = PublicKey::from_hex(text(inputs, "witness")).ok()?;
    let welcome = RawObject::parse(text(inputs, "welcome")).ok()?;
    let member = |name| strict::string(welcome.get(name)?.get());
    let named = PublicKey::from_hex(&member("funduqPublicKey")?).ok()?;
    let signed = payload::connect_witness(text(inputs, "ticket"), text(inputs, "nonce"));
    let answer = Signature::from_hex(&member("answer")?).ok()?;
    let holds = member("type")? == "welcome" && named == pinned && pinned.verify(signed.as_bytes(), &answer).is_ok();
    holds.then(|| ok(json!({})))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = hello();
    cases.extend(welcome());
    cases
}

fn issued(to: Party, at: u64) -> String {
    ticket::issue(&SECRET, &to.public(), Moment::from_secs(at), [1, 2, 3, 4])
}

fn welcome_text(witness: Party, answer: &str) -> String {
    format!("{{\"type\":\"welcome\",\"funduqPublicKey\":\"{}\",\"answer\":\"{answer}\"}}", witness.hex())
}

fn hello() -> Vec<Case> {
    let ticket = issued(P, NOW);
    // hex(time), hex(random); the seal behind them is HMAC-SHA256 and compared by the replayers.
    assert!(ticket.starts_with(&format!("{NOW:08x}01020304")), "a ticket begins with its time and its random bytes");
    let bytes = format!("funduq-connect-provider:{}:{ticket}:{NONCE}", W.hex());
    let signed = P.sign(&bytes);
    let frame = |more: &str| {
        format!(
            "{{\"type\":\"hello\",\"version\":4,\"publicKey\":\"{}\",\"ticket\":\"{ticket}\",\"nonce\":\"{NONCE}\"{more},\"proof\":\"{signed}\"}}",
            P.hex()
        )
    };
    let plain = json!({
        "side": "witness", "witnessSeed": W.seed_hex(), "ticketSecret": hex::encode(SECRET), "now": NOW, "hello": frame(""),
    });
    let answer = W.sign(&format!("funduq-connect-funduq:{ticket}:{NONCE}"));
    let granted = |capacity: Option<u64>| {
        ok(json!({ "provider": P.hex(), "maxConcurrentRuns": capacity, "welcome": welcome_text(W, &answer) }))
    };
    let edit = |from: &str, to: &str| json!({ "hello": frame("").replace(from, to) });
    let over = |bytes: &str| edit(&signed, &P.sign(bytes));
    let (zeros, late) = ("0".repeat(32), issued(P, NOW - 61));
    let mut cases = vec![
        Case::new("hello", "a provider opens a link, the witness answers over its nonce", plain.clone(), granted(None)),
        Case::new(
            "hello_capacity",
            "a provider that takes three runs at once",
            with(&plain, json!({ "hello": frame(",\"maxConcurrentRuns\":3") })),
            granted(Some(3)),
        ),
        Case::new(
            "hello_capacity_null",
            "envelopes keep nulls: null is not there",
            with(&plain, json!({ "hello": frame(",\"maxConcurrentRuns\":null") })),
            granted(None),
        ),
        Case::new(
            "hello_last_second",
            "a ticket is valid for 60 s",
            with(&plain, json!({ "now": NOW + 60 })),
            granted(None),
        ),
    ];
    for (name, why, changes) in [
        ("ticket_61_s_old", "one second more", json!({ "now": NOW + 61 })),
        ("ticket_of_the_future", "no ticket was issued after now", json!({ "now": NOW - 1 })),
        (
            "ticket_of_another_key",
            "X uses the ticket that P was given",
            json!({ "hello": frame("").replace(&P.hex(), &X.hex()).replace(&signed, &X.sign(&bytes)) }),
        ),
        ("ticket_of_another_witness", "sealed with another secret", json!({ "ticketSecret": "6f".repeat(32) })),
        (
            "ticket_made_up",
            "a ticket is issued, not invented",
            json!({ "hello": frame("").replace(&ticket, &zeros).replace(&signed, &P.sign(&bytes.replace(&ticket, &zeros))) }),
        ),
        (
            "ticket_time_moved",
            "its time is under the seal",
            json!({ "hello": frame("").replace(&ticket, &format!("{}{}", &ticket[..8], &late[8..])) }),
        ),
        ("ticket_upper_case", "one spelling, or one ticket is good twice", edit(&ticket, &ticket.to_uppercase())),
        ("proof_for_another_witness", "carried on to another witness", json!({ "witnessSeed": W2.seed_hex() })),
        ("proof_for_another_ticket", "a recording of an older handshake", over(&bytes.replace(&ticket, &late))),
        ("proof_for_another_nonce", "the nonce is signed", over(&bytes.replace(NONCE, &zeros))),
        (
            "proof_ticket_and_nonce_exchanged",
            "the parts have an order",
            over(&format!("funduq-connect-provider:{}:{NONCE}:{ticket}", W.hex())),
        ),
        (
            "proof_with_the_witness_tag",
            "each side has its own tag",
            over(&format!("funduq-connect-funduq:{ticket}:{NONCE}")),
        ),
        (
            "proof_without_witness",
            "the reference's empty witness key is not taken",
            over(&format!("funduq-connect-provider::{ticket}:{NONCE}")),
        ),
        ("proof_by_other_key", "X claims to be P", edit(&signed, &X.sign(&bytes))),
        ("proof_malleated", "S + L", edit(&signed, &malleated(&signed))),
        ("proof_short", "128 digits", edit(&signed, "00")),
        ("nonce_short", "32 digits", edit(&format!("\"{NONCE}\""), "\"c9\"")),
        (
            "key_weak",
            "the identity point: its constant signature verifies for anything",
            edit(&P.hex(), &format!("01{}", "0".repeat(62))),
        ),
        ("version_3", "another version of the link", edit("\"version\":4", "\"version\":3")),
        ("version_text", "a number", edit("\"version\":4", "\"version\":\"4\"")),
        ("unknown_member", "a closed set", json!({ "hello": frame(",\"agents\":[]") })),
        (
            "member_twice",
            "first or last wins depends on the reader",
            json!({ "hello": frame(&format!(",\"nonce\":\"{NONCE}\"")) }),
        ),
        ("proof_missing", "all members", edit(&format!(",\"proof\":\"{signed}\""), "")),
        ("not_hello", "hello comes first", json!({ "hello": "{\"type\":\"register\",\"agents\":[]}" })),
    ] {
        cases.push(Case::new(name, why, with(&plain, changes), no(REFUSED)));
    }
    cases
}

fn welcome() -> Vec<Case> {
    let ticket = issued(P, NOW);
    let bytes = format!("funduq-connect-funduq:{ticket}:{NONCE}");
    let answer = W.sign(&bytes);
    let plain = json!({
        "side": "provider", "witness": W.hex(), "ticket": ticket, "nonce": NONCE, "welcome": welcome_text(W, &answer),
    });
    let text = |text: String| json!({ "welcome": text });
    let mut cases = vec![Case::new("welcome", "the pinned witness is at the other end", plain.clone(), ok(json!({})))];
    for (name, why, changes) in [
        ("welcome_by_another_witness", "a witness that is not the pinned one", text(welcome_text(X, &X.sign(&bytes)))),
        ("welcome_under_the_pinned_name", "X answers in W's name", text(welcome_text(W, &X.sign(&bytes)))),
        ("welcome_for_another_nonce", "a recording of an older handshake", json!({ "nonce": "0".repeat(32) })),
        ("welcome_for_another_ticket", "a recording of an older handshake", json!({ "ticket": "0".repeat(32) })),
        (
            "welcome_reflected",
            "the provider's own proof sent back",
            text(welcome_text(W, &P.sign(&format!("funduq-connect-provider:{}:{ticket}:{NONCE}", W.hex())))),
        ),
        ("welcome_malleated", "S + L", text(welcome_text(W, &malleated(&answer)))),
        (
            "welcome_without_answer",
            "an answer",
            text(format!("{{\"type\":\"welcome\",\"funduqPublicKey\":\"{}\"}}", W.hex())),
        ),
        ("welcome_of_other_type", "a welcome", text(welcome_text(W, &answer).replace("\"welcome\"", "\"registered\""))),
    ] {
        cases.push(Case::new(name, why, with(&plain, changes), no(REFUSED)));
    }
    cases
}
