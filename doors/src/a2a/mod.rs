//! The A2A 1.0 door: JSON-RPC at `/a2a/{provider}/{name}`, HTTP+JSON and the agent card
//! below it.
//!
//! It reads what the protocol lets it decide on (ids, roles, states, a few options),
//! relays the rest as it came, and tells a run from its record alone, so that a live
//! stream, a replay and a late subscriber are told the same story.

mod call;
mod card;
mod draft;
mod fields;
pub mod heard;
mod refused;
mod relayed;
mod rest;
mod rpc;
mod send;
mod stream;
mod task;
mod tasks;
mod told;
mod words;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{any, get, post};

use crate::answer::Problem;
use crate::door::{Knock, Route};
use crate::house::App;

pub use card::EXTENSION_INTERJECTION;

/// An agent's A2A event with the ids that callers know: JSON text.
#[must_use]
pub fn patched(text: &str, run: &str, thread: &str) -> Option<String> {
    relayed::event(text, relayed::Ids { task: run, context: thread })
}

/// The routes of this door. The kit and some clients post to the URL with a slash.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/a2a/{provider}/{name}", post(call))
        .route("/a2a/{provider}/{name}/", post(call))
        .route("/a2a/{provider}/{name}/.well-known/agent-card.json", get(card::card))
        .route("/a2a/{provider}/{name}/.well-known/provider-card.json", get(card::original))
        .route("/a2a/{provider}/{name}/{*path}", any(rest))
}

async fn call(
    State(app): State<App>,
    Route((provider, name)): Route<(String, String)>,
    knock: Result<Knock, Problem>,
) -> Response {
    match knock {
        Ok(knock) => rpc::call(app, &provider, &name, knock).await,
        // Too large to be read, or nobody reads any more: told in the caller's protocol too.
        Err(problem) => rpc::unread(problem),
    }
}

async fn rest(
    State(app): State<App>,
    route: Result<Route<(String, String, String)>, Problem>,
    knock: Result<Knock, Problem>,
) -> Response {
    match route.and_then(|route| Ok((route, knock?))) {
        Ok((Route((provider, name, _)), knock)) => {
            // As received: a colon that was escaped is part of an id.
            let path = knock.uri.path().splitn(5, '/').nth(4).unwrap_or("").to_owned();
            rest::call(app, &provider, &name, &path, knock).await
        }
        Err(problem) => rest::unread(problem),
    }
}
