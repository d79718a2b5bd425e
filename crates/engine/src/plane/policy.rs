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

    /// Children that list `address`, the narrowest first.
    pub(crate) fn candidates(&self, address: IpAddr) -> impl Iterator<Item = Slot> {
        let hosts = self
            .hosts
            .range((address, 0)..=(address, Slot::MAX))
            .map(|host| host.1);
        let wide = self
            .wide
            .iter()
            .filter(move |wide| wide.first <= address && address <= wide.last)
            .map(|wide| wide.slot);
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
    let (source_port, destination_port) = match inner.flow.ports {
        Some((source, destination)) => (Some(source), Some(destination)),
        None => (None, None),
    };
    covers(from, inner.flow.source, inner, source_port, is_host_only)
        && covers(
            to,
            inner.flow.destination,
            inner,
            destination_port,
            is_host_only,
        )
}

/// A later fragment has no ports: only selectors of any port take it (RFC 4301 §7.1).
fn covers(
    selectors: &[TrafficSelector],
    address: IpAddr,
    inner: &Inner,
    port: Option<u16>,
    is_host_only: bool,
) -> bool {
    selectors.iter().any(|selector| {
        let within = is_host_only
            || (selector.first.is_ipv4() == address.is_ipv4()
                && selector.first <= address
                && address <= selector.last);
        let protocol = selector.protocol == 0 || selector.protocol == inner.flow.protocol;
        within && protocol && (selector.port == 0 || port == Some(selector.port))
    })
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
