//! The typed response: the one thing that closes an obligation with an answer. It repeats the
//! exact binding, and it and the end of the obligation are one transaction.

use wikala_certs::{Deed, Moment};
use wikala_chain::Digest;

use super::deeds::{Entitled, Mover, Party, allowed, done};
use super::moves::Event;
use super::{DeliveryFact, Done, ObligationRow, Response};
use crate::Witness;
use crate::refusal::{Code, Fault, No, Refusal};
use crate::store::events::EventRow;
use crate::store::obligations::Moved;

impl Witness {
    /// Answers what is owed.
    ///
    /// # Errors
    /// In this order: certificate, `obligation-unavailable`, spent, fresh, role, binding, the
    /// answer before, state, schema.
    pub fn respond(&mut self, now: Moment, response: Response) -> Result<Done, No> {
        let Response { act, completed, payload, idempotency_key, thread, schema_id, checked } = response;
        let Entitled { row, right } = match self.entitled(now, act)? {
            Ok(entitled) => entitled,
            Err(done) => return Ok(done),
        };
        self.is_theirs(&row, &right, Party::Responsible)?;
        let digest = Digest::of(payload.as_bytes());
        let bound = matches!(right.deed(), Deed::Respond { event, request, response, .. }
            if event == row.event.as_str() && *request == row.request && *response == digest);
        if !bound || thread.is_some_and(|thread| thread != row.thread) {
            return Err(Refusal::new(
                Code::ResponseBindingMismatch,
                "response: names another event, request or thread than this obligation, repeat what it is bound to",
            )
            .into());
        }
        if let Some(before) = row.response {
            // The same answer again, signed again: the original counts.
            return if before == digest {
                Ok(done(&row, true))
            } else {
                Err(Refusal::stands(
                    Code::ResponseConflict,
                    format!("response: it is {} by another response, read it", row.state.as_str()),
                    row.state,
                    row.revision,
                )
                .into())
            };
        }
        let to = allowed(&row, Event::Responded { completed })?;
        self.is_not_asked_by_a_run(&row)?;
        self.fits_what_was_demanded(&row, completed, schema_id.as_deref(), checked)?;
        let late = row.deadline_at.is_some_and(|at| at <= now.as_secs());
        let id = self.mint.event(now);
        let event = EventRow {
            // Its own name: what a party calls its messages is the party's to choose.
            message_id: id.to_string(),
            id,
            thread: row.thread.clone(),
            run: Some(row.run.clone()),
            kind: "obligation_response".to_owned(),
            author: right.signer(),
            idempotency_key,
            payload,
            created_at: now.as_secs(),
        };
        if self.store.event_by_key(&row.thread, event.author, &event.idempotency_key)?.is_some() {
            return Err(Refusal::new(
                Code::IdempotencyConflict,
                "idempotency_key: names another message of yours here, choose a new one",
            )
            .into());
        }
        self.store.insert_event(&event)?;
        self.deliver(&event.id, row.requester, DeliveryFact::Queued, row.id.as_str(), now)?;
        let detail = if late { "responded_late" } else { "responded" };
        let mover = Mover {
            signed: true,
            actor: right.signer(),
            effective: right.authority(),
            act: Some(right.digest()),
            detail,
            effective_at: now.as_secs(),
        };
        let moved = Moved { reason: detail, response: Some((&event.id, digest)), ..Moved::default() };
        let after = self.move_to(now, row, to, &mover, &moved)?;
        self.spend_deed(now, &right, &after)?;
        Ok(done(&after, false))
    }

    /// The structured part against the schema that was stored with the request.
    fn fits_what_was_demanded(
        &self,
        row: &ObligationRow,
        completed: bool,
        schema_id: Option<&str>,
        checked: Option<(Digest, Result<(), crate::schema::Violation>)>,
    ) -> Result<(), No> {
        let (Some(id), Some(digest)) = (&row.schema_id, row.schema) else { return Ok(()) };
        // A failure may come without structured output; what comes must fit.
        if checked.is_none() && !completed && schema_id.is_none_or(|named| named == id) {
            return Ok(());
        }
        if schema_id != Some(id) {
            return Err(Refusal::new(
                Code::ResponseSchemaIdRequired,
                format!("response_schema_id: the request demands {id:?}, name it"),
            )
            .into());
        }
        match checked {
            Some((against, verdict)) if against == digest => verdict.map_err(|violation| {
                let code = match violation {
                    crate::schema::Violation::TooCostly => Code::ResponseTooCostly,
                    crate::schema::Violation::Mismatch(_) => Code::ResponseSchemaViolation,
                };
                Refusal::new(code, format!("structured_response: {violation}")).into()
            }),
            Some(_) => Err(Fault::Corrupt("schema").into()),
            None => Err(Refusal::new(
                Code::ResponseSchemaViolation,
                "structured_response: missing, the request demands one that fits its schema",
            )
            .into()),
        }
    }
}
