//! The agui door.
pub mod words;

use crate::house::App;
use axum::Router;

/// The routes of this door.
pub fn routes() -> Router<App> {
    Router::new()
}
