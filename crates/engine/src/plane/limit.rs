//! How much may be sent to an address from which the peer has not answered yet. Control sets the
//! limit (RFC 9000 §8.1). Packets above it wait for the answer, like packets that wait for a
//! tunnel.

use wire::vnet::{Gso, VnetHeader};

use crate::plane::hold::Hold;
use crate::plane::inner::Inner;
use crate::plane::sealer::Sealer;

/// Room for inner headers and padding. No honest sender has longer ones.
const SLACK_BYTES: usize = 128;
/// No path makes pieces smaller than this.
const LEAST_PIECE_BYTES: usize = 256;

/// One child's.
#[derive(Default)]
pub(crate) struct Limit {
    left: u64,
    pub(crate) hold: Hold,
}

impl Limit {
    pub(crate) fn allow(&mut self, bytes: u64) {
        self.left = self.left.saturating_add(bytes);
    }

    /// Whether the limit permits all packets that this one may become.
    pub(crate) fn permits(&self, sealer: &Sealer, offload: &VnetHeader, inner: &Inner) -> bool {
        let length = inner.flow.total_len;
        let segment = match offload.gso {
            Gso::None => length,
            _ => offload.gso_size.into(),
        };
        // What must be cut is cut into pieces of nearly the largest size.
        let cut = (sealer.largest / 2).max(LEAST_PIECE_BYTES);
        let pieces = length.div_ceil(segment.min(cut).max(1)) + 1;
        let beside = inner.flow.transport + SLACK_BYTES + sealer.overhead();
        (length + pieces * beside) as u64 <= self.left
    }

    /// So many octets left, from the outer IP header on.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}
