//! One end of a wireless link: a station or an access point.
//!
//! Frames to a station are protected by its pairwise key, frames to groups by the group key; a
//! shared key of WEP stands for both. EAPOL alone passes in the clear, as it brings the keys. Once
//! there is a pairwise key, only key packets are taken in the clear, from a peer that has not
//! installed its key yet; the owner checks their MIC before it believes or answers them. A key of
//! WEP never protects EAPOL: nothing tells when the other end has it. Who joins, leaves and
//! forwards between stations is the owner's concern.

use core::ops::Range;
use std::collections::BTreeMap;

use wire::codec::Reader;
use wire::ieee80211::{
    Address, Direction, ETHERNET_LEN, ETHERTYPE_EAPOL, Eapol, EthernetHeader, Header, PacketType,
    SNAP_LEN, control, snap,
};

use super::cipher::{GroupKey, LinkCipher, TemporalKey};
use super::countermeasures::MicFailures;
use super::protection::{Opener, Sealer, Sender};
use crate::counters::{DropCounters, DropReason};
use crate::time::Instant;
use crate::work::{Task, Work};

/// Octets by which a frame grows at most: headers instead of Ethernet's, and GCMP's overhead.
pub const MAX_GROWTH: usize = HEADER_LEN + SNAP_LEN - ETHERNET_LEN + 24;
/// Most stations of an access point: the identifiers that there are (IEEE 802.11-2020 §9.4.1.8).
pub const MAX_STATIONS: usize = 2_007;

const HEADER_LEN: usize = 24;

/// Which end it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A station of this access point.
    Station(Address),
    /// An access point.
    AccessPoint,
}

/// Whether data must be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// All frames are in the clear.
    Open,
    /// All but EAPOL are protected.
    Protected,
}

/// An end of a link.
pub struct Port {
    role: Role,
    own: Address,
    privacy: Privacy,
    sequence: u16,
    /// An access point has those that have joined, a station its access point.
    peers: BTreeMap<Address, Peer>,
    shared: Option<Pair>,
    /// Of an access point.
    group: Option<Sealer>,
    /// Of a station, by number.
    groups: [Option<Opener>; 4],
    mic_failures: MicFailures,
    drops: DropCounters,
    work: Work,
}

#[derive(Default)]
struct Peer {
    pair: Option<Pair>,
}

/// Both directions under one key.
struct Pair {
    key_id: u8,
    sealer: Sealer,
    opener: Opener,
}

impl Pair {
    fn is_wep(&self) -> bool {
        self.sealer.cipher().is_wep()
    }
}

/// A frame from the air.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where in the buffer the Ethernet frame is.
    pub frame: Range<usize>,
    /// Whether it was protected.
    pub is_protected: bool,
}

impl Port {
    /// An end without keys.
    pub fn new(role: Role, own: Address, privacy: Privacy) -> Self {
        let mut peers = BTreeMap::new();
        if let Role::Station(access_point) = role {
            peers.insert(access_point, Peer::default());
        }
        Self {
            role,
            own,
            privacy,
            sequence: 0,
            peers,
            shared: None,
            group: None,
            groups: [const { None }; 4],
            mic_failures: MicFailures::default(),
            drops: DropCounters::default(),
            work: Work::default(),
        }
    }

    /// A station joins an access point, or joins again and has no key. False if there are
    /// [`MAX_STATIONS`].
    pub fn join(&mut self, station: Address) -> bool {
        let has_room = self.peers.len() < MAX_STATIONS || self.peers.contains_key(&station);
        if has_room {
            self.peers.insert(station, Peer::default());
        }
        has_room
    }

    /// A station goes to an access point, without a pairwise or group key. A shared key stays.
    /// Panics at an access point.
    pub fn associate(&mut self, access_point: Address) {
        assert!(matches!(self.role, Role::Station(_)), "only stations move");
        self.role = Role::Station(access_point);
        self.peers = BTreeMap::from([(access_point, Peer::default())]);
        self.groups = [const { None }; 4];
    }

    /// A station leaves an access point. A station itself keeps its access point, but no key.
    pub fn leave(&mut self, peer: Address) {
        match self.role {
            Role::Station(_) => {
                self.peers.entry(peer).and_modify(|it| it.pair = None);
                self.groups = [const { None }; 4];
            }
            Role::AccessPoint => drop(self.peers.remove(&peer)),
        }
    }

    /// Replaces the pairwise key of a peer, with packet numbers from 1. Whoever gives the same key
    /// twice repeats nonces: [`super::handshake`] does not. False if the peer has not joined.
    pub fn install_pairwise(&mut self, peer: Address, key: &TemporalKey) -> bool {
        let is_authenticator = self.role == Role::AccessPoint;
        let sender = |address, is_authenticator| Sender {
            address,
            is_authenticator,
            key_id: 0,
            last_number: 0,
        };
        let pair = Pair {
            key_id: 0,
            sealer: Sealer::new(key, sender(self.own, is_authenticator)),
            opener: Opener::new(key, sender(peer, !is_authenticator)),
        };
        let Some(it) = self.peers.get_mut(&peer) else {
            return false;
        };
        it.pair = Some(pair);
        true
    }

    /// Adds a group key: an access point sends with it from now on, a station also keeps the
    /// others.
    pub fn install_group(&mut self, group: &GroupKey) {
        let address = match self.role {
            Role::Station(access_point) => access_point,
            Role::AccessPoint => self.own,
        };
        let sender = Sender {
            address,
            is_authenticator: true,
            key_id: group.key_id & 3,
            last_number: group.last_number,
        };
        match self.role {
            Role::Station(_) => {
                let place = &mut self.groups[usize::from(sender.key_id)];
                *place = Some(Opener::new(&group.key, sender));
            }
            Role::AccessPoint => self.group = Some(Sealer::new(&group.key, sender)),
        }
    }

    /// Sets WEP's key that all share, with a number from 0 to 3. Panics if the key is of another
    /// cipher: only WEP has such keys.
    pub fn install_shared(&mut self, key: &TemporalKey, key_id: u8) {
        assert!(
            key.cipher().is_wep(),
            "a shared key of {}",
            key.cipher().name()
        );
        let sender = Sender {
            address: self.own,
            is_authenticator: self.role == Role::AccessPoint,
            key_id: key_id & 3,
            last_number: 0,
        };
        self.shared = Some(Pair {
            key_id: sender.key_id,
            sealer: Sealer::new(key, sender),
            opener: Opener::new(key, sender),
        });
    }

    /// Turns an Ethernet frame into a frame for the air at the start of `air`. Returns its length,
    /// at most [`MAX_GROWTH`] more. A drop is counted.
    pub fn protect(&mut self, frame: &[u8], air: &mut [u8]) -> Result<usize, DropReason> {
        let protected = self.protect_uncounted(frame, air, false);
        protected.inspect_err(|reason| self.drops.count(*reason))
    }

    /// The same for EAPOL, in the clear even if there is a key: the peer may have none yet.
    pub(super) fn frame_eapol(
        &mut self,
        frame: &[u8],
        air: &mut [u8],
    ) -> Result<usize, DropReason> {
        let framed = self.protect_uncounted(frame, air, true);
        framed.inspect_err(|reason| self.drops.count(*reason))
    }

    fn protect_uncounted(
        &mut self,
        frame: &[u8],
        air: &mut [u8],
        wants_clear_eapol: bool,
    ) -> Result<usize, DropReason> {
        let mut r = Reader::new(frame);
        let ethernet = EthernetHeader::read(&mut r);
        let ethernet = ethernet.map_err(|_| DropReason::BadInnerPacket)?;
        let (body, is_eapol) = (r.rest(), ethernet.ethertype == ETHERTYPE_EAPOL);
        let mut header = self.header_of(&ethernet)?;
        let peer = match self.role {
            Role::Station(access_point) => Some(access_point),
            Role::AccessPoint if header.receiver.is_group() => None,
            Role::AccessPoint => Some(header.receiver),
        };
        let sealer = match peer {
            Some(peer) => {
                let peer = self.peers.get_mut(&peer);
                let peer = peer.ok_or(DropReason::LinkUnknownStation)?;
                let is_clear = |pair: &Pair| is_eapol && (wants_clear_eapol || pair.is_wep());
                let pair = peer.pair.as_mut().filter(|pair| !is_clear(pair));
                pair.map(|pair| &mut pair.sealer)
            }
            None => self.group.as_mut(),
        };
        let shared = self.shared.as_mut().filter(|_| !is_eapol);
        let sealer = sealer.or(shared.map(|pair| &mut pair.sealer));
        let must_be_protected = self.privacy == Privacy::Protected && !is_eapol;
        let clear_len = SNAP_LEN + body.len();
        let Some(sealer) = sealer.filter(|_| self.privacy == Privacy::Protected) else {
            if must_be_protected {
                return Err(DropReason::LinkNoKey);
            }
            let air = air.get_mut(..HEADER_LEN + clear_len);
            let air = air.ok_or(DropReason::TooBig)?;
            header.put(air);
            put_clear(&ethernet, body, &mut air[HEADER_LEN..]);
            return Ok(air.len());
        };
        header.control |= control::PROTECTED;
        let (cipher, at) = (sealer.cipher(), HEADER_LEN + sealer.iv_len());
        let air = air.get_mut(..HEADER_LEN + clear_len + cipher.overhead());
        let air = air.ok_or(DropReason::TooBig)?;
        header.put(air);
        put_clear(&ethernet, body, &mut air[at..at + clear_len]);
        sealer.seal(&header, &mut air[HEADER_LEN..])?;
        self.work
            .count(Task::ProtectFrame(cipher), clear_len as u64);
        Ok(air.len())
    }

    /// The header of a frame in the clear. A station sends only its own frames: three addresses
    /// have no room for another source.
    fn header_of(&mut self, ethernet: &EthernetHeader) -> Result<Header, DropReason> {
        let (direction, receiver, third) = match self.role {
            Role::Station(_) if ethernet.source != self.own => {
                return Err(DropReason::ForgedSource);
            }
            Role::Station(access_point) => (control::TO_DS, access_point, ethernet.destination),
            Role::AccessPoint => (control::FROM_DS, ethernet.destination, ethernet.source),
        };
        Ok(self.next_header(control::DATA | direction, receiver, third))
    }

    /// Turns a data frame from the air into an Ethernet frame, in place. A drop is counted.
    pub fn unprotect(&mut self, air: &mut [u8], now: Instant) -> Result<Opened, DropReason> {
        let opened = self.unprotect_uncounted(air, now);
        opened.inspect_err(|reason| self.drops.count(*reason))
    }

    fn unprotect_uncounted(&mut self, air: &mut [u8], now: Instant) -> Result<Opened, DropReason> {
        let header = Header::parse(air);
        let (header, len) = header.map_err(|_| DropReason::LinkUnsupportedFrame)?;
        // Not even with quality of service: nothing protects its bit that says the body is several
        // frames (CVE-2020-24588).
        let kind = header.control & (control::KIND | control::ORDER);
        if kind != control::DATA || header.is_fragment() {
            return Err(DropReason::LinkUnsupportedFrame);
        }
        self.check_addresses(&header)?;
        let body = &mut air[len..];
        let clear = match header.is_protected() {
            true => self.open(&header, body, now)?,
            false => 0..body.len(),
        };
        let clear = len + clear.start..len + clear.end;
        let mut r = Reader::new(&air[clear.clone()]);
        let ethertype = snap::read(&mut r).map_err(|_| DropReason::BadInnerPacket)?;
        if !header.is_protected() && self.privacy == Privacy::Protected {
            let is_taken = match ethertype {
                ETHERTYPE_EAPOL => !self.protects_eapol(header.transmitter) || is_key(r.rest()),
                _ => false,
            };
            if !is_taken {
                return Err(DropReason::ClearPacket);
            }
        }
        let ethernet = EthernetHeader {
            destination: header.destination(),
            source: header.source(),
            ethertype,
        };
        // There is room: the headers of 802.11 are longer.
        let start = clear.start + SNAP_LEN - ETHERNET_LEN;
        air[start..start + ETHERNET_LEN].copy_from_slice(&ethernet.octets());
        Ok(Opened {
            frame: start..clear.end,
            is_protected: header.is_protected(),
        })
    }

    /// Whether EAPOL to and from a peer is protected: there is a pairwise key, and not of WEP.
    pub(super) fn protects_eapol(&self, peer: Address) -> bool {
        let pair = self.peers.get(&peer).and_then(|peer| peer.pair.as_ref());
        pair.is_some_and(|pair| !pair.is_wep())
    }

    fn check_addresses(&self, header: &Header) -> Result<(), DropReason> {
        let is_for_us = match self.role {
            Role::Station(access_point) => {
                header.direction() == Direction::FromAccessPoint
                    && header.transmitter == access_point
                    && (header.receiver == self.own || header.receiver.is_group())
            }
            Role::AccessPoint => {
                header.direction() == Direction::ToAccessPoint && header.receiver == self.own
            }
        };
        if !is_for_us {
            return Err(DropReason::LinkNotForUs);
        }
        if header.receiver.is_group() && header.third == self.own {
            return Err(DropReason::Reflected);
        }
        match self.peers.contains_key(&header.transmitter) {
            true => Ok(()),
            false => Err(DropReason::LinkUnknownStation),
        }
    }

    fn open(
        &mut self,
        header: &Header,
        body: &mut [u8],
        now: Instant,
    ) -> Result<Range<usize>, DropReason> {
        // All ciphers have the number of the key here.
        let key_id = body.get(3).ok_or(DropReason::Truncated)? >> 6;
        let opener = match header.receiver.is_group() {
            true => self.groups[usize::from(key_id)].as_mut(),
            false => {
                let peer = self.peers.get_mut(&header.transmitter);
                let pair = peer.and_then(|peer| peer.pair.as_mut());
                let pair = pair.filter(|pair| pair.key_id == key_id);
                pair.map(|pair| &mut pair.opener)
            }
        };
        let shared = self.shared.as_mut().filter(|pair| pair.key_id == key_id);
        let opener = opener.or(shared.map(|pair| &mut pair.opener));
        let opener = opener.ok_or(DropReason::LinkNoKey)?;
        let cipher = opener.cipher();
        if cipher == LinkCipher::Tkip && self.mic_failures.are_active(now) {
            return Err(DropReason::LinkCountermeasures);
        }
        let opened = opener.open(header, body);
        match &opened {
            Ok(clear) => {
                let task = Task::UnprotectFrame(cipher);
                self.work.count(task, clear.len() as u64);
            }
            Err(DropReason::LinkBadMic) => self.note_mic_failure(now),
            Err(_) => {}
        }
        opened
    }

    /// At the second, no key of TKIP stays.
    fn note_mic_failure(&mut self, now: Instant) {
        if !self.mic_failures.note(now) {
            return;
        }
        for peer in self.peers.values_mut() {
            let is_tkip = |pair: &mut Pair| pair.sealer.cipher() == LinkCipher::Tkip;
            drop(peer.pair.take_if(is_tkip));
        }
        for group in &mut self.groups {
            drop(group.take_if(|opener| opener.cipher() == LinkCipher::Tkip));
        }
        drop(
            self.group
                .take_if(|sealer| sealer.cipher() == LinkCipher::Tkip),
        );
    }

    /// A management frame in the clear, such as those of SAE. `kind` is of [`control`].
    pub fn manage(&mut self, kind: u16, to: Address, body: &[u8]) -> Vec<u8> {
        let third = match self.role {
            Role::Station(access_point) => access_point,
            Role::AccessPoint => self.own,
        };
        let header = self.next_header(kind & control::KIND, to, third);
        let mut air = vec![0; HEADER_LEN + body.len()];
        header.put(&mut air);
        air[HEADER_LEN..].copy_from_slice(body);
        air
    }

    fn next_header(&mut self, control: u16, receiver: Address, third: Address) -> Header {
        self.sequence = self.sequence.wrapping_add(1 << 4);
        Header {
            control,
            duration: 0,
            receiver,
            transmitter: self.own,
            third,
            sequence: self.sequence,
            qos: None,
        }
    }

    /// The packet number of the last frame to groups, for the next station that gets the key.
    pub fn last_group_number(&self) -> u64 {
        self.group.as_ref().map_or(0, Sealer::last_number)
    }

    /// The wrong MICs of TKIP so far.
    pub fn mic_failures(&self) -> MicFailures {
        self.mic_failures
    }

    /// Drops by reason.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// What was done so far.
    pub fn work(&self) -> &Work {
        &self.work
    }
}

/// Whether an EAPOL packet is one of keys.
fn is_key(packet: &[u8]) -> bool {
    Eapol::parse(packet).is_ok_and(|it| it.kind == PacketType::Key)
}

fn put_clear(ethernet: &EthernetHeader, body: &[u8], clear: &mut [u8]) {
    let (front, rest) = clear.split_at_mut(SNAP_LEN);
    front.copy_from_slice(&snap::octets(ethernet.ethertype));
    rest.copy_from_slice(body);
}
