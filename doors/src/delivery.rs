//! A delivery as its agent reads it: the flat `run` frame with an AG-UI run input,
//! whatever language the caller spoke. A pure function of the record, so an offer
//! made again says the same.

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};
use wikala_witness::{Delivery, Dialect, ItemKind, Leg, ReplyItem, RunId};

use crate::bag;

/// The `run` frame of the link, JSON text. Envelopes keep their nulls.
#[must_use]
pub fn frame(delivery: &Delivery) -> String {
    let quoted = json::quote;
    format!(
        r#"{{"type":"run","runId":{},"agentName":{},"runInput":{},"threadId":{},"metadata":{{}}}}"#,
        quoted(delivery.run.as_str()),
        quoted(delivery.agent.name.as_str()),
        run_input(delivery).get(),
        quoted(delivery.thread.as_str()),
    )
}

/// The run input: every member the reference's SDK requires is there. Ids are ours.
#[must_use]
pub fn run_input(delivery: &Delivery) -> Box<RawValue> {
    let text = &*delivery.leg.words.text;
    match delivery.leg.words.dialect {
        Dialect::AgUi => from_agui(text, delivery),
        Dialect::A2a => from_a2a(text, delivery),
        Dialect::Plain => build(RawObject::new(), Vec::new(), None, delivery),
    }
}

/// The caller's body, with our ids, the rebuilt bag, and no proofs.
fn from_agui(text: &str, delivery: &Delivery) -> Box<RawValue> {
    // The door parsed it before it was recorded; an empty body cannot come from there.
    let mut input = RawObject::parse(text).unwrap_or_default();
    // Old clients put the bag here; what is in it was for us.
    input.remove("metadata");
    let props = present(&input, "forwardedProps").map(str::to_owned);
    let resume = present(&input, "resume").map(without_metadata);
    input.set("threadId", quoted(delivery.thread.as_str()));
    input.set("runId", quoted(delivery.run.as_str()));
    for (name, empty) in
        [("parentRunId", "null"), ("state", "{}"), ("messages", "[]"), ("tools", "[]"), ("context", "[]")]
    {
        if present(&input, name).is_none() {
            input.set(name, raw(empty.to_owned()));
        }
    }
    input.set("forwardedProps", forwarded(props.as_deref(), delivery));
    input.set("resume", resume.unwrap_or_else(|| raw("null".to_owned())));
    input.to_raw()
}

/// One A2A message is one AG-UI message; an answer is resume entries and results.
/// `text` is the request's params, or the bare message.
fn from_a2a(text: &str, delivery: &Delivery) -> Box<RawValue> {
    let (message, props) = a2a_message(text);
    let messages = match delivery.leg.reply {
        // An answer never becomes an utterance.
        Some(_) => Vec::new(),
        None => vec![spoken(&message, &format!("{}.{}", delivery.run, delivery.leg.ordinal))],
    };
    build(RawObject::new(), messages, props.as_deref(), delivery)
}

/// The message of recorded A2A words, and the bag beside it.
pub(crate) fn a2a_message(text: &str) -> (RawObject, Option<String>) {
    let params = RawObject::parse(text).unwrap_or_default();
    match present(&params, "message").and_then(|message| RawObject::parse(message).ok()) {
        Some(message) => (message, present(&params, "metadata").map(str::to_owned)),
        None => (params, None),
    }
}

/// An A2A message as an AG-UI message: texts joined, everything that is no text raw in
/// `metadata.a2a.parts`. `unnamed` is the id of a message that has none.
pub(crate) fn spoken(message: &RawObject, unnamed: &str) -> Box<RawValue> {
    let id = present(message, "messageId")
        .or_else(|| present(message, "message_id"))
        .and_then(json::string)
        .unwrap_or_else(|| unnamed.to_owned());
    let agent = matches!(present(message, "role"), Some("\"ROLE_AGENT\"" | "\"agent\"" | "2"));
    let parts: Vec<Box<RawValue>> =
        present(message, "parts").and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
    let texts: Vec<String> = parts
        .iter()
        .filter_map(|part| RawObject::parse(part.get()).ok())
        .filter_map(|part| present(&part, "text").and_then(json::string))
        .collect();
    let mut spoken = RawObject::new();
    spoken.set("id", quoted(&id));
    spoken.set("role", quoted(if agent { "assistant" } else { "user" }));
    spoken.set("content", quoted(&texts.join("\n")));
    if texts.len() < parts.len() {
        let all: Vec<&str> = parts.iter().map(|part| part.get()).collect();
        spoken.set("metadata", raw(format!(r#"{{"a2a":{{"parts":[{}]}}}}"#, all.join(","))));
    }
    spoken.to_raw()
}

/// The results of deferred calls, as `tool` messages.
pub(crate) fn results(run: &RunId, leg: &Leg) -> Vec<Box<RawValue>> {
    let calls = leg.reply.iter().flatten().filter(|item| item.kind == ItemKind::Call);
    calls
        .enumerate()
        .map(|(number, item)| {
            let mut message = RawObject::new();
            message.set("id", quoted(&format!("{run}.{}.{number}", leg.ordinal)));
            message.set("role", quoted("tool"));
            message.set("toolCallId", quoted(&item.id));
            let content = item.payload.as_deref().unwrap_or("\"\"");
            // A result is a string on AG-UI: text as it is, other JSON as its text.
            message.set("content", quoted(&json::string(content).unwrap_or_else(|| content.to_owned())));
            if item.abandoned {
                message.set("error", quoted("abandoned"));
            }
            message.to_raw()
        })
        .collect()
}

fn build(
    mut input: RawObject,
    mut messages: Vec<Box<RawValue>>,
    props: Option<&str>,
    delivery: &Delivery,
) -> Box<RawValue> {
    messages.extend(results(&delivery.run, &delivery.leg));
    let messages: Vec<&str> = messages.iter().map(|message| message.get()).collect();
    let entries: Vec<String> = delivery.leg.reply.iter().flatten().filter_map(entry).collect();
    let resume = if entries.is_empty() { "null".to_owned() } else { format!("[{}]", entries.join(",")) };
    let parent = delivery.parent_run.as_deref().map_or_else(|| "null".to_owned(), json::quote);
    input.set("threadId", quoted(delivery.thread.as_str()));
    input.set("runId", quoted(delivery.run.as_str()));
    input.set("parentRunId", raw(parent));
    input.set("state", raw("{}".to_owned()));
    input.set("messages", raw(format!("[{}]", messages.join(","))));
    input.set("tools", raw("[]".to_owned()));
    input.set("context", raw("[]".to_owned()));
    input.set("forwardedProps", forwarded(props, delivery));
    input.set("resume", raw(resume));
    input.to_raw()
}

/// A ResumeEntry; `None` for a call, whose result is a message.
fn entry(item: &ReplyItem) -> Option<String> {
    if item.kind == ItemKind::Call {
        return None;
    }
    let id = json::quote(&item.id);
    Some(match (&item.payload, item.abandoned) {
        (_, true) => format!(r#"{{"interruptId":{id},"status":"cancelled"}}"#),
        (Some(payload), false) => format!(r#"{{"interruptId":{id},"status":"resolved","payload":{payload}}}"#),
        (None, false) => format!(r#"{{"interruptId":{id},"status":"resolved"}}"#),
    })
}

/// The bag rebuilt from the record. A value that is no object carries no proofs and is
/// relayed as it came.
fn forwarded(props: Option<&str>, delivery: &Delivery) -> Box<RawValue> {
    match (bag::delivered(props, delivery), props) {
        (Some(bag), _) => bag.to_raw(),
        (None, Some(props)) if props.trim_start().starts_with('{') => raw("{}".to_owned()),
        (None, Some(props)) => raw(props.to_owned()),
        (None, None) => raw("null".to_owned()),
    }
}

/// Resume entries without their metadata: that is where signatures ride, and they were for us.
fn without_metadata(resume: &str) -> Box<RawValue> {
    let entries: Vec<Box<RawValue>> = serde_json::from_str(resume).unwrap_or_default();
    let entries: Vec<String> = entries
        .iter()
        .map(|entry| match RawObject::parse(entry.get()) {
            Ok(mut members) => match members.remove("metadata") {
                Some(_) => members.to_raw().get().to_owned(),
                None => entry.get().to_owned(),
            },
            Err(_) => entry.get().to_owned(),
        })
        .collect();
    raw(format!("[{}]", entries.join(",")))
}

fn present<'a>(members: &'a RawObject, name: &str) -> Option<&'a str> {
    members.get(name).map(RawValue::get).filter(|raw| *raw != "null")
}

fn quoted(text: &str) -> Box<RawValue> {
    raw(json::quote(text))
}

/// JSON text that stands here as a literal, or was joined from values parsed before.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wikala_chain::{AgentName, SigningKey};
    use wikala_witness::{AgentId, ThreadId, Words};

    fn delivery(dialect: Dialect, text: &str, reply: Option<Vec<ReplyItem>>) -> Delivery {
        Delivery {
            run: RunId::parse(&format!("run_{}", "1".repeat(24))).unwrap(),
            thread: ThreadId::parse(&format!("thread_{}", "2".repeat(24))).unwrap(),
            agent: AgentId { provider: SigningKey::from_seed([1; 32]).public(), name: AgentName::new("a").unwrap() },
            leg: Leg { ordinal: u64::from(reply.is_some()), words: Words { dialect, text: text.into() }, reply },
            chain: Some("[\"h\"]".to_owned()),
            delegation: None,
            vouchers: None,
            addressed: None,
            parent_run: None,
        }
    }

    fn item(id: &str, kind: ItemKind, payload: Option<&str>) -> ReplyItem {
        ReplyItem { id: id.into(), kind, abandoned: payload.is_none(), payload: payload.map(str::to_owned) }
    }

    fn check(dialect: Dialect, text: &str, reply: Option<Vec<ReplyItem>>, expect: &str) {
        let given = delivery(dialect, text, reply);
        let expect = expect.replace("R1", given.run.as_str()).replace("T1", given.thread.as_str());
        assert_eq!(run_input(&given).get(), expect);
        assert!(json::check(&frame(&given)).is_ok());
    }

    #[test]
    fn an_agui_body_stays_as_received_but_for_ids_bag_and_proofs() {
        check(
            Dialect::AgUi,
            r#"{"threadId":"mine","runId":"r","protocolVersion":"1.0","state":null,"messages":[ {"id":"m", "role":"user","content":"x"} ],"forwardedProps":{"a": 1.10,"presenter":{},"resolution":{},"cancel":{},"wikala":1,"actorChain":["mine"]},"resume":[{"interruptId":"q","status":"resolved","payload":{"n": 1},"metadata":{"resolution":{}}}],"metadata":{"resolution":{}}}"#,
            None,
            r#"{"threadId":"T1","runId":"R1","protocolVersion":"1.0","state":{},"messages":[ {"id":"m", "role":"user","content":"x"} ],"forwardedProps":{"a":1.10,"actorChain":["h"]},"resume":[{"interruptId":"q","status":"resolved","payload":{"n": 1}}],"parentRunId":null,"tools":[],"context":[]}"#,
        );
        let mut bare = delivery(Dialect::AgUi, r#"{"forwardedProps":["not","a bag"]}"#, None);
        bare.chain = None;
        assert!(run_input(&bare).get().contains(r#""forwardedProps":["not","a bag"]"#));
    }

    #[test]
    fn an_a2a_message_is_one_agui_message() {
        check(
            Dialect::A2a,
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"},{"data":{"x":null}},{"text":"b"}]},"metadata":{"k":1,"presenter":{}}}"#,
            None,
            r#"{"threadId":"T1","runId":"R1","parentRunId":null,"state":{},"messages":[{"id":"m","role":"user","content":"a\nb","metadata":{"a2a":{"parts":[{"text":"a"},{"data":{"x":null}},{"text":"b"}]}}}],"tools":[],"context":[],"forwardedProps":{"k":1,"actorChain":["h"]},"resume":null}"#,
        );
    }

    #[test]
    fn an_answer_is_resume_entries_and_results() {
        let reply = vec![
            item("q", ItemKind::Interrupt, Some("{\"ok\":true}")),
            item("p", ItemKind::Interrupt, None),
            item("c", ItemKind::Call, Some("\"42\"")),
            item("d", ItemKind::Call, Some("[1]")),
        ];
        for dialect in [Dialect::A2a, Dialect::Plain] {
            check(
                dialect,
                r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}"#,
                Some(reply.clone()),
                r#"{"threadId":"T1","runId":"R1","parentRunId":null,"state":{},"messages":[{"id":"R1.1.0","role":"tool","toolCallId":"c","content":"42"},{"id":"R1.1.1","role":"tool","toolCallId":"d","content":"[1]"}],"tools":[],"context":[],"forwardedProps":{"actorChain":["h"]},"resume":[{"interruptId":"q","status":"resolved","payload":{"ok":true}},{"interruptId":"p","status":"cancelled"}]}"#,
            );
        }
    }
}
