//! Gaps and sizes of a block of packets, one replication per lane.
//!
//! Left out: the streams themselves and their arithmetic, which are in [`super::lanes`].

use super::lanes::{Streams, each_mut, exp2};
use super::random::Purpose;
use super::traffic::{Arrivals, Table};
use super::{Sizes, Traffic};
use pulp::Simd;

/// Packets of a block, each a row of lanes.
pub(super) const ROWS: usize = 64;

/// How gaps and sizes are drawn.
pub(super) struct Source<S: Simd> {
    gaps: Streams<S>,
    sizes: Streams<S>,
    calls: Streams<S>,
    gap: Gap,
    size: Size,
}

enum Gap {
    Constant(f32),
    Exponential(f32),
    /// The probabilities that a call ends, and a session with it; mean gaps within calls, between
    /// calls and between sessions.
    Call {
        ends: f32,
        leaves: f32,
        means: [f32; 3],
    },
}

enum Size {
    Fixed(f32),
    /// `2^(start + ln(u) slope)`, at most `largest`.
    Pareto {
        start: f32,
        slope: f32,
        top: f32,
        largest: f32,
    },
    Empirical(Table),
}

impl<S: Simd> Source<S> {
    #[inline(always)]
    pub(super) fn new(simd: S, traffic: &Traffic, seed: u64, first: u64) -> Self {
        let pace = 1.0 / traffic.pace_per_s();
        let gap = match &traffic.arrivals {
            Arrivals::PacketCall(call) => Gap::Call {
                ends: (1.0 / call.packets) as f32,
                leaves: (1.0 / call.packets / call.calls) as f32,
                means: [pace, call.reading_s, call.idle_s].map(|mean| mean as f32),
            },
            Arrivals::Constant => Gap::Constant(pace as f32),
            Arrivals::Poisson | Arrivals::ClosedLoop(_) => Gap::Exponential(pace as f32),
        };
        let size = match &traffic.sizes {
            Sizes::Fixed(bytes) => Size::Fixed(*bytes as f32),
            Sizes::Pareto {
                shape,
                smallest,
                largest,
            } => Size::Pareto {
                start: libm::log2(*smallest) as f32,
                slope: (-std::f64::consts::LOG2_E / shape) as f32,
                top: libm::log2(*largest) as f32,
                largest: *largest as f32,
            },
            Sizes::Empirical(shares) => Size::Empirical(Table::new(shares)),
        };
        Self {
            gaps: Streams::new(simd, seed, Purpose::Gap, first),
            sizes: Streams::new(simd, seed, Purpose::Size, first),
            calls: Streams::new(simd, seed, Purpose::Call, first),
            gap,
            size,
        }
    }

    /// A value that is always the same.
    pub(super) fn fill_constant(
        &self,
        simd: S,
        gaps: &mut [S::f32s; ROWS],
        sizes: &mut [S::f32s; ROWS],
    ) {
        if let Gap::Constant(gap) = self.gap {
            gaps.fill(simd.splat_f32s(gap));
        }
        if let Size::Fixed(bytes) = self.size {
            sizes.fill(simd.splat_f32s(bytes));
        }
    }

    #[inline(always)]
    pub(super) fn fill_gaps(&mut self, simd: S, gaps: &mut [S::f32s; ROWS]) {
        match self.gap {
            Gap::Constant(_) => {}
            Gap::Exponential(mean) => {
                let mean = simd.splat_f32s(-mean);
                self.gaps.fill_ln(simd, gaps);
                for gap in gaps {
                    *gap = simd.mul_f32s(*gap, mean);
                }
            }
            Gap::Call {
                ends,
                leaves,
                means,
            } => {
                let [within, between, beyond] = means.map(|mean| simd.splat_f32s(-mean));
                let (ends, leaves) = (simd.splat_f32s(ends), simd.splat_f32s(leaves));
                self.gaps.fill_ln(simd, gaps);
                for gap in gaps {
                    let uniform = self.calls.uniform(simd);
                    let stays = simd.greater_than_f32s(uniform, leaves);
                    let mean = simd.select_f32s(stays, between, beyond);
                    let goes_on = simd.greater_than_f32s(uniform, ends);
                    let mean = simd.select_f32s(goes_on, within, mean);
                    *gap = simd.mul_f32s(*gap, mean);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn fill_sizes(&mut self, simd: S, sizes: &mut [S::f32s; ROWS]) {
        match &self.size {
            Size::Fixed(_) => {}
            Size::Pareto {
                start,
                slope,
                top,
                largest,
            } => {
                let [start, slope, top, largest] =
                    [*start, *slope, *top, *largest].map(|value| simd.splat_f32s(value));
                self.sizes.fill_ln(simd, sizes);
                for size in sizes {
                    let power = simd.mul_f32s(*size, slope);
                    let power = simd.min_f32s(simd.add_f32s(start, power), top);
                    *size = simd.min_f32s(exp2(simd, power), largest);
                }
            }
            Size::Empirical(table) => {
                for size in sizes {
                    *size = self.sizes.uniform(simd);
                    for lane in each_mut::<S>(size) {
                        *lane = table.at(*lane);
                    }
                }
            }
        }
    }
}
