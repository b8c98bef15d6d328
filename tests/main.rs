//! The integration tests: one binary, the promises by module.

mod harness;
mod house;
mod process;
mod record;
mod smoke;
