//! The addresses of former peers in transport mode without a pool address.
//!
//! After such a peer's tunnel has gone, packets from a server inside or from the gateway itself
//! would follow the ordinary route unencrypted: flows and their translations outlive the process.
//! So packets to such an address are refused while no tunnel carries them, as for pools.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use engine::config::Connection;
use engine::node::{ConnectionStatus, Node};
use engine::time::Instant;

use crate::routes::{Desired, Prefix};

/// Addresses without a tunnel that one process remembers. Beyond that the oldest one is reachable
/// unencrypted again.
const FORMER_MAX: usize = 1_024;

/// By connection, the addresses of peers that are up or were.
#[derive(Debug, Default)]
pub(super) struct FormerPeers {
    peers: BTreeMap<String, BTreeMap<Prefix, Stay>>,
    round: u64,
}

/// When an address was a peer's.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    /// The round in which it was last seen.
    seen: u64,
    /// The number of the first desired state with its block. Each later state has it too, so the
    /// host has it once one of them is applied.
    since: Option<u64>,
}

impl FormerPeers {
    /// Keeps the blocks of an earlier process.
    pub(super) fn left_by(blocks: &BTreeMap<String, BTreeSet<Prefix>>) -> Self {
        let all = blocks.iter();
        let peers = all.map(|(name, prefixes)| {
            let hosts = prefixes.iter().filter(|prefix| prefix.is_host());
            let left = Stay {
                seen: 0,
                since: Some(0),
            };
            (name.clone(), hosts.map(|host| (*host, left)).collect())
        });
        Self {
            peers: peers.collect(),
            round: 0,
        }
    }

    /// Routes authenticated peers into the tunnel, so that the return route exists before the first
    /// packet. Refuses traffic to former peers of blocking connections.
    pub(super) fn route<'a>(
        &mut self,
        (node, now): (&Node, Instant),
        bare: impl Iterator<Item = (&'a Connection, bool)>,
        desired: &mut Desired,
    ) {
        let bare: BTreeMap<&str, bool> = bare.map(|(c, blocks)| (&*c.name, blocks)).collect();
        if bare.is_empty() {
            return self.peers.clear();
        }
        self.peers
            .retain(|name, _| bare.get(&**name) == Some(&true));
        let mut up = Vec::new();
        for connection in node.status(now).connections {
            let Some(blocks) = bare.get(&*connection.name) else {
                continue;
            };
            for (peer, own) in peers(&connection) {
                desired.routes.insert(peer, Some(own));
                if *blocks {
                    up.push((connection.name.clone(), peer));
                }
            }
        }
        self.block(up, desired);
    }

    /// Refuses traffic to these peers, which are up, and to former ones while no tunnel carries it.
    pub(super) fn block(&mut self, up: Vec<(String, Prefix)>, desired: &mut Desired) {
        self.round += 1;
        for (name, peer) in up {
            let known = self.peers.entry(name).or_default();
            known.entry(peer).or_default().seen = self.round;
        }
        self.forget();
        for (name, peers) in &self.peers {
            let blocked = desired.blocks.entry(name.clone()).or_default();
            blocked.extend(peers.keys());
        }
    }

    /// The desired state of this number has the blocks of all these addresses.
    pub(super) fn note(&mut self, number: u64) {
        for stay in self.peers.values_mut().flat_map(BTreeMap::values_mut) {
            stay.since.get_or_insert(number);
        }
    }

    /// Forgets those of these addresses that no applied state has blocked: no tunnel has led there,
    /// so no flow of theirs could leave unencrypted. If the host refuses the block itself, it would
    /// refuse each later state too.
    pub(super) fn forget_refused(
        &mut self,
        refused: &BTreeSet<Prefix>,
        has_applied: impl Fn(u64) -> bool,
    ) {
        for peers in self.peers.values_mut() {
            peers.retain(|peer, stay| {
                !refused.contains(peer) || stay.since.is_some_and(&has_applied)
            });
        }
    }

    /// Bounds the addresses without a tunnel. The node's own limits bound the others.
    fn forget(&mut self) {
        let round = self.round;
        let all = self.peers.iter();
        let mut former: Vec<(u64, Prefix, String)> = all
            .flat_map(|(name, peers)| {
                peers
                    .iter()
                    .map(move |(peer, stay)| (stay.seen, *peer, name))
            })
            .filter(|(at, _, _)| *at != round)
            .map(|(at, peer, name)| (at, peer, name.clone()))
            .collect();
        let Some(over) = former.len().checked_sub(FORMER_MAX) else {
            return;
        };
        former.sort_unstable();
        for (_, peer, name) in former.into_iter().take(over) {
            if let Some(peers) = self.peers.get_mut(&name) {
                peers.remove(&peer);
            }
        }
    }
}

/// Address of each authenticated peer, and our own towards it.
fn peers(connection: &ConnectionStatus) -> impl Iterator<Item = (Prefix, IpAddr)> {
    let sessions = connection.sessions.iter();
    let proven = sessions.filter(|session| session.age.is_some() || !session.children.is_empty());
    proven.map(|session| {
        // An address that the peer has not proven is not its own: a route would take the traffic of
        // another host.
        let path = session.home;
        (Prefix::host(path.remote.ip()), path.local.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_that_went_first_are_forgotten_first() {
        let host = |index: u32| Prefix::host(std::net::Ipv4Addr::from(0x0a00_0000 + index).into());
        let network: Prefix = "10.99.0.0/24".parse().unwrap();
        let left: Vec<Prefix> = [network].into_iter().chain((0..4).map(host)).collect();
        let blocks = [("ms".to_owned(), left.into_iter().collect())].into();
        let mut former = FormerPeers::left_by(&blocks);
        assert!(!former.peers["ms"].contains_key(&network));
        let over = 2;
        let many = FORMER_MAX as u32 - 4 + over;
        let seen = |index: u32| Stay {
            seen: u64::from(index) + 1,
            since: None,
        };
        let more = (0..many).map(|index| (host(100 + index), seen(index)));
        former.peers.get_mut("ms").unwrap().extend(more);
        former.round = u64::from(many);
        // The last one is up.
        former.forget();
        assert_eq!(former.peers["ms"].len(), FORMER_MAX + 1);
        former.round += 1;
        former.forget();
        assert_eq!(former.peers["ms"].len(), FORMER_MAX);
        let gone: Vec<u32> = (0..4)
            .filter(|index| !former.peers["ms"].contains_key(&host(*index)))
            .collect();
        assert_eq!(gone, [0, 1]);
    }
}
