//! The provider link over real WebSockets, against a house with a hand-set clock.

mod handshake;
pub mod peer;
mod runs;
mod scripted;
