//! Agents that stand behind HTTP: the witness is their client. Each has a carrier, a link
//! of our own, so that what an upstream says takes the same road as what a provider says
//! that dials in.

mod a2a;
mod a2a_params;
pub mod agents;
mod agui;
pub mod card;
mod carrier;
mod legacy;
pub mod outbound;
pub mod peer;
mod run;

use wikala_witness::{AgentId, NewUpstream, No, Upstream};

use crate::house::App;

/// Attaches every upstream agent on record.
///
/// # Errors
/// The record cannot be read.
pub async fn open(app: &App) -> Result<(), No> {
    for upstream in app.readers.read(|reader| reader.upstreams()).await? {
        start(app, upstream);
    }
    Ok(())
}

/// Adds an upstream agent and attaches it.
///
/// # Errors
/// `carrier-taken`.
pub async fn add(app: &App, new: NewUpstream) -> Result<AgentId, No> {
    let id = app.desk.ask(move |witness, now| witness.add_upstream(now, &new)).await?;
    let known = app.readers.read(|reader| reader.upstreams()).await?;
    if let Some(upstream) = known.into_iter().find(|upstream| upstream.agent == id) {
        start(app, upstream);
    }
    Ok(id)
}

/// Takes an upstream agent away. Its carrier ends, what it was doing fails.
///
/// # Errors
/// `agent-unknown`.
pub async fn remove(app: &App, id: AgentId) -> Result<(), No> {
    app.desk.ask(move |witness, now| witness.remove_upstream(now, &id)).await
}

fn start(app: &App, upstream: Upstream) {
    tokio::spawn(carrier::serve(app.clone(), upstream));
}
