//! Runs: every move stands in one statement, and its guard names the statuses
//! the move may start from.

use rusqlite::{Row, named_params};
use wikala_certs::Moment;
use wikala_chain::{Digest, PublicKey};

use super::{Key, Sha, Store, key, maybe, number, secs, sha};
use crate::entry::Why;
use crate::ids::{RunId, ThreadId};
use crate::model::{Dialect, Leg, LinkId, ReplyItem, Status, Words};
use crate::refusal::Fault;

/// A row of `run`.
#[derive(Debug, Clone)]
pub(crate) struct RunRow {
    pub(crate) id: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) agent: i64,
    pub(crate) created_at: u64,
    pub(crate) head: Option<PublicKey>,
    pub(crate) opener: Option<PublicKey>,
    pub(crate) chain: Option<String>,
    pub(crate) delivered_tip: Option<Digest>,
    pub(crate) delegation: Option<String>,
    pub(crate) vouchers: Option<String>,
    pub(crate) addressed: Option<String>,
    pub(crate) parent_run: Option<String>,
    pub(crate) client_run: Option<String>,
    pub(crate) client_thread: Option<String>,
    pub(crate) body_digest: Option<Digest>,
    pub(crate) opened: i64,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
    pub(crate) reason_by_provider: bool,
    pub(crate) changed_at: u64,
    pub(crate) leg: u64,
    pub(crate) link: Option<LinkId>,
    pub(crate) link_seq: u64,
    pub(crate) cancel_requested: bool,
    pub(crate) started_at: Option<u64>,
    pub(crate) ended_at: Option<u64>,
    pub(crate) ended: Option<i64>,
    /// The entry that says how its newest ask was answered.
    pub(crate) continued: Option<u64>,
}

macro_rules! run_where {
    ($tail:literal) => {
        concat!("SELECT run.* FROM run ", $tail)
    };
}
pub(crate) use run_where;

pub(crate) fn run(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        id: row.get("id")?,
        thread: row.get("thread")?,
        agent: row.get("agent")?,
        created_at: number(row, "created_at")?,
        head: key(row, "head")?,
        opener: key(row, "opener")?,
        chain: row.get("chain")?,
        delivered_tip: sha(row, "delivered_tip")?,
        delegation: row.get("delegation")?,
        vouchers: row.get("vouchers")?,
        addressed: row.get("addressed")?,
        parent_run: row.get("parent_run")?,
        client_run: row.get("client_run")?,
        client_thread: row.get("client_thread")?,
        body_digest: sha(row, "body_digest")?,
        opened: row.get("opened")?,
        status: row.get("status")?,
        reason: row.get("reason")?,
        reason_by_provider: row.get::<_, i64>("reason_by_provider")? != 0,
        changed_at: number(row, "changed_at")?,
        leg: number(row, "leg")?,
        link: row.get::<_, Option<i64>>("link")?.map(LinkId),
        link_seq: number(row, "link_seq")?,
        cancel_requested: row.get::<_, i64>("cancel_requested")? != 0,
        started_at: maybe(row, "started_at")?,
        ended_at: maybe(row, "ended_at")?,
        ended: row.get("ended")?,
        continued: maybe(row, "continued")?,
    })
}

/// What a new run is written with.
pub(crate) struct NewRun<'a> {
    pub(crate) id: &'a RunId,
    pub(crate) thread: &'a ThreadId,
    pub(crate) agent: i64,
    pub(crate) head: Option<PublicKey>,
    pub(crate) opener: Option<PublicKey>,
    pub(crate) opener_authority: Option<PublicKey>,
    pub(crate) chain: Option<&'a str>,
    pub(crate) caller_tip: Option<Digest>,
    pub(crate) witness_tip: Option<Digest>,
    pub(crate) delivered_tip: Option<Digest>,
    pub(crate) delegation: Option<&'a str>,
    pub(crate) vouchers: Option<&'a str>,
    pub(crate) addressed: Option<&'a str>,
    pub(crate) reference: Option<&'a str>,
    pub(crate) parent_run: Option<&'a str>,
    pub(crate) client_run: Option<&'a str>,
    pub(crate) client_thread: Option<&'a str>,
    pub(crate) body_digest: Option<Digest>,
    pub(crate) opened: i64,
}

impl Store {
    pub(crate) fn run(&self, id: &RunId) -> Result<Option<RunRow>, Fault> {
        // run
        self.find(run_where!("WHERE id = :id"), named_params! {":id": id}, run)
    }

    pub(crate) fn insert_run(&self, new: &NewRun<'_>, now: Moment) -> Result<(), Fault> {
        // insert run
        self.change(
            "INSERT INTO run (id, thread, agent, created_at, head, opener, opener_authority, chain, caller_tip,
               witness_tip, delivered_tip, delegation, vouchers, addressed, reference, parent_run, client_run,
               client_thread, body_digest, opened, status, changed_at, position, queued_at)
             VALUES (:id, :thread, :agent, :now, :head, :opener, :opener_authority, :chain, :caller_tip,
               :witness_tip, :delivered_tip, :delegation, :vouchers, :addressed, :reference, :parent_run, :client_run,
               :client_thread, :body_digest, :opened, 'queued', :now, :opened, :now)",
            named_params! {
                ":id": new.id, ":thread": new.thread, ":agent": new.agent, ":now": secs(now),
                ":head": new.head.map(Key), ":opener": new.opener.map(Key),
                ":opener_authority": new.opener_authority.map(Key), ":chain": new.chain,
                ":caller_tip": new.caller_tip.map(Sha), ":witness_tip": new.witness_tip.map(Sha),
                ":delivered_tip": new.delivered_tip.map(Sha), ":delegation": new.delegation,
                ":vouchers": new.vouchers, ":addressed": new.addressed, ":reference": new.reference,
                ":parent_run": new.parent_run, ":client_run": new.client_run,
                ":client_thread": new.client_thread, ":body_digest": new.body_digest.map(Sha), ":opened": new.opened,
            },
        )?;
        Ok(())
    }

    pub(crate) fn client_run(&self, thread: &ThreadId, client_run: &str) -> Result<Option<RunRow>, Fault> {
        // run by the client's own id
        self.find(
            run_where!("WHERE thread = :thread AND client_run = :client_run"),
            named_params! {":thread": thread, ":client_run": client_run},
            run,
        )
    }

    pub(crate) fn waiting_for_a_turn(&self, thread: &ThreadId) -> Result<u64, Fault> {
        // queued and offering runs of a thread
        self.one(
            "SELECT count(*) AS n FROM run WHERE thread = :thread AND status IN ('queued', 'offering')",
            named_params! {":thread": thread},
            |row| number(row, "n"),
        )
    }

    pub(crate) fn insert_leg(&self, run: &RunId, leg: &Leg) -> Result<(), Fault> {
        let reply = leg.reply.as_ref().map(|items| serde_json::to_string(items).unwrap_or_default());
        let extensions =
            (!leg.extensions.is_empty()).then(|| serde_json::to_string(&leg.extensions).unwrap_or_default());
        // insert leg
        self.change(
            "INSERT INTO leg (run, ordinal, dialect, words, extensions, reply)
             VALUES (:run, :ordinal, :dialect, :words, :extensions, :reply)",
            named_params! {
                ":run": run, ":ordinal": leg.ordinal as i64, ":dialect": leg.words.dialect.as_str(),
                ":words": &*leg.words.text, ":extensions": extensions, ":reply": reply,
            },
        )?;
        Ok(())
    }

    pub(crate) fn legs(&self, run: &RunId) -> Result<Vec<Leg>, Fault> {
        // legs
        self.all(
            "SELECT ordinal, dialect, words, extensions, reply FROM leg WHERE run = :run ORDER BY ordinal",
            named_params! {":run": run},
            |row| {
                let reply: Option<Vec<ReplyItem>> = listed(row, "reply")?;
                Ok(Leg {
                    ordinal: number(row, "ordinal")?,
                    words: Words {
                        dialect: Dialect::parse(&row.get::<_, String>("dialect")?)
                            .ok_or(rusqlite::Error::InvalidQuery)?,
                        text: row.get::<_, String>("words")?.into(),
                    },
                    extensions: listed(row, "extensions")?.unwrap_or_default(),
                    reply,
                })
            },
        )
    }

    /// The next run a provider may be offered on a link: in queue order, one
    /// active run a thread; a declared interjection joins its live turn.
    pub(crate) fn next_offer(&self, provider: PublicKey, link: LinkId, now: Moment) -> Result<Option<RunRow>, Fault> {
        // next offer: the id first, whole rows are not sorted
        self.find(
            run_where!(
                "WHERE id = (SELECT q.id FROM agent JOIN run AS q ON q.agent = agent.id
                 WHERE agent.provider = :provider AND agent.link = :link AND q.status = 'queued'
                   AND q.retry_at <= :now
                   AND (NOT EXISTS (SELECT 1 FROM run AS active WHERE active.thread = q.thread
                          AND (active.status IN ('offering', 'running', 'cancelling') OR active.held = 1))
                     OR (q.addressed IS NOT NULL AND agent.interjections = 1
                       AND EXISTS (SELECT 1 FROM run AS live WHERE live.id = q.addressed
                         AND live.thread = q.thread AND live.status IN ('running', 'cancelling'))))
                 ORDER BY q.position LIMIT 1)"
            ),
            named_params! {":provider": Key(provider), ":link": link.0, ":now": secs(now)},
            run,
        )
    }

    pub(crate) fn offers_out(&self, link: LinkId) -> Result<u64, Fault> {
        // offers without a verdict
        self.one(
            "SELECT count(*) AS n FROM run WHERE link = :link AND status = 'offering'",
            named_params! {":link": link.0},
            |row| number(row, "n"),
        )
    }

    pub(crate) fn waiting_at_agent(&self, agent: i64) -> Result<u64, Fault> {
        // queued runs of an agent
        self.one(
            "SELECT count(*) AS n FROM run WHERE agent = :agent AND status = 'queued'",
            named_params! {":agent": agent},
            |row| number(row, "n"),
        )
    }

    pub(crate) fn load_on_link(&self, link: LinkId) -> Result<u64, Fault> {
        // load on link: offered, or taken and not finished
        self.one(
            "SELECT count(*) AS n FROM run WHERE link = :link AND (status = 'offering' OR held = 1)",
            named_params! {":link": link.0},
            |row| number(row, "n"),
        )
    }

    pub(crate) fn offer(&self, id: &RunId, link: LinkId, now: Moment) -> Result<bool, Fault> {
        // offer
        Ok(self.change(
            "UPDATE run SET status = 'offering', link = :link, offered_at = :now, changed_at = :now
             WHERE id = :id AND status = 'queued'",
            named_params! {":id": id, ":link": link.0, ":now": secs(now)},
        )? > 0)
    }

    /// False: a late verdict, which matches nothing.
    pub(crate) fn claim(&self, id: &RunId, link: LinkId, now: Moment) -> Result<bool, Fault> {
        // claim
        Ok(self.change(
            "UPDATE run SET status = CASE cancel_requested WHEN 1 THEN 'cancelling' ELSE 'running' END,
               held = 1, link_seq = 0, settled_at = NULL, offered_at = NULL, started_at = coalesce(started_at, :now), changed_at = :now
             WHERE id = :id AND status = 'offering' AND link = :link",
            named_params! {":id": id, ":link": link.0, ":now": secs(now)},
        )? > 0)
    }

    /// Back into the queue after a decline, a silence or a lost link.
    pub(crate) fn requeue(&self, id: &RunId, link: LinkId, retry_at: u64, now: Moment) -> Result<bool, Fault> {
        // requeue
        Ok(self.change(
            "UPDATE run SET status = 'queued', link = NULL, offered_at = NULL, retry_at = :retry_at, changed_at = :now
             WHERE id = :id AND status = 'offering' AND link = :link",
            named_params! {":id": id, ":link": link.0, ":retry_at": retry_at as i64, ":now": secs(now)},
        )? > 0)
    }

    pub(crate) fn retry_now(&self, provider: PublicKey) -> Result<(), Fault> {
        // retry now: something changed at this provider
        self.change(
            "UPDATE run SET retry_at = 0 WHERE status = 'queued' AND retry_at > 0
               AND agent IN (SELECT id FROM agent WHERE provider = :provider)",
            named_params! {":provider": Key(provider)},
        )?;
        Ok(())
    }

    pub(crate) fn pause(&self, id: &RunId, now: Moment) -> Result<bool, Fault> {
        // pause
        Ok(self.change(
            "UPDATE run SET status = 'input-required', changed_at = :now, settled_at = :now
             WHERE id = :id AND status IN ('running', 'cancelling')",
            named_params! {":id": id, ":now": secs(now)},
        )? > 0)
    }

    /// reopen: false means someone answered first.
    pub(crate) fn reopen(&self, id: &RunId, leg: u64, position: i64, now: Moment) -> Result<bool, Fault> {
        // reopen
        Ok(self.change(
            "UPDATE run SET status = 'queued', leg = leg + 1, position = :position, queued_at = :now, retry_at = 0,
               cancel_requested = 0, changed_at = :now
             WHERE id = :id AND status = 'input-required' AND leg = :leg",
            named_params! {":id": id, ":leg": leg as i64, ":position": position, ":now": secs(now)},
        )? > 0)
    }

    /// The provider goes on by itself after a pause.
    pub(crate) fn go_on(&self, id: &RunId, link: LinkId, now: Moment) -> Result<bool, Fault> {
        // go on: not beside another active run of the thread
        Ok(self.change(
            "UPDATE run SET status = 'running', leg = leg + 1, link = :link, held = 1, settled_at = NULL,
               lease_until = NULL, cancel_requested = 0, changed_at = :now
             WHERE id = :id AND status = 'input-required'
               AND NOT EXISTS (SELECT 1 FROM run AS active WHERE active.thread = run.thread AND active.id <> run.id
                 AND (active.status IN ('offering', 'running', 'cancelling') OR active.held = 1))",
            named_params! {":id": id, ":link": link.0, ":now": secs(now)},
        )? > 0)
    }

    pub(crate) fn request_cancel(&self, id: &RunId, now: Moment) -> Result<bool, Fault> {
        // request cancel: of an offered run it waits for the verdict
        Ok(self.change(
            "UPDATE run SET cancel_requested = 1, changed_at = :now,
               status = CASE status WHEN 'running' THEN 'cancelling' ELSE status END
             WHERE id = :id AND status IN ('offering', 'running', 'cancelling')",
            named_params! {":id": id, ":now": secs(now)},
        )? > 0)
    }

    /// Ends a run from one of the statuses the move allows.
    pub(crate) fn end(&self, id: &RunId, status: Status, reason: Option<Why<'_>>, now: Moment) -> Result<bool, Fault> {
        // end: completed only by what ran, cancelled and failed from anything open
        Ok(self.change(
            "UPDATE run SET status = :status, reason = :reason, reason_by_provider = :theirs, ended_at = :now, changed_at = :now,
               settled_at = :now, offered_at = NULL
             WHERE id = :id AND CASE :status
               WHEN 'completed' THEN status IN ('running', 'cancelling')
               WHEN 'cancelled' THEN status IN ('queued', 'offering', 'running', 'cancelling', 'input-required')
               WHEN 'failed' THEN status NOT IN ('completed', 'failed', 'cancelled') END",
            named_params! {
                ":id": id, ":status": status, ":reason": reason.map(Why::text),
                ":theirs": i64::from(matches!(reason, Some(Why::Theirs(_)))), ":now": secs(now),
            },
        )? > 0)
    }

    /// Where in the record the run ended; `onward` counts up to here.
    pub(crate) fn set_ended(&self, id: &RunId, entry: i64) -> Result<(), Fault> {
        // ended at
        self.change(
            "UPDATE run SET ended = :entry WHERE id = :id AND ended IS NULL",
            named_params! {":id": id, ":entry": entry},
        )?;
        Ok(())
    }

    /// Where in its own record the run's newest continuation begins.
    pub(crate) fn set_continued(&self, id: &RunId, seq: u64) -> Result<(), Fault> {
        // continued at
        self.change("UPDATE run SET continued = :seq WHERE id = :id", named_params! {":id": id, ":seq": seq as i64})?;
        Ok(())
    }

    pub(crate) fn release(&self, id: &RunId) -> Result<(), Fault> {
        // release: the provider's slot and the thread's turn are free
        self.change(
            "UPDATE run SET held = 0, link = NULL, lease_until = NULL WHERE id = :id",
            named_params! {":id": id},
        )?;
        Ok(())
    }

    pub(crate) fn lease_runs_of(&self, link: LinkId, until: u64) -> Result<(), Fault> {
        // lease: a blip is not a death
        self.change(
            "UPDATE run SET lease_until = :until WHERE link = :link AND held = 1",
            named_params! {":link": link.0, ":until": until as i64},
        )?;
        Ok(())
    }

    pub(crate) fn offered_on(&self, link: LinkId) -> Result<Vec<RunId>, Fault> {
        // offered on a link
        self.all(
            "SELECT id FROM run WHERE link = :link AND status = 'offering'",
            named_params! {":link": link.0},
            |row| row.get("id"),
        )
    }

    /// A re-attached provider names the run again: its lease ends well.
    pub(crate) fn take_over(&self, id: &RunId, link: LinkId) -> Result<bool, Fault> {
        // take over
        Ok(self.change(
            "UPDATE run SET link = :link, lease_until = NULL
             WHERE id = :id AND held = 1 AND (lease_until IS NOT NULL OR link = :link)",
            named_params! {":id": id, ":link": link.0},
        )? > 0)
    }

    /// As [`Store::take_over`], for words: only a run under way has more to say.
    pub(crate) fn hear(&self, id: &RunId, link: LinkId) -> Result<bool, Fault> {
        // hear
        Ok(self.change(
            "UPDATE run SET link = :link, lease_until = NULL
             WHERE id = :id AND held = 1 AND (lease_until IS NOT NULL OR link = :link)
               AND status IN ('running', 'cancelling')",
            named_params! {":id": id, ":link": link.0},
        )? > 0)
    }

    /// Counts what a run put on record; the sum so far.
    pub(crate) fn count_said(&self, id: &RunId, bytes: usize) -> Result<u64, Fault> {
        // count said
        self.one(
            "UPDATE run SET said_bytes = said_bytes + :bytes WHERE id = :id RETURNING said_bytes",
            named_params! {":id": id, ":bytes": i64::try_from(bytes).unwrap_or(i64::MAX)},
            |row| number(row, "said_bytes"),
        )
    }

    pub(crate) fn set_link_seq(&self, id: &RunId, seq: u64) -> Result<(), Fault> {
        // link sequence
        self.change(
            "UPDATE run SET link_seq = :seq WHERE id = :id",
            named_params! {":id": id, ":seq": i64::try_from(seq).unwrap_or(i64::MAX)},
        )?;
        Ok(())
    }

    pub(crate) fn silent_offers(&self, offered_before: u64) -> Result<Vec<RunRow>, Fault> {
        // offers nobody answered in time
        self.all(
            run_where!("WHERE status = 'offering' AND offered_at <= :before"),
            named_params! {":before": offered_before as i64},
            run,
        )
    }

    pub(crate) fn ended_leases(&self, now: Moment) -> Result<Vec<RunRow>, Fault> {
        // leases that ran out
        self.all(
            run_where!("WHERE lease_until IS NOT NULL AND lease_until <= :now"),
            named_params! {":now": secs(now)},
            run,
        )
    }

    /// Ends the lease: false means the provider came back first.
    pub(crate) fn end_lease(&self, id: &RunId, now: Moment) -> Result<bool, Fault> {
        // end lease
        Ok(self.change(
            "UPDATE run SET held = 0, link = NULL, lease_until = NULL
             WHERE id = :id AND lease_until IS NOT NULL AND lease_until <= :now",
            named_params! {":id": id, ":now": secs(now)},
        )? > 0)
    }

    pub(crate) fn unserved(&self, before: u64) -> Result<Vec<RunRow>, Fault> {
        // queued runs whose agent is on no live roster, and has not been for long
        self.all(
            run_where!(
                "JOIN agent ON agent.id = run.agent JOIN provider ON provider.key = agent.provider
                 WHERE run.status = 'queued' AND run.queued_at <= :before
                   AND (agent.link IS NULL OR provider.withdrawn = 1) AND coalesce(agent.lost_at, 0) <= :before"
            ),
            named_params! {":before": before as i64},
            run,
        )
    }

    /// Every other change offers by itself; a retry becomes due by time alone.
    pub(crate) fn due_providers(&self, now: Moment) -> Result<Vec<PublicKey>, Fault> {
        // providers with a declined run that may be offered again
        self.all(
            "SELECT DISTINCT agent.provider FROM run JOIN agent ON agent.id = run.agent
             WHERE run.status = 'queued' AND run.retry_at > 0 AND run.retry_at <= :now AND agent.link IS NOT NULL",
            named_params! {":now": secs(now)},
            |row| Ok(row.get::<_, Key>("provider")?.0),
        )
    }

    pub(crate) fn unfinished(&self, settled_before: u64) -> Result<Vec<RunRow>, Fault> {
        // settled runs whose provider never said finish
        self.all(
            run_where!("WHERE held = 1 AND settled_at IS NOT NULL AND settled_at <= :before"),
            named_params! {":before": settled_before as i64},
            run,
        )
    }

    pub(crate) fn restart(&self, lease_until: u64, now: Moment) -> Result<(), Fault> {
        // restart: offers are open again, what was taken keeps a lease
        self.change(
            "UPDATE run SET status = 'queued', link = NULL, offered_at = NULL, retry_at = 0, changed_at = :now
             WHERE status = 'offering'",
            named_params! {":now": secs(now)},
        )?;
        self.change(
            "UPDATE run SET lease_until = :until WHERE held = 1",
            named_params! {":until": lease_until as i64},
        )?;
        Ok(())
    }

    pub(crate) fn postpone(&self, seconds: u64) -> Result<(), Fault> {
        // postpone every deadline
        self.change(
            "UPDATE run SET offered_at = offered_at + :seconds, lease_until = lease_until + :seconds,
               settled_at = CASE held WHEN 1 THEN settled_at + :seconds ELSE settled_at END,
               queued_at = CASE status WHEN 'queued' THEN queued_at + :seconds ELSE queued_at END
             WHERE held = 1 OR status IN ('queued', 'offering') OR lease_until IS NOT NULL",
            named_params! {":seconds": seconds as i64},
        )?;
        Ok(())
    }

    pub(crate) fn already_dispatched(&self, tip: Digest, provider: PublicKey) -> Result<bool, Fault> {
        // a caller chain with this tip was dispatched to this provider before
        Ok(self
            .find(
                "SELECT 1 FROM run JOIN agent ON agent.id = run.agent
                 WHERE run.caller_tip = :tip AND agent.provider = :provider LIMIT 1",
                named_params! {":tip": Sha(tip), ":provider": Key(provider)},
                |_| Ok(()),
            )?
            .is_some())
    }

    pub(crate) fn insert_flag(&self, run: &RunId, flag: &str) -> Result<(), Fault> {
        // flag
        self.change(
            "INSERT OR IGNORE INTO flag (run, flag) VALUES (:run, :flag)",
            named_params! {":run": run, ":flag": flag},
        )?;
        Ok(())
    }
}

/// A column that holds a list as JSON text, if it holds one.
fn listed<T: serde::de::DeserializeOwned>(row: &rusqlite::Row<'_>, name: &str) -> rusqlite::Result<Option<Vec<T>>> {
    let text: Option<String> = row.get(name)?;
    text.map(|text| serde_json::from_str(&text).map_err(|_| rusqlite::Error::InvalidQuery)).transpose()
}
