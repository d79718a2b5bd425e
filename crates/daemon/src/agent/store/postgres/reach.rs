//! Connects to a PostgreSQL server: to one address after the other, to each for a bounded time.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use futures_util::TryFutureExt as _;
use nix::unistd::Uid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls};

use super::watch::{Trust, Watched, WatchedTls};
use super::{Door, SESSION, Session};
use crate::agent::store::{PATIENCE, StoreError, within};

/// How long one address may take until its server is ready, so that another one has its turn.
const REACH_MAX: std::time::Duration = PATIENCE.checked_div(2).expect("not by zero");
const PORT: u16 = 5_432;

/// Where a server may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A folder with its socket, and the port in the socket's name.
    Unix(PathBuf, u16),
    /// A machine.
    Tcp {
        /// Its address, or its name.
        to: String,
        /// The name of its certificate.
        name: String,
        port: u16,
    },
}

/// The half of a session that speaks with the server. It ends with the session, also while the
/// server owes an answer.
pub(super) struct Line(JoinHandle<()>);

impl Drop for Line {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Place {
    /// Those of a URL, in its order.
    pub(super) fn all(config: &Config) -> Result<Vec<Self>, StoreError> {
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        let (ports, count) = (config.get_ports(), hosts.len().max(addresses.len()));
        let fits = |len: usize, few: usize| len <= few || len == count;
        if !fits(hosts.len(), 0) || !fits(addresses.len(), 0) || !fits(ports.len(), 1) {
            let text = "it names hosts, addresses and ports: as many of each";
            return Err(StoreError::Address(text.into()));
        }
        let places = (0..count).map(|at| {
            let port = ports.get(at).or(ports.first()).copied();
            let port = port.unwrap_or(PORT);
            let name = match (hosts.get(at), addresses.get(at)) {
                (Some(Host::Unix(folder)), None) => return Self::Unix(folder.clone(), port),
                (Some(Host::Tcp(name)), _) => name.clone(),
                _ => String::new(),
            };
            let address = addresses.get(at).map(ToString::to_string);
            Self::Tcp {
                to: address.unwrap_or_else(|| name.clone()),
                name,
                port,
            }
        });
        Ok(places.collect())
    }
}

impl Door {
    /// A session with the first server that can be written to.
    pub(super) async fn reach(&self) -> Result<Session, StoreError> {
        let mut why = StoreError::Address("it names no server".into());
        for place in &self.places {
            match self.reach_at(place).await {
                Ok(session) => return Ok(session),
                Err(fault) => why = fault,
            }
        }
        Err(why)
    }

    async fn reach_at(&self, place: &Place) -> Result<Session, StoreError> {
        let (to, name, port) = match place {
            Place::Unix(folder, port) => {
                return within(REACH_MAX, self.reach_socket(folder, *port)).await;
            }
            Place::Tcp { to, name, port } => (to.as_str(), name, *port),
        };
        let found = lookup_host((to, port)).map_err(StoreError::Unreached);
        let mut why = StoreError::Unreached(ErrorKind::NotFound.into());
        for address in within(REACH_MAX, found).await? {
            // A resolver may know another place by the name localhost.
            if self.tls.is_none() && !address.ip().is_loopback() {
                why = StoreError::Clear(address.ip().to_string());
                continue;
            }
            let reached = within(REACH_MAX, async {
                let stream = TcpStream::connect(address).await;
                let stream = stream.map_err(StoreError::Unreached)?;
                stream.set_nodelay(true).map_err(StoreError::Unreached)?;
                // Without a certificate it has a password: the URL was checked.
                self.begin(stream, name, Trust::Proven).await
            });
            match reached.await {
                Ok(session) => return Ok(session),
                Err(fault) => why = fault,
            }
        }
        Err(why)
    }

    async fn reach_socket(&self, folder: &Path, port: u16) -> Result<Session, StoreError> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let stream = UnixStream::connect(path).await;
        let stream = stream.map_err(StoreError::Unreached)?;
        let trust = match self.has_password {
            true => Trust::Proven,
            false => check_listener(&stream, folder)?,
        };
        self.begin(stream, "", trust).await
    }

    /// Logs in, and prepares the session.
    async fn begin<S>(&self, stream: S, name: &str, trust: Trust) -> Result<Session, StoreError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (client, line) = match self.tls.clone() {
            Some(mut tls) => {
                let Ok(tls) = MakeTlsConnect::<S>::make_tls_connect(&mut tls, name);
                let connected = self.config.connect_raw(stream, WatchedTls(tls));
                let (client, line) = connected.await?;
                (client, tokio::spawn(line.unwrap_or_else(ended)))
            }
            None => {
                let stream = Watched::new(stream, trust);
                let (client, line) = self.config.connect_raw(stream, NoTls).await?;
                (client, tokio::spawn(line.unwrap_or_else(ended)))
            }
        };
        prepared(client, Line(line)).await
    }
}

/// Why a session has ended: the question that fails by it only says that it has.
fn ended(fault: tokio_postgres::Error) {
    let fault = StoreError::Postgres(fault);
    tracing::info!("a session of the database has ended: {fault}");
}

/// A session with our settings, if the server's suit us.
async fn prepared(client: Client, line: Line) -> Result<Session, StoreError> {
    let mut session = Session {
        client,
        _line: line,
    };
    session.run(SESSION).await?;
    for (setting, wrong) in [
        ("fsync", "off"),
        ("full_page_writes", "off"),
        ("transaction_read_only", "on"),
    ] {
        let query = "SELECT current_setting($1)";
        let rows = session.rows(query, &[setting.into()]).await?;
        let is = rows.into_iter().next().map(|mut row| row.text());
        match is.transpose()?.as_deref() == Some(wrong) {
            // A standby does not know yet what the primary has taken.
            true if wrong == "on" => return Err(StoreError::Standby),
            true => return Err(StoreError::Forgetful(setting)),
            false => {}
        }
    }
    Ok(session)
}

/// Who listens at a Unix socket is root, we ourselves, or the owner of its folder: in a folder of
/// all, anybody can make a socket of that name while PostgreSQL is not there.
fn check_listener(stream: &UnixStream, folder: &Path) -> Result<Trust, StoreError> {
    let user = stream.peer_cred().map_err(StoreError::Unreached)?.uid();
    let found = std::fs::metadata(folder).map_err(StoreError::Unreached)?;
    let owner = std::os::unix::fs::MetadataExt::uid(&found);
    match [0, Uid::effective().as_raw(), owner].contains(&user) {
        true => Ok(Trust::Placed),
        false => Err(StoreError::Stranger {
            folder: folder.to_owned(),
            user,
        }),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, UnixListener};
    use tokio::time::Instant;

    use super::super::Server;
    use super::*;
    use crate::agent::store::StoreRole;

    const LOGGED_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0";
    const READY: &[u8] = b"Z\0\0\0\x05I";
    const NOTICE: &[u8] = b"N\0\0\0\x17SNOTICE\0C00000\0Mx\0\0";

    /// A server that says this, and then that again and again. What it has heard when we are gone.
    async fn server(
        stream: impl AsyncRead + AsyncWrite,
        says: Vec<u8>,
        again: &'static [u8],
    ) -> Vec<u8> {
        let (mut hears, mut speaks) = tokio::io::split(stream);
        let speaking = async {
            let mut is_heard = speaks.write_all(&says).await.is_ok();
            while is_heard && !again.is_empty() {
                is_heard = speaks.write_all(again).await.is_ok();
            }
            std::future::pending::<()>().await;
        };
        let mut heard = Vec::new();
        tokio::select! {
            _ = hears.read_to_end(&mut heard) => {}
            () = speaking => {}
        }
        heard
    }

    /// Why we do not believe who is at this address.
    async fn refused(url: &str) -> String {
        let server = Server::parse(url, Path::new("/")).expect("an address");
        let door = Door::new(&server, StoreRole::Administrator).expect("a door");
        let began = Instant::now();
        let said = door.open().await.err().expect("it is refused").to_string();
        assert!(began.elapsed() < PATIENCE, "{said}");
        said
    }

    #[tokio::test]
    async fn whoever_listens_on_the_port_does_not_get_the_password() {
        let asks = |step: u8, body: &[u8]| {
            let len = u8::try_from(8 + body.len()).expect("short");
            [&[b'R', 0, 0, 0, len, 0, 0, 0, step], body].concat()
        };
        for (says, why) in [
            (asks(3, b""), "in clear"),
            (asks(5, b"salt"), "in clear"),
            (LOGGED_IN.to_vec(), "anybody may be there"),
            (Vec::new(), "does not answer"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let port = listener.local_addr().expect("bound").port();
            let heard = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.expect("we come");
                server(stream, says, b"").await
            });
            let said = refused(&format!("postgresql://host:secret@127.0.0.1:{port}/x")).await;
            assert!(said.contains(why), "{said}");
            let heard = heard.await.expect("no panic");
            let heard = String::from_utf8_lossy(&heard);
            assert!(heard.contains("user\0host\0"), "{heard}");
            assert!(
                !heard.contains("secret") && !heard.contains("md5"),
                "{heard}"
            );
        }
    }

    /// Its connection is closed, also while it owes an answer.
    #[tokio::test]
    async fn a_server_that_says_too_much_or_nothing_is_left() {
        let name = format!("caravan-reach-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        crate::files::make_folder(&folder, 0o700).expect("a folder");
        let path = folder.join(".s.PGSQL.5432");
        let ready = [LOGGED_IN, READY].concat();
        for (says, again, why) in [
            (LOGGED_IN.to_vec(), &b"S\0\0\0\x08a\0b\0"[..], "unasked"),
            (LOGGED_IN.to_vec(), NOTICE, "unasked"),
            (ready.clone(), NOTICE, "connection closed"),
            (ready, b"", "does not answer"),
        ] {
            let listener = UnixListener::bind(&path).expect("a socket");
            let left = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.expect("we come");
                server(stream, says, again).await
            });
            let url = format!("postgresql:///x?host={}&user=host", folder.display());
            let said = refused(&url).await;
            assert!(said.contains(why), "{said}");
            left.await.expect("no panic");
            std::fs::remove_file(&path).expect("removed");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
