//! The integration tests: one binary, the promises by module.

mod house;
mod process;
mod smoke;
