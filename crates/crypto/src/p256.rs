//! The curve P-256 for SAE and OWE: group 19 (RFC 5903 §3.1). Points are two coordinates of 32
//! octets; the point at infinity has none and is refused.

mod hashed;
mod scalar;

use crate::sys;

pub use hashed::{hash_to_point, square_root_of_curve};
pub use scalar::Scalar;

/// Octets of a coordinate and of a scalar.
pub const LEN: usize = 32;

/// IANA's number of the group.
pub const GROUP: u16 = 19;

/// A point of the curve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Point([u8; 2 * LEN]);

impl Point {
    /// The generator.
    pub const GENERATOR: Self = Self(GENERATOR);

    /// A point from its coordinates. None if it is not on the curve.
    pub fn new(octets: &[u8; 2 * LEN]) -> Option<Self> {
        sys::is_on_curve(octets).then_some(Self(*octets))
    }

    /// One of the two points with this x, which one says the lowest bit of y. None if there are
    /// none.
    pub fn of_x(x: &[u8; LEN], is_y_odd: bool) -> Option<Self> {
        let y = square_root_of_curve(x)?;
        let point = Self(joined(x, &y));
        match (y[LEN - 1] & 1 == 1) == is_y_odd {
            true => Some(point),
            false => Some(point.negated()),
        }
    }

    /// Both coordinates.
    pub const fn octets(&self) -> &[u8; 2 * LEN] {
        &self.0
    }

    /// The first coordinate.
    pub fn x(&self) -> [u8; LEN] {
        *self.0.first_chunk().expect("two coordinates")
    }

    /// This point `scalar` times. None if the result is the point at infinity.
    pub fn times(&self, scalar: &Scalar) -> Option<Self> {
        sys::scale(&self.0, scalar.octets()).map(Self)
    }

    /// The sum. None if it is the point at infinity.
    pub fn plus(&self, other: &Self) -> Option<Self> {
        sys::add_points(&self.0, &other.0).map(Self)
    }

    /// The point with the same x and the other y.
    pub fn negated(&self) -> Self {
        let (x, y) = self.0.split_at(LEN);
        Self(joined(x, &field::negated(y)))
    }
}

fn joined(x: &[u8], y: &[u8]) -> [u8; 2 * LEN] {
    let mut octets = [0; 2 * LEN];
    octets[..LEN].copy_from_slice(x);
    octets[LEN..].copy_from_slice(y);
    octets
}

/// Numbers modulo the prime.
mod field {
    use super::{LEN, PRIME, sys};

    pub(super) fn product(a: &[u8], b: &[u8]) -> [u8; LEN] {
        let mut out = [0; LEN];
        sys::multiply(a, b, &PRIME, &mut out);
        out
    }

    pub(super) fn sum(a: &[u8], b: &[u8]) -> [u8; LEN] {
        let mut out = [0; LEN];
        sys::add(a, b, &PRIME, &mut out);
        out
    }

    pub(super) fn power(base: &[u8], exponent: &[u8; LEN]) -> [u8; LEN] {
        let mut out = [0; LEN];
        sys::exponentiate(base, exponent, &PRIME, &mut out);
        out
    }

    /// The prime less the number.
    pub(super) fn negated(a: &[u8]) -> [u8; LEN] {
        let minus_one = super::less(&PRIME, 1);
        product(a, &minus_one)
    }
}

/// The number less a small one that its last octet holds.
const fn less(number: &[u8; LEN], small: u8) -> [u8; LEN] {
    let mut out = *number;
    assert!(out[LEN - 1] >= small);
    out[LEN - 1] -= small;
    out
}

/// p (FIPS 186-4 §D.1.2.3).
const PRIME: [u8; LEN] =
    of_hex(b"ffffffff00000001000000000000000000000000ffffffffffffffffffffffff");
/// b, the constant of the curve; a is -3.
const B: [u8; LEN] = of_hex(b"5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b");
/// The order of the group.
const ORDER: [u8; LEN] =
    of_hex(b"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
const GENERATOR: [u8; 2 * LEN] = of_hex(
    b"6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296\
      4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
);

const fn of_hex<const N: usize, const M: usize>(text: &[u8; M]) -> [u8; N] {
    assert!(M == 2 * N);
    let mut out = [0; N];
    let mut at = 0;
    while at < M {
        let digit = match text[at] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit => digit - b'a' + 10,
        };
        out[at / 2] = out[at / 2] << 4 | digit;
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests;
