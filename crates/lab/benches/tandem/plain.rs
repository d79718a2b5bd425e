//! The bare recursion: the upper bound of the rate.
//!
//! The compiler turns arrays of sixteen replications into vectors. Departures are rebased every 64
//! packets; only the mean delay is kept.

use lab::tandem::Instructions;
use pulp::{Simd, WithSimd};
use std::hint::black_box;

const LANES: usize = 16;
type Row = [f32; LANES];
const GAP: f32 = 479.74 * 8.0 / 512e3;

/// Seconds at each queue, from the ceilings of 8 and 64 bytes, the padded size and the size.
#[inline(always)]
fn services(size: f32, ceil: impl Fn(f32) -> f32) -> [f32; 8] {
    let operations = 2264.0 + 8091.0 * ceil(size * 0.125) + 744.0 * ceil((size + 8.0) / 64.0);
    let bytes = 48.0 + 8.0 * ceil((size - 18.0) * 0.125);
    let link = bytes * 8e-8;
    [
        operations * 1e-8,
        bytes * 4e-6,
        link,
        link,
        link,
        bytes * (8.0 / 155e6),
        operations * (1e-6 / 11_000.0),
        size * 8e-8,
    ]
}

/// One replication in `f64` with library functions. Returns the packets sent.
pub(crate) fn scalar(packets: u64) -> f64 {
    let mut state = [1u32, 2, 3, 4];
    let mut departures = [0.0f64; 8];
    let (mut at, mut total) = (0.0, 0.0);
    for _ in 0..packets {
        let first = (f64::from(next(&mut state)) + 0.5) / 4_294_967_296.0;
        let second = (f64::from(next(&mut state)) + 0.5) / 4_294_967_296.0;
        at -= f64::from(GAP) * first.ln();
        let size = (81.5 * second.powf(-1.0 / 1.1)).min(66_666.0);
        let mut ahead = at;
        for (own, service) in departures.iter_mut().zip(services(size as f32, f32::ceil)) {
            ahead = own.max(ahead) + f64::from(service);
            *own = ahead;
        }
        total += ahead - at;
    }
    black_box(total);
    packets as f64
}

fn next(state: &mut [u32; 4]) -> u32 {
    let [s0, s1, s2, s3] = *state;
    let result = s0.wrapping_add(s3).rotate_left(7).wrapping_add(s0);
    let (a, b) = (s2 ^ s0, s3 ^ s1);
    *state = [s0 ^ b, s1 ^ a, a ^ (s1 << 9), b.rotate_left(11)];
    result
}

/// Sixteen replications. Returns the packets sent.
pub(crate) fn lanes(instructions: Instructions, packets: u64) -> f64 {
    let job = Plain(packets / LANES as u64);
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => pulp::x86::V3::try_new().map(|simd| Simd::vectorize(simd, job)),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => pulp::x86::V4::try_new().map(|simd| Simd::vectorize(simd, job)),
        _ => Some(Simd::vectorize(pulp::Scalar::new(), job)),
    }
    .unwrap_or(0.0)
}

/// This many rows.
struct Plain(u64);

impl WithSimd for Plain {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut state: [[u32; LANES]; 4] =
            std::array::from_fn(|word| std::array::from_fn(|lane| (word * 16 + lane + 1) as u32));
        let mut departures = [[0.0f32; LANES]; 8];
        let mut at = [0.0f32; LANES];
        let mut total = [0.0f64; LANES];
        for _ in 0..self.0 / 64 {
            let mut sum = [0.0f32; LANES];
            for _ in 0..64 {
                let (gaps, sizes) = sample(&mut state);
                step(&gaps, &sizes, &mut at, &mut departures, &mut sum);
            }
            for lane in 0..LANES {
                total[lane] += f64::from(sum[lane]);
                for queue in &mut departures {
                    queue[lane] -= at[lane];
                }
                at[lane] = 0.0;
            }
        }
        black_box(total);
        (self.0 * LANES as u64) as f64
    }
}

#[inline(always)]
fn step(gaps: &Row, sizes: &Row, at: &mut Row, departures: &mut [Row; 8], sum: &mut Row) {
    for lane in 0..LANES {
        at[lane] += gaps[lane];
        let mut ahead = at[lane];
        let services = services(sizes[lane], ceil);
        for (own, service) in departures.iter_mut().zip(services) {
            ahead = own[lane].max(ahead) + service;
            own[lane] = ahead;
        }
        sum[lane] += ahead - at[lane];
    }
}

#[inline(always)]
fn sample(state: &mut [[u32; LANES]; 4]) -> (Row, Row) {
    let (mut gaps, mut sizes) = ([0.0; LANES], [0.0; LANES]);
    let (first, second) = (draw(state), draw(state));
    for lane in 0..LANES {
        gaps[lane] = -GAP * ln(first[lane]);
        let power = 6.348_728 - ln(second[lane]) * (std::f32::consts::LOG2_E / 1.1);
        sizes[lane] = exp2(power.min(16.1)).min(66_666.0);
    }
    (gaps, sizes)
}

#[inline(always)]
fn draw(state: &mut [[u32; LANES]; 4]) -> Row {
    let mut uniform = [0.0; LANES];
    for lane in 0..LANES {
        let [s0, s1, s2, s3] = [0, 1, 2, 3].map(|word| state[word][lane]);
        let result = s0.wrapping_add(s3).rotate_left(7).wrapping_add(s0);
        let (a, b) = (s2 ^ s0, s3 ^ s1);
        state[0][lane] = s0 ^ b;
        state[1][lane] = s1 ^ a;
        state[2][lane] = a ^ (s1 << 9);
        state[3][lane] = b.rotate_left(11);
        let mantissa = f32::from_bits(0x3f80_0000 | (result >> 9));
        uniform[lane] = mantissa - (1.0 - 1.0 / 16_777_216.0);
    }
    uniform
}

#[inline(always)]
fn ceil(x: f32) -> f32 {
    let nearest = (x + 12_582_912.0) - 12_582_912.0;
    nearest + if nearest < x { 1.0 } else { 0.0 }
}

#[inline(always)]
fn ln(x: f32) -> f32 {
    let bits = x.to_bits().wrapping_add(0x3f80_0000 - 0x3f35_04f3);
    let exponent = (bits >> 23) as f32 - 127.0;
    let f = f32::from_bits((bits & 0x007f_ffff) + 0x3f35_04f3) - 1.0;
    let p = [0.142, -0.1664, 0.2, -0.25, 0.333_333];
    let p = p.into_iter().fold(-0.13, |sum, next| sum * f + next);
    exponent * std::f32::consts::LN_2 + (f + f * f * (f * p - 0.5))
}

#[inline(always)]
fn exp2(x: f32) -> f32 {
    let shifted = x + 12_582_912.0;
    let f = x - (shifted - 12_582_912.0);
    let p = [
        0.009_618,
        0.055_503,
        0.240_226_5,
        std::f32::consts::LN_2,
        1.0,
    ];
    let p = p.into_iter().fold(0.001_34, |sum, next| sum * f + next);
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}
