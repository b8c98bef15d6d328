//! The provider link: agents dial in, prove their key, and are offered work.

pub mod frames;
pub mod machine;
mod socket;
pub mod ticket;

use std::collections::HashSet;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{Extensions, HeaderMap};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use wikala_chain::{PublicKey, RawObject, json as strict};

use crate::answer::{Door, Problem};
use crate::door::{Knock, peers};
use crate::house::{Admission, App};

/// How often the line is tried; two silences in a row and it is lost.
pub const PING: std::time::Duration = std::time::Duration::from_secs(20);

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new().route("/tickets", post(tickets)).route("/ws/provider", get(open))
}

/// `POST /tickets {"publicKey"}`: issuing is admission.
async fn tickets(State(app): State<App>, knock: Knock) -> Result<Response, Problem> {
    let now = app.desk.now();
    app.limits.tickets.take(knock.peer, now.as_secs(), "ticket")?;
    let body = RawObject::parse(knock.json()?)?;
    let named = body.get("publicKey").and_then(|raw| strict::string(raw.get())).unwrap_or_default();
    let key = PublicKey::from_hex(&named)
        .map_err(|error| Problem::door(Door::BodyMalformed, format!("publicKey: {error}")))?;
    if !app.settings.admission.admits(&key) {
        return Err(Problem::door(
            Door::NotAdmitted,
            format!("ticket: {} is not on the admission list, ask the operator to add it", key.fingerprint()),
        ));
    }
    let mut random = [0; 4];
    rand::Rng::fill_bytes(&mut rand::rng(), &mut random);
    let ticket = ticket::issue(&app.secret, &key, now, random);
    Ok(axum::Json(json!({ "ticket": ticket, "funduqPublicKey": app.public_key().to_hex() })).into_response())
}

/// `GET /ws/provider`: the link itself.
async fn open(
    State(app): State<App>,
    extensions: Extensions,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Ok(upgrade) = upgrade else {
        return Problem::door(Door::BodyMalformed, "link: not a WebSocket handshake (RFC 6455)").into_response();
    };
    if app.is_closing() {
        return Problem::door(Door::ShuttingDown, "house: closing, try again in a moment").into_response();
    }
    // Strangers have places of their own: whoever never greets keeps no provider out.
    let greeting = match app.limits.greetings.take(peers(&app, &extensions, &headers).0) {
        Ok(greeting) => greeting,
        Err(problem) => return problem.into_response(),
    };
    let Some(place) = socket::Place::greeting() else {
        return Problem::door(Door::RateLimited, "link: too many are open, try again in a moment").into_response();
    };
    upgrade
        .max_message_size(frames::FRAME)
        .max_frame_size(frames::FRAME)
        .on_upgrade(move |socket| socket::serve(app, socket, place, greeting))
}

/// Takes a new admission list: who is no longer on it is closed.
pub async fn readmit(app: &App, keys: HashSet<PublicKey>) {
    let Admission::Listed(listed) = &app.settings.admission else { return };
    if let Ok(mut listed) = listed.lock() {
        *listed = keys.clone();
    }
    let evicted = app
        .desk
        .ask(move |witness, now| {
            let gone: Vec<PublicKey> = witness.attached()?.into_iter().filter(|key| !keys.contains(key)).collect();
            for key in &gone {
                witness.evict(now, *key)?;
            }
            Ok(gone.len())
        })
        .await;
    match evicted {
        Ok(count) => tracing::info!(evicted = count, "admission list reread"),
        Err(no) => tracing::error!(%no, "the admission list could not be applied"),
    }
}
