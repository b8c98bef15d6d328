//! Providers, their live links, and the agents on their rosters.

use rusqlite::{Row, named_params};
use wikala_certs::Moment;
use wikala_chain::{AgentName, Fingerprint, PublicKey};

use super::{Key, Store, key, maybe, number, secs};
use crate::model::{AgentId, Dialect, LinkId, Registration};
use crate::refusal::Fault;

/// A row of `agent` with its provider's standing.
#[derive(Debug, Clone)]
pub(crate) struct AgentRow {
    pub(crate) row: i64,
    pub(crate) id: AgentId,
    pub(crate) registration: String,
    /// The live link that serves it; `None` while it is on no live roster or withdrawn.
    pub(crate) link: Option<LinkId>,
    /// When it was last lost; `None` if it never was on a roster before.
    pub(crate) lost_at: Option<u64>,
    pub(crate) withdrawn: bool,
    /// It stands behind HTTP: what it speaks, and whether we hold its key.
    pub(crate) upstream: Option<(Dialect, bool)>,
}

/// The counters of a provider that survive restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// It declined an offer while it claimed to have room.
    pub declined_with_room: u64,
    /// It took a run and its lease ran out.
    pub took_never_ended: u64,
    /// It never answered an offer.
    pub never_answered: u64,
    /// Its agents are withdrawn until it registers again.
    pub withdrawn: bool,
}

/// Which counter a fault of the provider adds to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Strike {
    DeclinedWithRoom,
    TookNeverEnded,
    NeverAnswered,
}

macro_rules! agent_where {
    ($tail:literal) => {
        concat!(
            "SELECT a.id, a.provider, a.name, a.registration, a.lost_at, p.withdrawn, u.dialect, u.custodial,
               CASE WHEN p.withdrawn = 0 OR l.carrier = 'upstream' THEN l.id END AS link
             FROM agent a JOIN provider p ON p.key = a.provider
             LEFT JOIN link l ON l.id = a.link AND l.detached_at IS NULL
             LEFT JOIN upstream u ON u.agent = a.id AND u.removed_at IS NULL ",
            $tail
        )
    };
}

fn agent(row: &Row<'_>) -> rusqlite::Result<AgentRow> {
    let upstream = match row.get::<_, Option<String>>("dialect")? {
        Some(dialect) => {
            let dialect = Dialect::parse(&dialect).ok_or(rusqlite::Error::InvalidQuery)?;
            Some((dialect, row.get::<_, i64>("custodial")? != 0))
        }
        None => None,
    };
    let name: String = row.get("name")?;
    Ok(AgentRow {
        row: row.get("id")?,
        id: AgentId {
            provider: row.get::<_, Key>("provider")?.0,
            name: AgentName::new(&name).map_err(|_| rusqlite::Error::InvalidQuery)?,
        },
        registration: row.get("registration")?,
        link: row.get::<_, Option<i64>>("link")?.map(LinkId),
        lost_at: maybe(row, "lost_at")?,
        withdrawn: row.get::<_, i64>("withdrawn")? != 0,
        upstream,
    })
}

impl Store {
    pub(crate) fn agent(&self, id: &AgentId) -> Result<Option<AgentRow>, Fault> {
        // agent by address
        self.find(
            agent_where!("WHERE a.provider = :provider AND a.name = :name"),
            named_params! {":provider": Key(id.provider), ":name": id.name.as_str()},
            agent,
        )
    }

    pub(crate) fn agent_row(&self, row: i64) -> Result<Option<AgentRow>, Fault> {
        // agent by row
        self.find(agent_where!("WHERE a.id = :row"), named_params! {":row": row}, agent)
    }

    pub(crate) fn roster(&self, after: u64, limit: u64) -> Result<Vec<AgentRow>, Fault> {
        // roster, in a stable order
        self.all(
            agent_where!("WHERE a.id > :after ORDER BY a.id LIMIT :limit"),
            named_params! {
                ":after": i64::try_from(after).unwrap_or(i64::MAX), ":limit": i64::try_from(limit).unwrap_or(i64::MAX),
            },
            agent,
        )
    }

    pub(crate) fn providers_by_fingerprint(&self, fingerprint: Fingerprint) -> Result<Vec<PublicKey>, Fault> {
        // provider by fingerprint: more than one is an ambiguity, never a choice of ours
        self.all(
            "SELECT key FROM provider WHERE fingerprint = :fingerprint",
            named_params! {":fingerprint": fingerprint.as_bytes().to_vec()},
            |row| Ok(row.get::<_, Key>("key")?.0),
        )
    }

    pub(crate) fn counters(&self, provider: PublicKey) -> Result<Option<Counters>, Fault> {
        // counters
        self.find(
            "SELECT declined_with_room, took_never_ended, never_answered, withdrawn FROM provider WHERE key = :key",
            named_params! {":key": Key(provider)},
            |row| {
                Ok(Counters {
                    declined_with_room: number(row, "declined_with_room")?,
                    took_never_ended: number(row, "took_never_ended")?,
                    never_answered: number(row, "never_answered")?,
                    withdrawn: row.get::<_, i64>("withdrawn")? != 0,
                })
            },
        )
    }

    pub(crate) fn know_provider(&self, provider: PublicKey, name: Option<&str>) -> Result<(), Fault> {
        // know provider
        self.change(
            "INSERT INTO provider (key, fingerprint, name) VALUES (:key, :fingerprint, :name)
             ON CONFLICT (key) DO UPDATE SET name = coalesce(excluded.name, name)",
            named_params! {
                ":key": Key(provider),
                ":fingerprint": provider.fingerprint().as_bytes().to_vec(),
                ":name": name,
            },
        )?;
        Ok(())
    }

    /// Counts a fault; true when it withdrew the provider's agents just now.
    pub(crate) fn strike(&self, provider: PublicKey, what: Strike, tolerance: u64) -> Result<bool, Fault> {
        let [declined, unended, unanswered] = match what {
            Strike::DeclinedWithRoom => [1, 0, 0],
            Strike::TookNeverEnded => [0, 1, 0],
            Strike::NeverAnswered => [0, 0, 1],
        };
        // strike
        self.change(
            "UPDATE provider SET declined_with_room = declined_with_room + :declined,
               took_never_ended = took_never_ended + :unended,
               never_answered = never_answered + :unanswered, strikes = strikes + 1
             WHERE key = :key",
            named_params! {":declined": declined, ":unended": unended, ":unanswered": unanswered, ":key": Key(provider)},
        )?;
        // withdraw: 0 rows means it is still tolerated, or withdrawn already
        let rows = self.change(
            "UPDATE provider SET withdrawn = 1 WHERE key = :key AND withdrawn = 0 AND strikes >= :tolerance",
            named_params! {":key": Key(provider), ":tolerance": tolerance as i64},
        )?;
        Ok(rows > 0)
    }

    pub(crate) fn forgive(&self, provider: PublicKey) -> Result<(), Fault> {
        // forgive: a run that ended well clears the strikes, never the counters
        self.change(
            "UPDATE provider SET strikes = 0 WHERE key = :key AND strikes > 0 AND withdrawn = 0",
            named_params! {":key": Key(provider)},
        )?;
        Ok(())
    }

    pub(crate) fn readmit(&self, provider: PublicKey, tolerance: u64) -> Result<(), Fault> {
        // readmit: registering again lifts a withdrawal; the next fault brings it back
        self.change(
            "UPDATE provider SET withdrawn = 0, strikes = :left WHERE key = :key AND withdrawn = 1",
            named_params! {":key": Key(provider), ":left": tolerance.saturating_sub(1) as i64},
        )?;
        Ok(())
    }

    pub(crate) fn insert_link(&self, provider: PublicKey, capacity: Option<u64>, now: Moment) -> Result<LinkId, Fault> {
        // attach
        self.change(
            "INSERT INTO link (provider, capacity, attached_at) VALUES (:provider, :capacity, :now)",
            named_params! {":provider": Key(provider), ":capacity": capacity.map(|c| c as i64), ":now": secs(now)},
        )?;
        Ok(LinkId(self.db.last_insert_rowid()))
    }

    pub(crate) fn live_link(&self, provider: PublicKey) -> Result<Option<(LinkId, Option<u64>)>, Fault> {
        // live link
        self.find(
            "SELECT id, capacity FROM link
             WHERE provider = :provider AND detached_at IS NULL AND carrier = 'link'",
            named_params! {":provider": Key(provider)},
            |row| Ok((LinkId(row.get("id")?), maybe(row, "capacity")?)),
        )
    }

    pub(crate) fn link_provider(&self, link: LinkId) -> Result<Option<PublicKey>, Fault> {
        // provider of a live link: a closed link has no say any more
        Ok(self
            .find(
                "SELECT provider FROM link WHERE id = :link AND detached_at IS NULL",
                named_params! {":link": link.0},
                |row| key(row, "provider"),
            )?
            .flatten())
    }

    /// False if that link was closed before: a late clean-up changes nothing.
    pub(crate) fn close_link(&self, link: LinkId, now: Moment) -> Result<bool, Fault> {
        // close link
        let rows = self.change(
            "UPDATE link SET detached_at = :now WHERE id = :link AND detached_at IS NULL",
            named_params! {":now": secs(now), ":link": link.0},
        )?;
        // agents of that link leave the roster
        self.change(
            "UPDATE agent SET link = NULL, lost_at = :now WHERE link = :link",
            named_params! {":now": secs(now), ":link": link.0},
        )?;
        Ok(rows > 0)
    }

    pub(crate) fn live_links(&self) -> Result<Vec<(LinkId, PublicKey)>, Fault> {
        // live links
        self.all("SELECT id, provider FROM link WHERE detached_at IS NULL ORDER BY id", [], |row| {
            Ok((LinkId(row.get("id")?), row.get::<_, Key>("provider")?.0))
        })
    }

    /// False: that name has another carrier.
    pub(crate) fn register(&self, provider: PublicKey, link: LinkId, agent: &Registration) -> Result<bool, Fault> {
        // register: one carrier a name
        Ok(self.change(
            "INSERT INTO agent (provider, name, registration, interjections, link)
             VALUES (:provider, :name, :registration, :interjections, :link)
             ON CONFLICT (provider, name) DO UPDATE SET registration = excluded.registration,
               interjections = excluded.interjections, link = excluded.link, lost_at = NULL
             WHERE NOT EXISTS (SELECT 1 FROM upstream u WHERE u.agent = agent.id AND u.removed_at IS NULL)",
            named_params! {
                ":provider": Key(provider), ":name": agent.name.as_str(), ":registration": agent.text,
                ":interjections": i64::from(agent.interjections), ":link": link.0,
            },
        )? > 0)
    }

    pub(crate) fn clear_roster(&self, link: LinkId, now: Moment) -> Result<(), Fault> {
        // clear roster: the new list replaces the old one
        self.change(
            "UPDATE agent SET link = NULL, lost_at = :now WHERE link = :link",
            named_params! {":now": secs(now), ":link": link.0},
        )?;
        Ok(())
    }

    pub(crate) fn agents_of(&self, provider: PublicKey) -> Result<u64, Fault> {
        // agents of a provider
        self.one(
            "SELECT count(*) AS n FROM agent WHERE provider = :provider",
            named_params! {":provider": Key(provider)},
            |row| number(row, "n"),
        )
    }

    pub(crate) fn forget_unused(&self, provider: PublicKey) -> Result<(), Fault> {
        // forget unused: on no roster, and nothing ever ran under it
        self.change(
            "DELETE FROM agent WHERE provider = :provider AND link IS NULL
               AND NOT EXISTS (SELECT 1 FROM upstream WHERE upstream.agent = agent.id)
               AND NOT EXISTS (SELECT 1 FROM thread WHERE thread.agent = agent.id)",
            named_params! {":provider": Key(provider)},
        )?;
        Ok(())
    }

    /// False if the agent has history: an address that runs name is never freed.
    pub(crate) fn delete_agent(&self, id: &AgentId) -> Result<bool, Fault> {
        // delete agent
        Ok(self.change(
            "DELETE FROM agent WHERE provider = :provider AND name = :name
               AND NOT EXISTS (SELECT 1 FROM upstream WHERE upstream.agent = agent.id)
               AND NOT EXISTS (SELECT 1 FROM thread WHERE thread.agent = agent.id)",
            named_params! {":provider": Key(id.provider), ":name": id.name.as_str()},
        )? > 0)
    }
}
