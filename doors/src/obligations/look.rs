//! What a party reads: one obligation whole, a list, the counters, the ledger as lines. Every
//! read is signed by a party (RFC 9421); a stranger is told what is told for an id that
//! never was, byte for byte.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use wikala_chain::PublicKey;
use wikala_witness::obligation::{ListFilter, ObligationView, Role, State as Stands};
use wikala_witness::{Code, EventId};

use super::acts::obligation_id;
use crate::answer::{Door, Problem};
use crate::door::{Knock, Route};
use crate::house::App;

/// How many are listed, if nothing else is said, and at most.
const LIST: (u64, u64) = (100, 1000);

/// The routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/response-obligations", get(list))
        .route("/v1/response-obligations/inbox", get(inbox))
        .route("/v1/response-obligations/{id}", get(one))
        .route("/v1/response-obligations/{id}/ledger", get(ledger))
        .route("/v1/messages/{artifact}", get(ack))
}

/// The party that signed a request.
///
/// # Errors
/// `presenter-required`, `presenter-proof`, `certificate-expired`.
pub(super) async fn party(app: &App, knock: &Knock) -> Result<PublicKey, Problem> {
    knock.viewer(app).await?.ok_or_else(|| {
        Problem::record(Code::PresenterRequired, "request: unsigned, a party signs its reads (RFC 9421)")
    })
}

async fn view(app: &App, knock: &Knock, id: &str) -> Result<ObligationView, Problem> {
    let party = party(app, knock).await?;
    let id = obligation_id(id)?;
    Ok(app.readers.read(move |reader| reader.obligation(&id, party)).await?)
}

/// As [`view`], with content: what its reader is a recipient of, it has read from now on.
async fn read_by(app: &App, knock: &Knock, id: &str) -> Result<ObligationView, Problem> {
    let party = party(app, knock).await?;
    let id = obligation_id(id)?;
    let (view, unread) = {
        let id = id.clone();
        let read = app.readers.read(move |reader| {
            let view = reader.obligation(&id, party)?;
            let events: Vec<_> =
                [Some(view.event.clone()), view.response_event.clone()].into_iter().flatten().collect();
            let unread = reader.unread(party, &events)?;
            Ok((view, unread))
        });
        read.await?
    };
    if unread.is_empty() {
        return Ok(view);
    }
    app.desk.ask(move |witness, now| witness.polled(now, party, &unread)).await?;
    Ok(app.readers.read(move |reader| reader.obligation(&id, party)).await?)
}

/// `GET /v1/response-obligations/{id}`: all of it, with its history.
async fn one(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let view = read_by(&app, &knock, &id).await?;
    let mut words = brief(&view);
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    words["request"] = json(&view.payload);
    words["response"] = view.response.as_deref().map_or(Value::Null, json);
    words["response_schema"] = view.schema.as_deref().map_or(Value::Null, json);
    words["history"] = view.history.iter().map(|entry| json(&entry.to_json())).collect();
    words["delivery"] = view
        .delivery
        .iter()
        .map(|(fact, evidence, at)| json!({ "fact": fact, "evidence": evidence, "at": at }))
        .collect();
    Ok(Json(words).into_response())
}

/// `GET /v1/messages/{event_id}.ack.json`: the word of who is to answer it.
async fn ack(State(app): State<App>, Route(artifact): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let party = party(&app, &knock).await?;
    let unavailable =
        || Problem::record(Code::ObligationUnavailable, "ack: not known here, not yours, or not given yet");
    let event = artifact.strip_suffix(".ack.json").and_then(EventId::parse).ok_or_else(unavailable)?;
    let id = event.as_str().to_owned();
    let ack = app.readers.read(move |reader| reader.ack(&event, party)).await.map_err(Problem::from);
    // What is not yet there is told as what never was: one sentence for all of it.
    let ack = match ack {
        Ok(ack) => ack.ok_or_else(unavailable)?,
        Err(no) if no.code == unavailable().code => return Err(unavailable()),
        Err(fault) => return Err(fault),
    };
    let mut words = json!({
        "msg_id": id, "message_id": ack.message_id, "obligation_id": ack.obligation.as_str(),
        "status": ack.status, "agent_id": ack.agent.to_hex(), "ts": ack.at,
    });
    if let Some(reason) = ack.reason {
        words["decline_reason"] = reason.into();
    }
    Ok(Json(words).into_response())
}

fn brief(view: &ObligationView) -> Value {
    json!({
        "obligation_id": view.id.as_str(),
        "state": view.state.as_str(),
        "revision": view.revision,
        "reason": view.reason,
        "thread_id": view.thread.as_str(),
        "run_id": view.run.as_str(),
        "ask_id": view.ask.as_ref().map(|(_, item)| item),
        "request_event_id": view.event.as_str(),
        "request_digest": view.request.to_hex(),
        "envelope_digest": view.envelope.to_hex(),
        "message_id": view.message_id,
        "requester": view.requester.to_hex(),
        "author": view.author.to_hex(),
        "responsible": view.responsible.to_hex(),
        "dispatch_digest": view.dispatch.map(|digest| digest.to_hex()),
        "response_schema_id": view.schema_id,
        "response_schema_digest": view.schema_digest.map(|digest| digest.to_hex()),
        "response_event_id": view.response_event.as_ref().map(|id| id.as_str()),
        "response_envelope_digest": view.response_envelope.map(|digest| digest.to_hex()),
        "deadline_at": view.deadline_at,
        "auto_expire": view.auto_expire,
        "created_at": view.created_at,
        "closed_at": view.closed_at,
    })
}

/// `GET …/{id}/ledger`: one entry a line, oldest first; `wikala verify ledger` checks it.
async fn ledger(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let view = view(&app, &knock, &id).await?;
    let lines: String = view.history.iter().map(|entry| entry.to_json() + "\n").collect();
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, lines).into_response())
}

/// `GET /v1/response-obligations?role=&state=&limit=&after=`: a party's, oldest first.
async fn list(
    State(app): State<App>,
    Query(query): Query<Vec<(String, String)>>,
    knock: Knock,
) -> Result<Response, Problem> {
    let party = party(&app, &knock).await?;
    let mut filter = ListFilter { role: Role::Any, states: Vec::new(), limit: LIST.0, after: None };
    let mut seen = BTreeMap::new();
    for (name, value) in &query {
        if name != "state" && seen.insert(name, value).is_some() {
            return Err(Problem::door(Door::BodyMalformed, format!("{name}: is there twice")));
        }
        match name.as_str() {
            "role" => {
                filter.role = match value.as_str() {
                    "requester" => Role::Requester,
                    "responsible" => Role::Responsible,
                    "any" => Role::Any,
                    _ => return Err(Problem::door(Door::BodyMalformed, "role: requester, responsible or any")),
                }
            }
            "state" => {
                let state = Stands::parse(value)
                    .ok_or_else(|| Problem::door(Door::UnknownState, "state: none of the states, see WIRE.md"))?;
                filter.states.push(state);
            }
            "limit" => {
                filter.limit = value
                    .parse()
                    .ok()
                    .filter(|limit| (1..=LIST.1).contains(limit))
                    .ok_or_else(|| Problem::door(Door::LimitOutOfRange, format!("limit: 1 to {}", LIST.1)))?;
            }
            "after" => filter.after = Some(obligation_id(value)?),
            _ => {
                let sentence = format!("query: {name:?} is not known here, known are role, state, limit, after");
                return Err(Problem::door(Door::BodyMalformed, sentence));
            }
        }
    }
    let limit = filter.limit;
    let views = app.readers.read(move |reader| reader.obligations(party, &filter)).await?;
    let mut words = json!({ "obligations": views.iter().map(brief).collect::<Vec<_>>() });
    if views.len() as u64 == limit
        && let Some(last) = views.last()
    {
        words["next"] = last.id.as_str().into();
    }
    Ok(Json(words).into_response())
}

/// `GET /v1/response-obligations/inbox`: six counts, and no content.
async fn inbox(State(app): State<App>, knock: Knock) -> Result<Response, Problem> {
    let party = party(&app, &knock).await?;
    let now = app.desk.now();
    let inbox = app.readers.read(move |reader| reader.inbox(now, party)).await?;
    let words = json!({
        "unread_information": inbox.unread_information, "action_required": inbox.action_required,
        "awaiting_peer": inbox.awaiting_peer, "awaiting_human": inbox.awaiting_human,
        "overdue": inbox.overdue, "failed": inbox.failed,
    });
    Ok(Json(words).into_response())
}
