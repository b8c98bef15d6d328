//! What the scripted agent does with a run: run input in, a list of acts out. Pure:
//! no clock, no socket, and every event is one of AG-UI 1.0.

use std::time::Duration;

use serde_json::{Value, json};
use wikala_chain::{AgentName, PublicKey};
use wikala_witness::AgentId;

/// The most parts that `stream N` says.
const PARTS: u64 = 10_000;
/// The longest that `slow SECONDS` takes, seconds.
const SLOW_S: u64 = 3_600;

/// One thing the agent does.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Says an event.
    Say(Value),
    /// Takes its time; a cancel ends the wait.
    Wait(Duration),
    /// Drops the link, comes back and goes on.
    Vanish,
    /// Drops the link for good.
    Die,
    /// Hands work to another agent, and says what it answered.
    Delegate(Box<Delegation>),
}

/// Work handed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// To whom.
    pub to: AgentId,
    /// Under which chain, by which proof.
    pub way: Way,
    /// What is said there.
    pub text: String,
    /// The message id of the answer here.
    pub message: String,
}

/// How work is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The delivered chain and one hop more: the honest way.
    Extend,
    /// A chain of its own.
    Fresh,
    /// No chain, signed by RFC 9421.
    Bare,
    /// Nothing at all.
    Anon,
    /// The caller's chain without the witness's dispatch hop.
    Strip,
}

impl Way {
    fn parse(text: &str) -> Option<Way> {
        Some(match text {
            "extend" => Way::Extend,
            "fresh" => Way::Fresh,
            "bare" => Way::Bare,
            "anon" => Way::Anon,
            "strip" => Way::Strip,
            _ => return None,
        })
    }
}

/// What a script writes with: the ids of the run, and a tag that makes its own unique.
struct Pen<'a> {
    thread: &'a str,
    run: &'a str,
    tag: &'a str,
}

impl Pen<'_> {
    fn started(&self) -> Act {
        Act::Say(json!({
            "type": "RUN_STARTED", "threadId": self.thread, "runId": self.run, "protocolVersion": "1.0",
        }))
    }

    fn finished(&self, outcome: &Value) -> Act {
        Act::Say(json!({
            "type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run, "outcome": outcome,
        }))
    }

    fn done(&self) -> Act {
        self.finished(&json!({ "type": "success" }))
    }

    fn asks(&self, interrupts: &[Value]) -> Act {
        self.finished(&json!({ "type": "interrupt", "interrupts": interrupts }))
    }

    fn interrupt(&self, number: u32, message: &str) -> Value {
        json!({ "id": format!("ask-{}-{number}", self.tag), "reason": "input_required", "message": message })
    }

    fn message(&self) -> String {
        format!("said-{}", self.tag)
    }

    fn says(&self, parts: impl IntoIterator<Item = String>) -> Vec<Act> {
        says(&self.message(), parts)
    }
}

/// A message, part by part.
#[must_use]
pub fn says(message: &str, parts: impl IntoIterator<Item = String>) -> Vec<Act> {
    let mut acts = vec![Act::Say(json!({ "type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant" }))];
    acts.extend(
        parts
            .into_iter()
            .map(|part| Act::Say(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": part }))),
    );
    acts.push(Act::Say(json!({ "type": "TEXT_MESSAGE_END", "messageId": message })));
    acts
}

/// How a cancelled run ends in words; `None` for a caller that knows no such outcome:
/// there the witness says it.
#[must_use]
pub fn cancelled(input: &Value) -> Option<Value> {
    let version = input["protocolVersion"].as_str().unwrap_or("");
    version.starts_with("1.").then(|| {
        json!({
            "type": "RUN_FINISHED", "threadId": input["threadId"], "runId": input["runId"],
            "outcome": { "type": "cancelled" },
        })
    })
}

/// What the agent does with this run input. `tag` makes its ids unique.
#[must_use]
pub fn acts(input: &Value, tag: &str) -> Vec<Act> {
    let pen = Pen { thread: input["threadId"].as_str().unwrap_or(""), run: input["runId"].as_str().unwrap_or(""), tag };
    let mut acts = vec![pen.started()];
    if let Some(answer) = answered(input) {
        acts.extend(pen.says([answer]));
        acts.push(pen.done());
        return acts;
    }
    let text = asked(input);
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
    let rest = rest.trim();
    match word {
        "echo" => acts.extend(pen.says([rest.to_owned()])),
        "stream" => {
            let parts = rest.parse::<u64>().unwrap_or(3).min(PARTS);
            acts.extend(pen.says((1..=parts).map(|part| format!("{part} "))));
        }
        "slow" => {
            acts.push(Act::Wait(Duration::from_secs(rest.parse::<u64>().unwrap_or(1).min(SLOW_S))));
            acts.extend(pen.says(["took my time".to_owned()]));
        }
        "ask" => {
            acts.push(pen.asks(&[pen.interrupt(1, rest)]));
            return acts;
        }
        "askjson" => {
            let mut interrupt = pen.interrupt(1, if rest.is_empty() { "approve?" } else { rest });
            interrupt["responseSchema"] = json!({
                "type": "object", "properties": { "approved": { "type": "boolean" } },
                "required": ["approved"], "additionalProperties": false,
            });
            acts.push(pen.asks(&[interrupt]));
            return acts;
        }
        "two" => {
            acts.push(pen.asks(&[pen.interrupt(1, "first?"), pen.interrupt(2, "second?")]));
            return acts;
        }
        "tool" => {
            let call = format!("call-{tag}");
            let arguments = json!({ "query": rest }).to_string();
            acts.push(Act::Say(json!({ "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "look_up" })));
            acts.push(Act::Say(json!({ "type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": arguments })));
            acts.push(Act::Say(json!({ "type": "TOOL_CALL_END", "toolCallId": call })));
            acts.push(pen.finished(&json!({ "type": "success", "pendingToolCallIds": [call] })));
            return acts;
        }
        "fail" => {
            acts.push(Act::Say(json!({ "type": "RUN_ERROR", "message": "failed as asked", "code": "scripted" })));
            return acts;
        }
        "vanish" => {
            // In the middle of a message: what was said before must not be said twice.
            acts.extend(pen.says(["before, ".to_owned(), "after".to_owned()]));
            acts.insert(3, Act::Vanish);
        }
        "die" => {
            acts.extend(pen.says(["last words".to_owned()]));
            acts.push(Act::Die);
            return acts;
        }
        "delegate" => match delegation(rest, pen.message()) {
            Some(delegation) => acts.push(Act::Delegate(Box::new(delegation))),
            None => {
                acts.extend(pen.says(["delegate: PROVIDER/NAME extend|fresh|bare|anon|strip TEXT expected".to_owned()]))
            }
        },
        _ => acts.extend(pen.says([text.clone()])),
    }
    acts.push(pen.done());
    acts
}

/// `PROVIDER/NAME WAY TEXT`, the provider by its whole key.
fn delegation(text: &str, message: String) -> Option<Delegation> {
    let mut words = text.splitn(3, char::is_whitespace);
    let (provider, name) = words.next()?.split_once('/')?;
    let to = AgentId { provider: PublicKey::from_hex(provider).ok()?, name: AgentName::new(name).ok()? };
    let way = Way::parse(words.next()?)?;
    Some(Delegation { to, way, text: words.next().unwrap_or("").to_owned(), message })
}

/// The answer this turn continues with, as text.
fn answered(input: &Value) -> Option<String> {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let entries = input["resume"].as_array().cloned().unwrap_or_default();
    let results: Vec<&Value> = match input["messages"].as_array() {
        // Only at the end: what stands before is history.
        Some(messages) => messages.iter().rev().take_while(|message| message["role"] == "tool").collect(),
        None => Vec::new(),
    };
    let said: Vec<String> = entries
        .iter()
        .map(|entry| match entry["status"].as_str() {
            Some("cancelled") => "nothing, it was abandoned".to_owned(),
            _ => plain(&entry["payload"]),
        })
        .chain(results.iter().rev().map(|message| plain(&message["content"])))
        .collect();
    if said.is_empty() { None } else { Some(format!("you said {}", said.join(" and "))) }
}

/// What the user said last.
fn asked(input: &Value) -> String {
    let messages = input["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let content = messages.iter().rev().find(|message| message["role"] == "user").map(|message| &message["content"]);
    match content {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join(" ").trim().to_owned()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agui::words;
    use wikala_witness::Fact;

    fn run(text: &str) -> Vec<Act> {
        acts(&json!({ "threadId": "t", "runId": "r", "messages": [{ "role": "user", "content": text }] }), "x")
    }

    fn last_fact(acts: &[Act]) -> Fact {
        let said = acts.iter().rev().find_map(|act| match act {
            Act::Say(event) => Some(words::read(&event.to_string()).unwrap().fact),
            _ => None,
        });
        said.unwrap()
    }

    #[test]
    fn every_script_says_events_the_witness_reads() {
        for (text, questions, pending) in [
            ("echo hi", 0, 0),
            ("stream 5", 0, 0),
            ("slow 2", 0, 0),
            ("ask why", 1, 0),
            ("askjson", 1, 0),
            ("two", 2, 0),
            ("tool x", 0, 1),
            ("vanish", 0, 0),
            ("delegate nobody", 0, 0),
            ("", 0, 0),
            ("hello there", 0, 0),
        ] {
            let Fact::Ended { questions: asked, pending: left, cancelled: false } = last_fact(&run(text)) else {
                panic!("{text}");
            };
            assert_eq!((asked.len(), left.map_or(0, |calls| calls.len())), (questions, pending), "{text}");
        }
        assert_eq!(last_fact(&run("fail")), Fact::Failed("failed as asked".into()));
        assert_eq!(run("die").last(), Some(&Act::Die));
        assert!(matches!(run("vanish")[3], Act::Vanish));
    }

    #[test]
    fn answers_are_echoed_and_orders_are_read() {
        let input =
            json!({ "resume": [{ "interruptId": "a", "status": "resolved", "payload": "green" }], "messages": [] });
        assert_eq!(answered(&input).unwrap(), "you said green");
        let input = json!({ "resume": null, "messages": [{ "role": "user", "content": "tool" }, { "role": "tool", "content": "42" }] });
        assert_eq!(answered(&input).unwrap(), "you said 42");
        assert_eq!(answered(&json!({ "resume": null, "messages": [{ "role": "tool" }, { "role": "user" }] })), None);
        let key = wikala_chain::SigningKey::from_seed([1; 32]).public();
        let acts = run(&format!("delegate {key}/worker strip echo two words"));
        let Act::Delegate(delegation) = &acts[1] else { panic!("{acts:?}") };
        assert_eq!((delegation.way, delegation.text.as_str()), (Way::Strip, "echo two words"));
    }
}
