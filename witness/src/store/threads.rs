//! Threads, their birth, the names clients give them, and recorded delegates.

use rusqlite::named_params;
use wikala_certs::{Moment, Revoked};
use wikala_chain::{Digest, PublicKey};

use super::{Key, Sha, Store, key, number, secs};
use crate::ids::{RunId, ThreadId};
use crate::refusal::Fault;

/// A row of `thread`.
#[derive(Debug, Clone)]
pub(crate) struct ThreadRow {
    pub(crate) id: ThreadId,
    pub(crate) agent: i64,
    pub(crate) created_at: u64,
    /// Its first run; `None` until there is one.
    pub(crate) birth: Option<RunId>,
    /// The segment head it is bound to; `None`: unbound, for ever once born.
    pub(crate) head: Option<PublicKey>,
    /// Under whose authority the first run was opened, if that was proved.
    pub(crate) opener: Option<PublicKey>,
}

/// A recorded pair delegate -> authority.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DelegateRow {
    pub(crate) revoked: bool,
    pub(crate) authority: PublicKey,
    pub(crate) expires_at: u64,
}

macro_rules! thread_where {
    ($tail:literal) => {
        concat!("SELECT id, agent, created_at, birth, head, opener FROM thread ", $tail)
    };
}

fn thread(row: &rusqlite::Row<'_>) -> rusqlite::Result<ThreadRow> {
    Ok(ThreadRow {
        id: row.get("id")?,
        agent: row.get("agent")?,
        created_at: number(row, "created_at")?,
        birth: row.get("birth")?,
        head: key(row, "head")?,
        opener: key(row, "opener")?,
    })
}

impl Store {
    pub(crate) fn thread(&self, id: &ThreadId) -> Result<Option<ThreadRow>, Fault> {
        // thread
        self.find(thread_where!("WHERE id = :id"), named_params! {":id": id}, thread)
    }

    pub(crate) fn children(&self, id: &ThreadId) -> Result<Vec<ThreadRow>, Fault> {
        // children, oldest first
        self.all(
            thread_where!("WHERE parent = :id ORDER BY (SELECT opened FROM run WHERE run.id = thread.birth), id"),
            named_params! {":id": id},
            thread,
        )
    }

    pub(crate) fn insert_thread(&self, id: &ThreadId, agent: i64, now: Moment) -> Result<(), Fault> {
        // insert thread
        self.change(
            "INSERT INTO thread (id, agent, created_at) VALUES (:id, :agent, :now)",
            named_params! {":id": id, ":agent": agent, ":now": secs(now)},
        )?;
        Ok(())
    }

    /// Binds the thread at its first run, immutably. False if it is born already.
    pub(crate) fn bear_thread(
        &self,
        id: &ThreadId,
        birth: &RunId,
        head: Option<PublicKey>,
        opener: Option<PublicKey>,
        parent: Option<&ThreadId>,
    ) -> Result<bool, Fault> {
        // bear thread: the guard is what makes a binding immutable
        let rows = self.change(
            "UPDATE thread SET birth = :birth, head = :head, opener = :opener, parent = :parent
             WHERE id = :id AND birth IS NULL",
            named_params! {
                ":id": id, ":birth": birth, ":head": head.map(Key), ":opener": opener.map(Key), ":parent": parent,
            },
        )?;
        Ok(rows > 0)
    }

    pub(crate) fn insert_actor(&self, thread: &ThreadId, key: PublicKey) -> Result<(), Fault> {
        // actor of the birth chain
        self.change(
            "INSERT OR IGNORE INTO thread_actor (thread, key) VALUES (:thread, :key)",
            named_params! {":thread": thread, ":key": Key(key)},
        )?;
        Ok(())
    }

    pub(crate) fn is_actor(&self, thread: &ThreadId, key: PublicKey) -> Result<bool, Fault> {
        // is actor
        Ok(self
            .find(
                "SELECT 1 FROM thread_actor WHERE thread = :thread AND key = :key",
                named_params! {":thread": thread, ":key": Key(key)},
                |_| Ok(()),
            )?
            .is_some())
    }

    pub(crate) fn actors(&self, thread: &ThreadId) -> Result<Vec<PublicKey>, Fault> {
        // actors
        self.all("SELECT key FROM thread_actor WHERE thread = :thread", named_params! {":thread": thread}, |row| {
            Ok(row.get::<_, Key>("key")?.0)
        })
    }

    pub(crate) fn alias(&self, agent: i64, scope: &str, name: &str) -> Result<Option<ThreadId>, Fault> {
        // alias
        self.find(
            "SELECT thread FROM alias WHERE agent = :agent AND scope = :scope AND name = :name",
            named_params! {":agent": agent, ":scope": scope, ":name": name},
            |row| row.get("thread"),
        )
    }

    pub(crate) fn insert_alias(&self, agent: i64, scope: &str, name: &str, thread: &ThreadId) -> Result<(), Fault> {
        // insert alias
        self.change(
            "INSERT INTO alias (agent, scope, name, thread) VALUES (:agent, :scope, :name, :thread)",
            named_params! {":agent": agent, ":scope": scope, ":name": name, ":thread": thread},
        )?;
        Ok(())
    }

    pub(crate) fn delegate(&self, delegate: PublicKey) -> Result<Option<DelegateRow>, Fault> {
        // delegate: revoked by its certificate's id, or with all its authority gave until then
        self.find(
            "SELECT authority, expires_at, EXISTS (SELECT 1 FROM revocation AS r
               WHERE (r.kind = 'certificate' AND r.target = d.certificate)
                  OR (r.kind = 'authority' AND r.target = d.authority AND r.revoked_at >= d.recorded_at)) AS revoked
             FROM delegate AS d WHERE delegate = :delegate",
            named_params! {":delegate": Key(delegate)},
            |row| {
                Ok(DelegateRow {
                    authority: row.get::<_, Key>("authority")?.0,
                    expires_at: number(row, "expires_at")?,
                    revoked: row.get::<_, i64>("revoked")? != 0,
                })
            },
        )
    }

    /// A certificate that was revoked by its id.
    pub(crate) fn certificate_is_revoked(&self, id: Digest) -> Result<bool, Fault> {
        // certificate is revoked
        Ok(self
            .find(
                "SELECT 1 FROM revocation WHERE kind = 'certificate' AND target = :id",
                named_params! {":id": Sha(id)},
                |_| Ok(()),
            )?
            .is_some())
    }

    /// An authority that revoked what it had given.
    pub(crate) fn authority_revoked(&self, authority: PublicKey) -> Result<bool, Fault> {
        // authority revoked
        Ok(self
            .find(
                "SELECT 1 FROM revocation WHERE kind = 'authority' AND target = :key",
                named_params! {":key": Key(authority)},
                |_| Ok(()),
            )?
            .is_some())
    }

    /// The latest time counts: an authority may revoke again.
    pub(crate) fn revoke(&self, target: Revoked, signer: PublicKey, now: Moment) -> Result<(), Fault> {
        let (kind, bytes) = match &target {
            Revoked::Certificate(id) => ("certificate", id.as_bytes().to_vec()),
            Revoked::Authority(key) => ("authority", key.as_bytes().to_vec()),
        };
        // revoke
        self.change(
            "INSERT INTO revocation (kind, target, revoked_at, signer) VALUES (:kind, :target, :now, :signer)
             ON CONFLICT (kind, target) DO UPDATE SET revoked_at = max(revoked_at, excluded.revoked_at)",
            named_params! {":kind": kind, ":target": bytes, ":now": secs(now), ":signer": Key(signer)},
        )?;
        Ok(())
    }

    /// The authority itself gave it after it had revoked what it gave before.
    pub(crate) fn renew_delegate(&self, delegate: PublicKey, now: Moment) -> Result<(), Fault> {
        // renew delegate: a second after the revocation, which counts up to its own second
        self.change(
            "UPDATE delegate SET recorded_at = max(:now, coalesce((SELECT revoked_at + 1 FROM revocation AS r
               WHERE r.kind = 'authority' AND r.target = delegate.authority), 0)) WHERE delegate = :delegate",
            named_params! {":delegate": Key(delegate), ":now": secs(now)},
        )?;
        Ok(())
    }

    /// False if the delegate is on record under another authority, or if the pair would
    /// make a second level: a key is a delegate or has delegates, never both.
    pub(crate) fn record_delegate(
        &self,
        delegate: PublicKey,
        authority: PublicKey,
        certificate: Digest,
        expires_at: u64,
        now: Moment,
    ) -> Result<bool, Fault> {
        // record delegate: never re-bound; the same pair keeps its latest expiry
        let rows = self.change(
            "INSERT INTO delegate (delegate, authority, recorded_at, certificate, expires_at)
             SELECT :delegate, :authority, :now, :certificate, :expires_at
             WHERE NOT EXISTS (SELECT 1 FROM delegate AS other
               WHERE other.authority = :delegate OR other.delegate = :authority)
             ON CONFLICT (delegate) DO UPDATE SET
               certificate = CASE WHEN excluded.expires_at > expires_at THEN excluded.certificate ELSE certificate END,
               expires_at = max(expires_at, excluded.expires_at)
             WHERE authority = excluded.authority",
            named_params! {
                ":delegate": Key(delegate), ":authority": Key(authority), ":now": secs(now),
                ":certificate": Sha(certificate), ":expires_at": i64::try_from(expires_at).unwrap_or(i64::MAX),
            },
        )?;
        Ok(rows > 0)
    }
}
