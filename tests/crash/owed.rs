//! kill -9 in the middle of an act on an obligation, after each statement that it writes: all
//! of it is on record or nothing is, and the same bytes sent again succeed.
//!
//! A trigger that counts to a number nobody reaches holds the witness at the statement; that
//! it is there is told by the lock on the file, not by time.

use std::path::Path;
use std::time::Duration;

use axum::http::Method;
use http_body_util::BodyExt;
use rusqlite::{Connection, ErrorCode};
use serde_json::{Value, json};
use wikala_certs::Deed;
use wikala_chain::{Digest, SigningKey};
use wikala_doors::client::{Client, Signer};

use super::{now, online, watched_provider};
use crate::a2a::{head, value};
use crate::obligations::{Owed, demand, plain, read, response, route};
use crate::process::{Served, key_file, ok};

/// The statements of each act, in the order they are written.
const STEPS: [(&str, &[&str]); 7] = [
    (
        "create",
        &[
            "UPDATE ON thread",
            "INSERT ON thread_actor",
            "INSERT ON run",
            "INSERT ON leg",
            "INSERT ON entry",
            "INSERT ON event",
            "INSERT ON delivery",
            "INSERT ON delivery_fact",
            "INSERT ON response_schema",
            "INSERT ON obligation",
            "INSERT ON transition",
            "INSERT ON spent_act",
        ],
    ),
    ("accept", &["INSERT ON ack", "INSERT ON transition", "UPDATE ON obligation", "INSERT ON spent_act"]),
    (
        "respond",
        &[
            "INSERT ON event",
            "INSERT ON delivery",
            "INSERT ON delivery_fact",
            "INSERT ON transition",
            "UPDATE ON obligation",
            "INSERT ON spent_act",
        ],
    ),
    ("cancel", &["INSERT ON transition", "UPDATE ON obligation", "INSERT ON spent_act"]),
    ("decline", &["INSERT ON ack", "INSERT ON transition", "UPDATE ON obligation", "INSERT ON spent_act"]),
    ("progress", &["INSERT ON transition", "UPDATE ON obligation", "INSERT ON spent_act"]),
    ("ack", &["UPDATE ON delivery", "INSERT ON delivery_fact", "INSERT ON spent_act"]),
];
/// Counts, and never ends.
const ENDLESS: &str =
    "SELECT count(*) FROM (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n)";
/// What an act may write.
const TABLES: [&str; 14] = [
    "thread WHERE head IS NOT NULL",
    "thread_actor",
    "entry",
    "delivery WHERE rank >= 3",
    "run",
    "leg",
    "event",
    "delivery",
    "delivery_fact",
    "response_schema",
    "obligation",
    "transition",
    "ack",
    "spent_act",
];

struct House {
    served: Option<Served>,
    listen: String,
    http: Client,
}

impl House {
    fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    fn served(&self) -> &Served {
        self.served.as_ref().expect("up")
    }

    fn record(&self) -> Connection {
        Connection::open(self.served().data.join("wikala.db")).expect("the record")
    }

    /// kill -9 and up again; `between` sees the file alone.
    fn again(&mut self, between: impl FnOnce(&Path)) {
        let data = self.served.take().expect("up").kill();
        between(&data.join("wikala.db"));
        self.served = Some(Served::on(&data, &self.listen, &[]));
    }

    /// Sends this, and kills the witness while it is held after that statement.
    async fn killed_at(&mut self, statement: &str, path: &str, body: &Value) {
        self.again(|file| {
            let db = Connection::open(file).expect("the record");
            db.execute_batch(&format!("CREATE TRIGGER held AFTER {statement} BEGIN {ENDLESS}; END")).expect(statement);
        });
        let db = self.record();
        db.busy_timeout(Duration::from_millis(400)).expect("set");
        {
            let sent = self.post(path, body);
            let held = async {
                while !is_held(&db) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                told = sent => panic!("{statement}: not held: {told:?}"),
                () = held => {}
            }
        }
        drop(db);
        self.again(|file| {
            Connection::open(file).expect("the record").execute_batch("DROP TRIGGER held").expect("dropped");
        });
    }

    async fn post(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let url = format!("{}{path}", self.url());
        let json = [("content-type", "application/json")];
        let sent = self.http.send(Method::POST, &url, Some(body.to_string().into_bytes()), &json, None).await;
        let (status, _, body) = sent.ok()?;
        let bytes = body.collect().await.ok()?.to_bytes();
        Some((status.as_u16(), serde_json::from_slice(&bytes).expect("JSON")))
    }

    /// A demand in a thread of its own.
    async fn demand(&self, id: &str) -> (String, Value) {
        let (status, made) =
            self.post(&format!("/threads/{}/helper", provider().public()), &json!({})).await.expect("up");
        assert_eq!(status, 201, "{made}");
        let thread = made["threadId"].as_str().expect("an id");
        let mut spec = plain();
        spec["response_schema_id"] = "s".into();
        spec["response_schema"] = json!({ "title": id });
        let body = demand(thread, &head(), id, &spec, now().as_secs());
        (format!("/v1/conversations/{thread}/actions"), body)
    }

    async fn owed(&self, id: &str) -> Owed {
        let (path, body) = self.demand(id).await;
        let (status, told) = self.post(&path, &body).await.expect("up");
        assert_eq!(status, 202, "{told}");
        read(&told)
    }

    /// The route and the body of an act on an obligation of its own.
    async fn act(&self, verb: &str, id: &str) -> (String, Value) {
        if verb == "create" {
            return self.demand(id).await;
        }
        let owed = self.owed(id).await;
        let obligation = owed.id.clone();
        let (key, deed) = match verb {
            "accept" => (provider(), Deed::Accept { obligation, revision: 1 }),
            "decline" => {
                let reason = "no".to_owned();
                let deed = Deed::Decline { obligation, revision: 1, reason };
                let act = value(&deed.sign(&provider(), now()));
                return (route(&owed.id, verb), json!({ "revision": 1, "decline_reason": "no", "act": act }));
            }
            "progress" => {
                let taken = Deed::Accept { obligation: obligation.clone(), revision: 1 };
                let body = json!({ "revision": 1, "act": value(&taken.sign(&provider(), now())) });
                assert_eq!(self.post(&route(&owed.id, "accept"), &body).await.expect("up").0, 200);
                let (to, reason) = ("in_progress".to_owned(), "progress".to_owned());
                let deed = Deed::Progress { obligation, revision: 2, to, reason };
                let act = value(&deed.sign(&provider(), now()));
                return (
                    route(&owed.id, "transition"),
                    json!({ "revision": 2, "to_state": "in_progress", "act": act }),
                );
            }
            "ack" => {
                let read = format!("{}/v1/response-obligations/{}", self.url(), owed.id);
                let (key, at_s) = (&head(), now().as_secs());
                let signed = self.http.json(Method::GET, &read, None, &[], Some(Signer { key, at_s })).await;
                let envelope = signed.expect("up").1["envelope_digest"].as_str().expect("a digest").to_owned();
                let digest = Digest::from_hex(&envelope).expect("a digest");
                let deed = Deed::MailboxAck { event: owed.event.clone(), envelope: digest };
                let act = value(&deed.sign(&provider(), now()));
                let body = json!({ "event_id": owed.event, "envelope_digest": envelope, "act": act });
                return ("/v1/mailbox/ack".to_owned(), body);
            }
            "cancel" => (head(), Deed::Cancel { obligation, revision: 1, reason: "requester_canceled".to_owned() }),
            _ => {
                let said = json!({ "response_schema_id": "s", "structured_response": 4 });
                return (route(&owed.id, "respond"), response(&provider(), &owed, &said, now().as_secs()));
            }
        };
        (route(&owed.id, verb), json!({ "revision": 1, "act": value(&deed.sign(&key, now())) }))
    }
}

fn provider() -> SigningKey {
    SigningKey::from_seed([0xC9; 32])
}

fn counts(db: &Connection) -> Vec<i64> {
    let count =
        |table: &&str| db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count");
    TABLES.iter().map(count).collect()
}

/// Held for longer than any commit takes: the witness is inside the step.
fn is_held(db: &Connection) -> bool {
    match db.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
        Ok(()) => false,
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::DatabaseBusy => true,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n31_an_act_is_whole_or_was_never_whatever_statement_a_kill_comes_after() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("house");
    ok(&["init", "--data", data.to_str().unwrap()]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let (file, _) = key_file(dir.path(), "provider", 0xC9);
    let served = Some(Served::on(&data, &listen, &[]));
    let mut house = House { served, listen, http: Client::new() };
    {
        // Once, so that it is known; what it would do with the requests does not matter here.
        let _provider = watched_provider(&house.url(), &file, &std::sync::Arc::default());
        online(&house.url()).await;
    }
    for (verb, steps) in STEPS {
        for step in steps {
            let id = format!("{verb} {step}");
            let (path, body) = house.act(verb, &id).await;
            let before = counts(&house.record());
            house.killed_at(step, &path, &body).await;
            assert_eq!(counts(&house.record()), before, "{id}: nothing of it");
            let (status, told) = house.post(&path, &body).await.expect("up");
            assert!(matches!(status, 200 | 202), "{id}: {status} {told}");
            let after = counts(&house.record());
            assert_ne!(after, before, "{id}");
            // And again: the stored result.
            let (status, told) = house.post(&path, &body).await.expect("up");
            let duplicate = told.get("obligation").unwrap_or(&told)["duplicate"].clone();
            // A receipt is the same each time.
            let again = duplicate == true || verb == "ack";
            assert!(matches!(status, 200 | 202) && again, "{id}: {status} {told}");
            assert_eq!(counts(&house.record()), after, "{id}");
        }
    }
    // What was answered is answered the same by whoever is up.
    let accept = house.act("accept", "n23").await;
    assert_eq!(house.post(&accept.0, &accept.1).await.expect("up").1["duplicate"], false);
    house.again(|_| {});
    assert_eq!(house.post(&accept.0, &accept.1).await.expect("up").1["duplicate"], true);
    // Between the commit and the answer: what was asked is there, and said to be.
    let (path, body) = house.demand("committed").await;
    house.killed_at("INSERT ON delivery_fact WHEN NEW.fact = 'delivered'", &path, &body).await;
    let (status, told) = house.post(&path, &body).await.expect("up");
    assert_eq!((status, &told["obligation"]["duplicate"]), (202, &json!(true)), "{told}");
}
