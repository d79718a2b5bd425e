//! MAC addresses.

use core::fmt;

use crate::codec::{Malformed, Reader};

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub [u8; 6]);

impl Address {
    /// Everybody.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it names several receivers.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.array("MAC address").map(Self)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
