//! The tables of both roles, and how older ones become them.
//!
//! The text is SQLite's; PostgreSQL knows BLOB and INTEGER as BYTEA and BIGINT. A row of
//! `agent_version` says which migrations a database has seen. Texts of released versions never
//! change: what is new is another migration.

use super::link::{Access, Link};
use super::{StoreError, Value};

/// Each makes the next version of the schema, from 1 on.
const MIGRATIONS: [&str; 4] = [HOST, TARGET, REFUSALS, PPKS];

/// Step 1 in time: Host's keys. `taken_at` stays when a key is used, and tells how old its answer
/// is.
const HOST: &str = "
CREATE TABLE agent_keys (
    handle BLOB NOT NULL PRIMARY KEY CHECK (length(handle) = 16),
    user_id TEXT NOT NULL,
    half_kind TEXT NOT NULL CHECK (half_kind IN ('public', 'shared')),
    half BLOB NOT NULL CHECK (length(half) = 32),
    not_after INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('valid', 'taken', 'used', 'failed', 'revoked')),
    request BLOB CHECK (length(request) = 32),
    taken_at INTEGER,
    answer BLOB,
    CHECK ((request IS NULL) = (state IN ('valid', 'revoked'))),
    CHECK (state <> 'taken' OR taken_at IS NOT NULL),
    CHECK (state = 'used' OR answer IS NULL)
) STRICT;
CREATE INDEX agent_keys_by_state ON agent_keys (state, taken_at);
CREATE INDEX agent_keys_by_user ON agent_keys (user_id);
";

/// Target's members with their line of the access list, their enrolled keys, and spent keys with
/// the tunnels that they have made.
const TARGET: &str = "
CREATE TABLE agent_members (
    user_id TEXT NOT NULL,
    host TEXT NOT NULL,
    options INTEGER NOT NULL,
    networks TEXT NOT NULL,
    lifetime_s INTEGER NOT NULL,
    demands_enrolled INTEGER NOT NULL CHECK (demands_enrolled IN (0, 1)),
    PRIMARY KEY (user_id, host)
) STRICT;
CREATE TABLE agent_enrolled (
    user_id TEXT NOT NULL,
    host TEXT NOT NULL,
    key_digest BLOB NOT NULL CHECK (length(key_digest) = 32),
    PRIMARY KEY (user_id, host, key_digest),
    FOREIGN KEY (user_id, host) REFERENCES agent_members (user_id, host) ON DELETE CASCADE
) STRICT;
CREATE TABLE agent_spent (
    key_digest BLOB NOT NULL PRIMARY KEY CHECK (length(key_digest) = 32),
    handle BLOB NOT NULL CHECK (length(handle) = 16),
    target BLOB NOT NULL CHECK (length(target) = 16),
    tunnel BLOB NOT NULL UNIQUE CHECK (length(tunnel) = 16),
    client_identity TEXT NOT NULL,
    ends_at INTEGER NOT NULL,
    public_half BLOB NOT NULL CHECK (length(public_half) = 32),
    request BLOB NOT NULL,
    signature BLOB NOT NULL CHECK (length(signature) = 64),
    has_arrived INTEGER NOT NULL CHECK (has_arrived IN (0, 1)),
    has_ended INTEGER NOT NULL CHECK (has_ended IN (0, 1))
) STRICT;
CREATE INDEX agent_spent_by_target ON agent_spent (target, has_ended);
";

/// Requests that were refused while their key was valid, 32 octets each, and how many of them named
/// a wrong user.
const REFUSALS: &str = "
ALTER TABLE agent_keys ADD COLUMN refused BLOB;
ALTER TABLE agent_keys ADD COLUMN wrong_users INTEGER NOT NULL DEFAULT 0;
";

/// What a key gives for its tunnel's PPK. The database itself has it no longer than the key is
/// valid.
const PPKS: &str = "
ALTER TABLE agent_keys ADD COLUMN ppk BLOB
    CHECK (ppk IS NULL OR (length(ppk) = 32 AND state = 'valid'));
";

/// The version that this program reads and writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// Brings the tables to our version, in one transaction.
pub(super) async fn migrate(link: &mut Link) -> Result<(), StoreError> {
    if version(link).await? == VERSION {
        return Ok(());
    }
    link.begin(Access::Writes).await?;
    link.alone().await?;
    // Another process may have done it meanwhile.
    let found = version(link).await?;
    if found == 0 {
        link.demand_empty().await?;
        let table = "CREATE TABLE agent_version (version INTEGER NOT NULL PRIMARY KEY) STRICT";
        link.define(table).await?;
    }
    let done = usize::try_from(found).unwrap_or(MIGRATIONS.len());
    for (text, number) in MIGRATIONS.iter().zip(1..).skip(done) {
        link.define(text).await?;
        let insert = "INSERT INTO agent_version (version) VALUES ($1)";
        link.change(insert, &[Value::Number(number)]).await?;
    }
    link.commit().await
}

/// Refuses tables of another version: somebody has migrated them since they were opened.
pub(super) async fn check(link: &mut Link) -> Result<(), StoreError> {
    match version(link).await? {
        VERSION => Ok(()),
        _ => Err(StoreError::Damaged("its tables are of an earlier version")),
    }
}

/// 0: there are no tables.
async fn version(link: &mut Link) -> Result<i64, StoreError> {
    if !link.has_table("agent_version").await? {
        return Ok(0);
    }
    let query = "SELECT coalesce(max(version), 0) FROM agent_version";
    let rows = link.rows(query, &[]).await?;
    let found = rows.into_iter().next();
    let found = found.map_or(Ok(0), |mut row| row.number())?;
    let known = VERSION;
    match (0..=known).contains(&found) {
        true => Ok(found),
        false => Err(StoreError::Newer { found, known }),
    }
}

impl Link {
    /// Runs the text of a schema.
    async fn define(&mut self, text: &str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(opened) => opened.run(text),
            Self::Postgres(session) => {
                let text = text.replace("BLOB", "BYTEA").replace("INTEGER", "BIGINT");
                session.run(&text.replace(" STRICT", "")).await
            }
        }
    }

    async fn has_table(&mut self, name: &str) -> Result<bool, StoreError> {
        let query = match self {
            Self::Sqlite(_) => {
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = $1"
            }
            // Where an unqualified name leads.
            Self::Postgres(_) => "SELECT count(to_regclass($1::text))",
        };
        let rows = self.rows(query, &[name.into()]).await?;
        let found = rows.into_iter().next();
        found.map_or(Ok(false), |mut row| row.is())
    }

    /// In a file, tables of others mean that it is another program's. A database of PostgreSQL may
    /// have them beside ours.
    async fn demand_empty(&mut self) -> Result<(), StoreError> {
        let Self::Sqlite(opened) = self else {
            return Ok(());
        };
        let rows = opened.rows("SELECT count(*) FROM sqlite_schema", &[])?;
        let count = rows
            .into_iter()
            .next()
            .map_or(Ok(0), |mut row| row.number())?;
        match count {
            0 => Ok(()),
            _ => Err(StoreError::Foreign(opened.path().to_owned())),
        }
    }

    /// Waits until nobody else migrates. SQLite has one writer anyway.
    async fn alone(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(_) => {
                let lock = "SELECT count(*) FROM pg_advisory_xact_lock($1)";
                self.rows(lock, &[Value::Number(MIGRATION_LOCK)])
                    .await
                    .map(drop)
            }
        }
    }
}

/// An advisory lock of PostgreSQL: the letters of "CARAVAN".
const MIGRATION_LOCK: i64 = 0x43_41_52_41_56_41_4e;

#[cfg(test)]
pub(super) async fn make_version(link: &mut Link, version: usize) -> Result<(), StoreError> {
    link.begin(Access::Writes).await?;
    link.define("CREATE TABLE agent_version (version INTEGER NOT NULL PRIMARY KEY) STRICT")
        .await?;
    for (text, number) in MIGRATIONS.iter().zip(1..).take(version) {
        link.define(text).await?;
        let insert = "INSERT INTO agent_version (version) VALUES ($1)";
        link.change(insert, &[Value::Number(number)]).await?;
    }
    link.commit().await
}
