//! `caravan packet`: seals and opens single packets with given keys, so that other implementations
//! can check the planes packet by packet, both ways.
//!
//! Standard input has JSON lines: first an `Association`, then `{"seal": HEX}` or `{"open": HEX}`,
//! each with a whole IP packet. Every line except the first gets one line as answer: `{"packet":
//! HEX}` or `{"drop": REASON}`. Another `Association` starts anew. An association is for one
//! direction: its receiver opens what its sender seals.

use std::io::{self, BufRead, Write};
use std::net::IpAddr;

use crypto::rand::Seed;
use engine::counters::DropReason;
use engine::plane::{
    Datagrams, InboundChange, InboundPlane, Offloads, OutboundChange, OutboundPlane, Packets,
    Received, Verdict,
};
use engine::sa::{ChildId, Direction, Ipsec, Keys, Layer, Mode, Path, Protocol, Sa, Secret, Via};
use engine::selector::{Ports, TrafficSelector};
use engine::suite::EspSuite;
use engine::time::Instant;
use serde::{Deserialize, Serialize};
use wire::ip::checksum::checksum;
use wire::ip::{Flow, udp};

use crate::capture::udp_packet;

const CHILD: ChildId = ChildId(1);
const NOW: Instant = Instant(1);
/// Largest outer packet: nothing is fragmented here.
const PATH_MTU: u16 = 9000;
/// Longest line: two hexadecimal digits per octet of the largest packet, and its words.
const MAX_LINE_BYTES: u64 = 140_000;
/// Packets.
const DEFAULT_WINDOW: u32 = 64;

/// A security association, as its sender sees it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Association {
    protocol: Protection,
    mode: Ends,
    spi: u32,
    /// Proposal words, as `aes128gcm16`.
    suite: String,
    #[serde(default)]
    encryption_key: String,
    #[serde(default)]
    integrity_key: String,
    #[serde(default)]
    esn: bool,
    /// Upper half of the first packet's number, sealed or expected.
    #[serde(default)]
    seq_high: u32,
    /// Its lower half.
    #[serde(default = "first_number")]
    seq: u32,
    tunnel_src: IpAddr,
    tunnel_dst: IpAddr,
    /// UDP ports.
    encap: Option<(u16, u16)>,
    /// Default: 64 packets, or none if nothing is authenticated.
    replay_window: Option<u32>,
}

fn first_number() -> u32 {
    1
}

/// Options of `caravan packet`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Args {
    /// The operation of the lines; each line names it too.
    pub verb: Option<Verb>,
}

/// The two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Verb {
    /// Clear packets in.
    Seal,
    /// Sealed packets in.
    Open,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protection {
    Esp,
    Ah,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ends {
    Tunnel,
    Transport,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Seal { seal: String },
    Open { open: String },
    Association(Box<Association>),
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Packet(String),
    Drop(&'static str),
}

/// Answers lines until the input ends.
pub fn run(args: Args) -> io::Result<()> {
    answer(args.verb, &mut io::stdin().lock(), &mut io::stdout().lock())
}

fn answer(
    verb: Option<Verb>,
    lines: &mut impl BufRead,
    answers: &mut impl Write,
) -> io::Result<()> {
    let mut ends = None;
    let mut text = String::new();
    loop {
        text.clear();
        if io::Read::take(&mut *lines, MAX_LINE_BYTES).read_line(&mut text)? == 0 {
            return Ok(());
        }
        if text.trim().is_empty() {
            continue;
        }
        let answer = match (serde_json::from_str(&text)?, &mut ends) {
            (Line::Association(association), _) => {
                ends = Some(TwoEnds::new(&association)?);
                continue;
            }
            (_, None) => return Err(wrong("the first line must be an association")),
            (Line::Seal { .. }, _) if verb == Some(Verb::Open) => return Err(wrong("open")),
            (Line::Open { .. }, _) if verb == Some(Verb::Seal) => return Err(wrong("seal")),
            (Line::Seal { seal }, Some(ends)) => ends.seal(&octets(&seal)?),
            (Line::Open { open }, Some(ends)) => ends.open(&octets(&open)?)?,
        };
        serde_json::to_writer(&mut *answers, &answer)?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
}

/// A sender's and a receiver's plane with the same association.
struct TwoEnds {
    sender: OutboundPlane,
    receiver: InboundPlane,
    path: Path,
    /// A UDP socket cannot carry the IPv4 header fields that transport mode keeps, so they come
    /// from the packet at hand.
    keeps_header: bool,
}

impl TwoEnds {
    fn new(association: &Association) -> io::Result<Self> {
        let offloads = Offloads {
            has_vnet_header: false,
            has_udp_segments: false,
        };
        let mut seed = [0; 32];
        crate::sys::random(&mut seed)?;
        let random = Seed::new(seed).stream("packet", 0);
        let mut sender = OutboundPlane::new(random, offloads);
        let mut receiver = InboundPlane::new(offloads);
        let sent = association.sa(Direction::Outbound)?;
        let path = sent.path;
        let received = association.sa(Direction::Inbound)?;
        sender.apply(OutboundChange::Install(Box::new(sent)), NOW);
        receiver.apply(InboundChange::Install(Box::new(received)));
        let first = u64::from(association.seq_high) << 32 | u64::from(association.seq);
        let last = first.saturating_sub(1);
        sender.fixed_sequence_for_testing(CHILD, last);
        if last > 0 {
            receiver.fixed_sequence_for_testing(association.spi, last);
        }
        Ok(Self {
            sender,
            receiver,
            path,
            keeps_header: matches!(association.mode, Ends::Transport) && path.via != Via::Raw,
        })
    }

    fn seal(&mut self, packet: &[u8]) -> Answer {
        let mut out = Datagrams::new();
        let verdict = self.sender.seal(&mut packet.to_vec(), NOW, &mut out);
        let Some(run) = out.runs().first() else {
            return Answer::Drop(match verdict {
                Verdict::Refused(reason) => reason.name(),
                Verdict::Sealed | Verdict::Kept => NOTHING,
            });
        };
        let bytes = out.bytes(run);
        Answer::Packet(match run.path.via {
            Via::Udp | Via::UdpWithMarker | Via::UdpWithType | Via::UdpWithSkip => {
                let (from, to) = (run.path.local, run.path.remote);
                let mut sealed = udp_packet(from, to, run.traffic_class, bytes);
                if self.keeps_header {
                    lend_header(packet, &mut sealed);
                }
                hex(&sealed)
            }
            Via::Raw => hex(bytes),
        })
    }

    fn open(&mut self, packet: &[u8]) -> io::Result<Answer> {
        let mut bytes = packet.to_vec();
        if self.path.via != Via::Raw {
            let flow = Flow::of(packet).map_err(io::Error::other)?;
            let start = flow.transport + udp::HEADER_LEN;
            let payload = packet.get(start..flow.total_len);
            bytes = payload.ok_or_else(|| wrong("a UDP packet"))?.to_vec();
        }
        let received = Received {
            path: self.path.reversed(),
            traffic_class: 0,
            interface: 0,
            segment_bytes: bytes.len(),
            bytes: &mut bytes,
        };
        let mut out = Packets::new();
        let dropped = self.receiver.open(0, received, NOW, &mut out);
        let Some(write) = out.writes().next() else {
            return Ok(Answer::Drop(dropped.map_or(NOTHING, DropReason::name)));
        };
        let mut clear = write.header.to_vec();
        for slice in write.slices {
            clear.extend_from_slice(&bytes[slice.range.clone()]);
        }
        if self.keeps_header {
            lend_header(packet, &mut clear);
        }
        Ok(Answer::Packet(hex(&clear)))
    }
}

impl Association {
    fn sa(&self, direction: Direction) -> io::Result<Sa> {
        let suite = match self.protocol {
            Protection::Esp => EspSuite::parse_esp(&self.suite),
            Protection::Ah => {
                let word = self.suite.trim_start_matches("ah-");
                EspSuite::parse_ah(&format!("ah-{word}"))
            }
        };
        let suite = suite.map_err(io::Error::other)?;
        let protection = suite.protection;
        let encryption_key = octets(&self.encryption_key)?;
        let integrity_key = octets(&self.integrity_key)?;
        if encryption_key.len() != protection.encryption_key_len()
            || integrity_key.len() != protection.integrity_key_len()
        {
            return Err(wrong("keys of the suite's lengths, a salt included"));
        }
        let (sender, receiver) = (self.tunnel_src, self.tunnel_dst);
        let path = match (self.protocol, self.encap) {
            (Protection::Esp, Some((source, destination))) => {
                Path::udp_with_marker((sender, source), (receiver, destination))
            }
            _ => Path::raw(sender, receiver),
        };
        Ok(Sa {
            direction,
            child: CHILD,
            layer: Layer::Ipsec(Ipsec {
                protocol: match self.protocol {
                    Protection::Esp => Protocol::Esp,
                    Protection::Ah => Protocol::Ah,
                },
                spi: self.spi,
                protection,
                keys: Keys {
                    encryption: Secret(encryption_key),
                    integrity: Secret(integrity_key),
                },
            }),
            mode: match self.mode {
                Ends::Tunnel => Mode::Tunnel,
                Ends::Transport => Mode::Transport,
            },
            has_esn: self.esn || suite.has_esn,
            replay_window: match self.replay_window {
                Some(packets) => packets,
                None if protection.is_authenticated() => DEFAULT_WINDOW,
                None => 0,
            },
            path: match direction {
                Direction::Outbound => path,
                Direction::Inbound => path.reversed(),
            },
            local: everything(),
            remote: everything(),
            original: None,
            pool_address: None,
            soft_packets: u64::MAX,
            soft_bytes: u64::MAX,
            copies_df: true,
            path_mtu: PATH_MTU,
            is_nested: false,
            carried_by: None,
            removes_header: false,
            sent_on_from: None,
        })
    }
}

/// TOS, identification, flags and TTL of an IPv4 header.
fn lend_header(from: &[u8], to: &mut [u8]) {
    let are_v4 = [from, &*to]
        .iter()
        .all(|packet| packet.len() >= 20 && packet[0] == 0x45);
    if !are_v4 {
        return;
    }
    to[1] = from[1];
    to[4..9].copy_from_slice(&from[4..9]);
    to[10..12].fill(0);
    let sum = checksum(&to[..20]).to_be_bytes();
    to[10..12].copy_from_slice(&sum);
}

fn everything() -> Vec<TrafficSelector> {
    let families = [
        ([0; 4].into(), [255; 4].into()),
        ([0; 16].into(), [255; 16].into()),
    ];
    let all = families.map(|(first, last)| TrafficSelector {
        first,
        last,
        protocol: 0,
        ports: Ports::ANY,
    });
    all.to_vec()
}

/// The answer when nothing results, and nothing is dropped.
const NOTHING: &str = "nothing";

fn octets(text: &str) -> io::Result<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
    let octet = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    let octets: Option<Vec<u8>> = pairs.iter().map(octet).collect();
    octets
        .filter(|_| rest.is_empty())
        .ok_or_else(|| wrong("hexadecimal octets"))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn wrong(wanted: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("wanted {wanted}"))
}

#[cfg(test)]
mod tests;
