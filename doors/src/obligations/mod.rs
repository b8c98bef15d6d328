//! Obligations at the doors: what a request demands, the acts on it, what a party may read.
//! Who may do what is the desk's decision; here bytes become values.

pub mod actions;
pub mod acts;
pub mod asked;
pub mod look;
pub mod spec;
pub mod wake;

use axum::Router;

use crate::house::App;

pub use spec::EXTENSION;

/// The routes of this door.
pub fn routes() -> Router<App> {
    acts::routes().merge(actions::routes()).merge(look::routes()).merge(wake::routes())
}
