//! Recorded links in Mahimahi's form: one delivery opportunity of 1500 octets at each millisecond
//! that a line names, repeated after the last one.
//!
//! Mahimahi counts 4 octets in addition to each IP packet, and so do we: an opportunity has 1504.
//! Waiting packets use what one leaves of it; otherwise it is wasted.
//!
//! A recording is read as its time passes, from any source that can be read and rewound: [`survey`]
//! checks all of it in one pass, a [`Replay`] then holds one block of [`BLOCK_BYTES`], however long
//! the recording is. Left out: opening files, which is the caller's task.

use std::io::{self, Read, Seek};

use crate::time::Instant;

/// Octets of an opportunity: an IP packet of 1500 and the 4 that Mahimahi counts.
pub const OPPORTUNITY_BYTES: u32 = 1504;
/// Octets in addition to each IP packet.
pub const OVERHEAD_BYTES: u32 = 4;
/// Octets of a recording that are in memory.
pub const BLOCK_BYTES: usize = 1 << 16;
/// The last time that a line may name: 34 years of milliseconds.
pub const MAX_MS: u64 = 1 << 40;
/// Longest line, its end included.
const MAX_LINE_BYTES: usize = 32;
const NS_PER_MS: u64 = 1_000_000;

/// A source that can be read again from its start.
pub trait Rewind: Read + Seek {}

impl<R: Read + Seek> Rewind for R {}

/// The result of one pass over a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Opportunities of one round, which are its lines. Not 0.
    pub opportunities: u64,
    /// Milliseconds of one round: its last line. Not 0.
    pub period_ms: u64,
}

/// Why a recording is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecording {
    /// A line is not a number of milliseconds.
    #[error("{text:?} is not a number of milliseconds up to {MAX_MS}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// The line's text.
        text: String,
    },
    /// A line names an earlier time than the one before.
    #[error(
        "{ms} ms comes after {last_ms} ms: the file is out of order, or was cut short within its \
         last line"
    )]
    Order {
        /// Counted from 1.
        line: u64,
        /// Its time.
        ms: u64,
        /// The time of the line before.
        last_ms: u64,
    },
    /// No opportunity after 0 ms: a round would never end.
    #[error("a trace needs an opportunity after 0 ms, and this has none")]
    Empty,
    /// It cannot be read, or not again from its start.
    #[error("{0}")]
    Unreadable(String),
    /// It differs from the one that was surveyed.
    #[error("the trace changed while it was replayed")]
    Changed,
}

impl BadRecording {
    /// The line of the error, counted from 1.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Line { line, .. } | Self::Order { line, .. } => Some(*line),
            Self::Empty | Self::Unreadable(_) | Self::Changed => None,
        }
    }
}

impl Survey {
    /// Octets per second of full packets, over one round.
    pub fn bytes_per_second(&self) -> f64 {
        let octets = self.opportunities as f64 * f64::from(OPPORTUNITY_BYTES - OVERHEAD_BYTES);
        octets * 1e3 / self.period_ms as f64
    }
}

/// Reads a recording once, from its start to its end, and checks every line.
pub fn survey(source: impl Rewind) -> Result<Survey, BadRecording> {
    let mut lines = Lines::new(source);
    lines.rewind()?;
    let mut period_ms = 0;
    while let Some(ms) = lines.next()? {
        period_ms = ms;
    }
    if period_ms == 0 {
        return Err(BadRecording::Empty);
    }
    Ok(Survey {
        opportunities: lines.number,
        period_ms,
    })
}

/// The position of one link in a recording.
///
/// A read that fails, or a recording that has changed since its survey, is an error of the call
/// that finds it; the replay is unusable after that.
pub struct Replay<R> {
    lines: Lines<R>,
    survey: Survey,
    /// Completed rounds.
    round: u64,
    /// The opportunity reached, within its round.
    within_ms: u64,
    /// Its remaining octets.
    left: u32,
}

impl<R: Rewind> Replay<R> {
    /// Starts at the beginning. `survey` must be of the same recording.
    pub fn new(source: R, survey: Survey) -> Result<Self, BadRecording> {
        let mut replay = Self {
            lines: Lines::new(source),
            survey,
            round: 0,
            within_ms: 0,
            left: OPPORTUNITY_BYTES,
        };
        replay.begin(0)?;
        Ok(replay)
    }

    /// When the last octet of an IP packet of `bytes` departs. `now` never goes back.
    pub fn carry(&mut self, bytes: u32, now: Instant) -> Result<Instant, BadRecording> {
        if self.at() < now {
            self.reach(now)?;
            self.left = OPPORTUNITY_BYTES;
        }
        let mut bytes = bytes.saturating_add(OVERHEAD_BYTES);
        loop {
            if self.left == 0 {
                self.advance()?;
                self.left = OPPORTUNITY_BYTES;
            }
            let taken = bytes.min(self.left);
            self.left -= taken;
            bytes -= taken;
            if bytes == 0 {
                return Ok(self.at());
            }
        }
    }

    fn at(&self) -> Instant {
        let begun = self.round.saturating_mul(self.survey.period_ms);
        let ms = begun.saturating_add(self.within_ms);
        Instant(ms.saturating_mul(NS_PER_MS))
    }

    /// Octets per second of full packets, over one round.
    pub fn bytes_per_second(&self) -> f64 {
        self.survey.bytes_per_second()
    }

    /// Advances to the first opportunity at or after `now`. Skips rounds that nobody used.
    fn reach(&mut self, now: Instant) -> Result<(), BadRecording> {
        let ms = now.0.div_ceil(NS_PER_MS);
        // the end of a round and the start of the next may be the same millisecond
        let round = ms.saturating_sub(1) / self.survey.period_ms;
        if round > self.round {
            self.begin(round)?;
        }
        while self.at() < now {
            self.advance()?;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<(), BadRecording> {
        match self.lines.next()? {
            Some(ms) if ms <= self.survey.period_ms => self.within_ms = ms,
            None if self.is_whole() => self.begin(self.round.saturating_add(1))?,
            Some(_) | None => return Err(BadRecording::Changed),
        }
        Ok(())
    }

    fn begin(&mut self, round: u64) -> Result<(), BadRecording> {
        self.lines.rewind()?;
        self.round = round;
        self.within_ms = self.lines.next()?.ok_or(BadRecording::Changed)?;
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.within_ms == self.survey.period_ms && self.lines.number == self.survey.opportunities
    }
}

/// Milliseconds line by line, in order.
struct Lines<R> {
    source: R,
    block: Box<[u8]>,
    /// The read but unused part of the block.
    unused: std::ops::Range<usize>,
    is_at_end: bool,
    /// The number of the line read last, counted from 1.
    number: u64,
    last_ms: u64,
}

impl<R: Rewind> Lines<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            block: vec![0; BLOCK_BYTES].into(),
            unused: 0..0,
            is_at_end: false,
            number: 0,
            last_ms: 0,
        }
    }

    fn rewind(&mut self) -> Result<(), BadRecording> {
        self.source.rewind().map_err(unreadable)?;
        (self.unused, self.is_at_end) = (0..0, false);
        (self.number, self.last_ms) = (0, 0);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<u64>, BadRecording> {
        loop {
            let unused = &self.block[self.unused.clone()];
            let line = &unused[..unused.len().min(MAX_LINE_BYTES)];
            let end = line.iter().position(|octet| *octet == b'\n');
            let length = match end {
                Some(end) => end,
                None if line.len() == MAX_LINE_BYTES || self.is_at_end => line.len(),
                None => {
                    self.fill()?;
                    continue;
                }
            };
            if length == 0 && end.is_none() {
                return Ok(None);
            }
            let is_whole = end.is_some() || line.len() < MAX_LINE_BYTES;
            let (line, number) = (&line[..length], self.number + 1);
            let ms = milliseconds(line).filter(|_| is_whole);
            let ms = ms.ok_or_else(|| BadRecording::Line {
                line: number,
                text: String::from_utf8_lossy(line).trim_end().to_owned(),
            })?;
            let last_ms = self.last_ms;
            if ms < last_ms {
                let line = number;
                return Err(BadRecording::Order { line, ms, last_ms });
            }
            self.unused.start += length + usize::from(end.is_some());
            (self.number, self.last_ms) = (number, ms);
            return Ok(Some(ms));
        }
    }

    /// Moves the unused part to the front of the block and reads more behind it.
    fn fill(&mut self) -> Result<(), BadRecording> {
        let kept = self.unused.len();
        self.block.copy_within(self.unused.clone(), 0);
        self.unused = 0..kept;
        loop {
            match self.source.read(&mut self.block[kept..]) {
                Ok(read) => {
                    self.unused.end += read;
                    self.is_at_end = read == 0;
                    return Ok(());
                }
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return Err(unreadable(fault)),
            }
        }
    }
}

fn unreadable(fault: io::Error) -> BadRecording {
    BadRecording::Unreadable(fault.to_string())
}

fn milliseconds(line: &[u8]) -> Option<u64> {
    let digits = line.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0, |ms: u64, octet| {
        let digit = char::from(*octet).to_digit(10)?;
        Some(ms * 10 + u64::from(digit)).filter(|ms| *ms <= MAX_MS)
    })
}

#[cfg(test)]
mod tests;
