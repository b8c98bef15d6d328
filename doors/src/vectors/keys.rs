//! Keys: which 64 hex digits are a party, and which points are refused at the door.

use serde_json::{Value, json};
use wikala_chain::{KeyError, PublicKey};

use super::case::{Case, no, ok, text};
use super::cast::{H, W2};

pub(super) fn replay(inputs: &Value) -> Value {
    match PublicKey::from_hex(text(inputs, "key")) {
        Ok(key) => ok(json!({ "fingerprint": key.fingerprint().to_string() })),
        Err(KeyError::Malformed) => no("hop-key"),
        Err(KeyError::Weak) => no("hop-weak-key"),
    }
}

/// Name, why, the key.
const MALFORMED: [(&str, &str, &str); 13] = [
    ("empty", "64 digits", ""),
    ("not_hex", "64 hex digits", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"),
    ("short", "63 digits", "bc7cbcb5636375fa1d82434d466724d92377f53b980695dd49d26d0ce12205a"),
    ("long", "65 digits", "bc7cbcb5636375fa1d82434d466724d92377f53b980695dd49d26d0ce12205a50"),
    (
        "upper_case",
        "one spelling, or one party is two",
        "BC7CBCB5636375FA1D82434D466724D92377F53B980695DD49D26D0CE12205A5",
    ),
    (
        "prefixed",
        "one spelling, or one party is two",
        "0xbc7cbcb5636375fa1d82434d466724d92377f53b980695dd49d26d0ce12205",
    ),
    (
        "space_before",
        "one spelling, or one party is two",
        " bc7cbcb5636375fa1d82434d466724d92377f53b980695dd49d26d0ce12205a5",
    ),
    ("full_width_digits", "ASCII digits only", "\u{ff10}c7cbcb5636375fa1d82434d466724d92377f53b980695dd49d26d0ce12205"),
    ("not_on_curve", "no point has y = 2", "0200000000000000000000000000000000000000000000000000000000000000"),
    (
        "y_is_p",
        "not canonical: y = p is y = 0 again",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ),
    (
        "y_is_p_plus_1",
        "not canonical: y = p + 1 is the identity again",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ),
    (
        "identity_negative",
        "not canonical: the sign of x = 0",
        "0100000000000000000000000000000000000000000000000000000000000080",
    ),
    (
        "order_2_negative",
        "not canonical: the sign of x = 0",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ),
];

/// Name, why, the key.
const WEAK: [(&str, &str, &str); 9] = [
    (
        "identity",
        "its constant signature verifies for anything",
        "0100000000000000000000000000000000000000000000000000000000000000",
    ),
    ("order_2", "a point of small order", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ("order_4", "a point of small order", "0000000000000000000000000000000000000000000000000000000000000000"),
    ("order_4_negative", "a point of small order", "0000000000000000000000000000000000000000000000000000000000000080"),
    ("order_8", "a point of small order", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    ("order_8_other", "a point of small order", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    (
        "torsion_8",
        "H's key and a point of order 8: verifiers disagree on its signatures",
        "d7081f8e05fb94cd7b251bf94dc4e12cb7d7933835addc91930ee6db68ef9288",
    ),
    ("torsion_4", "H's key and a point of order 4", "555931e88ec0a67ebbd9beb70575d04735a1b13e65e648e930e5c4e8e47898b2"),
    ("torsion_2", "H's key and a point of order 2", "3183434a9c9c8a05e27dbcb2b998db26dc880ac467f96a22b62d92f31eddfa5a"),
];

pub(super) fn cases() -> Vec<Case> {
    let good = [
        // SHA-256 of the 32 raw bytes, its first 8.
        ("honest", "a key of prime order", H.hex(), "730a5edc28c2f8da"),
        ("reference_test_key", "the reference's published test key", W2.hex(), "a1d577350a959ecd"),
    ];
    let good = good.map(|(name, why, key, fingerprint)| {
        Case::new(name, why, json!({ "key": key }), ok(json!({ "fingerprint": fingerprint })))
    });
    let refused =
        |code| move |(name, why, key): (&str, &str, &str)| Case::new(name, why, json!({ "key": key }), no(code));
    let mut cases = Vec::from(good);
    cases.extend(MALFORMED.map(refused("hop-key")));
    cases.extend(WEAK.map(refused("hop-weak-key")));
    cases
}
