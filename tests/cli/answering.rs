//! A head at its terminal: what `wikala act` prints is what a witness takes, in every
//! shape that WIRE.md names for our own route.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use wikala_doors::client::Client;

use super::text;
use crate::process::{Kept, Served, key_file, ok, wikala};

/// A served witness, an agent that is there, a head with its key.
struct Scene {
    served: Served,
    http: Client,
    provider: String,
    head: String,
    chain: String,
    witness: String,
    agent: Kept,
}

impl Scene {
    async fn set(dir: &Path) -> Scene {
        let served = Served::fresh(dir, &[]);
        let ((agent, provider), (head, _)) = (key_file(dir, "p", 5), key_file(dir, "h", 1));
        let args = ["provider", "--witness", &served.url, "--key", text(&agent), "--name", "a"];
        let child = wikala(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        let http = Client::new();
        let chain = dir.join("chain.json");
        std::fs::write(&chain, ok(&["chain", "new", "--key", text(&head)])).unwrap();
        let (_, known) = http.get_json(&format!("{}/.well-known/wikala.json", served.url)).await.unwrap();
        let witness = known["publicKey"].as_str().unwrap().to_owned();
        let (head, chain) = (text(&head).to_owned(), text(&chain).to_owned());
        let scene = Scene { served, http, provider, head, chain, witness, agent: Kept(child) };
        for _ in 0..500 {
            let (_, roster) = scene.http.get_json(&format!("{}/agents", scene.served.url)).await.unwrap();
            if roster["agents"][0]["online"] == true {
                return scene;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("the agent never came");
    }

    /// Says something as the head; the run, and what it asks.
    async fn ask(&self, words: &str) -> (String, Vec<String>) {
        let present = ["act", "present", "--key", &self.head, "--witness", &self.witness, "--provider", &self.provider];
        let proof = ok(&[&present[..], &["--name", "a", "--chain", &self.chain]].concat());
        let chain: Value = serde_json::from_str(&std::fs::read_to_string(&self.chain).unwrap()).unwrap();
        let message = json!({ "messageId": words, "role": "ROLE_USER", "parts": [{ "text": words }] });
        let bag = json!({ "actorChain": chain, "presenter": serde_json::from_str::<Value>(&proof).unwrap() });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
            "params": { "message": message, "metadata": bag } });
        let url = format!("{}/a2a/{}/a", self.served.url, self.provider);
        let (_, answer) = self.http.post_json(&url, &body, &[("a2a-version", "1.0")]).await.unwrap();
        let run = answer["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        let (_, view) = self.http.get_json(&format!("{}/v1/runs/{run}", self.served.url)).await.unwrap();
        let ids = view["asks"][0]["ids"].as_array().unwrap_or_else(|| panic!("{view}"));
        (run, ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect())
    }

    /// Answers with `act answer --body`; the code of a refusal, or nothing.
    async fn answer(&self, run: &str, asks: &[String], words: &str) -> String {
        let mut args = vec!["act", "answer", "--key", &self.head, run, "--body", "--answer", words];
        args.extend(asks.iter().flat_map(|ask| ["--ask", ask]));
        let body: Value = serde_json::from_str(&ok(&args)).unwrap();
        let url = format!("{}/v1/runs/{run}/answer", self.served.url);
        let (_, answer) = self.http.post_json(&url, &body, &[]).await.unwrap();
        answer["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// What the agent said in the end.
    async fn heard(&self, run: &str) -> String {
        let url = format!("{}/v1/runs/{run}/events", self.served.url);
        let mut events = self.http.events(axum::http::Method::GET, &url, None, &[], None).await.unwrap();
        let mut heard = String::new();
        while let Some(event) = events.next().await.unwrap() {
            let event: Value = serde_json::from_str(&event.data).unwrap();
            heard.push_str(event["delta"].as_str().unwrap_or_default());
        }
        heard
    }
}

#[tokio::test]
async fn what_a_head_signs_is_what_its_agent_hears() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::set(dir.path()).await;
    for (words, heard) in [
        ("large", "large"),
        ("42", "42"),
        ("{\"ok\" : true}", "{\"ok\":true}"),
        ("\"{}\"", "{}"),
        ("{no json", "{no json"),
        ("", ""),
    ] {
        let (run, asks) = scene.ask("ask which size").await;
        assert_eq!(scene.answer(&run, &asks, words).await, "", "{words:?}");
        assert_eq!(scene.heard(&run).await, format!("you said: {heard}"), "{words:?}");
    }
}

#[tokio::test]
async fn several_asks_are_answered_together_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::set(dir.path()).await;
    let (run, asks) = scene.ask("two").await;
    let both = json!({ &asks[0]: "yes", &asks[1]: 42 }).to_string();
    let stranger = [asks[0].clone(), "q9".to_owned()];
    for (ids, words, code) in [
        (&asks[..1], "yes", "answer-incomplete"),
        (&asks[..], "yes", "answer-incomplete"),
        (&asks[..], &json!({ &asks[0]: "yes" }).to_string(), "answer-incomplete"),
        (&stranger[..], &json!({ &asks[0]: "yes", "q9": 1 }).to_string(), "answer-unknown-ask"),
    ] {
        assert_eq!(scene.answer(&run, ids, words).await, code, "{ids:?} {words}");
    }
    assert_eq!(scene.answer(&run, &asks, &both).await, "");
    assert_eq!(scene.heard(&run).await, "you said: yes and 42");

    let (run, asks) = scene.ask("two").await;
    let entries = json!([
        { "interruptId": asks[1], "status": "cancelled" },
        { "interruptId": asks[0], "status": "resolved", "payload": "yes" },
    ]);
    assert_eq!(scene.answer(&run, &asks, &entries.to_string()).await, "");
    let heard = scene.heard(&run).await;
    assert!(heard.contains("yes") && heard.contains("nothing"), "{heard}");
}

/// README, Operating it: the record by `.backup` while it serves or copied while it does
/// not, the key once; restored they are the same house.
#[tokio::test]
async fn a_backup_restored_is_the_same_house() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::set(dir.path()).await;
    let (run, asks) = scene.ask("ask which size").await;
    let shown = |data: &Path| ok(&["run", "show", &run, "--data", text(data)]);
    let (served, before) = (scene.served.data.clone(), shown(&scene.served.data));
    let restored = |name: &str, copy: &dyn Fn(&Path)| {
        let data = dir.path().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&data).unwrap();
        std::fs::copy(served.join("witness.pem"), data.join("witness.pem")).unwrap();
        copy(&data);
        data
    };
    let mut houses = Vec::new();
    if super::other("sqlite3").is_some() {
        houses.push(restored("online", &|data| {
            let to = format!(".backup '{}'", text(&data.join("wikala.db")));
            assert!(sqlite3_of(&served, &to), "{to}");
        }));
    }
    let Scene { served: house, agent, head, .. } = scene;
    drop(agent);
    house.kill();
    houses.push(restored("copied", &|data| {
        for file in ["wikala.db", "wikala.db-wal", "wikala.db-shm"] {
            let _ = std::fs::copy(served.join(file), data.join(file));
        }
    }));
    for data in houses {
        assert_eq!(shown(&data), before, "{}", data.display());
        let again = Served::on(&data, "127.0.0.1:0", &[]);
        let answer = ok(&["act", "answer", "--key", &head, &run, "--ask", &asks[0], "--answer", "x", "--body"]);
        let (_, said) = Client::new()
            .post_json(&format!("{}/v1/runs/{run}/answer", again.url), &serde_json::from_str(&answer).unwrap(), &[])
            .await
            .unwrap();
        // The head is still an authority there, and its agent within the grace.
        assert_eq!(said["replayed"], false, "{said}");
    }
}

fn sqlite3_of(data: &Path, command: &str) -> bool {
    let file = data.join("wikala.db");
    std::process::Command::new("sqlite3").args([text(&file), command]).status().is_ok_and(|status| status.success())
}
