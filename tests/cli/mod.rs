//! The command line as its users meet it: the real binary, its files, its exit codes.
//! 0 ok, 1 refused or a negative verdict, 2 usage, 3 environment.

mod answering;
mod demo;
mod keys;
mod owed;
mod provider;
mod serving;
mod signing;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use crate::process::{run, wikala};

/// The exit code and stderr; whatever it says, it says it without panicking, in one
/// sentence, and names the way out itself.
pub fn no(output: &Output) -> (i32, String) {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!words.contains("panicked"), "{words}");
    (output.status.code().expect("not killed"), words)
}

/// Runs a command with this text on stdin.
pub fn fed(args: &[&str], text: &str) -> Output {
    let mut child = wikala(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // A command that refuses early hangs up before it read everything.
    let _ = child.stdin.take().expect("piped").write_all(text.as_bytes());
    child.wait_with_output().expect("an end")
}

/// Stdout of a command that must succeed.
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{:?} {}", output.status.code(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Somebody on a free port who answers everything alike, and tells of each question.
pub fn answering(status: &str, body: &str) -> (String, mpsc::Receiver<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    let (told, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
            if told.send(()).is_err() {
                return;
            }
        }
    });
    (url, asked)
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("utf-8")
}

/// Another program, if this machine has it. The line says what was left out otherwise.
pub fn other(program: &str) -> Option<Command> {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    // OpenSSL takes `version`; that it starts is enough.
    if there.is_err() {
        println!("skipped: no {program} on this machine");
        return None;
    }
    Some(Command::new(program))
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let hex = "7".repeat(64);
    for args in [
        &["nothing"][..],
        &["init"],
        &["keygen"],
        &["key"],
        &["key", "show"],
        &["chain", "new"],
        &["chain", "dispatch", "--key", "k", "--name", "n", "-"],
        &["chain", "verify", "--witness", "abc", "-"],
        &["chain", "extend", "--key", "-", "-"],
        &["cert", "issue", "--key", "k"],
        &["act", "answer", "--key", "k", "run_000000000000000000000000", "--answer", "x"],
        &["act", "present", "--key", "-", "--witness", &hex, "--provider", &hex, "--name", "n", "--chain", "-"],
        &["run", "show", "run_000000000000000000000000"],
        &["run", "show", "../agents", "--data", "nowhere"],
        &["run", "show", "run_000000000000000000000000", "--witness", "nonsense"],
        &["run", "show", "run_000000000000000000000000", "--witness", &hex],
        &["chain", "verify", "--witness", "http://127.0.0.1:7420", "-"],
        &["tree", "thread_1", "--data", "nowhere"],
        &["provider", "--witness", "http://127.0.0.1:1"],
        &["serve"],
        &["serve", "--data", "d", "--listen", "0.0.0.0:7420"],
        &["serve", "--data", "d", "--listen", "localhost"],
        &["serve", "--data", "d", "--keepalive", "0s"],
        &["serve", "--data", "d", "--offer-timeout", "500ms"],
        &["serve", "--data", "d", "--presenter", "perhaps"],
        &["serve", "--data", "d", "--public-url", "witness.example"],
        &["serve", "--data", "d", "--metrics-listen", "on"],
        &["serve", "--data", "d", "--trusted-gateway", "10.0.0.0/8"],
        &["serve", "--data", "d", "--presenter-header", "x-key"],
    ] {
        let (code, words) = no(&run(args));
        assert_eq!(code, 2, "{args:?}: {words}");
        assert!(!words.trim().is_empty(), "{args:?} says why");
    }
    for args in [&["--help"][..], &["--version"], &["serve", "--help"], &["chain", "verify", "--help"]] {
        assert_eq!(no(&run(args)).0, 0, "{args:?}");
    }
    let (_, words) = no(&run(&["serve", "--data", "d", "--listen", "0.0.0.0:7420"]));
    assert!(words.contains("--behind-proxy"), "the way out: {words}");
    let (_, words) = no(&run(&["run", "show", "run_000000000000000000000000"]));
    assert!(words.contains("--witness") && words.contains("--data"), "both places: {words}");
    let (_, words) = no(&run(&["chain", "verify", "--witness", "abc", "-"]));
    assert_eq!(words.matches("64 lower-case hex").count(), 1, "said once: {words}");
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    for code in ["0 ok", "1 refused", "2 wrong usage", "3 a file"] {
        assert!(help.contains(code), "{code}: {help}");
    }
}

#[test]
fn a_place_that_is_not_as_it_must_be_ends_with_3() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let junk = dir.path().join("junk.pem");
    std::fs::write(&junk, "secret-looking junk").unwrap();
    let (missing, junk) = (text(&missing), text(&junk));
    for args in [
        &["serve", "--data", missing][..],
        &["tree", "--data", missing],
        &["run", "show", "run_000000000000000000000000", "--data", missing],
        &["run", "show", "run_000000000000000000000000", "--witness", "http://127.0.0.1:1"],
        &["key", "show", missing],
        &["key", "show", junk],
        &["chain", "new", "--key", junk],
        &["chain", "verify", missing],
        &["chain", "verify", text(dir.path())],
        &["keygen", text(&dir.path().join("no/such/place.pem"))],
    ] {
        let (code, words) = no(&run(args));
        assert_eq!(code, 3, "{args:?}: {words}");
        assert!(words.starts_with("wikala: ") && words.trim_end().lines().count() == 1, "one sentence: {words}");
        // What might be a key is never shown.
        assert!(!words.contains("secret-looking"), "{words}");
    }
    for args in [
        &["serve", "--data", missing][..],
        &["tree", "--data", missing],
        &["run", "show", "run_000000000000000000000000", "--data", missing],
    ] {
        let (_, words) = no(&run(args));
        assert!(words.contains("wikala init"), "{args:?}, the way out: {words}");
    }
}

#[test]
fn half_a_house_is_told_which_half_to_restore() {
    let dir = tempfile::tempdir().unwrap();
    for (lost, way_out) in [("witness.pem", "restore witness.pem"), ("wikala.db", "restore wikala.db")] {
        let house = dir.path().join(lost);
        crate::process::ok(&["init", "--data", text(&house)]);
        std::fs::remove_file(house.join(lost)).unwrap();
        for verb in ["serve", "init"] {
            let (code, words) = no(&run(&[verb, "--data", text(&house)]));
            assert!(code == 3 && words.contains(way_out), "{verb} without {lost}: {code} {words}");
        }
        assert!(!house.join(lost).exists(), "nothing is made anew");
    }
    let broken = dir.path().join("broken");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(broken.join("wikala.db"), "no database at all, but long enough to be taken for one".repeat(40))
        .unwrap();
    let (code, words) = no(&run(&["tree", "--data", text(&broken)]));
    assert!(code == 3 && words.contains("restore a backup"), "{code} {words}");
}

#[test]
fn what_is_no_witness_is_called_so() {
    const RUN: &str = "run_000000000000000000000000";
    for (status, body) in [("404 Not Found", ""), ("404 Not Found", "<html>"), ("200 OK", "{}"), ("200 OK", "[]")] {
        let (url, _asked) = answering(status, body);
        let (code, words) = no(&run(&["run", "show", RUN, "--witness", &url]));
        let sentence = format!("answered {}, no witness there", &status[..3]);
        assert!(code == 3 && words.contains(&sentence), "{status} {body}: {code} {words}");
    }
}

#[test]
fn a_reader_who_hung_up_has_what_it_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let (key, _) = crate::process::key_file(dir.path(), "h", 1);
    for args in [&["key", "show", text(&key)][..], &["chain", "new", "--key", text(&key)]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = wikala(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn a_full_disk_behind_stdout_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (key, _) = crate::process::key_file(dir.path(), "h", 1);
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        return println!("skipped: no /dev/full on this machine");
    };
    for args in [&["key", "show", text(&key)][..], &["chain", "new", "--key", text(&key)]] {
        let output = wikala(args).stdout(full.try_clone().unwrap()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(no(&output).0, 3, "{args:?}");
    }
}
