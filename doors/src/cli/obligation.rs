//! `wikala obligation`: what is owed, asked for, taken and answered, with a key file. The acts
//! are signed here; the witness gets the signature and never the key.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wikala_certs::Moment;
use wikala_chain::{json as strict, nonce};
use wikala_witness::ThreadId;
use wikala_witness::obligation::{ObligationId, State, ledger};

use super::{io, operator, serve};
use crate::client::Client;
use crate::exit::Failure;
use crate::supervisor::desk::{Content, Desk, Doing, Message, No};

/// Who acts, and where.
#[derive(Debug, Args)]
pub(super) struct At {
    /// Your key file
    #[arg(long)]
    key: PathBuf,
    /// The witness's URL
    #[arg(long, env = "WIKALA_WITNESS")]
    witness: String,
}

/// Which obligation, and the revision you saw; without one the present one is read first.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The obligation's id
    #[arg(value_parser = id)]
    id: ObligationId,
    #[command(flatten)]
    at: At,
    /// The revision you saw
    #[arg(long)]
    revision: Option<u64>,
}

// Told here, a typing error is no request for another page.
fn id(text: &str) -> Result<ObligationId, String> {
    ObligationId::parse(text).ok_or_else(|| "no obligation id, ob_ and 32 hex digits".to_owned())
}

fn state(text: &str) -> Result<State, String> {
    let all = || State::ALL.map(State::as_str).join(", ");
    State::parse(text).ok_or_else(|| format!("no state, there are {}", all()))
}

#[derive(Debug, Subcommand)]
pub(super) enum ObligationCommand {
    /// Ask an agent something that its provider owes an answer to
    Create {
        #[command(flatten)]
        at: At,
        /// The provider's key, 64 hex
        #[arg(long)]
        provider: String,
        /// The agent's name
        #[arg(long)]
        name: String,
        /// What to ask
        #[arg(long)]
        text: String,
        /// A thread of yours with it; a new one without
        #[arg(long)]
        thread: Option<String>,
        /// Until when, RFC 3339 with its zone
        #[arg(long)]
        deadline: Option<String>,
        /// A file with the JSON Schema 2020-12 that the answer must fit
        #[arg(long, requires = "schema_id")]
        schema: Option<PathBuf>,
        /// What you call that schema
        #[arg(long, requires = "schema")]
        schema_id: Option<String>,
        /// The same request sent again has the same key; random without it
        #[arg(long)]
        message_id: Option<String>,
    },
    /// How much waits for whom: counts, no content
    Inbox {
        #[command(flatten)]
        at: At,
    },
    /// List what you asked for and what you owe
    List {
        #[command(flatten)]
        at: At,
        /// requester, responsible or any
        #[arg(long, default_value = "any", value_parser = ["requester", "responsible", "any"])]
        role: String,
        /// In these states; once for each
        #[arg(long = "state", value_parser = state)]
        states: Vec<State>,
        /// At most so many, 1 to 1000
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
        /// After this one, as `next` said
        #[arg(long, value_parser = id)]
        after: Option<ObligationId>,
    },
    /// Show one with its history; --ledger prints the lines that `verify ledger` checks
    Get {
        #[command(flatten)]
        which: Which,
        /// The ledger alone, one entry a line
        #[arg(long)]
        ledger: bool,
    },
    /// Own it
    Accept {
        #[command(flatten)]
        which: Which,
    },
    /// Not take it, and say why
    Decline {
        #[command(flatten)]
        which: Which,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Say where you stand: in_progress, pending_human, blocked or acknowledged
    Progress {
        #[command(flatten)]
        which: Which,
        /// The state
        #[arg(long)]
        to: String,
        /// Why, a code
        #[arg(long, default_value = "progress")]
        reason: String,
    },
    /// Answer it
    Respond {
        #[command(flatten)]
        which: Which,
        /// The answer in words
        #[arg(long, default_value = "")]
        body: String,
        /// The structured answer, JSON text
        #[arg(long)]
        result: Option<String>,
        /// It could not be done
        #[arg(long)]
        failed: bool,
    },
    /// Withdraw what you asked for
    Cancel {
        #[command(flatten)]
        which: Which,
        /// Why, a code
        #[arg(long, default_value = "requester_canceled")]
        reason: String,
    },
    /// Catch up with what is on record: deliveries, and your own deadlines
    Reconcile {
        #[command(flatten)]
        at: At,
    },
}

pub(super) fn run(command: ObligationCommand) -> Result<(), Failure> {
    serve::block_on(async move {
        match command {
            ObligationCommand::Create { at, provider, name, text, thread, deadline, schema, schema_id, message_id } => {
                let (desk, now) = desk(&at)?;
                let provider = io::public("--provider", &provider)?;
                let name = io::name(&name)?;
                let schema = schema.map(|file| io::read(&file)).transpose()?;
                let terms = terms(deadline.as_deref(), schema.as_deref().zip(schema_id.as_deref()))?;
                let thread = match thread {
                    Some(thread) => thread,
                    None => desk.open_thread(now, &provider, name.as_str()).await.map_err(failure)?,
                };
                let thread = ThreadId::parse(&thread).ok_or_else(|| {
                    Failure::usage(format!("--thread: {thread:?} is no thread id, thread_ and 24 hex digits"))
                })?;
                let id = message_id.unwrap_or_else(nonce);
                let message = Message { thread, id, content: Content::Post(text), demands: Some(terms) };
                told(desk.say(now, &message).await)
            }
            ObligationCommand::Inbox { at } => read(&at, "/v1/response-obligations/inbox").await,
            ObligationCommand::List { at, role, states, limit, after } => {
                let states: String = states.iter().map(|state| format!("&state={}", state.as_str())).collect();
                let after = after.map(|id| format!("&after={}", id.as_str())).unwrap_or_default();
                read(&at, &format!("/v1/response-obligations?role={role}&limit={limit}{states}{after}")).await
            }
            ObligationCommand::Get { which, ledger } => {
                let (desk, now) = desk(&which.at)?;
                let view = desk.view(now, &which.id).await.map_err(failure)?;
                if !ledger {
                    return operator::print(&view);
                }
                let lines = view["history"].as_array().into_iter().flatten();
                lines.into_iter().try_for_each(io::say)
            }
            ObligationCommand::Reconcile { at } => {
                let (desk, now) = desk(&at)?;
                told(desk.ask(now, Method::POST, "/v1/response-obligations/reconcile", None).await)
            }
            ObligationCommand::Accept { which } => act(&which, Doing::Accept).await,
            ObligationCommand::Decline { which, reason } => act(&which, Doing::Decline { reason }).await,
            ObligationCommand::Progress { which, to, reason } => act(&which, Doing::Progress { to, reason }).await,
            ObligationCommand::Cancel { which, reason } => act(&which, Doing::Cancel { reason }).await,
            ObligationCommand::Respond { which, body, result, failed } => {
                act(&which, Doing::Respond { failed, body, result }).await
            }
        }
    })
}

/// `verify ledger FILE`: without a witness and without a network.
pub(super) fn verify_ledger(file: &std::path::Path) -> Result<(), Failure> {
    let count = ledger::verify(&io::read(file)?).map_err(|broken| Failure::refused(broken.to_string()))?;
    io::say(format!("{count} entries, each with the digest of what it says and of the one before it"))
}

fn desk(at: &At) -> Result<(Desk, Moment), Failure> {
    let desk = Desk::new(Arc::new(io::key(&at.key)?), &io::witness_url(&at.witness)?, Client::new());
    Ok((desk, io::moment(None)))
}

fn failure(no: No) -> Failure {
    match no {
        No::Refused { code, sentence } => Failure::refused(format!("{code}: {sentence}")),
        No::Wrong(why) => Failure::usage(why),
        No::Unreached(why) | No::Lost(why) | No::Strange(why) => Failure::environment(why),
    }
}

fn told(answer: Result<Value, No>) -> Result<(), Failure> {
    operator::print(&answer.map_err(failure)?)
}

async fn read(at: &At, path: &str) -> Result<(), Failure> {
    let (desk, now) = desk(at)?;
    told(desk.ask(now, Method::GET, path, None).await)
}

/// Signs an act for the revision that was seen, and sends it with what it repeats.
async fn act(which: &Which, doing: Doing) -> Result<(), Failure> {
    let (desk, now) = desk(&which.at)?;
    let signed = desk.sign(now, &which.id, which.revision, &doing).await.map_err(failure)?;
    told(desk.send(now, &signed).await)
}

/// What is demanded, JSON.
fn terms(deadline: Option<&str>, schema: Option<(&str, &str)>) -> Result<Value, Failure> {
    let mut terms = json!({ "response_required": true });
    if let Some(deadline) = deadline {
        terms["deadline_at"] = deadline.into();
    }
    if let Some((text, id)) = schema {
        strict::check(text).map_err(|error| Failure::usage(format!("--schema: no JSON ({error})")))?;
        terms["response_schema_id"] = id.into();
        terms["response_schema"] = serde_json::from_str(text).unwrap_or_default();
    }
    Ok(terms)
}
