//! An utterance becomes a run: find or make its thread, check membership, sign our
//! `dispatchedTo` hop, bind the thread at birth, and write it all down.

use wikala_certs::Moment;
use wikala_chain::{PublicKey, Target, VerifiedChain};

use crate::caller::Standing;
use crate::entry::{Entry, Mark, Why};
use crate::ids::{RunId, ThreadId};
use crate::model::{AgentId, Caller, Leg, Lineage, Place, Presenting, Status, Utterance};
use crate::obligation::{Made, Owed};
use crate::refusal::{Code, Fault, No, Refusal};
use crate::store::Store;
use crate::store::agents::AgentRow;
use crate::store::runs::NewRun;
use crate::store::threads::ThreadRow;
use crate::{AGENT_QUEUE, QUEUE_LIMIT, Witness};

/// Set on a run whose chain walks past us: see [`Witness::speak`].
pub(crate) const DISPATCH_HOP_MISSING: &str = "dispatch-hop-missing";

/// What became of an utterance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The run.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// The same client sent the same body before: this is that run.
    pub joined: bool,
    /// The obligation it made, or made before.
    pub owed: Option<Owed>,
}

impl Witness {
    /// Makes a thread ahead of its first run. It binds when that run opens it.
    ///
    /// # Errors
    /// `agent-unknown`.
    pub fn open_thread(&mut self, now: Moment, agent: &AgentId) -> Result<ThreadId, No> {
        let agent = self.known_agent(agent)?;
        let id = self.mint.thread(now);
        self.store.insert_thread(&id, agent.row, now)?;
        Ok(id)
    }

    /// Opens a run, or joins the one this client opened before.
    ///
    /// A chain that extends one already dispatched here, and whose next hop that
    /// run's provider signed without our dispatch hop between, is accepted and
    /// flagged `dispatch-hop-missing`: the head may have handed it over directly,
    /// but who reads the record should know.
    ///
    /// # Errors
    /// In this order: target, certificate, presenter, membership, spent, fresh,
    /// input, queue (wire.md, Signed strings: one order of checks everywhere).
    pub fn speak(&mut self, now: Moment, said: Utterance) -> Result<Opened, No> {
        let agent = self.known_agent(&said.agent)?;
        let Utterance {
            agent: address,
            place,
            caller,
            words,
            extensions,
            lineage,
            vouchers,
            addressed,
            client_run,
            owing,
        } = said;
        let chain = caller.chain.clone();
        let delegation = caller.certificate.as_ref().map(|c| c.certificate.raw().to_owned());
        // Unknown threads are told before anything else: the target comes first.
        if let Place::Thread(id) = &place {
            self.thread_of(id, &agent)?;
        }
        // A create act of the last hop's key proves who sends this, as a presenter would:
        // replayed, it is the same request and opens nothing.
        let caller = match (&owing, &caller.presenter, &chain) {
            (Some(owing), Presenting::Nobody, Some(chain)) if chain.presenter().0 == owing.deed.signer() => {
                Caller { presenter: Presenting::Vouched(owing.deed.signer()), ..caller }
            }
            _ => caller,
        };
        let mut who = self.stand(now, &address, caller)?;
        let (thread, alias) = self.place(&place, &agent, &who)?;
        if let Some(thread) = &thread
            && !self.store.is_member(thread, address.provider, &who)?
        {
            return Err(not_a_member(thread, &who));
        }
        if let (Some(thread), Some(owing)) = (&thread, &owing)
            && let Some((run, owed)) = self.asked_before(thread, who.presenter, owing)?
        {
            return Ok(Opened { run, thread: thread.id.clone(), joined: true, owed: Some(owed) });
        }
        self.spend_presenter(now, &mut who)?;
        let demand = match owing {
            None => None,
            Some(owing) => Some(self.demand(now, thread.as_ref(), &who, address.provider, owing)?),
        };
        if let (Some(thread), Some((client_id, digest))) = (&thread, &client_run)
            && let Some(known) = self.store.client_run(&thread.id, client_id)?
        {
            if known.body_digest == Some(*digest) {
                return Ok(Opened { run: known.id, thread: known.thread, joined: true, owed: None });
            }
            return Err(Refusal::new(
                Code::RunIdReused,
                format!("runId: {} was opened with another body, choose a new one", known.id),
            )
            .into());
        }
        if let Some(thread) = &thread {
            self.addressed_is_live(thread, addressed.as_deref())?;
            if self.store.waiting_for_a_turn(&thread.id)? >= QUEUE_LIMIT {
                return Err(Refusal::new(
                    Code::QueueFull,
                    format!(
                        "thread: {QUEUE_LIMIT} runs wait for their turn in {}, send again when one has ended",
                        thread.id
                    ),
                )
                .into());
            }
        } else if addressed.is_some() {
            return Err(Refusal::new(
                Code::RunInput,
                "addressedRunId: an interjection needs the thread of the run it joins",
            )
            .into());
        }

        if self.store.waiting_at_agent(agent.row)? >= AGENT_QUEUE {
            return Err(Refusal::new(
                Code::QueueFull,
                format!("agent: {AGENT_QUEUE} runs wait for a turn at {}, send again later", address.name.as_str()),
            )
            .into());
        }
        let dispatched = match &chain {
            None => None,
            Some(chain) => Some(
                chain
                    .dispatch(&self.key, Target { provider: address.provider, name: address.name.clone() })
                    .map_err(|e| Refusal::new(Code::ChainTooLong, e.to_string()))?,
            ),
        };
        let thread_id = match &thread {
            Some(row) => row.id.clone(),
            None => {
                let id = self.mint.thread(now);
                self.store.insert_thread(&id, agent.row, now)?;
                if let (Place::Alias(name), Some(scope)) = (&place, alias) {
                    self.store.insert_alias(agent.row, &scope, name, &id)?;
                }
                id
            }
        };
        let id = self.mint.run(now);
        let opener = if who.proved { who.presenter } else { None };
        let opener_authority = match opener {
            Some(key) => Some(self.store.resolve(key)?),
            None => None,
        };
        // The record first: its place is what `onward` counts by.
        let opened = self.note(&id, Entry::Mark(Mark::Opened), now)?.place;
        let chain_text = dispatched.as_ref().map(VerifiedChain::to_json);
        self.store.insert_run(
            &NewRun {
                id: &id,
                thread: &thread_id,
                agent: agent.row,
                head: who.head,
                opener,
                opener_authority,
                chain: chain_text.as_deref(),
                caller_tip: chain.as_ref().map(VerifiedChain::tip),
                witness_tip: chain.as_ref().and_then(|chain| self.own_tip(chain)),
                delivered_tip: dispatched.as_ref().map(VerifiedChain::tip),
                delegation: delegation.as_deref(),
                vouchers: vouchers.as_deref(),
                addressed: addressed.as_deref(),
                reference: lineage.reference.as_deref(),
                parent_run: lineage.parent_run.as_deref(),
                client_run: client_run.as_ref().map(|(id, _)| id.as_str()),
                client_thread: if let Place::Alias(name) = &place { Some(name) } else { None },
                body_digest: client_run.as_ref().map(|(_, digest)| *digest),
                opened,
            },
            now,
        )?;
        self.store.insert_leg(&id, &Leg { ordinal: 0, words, extensions, reply: None })?;
        self.bear(&thread_id, &id, &who, opener_authority, chain.as_ref(), &lineage)?;
        if let Some(chain) = &chain
            && self.walks_past_us(chain)?
        {
            self.store.insert_flag(&id, DISPATCH_HOP_MISSING)?;
        }
        let owed = match demand {
            None => None,
            Some(demand) => {
                let tip = dispatched.as_ref().map(VerifiedChain::tip);
                let made = Made { thread: &thread_id, run: &id, ask: None, dispatch: tip };
                Some(self.owe(now, made, demand)?)
            }
        };
        if self.is_online(&agent, now) {
            self.offer_ready(now, address.provider)?;
        } else {
            self.end_run(now, &id, Status::Failed, Some(Why::Ours("agent_offline")), false)?;
        }
        Ok(Opened { run: id, thread: thread_id, joined: false, owed })
    }

    pub(crate) fn known_agent(&self, id: &AgentId) -> Result<AgentRow, No> {
        self.store.agent(id)?.ok_or_else(|| {
            Refusal::new(
                Code::AgentUnknown,
                format!(
                    "agent: {}/{} is not known here, GET /agents lists who is",
                    id.provider.fingerprint(),
                    id.name.as_str()
                ),
            )
            .into()
        })
    }

    fn thread_of(&self, id: &ThreadId, agent: &AgentRow) -> Result<ThreadRow, No> {
        // Another agent's thread is as unknown here as one that never was.
        match self.store.thread(id)? {
            Some(row) if row.agent == agent.row => Ok(row),
            _ => Err(Refusal::new(
                Code::ThreadUnknown,
                format!("thread: {id} is not a thread of this agent, leave it out to begin one"),
            )
            .into()),
        }
    }

    /// The thread a place names, if it exists, and the scope a new alias would get.
    fn place(
        &self,
        place: &Place,
        agent: &AgentRow,
        who: &Standing,
    ) -> Result<(Option<ThreadRow>, Option<String>), No> {
        match place {
            Place::New => Ok((None, None)),
            Place::Thread(id) => Ok((Some(self.thread_of(id, agent)?), None)),
            Place::Alias(name) => {
                let stand = (who.raw_head, who.presenter);
                let known = match self.store.find_alias(agent.row, stand, name)? {
                    Some(id) => self.store.thread(&id)?,
                    None => None,
                };
                let (head, presenter) = self.store.resolved_stand(stand)?;
                Ok((known, alias_scope(head, presenter, name)))
            }
        }
    }

    /// An interjection that names a run which is not live in this thread is a
    /// mistake of the caller; a live one whose agent takes none waits its turn.
    fn addressed_is_live(&self, thread: &ThreadRow, addressed: Option<&str>) -> Result<(), No> {
        let Some(text) = addressed else { return Ok(()) };
        let live = match RunId::parse(text) {
            Some(id) => self.store.run(&id)?.is_some_and(|run| {
                run.thread == thread.id && matches!(run.status, Status::Running | Status::Cancelling)
            }),
            None => false,
        };
        if live {
            return Ok(());
        }
        Err(Refusal::new(
            Code::RunInput,
            "addressedRunId: not a live run of this thread, leave it out to take the next turn",
        )
        .into())
    }

    /// The newest dispatch of ours that a caller's chain carries.
    fn own_tip(&self, chain: &VerifiedChain) -> Option<wikala_chain::Digest> {
        let us = self.key.public();
        chain.hops().iter().rev().find(|hop| hop.actor() == us && hop.dispatched_to().is_some()).map(|hop| hop.digest())
    }

    fn walks_past_us(&self, chain: &VerifiedChain) -> Result<bool, No> {
        for pair in chain.hops().windows(2) {
            if self.store.already_dispatched(pair[0].digest(), pair[1].actor())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn bear(
        &mut self,
        thread: &ThreadId,
        run: &RunId,
        who: &Standing,
        opener: Option<PublicKey>,
        chain: Option<&VerifiedChain>,
        lineage: &Lineage,
    ) -> Result<(), No> {
        let parent = self.parent_thread(thread, lineage, chain)?;
        if self.store.bear_thread(thread, run, who.head, opener, parent.as_ref())?
            && let Some(chain) = chain
        {
            for actor in chain.actors() {
                self.store.insert_actor(thread, actor)?;
            }
        }
        Ok(())
    }

    /// Lineage: the thread of the first run named, else the one whose delivered chain this
    /// chain extends. An id that is not ours builds nothing, and neither does a chain that
    /// was delivered to several.
    fn parent_thread(
        &self,
        thread: &ThreadId,
        lineage: &Lineage,
        chain: Option<&VerifiedChain>,
    ) -> Result<Option<ThreadId>, No> {
        for text in [&lineage.reference, &lineage.parent_run].into_iter().flatten() {
            if let Some(id) = RunId::parse(text)
                && let Some(run) = self.store.run(&id)?
                && run.thread != *thread
            {
                return Ok(Some(run.thread));
            }
        }
        let Some(tip) = chain.and_then(|chain| self.own_tip(chain)) else { return Ok(None) };
        match self.store.delivered_to(tip, thread)?.as_slice() {
            [one] => Ok(Some(one.clone())),
            _ => Ok(None),
        }
    }
}

/// Effective head and presenter's authority, or the raw keys behind them.
pub(crate) type Stand = (Option<PublicKey>, Option<PublicKey>);

impl Store {
    pub(crate) fn resolved_stand(&self, (head, presenter): Stand) -> Result<Stand, Fault> {
        let resolve = |key: Option<PublicKey>| key.map(|key| self.resolve(key)).transpose();
        Ok((resolve(head)?, resolve(presenter)?))
    }

    /// The thread behind an alias, seen from raw keys. A session key that gave a name
    /// before it was on record as somebody's delegate finds it under both.
    pub(crate) fn find_alias(&self, agent: i64, raw: Stand, name: &str) -> Result<Option<ThreadId>, Fault> {
        let resolved = self.resolved_stand(raw)?;
        for (head, presenter) in [resolved, raw] {
            if let Some(scope) = alias_scope(head, presenter, name)
                && let Some(thread) = self.alias(agent, &scope, name)?
            {
                return Ok(Some(thread));
            }
        }
        Ok(None)
    }
}

/// Whose alias it is. Two callers may both say "main" and never meet; a nameless
/// caller gets a thread again only by an id that nobody can guess.
fn alias_scope(head: Option<PublicKey>, presenter: Option<PublicKey>, name: &str) -> Option<String> {
    let text = |key: Option<PublicKey>| key.map_or_else(|| "-".to_owned(), |key| key.to_hex());
    if head.is_none() && presenter.is_none() && !is_random_uuid(name) {
        return None;
    }
    Some(format!("{}:{}", text(head), text(presenter)))
}

/// UUID version 4 or 7, in the canonical text form.
fn is_random_uuid(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            14 => matches!(b, b'4' | b'7'),
            19 => matches!(b, b'8' | b'9' | b'a' | b'b' | b'A' | b'B'),
            _ => b.is_ascii_hexdigit(),
        })
}

fn not_a_member(thread: &ThreadRow, who: &Standing) -> No {
    let caller =
        who.presenter.map_or_else(|| "a caller without a chain".to_owned(), |key| key.fingerprint().to_string());
    Refusal::new(
        Code::NotAMember,
        format!("thread: {caller} is no member of {}, it belongs to its head's segment and its provider", thread.id),
    )
    .into()
}
