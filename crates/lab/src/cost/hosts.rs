//! Datagrams and TCP between two hosts of one device in closed form: what leaves for the wire, and
//! whether wire or processor is full first.
//!
//! [`Accounting`] knows the size of a packet, [`Device`] its cost; here is what happens to one that
//! is too large. A tunnel of Caravan cuts it before it protects it, another gateway may protect it
//! and cut the result, and transport mode always does that (RFC 4303 §3.3.4). So throughput falls
//! where a datagram needs one packet more. Left out: Ethernet's least frame, and everything that
//! queues.

use engine::sa::Mode;
use serde::{Deserialize, Serialize};
use wire::ip::{ipv4, tcp, udp};

use super::accounting::Accounting;
use super::bill::Direction;
use super::device::{Device, Refusal};
use super::policy::Policy;
use crate::IP_BYTES_MAX;
use crate::staircase::Staircase;

/// Octets of a TCP header with the option of time stamps (RFC 7323 §3.2), which Linux has had since
/// 2.2.
const TCP_BYTES: u32 = tcp::HEADER_LEN as u32 + 12;
const IP_BYTES: u32 = ipv4::HEADER_LEN as u32;
const UDP_BYTES: u32 = udp::HEADER_LEN as u32;
/// RFC 1122 §4.2.3.2.
const SEGMENTS_AN_ACK: f64 = 2.0;
/// A fragment's octets are whole units of eight (RFC 791 §3.1).
const FRAGMENT_UNIT: u32 = 8;
/// The smallest MTU that IPv4 permits (RFC 791 §3.2).
const MTU_MIN: u32 = 68;

/// The link between the hosts, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Bits per second.
    pub rate_bps: f64,
    /// Octets that it adds to an IP packet.
    pub overhead_bytes: f64,
    /// The largest IP packet.
    pub mtu_bytes: u32,
}

/// Where a tunnel cuts a packet that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// Before it protects it, as Caravan does.
    Inside,
    /// After it.
    Outside,
}

/// Two hosts of one device under one policy.
pub struct Hosts<'a> {
    policy: Option<&'a Policy>,
    device: Option<&'a Device>,
    wire: Wire,
    cuts_outside: bool,
    /// Octets on the wire of a clear packet.
    size: Staircase,
    largest: u32,
}

/// An IP packet on its way, and what it costs both ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sent {
    /// Octets of the packets that are protected.
    pub clear: Vec<u32>,
    /// Octets of those on the wire.
    pub wired: Vec<u32>,
    /// Cycles of the sender; none: work takes no time.
    pub seal_cycles: Option<f64>,
    /// Cycles of the receiver.
    pub open_cycles: Option<f64>,
}

/// What `data_bytes` of a program take on the wire, and of each processor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Octets that the program sends.
    pub data_bytes: u32,
    /// Octets of the IP packets on the wire; an acknowledgement is on the other way.
    pub wired: Vec<u32>,
    /// The largest IP packet that needs no fragment.
    pub largest_bytes: u32,
    /// The time of the wire.
    pub wire_s: f64,
    /// Cycles of the sender; none: work takes no time.
    pub cycles: Option<f64>,
    /// The time of the busier processor.
    pub processor_s: Option<f64>,
    /// Data that the wire carries.
    pub link_mbit_s: f64,
    /// Data that the busier processor carries.
    pub cpu_mbit_s: Option<f64>,
    /// Data that both carry.
    pub data_mbit_s: f64,
    /// Cycles of the busier processor for an octet of data.
    pub cycles_byte: Option<f64>,
    /// The share of the busier processor at the offered rate, or at what both carry.
    pub cpu_percent: Option<f64>,
}

/// A packet that both ends have in each turn, and how many of them.
struct Turn<'a> {
    sent: &'a Sent,
    is_from_sender: bool,
    count: f64,
}

impl<'a> Hosts<'a> {
    /// Without a policy nothing is protected, without a device work takes no time. A device must
    /// count cycles.
    pub fn new(
        policy: Option<&'a Policy>,
        device: Option<&'a Device>,
        wire: Wire,
        cut: Cut,
    ) -> Result<Self, Refusal> {
        let absurd = |key, value, why| Refusal::Absurd { key, value, why };
        let mtu = f64::from(wire.mtu_bytes);
        if !(MTU_MIN..=IP_BYTES_MAX.into()).contains(&wire.mtu_bytes) {
            return Err(absurd("mtu_bytes", mtu, "is outside 68 to 65535"));
        }
        if !(wire.rate_bps > 0.0 && wire.rate_bps.is_finite()) {
            return Err(absurd("rate_bps", wire.rate_bps, "is no rate"));
        }
        if !(0.0..=f64::from(IP_BYTES_MAX)).contains(&wire.overhead_bytes) {
            let why = "is outside 0 to 65535";
            return Err(absurd("overhead_bytes", wire.overhead_bytes, why));
        }
        let size = match policy {
            Some(policy) => Accounting::Rfc.size(policy),
            None => Ok(Staircase::linear(1.0)),
        };
        let size = size.expect("exact sizes are those of every policy");
        let mut fitting = (IP_BYTES + FRAGMENT_UNIT..=wire.mtu_bytes).rev();
        let largest = fitting.find(|bytes| size.at(f64::from(*bytes)) <= mtu);
        let narrow = || absurd("mtu_bytes", mtu, "leaves no room for a protected packet");
        let is_transport = policy.is_some_and(|policy| policy.mode == Mode::Transport);
        Ok(Self {
            policy,
            device,
            wire,
            cuts_outside: policy.is_some() && (cut == Cut::Outside || is_transport),
            largest: largest.ok_or_else(narrow)?,
            size,
        })
    }

    /// What becomes of an IP packet of `bytes`.
    pub fn packet(&self, bytes: u32) -> Result<Sent, Refusal> {
        if !(IP_BYTES..=IP_BYTES_MAX.into()).contains(&bytes) {
            return Err(Refusal::Absurd {
                key: "bytes",
                value: bytes.into(),
                why: "is not the size of an IP packet: 20 (its header) to 65535 whole bytes",
            });
        }
        let (clear, wired) = if bytes <= self.largest {
            (vec![bytes], vec![self.wired(bytes)])
        } else if self.cuts_outside {
            let whole = self.wired(bytes);
            (vec![bytes], fragments(whole, self.wire.mtu_bytes))
        } else {
            let pieces = fragments(bytes, self.largest);
            let wired = pieces.iter().map(|piece| self.wired(*piece)).collect();
            (pieces, wired)
        };
        let seal_cycles = self.cycles(&clear, wired.len(), Direction::Seal)?;
        let open_cycles = self.cycles(&clear, wired.len(), Direction::Open)?;
        Ok(Sent {
            clear,
            wired,
            seal_cycles,
            open_cycles,
        })
    }

    /// A datagram with so much data. `offered_mbit_s`: the rate for the processor's share.
    pub fn datagram(&self, data: u32, offered_mbit_s: Option<f64>) -> Result<Load, Refusal> {
        let sent = self.packet(data.saturating_add(IP_BYTES + UDP_BYTES))?;
        let turn = Turn {
            sent: &sent,
            is_from_sender: true,
            count: 1.0,
        };
        Ok(self.load(data, &sent.wired, &[turn], offered_mbit_s))
    }

    /// A full segment of TCP, and its share of an acknowledgement.
    pub fn segment(&self, offered_mbit_s: Option<f64>) -> Result<Load, Refusal> {
        let headers = IP_BYTES + TCP_BYTES;
        if self.largest <= headers {
            return Err(Refusal::Absurd {
                key: "mtu_bytes",
                value: self.wire.mtu_bytes.into(),
                why: "leaves no room for data of TCP",
            });
        }
        let (segment, ack) = (self.packet(self.largest)?, self.packet(headers)?);
        let turns = [
            Turn {
                sent: &segment,
                is_from_sender: true,
                count: 1.0,
            },
            Turn {
                sent: &ack,
                is_from_sender: false,
                count: 1.0 / SEGMENTS_AN_ACK,
            },
        ];
        Ok(self.load(
            self.largest - headers,
            &segment.wired,
            &turns,
            offered_mbit_s,
        ))
    }

    fn load(&self, data: u32, wired: &[u32], turns: &[Turn<'_>], offered: Option<f64>) -> Load {
        let ends = [true, false].map(|is_sender| {
            let each = turns.iter().map(|turn| turn.cycles(is_sender));
            each.sum::<Option<f64>>()
        });
        let busier = ends[0].zip(ends[1]).map(|(one, other)| one.max(other));
        let clock = self.device.and_then(|device| device.profile().clock_mhz());
        let processor_s = busier
            .zip(clock)
            .map(|(cycles, (mhz, _))| cycles / (mhz * 1e6));
        let wire_s = self.seconds(wired);
        let megabits = f64::from(data) * 8e-6;
        let cpu_mbit_s = processor_s.filter(|it| *it > 0.0).map(|it| megabits / it);
        let link_mbit_s = megabits / wire_s;
        let data_mbit_s = cpu_mbit_s.map_or(link_mbit_s, |rate| rate.min(link_mbit_s));
        let rate = offered.unwrap_or(data_mbit_s);
        Load {
            data_bytes: data,
            wired: wired.to_vec(),
            largest_bytes: self.largest,
            wire_s,
            cycles: ends[0],
            processor_s,
            link_mbit_s,
            cpu_mbit_s,
            data_mbit_s,
            cycles_byte: busier.map(|cycles| cycles / f64::from(data)),
            cpu_percent: cpu_mbit_s.map(|carried| 100.0 * rate / carried),
        }
    }

    /// The time that IP packets of these sizes take.
    fn seconds(&self, wired: &[u32]) -> f64 {
        let each = wired
            .iter()
            .map(|bytes| f64::from(*bytes) + self.wire.overhead_bytes);
        each.sum::<f64>() * 8.0 / self.wire.rate_bps
    }

    fn wired(&self, clear: u32) -> u32 {
        self.size.at(f64::from(clear)) as u32
    }

    /// What a host computes for a packet. What a packet costs whatever its size is paid for every
    /// one on the wire.
    fn cycles(
        &self,
        clear: &[u32],
        wired: usize,
        direction: Direction,
    ) -> Result<Option<f64>, Refusal> {
        let Some(device) = self.device else {
            return Ok(None);
        };
        let each = device.profile().packet_cycles();
        let Some(policy) = self.policy else {
            return Ok(Some(each * wired as f64));
        };
        let mut sum = Some(each * (wired - clear.len()) as f64);
        for bytes in clear {
            let price = device.price(policy, f64::from(*bytes), direction)?;
            sum = sum.zip(price.cycles).map(|(sum, cycles)| sum + cycles);
        }
        Ok(sum)
    }
}

impl Turn<'_> {
    /// What one end computes for it.
    fn cycles(&self, is_sender: bool) -> Option<f64> {
        let cycles = match is_sender == self.is_from_sender {
            true => self.sent.seal_cycles,
            false => self.sent.open_cycles,
        };
        cycles.map(|cycles| cycles * self.count)
    }
}

/// Octets of the fragments of an IPv4 packet (RFC 791 §3.2). `mtu` has room for a unit.
fn fragments(packet: u32, mtu: u32) -> Vec<u32> {
    let room = mtu - IP_BYTES;
    let unit = room / FRAGMENT_UNIT * FRAGMENT_UNIT;
    let mut left = packet - IP_BYTES;
    let mut found = Vec::new();
    while left > room {
        found.push(IP_BYTES + unit);
        left -= unit;
    }
    found.push(IP_BYTES + left);
    found
}
