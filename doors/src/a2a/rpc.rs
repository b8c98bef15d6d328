//! The JSON-RPC envelope (A2A 1.0 §9): checked in one order, answered with the id it
//! came with, always HTTP 200. Media type before parsing, version before method.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use wikala_chain::{JsonError, RawObject, json};

use super::call::{Call, Envelope, Op, Said, activated, check_version, json_body, name_protocol, name_run};
use super::refused::Refused;
use crate::answer::{A2a, Method, Problem};
use crate::door::Knock;
use crate::house::App;

/// Answers a request.
pub(super) async fn call(app: App, provider: &str, name: &str, knock: Knock) -> Response {
    let headers = knock.headers.clone();
    let mut id = "null".to_owned();
    let mut method = Method::Other;
    let mut view = None;
    let answered = async {
        let (op, params) = read(&knock, &mut id)?;
        method = op.method();
        let call = Call::to(app, (provider, name), knock, Envelope::Rpc(id.clone()), params).await?;
        view = Some(call.view().await?);
        call.perform(op).await
    }
    .await;
    let envelope = Envelope::Rpc(id);
    let mut response = match answered {
        Ok(Said::Stream(response)) => response,
        Ok(Said::Whole(result, about)) => {
            let mut response = whole(envelope.result(&result));
            if let Some((run, thread)) = about {
                name_run(&mut response, &run, &thread);
            }
            response
        }
        Err(refused) => whole(envelope.refused(&refused, method)),
    };
    name_protocol(&mut response, activated(&headers, view.as_ref()));
    response
}

/// Answers a request whose body was not read, so nobody knows its id.
pub(super) fn unread(problem: Problem) -> Response {
    let envelope = Envelope::Rpc("null".to_owned());
    let mut response = whole(envelope.refused(&Refused::from(problem), Method::Other));
    name_protocol(&mut response, None);
    response
}

fn whole(body: String) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

/// The method asked for and its parameters, JSON text.
fn read(knock: &Knock, id: &mut String) -> Result<(Op, Option<String>), Refused> {
    let text = json_body(knock)?;
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
    check_version(knock)?;
    let op = match method.as_str() {
        "SendMessage" => Op::Send,
        "SendStreamingMessage" => Op::Stream,
        "GetTask" => Op::Get,
        "ListTasks" => Op::List,
        "CancelTask" => Op::Cancel,
        "SubscribeToTask" => Op::Subscribe,
        "CreateTaskPushNotificationConfig"
        | "GetTaskPushNotificationConfig"
        | "ListTaskPushNotificationConfigs"
        | "DeleteTaskPushNotificationConfig" => Op::Push,
        "GetExtendedAgentCard" => Op::ExtendedCard,
        _ => return Err(Refused::protocol(A2a::MethodNotFound, format!("method: {method:?} is none of A2A 1.0"))),
    };
    Ok((op, raw("params").filter(|raw| *raw != "null").map(str::to_owned)))
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}
