//! What a tunnel of Mobile IPv4 knows about the reachability of its other end (RFC 2003 §5): for
//! some time after an ICMP error, packets still leave, and their senders are told.
//!
//! No more than 16 bits prove such an error, so it changes nothing else. Left out: relaying the
//! error at once, as the packet that it quotes is usually cut off before its own sender is named.

use std::net::{IpAddr, SocketAddr};

use wire::ip::icmp;

use crate::plane::datagrams::Datagrams;
use crate::plane::inner::Inner;
use crate::sa::Via;
use crate::time::{Duration, Instant};

/// How long an error counts.
pub const TROUBLE_HOLDS: Duration = Duration::from_secs(10);
/// Senders are told at most this often (RFC 1812 §4.3.2.8).
pub const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// An ICMP error about a datagram of ours that did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered<'a> {
    /// Where the datagram was going; the port is 0 if it was raw.
    pub remote: SocketAddr,
    /// How it travelled.
    pub via: Via,
    /// The reason.
    pub unreachable: Unreached,
    /// What the report quotes, as in [`crate::plane::TooBig`].
    pub quoted: &'a [u8],
}

/// Why a datagram did not arrive, as far as it concerns senders (RFC 2003 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// Destination unreachable, with this code.
    Code(u8),
    /// Time exceeded: presumably a loop within the tunnel.
    TimeExceeded,
}

/// One child's.
pub(crate) struct Trouble {
    /// What senders are told.
    code: u8,
    until: Instant,
    told: Option<Instant>,
}

impl Trouble {
    /// `None`: the error is none that a sender may hear of.
    pub(crate) fn new(why: Unreached, now: Instant) -> Option<Self> {
        const PROTOCOL: u8 = 2;
        let code = match why {
            Unreached::Code(icmp::V4_NETWORK) => icmp::V4_NETWORK,
            // The sender has not chosen the protocol of the tunnel (RFC 2003 §4.1).
            Unreached::Code(icmp::V4_HOST | PROTOCOL) | Unreached::TimeExceeded => icmp::V4_HOST,
            Unreached::Code(_) => return None,
        };
        Some(Self {
            code,
            until: now + TROUBLE_HOLDS,
            told: None,
        })
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Tells the sender of a packet.
    pub(crate) fn tell(
        &mut self,
        inner: &Inner,
        packet: &[u8],
        has_vnet_header: bool,
        now: Instant,
        out: &mut Datagrams,
    ) {
        let is_due = (self.told).is_none_or(|told| now.since(told) >= TELL_INTERVAL);
        let IpAddr::V4(from) = inner.flow.destination else {
            return;
        };
        if is_due && let Some(error) = icmp::undeliverable(packet, from, self.code) {
            self.told = Some(now);
            out.answer(&error, has_vnet_header);
        }
    }
}
