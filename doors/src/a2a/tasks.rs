//! GetTask, ListTasks, CancelTask.

use std::time::{Duration, SystemTime};

use wikala_chain::{base64url, json};
use wikala_witness::{No, RunFilter, RunId, Status, Stop, ThreadId};

use super::call::{Call, Said};
use super::draft::Draft;
use super::fields::Fields;
use super::refused::Refused;
use super::send::{Story, read};
use super::task::{Sheet, Show, list as json_list, object, task};
use crate::bag::Bag;

/// How many tasks a page holds unless asked otherwise, and at most.
const PAGE: u64 = 50;
const PAGE_MOST: u64 = 100;

/// `GetTask`.
pub(super) async fn get(call: &Call) -> Result<Said, Refused> {
    let params = call.params()?;
    let id = params.required("id")?;
    let history = params.count("historyLength")?;
    let look = async {
        let run = RunId::parse(&id).ok_or_else(|| Refused::no_task(&id))?;
        let viewer = call.knock.viewer(&call.app).await?;
        let (draft, sheet) = read(&call.app, &run, viewer).await?;
        if sheet.view.agent != call.agent {
            return Err(Refused::no_task(&id));
        }
        Ok(said(&draft, &sheet, Show { history, artifacts: true }))
    };
    look.await.map_err(|refused: Refused| refused.about(&id))
}

fn said(draft: &Draft, sheet: &Sheet, show: Show) -> Said {
    Said::Whole(task(draft, sheet, show), Some((sheet.view.run.clone(), sheet.view.thread.clone())))
}

/// `CancelTask`: a request to stop, under an authority's signature. What waits is
/// cancelled at once; what runs is asked, and is WORKING until its provider stops.
pub(super) async fn cancel(call: &Call) -> Result<Said, Refused> {
    let params = call.params()?;
    let id = params.required("id")?;
    let stop = async {
        let run = RunId::parse(&id).ok_or_else(|| Refused::no_task(&id))?;
        let bag = Bag::read(params.raw("metadata"), &call.app.cache)?;
        let act = bag.cancel_act(run.as_str())?;
        let signer = call.knock.signer(&call.app)?;
        let certificate = bag.consented(signer.as_ref());
        let stop = Stop { agent: Some(call.agent.clone()), run: run.clone(), act, certificate };
        let stopped = call.app.desk.ask(move |witness, now| witness.stop(now, stop)).await?;
        if !stopped.status.is_terminal() {
            // An agent that stops at once is told as stopped, not as asked to.
            let seen = see_end(call, &run);
            let _ = tokio::time::timeout(call.app.settings.stop_time, seen).await;
        }
        // Whoever may stop a run may see that it did; by whose right, see `Story::of`.
        let (draft, sheet) = read(&call.app, &run, Some(call.agent.provider)).await?;
        Ok(said(&draft, &sheet, Show { history: None, artifacts: true }))
    };
    stop.await.map_err(|refused: Refused| refused.about(&id))
}

/// Returns when the run has ended.
async fn see_end(call: &Call, run: &RunId) -> Result<(), Refused> {
    let mut story = Story::of(&call.app, run.clone(), Draft::new(), call.agent.provider)?;
    while !story.draft.state.is_terminal() && story.next().await?.is_some() {}
    Ok(())
}

/// `ListTasks`: a known context's tasks, or the viewer's own. Nothing is enumerated
/// to nobody. Histories are left out unless asked for: a page is a hundred tasks.
pub(super) async fn list(call: &Call) -> Result<Said, Refused> {
    let params = match call.params() {
        Ok(params) => params,
        Err(_) if call.raw_params() == "{}" => Fields::parse("{}", "params")?,
        Err(refused) => return Err(refused),
    };
    let size = params.count("pageSize")?.unwrap_or(PAGE);
    if size == 0 || size > PAGE_MOST {
        return Err(params.wrong("pageSize", "not between 1 and 100"));
    }
    let history = params.count("historyLength")?.unwrap_or(0);
    let show = Show { history: Some(history), artifacts: params.flag("includeArtifacts")? };
    let context = params.text("contextId")?;
    let statuses = statuses(&params)?;
    let since = params
        .text("statusTimestampAfter")?
        .map(|text| seconds(&text).ok_or_else(|| params.wrong("statusTimestampAfter", "not an RFC 3339 time")));
    let cursor = params
        .text("pageToken")?
        .map(|token| cursor(&token).ok_or_else(|| params.wrong("pageToken", "none of ours, leave it out to begin")));
    let viewer = call.knock.viewer(&call.app).await?;
    let thread = match &context {
        None => None,
        Some(context) => match ThreadId::parse(context) {
            Some(thread) => Some(thread),
            // A caller's own name for a thread, private to whoever gave it.
            None => {
                let (agent, name) = (call.agent.clone(), context.clone());
                call.app.readers.read(move |reader| reader.alias(&agent, &[(viewer, viewer)], &name)).await?
            }
        },
    };
    let filter = RunFilter {
        thread,
        since: since.transpose()?,
        cursor: cursor.transpose()?,
        limit: size as usize,
        statuses: statuses.clone().unwrap_or_default(),
    };
    // A context or a state that cannot be ours has no tasks.
    let nothing = (context.is_some() && filter.thread.is_none()) || statuses.is_none();
    let agent = call.agent.clone();
    let (page, tasks) = call
        .app
        .readers
        .read(move |reader| {
            if nothing {
                return Ok((wikala_witness::Page::default(), Vec::new()));
            }
            let page = reader.runs(&agent, viewer, &filter)?;
            let mut tasks = Vec::with_capacity(page.runs.len());
            for run in &page.runs {
                let turn = match reader.turn(run, viewer) {
                    Ok(turn) => turn,
                    // Listed, but not to be read by this viewer.
                    Err(No::Refusal(_)) => continue,
                    Err(fault) => return Err(fault),
                };
                let view = reader.run(run, viewer)?;
                tasks.push(task(&Draft::of(&turn.entries), &Sheet { view, legs: turn.legs }, show));
            }
            Ok((page, tasks))
        })
        .await?;
    let next = page.next.map(|(at, run)| base64url::encode(format!("{at}:{run}").as_bytes()));
    let result = object(&[
        ("tasks", json_list(tasks.into_iter())),
        ("nextPageToken", json::quote(&next.unwrap_or_default())),
        ("pageSize", size.to_string()),
        ("totalSize", page.total.to_string()),
    ]);
    Ok(Said::Whole(result, None))
}

/// The run statuses of the state asked for: empty for all, `None` for a state that
/// no task here is ever in.
fn statuses(params: &Fields) -> Result<Option<Vec<Status>>, Refused> {
    let Some(raw) = params.raw("status") else { return Ok(Some(Vec::new())) };
    let name = json::string(raw);
    Ok(match name.as_deref().unwrap_or(raw) {
        "" | "TASK_STATE_UNSPECIFIED" | "0" => Some(Vec::new()),
        "TASK_STATE_SUBMITTED" | "1" => Some(vec![Status::Queued, Status::Offering]),
        "TASK_STATE_WORKING" | "2" => Some(vec![Status::Running, Status::Cancelling]),
        "TASK_STATE_COMPLETED" | "3" => Some(vec![Status::Completed]),
        "TASK_STATE_FAILED" | "4" => Some(vec![Status::Failed]),
        "TASK_STATE_CANCELED" | "5" => Some(vec![Status::Cancelled]),
        "TASK_STATE_INPUT_REQUIRED" | "6" => Some(vec![Status::InputRequired]),
        "TASK_STATE_REJECTED" | "7" | "TASK_STATE_AUTH_REQUIRED" | "8" => None,
        _ => return Err(params.wrong("status", "not a task state")),
    })
}

/// Where a page ended. Not secret and not trusted: it only says where to go on.
fn cursor(token: &str) -> Option<(u64, RunId)> {
    let text = String::from_utf8(base64url::decode(token)?).ok()?;
    let (at, run) = text.split_once(':')?;
    // SQLite keeps signed integers; a later time than that is no time.
    let at = at.parse::<u64>().ok().filter(|at| i64::try_from(*at).is_ok())?;
    Some((at, RunId::parse(run)?))
}

/// The first whole second at or after an RFC 3339 time, UTC or with an offset.
fn seconds(text: &str) -> Option<u64> {
    let (local, offset) = match text.strip_suffix(['Z', 'z']) {
        Some(local) => (local, 0),
        None => {
            let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
            let (hours, minutes) = offset.get(1..)?.split_once(':')?;
            let size = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
            match offset.as_bytes().first()? {
                b'+' => (local, size),
                b'-' => (local, -size),
                _ => return None,
            }
        }
    };
    let at = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let at: Duration = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let whole = at.as_secs() + u64::from(at.subsec_nanos() > 0);
    whole.checked_add_signed(-offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_offsets_and_rounded_up() {
        for (text, expect) in [
            ("1970-01-01T00:00:10Z", Some(10)),
            ("1970-01-01T00:00:10.000Z", Some(10)),
            ("1970-01-01T00:00:10.5Z", Some(11)),
            ("1970-01-01T01:00:10+01:00", Some(10)),
            ("1970-01-01T00:00:10-00:01", Some(70)),
            ("1970-01-01T00:00:10+01:00", None),
            ("1970-01-01", None),
            ("", None),
            ("\u{e9}\u{e9}\u{e9}\u{e9}", None),
        ] {
            assert_eq!(seconds(text), expect, "{text}");
        }
    }

    #[test]
    fn a_token_is_ours_or_none() {
        let run = format!("run_{}", "0".repeat(24));
        let token = base64url::encode(format!("7:{run}").as_bytes());
        assert_eq!(cursor(&token).map(|(at, run)| (at, run.to_string())), Some((7, run.clone())));
        for bad in
            ["", "x", "!!", &base64url::encode(b"7"), &base64url::encode(format!("{}:{run}", u64::MAX).as_bytes())]
        {
            assert!(cursor(bad).is_none(), "{bad}");
        }
    }
}
