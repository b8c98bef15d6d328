//! A caller's stream, told from the record: the provider's words as stored, with the
//! caller's own ids and the witness's note on the two events that begin and end a
//! run. A replay, a join and the live stream are the same telling.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Entry, Mark, Recorded, RunId, RunView};

use crate::answer::{Door, Problem};
use crate::bag;
use crate::fanout::Tail;
use crate::house::App;
use crate::limits::StreamPlace;
use crate::sse;

/// Who listens, and under which names it knows the run.
#[derive(Debug)]
pub(super) struct Audience {
    pub(super) run: RunId,
    /// Told from after this entry on.
    pub(super) after: u64,
    /// The caller's own ids.
    pub(super) thread_id: String,
    pub(super) run_id: String,
    /// It knows the `cancelled` outcome.
    pub(super) takes_cancelled: bool,
}

/// Begins the stream.
pub(super) async fn begin(app: &App, audience: Audience, place: StreamPlace) -> Result<Response, Problem> {
    let view = view(app, &audience.run).await?;
    let Some(mut tail) = Tail::of(app, audience.run.clone(), audience.after) else {
        return Err(Problem::door(Door::ShuttingDown, "house: closing, try again in a moment"));
    };
    let (out, mut response) = sse::response(app.settings.keep_alive);
    for (name, id) in [("wikala-run-id", view.run.as_str()), ("wikala-thread-id", view.thread.as_str())] {
        if let Ok(value) = HeaderValue::from_str(id) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    let app = app.clone();
    tokio::spawn(async move {
        let _place = place;
        let mut started = false;
        loop {
            let recorded = tokio::select! {
                recorded = tail.next() => recorded,
                () = out.gone() => return,
            };
            let recorded = match recorded {
                Ok(Some(recorded)) => recorded,
                // Never a clean end while the run goes on.
                _ => {
                    let words = "the house is closing, the run goes on: join it again in a moment";
                    let _ = out.data(&error(words, "wikala.shutting-down")).await;
                    return;
                }
            };
            match &recorded.entry {
                Entry::Words(words) => {
                    let kind = kind_of(&words.text);
                    started |= kind.as_deref() == Some("RUN_STARTED");
                    let sent = if matches!(kind.as_deref(), Some("RUN_STARTED" | "RUN_FINISHED")) {
                        let Ok(view) = self::view(&app, &audience.run).await else { return };
                        out.data(&edited(&words.text, &audience, &view)).await
                    } else {
                        out.data(&words.text).await
                    };
                    if sent.is_err() {
                        return;
                    }
                }
                Entry::Mark(mark) => {
                    for event in ours(mark, &audience, started) {
                        if out.data(&event).await.is_err() {
                            return;
                        }
                    }
                    if matches!(mark, Mark::Paused { .. } | Mark::Ended { .. })
                        && !goes_on(&app, &audience, &recorded).await
                    {
                        return;
                    }
                }
            }
        }
    });
    Ok(response)
}

/// A join from the beginning of a run that paused and went on is told all of it: the
/// stream ends where the run stands now.
async fn goes_on(app: &App, audience: &Audience, recorded: &Recorded) -> bool {
    let (run, after) = (audience.run.clone(), recorded.seq);
    if audience.after > 0 {
        return false;
    }
    app.readers.read(move |reader| reader.entries_unchecked(&run, after, 1)).await.is_ok_and(|next| !next.is_empty())
}

async fn view(app: &App, run: &RunId) -> Result<RunView, Problem> {
    let run = run.clone();
    Ok(app.readers.read(move |reader| reader.run_for_operator(&run)).await?)
}

fn kind_of(text: &str) -> Option<String> {
    json::string(RawObject::parse(text).ok()?.get("type")?.get())
}

/// The caller's ids and our note, spliced into the provider's bytes.
fn edited(text: &str, audience: &Audience, view: &RunView) -> String {
    let Ok(mut event) = RawObject::parse(text) else { return text.to_owned() };
    let mut set = |name: &str, text: String| {
        if let Ok(raw) = RawValue::from_string(text) {
            event.set(name, raw);
        }
    };
    set("threadId", json::quote(&audience.thread_id));
    set("runId", json::quote(&audience.run_id));
    let mut metadata = event.get("metadata").and_then(|raw| RawObject::parse(raw.get()).ok()).unwrap_or_default();
    if let Ok(note) = RawValue::from_string(bag::outward(view).to_string()) {
        metadata.set("wikala", note);
    }
    event.set("metadata", metadata.to_raw());
    event.to_raw().get().to_owned()
}

/// What we must say ourselves, where the provider has no last word of its own.
fn ours(mark: &Mark, audience: &Audience, started: bool) -> Vec<String> {
    let Mark::Ended { status, reason, in_words: false } = mark else { return Vec::new() };
    let ids = format!("\"threadId\":{},\"runId\":{}", json::quote(&audience.thread_id), json::quote(&audience.run_id));
    if status == "cancelled" {
        if !audience.takes_cancelled {
            return vec![error("the run was cancelled", "wikala.cancelled")];
        }
        let mut events = Vec::new();
        if !started {
            events.push(format!("{{\"type\":\"RUN_STARTED\",{ids}}}"));
        }
        events.push(format!("{{\"type\":\"RUN_FINISHED\",{ids},\"outcome\":{{\"type\":\"cancelled\"}}}}"));
        return events;
    }
    let reason = reason.as_deref().unwrap_or("failed");
    let word = reason.split(':').next().unwrap_or(reason);
    let coined = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let code = if coined { format!("wikala.{}", word.replace('_', "-")) } else { "wikala.refused".to_owned() };
    vec![error(reason, &code)]
}

fn error(message: &str, code: &str) -> String {
    format!("{{\"type\":\"RUN_ERROR\",\"message\":{},\"code\":{}}}", json::quote(message), json::quote(code))
}
