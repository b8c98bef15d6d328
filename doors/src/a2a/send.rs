//! SendMessage and SendStreamingMessage: an utterance that opens a run, or, with the
//! id of a waiting task, an answer to it. Never the one taken for the other.

use serde_json::json;
use serde_json::value::RawValue;
use wikala_chain::{Digest, RawObject, json as strict};
use wikala_witness::{
    Answer, Dialect, ItemKind, Lane, Lineage, No, Place, Reply as Said, ReplyItem, RunId, ThreadId, Utterance, Words,
};

use super::{Call, Refused, Reply, invalid, params, stream, tasks};
use crate::answer::{Method, Problem};
use crate::bag::{self, Bag};
use crate::door;

/// What a send came to.
pub(super) struct Landed {
    pub(super) run: RunId,
    /// The stream begins after this entry.
    pub(super) after: u64,
    /// Nothing new began: show the task as it is.
    pub(super) replayed: bool,
}

/// The parts of the params that matter here.
struct Sending {
    message: RawObject,
    bag: Bag,
    task: Option<String>,
    context: Option<String>,
    return_at_once: bool,
    history: Option<usize>,
}

pub(super) async fn send(call: Call) -> Result<Reply, Refused> {
    let sending = read(&call)?;
    let (at_once, history) = (sending.return_at_once, sending.history);
    let landed = land(&call, sending).await?;
    if !at_once && !landed.replayed {
        stream::until_settled(&call.app, &landed.run, landed.after).await?;
    }
    let (task, view) = tasks::snapshot(&call.app, &landed.run, None, history, true).await?;
    Ok(Reply::About(json!({ "task": task }), Box::new(view)))
}

pub(super) async fn stream(call: Call) -> Result<Reply, Refused> {
    // A place for the stream first: a refused stream must not have opened a run.
    let place = call.app.limits.stream(call.knock.peer)?;
    let sending = read(&call)?;
    let history = sending.history;
    let landed = land(&call, sending).await?;
    stream::begin(&call, &landed.run, Some(landed.after), true, history, place).await
}

fn read(call: &Call) -> Result<Sending, Refused> {
    let message = params::object(&call.params, "message")?.ok_or_else(|| invalid("message", "missing"))?;
    if params::text(&message, "messageId")?.is_none() {
        return Err(invalid("message.messageId", "missing"));
    }
    match params::raw(&message, "role") {
        Some("\"ROLE_USER\"" | "\"ROLE_AGENT\"" | "1" | "2") => {}
        _ => return Err(invalid("message.role", "neither ROLE_USER nor ROLE_AGENT")),
    }
    let parts: Vec<&RawValue> = serde_json::from_str(params::raw(&message, "parts").unwrap_or("[]"))
        .map_err(|_| invalid("message.parts", "not a list"))?;
    if parts.is_empty() {
        return Err(invalid("message.parts", "empty, send at least one part"));
    }
    let configuration = params::object(&call.params, "configuration")?.unwrap_or_default();
    let mut bag = Bag::read(params::raw(&call.params, "metadata"), &call.app.cache)?;
    if let Some(members) = params::object(&message, "metadata")? {
        // The reference's clients name the run they interject into here.
        let addressed = members.get(bag::REFERENCE_ADDRESSED).and_then(|raw| strict::string(raw.get()));
        bag.addressed = bag.addressed.take().or(addressed);
    }
    Ok(Sending {
        task: params::text(&message, "taskId")?,
        context: params::text(&message, "contextId")?,
        message,
        bag,
        return_at_once: params::flag(&configuration, "returnImmediately")?,
        history: params::number(&configuration, "historyLength")?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
    })
}

async fn land(call: &Call, sending: Sending) -> Result<Landed, Refused> {
    match sending.task.clone() {
        Some(task) => answer(call, sending, &task).await,
        None => speak(call, sending).await,
    }
}

async fn speak(call: &Call, sending: Sending) -> Result<Landed, Refused> {
    let signer = call.knock.signer(&call.app)?;
    let vouched = call.knock.vouched(&call.app)?;
    if sending.bag.is_anonymous() && signer.is_none() && vouched.is_none() {
        call.knock.anonymous_run(&call.app)?;
    }
    let place =
        match &sending.context {
            None => Place::New,
            Some(context) => Place::Thread(ThreadId::parse(context).ok_or_else(|| {
                invalid("message.contextId", "not a context of this agent, leave it out to begin one")
            })?),
        };
    let said = Utterance {
        agent: call.agent.clone(),
        place,
        caller: sending.bag.caller(&call.app.public_key(), &call.agent, signer, vouched)?,
        words: Words { dialect: Dialect::A2a, text: call.words.as_str().into() },
        lineage: Lineage {
            reference: params::texts(&sending.message, "referenceTaskIds")?.into_iter().next(),
            parent_run: None,
        },
        vouchers: sending.bag.vouchers.clone(),
        addressed: sending.bag.addressed.clone(),
        client_run: None,
    };
    let opened = call.app.desk.ask(move |witness, now| witness.speak(now, said)).await?;
    Ok(Landed { run: opened.run, after: 0, replayed: false })
}

async fn answer(call: &Call, sending: Sending, task: &str) -> Result<Landed, Refused> {
    let about = |problem: Problem| Refused(problem.jsonrpc(Method::Other, Some(task)));
    let run = door::run_id(task).map_err(about)?;
    // A context that is not the task's is refused before anything is written.
    let known = run.clone();
    let view =
        call.app.readers.read(move |reader| reader.run_for_operator(&known)).await.map_err(|no| about(no.into()))?;
    if view.agent != call.agent {
        return Err(about(Problem::record(wikala_witness::Code::RunUnknown, format!("run: {run} is not known here"))));
    }
    if sending.context.as_deref().is_some_and(|context| context != view.thread.as_str()) {
        return Err(invalid("message.contextId", "not the context of this task, leave it out"));
    }
    let signer = call.knock.signer(&call.app)?;
    let parts = params::raw(&sending.message, "parts").unwrap_or("[]");
    let answer = Answer {
        agent: Some(call.agent.clone()),
        run: run.clone(),
        lane: Lane::Message,
        reply: reply(parts),
        digest: Digest::of(parts.as_bytes()),
        act: sending.bag.resolve_act(run.as_str()).map_err(about)?,
        certificate: sending.bag.consented(signer.as_ref()),
        caller: wikala_witness::Caller::default(),
        words: Words { dialect: Dialect::A2a, text: call.words.as_str().into() },
    };
    let done = call.app.desk.ask(move |witness, now| witness.answer(now, answer)).await;
    let done = done.map_err(|no: No| about(no.into()))?;
    Ok(Landed { run: done.run, after: done.after, replayed: done.replayed })
}

/// A message read as an answer, in both ways it may be meant: one text or data part
/// is the value of a single open item; one data part may hold entries for several.
fn reply(parts: &str) -> Said {
    let list: Vec<&RawValue> = serde_json::from_str(parts).unwrap_or_default();
    let [only] = list.as_slice() else { return Said::default() };
    let Ok(part) = RawObject::parse(only.get()) else { return Said::default() };
    if let Some(text) = part.get("text") {
        return Said { items: Vec::new(), single: Some(text.get().to_owned()) };
    }
    let Some(data) = part.get("data").map(RawValue::get) else { return Said::default() };
    Said { items: entries(data), single: Some(data.to_owned()) }
}

/// Resume entries, as a list or under `resume`.
fn entries(data: &str) -> Vec<ReplyItem> {
    let list = match RawObject::parse(data) {
        Ok(object) => object.get("resume").map(|raw| raw.get().to_owned()).unwrap_or_default(),
        Err(_) => data.to_owned(),
    };
    let entries: Vec<&RawValue> = serde_json::from_str(&list).unwrap_or_default();
    entries
        .into_iter()
        .filter_map(|entry| {
            let entry = RawObject::parse(entry.get()).ok()?;
            let id = entry.get("interruptId").or_else(|| entry.get("toolCallId"))?;
            let abandoned = entry.get("status").is_some_and(|raw| raw.get() == "\"cancelled\"");
            let payload = entry.get("payload").or_else(|| entry.get("content")).map(|raw| raw.get().to_owned());
            Some(ReplyItem {
                id: strict::string(id.get())?,
                kind: ItemKind::Interrupt,
                abandoned,
                payload: payload.filter(|_| !abandoned),
            })
        })
        .collect()
}
