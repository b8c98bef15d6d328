//! A task told by an A2A agent behind us: its own words put together, with the ids that
//! callers know it by spliced in at the listed places and nothing else touched.
//!
//! Places (A2A 1.0 §4): `task.{id,contextId}`, `task.status.message`, `task.history[]`,
//! `statusUpdate.{taskId,contextId,status.message}`, `artifactUpdate.{taskId,contextId}`
//! and a lone `message`, each message in its `taskId` and `contextId`.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use wikala_chain::{RawObject, json};

use super::heard::{Kind, kind};

/// The same ids as protobuf's own names spell them, which SDKs read too: an agent could put
/// another run's id before whoever reads those.
const OTHER_SPELLINGS: [(&str, Option<&str>); 2] = [("task_id", None), ("context_id", None)];

/// Under which ids callers know a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids<'a> {
    pub(super) task: &'a str,
    pub(super) context: &'a str,
}

/// What an agent said of its task so far: its last snapshot, and what came after it,
/// piece by piece. Put together only when somebody asks: a stream of many pieces must not
/// be read anew with each of them.
#[derive(Debug, Default)]
pub(super) struct Relayed {
    /// The snapshot without status and artifacts, JSON text.
    base: Option<String>,
    status: Option<String>,
    /// What was said since, in order.
    said: Vec<Said>,
    /// Metadata told since, in order.
    metadata: Vec<String>,
    artifacts: Vec<Artifact>,
    /// Where each stands: how many there are is the agent's choice.
    places: HashMap<String, usize>,
    /// It answered with a message and made no task.
    pub(super) message: Option<Arc<str>>,
    /// Its status is the run's: nothing happened here since it was told.
    pub(super) current: bool,
}

/// A line of the history that the agent's snapshot does not have yet.
#[derive(Debug)]
enum Said {
    /// The message of a status that is over, JSON text.
    Agent(String),
    /// The callers' answer to the pause of this ordinal.
    Answer(u64),
}

/// An artifact as first told, and the pieces appended to it.
#[derive(Debug)]
struct Artifact {
    first: String,
    pieces: Vec<String>,
}

impl Relayed {
    /// An A2A agent spoke in this run.
    pub(super) fn has_spoken(&self) -> bool {
        self.base.is_some() || self.status.is_some() || self.message.is_some() || !self.artifacts.is_empty()
    }

    /// Hears one event; its kind. `lean`: nobody will ask for the whole task again.
    pub(super) fn hear(&mut self, text: &Arc<str>, lean: bool) -> Option<Kind> {
        let response = RawObject::parse(text).ok()?;
        let (kind, raw) = kind(&response)?;
        match kind {
            Kind::Task => self.snapshot(raw.get()),
            Kind::Message => self.message = Some(text.clone()),
            Kind::Status => {
                let update = RawObject::parse(raw.get()).ok()?;
                self.update(update.get("status")?.get());
                self.metadata.extend(object(update.get("metadata")).filter(|_| !lean).map(str::to_owned));
            }
            Kind::Artifact if lean => {}
            Kind::Artifact => {
                let update = RawObject::parse(raw.get()).ok()?;
                let append = update.get("append").is_some_and(|raw| raw.get() == "true");
                self.piece(update.get("artifact")?.get(), append);
            }
        }
        Some(kind)
    }

    /// Lets go of what was told whole.
    pub(super) fn told_whole(&mut self) {
        if !self.has_spoken() {
            return;
        }
        let (status, current) = (self.status.take(), self.current);
        *self = Relayed { base: Some("{}".to_owned()), status, current, ..Relayed::default() };
    }

    fn snapshot(&mut self, task: &str) {
        *self = Relayed { current: true, ..Relayed::default() };
        let Ok(members) = RawObject::parse(task) else { return };
        self.status = members.get("status").map(|raw| raw.get().to_owned());
        let list = members.get("artifacts").map_or("[]", RawValue::get);
        for artifact in serde_json::from_str::<Vec<&RawValue>>(list).unwrap_or_default() {
            self.piece(artifact.get(), false);
        }
        self.base = json::edit(task, &[("artifacts", None)]).ok();
    }

    fn update(&mut self, status: &str) {
        self.retire();
        self.status = Some(status.to_owned());
        self.current = true;
    }

    /// What a status said is history once another takes its place, as the protocol's own
    /// servers keep it.
    fn retire(&mut self) {
        let said = self.status.take().and_then(|before| {
            let said = RawObject::parse(&before).ok()?.get("message")?.get().to_owned();
            (said != "null").then_some(said)
        });
        // A question told once more while its answer was on the way is no second question.
        let known =
            |said: &String| self.said.iter().rev().take(2).any(|old| matches!(old, Said::Agent(old) if old == said));
        self.said.extend(said.filter(|said| !known(said)).map(Said::Agent));
    }

    /// The pause was answered: nothing the agent said of its status is true any more.
    pub(super) fn answered(&mut self, ordinal: u64) {
        if self.has_spoken() {
            self.retire();
            self.said.push(Said::Answer(ordinal));
            self.base.get_or_insert_with(|| "{}".to_owned());
        }
        self.current = false;
    }

    fn piece(&mut self, artifact: &str, append: bool) {
        let id = RawObject::parse(artifact).ok().and_then(|members| json::string(members.get("artifactId")?.get()));
        let Some(id) = id else { return };
        match self.places.get(&id).and_then(|at| self.artifacts.get_mut(*at)) {
            Some(known) if append => known.pieces.push(artifact.to_owned()),
            Some(known) => *known = Artifact { first: artifact.to_owned(), pieces: Vec::new() },
            None => {
                self.places.insert(id, self.artifacts.len());
                self.artifacts.push(Artifact { first: artifact.to_owned(), pieces: Vec::new() });
            }
        }
    }

    /// The agent's task as callers see it, with a status of ours in the place of its own
    /// where that is no longer true. `answer` is a caller's message by the ordinal of its
    /// pause. `None`: it never told of a task.
    pub(super) fn task(
        &self,
        ids: Ids<'_>,
        ours: &str,
        answer: &dyn Fn(u64) -> Option<String>,
        artifacts: bool,
    ) -> Option<String> {
        if self.base.is_none() && self.status.is_none() && self.artifacts.is_empty() {
            return None;
        }
        let base = self.base.as_deref().unwrap_or("{}");
        let members = RawObject::parse(base).ok()?;
        let told = self.status.as_deref().filter(|_| self.current).unwrap_or(ours);
        let mut edits = vec![("status", told.to_owned())];
        if !self.said.is_empty() {
            let before = members.get("history").map(RawValue::get);
            let said = self.said.iter().filter_map(|said| match said {
                Said::Agent(message) => Some(message.clone()),
                Said::Answer(ordinal) => answer(*ordinal),
            });
            let said: Vec<String> = said.collect();
            edits.push(("history", pushed(before, said.iter().map(String::as_str))));
        }
        if !self.metadata.is_empty() {
            let before = object(members.get("metadata")).unwrap_or("{}").to_owned();
            edits.push(("metadata", merged(&before, self.metadata.iter().map(String::as_str))));
        }
        if artifacts && !self.artifacts.is_empty() {
            let whole: Vec<String> = self.artifacts.iter().map(Artifact::whole).collect();
            edits.push(("artifacts", format!("[{}]", whole.join(","))));
        }
        let edits: Vec<(&str, Option<&str>)> = edits.iter().map(|(name, new)| (*name, Some(new.as_str()))).collect();
        Some(task(&json::edit(base, &edits).ok()?, ids))
    }
}

impl Artifact {
    fn whole(&self) -> String {
        if self.pieces.is_empty() {
            return self.first.clone();
        }
        let Ok(first) = RawObject::parse(&self.first) else { return self.first.clone() };
        let pieces: Vec<RawObject> = self.pieces.iter().filter_map(|piece| RawObject::parse(piece).ok()).collect();
        let mut parts: Vec<&RawValue> = Vec::new();
        for piece in &pieces {
            let list = piece.get("parts").map_or("[]", RawValue::get);
            parts.extend(serde_json::from_str::<Vec<&RawValue>>(list).unwrap_or_default());
        }
        let parts = pushed(first.get("parts").map(RawValue::get), parts.into_iter().map(RawValue::get));
        let mut edits = vec![("parts", parts)];
        let more: Vec<&str> = pieces.iter().filter_map(|piece| object(piece.get("metadata"))).collect();
        if !more.is_empty() {
            let before = object(first.get("metadata")).unwrap_or("{}").to_owned();
            edits.push(("metadata", merged(&before, more.into_iter())));
        }
        let edits: Vec<(&str, Option<&str>)> = edits.iter().map(|(name, new)| (*name, Some(new.as_str()))).collect();
        json::edit(&self.first, &edits).unwrap_or_else(|_| self.first.clone())
    }
}

/// An event as callers see it.
pub(super) fn event(text: &str, ids: Ids<'_>) -> Option<String> {
    let response = RawObject::parse(text).ok()?;
    let (kind, raw) = kind(&response)?;
    let inner = match kind {
        Kind::Task => task(raw.get(), ids),
        Kind::Message => message(raw.get(), ids),
        Kind::Status => {
            let update = named(raw.get(), ids);
            match RawObject::parse(&update).ok()?.get("status") {
                Some(told) => json::edit(&update, &[("status", Some(&status(told.get(), ids)))]).ok()?,
                None => update,
            }
        }
        Kind::Artifact => named(raw.get(), ids),
    };
    json::edit(text, &[(kind.name(), Some(&inner))]).ok()
}

fn task(text: &str, ids: Ids<'_>) -> String {
    let Ok(members) = RawObject::parse(text) else { return text.to_owned() };
    let (id, context) = (json::quote(ids.task), json::quote(ids.context));
    let told = members.get("status").map(|raw| status(raw.get(), ids));
    let history = members.get("history").and_then(|raw| json::edit_each(raw.get(), |one| Some(message(one, ids))).ok());
    let mut edits = vec![("id", Some(id.as_str())), ("contextId", Some(context.as_str()))];
    edits.extend(OTHER_SPELLINGS);
    edits.extend(told.as_deref().map(|told| ("status", Some(told))));
    edits.extend(history.as_deref().map(|history| ("history", Some(history))));
    json::edit(text, &edits).unwrap_or_else(|_| text.to_owned())
}

fn status(text: &str, ids: Ids<'_>) -> String {
    let Ok(members) = RawObject::parse(text) else { return text.to_owned() };
    let said = members.get("message").map(RawValue::get).filter(|raw| *raw != "null");
    match said.map(|said| message(said, ids)) {
        Some(said) => json::edit(text, &[("message", Some(&said))]).unwrap_or_else(|_| text.to_owned()),
        None => text.to_owned(),
    }
}

/// A message's ids, where it has them: one that belongs to no task is given none.
fn message(text: &str, ids: Ids<'_>) -> String {
    let Ok(members) = RawObject::parse(text) else { return text.to_owned() };
    let (task, context) = (json::quote(ids.task), json::quote(ids.context));
    let has = |name: &str| members.get(name).is_some_and(|raw| raw.get() != "null" && raw.get() != "\"\"");
    let mut edits = OTHER_SPELLINGS.to_vec();
    if has("taskId") {
        edits.push(("taskId", Some(task.as_str())));
    }
    if has("contextId") {
        edits.push(("contextId", Some(context.as_str())));
    }
    json::edit(text, &edits).unwrap_or_else(|_| text.to_owned())
}

fn named(text: &str, ids: Ids<'_>) -> String {
    let (task, context) = (json::quote(ids.task), json::quote(ids.context));
    let ours = [("taskId", Some(&*task)), ("contextId", Some(&*context))];
    json::edit(text, &[&ours[..], &OTHER_SPELLINGS].concat()).unwrap_or_else(|_| text.to_owned())
}

fn object(raw: Option<&RawValue>) -> Option<&str> {
    raw.map(RawValue::get).filter(|raw| raw.starts_with('{'))
}

/// An object with the members of others, the newest of each, in the order first told. All at
/// once: told in many pieces, it must not be read anew with each of them.
fn merged<'a>(base: &str, more: impl Iterator<Item = &'a str>) -> String {
    let more: Vec<RawObject> = more.filter_map(|more| RawObject::parse(more).ok()).collect();
    let mut edits: Vec<(&str, Option<&str>)> = Vec::new();
    let mut places = HashMap::new();
    for (name, raw) in more.iter().flat_map(RawObject::iter) {
        let at = *places.entry(name).or_insert(edits.len());
        match edits.get_mut(at) {
            Some(known) => known.1 = Some(raw.get()),
            None => edits.push((name, Some(raw.get()))),
        }
    }
    json::edit(base, &edits).unwrap_or_else(|_| base.to_owned())
}

/// A list with more elements at its end.
fn pushed<'a>(list: Option<&str>, more: impl Iterator<Item = &'a str>) -> String {
    let list = list.filter(|raw| raw.starts_with('[')).unwrap_or("[]");
    let mut out = list.trim_end().strip_suffix(']').unwrap_or("[").to_owned();
    for element in more {
        if !out.trim_end().ends_with('[') {
            out.push(',');
        }
        out.push_str(element);
    }
    out.push(']');
    out
}

/// The last so many messages of a task's history.
pub(super) fn history(text: &str, last: Option<u64>) -> String {
    let Some(last) = last else { return text.to_owned() };
    let Ok(members) = RawObject::parse(text) else { return text.to_owned() };
    let Some(history) = members.get("history").filter(|raw| raw.get().starts_with('[')) else { return text.to_owned() };
    if last == 0 {
        return json::edit(text, &[("history", None)]).unwrap_or_else(|_| text.to_owned());
    }
    let all: Vec<&RawValue> = serde_json::from_str(history.get()).unwrap_or_default();
    let from = all.len().saturating_sub(usize::try_from(last).unwrap_or(usize::MAX));
    if from == 0 {
        return text.to_owned();
    }
    let kept: Vec<&str> = all[from..].iter().map(|raw| raw.get()).collect();
    let kept = format!("[{}]", kept.join(","));
    json::edit(text, &[("history", Some(&kept))]).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: Ids<'_> = Ids { task: "run_1", context: "thread_1" };

    #[test]
    fn ids_are_patched_at_the_listed_places_and_nothing_else() {
        let text = "{ \"task\": {\"id\":\"t\", \"contextId\":\"c\",\"x\":1.10,\"status\":{\"state\":\"TASK_STATE_WORKING\",\"message\":\
            {\"messageId\":\"m\",\"taskId\":\"t\",\"parts\":[{\"text\":\"t\"}]}},\"artifacts\":[{\"artifactId\":\"t\"}],\
            \"history\":[{\"messageId\":\"t\",\"taskId\":\"t\",\"contextId\":\"c\"} ,{\"messageId\":\"m2\"}]} }";
        let expect = text
            .replace("\"id\":\"t\"", "\"id\":\"run_1\"")
            .replace("\"taskId\":\"t\"", "\"taskId\":\"run_1\"")
            .replace("\"contextId\":\"c\"", "\"contextId\":\"thread_1\"");
        assert_eq!(event(text, IDS).unwrap(), expect);
    }

    #[test]
    fn what_comes_after_a_snapshot_brings_it_up_to_date() {
        let mut relayed = Relayed::default();
        for text in [
            r#"{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}}"#,
            r#"{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"1"}]}}}"#,
            r#"{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"2"}],"metadata":{"k":1}},"append":true}}"#,
            r#"{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"b","parts":[{"data":{"n":1.0}}]}}}"#,
            r#"{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING","message":{"messageId":"w"}},"metadata":{"z":1}}}"#,
            r#"{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}"#,
        ] {
            assert!(relayed.hear(&text.into(), false).is_some());
        }
        assert_eq!(
            relayed.task(IDS, "null", &|_| None, true).unwrap(),
            r#"{"id":"run_1","contextId":"thread_1","status":{"state":"TASK_STATE_COMPLETED"},"history":[{"messageId":"w"}],"metadata":{"z":1},"artifacts":[{"artifactId":"a","parts":[{"text":"1"},{"text":"2"}],"metadata":{"k":1}},{"artifactId":"b","parts":[{"data":{"n":1.0}}]}]}"#
        );
    }

    /// Told in ten times as many pieces, a task is put together in about ten times the time.
    #[test]
    fn metadata_in_many_pieces_is_merged_once() {
        let cost = |pieces: usize| {
            let mut relayed = Relayed::default();
            relayed
                .hear(&r#"{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#.into(), false);
            for n in 0..pieces {
                let artifact = format!(r#"{{"artifactId":"a","parts":[],"metadata":{{"m{n}":{n}}}}}"#);
                let told = format!(r#"{{"artifactUpdate":{{"taskId":"t","append":{},"artifact":{artifact}}}}}"#, n > 0);
                relayed.hear(&told.as_str().into(), false);
            }
            let best = (0..5).map(|_| {
                let begun = cpu_time::ThreadTime::now();
                let task = relayed.task(IDS, "null", &|_| None, true).unwrap();
                assert!(task.contains(&format!("\"m{}\"", pieces - 1)));
                begun.elapsed()
            });
            best.min().unwrap_or_default()
        };
        let (few, many) = (cost(4_000), cost(40_000));
        assert!(many < few * 30, "{few:?}, ten times as many {many:?}");
    }

    #[test]
    fn an_answer_is_history_after_its_question_until_the_agent_tells_it_itself() {
        let mut relayed = Relayed::default();
        let asks = r#"{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"q","taskId":"t"}}"#;
        relayed
            .hear(&format!(r#"{{"task":{{"id":"t","status":{asks},"history":[{{"messageId":"o"}}]}}}}"#).into(), false);
        relayed.answered(1);
        let answer = |ordinal: u64| Some(format!(r#"{{"messageId":"a{ordinal}","taskId":"run_1"}}"#));
        let history =
            r#""history":[{"messageId":"o"},{"messageId":"q","taskId":"run_1"},{"messageId":"a1","taskId":"run_1"}]"#;
        let task = relayed.task(IDS, r#"{"state":"TASK_STATE_SUBMITTED"}"#, &answer, true).unwrap();
        assert!(task.contains(history) && task.contains(r#""status":{"state":"TASK_STATE_SUBMITTED"}"#), "{task}");
        relayed.hear(&r#"{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}"#.into(), false);
        let task = relayed.task(IDS, "null", &answer, true).unwrap();
        assert!(task.contains(history) && task.contains("COMPLETED"), "{task}");
        relayed.hear(&r#"{"task":{"id":"t","history":[{"messageId":"own"}]}}"#.into(), false);
        let task = relayed.task(IDS, "null", &answer, true).unwrap();
        assert!(task.contains(r#""history":[{"messageId":"own"}]"#), "{task}");
    }
}
