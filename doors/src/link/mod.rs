//! The link: how a provider that nobody can dial serves its agents. Admission is a
//! ticket, the handshake proves both keys, then frames go both ways (wire.md, The link).

pub mod frames;
pub mod machine;
mod socket;
pub mod ticket;

use std::collections::HashSet;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use wikala_chain::{PublicKey, RawObject, json as strict};

use crate::answer::{Door, Problem};
use crate::door::Knock;
use crate::house::{Admission, App};
use ticket::Ticket;

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new().route("/tickets", post(tickets)).route("/ws/provider", get(attach))
}

/// `POST /tickets {publicKey}` -> `{ticket, funduqPublicKey}`. Issuing is admission.
async fn tickets(State(app): State<App>, knock: Knock) -> Result<Response, Problem> {
    let now = app.desk.now();
    app.limits.tickets.take(knock.peer, now.as_secs(), "ticket")?;
    let malformed = |sentence: String| Problem::door(Door::BodyMalformed, sentence);
    let body = RawObject::parse(knock.json()?)?;
    if let Some((name, _)) = body.iter().find(|(name, _)| *name != "publicKey") {
        return Err(malformed(format!("body: {name:?} is not a member here, publicKey is")));
    }
    let key = body
        .get("publicKey")
        .and_then(|raw| strict::string(raw.get()))
        .ok_or_else(|| malformed("publicKey: missing, send 64 lower-case hex".to_owned()))?;
    let key = PublicKey::from_hex(&key).map_err(|error| malformed(format!("publicKey: {error}")))?;
    if !app.settings.admission.admits(&key) {
        return Err(Problem::door(Door::NotAdmitted, not_admitted(&key)));
    }
    let words = json!({
        "ticket": Ticket::issue(&app.secret, &key, now),
        "funduqPublicKey": app.public_key().to_hex(),
    });
    Ok(axum::Json(words).into_response())
}

/// `GET /ws/provider`: the link itself.
async fn attach(
    State(app): State<App>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    if app.is_closing() {
        return Err(Problem::door(Door::ShuttingDown, "house: closing, try again in a moment"));
    }
    let upgrade =
        upgrade.map_err(|_| Problem::door(Door::BodyMalformed, "link: not a WebSocket handshake (RFC 6455)"))?;
    let Some(place) = socket::place() else {
        return Err(Problem::door(Door::RateLimited, "link: too many are open, try again in a moment"));
    };
    Ok(upgrade
        .max_message_size(frames::FRAME)
        .max_frame_size(frames::FRAME)
        .on_upgrade(move |socket| socket::serve(app, socket, place))
        .into_response())
}

fn not_admitted(key: &PublicKey) -> String {
    format!("admission: {} is not on this witness's list, ask its operator", key.fingerprint())
}

/// Replaces the admission list and closes the links of keys that are no longer on it.
/// Nothing happens in a house that admits everybody.
pub async fn readmit(app: &App, keys: HashSet<PublicKey>) {
    let Admission::Listed(list) = &app.settings.admission else { return };
    let admitted = keys.len();
    if let Ok(mut list) = list.lock() {
        *list = keys;
    }
    // The list first: who attaches from here on is asked against the new one, at the desk.
    let admission = app.settings.admission.clone();
    let evicted = app
        .desk
        .ask(move |witness, now| {
            let mut evicted = 0;
            for key in witness.attached()? {
                if !admission.admits(&key) {
                    witness.evict(now, key)?;
                    evicted += 1;
                }
            }
            Ok(evicted)
        })
        .await;
    match evicted {
        Ok(evicted) => tracing::info!(admitted, evicted, "admission list reread"),
        Err(no) => tracing::error!(%no, "links of removed keys could not be closed"),
    }
}
