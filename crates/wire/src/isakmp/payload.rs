//! The payload chain (RFC 2408 §3.2) and the payloads that are plain octets.

use core::ops::Range;
use std::net::IpAddr;

use super::{ConfigAttributes, Delete, Fragment, Identification, Notify, SaPayload};
use crate::codec::Malformed;

/// Next-payload values (RFC 2408 §3.1, RFC 3947 §3.2 and §5.2, mode config, fragmentation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PayloadKind {
    /// 0: the chain ends.
    None,
    /// 1: security association.
    Sa,
    /// 4: key exchange.
    KeyExchange,
    /// 5: identification.
    Identification,
    /// 6: certificate.
    Certificate,
    /// 7: certificate request.
    CertificateRequest,
    /// 8: hash.
    Hash,
    /// 9: signature.
    Signature,
    /// 10: nonce.
    Nonce,
    /// 11: notification.
    Notify,
    /// 12: delete.
    Delete,
    /// 13: vendor ID.
    VendorId,
    /// 14: attributes, mode config.
    Attributes,
    /// 20: NAT discovery.
    NatDiscovery,
    /// 21: NAT original address.
    NatOriginalAddress,
    /// 132: a fragment of a message.
    Fragment,
    /// Any other value.
    Other(u8),
}

/// One payload, its generic header taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Security association: proposals.
    Sa(SaPayload),
    /// Public Diffie-Hellman value, big-endian, as long as the prime.
    KeyExchange(Vec<u8>),
    /// Who, or which traffic.
    Identification(Identification),
    /// A certificate: encoding (4 = X.509 signature) and its octets.
    Certificate {
        /// RFC 2408 §3.9.
        encoding: u8,
        /// DER for encoding 4.
        body: Vec<u8>,
    },
    /// Which certificates the sender would accept.
    CertificateRequest {
        /// RFC 2408 §3.9.
        encoding: u8,
        /// DER name of an authority, may be empty.
        authority: Vec<u8>,
    },
    /// HASH_I, HASH_R, HASH(1..3).
    Hash(Vec<u8>),
    /// SIG_I, SIG_R.
    Signature(Vec<u8>),
    /// 8 to 256 octets (RFC 2409 §5).
    Nonce(Vec<u8>),
    /// Status or error.
    Notify(Notify),
    /// SPIs that are gone.
    Delete(Delete),
    /// Who built the peer, what it can do.
    VendorId(Vec<u8>),
    /// Mode config attributes.
    Attributes(ConfigAttributes),
    /// HASH(CKY-I | CKY-R | IP | Port) (RFC 3947 §3.2).
    NatDiscovery(Vec<u8>),
    /// The address before translation (RFC 3947 §5.2).
    NatOriginalAddress(IpAddr),
    /// Part of a message too large for one datagram.
    Fragment(Fragment),
    /// A kind we do not know, with its octets.
    Other {
        /// Next-payload value.
        kind: u8,
        /// Octets after the generic header.
        body: Vec<u8>,
    },
}

/// A payload and where it stood: hashes cover the very octets that were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The payload.
    pub payload: Payload,
    /// Its octets in the body, generic header included; the payload body starts 4 octets in.
    pub range: Range<usize>,
}

/// Reads the chain that starts with `first`. The body of an encrypted message may end in padding,
/// so bytes after the chain are allowed there: the caller learns where the chain ended from the
/// last range. At most 64 payloads.
pub fn payloads(first: PayloadKind, body: &[u8]) -> Result<Vec<Located>, Malformed> {
    let _ = (first, body);
    panic!("codec")
}

/// Writes a chain: the kind of the first payload for the header, and the body.
pub fn write_payloads(payloads: &[Payload]) -> (PayloadKind, Vec<u8>) {
    let _ = payloads;
    panic!("codec")
}
