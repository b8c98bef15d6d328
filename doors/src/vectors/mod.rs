//! The published vectors: what any implementation of the wire must answer, case by case.
//!
//! `vectors/<family>/<case>.json` holds `why`, `inputs` and `expect`; every family here
//! writes its cases from fixed seeds, and answers them again through the crates' public
//! API. What a case expects is written down, never computed by the code it tests.
//!
//! Two families are imported and only replayed: `ed25519` (CCTV, Wycheproof) and
//! `contract` (the reference's published bytes).

mod acts;
mod case;
mod cast;
mod certificates;
mod chain;
mod chain_tables;
mod contract;
mod ed25519;
mod json;
mod keys;
mod links;
mod obligations;
mod payloads;
mod presenter;
mod proofs;
mod rfc9421;
mod schema_tables;
mod schemas;
mod window;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wikala_chain::Digest;

use case::Case;

/// A family that is written here.
struct Family {
    name: &'static str,
    cases: fn() -> Vec<Case>,
    /// Answers one case's inputs through the public API.
    replay: fn(&Value) -> Value,
}

const FAMILIES: [Family; 16] = [
    Family { name: "acts", cases: acts::cases, replay: acts::replay },
    Family { name: "certificates", cases: certificates::cases, replay: certificates::replay },
    Family { name: "chain", cases: chain::cases, replay: chain::replay },
    Family { name: "json", cases: json::cases, replay: json::replay },
    Family { name: "keys", cases: keys::cases, replay: keys::replay },
    Family { name: "ledger_chain", cases: obligations::ledger_cases, replay: obligations::replay_ledger },
    Family { name: "links", cases: links::cases, replay: links::replay },
    Family { name: "obligation_acts", cases: obligations::act_cases, replay: obligations::replay_act },
    Family { name: "payloads", cases: payloads::cases, replay: payloads::replay },
    Family { name: "presenter", cases: presenter::cases, replay: presenter::replay },
    Family { name: "proofs", cases: proofs::cases, replay: proofs::replay },
    Family { name: "request_digest", cases: obligations::request_cases, replay: obligations::replay_request },
    Family { name: "rfc9421", cases: rfc9421::cases, replay: rfc9421::replay },
    Family { name: "schema_gate", cases: schemas::cases, replay: schemas::replay },
    Family { name: "state_table", cases: obligations::state_cases, replay: obligations::replay_state },
    Family { name: "window", cases: window::cases, replay: window::replay },
];

/// A family that came from elsewhere, in one file.
struct Imported {
    name: &'static str,
    file: &'static str,
    /// How many cases hold, or what does not.
    replay: fn(&Value) -> Result<usize, String>,
}

const IMPORTED: [Imported; 2] = [
    Imported { name: "contract", file: "contract-vectors.rev11.json", replay: contract::replay },
    Imported { name: "ed25519", file: "cases.json", replay: ed25519::replay },
];

/// What was written or checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Cases by family.
    pub cases: BTreeMap<String, usize>,
    /// `sha256:` and the digest of all files, as `vectors/REVISION` holds it.
    pub fingerprint: String,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let total: usize = self.cases.values().sum();
        write!(f, "{total} cases in {} families, {}", self.cases.len(), self.fingerprint)
    }
}

/// Why vectors were neither written nor found right.
#[derive(Debug, thiserror::Error)]
pub enum VectorsError {
    /// A file could not be read or written.
    #[error("vectors: {path}: {source}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Cases that differ from what is generated or do not replay, a sentence each.
    #[error("vectors: {} differences\n{}", .0.len(), .0.join("\n"))]
    Differ(Vec<String>),
}

/// Writes every generated family below `dir`; the same bytes each time. Imported files,
/// `REVISION` and the pages are left alone: a revision is somebody's decision.
///
/// # Errors
/// A file that cannot be written or, for the fingerprint, read.
pub fn generate(dir: &Path) -> Result<Summary, VectorsError> {
    let mut counted = BTreeMap::new();
    for Family { name: family, cases, .. } in FAMILIES {
        let folder = dir.join(family);
        let cases = cases();
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        for case in &cases {
            let path = folder.join(format!("{}.json", case.name));
            fs::write(&path, case.text()).map_err(at(&path))?;
        }
        counted.insert(family.to_owned(), cases.len());
    }
    Ok(Summary { cases: counted, fingerprint: fingerprint(dir)? })
}

/// Compares every file below `dir` with what would be generated, replays every case
/// through the public API, and compares `REVISION`.
///
/// # Errors
/// All differences at once; a file that cannot be read.
pub fn check(dir: &Path) -> Result<Summary, VectorsError> {
    let (mut counted, mut differ) = (BTreeMap::new(), Vec::new());
    for Family { name: family, cases, replay } in FAMILIES {
        let mut there = list(&dir.join(family))?;
        let cases = cases();
        for case in &cases {
            let name = format!("{family}/{}", case.name);
            match there.remove(&case.name) {
                None => differ.push(format!("{name}: missing, `wikala vectors generate` writes it")),
                Some(path) if fs::read_to_string(&path).map_err(at(&path))? != case.text() => {
                    differ.push(format!("{name}: not what is generated"));
                }
                Some(_) => {}
            }
            let got = replay(&case.inputs);
            if got != case.expect {
                differ.push(format!("{name}: answers {got}, {} expected", case.expect));
            }
        }
        differ.extend(there.keys().map(|name| format!("{family}/{name}: nothing generates it")));
        counted.insert(family.to_owned(), cases.len());
    }
    for Imported { name, file, replay } in IMPORTED {
        let path = dir.join(name).join(file);
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        match serde_json::from_str(&text).map_err(|error| error.to_string()).and_then(|value| replay(&value)) {
            Ok(cases) => drop(counted.insert(name.to_owned(), cases)),
            Err(what) => differ.push(format!("{name}/{file}: {what}")),
        }
    }
    let fingerprint = fingerprint(dir)?;
    let path = dir.join("REVISION");
    let revision = fs::read_to_string(&path).map_err(at(&path))?;
    if revision.split_whitespace().nth(1) != Some(fingerprint.as_str()) {
        differ.push(format!(
            "REVISION: is {:?}, the files give {fingerprint}; a change of the wire takes a new number and a line in the CHANGELOG",
            revision.trim()
        ));
    }
    if differ.is_empty() { Ok(Summary { cases: counted, fingerprint }) } else { Err(VectorsError::Differ(differ)) }
}

/// Names the state of all families. The same as
/// `find */ -name '*.json' | LC_ALL=C sort | xargs sha256sum | sha256sum` in `dir`.
///
/// # Errors
/// A file or folder that cannot be read.
pub fn fingerprint(dir: &Path) -> Result<String, VectorsError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let folder = entry.map_err(at(dir))?.path();
        if folder.is_dir() {
            let family = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.extend(list(&folder)?.into_iter().map(|(name, path)| (format!("{family}/{name}.json"), path)));
        }
    }
    files.sort();
    let mut lines = String::new();
    for (name, path) in files {
        let bytes = fs::read(&path).map_err(at(&path))?;
        lines.push_str(&format!("{}  {name}\n", Digest::of(&bytes)));
    }
    Ok(format!("sha256:{}", Digest::of(lines.as_bytes())))
}

/// The cases in a folder by name; none if there is no folder.
fn list(folder: &Path) -> Result<BTreeMap<String, PathBuf>, VectorsError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries.map_err(at(folder))?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(at(folder))?.path();
        if let (Some(name), Some("json")) = (path.file_stem(), path.extension().and_then(|ext| ext.to_str())) {
            found.insert(name.to_string_lossy().into_owned(), path.clone());
        }
    }
    Ok(found)
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> VectorsError {
    let path = path.to_owned();
    move |source| VectorsError::File { path, source }
}
