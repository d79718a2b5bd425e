//! What `status` answers, and what is printed at the end.

use std::collections::BTreeMap;

use engine::counters::{DropCounters, DropReason};
use serde::Serialize;

use crate::config::wireless::End;

/// Most stations that are listed.
pub(super) const MOST_STATIONS: usize = 256;

/// Frames and their octets.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Carried {
    pub(super) frames: u64,
    pub(super) octets: u64,
}

impl Carried {
    pub(super) fn count(&mut self, octets: usize) {
        self.frames += 1;
        self.octets += octets as u64;
    }
}

/// What passed through this end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Counts {
    /// Ethernet frames of the TAP device that went into the air.
    pub(super) sent: Carried,
    /// Ethernet frames from the air that went to the TAP device.
    pub(super) received: Carried,
    /// Ethernet frames from the air that went back into it.
    pub(super) relayed: Carried,
    /// Frames of 802.11 that left, with those of management and keys; octets of 802.11.
    pub(super) air_sent: Carried,
    /// Frames of 802.11 for this end that came; octets of 802.11.
    pub(super) air_received: Carried,
    /// Among `sent` and `relayed`, those without protection: EAPOL, or all in an open network.
    pub(super) clear_sent: u64,
    /// The same among `received` and `relayed`.
    pub(super) clear_received: u64,
    /// Frames of management and keys that came.
    pub(super) agreed_received: u64,
    /// Frames that are longer than any of this link, from the air or the TAP device: dropped.
    pub(super) too_long: u64,
    /// Frames that the air or the TAP device refused.
    pub(super) refused: u64,
}

/// A station of an access point.
#[derive(Debug, Serialize)]
pub(super) struct StationReport {
    pub(super) secured: bool,
    pub(super) received_frames: u64,
    pub(super) received_octets: u64,
    pub(super) sent_frames: u64,
    pub(super) sent_octets: u64,
    pub(super) dropped: u64,
}

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) role: End,
    pub(super) ssid: String,
    pub(super) security: &'static str,
    pub(super) cipher: Option<&'static str>,
    pub(super) legacy: bool,
    pub(super) address: String,
    /// Whether the TAP device has a carrier; of a station.
    pub(super) usable: bool,
    /// Whether keys are installed, or none are needed; of a station.
    pub(super) secured: bool,
    /// How often they were; of all stations.
    pub(super) times_secured: u64,
    /// Which a station has joined.
    pub(super) access_point: Option<String>,
    /// Which have joined an access point and have keys, or need none: the first [`MOST_STATIONS`].
    pub(super) stations: BTreeMap<String, StationReport>,
    /// How many stations have joined and have no keys yet.
    pub(super) joining: usize,
    /// How many have keys, or need none, and are not among `stations`.
    pub(super) more_stations: usize,
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// By reason, without those that are 0.
    pub(super) drops: BTreeMap<&'static str, u64>,
    /// Wrong MICs of TKIP.
    pub(super) mic_failures: u64,
    /// CPU time of protecting frames.
    pub(super) protect_ns: u64,
    /// CPU time of taking their protection off.
    pub(super) unprotect_ns: u64,
    /// CPU time of joining and agreeing keys.
    pub(super) agree_ns: u64,
    /// CPU time of the whole process, system calls included.
    pub(super) cpu_ns: u64,
    /// Why the capture has ended.
    pub(super) capture_fault: Option<String>,
    /// Why the key log has ended.
    pub(super) key_log_fault: Option<String>,
}

/// The counts that are not 0.
pub(super) fn by_reason(drops: &DropCounters) -> BTreeMap<&'static str, u64> {
    let all = DropReason::ALL.iter();
    let counted = all.map(|reason| (reason.name(), drops.of(*reason)));
    counted.filter(|(_, count)| *count > 0).collect()
}
