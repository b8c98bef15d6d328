//! The operator's commands: through the control socket while the directory is
//! served, else read from the record.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use axum::http::Method;
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
    if let Some(data) = data {
        return print(&ask(&data, &json!({ "op": "run", "run": run.as_str() }))?);
    }
    let witness = witness.unwrap_or_default();
    let key = key.map(|file| io::key(&file)).transpose()?;
    serve::block_on(async move {
        let url = format!("{}/v1/runs/{}", witness.trim_end_matches('/'), run.as_str());
        let signer = key.as_ref().map(|key| Signer { key, at_s: io::moment(None).as_secs() });
        let (status, words) =
            Client::new().json(Method::GET, &url, None, &[], signer).await.map_err(Failure::environment)?;
        if status.is_success() {
            return print(&words);
        }
        let error = &words["error"];
        Err(Failure::refused(format!(
            "{}: {}",
            error["code"].as_str().unwrap_or("?"),
            error["message"].as_str().unwrap_or("")
        )))
    })
}

/// `tree [THREAD] --data DIR`.
pub(super) fn tree(thread: Option<&str>, data: &Path) -> Result<(), Failure> {
    if let Some(text) = thread.filter(|text| ThreadId::parse(text).is_none()) {
        return Err(Failure::usage(format!("thread: {text:?} is no thread id, thread_ and 24 hex digits")));
    }
    print(&ask(data, &json!({ "op": "tree", "thread": thread }))?)
}

fn print(words: &Value) -> Result<(), Failure> {
    io::say(format!("{words:#}"))
}

fn ask(data: &Path, request: &Value) -> Result<Value, Failure> {
    let answer = match UnixStream::connect(data.join(house::CONTROL)) {
        Ok(stream) => over_socket(stream, request)
            .map_err(|error| Failure::environment(format!("control: {error}, is it still serving?")))?,
        Err(_) => {
            let reader = Witness::reader(&data.join(house::DATABASE), Policy::default())
                .map_err(|fault| Failure::environment(format!("data: {} cannot be read ({fault})", data.display())))?;
            control::answer(&reader, request)
        }
    };
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
