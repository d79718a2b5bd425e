//! The payload chain (RFC 2408 §3.2) and the payloads that are plain octets.

use core::ops::Range;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    ConfigAttributes, Delete, Fragment, Identification, IdentificationType, Notify, SaPayload,
};
use crate::codec::{Malformed, Reader, Writer};

/// Payloads that one message may hold.
pub const MAX_PAYLOADS: usize = 64;

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

/// One payload without its generic header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Security association: proposals.
    Sa(SaPayload),
    /// Public Diffie-Hellman value, big-endian, as long as the prime.
    KeyExchange(Vec<u8>),
    /// An identity or a traffic selector.
    Identification(Identification),
    /// A certificate: encoding (4 = X.509 signature) and its octets.
    Certificate {
        /// RFC 2408 §3.9.
        encoding: u8,
        /// DER for encoding 4.
        body: Vec<u8>,
    },
    /// The certificates that the sender would accept.
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
    /// The implementation and abilities of the peer.
    VendorId(Vec<u8>),
    /// Mode config attributes.
    Attributes(ConfigAttributes),
    /// HASH(CKY-I | CKY-R | IP | Port) (RFC 3947 §3.2).
    NatDiscovery(Vec<u8>),
    /// The address before translation (RFC 3947 §5.2).
    NatOriginalAddress(IpAddr),
    /// Part of a message too large for one datagram.
    Fragment(Fragment),
    /// An unknown kind, with its octets.
    Other {
        /// Next-payload value.
        kind: u8,
        /// Octets after the generic header.
        body: Vec<u8>,
    },
}

impl Payload {
    /// Its next-payload value.
    pub fn kind(&self) -> PayloadKind {
        match self {
            Self::Sa(_) => PayloadKind::Sa,
            Self::KeyExchange(_) => PayloadKind::KeyExchange,
            Self::Identification(_) => PayloadKind::Identification,
            Self::Certificate { .. } => PayloadKind::Certificate,
            Self::CertificateRequest { .. } => PayloadKind::CertificateRequest,
            Self::Hash(_) => PayloadKind::Hash,
            Self::Signature(_) => PayloadKind::Signature,
            Self::Nonce(_) => PayloadKind::Nonce,
            Self::Notify(_) => PayloadKind::Notify,
            Self::Delete(_) => PayloadKind::Delete,
            Self::VendorId(_) => PayloadKind::VendorId,
            Self::Attributes(_) => PayloadKind::Attributes,
            Self::NatDiscovery(_) => PayloadKind::NatDiscovery,
            Self::NatOriginalAddress(_) => PayloadKind::NatOriginalAddress,
            Self::Fragment(_) => PayloadKind::Fragment,
            Self::Other { kind, .. } => PayloadKind::from(*kind),
        }
    }

    /// The payload without its generic header, called `SAi_b` and `IDii_b` in RFC 2409 §5.
    pub fn body(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.write(&mut w);
        w.into_vec()
    }

    fn read(kind: PayloadKind, body: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        let payload = match kind {
            PayloadKind::Sa => Self::Sa(SaPayload::read(&mut r)?),
            PayloadKind::KeyExchange => Self::KeyExchange(r.rest().to_vec()),
            PayloadKind::Identification => Self::Identification(Identification::read(&mut r)?),
            PayloadKind::Certificate => Self::Certificate {
                encoding: r.u8("certificate encoding")?,
                body: r.rest().to_vec(),
            },
            PayloadKind::CertificateRequest => Self::CertificateRequest {
                encoding: r.u8("certificate encoding")?,
                authority: r.rest().to_vec(),
            },
            PayloadKind::Hash => Self::Hash(r.rest().to_vec()),
            PayloadKind::Signature => Self::Signature(r.rest().to_vec()),
            PayloadKind::Nonce if NONCE_LEN.contains(&r.len()) => Self::Nonce(r.rest().to_vec()),
            PayloadKind::Nonce => return Err(Malformed::Length("nonce")),
            PayloadKind::Notify => Self::Notify(Notify::read(&mut r)?),
            PayloadKind::Delete => Self::Delete(Delete::read(&mut r)?),
            PayloadKind::VendorId => Self::VendorId(r.rest().to_vec()),
            PayloadKind::Attributes => Self::Attributes(ConfigAttributes::read(&mut r)?),
            PayloadKind::NatDiscovery => Self::NatDiscovery(r.rest().to_vec()),
            PayloadKind::NatOriginalAddress => Self::NatOriginalAddress(read_nat_oa(&mut r)?),
            PayloadKind::Fragment => Self::Fragment(Fragment::read(&mut r)?),
            PayloadKind::None | PayloadKind::Other(_) => Self::Other {
                kind: kind.number(),
                body: r.rest().to_vec(),
            },
        };
        r.finish("payload")?;
        Ok(payload)
    }

    fn write(&self, w: &mut Writer) {
        match self {
            Self::Sa(sa) => sa.write(w),
            Self::Identification(identification) => identification.write(w),
            Self::Certificate {
                encoding,
                body: der,
            }
            | Self::CertificateRequest {
                encoding,
                authority: der,
            } => {
                w.u8(*encoding);
                w.bytes(der);
            }
            Self::KeyExchange(octets)
            | Self::Hash(octets)
            | Self::Signature(octets)
            | Self::Nonce(octets)
            | Self::VendorId(octets)
            | Self::NatDiscovery(octets)
            | Self::Other { body: octets, .. } => w.bytes(octets),
            Self::Notify(notify) => notify.write(w),
            Self::Delete(delete) => delete.write(w),
            Self::Attributes(attributes) => attributes.write(w),
            Self::NatOriginalAddress(address) => write_nat_oa(*address, w),
            Self::Fragment(fragment) => fragment.write(w),
        }
    }
}

/// A payload and its position: hashes cover the exact octets on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The payload.
    pub payload: Payload,
    /// Its octets in the body, generic header included; the payload body starts 4 octets in.
    pub range: Range<usize>,
}

impl Located {
    /// The octets after the generic header, within the body that [`payloads`] was given.
    pub fn body_range(&self) -> Range<usize> {
        self.range.start + GENERIC_LEN..self.range.end
    }
}

/// Reads the chain that starts with `first`. The body of an encrypted message may end in padding,
/// so bytes may follow the chain; the last range tells where it ended. At most [`MAX_PAYLOADS`].
///
/// Refuses a reserved octet that is not zero (RFC 2408 §5.3). This detects a wrong key.
pub fn payloads(first: PayloadKind, body: &[u8]) -> Result<Vec<Located>, Malformed> {
    let mut found = Vec::new();
    let mut kind = first;
    let mut at = 0;
    while kind != PayloadKind::None {
        if found.len() == MAX_PAYLOADS {
            return Err(Malformed::TooMany("payloads"));
        }
        let mut r = Reader::new(&body[at..]);
        let next = PayloadKind::from(r.u8("generic header")?);
        if r.u8("generic header")? != 0 {
            return Err(Malformed::Value("reserved octet"));
        }
        let len = usize::from(r.u16("generic header")?);
        let inner_len = len.checked_sub(GENERIC_LEN);
        let inner = r.take(inner_len.ok_or(Malformed::Length("payload"))?, "payload")?;
        found.push(Located {
            payload: Payload::read(kind, inner)?,
            range: at..at + len,
        });
        at += len;
        kind = next;
    }
    Ok(found)
}

/// Writes a chain: the kind of the first payload for the header, and the body.
///
/// Panics if a payload cannot be written: larger than 65,531 octets, an SA without proposal or
/// transform, an attribute type beyond 15 bits, deleted SPIs of different lengths.
pub fn write_payloads(payloads: &[Payload]) -> (PayloadKind, Vec<u8>) {
    let kind_at = |i: usize| payloads.get(i).map_or(PayloadKind::None, Payload::kind);
    let mut w = Writer::new();
    for (i, payload) in payloads.iter().enumerate() {
        let start = w.len();
        w.u8(kind_at(i + 1).number());
        w.u8(0);
        w.u16(0);
        payload.write(&mut w);
        let len = u16::try_from(w.len() - start).expect("payload below 64 KiB");
        w.patch_u16(start + 2, len);
    }
    (kind_at(0), w.into_vec())
}

fn read_nat_oa(r: &mut Reader<'_>) -> Result<IpAddr, Malformed> {
    let kind = IdentificationType::from(r.u8("NAT-OA type")?);
    r.array::<3>("reserved octets")?;
    match kind {
        IdentificationType::Ipv4Addr => Ok(Ipv4Addr::from(r.array::<4>("NAT-OA address")?).into()),
        IdentificationType::Ipv6Addr => Ok(Ipv6Addr::from(r.array::<16>("NAT-OA address")?).into()),
        _ => Err(Malformed::Value("NAT-OA type")),
    }
}

fn write_nat_oa(address: IpAddr, w: &mut Writer) {
    let kind = match address {
        IpAddr::V4(_) => IdentificationType::Ipv4Addr,
        IpAddr::V6(_) => IdentificationType::Ipv6Addr,
    };
    w.u8(kind.number());
    w.bytes(&[0; 3]);
    match address {
        IpAddr::V4(v4) => w.bytes(&v4.octets()),
        IpAddr::V6(v6) => w.bytes(&v6.octets()),
    }
}

numbered!(PayloadKind: u8 {
    None = 0,
    Sa = 1,
    KeyExchange = 4,
    Identification = 5,
    Certificate = 6,
    CertificateRequest = 7,
    Hash = 8,
    Signature = 9,
    Nonce = 10,
    Notify = 11,
    Delete = 12,
    VendorId = 13,
    Attributes = 14,
    NatDiscovery = 20,
    NatOriginalAddress = 21,
    Fragment = 132,
});

/// Octets of a generic payload header (RFC 2408 §3.2).
const GENERIC_LEN: usize = 4;
/// RFC 2409 §5.
const NONCE_LEN: core::ops::RangeInclusive<usize> = 8..=256;
