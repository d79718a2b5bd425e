//! How stations of an access point get keys.

use crypto::rand::Stream;
use wire::ieee80211::{Address, reason};

use super::group::Renewal;
use super::{AccessPoint, Again, Keys, Member, NamedKey, Traffic, random_key};
use crate::counters::DropReason;
use crate::link::wireless::cipher::{GroupKey, PermittedCipher, TemporalKey};
use crate::link::wireless::counts::Counts;
use crate::link::wireless::dynamic_wep::{GivenKey, KeyGiver, SessionKey};
use crate::link::wireless::handshake::{
    Authenticator, AuthenticatorConfig, Fact, Failure, MasterKey, Outbox,
};
use crate::link::wireless::network::Security;
use crate::link::wireless::outbox::{AirOutbox, LinkEvent};
use crate::link::wireless::station::send_eapol;
use crate::time::{Deadline, Duration, Instant};

/// How long the first frame from a station is waited for that shows it has keys of WEP; then twice
/// as long each time.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest wait is this power of two.
const MOST_DOUBLINGS: u32 = 6;

/// The keys of WEP of one station. They are sent again until a frame is under them.
pub(super) struct Giving {
    giver: KeyGiver,
    random: Stream,
    own: TemporalKey,
    /// Whether nothing has come under its own key yet.
    is_own_new: bool,
    attempts: u32,
    next_at: Option<Instant>,
}

impl Giving {
    fn new(session: SessionKey, cipher: PermittedCipher, mut random: Stream) -> Self {
        Self {
            giver: KeyGiver::new(session),
            own: random_key(cipher, &mut random),
            is_own_new: true,
            random,
            attempts: 0,
            next_at: None,
        }
    }

    fn renew(&mut self, renewal: Renewal, cipher: PermittedCipher) {
        if renewal == Renewal::All {
            self.own = random_key(cipher, &mut self.random);
            self.is_own_new = true;
        }
        self.attempts = 0;
    }

    /// The packets with the group's key, and with its own if it may not have that.
    fn packets(&mut self, group: GroupKey, now: Instant) -> Vec<Vec<u8>> {
        self.next_at = Some(now + PATIENCE * (1 << self.attempts.min(MOST_DOUBLINGS)));
        self.attempts += 1;
        let of_group = GivenKey {
            key: group.key,
            key_id: group.key_id,
            is_unicast: false,
        };
        let of_station = GivenKey {
            key: self.own.clone(),
            key_id: 0,
            is_unicast: true,
        };
        let of_station = self.is_own_new.then_some(of_station);
        let given = [of_group].into_iter().chain(of_station);
        given
            .map(|it| self.giver.give(&it, &mut self.random))
            .collect()
    }
}

impl Keys {
    pub(super) fn deadline(&self) -> Option<Deadline> {
        match self {
            Self::None => None,
            Self::Handshake(it) => it.deadline(),
            Self::Given(it) => it.next_at.map(|at| Deadline {
                at,
                why: "send keys of WEP again",
            }),
        }
    }

    /// Adds what its machine has counted.
    pub(super) fn add_to(&self, counts: &mut Counts) {
        match self {
            Self::None => {}
            Self::Handshake(it) => counts.add(it.drops(), it.work()),
            Self::Given(it) => counts.work.merge(it.giver.work()),
        }
    }

    /// A frame under its key came from the station.
    pub(super) fn note_protected(&mut self) {
        if let Self::Given(it) = self {
            (it.next_at, it.is_own_new) = (None, false);
        }
    }
}

impl AccessPoint {
    pub(super) fn begin(
        &mut self,
        station: Address,
        master: MasterKey,
        pmkid: Option<[u8; 16]>,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let Some(rsn) = self.members.get(&station).map(|it| it.rsn.clone()) else {
            return;
        };
        out.tell_master(&master);
        let mut agreed = Outbox::default();
        let handshake = self.authenticator(station, rsn, (master, pmkid), now, &mut agreed);
        let Some(handshake) = handshake else {
            return;
        };
        self.set_keys(station, Keys::Handshake(Box::new(handshake)));
        self.agreed(station, agreed, now, out);
    }

    /// Begins another handshake in the name of a station with keys, which stay until it is done.
    pub(super) fn begin_again(
        &mut self,
        station: Address,
        rsn: Vec<u8>,
        master: NamedKey,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        out.tell_master(&master.0);
        let mut agreed = Outbox::default();
        let handshake = self.authenticator(station, rsn.clone(), master, now, &mut agreed);
        let Some(handshake) = handshake else {
            return;
        };
        let again = Box::new(Again { handshake, rsn });
        self.agreed_again(station, again, agreed, now, out);
    }

    fn authenticator(
        &mut self,
        station: Address,
        supplicant_rsn: Vec<u8>,
        (master, pmkid): NamedKey,
        now: Instant,
        agreed: &mut Outbox,
    ) -> Option<Authenticator> {
        let Security::Rsn { akm, cipher, .. } = &self.network.security else {
            return None;
        };
        let config = AuthenticatorConfig {
            akm: *akm,
            pairwise: *cipher,
            own: self.own,
            supplicant: station,
            master,
            pmkid,
            rsn: self.network.security.rsn(),
            supplicant_rsn,
        };
        let random = self.stream("authenticator");
        Some(Authenticator::new(config, random, now, agreed))
    }

    pub(super) fn key_packet(
        &mut self,
        station: Address,
        packet: &[u8],
        is_protected: bool,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let group = self.group.as_ref().map(|it| it.key(&self.port));
        let member = self.members.get_mut(&station);
        let mut agreed = Outbox::default();
        let (member, group) = match (member, group) {
            (Some(member), Some(group)) => (member, group),
            _ => return self.counts.drops.count(DropReason::UnexpectedMessage),
        };
        if let Some(mut again) = member.again.take_if(|_| !is_protected) {
            // A drop is counted.
            let _ = again.handshake.handle(packet, &group, now, &mut agreed);
            return self.agreed_again(station, again, agreed, now, out);
        }
        let Keys::Handshake(handshake) = &mut member.keys else {
            return self.counts.drops.count(DropReason::UnexpectedMessage);
        };
        // A drop is counted.
        let _ = handshake.handle(packet, &group, now, &mut agreed);
        self.agreed(station, agreed, now, out);
    }

    fn agreed(&mut self, station: Address, agreed: Outbox, now: Instant, out: &mut AirOutbox) {
        for packet in agreed.packets {
            send_eapol(&mut self.port, [self.own, station], &packet, true, out);
        }
        for fact in agreed.facts {
            match fact {
                Fact::Pairwise(key) => drop(self.port.install_pairwise(station, &key)),
                Fact::Group(_) => {}
                Fact::Done => {
                    self.secured(station, out);
                    self.give_group(station, now, out);
                }
                Fact::Unanswered => self.unanswered(station, now, out),
                Fact::GroupTaken => {
                    if let Some(member) = self.members.get_mut(&station) {
                        (member.said_to_leave, member.is_gone) = (None, false);
                    }
                    self.give_group(station, now, out);
                    self.replace_group();
                }
                Fact::Failed(failure) => {
                    let reason = match failure {
                        Failure::OtherRsn => reason::OTHER_ELEMENT,
                        Failure::NoGroupAnswer => reason::GROUP_HANDSHAKE_TIMEOUT,
                        _ => reason::HANDSHAKE_TIMEOUT,
                    };
                    self.leave(station, reason, failure.into(), now, out);
                }
            }
        }
    }

    /// What a handshake in the name of a station with keys has put out. Only if it is done, its
    /// keys replace those of before.
    fn agreed_again(
        &mut self,
        station: Address,
        again: Box<Again>,
        mut agreed: Outbox,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        for packet in core::mem::take(&mut agreed.packets) {
            send_eapol(&mut self.port, [self.own, station], &packet, false, out);
        }
        let Some(member) = self.members.get_mut(&station) else {
            return;
        };
        match agreed.facts[..] {
            [] => member.again = Some(again),
            [Fact::Failed(_), ..] => {
                let it = &again.handshake;
                self.counts.add(it.drops(), it.work());
            }
            _ => {
                let Again { handshake, rsn } = *again;
                (member.rsn, member.traffic) = (rsn, Traffic::default());
                self.set_keys(station, Keys::Handshake(Box::new(handshake)));
                out.events.push(LinkEvent::Joined(station));
                self.agreed(station, agreed, now, out);
            }
        }
    }

    /// Gives the next group key to all.
    pub(super) fn renew_group(&mut self, renewal: Renewal, now: Instant, out: &mut AirOutbox) {
        if let Security::DynamicWep(cipher) = self.network.security {
            // Nothing tells that a station has it.
            self.group
                .iter_mut()
                .for_each(|it| it.replace(&mut self.port));
            for station in self.stations() {
                self.give_again(station, (renewal, cipher), now, out);
            }
            return;
        }
        for station in self.stations() {
            self.give_group(station, now, out);
        }
        self.replace_group();
    }

    /// Asks a station with keys whether it is there.
    pub(super) fn ask(&mut self, station: Address, now: Instant, out: &mut AirOutbox) {
        let group = self.group.as_ref().map(|it| it.newest(&self.port));
        let keys = self.members.get_mut(&station).map(|it| &mut it.keys);
        let (Some(Keys::Handshake(handshake)), Some(group)) = (keys, group) else {
            return;
        };
        let mut agreed = Outbox::default();
        handshake.ask(&group, now, &mut agreed);
        self.agreed(station, agreed, now, out);
    }

    /// Gives a station the newest group key, if it has keys but not this one.
    fn give_group(&mut self, station: Address, now: Instant, out: &mut AirOutbox) {
        let group = self.group.as_ref().map(|it| it.newest(&self.port));
        let keys = self.members.get_mut(&station).map(|it| &mut it.keys);
        let (Some(Keys::Handshake(handshake)), Some(group)) = (keys, group) else {
            return;
        };
        let mut agreed = Outbox::default();
        if handshake.give_group(&group, now, &mut agreed) {
            self.agreed(station, agreed, now, out);
        }
    }

    /// Puts the next group key in force once all stations with keys have it. Those that are about
    /// to get keys get it after them.
    pub(super) fn replace_group(&mut self) {
        let Some(group) = self.group.as_mut().filter(|it| it.is_renewed()) else {
            return;
        };
        let next = group.newest(&self.port);
        let has_it = |member: &Member| match &member.keys {
            Keys::Handshake(it) => it.has_group(&next) || !it.has_keys(),
            _ => true,
        };
        if self.members.values().all(has_it) {
            group.replace(&mut self.port);
        }
    }

    /// `may_repeat`: message 1, which a stranger may have asked for in any name.
    pub(super) fn fire_keys(
        &mut self,
        station: Address,
        may_repeat: bool,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let member = self.members.get_mut(&station);
        if let Some(mut again) = member.and_then(|it| it.again.take()) {
            let mut agreed = Outbox::default();
            again.handshake.fire(now, may_repeat, &mut agreed);
            self.agreed_again(station, again, agreed, now, out);
        }
        match self.members.get_mut(&station).map(|it| &mut it.keys) {
            Some(Keys::Handshake(handshake)) => {
                let mut agreed = Outbox::default();
                handshake.fire(now, may_repeat, &mut agreed);
                self.agreed(station, agreed, now, out);
            }
            Some(Keys::Given(giving)) if giving.next_at.is_some_and(|at| at <= now) => {
                self.send_given(station, now, out);
            }
            _ => {}
        }
    }

    /// Gives a station keys of WEP after EAP.
    pub(super) fn give(
        &mut self,
        station: Address,
        session: SessionKey,
        cipher: PermittedCipher,
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let random = self.stream("wep");
        self.set_keys(
            station,
            Keys::Given(Box::new(Giving::new(session, cipher, random))),
        );
        self.send_given(station, now, out);
        self.install_given(station);
        self.secured(station, out);
    }

    fn give_again(
        &mut self,
        station: Address,
        (renewal, cipher): (Renewal, PermittedCipher),
        now: Instant,
        out: &mut AirOutbox,
    ) {
        let keys = self.members.get_mut(&station).map(|it| &mut it.keys);
        if let Some(Keys::Given(giving)) = keys {
            giving.renew(renewal, cipher);
            self.send_given(station, now, out);
            self.install_given(station);
        }
    }

    /// The keys go out before the pairwise one is installed.
    fn send_given(&mut self, station: Address, now: Instant, out: &mut AirOutbox) {
        let group = self.group.as_ref().map(|it| it.newest(&self.port));
        let keys = self.members.get_mut(&station).map(|it| &mut it.keys);
        let (Some(Keys::Given(giving)), Some(group)) = (keys, group) else {
            return;
        };
        for packet in giving.packets(group, now) {
            send_eapol(&mut self.port, [self.own, station], &packet, true, out);
        }
    }

    fn install_given(&mut self, station: Address) {
        let member = self.members.get(&station);
        if let Some(Keys::Given(giving)) = member.map(|it| &it.keys) {
            self.port.install_pairwise(station, &giving.own);
        }
    }

    fn set_keys(&mut self, station: Address, keys: Keys) {
        let member = self.members.get_mut(&station);
        let old = member.map(|it| core::mem::replace(&mut it.keys, keys));
        old.iter().for_each(|it| it.add_to(&mut self.counts));
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
