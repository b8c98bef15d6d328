//! Key files and data directories: private before the first byte, never overwritten,
//! and the same key to every other program.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wikala_chain::{Digest, SigningKey};

use super::{fed, no, other, said, text};
use crate::process::{WIKALA, key_file, ok, run};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Runs under the most generous umask there is: what is private then is so by itself.
fn generous(args: &[&str]) -> std::process::Output {
    Command::new("sh").args(["-c", "umask 000; exec \"$0\" \"$@\"", WIKALA]).args(args).output().unwrap()
}

#[test]
fn keys_and_houses_are_private_whatever_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let (key, house) = (dir.path().join("k.pem"), dir.path().join("deep/house"));
    assert_eq!(no(&generous(&["keygen", text(&key)])).0, 0);
    assert_eq!(no(&generous(&["init", "--data", text(&house)])).0, 0);
    assert_eq!(mode(&key), 0o600);
    assert_eq!(mode(&house), 0o700);
    assert_eq!(mode(&house.join("witness.pem")), 0o600);
    assert!(house.join("wikala.db").is_file());
    // An empty directory that was there is made private too.
    let there = dir.path().join("there");
    std::fs::create_dir(&there).unwrap();
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(no(&run(&["init", "--data", text(&there)])).0, 0);
    assert_eq!(mode(&there), 0o700);
}

#[test]
fn nothing_that_is_there_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let house = dir.path().join("house");
    ok(&["init", "--data", text(&house)]);
    let before = std::fs::read(house.join("witness.pem")).unwrap();
    let (code, words) = no(&run(&["init", "--data", text(&house)]));
    assert!(code == 3 && words.contains("choose another"), "{code} {words}");
    assert_eq!(std::fs::read(house.join("witness.pem")).unwrap(), before);

    // Only one of the two files, or somebody else's: not ours to fill up either.
    for name in ["wikala.db", "witness.pem", "holiday.jpg"] {
        let house = dir.path().join(format!("with-{name}"));
        std::fs::create_dir(&house).unwrap();
        std::fs::write(house.join(name), "mine").unwrap();
        assert_eq!(no(&run(&["init", "--data", text(&house)])).0, 3, "{name}");
        assert_eq!(std::fs::read_dir(&house).unwrap().count(), 1, "{name}");
        assert_eq!(std::fs::read(house.join(name)).unwrap(), b"mine");
    }

    let key = dir.path().join("k.pem");
    std::fs::write(&key, "mine").unwrap();
    let (code, words) = no(&run(&["keygen", text(&key)]));
    assert!(code == 3 && words.contains("choose another"), "{code} {words}");
    assert_eq!(std::fs::read(&key).unwrap(), b"mine");
    // Nor through a link that leads nowhere yet.
    let (link, aim) = (dir.path().join("link.pem"), dir.path().join("aim.pem"));
    symlink(&aim, &link).unwrap();
    assert_eq!(no(&run(&["keygen", text(&link)])).0, 3);
    assert!(!aim.exists());
}

#[test]
fn a_key_is_shown_from_a_file_or_from_stdin() {
    let dir = tempfile::tempdir().unwrap();
    let (file, public) = key_file(dir.path(), "h", 9);
    let fingerprint = Digest::of(&hex_bytes(&public)).to_hex()[..16].to_owned();
    let expect = json!({ "publicKey": public, "fingerprint": fingerprint });
    let pem = std::fs::read_to_string(&file).unwrap();
    for output in [
        run(&["key", "show", text(&file), "--json"]),
        fed(&["key", "show", "-", "--json"], &pem),
        fed(&["key", "show", "-", "--json"], &format!("{}\n", "09".repeat(32))),
    ] {
        assert_eq!(serde_json::from_str::<Value>(&said(&output)).unwrap(), expect);
    }
    assert!(said(&run(&["key", "show", text(&file)])).contains(&fingerprint));
    // Hex is for stdin alone: a file of it would look like a public key.
    let bare = dir.path().join("bare");
    std::fs::write(&bare, "09".repeat(32)).unwrap();
    assert_eq!(no(&run(&["key", "show", text(&bare)])).0, 3);
    for wrong in ["", "09", &"0A".repeat(32), &pem.replace("PRIVATE", "PUBLIC")] {
        let (code, words) = no(&fed(&["key", "show", "-"], wrong));
        assert!(code == 3 && words.contains("wikala keygen"), "{code} {words}");
    }
}

#[test]
fn what_keygen_makes_openssl_node_and_python_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("k.pem");
    let public = ok(&["keygen", text(&file)]).trim().to_owned();
    let shown: Value = serde_json::from_str(&ok(&["key", "show", text(&file), "--json"])).unwrap();
    assert_eq!(shown["publicKey"], *public);

    if let Some(mut openssl) = other("openssl") {
        let der = openssl.args(["pkey", "-pubout", "-outform", "DER", "-in", text(&file)]).output().unwrap();
        assert!(der.status.success(), "{}", String::from_utf8_lossy(&der.stderr));
        assert_eq!(hex_of(&der.stdout[der.stdout.len() - 32..]), public);
    }
    if let Some(mut node) = other("node") {
        let script = "const c=require('crypto');const k=c.createPrivateKey(require('fs').readFileSync(process.argv[1]));\
            console.log(Buffer.from(c.createPublicKey(k).export({format:'jwk'}).x,'base64url').toString('hex'))";
        assert_eq!(said(&node.args(["-e", script, text(&file)]).output().unwrap()).trim(), public);
    }
    if let Some(mut python) = other("python3") {
        let script = "import sys\n\
            try: from cryptography.hazmat.primitives import serialization as s\n\
            except ImportError: print('skipped'); sys.exit()\n\
            k = s.load_pem_private_key(open(sys.argv[1], 'rb').read(), None)\n\
            print(k.public_key().public_bytes(s.Encoding.Raw, s.PublicFormat.Raw).hex())";
        let read = said(&python.args(["-c", script, text(&file)]).output().unwrap());
        if read.trim() == "skipped" {
            println!("skipped: python3 has no cryptography package");
        } else {
            assert_eq!(read.trim(), public);
        }
    }
}

#[test]
fn what_openssl_and_node_make_we_read() {
    let dir = tempfile::tempdir().unwrap();
    if let Some(mut openssl) = other("openssl") {
        let file = dir.path().join("openssl.pem");
        let made = openssl.args(["genpkey", "-algorithm", "ed25519", "-out", text(&file)]).stderr(Stdio::null());
        assert!(made.status().unwrap().success());
        let signing = SigningKey::from_pem(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert!(ok(&["key", "show", text(&file)]).contains(&signing.public().to_hex()));
        // Another algorithm's key is told apart.
        let rsa = dir.path().join("ec.pem");
        let mut openssl = Command::new("openssl");
        let made =
            openssl.args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", text(&rsa)]);
        assert!(made.stderr(Stdio::null()).status().unwrap().success());
        let (code, words) = no(&run(&["key", "show", text(&rsa)]));
        assert!(code == 3 && words.contains("Ed25519"), "{code} {words}");
    }
    if let Some(mut node) = other("node") {
        let script = "const {privateKey,publicKey}=require('crypto').generateKeyPairSync('ed25519');\
            console.error(Buffer.from(publicKey.export({format:'jwk'}).x,'base64url').toString('hex'));\
            process.stdout.write(privateKey.export({format:'pem',type:'pkcs8'}))";
        let output = node.args(["-e", script]).output().unwrap();
        let shown = fed(&["key", "show", "-", "--json"], std::str::from_utf8(&output.stdout).unwrap());
        let shown: Value = serde_json::from_str(&said(&shown)).unwrap();
        assert_eq!(shown["publicKey"], *std::str::from_utf8(&output.stderr).unwrap().trim());
    }
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex_bytes(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
