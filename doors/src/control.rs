//! The operator's socket: while a process serves a data directory, admin commands
//! go through it. JSON lines; the directory's mode is the access control.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use wikala_witness::{No, Reader, RunId, ThreadId};

use crate::exit::Failure;
use crate::house::App;
use crate::reads::{run_words, tree_words};
use crate::upstream::agents;

/// The longest line read, bytes.
const LINE: u64 = 64 * 1024;

/// Listens on `socket`, mode 0600.
///
/// # Errors
/// 3: the socket cannot be made.
pub fn listen(socket: &Path, _database: &Path, app: &App) -> Result<JoinHandle<()>, Failure> {
    // A socket left by a kill: the lock says that nobody listens on it any more.
    let _ = std::fs::remove_file(socket);
    let failed = |error| Failure::environment(format!("control: {} cannot be made ({error})", socket.display()));
    let listener = UnixListener::bind(socket).map_err(failed)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let app = app.clone();
    Ok(tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let app = app.clone();
            tokio::spawn(async move {
                if let Err(error) = talk(stream, &app).await {
                    tracing::debug!(%error, "control connection ended");
                }
            });
        }
    }))
}

async fn talk(stream: UnixStream, app: &App) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read.take(LINE)).lines();
    while let Some(line) = lines.next_line().await? {
        let request: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
        let words = match agents::Change::read(&request) {
            Some(change) => agents::change(app, change).await,
            None => {
                let said = app.readers.read(move |reader| Ok(answer(reader, &request))).await;
                said.unwrap_or_else(|no| json!({ "error": no.to_string() }))
            }
        };
        write.write_all(format!("{words}\n").as_bytes()).await?;
    }
    Ok(())
}

/// One operator's question, also answered without a serving process.
///
/// `{"op":"tree","thread":id}`, `{"op":"tree"}` (all roots), `{"op":"run","run":id}`,
/// `{"op":"agents"}`.
#[must_use]
pub fn answer(reader: &Reader, request: &Value) -> Value {
    let said: Result<Value, No> = match request["op"].as_str() {
        Some("tree") => match request["thread"].as_str() {
            Some(text) => match ThreadId::parse(text) {
                Some(id) => reader.operator_tree(&id).map(|node| tree_words(&node)),
                None => return json!({ "error": format!("thread: {text:?} is not a thread id") }),
            },
            None => reader.roots().and_then(|roots| {
                roots.iter().map(|id| reader.operator_tree(id).map(|node| tree_words(&node))).collect()
            }),
        },
        Some("run") => match request["run"].as_str().and_then(RunId::parse) {
            Some(id) => reader.run_for_operator(&id).map(|view| run_words(&view)),
            None => return json!({ "error": "run: not a run id" }),
        },
        Some("agents") => agents::list(reader),
        _ => return json!({ "error": "op: none of tree, run, agents" }),
    };
    match said {
        Ok(words) => json!({ "ok": words }),
        Err(no) => json!({ "error": no.to_string() }),
    }
}
