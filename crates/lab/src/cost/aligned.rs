//! Numbers of octets that grow with a packet in whole words or blocks.

use crate::staircase::{Staircase, Step};

/// A number of octets: `fixed` and whole multiples of `alignment` of the packet and `offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aligned {
    pub(super) fixed: f64,
    pub(super) alignment: f64,
    pub(super) offset: f64,
}

impl Aligned {
    pub(super) fn octets(&self) -> Staircase {
        if self.alignment > 1.0 {
            let step = Step {
                height: self.alignment,
                offset: self.offset,
                width: self.alignment,
            };
            Staircase {
                fixed: self.fixed,
                per_byte: 0.0,
                steps: vec![step],
            }
        } else {
            Staircase {
                fixed: self.fixed + self.offset,
                per_byte: 1.0,
                steps: Vec::new(),
            }
        }
    }

    /// How many blocks of `width` octets these and `extra` ones fill, as one step; `width` is a
    /// multiple of the alignment. No boundary of `width` is inside an alignment, so the fixed
    /// octets may be rounded up to a multiple, and the inner ceiling vanishes.
    pub(super) fn blocks(&self, extra: f64, width: f64) -> Step {
        let fixed = self.fixed + extra;
        let whole = if self.alignment > 1.0 {
            libm::ceil(fixed / self.alignment) * self.alignment
        } else {
            fixed
        };
        Step {
            height: 1.0,
            offset: self.offset + whole,
            width,
        }
    }
}
