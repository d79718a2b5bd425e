//! One packet at a time, in `f64`: for traffic that waits for its own packets, and for captures.
//!
//! The tests compare the lanes with it.

use super::histogram::Histogram;
use super::random::{Purpose, Stream};
use super::tally::{Half, Replication, Seen, Tally};
use super::traffic::{Arrivals, ClosedLoop, Draw, Pace, PacketCall};
use super::{Packet, Run, Tandem, TandemFault, Traffic};

/// Simulates every replication of every tandem.
pub(super) fn simulate(tandems: &[Tandem], traffic: &Traffic, run: &Run) -> Vec<Tally> {
    let mut tallies = Tally::of(tandems, Some(traffic), run);
    for index in (run.first_replication..).take(run.replications as usize) {
        for (tandem, tally) in tandems.iter().zip(&mut tallies) {
            let mut source = Source::new(traffic, run.seed, index);
            let mut walker = Walker::new(tandem, run, index);
            while walker.clock < run.seconds {
                let (gap, bytes) = source.next(&walker.delays);
                walker.packet(gap, bytes);
            }
            let (seen, delays) = walker.finish(run.seconds, run.seconds);
            tally.add(seen, &delays);
        }
    }
    tallies
}

/// Sends given packets through every tandem.
pub(super) fn replay<P>(
    tandems: &[Tandem],
    packets: P,
    run: &Run,
) -> Result<Vec<Tally>, TandemFault>
where
    P: IntoIterator<Item = Result<Packet, TandemFault>>,
{
    let mut tallies = Tally::of(tandems, None, run);
    let mut walkers: Vec<Walker> = tandems
        .iter()
        .map(|tandem| Walker::new(tandem, run, 0))
        .collect();
    let (mut clock, mut whole) = (0.0, true);
    for packet in packets {
        let Packet { at_s, bytes } = packet?;
        check_packet(at_s, bytes)?;
        if at_s >= run.seconds {
            whole = false;
            break;
        }
        let gap = (at_s - clock).max(0.0);
        clock += gap;
        for walker in &mut walkers {
            walker.packet(gap, bytes);
        }
    }
    for (walker, tally) in walkers.into_iter().zip(&mut tallies) {
        let (mut came, mut left) = (run.seconds, run.seconds);
        if whole {
            // the end of a list ends the run: its last packet still leaves
            let packets = walker.seen.packets as f64;
            left = walker.clock + walker.last_delay();
            if walker.seen.packets > 0 && clock <= walker.first {
                return Err(TandemFault::OneMoment(walker.seen.packets));
            }
            // n packets have n - 1 gaps between them
            let span = (clock - walker.first) * packets / (packets - 1.0);
            came = run.warm_up + span;
        }
        if walker.seen.packets == 0 {
            return Err(TandemFault::NoPackets("none after the warm-up"));
        }
        let (seen, delays) = walker.finish(came, left);
        tally.add(seen, &delays);
    }
    Ok(tallies)
}

fn check_packet(at_s: f64, bytes: f64) -> Result<(), TandemFault> {
    if !(0.0..=super::SECONDS_MAX).contains(&at_s) {
        return Err(TandemFault::number(
            "the time of a packet",
            at_s,
            "0 to ten years",
        ));
    }
    if !(1.0..=super::BYTES_MAX).contains(&bytes) {
        return Err(TandemFault::number(
            "the size of a packet",
            bytes,
            "1 to 1,048,576 bytes",
        ));
    }
    Ok(())
}

/// One tandem in one replication.
pub(super) struct Walker<'a> {
    tandem: &'a Tandem,
    run: Run,
    /// When the last packet arrived.
    pub(super) clock: f64,
    /// When the first packet that counts arrived.
    first: f64,
    /// How long after its arrival the last packet left each queue.
    pub(super) delays: Vec<f64>,
    seen: Replication,
    /// Delays from end to end of the packets that count.
    counted: Histogram,
}

impl<'a> Walker<'a> {
    pub(super) fn new(tandem: &'a Tandem, run: &Run, index: u64) -> Self {
        let seen = Replication {
            index,
            queues: vec![Seen::default(); tandem.queues.len()],
            ..Replication::default()
        };
        Self {
            tandem,
            run: *run,
            clock: 0.0,
            first: 0.0,
            delays: vec![0.0; tandem.queues.len()],
            seen,
            counted: Histogram::default(),
        }
    }

    fn last_delay(&self) -> f64 {
        self.delays.last().copied().unwrap_or(0.0)
    }

    /// A packet of `bytes` arrives `gap` seconds after the one before it.
    pub(super) fn packet(&mut self, gap: f64, bytes: f64) {
        self.clock += gap;
        let counts = self.clock >= self.run.warm_up && self.clock < self.run.seconds;
        let mut ahead = 0.0;
        let queues = self.tandem.queues.iter().zip(&mut self.delays);
        for ((queue, delay), seen) in queues.zip(&mut self.seen.queues) {
            let service = queue.service.at(bytes);
            let start = f64::max(*delay - gap, ahead);
            let began = self.clock + start;
            seen.busy_s += self.run.overlap(began, began + service);
            if counts {
                seen.work_s += service;
                seen.wait_s += start - ahead;
                seen.byte_s += (start - ahead) * bytes;
            }
            ahead = start + service;
            *delay = ahead;
        }
        let left = self.clock + ahead;
        if left >= self.run.warm_up && left < self.run.seconds {
            self.seen.delivered += 1;
            self.seen.delivered_bytes += bytes;
        }
        if counts {
            if self.seen.packets == 0 {
                self.first = self.clock;
            }
            let middle = 0.5 * (self.run.warm_up + self.run.seconds);
            let half: &mut Half = &mut self.seen.halves[usize::from(self.clock >= middle)];
            half.packets += 1;
            half.delay_s += ahead;
            self.seen.packets += 1;
            self.seen.bytes += bytes;
            self.seen.protected += self.tandem.protected.at(bytes);
            self.seen.delay_s += ahead;
            self.counted.add(ahead);
        }
    }

    /// The record and its delays. Arrivals were counted until `came` and departures until `left`.
    pub(super) fn finish(mut self, came: f64, left: f64) -> (Replication, Histogram) {
        self.seen.seconds = came - self.run.warm_up;
        self.seen.departing_s = left - self.run.warm_up;
        (self.seen, self.counted)
    }
}

/// The source of the packets of one replication.
pub(super) struct Source<'a> {
    traffic: &'a Traffic,
    draw: Draw,
    /// Mean seconds between packets at the traffic's rate.
    pace_s: f64,
    gaps: Stream,
    sizes: Stream,
    calls: Stream,
    /// Whether the packet before was the last of its answer.
    asks: bool,
}

impl<'a> Source<'a> {
    pub(super) fn new(traffic: &'a Traffic, seed: u64, index: u64) -> Self {
        Self {
            traffic,
            draw: Draw::new(&traffic.sizes),
            pace_s: 1.0 / traffic.pace_per_s(),
            gaps: Stream::new(seed, Purpose::Gap, index),
            sizes: Stream::new(seed, Purpose::Size, index),
            calls: Stream::new(seed, Purpose::Call, index),
            asks: false,
        }
    }

    /// Seconds since the packet before, and clear bytes; `delays` are those of that packet at each
    /// queue.
    pub(super) fn next(&mut self, delays: &[f64]) -> (f64, f64) {
        let bytes = self.draw.bytes(&mut self.sizes);
        let gap = match self.traffic.arrivals {
            Arrivals::Poisson => self.pace_s * self.gaps.exponential(),
            Arrivals::Constant => self.pace_s,
            Arrivals::PacketCall(call) => self.called(&call),
            Arrivals::ClosedLoop(own) => self.asked(&own, bytes, delays),
        };
        (gap, bytes)
    }

    fn called(&mut self, call: &PacketCall) -> f64 {
        let uniform = f64::from(self.calls.uniform());
        let ends = 1.0 / call.packets;
        let mean = if uniform > ends {
            self.pace_s
        } else if uniform > ends / call.calls {
            call.reading_s
        } else {
            call.idle_s
        };
        mean * self.gaps.exponential()
    }

    fn asked(&mut self, own: &ClosedLoop, bytes: f64, delays: &[f64]) -> f64 {
        let pace = match own.pace {
            Pace::Exponential => self.pace_s * self.gaps.exponential(),
            Pace::Making => 8.0 * bytes / self.traffic.rate,
        };
        let mut wait = 0.0;
        if self.asks {
            let queue = own.after.unwrap_or(delays.len() - 1);
            wait = delays[queue] + own.ask_s;
        }
        if self.asks && own.think_s > 0.0 {
            wait += own.think_s * self.gaps.exponential();
        }
        self.asks = f64::from(self.calls.uniform()) <= 1.0 / own.packets;
        wait + pace
    }
}
