//! The databases of tunnel agents: Host's one-time keys, Target's members and spent keys.
//!
//! A database is a file (SQLite, in `sqlite`) or a PostgreSQL server (in `postgres`), with the same
//! tables (in `schema`) and the same statements. Every change is one transaction, and is on the
//! disk before its answer is given. `docs/design/agents.md` says why no crash makes two tunnels of
//! one key.
//!
//! Left out: a pool of connections (an agent asks one question at a time), and the removal of old
//! rows (Target must know a spent key for ever).

mod fault;
mod keys;
mod link;
mod members;
mod postgres;
mod schema;
mod spent;
mod sqlite;
mod value;

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::agent::host::{Answer, Ask, Record};
use engine::agent::identity::AgentName;
use engine::agent::target::{self, Former, Progress, Spending, Standing};
use engine::agent::{Digest, Handle, TunnelId};
use tokio::time::{Instant, timeout};
use wire::agent::USER_ID_MAX;

use link::{Access, Link};
use sqlite::Missing;
use value::Value;

pub use fault::StoreError;
pub use members::{Enrolment, Member};
pub use postgres::Server;

/// How long a question of an agent may take in all. Host waits for 5 s.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same for an administrator, who may issue thousands of keys at once.
const ADMINISTRATOR_PATIENCE: Duration = Duration::from_secs(60);
/// How long SQLite waits for another writer.
const BUSY_MAX: Duration = Duration::from_secs(2);
/// Pause before a server that has failed is tried again: questions may come faster than it fails.
const REST: Duration = Duration::from_secs(1);

/// Where a database is.
#[derive(Clone)]
pub enum Database {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A server of PostgreSQL.
    Postgres(Server),
}

/// Who opens a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRole {
    /// Host's agent. A file has one at a time, a server any number.
    Host,
    /// The Target of this name. There is one at a time: tunnels of a former process are this one's.
    Target(AgentName),
    /// Issues and revokes keys, sets members, lists. Any number, beside agents that run.
    Administrator,
}

/// Which keys are revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// That of this handle.
    Handle(Handle),
    /// Those of this user.
    User(String),
    /// All.
    All,
}

/// An open database. Its thread needs a tokio runtime with input, output and time; calls to SQLite
/// block it for as long as they take.
pub struct Store {
    /// None: it has failed, or was cut off in a transaction, and is opened again. Closed before the
    /// role is given up.
    link: Option<Link>,
    source: Source,
    role: StoreRole,
    /// Not before this time.
    rest_until: Option<Instant>,
    is_failing: bool,
}

enum Source {
    Sqlite(sqlite::Place),
    Postgres(Box<postgres::Door>),
}

impl Database {
    /// `postgresql://USER@HOST/NAME?sslmode=verify-full` is PostgreSQL, everything else a path.
    /// Paths are relative to `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, StoreError> {
        if Server::is_url(text) {
            return Server::parse(text, folder).map(Self::Postgres);
        }
        let said = match text.split_once("://") {
            Some((scheme, _)) => format!("{scheme}:// is not known: a path, or postgresql://"),
            None if text.is_empty() => "it is empty: a path, or postgresql://".into(),
            None => return Ok(Self::Sqlite(folder.join(text))),
        };
        Err(StoreError::Address(said))
    }

    /// Whether a file may be where it is. Nothing is opened or made.
    pub fn check(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(path) => sqlite::check(path),
            Self::Postgres(_) => Ok(()),
        }
    }

    /// What is unwise about where it is.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(server) => server.warning(),
        }
    }

    /// Whether its address is a secret: it has a password.
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::Postgres(server) if server.has_password())
    }
}

impl fmt::Display for Database {
    /// Without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(server) => write!(f, "{server}"),
        }
    }
}

impl Store {
    /// Opens a database. A file that is missing is made, tables of an earlier version are brought
    /// to ours.
    pub async fn open(database: &Database, role: StoreRole) -> Result<Self, StoreError> {
        let source = match database {
            Database::Sqlite(path) => Source::Sqlite(sqlite::Place::claim(path, role)?),
            Database::Postgres(server) => {
                Source::Postgres(Box::new(postgres::Door::new(server, role)?))
            }
        };
        // Each of its addresses has its own time.
        let mut link = source.connect(Missing::Made).await?;
        let migrated = within(ADMINISTRATOR_PATIENCE, schema::migrate(&mut link));
        migrated.await?;
        let link = Some(link);
        Ok(Self {
            link,
            source,
            role,
            rest_until: None,
            is_failing: false,
        })
    }

    /// Answers a question of Host. A failure is logged when it begins, and when it is over.
    pub async fn answer(&mut self, ask: &Ask) -> Answer {
        let access = match ask {
            // Whoever knows a handle can make Host look it up.
            Ask::Find(_) => Access::Reads,
            _ => Access::Writes,
        };
        let work = self.within_transaction(access, async |link| keys::answer(link, ask).await);
        let done = within(PATIENCE, work).await;
        match &done {
            Err(fault) if !self.is_failing => {
                tracing::warn!("the database of keys does not work: {fault}");
            }
            Ok(_) if self.is_failing => tracing::info!("the database of keys works again"),
            _ => {}
        }
        self.is_failing = done.is_err();
        done.unwrap_or(Answer::Unavailable)
    }

    /// Writes new keys, all or none. They must be valid.
    pub async fn issue(&mut self, keys: &[(Handle, Record)]) -> Result<(), StoreError> {
        let work =
            self.within_transaction(Access::Writes, async |link| keys::issue(link, keys).await);
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    /// Revokes keys that no request has taken, and returns how many there were.
    pub async fn revoke(&mut self, which: Which) -> Result<usize, StoreError> {
        let work = self.within_transaction(Access::Writes, async |link| {
            keys::revoke(link, &which).await
        });
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    /// Every key, by user.
    pub async fn keys(&mut self) -> Result<Vec<(Handle, Record)>, StoreError> {
        let work = self.within_transaction(Access::Reads, async |link| keys::all(link).await);
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    /// What a user of a Host may with the key of this digest. None: with a shared pair.
    pub async fn standing(
        &mut self,
        user: &str,
        host: &str,
        key: Option<&Digest>,
    ) -> Result<Standing, StoreError> {
        let work = self.within_transaction(Access::Reads, async |link| {
            members::standing(link, user, host, key).await
        });
        within(PATIENCE, work).await
    }

    /// Writes that a key is spent. False: it was spent before. After a failure it may be written.
    pub async fn spend(&mut self, spending: &Spending) -> Result<bool, StoreError> {
        let target = self.target()?;
        let work = self.within_transaction(Access::Writes, async |link| {
            spent::spend(link, target, spending).await
        });
        within(PATIENCE, work).await
    }

    /// Notes how far a tunnel is.
    pub async fn note(&mut self, tunnel: TunnelId, progress: Progress) -> Result<(), StoreError> {
        let work = self.within_transaction(Access::Writes, async |link| {
            spent::note(link, tunnel, progress).await
        });
        within(PATIENCE, work).await
    }

    /// The key that was spent for a tunnel, and what its user has signed.
    pub async fn spending(&mut self, tunnel: TunnelId) -> Result<Option<Spending>, StoreError> {
        let work = self.within_transaction(Access::Reads, async |link| {
            spent::of_tunnel(link, tunnel).await
        });
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    /// Tunnels of a Target that were not noted as ended.
    pub async fn tunnels_of(&mut self, target: AgentName) -> Result<Vec<Former>, StoreError> {
        let work = self.within_transaction(Access::Reads, async |link| {
            spent::former(link, target).await
        });
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    /// Tunnels of a former process of this Target.
    pub async fn former(&mut self) -> Result<Vec<Former>, StoreError> {
        let target = self.target()?;
        let work = self.within_transaction(Access::Reads, async |link| {
            spent::former(link, target).await
        });
        within(PATIENCE, work).await
    }

    /// Writes what a user of a Host may, in place of what he might before.
    pub async fn set_member(
        &mut self,
        member: (&str, &str),
        access: &target::Access,
        enrolment: Enrolment,
    ) -> Result<(), StoreError> {
        let work = self.within_transaction(Access::Writes, async |link| {
            members::set(link, member, access, enrolment).await
        });
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    /// Enrols more keys of a member. Only enrolled ones serve him from then on.
    pub async fn enrol(
        &mut self,
        user: &str,
        host: &str,
        keys: &[Digest],
    ) -> Result<(), StoreError> {
        let work = self.within_transaction(Access::Writes, async |link| {
            members::enrol(link, user, host, keys).await
        });
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    /// Whether there was such a member. Target's agent notices, and ends his tunnels.
    pub async fn remove_member(&mut self, user: &str, host: &str) -> Result<bool, StoreError> {
        let work = self.within_transaction(Access::Writes, async |link| {
            members::remove(link, user, host).await
        });
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    /// All members, by Host.
    pub async fn members(&mut self) -> Result<Vec<Member>, StoreError> {
        let work = self.within_transaction(Access::Reads, async |link| members::all(link).await);
        within(ADMINISTRATOR_PATIENCE, work).await
    }

    fn target(&self) -> Result<AgentName, StoreError> {
        match self.role {
            StoreRole::Target(name) => Ok(name),
            _ => Err(StoreError::NotTarget),
        }
    }

    /// Runs `work` in a transaction, and commits if it succeeds. The connection is ours again only
    /// after that: if this is dropped halfway, the connection ends, and the transaction with it.
    async fn within_transaction<T>(
        &mut self,
        access: Access,
        work: impl AsyncFnOnce(&mut Link) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let is_whole = self.link.as_ref().is_some_and(Link::is_whole);
        let now = Instant::now();
        if !is_whole && self.rest_until.is_some_and(|until| now < until) {
            return Err(StoreError::Resting);
        }
        let rests = matches!(self.source, Source::Postgres(_));
        // If this is cut off, it stays so: all who wait do not wait for the same silence.
        self.rest_until = rests.then_some(now + PATIENCE + REST);
        let done = self.transact(access, work).await;
        let has_failed = rests && self.link.is_none();
        self.rest_until = has_failed.then(|| Instant::now() + REST);
        done
    }

    async fn transact<T>(
        &mut self,
        access: Access,
        work: impl AsyncFnOnce(&mut Link) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut link = self.begin(access).await?;
        match work(&mut link).await {
            Ok(done) => {
                link.commit().await?;
                self.link = Some(link);
                Ok(done)
            }
            Err(fault) => {
                if fault.leaves_the_connection() && link.roll_back().await.is_ok() {
                    self.link = Some(link);
                }
                Err(fault)
            }
        }
    }

    async fn begin(&mut self, access: Access) -> Result<Link, StoreError> {
        if let Some(mut link) = self.link.take()
            && link.is_whole()
        {
            match link.begin(access).await {
                Ok(()) => return Ok(link),
                Err(fault) if fault.leaves_the_connection() => {
                    self.link = Some(link);
                    return Err(fault);
                }
                // The server may have ended a session in which nothing was asked for long.
                Err(_) => {}
            }
        }
        let mut link = self.source.connect(Missing::Refused).await?;
        schema::check(&mut link).await?;
        link.begin(access).await?;
        Ok(link)
    }
}

impl Source {
    async fn connect(&self, missing: Missing) -> Result<Link, StoreError> {
        match self {
            Self::Sqlite(place) => place.open(missing).map(Link::Sqlite),
            Self::Postgres(door) => door.open().await.map(Link::Postgres),
        }
    }
}

/// Gives up after a time.
async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(limit, work)
        .await
        .unwrap_or(Err(StoreError::Silent))
}

/// Refuses what no message, certificate or list could show.
fn check_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    let is_good = (1..=USER_ID_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    is_good.then_some(()).ok_or_else(|| StoreError::Name {
        what,
        name: name.escape_debug().to_string(),
        most: USER_ID_MAX,
    })
}

#[cfg(test)]
mod tests;
