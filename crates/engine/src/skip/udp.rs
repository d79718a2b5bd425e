//! SKIP in UDP: `skip-udp`, Caravan's own form for nodes behind a NAT.
//!
//! A NAT changes the outer IP header, and the MAC of SKIP covers it: a packet that has passed a NAT
//! raw is a forged one ([`BadIcv`](crate::counters::DropReason::BadIcv)). Here the whole packet,
//! with its IP header, is the payload of a UDP datagram. The MAC is that of the raw form, octet by
//! octet, and covers the inner header, which the NAT does not see. This costs [`HEADERS_LEN`]
//! octets; a form without the inner header would save 20 of them, but would need a rule of its own
//! for what the MAC covers.
//!
//! The source in the inner header is the node's own address, often a private one that others have
//! too. Where the node is, the outer address and port say. Answers find it by its home address,
//! because several nodes may have the same care-of address.
//!
//! A datagram of the single octet [`KEEPALIVE`] keeps the NAT's state, as in RFC 3948 §2.3.

use wire::ip::{ipv4, udp};

use crate::time::Duration;

/// Its name in configurations.
pub const NAME: &str = "skip-udp";

/// The UDP port of firewalls and nodes. IANA assigns no port above 49151, and Linux gives none
/// above 60999 to programs that ask for any; the last two digits are SKIP's IP protocol.
pub const PORT: u16 = 61_057;

/// Octets of IP and UDP header before the packet of SKIP.
pub const HEADERS_LEN: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;

/// What keeps the NAT's state.
pub const KEEPALIVE: [u8; 1] = [0xff];

/// A node that has sent nothing for so long sends [`KEEPALIVE`] (RFC 3948 §4).
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
