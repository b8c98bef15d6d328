//! An AG-UI agent behind HTTP: one POST a leg, its events on record as they come.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use wikala_chain::{RawObject, json};
use wikala_witness::{Dialect, Fact, No, ThreadId, UpstreamNames};

use super::outbound::{Outbound, is_stream, whole};
use super::run::Run;
use crate::agui::words;
use crate::{delivery, messages};

/// How long an agent may say nothing, not even a comment.
const SILENCE: Duration = Duration::from_secs(300);
/// How long an agent that was asked to stop may go on: the protocol has no word for
/// stop but the closed connection, and its own last word is worth a moment.
const DRAIN: Duration = Duration::from_secs(5);

/// Carries one leg: asks, and listens to its last word. Whoever calls it finishes the leg.
pub(super) async fn carry(run: &Run, outbound: &Outbound, url: &str) {
    // A run goes on under the same id here; there each leg is a run of its own.
    let leg = run.delivery.leg.ordinal;
    let own = run.delivery.run.as_str();
    let name = if leg == 0 { own.to_owned() } else { format!("{own}.{leg}") };
    let mut body = delivery::agui_body(&run.delivery, &thread_name(&run.delivery.thread), &name);
    if run.delivery.leg.words.dialect != Dialect::AgUi {
        body = match with_history(run, &body).await {
            Ok(body) => body,
            Err(no) => return tracing::error!(%no, run = own, "a thread's history could not be read"),
        };
    }
    let wanted = [("accept", "text/event-stream"), ("content-type", "application/json")];
    let asked = outbound.send(Method::POST, url, Some(&body), &wanted);
    let stop = run.stop.clone();
    let (status, headers, answer) = tokio::select! {
        asked = asked => match asked {
            Ok(answer) => answer,
            Err(failed) => return run.failed(&failed).await,
        },
        () = stopped(stop.clone()) => return,
    };
    if status != StatusCode::OK || !is_stream(&headers) {
        // Its sentence is the operator's to read: a caller is told the status.
        let text = whole(answer).await.unwrap_or_default();
        let text: String = text.chars().take(300).collect();
        tracing::warn!(run = own, status = status.as_u16(), text, "an AG-UI upstream gave no event stream");
        return run.fail(format!("upstream_refused: HTTP {}, no event stream", status.as_u16())).await;
    }
    let mut events = Outbound::events(headers, answer);
    loop {
        let next = tokio::select! {
            next = events.next_within(SILENCE) => next,
            () = stopped(stop.clone()) => return,
        };
        let event = match next {
            Ok(Some(event)) => event,
            // An end without a last word is no end: clients would take it for one.
            Ok(None) => return run.fail("upstream_truncated: the stream ended without a last event".into()).await,
            Err(why) => return run.fail(format!("upstream_truncated: {why}")).await,
        };
        let event = match words::read(&event.data) {
            Ok(event) => event,
            Err(why) => return run.fail(format!("provider_event_malformed: {why}")).await,
        };
        let last = matches!(event.fact, Fact::Ended { .. } | Fact::Failed(_));
        if run.event(event.fact, event.words, UpstreamNames::default()).await.is_err() || last {
            return;
        }
    }
}

/// What such an agent calls a thread: a UUID, as the protocol's clients make them and some
/// frameworks demand. One of our own form would name a thread of *its* own to a witness that
/// stands there.
fn thread_name(thread: &ThreadId) -> String {
    let digest = Sha256::digest(format!("wikala-agui-thread:{thread}"));
    let mut bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
    // RFC 9562: version 4, variant 10. Who does not know our id finds it no sooner than that.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// These agents are told the whole conversation each time, as their own clients do. A caller
/// of another dialect sends its newest words alone: the record has the rest.
async fn with_history(run: &Run, body: &str) -> Result<String, No> {
    let (thread, provider) = (run.delivery.thread.clone(), run.delivery.agent.provider);
    let turns = run.app.readers.read(move |reader| reader.turns_for_provider(&thread, provider)).await?;
    let mut all = messages::of(&turns);
    let new = RawObject::parse(body).ok().and_then(|body| body.get("messages").map(|raw| raw.get().to_owned()));
    let member = |text: &str, name: &str| {
        RawObject::parse(text).ok().and_then(|members| members.get(name).map(|raw| raw.get().to_owned()))
    };
    let id = |text: &str| member(text, "id");
    // An answer stands in `resume`, or is a call's result: said as an utterance as well, it
    // would be one.
    let answers = turns.iter().flat_map(|turn| &turn.legs).filter(|leg| leg.reply.is_some());
    let answers: Vec<Option<String>> =
        answers.filter_map(|leg| member(&leg.words.text, "message")).map(|said| member(&said, "messageId")).collect();
    all.retain(|message| !answers.contains(&id(message)));
    for message in serde_json::from_str::<Vec<&RawValue>>(new.as_deref().unwrap_or("[]")).unwrap_or_default() {
        let utters = !answers.contains(&id(message.get()));
        if utters && all.iter().all(|known| id(known) != id(message.get())) {
            all.push(message.get().to_owned());
        }
    }
    Ok(json::edit(body, &[("messages", Some(&format!("[{}]", all.join(","))))]).unwrap_or_else(|_| body.to_owned()))
}

/// Somebody asked it to stop, and it had its moment to do so by itself.
async fn stopped(mut stop: tokio::sync::watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(DRAIN).await;
}
