//! Chains on the command line.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use wikala_chain::{Chain, ChainError, Hop, PrefixCache, PublicKey, Target, VerifiedChain};

use super::{ChainCommand, io};
use crate::exit::Failure;

pub(super) fn run(command: ChainCommand) -> Result<(), Failure> {
    let refused = |error: ChainError| Failure::refused(format!("{}: {error}", error.code()));
    match command {
        ChainCommand::New { key } => print(&VerifiedChain::start(&io::key(&key)?)),
        ChainCommand::Extend { key, file } => {
            io::one_stdin([Some(&key), Some(&file)])?;
            let key = io::key(&key)?;
            print(&io::chain(&file)?.extend(&key).map_err(refused)?)
        }
        ChainCommand::Dispatch { key, provider, name, file } => {
            io::one_stdin([Some(&key), Some(&file)])?;
            let key = io::key(&key)?;
            let target = Target { provider: io::public("--provider", &provider)?, name: io::name(&name)? };
            print(&io::chain(&file)?.dispatch(&key, target).map_err(refused)?)
        }
        ChainCommand::Verify { file, json, witness } => verify(&file, json, witness.as_deref()),
        ChainCommand::Show { file } => show(&file),
    }
}

fn print(chain: &VerifiedChain) -> Result<(), Failure> {
    io::say(chain.to_json())
}

fn hop_words(hop: &Hop) -> Value {
    let mut words = json!({ "actor": hop.actor().to_hex(), "fingerprint": hop.actor().fingerprint().to_string() });
    if let Some(target) = hop.dispatched_to() {
        words["dispatchedTo"] = json!({ "providerKey": target.provider.to_hex(), "name": target.name.as_str() });
    }
    words
}

/// A negative verdict, in the words of `--json`.
struct Verdict {
    code: &'static str,
    hop: Option<usize>,
    message: String,
}

impl From<ChainError> for Verdict {
    fn from(error: ChainError) -> Self {
        Verdict { code: error.code(), hop: error.hop(), message: error.to_string() }
    }
}

impl Verdict {
    fn failure(&self) -> Failure {
        Failure::refused(format!("{}: {}", self.code, self.message))
    }
}

fn read(text: &str) -> Result<VerifiedChain, Verdict> {
    let null = || Verdict {
        code: "chain-not-a-list",
        hop: None,
        message: "chain: null, a JSON array of tokens expected".to_owned(),
    };
    Ok(Chain::parse_json(text)?.ok_or_else(null)?.verify(&PrefixCache::disabled())?)
}

/// The dispatches this witness signed: where it sent the work. A dispatch proves
/// something only to a reader who pins the witness's key, anybody can sign one.
fn sent_by(chain: &VerifiedChain, witness: PublicKey) -> Result<Vec<(usize, &Target)>, Verdict> {
    let sent: Vec<_> = (chain.hops().iter().enumerate())
        .filter(|(_, hop)| hop.actor() == witness)
        .filter_map(|(number, hop)| Some((number, hop.dispatched_to()?)))
        .collect();
    if sent.is_empty() {
        let message = format!("chain: no dispatch signed by {}, this witness did not send it", witness.fingerprint());
        return Err(Verdict { code: "witness-not-in-chain", hop: None, message });
    }
    Ok(sent)
}

fn verify(file: &Path, as_json: bool, witness: Option<&str>) -> Result<(), Failure> {
    let witness = witness.map(|text| io::public("--witness", text)).transpose()?;
    let text = io::read(file)?;
    let verdict = read(&text).and_then(|chain| {
        let mut words = json!({
            "ok": true,
            "head": chain.head().0.to_hex(),
            "presenter": chain.presenter().0.to_hex(),
            "hops": chain.hops().iter().map(hop_words).collect::<Vec<_>>(),
        });
        let mut lines = hop_lines(&chain);
        if let Some(witness) = witness {
            let sent = sent_by(&chain, witness)?;
            words["dispatched"] = sent.iter().map(|(hop, target)| {
                json!({ "hop": hop, "providerKey": target.provider.to_hex(), "name": target.name.as_str() })
            }).collect();
            for (hop, target) in sent {
                lines.push_str(&format!("\n{} sent it to {} (hop {hop})", witness.fingerprint(), agent_words(target)));
            }
        }
        Ok((words, lines))
    });
    match verdict {
        Ok((words, _)) if as_json => io::say(words),
        Ok((_, lines)) => io::say(lines),
        Err(no) if as_json => {
            io::say(json!({ "ok": false, "code": no.code, "hop": no.hop, "message": no.message }))?;
            // The verdict is on stdout; the exit code says the same.
            Err(Failure::refused(""))
        }
        Err(no) => Err(no.failure()),
    }
}

fn agent_words(target: &Target) -> String {
    // A name may hold any script, quoted so that it cannot pass for a line of ours.
    format!("{}/{:?}", target.provider, target.name.as_str())
}

fn hop_lines(chain: &VerifiedChain) -> String {
    let mut lines = format!("head {}  presenter {}", chain.head().0.fingerprint(), chain.presenter().0.fingerprint());
    for (number, hop) in chain.hops().iter().enumerate() {
        lines.push_str(&format!("\n{number:>3}  {}", hop.actor()));
        if let Some(target) = hop.dispatched_to() {
            lines.push_str(&format!("  dispatched to {}", agent_words(target)));
        }
    }
    lines
}

/// Every hop: the longest prefix that verifies, the verdict at the first that does not,
/// and from there on what the hops merely claim.
fn show(file: &Path) -> Result<(), Failure> {
    let text = io::read(file)?;
    let no = match read(&text) {
        Ok(chain) => return io::say(hop_lines(&chain)),
        Err(no) => no,
    };
    // A list that is none has no hops either; the verdict below says so.
    let tokens: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    let first = no.hop.unwrap_or(0);
    let before = tokens.iter().take(first).map_while(|token| Some(token.as_str()?.to_owned())).collect();
    if let Ok(chain) = Chain::parse(before).and_then(|prefix| prefix.verify(&PrefixCache::disabled())) {
        io::say(hop_lines(&chain))?;
    }
    for (number, token) in tokens.iter().enumerate().skip(first) {
        let verdict = if number == first && no.hop.is_some() { no.code } else { "not checked" };
        io::say(format!("{number:>3}  {verdict}: {}", claims(token)))?;
    }
    Err(no.failure())
}

/// What a hop says of itself, nothing of it proved. Quoted where it could pass for a
/// line of ours.
fn claims(token: &Value) -> String {
    let payload = token.as_str().and_then(|token| token.split('.').nth(1));
    let bytes = payload.and_then(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok());
    let Some(claims) = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) else {
        return "no readable claims".to_owned();
    };
    let quoted = |value: &Value| format!("{:?}", value.as_str().unwrap_or("?"));
    let mut words = format!("claims {}", quoted(&claims["actorPublicKey"]));
    if let Some(target) = claims.get("dispatchedTo") {
        words.push_str(&format!(" dispatched to {}/{}", quoted(&target["providerKey"]), quoted(&target["name"])));
    }
    words
}
