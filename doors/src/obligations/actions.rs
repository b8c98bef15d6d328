//! `POST /v1/conversations/{thread}/actions`: one strict body for what may be said in a thread,
//! with what it demands, and for the typed response that closes a demand.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use wikala_chain::{RawObject, json as strict};
use wikala_witness::obligation::Owed;
use wikala_witness::{Dialect, Lineage, Opened, Place, ThreadId, Utterance, Words};

use super::acts::{self, obligation_id};
use super::spec::{self, Asked, closed};
use crate::acts::{Body, malformed};
use crate::answer::{Door, Problem};
use crate::bag::{Bag, stands};
use crate::door::{Knock, Route, thread_id};
use crate::house::App;

/// The routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new().route("/v1/conversations/{thread}/actions", post(action))
}

/// The members of every message, and of one that may demand an answer.
const MESSAGE: [&str; 3] = ["kind", "message_id", "metadata"];
const DEMAND: [&str; 3] = ["response_obligation", "act", "idempotency_key"];
/// The longest text of a message, bytes.
const BODY: usize = 64 * 1024;

async fn action(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let thread = thread_id(&id)?;
    let text = knock.json()?;
    let kind = RawObject::parse(text)?.get("kind").and_then(|raw| strict::string(raw.get()));
    let demands = RawObject::parse(text)?.get("response_obligation").is_some_and(|raw| raw.get() != "null");
    let own: &[&str] = match kind.as_deref() {
        Some("post" | "reply") => &["body"],
        Some("structured_request") => &["request_type", "arguments"],
        Some("obligation_response") => &[
            "act",
            "idempotency_key",
            "obligation_id",
            "request_event_id",
            "request_digest",
            "outcome",
            "body",
            "response_schema_id",
            "structured_response",
            "certificate",
        ],
        _ => return Err(malformed("kind: post, structured_request, reply or obligation_response")),
    };
    // Each kind takes what is its own: what would be passed over in silence is refused.
    let more: &[&str] = match kind.as_deref() {
        Some("obligation_response") => &["kind"],
        Some("reply") => &MESSAGE,
        // Without a demand there is nothing that an act or a key could be about.
        _ if !demands => &[&MESSAGE[..], &DEMAND[..1]].concat(),
        _ => &[MESSAGE, DEMAND].concat(),
    };
    let known = [more, own].concat();
    closed(text, "action", &known)?;
    let body = Body::read(&knock, &known)?;
    if kind.as_deref() == Some("obligation_response") {
        let id = body.text("obligation_id")?.ok_or_else(|| malformed("obligation_id: missing"))?;
        return acts::answer(app, &knock, &body, obligation_id(&id)?, Some(thread)).await;
    }
    say(app, knock, body, thread, kind.as_deref().unwrap_or_default()).await
}

async fn say(app: App, knock: Knock, body: Body, thread: ThreadId, kind: &str) -> Result<Response, Problem> {
    let needed = |name: &str| body.text(name)?.ok_or_else(|| malformed(format!("{name}: missing")));
    let message_id = needed("message_id")?;
    let part = match kind {
        "structured_request" => {
            let arguments = body.get("arguments").unwrap_or("{}");
            let kind = strict::quote(&needed("request_type")?);
            format!("{{\"data\":{{\"request_type\":{kind},\"arguments\":{arguments}}}}}")
        }
        _ => {
            let text = needed("body")?;
            if text.is_empty() || text.len() > BODY {
                return Err(malformed(format!("body: 1 to {BODY} bytes")));
            }
            format!("{{\"text\":{}}}", strict::quote(&text))
        }
    };
    let parts = format!("[{part}]");
    let agent = {
        let thread = thread.clone();
        app.readers.read(move |reader| reader.agent_of_thread(&thread)).await?
    };
    let mut bag = Bag::read(body.get("metadata"), &app.cache)?;
    let owing = match body.get("response_obligation") {
        None => None,
        Some(spec) => {
            let key = body.text("idempotency_key")?.unwrap_or_else(|| message_id.clone());
            let extension = format!(
                "{{\"v\":1,\"obligation\":{spec},\"act\":{},\"idempotency_key\":{}}}",
                body.get("act").unwrap_or("null"),
                strict::quote(&key)
            );
            let asked = Asked { thread: &thread, kind, message_id: &message_id, role: "ROLE_USER", parts: &parts };
            Some(spec::read(&extension, asked, spec::Stated::default()).await?)
        }
    };
    let signer = knock.signer(&app)?;
    let vouched = knock.vouched(&app)?;
    if bag.is_anonymous() && signer.is_none() && vouched.is_none() {
        knock.anonymous_run(&app)?;
    }
    let caller = bag.caller(&app.public_key(), &agent, signer, vouched)?;
    let words = format!(
        "{{\"message\":{{\"messageId\":{},\"contextId\":{},\"role\":\"ROLE_USER\",\"parts\":{parts}}},\"metadata\":{}}}",
        strict::quote(&message_id),
        strict::quote(thread.as_str()),
        body.get("metadata").unwrap_or("{}")
    );
    let said = Utterance {
        agent,
        place: Place::Thread(thread),
        caller,
        words: Words { dialect: Dialect::A2a, text: words.into() },
        extensions: Vec::new(),
        lineage: Lineage::default(),
        vouchers: bag.vouchers.take(),
        addressed: bag.addressed.take(),
        client_run: None,
        owing,
    };
    let opened = app.desk.ask(move |witness, now| witness.speak(now, said)).await?;
    if let Some(owed) = &opened.owed {
        read_back(&app, owed).await?;
    }
    Ok((StatusCode::ACCEPTED, Json(told(&opened))).into_response())
}

fn told(opened: &Opened) -> Value {
    let mut words = json!({ "run_id": opened.run.as_str(), "thread_id": opened.thread.as_str() });
    if let Some(owed) = &opened.owed {
        words["obligation"] = stands(owed);
    }
    words
}

/// After the commit: the message is read by another connection, and must be the same bytes.
/// Only then it counts as delivered to its place.
///
/// # Errors
/// `cannot-record`: it is not there, or not as it was.
pub async fn read_back(app: &App, owed: &Owed) -> Result<(), Problem> {
    if owed.duplicate {
        return Ok(());
    }
    let (event, request) = (owed.event.clone(), owed.request);
    let seen = app.readers.read(move |reader| reader.event_bytes_digest(&event)).await?;
    let blocked = || Problem::door(Door::CannotRecord, "delivery: blocked, the message could not be read back");
    let seen = seen.filter(|seen| *seen == request).ok_or_else(blocked)?;
    let event = owed.event.clone();
    let same = app.desk.ask(move |witness, now| witness.read_back(now, &event, seen)).await?;
    if same { Ok(()) } else { Err(blocked()) }
}
