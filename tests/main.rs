//! The integration tests: one binary, the promises by module.

mod cli;
mod house;
mod process;
mod smoke;
