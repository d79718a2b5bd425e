//! Which child a packet belongs to. Selectors of a single host are in a tree by address. Wider ones
//! are in a list, narrow before wide.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::plane::inner::Inner;
use crate::selector::TrafficSelector;

/// Where a child lies in the plane's table.
pub(crate) type Slot = u32;

/// An index from destinations to children.
#[derive(Default)]
pub(crate) struct Index {
    hosts: BTreeSet<(IpAddr, Slot)>,
    wide: Vec<Wide>,
}

struct Wide {
    span: u128,
    first: IpAddr,
    last: IpAddr,
    slot: Slot,
}

impl Index {
    /// Lists `slot` for the addresses of a selector.
    pub(crate) fn insert(&mut self, first: IpAddr, last: IpAddr, slot: Slot) {
        if first == last {
            self.hosts.insert((first, slot));
            return;
        }
        let span = bits(last).saturating_sub(bits(first));
        let at = self.wide.partition_point(|wide| wide.span <= span);
        let wide = Wide {
            span,
            first,
            last,
            slot,
        };
        self.wide.insert(at, wide);
    }

    /// Takes back what [`Index::insert`] listed.
    pub(crate) fn remove(&mut self, first: IpAddr, last: IpAddr, slot: Slot) {
        if first == last {
            self.hosts.remove(&(first, slot));
        } else {
            self.wide
                .retain(|wide| (wide.first, wide.last, wide.slot) != (first, last, slot));
        }
    }

    /// Children that list `address`, the narrowest first, each with the number of addresses that it
    /// lists together with this one, less one.
    pub(crate) fn candidates(&self, address: IpAddr) -> impl Iterator<Item = (u128, Slot)> {
        let hosts = self
            .hosts
            .range((address, 0)..=(address, Slot::MAX))
            .map(|host| (0, host.1));
        let wide = self
            .wide
            .iter()
            .filter(move |wide| wide.first <= address && address <= wide.last)
            .map(|wide| (wide.span, wide.slot));
        hosts.chain(wide)
    }
}

/// Whether the packet's addresses, protocol and ports are within any of the selectors of both
/// sides; for `is_host_only` (transport mode, whose addresses are the SA's own) addresses do not
/// count.
pub(crate) fn admits(
    inner: &Inner,
    from: &[TrafficSelector],
    to: &[TrafficSelector],
    is_host_only: bool,
) -> bool {
    let flow = &inner.flow;
    let covers = |selectors: &[TrafficSelector], address: IpAddr, port: Option<u16>| {
        selectors.iter().any(|selector| {
            (is_host_only || selector.contains_address(address))
                && selector.takes(flow.protocol, port)
        })
    };
    covers(from, flow.source, flow.ports.map(|ports| ports.0))
        && covers(to, flow.destination, flow.ports.map(|ports| ports.1))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
