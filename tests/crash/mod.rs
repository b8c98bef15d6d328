//! kill -9 under load: whatever was acknowledged is on record, and nothing was
//! delivered that is not. 10 seeded rounds; `tests/all.sh --soak` makes it 50.

mod owed;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use wikala_certs::{Moment, Proof};
use wikala_chain::{AgentName, PublicKey, SigningKey, VerifiedChain, nonce};
use wikala_doors::client::Client;

use crate::process::{Kept, Served, key_file, ok, wikala};

/// Callers at once.
const CALLERS: usize = 6;

/// What callers were told.
#[derive(Default)]
struct Told {
    /// Runs whose task came back.
    opened: BTreeSet<String>,
    /// Runs told to be completed.
    completed: BTreeSet<String>,
    /// Runs whose answer was accepted.
    answered: BTreeSet<String>,
}

fn rounds() -> u64 {
    if std::env::var_os("WIKALA_SOAK").is_some() { 50 } else { 10 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_delivered_is_missing_after_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("house");
    ok(&["init", "--data", data.to_str().unwrap()]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let (file, provider_key) = key_file(dir.path(), "provider", 0xC9);
    let provider_key = PublicKey::from_hex(&provider_key).unwrap();
    let url = format!("http://{listen}");
    let mut served = Served::on(&data, &listen, &[]);
    let taken = Arc::new(Mutex::new(BTreeSet::new()));
    let _provider = watched_provider(&url, &file, &taken);
    let told = Arc::new(Mutex::new(Told::default()));
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..rounds() {
        online(&url).await;
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let callers: Vec<_> = (0..CALLERS)
            .map(|n| {
                let head = SigningKey::from_seed([u8::try_from(n + 1).unwrap(); 32]);
                tokio::spawn(caller(head, url.clone(), provider_key, told.clone(), stop.clone(), acknowledged.clone()))
            })
            .collect();
        let enough = random.random_range(8..40);
        let wait = async {
            while acknowledged.load(Ordering::SeqCst) < enough {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.expect("the load is served");
        let data = served.kill();
        stop.store(true, Ordering::SeqCst);
        for caller in callers {
            caller.await.unwrap();
        }
        served = Served::on(&data, &listen, &[]);
        online(&url).await;
        check(&url, &told, &taken, round).await;
    }
}

/// Sends, and answers what pauses, until the line breaks.
async fn caller(
    head: SigningKey,
    url: String,
    provider: PublicKey,
    told: Arc<Mutex<Told>>,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
) {
    let http = Client::new();
    let Ok((_, known)) = http.get_json(&format!("{url}/.well-known/wikala.json")).await else { return };
    let witness = PublicKey::from_hex(known["publicKey"].as_str().unwrap()).unwrap();
    let name = AgentName::new("helper").unwrap();
    let door = format!("{url}/a2a/{provider}/helper");
    let mut turn = 0;
    while !stop.load(Ordering::SeqCst) {
        turn += 1;
        let chain = VerifiedChain::start(&head);
        let proof = Proof::present(&head, &witness, &provider, &name, Some(chain.tip()), &nonce(), now());
        let bag = json!({ "actorChain": chain.tokens().collect::<Vec<_>>(), "presenter": parsed(&proof) });
        let text = if turn % 3 == 0 { "ask on" } else { "echo on" };
        let Ok((_, answer)) = http.post_json(&door, &message(text, None, &bag), &[("a2a-version", "1.0")]).await else {
            return;
        };
        let task = &answer["result"]["task"];
        let Some(run) = task["id"].as_str().map(str::to_owned) else { continue };
        {
            let mut told = told.lock().unwrap();
            told.opened.insert(run.clone());
            if task["status"]["state"] == "TASK_STATE_COMPLETED" {
                told.completed.insert(run.clone());
            }
        }
        acknowledged.fetch_add(1, Ordering::SeqCst);
        if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED" {
            let act = json!({ "resolution": parsed(&Proof::resolve(&head, &run, now())) });
            let Ok((_, answer)) =
                http.post_json(&door, &message("yes", Some(&run), &act), &[("a2a-version", "1.0")]).await
            else {
                return;
            };
            if answer.get("result").is_some() {
                told.lock().unwrap().answered.insert(run);
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

async fn check(url: &str, told: &Mutex<Told>, taken: &Mutex<BTreeSet<String>>, round: u64) {
    let http = Client::new();
    let (opened, completed, answered) = {
        let told = told.lock().unwrap();
        (told.opened.clone(), told.completed.clone(), told.answered.clone())
    };
    let delivered = taken.lock().unwrap().clone();
    for run in opened.union(&delivered) {
        let (status, view) = http.get_json(&format!("{url}/v1/runs/{run}")).await.unwrap();
        assert!(status.is_success(), "round {round}: {run} is not on record: {view}");
        if completed.contains(run) {
            assert_eq!(view["status"], "completed", "round {round}: {run} was told completed");
        }
        if answered.contains(run) {
            assert!(view["asks"][0]["answeredBy"].is_string(), "round {round}: {run} was told answered: {view}");
        }
    }
}

fn watched_provider(url: &str, key: &std::path::Path, taken: &Arc<Mutex<BTreeSet<String>>>) -> Kept {
    let mut child = wikala(&["provider", "--witness", url, "--name", "helper", "--key", key.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let taken = taken.clone();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Some(run) = line.strip_prefix("took ").and_then(|rest| rest.split(' ').next()) {
                taken.lock().unwrap().insert(run.to_owned());
            }
        }
    });
    Kept(child)
}

/// Waits until the provider is attached: told by the roster, not by time passing.
async fn online(url: &str) {
    let http = Client::new();
    let wait = async {
        loop {
            if let Ok((_, roster)) = http.get_json(&format!("{url}/agents")).await
                && roster["agents"][0]["online"] == true
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("the provider comes back");
}

fn message(text: &str, task: Option<&str>, metadata: &Value) -> Value {
    let mut message = json!({ "messageId": nonce(), "role": "ROLE_USER", "parts": [{ "text": text }] });
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message, "metadata": metadata } })
}

fn parsed(proof: &Proof) -> Value {
    serde_json::from_str(&proof.to_json()).unwrap()
}

fn now() -> Moment {
    Moment::from_secs(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs())
}
