//! Arithmetic on a row of lanes: random numbers, logarithm, power of two, ceiling.
//!
//! Polynomials on the mantissa and integers on the exponent. There is no fused operation and no
//! reciprocal approximation, so that every instruction set gives the same bits. Left out: special
//! values, which the ranges stated here exclude.

use super::random::{self, Purpose};
use pulp::{Simd, bytemuck};

/// Adding and subtracting this rounds to the nearest integer, below 2^22.
const ROUND: f32 = 12_582_912.0;
/// An integer below 2^23 as the mantissa of this number is itself plus 2^23.
const WHOLE: u32 = 0x4b00_0000;
/// The square root of one half.
const ROOT_HALF: u32 = 0x3f35_04f3;
const ONE: u32 = 0x3f80_0000;
const MANTISSA: u32 = 0x007f_ffff;

/// The lanes of a row as numbers.
#[inline(always)]
pub(super) fn each<S: Simd>(lanes: &S::f32s) -> &[f32] {
    bytemuck::cast_slice(std::slice::from_ref(lanes))
}

/// The same, writable.
#[inline(always)]
pub(super) fn each_mut<S: Simd>(lanes: &mut S::f32s) -> &mut [f32] {
    bytemuck::cast_slice_mut(std::slice::from_mut(lanes))
}

/// Xoshiro128++, one stream per lane.
#[derive(Clone, Copy)]
pub(super) struct Streams<S: Simd> {
    state: [S::u32s; 4],
}

impl<S: Simd> Streams<S> {
    /// The streams of consecutive replications.
    #[inline(always)]
    pub(super) fn new(simd: S, seed: u64, purpose: Purpose, first: u64) -> Self {
        let mut state = [simd.splat_u32s(0); 4];
        for lane in 0..S::U32_LANES {
            let words = random::state(seed, purpose, first.wrapping_add(lane as u64));
            for (row, word) in state.iter_mut().zip(words) {
                bytemuck::cast_slice_mut::<_, u32>(std::slice::from_mut(row))[lane] = word;
            }
        }
        Self { state }
    }

    /// As [`random::uniform`]: above 0, at most 1.
    #[inline(always)]
    pub(super) fn uniform(&mut self, simd: S) -> S::f32s {
        simd.mul_f32s(self.scaled(simd), simd.splat_f32s(1.0 / 8_388_608.0))
    }

    /// Natural logarithms of the next uniform numbers.
    ///
    /// In two passes: a processor looks ahead only over a limited number of operations, and with
    /// shorter chains of operations more rows are processed at once. For the same reason, further
    /// work on a row should have a pass of its own.
    #[inline(always)]
    pub(super) fn fill_ln(&mut self, simd: S, rows: &mut [S::f32s]) {
        // a local copy stays in registers
        let mut stream = *self;
        for row in rows.iter_mut() {
            *row = stream.scaled(simd);
        }
        *self = stream;
        for row in rows {
            *row = ln::<S, 23>(simd, *row);
        }
    }

    /// 2^23 times the next uniform number: scaling by a power of two does not round.
    #[inline(always)]
    fn scaled(&mut self, simd: S) -> S::f32s {
        let bits = self.next(simd);
        let high = simd.wrapping_dyn_shr_u32s(bits, simd.splat_u32s(9));
        let low = simd.and_u32s(bits, simd.splat_u32s(0x1ff));
        // nine bits in the last places of 2^14, from which half a step less is taken away
        let low = simd.transmute_f32s_u32s(simd.or_u32s(low, simd.splat_u32s(0x4680_0000)));
        let low = simd.sub_f32s(low, simd.splat_f32s(16_384.0 - 1.0 / 1024.0));
        simd.add_f32s(whole(simd, high), low)
    }

    #[inline(always)]
    fn next(&mut self, simd: S) -> S::u32s {
        let [s0, s1, s2, s3] = self.state;
        let result = simd.add_u32s(rotate::<S, 7>(simd, simd.add_u32s(s0, s3)), s0);
        let shifted = simd.wrapping_dyn_shl_u32s(s1, simd.splat_u32s(9));
        let s2 = simd.xor_u32s(s2, s0);
        let s3 = simd.xor_u32s(s3, s1);
        let s1 = simd.xor_u32s(s1, s2);
        let s0 = simd.xor_u32s(s0, s3);
        let s2 = simd.xor_u32s(s2, shifted);
        self.state = [s0, s1, s2, rotate::<S, 11>(simd, s3)];
        result
    }
}

#[inline(always)]
fn rotate<S: Simd, const LEFT: u32>(simd: S, bits: S::u32s) -> S::u32s {
    let left = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(LEFT));
    let right = simd.wrapping_dyn_shr_u32s(bits, simd.splat_u32s(32 - LEFT));
    simd.or_u32s(left, right)
}

/// Integers below 2^23 as numbers.
#[inline(always)]
fn whole<S: Simd>(simd: S, integer: S::u32s) -> S::f32s {
    let shifted = simd.transmute_f32s_u32s(simd.or_u32s(integer, simd.splat_u32s(WHOLE)));
    simd.sub_f32s(shifted, simd.splat_f32s(8_388_608.0))
}

/// Horner's scheme, highest coefficient first.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, x: S::f32s, coefficients: [f32; N]) -> S::f32s {
    let mut sum = simd.splat_f32s(coefficients[0]);
    for coefficient in &coefficients[1..] {
        sum = simd.add_f32s(simd.mul_f32s(sum, x), simd.splat_f32s(*coefficient));
    }
    sum
}

/// Natural logarithm of `x / 2^SCALE`, x from 2^-100 to 2^100, within 3e-7 relative and 2e-7.
#[inline(always)]
pub(super) fn ln<S: Simd, const SCALE: u32>(simd: S, x: S::f32s) -> S::f32s {
    // x = m 2^e with m from sqrt(1/2) to sqrt(2)
    let bits = simd.transmute_u32s_f32s(x);
    let moved = simd.add_u32s(bits, simd.splat_u32s(ONE - ROOT_HALF));
    let exponent = simd.wrapping_dyn_shr_u32s(moved, simd.splat_u32s(23));
    let exponent = simd.transmute_f32s_u32s(simd.or_u32s(exponent, simd.splat_u32s(WHOLE)));
    let bias = simd.splat_f32s((8_388_608 + 127 + SCALE) as f32);
    let exponent = simd.sub_f32s(exponent, bias);
    let mantissa = simd.and_u32s(moved, simd.splat_u32s(MANTISSA));
    let mantissa = simd.add_u32s(mantissa, simd.splat_u32s(ROOT_HALF));
    let f = simd.sub_f32s(simd.transmute_f32s_u32s(mantissa), simd.splat_f32s(1.0));
    // ln(1 + f) = f - f^2/2 + f^3 P(f)
    let p = polynomial(simd, f, LN);
    let square = simd.mul_f32s(f, f);
    let tail = simd.sub_f32s(simd.mul_f32s(f, p), simd.splat_f32s(0.5));
    let of_mantissa = simd.add_f32s(f, simd.mul_f32s(square, tail));
    let of_exponent = simd.mul_f32s(exponent, simd.splat_f32s(std::f32::consts::LN_2));
    simd.add_f32s(of_exponent, of_mantissa)
}

/// `(ln(1 + f) - f + f^2/2) / f^3`, from -0.29 to 0.41; the coefficients minimise the error at
/// Chebyshev's points.
const LN: [f32; 7] = [
    0.090_487_845,
    -0.140_308_92,
    0.147_039,
    -0.166_027_19,
    0.199_842_23,
    -0.250_007_03,
    0.333_334_15,
];

/// Two to the power of numbers from -100 to 100, within 3e-7 relative.
#[inline(always)]
pub(super) fn exp2<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let shifted = simd.add_f32s(x, simd.splat_f32s(ROUND));
    let rest = simd.sub_f32s(x, simd.sub_f32s(shifted, simd.splat_f32s(ROUND)));
    let mantissa = polynomial(simd, rest, EXP2);
    let bits = simd.transmute_u32s_f32s(shifted);
    let exponent = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(23));
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(mantissa), exponent))
}

/// `2^x` from -1/2 to 1/2; the coefficients minimise the error at Chebyshev's points.
const EXP2: [f32; 6] = [
    0.001_339_086_3,
    0.009_676_032,
    0.055_503_57,
    0.240_221_07,
    std::f32::consts::LN_2,
    1.0,
];

/// The least integer not below numbers within 2^22 of zero.
#[inline(always)]
pub(super) fn ceil<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let round = simd.splat_f32s(ROUND);
    let nearest = simd.sub_f32s(simd.add_f32s(x, round), round);
    let short = simd.less_than_f32s(nearest, x);
    let more = simd.select_f32s(short, simd.splat_f32s(1.0), simd.splat_f32s(0.0));
    simd.add_f32s(nearest, more)
}
