//! An obligation's ledger: every transition, each entry holding the digest of the one before,
//! so that an export verifies without us.
//!
//! `entryDigest` is the SHA-256 of the entry's canonical JSON (RFC 8785) without it;
//! `prevDigest` is the entry before's, 64 zeros for the first.

use serde_json::{Value, json};
use wikala_chain::{Digest, PublicKey};

use super::{ObligationId, State};

/// One transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Of which obligation.
    pub obligation: ObligationId,
    /// The revision it made, 1 for the first.
    pub revision: u64,
    /// Where it stood; `None` for the first.
    pub from: Option<State>,
    /// Where it stands since.
    pub to: State,
    /// Somebody signed it; else the witness derived it from what it saw.
    pub signed: bool,
    /// Which key acted; the witness's own for what it derived.
    pub actor: PublicKey,
    /// Under whose authority.
    pub effective: PublicKey,
    /// SHA-256 of the signed bytes.
    pub act: Option<Digest>,
    /// Why, a code or a reason.
    pub detail: String,
    /// When it counts from, Unix seconds.
    pub effective_at: u64,
    /// When it was written, Unix seconds.
    pub recorded_at: u64,
    /// The entry before's digest.
    pub prev: Digest,
}

impl LedgerEntry {
    /// What is digested.
    fn members(&self) -> Value {
        json!({
            "obligationId": self.obligation.as_str(),
            "revision": self.revision,
            "from": self.from.map(State::as_str),
            "to": self.to.as_str(),
            "basis": if self.signed { "signed" } else { "derived" },
            "actorKey": self.actor.to_hex(),
            "effectiveKey": self.effective.to_hex(),
            "actDigest": self.act.map(|digest| digest.to_hex()),
            "detail": self.detail,
            "effectiveAt": self.effective_at,
            "recordedAt": self.recorded_at,
            "prevDigest": self.prev.to_hex(),
        })
    }

    /// Its digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        digest_of(&self.members())
    }

    /// One line of an export, JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut members = self.members();
        members["entryDigest"] = self.digest().to_hex().into();
        members.to_string()
    }
}

fn digest_of(members: &Value) -> Digest {
    // Texts, integers and null: there is nothing in it that could not be written.
    Digest::of(&serde_json_canonicalizer::to_vec(members).unwrap_or_default())
}

/// What is wrong with an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The entry, counted from 1; 0 if there is none at all.
    pub entry: usize,
    /// What is wrong with it.
    pub fact: &'static str,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.entry {
            0 => write!(f, "ledger: {}", self.fact),
            entry => write!(f, "ledger: entry {entry} {}", self.fact),
        }
    }
}

/// Verifies an export: one JSON object a line, oldest first.
///
/// # Errors
/// The first entry that does not hold.
pub fn verify(export: &str) -> Result<usize, Broken> {
    let mut before: Option<Value> = None;
    let mut prev = Digest::ZERO.to_hex();
    let mut count = 0;
    for line in export.lines().filter(|line| !line.trim().is_empty()) {
        count += 1;
        let wrong = |fact| Broken { entry: count, fact };
        wikala_chain::json::check(line).map_err(|_| wrong("is no JSON"))?;
        let mut entry: Value = serde_json::from_str(line).map_err(|_| wrong("is no JSON"))?;
        let members = entry.as_object_mut().ok_or_else(|| wrong("is no object"))?;
        let said = members.shift_remove("entryDigest");
        let digest = digest_of(&entry).to_hex();
        if said.as_ref().and_then(Value::as_str) != Some(&digest) {
            return Err(wrong("does not have the digest of what it says"));
        }
        if entry["prevDigest"] != prev.as_str() {
            return Err(wrong("does not follow the one before it"));
        }
        if entry["revision"] != count {
            return Err(wrong("has another revision than its place"));
        }
        shaped(&entry).map_err(wrong)?;
        let newest = before.as_ref().map_or(0, |before| before["recordedAt"].as_u64().unwrap_or_default());
        if entry["recordedAt"].as_u64().is_none_or(|at| at < newest) {
            return Err(wrong("was recorded before the one before it"));
        }
        if let Some(before) = &before
            && (entry["from"] != before["to"] || entry["obligationId"] != before["obligationId"])
        {
            return Err(wrong("does not begin where the one before it ends"));
        }
        prev = digest;
        before = Some(entry);
    }
    let empty = Broken { entry: 0, fact: "no entries, export one with GET …/ledger" };
    if count == 0 { Err(empty) } else { Ok(count) }
}

/// What an entry of ours looks like, and that its move is one that the table has.
fn shaped(entry: &Value) -> Result<(), &'static str> {
    let text = |name: &str| entry[name].as_str();
    let known = [
        "obligationId",
        "revision",
        "from",
        "to",
        "basis",
        "actorKey",
        "effectiveKey",
        "actDigest",
        "detail",
        "effectiveAt",
        "recordedAt",
        "prevDigest",
    ];
    let named = entry.as_object().is_some_and(|members| members.keys().all(|name| known.contains(&name.as_str())));
    let id = text("obligationId").is_some_and(|id| ObligationId::parse(id).is_some());
    let keys =
        ["actorKey", "effectiveKey"].iter().all(|name| text(name).is_some_and(|key| PublicKey::from_hex(key).is_ok()));
    let signed = match (text("basis"), &entry["actDigest"]) {
        (Some("signed"), Value::String(digest)) => Digest::from_hex(digest).is_ok(),
        (Some("derived"), Value::Null) => true,
        _ => false,
    };
    if !named || !id || !keys || !signed || text("detail").is_none() || entry["effectiveAt"].as_u64().is_none() {
        return Err("is not an entry as a witness writes it");
    }
    let to = text("to").and_then(State::parse).ok_or("names a state that there is not")?;
    let follows = match &entry["from"] {
        Value::Null => entry["revision"] == 1 && to == State::Created,
        from => from.as_str().and_then(State::parse).is_some_and(|from| super::moves::leads(from, to)),
    };
    if follows { Ok(()) } else { Err("is a move that the table of states does not have") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wikala_chain::SigningKey;

    fn export(count: u64) -> Vec<String> {
        let key = SigningKey::from_seed([1; 32]).public();
        let mut prev = Digest::ZERO;
        let mut lines = Vec::new();
        for n in 0..count {
            let state = |n: u64| match n {
                0 => State::Created,
                1 => State::Acknowledged,
                n if n % 2 == 0 => State::InProgress,
                _ => State::PendingHuman,
            };
            let entry = LedgerEntry {
                obligation: ObligationId::of("msg_1", &key),
                revision: n + 1,
                from: n.checked_sub(1).map(state),
                to: state(n),
                signed: true,
                actor: key,
                effective: key,
                act: Some(Digest::of(&[n as u8])),
                detail: "why \u{e9} \"quoted\"\n".to_owned(),
                effective_at: 1_800_000_000 + n,
                recorded_at: 1_800_000_000 + n,
                prev,
            };
            prev = entry.digest();
            lines.push(entry.to_json());
        }
        lines
    }

    #[test]
    fn an_export_verifies_and_what_was_changed_is_named() {
        let lines = export(14);
        assert_eq!(verify(&lines.join("\n")), Ok(14));
        let told = |lines: &[String]| verify(&lines.join("\n")).unwrap_err().to_string();
        let mut changed = lines.clone();
        changed[6] = changed[6].replace("1800000006", "1800000007");
        assert!(told(&changed).contains("entry 7 does not have the digest"), "{}", told(&changed));
        let mut removed = lines.clone();
        removed.remove(6);
        assert!(told(&removed).contains("entry 7 does not follow"), "{}", told(&removed));
        let mut swapped = lines.clone();
        swapped.swap(5, 6);
        assert!(told(&swapped).contains("entry 6"), "{}", told(&swapped));
        assert!(told(&lines[1..]).contains("entry 1 does not follow"));
        // What no witness writes does not verify, however well it is chained.
        let invented = |change: &dyn Fn(&mut Value)| {
            let mut entry: Value = serde_json::from_str(&lines[0]).unwrap();
            entry.as_object_mut().unwrap().shift_remove("entryDigest");
            change(&mut entry);
            let digest = digest_of(&entry).to_hex();
            entry["entryDigest"] = digest.into();
            verify(&entry.to_string())
        };
        assert_eq!(invented(&|_| {}), Ok(1));
        for (name, value) in [
            ("from", json!("completed")),
            ("to", json!("banana")),
            ("to", json!("acknowledged")),
            ("basis", json!("whatever")),
            ("actDigest", json!(null)),
            ("actorKey", json!("nobody")),
            ("obligationId", json!("not an id")),
            ("effectiveAt", json!(-5)),
            ("recordedAt", json!("yesterday")),
            ("more", json!(1)),
        ] {
            assert!(invented(&|entry| entry[name] = value.clone()).is_err(), "{name}: {value}");
        }
        assert!(verify("").is_err() && verify("[]").is_err() && verify("{").is_err());
        assert_eq!(verify(&lines[..3].join("\n")), Ok(3), "that the end is missing, only its reader can know");
    }
}
