//! An agent that owes an answer: it takes the question, says that it works on it, and gives
//! the typed response, each signed with its own key.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_certs::{Deed, Moment};
use wikala_chain::Digest;
use wikala_witness::obligation::ObligationId;

use super::agent::Agent;
use crate::obligations::EXTENSION;
use crate::obligations::acts::response;

/// What was delivered with the run: what the response must repeat.
struct Binding {
    id: ObligationId,
    event: String,
    request: Digest,
    revision: u64,
    schema_id: Option<String>,
}

impl Binding {
    fn read(input: &Value) -> Option<Binding> {
        let told = &input["forwardedProps"][EXTENSION];
        Some(Binding {
            id: ObligationId::parse(told["obligation_id"].as_str()?)?,
            event: told["request_event_id"].as_str()?.to_owned(),
            request: Digest::from_hex(told["request_digest"].as_str()?).ok()?,
            revision: told["revision"].as_u64()?,
            schema_id: told["obligation"]["response_schema_id"].as_str().map(str::to_owned),
        })
    }
}

/// Owns the question and answers it with `result`, JSON text or words; what became of it.
///
/// # Errors
/// Nothing is owed, or an act was refused: the witness's sentence.
pub(super) async fn owe(agent: &Agent, input: &Value, result: &str, now: Moment) -> Result<String, String> {
    let binding = Binding::read(input).ok_or("owe: no answer is owed for this run")?;
    let (id, revision) = (binding.id.as_str().to_owned(), binding.revision);
    let accept = Deed::Accept { obligation: id.clone(), revision };
    send(agent, &id, "accept", json!({ "revision": revision }), &accept, now).await?;
    let (revision, to, reason) = (revision + 1, "in_progress".to_owned(), "progress".to_owned());
    let more = json!({ "revision": revision, "to_state": to });
    send(agent, &id, "transition", more, &Deed::Progress { obligation: id.clone(), revision, to, reason }, now).await?;
    let structured = binding.schema_id.as_ref().map(|_| result);
    let schema_id = binding.schema_id.as_deref();
    let payload = response(&binding.id, &binding.event, &binding.request, "completed", result, schema_id, structured)
        .map_err(|problem| problem.sentence)?;
    let mut body = json!({
        "request_event_id": binding.event, "request_digest": binding.request.to_hex(), "outcome": "completed", "body": result,
    });
    if let Some(schema_id) = schema_id {
        body["response_schema_id"] = schema_id.into();
        body["structured_response"] = serde_json::from_str(result).unwrap_or(Value::Null);
    }
    let deed = Deed::Respond {
        obligation: id.clone(),
        event: binding.event.clone(),
        request: binding.request,
        response: Digest::of(payload.as_bytes()),
    };
    let done = send(agent, &id, "respond", body, &deed, now).await?;
    Ok(done["state"].as_str().unwrap_or("").to_owned())
}

async fn send(agent: &Agent, id: &str, what: &str, mut body: Value, deed: &Deed, now: Moment) -> Result<Value, String> {
    body["act"] = serde_json::from_str(&deed.sign(&agent.key, now).to_json()).unwrap_or_default();
    let url = format!("{}/v1/response-obligations/{id}/{what}", agent.url);
    let (_, answer) = agent.http.json(Method::POST, &url, Some(&body), &[], None).await?;
    match answer["error"]["code"].as_str() {
        None => Ok(answer),
        Some(code) => Err(format!("{code}: {}", answer["error"]["message"].as_str().unwrap_or(""))),
    }
}
