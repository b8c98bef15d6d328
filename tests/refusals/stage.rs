//! A house with somebody at every door, the record beside it, and requests in all the
//! ways they can be made.

use std::collections::BTreeMap;

use axum::http::Method;
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::{Value, json};
use wikala_chain::SigningKey;
use wikala_doors::client::Client;
use wikala_witness::{AgentId, Policy, RunId};

use super::table::{Ask, At};
use crate::a2a::{self, Caller};
use crate::agui;
use crate::house::{Puppet, TestHouse};

pub(crate) use crate::a2a::{cancel, certificate, head, message, provider, resolve, stranger};

/// A short-lived key of the head's.
pub fn session() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

/// An id of the right form that nobody was given.
pub fn nobody(prefix: &str) -> String {
    format!("{prefix}_{}", "0".repeat(24))
}

pub struct Stage {
    pub house: TestHouse,
    pub puppet: Puppet,
    pub caller: Caller,
    pub agent: AgentId,
    pub http: Client,
    /// Where requests go: the house's address, unless a case says otherwise.
    pub base: String,
    db: Connection,
}

/// A run of the head's that asked.
pub struct Paused {
    pub run: RunId,
    pub thread: String,
    ids: Vec<String>,
}

impl Stage {
    pub async fn open() -> Stage {
        Self::with(Policy::default()).await
    }

    pub async fn with(policy: Policy) -> Stage {
        Self::of(TestHouse::with(policy).await).await
    }

    pub async fn of(house: TestHouse) -> Stage {
        let puppet = Puppet::attach(&house, &provider(), "ask").await;
        let (agent, base) = (puppet.agent.clone(), house.url.clone());
        let db = Connection::open(house.file()).expect("the record");
        let caller = Caller::of(&house, &agent);
        Stage { caller, puppet, agent, http: Client::new(), base, db, house }
    }

    /// Every row of every table, read past the program. A refusal has nothing that may
    /// legitimately move: no counter, no serial number, no time.
    pub fn record(&self) -> BTreeMap<String, Vec<Vec<Cell>>> {
        let mut names = self.db.prepare_cached("SELECT name FROM sqlite_schema WHERE type = 'table'").expect("names");
        let names = names.query_map([], |row| row.get::<_, String>(0)).expect("names");
        let mut all = BTreeMap::new();
        for name in names.map(|name| name.expect("a name")) {
            let mut table = self.db.prepare_cached(&format!("SELECT * FROM \"{name}\"")).expect("a table");
            let width = table.column_count();
            let rows = table.query_map([], |row| (0..width).map(|n| row.get(n)).collect()).expect("rows");
            all.insert(name, rows.collect::<Result<_, _>>().expect("rows"));
        }
        all
    }

    /// Does something to the record that no door can.
    pub fn tamper(&self, sql: &str) {
        self.db.execute_batch(sql).expect("done to the record");
    }

    pub fn now(&self) -> u64 {
        self.house.now()
    }

    /// A chain of one hop, presented here, once.
    pub fn bag(&self, key: &SigningKey) -> Value {
        self.caller.bag(key, self.now())
    }

    /// The bag with other members.
    pub fn bag_with(&self, key: &SigningKey, members: Value) -> Value {
        agui::with(self.bag(key), members)
    }

    /// `{"resolution": ...}` by this key for this run, now.
    pub fn act(&self, key: &SigningKey, run: &RunId) -> Value {
        json!({ "resolution": resolve(key, run.as_str(), self.now()) })
    }

    /// A run of the head's, taken by its agent.
    pub async fn running(&mut self) -> Paused {
        let said = a2a::at_once(message("go", json!({}), self.bag(&head())));
        let task = self.caller.task("SendMessage", said).await;
        let run = self.puppet.take().await.run;
        self.puppet.begins(&run).await;
        assert_eq!(task["id"], run.as_str());
        Paused { run, thread: task["contextId"].as_str().expect("a thread").to_owned(), ids: Vec::new() }
    }

    /// A run of the head's that waits for these.
    pub async fn paused(&mut self, ids: &[&str]) -> Paused {
        let mut paused = self.running().await;
        self.asks(&mut paused, ids).await;
        paused
    }

    /// The agent of this run stops and asks for these.
    pub async fn asks(&self, run: &mut Paused, ids: &[&str]) {
        self.puppet.asks(&run.run, ids).await;
        run.ids = ids.iter().map(|id| (*id).to_owned()).collect();
    }

    /// The head answers, and the agent goes on.
    pub async fn answered(&mut self, paused: &Paused, act: &Value) {
        let [.., ours] = self.answers(paused, paused.entries("first"), act.clone());
        let (status, _, body) = ours.send(self).await.expect("an answer");
        assert_eq!(status, 200, "{body}");
        assert_eq!(self.puppet.take().await.run, paused.run);
        self.puppet.begins(&paused.run).await;
    }

    /// Where the agent is spoken to by A2A.
    pub fn address(&self) -> String {
        format!("/a2a/{}/{}", self.agent.provider, self.agent.name.as_str())
    }

    pub fn a2a(&self, method: &str, params: Value) -> Ask {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let ask = self.raw(At::A2a, Method::POST, &self.address(), Some(body.to_string()));
        Ask { name: method.to_owned(), ..ask.with("a2a-version", "1.0") }
    }

    pub fn agui(&self, body: Value) -> Ask {
        let agent = format!("{}/{}", self.agent.provider, self.agent.name.as_str());
        let lane = if body["resume"].is_null() { "run" } else { "resume" };
        let ask = self.raw(At::AgUi, Method::POST, &format!("/agui/{agent}"), Some(body.to_string()));
        Ask { name: lane.to_owned(), ..ask }
    }

    pub fn post(&self, path: &str, body: Value) -> Ask {
        self.raw(At::Ours, Method::POST, path, Some(body.to_string()))
    }

    pub fn get(&self, path: &str) -> Ask {
        self.raw(At::Ours, Method::GET, path, None)
    }

    pub fn raw(&self, at: At, method: Method, path: &str, body: Option<String>) -> Ask {
        let name = format!("{method} {}", route(path));
        let headers = body.iter().map(|_| ("content-type".to_owned(), "application/json".to_owned())).collect();
        Ask { at, method, path: path.to_owned(), body: body.map(String::into_bytes), headers, name, signed_twin: None }
    }

    /// An utterance with this bag, in each way a caller can say it.
    pub fn speaks(&self, bag: Value) -> [Ask; 3] {
        self.speaks_in(json!({}), "a-name", bag)
    }

    /// The same in a thread.
    pub fn speaks_there(&self, thread: &str, bag: Value) -> [Ask; 3] {
        self.speaks_in(json!({ "contextId": thread }), thread, bag)
    }

    fn speaks_in(&self, place: Value, thread: &str, bag: Value) -> [Ask; 3] {
        let said = message("x", place, bag.clone());
        [
            self.a2a("SendMessage", said.clone()),
            self.a2a("SendStreamingMessage", said),
            self.agui(agui::body(thread, "r", bag)),
        ]
    }

    /// An answer with this bag through each door, ours last. That route takes the act and
    /// the certificate out of it.
    pub fn answers(&self, paused: &Paused, entries: Value, bag: Value) -> [Ask; 4] {
        let mut told = message("", json!({ "taskId": paused.run.as_str() }), bag.clone());
        told["message"]["parts"] = json!([{ "data": entries }]);
        let resume = agui::with(agui::body(&paused.thread, "r", bag.clone()), json!({ "resume": entries }));
        let ours = json!({
            "answer": entries.to_string(), "asks": paused.ids,
            "resolution": bag["resolution"], "delegation": bag["delegation"],
        });
        let path = format!("/v1/runs/{}/answer", paused.run);
        [
            self.a2a("SendMessage", told.clone()),
            self.a2a("SendStreamingMessage", told),
            self.agui(resume),
            self.post(&path, ours),
        ]
    }

    /// A request to stop with this bag, where one can be made.
    pub fn cancels(&self, run: &str, bag: Value) -> [Ask; 2] {
        let ours = json!({ "cancel": bag["cancel"], "delegation": bag["delegation"] });
        [
            self.a2a("CancelTask", json!({ "id": run, "metadata": bag })),
            self.post(&format!("/v1/runs/{run}/cancel"), ours),
        ]
    }
}

impl Paused {
    /// An entry for each open item.
    pub fn entries(&self, payload: &str) -> Value {
        self.ids.iter().map(|id| agui::entry(id, payload)).collect()
    }
}

/// A path without its ids.
fn route(path: &str) -> String {
    let path = path.split('?').next().unwrap_or(path);
    match path.split('/').collect::<Vec<_>>()[..] {
        ["", "v1", "runs", _] => "/v1/runs/{id}".to_owned(),
        ["", "v1", "runs", _, what] => format!("/v1/runs/{{id}}/{what}"),
        ["", "threads", _] => "/threads/{id}".to_owned(),
        ["", "threads", _, "tree"] => "/threads/{id}/tree".to_owned(),
        ["", door @ ("threads" | "a2a" | "agui"), _, _] => format!("/{door}/{{provider}}/{{name}}"),
        ["", "a2a", _, _, _, _] => "agent-card.json".to_owned(),
        _ => path.to_owned(),
    }
}
