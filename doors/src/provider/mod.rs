//! `wikala provider`: a scripted agent over the real link. What it does is the first
//! word of what the user says ([`script`]); everything else is what a provider does.

mod book;
mod carrier;
mod delegate;
pub mod script;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wikala_chain::{PublicKey, SigningKey, nonce};

use crate::cli::ProviderArgs;
use crate::client::Client;
use crate::desk::Clock;
use crate::exit::Failure;
use book::{Book, Turn};
use carrier::Ended;
use script::Act;

/// The first wait before coming back; it doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest wait before coming back.
const LONGEST: Duration = Duration::from_secs(10);

/// Did a script drop the link?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severed {
    No,
    Once,
    ForGood,
}

/// The agent and its work.
#[derive(Debug)]
struct Agent {
    url: String,
    key: Arc<SigningKey>,
    names: Vec<String>,
    max_runs: Option<u64>,
    clock: Clock,
    http: Client,
    book: Book,
    witness: OnceLock<PublicKey>,
    severed: watch::Sender<Severed>,
}

/// A running provider. It ends when it is dropped.
#[derive(Debug)]
pub struct Provider {
    task: JoinHandle<Result<(), Failure>>,
    attached: watch::Receiver<u64>,
}

impl Provider {
    /// Starts a provider for the witness at `witness_url`. It attaches in the background.
    #[must_use]
    pub fn start(witness_url: &str, key: Arc<SigningKey>, names: Vec<String>, max_runs: Option<u64>) -> Provider {
        Self::start_at(witness_url, key, names, max_runs, Clock::System)
    }

    /// As [`Provider::start`], with the clock that its signatures go by.
    #[must_use]
    pub fn start_at(
        witness_url: &str,
        key: Arc<SigningKey>,
        names: Vec<String>,
        max_runs: Option<u64>,
        clock: Clock,
    ) -> Provider {
        let agent = Arc::new(Agent {
            url: witness_url.trim_end_matches('/').to_owned(),
            key,
            names,
            max_runs,
            clock,
            http: Client::new(),
            book: Book::default(),
            witness: OnceLock::new(),
            severed: watch::channel(Severed::No).0,
        });
        let (count, attached) = watch::channel(0);
        Provider { task: tokio::spawn(work(agent, count)), attached }
    }

    /// Waits until it is attached and registered for the `n`th time, from 1; false if it
    /// ended before.
    pub async fn attached(&mut self, n: u64) -> bool {
        self.attached.wait_for(|count| *count >= n).await.is_ok()
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// Why it could not go on.
    pub async fn ended(mut self) -> Result<(), Failure> {
        (&mut self.task).await.unwrap_or_else(|error| Err(Failure::environment(format!("provider: {error}"))))
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs until it is told to stop, or its link ends for good.
///
/// # Errors
/// 3: the key or the witness is not as it must be.
pub async fn run(args: ProviderArgs) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&args.key)
        .map_err(|error| Failure::environment(format!("key: {} cannot be read ({error})", args.key.display())))?;
    let key = SigningKey::from_pem(&text)
        .map_err(|error| Failure::environment(format!("key: {}: {error}", args.key.display())))?;
    let own = key.public();
    let mut provider = Provider::start(&args.witness, Arc::new(key), args.names.clone(), args.max_runs);
    if provider.attached(1).await {
        println!("wikala provider {own} serves {} at {}", args.names.join(", "), args.witness);
    }
    let stop = tokio::signal::ctrl_c();
    tokio::select! {
        ended = provider.ended() => ended,
        _ = stop => Ok(()),
    }
}

/// Attaches, and again, until it is for good.
async fn work(agent: Arc<Agent>, attached: watch::Sender<u64>) -> Result<(), Failure> {
    let mut wait = SHORTEST;
    loop {
        let before = *attached.borrow();
        let ended = carrier::link(&agent, || attached.send_modify(|count| *count += 1)).await;
        match ended {
            Ended::ForGood(why) if why.is_empty() => return Ok(()),
            Ended::ForGood(why) => return Err(Failure::environment(why)),
            Ended::Lost(why) => {
                if *attached.borrow() > before {
                    wait = SHORTEST;
                }
                tracing::warn!(why, wait_ms = wait.as_millis() as u64, "link lost, coming back");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST);
            }
        }
    }
}

impl Agent {
    /// The key of the witness: the one seen first.
    fn pin(&self, seen: PublicKey) -> PublicKey {
        *self.witness.get_or_init(|| seen)
    }

    /// Begins a turn, on a task of its own: it goes on while the link is down.
    fn begin(self: &Arc<Self>, run: &str, input: Value) {
        let (agent, turn) = (self.clone(), self.book.begin(run));
        tokio::spawn(async move {
            if agent.play(&turn, &input).await {
                agent.book.finish(&turn);
            }
        });
    }

    /// Plays a script to its end; false: it died on the way, and says nothing any more.
    async fn play(&self, turn: &Turn, input: &Value) -> bool {
        let mut cancel = turn.cancel.clone();
        for act in script::acts(input, &nonce()) {
            match act {
                Act::Say(event) => self.book.say(turn, event),
                Act::Vanish => {
                    let _ = self.severed.send(Severed::Once);
                }
                Act::Die => {
                    let _ = self.severed.send(Severed::ForGood);
                    return false;
                }
                Act::Wait(time) => {
                    tokio::select! {
                        () = tokio::time::sleep(time) => {}
                        _ = cancel.wait_for(|asked| *asked) => {
                            self.stop(turn, input);
                            return true;
                        }
                    }
                }
                Act::Delegate(delegation) => {
                    let Some(witness) = self.witness.get().copied() else { return true };
                    let desk = delegate::Desk {
                        http: &self.http,
                        url: &self.url,
                        witness,
                        key: &self.key,
                        clock: &self.clock,
                    };
                    let said = tokio::select! {
                        said = desk.hand_on(&delegation, input) => said,
                        _ = cancel.wait_for(|asked| *asked) => {
                            self.stop(turn, input);
                            return true;
                        }
                    };
                    match said {
                        Ok(text) => {
                            for act in script::says(&delegation.message, [text]) {
                                if let Act::Say(event) = act {
                                    self.book.say(turn, event);
                                }
                            }
                        }
                        Err(why) => {
                            let message = format!("delegate: {why}");
                            self.book.say(turn, json!({ "type": "RUN_ERROR", "message": message }));
                            return true;
                        }
                    }
                }
            }
        }
        true
    }

    /// A cancel is honoured: the run ends here, in words where the caller knows them.
    fn stop(&self, turn: &Turn, input: &Value) {
        if let Some(event) = script::cancelled(input) {
            self.book.say(turn, event);
        }
    }
}
