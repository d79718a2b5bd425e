//! Captures in pcapng, written to any writer: one interface per tap, raw IP, times in nanoseconds
//! of the simulated calendar.
//!
//! Left out: name resolution and statistics blocks.

use std::io::{self, Write};

use engine::time::{Calendar, Instant};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// LINKTYPE_RAW: IPv4 or IPv6, by the first octet.
const LINKTYPE_RAW: u16 = 101;
const OPTION_END: u16 = 0;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_TSRESOL: u16 = 9;
/// 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// An open capture.
pub struct Capture {
    to: Box<dyn Write>,
    /// The calendar time at simulated time 0, in nanoseconds.
    calendar_ns: u64,
    interfaces: u32,
    fault: Option<io::Error>,
}

impl Capture {
    /// Writes the section header. `calendar`: the calendar time at time 0.
    pub fn new(to: Box<dyn Write>, calendar: Calendar) -> Self {
        let mut capture = Self {
            to,
            calendar_ns: u64::try_from(calendar.0)
                .unwrap_or(0)
                .saturating_mul(1_000_000_000),
            interfaces: 0,
            fault: None,
        };
        let mut body = BYTE_ORDER_MAGIC.to_le_bytes().to_vec();
        body.extend_from_slice(&1_u16.to_le_bytes());
        body.extend_from_slice(&0_u16.to_le_bytes());
        // the section's length is unknown
        body.extend_from_slice(&u64::MAX.to_le_bytes());
        capture.block(SECTION_HEADER, &body);
        capture
    }

    /// Adds a tap of this name and returns its index.
    pub fn interface(&mut self, name: &str) -> u32 {
        let mut body = LINKTYPE_RAW.to_le_bytes().to_vec();
        body.extend_from_slice(&[0; 2]);
        body.extend_from_slice(&0_u32.to_le_bytes());
        option(&mut body, OPTION_IF_NAME, name.as_bytes());
        option(&mut body, OPTION_IF_TSRESOL, &[NANOSECONDS]);
        option(&mut body, OPTION_END, &[]);
        self.block(INTERFACE_DESCRIPTION, &body);
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// A packet at a tap.
    pub fn packet(&mut self, interface: u32, at: Instant, octets: &[u8]) {
        let stamp = self.calendar_ns.saturating_add(at.0);
        let length = octets.len() as u32;
        let mut body = Vec::with_capacity(octets.len() + 24);
        for word in [
            interface,
            (stamp >> 32) as u32,
            stamp as u32,
            length,
            length,
        ] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(octets);
        self.block(ENHANCED_PACKET, &body);
    }

    /// Ends the capture. Returns the first write error.
    pub fn finish(mut self) -> io::Result<()> {
        match self.fault {
            Some(fault) => Err(fault),
            None => self.to.flush(),
        }
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padding = body.len().next_multiple_of(4) - body.len();
        let length = ((body.len() + padding + 12) as u32).to_le_bytes();
        let parts: [&[u8]; 5] = [
            &kind.to_le_bytes(),
            &length,
            body,
            &[0; 3][..padding],
            &length,
        ];
        for part in parts {
            if self.fault.is_none() {
                self.fault = self.to.write_all(part).err();
            }
        }
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
