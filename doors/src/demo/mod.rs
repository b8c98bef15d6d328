//! `wikala demo`: the whole story in one command, told by real clients against a
//! real house with a temporary record and three agents over real links. Every step
//! asserts.

mod cast;
mod guest;
mod owed;
mod rows;
mod story;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use wikala_chain::{AgentName, SigningKey};
use wikala_witness::{AgentId, Policy};

use crate::cli::keys;
use crate::client::Client;
use crate::desk::Clock;
use crate::exit::Failure;
use crate::house::{self, Admission, App, Settings};
use crate::http;
use cast::Cast;
use guest::Guest;
use story::{Story, tell};

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
    key: Arc<SigningKey>,
    child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the demo, until its end or until it is told to stop (SIGINT, SIGTERM): the
/// temporary directory goes either way.
///
/// # Errors
/// 1: a step did not hold, or it was stopped before its end. 3: no temporary directory,
/// port or process to be had.
pub async fn run(options: Options) -> Result<(), Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::environment(format!("signals: {error}")));
    let (mut term, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let dir = Scratch::new()?;
    let told = AtomicBool::new(false);
    tokio::select! {
        done = play(options, &dir, &told) => return done,
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    if told.load(Ordering::SeqCst) { Ok(()) } else { Err(Failure::refused("demo: stopped before its end")) }
}

/// The story, in a house in `dir`. `told`: it came to its end, and all held.
async fn play(options: Options, dir: &Scratch, told: &AtomicBool) -> Result<(), Failure> {
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
        stop_time: std::time::Duration::ZERO,
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
    let guest = |name, key| Guest::new(name, key, witness, &url, http.clone());
    let (head, stranger) = (guest("H", Arc::new(SigningKey::generate())), guest("S", Arc::new(SigningKey::generate())));
    // A signs what it owes; its own process is told nothing of that.
    let provider = guest("A", agents[0].key.clone());
    let ids: Vec<AgentId> = agents.iter().map(|agent| agent.id.clone()).collect();
    let [planner, broker, worker] = ids.as_slice() else {
        return Err(Failure::environment("demo: three agents are started, no more and no less"));
    };
    let agent = |letter, id: &AgentId| (letter, id.provider, format!("an agent, the {}", id.name.as_str()));
    let cast = Cast::new(vec![
        ("W", witness, format!("the witness, at {url}")),
        ("H", head.key.public(), "the head: work begins with it".to_owned()),
        ("S", stranger.key.public(), "a stranger".to_owned()),
        agent("A", planner),
        agent("B", broker),
        agent("C", worker),
    ]);
    if !options.json {
        tell(format!("{}\n\nThe record is in {}.\n", cast.legend(), dir.0.display()));
    }
    let mut story = Story::new(options.json, opened.app.clone(), cast);
    let result = story.tell(&head, &stranger, &provider, planner, broker, worker).await;
    if let Err(broken) = &result {
        story.broken(broken);
    }
    story.close();
    if options.stay && result.is_ok() {
        told.store(true, Ordering::SeqCst);
        stay(options, &opened.app, &url, &dir.0, &head, planner).await?;
        // Until somebody says so: see `run`.
        std::future::pending::<()>().await;
    }
    let _ = opened.close.send(true);
    result.map_err(Failure::refused)
}

fn start(dir: &Path, url: &str, name: &str) -> Result<Agent, Failure> {
    let failed =
        |error: std::io::Error| Failure::environment(format!("demo: agent {name} cannot be started ({error})"));
    let key = SigningKey::generate();
    let file = dir.join(format!("{name}.pem"));
    keys::write(&file, &key)?;
    let child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["provider", "--witness", url, "--name", name, "--key"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let name = AgentName::new(name).map_err(|error| Failure::environment(error.to_string()))?;
    Ok(Agent { id: AgentId { provider: key.public(), name }, key: Arc::new(key), child })
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

/// What can be done in the house: a run that waits for H, H's key to answer it with, and
/// the lines for it.
async fn stay(
    options: Options,
    app: &App,
    url: &str,
    dir: &Path,
    head: &Guest,
    agent: &AgentId,
) -> Result<(), Failure> {
    let key = dir.join("head.pem");
    keys::write(&key, &head.key)?;
    let asked = head.send(agent, "ask which colour", json!({}), head.bag(agent, app.desk.now())).await;
    let task = asked.map_err(Failure::environment)?.task();
    let run = task["id"].as_str().unwrap_or_default();
    let view = head.read(&format!("/v1/runs/{run}")).await.map_err(Failure::environment)?;
    let ask = view["asks"][0]["ids"][0].as_str().unwrap_or_default();
    if options.json {
        tell(json!({ "stays": { "url": url, "data": dir, "key": key, "runId": run, "ask": ask } }));
        return Ok(());
    }
    let base = format!("{url}/a2a/{}/{}", agent.provider, agent.name.as_str());
    let body: Value = json!({
        "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": { "message": { "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "echo hello" }] } },
    });
    // As it was called: the lines below can be pasted.
    let wikala = std::env::args().next().unwrap_or_else(|| "wikala".to_owned());
    let (dir, key) = (dir.display(), key.display());
    tell(format!(
        "
The house stays open until Ctrl-C; then {dir} is removed.

Who is there, and a word with A:
  curl {url}/.well-known/wikala.json
  curl {url}/agents
  curl {base}/.well-known/agent-card.json
  curl {base} -H 'Content-Type: application/json' -H 'A2A-Version: 1.0' -d '{body}'

A run of H's waits for an answer; H's key is {key}:
  {wikala} act answer --key {key} {run} --ask {ask} --answer blue --body |
    curl {url}/v1/runs/{run}/answer -H 'Content-Type: application/json' -d @-
  {wikala} run show {run} --witness {url}
  curl '{url}/v1/runs/{run}/events?after=0'

What the operator sees:
  {wikala} tree --data {dir}
  {wikala} run show {run} --data {dir}"
    ));
    Ok(())
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
        // The desk may still be closing its files: what it makes meanwhile goes the next time.
        for _ in 0..5 {
            if std::fs::remove_dir_all(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
