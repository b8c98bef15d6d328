//! Ids minted by the witness, and only by it: `run_`, `thread_`, `msg_` + 24
//! lower-case hex. Identifiers are never credentials.

use rand::{Rng, SeedableRng, rngs::StdRng};
use std::fmt;
use wikala_certs::Moment;

macro_rules! id {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// The prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Reads an id of our form; `None` for anything else.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let tail = text.strip_prefix($prefix)?;
                let ours = tail.len() == 24 && tail.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                ours.then(|| $name(text.to_owned()))
            }

            /// The id as it stands on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(RunId, "run_", "A run: one piece of work handed to one agent.");
id!(ThreadId, "thread_", "A thread: the conversation that runs belong to.");
id!(EventId, "msg_", "An accepted message that an obligation can be bound to.");

/// Mints ids: 4 bytes of time, so that new rows land at the end of their index,
/// then 8 random bytes, so that nobody guesses one.
#[derive(Debug)]
pub(crate) struct Mint(StdRng);

impl Mint {
    pub(crate) fn from_os() -> Self {
        let mut seed = [0u8; 32];
        rand::rng().fill_bytes(&mut seed);
        Mint(StdRng::from_seed(seed))
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Mint(StdRng::seed_from_u64(seed))
    }

    pub(crate) fn run(&mut self, now: Moment) -> RunId {
        RunId(format!("run_{}", self.tail(now)))
    }

    pub(crate) fn thread(&mut self, now: Moment) -> ThreadId {
        ThreadId(format!("thread_{}", self.tail(now)))
    }

    pub(crate) fn event(&mut self, now: Moment) -> EventId {
        EventId(format!("msg_{}", self.tail(now)))
    }

    fn tail(&mut self, now: Moment) -> String {
        let mut bytes = [0u8; 12];
        self.0.fill_bytes(&mut bytes);
        // Wraps in 2106; an id is an index position here, not a date.
        bytes[..4].copy_from_slice(&(now.as_secs() as u32).to_be_bytes());
        hex::encode(bytes)
    }
}
