//! The operator's commands: through the control socket while the directory is
//! served, else read from the record.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use wikala_witness::{Policy, ThreadId, Witness};

use super::{io, serve};
use crate::client::{Client, Signer};
use crate::exit::Failure;
use crate::{control, serve as house};

/// `run show RUN (--witness URL [--key FILE] | --data DIR)`.
pub(super) fn run_show(
    run: &str,
    witness: Option<String>,
    key: Option<PathBuf>,
    data: Option<PathBuf>,
) -> Result<(), Failure> {
    let run = io::run_id(run)?;
    let witness = match (witness, data) {
        (_, Some(data)) => return print(&ask(&data, &json!({ "op": "run", "run": run.as_str() }))?),
        (Some(witness), None) => io::witness_url(&witness)?,
        (None, None) => {
            return Err(Failure::usage("run: say where to look, --witness URL or --data DIR (the operator's view)"));
        }
    };
    let key = key.map(|file| io::key(&file)).transpose()?;
    serve::block_on(async move {
        let url = format!("{witness}/v1/runs/{}", run.as_str());
        let signer = key.as_ref().map(|key| Signer { key, at_s: io::moment(None).as_secs() });
        let (status, words) =
            Client::new().answer(Method::GET, &url, None, &[], signer).await.map_err(Failure::environment)?;
        let words = words.unwrap_or(Value::Null);
        if status.is_success() && words["runId"] == run.as_str() {
            return print(&words);
        }
        let (code, message) = (words["error"]["code"].as_str(), words["error"]["message"].as_str());
        let (Some(code), Some(message)) = (code, message) else { return Err(no_witness(&url, status)) };
        // What a stranger may not read is as unknown as what never was.
        let hint = match (code, &signer) {
            ("run-unknown", None) => ", or yours to read only with --key FILE",
            _ => "",
        };
        Err(Failure::refused(format!("{code}: {message}{hint}")))
    })
}

/// `tree [THREAD] --data DIR`.
pub(super) fn tree(thread: Option<&str>, data: &Path) -> Result<(), Failure> {
    if let Some(text) = thread.filter(|text| ThreadId::parse(text).is_none()) {
        return Err(Failure::usage(format!("thread: {text:?} is no thread id, thread_ and 24 hex digits")));
    }
    print(&ask(data, &json!({ "op": "tree", "thread": thread }))?)
}

pub(super) fn print(words: &Value) -> Result<(), Failure> {
    io::say(super::visible(&format!("{words:#}")))
}

/// Whatever answered, it was no witness.
pub(crate) fn no_witness(url: &str, status: StatusCode) -> Failure {
    Failure::environment(format!("{url}: answered {}, no witness there", status.as_u16()))
}

/// Asks the serving process, or the record itself.
pub(super) fn ask(data: &Path, request: &Value) -> Result<Value, Failure> {
    let answer = match served(data, request)? {
        Some(answer) => answer,
        None => {
            let record = data.join(house::DATABASE);
            if !record.exists() {
                return Err(Failure::environment(format!(
                    "data: {0} holds no witness, make one with `wikala init --data {0}`",
                    data.display()
                )));
            }
            let reader = Witness::reader(&record, Policy::default()).map_err(|fault| Failure::record(data, &fault))?;
            control::answer(&reader, request)
        }
    };
    said(answer)
}

/// What the serving process answers; `None`: nobody serves the directory.
pub(super) fn served(data: &Path, request: &Value) -> Result<Option<Value>, Failure> {
    let Ok(stream) = UnixStream::connect(data.join(house::CONTROL)) else { return Ok(None) };
    over_socket(stream, request)
        .map(Some)
        .map_err(|error| Failure::environment(format!("control: {error}, is it still serving?")))
}

/// An answer's content.
pub(super) fn said(answer: Value) -> Result<Value, Failure> {
    match answer["error"].as_str() {
        Some(why) => Err(Failure::refused(why)),
        None => Ok(answer["ok"].clone()),
    }
}

fn over_socket(mut stream: UnixStream, request: &Value) -> std::io::Result<Value> {
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30)))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
