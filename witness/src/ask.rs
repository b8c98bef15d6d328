//! The answer lane: a paused run goes on when somebody from the set that was
//! copied at the pause says so, once, and within the window.

use std::convert::Infallible;

use wikala_certs::{ActingFor, AuthoritySet, Authorized, Form, Moment, Resolve, SignedAct};
use wikala_chain::{Digest, PublicKey};

use crate::cover::{cover, fits, same_asks};
use crate::entry::{Entry, Mark};
use crate::ids::{RunId, ThreadId};
use crate::model::{Answer, Caller, Lane, Leg, Reply, Status};
use crate::obligation::AnsweredBy;
use crate::refusal::{Code, No, Refusal, Winner};
use crate::store::acts::SpentRow;
use crate::store::agents::AgentRow;
use crate::store::asks::{AskRow, ClosedAs, Closer};
use crate::store::runs::RunRow;
use crate::store::threads::ThreadRow;
use crate::{AnswerPolicy, ReadPolicy, Witness};

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The run.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// Nothing changed: the same act with the same request came before, or the
    /// ask was closed elsewhere and this answer is no other.
    pub replayed: bool,
    /// The continuation begins after this entry of the run's record.
    pub after: u64,
}

/// How an answer stands against the ask, once signatures, set, spent acts and
/// freshness are settled.
enum Right {
    /// An authority's act, not yet spent.
    Act { authorized: Authorized<Resolve>, digest: Digest },
    /// No head at all: whoever knows the id may answer.
    Open,
}

/// What an answer is judged by.
struct Case<'a> {
    run: &'a RunRow,
    thread: &'a ThreadRow,
    agent: &'a AgentRow,
    /// The newest ask of the run.
    ask: Option<&'a AskRow>,
    set: &'a AuthoritySet,
    lane: Lane,
    reply: &'a Reply,
    /// sha256 of the answer bytes.
    digest: Digest,
}

impl Case<'_> {
    /// The ask was closed elsewhere, and this is no other answer: the same bytes, or
    /// every entry abandoned. Never so for an open ask.
    fn follows(&self) -> bool {
        self.lane == Lane::Resume
            && self.ask.is_some_and(|ask| {
                ask.closed_at.is_some() && (ask.answer_digest == Some(self.digest) || all_abandoned(self.reply))
            })
    }
}

impl Witness {
    /// Answers a paused run and queues its continuation, under the chain the run
    /// was opened with.
    ///
    /// # Errors
    /// In this order: target, form, certificate, authority, spent, fresh, coverage,
    /// agent online, and last the state: `already-answered` with who and when.
    pub fn answer(&mut self, now: Moment, answer: Answer) -> Result<Answered, No> {
        let (run, thread, agent) = self.target(&answer.run, answer.agent.as_ref())?;
        let ask = self.store.newest_ask(&run.id)?;
        let set = self.store.resolved_set(self.set_of(&run, &thread, &agent, ask.as_ref()))?;
        let Answer { lane, reply, digest, act, certificate, caller, words, extensions, .. } = answer;
        let bound_form = act.as_ref().is_some_and(|act| act.form() == Form::Answer);
        if bound_form && lane != Lane::Direct || self.policy.answers == AnswerPolicy::Bound && !bound_form {
            return Err(Refusal::new(
                Code::AnswerForm,
                "answer: bound to its bytes on POST /v1/runs/{id}/answer only, and where this witness asks for that, nowhere else",
            )
            .into());
        }
        let case = Case {
            run: &run,
            thread: &thread,
            agent: &agent,
            ask: ask.as_ref(),
            set: &set,
            lane,
            reply: &reply,
            digest,
        };
        let signer = act.as_ref().map(SignedAct::signer);
        let signed_for = act.as_ref().and_then(SignedAct::asks).map(<[String]>::to_vec);
        let behind = caller.chain.as_ref().map(|chain| chain.head().0).or(caller.presenter.signer());
        let acting = self.acting_for(now, signer, certificate.as_ref(), behind)?;
        let decided = match act {
            Some(act) => self.with_an_act(now, &case, act, acting.as_ref())?,
            None => self.without_an_act(now, &case, caller)?,
        };
        let right = match decided {
            Ok(right) => right,
            Err(done) => return Ok(done),
        };
        if case.follows() {
            return Ok(continuation(&run));
        }
        let Some(ask) = ask else { return Err(no_open_ask(&run)) };
        let open = self.store.items(&run.id, ask.ordinal)?;
        let covered = match &signed_for {
            Some(asks) => same_asks(&open, asks).and_then(|()| cover(&open, reply)),
            None => cover(&open, reply),
        };
        let covered = covered.and_then(|items| fits(&open, &items).map(|()| items));
        let covered = covered.and_then(|items| self.fits_what_is_owed(&run.id, ask.ordinal, &items).map(|()| items));
        let items = match covered {
            Ok(items) => items,
            // What is closed cannot be covered any more: say who was first instead.
            Err(_) if ask.closed_at.is_some() => return Err(lost(&run, &ask)),
            Err(no) => return Err(no),
        };
        if ask.closed_at.is_none() && !self.is_online(&agent, now) {
            return Err(Refusal::new(
                Code::AgentOffline,
                format!("answer: {} is offline, the ask stands and nothing is spent", agent.id.name.as_str()),
            )
            .into());
        }
        let by = match &right {
            Right::Act { authorized, digest } => {
                Some(AnsweredBy { signer: authorized.signer(), authority: authorized.authority(), act: *digest })
            }
            Right::Open => None,
        };
        let closer = self.reopen(now, right, &run, &ask, digest)?;
        if let Some(by) = by {
            self.answer_what_is_owed(now, &run, ask.ordinal, &items, by)?;
        }
        if let Some(consented) = &certificate {
            self.record_if_consented(now, consented)?;
        }
        self.store.settle_all_calls(&run.id)?;
        self.store.insert_leg(&run.id, &Leg { ordinal: run.leg + 1, words, extensions, reply: Some(items) })?;
        let mark = Mark::Answered {
            ordinal: ask.ordinal,
            authority: closer.authority.map(|key| key.to_hex()),
            by_provider: closer.authority == Some(agent.id.provider),
        };
        let noted = self.note(&run.id, Entry::Mark(mark), now)?;
        self.store.set_continued(&run.id, noted.seq)?;
        self.run_resumed(now, &run.id)?;
        self.offer_ready(now, agent.id.provider)?;
        Ok(Answered { run: run.id, thread: run.thread, replayed: false, after: noted.seq - 1 })
    }

    /// An answer that found nothing to answer: it never opens a run. Always a no; who
    /// does not belong to the thread is told what it is told while the thread waits.
    ///
    /// # Errors
    /// `no-open-ask` for a member, for an outsider what [`Witness::answer`] says.
    pub fn nothing_asked(
        &mut self,
        now: Moment,
        agent: &crate::AgentId,
        thread: &ThreadId,
        caller: Caller,
    ) -> Result<Infallible, No> {
        if let Some(row) = self.store.thread(thread)?
            && row.head.is_some()
            && self.store.agent_row(row.agent)?.is_some_and(|of| of.id == *agent)
        {
            self.belongs_to(now, agent, &row, caller)?;
        }
        Err(Refusal::new(Code::NoOpenAsk, "answer: nothing in this thread asks for it; without a signature a thread is found by our id or a random UUID").into())
    }

    /// Somebody who is a member of the thread, proved afresh. All others are told
    /// `act-required`, whatever the thread does.
    fn belongs_to(
        &mut self,
        now: Moment,
        agent: &crate::AgentId,
        thread: &ThreadRow,
        caller: Caller,
    ) -> Result<(), No> {
        let mut who = match self.stand(now, agent, caller) {
            Ok(who) => who,
            Err(No::Refusal(_)) => return Err(act_required()),
            Err(fault) => return Err(fault),
        };
        if !self.store.is_member(thread, agent.provider, &who)? {
            return Err(act_required());
        }
        self.spend_presenter(now, &mut who)
    }

    /// The win, spent where it is used: takes the right by value, so one act
    /// cannot open two pauses.
    fn reopen(&mut self, now: Moment, right: Right, run: &RunRow, ask: &AskRow, answer: Digest) -> Result<Closer, No> {
        let place = self.store.record_end()?;
        // The guard is in the statement: whoever comes second changes no row.
        if !self.store.reopen(&run.id, run.leg, place + 1, now)? {
            return Err(lost(run, ask));
        }
        let closer = match right {
            Right::Act { authorized, digest } => {
                let authority = authorized.authority();
                let on = SpentRow {
                    purpose: "resolve".to_owned(),
                    run: run.id.clone(),
                    leg: run.leg,
                    answer_digest: Some(answer),
                };
                let signer = authorized.signer();
                if !self.store.spend(authority, signer, digest, &on, now)? {
                    return Err(act_spent("answer"));
                }
                Closer { authority: Some(authority), signer: Some(signer), answer: Some(answer) }
            }
            Right::Open => Closer { answer: Some(answer), ..Closer::default() },
        };
        if !self.store.close_ask(&run.id, ask.ordinal, ClosedAs::Answered, closer, now)? {
            return Err(lost(run, ask));
        }
        Ok(closer)
    }

    /// The run an act names, at the door it came through. A run of another agent
    /// is as unknown there as one that never was.
    pub(crate) fn target(
        &self,
        id: &RunId,
        door: Option<&crate::AgentId>,
    ) -> Result<(RunRow, ThreadRow, AgentRow), No> {
        let unknown = || Refusal::new(Code::RunUnknown, format!("run: {id} is not known here"));
        let run = self.store.run(id)?.ok_or_else(unknown)?;
        let thread = self.store.thread(&run.thread)?.ok_or(crate::Fault::Corrupt("run.thread"))?;
        let agent = self.store.agent_row(run.agent)?.ok_or(crate::Fault::Corrupt("run.agent"))?;
        if door.is_some_and(|door| *door != agent.id) {
            return Err(unknown().into());
        }
        Ok((run, thread, agent))
    }

    /// The authority set: as copied at the pause, else as it would be copied now.
    /// On a bound thread {head, provider}, so the head keeps its say over runs that
    /// the provider opened there.
    pub(crate) fn set_of(
        &self,
        run: &RunRow,
        thread: &ThreadRow,
        agent: &AgentRow,
        ask: Option<&AskRow>,
    ) -> Option<(Option<PublicKey>, PublicKey)> {
        if let Some(ask) = ask {
            return ask.provider.map(|provider| (ask.head, provider));
        }
        let head = thread.head.or(run.head)?;
        Some((Some(head), agent.id.provider))
    }

    /// Authority before anything else; then spent; then fresh. What an outsider is
    /// told never depends on the state of the run.
    fn with_an_act(
        &mut self,
        now: Moment,
        case: &Case<'_>,
        act: SignedAct<Resolve>,
        acting: Option<&ActingFor>,
    ) -> Result<Result<Right, Answered>, No> {
        let run = case.run;
        if act.run() != run.id.as_str() {
            return Err(other_run("answer", &run.id));
        }
        let digest = act.digest();
        let standing = act.stand(case.set, acting)?;
        let Some(spent) = self.store.spent(standing.authority(), standing.signer(), digest)? else {
            return Ok(Ok(Right::Act { authorized: standing.fresh(now)?, digest }));
        };
        if spent.purpose != "resolve" || spent.run != run.id {
            return Err(act_spent("answer"));
        }
        // The same request: the stored result, also after the window. Each pause of a
        // run is closed by one leg, so the spent leg tells which ask it was.
        if spent.answer_digest == Some(case.digest) {
            let asked = self.store.items(&run.id, spent.leg + 1)?;
            if case.reply.items.iter().all(|item| asked.iter().any(|known| known.id == item.id)) {
                return Ok(Err(continuation(run)));
            }
        }
        match case.ask {
            // These bytes closed this ask with another answer: say who won, the
            // signer may not know that its act was carried.
            Some(ask) if ask.closed_at.is_some() && ask.ordinal == spent.leg + 1 => Err(lost(run, ask)),
            _ => Err(act_spent("answer")),
        }
    }

    /// Without an act: an ask with no head at all stays open to whoever knows the
    /// id; a closed one lets a member follow what was answered elsewhere. Membership
    /// comes before the state: an outsider is told `act-required`, whatever the run does.
    fn without_an_act(&mut self, now: Moment, case: &Case<'_>, caller: Caller) -> Result<Result<Right, Answered>, No> {
        let run = case.run;
        let open = case.set.is_open();
        let waiting = run.status == Status::InputRequired;
        let not_waiting = || {
            Refusal::new(
                Code::RunEnded,
                format!("task: {} is not waiting for an answer, send with contextId only", run.id),
            )
        };
        // Where anybody may read the state it is no secret, and a client that follows up
        // on a finished task should learn what to do instead.
        if case.lane == Lane::Message && !waiting && self.policy.reads == ReadPolicy::Open {
            return Err(not_waiting().into());
        }
        if !open {
            self.belongs_to(now, &case.agent.id, case.thread, caller)?;
        }
        match (case.lane, case.ask) {
            (Lane::Message, _) if !waiting => Err(not_waiting().into()),
            (Lane::Resume, Some(_)) if case.follows() => Ok(Err(continuation(run))),
            _ if open => Ok(Ok(Right::Open)),
            (Lane::Resume, Some(ask)) if !waiting => Err(lost(run, ask)),
            (Lane::Resume, None) if !waiting => Err(no_open_ask(run)),
            _ => Err(act_required()),
        }
    }
}

/// Nothing changed; where the continuation of a run begins in its record: at the
/// newest answer.
fn continuation(run: &RunRow) -> Answered {
    let after = run.continued.map_or(0, |seq| seq.saturating_sub(1));
    Answered { run: run.id.clone(), thread: run.thread.clone(), replayed: true, after }
}

fn all_abandoned(reply: &Reply) -> bool {
    !reply.items.is_empty() && reply.items.iter().all(|item| item.abandoned)
}

/// Without the run's id: who is told this may not know it.
fn act_required() -> No {
    Refusal::new(
        Code::ActRequired,
        "answer: asks are answered by their authorities, send `resolution` in the request's metadata, signed over funduq-resolve:{run id}:{now}",
    )
    .into()
}

pub(crate) fn act_spent(what: &str) -> No {
    Refusal::new(Code::ActSpent, format!("{what}: this act was used before, sign again one second later")).into()
}

/// The door verified the act for another run than the one it hands in.
pub(crate) fn other_run(what: &str, run: &RunId) -> No {
    Refusal::new(Code::NotAnAuthority, format!("{what}: signed for another run than {run}")).into()
}

fn no_open_ask(run: &RunRow) -> No {
    Refusal::new(Code::NoOpenAsk, format!("answer: {} asks nothing", run.id)).into()
}

fn lost(run: &RunRow, ask: &AskRow) -> No {
    match (ask.closed_at, ask.closed_as.as_deref()) {
        (Some(at_s), Some("answered" | "by-provider")) => {
            Refusal::already_answered(Winner { authority: ask.authority, at_s }).into()
        }
        _ => no_open_ask(run),
    }
}
