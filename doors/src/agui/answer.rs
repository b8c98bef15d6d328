//! Is a request an answer, to which run, through which lane? Decided from what is
//! open, so that a resent history is not taken for an answer nor an answer for an
//! utterance; whether it may is the desk's decision, on every lane alike.

use std::collections::HashSet;

use wikala_certs::{Resolve, SignedAct};
use wikala_chain::PublicKey;
use wikala_witness::{AgentId, Caller, Code, ItemKind, Lane, PresenterPolicy, Presenting, RunId, ThreadId};

use super::input::{Content, Input};
use crate::answer::Problem;
use crate::bag::Bag;
use crate::house::App;

/// Who asks, with what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) app: &'a App,
    pub(super) agent: &'a AgentId,
    pub(super) input: &'a Input,
    pub(super) bag: &'a Bag,
    /// The key that signed the request or was vouched for.
    pub(super) key: Option<PublicKey>,
    /// Who stands at the door, if its proofs hold.
    pub(super) caller: Option<&'a Caller>,
}

/// An answer, for the desk.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) run: RunId,
    pub(super) lane: Lane,
    pub(super) content: Content,
    /// Verified for `run`.
    pub(super) act: Option<SignedAct<Resolve>>,
}

/// What a request is.
#[derive(Debug)]
pub(super) enum Sort {
    /// An answer.
    Answer(Box<Found>),
    /// An answer that found no ask: the desk says no, to members and outsiders each theirs.
    Unasked(ThreadId),
    /// Words.
    Utterance,
}

/// A thread that is there already.
#[derive(Debug, Clone)]
struct Known {
    thread: ThreadId,
    /// Found by what was only claimed: nothing about it may be told until an act holds.
    claimed: bool,
}

/// Finds the run that this request answers, if it is an answer.
///
/// # Errors
/// `no-open-ask` for a resume that answers nothing: it never opens a run.
/// `act-signature` for an act that does not hold.
pub(super) async fn find(asker: Asker<'_>) -> Result<Sort, Problem> {
    let input = asker.input;
    let known = asker.thread().await?;
    let (lane, content, place) = match (&input.resume, &input.command) {
        (Some(entries), _) => (Lane::Resume, entries.clone(), "resume"),
        (None, Some(value)) => (Lane::CallResult, Content::single(value.clone()), "command.resume"),
        (None, None) => {
            let found = match &known {
                Some(known) => asker.results(known).await?,
                None => None,
            };
            return Ok(found.map_or(Sort::Utterance, |found| Sort::Answer(Box::new(found))));
        }
    };
    if let Some(known) = &known {
        if let Some(found) = asker.answer(known, lane, content).await? {
            return Ok(Sort::Answer(Box::new(found)));
        }
        if !known.claimed {
            return Ok(Sort::Unasked(known.thread.clone()));
        }
    }
    Err(Problem::record(
        Code::NoOpenAsk,
        format!(
            "{place}: nothing in this thread asks for it; without a signature a thread is found by our id or a random UUID"
        ),
    ))
}

impl Asker<'_> {
    /// The thread the input names: by our id, or by the alias this caller has for it.
    async fn thread(self) -> Result<Option<Known>, Problem> {
        let name = &self.input.thread_id;
        if let Some(thread) = ThreadId::parse(name) {
            return Ok(Some(Known { thread, claimed: false }));
        }
        let stand = self.bag.stand(self.key);
        let proved = self.caller.is_some_and(|caller| {
            caller.chain.is_none()
                || !matches!(caller.presenter, Presenting::Nobody)
                || self.app.settings.policy.presenter == PresenterPolicy::Optional
        });
        if proved && let Some(thread) = self.alias(vec![stand]).await? {
            return Ok(Some(Known { thread, claimed: false }));
        }
        // An act needs no presenter beside it, so its alias is looked for under what
        // the request merely claims: the chain, and the act's authority as both head
        // and presenter. Anyone can claim: see `act`.
        let Some(authority) = self.bag.resolution_authority() else { return Ok(None) };
        let thread = self.alias(vec![stand, (Some(authority), Some(authority))]).await?;
        Ok(thread.map(|thread| Known { thread, claimed: true }))
    }

    async fn alias(self, stands: Vec<(Option<PublicKey>, Option<PublicKey>)>) -> Result<Option<ThreadId>, Problem> {
        let (agent, name) = (self.agent.clone(), self.input.thread_id.clone());
        Ok(self.app.readers.read(move |reader| reader.alias(&agent, &stands, &name)).await?)
    }

    /// Resume entries, with the results that the same pause left to the caller; or the
    /// older frameworks' answer, which names no item and is for the run that waits.
    ///
    /// With an act beside it, it is for the run the act was signed for, waiting or not: a
    /// repeat, a lost race or a mistake is told by that run.
    async fn answer(self, known: &Known, lane: Lane, content: Content) -> Result<Option<Found>, Problem> {
        let mut ids = content.ids();
        if lane == Lane::Resume {
            let open: HashSet<String> =
                self.open_calls(&known.thread).await?.into_iter().map(|(_, call)| call).collect();
            ids.extend(self.input.result_ids().into_iter().filter(|id| open.contains(id)));
        }
        let run = if self.bag.has_resolution() {
            self.signed_for(&known.thread).await?
        } else {
            self.target(&known.thread, ids).await?
        };
        match run {
            Some(run) => self.found(known, run, lane, Some(content)).await,
            None => Ok(None),
        }
    }

    /// The run of the thread that the act beside the request was signed for; else the
    /// likeliest, for which it will not hold.
    async fn signed_for(self, thread: &ThreadId) -> Result<Option<RunId>, Problem> {
        let thread = thread.clone();
        let runs = self.app.readers.read(move |reader| reader.likely_targets(&thread)).await?;
        let signed = |run: &&RunId| matches!(self.bag.resolve_act(run.as_str()), Ok(Some(_)));
        Ok(runs.iter().find(signed).or(runs.first()).cloned())
    }

    /// Clients resend whole histories: only a result for an open call is an answer.
    /// With an act beside it, one for a call closed lately is a repeat or a lost race,
    /// and its sender is told so instead of opening a run by it.
    async fn results(self, known: &Known) -> Result<Option<Found>, Problem> {
        let ids: HashSet<String> = self.input.result_ids().into_iter().collect();
        if ids.is_empty() {
            return Ok(None);
        }
        let open = self.open_calls(&known.thread).await?;
        if let Some((run, _)) = open.iter().find(|(_, call)| ids.contains(call)) {
            return self.found(known, run.clone(), Lane::CallResult, None).await;
        }
        if !self.bag.has_resolution() {
            return Ok(None);
        }
        let Some(run) = self.target(&known.thread, ids.into_iter().collect()).await? else { return Ok(None) };
        // An act for another run has nothing to do with this history.
        if !matches!(self.bag.resolve_act(run.as_str()), Ok(Some(_))) {
            return Ok(None);
        }
        self.found(known, run, Lane::CallResult, None).await
    }

    async fn found(
        self,
        known: &Known,
        run: RunId,
        lane: Lane,
        content: Option<Content>,
    ) -> Result<Option<Found>, Problem> {
        let id = run.clone();
        let view = self.app.readers.read(move |reader| reader.run_for_operator(&id)).await?;
        // Another agent's thread is as unknown here as one that never was.
        if view.agent != *self.agent {
            return Ok(None);
        }
        let Some(act) = self.act(known, &run)? else { return Ok(None) };
        // Of the newest ask, closed or not: a repeat must have the digest it had at first.
        let ask = view.asks.iter().max_by_key(|ask| ask.ordinal);
        let items = ask.map(|ask| ask.items.as_slice()).unwrap_or_default();
        let calls: Vec<String> =
            items.iter().filter(|item| item.kind == ItemKind::Call).map(|item| item.id.clone()).collect();
        let results = self.input.results(&calls);
        let content = match content {
            Some(content) if content.reply.single.is_some() => content,
            Some(content) => content.and(results),
            None => results,
        };
        Ok(Some(Found { run, lane, content, act }))
    }

    /// The act, verified for the run. A thread found by mere claims is nobody's to
    /// probe: without an act that holds, the answer is the one for no thread at all.
    fn act(self, known: &Known, run: &RunId) -> Result<Option<Option<SignedAct<Resolve>>>, Problem> {
        match self.bag.resolve_act(run.as_str()) {
            Ok(act) => Ok(Some(act)),
            Err(_) if known.claimed => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    async fn open_calls(self, thread: &ThreadId) -> Result<Vec<(RunId, String)>, Problem> {
        let thread = thread.clone();
        Ok(self.app.readers.read(move |reader| reader.open_calls(&thread)).await?)
    }

    async fn target(self, thread: &ThreadId, ids: Vec<String>) -> Result<Option<RunId>, Problem> {
        let thread = thread.clone();
        let target = self.app.readers.read(move |reader| {
            let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
            reader.resume_target(&thread, &ids)
        });
        Ok(target.await?)
    }
}
