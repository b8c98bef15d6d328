//! The harness side: one process holds an agent's key, so that the agent need not. It knows
//! what is owed before it is asked, keeps what must not be forgotten, and offers the journey as
//! tools over a local socket.

pub mod counters;
pub mod desk;
pub mod ipc;
mod keeper;
mod seal;
mod store;
pub mod tools;

pub use keeper::{Options, State, Supervisor};
