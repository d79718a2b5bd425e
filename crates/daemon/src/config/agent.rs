//! The file of `caravan tunnel-agent`: what an agent is, whom it knows, and through what it builds.
//!
//! One file has one role. Keys, certificates and databases are named here and read by the agents.

mod peers;
mod pool;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use document::{Fault, Item, Value, likeness};
use engine::agent::description::{Name, Proposals};
use engine::agent::identity::Identity;
use engine::agent::ike::{IkeAbilities, IkeVersion};
use engine::agent::sheet::{ADDRESS_MAX, HOSTS_MAX};
use engine::agent::writers::Kind;
use wire::agent::{PORT, is_text};

use super::read::{Keys, Read, ReadTable};
use super::{ConfigError, Origin, read};
use peers::{KnownHost, KnownTarget, known_hosts, known_targets};

pub use peers::{HostPeer, identity_of, identity_text};
pub use pool::PoolRange;

/// Algorithms if the file names none: what every back-end of today has, and before it what Caravan
/// and strongSwan 6 have against quantum computers. IKEv1 has the last two of IKE.
const PROPOSALS: [&str; 8] = [
    "ike-aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
    "ike-aes256gcm16-prfsha384-curve25519",
    "ike-aes256-sha256-modp2048",
    "ike-aes128-sha256-modp2048",
    "aes256gcm16-modp2048",
    "aes128gcm16-modp2048",
    "aes128-sha256-modp2048",
    "ah-sha256-modp2048",
];
/// Proposals of a Target: Tunneling Info has room for no more.
const PROPOSALS_MAX: usize = 8;
/// Addresses of a Target, for the same reason.
const ADDRESSES_MAX: usize = 4;

/// A checked file.
pub enum AgentConfig {
    /// Where the user sits.
    Client(ClientConfig),
    /// Keeps the one-time keys.
    Host(HostConfig),
    /// The other end of tunnels.
    Target(Box<TargetConfig>),
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentRole {
    /// Client.
    Client,
    /// Host.
    Host,
    /// Target.
    Target,
}

/// Client's file. All of it has defaults.
#[derive(Clone, Default)]
pub struct ClientConfig {
    /// Where the log goes. Without it, lines are shown and not kept.
    pub log_file: Option<PathBuf>,
    /// Whether shared pairs may be used.
    pub is_legacy: bool,
    /// The IPsec implementation.
    pub back_end: BackEndChoice,
}

/// Host's file.
#[derive(Clone)]
pub struct HostConfig {
    /// Our secret keys.
    pub keys_file: PathBuf,
    /// Where requests and answers come.
    pub listen: SocketAddr,
    /// A path, or the address of a PostgreSQL database.
    pub database: String,
    /// The log.
    pub log_file: PathBuf,
    /// Where users find us, `name:port`, for their sheets.
    pub addresses: Vec<String>,
    /// The Targets, by our name for them.
    pub targets: BTreeMap<String, (Identity, SocketAddr)>,
    /// Whether shared pairs are served.
    pub is_legacy: bool,
}

/// Target's file.
#[derive(Clone)]
pub struct TargetConfig {
    /// Our secret keys.
    pub keys_file: PathBuf,
    /// Where referrals come.
    pub listen: SocketAddr,
    /// A path, or the address of a PostgreSQL database.
    pub database: String,
    /// The log.
    pub log_file: PathBuf,
    /// Where Client's IKE finds us.
    pub addresses: Vec<IpAddr>,
    /// Our IKE identity.
    pub identity: String,
    /// Our certificate and those above it, PEM.
    pub certificate_file: PathBuf,
    /// Its key, PEM.
    pub private_key_file: PathBuf,
    /// Folder of the authority that makes certificates of minutes.
    pub authority: PathBuf,
    /// Versions of IKE that are allowed, and PPKs with the second one.
    pub ike: IkeAbilities,
    /// Algorithms, the best first.
    pub proposals: Vec<String>,
    /// Inner addresses that are lent to Clients.
    pub pool: Option<PoolRange>,
    /// Hosts that may refer users, by name.
    pub hosts: BTreeMap<String, HostPeer>,
    /// Whether shared pairs are served at all.
    pub is_legacy: bool,
    /// The IPsec implementation.
    pub back_end: BackEndChoice,
}

/// The IPsec implementation through which tunnels are built.
#[derive(Clone, Default)]
pub struct BackEndChoice {
    /// Which.
    pub kind: BackEndKind,
    /// The control socket of a program that runs already.
    pub socket: Option<PathBuf>,
    /// Where configuration files go.
    pub folder: Option<PathBuf>,
    /// A connection of the running gateway's own, by which it is found.
    pub connection: Option<String>,
    /// For whom texts are written, if they are only written.
    pub writer: Option<Kind>,
    /// Where the SOCKS server listens.
    pub listen: Option<SocketAddr>,
}

/// An implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackEndKind {
    /// This program.
    #[default]
    Caravan,
    /// This program without root: a SOCKS server. At Client alone.
    Socks,
    /// strongSwan, by vici.
    StrongSwan,
    /// Libreswan, by files and `ipsec auto`.
    Libreswan,
    /// Texts for a foreign system.
    Files,
}

impl AgentConfig {
    /// Its role.
    pub fn role(&self) -> AgentRole {
        match self {
            Self::Client(_) => AgentRole::Client,
            Self::Host(_) => AgentRole::Host,
            Self::Target(_) => AgentRole::Target,
        }
    }

    /// What is unwise, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let is_legacy = match self {
            Self::Client(it) => it.is_legacy,
            Self::Host(it) => it.is_legacy,
            Self::Target(it) => it.is_legacy,
        };
        let mut all = Vec::new();
        if is_legacy {
            let weaknesses = engine::agent::legacy::WEAKNESSES;
            all.extend(weaknesses.map(|it| format!("legacy: {it}")));
        }
        if let Self::Target(it) = self
            && it.ike.has(IkeVersion::V1)
        {
            all.push("version: IKEv1 is deprecated, RFC 9395".to_owned());
        }
        match self {
            Self::Client(_) => {}
            Self::Host(it) => {
                if it.addresses.is_empty() {
                    all.push("addresses: none, so no sheet can be printed".to_owned());
                }
                if it.targets.is_empty() {
                    all.push("targets: none, so no request can be served".to_owned());
                }
            }
            Self::Target(it) => {
                if it.hosts.is_empty() {
                    all.push("hosts: none, so nobody can refer a user".to_owned());
                }
                if it.pool.is_none() {
                    let text = "pool: none, so every Client reaches us with its own address, and \
                                answers go back by ordinary routes";
                    all.push(text.to_owned());
                }
            }
        }
        all
    }
}

/// Whether a file is meant for `caravan tunnel-agent`, also with a slip in its role: of the other
/// processes only those of a wireless link have one, and none has keys or tables of these names.
pub fn is_agent(path: &Path) -> bool {
    let text = read(path, Origin::Files).ok();
    let item = text.and_then(|text| document::parse("", &text).ok());
    let Some(Value::Table(table)) = item.as_ref().map(|item| &item.value) else {
        return false;
    };
    let words = ROLES.iter().map(|(word, _)| *word);
    let words: Vec<&str> = words
        .chain(["role", "back_end", "hosts", "targets"])
        .collect();
    let is_one = |key: &String| words.iter().any(|word| likeness(key, word) >= LIKENESS);
    !["air", "ssid"].iter().any(|key| table.contains_key(*key)) && table.keys().any(is_one)
}

/// From here on a word is a slip of another: `clinet` of `client`.
const LIKENESS: f64 = 0.9;

/// Reads and checks a file. Its file names are made relative to its folder.
pub fn load(path: &Path) -> Result<AgentConfig, ConfigError> {
    let text = read(path, Origin::Files)?;
    let item = document::parse("", &text).map_err(|fault| ConfigError::of_fault(path, fault))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let checked = AgentTable::read(&item).and_then(|table| table.check(&item, folder));
    checked.map_err(|fault| ConfigError::of_fault(path, fault))
}

const ROLES: [(&str, AgentRole); 3] = [
    ("client", AgentRole::Client),
    ("host", AgentRole::Host),
    ("target", AgentRole::Target),
];

const ROLE_EXAMPLE: &str = "role = \"client\", \"host\" or \"target\"";

impl Read for AgentRole {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("role", &ROLES).map_err(|mut fault| {
            fault.what.push_str(": ");
            fault.what.push_str(ROLE_EXAMPLE);
            fault
        })
    }
}

impl Read for Kind {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("writer", &Self::ALL.map(|kind| (kind.name(), kind)))
    }
}

impl Read for BackEndKind {
    fn read(item: &Item) -> Result<Self, Fault> {
        let kinds = [
            ("caravan", Self::Caravan),
            ("socks", Self::Socks),
            ("strongswan", Self::StrongSwan),
            ("libreswan", Self::Libreswan),
            ("files", Self::Files),
        ];
        item.choice("back-end", &kinds)
    }
}

/// The file as written.
enum AgentTable {
    Client(ClientTable),
    Host(HostTable),
    Target(Box<TargetTable>),
}

struct ClientTable {
    log_file: Option<PathBuf>,
    legacy: bool,
    back_end: BackEndTable,
}

struct HostTable {
    keys_file: PathBuf,
    listen: SocketAddr,
    database: String,
    log_file: PathBuf,
    addresses: Vec<String>,
    targets: BTreeMap<String, KnownTarget>,
    legacy: bool,
}

struct TargetTable {
    keys_file: PathBuf,
    listen: SocketAddr,
    database: String,
    log_file: PathBuf,
    addresses: Vec<IpAddr>,
    identity: String,
    certificate_file: PathBuf,
    private_key_file: PathBuf,
    authority: PathBuf,
    version: u8,
    proposals: Vec<String>,
    pool: Option<PoolRange>,
    hosts: BTreeMap<String, KnownHost>,
    legacy: bool,
    back_end: BackEndTable,
}

/// `[back_end]`
#[derive(Default)]
struct BackEndTable {
    kind: BackEndKind,
    socket: Option<PathBuf>,
    folder: Option<PathBuf>,
    connection: Option<String>,
    writer: Option<Kind>,
    listen: Option<SocketAddr>,
}

impl ReadTable for AgentTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        let role: AgentRole = keys.needed("role", ROLE_EXAMPLE)?;
        Ok(match role {
            AgentRole::Client => Self::Client(ClientTable {
                log_file: keys.given("log_file")?,
                legacy: keys.given("legacy")?,
                back_end: keys.given("back_end")?,
            }),
            AgentRole::Host => Self::Host(HostTable::of(keys)?),
            AgentRole::Target => Self::Target(TargetTable::of(keys)?.into()),
        })
    }
}

/// Every address of IPv4, at the agents' port.
fn anywhere() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT)
}

impl ReadTable for HostTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            keys_file: keys.or("keys_file", "host.keys".into())?,
            listen: keys.or("listen", anywhere())?,
            database: keys.or("database", "host.db".to_owned())?,
            log_file: keys.or("log_file", "host.log".into())?,
            addresses: keys.given("addresses")?,
            targets: keys.given("targets")?,
            legacy: keys.given("legacy")?,
        })
    }
}

impl ReadTable for TargetTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        let proposals = PROPOSALS.map(str::to_owned).to_vec();
        Ok(Self {
            keys_file: keys.or("keys_file", "target.keys".into())?,
            listen: keys.or("listen", anywhere())?,
            database: keys.or("database", "target.db".to_owned())?,
            log_file: keys.or("log_file", "target.log".into())?,
            addresses: keys.needed("addresses", "addresses = [\"192.0.2.9\"]")?,
            identity: keys.needed("identity", "identity = \"target.example\"")?,
            certificate_file: keys.needed(
                "certificate_file",
                "our certificate: certificate_file = \"target.example.pem\"",
            )?,
            private_key_file: keys.needed(
                "private_key_file",
                "private_key_file = \"target.example.key\"",
            )?,
            authority: keys.needed(
                "authority",
                "the folder that `caravan pki ca` has made: authority = \"pki\"",
            )?,
            version: keys.or("version", 2)?,
            proposals: keys.or("proposals", proposals)?,
            pool: keys.given("pool")?,
            hosts: keys.given("hosts")?,
            legacy: keys.given("legacy")?,
            back_end: keys.given("back_end")?,
        })
    }
}

impl ReadTable for BackEndTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            kind: keys.given("kind")?,
            socket: keys.given("socket")?,
            folder: keys.given("folder")?,
            connection: keys.given("connection")?,
            writer: keys.given("writer")?,
            listen: keys.given("listen")?,
        })
    }
}

impl AgentTable {
    fn check(self, item: &Item, folder: &Path) -> Result<AgentConfig, Fault> {
        let within = |path: PathBuf| folder.join(path);
        Ok(match self {
            Self::Client(table) => AgentConfig::Client(ClientConfig {
                log_file: table.log_file.map(within),
                is_legacy: table.legacy,
                back_end: table.back_end.check(item, folder)?,
            }),
            Self::Host(table) => AgentConfig::Host(table.check(item, folder)?),
            Self::Target(table) => AgentConfig::Target(table.check(item, folder)?.into()),
        })
    }
}

impl HostTable {
    fn check(self, item: &Item, folder: &Path) -> Result<HostConfig, Fault> {
        if self.addresses.len() > HOSTS_MAX {
            let text = format!("a sheet has room for {HOSTS_MAX} addresses");
            return Err(at(item, &["addresses"], text));
        }
        for address in &self.addresses {
            check_place(item, address)?;
        }
        let targets = known_targets(self.targets, item, folder)?;
        Ok(HostConfig {
            keys_file: folder.join(self.keys_file),
            listen: self.listen,
            database: self.database,
            log_file: folder.join(self.log_file),
            addresses: self.addresses,
            targets,
            is_legacy: self.legacy,
        })
    }
}

impl TargetTable {
    fn check(self, item: &Item, folder: &Path) -> Result<TargetConfig, Fault> {
        if !(1..=ADDRESSES_MAX).contains(&self.addresses.len()) {
            let text = format!("1 to {ADDRESSES_MAX} addresses");
            return Err(at(item, &["addresses"], text));
        }
        if let Some(address) = self.addresses.iter().find(|it| it.is_unspecified()) {
            let text = format!("nobody can reach {address}");
            return Err(at(item, &["addresses"], text));
        }
        if !(1..=PROPOSALS_MAX).contains(&self.proposals.len()) {
            let text = format!("1 to {PROPOSALS_MAX} proposals");
            return Err(at(item, &["proposals"], text));
        }
        let ike = versions(self.version);
        let Some(ike) = ike else {
            let text = "2, or 1, which is deprecated (RFC 9395); 0 takes 1 from a Client that has \
                        nothing better";
            return Err(at(item, &["version"], text));
        };
        for version in IkeVersion::ALL.into_iter().filter(|it| ike.has(*it)) {
            if let Err(fault) = Proposals::read(&self.proposals, version, self.legacy) {
                return Err(at(item, &["proposals"], fault.to_string()));
            }
        }
        if let Err(fault) = Name::parse(&self.identity) {
            return Err(at(item, &["identity"], fault.to_string()));
        }
        let hosts = known_hosts(self.hosts, (item, self.legacy), folder)?;
        let back_end = self.back_end.check(item, folder)?;
        back_end.check_of_target(item)?;
        if let Some(kind) = back_end
            .writer
            .filter(|it| it.ike().common(ike).best().is_none())
        {
            let text = format!("{} has IKEv1 alone: add version = 1", kind.name());
            return Err(at(item, &["version"], text));
        }
        Ok(TargetConfig {
            keys_file: folder.join(self.keys_file),
            listen: self.listen,
            database: self.database,
            log_file: folder.join(self.log_file),
            addresses: self.addresses,
            identity: self.identity,
            certificate_file: folder.join(self.certificate_file),
            private_key_file: folder.join(self.private_key_file),
            authority: folder.join(self.authority),
            ike,
            proposals: self.proposals,
            pool: self.pool,
            hosts,
            is_legacy: self.legacy,
            back_end,
        })
    }
}

/// The versions that a number of the file means, as it does in a gateway's file.
fn versions(number: u8) -> Option<IkeAbilities> {
    let one = |version| core::iter::once(version).collect::<IkeAbilities>();
    match number {
        0 => Some(IkeAbilities::ALL),
        1 => Some(one(IkeVersion::V1)),
        2 => Some(one(IkeVersion::V2).with_ppk(true)),
        _ => None,
    }
}

impl BackEndChoice {
    /// What Target needs besides.
    fn check_of_target(&self, item: &Item) -> Result<(), Fault> {
        let is_found = self.connection.is_some() && self.folder.is_some();
        let (key, text) = match self.kind {
            BackEndKind::Socks => ("kind", "this is Client's way without root"),
            BackEndKind::Caravan if !is_found => (
                "",
                "the back-end is a running `caravan gateway`: [back_end] needs connection, one of \
                 its own, and folder, which its file includes",
            ),
            _ => return Ok(()),
        };
        Err(at(item, &["back_end", key], text))
    }
}

impl BackEndTable {
    fn check(self, item: &Item, folder: &Path) -> Result<BackEndChoice, Fault> {
        let is_files = self.kind == BackEndKind::Files;
        if is_files != self.writer.is_some() {
            let text = match is_files {
                true => {
                    "kind = \"files\" needs writer = \"setkey\", or another of `caravan \
                         tunnel-agent write --help`"
                }
                false => "this belongs to kind = \"files\"",
            };
            let key = if is_files { "kind" } else { "writer" };
            return Err(at(item, &["back_end", key], text));
        }
        if self.listen.is_some() && self.kind != BackEndKind::Socks {
            let text = "this belongs to kind = \"socks\"";
            return Err(at(item, &["back_end", "listen"], text));
        }
        Ok(BackEndChoice {
            kind: self.kind,
            socket: self.socket.map(|it| folder.join(it)),
            folder: self.folder.map(|it| folder.join(it)),
            connection: self.connection,
            writer: self.writer,
            listen: self.listen,
        })
    }
}

/// `name:port`, as a sheet has it.
fn check_place(item: &Item, address: &str) -> Result<(), Fault> {
    let parts = address.rsplit_once(':');
    let is_good = parts.is_some_and(|(name, port)| {
        port.parse::<u16>().is_ok_and(|port| port > 0) && !name.is_empty() && is_text(address)
    });
    match is_good && address.len() <= ADDRESS_MAX {
        true => Ok(()),
        false => Err(at(
            item,
            &["addresses"],
            format!("{address:?} is not NAME:PORT, such as \"host.example:51516\""),
        )),
    }
}

/// An error at a key, or at the nearest table that is there.
fn at(item: &Item, keys: &[&str], what: impl Into<String>) -> Fault {
    let mut here = item;
    for key in keys {
        match &here.value {
            Value::Table(table) => match table.get(*key) {
                Some(next) => here = next,
                None => break,
            },
            _ => break,
        }
    }
    here.fault(what)
}

#[cfg(test)]
mod tests;
