//! Hops and chains of signed responsibility, and every other signed string:
//! decidable from bytes alone.
//!
//! **What this crate does.** It reads a list of tokens and says whose
//! responsibility the work is (the *head*), who passed it on last (the
//! *presenter*), and which witness sent it to which agent in between. It signs
//! new hops under the same rules, and holds every other signed byte string on
//! one page ([`payload`]).
//!
//! **What it will never do.** Ask the time, open a file, remember what was
//! spent, fetch a key, or hand the question to a JWT library. A verified chain
//! proves where work comes from; it never proves who sends it now, and it says
//! nothing about hops that were never signed.
//!
//! # The format
//! A chain is a list of at most 64 hops; a hop is a compact JWS of at most 2 KiB:
//! ```text
//! base64url(header) . base64url(claims) . base64url(64 bytes of Ed25519 signature)
//!
//! header   {"alg":"EdDSA","typ":"JWT"}
//! claims   {"actorPublicKey": 64 hex,              signs this very hop
//!           "prevHash":       null | 64 hex,       SHA-256 of the whole token before it
//!           "dispatchedTo":   {"providerKey": 64 hex, "name": text}}    dispatch hops only
//! ```
//! Each hop names its own key, and by the hash of the token before it stands
//! behind everything that came before. After a dispatch only the named
//! provider may sign, or the dispatcher again with another dispatch (it offers
//! the work to someone else).
//!
//! One canonical encoding, everything else is malformed: lower-case hex,
//! unpadded base64url, no key twice in an object, closed sets of members,
//! canonical keys of prime order, strict signatures. [`ChainError`] has the
//! codes, in the order in which flaws are looked for.
//!
//! # A worked example
//! A person's key begins, the witness sends the work to a translator, the
//! translator takes it on; any reader checks it from the tokens alone:
//! ```
//! use wikala_chain::{AgentName, Chain, PrefixCache, SigningKey, Target, VerifiedChain};
//!
//! let person = SigningKey::from_seed([1; 32]);
//! let witness = SigningKey::from_seed([2; 32]);
//! let translator = SigningKey::from_seed([3; 32]);
//!
//! let to = Target { provider: translator.public(), name: AgentName::new("translator")? };
//! let sent = VerifiedChain::start(&person).dispatch(&witness, to)?;
//! let text = sent.extend(&translator)?.to_json();
//!
//! let cache = PrefixCache::new(1_000);
//! let chain = Chain::parse_json(&text)?.expect("not null").verify(&cache)?;
//! assert_eq!(chain.head().0, person.public());
//! assert_eq!(chain.presenter().0, translator.public());
//! assert_eq!(chain.hops()[1].actor(), witness.public());
//!
//! // Nobody else can take on what was sent to the translator,
//! let stranger = SigningKey::from_seed([4; 32]);
//! assert_eq!(sent.extend(&stranger).unwrap_err().code(), "hop-wrong-successor");
//! // and the person cannot be cut off the front.
//! let beheaded = chain.tokens().skip(1).map(str::to_owned).collect();
//! let error = Chain::parse(beheaded)?.verify(&cache).unwrap_err();
//! assert_eq!((error.code(), error.hop()), ("hop-broken-link", Some(0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod base64url;
mod cache;
mod canonical;
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

pub use canonical::{Inexact, canonical};
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
