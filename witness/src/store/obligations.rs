//! Obligations, their ledgers and acks. The revision is the guard: it stands in the `WHERE`,
//! and who comes second changes no row.

use rusqlite::{Row, named_params};
use wikala_certs::Moment;
use wikala_chain::{Digest, PublicKey};

use super::{Key, Sha, Store, key, maybe, number, secs, sha};
use crate::ids::{EventId, RunId};
use crate::obligation::{AckView, LedgerEntry, ObligationId, ObligationRow, State};
use crate::refusal::Fault;

pub(crate) fn obligation(row: &Row<'_>) -> rusqlite::Result<ObligationRow> {
    let needed = |column: &str| key(row, column)?.ok_or(rusqlite::Error::InvalidQuery);
    Ok(ObligationRow {
        id: row.get("id")?,
        thread: row.get("thread")?,
        run: row.get("run")?,
        ask: maybe(row, "ask")?.zip(row.get("item")?),
        event: row.get("event")?,
        message_id: row.get("message_id")?,
        request: sha(row, "request_digest")?.ok_or(rusqlite::Error::InvalidQuery)?,
        requester: needed("requester")?,
        author: needed("author")?,
        responsible: needed("responsible")?,
        requester_now: needed("requester_now")?,
        responsible_now: needed("responsible_now")?,
        dispatch: sha(row, "dispatch")?,
        schema_id: row.get("schema_id")?,
        schema: sha(row, "schema")?,
        deadline_at: maybe(row, "deadline_at")?,
        auto_expire: row.get::<_, i64>("auto_expire")? != 0,
        created_at: number(row, "created_at")?,
        state: row.get("state")?,
        reason: row.get("reason")?,
        revision: number(row, "revision")?,
        resume_to: row.get("resume_to")?,
        response_event: row.get("response_event")?,
        response: sha(row, "response_digest")?,
        closed_at: maybe(row, "closed_at")?,
    })
}

macro_rules! obligation_where {
    ($tail:literal) => {
        concat!(
            "SELECT o.*, e.message_id,
               coalesce((SELECT g.authority FROM delegate AS g WHERE g.delegate = o.requester), o.requester) AS requester_now,
               coalesce((SELECT g.authority FROM delegate AS g WHERE g.delegate = o.responsible), o.responsible) AS responsible_now
             FROM obligation AS o JOIN event AS e ON e.id = o.event ",
            $tail
        )
    };
}
pub(crate) use obligation_where;

/// The keys whose rights a party has: its own, and those that are recorded to act for it.
macro_rules! keys_of_party {
    () => {
        "(SELECT :party UNION ALL SELECT delegate FROM delegate WHERE authority = :party)"
    };
}
pub(crate) use keys_of_party;

/// What a move changes beside state and revision.
#[derive(Debug, Default)]
pub(crate) struct Moved<'a> {
    pub(crate) reason: &'a str,
    pub(crate) resume_to: Option<State>,
    pub(crate) response: Option<(&'a EventId, Digest)>,
}

impl Store {
    pub(crate) fn obligation(&self, id: &ObligationId) -> Result<Option<ObligationRow>, Fault> {
        // obligation
        self.find(obligation_where!("WHERE o.id = :id"), named_params! {":id": id}, obligation)
    }

    pub(crate) fn obligation_of_event(&self, event: &EventId) -> Result<Option<ObligationRow>, Fault> {
        // obligation of an event: it has one responsible party
        self.find(obligation_where!("WHERE o.event = :event"), named_params! {":event": event}, obligation)
    }

    /// The obligation that a message demanded or answered.
    pub(crate) fn obligation_of_message(&self, event: &EventId) -> Result<Option<ObligationRow>, Fault> {
        // obligation of a message
        self.find(
            obligation_where!("WHERE o.event = :event OR o.response_event = :event"),
            named_params! {":event": event},
            obligation,
        )
    }

    /// The open obligations that the run of a request is to answer.
    pub(crate) fn owed_by_run(&self, run: &RunId) -> Result<Vec<ObligationRow>, Fault> {
        // open obligations of a run
        self.all(
            obligation_where!("WHERE o.run = :run AND o.ask IS NULL AND o.closed_at IS NULL"),
            named_params! {":run": run},
            obligation,
        )
    }

    /// The open obligations that a pause of a run asks to be answered.
    pub(crate) fn owed_to_ask(&self, run: &RunId, ordinal: u64) -> Result<Vec<ObligationRow>, Fault> {
        // open obligations of an ask
        self.all(
            obligation_where!("WHERE o.run = :run AND o.ask = :ask AND o.closed_at IS NULL"),
            named_params! {":run": run, ":ask": ordinal as i64},
            obligation,
        )
    }

    /// What the pauses of a run asked to be answered, open or not.
    pub(crate) fn owed_to_asks(&self, run: &RunId) -> Result<Vec<ObligationRow>, Fault> {
        // obligations of the asks of a run
        self.all(obligation_where!("WHERE o.run = :run AND o.ask IS NOT NULL"), named_params! {":run": run}, obligation)
    }

    /// What a run was opened to answer: it has one request.
    pub(crate) fn obligation_of_run(&self, run: &RunId) -> Result<Option<ObligationRow>, Fault> {
        // obligation of a run
        self.find(obligation_where!("WHERE o.run = :run AND o.ask IS NULL"), named_params! {":run": run}, obligation)
    }

    pub(crate) fn insert_obligation(&self, row: &ObligationRow, now: Moment) -> Result<(), Fault> {
        // insert obligation
        self.change(
            "INSERT INTO obligation (id, thread, run, ask, item, event, request_digest, requester, author, responsible, dispatch,
               schema_id, schema, deadline_at, auto_expire, created_at, state, reason, revision, changed_at)
             VALUES (:id, :thread, :run, :ask, :item, :event, :request, :requester, :author, :responsible, :dispatch,
               :schema_id, :schema, :deadline_at, :auto_expire, :now, :state, :reason, :revision, :now)",
            named_params! {
                ":id": row.id, ":thread": row.thread, ":run": row.run,
                ":ask": row.ask.as_ref().map(|(ordinal, _)| *ordinal as i64),
                ":item": row.ask.as_ref().map(|(_, item)| item), ":event": row.event,
                ":request": Sha(row.request), ":requester": Key(row.requester), ":author": Key(row.author),
                ":responsible": Key(row.responsible), ":dispatch": row.dispatch.map(Sha),
                ":schema_id": row.schema_id, ":schema": row.schema.map(Sha),
                ":deadline_at": row.deadline_at.map(|at| i64::try_from(at).unwrap_or(i64::MAX)),
                ":auto_expire": row.auto_expire, ":now": secs(now), ":state": row.state, ":reason": row.reason,
                ":revision": row.revision as i64,
            },
        )?;
        Ok(())
    }

    /// False: it moved meanwhile.
    pub(crate) fn move_obligation(
        &self,
        row: &ObligationRow,
        to: State,
        moved: &Moved<'_>,
        now: Moment,
    ) -> Result<bool, Fault> {
        // move obligation: 0 rows means somebody moved it first
        Ok(self.change(
            "UPDATE obligation SET state = :to, reason = :reason, revision = revision + 1, changed_at = :now,
               resume_to = :resume_to, response_event = :response_event, response_digest = :response,
               closed_at = CASE WHEN :closes THEN :now END
             WHERE id = :id AND revision = :revision AND state = :from",
            named_params! {
                ":id": row.id, ":revision": row.revision as i64, ":from": row.state, ":to": to,
                ":reason": moved.reason, ":now": secs(now), ":resume_to": moved.resume_to,
                ":response_event": moved.response.map(|(event, _)| event),
                ":response": moved.response.map(|(_, digest)| Sha(digest)), ":closes": to.is_terminal(),
            },
        )? > 0)
    }

    pub(crate) fn insert_transition(&self, entry: &LedgerEntry) -> Result<(), Fault> {
        // insert transition
        self.change(
            "INSERT INTO transition (obligation, revision, from_state, to_state, signed, actor, effective, act, detail,
               effective_at, recorded_at, prev_digest, entry_digest)
             VALUES (:obligation, :revision, :from, :to, :signed, :actor, :effective, :act, :detail,
               :effective_at, :recorded_at, :prev, :digest)",
            named_params! {
                ":obligation": entry.obligation, ":revision": entry.revision as i64, ":from": entry.from,
                ":to": entry.to, ":signed": entry.signed, ":actor": Key(entry.actor),
                ":effective": Key(entry.effective), ":act": entry.act.map(Sha), ":detail": entry.detail,
                ":effective_at": i64::try_from(entry.effective_at).unwrap_or(i64::MAX),
                ":recorded_at": i64::try_from(entry.recorded_at).unwrap_or(i64::MAX),
                ":prev": Sha(entry.prev), ":digest": Sha(entry.digest()),
            },
        )?;
        Ok(())
    }

    pub(crate) fn transitions(&self, id: &ObligationId) -> Result<Vec<LedgerEntry>, Fault> {
        // transitions of an obligation
        self.all(
            "SELECT * FROM transition WHERE obligation = :id ORDER BY revision",
            named_params! {":id": id},
            |row| {
                let needed = |column: &str| key(row, column)?.ok_or(rusqlite::Error::InvalidQuery);
                Ok(LedgerEntry {
                    obligation: row.get("obligation")?,
                    revision: number(row, "revision")?,
                    from: row.get("from_state")?,
                    to: row.get("to_state")?,
                    signed: row.get::<_, i64>("signed")? != 0,
                    actor: needed("actor")?,
                    effective: needed("effective")?,
                    act: sha(row, "act")?,
                    detail: row.get("detail")?,
                    effective_at: number(row, "effective_at")?,
                    recorded_at: number(row, "recorded_at")?,
                    prev: sha(row, "prev_digest")?.ok_or(rusqlite::Error::InvalidQuery)?,
                })
            },
        )
    }

    /// The digest and the time of the newest entry.
    pub(crate) fn newest_transition(&self, id: &ObligationId) -> Result<Option<(Digest, u64)>, Fault> {
        // newest transition
        self.find(
            "SELECT entry_digest, recorded_at FROM transition WHERE obligation = :id ORDER BY revision DESC LIMIT 1",
            named_params! {":id": id},
            |row| Ok((row.get::<_, Sha>("entry_digest")?.0, number(row, "recorded_at")?)),
        )
    }

    pub(crate) fn insert_ack(
        &self,
        row: &ObligationRow,
        status: &str,
        reason: Option<&str>,
        now: Moment,
    ) -> Result<(), Fault> {
        // insert ack
        self.change(
            "INSERT INTO ack (obligation, message_id, status, agent, at, reason)
             VALUES (:id, :message, :status, :agent, :now, :reason)",
            named_params! {
                ":id": row.id, ":message": row.message_id, ":status": status, ":agent": Key(row.responsible),
                ":now": secs(now), ":reason": reason,
            },
        )?;
        Ok(())
    }

    /// The word of the responsible party on a message: status, reason, who, when.
    pub(crate) fn ack_of(&self, id: &ObligationId) -> Result<Option<AckView>, Fault> {
        // ack of an obligation
        self.find("SELECT * FROM ack WHERE obligation = :id", named_params! {":id": id}, |row| {
            Ok(AckView {
                obligation: row.get("obligation")?,
                message_id: row.get("message_id")?,
                status: row.get("status")?,
                agent: key(row, "agent")?.ok_or(rusqlite::Error::InvalidQuery)?,
                at: number(row, "at")?,
                reason: row.get("reason")?,
            })
        })
    }

    pub(crate) fn insert_schema(&self, text: &str, now: Moment) -> Result<Digest, Fault> {
        let digest = Digest::of(text.as_bytes());
        // insert response schema: the same text is the same schema
        self.change(
            "INSERT INTO response_schema (digest, text, library, created_at) VALUES (:digest, :text, :library, :now)
             ON CONFLICT DO NOTHING",
            named_params! {
                ":digest": Sha(digest), ":text": text, ":library": crate::schema::LIBRARY, ":now": secs(now),
            },
        )?;
        Ok(digest)
    }

    pub(crate) fn schema_text(&self, digest: Digest) -> Result<Option<String>, Fault> {
        // response schema
        self.find(
            "SELECT text FROM response_schema WHERE digest = :digest",
            named_params! {":digest": Sha(digest)},
            |row| row.get("text"),
        )
    }

    /// Overdue ones that this requester asked for, oldest first.
    pub(crate) fn overdue_of(
        &self,
        requester: PublicKey,
        now: Moment,
        limit: u64,
    ) -> Result<Vec<ObligationRow>, Fault> {
        // overdue obligations of a requester
        self.all(
            concat!(
                obligation_where!("WHERE o.requester IN "),
                keys_of_party!(),
                " AND o.closed_at IS NULL AND o.deadline_at <= :now ORDER BY o.created_at, o.id LIMIT :limit"
            ),
            named_params! {":party": Key(requester), ":now": secs(now), ":limit": limit as i64},
            obligation,
        )
    }

    /// Those that may expire by themselves and are due.
    pub(crate) fn expiring(&self, now: Moment, limit: u64) -> Result<Vec<ObligationRow>, Fault> {
        // expiring obligations
        self.all(
            obligation_where!(
                "WHERE o.closed_at IS NULL AND o.auto_expire = 1 AND o.deadline_at <= :now
                 ORDER BY o.deadline_at LIMIT :limit"
            ),
            named_params! {":now": secs(now), ":limit": limit as i64},
            obligation,
        )
    }

    /// Created ones of a party whose delivery shows that the recipient has them.
    pub(crate) fn committed_of(&self, party: PublicKey, limit: u64) -> Result<Vec<ObligationRow>, Fault> {
        // created obligations that are committed
        self.all(
            concat!(
                obligation_where!("JOIN delivery AS d ON d.event = o.event AND d.recipient = o.responsible "),
                "WHERE o.state = 'created' AND (o.requester IN ",
                keys_of_party!(),
                " OR o.responsible IN ",
                keys_of_party!(),
                ") AND d.rank >= 3 ORDER BY o.created_at, o.id LIMIT :limit"
            ),
            named_params! {":party": Key(party), ":limit": limit as i64},
            obligation,
        )
    }
}
