//! Where on the home link a node is that comes back: the link-layer address that its request came
//! from.
//!
//! The request itself comes by the socket, without that address, and anybody on the link can send
//! frames. So only the first frame counts that has every octet of a request that the home agent
//! has accepted.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use crypto::hash::{Digest, Hash};
use engine::time::{Duration, Instant};
use wire::mip4::{Message, RequestFlags};

use crate::ether::Mac;

/// Requests of one home address that wait for their acceptance. The oldest gives way.
const HEARD_MAX: usize = 8;
/// How long after its acceptance a request's frame counts. It comes at the same time; later, only
/// a copy does.
const AWAITED_FOR: Duration = Duration::from_secs(2);

/// Requests that come in frames and by the socket, in either order. Hashes of them are kept.
#[derive(Default)]
pub(super) struct Homecomings {
    heard: BTreeMap<Ipv4Addr, VecDeque<(Digest, Mac)>>,
    /// Accepted before their frames were heard, and until when these count.
    accepted: BTreeMap<Ipv4Addr, (Digest, Instant)>,
}

impl Homecomings {
    /// A frame from a node that is away. Where it is, if its request was accepted.
    pub(super) fn hear(&mut self, home: Ipv4Addr, mac: Mac, payload: &[u8]) -> Option<Mac> {
        if !is_homecoming(home, payload) {
            return None;
        }
        let request = digest(payload);
        if self.accepted.get(&home).is_some_and(|it| it.0 == request) {
            self.forget(home);
            return Some(mac);
        }
        let heard = self.heard.entry(home).or_default();
        if !heard.iter().any(|(other, _)| *other == request) {
            heard.truncate(HEARD_MAX - 1);
            heard.push_front((request, mac));
        }
        None
    }

    /// This request of a node has brought it home. Where it is, if its frame was heard.
    pub(super) fn accept(&mut self, home: Ipv4Addr, payload: &[u8], now: Instant) -> Option<Mac> {
        let request = digest(payload);
        let heard = self.heard.remove(&home).unwrap_or_default();
        let found = heard.iter().find(|(other, _)| *other == request);
        let mac = found.map(|(_, mac)| *mac);
        match mac.is_none() && is_homecoming(home, payload) {
            true => self.accepted.insert(home, (request, now + AWAITED_FOR)),
            false => self.accepted.remove(&home),
        };
        mac
    }

    /// The node is not coming home, or is there.
    pub(super) fn forget(&mut self, home: Ipv4Addr) {
        self.heard.remove(&home);
        self.accepted.remove(&home);
    }

    /// Whether a request was accepted whose frame may still come.
    pub(super) fn is_awaited(&self, home: Ipv4Addr, now: Instant) -> bool {
        self.accepted.get(&home).is_some_and(|it| now < it.1)
    }
}

fn digest(payload: &[u8]) -> Digest {
    Hash::Sha256.digest(&[payload])
}

/// Whether a request says that its node is at home. One that a node with a care-of address of its
/// own writes when it leaves is the same but for its D bit, and can be heard abroad.
fn is_homecoming(home: Ipv4Addr, payload: &[u8]) -> bool {
    let message = Message::parse(payload);
    matches!(message, Ok((Message::Request(it), _))
        if it.lifetime == 0
            && it.care_of_address == home
            && !it.flags.has(RequestFlags::DECAPSULATES))
}

#[cfg(test)]
mod tests {
    use wire::codec::Writer;
    use wire::mip4::Request;

    use super::*;

    const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
    const NODE: Mac = [2, 0, 0, 0, 0, 1];
    const STRANGER: Mac = [2, 0, 0, 0, 0, 2];

    const NOW: Instant = Instant(0);

    fn request(flags: u8, care_of_address: Ipv4Addr, identification: u64) -> Vec<u8> {
        let mut w = Writer::new();
        Request {
            flags: RequestFlags(flags),
            lifetime: 0,
            home_address: HOME,
            home_agent: Ipv4Addr::new(10, 18, 3, 1),
            care_of_address,
            identification,
        }
        .write(&mut w);
        w.into_vec()
    }

    #[test]
    fn only_the_frame_of_the_accepted_request_says_where_a_node_is() {
        let (right, forged) = (request(0, HOME, 7), request(0, HOME, 8));
        for is_socket_first in [false, true] {
            let mut homecomings = Homecomings::default();
            assert_eq!(homecomings.hear(HOME, STRANGER, &forged), None);
            if is_socket_first {
                assert_eq!(homecomings.accept(HOME, &right, NOW), None);
                assert!(homecomings.is_awaited(HOME, NOW));
                assert_eq!(homecomings.hear(HOME, STRANGER, &forged), None);
                assert_eq!(homecomings.hear(HOME, NODE, &right), Some(NODE));
            } else {
                assert_eq!(homecomings.hear(HOME, NODE, &right), None);
                // A copy of it, and another forged one.
                assert_eq!(homecomings.hear(HOME, STRANGER, &right), None);
                assert_eq!(homecomings.hear(HOME, STRANGER, &forged), None);
                assert_eq!(homecomings.accept(HOME, &right, NOW), Some(NODE));
            }
            assert!(!homecomings.is_awaited(HOME, NOW));
            assert_eq!(homecomings.hear(HOME, STRANGER, &right), None, "it is over");
        }
    }

    /// Its copy was heard there. A node with a care-of address of its own names its home address
    /// when it ends all its registrations, and has the D bit.
    #[test]
    fn a_request_from_abroad_says_nothing_about_the_home_link() {
        let elsewhere = Ipv4Addr::new(192, 0, 2, 7);
        for (flags, care_of) in [
            (0, elsewhere),
            (RequestFlags::DECAPSULATES, elsewhere),
            (RequestFlags::DECAPSULATES, HOME),
        ] {
            let abroad = request(flags, care_of, 7);
            let mut homecomings = Homecomings::default();
            assert_eq!(homecomings.accept(HOME, &abroad, NOW), None);
            assert!(!homecomings.is_awaited(HOME, NOW));
            assert_eq!(homecomings.hear(HOME, STRANGER, &abroad), None);
            assert_eq!(homecomings.accept(HOME, &abroad, NOW), None);
        }
    }

    #[test]
    fn a_frame_that_comes_long_after_its_acceptance_is_a_copy() {
        let mut homecomings = Homecomings::default();
        homecomings.accept(HOME, &request(0, HOME, 7), NOW);
        let last = NOW + AWAITED_FOR;
        assert!(!homecomings.is_awaited(HOME, last));
        assert!(homecomings.is_awaited(HOME, Instant(last.0 - 1)));
    }

    #[test]
    fn strangers_fill_no_memory() {
        let mut homecomings = Homecomings::default();
        for number in 0..100 {
            homecomings.hear(HOME, STRANGER, &request(0, HOME, number));
            homecomings.hear(
                HOME,
                STRANGER,
                &request(0, Ipv4Addr::new(192, 0, 2, 7), number),
            );
            homecomings.hear(HOME, STRANGER, b"what");
        }
        assert_eq!(homecomings.heard[&HOME].len(), HEARD_MAX);
        homecomings.forget(HOME);
        assert!(homecomings.heard.is_empty());
    }
}
