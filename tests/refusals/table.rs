//! The table itself: a request that must be refused, and what is looked at when it was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::Value;
use wikala_chain::SigningKey;
use wikala_doors::presenter;

use super::codes;
use super::stage::Stage;

/// Where a caller knocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// `/a2a`, JSON-RPC.
    A2a,
    /// Below it, HTTP+JSON.
    Rest,
    /// `/agui`.
    AgUi,
    /// Our own routes: `/v1`, `/threads`, `/tickets`.
    Ours,
}

impl At {
    pub const ALL: [At; 4] = [At::A2a, At::Rest, At::AgUi, At::Ours];
}

/// One request.
#[derive(Debug, Clone)]
pub struct Ask {
    pub at: At,
    pub method: Method,
    pub path: String,
    pub body: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
    /// The JSON-RPC method, else method and path.
    pub name: String,
    /// The same by the other binding, signed by who signed this one.
    pub signed_twin: Option<Box<Ask>>,
}

impl Ask {
    pub fn with(mut self, name: &str, value: &str) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Signed by RFC 9421 as it is sent, to this house.
    pub fn signed(self, stage: &Stage, key: &SigningKey) -> Ask {
        self.signed_as_of(stage, key, stage.house.now())
    }

    pub fn signed_as_of(self, stage: &Stage, key: &SigningKey, at_s: u64) -> Ask {
        let target = format!("{}{}", stage.house.url, self.path);
        self.signed_for(key, &target, at_s)
    }

    /// Signed for whatever target.
    pub fn signed_for(mut self, key: &SigningKey, target: &str, at_s: u64) -> Ask {
        self.signed_twin = self.twin().map(|twin| {
            let target = target.replace(&self.path, &twin.path);
            Box::new(twin.signed_for(key, &target, at_s))
        });
        let nonce = wikala_chain::nonce();
        for (name, value) in presenter::sign(key, self.method.as_str(), target, self.body.as_deref(), at_s, &nonce) {
            self.headers.push((name.to_string(), value.to_str().expect("printable").to_owned()));
        }
        self
    }

    /// Changed after it was signed, by both bindings alike.
    pub fn changed(mut self, change: fn(&mut Ask)) -> Ask {
        self.signed_twin.as_deref_mut().into_iter().for_each(change);
        change(&mut self);
        self
    }

    /// The same asked by A2A's other binding: what JSON-RPC refuses, HTTP+JSON refuses too.
    fn twin(&self) -> Option<Ask> {
        if let Some(twin) = &self.signed_twin {
            return Some(Ask::clone(twin));
        }
        if self.at != At::A2a || self.method != Method::POST || self.path.split('/').count() != 4 {
            return None;
        }
        let text = self.body.as_deref().and_then(|body| std::str::from_utf8(body).ok());
        let request: Option<Value> = text
            .filter(|text| wikala_chain::json::check(text).is_ok())
            .and_then(|text| serde_json::from_str(text).ok());
        let mut params = request.as_ref().map(|request| request["params"].clone());
        let task = params.as_ref().and_then(|params| params["id"].as_str()).unwrap_or("").to_owned();
        let (below, name) = match self.name.as_str() {
            "SendMessage" => ("message:send".to_owned(), "send"),
            "SendStreamingMessage" => ("message:stream".to_owned(), "stream"),
            "GetTask" => (format!("tasks/{task}"), "get"),
            "CancelTask" => (format!("tasks/{task}:cancel"), "cancel"),
            "SubscribeToTask" => (format!("tasks/{task}:subscribe"), "subscribe"),
            _ => ("message:send".to_owned(), "send"),
        };
        if let Some(params) = params.as_mut().and_then(Value::as_object_mut) {
            params.remove("id");
        }
        let body = params.map_or_else(|| self.body.clone(), |params| Some(params.to_string().into_bytes()));
        let get = name == "get";
        Some(Ask {
            at: At::Rest,
            method: if get { Method::GET } else { Method::POST },
            path: format!("{}/{below}", self.path),
            body: body.filter(|_| !get),
            name: name.to_owned(),
            headers: self.headers.clone(),
            signed_twin: None,
        })
    }

    /// Sends it: status, headers, body. A stream that begins is not waited for.
    pub async fn send(&self, stage: &Stage) -> Result<(u16, HeaderMap, Value), String> {
        let url = format!("{}{}", stage.base, self.path);
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let whole = async {
            let sent = stage.http.send(self.method.clone(), &url, self.body.clone(), &headers, None).await;
            let (status, headers, body) = sent?;
            if headers.get("content-type").is_some_and(|kind| kind == "text/event-stream") {
                return Ok((status.as_u16(), headers, Value::Null));
            }
            let bytes = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok((status.as_u16(), headers, serde_json::from_str(&text).map_err(|_| format!("no JSON: {text}"))?))
        };
        let patience = Duration::from_secs(10);
        tokio::time::timeout(patience, whole).await.unwrap_or_else(|_| Err("no answer: it was taken".to_owned()))
    }
}

/// Which codes were met where, by which requests; and what was wrong.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<(String, At), BTreeSet<String>>,
    wrong: Vec<String>,
    cases: usize,
}

impl Table {
    /// Each of these is refused by this code, in the right shape, and nothing moves.
    pub async fn refused(&mut self, stage: &Stage, code: &str, why: &str, asks: impl IntoIterator<Item = Ask>) {
        let asks = asks.into_iter().flat_map(|ask| [ask.twin(), Some(ask)].into_iter().flatten());
        for ask in asks {
            let before = stage.record();
            let said = ask.send(stage).await;
            let judged = said.and_then(|(status, headers, body)| shape(&ask, code, status, &headers, &body));
            if let Err(fact) = judged {
                self.note(format!("{code} at {:?}, {} ({why}): {fact}", ask.at, ask.name));
            }
            let after = stage.record();
            for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
                if before.get(name) != after.get(name) {
                    let now = after.get(name);
                    self.note(format!("{code} at {:?}, {} ({why}): {name} moved to {now:?}", ask.at, ask.name));
                }
            }
            self.cases += 1;
            self.rows.entry((code.to_owned(), ask.at)).or_default().insert(ask.name);
        }
    }

    /// Something else about a case that is not as it must be.
    pub fn must(&mut self, holds: bool, what: &str) {
        if !holds {
            self.note(what.to_owned());
        }
    }

    /// Said at once too: a later scene may not get as far as the end.
    fn note(&mut self, wrong: String) {
        println!("{wrong}");
        self.wrong.push(wrong);
    }

    /// Every code has a case at every door it claims, and at no other.
    pub fn close(mut self) {
        println!("| code | A2A | HTTP+JSON | AG-UI | ours |\n|---|---|---|---|---|");
        let mut known = BTreeSet::new();
        for code in codes::all() {
            let name = code.as_str();
            known.insert(name.to_owned());
            let met = codes::met(code);
            let cells = At::ALL.map(|at| {
                let rows = self.rows.get(&(name.to_owned(), at));
                match (met[at as usize], rows) {
                    (None, Some(rows)) => rows.iter().cloned().collect::<Vec<_>>().join(", "),
                    (None, None) => {
                        self.wrong.push(format!("{name}: has a door at {at:?} and no case there"));
                        "MISSING".to_owned()
                    }
                    (Some(why), rows) => {
                        // The sentence would be untrue.
                        if rows.is_some() {
                            self.wrong.push(format!("{name}: met at {at:?}, where it is said not to be ({why})"));
                        }
                        format!("*{why}*")
                    }
                }
            });
            println!("| `{name}` | {} |", cells.join(" | "));
        }
        for (code, at) in self.rows.keys() {
            if !known.contains(code) {
                self.wrong.push(format!("{code}: at {at:?}, in no list of codes"));
            }
        }
        println!("{} codes, {} requests refused", known.len(), self.cases);
        assert!(self.wrong.is_empty(), "\n{}", self.wrong.join("\n"));
    }
}

/// The shape of wire.md: *Refusals*.
fn shape(ask: &Ask, code: &str, status: u16, headers: &HeaderMap, body: &Value) -> Result<(), String> {
    let differ = |what: &str, got: &dyn std::fmt::Debug, wanted: &dyn std::fmt::Debug| {
        Err(format!("{what} is {got:?} instead of {wanted:?} in {body}"))
    };
    let error = &body["error"];
    let sentence = error["message"].as_str().ok_or_else(|| format!("{status}, not refused: {body}"))?;
    if headers.get("cache-control").is_none_or(|value| value != "no-store") {
        return Err("may be kept by a cache".to_owned());
    }
    // The agent card is a plain GET, and the router speaks before any envelope is read.
    let router = codes::of_the_router(code);
    let ours = |infos: &Value| -> Result<Value, String> {
        let infos = infos.as_array().ok_or("no details")?;
        let info = infos.iter().find(|info| info["domain"] == "wikala").ok_or_else(|| format!("not ours: {body}"))?;
        if info["metadata"]["code"] != code || info["reason"] != code.replace('-', "_").to_uppercase() {
            return Err(format!("code is {info} instead of {code}"));
        }
        // The loser is told who was first, and when.
        let winner = ["answeredBy", "answeredAt"].map(|name| info["metadata"][name].is_string());
        if winner != [code == "already-answered"; 2] {
            return Err(format!("winner in {info}"));
        }
        if infos.iter().any(|info| info["@type"] != "type.googleapis.com/google.rpc.ErrorInfo") {
            return Err(format!("type in {body}"));
        }
        Ok(infos[0].clone())
    };
    if ask.at == At::Rest {
        let first = ours(&error["details"])?;
        // The SDK that reads one of them reads the first: its reason must be the protocol's own.
        if (&first["domain"], &first["metadata"]["code"]) != (&"a2a-protocol.org".into(), &code.into()) {
            return differ("first", &first, &"a2a-protocol.org");
        }
        let wanted = codes::rest_status(code, &ask.name);
        if (status, error["code"].as_u64()) != (wanted, Some(u64::from(wanted))) || !error["status"].is_string() {
            return differ("status", &(status, error), &wanted);
        }
    } else if ask.at == At::A2a && ask.method == Method::POST && !router {
        let first = ours(&error["data"])?;
        let number = codes::number(code, &ask.name);
        if (status, error["code"].as_i64()) != (200, Some(number)) {
            return differ("number", &(status, &error["code"]), &number);
        }
        // A number of the protocol's own comes with the protocol's own reason, first.
        if number != -32600 && first["domain"] != "a2a-protocol.org" {
            return differ("domain", &first, &"a2a-protocol.org");
        }
    } else {
        let wanted = codes::status(code);
        if (status, error["code"].as_str()) != (wanted, Some(code)) {
            return differ("code", &(status, &error["code"]), &(wanted, code));
        }
        let members = codes::members(code);
        let names = error.as_object().map(|error| error.keys().map(String::as_str).collect::<Vec<_>>());
        if names.as_deref() != Some(members) || body.as_object().map(serde_json::Map::len) != Some(1) {
            return differ("body", body, &members);
        }
        if matches!(status, 429 | 503) && !headers.contains_key("retry-after") {
            return Err("does not say when to try again".to_owned());
        }
    }
    if code == "method-not-allowed" && !headers.contains_key("allow") {
        return Err("does not say which methods there are (RFC 9110, 15.5.6)".to_owned());
    }
    sentence_holds(sentence)
}

/// *place: fact, expectation*: lower case, no full stop, keys as fingerprints.
fn sentence_holds(sentence: &str) -> Result<(), String> {
    let place = sentence.split_once(": ").map_or("", |(place, _)| place);
    let lower = sentence.starts_with(|c: char| c.is_ascii_lowercase());
    let whole_key = sentence.split(|c: char| !c.is_ascii_hexdigit()).any(|word| word.len() >= 64);
    if place.is_empty() || place.len() > 24 || !lower || sentence.ends_with('.') || whole_key {
        return Err(format!("not \"place: fact, expectation\": {sentence:?}"));
    }
    Ok(())
}
