//! The agent card: the witness's own, made from the provider's registration. Its
//! URLs and capabilities are ours; the rest is the provider's word.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use wikala_chain::Digest;

use crate::answer::Problem;
use crate::bag::{REFERENCE_ADDRESSED, URN};
use crate::door;
use crate::house::App;

/// How long a card may be cached, seconds.
const MAX_AGE: &str = "public, max-age=60";
/// What only we may say on our card.
const OURS: [&str; 4] = ["supportedInterfaces", "capabilities", "signatures", "securityRequirements"];

/// `GET …/.well-known/agent-card.json`. Never gated by a version header.
pub(super) async fn card(
    State(app): State<App>,
    Path((provider, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let agent = door::agent(&app, &provider, &name).await?;
    let now = app.desk.now();
    let view = app.readers.read(move |reader| reader.agent(&agent, now)).await?;
    let registration: Value = serde_json::from_str(&view.registration).unwrap_or(Value::Null);
    let (key, name) = (view.id.provider.to_hex(), view.id.name.as_str());
    let description = registration["description"].as_str().filter(|text| !text.is_empty());
    let description = description.unwrap_or("An agent behind a Wikala witness");
    let mut extensions = vec![json!({
        "uri": URN, "required": false,
        "description": "Chains, presenter proofs, answers and cancels in request metadata are verified and gated by this witness",
        "params": { "witnessKey": app.public_key().to_hex(), "providerKey": key },
    })];
    if registration["takesInterjections"] == true {
        extensions.push(json!({
            "uri": REFERENCE_ADDRESSED.trim_end_matches("/addressedRunId"), "required": false,
            "description": "A message may join the live run it names",
        }));
    }
    let mut card = json!({
        "name": name, "description": description, "version": "0.1.0",
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": name, "name": name, "description": description, "tags": ["agent"] }],
    });
    for (member, value) in registration["agentCardExtra"].as_object().into_iter().flatten() {
        if !OURS.contains(&member.as_str()) {
            card[member] = value.clone();
        }
    }
    card["supportedInterfaces"] = json!([{
        "url": format!("{}/a2a/{key}/{name}", app.settings.public_url),
        "protocolBinding": "JSONRPC", "protocolVersion": "1.0",
    }]);
    card["capabilities"] =
        json!({ "streaming": true, "pushNotifications": false, "extendedAgentCard": false, "extensions": extensions });
    let body = card.to_string();
    let etag = format!("\"{}\"", &Digest::of(body.as_bytes()).to_hex()[..32]);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let fresh = known.is_some_and(|list| {
        list.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag || tag.trim() == "*")
    });
    let head = [
        (header::ETAG, etag),
        (header::CACHE_CONTROL, MAX_AGE.to_owned()),
        (header::CONTENT_TYPE, "application/json".to_owned()),
    ];
    Ok(if fresh { (StatusCode::NOT_MODIFIED, head).into_response() } else { (head, body).into_response() })
}
