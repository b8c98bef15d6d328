//! The link as a state machine: frames and the time in, frames and jobs out. No
//! socket, no desk; whoever drives it does the jobs in order and brings back what
//! became of them.

use std::sync::Arc;

use wikala_certs::Moment;
use wikala_chain::{PublicKey, SigningKey, payload};
use wikala_witness::{Holding, LinkId, Registration, Resumed, RunId, ThreadId, Verdict};

use super::frames::{self, FRAME, Frame, Hello};
use super::ticket::Ticket;
use crate::agui::words;
use crate::delivery;
use crate::house::ToLink;

/// How long a socket may stay without a hello, seconds.
pub const HELLO_S: u64 = 5;
/// How often a silent peer is asked whether it is there, seconds.
pub const PING_S: u64 = 20;
/// How many questions may stay unanswered.
pub const MISSED: u32 = 2;

/// Close codes (RFC 6455, 7.4.1).
pub mod close {
    /// The provider left.
    pub const NORMAL: u16 = 1000;
    /// The house closes.
    pub const GOING_AWAY: u16 = 1001;
    /// Binary frames, where text is spoken.
    pub const UNSUPPORTED: u16 = 1003;
    /// Text that is no UTF-8.
    pub const NOT_TEXT: u16 = 1007;
    /// Refused, replaced, withdrawn.
    pub const POLICY: u16 = 1008;
    /// A frame beyond the bound.
    pub const TOO_BIG: u16 = 1009;
    /// A fault of ours: nothing unacknowledged is on record.
    pub const FAULT: u16 = 1011;
}

/// What is to be done, in order.
#[derive(Debug)]
pub enum Step {
    /// Send this text.
    Send(String),
    /// Ask whether the peer is there.
    Ping,
    /// Do this, and bring back what became of it.
    Do(Job),
    /// Close with this code and reason; nothing comes after.
    Close(u16, String),
}

/// Work for the desk or the readers.
#[derive(Debug)]
pub enum Job {
    /// Burn the ticket if it is live and its key admitted, then attach.
    Attach {
        /// The proved key.
        provider: PublicKey,
        /// How many runs it takes at once.
        capacity: Option<u64>,
        /// The ticket, issued to this key.
        ticket: Ticket,
    },
    /// Replace the roster.
    Register {
        /// The agents.
        agents: Vec<Registration>,
        /// What the provider calls itself.
        provider_name: Option<String>,
    },
    /// Free a name.
    Delete(wikala_chain::AgentName),
    /// The verdict on an offer.
    Verdict(RunId, Verdict),
    /// An event.
    Event {
        /// The run.
        run: RunId,
        /// What was read out of it, or why nothing could be.
        heard: Result<words::Event, String>,
        /// Its number.
        seq: Option<u64>,
    },
    /// Done with a run.
    Finish(RunId),
    /// What is still held.
    Holding(Vec<Holding>),
    /// A thread's last messages.
    Messages {
        /// Echoed, JSON text.
        query: String,
        /// The provider that asks.
        provider: PublicKey,
        /// The thread.
        thread: ThreadId,
        /// How many at most.
        limit: usize,
    },
}

/// What became of a job.
#[derive(Debug)]
pub enum Done {
    /// Attached, or why not.
    Attached(Result<LinkId, String>),
    /// The roster stands.
    Registered(Vec<String>),
    /// The name is free.
    Deleted(String),
    /// An offer was still open for the verdict, or not.
    Verdict(RunId, bool),
    /// Done, and nothing to say about it.
    Quiet,
    /// What to send again.
    Resumed(Vec<Resumed>),
    /// Messages, JSON text each, or why not.
    Messages(String, Result<Vec<String>, String>),
    /// Refused.
    Refused {
        /// *place: fact, expectation*.
        sentence: String,
        /// About this run.
        run: Option<RunId>,
        /// About this agent.
        name: Option<String>,
    },
    /// The link is closed on record: replaced, evicted or withdrawn meanwhile.
    Closed,
    /// A fault of ours.
    Fault,
}

#[derive(Debug)]
enum State {
    /// Waiting for hello.
    AtTheDoor,
    /// The desk decides; the signed answer waits.
    Attaching { provider: PublicKey, welcome: String },
    /// Attached.
    Open { provider: PublicKey },
}

/// One socket's side of the protocol.
#[derive(Debug)]
pub struct Machine {
    key: Arc<SigningKey>,
    secret: [u8; 32],
    state: State,
    opened_s: u64,
    asked_s: u64,
    unanswered: u32,
    /// Rosters under way. What they make due is offered after `registered` is said:
    /// the commit's effects come here before its answer does.
    registering: u32,
    held_back: Vec<ToLink>,
}

impl Machine {
    /// A machine for a socket that was just opened. `secret` authenticates tickets.
    #[must_use]
    pub fn new(key: Arc<SigningKey>, secret: [u8; 32], now: Moment) -> Self {
        let now_s = now.as_secs();
        Machine {
            key,
            secret,
            state: State::AtTheDoor,
            opened_s: now_s,
            asked_s: now_s,
            unanswered: 0,
            registering: 0,
            held_back: Vec::new(),
        }
    }

    /// A text frame came.
    pub fn frame(&mut self, text: &str) -> Vec<Step> {
        self.unanswered = 0;
        let frame = frames::read(text);
        let State::Open { provider } = &self.state else {
            return vec![match frame {
                Ok(Frame::Hello(hello)) if matches!(self.state, State::AtTheDoor) => self.hello(hello),
                Ok(_) => refused("hello: expected first, then wait for welcome"),
                Err(unreadable) => refused(unreadable.sentence),
            }];
        };
        let step = match frame {
            // It stays open: one bad frame is told, and ends no other run.
            Err(unreadable) => Step::Send(frames::error(&unreadable.sentence, unreadable.run.as_deref(), None)),
            Ok(Frame::Hello(_)) => Step::Send(frames::error("hello: said before, register comes next", None, None)),
            Ok(Frame::Register { agents, provider_name }) => {
                self.registering += 1;
                Step::Do(Job::Register { agents, provider_name })
            }
            Ok(Frame::DeleteAgent(name)) => Step::Do(Job::Delete(name)),
            Ok(Frame::Ack { run, accepted, reason }) => {
                let verdict = match (accepted, reason) {
                    (true, _) => Verdict::Accepted,
                    (false, None) => Verdict::Declined,
                    (false, Some(reason)) => Verdict::Refused(reason),
                };
                Step::Do(Job::Verdict(run, verdict))
            }
            Ok(Frame::Event { run, event, seq }) => {
                let heard = words::read(&event).map_err(|malformed| malformed.to_string());
                let told = heard.as_ref().err().map(|why| format!("event: {why}"));
                let step = Step::Do(Job::Event { run: run.clone(), heard, seq });
                match told {
                    None => step,
                    // It ends the run; say so to the one who can mend it.
                    Some(why) => return vec![Step::Send(frames::error(&why, Some(run.as_str()), None)), step],
                }
            }
            Ok(Frame::Finish(run)) => Step::Do(Job::Finish(run)),
            Ok(Frame::Holding(held)) => Step::Do(Job::Holding(held)),
            Ok(Frame::Query { id, thread: Some(thread), limit }) => {
                Step::Do(Job::Messages { query: id, provider: *provider, thread, limit })
            }
            // The words of a foreign thread: what is no id of ours tells nothing more.
            Ok(Frame::Query { id, thread: None, .. }) => {
                Step::Send(frames::query_result(&id, Err("thread: no thread of yours")))
            }
        };
        vec![step]
    }

    fn hello(&mut self, hello: Hello) -> Step {
        let witness = self.key.public();
        // The proof before the ticket: only the named key's valid proof may burn it.
        let said = payload::connect_provider(&witness, &hello.ticket, &hello.nonce);
        if hello.key.verify(said.as_bytes(), &hello.proof).is_err() {
            return refused("hello: the proof does not verify for this witness, ticket and nonce");
        }
        let Some(ticket) = Ticket::parse(&hello.ticket, &self.secret, &hello.key) else {
            return refused("hello: the ticket was not issued here to this key, POST /tickets");
        };
        let answer = self.key.sign(payload::connect_witness(&hello.ticket, &hello.nonce).as_bytes());
        let welcome = frames::welcome(&witness, &answer);
        self.state = State::Attaching { provider: hello.key, welcome };
        Step::Do(Job::Attach { provider: hello.key, capacity: hello.capacity, ticket })
    }

    /// A job is done.
    pub fn done(&mut self, done: Done) -> Vec<Step> {
        match done {
            Done::Attached(Ok(_)) => match &self.state {
                State::Attaching { provider, welcome } => {
                    let (provider, welcome) = (*provider, welcome.clone());
                    self.state = State::Open { provider };
                    vec![Step::Send(welcome)]
                }
                _ => Vec::new(),
            },
            Done::Attached(Err(sentence)) => vec![refused(sentence)],
            Done::Registered(names) => self.after_register(frames::registered(&names)),
            Done::Deleted(name) => vec![Step::Send(frames::deleted(&name))],
            Done::Verdict(run, false) => {
                let sentence = "ack: the offer is not open any more, do not begin";
                vec![Step::Send(frames::error(sentence, Some(run.as_str()), None))]
            }
            Done::Verdict(_, true) | Done::Quiet => Vec::new(),
            Done::Resumed(runs) => runs.iter().map(|resumed| Step::Send(frames::resume(resumed))).collect(),
            Done::Messages(query, result) => vec![Step::Send(messages(&query, result))],
            // About no run and no name: a roster. What was refused made nothing due, but
            // others may have spoken meanwhile.
            Done::Refused { sentence, run: None, name: None } => {
                self.after_register(frames::error(&sentence, None, None))
            }
            Done::Refused { sentence, run, name } => {
                let run = run.as_ref().map(RunId::as_str);
                vec![Step::Send(frames::error(&sentence, run, name.as_deref()))]
            }
            Done::Closed => vec![refused("link: closed on record, attach again")],
            // What was sent and not recorded is sent again after the next attach.
            Done::Fault => vec![Step::Close(close::FAULT, "fault: not on record, attach again".to_owned())],
        }
    }

    fn after_register(&mut self, frame: String) -> Vec<Step> {
        self.registering = self.registering.saturating_sub(1);
        let mut steps = vec![Step::Send(frame)];
        if self.registering == 0 {
            let held_back = std::mem::take(&mut self.held_back);
            steps.extend(held_back.into_iter().flat_map(|what| self.told(what)));
        }
        steps
    }

    /// The house has something to say.
    pub fn told(&mut self, what: ToLink) -> Vec<Step> {
        match what {
            ToLink::Offer(_) if self.registering > 0 => {
                self.held_back.push(what);
                Vec::new()
            }
            ToLink::Offer(offer) => {
                let frame = delivery::frame(&offer);
                if frame.len() > FRAME {
                    // One caller's large words must not cost the provider its link.
                    let reason = format!("run input: {} bytes, a link carries {FRAME}", frame.len());
                    return vec![Step::Do(Job::Verdict(offer.run, Verdict::Refused(reason)))];
                }
                vec![Step::Send(frame)]
            }
            ToLink::AskToStop(run) => vec![Step::Send(frames::cancel(&run))],
            ToLink::Close(reason) => vec![refused(reason)],
        }
    }

    /// The peer is there: any sign of life but a text frame.
    pub fn alive(&mut self) {
        self.unanswered = 0;
    }

    /// Time passes.
    pub fn tick(&mut self, now: Moment) -> Vec<Step> {
        let now_s = now.as_secs();
        if matches!(self.state, State::AtTheDoor) && now_s.saturating_sub(self.opened_s) >= HELLO_S {
            return vec![refused(format!("hello: none within {HELLO_S} s"))];
        }
        if now_s.saturating_sub(self.asked_s) < PING_S {
            return Vec::new();
        }
        if self.unanswered >= MISSED {
            return vec![Step::Close(close::POLICY, format!("ping: {MISSED} were not answered"))];
        }
        self.asked_s = now_s;
        self.unanswered += 1;
        vec![Step::Ping]
    }
}

fn messages(query: &str, result: Result<Vec<String>, String>) -> String {
    match result {
        Err(sentence) => frames::query_result(query, Err(&sentence)),
        Ok(messages) => {
            let frame = frames::query_result(query, Ok(&messages));
            if frame.len() <= FRAME {
                return frame;
            }
            frames::query_result(query, Err("thread: its messages do not fit a frame, ask for fewer"))
        }
    }
}

fn refused(reason: impl Into<String>) -> Step {
    Step::Close(close::POLICY, reason.into())
}
