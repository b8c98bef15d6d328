//! The record of a witness for responsibility chains: threads, runs, asks, authority
#![forbid(unsafe_code)]
