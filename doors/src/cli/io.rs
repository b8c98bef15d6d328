//! Files and stdin, keys and chains, read once and told about in one sentence.

use std::io::Read;
use std::path::Path;

use wikala_certs::Moment;
use wikala_chain::{AgentName, Chain, PrefixCache, PublicKey, SigningKey, VerifiedChain};

use crate::exit::Failure;

/// The largest input read, bytes: a chain of 64 hops of 2 KiB, with room.
const INPUT: u64 = 1024 * 1024;

/// A file's text, or stdin's for `-`.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let result = if file == Path::new("-") {
        std::io::stdin().take(INPUT).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(INPUT).read_to_string(&mut text))
    };
    match result {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::environment(format!("{}: cannot be read ({error})", file.display()))),
    }
}

/// A private key: PKCS#8 PEM v1 or v2; on stdin 64 hex as well.
pub(super) fn key(file: &Path) -> Result<SigningKey, Failure> {
    let text = zeroize::Zeroizing::new(read(file)?);
    let trimmed = text.trim();
    let parsed = if file == Path::new("-") && !trimmed.starts_with("-----") {
        SigningKey::from_seed_hex(trimmed)
    } else {
        SigningKey::from_pem(&text)
    };
    parsed.map_err(|error| {
        Failure::environment(format!("{}: {error}, make one with `wikala keygen FILE`", file.display()))
    })
}

/// A public key argument.
pub(super) fn public(place: &str, text: &str) -> Result<PublicKey, Failure> {
    PublicKey::from_hex(text)
        .map_err(|error| Failure::usage(format!("{place}: {error}, 64 lower-case hex as `wikala key show` prints")))
}

/// An agent's name.
pub(super) fn name(text: &str) -> Result<AgentName, Failure> {
    AgentName::new(text).map_err(|error| Failure::usage(format!("--name: {error}")))
}

/// A chain that must verify.
pub(super) fn chain(file: &Path) -> Result<VerifiedChain, Failure> {
    let text = read(file)?;
    let verified = Chain::parse_json(text.trim())
        .and_then(|chain| chain.map(|chain| chain.verify(&PrefixCache::disabled())).transpose());
    match verified {
        Ok(Some(chain)) => Ok(chain),
        Ok(None) => Err(Failure::refused("chain: null is no chain, begin one with `wikala chain new`")),
        Err(error) => Err(Failure::refused(format!("{}: {error}", error.code()))),
    }
}

/// The moment given, or now.
pub(super) fn moment(at: Option<u64>) -> Moment {
    #[allow(clippy::disallowed_methods)] // a command has no desk to ask
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Moment::from_secs(at.unwrap_or_else(now))
}
