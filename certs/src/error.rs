//! Why a certificate, a proof, an act or a presenter was refused.
//!
//! Each error has a stable code and a sentence that may improve.

use std::fmt;

macro_rules! refusal {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            code: &'static str,
            sentence: String,
        }

        impl $name {
            pub(crate) fn new(code: &'static str, sentence: impl Into<String>) -> Self {
                $name { code, sentence: sentence.into() }
            }

            /// The stable code clients and vectors compare.
            pub fn code(&self) -> &'static str {
                self.code
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.sentence)
            }
        }

        impl std::error::Error for $name {}
    };
}

refusal! {
    /// `certificate-malformed`, `certificate-signature`, `certificate-expired`,
    /// `certificate-not-signer` or `certificate-not-accepted`.
    CertError
}
refusal! {
    /// `proof-malformed`: a proof that is not of the one shape; `act-signature` for a
    /// consent that its provider did not sign.
    ProofError
}
refusal! {
    /// `act-signature`, `not-an-authority` or `act-stale`.
    ActError
}
refusal! {
    /// `presenter-proof`: does not prove presence here and now.
    PresenterError
}
