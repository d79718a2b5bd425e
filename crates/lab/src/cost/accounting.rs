//! The size of protected packets: the papers' formulas, and the exact sizes of the engine.

use core::str::FromStr;

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity, Protection};
use engine::plane::shape::{Shape, wire_bytes};
use engine::sa::{Mode, Protocol};
use serde::{Deserialize, Serialize};
use wire::esp;
use wire::ip::{ipv4, tcp, udp};

use super::aligned::Aligned;
use super::policy::Policy;
use crate::staircase::{Staircase, Step};

/// The rule for sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Accounting {
    /// Paper U, equations (9) to (11): transport mode in UDP, a trailer, no IV.
    PaperU,
    /// Paper W's tunnel mode: exact sizes over IPv4 without UDP, whatever the policy's mode.
    PaperW,
    /// Exact sizes of the policy (RFC 4303, RFC 4302, RFC 3948, SKIP's draft), from the engine.
    Rfc,
}

/// An accounting has no formula for a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFormula;

/// An accounting that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown accounting {0:?}, valid are paper-u, paper-w and rfc")]
pub struct UnknownAccounting(String);

impl Accounting {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::PaperU, Self::PaperW, Self::Rfc];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::PaperU => "paper-u",
            Self::PaperW => "paper-w",
            Self::Rfc => "rfc",
        }
    }

    /// Bytes on the wire, including the outer IP header, as a function of the clear IP packet's
    /// size; without protection the packet itself. Paper U has formulas only for its six suites.
    pub fn size(self, policy: &Policy) -> Result<Staircase, NoFormula> {
        if let Some(skip) = policy.suite.skip() {
            return match self {
                Self::Rfc => Ok(skip.size()),
                Self::PaperU | Self::PaperW => Err(NoFormula),
            };
        }
        if policy.around.is_some() && self != Self::Rfc {
            return Err(NoFormula);
        }
        let Some(shape) = policy.shape() else {
            return Ok(Staircase::linear(1.0));
        };
        match self {
            Self::PaperU => paper_u(&shape).ok_or(NoFormula),
            Self::PaperW => Ok(Sizes::of(&paper_w(shape)).wire()),
            Self::Rfc => {
                let own = Sizes::of(&shape);
                let around = policy.around_shape();
                Ok(around.map_or(own.wire(), |around| own.inside(&around).wire()))
            }
        }
    }

    /// The user's bytes in a clear IP packet of `bytes`.
    pub fn payload(self, bytes: f64) -> f64 {
        (bytes - self.header_bytes()).max(0.0)
    }

    /// Bytes of a clear IP packet that are not the user's: paper U's equation (12) subtracts the
    /// headers of IP and TCP, and so do exact sizes; paper W counts everything after the IP header.
    pub fn header_bytes(self) -> f64 {
        match self {
            Self::PaperU | Self::Rfc => 40.0,
            Self::PaperW => 20.0,
        }
    }
}

impl FromStr for Accounting {
    type Err = UnknownAccounting;

    fn from_str(name: &str) -> Result<Self, UnknownAccounting> {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownAccounting(name.to_owned()))
    }
}

impl TryFrom<String> for Accounting {
    type Error = UnknownAccounting;

    fn try_from(name: String) -> Result<Self, UnknownAccounting> {
        name.parse()
    }
}

/// The parts of a packet in ESP in UDP over IPv4 that have the same size in every packet. The rest
/// is user data, the initialization vector and padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The IP header without options.
    pub ip_bytes: usize,
    /// The TCP header without options.
    pub tcp_bytes: usize,
    /// The UDP header.
    pub udp_bytes: usize,
    /// SPI and sequence number.
    pub esp_header_bytes: usize,
    /// Pad length and next header.
    pub esp_trailer_bytes: usize,
    /// The check value.
    pub check_bytes: usize,
}

impl Parts {
    /// Under these algorithms.
    pub fn of(protection: &Protection) -> Self {
        Self {
            ip_bytes: ipv4::HEADER_LEN,
            tcp_bytes: tcp::HEADER_LEN,
            udp_bytes: udp::HEADER_LEN,
            esp_header_bytes: esp::HEADER_LEN,
            esp_trailer_bytes: esp::TRAILER_LEN,
            check_bytes: protection.icv_len(),
        }
    }
}

/// The engine's sizes under one shape, as functions.
pub(super) struct Sizes {
    shape: Shape,
    /// Octets on the wire.
    whole: Aligned,
}

/// A size at which no header is at its maximum.
const PROBE_BYTES: usize = 1024;

impl Sizes {
    /// Finds the engine's size steps by asking it.
    pub(super) fn of(shape: &Shape) -> Self {
        let wire = |bytes| wire_bytes(shape, bytes);
        let alignment = match shape.protocol {
            Protocol::Esp => shape.protection.alignment(),
            Protocol::Ah => 1,
        };
        let steps = |first: &usize| wire(first + 1) > wire(*first);
        // The size after which the next octet starts a new block: `first + offset` is whole blocks.
        let first = (PROBE_BYTES..PROBE_BYTES + alignment).find(steps);
        let first = first.unwrap_or(PROBE_BYTES);
        let offset = (alignment - first % alignment) % alignment;
        Self {
            shape: *shape,
            whole: Aligned {
                fixed: wire(first) as f64 - (first + offset) as f64,
                alignment: alignment as f64,
                offset: offset as f64,
            },
        }
    }

    /// Those of AH around these packets, which adds the same to each.
    pub(super) fn inside(&self, around: &Shape) -> Self {
        let added = wire_bytes(around, PROBE_BYTES) - PROBE_BYTES;
        Self {
            shape: *around,
            whole: Aligned {
                fixed: self.whole.fixed + added as f64,
                ..self.whole
            },
        }
    }

    /// Octets on the wire.
    pub(super) fn wire(&self) -> Staircase {
        self.whole.octets()
    }

    /// Encrypted octets: payload, padding, trailer.
    pub(super) fn encrypted(&self) -> Aligned {
        let protection = &self.shape.protection;
        let clear = esp::HEADER_LEN + protection.iv_len() + protection.icv_len();
        self.after(self.outer() + clear as f64)
    }

    /// Octets under the ICV.
    pub(super) fn covered(&self) -> Aligned {
        match self.shape.protocol {
            // RFC 4303 §2.8: from the SPI to the trailer
            Protocol::Esp => self.after(self.outer() + self.shape.protection.icv_len() as f64),
            // RFC 4302 §3.3.3: the whole packet
            Protocol::Ah => self.whole,
        }
    }

    /// The same without this many octets.
    fn after(&self, octets: f64) -> Aligned {
        Aligned {
            fixed: self.whole.fixed - octets,
            ..self.whole
        }
    }

    /// Octets of outer IP header and UDP.
    fn outer(&self) -> f64 {
        let udp = if self.shape.is_udp_encapsulated { 8 } else { 0 };
        (self.shape.ip_header_bytes() + udp) as f64
    }
}

fn paper_w(shape: Shape) -> Shape {
    Shape {
        mode: Mode::Tunnel,
        is_udp_encapsulated: false,
        is_outer_v6: false,
        ..shape
    }
}

/// Equations (9) to (11): headers, and the rest of the packet in blocks.
fn paper_u(shape: &Shape) -> Option<Staircase> {
    if shape.protocol != Protocol::Esp {
        return None;
    }
    let protection = &shape.protection;
    let (fixed, block) = match (protection.encryption, protection.integrity) {
        (Encryption::Cbc(Cipher::Des | Cipher::TripleDes), Integrity::None) => (36.0, 8.0),
        (Encryption::Null, Integrity::Hmac(Hash::Md5)) => (48.0, 4.0),
        (Encryption::Cbc(Cipher::Des | Cipher::TripleDes), Integrity::Hmac(Hash::Md5)) => {
            (48.0, 8.0)
        }
        _ => return None,
    };
    let step = Step {
        height: block,
        offset: -18.0,
        width: block,
    };
    Some(Staircase {
        fixed,
        per_byte: 0.0,
        steps: vec![step],
    })
}
