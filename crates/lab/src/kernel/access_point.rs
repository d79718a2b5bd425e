//! An access point: joins the stations of its radio to the link behind it, takes the cipher off
//! their frames, and lets a station in only after a dialogue (IEEE 802.1X), for which it asks a
//! server of RADIUS.
//!
//! A frame between two of its stations passes the radio twice. Port 0 is the radio, port 1 the link
//! behind. Its processor works on one frame after the other. Left out: the radio's own management
//! frames, group keys, and frames to all but those that come from the link behind.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::time::{Duration, Instant};
use wire::ip::Flow;

use super::cpu::PacketCosts;
use super::dialogue::{CLIENT_PORT, Progress, RADIUS_PORT, Script, is_radius, radius, read_radius};
use super::packets::PacketId;
use super::queue::Lane;
use super::{Port, Stage, Target, ip};
use crate::time::nanoseconds;

/// Port of the radio.
pub const RADIO: Port = Port(0);
/// Port of the link behind.
pub const BEHIND: Port = Port(1);

/// An access point.
pub struct AccessPoint {
    config: AccessPointConfig,
    /// The stations that are let in or ask for it, by number.
    beds: BTreeMap<u32, Bed>,
    free_at: Instant,
    busy: Duration,
    next_id: u16,
    /// Packets for no station that is let in.
    pub unrouted: u64,
    /// Frames of stations that are not let in.
    pub refused: u64,
}

/// What is fixed.
pub struct AccessPointConfig {
    /// Its address on the link behind.
    pub address: IpAddr,
    /// Onto the radio.
    pub radio: Target,
    /// Onto the link behind.
    pub behind: Target,
    /// Its server of RADIUS; none: it is its own.
    pub server: Option<IpAddr>,
    /// Seconds to protect and unprotect a frame.
    pub frames: PacketCosts,
}

/// A station on the radio.
struct Bed {
    addresses: Vec<IpAddr>,
    script: Option<Script>,
    is_open: bool,
    progress: Progress,
}

impl AccessPoint {
    /// An access point without stations.
    pub fn new(config: AccessPointConfig) -> Self {
        Self {
            config,
            beds: BTreeMap::new(),
            free_at: Instant(0),
            busy: Duration::ZERO,
            next_id: 0,
            unrouted: 0,
            refused: 0,
        }
    }

    /// A station comes to the radio, with these addresses; without a script it is let in at once.
    pub fn expect(&mut self, station: u32, addresses: Vec<IpAddr>, script: Option<Script>) {
        let bed = Bed {
            addresses,
            is_open: script.is_none(),
            script,
            progress: Progress::default(),
        };
        self.beds.insert(station, bed);
    }

    /// A station has left the radio.
    pub fn forget(&mut self, station: u32) {
        self.beds.remove(&station);
    }

    /// What it did for a station's access.
    pub fn progress(&self, station: u32) -> Option<&Progress> {
        self.beds.get(&station).map(|bed| &bed.progress)
    }

    /// Total working time of its processor.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    pub(super) fn targets(&self) -> [Target; 2] {
        [self.config.radio, self.config.behind]
    }

    pub(super) fn take(&mut self, port: Port, lane: Lane, packet: PacketId, stage: &mut Stage) {
        let entry = stage.packets.get(packet);
        if entry.octets.is_empty() {
            let (station, step) = (entry.flow, entry.clear as usize);
            stage.packets.free(packet);
            self.answer(station, step, lane, stage);
            return;
        }
        let Ok(flow) = Flow::of(&entry.octets) else {
            stage.packets.free(packet);
            return;
        };
        let next = entry.next.unwrap_or(flow.destination);
        let bytes = f64::from(entry.bytes);
        if port == BEHIND && next == self.config.address {
            let octets = stage.packets.take(packet);
            if is_radius(&flow)
                && let Some((station, step)) = read_radius(&octets, &flow)
            {
                self.send_on(station, step, lane, stage);
            }
            return;
        }
        let mut cost_s = 0.0;
        if port == RADIO {
            if !self.has_open(flow.source) {
                self.refused += 1;
                stage.packets.free(packet);
                return;
            }
            cost_s += self.config.frames.open.at(bytes);
        }
        let is_to_all = matches!(next, IpAddr::V4(to) if to.is_broadcast() || to.is_multicast());
        let is_onto_radio = self.has_open(next) || (port == BEHIND && is_to_all);
        if port == BEHIND && !is_onto_radio {
            self.unrouted += 1;
            stage.packets.free(packet);
            return;
        }
        let to = match is_onto_radio {
            true => self.config.radio,
            false => self.config.behind,
        };
        if is_onto_radio {
            cost_s += self.config.frames.seal.at(bytes);
        }
        let at = self.work(cost_s, stage.now);
        stage.arrive(lane, at, to, packet);
    }

    fn has_open(&self, address: IpAddr) -> bool {
        let mut beds = self.beds.values();
        beds.any(|bed| bed.is_open && bed.addresses.contains(&address))
    }

    /// When its processor is done with more work.
    fn work(&mut self, seconds: f64, now: Instant) -> Instant {
        let ns = nanoseconds(seconds);
        self.busy += Duration::from_nanos(ns);
        self.free_at = Instant(self.free_at.max(now).0.saturating_add(ns));
        self.free_at
    }

    /// A station's message has come: answers it, or asks the server. A message of its own is asked
    /// for where the dialogue begins with it: the station has come to the radio.
    fn answer(&mut self, station: u32, step: usize, lane: Lane, stage: &mut Stage) {
        let Some((script, bed)) = self.dialogue(station) else {
            return;
        };
        let Some(said) = script.get(step).copied() else {
            return;
        };
        bed.progress.began.get_or_insert(stage.now);
        if !said.is_from_station {
            self.go_on(station, step, stage.now, lane, stage);
            return;
        }
        if let (Some(bytes), Some(server)) = (said.relayed_bytes, self.config.server) {
            if let Some(bed) = self.beds.get_mut(&station) {
                bed.progress.relayed(bytes);
            }
            self.next_id = self.next_id.wrapping_add(1);
            let ends = ((self.config.address, CLIENT_PORT), (server, RADIUS_PORT));
            let payload = radius(station, step, bytes);
            let packet = ip::udp(ends.0, ends.1, &payload, self.next_id);
            let packet = stage.packets.give(packet, stage.now);
            stage.arrive(lane, stage.now, self.config.behind, packet);
            return;
        }
        let at = self.work(said.server_s, stage.now);
        self.go_on(station, step + 1, at, lane, stage);
    }

    /// The server has answered with this message.
    fn send_on(&mut self, station: u32, step: usize, lane: Lane, stage: &mut Stage) {
        if let Some((script, bed)) = self.dialogue(station)
            && let Some(bytes) = script.get(step).and_then(|said| said.relayed_bytes)
        {
            bed.progress.relayed(bytes);
            let now = stage.now;
            self.go_on(station, step, now, lane, stage);
        }
    }

    /// Sends messages from this one on, until the station has to answer. After the last one the
    /// station is let in.
    fn go_on(&mut self, station: u32, from: usize, at: Instant, lane: Lane, stage: &mut Stage) {
        let Some((script, _)) = self.dialogue(station) else {
            return;
        };
        let mut step = from;
        let mut at = at;
        while let Some(said) = script.get(step).filter(|said| !said.is_from_station) {
            let is_relayed = said.relayed_bytes.is_some() && self.config.server.is_some();
            let is_answered = step == from;
            if is_relayed && !is_answered {
                break;
            }
            if !is_relayed {
                at = self.work(said.server_s, at);
            }
            if let Some(bed) = self.beds.get_mut(&station) {
                bed.progress.sent(said.frame_bytes);
            }
            let frame = stage.packets.plain(said.frame_bytes, station, at);
            stage.packets.get_mut(frame).clear = step as u32;
            stage.arrive(lane, at, self.config.radio, frame);
            step += 1;
        }
        if step >= script.len()
            && let Some(bed) = self.beds.get_mut(&station)
        {
            bed.is_open = true;
            bed.progress.ended = Some(at);
        }
    }

    fn dialogue(&mut self, station: u32) -> Option<(Script, &mut Bed)> {
        let bed = self.beds.get_mut(&station)?;
        Some((bed.script.clone()?, bed))
    }
}
