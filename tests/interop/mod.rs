//! Real clients and real peers against the real binary: PyPI a2a-sdk, npm
//! @a2a-js/sdk, npm @ag-ui/client, and a provider on the reference's own SDK.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wikala_doors::client::Client;

use crate::process::{Kept, Served, key_file, wikala};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests");

/// A served witness with one scripted provider attached.
struct Scene {
    _dir: tempfile::TempDir,
    served: Served,
    _provider: Kept,
    key: String,
}

fn scene() -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::fresh(dir.path(), &[]);
    let (file, key) = key_file(dir.path(), "provider", 0xC1);
    let provider = provider(&served.url, &file);
    Scene { _dir: dir, served, _provider: provider, key }
}

/// Starts the scripted provider and waits until it is attached.
pub fn provider(url: &str, key: &Path) -> Kept {
    let mut child = wikala(&["provider", "--witness", url, "--name", "helper", "--key", key.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    await_line(child.stdout.take().unwrap(), "attached");
    Kept(child)
}

/// Reads lines until one says so, then keeps the pipe drained.
fn await_line(out: impl std::io::Read + Send + 'static, wanted: &str) {
    let mut lines = BufReader::new(out).lines();
    while let Some(Ok(line)) = lines.next() {
        if line == wanted {
            std::thread::spawn(move || lines.for_each(drop));
            return;
        }
    }
    panic!("never said {wanted:?}");
}

/// The installed clients, or a line that says they are not there.
pub fn installed(what: &str) -> Option<PathBuf> {
    let path = Path::new(ROOT).join(".clients").join(what);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {what} is not installed, run tests/clients/setup.sh");
    None
}

/// Runs a client script to its end; its closing line must count nothing failed.
fn script(program: &Path, script: &Path, scene: &Scene) {
    let output = Command::new(program)
        .arg(script)
        .args([&scene.served.url, &scene.key, "helper"])
        .stdin(Stdio::null())
        .output()
        .expect("the client starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{said}\n{err}", script.display());
    println!("{said}");
}

#[test]
fn the_python_a2a_sdk_sends_streams_gets_lists_cancels_and_answers_with_proofs() {
    let Some(python) = installed("python/bin/python") else { return };
    script(&python, &Path::new(ROOT).join("clients/python/a2a_client.py"), &scene());
}

#[test]
fn the_python_a2a_sdk_is_owed_an_answer_and_sees_it_given_or_still_owed() {
    let Some(python) = installed("python/bin/python") else { return };
    script(&python, &Path::new(ROOT).join("clients/python/a2a_owed.py"), &scene());
}

#[test]
fn the_javascript_a2a_sdk_sends_streams_gets_lists_cancels_and_answers_with_proofs() {
    let Some(node) = installed("node") else { return };
    script(Path::new("node"), &node.join("a2a.mjs"), &scene());
}

#[test]
fn the_ag_ui_client_runs_resumes_and_answers_calls_with_proofs() {
    let Some(node) = installed("node") else { return };
    script(Path::new("node"), &node.join("agui.mjs"), &scene());
}

#[tokio::test]
async fn a_provider_on_the_reference_sdk_serves_runs_unchanged() {
    let Some(python) = installed("reference/bin/python") else { return };
    let dir = tempfile::tempdir().unwrap();
    let served = Served::fresh(dir.path(), &[]);
    let seed = "d7".repeat(32);
    let mut child = Command::new(python)
        .arg(Path::new(ROOT).join("clients/python/funduq_provider.py"))
        .args([&served.url, &seed, "translator"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    await_line(child.stdout.take().unwrap(), "attached");
    let _child = Kept(child);
    let provider = wikala_chain::SigningKey::from_seed([0xD7; 32]).public();
    let http = Client::new();
    let (_, known) = http.get_json(&format!("{}/.well-known/wikala.json", served.url)).await.unwrap();
    let witness = wikala_chain::PublicKey::from_hex(known["publicKey"].as_str().unwrap()).unwrap();
    let head = wikala_chain::SigningKey::from_seed([0xE1; 32]);
    let name = wikala_chain::AgentName::new("translator").unwrap();
    let url = format!("{}/a2a/{provider}/translator", served.url);
    let send = async |text: &str, metadata: Value, task: Option<&str>| {
        let mut message = json!({ "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": text }] });
        if let Some(task) = task {
            message["taskId"] = task.into();
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message, "metadata": metadata } });
        http.post_json(&url, &body, &[("a2a-version", "1.0")]).await.unwrap().1
    };
    let now = || {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        wikala_certs::Moment::from_secs(since.as_secs())
    };
    let bag = || {
        let chain = wikala_chain::VerifiedChain::start(&head);
        let nonce = wikala_chain::nonce();
        let proof = wikala_certs::Proof::present(&head, &witness, &provider, &name, Some(chain.tip()), &nonce, now());
        let proof: Value = serde_json::from_str(&proof.to_json()).unwrap();
        json!({ "actorChain": chain.tokens().collect::<Vec<_>>(), "presenter": proof })
    };
    // Its own verifier reads the chain we delivered: the head, our hop, and to whom.
    let answer = send("hello", bag(), None).await;
    let text = answer["result"]["task"]["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert_eq!(text, format!("hello | head {} hops 2 to translator", head.public()), "{answer}");
    // And a pause is answered through the same gate.
    let asked = send("ask me", bag(), None).await;
    let task = asked["result"]["task"]["id"].as_str().unwrap().to_owned();
    let act: Value = serde_json::from_str(&wikala_certs::Proof::resolve(&head, &task, now()).to_json()).unwrap();
    let answered = send("blue", json!({ "resolution": act }), Some(&task)).await;
    let said = answered["result"]["task"]["artifacts"].to_string();
    assert!(said.contains("you said: blue"), "{answered}");
}
