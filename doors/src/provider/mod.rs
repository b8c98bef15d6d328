//! `wikala provider`: a scripted agent over the real link. It shows what a provider
//! does (prove the key, verify the witness, register, take, speak, finish, come back
//! after a blip and go on) and gives tests and the demo something to talk to.

mod agent;
mod dial;
mod owes;
mod script;

use std::sync::Arc;
use std::time::Duration;

use wikala_chain::{AgentName, SigningKey};

use crate::cli::{ProviderArgs, io};
use crate::client::Client;
use crate::exit::Failure;
use agent::Agent;

/// The first and the longest wait before dialling again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Serves until it is told to die by its script, or refused for good.
///
/// # Errors
/// 1: the witness refuses this key, its proof or its roster, or the key attached again
/// elsewhere. 2: the URL or a name is none. 3: the key file cannot be used, or no witness
/// answers there.
pub async fn run(args: ProviderArgs) -> Result<(), Failure> {
    let witness = io::witness_url(&args.witness)?;
    let names = io::roster(&args.names)?;
    if args.max_runs == Some(0) {
        return Err(Failure::usage("--max-runs: 0 takes nothing, leave it out for no limit"));
    }
    let key = io::key(&args.key)?;
    serve(&witness, Arc::new(key), names, args.max_runs).await
}

/// The same, from within a program.
///
/// # Errors
/// 1: the witness refuses this provider, or is another one than before. 3: no witness
/// answers there.
pub async fn serve(
    witness: &str,
    key: Arc<SigningKey>,
    names: Vec<AgentName>,
    max_runs: Option<u64>,
) -> Result<(), Failure> {
    let agent = Arc::new(Agent::new(witness.trim_end_matches('/'), key, Client::new(), max_runs));
    let mut wait = AGAIN.0;
    loop {
        match dial::attach(&agent, &names).await {
            Ok(()) => wait = AGAIN.0,
            // It was attached: the way there is free.
            Err(dial::Lost::Dropped(why)) => {
                wait = AGAIN.0;
                tracing::warn!(%why, "link lost");
            }
            Err(dial::Lost::ForGood(failure)) => return Err(failure),
            Err(dial::Lost::Broken(why)) => tracing::warn!(%why, "no link"),
        }
        agent.lost();
        if agent.is_dead() {
            return Ok(());
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}
