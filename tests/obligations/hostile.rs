//! Schemas and answers that are meant to cost the house dear, through its doors: each is told
//! by its code, in about the time of a benign one. No clock decides: times are compared with
//! each other, the least of several rounds.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{Owed, Scene, code, route};
use crate::a2a::provider;

/// What an attack may take, in times of the benign: far less than what it asks for.
const RATIO: u32 = 20;
const ROUNDS: usize = 4;

/// Each level applies the next twice.
fn fan(levels: usize, keyword: &str, beside: &Value) -> Value {
    let mut defs = Map::new();
    for level in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        let mut all = beside.clone();
        all[keyword] = json!([next.clone(), next]);
        defs.insert(format!("d{level}"), all);
    }
    defs.insert(format!("d{levels}"), json!({}));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

fn named(count: usize, of: impl Fn(usize) -> (String, Value)) -> Value {
    (0..count).map(of).collect::<Map<_, _>>().into()
}

/// As large as one may be, as they are written.
fn benign() -> Value {
    let text = |n| (format!("member_{n}"), json!({ "type": "string", "maxLength": n + 1, "title": "a member" }));
    json!({ "type": "object", "properties": named(800, text) })
}

fn attacks() -> Vec<(&'static str, Value, &'static str)> {
    let shut = json!({ "unevaluatedProperties": false });
    let letters = |count: usize, n: usize| named(count, |at| (format!(r"^(\p{{L}}|x){{1,{n}}}{at}$"), json!({})));
    let chain = named(1_500, |n| (format!("c{n}"), json!({ "$ref": format!("#/$defs/c{}", n + 1) })));
    let nots = (0..120).fold(json!({}), |inner, _| json!({ "not": inner }));
    vec![
        ("2^26 by allOf", fan(26, "allOf", &json!({})), "422 schema-too-costly"),
        ("2^18 by anyOf", fan(18, "anyOf", &json!({})), "422 schema-too-costly"),
        ("2^20 by oneOf", fan(20, "oneOf", &json!({})), "422 schema-too-costly"),
        ("unevaluated by anyOf", fan(8, "anyOf", &shut), "422 schema-too-costly"),
        ("12 levels of it", fan(12, "anyOf", &shut), "422 schema-too-costly"),
        ("13,000 in one allOf", json!({ "allOf": vec![json!({}); 13_000] }), "422 schema-too-costly"),
        ("a chain of 1,500", json!({ "$ref": "#/$defs/c0", "$defs": chain }), "422 schema-too-costly"),
        ("itself", json!({ "$ref": "#" }), "422 schema-in-place-cycle"),
        ("120 times not", nots, "400 body-malformed"),
        ("64 patterns", json!({ "patternProperties": letters(64, 24) }), "422 schema-pattern-refused"),
        (
            "2,960 patterns",
            json!({ "patternProperties": named(2_960, |n| (format!("a{n}"), json!({}))) }),
            "422 schema-pattern-refused",
        ),
        ("32 patterns, each too large", json!({ "patternProperties": letters(32, 120) }), "422 schema-pattern-refused"),
        ("a million letters", json!({ "pattern": "(a{1000}){1000}" }), "422 schema-pattern-refused"),
        ("a back-reference", json!({ "pattern": r"^(.+)+\1+$" }), "422 schema-pattern-refused"),
        ("a host", json!({ "$defs": { "a": { "$ref": "http://127.0.0.1:1/x" } } }), "422 schema-external-reference"),
        ("a file", json!({ "enum": [{ "$ref": "file:///dev/zero" }] }), "422 schema-external-reference"),
        ("one byte too many", json!({ "title": "x".repeat(65_536) }), "422 schema-too-large"),
        // Let through, and no dearer.
        ("nested quantifiers", json!({ "pattern": "^(a+)+$" }), "202 none"),
        ("32 patterns, each as large as may be", json!({ "patternProperties": letters(32, 10) }), "202 none"),
        ("12,000 alternatives", json!({ "enum": (0..12_000).collect::<Vec<_>>() }), "202 none"),
        ("doubling with each level", doubling(), "202 none"),
    ]
}

fn doubling() -> Value {
    json!({ "allOf": [{ "items": { "$ref": "#" } }, { "items": { "$ref": "#" } }] })
}

/// The least time of a few, and what was answered each time.
async fn least(mut once: impl AsyncFnMut(usize) -> (String, Duration)) -> (String, Duration) {
    let (answer, mut least) = once(0).await;
    for round in 1..ROUNDS {
        let (again, took) = once(round).await;
        assert_eq!(again, answer);
        least = least.min(took);
    }
    (answer, least)
}

#[tokio::test]
async fn a_hostile_schema_is_told_in_the_time_of_a_benign_one() {
    let scene = Scene::open().await;
    let post = async |name: &str, schema: &Value| {
        let round = async |round: usize| {
            // Another text each time, or the gate knows its verdict already.
            let mut schema = schema.clone();
            schema["$comment"] = json!(format!("round {round}"));
            let schema = if name == "one byte too many" { json!({ "title": schema["title"] }) } else { schema };
            let id = format!("{name} {round}");
            let thread = scene.new_thread().await;
            let spec = json!({ "response_schema_id": "s", "response_schema": schema });
            let body = scene.demand_in(&thread, &crate::a2a::head(), &id, &spec);
            let begun = Instant::now();
            let answer = scene.act_in(&thread, &body).await;
            (code(&answer), begun.elapsed())
        };
        least(round).await
    };
    let (answer, usual) = post("benign", &benign()).await;
    assert_eq!(answer, "202 none");
    for (name, schema, expect) in attacks() {
        let (answer, took) = post(name, &schema).await;
        assert_eq!(answer, expect, "{name}");
        println!("{name}: {took:?} of {usual:?}");
        assert!(took < usual * RATIO, "{name}: {took:?}, a benign one takes {usual:?}");
    }
}

fn list(item: &str, count: usize) -> Value {
    serde_json::from_str(&format!("[{}]", vec![item; count].join(","))).expect("JSON")
}

/// Name, a schema that is let through, an answer to it, what comes of it.
fn answers() -> Vec<(&'static str, Value, Value, &'static str)> {
    let dependent = named(4_000, |n| (format!("d{n}"), json!([])));
    let mut every_name = fan(11, "anyOf", &json!({}));
    every_name["propertyNames"] = json!({ "$ref": "#/$defs/d0" });
    let members = |count: usize| named(count, |n| (format!("n{n}"), json!(0)));
    let unlike = json!({ "oneOf": vec![json!({ "type": "string" }); 300] });
    let costly = "422 response-too-costly";
    let wrong = "422 response-schema-violation";
    let nested = |levels: usize| (0..levels).fold(json!([]), |inner, _| json!([inner]));
    vec![
        ("40 levels of doubling", doubling(), nested(40), costly),
        ("a long pattern, a long text", json!({ "pattern": "[ab]*a[ab]{4000}c" }), json!("ab".repeat(50_000)), costly),
        (
            "32 patterns, a long text",
            json!({ "allOf": vec![json!({ "pattern": "[ab]{200}c" }); 32] }),
            json!("ab".repeat(200_000)),
            costly,
        ),
        ("nested quantifiers", json!({ "pattern": "^(a+)+$" }), json!("a".repeat(500_000) + "b"), wrong),
        ("8,190 schemas a name", every_name, members(20_000), costly),
        (
            "4,000 dependents, no member",
            json!({ "items": { "dependentRequired": dependent } }),
            list("{}", 90_000),
            costly,
        ),
        ("300,000 elements", json!({ "items": { "type": "integer" } }), list("1", 300_000), costly),
        ("all wrong", json!({ "items": { "type": "string" } }), list("1", 90_000), wrong),
        ("300 alternatives, all wrong", json!({ "items": unlike }), list("1", 500), wrong),
        (
            "12,000 alternatives",
            json!({ "items": { "enum": (0..12_000).collect::<Vec<_>>() } }),
            list("12001", 90_000),
            wrong,
        ),
        ("all the same but one", json!({ "uniqueItems": true }), json!([list("[1]", 60_000), 1, 1]), wrong),
        ("a mebibyte", json!({}), json!("x".repeat(1024 * 1024)), costly),
    ]
}

#[tokio::test]
async fn a_hostile_answer_is_told_in_the_time_of_a_benign_one() {
    let scene = Scene::open().await;
    let respond = async |name: &str, schema: &Value, answer: &Value| {
        let spec = json!({ "response_schema_id": "s", "response_schema": schema });
        let owed: Owed = scene.owed_apart(name, spec).await;
        let members = json!({ "response_schema_id": "s", "structured_response": answer });
        let body = scene.response(&provider(), &owed, &members);
        let round = async |_| {
            let begun = Instant::now();
            let answer = scene.post(&route(&owed.id, "respond"), &body).await;
            (code(&answer), begun.elapsed())
        };
        let told = least(round).await;
        let open = scene.stands(&owed.id).await;
        (told, open)
    };
    // About as many bytes as the attacks, and no fit: it may be sent again.
    let ((answer, usual), _) =
        respond("benign", &json!({ "type": "object" }), &json!([list("\"abcdefgh\"", 40_000)])).await;
    assert_eq!(answer, "422 response-schema-violation");
    for (name, schema, instance, expect) in answers() {
        let ((answer, took), stands) = respond(name, &schema, &instance).await;
        assert_eq!((answer.as_str(), stands), (expect, ("created".to_owned(), 1)), "{name}");
        println!("{name}: {took:?} of {usual:?}");
        assert!(took < usual * RATIO, "{name}: {took:?}, a benign one takes {usual:?}");
    }
}
