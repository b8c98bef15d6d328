//! Our own reads: well-known, roster, threads, trees, runs, and a run's record as
//! a stream.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use wikala_chain::PublicKey;
use wikala_witness::{AgentId, AskItemView, Entry, ItemKind, RunView, TreeNode};

use crate::answer::{Door, Problem};
use crate::bag;
use crate::door::{Knock, Route, agent, run_id, thread_id};
use crate::fanout::Tail;
use crate::house::App;
use crate::sse;

/// The byte contract this build speaks (`vectors/REVISION`).
pub const REVISION: &str = include_str!("../../vectors/REVISION");

/// The routes of this file.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/.well-known/wikala.json", get(well_known))
        .route("/agents", get(roster))
        .route("/threads/{a}/{b}", post(open_thread).get(tree))
        .route("/threads/{id}", get(thread))
        .route("/v1/runs/{id}", get(run))
        .route("/v1/runs/{id}/events", get(events))
}

/// `GET /.well-known/wikala.json`: what to pin, and what this witness requires.
async fn well_known(State(app): State<App>) -> Response {
    let key = app.public_key();
    let policy = &app.settings.policy;
    let words = json!({
        "publicKey": key.to_hex(),
        "fingerprint": key.fingerprint().to_string(),
        "revision": REVISION.split_whitespace().next(),
        "policies": {
            "presenter": match policy.presenter {
                wikala_witness::PresenterPolicy::Required => "required",
                wikala_witness::PresenterPolicy::Optional => "optional",
            },
            "answers": match policy.answers {
                wikala_witness::AnswerPolicy::Any => "any",
                wikala_witness::AnswerPolicy::Bound => "bound",
            },
            "reads": match policy.reads {
                wikala_witness::ReadPolicy::Open => "open",
                wikala_witness::ReadPolicy::Parties => "parties",
            },
            "admission": match app.settings.admission {
                crate::house::Admission::Open => "open",
                crate::house::Admission::Listed(_) => "listed",
            },
            "windowSeconds": wikala_certs::WINDOW_S,
        },
        "routes": {
            "agents": "/agents",
            "a2a": "/a2a/{provider}/{name}",
            "agui": "/agui/{provider}/{name}",
            "threads": "/threads/{provider}/{name}",
            "thread": "/threads/{id}",
            "tree": "/threads/{id}/tree",
            "run": "/v1/runs/{id}",
            "events": "/v1/runs/{id}/events",
            "answer": "/v1/runs/{id}/answer",
            "cancel": "/v1/runs/{id}/cancel",
            "certificates": "/v1/certificates",
            "revocations": "/v1/revocations",
            "actions": "/v1/conversations/{thread}/actions",
            "obligations": "/v1/response-obligations",
            "obligation": "/v1/response-obligations/{id}",
            "wake": "/v1/response-obligations/wake",
            "mailboxAck": "/v1/mailbox/ack",
            "tickets": "/tickets",
            "link": "/ws/provider",
        },
    });
    axum::Json(words).into_response()
}

/// Agents on one page of the roster, at most.
const AGENTS: u64 = 1000;

/// `GET /agents?after=&limit=`: the roster, a page at a time; `next` begins the next one.
async fn roster(State(app): State<App>, Query(query): Query<BTreeMap<String, String>>) -> Result<Response, Problem> {
    let now = app.desk.now();
    let number = |name: &str, default: u64| match query.get(name).map(|text| text.parse::<u64>()) {
        None => Ok(default),
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) => Err(Problem::door(Door::BodyMalformed, format!("{name}: not a number, send what `next` said"))),
    };
    let (after, limit) = (number("after", 0)?, number("limit", AGENTS)?.clamp(1, AGENTS));
    let (agents, next) = app.readers.read(move |reader| reader.roster(now, after, limit)).await?;
    let agents: Vec<Value> = agents
        .into_iter()
        .map(|view| {
            let provider = view.id.provider.to_hex();
            let registration: Value = serde_json::from_str(&view.registration).unwrap_or(Value::Null);
            json!({
                "providerKey": provider,
                "fingerprint": view.id.provider.fingerprint().to_string(),
                "name": view.id.name.as_str(),
                "description": registration.get("description"),
                "online": view.online,
                "carrier": crate::upstream::agents::carrier(view.upstream),
                "custodial": view.custodial,
                "cardUrl": format!("{}/a2a/{provider}/{}/.well-known/agent-card.json", app.settings.public_url, view.id.name.as_str()),
                "counters": {
                    "declinedWithRoom": view.counters.declined_with_room,
                    "tookNeverEnded": view.counters.took_never_ended,
                    "neverAnswered": view.counters.never_answered,
                    "withdrawn": view.counters.withdrawn,
                },
            })
        })
        .collect();
    let mut words = json!({ "agents": agents });
    if let Some(next) = next {
        words["next"] = next.into();
    }
    Ok(axum::Json(words).into_response())
}

/// `POST /threads/{provider}/{name}`: a thread ahead of its first run.
async fn open_thread(
    State(app): State<App>,
    Route((provider, name)): Route<(String, String)>,
    knock: Knock,
) -> Result<Response, Problem> {
    let agent = agent(&app, &provider, &name).await?;
    knock.anonymous_run(&app)?;
    let thread = app.desk.ask(move |witness, now| witness.open_thread(now, &agent)).await?;
    Ok((axum::http::StatusCode::CREATED, axum::Json(json!({ "threadId": thread.as_str() }))).into_response())
}

async fn thread(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let id = thread_id(&id)?;
    let viewer = knock.viewer(&app).await?;
    let view = app.readers.read(move |reader| reader.thread(&id, viewer)).await?;
    let mut words = json!({
        "threadId": view.thread.as_str(),
        "agent": agent_words(&view.agent),
        "createdAt": view.created_at,
        "runs": view.runs.iter().map(|(run, status)| json!({ "runId": run.as_str(), "status": status.as_str() })).collect::<Vec<_>>(),
    });
    if let Some(head) = view.head {
        words["binding"] = json!({ "head": head.to_hex(), "provider": view.agent.provider.to_hex() });
    }
    Ok(axum::Json(words).into_response())
}

/// `GET /threads/{id}/tree`, filtered by segment for whoever looks.
async fn tree(
    State(app): State<App>,
    Route((id, what)): Route<(String, String)>,
    knock: Knock,
) -> Result<Response, Problem> {
    if what != "tree" {
        return Err(Problem::door(Door::MethodNotAllowed, "route: takes another method, POST opens a thread"));
    }
    let id = thread_id(&id)?;
    let viewer = knock.viewer(&app).await?;
    let node = app.readers.read(move |reader| reader.tree(&id, viewer)).await?;
    Ok(axum::Json(tree_words(&node)).into_response())
}

async fn run(State(app): State<App>, Route(id): Route<String>, knock: Knock) -> Result<Response, Problem> {
    let id = run_id(&id)?;
    let viewer = knock.viewer(&app).await?;
    let view = app.readers.read(move |reader| reader.run(&id, viewer)).await?;
    Ok(axum::Json(run_words(&view)).into_response())
}

/// `GET /v1/runs/{id}/events?after=n`: the record of a run, then what follows. A
/// provider's words are default events, as stored; the witness's own lines are
/// events named `wikala`. The stream ends when the run has ended.
async fn events(
    State(app): State<App>,
    Route(id): Route<String>,
    Query(query): Query<BTreeMap<String, String>>,
    knock: Knock,
) -> Result<Response, Problem> {
    let id = run_id(&id)?;
    // A browser's EventSource comes back with the last id it saw.
    let seen = knock.headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let after = match query.get("after").map(String::as_str).or(seen).map(str::parse::<u64>) {
        None => 0,
        Some(Ok(after)) => after,
        Some(Err(_)) => {
            return Err(Problem::door(Door::BodyMalformed, "after: not a sequence number, send the last id you saw"));
        }
    };
    let viewer = knock.viewer(&app).await?;
    let place = app.limits.streams.take(knock.peer)?;
    // Refused before the stream begins, not inside it.
    let known = id.clone();
    let (view, last) =
        app.readers.read(move |reader| Ok((reader.run(&known, viewer)?, reader.last_entry(&known, viewer)?))).await?;
    // Beyond the end there is nothing to skip: what follows is still to be told.
    let after = after.min(last);
    let Some(mut tail) = Tail::of(&app, id, after) else {
        return Err(Problem::door(Door::ShuttingDown, "house: closing, try again in a moment"));
    };
    let (out, response) = sse::response(app.settings.keep_alive);
    tokio::spawn(async move {
        let _place = place;
        // An ended run has nothing to follow: what is on record is all there is.
        let mut over = view.status.is_terminal() && after > 0 && tail_is_empty(&app, &view, after).await;
        while !over {
            let recorded = tokio::select! {
                recorded = tail.next() => recorded,
                () = out.gone() => return,
            };
            let recorded = match recorded {
                Ok(Some(recorded)) => recorded,
                // Cut short, and told so: an end without a word would look like the run's.
                Ok(None) => {
                    let _ = out.frame(Some("event: wikala\n".to_owned()), r#"{"mark":"house-closing"}"#).await;
                    return;
                }
                Err(_) => return,
            };
            let sent = match &recorded.entry {
                Entry::Words(words) => out.numbered(recorded.seq, None, &words.text).await,
                Entry::Mark(mark) => {
                    over = matches!(mark, wikala_witness::Mark::Ended { .. });
                    let text = serde_json::to_string(mark).unwrap_or_default();
                    out.numbered(recorded.seq, Some("wikala"), &text).await
                }
            };
            if sent.is_err() {
                return;
            }
        }
    });
    Ok(response)
}

async fn tail_is_empty(app: &App, view: &RunView, after: u64) -> bool {
    let run = view.run.clone();
    app.readers.read(move |reader| reader.entries_unchecked(&run, after, 1)).await.is_ok_and(|page| page.is_empty())
}

fn agent_words(agent: &AgentId) -> Value {
    json!({ "providerKey": agent.provider.to_hex(), "name": agent.name.as_str() })
}

/// A tree as JSON: `{threadId, agent, bound, children[]}`.
#[must_use]
pub fn tree_words(node: &TreeNode) -> Value {
    let mut words = json!({
        "threadId": node.thread.as_str(),
        "agent": agent_words(&node.agent),
        "bound": node.bound,
        "children": node.children.iter().map(tree_words).collect::<Vec<_>>(),
    });
    if let Some(view) = &node.operator {
        words["createdAt"] = view.created_at.into();
        words["head"] = view.head.map_or(Value::Null, |key| key.to_hex().into());
        words["opener"] = view.opener.map_or(Value::Null, |key| key.to_hex().into());
        words["runs"] = view
            .runs
            .iter()
            .map(|(run, status, flags)| json!({ "runId": run.as_str(), "status": status.as_str(), "flags": flags }))
            .collect();
    }
    words
}

fn item_words(item: &AskItemView) -> Value {
    let mut words = json!({
        "id": item.id,
        "kind": match item.kind { ItemKind::Interrupt => "interrupt", ItemKind::Call => "call" },
        "question": serde_json::from_str::<Value>(&item.question).unwrap_or(Value::Null),
    });
    if let Some(schema) = &item.schema {
        words["schema"] = schema.as_str().into();
    }
    if let Some(owed) = &item.owed {
        words["obligation"] = bag::stands(owed);
    }
    words
}

/// A run as JSON (wire.md, Routes). Absent members are left out.
#[must_use]
pub fn run_words(view: &RunView) -> Value {
    let hex = |key: &PublicKey| Value::from(key.to_hex());
    let asks: Vec<Value> = view
        .asks
        .iter()
        .map(|ask| {
            let mut words = json!({
                "ids": ask.items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(),
                "items": ask.items.iter().map(item_words).collect::<Vec<_>>(),
                "authorities": ask.authorities.iter().map(hex).collect::<Vec<_>>(),
                "openedAt": ask.opened_at,
            });
            if let Some(at) = ask.closed_at {
                words["closedAt"] = at.into();
                words["closedAs"] = ask.closed_as.clone().into();
            }
            if let Some(key) = &ask.answered_by {
                words["answeredBy"] = hex(key);
            }
            if let Some(key) = &ask.answered_with {
                words["answeredWith"] = hex(key);
            }
            if let Some(digest) = &ask.answer_digest {
                words["answerDigest"] = digest.to_hex().into();
            }
            words
        })
        .collect();
    let mut words = json!({
        "runId": view.run.as_str(),
        "threadId": view.thread.as_str(),
        "agent": agent_words(&view.agent),
        "status": view.status.as_str(),
        "flags": view.flags,
        "asks": asks,
        "cancelRequestedBy": view.cancel_requested_by.iter().map(|cancel| json!({
            "at": cancel.at,
            "authority": cancel.authority.as_ref().map(hex),
            "signer": cancel.signer.as_ref().map(hex),
        })).collect::<Vec<_>>(),
        "times": {
            "createdAt": view.times.created_at,
            "startedAt": view.times.started_at,
            "changedAt": view.times.changed_at,
            "endedAt": view.times.ended_at,
        },
    });
    if view.custodial {
        // Its key is in the witness's own hands.
        words["agent"]["custodial"] = true.into();
    }
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            words[name] = value;
        }
    };
    set("reason", view.reason.clone().map(Value::from));
    // A provider may spell one of our reasons: whose word it is stands beside it.
    let by = if view.reason_by_provider { "provider" } else { "witness" };
    set("reasonBy", view.reason.as_ref().map(|_| by.into()));
    set("head", view.head.as_ref().map(hex));
    set("opener", view.opener.as_ref().map(hex));
    set("chain", view.chain.as_deref().and_then(|chain| serde_json::from_str(chain).ok()));
    set("onward", view.onward.as_ref().and_then(|onward| serde_json::to_value(onward).ok()));
    words
}
