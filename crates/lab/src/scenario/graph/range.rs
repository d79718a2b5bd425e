//! The ranges of addresses that segments get if the file names none.

use crate::scenario::address::Network;

/// RFC 5737 §3: TEST-NET-1 to 3.
const PUBLIC: [[u8; 4]; 3] = [[192, 0, 2, 0], [198, 51, 100, 0], [203, 0, 113, 0]];
/// What determines the addresses of a segment.
#[derive(Clone, Copy)]
pub(super) enum SegmentKind {
    /// Before a NAT.
    Private,
    /// Before a gateway.
    Public,
    /// Before a router.
    Between,
    /// Behind a gateway.
    Behind,
}

impl SegmentKind {
    /// The next range of this kind that overlaps none of those in use. There are more ranges than
    /// links.
    pub(super) fn range(
        self,
        is_v6: bool,
        taken: &mut [u8; 4],
        used: &[Network],
    ) -> Option<Network> {
        let next = &mut taken[self as usize];
        let is_free = |network: &Network| !used.iter().any(|other| other.overlaps(*network));
        let ranges = (*next..u8::MAX).map(|number| (number, self.numbered(number, is_v6)));
        let (number, network) = ranges.into_iter().find(|(_, it)| is_free(it))?;
        *next = number + 1;
        Some(network)
    }

    /// The range of this kind with a number.
    fn numbered(self, number: u8, is_v6: bool) -> Network {
        if is_v6 {
            let number = u16::from(number);
            return match self {
                Self::Public => Network::v6([0x2001, 0xdb8, 0, number]),
                // only an IPv4 NAT makes a range private
                Self::Private => Network::v6([0x2001, 0xdb8, 1, number]),
                Self::Between => Network::v6([0x2001, 0xdb8, 2, number]),
                Self::Behind => Network::v6([0xfd10, 0, 0, number]),
            };
        }
        match (self, PUBLIC.get(usize::from(number))) {
            (Self::Private, _) => Network::v4([10, 0, number, 0]),
            (Self::Public, Some(range)) => Network::v4(*range),
            (Self::Public, None) => Network::v4([100, 65, number, 0]),
            (Self::Between, _) => Network::v4([100, 64, number, 0]),
            (Self::Behind, _) => Network::v4([10, 10, number, 0]),
        }
    }
}
