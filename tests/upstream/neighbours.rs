//! The interop table of the README, cell by cell: real clients through the real binary to
//! real servers. Each client script asserts for itself; see `tests/clients`.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wikala_doors::client::Client;
use wikala_witness::Dialect;

use super::{Agent, program};
use crate::house::TestHouse;
use crate::process::{Served, key_file, ok};

/// Adds a running agent to a served house; its provider's key.
fn added(served: &Served, dir: &std::path::Path, kind: &str, url: &str) -> String {
    let (file, key) = key_file(dir, "provider", 0xC1);
    let data = served.data.to_str().expect("utf-8");
    let file = file.to_str().expect("utf-8");
    ok(&["agent", "add", "--data", data, "--name", "helper", kind, url, "--provider-key-file", file]);
    // Attached a moment later: a client that comes first finds it offline.
    for _ in 0..500 {
        if ok(&["agent", "list", "--data", data]).contains("\"online\": true") {
            return key;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("never attached");
}

/// Every client against one A2A agent.
fn every_client(agent: &str, flags: &[&str]) {
    let Some(agent) = Agent::start(agent, flags) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let served = Served::fresh(dir.path(), &[]);
    let provider = added(&served, dir.path(), "--a2a", &agent.url);
    clients(&served, &provider, &[], &["--no-tools"]);
}

fn clients(served: &Served, provider: &str, a2a: &[&'static str], agui: &[&'static str]) {
    let with = |flags: &[&'static str], one: &'static str| [flags, &[one][..]].concat();
    for (script, flags) in [
        ("a2a_client.py", a2a.to_vec()),
        ("a2a_client.py", with(a2a, "--rest")),
        ("a2a.mjs", a2a.to_vec()),
        ("a2a.mjs", with(a2a, "--rest")),
        ("agui.mjs", agui.to_vec()),
        ("agui.mjs", with(agui, "--old")),
        ("copilot.mjs", agui.to_vec()),
    ] {
        let Some((program, path)) = program(script) else { return };
        let output = Command::new(program)
            .arg(path)
            .args([&served.url, provider, "helper"])
            .args(&flags)
            .env("COPILOTKIT_TELEMETRY_DISABLED", "true")
            .stdin(Stdio::null())
            .output()
            .expect("the client starts");
        let (said, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script} {flags:?}:\n{said}\n{err}");
    }
}

#[test]
fn every_client_reaches_the_python_sdk_over_json_rpc() {
    every_client("a2a_agent.py", &[]);
}

#[test]
fn every_client_reaches_the_python_sdk_over_http_json() {
    every_client("a2a_agent.py", &["--rest"]);
}

#[test]
fn every_client_reaches_the_python_sdk_in_version_0_3() {
    every_client("a2a_agent.py", &["--old"]);
}

#[test]
fn every_client_reaches_the_javascript_sdk_over_json_rpc() {
    every_client("a2a_agent.mjs", &[]);
}

#[test]
fn every_client_reaches_the_javascript_sdk_over_http_json() {
    every_client("a2a_agent.mjs", &["--rest"]);
}

/// An AG-UI agent of a framework: however it frames its events, and its approvals are the
/// head's to give.
#[test]
fn every_client_reaches_an_ag_ui_agent_of_a_published_framework() {
    for framing in [&[][..], &["--crlf"]] {
        let Some(agent) = Agent::start("agui_agent.py", framing) else { return };
        let dir = tempfile::tempdir().expect("a directory");
        let served = Served::fresh(dir.path(), &[]);
        let provider = added(&served, dir.path(), "--agui", &agent.url);
        clients(&served, &provider, &["--plain"], &["--approve"]);
    }
}

/// The link's column: the scripted provider.
#[test]
fn every_client_reaches_an_agent_that_dials_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let served = Served::fresh(dir.path(), &[]);
    let (file, key) = key_file(dir.path(), "provider", 0xC1);
    let _provider = crate::interop::provider(&served.url, &file);
    clients(&served, &key, &[], &[]);
}

/// Agents of this kind are told the whole conversation each time; whoever answers by another
/// lane than their own clients' need not know it.
#[tokio::test]
async fn a_framework_agents_question_is_answered_from_another_dialect_and_on_our_own_route() {
    let Some(agent) = Agent::start("agui_agent.py", &[]) else { return };
    let house = TestHouse::open().await;
    let id = super::added(&house, "far", Dialect::AgUi, &agent.url).await;
    let at = format!("{}/a2a/{}/far/message:send", house.url, id.provider);
    let http = Client::new();
    let call = async |url: &str, body: Value| {
        let (status, said) = http.post_json(url, &body, &[("a2a-version", "1.0")]).await.expect("an answer");
        assert_eq!(status, 200, "{said}");
        said["task"].clone()
    };
    for lane in ["direct", "a2a"] {
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "approve it" }] });
        let asked = call(&at, json!({ "message": message })).await;
        assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
        let run = asked["id"].as_str().expect("an id");
        if lane == "direct" {
            let url = format!("{}/v1/runs/{run}/answer", house.url);
            call(&url, json!({ "answer": "{\"approved\":true}" })).await;
        } else {
            let message = json!({ "messageId": "m2", "role": "ROLE_USER", "taskId": run, "parts": [{ "data": { "approved": true } }] });
            call(&at, json!({ "message": message })).await;
        }
        let url = format!("{}/a2a/{}/far/tasks/{run}", house.url, id.provider);
        let mut told = Value::Null;
        for _ in 0..500 {
            told = http
                .json(axum::http::Method::GET, &url, None, &[("a2a-version", "1.0")], None)
                .await
                .expect("a task")
                .1;
            if told["status"]["state"] != "TASK_STATE_WORKING" && told["status"]["state"] != "TASK_STATE_SUBMITTED" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(told["status"]["state"], "TASK_STATE_COMPLETED", "{lane}: {told}");
        assert!(told["artifacts"].to_string().contains("done: risked"), "{lane}: {told}");
    }
}
