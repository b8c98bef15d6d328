//! The integration tests: one binary, the promises by module.

mod house;
mod interop;
mod process;
mod smoke;
mod vectors;
