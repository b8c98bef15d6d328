//! The window: fresh iff |now - signed| <= 60, inclusive both ways.

use serde_json::{Value, json};
use wikala_certs::{Moment, is_fresh};

use super::case::{Case, no, number, ok};
use super::cast::NOW;

pub(super) fn replay(inputs: &Value) -> Value {
    let fresh = is_fresh(Moment::from_secs(number(inputs, "now")), number(inputs, "timestamp"));
    if fresh { ok(json!({})) } else { no("act-stale") }
}

pub(super) fn cases() -> Vec<Case> {
    let most = (1u64 << 53) - 1;
    [
        ("signed_now", "the same second", NOW, NOW, true),
        ("signed_60_s_ago", "the last second of the window", NOW - 60, NOW, true),
        ("signed_60_s_ahead", "the signer's clock may be ahead as much as behind", NOW + 60, NOW, true),
        ("near_the_beginning", "no arithmetic below zero", 0, 60, true),
        ("signed_61_s_ago", "one second too old", NOW - 61, NOW, false),
        ("signed_61_s_ahead", "one second too early: it would be good for two windows", NOW + 61, NOW, false),
        ("at_the_beginning", "a clock that was never set", NOW, 0, false),
        ("never_signed", "a timestamp that was never set", 0, NOW, false),
        ("at_the_end", "the largest timestamp", most, NOW, false),
        ("milliseconds", "seconds, not milliseconds", NOW * 1000, NOW, false),
    ]
    .into_iter()
    .map(|(name, why, timestamp, now, fresh)| {
        let expect = if fresh { ok(json!({})) } else { no("act-stale") };
        Case::new(name, why, json!({ "timestamp": timestamp, "now": now }), expect)
    })
    .collect()
}
