//! Sockets: everything that listens, dials or speaks a protocol. Doors parse once,
//! verify, and hand proof values to the desk; what they send out is on record.
//!
//! They will never decide about authority (the witness does), write SQL, or read a
//! clock outside [`desk`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod a2a;
pub mod acts;
pub mod agui;
pub mod answer;
pub mod bag;
pub mod cli;
pub mod client;
pub mod config;
pub mod control;
pub mod delivery;
pub mod demo;
pub mod desk;
pub mod door;
pub mod exit;
pub mod fanout;
pub mod house;
pub mod http;
pub mod limits;
pub mod link;
pub mod mcp;
pub mod messages;
pub mod obligations;
pub mod presenter;
pub mod provider;
pub mod readers;
pub mod reads;
pub mod schemas;
pub mod serve;
pub mod sse;
pub mod supervisor;
pub mod upstream;
pub mod vectors;
