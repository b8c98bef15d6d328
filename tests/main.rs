//! The integration tests: one binary, the promises by module.

mod cli;
mod house;
mod interop;
mod process;
mod smoke;
