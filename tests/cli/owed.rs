//! `wikala obligation`, `verify ledger` and `cert revoke` at a terminal: what each prints, and
//! how it says no.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use wikala_doors::client::Client;

use super::{answering, fed, no, said, text};
use crate::process::{Kept, Served, key_file, run, wikala};

/// A served witness, an agent that is there, the key files of its provider, of a head and
/// of nobody.
struct Scene {
    served: Served,
    agent: String,
    keys: [String; 3],
    _child: Kept,
}

const PROVIDER: usize = 0;
const HEAD: usize = 1;
const NOBODY: usize = 2;

impl Scene {
    async fn set(dir: &Path) -> Scene {
        let served = Served::fresh(dir, &[]);
        let (provider, agent) = key_file(dir, "p", 5);
        let keys = [provider, key_file(dir, "h", 1).0, key_file(dir, "n", 9).0].map(|path| text(&path).to_owned());
        let args = ["provider", "--witness", &served.url, "--key", &keys[PROVIDER], "--name", "a"];
        let child = wikala(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        let scene = Scene { served, agent, keys, _child: Kept(child) };
        for _ in 0..500 {
            let (_, roster) = Client::new().get_json(&format!("{}/agents", scene.served.url)).await.unwrap();
            if roster["agents"][0]["online"] == true {
                return scene;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("the agent never came");
    }

    fn run(&self, who: usize, args: &[&str]) -> std::process::Output {
        let at = ["--key", &self.keys[who], "--witness", &self.served.url];
        run(&[&["obligation", args[0]][..], &at, &args[1..]].concat())
    }

    fn ok(&self, who: usize, args: &[&str]) -> Value {
        serde_json::from_str(&said(&self.run(who, args))).expect("JSON")
    }

    /// A refusal: 1, its code in front.
    fn no(&self, who: usize, args: &[&str], expect: &str) {
        let (code, words) = no(&self.run(who, args));
        let words = words.trim_start_matches("wikala: ");
        assert!(code == 1 && words.starts_with(&format!("{expect}: ")), "{args:?}: {code} {words}");
    }

    fn create(&self, more: &[&str]) -> String {
        let args = ["create", "--provider", &self.agent, "--name", "a", "--text", "echo what?"];
        let told = self.ok(HEAD, &[&args[..], more].concat());
        told["obligation"]["obligation_id"].as_str().expect("an id").to_owned()
    }
}

fn stock(dir: &Path) -> String {
    let file = dir.join("stock.json");
    let schema = r#"{"properties":{"quantity":{"type":"integer"}},"required":["quantity"]}"#;
    std::fs::write(&file, schema).unwrap();
    text(&file).to_owned()
}

#[tokio::test]
async fn each_command_prints_where_the_obligation_stands() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::set(dir.path()).await;
    let id = scene.create(&[
        "--schema",
        &stock(dir.path()),
        "--schema-id",
        "stock.v1",
        "--deadline",
        "2099-01-01T00:00:00Z",
    ]);
    assert_eq!(scene.ok(HEAD, &["inbox"])["awaiting_peer"], 1);
    assert_eq!(scene.ok(PROVIDER, &["inbox"])["action_required"], 1);
    assert_eq!(scene.ok(NOBODY, &["inbox"])["action_required"], 0);
    let listed = |who: usize, role: &str, state: &str| {
        let list = scene.ok(who, &["list", "--role", role, "--state", state, "--limit", "1"]);
        list["obligations"].as_array().expect("a list").len()
    };
    assert_eq!((listed(HEAD, "requester", "created"), listed(HEAD, "responsible", "created")), (1, 0));
    assert_eq!((listed(PROVIDER, "any", "created"), listed(PROVIDER, "any", "blocked")), (1, 0));
    assert!(scene.ok(NOBODY, &["reconcile"])["expired"].as_array().expect("a list").is_empty());
    assert_eq!(scene.ok(PROVIDER, &["accept", &id])["state"], "acknowledged");
    assert_eq!(scene.ok(PROVIDER, &["progress", &id, "--to", "blocked", "--reason", "no_stock"])["state"], "blocked");
    let wrong = ["respond", &id, "--result", r#"{"quantity":"hunter2"}"#];
    scene.no(PROVIDER, &wrong, "response-schema-violation");
    let (_, words) = no(&scene.run(PROVIDER, &wrong));
    assert!(words.contains("/quantity") && !words.contains("hunter2"), "{words}");
    assert_eq!(scene.ok(PROVIDER, &["respond", &id, "--result", r#"{"quantity":4}"#])["state"], "completed");
    let view = scene.ok(HEAD, &["get", &id]);
    assert_eq!(
        (&view["state"], &view["response"]["structured_response"]["quantity"]),
        (&"completed".into(), &4.into())
    );
    assert_eq!(scene.ok(HEAD, &["cancel", &scene.create(&[])])["state"], "canceled");
    assert_eq!(scene.ok(PROVIDER, &["decline", &scene.create(&[]), "--reason", "not mine"])["state"], "declined");
    assert_eq!(
        scene.ok(PROVIDER, &["respond", &scene.create(&[]), "--failed", "--body", "sold out"])["state"],
        "failed"
    );
}

#[tokio::test]
async fn a_refusal_ends_with_1_and_begins_with_its_code() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::set(dir.path()).await;
    let id = scene.create(&[]);
    let id = id.as_str();
    let unknown = format!("ob_{}", "0".repeat(32));
    let later = ["--revision", "7"];
    for (who, args, expect) in [
        (HEAD, &["accept", id][..], "exact-responsible-required"),
        (NOBODY, &["accept", id, "--revision", "1"], "obligation-unavailable"),
        (NOBODY, &["get", id], "obligation-unavailable"),
        (HEAD, &["get", &unknown], "obligation-unavailable"),
        (PROVIDER, &["respond", &unknown], "obligation-unavailable"),
        (PROVIDER, &["accept", id, later[0], later[1]], "revision-conflict"),
        (PROVIDER, &["progress", id, "--to", "in_progress"], "illegal-transition"),
        (PROVIDER, &["progress", id, "--to", "completed"], "state-not-assertable"),
        (PROVIDER, &["progress", id, "--to", "recipient_committed", "--reason", "no code"], "reason-not-a-code"),
        (PROVIDER, &["decline", id, "--reason", ""], "decline-reason-required"),
        (PROVIDER, &["cancel", id], "exact-requester-required"),
        (HEAD, &["respond", id], "exact-responsible-required"),
    ] {
        scene.no(who, args, expect);
    }
    assert_eq!(scene.ok(HEAD, &["get", id])["revision"], 1, "nothing moved it");
    scene.ok(PROVIDER, &["accept", id]);
    scene.no(PROVIDER, &["decline", id, "--reason", "late"], "decline-after-acceptance");
    scene.ok(PROVIDER, &["respond", id, "--body", "so"]);
    scene.no(PROVIDER, &["respond", id, "--failed"], "response-conflict");
    scene.no(HEAD, &["cancel", id], "obligation-terminal");
    let create = ["create", "--provider", &scene.agent, "--name", "a", "--text", "x"];
    let remote = dir.path().join("remote.json");
    std::fs::write(&remote, r#"{"$ref":"http://127.0.0.1:1/x"}"#).unwrap();
    for (more, expect) in [
        (&["--deadline", "2001-01-01T00:00:00Z"][..], "deadline-not-future"),
        (&["--deadline", "2099-01-01T00:00:00"], "deadline-not-timezone-aware"),
        (&["--schema", text(&remote), "--schema-id", "s"], "schema-external-reference"),
    ] {
        scene.no(HEAD, &[&create[..], more].concat(), expect);
    }
}

#[test]
fn what_is_typed_wrongly_ends_with_2_and_what_is_not_there_with_3() {
    let dir = tempfile::tempdir().unwrap();
    let (key, hex) = key_file(dir.path(), "k", 1);
    let (junk, missing) = (dir.path().join("junk"), dir.path().join("missing"));
    std::fs::write(&junk, "junk").unwrap();
    let (key, junk, missing) = (text(&key), text(&junk), text(&missing));
    let (other, _asked) = answering("200 OK", "<html>");
    let id = format!("ob_{}", "0".repeat(32));
    let thread = "thread_000000000000000000000001";
    let create = |more: &[&str]| -> Vec<String> {
        let args = ["create", "--provider", &hex, "--name", "a", "--text", "x"];
        args.iter().chain(more).map(|&arg| arg.to_owned()).collect()
    };
    let of = |args: &[&str]| -> Vec<String> { args.iter().map(|&arg| arg.to_owned()).collect() };
    let nowhere = "http://127.0.0.1:1";
    for (args, key, witness, expect) in [
        (of(&["get", "../agents"]), key, nowhere, 2),
        (of(&["accept", "nonsense"]), key, nowhere, 2),
        (of(&["respond", "ob_1"]), key, nowhere, 2),
        (of(&["list", "--role", "owner"]), key, nowhere, 2),
        (of(&["list", "--state", "open"]), key, nowhere, 2),
        (of(&["list", "--limit", "0"]), key, nowhere, 2),
        (of(&["list", "--after", "x&limit=1000"]), key, nowhere, 2),
        (of(&["accept", &id, "--revision", "one"]), key, nowhere, 2),
        (of(&["progress", &id]), key, nowhere, 2),
        (of(&["decline", &id]), key, nowhere, 2),
        (of(&["inbox"]), key, hex.as_str(), 2),
        (of(&["inbox"]), key, "nonsense", 2),
        (of(&["respond", &id, "--result", "{"]), key, nowhere, 2),
        (create(&["--provider", "x"]), key, nowhere, 2),
        (create(&["--thread", "../x"]), key, nowhere, 2),
        (create(&["--schema", junk]), key, nowhere, 2),
        (create(&["--schema-id", "s"]), key, nowhere, 2),
        (create(&["--schema", junk, "--schema-id", "s", "--thread", thread]), key, nowhere, 2),
        (create(&["--schema", missing, "--schema-id", "s", "--thread", thread]), key, nowhere, 3),
        (of(&["inbox"]), missing, nowhere, 3),
        (of(&["inbox"]), junk, nowhere, 3),
        (of(&["inbox"]), key, nowhere, 3),
        (of(&["inbox"]), key, other.as_str(), 3),
        (of(&["accept", &id]), key, other.as_str(), 3),
        (of(&["respond", &id]), key, other.as_str(), 3),
        (of(&["reconcile"]), key, other.as_str(), 3),
        (create(&[]), key, other.as_str(), 3),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (code, words) = no(&run(&[&["obligation"], &args[..], &["--key", key, "--witness", witness]].concat()));
        assert!(code == expect && !words.trim().is_empty(), "{args:?} {witness}: {code} {words}");
    }
}

/// Scenario 60: without the witness, and the entry is named.
#[tokio::test]
async fn a_ledger_of_which_one_byte_is_changed_names_the_entry() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::set(dir.path()).await;
    let id = scene.create(&[]);
    scene.ok(PROVIDER, &["accept", &id]);
    for n in 0..11 {
        let to = ["in_progress", "blocked"][n % 2];
        scene.ok(PROVIDER, &["progress", &id, "--to", to]);
    }
    scene.ok(PROVIDER, &["respond", &id]);
    let exported = said(&scene.run(HEAD, &["get", &id, "--ledger"]));
    assert_eq!(exported.lines().count(), 14);
    drop(scene);
    let verify = |text: &str| fed(&["verify", "ledger", "-"], text);
    assert!(said(&verify(&exported)).starts_with("14 entries"));
    for entry in [1, 7, 14] {
        let lines: Vec<&str> = exported.lines().collect();
        let line = lines[entry - 1];
        // Any digit or letter of a value: here the first of each member's.
        for at in line.match_indices("\":\"").map(|(at, _)| at + 3) {
            let byte = line.as_bytes()[at];
            let changed = format!("{}{}{}", &line[..at], if byte == b'0' { '1' } else { '0' }, &line[at + 1..]);
            let mut lines = lines.clone();
            lines[entry - 1] = &changed;
            let (code, words) = no(&verify(&lines.join("\n")));
            assert!(code == 1 && words.contains(&format!("entry {entry} ")), "{changed}: {code} {words}");
        }
    }
    let without: Vec<&str> = exported.lines().take(6).chain(exported.lines().skip(7)).collect();
    let (code, words) = no(&verify(&without.join("\n")));
    assert!(code == 1 && words.contains("entry 7 "), "{code} {words}");
    for (text, expect) in [("", 1), ("nonsense", 1), ("[]", 1)] {
        assert_eq!(no(&verify(text)).0, expect, "{text}");
    }
    assert_eq!(no(&run(&["verify", "ledger", text(&dir.path().join("missing"))])).0, 3);
    assert_eq!(no(&run(&["verify", "ledger"])).0, 2);
}

#[tokio::test]
async fn a_certificate_is_revoked_by_who_gave_it_or_holds_it_and_by_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::fresh(dir.path(), &[]);
    let ((head, _), (session, public)) = (key_file(dir.path(), "h", 1), key_file(dir.path(), "s", 2));
    let (nobody, _) = key_file(dir.path(), "n", 9);
    let file = dir.path().join("cert.json");
    let issued = said(&run(&["cert", "issue", "--key", text(&head), "--delegate", &public, "--ttl", "1h"]));
    std::fs::write(&file, issued).unwrap();
    let revoke =
        |key: &Path, what: &str| no(&run(&["cert", "revoke", "--key", text(key), "--witness", &served.url, what]));
    let (code, words) = revoke(&nobody, text(&file));
    assert!(code == 1 && words.contains("not-an-authority: "), "{code} {words}");
    assert_eq!(revoke(&session, text(&file)).0, 0, "its own");
    assert_eq!(revoke(&head, text(&file)).0, 0, "once more is no fault");
    assert_eq!(revoke(&head, "--all").0, 0);
    let junk = dir.path().join("junk");
    std::fs::write(&junk, "{}").unwrap();
    let (code, words) = revoke(&head, text(&junk));
    assert!(code == 1 && words.contains("certificate-malformed: "), "{code} {words}");
    assert_eq!(revoke(&head, text(&dir.path().join("missing"))).0, 3);
    assert_eq!(revoke(&dir.path().join("missing"), text(&file)).0, 3);
    let (key, url) = (text(&head), served.url.clone());
    assert_eq!(no(&run(&["cert", "revoke", "--key", key, "--witness", &url])).0, 2, "what is to be revoked");
    assert_eq!(no(&run(&["cert", "revoke", "--key", key, "--witness", &url, "--all", text(&file)])).0, 2);
    let (other, _asked) = answering("200 OK", "<html>");
    assert_eq!(no(&run(&["cert", "revoke", "--key", key, "--witness", &other, "--all"])).0, 3, "no witness");
    drop(served);
    assert_eq!(no(&run(&["cert", "revoke", "--key", key, "--witness", &url, "--all"])).0, 3);
}

/// The most memory a process ever had, KiB.
fn peak(of: &Kept) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", of.0.id())).expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_hostile_schema_costs_a_house_no_more_memory_than_large_benign_ones() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::set(dir.path()).await;
    let file = dir.path().join("schema.json");
    let post = |schema: String| {
        std::fs::write(&file, schema).unwrap();
        let args = ["create", "--provider", &scene.agent, "--name", "a", "--text", "echo x"];
        no(&scene.run(HEAD, &[&args[..], &["--schema", text(&file), "--schema-id", "s"]].concat())).0
    };
    for n in 0..3 {
        let member = |at: usize| format!("\"member_{n}_{at}\":{{\"type\":\"string\",\"maxLength\":{at}}}");
        assert_eq!(post(format!("{{\"properties\":{{{}}}}}", (0..1_200).map(member).collect::<Vec<_>>().join(","))), 0);
    }
    let usual = peak(&scene.served.child);
    let twice = |keyword: &str, levels: usize| {
        let level = |at: usize| {
            format!("\"d{at}\":{{\"{keyword}\":[{{\"$ref\":\"#/$defs/d{0}\"}},{{\"$ref\":\"#/$defs/d{0}\"}}]}}", at + 1)
        };
        let defs = (0..levels).map(level).collect::<Vec<_>>().join(",");
        format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{defs},\"d{levels}\":{{}}}}}}")
    };
    let letters = |n: usize| {
        let name = |at: usize| format!("\"^(\\\\p{{L}}|x){{1,{n}}}{at}$\":{{}}");
        format!("{{\"patternProperties\":{{{}}}}}", (0..32).map(name).collect::<Vec<_>>().join(","))
    };
    for (schema, expect) in [
        (twice("allOf", 26), 1),
        (twice("anyOf", 18), 1),
        (twice("oneOf", 20), 1),
        (letters(120), 1),
        (letters(10), 0),
        ("{\"pattern\":\"(a{1000}){1000}\"}".to_owned(), 1),
        (format!("{{\"allOf\":[{}]}}", vec!["{}"; 20_000].join(",")), 1),
    ] {
        assert_eq!(post(schema.clone()), expect, "{schema:.60}");
    }
    let now = peak(&scene.served.child);
    println!("{now} KiB after attacks, {usual} KiB after benign ones");
    assert!(now < usual * 3, "{now} KiB after attacks, {usual} KiB before");
}
