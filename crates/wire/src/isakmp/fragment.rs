//! A fragment of an IKEv1 message, as Cisco, Windows and strongSwan send it: payload kind 132 in an
//! unencrypted message with the header of the original.
//!
//! No document describes it. The layout is identifier (2 octets), number (1), flags (1), data.

use crate::codec::{Malformed, Reader, Writer};

/// One fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Identifies the message that the fragment belongs to.
    pub id: u16,
    /// From 1.
    pub number: u8,
    /// Whether it is the last.
    pub is_last: bool,
    /// The data of the fragment: octets of the whole original message, including its header.
    pub data: Vec<u8>,
}

impl Fragment {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let id = r.u16("fragment identifier")?;
        let number = r.u8("fragment number")?;
        let flags = r.u8("fragment flags")?;
        if number == 0 {
            return Err(Malformed::Value("fragment number"));
        }
        Ok(Self {
            id,
            number,
            is_last: flags & LAST != 0,
            data: r.rest().to_vec(),
        })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u16(self.id);
        w.u8(self.number);
        w.u8(if self.is_last { LAST } else { 0 });
        w.bytes(&self.data);
    }
}

const LAST: u8 = 1;
