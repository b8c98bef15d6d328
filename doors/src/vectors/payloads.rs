//! Every signed string of the wire: its bytes, their digest, and a signature over them.
//! The layouts are written out here once more, so that the page in the chain crate has
//! something to be compared with.

use serde_json::{Value, json};
use wikala_chain::{AgentName, Digest, PublicKey, SigningKey, payload};

use super::case::{Case, number, ok, text};
use super::cast::{D, H, NONCE, NOW, P, Party, RUN, S, W, sha256};

pub(super) fn replay(inputs: &Value) -> Value {
    build(inputs).unwrap_or_else(|| json!({ "ok": false }))
}

fn build(inputs: &Value) -> Option<Value> {
    let key = |name| PublicKey::from_hex(text(inputs, name)).ok();
    let digest = |name| Digest::from_hex(text(inputs, name)).ok();
    let (run, nonce, at) = (text(inputs, "run"), text(inputs, "nonce"), number(inputs, "timestamp"));
    let name = || AgentName::new(text(inputs, "name")).ok();
    let built = match text(inputs, "string") {
        "connect-provider" => payload::connect_provider(&key("witness")?, text(inputs, "ticket"), nonce),
        "connect-witness" => payload::connect_witness(text(inputs, "ticket"), nonce),
        "delegate" => payload::delegate(&key("delegate")?, number(inputs, "expiresAt")),
        "accept" => payload::accept(&payload::certificate_id(
            &key("authority")?,
            &key("delegate")?,
            number(inputs, "expiresAt"),
        )),
        "resolve" => payload::resolve(run, at),
        "cancel" => payload::cancel(run, at),
        "present" => payload::present(&key("witness")?, &key("provider")?, &name()?, digest("tip"), nonce, at),
        "answer" => {
            let asks: Vec<&str> = inputs["asks"].as_array()?.iter().filter_map(Value::as_str).collect();
            payload::answer(run, &asks, text(inputs, "answer").as_bytes(), at)
        }
        "revoke-certificate" => payload::revoke_certificate(&digest("certificate")?, at),
        "revoke-authority" => payload::revoke_authority(&key("authority")?, at),
        "consent" => payload::consent(&key("witness")?, &name()?, text(inputs, "url")),
        _ => return None,
    };
    let signer = SigningKey::from_seed_hex(text(inputs, "seed")).ok()?;
    Some(ok(json!({
        "payload": built.as_str(),
        "sha256": built.digest().to_hex(),
        "signature": signer.sign(built.as_bytes()).to_hex(),
    })))
}

/// A case: the string's name, its inputs, the signer, and the bytes written out.
fn case(name: &str, why: &str, string: &str, signer: Party, values: Value, bytes: &str) -> Case {
    let mut inputs = json!({ "string": string });
    if let (Some(inputs), Value::Object(values)) = (inputs.as_object_mut(), values) {
        inputs.extend(values);
        inputs.insert("seed".into(), signer.seed_hex().into());
    }
    let expect = json!({ "payload": bytes, "sha256": sha256(bytes), "signature": signer.sign(bytes) });
    Case::new(name, why, inputs, ok(expect))
}

pub(super) fn cases() -> Vec<Case> {
    let (w, p, d, s) = (W.hex(), P.hex(), D.hex(), S.hex());
    let (ticket, tip, zeros) = ("b7".repeat(16), sha256("the last token"), "0".repeat(64));
    let certificate = sha256(&format!("wikala-certificate:{d}:{s}:{NOW}"));
    let mut cases = vec![
        case(
            "connect_provider",
            "a provider opens a link: this witness, this ticket",
            "connect-provider",
            P,
            json!({ "witness": w, "ticket": ticket, "nonce": NONCE }),
            &format!("funduq-connect-provider:{w}:{ticket}:{NONCE}"),
        ),
        case(
            "connect_witness",
            "the witness's answer, over the provider's nonce",
            "connect-witness",
            W,
            json!({ "ticket": ticket, "nonce": NONCE }),
            &format!("funduq-connect-funduq:{ticket}:{NONCE}"),
        ),
        case(
            "delegate",
            "a durable key lets a session key act for it",
            "delegate",
            D,
            json!({ "delegate": s, "expiresAt": NOW }),
            &format!("funduq-delegate:{s}:{NOW}"),
        ),
        case(
            "accept",
            "the session key consents; what it signs is the certificate's id",
            "accept",
            S,
            json!({ "authority": d, "delegate": s, "expiresAt": NOW }),
            &format!("wikala-accept:{certificate}"),
        ),
        case(
            "resolve",
            "I answer this paused run, now",
            "resolve",
            H,
            json!({ "run": RUN, "timestamp": NOW }),
            &format!("funduq-resolve:{RUN}:{NOW}"),
        ),
        case(
            "cancel",
            "I ask this run to stop, now; its own tag",
            "cancel",
            H,
            json!({ "run": RUN, "timestamp": NOW }),
            &format!("funduq-cancel:{RUN}:{NOW}"),
        ),
        case(
            "revoke_certificate",
            "this certificate no longer counts",
            "revoke-certificate",
            D,
            json!({ "certificate": certificate, "timestamp": NOW }),
            &format!("wikala-revoke:certificate/{certificate}:{NOW}"),
        ),
        case(
            "revoke_authority",
            "no certificate of this authority counts any longer",
            "revoke-authority",
            D,
            json!({ "authority": d, "timestamp": NOW }),
            &format!("wikala-revoke:authority/{d}:{NOW}"),
        ),
        case(
            "consent",
            "this witness may dispatch to that address under this name",
            "consent",
            P,
            json!({ "witness": w, "name": "translator", "url": "https://agent.example/a2a" }),
            &format!("wikala-consent:{w}:translator:{}", sha256("https://agent.example/a2a")),
        ),
    ];
    for (name, why, agent, chain) in [
        ("present", "I present this here, to this agent, once", "translator", Some(&tip)),
        ("present_chainless", "no chain: 64 zeros stand for its tip", "translator", None),
        ("present_name_with_colons", "a name may hold colons: what follows it is of fixed shape", "a:b:", Some(&tip)),
        ("present_name_of_any_script", "a name in UTF-8, as it is", "وكالة 📦", Some(&tip)),
    ] {
        let tip = chain.unwrap_or(&zeros);
        let values =
            json!({ "witness": w, "provider": p, "name": agent, "tip": chain, "nonce": NONCE, "timestamp": NOW });
        cases.push(case(
            name,
            why,
            "present",
            H,
            values,
            &format!("wikala-present:{w}:{p}:{agent}:{tip}:{NONCE}:{NOW}"),
        ));
    }
    for (name, why, asks, digested, answer) in [
        ("answer", "an answer bound to its ask", &["ask-1"][..], &b"\0\0\0\x05ask-1"[..], "yes"),
        (
            "answer_sorts_asks",
            "ask ids are a set: sorted bytewise before they are hashed",
            &["b", "a", "B"],
            b"\0\0\0\x01B\0\0\0\x01a\0\0\0\x01b",
            "yes",
        ),
        ("answer_asks_ab_c", "lengths keep ab, c apart from a, bc", &["ab", "c"], b"\0\0\0\x02ab\0\0\0\x01c", "yes"),
        ("answer_asks_a_bc", "lengths keep a, bc apart from ab, c", &["a", "bc"], b"\0\0\0\x01a\0\0\0\x02bc", "yes"),
        (
            "answer_sorts_by_bytes",
            "sorted by UTF-8 bytes, not by UTF-16 units",
            &["\u{1f4e6}", "\u{ff21}"],
            "\0\0\0\x03\u{ff21}\0\0\0\x04\u{1f4e6}".as_bytes(),
            "yes",
        ),
        ("answer_same_ask_twice", "a repeated id stays repeated", &["a", "a"], b"\0\0\0\x01a\0\0\0\x01a", "yes"),
        ("answer_no_asks_no_text", "the hash of nothing, twice", &[], b"", ""),
        ("answer_any_script", "the answer is hashed as UTF-8", &["ask-1"], b"\0\0\0\x05ask-1", "نعم\n"),
    ] {
        let digest = Digest::of(digested);
        let bytes = format!("wikala-answer:{RUN}:{digest}:{}:{NOW}", sha256(answer));
        let values = json!({ "run": RUN, "asks": asks, "answer": answer, "timestamp": NOW });
        cases.push(case(name, why, "answer", H, values, &bytes));
    }
    cases
}
