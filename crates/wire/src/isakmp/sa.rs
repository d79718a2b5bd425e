//! The security association payload and what nests in it (RFC 2408 §3.4 to §3.6, RFC 2407 §4.6.1).

use super::Attribute;

/// Protocols that a proposal can offer (RFC 2407 §4.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolId {
    /// 1: ISAKMP, phase 1.
    Isakmp,
    /// 2: AH.
    Ah,
    /// 3: ESP.
    Esp,
    /// Any other value.
    Other(u8),
}

/// Domain of interpretation IPsec (1), situation identity-only (1), and the proposals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaPayload {
    /// In order of preference; equal numbers belong together (AND), different ones are choices.
    pub proposals: Vec<Proposal>,
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Proposal number.
    pub number: u8,
    /// What it protects with.
    pub protocol: ProtocolId,
    /// The sender's SPI: empty in phase 1 (8 octets of cookie are read and ignored), 4 octets else.
    pub spi: Vec<u8>,
    /// In order of preference.
    pub transforms: Vec<Transform>,
}

/// A transform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    /// Transform number.
    pub number: u8,
    /// KEY_IKE (1) in phase 1; the ESP or AH transform ID in phase 2.
    pub id: u8,
    /// Attributes, in the order sent.
    pub attributes: Vec<Attribute>,
}
