//! What is known of a request's delivery, and the two moves that follow from facts alone:
//! the recipient's side has it, the deadline passed. A pause of the run is the third.

use wikala_certs::{AuthoritySet, Deed, Moment, SignedDeed};
use wikala_chain::{Digest, PublicKey};

use super::deeds::{Mover, unavailable};
use super::moves::{Event, State, next};
use super::{DeliveryFact, ObligationId, ObligationRow};
use crate::Witness;
use crate::ids::{EventId, RunId};
use crate::model::{Consented, Effect};
use crate::refusal::{Code, Fault, No, Refusal};
use crate::store::obligations::Moved;

/// How many obligations one look at the clock expires.
const EXPIRE_AT_ONCE: u64 = 100;

/// What a reconciliation moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Those whose recipient has them.
    pub committed: Vec<ObligationId>,
    /// Those whose deadline passed.
    pub expired: Vec<ObligationId>,
}

/// A recipient's word that it stores a message.
#[derive(Debug)]
pub struct MailboxAck {
    /// The message.
    pub event: EventId,
    /// `wikala-mailbox-ack`, verified for it.
    pub deed: SignedDeed,
    /// A certificate beside it.
    pub certificate: Option<Consented>,
}

impl Witness {
    /// Something that the counters of these parties count has changed.
    pub(crate) fn wake(&mut self, parties: impl IntoIterator<Item = PublicKey>) {
        self.outbox.extend(parties.into_iter().map(|party| Effect::Wake { party }));
    }

    /// A message is so far on its way to a recipient.
    pub(crate) fn deliver(
        &mut self,
        event: &EventId,
        recipient: PublicKey,
        fact: DeliveryFact,
        evidence: &str,
        now: Moment,
    ) -> Result<(), No> {
        self.store.deliver(event, recipient, fact, evidence, now)?;
        let party = self.store.resolve(recipient)?;
        self.wake([party]);
        Ok(())
    }

    /// What became of a run says something about the messages it carries.
    pub(crate) fn run_fact(&mut self, now: Moment, run: &RunId, fact: DeliveryFact, evidence: &str) -> Result<(), No> {
        for (event, recipient) in self.store.deliveries_of_run(run)? {
            self.deliver(&event, recipient, fact, evidence, now)?;
        }
        Ok(())
    }

    /// A run could not be handed over.
    pub(crate) fn run_blocked(&mut self, now: Moment, run: &RunId, evidence: &str) -> Result<(), No> {
        for (event, recipient) in self.store.deliveries_of_run(run)? {
            self.store.block_delivery(&event, recipient, evidence, now)?;
        }
        Ok(())
    }

    /// The message was read back from the record by another connection, and is the same.
    ///
    /// # Errors
    /// Only faults.
    pub fn read_back(&mut self, now: Moment, event: &EventId, seen: Digest) -> Result<bool, No> {
        if self.store.event_digest(event)? != Some(seen) {
            return Ok(false);
        }
        if let Some(row) = self.store.obligation_of_message(event)? {
            let recipient = if row.event == *event { row.responsible } else { row.requester };
            self.deliver(event, recipient, DeliveryFact::Delivered, &seen.to_hex(), now)?;
        }
        Ok(true)
    }

    /// A recipient says that a message is stored with it. Custody, and no word on what it
    /// asks: the obligation does not move. The same word again changes nothing.
    ///
    /// # Errors
    /// Certificate, `obligation-unavailable`, fresh, `exact-responsible-required`,
    /// `envelope-digest-mismatch`.
    pub fn acknowledge(&mut self, now: Moment, ack: MailboxAck) -> Result<(), No> {
        let acting = self.acting_for(now, Some(ack.deed.signer()), ack.certificate.as_ref(), None)?;
        let event = self.store.event(&ack.event)?.ok_or_else(unavailable)?;
        let row = self.store.obligation_of_message(&event.id)?.ok_or(Fault::Corrupt("event.obligation"))?;
        // Each message has one recipient: whoever of the two did not write it.
        let answers = row.event != event.id;
        let (recipient, party) = match answers {
            true => (row.requester, row.requester_now),
            false => (row.responsible, row.responsible_now),
        };
        let standing = ack.deed.stand(&AuthoritySet::of([party]), acting.as_ref()).ok_or_else(unavailable)?;
        let (authority, signed) = (standing.authority(), standing.signed());
        if self.store.spent_on_obligation(authority, signed.signer(), signed.digest())?.is_some() {
            return Ok(());
        }
        let right = standing.fresh(now)?;
        // What was sent to a provider is stored by that key, and by no session of it.
        let to_provider = answers == row.ask.is_some();
        if to_provider && right.signer() != recipient {
            return Err(Refusal::new(
                Code::ExactResponsibleRequired,
                format!("ack: only {} may, with its own key", recipient.fingerprint()),
            )
            .into());
        }
        let envelope = event.envelope();
        if !matches!(right.deed(), Deed::MailboxAck { envelope: signed, .. } if *signed == envelope) {
            return Err(Refusal::new(
                Code::EnvelopeDigestMismatch,
                "envelope_digest: not that of this message, read the obligation for it",
            )
            .into());
        }
        self.deliver(&event.id, recipient, DeliveryFact::Committed, &right.digest().to_hex(), now)?;
        self.spend_deed(now, &right, &row)
    }

    /// A recipient's own signed read returned these messages. That it read them is no word on
    /// what they ask: nothing moves, and what is to be done is still counted.
    ///
    /// # Errors
    /// Only faults.
    pub fn polled(&mut self, now: Moment, party: PublicKey, events: &[EventId]) -> Result<(), No> {
        for event in events {
            for (recipient, _) in self.store.deliveries_to(event, party)? {
                self.deliver(event, recipient, DeliveryFact::Read, "returned to a signed read", now)?;
            }
        }
        Ok(())
    }

    /// Catches a party's obligations up with what is on record: those whose delivery proves
    /// custody, and its own requests whose deadline passed. Idempotent; the responsible party
    /// expires nothing by it.
    ///
    /// # Errors
    /// Only faults.
    pub fn reconcile(&mut self, now: Moment, party: PublicKey, limit: u64) -> Result<Reconciled, No> {
        let mut moved = Reconciled::default();
        for row in self.store.committed_of(party, limit)? {
            if let Some(after) = self.derive(now, row, Event::Committed, "delivery_committed", None)? {
                moved.committed.push(after.id);
            }
        }
        for row in self.store.overdue_of(party, now, limit)? {
            if let Some(after) = self.derive(now, row, Event::Overdue, "deadline_passed", None)? {
                moved.expired.push(after.id);
            }
        }
        Ok(moved)
    }

    /// Expires what its requester let expire by itself.
    pub(crate) fn expire_due(&mut self, now: Moment) -> Result<(), No> {
        for row in self.store.expiring(now, EXPIRE_AT_ONCE)? {
            self.derive(now, row, Event::Overdue, "deadline_passed", None)?;
        }
        Ok(())
    }

    /// The run of an obligation that somebody owns stopped to ask.
    pub(crate) fn run_paused(&mut self, now: Moment, run: &RunId) -> Result<(), No> {
        for row in self.store.owed_by_run(run)? {
            let from = row.state;
            self.derive(now, row, Event::Paused, "run_paused", Some(from))?;
        }
        Ok(())
    }

    /// That pause is over: back to where it stood, if the pause put it there.
    pub(crate) fn run_resumed(&mut self, now: Moment, run: &RunId) -> Result<(), No> {
        for row in self.store.owed_by_run(run)? {
            if let Some(to) = row.resume_to {
                self.derive(now, row, Event::Resumed(to), "run_resumed", None)?;
            }
        }
        Ok(())
    }

    /// A move the witness derives from what it saw, where the table has one.
    pub(super) fn derive(
        &mut self,
        now: Moment,
        row: ObligationRow,
        event: Event,
        detail: &str,
        resume_to: Option<State>,
    ) -> Result<Option<ObligationRow>, No> {
        let Ok(to) = next(row.state, event) else { return Ok(None) };
        if row.revision >= super::deeds::MOVES && !to.is_terminal() {
            return Ok(None);
        }
        let us = self.key.public();
        let effective_at = match (event, row.deadline_at) {
            // When it happened, not when it was noticed.
            (Event::Overdue, Some(at)) => at,
            _ => now.as_secs(),
        };
        let mover = Mover { signed: false, actor: us, effective: us, act: None, detail, effective_at };
        let moved = Moved { reason: detail, resume_to, ..Moved::default() };
        self.move_to(now, row, to, &mover, &moved).map(Some)
    }
}
