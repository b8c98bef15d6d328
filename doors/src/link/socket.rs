//! The socket under the link's machine: reads, writes, carries jobs to the desk in the
//! order they came, and detaches on every way out.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio_tungstenite::tungstenite;
use wikala_witness::{Code, Dialect, LinkId, No, RunId, Words};

use super::frames::FRAME;
use super::machine::{Done, Job, Machine, Step, close};
use super::not_admitted;
use crate::desk::Posted;
use crate::house::{App, LINK_WAITING, ToLink};
use crate::messages;

/// Sockets open at once, attached or not.
const SOCKETS: usize = 1024;
/// Jobs of one link in the desk's line; then its socket is not read further.
const IN_LINE: usize = 256;
/// How often the machine is told the time.
const BEAT: Duration = Duration::from_millis(250);
/// How long a closing socket may take to read what it was told.
const FAREWELL: Duration = Duration::from_secs(1);

static PLACES: Semaphore = Semaphore::const_new(SOCKETS);

/// A place for one more socket.
pub(super) fn place() -> Option<SemaphorePermit<'static>> {
    PLACES.try_acquire().ok()
}

/// An attached link: forgotten and detached when dropped, whatever happened.
struct Attached {
    app: App,
    link: LinkId,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.app.links.close(self.link);
        let (app, link) = (self.app.clone(), self.link);
        metrics::gauge!("wikala_links").decrement(1.0);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(no) = app.desk.ask(move |witness, now| witness.detach(now, link)).await {
                    tracing::error!(link = link.0, %no, "link could not be detached");
                }
            });
        }
    }
}

/// Serves one socket until it is closed by either side.
pub(super) async fn serve(app: App, socket: WebSocket, place: SemaphorePermit<'static>) {
    let _place = place;
    let (mut sink, mut incoming) = socket.split();
    let (out, mut waiting) = mpsc::channel::<Message>(LINK_WAITING);
    let mut writer = tokio::spawn(async move {
        while let Some(message) = waiting.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
    });
    let mut line = Line { app, attached: None, told: None, jobs: FuturesOrdered::new(), out };
    let (code, reason) = line.work(&mut incoming).await;
    // What the peer said before it left is on record before it is detached; an attach
    // that was still under way is undone too.
    while let Some(done) = line.jobs.next().await {
        line.keep(&done);
    }
    if let Some(attached) = line.attached.take() {
        tracing::info!(link = attached.link.0, reason, "link ended");
    }
    let frame = CloseFrame { code, reason: short(&reason).into() };
    let _ = line.out.try_send(Message::Close(Some(frame)));
    drop(line);
    let farewell = async {
        let _ = (&mut writer).await;
        // Reads on for a moment: a socket closed over unread bytes resets, and the reason is lost.
        while let Some(Ok(_)) = incoming.next().await {}
    };
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
    writer.abort();
}

/// A close reason has 123 bytes of room (RFC 6455, 5.5).
fn short(reason: &str) -> String {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}

struct Line {
    app: App,
    attached: Option<Attached>,
    told: Option<mpsc::Receiver<ToLink>>,
    jobs: FuturesOrdered<BoxFuture<'static, Done>>,
    out: mpsc::Sender<Message>,
}

impl Line {
    /// Works until the link ends; says how.
    async fn work(&mut self, incoming: &mut SplitStream<WebSocket>) -> (u16, String) {
        let mut machine = Machine::new(self.app.key.clone(), self.app.secret, self.app.desk.now());
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut closing = self.app.closing.clone();
        loop {
            let steps = tokio::select! {
                message = incoming.next(), if self.jobs.len() < IN_LINE => match message {
                    None | Some(Ok(Message::Close(_))) => return (close::NORMAL, "closed by the provider".to_owned()),
                    Some(Err(error)) => return broken(error),
                    Some(Ok(Message::Text(text))) => machine.frame(text.as_str()),
                    Some(Ok(Message::Binary(_))) => {
                        return (close::UNSUPPORTED, "frame: binary, JSON text is spoken here".to_owned());
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                        machine.alive();
                        Vec::new()
                    }
                },
                Some(done) = self.jobs.next(), if !self.jobs.is_empty() => {
                    self.keep(&done);
                    machine.done(done)
                }
                told = told(&mut self.told) => match told {
                    Some(what) => machine.told(what),
                    None => return slow(),
                },
                _ = beat.tick() => machine.tick(self.app.desk.now()),
                _ = closing.wait_for(|closing| *closing) => {
                    return (close::GOING_AWAY, "house: closing, attach again in a moment".to_owned());
                }
            };
            for step in steps {
                let message = match step {
                    Step::Send(text) => Message::Text(text.into()),
                    Step::Ping => Message::Ping(axum::body::Bytes::new()),
                    Step::Do(job) => {
                        let answer = perform(&self.app, self.attached.as_ref().map(|a| a.link), job).await;
                        self.jobs.push_back(answer);
                        continue;
                    }
                    Step::Close(code, reason) => return (code, reason),
                };
                if self.out.try_send(message).is_err() {
                    return slow();
                }
            }
        }
    }

    /// Keeps what an attach brought: from here on it is detached on every way out.
    fn keep(&mut self, done: &Done) {
        if let Done::Attached(Ok(link)) = done {
            metrics::gauge!("wikala_links").increment(1.0);
            tracing::info!(link = link.0, "link attached");
            self.told = Some(self.app.links.open(*link));
            self.attached = Some(Attached { app: self.app.clone(), link: *link });
        }
    }
}

fn slow() -> (u16, String) {
    (close::POLICY, format!("slow: {LINK_WAITING} frames are unread, read faster or take fewer runs"))
}

fn broken(error: axum::Error) -> (u16, String) {
    match error.into_inner().downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Capacity(_)) => (close::TOO_BIG, format!("frame: more than {FRAME} bytes")),
        Some(tungstenite::Error::Utf8(_)) => (close::NOT_TEXT, "frame: not UTF-8".to_owned()),
        _ => (close::NORMAL, "the connection broke".to_owned()),
    }
}

async fn told(waiting: &mut Option<mpsc::Receiver<ToLink>>) -> Option<ToLink> {
    match waiting {
        Some(waiting) => waiting.recv().await,
        None => std::future::pending().await,
    }
}

/// Puts a job in the desk's line; what comes back is its answer to wait for.
async fn perform(app: &App, link: Option<LinkId>, job: Job) -> BoxFuture<'static, Done> {
    let desk = &app.desk;
    let (link, job) = match (link, job) {
        (_, Job::Attach { provider, capacity, ticket }) => {
            let admission = app.settings.admission.clone();
            let posted = desk
                .post(move |witness, now| {
                    if !admission.admits(&provider) {
                        return Ok(Err(not_admitted(&provider)));
                    }
                    if !ticket.is_live(now) {
                        return Ok(Err("hello: the ticket is older than 60 s, POST /tickets again".to_owned()));
                    }
                    if !witness.burn_ticket(now, ticket.as_str())? {
                        return Ok(Err("hello: the ticket was used before, POST /tickets again".to_owned()));
                    }
                    witness.attach(now, provider, capacity).map(Ok)
                })
                .await;
            return answer(posted, Done::Attached, None, None);
        }
        (Some(link), job) => (link, job),
        // The machine gives no other job before it is attached.
        (None, _) => return Box::pin(std::future::ready(Done::Closed)),
    };
    match job {
        Job::Attach { .. } => Box::pin(std::future::ready(Done::Closed)),
        Job::Register { agents, provider_name } => {
            let names = agents.iter().map(|agent| agent.name.as_str().to_owned()).collect();
            let posted =
                desk.post(move |witness, now| witness.register(now, link, &agents, provider_name.as_deref())).await;
            answer(posted, move |()| Done::Registered(names), None, None)
        }
        Job::Delete(name) => {
            let told = name.as_str().to_owned();
            let named = Some(told.clone());
            answer(
                desk.post(move |witness, _| witness.delete_agent(link, &name)).await,
                |()| Done::Deleted(told),
                None,
                named,
            )
        }
        Job::Verdict(run, verdict) => {
            let (id, about) = (run.clone(), run.clone());
            let posted = desk.post(move |witness, now| witness.verdict(now, link, &run, verdict)).await;
            answer(posted, move |stood| Done::Verdict(id, stood), Some(about), None)
        }
        Job::Event { run, heard, seq } => {
            let about = Some(run.clone());
            let posted = desk
                .post(move |witness, now| match heard {
                    Ok(event) => {
                        let words = Words { dialect: Dialect::AgUi, text: event.words };
                        witness.event(now, link, &run, event.fact, words, seq).map(drop)
                    }
                    Err(why) => witness.fail(now, link, &run, &format!("provider_event_malformed: {why}")),
                })
                .await;
            answer(posted, |()| Done::Quiet, about, None)
        }
        Job::Finish(run) => {
            let about = Some(run.clone());
            answer(desk.post(move |witness, now| witness.finish(now, link, &run)).await, |()| Done::Quiet, about, None)
        }
        Job::Holding(held) => {
            answer(desk.post(move |witness, _| witness.holding(link, &held)).await, Done::Resumed, None, None)
        }
        Job::Messages { query, provider, thread, limit } => {
            let readers = app.readers.clone();
            Box::pin(async move {
                let read = readers.read(move |reader| {
                    let turns = reader.turns_for_provider(&thread, provider)?;
                    Ok(messages::of_thread(&turns, limit))
                });
                match read.await {
                    Ok(messages) => Done::Messages(query, Ok(messages)),
                    Err(No::Refusal(refusal)) => Done::Messages(query, Err(refusal.to_string())),
                    Err(No::Fault(_)) => Done::Fault,
                }
            })
        }
    }
}

/// What a posted job comes to.
fn answer<T: Send + 'static>(
    posted: Result<Posted<T>, No>,
    done: impl FnOnce(T) -> Done + Send + 'static,
    run: Option<RunId>,
    name: Option<String>,
) -> BoxFuture<'static, Done> {
    Box::pin(async move {
        let said = match posted {
            Ok(posted) => posted.answer().await,
            Err(no) => Err(no),
        };
        match said {
            Ok(value) => done(value),
            // About no run: it is the link itself that is not known any more.
            Err(No::Refusal(refusal)) if run.is_none() && refusal.code == Code::RunUnknown => Done::Closed,
            Err(No::Refusal(refusal)) => Done::Refused { sentence: refusal.to_string(), run, name },
            Err(No::Fault(fault)) => {
                tracing::error!(%fault, "a link's words are not on record");
                Done::Fault
            }
        }
    })
}
