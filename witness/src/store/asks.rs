//! Asks with the set they were opened under, deferred calls, and the entries of
//! the record.

use rusqlite::{Row, named_params};
use wikala_certs::Moment;
use wikala_chain::{Digest, PublicKey};

use super::{Key, Sha, Store, key, maybe, number, secs, sha};
use crate::entry::{Entry, Mark, Recorded};
use crate::ids::RunId;
use crate::model::{Dialect, ItemKind, Words};
use crate::refusal::Fault;

/// A row of `ask`.
#[derive(Debug, Clone)]
pub(crate) struct AskRow {
    pub(crate) ordinal: u64,
    pub(crate) opened_at: u64,
    pub(crate) head: Option<PublicKey>,
    pub(crate) provider: Option<PublicKey>,
    pub(crate) closed_at: Option<u64>,
    pub(crate) closed_as: Option<String>,
    pub(crate) authority: Option<PublicKey>,
    pub(crate) signer: Option<PublicKey>,
    pub(crate) answer_digest: Option<Digest>,
}

/// One question of an ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemRow {
    pub(crate) id: String,
    pub(crate) kind: ItemKind,
    pub(crate) question: String,
    /// The gate's word on the schema its answer must fit, if it demands one.
    pub(crate) schema: Option<String>,
}

/// How an ask was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClosedAs {
    Answered,
    ByProvider,
    Cancelled,
    Failed,
}

impl ClosedAs {
    fn as_str(self) -> &'static str {
        match self {
            ClosedAs::Answered => "answered",
            ClosedAs::ByProvider => "by-provider",
            ClosedAs::Cancelled => "cancelled",
            ClosedAs::Failed => "failed",
        }
    }
}

/// Who closed it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Closer {
    pub(crate) authority: Option<PublicKey>,
    pub(crate) signer: Option<PublicKey>,
    pub(crate) answer: Option<Digest>,
}

fn ask(row: &Row<'_>) -> rusqlite::Result<AskRow> {
    Ok(AskRow {
        ordinal: number(row, "ordinal")?,
        opened_at: number(row, "opened_at")?,
        head: key(row, "head")?,
        provider: key(row, "provider")?,
        closed_at: maybe(row, "closed_at")?,
        closed_as: row.get("closed_as")?,
        authority: key(row, "authority")?,
        signer: key(row, "signer")?,
        answer_digest: sha(row, "answer_digest")?,
    })
}

fn kind_text(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Interrupt => "interrupt",
        ItemKind::Call => "call",
    }
}

fn recorded(row: &Row<'_>) -> rusqlite::Result<Recorded> {
    let source: String = row.get("source")?;
    let words: String = row.get("words")?;
    let entry = if source == "witness" {
        Entry::Mark(serde_json::from_str::<Mark>(&words).map_err(|_| rusqlite::Error::InvalidQuery)?)
    } else {
        let dialect = Dialect::parse(&row.get::<_, String>("dialect")?).ok_or(rusqlite::Error::InvalidQuery)?;
        Entry::Words(Words { dialect, text: words.into() })
    };
    Ok(Recorded { seq: number(row, "seq")?, at_s: number(row, "at")?, entry })
}

impl Store {
    pub(crate) fn newest_ask(&self, run: &RunId) -> Result<Option<AskRow>, Fault> {
        // newest ask
        self.find("SELECT * FROM ask WHERE run = :run ORDER BY ordinal DESC LIMIT 1", named_params! {":run": run}, ask)
    }

    pub(crate) fn asks(&self, run: &RunId) -> Result<Vec<AskRow>, Fault> {
        // asks, oldest first
        self.all("SELECT * FROM ask WHERE run = :run ORDER BY ordinal", named_params! {":run": run}, ask)
    }

    pub(crate) fn items(&self, run: &RunId, ordinal: u64) -> Result<Vec<ItemRow>, Fault> {
        // items of an ask, in the order asked
        self.all(
            "SELECT id, kind, question, schema FROM ask_item WHERE run = :run AND ordinal = :ordinal ORDER BY position",
            named_params! {":run": run, ":ordinal": ordinal as i64},
            |row| {
                let kind = if row.get::<_, String>("kind")? == "call" { ItemKind::Call } else { ItemKind::Interrupt };
                Ok(ItemRow { id: row.get("id")?, kind, question: row.get("question")?, schema: row.get("schema")? })
            },
        )
    }

    pub(crate) fn insert_ask(
        &self,
        run: &RunId,
        ordinal: u64,
        set: Option<(Option<PublicKey>, PublicKey)>,
        question: Digest,
        items: &[ItemRow],
        now: Moment,
    ) -> Result<(), Fault> {
        // insert ask: the set is copied here, at the pause
        self.change(
            "INSERT INTO ask (run, ordinal, opened_at, head, provider, question_digest)
             VALUES (:run, :ordinal, :now, :head, :provider, :question)",
            named_params! {
                ":run": run, ":ordinal": ordinal as i64, ":now": secs(now),
                ":head": set.and_then(|(head, _)| head).map(Key), ":provider": set.map(|(_, provider)| Key(provider)),
                ":question": Sha(question),
            },
        )?;
        for (position, item) in items.iter().enumerate() {
            // insert ask item
            self.change(
                "INSERT INTO ask_item (run, ordinal, position, id, kind, question, schema)
                 VALUES (:run, :ordinal, :position, :id, :kind, :question, :schema)",
                named_params! {
                    ":run": run, ":ordinal": ordinal as i64, ":position": position as i64, ":id": item.id,
                    ":kind": kind_text(item.kind), ":question": item.question,
                    ":schema": item.schema,
                },
            )?;
        }
        Ok(())
    }

    /// False means it was closed before.
    pub(crate) fn close_ask(
        &self,
        run: &RunId,
        ordinal: u64,
        how: ClosedAs,
        by: Closer,
        now: Moment,
    ) -> Result<bool, Fault> {
        // close ask
        Ok(self.change(
            "UPDATE ask SET closed_at = :now, closed_as = :how, authority = :authority, signer = :signer,
               answer_digest = :answer
             WHERE run = :run AND ordinal = :ordinal AND closed_at IS NULL",
            named_params! {
                ":run": run, ":ordinal": ordinal as i64, ":now": secs(now), ":how": how.as_str(),
                ":authority": by.authority.map(Key), ":signer": by.signer.map(Key), ":answer": by.answer.map(Sha),
            },
        )? > 0)
    }

    /// `position`: where in the run's record it was announced.
    pub(crate) fn announce_call(&self, run: &RunId, id: &str, position: u64) -> Result<(), Fault> {
        // announce call: told again (a history replayed on the next leg), it stays as it was
        self.change(
            "INSERT INTO deferred_call (run, id, position)
             VALUES (:run, :id, :position) ON CONFLICT (run, id) DO NOTHING",
            named_params! {":run": run, ":id": id, ":position": position as i64},
        )?;
        Ok(())
    }

    pub(crate) fn settle_call(&self, run: &RunId, id: &str) -> Result<(), Fault> {
        // settle call
        self.change(
            "UPDATE deferred_call SET answered = 1 WHERE run = :run AND id = :id",
            named_params! {":run": run, ":id": id},
        )?;
        Ok(())
    }

    pub(crate) fn settle_all_calls(&self, run: &RunId) -> Result<(), Fault> {
        // settle all calls
        self.change(
            "UPDATE deferred_call SET answered = 1 WHERE run = :run AND answered = 0",
            named_params! {":run": run},
        )?;
        Ok(())
    }

    pub(crate) fn unanswered_calls(&self, run: &RunId) -> Result<Vec<String>, Fault> {
        // unanswered calls
        self.all(
            "SELECT id FROM deferred_call WHERE run = :run AND answered = 0 ORDER BY position",
            named_params! {":run": run},
            |row| row.get("id"),
        )
    }

    /// Appends one entry; returns its place in the whole record and the entry.
    pub(crate) fn append(&self, run: &RunId, entry: Entry, now: Moment) -> Result<(i64, Recorded), Fault> {
        let (source, dialect, text): (_, _, std::sync::Arc<str>) = match &entry {
            Entry::Words(words) => ("provider", words.dialect.as_str(), words.text.clone()),
            // A mark is plain strings and numbers: serialising it cannot fail.
            Entry::Mark(mark) => ("witness", "mark", serde_json::to_string(mark).unwrap_or_default().into()),
        };
        // append
        let (id, seq) = self.one(
            "INSERT INTO entry (run, seq, at, source, dialect, words)
             VALUES (:run, (SELECT coalesce(max(seq), 0) + 1 FROM entry WHERE run = :run), :now, :source, :dialect, :words)
             RETURNING id, seq",
            named_params! {":run": run, ":now": secs(now), ":source": source, ":dialect": dialect, ":words": &*text},
            |row| Ok((row.get::<_, i64>("id")?, number(row, "seq")?)),
        )?;
        Ok((id, Recorded { seq, at_s: now.as_secs(), entry }))
    }

    /// At most `limit`, and none after the one that fills `bytes` of words.
    pub(crate) fn entries(&self, run: &RunId, after: u64, limit: usize, bytes: usize) -> Result<Vec<Recorded>, Fault> {
        // entries after a sequence number
        let mut statement = self.db.prepare_cached(
            "SELECT seq, at, source, dialect, words FROM entry WHERE run = :run AND seq > :after ORDER BY seq LIMIT :limit",
        )?;
        let mut rows = statement.query(
            named_params! {":run": run, ":after": i64::try_from(after).unwrap_or(i64::MAX), ":limit": limit as i64},
        )?;
        let (mut entries, mut room) = (Vec::new(), bytes);
        while let Some(row) = rows.next()? {
            let entry = recorded(row)?;
            let size = if let Entry::Words(words) = &entry.entry { words.text.len() } else { 0 };
            entries.push(entry);
            if size >= room {
                break;
            }
            room -= size;
        }
        Ok(entries)
    }

    pub(crate) fn last_entry(&self, run: &RunId) -> Result<u64, Fault> {
        // last sequence number of a run
        self.one(
            "SELECT coalesce(max(seq), 0) AS seq FROM entry WHERE run = :run",
            named_params! {":run": run},
            |row| number(row, "seq"),
        )
    }

    /// The last place of the record. By its primary key: this is asked at every answer.
    pub(crate) fn record_end(&self) -> Result<i64, Fault> {
        // end of the record
        self.one("SELECT coalesce(max(id), 0) AS id FROM entry", [], |row| row.get("id"))
    }

    /// The newest time on record. Reads every entry: asked once, at the start.
    pub(crate) fn newest_time(&self) -> Result<u64, Fault> {
        // newest time
        self.one("SELECT coalesce(max(at), 0) AS at FROM entry", [], |row| number(row, "at"))
    }
}
