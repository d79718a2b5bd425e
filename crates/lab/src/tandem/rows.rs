//! Open traffic, one replication per lane, a block of packets at a time.
//!
//! There are two phases per block: first sizes, gaps and ceilings once for all tandems; then the
//! queues of each tandem. Delays are relative to the packet's own arrival, so that `f32` keeps
//! seven digits of every delay in runs of any length; sums over a block are added in `f64`. If a
//! queue is overloaded and delays grow without bound, each block counts them from a base in
//! `f64`, because in `f32` a service time of a few milliseconds would be lost in the digits of
//! hours. Compared with [`super::walk`] over the same streams, mean delays differ by less than
//! 2e-5, utilisations and rates by less than 1e-5, waits by less than 1e-4 plus a ten-millionth of
//! the delay. Left out: traffic with feedback, see [`super::walk`].

mod delays;
mod edges;

use super::factored::{Factored, FactoredTandem, Loaded, Shape};
use super::histogram::BUCKETS;
use super::lanes::{ceil, each, each_mut};
use super::sample::{ROWS, Source};
use super::tally::{Replication, Seen, Tally};
use super::{Run, Tandem, Traffic};
use pulp::{Simd, WithSimd};

/// Lanes of the widest instruction set.
const LANES_MOST: usize = 16;
/// Entries of a table of counts: the buckets of every lane, rounded up to a power of two.
const SLOTS: usize = BUCKETS.next_power_of_two() * LANES_MOST;
/// Blocks between flushes: no count can come near 2^32 in that time.
const FLUSH: u32 = 1 << 20;

/// The smallest and the largest delay if there are none.
const NOTHING: [f32; 2] = [f32::INFINITY, f32::NEG_INFINITY];

/// A delay of more than this many seconds is counted from a base.
const REBASE_S: f32 = 4.0;

/// One number per packet and lane.
type Block<T> = Box<[T; ROWS]>;

/// Runs every replication of every tandem, in groups of as many as there are lanes.
pub(super) struct Job<'a> {
    pub(super) tandems: &'a [Tandem],
    pub(super) traffic: &'a Traffic,
    pub(super) run: &'a Run,
}

impl WithSimd for Job<'_> {
    type Output = Vec<Tally>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<Tally> {
        let mut tallies = Tally::of(self.tandems, Some(self.traffic), self.run);
        let factored = Factored::new(self.tandems);
        let mut left = u64::from(self.run.replications);
        let mut first = self.run.first_replication;
        while left > 0 {
            let used = left.min(S::F32_LANES as u64);
            let mut group = Group::new(simd, &factored, &self, first, used as usize);
            let mut blocks = 0u32;
            while group.goes_on() {
                group.block(simd, &factored);
                blocks += 1;
                if blocks == FLUSH {
                    group.tandems.iter_mut().for_each(Lanes::flush);
                    blocks = 0;
                }
            }
            group.tandems.iter_mut().for_each(Lanes::flush);
            group.finish(&factored, first, &mut tallies);
            left -= used;
            first += used;
        }
        tallies
    }
}

/// Replications that run together, one per lane.
struct Group<S: Simd> {
    run: Run,
    /// Lanes in use.
    used: usize,
    source: Source<S>,
    /// When the last packet of each lane arrived.
    clocks: Vec<f64>,
    /// When the block of each lane began.
    began: Vec<f64>,
    /// Clear bytes of each lane in the block, including those that do not count.
    offered: Vec<f32>,
    gaps: Block<S::f32s>,
    sizes: Block<S::f32s>,
    /// Sizes of packets that count, 0 for others; used if not all count.
    counted: Block<S::f32s>,
    /// 1 for packets that count, 0 for others; used if not all count.
    weights: Block<S::f32s>,
    ceilings: Vec<Block<S::f32s>>,
    shapes: Vec<Block<S::f32s>>,
    /// Sums of the block's shapes: over packets that count, and over all.
    totals: Vec<[S::f32s; 2]>,
    /// The state of each tandem before the block.
    prior: Vec<S::f32s>,
    delays: Block<S::f32s>,
    packets: Vec<f64>,
    bytes: Vec<f64>,
    /// The packets of each half of the time.
    halves: [Vec<f64>; 2],
    tandems: Vec<Lanes<S>>,
}

/// The state of one tandem in all lanes; sums are per lane, or per queue or shape and lane.
struct Lanes<S: Simd> {
    /// How long after its arrival the last packet left each loaded queue, minus the base.
    state: Vec<S::f32s>,
    /// The base of the state: 0 unless delays are long.
    bases: Vec<f64>,
    /// The base of the queue before minus the queue's own.
    shifts: Vec<S::f32s>,
    /// The base of the last queue.
    last_base: S::f32s,
    /// Whether any base is not 0.
    rebased: bool,
    /// When the last packet left the last queue.
    departed: Vec<f64>,
    delivered: Vec<f64>,
    delivered_bytes: Vec<f64>,
    delay: [Vec<f64>; 2],
    work: Vec<f64>,
    /// Work done between the warm-up and the end minus the work of the packets that arrived then.
    shifted: Vec<f64>,
    wait: Vec<f64>,
    byte: Vec<f64>,
    /// Delays by bucket and lane since the last flush. The lanes of a bucket share a cache line:
    /// delays of one tandem are similar, and separate tables would evict each other.
    counts: Box<[u32; SLOTS]>,
    /// The same before the last flush, by lane.
    flushed: Vec<[u64; BUCKETS]>,
    /// The smallest and the largest delay.
    range: [S::f32s; 2],
    /// The delays of each lane that has had few so far.
    few: Vec<Option<Vec<f32>>>,
    /// Whether there is such a lane.
    keeps_few: bool,
}

impl<S: Simd> Lanes<S> {
    fn new(simd: S, factored: &FactoredTandem) -> Self {
        let lanes = S::F32_LANES;
        let zeros = |count: usize| vec![0.0; count * lanes];
        let queues = factored.loaded.len();
        Self {
            state: vec![simd.splat_f32s(0.0); queues],
            bases: zeros(queues),
            shifts: vec![simd.splat_f32s(0.0); queues],
            last_base: simd.splat_f32s(0.0),
            rebased: false,
            departed: zeros(1),
            delivered: zeros(1),
            delivered_bytes: zeros(1),
            delay: [zeros(1), zeros(1)],
            work: zeros(factored.shapes.len()),
            shifted: zeros(queues),
            wait: zeros(queues),
            byte: zeros(queues),
            counts: Box::new([0; SLOTS]),
            flushed: vec![[0; BUCKETS]; lanes],
            range: NOTHING.map(|none| simd.splat_f32s(none)),
            few: vec![Some(Vec::new()); lanes],
            keeps_few: true,
        }
    }
}

impl<S: Simd> Lanes<S> {
    /// Moves long delays to their bases; returns whether there are any.
    #[inline(always)]
    fn rebase(&mut self, simd: S) -> bool {
        let mut highest = simd.splat_f32s(0.0);
        for state in &self.state {
            highest = simd.max_f32s(highest, *state);
        }
        if !self.rebased && simd.reduce_max_f32s(highest) <= REBASE_S {
            return false;
        }
        self.rebased = false;
        let lanes = S::F32_LANES;
        for lane in 0..lanes {
            let mut before = 0.0;
            for (queue, state) in self.state.iter_mut().enumerate() {
                let state = &mut each_mut::<S>(state)[lane];
                let base = &mut self.bases[queue * lanes + lane];
                let delay = *base + f64::from(*state);
                let long = delay > f64::from(REBASE_S);
                (*base, *state) = if long {
                    (delay, 0.0)
                } else {
                    (0.0, delay as f32)
                };
                self.rebased |= long;
                each_mut::<S>(&mut self.shifts[queue])[lane] = (before - *base) as f32;
                before = *base;
            }
            each_mut::<S>(&mut self.last_base)[lane] = before as f32;
        }
        true
    }

    /// Moves counts to where they cannot overflow.
    fn flush(&mut self) {
        let buckets = self.counts.chunks_exact_mut(S::F32_LANES);
        for (bucket, counts) in buckets.take(BUCKETS).enumerate() {
            for (flushed, count) in self.flushed.iter_mut().zip(counts) {
                flushed[bucket] += u64::from(std::mem::take(count));
            }
        }
    }
}

impl<S: Simd> Group<S> {
    #[inline(always)]
    fn new(simd: S, factored: &Factored, job: &Job<'_>, first: u64, used: usize) -> Self {
        let lanes = S::F32_LANES;
        let block = || Box::new([simd.splat_f32s(0.0); ROWS]);
        let most = |count: fn(&FactoredTandem) -> usize| {
            factored.tandems.iter().map(count).max().unwrap_or(0)
        };
        let shapes = most(|tandem| tandem.shapes.len());
        let queues = most(|tandem| tandem.loaded.len());
        let zero = simd.splat_f32s(0.0);
        // lanes without a replication have nothing left to do
        let mut clocks = vec![job.run.seconds; lanes];
        clocks[..used].fill(0.0);
        let mut group = Self {
            run: *job.run,
            used,
            source: Source::new(simd, job.traffic, job.run.seed, first),
            clocks,
            began: vec![0.0; lanes],
            offered: vec![0.0; lanes],
            gaps: block(),
            sizes: block(),
            counted: block(),
            weights: block(),
            ceilings: factored.ceilings.iter().map(|_| block()).collect(),
            shapes: (0..shapes).map(|_| block()).collect(),
            totals: vec![[zero; 2]; shapes],
            prior: vec![zero; queues],
            delays: block(),
            packets: vec![0.0; lanes],
            bytes: vec![0.0; lanes],
            halves: [vec![0.0; lanes], vec![0.0; lanes]],
            tandems: factored
                .tandems
                .iter()
                .map(|tandem| Lanes::new(simd, tandem))
                .collect(),
        };
        group
            .source
            .fill_constant(simd, &mut group.gaps, &mut group.sizes);
        group
    }

    fn goes_on(&self) -> bool {
        self.clocks.iter().any(|clock| *clock < self.run.seconds)
    }

    /// Sends 64 packets of every lane through every tandem.
    #[inline(always)]
    fn block(&mut self, simd: S, factored: &Factored) {
        self.source.fill_sizes(simd, &mut self.sizes);
        self.source.fill_gaps(simd, &mut self.gaps);
        let whole = self.advance(simd);
        for (ceiling, values) in factored.ceilings.iter().zip(&mut self.ceilings) {
            let offset = simd.splat_f32s(ceiling.offset);
            let inverse = simd.splat_f32s(ceiling.inverse);
            for (value, size) in values.iter_mut().zip(self.sizes.iter()) {
                *value = ceil(simd, simd.mul_f32s(simd.add_f32s(*size, offset), inverse));
            }
        }
        for (index, tandem) in factored.tandems.iter().enumerate() {
            for shape in 0..tandem.shapes.len() {
                self.shape(simd, index, shape, &tandem.shapes[shape], whole);
            }
            match (whole, self.tandems[index].rebase(simd)) {
                (true, false) => self.tandem::<true, false>(simd, index, tandem),
                (true, true) => self.tandem::<true, true>(simd, index, tandem),
                (false, _) => self.tandem::<false, true>(simd, index, tandem),
            }
        }
    }

    /// Advances the clocks by the block, and finds which packets count; returns whether all do.
    #[inline(always)]
    fn advance(&mut self, simd: S) -> bool {
        self.began.copy_from_slice(&self.clocks);
        add_to::<S>(&mut self.clocks, sum(simd, |row| self.gaps[row]));
        let Run {
            warm_up, seconds, ..
        } = self.run;
        let ends = self.clocks.iter();
        let whole = self
            .began
            .iter()
            .zip(ends)
            .all(|(from, to)| *from >= warm_up && *to < seconds);
        if whole {
            self.packets
                .iter_mut()
                .for_each(|packets| *packets += ROWS as f64);
        } else {
            self.weigh(simd);
        }
        let all = sum(simd, |row| self.sizes[row]);
        let counted = if whole {
            all
        } else {
            sum(simd, |row| self.counted[row])
        };
        add_to::<S>(&mut self.bytes, counted);
        let middle = 0.5 * (warm_up + seconds);
        for (lane, from) in self.began.iter().enumerate() {
            let weights = || {
                self.weights
                    .iter()
                    .map(|row| each::<S>(row)[lane])
                    .sum::<f32>()
            };
            let counts = if whole {
                ROWS as f64
            } else {
                f64::from(weights())
            };
            self.halves[usize::from(*from >= middle)][lane] += counts;
        }
        self.offered.copy_from_slice(each::<S>(&all));
        whole
    }

    /// The weight of each packet: 1 between the warm-up and the end, otherwise 0.
    #[inline(always)]
    fn weigh(&mut self, simd: S) {
        let window = self.run.warm_up..self.run.seconds;
        for (lane, from) in self.began.iter().enumerate() {
            let mut at = *from;
            for (gap, weight) in self.gaps.iter().zip(self.weights.iter_mut()) {
                at += f64::from(each::<S>(gap)[lane]);
                let counts = lane < self.used && window.contains(&at);
                each_mut::<S>(weight)[lane] = f32::from(u8::from(counts));
            }
        }
        let rows = self.sizes.iter().zip(self.weights.iter());
        for (counted, (size, weight)) in self.counted.iter_mut().zip(rows) {
            *counted = simd.mul_f32s(*size, *weight);
        }
        add_to::<S>(&mut self.packets, sum(simd, |row| self.weights[row]));
    }

    /// The values of a staircase for the block, and their sum.
    #[inline(always)]
    fn shape(&mut self, simd: S, tandem: usize, index: usize, shape: &Shape, whole: bool) {
        let values = &mut self.shapes[index];
        let fixed = simd.splat_f32s(shape.fixed);
        let per_byte = simd.splat_f32s(shape.per_byte);
        match shape.steps[..] {
            [(one, high)] if shape.per_byte == 0.0 => {
                let high = simd.splat_f32s(high);
                for (value, one) in values.iter_mut().zip(self.ceilings[one].iter()) {
                    *value = simd.add_f32s(simd.mul_f32s(*one, high), fixed);
                }
            }
            [(one, high), (two, higher)] if shape.per_byte == 0.0 => {
                let (high, higher) = (simd.splat_f32s(high), simd.splat_f32s(higher));
                let rows = self.ceilings[one].iter().zip(self.ceilings[two].iter());
                for (value, (one, two)) in values.iter_mut().zip(rows) {
                    let first = simd.add_f32s(simd.mul_f32s(*one, high), fixed);
                    *value = simd.add_f32s(first, simd.mul_f32s(*two, higher));
                }
            }
            _ => {
                for (value, size) in values.iter_mut().zip(self.sizes.iter()) {
                    *value = simd.add_f32s(simd.mul_f32s(*size, per_byte), fixed);
                }
                for &(ceiling, height) in &shape.steps {
                    let height = simd.splat_f32s(height);
                    for (value, own) in values.iter_mut().zip(self.ceilings[ceiling].iter()) {
                        *value = simd.add_f32s(*value, simd.mul_f32s(*own, height));
                    }
                }
            }
        }
        let values = &*values;
        let all = sum(simd, |row| values[row]);
        let total = if whole {
            all
        } else {
            sum(simd, |row| simd.mul_f32s(values[row], self.weights[row]))
        };
        self.totals[index] = [total, all];
        let lanes = S::F32_LANES;
        add_to::<S>(
            &mut self.tandems[tandem].work[index * lanes..][..lanes],
            total,
        );
    }

    /// Sends the block through the queues of one tandem.
    #[inline(always)]
    fn tandem<const WHOLE: bool, const BASED: bool>(
        &mut self,
        simd: S,
        index: usize,
        factored: &FactoredTandem,
    ) {
        self.delays.fill(simd.splat_f32s(0.0));
        self.prior[..factored.loaded.len()].copy_from_slice(&self.tandems[index].state);
        let mut queue = 0;
        let mut rest = &factored.loaded[..];
        while let [one, two, three, four, more @ ..] = rest {
            self.pass::<4, WHOLE, BASED>(simd, index, queue, [one, two, three, four]);
            queue += 4;
            rest = more;
        }
        while let [one, two, more @ ..] = rest {
            self.pass::<2, WHOLE, BASED>(simd, index, queue, [one, two]);
            queue += 2;
            rest = more;
        }
        if let [one] = rest {
            self.pass::<1, WHOLE, BASED>(simd, index, queue, [one]);
        }
        if BASED {
            let base = self.tandems[index].last_base;
            for delay in self.delays.iter_mut() {
                *delay = simd.add_f32s(*delay, base);
            }
        }
        if self.deliver(index) {
            self.shift(index, factored);
        }
        self.delay::<WHOLE>(simd, index);
    }

    /// Sends the block through `K` queues, each row through all of them before the next row.
    #[inline(always)]
    fn pass<const K: usize, const WHOLE: bool, const BASED: bool>(
        &mut self,
        simd: S,
        tandem: usize,
        first: usize,
        queues: [&Loaded; K],
    ) {
        let tandem = &mut self.tandems[tandem];
        let shapes = queues.map(|queue| &self.shapes[queue.shape]);
        let scales = queues.map(|queue| simd.splat_f32s(queue.scale as f32));
        let shifts: [S::f32s; K] = std::array::from_fn(|k| tandem.shifts[first + k]);
        let mut left: [S::f32s; K] = std::array::from_fn(|k| tandem.state[first + k]);
        let mut waits = [simd.splat_f32s(0.0); K];
        let mut bytes = [simd.splat_f32s(0.0); K];
        let sizes = if WHOLE { &self.sizes } else { &self.counted };
        for (row, gap) in self.gaps.iter().enumerate() {
            let size = sizes[row];
            let mut ahead = self.delays[row];
            for k in 0..K {
                if BASED {
                    ahead = simd.add_f32s(ahead, shifts[k]);
                }
                let start = simd.max_f32s(simd.sub_f32s(left[k], *gap), ahead);
                let wait = simd.sub_f32s(start, ahead);
                let counted = if WHOLE {
                    wait
                } else {
                    simd.mul_f32s(wait, self.weights[row])
                };
                waits[k] = simd.add_f32s(waits[k], counted);
                bytes[k] = simd.add_f32s(bytes[k], simd.mul_f32s(wait, size));
                ahead = simd.add_f32s(start, simd.mul_f32s(shapes[k][row], scales[k]));
                left[k] = ahead;
            }
            self.delays[row] = ahead;
        }
        let lanes = S::F32_LANES;
        for k in 0..K {
            tandem.state[first + k] = left[k];
            add_to::<S>(&mut tandem.wait[(first + k) * lanes..][..lanes], waits[k]);
            add_to::<S>(&mut tandem.byte[(first + k) * lanes..][..lanes], bytes[k]);
        }
    }

    /// Converts lanes into records.
    fn finish(&self, factored: &Factored, first: u64, tallies: &mut [Tally]) {
        let lanes = S::F32_LANES;
        let window = self.run.seconds - self.run.warm_up;
        for ((tandem, factored), tally) in self.tandems.iter().zip(&factored.tandems).zip(tallies) {
            for lane in 0..self.used {
                let work = |shape: usize, scale: f64| scale * tandem.work[shape * lanes + lane];
                let queue = |queue: &Option<usize>| {
                    queue.map_or_else(Seen::default, |index| {
                        let Loaded { shape, scale } = factored.loaded[index];
                        let work_s = work(shape, scale);
                        Seen {
                            work_s,
                            busy_s: (work_s + tandem.shifted[index * lanes + lane]).max(0.0),
                            wait_s: tandem.wait[index * lanes + lane],
                            byte_s: tandem.byte[index * lanes + lane],
                        }
                    })
                };
                let seen = Replication {
                    index: first + lane as u64,
                    seconds: window,
                    departing_s: window,
                    packets: self.packets[lane] as u64,
                    bytes: self.bytes[lane],
                    protected: factored
                        .protected
                        .map_or(0.0, |(shape, scale)| work(shape, scale)),
                    delay_s: tandem.delay[0][lane] + tandem.delay[1][lane],
                    delivered: tandem.delivered[lane] as u64,
                    delivered_bytes: tandem.delivered_bytes[lane],
                    halves: [0, 1].map(|half| super::tally::Half {
                        packets: self.halves[half][lane] as u64,
                        delay_s: tandem.delay[half][lane],
                    }),
                    percentiles: [0.0; 5],
                    queues: factored.queues.iter().map(queue).collect(),
                };
                tally.add(seen, &tandem.delays(lane));
            }
        }
    }
}

/// The sum of a block's rows, lane by lane, in four independent chains.
#[inline(always)]
fn sum<S: Simd>(simd: S, rows: impl Fn(usize) -> S::f32s) -> S::f32s {
    let mut chains = [simd.splat_f32s(0.0); 4];
    for first in (0..ROWS).step_by(4) {
        for (ahead, chain) in chains.iter_mut().enumerate() {
            *chain = simd.add_f32s(*chain, rows(first + ahead));
        }
    }
    let [one, two, three, four] = chains;
    simd.add_f32s(simd.add_f32s(one, two), simd.add_f32s(three, four))
}

/// Adds lanes to sums.
#[inline(always)]
fn add_to<S: Simd>(sums: &mut [f64], lanes: S::f32s) {
    for (sum, lane) in sums.iter_mut().zip(each::<S>(&lanes)) {
        *sum += f64::from(*lane);
    }
}
