//! SQL, and only here: one statement a function, its name as the leading
//! comment, parameters named. A guard stands in the `WHERE` and the row count
//! is the verdict, so the statements stay right with a second writer.

pub(crate) mod acts;
pub(crate) mod agents;
pub(crate) mod asks;
pub(crate) mod events;
pub(crate) mod obligations;
pub(crate) mod reads;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod threads;
pub(crate) mod upstreams;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row};
use wikala_certs::Moment;
use wikala_chain::{Digest, PublicKey};

use crate::ids::{EventId, RunId, ThreadId};
use crate::model::Status;
use crate::obligation::{ObligationId, State};
use crate::refusal::Fault;

/// One connection with the statements of this module.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) db: Connection,
}

impl Store {
    /// Rows changed: 0 means the guard said no.
    pub(crate) fn change(&self, sql: &'static str, params: impl Params) -> Result<usize, Fault> {
        Ok(self.db.prepare_cached(sql)?.execute(params)?)
    }

    /// The one row, if there is one. An error is never absence.
    pub(crate) fn find<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Fault> {
        Ok(self.db.prepare_cached(sql)?.query_row(params, read).optional()?)
    }

    /// The one row that is always there (a count, an aggregate).
    pub(crate) fn one<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Fault> {
        Ok(self.db.prepare_cached(sql)?.query_row(params, read)?)
    }

    /// All rows.
    pub(crate) fn all<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Fault> {
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map(params, read)?.collect::<rusqlite::Result<Vec<T>>>()?;
        Ok(rows)
    }

    pub(crate) fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        // meta
        self.find("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
    }

    pub(crate) fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), Fault> {
        // set meta
        self.change(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            rusqlite::params![name, value],
        )?;
        Ok(())
    }
}

/// A key column. Rows come back through the same admission as the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) PublicKey);

impl ToSql for Key {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.as_bytes().to_vec()))
    }
}

impl FromSql for Key {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes: [u8; 32] = value.as_blob()?.try_into().map_err(|_| FromSqlError::InvalidType)?;
        PublicKey::from_bytes(&bytes).map(Key).map_err(|e| FromSqlError::Other(Box::new(e)))
    }
}

/// A digest column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sha(pub(crate) Digest);

impl ToSql for Sha {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.as_bytes().to_vec()))
    }
}

impl FromSql for Sha {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes: [u8; 32] = value.as_blob()?.try_into().map_err(|_| FromSqlError::InvalidType)?;
        Ok(Sha(Digest::from_bytes(bytes)))
    }
}

macro_rules! text_column {
    ($type:ty, $parse:expr) => {
        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.as_str()))
            }
        }
        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
            }
        }
    };
}

text_column!(RunId, RunId::parse);
text_column!(ThreadId, ThreadId::parse);
text_column!(Status, Status::parse);
text_column!(EventId, EventId::parse);
text_column!(ObligationId, ObligationId::parse);
text_column!(State, State::parse);

/// Times are INTEGER seconds. A clock beyond 2^63 is no clock.
pub(crate) fn secs(at: Moment) -> i64 {
    i64::try_from(at.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn key(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<PublicKey>> {
    Ok(row.get::<_, Option<Key>>(column)?.map(|k| k.0))
}

pub(crate) fn sha(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Digest>> {
    Ok(row.get::<_, Option<Sha>>(column)?.map(|d| d.0))
}

/// A non-negative INTEGER column.
pub(crate) fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.unsigned_abs())
}

pub(crate) fn maybe(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs))
}
