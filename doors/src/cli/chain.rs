//! Chains on the command line.

use std::path::Path;

use serde_json::{Value, json};
use wikala_chain::{Chain, ChainError, Hop, PrefixCache, PublicKey, Target, VerifiedChain};

use super::{ChainCommand, io};
use crate::exit::Failure;

pub(super) fn run(command: ChainCommand) -> Result<(), Failure> {
    let refused = |error: ChainError| Failure::refused(format!("{}: {error}", error.code()));
    match command {
        ChainCommand::New { key } => print(&VerifiedChain::start(&io::key(&key)?)),
        ChainCommand::Extend { key, file } => {
            let key = io::key(&key)?;
            print(&io::chain(&file)?.extend(&key).map_err(refused)?);
        }
        ChainCommand::Dispatch { key, provider, name, file } => {
            let key = io::key(&key)?;
            let target = Target { provider: io::public("--provider", &provider)?, name: io::name(&name)? };
            print(&io::chain(&file)?.dispatch(&key, target).map_err(refused)?);
        }
        ChainCommand::Verify { file, json, witness } => return verify(&file, json, witness.as_deref()),
        ChainCommand::Show { file } => return show(&file),
    }
    Ok(())
}

fn print(chain: &VerifiedChain) {
    println!("{}", chain.to_json());
}

fn hop_words(hop: &Hop) -> Value {
    let mut words = json!({ "actor": hop.actor().to_hex(), "fingerprint": hop.actor().fingerprint().to_string() });
    if let Some(target) = hop.dispatched_to() {
        words["dispatchedTo"] = json!({ "providerKey": target.provider.to_hex(), "name": target.name.as_str() });
    }
    words
}

/// What a reader wants to know: does it hold, and did the witness it pins send it.
fn verdict(text: &str, witness: Option<PublicKey>) -> Result<VerifiedChain, Value> {
    let no = |error: ChainError| json!({ "ok": false, "code": error.code(), "hop": error.hop(), "message": error.to_string() });
    let chain = match Chain::parse_json(text.trim()) {
        Ok(Some(chain)) => chain.verify(&PrefixCache::disabled()).map_err(no)?,
        Ok(None) => {
            return Err(
                json!({ "ok": false, "code": "chain-not-a-list", "hop": null, "message": "chain: null, send a JSON array of tokens" }),
            );
        }
        Err(error) => return Err(no(error)),
    };
    if let Some(witness) = witness
        && !chain.hops().iter().any(|hop| hop.actor() == witness && hop.dispatched_to().is_some())
    {
        let message = format!("chain: no dispatch signed by {}, this witness did not send it", witness.fingerprint());
        return Err(json!({ "ok": false, "code": "witness-not-in-chain", "hop": null, "message": message }));
    }
    Ok(chain)
}

fn verify(file: &Path, as_json: bool, witness: Option<&str>) -> Result<(), Failure> {
    let witness = witness.map(|text| io::public("--witness", text)).transpose()?;
    match (verdict(&io::read(file)?, witness), as_json) {
        (Ok(chain), true) => {
            println!(
                "{}",
                json!({
                    "ok": true,
                    "head": chain.head().0.to_hex(),
                    "presenter": chain.presenter().0.to_hex(),
                    "hops": chain.hops().iter().map(hop_words).collect::<Vec<_>>(),
                })
            );
            Ok(())
        }
        (Ok(chain), false) => {
            print_hops(&chain);
            Ok(())
        }
        (Err(no), true) => {
            println!("{no}");
            // The verdict is on stdout; the exit code says the same.
            Err(Failure::refused(""))
        }
        (Err(no), false) => Err(Failure::refused(format!(
            "{}: {}",
            no["code"].as_str().unwrap_or(""),
            no["message"].as_str().unwrap_or("")
        ))),
    }
}

fn print_hops(chain: &VerifiedChain) {
    println!("head {}  presenter {}", chain.head().0.fingerprint(), chain.presenter().0.fingerprint());
    for (number, hop) in chain.hops().iter().enumerate() {
        match hop.dispatched_to() {
            None => println!("{number:>3}  {}", hop.actor()),
            Some(target) => {
                println!("{number:>3}  {}  dispatched to {}/{}", hop.actor(), target.provider, target.name.as_str())
            }
        }
    }
}

/// The longest prefix that verifies, then what is wrong after it.
fn show(file: &Path) -> Result<(), Failure> {
    let text = io::read(file)?;
    match verdict(&text, None) {
        Ok(chain) => {
            print_hops(&chain);
            Ok(())
        }
        Err(no) => {
            let tokens: Vec<String> = serde_json::from_str(text.trim()).unwrap_or_default();
            if let Some(hop) = no["hop"].as_u64()
                && let Ok(prefix) = Chain::parse(tokens.into_iter().take(usize::try_from(hop).unwrap_or(0)).collect())
                && let Ok(prefix) = prefix.verify(&PrefixCache::disabled())
            {
                print_hops(&prefix);
            }
            Err(Failure::refused(format!(
                "{}: {}",
                no["code"].as_str().unwrap_or(""),
                no["message"].as_str().unwrap_or("")
            )))
        }
    }
}
