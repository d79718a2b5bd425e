//! An access point: it answers probes, lets stations join, agrees keys with each, and carries
//! frames.
//!
//! Whoever has the network's name may join; without keys it sends and gets EAPOL alone, and has
//! 30 s. Stations without keys, and those that are long silent, make room for others. Anybody can
//! ask to join in the name of a station with keys, or say that it leaves. With SAE and OWE the
//! station is asked first: while it answers under its keys, nobody takes its place. This is the SA
//! query of IEEE 802.11-2020 §11.13, by the group key handshake. With a passphrase the station
//! keeps its keys until another handshake is done. With EAP the owner gives each session's key;
//! there such a request ends the link, and the station is told. Left out: beacons, sleeping
//! stations, more than one network.

mod group;
mod join;
mod keys;
mod wired;

use std::collections::BTreeMap;

use crypto::rand::{Seed, Stream};
use wire::ieee80211::{Address, ETHERNET_LEN, Header, reason};

use group::Group;
use keys::Giving;
use wired::Wired;

use super::cipher::{PermittedCipher, TemporalKey};
use super::counts::Counts;
use super::dynamic_wep::SessionKey;
use super::handshake::{Authenticator, MasterKey};
use super::network::{Network, Security};
use super::outbox::{AirOutbox, LinkFailure, Received};
use super::pace::Pace;
use super::port::{Port, Role};
use super::sae::{Sae, SaeKeys, SaeOutbox, TokenGate};
use super::session::SessionFault;
use super::station::{is_eapol, is_key_packet};
use crate::counters::{DropCounters, DropReason};
use crate::time::{Deadline, Duration, Instant};
use crate::work::Work;

/// Exchanges of SAE from which on stations must show that they receive.
const FREE_EXCHANGES: usize = 4;
/// Most exchanges of SAE.
const MOST_EXCHANGES: usize = 64;
/// Most stations that have authenticated, open, and not yet asked for association.
const MOST_AUTHENTICATED: usize = 64;
/// Exchanges of SAE that begin at once, and then each second: each costs some four scalings.
const SAE_PACE: u32 = 64;
/// The same of OWE, which costs two.
const OWE_PACE: u32 = 256;
/// Handshakes without an answer from which on message 1 is not repeated.
const MOST_UNANSWERED: usize = 64;
/// From authentication to association.
const EXCHANGE_PATIENCE: Duration = Duration::from_secs(10);
/// After so long a silence a station is told to leave.
const INACTIVITY: Duration = Duration::from_secs(300);
/// After so long a silence a station makes room for another one. Ours are never silent so long.
const LONG_SILENCE: Duration = Duration::from_secs(150);
/// How long a station may be without keys and send no EAPOL.
const KEY_PATIENCE: Duration = Duration::from_secs(30);
/// The group of IEEE 802.1X's access points (IEEE 802.1X-2020 §11.1.1).
const PAE_GROUP: Address = Address([1, 0x80, 0xc2, 0, 0, 3]);
/// Between two answers to strangers' data.
const PACE: Duration = Duration::from_millis(100);
/// Time units between beacons, if there were some.
const BEACON_INTERVAL: u16 = 100;

/// An access point.
pub struct AccessPoint {
    network: Network,
    own: Address,
    seed: Seed,
    streams: u64,
    port: Port,
    group: Option<Group>,
    members: BTreeMap<Address, Member>,
    exchanges: BTreeMap<Address, Exchange>,
    /// Who has authenticated, open, and when.
    authenticated: BTreeMap<Address, Instant>,
    wired: Wired,
    gate: TokenGate,
    costly: Pace,
    /// When a stranger may be told again that it has not joined.
    next_answer: Instant,
    counts: Counts,
}

/// A station that has joined.
struct Member {
    association_id: u16,
    rsn: Vec<u8>,
    keys: Keys,
    /// Somebody has joined again in its name. It may be another.
    again: Option<Box<Again>>,
    /// The reason with which somebody has left in its name, until it says that it is there.
    said_to_leave: Option<u16>,
    /// It was asked, and does not answer: another may take its place.
    is_gone: bool,
    /// Not before the key of EAP has come.
    is_secured: bool,
    joined: u64,
    heard_at: Instant,
    /// When it has joined, or sent EAPOL.
    asked_at: Instant,
    traffic: Traffic,
}

impl Member {
    /// When it has to leave, if nothing happens.
    fn ends_at(&self) -> Instant {
        let silent = self.heard_at + INACTIVITY;
        match self.is_secured {
            true => silent,
            false => silent.min(self.asked_at + KEY_PATIENCE),
        }
    }

    fn add_to(&self, counts: &mut Counts) {
        self.keys.add_to(counts);
        if let Some(again) = &self.again {
            counts.add(again.handshake.drops(), again.handshake.work());
        }
    }
}

/// A handshake with whoever has joined in the name of a station with keys.
struct Again {
    handshake: Authenticator,
    rsn: Vec<u8>,
}

/// Who gives a station its keys.
enum Keys {
    None,
    Handshake(Box<Authenticator>),
    Given(Box<Giving>),
}

/// What a station of an access point has sent and received since it has joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames from it.
    pub received_frames: u64,
    /// Octets of these Ethernet frames.
    pub received_octets: u64,
    /// Frames to it alone.
    pub sent_frames: u64,
    /// Octets of these Ethernet frames.
    pub sent_octets: u64,
    /// Frames from it that were dropped.
    pub dropped: u64,
}

struct Exchange {
    sae: Sae,
    began: Instant,
    keys: Option<SaeKeys>,
}

/// Where a frame of a station goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// To what is behind the access point.
    pub up: bool,
    /// Into the air again, to another station or to all.
    pub back: bool,
}

impl AccessPoint {
    /// An access point with this address.
    pub fn new(network: Network, own: Address, seed: Seed) -> Self {
        let mut port = Port::new(Role::AccessPoint, own, network.security.privacy());
        let group = match &network.security {
            Security::Open => None,
            Security::StaticWep { key, key_id } => {
                port.install_shared(key, *key_id);
                None
            }
            Security::DynamicWep(cipher) | Security::Rsn { cipher, .. } => {
                let random = seed.stream("group key", 0);
                Some(Group::new(*cipher, random, &mut port))
            }
        };
        let pace = match network.security.is_sae() {
            true => SAE_PACE,
            false => OWE_PACE,
        };
        let gate = TokenGate::new(FREE_EXCHANGES, seed.stream("tokens", 0));
        Self {
            network,
            own,
            seed,
            streams: 0,
            port,
            group,
            members: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            authenticated: BTreeMap::new(),
            wired: Wired::default(),
            gate,
            costly: Pace::new(pace, Duration::from_secs(1) / pace),
            next_answer: Instant(0),
            counts: Counts::default(),
        }
    }

    /// Makes another group key each time this has passed, beside those when a station has left.
    pub fn renew_group_every(&mut self, interval: Duration, now: Instant) {
        if let Some(group) = &mut self.group {
            group.renew_every(interval, now);
        }
    }

    /// Tells of a frame from behind the access point, before [`Self::protect`].
    pub fn note_wired(&mut self, frame: &[u8], now: Instant) {
        let source = frame.get(6..12).and_then(<[u8]>::first_chunk);
        if let Some(source) = source.filter(|_| self.network.security.lets_anybody_in()) {
            self.wired.note(Address(*source), now);
        }
    }

    /// Turns an Ethernet frame into one for the air, as [`Port::protect`]. EAPOL goes out of the
    /// access point alone.
    pub fn protect(&mut self, frame: &[u8], air: &mut [u8]) -> Result<usize, DropReason> {
        if is_eapol(frame) {
            let of_us = frame[6..12] == self.own.0;
            let reason = match (self.network.security.carries_eapol(), of_us) {
                (true, true) => None,
                (true, false) => Some(DropReason::ForgedSource),
                (false, _) => Some(DropReason::UnexpectedMessage),
            };
            if let Some(reason) = reason {
                self.counts.drops.count(reason);
                return Err(reason);
            }
        }
        let len = self.port.protect(frame, air)?;
        let receiver = frame.first_chunk().map(|octets| Address(*octets));
        if let Some(member) = receiver.and_then(|it| self.members.get_mut(&it)) {
            member.traffic.sent_frames += 1;
            member.traffic.sent_octets += frame.len() as u64;
        }
        Ok(len)
    }

    /// Takes a frame from the air.
    pub fn receive(&mut self, air: &mut [u8], now: Instant, out: &mut AirOutbox) -> Received {
        let Ok((header, len)) = Header::parse(air) else {
            return self.dropped(DropReason::LinkUnsupportedFrame);
        };
        let from = header.transmitter;
        if from.is_group() || from == self.own {
            return self.dropped(DropReason::ForgedSource);
        }
        if let Some(member) = self.members.get_mut(&from) {
            member.heard_at = now;
        }
        if header.is_management() {
            return match self.manage(&header, &air[len..], now, out) {
                Ok(()) => Received::Taken,
                Err(reason) => self.dropped(reason),
            };
        }
        match self.port.unprotect(air, now) {
            Ok(opened) => {
                let frame = &air[opened.frame.clone()];
                if is_eapol(frame) {
                    if let Some(member) = self.members.get_mut(&from) {
                        member.asked_at = now;
                    }
                    if self.network.security.has_key_packets() && is_key_packet(frame) {
                        let packet = frame[ETHERNET_LEN..].to_vec();
                        self.key_packet(from, &packet, opened.is_protected, now, out);
                        return Received::Taken;
                    }
                    if let Err(reason) = self.check_eapol(frame) {
                        return self.dropped(reason);
                    }
                }
                if let Some(member) = self.members.get_mut(&from) {
                    if opened.is_protected {
                        member.keys.note_protected();
                        member.is_gone = false;
                    }
                    member.traffic.received_frames += 1;
                    member.traffic.received_octets += opened.frame.len() as u64;
                }
                Received::Frame {
                    frame: opened.frame,
                    is_protected: opened.is_protected,
                }
            }
            Err(reason) => {
                self.note_drop(from, reason, now, out);
                Received::Dropped(reason)
            }
        }
    }

    fn dropped(&mut self, reason: DropReason) -> Received {
        self.counts.drops.count(reason);
        Received::Dropped(reason)
    }

    /// EAPOL is for the access point: nobody without keys speaks to others through it
    /// (CVE-2020-26139).
    fn check_eapol(&self, frame: &[u8]) -> Result<(), DropReason> {
        if !self.network.security.carries_eapol() {
            return Err(DropReason::UnexpectedMessage);
        }
        match frame[..6] == self.own.0 || frame[..6] == PAE_GROUP.0 {
            true => Ok(()),
            false => Err(DropReason::LinkNotForUs),
        }
    }

    fn note_drop(&mut self, from: Address, reason: DropReason, now: Instant, out: &mut AirOutbox) {
        if let Some(member) = self.members.get_mut(&from) {
            member.traffic.dropped += 1;
        }
        // A station that has keys, and whose access point has forgotten them, does not know.
        let has_none = |it: &Member| !it.is_secured && matches!(it.keys, Keys::None);
        let is_strange = match reason {
            DropReason::LinkUnknownStation => true,
            DropReason::LinkNoKey => self.members.get(&from).is_some_and(has_none),
            _ => false,
        };
        if is_strange && self.next_answer <= now {
            self.next_answer = now + PACE;
            self.dismiss(from, reason::NOT_ASSOCIATED, out);
        }
        let failures = self.port.mic_failures();
        if reason == DropReason::LinkBadMic && failures.are_active(now) {
            if let Some(group) = &mut self.group {
                group.stop(failures.until());
            }
            for station in self.stations() {
                self.leave(
                    station,
                    reason::MIC_FAILURE,
                    LinkFailure::Countermeasures,
                    now,
                    out,
                );
            }
        }
    }

    /// Where a frame from a station goes: EAPOL and frames to others go up, frames to stations with
    /// keys back into the air, and frames to groups both ways. Where anybody may join, an address
    /// behind the access point stays there.
    pub fn way_of(&self, frame: &[u8], now: Instant) -> Way {
        let to = frame
            .first_chunk()
            .map_or(self.own, |octets| Address(*octets));
        let is_eapol = frame.get(12..14) == Some(&wire::ieee80211::ETHERTYPE_EAPOL.to_be_bytes());
        let member = self.members.get(&to).filter(|it| it.is_secured);
        let is_to_station = member.is_some() && !self.wired.has(to, now);
        Way {
            up: is_eapol || !is_to_station,
            back: !is_eapol && (is_to_station || to.is_group()),
        }
    }

    /// Takes EAP's key for a station, of 64 octets or more, and gives the station keys.
    pub fn session(
        &mut self,
        station: Address,
        key: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), SessionFault> {
        if !self.network.security.wants_session() {
            return Err(SessionFault::NotOfEap);
        }
        if !self.members.contains_key(&station) {
            return Err(SessionFault::NotJoined);
        }
        if let Security::DynamicWep(cipher) = self.network.security {
            let session = SessionKey::new(key).ok_or(SessionFault::Short)?;
            self.give(station, session, cipher, now, out);
        } else {
            let master = MasterKey::of_eap(key).ok_or(SessionFault::Short)?;
            self.begin(station, master, None, now, out);
        }
        Ok(())
    }

    /// Ends the link to a station. False if it has not joined.
    pub fn end(&mut self, station: Address, now: Instant, out: &mut AirOutbox) -> bool {
        let is_member = self.members.contains_key(&station);
        if is_member {
            self.leave(station, reason::LEAVING, LinkFailure::Told, now, out);
        }
        is_member
    }

    /// Ends all links.
    pub fn close(&mut self, now: Instant, out: &mut AirOutbox) {
        for station in self.stations() {
            self.end(station, now, out);
        }
    }

    /// The stations that have joined.
    pub fn stations(&self) -> Vec<Address> {
        self.members.keys().copied().collect()
    }

    /// Whether a station has its keys, and what it has sent and received.
    pub fn station(&self, station: Address) -> Option<(bool, Traffic)> {
        let member = self.members.get(&station)?;
        Some((member.is_secured, member.traffic))
    }

    /// When to call [`Self::fire`].
    pub fn deadline(&self) -> Option<Deadline> {
        let members = self.members.values();
        let again = |it: &Member| it.again.as_ref().and_then(|it| it.handshake.deadline());
        let keys = members
            .flat_map(|it| [it.keys.deadline(), again(it)])
            .flatten();
        let exchanges = self.exchanges.values().map(|it| {
            let end = Deadline {
                at: it.began + EXCHANGE_PATIENCE,
                why: "forget an exchange of SAE",
            };
            let next = it.sae.deadline().filter(|next| next.at < end.at);
            next.unwrap_or(end)
        });
        let group = self.group.as_ref().and_then(Group::deadline);
        let ends = self.members.values().map(Member::ends_at).min();
        let silence = ends.map(|at| Deadline {
            at,
            why: "tell a silent station, or one without keys, to leave",
        });
        let all = keys.chain(exchanges).chain(group).chain(silence);
        all.min_by_key(|it| it.at)
    }

    /// Does what it is time for.
    pub fn fire(&mut self, now: Instant, out: &mut AirOutbox) {
        let group = self.group.as_mut();
        if let Some(renewal) = group.and_then(|it| it.fire(now, &mut self.port)) {
            self.renew_group(renewal, now, out);
        }
        let members = self.members.iter();
        let ended = members.filter(|(_, it)| it.ends_at() <= now);
        let ended: Vec<(Address, bool)> = ended
            .map(|(station, it)| (*station, it.heard_at + INACTIVITY <= now))
            .collect();
        for (station, is_silent) in ended {
            let (reason, why) = match is_silent {
                true => (reason::INACTIVITY, LinkFailure::Inactive),
                false => (reason::HANDSHAKE_TIMEOUT, LinkFailure::NoKeys),
            };
            self.leave(station, reason, why, now, out);
        }
        let is_open = |it: &&Member| !it.is_secured && matches!(it.keys, Keys::Handshake(_));
        let open = self.members.values().filter(is_open).count();
        let may_repeat = open <= MOST_UNANSWERED;
        for station in self.stations() {
            self.fire_keys(station, may_repeat, now, out);
        }
        let exchanging: Vec<Address> = self.exchanges.keys().copied().collect();
        for station in exchanging {
            let Some(mut exchange) = self.exchanges.remove(&station) else {
                continue;
            };
            let mut answer = SaeOutbox::default();
            exchange.sae.fire(now, &mut answer);
            match exchange.began + EXCHANGE_PATIENCE <= now {
                true => self.retire_exchange(&exchange),
                false => self.exchanged(station, exchange, answer, out),
            }
        }
    }

    /// Drops by reason.
    pub fn drops(&self) -> DropCounters {
        self.all().drops
    }

    /// What was done so far.
    pub fn work(&self) -> Work {
        self.all().work
    }

    fn all(&self) -> Counts {
        let mut all = self.counts.clone();
        all.add(self.port.drops(), self.port.work());
        for member in self.members.values() {
            member.add_to(&mut all);
        }
        for Exchange { sae, .. } in self.exchanges.values() {
            all.add(sae.drops(), sae.work());
        }
        all
    }
}

/// A master key, with its name if it has one.
type NamedKey = (MasterKey, Option<[u8; 16]>);

fn random_key(cipher: PermittedCipher, random: &mut Stream) -> TemporalKey {
    let mut octets = zeroize::Zeroizing::new(vec![0; cipher.cipher().key_len()]);
    random.fill(&mut octets);
    TemporalKey::new(cipher, &octets).expect("its length")
}
