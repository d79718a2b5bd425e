//! The Ethernet header, and the LLC and SNAP header that stands for its type in 802.11 (RFC 1042,
//! and IEEE 802.1H for two old protocols).

use super::address::Address;
use crate::codec::{Malformed, Reader};

/// Octets of an Ethernet header.
pub const ETHERNET_LEN: usize = 14;
/// Octets of LLC and SNAP.
pub const SNAP_LEN: usize = 8;

/// From here on the field after the addresses is a type; below, a length.
const FIRST_TYPE: u16 = 0x0600;
/// AppleTalk ARP and IPX, which IEEE 802.1H tunnels.
const TUNNELLED: [u16; 2] = [0x80f3, 0x8137];
const RFC_1042: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];
const BRIDGE_TUNNEL: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0xf8];

/// An Ethernet header with a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetHeader {
    /// Where the frame goes.
    pub destination: Address,
    /// Where it comes from.
    pub source: Address,
    /// What it carries.
    pub ethertype: u16,
}

impl EthernetHeader {
    /// Reads it. A frame with a length in the place of the type is refused.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let header = Self {
            destination: Address::read(r)?,
            source: Address::read(r)?,
            ethertype: r.u16("Ethernet type")?,
        };
        match header.ethertype < FIRST_TYPE {
            true => Err(Malformed::Value("Ethernet type")),
            false => Ok(header),
        }
    }

    /// Its octets.
    pub fn octets(self) -> [u8; ETHERNET_LEN] {
        let mut octets = [0; ETHERNET_LEN];
        octets[..6].copy_from_slice(&self.destination.0);
        octets[6..12].copy_from_slice(&self.source.0);
        octets[12..].copy_from_slice(&self.ethertype.to_be_bytes());
        octets
    }
}

/// LLC and SNAP of a type.
pub mod snap {
    use super::{BRIDGE_TUNNEL, FIRST_TYPE, Malformed, RFC_1042, Reader, SNAP_LEN, TUNNELLED};

    /// The octets.
    pub fn octets(ethertype: u16) -> [u8; SNAP_LEN] {
        let mut octets = [0; SNAP_LEN];
        octets[..6].copy_from_slice(match TUNNELLED.contains(&ethertype) {
            true => &BRIDGE_TUNNEL,
            false => &RFC_1042,
        });
        octets[6..].copy_from_slice(&ethertype.to_be_bytes());
        octets
    }

    /// Reads the type.
    pub fn read(r: &mut Reader<'_>) -> Result<u16, Malformed> {
        let kind: [u8; 6] = r.array("LLC and SNAP")?;
        let ethertype = r.u16("Ethernet type")?;
        let is_tunnelled = match kind {
            RFC_1042 => false,
            BRIDGE_TUNNEL => true,
            _ => return Err(Malformed::Value("LLC and SNAP")),
        };
        match ethertype < FIRST_TYPE || is_tunnelled != TUNNELLED.contains(&ethertype) {
            true => Err(Malformed::Value("Ethernet type")),
            false => Ok(ethertype),
        }
    }
}
