use serde_json::json;

use super::*;

fn refused(schema: &Value) -> Option<Refused> {
    AcceptedSchema::accept(&schema.to_string()).err()
}

/// 2^n ways through `n` levels of two references each.
fn fan(n: usize, keyword: &str) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..n {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        defs.insert(format!("d{level}"), json!({ keyword: [next.clone(), next] }));
    }
    defs.insert(format!("d{n}"), json!({ "type": "string" }));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

#[test]
fn what_leads_out_of_a_schema_is_refused_wherever_it_stands() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/schema", listener.local_addr().unwrap());
    for schema in [
        json!({ "$ref": url }),
        json!({ "$defs": { "unused": { "$ref": url } } }),
        json!({ "properties": { "a": { "items": { "$ref": url } } } }),
        json!({ "enum": [{ "$ref": url }] }),
        json!({ "default": { "$ref": url }, "x-unknown": 1 }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$ref": "other.json#/a" }),
        json!({ "$dynamicRef": url }),
        json!({ "$dynamicRef": "#a" }),
        json!({ "$ref": "#anchor" }),
        json!({ "$defs": { "a": { "$id": url, "type": "string" } }, "$ref": "#/$defs/a" }),
        json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" }),
    ] {
        assert_eq!(refused(&schema), Some(Refused::ExternalReference), "{schema}");
    }
    assert!(listener.accept().is_err(), "nobody was asked");
}

#[test]
fn another_dialect_and_what_is_no_schema_are_refused() {
    for dialect in [
        "http://json-schema.org/draft-07/schema#",
        "https://example.com/own",
        "",
        "https://json-schema.org/draft/2020-12/schema#",
    ] {
        assert_eq!(refused(&json!({ "$schema": dialect })), Some(Refused::Dialect));
    }
    assert!(refused(&json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" })).is_none());
    for schema in [
        json!(true),
        json!([]),
        json!({ "type": "strng" }),
        json!({ "$ref": "#/none" }),
        json!({ "minimum": "1" }),
        json!({ "pattern": 1 }),
    ] {
        assert_eq!(refused(&schema), Some(Refused::Invalid), "{schema}");
    }
    for text in ["", "{", "{\"type\":\"string\",\"type\":\"number\"}", &"[".repeat(100_000)] {
        assert!(AcceptedSchema::accept(text).is_err());
    }
    let padded = |bytes: usize| format!("{{\"description\":{:?}}}", "x".repeat(bytes - 18));
    assert_eq!(padded(SCHEMA_BYTES).len(), SCHEMA_BYTES);
    assert!(AcceptedSchema::accept(&padded(SCHEMA_BYTES)).is_ok());
    assert_eq!(AcceptedSchema::accept(&padded(SCHEMA_BYTES + 1)).err(), Some(Refused::TooLarge));
    // White space is nobody's schema.
    assert!(AcceptedSchema::accept(&(padded(SCHEMA_BYTES) + &" ".repeat(SCHEMA_BYTES))).is_ok());
}

#[test]
fn a_schema_that_applies_itself_in_place_is_refused_and_one_that_goes_down_is_not() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "allOf": [{ "$ref": "#/$defs/a" }] } } }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "$defs": { "unused": { "anyOf": [{ "$ref": "#/$defs/unused" }] } } }),
    ] {
        assert_eq!(refused(&schema), Some(Refused::InPlaceCycle), "{schema}");
    }
    let tree = json!({ "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#" } } }, "additionalProperties": false });
    let tree = AcceptedSchema::accept(&tree.to_string()).unwrap();
    let mut instance = json!({});
    for _ in 0..30 {
        instance = json!({ "children": [instance] });
    }
    assert_eq!(tree.check(&instance.to_string()), Ok(()));
}

/// What an attack costs is told by counting: as a ratio to a benign schema of the same size.
#[test]
fn what_would_cost_too_much_is_refused_in_the_time_of_a_benign_schema() {
    let benign = json!({ "properties": (0..200).map(|n| (format!("p{n}"), json!({ "type": "string", "maxLength": n }))).collect::<serde_json::Map<_, _>>() });
    let time = |schema: &Value| {
        let text = schema.to_string();
        let begun = cpu_time::ThreadTime::now();
        let verdict = AcceptedSchema::accept(&text).err();
        (verdict, begun.elapsed())
    };
    let (verdict, usual) = (0..5).map(|_| time(&benign)).min_by_key(|(_, took)| *took).unwrap();
    assert_eq!(verdict, None);
    let mut unevaluated = json!({ "type": "object" });
    for _ in 0..12 {
        unevaluated = json!({ "anyOf": [unevaluated.clone(), unevaluated], "unevaluatedProperties": false });
        if unevaluated.to_string().len() > 30_000 {
            break;
        }
    }
    for attack in [fan(26, "allOf"), fan(18, "anyOf"), fan(24, "anyOf"), fan(20, "oneOf"), unevaluated] {
        let (verdict, took) = (0..3).map(|_| time(&attack)).min_by_key(|(_, took)| *took).unwrap();
        assert_eq!(verdict, Some(Refused::TooCostly));
        assert!(took < usual * 50, "{took:?} against {usual:?}");
    }
    let chain: serde_json::Map<String, Value> =
        (0..1_500).map(|n| (format!("c{n}"), json!({ "$ref": format!("#/$defs/c{}", n + 1) }))).collect();
    assert!(refused(&json!({ "$ref": "#/$defs/c0", "$defs": chain })).is_some());
}

#[test]
fn patterns_are_few_short_and_linear() {
    assert!(refused(&json!({ "pattern": "^(a+)+$" })).is_none());
    for pattern in ["(?=a)b", "(a)\\1", "(a{1000}){1000}", &"a".repeat(1025)] {
        assert_eq!(refused(&json!({ "pattern": pattern })), Some(Refused::Pattern), "{pattern:.40}");
    }
    let many: serde_json::Map<String, Value> = (0..33).map(|n| (format!("^a{n}$"), json!(true))).collect();
    assert_eq!(refused(&json!({ "patternProperties": many })), Some(Refused::Pattern));
    let accepted = AcceptedSchema::accept(&json!({ "pattern": "^(a+)+$" }).to_string()).unwrap();
    assert!(accepted.check(&json!("a".repeat(100_000) + "b").to_string()).is_err());
}

#[test]
fn an_instance_is_bounded_as_its_schema_is() {
    // Legal alone, and twice as much with each level of the instance.
    let doubling = json!({ "allOf": [{ "items": { "$ref": "#" } }, { "items": { "$ref": "#" } }] });
    let doubling = AcceptedSchema::accept(&doubling.to_string()).unwrap();
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert_eq!(doubling.check(&nested(8)), Ok(()));
    assert_eq!(doubling.check(&nested(40)), Err(Violation::TooCostly));
    assert_eq!(doubling.check(&nested(5_000)), Err(Violation::TooCostly), "deeper than is read");
    let list = AcceptedSchema::accept(&json!({ "items": { "type": "integer" } }).to_string()).unwrap();
    let of = |n: usize| format!("[{}]", vec!["1"; n].join(","));
    assert_eq!(list.check(&of(10_000)), Ok(()));
    assert_eq!(list.check(&of(300_000)), Err(Violation::TooCostly));
    assert_eq!(list.check(&format!("\"{}\"", "x".repeat(INSTANCE_BYTES))), Err(Violation::TooCostly));
}

/// What no schema below an element says: a long pattern over a long text, a schema for each
/// name, a name that is asked for whether it is there or not.
#[test]
fn texts_and_names_are_counted_as_places_are() {
    let judge = |schema: Value, instance: &Value| {
        AcceptedSchema::accept(&schema.to_string()).unwrap().check(&instance.to_string())
    };
    let long = json!("ab".repeat(50_000));
    assert_eq!(judge(json!({ "pattern": "^[ab]*$" }), &long), Ok(()));
    assert_eq!(judge(json!({ "pattern": "[ab]*a[ab]{4000}c" }), &long), Err(Violation::TooCostly));
    let same = vec![json!({ "pattern": "[ab]{200}c" }); 32];
    assert_eq!(judge(json!({ "allOf": same }), &long), Err(Violation::TooCostly));
    let names = |count: usize| -> Value {
        (0..count).map(|n| (format!("n{n}"), json!(0))).collect::<serde_json::Map<_, _>>().into()
    };
    let mut fan = fan(11, "anyOf");
    fan["propertyNames"] = json!({ "$ref": "#/$defs/d0" });
    fan.as_object_mut().unwrap().remove("$ref");
    assert_eq!(judge(fan.clone(), &names(10)), Ok(()));
    assert_eq!(judge(fan, &names(1_000)), Err(Violation::TooCostly));
    let patterns = json!({ "patternProperties": { "[a-z]{4000}[0-9]": true } });
    assert_eq!(judge(patterns.clone(), &names(10)), Ok(()));
    assert_eq!(judge(patterns, &names(5_000)), Err(Violation::TooCostly));
    let dependent: serde_json::Map<_, _> = (0..4_000).map(|n| (format!("d{n}"), json!([]))).collect();
    let dependent = json!({ "items": { "dependentRequired": dependent } });
    assert_eq!(judge(dependent.clone(), &json!(vec![json!({}); 100])), Ok(()));
    assert_eq!(judge(dependent, &json!(vec![json!({}); 1_000])), Err(Violation::TooCostly));
}

#[test]
fn an_error_names_the_place_and_never_the_text() {
    let schema = json!({ "type": "object", "properties": { "quantity": { "type": "integer" }, "kind": { "enum": ["secret-one"] } },
        "additionalProperties": { "type": "null" }, "required": ["quantity"] });
    let accepted = AcceptedSchema::accept(&schema.to_string()).unwrap();
    assert_eq!(accepted.check(r#"{"quantity":4}"#), Ok(()));
    assert_eq!(accepted.check(r#"{"quantity":4.0}"#), Ok(()));
    let said = accepted.check(r#"{"quantity":"hunter2","kind":"hunter2","hunter2":"hunter2"}"#).unwrap_err();
    let Violation::Mismatch(places) = &said else { panic!("{said:?}") };
    let at: BTreeSet<&str> = places.iter().map(|place| place.at.as_str()).collect();
    assert_eq!(at, BTreeSet::from(["/quantity", "/kind", "/*"]));
    assert!(!said.to_string().contains("hunter2") && !said.to_string().contains("secret"), "{said}");
}

/// Random schemas and instances: never a panic, never an overflow.
#[test]
fn no_schema_and_no_instance_breaks_the_gate() {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    let mut random = StdRng::seed_from_u64(7);
    fn value(random: &mut StdRng, depth: usize) -> Value {
        const WORDS: [&str; 18] = [
            "type",
            "$ref",
            "#",
            "#/$defs/a",
            "allOf",
            "items",
            "not",
            "properties",
            "$defs",
            "a",
            "unevaluatedItems",
            "enum",
            "pattern",
            "^a",
            "string",
            "if",
            "prefixItems",
            "minimum",
        ];
        let word = |random: &mut StdRng| WORDS[random.random_range(0..WORDS.len())].to_owned();
        match random.random_range(0..if depth == 0 { 4 } else { 8 }) {
            0 => json!(null),
            1 => json!(random.random::<bool>()),
            2 => json!(random.random_range(-3..9)),
            3 => json!(word(random)),
            4 | 5 => (0..random.random_range(0..4)).map(|_| value(random, depth - 1)).collect(),
            _ => (0..random.random_range(0..5))
                .map(|_| (word(random), value(random, depth - 1)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
    let mut accepted = 0;
    for _ in 0..5_000 {
        if let Ok(schema) = AcceptedSchema::accept(&value(&mut random, 4).to_string()) {
            accepted += 1;
            for _ in 0..4 {
                let _ = schema.check(&value(&mut random, 4).to_string());
            }
        }
    }
    assert!(accepted > 50, "{accepted}");
}
