//! JSON as it is read everywhere: nothing twice, not too deep, no byte order mark, and
//! integers that have two spellings.

use serde_json::{Value, json};
use wikala_chain::{JsonError, json as strict};

use super::case::{Case, no, ok, text};

pub(super) fn replay(inputs: &Value) -> Value {
    if let Some(raw) = inputs["integer"].as_str() {
        return strict::integer(raw).map_or_else(|_| no("body-malformed"), |value| ok(json!({ "value": value })));
    }
    match strict::check(text(inputs, "text")) {
        Ok(()) => ok(json!({})),
        Err(JsonError::DuplicateKey(_)) => no("body-duplicate-key"),
        Err(JsonError::Malformed(_) | JsonError::TooDeep) => no("body-malformed"),
    }
}

/// Name, why, the text, its code; empty if it reads.
const TEXTS: [(&str, &str, &str, &str); 32] = [
    ("object", "white space is free between tokens", " { \"a\" : [ 1 , \"b\" ] }\r\n\t", ""),
    ("scalar", "any value is a text", "null", ""),
    ("same_key_in_two_objects", "each object is its own", r#"[{"a":1},{"a":{"a":1}}]"#, ""),
    (
        "key_and_its_like",
        "keys are compared as text, not by case or normal form",
        "{\"a\":1,\"A\":1,\"\u{e9}\":1,\"e\u{301}\":1}",
        "",
    ),
    ("half_surrogate_in_value", "a value that is not read keeps its text", r#"["\ud800"]"#, ""),
    ("large_number_in_value", "a number that is not read keeps its text", "[1e999,-0.0e-5]", ""),
    ("duplicate_key", "first or last wins depends on the reader", r#"{"a":1,"a":2}"#, "body-duplicate-key"),
    ("duplicate_key_same_value", "also if both say the same", r#"{"a":1,"a":1}"#, "body-duplicate-key"),
    (
        "duplicate_key_by_escape",
        "an escape does not make it another key",
        r#"{"a":1,"\u0061":2}"#,
        "body-duplicate-key",
    ),
    (
        "duplicate_key_by_surrogates",
        "nor does a pair of surrogates",
        "{\"\u{1f4e6}\":1,\"\\ud83d\\udce6\":2}",
        "body-duplicate-key",
    ),
    ("duplicate_empty_key", "the empty key is one", r#"{"":1,"":2}"#, "body-duplicate-key"),
    ("duplicate_key_deep", "at every level", r#"{"x":[{"a":1,"b":[],"a":2}]}"#, "body-duplicate-key"),
    (
        "duplicate_proto",
        "a key that some readers take for themselves",
        r#"{"__proto__":1,"__proto__":2}"#,
        "body-duplicate-key",
    ),
    ("syntax_before_duplicate", "broken syntax is told before a repeated key", r#"{"a":1,"a":2"#, "body-malformed"),
    ("byte_order_mark", "UTF-8 without one", "\u{feff}{}", "body-malformed"),
    ("empty", "a text is one value", "", "body-malformed"),
    ("two_values", "one value and nothing after it", "{} {}", "body-malformed"),
    ("trailing_comma_in_object", "no comma before the end", "{\"a\":1,}", "body-malformed"),
    ("trailing_comma_in_array", "no comma before the end", "[1,]", "body-malformed"),
    ("key_without_quotes", "keys are strings", "{a:1}", "body-malformed"),
    ("single_quotes", "strings have double quotes", "{'a':1}", "body-malformed"),
    ("comment", "there are no comments", "{/* */}", "body-malformed"),
    ("not_a_number", "NaN is no JSON", "[NaN]", "body-malformed"),
    ("leading_zero", "numbers do not begin with 0", "[01]", "body-malformed"),
    ("plus_sign", "numbers do not begin with a plus", "[+1]", "body-malformed"),
    ("no_fraction_digits", "a point is followed by digits", "[1.]", "body-malformed"),
    ("control_character", "a line break in a string is escaped", "[\"a\nb\"]", "body-malformed"),
    ("unknown_escape", "eight letters may follow a backslash, and u", r#"["\x41"]"#, "body-malformed"),
    ("string_ends_early", "a string has an end", "[\"a", "body-malformed"),
    ("other_white_space", "a no-break space is no white space", "\u{a0}{}", "body-malformed"),
    ("half_surrogate_in_key", "a key that is no text cannot be compared", r#"{"\ud800":1}"#, "body-malformed"),
    ("upper_case_word", "true, false, null", "[True]", "body-malformed"),
];

/// Name, why, the number, its value if it has one.
const INTEGERS: [(&str, &str, &str, Option<u64>); 20] = [
    ("integer", "plain decimal", "1764540000", Some(1_764_540_000)),
    ("integer_zero", "the smallest", "0", Some(0)),
    ("integer_largest", "2^53 - 1", "9007199254740991", Some((1 << 53) - 1)),
    ("integer_point_zero", "protobuf SDKs write so", "1764540000.0", Some(1_764_540_000)),
    ("integer_zero_point_zero", "the smallest, written so", "0.0", Some(0)),
    ("integer_largest_point_zero", "the largest, written so", "9007199254740991.0", Some((1 << 53) - 1)),
    ("integer_too_large", "2^53: some readers cannot tell it from the next", "9007199254740992", None),
    ("integer_far_too_large", "no wrapping", "18446744073709551617", None),
    ("integer_two_zeros", "N or N.0 and nothing else", "1764540000.00", None),
    ("integer_fraction", "no fraction", "1764540000.5", None),
    ("integer_exponent", "no exponent: 1e3 has another text in the signed bytes", "1e3", None),
    ("integer_exponent_zero", "no exponent", "1E0", None),
    ("integer_negative", "no sign", "-1", None),
    ("integer_minus_zero", "no sign", "-0", None),
    ("integer_minus_zero_point_zero", "no sign", "-0.0", None),
    ("integer_text", "a number, not a text", "\"1764540000\"", None),
    ("integer_true", "a number: true is 1 to some readers", "true", None),
    ("integer_false", "a number", "false", None),
    ("integer_null", "a number", "null", None),
    ("integer_list", "a number", "[1]", None),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = TEXTS
        .iter()
        .map(|(name, why, text, code)| {
            let expect = if code.is_empty() { ok(json!({})) } else { no(code) };
            Case::new(*name, *why, json!({ "text": text }), expect)
        })
        .collect();
    for (name, open, close) in [("arrays", "[", "]"), ("objects", "{\"a\":", "}")] {
        let nest = |levels: usize| json!({ "text": format!("{}1{}", open.repeat(levels), close.repeat(levels)) });
        cases.push(Case::new(format!("depth_64_{name}"), "the deepest text that is read", nest(64), ok(json!({}))));
        cases.push(Case::new(format!("depth_65_{name}"), "one level more", nest(65), no("body-malformed")));
    }
    cases.extend(INTEGERS.map(|(name, why, raw, value)| {
        let expect = value.map_or_else(|| no("body-malformed"), |value| ok(json!({ "value": value })));
        Case::new(name, why, json!({ "integer": raw }), expect)
    }));
    cases
}
