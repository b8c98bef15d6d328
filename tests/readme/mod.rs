//! The README is run: every marked snippet, in order, against the real binary on a
//! free port. What it shows is what happens.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::WIKALA;

const README: &str = include_str!("../../README.md");
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
    for shown in
        ["hello", "TASK_STATE_INPUT_REQUIRED", "act-required", "\"replayed\":false", "already-answered", "answeredBy"]
    {
        assert!(said.contains(shown), "{shown:?} is not in\n{said}\n{err}");
    }
    let sdk_words = ["from python", "from javascript", "from ag-ui"];
    assert_eq!(sdk_words.iter().filter(|words| said.contains(**words)).count(), sdks, "{said}");
}
