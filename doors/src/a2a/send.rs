//! SendMessage: a message becomes a run, or the answer a run waits for.

use wikala_chain::PublicKey;
use wikala_witness::obligation::Owing;
use wikala_witness::{
    AgentView, Answer, Caller, Code, Dialect, Lane, Lineage, No, Place, RunId, ThreadId, Utterance, Words,
};

use super::call::{Call, Said, no_push};
use super::draft::{Draft, Told};
use super::fields::Fields;
use super::refused::Refused;
use super::task::{Sheet, Show, whole};
use super::words::Message;
use crate::answer::{Door, Problem};
use crate::bag::Bag;
use crate::fanout::Tail;
use crate::house::App;
use crate::obligations::spec::{self, Asked};
use crate::obligations::{self, actions};
use crate::schemas;

/// What a message came to: a run, and where its part of the record begins.
pub(super) struct Entered {
    pub(super) run: RunId,
    pub(super) thread: ThreadId,
    pub(super) after: u64,
    /// The same act with the same answer came before.
    pub(super) replayed: bool,
    pub(super) show: Show,
    /// What it demands was demanded before, by the same request.
    pub(super) duplicate: bool,
    at_once: bool,
    /// The agent behind this address speaks A2A itself.
    pub(super) speaks_a2a: bool,
}

/// `SendMessage`: waits until the run has ended or asks, unless told to return at once.
pub(super) async fn send(call: &Call) -> Result<Said, Refused> {
    let entered = enter(call).await?;
    let Entered { run, thread, .. } = &entered;
    settle(call, &entered)
        .await
        .map(|result| Said::Whole(result, Some((run.clone(), thread.clone()))))
        .map_err(|refused| refused.about(run.as_str()))
}

async fn settle(call: &Call, entered: &Entered) -> Result<String, Refused> {
    let mut story = Story::of(&call.app, entered.run.clone(), Draft::new(), call.agent.provider)?;
    story.duplicate = entered.duplicate;
    // A replayed act is told how the task stands now, not made to wait for it again.
    let now_is_enough = entered.at_once || entered.replayed;
    if now_is_enough {
        let (draft, sheet) = read(&call.app, &entered.run, Some(call.agent.provider)).await?;
        return Ok(whole(&draft, &sheet.of(entered.duplicate), entered.show));
    }
    loop {
        let Some(told) = story.next().await? else { return Err(closing().into()) };
        let settled = told.iter().any(|told| matches!(told, Told::Paused | Told::Ended));
        if story.draft.seq > entered.after && settled {
            return Ok(whole(&story.draft, &story.sheet().await?, entered.show));
        }
    }
}

/// The house closes, the run does not.
pub(super) fn closing() -> Problem {
    Problem::door(Door::ShuttingDown, "house: closing, the task goes on, ask for it again in a moment")
}

/// Hands a message to the desk.
pub(super) async fn enter(call: &Call) -> Result<Entered, Refused> {
    let params = call.params()?;
    let view = call.view().await?;
    call.has_what(&view)?;
    let message = Message::read(&params)?;
    let task = message.task.clone();
    let speaks_a2a = view.upstream == Some(Dialect::A2a);
    let entered = hand_in(call, &view, &params, message).await.map(|entered| Entered { speaks_a2a, ..entered });
    entered.map_err(|refused| match task {
        Some(task) => refused.about(&task),
        None => refused,
    })
}

async fn hand_in(call: &Call, agent: &AgentView, params: &Fields, message: Message) -> Result<Entered, Refused> {
    let configuration = params.inner("configuration")?;
    let mut show = Show { history: None, artifacts: true };
    let mut at_once = false;
    if let Some(configuration) = &configuration {
        show.history = configuration.count("historyLength")?;
        at_once = configuration.flag("returnImmediately")?;
        if ["taskPushNotificationConfig", "pushNotificationConfig"].iter().any(|name| configuration.raw(name).is_some())
        {
            // Silence would let the caller wait for a call that never comes, and an agent of 0.3
            // would take it under its older name and call past the record.
            return Err(no_push());
        }
    }
    let bag = Bag::read(params.raw("metadata"), &call.app.cache)?;
    let words = Words { dialect: Dialect::A2a, text: call.raw_params().into() };
    match &message.task {
        Some(task) => {
            let run = RunId::parse(task).ok_or_else(|| Refused::no_task(task))?;
            let answered = answer(call, agent, run, &message, &bag, words).await?;
            let (run, thread) = (answered.run, answered.thread);
            Ok(Entered {
                run,
                thread,
                after: answered.after,
                replayed: answered.replayed,
                duplicate: false,
                show,
                at_once,
                speaks_a2a: false,
            })
        }
        None => {
            let opened = speak(call, agent, message, bag, words).await?;
            Ok(Entered {
                run: opened.run,
                thread: opened.thread,
                after: 0,
                replayed: false,
                duplicate: opened.owed.is_some_and(|owed| owed.duplicate),
                show,
                at_once,
                speaks_a2a: false,
            })
        }
    }
}

async fn speak(
    call: &Call,
    agent: &AgentView,
    message: Message,
    mut bag: Bag,
    words: Words,
) -> Result<wikala_witness::Opened, Refused> {
    let place = match &message.context {
        None => Place::New,
        // What is not of our form is the caller's own name for a thread, as on AG-UI.
        Some(context) => ThreadId::parse(context).map_or_else(|| Place::Alias(context.clone()), Place::Thread),
    };
    let signer = call.knock.signer(&call.app)?;
    let vouched = call.knock.vouched(&call.app)?;
    if bag.is_anonymous() && signer.is_none() && vouched.is_none() {
        call.knock.anonymous_run(&call.app)?;
    }
    let caller = bag.caller(&call.app.public_key(), &call.agent, signer, vouched)?;
    let owing = demanded(call, &message).await?;
    let said = Utterance {
        agent: call.agent.clone(),
        place,
        caller,
        words,
        extensions: call.activates(agent),
        lineage: Lineage { reference: message.reference, parent_run: None },
        vouchers: bag.vouchers.take(),
        addressed: bag.addressed.take().or(message.addressed),
        client_run: None,
        owing,
    };
    let opened = call.app.desk.ask(move |witness, now| witness.speak(now, said)).await?;
    if let Some(owed) = &opened.owed {
        actions::read_back(&call.app, owed).await?;
    }
    Ok(opened)
}

/// The answer a message demands, if its sender activated the extension: without that it is
/// the sender's own word, and passed on as it came.
async fn demanded(call: &Call, message: &Message) -> Result<Option<Owing>, Refused> {
    let Some(extension) = message.obligation.as_deref().filter(|_| call.speaks(obligations::EXTENSION)) else {
        return Ok(None);
    };
    let thread = message.context.as_deref().and_then(ThreadId::parse).ok_or_else(|| {
        Problem::record(
            Code::ObligationRequiresBoundThread,
            "obligation: its thread's id is signed, open one with POST /threads and send it as contextId",
        )
    })?;
    let role = if message.by_user { "ROLE_USER" } else { "ROLE_AGENT" };
    let asked = Asked { thread: &thread, kind: "post", message_id: &message.id, role, parts: &message.parts };
    Ok(Some(spec::read(extension, asked, spec::Stated::default()).await?))
}

async fn answer(
    call: &Call,
    agent: &AgentView,
    run: RunId,
    message: &Message,
    bag: &Bag,
    words: Words,
) -> Result<wikala_witness::Answered, Refused> {
    // Signatures first, then the target: wire.md, one order of checks everywhere.
    let act = bag.resolve_act(run.as_str())?;
    let signer = call.knock.signer(&call.app)?;
    let certificate = bag.consented(signer.as_ref());
    let target = run.clone();
    // Not a read for the caller, who learns nothing of it: what belongs to whom.
    let provider = Some(call.agent.provider);
    let view = call.app.readers.read(move |reader| reader.run(&target, provider)).await?;
    if view.agent != call.agent {
        return Err(Refused::no_task(run.as_str()));
    }
    let known = |context: &str| context == view.thread.as_str() || Some(context) == view.client_thread.as_deref();
    if message.context.as_deref().is_some_and(|context| !known(context)) {
        return Err(Refused::field("message.contextId", "not the context of this task, leave it out"));
    }
    if !message.by_user {
        return Err(Refused::field("message.role", "an answer speaks for the user, send ROLE_USER"));
    }
    let answer = Answer {
        agent: Some(call.agent.clone()),
        run,
        lane: Lane::Message,
        reply: message.reply(),
        digest: message.digest(),
        act,
        certificate,
        // A valid act is the whole right, and without one this lane has none: who
        // stands at the door changes nothing, so no presenter is spent here.
        caller: Caller::default(),
        words,
        extensions: call.activates(agent),
    };
    schemas::of_answer(&call.app, &answer.run).await;
    Ok(call.app.desk.ask(move |witness, now| witness.answer(now, answer)).await?)
}

/// The task as it stands: the entries, and what was read after them.
pub(super) async fn read(app: &App, run: &RunId, viewer: Option<PublicKey>) -> Result<(Draft, Sheet), Refused> {
    let run = run.clone();
    let (turn, view) =
        app.readers.read(move |reader| Ok::<_, No>((reader.turn(&run, viewer)?, reader.run(&run, viewer)?))).await?;
    Ok((Draft::of(&turn.entries), Sheet { view, legs: turn.legs }))
}

/// A run followed through its record.
pub(super) struct Story {
    pub(super) draft: Draft,
    app: App,
    run: RunId,
    viewer: Option<PublicKey>,
    tail: Tail,
    /// What it demands was demanded before.
    pub(super) duplicate: bool,
}

impl Story {
    /// Follows a run from where a draft stands, for somebody whom the desk let in: its
    /// reads go by the provider's right, for `--reads parties` knows callers by their
    /// request's signature only.
    pub(super) fn of(app: &App, run: RunId, draft: Draft, provider: PublicKey) -> Result<Story, Refused> {
        Self::seen_by(app, run, draft, Some(provider))
    }

    /// Follows a run as its viewer may read it.
    pub(super) fn seen_by(app: &App, run: RunId, draft: Draft, viewer: Option<PublicKey>) -> Result<Story, Refused> {
        let tail = Tail::of(app, run.clone(), draft.seq).ok_or_else(closing)?;
        Ok(Story { draft, app: app.clone(), run, viewer, tail, duplicate: false })
    }

    /// Hears the next entry; `None` when the house closes.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Told>>, Refused> {
        let recorded = self.tail.next().await?;
        Ok(recorded.map(|recorded| self.draft.hear(&recorded)))
    }

    /// What is read beside the entries heard so far.
    pub(super) async fn sheet(&self) -> Result<Sheet, Refused> {
        let (run, viewer, duplicate) = (self.run.clone(), self.viewer, self.duplicate);
        let sheet = self.app.readers.read(move |reader| {
            Ok::<_, No>(Sheet { legs: reader.legs(&run, viewer)?, view: reader.run(&run, viewer)? })
        });
        Ok(sheet.await?.of(duplicate))
    }
}
