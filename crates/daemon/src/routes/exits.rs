//! The link by which a datagram leaves. The kernel looks at the destination alone unless a rule
//! says otherwise, so what is sent from the address of a second link leaves by the first one, and
//! gets nowhere if that is dead. Such datagrams are sent out of the link that has their source, if
//! a route leads from there.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use engine::node::Ways;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

use super::mtu;
use crate::interfaces::{Entry, entries};

/// For each source and destination that needs it, the number of the link. Any thread may ask.
#[derive(Debug, Default)]
pub struct Exits {
    /// Few hosts need any, and each datagram asks.
    has_any: AtomicBool,
    by_ends: RwLock<BTreeMap<(IpAddr, IpAddr), u32>>,
}

impl Exits {
    /// The link by which a datagram must leave; 0: the routing table chooses.
    pub fn of(&self, source: IpAddr, remote: IpAddr) -> u32 {
        if !self.has_any.load(Ordering::Relaxed) {
            return 0;
        }
        let all = self.by_ends.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&(source, remote)).copied().unwrap_or(0)
    }

    /// Finds them anew, for datagrams of this mark to these peers.
    pub fn renew(&self, ways: &Ways, mark: u32) {
        // With one address there is nothing to find, and most hosts have one.
        let several: Vec<_> = ways.0.iter().filter(|(_, own)| own.len() > 1).collect();
        let all = match several.is_empty() {
            true => Vec::new(),
            false => entries().unwrap_or_default(),
        };
        let found = several.into_iter().flat_map(|(peer, own)| {
            let chosen = mtu::next_hop(*peer, Some(mark)).and_then(|it| it.device);
            let others = own.iter().filter_map(|own| {
                let link = link_of(&all, *own)?;
                let is_other = chosen.is_some_and(|it| it != link);
                let leads = || mtu::leads_by(link, *peer, mark);
                (is_other && leads()).then_some(((*own, *peer), link))
            });
            others.collect::<Vec<_>>()
        });
        let found: BTreeMap<_, _> = found.collect();
        self.has_any.store(!found.is_empty(), Ordering::Relaxed);
        *self.by_ends.write().unwrap_or_else(PoisonError::into_inner) = found;
    }
}

/// The number of the only link with this address.
fn link_of(all: &[Entry], own: IpAddr) -> Option<u32> {
    let mut with_it = all.iter().filter(|it| it.address == Some(own));
    let (only, None) = (with_it.next()?, with_it.next()) else {
        return None;
    };
    let is_loopback = only.flags.contains(InterfaceFlags::IFF_LOOPBACK);
    let index = if_nametoindex(only.interface.as_str()).ok();
    index.filter(|_| !is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_second_link_the_routing_table_chooses() {
        let (own, peer) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 9]));
        let exits = Exits::default();
        exits.renew(&Ways::of_one(own, [peer]), 0);
        assert_eq!(exits.of(own, peer), 0);
    }

    #[test]
    fn an_address_that_two_links_have_is_of_neither() {
        let entry = |interface: &str| Entry {
            interface: interface.to_owned(),
            flags: InterfaceFlags::IFF_UP,
            address: Some([192, 0, 2, 7].into()),
            mask: None,
        };
        let lo = if_nametoindex("lo").expect("it is everywhere");
        assert_eq!(link_of(&[entry("lo")], [192, 0, 2, 7].into()), Some(lo));
        let both = [entry("lo"), entry("eth9")];
        assert_eq!(link_of(&both, [192, 0, 2, 7].into()), None);
    }
}
