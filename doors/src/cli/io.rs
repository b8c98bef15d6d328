//! Files and stdin, keys and chains, read once and told about in one sentence.

use std::fmt::Display;
use std::io::{Read, Write};
use std::path::Path;

use wikala_certs::Moment;
use wikala_chain::{AgentName, Chain, PrefixCache, PublicKey, SigningKey, VerifiedChain};
use wikala_witness::RunId;
use zeroize::Zeroizing;

use crate::config;
use crate::exit::Failure;
use crate::link::frames::AGENTS;

/// `-` is standard input.
fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}
/// The largest input read, bytes: a chain of 64 hops of 2 KiB, with room.
const INPUT: u64 = 1024 * 1024;

/// A file's text, or stdin's for `-`.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    // One byte more than is taken: what is longer is told, never cut.
    let result = if is_stdin(file) {
        std::io::stdin().take(INPUT + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(INPUT + 1).read_to_string(&mut text))
    };
    let place = if is_stdin(file) { "stdin".to_owned() } else { file.display().to_string() };
    match result {
        Ok(length) if length as u64 > INPUT => {
            Err(Failure::environment(format!("{place}: more than {INPUT} bytes, nothing that long is read here")))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::environment(format!("{place}: cannot be read ({error})"))),
    }
}

/// Refuses a command that would read stdin twice: the second would find it empty.
pub(super) fn one_stdin(files: [Option<&Path>; 2]) -> Result<(), Failure> {
    if files.iter().all(|file| file.is_some_and(is_stdin)) {
        return Err(Failure::usage("-: stands twice, only one file can come on stdin"));
    }
    Ok(())
}

/// Prints a line to stdout. A reader who hung up (`| head`) is told of as any other
/// file that cannot be written, where `println!` would panic.
pub(crate) fn say(line: impl Display) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        // `| head -1` hung up: it has what it wanted.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        said => said.map_err(|error| Failure::environment(format!("stdout: cannot be written ({error})"))),
    }
}

/// A private key: PKCS#8 PEM v1 or v2; on stdin 64 hex as well.
pub(crate) fn key(file: &Path) -> Result<SigningKey, Failure> {
    let text = Zeroizing::new(read(file)?);
    let trimmed = text.trim();
    let stdin = is_stdin(file);
    let parsed = if stdin && !trimmed.starts_with("-----") {
        SigningKey::from_seed_hex(trimmed)
    } else {
        SigningKey::from_pem(&text)
    };
    parsed.map_err(|error| {
        let place = if stdin { "stdin".into() } else { file.to_string_lossy() };
        Failure::environment(format!("{place}: {error}, make one with `wikala keygen FILE`"))
    })
}

/// A public key argument.
pub(super) fn public(place: &str, text: &str) -> Result<PublicKey, Failure> {
    if is_address(text) {
        // Of the keys asked for only the witness's is found at an address.
        let url = text.trim_end_matches('/');
        let way_out = match place {
            "--witness" => format!("{url}/.well-known/wikala.json names it"),
            _ => "64 lower-case hex as `wikala key show` prints".to_owned(),
        };
        return Err(Failure::usage(format!("{place}: a URL where a key belongs, {way_out}")));
    }
    PublicKey::from_hex(text).map_err(|error| Failure::usage(format!("{place}: {error}, `wikala key show` prints one")))
}

/// A witness's URL argument, without a slash at its end. `--witness` is a key where
/// something is signed for it, and an address where it is called: each names the other.
pub(crate) fn witness_url(text: &str) -> Result<String, Failure> {
    if text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(Failure::usage(
            "--witness: a key where the witness's URL belongs, for instance http://127.0.0.1:7420",
        ));
    }
    config::public_url(text)
        .map_err(|_| Failure::usage(format!("--witness: {text:?} is no URL, write http://HOST:PORT or https://HOST")))
}

fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// An agent's name as a chain may carry it.
pub(super) fn name(text: &str) -> Result<AgentName, Failure> {
    AgentName::new(text).map_err(|error| Failure::usage(format!("--name: {error}")))
}

/// The names of one roster, as a witness registers them: each fits into an address,
/// none stands twice. Told here, a typing error costs no link.
pub(crate) fn roster(names: &[String]) -> Result<Vec<AgentName>, Failure> {
    let fits = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let mut roster: Vec<AgentName> = Vec::with_capacity(names.len());
    for text in names {
        let name = AgentName::new(text).ok().filter(|name| fits(name.as_str())).ok_or_else(|| {
            Failure::usage(format!("--name: {text:?} does not fit into an address, 1 to 128 of A-Z a-z 0-9 _ -"))
        })?;
        if roster.contains(&name) {
            return Err(Failure::usage(format!("--name: {text} stands twice, one agent has one name")));
        }
        roster.push(name);
    }
    if roster.len() > AGENTS {
        return Err(Failure::usage(format!("--name: more than {AGENTS} agents, use another key for the rest")));
    }
    Ok(roster)
}

/// A chain that must verify.
pub(super) fn chain(file: &Path) -> Result<VerifiedChain, Failure> {
    let text = read(file)?;
    let verified = Chain::parse_json(&text)
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

/// A run's id. What is not of the witness's form is a typing error, and would make a
/// signature for no run, or a path to something else.
pub(super) fn run_id(text: &str) -> Result<RunId, Failure> {
    RunId::parse(text).ok_or_else(|| Failure::usage(format!("run: {text:?} is no run id, run_ and 24 hex digits")))
}

/// A second, as a command names it: what a proof may carry (wire.md, Encodings).
pub(super) fn second(text: &str) -> Result<u64, String> {
    wikala_chain::json::integer(text).map_err(|_| "not unix seconds, a whole number expected".to_owned())
}
