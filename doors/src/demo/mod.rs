//! `wikala demo`: the whole story in one command, told by real clients against a
//! real house with a temporary record and three agents over real links. Every step
//! asserts.

mod guest;
mod story;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wikala_chain::{AgentName, SigningKey};
use wikala_witness::{AgentId, Policy};

use crate::client::Client;
use crate::desk::Clock;
use crate::exit::Failure;
use crate::house::{self, Admission, App, Settings};
use crate::http;
use guest::Guest;
use story::Story;

/// What `wikala demo` is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// One JSON object a step.
    pub json: bool,
    /// Keep the house open afterwards.
    pub stay: bool,
}

/// How long an agent may take to show up on the roster.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent in a process of its own; ends with the demo, by its own handle.
struct Agent {
    id: AgentId,
    child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the demo.
///
/// # Errors
/// 1: a step did not hold. 3: no temporary directory, port or process to be had.
pub async fn run(options: Options) -> Result<(), Failure> {
    let dir = Scratch::new()?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .map_err(|error| Failure::environment(format!("demo: no free port ({error})")))?;
    let address = listener.local_addr().map_err(|error| Failure::environment(format!("demo: {error}")))?;
    let url = format!("http://{address}");
    let settings = Settings {
        public_url: url.clone(),
        policy: Policy::default(),
        admission: Admission::Open,
        keep_alive: Duration::from_secs(15),
        ping: crate::link::PING,
        body_time: crate::door::BODY_TIME,
        write_time: crate::http::WRITE_TIME,
        gateway: None,
        behind_proxy: false,
    };
    let opened = house::open(&dir.0.join("wikala.db"), Arc::new(SigningKey::generate()), settings, Clock::System)
        .map_err(|fault| Failure::environment(fault.to_string()))?;
    tokio::spawn(opened.app.desk.clone().keep_time());
    tokio::spawn(http::serve(opened.app.clone(), listener, opened.close.subscribe(), Duration::from_secs(2)));

    let mut agents = Vec::new();
    for name in ["planner", "broker", "worker"] {
        agents.push(start(&dir.0, &url, name)?);
    }
    let http = Client::new();
    online(&http, &url, agents.len()).await?;
    let witness = opened.app.public_key();
    let guest = |name| Guest::new(name, SigningKey::generate(), witness, &url, http.clone());
    let (head, stranger) = (guest("H"), guest("S"));
    let mut story = Story::new(options.json, opened.app.clone());
    if !options.json {
        println!("witness {} at {url}, record in {}\n", witness.fingerprint(), dir.0.display());
    }
    let ids: Vec<AgentId> = agents.iter().map(|agent| agent.id.clone()).collect();
    let told = match ids.as_slice() {
        [planner, broker, worker] => story.tell(&head, &stranger, planner, broker, worker).await,
        _ => Err("demo: three agents were started".to_owned()),
    };
    if let Err(broken) = &told {
        story.broken(broken);
    }
    story.close();
    if options.stay && told.is_ok() {
        stay(&opened.app, &url, &ids).await;
    }
    let _ = opened.close.send(true);
    told.map_err(Failure::refused)
}

fn start(dir: &Path, url: &str, name: &str) -> Result<Agent, Failure> {
    let failed =
        |error: std::io::Error| Failure::environment(format!("demo: agent {name} cannot be started ({error})"));
    let key = SigningKey::generate();
    let file = dir.join(format!("{name}.pem"));
    std::fs::write(&file, key.to_pem().as_bytes()).map_err(failed)?;
    let child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["provider", "--witness", url, "--name", name, "--key"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let name = AgentName::new(name).map_err(|error| Failure::environment(error.to_string()))?;
    Ok(Agent { id: AgentId { provider: key.public(), name }, child })
}

async fn online(http: &Client, url: &str, wanted: usize) -> Result<(), Failure> {
    let all = async {
        loop {
            if let Ok((_, roster)) = http.get_json(&format!("{url}/agents")).await {
                let agents = roster["agents"].as_array().cloned().unwrap_or_default();
                if agents.iter().filter(|agent| agent["online"] == true).count() >= wanted {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.map_err(|_| {
        Failure::environment("demo: the agents did not come online, run `wikala provider` by hand to see why")
    })
}

async fn stay(app: &App, url: &str, agents: &[AgentId]) {
    println!(
        "\nthe house stays open; stop it with Ctrl-C\n\n  curl {url}/.well-known/wikala.json\n  curl {url}/agents"
    );
    if let Some(agent) = agents.first() {
        let base = format!("{url}/a2a/{}/{}", agent.provider, agent.name.as_str());
        let body: Value = json!({
            "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
            "params": { "message": { "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "echo hello" }] } },
        });
        println!("  curl {base}/.well-known/agent-card.json");
        println!("  curl {base} -H 'Content-Type: application/json' -H 'A2A-Version: 1.0' -d '{body}'");
    }
    let _ = tokio::signal::ctrl_c().await;
    tracing::info!(witness = %app.public_key().fingerprint(), "demo closed");
}

/// A temporary directory, removed with everything in it when the demo ends.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("wikala-demo-{}", wikala_chain::nonce()));
        // Keys lie in it: nobody else's to read, and never somebody else's directory.
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::environment(format!("demo: {} cannot be made ({error})", path.display())))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
