//! Freshness, session certificates, authority sets and signed acts: bytes and a clock value
#![forbid(unsafe_code)]
