//! A guest of the demo: a key that calls the house over plain HTTP, as any client would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::Method;
use serde_json::{Value, json};
use wikala_certs::{Moment, Proof};
use wikala_chain::{PublicKey, SigningKey, VerifiedChain, nonce};
use wikala_witness::AgentId;

use crate::client::{Client, Signer};

/// What a JSON-RPC call came to.
#[derive(Debug, Clone)]
pub enum Said {
    /// Its result.
    Done(Value),
    /// Refused: our code, and the sentence.
    Refused(String, String),
}

impl Said {
    /// The refusal's code, `""` if it was not refused.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Said::Done(_) => "",
            Said::Refused(code, _) => code,
        }
    }

    /// The task of a result.
    #[must_use]
    pub fn task(&self) -> Value {
        match self {
            Said::Done(result) => result.get("task").cloned().unwrap_or_else(|| result.clone()),
            Said::Refused(..) => Value::Null,
        }
    }
}

/// A key with an HTTP client.
#[derive(Debug)]
pub struct Guest {
    /// What the story calls it.
    pub name: &'static str,
    /// Its key.
    pub key: Arc<SigningKey>,
    witness: PublicKey,
    url: String,
    http: Client,
    counter: AtomicU64,
}

impl Guest {
    /// A guest of the house at `url`.
    #[must_use]
    pub fn new(name: &'static str, key: Arc<SigningKey>, witness: PublicKey, url: &str, http: Client) -> Self {
        Guest { name, key, witness, url: url.to_owned(), http, counter: AtomicU64::new(0) }
    }

    /// A chain of one hop with the proof that it is presented here, to this agent, once.
    #[must_use]
    pub fn bag(&self, agent: &AgentId, now: Moment) -> Value {
        let chain = VerifiedChain::start(&self.key);
        let proof =
            Proof::present(&self.key, &self.witness, &agent.provider, &agent.name, Some(chain.tip()), &nonce(), now);
        json!({ "actorChain": chain.tokens().collect::<Vec<_>>(), "presenter": parsed(&proof.to_json()) })
    }

    /// The right to answer a run, as of `at`.
    #[must_use]
    pub fn resolution(&self, run: &str, at: Moment) -> Value {
        parsed(&Proof::resolve(&self.key, run, at).to_json())
    }

    /// The right to stop a run, as of `at`.
    #[must_use]
    pub fn cancellation(&self, run: &str, at: Moment) -> Value {
        parsed(&Proof::cancel(&self.key, run, at).to_json())
    }

    /// SendMessage.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn send(&self, agent: &AgentId, text: &str, ids: Value, bag: Value) -> Result<Said, String> {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({
            "messageId": format!("{}-{number}", self.name), "role": "ROLE_USER", "parts": [{ "text": text }],
        });
        let mut configuration = json!({});
        if let Some(ids) = ids.as_object() {
            for (name, value) in ids {
                let place = if name == "returnImmediately" { &mut configuration } else { &mut message };
                place[name] = value.clone();
            }
        }
        let params = json!({ "message": message, "configuration": configuration, "metadata": bag });
        self.call(agent, "SendMessage", params).await
    }

    /// Any JSON-RPC method at an agent's A2A door.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn call(&self, agent: &AgentId, method: &str, params: Value) -> Result<Said, String> {
        let url = format!("{}/a2a/{}/{}", self.url, agent.provider, agent.name.as_str());
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (_, answer) = self.http.post_json(&url, &body, &[("a2a-version", "1.0")]).await?;
        let Some(error) = answer.get("error") else { return Ok(Said::Done(answer["result"].clone())) };
        let infos = error["data"].as_array().cloned().unwrap_or_default();
        let code = infos.iter().rev().find_map(|info| info["metadata"]["code"].as_str()).unwrap_or("");
        Ok(Said::Refused(code.to_owned(), error["message"].as_str().unwrap_or("").to_owned()))
    }

    /// Any request at a path of the house; signed (RFC 9421) if there is a time for it.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn http(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        at: Option<Moment>,
    ) -> Result<Said, String> {
        let signer = at.map(|at| Signer { key: &self.key, at_s: at.as_secs() });
        let (status, words) = self.http.answer(method, &format!("{}{path}", self.url), body, &[], signer).await?;
        let words = words.unwrap_or_default();
        if status.is_success() {
            return Ok(Said::Done(words));
        }
        let word = |name: &str| words["error"][name].as_str().unwrap_or("").to_owned();
        Ok(Said::Refused(word("code"), word("message")))
    }

    /// `GET` a path of the house as anybody.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn read(&self, path: &str) -> Result<Value, String> {
        Ok(self.http.get_json(&format!("{}{path}", self.url)).await?.1)
    }
}

pub(super) fn parsed(text: &str) -> Value {
    // Our own serialisation of a proof: JSON by construction.
    serde_json::from_str(text).unwrap_or(Value::Null)
}
