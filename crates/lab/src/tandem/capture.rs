//! Packets of a capture, read as a stream: classic pcap and pcapng, times and sizes of IP packets.
//!
//! Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng, both byte orders, micro- and
//! nanoseconds, any `if_tsresol`. Only the first bytes of one packet are kept, so a capture may be
//! of any size. The clear size is the IP packet's own length, not the captured length. Left out:
//! reassembly, payloads, name resolution; packets other than IP are counted and skipped.

mod blocks;
mod frame;
#[cfg(test)]
mod tests;

use super::Packet;
use blocks::Format;
use serde::Serialize;
use std::io::Read;
use std::net::IpAddr;

/// Size of one record or block above which the file is considered damaged.
pub const RECORD_MAX: u32 = 16 << 20;
/// Nanoseconds that a packet may be earlier than one before it, as the queues of one network card
/// cause it: it counts as simultaneous with that packet.
pub const BACK_NS_MAX: i128 = 1_000_000;
/// Bytes of a packet that are examined: link headers, tags and the IP addresses.
const LOOK: usize = 128;

/// Why a capture cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureFault {
    /// It has no bytes.
    #[error("the capture is empty")]
    Empty,
    /// Its first bytes match no known format.
    #[error("neither pcap nor pcapng: it begins with {0:#010x}{hint}", hint = packed(*.0))]
    Format(u32),
    /// A version that is not supported.
    #[error("unknown version {0}.{1} of the format, valid are 2.x of pcap and 1.x of pcapng")]
    Version(u16, u16),
    /// It ends inside its header.
    #[error("the capture is cut short: it ends after {bytes} bytes, its header alone has {least}")]
    Header {
        /// The length of the whole file.
        bytes: u64,
        /// The length of the shortest header of its format.
        least: u64,
    },
    /// It ends inside a record.
    #[error("the capture ends inside record {record}, at byte {byte}")]
    Truncated {
        /// Counted from 1.
        record: u64,
        /// The length of the file.
        byte: u64,
    },
    /// A length is invalid.
    #[error("record {record} has length {length}, it must be {least} to {RECORD_MAX}")]
    Length {
        /// Counted from 1.
        record: u64,
        /// The length in the file.
        length: u32,
        /// The smallest valid length.
        least: u32,
    },
    /// A packet refers to an interface that the section does not describe.
    #[error("record {record} is from interface {interface}, the section describes only {count}")]
    Interface {
        /// Counted from 1.
        record: u64,
        /// The number in the file.
        interface: u32,
        /// The number of interfaces.
        count: usize,
    },
    /// The clock of an interface has an unusable resolution.
    #[error("record {record} has a clock with the unusable resolution {resolution:#04x}")]
    Clock {
        /// Counted from 1.
        record: u64,
        /// The value in the file.
        resolution: u8,
    },
    /// Times go back further than the clocks of one machine can.
    #[error(
        "record {record} is {} s before an earlier one: sort the capture with reordercap",
        seconds(*.back_ns)
    )]
    Unsorted {
        /// Counted from 1.
        record: u64,
        /// Nanoseconds before the latest record so far.
        back_ns: i128,
    },
    /// Too many interfaces.
    #[error("the section describes more than {0} interfaces")]
    Interfaces(usize),
    /// A link type that is not supported.
    #[error("unknown link type {0}, valid are Ethernet, raw IP, Linux cooked, null and loop")]
    Link(u32),
    /// Reading failed.
    #[error("reading failed at byte {byte}: {why}")]
    Read {
        /// The position that was reached.
        byte: u64,
        /// The error of the reader.
        why: String,
    },
}

/// Which packets count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Both directions.
    #[default]
    All,
    /// Those sent by an address.
    From(IpAddr),
    /// Those sent to an address.
    To(IpAddr),
}

/// The contents of a capture, as far as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Packets that were returned.
    pub packets: u64,
    /// Packets skipped because they are not IP, or have no time.
    pub strange: u64,
    /// IP packets skipped because they were not wanted.
    pub unwanted: u64,
    /// Packets up to [`BACK_NS_MAX`] earlier than one before them; they count as simultaneous with
    /// it.
    pub reordered: u64,
    /// Returned packets that went to the sender of the first one. If there are any, the capture has
    /// both directions.
    pub returning: u64,
    /// The largest packet that was returned.
    pub largest_bytes: u32,
}

/// An iterator over the packets of a capture, the first at 0 s.
///
/// It ends after the first error.
pub struct Capture<R> {
    format: Format<R>,
    wanted: Wanted,
    /// Times of the first packet and of the latest one.
    span_ns: Option<(i128, i128)>,
    contents: Contents,
    /// The sender of the first packet that was returned.
    first_from: Option<IpAddr>,
    ended: bool,
}

impl<R: Read> Capture<R> {
    /// Reads the file's header.
    pub fn open(reader: R, wanted: Wanted) -> Result<Self, CaptureFault> {
        Ok(Self {
            format: Format::open(reader)?,
            wanted,
            span_ns: None,
            contents: Contents::default(),
            first_from: None,
            ended: false,
        })
    }

    /// The counts so far.
    pub fn contents(&self) -> Contents {
        self.contents
    }

    fn packet(&mut self) -> Result<Option<Packet>, CaptureFault> {
        while let Some(record) = self.format.record()? {
            let head = frame::head(record.link, record.first(), record.length)?;
            let (Some(head), Some(at_ns)) = (head, record.at_ns) else {
                self.contents.strange += 1;
                continue;
            };
            let wanted = match self.wanted {
                Wanted::All => true,
                Wanted::From(address) => head.from == Some(address),
                Wanted::To(address) => head.to == Some(address),
            };
            if !wanted {
                self.contents.unwanted += 1;
                continue;
            }
            let at_s = self.arrival(at_ns)?;
            self.note(&head);
            return Ok(Some(Packet {
                at_s,
                bytes: f64::from(head.bytes),
            }));
        }
        Ok(None)
    }

    fn note(&mut self, head: &frame::Head) {
        let contents = &mut self.contents;
        if contents.packets == 0 {
            self.first_from = head.from;
        }
        contents.packets += 1;
        let returns = head.to.is_some() && head.to == self.first_from && head.from != head.to;
        contents.returning += u64::from(returns);
        contents.largest_bytes = contents.largest_bytes.max(head.bytes);
    }

    /// Seconds after the first packet, never less than for the packet before.
    fn arrival(&mut self, at_ns: i128) -> Result<f64, CaptureFault> {
        let (first, latest) = *self.span_ns.get_or_insert((at_ns, at_ns));
        let back_ns = latest - at_ns;
        if back_ns > BACK_NS_MAX {
            return Err(CaptureFault::Unsorted {
                record: self.format.read(),
                back_ns,
            });
        }
        if back_ns > 0 {
            self.contents.reordered += 1;
        }
        let latest = latest.max(at_ns);
        self.span_ns = Some((first, latest));
        Ok(seconds(latest - first))
    }
}

/// The advice for a compressed file.
fn packed(begins: u32) -> &'static str {
    match begins.to_be_bytes() {
        [0x1f, 0x8b, ..] => ": it is packed by gzip, unpack it first",
        [0x28, 0xb5, 0x2f, 0xfd] => ": it is packed by zstd, unpack it first",
        [0xfd, 0x37, 0x7a, 0x58] => ": it is packed by xz, unpack it first",
        _ => "",
    }
}

fn seconds(nanoseconds: i128) -> f64 {
    nanoseconds as f64 / 1e9
}

impl<R: Read> Iterator for Capture<R> {
    type Item = Result<Packet, super::TandemFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let packet = self.packet().transpose();
        self.ended = !matches!(packet, Some(Ok(_)));
        packet.map(|packet| packet.map_err(super::TandemFault::from))
    }
}
