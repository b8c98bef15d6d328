//! The link door.
use crate::house::App;
use axum::Router;

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new()
}
