//! What a provider says about a run: the verdict on an offer, events, the finish.
//! Whoever says it is known by the key of its link, and only the claimer may speak.

use std::collections::HashSet;

use wikala_certs::Moment;
use wikala_chain::Digest;

use crate::entry::{Entry, Mark, Why};
use crate::ids::RunId;
use crate::model::{Effect, Fact, ItemKind, LinkId, Question, Status, Verdict, Words};
use crate::obligation::DeliveryFact;
use crate::refusal::{Code, No, Refusal};
use crate::schema;
use crate::store::agents::{AgentRow, Strike};
use crate::store::asks::{ClosedAs, Closer, ItemRow};
use crate::store::runs::RunRow;
use crate::{ASK_ITEMS, RETRY_S, RUN_BYTES, TOLERANCE, Witness};

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// On record, and on its way to the subscribers.
    Recorded,
    /// Its sequence number came before: dropped.
    Duplicate,
}

impl Witness {
    /// A provider's verdict on an offer. A late one matches nothing: false.
    ///
    /// # Errors
    /// Only faults.
    pub fn verdict(&mut self, now: Moment, link: LinkId, id: &RunId, verdict: Verdict) -> Result<bool, No> {
        let Some(provider) = self.store.link_provider(link)? else { return Ok(false) };
        let Some(run) = self.store.run(id)? else { return Ok(false) };
        // Each arm begins with the statement that asks for an open offer on this link.
        match verdict {
            Verdict::Accepted => {
                if !self.store.claim(id, link, now)? {
                    return Ok(false);
                }
                self.note(id, Entry::Mark(Mark::Claimed), now)?;
                self.run_fact(now, id, DeliveryFact::Committed, &format!("offer accepted on link {}", link.0))?;
                if run.cancel_requested {
                    self.outbox.push(Effect::AskToStop { link, run: id.clone() });
                }
            }
            Verdict::Declined => {
                // Only its own word counts against it: without a declared capacity there is none.
                let had_room = match self.store.live_link(provider)? {
                    Some((_, Some(capacity))) => self.store.load_on_link(link)? <= capacity,
                    _ => false,
                };
                if !self.back_to_queue(now, &run, link, now.as_secs() + RETRY_S)? {
                    return Ok(false);
                }
                if had_room {
                    let agent = self.store.agent_row(run.agent)?.ok_or(crate::Fault::Corrupt("run.agent"))?;
                    self.strike(now, &agent, Strike::DeclinedWithRoom)?;
                }
            }
            Verdict::Refused(reason) => {
                if !self.store.requeue(id, link, 0, now)? {
                    return Ok(false);
                }
                self.run_blocked(now, id, &format!("offer refused: {reason}"))?;
                if run.cancel_requested {
                    self.end_run(now, id, Status::Cancelled, None, false)?;
                } else {
                    self.end_run(now, id, Status::Failed, Some(Why::Theirs(&reason)), false)?;
                }
            }
        }
        self.offer_ready(now, provider)?;
        Ok(true)
    }

    /// An event of a run, with the fact the door read out of it.
    ///
    /// # Errors
    /// `run-unknown` for a run that is not this provider's, `run-ended` for one
    /// that is not open for its words.
    pub fn event(
        &mut self,
        now: Moment,
        link: LinkId,
        id: &RunId,
        fact: Fact,
        words: Words,
        seq: Option<u64>,
    ) -> Result<Heard, No> {
        let (run, agent) = self.claimed(link, id)?;
        if seq.is_some_and(|seq| seq <= run.link_seq) {
            // Sent again after a blip. It moves nothing a second time (an old beginning
            // would close an open ask), but naming the run ends its lease.
            if self.store.take_over(id, link)? {
                self.resend_cancel(&run, link);
            }
            return Ok(Heard::Duplicate);
        }
        match (run.status, &fact) {
            // Only a new beginning continues a pause; stray words after it do not.
            (Status::InputRequired, Fact::Started) => self.provider_goes_on(now, &run, &agent, link)?,
            // It gives its own question up: the ask closes unanswered, with the run.
            (Status::InputRequired, Fact::Failed(_)) => {}
            _ if self.store.hear(id, link)? => self.resend_cancel(&run, link),
            _ => return Err(not_open(&run)),
        }
        if let Some(seq) = seq {
            if seq > run.link_seq + 1 {
                self.note(id, Entry::Mark(Mark::LinkGap { expected: run.link_seq + 1, received: seq }), now)?;
            }
            self.store.set_link_seq(id, seq)?;
        }
        let said = self.store.count_said(id, words.text.len())?;
        let noted = self.note(id, Entry::Words(words), now)?;
        if said > RUN_BYTES {
            // Whoever reads the run holds all of it: its size is everybody's memory.
            return self
                .end_run(now, id, Status::Failed, Some(Why::Ours("provider_said_too_much")), false)
                .map(|()| Heard::Recorded);
        }
        match fact {
            Fact::Started => self.run_fact(now, id, DeliveryFact::Read, "the run began")?,
            Fact::Said => {}
            Fact::CallOpened(call) => {
                self.store.announce_call(id, &call, noted.seq)?;
                // Announced one by one, calls have no other bound; nobody could answer so many.
                if self.store.unanswered_calls(id)?.len() > ASK_ITEMS {
                    self.end_run(now, id, Status::Failed, Some(Why::Ours("provider_asked_too_much")), false)?;
                }
            }
            Fact::CallAnswered(call) => self.store.settle_call(id, &call)?,
            Fact::Failed(reason) => self.provider_failed(now, &run, &reason)?,
            Fact::Ended { questions, pending, cancelled } => {
                self.settle(now, &run, &agent, questions, pending, cancelled)?;
            }
        }
        Ok(Heard::Recorded)
    }

    /// The provider is done with a run. A stream that ends without a terminal
    /// event never looks like a clean end.
    ///
    /// # Errors
    /// `run-unknown` for a run that is not this provider's.
    pub fn finish(&mut self, now: Moment, link: LinkId, id: &RunId) -> Result<(), No> {
        let (run, agent) = self.claimed(link, id)?;
        if !self.store.take_over(id, link)? {
            return Err(not_open(&run));
        }
        match run.status {
            Status::Cancelling => self.end_run(now, id, Status::Cancelled, None, false)?,
            Status::Running => {
                self.end_run(
                    now,
                    id,
                    Status::Failed,
                    Some(Why::Ours("provider_stream_ended_without_finishing")),
                    false,
                )?;
            }
            _ => {}
        }
        self.store.release(id)?;
        if run.status == Status::Completed {
            self.store.forgive(agent.id.provider)?;
        }
        self.store.retry_now(agent.id.provider)?;
        self.offer_ready(now, agent.id.provider)
    }

    /// A provider does not speak the protocol: what it said cannot go on record, so
    /// its run fails, with the reason.
    ///
    /// # Errors
    /// As [`Witness::event`].
    pub fn fail(&mut self, now: Moment, link: LinkId, id: &RunId, reason: &str) -> Result<(), No> {
        let (run, _) = self.claimed(link, id)?;
        if !self.store.hear(id, link)? {
            return Err(not_open(&run));
        }
        // Asked to stop, it stopped badly: that is a cancelled run.
        let status = if run.cancel_requested { Status::Cancelled } else { Status::Failed };
        self.end_run(now, id, status, Some(Why::Ours(reason)), false)
    }

    /// A run of the provider behind a live link. Unknown and foreign are told alike.
    fn claimed(&self, link: LinkId, id: &RunId) -> Result<(RunRow, AgentRow), No> {
        let unknown = || Refusal::new(Code::RunUnknown, format!("run: {id} is no run of yours"));
        let provider = self.store.link_provider(link)?.ok_or_else(unknown)?;
        let run = self.store.run(id)?.ok_or_else(unknown)?;
        let agent = self.store.agent_row(run.agent)?.ok_or(crate::Fault::Corrupt("run.agent"))?;
        if agent.id.provider != provider {
            return Err(unknown().into());
        }
        Ok((run, agent))
    }

    pub(crate) fn resend_cancel(&mut self, run: &RunRow, link: LinkId) {
        // It came back on another link: the request may have been lost with the old one.
        if run.status == Status::Cancelling && run.link != Some(link) {
            self.outbox.push(Effect::AskToStop { link, run: run.id.clone() });
        }
    }

    /// The provider may answer its own ask, visibly: the record says it was it.
    fn provider_goes_on(&mut self, now: Moment, run: &RunRow, agent: &AgentRow, link: LinkId) -> Result<(), No> {
        if !self.store.go_on(&run.id, link, now)? {
            return Err(not_open(run));
        }
        if let Some(ask) = self.store.newest_ask(&run.id)? {
            let provider = Some(agent.id.provider);
            let closer = Closer { authority: provider, signer: provider, answer: None };
            self.store.close_ask(&run.id, ask.ordinal, ClosedAs::ByProvider, closer, now)?;
            self.withdraw_what_is_owed(now, &run.id, ask.ordinal)?;
            let mark =
                Mark::Answered { ordinal: ask.ordinal, authority: Some(agent.id.provider.to_hex()), by_provider: true };
            let noted = self.note(&run.id, Entry::Mark(mark), now)?;
            self.store.set_continued(&run.id, noted.seq)?;
        }
        self.store.settle_all_calls(&run.id)?;
        self.run_resumed(now, &run.id)
    }

    fn provider_failed(&mut self, now: Moment, run: &RunRow, reason: &str) -> Result<(), No> {
        // Asked to stop, it stopped with an error: that is a cancelled run.
        if run.cancel_requested {
            self.end_run(now, &run.id, Status::Cancelled, Some(Why::Theirs(reason)), true)
        } else {
            self.end_run(now, &run.id, Status::Failed, Some(Why::Theirs(reason)), true)
        }
    }

    /// The last word of a leg: it asks, or it is done.
    fn settle(
        &mut self,
        now: Moment,
        run: &RunRow,
        agent: &AgentRow,
        mut questions: Vec<Question>,
        pending: Option<Vec<String>>,
        cancelled: bool,
    ) -> Result<(), No> {
        let calls = match pending {
            Some(declared) => declared,
            None => self.store.unanswered_calls(&run.id)?,
        };
        let ordinal = self.store.newest_ask(&run.id)?.map_or(1, |ask| ask.ordinal + 1);
        name_all(&run.id, ordinal, &mut questions);
        // An id asked twice is asked as it was first.
        let mut known = HashSet::new();
        let first = |question: &&mut Question| known.insert(question.id.clone());
        let owing = questions.iter_mut().filter(first).filter_map(|q| Some((q.id.clone()?, q.owing.take()?)));
        let owing: Vec<_> = owing.collect();
        let items = items_of(questions, calls);
        if items.is_empty() {
            let status = if cancelled { Status::Cancelled } else { Status::Completed };
            return self.end_run(now, &run.id, status, None, true);
        }
        if !self.store.pause(&run.id, now)? {
            return Err(not_open(run));
        }
        let thread = self.store.thread(&run.thread)?.ok_or(crate::Fault::Corrupt("run.thread"))?;
        let set = self.set_of(run, &thread, agent, None);
        let question = items.iter().map(|item| item.question.as_str()).collect::<Vec<_>>().join("\n");
        self.store.insert_ask(&run.id, ordinal, set, Digest::of(question.as_bytes()), &items, now)?;
        let asks = items.into_iter().map(|item| item.id).collect();
        for (ask, owing) in owing {
            if let Some(no) = self.owe_to_ask(now, run, &thread, (ordinal, ask.clone()), owing)? {
                self.note(&run.id, Entry::Mark(Mark::NotOwed { ask, code: no.code, message: no.message }), now)?;
            }
        }
        // Last: who follows the run stops reading here.
        self.note(&run.id, Entry::Mark(Mark::Paused { ordinal, asks }), now)?;
        self.run_paused(now, &run.id)
    }

    /// Ends a run: the guard first, then the terminal entry every subscriber gets.
    pub(crate) fn end_run(
        &mut self,
        now: Moment,
        id: &RunId,
        status: Status,
        reason: Option<Why<'_>>,
        in_words: bool,
    ) -> Result<(), No> {
        if !self.store.end(id, status, reason, now)? {
            return Err(Refusal::new(Code::RunEnded, format!("run: {id} has ended before")).into());
        }
        if let Some(Why::Ours(why)) = reason {
            self.run_blocked(now, id, why)?;
        }
        self.run_resumed(now, id)?;
        if let Some(ask) = self.store.newest_ask(id)? {
            self.store.close_ask(id, ask.ordinal, ClosedAs::Failed, Closer::default(), now)?;
        }
        self.store.settle_all_calls(id)?;
        let mark = Mark::Ended {
            status: status.as_str().to_owned(),
            reason: reason.map(|why| why.text().to_owned()),
            in_words,
            by_provider: matches!(reason, Some(Why::Theirs(_))),
        };
        let noted = self.note(id, Entry::Mark(mark), now)?;
        self.store.set_ended(id, noted.place)?;
        Ok(())
    }

    /// An offer came to nothing: queued again, or cancelled if that was asked
    /// meanwhile. False: there was no such offer any more.
    pub(crate) fn back_to_queue(&mut self, now: Moment, run: &RunRow, link: LinkId, retry_at: u64) -> Result<bool, No> {
        if !self.store.requeue(&run.id, link, retry_at, now)? {
            return Ok(false);
        }
        if run.cancel_requested {
            self.end_run(now, &run.id, Status::Cancelled, None, false)?;
        }
        Ok(true)
    }

    pub(crate) fn strike(&mut self, now: Moment, agent: &AgentRow, what: Strike) -> Result<(), No> {
        if agent.upstream.is_some() {
            // Its carrier is ours: what that neglects is no fault of the provider's.
            return Ok(());
        }
        let provider = agent.id.provider;
        if self.store.strike(provider, what, TOLERANCE)?
            && let Some((link, _)) = self.store.live_link(provider)?
        {
            self.drop_link(now, link)?;
            self.outbox.push(Effect::Close {
                link,
                reason: "withdrawn: too many offers unanswered, declined or never ended, register again",
            });
        }
        Ok(())
    }
}

/// A pause without ids gets one, from the run and the pause.
fn name_all(run: &RunId, ordinal: u64, questions: &mut [Question]) {
    let mut nameless = 0;
    for question in questions.iter_mut().filter(|question| question.id.is_none()) {
        nameless += 1;
        // The first gets the pause's id; further nameless ones are questions of their own.
        let id = if nameless == 1 { format!("{run}.{ordinal}") } else { format!("{run}.{ordinal}.{nameless}") };
        question.id = Some(id);
    }
}

/// The open items: the questions asked, and the announced calls nobody answered.
fn items_of(questions: Vec<Question>, calls: Vec<String>) -> Vec<ItemRow> {
    let mut items: Vec<ItemRow> = Vec::new();
    // Sets: how much there is to compare is the provider's choice.
    let (mut known, mut about) = (HashSet::new(), HashSet::new());
    let mut enforced = 0;
    for question in questions {
        let Some(id) = question.id else { continue };
        about.extend(question.call);
        if known.insert(id.clone()) {
            // Beyond a number of them they are relayed, marked and not enforced: one answer
            // must not make us compile all that a provider cares to ask.
            let schema = schema::of_question(&question.text).map(|text| {
                enforced += 1;
                let word =
                    if enforced > schema::A_PAUSE { schema::Refused::TooCostly.as_str() } else { schema::word(&text) };
                word.to_owned()
            });
            items.push(ItemRow { id, kind: ItemKind::Interrupt, question: question.text, schema });
        }
    }
    for call in calls {
        if !about.contains(&call) && known.insert(call.clone()) {
            let question = serde_json::Value::String(call.clone()).to_string();
            items.push(ItemRow { id: call, kind: ItemKind::Call, question, schema: None });
        }
    }
    items
}

fn not_open(run: &RunRow) -> No {
    Refusal::new(
        Code::RunEnded,
        format!("run: {} is {}, it takes no more words on this link", run.id, run.status.as_str()),
    )
    .into()
}
