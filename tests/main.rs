//! The integration tests: one binary, the promises by module.

mod agui;
mod cli;
mod harness;
mod house;
mod interop;
mod process;
mod record;
mod smoke;
