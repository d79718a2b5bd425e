//! Peers of transport mode that no pool address stands for: where they have been.
//!
//! What a server inside, or the gateway itself, still has to say to one of them when its tunnel has
//! gone would follow the ordinary route in clear: flows and their translations outlive the process.
//! So what is for such an address is refused while no tunnel takes it, as it is for pools.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use engine::config::Connection;
use engine::node::{ConnectionStatus, Node};
use engine::time::Instant;

use crate::routes::{Desired, Prefix};

/// Addresses without a tunnel that one process remembers: beyond that the one that went first is
/// spoken to in clear again.
const FORMER_MAX: usize = 1_024;

/// By connection, each address with the round in which it was seen last.
#[derive(Debug, Default)]
pub(super) struct FormerPeers {
    peers: BTreeMap<String, BTreeMap<Prefix, u64>>,
    round: u64,
}

impl FormerPeers {
    /// What an earlier process has left refused stays so.
    pub(super) fn left_by(blocks: &BTreeMap<String, BTreeSet<Prefix>>) -> Self {
        let all = blocks.iter();
        let peers = all.map(|(name, prefixes)| {
            let hosts = prefixes.iter().filter(|prefix| prefix.is_host());
            (name.clone(), hosts.map(|host| (*host, 0)).collect())
        });
        Self {
            peers: peers.collect(),
            round: 0,
        }
    }

    /// Routes the peers that have proven themselves into the tunnel, from then on, so that the way
    /// back is there before the first packet; and refuses, of connections that block, what is for
    /// those that were there.
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
        self.round += 1;
        self.peers
            .retain(|name, _| bare.get(&**name) == Some(&true));
        for connection in node.status(now).connections {
            let Some(blocks) = bare.get(&*connection.name) else {
                continue;
            };
            for (peer, own) in peers(&connection) {
                desired.routes.insert(peer, Some(own));
                if *blocks {
                    let known = self.peers.entry(connection.name.clone()).or_default();
                    known.insert(peer, self.round);
                }
            }
        }
        self.forget();
        for (name, peers) in &self.peers {
            let blocked = desired.blocks.entry(name.clone()).or_default();
            blocked.extend(peers.keys());
        }
    }

    /// Those without a tunnel are bounded; those with one are by the node's own limits.
    fn forget(&mut self) {
        let round = self.round;
        let all = self.peers.iter();
        let mut former: Vec<(u64, Prefix, String)> = all
            .flat_map(|(name, peers)| peers.iter().map(move |(peer, at)| (*at, *peer, name)))
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

/// Address of each peer that is authenticated, and our own towards it.
fn peers(connection: &ConnectionStatus) -> impl Iterator<Item = (Prefix, IpAddr)> {
    let sessions = connection.sessions.iter();
    let proven = sessions.filter(|session| session.age.is_some() || !session.children.is_empty());
    proven.map(|session| {
        // What it only writes from is not its own: a route would take what is for whoever is there.
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
        let more = (0..many).map(|index| (host(100 + index), u64::from(index) + 1));
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
