//! `serve` and the operator's commands: one process a directory, the same answer
//! through the socket and from the file, and every flag also from the environment.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use wikala_doors::presenter;

use super::{no, other, text};
use crate::process::{Kept, Served, key_file, ok, run, wikala};

/// The flags of `serve` with their defaults, as issue 2 and the README name them.
const FLAGS: [(&str, Option<&str>); 20] = [
    ("data", None),
    ("listen", Some("127.0.0.1:7420")),
    ("public-url", None),
    ("presenter", Some("required")),
    ("admission", Some("open")),
    ("entitlements", None),
    ("reads", Some("open")),
    ("answers", Some("any")),
    ("offer-timeout", Some("5s")),
    ("unserved", Some("45s")),
    ("link-grace", Some("30s")),
    ("keepalive", Some("15s")),
    ("shutdown-grace", Some("10s")),
    ("metrics-listen", Some("127.0.0.1:7421")),
    ("log-format", Some("text")),
    ("behind-proxy", None),
    ("trusted-gateway", None),
    ("presenter-header", None),
    ("gateway-secret-file", None),
    ("help", None),
];

#[test]
fn every_flag_has_its_default_and_its_variable() {
    let help = ok(&["serve", "--help"]);
    let mut listed: Vec<&str> = help.split("\n      --").skip(1).collect();
    // `-h, --help` stands under its short name.
    let last = listed.last_mut().expect("flags");
    *last = last.split("\n  -h").next().unwrap();
    assert_eq!(listed.len(), FLAGS.len() - 1, "no flag more, none less: {help}");
    for (name, default) in &FLAGS[..FLAGS.len() - 1] {
        let block = listed.iter().find(|block| block.split([' ', '\n']).next() == Some(name));
        let block = block.unwrap_or_else(|| panic!("--{name} is missing: {help}"));
        let variable = format!("[env: WIKALA_{}=]", name.to_uppercase().replace('-', "_"));
        assert!(block.contains(&variable), "{variable}: {block}");
        if let Some(default) = default {
            assert!(block.contains(&format!("[default: {default}]")), "--{name}: {block}");
        }
    }
}

#[test]
fn a_variable_counts_as_its_flag() {
    let with = |name: &str, value: &str, args: &[&str]| no(&wikala(args).env(name, value).output().unwrap());
    // Past the check of usage the directory is what is missing: 3.
    let open = ["serve", "--data", "/nowhere/at/all", "--listen", "0.0.0.0:0"];
    assert_eq!(no(&run(&open)).0, 2);
    for yes in ["true", "1", "yes"] {
        assert_eq!(with("WIKALA_BEHIND_PROXY", yes, &open).0, 3, "{yes}");
    }
    for not in ["false", "0", "no"] {
        assert_eq!(with("WIKALA_BEHIND_PROXY", not, &open).0, 2, "{not}");
    }
    assert_eq!(with("WIKALA_DATA", "/nowhere/at/all", &["serve"]).0, 3);
    assert_eq!(with("WIKALA_PRESENTER", "perhaps", &["serve", "--data", "/nowhere/at/all"]).0, 2);
    assert_eq!(with("WIKALA_LISTEN", "0.0.0.0:0", &["serve", "--data", "/nowhere/at/all"]).0, 2);
    // A flag has the last word.
    let args = ["serve", "--data", "/nowhere/at/all", "--listen", "127.0.0.1:0"];
    assert_eq!(with("WIKALA_LISTEN", "0.0.0.0:0", &args).0, 3);
}

#[test]
fn a_second_process_on_a_directory_ends_with_3_and_the_first_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::fresh(dir.path(), &[]);
    let args = ["serve", "--data", text(&served.data), "--listen", "127.0.0.1:0", "--metrics-listen", "off"];
    let (code, words) = no(&run(&args));
    assert!(code == 3 && words.contains("stop it first"), "{code} {words}");
    // The socket is still the first one's.
    assert_eq!(ok(&["tree", "--data", text(&served.data)]).trim(), "[]");
    let taken = served.url.trim_start_matches("http://").to_owned();

    // An address in use is told with its way out.
    let other = dir.path().join("other");
    ok(&["init", "--data", text(&other)]);
    let args = ["serve", "--data", text(&other), "--listen", &taken, "--metrics-listen", "off"];
    let (code, words) = no(&run(&args));
    assert!(code == 3 && words.contains("--listen"), "{code} {words}");

    // A kill leaves the socket's file behind, and no lock.
    let data = served.kill();
    assert!(data.join("control.sock").exists());
    let again = Served::on(&data, "127.0.0.1:0", &[]);
    let mode = std::fs::metadata(data.join("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(again);
}

#[test]
fn told_to_stop_it_ends_with_0_and_takes_its_socket_along() {
    let dir = tempfile::tempdir().unwrap();
    let mut served = Served::fresh(dir.path(), &["--shutdown-grace", "2s"]);
    let pid = served.child.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(served.child.0.wait().unwrap().code(), Some(0));
    assert!(!served.data.join("control.sock").exists());
}

#[test]
fn the_operator_is_told_the_same_by_the_socket_and_by_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::fresh(dir.path(), &[]);
    let data = served.data.clone();
    let unknown = "000000000000000000000000";
    let (run_id, thread_id) = (format!("run_{unknown}"), format!("thread_{unknown}"));
    let (key, _) = key_file(dir.path(), "h", 1);
    let over_http = ["run", "show", &run_id, "--witness", &served.url, "--key", text(&key)];
    let (code, words) = no(&run(&over_http));
    assert!(code == 1 && words.contains("run-unknown") && !words.contains("--key"), "{code} {words}");
    // It may be there and not be for everybody: the way to ask as oneself is named.
    let (code, words) = no(&run(&over_http[..over_http.len() - 2]));
    assert!(code == 1 && words.contains("run-unknown") && words.contains("--key"), "{code} {words}");
    let asked = [&["tree", &thread_id, "--data", text(&data)][..], &["run", "show", &run_id, "--data", text(&data)]];
    let serving = asked.map(|args| no(&run(args)));
    assert_eq!(ok(&["tree", "--data", text(&data)]).trim(), "[]");
    served.kill();
    let resting = asked.map(|args| no(&run(args)));
    assert_eq!(serving, resting);
    assert!(serving.iter().all(|(code, words)| *code == 1 && !words.is_empty()), "{serving:?}");
    assert_eq!(ok(&["tree", "--data", text(&data)]).trim(), "[]");
}

#[test]
fn a_request_that_openssl_signed_is_taken() {
    let Some(mut openssl) = other("openssl") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (key, public) = key_file(dir.path(), "h", 3);
    let uri = "https://witness.example/v1/certificates";
    let input = format!(
        "(\"@method\" \"@target-uri\" \"content-digest\");created=1790000000;nonce=\"n\";keyid=\"{public}\";alg=\"ed25519\";tag=\"wikala\""
    );
    // sha-256 of `{"hello": "world"}` as RFC 9530, appendix D writes it.
    let (body, digest) = (br#"{"hello": "world"}"#, "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:");
    let base = format!(
        "\"@method\": POST\n\"@target-uri\": {uri}\n\"content-digest\": {digest}\n\"@signature-params\": {input}"
    );
    let file = dir.path().join("base");
    std::fs::write(&file, base).unwrap();
    let signed = openssl
        .args(["pkeyutl", "-sign", "-rawin", "-inkey", text(&key), "-in", text(&file)])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    if !signed.status.success() {
        return println!("skipped: this openssl does not sign with Ed25519");
    }
    let signature = STANDARD.encode(&signed.stdout);
    let headers: HeaderMap = [
        ("content-digest", digest.to_owned()),
        ("signature-input", format!("any={input}")),
        ("signature", format!("any=:{signature}:")),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(&value).unwrap()))
    .collect();
    let signer = presenter::verify("POST", uri, &headers, body).unwrap().unwrap();
    assert_eq!((signer.key.to_hex(), signer.covers_body), (public, true));
    assert!(presenter::verify("POST", uri, &headers, b"{\"hello\": \"World\"}").is_err());
}

/// A log that cannot be written must not take the house with it.
#[test]
fn a_house_whose_log_is_gone_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("house");
    ok(&["init", "--data", data.to_str().expect("utf-8")]);
    let args = ["serve", "--data", data.to_str().expect("utf-8"), "--listen", "127.0.0.1:0", "--metrics-listen", "off"];
    let mut child = wikala(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    // Its reader hangs up: from now on every line fails.
    drop(child.stderr.take());
    let mut kept = Kept(child);
    let url = line.split_whitespace().last().expect("an address").to_owned();
    let (key, public) = key_file(dir.path(), "p", 7);
    let provider = wikala(&["provider", "--witness", &url, "--key", key.to_str().expect("utf-8"), "--name", "echo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut provider = Kept(provider);
    let mut attached = String::new();
    let mut said_by_provider = BufReader::new(provider.0.stdout.take().expect("piped"));
    said_by_provider.read_line(&mut attached).expect("a line");
    assert_eq!(attached.trim(), "attached");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let said = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {
        "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "echo still here" }] } } });
    let address = format!("{url}/a2a/{public}/echo");
    let answer = runtime.block_on(async {
        wikala_doors::client::Client::new()
            .post_json(&address, &said, &[("a2a-version", "1.0")])
            .await
            .expect("answered")
    });
    assert!(answer.1.to_string().contains("TASK_STATE_COMPLETED"), "{}", answer.1);
    assert!(kept.0.try_wait().expect("asked").is_none(), "it serves");
}

#[test]
fn a_list_of_what_is_denied_is_read_or_the_witness_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("house");
    ok(&["init", "--data", text(&data)]);
    let list = dir.path().join("denied");
    let serve = ["serve", "--data", text(&data), "--listen", "127.0.0.1:0", "--entitlements", text(&list)];
    let (code, words) = no(&run(&serve));
    assert!(code == 3 && words.contains("entitlements:") && words.contains("cannot be read"), "{code} {words}");
    std::fs::write(&list, "# all may\n\nallow obligation.create *\n").unwrap();
    let (code, words) = no(&run(&serve));
    assert!(code == 3 && words.contains("line 3: not a line of the list, write: deny"), "{code} {words}");
    std::fs::write(&list, "deny obligation.create * # nobody\n").unwrap();
    let served = Served::on(&data, "127.0.0.1:0", &["--entitlements", text(&list)]);
    let (head, _) = key_file(dir.path(), "head", 1);
    let (agent, hex) = key_file(dir.path(), "agent", 2);
    let args = ["provider", "--witness", &served.url, "--key", text(&agent), "--name", "helper"];
    let _provider = Kept(wikala(&args).spawn().unwrap());
    let ask = [
        "obligation",
        "create",
        "--key",
        text(&head),
        "--witness",
        &served.url,
        "--provider",
        &hex,
        "--name",
        "helper",
        "--text",
        "x",
    ];
    let (code, words) = loop {
        let told = no(&run(&ask));
        // It has yet to attach.
        if !told.1.contains("agent-unknown") {
            break told;
        }
    };
    assert!(code == 1 && words.contains("entitlement-denied"), "{code} {words}");
}
