//! One connection to either database. SQL is written once, in words that both know; what differs
//! is replaced by the file of the database.

use super::StoreError;
use super::postgres::Session;
use super::sqlite::Opened;
use super::value::{Row, Value};

/// One connection.
pub(super) enum Link {
    Sqlite(Opened),
    Postgres(Session),
}

/// What a transaction does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It waits for nobody, and nobody waits for it.
    Reads,
    /// One at a time in SQLite. In PostgreSQL, rows that are read `FOR UPDATE` are locked.
    Writes,
}

impl Link {
    /// Whether it leads where it was opened, as far as that is known without asking.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::Sqlite(opened) => opened.is_in_place(),
            Self::Postgres(session) => !session.is_closed(),
        }
    }

    pub(super) async fn begin(&mut self, access: Access) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(opened) => opened.run(match access {
                Access::Reads => "BEGIN DEFERRED",
                Access::Writes => "BEGIN IMMEDIATE",
            }),
            Self::Postgres(session) => {
                // What is read is locked first, so this isolation suffices, whatever is the
                // server's default, and nobody must try again.
                let text = match access {
                    Access::Reads => "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
                    Access::Writes => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
                };
                session.run(text).await
            }
        }
    }

    /// What was written survives a loss of power once this returns.
    pub(super) async fn commit(&mut self) -> Result<(), StoreError> {
        self.run("COMMIT").await
    }

    pub(super) async fn roll_back(&mut self) -> Result<(), StoreError> {
        self.run("ROLLBACK").await
    }

    /// Runs statements without parameters.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(opened) => opened.run(sql),
            Self::Postgres(session) => session.run(sql).await,
        }
    }

    /// The rows of a query. Parameters are `$1`, `$2` and so on.
    pub(super) async fn rows(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        match self {
            Self::Sqlite(opened) => opened.rows(sql, values),
            Self::Postgres(session) => session.rows(sql, values).await,
        }
    }

    /// Changes rows, and returns how many.
    pub(super) async fn change(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(opened) => opened.change(sql, values),
            Self::Postgres(session) => session.change(sql, values).await,
        }
    }
}
