//! Traffic selectors in IKEv2's form (RFC 7296 §2.9, §3.13).
//!
//! ICMP types and OPAQUE have no form of ours: as a responder we narrow them away, and as an
//! initiator we never ask for them.

use std::net::IpAddr;

use wire::ikev2::{AddressSelector, TrafficSelector as Wire};
use wire::ip::protocol::{ICMP, ICMPV6};

use crate::selector::{Ports, TrafficSelector};

/// Selectors of one side that are read.
pub(super) const MAX_READ: usize = 32;

impl TrafficSelector {
    /// Reads a selector of IKEv2; `None` for one without a form of ours.
    pub fn from_ikev2(selector: &AddressSelector) -> Option<Self> {
        // Without a protocol, and with ICMP, ports are not ports.
        let has_ports = ![0, ICMP, ICMPV6].contains(&selector.protocol);
        let ports = match selector.is_any_port() {
            true => Ports::ANY,
            false if has_ports => Ports::range(selector.first_port, selector.last_port)?,
            false => return None,
        };
        Some(Self {
            first: selector.first,
            last: selector.last,
            protocol: selector.protocol,
            ports,
        })
    }

    /// Writes it as a selector of IKEv2.
    pub fn to_ikev2(&self) -> AddressSelector {
        let (first_port, last_port) = self.ports.bounds();
        AddressSelector {
            protocol: self.protocol,
            first_port,
            last_port,
            first: self.first,
            last: self.last,
        }
    }
}

/// The selectors of a payload that have a form of ours, in their order.
pub(super) fn read(selectors: &[Wire]) -> Vec<TrafficSelector> {
    let ours = selectors.iter().filter_map(|one| match one {
        Wire::Addresses(range) => TrafficSelector::from_ikev2(range),
        Wire::Other { .. } => None,
    });
    ours.take(MAX_READ).collect()
}

/// A payload's selectors.
pub(super) fn write(selectors: &[TrafficSelector]) -> Vec<Wire> {
    let ranges = selectors.iter().map(TrafficSelector::to_ikev2);
    ranges.map(Wire::Addresses).collect()
}

/// The same hosts behind another address, for transport mode through a NAT (RFC 7296 §2.23.1).
pub(super) fn at(address: IpAddr, selectors: &[TrafficSelector]) -> Vec<TrafficSelector> {
    let moved = selectors.iter().map(|it| {
        let is_host = it.first == it.last && it.first.is_ipv4() == address.is_ipv4();
        match is_host {
            true => TrafficSelector {
                first: address,
                last: address,
                ..*it
            },
            false => *it,
        }
    });
    moved.collect()
}

/// Whether every selector of an answer lies within one that was requested.
pub(super) fn are_within(answer: &[TrafficSelector], requested: &[TrafficSelector]) -> bool {
    let is_within = |it: &TrafficSelector| requested.iter().any(|all| all.contains(it));
    !answer.is_empty() && answer.iter().all(is_within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_and_read_back() {
        for text in [
            "10.0.0.0/8",
            "192.0.2.7",
            "192.0.2.1-192.0.2.9[udp]",
            "2001:db8::/32[tcp/443]",
            "10.0.0.0/8[tcp/1000-2000]",
        ] {
            let selector: TrafficSelector = text.parse().unwrap();
            let read = TrafficSelector::from_ikev2(&selector.to_ikev2());
            assert_eq!(read, Some(selector), "{text}");
        }
    }

    #[test]
    fn icmp_types_and_opaque_have_no_form_of_ours() {
        let tcp: TrafficSelector = "10.0.0.0/8[tcp]".parse().unwrap();
        let with = |protocol, first_port, last_port| AddressSelector {
            protocol,
            first_port,
            last_port,
            ..tcp.to_ikev2()
        };
        let read = |it| TrafficSelector::from_ikev2(&it).map(|it| it.to_string());
        let is = |text: &str| Some(format!("10.0.0.0/8{text}"));
        assert_eq!(read(with(6, 1, 2)), is("[tcp/1-2]"));
        assert_eq!(read(with(6, 1, u16::MAX)), is("[tcp/1-65535]"));
        assert_eq!(read(with(17, 0, 80)), is("[udp/0-80]"));
        assert_eq!(read(with(1, 0, u16::MAX)), is("[icmp]"));
        for none in [
            with(6, 0, 0),
            with(6, 2, 1),
            with(6, u16::MAX, 0),
            with(0, u16::MAX, 0),
            with(0, 80, 80),
            with(1, 0x0800, 0x08ff),
            with(58, 0x8000, 0x8000),
        ] {
            assert_eq!(read(none), None, "{none:?}");
        }
    }

    #[test]
    fn hosts_alone_get_another_address() {
        let list = |texts: &[&str]| -> Vec<TrafficSelector> {
            texts.iter().map(|it| it.parse().unwrap()).collect()
        };
        let all = list(&["10.0.0.2", "10.0.0.2[tcp/80]", "10.0.0.0/8", "2001:db8::1"]);
        let wanted = list(&[
            "192.0.2.7",
            "192.0.2.7[tcp/80]",
            "10.0.0.0/8",
            "2001:db8::1",
        ]);
        assert_eq!(at([192, 0, 2, 7].into(), &all), wanted);
    }

    #[test]
    fn an_answer_must_lie_within_what_was_requested() {
        let list = |texts: &[&str]| -> Vec<TrafficSelector> {
            texts.iter().map(|it| it.parse().unwrap()).collect()
        };
        let asked = list(&["10.0.0.0/8", "192.0.2.0/24[tcp]"]);
        assert!(are_within(
            &list(&["10.1.0.0/16", "192.0.2.5[tcp/80]"]),
            &asked
        ));
        assert!(!are_within(&list(&["10.1.0.0/16", "192.0.2.5"]), &asked));
        assert!(!are_within(&[], &asked));
    }
}
