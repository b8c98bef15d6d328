//! The real binary, as a process: what a user runs is what is tested.
#![allow(dead_code)] // each module of the tests uses its own part

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The binary under test.
pub const WIKALA: &str = env!("CARGO_BIN_EXE_wikala");

/// A command of ours without the environment of whoever runs the tests.
pub fn wikala(args: &[&str]) -> Command {
    let mut command = Command::new(WIKALA);
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars() {
        if name.starts_with("WIKALA_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end.
pub fn run(args: &[&str]) -> Output {
    wikala(args).output().expect("the binary starts")
}

/// Runs a command that must succeed; its stdout.
pub fn ok(args: &[&str]) -> String {
    let output = run(args);
    assert!(
        output.status.success(),
        "wikala {}: {:?}\n{}{}",
        args.join(" "),
        output.status.code(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// A child that is killed when the test ends, however it ends. By its own handle,
/// never by name.
pub struct Kept(pub Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A serving witness.
pub struct Served {
    pub child: Kept,
    pub url: String,
    pub data: PathBuf,
}

impl Served {
    /// Makes a data directory and serves it on a free port.
    pub fn fresh(dir: &Path, extra: &[&str]) -> Served {
        let data = dir.join("house");
        ok(&["init", "--data", data.to_str().expect("utf-8")]);
        Self::on(&data, "127.0.0.1:0", extra)
    }

    /// Serves a data directory that is there.
    pub fn on(data: &Path, listen: &str, extra: &[&str]) -> Served {
        let mut args =
            vec!["serve", "--data", data.to_str().expect("utf-8"), "--listen", listen, "--metrics-listen", "off"];
        args.extend(extra);
        let mut child = wikala(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let url = line.split_whitespace().last().unwrap_or_default().to_owned();
        assert!(url.starts_with("http://"), "serve said {line:?}");
        Served { child: Kept(child), url, data: data.to_owned() }
    }

    /// kill -9: nothing is told, nothing is flushed.
    pub fn kill(mut self) -> PathBuf {
        self.child.0.kill().expect("killed");
        self.child.0.wait().expect("gone");
        self.data.clone()
    }
}

/// A key file of a fixed seed, and its public key.
pub fn key_file(dir: &Path, name: &str, seed: u8) -> (PathBuf, String) {
    let key = wikala_chain::SigningKey::from_seed([seed; 32]);
    let path = dir.join(format!("{name}.pem"));
    std::fs::write(&path, key.to_pem().as_bytes()).expect("written");
    (path, key.public().to_hex())
}
