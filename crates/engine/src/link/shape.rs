//! The fixed properties of a link, and the values that no link can have.

use crate::time::Duration;

/// The highest rate of a link in a file or an option, in bits per second.
pub const RATE_BPS_MAX: u64 = 1_000_000_000_000_000;

/// The fixed properties of one direction of a link. `R` represents a recording: its name while a
/// link is planned, and its [`super::recording::Replay`] when it runs.
#[derive(Clone, Debug)]
pub struct Shape<R> {
    /// The rate.
    pub carrier: Carrier<R>,
    /// From the end of transmission to arrival.
    pub delay: Delay,
    /// Share of the packets that are transmitted and lost, 0 to 1.
    pub loss: f64,
    /// What may wait for transmission, including the packet in transmission. Nothing waits if
    /// transmission takes no time.
    pub queue: Limit,
    /// Share of the packets that are held back until two full ones can overtake, 0 to 1. Nothing is
    /// held back if transmission takes no time.
    pub reorder: f64,
    /// Largest IP packet.
    pub mtu: Option<u32>,
    /// Octets that the link adds to each IP packet.
    pub overhead_bytes: u32,
    /// Time that the medium takes for each packet besides its octets: access, preambles, an
    /// acknowledgement. Only with a rate.
    pub access_time: Duration,
}

/// The rate of a link.
#[derive(Clone, Debug)]
pub enum Carrier<R> {
    /// Transmission takes no time.
    Unlimited,
    /// Bits per second, not 0.
    Rate(u64),
    /// A recording.
    Recording(R),
}

/// A delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Fixed(Duration),
    /// Uniform from the first to the second. Packets do not overtake each other.
    Uniform(Duration, Duration),
    /// The first, plus an exponential part with the second as mean. Packets do not overtake each
    /// other.
    Exponential(Duration, Duration),
}

/// The bound of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// None; the owner bounds what is in flight.
    None,
    /// In packets.
    Packets(usize),
    /// In octets, framing included.
    Bytes(u64),
}

/// Why no link can have this shape.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadShape {
    /// A loss that is not a probability.
    #[error("a loss of {0} is outside 0 to 1")]
    Loss(f64),
    /// A share of held back packets that is not a probability.
    #[error("a reordered share of {0} is outside 0 to 1")]
    Reorder(f64),
    /// A rate at which no packet ever ends.
    #[error("a rate of 0 bit/s carries nothing")]
    Rate,
    /// The minimum is more than the maximum.
    #[error("a delay from {0:?} to {1:?} has no values")]
    Delay(Duration, Duration),
    /// Only a rate says when the medium is free.
    #[error("a link without a rate has no access time")]
    AccessTime,
    /// A queue without room for the packet in transmission.
    #[error("a queue of 0 takes nothing")]
    Queue,
    /// Less than IPv4 requires.
    #[error("an mtu of {0} bytes is below {MIN_MTU} (RFC 791 §3.2)")]
    Mtu(u32),
}

/// The smallest MTU that IPv4 permits (RFC 791 §3.2).
const MIN_MTU: u32 = 68;

impl<R> Shape<R> {
    /// A lossless link with a rate and a delay, without a bound.
    pub fn plain(bits_per_second: u64, delay: Duration) -> Self {
        Self {
            carrier: Carrier::Rate(bits_per_second),
            ..Self::at_once(delay)
        }
    }

    /// A lossless link without transmission time, with a delay, without a bound.
    pub fn at_once(delay: Duration) -> Self {
        Self {
            carrier: Carrier::Unlimited,
            delay: Delay::Fixed(delay),
            loss: 0.0,
            queue: Limit::None,
            reorder: 0.0,
            mtu: None,
            overhead_bytes: 0,
            access_time: Duration::ZERO,
        }
    }

    /// The same shape with its recording converted.
    pub fn try_map<T, E>(self, make: impl FnOnce(R) -> Result<T, E>) -> Result<Shape<T>, E> {
        let carrier = match self.carrier {
            Carrier::Unlimited => Carrier::Unlimited,
            Carrier::Rate(bits) => Carrier::Rate(bits),
            Carrier::Recording(recording) => Carrier::Recording(make(recording)?),
        };
        Ok(Shape {
            carrier,
            delay: self.delay,
            loss: self.loss,
            queue: self.queue,
            reorder: self.reorder,
            mtu: self.mtu,
            overhead_bytes: self.overhead_bytes,
            access_time: self.access_time,
        })
    }

    /// Refuses values that no link can have.
    pub fn check(&self) -> Result<(), BadShape> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if !is_share(self.loss) {
            return Err(BadShape::Loss(self.loss));
        }
        if !is_share(self.reorder) {
            return Err(BadShape::Reorder(self.reorder));
        }
        match (&self.carrier, self.delay, self.queue) {
            (Carrier::Rate(0), ..) => Err(BadShape::Rate),
            (Carrier::Unlimited | Carrier::Recording(_), ..) if !self.access_time.is_zero() => {
                Err(BadShape::AccessTime)
            }
            (_, Delay::Uniform(least, most), ..) if most < least => {
                Err(BadShape::Delay(least, most))
            }
            (.., Limit::Packets(0) | Limit::Bytes(0)) => Err(BadShape::Queue),
            _ => match self.mtu {
                Some(mtu) if mtu < MIN_MTU => Err(BadShape::Mtu(mtu)),
                _ => Ok(()),
            },
        }
    }

    /// The mean delay, in seconds.
    pub fn mean_delay_s(&self) -> f64 {
        match self.delay {
            Delay::Fixed(delay) => delay.as_secs_f64(),
            Delay::Uniform(least, most) => (least.as_secs_f64() + most.as_secs_f64()) / 2.0,
            Delay::Exponential(least, mean) => least.as_secs_f64() + mean.as_secs_f64(),
        }
    }
}
