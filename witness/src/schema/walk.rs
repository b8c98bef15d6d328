//! The form of a schema: its dialect, its references, its patterns. Every object in it is
//! looked at, also where no keyword would look: a reference in a default is still a way out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Refused;

/// The one dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// How many patterns, and how long each, bytes.
const PATTERNS: usize = 32;
const PATTERN: usize = 1024;
/// How long written out.
const WRITTEN_OUT: u64 = 100_000;
/// How many `unevaluated*` keywords.
const UNEVALUATED: usize = 8;

#[derive(Default)]
struct Found {
    patterns: usize,
    unevaluated: usize,
}

/// Looks at every object.
pub(super) fn check(schema: &Value) -> Result<(), Refused> {
    let Value::Object(root) = schema else { return Err(Refused::Invalid) };
    match root.get("$schema") {
        None => {}
        Some(Value::String(uri)) if uri == DIALECT => {}
        Some(_) => return Err(Refused::Dialect),
    }
    object(root, true, &mut Found::default())
}

fn value(value: &Value, found: &mut Found) -> Result<(), Refused> {
    match value {
        Value::Object(members) => object(members, false, found),
        Value::Array(items) => items.iter().try_for_each(|item| self::value(item, found)),
        _ => Ok(()),
    }
}

fn object(members: &Map<String, Value>, root: bool, found: &mut Found) -> Result<(), Refused> {
    for (name, inner) in members {
        match (name.as_str(), inner) {
            ("$ref", Value::String(to)) if to != "#" && !to.starts_with("#/") => {
                return Err(Refused::ExternalReference);
            }
            // Where these lead depends on the road taken: nothing to be counted ahead.
            ("$dynamicRef" | "$recursiveRef", Value::String(_)) => return Err(Refused::ExternalReference),
            // Inside, it would give references below it another meaning.
            ("$id" | "$schema", Value::String(_)) if !root => return Err(Refused::ExternalReference),
            ("pattern", Value::String(text)) => pattern(text, found)?,
            ("patternProperties", Value::Object(patterns)) => {
                patterns.keys().try_for_each(|text| pattern(text, found))?;
            }
            ("unevaluatedItems" | "unevaluatedProperties", _) => {
                found.unevaluated += 1;
                if found.unevaluated > UNEVALUATED {
                    return Err(Refused::TooCostly);
                }
            }
            _ => {}
        }
        value(inner, found)?;
    }
    Ok(())
}

fn pattern(text: &str, found: &mut Found) -> Result<(), Refused> {
    found.patterns += 1;
    let long = text.len() > PATTERN || super::pattern::length(text) > WRITTEN_OUT;
    if found.patterns > PATTERNS || long { Err(Refused::Pattern) } else { Ok(()) }
}

/// Every property name the schema says, for telling a place by it.
pub(super) fn names(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                if let Some(Value::Object(properties)) = members.get("properties") {
                    names.extend(properties.keys().cloned());
                }
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    names
}
