//! A request that demands an answer: its obligation is made in the transaction that takes
//! the request, or neither is.

use wikala_certs::{AuthoritySet, AuthorizedDeed, Deed, Moment};
use wikala_chain::{Digest, PublicKey};

use super::{DeliveryFact, Entitlement, LedgerEntry, ObligationId, ObligationRow, Owed, Owing, State};
use crate::Witness;
use crate::caller::Standing;
use crate::ids::{RunId, ThreadId};
use crate::refusal::{Code, Fault, No, Refusal};
use crate::store::events::EventRow;
use crate::store::threads::ThreadRow;

/// Who stands on which side of a demand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    /// Who signed the request.
    pub(super) author: PublicKey,
    /// Who asks, as its rights attach.
    pub(super) requester: PublicKey,
    /// Who is to answer, as its rights attach.
    pub(super) responsible: PublicKey,
    /// By which other name that may be called.
    pub(super) alias: PublicKey,
}

/// What a demand is made with.
pub(crate) struct Made<'a> {
    /// The thread it is made in.
    pub(crate) thread: &'a ThreadId,
    /// The run.
    pub(crate) run: &'a RunId,
    /// The pause of it, and the question.
    pub(crate) ask: Option<(u64, String)>,
    /// Our hop that sent the request to who is to answer.
    pub(crate) dispatch: Option<Digest>,
}

/// A demand whose right and terms are settled, before what it is made with is written.
pub(crate) struct Demand {
    sides: Sides,
    right: AuthorizedDeed,
    owing: Terms,
}

struct Terms {
    message_id: String,
    idempotency_key: String,
    payload: String,
    deadline_at: Option<u64>,
    schema: Option<super::DemandedSchema>,
    auto_expire: bool,
}

impl Owing {
    /// SHA-256 of the exact request.
    #[must_use]
    pub fn request(&self) -> Digest {
        Digest::of(self.payload.as_bytes())
    }
}

impl Witness {
    /// The same request before: by its key, or by its message's id.
    pub(crate) fn asked_before(
        &self,
        thread: &ThreadRow,
        author: Option<PublicKey>,
        owing: &Owing,
    ) -> Result<Option<(RunId, Owed)>, No> {
        let Some(author) = author.filter(|author| *author == owing.deed.signer()) else { return Ok(None) };
        let by_key = self.store.event_by_key(&thread.id, author, &owing.idempotency_key)?;
        let Some(event) = by_key else {
            return match self.store.event_by_message(&thread.id, author, &owing.message_id)? {
                None => Ok(None),
                Some(_) => Err(Refusal::new(
                    Code::MessageIdReused,
                    "messageId: an earlier request of yours here has it, send the same idempotency key or a new id",
                )
                .into()),
            };
        };
        if event.digest() != owing.request() {
            return Err(Refusal::new(
                Code::IdempotencyConflict,
                "idempotency_key: names other bytes here, choose a new key for a new request",
            )
            .into());
        }
        let row = self.store.obligation_of_event(&event.id)?.ok_or(Fault::Corrupt("obligation"))?;
        let run = event.run.ok_or(Fault::Corrupt("event.run"))?;
        Ok(Some((run, Owed { duplicate: true, ..owed(&row) })))
    }

    /// Who may demand what of whom. `thread` is there already: its id was signed.
    ///
    /// # Errors
    /// In this order: binding, author, spent, fresh, entitlement, parties, deadline.
    pub(crate) fn demand(
        &self,
        now: Moment,
        thread: Option<&ThreadRow>,
        who: &Standing,
        provider: PublicKey,
        owing: Owing,
    ) -> Result<Demand, No> {
        let unbound = || {
            Refusal::new(
                Code::ObligationRequiresBoundThread,
                "obligation: only a bound thread has somebody who may ask and somebody who owes, open one with POST /threads and send a chain",
            )
        };
        let thread = thread.ok_or_else(unbound)?;
        // Bound at birth, or with this very request.
        let head = if thread.birth.is_some() { thread.head } else { who.head };
        let head = head.ok_or_else(unbound)?;
        let author = who.presenter.ok_or_else(unbound)?;
        let requester = self.store.resolve(head)?;
        // A member, but on the other side: what it put in the head's name, the head never asked.
        let segment = who.head.map(|own| self.store.resolve(own)).transpose()?;
        if segment != Some(requester) {
            return Err(Refusal::new(
                Code::RequesterNotAuthor,
                format!(
                    "obligation: only {} and whom it handed on to demand here, a provider asks by a pause",
                    requester.fingerprint()
                ),
            )
            .into());
        }
        if self.store.resolve(author)? == self.store.resolve(provider)? {
            return Err(Refusal::new(
                Code::SelfObligation,
                "responsible: it would owe the answer to what it asks itself, nobody owes itself an answer",
            )
            .into());
        }
        self.settled(now, &thread.id, Sides { author, requester, responsible: provider, alias: provider }, owing)
    }

    /// The right and the terms of a demand between two parties.
    pub(super) fn settled(&self, now: Moment, thread: &ThreadId, sides: Sides, owing: Owing) -> Result<Demand, No> {
        let Sides { author, requester, responsible, alias } = sides;
        let named = matches!(owing.deed.deed(), Deed::Create { thread: signed, request }
            if signed == thread.as_str() && *request == owing.request());
        if !named || owing.deed.signer() != author {
            return Err(Refusal::new(
                Code::RequesterNotAuthor,
                format!(
                    "obligation: {} signed it for another request, thread or in another's name, {} is the author here",
                    owing.deed.signer().fingerprint(),
                    author.fingerprint()
                ),
            )
            .into());
        }
        let standing = owing.deed.stand(&AuthoritySet::of([author]), None).ok_or(Fault::Corrupt("author"))?;
        if self.store.spent_on_obligation(author, author, standing.signed().digest())?.is_some() {
            return Err(crate::ask::act_spent("create"));
        }
        let right = standing.fresh(now)?;
        self.entitled_to(Entitlement::Create, &[author, requester], thread)?;
        if owing.responsible.is_some_and(|key| key != responsible && key != alias) {
            return Err(Refusal::new(
                Code::ResponsibleNotRecipient,
                format!("responsible: the one recipient here is {}, name it or nobody", responsible.fingerprint()),
            )
            .into());
        }
        if self.store.resolve(requester)? == self.store.resolve(responsible)? {
            return Err(Refusal::new(
                Code::SelfObligation,
                "responsible: head and provider are one here, nobody owes itself an answer",
            )
            .into());
        }
        if owing.deadline_at.is_some_and(|at| at <= now.as_secs()) {
            return Err(
                Refusal::new(Code::DeadlineNotFuture, "deadline_at: not after now, send a later one or none").into()
            );
        }
        let Owing { message_id, idempotency_key, payload, deadline_at, schema, auto_expire, .. } = owing;
        let owing = Terms { message_id, idempotency_key, payload, deadline_at, schema, auto_expire };
        Ok(Demand { sides, right, owing })
    }

    /// Writes it all down, with the run or the pause it is made with.
    pub(crate) fn owe(&mut self, now: Moment, made: Made<'_>, demand: Demand) -> Result<Owed, No> {
        let Made { thread, run, ask, dispatch } = made;
        let Demand { sides: Sides { author, requester, responsible, .. }, right, owing } = demand;
        let event = EventRow {
            id: self.mint.event(now),
            thread: thread.clone(),
            run: Some(run.clone()),
            kind: if ask.is_some() { "ask" } else { "request" }.to_owned(),
            author,
            message_id: owing.message_id,
            idempotency_key: owing.idempotency_key,
            payload: owing.payload,
            created_at: now.as_secs(),
        };
        self.store.insert_event(&event)?;
        self.deliver(&event.id, responsible, DeliveryFact::Queued, run.as_str(), now)?;
        let schema = match &owing.schema {
            None => None,
            Some(demanded) => Some(self.store.insert_schema(&demanded.text, now)?),
        };
        let row = ObligationRow {
            id: ObligationId::of(event.id.as_str(), &responsible),
            thread: thread.clone(),
            run: run.clone(),
            ask,
            request: event.digest(),
            message_id: event.message_id,
            event: event.id,
            requester,
            author,
            responsible,
            requester_now: self.store.resolve(requester)?,
            responsible_now: self.store.resolve(responsible)?,
            dispatch,
            schema_id: owing.schema.map(|demanded| demanded.id),
            schema,
            deadline_at: owing.deadline_at,
            auto_expire: owing.auto_expire,
            created_at: now.as_secs(),
            state: State::Created,
            reason: "asked".to_owned(),
            revision: 1,
            resume_to: None,
            response_event: None,
            response: None,
            closed_at: None,
        };
        self.store.insert_obligation(&row, now)?;
        self.store.insert_transition(&LedgerEntry {
            obligation: row.id.clone(),
            revision: 1,
            from: None,
            to: State::Created,
            signed: true,
            actor: author,
            effective: requester,
            act: Some(right.digest()),
            detail: row.reason.clone(),
            effective_at: now.as_secs(),
            recorded_at: now.as_secs(),
            prev: Digest::ZERO,
        })?;
        self.spend_deed(now, &right, &row)?;
        self.wake([row.requester_now, row.responsible_now]);
        Ok(owed(&row))
    }

    /// Spends a deed on what it did: the row as it is after it.
    pub(crate) fn spend_deed(&self, now: Moment, right: &AuthorizedDeed, row: &ObligationRow) -> Result<(), No> {
        if !self.store.spend_on_obligation(right, row, now)? {
            return Err(crate::ask::act_spent(right.deed().name()));
        }
        Ok(())
    }
}

pub(crate) fn owed(row: &ObligationRow) -> Owed {
    Owed {
        id: row.id.clone(),
        event: row.event.clone(),
        request: row.request,
        state: row.state,
        revision: row.revision,
        duplicate: false,
    }
}
