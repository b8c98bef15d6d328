//! A question that demands an answer: an agent stops to ask and signs that it is owed one.
//! What it demands is read out of its words before they go to the desk.

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::obligation::Owing;
use wikala_witness::{Fact, LinkId, NotOwed, Question, RunId, ThreadId, Words};

use super::spec::{self, Asked, EXTENSION, Stated};
use crate::house::App;
use crate::schemas;

/// Puts a provider's event on record, and what its questions demand with it.
///
/// # Errors
/// As the witness's `event`.
pub async fn event(
    app: &App,
    link: LinkId,
    run: &RunId,
    mut fact: Fact,
    words: Words,
    seq: Option<u64>,
) -> Result<(), wikala_witness::No> {
    let asked = read(app, run, &mut fact).await;
    let id = run.clone();
    app.desk.ask(move |witness, now| witness.event(now, link, &id, fact, words, seq).map(|_| ())).await?;
    if asked {
        read_back(app, run).await;
    }
    Ok(())
}

/// How many answers one pause may demand: each may bring a schema to compile.
const DEMANDS: usize = 16;

/// Reads what the questions of an event demand, into them. False: nothing is demanded.
pub async fn read(app: &App, run: &RunId, fact: &mut Fact) -> bool {
    let Fact::Ended { questions, .. } = fact else { return false };
    schemas::of_questions(questions).await;
    let demanding = |question: &&mut Question| {
        // Only what could hold it is parsed; an escape may spell any key.
        let may = question.text.contains(EXTENSION) || question.text.contains('\\');
        may && asking(&question.text).is_some_and(|asking| parted(&asking).is_some())
    };
    let mut demanding: Vec<&mut Question> = questions.iter_mut().filter(demanding).collect();
    if demanding.is_empty() {
        return false;
    }
    let id = run.clone();
    // A run that is not known has nobody to owe anything: the desk says so.
    let Ok(view) = app.readers.read(move |reader| reader.run_for_operator(&id)).await else { return false };
    for question in demanding.iter_mut().skip(DEMANDS) {
        let message = format!("obligation: a pause demands at most {DEMANDS} answers, ask again for more");
        question.owing = Some(Err(NotOwed { code: "limit-out-of-range".to_owned(), message }));
    }
    for question in demanding.iter_mut().take(DEMANDS) {
        question.owing = demand(&view.thread, question).await;
    }
    true
}

async fn demand(thread: &ThreadId, question: &Question) -> Option<Result<Box<Owing>, NotOwed>> {
    let whole = RawObject::parse(&question.text).ok()?;
    let member = |name: &str| whole.get(name).map(RawValue::get).filter(|raw| *raw != "null");
    let (extension, bare) = parted(&asking(&question.text)?)?;
    let named = RawObject::parse(&bare).ok()?;
    let id = named.get("id").or_else(|| named.get("messageId")).and_then(|raw| json::string(raw.get()));
    let parts = format!("[{{\"data\":{bare}}}]");
    let message_id = id.unwrap_or_default();
    let asked = Asked { thread, kind: "ask", message_id: &message_id, role: "ROLE_AGENT", parts: &parts };
    let stated = Stated { deadline: member("expiresAt"), schema: member("responseSchema") };
    let read = spec::read(&extension, asked, stated).await;
    Some(read.map(Box::new).map_err(|no| NotOwed { code: no.code.as_str().to_owned(), message: no.sentence }))
}

/// A2A asks with a message, AG-UI with the question itself (whose `message` is a text).
fn asking(question: &str) -> Option<String> {
    let message = RawObject::parse(question).ok()?.get("message").map(|raw| raw.get().to_owned());
    Some(message.filter(|raw| raw.starts_with('{')).unwrap_or_else(|| question.to_owned()))
}

/// What a question demands, and the question without it: what its author signed. Nothing
/// stays of a `metadata` that held nothing else.
fn parted(asking: &str) -> Option<(String, String)> {
    let metadata = RawObject::parse(asking).ok()?.get("metadata")?.get().to_owned();
    let members = RawObject::parse(&metadata).ok()?;
    let extension = members.get(EXTENSION)?.get().to_owned();
    let left = json::edit(&metadata, &[(EXTENSION, None)]).ok()?;
    let left = (members.len() > 1).then_some(left.as_str());
    Some((extension, json::edit(asking, &[("metadata", left)]).ok()?))
}

/// After the commit: the questions are read back by another connection.
pub async fn read_back(app: &App, run: &RunId) {
    let id = run.clone();
    let Ok(view) = app.readers.read(move |reader| reader.run_for_operator(&id)).await else { return };
    for owed in view.asks.last().iter().flat_map(|ask| &ask.items).filter_map(|item| item.owed.as_ref()) {
        // On record either way: what is not read back is not yet delivered, and says so.
        if let Err(no) = super::actions::read_back(app, owed).await {
            tracing::error!(code = no.code.as_str(), %run, "a question that demands an answer could not be read back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_the_question_alone() {
        let own = format!("\"metadata\":{{\"{EXTENSION}\":{{\"v\":1}}}}");
        let parts = |text: &str| parted(text).map(|(extension, bare)| format!("{extension} {bare}"));
        assert_eq!(parts(&format!("{{\"id\":\"q\",{own}}}")).as_deref(), Some("{\"v\":1} {\"id\":\"q\"}"));
        let beside = format!("{{\"metadata\":{{\"x\":1.0,\"{EXTENSION}\":{{}}}}}}");
        assert_eq!(parts(&beside).as_deref(), Some("{} {\"metadata\":{\"x\":1.0}}"));
        for none in ["{}", "[]", "{\"metadata\":{}}", "{\"metadata\":1}"] {
            assert_eq!(parts(none), None, "{none}");
        }
    }
}
