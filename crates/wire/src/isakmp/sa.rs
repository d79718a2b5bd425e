//! The security association payload and its nested payloads (RFC 2408 §3.4 to §3.6, RFC 2407
//! §4.6.1).

use super::Attribute;
use crate::codec::{Malformed, Reader, Writer};

/// Proposals that one SA payload may hold.
pub const MAX_PROPOSALS: usize = 64;

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
    /// In order of preference. Equal numbers belong together (AND); different ones are
    /// alternatives.
    pub proposals: Vec<Proposal>,
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Proposal number.
    pub number: u8,
    /// The protocol that protects the traffic.
    pub protocol: ProtocolId,
    /// The sender's SPI: empty in phase 1 (8 octets of cookie are read and ignored), otherwise 4
    /// octets.
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

impl SaPayload {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if r.u32("domain of interpretation")? != DOI_IPSEC {
            return Err(Malformed::Value("domain of interpretation"));
        }
        if r.u32("situation")? != SIT_IDENTITY_ONLY {
            return Err(Malformed::Value("situation"));
        }
        let mut proposals = Vec::new();
        loop {
            if proposals.len() == MAX_PROPOSALS {
                return Err(Malformed::TooMany("proposals"));
            }
            let (has_more, mut body) = read_nested(r, PROPOSAL, "proposal")?;
            proposals.push(Proposal::read(&mut body)?);
            if !has_more {
                return Ok(Self { proposals });
            }
        }
    }

    /// Panics without a proposal, and if a proposal has no transform.
    pub(super) fn write(&self, w: &mut Writer) {
        assert!(!self.proposals.is_empty(), "an SA payload has a proposal");
        w.u32(DOI_IPSEC);
        w.u32(SIT_IDENTITY_ONLY);
        for (i, proposal) in self.proposals.iter().enumerate() {
            let has_more = i + 1 < self.proposals.len();
            write_nested(w, PROPOSAL, has_more, |w| proposal.write(w));
        }
    }
}

impl Proposal {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let number = r.u8("proposal number")?;
        let protocol = ProtocolId::from(r.u8("proposal protocol")?);
        let spi_len = r.u8("proposal SPI size")?;
        let count = usize::from(r.u8("number of transforms")?);
        let spi = r.take(spi_len.into(), "proposal SPI")?;
        // RFC 2408 §3.5: the SPI of an ISAKMP proposal is the cookie and may be ignored.
        let spi = if protocol == ProtocolId::Isakmp {
            &[]
        } else {
            spi
        };
        let mut transforms = Vec::with_capacity(count);
        loop {
            let (has_more, mut body) = read_nested(r, TRANSFORM, "transform")?;
            transforms.push(Transform::read(&mut body)?);
            if transforms.len() > count {
                return Err(Malformed::Length("proposal: number of transforms"));
            }
            if !has_more {
                break;
            }
        }
        if !r.is_empty() {
            return Err(Malformed::Trailing("proposal"));
        }
        if transforms.len() != count {
            return Err(Malformed::Length("proposal: number of transforms"));
        }
        Ok(Self {
            number,
            protocol,
            spi: spi.to_vec(),
            transforms,
        })
    }

    fn write(&self, w: &mut Writer) {
        assert!(!self.transforms.is_empty(), "a proposal has a transform");
        w.u8(self.number);
        w.u8(self.protocol.number());
        w.u8(u8::try_from(self.spi.len()).expect("SPI of at most 255 octets"));
        w.u8(u8::try_from(self.transforms.len()).expect("at most 255 transforms"));
        w.bytes(&self.spi);
        for (i, transform) in self.transforms.iter().enumerate() {
            let has_more = i + 1 < self.transforms.len();
            write_nested(w, TRANSFORM, has_more, |w| transform.write(w));
        }
    }
}

impl Transform {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let number = r.u8("transform number")?;
        let id = r.u8("transform identifier")?;
        r.u16("reserved octets")?;
        Ok(Self {
            number,
            id,
            attributes: Attribute::read_all(r)?,
        })
    }

    fn write(&self, w: &mut Writer) {
        w.u8(self.number);
        w.u8(self.id);
        w.u16(0);
        Attribute::write_all(&self.attributes, w);
    }

    /// The first attribute of type `kind`, as a number if it is one.
    pub fn number_of(&self, kind: u16) -> Option<u64> {
        self.attributes
            .iter()
            .find(|attribute| attribute.kind == kind)
            .and_then(|attribute| attribute.value.number())
    }
}

/// Reads a generic header whose next-payload field is `kind` or zero. Returns whether another one
/// follows, and the body.
fn read_nested<'a>(
    r: &mut Reader<'a>,
    kind: u8,
    what: &'static str,
) -> Result<(bool, Reader<'a>), Malformed> {
    let next = r.u8(what)?;
    if next != kind && next != 0 {
        return Err(Malformed::Value("nested next payload"));
    }
    if r.u8(what)? != 0 {
        return Err(Malformed::Value("reserved octet"));
    }
    let len = usize::from(r.u16(what)?);
    let body_len = len.checked_sub(4).ok_or(Malformed::Length(what))?;
    Ok((next == kind, r.sub(body_len, what)?))
}

fn write_nested(w: &mut Writer, kind: u8, has_more: bool, body: impl FnOnce(&mut Writer)) {
    let start = w.len();
    w.u8(if has_more { kind } else { 0 });
    w.u8(0);
    w.u16(0);
    body(w);
    let len = u16::try_from(w.len() - start).expect("nested payload below 64 KiB");
    w.patch_u16(start + 2, len);
}

numbered!(ProtocolId: u8 { Isakmp = 1, Ah = 2, Esp = 3 });

/// RFC 2407 §4.2: the IPsec domain of interpretation.
pub(super) const DOI_IPSEC: u32 = 1;
/// RFC 2407 §4.2.1.
const SIT_IDENTITY_ONLY: u32 = 1;
/// Payload type of a proposal.
const PROPOSAL: u8 = 2;
/// Payload type of a transform.
const TRANSFORM: u8 = 3;
