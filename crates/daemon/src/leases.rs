//! The last inner addresses of a client, kept over restarts and reboots.
//!
//! A program's connection keeps its first source address. A client that waits for traffic must have
//! an inner address before the first packet, so it takes the last one and requests it again. The
//! file belongs to the user of the network process; all other readers treat it as untrusted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use engine::config::Connection;
use engine::dns::{MAX_DOMAINS, domain};
use engine::ikev1::mode_config::MAX_RESOLVERS;
use engine::site::{is_common, is_unicast};
use serde::{Deserialize, Serialize};

use crate::files;
use crate::routes::Prefix;

/// The parts of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Inner addresses.
    pub addresses: Vec<IpAddr>,
    /// Their resolvers.
    pub dns: Vec<IpAddr>,
    /// Domains whose names alone they are asked for; empty: all names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
}

const FILE: &str = "leases.json";
/// Longest file of leases.
const BYTES_MAX: u64 = 1 << 20;

/// The leases of one process by connection: `NAME.leases/leases.json` in the state directory.
pub struct LeaseFile {
    path: PathBuf,
    /// The open folder. The user who writes may have no access to its path.
    opened: Option<File>,
    leases: BTreeMap<String, Lease>,
}

impl LeaseFile {
    /// Reads the file, in a folder that is named after one of the connections: the first one that
    /// has one, so that a connection that is added changes nothing. An unreadable file counts as
    /// empty: new leases will come.
    pub fn open(state_dir: &Path, names: &[String]) -> Self {
        let folder = |name: &String| state_dir.join(format!("{name}.leases"));
        let mut existing = names.iter().map(folder).filter(|it| it.is_dir());
        let folder = existing.next().or_else(|| names.first().map(folder));
        let path = folder.unwrap_or_else(|| state_dir.to_owned()).join(FILE);
        let text = files::read(&path, BYTES_MAX).unwrap_or_default();
        let leases = parse(&text).unwrap_or_default();
        Self {
            path,
            opened: None,
            leases,
        }
    }

    /// Creates the folder, for the process that writes there later.
    pub fn prepare(&mut self) -> io::Result<()> {
        self.opened = Some(files::hold_folder(self.folder(), 0o700)?);
        Ok(())
    }

    /// Reads it again as its owner: the process may have started without the right to read it.
    pub fn read_again(&mut self) {
        let folder = self.opened.as_ref();
        let read = folder.and_then(|folder| files::read_in(folder, FILE, BYTES_MAX).ok());
        if let Some(leases) = read.and_then(|(text, _)| parse(&text)) {
            self.leases = leases;
        }
    }

    /// The open folder: the user must be able to write to it, and this process keeps other files
    /// there as well. `None`: it was not prepared. Its path may lead elsewhere by now.
    pub fn opened(&self) -> Option<File> {
        self.opened.as_ref()?.try_clone().ok()
    }

    /// The name of the folder.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// The last lease of a connection.
    pub fn last(&self, connection: &str) -> Option<&Lease> {
        self.leases.get(connection)
    }

    /// The lease that a connection may take again: addresses of the families that it requests. The
    /// address of its gateway is never an inner address, because it would cut this host off from
    /// the gateway at each start; nor is one of `own`, those of this host's links, unless it is
    /// private.
    pub fn again(&self, connection: &Connection, own: &[IpAddr]) -> Option<Lease> {
        let mut lease = self.last(&connection.name)?.clone();
        let wants = connection.wants_inner;
        lease.addresses.retain(|address| {
            let is_wanted = if address.is_ipv4() {
                wants.v4
            } else {
                wants.v6
            };
            let mut gateways = connection.remote_addrs.iter();
            let is_ours = own.contains(address) && !is_common(address);
            is_wanted && !is_ours && !gateways.any(|gateway| gateway.ip() == *address)
        });
        (!lease.addresses.is_empty()).then_some(lease)
    }

    /// Stores a lease, all or nothing. A missing folder was reported at the start.
    pub fn note(&mut self, connection: &str, lease: Lease) -> io::Result<()> {
        if self.leases.get(connection) == Some(&lease) {
            return Ok(());
        }
        self.leases.insert(connection.to_owned(), lease);
        let Some(folder) = &self.opened else {
            return Ok(());
        };
        files::replace(folder, FILE, &serde_json::to_vec_pretty(&self.leases)?).map(drop)
    }
}

/// Parses a file of leases, and keeps what a gateway could have lent. The steward would refuse an
/// impossible address again at each start.
fn parse(text: &[u8]) -> Option<BTreeMap<String, Lease>> {
    let mut leases: BTreeMap<String, Lease> = serde_json::from_slice(text).ok()?;
    for lease in leases.values_mut() {
        let mut families = [false; 2];
        lease.addresses.retain(|address| {
            let is_taken = &mut families[usize::from(address.is_ipv6())];
            is_unicast(address) && !core::mem::replace(is_taken, true)
        });
        lease.dns.retain(is_unicast);
        lease.dns.truncate(MAX_RESOLVERS);
        let is_list = lease.domains.len() <= MAX_DOMAINS;
        let is_domain = |it: &String| domain(it).as_ref() == Some(it);
        if !(is_list && lease.domains.iter().all(is_domain)) {
            lease.domains.clear();
        }
    }
    Some(leases)
}

/// Says that a lease lies in a network of this host's links: who has this address there is not
/// reached.
pub fn overlap(lease: &Lease, own: &[(String, IpAddr, Prefix)]) -> Option<String> {
    let mut all = lease.addresses.iter().flat_map(|lent| {
        let host = Prefix::host(*lent);
        let within = own.iter().filter(move |(_, _, it)| it.contains(&host));
        within.map(move |(link, _, network)| (lent, link, network))
    });
    let (lent, link, network) = all.next()?;
    Some(format!(
        "the inner address {lent} is in {network}, the network of {link}: a host there with this \
         address is not reached meanwhile"
    ))
}

/// Whether a process with this connection has left a folder in the state directory: its own, or one
/// with its lease.
pub fn knows(state_dir: &Path, connection: &str) -> bool {
    let folders = fs::read_dir(state_dir).into_iter().flatten().flatten();
    let mut names = folders.filter_map(|found| {
        let name = found.file_name().into_string().ok()?;
        let of_process = name.strip_suffix(".d").or(name.strip_suffix(".leases"));
        Some(of_process?.to_owned())
    });
    names.any(|name| {
        name == connection || {
            let file = LeaseFile::open(state_dir, &[name]);
            file.last(connection).is_some()
        }
    })
}

/// The process's folder in the state directory for the steward's files.
pub fn folder(state_dir: &Path, name: &str) -> PathBuf {
    state_dir.join(format!("{name}.d"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn a_lease_is_found_again_and_a_damaged_file_counts_for_nothing() {
        let state = std::env::temp_dir().join(format!("caravan-leases-{}", std::process::id()));
        let lease = Lease {
            addresses: vec!["10.99.0.7".parse().unwrap()],
            dns: vec!["10.10.0.53".parse().unwrap()],
            domains: vec!["corp.example".into()],
        };
        let home = ["home".to_owned()];
        let mut file = LeaseFile::open(&state, &home);
        file.prepare().unwrap();
        assert_eq!(file.last("home"), None);
        file.note("home", lease.clone()).unwrap();
        let mut file = LeaseFile::open(&state, &home);
        file.prepare().unwrap();
        assert_eq!(file.last("home"), Some(&lease));
        assert_eq!(file.last("work"), None);
        file.note("work", lease).unwrap();
        let known = ["home", "work", "other"].map(|name| knows(&state, name));
        assert_eq!(known, [true, true, false]);
        // Another connection comes before it in the file.
        let both = ["added".to_owned(), "home".to_owned()];
        let last = LeaseFile::open(&state, &both).last("home").cloned();
        assert!(last.is_some());
        fs::write(file.folder().join("leases.json"), b"{\"home\":").unwrap();
        assert_eq!(LeaseFile::open(&state, &home).last("home"), None);
        fs::remove_dir_all(&state).unwrap();
    }

    #[test]
    fn an_address_of_the_gateway_or_of_another_link_is_not_taken_again() {
        let folder = std::env::temp_dir().join(format!("caravan-again-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("c.toml");
        let text = "[connections.home]\nremote_addrs = [\"192.0.2.1\", \"192.0.2.2\"]\n\
            vips = [\"0.0.0.0\"]\nlocal = { auth = \"psk\", secret = \"s\", id = \"a.example\" }\n\
            remote = { auth = \"psk\", id = \"b.example\" }\n\
            [connections.home.children.net]\nremote_ts = [\"10.10.0.0/24\"]\n";
        fs::write(&path, text).unwrap();
        let loaded = config::load(&path, config::Names::Unasked).unwrap();
        let connection = &loaded.engine.connections[0];
        let mut file = LeaseFile::open(&folder, &["home".into()]);
        let mut again = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
            let dns = Vec::new();
            let lease = Lease {
                addresses,
                dns,
                ..Lease::default()
            };
            file.note("home", lease).unwrap();
            let own = ["198.51.100.7", "10.99.0.8"].map(|it| it.parse().unwrap());
            file.again(connection, &own).map(|lease| lease.addresses)
        };
        assert_eq!(again(&["192.0.2.1"]), None);
        assert_eq!(again(&["192.0.2.2"]), None);
        assert_eq!(again(&["fd00::7"]), None);
        assert_eq!(again(&["198.51.100.7"]), None, "our own");
        let private: Vec<IpAddr> = vec!["10.99.0.8".parse().unwrap()];
        assert_eq!(again(&["10.99.0.8"]), Some(private));
        let expected: Vec<IpAddr> = vec!["10.99.0.7".parse().unwrap()];
        assert_eq!(again(&["10.99.0.7", "fd00::7"]), Some(expected));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_lease_in_a_network_of_this_host_is_told() {
        let network = |text: &str| text.parse::<Prefix>().unwrap();
        let own = [("eth0", "192.168.1.0/24"), ("eth1", "fd00::/64")];
        let own = own.map(|(link, it)| (link.to_owned(), network(it).address, network(it)));
        let told = |address: &str| {
            let lease = Lease {
                addresses: vec![address.parse().unwrap()],
                ..Lease::default()
            };
            overlap(&lease, &own)
        };
        let text = told("192.168.1.9").expect("a warning");
        assert!(text.contains("192.168.1.9 is in 192.168.1.0/24, the network of eth0"));
        assert!(told("fd00::9").is_some());
        assert_eq!(told("10.99.0.1"), None);
    }

    #[test]
    fn what_no_gateway_could_have_lent_is_passed_over() {
        let text = br#"{
            "home": {
                "addresses": ["127.0.0.1", "10.99.0.7", "10.99.0.8", "fd00::7", "ff02::1"],
                "dns": ["0.0.0.0", "1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4", "1.0.0.5",
                    "1.0.0.6", "1.0.0.7", "1.0.0.8", "1.0.0.9"]
            },
            "work": { "addresses": ["255.255.255.255"], "dns": [] }
        }"#;
        let leases = parse(text).unwrap();
        let home = &leases["home"];
        let expected: [IpAddr; 2] = ["10.99.0.7", "fd00::7"].map(|it| it.parse().unwrap());
        assert_eq!(home.addresses, expected);
        let last: IpAddr = "1.0.0.8".parse().unwrap();
        assert_eq!(
            (home.dns.len(), home.dns.last()),
            (MAX_RESOLVERS, Some(&last))
        );
        assert_eq!(leases["work"], Lease::default());
    }
}
