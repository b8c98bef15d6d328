//! Sockets: everything that listens, dials or speaks a protocol.
#![forbid(unsafe_code)]
