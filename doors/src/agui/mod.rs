//! The AG-UI 1.0 door: one POST, answered by a stream of events. An utterance opens a
//! run; `resume`, a deferred call's result and `command.resume` answer one.

mod input;
mod stream;
pub mod words;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use wikala_chain::PublicKey;
use wikala_witness::{AgentId, Answer, Caller, Code, Dialect, Lane, Lineage, Place, RunId, ThreadId, Utterance, Words};

use crate::answer::Problem;
use crate::bag::Bag;
use crate::door::{self, Knock};
use crate::house::App;
use crate::presenter::HttpSigner;
use input::Input;
use stream::Audience;

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new().route("/agui/{provider}/{name}", post(run)).route("/agui/{provider}/{name}/", post(run))
}

async fn run(
    State(app): State<App>,
    Path((provider, name)): Path<(String, String)>,
    knock: Knock,
) -> Result<Response, Problem> {
    let text = knock.json()?.to_owned();
    let input = Input::parse(&text)?;
    let agent = door::agent(&app, &provider, &name).await?;
    // A place for the stream first: a refused stream must not have opened a run.
    let place = app.limits.stream(knock.peer)?;
    let mut bag = Bag::read(input.bag.as_deref(), &app.cache)?;
    for proof in &input.resolutions {
        bag.add_resolution(proof)?;
    }
    let signer = knock.signer(&app)?;
    let thread = thread(&app, &agent, &input, &bag, signer.as_ref()).await?;
    let audience = |run: RunId, after: u64| Audience {
        run,
        after,
        thread_id: input.thread_id.clone(),
        run_id: input.run_id.clone(),
        takes_cancelled: input.takes_cancelled,
    };
    if let Some((lane, run, reply)) = answer_of(&app, &input, thread.as_ref()).await? {
        let words = Words { dialect: Dialect::AgUi, text: text.as_str().into() };
        let act = bag.resolve_act(run.as_str())?;
        let answer = Answer {
            agent: Some(agent.clone()),
            certificate: bag.consented(signer.as_ref()),
            // Beside a valid act nobody need present anything: what came along is not looked at.
            caller: if act.is_some() { Caller::default() } else { knock.caller(&app, &agent, &bag)? },
            run,
            lane,
            digest: reply.digest,
            reply: reply.said,
            act,
            words,
        };
        let done = app.desk.ask(move |witness, now| witness.answer(now, answer)).await?;
        return stream::begin(&app, audience(done.run, done.after), place).await;
    }
    let vouched = knock.vouched(&app)?;
    if bag.is_anonymous() && signer.is_none() && vouched.is_none() {
        knock.anonymous_run(&app)?;
    }
    let said = Utterance {
        place: match ThreadId::parse(&input.thread_id) {
            Some(id) => Place::Thread(id),
            None => Place::Alias(input.thread_id.clone()),
        },
        caller: bag.caller(&app.public_key(), &agent, signer, vouched)?,
        agent,
        words: Words { dialect: Dialect::AgUi, text: text.as_str().into() },
        lineage: Lineage { reference: None, parent_run: input.parent_run.clone() },
        vouchers: bag.vouchers.clone(),
        addressed: bag.addressed.clone(),
        client_run: Some((input.run_id.clone(), input.digest)),
    };
    let opened = app.desk.ask(move |witness, now| witness.speak(now, said)).await?;
    stream::begin(&app, audience(opened.run, 0), place).await
}

/// The thread an input names, if it is there already: by our id, or by the alias
/// this caller would have for it.
async fn thread(
    app: &App,
    agent: &AgentId,
    input: &Input,
    bag: &Bag,
    signer: Option<&HttpSigner>,
) -> Result<Option<ThreadId>, Problem> {
    if let Some(id) = ThreadId::parse(&input.thread_id) {
        return Ok(Some(id));
    }
    let mut stands: Vec<(Option<PublicKey>, Option<PublicKey>)> = vec![bag.stand(signer)];
    // For a request with an act and no chain, head and presenter are the act's authority.
    if let Some(authority) = bag.resolution_authority() {
        stands.push((Some(authority), Some(authority)));
    }
    let (agent, name) = (agent.clone(), input.thread_id.clone());
    Ok(app.readers.read(move |reader| reader.alias(&agent, &stands, &name)).await?)
}

/// Is it an answer, to which run, through which lane? All lanes are gated alike: a
/// tool result is no way around a resume.
async fn answer_of(
    app: &App,
    input: &Input,
    thread: Option<&ThreadId>,
) -> Result<Option<(Lane, RunId, input::Content)>, Problem> {
    if let Some(content) = input.resume()? {
        let ids = content.ids();
        let run = match thread {
            Some(thread) => target(app, thread, ids).await?,
            None => None,
        };
        // A resume never becomes an utterance.
        let run = run.ok_or_else(|| Problem::record(Code::NoOpenAsk, "resume: nothing in this thread asks for it"))?;
        // One pause may ask for both: results for its open calls go along.
        let open = match thread {
            Some(thread) if input.has_results() => open_calls(app, thread).await?,
            _ => Vec::new(),
        };
        let calls: Vec<&str> = open.iter().filter(|(of, _)| *of == run).map(|(_, call)| call.as_str()).collect();
        return Ok(Some((Lane::Resume, run, content.and(input.results(&calls)))));
    }
    let Some(thread) = thread else {
        return match input.command() {
            Some(_) => Err(Problem::record(Code::NoOpenAsk, "command.resume: nothing in this thread asks for it")),
            None => Ok(None),
        };
    };
    if let Some(content) = input.command() {
        let run = target(app, thread, Vec::new()).await?;
        let run =
            run.ok_or_else(|| Problem::record(Code::NoOpenAsk, "command.resume: nothing in this thread asks for it"))?;
        return Ok(Some((Lane::CallResult, run, content)));
    }
    if !input.has_results() {
        return Ok(None);
    }
    let open = open_calls(app, thread).await?;
    // Clients resend whole histories: only a result for an open call is an answer.
    let Some((run, _)) = open.iter().find(|(_, call)| input.answers(call)) else { return Ok(None) };
    let calls: Vec<&str> = open.iter().filter(|(of, _)| of == run).map(|(_, call)| call.as_str()).collect();
    Ok(Some((Lane::CallResult, run.clone(), input.results(&calls))))
}

async fn open_calls(app: &App, thread: &ThreadId) -> Result<Vec<(RunId, String)>, Problem> {
    let thread = thread.clone();
    Ok(app.readers.read(move |reader| reader.open_calls(&thread)).await?)
}

async fn target(app: &App, thread: &ThreadId, ids: Vec<String>) -> Result<Option<RunId>, Problem> {
    let thread = thread.clone();
    Ok(app
        .readers
        .read(move |reader| {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            reader.resume_target(&thread, &ids)
        })
        .await?)
}
