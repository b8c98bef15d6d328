//! The README is run: every marked snippet, in order, against the real binary on a
//! free port. What it shows is what happens.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::WIKALA;

const README: &str = include_str!("../../README.md");
const WIRE: &str = include_str!("../../vectors/WIRE.md");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The marked snippets: (marker, text).
fn snippets() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = README.lines();
    while let Some(line) = lines.next() {
        if let Some(marker) = line.strip_prefix("<!-- run") {
            lines.next().filter(|fence| fence.starts_with("```")).expect("a fence follows the marker");
            let text: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            found.push((marker.trim_end_matches("-->").trim().to_owned(), text.join("\n")));
        }
    }
    found
}

#[test]
fn every_marked_snippet_runs_as_shown() {
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    let (python, node) =
        (Path::new(ROOT).join("tests/.clients/python/bin/python"), Path::new(ROOT).join("tests/.clients/node"));
    let mut sdks = 0;
    for (number, (marker, text)) in snippets().into_iter().enumerate() {
        match marker.as_str() {
            "" => script.push_str(&text),
            "python" if python.exists() => {
                let file = dir.path().join(format!("snippet{number}.py"));
                std::fs::write(&file, text).unwrap();
                script.push_str(&format!("{} {}", python.display(), file.display()));
                sdks += 1;
            }
            "node" if node.exists() => {
                // Beside its packages, or node does not find them.
                let file = node.join(format!("readme-{}-{number}.mjs", std::process::id()));
                std::fs::write(&file, text).unwrap();
                script.push_str(&format!("node {}; rm {}", file.display(), file.display()));
                sdks += 1;
            }
            _ => println!("skipped: the {marker} snippet, run tests/clients/setup.sh"),
        }
        script.push('\n');
    }
    let script = script
        .replace("127.0.0.1:7420", &format!("127.0.0.1:{port}"))
        .replace("$PWD/target/debug", Path::new(WIKALA).parent().unwrap().to_str().unwrap());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir.path())
        .env("WIKALA_LISTEN", format!("127.0.0.1:{port}"))
        .env("WIKALA_METRICS_LISTEN", "off")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n--\n{said}\n--\n{err}");
    for shown in [
        "hello",
        "TASK_STATE_INPUT_REQUIRED",
        "act-required",
        "\"replayed\":false",
        "already-answered",
        "answeredBy",
        "act-signature",
        "JsonRpc",
        "from afar",
        "translated",
        "\"action_required\": 1",
        "\"state\": \"completed\"",
        "3 entries, each with the digest",
    ] {
        assert!(said.contains(shown), "{shown:?} is not in\n{said}\n{err}");
    }
    for far in ["echo from afar", "echo translated"] {
        let ended = |line: &str| line.contains(far) && line.contains("TASK_STATE_COMPLETED");
        assert!(said.lines().any(ended), "{far:?} did not end well:\n{said}\n{err}");
    }
    assert_eq!(said.matches("\"replayed\":false").count(), 2, "both forms answer: {said}");
    let sdk_words = ["from python", "from javascript", "from ag-ui"];
    assert_eq!(sdk_words.iter().filter(|words| said.contains(**words)).count(), sdks, "{said}");
}

/// What it says to install is what the tests install.
#[test]
fn the_versions_named_are_those_that_are_tested() {
    let read = |file: &str| std::fs::read_to_string(Path::new(ROOT).join("tests/clients").join(file)).unwrap();
    let (pip, setup) = (read("python/requirements.txt"), read("setup.sh"));
    let npm: serde_json::Value = serde_json::from_str(&read("node/package.json")).unwrap();
    let named = |line: &&str| ["a2a-sdk", "httpx", "pydantic-ai-slim"].iter().any(|name| line.starts_with(name));
    // Without the extras that only servers need.
    let plain = |line: &str| line.replace("[http-server]", "").replace("[ag-ui]", "");
    let python = pip.lines().filter(named).map(plain);
    // The vectors' library of schemas is nobody's client.
    let node = npm["dependencies"].as_object().unwrap().iter().filter(|(name, _)| *name != "ajv");
    let node = node.map(|(name, version)| {
        let version = version.as_str().unwrap();
        version.strip_prefix("npm:").map_or_else(|| format!("{name}@{version}"), str::to_owned)
    });
    let copilot: serde_json::Value = serde_json::from_str(&read("copilot/package.json")).unwrap();
    let copilot = format!("@copilotkit/runtime@{}", copilot["dependencies"]["@copilotkit/runtime"].as_str().unwrap());
    let funduq = setup.split_whitespace().filter(|word| word.starts_with("funduq-"));
    let named: Vec<String> = python.chain(node).chain([copilot]).chain(funduq.map(str::to_owned)).collect();
    assert_eq!(named.len(), 10, "{named:?}");
    for package in named {
        assert!(README.contains(&package), "{package} is not what the README says");
    }
}

/// Every route a witness names has its line, and every link its place.
#[tokio::test]
async fn every_route_has_its_line() {
    let house = crate::house::TestHouse::open().await;
    let url = format!("{}/.well-known/wikala.json", house.url);
    let (_, words) = wikala_doors::client::Client::new().get_json(&url).await.unwrap();
    let routes = words["routes"].as_object().unwrap();
    assert!(routes.len() > 10, "{words}");
    for route in routes.values() {
        let route = route.as_str().unwrap();
        assert!(README.contains(route), "{route} is not in the README");
    }
    for place in README.split("vectors/WIRE.md#").skip(1) {
        let place = place.split(')').next().unwrap().replace('-', " ");
        let there =
            WIRE.lines().any(|line| line.strip_prefix("## ").is_some_and(|title| title.to_lowercase() == place));
        assert!(there, "WIRE.md has no {place:?}");
    }
}
