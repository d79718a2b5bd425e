//! Recorded links in Mahimahi's form: one delivery opportunity of 1500 octets at each millisecond
//! that a line names, repeated after the last one.
//!
//! Mahimahi counts 4 octets beside each IP packet, and so do we: an opportunity has 1504. What one
//! does not use is left to packets that wait already, and is wasted otherwise.

use std::io::BufRead;
use std::sync::Arc;

use engine::time::Instant;

use crate::scenario::{Fault, Place};

/// Octets of an opportunity: an IP packet of 1500 and the 4 that Mahimahi counts.
pub const OPPORTUNITY_BYTES: u32 = 1504;
/// Octets beside each IP packet.
pub const OVERHEAD_BYTES: u32 = 4;
/// Most opportunities of a trace: hours of a fast link.
pub const MAX_OPPORTUNITIES: usize = 20_000_000;
/// Longest line, its end included.
const MAX_LINE_BYTES: u64 = 32;
const NS_PER_MS: u64 = 1_000_000;

/// The opportunities of one recording, shared by the links that replay it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace(Arc<[u32]>);

impl Trace {
    /// Reads one millisecond a line, line by line. `name`: for messages.
    pub fn read(name: &str, mut text: impl BufRead) -> Result<Self, Fault> {
        let fault = |line: Option<usize>, what: String| Fault {
            place: Place {
                file: name.into(),
                line,
                key: String::new(),
            },
            what,
        };
        let mut opportunities: Vec<u32> = Vec::new();
        let mut line = String::new();
        loop {
            line.clear();
            let number = opportunities.len() + 1;
            let read = std::io::Read::take(&mut text, MAX_LINE_BYTES).read_line(&mut line);
            if read.map_err(|why| fault(Some(number), why.to_string()))? == 0 {
                break;
            }
            let at: u32 = line.trim().parse().map_err(|_| {
                let text = line.trim_end();
                let what = format!("{text:?} is not a number of milliseconds below 2^32");
                fault(Some(number), what)
            })?;
            if let Some(&last) = opportunities.last()
                && at < last
            {
                let what = format!(
                    "{at} ms comes after {last} ms: the file is out of order, or was cut short \
                     within its last line"
                );
                return Err(fault(Some(number), what));
            }
            if opportunities.len() == MAX_OPPORTUNITIES {
                let what = format!("a trace has at most {MAX_OPPORTUNITIES} lines");
                return Err(fault(Some(number), what));
            }
            opportunities.push(at);
        }
        if opportunities.last().is_none_or(|last| *last == 0) {
            let what = "a trace needs an opportunity after 0 ms, and this has none";
            return Err(fault(None, what.to_owned()));
        }
        Ok(Self(opportunities.into()))
    }

    /// Octets a second of full packets, over one round.
    pub fn bytes_per_second(&self) -> f64 {
        let octets = self.0.len() as f64 * f64::from(OPPORTUNITY_BYTES - OVERHEAD_BYTES);
        octets * 1e3 / self.period_ms() as f64
    }

    fn time(&self, at: u64) -> Instant {
        let len = self.0.len() as u64;
        let within = u64::from(self.0[(at % len) as usize]);
        let ms = (at / len).saturating_mul(self.period_ms());
        Instant(ms.saturating_add(within).saturating_mul(NS_PER_MS))
    }

    /// The first opportunity at or after `now`.
    fn first_from(&self, now: Instant) -> u64 {
        let len = self.0.len() as u64;
        let ms = now.0.div_ceil(NS_PER_MS);
        // the end of a round and the start of the next may be the same millisecond
        let round = ms.saturating_sub(1) / self.period_ms();
        let within = ms - round * self.period_ms();
        let before = self.0.partition_point(|at| u64::from(*at) < within);
        round * len + before as u64
    }

    fn period_ms(&self) -> u64 {
        self.0.last().copied().map_or(1, u64::from)
    }
}

/// The place that one link has reached in a trace.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Trace,
    at: u64,
    left: u32,
}

impl Replay {
    /// From the start.
    pub fn new(trace: Trace) -> Self {
        Self {
            trace,
            at: 0,
            left: OPPORTUNITY_BYTES,
        }
    }

    /// When the last octet of an IP packet of `bytes` departs.
    pub fn carry(&mut self, bytes: u32, now: Instant) -> Instant {
        if self.trace.time(self.at) < now {
            self.at = self.trace.first_from(now);
            self.left = OPPORTUNITY_BYTES;
        }
        let mut bytes = bytes.saturating_add(OVERHEAD_BYTES);
        loop {
            if self.left == 0 {
                self.at += 1;
                self.left = OPPORTUNITY_BYTES;
            }
            let taken = bytes.min(self.left);
            self.left -= taken;
            bytes -= taken;
            if bytes == 0 {
                return self.trace.time(self.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Result<Trace, Fault> {
        Trace::read("road.trace", text.as_bytes())
    }

    fn ms(at: u64) -> Instant {
        Instant(at * NS_PER_MS)
    }

    #[test]
    fn opportunities_repeat_after_the_last() {
        let mut replay = Replay::new(trace("5\n10\n").unwrap());
        let departures: Vec<Instant> = (0..5).map(|_| replay.carry(1500, Instant(0))).collect();
        assert_eq!(departures, [ms(5), ms(10), ms(15), ms(20), ms(25)]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_idle_ones_are_lost() {
        let mut replay = Replay::new(trace("5\n10\n").unwrap());
        assert_eq!(replay.carry(748, Instant(0)), ms(5));
        assert_eq!(replay.carry(748, Instant(0)), ms(5));
        assert_eq!(replay.carry(1, Instant(0)), ms(10));
        assert_eq!(replay.carry(1500, ms(101)), ms(105));
    }

    #[test]
    fn the_rate_is_that_of_full_packets() {
        assert_eq!(trace("5\n10\n").unwrap().bytes_per_second(), 300_000.0);
    }

    #[test]
    fn what_is_no_trace_is_named_with_its_line() {
        for (text, said) in [
            ("", "road.trace: a trace needs an opportunity after 0 ms"),
            ("0\n0\n", "needs an opportunity"),
            ("1\nx\n", "road.trace:2: \"x\" is not a number"),
            ("1\n\n2\n", "road.trace:2: \"\" is not"),
            ("-1\n", "road.trace:1"),
            ("1000\n1001\n10", "road.trace:3: 10 ms comes after 1001 ms"),
            ("99999999999\n", "road.trace:1"),
        ] {
            let fault = trace(text).expect_err(text).to_string();
            assert!(fault.contains(said), "{fault}");
        }
        let endless = std::io::BufReader::new(std::io::repeat(b'1'));
        assert!(Trace::read("endless", endless).is_err());
    }
}
