//! Canonical JSON (RFC 8785) of values that every reader reads alike: what a digest is taken
//! of must not depend on who took it.

use serde_json::Value;

use crate::json::MAX_INTEGER;

/// A value holds a whole number beyond 2^53-1, however it is spelled: `1e20` is as inexact
/// to some readers as its twenty-one digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an integer beyond 2^53-1 is not one number to all readers, send it as text")]
pub struct Inexact;

/// Canonical JSON of a value.
///
/// # Errors
/// [`Inexact`].
pub fn canonical(value: &Value) -> Result<String, Inexact> {
    if !is_exact(value) {
        return Err(Inexact);
    }
    serde_json_canonicalizer::to_string(value).map_err(|_| Inexact)
}

fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(n), ..) => n <= MAX_INTEGER,
            (_, Some(n), _) => n.unsigned_abs() <= MAX_INTEGER,
            (.., Some(n)) => n.is_finite() && (n.fract() != 0.0 || n.abs() <= MAX_INTEGER as f64),
            _ => false,
        },
        Value::Array(list) => list.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        _ => true,
    }
}
