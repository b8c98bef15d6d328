//! The tools: their names, what they take, and an untrusted call read into one that can be
//! made. Whose they are is the supervisor's business alone: no tool takes an actor, a
//! principal, a credential or a domain.

use serde_json::{Map, Value, json};
use wikala_certs::is_code;
use wikala_chain::{AgentName, PublicKey, nonce};
use wikala_witness::ThreadId;
use wikala_witness::obligation::{ObligationId, State};

use super::desk::{Content, Doing, Message, No};

/// A tool, as an adapter shows it.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// Its name, with dots.
    pub name: &'static str,
    /// A few words for people.
    pub title: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// It changes nothing.
    pub read_only: bool,
    /// What it does cannot be taken back.
    pub destructive: bool,
    /// The members it takes: name, the member's schema, must it be there.
    members: &'static [(&'static str, Member, bool)],
}

#[derive(Debug, Clone, Copy)]
enum Member {
    Obligation,
    Thread,
    Revision,
    Text(&'static str),
    OneOf(&'static [&'static str], &'static str),
    States,
    Number(u64, u64, &'static str),
    Any(&'static str),
}

use Member::{Any, Number, Obligation, OneOf, Revision, States, Text, Thread};

const PROGRESS: &[&str] = &["acknowledged", "in_progress", "pending_human", "blocked"];
const KINDS: &[&str] = &["post", "structured_request", "reply", "obligation_response"];
/// How many a supervisor reconciles at once (obligations.md 1A, 52).
pub const RECONCILE: u64 = 100;

/// All of them.
pub const TOOLS: [Tool; 13] = [
    Tool {
        name: "wikala.conversation.create",
        title: "Open a conversation",
        description: "Opens a thread with an agent, named by its provider's key and its name. Answers with the thread's id.",
        read_only: false,
        destructive: false,
        members: &[
            ("provider", Text("The provider's public key, 64 hex digits"), true),
            ("name", Text("The agent's name"), true),
        ],
    },
    Tool {
        name: "wikala.conversation.action",
        title: "Say something in a conversation",
        description: "Posts a message or a structured request, which may demand an answer by `response_obligation`; replies in words, which closes nothing; or gives the typed response that closes an obligation.",
        read_only: false,
        destructive: false,
        members: &[
            ("thread_id", Thread, true),
            ("kind", OneOf(KINDS, "What it is"), true),
            ("message_id", Text("The same message again has the same id; a new one without"), false),
            ("body", Text("The words of a post, a reply or a response"), false),
            ("request_type", Text("The type of a structured request"), false),
            ("arguments", Any("The arguments of a structured request, an object"), false),
            (
                "response_obligation",
                Any(
                    "What is demanded: {\"response_required\": true, \"deadline_at\"?, \"response_schema_id\"?, \"response_schema\"?}",
                ),
                false,
            ),
            ("obligation_id", Obligation, false),
            ("outcome", OneOf(&["completed", "failed"], "What a response says"), false),
            ("structured_response", Any("The answer that the agreed schema describes"), false),
        ],
    },
    Tool {
        name: "wikala.conversation.thread",
        title: "Read a conversation",
        description: "Shows a thread: its agent, whose it is, its runs and where they stand.",
        read_only: true,
        destructive: false,
        members: &[("thread_id", Thread, true)],
    },
    Tool {
        name: "wikala.obligation.inbox",
        title: "What waits for whom",
        description: "Six counters without content: unread_information, action_required (you must answer), awaiting_peer (you asked), awaiting_human, overdue, failed; how fresh they are; and the acts that wait for the witness or were refused.",
        read_only: true,
        destructive: false,
        members: &[],
    },
    Tool {
        name: "wikala.obligation.list",
        title: "List obligations",
        description: "Lists what you asked for and what you owe, oldest first.",
        read_only: true,
        destructive: false,
        members: &[
            ("role", OneOf(&["requester", "responsible", "any"], "On which side you are; any without it"), false),
            ("state", States, false),
            ("limit", Number(1, 1000, "At most so many; 100 without it"), false),
            ("after", Obligation, false),
        ],
    },
    Tool {
        name: "wikala.obligation.get",
        title: "Read an obligation",
        description: "Shows one obligation whole: the request, the agreed schema, where it stands, its history and its response.",
        read_only: true,
        destructive: false,
        members: &[("obligation_id", Obligation, true)],
    },
    Tool {
        name: "wikala.obligation.accept",
        title: "Own an obligation",
        description: "Says that you own the question and owe its answer. Signed; delivery alone is no acceptance.",
        read_only: false,
        destructive: false,
        members: &[("obligation_id", Obligation, true), ("revision", Revision, false)],
    },
    Tool {
        name: "wikala.obligation.decline",
        title: "Not take an obligation",
        description: "Declines a question that you have not accepted, and says why. It cannot be taken back.",
        read_only: false,
        destructive: true,
        members: &[
            ("obligation_id", Obligation, true),
            ("revision", Revision, false),
            ("reason", Text("Why, in words, up to 1024 bytes"), true),
        ],
    },
    Tool {
        name: "wikala.obligation.transition",
        title: "Say where you stand",
        description: "Says how an obligation that you own progresses: in_progress, pending_human, blocked or acknowledged.",
        read_only: false,
        destructive: false,
        members: &[
            ("obligation_id", Obligation, true),
            ("revision", Revision, false),
            ("to_state", OneOf(PROGRESS, "Where you stand"), true),
            ("reason", Text("Why, a code of letters, digits, . _ and -"), false),
        ],
    },
    Tool {
        name: "wikala.obligation.respond",
        title: "Answer an obligation",
        description: "Gives the typed response, which ends the obligation. It must fit the agreed schema. It cannot be taken back.",
        read_only: false,
        destructive: true,
        members: &[
            ("obligation_id", Obligation, true),
            ("outcome", OneOf(&["completed", "failed"], "completed without it"), false),
            ("body", Text("The answer in words"), false),
            ("structured_response", Any("The answer that the agreed schema describes"), false),
        ],
    },
    Tool {
        name: "wikala.obligation.cancel",
        title: "Withdraw what you asked for",
        description: "Withdraws an obligation that you asked for. It cannot be taken back.",
        read_only: false,
        destructive: true,
        members: &[
            ("obligation_id", Obligation, true),
            ("revision", Revision, false),
            ("reason_code", Text("Why, a code of letters, digits, . _ and -"), false),
        ],
    },
    Tool {
        name: "wikala.obligation.reconcile",
        title: "Catch up",
        description: "Catches up with what is on record: deliveries that arrived, and your own deadlines that passed.",
        read_only: false,
        destructive: false,
        members: &[("limit", Number(1, RECONCILE, "At most so many; 100 without it"), false)],
    },
    Tool {
        name: "wikala.obligation.queue",
        title: "Acts on their way",
        description: "Lists the acts that wait for the witness, and what became of the newest ones.",
        read_only: true,
        destructive: false,
        members: &[],
    },
];

/// A call that can be made.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the tool of its name
pub enum Call {
    Create { provider: PublicKey, name: AgentName },
    Say(Message),
    Thread(ThreadId),
    Inbox,
    Queue,
    List(String),
    Get(ObligationId),
    Act { id: ObligationId, revision: Option<u64>, doing: Doing },
    Reconcile(u64),
}

impl Tool {
    /// The tool of a name, with dots or with underscores.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Tool> {
        TOOLS.iter().find(|tool| tool.name == name || tool.alias() == name)
    }

    /// Its name for clients that take no dots.
    #[must_use]
    pub fn alias(&self) -> String {
        self.name.replace('.', "_")
    }

    /// What it takes: JSON Schema 2020-12.
    #[must_use]
    pub fn schema(&self) -> Map<String, Value> {
        let members: Map<String, Value> =
            self.members.iter().map(|(name, member, _)| ((*name).to_owned(), member.schema())).collect();
        let required: Vec<&str> =
            self.members.iter().filter(|(_, _, required)| *required).map(|(name, ..)| *name).collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), members.into());
        schema.insert("required".to_owned(), required.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        schema
    }

    /// Reads a call's arguments.
    ///
    /// # Errors
    /// [`No::Wrong`]: what is missing, not known, or not of its kind.
    pub fn read(&self, arguments: &Value) -> Result<Call, No> {
        let none = Map::new();
        let given = match arguments {
            Value::Null => &none,
            Value::Object(given) => given,
            _ => return Err(No::Wrong("arguments: no object".to_owned())),
        };
        if let Some(name) = given.keys().find(|name| !self.members.iter().any(|(known, ..)| known == name)) {
            let known: Vec<&str> = self.members.iter().map(|(name, ..)| *name).collect();
            let name: String = name.chars().take(40).collect();
            return Err(No::Wrong(format!("arguments: {name:?} is not known, there are: {}", known.join(", "))));
        }
        for (name, member, required) in self.members {
            match given.get(*name) {
                None if *required => return Err(No::Wrong(format!("arguments: {name} is missing"))),
                Some(value) if !member.fits(value) => {
                    return Err(No::Wrong(format!("arguments: {name} is not {}", member.expected())));
                }
                _ => {}
            }
        }
        self.call(&Given(given))
    }

    fn call(&self, given: &Given<'_>) -> Result<Call, No> {
        let act = |doing: Doing| {
            Ok(Call::Act { id: given.obligation("obligation_id")?, revision: given.number("revision"), doing })
        };
        match self.name.rsplit_once('.').map_or("", |(_, verb)| verb) {
            "create" => {
                let key = PublicKey::from_hex(given.text("provider"))
                    .map_err(|error| No::Wrong(format!("arguments: provider: {error}")))?;
                let name = AgentName::new(given.text("name"))
                    .map_err(|error| No::Wrong(format!("arguments: name: {error}")))?;
                Ok(Call::Create { provider: key, name })
            }
            "action" => given.action(),
            "thread" => Ok(Call::Thread(given.thread()?)),
            "inbox" => Ok(Call::Inbox),
            "queue" => Ok(Call::Queue),
            "list" => Ok(Call::List(given.query())),
            "get" => Ok(Call::Get(given.obligation("obligation_id")?)),
            "accept" => act(Doing::Accept),
            "decline" => act(Doing::Decline { reason: given.text("reason").to_owned() }),
            "transition" => {
                let to = given.text("to_state").to_owned();
                act(Doing::Progress { to, reason: given.code("reason", "progress")? })
            }
            "cancel" => act(Doing::Cancel { reason: given.code("reason_code", "requester_canceled")? }),
            "respond" => act(given.response()),
            _ => Ok(Call::Reconcile(given.number("limit").unwrap_or(RECONCILE))),
        }
    }
}

impl Member {
    fn schema(self) -> Value {
        match self {
            Obligation => {
                json!({ "type": "string", "pattern": "^ob_[0-9a-f]{32}$", "description": "An obligation's id" })
            }
            Thread => json!({ "type": "string", "pattern": "^thread_[0-9a-f]{24}$", "description": "A thread's id" }),
            Revision => {
                json!({ "type": "integer", "minimum": 1, "description": "The revision you saw; what stands when it is sent without it" })
            }
            Text(what) => json!({ "type": "string", "description": what }),
            OneOf(words, what) => json!({ "type": "string", "enum": words, "description": what }),
            States => json!({
                "type": "array", "items": { "type": "string", "enum": State::ALL.map(State::as_str) },
                "description": "In these states; all without it",
            }),
            Number(least, most, what) => {
                json!({ "type": "integer", "minimum": least, "maximum": most, "description": what })
            }
            Any(what) => json!({ "description": what }),
        }
    }

    fn fits(self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            Obligation => text.is_some_and(|text| ObligationId::parse(text).is_some()),
            Thread => text.is_some_and(|text| ThreadId::parse(text).is_some()),
            // `true` and `1.0` are no integers, whatever else they are.
            Revision => value.as_u64().is_some_and(|n| n >= 1),
            Text(_) => text.is_some(),
            OneOf(words, _) => text.is_some_and(|text| words.contains(&text)),
            States => value.as_array().is_some_and(|all| {
                all.iter().all(|state| state.as_str().is_some_and(|state| State::parse(state).is_some()))
            }),
            Number(least, most, _) => value.as_u64().is_some_and(|n| (least..=most).contains(&n)),
            Any(_) => true,
        }
    }

    fn expected(self) -> String {
        match self {
            Obligation => "an obligation's id, ob_ and 32 hex digits".to_owned(),
            Thread => "a thread's id, thread_ and 24 hex digits".to_owned(),
            Revision => "a whole number from 1".to_owned(),
            Text(_) => "a text".to_owned(),
            OneOf(words, _) => format!("one of {}", words.join(", ")),
            States => "a list of states".to_owned(),
            Number(least, most, _) => format!("a whole number from {least} to {most}"),
            Any(_) => "JSON".to_owned(),
        }
    }
}

/// Arguments of which each is of its kind.
struct Given<'a>(&'a Map<String, Value>);

impl Given<'_> {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or("")
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    fn code(&self, name: &str, usual: &str) -> Result<String, No> {
        match self.0.get(name).and_then(Value::as_str) {
            None => Ok(usual.to_owned()),
            Some(code) if is_code(code) => Ok(code.to_owned()),
            Some(_) => {
                Err(No::Wrong(format!("arguments: {name} is not a code, 1 to 128 of letters, digits, . _ and -")))
            }
        }
    }

    fn obligation(&self, name: &str) -> Result<ObligationId, No> {
        ObligationId::parse(self.text(name)).ok_or_else(|| No::Wrong(format!("arguments: {name} is missing")))
    }

    fn thread(&self) -> Result<ThreadId, No> {
        ThreadId::parse(self.text("thread_id")).ok_or_else(|| No::Wrong("arguments: thread_id is missing".to_owned()))
    }

    fn query(&self) -> String {
        let mut query = format!("role={}", if self.text("role").is_empty() { "any" } else { self.text("role") });
        query.push_str(&format!("&limit={}", self.number("limit").unwrap_or(100)));
        for state in self.0.get("state").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            query.push_str(&format!("&state={state}"));
        }
        if self.0.contains_key("after") {
            query.push_str(&format!("&after={}", self.text("after")));
        }
        query
    }

    fn response(&self) -> Doing {
        Doing::Respond {
            failed: self.text("outcome") == "failed",
            body: self.text("body").to_owned(),
            result: self.0.get("structured_response").map(Value::to_string),
        }
    }

    /// One strict action: what another kind takes is refused, not passed over.
    fn action(&self) -> Result<Call, No> {
        let kind = self.text("kind");
        let (takes, needs): (&[&str], &[&str]) = match kind {
            "post" => (&["message_id", "body", "response_obligation"], &["body"]),
            "reply" => (&["message_id", "body"], &["body"]),
            "structured_request" => {
                (&["message_id", "request_type", "arguments", "response_obligation"], &["request_type"])
            }
            _ => (&["obligation_id", "outcome", "body", "structured_response"], &["obligation_id"]),
        };
        let mut names = self.0.keys().filter(|name| !matches!(name.as_str(), "kind" | "thread_id"));
        if let Some(name) = names.find(|name| !takes.contains(&name.as_str())) {
            return Err(No::Wrong(format!("arguments: {name} does not belong to a {kind}")));
        }
        if let Some(name) = needs.iter().find(|name| !self.0.contains_key(**name)) {
            return Err(No::Wrong(format!("arguments: {name} is missing, a {kind} has it")));
        }
        if kind == "obligation_response" {
            return Ok(Call::Act { id: self.obligation("obligation_id")?, revision: None, doing: self.response() });
        }
        let content = match kind {
            "post" => Content::Post(self.text("body").to_owned()),
            "reply" => Content::Reply(self.text("body").to_owned()),
            _ => {
                let arguments = self.0.get("arguments").cloned().unwrap_or_else(|| json!({}));
                if !arguments.is_object() {
                    return Err(No::Wrong("arguments: arguments is no object".to_owned()));
                }
                Content::Request { kind: self.text("request_type").to_owned(), arguments: arguments.to_string() }
            }
        };
        let id = if self.0.contains_key("message_id") { self.text("message_id").to_owned() } else { nonce() };
        let demands = self.0.get("response_obligation").cloned();
        Ok(Call::Say(Message { thread: self.thread()?, id, content, demands }))
    }
}
