//! A station: it looks for its network, joins an access point, agrees keys and carries frames.
//!
//! It probes until an access point of its network answers, and takes the first. Authentication is
//! open, or SAE. If the access point refuses, leaves or does not answer, it looks again; after a
//! silence of the access point, or of its own, it asks whether the other is still there. With EAP
//! the owner gives the session's key. Left out: beacons, the strength of signals, other channels,
//! reassociation.

mod join;
mod keys;

use std::collections::VecDeque;

use crypto::rand::Seed;
use wire::ieee80211::{
    Address, ETHERNET_LEN, ETHERTYPE_EAPOL, Eapol, EthernetHeader, Header, PacketType, reason,
};

use super::counts::Counts;
use super::dynamic_wep::{KeyTaker, SessionKey};
use super::handshake::{MasterKey, Outbox, Supplicant, is_signed};
use super::network::{Network, Security};
use super::outbox::{AirOutbox, LinkFailure, Received};
use super::owe::OwePair;
use super::port::{MAX_GROWTH, Port, Role};
use super::sae::{Sae, SaeOutbox};
use super::session::SessionFault;
use crate::counters::{DropCounters, DropReason};
use crate::time::{Deadline, Duration, Instant};
use crate::work::Work;

/// How long the first answer is waited for; then twice as long each time, as the air may be busy.
const TIMEOUT: Duration = Duration::from_millis(100);
const ATTEMPTS: u32 = 5;
/// Probes that follow each other fast, at the beginning and after a move.
const FAST_PROBES: u32 = 20;
const SLOW_PROBE: Duration = Duration::from_secs(1);
/// After which it asks whether its access point is still there.
const SILENCE: Duration = Duration::from_secs(5);
/// How often it asks, the first time with this patience, then twice as long each time.
const SILENT_ATTEMPTS: u32 = 3;
const SILENT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it sees to it that its access point hears it.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Packets of keys that are kept until their session's key comes.
const MOST_EARLY: usize = 16;
/// The first of them, which later ones do not displace.
const FIRST_EARLY: usize = 8;
const LISTEN_INTERVAL: u16 = 1;

/// A station.
pub struct Station {
    network: Network,
    own: Address,
    seed: Seed,
    streams: u64,
    port: Port,
    stage: Stage,
    attempts: u32,
    next_at: Option<Instant>,
    /// What was told in this search: that nobody answers, and that somebody does not suit.
    told: Told,
    /// When the access point was last heard.
    heard_at: Instant,
    /// Whether it has sent something since it last looked, and when that was.
    has_spoken: bool,
    looked_at: Instant,
    access_point_rsn: Vec<u8>,
    keys: Keys,
    /// And whether each came protected.
    early: VecDeque<(Vec<u8>, bool)>,
    counts: Counts,
}

#[derive(Default)]
struct Told {
    not_found: bool,
    not_suitable: bool,
}

enum Stage {
    Searching,
    Authenticating(Address),
    Exchanging(Address, Box<Sae>),
    Associating(Address, Association),
    Associated(Address),
}

/// What an association request waits for its answer with.
#[derive(Default)]
struct Association {
    /// Of SAE, and the machine, which answers a confirm that comes again.
    accepted: Option<(MasterKey, Box<Sae>)>,
    /// Of OWE.
    pair: Option<OwePair>,
}

/// Who takes packets of keys.
enum Keys {
    None,
    Handshake(Box<Supplicant>),
    Given(Box<KeyTaker>),
}

impl Stage {
    const fn access_point(&self) -> Option<Address> {
        match self {
            Self::Searching => None,
            Self::Authenticating(it)
            | Self::Exchanging(it, _)
            | Self::Associating(it, ..)
            | Self::Associated(it) => Some(*it),
        }
    }

    fn sae(&self) -> Option<&Sae> {
        match self {
            Self::Exchanging(_, sae) => Some(sae),
            Self::Associating(_, it) => it.accepted.as_ref().map(|(_, sae)| &**sae),
            _ => None,
        }
    }

    fn sae_mut(&mut self) -> Option<&mut Sae> {
        match self {
            Self::Exchanging(_, sae) => Some(sae),
            Self::Associating(_, it) => it.accepted.as_mut().map(|(_, sae)| &mut **sae),
            _ => None,
        }
    }
}

impl Station {
    /// A station that begins to look for its network at the next [`Self::fire`].
    pub fn new(network: Network, own: Address, seed: Seed, now: Instant) -> Self {
        let privacy = network.security.privacy();
        let mut port = Port::new(Role::Station(Address::BROADCAST), own, privacy);
        if let Security::StaticWep { key, key_id } = &network.security {
            port.install_shared(key, *key_id);
        }
        Self {
            network,
            own,
            seed,
            streams: 0,
            port,
            stage: Stage::Searching,
            attempts: 0,
            next_at: Some(now),
            told: Told::default(),
            heard_at: now,
            has_spoken: false,
            looked_at: now,
            access_point_rsn: Vec::new(),
            keys: Keys::None,
            early: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// The access point that it has joined.
    pub fn access_point(&self) -> Option<Address> {
        match self.stage {
            Stage::Associated(access_point) => Some(access_point),
            _ => None,
        }
    }

    /// Leaves its access point, if there is one, and looks for the network again.
    pub fn search(&mut self, now: Instant, out: &mut AirOutbox) {
        self.leave(reason::LEAVING, LinkFailure::Told, now, out);
        self.next_at = Some(now);
        self.fire(now, out);
    }

    /// Leaves its access point for good.
    pub fn close(&mut self, now: Instant, out: &mut AirOutbox) {
        self.leave(reason::LEAVING, LinkFailure::Told, now, out);
        self.next_at = None;
    }

    /// Turns an Ethernet frame into one for the air, as [`Port::protect`].
    pub fn protect(&mut self, frame: &[u8], air: &mut [u8]) -> Result<usize, DropReason> {
        if !matches!(self.stage, Stage::Associated(_)) {
            self.counts.drops.count(DropReason::LinkUnknownStation);
            return Err(DropReason::LinkUnknownStation);
        }
        if is_eapol(frame) && !self.network.security.carries_eapol() {
            self.counts.drops.count(DropReason::UnexpectedMessage);
            return Err(DropReason::UnexpectedMessage);
        }
        self.has_spoken = true;
        self.port.protect(frame, air)
    }

    /// Takes a frame from the air.
    pub fn receive(&mut self, air: &mut [u8], now: Instant, out: &mut AirOutbox) -> Received {
        let Ok((header, len)) = Header::parse(air) else {
            return self.dropped(DropReason::LinkUnsupportedFrame);
        };
        if header.transmitter.is_group() {
            return self.dropped(DropReason::ForgedSource);
        }
        if self.stage.access_point() == Some(header.transmitter) {
            self.heard_at = now;
        }
        if header.is_management() {
            return match self.manage(&header, &air[len..], now, out) {
                Ok(()) => Received::Taken,
                Err(reason) => self.dropped(reason),
            };
        }
        if !matches!(self.stage, Stage::Associated(_)) {
            return self.dropped(DropReason::LinkUnknownStation);
        }
        match self.port.unprotect(air, now) {
            Ok(opened) if self.takes(&air[opened.frame.clone()]) => {
                let packet = air[opened.frame.start + ETHERNET_LEN..opened.frame.end].to_vec();
                // Whoever is in the air can send this. Only a MIC tells that it is the access
                // point, which has no key yet.
                let has_key = self.port.protects_eapol(header.transmitter);
                if has_key && !opened.is_protected && !is_signed(&packet) {
                    return self.dropped(DropReason::ClearPacket);
                }
                self.key_packet(packet, opened.is_protected, now, out);
                Received::Taken
            }
            Ok(opened)
                if is_eapol(&air[opened.frame.clone()])
                    && !self.network.security.carries_eapol() =>
            {
                self.dropped(DropReason::UnexpectedMessage)
            }
            Ok(opened) => Received::Frame {
                frame: opened.frame,
                is_protected: opened.is_protected,
            },
            Err(reason) => {
                let failures = self.port.mic_failures();
                if reason == DropReason::LinkBadMic && failures.are_active(now) {
                    let failure = LinkFailure::Countermeasures;
                    self.leave(reason::MIC_FAILURE, failure, now, out);
                    self.next_at = failures.until();
                }
                Received::Dropped(reason)
            }
        }
    }

    /// Takes EAP's key, of 64 octets or more, after an exchange with the access point.
    pub fn session(
        &mut self,
        key: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), SessionFault> {
        if !self.network.security.wants_session() {
            return Err(SessionFault::NotOfEap);
        }
        let access_point = self.access_point().ok_or(SessionFault::NotJoined)?;
        let keys = match &self.network.security {
            Security::DynamicWep(cipher) => {
                let session = SessionKey::new(key).ok_or(SessionFault::Short)?;
                Keys::Given(Box::new(KeyTaker::new(session, *cipher)))
            }
            _ => {
                let master = MasterKey::of_eap(key).ok_or(SessionFault::Short)?;
                out.tell_master(&master);
                self.supplicant(access_point, master, now)
            }
        };
        self.retire();
        self.keys = keys;
        for (packet, is_protected) in core::mem::take(&mut self.early) {
            self.key_packet(packet, is_protected, now, out);
        }
        Ok(())
    }

    /// When to call [`Self::fire`].
    pub fn deadline(&self) -> Option<Deadline> {
        let why = match self.stage {
            Stage::Searching => "look for the network",
            Stage::Associated(_) => "ask whether the access point is still there",
            _ => "ask the access point again",
        };
        let own = self.next_at.map(|at| Deadline { at, why });
        let inner = match (self.stage.sae(), &self.keys) {
            (Some(sae), _) => sae.deadline(),
            (None, Keys::Handshake(supplicant)) => supplicant.deadline(),
            _ => None,
        };
        own.into_iter().chain(inner).min_by_key(|it| it.at)
    }

    /// Does what it is time for.
    pub fn fire(&mut self, now: Instant, out: &mut AirOutbox) {
        if let Some(sae) = self.stage.sae_mut() {
            let mut exchanged = SaeOutbox::default();
            sae.fire(now, &mut exchanged);
            self.exchanged(exchanged, now, out);
        }
        if let Keys::Handshake(supplicant) = &mut self.keys {
            let mut agreed = Outbox::default();
            supplicant.fire(now, &mut agreed);
            self.agreed(agreed, true, now, out);
        }
        if self.next_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        match &self.stage {
            Stage::Searching => self.probe(now, out),
            Stage::Authenticating(_) | Stage::Associating(..) if self.attempts < ATTEMPTS => {
                self.ask(now, out);
            }
            Stage::Authenticating(_) => {
                self.fail(LinkFailure::NoAnswer("authentication"), now, out)
            }
            Stage::Associating(..) => self.fail(LinkFailure::NoAnswer("association"), now, out),
            Stage::Associated(access_point) => self.ask_silent(*access_point, now, out),
            Stage::Exchanging(..) => {}
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
        if let Some(sae) = self.stage.sae() {
            all.add(sae.drops(), sae.work());
        }
        self.keys.add_to(&mut all);
        all
    }

    fn dropped(&mut self, reason: DropReason) -> Received {
        self.counts.drops.count(reason);
        Received::Dropped(reason)
    }
}

/// Whether an Ethernet frame has EAPOL.
pub(super) fn is_eapol(frame: &[u8]) -> bool {
    frame.get(12..ETHERNET_LEN) == Some(&ETHERTYPE_EAPOL.to_be_bytes())
}

/// Whether an Ethernet frame has an EAPOL-Key packet.
pub(super) fn is_key_packet(frame: &[u8]) -> bool {
    is_eapol(frame)
        && Eapol::parse(&frame[ETHERNET_LEN..]).is_ok_and(|it| it.kind == PacketType::Key)
}

/// Sends an EAPOL packet from our address to a peer, under the pairwise key if there is one and the
/// peer may have it.
pub(super) fn send_eapol(
    port: &mut Port,
    ends: [Address; 2],
    packet: &[u8],
    may_protect: bool,
    out: &mut AirOutbox,
) {
    let [source, destination] = ends;
    let header = EthernetHeader {
        destination,
        source,
        ethertype: ETHERTYPE_EAPOL,
    };
    let frame = [&header.octets()[..], packet].concat();
    let mut air = vec![0; frame.len() + MAX_GROWTH];
    // A drop is counted.
    let framed = match may_protect {
        true => port.protect(&frame, &mut air),
        false => port.frame_eapol(&frame, &mut air),
    };
    if let Ok(len) = framed {
        air.truncate(len);
        out.frames.push(air);
    }
}
