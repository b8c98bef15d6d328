//! The HTTP+JSON binding (A2A 1.0 §11): the same methods at addresses of their own, a
//! tenant before them if a client has one, errors with a status.

use axum::http::{HeaderMap, HeaderValue, Method as Verb, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wikala_chain::json;

use super::call::{
    Call, Envelope, Op, Said, VERSION_HEADER, activated, check_version, from_query, json_body, name_protocol, name_run,
    unescaped,
};
use super::fields::Fields;
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
    let mut allow = "";
    let answered = async {
        let asked = route(path)?;
        allow = asked.verbs;
        if !asked.takes(&knock.method) {
            let sentence = "route: takes another method, `Allow` names those it takes";
            return Err(Problem::door(Door::MethodNotAllowed, sentence).into());
        }
        let op = asked.op;
        method = op.method();
        let params = read(&knock, &asked)?;
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
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    }
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

/// What an address asks for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    op: Op,
    task: Option<String>,
    tenant: Option<String>,
    /// The methods it takes, as `Allow` lists them.
    verbs: &'static str,
}

/// Reads an address. Whatever stands before the first known segment is a tenant: here all
/// of them are one.
fn route(path: &str) -> Result<Asked, Refused> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let known = |segment: &&str| matches!(*segment, "message:send" | "message:stream" | "tasks" | "extendedAgentCard");
    let at = segments.iter().position(known).filter(|at| *at <= 1).ok_or_else(unknown)?;
    let (op, task, verbs) = match &segments[at..] {
        ["message:send"] => (Op::Send, None, "POST"),
        ["message:stream"] => (Op::Stream, None, "POST"),
        ["extendedAgentCard"] => (Op::ExtendedCard, None, "GET"),
        ["tasks"] => (Op::List, None, "GET"),
        // The verb before the id, or ids would swallow it. A colon of the id's own is escaped.
        ["tasks", last] => match last.rsplit_once(':') {
            Some((id, "cancel")) => (Op::Cancel, Some(id), "POST"),
            // The text of the specification says POST, its service definition GET.
            Some((id, "subscribe")) => (Op::Subscribe, Some(id), "GET, POST"),
            _ => (Op::Get, Some(*last), "GET"),
        },
        ["tasks", id, "pushNotificationConfigs"] => (Op::Push, Some(*id), "GET, POST"),
        ["tasks", id, "pushNotificationConfigs", _] => (Op::Push, Some(*id), "DELETE, GET"),
        _ => return Err(unknown()),
    };
    let tenant = segments[..at].first().map(|tenant| unescaped(tenant));
    Ok(Asked { op, task: task.map(unescaped), tenant, verbs })
}

impl Asked {
    fn takes(&self, verb: &Verb) -> bool {
        self.verbs.split(", ").any(|known| known == verb.as_str())
    }
}

fn unknown() -> Refused {
    Problem::door(Door::RouteUnknown, "route: none of A2A 1.0 11.3 below this agent").into()
}

/// The request message an address, its query and its body stand for, JSON text.
fn read(knock: &Knock, asked: &Asked) -> Result<String, Refused> {
    let task = asked.task.as_deref();
    if knock.method == Verb::POST && must_be_json(knock, asked.op) {
        let text = json_body(knock)?;
        check_version(knock)?;
        let text = if text.is_empty() && !asked.op.sends() { "{}" } else { text };
        json::check(text)?;
        let fields = Fields::parse(text, "params")?;
        for (name, there) in [("id", task), ("tenant", asked.tenant.as_deref())] {
            // Two readers of one request must not take it for two tasks.
            if let (Some(there), Some(named)) = (there, fields.text(name)?)
                && there != named
            {
                return Err(fields.wrong(name, "is not what the address names"));
            }
        }
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

/// A page of somebody else's may post an empty body or a form without asking first (Fetch
/// standard, safelisted requests): what changes something says JSON, or names its version in
/// a header, which such a page cannot.
fn must_be_json(knock: &Knock, op: Op) -> bool {
    let bare = knock.body.is_empty() && !knock.headers.contains_key(header::CONTENT_TYPE);
    op.sends() || !bare || !knock.headers.contains_key(VERSION_HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_method_with_and_without_a_tenant() {
        for tenant in [None, Some("acme")] {
            let at = |path: &str| {
                let asked = route(&format!("{}{path}", tenant.map_or(String::new(), |name| format!("/{name}"))));
                asked.map(|asked| {
                    assert_eq!(asked.tenant.as_deref(), tenant);
                    (asked.op, asked.task.unwrap_or_default(), asked.verbs)
                })
            };
            for (path, op, task, verbs) in [
                ("/message:send", Op::Send, "", "POST"),
                ("/message:stream", Op::Stream, "", "POST"),
                ("/tasks", Op::List, "", "GET"),
                ("/tasks/run_1", Op::Get, "run_1", "GET"),
                ("/tasks/a%3Acancel", Op::Get, "a:cancel", "GET"),
                ("/tasks/run_1:cancel", Op::Cancel, "run_1", "POST"),
                ("/tasks/run_1:subscribe", Op::Subscribe, "run_1", "GET, POST"),
                ("/tasks/r/pushNotificationConfigs", Op::Push, "r", "GET, POST"),
                ("/tasks/r/pushNotificationConfigs/c", Op::Push, "r", "DELETE, GET"),
                ("/extendedAgentCard", Op::ExtendedCard, "", "GET"),
            ] {
                assert_eq!(at(path).ok(), Some((op, task.to_owned(), verbs)), "{path}");
            }
            for path in ["/x/y/tasks", "/tasks/r/x", "/x", "/tasks/r/pushNotificationConfigs/c/d"] {
                assert!(at(path).is_err(), "{path}");
            }
        }
        let asked = route("/tasks/r:cancel").unwrap();
        assert!(asked.takes(&Verb::POST) && !asked.takes(&Verb::GET) && !asked.takes(&Verb::OPTIONS));
    }
}
