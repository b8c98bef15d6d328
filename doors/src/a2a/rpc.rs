//! The JSON-RPC envelope (A2A 1.0 §9): checked in one order, answered with the id it
//! came with, always HTTP 200. Media type before parsing, version before method.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use wikala_chain::{JsonError, RawObject, json};
use wikala_witness::{AgentId, RunId, ThreadId};

use super::card::EXTENSION_INTERJECTION;
use super::fields::Fields;
use super::refused::Refused;
use super::{send, stream, tasks};
use crate::answer::{A2a, Door, Method, Problem};
use crate::bag::URN;
use crate::door::{Knock, agent};
use crate::house::App;

/// The version this door speaks.
const VERSION: &str = "1.0";
/// The header, and the query parameter, that name a version.
const VERSION_HEADER: &str = "a2a-version";
/// The header that names extensions, and its name before 1.0.
const EXTENSION_HEADERS: [&str; 2] = ["a2a-extensions", "x-a2a-extensions"];
/// Extensions whose words this door understands.
const EXTENSIONS: [&str; 2] = [URN, EXTENSION_INTERJECTION];

/// One call, read as far as every method needs it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) app: App,
    pub(super) knock: Knock,
    pub(super) agent: AgentId,
    /// The request's id, JSON text.
    pub(super) id: String,
    params: Option<String>,
}

impl Call {
    /// The method's parameters.
    pub(super) fn params(&self) -> Result<Fields, Refused> {
        let raw = self.params.as_deref().ok_or_else(|| Refused::field("params", "required"))?;
        Fields::parse(raw, "params")
    }

    /// The parameters as received.
    pub(super) fn raw_params(&self) -> &str {
        self.params.as_deref().unwrap_or("{}")
    }
}

/// What a method came to.
pub(super) enum Said {
    /// A result, JSON text, and the run it is about.
    Whole(String, Option<(RunId, ThreadId)>),
    /// A stream that has begun.
    Stream(Response),
}

/// Answers a request.
pub(super) async fn call(app: App, provider: &str, name: &str, knock: Knock) -> Response {
    let extensions = activated(&knock.headers);
    let mut id = "null".to_owned();
    let mut method = Method::Other;
    let mut response = match dispatch(app, provider, name, knock, &mut id, &mut method).await {
        Ok(Said::Stream(response)) => response,
        Ok(Said::Whole(result, about)) => {
            let mut response = whole(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"));
            if let Some((run, thread)) = about {
                name_run(&mut response, &run, &thread);
            }
            response
        }
        Err(refused) => whole(error_frame(&id, &refused.error(method))),
    };
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
    if let Some(extensions) = extensions {
        response.headers_mut().insert(EXTENSION_HEADERS[0], extensions);
    }
    response
}

/// Answers a request whose body was not read, so nobody knows its id.
pub(super) fn unread(problem: Problem) -> Response {
    let mut response = whole(error_frame("null", &Refused::from(problem).error(Method::Other)));
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
    response
}

/// An error as a whole envelope.
pub(super) fn error_frame(id: &str, error: &Value) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
}

/// Says which run a response is about.
pub(super) fn name_run(response: &mut Response, run: &RunId, thread: &ThreadId) {
    // Ids of ours are hex after a prefix: always a header value.
    for (name, id) in [("wikala-run-id", run.as_str()), ("wikala-thread-id", thread.as_str())] {
        if let Ok(value) = HeaderValue::from_str(id) {
            response.headers_mut().insert(name, value);
        }
    }
}

fn whole(body: String) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

async fn dispatch(
    app: App,
    provider: &str,
    name: &str,
    knock: Knock,
    id: &mut String,
    as_method: &mut Method,
) -> Result<Said, Refused> {
    let text = match knock.json() {
        Ok(text) => text,
        Err(problem) if problem.code == crate::answer::Code::Door(Door::MediaType) => return Err(problem.into()),
        Err(problem) => return Err(Refused::protocol(A2a::Parse, problem.sentence)),
    };
    match json::check(text) {
        Err(error @ JsonError::DuplicateKey(_)) => return Err(error.into()),
        Err(error) => return Err(Refused::protocol(A2a::Parse, format!("body: {error}"))),
        Ok(()) => {}
    }
    let invalid = |sentence: &str| Refused::protocol(A2a::InvalidRequest, sentence);
    if text.trim_start().starts_with('[') {
        return Err(invalid("body: a batch, send one request at a time"));
    }
    let envelope = RawObject::parse(text).map_err(|_| invalid("body: no JSON-RPC request, send an object"))?;
    let raw = |name: &str| envelope.get(name).map(|raw| raw.get());
    match raw("id") {
        // Echoed as it came: a number that we re-print could be another number.
        Some(given) if given == "null" || json::string(given).is_some() || is_number(given) => {
            given.clone_into(id);
        }
        None => {}
        Some(_) => return Err(invalid("id: neither a string nor a number nor null")),
    }
    if raw("jsonrpc") != Some("\"2.0\"") {
        return Err(invalid("jsonrpc: not \"2.0\""));
    }
    let method = raw("method").and_then(json::string).ok_or_else(|| invalid("method: missing, send its name"))?;
    check_version(&knock)?;
    if method == "CancelTask" {
        *as_method = Method::Cancel;
    }
    let params = raw("params").filter(|raw| *raw != "null").map(str::to_owned);
    let agent = agent(&app, provider, name).await?;
    let call = Call { app, knock, agent, id: id.clone(), params };
    match method.as_str() {
        "SendMessage" => send::send(&call).await,
        "SendStreamingMessage" => stream::send(&call).await,
        "GetTask" => tasks::get(&call).await,
        "ListTasks" => tasks::list(&call).await,
        "CancelTask" => tasks::cancel(&call).await,
        "SubscribeToTask" => stream::subscribe(&call).await,
        "CreateTaskPushNotificationConfig"
        | "GetTaskPushNotificationConfig"
        | "ListTaskPushNotificationConfigs"
        | "DeleteTaskPushNotificationConfig" => Err(no_push()),
        "GetExtendedAgentCard" => {
            Err(Refused::protocol(A2a::UnsupportedOperation, "card: there is no extended one, the public card is all"))
        }
        _ => Err(Refused::protocol(A2a::MethodNotFound, format!("method: {method:?} is none of A2A 1.0"))),
    }
}

/// Nobody is called back here.
pub(super) fn no_push() -> Refused {
    Refused::protocol(A2a::PushNotificationNotSupported, "push: not offered here, stream or subscribe instead")
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// `A2A-Version`, header or query. Without one a client speaks 0.3 (§3.6), and its
/// method names mean nothing here.
fn check_version(knock: &Knock) -> Result<(), Refused> {
    let header = knock.headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()).map(str::trim);
    let query = knock.uri.query().unwrap_or("").split('&').filter_map(|pair| pair.split_once('='));
    let query = query.filter(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER)).map(|(_, value)| value).next();
    let given = [header, query].into_iter().flatten().find(|text| !text.is_empty()).unwrap_or("0.3");
    let mut digits = given.split('.');
    let number = |text: &str| !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
    // Minor and patch versions add, they do not break.
    if digits.next() == Some("1") && digits.all(number) {
        return Ok(());
    }
    let given: String = given.chars().take(16).collect();
    Err(Refused::protocol(
        A2a::VersionNotSupported,
        format!("version: {given:?} is not spoken here, send A2A-Version: {VERSION}"),
    ))
}

/// The extensions asked for that this door understands, for the echo.
fn activated(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = EXTENSION_HEADERS
        .iter()
        .flat_map(|name| headers.get_all(*name))
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    let mut ours: Vec<&str> = asked.filter(|uri| EXTENSIONS.contains(uri)).collect();
    ours.dedup();
    if ours.is_empty() { None } else { HeaderValue::from_str(&ours.join(", ")).ok() }
}
