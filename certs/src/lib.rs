//! Freshness, session certificates, authority sets and signed acts: bytes and a clock value.
//!
//! What this crate does: it turns proofs into values that can only be had by
//! proving. A [`Proof`] is what somebody sent; an [`Authorized`] act is what
//! the record may carry out, once.
//!
//! What it will never do: read a clock (every question about time is handed
//! its [`Moment`]), remember anything (whether an act was spent, a certificate
//! revoked or a pair recorded is the witness's memory), open a file or a socket.
//!
//! One answer to a paused run, from signature to permission:
//! ```
//! use wikala_certs::{AuthoritySet, Moment, Proof, SignedAct};
//! use wikala_chain::SigningKey;
//!
//! let head = SigningKey::from_seed([1; 32]);
//! let now = Moment::from_secs(1_764_540_000);
//! let sent = Proof::resolve(&head, "run_2c26b46b68ffc68ff99b453c", now).to_json();
//!
//! let proof = Proof::parse(&sent)?;
//! let act = SignedAct::resolve(&proof, "run_2c26b46b68ffc68ff99b453c")?; // signature
//! let set = AuthoritySet::of([head.public()]);
//! let standing = act.stand(&set, None)?; // authority
//! let authorized = standing.fresh(now.plus(60))?; // clock
//! assert_eq!(authorized.authority(), head.public());
//!
//! // A stranger's signature verifies, and does not count.
//! let stranger = SigningKey::from_seed([2; 32]);
//! let proof = Proof::resolve(&stranger, "run_2c26b46b68ffc68ff99b453c", now);
//! let act = SignedAct::resolve(&proof, "run_2c26b46b68ffc68ff99b453c")?;
//! assert_eq!(act.stand(&set, None).unwrap_err().code(), "not-an-authority");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod act;
mod authority;
mod consent;
mod deed;
mod delegation;
mod error;
mod moment;
mod presenter;
mod proof;
mod revocation;

pub use act::{Act, Authorized, Cancel, Form, Resolve, SignedAct, Standing};
pub use authority::AuthoritySet;
pub use consent::{Consent, SignedConsent};
pub use deed::{AuthorizedDeed, Deed, SignedDeed, StandingDeed, is_code};
pub use delegation::{ActingFor, Certificate, SignedCertificate};
pub use error::{ActError, CertError, PresenterError, ProofError};
pub use moment::{Moment, WINDOW_S, is_fresh};
pub use presenter::{Presented, SignedPresenter};
pub use proof::Proof;
pub use revocation::{Revoked, SignedRevocation};
