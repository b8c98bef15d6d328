//! The gate for schemas of answers, and what answers come to behind it.

use serde_json::{Map, Value, json};
use wikala_witness::schema::{self, Violation};

use super::case::{Case, no, ok, with};
use super::schema_tables::{FITS, GOOD, REFUSED, VIOLATIONS};
use crate::obligations::spec::gated;

/// A text; of pieces if it is long, each a text or `[text, times]`.
fn written(value: &Value) -> String {
    let piece = |piece: &Value| match (piece.as_str(), piece[0].as_str(), piece[1].as_u64()) {
        (Some(text), ..) => text.to_owned(),
        (None, Some(text), Some(times)) => text.repeat(usize::try_from(times).unwrap_or(0)),
        _ => String::new(),
    };
    match value {
        Value::Array(pieces) => pieces.iter().map(piece).collect(),
        whole => piece(whole),
    }
}

pub(super) fn replay(inputs: &Value) -> Value {
    let text = match gated(&written(&inputs["schema"])) {
        Ok(text) => text,
        Err(problem) => return no(problem.code.as_str()),
    };
    let Some(instance) = inputs.get("instance") else { return ok(json!({ "bytes": text.len() })) };
    // It has just passed.
    let Ok(accepted) = schema::gate(&text) else { return Value::Null };
    match accepted.check(&written(instance)) {
        Ok(()) => ok(json!({})),
        Err(Violation::TooCostly) => no("response-too-costly"),
        Err(Violation::Mismatch(places)) => {
            let mut at: Vec<String> = places.into_iter().map(|place| place.at).collect();
            at.sort_unstable();
            at.dedup();
            with(&no("response-schema-violation"), json!({ "places": at }))
        }
    }
}

/// `levels` of two references each to the next, under these members of each.
fn fan(levels: usize, keyword: &str, beside: &Value) -> Value {
    let mut defs = Map::new();
    for level in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        defs.insert(format!("d{level}"), with(beside, json!({ keyword: [next.clone(), next] })));
    }
    defs.insert(format!("d{levels}"), json!({ "type": ["object", "string"] }));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

fn patterns(count: usize) -> Value {
    (0..count).map(|n| (format!("^a{n}$"), json!(true))).collect::<Map<_, _>>().into()
}

fn unevaluated(count: usize) -> Value {
    (0..count).map(|n| (format!("a{n}"), json!({ "unevaluatedItems": false }))).collect::<Map<_, _>>().into()
}

/// Two lists whose elements are this schema again: what applies doubles with each level.
const DOUBLING: &str = r##"{"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}"##;
/// Long when it is written out.
const HUNDREDS: &str = r#"{"pattern":"(x{100}){10}"}"#;
const PATTERNED: &str = r#"{"patternProperties":{"^n{2000}$":{}}}"#;
const INTEGERS: &str = r#"{"items":{"type":"integer"}}"#;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let schema = |schema: Value| json!({ "schema": schema });
    for (name, why, text) in GOOD.iter().copied() {
        // As they stand they are canonical but for the order of their names.
        cases.push(Case::new(name, why, schema(json!(text)), ok(json!({ "bytes": text.len() }))));
    }
    for (name, why, text, code) in REFUSED.iter().copied() {
        cases.push(Case::new(name, why, schema(json!(text)), no(code)));
    }
    let described = |x: usize| json!(["{\"description\":\"", ["x", x], "\"}"]);
    let nots = |n: usize| json!([["{\"not\":", n], "{}", ["}", n]]);
    let long = |n: usize| json!(["{\"pattern\":\"", ["a", n], "\"}"]);
    let text = |value: Value| json!(value.to_string());
    let none = json!({});
    let shut = json!({ "unevaluatedProperties": false });
    for (name, why, written, bytes) in [
        ("bytes_65536", "the largest", described(65_518), 65_536),
        (
            "bytes_of_white_space",
            "what is measured is the canonical text",
            json!(["{", [" ", 70_000], "\"description\":\"", ["x", 60_000], "\"}"]),
            60_018,
        ),
        ("depth_64", "as deep as JSON is read", nots(63), 506),
        ("pattern_1024_bytes", "the longest pattern", long(1024), 1038),
    ] {
        cases.push(Case::new(name, why, schema(written), ok(json!({ "bytes": bytes }))));
    }
    for (name, why, value) in [
        ("patterns_32", "as many patterns as are compiled", json!({ "patternProperties": patterns(32) })),
        ("unevaluated_8", "as many of the dear keywords", json!({ "properties": unevaluated(8) })),
        ("fan_out_8190", "8,190 schemas apply to one place", fan(11, "allOf", &none)),
        ("unevaluated_fan_out", "each level asks all below twice: 4,090", fan(5, "anyOf", &shut)),
    ] {
        let bytes = value.to_string().len();
        cases.push(Case::new(name, why, schema(text(value)), ok(json!({ "bytes": bytes }))));
    }
    let costly = "schema-too-costly";
    for (name, why, written, code) in [
        ("bytes_65537", "one byte more", described(65_519), "schema-too-large"),
        ("depth_65", "one level more", nots(64), "schema-invalid"),
        ("pattern_1025_bytes", "one byte more", long(1025), "schema-pattern-refused"),
        ("patterns_33", "one more", text(json!({ "patternProperties": patterns(33) })), "schema-pattern-refused"),
        (
            "patterns_33_nowhere",
            "counted wherever they stand",
            text(json!({ "const": [{ "patternProperties": patterns(33) }] })),
            "schema-pattern-refused",
        ),
        ("unevaluated_9", "one more", text(json!({ "properties": unevaluated(9) })), costly),
        ("fan_out_16382", "more than 10,000 at one place", text(fan(12, "allOf", &none)), costly),
        ("fan_out_2_26", "two references a level, 26 levels", text(fan(26, "allOf", &none)), costly),
        ("fan_out_any_of", "one is enough to fit, all are asked when none fits", text(fan(18, "anyOf", &none)), costly),
        ("fan_out_one_of", "all are asked always", text(fan(20, "oneOf", &none)), costly),
        (
            "fan_out_unused",
            "also where nobody refers to it",
            text(json!({ "$defs": fan(26, "allOf", &none)["$defs"] })),
            costly,
        ),
        (
            "fan_out_unevaluated",
            "what is unevaluated is found by asking all again",
            text(fan(7, "anyOf", &shut)),
            costly,
        ),
    ] {
        cases.push(Case::new(name, why, schema(written), no(code)));
    }
    cases.extend(instances());
    cases
}

fn instances() -> Vec<Case> {
    let mut cases = Vec::new();
    let inputs = |schema: &str, instance: Value| json!({ "schema": schema, "instance": instance });
    let wrong = |places: &[&str]| with(&no("response-schema-violation"), json!({ "places": places }));
    for (name, why, schema, instance) in FITS.iter().copied() {
        cases.push(Case::new(format!("fits_{name}"), why, inputs(schema, json!(instance)), ok(json!({}))));
    }
    for (name, why, schema, instance, places) in VIOLATIONS.iter().copied() {
        cases.push(Case::new(format!("wrong_{name}"), why, inputs(schema, json!(instance)), wrong(places)));
    }
    let nested = |n: u64| json!([["[", n], ["]", n]]);
    let ones = |n: u64| json!(["[", ["1,", n], "1]"]);
    let word = |n: u64| json!(["\"", ["x", n], "\""]);
    let empties = |n: u64| json!(["[", ["{},", n], "{}]"]);
    let names = |n: usize| (0..n).map(|n| (format!("n{n}"), json!(0))).collect::<Map<_, _>>();
    let patterned: Map<_, _> = (0..80).map(|n| (format!("{n:0>100}"), json!(0))).collect();
    let patterned = Value::from(patterned).to_string();
    let names = |n: usize| Value::from(names(n)).to_string();
    let dependents: Map<_, _> = (0..100).map(|n| (format!("d{n}"), json!([]))).collect();
    let dependents = json!({ "items": { "dependentRequired": dependents } }).to_string();
    let fanned = fan(11, "anyOf", &json!({}));
    let fanned = json!({ "$defs": fanned["$defs"], "propertyNames": { "$ref": "#/$defs/d0" } }).to_string();
    for (name, why, schema, instance) in [
        ("list_of_10000", "a long list", INTEGERS, ones(9_999)),
        ("doubling", "12 levels: 12,285", DOUBLING, nested(12)),
        ("pattern_of_1000", "1,000 elements held against 15,999 bytes", HUNDREDS, word(15_999)),
        ("names_of_dependents", "100 names asked for in 9,900 objects: 999,901", &dependents, empties(9_899)),
        ("mebibyte", "the largest instance", "{}", word(1_048_574)),
        ("depth_64", "as deep as JSON is read", "{}", nested(64)),
    ] {
        cases.push(Case::new(format!("fits_{name}"), why, inputs(schema, instance), ok(json!({}))));
    }
    for (name, why, schema, instance) in [
        ("list_of_100000", "two steps an element, and one: 200,001", INTEGERS, ones(99_999)),
        ("doubling", "19 levels: 1,572,861", DOUBLING, nested(19)),
        ("pattern", "1,000 elements held against 16,000 bytes", HUNDREDS, word(16_000)),
        ("names_of_dependents", "100 names asked for in 9,901 objects: 1,000,002", &dependents, empties(9_900)),
        ("property_names", "8,190 schemas for each of 123 names: 1,007,371", &fanned, json!(names(123))),
        ("pattern_of_names", "2,000 elements held against 8,000 bytes of names", PATTERNED, json!(patterned)),
        ("mebibyte", "one byte more", "{}", word(1_048_575)),
        ("depth_65", "one level more", "{}", nested(65)),
    ] {
        cases.push(Case::new(format!("costly_{name}"), why, inputs(schema, instance), no("response-too-costly")));
    }
    let last = |n: u64| json!(["[", ["1,", n], "\"x\"]"]);
    let first: Vec<String> = (0..16).map(|n| format!("/{n}")).collect();
    let mut first: Vec<&str> = first.iter().map(String::as_str).collect();
    first.sort_unstable();
    for (name, why, instance, places) in [
        ("last_of_9999", "10,000 schemas apply: what is wrong is searched for", last(9_998), &["/9998"][..]),
        ("last_of_10000", "10,001: it is only told that it is wrong", last(9_999), &[]),
        ("twenty", "the first 16 are told", json!(["[", ["\"x\",", 19], "\"x\"]"]), &first),
    ] {
        cases.push(Case::new(format!("wrong_{name}"), why, inputs(INTEGERS, instance), wrong(places)));
    }
    cases
}
