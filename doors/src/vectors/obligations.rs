//! Obligations: signed acts, the exact request, the table of states, the ledger.

use serde_json::{Value, json};
use wikala_certs::{Deed, Moment, Proof, SignedDeed, is_fresh};
use wikala_chain::{Digest, PublicKey, SigningKey, json as strict};
use wikala_witness::ThreadId;
use wikala_witness::obligation::{LedgerEntry, Move, ObligationId, State, ledger, next};

use super::case::{Case, no, number, ok, text, with};
use super::cast::{H, NONCE, NOW, P, malleated, sha256};
use crate::obligations::spec::{Asked, request};

/// The obligation, the thread and the event of the cases.
const OBLIGATION: &str = "ob_2c26b46b68ffc68ff99b453c1d304134";
const THREAD: &str = "thread_2c26b46b68ffc68ff99b453c";
const EVENT: &str = "msg_2c26b46b68ffc68ff99b453c";

fn digest(inputs: &Value, name: &str) -> Digest {
    Digest::from_hex(text(inputs, name)).unwrap_or(Digest::ZERO)
}

fn deed(inputs: &Value) -> Deed {
    let obligation = text(inputs, "obligation").to_owned();
    let (revision, reason) = (number(inputs, "revision"), text(inputs, "reason").to_owned());
    let event = text(inputs, "event").to_owned();
    match text(inputs, "act") {
        "create" => Deed::Create { thread: text(inputs, "thread").to_owned(), request: digest(inputs, "request") },
        "accept" => Deed::Accept { obligation, revision },
        "decline" => Deed::Decline { obligation, revision, reason },
        "progress" => Deed::Progress { obligation, revision, to: text(inputs, "to").to_owned(), reason },
        "respond" => {
            let (request, response) = (digest(inputs, "request"), digest(inputs, "response"));
            Deed::Respond { obligation, event, request, response }
        }
        "cancel" => Deed::Cancel { obligation, revision, reason },
        _ => Deed::MailboxAck { event, envelope: digest(inputs, "envelope") },
    }
}

pub(super) fn replay_act(inputs: &Value) -> Value {
    let proof = match Proof::parse(text(inputs, "proof")) {
        Ok(proof) => proof,
        Err(error) => return no(error.code()),
    };
    match SignedDeed::verify(&proof, deed(inputs)) {
        Err(error) => no(error.code()),
        Ok(_) if !is_fresh(Moment::from_secs(number(inputs, "now")), proof.timestamp) => no("act-stale"),
        Ok(signed) => ok(json!({ "signer": signed.signer().to_hex(), "digest": signed.digest().to_hex() })),
    }
}

/// Act, its members, its signed string without tag and time.
fn acts() -> Vec<(&'static str, Value, String)> {
    let (d, e) = (sha256("request"), sha256("response"));
    let of = |members: Value| with(&json!({ "obligation": OBLIGATION, "revision": 3 }), members);
    vec![
        ("create", json!({ "thread": THREAD, "request": d }), format!("create:{THREAD}:{d}")),
        ("accept", of(json!({})), format!("accept:{OBLIGATION}:3")),
        ("decline", of(json!({ "reason": "not: mine" })), format!("decline:{OBLIGATION}:3:{}", sha256("not: mine"))),
        (
            "progress",
            of(json!({ "to": "blocked", "reason": "waits_for_stock" })),
            format!("progress:{OBLIGATION}:3:blocked:waits_for_stock"),
        ),
        (
            "respond",
            json!({ "obligation": OBLIGATION, "event": EVENT, "request": d, "response": e }),
            format!("respond:{OBLIGATION}:{EVENT}:{d}:{e}"),
        ),
        ("cancel", of(json!({ "reason": "requester_canceled" })), format!("cancel:{OBLIGATION}:3:requester_canceled")),
        ("ack", json!({ "event": EVENT, "envelope": e }), format!("{EVENT}:{e}")),
    ]
}

pub(super) fn act_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let proof = |signature: String, at: u64| {
        json!({ "publicKey": P.hex(), "timestamp": at, "signature": signature }).to_string()
    };
    let signed = |body: &str, at: u64| {
        let tag = if body.starts_with("msg_") { "wikala-mailbox-ack:" } else { "wikala-obligation-" };
        format!("{tag}{body}:{at}")
    };
    for (act, members, body) in acts() {
        let inputs =
            |proof: String, now: u64| with(&json!({ "act": act, "proof": proof, "now": now }), members.clone());
        let says = signed(&body, NOW);
        let good = proof(P.sign(&says), NOW);
        let expect = ok(json!({ "signer": P.hex(), "digest": sha256(&says) }));
        let mut add = |name: &str, why: &str, inputs: Value, expect: Value| {
            cases.push(Case::new(format!("{act}_{name}"), why, inputs, expect));
        };
        add("good", "as it is signed", inputs(good.clone(), NOW), expect.clone());
        add("last_second", "60 s later is inside", inputs(good.clone(), NOW + 60), expect);
        add("stale", "61 s later is not", inputs(good.clone(), NOW + 61), no("act-stale"));
        add("early", "nor is 61 s before", inputs(good.clone(), NOW - 61), no("act-stale"));
        let other = proof(P.sign(&signed(&body, NOW).replace("wikala-", "funduq-")), NOW);
        add("other_tag", "its own tag, or one signature is two acts", inputs(other, NOW), no("act-signature"));
        let other = proof(P.sign(&signed(&body, NOW + 1)), NOW);
        add("other_time", "the time is signed", inputs(other, NOW), no("act-signature"));
        let other = json!({ "publicKey": H.hex(), "timestamp": NOW, "signature": P.sign(&says) }).to_string();
        add("other_signer", "the key that signed", inputs(other, NOW), no("act-signature"));
        let other = proof(malleated(&P.sign(&says)), NOW);
        add("malleated", "strict signatures: S + L is another text", inputs(other, NOW), no("act-signature"));
        let other =
            json!({ "publicKey": P.hex(), "timestamp": NOW, "signature": P.sign(&says), "nonce": NONCE }).to_string();
        add("nonce", "nobody signed the nonce", inputs(other, NOW), no("act-signature"));
        for member in ["revision", "reason", "to", "event", "request", "response", "thread", "envelope", "obligation"] {
            if members[member].is_null() {
                continue;
            }
            let changed = match member {
                "revision" => json!(4),
                "request" | "response" | "envelope" => json!(sha256("another")),
                _ => json!(members[member].as_str().unwrap_or_default().to_owned() + "x"),
            };
            let inputs = with(&inputs(good.clone(), NOW), json!({ member: changed }));
            add(&format!("other_{member}"), "what it says is signed", inputs, no("act-signature"));
        }
    }
    cases
}

pub(super) fn replay_request(inputs: &Value) -> Value {
    for name in ["parts", "obligation"] {
        match strict::check(text(inputs, name)) {
            Ok(()) => {}
            Err(strict::JsonError::DuplicateKey(_)) => return no("body-duplicate-key"),
            Err(_) => return no("body-malformed"),
        }
    }
    let Some(thread) = ThreadId::parse(text(inputs, "thread")) else { return no("body-malformed") };
    let (kind, message_id, role) = (text(inputs, "kind"), text(inputs, "messageId"), text(inputs, "role"));
    let asked = Asked { thread: &thread, kind, message_id, role, parts: text(inputs, "parts") };
    match request(asked, text(inputs, "obligation")) {
        Ok(payload) => ok(json!({ "digest": sha256(&payload), "canonical": payload })),
        Err(problem) => no(problem.code.as_str()),
    }
}

pub(super) fn request_cases() -> Vec<Case> {
    let plain = "{\"response_required\":true}";
    let whole = |parts: &str, obligation: &str| {
        format!(
            "{{\"kind\":\"post\",\"messageId\":\"m-1\",\"obligation\":{obligation},\"parts\":{parts},\"role\":\"ROLE_USER\",\"thread\":\"{THREAD}\",\"v\":1}}"
        )
    };
    let inputs = |parts: &str, obligation: &str| json!({ "thread": THREAD, "kind": "post", "messageId": "m-1", "role": "ROLE_USER", "parts": parts, "obligation": obligation });
    let good = [
        ("plain", "members in order, no spaces", r#"[{"text":"x"}]"#, r#"[{"text":"x"}]"#),
        ("spaces", "white space says nothing", " [ { \"text\" :\n\"x\" } ] ", r#"[{"text":"x"}]"#),
        ("order", "nor does the order", r#"[{"b":1,"a":2}]"#, r#"[{"a":2,"b":1}]"#),
        ("point_zero", "1.0 is 1", r#"[{"n":1.0}]"#, r#"[{"n":1}]"#),
        ("minus_zero", "-0 is 0", r#"[{"n":-0}]"#, r#"[{"n":0}]"#),
        ("exponent", "numbers as ECMAScript prints them", r#"[1e15,1E-7,0.1]"#, r#"[1000000000000000,1e-7,0.1]"#),
        ("escapes", "an escape is what it stands for", r#"["\u0041\/\u00e9"]"#, "[\"A/\u{e9}\"]"),
        ("control", "controls in their shortest escape", r#"["\u0008\u000a\u001f"]"#, r#"["\b\n\u001f"]"#),
        (
            "utf16_order",
            "names in the order of UTF-16: a surrogate before U+FB33",
            "[{\"\u{fb33}\":1,\"\u{1f600}\":2}]",
            "[{\"\u{1f600}\":2,\"\u{fb33}\":1}]",
        ),
        ("largest", "2^53-1 is exact", "[9007199254740991]", "[9007199254740991]"),
    ];
    let bad = [
        ("too_large", "2^53 and its neighbour are one number to some readers", "[9007199254740992]", "body-malformed"),
        ("too_small", "likewise below zero", "[-9007199254740992]", "body-malformed"),
        ("large_by_exponent", "whatever its spelling", "[1e20]", "body-malformed"),
        ("twice", "first or last wins depends on the reader", r#"[{"a":1,"a":2}]"#, "body-duplicate-key"),
        ("twice_by_escape", "an escape does not make it another name", r#"[{"a":1,"\u0061":2}]"#, "body-duplicate-key"),
        ("infinite", "no such number", "[1e400]", "body-malformed"),
        ("not_json", "JSON", "[", "body-malformed"),
        ("nan", "JSON has no NaN", "[NaN]", "body-malformed"),
        ("comment", "nor comments", "[1/*x*/]", "body-malformed"),
        ("trailing", "one value and nothing after it", "[] []", "body-malformed"),
        ("half_pair", "half a surrogate pair is no text", r#"["\ud800"]"#, "body-malformed"),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for (name, why, parts, canonical) in good {
        let canonical = whole(canonical, plain);
        let expect = ok(json!({ "digest": sha256(&canonical), "canonical": canonical }));
        cases.push(Case::new(name, why, inputs(parts, plain), expect));
    }
    for (name, why, parts, code) in bad {
        cases.push(Case::new(name, why, inputs(parts, plain), no(code)));
        cases.push(Case::new(format!("{name}_in_the_spec"), why, inputs("[]", parts), no(code)));
    }
    let absent = whole("[]", "{}");
    let null = whole("[]", "{\"deadline_at\":null}");
    for (name, why, spec, canonical) in [
        ("spec_absent", "an absent member is not there", "{}", absent),
        ("spec_null", "and null is: the bytes differ though the terms do not", "{\"deadline_at\":null}", null),
    ] {
        let expect = ok(json!({ "digest": sha256(&canonical), "canonical": canonical }));
        cases.push(Case::new(name, why, inputs("[]", spec), expect));
    }
    cases
}

fn event(inputs: &Value) -> Option<Move> {
    let to = || State::parse(text(inputs, "to"));
    Some(match text(inputs, "event") {
        "committed" => Move::Committed,
        "accept" => Move::Accepted,
        "decline" => Move::Declined,
        "transition" => Move::Progressed(to()?),
        "paused" => Move::Paused,
        "completed" => Move::Responded { completed: true },
        "failed" => Move::Responded { completed: false },
        "cancel" => Move::Withdrawn,
        "overdue" => Move::Overdue,
        _ => return None,
    })
}

pub(super) fn replay_state(inputs: &Value) -> Value {
    let (Some(from), Some(event)) = (State::parse(text(inputs, "from")), event(inputs)) else {
        return no("unknown-state");
    };
    match next(from, event) {
        Ok(to) => ok(json!({ "state": to.as_str() })),
        Err(code) => no(code.as_str()),
    }
}

/// Rows: where it stands, in the order of [`State::ALL`]. Columns of the first table: where it is
/// said to stand; `y` yes, `i` illegal, `n` not to be claimed, `t` terminal. Columns of the second:
/// the events below; their outcome's letter, or a refusal's.
const CLAIMS: [&str; 11] = [
    "nyiiiinnnnn",
    "niiiiinnnnn",
    "niiyyynnnnn",
    "niiiyynnnnn",
    "niyyiinnnnn",
    "niyyiinnnnn",
    "ntttttnnnnn",
    "ntttttnnnnn",
    "ntttttnnnnn",
    "ntttttnnnnn",
    "ntttttnnnnn",
];
const EVENTS: [&str; 8] = ["committed", "accept", "decline", "paused", "completed", "failed", "cancel", "overdue"];
const OUTCOMES: [&str; 11] = [
    "RADicfxe", "iADicfxe", "iidWcfxe", "iidWcfxe", "iidicfxe", "iidicfxe", "tttttttt", "tttttttt", "tttttttt",
    "tttttttt", "tttttttt",
];

fn outcome(letter: u8) -> Value {
    let state = match letter {
        b'R' => State::RecipientCommitted,
        b'A' => State::Acknowledged,
        b'D' => State::Declined,
        b'W' => State::PendingHuman,
        b'c' => State::Completed,
        b'f' => State::Failed,
        b'x' => State::Canceled,
        b'e' => State::Expired,
        b'd' => return no("decline-after-acceptance"),
        b'n' => return no("state-not-assertable"),
        b't' => return no("obligation-terminal"),
        _ => return no("illegal-transition"),
    };
    ok(json!({ "state": state.as_str() }))
}

pub(super) fn state_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (from, (claims, outcomes)) in State::ALL.into_iter().zip(CLAIMS.into_iter().zip(OUTCOMES)) {
        for (to, letter) in State::ALL.into_iter().zip(claims.bytes()) {
            let expect = if letter == b'y' { ok(json!({ "state": to.as_str() })) } else { outcome(letter) };
            let inputs = json!({ "from": from.as_str(), "event": "transition", "to": to.as_str() });
            let name = format!("{}_to_{}", from.as_str(), to.as_str());
            cases.push(Case::new(name, "what its owner may say of where it stands", inputs, expect));
        }
        for (event, letter) in EVENTS.into_iter().zip(outcomes.bytes()) {
            let inputs = json!({ "from": from.as_str(), "event": event });
            cases.push(Case::new(format!("{}_{event}", from.as_str()), "what happens to it", inputs, outcome(letter)));
        }
    }
    cases
}

pub(super) fn replay_ledger(inputs: &Value) -> Value {
    let lines: Vec<&str> = inputs["lines"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match ledger::verify(&lines.join("\n")) {
        Ok(entries) => ok(json!({ "entries": entries })),
        Err(broken) => with(&no("ledger-broken"), json!({ "entry": broken.entry })),
    }
}

fn entries(count: u64) -> Vec<String> {
    let states =
        [State::Created, State::Acknowledged, State::InProgress, State::Blocked, State::InProgress, State::Completed];
    let (head, provider) = (H.public(), P.public());
    let mut prev = Digest::ZERO;
    let mut lines = Vec::new();
    for n in 0..count {
        let state = |n: u64| states[usize::try_from(n).unwrap_or(0) % states.len()];
        let actor: PublicKey = if n == 0 { head } else { provider };
        let entry = LedgerEntry {
            obligation: ObligationId::of(EVENT, &provider),
            revision: n + 1,
            from: n.checked_sub(1).map(state),
            to: state(n),
            signed: n != 2,
            actor,
            effective: actor,
            act: (n != 2).then(|| Digest::of(&[n.to_le_bytes()[0]])),
            detail: if n == 3 { "d\u{e9}pend \"of\" others".to_owned() } else { "because".to_owned() },
            effective_at: NOW + n,
            recorded_at: NOW + n,
            prev,
        };
        prev = entry.digest();
        lines.push(entry.to_json());
    }
    lines
}

pub(super) fn ledger_cases() -> Vec<Case> {
    let lines = entries(6);
    let broken = |entry: usize| with(&no("ledger-broken"), json!({ "entry": entry }));
    let of = |lines: &[String]| json!({ "lines": lines });
    let replaced = |at: usize, from: &str, to: &str| {
        let mut lines = lines.clone();
        lines[at] = lines[at].replacen(from, to, 1);
        of(&lines)
    };
    let mut removed = lines.clone();
    removed.remove(2);
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    let mut twice = lines.clone();
    twice.insert(3, lines[2].clone());
    let spaced: Vec<String> = lines.iter().map(|line| line.replace("\":", "\" : ")).collect();
    let other = SigningKey::from_seed([0xa7; 32]).public();
    vec![
        Case::new(
            "whole",
            "every entry has the digest of what it says and of the one before",
            of(&lines),
            ok(json!({ "entries": 6 })),
        ),
        Case::new(
            "beginning",
            "that the end is missing only its reader can know",
            of(&lines[..4]),
            ok(json!({ "entries": 4 })),
        ),
        Case::new(
            "spaces",
            "white space says nothing: the digest is of the canonical form",
            of(&spaced),
            ok(json!({ "entries": 6 })),
        ),
        Case::new("empty", "nothing proves nothing", of(&[]), broken(0)),
        Case::new("changed", "one word changed", replaced(3, "pend", "pent"), broken(4)),
        Case::new("changed_time", "a second changed", replaced(4, "1764540004", "1764540005"), broken(5)),
        Case::new("changed_actor", "another did it", replaced(1, &P.hex(), &other.to_hex()), broken(2)),
        Case::new("changed_basis", "what was derived was not signed", replaced(2, "derived", "signed"), broken(3)),
        Case::new(
            "changed_digest",
            "another digest",
            replaced(5, "\"entryDigest\":\"", "\"entryDigest\":\"0"),
            broken(6),
        ),
        Case::new(
            "added_member",
            "what nobody reads is digested all the same",
            replaced(1, "{", "{\"note\":1,"),
            broken(2),
        ),
        Case::new("removed", "an entry is gone", of(&removed), broken(3)),
        Case::new("swapped", "two entries have changed places", of(&swapped), broken(3)),
        Case::new("twice", "an entry is there twice", of(&twice), broken(4)),
        Case::new("without_the_first", "it begins with the first", of(&lines[1..]), broken(1)),
        Case::new("not_json", "one JSON object a line", replaced(2, "{", ""), broken(3)),
    ]
}
