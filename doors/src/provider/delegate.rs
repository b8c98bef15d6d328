//! Handing work on, as an agent does: over the A2A door, with its own key, in one of
//! five ways that differ in what they show.

use serde_json::{Value, json};
use wikala_certs::Proof;
use wikala_chain::{Chain, PrefixCache, PublicKey, SigningKey, VerifiedChain, nonce};

use super::script::{Delegation, Way};
use crate::client::{Client, Signer};
use crate::desk::Clock;

/// Who hands on, and where.
pub(super) struct Desk<'a> {
    pub(super) http: &'a Client,
    pub(super) url: &'a str,
    pub(super) witness: PublicKey,
    pub(super) key: &'a SigningKey,
    pub(super) clock: &'a Clock,
}

impl Desk<'_> {
    /// Sends, waits, and tells what the other agent said.
    ///
    /// # Errors
    /// One sentence: what was not possible, or refused.
    pub(super) async fn hand_on(&self, delegation: &Delegation, input: &Value) -> Result<String, String> {
        let now = self.clock.now();
        let to = &delegation.to;
        let mut bag = json!({});
        let mut message = json!({
            "messageId": format!("handed-{}", nonce()), "role": "ROLE_USER", "parts": [{ "text": delegation.text }],
        });
        if let Some(chain) = self.chain(delegation.way, &input["forwardedProps"]["actorChain"])? {
            let proof =
                Proof::present(self.key, &self.witness, &to.provider, &to.name, Some(chain.tip()), &nonce(), now);
            bag["actorChain"] = chain.tokens().collect();
            bag["presenter"] = serde_json::from_str(&proof.to_json()).map_err(|error| error.to_string())?;
        }
        if delegation.way == Way::Extend {
            message["referenceTaskIds"] = json!([input["runId"]]);
        }
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message, "metadata": bag },
        });
        let signer = (delegation.way == Way::Bare).then(|| Signer { key: self.key, at_s: now.as_secs() });
        let url = format!("{}/a2a/{}/{}", self.url, to.provider, to.name.as_str());
        let (_, answer) =
            self.http.json(axum::http::Method::POST, &url, Some(&body), &[("a2a-version", "1.0")], signer).await?;
        match answer["error"]["message"].as_str() {
            Some(refusal) => Err(refusal.to_owned()),
            None => Ok(texts(&answer["result"]["task"])),
        }
    }

    /// The chain that goes along; `None` in the two ways without one.
    fn chain(&self, way: Way, delivered: &Value) -> Result<Option<VerifiedChain>, String> {
        let extended = |drop: usize| {
            let mut tokens: Vec<String> = serde_json::from_value(delivered.clone())
                .map_err(|_| "no chain was delivered with this run".to_owned())?;
            tokens.truncate(tokens.len().saturating_sub(drop));
            let chain = Chain::parse(tokens).and_then(|chain| chain.verify(&PrefixCache::disabled()));
            chain.and_then(|chain| chain.extend(self.key)).map(Some).map_err(|error| error.to_string())
        };
        match way {
            Way::Extend => extended(0),
            // Its last hop is the witness's dispatch to us.
            Way::Strip => extended(1),
            Way::Fresh => Ok(Some(VerifiedChain::start(self.key))),
            Way::Bare | Way::Anon => Ok(None),
        }
    }
}

/// The texts of a task's artifacts.
fn texts(task: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let texts: Vec<String> = list(&task["artifacts"])
        .iter()
        .flat_map(|artifact| list(&artifact["parts"]))
        .filter_map(|part| part["text"].as_str().map(str::to_owned))
        .collect();
    match (texts.is_empty(), task["status"]["state"].as_str()) {
        (false, _) => texts.join("\n"),
        (true, state) => format!("nothing ({})", state.unwrap_or("no task")),
    }
}
