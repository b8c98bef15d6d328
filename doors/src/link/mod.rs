//! The link door.
use crate::house::App;
use axum::Router;

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new()
}

/// Takes a new admission list.
pub async fn readmit(app: &App, keys: std::collections::HashSet<wikala_chain::PublicKey>) {
    let _ = (app, keys);
}
