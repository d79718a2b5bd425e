//! A child as both ends of an IKE SA agree on it: what is asked for, what is offered, and the keys.

use crypto::dh::Group;

use crate::config::Child;
use crate::sa::{Mode, OriginalAddresses, Secret};
use crate::selector::TrafficSelector;
use crate::suite::EspSuite;

/// What an initiator asks for.
pub struct ChildRequest<'a> {
    /// Mode, proposals, lifetimes.
    pub child: &'a Child,
    /// Our inbound SPI, the same for every proposal.
    pub spi: u32,
    /// Our side's traffic: exactly one selector travels.
    pub local: TrafficSelector,
    /// The peer's side's traffic.
    pub remote: TrafficSelector,
    /// In UDP or not at all.
    pub needs_udp: bool,
    /// Which groups of PFS come first, and which not at all.
    pub groups: Groups<'a>,
}

/// What is known of a peer's groups of PFS; `None` among them is no PFS.
#[derive(Clone, Copy, Default)]
pub struct Groups<'a> {
    /// The group of the pair that is to be renewed.
    pub agreed: Option<Option<Group>>,
    /// The peer has refused every suite of these.
    pub refused: &'a [Option<Group>],
}

/// What a responder was asked, authentic, before it decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildOffer {
    /// The peer's side's traffic, as it says.
    pub remote: TrafficSelector,
    /// Our side's traffic, as the peer says.
    pub local: TrafficSelector,
    /// The mode of the first proposal.
    pub mode: Mode,
    /// NAT-OA of the peer, if it sent one.
    pub original: Option<OriginalAddresses>,
}

/// The product: everything that a pair of SAs needs besides policy.
#[derive(Clone)]
pub struct NegotiatedChild {
    /// What was agreed.
    pub suite: EspSuite,
    /// Tunnel or transport.
    pub mode: Mode,
    /// In UDP (encapsulation mode 3 or 4) or raw.
    pub is_udp_encapsulated: bool,
    /// Ours, inbound.
    pub spi_in: u32,
    /// The peer's, outbound.
    pub spi_out: u32,
    /// Encryption and integrity key, inbound.
    pub keys_in: (Secret, Secret),
    /// Encryption and integrity key, outbound.
    pub keys_out: (Secret, Secret),
    /// Our side's traffic.
    pub local: TrafficSelector,
    /// The peer's side's traffic.
    pub remote: TrafficSelector,
    /// Addresses before NAT, transport mode only.
    pub original: Option<OriginalAddresses>,
    /// Seconds of life agreed.
    pub lifetime_s: u64,
    /// Bytes of life agreed, if any.
    pub lifetime_bytes: Option<u64>,
}
