//! Why a database does not do what was asked.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use engine::agent::Handle;
use tokio_postgres::error::SqlState;

use super::BUSY_MAX;

/// Signs of what PostgreSQL says that are told.
const TOLD_MAX: usize = 500;

/// Why a database does not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The words that name it are wrong.
    #[error("the database: {0}")]
    Address(String),
    /// It is another machine, and the connection would be in clear.
    #[error(
        "PostgreSQL at {0} is not on this machine, and the connection would be in clear: add \
         sslmode=verify-full to the URL"
    )]
    Clear(String),
    /// It is reached in clear, and nothing shows that it is PostgreSQL.
    #[error(
        "PostgreSQL at {0} is reached in clear, so anybody could be there: put a password into the \
         URL, which it proves to know (SCRAM), or use its Unix socket, or add sslmode=verify-full"
    )]
    Unproven(String),
    /// Somebody else listens at a socket.
    #[error(
        "user {user} listens in {}, and neither owns it nor is root: a socket in a folder of \
         PostgreSQL's own, or a password in the URL, which it proves to know (SCRAM)",
        folder.display()
    )]
    Stranger {
        /// The socket's folder.
        folder: PathBuf,
        /// Who it is.
        user: u32,
    },
    /// Nobody is there.
    #[error("PostgreSQL: error connecting to server: {0}")]
    Unreached(io::Error),
    /// It does not know yet what the primary has taken.
    #[error("PostgreSQL does not allow writes: it is a standby, and the primary is needed")]
    Standby,
    /// The authorities that certify PostgreSQL cannot be had.
    #[error("authorities for PostgreSQL: {0}")]
    Authorities(String),
    /// The file or its folder is not as it must be.
    #[error("{}: {why}", path.display())]
    Untrusted {
        /// Which.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The file or its folder cannot be used.
    #[error("{}: {fault}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        fault: io::Error,
    },
    /// Another process has this role in this database.
    #[error(
        "{database} is used by another {role} that runs: end it first, or let several share \
         PostgreSQL, each Target with keys of its own"
    )]
    InUse {
        /// Which database.
        database: String,
        /// Host or Target.
        role: &'static str,
    },
    /// The file is not there, or is another one than was opened.
    #[error("{}: the database was removed or replaced", .0.display())]
    Gone(PathBuf),
    /// Another program has locked it.
    #[error(
        "{}: another program has locked the database for {} s",
        .0.display(),
        BUSY_MAX.as_secs()
    )]
    Locked(PathBuf),
    /// There is no room.
    #[error("{}: the disk or the database is full", .0.display())]
    Full(PathBuf),
    /// It is no database, or that of another program.
    #[error("{}: it is no database of tunnel agents", .0.display())]
    Foreign(PathBuf),
    /// A later version of Caravan has made it.
    #[error(
        "the tables of the database are of version {found}, and this caravan knows versions up to \
         {known}: use a newer caravan"
    )]
    Newer {
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// A row is not as we write it.
    #[error("the database is damaged, or another program has changed it: {0}")]
    Damaged(&'static str),
    /// There is such a key.
    #[error("there is a key with handle {0}: issue another one")]
    HandleTaken(Handle),
    /// A key that is not valid cannot be new.
    #[error("the key with handle {0} is not valid, so it cannot be issued")]
    NotValid(Handle),
    /// There is no such member.
    #[error("{0} is no member")]
    NoMember(String),
    /// Something is no name.
    #[error("{what} \"{name}\": 1 to {most} octets without control characters")]
    Name {
        /// Of what.
        what: &'static str,
        /// What is there.
        name: String,
        /// The limit.
        most: usize,
    },
    /// Only a Target that was opened by its name may ask this.
    #[error("only a Target has tunnels")]
    NotTarget,
    /// It has failed a moment ago, and is not asked again yet.
    #[error("PostgreSQL has failed a moment ago, and is asked again soon")]
    Resting,
    /// No answer.
    #[error("the database does not answer in time")]
    Silent,
    /// What it tells us may be lost.
    #[error("PostgreSQL runs with {0} = off: a used key could be valid again after a crash")]
    Forgetful(&'static str),
    /// SQLite has failed.
    #[error("{}: {fault}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: rusqlite::Error,
    },
    /// PostgreSQL has failed.
    #[error("PostgreSQL: {}", told(.0))]
    Postgres(tokio_postgres::Error),
}

impl StoreError {
    /// Whether the connection is as good as before.
    pub(super) fn leaves_the_connection(&self) -> bool {
        matches!(
            self,
            Self::Locked(_)
                | Self::HandleTaken(_)
                | Self::NotValid(_)
                | Self::NoMember(_)
                | Self::Name { .. }
                | Self::NotTarget
        )
    }

    /// Whether PostgreSQL has waited too long for somebody's lock.
    pub(super) fn is_lock_timeout(&self) -> bool {
        match self {
            Self::Postgres(fault) => fault.code() == Some(&SqlState::LOCK_NOT_AVAILABLE),
            _ => false,
        }
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(fault: tokio_postgres::Error) -> Self {
        Self::Postgres(fault)
    }
}

/// A fault of PostgreSQL with its causes: its own words are "db error". What a server says is
/// cut, and has no sign that a terminal obeys.
fn told(fault: &tokio_postgres::Error) -> String {
    let mut text = fault.to_string();
    let mut cause = fault.source();
    while let Some(it) = cause {
        let more = it.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = it.source();
    }
    let text: String = text.chars().take(TOLD_MAX).collect();
    text.replace(char::is_control, " ")
}
