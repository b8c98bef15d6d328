//! `wikala agent`: agents behind HTTP, added and removed by the operator alone.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use wikala_certs::Consent;
use wikala_chain::{AgentName, PublicKey, SigningKey};
use wikala_witness::{Dialect, Policy, Witness};

use super::{AgentAt, AgentBy, AgentCommand, io, keys, operator, serve};
use crate::exit::Failure;
use crate::link::frames::agent_name;
use crate::serve as house;
use crate::upstream::agents::{self, Change};
use crate::upstream::outbound::Outbound;
use crate::upstream::peer::Peer;

/// Where keys that the witness holds for its agents are kept, below the data directory.
const CUSTODY: &str = "custody";
/// How long an agent that is added is waited for, once.
const FIRST_TRY: Duration = Duration::from_secs(5);

pub(super) fn run(command: AgentCommand) -> Result<(), Failure> {
    match command {
        AgentCommand::Add { data, name, at, by, headers } => add(&data, &name, &at, &by, headers),
        AgentCommand::List { data } => operator::print(&operator::ask(&data, &json!({ "op": "agents" }))?),
        AgentCommand::Remove { data, name, provider } => remove(&data, &name, provider.as_deref()),
        AgentCommand::Check { at, headers } => check(&at, headers.as_deref()),
        AgentCommand::Consent { key, witness, name, url } => {
            let (key, name) = (io::key(&key)?, named(&name)?);
            let url = crate::upstream::outbound::address(&url).map_err(|why| Failure::usage(format!("url: {why}")))?;
            io::say(Consent::sign(&key, &io::public("witness", &witness)?, &name, &url).to_json())
        }
    }
}

fn named(name: &str) -> Result<AgentName, Failure> {
    agent_name(name).map_err(Failure::usage)
}

impl AgentAt {
    /// Clap asks for exactly one of the two.
    fn split(&self) -> (Dialect, &str) {
        match (&self.a2a, &self.agui) {
            (Some(url), _) => (Dialect::A2a, url),
            (None, url) => (Dialect::AgUi, url.as_deref().unwrap_or_default()),
        }
    }
}

fn add(data: &Path, name: &str, at: &AgentAt, by: &AgentBy, headers: Option<PathBuf>) -> Result<(), Failure> {
    let (name, (dialect, url)) = (named(name)?, at.split());
    let headers = headers.map(|file| {
        // Read here once, so that a mistake is told to who made it, and not only logged.
        Outbound::open(Some(&file)).map_err(Failure::environment)?;
        std::path::absolute(&file).map_err(|error| Failure::environment(format!("headers: {error}")))
    });
    let headers = headers.transpose()?;
    let witness = public_key(data)?;
    let consent = match (&by.provider_key_file, &by.consent) {
        (Some(file), _) => Consent::sign(&io::key(file)?, &witness, &name, url),
        (None, Some(file)) => Consent::parse(&io::read(file)?).map_err(|error| Failure::refused(error.to_string()))?,
        (None, None) => Consent::sign(&custody(data, &name)?, &witness, &name, url),
    };
    let request = json!({
        "op": "agent-add", "name": name.as_str(), "url": url, "consent": consent.to_json(), "custodial": by.custodial,
        "dialect": agents::carrier(Some(dialect)), "headers": headers.as_ref().map(|file| file.display().to_string()),
    });
    let added = change(data, &request)?;
    // It stands either way; that nobody is there is told now and not when the first caller waits.
    let outbound = Outbound::open(headers.as_deref()).map_err(Failure::environment)?;
    let (url, mut told) = (url.to_owned(), added);
    let reached = async move {
        match tokio::time::timeout(FIRST_TRY, probe(outbound, dialect, &url)).await {
            Ok(reached) => reached.map(|_| ()),
            Err(_) => Err(format!("no answer in {} s", FIRST_TRY.as_secs())),
        }
    };
    serve::block_on(async move {
        let reached = reached.await;
        told["reached"] = reached.is_ok().into();
        if let Err(why) = reached {
            eprintln!("note: added, but not reached ({why}); a witness that serves tries again until it is");
        }
        operator::print(&told)
    })
}

/// The key that the witness holds for an agent: made once, found again.
fn custody(data: &Path, name: &AgentName) -> Result<SigningKey, Failure> {
    let dir = data.join(CUSTODY);
    if let Err(error) = std::fs::DirBuilder::new().mode(0o700).create(&dir)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(Failure::environment(format!("data: {} cannot be made ({error})", dir.display())));
    }
    let file = dir.join(format!("{}.pem", name.as_str()));
    if !file.exists() {
        keys::write(&file, &SigningKey::generate())?;
    }
    io::key(&file)
}

fn remove(data: &Path, name: &str, provider: Option<&str>) -> Result<(), Failure> {
    let all = operator::ask(data, &json!({ "op": "agents" }))?;
    let provider = provider.map(|text| io::public("provider", text)).transpose()?.map(|key| key.to_hex());
    let named: Vec<&Value> = all
        .as_array()
        .into_iter()
        .flatten()
        .filter(|agent| agent["name"] == name && provider.as_ref().is_none_or(|key| agent["provider"] == key.as_str()))
        .collect();
    match named.as_slice() {
        [one] => {
            let request = json!({ "op": "agent-remove", "name": name, "provider": one["provider"] });
            operator::print(&change(data, &request)?)
        }
        [] => Err(Failure::refused(format!("agent: no upstream agent {name:?}, `wikala agent list` shows them"))),
        _ => Err(Failure::refused(format!("agent: several providers have {name:?}, add --provider KEY"))),
    }
}

fn check(at: &AgentAt, headers: Option<&Path>) -> Result<(), Failure> {
    let outbound = Outbound::open(headers).map_err(Failure::environment)?;
    let (dialect, url) = at.split();
    serve::block_on(async move {
        let found = probe(outbound, dialect, url).await.map_err(Failure::refused)?;
        operator::print(&found)
    })
}

/// Is an agent there? Asks nothing that would begin a run.
async fn probe(outbound: Outbound, dialect: Dialect, url: &str) -> Result<Value, String> {
    if dialect == Dialect::A2a {
        let peer = Peer::meet(outbound, url).await?;
        let card = &peer.card;
        return Ok(json!({
            "ok": true, "speaks": format!("{:?}", card.binding), "url": card.url, "tenant": card.tenant,
            "streaming": card.streaming, "requiredExtensions": card.required,
        }));
    }
    // AG-UI has no card: whoever takes the POST of a run says so to a GET (405), or answers it.
    let asked = outbound.text(axum::http::Method::GET, url, None, &[("accept", "text/event-stream")]).await;
    let (status, ..) = asked.map_err(|failed| failed.reason())?;
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return Err(format!("{url}: answered {}, is the path of the agent in the address?", status.as_u16()));
    }
    Ok(
        json!({ "ok": true, "url": url, "status": status.as_u16(), "note": "somebody is there; that it speaks AG-UI, its first run shows" }),
    )
}

/// Through the serving process, or into a record that nobody serves.
fn change(data: &Path, request: &Value) -> Result<Value, Failure> {
    if let Some(answer) = operator::served(data, request)? {
        return operator::said(answer);
    }
    let _lock = house::lock(data)?;
    let key = Arc::new(house::read_key(data)?);
    let mut witness = Witness::open(&data.join(house::DATABASE), key, Policy::default())
        .map_err(|fault| Failure::record(data, &fault))?;
    let change = Change::read(request).ok_or_else(|| Failure::usage("agent: not a change"))?;
    operator::said(agents::change_at_rest(&mut witness, io::moment(None), change))
}

fn public_key(data: &Path) -> Result<PublicKey, Failure> {
    if !data.join(house::KEY).exists() {
        return Err(Failure::environment(format!(
            "data: {0} holds no witness, make one with `wikala init --data {0}`",
            data.display()
        )));
    }
    Ok(house::read_key(data)?.public())
}
