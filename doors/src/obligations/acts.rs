//! Acts on an obligation, over our own routes. The body repeats what was signed; whoever
//! changed a word of it on the way is told that the signature does not fit.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;
use wikala_certs::{Deed, Proof, SignedDeed, is_code};
use wikala_chain::{Digest, Inexact, json as strict};
use wikala_witness::obligation::response::{NoBytes, Said};
use wikala_witness::obligation::{self, Act, Done, MailboxAck, ObligationId, Response as Typed};
use wikala_witness::{Consented, EventId, ThreadId};

use crate::acts::{Body, malformed};
use crate::answer::{Door, Problem};
use crate::bag::Bag;
use crate::door::{Knock, Route};
use crate::house::App;

/// The longest reason for not taking it, bytes.
const REASON: usize = 1024;
/// The longest text of a response, bytes.
const BODY: usize = 64 * 1024;
/// The longest idempotency key, bytes.
const KEY: usize = 256;
/// How many a reconciliation moves, if nothing else is said, and at most.
const RECONCILE: (u64, u64) = (100, 1000);

/// The routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/response-obligations/{id}/accept", post(accept))
        .route("/v1/response-obligations/{id}/decline", post(decline))
        .route("/v1/response-obligations/{id}/transition", post(transition))
        .route("/v1/response-obligations/{id}/cancel", post(cancel))
        .route("/v1/response-obligations/{id}/respond", post(respond))
        .route("/v1/response-obligations/reconcile", post(reconcile))
        .route("/v1/mailbox/ack", post(mailbox_ack))
}

/// What is not of our form was never an obligation here: told as the record tells it.
pub(super) fn obligation_id(text: &str) -> Result<ObligationId, Problem> {
    ObligationId::parse(text).ok_or_else(|| {
        Problem::record(wikala_witness::Code::ObligationUnavailable, "obligation: not known here, or not yours")
    })
}

/// The members that every act has.
const ACT: [&str; 2] = ["act", "certificate"];

/// The proof and the certificate beside it.
fn proved(app: &App, knock: &Knock, body: &Body, deed: Deed) -> Result<(SignedDeed, Option<Consented>), Problem> {
    let raw = body.get("act").ok_or_else(|| malformed("act: missing, sign what you ask for"))?;
    let deed = SignedDeed::verify(&Proof::parse(raw)?, deed)?;
    let signer = knock.signer(app)?;
    let certificate = Bag::of_certificate(body.get("certificate"))?.consented(signer.as_ref());
    Ok((deed, certificate))
}

fn number(body: &Body, name: &str) -> Result<u64, Problem> {
    let raw = body.get(name).ok_or_else(|| malformed(format!("{name}: missing, send the one you saw")))?;
    strict::integer(raw).map_err(|_| malformed(format!("{name}: not a whole number")))
}

fn needed(body: &Body, name: &str) -> Result<String, Problem> {
    body.text(name)?.ok_or_else(|| malformed(format!("{name}: missing")))
}

fn code(text: String, place: &str) -> Result<String, Problem> {
    if is_code(&text) {
        return Ok(text);
    }
    let sentence = format!("{place}: not a code, 1 to 128 of letters, digits, . _ and -");
    Err(Problem::door(Door::ReasonNotACode, sentence))
}

fn told(done: &Done) -> Response {
    let words = json!({
        "obligation_id": done.id.as_str(), "state": done.state.as_str(), "revision": done.revision,
        "duplicate": done.replayed,
    });
    Json(words).into_response()
}

async fn act(app: App, knock: Knock, body: Body, id: ObligationId, deed: Deed) -> Result<Response, Problem> {
    let (deed, certificate) = proved(&app, &knock, &body, deed)?;
    let act = Act { id, deed, certificate };
    let done = app.desk.ask(move |witness, now| witness.act_on_obligation(now, act)).await?;
    Ok(told(&done))
}

/// `POST …/{id}/accept`: `{"revision", "act", "certificate"?}`.
async fn accept(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let id = obligation_id(&id)?;
    let body = Body::read(&knock, &[&["revision"][..], &ACT].concat())?;
    let deed = Deed::Accept { obligation: id.as_str().to_owned(), revision: number(&body, "revision")? };
    act(app, knock, body, id, deed).await
}

/// `POST …/{id}/decline`: `{"revision", "decline_reason", "act", "certificate"?}`.
async fn decline(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let id = obligation_id(&id)?;
    let body = Body::read(&knock, &[&["revision", "decline_reason"][..], &ACT].concat())?;
    let reason = body.text("decline_reason")?.filter(|reason| !reason.trim().is_empty() && reason.len() <= REASON);
    let reason = reason.ok_or_else(|| {
        Problem::door(Door::DeclineReasonRequired, format!("decline_reason: say why, 1 to {REASON} bytes"))
    })?;
    let deed = Deed::Decline { obligation: id.as_str().to_owned(), revision: number(&body, "revision")?, reason };
    act(app, knock, body, id, deed).await
}

/// `POST …/{id}/transition`: `{"to_state", "reason", "revision", "act", "certificate"?}`.
async fn transition(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let id = obligation_id(&id)?;
    let body = Body::read(&knock, &[&["to_state", "reason", "revision"][..], &ACT].concat())?;
    let to = needed(&body, "to_state")?;
    if obligation::State::parse(&to).is_none() {
        return Err(Problem::door(Door::UnknownState, "to_state: none of the states, see the list in WIRE.md"));
    }
    let reason = code(body.text("reason")?.unwrap_or_else(|| "progress".to_owned()), "reason")?;
    let revision = number(&body, "revision")?;
    let deed = Deed::Progress { obligation: id.as_str().to_owned(), revision, to, reason };
    act(app, knock, body, id, deed).await
}

/// `POST …/{id}/cancel`: `{"revision", "reason_code"?, "act", "certificate"?}`.
async fn cancel(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let id = obligation_id(&id)?;
    let body = Body::read(&knock, &[&["reason_code", "revision"][..], &ACT].concat())?;
    let reason = code(body.text("reason_code")?.unwrap_or_else(|| "requester_canceled".to_owned()), "reason_code")?;
    let deed = Deed::Cancel { obligation: id.as_str().to_owned(), revision: number(&body, "revision")?, reason };
    act(app, knock, body, id, deed).await
}

/// What a response says beside its act.
const RESPONSE: [&str; 7] = [
    "request_event_id",
    "request_digest",
    "outcome",
    "body",
    "response_schema_id",
    "structured_response",
    "idempotency_key",
];

/// `POST …/{id}/respond`: the typed response.
async fn respond(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let id = obligation_id(&id)?;
    let body = Body::read(&knock, &[&RESPONSE[..], &ACT].concat())?;
    answer(app, &knock, &body, id, None).await
}

/// Answers with the members of a typed response. `thread`: where it was sent.
pub(super) async fn answer(
    app: App,
    knock: &Knock,
    body: &Body,
    id: ObligationId,
    thread: Option<ThreadId>,
) -> Result<Response, Problem> {
    let event = needed(body, "request_event_id")?;
    let request = needed(body, "request_digest")?;
    let request = Digest::from_hex(&request).map_err(|_| malformed("request_digest: not 64 lower-case hex"))?;
    let outcome = needed(body, "outcome")?;
    if !matches!(outcome.as_str(), "completed" | "failed") {
        return Err(malformed("outcome: neither \"completed\" nor \"failed\""));
    }
    let text = body.text("body")?.unwrap_or_default();
    if text.len() > BODY {
        return Err(malformed(format!("body: more than {BODY} bytes, send less")));
    }
    let schema_id = body.text("response_schema_id")?;
    let idempotency_key = body.text("idempotency_key")?;
    if idempotency_key.as_ref().is_some_and(|key| key.is_empty() || key.len() > KEY) {
        return Err(malformed(format!("idempotency_key: 1 to {KEY} bytes")));
    }
    let payload =
        response(&id, &event, &request, &outcome, &text, schema_id.as_deref(), body.said("structured_response"))?;
    let deed =
        Deed::Respond { obligation: id.as_str().to_owned(), event, request, response: Digest::of(payload.as_bytes()) };
    let digest = Digest::of(payload.as_bytes());
    let idempotency_key = idempotency_key.unwrap_or_else(|| digest.to_hex());
    let (deed, certificate) = proved(&app, knock, body, deed)?;
    let checked = match body.said("structured_response") {
        // Nor does a stranger make us apply a schema: the desk tells it what it tells strangers.
        Some(instance) if is_party(&app, &id, &deed, certificate.as_ref()).await => {
            check(&app, &id, instance.to_owned()).await?
        }
        _ => None,
    };
    let typed = Typed {
        act: Act { id, deed, certificate },
        completed: outcome == "completed",
        payload,
        idempotency_key,
        thread,
        schema_id,
        checked,
    };
    let done = app.desk.ask(move |witness, now| witness.respond(now, typed)).await?;
    if !done.replayed {
        read_back(&app, &done.id, digest).await;
    }
    Ok(told(&done))
}

/// The exact response: canonical JSON of what it says and what it is bound to.
///
/// # Errors
/// `body-malformed` for what cannot be digested exactly.
pub fn response(
    id: &ObligationId,
    event: &str,
    request: &Digest,
    outcome: &str,
    text: &str,
    schema_id: Option<&str>,
    structured: Option<&str>,
) -> Result<String, Problem> {
    let said = Said {
        obligation: id,
        event,
        request: *request,
        completed: outcome == "completed",
        body: text,
        schema_id,
        structured,
    };
    said.payload().map_err(|why| match why {
        NoBytes::NotJson => malformed("structured_response: no JSON"),
        NoBytes::Inexact => malformed(format!("structured_response: {Inexact}")),
    })
}

/// After the commit: the response is read by another connection, and only then counts as
/// delivered to its place. It is on record either way, and its act is spent.
async fn read_back(app: &App, id: &ObligationId, said: Digest) {
    let known = id.clone();
    let read = app.readers.read(move |reader| {
        let Some(event) = reader.response_event(&known)? else { return Ok(None) };
        Ok(reader.event_bytes_digest(&event)?.map(|seen| (event, seen)))
    });
    let same = match read.await {
        Ok(Some((event, seen))) if seen == said => {
            app.desk.ask(move |witness, now| witness.read_back(now, &event, seen)).await
        }
        other => other.map(|_| false),
    };
    if !matches!(same, Ok(true)) {
        tracing::error!(obligation = id.as_str(), "a response could not be read back");
    }
}

/// The signer is one of the two, as itself or by the certificate beside the act.
async fn is_party(app: &App, id: &ObligationId, deed: &SignedDeed, certificate: Option<&Consented>) -> bool {
    let (id, signer, now) = (id.clone(), deed.signer(), app.desk.now());
    let shown = certificate.map(|consented| (consented.certificate.delegate(), consented.certificate.authority()));
    let party = app.readers.read(move |reader| {
        let party = match shown {
            Some((delegate, authority)) if delegate == signer => authority,
            _ => reader.viewer(now, signer)?,
        };
        reader.obligation(&id, party)
    });
    party.await.is_ok()
}

/// The structured part against the stored schema, off the desk and off the async threads.
/// What came of it is told only to the party that is found to answer.
async fn check(
    app: &App,
    id: &ObligationId,
    instance: String,
) -> Result<Option<(Digest, Result<(), wikala_witness::schema::Violation>)>, Problem> {
    let known = id.clone();
    let Some((digest, text)) = app.readers.read(move |reader| reader.demanded_schema(&known)).await? else {
        return Ok(None);
    };
    let judged = crate::schemas::aside(move || {
        // It passed the gate when it was stored; the library is pinned.
        wikala_witness::schema::gate(&text).map(|schema| schema.check(&instance))
    });
    match judged.await {
        Some(Ok(verdict)) => Ok(Some((digest, verdict))),
        _ => Err(Problem::door(Door::CannotRecord, "schema: could not be looked at, try again")),
    }
}

/// `POST /v1/response-obligations/reconcile`: `{"limit"?}`, signed by a party (RFC 9421).
async fn reconcile(State(app): State<App>, knock: Knock) -> Result<Response, Problem> {
    let party = super::look::party(&app, &knock).await?;
    let limit = match knock.body.is_empty() {
        true => RECONCILE.0,
        false => match Body::read(&knock, &["limit"])?.get("limit") {
            None => RECONCILE.0,
            Some(raw) => strict::integer(raw).unwrap_or(0),
        },
    };
    if !(1..=RECONCILE.1).contains(&limit) {
        return Err(Problem::door(Door::LimitOutOfRange, format!("limit: 1 to {}", RECONCILE.1)));
    }
    let moved = app.desk.ask(move |witness, now| witness.reconcile(now, party, limit)).await?;
    let ids = |list: &[ObligationId]| list.iter().map(|id| id.as_str().to_owned()).collect::<Vec<_>>();
    let words = json!({ "recipient_committed": ids(&moved.committed), "expired": ids(&moved.expired) });
    Ok(Json(words).into_response())
}

/// `POST /v1/mailbox/ack`: `{"event_id", "envelope_digest", "act", "certificate"?}`.
async fn mailbox_ack(State(app): State<App>, knock: Knock) -> Result<Response, Problem> {
    let body = Body::read(&knock, &[&["event_id", "envelope_digest"][..], &ACT].concat())?;
    let event = needed(&body, "event_id")?;
    let id = EventId::parse(&event).ok_or_else(|| {
        Problem::record(wikala_witness::Code::ObligationUnavailable, "obligation: not known here, or not yours")
    })?;
    let envelope = needed(&body, "envelope_digest")?;
    let envelope = Digest::from_hex(&envelope).map_err(|_| malformed("envelope_digest: not 64 lower-case hex"))?;
    let (deed, certificate) = proved(&app, &knock, &body, Deed::MailboxAck { event, envelope })?;
    let ack = MailboxAck { event: id, deed, certificate };
    app.desk.ask(move |witness, now| witness.acknowledge(now, ack)).await?;
    Ok(Json(json!({ "fact": "committed" })).into_response())
}
