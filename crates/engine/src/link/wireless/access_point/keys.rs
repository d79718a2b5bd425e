//! How stations of an access point get keys.

use crypto::rand::Stream;
use wire::ieee80211::{Address, reason};

use super::{AccessPoint, random_key};
use crate::counters::DropReason;
use crate::link::wireless::cipher::PermittedCipher;
use crate::link::wireless::dynamic_wep::{GivenKey, KeyGiver, SessionKey};
use crate::link::wireless::handshake::{
    Authenticator, AuthenticatorConfig, Fact, Failure, MasterKey, Outbox,
};
use crate::link::wireless::network::Security;
use crate::link::wireless::outbox::{AirOutbox, LinkEvent};
use crate::link::wireless::station::send_eapol;
use crate::time::Instant;

impl AccessPoint {
    pub(super) fn begin(
        &mut self,
        station: Address,
        master: MasterKey,
        pmkid: Option<[u8; 16]>,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let Security::Rsn { akm, cipher, .. } = &self.network.security else {
            return;
        };
        let (akm, pairwise) = (*akm, *cipher);
        let random = self.stream("authenticator");
        let Some(member) = self.members.get_mut(&station) else {
            return;
        };
        if let Some(old) = member.handshake.take() {
            self.drops.merge(old.drops());
            self.work.merge(old.work());
        }
        let config = AuthenticatorConfig {
            akm,
            pairwise,
            own: self.own,
            supplicant: station,
            master,
            pmkid,
            rsn: self.network.security.rsn(),
            supplicant_rsn: member.rsn.clone(),
        };
        let mut agreed = Outbox::default();
        let handshake = Authenticator::new(config, random, now, &mut agreed);
        member.handshake = Some(Box::new(handshake));
        self.agreed(station, agreed, out);
    }

    pub(super) fn key_packet(
        &mut self,
        station: Address,
        packet: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let group = self.group.as_ref().map(|it| it.key(&self.port));
        let member = self.members.get_mut(&station);
        let handshake = member.and_then(|it| it.handshake.as_mut());
        let (Some(handshake), Some(group)) = (handshake, group) else {
            return self.drops.count(DropReason::UnexpectedMessage);
        };
        let mut agreed = Outbox::default();
        // A drop is counted.
        let _ = handshake.handle(packet, &group, now, &mut agreed);
        self.agreed(station, agreed, out);
    }

    pub(super) fn agreed(&mut self, station: Address, agreed: Outbox, out: &mut AirOutbox) {
        for packet in agreed.packets {
            send_eapol(&mut self.port, self.own, station, &packet, out);
        }
        for fact in agreed.facts {
            match fact {
                Fact::Pairwise(key) => drop(self.port.install_pairwise(station, &key)),
                Fact::Group(_) => {}
                Fact::Done => self.secured(station, out),
                Fact::Failed(failure) => {
                    let reason = match failure {
                        Failure::OtherRsn => reason::OTHER_ELEMENT,
                        _ => reason::HANDSHAKE_TIMEOUT,
                    };
                    self.leave(station, reason, failure.into(), out);
                }
            }
        }
    }

    /// The keys go out before the pairwise one is installed.
    pub(super) fn give(
        &mut self,
        station: Address,
        session: SessionKey,
        cipher: PermittedCipher,
        out: &mut AirOutbox,
    ) {
        let mut random = self.stream("wep");
        let mut giver = KeyGiver::new(session);
        let own = random_key(cipher, &mut random);
        let group = self.group.as_ref().map(|it| it.key(&self.port));
        let of_group = group.map(|group| GivenKey {
            key: group.key,
            key_id: group.key_id,
            is_unicast: false,
        });
        let of_station = GivenKey {
            key: own.clone(),
            key_id: 0,
            is_unicast: true,
        };
        for given in of_group.iter().chain([&of_station]) {
            let packet = giver.give(given, &mut random);
            send_eapol(&mut self.port, self.own, station, &packet, out);
        }
        self.work.merge(giver.work());
        self.port.install_pairwise(station, &own);
        self.secured(station, out);
    }

    pub(super) fn secured(&mut self, station: Address, out: &mut AirOutbox) {
        if let Some(member) = self.members.get_mut(&station) {
            member.is_secured = true;
        }
        if let Some(exchange) = self.exchanges.remove(&station) {
            self.retire_exchange(&exchange);
        }
        out.events.push(LinkEvent::Secured(station));
    }

    pub(super) fn stream(&mut self, name: &str) -> Stream {
        self.streams += 1;
        self.seed.stream(name, self.streams)
    }
}
