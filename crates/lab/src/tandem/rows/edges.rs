//! The edges of the measured time: departures within it, and work that falls outside it.
//!
//! The lanes add up the work of the packets that arrived in the measured time. Because of queues,
//! some of it is done later, and work of earlier packets is done meanwhile: the difference is
//! computed here. It is zero for a block whose packets arrive and leave within the measured time,
//! which holds for nearly all blocks if no queue is saturated. Left out: vector instructions, which
//! would gain nothing here.

use super::super::factored::FactoredTandem;
use super::super::lanes::each;
use super::{Group, ROWS};
use crate::tandem::Run;
use pulp::Simd;

impl<S: Simd> Group<S> {
    /// Counts the departures from the last queue between the warm-up and the end; returns whether
    /// packets of the block arrived before that time or left after it.
    ///
    /// Departures are in order, so a block is examined packet by packet only if it crosses an edge.
    #[inline(always)]
    pub(super) fn deliver(&mut self, index: usize) -> bool {
        let Run {
            warm_up, seconds, ..
        } = self.run;
        let tandem = &mut self.tandems[index];
        let last = each::<S>(&self.delays[ROWS - 1]);
        let mut is_cut = false;
        for (lane, last) in last.iter().enumerate().take(self.used) {
            let before = tandem.departed[lane];
            let after = self.clocks[lane] + f64::from(*last);
            tandem.departed[lane] = after;
            is_cut |= self.began[lane] < warm_up || after > seconds;
            if after < warm_up || before >= seconds {
                continue;
            }
            if before >= warm_up && after < seconds {
                tandem.delivered[lane] += ROWS as f64;
                tandem.delivered_bytes[lane] += f64::from(self.offered[lane]);
                continue;
            }
            let mut at = self.began[lane];
            let (mut packets, mut bytes) = (0.0, 0.0f32);
            for row in 0..ROWS {
                at += f64::from(each::<S>(&self.gaps[row])[lane]);
                let left = at + f64::from(each::<S>(&self.delays[row])[lane]);
                if left >= warm_up && left < seconds {
                    packets += 1.0;
                    bytes += each::<S>(&self.sizes[row])[lane];
                }
            }
            tandem.delivered[lane] += packets;
            tandem.delivered_bytes[lane] += f64::from(bytes);
        }
        is_cut
    }

    /// Corrects for work of the block that is done outside the measured time.
    #[inline(never)]
    pub(super) fn shift(&mut self, index: usize, factored: &FactoredTandem) {
        for lane in 0..self.used {
            let departed = self.tandems[index].departed[lane];
            if self.began[lane] >= self.run.warm_up && departed <= self.run.seconds {
                continue;
            }
            if departed > self.run.warm_up && self.began[lane] < self.run.seconds {
                self.shift_lane(index, factored, lane);
            }
        }
    }

    /// The same for one lane: queue by queue if the queue did the block's work entirely
    /// within or outside the measured time, otherwise packet by packet.
    #[inline(never)]
    fn shift_lane(&mut self, index: usize, factored: &FactoredTandem, lane: usize) {
        let window = self.run.warm_up..self.run.seconds;
        let straddles = (0..factored.loaded.len()).any(|queue| {
            let (before, after) = self.served(index, queue, lane);
            let is_between = |moment: f64| before < moment && moment < after;
            is_between(window.start) || is_between(window.end)
        });
        let mut arrivals = [self.began[lane]; ROWS];
        if straddles {
            let mut at = self.began[lane];
            for (arrival, gap) in arrivals.iter_mut().zip(self.gaps.iter()) {
                at += f64::from(each::<S>(gap)[lane]);
                *arrival = at;
            }
        }
        for (queue, loaded) in factored.loaded.iter().enumerate() {
            let (before, after) = self.served(index, queue, lane);
            let [counted, all] = self.totals[loaded.shape];
            let done = if straddles {
                self.done(queue, factored, lane, before, &mut arrivals)
            } else if before >= window.start && after <= window.end {
                loaded.scale * f64::from(each::<S>(&all)[lane])
            } else {
                0.0
            };
            let counted = loaded.scale * f64::from(each::<S>(&counted)[lane]);
            self.tandems[index].shifted[queue * S::F32_LANES + lane] += done - counted;
        }
    }

    /// When the last packet before the block, and the last of the block, left a queue.
    fn served(&self, index: usize, queue: usize, lane: usize) -> (f64, f64) {
        let tandem = &self.tandems[index];
        let base = tandem.bases[queue * S::F32_LANES + lane];
        let before = f64::from(each::<S>(&self.prior[queue])[lane]);
        let after = f64::from(each::<S>(&tandem.state[queue])[lane]);
        (
            self.began[lane] + base + before,
            self.clocks[lane] + base + after,
        )
    }

    /// The seconds that a queue works on the block in the measured time, if the packet before it
    /// left at `free`. Arrivals are replaced by departures.
    fn done(
        &self,
        queue: usize,
        factored: &FactoredTandem,
        lane: usize,
        mut free: f64,
        arrivals: &mut [f64; ROWS],
    ) -> f64 {
        let loaded = &factored.loaded[queue];
        let mut done = 0.0;
        for (arrival, value) in arrivals.iter_mut().zip(self.shapes[loaded.shape].iter()) {
            let start = f64::max(free, *arrival);
            free = start + loaded.scale * f64::from(each::<S>(value)[lane]);
            done += self.run.overlap(start, free);
            *arrival = free;
        }
        done
    }
}
