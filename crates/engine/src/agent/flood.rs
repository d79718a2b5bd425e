//! What requests of strangers may cost Host before a key has proven one.
//!
//! Looking a handle up costs a database, opening and verifying costs two operations of public keys.
//! So look-ups have a rate. While it is half spent, only requests whose sender has shown that it
//! hears us at its address (a cookie) are looked up, and each address has a rate of its own: a
//! flood from forged addresses costs one HMAC each, a flood from a real one spends its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crypto::hash::{Hash, HmacKey, is_equal};
use crypto::rand::Stream;
use wire::agent::COOKIE_LEN;
use zeroize::Zeroizing;

use crate::rate::{Bucket, Rate};
use crate::time::{Duration, Instant};

/// Look-ups at once, and time until there is one more.
const ALL: Rate = Rate::new(128, Duration::from_millis(10));
/// Those without a cookie.
const HALF: Rate = ALL.with_burst(ALL.burst / 2);
/// Messages of one peer that are opened, of those that it has made ([`super::bond`]).
pub(super) const PEER: Rate = Rate::new(128, Duration::from_millis(10));
/// The same for an address that has shown a cookie. Several users may sit behind one.
const ADDRESS: Rate = Rate::new(16, Duration::from_millis(500));
/// Addresses that are watched. Above it, an address that is not watched yet is refused.
const ADDRESSES_MAX: usize = 4_096;
/// A cookie lives for one to two of these.
const COOKIE_SLOT: Duration = Duration::from_secs(30);

/// What happens to a request of a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// It is looked up.
    Open,
    /// It needs this cookie.
    Cookie([u8; COOKIE_LEN]),
    /// It is dropped.
    Shut,
}

/// The door for requests that nothing has proven yet.
pub(super) struct Door {
    key: HmacKey,
    all: Bucket,
    addresses: BTreeMap<IpAddr, Bucket>,
}

impl Door {
    pub(super) fn new(random: &mut Stream) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        random.fill(&mut key[..]);
        Self {
            key: HmacKey::new(Hash::Sha256, &key[..]),
            all: Bucket::default(),
            addresses: BTreeMap::new(),
        }
    }

    /// A request with this label has come.
    pub(super) fn knock(
        &mut self,
        from: SocketAddr,
        label: &[u8; 16],
        cookie: Option<&[u8; COOKIE_LEN]>,
        now: Instant,
    ) -> Gate {
        match self.prove(from, label, cookie, now) {
            Gate::Cookie(_) if self.all.take_one(HALF, now) => Gate::Open,
            gate => gate,
        }
    }

    /// The same, but its sender must show in any case that it hears us at this address.
    pub(super) fn prove(
        &mut self,
        from: SocketAddr,
        label: &[u8; 16],
        cookie: Option<&[u8; COOKIE_LEN]>,
        now: Instant,
    ) -> Gate {
        let slot = now.0 / COOKIE_SLOT.as_nanos() as u64;
        let is_shown = |slot: u64| {
            cookie.is_some_and(|shown| is_equal(shown, &self.cookie(from, label, slot)))
        };
        if is_shown(slot) || slot > 0 && is_shown(slot - 1) {
            return self.known(from.ip(), now);
        }
        Gate::Cookie(self.cookie(from, label, slot))
    }

    /// A look-up has led to a tunnel's referral: it is given back.
    pub(super) fn is_proven(&mut self) {
        self.all.give_back(ALL);
    }

    fn known(&mut self, address: IpAddr, now: Instant) -> Gate {
        let address = network_of(address);
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&address) {
            self.addresses.retain(|_, bucket| bucket.full_at() > now);
            if self.addresses.len() >= ADDRESSES_MAX {
                return Gate::Shut;
            }
        }
        let own = self.addresses.entry(address).or_default();
        match self.all.has(ALL, now) && own.take_one(ADDRESS, now) {
            true => {
                self.all.take(ALL, now);
                Gate::Open
            }
            false => Gate::Shut,
        }
    }

    fn cookie(&self, from: SocketAddr, label: &[u8; 16], slot: u64) -> [u8; COOKIE_LEN] {
        let address = from.to_string();
        let port_and_slot = [&slot.to_be_bytes()[..], label].concat();
        let mac = self.key.sign(&[&port_and_slot, address.as_bytes()]);
        *mac.as_ref().first_chunk().expect("SHA-256")
    }
}

/// Who has an address of IPv6 has all of its /64.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto::rand::Seed;

    fn door() -> Door {
        Door::new(&mut Seed::new([5; 32]).stream("door", 0))
    }

    const LABEL: [u8; 16] = [1; 16];

    #[test]
    fn forged_addresses_cost_no_look_up_above_half_of_the_rate() {
        let mut door = door();
        let (mut open, now) = (0, Instant(0));
        for number in 0..10_000u32 {
            let from = SocketAddr::from((number.to_be_bytes(), 9));
            match door.knock(from, &LABEL, None, now) {
                Gate::Open => open += 1,
                Gate::Cookie(_) => {}
                Gate::Shut => panic!("shut for {number}"),
            }
        }
        assert_eq!(open, ALL.burst / 2);
        // An honest client hears its cookie and gets in, once for each look-up that it may cost.
        let from = SocketAddr::from(([192, 0, 2, 1], 5));
        let Gate::Cookie(cookie) = door.knock(from, &LABEL, None, now) else {
            panic!("no cookie");
        };
        let elsewhere = SocketAddr::from(([192, 0, 2, 2], 5));
        let copied = door.knock(elsewhere, &LABEL, Some(&cookie), now);
        assert!(matches!(copied, Gate::Cookie(_)));
        let other = door.knock(from, &[2; 16], Some(&cookie), now);
        assert!(matches!(other, Gate::Cookie(_)));
        let knock = |door: &mut Door, now| door.knock(from, &LABEL, Some(&cookie), now);
        for _ in 0..ADDRESS.burst {
            assert_eq!(knock(&mut door, now), Gate::Open);
        }
        assert_eq!(knock(&mut door, now), Gate::Shut);
        let later = now + COOKIE_SLOT;
        assert_eq!(knock(&mut door, later), Gate::Open);
        let old = later + COOKIE_SLOT * 2;
        (0..ALL.burst).for_each(|_| door.all.take(ALL, old));
        assert!(matches!(knock(&mut door, old), Gate::Cookie(_)));
    }

    #[test]
    fn a_network_of_ipv6_has_the_rate_of_one_address() {
        let mut door = door();
        let now = Instant(0);
        let mut open = |network: u16| {
            let all = (0..200).map(|host| Ipv6Addr::new(0xfd00, 0, 0, network, 0, 0, 0, host));
            let gates = all.map(|it| door.known(it.into(), now));
            gates.filter(|it| *it == Gate::Open).count() as u32
        };
        assert_eq!(
            [open(1), open(1), open(2)],
            [ADDRESS.burst, 0, ADDRESS.burst]
        );
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let mut door = door();
        let mut now = Instant(0);
        for number in 0..(ADDRESSES_MAX as u32 + 100) {
            door.known(IpAddr::from(number.to_be_bytes()), now);
            now = now + ALL.every / 100;
        }
        assert!(door.addresses.len() <= ADDRESSES_MAX);
    }
}
