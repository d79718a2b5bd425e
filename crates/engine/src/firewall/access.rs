//! The access list: header templates for both directions, by address and name.
//!
//! Entries are searched by kind: hosts, then networks, then nomadic entries. What fits none is
//! denied. Of two networks that hold an address the smaller one comes first; else the order is that
//! of the list. The inbound plane does the search: it has an SA for each entry.

use std::net::{IpAddr, Ipv4Addr};

use wire::skip::{Name, Nsid};

use crate::selector::TrafficSelector;

/// Entries of a list; more are taken for a mistake.
pub const ENTRIES_MAX: usize = 10_000;

/// The addresses from which an entry's packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// One address.
    Host(Ipv4Addr),
    /// All addresses with this prefix.
    Network(Ipv4Addr, u8),
    /// Any address: a mobile node.
    Nomadic,
}

/// One line of the list. `T` says how packets are protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// Where its packets come from.
    pub origin: Origin,
    /// Our own name in its packets.
    pub local: Name,
    /// The other end's. [`Name::NONE`]: its address is its name.
    pub remote: Name,
    /// How its packets are protected, both ways.
    pub template: T,
}

/// The number of an entry, in the order of the list that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId(pub usize);

/// A list that has been checked.
#[derive(Clone, Debug)]
pub struct AccessList<T> {
    entries: Vec<Entry<T>>,
    /// The order of search.
    order: Vec<EntryId>,
}

/// Why a list is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListFault {
    /// More than [`ENTRIES_MAX`].
    #[error("{0} entries, limit {ENTRIES_MAX}")]
    TooMany(usize),
    /// Nobody could tell which node sent a packet.
    #[error("a nomadic entry needs a remote name other than its address")]
    Nameless(EntryId),
    /// A second entry for the same packets would never be found.
    #[error("it holds for the same packets as another entry")]
    Repeated(EntryId, EntryId),
    /// More bits than an address has.
    #[error("a prefix of {1} bits, limit 32")]
    Prefix(EntryId, u8),
}

impl Origin {
    /// Whether an address is one of these.
    pub fn holds(self, address: Ipv4Addr) -> bool {
        match self {
            Self::Host(host) => host == address,
            Self::Network(first, bits) => {
                TrafficSelector::subnet(first.into(), bits).contains_address(IpAddr::V4(address))
            }
            Self::Nomadic => true,
        }
    }

    /// The same for all that hold the same addresses.
    fn canonical(self) -> Self {
        match self {
            Self::Network(host, 32) => Self::Host(host),
            Self::Network(first, bits) => {
                let host = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
                Self::Network(Ipv4Addr::from_bits(first.to_bits() & !host), bits)
            }
            other => other,
        }
    }

    /// What is searched first is least.
    fn rank(self) -> (u8, u8) {
        match self {
            Self::Host(_) => (0, 0),
            Self::Network(_, bits) => (1, 32 - bits),
            Self::Nomadic => (2, 0),
        }
    }
}

impl<T> AccessList<T> {
    /// Checks a list.
    pub fn new(entries: Vec<Entry<T>>) -> Result<Self, ListFault> {
        if entries.len() > ENTRIES_MAX {
            return Err(ListFault::TooMany(entries.len()));
        }
        for (number, entry) in entries.iter().enumerate() {
            match entry.origin {
                Origin::Network(_, bits) if bits > 32 => {
                    return Err(ListFault::Prefix(EntryId(number), bits));
                }
                Origin::Nomadic if entry.remote.nsid() == Nsid::None => {
                    return Err(ListFault::Nameless(EntryId(number)));
                }
                _ => {}
            }
        }
        let mut order: Vec<EntryId> = (0..entries.len()).map(EntryId).collect();
        let place = |id: &EntryId| {
            let entry = &entries[id.0];
            let origin = entry.origin.canonical();
            (origin.rank(), origin, entry.remote, entry.local)
        };
        order.sort_by_key(place);
        let same = order
            .windows(2)
            .find(|two| place(&two[0]) == place(&two[1]));
        if let Some(&[first, second]) = same {
            return Err(ListFault::Repeated(first, second));
        }
        order.sort_by_key(|id| (entries[id.0].origin.canonical().rank(), *id));
        Ok(Self { entries, order })
    }

    /// Whether an entry of a host or network holds for an address.
    pub fn has_fixed(&self, address: Ipv4Addr) -> bool {
        let mut origins = self.entries.iter().map(|entry| entry.origin);
        origins.any(|origin| origin != Origin::Nomadic && origin.holds(address))
    }

    /// One entry. Panics for a number of another list.
    pub fn entry(&self, id: EntryId) -> &Entry<T> {
        &self.entries[id.0]
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in the order of search.
    pub fn iter(&self) -> impl Iterator<Item = (EntryId, &Entry<T>)> {
        self.order.iter().map(|id| (*id, self.entry(*id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(origin: Origin, remote: Name, template: &'static str) -> Entry<&'static str> {
        Entry {
            origin,
            local: Name::NONE,
            remote,
            template,
        }
    }

    /// The paper's table, its nomadic line first: the order of a file does not count.
    fn paper() -> AccessList<&'static str> {
        let node = Name::ipv4(Ipv4Addr::new(10, 18, 3, 17));
        let net = Ipv4Addr::new(192, 168, 4, 0);
        let host = Ipv4Addr::new(192, 168, 4, 20);
        AccessList::new(vec![
            entry(Origin::Nomadic, node, "DES, MD5"),
            entry(Origin::Network(net, 24), Name::NONE, "RC4, MD5"),
            entry(Origin::Host(host), Name::NONE, "RC2, MD5"),
        ])
        .expect("the paper's list")
    }

    /// The first entry of a packet with these names.
    fn found(list: &AccessList<&'static str>, from: [u8; 4], remote: Name) -> Option<&'static str> {
        let fits = |entry: &Entry<_>| entry.origin.holds(from.into()) && entry.remote == remote;
        let mut all = list.iter().map(|(_, entry)| entry);
        all.find(|entry| fits(entry)).map(|entry| entry.template)
    }

    #[test]
    fn hosts_come_before_networks_and_networks_before_nomadic_entries() {
        let list = paper();
        let node = Name::ipv4(Ipv4Addr::new(10, 18, 3, 17));
        assert_eq!(
            found(&list, [192, 168, 4, 20], Name::NONE),
            Some("RC2, MD5")
        );
        assert_eq!(
            found(&list, [192, 168, 4, 21], Name::NONE),
            Some("RC4, MD5")
        );
        assert_eq!(found(&list, [203, 0, 113, 9], node), Some("DES, MD5"));
        // A mobile node may be where a host of the list is.
        assert_eq!(found(&list, [192, 168, 4, 20], node), Some("DES, MD5"));
        let kinds: Vec<_> = list.iter().map(|(id, _)| id.0).collect();
        assert_eq!(kinds, [2, 1, 0]);
    }

    #[test]
    fn what_fits_no_entry_is_denied() {
        let list = paper();
        let stranger = Name::ipv4(Ipv4Addr::new(10, 18, 3, 18));
        assert_eq!(found(&list, [203, 0, 113, 9], stranger), None);
        assert_eq!(found(&list, [203, 0, 113, 9], Name::NONE), None);
        assert_eq!(found(&list, [192, 168, 5, 20], Name::NONE), None);
    }

    #[test]
    fn the_smaller_network_comes_first() {
        let list = AccessList::new(vec![
            entry(Origin::Network([10, 0, 0, 0].into(), 8), Name::NONE, "wide"),
            entry(
                Origin::Network([10, 1, 0, 0].into(), 16),
                Name::NONE,
                "small",
            ),
        ])
        .expect("a list");
        assert_eq!(found(&list, [10, 1, 2, 3], Name::NONE), Some("small"));
        assert_eq!(found(&list, [10, 2, 2, 3], Name::NONE), Some("wide"));
    }

    #[test]
    fn an_address_is_fixed_by_hosts_and_networks_alone() {
        let list = paper();
        assert!(!list.has_fixed([203, 0, 113, 9].into()));
        assert!(list.has_fixed([192, 168, 4, 20].into()));
        assert!(list.has_fixed([192, 168, 4, 255].into()));
    }

    #[test]
    fn entries_that_cannot_be_told_apart_are_refused() {
        let node = Name::ipv4(Ipv4Addr::new(10, 18, 3, 17));
        let twice = vec![
            entry(Origin::Nomadic, node, "a"),
            entry(Origin::Host([192, 0, 2, 1].into()), Name::NONE, "b"),
            entry(Origin::Nomadic, node, "c"),
        ];
        let fault = AccessList::new(twice).expect_err("two entries for one node");
        assert_eq!(fault, ListFault::Repeated(EntryId(0), EntryId(2)));
        let net = |last, bits| Origin::Network([192, 0, 2, last].into(), bits);
        for (one, other) in [
            (Origin::Host([192, 0, 2, 1].into()), net(1, 32)),
            (net(0, 24), net(7, 24)),
        ] {
            let same = vec![entry(one, node, "a"), entry(other, node, "b")];
            let fault = AccessList::new(same).expect_err("the same addresses");
            assert_eq!(fault, ListFault::Repeated(EntryId(0), EntryId(1)));
        }
        let nameless = vec![entry(Origin::Nomadic, Name::NONE, "a")];
        let fault = AccessList::new(nameless).expect_err("anybody");
        assert_eq!(fault, ListFault::Nameless(EntryId(0)));
        let long = vec![entry(Origin::Network([10, 0, 0, 0].into(), 33), node, "a")];
        let fault = AccessList::new(long).expect_err("33 bits");
        assert_eq!(fault, ListFault::Prefix(EntryId(0), 33));
    }
}
