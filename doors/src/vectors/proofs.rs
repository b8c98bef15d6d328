//! Proofs by their shape: a closed set of members, each in its one spelling.

use serde_json::{Value, json};
use wikala_certs::Proof;

use super::case::{Case, no, ok, text};
use super::cast::{H, NONCE, NOW, RUN};

pub(super) fn replay(inputs: &Value) -> Value {
    match Proof::parse(text(inputs, "proof")) {
        Ok(proof) => ok(json!({
            "publicKey": proof.public_key.to_hex(),
            "timestamp": proof.timestamp,
            "signature": proof.signature.to_hex(),
            "nonce": proof.nonce,
        })),
        Err(error) => no(error.code()),
    }
}

/// Name, why, the text. `$K`, `$S` and `$N` stand for key, signature and nonce.
const GOOD: [(&str, &str, &str); 5] = [
    ("plain", "as every act carries it", r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S"}"#),
    (
        "with_nonce",
        "as presenters carry it",
        r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","nonce":"$N"}"#,
    ),
    (
        "point_zero",
        "protobuf SDKs write integers so",
        r#"{"publicKey":"$K","timestamp":1764540000.0,"signature":"$S"}"#,
    ),
    (
        "other_order",
        "order and white space are free",
        "{ \"signature\" : \"$S\",\n \"timestamp\":1764540000, \"publicKey\":\"$K\" }",
    ),
    (
        "escaped_names",
        "an escape is read as what it stands for",
        r#"{"\u0070ublicKey":"$K","timestamp":1764540000,"signature":"$S"}"#,
    ),
];

/// Name, why, the text; all are `proof-malformed`.
const BAD: [(&str, &str, &str); 38] = [
    ("not_json", "JSON", "x"),
    ("text", "an object", "\"x\""),
    ("list", "an object", r#"["$K",1764540000,"$S"]"#),
    ("null", "an object; absence is decided by whoever holds the proof", "null"),
    ("empty", "all members", "{}"),
    (
        "two_objects",
        "one object and nothing after it",
        r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S"}{}"#,
    ),
    (
        "byte_order_mark",
        "no byte order mark",
        "\u{feff}{\"publicKey\":\"$K\",\"timestamp\":1764540000,\"signature\":\"$S\"}",
    ),
    (
        "unknown_member",
        "a closed set: what nobody reads is not signed",
        r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","run":"run_2c26b46b68ffc68ff99b453c"}"#,
    ),
    ("other_case", "names are compared exactly", r#"{"publickey":"$K","timestamp":1764540000,"signature":"$S"}"#),
    ("snake_case", "one spelling of the names", r#"{"public_key":"$K","timestamp":1764540000,"signature":"$S"}"#),
    (
        "timestamp_twice",
        "first or last wins depends on the reader",
        r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","timestamp":1}"#,
    ),
    (
        "timestamp_twice_by_escape",
        "an escape does not make it another member",
        r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","timest\u0061mp":1}"#,
    ),
    ("key_missing", "who signed", r#"{"timestamp":1764540000,"signature":"$S"}"#),
    ("key_null", "who signed", r#"{"publicKey":null,"timestamp":1764540000,"signature":"$S"}"#),
    ("key_number", "a text", r#"{"publicKey":1,"timestamp":1764540000,"signature":"$S"}"#),
    ("key_short", "64 digits", r#"{"publicKey":"bc7c","timestamp":1764540000,"signature":"$S"}"#),
    (
        "key_upper_case",
        "one spelling, or one party is two",
        r#"{"publicKey":"BC7CBCB5636375FA1D82434D466724D92377F53B980695DD49D26D0CE12205A5","timestamp":1764540000,"signature":"$S"}"#,
    ),
    (
        "key_not_on_curve",
        "no point has y = 2",
        r#"{"publicKey":"0200000000000000000000000000000000000000000000000000000000000000","timestamp":1764540000,"signature":"$S"}"#,
    ),
    (
        "key_identity",
        "its constant signature verifies for anything",
        r#"{"publicKey":"0100000000000000000000000000000000000000000000000000000000000000","timestamp":1764540000,"signature":"$S"}"#,
    ),
    (
        "key_torsion",
        "verifiers disagree on its signatures",
        r#"{"publicKey":"d7081f8e05fb94cd7b251bf94dc4e12cb7d7933835addc91930ee6db68ef9288","timestamp":1764540000,"signature":"$S"}"#,
    ),
    ("timestamp_missing", "when", r#"{"publicKey":"$K","signature":"$S"}"#),
    ("timestamp_null", "when", r#"{"publicKey":"$K","timestamp":null,"signature":"$S"}"#),
    ("timestamp_text", "a number, not a text", r#"{"publicKey":"$K","timestamp":"1764540000","signature":"$S"}"#),
    (
        "timestamp_true",
        "a number: true is 1 to some readers",
        r#"{"publicKey":"$K","timestamp":true,"signature":"$S"}"#,
    ),
    ("timestamp_fraction", "whole seconds", r#"{"publicKey":"$K","timestamp":1764540000.5,"signature":"$S"}"#),
    ("timestamp_two_zeros", "N or N.0", r#"{"publicKey":"$K","timestamp":1764540000.00,"signature":"$S"}"#),
    (
        "timestamp_exponent",
        "1e3 has another text in the signed bytes",
        r#"{"publicKey":"$K","timestamp":1e3,"signature":"$S"}"#,
    ),
    ("timestamp_negative", "no sign", r#"{"publicKey":"$K","timestamp":-1,"signature":"$S"}"#),
    ("timestamp_too_large", "2^53", r#"{"publicKey":"$K","timestamp":9007199254740992,"signature":"$S"}"#),
    ("signature_missing", "a signature", r#"{"publicKey":"$K","timestamp":1764540000}"#),
    ("signature_short", "128 digits", r#"{"publicKey":"$K","timestamp":1764540000,"signature":"00"}"#),
    ("signature_upper_case", "one spelling", r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$U"}"#),
    ("signature_base64", "hex, not base64", r#"{"publicKey":"$K","timestamp":1764540000,"signature":"AAAA"}"#),
    ("nonce_null", "absent or a text", r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","nonce":null}"#),
    ("nonce_number", "absent or a text", r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","nonce":1}"#),
    ("nonce_short", "32 digits", r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","nonce":"c9c9"}"#),
    (
        "nonce_upper_case",
        "one spelling, or one nonce is good twice",
        r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","nonce":"C9C9C9C9C9C9C9C9C9C9C9C9C9C9C9C9"}"#,
    ),
    (
        "nonce_with_colon",
        "a colon would move the parts of the signed bytes",
        r#"{"publicKey":"$K","timestamp":1764540000,"signature":"$S","nonce":"c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9:9"}"#,
    ),
];

pub(super) fn cases() -> Vec<Case> {
    let signature = H.sign(&format!("funduq-resolve:{RUN}:{NOW}"));
    let fill = |text: &str| {
        let text = text.replace("$K", &H.hex()).replace("$S", &signature).replace("$N", NONCE);
        text.replace("$U", &signature.to_uppercase())
    };
    let good = GOOD.iter().map(|(name, why, text)| {
        let nonce = text.contains("$N").then_some(NONCE);
        let expect = json!({ "publicKey": H.hex(), "timestamp": NOW, "signature": signature, "nonce": nonce });
        Case::new(*name, *why, json!({ "proof": fill(text) }), ok(expect))
    });
    let bad = BAD
        .iter()
        .map(|(name, why, text)| Case::new(*name, *why, json!({ "proof": fill(text) }), no("proof-malformed")));
    good.chain(bad).collect()
}
