//! Agents that stand behind HTTP: real SDKs and frameworks where one exists, a server by
//! hand where none would misbehave on purpose.

mod carriers;
mod failures;
mod fake;
mod mutated;
mod neighbours;
mod relay;
mod restarts;
mod translate;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wikala_certs::Consent;
use wikala_chain::{AgentName, SigningKey};
use wikala_doors::upstream;
use wikala_witness::{AgentId, Dialect, NewUpstream, No};

use crate::house::TestHouse;
use crate::process::Kept;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests");

/// An agent in a process of its own.
pub struct Agent {
    _child: Kept,
    pub url: String,
}

/// Python scripts run in their own environment, the others where they are installed.
pub fn program(script: &str) -> Option<(PathBuf, PathBuf)> {
    let clients = Path::new(ROOT).join(".clients");
    let (program, script) = match script.ends_with(".mjs") {
        true if script == "copilot.mjs" => (PathBuf::from("node"), clients.join("copilot").join(script)),
        true => (PathBuf::from("node"), clients.join("node").join(script)),
        false => (clients.join("python/bin/python"), Path::new(ROOT).join("clients/python").join(script)),
    };
    if script.exists() && (program.exists() || program == Path::new("node")) {
        return Some((program, script));
    }
    println!("skipped: {} is not installed, run tests/clients/setup.sh", script.display());
    None
}

impl Agent {
    /// Starts one of `tests/clients`; it says where it listens.
    pub fn start(script: &str, flags: &[&str]) -> Option<Agent> {
        let (program, script) = program(script)?;
        let mut child = Command::new(program)
            .arg(script)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let url = line.trim().to_owned();
        assert!(url.starts_with("http://"), "{line:?}");
        Some(Agent { _child: Kept(child), url })
    }
}

pub fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

/// Adds an agent whose provider consents.
pub async fn add(
    house: &TestHouse,
    provider: &SigningKey,
    name: &str,
    dialect: Dialect,
    url: &str,
) -> Result<AgentId, No> {
    let (witness, name) = (house.app.public_key(), AgentName::new(name).expect("a name"));
    let consent = Consent::sign(provider, &witness, &name, url).verify(&witness, &name, url).expect("signed");
    upstream::add(&house.app, NewUpstream { consent, dialect, custodial: false, headers: None }).await
}

/// Adds an agent and waits until it is attached.
pub async fn added(house: &TestHouse, name: &str, dialect: Dialect, url: &str) -> AgentId {
    let id = add(house, &key(0xA1), name, dialect, url).await.expect("added");
    online(house, &id).await;
    id
}

/// Waits until an agent is attached.
pub async fn online(house: &TestHouse, id: &AgentId) {
    for _ in 0..400 {
        let (agent, now) = (id.clone(), house.app.desk.now());
        if house.app.readers.read(move |reader| reader.agent(&agent, now)).await.expect("known").online {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("never attached");
}
