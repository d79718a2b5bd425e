//! What the peer of an inbound SA of SKIP may write. Its key proves who it is; in its packets it
//! could still write any address.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::selector::TrafficSelector;

/// Who sends the packets of an SA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sender {
    /// A peer that may write all that the selectors allow.
    #[default]
    Any,
    /// One of several hosts: the inner packet has the source of the packet that carries it.
    Host,
    /// A mobile node: the same, and what [`Mobile`] says.
    Mobile(Mobile),
}

/// What a mobile node outside may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mobile {
    /// Its messages and tunnels carry this home address. `None`: one that is not reserved.
    pub home_address: Option<Ipv4Addr>,
    /// Where other packets may go than messages and tunnels of Mobile IPv4, SKIP and ICMP.
    pub inside: Vec<TrafficSelector>,
    /// Addresses of others.
    pub reserved: Arc<Reserved>,
}

/// Addresses that nobody outside has, so that no packet from there bears them as its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    hosts: BTreeSet<Ipv4Addr>,
    homes: BTreeSet<Ipv4Addr>,
    /// First and last address, in order, without a common one.
    ranges: Vec<(u32, u32)>,
}

impl Reserved {
    /// Hosts, home addresses of mobile nodes, and networks.
    pub fn new(
        hosts: impl IntoIterator<Item = Ipv4Addr>,
        homes: impl IntoIterator<Item = Ipv4Addr>,
        networks: impl IntoIterator<Item = TrafficSelector>,
    ) -> Self {
        let networks = networks.into_iter().filter_map(range);
        let all: BTreeSet<(u32, u32)> = networks.collect();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self {
            hosts: hosts.into_iter().collect(),
            homes: homes.into_iter().collect(),
            ranges,
        }
    }

    /// Whether an address is another's for the node with this home address.
    pub fn holds(&self, address: Ipv4Addr, own: Option<Ipv4Addr>) -> bool {
        let bits = address.to_bits();
        let after = self.ranges.partition_point(|(first, _)| *first <= bits);
        let is_within = after > 0 && bits <= self.ranges[after - 1].1;
        is_within || self.has_host(address, own)
    }

    /// The same without the networks.
    pub fn has_host(&self, address: Ipv4Addr, own: Option<Ipv4Addr>) -> bool {
        let is_other = own != Some(address);
        self.hosts.contains(&address) || is_other && self.homes.contains(&address)
    }
}

fn range(network: TrafficSelector) -> Option<(u32, u32)> {
    let bits = |address| match address {
        std::net::IpAddr::V4(v4) => Some(Ipv4Addr::to_bits(v4)),
        std::net::IpAddr::V6(_) => None,
    };
    Some((bits(network.first)?, bits(network.last)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(text: &str) -> Ipv4Addr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_that_overlap_are_one() {
        let network = |text: &str, bits| TrafficSelector::subnet(v4(text).into(), bits);
        let networks = [
            network("10.18.3.0", 24),
            network("10.18.0.0", 16),
            network("192.168.4.0", 24),
        ];
        let reserved = Reserved::new([v4("192.0.2.1")], [v4("10.30.0.7")], networks);
        assert_eq!(reserved.ranges.len(), 2);
        let held = [
            "10.18.0.0",
            "10.18.255.255",
            "192.168.4.0",
            "192.0.2.1",
            "10.30.0.7",
        ];
        for address in held {
            assert!(reserved.holds(v4(address), None), "{address}");
        }
        let free = ["0.0.0.0", "10.17.255.255", "10.19.0.0", "192.168.5.0"];
        for address in [&free[..], &["255.255.255.255"]].concat() {
            assert!(!reserved.holds(v4(address), None), "{address}");
        }
        let own = Some(v4("10.30.0.7"));
        assert!(!reserved.holds(v4("10.30.0.7"), own), "its own");
        assert!(reserved.holds(v4("192.0.2.1"), own));
        assert!(reserved.has_host(v4("192.0.2.1"), own));
        assert!(!reserved.has_host(v4("10.18.0.1"), own));
    }
}
