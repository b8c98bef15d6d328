//! The story itself, step by step.

use std::time::Duration;

use serde_json::{Value, json};
use wikala_certs::Moment;
use wikala_witness::AgentId;

use super::cast::Cast;
use super::guest::{Guest, Said};
use super::rows::{Row, Tie};
use crate::cli::io;
use crate::house::App;

/// The teller: prints each step, counts, and stops at the first that does not hold.
#[derive(Debug)]
pub struct Story {
    json: bool,
    app: App,
    cast: Cast,
    told: usize,
    failed: usize,
}

/// One of the ways in which B hands its work to C.
struct Way {
    /// The word B is told.
    word: &'static str,
    /// In which class an outside reader counts it.
    class: &'static str,
    /// What the record ties it to B's run by.
    tie: Tie,
    what: &'static str,
    /// What an outside reader learns, and what not.
    learns: &'static str,
}

const WAYS: [Way; 5] = [
    Way {
        word: "extend",
        class: "underChain",
        tie: Tie::Chain,
        what: "signs the chain onward: H's segment goes on, the record names C",
        learns: "knows that this very work was handed on, once, under H's chain; cannot know to whom (H can)",
    },
    Way {
        word: "fresh",
        class: "byProviderKey",
        tie: Tie::Key,
        what: "starts a chain of its own: a new segment, headed by B",
        learns: "knows that B's key sent something on meanwhile; cannot know whether it was this work, nor to whom",
    },
    Way {
        word: "bare",
        class: "byProviderKey",
        tie: Tie::Key,
        what: "sends no chain, but signs the request",
        learns: "knows the same as before: a signature is enough to count against B; cannot know what it was for",
    },
    Way {
        word: "strip",
        class: "byProviderKey",
        tie: Tie::Key,
        what: "cuts our hop out of the chain: accepted, and flagged",
        learns: "knows that B's key sent something on; cannot know that a hop was cut, that stands on C's run",
    },
    Way {
        word: "anon",
        class: "anonymous",
        tie: Tie::None,
        what: "says nothing about itself: counted, not attributed",
        learns: "knows that somebody unnamed sent something meanwhile; cannot know that it was B",
    },
];

/// The same for work that B did itself.
const QUIET: &str = "knows that B's key sent nothing on through this witness; cannot know what went past it";
/// The classes in which dispatches are counted.
const CLASSES: [&str; 3] = ["underChain", "byProviderKey", "anonymous"];

impl Story {
    /// A story told of this house.
    #[must_use]
    pub fn new(json: bool, app: App, cast: Cast) -> Self {
        Story { json, app, cast, told: 0, failed: 0 }
    }

    /// Tells it.
    ///
    /// # Errors
    /// The step that did not hold.
    pub async fn tell(
        &mut self,
        head: &Guest,
        stranger: &Guest,
        provider: &Guest,
        planner: &AgentId,
        broker: &AgentId,
        worker: &AgentId,
    ) -> Result<(), String> {
        self.chapter("Who may write, answer and stop");
        let now = || self.app.desk.now();
        let asked = head.send(planner, "ask which colour", json!({}), head.bag(planner, now())).await?;
        let task = asked.task();
        let (run, thread) = (text(&task, "id"), text(&task, "contextId"));
        let state = state(&task);
        let at = now();
        self.step(
            "H opens a thread with A, which pauses and asks",
            state == "TASK_STATE_INPUT_REQUIRED",
            json!({
                "run": run, "thread": thread, "state": state, "cast": self.cast.to_value(),
            }),
        )?;
        let view = head.read(&format!("/threads/{thread}")).await?;
        let bound = view["binding"]["head"] == head.key.public().to_hex().as_str();
        self.step("the thread is bound to {H, A} at birth", bound, view["binding"].clone())?;

        let ids = json!({ "taskId": run, "contextId": thread });
        let wrote =
            stranger.send(planner, "echo let me in", json!({ "contextId": thread }), stranger.bag(planner, at)).await?;
        self.refused("a stranger cannot write there", &wrote, "not-a-member")?;
        let bag = json!({ "resolution": stranger.resolution(&run, at) });
        let said = stranger.send(planner, "blue", ids.clone(), bag).await?;
        self.refused("a stranger cannot answer", &said, "not-an-authority")?;
        let params = json!({ "id": run, "metadata": { "cancel": stranger.cancellation(&run, at) } });
        let said = stranger.call(planner, "CancelTask", params).await?;
        self.refused("a stranger cannot stop it", &said, "not-an-authority")?;
        let said = head.send(planner, "green", ids.clone(), head.bag(planner, at)).await?;
        self.refused("knowing the id, or showing H's chain, answers nothing", &said, "act-required")?;
        let stale = Moment::from_secs(at.as_secs().saturating_sub(61));
        let said =
            head.send(planner, "green", ids.clone(), json!({ "resolution": head.resolution(&run, stale) })).await?;
        self.refused("H's own answer, signed 61 s ago, is stale", &said, "act-stale")?;
        let act = head.resolution(&run, at);
        let said = head.send(planner, "green", ids.clone(), json!({ "resolution": act })).await?;
        let answered = said.task().to_string().contains("green") && self::state(&said.task()) == "TASK_STATE_COMPLETED";
        self.step(
            "H's fresh answer counts, and the run goes on",
            answered,
            json!({ "state": self::state(&said.task()) }),
        )?;
        let said = stranger.send(planner, "red", ids.clone(), json!({ "resolution": act })).await?;
        self.refused("whoever carried that answer cannot spend it again", &said, "already-answered")?;
        let view = head.read(&format!("/v1/runs/{run}")).await?;
        let who = view["asks"][0]["answeredBy"] == head.key.public().to_hex().as_str();
        self.step("the record names who answered, under whose authority", who, view["asks"][0].clone())?;

        let bag = head.bag(planner, self.app.desk.now());
        let slow = head.send(planner, "slow 60", json!({ "returnImmediately": true }), bag).await?.task();
        let slow = text(&slow, "id");
        self.until(head, &slow, "running", "H opens another run, and it is running").await?;
        let params = json!({ "id": slow, "metadata": { "cancel": head.cancellation(&slow, self.app.desk.now()) } });
        let stopped = head.call(planner, "CancelTask", params).await?;
        self.step("H stops it", matches!(stopped, Said::Done(_)), json!({ "run": slow }))?;
        self.until(head, &slow, "cancelled", "and it is cancelled").await?;

        self.owed(head, stranger, provider, planner).await?;

        self.chapter("\nWas something handed on and hidden?");
        self.quiet(head, broker).await?;
        for way in &WAYS {
            self.hidden(head, broker, worker, way).await?;
        }
        Ok(())
    }

    /// (i): B does the work itself.
    async fn quiet(&mut self, head: &Guest, broker: &AgentId) -> Result<(), String> {
        let before = self.rows().await?;
        let bag = head.bag(broker, self.app.desk.now());
        let task = head.send(broker, "echo my own work", json!({}), bag).await?.task();
        let run = text(&task, "id");
        let view = head.read(&format!("/v1/runs/{run}")).await?;
        let onward = view["onward"].clone();
        let none = CLASSES.iter().all(|class| onward[*class] == 0);
        let new = self.since(&before, &run).await?;
        self.sides("(i)  B does the work itself", none && new.len() == 1, &onward, &new, QUIET)
    }

    /// (ii): B hands it to C, in one of five ways.
    async fn hidden(&mut self, head: &Guest, broker: &AgentId, worker: &AgentId, way: &Way) -> Result<(), String> {
        let before = self.rows().await?;
        let address = format!("{}/{}", worker.provider, worker.name.as_str());
        let order = format!("delegate {address} {} echo somebody else's work", way.word);
        let bag = head.bag(broker, self.app.desk.now());
        let task = head.send(broker, &order, json!({}), bag).await?.task();
        let run = text(&task, "id");
        let view = head.read(&format!("/v1/runs/{run}")).await?;
        let onward = view["onward"].clone();
        let one = CLASSES.iter().all(|name| onward[*name] == u64::from(*name == way.class));
        let new = self.since(&before, &run).await?;
        let tied = matches!(new.as_slice(), [of_b, of_c] if of_b.run.as_str() == run && of_c.tie(of_b) == way.tie);
        let flagged = new.iter().any(|row| row.flags.iter().any(|flag| flag == "dispatch-hop-missing"));
        let done = state(&task) == "TASK_STATE_COMPLETED";
        let held = one && done && tied && flagged == (way.word == "strip");
        let what = format!("(ii) B hands it to C, {}: {}", way.word, way.what);
        self.sides(&what, held, &onward, &new, way.learns)
    }

    /// The rows that are new since `before`, that of `first` on top: two that began within
    /// one second stand in no order of their own.
    async fn since(&self, before: &[Row], first: &str) -> Result<Vec<Row>, String> {
        let mut new = self.rows().await?;
        new.retain(|row| !before.iter().any(|known| known.run == row.run));
        new.sort_by_key(|row| row.run.as_str() != first);
        Ok(new)
    }

    /// All rows as the operator sees them.
    async fn rows(&self) -> Result<Vec<Row>, String> {
        self.app.readers.read(Row::all).await.map_err(|no| no.to_string())
    }

    pub(super) async fn until(&mut self, reader: &Guest, run: &str, status: &str, what: &str) -> Result<(), String> {
        let wait = async {
            loop {
                let view = reader.read(&format!("/v1/runs/{run}")).await?;
                if view["status"] == status {
                    return Ok::<_, String>(view);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(15), wait).await;
        let held = matches!(seen, Ok(Ok(_)));
        self.step(what, held, json!({ "run": run, "status": status }))
    }

    pub(super) fn now(&self) -> Moment {
        self.app.desk.now()
    }

    pub(super) fn chapter(&self, title: &str) {
        if !self.json {
            tell(title);
        }
    }

    pub(super) fn refused(&mut self, what: &str, said: &Said, code: &str) -> Result<(), String> {
        let facts = match said {
            Said::Refused(code, sentence) => json!({ "code": code, "message": sentence }),
            Said::Done(result) => json!({ "accepted": result }),
        };
        self.step(what, said.code() == code, facts)
    }

    /// Both sides of one hand-on: what anybody reads of B's run, what the operator's
    /// record holds, and what follows from the first alone.
    fn sides(&mut self, what: &str, held: bool, onward: &Value, new: &[Row], learns: &str) -> Result<(), String> {
        let above = |n: usize| new.first().filter(|_| n > 0);
        let operator: Vec<Value> = new.iter().enumerate().map(|(n, row)| row.words(above(n))).collect();
        let facts = json!({ "onward": onward, "operator": operator, "outsideReader": learns });
        self.step(what, held, facts)?;
        if !self.json {
            let counts = CLASSES.map(|class| format!("{class} {}", onward[class])).join(", ");
            tell(format!("         {:<17} onward: {counts}", "outside reader"));
            for (n, row) in new.iter().enumerate() {
                let margin = if n == 0 { "operator's record" } else { "" };
                tell(format!("         {margin:<17} {}", row.line(&self.cast, above(n))));
            }
            tell(format!("         so an outside reader {learns}"));
        }
        Ok(())
    }

    pub(super) fn step(&mut self, what: &str, held: bool, facts: Value) -> Result<(), String> {
        self.told += 1;
        let (number, word) = (self.told, if held { "ok" } else { "FAILED" });
        if self.json {
            tell(json!({ "step": number, "ok": held, "what": what, "facts": facts }));
        } else {
            tell(format!("  {number:>2} {word:<3} {what}"));
            if let (true, Some(code)) = (held, facts["code"].as_str()) {
                let sentence = self.cast.lettered(facts["message"].as_str().unwrap_or(""));
                tell(format!("         {code}: {sentence}"));
            }
            if let Some(key) = facts["answeredBy"].as_str() {
                tell(format!("         answeredBy: {}", self.cast.lettered(key)));
            }
        }
        if held {
            return Ok(());
        }
        self.failed += 1;
        Err(format!("demo: step {number} did not hold: {what}: {facts}"))
    }

    /// Says what broke the story, where steps are objects.
    pub fn broken(&self, why: &str) {
        if self.json {
            tell(json!({ "ok": false, "error": why }));
        }
    }

    /// The closing line.
    pub fn close(&self) {
        if !self.json {
            tell(format!("\n{} passed, {} failed", self.told - self.failed, self.failed));
        }
    }
}

/// Prints a line. A reader who hung up has what it wanted; the story still runs to its
/// end, and the exit code says how it ended.
pub(super) fn tell(line: impl std::fmt::Display) {
    let _ = io::say(line);
}

pub(super) fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or("").to_owned()
}

fn state(task: &Value) -> String {
    task["status"]["state"].as_str().unwrap_or("").to_owned()
}
