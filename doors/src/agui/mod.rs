//! The AG-UI 1.0 door: one POST, answered by a stream of events. An utterance opens a
//! run; `resume`, a deferred call's result and `command.resume` answer one.

mod answer;
mod from_a2a;
mod input;
mod patch;
mod picture;
mod rows;
#[cfg(test)]
mod spoiled;
mod stream;
mod teller;
pub mod words;

pub use from_a2a::EVENT as A2A_EVENT;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use wikala_witness::obligation::Owing;
use wikala_witness::{Answer, Code, Dialect, Lineage, Place, ThreadId, Utterance, Words};

use crate::answer::{Door, Problem};
use crate::bag::Bag;
use crate::door::{self, Knock, Route};
use crate::house::App;
use crate::obligations::actions;
use crate::obligations::spec::{self, Asked};
use answer::{Asker, Found, Sort};
use input::Input;
use stream::Audience;
use teller::Names;

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new().route("/agui/{provider}/{name}", post(run)).route("/agui/{provider}/{name}/", post(run))
}

/// Refusals come before the stream, as a status and a short JSON body: clients and
/// runtimes in between show both. What happens to a run is told inside it.
async fn run(
    State(app): State<App>,
    Route((provider, name)): Route<(String, String)>,
    knock: Knock,
) -> Result<Response, Problem> {
    let text = knock.json()?;
    let input = Input::parse(text)?;
    let agent = door::agent(&app, &provider, &name).await?;
    // A place for the stream first: a refused stream must not have opened a run.
    let place = app.limits.streams.take(knock.peer)?;
    let mut bag = Bag::read(input.bag.as_deref(), &app.cache)?;
    for proof in &input.resolutions {
        bag.add_resolution(proof)?;
    }
    for certificate in &input.delegations {
        bag.add_delegation(certificate)?;
    }
    let signer = knock.signer(&app)?;
    let vouched = knock.vouched(&app)?;
    let key = signer.as_ref().map(|signer| signer.key).or(vouched);
    let anonymous = bag.is_anonymous() && key.is_none();
    let certificate = bag.consented(signer.as_ref());
    let caller = bag.caller(&app.public_key(), &agent, signer, vouched);
    let words = Words { dialect: Dialect::AgUi, text: text.into() };
    let names = Names {
        thread_id: input.thread_id.clone(),
        run_id: input.run_id.clone(),
        takes_cancelled: input.takes_cancelled,
    };

    let asker = Asker { app: &app, agent: &agent, input: &input, bag: &bag, key, caller: caller.as_ref().ok() };
    let sort = answer::find(asker).await?;
    if let Sort::Unasked(thread) = sort {
        let caller = caller?;
        let no = app.desk.ask(move |witness, now| witness.nothing_asked(now, &agent, &thread, caller)).await;
        return match no {
            Err(no) => Err(no.into()),
            Ok(never) => match never {},
        };
    }
    if let Sort::Answer(found) = sort {
        let Found { run, lane, content, act } = *found;
        let answer = Answer {
            agent: Some(agent),
            run,
            lane,
            digest: content.digest(),
            reply: content.reply,
            // Beside an act nobody need present anything: a proof that does not hold is
            // as good as none, one that does only says whose certificate came along.
            caller: if act.is_some() { caller.unwrap_or_default() } else { caller? },
            act,
            certificate,
            words,
            extensions: Vec::new(),
        };
        crate::schemas::of_answer(&app, &answer.run).await;
        let done = app.desk.ask(move |witness, now| witness.answer(now, answer)).await?;
        return stream::begin(
            &app,
            Audience { run: done.run, after: done.after, joins: None, duplicate: false, names },
            place,
        )
        .await;
    }
    if anonymous {
        knock.anonymous_run(&app)?;
    }
    let owing = demanded(&input).await?;
    let said = Utterance {
        agent,
        place: match ThreadId::parse(&input.thread_id) {
            Some(id) => Place::Thread(id),
            None => Place::Alias(input.thread_id.clone()),
        },
        caller: caller?,
        words,
        extensions: Vec::new(),
        lineage: Lineage { reference: None, parent_run: input.parent_run.clone() },
        vouchers: bag.vouchers.clone(),
        addressed: bag.addressed.clone(),
        client_run: Some((input.run_id.clone(), input.digest)),
        owing,
    };
    let opened = app.desk.ask(move |witness, now| witness.speak(now, said)).await?;
    if let Some(owed) = &opened.owed {
        actions::read_back(&app, owed).await?;
    }
    let joins = opened.joined.then(|| text.to_owned());
    let duplicate = opened.owed.is_some_and(|owed| owed.duplicate);
    stream::begin(&app, Audience { run: opened.run, after: 0, joins, duplicate, names }, place).await
}

/// The answer an input demands, in `forwardedProps`: of its newest message.
async fn demanded(input: &Input) -> Result<Option<Owing>, Problem> {
    let Some(extension) = &input.obligation else { return Ok(None) };
    let thread = ThreadId::parse(&input.thread_id).ok_or_else(|| {
        Problem::record(
            Code::ObligationRequiresBoundThread,
            "obligation: its thread's id is signed, open one with POST /threads and send it as threadId",
        )
    })?;
    let (message_id, content) = input.newest.as_ref().ok_or_else(|| {
        Problem::door(Door::BodyMalformed, "messages: none of the user's, an obligation is demanded with one")
    })?;
    let asked = Asked { thread: &thread, kind: "post", message_id, role: "user", parts: content };
    Ok(Some(spec::read(extension, asked, spec::Stated::default()).await?))
}
