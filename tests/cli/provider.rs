//! `wikala provider`: what waiting cannot mend ends it with a sentence, what waiting
//! can mend does not.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use super::{answering, no, text};
use crate::process::{Kept, Served, key_file, run, wikala};

/// Runs a provider that must end by itself.
fn ends(args: &[&str]) -> Output {
    let mut child = wikala(&[&["provider"], args].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("{args:?} goes on for ever: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_wrong_flag_is_told_before_anything_is_dialled() {
    let key = "b".repeat(64);
    let many: Vec<String> = (0..257).flat_map(|n| ["--name".to_owned(), format!("a{n}")]).collect();
    let (key, many): (&str, Vec<&str>) = (&key, many.iter().map(String::as_str).collect());
    for (args, word) in [
        (&["--witness", "nonsense"][..], "URL"),
        (&["--witness", "ftp://w.example"], "URL"),
        (&["--witness", "https://"], "URL"),
        (&["--witness", key], "a key"),
        (&["--witness", "http://127.0.0.1:1", "--name", "bad name"], "bad name"),
        (&["--witness", "http://127.0.0.1:1", "--name", ""], "--name"),
        (&["--witness", "http://127.0.0.1:1", "--name", "a", "--name", "a"], "twice"),
        (&["--witness", "http://127.0.0.1:1", "--max-runs", "0"], "--max-runs"),
        (&[&["--witness", "http://127.0.0.1:1"], &many[..]].concat(), "256"),
    ] {
        let (code, words) = no(&ends(&[args, &["--key", "nowhere.pem"]].concat()));
        assert!(code == 2 && words.contains(word), "{args:?}: {code} {words}");
    }
    let (code, words) = no(&ends(&["--witness", "http://127.0.0.1:1", "--key", "nowhere.pem"]));
    assert!(code == 3 && words.contains("nowhere.pem"), "{code} {words}");
}

#[test]
fn where_no_witness_answers_it_ends_and_where_one_stumbles_it_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (key, _) = key_file(dir.path(), "p", 5);
    for (status, body) in [("404 Not Found", "nothing here"), ("200 OK", "<html>"), ("302 Found", "")] {
        let (url, _) = answering(status, body);
        let (code, words) = no(&ends(&["--witness", &url, "--key", text(&key)]));
        assert!(code == 3 && words.contains(&format!("answered {}, no witness there", &status[..3])), "{code} {words}");
    }
    for status in ["503 Service Unavailable", "502 Bad Gateway", "429 Too Many Requests"] {
        let (url, asked) = answering(status, "{}");
        let child =
            wikala(&["provider", "--witness", &url, "--key", text(&key)]).stderr(Stdio::null()).spawn().unwrap();
        let mut child = Kept(child);
        // Twice asked: it did not take the first answer for the last.
        for _ in 0..2 {
            asked.recv_timeout(Duration::from_secs(20)).expect(status);
        }
        assert!(child.0.try_wait().unwrap().is_none(), "{status}");
    }
}

#[test]
fn who_is_not_admitted_is_told_by_whom() {
    let dir = tempfile::tempdir().unwrap();
    let (key, _) = key_file(dir.path(), "p", 5);
    let list = dir.path().join("admitted");
    std::fs::write(&list, "# nobody\n").unwrap();
    let served = Served::fresh(dir.path(), &["--admission", text(&list)]);
    let (code, words) = no(&ends(&["--witness", &served.url, "--key", text(&key)]));
    assert!(code == 1 && words.contains("not on the admission list"), "{code} {words}");
    // A key where the address belongs, and the reverse, name each other.
    let hex = "7".repeat(64);
    let present = ["act", "present", "--key", text(&key), "--provider", &hex, "--name", "n", "--witness", &served.url];
    let (code, words) = no(&run(&present));
    assert!(code == 2 && words.contains("/.well-known/wikala.json"), "{code} {words}");
}

/// Whose name it is, is told to who added it and to who wants it.
#[test]
fn a_name_that_is_served_ends_a_provider_that_wants_it() {
    let dir = tempfile::tempdir().unwrap();
    let (key, _) = key_file(dir.path(), "p", 5);
    let served = Served::fresh(dir.path(), &[]);
    let data = text(&served.data);
    let add = |url: &str, name: &str| {
        let said =
            run(&["agent", "add", "--data", data, "--name", name, "--agui", url, "--provider-key-file", text(&key)]);
        let words: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
        (words["reached"].clone(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    // Nobody there: it stands all the same, and that is said.
    let (reached, why) = add("http://127.0.0.1:1/", "far");
    assert!(reached == false && why.contains("not reached"), "{why}");
    let (url, _) = answering("405 Method Not Allowed", "");
    let (reached, why) = add(&url, "near");
    assert!(reached == true && why.is_empty(), "{why}");
    let (code, words) = no(&ends(&["--witness", &served.url, "--key", text(&key), "--name", "far"]));
    assert!(code == 1 && words.contains("served already"), "{code} {words}");
}

#[test]
fn an_address_where_nothing_is_is_no_agent() {
    for (status, code) in [("404 Not Found", 1), ("410 Gone", 1), ("405 Method Not Allowed", 0), ("200 OK", 0)] {
        let (url, _) = answering(status, "");
        let said = run(&["agent", "check", "--agui", &url]);
        assert_eq!(said.status.code(), Some(code), "{status}: {said:?}");
    }
}
