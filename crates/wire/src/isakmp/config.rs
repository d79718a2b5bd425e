//! The attribute payload of mode config (draft-dukes-ike-mode-cfg-02 §3.2).

use super::Attribute;

/// Configuration message types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigType {
    /// 1
    Request,
    /// 2
    Reply,
    /// 3
    Set,
    /// 4
    Ack,
    /// Any other value.
    Other(u8),
}

/// Attribute types; numbers as in the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum ConfigKind {
    InternalIp4Address,
    InternalIp4Netmask,
    InternalIp4Dns,
    InternalIp4Nbns,
    InternalAddressExpiry,
    InternalIp4Dhcp,
    ApplicationVersion,
    InternalIp6Address,
    InternalIp6Netmask,
    InternalIp6Dns,
    InternalIp4Subnet,
    SupportedAttributes,
    InternalIp6Subnet,
    Other(u16),
}

/// An attribute payload. Use [`ConfigKind`] to name an [`Attribute`]'s `kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAttributes {
    /// What is asked or answered.
    pub kind: ConfigType,
    /// Ties a reply to its request.
    pub identifier: u16,
    /// The attributes.
    pub attributes: Vec<Attribute>,
}
