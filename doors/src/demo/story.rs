//! The story itself, step by step.

use std::time::Duration;

use serde_json::{Value, json};
use wikala_witness::{AgentId, ThreadId, TreeNode};

use super::guest::{Guest, Said};
use crate::house::App;

/// The teller: prints each step, counts, and stops at the first that does not hold.
#[derive(Debug)]
pub struct Story {
    json: bool,
    app: App,
    told: usize,
    failed: usize,
}

/// How agent B hands its work to C, and in which class an outside reader counts it.
const WAYS: [(&str, &str, &str); 5] = [
    ("extend", "underChain", "signs the chain onward: H's segment goes on, the record names C"),
    ("fresh", "byProviderKey", "starts a chain of its own: a new segment, headed by B"),
    ("bare", "byProviderKey", "sends no chain, but signs the request"),
    ("strip", "byProviderKey", "cuts our hop out of the chain: accepted, and flagged"),
    ("anon", "anonymous", "says nothing about itself: counted, not attributed"),
];

impl Story {
    /// A story told of this house.
    #[must_use]
    pub fn new(json: bool, app: App) -> Self {
        Story { json, app, told: 0, failed: 0 }
    }

    /// Tells it.
    ///
    /// # Errors
    /// The step that did not hold.
    pub async fn tell(
        &mut self,
        head: &Guest,
        stranger: &Guest,
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
            "H opens a thread with the planner, which pauses and asks",
            state == "TASK_STATE_INPUT_REQUIRED",
            json!({
                "run": run, "thread": thread, "state": state,
            }),
        )?;
        let view = head.read(&format!("/threads/{thread}")).await?;
        let bound = view["binding"]["head"] == head.key.public().to_hex().as_str();
        self.step("the thread is bound to {H, planner} at birth", bound, view["binding"].clone())?;

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
        let stale = wikala_certs::Moment::from_secs(at.as_secs().saturating_sub(61));
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
        self.until(head, &slow, "running").await?;
        let params = json!({ "id": slow, "metadata": { "cancel": head.cancellation(&slow, self.app.desk.now()) } });
        let stopped = head.call(planner, "CancelTask", params).await?;
        self.step("H stops another run", matches!(stopped, Said::Done(_)), json!({ "run": slow }))?;
        self.until(head, &slow, "cancelled").await?;

        self.chapter("Was something handed on and hidden?");
        self.quiet(head, broker).await?;
        for (way, class, what) in WAYS {
            self.hidden(head, broker, worker, way, class, what).await?;
        }
        Ok(())
    }

    /// (i): B does the work itself.
    async fn quiet(&mut self, head: &Guest, broker: &AgentId) -> Result<(), String> {
        let before = self.threads().await?;
        let bag = head.bag(broker, self.app.desk.now());
        let task = head.send(broker, "echo my own work", json!({}), bag).await?.task();
        let view = head.read(&format!("/v1/runs/{}", text(&task, "id"))).await?;
        let onward = view["onward"].clone();
        let none = ["underChain", "byProviderKey", "anonymous"].iter().all(|class| onward[*class] == 0);
        let new = self.since(&before).await?;
        self.sides("(i)  B does the work itself", none && new.len() == 1, &onward, &new)
    }

    /// (ii): B hands it to C, in one of five ways.
    async fn hidden(
        &mut self,
        head: &Guest,
        broker: &AgentId,
        worker: &AgentId,
        way: &str,
        class: &str,
        what: &str,
    ) -> Result<(), String> {
        let before = self.threads().await?;
        let order = format!("delegate {}/{} {way} echo somebody else's work", worker.provider, worker.name.as_str());
        let bag = head.bag(broker, self.app.desk.now());
        let task = head.send(broker, &order, json!({}), bag).await?.task();
        let run = text(&task, "id");
        let view = head.read(&format!("/v1/runs/{run}")).await?;
        let onward = view["onward"].clone();
        let one =
            ["underChain", "byProviderKey", "anonymous"].iter().all(|name| onward[*name] == u64::from(*name == class));
        let new = self.since(&before).await?;
        let done = state(&task) == "TASK_STATE_COMPLETED" && new.len() == 2;
        let flagged = new.iter().any(|(_, line)| line.contains("dispatch-hop-missing"));
        let held = one && done && flagged == (way == "strip");
        self.sides(&format!("(ii) B hands it to C, {way}: {what}"), held, &onward, &new)
    }

    /// The threads that are new since `before`.
    async fn since(&self, before: &[(ThreadId, String)]) -> Result<Vec<(ThreadId, String)>, String> {
        let mut new = self.threads().await?;
        new.retain(|(thread, _)| !before.iter().any(|(known, _)| known == thread));
        Ok(new)
    }

    /// All threads as the operator sees them, each below its parent.
    async fn threads(&self) -> Result<Vec<(ThreadId, String)>, String> {
        let nodes = self
            .app
            .readers
            .read(|reader| {
                let mut nodes = Vec::new();
                for root in reader.roots()? {
                    nodes.push(reader.operator_tree(&root)?);
                }
                Ok(nodes)
            })
            .await
            .map_err(|no| no.to_string())?;
        let mut flat = Vec::new();
        for node in &nodes {
            flatten(node, 0, &mut flat);
        }
        Ok(flat)
    }

    async fn until(&mut self, reader: &Guest, run: &str, status: &str) -> Result<(), String> {
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
        self.step(&format!("and the run is {status}"), held, json!({ "run": run, "status": status }))
    }

    fn chapter(&self, title: &str) {
        if !self.json {
            println!("{title}");
        }
    }

    fn refused(&mut self, what: &str, said: &Said, code: &str) -> Result<(), String> {
        let facts = match said {
            Said::Refused(code, sentence) => json!({ "code": code, "message": sentence }),
            Said::Done(result) => json!({ "accepted": result }),
        };
        self.step(what, said.code() == code, facts)
    }

    fn sides(&mut self, what: &str, held: bool, onward: &Value, new: &[(ThreadId, String)]) -> Result<(), String> {
        let operator: Vec<&str> = new.iter().map(|(_, line)| line.as_str()).collect();
        self.step(what, held, json!({ "onward": onward, "operator": operator }))?;
        if !self.json {
            let counts = ["underChain", "byProviderKey", "anonymous", "sharedWith"]
                .map(|class| format!("{class} {}", onward[class]))
                .join(", ");
            println!("       outside reader   onward: {counts}");
            for (n, line) in operator.iter().enumerate() {
                println!("       {} {line}", if n == 0 { "operator's tree " } else { "                " });
            }
        }
        Ok(())
    }

    fn step(&mut self, what: &str, held: bool, facts: Value) -> Result<(), String> {
        self.told += 1;
        let (number, word) = (self.told, if held { "ok" } else { "FAILED" });
        if self.json {
            println!("{}", json!({ "step": number, "ok": held, "what": what, "facts": facts }));
        } else {
            println!("  {number:>2} {word:<3} {what}");
            if let (true, Some(code)) = (held, facts["code"].as_str()) {
                println!("         {code}: {}", facts["message"].as_str().unwrap_or(""));
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
            println!("{}", json!({ "ok": false, "error": why }));
        }
    }

    /// The closing line.
    pub fn close(&self) {
        if !self.json {
            println!("\n{} passed, {} failed", self.told - self.failed, self.failed);
        }
    }
}

fn flatten(node: &TreeNode, depth: usize, into: &mut Vec<(ThreadId, String)>) {
    if let Some(view) = &node.operator
        && let Some((_, status, flags)) = view.runs.first()
    {
        let short = |key: Option<wikala_chain::PublicKey>| {
            key.map_or_else(|| "nobody".to_owned(), |key| key.fingerprint().to_string())
        };
        let line = format!(
            "{}{} head {} opener {} {}{}",
            if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) },
            node.agent.name.as_str(),
            short(view.head),
            short(view.opener),
            status.as_str(),
            flags.iter().map(|flag| format!(" [{flag}]")).collect::<String>(),
        );
        into.push((node.thread.clone(), line));
    }
    for child in &node.children {
        flatten(child, depth + 1, into);
    }
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or("").to_owned()
}

fn state(task: &Value) -> String {
    task["status"]["state"].as_str().unwrap_or("").to_owned()
}
