//! Requests signed by RFC 9421: the signature base to the byte, and what does not hold.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wikala_certs::Moment;
use wikala_chain::Digest;

use super::case::{Case, no, number, ok, text, with};
use super::cast::{H, NONCE, NOW, P, Party, X, malleated, sha256};
use crate::presenter;

const TARGET: &str = "https://witness.example/v1/runs/run_2c26b46b68ffc68ff99b453c/answer?x=1";
const BODY: &str = "{\"answer\":\"yes\"}";

pub(super) fn replay(inputs: &Value) -> Value {
    judge(inputs).unwrap_or_else(no)
}

fn judge(inputs: &Value) -> Result<Value, &'static str> {
    const REFUSED: &str = "presenter-proof";
    let mut headers = HeaderMap::new();
    for line in inputs["headers"].as_array().into_iter().flatten() {
        let name = HeaderName::try_from(line[0].as_str().unwrap_or_default()).map_err(|_| REFUSED)?;
        headers.append(name, HeaderValue::from_str(line[1].as_str().unwrap_or_default()).map_err(|_| REFUSED)?);
    }
    let (method, target, body) = (text(inputs, "method"), text(inputs, "targetUri"), text(inputs, "body"));
    let signer = presenter::verify(method, target, &headers, body.as_bytes()).map_err(|_| REFUSED)?;
    let signer = signer.ok_or("presenter-required")?;
    // The verifier keeps a digest of the base; the base itself is put together here again.
    let input = headers["signature-input"].to_str().map_err(|_| REFUSED)?;
    let params = &input[input.find('(').ok_or(REFUSED)?..];
    let names = params[1..params.find(')').ok_or(REFUSED)?].split(' ');
    let mut base = String::new();
    for name in names {
        let value = match name.trim_matches('"') {
            "@method" => method,
            "@target-uri" => target,
            header => headers.get(header).and_then(|value| value.to_str().ok()).unwrap_or_default(),
        };
        base.push_str(&format!("{name}: {value}\n"));
    }
    base.push_str(&format!("\"@signature-params\": {params}"));
    if Digest::of(base.as_bytes()) != signer.signed.digest() {
        return Err("another base");
    }
    let (key, created) = (signer.key.to_hex(), signer.signed.timestamp());
    let presented = signer.signed.fresh(Moment::from_secs(number(inputs, "now"))).map_err(|error| error.code())?;
    Ok(ok(json!({ "signer": key, "created": created, "base": base, "digest": presented.digest().to_hex() })))
}

fn content_digest(body: &str) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Digest::of(body.as_bytes()).as_bytes()))
}

/// What a signer may get wrong.
#[derive(Clone)]
struct Draft {
    label: &'static str,
    /// Component, value as signed.
    covered: Vec<(&'static str, String)>,
    params: String,
    key: Party,
    body: &'static str,
    /// Sent beside the two signature headers.
    sent: Vec<(&'static str, String)>,
}

impl Draft {
    fn new(body: &'static str) -> Draft {
        let mut draft = Draft {
            label: "wikala",
            covered: vec![("@method", "POST".into()), ("@target-uri", TARGET.into())],
            params: params(H),
            key: H,
            body,
            sent: Vec::new(),
        };
        if !body.is_empty() {
            draft.covered.push(("content-digest", content_digest(body)));
            draft.sent.push(("content-digest", content_digest(body)));
        }
        draft
    }

    fn input(&self) -> String {
        let names: Vec<_> = self.covered.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        format!("({}){}", names.join(" "), self.params)
    }

    fn base(&self) -> String {
        let lines: String = self.covered.iter().map(|(name, value)| format!("\"{name}\": {value}\n")).collect();
        format!("{lines}\"@signature-params\": {}", self.input())
    }

    fn signature(&self) -> String {
        self.key.sign(&self.base())
    }

    fn request(&self, signature: &str) -> Value {
        let bytes = STANDARD.encode(hex::decode(signature).unwrap_or_default());
        let mut headers: Vec<Value> = self.sent.iter().map(|(name, value)| json!([name, value])).collect();
        headers.push(json!(["signature-input", format!("{}={}", self.label, self.input())]));
        headers.push(json!(["signature", format!("{}=:{bytes}:", self.label)]));
        json!({ "method": "POST", "targetUri": TARGET, "headers": headers, "body": self.body, "now": NOW })
    }

    fn signed(&self) -> Value {
        self.request(&self.signature())
    }

    fn granted(&self) -> Value {
        let base = self.base();
        ok(json!({ "signer": self.key.hex(), "created": NOW, "base": base, "digest": sha256(&base) }))
    }
}

fn params(key: Party) -> String {
    format!(";created={NOW};nonce=\"{NONCE}\";keyid=\"{}\";alg=\"ed25519\";tag=\"wikala\"", key.hex())
}

pub(super) fn cases() -> Vec<Case> {
    let (post, get) = (Draft::new(BODY), Draft::new(""));
    let mut cases = Vec::new();
    let mut good = |name, why, draft: &Draft| cases.push(Case::new(name, why, draft.signed(), draft.granted()));
    good("with_body", "method, target and body, in the order we write", &post);
    good("without_body", "no body: no content-digest", &get);
    let other = Draft { label: "sig1", covered: post.covered.iter().rev().cloned().collect(), ..post.clone() };
    good("other_label_and_order", "label and order are the signer's: the base follows what was received", &other);
    let mut more = post.clone();
    more.covered.push(("content-type", "application/json".into()));
    more.sent.push(("content-type", "application/json".into()));
    good("more_covered", "a signer may cover more headers", &more);
    let unnamed = Draft { params: post.params.replace(";alg=\"ed25519\"", ""), ..post.clone() };
    good("without_alg", "the algorithm is Ed25519 whether it is said or not", &unnamed);

    let signed = post.signed();
    let drop = |name: &str| {
        Draft { covered: post.covered.iter().filter(|(known, _)| *known != name).cloned().collect(), ..post.clone() }
            .signed()
    };
    let say = |from: &str, to: &str| {
        assert!(post.params.contains(from), "{from}"); // a case that changes nothing tests nothing
        Draft { params: post.params.replace(from, to), ..post.clone() }.signed()
    };
    let created = format!(";created={NOW}");
    let mut two = post.signed();
    if let Some(headers) = two["headers"].as_array_mut() {
        headers.extend(
            Draft { label: "again", ..get.clone() }.signed()["headers"].as_array().cloned().unwrap_or_default(),
        );
    }
    let method_twice = Draft { covered: [&post.covered[..1], &post.covered[..]].concat(), ..post.clone() };
    for (name, why, inputs, code) in [
        ("unsigned", "nobody signed", with(&signed, json!({ "headers": [] })), "presenter-required"),
        (
            "other_tag",
            "a signature for somebody else is none for us",
            say("tag=\"wikala\"", "tag=\"web-bot-auth\""),
            "presenter-required",
        ),
        (
            "tag_in_other_case",
            "names are compared exactly",
            say("tag=\"wikala\"", "tag=\"Wikala\""),
            "presenter-required",
        ),
        (
            "without_tag",
            "a signature for nobody in particular is none for us",
            say(";tag=\"wikala\"", ""),
            "presenter-required",
        ),
        ("other_method", "a signed read is no write", with(&signed, json!({ "method": "GET" })), "presenter-proof"),
        (
            "other_target",
            "carried to another run",
            with(&signed, json!({ "targetUri": TARGET.replace("453c", "453d") })),
            "presenter-proof",
        ),
        (
            "other_host",
            "carried to another witness",
            with(&signed, json!({ "targetUri": TARGET.replace("witness.example", "other.example") })),
            "presenter-proof",
        ),
        (
            "other_query",
            "the query is part of the target",
            with(&signed, json!({ "targetUri": TARGET.replace("?x=1", "?x=2") })),
            "presenter-proof",
        ),
        (
            "other_body",
            "whoever carries it cannot swap the body",
            with(&signed, json!({ "body": "{\"answer\":\"no\"}" })),
            "presenter-proof",
        ),
        (
            "body_taken_away",
            "the digest is of the body that arrived",
            with(&signed, json!({ "body": "" })),
            "presenter-proof",
        ),
        (
            "body_added",
            "a body beside a signature that does not cover one",
            with(&get.signed(), json!({ "body": BODY })),
            "presenter-proof",
        ),
        ("method_not_covered", "method and target are always covered", drop("@method"), "presenter-proof"),
        ("target_not_covered", "method and target are always covered", drop("@target-uri"), "presenter-proof"),
        ("body_not_covered", "a body is always covered", drop("content-digest"), "presenter-proof"),
        (
            "path_for_target",
            "a path does not name the witness",
            Draft { covered: vec![("@method", "POST".into()), ("@path", "/".into())], ..get.clone() }.signed(),
            "presenter-proof",
        ),
        ("component_twice", "RFC 9421, 2: each component once", method_twice.signed(), "presenter-proof"),
        (
            "covers_absent_header",
            "what did not arrive cannot be covered",
            Draft { covered: [&get.covered[..], &[("date", "x".to_owned())]].concat(), ..get.clone() }.signed(),
            "presenter-proof",
        ),
        ("created_missing", "when", say(&created, ""), "presenter-proof"),
        ("created_fraction", "whole seconds", say(&created, &format!("{created}.5")), "presenter-proof"),
        (
            "nonce_missing",
            "a nonce, so that two requests differ",
            say(&format!(";nonce=\"{NONCE}\""), ""),
            "presenter-proof",
        ),
        ("nonce_empty", "a nonce of at least a character", say(NONCE, ""), "presenter-proof"),
        ("nonce_too_long", "a nonce of at most 128 characters", say(NONCE, &"a".repeat(129)), "presenter-proof"),
        ("keyid_missing", "who signed", say(&format!(";keyid=\"{}\"", H.hex()), ""), "presenter-proof"),
        ("keyid_upper_case", "one spelling", say(&H.hex(), &H.hex().to_uppercase()), "presenter-proof"),
        (
            "keyid_weak",
            "its constant signature verifies for anything",
            say(&H.hex(), &format!("01{}", "0".repeat(62))),
            "presenter-proof",
        ),
        ("keyid_of_another", "X signs, H is named", Draft { key: X, ..post.clone() }.signed(), "presenter-proof"),
        (
            "keyid_exchanged",
            "P puts its name on H's signature",
            with(
                &signed,
                json!({ "headers": Draft { params: params(P), ..post.clone() }.request(&post.signature())["headers"] }),
            ),
            "presenter-proof",
        ),
        ("alg_other", "Ed25519 only", say("alg=\"ed25519\"", "alg=\"hmac-sha256\""), "presenter-proof"),
        ("signature_malleated", "S + L", post.request(&malleated(&post.signature())), "presenter-proof"),
        ("signature_short", "64 bytes", post.request(&post.signature()[2..]), "presenter-proof"),
        (
            "signature_missing",
            "an input without a signature",
            with(&signed, json!({ "headers": [signed["headers"][0], signed["headers"][1]] })),
            "presenter-proof",
        ),
        (
            "signature_under_other_label",
            "the label ties the two headers together",
            with(
                &signed,
                json!({ "headers": [signed["headers"][0], signed["headers"][1], ["signature", signed["headers"][2][1].as_str().unwrap_or_default().replace("wikala=", "sig1=")]] }),
            ),
            "presenter-proof",
        ),
        ("two_of_ours", "two signers: which of them stands here?", two, "presenter-proof"),
        ("61_s_old", "stale", with(&signed, json!({ "now": NOW + 61 })), "presenter-proof"),
        ("61_s_ahead", "early", with(&signed, json!({ "now": NOW - 61 })), "presenter-proof"),
    ] {
        cases.push(Case::new(name, why, inputs, no(code)));
    }
    cases
}
