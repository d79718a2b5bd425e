//! Where on the home link a node is that comes back: the link-layer address that its request came
//! from.
//!
//! The request itself comes by the socket, without that address, and anybody on the link can send
//! frames. So only the first frame counts that has every octet of a request that the home agent
//! has accepted.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use wire::mip4::Message;

use crate::ether::Mac;

/// Requests of one home address that wait for their acceptance. The oldest gives way.
const HEARD_MAX: usize = 8;

/// Requests that come in frames and by the socket, in either order.
#[derive(Default)]
pub(super) struct Homecomings {
    heard: BTreeMap<Ipv4Addr, VecDeque<(Vec<u8>, Mac)>>,
    /// Accepted before their frames were heard.
    accepted: BTreeMap<Ipv4Addr, Vec<u8>>,
}

impl Homecomings {
    /// A frame from a node that is away. Where it is, if its request was accepted.
    pub(super) fn hear(&mut self, home: Ipv4Addr, mac: Mac, payload: &[u8]) -> Option<Mac> {
        if self.accepted.get(&home).is_some_and(|it| it == payload) {
            self.forget(home);
            return Some(mac);
        }
        let heard = self.heard.entry(home).or_default();
        let is_copy = heard.iter().any(|(other, _)| other == payload);
        if is_homecoming(home, payload) && !is_copy {
            heard.truncate(HEARD_MAX - 1);
            heard.push_front((payload.to_vec(), mac));
        }
        None
    }

    /// This request of a node has brought it home. Where it is, if its frame was heard.
    pub(super) fn accept(&mut self, home: Ipv4Addr, payload: &[u8]) -> Option<Mac> {
        let heard = self.heard.remove(&home).unwrap_or_default();
        let found = heard.iter().find(|(other, _)| other == payload);
        let mac = found.map(|(_, mac)| *mac);
        match mac.is_none() && is_homecoming(home, payload) {
            true => self.accepted.insert(home, payload.to_vec()),
            false => self.accepted.remove(&home),
        };
        mac
    }

    /// The node is not coming home, or is there.
    pub(super) fn forget(&mut self, home: Ipv4Addr) {
        self.heard.remove(&home);
        self.accepted.remove(&home);
    }

    /// Whether a request was accepted whose frame was not heard.
    pub(super) fn is_awaited(&self, home: Ipv4Addr) -> bool {
        self.accepted.contains_key(&home)
    }
}

/// Whether a request says that its node is at home. Abroad a node does not write this, so nobody
/// can have heard it there.
fn is_homecoming(home: Ipv4Addr, payload: &[u8]) -> bool {
    let message = Message::parse(payload);
    matches!(message, Ok((Message::Request(it), _))
        if it.lifetime == 0 && it.care_of_address == home)
}

#[cfg(test)]
mod tests {
    use wire::codec::Writer;
    use wire::mip4::{Request, RequestFlags};

    use super::*;

    const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
    const NODE: Mac = [2, 0, 0, 0, 0, 1];
    const STRANGER: Mac = [2, 0, 0, 0, 0, 2];

    fn request(lifetime: u16, care_of_address: Ipv4Addr, identification: u64) -> Vec<u8> {
        let mut w = Writer::new();
        Request {
            flags: RequestFlags(0),
            lifetime,
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
                assert_eq!(homecomings.accept(HOME, &right), None);
                assert!(homecomings.is_awaited(HOME));
                assert_eq!(homecomings.hear(HOME, STRANGER, &forged), None);
                assert_eq!(homecomings.hear(HOME, NODE, &right), Some(NODE));
            } else {
                assert_eq!(homecomings.hear(HOME, NODE, &right), None);
                // A copy of it, and another forged one.
                assert_eq!(homecomings.hear(HOME, STRANGER, &right), None);
                assert_eq!(homecomings.hear(HOME, STRANGER, &forged), None);
                assert_eq!(homecomings.accept(HOME, &right), Some(NODE));
            }
            assert!(!homecomings.is_awaited(HOME));
            assert_eq!(homecomings.hear(HOME, STRANGER, &right), None, "it is over");
        }
    }

    /// Its copy was heard there.
    #[test]
    fn a_request_from_abroad_says_nothing_about_the_home_link() {
        let mut homecomings = Homecomings::default();
        let abroad = request(0, Ipv4Addr::new(192, 0, 2, 7), 7);
        assert_eq!(homecomings.accept(HOME, &abroad), None);
        assert_eq!(homecomings.hear(HOME, STRANGER, &abroad), None);
        assert_eq!(homecomings.accept(HOME, &abroad), None);
    }

    #[test]
    fn strangers_fill_no_memory() {
        let mut homecomings = Homecomings::default();
        for number in 0..100 {
            homecomings.hear(HOME, STRANGER, &request(0, HOME, number));
            homecomings.hear(HOME, STRANGER, &request(600, HOME, number));
            homecomings.hear(HOME, STRANGER, b"what");
        }
        assert_eq!(homecomings.heard[&HOME].len(), HEARD_MAX);
        homecomings.forget(HOME);
        assert!(homecomings.heard.is_empty());
    }
}
