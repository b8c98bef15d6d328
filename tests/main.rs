//! The integration tests: one binary, the promises by module.

mod house;
mod link;
mod process;
mod smoke;
