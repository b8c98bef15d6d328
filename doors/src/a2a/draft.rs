//! A run's record, heard entry by entry: what each entry tells an A2A caller, and the
//! task as it stands after it. States come from the witness's marks alone: a provider
//! that pauses for a tool call says RUN_FINISHED first, and that is no COMPLETED.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use wikala_chain::{RawObject, json};
use wikala_witness::{Dialect, Entry, Fact, Mark, Recorded, Status};

use super::heard;
use super::relayed::Relayed;
pub(super) use super::told::{Call, Line, State, Told};

/// A task as far as its record was heard.
#[derive(Debug)]
pub(super) struct Draft {
    /// The last entry heard.
    pub(super) seq: u64,
    pub(super) state: State,
    /// When that state began, unix seconds.
    pub(super) since: u64,
    pub(super) stop_asked: bool,
    pub(super) reason: Option<String>,
    /// The pause it stands in: ordinal and open ids.
    pub(super) open: Option<(u64, Vec<String>)>,
    /// Artifacts: id and text.
    pub(super) artifacts: Vec<(String, String)>,
    /// Where each stands, and each call: how many there are is the provider's choice.
    places: HashMap<String, usize>,
    called: HashMap<String, usize>,
    /// Events without a word of their own, in order, as received.
    pub(super) events: Vec<Arc<str>>,
    pub(super) lines: Vec<Line>,
    pub(super) calls: Vec<Call>,
    /// The provider's last words on this leg, when they say more than their mark.
    pub(super) closing: Option<Arc<str>>,
    /// It was told whole: only what is still to come is told from here on.
    lean: bool,
    /// The artifact that chunks without an id belong to.
    chunking: Option<String>,
    /// Messages of somebody else than the agent: relayed, no artifact of its own.
    foreign: HashSet<String>,
    /// What an A2A agent said of its task.
    pub(super) relayed: Relayed,
    /// An event that ends or pauses a task: told with the mark that says so.
    held: Option<Arc<str>>,
    /// The last entry in which the agent spoke.
    pub(super) spoke: u64,
}

impl Draft {
    /// Nothing heard yet.
    pub(super) fn new() -> Self {
        Draft {
            seq: 0,
            state: State::Submitted,
            since: 0,
            stop_asked: false,
            reason: None,
            open: None,
            artifacts: Vec::new(),
            places: HashMap::new(),
            called: HashMap::new(),
            events: Vec::new(),
            lines: Vec::new(),
            calls: Vec::new(),
            closing: None,
            lean: false,
            chunking: None,
            foreign: HashSet::new(),
            relayed: Relayed::default(),
            held: None,
            spoke: 0,
        }
    }

    /// Lets go of what was told: a stream that lasts must not hold the run once more.
    pub(super) fn told_whole(&mut self) {
        self.lean = true;
        self.relayed.told_whole();
        self.events = Vec::new();
        self.artifacts.iter_mut().for_each(|(_, text)| *text = String::new());
    }

    /// Hears a whole record.
    pub(super) fn of(entries: &[Recorded]) -> Self {
        let mut draft = Draft::new();
        for recorded in entries {
            draft.hear(recorded);
        }
        draft
    }

    /// Hears one entry, and says what it tells.
    pub(super) fn hear(&mut self, recorded: &Recorded) -> Vec<Told> {
        self.seq = recorded.seq;
        let mut told = Vec::new();
        if let Some(held) = self.held.take() {
            match &recorded.entry {
                Entry::Mark(Mark::Paused { .. } | Mark::Ended { in_words: true, .. }) => self.closing = Some(held),
                // It ended nothing: a question told once more while its answer was on the way.
                _ => told.push(Told::Relayed(held)),
            }
        }
        told.extend(match &recorded.entry {
            Entry::Mark(mark) => self.mark(mark, recorded.at_s),
            Entry::Words(words) => {
                self.spoke = recorded.seq;
                match words.dialect {
                    Dialect::AgUi => self.words(&words.text, recorded.at_s),
                    Dialect::A2a => self.relay(&words.text),
                    Dialect::Plain => self.event(&words.text),
                }
            }
        });
        told
    }

    fn enter(&mut self, state: State, at_s: u64) {
        self.state = state;
        self.since = at_s;
    }

    fn mark(&mut self, mark: &Mark, at_s: u64) -> Vec<Told> {
        let mut told = Vec::new();
        match mark {
            Mark::Opened => {
                self.enter(State::Submitted, at_s);
                self.lines.push(Line::Opening);
            }
            Mark::Claimed => self.enter(State::Working, at_s),
            Mark::Paused { ordinal, asks } => {
                told.extend(self.end_chunks());
                self.enter(State::InputRequired, at_s);
                self.open = Some((*ordinal, asks.clone()));
                told.push(Told::Paused);
            }
            Mark::Answered { ordinal, .. } => {
                self.enter(State::Submitted, at_s);
                self.lines.extend([Line::Question(*ordinal), Line::Answer(*ordinal)]);
                self.open = None;
                self.stop_asked = false;
                self.closing = None;
                self.relayed.answered(*ordinal);
            }
            Mark::CancelRequested { .. } => {
                self.stop_asked = true;
                if self.state == State::Working {
                    self.since = at_s;
                    told.push(Told::Working);
                }
            }
            // On record for who reads it there; the words themselves show no gap.
            Mark::LinkGap { .. } | Mark::NotOwed { .. } => {}
            Mark::Ended { status, reason, in_words, .. } => {
                told.extend(self.end_chunks());
                let state = Status::parse(status).map_or(State::Failed, State::of);
                self.enter(state, at_s);
                self.reason = reason.clone();
                self.open = None;
                if !in_words {
                    self.closing = None;
                    self.relayed.current = false;
                }
                if !self.relays() {
                    self.events.extend(self.closing.clone().filter(|_| !self.lean));
                }
                told.push(Told::Ended);
            }
        }
        told
    }

    fn words(&mut self, text: &Arc<str>, at_s: u64) -> Vec<Told> {
        let Ok(event) = RawObject::parse(text) else { return self.event(text) };
        let word = |name: &str| event.get(name).and_then(|raw| json::string(raw.get()));
        let kind = word("type").unwrap_or_default();
        let id = word("messageId");
        let of_agent = !matches!(word("role").as_deref(), Some(role) if role != "assistant");
        match (kind.as_str(), id) {
            ("RUN_STARTED", _) => {
                if self.state != State::Working {
                    self.enter(State::Working, at_s);
                }
                vec![Told::Working]
            }
            ("RUN_FINISHED" | "RUN_ERROR", _) => {
                const PLAIN: [&str; 6] = ["type", "threadId", "runId", "timestamp", "outcome", "message"];
                let says_more = event.iter().any(|(name, raw)| !PLAIN.contains(&name) && raw.get() != "null");
                self.closing = says_more.then(|| text.clone());
                self.end_chunks()
            }
            ("TEXT_MESSAGE_START", Some(id)) if of_agent => {
                self.foreign.remove(&id);
                self.end_chunks()
            }
            ("TEXT_MESSAGE_START", Some(id)) => {
                self.foreign.insert(id);
                self.event(text)
            }
            ("TEXT_MESSAGE_CONTENT", Some(id)) if !self.foreign.contains(&id) => {
                let mut told = self.end_chunks();
                told.extend(word("delta").map(|delta| self.piece(&id, delta, false)));
                told
            }
            ("TEXT_MESSAGE_END", Some(id)) if !self.foreign.contains(&id) => {
                let mut told = self.end_chunks();
                if self.places.contains_key(&id) {
                    told.push(self.piece(&id, String::new(), true));
                }
                told
            }
            ("TEXT_MESSAGE_CHUNK", id) if of_agent => {
                let Some(id) = id.or_else(|| self.chunking.clone()) else { return self.event(text) };
                let mut told = if self.chunking.as_ref() == Some(&id) { Vec::new() } else { self.end_chunks() };
                self.chunking = Some(id.clone());
                told.extend(word("delta").map(|delta| self.piece(&id, delta, false)));
                told
            }
            ("TOOL_CALL_START" | "TOOL_CALL_CHUNK" | "TOOL_CALL_ARGS", _) => {
                self.call(word("toolCallId"), word("toolCallName"), word("delta"));
                self.event(text)
            }
            _ => self.event(text),
        }
    }

    /// The agent speaks A2A: its words are passed on, and put together for who asks later.
    fn relay(&mut self, text: &Arc<str>) -> Vec<Told> {
        let heard = heard::read(text);
        if self.relayed.hear(text, self.lean).is_none() {
            return self.event(text);
        }
        match heard.map(|heard| heard.fact) {
            Ok(Fact::Ended { .. } | Fact::Failed(_)) => {
                self.held = Some(text.clone());
                Vec::new()
            }
            _ => vec![Told::Relayed(text.clone())],
        }
    }

    /// An A2A agent spoke in this run, or nobody has yet.
    pub(super) fn relays(&self) -> bool {
        self.relayed.has_spoken()
    }

    /// An event waits for the mark that says what it means.
    pub(super) fn holds_back(&self) -> bool {
        self.held.is_some()
    }

    fn event(&mut self, text: &Arc<str>) -> Vec<Told> {
        let mut told = self.end_chunks();
        if !self.lean {
            self.events.push(text.clone());
        }
        told.push(Told::Event(text.clone()));
        told
    }

    fn piece(&mut self, id: &str, text: String, last: bool) -> Told {
        let append = match self.places.get(id).and_then(|at| self.artifacts.get_mut(*at)) {
            Some((_, whole)) => {
                if !self.lean {
                    whole.push_str(&text);
                }
                true
            }
            None => {
                self.lines.push(Line::Text(self.artifacts.len()));
                self.places.insert(id.to_owned(), self.artifacts.len());
                self.artifacts.push((id.to_owned(), if self.lean { String::new() } else { text.clone() }));
                false
            }
        };
        Told::Text { artifact: id.to_owned(), text, append, last }
    }

    /// Chunks have no end of their own: whatever comes after them is it.
    fn end_chunks(&mut self) -> Vec<Told> {
        let Some(id) = self.chunking.take() else { return Vec::new() };
        if self.places.contains_key(&id) { vec![self.piece(&id, String::new(), true)] } else { Vec::new() }
    }

    fn call(&mut self, id: Option<String>, name: Option<String>, args: Option<String>) {
        let at = match &id {
            Some(id) => self.called.get(id).copied(),
            None => self.calls.len().checked_sub(1),
        };
        let at = match (at, id) {
            (Some(at), _) => at,
            (None, Some(id)) => {
                self.called.insert(id.clone(), self.calls.len());
                self.calls.push(Call { id, ..Call::default() });
                self.calls.len() - 1
            }
            (None, None) => return,
        };
        // `at` was found in the list or just pushed.
        let call = &mut self.calls[at];
        call.name = call.name.take().or(name);
        call.args.push_str(&args.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wikala_witness::Words;

    fn heard(entries: &[Entry]) -> (Draft, Vec<Told>) {
        let mut draft = Draft::new();
        let mut told = Vec::new();
        for (n, entry) in entries.iter().enumerate() {
            told.extend(draft.hear(&Recorded { seq: n as u64 + 1, at_s: 10 + n as u64, entry: entry.clone() }));
        }
        (draft, told)
    }

    fn say(text: &str) -> Entry {
        Entry::Words(Words { dialect: Dialect::AgUi, text: text.into() })
    }

    fn text(artifact: &str, text: &str, append: bool, last: bool) -> Told {
        Told::Text { artifact: artifact.into(), text: text.into(), append, last }
    }

    #[test]
    fn a_message_becomes_an_artifact_and_ends_once() {
        let (draft, told) = heard(&[
            Entry::Mark(Mark::Opened),
            Entry::Mark(Mark::Claimed),
            say(r#"{"type":"RUN_STARTED"}"#),
            say(r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#),
            say(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}"#),
            say(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b"}"#),
            say(r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#),
            say(r#"{"type":"RUN_FINISHED","result":{"n":1}}"#),
            Entry::Mark(Mark::Ended { status: "completed".into(), reason: None, in_words: true, by_provider: false }),
        ]);
        assert_eq!(
            told,
            [
                Told::Working,
                text("m", "a", false, false),
                text("m", "b", true, false),
                text("m", "", true, true),
                Told::Ended
            ]
        );
        assert_eq!(
            (draft.state, draft.artifacts, draft.events.len()),
            (State::Completed, vec![("m".into(), "ab".into())], 1)
        );
    }

    #[test]
    fn chunks_end_where_something_else_begins() {
        let (_, told) = heard(&[
            say(r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}"#),
            say(r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"b"}"#),
            say(r#"{"type":"STEP_STARTED","stepName":"s"}"#),
            say(r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"stray"}"#),
        ]);
        assert_eq!(told[..3], [text("m", "a", false, false), text("m", "b", true, false), text("m", "", true, true)]);
        assert!(matches!((&told[3], &told[4]), (Told::Event(_), Told::Event(_))) && told.len() == 5);
    }

    #[test]
    fn a_finish_that_leaves_a_call_open_tells_a_pause_and_nothing_else() {
        let (draft, told) = heard(&[
            Entry::Mark(Mark::Opened),
            say(r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"look"}"#),
            say(r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}"#),
            say(r#"{"type":"RUN_FINISHED"}"#),
            Entry::Mark(Mark::Paused { ordinal: 1, asks: vec!["c".into()] }),
        ]);
        assert_eq!(told.iter().filter(|told| !matches!(told, Told::Event(_))).collect::<Vec<_>>(), [&Told::Paused]);
        assert_eq!((draft.calls[0].name.as_deref(), draft.calls[0].args.as_str()), (Some("look"), "{}"));
    }

    #[test]
    fn words_of_other_roles_are_events() {
        let (draft, told) = heard(&[
            say(r#"{"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}"#),
            say(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"u","delta":"a"}"#),
            say(r#"{"type":"TEXT_MESSAGE_END","messageId":"u"}"#),
            say(r#"{"no":"type"}"#),
        ]);
        assert!(
            told.iter().all(|told| matches!(told, Told::Event(_))) && told.len() == 4 && draft.artifacts.is_empty()
        );
    }
}
