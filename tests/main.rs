//! The integration tests: one binary, the promises by module.

mod a2a;
mod house;
mod process;
mod smoke;
