//! The exact bytes of a typed response: what its author signs the digest of.

use serde_json::{Value, json};
use wikala_chain::{Digest, canonical};

use super::ObligationId;

/// What a typed response says, and what it is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// What it answers.
    pub obligation: &'a ObligationId,
    /// The request's event.
    pub event: &'a str,
    /// SHA-256 of the exact request.
    pub request: Digest,
    /// It could be done.
    pub completed: bool,
    /// In words.
    pub body: &'a str,
    /// Which schema the structured part fits.
    pub schema_id: Option<&'a str>,
    /// The structured part, JSON text.
    pub structured: Option<&'a str>,
}

/// A response has no exact bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoBytes {
    /// The structured part is no JSON.
    NotJson,
    /// It holds a number that readers read differently.
    Inexact,
}

impl Said<'_> {
    /// Canonical JSON (RFC 8785) of `{v, obligation_id, request_event_id, request_digest,
    /// outcome, body, response_schema_id?, structured_response?}`.
    ///
    /// # Errors
    /// [`NoBytes`].
    pub fn payload(&self) -> Result<String, NoBytes> {
        let mut members = json!({
            "v": 1, "obligation_id": self.obligation.as_str(), "request_event_id": self.event,
            "request_digest": self.request.to_hex(),
            "outcome": if self.completed { "completed" } else { "failed" }, "body": self.body,
        });
        if let Some(id) = self.schema_id {
            members["response_schema_id"] = id.into();
        }
        if let Some(structured) = self.structured {
            let value: Value = serde_json::from_str(structured).map_err(|_| NoBytes::NotJson)?;
            members["structured_response"] = value;
        }
        canonical(&members).map_err(|_| NoBytes::Inexact)
    }
}
