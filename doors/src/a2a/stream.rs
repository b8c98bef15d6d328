//! Streams of a task: the snapshot first, then what follows, each event a whole
//! JSON-RPC response.

use serde_json::{Value, json};
use wikala_witness::{Entry, Mark, RunId};

use super::teller::{Pause, Teller};
use super::{Call, Refused, Reply, envelope_text, invalid, name_run, params};
use crate::answer::{A2a, Door, Method, Problem};
use crate::door;
use crate::fanout::Tail;
use crate::house::App;
use crate::limits::StreamPlace;
use crate::sse;

/// Waits until a run pauses or ends after an entry.
pub(super) async fn until_settled(app: &App, run: &RunId, after: u64) -> Result<(), Refused> {
    let mut tail = Tail::of(app, run.clone(), after).ok_or_else(closing)?;
    loop {
        match tail.next().await? {
            None => return Err(closing().into()),
            Some(recorded) => {
                if let Entry::Mark(Mark::Paused { .. } | Mark::Ended { .. }) = recorded.entry {
                    return Ok(());
                }
            }
        }
    }
}

/// The run goes on without its caller; the sentence says how to find it again.
fn closing() -> Problem {
    Problem::door(Door::ShuttingDown, "house: closing, the task goes on, get it by its id in a moment")
}

/// SubscribeToTask.
pub(super) async fn subscribe(call: Call) -> Result<Reply, Refused> {
    let place = call.app.limits.stream(call.knock.peer)?;
    let id = params::text(&call.params, "id")?.ok_or_else(|| invalid("id", "missing"))?;
    let about = |problem: Problem| Refused(problem.jsonrpc(Method::Other, Some(&id)));
    let run = door::run_id(&id).map_err(about)?;
    let viewer = call.knock.viewer(&call.app).await?;
    let (known, agent) = (run.clone(), call.agent.clone());
    let view = call.app.readers.read(move |reader| reader.run(&known, viewer)).await.map_err(|no| about(no.into()))?;
    if view.agent != agent {
        return Err(about(Problem::record(wikala_witness::Code::RunUnknown, format!("run: {run} is not known here"))));
    }
    if view.status.is_terminal() {
        return Err(Refused(A2a::UnsupportedOperation.error("task: it has ended, get it instead", Some(&id))));
    }
    begin(&call, &run, None, false, None, place).await
}

/// Begins a stream: the task as of `after` (now, without it), then every event.
pub(super) async fn begin(
    call: &Call,
    run: &RunId,
    after: Option<u64>,
    closes_on_pause: bool,
    history: Option<usize>,
    place: StreamPlace,
) -> Result<Reply, Refused> {
    let app = call.app.clone();
    let known = run.clone();
    let (view, turn) = app
        .readers
        .read(move |reader| {
            let view = reader.run_for_operator(&known)?;
            Ok((view, reader.turn_for_operator(&known)?))
        })
        .await?;
    let mut teller = Teller::up_to(&view, &turn, after.unwrap_or(u64::MAX));
    let first = json!({ "task": teller.task(&view, &turn.legs, history, true) });
    let mut tail = Tail::of(&app, run.clone(), teller.seq).ok_or_else(closing)?;
    let (out, mut response) = sse::response(app.settings.keep_alive);
    name_run(response.headers_mut(), &view);
    let id = call.id.clone();
    tokio::spawn(async move {
        let _place = place;
        let event = |result: &Value| envelope_text(&id, "result", result);
        if out.data(&event(&first)).await.is_err() {
            return;
        }
        loop {
            let recorded = tokio::select! {
                recorded = tail.next() => recorded,
                () = out.gone() => return,
            };
            let recorded = match recorded {
                Ok(Some(recorded)) => recorded,
                // Never a clean end while the task goes on: both SDKs take one for success.
                Ok(None) => {
                    let _ = out.data(&envelope_text(&id, "error", &closing().jsonrpc(Method::Other, None))).await;
                    return;
                }
                Err(no) => {
                    let error = Problem::from(no).jsonrpc(Method::Other, None);
                    let _ = out.data(&envelope_text(&id, "error", &error)).await;
                    return;
                }
            };
            let (events, pause) = teller.hear(&recorded);
            for result in &events {
                if out.data(&event(result)).await.is_err() {
                    return;
                }
            }
            match pause {
                Pause::Terminal => return,
                Pause::Interrupted if closes_on_pause => return,
                _ => {}
            }
        }
    });
    Ok(Reply::Stream(response))
}
