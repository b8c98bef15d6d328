//! Ten thousand mutated messages and events: nothing panics, nothing hangs, and what is
//! passed on differs from what came at the named places alone.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::value::RawValue;
use wikala_chain::AgentName;
use wikala_doors::a2a::{heard, patched};
use wikala_doors::agui::words;
use wikala_doors::delivery;
use wikala_witness::{AgentId, Delivery, Dialect, Leg, RunId, ThreadId, Words};

use super::key;

const ROUNDS: usize = 10_000;
const RUN: &str = "run_aaaaaaaaaaaaaaaaaaaaaaaa";
const THREAD: &str = "thread_bbbbbbbbbbbbbbbbbbbbbbbb";

const A2A: [&str; 5] = [
    r#"{ "task" : {"id":"t","contextId":"c", "n":1.10,"status":{"state":"TASK_STATE_WORKING","message":{"messageId":"m","taskId":"t","contextId":"c","parts":[{"text":"h\u00e9 \"x\""}]}}, "history":[ {"messageId":"m","taskId":"t"} ,{"contextId":"c"}],"artifacts":[{"artifactId":"a","parts":[{"data":null}]}],"metadata":{ "a":1e2 }} }"#,
    r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":6,"message":{"messageId":"q","taskId":"t","role":"ROLE_AGENT","parts":[{"text":"?"}]},"timestamp":"2026-01-01T00:00:00Z"},"metadata":{"progress":0.5}}}"#,
    r#"{"artifactUpdate":{"contextId":"c","taskId":"t","artifact":{"artifactId":"a","parts":[{"raw":"AA==","filename":"f"}]},"append":true,"lastChunk":false}}"#,
    r#"{"message":{"messageId":"m","contextId":"c","taskId":"","role":"ROLE_AGENT","parts":[{"url":"http://x/","mediaType":"a/b"}],"referenceTaskIds":["t"]}}"#,
    r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}},"later":[1,{"big":12345678901234567890123}]}"#,
];

const AGUI: [&str; 3] = [
    r#"{ "threadId" : "t","runId":"r", "state":{"n":1.10},"messages":[ {"id":"u","role":"user","content":"h\u00e9"}],"tools":[],"context":null,"forwardedProps":{"mine":  0.10}}"#,
    r#"{"runId":"r","messages":[],"threadId":"t","resume":[{"interruptId":"q","status":"resolved","payload":{"a":1.0},"metadata":{"mine":1}}],"unknown":{"deep":[[[]]]}}"#,
    r#"{"protocolVersion":"1.0","threadId":"t","parentRunId":null,"runId":"r","messages":[{"id":"1","role":"tool","toolCallId":"c","content":"x"}]}"#,
];

/// A text with a few bytes changed, taken out, doubled or put in.
fn mutated(random: &mut StdRng, seed: &str) -> String {
    const PIECES: [&str; 16] = [
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "\\u0000",
        "\\ud800",
        "1e999",
        " ",
        "\n",
        "taskId",
        "\u{e9}",
        "\"id\":\"t\",",
    ];
    let mut chars: Vec<char> = seed.chars().collect();
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..=chars.len());
        match random.random_range(0..4) {
            0 if at < chars.len() => drop(chars.remove(at)),
            1 if at < chars.len() => {
                chars[at] = PIECES[random.random_range(0..PIECES.len())].chars().next().unwrap_or('x')
            }
            2 => {
                let end = (at + random.random_range(0..12)).min(chars.len());
                let piece: Vec<char> = chars[at..end].to_vec();
                chars.splice(at..at, piece);
            }
            _ => drop(chars.splice(at..at, PIECES[random.random_range(0..PIECES.len())].chars())),
        }
    }
    chars.into_iter().collect()
}

/// Is `out` the text `from` with some whole JSON values replaced by `tokens`, or members of
/// such a value appended, and otherwise the very same bytes?
fn only_at_values(from: &str, out: &str, tokens: &[&str], members: &[&str]) -> bool {
    let (mut from, mut out) = (from, out);
    loop {
        let same = from.bytes().zip(out.bytes()).take_while(|(a, b)| a == b).count();
        let mut cut = same.min(from.len());
        while !from.is_char_boundary(cut) || !out.is_char_boundary(cut) {
            cut -= 1;
        }
        if from.len() == cut && out.len() == cut {
            return true;
        }
        // Back to where a value begins: the same bytes may begin both.
        let begins = (0..=cut).rev().find(|at| {
            out.is_char_boundary(*at)
                && from.is_char_boundary(*at)
                && (tokens.iter().any(|token| out[*at..].starts_with(token))
                    || members.iter().any(|member| out[*at..].starts_with(member)))
        });
        let Some(at) = begins else { return false };
        if let Some(token) = tokens.iter().find(|token| out[at..].starts_with(**token)) {
            let mut values = serde_json::Deserializer::from_str(&from[at..]).into_iter::<&RawValue>();
            let Some(Ok(value)) = values.next() else { return false };
            let value = value.get().len();
            (from, out) = (&from[at + value..], &out[at + token.len()..]);
        } else if let Some(member) = members.iter().find(|member| out[at..].starts_with(**member)) {
            (from, out) = (&from[at..], &out[at + member.len()..]);
        }
    }
}

#[test]
fn an_a2a_event_is_refused_or_passed_on_with_its_ids_patched_alone() {
    let mut random = StdRng::seed_from_u64(1);
    let (run, thread) = (format!("\"{RUN}\""), format!("\"{THREAD}\""));
    let members: Vec<String> = ["id", "taskId", "contextId"]
        .iter()
        .flat_map(|name| [&run, &thread].map(|id| [format!(",\"{name}\":{id}"), format!("\"{name}\":{id}")]))
        .flatten()
        .collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let mut passed = 0;
    for _ in 0..ROUNDS {
        let seed = A2A[random.random_range(0..A2A.len())];
        let text = mutated(&mut random, seed);
        let Ok(heard) = heard::read(&text) else { continue };
        assert_eq!(&*heard.words.text, text, "recorded as it came");
        let out = patched(&text, RUN, THREAD).expect("what was heard can be told");
        wikala_chain::json::check(&out).expect("still JSON");
        assert!(only_at_values(&text, &out, &[&run, &thread], &members), "{text}\n{out}");
        passed += 1;
    }
    assert!(passed > ROUNDS / 5, "{passed}");
}

#[test]
fn an_ag_ui_body_is_delivered_with_its_ids_patched_alone() {
    let mut random = StdRng::seed_from_u64(2);
    let (run, thread) = (format!("\"{RUN}.1\""), format!("\"{THREAD}\""));
    let members = [
        format!(",\"threadId\":{thread}"),
        format!(",\"runId\":{run}"),
        format!("\"threadId\":{thread}"),
        format!("\"runId\":{run}"),
    ];
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let mut passed = 0;
    for _ in 0..ROUNDS {
        let seed = AGUI[random.random_range(0..AGUI.len())];
        let text = mutated(&mut random, seed);
        if wikala_chain::RawObject::parse(&text).is_err() {
            continue;
        }
        let delivery = Delivery {
            owed: None,
            run: RunId::parse(RUN).expect("a run"),
            thread: ThreadId::parse(THREAD).expect("a thread"),
            agent: AgentId { provider: key(1).public(), name: AgentName::new("a").expect("a name") },
            leg: Leg {
                ordinal: 1,
                words: Words { dialect: Dialect::AgUi, text: text.as_str().into() },
                extensions: Vec::new(),
                reply: None,
            },
            chain: None,
            delegation: None,
            vouchers: None,
            addressed: None,
            parent_run: None,
        };
        let out = delivery::agui_body(&delivery, THREAD, &format!("{RUN}.1"));
        assert!(only_at_values(&text, &out, &[&run, &thread], &members), "{text}\n{out}");
        // Whatever it is: said as an event it is refused or recorded as it came.
        if let Ok(event) = words::read(&text) {
            assert_eq!(&*event.words.text, text);
        }
        passed += 1;
    }
    assert!(passed > ROUNDS / 5, "{passed}");
}

/// The check itself can fail.
#[test]
fn one_more_byte_changed_is_seen() {
    let token = "\"run\"";
    let from = r#"{"id":"a","x":1.10}"#;
    assert!(only_at_values(from, r#"{"id":"run","x":1.10}"#, &[token], &[]));
    assert!(only_at_values("{}", r#"{"id":"run"}"#, &[token], &["\"id\":\"run\""]));
    for other in [r#"{"id":"run","x":1.1}"#, r#"{"id":"run", "x":1.10}"#, r#"{"id":"run"}"#, r#"{"id":"b","x":1.10}"#] {
        assert!(!only_at_values(from, other, &[token], &[]), "{other}");
    }
}
