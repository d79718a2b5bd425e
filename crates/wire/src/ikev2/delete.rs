//! The delete payload (RFC 7296 §3.11).

use super::Protocol;
use crate::codec::{Malformed, Reader, Writer};

/// SPIs that one delete payload may name.
pub const MAX_DELETED_SPIS: usize = 256;

/// SAs that the sender has deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delete {
    /// The IKE SA of the message, with all its children.
    IkeSa,
    /// Children, by the SPIs that the sender would receive on.
    Children {
        /// AH or ESP.
        protocol: Protocol,
        /// At most 256.
        spis: Vec<u32>,
    },
    /// Of a protocol that we do not know.
    Other {
        /// Its number.
        protocol: u8,
        /// Octets of each SPI.
        spi_len: u8,
        /// The SPIs, one after the other.
        spis: Vec<u8>,
    },
}

impl Delete {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let protocol = Protocol::from(r.u8("delete protocol")?);
        let spi_len = r.u8("delete SPI size")?;
        let count = usize::from(r.u16("number of SPIs")?);
        if count > MAX_DELETED_SPIS {
            return Err(Malformed::TooMany("deleted SPIs"));
        }
        match protocol {
            Protocol::Ike if spi_len == 0 && count == 0 => Ok(Self::IkeSa),
            Protocol::Ah | Protocol::Esp if spi_len == 4 => {
                let spis = (0..count).map(|_| r.u32("delete SPI"));
                let spis = spis.collect::<Result<_, _>>()?;
                Ok(Self::Children { protocol, spis })
            }
            Protocol::Ike | Protocol::Ah | Protocol::Esp => Err(Malformed::Length("delete SPI")),
            Protocol::None | Protocol::Other(_) => {
                let spis = r.take(usize::from(spi_len) * count, "delete SPI")?;
                // The count would be lost.
                if spi_len == 0 && count > 0 {
                    return Err(Malformed::Length("delete SPI"));
                }
                Ok(Self::Other {
                    protocol: protocol.number(),
                    spi_len,
                    spis: spis.to_vec(),
                })
            }
        }
    }

    /// Panics on children of a protocol other than AH and ESP, and on too many SPIs.
    pub(super) fn write(&self, w: &mut Writer) {
        let (protocol, spi_len, count) = match self {
            Self::IkeSa => (Protocol::Ike.number(), 0, 0),
            Self::Children { protocol, spis } => {
                assert!(matches!(protocol, Protocol::Ah | Protocol::Esp));
                (protocol.number(), 4, spis.len())
            }
            Self::Other {
                protocol,
                spi_len,
                spis,
            } => {
                let count = spis.len() / usize::from(*spi_len).max(1);
                assert_eq!(count * usize::from(*spi_len), spis.len(), "whole SPIs");
                (*protocol, *spi_len, count)
            }
        };
        assert!(count <= MAX_DELETED_SPIS, "at most 256 SPIs");
        w.u8(protocol);
        w.u8(spi_len);
        w.u16(count as u16);
        match self {
            Self::IkeSa => {}
            Self::Children { spis, .. } => spis.iter().for_each(|spi| w.u32(*spi)),
            Self::Other { spis, .. } => w.bytes(spis),
        }
    }
}
