//! The identification payload (RFC 2407 §4.6.2).

/// ID types (RFC 2407 §4.6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdentificationType {
    /// 1
    Ipv4Addr,
    /// 2
    Fqdn,
    /// 3
    UserFqdn,
    /// 4
    Ipv4AddrSubnet,
    /// 5
    Ipv6Addr,
    /// 6
    Ipv6AddrSubnet,
    /// 7
    Ipv4AddrRange,
    /// 8
    Ipv6AddrRange,
    /// 9: a subject's distinguished name.
    DerAsn1Dn,
    /// 10
    DerAsn1Gn,
    /// 11: e.g. a group's name.
    KeyId,
    /// Any other value.
    Other(u8),
}

/// Who (phase 1) or which traffic (phase 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identification {
    /// How to read `value`.
    pub kind: IdentificationType,
    /// IP protocol, 0 for any.
    pub protocol: u8,
    /// Port, 0 for any.
    pub port: u16,
    /// Identification data.
    pub value: Vec<u8>,
}
