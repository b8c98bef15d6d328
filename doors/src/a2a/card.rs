//! The agent card: the witness's own, about an agent it speaks for, signed by it. Its
//! addresses and capabilities are the witness's, whatever the provider wrote; the rest is
//! the provider's. A provider's signature over its card would not hold over this one, so
//! its original stands beside it, untouched.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use wikala_chain::{Digest, RawObject, base64url};
use wikala_witness::AgentView;

use super::fields::camel;
use crate::answer::Problem;
use crate::bag::URN;
use crate::door::{Route, agent};
use crate::house::App;
use crate::obligations;

/// The reference's extension for interjections.
pub const EXTENSION_INTERJECTION: &str = "https://github.com/hukaichun/funduq/ext/interjection/v1";
/// How long a card may be kept without asking again.
const MAX_AGE: &str = "max-age=60";
/// What a provider says about its agent, by its form. Everything else in a card is the
/// witness's (how to reach it, who may), or no member of A2A 1.0: readers that know the
/// closed set could not verify our signature over it.
const THEIRS: [(&str, Form); 9] = [
    ("name", Form::Text),
    ("description", Form::Text),
    ("version", Form::Text),
    ("documentationUrl", Form::Text),
    ("iconUrl", Form::Text),
    ("provider", Form::Members(&[("url", Form::Text), ("organization", Form::Text)])),
    ("defaultInputModes", Form::List(&Form::Text)),
    ("defaultOutputModes", Form::List(&Form::Text)),
    ("skills", Form::List(&Form::Members(&SKILL))),
];
/// `AgentSkill`, without the security of an address that is not ours.
const SKILL: [(&str, Form); 7] = [
    ("id", Form::Text),
    ("name", Form::Text),
    ("description", Form::Text),
    ("tags", Form::List(&Form::Text)),
    ("examples", Form::List(&Form::Text)),
    ("inputModes", Form::List(&Form::Text)),
    ("outputModes", Form::List(&Form::Text)),
];

/// What a member of the card may be.
enum Form {
    Text,
    List(&'static Form),
    Members(&'static [(&'static str, Form)]),
}

impl Form {
    /// As much of a value as has this form.
    fn of(&self, value: &Value) -> Option<Value> {
        match self {
            Form::Text => value.is_string().then(|| value.clone()),
            Form::List(form) => Some(value.as_array()?.iter().filter_map(|value| form.of(value)).collect()),
            Form::Members(known) => Some(members(known, value.as_object()?).into()),
        }
    }
}

/// The known members of an object. Either spelling is the same field to a ProtoJSON reader.
fn members(known: &[(&str, Form)], given: &Map<String, Value>) -> Map<String, Value> {
    let form = |name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, form)| form);
    given.iter().filter_map(|(name, value)| Some((camel(name), form(&camel(name))?.of(value)?))).collect()
}

/// How many cards' first times are remembered.
const CARDS: usize = 4096;

/// `GET …/.well-known/agent-card.json`. Asked without any header, so nothing gates it.
pub(super) async fn card(
    State(app): State<App>,
    Route((provider, name)): Route<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = agent(&app, &provider, &name).await?;
    let now = app.desk.now();
    let view = app.readers.read(move |reader| reader.agent(&id, now)).await?;
    let body = signed(&app, &words(&app, &view)).to_string();
    let digest = Digest::of(body.as_bytes());
    let tag = format!("\"{}\"", digest.to_hex());
    let modified = http_date(first_seen(digest, now.as_secs()));
    let cache = [
        (header::ETAG, tag.clone()),
        (header::CACHE_CONTROL, MAX_AGE.to_owned()),
        (header::LAST_MODIFIED, modified),
        // Anyone may read it, a page in a browser too.
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*".to_owned()),
    ];
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let known = known.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    if known.into_iter().any(|known| known == "*" || known == tag) {
        return Ok((StatusCode::NOT_MODIFIED, cache).into_response());
    }
    Ok((cache, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}

fn words(app: &App, view: &AgentView) -> Value {
    let registration: Value = serde_json::from_str(&view.registration).unwrap_or(Value::Null);
    let name = view.id.name.as_str();
    let fallback = format!("{name}, served by {}", view.id.provider.fingerprint());
    let description = registration["description"].as_str().filter(|text| !text.is_empty()).unwrap_or(&fallback);
    let mut card = json!({
        "name": name,
        "description": description,
        "version": "0.1.0",
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": name, "name": name, "description": description, "tags": ["agent"] }],
    });
    if let (Some(card), Some(extra)) = (card.as_object_mut(), registration["agentCardExtra"].as_object()) {
        card.extend(members(&THEIRS, extra));
    }
    let mut extensions = vec![json!({
        "uri": URN,
        "description": "A witness stands between: it verifies the actor chain in the request's metadata, binds threads \
                        to their head, and lets only an authority answer or stop a task.",
        "params": params(app, view),
    })];
    extensions.push(json!({
        "uri": obligations::EXTENSION,
        "description": "A message can demand an answer from the agent's provider; the witness tracks whether it was \
                        given, and only a typed response closes it.",
        "params": { "schema_max_bytes": wikala_witness::schema::SCHEMA_BYTES },
    }));
    if registration["takesInterjections"] == true {
        extensions.push(json!({
            "uri": EXTENSION_INTERJECTION,
            "description": "Takes messages into a live turn: name its task in addressedRunId.",
        }));
    }
    for extension in theirs(&registration) {
        // A provider's extensions are its own to declare, ours are not.
        if extensions.iter().all(|known| known["uri"] != extension["uri"]) {
            extensions.push(extension_of(extension));
        }
    }
    let url = address(app, view);
    let interface = |binding: &str| json!({ "url": url, "protocolBinding": binding, "protocolVersion": "1.0" });
    card["supportedInterfaces"] = json!([interface("JSONRPC"), interface("HTTP+JSON")]);
    card["capabilities"] = json!({
        "streaming": true, "pushNotifications": false, "extendedAgentCard": false, "extensions": extensions,
    });
    card
}

fn address(app: &App, view: &AgentView) -> String {
    format!("{}/a2a/{}/{}", app.settings.public_url, view.id.provider, view.id.name.as_str())
}

/// What a reader of the card must know of the witness.
fn params(app: &App, view: &AgentView) -> Value {
    let mut params = json!({
        "witnessKey": app.public_key().to_hex(),
        "providerCard": format!("{}/.well-known/provider-card.json", address(app, view)),
    });
    if view.custodial {
        // Its key is in the witness's own hands: its hops prove what the witness says.
        params["custodial"] = true.into();
    }
    params
}

/// The extensions a provider declares.
fn theirs(registration: &Value) -> impl Iterator<Item = &Value> {
    let list = registration["agentCardExtra"]["capabilities"]["extensions"].as_array();
    list.into_iter().flatten().filter(|extension| extension["uri"].as_str().is_some_and(|uri| uri != URN))
}

/// `AgentExtension` as ProtoJSON writes it: a `required` that is false is not there.
fn extension_of(extension: &Value) -> Value {
    let mut declared = json!({ "uri": extension["uri"] });
    if extension["description"].is_string() {
        declared["description"] = extension["description"].clone();
    }
    if extension["required"] == true {
        declared["required"] = true.into();
    }
    if extension["params"].is_object() {
        declared["params"] = extension["params"].clone();
    }
    declared
}

/// The extensions a provider declares for its agent.
pub(super) fn declared(view: &AgentView) -> Vec<String> {
    let registration: Value = serde_json::from_str(&view.registration).unwrap_or(Value::Null);
    theirs(&registration).filter_map(|extension| extension["uri"].as_str().map(str::to_owned)).collect()
}

/// The extensions without which an agent answers nobody.
pub(super) fn demanded(view: &AgentView) -> Vec<String> {
    let registration: Value = serde_json::from_str(&view.registration).unwrap_or(Value::Null);
    let required = theirs(&registration).filter(|extension| extension["required"] == true);
    required.filter_map(|extension| extension["uri"].as_str().map(str::to_owned)).collect()
}

/// `GET …/.well-known/provider-card.json`: what the provider registered about its agent,
/// with its own signatures, as received.
pub(super) async fn original(
    State(app): State<App>,
    Route((provider, name)): Route<(String, String)>,
) -> Result<Response, Problem> {
    let id = agent(&app, &provider, &name).await?;
    let now = app.desk.now();
    let view = app.readers.read(move |reader| reader.agent(&id, now)).await?;
    let registration = RawObject::parse(&view.registration).unwrap_or_default();
    let card = registration.get("agentCardExtra").map_or("{}", |raw| raw.get()).to_owned();
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, MAX_AGE)];
    Ok((headers, [(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")], card).into_response())
}

/// The card with the witness's signature: a detached JWS (RFC 7515) over the card's
/// canonical form (RFC 8785) without signatures and without members at their default (A2A
/// 1.0 §8.4.1, §8.4.2). It is served in that form, so that readers who leave nothing out
/// verify the same bytes. `kid` is the witness's key.
fn signed(app: &App, card: &Value) -> Value {
    let mut card = without_defaults(card);
    let header = json!({ "alg": "EdDSA", "typ": "JOSE", "kid": app.public_key().to_hex() });
    let protected = base64url::encode(header.to_string().as_bytes());
    let Ok(canonical) = serde_json_canonicalizer::to_vec(&card) else { return card };
    let input = format!("{protected}.{}", base64url::encode(&canonical));
    let signature = base64url::encode(app.key.sign(input.as_bytes()).as_bytes());
    card["signatures"] = json!([{ "protected": protected, "signature": signature }]);
    card
}

/// A value without what ProtoJSON would not write: empty texts, lists and objects.
fn without_defaults(value: &Value) -> Value {
    let keeps = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        other => !other.is_null(),
    };
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), without_defaults(value)))
            .filter(|(_, value)| keeps(value))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(without_defaults).filter(keeps).collect(),
        other => other.clone(),
    }
}

/// When this process first served a card under its tag, unix seconds.
fn first_seen(card: Digest, now_s: u64) -> u64 {
    static SEEN: OnceLock<Mutex<HashMap<[u8; 32], u64>>> = OnceLock::new();
    let Ok(mut seen) = SEEN.get_or_init(Mutex::default).lock() else { return now_s };
    if seen.len() >= CARDS {
        seen.clear();
    }
    *seen.entry(*card.as_bytes()).or_insert(now_s)
}

/// `Tue, 01 Dec 2026 01:02:03 GMT` (RFC 9110 §5.6.7).
fn http_date(at_s: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let at_s = at_s.min(253_402_300_799);
    let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at_s);
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let day = DAYS[(at_s / 86_400 % 7) as usize];
    let month = text[5..7].parse::<usize>().ok().and_then(|month| MONTHS.get(month - 1)).unwrap_or(&"Jan");
    format!("{day}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn a_provider_says_what_its_agent_is_and_nothing_of_how_to_reach_it() {
        let extra = json!({
            "name": "b", "url": "http://evil/", "capabilities": {}, "icon_url": "i", "version": null, "provider": [],
            "securitySchemes": { "k": { "type": "apiKey" } }, "supportedInterfaces": [{ "url": "http://evil/" }],
            "skills": [{ "id": "s", "input_modes": ["a", 1], "x": 1, "security": [] }, 7],
        });
        assert_eq!(
            Value::from(members(&THEIRS, extra.as_object().unwrap())),
            json!({ "name": "b", "iconUrl": "i", "skills": [{ "id": "s", "inputModes": ["a"] }] })
        );
    }
}
