//! `RunAgentInput` (AG-UI 1.0), read once from the text that came: the few members that
//! matter here. The text itself is what is recorded and passed on.

use serde_json::value::RawValue;
use wikala_chain::{Digest, RawObject, json};
use wikala_witness::{ItemKind, Reply, ReplyItem};

use crate::answer::{Door, Problem};
use crate::bag;
use crate::delivery;
use crate::obligations;

/// The longest id a client may give a thread or a run, bytes. They are stored and sent back.
const ID: usize = 256;

/// What matters of an input.
#[derive(Debug)]
pub(super) struct Input {
    /// The client's own id for the thread.
    pub(super) thread_id: String,
    /// The client's own id for the run.
    pub(super) run_id: String,
    /// The run that spawned this one.
    pub(super) parent_run: Option<String>,
    /// The proof bag, JSON text.
    pub(super) bag: Option<String>,
    /// Acts found in resume entries, JSON text.
    pub(super) resolutions: Vec<String>,
    /// Certificates found in resume entries, JSON text.
    pub(super) delegations: Vec<String>,
    /// The caller speaks 1.x: it knows the `cancelled` outcome, which older clients
    /// reject as malformed.
    pub(super) takes_cancelled: bool,
    /// The same body joins its run: sha256 without the presenter proof, since who
    /// joins proves itself anew.
    pub(super) digest: Digest,
    /// The resume entries; present even if there are none.
    pub(super) resume: Option<Content>,
    /// `forwardedProps.command.resume`, JSON text.
    pub(super) command: Option<String>,
    /// What it demands, JSON text of `forwardedProps[urn:wikala:obligation:1]`.
    pub(super) obligation: Option<String>,
    /// The newest message of the user's: its id, and its content as JSON text.
    pub(super) newest: Option<(String, String)>,
    /// `tool` messages: call id and content, JSON text. The newest one of a call counts.
    results: Vec<(String, String)>,
}

/// An answer: its items, and the bytes its digest is taken of.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) reply: Reply,
    bytes: String,
}

impl Content {
    /// sha256 of the answer bytes (record.md, Asks).
    pub(super) fn digest(&self) -> Digest {
        Digest::of(self.bytes.as_bytes())
    }

    /// The value of a single open item.
    pub(super) fn single(value: String) -> Content {
        Content { bytes: value.clone(), reply: Reply { items: Vec::new(), single: Some(value) } }
    }

    /// Resume entries and results of calls, where one pause asked for both.
    pub(super) fn and(mut self, more: Content) -> Content {
        if !more.reply.items.is_empty() {
            self.bytes.push('\n');
            self.bytes.push_str(&more.bytes);
            self.reply.items.extend(more.reply.items);
        }
        self
    }

    /// The items it names.
    pub(super) fn ids(&self) -> Vec<String> {
        self.reply.items.iter().map(|item| item.id.clone()).collect()
    }
}

fn malformed(sentence: impl Into<String>) -> Problem {
    Problem::door(Door::BodyMalformed, sentence)
}

/// A member's value. A whole-field null is absent: clients before 1.0 send them.
fn present<'a>(body: &'a RawObject, name: &str) -> Option<&'a str> {
    body.get(name).map(RawValue::get).filter(|raw| *raw != "null")
}

fn text(body: &RawObject, name: &str) -> Result<Option<String>, Problem> {
    let read = |raw| json::string(raw).ok_or_else(|| malformed(format!("{name}: not a string")));
    present(body, name).map(read).transpose()
}

fn id(body: &RawObject, name: &str) -> Result<String, Problem> {
    text(body, name)?
        .filter(|id| !id.is_empty() && id.len() <= ID)
        .ok_or_else(|| malformed(format!("{name}: missing, send a string of 1 to {ID} bytes")))
}

fn objects(body: &RawObject, name: &str) -> Result<Option<Vec<RawObject>>, Problem> {
    let Some(raw) = present(body, name) else { return Ok(None) };
    let list: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| malformed(format!("{name}: not a list")))?;
    let read = |raw: &RawValue| RawObject::parse(raw.get()).map_err(|_| malformed(format!("{name}: one is no object")));
    list.into_iter().map(read).collect::<Result<_, _>>().map(Some)
}

impl Input {
    /// Reads an input. Unknown members are nobody's business here: the text keeps them.
    ///
    /// # Errors
    /// `body-malformed`, `body-duplicate-key`.
    pub(super) fn parse(body: &str) -> Result<Input, Problem> {
        // Two parsers that disagree on a repeated key would read two requests out of
        // one: refused at every depth.
        let body = RawObject::parse(body)?;
        one_spelling(&body, &["threadId", "runId", "parentRunId", "forwardedProps", "protocolVersion"])?;
        let messages = objects(&body, "messages")?.ok_or_else(|| malformed("messages: missing, send a list"))?;
        messages.iter().try_for_each(|message| one_spelling(message, &["toolCallId", "toolCalls"]))?;
        let mut input = Input {
            thread_id: id(&body, "threadId")?,
            run_id: id(&body, "runId")?,
            parent_run: text(&body, "parentRunId")?,
            bag: bag_of(present(&body, "forwardedProps"), present(&body, "metadata")),
            resolutions: Vec::new(),
            delegations: Vec::new(),
            takes_cancelled: text(&body, "protocolVersion")?
                .is_some_and(|version| version.split('.').next() == Some("1")),
            digest: body_digest(&body),
            resume: None,
            command: command(present(&body, "forwardedProps"))?,
            obligation: present(&body, "forwardedProps")
                .and_then(|props| Some(RawObject::parse(props).ok()?.get(obligations::EXTENSION)?.get().to_owned())),
            newest: messages.iter().rev().find_map(newest),
            results: messages.iter().filter_map(result).collect(),
        };
        if let Some(entries) = objects(&body, "resume")? {
            for metadata in entries.iter().filter_map(|entry| RawObject::parse(present(entry, "metadata")?).ok()) {
                input.resolutions.extend(present(&metadata, "resolution").map(str::to_owned));
                input.delegations.extend(present(&metadata, "delegation").map(str::to_owned));
            }
            entries.iter().try_for_each(|entry| one_spelling(entry, &["interruptId"]))?;
            let items = entries.iter().map(entry).collect::<Result<_, _>>()?;
            // Proofs in entry metadata are about the answer, not of it.
            let bytes = without_metadata(present(&body, "resume").unwrap_or("[]"));
            input.resume = Some(Content { reply: Reply { items, single: None }, bytes });
        }
        Ok(input)
    }

    /// The calls it has results for.
    pub(super) fn result_ids(&self) -> Vec<String> {
        self.results.iter().map(|(call, _)| call.clone()).collect()
    }

    /// The results for these calls, as an answer.
    pub(super) fn results(&self, calls: &[String]) -> Content {
        let mut content = Content::default();
        for call in calls {
            // A history may hold the same call twice; what was said last is the answer.
            let Some((_, result)) = self.results.iter().rev().find(|(id, _)| id == call) else { continue };
            if !content.bytes.is_empty() {
                content.bytes.push('\n');
            }
            content.bytes.push_str(result);
            let payload = Some(result.clone());
            content.reply.items.push(ReplyItem { id: call.clone(), kind: ItemKind::Call, abandoned: false, payload });
        }
        content
    }
}

fn newest(message: &RawObject) -> Option<(String, String)> {
    let member = |name: &str| message.get(name).and_then(|raw| json::string(raw.get()));
    (member("role")? == "user").then_some(())?;
    Some((member("id")?, message.get("content")?.get().to_owned()))
}

fn result(message: &RawObject) -> Option<(String, String)> {
    let member = |name: &str| message.get(name).and_then(|raw| json::string(raw.get()));
    // Compared decoded: an escaped role is the role it means.
    (member("role")? == "tool").then_some(())?;
    Some((member("toolCallId")?, message.get("content")?.get().to_owned()))
}

fn entry(entry: &RawObject) -> Result<ReplyItem, Problem> {
    let id = text(entry, "interruptId")?.ok_or_else(|| malformed("resume: an entry without interruptId"))?;
    let abandoned = match text(entry, "status")?.as_deref() {
        Some("resolved") => false,
        Some("cancelled") => true,
        _ => return Err(malformed("resume: status is neither \"resolved\" nor \"cancelled\"")),
    };
    let payload = entry.get("payload").map(|raw| raw.get().to_owned()).filter(|_| !abandoned);
    Ok(ReplyItem { id, kind: ItemKind::Interrupt, abandoned, payload })
}

/// `forwardedProps.command.resume`, the older frameworks' way to answer.
fn command(props: Option<&str>) -> Result<Option<String>, Problem> {
    let mut commands = props.map(delivery::commands).unwrap_or_default();
    if commands.len() > 1 {
        return Err(malformed("forwardedProps: several members resume, send one command"));
    }
    Ok(commands.pop().map(|(_, resume)| resume).filter(|raw| raw != "null"))
}

/// A member that some agents read under a second spelling: what was no answer here would be
/// one there, and the bag that was read here not the one they read.
fn one_spelling(object: &RawObject, names: &[&str]) -> Result<(), Problem> {
    let folded = |name: &str| name.replace('_', "").to_ascii_lowercase();
    let other = |name: &&str| object.iter().any(|(key, _)| key != *name && folded(key) == folded(name));
    match names.iter().find(|name| other(name)) {
        Some(name) => Err(malformed(format!("{name}: spelled in another way, AG-UI spells it like this"))),
        None => Ok(()),
    }
}

/// `forwardedProps` is the bag; the reference's old clients put it into an extra
/// body member `metadata`, which counts where the other carries nothing.
fn bag_of(props: Option<&str>, metadata: Option<&str>) -> Option<String> {
    let carries = |raw: &&str| bag::carries(raw);
    props.filter(carries).or(metadata.filter(carries)).map(str::to_owned)
}

/// Resume entries without their `metadata`, the bytes an answer's digest is taken of
/// (record.md, Asks).
fn without_metadata(resume: &str) -> String {
    let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(resume) else { return resume.to_owned() };
    let bare = |entry: &&RawValue| {
        let members = RawObject::parse(entry.get()).ok().filter(|members| members.get("metadata").is_some());
        members.map_or_else(
            || entry.get().to_owned(),
            |mut members| {
                members.remove("metadata");
                members.to_raw().get().to_owned()
            },
        )
    };
    format!("[{}]", list.iter().map(bare).collect::<Vec<_>>().join(","))
}

fn body_digest(body: &RawObject) -> Digest {
    let mut body = body.clone();
    for name in ["forwardedProps", "metadata"] {
        if let Some(mut members) = body.get(name).and_then(|raw| RawObject::parse(raw.get()).ok())
            && members.remove("presenter").is_some()
        {
            body.set(name, members.to_raw());
        }
    }
    Digest::of(body.to_raw().get().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(members: &str) -> Result<Input, &'static str> {
        Input::parse(&format!(r#"{{"threadId":"t","runId":"r","messages":[]{members}}}"#)).map_err(|p| p.code.as_str())
    }

    #[test]
    fn nulls_are_absent_and_unknown_members_stay() {
        let input =
            read(r#","state":null,"forwardedProps":null,"resume":null,"parentRunId":null,"x":{"y":1}"#).unwrap();
        assert!(input.bag.is_none() && input.resume.is_none() && input.parent_run.is_none() && !input.takes_cancelled);
        assert!(read(r#","protocolVersion":"1.7""#).unwrap().takes_cancelled);
        assert!(!read(r#","protocolVersion":"2.0""#).unwrap().takes_cancelled);
    }

    #[test]
    fn what_is_no_input_is_told() {
        for body in ["", "[]", "{}", r#"{"threadId":"t","runId":"r"}"#, r#"{"threadId":1,"runId":"r","messages":[]}"#] {
            assert_eq!(Input::parse(body).unwrap_err().code.as_str(), "body-malformed", "{body}");
        }
        for (members, code) in [
            (r#","messages":[]"#, "body-duplicate-key"),
            (r#","x":{"a":1,"\u0061":2}"#, "body-duplicate-key"),
            (r#","parentRunId":7"#, "body-malformed"),
            (r#","resume":{}"#, "body-malformed"),
            (r#","resume":[1]"#, "body-malformed"),
            (r#","resume":[{"interruptId":"q"}]"#, "body-malformed"),
            (r#","resume":[{"interruptId":"q","status":"denied"}]"#, "body-malformed"),
            (r#","resume":[{"status":"resolved"}]"#, "body-malformed"),
        ] {
            assert_eq!(read(members).unwrap_err(), code, "{members}");
        }
        let deep = format!(r#","x":{}{}"#, "[".repeat(64), "]".repeat(64));
        assert_eq!(read(&deep).unwrap_err(), "body-malformed");
    }

    #[test]
    fn the_digest_of_a_body_is_without_its_presenter() {
        let of = |members: &str| read(members).unwrap().digest;
        let plain = of(r#","forwardedProps":{"a":1}"#);
        assert_eq!(of(r#","forwardedProps":{"a":1,"presenter":{"x":1}}"#), plain);
        assert_eq!(of(r#","forwardedProps":{"presenter":null,"a":1}"#), plain);
        assert_ne!(of(r#","forwardedProps":{"a":2}"#), plain);
    }

    #[test]
    fn the_digest_of_an_answer_is_without_entry_metadata_and_keeps_the_rest_as_received() {
        let of = |entry: &str| read(&format!(r#","resume":[{entry}]"#)).unwrap().resume.unwrap();
        let signed = of(r#"{"interruptId":"q","status":"resolved","payload":1.10,"metadata":{"resolution":{}}}"#);
        let bare = of(r#"{"interruptId":"q","status":"resolved","payload":1.10}"#);
        assert_eq!(signed.digest(), bare.digest());
        assert_eq!(signed.reply.items[0].payload.as_deref(), Some("1.10"));
        assert_ne!(bare.digest(), of(r#"{"interruptId":"q","status":"resolved","payload":1.1}"#).digest());
        assert!(of(r#"{"interruptId":"q","status":"cancelled","payload":1}"#).reply.items[0].abandoned);
    }

    #[test]
    fn a_bag_is_where_its_keys_are() {
        let bag = |members: &str| read(members).unwrap().bag;
        assert!(bag(r#","forwardedProps":{"actorChain":[]},"metadata":{"cancel":1}"#).unwrap().contains("actorChain"));
        assert!(bag(r#","forwardedProps":{"mine":1},"metadata":{"actorChain":[]}"#).unwrap().contains("actorChain"));
        assert!(bag(r#","forwardedProps":[1],"metadata":"x""#).is_none());
    }

    #[test]
    fn the_newest_result_of_a_call_counts() {
        let tool = |content: &str| format!(r#"{{"id":"m","role":"t\u006fol","toolCallId":"c","content":"{content}"}}"#);
        let body = format!(r#"{{"threadId":"t","runId":"r","messages":[{},{}]}}"#, tool("old"), tool("new"));
        let content = Input::parse(&body).unwrap().results(&["c".into(), "d".into()]);
        assert_eq!(content.reply.items.len(), 1);
        assert_eq!(content.reply.items[0].payload.as_deref(), Some("\"new\""));
    }
}
