//! The MIP Tunnel Data header (RFC 3519 §3.3): it precedes a packet that travels in UDP.

use crate::codec::{Malformed, Reader};

/// Octets of the header.
pub const TUNNEL_HEADER_LEN: usize = 4;

/// The header of tunnelled data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelHeader {
    /// The protocol of what follows: 4, 47 or 55.
    pub next_header: u8,
}

impl TunnelHeader {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let next_header = r.u8("next header")?;
        r.u16("reserved octets")?;
        Ok(Self { next_header })
    }

    /// Whether a UDP payload begins with the header, whole or cut off.
    pub fn starts(datagram: &[u8]) -> bool {
        datagram.first() == Some(&TUNNEL)
    }

    /// The header's octets.
    pub const fn octets(self) -> [u8; TUNNEL_HEADER_LEN] {
        [TUNNEL, self.next_header, 0, 0]
    }
}

pub(super) const TUNNEL: u8 = 4;
