//! A server by hand, that says exactly what a test gives it and keeps what it was sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// What to answer.
#[derive(Debug, Clone)]
pub enum Say {
    /// An event stream of these, each as it stands; then it ends.
    Stream(Vec<String>),
    /// An event stream that goes on without a word.
    Hang(Vec<String>),
    /// A whole answer.
    Whole(u16, &'static str, String),
    /// Elsewhere.
    Redirect(String),
}

/// What was sent.
#[derive(Debug, Clone)]
pub struct Sent {
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

/// The server.
#[derive(Debug, Clone)]
pub struct Fake {
    pub url: String,
    answers: Arc<Mutex<VecDeque<(String, Say)>>>,
    sent: Arc<Mutex<Vec<Sent>>>,
    /// Streams without an end that somebody still listens to.
    pub listened: Arc<AtomicUsize>,
}

struct Listened(Arc<AtomicUsize>);

impl Drop for Listened {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fake {
    /// Listens; with a card of an A2A agent that streams.
    pub async fn open() -> Fake {
        Fake::at("127.0.0.1:0").await
    }

    /// The same, at an address.
    pub async fn at(address: &str) -> Fake {
        let listener = tokio::net::TcpListener::bind(address).await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let fake = Fake { url, answers: Arc::default(), sent: Arc::default(), listened: Arc::default() };
        let router = Router::new().fallback(answer).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    /// What to answer to the next request whose body or path holds these words.
    pub fn say(&self, to: &str, say: Say) -> &Fake {
        self.answers.lock().expect("whole").push_back((to.to_owned(), say));
        self
    }

    /// What was sent that holds these words, in order.
    pub fn sent(&self, with: &str) -> Vec<Sent> {
        let sent = self.sent.lock().expect("whole");
        sent.iter().filter(|sent| sent.body.contains(with) || sent.path.contains(with)).cloned().collect()
    }
}

/// A JSON-RPC result as a stream event.
pub fn frame(result: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string()
}

/// A JSON-RPC result, whole.
pub fn whole(result: Value) -> Say {
    Say::Whole(200, "application/json", frame(result))
}

/// A JSON-RPC error, whole.
pub fn error(code: i64) -> Say {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": "no" } });
    Say::Whole(200, "application/json", body.to_string())
}

/// A status of the task `t` in the context `c`.
pub fn status(state: &str) -> Value {
    json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": format!("TASK_STATE_{state}"), "timestamp": "2026-01-01T00:00:00Z" } } })
}

/// The task `t`, as it is.
pub fn task(state: &str) -> Value {
    json!({ "id": "t", "contextId": "c", "status": { "state": format!("TASK_STATE_{state}"), "timestamp": "2026-01-01T00:00:00Z" } })
}

async fn answer(State(fake): State<Fake>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await.expect("a body").to_bytes().to_vec()).expect("text");
    let path = parts.uri.path().to_owned();
    if path.ends_with("agent-card.json") {
        let card = json!({
            "name": "fake", "description": "d", "version": "1",
            "capabilities": { "streaming": true, "extensions": [{ "uri": "urn:optional" }] },
            "supportedInterfaces": [{ "url": fake.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        });
        return axum::Json(card).into_response();
    }
    fake.sent.lock().expect("whole").push(Sent { path: path.clone(), headers: parts.headers, body: body.clone() });
    let say = {
        let mut answers = fake.answers.lock().expect("whole");
        let at = answers.iter().position(|(to, _)| body.contains(to) || path.contains(to));
        at.and_then(|at| answers.remove(at)).map(|(_, say)| say)
    };
    let stream = |frames: &[String]| -> Vec<Result<String, std::io::Error>> {
        frames.iter().map(|frame| Ok(format!("data: {frame}\n\n"))).collect()
    };
    let events = [("content-type", "text/event-stream")];
    match say {
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Some(Say::Stream(frames)) => {
            (events, Body::from_stream(futures_util::stream::iter(stream(&frames)))).into_response()
        }
        Some(Say::Hang(frames)) => {
            use futures_util::StreamExt;
            fake.listened.fetch_add(1, Ordering::SeqCst);
            let listened = Listened(fake.listened.clone());
            let rest = futures_util::stream::pending().inspect(move |_: &Result<_, _>| {
                let _ = &listened;
            });
            let frames = futures_util::stream::iter(stream(&frames)).chain(rest);
            (events, Body::from_stream(frames)).into_response()
        }
        Some(Say::Whole(status, media, text)) => {
            (StatusCode::from_u16(status).expect("a status"), [("content-type", media)], text).into_response()
        }
        Some(Say::Redirect(to)) => (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response(),
    }
}
