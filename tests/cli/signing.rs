//! Chains, certificates, acts: what is printed is what the libraries take, and a
//! negative verdict is an exit code.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wikala_certs::{Cancel, Proof, Resolve, SignedAct, SignedPresenter};
use wikala_chain::{AgentName, Chain, PrefixCache, PublicKey};

use super::{fed, no, said, text};
use crate::process::{key_file, ok, run};

const RUN: &str = "run_2c26b46b68ffc68ff99b453c";

struct Keys {
    dir: tempfile::TempDir,
}

impl Keys {
    fn new() -> Self {
        Keys { dir: tempfile::tempdir().unwrap() }
    }

    /// A key file and its public key.
    fn of(&self, name: &str) -> (String, String) {
        let (file, public) = key_file(self.dir.path(), name, name.as_bytes()[0]);
        (text(&file).to_owned(), public)
    }

    fn file(&self, name: &str, words: &str) -> PathBuf {
        let path: PathBuf = Path::new(self.dir.path()).join(name);
        std::fs::write(&path, words).unwrap();
        path
    }
}

fn parsed(words: &str) -> Value {
    serde_json::from_str(words).unwrap_or_else(|_| panic!("one JSON object: {words:?}"))
}

#[test]
fn a_chain_is_made_extended_dispatched_and_verified() {
    let keys = Keys::new();
    let ((h, h_key), (w, w_key), (p, p_key), (x, x_key)) = (keys.of("h"), keys.of("w"), keys.of("p"), keys.of("x"));
    let begun = ok(&["chain", "new", "--key", &h]);
    let sent =
        said(&fed(&["chain", "dispatch", "--key", &w, "--provider", &p_key, "--name", "übersetzer", "-"], &begun));
    let file = keys.file("sent.json", &sent);
    let taken = ok(&["chain", "extend", "--key", &p, text(&file)]);

    // On stdout stands the chain and nothing else, as the library reads it.
    let chain = Chain::parse_json(&taken).unwrap().unwrap().verify(&PrefixCache::disabled()).unwrap();
    assert_eq!(chain.head().0.to_hex(), h_key);

    let verdict = parsed(&said(&fed(&["chain", "verify", "--json", "-"], &taken)));
    assert_eq!((&verdict["ok"], &verdict["head"], &verdict["presenter"]), (&json!(true), &json!(h_key), &json!(p_key)));
    assert_eq!(verdict["hops"].as_array().unwrap().len(), 3);
    assert_eq!(verdict["hops"][1]["actor"], *w_key);
    assert_eq!(verdict["hops"][1]["dispatchedTo"], json!({ "providerKey": p_key, "name": "übersetzer" }));
    assert_eq!(verdict.get("dispatched"), None, "nobody was pinned");

    // Pinned: which agent did this witness send it to?
    let verdict = parsed(&said(&fed(&["chain", "verify", "--json", "--witness", &w_key, "-"], &taken)));
    assert_eq!(verdict["dispatched"], json!([{ "hop": 1, "providerKey": p_key, "name": "übersetzer" }]));
    let words = said(&fed(&["chain", "verify", "--witness", &w_key, "-"], &taken));
    assert!(words.contains("sent it to") && words.contains(&p_key), "{words}");
    // Anybody can sign a dispatch, so another's does not count; nor does a mere hop.
    for other in [&x_key, &h_key] {
        let output = fed(&["chain", "verify", "--json", "--witness", other, "-"], &taken);
        assert_eq!(no(&output), (1, String::new()));
        assert_eq!(parsed(std::str::from_utf8(&output.stdout).unwrap())["ok"], false);
    }

    // The successor rule holds on the signing side too.
    let (code, words) = no(&run(&["chain", "extend", "--key", &x, text(&file)]));
    assert!(code == 1 && words.contains("hop-wrong-successor"), "{code} {words}");
    let (code, words) = no(&run(&["chain", "extend", "--key", &w, text(&file)]));
    assert!(code == 1 && words.contains("hop-witness-as-party"), "{code} {words}");
}

#[test]
fn a_negative_verdict_names_code_and_hop_and_ends_with_1() {
    let keys = Keys::new();
    let ((h, _), (p, p_key)) = (keys.of("h"), keys.of("p"));
    let begun = ok(&["chain", "new", "--key", &h]);
    let both = said(&fed(&["chain", "extend", "--key", &p, "-"], &begun));
    let tokens: Vec<String> = serde_json::from_str(&both).unwrap();
    let beheaded = json!([tokens[1]]).to_string();
    let spliced = json!([tokens[1], tokens[1]]).to_string();
    // The first byte of the signature, another one.
    let (signed, signature) = tokens[1].rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    let forged = json!([tokens[0], format!("{signed}.{first}{}", &signature[1..])]).to_string();
    let endless = json!(vec![&tokens[0]; 65]).to_string();
    for (words, code, hop) in [
        ("", "chain-not-a-list", Value::Null),
        ("null", "chain-not-a-list", Value::Null),
        ("{}", "chain-not-a-list", Value::Null),
        ("[]", "chain-empty", Value::Null),
        ("[1]", "hop-not-a-string", json!(0)),
        (&endless, "chain-too-long", Value::Null),
        (&beheaded, "hop-broken-link", json!(0)),
        (&spliced, "hop-broken-link", json!(0)),
        (&forged, "hop-signature", json!(1)),
    ] {
        let output = fed(&["chain", "verify", "--json", "-"], words);
        assert_eq!(no(&output), (1, String::new()), "{code}");
        let verdict = parsed(std::str::from_utf8(&output.stdout).unwrap());
        assert_eq!((&verdict["ok"], &verdict["code"], &verdict["hop"]), (&json!(false), &json!(code), &hop));
        assert!(verdict["message"].as_str().is_some_and(|message| !message.is_empty()));
        let (exit, sentence) = no(&fed(&["chain", "verify", "-"], words));
        assert!(exit == 1 && sentence.contains(code), "{exit} {sentence}");
    }
    // `show` tells what still holds before the flaw, the flaw, and what the rest claims.
    let output = fed(&["chain", "show", "-"], &forged);
    assert_eq!(no(&output).0, 1);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    let claims = |verdict: &str, key: &str| format!("{verdict}: claims \"{key}\"");
    assert!(words.contains("head") && words.contains(&claims("hop-signature", &p_key)), "{words}");
    // What is too long to be a chain is not cut to one.
    let (code, words) = no(&fed(&["chain", "verify", "-"], &format!("{both}{}", " ".repeat(1024 * 1024))));
    assert!(code == 3 && words.contains("more than"), "{code} {words}");
}

#[test]
fn a_certificate_is_issued_accepted_and_judged_by_the_second() {
    let keys = Keys::new();
    let ((d, d_key), (s, s_key), (x, _)) = (keys.of("d"), keys.of("s"), keys.of("x"));
    let issued = ok(&["cert", "issue", "--key", &d, "--delegate", &s_key, "--expires-at", "4102444800"]);
    let file = keys.file("cert.json", &issued);
    let accepted = said(&fed(&["cert", "accept", "--key", &s, "-"], &issued));
    for (words, consent) in [(&issued, false), (&accepted, true)] {
        let verdict = parsed(&said(&fed(&["cert", "verify", "--json", "--at", "4102444800", "-"], words)));
        assert_eq!(
            (&verdict["ok"], &verdict["authority"], &verdict["delegate"], &verdict["accepted"]),
            (&json!(true), &json!(d_key), &json!(s_key), &json!(consent))
        );
    }
    assert!(ok(&["cert", "verify", "--at", "4102444799", text(&file)]).contains("cert accept"), "the way out");
    let stranger = fed(&["cert", "accept", "--key", &x, "-"], &issued);
    let forged = accepted.replace("4102444800", "4102444801");
    for (output, code) in [
        (fed(&["cert", "verify", "--json", "--at", "4102444801", "-"], &accepted), "certificate-expired"),
        (fed(&["cert", "verify", "--json", "--at", "1", "-"], &forged), "certificate-signature"),
        (fed(&["cert", "verify", "--json", "--at", "1", "-"], "{}"), "certificate-malformed"),
    ] {
        assert_eq!(no(&output), (1, String::new()), "{code}");
        assert_eq!(parsed(std::str::from_utf8(&output.stdout).unwrap())["code"], code);
    }
    let (code, words) = no(&stranger);
    assert!(code == 1 && words.contains("certificate-not-signer"), "{code} {words}");
    for wrong in ["8d", "", "-1s", "1.5h", "0s", "0h"] {
        assert_eq!(no(&run(&["cert", "issue", "--key", &d, "--delegate", &s_key, "--ttl", wrong])).0, 2, "{wrong}");
    }
    let far = ["cert", "issue", "--key", &d, "--delegate", &s_key, "--expires-at", "9007199254740992"];
    assert_eq!(no(&run(&far)).0, 2, "beyond what a certificate can say");
    let past = ["cert", "issue", "--key", &d, "--delegate", &s_key, "--expires-at", "5"];
    let itself = ["cert", "issue", "--key", &d, "--delegate", &d_key];
    for (args, word) in [(&past[..], "past"), (&itself, "session key")] {
        let (code, words) = no(&run(args));
        assert!(code == 2 && words.contains(word), "{code} {words}");
    }
}

#[test]
fn acts_are_printed_as_the_proofs_the_witness_takes() {
    let keys = Keys::new();
    let ((h, h_key), (_, w_key), (_, p_key)) = (keys.of("h"), keys.of("w"), keys.of("p"));
    let at = ["--at", "1790000000"];
    let act = |args: &[&str]| Proof::parse(ok(&[&["act"], args, &at].concat()).trim()).expect("a proof");

    let resolve = act(&["resolve", "--key", &h, RUN]);
    assert_eq!(SignedAct::<Resolve>::resolve(&resolve, RUN).unwrap().timestamp(), 1_790_000_000);
    assert_eq!(resolve.public_key.to_hex(), h_key);
    assert_eq!(act(&["resolve", "--key", &h, RUN]), resolve, "the same second, the same act");
    let cancel = act(&["cancel", "--key", &h, RUN]);
    assert!(SignedAct::<Cancel>::cancel(&cancel, RUN).is_ok());
    assert!(SignedAct::<Cancel>::cancel(&resolve, RUN).is_err(), "one is never the other");
    let answer = act(&["answer", "--key", &h, RUN, "--ask", "b", "--ask", "a", "--answer", "yes"]);
    assert!(SignedAct::<Resolve>::answer(&answer, RUN, &["a", "b"], b"yes").is_ok());
    assert!(SignedAct::<Resolve>::answer(&answer, RUN, &["a", "b"], b"no").is_err());

    // The whole body for our own route: the same proof, and what it is bound to.
    let ask = ["--ask", "b", "--ask", "a", "--answer", "yes"];
    let body = parsed(&ok(&[&["act", "answer", "--key", &h, RUN, "--body"], &ask[..], &at].concat()));
    let proof: Value = serde_json::from_str(&answer.to_json()).unwrap();
    assert_eq!(body, json!({ "answer": "yes", "asks": ["b", "a"], "form": "answer", "resolution": proof }));
    let twice = no(&run(&["act", "answer", "--key", &h, RUN, "--ask", "a", "--ask", "a", "--answer", "x"]));
    assert!(twice.0 == 2 && twice.1.contains("twice"), "{twice:?}");

    // A presenter proof is for this witness, this agent, this chain's tip, once.
    let chain = keys.file("chain.json", &ok(&["chain", "new", "--key", &h]));
    let present = ["present", "--key", &h, "--witness", &w_key, "--provider", &p_key, "--name", "agent"];
    let proof = act(&[&present[..], &["--chain", text(&chain)]].concat());
    let again = act(&[&present[..], &["--chain", text(&chain)]].concat());
    assert_ne!(proof.nonce, again.nonce);
    let (witness, provider) = (PublicKey::from_hex(&w_key).unwrap(), PublicKey::from_hex(&p_key).unwrap());
    let name = AgentName::new("agent").unwrap();
    let words = std::fs::read_to_string(&chain).unwrap();
    let tip = Chain::parse_json(&words).unwrap().unwrap().verify(&PrefixCache::disabled()).unwrap().tip();
    assert!(SignedPresenter::verify(&proof, &witness, &provider, &name, Some(tip)).is_ok());
    assert!(SignedPresenter::verify(&proof, &witness, &provider, &name, None).is_err());
    assert!(SignedPresenter::verify(&proof, &provider, &provider, &name, Some(tip)).is_err());
    assert!(SignedPresenter::verify(&act(&present), &witness, &provider, &name, None).is_ok());

    for wrong in ["run_1", "thread_2c26b46b68ffc68ff99b453c", &format!("{RUN}:1"), &RUN.to_uppercase()] {
        assert_eq!(no(&run(&["act", "resolve", "--key", &h, wrong])).0, 2, "{wrong}");
    }
    assert_eq!(no(&run(&["act", "resolve", "--key", &h, RUN, "--at", "1e3"])).0, 2);
    assert_eq!(no(&run(&[&["act"], &present[..], &["--nonce", "1"]].concat())).0, 2);
}
