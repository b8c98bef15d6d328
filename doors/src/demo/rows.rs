//! What the operator sees of a hand-on: the run that took the work, the runs that
//! began meanwhile, and what ties one to the other on record.

use serde_json::{Value, json};
use wikala_chain::PublicKey;
use wikala_witness::{AgentId, No, Reader, RunId, TreeNode};

use super::cast::Cast;

/// What the record says about where a run came from. It tells what it can prove and
/// leaves the rest open: a witness does not judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// Its chain goes on from the one delivered to the other run.
    Chain,
    /// The other run's provider opened it.
    Key,
    /// Nothing.
    None,
}

impl Tie {
    /// In one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Tie::Chain => "chain",
            Tie::Key => "key",
            Tie::None => "none",
        }
    }
}

/// A thread of the operator's tree, by its first run.
#[derive(Debug, Clone)]
pub struct Row {
    /// The run.
    pub run: RunId,
    /// What is wrong with it, if anything.
    pub flags: Vec<String>,
    agent: AgentId,
    head: Option<PublicKey>,
    opener: Option<PublicKey>,
    status: &'static str,
    /// The tokens delivered with it.
    chain: Vec<String>,
}

impl Row {
    /// All rows there are.
    ///
    /// # Errors
    /// Only faults.
    pub fn all(reader: &Reader) -> Result<Vec<Row>, No> {
        let mut rows = Vec::new();
        for root in reader.roots()? {
            gather(reader, &reader.operator_tree(&root)?, &mut rows)?;
        }
        Ok(rows)
    }

    /// What ties this run to `other`.
    #[must_use]
    pub fn tie(&self, other: &Row) -> Tie {
        let from = &other.chain;
        if !from.is_empty() && self.chain.len() > from.len() && self.chain.starts_with(from) {
            Tie::Chain
        } else if self.opener == Some(other.agent.provider) {
            Tie::Key
        } else {
            Tie::None
        }
    }

    /// A line for people, beneath `above` if it is not the first.
    #[must_use]
    pub fn line(&self, cast: &Cast, above: Option<&Row>) -> String {
        let of = |key| cast.letter(key);
        let (arrow, tie) = match above.map(|above| (self.tie(above), of(Some(above.agent.provider)))) {
            None => ("", String::new()),
            Some((Tie::Chain, above)) => ("└► ", format!(", its chain goes on from {above}'s")),
            Some((Tie::Key, above)) if !self.flags.is_empty() => {
                ("·· ", format!(", opened with {above}'s key on {}'s chain, past our hop", of(self.head)))
            }
            Some((Tie::Key, above)) => ("·· ", format!(", opened with {above}'s key; for what, nothing says")),
            Some((Tie::None, above)) => ("   ", format!(", nothing ties it to {above}")),
        };
        let flags: String = self.flags.iter().map(|flag| format!(" [{flag}]")).collect();
        format!(
            "{arrow}{}  head {}, opened by {}, {}{flags}{tie}",
            of(Some(self.agent.provider)),
            of(self.head),
            of(self.opener),
            self.status
        )
    }

    /// The same as an object.
    #[must_use]
    pub fn words(&self, above: Option<&Row>) -> Value {
        let hex = |key: Option<PublicKey>| key.map(|key| key.to_hex());
        json!({
            "runId": self.run.as_str(), "agent": self.agent.name.as_str(), "head": hex(self.head),
            "opener": hex(self.opener), "status": self.status, "flags": self.flags,
            "tie": above.map(|above| self.tie(above).as_str()),
        })
    }
}

fn gather(reader: &Reader, node: &TreeNode, into: &mut Vec<Row>) -> Result<(), No> {
    if let Some(view) = &node.operator
        && let Some((run, status, flags)) = view.runs.first()
    {
        let chain = reader.run_for_operator(run)?.chain;
        into.push(Row {
            run: run.clone(),
            flags: flags.clone(),
            agent: node.agent.clone(),
            head: view.head,
            opener: view.opener,
            status: status.as_str(),
            // Our own writing, or no chain at all.
            chain: chain.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        });
    }
    node.children.iter().try_for_each(|child| gather(reader, child, into))
}
