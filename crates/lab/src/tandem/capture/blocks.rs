//! The records of both formats, one at a time.

use super::{CaptureFault, LOOK, RECORD_MAX};
use std::io::{ErrorKind, Read};

/// Interfaces of one pcapng section.
const INTERFACES_MAX: usize = 4096;
/// Bytes of an interface's description that are looked at for its clock.
const OPTIONS_MAX: usize = 4096;

const SECTION: u32 = 0x0a0d_0d0a;
const ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;

/// Bytes of a classic file's header, and the least of a section's.
const CLASSIC_HEADER: u64 = 24;
const SECTION_HEADER: u64 = 28;

/// A file that ends before its first record.
fn in_header(fault: CaptureFault, least: u64) -> CaptureFault {
    match fault {
        CaptureFault::Truncated { byte: bytes, .. } => CaptureFault::Header { bytes, least },
        other => other,
    }
}

/// A captured frame.
pub(super) struct Record {
    /// Nanoseconds in the clock's own time, if the frame has a time.
    pub(super) at_ns: Option<i128>,
    /// Link type.
    pub(super) link: u32,
    /// Bytes on the link.
    pub(super) length: u32,
    look: [u8; LOOK],
    looked: usize,
}

impl Record {
    /// Its first bytes.
    pub(super) fn first(&self) -> &[u8] {
        &self.look[..self.looked]
    }
}

/// A file of either format.
pub(super) struct Format<R> {
    input: Input<R>,
    kind: Kind,
}

enum Kind {
    Classic { tick_ns: u32, link: u32 },
    Blocks { interfaces: Vec<Interface> },
}

#[derive(Clone, Copy)]
struct Interface {
    link: u32,
    clock: Clock,
    offset_s: i64,
}

/// Clock ticks per second.
#[derive(Clone, Copy)]
struct Clock {
    per_s: u64,
}

impl Clock {
    /// The option `if_tsresol`: a negative power of ten or, with the high bit set, of two.
    fn new(resolution: u8) -> Option<Self> {
        let power = u32::from(resolution & 0x7f);
        let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
        let per_s = base.checked_pow(power)?;
        Some(Self { per_s })
    }

    fn nanoseconds(self, ticks: u64) -> i128 {
        let (per_s, ticks) = (i128::from(self.per_s), i128::from(ticks));
        ticks / per_s * 1_000_000_000 + ticks % per_s * 1_000_000_000 / per_s
    }
}

impl<R: Read> Format<R> {
    pub(super) fn open(reader: R) -> Result<Self, CaptureFault> {
        let mut input = Input {
            reader,
            big: false,
            byte: 0,
            record: 0,
        };
        let mut magic = [0; 4];
        let begins = input.begins(&mut magic);
        if !begins.map_err(|fault| in_header(fault, CLASSIC_HEADER))? {
            return Err(CaptureFault::Empty);
        }
        let least = match u32::from_be_bytes(magic) {
            SECTION => SECTION_HEADER,
            _ => CLASSIC_HEADER,
        };
        let kind = Self::header(&mut input, magic).map_err(|fault| in_header(fault, least))?;
        Ok(Self { input, kind })
    }

    /// The rest of the header after its first four bytes, up to the first record.
    fn header(input: &mut Input<R>, magic: [u8; 4]) -> Result<Kind, CaptureFault> {
        Ok(match u32::from_be_bytes(magic) {
            0xa1b2_c3d4 => input.classic(true, 1000)?,
            0xd4c3_b2a1 => input.classic(false, 1000)?,
            0xa1b2_3c4d => input.classic(true, 1)?,
            0x4d3c_b2a1 => input.classic(false, 1)?,
            SECTION => {
                input.record = 1;
                input.section()?;
                let interfaces = Vec::new();
                Kind::Blocks { interfaces }
            }
            other => return Err(CaptureFault::Format(other)),
        })
    }

    /// Records or blocks read so far.
    pub(super) fn read(&self) -> u64 {
        self.input.record
    }

    /// The next frame, `None` at the end.
    pub(super) fn record(&mut self) -> Result<Option<Record>, CaptureFault> {
        match &mut self.kind {
            Kind::Classic { tick_ns, link } => self.input.frame(*tick_ns, *link),
            Kind::Blocks { interfaces } => self.input.block(interfaces),
        }
    }
}

/// A reader with its byte order and position.
struct Input<R> {
    reader: R,
    big: bool,
    byte: u64,
    record: u64,
}

impl<R: Read> Input<R> {
    /// Fills `bytes`, or returns that the file ends before the first of them.
    fn begins(&mut self, bytes: &mut [u8]) -> Result<bool, CaptureFault> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.reader.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => {
                    return Err(CaptureFault::Truncated {
                        record: self.record,
                        byte: self.byte,
                    });
                }
                Ok(more) => {
                    filled += more;
                    self.byte += more as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(CaptureFault::Read {
                        byte: self.byte,
                        why: error.to_string(),
                    });
                }
            }
        }
        Ok(true)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), CaptureFault> {
        if bytes.is_empty() || self.begins(bytes)? {
            return Ok(());
        }
        Err(CaptureFault::Truncated {
            record: self.record,
            byte: self.byte,
        })
    }

    fn skip(&mut self, mut count: u32) -> Result<(), CaptureFault> {
        let mut away = [0; 4096];
        while count > 0 {
            let now = count.min(away.len() as u32);
            self.fill(&mut away[..now as usize])?;
            count -= now;
        }
        Ok(())
    }

    fn words<const N: usize>(&mut self) -> Result<[u32; N], CaptureFault> {
        let mut words = [0; N];
        for word in &mut words {
            let mut bytes = [0; 4];
            self.fill(&mut bytes)?;
            *word = self.word(bytes);
        }
        Ok(words)
    }

    fn word(&self, bytes: [u8; 4]) -> u32 {
        if self.big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    fn half(&self, bytes: [u8; 2]) -> u16 {
        if self.big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        }
    }

    fn version(&mut self) -> Result<(u16, u16), CaptureFault> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        let [a, b, c, d] = bytes;
        Ok((self.half([a, b]), self.half([c, d])))
    }

    fn bad_length(&self, length: u32, least: u32) -> CaptureFault {
        CaptureFault::Length {
            record: self.record,
            length,
            least,
        }
    }

    /// The rest of a classic file's header.
    fn classic(&mut self, big: bool, tick_ns: u32) -> Result<Kind, CaptureFault> {
        self.big = big;
        let (major, minor) = self.version()?;
        if major != 2 {
            return Err(CaptureFault::Version(major, minor));
        }
        let [_zone, _accuracy, _longest, link] = self.words()?;
        // the upper half describes frame check sequences
        Ok(Kind::Classic {
            tick_ns,
            link: link & 0xffff,
        })
    }

    /// One record of a classic file.
    fn frame(&mut self, tick_ns: u32, link: u32) -> Result<Option<Record>, CaptureFault> {
        self.record += 1;
        let mut seconds = [0; 4];
        if !self.begins(&mut seconds)? {
            return Ok(None);
        }
        let seconds = i128::from(self.word(seconds));
        let [ticks, captured, length] = self.words()?;
        if captured > RECORD_MAX {
            return Err(self.bad_length(captured, 0));
        }
        let at_ns = seconds * 1_000_000_000 + i128::from(ticks) * i128::from(tick_ns);
        self.look(Some(at_ns), link, captured, length).map(Some)
    }

    /// The first bytes of a frame; the others are skipped.
    fn look(
        &mut self,
        at_ns: Option<i128>,
        link: u32,
        captured: u32,
        length: u32,
    ) -> Result<Record, CaptureFault> {
        let mut look = [0; LOOK];
        let looked = LOOK.min(captured as usize);
        self.fill(&mut look[..looked])?;
        self.skip(captured - looked as u32)?;
        Ok(Record {
            at_ns,
            link,
            length,
            look,
            looked,
        })
    }

    /// The rest of a section's header, after its type.
    fn section(&mut self) -> Result<(), CaptureFault> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        let [a, b, c, d, order @ ..] = bytes;
        self.big = match (u32::from_be_bytes(order), u32::from_le_bytes(order)) {
            (ORDER, _) => true,
            (_, ORDER) => false,
            (other, _) => return Err(CaptureFault::Format(other)),
        };
        let length = self.word([a, b, c, d]);
        let (major, minor) = self.version()?;
        if major != 1 {
            return Err(CaptureFault::Version(major, minor));
        }
        if !(28..=RECORD_MAX).contains(&length) || !length.is_multiple_of(4) {
            return Err(self.bad_length(length, 28));
        }
        self.skip(length - 16)
    }

    /// Reads blocks until one has a frame.
    fn block(&mut self, interfaces: &mut Vec<Interface>) -> Result<Option<Record>, CaptureFault> {
        loop {
            self.record += 1;
            let mut kind = [0; 4];
            if !self.begins(&mut kind)? {
                return Ok(None);
            }
            if u32::from_be_bytes(kind) == SECTION {
                interfaces.clear();
                self.section()?;
                continue;
            }
            let kind = self.word(kind);
            let [length] = self.words()?;
            let least = match kind {
                INTERFACE => 20,
                OLD_PACKET | PACKET => 32,
                SIMPLE_PACKET => 16,
                _ => 12,
            };
            if !(least..=RECORD_MAX).contains(&length) || !length.is_multiple_of(4) {
                return Err(self.bad_length(length, least));
            }
            // between the length at the front and the length at the end
            let body = length - 12;
            let record = match kind {
                INTERFACE => {
                    if interfaces.len() == INTERFACES_MAX {
                        return Err(CaptureFault::Interfaces(INTERFACES_MAX));
                    }
                    interfaces.push(self.interface(body)?);
                    None
                }
                OLD_PACKET | PACKET => Some(self.packet(kind, body, interfaces)?),
                SIMPLE_PACKET => Some(self.simple(body, interfaces)?),
                _ => {
                    self.skip(body)?;
                    None
                }
            };
            let [again] = self.words()?;
            if again != length {
                return Err(self.bad_length(again, length));
            }
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    fn interface(&mut self, body: u32) -> Result<Interface, CaptureFault> {
        let mut bytes = [0; OPTIONS_MAX];
        let kept = OPTIONS_MAX.min(body as usize);
        self.fill(&mut bytes[..kept])?;
        self.skip(body - kept as u32)?;
        let mut interface = Interface {
            link: u32::from(self.half([bytes[0], bytes[1]])),
            clock: Clock { per_s: 1_000_000 },
            offset_s: 0,
        };
        let mut options = &bytes[8..kept];
        while let [a, b, c, d, rest @ ..] = options {
            let (code, length) = (self.half([*a, *b]), usize::from(self.half([*c, *d])));
            let Some(value) = rest.get(..length).filter(|_| code != 0) else {
                break;
            };
            match (code, value) {
                (9, &[resolution]) => {
                    interface.clock = Clock::new(resolution).ok_or(CaptureFault::Clock {
                        record: self.record,
                        resolution,
                    })?;
                }
                (14, &[a, b, c, d, e, f, g, h]) => {
                    let offset = [a, b, c, d, e, f, g, h];
                    let (big, little) = (i64::from_be_bytes(offset), i64::from_le_bytes(offset));
                    interface.offset_s = if self.big { big } else { little };
                }
                _ => {}
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(interface)
    }

    fn packet(
        &mut self,
        kind: u32,
        body: u32,
        interfaces: &[Interface],
    ) -> Result<Record, CaptureFault> {
        let mut first = [0; 4];
        self.fill(&mut first)?;
        let index = if kind == PACKET {
            self.word(first)
        } else {
            // the obsolete block has a drop count after its interface
            u32::from(self.half([first[0], first[1]]))
        };
        let [high, low, captured, length] = self.words()?;
        if captured > body - 20 {
            return Err(self.bad_length(captured, 0));
        }
        let interface = self.described(index, interfaces)?;
        let ticks = u64::from(high) << 32 | u64::from(low);
        let offset = i128::from(interface.offset_s) * 1_000_000_000;
        let at_ns = offset + interface.clock.nanoseconds(ticks);
        let record = self.look(Some(at_ns), interface.link, captured, length)?;
        self.skip(body - 20 - captured)?;
        Ok(record)
    }

    /// A frame without a time; it will be counted as skipped.
    fn simple(&mut self, body: u32, interfaces: &[Interface]) -> Result<Record, CaptureFault> {
        let interface = self.described(0, interfaces)?;
        let [length] = self.words()?;
        self.look(None, interface.link, body - 4, length)
    }

    fn described(&self, index: u32, interfaces: &[Interface]) -> Result<Interface, CaptureFault> {
        let fault = CaptureFault::Interface {
            record: self.record,
            interface: index,
            count: interfaces.len(),
        };
        interfaces.get(index as usize).copied().ok_or(fault)
    }
}
