//! Inner addresses assigned to peers. Leases are sticky: a peer gets its last address, or the one
//! that it requests, as long as nobody else holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Node;
use crate::config::{Connection, Pool};
use crate::dns::{MAX_TRUST_ANCHORS, TrustAnchor};
use crate::identity::Peer;
use crate::ike::{Lease, Wanted};

/// How many peers without a live lease are remembered.
const MAX_REMEMBERED: usize = 1 << 17;

/// The holders of addresses.
#[derive(Default)]
pub(super) struct Leases {
    /// Address to holder. A free address may be listed with its last holder.
    held: BTreeMap<IpAddr, Holder>,
    /// The last address of a peer.
    sticky: BTreeMap<Borrower, IpAddr>,
    /// Returned addresses.
    free: BTreeSet<IpAddr>,
    pools: BTreeMap<String, PoolNumber>,
    /// Where to continue the search for a never used address, by a pool's first and last address: a
    /// reload may change them.
    next: BTreeMap<(IpAddr, IpAddr), u128>,
}

/// The number of a pool's name. There are few.
type PoolNumber = u32;

type Borrower = (PoolNumber, Purpose, Peer);

/// The use of an address. A peer with both tunnels and transport mode has an address for each,
/// because a packet to it can only go one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// The peer uses it itself, in tunnel mode.
    Inner,
    /// It represents the peer in transport mode.
    StandIn,
}

struct Holder {
    borrower: Borrower,
    /// Sessions of the peer that hold it; zero: it is free.
    uses: usize,
}

impl Leases {
    /// Assigns an address of `pool` to `peer`: the requested or last one if free, otherwise the
    /// next never used one, otherwise the first free one; if very many are known, the last two in
    /// reverse order. `None`: the pool is exhausted.
    pub(super) fn lend(
        &mut self,
        pool: &Pool,
        peer: &Peer,
        purpose: Purpose,
        asked: Option<IpAddr>,
    ) -> Option<IpAddr> {
        let number = self.number_of(pool);
        let borrower = (number, purpose, peer.clone());
        let sticky = self.sticky.get(&borrower).copied();
        let wanted = [sticky, asked].into_iter().flatten();
        let address = wanted
            .filter(|address| contains(pool, *address))
            .find(|address| self.is_open_to(*address, peer))
            .or_else(|| match self.held.len() < MAX_REMEMBERED {
                true => self.unused(pool),
                false => None,
            })
            .or_else(|| self.free.range(pool.first..=pool.last).next().copied())
            .or_else(|| self.unused(pool))?;
        self.hold(address, borrower.clone());
        if self.sticky.len() < MAX_REMEMBERED {
            self.sticky.insert(borrower, address);
        }
        Some(address)
    }

    fn hold(&mut self, address: IpAddr, borrower: Borrower) {
        let holder = Holder { borrower, uses: 1 };
        if let Some(last) = self.held.insert(address, holder) {
            self.free.remove(&address);
            self.sticky.remove(&last.borrower);
        }
    }

    /// Another session of its holder uses an assigned address, and returns it too.
    pub(super) fn share(&mut self, address: IpAddr) {
        if let Some(holder) = self.held.get_mut(&address) {
            holder.uses += 1;
        }
    }

    fn number_of(&mut self, pool: &Pool) -> PoolNumber {
        if let Some(number) = self.pools.get(&pool.name) {
            return *number;
        }
        let number = PoolNumber::try_from(self.pools.len()).unwrap_or(PoolNumber::MAX);
        self.pools.insert(pool.name.clone(), number);
        number
    }

    /// Takes an address back, and remembers its last holder.
    pub(super) fn give_back(&mut self, address: IpAddr) {
        if let Some(holder) = self.held.get_mut(&address) {
            holder.uses = holder.uses.saturating_sub(1);
            if holder.uses == 0 {
                self.free.insert(address);
            }
        }
    }

    /// How many addresses of a pool are assigned.
    pub(super) fn live(&self, pool: &str) -> usize {
        let Some(number) = self.pools.get(pool) else {
            return 0;
        };
        self.held
            .values()
            .filter(|holder| holder.uses > 0 && holder.borrower.0 == *number)
            .count()
    }

    fn is_open_to(&self, address: IpAddr, peer: &Peer) -> bool {
        self.held
            .get(&address)
            .is_none_or(|holder| holder.uses == 0 && holder.borrower.2 == *peer)
    }

    /// The next address that nobody has ever held. Each address is checked once.
    fn unused(&mut self, pool: &Pool) -> Option<IpAddr> {
        let (first, last) = (number(pool.first), number(pool.last));
        let next = self.next.entry((pool.first, pool.last)).or_insert(first);
        let found = (*next..=last).find(|n| !self.held.contains_key(&address(pool, *n)));
        *next = found.unwrap_or(last).saturating_add(1);
        found.map(|found| address(pool, found))
    }
}

impl Node {
    /// Assigns addresses of a peer's pools: one of each requested family, or of any if it names
    /// none.
    pub(super) fn lend(
        &mut self,
        connection: &Connection,
        peer: &Peer,
        wanted: &Wanted,
    ) -> Option<Lease> {
        let config = self.config.clone();
        let mut lease = Lease::default();
        let mut lent_for = Vec::new();
        for pool in connection
            .pools
            .iter()
            .filter_map(|it| config.pools.get(*it))
        {
            let is_v4 = pool.first.is_ipv4();
            if wanted.families.is_any() && !wanted.families.has(is_v4) {
                continue;
            }
            let mut addresses = wanted.addresses.iter().copied();
            let address = addresses.find(|address| address.is_ipv4() == is_v4);
            let Some(address) = self.leases.lend(pool, peer, Purpose::Inner, address) else {
                continue;
            };
            lease.addresses.push(address);
            lease.dns.extend(&pool.dns);
            lent_for.push((&pool.dns, &pool.domains));
        }
        if wanted.wants_domains {
            lease.domains = domains(&lent_for);
        }
        (!lease.addresses.is_empty()).then_some(lease)
    }

    /// Keys of DNSSEC for the domains of a lease, if the peer asks for them.
    pub(super) fn trust_anchors(
        &self,
        connection: &Connection,
        wanted: &Wanted,
        lease: &Lease,
    ) -> Vec<TrustAnchor> {
        let pools = connection.pools.iter();
        let pools = pools.filter_map(|it| self.config.pools.get(*it));
        let all = pools.flat_map(|pool| &pool.trust_anchors);
        let named = all.filter(|it| wanted.wants_anchors && lease.domains.contains(&it.domain));
        let mut found: Vec<TrustAnchor> = Vec::new();
        for anchor in named {
            if found.len() < MAX_TRUST_ANCHORS && !found.contains(anchor) {
                found.push(anchor.clone());
            }
        }
        found
    }

    /// Takes back a session's addresses from mode config.
    pub(super) fn give_back(&mut self, lease: Option<&Lease>) {
        let lent = lease.iter().flat_map(|lease| lease.addresses.iter());
        lent.for_each(|address| self.leases.give_back(*address));
    }
}

/// The domains of several pools. Resolvers of a pool without any are for all names, so there is no
/// list then.
fn domains(pools: &[(&Vec<IpAddr>, &Vec<String>)]) -> Vec<String> {
    let asked = || pools.iter().filter(|(dns, _)| !dns.is_empty());
    if asked().any(|(_, domains)| domains.is_empty()) {
        return Vec::new();
    }
    let mut all: Vec<String> = Vec::new();
    for domain in asked().flat_map(|(_, domains)| domains.iter()) {
        if !all.contains(domain) {
            all.push(domain.clone());
        }
    }
    all
}

/// How many addresses a pool has.
pub(super) fn size(pool: &Pool) -> u128 {
    number(pool.last)
        .saturating_sub(number(pool.first))
        .saturating_add(1)
}

fn contains(pool: &Pool, address: IpAddr) -> bool {
    address.is_ipv4() == pool.first.is_ipv4() && (pool.first..=pool.last).contains(&address)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn address(pool: &Pool, number: u128) -> IpAddr {
    match pool.first {
        IpAddr::V4(_) => Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::IdentityPattern;
    use crate::identity::Identity;

    fn pool() -> Pool {
        Pool {
            name: "inner".into(),
            first: [10, 0, 0, 1].into(),
            last: [10, 0, 0, 2].into(),
            dns: Vec::new(),
            domains: Vec::new(),
            trust_anchors: Vec::new(),
        }
    }

    fn peer(name: &str) -> Peer {
        let claimed = Identity::Fqdn(name.into());
        Peer::of_preshared_key("road", &claimed, &[IdentityPattern::Any])
    }

    fn lend(leases: &mut Leases, pool: &Pool, name: &str, asked: Option<IpAddr>) -> Option<IpAddr> {
        leases.lend(pool, &peer(name), Purpose::Inner, asked)
    }

    #[test]
    fn an_identity_gets_its_address_again() {
        let mut leases = Leases::default();
        let a = lend(&mut leases, &pool(), "a", None).unwrap();
        leases.give_back(a);
        let b = lend(&mut leases, &pool(), "b", None).unwrap();
        assert_ne!(a, b);
        assert_eq!(lend(&mut leases, &pool(), "a", None), Some(a));
    }

    #[test]
    fn a_full_pool_lends_nothing_until_one_is_given_back() {
        let mut leases = Leases::default();
        let a = lend(&mut leases, &pool(), "a", None).unwrap();
        lend(&mut leases, &pool(), "b", None).unwrap();
        assert_eq!(lend(&mut leases, &pool(), "c", None), None);
        leases.give_back(a);
        assert_eq!(lend(&mut leases, &pool(), "c", None), Some(a));
        assert_eq!(lend(&mut leases, &pool(), "a", None), None);
        assert_eq!(leases.live("inner"), 2);
    }

    #[test]
    fn a_large_pool_that_was_lent_once_is_searched_no_more() {
        let wide = Pool {
            last: [10, 255, 255, 254].into(),
            ..pool()
        };
        let mut leases = Leases::default();
        let number = leases.number_of(&wide);
        let end = super::number(wide.last) + 1;
        leases.next.insert((wide.first, wide.last), end);
        assert_eq!(lend(&mut leases, &wide, "a", None), None);
        for n in 1..=200 {
            leases.hold(
                [10, 0, 0, n].into(),
                (number, Purpose::Inner, peer("others")),
            );
        }
        for n in [7, 70] {
            leases.give_back([10, 0, 0, n].into());
        }
        assert_eq!(
            lend(&mut leases, &wide, "b", None),
            Some([10, 0, 0, 7].into())
        );
        assert_eq!(
            lend(&mut leases, &wide, "c", None),
            Some([10, 0, 0, 70].into())
        );
        assert_eq!(lend(&mut leases, &wide, "d", None), None);
        assert!(leases.free.is_empty());
    }

    #[test]
    fn a_pool_under_another_name_lends_what_was_given_back() {
        let mut leases = Leases::default();
        for identity in ["a", "b"] {
            lend(&mut leases, &pool(), identity, None).expect("an address");
        }
        leases.give_back([10, 0, 0, 2].into());
        let renamed = Pool {
            name: "other".into(),
            ..pool()
        };
        let lent = lend(&mut leases, &renamed, "c", None);
        assert_eq!(lent, Some([10, 0, 0, 2].into()));
    }

    #[test]
    fn a_pool_that_a_reload_has_moved_lends_its_new_addresses() {
        let mut leases = Leases::default();
        let before = lend(&mut leases, &pool(), "a", None).expect("an address");
        for moved in [[9, 0, 0, 1], [11, 0, 0, 1], [9, 0, 0, 1]] {
            let pool = Pool {
                first: moved.into(),
                last: moved.into(),
                ..pool()
            };
            let lent = lend(&mut leases, &pool, "b", None);
            assert_eq!(lent, Some(moved.into()));
            leases.give_back(moved.into());
        }
        leases.give_back(before);
        assert_eq!(lend(&mut leases, &pool(), "a", None), Some(before));
    }

    #[test]
    fn a_restarted_gateway_lends_the_address_that_is_asked_for() {
        let mut leases = Leases::default();
        let asked = IpAddr::from([10, 0, 0, 2]);
        assert_eq!(lend(&mut leases, &pool(), "a", Some(asked)), Some(asked));
        assert_eq!(
            lend(&mut leases, &pool(), "b", Some(asked)),
            Some([10, 0, 0, 1].into())
        );
    }

    #[test]
    fn in_an_endless_pool_those_who_went_make_room_in_memory_for_newcomers() {
        let endless = Pool {
            name: "six".into(),
            first: IpAddr::from([0xfd99, 0, 0, 0, 0, 0, 0, 1]),
            last: IpAddr::from([0xfd99, 0, 0, 0, u16::MAX, u16::MAX, u16::MAX, u16::MAX]),
            dns: Vec::new(),
            domains: Vec::new(),
            trust_anchors: Vec::new(),
        };
        let mut leases = Leases::default();
        for n in 0..MAX_REMEMBERED + 1_000 {
            let lent = lend(&mut leases, &endless, &format!("{n}.example"), None);
            leases.give_back(lent.expect("an address"));
        }
        assert_eq!(leases.held.len(), MAX_REMEMBERED);
        assert!(leases.sticky.len() <= MAX_REMEMBERED);
    }

    #[test]
    fn one_identity_twice_holds_two_addresses() {
        let mut leases = Leases::default();
        let first = lend(&mut leases, &pool(), "a", None);
        assert_ne!(first, lend(&mut leases, &pool(), "a", first));
    }

    #[test]
    fn a_shared_address_is_free_when_the_last_has_given_it_back() {
        let mut leases = Leases::default();
        let address = lend(&mut leases, &pool(), "a", None).unwrap();
        leases.share(address);
        leases.give_back(address);
        assert_eq!(leases.live("inner"), 1);
        leases.give_back(address);
        assert_eq!(leases.live("inner"), 0);
    }

    #[test]
    fn a_peer_has_one_address_for_each_purpose() {
        let mut leases = Leases::default();
        let inner = leases.lend(&pool(), &peer("a"), Purpose::Inner, None);
        let stand_in = leases.lend(&pool(), &peer("a"), Purpose::StandIn, None);
        assert_ne!(inner, stand_in);
        inner
            .iter()
            .chain(&stand_in)
            .for_each(|it| leases.give_back(*it));
        let again = leases.lend(&pool(), &peer("a"), Purpose::StandIn, None);
        assert_eq!(again, stand_in);
    }
}
