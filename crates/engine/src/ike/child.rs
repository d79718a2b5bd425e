//! A child SA as negotiated under an IKE SA: the request, the offer, and the resulting keys.

use crate::config::Child;
use crate::sa::{ChildId, Mode, OriginalAddresses, Secret};
use crate::selector::TrafficSelector;
use crate::suite::{EspSuite, Pfs};

/// A request for a child, at the initiator.
pub struct ChildRequest<'a> {
    /// Mode, proposals, lifetimes.
    pub child: &'a Child,
    /// Our inbound SPI, the same for every proposal.
    pub spi: u32,
    /// Our side's traffic, at least one selector. IKEv1 can send only one.
    pub local: Vec<TrafficSelector>,
    /// The peer's side's traffic, at least one selector.
    pub remote: Vec<TrafficSelector>,
    /// It must be in UDP; otherwise there is no child.
    pub needs_udp: bool,
    /// Which PFS groups to offer first, and which not at all.
    pub groups: Groups<'a>,
}

/// What is known of a peer's PFS groups. `None` in place of a group means no PFS.
#[derive(Clone, Copy, Default)]
pub struct Groups<'a> {
    /// The group of the pair that is being renewed.
    pub agreed: Option<Option<Pfs>>,
    /// The peer has refused all suites with these groups.
    pub refused: &'a [Option<Pfs>],
}

/// The peer's authenticated request, before the responder decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildOffer {
    /// The peer's side's traffic, as it requests.
    pub remote: Vec<TrafficSelector>,
    /// Our side's traffic, as the peer requests.
    pub local: Vec<TrafficSelector>,
    /// The mode of the first proposal.
    pub mode: Mode,
    /// NAT-OA of the peer, if it sent one.
    pub original: Option<OriginalAddresses>,
    /// The child that it renews, where the peer says so; IKEv1 does not.
    pub renews: Option<ChildId>,
}

/// The result: everything that a pair of SAs needs except policy.
#[derive(Clone)]
pub struct NegotiatedChild {
    /// The agreed suite.
    pub suite: EspSuite,
    /// Tunnel or transport.
    pub mode: Mode,
    /// In UDP (encapsulation mode 3 or 4) or raw.
    pub is_udp_encapsulated: bool,
    /// Our SPI, inbound.
    pub spi_in: u32,
    /// The peer's SPI, outbound.
    pub spi_out: u32,
    /// Encryption and integrity key, inbound.
    pub keys_in: (Secret, Secret),
    /// Encryption and integrity key, outbound.
    pub keys_out: (Secret, Secret),
    /// Our side's traffic.
    pub local: Vec<TrafficSelector>,
    /// The peer's side's traffic.
    pub remote: Vec<TrafficSelector>,
    /// Addresses before NAT, transport mode only.
    pub original: Option<OriginalAddresses>,
    /// Agreed lifetime in seconds.
    pub lifetime_s: u64,
    /// Agreed lifetime in bytes, if any.
    pub lifetime_bytes: Option<u64>,
}

/// A child that an initiator asks for together with its authentication (RFC 7296 §1.2).
pub struct FirstChild {
    /// Its name in the node.
    pub child: ChildId,
    /// Index in the connection's children.
    pub index: usize,
    /// Our inbound SPI.
    pub spi: u32,
    /// Our side's traffic.
    pub local: Vec<TrafficSelector>,
    /// The peer's side's traffic.
    pub remote: Vec<TrafficSelector>,
}

impl FirstChild {
    /// Whether packets could go between both sides: IPv4 and IPv6 do not mix.
    pub fn has_traffic(&self) -> bool {
        let is_met = |own: &TrafficSelector| self.remote.iter().any(|it| own.is_of_family(it));
        self.local.iter().any(is_met)
    }
}

/// An exchange for a child, in progress or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildExchange {
    /// The child.
    pub child: ChildId,
    /// Our SPI in it.
    pub spi: u32,
    /// It is ours and unanswered.
    pub is_asked: bool,
    /// It has returned its SAs, and is kept only to answer duplicates.
    pub is_done: bool,
}
