//! Numbers modulo the order of the group.

use zeroize::ZeroizeOnDrop;

use super::{LEN, ORDER, less};
use crate::rand::Stream;
use crate::sys;

/// A number modulo the order, wiped on drop.
#[derive(Clone, PartialEq, Eq, ZeroizeOnDrop)]
pub struct Scalar([u8; LEN]);

impl Scalar {
    /// Takes a number from 1 to the order less 1. None for any other.
    pub fn new(octets: &[u8; LEN]) -> Option<Self> {
        let is_in_range = *octets != [0; LEN] && *octets < ORDER;
        is_in_range.then_some(Self(*octets))
    }

    /// A random number from 2 to the order less 1.
    pub fn generate(random: &mut Stream) -> Self {
        loop {
            let mut octets = [0; LEN];
            random.fill(&mut octets);
            if let Some(scalar) = Self::new(&octets).filter(|it| it.is_above_1()) {
                return scalar;
            }
        }
    }

    /// Any number, of at most 64 octets, modulo the order less 1, plus 1: never 0.
    pub fn reduced(number: &[u8]) -> Self {
        let below_order = less(&ORDER, 1);
        let mut one = [0; LEN];
        one[LEN - 1] = 1;
        let mut octets = [0; LEN];
        sys::multiply(number, &one, &below_order, &mut octets);
        let mut scalar = Self([0; LEN]);
        sys::add(&octets, &one, &ORDER, &mut scalar.0);
        scalar
    }

    /// The sum modulo the order.
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = Self([0; LEN]);
        sys::add(&self.0, &other.0, &ORDER, &mut sum.0);
        sum
    }

    /// Whether it is 2 or more, as SAE wants it (IEEE 802.11-2020 §12.4.5.3).
    pub fn is_above_1(&self) -> bool {
        let (last, front) = self.0.split_last().expect("32 octets");
        *last > 1 || front.iter().any(|octet| *octet != 0)
    }

    /// Big-endian.
    pub const fn octets(&self) -> &[u8; LEN] {
        &self.0
    }
}
