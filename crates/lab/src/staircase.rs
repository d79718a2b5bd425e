//! The form of all functions of packet size: a constant, a slope, and steps at block boundaries.
//!
//! Ciphers work on blocks and packets are padded to them. So the time for a packet and its
//! protected size both are `fixed + slope S + sum of height ceil((S + offset) / width)` of its
//! clear size S. Left out: the unit of the value. Cost tables use it for seconds, accountings for
//! bytes.

/// A function of the clear packet size in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Staircase {
    /// The value at every size.
    pub fixed: f64,
    /// The value per byte.
    pub per_byte: f64,
    /// The terms that grow block by block.
    pub steps: Vec<Step>,
}

/// One term, `height x ceil((S + offset) / width)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The value per block.
    pub height: f64,
    /// Bytes that are processed in addition to the packet's own.
    pub offset: f64,
    /// Bytes per block, above zero.
    pub width: f64,
}

impl Staircase {
    /// A constant: the same value at every size.
    pub const fn constant(fixed: f64) -> Self {
        Self {
            fixed,
            per_byte: 0.0,
            steps: Vec::new(),
        }
    }

    /// A value proportional to the size.
    pub const fn linear(per_byte: f64) -> Self {
        Self {
            fixed: 0.0,
            per_byte,
            steps: Vec::new(),
        }
    }

    /// One term alone.
    pub fn of(step: Step) -> Self {
        Self {
            steps: vec![step],
            ..Self::default()
        }
    }

    /// The value for a packet of `bytes`.
    pub fn at(&self, bytes: f64) -> f64 {
        let steps = self.steps.iter().map(|step| step.at(bytes));
        self.fixed + self.per_byte * bytes + steps.sum::<f64>()
    }

    /// The sum of this and `other`.
    pub fn plus(mut self, other: &Self) -> Self {
        self.fixed += other.fixed;
        self.per_byte += other.per_byte;
        self.steps.extend_from_slice(&other.steps);
        self
    }

    /// The same of a packet to which `added` bytes come first, as a tunnel's header.
    pub fn of_larger(mut self, added: f64) -> Self {
        self.fixed += self.per_byte * added;
        for step in &mut self.steps {
            step.offset += added;
        }
        self
    }

    /// Every value times `factor`, to convert bytes or operations to seconds.
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
            assert_eq!(
                both.clone().of_larger(20.0).at(bytes),
                both.at(bytes + 20.0)
            );
        }
    }
}
