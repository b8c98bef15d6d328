//! `GET /v1/response-obligations/wake`: a stream that says that something of a party's has
//! changed, and nothing of what. Whoever hears it reads its counters.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use tokio::sync::watch;
use wikala_chain::PublicKey;

use super::look::party;
use crate::answer::Problem;
use crate::door::Knock;
use crate::house::App;
use crate::sse;

/// How many parties are kept in mind before those are let go whom nobody listens for.
const PARTIES: usize = 1024;

/// How long what follows a change is gathered.
const GAP: Duration = Duration::from_millis(50);

/// The parties that are listened for.
#[derive(Debug, Default)]
pub struct Wakes(Mutex<HashMap<PublicKey, watch::Sender<u64>>>);

impl Wakes {
    /// Tells whoever listens for a party.
    pub fn wake(&self, party: &PublicKey) {
        let Ok(parties) = self.0.lock() else { return };
        if let Some(listened) = parties.get(party) {
            listened.send_modify(|times| *times += 1);
        }
    }

    fn listen(&self, party: PublicKey) -> Option<watch::Receiver<u64>> {
        let mut parties = self.0.lock().ok()?;
        if parties.len() >= PARTIES {
            parties.retain(|_, listened| listened.receiver_count() > 0);
        }
        Some(parties.entry(party).or_insert_with(|| watch::channel(0).0).subscribe())
    }
}

/// The routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new().route("/v1/response-obligations/wake", get(wake))
}

/// Events named `wake`, their data `{}`: one at once, then one for whatever changed since the
/// last. Signed by a party, as every read here.
async fn wake(State(app): State<App>, knock: Knock) -> Result<Response, Problem> {
    let who = party(&app, &knock).await?;
    let key = knock.vouched(&app)?.or(knock.signer(&app)?.map(|signer| signer.key)).unwrap_or(who);
    let place = app.limits.streams.take(knock.peer)?;
    let (out, response) = sse::response(app.settings.keep_alive);
    let Some(mut changed) = app.wakes.listen(who) else { return Ok(response) };
    tokio::spawn(async move {
        let _place = place;
        let mut closing = app.closing.clone();
        loop {
            if out.frame(Some("event: wake\n".to_owned()), "{}").await.is_err() {
                return;
            }
            tokio::select! {
                heard = changed.changed() => if heard.is_err() { return },
                _ = closing.wait_for(|closing| *closing) => return,
                () = out.gone() => return,
            }
            // What changes in a burst wakes once.
            tokio::time::sleep(GAP).await;
            changed.mark_unchanged();
            // A certificate that ended or was revoked since listens no more.
            let now = app.desk.now();
            if !matches!(app.readers.read(move |reader| reader.viewer(now, key)).await, Ok(still) if still == who) {
                return;
            }
        }
    });
    Ok(response)
}
