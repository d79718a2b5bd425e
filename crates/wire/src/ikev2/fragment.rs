//! The numbers of a fragment, in SKF (RFC 7383 §2.5).

use crate::codec::{Malformed, Reader, Writer};

/// Which part of a message SKF holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentNumbers {
    /// From 1 to `total`.
    pub number: u16,
    /// How many there are, at least 1.
    pub total: u16,
}

impl FragmentNumbers {
    /// Octets of the two numbers.
    pub(super) const LEN: usize = 4;

    pub(super) fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        let number = r.u16("fragment number")?;
        let total = r.u16("total of fragments")?;
        match (1..=total).contains(&number) {
            true => Ok(Self { number, total }),
            false => Err(Malformed::Value("fragment number")),
        }
    }

    pub(super) fn write(self, w: &mut Writer) {
        w.u16(self.number);
        w.u16(self.total);
    }
}
