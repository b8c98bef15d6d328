//! Agents behind HTTP: where they are, whose consent stands for them, and what they
//! call our threads and runs.

use rusqlite::{Row, named_params};
use wikala_certs::{Moment, SignedConsent};
use wikala_chain::{AgentName, PublicKey};

use super::{Key, Store, number, secs};
use crate::ids::{RunId, ThreadId};
use crate::model::{AgentId, Dialect, LinkId};
use crate::refusal::Fault;
use crate::upstream::{NewUpstream, Upstream};

fn upstream(row: &Row<'_>) -> rusqlite::Result<Upstream> {
    let name: String = row.get("name")?;
    Ok(Upstream {
        agent: AgentId {
            provider: row.get::<_, Key>("provider")?.0,
            name: AgentName::new(&name).map_err(|_| rusqlite::Error::InvalidQuery)?,
        },
        dialect: Dialect::parse(&row.get::<_, String>("dialect")?).ok_or(rusqlite::Error::InvalidQuery)?,
        url: row.get("url")?,
        custodial: row.get::<_, i64>("custodial")? != 0,
        headers: row.get("headers")?,
        added_at: number(row, "added_at")?,
    })
}

impl Store {
    /// False: the name is on a link's roster, or is an upstream agent already.
    pub(crate) fn insert_upstream(&self, new: &NewUpstream, now: Moment) -> Result<bool, Fault> {
        let consent: &SignedConsent = &new.consent;
        // add upstream: one carrier a name
        Ok(self.change(
            "INSERT INTO upstream (agent, dialect, url, custodial, consent, headers, added_at)
             SELECT id, :dialect, :url, :custodial, :consent, :headers, :now FROM agent
             WHERE provider = :provider AND name = :name AND link IS NULL
             ON CONFLICT (agent) DO UPDATE SET dialect = excluded.dialect, url = excluded.url,
               custodial = excluded.custodial, consent = excluded.consent, headers = excluded.headers,
               added_at = excluded.added_at, removed_at = NULL
             WHERE removed_at IS NOT NULL",
            named_params! {
                ":dialect": new.dialect.as_str(), ":url": consent.url(), ":custodial": i64::from(new.custodial),
                ":consent": consent.signature().as_bytes().to_vec(), ":headers": new.headers, ":now": secs(now),
                ":provider": Key(consent.provider()), ":name": consent.name().as_str(),
            },
        )? > 0)
    }

    pub(crate) fn ensure_agent(&self, id: &AgentId, registration: &str) -> Result<(), Fault> {
        // a name, on no roster yet
        self.change(
            "INSERT INTO agent (provider, name, registration, interjections) VALUES (:provider, :name, :registration, 0)
             ON CONFLICT (provider, name) DO NOTHING",
            named_params! {
                ":provider": Key(id.provider), ":name": id.name.as_str(), ":registration": registration,
            },
        )?;
        Ok(())
    }

    pub(crate) fn remove_upstream(&self, id: &AgentId, now: Moment) -> Result<bool, Fault> {
        // remove upstream
        Ok(self.change(
            "UPDATE upstream SET removed_at = :now WHERE removed_at IS NULL
               AND agent = (SELECT id FROM agent WHERE provider = :provider AND name = :name)",
            named_params! {":now": secs(now), ":provider": Key(id.provider), ":name": id.name.as_str()},
        )? > 0)
    }

    pub(crate) fn upstreams(&self) -> Result<Vec<Upstream>, Fault> {
        // upstreams
        self.all(
            "SELECT a.provider, a.name, u.* FROM upstream u JOIN agent a ON a.id = u.agent
             WHERE u.removed_at IS NULL ORDER BY a.id",
            [],
            upstream,
        )
    }

    /// A link of ours for one upstream agent. False: that agent is none (any more).
    pub(crate) fn carry(
        &self,
        upstream: &Upstream,
        registration: &str,
        capacity: u64,
        now: Moment,
    ) -> Result<Option<LinkId>, Fault> {
        let id = &upstream.agent;
        // attach carrier: to the agent as it was when this was begun, not to one added since
        let rows = self.change(
            "INSERT INTO link (provider, capacity, attached_at, carrier)
             SELECT a.provider, :capacity, :now, 'upstream' FROM agent a JOIN upstream u ON u.agent = a.id
             WHERE a.provider = :provider AND a.name = :name AND u.removed_at IS NULL AND u.url = :url AND u.added_at = :added",
            named_params! {
                ":url": upstream.url, ":added": i64::try_from(upstream.added_at).unwrap_or(i64::MAX),
                ":capacity": capacity as i64, ":now": secs(now), ":provider": Key(id.provider), ":name": id.name.as_str(),
            },
        )?;
        if rows == 0 {
            return Ok(None);
        }
        let link = LinkId(self.db.last_insert_rowid());
        // the one agent on its roster
        self.change(
            "UPDATE agent SET link = :link, lost_at = NULL, registration = :registration
             WHERE provider = :provider AND name = :name",
            named_params! {
                ":link": link.0, ":registration": registration,
                ":provider": Key(id.provider), ":name": id.name.as_str(),
            },
        )?;
        Ok(Some(link))
    }

    pub(crate) fn links_of(&self, provider: PublicKey) -> Result<Vec<(LinkId, Option<u64>, bool)>, Fault> {
        // live links of a provider: the one it dialed in with, and ours to its upstream agents
        self.all(
            "SELECT id, capacity, carrier FROM link WHERE provider = :provider AND detached_at IS NULL ORDER BY id",
            named_params! {":provider": Key(provider)},
            |row| {
                let upstream = row.get::<_, String>("carrier")? == "upstream";
                Ok((LinkId(row.get("id")?), super::maybe(row, "capacity")?, upstream))
            },
        )
    }

    pub(crate) fn held_at(&self, id: &AgentId) -> Result<Vec<RunId>, Fault> {
        // runs an agent took and did not finish
        self.all(
            "SELECT run.id FROM run JOIN agent a ON a.id = run.agent
             WHERE a.provider = :provider AND a.name = :name AND run.held = 1 ORDER BY run.opened",
            named_params! {":provider": Key(id.provider), ":name": id.name.as_str()},
            |row| row.get("id"),
        )
    }

    pub(crate) fn forget_names(&self, id: &AgentId) -> Result<(), Fault> {
        let of = named_params! {":provider": Key(id.provider), ":name": id.name.as_str()};
        // forget what an upstream called its threads
        self.change(
            "DELETE FROM upstream_thread WHERE thread IN (SELECT t.id FROM thread t JOIN agent a ON a.id = t.agent
               WHERE a.provider = :provider AND a.name = :name)",
            of,
        )?;
        // forget what an upstream called its runs
        self.change(
            "DELETE FROM upstream_run WHERE run IN (SELECT r.id FROM run r JOIN agent a ON a.id = r.agent
               WHERE a.provider = :provider AND a.name = :name)",
            of,
        )?;
        Ok(())
    }

    pub(crate) fn name_thread(&self, thread: &ThreadId, context: &str) -> Result<(), Fault> {
        // what an upstream calls a thread: as it said first
        self.change(
            "INSERT INTO upstream_thread (thread, context) VALUES (:thread, :context) ON CONFLICT (thread) DO NOTHING",
            named_params! {":thread": thread, ":context": context},
        )?;
        Ok(())
    }

    pub(crate) fn name_run(&self, run: &RunId, task: &str) -> Result<(), Fault> {
        // what an upstream calls a run: as it said first
        self.change(
            "INSERT INTO upstream_run (run, task) VALUES (:run, :task) ON CONFLICT (run) DO NOTHING",
            named_params! {":run": run, ":task": task},
        )?;
        Ok(())
    }

    pub(crate) fn context_of(&self, thread: &ThreadId) -> Result<Option<String>, Fault> {
        // context of a thread
        self.find(
            "SELECT context FROM upstream_thread WHERE thread = :thread",
            named_params! {":thread": thread},
            |row| row.get("context"),
        )
    }

    pub(crate) fn task_of(&self, run: &RunId) -> Result<Option<String>, Fault> {
        // task of a run
        self.find("SELECT task FROM upstream_run WHERE run = :run", named_params! {":run": run}, |row| row.get("task"))
    }
}
