//! The integration tests: one binary, the promises by module.

mod a2a;
mod agui;
mod bounds;
mod cli;
mod crash;
mod harness;
mod house;
mod interop;
mod link;
mod obligations;
mod process;
mod readme;
mod record;
mod refusals;
mod schemas;
mod smoke;
mod stalls;
mod upstream;
mod vectors;
