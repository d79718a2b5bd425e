//! Quick mode (RFC 2409 §5.5), with and without PFS, NAT-OA (RFC 3947 §5.2) and ESN (RFC 4304).

use std::net::IpAddr;

use crypto::rand::Stream;

use super::{Fault, IsakmpSa, Outbox};
use crate::config::Child;
use crate::sa::{Mode, OriginalAddresses, Secret};
use crate::selector::TrafficSelector;
use crate::suite::EspSuite;
use crate::time::{Deadline, Instant};

/// What an initiator asks for.
pub struct QuickRequest<'a> {
    /// Mode, proposals, lifetimes.
    pub child: &'a Child,
    /// Our inbound SPI, the same for every proposal.
    pub spi: u32,
    /// Our side's traffic: exactly one selector travels.
    pub local: TrafficSelector,
    /// The peer's side's traffic.
    pub remote: TrafficSelector,
    /// Encapsulate in UDP although no NAT was found.
    pub forces_encapsulation: bool,
}

/// What a responder was asked, hash checked, before it decides.
pub struct QuickOffer {
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

/// When the SAs of an exchange may be used.
pub enum QuickProgress {
    /// Nothing yet.
    Pending,
    /// Responder, message 1 answered: inbound may be installed, outbound waits for message 3.
    InboundReady(Box<NegotiatedChild>),
    /// Initiator: both may be installed. Responder: message 3 came, outbound may be installed.
    Complete(Option<Box<NegotiatedChild>>),
}

/// A quick mode exchange.
pub struct Quick {
    message_id: u32,
}

impl Quick {
    /// Begins an exchange.
    pub fn initiate(
        sa: &IsakmpSa,
        request: QuickRequest<'_>,
        message_id: u32,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let _ = (sa, request, message_id, random, now, out);
        panic!("quick mode")
    }

    /// Reads message 1 of the peer and checks its hash. Nothing is decided or sent.
    pub fn offered(
        sa: &IsakmpSa,
        message: &[u8],
        out: &mut Outbox,
    ) -> Result<(Self, QuickOffer), Fault> {
        let _ = (sa, message, out);
        panic!("quick mode")
    }

    /// Decides on the offer: answers with message 2. `spi` is our inbound SPI. `own` is our
    /// address as we see it.
    pub fn accept(
        &mut self,
        sa: &IsakmpSa,
        child: &Child,
        spi: u32,
        own: IpAddr,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<QuickProgress, Fault> {
        let _ = (sa, child, spi, own, random, now, out);
        panic!("quick mode")
    }

    /// The exchange's message ID.
    pub fn message_id(&self) -> u32 {
        self.message_id
    }

    /// We began it.
    pub fn is_initiator(&self) -> bool {
        panic!("quick mode")
    }

    /// It has given its SAs, and is kept only to answer duplicates.
    pub fn is_done(&self) -> bool {
        panic!("quick mode")
    }

    /// A further message of the exchange.
    pub fn on_message(
        &mut self,
        sa: &IsakmpSa,
        message: &[u8],
        now: Instant,
        out: &mut Outbox,
    ) -> Result<QuickProgress, Fault> {
        let _ = (sa, message, now, out);
        panic!("quick mode")
    }

    /// Retransmission, or the moment from which duplicates are not answered any more.
    pub fn deadline(&self) -> Option<Deadline> {
        panic!("quick mode")
    }

    /// Sends again, or gives up; `Ok(true)`: the exchange is over and can be forgotten.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox) -> Result<bool, Fault> {
        let _ = (now, out);
        panic!("quick mode")
    }
}
