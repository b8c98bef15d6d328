//! JSON Patch (RFC 6902) as AG-UI's agents send it: within a bound, since the state and its
//! changes are the agent's choice.

use serde_json::Value;

/// How many bytes of work patches may cost, all together: the state and its changes are the
/// agent's choice.
const WORK: u64 = 256 * 1024 * 1024;

/// What patches may still cost.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Budget(WORK)
    }
}

impl Budget {
    /// Applies a JSON Patch (RFC 6902); whether it could be. A patch that does not fit
    /// changes nothing, as in the clients. `None`: it costs too much to follow.
    pub(super) fn patch(&mut self, target: &mut Value, patch: Option<&Value>) -> Option<bool> {
        let Some(patch) = patch.and_then(|patch| serde_json::from_value::<json_patch::Patch>(patch.clone()).ok())
        else {
            return Some(false);
        };
        // A copy doubles what it copies: forty of them in one patch are a bomb.
        if patch.iter().any(|operation| matches!(operation, json_patch::PatchOperation::Copy(_))) {
            return None;
        }
        let work = (patch.len() as u64 + 1).saturating_mul(size(target));
        self.0 = self.0.checked_sub(work)?;
        Some(json_patch::patch(target, &patch).is_ok())
    }
}

/// About how many bytes a value is.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 + 16,
        Value::Array(list) => list.iter().map(size).sum::<u64>() + 16,
        Value::Object(members) => members.iter().map(|(name, value)| name.len() as u64 + size(value)).sum::<u64>() + 16,
        _ => 16,
    }
}
