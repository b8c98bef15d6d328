//! The supervisor: catches up, keeps the counters before it shows them, and brings acts to the
//! witness once, however often either of them is started again.

use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use tokio::sync::{Mutex as Turn, Notify, watch};
use wikala_certs::Moment;
use wikala_chain::SigningKey;
use wikala_witness::obligation::ObligationId;

use super::counters::Counters;
use super::desk::{Desk, Doing, No, Signed};
use super::store::{Fault, Kept, Snapshot, Store};
use super::tools::{Call, RECONCILE, Tool};
use crate::client::Client;
use crate::exit::Failure;

/// How often it catches up though nothing woke it.
const EVERY: Duration = Duration::from_secs(60);
/// How long a stream may be silent: a witness sends a comment every quarter minute.
const SILENCE: Duration = Duration::from_secs(90);
/// The first and the longest wait before a witness that was lost is tried again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// What a supervisor is told.
#[derive(Debug)]
pub struct Options {
    /// The agent's key.
    pub key: Arc<SigningKey>,
    /// The witness's URL.
    pub witness: String,
    /// Where it keeps what it must not forget.
    pub dir: PathBuf,
    /// The clock: unix seconds.
    pub clock: fn() -> Moment,
}

/// What is known now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The counters, none before the first were counted.
    pub counted: Option<Snapshot>,
    /// They were counted since the witness was last lost.
    pub fresh: bool,
    /// Why they are not fresh.
    pub trouble: Option<String>,
    /// Counts up with each change that was heard of.
    pub changes: u64,
}

/// One key at one witness, kept in one directory.
#[derive(Debug)]
pub struct Supervisor {
    desk: Desk,
    clock: fn() -> Moment,
    store: Mutex<Store>,
    state: watch::Sender<State>,
    /// One at a time brings acts to the witness: two could bring one twice.
    turn: Turn<()>,
    catch_up: Notify,
    /// One supervisor a directory, while this is held.
    _lock: File,
}

impl Supervisor {
    /// Opens the directory, or makes it.
    ///
    /// # Errors
    /// 3: another supervisor serves it, it is another key's, it cannot be made.
    pub fn open(options: Options) -> Result<Arc<Supervisor>, Failure> {
        let Options { key, witness, dir, clock } = options;
        let lock = lock(&dir)?;
        let store =
            Store::open(&dir.join("supervisor.db"), &key).map_err(|fault| Failure::environment(fault.to_string()))?;
        let mut state = State { trouble: Some("not yet reached".to_owned()), ..State::default() };
        match store.snapshot() {
            Ok(counted) => state.counted = counted,
            // Not zero, and not what somebody wrote there: unknown, until they are counted again.
            Err(fault) => {
                tracing::error!(%fault, "the counters are unknown until the witness is reached");
                state.trouble = Some(fault.to_string());
            }
        }
        Ok(Arc::new(Supervisor {
            desk: Desk::new(key, &witness, Client::new()),
            clock,
            store: Mutex::new(store),
            state: watch::channel(state).0,
            turn: Turn::new(()),
            catch_up: Notify::new(),
            _lock: lock,
        }))
    }

    /// What is known now, and what follows.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        // A transaction that panicked was rolled back: what is in the file is whole.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Catches up at the start, when woken, when the witness is back, and every minute.
    pub async fn work(&self) {
        let mut wait = AGAIN.0;
        loop {
            let Some(mut wakes) = self.attach().await else {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = self.catch_up.notified() => {}
                }
                wait = (wait * 2).min(AGAIN.1);
                continue;
            };
            wait = AGAIN.0;
            loop {
                let heard = tokio::select! {
                    event = wakes.next_within(SILENCE) => event.map(|event| event.is_some()),
                    () = tokio::time::sleep(EVERY) => Ok(true),
                    () = self.catch_up.notified() => Ok(true),
                };
                match heard {
                    Ok(true) => self.refresh().await,
                    Ok(false) => break self.lost("the witness ended the stream"),
                    Err(why) => break self.lost(&why),
                }
                if !self.state.borrow().fresh {
                    break;
                }
            }
        }
    }

    /// The stream that wakes. `None`: the witness is not to be had now.
    async fn attach(&self) -> Option<crate::client::Events> {
        let now = self.now();
        let pinned = match self.desk.witness(now).await {
            Ok(key) => self.store().pin(&key).map_err(|fault| fault.to_string()),
            Err(no) => Err(no.sentence().to_owned()),
        };
        if let Err(why) = pinned {
            self.lost(&why);
            return None;
        }
        match self.desk.wakes(now).await {
            Ok(wakes) => Some(wakes),
            Err(why) => {
                self.lost(&why);
                None
            }
        }
    }

    fn lost(&self, why: &str) {
        self.state.send_if_modified(|state| {
            let changed = state.fresh || state.trouble.as_deref() != Some(why);
            (state.fresh, state.trouble) = (false, Some(why.to_owned()));
            changed
        });
    }

    /// Brings what waits, reconciles, counts; keeps the counts, and only then shows them.
    async fn refresh(&self) {
        self.bring().await;
        let counted = async {
            let now = self.now();
            let body = json!({ "limit": RECONCILE });
            self.desk.ask(now, Method::POST, "/v1/response-obligations/reconcile", Some(&body)).await?;
            let words = self.desk.ask(now, Method::GET, "/v1/response-obligations/inbox", None).await?;
            let counters = Counters::read(&words).map_err(No::Strange)?;
            Ok(Snapshot { counters, at: now.as_secs() })
        };
        let counted: Result<Snapshot, No> = counted.await;
        let kept = counted.map_err(|no| no.sentence().to_owned()).and_then(|counted| {
            self.store().keep(&counted).map_err(|fault| fault.to_string())?;
            Ok(counted)
        });
        match kept {
            Ok(counted) => {
                self.state.send_modify(|state| {
                    *state = State { counted: Some(counted), fresh: true, trouble: None, changes: state.changes + 1 };
                });
            }
            Err(why) => self.lost(&why),
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// [`No`], for an adapter to tell with its code.
    pub async fn call(&self, name: &str, arguments: &Value) -> Result<Value, No> {
        let tool = Tool::named(name).ok_or_else(|| {
            let name: String = name.chars().take(64).collect();
            No::Wrong(format!("tool: {name:?} is not known"))
        })?;
        let now = self.now();
        match tool.read(arguments)? {
            Call::Create { provider, name } => {
                let thread = self.desk.open_thread(now, &provider, name.as_str()).await?;
                Ok(json!({ "thread_id": thread }))
            }
            Call::Say(message) => {
                let id = message.id.clone();
                let mut told = self.desk.say(now, &message).await.map_err(|no| match no {
                    // It may be there: who asks again with its id asks for the same.
                    No::Lost(why) => No::Lost(format!("{why}; it may have arrived, send it again as message_id {id}")),
                    other => other,
                })?;
                told["message_id"] = id.into();
                self.catch_up.notify_one();
                Ok(told)
            }
            Call::Thread(id) => self.desk.ask(now, Method::GET, &format!("/threads/{}", id.as_str()), None).await,
            Call::List(query) => {
                self.desk.ask(now, Method::GET, &format!("/v1/response-obligations?{query}"), None).await
            }
            Call::Get(id) => self.desk.view(now, &id).await,
            Call::Reconcile(limit) => {
                let body = json!({ "limit": limit });
                let moved = self.desk.ask(now, Method::POST, "/v1/response-obligations/reconcile", Some(&body)).await?;
                self.catch_up.notify_one();
                Ok(moved)
            }
            Call::Inbox => Ok(self.inbox()),
            Call::Queue => self.queue(),
            Call::Act { id, revision, doing } => self.act(&id, revision, &doing).await,
        }
    }

    /// The counters as they are shown.
    #[must_use]
    pub fn inbox(&self) -> Value {
        let state = self.state.borrow().clone();
        let mut words = json!({
            "counters": state.counted.map(|counted| counted.counters.to_json()),
            "as_of": state.counted.map(|counted| counted.at),
            "fresh": state.fresh,
        });
        if let Some(trouble) = &state.trouble {
            words["trouble"] = trouble.as_str().into();
        }
        let waiting = self.store().acts().map_or(0, |acts| acts.iter().filter(|act| !act.over).count());
        words["waiting_acts"] = waiting.into();
        words
    }

    fn queue(&self) -> Result<Value, No> {
        let acts = self.store().acts().map_err(|fault| No::Wrong(fault.to_string()))?;
        let told = acts.into_iter().map(|act| {
            let mut words = json!({ "id": act.id, "over": act.over });
            for name in ["obligation_id", "doing", "queued_at", "outcome"] {
                if let Some(word) = act.words.get(name) {
                    words[name] = word.clone();
                }
            }
            if act.words.is_null() {
                words["outcome"] =
                    json!({ "error": { "code": "changed", "message": "was changed since it was written" } });
            }
            words
        });
        Ok(json!({ "acts": told.collect::<Vec<_>>() }))
    }

    /// An act: written down, then brought. Where the witness is not to be had it waits, and
    /// that is said.
    async fn act(&self, id: &ObligationId, revision: Option<u64>, doing: &Doing) -> Result<Value, No> {
        let words = json!({
            "obligation_id": id.as_str(), "revision": revision, "doing": written(doing), "queued_at": self.now().as_secs(),
        });
        let number = self.store().begin(&words).map_err(|fault| match fault {
            Fault::Full => No::Refused { code: "queue-full".to_owned(), sentence: fault.to_string() },
            other => No::Wrong(other.to_string()),
        })?;
        self.bring().await;
        self.catch_up.notify_one();
        let acts = self.store().acts().map_err(|fault| No::Wrong(fault.to_string()))?;
        let act = acts.into_iter().find(|act| act.id == number);
        let outcome = act.map(|act| act.words["outcome"].clone()).unwrap_or_default();
        if let Some(code) = outcome["error"]["code"].as_str() {
            let sentence = outcome["error"]["message"].as_str().unwrap_or("").to_owned();
            return Err(No::Refused { code: code.to_owned(), sentence });
        }
        match outcome.get("result") {
            Some(result) => Ok(result.clone()),
            None => Ok(json!({
                "queued": number,
                "why": outcome["waits"].as_str().unwrap_or("the witness was not reached"),
                "note": "it is signed and sent when the witness is there; wikala.obligation.queue says what became of it",
            })),
        }
    }

    /// Brings the acts that wait to the witness, oldest first, until one has to wait on.
    async fn bring(&self) {
        let _turn = self.turn.lock().await;
        let acts = match self.store().acts() {
            Ok(acts) => acts,
            Err(fault) => return tracing::error!(%fault, "acts that wait could not be read"),
        };
        for act in acts.into_iter().filter(|act| !act.over && !act.words.is_null()) {
            if !self.bring_one(act).await {
                return;
            }
        }
    }

    /// Brings one act. False: the witness is not to be had.
    async fn bring_one(&self, mut act: Kept) -> bool {
        let outcome = loop {
            let sent = match signed(&act.words) {
                // Sent before, perhaps: the same bytes are the same act, and get the same answer.
                Some(signed) => self.desk.send(self.now(), &signed).await,
                None => match self.first(&mut act).await {
                    Ok(signed) => self.desk.send(self.now(), &signed).await,
                    Err(no) => Err(no),
                },
            };
            match sent {
                // Never taken, and too old by now: signed again.
                Err(No::Refused { code, .. }) if code == "act-stale" && act.words["signed"]["again"] != true => {
                    act.words["signed"] = json!({ "again": true });
                }
                Ok(result) => break json!({ "result": result }),
                Err(no) if no.passes() => break json!({ "waits": no.sentence() }),
                Err(no) => break json!({ "error": { "code": no.code(), "message": no.sentence() } }),
            }
        };
        act.over = outcome.get("waits").is_none();
        act.words["outcome"] = outcome;
        if let Err(fault) = self.store().note(&act) {
            tracing::error!(%fault, act = act.id, "what became of an act could not be written down");
        }
        act.over
    }

    /// Signs an act, and writes down what is about to be sent before it is.
    async fn first(&self, act: &mut Kept) -> Result<Signed, No> {
        let wrong = || No::Wrong("act: cannot be read any more".to_owned());
        let id = act.words["obligation_id"].as_str().and_then(ObligationId::parse).ok_or_else(wrong)?;
        let doing = read(&act.words["doing"]).ok_or_else(wrong)?;
        let signed = self.desk.sign(self.now(), &id, act.words["revision"].as_u64(), &doing).await?;
        let again = act.words["signed"]["again"] == true;
        act.words["signed"] = json!({ "path": signed.path, "body": signed.body, "again": again });
        self.store().note(act).map_err(|fault| No::Lost(fault.to_string()))?;
        Ok(signed)
    }
}

/// What was signed and written down.
fn signed(words: &Value) -> Option<Signed> {
    let signed = &words["signed"];
    Some(Signed { path: signed["path"].as_str()?.to_owned(), body: signed.get("body")?.clone() })
}

fn written(doing: &Doing) -> Value {
    match doing {
        Doing::Accept => json!({ "what": "accept" }),
        Doing::Decline { reason } => json!({ "what": "decline", "reason": reason }),
        Doing::Progress { to, reason } => json!({ "what": "transition", "to": to, "reason": reason }),
        Doing::Cancel { reason } => json!({ "what": "cancel", "reason": reason }),
        Doing::Respond { failed, body, result } => {
            json!({ "what": "respond", "failed": failed, "body": body, "result": result })
        }
    }
}

fn read(words: &Value) -> Option<Doing> {
    let text = |name: &str| words[name].as_str().map(str::to_owned);
    Some(match words["what"].as_str()? {
        "accept" => Doing::Accept,
        "decline" => Doing::Decline { reason: text("reason")? },
        "transition" => Doing::Progress { to: text("to")?, reason: text("reason")? },
        "cancel" => Doing::Cancel { reason: text("reason")? },
        "respond" => Doing::Respond { failed: words["failed"].as_bool()?, body: text("body")?, result: text("result") },
        _ => return None,
    })
}

fn lock(dir: &Path) -> Result<File, Failure> {
    let failed = |error| Failure::environment(format!("dir: {} cannot be made ({error})", dir.display()));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let lock =
        File::options().create(true).truncate(false).write(true).mode(0o600).open(dir.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(_) => Err(Failure::environment(format!(
            "dir: another supervisor serves {}, one directory has one",
            dir.display()
        ))),
    }
}
