//! SKIP (draft-ietf-ipsec-skip-06): no exchange; each packet carries its own key, encrypted under a
//! key that two long-term Diffie-Hellman values give.
//!
//! An [`Association`] says how two names protect their packets. Its [`Sealer`] and its [`Opener`]
//! work on whole IPv4 packets in place: outer header, SKIP header, AH and ESP of 1995. [`profile`]
//! names the rules: the draft's, those of a paper of 1998, and Caravan's own with today's
//! algorithms. [`keys`] derives, [`counter`] says which n is sent and accepted.
//!
//! Left out: certificates and their discovery (the owner knows the public values), compression,
//! multicast, and IPv6.

mod association;
pub mod counter;
pub mod keys;
mod layout;
mod opener;
pub mod profile;
mod repeats;
mod sealer;
mod sequence;
mod traffic;
pub mod udp;
pub mod words;

pub use association::{Association, Parts, Strength, Unfit};
pub use keys::MasterKey;
pub use layout::{IvLen, Layout};
pub use opener::{Opened, Opener, peek};
pub use profile::{Profile, Renewal};
pub use sealer::Sealer;

use crate::time::{Calendar, Instant};

/// Both clocks: n counts hours of the calendar, ages are monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipTime {
    /// Calendar time.
    pub calendar: Calendar,
    /// The owner's clock.
    pub now: Instant,
}

#[cfg(test)]
mod tests;
