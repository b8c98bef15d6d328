//! The reference's published bytes (revision 11), made again from its published test
//! keys: every signed string, the two-hop chain, the chain of the delivered run.

use serde_json::{Value, json};
use wikala_chain::{AgentName, Chain, Digest, PrefixCache, PublicKey, SigningKey, Target, VerifiedChain, payload};

use super::case::{number, text};

pub(super) fn replay(file: &Value) -> Result<usize, String> {
    let key = seed(text(&file["test_key"], "private_key_hex"))?;
    same("test_key", &key.public().to_hex(), text(&file["test_key"], "public_key_hex"))?;
    let vectors = file["vectors"].as_array().ok_or("no vectors")?;
    for vector in vectors {
        let kind = text(vector, "kind");
        let bytes = signed_string(kind, &vector["inputs"], &key)?;
        same(kind, &bytes, text(vector, "payload_utf8"))?;
        same(kind, &key.sign(bytes.as_bytes()).to_hex(), text(vector, "signature_hex"))?;
    }
    let chains = file["chains"].as_array().ok_or("no chains")?;
    for chain in chains {
        actor_chain(chain)?;
    }
    delivered_run(&file["wire"][0]["frame"], &key)?;
    Ok(vectors.len() + chains.len() + 1)
}

fn signed_string(kind: &str, inputs: &Value, test_key: &SigningKey) -> Result<String, String> {
    let input = |name| text(inputs, name);
    let at = number(inputs, "timestamp");
    Ok(match kind {
        // Not a string of ours: the call behind it is not offered here, the bytes are theirs.
        "kyok-call" => {
            let body = Digest::of(input("body_utf8").as_bytes());
            format!("funduq-kyok-call:{}:{at}:{body}", input("bearer"))
        }
        "provider-connect" => {
            let ours = test_key.public();
            let bytes = payload::connect_provider(&ours, input("funduq_nonce"), input("provider_nonce")).to_string();
            // The published witness key is no point of prime order, so it is no key of
            // ours: the layout is taken from an admitted one, and that put in its place.
            bytes.replace(&ours.to_hex(), input("funduq_public_key"))
        }
        "funduq-connect" => payload::connect_witness(input("funduq_nonce"), input("provider_nonce")).to_string(),
        "delegation" => {
            let delegate = PublicKey::from_hex(input("delegate_public_key")).map_err(|error| error.to_string())?;
            payload::delegate(&delegate, number(inputs, "expires_at")).to_string()
        }
        "resolution" => payload::resolve(input("run_id"), at).to_string(),
        "cancel" => payload::cancel(input("run_id"), at).to_string(),
        other => return Err(format!("{other}: nothing here makes these bytes")),
    })
}

fn actor_chain(chain: &Value) -> Result<(), String> {
    let seeds = chain["inputs"]["hop_private_keys_hex"].as_array().ok_or("chain: no keys")?;
    let keys = seeds.iter().map(|hex| seed(hex.as_str().unwrap_or_default())).collect::<Result<Vec<_>, _>>()?;
    let (first, rest) = keys.split_first().ok_or("chain: no keys")?;
    let mut made = VerifiedChain::start(first);
    for key in rest {
        made = made.extend(key).map_err(|error| error.to_string())?;
    }
    same("actor-chain", &made.to_json(), &chain["chain"].to_string())?;
    let actors: Vec<_> = read(&chain["chain"])?.actors().map(|key| key.to_hex()).collect();
    same("actor-chain", &json!(actors).to_string(), &chain["actor_public_keys"].to_string())
}

/// The caller's hop (the test key) and the witness's dispatch (b6) to an agent of e1.
fn delivered_run(frame: &Value, caller: &SigningKey) -> Result<(), String> {
    let delivered = &frame["runInput"]["forwardedProps"]["actorChain"];
    let name = AgentName::new(text(frame, "agentName")).map_err(|error| error.to_string())?;
    let to = Target { provider: seed(&"e1".repeat(32))?.public(), name };
    let made =
        VerifiedChain::start(caller).dispatch(&seed(&"b6".repeat(32))?, to).map_err(|error| error.to_string())?;
    same("delivered-run", &made.to_json(), &delivered.to_string())?;
    if read(delivered)? == made { Ok(()) } else { Err("delivered-run: does not read back".into()) }
}

fn read(chain: &Value) -> Result<VerifiedChain, String> {
    let read = Chain::parse_json(&chain.to_string()).map_err(|error| error.to_string())?.ok_or("chain: null")?;
    read.verify(&PrefixCache::disabled()).map_err(|error| error.to_string())
}

fn seed(hex: &str) -> Result<SigningKey, String> {
    SigningKey::from_seed_hex(hex).map_err(|error| error.to_string())
}

fn same(what: &str, ours: &str, theirs: &str) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{what}: {ours} made, {theirs} published")) }
}
