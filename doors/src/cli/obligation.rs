//! `wikala obligation`: what is owed, asked for, taken and answered, with a key file. The acts
//! are signed here; the witness gets the signature and never the key.

use std::path::PathBuf;

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wikala_certs::{Deed, Moment};
use wikala_chain::{Digest, SigningKey, VerifiedChain, json as strict, nonce};
use wikala_witness::ThreadId;
use wikala_witness::obligation::{ObligationId, State, ledger};

use super::{io, operator, serve};
use crate::client::{Client, Signer};
use crate::exit::Failure;
use crate::obligations::acts::response;
use crate::obligations::spec::{Asked, request};

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
                let desk = Desk::open(&at)?;
                let provider = io::public("--provider", &provider)?;
                let name = io::name(&name)?;
                let thread = match thread {
                    Some(thread) => thread,
                    None => desk.new_thread(&format!("/threads/{provider}/{}", name.as_str())).await?,
                };
                let schema = schema.map(|file| io::read(&file)).transpose()?;
                let terms = terms(deadline.as_deref(), schema.as_deref().zip(schema_id.as_deref()))?;
                desk.create(&thread, &text, &message_id.unwrap_or_else(nonce), &terms).await
            }
            ObligationCommand::Inbox { at } => desk_get(&at, "/v1/response-obligations/inbox").await,
            ObligationCommand::List { at, role, states, limit, after } => {
                let states: String = states.iter().map(|state| format!("&state={}", state.as_str())).collect();
                let after = after.map(|id| format!("&after={}", id.as_str())).unwrap_or_default();
                desk_get(&at, &format!("/v1/response-obligations?role={role}&limit={limit}{states}{after}")).await
            }
            ObligationCommand::Get { which, ledger } => {
                let desk = Desk::open(&which.at)?;
                let view = desk.view(which.id.as_str()).await?;
                if !ledger {
                    return operator::print(&view);
                }
                let lines = view["history"].as_array().into_iter().flatten();
                lines.into_iter().try_for_each(io::say)
            }
            ObligationCommand::Reconcile { at } => {
                let desk = Desk::open(&at)?;
                operator::print(&desk.ask(Method::POST, "/v1/response-obligations/reconcile", None, true).await?)
            }
            ObligationCommand::Accept { which } => {
                act(which, "accept", |obligation, revision| (Deed::Accept { obligation, revision }, json!({}))).await
            }
            ObligationCommand::Decline { which, reason } => {
                act(which, "decline", |obligation, revision| {
                    let more = json!({ "decline_reason": reason });
                    (Deed::Decline { obligation, revision, reason }, more)
                })
                .await
            }
            ObligationCommand::Progress { which, to, reason } => {
                act(which, "transition", |obligation, revision| {
                    let more = json!({ "to_state": to, "reason": reason });
                    (Deed::Progress { obligation, revision, to, reason }, more)
                })
                .await
            }
            ObligationCommand::Cancel { which, reason } => {
                act(which, "cancel", |obligation, revision| {
                    let more = json!({ "reason_code": reason });
                    (Deed::Cancel { obligation, revision, reason }, more)
                })
                .await
            }
            ObligationCommand::Respond { which, body, result, failed } => {
                let desk = Desk::open(&which.at)?;
                desk.respond(&which.id, &body, result.as_deref(), failed).await
            }
        }
    })
}

/// `verify ledger FILE`: without a witness and without a network.
pub(super) fn verify_ledger(file: &std::path::Path) -> Result<(), Failure> {
    let count = ledger::verify(&io::read(file)?).map_err(|broken| Failure::refused(broken.to_string()))?;
    io::say(format!("{count} entries, each with the digest of what it says and of the one before it"))
}

async fn desk_get(at: &At, path: &str) -> Result<(), Failure> {
    operator::print(&Desk::open(at)?.ask(Method::GET, path, None, true).await?)
}

/// Signs a deed for the revision that was seen, and sends it with what it repeats.
async fn act(which: Which, what: &str, deed: impl FnOnce(String, u64) -> (Deed, Value)) -> Result<(), Failure> {
    let desk = Desk::open(&which.at)?;
    let revision = match which.revision {
        Some(revision) => revision,
        None => desk.view(which.id.as_str()).await?["revision"].as_u64().unwrap_or_default(),
    };
    let (deed, mut body) = deed(which.id.as_str().to_owned(), revision);
    body["revision"] = revision.into();
    body["act"] = desk.sign(&deed);
    let path = format!("/v1/response-obligations/{}/{what}", which.id.as_str());
    operator::print(&desk.ask(Method::POST, &path, Some(&body), false).await?)
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

/// A key at a witness.
struct Desk {
    key: SigningKey,
    witness: String,
    now: Moment,
}

impl Desk {
    fn open(at: &At) -> Result<Desk, Failure> {
        Ok(Desk { key: io::key(&at.key)?, witness: io::witness_url(&at.witness)?, now: io::moment(None) })
    }

    fn sign(&self, deed: &Deed) -> Value {
        serde_json::from_str(&deed.sign(&self.key, self.now).to_json()).unwrap_or_default()
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>, signed: bool) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.witness);
        let signer = signed.then(|| Signer { key: &self.key, at_s: self.now.as_secs() });
        let (status, words) =
            Client::new().answer(method, &url, body, &[], signer).await.map_err(Failure::environment)?;
        // Whoever answers with something else than an object is no witness, however glad it sounds.
        let words = words.filter(Value::is_object).ok_or_else(|| operator::no_witness(&url, status))?;
        if status.is_success() {
            return Ok(words);
        }
        match (words["error"]["code"].as_str(), words["error"]["message"].as_str()) {
            (Some(code), Some(message)) => Err(Failure::refused(format!("{code}: {message}"))),
            _ => Err(operator::no_witness(&url, status)),
        }
    }

    async fn new_thread(&self, path: &str) -> Result<String, Failure> {
        let made = self.ask(Method::POST, path, None, false).await?;
        made["threadId"].as_str().map(str::to_owned).ok_or_else(|| Failure::environment("threads: no id in the answer"))
    }

    async fn view(&self, id: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, &format!("/v1/response-obligations/{id}"), None, true).await
    }

    async fn create(&self, thread: &str, text: &str, message_id: &str, terms: &Value) -> Result<(), Failure> {
        let known = ThreadId::parse(thread).ok_or_else(|| {
            Failure::usage(format!("--thread: {thread:?} is no thread id, thread_ and 24 hex digits"))
        })?;
        let parts = json!([{ "text": text }]).to_string();
        let asked = Asked { thread: &known, kind: "post", message_id, role: "ROLE_USER", parts: &parts };
        let payload = request(asked, &terms.to_string()).map_err(|problem| Failure::usage(problem.sentence))?;
        let deed = Deed::Create { thread: thread.to_owned(), request: Digest::of(payload.as_bytes()) };
        let chain: Vec<String> = VerifiedChain::start(&self.key).tokens().map(str::to_owned).collect();
        let body = json!({
            "kind": "post", "message_id": message_id, "body": text, "response_obligation": terms,
            "act": self.sign(&deed), "metadata": { "actorChain": chain },
        });
        let path = format!("/v1/conversations/{thread}/actions");
        operator::print(&self.ask(Method::POST, &path, Some(&body), false).await?)
    }

    async fn respond(
        &self,
        known: &ObligationId,
        text: &str,
        result: Option<&str>,
        failed: bool,
    ) -> Result<(), Failure> {
        let id = known.as_str();
        if let Some(text) = result {
            strict::check(text).map_err(|error| Failure::usage(format!("--result: no JSON ({error})")))?;
        }
        let view = self.view(id).await?;
        let word = |name: &str| view[name].as_str().unwrap_or_default().to_owned();
        let (event, digest) = (word("request_event_id"), word("request_digest"));
        let request =
            Digest::from_hex(&digest).map_err(|_| Failure::environment("witness: no digest in its answer"))?;
        let schema_id = view["response_schema_id"].as_str();
        let outcome = if failed { "failed" } else { "completed" };
        let payload = response(known, &event, &request, outcome, text, schema_id, result)
            .map_err(|problem| Failure::usage(problem.sentence))?;
        let deed = Deed::Respond {
            obligation: id.to_owned(),
            event: event.clone(),
            request,
            response: Digest::of(payload.as_bytes()),
        };
        let mut body = json!({
            "request_event_id": event, "request_digest": digest, "outcome": outcome, "body": text, "act": self.sign(&deed),
        });
        if let Some(schema_id) = schema_id {
            body["response_schema_id"] = schema_id.into();
        }
        if let Some(result) = result {
            body["structured_response"] = serde_json::from_str(result).unwrap_or_default();
        }
        let path = format!("/v1/response-obligations/{id}/respond");
        operator::print(&self.ask(Method::POST, &path, Some(&body), false).await?)
    }
}
