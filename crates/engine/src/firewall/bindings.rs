//! Dynamic bindings: where the nodes of nomadic entries are.
//!
//! An authentic packet binds its entry to its source. A packet that was seen before binds nothing:
//! whoever repeats it need not be its author. One address belongs to one entry: while that entry's
//! node is heard from there, no other entry is bound to it, so that a node with a key of its own
//! cannot take the packets of another. Behind one NAT address, the ports tell nodes apart.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use super::access::EntryId;
use crate::time::{Deadline, Duration, Instant};

/// A node that was heard this lately keeps its address from other entries.
pub const KEPT_FOR: Duration = Duration::from_secs(60);

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its care-of address; port 0 if its packets are not in UDP.
    pub care_of: SocketAddrV4,
    /// Since when.
    pub since: Instant,
    /// Its last authentic packet.
    pub last: Instant,
}

/// What an authentic packet changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing: its node is where it was.
    Known,
    /// Its entry is bound to this address now.
    Bound {
        /// Where it was bound to before.
        former: Option<SocketAddrV4>,
        /// The entry that had this address and has lost it: its node was silent.
        displaced: Option<EntryId>,
    },
    /// Nothing: the address is another entry's, whose node was heard there less than [`KEPT_FOR`]
    /// ago. The packet may pass; answers will not find its node.
    Taken {
        /// The other entry.
        by: EntryId,
    },
}

/// All bindings.
#[derive(Debug)]
pub struct Bindings {
    /// A node that is silent for so long is forgotten.
    lifetime: Duration,
    of_entries: BTreeMap<EntryId, Binding>,
    of_addresses: BTreeMap<SocketAddrV4, EntryId>,
}

impl Bindings {
    /// No bindings. A node that is silent for `lifetime` is forgotten.
    pub fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            of_entries: BTreeMap::new(),
            of_addresses: BTreeMap::new(),
        }
    }

    /// An authentic packet of an entry that was not seen before came from this address.
    pub fn hear(&mut self, entry: EntryId, from: SocketAddrV4, now: Instant) -> Heard {
        let own = self.of_entries.get_mut(&entry);
        if let Some(binding) = own.filter(|binding| binding.care_of == from) {
            binding.last = now;
            return Heard::Known;
        }
        if let Some((by, _)) = self.keeper(from, now) {
            return Heard::Taken { by };
        }
        let holder = self.entry_at(from);
        if let Some(other) = holder {
            self.forget(other);
        }
        let former = self.forget(entry).map(|binding| binding.care_of);
        let binding = Binding {
            care_of: from,
            since: now,
            last: now,
        };
        self.of_entries.insert(entry, binding);
        self.of_addresses.insert(from, entry);
        Heard::Bound {
            former,
            displaced: holder,
        }
    }

    /// An entry's node was heard where it is bound, at this moment.
    pub fn touch(&mut self, entry: EntryId, heard: Instant) {
        if let Some(binding) = self.of_entries.get_mut(&entry) {
            binding.last = binding.last.max(heard);
        }
    }

    /// Ends the bindings of silent nodes, and returns their entries.
    pub fn expire(&mut self, now: Instant) -> Vec<(EntryId, Binding)> {
        let lifetime = self.lifetime;
        let is_over = |binding: &Binding| now.since(binding.last) >= lifetime;
        let entries = self.of_entries.iter();
        let ended = entries.filter(|(_, binding)| is_over(binding));
        let ended: Vec<EntryId> = ended.map(|(entry, _)| *entry).collect();
        let ended = ended.into_iter();
        ended
            .filter_map(|entry| Some((entry, self.forget(entry)?)))
            .collect()
    }

    /// Ends a binding.
    pub fn forget(&mut self, entry: EntryId) -> Option<Binding> {
        let binding = self.of_entries.remove(&entry)?;
        self.of_addresses.remove(&binding.care_of);
        Some(binding)
    }

    /// When [`Bindings::expire`] is due.
    pub fn deadline(&self) -> Option<Deadline> {
        let ends = self.of_entries.values();
        let at = ends.map(|binding| binding.last + self.lifetime).min()?;
        let why = "forget a silent mobile node";
        Some(Deadline { at, why })
    }

    /// The entry that keeps this address from others, and until when: its node was heard there less
    /// than [`KEPT_FOR`] ago.
    pub fn keeper(&self, care_of: SocketAddrV4, now: Instant) -> Option<(EntryId, Instant)> {
        let entry = self.entry_at(care_of)?;
        let until = self.of(entry)?.last + KEPT_FOR;
        (now < until).then_some((entry, until))
    }

    /// The entry whose node is at this address.
    pub fn entry_at(&self, care_of: SocketAddrV4) -> Option<EntryId> {
        self.of_addresses.get(&care_of).copied()
    }

    /// Where an entry's node is.
    pub fn of(&self, entry: EntryId) -> Option<&Binding> {
        self.of_entries.get(&entry)
    }

    /// All bindings.
    pub fn iter(&self) -> impl Iterator<Item = (EntryId, &Binding)> {
        let entries = self.of_entries.iter();
        entries.map(|(entry, binding)| (*entry, binding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(1800);
    const A: EntryId = EntryId(0);
    const B: EntryId = EntryId(1);

    fn at(seconds: u64) -> Instant {
        Instant(0) + Duration::from_secs(seconds)
    }

    fn raw(host: u8) -> SocketAddrV4 {
        SocketAddrV4::new([203, 0, 113, host].into(), 0)
    }

    #[test]
    fn the_first_authentic_packet_binds_and_a_move_binds_anew() {
        let mut bindings = Bindings::new(LIFETIME);
        let bound = |former| Heard::Bound {
            former,
            displaced: None,
        };
        assert_eq!(bindings.hear(A, raw(1), at(0)), bound(None));
        assert_eq!(bindings.hear(A, raw(1), at(5)), Heard::Known);
        assert_eq!(bindings.entry_at(raw(1)), Some(A));
        assert_eq!(bindings.hear(A, raw(2), at(9)), bound(Some(raw(1))));
        assert_eq!(bindings.entry_at(raw(1)), None);
        assert_eq!(bindings.entry_at(raw(2)), Some(A));
        assert_eq!(bindings.of(A).expect("a binding").since, at(9));
    }

    #[test]
    fn a_node_with_a_key_cannot_take_the_address_of_another_that_is_heard() {
        let mut bindings = Bindings::new(LIFETIME);
        bindings.hear(A, raw(1), at(0));
        bindings.hear(B, raw(2), at(0));
        assert_eq!(bindings.hear(B, raw(1), at(59)), Heard::Taken { by: A });
        assert_eq!(bindings.entry_at(raw(1)), Some(A));
        assert_eq!(bindings.entry_at(raw(2)), Some(B), "B is where it was");
        // The address was given to another machine: A is silent there.
        let taken = Heard::Bound {
            former: Some(raw(2)),
            displaced: Some(A),
        };
        assert_eq!(bindings.hear(B, raw(1), at(60)), taken);
        assert_eq!(bindings.of(A), None);
        assert_eq!(bindings.iter().count(), 1);
    }

    #[test]
    fn nodes_behind_one_address_are_told_apart_by_port() {
        let mut bindings = Bindings::new(LIFETIME);
        let nat = |port| SocketAddrV4::new([203, 0, 113, 1].into(), port);
        bindings.hear(A, nat(4001), at(0));
        bindings.hear(B, nat(4002), at(0));
        assert_eq!(bindings.entry_at(nat(4001)), Some(A));
        assert_eq!(bindings.entry_at(nat(4002)), Some(B));
    }

    #[test]
    fn a_silent_node_is_forgotten_after_its_lifetime() {
        let mut bindings = Bindings::new(LIFETIME);
        assert_eq!(bindings.deadline(), None);
        bindings.hear(A, raw(1), at(0));
        bindings.hear(B, raw(2), at(100));
        bindings.hear(A, raw(1), at(200));
        assert_eq!(bindings.deadline().map(|it| it.at), Some(at(1900)));
        assert!(bindings.expire(at(1899)).is_empty());
        let ended: Vec<_> = bindings
            .expire(at(1900))
            .into_iter()
            .map(|it| it.0)
            .collect();
        assert_eq!(ended, [B]);
        assert_eq!(bindings.entry_at(raw(2)), None);
        assert_eq!(bindings.deadline().map(|it| it.at), Some(at(2000)));
    }

    #[test]
    fn both_tables_agree_after_any_moves() {
        let mut bindings = Bindings::new(LIFETIME);
        let mut random = crypto::rand::Seed::new([9; 32]).stream("moves", 0);
        let mut now = 0;
        for _ in 0..20_000 {
            now += u64::from(random.u32() % 40);
            let (entry, host) = (random.u32() % 6, random.u32() % 5);
            bindings.hear(EntryId(entry as usize), raw(host as u8), at(now));
            if random.u32().is_multiple_of(50) {
                bindings.expire(at(now));
            }
            assert_eq!(bindings.of_entries.len(), bindings.of_addresses.len());
            for (entry, binding) in bindings.iter() {
                assert_eq!(bindings.entry_at(binding.care_of), Some(entry));
            }
        }
    }
}
