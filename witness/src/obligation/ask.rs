//! The other way round: a provider stops to ask, and its head owes the answer. The question
//! is still the run's: who answers the run answers what is owed, in one transaction.

use wikala_certs::Moment;
use wikala_chain::{Digest, PublicKey};

use super::deeds::Mover;
use super::moves::{Event, next};
use super::owe::{Made, Sides};
use super::{DeliveryFact, Entitlement, ObligationRow, Owed, Owing, response};
use crate::Witness;
use crate::ids::RunId;
use crate::model::{NotOwed, ReplyItem};
use crate::refusal::{Code, No, Refusal};
use crate::schema;
use crate::store::events::EventRow;
use crate::store::obligations::Moved;
use crate::store::runs::RunRow;
use crate::store::threads::ThreadRow;

/// Who answered a pause, by which act.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredBy {
    pub(crate) signer: PublicKey,
    pub(crate) authority: PublicKey,
    /// SHA-256 of the signed bytes.
    pub(crate) act: Digest,
}

impl Witness {
    /// A question that is asked with a demand. What cannot be owed is asked all the same:
    /// a run does not fail for what its provider wanted beside it.
    pub(crate) fn owe_to_ask(
        &mut self,
        now: Moment,
        run: &RunRow,
        thread: &ThreadRow,
        ask: (u64, String),
        owing: Result<Box<Owing>, NotOwed>,
    ) -> Result<Option<NotOwed>, No> {
        let made = owing.map(|owing| self.owe_asked(now, run, thread, ask, *owing));
        match made {
            Ok(Ok(_)) => Ok(None),
            Ok(Err(No::Refusal(no))) => Ok(Some(NotOwed { code: no.code.as_str().to_owned(), message: no.sentence })),
            Ok(Err(fault)) => Err(fault),
            Err(not_owed) => Ok(Some(not_owed)),
        }
    }

    /// Writes nothing unless it writes all of it.
    fn owe_asked(
        &mut self,
        now: Moment,
        run: &RunRow,
        thread: &ThreadRow,
        ask: (u64, String),
        owing: Owing,
    ) -> Result<Owed, No> {
        let (Some(head), Some(agent)) = (thread.head, self.store.agent_row(thread.agent)?) else {
            return Err(Refusal::new(
                Code::ObligationRequiresBoundThread,
                "obligation: the thread has no head who could owe an answer, ask without it",
            )
            .into());
        };
        let provider = agent.id.provider;
        let responsible = self.store.resolve(head)?;
        let sides = Sides { author: provider, requester: provider, responsible, alias: head };
        let before = self.store.event_by_key(&thread.id, provider, &owing.idempotency_key)?;
        if before.is_some() || self.store.event_by_message(&thread.id, provider, &owing.message_id)?.is_some() {
            return Err(Refusal::new(
                Code::MessageIdReused,
                "obligation: a message of yours here has this id or idempotency key, send new ones",
            )
            .into());
        }
        let demand = self.settled(now, &thread.id, sides, owing)?;
        self.owe(now, Made { thread: &thread.id, run: &run.id, ask: Some(ask), dispatch: None }, demand)
    }

    /// What an answer must fit beside the question's own schema: the one that was stored with
    /// the demand.
    pub(crate) fn fits_what_is_owed(&self, run: &RunId, ordinal: u64, items: &[ReplyItem]) -> Result<(), No> {
        for row in self.store.owed_to_ask(run, ordinal)? {
            let (Some(item), Some(digest)) = (answer_to(&row, items), row.schema) else { continue };
            let text = self.store.schema_text(digest)?.ok_or(crate::Fault::Corrupt("response_schema"))?;
            let schema = schema::gate(&text).map_err(|_| crate::Fault::Corrupt("response_schema"))?;
            if let (false, Err(violation)) = (item.abandoned, schema.check(item.payload.as_deref().unwrap_or("null"))) {
                return Err(Refusal::new(Code::AnswerSchema, format!("answer: to {:?} {violation}", item.id)).into());
            }
        }
        Ok(())
    }

    /// The answer of a pause is the typed response to what was owed by it. The provider's own
    /// answer takes its question back.
    pub(crate) fn answer_what_is_owed(
        &mut self,
        now: Moment,
        run: &RunRow,
        ordinal: u64,
        items: &[ReplyItem],
        by: AnsweredBy,
    ) -> Result<(), No> {
        for row in self.store.owed_to_ask(&run.id, ordinal)? {
            let Some(item) = answer_to(&row, items) else { continue };
            self.entitled_to(Entitlement::Respond, &[by.signer, by.authority], &row.thread)?;
            let detail = match (by.authority == row.responsible_now, item.abandoned) {
                (false, _) => "answered_by_requester",
                (true, true) => "abandoned",
                (true, false) => "answered",
            };
            let mover = Mover {
                signed: true,
                actor: by.signer,
                effective: by.authority,
                act: Some(by.act),
                detail,
                effective_at: now.as_secs(),
            };
            if by.authority != row.responsible_now {
                let to = super::deeds::allowed(&row, Event::Withdrawn)?;
                self.move_to(now, row, to, &mover, &Moved { reason: detail, ..Moved::default() })?;
                continue;
            }
            let completed = !item.abandoned;
            let to = super::deeds::allowed(&row, Event::Responded { completed })?;
            let said = response::Said {
                obligation: &row.id,
                event: row.event.as_str(),
                request: row.request,
                completed,
                body: "",
                schema_id: row.schema_id.as_deref(),
                structured: item.payload.as_deref().filter(|_| completed),
            };
            let payload = said.payload().map_err(|_| {
                let sentence = format!("answer: to {:?} holds a number no two readers share, send it as text", item.id);
                Refusal::new(Code::AnswerSchema, sentence)
            })?;
            let id = self.mint.event(now);
            let event = EventRow {
                // Its own name: what a party calls its messages is the party's to choose.
                message_id: id.to_string(),
                idempotency_key: id.to_string(),
                id,
                thread: row.thread.clone(),
                run: Some(row.run.clone()),
                kind: "obligation_response".to_owned(),
                author: by.signer,
                payload,
                created_at: now.as_secs(),
            };
            let digest = event.digest();
            self.store.insert_event(&event)?;
            self.deliver(&event.id, row.requester, DeliveryFact::Queued, run.id.as_str(), now)?;
            let moved = Moved { reason: detail, response: Some((&event.id, digest)), ..Moved::default() };
            self.move_to(now, row, to, &mover, &moved)?;
        }
        Ok(())
    }

    /// The provider went on without an answer: it takes its questions back.
    pub(crate) fn withdraw_what_is_owed(&mut self, now: Moment, run: &RunId, ordinal: u64) -> Result<(), No> {
        for row in self.store.owed_to_ask(run, ordinal)? {
            if next(row.state, Event::Withdrawn).is_ok() {
                self.derive(now, row, Event::Withdrawn, "provider_went_on", None)?;
            }
        }
        Ok(())
    }

    /// While its question is open an answer goes to the run, which could not go on otherwise.
    pub(super) fn is_not_asked_by_a_run(&self, row: &ObligationRow) -> Result<(), No> {
        let Some((ordinal, item)) = &row.ask else { return Ok(()) };
        let open = self.store.newest_ask(&row.run)?.filter(|ask| ask.ordinal == *ordinal && ask.closed_at.is_none());
        match open {
            None => Ok(()),
            Some(_) => Err(Refusal::new(
                Code::AnswerTheRun,
                format!("response: {} waits for it, answer {item:?} with POST /v1/runs/{{id}}/answer", row.run),
            )
            .into()),
        }
    }
}

fn answer_to<'a>(row: &ObligationRow, items: &'a [ReplyItem]) -> Option<&'a ReplyItem> {
    let (_, asked) = row.ask.as_ref()?;
    items.iter().find(|item| item.id == *asked)
}
