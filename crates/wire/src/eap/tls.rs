//! EAP-TLS: what follows the type 13 in a packet (RFC 5216 §3.1).

use crate::codec::{Malformed, Reader, Writer};

/// Octets of a message of TLS at most, all its fragments together.
pub const MAX_MESSAGE_LEN: usize = 32 << 10;

/// A part of a message of TLS, or an acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// The server begins.
    pub is_start: bool,
    /// More parts follow.
    pub has_more: bool,
    /// Octets of the whole message.
    pub total: Option<u32>,
    /// The part. Empty: the last part has arrived.
    pub data: Vec<u8>,
}

impl Fragment {
    /// Reads the octets after the type. A response may end there: it is an acknowledgement without
    /// flags, which some peers send.
    pub fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(data);
        if r.is_empty() {
            return Ok(Self::default());
        }
        let flags = r.u8("flags of EAP-TLS")?;
        let total = match flags & LENGTH {
            0 => None,
            _ => Some(r.u32("length of a message of TLS")?),
        };
        if total.is_some_and(|total| total as usize > MAX_MESSAGE_LEN) {
            return Err(Malformed::TooMany("octets of a message of TLS"));
        }
        Ok(Self {
            is_start: flags & START != 0,
            has_more: flags & MORE != 0,
            total,
            data: r.rest().to_vec(),
        })
    }

    /// Writes the octets after the type.
    pub fn to_data(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        w.u8(flag(self.total.is_some(), LENGTH)
            | flag(self.has_more, MORE)
            | flag(self.is_start, START));
        if let Some(total) = self.total {
            w.u32(total);
        }
        w.bytes(&self.data);
        w.into_vec()
    }
}

const LENGTH: u8 = 0x80;
const MORE: u8 = 0x40;
const START: u8 = 0x20;
