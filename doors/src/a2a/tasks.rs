//! GetTask, ListTasks, CancelTask.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use wikala_chain::PublicKey;
use wikala_witness::{RunFilter, RunId, RunView, Stop, ThreadId};

use super::teller::Teller;
use super::{Call, Refused, Reply, invalid, params};
use crate::answer::{Method, Problem};
use crate::bag::Bag;
use crate::door;
use crate::house::App;

/// Tasks on a page, unless said otherwise; and at most.
const PAGE: (u64, u64) = (50, 100);

/// A task as it is now.
pub(super) async fn snapshot(
    app: &App,
    run: &RunId,
    viewer: Option<PublicKey>,
    history: Option<usize>,
    artifacts: bool,
) -> Result<(Value, RunView), Refused> {
    let run = run.clone();
    let (view, turn) = app
        .readers
        .read(move |reader| {
            let mut view = reader.run_for_operator(&run)?;
            if viewer.is_some() {
                view = reader.run(&run, viewer)?;
            }
            Ok((view, reader.turn_for_operator(&run)?))
        })
        .await?;
    let task = Teller::up_to(&view, &turn, u64::MAX).task(&view, &turn.legs, history, artifacts);
    Ok((task, view))
}

pub(super) async fn get(call: Call) -> Result<Reply, Refused> {
    let id = params::text(&call.params, "id")?.ok_or_else(|| invalid("id", "missing"))?;
    let about = |problem: Problem| Refused(problem.jsonrpc(Method::Other, Some(&id)));
    let history = params::number(&call.params, "historyLength")?.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let run = door::run_id(&id).map_err(about)?;
    let viewer = call.knock.viewer(&call.app).await?;
    let known = run.clone();
    let view = call.app.readers.read(move |reader| reader.run(&known, viewer)).await.map_err(|no| about(no.into()))?;
    if view.agent != call.agent {
        return Err(about(Problem::record(wikala_witness::Code::RunUnknown, format!("run: {run} is not known here"))));
    }
    let (task, view) = snapshot(&call.app, &run, viewer, history, true).await?;
    Ok(Reply::About(task, Box::new(view)))
}

pub(super) async fn list(call: Call) -> Result<Reply, Refused> {
    let viewer = call.knock.viewer(&call.app).await?;
    let size = match params::number(&call.params, "pageSize")? {
        None => PAGE.0,
        Some(size) if (1..=PAGE.1).contains(&size) => size,
        Some(_) => return Err(invalid("pageSize", "not 1 to 100")),
    };
    let cursor = match params::text(&call.params, "pageToken")? {
        None => None,
        Some(token) => Some(cursor(&token).ok_or_else(|| invalid("pageToken", "not a token of this list"))?),
    };
    let since = match params::text(&call.params, "statusTimestampAfter")? {
        None => None,
        Some(text) => Some(seconds(&text).ok_or_else(|| invalid("statusTimestampAfter", "not an RFC 3339 time"))?),
    };
    let history = params::number(&call.params, "historyLength")?.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let artifacts = params::flag(&call.params, "includeArtifacts")?;
    let statuses = params::states(&call.params)?;
    let thread = match params::text(&call.params, "contextId")? {
        None => None,
        // A context that is no id of ours has no tasks; that is no error.
        Some(context) => match ThreadId::parse(&context) {
            Some(thread) => Some(thread),
            None => return Ok(page(Vec::new(), String::new(), size, 0)),
        },
    };
    let filter = RunFilter { thread, statuses, since, cursor, limit: usize::try_from(size).unwrap_or(50) };
    let agent = call.agent.clone();
    let found = call.app.readers.read(move |reader| reader.runs(&agent, viewer, &filter)).await?;
    let mut tasks = Vec::with_capacity(found.runs.len());
    for run in &found.runs {
        tasks.push(snapshot(&call.app, run, None, history, artifacts).await?.0);
    }
    let next = found.next.map_or_else(String::new, |(at, run)| URL_SAFE_NO_PAD.encode(format!("{at}:{run}")));
    Ok(page(tasks, next, size, found.total))
}

fn page(tasks: Vec<Value>, next: String, size: u64, total: usize) -> Reply {
    Reply::Result(json!({ "tasks": tasks, "nextPageToken": next, "pageSize": size, "totalSize": total }))
}

fn cursor(token: &str) -> Option<(u64, RunId)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (at, run) = text.split_once(':')?;
    Some((at.parse().ok()?, RunId::parse(run)?))
}

/// RFC 3339 with any offset, in whole seconds.
fn seconds(text: &str) -> Option<u64> {
    let (base, offset_s) = match text.rfind(['+', '-']).filter(|at| *at > 10) {
        Some(at) => {
            let (hours, minutes) = text[at + 1..].split_once(':')?;
            let offset = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
            (format!("{}Z", &text[..at]), if text[at..].starts_with('-') { -offset } else { offset })
        }
        None => (text.to_uppercase(), 0),
    };
    let at = humantime::parse_rfc3339(&base).ok()?;
    let at = at.duration_since(std::time::SystemTime::UNIX_EPOCH).ok()?.as_secs();
    u64::try_from(i64::try_from(at).ok()? - offset_s).ok()
}

pub(super) async fn cancel(call: Call) -> Result<Reply, Refused> {
    let id = params::text(&call.params, "id")?.ok_or_else(|| invalid("id", "missing"))?;
    let about = |problem: Problem| Refused(problem.jsonrpc(Method::Cancel, Some(&id)));
    let run = door::run_id(&id).map_err(about)?;
    let bag = Bag::read(params::raw(&call.params, "metadata"), &call.app.cache).map_err(about)?;
    let signer = call.knock.signer(&call.app).map_err(about)?;
    let stop = Stop {
        agent: Some(call.agent.clone()),
        act: bag.cancel_act(run.as_str()).map_err(about)?,
        certificate: bag.consented(signer.as_ref()),
        run: run.clone(),
    };
    call.app.desk.ask(move |witness, now| witness.stop(now, stop)).await.map_err(|no| about(no.into()))?;
    let (task, view) = snapshot(&call.app, &run, None, None, true).await?;
    Ok(Reply::About(task, Box::new(view)))
}
