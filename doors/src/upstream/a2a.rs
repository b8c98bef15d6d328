//! An A2A agent behind HTTP. A stream that dies is not an end: the agent is asked again
//! what became of the task, and only what it says, or its silence, is a verdict.

use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;
use wikala_chain::{RawObject, json};
use wikala_witness::{Dialect, Entry, Fact, ItemKind, Mark, No, UpstreamNames};

use super::a2a_params as params;
use super::outbound::Failed;
use super::peer::{Op, Peer, Said};
use super::run::{Over, Run};
use crate::a2a::heard::{self, Heard};

/// How long an agent is asked again, at first and at most between two times.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// How a stretch of listening ended.
enum End {
    /// A last word of this leg, or nobody wants to hear more.
    Told,
    /// The stream ended in the middle.
    Cut(String),
}

/// What is known of a task while it is carried.
struct Known {
    names: UpstreamNames,
    /// Told once the agent has named its task.
    task: watch::Sender<Option<String>>,
    /// The status that was answered: told once more it is old news, not a new question.
    answered: Option<String>,
}

/// Carries one leg. `again`: it was under way when the witness stopped.
pub(super) async fn carry(run: &Run, peer: &Peer, again: bool) {
    let (thread, id) = (run.delivery.thread.clone(), run.delivery.run.clone());
    let read = run.app.readers.read(move |reader| {
        let asks = reader.run_for_operator(&id)?.asks;
        let question = asks.last().and_then(|ask| ask.items.iter().find(|item| item.kind == ItemKind::Interrupt));
        let answered = question.map(|item| item.question.clone());
        let heard_since = heard_since_answer(&reader.entries_unchecked(&id, 0, usize::MAX)?);
        Ok::<_, No>((reader.upstream_names(&thread, &id)?, answered, heard_since))
    });
    let (names, answered, heard_since) = match read.await {
        Ok(read) => read,
        Err(no) => return tracing::error!(%no, run = %run.delivery.run, "a run at an upstream could not be read"),
    };
    let (task, mut named) = watch::channel(names.task.clone());
    let mut known = Known { names, task, answered };
    let mut stop = run.stop.clone();
    let carried = async {
        if again && !unsent(run, peer, &known, heard_since).await? {
            return mend(run, peer, &mut known, "the witness stopped meanwhile".to_owned()).await;
        }
        begin(run, peer, &mut known).await
    };
    tokio::pin!(carried);
    let outcome = tokio::select! {
        outcome = &mut carried => outcome,
        // Its task is asked to stop, as soon as it has a name; what then happens the task
        // itself tells.
        true = async { stop.wait_for(|stop| *stop).await.is_ok() } => {
            let asked = async {
                let task = named.wait_for(Option::is_some).await.ok().and_then(|task| task.clone());
                if !cancel(run, peer, task.unwrap_or_default()).await {
                    // It takes the request, and its task ends when it does.
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                outcome = &mut carried => outcome,
                // It has had its last word: what it goes on to say is nobody's to wait for.
                () = asked => Ok(()),
            }
        }
    };
    if let Err(failed) = outcome {
        run.failed(&failed).await;
    }
}

/// Did the agent say anything since the newest answer?
fn heard_since_answer(entries: &[wikala_witness::Recorded]) -> bool {
    let newest = entries.iter().rev().find_map(|recorded| match &recorded.entry {
        Entry::Words(_) => Some(true),
        Entry::Mark(Mark::Answered { .. } | Mark::Opened) => Some(false),
        Entry::Mark(_) => None,
    });
    newest.unwrap_or(false)
}

/// After a stop: is this leg still to be sent? Only if the agent shows that it did not
/// get it: it still asks what was answered, and its task's history has no message of ours.
async fn unsent(run: &Run, peer: &Peer, known: &Known, heard_since: bool) -> Result<bool, Failed> {
    if heard_since {
        return Ok(false);
    }
    let Some(task) = known.names.task.clone() else {
        // It may have made a task whose name we never heard: a second one would be a second run.
        return Err(Failed::Lost("the witness stopped before the agent named its task".to_owned()));
    };
    let now = patiently(run, || get(peer, &task)).await?;
    let sent = params::send(&run.delivery, &known.names, &[]);
    if message_id(&sent).is_some_and(|id| has_message(&now.words.text, &id)) {
        return Ok(false);
    }
    Ok(now.status.as_deref().zip(known.answered.as_deref()).is_some_and(|(now, then)| same_status(now, then)))
}

/// Asks until there is an answer, for as long as a lost link would be waited for.
async fn patiently<T, F: Future<Output = Result<T, Failed>>>(run: &Run, ask: impl Fn() -> F) -> Result<T, Failed> {
    let until = Instant::now() + Duration::from_secs(run.app.settings.policy.link_grace_s);
    let mut wait = AGAIN.0;
    loop {
        match ask().await {
            Err(Failed::Lost(_) | Failed::Unreached(_) | Failed::Busy(_)) if Instant::now() < until => {}
            outcome => return outcome,
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}

/// The id of the message in a request, JSON text.
fn message_id(params: &str) -> Option<String> {
    let message = RawObject::parse(RawObject::parse(params).ok()?.get("message")?.get()).ok()?;
    json::string(message.get("messageId")?.get())
}

/// A task's history, or its status, holds a message of this id.
fn has_message(task: &str, id: &str) -> bool {
    let read = || {
        let task = RawObject::parse(RawObject::parse(task).ok()?.get("task")?.get()).ok()?;
        let history: Vec<&RawValue> = serde_json::from_str(task.get("history")?.get()).ok()?;
        let named = |raw: &&RawValue| {
            RawObject::parse(raw.get()).ok().and_then(|said| json::string(said.get("messageId")?.get()))
        };
        Some(history.iter().any(|raw| named(raw).as_deref() == Some(id)))
    };
    read().unwrap_or(false)
}

/// Sends the leg and listens.
async fn begin(run: &Run, peer: &Peer, known: &mut Known) -> Result<(), Failed> {
    let (from, named) = (run.delivery.run.clone(), params::references(&run.delivery));
    let references = run.app.readers.read(move |reader| reader.upstream_tasks(&from, &named)).await;
    let params = params::send(&run.delivery, &known.names, &references.unwrap_or_default());
    let op = if peer.card.streaming { Op::SendStreamingMessage } else { Op::SendMessage };
    let said = peer.ask(op, "", &params, &run.delivery.leg.extensions).await;
    let end = match said {
        Ok(said) => listen(run, known, said).await?,
        Err(Failed::Lost(why)) => End::Cut(why),
        Err(failed) => return Err(failed),
    };
    match end {
        End::Told => Ok(()),
        End::Cut(why) => mend(run, peer, known, why).await,
    }
}

/// Asks again what became of the task. An agent that answers is not lost, however long its
/// task takes; one that does not is waited for as long as a lost link would be.
async fn mend(run: &Run, peer: &Peer, known: &mut Known, why: String) -> Result<(), Failed> {
    let Some(task) = known.names.task.clone() else { return Err(Failed::Lost(why)) };
    let grace = Duration::from_secs(run.app.settings.policy.link_grace_s);
    let mut until = Instant::now() + grace;
    let mut wait = AGAIN.0;
    let mut why = why;
    let mut known_text = String::new();
    loop {
        let asked = match peer.card.streaming {
            true => peer.ask(Op::SubscribeToTask, &task, &params::about(&task), &[]).await,
            false => Err(Failed::Refused("it does not stream".to_owned())),
        };
        let asked = match asked {
            // It has ended, most likely: then it is read.
            Err(Failed::Refused(_)) => peer.ask(Op::GetTask, &task, &params::about(&task), &[]).await,
            other => other,
        };
        match asked {
            // Told again and again that it works on, the record would fill with that.
            Ok(Said::Whole(text)) if text == known_text => until = Instant::now() + grace,
            Ok(said) => {
                if let Said::Whole(text) = &said {
                    known_text.clone_from(text);
                }
                match listen(run, known, said).await? {
                    End::Told => return Ok(()),
                    End::Cut(again) => why = again,
                }
                until = Instant::now() + grace;
            }
            Err(Failed::Refused(no)) => return Err(Failed::Refused(no)),
            // A gateway's 503 is no word of the agent's on its task.
            Err(failed) => why = failed.reason(),
        }
        if Instant::now() >= until {
            return Err(Failed::Lost(format!("{why}, and the task did not end")));
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}

/// Puts what is said on record, as it comes.
async fn listen(run: &Run, known: &mut Known, said: Said) -> Result<End, Failed> {
    match said {
        Said::Whole(text) => match hear(run, known, &text).await {
            Ok(true) | Err(Over) => Ok(End::Told),
            Ok(false) => Ok(End::Cut("it answered before the task had ended".to_owned())),
        },
        Said::Stream(mut frames) => loop {
            match frames.next().await {
                Ok(Some(text)) => match hear(run, known, &text).await {
                    Ok(false) => {}
                    Ok(true) | Err(Over) => return Ok(End::Told),
                },
                Ok(None) => return Ok(End::Cut("the stream ended without a last event".to_owned())),
                Err(Failed::Refused(why)) => return Err(Failed::Refused(why)),
                Err(Failed::Lost(why) | Failed::Unreached(why) | Failed::Busy(why)) => return Ok(End::Cut(why)),
            }
        },
    }
}

/// Puts one event on record. True: this leg has had its last word.
async fn hear(run: &Run, known: &mut Known, text: &str) -> Result<bool, Over> {
    let Heard { mut fact, words, names, status } = match heard::read(text) {
        Ok(heard) => heard,
        Err(why) => {
            run.fail(format!("provider_event_malformed: {why}")).await;
            return Err(Over);
        }
    };
    debug_assert_eq!(words.dialect, Dialect::A2a);
    match (&status, &known.answered) {
        // The question that was just answered, told again while the answer is on its way.
        (Some(now), Some(then)) if same_status(now, then) => fact = Fact::Said,
        // It went on: the same question is a new one from now on.
        (Some(_), Some(_)) => known.answered = None,
        _ => {}
    }
    known.names.context = known.names.context.take().or(names.context.clone());
    if known.names.task.is_none() && names.task.is_some() {
        known.names.task.clone_from(&names.task);
        let _ = known.task.send(names.task.clone());
    }
    let last = matches!(fact, Fact::Ended { .. } | Fact::Failed(_));
    run.event(fact, words, names).await?;
    Ok(last)
}

/// Asks the agent to stop its task. True: that was its last word, and it is on record.
async fn cancel(run: &Run, peer: &Peer, task: String) -> bool {
    match peer.ask(Op::CancelTask, &task, &params::about(&task), &[]).await {
        // The stream tells it too, as a rule; whoever is second finds the run ended.
        Ok(Said::Whole(text)) => {
            if let Ok(Heard { fact: fact @ (Fact::Ended { .. } | Fact::Failed(_)), words, .. }) = heard::read(&text) {
                return run.event(fact, words, UpstreamNames::default()).await.is_ok();
            }
        }
        Ok(Said::Stream(_)) => {}
        // It has ended, or does not stop: its own last word counts.
        Err(failed) => {
            tracing::info!(run = %run.delivery.run, why = failed.reason(), "an upstream task was not cancelled");
        }
    }
    false
}

async fn get(peer: &Peer, task: &str) -> Result<Heard, Failed> {
    match peer.ask(Op::GetTask, task, &params::about(task), &[]).await? {
        Said::Whole(text) => heard::read(&text).map_err(Failed::Refused),
        Said::Stream(_) => Err(Failed::Refused("a stream where a task was asked for".to_owned())),
    }
}

/// The same status told twice: same state, same time, same question.
fn same_status(one: &str, other: &str) -> bool {
    let read = |text: &str| {
        let members = wikala_chain::RawObject::parse(text).ok()?;
        let raw = |name: &str| members.get(name).map(|raw| raw.get().to_owned());
        let message = raw("message").and_then(|message| {
            Some(wikala_chain::RawObject::parse(&message).ok()?.get("messageId")?.get().to_owned())
        });
        Some((heard::state(text)?, raw("timestamp"), message))
    };
    one == other || read(one).is_some_and(|one| Some(one) == read(other))
}
