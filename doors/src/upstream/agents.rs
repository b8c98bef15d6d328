//! The operator's changes to the upstream agents, as the control socket carries them, and
//! as they are made where nobody serves the directory.

use serde_json::{Value, json};
use wikala_certs::Consent;
use wikala_chain::{AgentName, PublicKey};
use wikala_witness::{AgentId, Dialect, NewUpstream, No, Reader, Upstream, Witness};

use crate::house::App;

/// What the operator wants.
#[derive(Debug)]
pub enum Change {
    /// Add an agent; what is wrong with the request, if something is.
    Add(Result<New, String>),
    /// Take one away.
    Remove(Result<AgentId, String>),
}

/// An agent to add; its provider's consent is not verified yet.
#[derive(Debug)]
pub struct New {
    name: AgentName,
    url: String,
    dialect: Dialect,
    consent: Consent,
    custodial: bool,
    headers: Option<String>,
}

impl New {
    /// Verifies the consent for this witness.
    ///
    /// # Errors
    /// The provider did not consent to that.
    pub fn verify(self, witness: &PublicKey) -> Result<NewUpstream, String> {
        let consent = self.consent.verify(witness, &self.name, &self.url).map_err(|error| error.to_string())?;
        Ok(NewUpstream { consent, dialect: self.dialect, custodial: self.custodial, headers: self.headers })
    }
}

impl Change {
    /// Reads `{"op":"agent-add", …}` or `{"op":"agent-remove", …}`; `None`: another request.
    #[must_use]
    pub fn read(request: &Value) -> Option<Change> {
        match request["op"].as_str()? {
            "agent-add" => Some(Change::Add(new(request))),
            "agent-remove" => Some(Change::Remove(named(request))),
            _ => None,
        }
    }
}

fn new(request: &Value) -> Result<New, String> {
    let text = |name: &str| request[name].as_str().ok_or_else(|| format!("{name}: missing"));
    Ok(New {
        name: crate::link::frames::agent_name(text("name")?)?,
        url: super::outbound::address(text("url")?).map_err(|error| format!("url: {error}"))?,
        dialect: match text("dialect")? {
            "a2a" => Dialect::A2a,
            "agui" => Dialect::AgUi,
            _ => return Err("dialect: neither a2a nor agui".to_owned()),
        },
        consent: Consent::parse(text("consent")?).map_err(|error| error.to_string())?,
        custodial: request["custodial"] == true,
        headers: request["headers"].as_str().map(str::to_owned),
    })
}

fn named(request: &Value) -> Result<AgentId, String> {
    let text = |name: &str| request[name].as_str().ok_or_else(|| format!("{name}: missing"));
    Ok(AgentId {
        provider: PublicKey::from_hex(text("provider")?).map_err(|error| error.to_string())?,
        name: AgentName::new(text("name")?).map_err(|error| error.to_string())?,
    })
}

/// Makes a change in a serving process: `{"ok": …}` or `{"error": sentence}`.
pub async fn change(app: &App, change: Change) -> Value {
    let done = match change {
        Change::Add(new) => match new.and_then(|new| new.verify(&app.public_key())) {
            Ok(new) => super::add(app, new).await.map(|id| added(&id, app.settings.public_url.as_str())),
            Err(why) => return json!({ "error": why }),
        },
        Change::Remove(Ok(id)) => super::remove(app, id).await.map(|()| json!({ "removed": true })),
        Change::Remove(Err(why)) => return json!({ "error": why }),
    };
    told(done)
}

/// Makes a change in a record that nobody serves.
pub fn change_at_rest(witness: &mut Witness, now: wikala_certs::Moment, change: Change) -> Value {
    let key = witness.public_key();
    let done = match change {
        Change::Add(new) => match new.and_then(|new| new.verify(&key)) {
            Ok(new) => witness.transact(|w| w.add_upstream(now, &new)).map(|(id, _)| added(&id, "")),
            Err(why) => return json!({ "error": why }),
        },
        Change::Remove(Ok(id)) => witness.transact(|w| w.remove_upstream(now, &id)).map(|_| json!({ "removed": true })),
        Change::Remove(Err(why)) => return json!({ "error": why }),
    };
    told(done)
}

fn told(done: Result<Value, No>) -> Value {
    match done {
        Ok(words) => json!({ "ok": words }),
        Err(no) => json!({ "error": no.to_string() }),
    }
}

fn added(id: &AgentId, public_url: &str) -> Value {
    let (provider, name) = (id.provider.to_hex(), id.name.as_str());
    json!({
        "provider": provider, "name": name,
        "a2a": format!("{public_url}/a2a/{provider}/{name}"), "agui": format!("{public_url}/agui/{provider}/{name}"),
    })
}

/// Every upstream agent as the operator sees it.
///
/// # Errors
/// Only faults.
pub fn list(reader: &Reader) -> Result<Value, No> {
    let mut all = Vec::new();
    for upstream in reader.upstreams()? {
        // Attached or not: no grace to be counted, so any moment does.
        let online = reader.agent(&upstream.agent, wikala_certs::Moment::from_secs(u64::MAX))?.online;
        all.push(words(&upstream, online));
    }
    Ok(all.into())
}

fn words(upstream: &Upstream, online: bool) -> Value {
    json!({
        "provider": upstream.agent.provider.to_hex(),
        "fingerprint": upstream.agent.provider.fingerprint().to_string(),
        "name": upstream.agent.name.as_str(),
        "carrier": carrier(Some(upstream.dialect)),
        "url": upstream.url,
        "online": online,
        "custodial": upstream.custodial,
        "headers": upstream.headers,
        "addedAt": upstream.added_at,
    })
}

/// What carries an agent, as the roster says it.
#[must_use]
pub fn carrier(upstream: Option<Dialect>) -> &'static str {
    match upstream {
        None => "link",
        Some(Dialect::A2a) => "a2a",
        Some(_) => "agui",
    }
}
