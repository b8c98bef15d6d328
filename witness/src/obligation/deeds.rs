//! Acts on an obligation. One order for all: who signed, is it a party, was this act done
//! before, is it fresh, is it this party's to do, is the revision the one it saw, may the
//! state follow. What is not a party's is told as what never was, byte for byte.

use wikala_certs::{AuthoritySet, AuthorizedDeed, Deed, Moment, SignedDeed, StandingDeed};
use wikala_chain::{Digest, PublicKey};

use super::moves::{self, Event, State};
use super::{Act, Done, Entitlement, LedgerEntry, ObligationId, ObligationRow};
use crate::Witness;
use crate::model::Consented;
use crate::refusal::{Code, Fault, No, Refusal};
use crate::store::obligations::Moved;

/// After so many moves an obligation can only end: whoever owns it must not make its history
/// too long to read for the other.
pub(super) const MOVES: u64 = 1000;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Party {
    Requester,
    Responsible,
}

/// A party's act, fresh, not yet known to be that party's to do.
pub(super) struct Entitled {
    pub(super) row: ObligationRow,
    pub(super) right: AuthorizedDeed,
}

/// Who moves an obligation, and how it counts.
pub(super) struct Mover<'a> {
    pub(super) signed: bool,
    pub(super) actor: PublicKey,
    pub(super) effective: PublicKey,
    pub(super) act: Option<Digest>,
    pub(super) detail: &'a str,
    pub(super) effective_at: u64,
}

impl Witness {
    /// Accept, decline, progress or cancel, as the deed says.
    ///
    /// # Errors
    /// In this order: certificate, `obligation-unavailable`, spent, fresh, role, entitlement, fence, state.
    pub fn act_on_obligation(&mut self, now: Moment, act: Act) -> Result<Done, No> {
        let entitled = match self.entitled(now, act)? {
            Ok(entitled) => entitled,
            Err(done) => return Ok(done),
        };
        let Entitled { row, right } = entitled;
        let (revision, event, detail, by) = match right.deed() {
            Deed::Accept { revision, .. } => (*revision, Event::Accepted, "accepted", Party::Responsible),
            Deed::Decline { revision, reason, .. } => (*revision, Event::Declined, reason.as_str(), Party::Responsible),
            Deed::Progress { revision, to, reason, .. } => {
                let to = State::parse(to).ok_or_else(|| {
                    Refusal::new(Code::StateNotAssertable, format!("to_state: {to:?} is none of the states"))
                })?;
                (*revision, Event::Progressed(to), reason.as_str(), Party::Responsible)
            }
            Deed::Cancel { revision, reason, .. } => (*revision, Event::Withdrawn, reason.as_str(), Party::Requester),
            Deed::Create { .. } | Deed::Respond { .. } | Deed::MailboxAck { .. } => {
                return Err(Fault::Corrupt("deed").into());
            }
        };
        self.is_theirs(&row, &right, by)?;
        if revision != row.revision {
            return Err(Refusal::stands(
                Code::RevisionConflict,
                format!(
                    "{}: signed for revision {revision}, it is {} at revision {}, read it and sign again",
                    right.deed().name(),
                    row.state.as_str(),
                    row.revision
                ),
                row.state,
                row.revision,
            )
            .into());
        }
        let to = allowed(&row, event)?;
        if matches!(event, Event::Progressed(_)) && row.revision >= MOVES {
            return Err(Refusal::stands(
                Code::IllegalTransition,
                format!("obligation: moved {MOVES} times, it can only end now, answer it"),
                row.state,
                row.revision,
            )
            .into());
        }
        if to == State::RecipientCommitted && self.store.delivery_rank(&row.event, row.responsible)? < Some(3) {
            return Err(Refusal::new(
                Code::DeliveryFactMissing,
                "to_state: recipient_committed follows the delivery, acknowledge the message first (POST /v1/mailbox/ack)",
            )
            .into());
        }
        match event {
            Event::Accepted => self.store.insert_ack(&row, "ACCEPTED", None, now)?,
            Event::Declined => self.store.insert_ack(&row, "DECLINED", Some(detail), now)?,
            _ => {}
        }
        let mover = Mover {
            signed: true,
            actor: right.signer(),
            effective: right.authority(),
            act: Some(right.digest()),
            detail,
            effective_at: now.as_secs(),
        };
        let after = self.move_to(now, row, to, &mover, &Moved { reason: detail, ..Moved::default() })?;
        self.spend_deed(now, &right, &after)?;
        Ok(done(&after, false))
    }

    /// Settles everything that stands before the state: who, a party, spent, fresh. `Err`: the
    /// same act came before, and what it came to.
    pub(super) fn entitled(&mut self, now: Moment, act: Act) -> Result<Result<Entitled, Done>, No> {
        let Act { id, deed, certificate } = act;
        let (row, standing) = self.party_of(now, &id, deed, certificate.as_ref())?;
        if let Some(spent) = self.store.spent_on_obligation(
            standing.authority(),
            standing.signed().signer(),
            standing.signed().digest(),
        )? {
            return match spent {
                (on, result) if on == id => Ok(Err(replayed(&id, &result)?)),
                _ => Err(crate::ask::act_spent(standing.signed().deed().name())),
            };
        }
        if let Some(consented) = &certificate {
            self.record_if_consented(now, consented)?;
        }
        let right = standing.fresh(now)?;
        Ok(Ok(Entitled { row, right }))
    }

    /// The obligation, and the signer as one of its parties. A stranger is told what is told
    /// for an id that never was; whose certificate is no good is told so for any id.
    fn party_of(
        &self,
        now: Moment,
        id: &ObligationId,
        deed: SignedDeed,
        certificate: Option<&Consented>,
    ) -> Result<(ObligationRow, StandingDeed), No> {
        let acting = self.acting_for(now, Some(deed.signer()), certificate, None)?;
        let row = self.store.obligation(id)?.ok_or_else(unavailable)?;
        let set = AuthoritySet::of([row.requester_now, row.responsible_now]);
        let standing = deed.stand(&set, acting.as_ref()).ok_or_else(unavailable)?;
        Ok((row, standing))
    }

    /// The act is this party's. A provider answers with its own key: what it is to answer was
    /// dispatched to that key, and to no session of it. A head answers as it does on a run,
    /// with any key that acts for it.
    pub(super) fn is_theirs(&self, row: &ObligationRow, right: &AuthorizedDeed, by: Party) -> Result<(), No> {
        self.is_by(row, right, by)?;
        let what = match right.deed() {
            Deed::Respond { .. } => Entitlement::Respond,
            Deed::Cancel { .. } => Entitlement::Cancel,
            _ => Entitlement::Update,
        };
        self.entitled_to(what, &[right.signer(), right.authority()], &row.thread)
    }

    fn is_by(&self, row: &ObligationRow, right: &AuthorizedDeed, by: Party) -> Result<(), No> {
        match by {
            Party::Requester if right.authority() == row.requester_now => Ok(()),
            Party::Requester => Err(Refusal::new(
                Code::ExactRequesterRequired,
                format!("{}: only {} may, who asked", right.deed().name(), row.requester_now.fingerprint()),
            )
            .into()),
            Party::Responsible if right.signer() == row.responsible => Ok(()),
            Party::Responsible if row.ask.is_some() && right.authority() == row.responsible_now => Ok(()),
            Party::Responsible => Err(Refusal::new(
                Code::ExactResponsibleRequired,
                format!("{}: only {} may, with its own key", right.deed().name(), row.responsible.fingerprint()),
            )
            .into()),
        }
    }

    /// One move: the ledger first, then the row, whose guard is the revision.
    pub(super) fn move_to(
        &mut self,
        now: Moment,
        row: ObligationRow,
        to: State,
        mover: &Mover<'_>,
        moved: &Moved<'_>,
    ) -> Result<ObligationRow, No> {
        let (prev, newest) = self.store.newest_transition(&row.id)?.ok_or(Fault::Corrupt("ledger"))?;
        self.store.insert_transition(&LedgerEntry {
            obligation: row.id.clone(),
            revision: row.revision + 1,
            from: Some(row.state),
            to,
            signed: mover.signed,
            actor: mover.actor,
            effective: mover.effective,
            act: mover.act,
            detail: mover.detail.to_owned(),
            effective_at: mover.effective_at,
            // A clock that was set back does not make an earlier entry of a later one.
            recorded_at: now.as_secs().max(newest),
            prev,
        })?;
        if !self.store.move_obligation(&row, to, moved, now)? {
            return Err(Refusal::new(
                Code::RevisionConflict,
                "obligation: moved by somebody else at the same time, read it and sign again",
            )
            .into());
        }
        self.wake([row.requester_now, row.responsible_now]);
        let closed_at = to.is_terminal().then(|| now.as_secs());
        Ok(ObligationRow {
            state: to,
            revision: row.revision + 1,
            reason: moved.reason.to_owned(),
            resume_to: moved.resume_to,
            response_event: moved.response.map(|(event, _)| event.clone()),
            response: moved.response.map(|(_, digest)| digest),
            closed_at,
            ..row
        })
    }
}

/// The state after an event, or the refusal in words.
pub(super) fn allowed(row: &ObligationRow, event: Event) -> Result<State, No> {
    moves::next(row.state, event).map_err(|code| {
        let now = row.state.as_str();
        let sentence = match code {
            Code::ObligationTerminal => format!("obligation: is {now}, nothing follows"),
            Code::StateNotAssertable => {
                "to_state: not yours to claim, progress is acknowledged, in_progress, pending_human or blocked"
                    .to_owned()
            }
            Code::DeclineAfterAcceptance => {
                format!("decline: it is {now}, what was taken is answered with a response that failed")
            }
            _ => format!("obligation: is {now}, that does not follow, accept it first"),
        };
        Refusal::stands(code, sentence, row.state, row.revision).into()
    })
}

/// What is not known, and what is not yours.
pub(crate) fn unavailable() -> No {
    Refusal::new(Code::ObligationUnavailable, "obligation: not known here, or not yours").into()
}

pub(super) fn done(row: &ObligationRow, replayed: bool) -> Done {
    Done { id: row.id.clone(), state: row.state, revision: row.revision, replayed }
}

/// What a spent act came to, as it was stored: `state revision`.
fn replayed(id: &ObligationId, result: &str) -> Result<Done, No> {
    let read = || {
        let (state, revision) = result.split_once(' ')?;
        Some(Done { id: id.clone(), state: State::parse(state)?, revision: revision.parse().ok()?, replayed: true })
    };
    Ok(read().ok_or(Fault::Corrupt("spent_act.result"))?)
}
