//! Hops and chains of signed responsibility, and every other signed string: decidable from bytes alone
#![forbid(unsafe_code)]
