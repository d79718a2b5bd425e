//! The payload chain (RFC 7296 §3.2) and the payloads that are plain octets.

use core::ops::Range;

use super::{
    Authentication, Certificate, CertificateRequest, Configuration, Delete, Eap, FragmentNumbers,
    Identification, Notify, Proposal, TrafficSelector,
};
use crate::codec::{Malformed, Reader, Writer};

/// Payloads that one message may hold.
pub const MAX_PAYLOADS: usize = 64;
/// Octets of a generic payload header.
pub const GENERIC_LEN: usize = 4;
/// Octets of a nonce (RFC 7296 §3.9).
pub const NONCE_LEN: core::ops::RangeInclusive<usize> = 16..=256;

/// Next-payload values (RFC 7296 §3.2, RFC 7383 §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PayloadKind {
    /// 0: the chain ends.
    None,
    /// 33: SA.
    SecurityAssociation,
    /// 34: KE.
    KeyExchange,
    /// 35: IDi.
    IdentificationInitiator,
    /// 36: IDr.
    IdentificationResponder,
    /// 37: CERT.
    Certificate,
    /// 38: CERTREQ.
    CertificateRequest,
    /// 39: AUTH.
    Authentication,
    /// 40: Ni, Nr.
    Nonce,
    /// 41: N.
    Notify,
    /// 42: D.
    Delete,
    /// 43: V.
    VendorId,
    /// 44: TSi.
    TrafficSelectorsInitiator,
    /// 45: TSr.
    TrafficSelectorsResponder,
    /// 46: SK.
    Encrypted,
    /// 47: CP.
    Configuration,
    /// 48: EAP.
    Eap,
    /// 53: SKF.
    EncryptedFragment,
    /// Any other value.
    Other(u8),
}

/// One payload without its generic header. SK and SKF are none: [`super::Message`] has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// SA: proposals, in order of preference.
    SecurityAssociation(Vec<Proposal>),
    /// KE.
    KeyExchange(KeyExchange),
    /// IDi.
    IdentificationInitiator(Identification),
    /// IDr.
    IdentificationResponder(Identification),
    /// CERT.
    Certificate(Certificate),
    /// CERTREQ.
    CertificateRequest(CertificateRequest),
    /// AUTH.
    Authentication(Authentication),
    /// Ni, Nr: 16 to 256 octets.
    Nonce(Vec<u8>),
    /// N.
    Notify(Notify),
    /// D.
    Delete(Delete),
    /// V.
    VendorId(Vec<u8>),
    /// TSi.
    TrafficSelectorsInitiator(Vec<TrafficSelector>),
    /// TSr.
    TrafficSelectorsResponder(Vec<TrafficSelector>),
    /// CP.
    Configuration(Configuration),
    /// EAP.
    Eap(Eap),
    /// An unknown kind, with its octets.
    Other {
        /// Next-payload value.
        kind: u8,
        /// Octets after the generic header.
        body: Vec<u8>,
    },
}

/// A public value of a key exchange method (RFC 7296 §3.4, RFC 9370 §2.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyExchange {
    /// The transform ID: [`super::transform::key_exchange`].
    pub method: u16,
    /// A public value, a KEM's public key or a ciphertext.
    pub value: Vec<u8>,
}

impl Payload {
    /// Its next-payload value.
    pub fn kind(&self) -> PayloadKind {
        match self {
            Self::SecurityAssociation(_) => PayloadKind::SecurityAssociation,
            Self::KeyExchange(_) => PayloadKind::KeyExchange,
            Self::IdentificationInitiator(_) => PayloadKind::IdentificationInitiator,
            Self::IdentificationResponder(_) => PayloadKind::IdentificationResponder,
            Self::Certificate(_) => PayloadKind::Certificate,
            Self::CertificateRequest(_) => PayloadKind::CertificateRequest,
            Self::Authentication(_) => PayloadKind::Authentication,
            Self::Nonce(_) => PayloadKind::Nonce,
            Self::Notify(_) => PayloadKind::Notify,
            Self::Delete(_) => PayloadKind::Delete,
            Self::VendorId(_) => PayloadKind::VendorId,
            Self::TrafficSelectorsInitiator(_) => PayloadKind::TrafficSelectorsInitiator,
            Self::TrafficSelectorsResponder(_) => PayloadKind::TrafficSelectorsResponder,
            Self::Configuration(_) => PayloadKind::Configuration,
            Self::Eap(_) => PayloadKind::Eap,
            Self::Other { kind, .. } => PayloadKind::from(*kind),
        }
    }

    /// The payload without its generic header: `RestOfInitIDPayload` of RFC 7296 §2.15 for IDi.
    pub fn body(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.write(&mut w);
        w.into_vec()
    }

    /// Reads the octets after a generic header, to the end.
    fn read(kind: PayloadKind, body: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        let payload = match kind {
            PayloadKind::SecurityAssociation => {
                Self::SecurityAssociation(Proposal::read_all(&mut r)?)
            }
            PayloadKind::KeyExchange => Self::KeyExchange(KeyExchange::read(&mut r)?),
            PayloadKind::IdentificationInitiator => {
                Self::IdentificationInitiator(Identification::read(&mut r)?)
            }
            PayloadKind::IdentificationResponder => {
                Self::IdentificationResponder(Identification::read(&mut r)?)
            }
            PayloadKind::Certificate => Self::Certificate(Certificate::read(&mut r)?),
            PayloadKind::CertificateRequest => {
                Self::CertificateRequest(CertificateRequest::read(&mut r)?)
            }
            PayloadKind::Authentication => Self::Authentication(Authentication::read(&mut r)?),
            PayloadKind::Nonce if NONCE_LEN.contains(&r.len()) => Self::Nonce(r.rest().to_vec()),
            PayloadKind::Nonce => return Err(Malformed::Length("nonce")),
            PayloadKind::Notify => Self::Notify(Notify::read(&mut r)?),
            PayloadKind::Delete => Self::Delete(Delete::read(&mut r)?),
            PayloadKind::VendorId => Self::VendorId(r.rest().to_vec()),
            PayloadKind::TrafficSelectorsInitiator => {
                Self::TrafficSelectorsInitiator(TrafficSelector::read_all(&mut r)?)
            }
            PayloadKind::TrafficSelectorsResponder => {
                Self::TrafficSelectorsResponder(TrafficSelector::read_all(&mut r)?)
            }
            PayloadKind::Configuration => Self::Configuration(Configuration::read(&mut r)?),
            PayloadKind::Eap => Self::Eap(Eap::read(&mut r)?),
            PayloadKind::Encrypted | PayloadKind::EncryptedFragment => {
                return Err(Malformed::Value("payload within an encrypted one"));
            }
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
            Self::SecurityAssociation(proposals) => Proposal::write_all(proposals, w),
            Self::KeyExchange(exchange) => exchange.write(w),
            Self::IdentificationInitiator(id) | Self::IdentificationResponder(id) => id.write(w),
            Self::Certificate(certificate) => certificate.write(w),
            Self::CertificateRequest(request) => request.write(w),
            Self::Authentication(auth) => auth.write(w),
            Self::Notify(notify) => notify.write(w),
            Self::Delete(delete) => delete.write(w),
            Self::TrafficSelectorsInitiator(selectors)
            | Self::TrafficSelectorsResponder(selectors) => {
                TrafficSelector::write_all(selectors, w);
            }
            Self::Configuration(configuration) => configuration.write(w),
            Self::Eap(eap) => eap.write(w),
            Self::Nonce(octets) | Self::VendorId(octets) | Self::Other { body: octets, .. } => {
                w.bytes(octets);
            }
        }
    }
}

impl KeyExchange {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let method = r.u16("key exchange method")?;
        r.u16("reserved octets")?;
        Ok(Self {
            method,
            value: r.rest().to_vec(),
        })
    }

    fn write(&self, w: &mut Writer) {
        w.u16(self.method);
        w.u16(0);
        w.bytes(&self.value);
    }
}

/// A payload and its position: AUTH covers the exact octets on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The payload.
    pub payload: Payload,
    /// The critical bit. It counts for an unknown kind only (RFC 7296 §2.5).
    pub is_critical: bool,
    /// Its octets in what was read, generic header included; the payload body starts 4 octets in.
    pub range: Range<usize>,
}

impl Located {
    /// The octets after the generic header, within what [`payloads`] was given.
    pub fn body_range(&self) -> Range<usize> {
        self.range.start + GENERIC_LEN..self.range.end
    }
}

/// The kind of the first payload that is critical and unknown, which UNSUPPORTED_CRITICAL_PAYLOAD
/// names (RFC 7296 §2.5).
pub fn first_unknown_critical(chain: &[Located]) -> Option<u8> {
    chain.iter().find_map(|one| match &one.payload {
        Payload::Other { kind, .. } if one.is_critical => Some(*kind),
        _ => None,
    })
}

/// Reads a chain that starts with `first` and fills `body`: the clear text of SK, or the body of a
/// message without one. At most [`MAX_PAYLOADS`]. Refuses SK and SKF.
pub fn payloads(first: PayloadKind, body: &[u8]) -> Result<Vec<Located>, Malformed> {
    let (chain, protected) = read_chain(first, body, 0)?;
    match protected {
        None => Ok(chain),
        Some(_) => Err(Malformed::Value("payload within an encrypted one")),
    }
}

/// The end of a chain that is encrypted: what SK and SKF hold.
pub(super) struct Sealed {
    /// Kind of the first payload within.
    pub(super) first: PayloadKind,
    /// Of SKF.
    pub(super) fragment: Option<FragmentNumbers>,
    /// IV, ciphertext and ICV.
    pub(super) range: Range<usize>,
}

/// Reads a chain that starts at `at` and fills `octets`. SK or SKF may end it.
pub(super) fn read_chain(
    first: PayloadKind,
    octets: &[u8],
    mut at: usize,
) -> Result<(Vec<Located>, Option<Sealed>), Malformed> {
    let mut found = Vec::new();
    let mut kind = first;
    while kind != PayloadKind::None {
        if found.len() == MAX_PAYLOADS {
            return Err(Malformed::TooMany("payloads"));
        }
        let mut r = Reader::new(&octets[at..]);
        let next = PayloadKind::from(r.u8("generic header")?);
        let is_critical = r.u8("generic header")? & CRITICAL != 0;
        let len = usize::from(r.u16("generic header")?);
        let inner_len = len.checked_sub(GENERIC_LEN);
        let inner = r.take(inner_len.ok_or(Malformed::Length("payload"))?, "payload")?;
        let end = at + len;
        let fragment = match kind {
            PayloadKind::Encrypted => None,
            PayloadKind::EncryptedFragment => Some(FragmentNumbers::read(inner)?),
            _ => {
                let payload = Payload::read(kind, inner)?;
                found.push(Located {
                    payload,
                    is_critical,
                    range: at..end,
                });
                at = end;
                kind = next;
                continue;
            }
        };
        // RFC 7296 §3.14, RFC 7383 §2.5: it is the last payload.
        r.finish("encrypted payload")?;
        let start = at + GENERIC_LEN + fragment.map_or(0, |_| FragmentNumbers::LEN);
        let sealed = Sealed {
            first: next,
            fragment,
            range: start..end,
        };
        return Ok((found, Some(sealed)));
    }
    match at == octets.len() {
        true => Ok((found, None)),
        false => Err(Malformed::Trailing("the last payload")),
    }
}

/// Writes a chain: the kind of the first payload for the header or SK, and the body. The critical
/// bit is never set: no payload of ours needs it (RFC 7296 §2.5).
///
/// Panics if a payload cannot be written: larger than 65,531 octets, more than a count field can
/// hold, a selector from an address of one family to one of the other.
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

/// The critical bit of a generic header. The other bits are reserved and ignored.
const CRITICAL: u8 = 0x80;

numbered!(PayloadKind: u8 {
    None = 0,
    SecurityAssociation = 33,
    KeyExchange = 34,
    IdentificationInitiator = 35,
    IdentificationResponder = 36,
    Certificate = 37,
    CertificateRequest = 38,
    Authentication = 39,
    Nonce = 40,
    Notify = 41,
    Delete = 42,
    VendorId = 43,
    TrafficSelectorsInitiator = 44,
    TrafficSelectorsResponder = 45,
    Encrypted = 46,
    Configuration = 47,
    Eap = 48,
    EncryptedFragment = 53,
});
