//! Links: who is attached, what they serve, and what happens to their runs when
//! the line drops. A blip is not a death.

use wikala_certs::Moment;
use wikala_chain::PublicKey;

use crate::ids::RunId;
use crate::model::{AgentId, Effect, LinkId, Registration};
use crate::refusal::{Code, No, Refusal};
use crate::{AGENTS_A_KEY, TOLERANCE, Witness};

/// A provider says, after it came back, what it still works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The run.
    pub run: RunId,
    /// The last sequence number it sent, 0 for none.
    pub last_seq: u64,
}

/// Our answer: send again what comes after this number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// The run.
    pub run: RunId,
    /// The last sequence number on record.
    pub after: u64,
}

impl Witness {
    /// Burns a ticket. False: it was burned before, or is too old to tell.
    ///
    /// # Errors
    /// Only faults.
    pub fn burn_ticket(&mut self, now: Moment, ticket: &str) -> Result<bool, No> {
        Ok(self.store.burn_ticket(ticket, now)?)
    }

    /// Attaches a proved provider. One link a key: a newer one replaces the older.
    ///
    /// # Errors
    /// Only faults.
    pub fn attach(&mut self, now: Moment, provider: PublicKey, capacity: Option<u64>) -> Result<LinkId, No> {
        self.store.know_provider(provider, None)?;
        if let Some((old, _)) = self.store.live_link(provider)? {
            self.drop_link(now, old)?;
            self.outbox.push(Effect::Close { link: old, reason: "replaced: the same key attached again" });
        }
        Ok(self.store.insert_link(provider, capacity, now)?)
    }

    /// Replaces the roster of a link.
    ///
    /// # Errors
    /// `registration-malformed` for an empty or doubled list, `carrier-taken` for a
    /// name that stands behind HTTP, `run-unknown` for a link that is closed.
    pub fn register(
        &mut self,
        now: Moment,
        link: LinkId,
        agents: &[Registration],
        provider_name: Option<&str>,
    ) -> Result<(), No> {
        let provider = self.linked(link)?;
        if agents.is_empty() {
            return Err(malformed("register: no agents, close the link to serve none"));
        }
        for (at, agent) in agents.iter().enumerate() {
            if agents[..at].iter().any(|earlier| earlier.name == agent.name) {
                return Err(malformed(format!("register: {} is listed twice", agent.name.as_str())));
            }
        }
        self.store.know_provider(provider, provider_name)?;
        self.store.readmit(provider, TOLERANCE)?;
        // Left out by its own word, not lost: no grace, it is offline from now on.
        self.store.clear_roster(link, self.graceless(now))?;
        for agent in agents {
            if !self.store.register(provider, link, agent)? {
                return Err(crate::upstream::taken(&AgentId { provider, name: agent.name.clone() }));
            }
        }
        if self.store.agents_of(provider)? > AGENTS_A_KEY {
            // Names nobody serves and nothing ever ran under make room.
            self.store.forget_unused(provider)?;
        }
        if self.store.agents_of(provider)? > AGENTS_A_KEY {
            return Err(malformed(format!(
                "register: with these the key would hold more than {AGENTS_A_KEY} names, use another key for the rest"
            )));
        }
        self.store.retry_now(provider)?;
        self.offer_ready(now, provider)
    }

    /// Frees an agent's name, if nothing ever ran under it.
    ///
    /// # Errors
    /// `agent-unknown`, or `registration-malformed` for one with history.
    pub fn delete_agent(&mut self, link: LinkId, name: &wikala_chain::AgentName) -> Result<(), No> {
        let provider = self.linked(link)?;
        let id = AgentId { provider, name: name.clone() };
        self.known_agent(&id)?;
        if self.store.delete_agent(&id)? {
            return Ok(());
        }
        Err(malformed(format!("deleteAgent: {} has history, leave it out of the roster instead", name.as_str())))
    }

    /// A link is gone. Its runs keep a lease; its offers are open again. A late
    /// clean-up of a replaced link changes nothing.
    ///
    /// # Errors
    /// Only faults.
    pub fn detach(&mut self, now: Moment, link: LinkId) -> Result<(), No> {
        self.drop_link(now, link)
    }

    /// Closes the link of a key that is no longer admitted.
    ///
    /// # Errors
    /// Only faults.
    pub fn evict(&mut self, now: Moment, provider: PublicKey) -> Result<(), No> {
        if let Some((link, _)) = self.store.live_link(provider)? {
            // Sent away, not lost: no grace, it is offline from now on.
            self.store.clear_roster(link, self.graceless(now))?;
            self.drop_link(now, link)?;
            self.outbox
                .push(Effect::Close { link, reason: "not-admitted: this key was removed from the admission list" });
        }
        Ok(())
    }

    /// The keys that are attached now.
    ///
    /// # Errors
    /// Only faults.
    pub fn attached(&self) -> Result<Vec<PublicKey>, No> {
        Ok(self.store.live_links()?.into_iter().map(|(_, provider)| provider).collect())
    }

    /// A re-attached provider names the runs it still holds: their leases end well.
    ///
    /// # Errors
    /// `run-unknown` for a link that is closed. Runs that are not its own, or have
    /// ended, are left out of the answer.
    pub fn holding(&mut self, link: LinkId, held: &[Holding]) -> Result<Vec<Resumed>, No> {
        let provider = self.linked(link)?;
        let mut resumed = Vec::new();
        for Holding { run: id, .. } in held {
            let Some(run) = self.store.run(id)? else { continue };
            let Some(agent) = self.store.agent_row(run.agent)? else { continue };
            if agent.id.provider != provider || !self.store.take_over(id, link)? {
                continue;
            }
            self.resend_cancel(&run, link);
            resumed.push(Resumed { run: run.id, after: run.link_seq });
        }
        Ok(resumed)
    }

    /// What was going on when the last process stopped: links are gone, offers are
    /// open again, what was taken keeps a lease, queued runs keep their place.
    ///
    /// # Errors
    /// Only faults.
    pub fn recover(&mut self, now: Moment) -> Result<(), No> {
        for (link, _) in self.store.live_links()? {
            self.drop_link(now, link)?;
        }
        // Every lease begins anew: nobody could attach while nobody listened.
        self.store.restart(now.as_secs() + self.policy.link_grace_s, now)?;
        Ok(())
    }

    pub(crate) fn drop_link(&mut self, now: Moment, link: LinkId) -> Result<(), No> {
        if !self.store.close_link(link, now)? {
            return Ok(());
        }
        for id in self.store.offered_on(link)? {
            if let Some(run) = self.store.run(&id)? {
                // Nobody declined it: it may be offered at once when the provider is back.
                self.back_to_queue(now, &run, link, 0)?;
            }
        }
        self.store.lease_runs_of(link, now.as_secs() + self.policy.link_grace_s)?;
        Ok(())
    }

    /// Lost so long ago that no grace is left.
    pub(crate) fn graceless(&self, now: Moment) -> Moment {
        Moment::from_secs(now.as_secs().saturating_sub(self.policy.link_grace_s))
    }

    fn linked(&self, link: LinkId) -> Result<PublicKey, No> {
        self.store
            .link_provider(link)?
            .ok_or_else(|| Refusal::new(Code::RunUnknown, "link: closed, attach again").into())
    }
}

fn malformed(sentence: impl Into<String>) -> No {
    Refusal::new(Code::RegistrationMalformed, sentence).into()
}
