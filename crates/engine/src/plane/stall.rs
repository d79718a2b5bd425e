//! Detects a path that silently loses large packets: no router reports that they are too large, and
//! small packets pass, so everything else looks normal.
//!
//! The sign is a TCP sender that repeats a large segment again and again. One segment of each child
//! is followed at a time. Repetitions alone prove little, because a broken link looks the same. So
//! control sends a small probe ([`crate::plane::Notice::LargeUnanswered`]), and only a prompt
//! answer makes the path smaller. If the segment is then repeated in small packets too, a host
//! inside does not answer, and the path gets its size back. Unanswered UDP datagrams are not a
//! sign.

use std::net::IpAddr;

use wire::ip::protocol::TCP;

use crate::plane::inner::{Inner, be32};
use crate::time::{Duration, Instant};

/// How often a segment is repeated before the path is doubted.
const REPETITIONS: u32 = 3;
/// A faster repetition is not a timeout: RFC 6298 §2.4 has one second, Linux 200 ms.
const LEAST_GAP: Duration = Duration::from_millis(150);
/// A segment that was not repeated is replaced by another one after this long.
const SAMPLE_FOR: Duration = Duration::from_secs(1);
/// A repeated segment is replaced after this long without a repetition: timeouts double.
const FORGOTTEN: Duration = Duration::from_secs(8);
/// After a wrong suspicion, the path is not suspected again for this long.
const TRUST_FOR: Duration = Duration::from_secs(600);

/// One child's.
#[derive(Default)]
pub(crate) struct Stall {
    /// Boxed: most children have never sent a large segment.
    sample: Option<Box<Sample>>,
    /// The path has been made smaller: small packets are looked at.
    is_small: bool,
    trusted_until: Option<Instant>,
}

/// A segment that is followed.
#[derive(Clone, Copy)]
struct Sample {
    ends: (IpAddr, IpAddr),
    ports: u32,
    sequence: u32,
    last: Instant,
    repetitions: u32,
}

/// What a packet shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// A large segment is repeated again and again.
    Stalled,
    /// It is repeated in small packets too.
    NotTheSize,
}

impl Stall {
    /// Looks at a packet. `is_large`: it would not fit a small path.
    pub(crate) fn look(
        &mut self,
        inner: &Inner,
        packet: &[u8],
        is_large: bool,
        now: Instant,
    ) -> Option<Sign> {
        let at = inner.flow.transport;
        if !(is_large || self.is_small && self.sample.is_some())
            || inner.flow.protocol != TCP
            || inner.flow.is_fragment
            || packet.len() < at + 20
        {
            return None;
        }
        let data = inner
            .flow
            .total_len
            .saturating_sub(at + usize::from(packet[at + 12] >> 4) * 4);
        if data == 0 {
            return None;
        }
        let (ports, sequence) = (be32(packet, at), be32(packet, at + 4));
        let ends = (inner.flow.source, inner.flow.destination);
        let fresh = Sample {
            ends,
            ports,
            sequence,
            last: now,
            repetitions: 0,
        };
        let Some(sample) = &mut self.sample else {
            self.sample = Some(Box::new(fresh));
            return None;
        };
        let holds = sample.sequence.wrapping_sub(sequence) < data as u32;
        if holds && sample.ports == ports && sample.ends == ends {
            if now.since(sample.last) < LEAST_GAP {
                return None;
            }
            sample.last = now;
            sample.repetitions += 1;
            return self.judge(now);
        }
        let patience = match sample.repetitions {
            0 => SAMPLE_FOR,
            _ => FORGOTTEN,
        };
        if is_large && now.since(sample.last) >= patience {
            **sample = fresh;
        }
        None
    }

    fn judge(&mut self, now: Instant) -> Option<Sign> {
        let sample = self.sample.as_ref();
        if sample.is_none_or(|it| it.repetitions < REPETITIONS) {
            return None;
        }
        if self.is_small {
            self.forgive(now);
            return Some(Sign::NotTheSize);
        }
        let is_trusted = self.trusted_until.is_some_and(|until| now < until);
        (!is_trusted).then_some(Sign::Stalled)
    }

    fn forgive(&mut self, now: Instant) {
        *self = Self {
            trusted_until: Some(now + TRUST_FOR),
            ..Self::default()
        };
    }

    /// Whether the segment still seems unanswered.
    pub(crate) fn is_stalled(&self, now: Instant) -> bool {
        let is_lately = |sample: &Sample| {
            sample.repetitions >= REPETITIONS && now.since(sample.last) < FORGOTTEN
        };
        !self.is_small && self.sample.as_deref().is_some_and(is_lately)
    }

    /// The path has been made smaller: repetitions are counted from 0.
    pub(crate) fn shrunk(&mut self) {
        self.is_small = true;
        if let Some(sample) = &mut self.sample {
            sample.repetitions = 0;
        }
    }

    /// The path gets its size back.
    pub(crate) fn grown(&mut self) {
        self.is_small = false;
        self.sample = None;
    }
}
