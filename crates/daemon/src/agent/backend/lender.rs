//! Inner addresses that Target lends, one for each tunnel.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::agent::TunnelId;
use wire::agent::Network;

/// Addresses of one network.
pub struct Lender {
    network: Network,
    lent: BTreeMap<IpAddr, TunnelId>,
}

impl Lender {
    /// All hosts of a network.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            lent: BTreeMap::new(),
        }
    }

    /// The address of a tunnel: the one that it has, or the lowest free one. None if all are lent.
    pub fn lend(&mut self, tunnel: TunnelId) -> Option<IpAddr> {
        let mut lent = self.lent.iter();
        if let Some((address, _)) = lent.find(|(_, holder)| **holder == tunnel) {
            return Some(*address);
        }
        let free = (0..=self.lent.len() as u128)
            .filter_map(|at| self.at(at))
            .find(|address| !self.lent.contains_key(address))?;
        self.lent.insert(free, tunnel);
        Some(free)
    }

    /// A tunnel of a former agent has this address.
    pub fn take(&mut self, tunnel: TunnelId, address: IpAddr) {
        self.lent.insert(address, tunnel);
    }

    /// The tunnel is down.
    pub fn give_back(&mut self, tunnel: TunnelId) {
        self.lent.retain(|_, holder| *holder != tunnel);
    }

    /// The host of this number. The first and the last address of a network are no hosts.
    fn at(&self, number: u128) -> Option<IpAddr> {
        let (first, bits) = match self.network.address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let free_bits = bits - u32::from(self.network.prefix_len);
        let mask = 1u128
            .checked_shl(free_bits)
            .map_or(u128::MAX, |size| size - 1);
        let (skipped, hosts) = match mask {
            0 => (0, 1),
            1 => (0, 2),
            mask => (1, mask - 1),
        };
        let place = (number < hosts).then(|| (first & !mask) + number + skipped)?;
        Some(match bits {
            32 => Ipv4Addr::from(u32::try_from(place).ok()?).into(),
            _ => Ipv6Addr::from(place).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(address: &str, prefix_len: u8) -> Network {
        let address = address.parse().expect("an address");
        Network {
            address,
            prefix_len,
        }
    }

    #[test]
    fn each_tunnel_has_its_own_address_until_it_gives_it_back() {
        let mut lender = Lender::new(network("10.99.0.0", 30));
        let [a, b, c] = [1, 2, 3].map(|octet| TunnelId([octet; 16]));
        let text = |it: Option<IpAddr>| it.map(|it| it.to_string());
        assert_eq!(text(lender.lend(a)).as_deref(), Some("10.99.0.1"));
        assert_eq!(text(lender.lend(a)).as_deref(), Some("10.99.0.1"));
        assert_eq!(text(lender.lend(b)).as_deref(), Some("10.99.0.2"));
        assert_eq!(lender.lend(c), None);
        lender.give_back(a);
        assert_eq!(text(lender.lend(c)).as_deref(), Some("10.99.0.1"));
    }

    #[test]
    fn small_and_large_networks_have_hosts() {
        let tunnel = TunnelId([1; 16]);
        for (address, prefix_len, first) in [
            ("10.99.0.7", 32, "10.99.0.7"),
            ("10.99.0.6", 31, "10.99.0.6"),
            ("2001:db8::", 64, "2001:db8::1"),
            ("::", 0, "::1"),
        ] {
            let mut lender = Lender::new(network(address, prefix_len));
            let lent = lender.lend(tunnel).expect("a host");
            assert_eq!(lent.to_string(), first);
        }
    }

    #[test]
    fn what_a_former_agent_has_lent_is_not_lent_again() {
        let mut lender = Lender::new(network("10.99.0.0", 29));
        let [a, b] = [1, 2].map(|octet| TunnelId([octet; 16]));
        lender.take(a, "10.99.0.1".parse().expect("an address"));
        assert_eq!(
            lender.lend(b).map(|it| it.to_string()).as_deref(),
            Some("10.99.0.2")
        );
    }
}
