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

/// Under which extensions of the protocol words were said. Obligations: the messages they
/// are bound to, what is known of their delivery, the obligations and their ledgers.
///
/// The table keeps its own promises: a binding never changes, a move makes the next
/// revision and has its entry in the ledger, what is closed stays closed, nothing is
/// deleted. They hold for whoever writes to this file.
const V4: &str = "
ALTER TABLE leg ADD COLUMN extensions TEXT;
-- what a spent act came to, told again to who sends it again
ALTER TABLE spent_act ADD COLUMN result TEXT;

-- what no longer counts: a certificate by its id, or what an authority gave until then
CREATE TABLE revocation (
  kind TEXT NOT NULL CHECK (kind IN ('certificate', 'authority')), target BLOB NOT NULL CHECK (length(target) = 32),
  revoked_at INTEGER NOT NULL, signer BLOB NOT NULL, PRIMARY KEY (kind, target)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
  id TEXT PRIMARY KEY,
  thread TEXT NOT NULL REFERENCES thread (id), run TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('request', 'ask', 'obligation_response')),
  author BLOB NOT NULL CHECK (length(author) = 32),
  message_id TEXT NOT NULL, idempotency_key TEXT NOT NULL,
  payload TEXT NOT NULL, payload_digest BLOB NOT NULL, envelope_digest BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  UNIQUE (thread, author, idempotency_key), UNIQUE (thread, author, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_run ON event (run) WHERE run IS NOT NULL;
CREATE TRIGGER event_frozen BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_kept BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TABLE delivery (
  event TEXT NOT NULL REFERENCES event (id), recipient BLOB NOT NULL,
  -- mutable: the strongest fact; blocked is beside the ladder, and can pass
  rank INTEGER NOT NULL CHECK (rank BETWEEN 0 AND 4), blocked INTEGER NOT NULL DEFAULT 0, changed_at INTEGER NOT NULL,
  PRIMARY KEY (event, recipient)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_recipient ON delivery (recipient, rank);
CREATE TRIGGER delivery_rank BEFORE UPDATE OF rank ON delivery WHEN NEW.rank < OLD.rank
  BEGIN SELECT RAISE(ABORT, 'what is known of a delivery never falls'); END;
CREATE TABLE delivery_fact (
  event TEXT NOT NULL, recipient BLOB NOT NULL, seq INTEGER NOT NULL,
  fact TEXT NOT NULL, evidence TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (event, recipient, seq), FOREIGN KEY (event, recipient) REFERENCES delivery (event, recipient)
) STRICT, WITHOUT ROWID;

CREATE TABLE response_schema (
  digest BLOB PRIMARY KEY CHECK (length(digest) = 32), text TEXT NOT NULL CHECK (length(text) <= 65536),
  -- another version of the library may judge an instance otherwise
  library TEXT NOT NULL, created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE obligation (
  id TEXT PRIMARY KEY,
  thread TEXT NOT NULL REFERENCES thread (id), run TEXT NOT NULL REFERENCES run (id),
  -- the question of a pause that it is asked by; null: by the run's request
  ask INTEGER, item TEXT,
  event TEXT NOT NULL REFERENCES event (id), request_digest BLOB NOT NULL,
  requester BLOB NOT NULL, author BLOB NOT NULL, responsible BLOB NOT NULL,
  dispatch BLOB, schema_id TEXT, schema BLOB REFERENCES response_schema (digest),
  deadline_at INTEGER, auto_expire INTEGER NOT NULL, created_at INTEGER NOT NULL,
  -- mutable, a revision at a time
  state TEXT NOT NULL CHECK (state IN ('created', 'recipient_committed', 'acknowledged', 'in_progress', 'pending_human',
    'blocked', 'completed', 'failed', 'declined', 'canceled', 'expired')),
  reason TEXT NOT NULL, revision INTEGER NOT NULL CHECK (revision >= 1), changed_at INTEGER NOT NULL,
  -- where it goes back to when the pause of its run that moved it is over
  resume_to TEXT,
  response_event TEXT UNIQUE REFERENCES event (id), response_digest BLOB, closed_at INTEGER,
  UNIQUE (event, responsible), UNIQUE (run, ask, item),
  CHECK (requester <> responsible), CHECK ((ask IS NULL) = (item IS NULL)),
  CHECK ((schema_id IS NULL) = (schema IS NULL)),
  CHECK ((state IN ('completed', 'failed', 'declined', 'canceled', 'expired')) = (closed_at IS NOT NULL)),
  CHECK ((state IN ('completed', 'failed')) = (response_event IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX obligation_responsible ON obligation (responsible, state, deadline_at);
CREATE INDEX obligation_requester ON obligation (requester, state, deadline_at);
CREATE INDEX obligation_run ON obligation (run);
CREATE INDEX obligation_asked_open ON obligation (requester, deadline_at) WHERE closed_at IS NULL;
CREATE INDEX obligation_owed_open ON obligation (responsible, deadline_at) WHERE closed_at IS NULL;
CREATE INDEX obligation_due ON obligation (deadline_at) WHERE closed_at IS NULL AND auto_expire = 1;

CREATE TABLE transition (
  obligation TEXT NOT NULL REFERENCES obligation (id), revision INTEGER NOT NULL,
  from_state TEXT, to_state TEXT NOT NULL, signed INTEGER NOT NULL,
  actor BLOB NOT NULL, effective BLOB NOT NULL, act BLOB, detail TEXT NOT NULL,
  effective_at INTEGER NOT NULL, recorded_at INTEGER NOT NULL,
  prev_digest BLOB NOT NULL, entry_digest BLOB NOT NULL UNIQUE,
  PRIMARY KEY (obligation, revision)
) STRICT, WITHOUT ROWID;
-- {msg_id}.ack.json: an artifact of its own, the request is never touched
CREATE TABLE ack (
  obligation TEXT PRIMARY KEY REFERENCES obligation (id), message_id TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('ACCEPTED', 'DECLINED')), agent BLOB NOT NULL, at INTEGER NOT NULL,
  reason TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX ack_message ON ack (message_id);

CREATE TRIGGER transition_frozen BEFORE UPDATE ON transition BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER transition_kept BEFORE DELETE ON transition BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ack_frozen BEFORE UPDATE ON ack BEGIN SELECT RAISE(ABORT, 'acks are append-only'); END;
CREATE TRIGGER ack_kept BEFORE DELETE ON ack BEGIN SELECT RAISE(ABORT, 'acks are append-only'); END;
CREATE TRIGGER obligation_kept BEFORE DELETE ON obligation BEGIN SELECT RAISE(ABORT, 'obligations are never deleted'); END;
CREATE TRIGGER obligation_fence BEFORE UPDATE OF state, revision ON obligation
  WHEN NEW.revision <> OLD.revision + 1 OR OLD.closed_at IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'one revision at a time, and none after the last'); END;
CREATE TRIGGER obligation_bound BEFORE UPDATE OF id, thread, run, ask, item, event, request_digest, requester, author, responsible,
  dispatch, schema_id, schema, deadline_at, auto_expire, created_at ON obligation
  BEGIN SELECT RAISE(ABORT, 'a binding never changes'); END;
CREATE TRIGGER obligation_entered AFTER UPDATE OF state ON obligation
  WHEN NOT EXISTS (SELECT 1 FROM transition AS t WHERE t.obligation = NEW.id AND t.revision = NEW.revision
    AND t.from_state = OLD.state AND t.to_state = NEW.state)
  BEGIN SELECT RAISE(ABORT, 'a move stands in the ledger first'); END;
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
