//! `wikala demo`: every step holds, a reader may hang up, and nothing stays behind.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{said, text};
use crate::process::{Kept, ok, wikala};

fn step(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|_| panic!("one object a line: {line:?}"))
}

#[test]
fn a_reader_who_hung_up_does_not_break_the_story() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = wikala(&["demo", "--json"]).env("TMPDIR", dir.path()).stdout(writer).stderr(Stdio::piped()).output();
    let output = output.unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stays behind");
}

#[test]
fn the_story_is_told_by_letters_and_says_what_an_outsider_learns() {
    let story = said(&wikala(&["demo"]).output().unwrap());
    let legend: Vec<(&str, &str)> = story
        .lines()
        .take(6)
        .map(|line| line.split_whitespace())
        .map(|mut words| (words.next().unwrap(), words.next().unwrap()))
        .collect();
    assert_eq!(legend.iter().map(|(letter, _)| *letter).collect::<String>(), "WHSABC", "{story}");
    for (letter, fingerprint) in legend {
        assert_eq!(story.matches(fingerprint).count(), 1, "{letter} is a letter from then on: {story}");
    }
    assert!(story.contains("└► C  head H, opened by B"), "{story}");
    assert!(story.contains("response-schema-violation: ") && story.contains("names the entry"), "{story}");
    assert_eq!(story.matches("so an outside reader knows").count(), 6, "{story}");
    assert_eq!(story.matches("cannot know").count(), 6, "{story}");
}

#[test]
fn it_stays_to_be_acted_with_and_takes_everything_along_when_told_to_stop() {
    let dir = tempfile::tempdir().unwrap();
    let child = wikala(&["demo", "--json", "--stay"]).env("TMPDIR", dir.path()).stdout(Stdio::piped()).spawn();
    let mut child = Kept(child.expect("the binary starts"));
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(|line| step(&line.unwrap()));
    let mut ties = Vec::new();
    let stays = loop {
        let line = lines.next().expect("it stays");
        if line["stays"].is_object() {
            break line["stays"].clone();
        }
        assert_eq!(line["ok"], true, "{line}");
        ties.extend(line["facts"]["operator"][1]["tie"].as_str().map(str::to_owned));
    };
    assert_eq!(ties, ["chain", "key", "key", "key", "none"]);

    let data = Path::new(stays["data"].as_str().unwrap());
    let keys: Vec<_> = std::fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "pem"))
        .collect();
    assert_eq!(keys.len(), 4, "three agents and H");
    for key in keys {
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600, "{}", key.display());
    }
    let word = |name: &str| stays[name].as_str().unwrap();
    assert!(ok(&["tree", "--data", text(data)]).contains("broker"));
    assert!(ok(&["run", "show", word("runId"), "--data", text(data)]).contains("input-required"));
    let answer = ["act", "answer", "--key", word("key"), word("runId"), "--ask", word("ask"), "--answer", "blue"];
    let body = step(ok(&[&answer[..], &["--body"]].concat()).trim());
    assert_eq!((&body["form"], &body["answer"], &body["asks"][0]), (&"answer".into(), &"blue".into(), &stays["ask"]));

    assert!(Command::new("kill").args(["-TERM", &child.0.id().to_string()]).status().unwrap().success());
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stays behind");
}
