//! Params as clients really send them: camelCase or snake_case, enums by name or
//! number, null and "" as absent (ProtoJSON; reference measurements).

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::Status;

use super::{Refused, invalid};

/// A member under its camelCase or snake_case name; null is absent.
pub(super) fn raw<'a>(object: &'a RawObject, camel: &str) -> Option<&'a str> {
    let found = object.get(camel).or_else(|| object.get(&snake(camel)));
    found.map(RawValue::get).filter(|raw| *raw != "null")
}

/// A string member; "" is absent.
pub(super) fn text(object: &RawObject, camel: &str) -> Result<Option<String>, Refused> {
    match raw(object, camel) {
        None => Ok(None),
        Some(found) => match json::string(found) {
            Some(text) if text.is_empty() => Ok(None),
            Some(text) => Ok(Some(text)),
            None => Err(invalid(camel, "not a string")),
        },
    }
}

/// A whole number that is not negative.
pub(super) fn number(object: &RawObject, camel: &str) -> Result<Option<u64>, Refused> {
    raw(object, camel)
        .map(|found| json::integer(found).map_err(|_| invalid(camel, "not a whole number of 0 or more")))
        .transpose()
}

/// A boolean, false if absent.
pub(super) fn flag(object: &RawObject, camel: &str) -> Result<bool, Refused> {
    match raw(object, camel) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(invalid(camel, "neither true nor false")),
    }
}

/// An object member.
pub(super) fn object(of: &RawObject, camel: &str) -> Result<Option<RawObject>, Refused> {
    raw(of, camel).map(|found| RawObject::parse(found).map_err(|_| invalid(camel, "not an object"))).transpose()
}

/// A list of strings.
pub(super) fn texts(object: &RawObject, camel: &str) -> Result<Vec<String>, Refused> {
    match raw(object, camel) {
        None => Ok(Vec::new()),
        Some(found) => serde_json::from_str(found).map_err(|_| invalid(camel, "not a list of strings")),
    }
}

/// The statuses behind a task state; unspecified: no filter.
pub(super) fn states(object: &RawObject) -> Result<Vec<Status>, Refused> {
    let Some(found) = raw(object, "status") else { return Ok(Vec::new()) };
    let name = json::string(found);
    Ok(match name.as_deref().unwrap_or(found) {
        "" | "0" | "TASK_STATE_UNSPECIFIED" => Vec::new(),
        "1" | "TASK_STATE_SUBMITTED" => vec![Status::Queued, Status::Offering],
        "2" | "TASK_STATE_WORKING" => vec![Status::Running, Status::Cancelling],
        "3" | "TASK_STATE_COMPLETED" => vec![Status::Completed],
        "4" | "TASK_STATE_FAILED" => vec![Status::Failed],
        "5" | "TASK_STATE_CANCELED" => vec![Status::Cancelled],
        "6" | "TASK_STATE_INPUT_REQUIRED" => vec![Status::InputRequired],
        // States no run of ours is ever in: nothing matches, and that is no error.
        "7" | "8" | "TASK_STATE_REJECTED" | "TASK_STATE_AUTH_REQUIRED" => {
            return Err(invalid("status", "no task here is ever in this state"));
        }
        _ => return Err(invalid("status", "not a task state")),
    })
}

fn snake(camel: &str) -> String {
    let mut name = String::with_capacity(camel.len() + 4);
    for c in camel.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}
