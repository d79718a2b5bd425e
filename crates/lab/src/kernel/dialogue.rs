//! The messages by which a station gets access to a radio link: IEEE 802.1X between station and
//! access point, and RADIUS between the access point and the server behind it (RFC 3579).
//!
//! Messages have lengths and work, no content: the lab measures what they take, the testbed runs
//! the real programs. A frame is a plain packet, whose `flow` names the station and whose `clear`
//! is the number of the message. Where the access point has the first word, it asks when a station
//! has come to its radio: that is no message here, and takes no time. Left out: retransmissions,
//! refusals.

use std::rc::Rc;

use engine::time::Instant;
use wire::ip::{Flow, udp};

/// UDP's port of RADIUS (RFC 2865 §3).
pub const RADIUS_PORT: u16 = 1812;
/// That of the access point.
pub const CLIENT_PORT: u16 = 49_152;
/// The octets with which a simulated message of RADIUS says which one it is.
const TAG_BYTES: usize = 8;

/// All messages, in order.
pub type Script = Rc<[Step]>;

/// A message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Whether the station sends it.
    pub is_from_station: bool,
    /// Octets of its frame, without what the link adds to each.
    pub frame_bytes: u32,
    /// Octets of the IP packet that takes it between access point and server; none: the access
    /// point itself answers.
    pub relayed_bytes: Option<u32>,
    /// Seconds of the station, before it sends or after it receives.
    pub station_s: f64,
    /// The same of the server, without one of the access point.
    pub server_s: f64,
}

/// What one end of a dialogue has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// When it began.
    pub began: Option<Instant>,
    /// When the first frame of the access point came.
    pub asked: Option<Instant>,
    /// When its last message had come or gone.
    pub ended: Option<Instant>,
    /// Frames that it sent.
    pub frames: u64,
    /// Their octets, without what the link adds.
    pub frame_bytes: u64,
    /// Packets of RADIUS that it sent.
    pub packets: u64,
    /// Their octets, as IP packets.
    pub packet_bytes: u64,
}

impl Progress {
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.frames += 1;
        self.frame_bytes += u64::from(bytes);
    }

    pub(crate) fn relayed(&mut self, bytes: u32) {
        self.packets += 1;
        self.packet_bytes += u64::from(bytes);
    }
}

/// The payload of a simulated packet of RADIUS: it is as long as the real one, and begins with what
/// it stands for.
pub(crate) fn radius(station: u32, step: usize, bytes: u32) -> Vec<u8> {
    let headers = 20 + udp::HEADER_LEN;
    let mut payload = vec![0; (bytes as usize).saturating_sub(headers).max(TAG_BYTES)];
    payload[..4].copy_from_slice(&station.to_be_bytes());
    payload[4..TAG_BYTES].copy_from_slice(&(step as u32).to_be_bytes());
    payload
}

/// The station and the number of a message in a packet of RADIUS.
pub(crate) fn read_radius(octets: &[u8], flow: &Flow) -> Option<(u32, usize)> {
    let start = flow.transport + udp::HEADER_LEN;
    let tag = octets.get(start..start + TAG_BYTES)?;
    let number = |at: usize| u32::from_be_bytes([tag[at], tag[at + 1], tag[at + 2], tag[at + 3]]);
    Some((number(0), number(4) as usize))
}

/// Whether a packet is a question to a server of RADIUS, or its answer.
pub(crate) fn is_radius(flow: &Flow) -> bool {
    let ports = flow.ports.unwrap_or_default();
    flow.protocol == wire::ip::protocol::UDP && [ports.0, ports.1].contains(&RADIUS_PORT)
}
