//! Agents that an agent knows: their keys, and where they are.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crypto::ed25519::VerifyKey;
use crypto::hpke::PublicKey;
use document::{Fault, Item};
use engine::agent::identity::{AgentName, Fingerprint, Identity};

use super::at;
use crate::config::read::{Keys, Read, ReadTable};
use crate::config::wireless::octets_of;
use crate::config::{Origin, read};

/// Octets of a Host's name, so that User@Host is an IKE identity everywhere.
const HOST_NAME_MAX: usize = 63;
/// Tunnels of a Host: Target does not remember more.
const TUNNELS_MAX: u16 = engine::agent::target::TUNNELS_MAX as u16;

/// `[targets.NAME]`
pub(super) struct KnownTarget {
    known: Known,
    address: SocketAddr,
}

/// `[hosts.NAME]`
pub(super) struct KnownHost {
    known: Known,
    addresses: Vec<IpAddr>,
    legacy: bool,
    tunnels: Option<u16>,
}

/// A Host that may refer users.
#[derive(Clone)]
pub struct HostPeer {
    /// Its public keys.
    pub identity: Identity,
    /// Where its messages come from.
    pub addresses: Vec<IpAddr>,
    /// Whether it may refer users with shared pairs.
    pub is_legacy: bool,
    /// How many tunnels it may have at a time. None: its share of all.
    pub tunnels: Option<u16>,
}

/// An agent's public keys, or the file that has them.
struct Known {
    identity: Option<Identity>,
    identity_file: Option<PathBuf>,
}

/// The public keys of an agent, as `caravan tunnel-agent init` prints them.
impl Read for Identity {
    fn read(item: &Item) -> Result<Self, Fault> {
        let text = item.text()?;
        identity_of(text).ok_or_else(|| {
            item.fault(
                "this is not the identity of an agent: the 128 hexadecimal digits that `caravan \
                 tunnel-agent init` prints",
            )
        })
    }
}

/// Reads what [`identity_text`] has made.
pub fn identity_of(text: &str) -> Option<Identity> {
    let octets = octets_of(text)?;
    let (sealing, signing) = octets.split_first_chunk::<32>()?;
    Some(Identity {
        sealing: PublicKey(*sealing),
        signing: VerifyKey(signing.try_into().ok()?),
    })
}

/// Both public keys in hexadecimal.
pub fn identity_text(identity: &Identity) -> String {
    let octets = identity.sealing.0.iter().chain(&identity.signing.0);
    octets.map(|octet| format!("{octet:02x}")).collect()
}

impl Known {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            identity: keys.given("identity")?,
            identity_file: keys.given("identity_file")?,
        })
    }

    fn check(&self, item: &Item, place: [&str; 2], folder: &Path) -> Result<Identity, Fault> {
        let at = |key: &str, what: String| at(item, &[place[0], place[1], key], what);
        match (self.identity, &self.identity_file) {
            (Some(identity), None) => Ok(identity),
            (None, Some(name)) => {
                let path = folder.join(name);
                let text = read(&path, Origin::Files)
                    .map_err(|fault| at("identity_file", fault.to_string()))?;
                identity_of(text.trim()).ok_or_else(|| {
                    let what = "this is not what `caravan tunnel-agent init` has written";
                    at("identity_file", format!("{}: {what}", path.display()))
                })
            }
            _ => Err(at(
                "identity",
                "identity or identity_file: what `caravan tunnel-agent init` prints there, or \
                 the file *.pub that it makes"
                    .to_owned(),
            )),
        }
    }
}

impl ReadTable for KnownTarget {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            known: Known::of(keys)?,
            address: keys.needed("address", "address = \"192.0.2.9:51516\"")?,
        })
    }
}

impl ReadTable for KnownHost {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            known: Known::of(keys)?,
            addresses: keys.needed("addresses", "addresses = [\"192.0.2.1\"]")?,
            legacy: keys.given("legacy")?,
            tunnels: keys.given("tunnels")?,
        })
    }
}

type Targets = BTreeMap<String, (Identity, SocketAddr)>;

/// Checks `[targets.NAME]`.
pub(super) fn known_targets(
    tables: BTreeMap<String, KnownTarget>,
    item: &Item,
    folder: &Path,
) -> Result<Targets, Fault> {
    let mut fingerprints: BTreeMap<Fingerprint, String> = BTreeMap::new();
    let mut targets = BTreeMap::new();
    for (name, target) in tables {
        let identity = target.known.check(item, ["targets", &name], folder)?;
        let other = fingerprints.insert(identity.fingerprint(), name.clone());
        if let Some(other) = other {
            let text = format!("this has the identity of {other} too");
            return Err(at(item, &["targets", &name], text));
        }
        let mut address = target.address;
        address.set_ip(address.ip().to_canonical());
        targets.insert(name, (identity, address));
    }
    Ok(targets)
}

type Hosts = BTreeMap<String, HostPeer>;

/// Checks `[hosts.NAME]`.
pub(super) fn known_hosts(
    tables: BTreeMap<String, KnownHost>,
    (item, is_legacy): (&Item, bool),
    folder: &Path,
) -> Result<Hosts, Fault> {
    let mut names: BTreeMap<AgentName, String> = BTreeMap::new();
    let mut hosts = BTreeMap::new();
    for (name, host) in tables {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if name.len() > HOST_NAME_MAX || name.is_empty() || !name.chars().all(is_sign) {
            let text = "users are known as USER@NAME: letters, digits, '.', '-' and '_'";
            return Err(at(item, &["hosts", &name], text));
        }
        if host.addresses.is_empty() {
            let text = "from nowhere it can say nothing";
            return Err(at(item, &["hosts", &name, "addresses"], text));
        }
        if host.legacy && !is_legacy {
            let text = "the file needs legacy = true too";
            return Err(at(item, &["hosts", &name, "legacy"], text));
        }
        if host
            .tunnels
            .is_some_and(|it| !(1..=TUNNELS_MAX).contains(&it))
        {
            let text = format!("1 to {TUNNELS_MAX} tunnels at a time");
            return Err(at(item, &["hosts", &name, "tunnels"], text));
        }
        let identity = host.known.check(item, ["hosts", &name], folder)?;
        if let Some(other) = names.insert(identity.name(), name.clone()) {
            let text = format!("this has the identity of {other} too");
            return Err(at(item, &["hosts", &name], text));
        }
        let peer = HostPeer {
            identity,
            addresses: host.addresses.iter().map(IpAddr::to_canonical).collect(),
            is_legacy: host.legacy,
            tunnels: host.tunnels,
        };
        hosts.insert(name, peer);
    }
    Ok(hosts)
}
