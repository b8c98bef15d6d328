//! A no on its way to a caller, before it has a number or a status.

use axum::http::StatusCode;
use serde_json::{Value, json};
use wikala_chain::JsonError;
use wikala_witness::{Code, No, RunId};

use crate::answer::{A2a, Method, Problem};

/// A no of this door, with the task it is about.
#[derive(Debug)]
pub(super) struct Refused {
    kind: Box<Kind>,
    task: Option<String>,
}

#[derive(Debug)]
enum Kind {
    /// The house's own, by its code.
    House(Problem),
    /// The protocol's.
    Protocol(A2a, String),
    /// A field of the request: where, and what is wrong with it.
    Field(String, String),
}

impl Refused {
    /// One of the protocol's own errors.
    pub(super) fn protocol(kind: A2a, sentence: impl Into<String>) -> Self {
        Refused { kind: Box::new(Kind::Protocol(kind, sentence.into())), task: None }
    }

    /// A field that cannot be read as it must.
    pub(super) fn field(place: impl Into<String>, fact: impl Into<String>) -> Self {
        Refused { kind: Box::new(Kind::Field(place.into(), fact.into())), task: None }
    }

    /// A task that is not known here. One of another agent is told in the record's own
    /// words for an id that never was: else the words would tell the two apart.
    pub(super) fn no_task(id: &str) -> Self {
        let sentence = match RunId::parse(id) {
            Some(run) => format!("run: {run} is not known here"),
            None => "run: not known here".to_owned(),
        };
        Self::from(Problem::record(Code::RunUnknown, sentence)).about(id)
    }

    /// Names the task this is about.
    pub(super) fn about(mut self, task: &str) -> Self {
        self.task.get_or_insert_with(|| task.to_owned());
        self
    }

    /// The status and the body of the HTTP+JSON binding: the same details under one roof.
    pub(super) fn rest(&self, method: Method) -> (StatusCode, Value) {
        let (status, word) = match &*self.kind {
            Kind::House(problem) => problem.rest_status(method),
            Kind::Protocol(kind, _) => kind.rest_status(),
            Kind::Field(..) => A2a::InvalidParams.rest_status(),
        };
        let error = self.error(method);
        let details = match &*self.kind {
            Kind::House(problem) => problem.rest_details(method, self.task.as_deref()),
            _ => error["data"].clone(),
        };
        let body = json!({ "error": {
            "code": status.as_u16(), "status": word, "message": error["message"], "details": details,
        } });
        (status, body)
    }

    /// The JSON-RPC error object.
    pub(super) fn error(&self, method: Method) -> Value {
        let task = self.task.as_deref();
        match &*self.kind {
            Kind::House(problem) => problem.jsonrpc(method, task),
            Kind::Protocol(kind, sentence) => kind.error(sentence, task),
            Kind::Field(place, fact) => {
                let mut error = A2a::InvalidParams.error(&format!("{place}: {fact}"), task);
                if let Some(list) = error["data"].as_array_mut() {
                    list.push(json!({
                        "@type": "type.googleapis.com/google.rpc.BadRequest",
                        "fieldViolations": [{ "field": place, "description": fact }],
                    }));
                }
                error
            }
        }
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Refused { kind: Box::new(Kind::House(problem)), task: None }
    }
}

impl From<No> for Refused {
    fn from(no: No) -> Self {
        Problem::from(no).into()
    }
}

impl From<JsonError> for Refused {
    fn from(error: JsonError) -> Self {
        Problem::from(error).into()
    }
}
