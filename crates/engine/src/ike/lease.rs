//! Inner addresses: what a peer requests, and what it gets.

use std::net::IpAddr;

use crate::config::InnerFamilies;

/// Domains of a lease at most. With more, the resolvers are asked for all names.
pub const MAX_DOMAINS: usize = 32;

/// The assigned addresses and resolvers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Resolvers.
    pub dns: Vec<IpAddr>,
    /// Domains whose names alone they resolve (RFC 8598); empty: all names. IKEv1 has none.
    pub domains: Vec<String>,
}

/// A peer's request for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Requested families.
    pub families: InnerFamilies,
    /// The preferred addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Whether it can ask the resolvers for some domains alone (RFC 8598).
    pub wants_domains: bool,
}

/// A domain in one form: lower case, no dot at its end. `None`: a label is empty, too long, or
/// begins with a hyphen (RFC 1035 §2.3.4, RFC 8598 §4.1), or it is longer than a name may be.
pub fn domain(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_of_labels = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.bytes().all(is_of_labels)
    };
    let is_name = name.len() <= 253 && name.split('.').all(is_label);
    is_name.then(|| name.to_ascii_lowercase())
}
