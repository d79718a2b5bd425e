//! Delays of a block: their sum, their range, and counts by bucket.

use super::super::histogram::{self, BUCKETS, FEW, Histogram};
use super::super::lanes::{each, each_mut};
use super::{Group, Lanes, ROWS, SLOTS};
use pulp::{Simd, bytemuck};

impl<S: Simd> Lanes<S> {
    /// Takes the block's delays that count into the range, and keeps them while they are few.
    #[inline(never)]
    pub(super) fn look(&mut self, delays: &[S::f32s; ROWS], weights: Option<&[S::f32s; ROWS]>) {
        self.keeps_few = false;
        for (lane, kept) in self.few.iter_mut().enumerate() {
            let of = |rows: &[S::f32s; ROWS], row: usize| each::<S>(&rows[row])[lane];
            let counts = |row: &usize| weights.is_none_or(|weights| of(weights, *row) > 0.0);
            let counted = (0..ROWS).filter(counts).map(|row| of(delays, row));
            let [least, most] = &mut self.range;
            let least = &mut each_mut::<S>(least)[lane];
            let most = &mut each_mut::<S>(most)[lane];
            let mut take = |delay: f32| {
                *least = least.min(delay);
                *most = most.max(delay);
            };
            match kept {
                Some(few) => few.extend(counted.inspect(|delay| take(*delay))),
                None => counted.for_each(take),
            }
            *kept = kept.take().filter(|few| few.len() <= FEW);
            self.keeps_few |= kept.is_some();
        }
    }

    /// What a lane has counted.
    pub(super) fn delays(&self, lane: usize) -> Histogram {
        let range = [0, 1].map(|end: usize| f64::from(each::<S>(&self.range[end])[lane]));
        Histogram::of(&self.flushed[lane], range, self.few[lane].as_deref())
    }
}

impl<S: Simd> Group<S> {
    /// Adds up the delays of the block, and counts them by bucket; delays become buckets.
    #[inline(always)]
    pub(super) fn delay<const WHOLE: bool>(&mut self, simd: S, index: usize) {
        let road = &mut self.roads[index];
        let shift = simd.splat_u32s(histogram::SHIFT);
        let lowest = simd.splat_u32s(histogram::LOWEST);
        let highest = simd.splat_u32s(histogram::LOWEST + BUCKETS as u32 - 1);
        let mut total = simd.splat_f32s(0.0);
        if !WHOLE || road.keeps_few {
            road.look(&self.delays, (!WHOLE).then_some(&*self.weights));
        }
        let [mut least, mut most] = road.range;
        for (row, delay) in self.delays.iter_mut().enumerate() {
            if WHOLE {
                least = simd.min_f32s(least, *delay);
                most = simd.max_f32s(most, *delay);
            }
            let counted = if WHOLE {
                *delay
            } else {
                simd.mul_f32s(*delay, self.weights[row])
            };
            total = simd.add_f32s(total, counted);
            let bucket = simd.wrapping_dyn_shr_u32s(simd.transmute_u32s_f32s(*delay), shift);
            let bucket = simd.min_u32s(simd.max_u32s(bucket, lowest), highest);
            *delay = simd.transmute_f32s_u32s(simd.sub_u32s(bucket, lowest));
        }
        road.range = [least, most];
        // a pass of its own reads lanes from memory, which is cheaper than out of a register
        for (row, buckets) in self.delays.iter().enumerate() {
            let buckets: &[u32] = bytemuck::cast_slice(std::slice::from_ref(buckets));
            for (lane, (bucket, table)) in buckets.iter().zip(&mut road.counts).enumerate() {
                let more = if WHOLE {
                    1
                } else {
                    each::<S>(&self.weights[row])[lane] as u32
                };
                // the remainder changes nothing but spares the check of bounds
                table[*bucket as usize % SLOTS] += more;
            }
        }
        let middle = 0.5 * (self.run.warm_up + self.run.seconds);
        for (lane, total) in each::<S>(&total).iter().enumerate() {
            let half = usize::from(self.began[lane] >= middle);
            road.delay[half][lane] += f64::from(*total);
        }
    }
}
