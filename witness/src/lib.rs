//! The record of a witness: threads, runs, asks, and under whose authority each
//! of them moved. It needs memory, and that memory is one SQLite file.
//!
//! It will never open a socket, read a clock (every verb is handed `now`), verify
//! a signature (it is handed proof values), name a protocol, or judge. It records
//! what it observed, and decides only who may write, answer and stop.
//!
//! | verb | who says it | where |
//! |---|---|---|
//! | [`Witness::open_thread`], [`Witness::speak`] | a caller: a thread, an utterance in it | `dispatch` |
//! | [`Witness::answer`] | an authority: the answer a paused run waits for | `ask` |
//! | [`Witness::stop`] | an authority: stop this run | `stop` |
//! | [`Witness::act_on_obligation`], [`Witness::respond`], [`Witness::reconcile`] … | a party: what is owed | `obligation` |
//! | [`Witness::record_certificate`] | a delegate: I act for that key | `caller` |
//! | [`Witness::attach`], [`Witness::register`], [`Witness::detach`] … | a provider's link | `link` |
//! | [`Witness::add_upstream`], [`Witness::attach_upstream`] … | the operator, and our own client | `upstream` |
//! | [`Witness::verdict`], [`Witness::event`], [`Witness::finish`] | a provider, about a run | `run` |
//! | [`Witness::tick`] | the desk's clock | `queue` |
//! | [`Reader`] | anyone who may read | `read`, `lineage` |
//!
//! Every verb runs inside a transaction ([`Witness::begin`], [`Witness::job`],
//! [`Witness::commit`]); what must happen outside is returned as [`Effect`]s after
//! the commit, so nothing leaves the house before it is on record.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod ask;
mod caller;
mod cover;
mod dispatch;
mod entry;
mod find;
mod ids;
mod lineage;
mod link;
mod model;
pub mod obligation;
mod queue;
mod read;
mod refusal;
mod run;
pub mod schema;
mod stop;
mod store;
mod upstream;
mod view;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags};
use wikala_certs::Moment;
use wikala_chain::{PublicKey, SigningKey};

pub use ask::Answered;
pub use dispatch::Opened;
pub use entry::{Entry, Mark, PublicKeyText, Recorded};
pub use ids::{EventId, RunId, ThreadId};
pub use lineage::{Onward, TreeNode};
pub use link::{Holding, Resumed};
pub use model::*;
pub use read::Reader;
pub use refusal::{Beside, Code, Fault, No, OpenFault, Refusal, Winner};
pub use run::Heard;
pub use stop::Stopped;
pub use store::agents::Counters;
pub use store::schema::VERSION;
pub use upstream::{NewUpstream, Upstream, UpstreamNames};
pub use view::*;

use store::Store;

/// How many runs of one thread may wait for their turn; one more is `queue-full`.
pub const QUEUE_LIMIT: u64 = 8;
/// How many runs of one agent may wait for a turn, over all threads.
pub const AGENT_QUEUE: u64 = 1024;
/// How many offers may be out on a link without a verdict. A provider that reads as
/// fast as it can must not be struck for the crowd in front of its door.
pub const OFFERS_AT_ONCE: u64 = 16;
/// How many bytes of words one run may put on record; more of them fail it.
pub const RUN_BYTES: u64 = 32 * 1024 * 1024;
/// How many names one provider's key may hold, served or not.
pub const AGENTS_A_KEY: u64 = 1024;
/// How many items one pause may ask for; calls left open beyond it fail the run.
pub const ASK_ITEMS: usize = 256;
/// How many runs one upstream agent is given at once.
pub const UPSTREAM_RUNS: u64 = 64;
/// How many faults in a row withdraw a provider's agents.
pub const TOLERANCE: u64 = 3;
/// How long a declined or unanswered offer waits before it is made again, seconds.
pub const RETRY_S: u64 = 45;
/// How long a settled run keeps its slot while its provider owes a `finish`, seconds.
pub const FINISH_S: u64 = 30;
/// How long presenter proofs are kept; older timestamps are stale for good, seconds.
pub const PRESENTED_S: u64 = 600;

/// Must a chain's presenter be proved?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresenterPolicy {
    /// Yes: a chain proves origin, not possession.
    Required,
    /// The reference's behaviour: the last hop's signer is taken at its word.
    Optional,
}

/// Which proofs may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPolicy {
    /// `funduq-resolve` in every lane, `wikala-answer` on our own route.
    Any,
    /// Only `wikala-answer`, bound to the asks and the answer.
    Bound,
}

/// Who may read a bound thread whose id they know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPolicy {
    /// Everybody.
    Open,
    /// The chain's parties and the provider; everybody else gets 404.
    Parties,
}

/// What the operator decides. Times in seconds.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Must a chain's presenter be proved?
    pub presenter: PresenterPolicy,
    /// Which proofs may answer.
    pub answers: AnswerPolicy,
    /// Who may read.
    pub reads: ReadPolicy,
    /// How long a provider may take to answer an offer.
    pub offer_timeout_s: u64,
    /// How long a queued run waits for an agent that nobody serves.
    pub unserved_s: u64,
    /// How long a lost link keeps its runs.
    pub link_grace_s: u64,
    /// What is denied about obligations, beyond what membership gives.
    pub denied: Vec<obligation::Denied>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            presenter: PresenterPolicy::Required,
            answers: AnswerPolicy::Any,
            reads: ReadPolicy::Open,
            offer_timeout_s: 5,
            unserved_s: 45,
            link_grace_s: 30,
            denied: Vec::new(),
        }
    }
}

/// The writing side of the record. One of it works at the desk; the guards stay
/// right when a second one opens the same file.
#[derive(Debug)]
pub struct Witness {
    store: Store,
    key: Arc<SigningKey>,
    policy: Policy,
    mint: ids::Mint,
    outbox: Vec<Effect>,
    /// Where the effects of the verb now running begin in the outbox.
    began: usize,
}

impl Witness {
    /// Opens or creates the record of the witness with this key.
    ///
    /// # Errors
    /// A file of a newer build, of another witness, or one that SQLite cannot open.
    pub fn open(path: &Path, key: Arc<SigningKey>, policy: Policy) -> Result<Self, OpenFault> {
        Self::with_mint(Connection::open(path)?, key, policy, ids::Mint::from_os())
    }

    /// As [`Witness::open`], with predictable ids. For tests and simulations.
    ///
    /// # Errors
    /// As [`Witness::open`].
    pub fn open_seeded(path: &Path, key: Arc<SigningKey>, policy: Policy, seed: u64) -> Result<Self, OpenFault> {
        Self::with_mint(Connection::open(path)?, key, policy, ids::Mint::seeded(seed))
    }

    fn with_mint(mut db: Connection, key: Arc<SigningKey>, policy: Policy, mint: ids::Mint) -> Result<Self, OpenFault> {
        store::schema::open_writer(&mut db)?;
        let store = Store { db };
        let given = key.public();
        // A record signed for by two keys would prove nothing to who pins one.
        match store.meta("witness")? {
            None => store.set_meta("witness", given.as_bytes())?,
            Some(found) if found == given.as_bytes() => {}
            Some(found) => {
                let found = <[u8; 32]>::try_from(found.as_slice())
                    .ok()
                    .and_then(|bytes| PublicKey::from_bytes(&bytes).ok())
                    .map_or_else(|| "unknown".to_owned(), |key| key.fingerprint().to_string());
                return Err(OpenFault::OtherWitness { found, given: given.fingerprint().to_string() });
            }
        }
        Ok(Witness { store, key, policy, mint, outbox: Vec::new(), began: 0 })
    }

    /// The witness's public key: what readers pin.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The newest time on record. A clock that was set back must not write
    /// before it.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn newest_time(&self) -> Result<Moment, Fault> {
        Ok(Moment::from_secs(self.store.newest_time()?))
    }

    /// 32 secret bytes of this record, made once: tickets are authenticated with it.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn secret(&self) -> Result<[u8; 32], Fault> {
        if let Some(found) = self.store.meta("secret")? {
            return <[u8; 32]>::try_from(found.as_slice()).map_err(|_| Fault::Corrupt("meta.secret"));
        }
        let mut made = [0u8; 32];
        rand::Rng::fill_bytes(&mut rand::rng(), &mut made);
        self.store.set_meta("secret", &made)?;
        Ok(made)
    }

    /// Begins a transaction; waits for another writer on the same file.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn begin(&mut self) -> Result<(), Fault> {
        self.outbox.clear();
        self.began = 0;
        Ok(self.store.db.execute_batch("BEGIN IMMEDIATE")?)
    }

    /// Runs one verb in its own savepoint: a refusal leaves the record as it was.
    ///
    /// # Errors
    /// What the verb said.
    pub fn job<T>(&mut self, verb: impl FnOnce(&mut Self) -> Result<T, No>) -> Result<T, No> {
        self.began = self.outbox.len();
        self.store.db.execute_batch("SAVEPOINT job")?;
        match verb(self) {
            Ok(done) => {
                self.store.db.execute_batch("RELEASE job")?;
                self.began = self.outbox.len();
                Ok(done)
            }
            Err(no) => {
                self.outbox.truncate(self.began);
                self.store.db.execute_batch("ROLLBACK TO job; RELEASE job")?;
                Err(no)
            }
        }
    }

    /// Undoes a verb that panicked in its savepoint: half of it must not ride along
    /// in the group's commit, and what the others of the group did must still be told.
    pub fn abandon(&mut self) {
        self.outbox.truncate(self.began);
        // No such savepoint: the verb had not begun, or was done.
        let _ = self.store.db.execute_batch("ROLLBACK TO job; RELEASE job");
    }

    /// Makes everything durable, then hands out what is to be done outside.
    ///
    /// # Errors
    /// The commit failed: nothing happened, nothing may be acknowledged.
    pub fn commit(&mut self) -> Result<Vec<Effect>, Fault> {
        if let Err(error) = self.store.db.execute_batch("COMMIT") {
            self.rollback();
            return Err(error.into());
        }
        Ok(std::mem::take(&mut self.outbox))
    }

    /// Forgets the open transaction, whatever state it is in.
    pub fn rollback(&mut self) {
        self.outbox.clear();
        if !self.store.db.is_autocommit() {
            // A failed ROLLBACK leaves a connection that refuses the next BEGIN: loud enough.
            let _ = self.store.db.execute_batch("ROLLBACK");
        }
    }

    /// One verb, one transaction.
    ///
    /// # Errors
    /// What the verb said, or the commit.
    pub fn transact<T>(&mut self, verb: impl FnOnce(&mut Self) -> Result<T, No>) -> Result<(T, Vec<Effect>), No> {
        self.begin()?;
        match self.job(verb) {
            Ok(done) => Ok((done, self.commit()?)),
            Err(no) => {
                self.rollback();
                Err(no)
            }
        }
    }

    /// A reader's connection to the same file.
    ///
    /// # Errors
    /// As [`Witness::open`].
    pub fn reader(path: &Path, policy: Policy) -> Result<Reader, OpenFault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        store::schema::open_reader(&db)?;
        Ok(Reader { store: Store { db }, policy })
    }

    /// Appends to a run's record, and tells its subscribers after the commit.
    fn note(&mut self, run: &RunId, entry: Entry, now: Moment) -> Result<Noted, No> {
        let (place, recorded) = self.store.append(run, entry, now)?;
        let seq = recorded.seq;
        self.outbox.push(Effect::Tell { run: run.clone(), recorded });
        Ok(Noted { place, seq })
    }
}

/// Where an entry stands.
#[derive(Debug, Clone, Copy)]
struct Noted {
    /// In the whole record.
    place: i64,
    /// In its run.
    seq: u64,
}

/// Unix seconds as RFC 3339 UTC.
pub(crate) fn moment_text(at_s: u64) -> String {
    // Beyond the year 9999 the text form has no room; a clock that says so is broken anyway.
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at_s.min(253_402_300_799));
    humantime::format_rfc3339_seconds(at).to_string()
}
