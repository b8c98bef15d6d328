//! Key files.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::json;
use wikala_chain::SigningKey;

use super::io;
use crate::exit::Failure;

/// `keygen FILE`.
pub(super) fn keygen(file: &Path) -> Result<(), Failure> {
    let key = SigningKey::generate();
    write(file, &key)?;
    io::say(key.public())
}

/// Writes a key file: mode 0600 before the first byte, and never over another file.
pub(crate) fn write(file: &Path, key: &SigningKey) -> Result<(), Failure> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).and_then(|mut open| {
        open.write_all(key.to_pem().as_bytes())?;
        open.sync_all()
    });
    made.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::environment(format!("{}: is there already, choose another name or move it away", file.display()))
        }
        _ => Failure::environment(format!("{}: cannot be made ({error})", file.display())),
    })
}

/// `key show FILE [--json]`.
pub(super) fn show(file: &Path, as_json: bool) -> Result<(), Failure> {
    let key = io::key(file)?.public();
    if as_json {
        io::say(json!({ "publicKey": key.to_hex(), "fingerprint": key.fingerprint().to_string() }))
    } else {
        io::say(format!("{key}\nfingerprint {}", key.fingerprint()))
    }
}
