//! Tunnel agents: a user without a machine of his own gets a tunnel from the machine at hand, by a
//! key that works once, through whatever IPsec that machine has.
//!
//! Three machines take the ten steps of the paper on dynamic configuration of secured tunnels:
//! [`client`] where the user sits, [`host`] that keeps the one-time keys, [`target`] at the other
//! end of the tunnel. [`envelope`] seals (RFC 9180) and signs what they say; formats are in
//! [`wire::agent`]. [`objectives`] picks the IPsec option, [`sheet`] is what a user carries,
//! [`audit`] and [`chain`] are the log, [`ike`] and [`ppk`] are what IKE gets besides, [`legacy`]
//! is the paper's own form and its weaknesses.
//!
//! Databases, certificates and IPsec are the owner's. A machine asks for them by number and
//! goes on when the answer comes; none may come, and the machine may be gone by then.
//! `docs/design/agents.md` says who can do what.

pub mod audit;
pub mod bond;
pub mod chain;
pub mod client;
pub mod description;
pub mod envelope;
mod flood;
pub mod host;
pub mod identity;
pub mod ike;
pub mod legacy;
pub mod objectives;
pub mod ppk;
mod retry;
pub mod sheet;
pub mod target;
pub mod writers;

use core::fmt;
use std::net::SocketAddr;

use crate::time::{Calendar, Duration, Instant};

/// How far the clocks of two agents may differ. A request of another time is refused, and Client
/// is told the time.
pub const CLOCKS_APART_MAX: Duration = Duration::from_secs(300);
/// The longest time from a request to its answer: Host gives up before, Client after it.
pub const EXCHANGE_MAX: Duration = Duration::from_secs(60);
/// Target takes a tunnel down in which Client has not come within this time. Client's last
/// repetition, the answer and IKE fit into it.
pub const ARRIVAL_MAX: Duration = Duration::from_secs(120);
/// The longest tunnel.
pub const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3_600);
/// The shortest.
pub const LIFETIME_MIN: Duration = Duration::from_secs(60);

/// Finds a one-time key. Random, so nobody can tell from it whose key it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub [u8; 16]);

/// SHA-256 over something: a request, the keys of an agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// Names a tunnel at Target: the start of its request's digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TunnelId(pub [u8; 16]);

/// Calendar time that goes on from when it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// What it was.
    pub calendar: Calendar,
    /// When.
    pub told: Instant,
}

impl Clock {
    /// What it is.
    pub fn at(self, now: Instant) -> Calendar {
        self.calendar.at(self.told, now)
    }

    /// Seconds since 1970, as messages have them.
    fn seconds(self, now: Instant) -> u64 {
        u64::try_from(self.at(now).0).unwrap_or(0)
    }

    /// Milliseconds since 1970.
    fn milliseconds(self, now: Instant) -> u64 {
        let told = u64::try_from(self.calendar.0)
            .unwrap_or(0)
            .saturating_mul(1_000);
        let passed = now.since(self.told).as_millis();
        told.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Whether a time of a message is near enough.
    fn is_near(self, time: u64, now: Instant) -> bool {
        self.seconds(now).abs_diff(time) <= CLOCKS_APART_MAX.as_secs()
    }
}

/// Seconds of a message as calendar time.
fn calendar(seconds: u64) -> Calendar {
    Calendar(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// What the owner of a [`host::Host`] or a [`target::Target`] must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<A> {
    /// Sends a message.
    Send {
        /// To this address.
        to: SocketAddr,
        /// The message.
        payload: Vec<u8>,
    },
    /// Asks. The answer goes to `answered` with this number.
    Ask(u64, A),
    /// Writes a line of the log.
    Audit(audit::Event),
}

impl TunnelId {
    /// That of a request.
    pub fn of(request: &Digest) -> Self {
        Self(*request.0.first_chunk().expect("16 of 32 octets"))
    }
}

/// Lower-case hexadecimal.
fn write_hex(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
}

macro_rules! shown_as_hex {
    ($($name:ident),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }
    )+};
}

shown_as_hex!(Handle, Digest, TunnelId);

#[cfg(test)]
mod tests;
