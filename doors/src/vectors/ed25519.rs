//! The accept set of signatures, on the published hard cases (CCTV and Wycheproof).

use serde_json::Value;
use wikala_chain::{PublicKey, Signature};

use super::case::text;

/// How many of the cases must be accepted.
const ACCEPTED: usize = 89;

/// A signature counts iff a strict verifier takes it and its key is admitted:
/// canonical, not weak, torsion-free.
pub(super) fn replay(file: &Value) -> Result<usize, String> {
    let cases = file["cases"].as_array().ok_or("no cases")?;
    let mut accepted = 0;
    for case in cases {
        let strict = case["verify_strict"].as_bool().unwrap_or_default();
        let key = PublicKey::from_hex(text(case, "key"));
        let message = hex::decode(text(case, "msg")).map_err(|error| error.to_string())?;
        let holds = match (&key, Signature::from_hex(text(case, "sig"))) {
            (Ok(key), Ok(signature)) => key.verify(&message, &signature).is_ok(),
            _ => false,
        };
        if holds != (strict && key.is_ok()) {
            return Err(format!("{} {}: accepted is {holds}", text(case, "src"), case["id"]));
        }
        accepted += usize::from(holds);
    }
    if accepted == ACCEPTED { Ok(cases.len()) } else { Err(format!("{accepted} accepted, {ACCEPTED} expected")) }
}
