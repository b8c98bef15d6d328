//! The published vectors: what is checked in is what the code writes, what the code
//! answers, and what the changelog says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wikala_doors::vectors::{VectorsError, check, fingerprint, generate};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn checked_in() -> PathBuf {
    root().join("vectors")
}

/// Every file below a folder: path from there, bytes.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for family in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for file in fs::read_dir(&family).unwrap().map(|entry| entry.unwrap().path()) {
            found.push((file.strip_prefix(dir).unwrap().to_string_lossy().into_owned(), fs::read(&file).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn generating_is_deterministic_and_gives_what_is_checked_in() {
    let temporary = tempfile::tempdir().unwrap();
    let summary = generate(temporary.path()).unwrap();
    let written = files(temporary.path());
    assert_eq!(summary.cases.values().sum::<usize>(), written.len(), "no two cases share a name");
    let imported = |name: &str| name.starts_with("ed25519/") || name.starts_with("contract/");
    let there: Vec<_> = files(&checked_in()).into_iter().filter(|(name, _)| !imported(name)).collect();
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&written), names(&there));
    for ((name, ours), (_, theirs)) in written.iter().zip(&there) {
        assert!(ours == theirs, "{name} is not what is generated");
    }
}

#[test]
fn every_case_is_answered_as_it_says_the_contract_included() {
    let summary = check(&checked_in()).unwrap_or_else(|error| panic!("{error}"));
    println!("{summary}");
    assert_eq!(summary.cases.len(), 18);
    // Six signed strings, the two-hop chain, the dispatched chain of the delivered run.
    assert_eq!(summary.cases["contract"], 8);
    assert_eq!(summary.cases["ed25519"], 1065);
}

#[test]
fn there_are_more_bad_cases_than_good_ones() {
    let (mut good, mut bad) = (0, 0);
    for (name, bytes) in files(&checked_in()) {
        let case: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        if name.starts_with("ed25519/") || name.starts_with("contract/") {
            continue;
        }
        assert!(case["why"].as_str().is_some_and(|why| !why.is_empty()), "{name}");
        match (case["expect"]["ok"].as_bool(), case["expect"]["code"].as_str()) {
            (Some(true), None) => good += 1,
            (Some(false), Some(_)) => bad += 1,
            _ => panic!("{name}: neither values nor a code"),
        }
    }
    assert!(bad > 2 * good, "{bad} bad, {good} good");
}

/// The reference's vectors cannot be edited into agreement.
#[test]
fn a_changed_file_is_told() {
    let temporary = tempfile::tempdir().unwrap();
    for (name, bytes) in files(&checked_in()) {
        let path = temporary.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    fs::copy(checked_in().join("REVISION"), temporary.path().join("REVISION")).unwrap();
    check(temporary.path()).unwrap();
    let edit = |file: &str, from: &str, to: &str| {
        let path = temporary.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    };
    edit("contract/contract-vectors.rev11.json", "c110a243", "c110a244");
    edit("chain/two_hops.json", "a second key", "A second key");
    fs::remove_file(temporary.path().join("window/signed_now.json")).unwrap();
    fs::write(temporary.path().join("keys/mine.json"), "{}").unwrap();
    let Err(VectorsError::Differ(told)) = check(temporary.path()) else { panic!("not told") };
    for what in ["contract/", "chain/two_hops", "window/signed_now", "keys/mine", "REVISION"] {
        assert!(told.iter().any(|line| line.starts_with(what)), "{what} in {told:?}");
    }
}

/// A change of the wire takes a revision and a line in the changelog.
#[test]
fn revision_fingerprint_and_changelog_agree() {
    let revision = fs::read_to_string(checked_in().join("REVISION")).unwrap();
    let (number, told) = revision.trim_end().split_once(' ').unwrap();
    assert!(number.parse::<u32>().is_ok_and(|number| number > 0) && revision.ends_with('\n'));
    assert_eq!(told, fingerprint(&checked_in()).unwrap(), "vectors/REVISION is not of these files");
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let line = format!("- revision {number} ({})", &told[.."sha256:".len() + 16]);
    let wire = changelog.split("### Wire").nth(1).unwrap_or_default();
    assert!(wire.lines().any(|known| known.starts_with(&line)), "CHANGELOG.md, Wire: {line} is missing");
}

/// The specification's examples are cases: each signature and token on the page is in some file.
#[test]
fn the_examples_of_the_specification_are_in_the_cases() {
    let all: String = files(&checked_in()).iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
    let page = fs::read_to_string(checked_in().join("WIRE.md")).unwrap();
    let long =
        |word: &&str| word.len() >= 128 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let examples: Vec<_> = page.split(|c: char| c.is_whitespace() || c == '"').filter(long).collect();
    assert!(examples.len() >= 18, "{} examples", examples.len());
    for example in examples {
        assert!(all.contains(example), "{example} is in no case");
    }
}

/// Two replayers written from WIRE.md, sharing nothing with this code.
#[test]
fn foreign_replayers_agree() {
    let clients = root().join("tests/clients");
    let python = root().join("tests/.clients/python/bin/python");
    replayed(python.to_str().unwrap(), &clients.join("python/replay.py"));
    // It asks a library about schemas.
    if root().join("tests/.clients/node").is_dir() {
        replayed("node", &clients.join("node/replay.mjs"));
    } else {
        println!("skipped: node's packages are not installed, run tests/clients/setup.sh");
    }
}

/// Runs a replayer; its closing line must be `N passed, 0 failed` with every case counted.
fn replayed(program: &str, script: &Path) {
    let run = match Command::new(program).arg(script).arg(checked_in()).output() {
        Ok(run) => run,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not installed, run tests/clients/setup.sh");
            return;
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let said = String::from_utf8_lossy(&run.stdout);
    println!("{}: {}", script.display(), said.trim_end());
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    let last = said.trim_end().lines().last().unwrap_or_default();
    let passed = last.strip_suffix(" passed, 0 failed").and_then(|count| count.parse::<usize>().ok());
    // At least a case a file, and the 1,065 of one of them.
    assert!(passed.is_some_and(|passed| passed >= files(&checked_in()).len() + 1064), "{last}");
}
