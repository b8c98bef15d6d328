//! Schemas of answers: a provider's, so hostile until shown otherwise. The gate decides by
//! counting, before the library sees anything: what it lets through is offline,
//! self-contained and of bounded cost, for any instance it lets through.
//!
//! JSON Schema 2020-12 by the `jsonschema` crate, pinned; `format` is an annotation, regular
//! expressions are those of a linear engine (no look-around, no back-references).

mod cost;
mod pattern;
mod walk;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;
use wikala_chain::{Digest, RawObject, json};

/// The library that judges, and its version: another may judge an instance otherwise.
pub const LIBRARY: &str = "jsonschema 0.61.2";
/// The largest schema, bytes of its canonical JSON.
pub const SCHEMA_BYTES: usize = 64 * 1024;
/// The largest instance, bytes.
pub const INSTANCE_BYTES: usize = 1024 * 1024;
/// How many errors are told.
const ERRORS: usize = 16;
/// Errors are searched for only where the search costs no more than this.
const ERROR_COST: u64 = 10_000;
/// What one regular expression may compile to, bytes.
const PATTERN_SIZE: usize = 512 * 1024;
/// How many compiled schemas are kept.
const KEPT: usize = 64;

/// Why a schema is not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// More than [`SCHEMA_BYTES`].
    TooLarge,
    /// Not JSON, no object, or no schema.
    Invalid,
    /// It points out of itself, or names parts of itself by more than `#/…`.
    ExternalReference,
    /// It names another dialect than 2020-12.
    Dialect,
    /// It applies itself to the same place of an instance again.
    InPlaceCycle,
    /// It would cost too much to apply.
    TooCostly,
    /// A pattern is too long, too many or needs more than a linear engine.
    Pattern,
}

impl Refused {
    /// The stable word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Refused::TooLarge => "schema_too_large",
            Refused::Invalid => "schema_invalid",
            Refused::ExternalReference => "schema_external_reference",
            Refused::Dialect => "schema_dialect",
            Refused::InPlaceCycle => "schema_in_place_cycle",
            Refused::TooCostly => "schema_too_costly",
            Refused::Pattern => "schema_pattern_refused",
        }
    }
}

/// What is wrong with an instance. Never its text: an error goes to who sent the answer,
/// a log goes further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Too large, too deep, or too much work.
    TooCostly,
    /// Keyword and place of what does not fit; empty where the search would cost too much.
    Mismatch(Vec<Place>),
}

/// One thing that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The keyword that says no.
    pub keyword: String,
    /// A JSON Pointer into the instance; names that the schema does not know are `*`.
    pub at: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Violation::TooCostly => f.write_str("too large to be checked, send less"),
            Violation::Mismatch(places) if places.is_empty() => f.write_str("does not fit its schema"),
            Violation::Mismatch(places) => {
                let told: Vec<String> = places
                    .iter()
                    .map(|place| {
                        format!("{} at {:?}", place.keyword, if place.at.is_empty() { "/" } else { &place.at })
                    })
                    .collect();
                write!(f, "does not fit its schema: {}", told.join(", "))
            }
        }
    }
}

/// A schema that passed the gate.
#[derive(Debug)]
pub struct AcceptedSchema {
    schema: Value,
    validator: Validator,
    /// Property names that the schema itself says.
    names: BTreeSet<String>,
}

impl AcceptedSchema {
    /// Opens the gate, or says why not.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn accept(text: &str) -> Result<AcceptedSchema, Refused> {
        json::check(text).map_err(|_| Refused::Invalid)?;
        let schema: Value = serde_json::from_str(text).map_err(|_| Refused::Invalid)?;
        // Measured on the canonical bytes: white space is nobody's schema.
        let canonical = serde_json_canonicalizer::to_vec(&schema).map_err(|_| Refused::Invalid)?;
        if canonical.len() > SCHEMA_BYTES {
            return Err(Refused::TooLarge);
        }
        walk::check(&schema)?;
        cost::check(&schema)?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE);
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(patterns)
            .build(&schema)
            .map_err(|error| {
                // The library says of a pattern only that it is no "regex".
                if error.kind().keyword() == "format" { Refused::Pattern } else { Refused::Invalid }
            })?;
        let names = walk::names(&schema);
        Ok(AcceptedSchema { schema, validator, names })
    }

    /// Does an instance fit?
    ///
    /// # Errors
    /// See [`Violation`].
    pub fn check(&self, instance: &str) -> Result<(), Violation> {
        if instance.len() > INSTANCE_BYTES || json::check(instance).is_err() {
            return Err(Violation::TooCostly);
        }
        let instance: Value = serde_json::from_str(instance).map_err(|_| Violation::TooCostly)?;
        let cost = cost::of(&self.schema, &instance).ok_or(Violation::TooCostly)?;
        if self.validator.is_valid(&instance) {
            return Ok(());
        }
        if cost > ERROR_COST {
            return Err(Violation::Mismatch(Vec::new()));
        }
        let places = self.validator.iter_errors(&instance).take(ERRORS).map(|error| Place {
            keyword: error.kind().keyword().to_owned(),
            at: self.pointer(error.instance_path().as_str()),
        });
        Err(Violation::Mismatch(places.collect()))
    }

    /// A pointer without names that only the instance says.
    fn pointer(&self, path: &str) -> String {
        let known = |segment: &str| {
            let name = segment.replace("~1", "/").replace("~0", "~");
            self.names.contains(&name) || segment.bytes().all(|b| b.is_ascii_digit())
        };
        let segments = path.split('/').skip(1).map(|segment| if known(segment) { segment } else { "*" });
        segments.fold(String::new(), |pointer, segment| pointer + "/" + segment)
    }
}

/// What the gate said of a text.
pub type Verdict = Result<Arc<AcceptedSchema>, Refused>;

#[derive(Default)]
struct Kept {
    verdicts: HashMap<[u8; 32], Verdict>,
    order: VecDeque<[u8; 32]>,
}

static KEPT_VERDICTS: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

/// The gate's verdict on a text; compiled once, a bounded number of them kept.
///
/// # Errors
/// Why it is not enforced.
pub fn gate(text: &str) -> Verdict {
    let digest = *Digest::of(text.as_bytes()).as_bytes();
    if let Ok(kept) = KEPT_VERDICTS.lock()
        && let Some(known) = kept.verdicts.get(&digest)
    {
        return known.clone();
    }
    // Not under the lock: another schema need not wait for this one.
    let verdict = AcceptedSchema::accept(text).map(Arc::new);
    if let Ok(mut kept) = KEPT_VERDICTS.lock() {
        if kept.order.len() >= KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.verdicts.remove(&oldest);
        }
        if kept.verdicts.insert(digest, verdict.clone()).is_none() {
            kept.order.push_back(digest);
        }
    }
    verdict
}

/// The schema that a question demands of its answer, JSON text.
#[must_use]
pub fn of_question(question: &str) -> Option<String> {
    let members = RawObject::parse(question).ok()?;
    members.get("responseSchema").map(|raw| raw.get().to_owned()).filter(|raw| raw != "null")
}

/// [`ENFORCED`], or why a schema is not.
#[must_use]
pub fn word(text: &str) -> &'static str {
    gate(text).map_or_else(Refused::as_str, |_| ENFORCED)
}

/// How many schemas of one pause are enforced: each may have to be compiled when it is answered.
pub const A_PAUSE: usize = 16;

/// The gate's word on a schema that answers must fit.
pub const ENFORCED: &str = "enforced";

#[cfg(test)]
mod tests;
