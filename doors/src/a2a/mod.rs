//! The A2A 1.0 door: JSON-RPC over one POST, streams by SSE, an agent card a
//! provider (a2aproject/A2A, specification §9, §5.3).

mod card;
mod params;
mod send;
mod stream;
mod tasks;
mod teller;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wikala_chain::{JsonError, RawObject, json as strict};
use wikala_witness::{AgentId, RunView};

use crate::answer::{A2a, Method, Problem};
use crate::door::{self, Knock};
use crate::house::App;

/// The routes of this door. Clients post with and without the trailing slash.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/a2a/{provider}/{name}", post(rpc))
        .route("/a2a/{provider}/{name}/", post(rpc))
        .route("/a2a/{provider}/{name}/.well-known/agent-card.json", get(card::card))
}

/// A call, its envelope read.
struct Call {
    app: App,
    agent: AgentId,
    knock: Knock,
    /// As received, echoed exactly.
    id: String,
    params: RawObject,
    /// The params as received: the caller's words.
    words: String,
}

/// What a method answers.
enum Reply {
    /// A result.
    Result(Value),
    /// A result about a run, which the headers name as well.
    About(Value, Box<RunView>),
    /// A stream, already begun.
    Stream(Response),
}

/// A JSON-RPC error object.
struct Refused(Value);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Refused(problem.jsonrpc(Method::Other, None))
    }
}

impl From<wikala_witness::No> for Refused {
    fn from(no: wikala_witness::No) -> Self {
        Problem::from(no).into()
    }
}

/// Invalid params, with the field to mend (google.rpc.BadRequest).
fn invalid(field: &str, why: &str) -> Refused {
    let mut error = A2a::InvalidParams.error(&format!("{field}: {why}"), None);
    if let Some(list) = error["data"].as_array_mut() {
        list.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{ "field": field, "description": why }],
        }));
    }
    Refused(error)
}

async fn rpc(State(app): State<App>, Path((provider, name)): Path<(String, String)>, knock: Knock) -> Response {
    let extensions = extensions(&knock.headers);
    let mut response = match envelope(app, &provider, &name, knock).await {
        Err((id, error)) => failed(&id, error),
        Ok((call, method)) => {
            let id = call.id.clone();
            match dispatch(call, &method).await {
                Ok(Reply::Result(result)) => done(&id, result),
                Ok(Reply::About(result, view)) => {
                    let mut response = done(&id, result);
                    name_run(response.headers_mut(), &view);
                    response
                }
                Ok(Reply::Stream(response)) => response,
                Err(Refused(error)) => failed(&id, error),
            }
        }
    };
    let headers = response.headers_mut();
    if let Some(activated) = extensions {
        headers.insert("a2a-extensions", activated);
    }
    headers.insert("a2a-version", HeaderValue::from_static("1.0"));
    response
}

/// Reads the envelope. What is wrong with it is told under the id it has, if any.
async fn envelope(app: App, provider: &str, name: &str, knock: Knock) -> Result<(Call, String), (String, Value)> {
    let nameless = |error: Value| ("null".to_owned(), error);
    // The media type first: what is no JSON is not parsed at all.
    let text = knock.json().map_err(|problem| nameless(problem.jsonrpc(Method::Other, None)))?.to_owned();
    if let Err(error) = strict::check(&text) {
        return Err(nameless(match error {
            JsonError::DuplicateKey(_) => Problem::from(error).jsonrpc(Method::Other, None),
            _ => A2a::Parse.error(&format!("body: {error}"), None),
        }));
    }
    if text.trim_start().starts_with('[') {
        return Err(nameless(A2a::InvalidRequest.error("body: a batch, send one call at a time", None)));
    }
    let body =
        RawObject::parse(&text).map_err(|_| nameless(A2a::InvalidRequest.error("body: no JSON-RPC object", None)))?;
    let id = body.get("id").map_or("null", RawValue::get).to_owned();
    if id.starts_with(['{', '[', 't', 'f']) {
        return Err(nameless(A2a::InvalidRequest.error("id: neither string, number nor null", None)));
    }
    let under = |error: Value| (id.clone(), error);
    let method = body.get("method").and_then(|raw| strict::string(raw.get()));
    let two = body.get("jsonrpc").is_some_and(|raw| raw.get() == "\"2.0\"");
    let (Some(method), true) = (method, two) else {
        return Err(under(A2a::InvalidRequest.error("body: no JSON-RPC 2.0 call", None)));
    };
    if let Err(version) = version(&knock.headers, &knock.uri) {
        let sentence = format!("A2A-Version: {version:?} is not spoken here, send 1.0");
        return Err(under(A2a::VersionNotSupported.error(&sentence, None)));
    }
    let words = body.get("params").map(RawValue::get).filter(|raw| *raw != "null").unwrap_or("{}").to_owned();
    let Ok(params) = RawObject::parse(&words) else {
        return Err(under(A2a::InvalidParams.error("params: no object", None)));
    };
    let agent =
        door::agent(&app, provider, name).await.map_err(|problem| under(problem.jsonrpc(Method::Other, None)))?;
    Ok((Call { app, agent, knock, id, params, words }, method))
}

async fn dispatch(call: Call, method: &str) -> Result<Reply, Refused> {
    match method {
        "SendMessage" => send::send(call).await,
        "SendStreamingMessage" => send::stream(call).await,
        "GetTask" => tasks::get(call).await,
        "ListTasks" => tasks::list(call).await,
        "CancelTask" => tasks::cancel(call).await,
        "SubscribeToTask" => stream::subscribe(call).await,
        "CreateTaskPushNotificationConfig"
        | "GetTaskPushNotificationConfig"
        | "ListTaskPushNotificationConfigs"
        | "DeleteTaskPushNotificationConfig" => Err(Refused(
            A2a::PushNotificationNotSupported.error("push: not offered, subscribe to the task instead", None),
        )),
        "GetExtendedAgentCard" => {
            Err(Refused(A2a::UnsupportedOperation.error("card: there is no extended one, the card is whole", None)))
        }
        other => Err(Refused(A2a::MethodNotFound.error(&format!("method: {other:?} is not known here"), None))),
    }
}

/// The version asked for, by header or query. Missing or empty means 0.3 (§3.6).
fn version(headers: &HeaderMap, uri: &Uri) -> Result<(), String> {
    let header = headers.get("a2a-version").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let query = || {
        uri.query()?.split('&').find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.eq_ignore_ascii_case("A2A-Version").then(|| value.to_owned())
        })
    };
    let asked = header.or_else(query).unwrap_or_default();
    let asked = asked.trim();
    let major_minor = asked.split('.').take(2).collect::<Vec<_>>();
    match major_minor.as_slice() {
        ["1"] | ["1", _] => Ok(()),
        _ if asked.is_empty() => Err("0.3".to_owned()),
        _ => Err(asked.to_owned()),
    }
}

/// The extensions asked for that are ours: echoed as activated.
fn extensions(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = headers.get_all("a2a-extensions").iter().chain(headers.get_all("x-a2a-extensions"));
    let ours = asked
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|uri| uri.trim() == crate::bag::URN);
    ours.then(|| HeaderValue::from_static(crate::bag::URN))
}

/// Names the run in the headers, for who does not look into the body.
fn name_run(headers: &mut HeaderMap, view: &RunView) {
    for (name, id) in [("wikala-run-id", view.run.as_str()), ("wikala-thread-id", view.thread.as_str())] {
        if let Ok(value) = HeaderValue::from_str(id) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

fn envelope_text(id: &str, member: &str, value: &Value) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":{value}}}")
}

fn done(id: &str, result: Value) -> Response {
    answer(envelope_text(id, "result", &result))
}

fn failed(id: &str, error: Value) -> Response {
    answer(envelope_text(id, "error", &error))
}

fn answer(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], text).into_response()
}
