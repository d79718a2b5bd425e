//! How a station gets keys.

use crypto::rand::Stream;
use wire::ieee80211::Address;

use super::{FIRST_EARLY, Keys, MOST_EARLY, Stage, Station, is_key_packet, send_eapol};
use crate::link::wireless::cipher::GroupKey;
use crate::link::wireless::counts::Counts;
use crate::link::wireless::dynamic_wep::GivenKey;
use crate::link::wireless::handshake::{Fact, MasterKey, Outbox, Supplicant, SupplicantConfig};
use crate::link::wireless::network::Security;
use crate::link::wireless::outbox::{AirOutbox, LinkEvent};
use crate::time::Instant;

impl Keys {
    /// Adds what its machine has counted.
    pub(super) fn add_to(&self, counts: &mut Counts) {
        match self {
            Self::None => {}
            Self::Handshake(it) => counts.add(it.drops(), it.work()),
            Self::Given(it) => counts.add(it.drops(), it.work()),
        }
    }
}

impl Station {
    /// Whether an Ethernet frame is a packet of keys for us.
    pub(super) fn takes(&self, frame: &[u8]) -> bool {
        self.network.security.has_key_packets() && is_key_packet(frame)
    }

    pub(super) fn supplicant(
        &mut self,
        access_point: Address,
        master: MasterKey,
        now: Instant,
    ) -> Keys {
        let Security::Rsn { akm, cipher, .. } = &self.network.security else {
            return Keys::None;
        };
        let config = SupplicantConfig {
            akm: *akm,
            pairwise: *cipher,
            group: *cipher,
            own: self.own,
            authenticator: access_point,
            master,
            rsn: self.network.security.rsn(),
            authenticator_rsn: self.access_point_rsn.clone(),
        };
        let random = self.stream("supplicant");
        Keys::Handshake(Box::new(Supplicant::new(config, random, now)))
    }

    /// The answer goes as the packet came: who sends it in the clear could read no other one.
    pub(super) fn key_packet(
        &mut self,
        packet: Vec<u8>,
        is_protected: bool,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let is_handled = match &mut self.keys {
            Keys::None => false,
            Keys::Handshake(supplicant) => {
                let mut agreed = Outbox::default();
                let handled = supplicant.handle(&packet, &mut agreed);
                self.agreed(agreed, is_protected, now, out);
                handled.is_ok()
            }
            Keys::Given(taker) => match taker.handle(&packet) {
                Ok(given) => {
                    given.into_iter().for_each(|it| self.given(it, out));
                    true
                }
                Err(_) => false,
            },
        };
        // It may be of the next session, whose key the owner has not given yet.
        if !is_handled && self.network.security.wants_session() {
            // Others can send such packets too, before the real one and after it.
            if self.early.len() == MOST_EARLY {
                self.early.remove(FIRST_EARLY);
            }
            self.early.push_back((packet, is_protected));
        }
    }

    pub(super) fn given(&mut self, given: GivenKey, out: &mut AirOutbox) {
        let Stage::Associated(access_point) = self.stage else {
            return;
        };
        if given.is_unicast {
            self.port.install_pairwise(access_point, &given.key);
            out.events.push(LinkEvent::Secured(access_point));
        } else {
            self.port.install_group(&GroupKey {
                key: given.key,
                key_id: given.key_id,
                last_number: 0,
            });
        }
    }

    /// Sends the packets first: the last message goes out before its key is installed.
    pub(super) fn agreed(
        &mut self,
        agreed: Outbox,
        is_protected: bool,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let Stage::Associated(access_point) = self.stage else {
            return;
        };
        for packet in agreed.packets {
            let ends = [self.own, access_point];
            send_eapol(&mut self.port, ends, &packet, is_protected, out);
        }
        for fact in agreed.facts {
            match fact {
                Fact::Pairwise(key) => drop(self.port.install_pairwise(access_point, &key)),
                Fact::Group(key) => self.port.install_group(&key),
                Fact::GroupTaken | Fact::Unanswered => {}
                Fact::Done => out.events.push(LinkEvent::Secured(access_point)),
                Fact::Failed(failure) => self.fail(failure.into(), now, out),
            }
        }
    }

    /// Keeps the counts of a machine that ends.
    pub(super) fn retire(&mut self) {
        let ended = core::mem::replace(&mut self.keys, Keys::None);
        ended.add_to(&mut self.counts);
    }

    pub(super) fn stream(&mut self, name: &str) -> Stream {
        self.streams += 1;
        self.seed.stream(name, self.streams)
    }
}
