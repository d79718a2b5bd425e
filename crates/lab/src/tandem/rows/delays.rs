//! Delays of a block: their sum, their range, and counts by bucket.

use super::super::histogram::{self, BUCKETS, FEW, Histogram};
use super::super::lanes::each;
use super::{Group, Lanes, NOTHING, ROWS, SLOTS};
use pulp::{Simd, bytemuck};

impl<S: Simd> Lanes<S> {
    /// Keeps the counted delays of the block in lanes that have had few so far.
    #[inline(never)]
    fn keep_few(&mut self, delays: &[S::f32s; ROWS], weights: Option<&[S::f32s; ROWS]>) {
        self.keeps_few = false;
        for (lane, kept) in self.few.iter_mut().enumerate() {
            let Some(few) = kept else { continue };
            let of = |rows: &[S::f32s; ROWS], row: usize| each::<S>(&rows[row])[lane];
            let counts = |row: &usize| weights.is_none_or(|weights| of(weights, *row) > 0.0);
            few.extend((0..ROWS).filter(counts).map(|row| of(delays, row)));
            if few.len() > FEW {
                *kept = None;
            }
            self.keeps_few |= kept.is_some();
        }
    }

    /// The delays that a lane has counted.
    pub(super) fn delays(&self, lane: usize) -> Histogram {
        let range = [0, 1].map(|end: usize| f64::from(each::<S>(&self.range[end])[lane]));
        Histogram::of(&self.flushed[lane], range, self.few[lane].as_deref())
    }
}

impl<S: Simd> Group<S> {
    /// Adds up the delays of the block and counts them by bucket; the delays are replaced by table
    /// indices.
    #[inline(always)]
    pub(super) fn delay<const WHOLE: bool>(&mut self, simd: S, index: usize) {
        let tandem = &mut self.tandems[index];
        let shift = simd.splat_u32s(histogram::SHIFT);
        let lowest = simd.splat_u32s(histogram::LOWEST);
        let highest = simd.splat_u32s(histogram::LOWEST + BUCKETS as u32 - 1);
        let mut total = simd.splat_f32s(0.0);
        if tandem.keeps_few {
            tandem.keep_few(&self.delays, (!WHOLE).then_some(&*self.weights));
        }
        let lanes = simd.splat_u32s(S::F32_LANES.trailing_zeros());
        let zero = simd.splat_f32s(0.0);
        let [nothing_least, nothing_most] = NOTHING.map(|none| simd.splat_f32s(none));
        let [mut least, mut most] = tandem.range;
        for (row, delay) in self.delays.iter_mut().enumerate() {
            let (counted, low, high) = if WHOLE {
                (*delay, *delay, *delay)
            } else {
                let weight = self.weights[row];
                let counts = simd.less_than_f32s(zero, weight);
                (
                    simd.mul_f32s(*delay, weight),
                    simd.select_f32s(counts, *delay, nothing_least),
                    simd.select_f32s(counts, *delay, nothing_most),
                )
            };
            least = simd.min_f32s(least, low);
            most = simd.max_f32s(most, high);
            total = simd.add_f32s(total, counted);
            let bucket = simd.wrapping_dyn_shr_u32s(simd.transmute_u32s_f32s(*delay), shift);
            let bucket = simd.min_u32s(simd.max_u32s(bucket, lowest), highest);
            let place = simd.wrapping_dyn_shl_u32s(simd.sub_u32s(bucket, lowest), lanes);
            *delay = simd.transmute_f32s_u32s(place);
        }
        tandem.range = [least, most];
        // a separate pass reads lanes from memory, which is cheaper than out of a register
        for (row, places) in self.delays.iter().enumerate() {
            let places: &[u32] = bytemuck::cast_slice(std::slice::from_ref(places));
            for (lane, place) in places.iter().enumerate() {
                let more = if WHOLE {
                    1
                } else {
                    each::<S>(&self.weights[row])[lane] as u32
                };
                // the remainder changes nothing, but avoids the bounds check
                tandem.counts[(*place as usize + lane) % SLOTS] += more;
            }
        }
        let middle = 0.5 * (self.run.warm_up + self.run.seconds);
        for (lane, total) in each::<S>(&total).iter().enumerate() {
            let half = usize::from(self.began[lane] >= middle);
            tandem.delay[half][lane] += f64::from(*total);
        }
    }
}
