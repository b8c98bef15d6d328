//! The published cases, read from `vectors/`: what this crate accepts and refuses.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wikala_chain::{
    AgentName, Chain, ChainError, Digest, PrefixCache, PublicKey, Signature, SigningKey, Target, VerifiedChain, payload,
};

fn vectors(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors").join(family)
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read(chain: &Value, cache: &PrefixCache) -> Result<VerifiedChain, ChainError> {
    Chain::parse_json(&chain.to_string())?.expect("no case is null").verify(cache)
}

#[test]
fn every_chain_case_has_its_verdict() {
    let mut files: Vec<_> = fs::read_dir(vectors("chain")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 80, "{} cases", files.len());
    // One cache for all, and each case twice: what one case leaves behind must
    // not change another's verdict.
    let shared = PrefixCache::new(1000);
    let none = PrefixCache::disabled();
    for cache in [&shared, &shared, &none] {
        for path in &files {
            let name = path.file_stem().unwrap().to_string_lossy();
            let case = json(path);
            let expect = &case["expect"];
            let got = match read(&case["inputs"]["chain"], cache) {
                Ok(chain) => serde_json::json!({
                    "ok": true,
                    "head": chain.head().0.to_hex(),
                    "presenter": chain.presenter().0.to_hex(),
                }),
                Err(error) => {
                    let sentence = error.to_string();
                    assert!(!sentence.contains("eyJ") && sentence.len() < 200, "{name}: {sentence}");
                    serde_json::json!({ "ok": false, "code": error.code(), "hop": error.hop() })
                }
            };
            assert_eq!(&got, expect, "{name}");
        }
    }
}

#[test]
fn the_accept_set_is_the_strict_one() {
    let file = json(&vectors("ed25519/cases.json"));
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 1065);
    let (mut strict, mut accepted) = (0, 0);
    for case in cases {
        let text = |member: &str| case[member].as_str().unwrap();
        let expect = case["verify_strict"].as_bool().unwrap();
        let message = hex::decode(text("msg")).unwrap();
        let key = PublicKey::from_hex(text("key"));
        let signature = Signature::from_hex(text("sig"));
        let got = match (&key, &signature) {
            (Ok(key), Ok(signature)) => key.verify(&message, signature).is_ok(),
            _ => false,
        };
        strict += usize::from(expect);
        accepted += usize::from(got);
        assert!(expect || !got, "{} {}: accepted beyond verify_strict", text("src"), case["id"]);
        // What is refused beyond verify_strict is refused for its key.
        if expect && !got {
            assert!(key.is_err(), "{case}: an admitted key's signature must verify");
        }
        if text("src") == "wyche" {
            assert_eq!(got, expect, "{case}: honest keys lose nothing");
        }
    }
    println!("strict {strict}, accepted {accepted}");
    assert_eq!((strict, accepted), (131, 89), "42 signatures stand under keys with a torsion component");
}

fn seed(hex: &str) -> SigningKey {
    SigningKey::from_seed_hex(hex).unwrap()
}

/// The reference's published vectors (revision 11), byte for byte.
#[test]
fn the_contract_vectors_are_reproduced() {
    let file = json(&vectors("contract/contract-vectors.rev11.json"));
    let test_key = seed(file["test_key"]["private_key_hex"].as_str().unwrap());
    assert_eq!(test_key.public().to_hex(), file["test_key"]["public_key_hex"]);

    let mut kinds = Vec::new();
    for vector in file["vectors"].as_array().unwrap() {
        let inputs = &vector["inputs"];
        let text = |name: &str| inputs[name].as_str().unwrap();
        let number = |name: &str| inputs[name].as_u64().unwrap();
        let kind = vector["kind"].as_str().unwrap();
        let bytes = match kind {
            // Not a string of ours: we offer no such call, the bytes are theirs.
            "kyok-call" => {
                let body = Digest::of(text("body_utf8").as_bytes());
                format!("funduq-kyok-call:{}:{}:{body}", text("bearer"), number("timestamp"))
            }
            "provider-connect" => {
                let (ticket, nonce) = (text("funduq_nonce"), text("provider_nonce"));
                connect_provider_text(text("funduq_public_key"), ticket, nonce)
            }
            "funduq-connect" => payload::connect_witness(text("funduq_nonce"), text("provider_nonce")).to_string(),
            "delegation" => {
                let delegate = PublicKey::from_hex(text("delegate_public_key")).unwrap();
                payload::delegate(&delegate, number("expires_at")).to_string()
            }
            "resolution" => payload::resolve(text("run_id"), number("timestamp")).to_string(),
            "cancel" => payload::cancel(text("run_id"), number("timestamp")).to_string(),
            other => panic!("unknown kind {other}"),
        };
        assert_eq!(bytes, vector["payload_utf8"], "{kind}");
        assert_eq!(test_key.sign(bytes.as_bytes()).to_hex(), vector["signature_hex"], "{kind}");
        kinds.push(kind);
    }
    assert_eq!(kinds.len(), 6);

    // A two-hop chain.
    let published = &file["chains"][0];
    let keys = &published["inputs"]["hop_private_keys_hex"];
    let [first, second] = [0, 1].map(|n| seed(keys[n].as_str().unwrap()));
    let ours = VerifiedChain::start(&first).extend(&second).unwrap();
    assert_eq!(ours.to_json(), published["chain"].to_string());
    let theirs = read(&published["chain"], &PrefixCache::disabled()).unwrap();
    let actors: Vec<_> = theirs.actors().map(|key| key.to_hex()).collect();
    assert_eq!(serde_json::json!(actors), published["actor_public_keys"]);

    // A delivered run: the caller's hop and the witness's dispatch.
    let frame = &file["wire"][0]["frame"];
    let delivered = &frame["runInput"]["forwardedProps"]["actorChain"];
    let provider = seed(&"e1".repeat(32)).public();
    let name = AgentName::new(frame["agentName"].as_str().unwrap()).unwrap();
    let ours = VerifiedChain::start(&first).dispatch(&second, Target { provider, name }).unwrap();
    assert_eq!(ours.to_json(), delivered.to_string());
    assert_eq!(read(delivered, &PrefixCache::disabled()).unwrap(), ours);
}

/// The published witness key is 32 times `d0`: not a point of prime order, so no
/// [`PublicKey`] of ours. The layout is taken from an admitted key and that key put in its place.
fn connect_provider_text(witness: &str, ticket: &str, nonce: &str) -> String {
    let ours = seed(&"a5".repeat(32)).public();
    let bytes = payload::connect_provider(&ours, ticket, nonce).to_string();
    if let Ok(key) = PublicKey::from_hex(witness) {
        panic!("{key} is admitted, use it");
    }
    bytes.replace(&ours.to_hex(), witness)
}
