//! A caller's stream, from the record alone: live, joined and replayed streams are the
//! same telling. The run does not end with it, and it never ends before the run stands still.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use wikala_witness::{Entry, Mark, RunId};

use super::teller::{Names, Teller, error};
use crate::answer::{Door, Problem};
use crate::fanout::Tail;
use crate::house::App;
use crate::limits::Place;
use crate::sse;

/// Who listens, from where on.
#[derive(Debug)]
pub(super) struct Audience {
    pub(super) run: RunId,
    /// Told from after this entry on.
    pub(super) after: u64,
    /// It joins a run that may have paused and gone on since: it is told all of it.
    pub(super) joins: bool,
    pub(super) names: Names,
}

/// Begins the stream.
///
/// # Errors
/// `shutting-down`; the record cannot be read.
pub(super) async fn begin(app: &App, audience: Audience, place: Place) -> Result<Response, Problem> {
    let Audience { run, after, joins, names } = audience;
    let known = run.clone();
    let view = app.readers.read(move |reader| reader.run_for_operator(&known)).await?;
    let Some(mut tail) = Tail::of(app, run.clone(), after) else {
        return Err(Problem::door(Door::ShuttingDown, "house: closing, the run goes on, join it again in a moment"));
    };
    let (out, mut response) = sse::response(app.settings.keep_alive);
    for (name, id) in [("wikala-run-id", view.run.as_str()), ("wikala-thread-id", view.thread.as_str())] {
        if let Ok(value) = HeaderValue::from_str(id) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    let mut teller = Teller::new(names, &view);
    let app = app.clone();
    tokio::spawn(async move {
        let _place = place;
        loop {
            let recorded = tokio::select! {
                recorded = tail.next() => recorded,
                // Nobody listens any more. That is not a cancel: the run goes on.
                () = out.gone() => return,
            };
            let recorded = match recorded {
                Ok(Some(recorded)) => recorded,
                // Clients take an end without a terminal event for success: never a
                // clean end while the run goes on.
                Ok(None) => {
                    let words = "house: closing, the run goes on, join it again in a moment";
                    let _ = out.data(&error(words, "wikala.shutting-down")).await;
                    return;
                }
                Err(no) => {
                    let problem = Problem::from(no);
                    let _ = out.data(&error(&problem.sentence, &format!("wikala.{}", problem.code.as_str()))).await;
                    return;
                }
            };
            for event in teller.hear(&recorded.entry) {
                if out.data(&event).await.is_err() {
                    return;
                }
            }
            let stands = match recorded.entry {
                Entry::Mark(Mark::Ended { .. }) => true,
                Entry::Mark(Mark::Paused { .. }) => !joins || is_last(&app, &run, recorded.seq).await,
                _ => false,
            };
            if stands {
                return;
            }
        }
    });
    Ok(response)
}

async fn is_last(app: &App, run: &RunId, seq: u64) -> bool {
    let run = run.clone();
    app.readers.read(move |reader| reader.entries_unchecked(&run, seq, 1)).await.map_or(true, |next| next.is_empty())
}
