//! A link's socket: reads frames, hands jobs to the desk in arrival order, writes
//! what comes back. Many jobs may be on their way; their order never changes.

use std::pin::Pin;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use wikala_chain::{PublicKey, json};
use wikala_witness::{Delivery, Fact, LinkId, No, RunId, Verdict};

use super::frames::{FRAME, Frame, error};
use super::machine::{Do, Machine};
use crate::agui::words;
use crate::house::{App, ToLink};
use crate::obligations::asked;
use crate::{delivery, messages};

/// How long a stranger may take to greet.
const HELLO: Duration = Duration::from_secs(5);
/// How many jobs of one link may be on their way to the desk.
const ON_THE_WAY: usize = 64;
/// How long one write may take.
const WRITE: Duration = Duration::from_secs(15);
/// Links at once, and sockets that have yet to greet: an upgrade leaves the listener's count.
const LINKS: usize = 1024;
const GREETINGS: usize = 512;
/// "Policy violation" (RFC 6455, 7.4.1).
const REFUSED: u16 = 1008;

/// What a job answers: frames, in order.
type Answer = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

static ATTACHED: Semaphore = Semaphore::const_new(LINKS);
static GREETING: Semaphore = Semaphore::const_new(GREETINGS);

/// Histories read at once. Other reads must find a reader free.
static QUERIES: Semaphore = Semaphore::const_new(2);

/// A place for one more socket; given back when dropped.
pub struct Place(#[allow(dead_code)] SemaphorePermit<'static>); // held, not read

impl Place {
    /// For a socket that has yet to greet.
    pub fn greeting() -> Option<Place> {
        GREETING.try_acquire().ok().map(Place)
    }

    fn attached() -> Option<Place> {
        ATTACHED.try_acquire().ok().map(Place)
    }
}

/// Serves a link until it ends, and detaches it however it ended.
pub async fn serve(app: App, mut socket: WebSocket, place: Place, of_peer: crate::limits::Place) {
    let key = app.key.clone();
    let secret = app.secret;
    let mut machine = Machine::new(&key, &secret);
    let Some((link, told, _place)) = greet(&app, &mut machine, &mut socket).await else { return };
    drop((place, of_peer));
    tracing::info!(link = link.0, "link attached");
    let mut on_the_way = FuturesOrdered::new();
    talk(&app, &mut machine, &mut socket, link, told, &mut on_the_way).await;
    // What it said before it left is on record before it is detached.
    while on_the_way.next().await.is_some() {}
    app.links.close(link);
    if let Err(no) = app.desk.ask(move |witness, now| witness.detach(now, link)).await {
        tracing::error!(%no, link = link.0, "link could not be detached");
    }
    tracing::info!(link = link.0, "link detached");
}

async fn greet(
    app: &App,
    machine: &mut Machine<'_>,
    socket: &mut WebSocket,
) -> Option<(LinkId, mpsc::Receiver<ToLink>, Place)> {
    let text = match tokio::time::timeout(HELLO, socket.recv()).await {
        Ok(Some(Ok(Message::Text(text)))) => text,
        Ok(Some(Ok(_))) => {
            close(socket, "hello: is a text frame").await;
            return None;
        }
        Ok(_) => return None,
        Err(_) => {
            close(socket, "hello: did not come within 5 s").await;
            return None;
        }
    };
    match machine.read(&text, app.desk.now(), |key| app.settings.admission.admits(key)) {
        Do::Attach { provider, ticket, capacity, welcome } => {
            let Some(place) = Place::attached() else {
                close(socket, "house: no room for one more link, try again later").await;
                return None;
            };
            let (admission, links) = (app.settings.admission.clone(), app.links.clone());
            let attached = app
                .desk
                .ask(move |witness, now| {
                    // Again, in the order of evictions: a key removed meanwhile stays out.
                    if !admission.admits(&provider) {
                        return Ok(Err("not-admitted: this key was removed from the admission list"));
                    }
                    // One step: a ticket is never burned without a link, nor used twice.
                    Ok(if witness.burn_ticket(now, &ticket)? {
                        let link = witness.attach(now, provider, capacity)?;
                        // Here and not later: a newer link may replace it in the same commit,
                        // and would find nobody to close.
                        Ok((link, links.open(link)))
                    } else {
                        Err("hello: ticket was used before, POST /tickets for a new one")
                    })
                })
                .await;
            match attached {
                Ok(Ok((link, told))) => {
                    machine.attached(link, provider);
                    // Gone before it was welcome: the talk ends at once, and detaches it.
                    let _ = send(socket, welcome).await;
                    Some((link, told, place))
                }
                Ok(Err(reason)) => {
                    close(socket, reason).await;
                    None
                }
                Err(no) => {
                    tracing::error!(%no, "link could not be attached");
                    close(socket, "hello: cannot be recorded now, try again").await;
                    None
                }
            }
        }
        Do::Close(reason) => {
            close(socket, &reason).await;
            None
        }
        Do::Send(_) | Do::Desk(..) => None,
    }
}

async fn talk(
    app: &App,
    machine: &mut Machine<'_>,
    socket: &mut WebSocket,
    link: LinkId,
    mut told: mpsc::Receiver<ToLink>,
    on_the_way: &mut FuturesOrdered<Answer>,
) {
    let mut closing = app.closing.clone();
    let mut ping = tokio::time::interval(app.settings.ping);
    ping.reset();
    let mut silent = 0;
    loop {
        tokio::select! {
            received = socket.recv(), if on_the_way.len() < ON_THE_WAY => {
                silent = 0;
                let text = match received {
                    Some(Ok(Message::Text(text))) => text,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Binary(_))) => {
                        if !send(socket, error("frame: binary, send text", None)).await {
                            return;
                        }
                        continue;
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                match machine.read(&text, app.desk.now(), |key| app.settings.admission.admits(key)) {
                    Do::Desk(link, provider, frame) => {
                        let (job, first) = job(app, link, provider, frame);
                        on_the_way.push_back(job);
                        if !first {
                            continue;
                        }
                        while let Some(frames) = on_the_way.next().await {
                            for frame in frames {
                                if !send(socket, frame).await {
                                    return;
                                }
                            }
                        }
                    }
                    Do::Send(frame) => on_the_way.push_back(Box::pin(async move { vec![frame] })),
                    Do::Close(reason) => return close(socket, &reason).await,
                    Do::Attach { .. } => return,
                }
            }
            Some(frames) = on_the_way.next(), if !on_the_way.is_empty() => {
                for frame in frames {
                    if !send(socket, frame).await {
                        return;
                    }
                }
            }
            what = told.recv() => match what {
                Some(ToLink::Offer(offer)) => {
                    if !hand_over(app, socket, link, &offer).await {
                        return;
                    }
                }
                Some(ToLink::AskToStop(run)) => {
                    let frame = format!("{{\"type\":\"cancel\",\"runId\":{}}}", json::quote(run.as_str()));
                    if !send(socket, frame).await {
                        return;
                    }
                }
                Some(ToLink::Close(reason)) => return close(socket, reason).await,
                None => return close(socket, "link: reads too slowly").await,
            },
            _ = ping.tick() => {
                silent += 1;
                if silent > 2 || !write(socket, Message::Ping(Default::default())).await {
                    return;
                }
            }
            _ = async { let _ = closing.wait_for(|closing| *closing).await; } => {
                return close(socket, "house: closing, attach again in a moment").await;
            }
        }
    }
}

/// Offers a run. One caller's large words must not cost the provider its link: what
/// does not fit a frame is refused here. False: the socket is gone.
async fn hand_over(app: &App, socket: &mut WebSocket, link: LinkId, offer: &Delivery) -> bool {
    let frame = delivery::frame(offer);
    if frame.len() <= FRAME {
        return send(socket, frame).await;
    }
    let run = offer.run.clone();
    let reason = format!("run_input_too_large: {} bytes, a link carries {FRAME}", frame.len());
    let refused = app.desk.ask(move |w, now| w.verdict(now, link, &run, Verdict::Refused(reason))).await;
    if let Err(no) = refused {
        tracing::error!(%no, run = %offer.run, "an offer too large could not be refused");
    }
    true
}

/// The desk's part of a frame, and what is answered. True: what comes after it waits until it
/// is done. A new roster makes offers due at once, which must not overtake the answer that says
/// it is registered; a pause may have to be looked at before the desk sees it, and the `finish`
/// behind it must not overtake that.
fn job(app: &App, link: LinkId, provider: PublicKey, frame: Frame) -> (Answer, bool) {
    let app = app.clone();
    let mut first = matches!(frame, Frame::Register(..));
    let answer: Answer = match frame {
        Frame::Register(agents, name) => Box::pin(async move {
            let names: Vec<String> = agents.iter().map(|agent| json::quote(agent.name.as_str())).collect();
            let done = app.desk.ask(move |w, now| w.register(now, link, &agents, name.as_deref())).await;
            answer(done, None, || format!("{{\"type\":\"registered\",\"names\":[{}]}}", names.join(",")))
        }),
        Frame::DeleteAgent(name) => Box::pin(async move {
            let quoted = json::quote(name.as_str());
            let done = app.desk.ask(move |w, _| w.delete_agent(link, &name)).await;
            match done {
                Ok(()) => vec![format!("{{\"type\":\"deleted\",\"name\":{quoted}}}")],
                Err(no) => vec![format!(
                    "{{\"type\":\"error\",\"message\":{},\"name\":{quoted}}}",
                    json::quote(&no.to_string())
                )],
            }
        }),
        // A late verdict matches nothing: there is nobody to tell.
        Frame::Ack(run, verdict) => {
            silently(app, Some(run.clone()), move |w, now| w.verdict(now, link, &run, verdict).map(|_| ()))
        }
        Frame::Event(run, text, seq) => {
            metrics::counter!("wikala_link_events_total").increment(1);
            match words::read(&text) {
                Ok(event) => {
                    first = matches!(&event.fact, Fact::Ended { questions, .. } if !questions.is_empty());
                    Box::pin(async move {
                        let done = asked::event(&app, link, &run, event.fact, event.words, seq).await;
                        done.err().map(|no| error(&no.to_string(), Some(run.as_str()))).into_iter().collect()
                    })
                }
                Err(why) => Box::pin(async move {
                    let (id, reason) = (run.clone(), format!("provider_event_malformed: {why}"));
                    let done = app.desk.ask(move |w, now| w.fail(now, link, &id, &reason)).await;
                    let sentence = match done {
                        Ok(()) => format!("{why}; the run has failed"),
                        Err(no) => no.to_string(),
                    };
                    vec![error(&sentence, Some(run.as_str()))]
                }),
            }
        }
        Frame::Finish(run) => silently(app, Some(run.clone()), move |w, now| w.finish(now, link, &run)),
        Frame::Holding(held) => Box::pin(async move {
            match app.desk.ask(move |w, _| w.holding(link, &held)).await {
                Ok(resumed) => resumed
                    .iter()
                    .map(|r| {
                        format!(
                            "{{\"type\":\"resume\",\"runId\":{},\"after\":{}}}",
                            json::quote(r.run.as_str()),
                            r.after
                        )
                    })
                    .collect(),
                Err(no) => vec![error(&no.to_string(), None)],
            }
        }),
        Frame::Query(id, asked) => Box::pin(async move {
            // Behind what it said before: a provider finds its own words in the history.
            let _ = app.desk.ask(|_, _| Ok(())).await;
            // A thread may be large, and readers are few.
            let _turn = QUERIES.acquire().await;
            let read = match asked {
                Ok((thread, limit)) => app
                    .readers
                    .read(move |reader| reader.turns_for_provider(&thread, provider))
                    .await
                    .map(|turns| (turns, limit))
                    .map_err(|no| no.to_string()),
                Err(why) => Err(why),
            };
            vec![match read {
                Ok((turns, limit)) => {
                    let all = messages::of(&turns);
                    let last = newest(&all[all.len().saturating_sub(limit)..], FRAME - 64 - id.len().min(FRAME / 2));
                    format!("{{\"type\":\"queryResult\",\"queryId\":{id},\"result\":[{}]}}", last.join(","))
                }
                Err(why) => {
                    format!("{{\"type\":\"queryResult\",\"queryId\":{id},\"error\":{}}}", json::quote(&why))
                }
            }]
        }),
        Frame::Hello(_) => Box::pin(async { Vec::new() }),
    };
    (answer, first)
}

/// The newest messages that fit into so many bytes, oldest first. A peer's library
/// closes a link over a larger frame: two long utterances would cut it off.
fn newest(messages: &[String], room: usize) -> &[String] {
    let mut left = room;
    let fits = messages.iter().rev().take_while(|message| {
        let rest = left.checked_sub(message.len() + 1);
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    &messages[messages.len() - fits.count()..]
}

/// A job with nothing to say but an error.
fn silently(
    app: App,
    run: Option<RunId>,
    verb: impl FnOnce(&mut wikala_witness::Witness, wikala_certs::Moment) -> Result<(), No> + Send + 'static,
) -> Answer {
    Box::pin(async move {
        match app.desk.ask(verb).await {
            Ok(()) => Vec::new(),
            Err(no) => vec![error(&no.to_string(), run.as_ref().map(RunId::as_str))],
        }
    })
}

fn answer(done: Result<(), No>, run: Option<&str>, frame: impl FnOnce() -> String) -> Vec<String> {
    match done {
        Ok(()) => vec![frame()],
        Err(no) => vec![error(&no.to_string(), run)],
    }
}

async fn send(socket: &mut WebSocket, frame: String) -> bool {
    write(socket, Message::Text(frame.into())).await
}

async fn write(socket: &mut WebSocket, message: Message) -> bool {
    matches!(tokio::time::timeout(WRITE, socket.send(message)).await, Ok(Ok(())))
}

async fn close(socket: &mut WebSocket, reason: &str) {
    // A close reason has 123 bytes of room (RFC 6455, 5.5).
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = CloseFrame { code: REFUSED, reason: reason[..end].into() };
    write(socket, Message::Close(Some(frame))).await;
}
