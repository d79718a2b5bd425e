//! Who a peer says it is, and which of that we accept (RFC 2407 §4.6.2, RFC 4945 §3).

/// An identity as configured or as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// An address.
    Address(std::net::IpAddr),
    /// A DNS name.
    Fqdn(String),
    /// user@domain.
    UserFqdn(String),
    /// DER of a distinguished name.
    DistinguishedName(Vec<u8>),
    /// Opaque octets, such as a group's name.
    KeyId(Vec<u8>),
}
