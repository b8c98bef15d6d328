//! The scene of an answer that is owed: asked for in an agreed shape, taken on, answered; and
//! what does not answer it.

use axum::http::Method;
use serde_json::{Value, json};
use wikala_certs::Deed;
use wikala_chain::{Digest, VerifiedChain};
use wikala_witness::obligation::{ObligationId, ledger};
use wikala_witness::{AgentId, ThreadId};

use super::guest::{Guest, Said, parsed};
use super::story::{Story, text};
use crate::obligations::acts::response;
use crate::obligations::spec::{Asked, request};

/// The shape of the answer, and what it is called.
const SHAPE: (&str, &str) =
    ("stock.v1", r#"{"type":"object","properties":{"quantity":{"type":"integer"}},"required":["quantity"]}"#);

impl Story {
    /// H asks, A owes.
    pub(super) async fn owed(
        &mut self,
        head: &Guest,
        stranger: &Guest,
        provider: &Guest,
        agent: &AgentId,
    ) -> Result<(), String> {
        self.chapter("\nWhat is owed, and what closes it?");
        let place = format!("/threads/{}/{}", agent.provider, agent.name.as_str());
        let made = head.http(Method::POST, &place, None, None).await?;
        let thread = text(&made.task(), "threadId");
        let asked = self.demand(head, &thread).await?;
        let owed = asked.task()["obligation"].clone();
        let id = text(&owed, "obligation_id");
        let place = format!("/v1/response-obligations/{id}");
        self.step("H asks A for an answer of an agreed shape: A owes it", owed["state"] == "created", owed.clone())?;

        let run = text(&asked.task(), "run_id");
        self.until(head, &run, "completed", "A's run says something, and ends").await?;
        let (view, _) = self.look(head, &place).await?;
        self.step("which closes nothing: prose is no answer", is_open(&view), json!({ "state": view["state"] }))?;
        let (_, said) = self.look(stranger, &place).await?;
        self.refused("a stranger cannot see that it is there", &said, "obligation-unavailable")?;

        let revision = view["revision"].as_u64().unwrap_or_default();
        let deed = Deed::Accept { obligation: id.clone(), revision };
        let said = self.act(provider, &format!("{place}/accept"), &deed, json!({ "revision": revision })).await?;
        let state = said.task();
        self.step("A takes it on, with its signature", state["state"] == "acknowledged", state.clone())?;
        let revision = state["revision"].as_u64().unwrap_or_default();
        let (to, reason) = ("in_progress".to_owned(), "counting".to_owned());
        let body = json!({ "revision": revision, "to_state": to, "reason": reason });
        let deed = Deed::Progress { obligation: id.clone(), revision, to, reason };
        let state = self.act(provider, &format!("{place}/transition"), &deed, body).await?.task();
        self.step("and says that it works on it", state["state"] == "in_progress", state.clone())?;

        let said = self.answer(provider, &view, r#"{"quantity":"four"}"#).await?;
        self.refused("an answer of another shape stays owed", &said, "response-schema-violation")?;
        let state = self.answer(provider, &view, r#"{"quantity":4}"#).await?.task();
        self.step("the right one closes it", state["state"] == "completed", state.clone())?;

        let (view, _) = self.look(head, &place).await?;
        let lines: Vec<String> = view["history"].as_array().into_iter().flatten().map(Value::to_string).collect();
        let entries = ledger::verify(&lines.join("\n"));
        self.step(
            "its ledger verifies without the witness",
            entries.as_ref().is_ok_and(|entries| *entries >= 4),
            json!({ "entries": entries.ok() }),
        )?;
        let changed = lines.join("\n").replacen("acknowledged", "acknowledgee", 1);
        let broken = ledger::verify(&changed).err().map(|broken| broken.entry);
        self.step("and names the entry of which one letter is changed", broken.is_some(), json!({ "entry": broken }))
    }

    /// The request, signed with what it demands.
    async fn demand(&self, head: &Guest, thread: &str) -> Result<Said, String> {
        let words = "echo four are left";
        let spec =
            json!({ "response_required": true, "response_schema_id": SHAPE.0, "response_schema": parsed(SHAPE.1) });
        let parts = json!([{ "text": words }]).to_string();
        let known = ThreadId::parse(thread).ok_or("demo: no thread")?;
        let asked = Asked { thread: &known, kind: "post", message_id: "owed", role: "ROLE_USER", parts: &parts };
        let payload = request(asked, &spec.to_string()).map_err(|problem| problem.sentence)?;
        let deed = Deed::Create { thread: thread.to_owned(), request: Digest::of(payload.as_bytes()) };
        let chain: Vec<String> = VerifiedChain::start(&head.key).tokens().map(str::to_owned).collect();
        let body = json!({
            "kind": "post", "message_id": "owed", "body": words, "response_obligation": spec,
            "metadata": { "actorChain": chain },
        });
        self.act(head, &format!("/v1/conversations/{thread}/actions"), &deed, body).await
    }

    async fn answer(&self, provider: &Guest, view: &Value, result: &str) -> Result<Said, String> {
        let (id, event, digest) =
            (text(view, "obligation_id"), text(view, "request_event_id"), text(view, "request_digest"));
        let known = ObligationId::parse(&id).ok_or("demo: no obligation")?;
        let request = Digest::from_hex(&digest).map_err(|_| "demo: no digest")?;
        let payload = response(&known, &event, &request, "completed", "", Some(SHAPE.0), Some(result))
            .map_err(|problem| problem.sentence)?;
        let place = format!("/v1/response-obligations/{id}/respond");
        let body = json!({
            "request_event_id": event, "request_digest": digest, "outcome": "completed", "body": "",
            "response_schema_id": SHAPE.0, "structured_response": parsed(result),
        });
        let deed = Deed::Respond { obligation: id, event, request, response: Digest::of(payload.as_bytes()) };
        self.act(provider, &place, &deed, body).await
    }

    /// Sends an act: what it says, and the signature under it.
    async fn act(&self, actor: &Guest, path: &str, deed: &Deed, mut body: Value) -> Result<Said, String> {
        body["act"] = parsed(&deed.sign(&actor.key, self.now()).to_json());
        actor.http(Method::POST, path, Some(&body), None).await
    }

    /// What a party sees of it, and what was said to whoever is none.
    async fn look(&self, reader: &Guest, place: &str) -> Result<(Value, Said), String> {
        let said = reader.http(Method::GET, place, None, Some(self.now())).await?;
        Ok((said.task(), said))
    }
}

fn is_open(view: &Value) -> bool {
    matches!(view["state"].as_str(), Some("created" | "recipient_committed"))
}
