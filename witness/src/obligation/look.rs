//! What a party may read of its obligations: one of them whole, a list, six counters. Reads
//! change nothing; what is overdue is so by the clock, whether anybody reconciled or not.

use rusqlite::named_params;
use wikala_certs::Moment;
use wikala_chain::{Digest, PublicKey};

use super::deeds::unavailable;
use super::{DeliveryFact, LedgerEntry, ObligationId, ObligationRow, State};
use crate::ids::{EventId, RunId, ThreadId};
use crate::read::Reader;
use crate::refusal::{Fault, No};
use crate::store::events::envelope;
use crate::store::obligations::{keys_of_party, obligation, obligation_where};
use crate::store::{Key, Store, number, secs};

/// Which side of an obligation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Who asked.
    Requester,
    /// Who owes.
    Responsible,
    /// Either.
    Any,
}

/// Which obligations to list.
#[derive(Debug, Clone)]
pub struct ListFilter {
    /// On which side.
    pub role: Role,
    /// In these states; all if empty.
    pub states: Vec<State>,
    /// At most so many, 1 to 1000.
    pub limit: u64,
    /// After this one.
    pub after: Option<ObligationId>,
}

/// An obligation as a party sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // each name is the column's
pub struct ObligationView {
    pub id: ObligationId,
    pub thread: ThreadId,
    pub run: RunId,
    /// The pause of the run and the question that ask for it.
    pub ask: Option<(u64, String)>,
    pub event: EventId,
    pub message_id: String,
    pub request: Digest,
    pub envelope: Digest,
    pub requester: PublicKey,
    pub author: PublicKey,
    pub responsible: PublicKey,
    pub dispatch: Option<Digest>,
    pub schema_id: Option<String>,
    pub schema_digest: Option<Digest>,
    /// The schema's canonical text.
    pub schema: Option<String>,
    pub deadline_at: Option<u64>,
    pub auto_expire: bool,
    pub created_at: u64,
    pub state: State,
    pub reason: String,
    pub revision: u64,
    pub closed_at: Option<u64>,
    /// The exact request and response, canonical JSON.
    pub payload: String,
    pub response: Option<String>,
    pub response_event: Option<EventId>,
    /// What its recipient acknowledges custody of.
    pub response_envelope: Option<Digest>,
    pub history: Vec<LedgerEntry>,
    /// What is known of its delivery to the responsible party: fact, evidence, when.
    pub delivery: Vec<(String, String, u64)>,
}

/// The ack of a message, an artifact of its own: the message is never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // each name is the column's
pub struct AckView {
    pub obligation: ObligationId,
    pub message_id: String,
    /// `ACCEPTED` or `DECLINED`.
    pub status: String,
    pub agent: PublicKey,
    /// Unix seconds.
    pub at: u64,
    pub reason: Option<String>,
}

/// Counts without content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)] // each name is the counter's
pub struct Inbox {
    pub unread_information: u64,
    pub action_required: u64,
    pub awaiting_peer: u64,
    pub awaiting_human: u64,
    pub overdue: u64,
    pub failed: u64,
}

impl Reader {
    /// An obligation with its whole history, for a party.
    ///
    /// # Errors
    /// `obligation-unavailable`, for a stranger and for what is not there alike.
    pub fn obligation(&self, id: &ObligationId, party: PublicKey) -> Result<ObligationView, No> {
        let row = self.store.obligation(id)?.ok_or_else(unavailable)?;
        if party != row.requester_now && party != row.responsible_now {
            return Err(unavailable());
        }
        self.whole(row)
    }

    /// The ack of a message that demanded an answer, for a party. `None`: nobody owns it yet, or
    /// it ended without that.
    ///
    /// # Errors
    /// `obligation-unavailable`, for a stranger and for what is not there alike.
    pub fn ack(&self, event: &EventId, party: PublicKey) -> Result<Option<AckView>, No> {
        let row = self.store.obligation_of_event(event)?.ok_or_else(unavailable)?;
        if party != row.requester_now && party != row.responsible_now {
            return Err(unavailable());
        }
        Ok(self.store.ack_of(&row.id)?)
    }

    /// The schema that a response must fit: its digest and its text. Whoever asks: nothing of
    /// it is told before the act that answers was found to be a party's.
    ///
    /// # Errors
    /// A fault of the record.
    pub fn demanded_schema(&self, id: &ObligationId) -> Result<Option<(Digest, String)>, No> {
        let Some(digest) = self.store.obligation(id)?.and_then(|row| row.schema) else { return Ok(None) };
        let text = self.store.schema_text(digest)?.ok_or(Fault::Corrupt("response_schema"))?;
        // Checked again: a schema that changed since is not the one that was agreed on.
        if Digest::of(text.as_bytes()) != digest {
            return Err(Fault::Corrupt("response_schema.digest").into());
        }
        Ok(Some((digest, text)))
    }

    /// The message that answered an obligation.
    ///
    /// # Errors
    /// A fault of the record.
    pub fn response_event(&self, id: &ObligationId) -> Result<Option<EventId>, No> {
        Ok(self.store.obligation(id)?.and_then(|row| row.response_event))
    }

    /// The digest of a message's bytes as this connection reads them.
    ///
    /// # Errors
    /// A fault of the record.
    pub fn event_bytes_digest(&self, id: &EventId) -> Result<Option<Digest>, No> {
        Ok(self.store.event(id)?.map(|event| event.digest()))
    }

    /// The obligations of a party, oldest first. What a list does not show is not read: payload,
    /// response, schema, history and delivery are empty here.
    ///
    /// # Errors
    /// `obligation-unavailable` for an `after` that is not the party's.
    pub fn obligations(&self, party: PublicKey, filter: &ListFilter) -> Result<Vec<ObligationView>, No> {
        let after = match &filter.after {
            None => (0, String::new()),
            Some(id) => {
                let row = self.store.obligation(id)?.ok_or_else(unavailable)?;
                if party != row.requester_now && party != row.responsible_now {
                    return Err(unavailable());
                }
                (row.created_at, row.id.as_str().to_owned())
            }
        };
        let role = |wanted: Role| filter.role == wanted || filter.role == Role::Any;
        let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
        // obligations of a party, a page
        let rows = self.store.all(
            concat!(
                obligation_where!("WHERE ((:asks AND o.requester IN "),
                keys_of_party!(),
                ") OR (:owes AND o.responsible IN ",
                keys_of_party!(),
                "))
                   AND (:states = '[]' OR o.state IN (SELECT value FROM json_each(:states)))
                   AND (o.created_at, o.id) > (:at, :id)
                 ORDER BY o.created_at, o.id LIMIT :limit"
            ),
            named_params! {
                ":party": Key(party), ":asks": role(Role::Requester), ":owes": role(Role::Responsible),
                ":states": serde_json::json!(states).to_string(),
                ":at": i64::try_from(after.0).unwrap_or(i64::MAX), ":id": after.1, ":limit": filter.limit as i64,
            },
            obligation,
        )?;
        rows.into_iter().map(|row| self.listed_row(row)).collect()
    }

    /// Which of these messages a party is a recipient of and has not read yet.
    ///
    /// # Errors
    /// A fault of the record.
    pub fn unread(&self, party: PublicKey, events: &[EventId]) -> Result<Vec<EventId>, No> {
        let mut unread = Vec::new();
        for event in events {
            let ranks = self.store.deliveries_to(event, party)?;
            if ranks.iter().any(|(_, rank)| *rank < DeliveryFact::Read as u64) {
                unread.push(event.clone());
            }
        }
        Ok(unread)
    }

    /// The six counters of a party, as of `now`.
    ///
    /// # Errors
    /// A fault of the record.
    pub fn inbox(&self, now: Moment, party: PublicKey) -> Result<Inbox, No> {
        Ok(self.store.inbox(now, party)?)
    }

    fn whole(&self, row: ObligationRow) -> Result<ObligationView, No> {
        let event = self.store.event(&row.event)?.ok_or(Fault::Corrupt("obligation.event"))?;
        let response = match &row.response_event {
            None => None,
            Some(id) => Some(self.store.event(id)?.ok_or(Fault::Corrupt("obligation.response_event"))?.payload),
        };
        let schema = match row.schema {
            None => None,
            Some(digest) => self.store.schema_text(digest)?,
        };
        let facts = self.store.facts(&row.event)?.into_iter();
        let facts = facts.filter(|fact| fact.recipient == row.responsible);
        Ok(ObligationView {
            history: self.store.transitions(&row.id)?,
            delivery: facts.map(|fact| (fact.fact, fact.evidence, fact.at)).collect(),
            schema,
            payload: event.payload,
            response,
            ..self.listed_row(row)?
        })
    }

    /// What a list shows, without a byte of content.
    fn listed_row(&self, row: ObligationRow) -> Result<ObligationView, No> {
        let response_envelope = match (&row.response_event, row.response) {
            (Some(id), Some(digest)) => {
                let author = self.store.event_author(id)?.ok_or(Fault::Corrupt("obligation.response_event"))?;
                Some(envelope(id, &row.thread, author, digest))
            }
            _ => None,
        };
        Ok(ObligationView {
            history: Vec::new(),
            delivery: Vec::new(),
            schema: None,
            payload: String::new(),
            response: None,
            envelope: envelope(&row.event, &row.thread, row.author, row.request),
            id: row.id,
            thread: row.thread,
            run: row.run,
            ask: row.ask,
            event: row.event,
            message_id: row.message_id,
            request: row.request,
            requester: row.requester,
            author: row.author,
            responsible: row.responsible,
            dispatch: row.dispatch,
            schema_id: row.schema_id,
            schema_digest: row.schema,
            deadline_at: row.deadline_at,
            auto_expire: row.auto_expire,
            created_at: row.created_at,
            state: row.state,
            reason: row.reason,
            revision: row.revision,
            closed_at: row.closed_at,
            response_envelope,
            response_event: row.response_event,
        })
    }
}

impl Store {
    /// Each counter by one index, whatever else there is.
    fn inbox(&self, now: Moment, party: PublicKey) -> Result<Inbox, Fault> {
        // inbox
        self.one(
            concat!(
                "WITH party (key) AS ",
                keys_of_party!(),
                " SELECT
               (SELECT count(*) FROM delivery AS d WHERE d.recipient IN party AND d.rank < 4 AND NOT EXISTS
                 (SELECT 1 FROM obligation AS o WHERE o.event = d.event AND o.responsible IN party)) AS unread,
               (SELECT count(*) FROM obligation WHERE responsible IN party AND state IN
                 ('created', 'recipient_committed', 'acknowledged', 'in_progress', 'blocked')) AS action,
               (SELECT count(*) FROM obligation WHERE requester IN party AND state IN
                 ('created', 'recipient_committed', 'acknowledged', 'in_progress', 'blocked')) AS peer,
               (SELECT count(*) FROM obligation WHERE responsible IN party AND state = 'pending_human')
                 + (SELECT count(*) FROM obligation WHERE requester IN party AND state = 'pending_human') AS human,
               (SELECT count(*) FROM obligation WHERE responsible IN party AND closed_at IS NULL AND deadline_at <= :now)
                 + (SELECT count(*) FROM obligation WHERE requester IN party AND closed_at IS NULL AND deadline_at <= :now)
                 AS overdue,
               (SELECT count(*) FROM obligation WHERE requester IN party AND state = 'failed') AS failed"
            ),
            named_params! {":party": Key(party), ":now": secs(now)},
            |row| {
                Ok(Inbox {
                    unread_information: number(row, "unread")?,
                    action_required: number(row, "action")?,
                    awaiting_peer: number(row, "peer")?,
                    awaiting_human: number(row, "human")?,
                    overdue: number(row, "overdue")?,
                    failed: number(row, "failed")?,
                })
            },
        )
    }
}
