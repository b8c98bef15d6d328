//! Schemas are compiled here, off the desk and off the async threads: it is a stranger's work
//! to do, and nobody else waits for it. The desk finds them compiled.

use tokio::sync::Semaphore;
use wikala_witness::schema::{self, A_PAUSE};
use wikala_witness::{No, Question, RunId};

use crate::house::App;

/// How many are compiled at once, whoever brings them.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Does a stranger's work when its turn has come. `None`: it broke.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let _turn = TURNS.acquire().await.ok()?;
    tokio::task::spawn_blocking(work).await.ok()
}

/// Compiles what the questions of a pause demand, so that the desk need not.
pub async fn of_questions(questions: &[Question]) {
    let texts = questions.iter().filter_map(|question| schema::of_question(&question.text));
    compile(texts.take(A_PAUSE).collect()).await;
}

/// Compiles what the answer to an open pause is checked against.
pub async fn of_answer(app: &App, run: &RunId) {
    let id = run.clone();
    let Ok(view) = app.readers.read(move |reader| reader.run_for_operator(&id)).await else { return };
    let Some(ask) = view.asks.last().filter(|ask| ask.closed_at.is_none()) else { return };
    let enforced = ask.items.iter().filter(|item| item.schema.as_deref() == Some(schema::ENFORCED));
    let mut texts: Vec<String> =
        enforced.filter_map(|item| schema::of_question(&item.question)).take(A_PAUSE).collect();
    let owed: Vec<_> = ask.items.iter().filter_map(|item| Some(item.owed.as_ref()?.id.clone())).collect();
    let stored = app.readers.read(move |reader| {
        owed.iter().map(|id| Ok(reader.demanded_schema(id)?.map(|(_, text)| text))).collect::<Result<Vec<_>, No>>()
    });
    texts.extend(stored.await.unwrap_or_default().into_iter().flatten());
    compile(texts).await;
}

async fn compile(texts: Vec<String>) {
    if !texts.is_empty() {
        aside(move || texts.iter().for_each(|text| drop(schema::gate(text)))).await;
    }
}
