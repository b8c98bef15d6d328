//! Stopping is the same authority as answering, under its own tag.

use wikala_certs::{Cancel, Moment, SignedAct};
use wikala_chain::{Digest, PublicKey};

use crate::Witness;
use crate::ask::{act_spent, other_run};
use crate::entry::{Entry, Mark};
use crate::ids::{RunId, ThreadId};
use crate::model::{Effect, Status, Stop};
use crate::refusal::{Code, No, Refusal};
use crate::store::acts::SpentRow;
use crate::store::asks::{ClosedAs, Closer};
use crate::store::runs::RunRow;

/// What became of a request to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The run.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// Where it stands now. A running one is `cancelling`: a cancel is a request,
    /// the outcome is what the provider then does.
    pub status: Status,
    /// The same act came before; nothing changed.
    pub replayed: bool,
}

/// Under whose authority, by which key, with which act. Spent where it is used.
struct Entitled {
    authority: Option<PublicKey>,
    signer: Option<PublicKey>,
    act: Option<Digest>,
}

impl Witness {
    /// Asks that a run be stopped.
    ///
    /// # Errors
    /// In this order: target, certificate, authority, spent, fresh, and last the
    /// state: `run-ended`.
    pub fn stop(&mut self, now: Moment, stop: Stop) -> Result<Stopped, No> {
        let (run, thread, agent) = self.target(&stop.run, stop.agent.as_ref())?;
        let set = self.store.resolved_set(self.set_of(&run, &thread, &agent, None))?;
        let signer = stop.act.as_ref().map(SignedAct::signer);
        let acting = self.acting_for(now, signer, stop.certificate.as_ref(), None)?;
        let by = match stop.act {
            Some(act) if act.run() != run.id.as_str() => return Err(other_run("cancel", &run.id)),
            Some(act) => match self.entitle(now, act, &set, acting.as_ref(), &run.id, run.leg)? {
                Some(by) => by,
                None => {
                    return Ok(Stopped { run: run.id, thread: run.thread, status: run.status, replayed: true });
                }
            },
            None if set.is_open() => Entitled { authority: None, signer: None, act: None },
            None => {
                return Err(Refusal::new(
                    Code::ActRequired,
                    format!(
                        "cancel: {} is stopped by its authority, send `cancel` signed over funduq-cancel:{}:<now>",
                        run.id, run.id
                    ),
                )
                .into());
            }
        };
        // Asked for by the same authority already: said again it is nothing new. Else anybody
        // who may stop a run could fill its record, and its provider's link, with the wish.
        if matches!(run.status, Status::Offering | Status::Cancelling)
            && self.store.asked_to_stop(&run.id, by.authority)?
        {
            self.spend_cancel(now, &run, &by)?;
            return Ok(Stopped { run: run.id, thread: run.thread, status: run.status, replayed: true });
        }
        let mark = Mark::CancelRequested { authority: by.authority.map(|key| key.to_hex()) };
        let ask = self.store.newest_ask(&run.id)?;
        let status = match run.status {
            Status::Queued | Status::InputRequired => {
                self.note(&run.id, Entry::Mark(mark), now)?;
                if run.status == Status::InputRequired
                    && let Some(ask) = ask
                {
                    let closer = Closer { authority: by.authority, signer: by.signer, answer: None };
                    self.store.close_ask(&run.id, ask.ordinal, ClosedAs::Cancelled, closer, now)?;
                }
                self.end_run(now, &run.id, Status::Cancelled, None, false)?;
                Status::Cancelled
            }
            // The statement says which of these can still be stopped.
            Status::Offering
            | Status::Running
            | Status::Cancelling
            | Status::Completed
            | Status::Failed
            | Status::Cancelled => {
                if !self.store.request_cancel(&run.id, now)? {
                    return Err(ended(&run.id, run.status));
                }
                self.note(&run.id, Entry::Mark(mark), now)?;
                match (run.status, run.link) {
                    // The verdict on the offer decides; the request waits for it.
                    (Status::Offering, _) => Status::Offering,
                    (_, Some(link)) => {
                        self.outbox.push(Effect::AskToStop { link, run: run.id.clone() });
                        Status::Cancelling
                    }
                    (_, None) => Status::Cancelling,
                }
            }
        };
        self.spend_cancel(now, &run, &by)?;
        if let Some(consented) = &stop.certificate {
            self.record_if_consented(now, consented)?;
        }
        self.store.insert_cancel_request(&run.id, by.authority, by.signer, now)?;
        if status == Status::Cancelled {
            self.offer_ready(now, agent.id.provider)?;
        }
        Ok(Stopped { run: run.id, thread: run.thread, status, replayed: false })
    }

    fn spend_cancel(&mut self, now: Moment, run: &RunRow, by: &Entitled) -> Result<(), No> {
        let (Some(authority), Some(signer), Some(act)) = (by.authority, by.signer, by.act) else { return Ok(()) };
        let on = SpentRow { purpose: "cancel".to_owned(), run: run.id.clone(), leg: run.leg, answer_digest: None };
        if self.store.spend(authority, signer, act, &on, now)? { Ok(()) } else { Err(act_spent("cancel")) }
    }

    /// `None`: this very act stopped this very round before; say how it stands.
    fn entitle(
        &mut self,
        now: Moment,
        act: SignedAct<Cancel>,
        set: &wikala_certs::AuthoritySet,
        acting: Option<&wikala_certs::ActingFor>,
        run: &RunId,
        leg: u64,
    ) -> Result<Option<Entitled>, No> {
        let digest = act.digest();
        let standing = act.stand(set, acting)?;
        if let Some(spent) = self.store.spent(standing.authority(), standing.signer(), digest)? {
            // A later round of the same run is another thing to stop.
            if spent.purpose == "cancel" && spent.run == *run && spent.leg == leg {
                return Ok(None);
            }
            return Err(act_spent("cancel"));
        }
        let authorized = standing.fresh(now)?;
        Ok(Some(Entitled {
            authority: Some(authorized.authority()),
            signer: Some(authorized.signer()),
            act: Some(digest),
        }))
    }
}

fn ended(run: &RunId, status: Status) -> No {
    Refusal::new(Code::RunEnded, format!("cancel: {run} is {}, there is nothing to stop", status.as_str())).into()
}
