//! The one shape that times and sizes have: constants, a slope, and steps at block boundaries.
//!
//! Ciphers work on blocks and packets are padded to them, so what a packet costs and how large it
//! gets are both `fixed + slope S + sum of height ceil((S + offset) / width)` of its clear size S.
//! Left out: what the value means. Cost tables make them in seconds, accountings in bytes.

/// A function of the clear packet size in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Staircase {
    /// Value at every size.
    pub fixed: f64,
    /// Value per byte.
    pub per_byte: f64,
    /// What grows block by block.
    pub steps: Vec<Step>,
}

/// `height x ceil((S + offset) / width)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Value per block.
    pub height: f64,
    /// Bytes that are processed besides the packet's own.
    pub offset: f64,
    /// Bytes of a block, above zero.
    pub width: f64,
}

impl Staircase {
    /// The same value at every size.
    pub const fn constant(fixed: f64) -> Self {
        Self {
            fixed,
            per_byte: 0.0,
            steps: Vec::new(),
        }
    }

    /// Proportional to the size.
    pub const fn linear(per_byte: f64) -> Self {
        Self {
            fixed: 0.0,
            per_byte,
            steps: Vec::new(),
        }
    }

    /// The value for a packet of `bytes`.
    pub fn at(&self, bytes: f64) -> f64 {
        let steps = self.steps.iter().map(|step| step.at(bytes));
        self.fixed + self.per_byte * bytes + steps.sum::<f64>()
    }

    /// This and `other` together.
    pub fn plus(mut self, other: &Self) -> Self {
        self.fixed += other.fixed;
        self.per_byte += other.per_byte;
        self.steps.extend_from_slice(&other.steps);
        self
    }

    /// Every value times `factor`: bytes to seconds, operations to seconds.
    pub fn times(mut self, factor: f64) -> Self {
        self.fixed *= factor;
        self.per_byte *= factor;
        for step in &mut self.steps {
            step.height *= factor;
        }
        self
    }
}

impl Step {
    /// The value for a packet of `bytes`.
    pub fn at(&self, bytes: f64) -> f64 {
        self.height * libm::ceil((bytes + self.offset) / self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn des_and_md5_of_the_paper() {
        let size = Staircase {
            fixed: 48.0,
            per_byte: 0.0,
            steps: vec![Step {
                height: 8.0,
                offset: -18.0,
                width: 8.0,
            }],
        };
        // paper U equation (11): ceil((64 - 18) / 8) x 8 + 48
        assert_eq!(size.at(64.0), 96.0);
        assert_eq!(size.times(8.0).at(64.0), 768.0);
    }

    #[test]
    fn sums_and_products_hold_at_every_size() {
        let step = Step {
            height: 2.0,
            offset: 1.0,
            width: 16.0,
        };
        let one = Staircase {
            fixed: 3.0,
            per_byte: 0.5,
            steps: vec![step],
        };
        let both = one.clone().plus(&Staircase::linear(0.25)).times(4.0);
        for bytes in 0..2000 {
            let bytes = f64::from(bytes);
            assert_eq!(both.at(bytes), 4.0 * (one.at(bytes) + 0.25 * bytes));
        }
    }
}
