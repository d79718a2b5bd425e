//! A fragment of an IKEv1 message, as Cisco, Windows and strongSwan speak it: payload kind 132 in
//! a message whose header is the original's, unencrypted.
//!
//! No document describes it; the layout is identifier (2 octets), number (1), flags (1), data.

use crate::codec::{Malformed, Reader, Writer};

/// One fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Ties the fragments of one message together.
    pub id: u16,
    /// From 1.
    pub number: u8,
    /// Whether it is the last.
    pub is_last: bool,
    /// Octets of the whole original message, its header included.
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
