//! Points from numbers: square roots, and the simplified method of Shallue, van de Woestijne and
//! Ulas as IEEE 802.11-2020 §12.4.4.2.3 has it (RFC 9380 §6.6.2).

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::field::{negated, power, product, sum};
use super::{B, LEN, PRIME, Point, joined, less};

type Number = [u8; LEN];

/// A y with y^2 = x^3 - 3x + b. None if there is none. The time does not depend on x, except for
/// the answer.
pub fn square_root_of_curve(x: &Number) -> Option<Number> {
    let square = curve(x);
    let root = root_of(&square);
    (product(&root, &root) == square && *x < PRIME).then_some(root)
}

/// A point from any number of at most 64 octets. Without branches that depend on it.
pub fn hash_to_point(number: &[u8]) -> Point {
    let u = product(number, &small(1));
    let z = negated(&small(10));
    let zu2 = product(&z, &product(&u, &u));
    let m = sum(&product(&zu2, &zu2), &zu2);
    let is_zero = m.ct_eq(&[0; LEN]);
    let t = power(&m, &less(&PRIME, 2));
    let a = negated(&small(3));
    let inverse = |of: &Number| power(of, &less(&PRIME, 2));
    // -b/a = b/3
    let usual = product(&product(&B, &inverse(&small(3))), &sum(&small(1), &t));
    let special = product(&B, &inverse(&product(&z, &a)));
    let x1 = selected(&usual, &special, is_zero);
    let x2 = product(&zu2, &x1);
    let (square1, square2) = (curve(&x1), curve(&x2));
    let root1 = root_of(&square1);
    let has_root1 = product(&root1, &root1).ct_eq(&square1);
    let x = selected(&x2, &x1, has_root1);
    let root = selected(&root_of(&square2), &root1, has_root1);
    let has_same_bit = Choice::from(!(u[LEN - 1] ^ root[LEN - 1]) & 1);
    let y = selected(&negated(&root), &root, has_same_bit);
    Point(joined(&x, &y))
}

/// x^3 - 3x + b
fn curve(x: &Number) -> Number {
    let square = sum(&product(x, x), &negated(&small(3)));
    sum(&product(&square, x), &B)
}

/// A root if there is one: p is 3 modulo 4.
fn root_of(square: &Number) -> Number {
    power(square, &ROOT_EXPONENT)
}

fn selected(no: &Number, yes: &Number, is_yes: Choice) -> Number {
    core::array::from_fn(|at| u8::conditional_select(&no[at], &yes[at], is_yes))
}

fn small(number: u8) -> Number {
    let mut out = [0; LEN];
    out[LEN - 1] = number;
    out
}

/// (p + 1) / 4
const ROOT_EXPONENT: Number = {
    // p ends in 96 bits of ones, so p + 1 is the rest plus one, shifted.
    let mut plus_one = PRIME;
    let mut at = LEN - 1;
    while plus_one[at] == 0xff {
        plus_one[at] = 0;
        at -= 1;
    }
    plus_one[at] += 1;
    let mut out = [0; LEN];
    let mut at = 0;
    while at < LEN {
        let before = if at == 0 { 0 } else { plus_one[at - 1] };
        out[at] = plus_one[at] >> 2 | before << 6;
        at += 1;
    }
    out
};
