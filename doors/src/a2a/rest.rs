//! The HTTP+JSON binding (A2A 1.0 §11): the same methods at addresses of their own, a
//! tenant before them if a client has one, errors with a status.

use axum::http::{HeaderMap, HeaderValue, Method as Verb, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wikala_chain::json;

use super::call::{
    Call, Envelope, Op, Said, activated, check_version, from_query, is_bodiless, json_body, name_protocol, name_run,
    unescaped,
};
use super::refused::Refused;
use crate::answer::{Door, Method, Problem};
use crate::door::Knock;
use crate::house::App;

/// The media type of the protocol's own, and the one everybody reads.
const OWN: &str = "application/a2a+json";
const PLAIN: &str = "application/json";

/// Answers a request; `path` is what stands below the agent's address, as received.
pub(super) async fn call(app: App, provider: &str, name: &str, path: &str, knock: Knock) -> Response {
    let headers = knock.headers.clone();
    let mut method = Method::Other;
    let mut view = None;
    let answered = async {
        let (op, task) = route(path, &knock.method)?;
        method = op.method();
        let params = read(&knock, op, task.as_deref())?;
        let call = Call::to(app, (provider, name), knock, Envelope::Rest, Some(params)).await?;
        view = Some(call.view().await?);
        call.perform(op).await
    }
    .await;
    let mut response = match answered {
        Ok(Said::Stream(response)) => response,
        Ok(Said::Whole(result, about)) => {
            let mut response = whole(StatusCode::OK, result, media(&headers));
            if let Some((run, thread)) = about {
                name_run(&mut response, &run, &thread);
            }
            response
        }
        Err(refused) => no(&refused, method),
    };
    name_protocol(&mut response, activated(&headers, view.as_ref()));
    response
}

/// Answers a request whose body was not read.
pub(super) fn unread(problem: Problem) -> Response {
    let mut response = no(&Refused::from(problem), Method::Other);
    name_protocol(&mut response, None);
    response
}

fn no(refused: &Refused, method: Method) -> Response {
    let (status, body) = refused.rest(method);
    let mut response = whole(status, body.to_string(), PLAIN);
    if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

fn whole(status: StatusCode, body: String, media: &'static str) -> Response {
    (status, [(header::CONTENT_TYPE, media), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

/// The protocol's own media type for who names it, the plain one for everybody else.
fn media(headers: &HeaderMap) -> &'static str {
    let names = |name| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.into_iter().any(|value| value.to_ascii_lowercase().contains(OWN))
    };
    if names(header::ACCEPT) || names(header::CONTENT_TYPE) { OWN } else { PLAIN }
}

/// What an address asks for, and about which task. Whatever stands before the first known
/// segment is a tenant: here all of them are one.
fn route(path: &str, verb: &Verb) -> Result<(Op, Option<String>), Refused> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let known = |segment: &&str| matches!(*segment, "message:send" | "message:stream" | "tasks" | "extendedAgentCard");
    let rest = match segments.iter().position(known) {
        Some(at @ (0 | 1)) => &segments[at..],
        _ => return Err(unknown()),
    };
    let (get, post) = (*verb == Verb::GET, *verb == Verb::POST);
    let (op, task, fits) = match rest {
        ["message:send"] => (Op::Send, None, post),
        ["message:stream"] => (Op::Stream, None, post),
        ["extendedAgentCard"] => (Op::ExtendedCard, None, get),
        ["tasks"] => (Op::List, None, get),
        // The verb before the id, or ids would swallow it. A colon of the id's own is escaped.
        ["tasks", last] => match last.rsplit_once(':') {
            Some((id, "cancel")) => (Op::Cancel, Some(id), post),
            // The text of the specification says POST, its service definition GET.
            Some((id, "subscribe")) => (Op::Subscribe, Some(id), get || post),
            _ => (Op::Get, Some(*last), get),
        },
        ["tasks", id, "pushNotificationConfigs", more @ ..] if more.len() <= 1 => {
            (Op::Push, Some(*id), get || post || *verb == Verb::DELETE)
        }
        _ => return Err(unknown()),
    };
    if !fits {
        let sentence = "route: takes another method, see A2A 1.0 11.3";
        return Err(Problem::door(Door::MethodNotAllowed, sentence).into());
    }
    Ok((op, task.map(unescaped)))
}

fn unknown() -> Refused {
    Problem::door(Door::RouteUnknown, "route: none of A2A 1.0 11.3 below this agent").into()
}

/// The request message an address, its query and its body stand for, JSON text.
fn read(knock: &Knock, op: Op, task: Option<&str>) -> Result<String, Refused> {
    if !is_bodiless(knock) || matches!(op, Op::Send | Op::Stream) {
        let text = json_body(knock)?;
        check_version(knock)?;
        json::check(text)?;
        let id = task.map(json::quote);
        return match &id {
            None => Ok(text.to_owned()),
            Some(id) => json::edit(text, &[("id", Some(id))]).map_err(Refused::from),
        };
    }
    check_version(knock)?;
    let about: Vec<(&str, &str)> = task.map(|task| ("id", task)).into_iter().collect();
    from_query(knock.uri.query().unwrap_or(""), &about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_method_with_and_without_a_tenant() {
        for tenant in ["", "/acme"] {
            let at = |path: &str, verb: Verb| route(&format!("{tenant}{path}"), &verb).map_err(|_| ());
            assert_eq!(at("/message:send", Verb::POST), Ok((Op::Send, None)));
            assert_eq!(at("/message:stream", Verb::POST), Ok((Op::Stream, None)));
            assert_eq!(at("/tasks", Verb::GET), Ok((Op::List, None)));
            assert_eq!(at("/tasks/run_1", Verb::GET), Ok((Op::Get, Some("run_1".into()))));
            assert_eq!(at("/tasks/a%3Acancel", Verb::GET), Ok((Op::Get, Some("a:cancel".into()))));
            assert_eq!(at("/tasks/run_1:cancel", Verb::POST), Ok((Op::Cancel, Some("run_1".into()))));
            for verb in [Verb::GET, Verb::POST] {
                assert_eq!(at("/tasks/run_1:subscribe", verb), Ok((Op::Subscribe, Some("run_1".into()))));
            }
            assert_eq!(at("/tasks/r/pushNotificationConfigs", Verb::POST), Ok((Op::Push, Some("r".into()))));
            assert_eq!(at("/tasks/r/pushNotificationConfigs/c", Verb::DELETE), Ok((Op::Push, Some("r".into()))));
            assert_eq!(at("/extendedAgentCard", Verb::GET), Ok((Op::ExtendedCard, None)));
            for (path, verb) in [
                ("/message:send", Verb::GET),
                ("/tasks/r:cancel", Verb::GET),
                ("/tasks", Verb::POST),
                ("/x/y/tasks", Verb::GET),
                ("/tasks/r/x", Verb::GET),
                ("/x", Verb::GET),
            ] {
                assert!(at(path, verb).is_err(), "{path}");
            }
        }
    }
}
