//! What a supervisor keeps: the newest counters, and the acts that are on their way. SQLite in
//! WAL mode, each change durable before it is told.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};
use wikala_chain::{PublicKey, SigningKey};

use super::counters::Counters;
use super::seal::Seal;

/// How many acts may wait at once.
const WAITING: i64 = 256;
/// How many that are over are kept, to be told of.
const OVER: i64 = 64;

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// SQLite's.
    #[error("store: {0}")]
    Database(#[from] rusqlite::Error),
    /// The directory is of another key or witness, or of a newer build.
    #[error("{0}")]
    Other(String),
    /// A row does not open: changed since it was written.
    #[error("store: {0} was changed since it was written, it is not believed")]
    Changed(String),
    /// No room.
    #[error("store: {WAITING} acts wait already, the witness must be reached first")]
    Full,
}

/// An act on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its number.
    pub id: i64,
    /// What is to be done, and what was sent of it: JSON.
    pub words: Value,
    /// It is over.
    pub over: bool,
}

/// The counters as they were counted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// The six.
    pub counters: Counters,
    /// When, unix seconds.
    pub at: u64,
}

/// The directory's memory.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    seal: Seal,
}

const SNAPSHOT: &str = "snapshot";

fn place(id: i64, over: bool) -> String {
    format!("act {id} {}", if over { "over" } else { "waiting" })
}

impl Store {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// It is another key's, or no file of ours.
    pub fn open(file: &Path, key: &SigningKey) -> Result<Store, Fault> {
        let db = Connection::open(file)?;
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "full")?;
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
             CREATE TABLE IF NOT EXISTS snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), sealed BLOB NOT NULL) STRICT;
             CREATE TABLE IF NOT EXISTS act (id INTEGER PRIMARY KEY AUTOINCREMENT, over INTEGER NOT NULL, sealed BLOB NOT NULL) STRICT;",
        )?;
        let salt: [u8; 32] = rand::random();
        for (name, value) in [("key", &key.public().as_bytes()[..]), ("salt", &salt), ("version", &[1])] {
            // the first to open it makes it its own
            db.execute("INSERT OR IGNORE INTO meta (name, value) VALUES (?1, ?2)", params![name, value])?;
        }
        let known = |name: &str| -> Result<Vec<u8>, Fault> {
            Ok(db.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))?)
        };
        if known("key")? != key.public().as_bytes() {
            return Err(Fault::Other("dir: another key's supervisor keeps it, take another directory".to_owned()));
        }
        if known("version")? != [1] {
            return Err(Fault::Other("dir: of a newer build, use that one".to_owned()));
        }
        let salt = known("salt")?.try_into().map_err(|_| Fault::Changed("the salt".to_owned()))?;
        Ok(Store { seal: Seal::of(key, &salt), db })
    }

    /// Pins the witness: the first that answers is the one whose counts are kept here.
    ///
    /// # Errors
    /// Another was pinned.
    pub fn pin(&self, witness: &PublicKey) -> Result<(), Fault> {
        self.db.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('witness', ?1)", [witness.as_bytes()])?;
        let pinned: Vec<u8> =
            self.db.query_row("SELECT value FROM meta WHERE name = 'witness'", [], |row| row.get(0))?;
        if pinned != witness.as_bytes() {
            return Err(Fault::Other(format!(
                "witness: {} answers where another did before, take another directory for it",
                witness.fingerprint()
            )));
        }
        Ok(())
    }

    /// The newest counters.
    ///
    /// # Errors
    /// They do not open, or are none: [`Fault::Changed`].
    pub fn snapshot(&self) -> Result<Option<Snapshot>, Fault> {
        let sealed: Option<Vec<u8>> =
            self.db.query_row("SELECT sealed FROM snapshot", [], |row| row.get(0)).optional()?;
        let Some(sealed) = sealed else { return Ok(None) };
        let changed = || Fault::Changed("the snapshot of the counters".to_owned());
        let words: Value =
            self.seal.open(SNAPSHOT, &sealed).and_then(|text| serde_json::from_str(&text).ok()).ok_or_else(changed)?;
        let counters = Counters::read(&words["counters"]).map_err(|_| changed())?;
        Ok(Some(Snapshot { counters, at: words["at"].as_u64().ok_or_else(changed)? }))
    }

    /// Keeps the counters. Durable when this returns.
    ///
    /// # Errors
    /// SQLite's.
    pub fn keep(&self, snapshot: &Snapshot) -> Result<(), Fault> {
        let words = json!({ "counters": snapshot.counters.to_json(), "at": snapshot.at }).to_string();
        self.db.execute(
            "INSERT INTO snapshot (id, sealed) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed",
            [self.seal.close(SNAPSHOT, &words)],
        )?;
        Ok(())
    }

    /// An act that is to be done.
    ///
    /// # Errors
    /// [`Fault::Full`].
    pub fn begin(&mut self, words: &Value) -> Result<i64, Fault> {
        let change = self.db.transaction()?;
        let waiting: i64 = change.query_row("SELECT count(*) FROM act WHERE over = 0", [], |row| row.get(0))?;
        if waiting >= WAITING {
            return Err(Fault::Full);
        }
        change.execute("INSERT INTO act (over, sealed) VALUES (0, x'')", [])?;
        let id = change.last_insert_rowid();
        let sealed = self.seal.close(&place(id, false), &words.to_string());
        change.execute("UPDATE act SET sealed = ?2 WHERE id = ?1", params![id, sealed])?;
        change.commit()?;
        Ok(id)
    }

    /// What is known of an act now.
    ///
    /// # Errors
    /// SQLite's.
    pub fn note(&mut self, act: &Kept) -> Result<(), Fault> {
        let sealed = self.seal.close(&place(act.id, act.over), &act.words.to_string());
        let change = self.db.transaction()?;
        // one that is over stays so
        change.execute(
            "UPDATE act SET sealed = ?2, over = ?3 WHERE id = ?1 AND over = 0",
            params![act.id, sealed, act.over],
        )?;
        // the oldest that are over make room
        change.execute(
            "DELETE FROM act WHERE over = 1 AND id NOT IN (SELECT id FROM act WHERE over = 1 ORDER BY id DESC LIMIT ?1)",
            [OVER],
        )?;
        change.commit()?;
        Ok(())
    }

    /// The acts, oldest first. One that does not open is told with no words.
    ///
    /// # Errors
    /// SQLite's.
    pub fn acts(&self) -> Result<Vec<Kept>, Fault> {
        let mut rows = self.db.prepare("SELECT id, over, sealed FROM act ORDER BY id")?;
        let acts = rows.query_map([], |row| {
            let (id, over, sealed): (i64, bool, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let text = self.seal.open(&place(id, over), &sealed);
            let words = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
            Ok(Kept { id, words, over })
        })?;
        Ok(acts.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(n: u64) -> Snapshot {
        let words = json!({
            "unread_information": n, "action_required": 1, "awaiting_peer": 2, "awaiting_human": 3, "overdue": 4, "failed": 5,
        });
        Snapshot { counters: Counters::read(&words).unwrap(), at: 7 }
    }

    #[test]
    fn the_counters_are_there_again_and_nobody_else_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.db");
        let key = SigningKey::from_seed([1; 32]);
        let store = Store::open(&file, &key).unwrap();
        assert_eq!(store.snapshot().unwrap(), None);
        store.keep(&counted(8)).unwrap();
        store.keep(&counted(9)).unwrap();
        drop(store);
        assert_eq!(Store::open(&file, &key).unwrap().snapshot().unwrap(), Some(counted(9)));
        let other = Store::open(&file, &SigningKey::from_seed([2; 32]));
        assert!(other.unwrap_err().to_string().contains("another key"));
        for name in ["s.db", "s.db-wal"] {
            let bytes = std::fs::read(dir.path().join(name)).unwrap_or_default();
            assert!(!bytes.windows(8).any(|part| part == b"overdue\""), "{name}");
        }
    }

    #[test]
    fn a_changed_row_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.db");
        let key = SigningKey::from_seed([1; 32]);
        let mut store = Store::open(&file, &key).unwrap();
        store.keep(&counted(8)).unwrap();
        let id = store.begin(&json!({ "tool": "x" })).unwrap();
        let flip = |table: &str| {
            let raw = Connection::open(&file).unwrap();
            let mut sealed: Vec<u8> =
                raw.query_row(&format!("SELECT sealed FROM {table}"), [], |row| row.get(0)).unwrap();
            let last = sealed.len() - 1;
            sealed[last] ^= 1;
            raw.execute(&format!("UPDATE {table} SET sealed = ?1"), [sealed]).unwrap();
        };
        assert!(store.snapshot().is_ok());
        flip("snapshot");
        assert!(matches!(store.snapshot(), Err(Fault::Changed(_))));
        assert_eq!(store.acts().unwrap()[0].words["tool"], "x");
        flip("act");
        assert_eq!(store.acts().unwrap(), [Kept { id, words: Value::Null, over: false }]);
        // Nor does an act that waits pass for one that is over.
        let id = store.begin(&json!({ "tool": "y" })).unwrap();
        Connection::open(&file).unwrap().execute("UPDATE act SET over = 1 WHERE id = ?1", [id]).unwrap();
        assert_eq!(store.acts().unwrap()[1].words, Value::Null);
    }

    #[test]
    fn acts_wait_up_to_a_bound_and_what_is_over_stays_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("s.db"), &SigningKey::from_seed([1; 32])).unwrap();
        for n in 0..WAITING {
            store.begin(&json!({ "n": n })).unwrap();
        }
        assert!(matches!(store.begin(&json!({})), Err(Fault::Full)));
        for act in store.acts().unwrap() {
            store.note(&Kept { over: true, ..act }).unwrap();
        }
        let over = store.acts().unwrap();
        assert_eq!((over.len() as i64, over.iter().all(|act| act.over)), (OVER, true));
        store.note(&Kept { over: false, ..over[0].clone() }).unwrap();
        assert!(store.acts().unwrap()[0].over);
    }

    #[test]
    fn another_witness_is_none_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("s.db"), &SigningKey::from_seed([1; 32])).unwrap();
        let (one, other) = (SigningKey::from_seed([2; 32]).public(), SigningKey::from_seed([3; 32]).public());
        store.pin(&one).unwrap();
        store.pin(&one).unwrap();
        assert!(store.pin(&other).unwrap_err().to_string().contains("another did before"));
    }
}
