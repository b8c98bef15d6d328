//! The tables, and the forward migrations between versions of them.

use rusqlite::{Connection, TransactionBehavior};

use crate::refusal::OpenFault;

/// The newest version this build writes; `PRAGMA user_version` of the file.
pub const VERSION: i64 = 4;

/// One script a version: `MIGRATIONS[n]` leads from version n to n + 1.
const MIGRATIONS: [&str; VERSION as usize] = [V1, V2, V3, V4];

/// Prepares a writing connection: durable, strict about references, and patient
/// with a second writer on the same file.
pub(crate) fn open_writer(db: &mut Connection) -> Result<(), OpenFault> {
    db.pragma_update(None, "journal_mode", "WAL")?;
    // An acknowledged act must survive a power cut, not only a crash of ours.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.busy_timeout(std::time::Duration::from_secs(10))?;
    db.set_prepared_statement_cache_capacity(256);
    migrate(db)
}

/// A read-only connection: sees the last commit, never blocks the writer.
pub(crate) fn open_reader(db: &Connection) -> Result<(), OpenFault> {
    db.pragma_update(None, "query_only", true)?;
    db.busy_timeout(std::time::Duration::from_secs(10))?;
    db.set_prepared_statement_cache_capacity(128);
    let found = version(db)?;
    if found == VERSION { Ok(()) } else { Err(OpenFault::Version { found, known: VERSION }) }
}

fn version(db: &Connection) -> Result<i64, OpenFault> {
    Ok(db.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// All missing steps in one transaction: a cut in the middle leaves the old
/// version whole. A file of a newer build is refused, never "downgraded".
fn migrate(db: &mut Connection) -> Result<(), OpenFault> {
    forward(db, &MIGRATIONS)
}

fn forward(db: &mut Connection, scripts: &[&str]) -> Result<(), OpenFault> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&tx)?;
    if !(0..=VERSION).contains(&found) {
        return Err(OpenFault::Version { found, known: VERSION });
    }
    for script in &scripts[found as usize..] {
        tx.execute_batch(script)?;
    }
    tx.pragma_update(None, "user_version", VERSION)?;
    tx.commit()?;
    Ok(())
}

/// Keys and digests are BLOBs, times INTEGER seconds, tokens and words TEXT as
/// received. In each table the immutable columns come first.
const V1: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE provider (
  key BLOB PRIMARY KEY CHECK (length(key) = 32),
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 8),
  -- mutable: what it calls itself, and the counters that survive restarts
  name TEXT,
  declined_with_room INTEGER NOT NULL DEFAULT 0,
  took_never_ended INTEGER NOT NULL DEFAULT 0,
  never_answered INTEGER NOT NULL DEFAULT 0,
  strikes INTEGER NOT NULL DEFAULT 0,
  withdrawn INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX provider_fingerprint ON provider (fingerprint);

CREATE TABLE link (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  provider BLOB NOT NULL REFERENCES provider (key),
  capacity INTEGER,
  attached_at INTEGER NOT NULL,
  -- mutable
  detached_at INTEGER
) STRICT;
CREATE UNIQUE INDEX link_live ON link (provider) WHERE detached_at IS NULL;

CREATE TABLE agent (
  id INTEGER PRIMARY KEY,
  provider BLOB NOT NULL REFERENCES provider (key),
  name TEXT NOT NULL,
  -- mutable: as last registered; link is NULL while it is on no live roster
  registration TEXT NOT NULL,
  interjections INTEGER NOT NULL,
  link INTEGER REFERENCES link (id),
  lost_at INTEGER,
  UNIQUE (provider, name)
) STRICT;

CREATE TABLE thread (
  id TEXT PRIMARY KEY,
  agent INTEGER NOT NULL REFERENCES agent (id),
  created_at INTEGER NOT NULL,
  -- set once, at birth (the first run), and never again
  birth TEXT,
  head BLOB,
  opener BLOB,
  parent TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_parent ON thread (parent) WHERE parent IS NOT NULL;

CREATE TABLE thread_actor (
  thread TEXT NOT NULL REFERENCES thread (id), key BLOB NOT NULL, PRIMARY KEY (thread, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE alias (
  agent INTEGER NOT NULL, scope TEXT NOT NULL, name TEXT NOT NULL,
  thread TEXT NOT NULL REFERENCES thread (id),
  PRIMARY KEY (agent, scope, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
  id TEXT PRIMARY KEY,
  thread TEXT NOT NULL REFERENCES thread (id),
  agent INTEGER NOT NULL REFERENCES agent (id),
  created_at INTEGER NOT NULL,
  head BLOB, opener BLOB, opener_authority BLOB,
  chain TEXT, caller_tip BLOB, witness_tip BLOB, delivered_tip BLOB,
  delegation TEXT, vouchers TEXT, addressed TEXT, reference TEXT, parent_run TEXT,
  client_run TEXT, body_digest BLOB,
  opened INTEGER NOT NULL,
  -- mutable
  status TEXT NOT NULL, reason TEXT, changed_at INTEGER NOT NULL,
  leg INTEGER NOT NULL DEFAULT 0,
  position INTEGER NOT NULL,
  queued_at INTEGER NOT NULL, retry_at INTEGER NOT NULL DEFAULT 0,
  link INTEGER, offered_at INTEGER, held INTEGER NOT NULL DEFAULT 0, settled_at INTEGER, lease_until INTEGER,
  link_seq INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER, ended_at INTEGER, ended INTEGER, continued INTEGER,
  UNIQUE (thread, client_run)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_thread ON run (thread, opened);
CREATE INDEX run_agent ON run (agent, changed_at);
CREATE INDEX run_caller_tip ON run (caller_tip) WHERE caller_tip IS NOT NULL;
CREATE INDEX run_witness_tip ON run (witness_tip, opened) WHERE witness_tip IS NOT NULL;
CREATE INDEX run_delivered_tip ON run (delivered_tip) WHERE delivered_tip IS NOT NULL;
CREATE INDEX run_opened ON run (opened);
CREATE INDEX run_queue ON run (agent, position) WHERE status = 'queued';
CREATE INDEX run_active ON run (thread) WHERE status IN ('offering', 'running', 'cancelling') OR held = 1;
CREATE INDEX run_link ON run (link) WHERE link IS NOT NULL;
CREATE INDEX run_lease ON run (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX run_open ON run (status) WHERE status IN ('queued', 'offering', 'running', 'cancelling');

CREATE TABLE leg (
  run TEXT NOT NULL REFERENCES run (id), ordinal INTEGER NOT NULL,
  dialect TEXT NOT NULL, words TEXT NOT NULL, reply TEXT,
  PRIMARY KEY (run, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE entry (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
  source TEXT NOT NULL, dialect TEXT NOT NULL, words TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_run ON entry (run, seq);
-- The record is append-only: what was observed is not observed otherwise later.
CREATE TRIGGER entry_frozen BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;
CREATE TRIGGER entry_kept BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;

CREATE TABLE deferred_call (
  run TEXT NOT NULL REFERENCES run (id), id TEXT NOT NULL, position INTEGER NOT NULL,
  answered INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE ask (
  run TEXT NOT NULL REFERENCES run (id), ordinal INTEGER NOT NULL,
  opened_at INTEGER NOT NULL,
  head BLOB, provider BLOB, -- the authority set, copied at the pause; both NULL: open
  question_digest BLOB NOT NULL,
  -- mutable, once
  closed_at INTEGER, closed_as TEXT, authority BLOB, signer BLOB, answer_digest BLOB,
  PRIMARY KEY (run, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX ask_open ON ask (run) WHERE closed_at IS NULL;

CREATE TABLE ask_item (
  run TEXT NOT NULL, ordinal INTEGER NOT NULL, position INTEGER NOT NULL,
  id TEXT NOT NULL, kind TEXT NOT NULL, question TEXT NOT NULL,
  PRIMARY KEY (run, ordinal, id), FOREIGN KEY (run, ordinal) REFERENCES ask (run, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE cancel_request (
  run TEXT NOT NULL REFERENCES run (id), at INTEGER NOT NULL, authority BLOB, signer BLOB
) STRICT;
CREATE INDEX cancel_request_run ON cancel_request (run);

CREATE TABLE flag (run TEXT NOT NULL REFERENCES run (id), flag TEXT NOT NULL, PRIMARY KEY (run, flag)) STRICT, WITHOUT ROWID;

CREATE TABLE spent_act (
  authority BLOB NOT NULL, signer BLOB NOT NULL, digest BLOB NOT NULL,
  at INTEGER NOT NULL, purpose TEXT NOT NULL, run TEXT NOT NULL, leg INTEGER NOT NULL,
  answer_digest BLOB,
  PRIMARY KEY (authority, digest),
  UNIQUE (signer, digest) -- a signer whose authority is recorded later has used it all the same
) STRICT, WITHOUT ROWID;

CREATE TABLE presented (
  signer BLOB NOT NULL, digest BLOB NOT NULL, signed_at INTEGER NOT NULL, PRIMARY KEY (signer, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX presented_at ON presented (signed_at);

CREATE TABLE delegate (
  delegate BLOB PRIMARY KEY, authority BLOB NOT NULL, recorded_at INTEGER NOT NULL,
  -- mutable: the latest certificate of this same pair
  certificate BLOB NOT NULL, expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX delegate_authority ON delegate (authority);

CREATE TABLE ticket (ticket TEXT PRIMARY KEY, burned_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// Whose word a reason is, how much a run said; retries and open calls, found without
/// walking through what is neither.
const V2: &str = "
ALTER TABLE run ADD COLUMN reason_by_provider INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN said_bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX run_retry ON run (retry_at) WHERE status = 'queued' AND retry_at > 0;
CREATE INDEX deferred_call_open ON deferred_call (run, position) WHERE answered = 0;
";

/// What callers call threads, which schemas are enforced; agents behind HTTP: our own links to them, one each, beside the one that a provider
/// dials in with; what they call our threads and runs.
const V3: &str = "
ALTER TABLE run ADD COLUMN client_thread TEXT;
-- the gate's word on a question's responseSchema, at the pause: 'enforced', or why not
ALTER TABLE ask_item ADD COLUMN schema TEXT;
CREATE INDEX run_client_thread ON run (agent, client_thread) WHERE client_thread IS NOT NULL;
ALTER TABLE link ADD COLUMN carrier TEXT NOT NULL DEFAULT 'link' CHECK (carrier IN ('link', 'upstream'));
DROP INDEX link_live;
CREATE UNIQUE INDEX link_live ON link (provider) WHERE detached_at IS NULL AND carrier = 'link';
CREATE INDEX link_open ON link (provider) WHERE detached_at IS NULL;

CREATE TABLE upstream (
  agent INTEGER PRIMARY KEY REFERENCES agent (id),
  -- mutable, when it is removed and added again
  dialect TEXT NOT NULL, url TEXT NOT NULL, custodial INTEGER NOT NULL,
  consent BLOB NOT NULL CHECK (length(consent) = 64),
  headers TEXT, added_at INTEGER NOT NULL, removed_at INTEGER
) STRICT;
CREATE TABLE upstream_thread (
  thread TEXT PRIMARY KEY REFERENCES thread (id), context TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE upstream_run (run TEXT PRIMARY KEY REFERENCES run (id), task TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

/// Under which extensions of the protocol words were said.
const V4: &str = "
ALTER TABLE leg ADD COLUMN extensions TEXT;
";

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(V1).unwrap();
        db.execute_batch("PRAGMA user_version = 1; INSERT INTO meta VALUES ('kept', x'01')").unwrap();
        db
    }

    fn columns(db: &Connection) -> i64 {
        db.query_row("SELECT count(*) FROM pragma_table_info('run') WHERE name = 'reason_by_provider'", [], |r| {
            r.get(0)
        })
        .unwrap()
    }

    #[test]
    fn an_older_file_is_led_forward_and_keeps_what_it_holds() {
        let mut db = first();
        migrate(&mut db).unwrap();
        assert_eq!((version(&db).unwrap(), columns(&db)), (VERSION, 1));
        let kept: i64 = db.query_row("SELECT count(*) FROM meta WHERE name = 'kept'", [], |r| r.get(0)).unwrap();
        assert_eq!(kept, 1);
        migrate(&mut db).unwrap();
    }

    #[test]
    fn a_step_that_fails_leaves_the_older_file_whole() {
        let mut db = first();
        assert!(forward(&mut db, &[V1, "ALTER TABLE run ADD COLUMN reason_by_provider INTEGER; nonsense"]).is_err());
        assert_eq!((version(&db).unwrap(), columns(&db)), (1, 0));
    }

    #[test]
    fn a_newer_file_is_refused() {
        let mut db = first();
        db.pragma_update(None, "user_version", VERSION + 1).unwrap();
        assert!(matches!(migrate(&mut db), Err(OpenFault::Version { found, .. }) if found == VERSION + 1));
        assert!(matches!(open_reader(&db), Err(OpenFault::Version { .. })));
    }
}
