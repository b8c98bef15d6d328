//! Killed in the middle: live tasks are taken up again, and an answer in flight reaches its
//! agent once. The real binary, kill -9, an agent by hand.

use serde_json::{Value, json};
use wikala_doors::client::Client;

use super::fake::{Fake, Say, frame, status, task, whole};
use crate::process::{Served, key_file, ok};

struct Scene {
    dir: tempfile::TempDir,
    served: Served,
    fake: Fake,
    provider: String,
}

impl Scene {
    async fn open() -> Scene {
        let dir = tempfile::tempdir().expect("a directory");
        let fake = Fake::open().await;
        let (path, url) = (dir.path().to_owned(), fake.url.clone());
        // The commands block, and the agent they look at is served by this thread.
        let (served, provider) = tokio::task::spawn_blocking(move || {
            let served = Served::fresh(&path, &[]);
            let (file, provider) = key_file(&path, "provider", 0xC1);
            let data = served.data.to_str().expect("utf-8");
            let file = file.to_str().expect("utf-8");
            ok(&["agent", "add", "--data", data, "--name", "far", "--a2a", &url, "--provider-key-file", file]);
            (served, provider)
        })
        .await
        .expect("added");
        let scene = Scene { dir, served, fake, provider };
        scene.online().await;
        scene
    }

    async fn online(&self) {
        for _ in 0..500 {
            let (_, roster) = Client::new().get_json(&format!("{}/agents", self.served.url)).await.expect("a roster");
            let live = tokio::net::TcpStream::connect(self.served.url.trim_start_matches("http://")).await.is_ok();
            if live && roster["agents"][0]["online"] == true {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("never attached");
    }

    /// kill -9, and up again on the same directory.
    async fn again(self) -> Scene {
        let Scene { dir, served, fake, provider } = self;
        let served = tokio::task::spawn_blocking(move || {
            let data = served.kill();
            Served::on(&data, "127.0.0.1:0", &[])
        })
        .await
        .expect("served");
        Scene { dir, served, fake, provider }
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        let url = format!("{}/a2a/{}/far", self.served.url, self.provider);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Client::new().post_json(&url, &body, &[("a2a-version", "1.0")]).await.expect("an answer").1["result"].clone()
    }

    async fn until(&self, run: &str, state: &str) -> Value {
        for _ in 0..1000 {
            let task = self.call("GetTask", json!({ "id": run })).await;
            // The agent's own word, not what we say before it has spoken: that one has a name by then.
            let its_own = task["status"]["timestamp"] == "2026-01-01T00:00:00Z";
            if its_own && task["status"]["state"] == format!("TASK_STATE_{state}") {
                return task;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("never {state}: {}", self.call("GetTask", json!({ "id": run })).await);
    }

    async fn sent(&self, words: &str, times: usize) {
        for _ in 0..1000 {
            if self.fake.sent(words).len() == times {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{words} was sent {} times, not {times}", self.fake.sent(words).len());
    }
}

fn message(id: &str, task: Option<&Value>) -> Value {
    let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": id }] });
    if let Some(task) = task {
        message["taskId"] = task.clone();
    }
    json!({ "message": message, "configuration": { "returnImmediately": true } })
}

fn asking() -> Value {
    let mut asking = task("INPUT_REQUIRED");
    asking["status"]["message"] = json!({ "messageId": "q", "role": "ROLE_AGENT", "parts": [{ "text": "which?" }] });
    asking
}

#[tokio::test]
async fn a_task_that_ran_when_we_were_killed_is_subscribed_and_not_sent_again() {
    let scene = Scene::open().await;
    scene.fake.say("\"open\"", Say::Hang(vec![frame(json!({ "task": task("WORKING") }))]));
    let run = scene.call("SendMessage", message("open", None)).await["task"]["id"].as_str().expect("an id").to_owned();
    scene.until(&run, "WORKING").await;
    scene.fake.say(
        "SubscribeToTask",
        Say::Stream(vec![frame(json!({ "task": task("WORKING") })), frame(status("COMPLETED"))]),
    );
    let scene = scene.again().await;
    scene.until(&run, "COMPLETED").await;
    assert_eq!(scene.fake.sent("\"open\"").len(), 1);
    assert!(scene.dir.path().exists());
}

/// Three ways an answer in flight may have gone, and one road back.
#[tokio::test]
async fn an_answer_in_flight_is_sent_again_only_if_the_agent_still_waits_on_that_question() {
    for (arrived, shown) in [(false, false), (true, false), (true, true)] {
        let scene = Scene::open().await;
        scene.fake.say("\"open\"", Say::Stream(vec![frame(json!({ "task": asking() }))]));
        let opened = scene.call("SendMessage", message("open", None)).await["task"]["id"].clone();
        let run = opened.as_str().expect("an id").to_owned();
        scene.until(&run, "INPUT_REQUIRED").await;
        // It is sent, and nothing comes back before we are gone.
        scene.fake.say("\"answer\"", Say::Hang(Vec::new()));
        scene.call("SendMessage", message("answer", Some(&opened))).await;
        scene.sent("\"answer\"", 1).await;
        // A gateway that cannot yet says nothing either way.
        scene.fake.say("GetTask", Say::Whole(503, "text/plain", String::new()));
        if arrived {
            // It shows that it went on, or that it has the answer and is about to.
            let mut now = if shown { asking() } else { task("WORKING") };
            if shown {
                now["history"] = json!([now["status"]["message"], { "messageId": "answer", "role": "ROLE_USER" }]);
            }
            scene.fake.say("GetTask", whole(now));
            scene.fake.say(
                "SubscribeToTask",
                Say::Stream(vec![frame(json!({ "task": task("WORKING") })), frame(status("COMPLETED"))]),
            );
        } else {
            scene.fake.say("GetTask", whole(asking()));
            scene
                .fake
                .say("\"answer\"", Say::Stream(vec![frame(json!({ "task": asking() })), frame(status("COMPLETED"))]));
        }
        let scene = scene.again().await;
        scene.until(&run, "COMPLETED").await;
        assert_eq!(scene.fake.sent("\"answer\"").len(), if arrived { 1 } else { 2 });
    }
}

/// Who was to ask may have been stopped before it did.
#[tokio::test]
async fn a_stop_that_was_not_heard_is_asked_again() {
    let scene = Scene::open().await;
    scene.fake.say("\"open\"", Say::Hang(vec![frame(json!({ "task": task("WORKING") }))]));
    let run = scene.call("SendMessage", message("open", None)).await["task"]["id"].as_str().expect("an id").to_owned();
    scene.until(&run, "WORKING").await;
    // It cannot be asked, for now.
    scene.call("CancelTask", json!({ "id": run })).await;
    scene.sent("CancelTask", 1).await;
    scene.fake.say("SubscribeToTask", Say::Hang(vec![frame(json!({ "task": task("WORKING") }))]));
    scene.fake.say("CancelTask", whole(task("CANCELED")));
    let scene = scene.again().await;
    scene.until(&run, "CANCELED").await;
    scene.sent("CancelTask", 2).await;
}
