//! Acts on the command line: prints the proof as JSON.

use wikala_certs::Proof;
use wikala_chain::{VerifiedChain, is_nonce, json, nonce};

use super::{ActCommand, io};
use crate::exit::Failure;

/// What `POST /v1/runs/{id}/answer` takes (WIRE.md, Answers and cancels).
fn answer_body(answer: &str, asks: &[&str], proof: &Proof) -> String {
    let asks: Vec<String> = asks.iter().map(|ask| json::quote(ask)).collect();
    format!(
        "{{\"answer\":{},\"asks\":[{}],\"form\":\"answer\",\"resolution\":{}}}",
        json::quote(answer),
        asks.join(","),
        proof.to_json()
    )
}

pub(super) fn run(command: ActCommand) -> Result<(), Failure> {
    let proof = match command {
        ActCommand::Resolve { sign, run } => {
            Proof::resolve(&io::key(&sign.key)?, io::run_id(&run)?.as_str(), io::moment(sign.at))
        }
        ActCommand::Cancel { sign, run } => {
            Proof::cancel(&io::key(&sign.key)?, io::run_id(&run)?.as_str(), io::moment(sign.at))
        }
        ActCommand::Answer { sign, run, asks, answer, body } => {
            let run = io::run_id(&run)?;
            let asks: Vec<&str> = asks.iter().map(String::as_str).collect();
            if let Some(twice) = asks.iter().enumerate().find_map(|(at, ask)| asks[..at].contains(ask).then_some(ask)) {
                return Err(Failure::usage(format!("--ask: {twice} stands twice, once for each open item")));
            }
            let proof =
                Proof::answer(&io::key(&sign.key)?, run.as_str(), &asks, answer.as_bytes(), io::moment(sign.at));
            if body {
                return io::say(answer_body(&answer, &asks, &proof));
            }
            proof
        }
        ActCommand::Present { sign, witness, provider, name, chain, nonce: given } => {
            io::one_stdin([Some(&sign.key), chain.as_deref()])?;
            let key = io::key(&sign.key)?;
            let chain = chain.map(|file| io::chain(&file)).transpose()?;
            let given = match given {
                Some(text) if is_nonce(&text) => text,
                Some(_) => return Err(Failure::usage("--nonce: not 32 lower-case hex, leave it out for a random one")),
                None => nonce(),
            };
            let (witness, provider) = (io::public("--witness", &witness)?, io::public("--provider", &provider)?);
            let tip = chain.as_ref().map(VerifiedChain::tip);
            Proof::present(&key, &witness, &provider, &io::name(&name)?, tip, &given, io::moment(sign.at))
        }
    };
    io::say(proof.to_json())
}
