//! Accepted messages that obligations are bound to, and what is known of their delivery.

use rusqlite::{Row, named_params};
use wikala_certs::Moment;
use wikala_chain::{Digest, PublicKey};

use super::obligations::keys_of_party;
use super::{Key, Sha, Store, key, number, secs, sha};
use crate::ids::{EventId, RunId, ThreadId};
use crate::obligation::DeliveryFact;
use crate::refusal::Fault;

/// A row of `event`.
#[derive(Debug, Clone)]
pub(crate) struct EventRow {
    pub(crate) id: EventId,
    pub(crate) thread: ThreadId,
    pub(crate) run: Option<RunId>,
    pub(crate) kind: String,
    pub(crate) author: PublicKey,
    pub(crate) message_id: String,
    pub(crate) idempotency_key: String,
    pub(crate) payload: String,
    pub(crate) created_at: u64,
}

impl EventRow {
    /// SHA-256 of the exact bytes.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.payload.as_bytes())
    }

    /// SHA-256 of `wikala-envelope:{event}:{thread}:{author}:{payload digest}`: what a
    /// recipient acknowledges custody of.
    pub(crate) fn envelope(&self) -> Digest {
        envelope(&self.id, &self.thread, self.author, self.digest())
    }
}

/// [`EventRow::envelope`], of a message that was not read.
pub(crate) fn envelope(id: &EventId, thread: &ThreadId, author: PublicKey, payload: Digest) -> Digest {
    Digest::of(format!("wikala-envelope:{id}:{thread}:{author}:{payload}").as_bytes())
}

fn event(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    Ok(EventRow {
        id: row.get("id")?,
        thread: row.get("thread")?,
        run: row.get("run")?,
        kind: row.get("kind")?,
        author: key(row, "author")?.ok_or(rusqlite::Error::InvalidQuery)?,
        message_id: row.get("message_id")?,
        idempotency_key: row.get("idempotency_key")?,
        payload: row.get("payload")?,
        created_at: number(row, "created_at")?,
    })
}

/// What is known of a delivery.
#[derive(Debug, Clone)]
pub(crate) struct FactRow {
    pub(crate) recipient: PublicKey,
    pub(crate) fact: String,
    pub(crate) evidence: String,
    pub(crate) at: u64,
}

impl Store {
    pub(crate) fn insert_event(&self, row: &EventRow) -> Result<(), Fault> {
        // insert event
        self.change(
            "INSERT INTO event (id, thread, run, kind, author, message_id, idempotency_key, payload, payload_digest,
               envelope_digest, created_at)
             VALUES (:id, :thread, :run, :kind, :author, :message, :idempotency, :payload, :digest, :envelope, :at)",
            named_params! {
                ":id": row.id, ":thread": row.thread, ":run": row.run, ":kind": row.kind, ":author": Key(row.author),
                ":message": row.message_id, ":idempotency": row.idempotency_key, ":payload": row.payload,
                ":digest": Sha(row.digest()), ":envelope": Sha(row.envelope()), ":at": row.created_at as i64,
            },
        )?;
        Ok(())
    }

    pub(crate) fn event(&self, id: &EventId) -> Result<Option<EventRow>, Fault> {
        // event
        self.find("SELECT * FROM event WHERE id = :id", named_params! {":id": id}, event)
    }

    /// The digest of an event's bytes as they are stored.
    pub(crate) fn event_author(&self, id: &EventId) -> Result<Option<PublicKey>, Fault> {
        // author of an event
        self.find("SELECT author FROM event WHERE id = :id", named_params! {":id": id}, |row| {
            Ok(row.get::<_, Key>("author")?.0)
        })
    }

    pub(crate) fn event_digest(&self, id: &EventId) -> Result<Option<Digest>, Fault> {
        // event digest
        self.find("SELECT payload_digest FROM event WHERE id = :id", named_params! {":id": id}, |row| {
            sha(row, "payload_digest")?.ok_or(rusqlite::Error::InvalidQuery)
        })
    }

    pub(crate) fn event_by_key(
        &self,
        thread: &ThreadId,
        author: PublicKey,
        idempotency_key: &str,
    ) -> Result<Option<EventRow>, Fault> {
        // event by idempotency key
        self.find(
            "SELECT * FROM event WHERE thread = :thread AND author = :author AND idempotency_key = :key",
            named_params! {":thread": thread, ":author": Key(author), ":key": idempotency_key},
            event,
        )
    }

    pub(crate) fn event_by_message(
        &self,
        thread: &ThreadId,
        author: PublicKey,
        message: &str,
    ) -> Result<Option<EventRow>, Fault> {
        // event by message id
        self.find(
            "SELECT * FROM event WHERE thread = :thread AND author = :author AND message_id = :message",
            named_params! {":thread": thread, ":author": Key(author), ":message": message},
            event,
        )
    }

    /// The deliveries that a run carries: event and recipient.
    pub(crate) fn deliveries_of_run(&self, run: &RunId) -> Result<Vec<(EventId, PublicKey)>, Fault> {
        // deliveries of a run
        self.all(
            "SELECT d.event, d.recipient FROM event AS e JOIN delivery AS d ON d.event = e.id
             WHERE e.run = :run AND e.kind = 'request'",
            named_params! {":run": run},
            |row| Ok((row.get("event")?, row.get::<_, Key>("recipient")?.0)),
        )
    }

    /// Notes a fact with its evidence, each once; the strongest one is the rank.
    pub(crate) fn deliver(
        &self,
        event: &EventId,
        recipient: PublicKey,
        fact: DeliveryFact,
        evidence: &str,
        now: Moment,
    ) -> Result<(), Fault> {
        let rank = fact as i64;
        // deliver: what is known never falls, and what is committed is blocked no more
        self.change(
            "INSERT INTO delivery (event, recipient, rank, changed_at) VALUES (:event, :recipient, :rank, :now)
             ON CONFLICT (event, recipient) DO UPDATE SET rank = excluded.rank, blocked = 0, changed_at = excluded.changed_at
             WHERE excluded.rank > rank",
            named_params! {":event": event, ":recipient": Key(recipient), ":rank": rank, ":now": secs(now)},
        )?;
        self.note_fact(event, recipient, fact.as_str(), evidence, now)
    }

    /// It could not be handed over, for now.
    pub(crate) fn block_delivery(
        &self,
        event: &EventId,
        recipient: PublicKey,
        evidence: &str,
        now: Moment,
    ) -> Result<(), Fault> {
        // block delivery: once it is committed nothing stands in its way
        let new = self.change(
            "UPDATE delivery SET blocked = 1, changed_at = :now
             WHERE event = :event AND recipient = :recipient AND rank < 3 AND blocked = 0",
            named_params! {":event": event, ":recipient": Key(recipient), ":now": secs(now)},
        )? > 0;
        if new {
            self.note_fact(event, recipient, "blocked", evidence, now)?;
        }
        Ok(())
    }

    fn note_fact(
        &self,
        event: &EventId,
        recipient: PublicKey,
        fact: &str,
        evidence: &str,
        now: Moment,
    ) -> Result<(), Fault> {
        // note fact: but for being blocked, which passes, the first evidence of a fact counts
        self.change(
            "INSERT INTO delivery_fact (event, recipient, seq, fact, evidence, at)
             SELECT :event, :recipient, (SELECT coalesce(max(seq), 0) + 1 FROM delivery_fact
               WHERE event = :event AND recipient = :recipient), :fact, :evidence, :now
             WHERE :fact = 'blocked' OR NOT EXISTS (SELECT 1 FROM delivery_fact
               WHERE event = :event AND recipient = :recipient AND fact = :fact)",
            named_params! {
                ":event": event, ":recipient": Key(recipient), ":fact": fact, ":evidence": evidence, ":now": secs(now),
            },
        )?;
        Ok(())
    }

    pub(crate) fn facts(&self, event: &EventId) -> Result<Vec<FactRow>, Fault> {
        // facts of an event
        self.all(
            "SELECT recipient, fact, evidence, at FROM delivery_fact WHERE event = :event ORDER BY recipient, seq",
            named_params! {":event": event},
            |row| {
                Ok(FactRow {
                    recipient: row.get::<_, Key>("recipient")?.0,
                    fact: row.get("fact")?,
                    evidence: row.get("evidence")?,
                    at: number(row, "at")?,
                })
            },
        )
    }

    /// The deliveries of a message to a party, by whichever of its keys: recipient and rank.
    pub(crate) fn deliveries_to(&self, event: &EventId, party: PublicKey) -> Result<Vec<(PublicKey, u64)>, Fault> {
        // deliveries to a party
        self.all(
            concat!("SELECT recipient, rank FROM delivery WHERE event = :event AND recipient IN ", keys_of_party!()),
            named_params! {":event": event, ":party": Key(party)},
            |row| Ok((row.get::<_, Key>("recipient")?.0, number(row, "rank")?)),
        )
    }

    /// How strong what is known of a delivery is.
    pub(crate) fn delivery_rank(&self, event: &EventId, recipient: PublicKey) -> Result<Option<u64>, Fault> {
        // delivery rank
        self.find(
            "SELECT rank FROM delivery WHERE event = :event AND recipient = :recipient",
            named_params! {":event": event, ":recipient": Key(recipient)},
            |row| number(row, "rank"),
        )
    }
}
