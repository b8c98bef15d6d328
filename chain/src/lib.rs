//! Hops and chains of signed responsibility, and every other signed string: decidable from bytes alone
#![forbid(unsafe_code)]

pub mod base64url;
mod cache;
mod chain;
mod digest;
mod encoding;
mod error;
mod hop;
pub mod json;
mod key;
mod key_file;
mod name;
pub mod payload;
mod scan;
mod token;

pub use chain::{Chain, Head, MAX_HOP_BYTES, MAX_HOPS, PrefixCache, Presenter, VerifiedChain};
pub use digest::{Digest, Fingerprint};
pub use encoding::{NotHex, is_nonce, nonce};
pub use error::ChainError;
pub use hop::{Hop, Target};
pub use json::{JsonError, NotAnInteger, RawObject};
pub use key::{BadSignature, KeyError, PublicKey, Signature, SigningKey};
pub use key_file::KeyFileError;
pub use name::{AgentName, MAX_NAME_CHARS, NameError};
pub use payload::Payload;
