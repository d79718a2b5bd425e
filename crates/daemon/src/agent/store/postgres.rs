//! The database as a PostgreSQL server, which several Hosts share.
//!
//! The address is a URL as PostgreSQL's own programs know it. Two of its parameters are read here:
//! `sslmode` (`disable`, `require` or `verify-full`; both of the latter check the server's
//! certificate and name) and `sslrootcert` (a file of authorities, taken as written). A connection
//! in clear leads to a Unix socket or to loopback only, and none is in clear because the server
//! says so. Whoever answers there is believed for a reason: `watch` has the three of them. `reach`
//! connects.

mod reach;
mod watch;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crypto::tls;
use engine::agent::identity::AgentName;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use zeroize::Zeroizing;

use super::value::{Row, Value};
use super::{PATIENCE, StoreError, StoreRole, within};
use crate::files;
use reach::{Line, Place};

/// Where a URL without a host leads: the folder of Debian's socket.
const SOCKET_FOLDER: &str = "/var/run/postgresql";
/// Authorities of the system: Debian, Fedora, Alpine.
const SYSTEM_ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
/// Longest file of authorities.
const ROOTS_BYTES_MAX: u64 = 4 << 20;

/// Parameters of a URL that the library reads.
const PARAMETERS: [&str; 9] = [
    "application_name",
    "channel_binding",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "user",
];

/// What each session sets. A commit is on the disk when it returns. A lock is not waited for longer
/// than Host waits, and a Host that hangs or is cut off does not hold one.
const SESSION: &str = "
SET synchronous_commit = on;
SET lock_timeout = '2s';
SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '10s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
";

/// Where a server is, and how it is reached. Wiped on drop: it may have a password.
#[derive(Clone)]
pub struct Server {
    url: Zeroizing<String>,
    places: Vec<Place>,
    has_password: bool,
    /// None: the system's.
    roots: Option<PathBuf>,
    is_secured: bool,
    /// Without user and password.
    name: String,
}

/// A server and our role there.
pub(super) struct Door {
    config: Config,
    places: Vec<Place>,
    has_password: bool,
    tls: Option<MakeRustlsConnect>,
    role: StoreRole,
    name: String,
}

/// A session.
pub(super) struct Session {
    client: Client,
    _line: Line,
}

impl Server {
    /// Whether a text is an address of PostgreSQL.
    pub(super) fn is_url(text: &str) -> bool {
        ["postgresql://", "postgres://"]
            .iter()
            .any(|it| text.starts_with(it))
    }

    /// Reads a URL. Files in it are relative to `folder`.
    pub(super) fn parse(text: &str, folder: &Path) -> Result<Self, StoreError> {
        let (base, parameters) = text.split_once('?').unwrap_or((text, ""));
        let mut url = Zeroizing::new(base.to_owned());
        let (mut mode, mut roots, mut sign) = (None, None, '?');
        for parameter in parameters.split('&').filter(|it| !it.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => roots = Some(folder.join(value)),
                Some((key, _)) if !PARAMETERS.contains(&key) => {
                    let known = PARAMETERS.join(", ");
                    let text = format!("{key}: it knows sslmode, sslrootcert, {known}");
                    return Err(StoreError::Address(text));
                }
                _ => {
                    url.push(sign);
                    url.push_str(parameter);
                    sign = '&';
                }
            }
        }
        let is_secured = match mode {
            None | Some("disable") => false,
            Some("require" | "verify-full") => true,
            Some(other) => {
                let text = format!("sslmode={other}: disable, require or verify-full");
                return Err(StoreError::Address(text));
            }
        };
        let mut server = Self {
            name: name_of(base),
            url,
            places: Vec::new(),
            has_password: false,
            roots,
            is_secured,
        };
        let config = server.config()?;
        server.places = Place::all(&config)?;
        server.has_password = config.get_password().is_some();
        server.check()?;
        Ok(server)
    }

    fn config(&self) -> Result<Config, StoreError> {
        let parsed = Config::from_str(&self.url);
        let mut config = parsed.map_err(StoreError::Postgres)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host_path(SOCKET_FOLDER);
        }
        config.ssl_mode(match self.is_secured {
            true => SslMode::Require,
            false => SslMode::Disable,
        });
        if config.get_application_name().is_none() {
            config.application_name("caravan tunnel-agent");
        }
        Ok(config)
    }

    /// Refuses places where we would speak with anybody.
    fn check(&self) -> Result<(), StoreError> {
        for place in &self.places {
            let to = match place {
                Place::Unix(..) if self.is_secured => {
                    let text = "a Unix socket has no TLS: leave sslmode out";
                    return Err(StoreError::Address(text.into()));
                }
                Place::Tcp { to, .. } if !self.is_secured => to,
                Place::Unix(..) | Place::Tcp { .. } => continue,
            };
            let is_near = to == "localhost" || to.parse().is_ok_and(|it: IpAddr| it.is_loopback());
            if !is_near {
                return Err(StoreError::Clear(to.clone()));
            }
            if !self.has_password {
                return Err(StoreError::Unproven(to.clone()));
            }
        }
        Ok(())
    }

    /// What is unwise about it.
    pub(super) fn warning(&self) -> Option<String> {
        let mut places = self.places.iter();
        let is_tcp = places.any(|it| matches!(it, Place::Tcp { .. }));
        (is_tcp && !self.is_secured).then(|| {
            format!(
                "database: {} is reached in clear, so a user of this machine who takes that port \
                 when PostgreSQL is not there could read and change what is said: use its Unix \
                 socket, or sslmode=verify-full",
                self.name
            )
        })
    }

    /// Whether its URL has a password.
    pub(super) fn has_password(&self) -> bool {
        self.has_password
    }

    /// The connector that checks the server's certificate.
    fn tls(&self) -> Result<MakeRustlsConnect, StoreError> {
        let fault = |text: String| StoreError::Authorities(text);
        let path = match &self.roots {
            Some(path) => path.clone(),
            None => {
                let found = SYSTEM_ROOTS
                    .iter()
                    .map(PathBuf::from)
                    .find(|it| it.exists());
                found.ok_or_else(|| {
                    fault("this system has no file of them: name one by sslrootcert=".into())
                })?
            }
        };
        // Distributions put links where the file is expected.
        let real = path.canonicalize();
        let text = real.and_then(|path| files::read(&path, ROOTS_BYTES_MAX));
        let text = text.map_err(|it| fault(format!("{}: {it}", path.display())))?;
        let config = tls::client(&text);
        let config = config.map_err(|it| fault(format!("{}: {it}", path.display())))?;
        Ok(MakeRustlsConnect::new(config))
    }
}

/// A URL without user and password.
fn name_of(base: &str) -> String {
    let rest = base.split_once("://").map_or(base, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    format!("postgresql://{rest}")
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Door {
    pub(super) fn new(server: &Server, role: StoreRole) -> Result<Self, StoreError> {
        Ok(Self {
            config: server.config()?,
            places: server.places.clone(),
            has_password: server.has_password,
            tls: match server.is_secured {
                true => Some(server.tls()?),
                false => None,
            },
            role,
            name: server.name.clone(),
        })
    }

    /// Begins a session.
    pub(super) async fn open(&self) -> Result<Session, StoreError> {
        let mut session = self.reach().await?;
        if let StoreRole::Target(name) = self.role {
            within(PATIENCE, session.claim(name, &self.name)).await?;
        }
        Ok(session)
    }
}

impl Session {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Takes a Target's role for as long as the session lives. A former session of ours may need a
    /// moment to end.
    async fn claim(&mut self, name: AgentName, database: &str) -> Result<(), StoreError> {
        let start = *name.0.first_chunk().expect("8 of 16 octets");
        let lock = Value::Number(i64::from_be_bytes(start));
        // The schema of our tables is a database of its own. A lock is 64 bits.
        let query = "SELECT count(*) FROM \
                     pg_advisory_lock(hashtextextended(coalesce(current_schema(), ''), $1))";
        match self.rows(query, &[lock]).await {
            Err(fault) if fault.is_lock_timeout() => Err(StoreError::InUse {
                database: database.to_owned(),
                role: "Target",
            }),
            done => done.map(drop),
        }
    }

    pub(super) async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub(super) async fn rows(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        let found = self.client.query(sql, &parameters(values)).await?;
        found.iter().map(row_of).collect()
    }

    pub(super) async fn change(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        Ok(self.client.execute(sql, &parameters(values)).await?)
    }
}

fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    let parameters = values.iter().map(|value| match value {
        // No statement of ours has such a parameter.
        Value::Nothing => &None::<i64> as &(dyn ToSql + Sync),
        Value::Number(number) => number,
        Value::Text(text) => text,
        Value::Octets(octets) => &**octets,
    });
    parameters.collect()
}

fn row_of(row: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let columns = row.columns().iter().enumerate();
    let values = columns.map(|(at, column)| {
        Ok(Value::from(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map(Value::Number),
            Type::BYTEA => row.try_get::<_, Option<&[u8]>>(at)?.map(Value::octets),
            _ => row.try_get::<_, Option<String>>(at)?.map(Value::Text),
        }))
    });
    let values: Result<Vec<Value>, StoreError> = values.collect();
    values.map(Row::new)
}
