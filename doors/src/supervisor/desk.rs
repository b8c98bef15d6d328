//! A key at a witness: what it asks, and the acts it signs. The command line, the supervisor
//! and the scripted provider do it this one way.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};
use wikala_certs::{Deed, Moment};
use wikala_chain::{Digest, PublicKey, SigningKey, VerifiedChain, json as strict};
use wikala_witness::ThreadId;
use wikala_witness::obligation::ObligationId;

use crate::client::{Client, Events, Signer};
use crate::obligations::acts::response;
use crate::obligations::spec::{Asked, request};

/// The largest answer read, bytes.
const ANSWER: usize = 32 * 1024 * 1024;
/// How long an answer may take, whole.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why it was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum No {
    /// The witness refused: its code and its sentence.
    Refused {
        /// The code (wire.md, Refusals).
        code: String,
        /// The sentence.
        sentence: String,
    },
    /// Nothing left: no connection was made.
    Unreached(String),
    /// It may have arrived, and there was no answer.
    Lost(String),
    /// Whoever answered is no witness.
    Strange(String),
    /// It cannot be asked like this.
    Wrong(String),
}

impl No {
    /// The code of a refusal, or what else it is.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            No::Refused { code, .. } => code,
            No::Unreached(_) => "witness-unreachable",
            No::Lost(_) => "witness-lost",
            No::Strange(_) => "no-witness",
            No::Wrong(_) => "arguments",
        }
    }

    /// The sentence.
    #[must_use]
    pub fn sentence(&self) -> &str {
        match self {
            No::Refused { sentence, .. } => sentence,
            No::Unreached(why) | No::Lost(why) | No::Strange(why) | No::Wrong(why) => why,
        }
    }

    /// It can be asked again as it is, later.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, No::Unreached(_) | No::Lost(_))
            || matches!(self, No::Refused { code, .. } if code == "shutting-down" || code == "rate-limited" || code == "cannot-record")
    }
}

/// What is to be done about an obligation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// Own it.
    Accept,
    /// Not take it.
    Decline {
        /// Why, in words.
        reason: String,
    },
    /// Say where it stands.
    Progress {
        /// The state.
        to: String,
        /// Why, a code.
        reason: String,
    },
    /// Withdraw it.
    Cancel {
        /// Why, a code.
        reason: String,
    },
    /// Answer it.
    Respond {
        /// It could not be done.
        failed: bool,
        /// In words.
        body: String,
        /// The structured answer, JSON text.
        result: Option<String>,
    },
}

/// An act, signed: the same bytes again are the same act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Where it goes.
    pub path: String,
    /// The body.
    pub body: Value,
}

/// What is said in a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The thread.
    pub thread: ThreadId,
    /// Its id, the author's own: the same message again has the same.
    pub id: String,
    /// What it says.
    pub content: Content,
    /// What it demands, the strict spec of obligations.md 2.3; none for most.
    pub demands: Option<Value>,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Words.
    Post(String),
    /// An answer in words, which demands and closes nothing.
    Reply(String),
    /// A request with arguments, JSON text of an object.
    Request {
        /// Its type.
        kind: String,
        /// The arguments.
        arguments: String,
    },
}

/// A key at a witness.
#[derive(Debug, Clone)]
pub struct Desk {
    key: Arc<SigningKey>,
    url: String,
    http: Client,
}

impl Desk {
    /// A key at the witness at `url`.
    #[must_use]
    pub fn new(key: Arc<SigningKey>, url: &str, http: Client) -> Desk {
        Desk { key, url: url.to_owned(), http }
    }

    /// The key that acts.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        self.key.public()
    }

    /// Asks; signed by RFC 9421, as every read of a party's is.
    ///
    /// # Errors
    /// [`No`].
    pub async fn ask(&self, now: Moment, method: Method, path: &str, body: Option<&Value>) -> Result<Value, No> {
        let signer = Signer { key: &self.key, at_s: now.as_secs() };
        let url = format!("{}{path}", self.url);
        let text = body.map(|body| body.to_string().into_bytes());
        let whole = async {
            let sent = self.http.request(method, &url, text, &[], Some(signer)).await;
            let (status, _, answer) = sent.map_err(|unsent| {
                let why = format!("{url}: not reached ({}), is a witness serving there?", unsent.why);
                if unsent.never_left { No::Unreached(why) } else { No::Lost(why) }
            })?;
            let read = Limited::new(answer, ANSWER).collect().await;
            let bytes = read.map_err(|error| No::Lost(format!("{url}: the answer broke off ({error})")))?.to_bytes();
            Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        };
        let (status, words) = tokio::time::timeout(PATIENCE, whole)
            .await
            .unwrap_or_else(|_| Err(No::Lost(format!("{url}: no answer in {} s", PATIENCE.as_secs()))))?;
        said(&url, status, words)
    }

    /// The stream that wakes.
    ///
    /// # Errors
    /// One sentence.
    pub async fn wakes(&self, now: Moment) -> Result<Events, String> {
        let signer = Signer { key: &self.key, at_s: now.as_secs() };
        self.http
            .events(Method::GET, &format!("{}/v1/response-obligations/wake", self.url), None, &[], Some(signer))
            .await
    }

    /// The key of whoever answers as the witness.
    ///
    /// # Errors
    /// [`No`].
    pub async fn witness(&self, now: Moment) -> Result<PublicKey, No> {
        let words = self.ask(now, Method::GET, "/.well-known/wikala.json", None).await?;
        let key = words["publicKey"].as_str().and_then(|hex| PublicKey::from_hex(hex).ok());
        key.ok_or_else(|| No::Strange(format!("{}: names no key, no witness there", self.url)))
    }

    /// One obligation with its history.
    ///
    /// # Errors
    /// [`No`].
    pub async fn view(&self, now: Moment, id: &ObligationId) -> Result<Value, No> {
        self.ask(now, Method::GET, &format!("/v1/response-obligations/{}", id.as_str()), None).await
    }

    /// Opens a thread with an agent; its id.
    ///
    /// # Errors
    /// [`No`].
    pub async fn open_thread(&self, now: Moment, provider: &PublicKey, name: &str) -> Result<String, No> {
        let made = self.ask(now, Method::POST, &format!("/threads/{provider}/{name}"), None).await?;
        let id = made["threadId"].as_str().map(str::to_owned);
        id.ok_or_else(|| No::Strange("threads: no id in the answer".to_owned()))
    }

    /// Says something in a thread, with what it demands.
    ///
    /// # Errors
    /// [`No`].
    pub async fn say(&self, now: Moment, message: &Message) -> Result<Value, No> {
        let (kind, parts, mut body) = match &message.content {
            Content::Post(text) => ("post", json!([{ "text": text }]), json!({ "body": text })),
            Content::Reply(text) => ("reply", json!([{ "text": text }]), json!({ "body": text })),
            Content::Request { kind, arguments } => {
                strict::check(arguments).map_err(|error| No::Wrong(format!("arguments: no JSON ({error})")))?;
                let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
                let data = json!({ "request_type": kind, "arguments": arguments });
                ("structured_request", json!([{ "data": data }]), data)
            }
        };
        body["kind"] = kind.into();
        body["message_id"] = message.id.as_str().into();
        let chain: Vec<String> = VerifiedChain::start(&self.key).tokens().map(str::to_owned).collect();
        body["metadata"] = json!({ "actorChain": chain });
        if let Some(spec) = &message.demands {
            let parts = parts.to_string();
            let asked =
                Asked { thread: &message.thread, kind, message_id: &message.id, role: "ROLE_USER", parts: &parts };
            let payload = request(asked, &spec.to_string()).map_err(|problem| No::Wrong(problem.sentence))?;
            let thread = message.thread.as_str().to_owned();
            body["response_obligation"] = spec.clone();
            body["act"] = self.proof(now, &Deed::Create { thread, request: Digest::of(payload.as_bytes()) });
        }
        let path = format!("/v1/conversations/{}/actions", message.thread.as_str());
        self.ask(now, Method::POST, &path, Some(&body)).await
    }

    /// Signs an act for the revision that was seen; without one, for what stands now.
    ///
    /// # Errors
    /// [`No`]: what it must repeat could not be read, or cannot be signed.
    pub async fn sign(
        &self,
        now: Moment,
        id: &ObligationId,
        revision: Option<u64>,
        doing: &Doing,
    ) -> Result<Signed, No> {
        if let Doing::Respond { result: Some(text), .. } = doing {
            strict::check(text).map_err(|error| No::Wrong(format!("result: no JSON ({error})")))?;
        }
        let known = id.as_str().to_owned();
        let view = match (revision, doing) {
            (Some(_), Doing::Accept | Doing::Decline { .. } | Doing::Progress { .. } | Doing::Cancel { .. }) => {
                Value::Null
            }
            _ => self.view(now, id).await?,
        };
        let revision = revision.or(view["revision"].as_u64()).unwrap_or_default();
        let (what, deed, mut body) = match doing.clone() {
            Doing::Accept => ("accept", Deed::Accept { obligation: known, revision }, json!({})),
            Doing::Decline { reason } => {
                let body = json!({ "decline_reason": reason });
                ("decline", Deed::Decline { obligation: known, revision, reason }, body)
            }
            Doing::Progress { to, reason } => {
                let body = json!({ "to_state": to, "reason": reason });
                ("transition", Deed::Progress { obligation: known, revision, to, reason }, body)
            }
            Doing::Cancel { reason } => {
                let body = json!({ "reason_code": reason });
                ("cancel", Deed::Cancel { obligation: known, revision, reason }, body)
            }
            Doing::Respond { failed, body, result } => {
                let (deed, body) = typed(id, &view, failed, &body, result.as_deref())?;
                ("respond", deed, body)
            }
        };
        if what != "respond" {
            body["revision"] = revision.into();
        }
        body["act"] = self.proof(now, &deed);
        Ok(Signed { path: format!("/v1/response-obligations/{}/{what}", id.as_str()), body })
    }

    /// Sends what was signed.
    ///
    /// # Errors
    /// [`No`].
    pub async fn send(&self, now: Moment, signed: &Signed) -> Result<Value, No> {
        self.ask(now, Method::POST, &signed.path, Some(&signed.body)).await
    }

    fn proof(&self, now: Moment, deed: &Deed) -> Value {
        // Our own serialisation of a proof: JSON by construction.
        serde_json::from_str(&deed.sign(&self.key, now).to_json()).unwrap_or_default()
    }
}

/// The typed response to an obligation: what is signed, and the body around it.
fn typed(id: &ObligationId, view: &Value, failed: bool, text: &str, result: Option<&str>) -> Result<(Deed, Value), No> {
    let word = |name: &str| view[name].as_str().unwrap_or_default().to_owned();
    let (event, digest) = (word("request_event_id"), word("request_digest"));
    let request = Digest::from_hex(&digest).map_err(|_| No::Strange("witness: no digest in its answer".to_owned()))?;
    let schema_id = view["response_schema_id"].as_str();
    let outcome = if failed { "failed" } else { "completed" };
    let payload = response(id, &event, &request, outcome, text, schema_id, result)
        .map_err(|problem| No::Wrong(problem.sentence))?;
    let mut body = json!({ "request_event_id": event, "request_digest": digest, "outcome": outcome, "body": text });
    if let Some(schema_id) = schema_id {
        body["response_schema_id"] = schema_id.into();
    }
    if let Some(result) = result {
        body["structured_response"] = serde_json::from_str(result).unwrap_or_default();
    }
    let response = Digest::of(payload.as_bytes());
    Ok((Deed::Respond { obligation: id.as_str().to_owned(), event, request, response }, body))
}

fn said(url: &str, status: StatusCode, words: Value) -> Result<Value, No> {
    // Whoever answers with something else than an object is no witness, however glad it sounds.
    let strange = || No::Strange(format!("{url}: answered {}, no witness there", status.as_u16()));
    if !words.is_object() {
        // A gateway in front of one that restarts is no word of the witness either.
        return Err(match status.is_server_error() {
            true => No::Lost(format!("{url}: answered {}", status.as_u16())),
            false => strange(),
        });
    }
    if status.is_success() {
        return Ok(words);
    }
    match (words["error"]["code"].as_str(), words["error"]["message"].as_str()) {
        (Some(code), Some(sentence)) => Err(No::Refused { code: code.to_owned(), sentence: sentence.to_owned() }),
        _ => Err(strange()),
    }
}
