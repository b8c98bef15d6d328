//! The local socket: JSON lines, mode 0600, and only for processes of the same user. A request is
//! `{"id", "tool", "arguments"}`, its answer `{"id", "result"}` or `{"id", "error": {"code",
//! "message"}}`. After `{"id", "tool": "watch"}` the inbox is told at once and with each change,
//! as `{"event": "inbox", "inbox": …}`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};

use super::desk::No;
use super::keeper::Supervisor;
use crate::exit::Failure;

/// The socket's name in the directory.
pub const SOCKET: &str = "supervisor.sock";
/// The longest line, bytes.
pub const LINE: usize = 1024 * 1024;
/// How many are served at once.
const CLIENTS: usize = 64;
/// How many calls of one client may be under way.
const CALLS: usize = 16;
/// How long a client may take none of what it is told.
const SLOW: Duration = Duration::from_secs(30);

/// Listens in a directory that this process has locked, until the process ends.
///
/// # Errors
/// 3: the socket cannot be made.
pub async fn serve(dir: &Path, supervisor: Arc<Supervisor>) -> Result<(), Failure> {
    let socket = dir.join(SOCKET);
    // Left by a kill: the lock says that nobody listens on it any more.
    let _ = std::fs::remove_file(&socket);
    let failed = |error| Failure::environment(format!("dir: {} cannot be made ({error})", socket.display()));
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let room = Arc::new(Semaphore::new(CLIENTS));
    // Whoever made this file is us, and so may be whoever calls.
    let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&socket).map_err(failed)?);
    loop {
        let (mut stream, _) = listener.accept().await.map_err(failed)?;
        let supervisor = supervisor.clone();
        let Ok(place) = room.clone().try_acquire_owned() else {
            let no = refusal(&Value::Null, "busy", &format!("socket: more than {CLIENTS} clients, close one"));
            let _ = stream.write_all(no.as_bytes()).await;
            continue;
        };
        tokio::spawn(async move {
            let _place = place;
            // The mode keeps others out; this keeps out whom a changed mode would let in.
            if !stream.peer_cred().is_ok_and(|peer| peer.uid() == own) {
                let no = refusal(&Value::Null, "peer-refused", "socket: only for processes of the user that serves it");
                let _ = stream.write_all(no.as_bytes()).await;
                return;
            }
            talk(stream, supervisor).await;
        });
    }
}

fn refusal(id: &Value, code: &str, message: &str) -> String {
    format!("{}\n", json!({ "id": id, "error": { "code": code, "message": message } }))
}

async fn talk(stream: UnixStream, supervisor: Arc<Supervisor>) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader);
    let (out, mut waiting) = mpsc::channel::<String>(CALLS * 2);
    let writes = tokio::spawn(async move {
        while let Some(line) = waiting.recv().await {
            let written = tokio::time::timeout(SLOW, writer.write_all(line.as_bytes())).await;
            if !matches!(written, Ok(Ok(()))) {
                return;
            }
        }
    });
    let calls = Arc::new(Semaphore::new(CALLS));
    let mut watches = tokio::task::JoinSet::new();
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(LINE as u64 + 1).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            break;
        }
        if line.len() > LINE {
            let _ = out.send(refusal(&Value::Null, "too-large", &format!("line: more than {LINE} bytes"))).await;
            break;
        }
        let words = std::str::from_utf8(&line).ok().filter(|text| wikala_chain::json::check(text.trim_end()).is_ok());
        let words: Value = words.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let id = words["id"].clone();
        let named = matches!(&id, Value::String(_) | Value::Number(_));
        let (true, Some(tool)) = (named, words["tool"].as_str()) else {
            let sentence = "line: no {\"id\", \"tool\", \"arguments\"} in one line of JSON";
            if out.send(refusal(&Value::Null, "malformed", sentence)).await.is_err() {
                break;
            }
            continue;
        };
        if tool == "watch" {
            if watches.is_empty() {
                watches.spawn(watch(supervisor.clone(), out.clone()));
            }
            let _ = out.send(format!("{}\n", json!({ "id": id, "result": {} }))).await;
            continue;
        }
        let Ok(turn) = calls.clone().acquire_owned().await else { break };
        let (tool, arguments) = (tool.to_owned(), words["arguments"].clone());
        let (supervisor, out) = (supervisor.clone(), out.clone());
        tokio::spawn(async move {
            let _turn = turn;
            let told = match supervisor.call(&tool, &arguments).await {
                Ok(result) => format!("{}\n", json!({ "id": id, "result": result })),
                Err(no) => refusal(&id, no.code(), no.sentence()),
            };
            let _ = out.send(told).await;
        });
    }
    watches.shutdown().await;
    drop(out);
    let _ = writes.await;
}

async fn watch(supervisor: Arc<Supervisor>, out: mpsc::Sender<String>) {
    let mut state = supervisor.watch();
    loop {
        state.borrow_and_update();
        let told = format!("{}\n", json!({ "event": "inbox", "inbox": supervisor.inbox() }));
        if out.send(told).await.is_err() || state.changed().await.is_err() {
            return;
        }
    }
}

/// A client of the socket in a directory.
#[derive(Debug, Clone)]
pub struct Local(PathBuf);

impl Local {
    /// The supervisor that serves `dir`.
    #[must_use]
    pub fn of(dir: &Path) -> Local {
        Local(dir.to_owned())
    }

    async fn open(&self) -> Result<BufReader<UnixStream>, No> {
        let opened = UnixStream::connect(self.0.join(SOCKET)).await;
        opened.map(BufReader::new).map_err(|_| No::Unreached(self.nobody()))
    }

    fn nobody(&self) -> String {
        let dir = self.0.display();
        format!("dir: no supervisor serves {dir}, start `wikala supervise --key FILE --witness URL --dir {dir}`")
    }

    /// Somebody serves the directory.
    ///
    /// # Errors
    /// Nobody does, with the command that does.
    pub async fn there(&self) -> Result<(), No> {
        self.open().await.map(|_| ())
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// What the tool answers, or that nobody serves.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<Value, No> {
        let mut stream = self.open().await?;
        let words = told(&mut stream, &json!({ "id": 1, "tool": tool, "arguments": arguments })).await;
        let words = words.ok_or_else(|| No::Lost("socket: the supervisor went away, call again".to_owned()))?;
        match (words["error"]["code"].as_str(), words["error"]["message"].as_str()) {
            (Some(code), Some(sentence)) => Err(No::Refused { code: code.to_owned(), sentence: sentence.to_owned() }),
            _ => Ok(words["result"].clone()),
        }
    }

    /// Tells the inbox, now and with each change, until the supervisor goes away.
    ///
    /// # Errors
    /// Nobody serves.
    pub async fn watch(&self, mut tell: impl FnMut(&Value)) -> Result<(), No> {
        let mut stream = self.open().await?;
        let asked = format!("{}\n", json!({ "id": 1, "tool": "watch" }));
        if stream.get_mut().write_all(asked.as_bytes()).await.is_err() {
            return Ok(());
        }
        while let Some(words) = line(&mut stream).await {
            if words["event"] == "inbox" {
                tell(&words["inbox"]);
            }
        }
        Ok(())
    }
}

async fn told(stream: &mut BufReader<UnixStream>, asked: &Value) -> Option<Value> {
    stream.get_mut().write_all(format!("{asked}\n").as_bytes()).await.ok()?;
    line(stream).await
}

async fn line(stream: &mut BufReader<UnixStream>) -> Option<Value> {
    let mut line = String::new();
    // Answers may be longer than what is asked: a history, a list.
    let read = stream.take(64 * LINE as u64).read_line(&mut line).await.ok()?;
    (read > 0).then(|| serde_json::from_str(&line).unwrap_or_default())
}
