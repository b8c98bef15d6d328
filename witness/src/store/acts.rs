//! Spent acts and presenter proofs, cancel requests, burned tickets.

use rusqlite::named_params;
use wikala_certs::{AuthorizedDeed, Moment};
use wikala_chain::{Digest, PublicKey};

use super::{Key, Sha, Store, key, number, secs, sha};
use crate::ids::RunId;
use crate::obligation::{ObligationId, ObligationRow};
use crate::refusal::Fault;

/// An act that was used, and what for.
#[derive(Debug, Clone)]
pub(crate) struct SpentRow {
    pub(crate) purpose: String,
    pub(crate) run: RunId,
    pub(crate) leg: u64,
    pub(crate) answer_digest: Option<Digest>,
}

/// A request to stop, as recorded.
#[derive(Debug, Clone)]
pub(crate) struct CancelRow {
    pub(crate) at: u64,
    pub(crate) authority: Option<PublicKey>,
    pub(crate) signer: Option<PublicKey>,
}

impl Store {
    /// Asked under both names of who signed: between two uses of one act its signer
    /// may have become somebody's delegate on record.
    pub(crate) fn spent(
        &self,
        authority: PublicKey,
        signer: PublicKey,
        digest: Digest,
    ) -> Result<Option<SpentRow>, Fault> {
        // spent
        self.find(
            "SELECT purpose, run, leg, answer_digest FROM spent_act
             WHERE digest = :digest AND (authority = :authority OR signer = :signer)",
            named_params! {":authority": Key(authority), ":signer": Key(signer), ":digest": Sha(digest)},
            |row| {
                Ok(SpentRow {
                    purpose: row.get("purpose")?,
                    run: row.get("run")?,
                    leg: number(row, "leg")?,
                    answer_digest: sha(row, "answer_digest")?,
                })
            },
        )
    }

    /// Keyed on who signed and which bytes, never on the signature: a second
    /// signature over the same bytes is the same act.
    pub(crate) fn spend(
        &self,
        authority: PublicKey,
        signer: PublicKey,
        digest: Digest,
        on: &SpentRow,
        now: Moment,
    ) -> Result<bool, Fault> {
        // spend: 0 rows means it was spent before
        Ok(self.change(
            "INSERT INTO spent_act (authority, signer, digest, at, purpose, run, leg, answer_digest)
             VALUES (:authority, :signer, :digest, :now, :purpose, :run, :leg, :answer) ON CONFLICT DO NOTHING",
            named_params! {
                ":authority": Key(authority), ":signer": Key(signer), ":digest": Sha(digest), ":now": secs(now),
                ":purpose": on.purpose, ":run": on.run, ":leg": on.leg as i64, ":answer": on.answer_digest.map(Sha),
            },
        )? > 0)
    }

    /// As [`Store::spend`], by a deed on an obligation; what it came to is told again to who
    /// sends it again.
    pub(crate) fn spend_on_obligation(
        &self,
        right: &AuthorizedDeed,
        row: &ObligationRow,
        now: Moment,
    ) -> Result<bool, Fault> {
        // spend on obligation: 0 rows means it was spent before
        Ok(self.change(
            "INSERT INTO spent_act (authority, signer, digest, at, purpose, run, leg, result)
             VALUES (:authority, :signer, :digest, :now, :purpose, :obligation, :revision, :result) ON CONFLICT DO NOTHING",
            named_params! {
                ":authority": Key(right.authority()), ":signer": Key(right.signer()), ":digest": Sha(right.digest()),
                ":now": secs(now), ":purpose": right.deed().name(), ":obligation": row.id,
                ":revision": row.revision as i64, ":result": format!("{} {}", row.state.as_str(), row.revision),
            },
        )? > 0)
    }

    /// On which obligation a deed was spent, and what it came to. The tags of deeds and of acts
    /// on runs differ, so neither is ever found as the other.
    pub(crate) fn spent_on_obligation(
        &self,
        authority: PublicKey,
        signer: PublicKey,
        digest: Digest,
    ) -> Result<Option<(ObligationId, String)>, Fault> {
        // spent on obligation
        self.find(
            "SELECT run, result FROM spent_act
             WHERE digest = :digest AND (authority = :authority OR signer = :signer) AND result IS NOT NULL",
            named_params! {":authority": Key(authority), ":signer": Key(signer), ":digest": Sha(digest)},
            |row| Ok((row.get("run")?, row.get("result")?)),
        )
    }

    pub(crate) fn spend_presenter(&self, signer: PublicKey, digest: Digest, signed_at: u64) -> Result<bool, Fault> {
        // spend presenter: 0 rows means it was presented before
        Ok(self.change(
            "INSERT INTO presented (signer, digest, signed_at) VALUES (:signer, :digest, :signed_at)
             ON CONFLICT DO NOTHING",
            named_params! {
                ":signer": Key(signer), ":digest": Sha(digest),
                ":signed_at": i64::try_from(signed_at).unwrap_or(i64::MAX),
            },
        )? > 0)
    }

    pub(crate) fn was_presented(&self, signer: PublicKey, digest: Digest) -> Result<bool, Fault> {
        // was presented
        Ok(self
            .find(
                "SELECT 1 FROM presented WHERE signer = :signer AND digest = :digest",
                named_params! {":signer": Key(signer), ":digest": Sha(digest)},
                |_| Ok(()),
            )?
            .is_some())
    }

    pub(crate) fn prune_presented(&self, below: u64) -> Result<usize, Fault> {
        // prune presented
        self.change(
            "DELETE FROM presented WHERE signed_at < :below",
            named_params! {":below": i64::try_from(below).unwrap_or(i64::MAX)},
        )
    }

    pub(crate) fn insert_cancel_request(
        &self,
        run: &RunId,
        authority: Option<PublicKey>,
        signer: Option<PublicKey>,
        now: Moment,
    ) -> Result<(), Fault> {
        // insert cancel request
        self.change(
            "INSERT INTO cancel_request (run, at, authority, signer) VALUES (:run, :now, :authority, :signer)",
            named_params! {":run": run, ":now": secs(now), ":authority": authority.map(Key), ":signer": signer.map(Key)},
        )?;
        Ok(())
    }

    /// This authority asked for the stop that is wanted now, or anybody where nobody
    /// needs to be asked.
    pub(crate) fn asked_to_stop(&self, run: &RunId, authority: Option<PublicKey>) -> Result<bool, Fault> {
        // asked to stop
        Ok(self
            .find(
                "SELECT 1 FROM run WHERE id = :run AND cancel_requested = 1
                   AND EXISTS (SELECT 1 FROM cancel_request WHERE run = :run AND authority IS :authority)",
                named_params! {":run": run, ":authority": authority.map(Key)},
                |_| Ok(()),
            )?
            .is_some())
    }

    pub(crate) fn cancel_requests(&self, run: &RunId) -> Result<Vec<CancelRow>, Fault> {
        // cancel requests
        self.all(
            "SELECT at, authority, signer FROM cancel_request WHERE run = :run ORDER BY rowid",
            named_params! {":run": run},
            |row| {
                Ok(CancelRow { at: number(row, "at")?, authority: key(row, "authority")?, signer: key(row, "signer")? })
            },
        )
    }

    /// Burns a ticket. False: it was burned before.
    pub(crate) fn burn_ticket(&self, ticket: &str, now: Moment) -> Result<bool, Fault> {
        // burn ticket
        Ok(self.change(
            "INSERT INTO ticket (ticket, burned_at) VALUES (:ticket, :now) ON CONFLICT DO NOTHING",
            named_params! {":ticket": ticket, ":now": secs(now)},
        )? > 0)
    }

    pub(crate) fn prune_tickets(&self, below: u64) -> Result<usize, Fault> {
        // prune tickets
        self.change("DELETE FROM ticket WHERE burned_at < :below", named_params! {":below": below as i64})
    }
}
