//! What applying a schema costs, counted and not timed: the schemas that apply to one place
//! of an instance, and so on down. Keywords of JSON Schema 2020-12, core and applicators.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Refused, pattern};

/// Schemas that apply to one place, at most.
const PLACE: u64 = 10_000;
/// Schemas that apply to a whole instance, at most, and steps to count them.
const WHOLE: u64 = 1_000_000;
const STEPS: u64 = 200_000;

/// Values by where they stand in memory: the same node, not an equal one.
type At = usize;

fn at(value: &Value) -> At {
    std::ptr::from_ref(value) as usize
}

/// Where a `$ref` leads: `#` or `#/…` (the walk let nothing else through).
fn target<'s>(root: &'s Value, members: &'s Map<String, Value>) -> Result<Option<&'s Value>, Refused> {
    let Some(Value::String(to)) = members.get("$ref") else { return Ok(None) };
    let pointer = percent_decoded(&to[1..]).ok_or(Refused::Invalid)?;
    root.pointer(&pointer).map(Some).ok_or(Refused::Invalid)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let hex = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}

/// Subschemas that apply to the same place as their owner.
fn in_place<'s>(root: &'s Value, members: &'s Map<String, Value>) -> Result<Vec<&'s Value>, Refused> {
    let mut all: Vec<&Value> = Vec::new();
    for (name, value) in members {
        match (name.as_str(), value) {
            ("allOf" | "anyOf" | "oneOf", Value::Array(items)) => all.extend(items),
            ("not" | "if" | "then" | "else", _) => all.push(value),
            ("dependentSchemas", Value::Object(schemas)) => all.extend(schemas.values()),
            _ => {}
        }
    }
    all.extend(target(root, members)?);
    Ok(all)
}

/// Subschemas that apply further down, or to nobody until they are referred to.
fn below(members: &Map<String, Value>) -> Vec<&Value> {
    let mut all: Vec<&Value> = Vec::new();
    for (name, value) in members {
        match (name.as_str(), value) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(schemas)) => {
                all.extend(schemas.values());
            }
            ("prefixItems", Value::Array(items)) => all.extend(items),
            (
                "additionalProperties"
                | "items"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contentSchema",
                _,
            ) => all.push(value),
            _ => {}
        }
    }
    all
}

/// Counts a schema for any instance.
///
/// # Errors
/// It applies itself to the same place again, or too many apply to one place; a reference
/// that leads nowhere.
pub(super) fn check(schema: &Value) -> Result<(), Refused> {
    let mut known: HashMap<At, Option<u64>> = HashMap::new();
    let mut seen: HashMap<At, ()> = HashMap::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        if seen.insert(at(value), ()).is_some() {
            continue;
        }
        place(schema, value, &mut known, 0)?;
        if let Value::Object(members) = value {
            open.extend(in_place(schema, members)?);
            open.extend(below(members));
        }
    }
    Ok(())
}

/// How many schemas apply where this one does, itself among them.
fn place(root: &Value, value: &Value, known: &mut HashMap<At, Option<u64>>, depth: u32) -> Result<u64, Refused> {
    let Value::Object(members) = value else { return Ok(1) };
    match known.get(&at(value)) {
        Some(Some(cost)) => return Ok(*cost),
        // Under way: it came back to itself without going down.
        Some(None) => return Err(Refused::InPlaceCycle),
        None => {}
    }
    // A chain of references is as long as the schema is large; the stack is not.
    if depth > 1_000 {
        return Err(Refused::TooCostly);
    }
    known.insert(at(value), None);
    let mut inner = 0u64;
    for schema in in_place(root, members)? {
        inner = inner.saturating_add(place(root, schema, known, depth + 1)?);
        if inner > PLACE {
            return Err(Refused::TooCostly);
        }
    }
    // What is left unevaluated is found by asking all of them once more.
    let unevaluated = members.contains_key("unevaluatedItems") || members.contains_key("unevaluatedProperties");
    let cost = 1 + if unevaluated { inner.saturating_mul(2) } else { inner };
    if cost > PLACE {
        return Err(Refused::TooCostly);
    }
    known.insert(at(value), Some(cost));
    Ok(cost)
}

/// What it costs to apply a schema that was checked to an instance; `None`: too much.
pub(super) fn of(schema: &Value, instance: &Value) -> Option<u64> {
    let mut count =
        Count { root: schema, known: HashMap::new(), texts: HashMap::new(), names: HashMap::new(), steps: 0 };
    count.of(schema, instance).filter(|cost| *cost <= WHOLE)
}

struct Count<'s> {
    root: &'s Value,
    known: HashMap<(At, At), u64>,
    /// Of a schema, for any text: how many apply, how long all their patterns are.
    texts: HashMap<At, (u64, u64)>,
    /// How long all patterns of names are.
    names: HashMap<At, u64>,
    steps: u64,
}

/// What has been counted so far.
struct Sum(u64);

impl Sum {
    /// Adds; `None` as soon as it is too much.
    fn add(&mut self, cost: u64) -> Option<()> {
        self.0 = self.0.saturating_add(cost);
        (self.0 <= WHOLE).then_some(())
    }
}

impl<'s> Count<'s> {
    fn of(&mut self, schema: &'s Value, instance: &Value) -> Option<u64> {
        let Value::Object(members) = schema else { return Some(1) };
        if let Value::String(text) = instance {
            return self.text(schema, text);
        }
        let key = (at(schema), at(instance));
        if let Some(cost) = self.known.get(&key) {
            return Some(*cost);
        }
        self.step()?;
        let mut cost = Sum(1);
        for schema in in_place(self.root, members).ok()? {
            cost.add(self.of(schema, instance)?)?;
        }
        match instance {
            Value::Object(properties) => self.members(members, properties, &mut cost)?,
            Value::Array(items) => {
                let first = members.get("prefixItems").and_then(Value::as_array);
                for (n, value) in items.iter().enumerate() {
                    if let Some(schema) = first.and_then(|first| first.get(n)) {
                        cost.add(self.of(schema, value)?)?;
                    }
                    for keyword in ["items", "contains", "unevaluatedItems"] {
                        if let Some(schema) = members.get(keyword) {
                            cost.add(self.of(schema, value)?)?;
                        }
                    }
                    self.step()?;
                }
            }
            _ => {}
        }
        self.known.insert(key, cost.0);
        Some(cost.0)
    }

    fn members(
        &mut self,
        members: &'s Map<String, Value>,
        properties: &Map<String, Value>,
        cost: &mut Sum,
    ) -> Option<()> {
        let named = members.get("properties").and_then(Value::as_object);
        let patterns = members.get("patternProperties").and_then(Value::as_object);
        if let Some(Value::Object(dependent)) = members.get("dependentRequired") {
            // Each is asked about, whether it is there or not.
            cost.add(dependent.len() as u64)?;
        }
        for (name, value) in properties {
            if let Some(schema) = named.and_then(|named| named.get(name)) {
                cost.add(self.of(schema, value)?)?;
            }
            if let Some(patterns) = patterns {
                // Which pattern fits which name is not asked here: all of them count.
                let length = self.names.entry(std::ptr::from_ref(patterns) as usize);
                let length = *length.or_insert_with(|| patterns.keys().map(|text| pattern::length(text)).sum());
                cost.add(search(length, name))?;
                for schema in patterns.values() {
                    cost.add(self.of(schema, value)?)?;
                }
            }
            for keyword in ["additionalProperties", "unevaluatedProperties"] {
                if let Some(schema) = members.get(keyword) {
                    cost.add(self.of(schema, value)?)?;
                }
            }
            if let Some(schema) = members.get("propertyNames") {
                cost.add(self.text(schema, name)?)?;
            }
            self.step()?;
        }
        Some(())
    }

    /// A text has nothing below it: what applies to one applies to all.
    fn text(&mut self, schema: &'s Value, text: &str) -> Option<u64> {
        let (schemas, length) = self.any_text(schema)?;
        Some(schemas.saturating_add(search(length, text)))
    }

    fn any_text(&mut self, schema: &'s Value) -> Option<(u64, u64)> {
        let Value::Object(members) = schema else { return Some((1, 0)) };
        if let Some(known) = self.texts.get(&at(schema)) {
            return Some(*known);
        }
        self.step()?;
        let own = members.get("pattern").and_then(Value::as_str).map_or(0, pattern::length);
        let mut all = (1u64, own);
        for schema in in_place(self.root, members).ok()? {
            let (schemas, length) = self.any_text(schema)?;
            all = (all.0.saturating_add(schemas), all.1.saturating_add(length));
        }
        self.texts.insert(at(schema), all);
        Some(all)
    }

    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps <= STEPS).then_some(())
    }
}

/// What it costs to look for patterns of this length in a text: at worst each element of
/// theirs is held against each byte, and that is a sixteenth of applying a schema.
fn search(length: u64, text: &str) -> u64 {
    length.saturating_mul(text.len() as u64) / 16
}
