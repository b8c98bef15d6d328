//! `wikala provider`: a scripted agent over the real link. It shows what a provider
//! does (prove the key, verify the witness, register, take, speak, finish, come back
//! after a blip and go on) and gives tests and the demo something to talk to.

mod agent;
mod dial;
mod script;

use std::sync::Arc;
use std::time::Duration;

use wikala_chain::{AgentName, SigningKey};

use crate::cli::ProviderArgs;
use crate::client::Client;
use crate::exit::Failure;
use agent::Agent;

/// The first and the longest wait before dialling again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Serves until it is told to die by its script, or refused for good.
///
/// # Errors
/// 3: the key file or the names cannot be used. 1: the witness refuses this key.
pub async fn run(args: ProviderArgs) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&args.key).map_err(|error| {
        Failure::environment(format!(
            "key: {} cannot be read ({error}), make one with `wikala keygen`",
            args.key.display()
        ))
    })?;
    let key = SigningKey::from_pem(&text)
        .map_err(|error| Failure::environment(format!("key: {}: {error}", args.key.display())))?;
    let mut names = Vec::new();
    for name in &args.names {
        names.push(AgentName::new(name).map_err(|error| Failure::usage(format!("--name: {error}")))?);
    }
    serve(&args.witness, Arc::new(key), names, args.max_runs).await
}

/// The same, from within a program.
///
/// # Errors
/// 1: the witness refuses this key, or is another one than before.
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
            Err(dial::Lost::Refused(why)) => return Err(Failure::refused(why)),
            Err(dial::Lost::Broken(why)) => tracing::warn!(%why, "link lost"),
        }
        agent.lost();
        if agent.is_dead() {
            return Ok(());
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}
