//! Offers and deadlines. Which run is offered next, and what becomes of a silence.

use wikala_certs::Moment;
use wikala_chain::PublicKey;

use crate::entry::Why;
use crate::ids::RunId;
use crate::model::{Delivery, Effect, LinkId, Status};
use crate::obligation::{DeliveryFact, Demanded, owed};
use crate::refusal::No;
use crate::store::agents::{AgentRow, Strike};
use crate::store::runs::RunRow;
use crate::{FINISH_S, OFFERS_AT_ONCE, PRESENTED_S, RETRY_S, Witness};

/// How long burned tickets are kept: longer than any ticket is valid, seconds.
const TICKET_S: u64 = 600;

impl Witness {
    /// Every deadline of the record, at one moment. The desk calls it about four
    /// times a second; a test calls it when it likes.
    ///
    /// # Errors
    /// Only faults.
    pub fn tick(&mut self, now: Moment) -> Result<(), No> {
        let at = now.as_secs();
        for run in self.store.silent_offers(at.saturating_sub(self.policy.offer_timeout_s))? {
            // A strike may have dropped the link, and with it the offers still listed here.
            if let (Some(link), Some(agent)) = (run.link, self.store.agent_row(run.agent)?)
                && self.back_to_queue(now, &run, link, at + RETRY_S)?
            {
                self.strike(now, &agent, Strike::NeverAnswered)?;
            }
        }
        self.expire_due(now)?;
        for run in self.store.ended_leases(now)? {
            self.lease_ran_out(now, &run)?;
        }
        for run in self.store.unserved(at.saturating_sub(self.policy.unserved_s))? {
            self.end_run(now, &run.id, Status::Failed, Some(Why::Ours("no_provider_took_it")), false)?;
        }
        for run in self.store.unfinished(at.saturating_sub(FINISH_S))? {
            self.store.release(&run.id)?;
            if let Some(agent) = self.store.agent_row(run.agent)? {
                self.offer_ready(now, agent.id.provider)?;
            }
        }
        for provider in self.store.due_providers(now)? {
            self.offer_ready(now, provider)?;
        }
        self.prune(at)
    }

    /// The witness itself stood still for so long: every deadline waits as long.
    ///
    /// # Errors
    /// Only faults.
    pub fn pardon(&mut self, seconds: u64) -> Result<(), No> {
        Ok(self.store.postpone(seconds)?)
    }

    /// Held to the end and never finished: cancelled if that was asked, else failed.
    fn lease_ran_out(&mut self, now: Moment, run: &RunRow) -> Result<(), No> {
        if !self.store.end_lease(&run.id, now)? {
            return Ok(());
        }
        let Some(agent) = self.store.agent_row(run.agent)? else { return Ok(()) };
        match run.status {
            Status::Cancelling => self.end_run(now, &run.id, Status::Cancelled, None, false)?,
            Status::Running => {
                self.end_run(now, &run.id, Status::Failed, Some(Why::Ours("provider_left_holding_it")), false)?;
                self.strike(now, &agent, Strike::TookNeverEnded)?;
            }
            // Settled, only the finish was missing.
            _ => {}
        }
        self.offer_ready(now, agent.id.provider)
    }

    /// Forgets presenter proofs that no clock could make fresh again, and says from
    /// where on: below the watermark everything is stale for good.
    fn prune(&mut self, at: u64) -> Result<(), No> {
        let below = at.saturating_sub(PRESENTED_S);
        if self.store.prune_presented(below)? > 0 && below > self.presented_watermark()? {
            self.store.set_meta("presented-watermark", &below.to_be_bytes())?;
        }
        self.store.prune_tickets(at.saturating_sub(TICKET_S))?;
        Ok(())
    }

    /// Offers what may be offered now: in queue order, one active run a thread,
    /// within the capacity the link declared.
    pub(crate) fn offer_ready(&mut self, now: Moment, provider: PublicKey) -> Result<(), No> {
        let withdrawn = self.store.counters(provider)?.is_some_and(|counters| counters.withdrawn);
        for (link, capacity, upstream) in self.store.links_of(provider)? {
            // What a provider that dials in neglects is not held against its neighbours.
            if upstream || !withdrawn {
                self.offer_on(now, provider, link, capacity)?;
            }
        }
        Ok(())
    }

    fn offer_on(&mut self, now: Moment, provider: PublicKey, link: LinkId, capacity: Option<u64>) -> Result<(), No> {
        loop {
            if let Some(capacity) = capacity
                && self.store.load_on_link(link)? >= capacity
            {
                return Ok(());
            }
            if self.store.offers_out(link)? >= OFFERS_AT_ONCE {
                return Ok(());
            }
            let Some(run) = self.store.next_offer(provider, link, now)? else { return Ok(()) };
            if !self.store.offer(&run.id, link, now)? {
                return Ok(());
            }
            self.run_fact(now, &run.id, DeliveryFact::Dispatched, &format!("offered on link {}", link.0))?;
            let delivery = Box::new(self.delivery(&run.id)?);
            self.outbox.push(Effect::Offer { link, delivery });
        }
    }

    /// An agent whose link was lost within the grace counts as online.
    pub(crate) fn is_online(&self, agent: &AgentRow, now: Moment) -> bool {
        let in_grace = agent.lost_at.is_some_and(|lost| now.as_secs() < lost.saturating_add(self.policy.link_grace_s));
        agent.link.is_some() || (in_grace && !agent.withdrawn)
    }

    pub(crate) fn delivery(&self, id: &RunId) -> Result<Delivery, No> {
        let run = self.store.run(id)?.ok_or(crate::Fault::Corrupt("run"))?;
        let agent = self.store.agent_row(run.agent)?.ok_or(crate::Fault::Corrupt("run.agent"))?;
        let leg = self.store.legs(id)?.pop().ok_or(crate::Fault::Corrupt("leg"))?;
        let owed = match self.store.obligation_of_run(id)? {
            None => None,
            Some(row) => {
                let event = self.store.event(&row.event)?.ok_or(crate::Fault::Corrupt("obligation.event"))?;
                Some(Demanded { owed: owed(&row), payload: event.payload })
            }
        };
        Ok(Delivery {
            owed,
            run: run.id,
            thread: run.thread,
            agent: agent.id,
            leg,
            chain: run.chain,
            delegation: run.delegation,
            vouchers: run.vouchers,
            addressed: run.addressed,
            parent_run: run.parent_run,
        })
    }
}
