//! A database for one test, and what is written into it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crypto::ed25519::{Signature, VerifyKey};
use daemon::agent::store::{Database, Store, StoreRole};
use engine::agent::host::{Half, Record};
use engine::agent::identity::AgentName;
use engine::agent::ppk::KeyPpk;
use engine::agent::target::{Evidence, Spending};
use engine::agent::{Digest, Handle, TunnelId};
use engine::time::Calendar;
use tokio_postgres::NoTls;

/// When keys are used.
pub(crate) const AT: Calendar = Calendar(100);
/// When they expire.
pub(crate) const NOT_AFTER: Calendar = Calendar(1_000);

/// A database that is removed with this.
pub(crate) struct Base {
    /// Its address.
    pub(crate) text: String,
    whose: Whose,
}

enum Whose {
    Folder(PathBuf),
    Schema { server: String, name: String },
}

impl Base {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("caravan_store_{}_{number}_{name}", std::process::id());
        let Ok(server) = std::env::var("CARAVAN_TEST_DATABASE") else {
            let folder = std::env::temp_dir().join(name);
            let text = folder.join("agent.db").display().to_string();
            let whose = Whose::Folder(folder);
            return Self { text, whose };
        };
        order(&server, &format!("CREATE SCHEMA {name}"));
        let sign = if server.contains('?') { '&' } else { '?' };
        let text = format!("{server}{sign}options=-csearch_path%3D{name}");
        let whose = Whose::Schema { server, name };
        Self { text, whose }
    }

    pub(crate) fn database(&self) -> Database {
        database(&self.text)
    }

    pub(crate) async fn open(&self, role: StoreRole) -> Store {
        open(&self.text, role).await
    }

    /// Whether several Hosts may share it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.whose, Whose::Schema { .. })
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        match &self.whose {
            Whose::Folder(path) => {
                let _ = std::fs::remove_dir_all(path);
            }
            Whose::Schema { server, name } => order(server, &format!("DROP SCHEMA {name} CASCADE")),
        }
    }
}

pub(crate) fn database(text: &str) -> Database {
    Database::parse(text, Path::new("/")).expect("an address")
}

pub(crate) async fn open(text: &str, role: StoreRole) -> Store {
    let opened = Store::open(&database(text), role).await;
    opened.unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

/// Does something to the server that no agent does. In a thread of its own: the caller may be
/// within a runtime.
fn order(server: &str, sql: &str) {
    let (server, sql) = (server.to_owned(), sql.to_owned());
    let work = std::thread::spawn(move || {
        run(async {
            let connected = tokio_postgres::connect(&server, NoTls).await;
            let (client, connection) = connected.expect("a connection");
            tokio::spawn(connection);
            client.batch_execute(&sql).await.expect("done");
        });
    });
    work.join().expect("the server did it");
}

/// Runs what a test does, as an agent's thread would.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

pub(crate) fn handle(number: u8) -> Handle {
    Handle([number; 16])
}

pub(crate) fn request(number: u8) -> Digest {
    Digest([number; 32])
}

pub(crate) fn target(number: u8) -> StoreRole {
    StoreRole::Target(AgentName([number; 16]))
}

/// A key that may be used. Every second one is a shared pair.
pub(crate) fn record(number: u8) -> Record {
    let half = match number % 2 {
        0 => Half::Public(VerifyKey([number; 32])),
        _ => Half::Shared([number; 32]),
    };
    let ppk = match half {
        Half::Public(_) => Some(KeyPpk::of(&[number; 32])),
        Half::Shared(_) => None,
    };
    let record = Record::new(half, format!("user {}", number % 3), NOT_AFTER);
    Record { ppk, ..record }
}

/// What Target writes of a key and a request.
pub(crate) fn spending(key: u8, number: u8) -> Spending {
    let mut tunnel = [number; 16];
    tunnel[0] = key;
    Spending {
        key: Digest([key; 32]),
        handle: handle(key),
        tunnel: TunnelId(tunnel),
        client_identity: format!("user {}@host", key % 3),
        until: Calendar(5_000),
        evidence: Evidence {
            key: VerifyKey([key; 32]),
            request: vec![number; 200],
            signature: Signature([number; 64]),
        },
    }
}
