//! The security association payload: proposals and transforms (RFC 7296 §3.3).

use super::{Attribute, transform};
use crate::codec::{Malformed, Reader, Writer};

/// Proposals that one SA payload may hold.
pub const MAX_PROPOSALS: usize = 64;
/// Transforms that one proposal may hold: more than any client is known to send.
pub const MAX_TRANSFORMS: usize = 128;

/// Protocol IDs (RFC 7296 §3.3.1, §3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// 0: a notification that belongs to no SA of another protocol.
    None,
    /// 1: IKE.
    Ike,
    /// 2: AH.
    Ah,
    /// 3: ESP.
    Esp,
    /// Any other value.
    Other(u8),
}

/// A proposal. Of the transforms of one type, one is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Proposal number, from 1. An answer repeats that of the chosen proposal.
    pub number: u8,
    /// The protocol that is proposed.
    pub protocol: Protocol,
    /// The sender's SPI: 4 octets for AH and ESP, 8 for a rekeyed IKE SA, none for a first one.
    pub spi: Vec<u8>,
    /// In order of preference among those of one type. A proposal without any is well-formed; no
    /// policy matches it.
    pub transforms: Vec<Transform>,
}

/// Transform types (RFC 7296 §3.3.2, RFC 9370 §2.2.1, RFC 9827 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransformType {
    /// 1: ENCR.
    Encryption,
    /// 2: PRF.
    Prf,
    /// 3: INTEG.
    Integrity,
    /// 4: KE.
    KeyExchange,
    /// 5: SN, called ESN before RFC 9827.
    SequenceNumbers,
    /// 6: ADDKE1.
    AdditionalKeyExchange1,
    /// 7: ADDKE2.
    AdditionalKeyExchange2,
    /// 8: ADDKE3.
    AdditionalKeyExchange3,
    /// 9: ADDKE4.
    AdditionalKeyExchange4,
    /// 10: ADDKE5.
    AdditionalKeyExchange5,
    /// 11: ADDKE6.
    AdditionalKeyExchange6,
    /// 12: ADDKE7.
    AdditionalKeyExchange7,
    /// Any other value. A proposal with one cannot be chosen (RFC 7296 §3.3.6).
    Other(u8),
}

/// A transform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    /// What it is for.
    pub kind: TransformType,
    /// Which algorithm: the numbers are in [`super::transform`].
    pub id: u16,
    /// Attributes, in the order sent. A transform with an unknown one cannot be chosen (RFC 7296
    /// §3.3.6).
    pub attributes: Vec<Attribute>,
}

impl TransformType {
    /// The additional key exchanges, in order of execution (RFC 9370 §2.2.1).
    pub const ADDITIONAL_KEY_EXCHANGES: [Self; 7] = [
        Self::AdditionalKeyExchange1,
        Self::AdditionalKeyExchange2,
        Self::AdditionalKeyExchange3,
        Self::AdditionalKeyExchange4,
        Self::AdditionalKeyExchange5,
        Self::AdditionalKeyExchange6,
        Self::AdditionalKeyExchange7,
    ];
}

impl Proposal {
    /// Proposals to the end of an SA payload: at least one.
    pub(super) fn read_all(r: &mut Reader<'_>) -> Result<Vec<Self>, Malformed> {
        let mut proposals = Vec::new();
        loop {
            if proposals.len() == MAX_PROPOSALS {
                return Err(Malformed::TooMany("proposals"));
            }
            let (has_more, body) = read_substructure(r, MORE_PROPOSALS, "proposal")?;
            proposals.push(Self::read(body)?);
            if !has_more {
                return Ok(proposals);
            }
        }
    }

    /// Panics without a proposal.
    pub(super) fn write_all(proposals: &[Self], w: &mut Writer) {
        assert!(!proposals.is_empty(), "an SA payload has a proposal");
        for (i, proposal) in proposals.iter().enumerate() {
            let has_more = i + 1 < proposals.len();
            write_substructure(w, MORE_PROPOSALS, has_more, |w| proposal.write(w));
        }
    }

    fn read(mut r: Reader<'_>) -> Result<Self, Malformed> {
        let number = r.u8("proposal number")?;
        let protocol = r.u8("proposal protocol")?.into();
        let spi_len = r.u8("proposal SPI size")?;
        let count = usize::from(r.u8("number of transforms")?);
        let spi = r.take(spi_len.into(), "proposal SPI")?.to_vec();
        if count > MAX_TRANSFORMS {
            return Err(Malformed::TooMany("transforms"));
        }
        let mut transforms = Vec::with_capacity(count);
        for at in 1..=count {
            let (has_more, body) = read_substructure(&mut r, MORE_TRANSFORMS, "transform")?;
            if has_more != (at < count) {
                return Err(Malformed::Length("proposal: number of transforms"));
            }
            transforms.push(Transform::read(body)?);
        }
        r.finish("proposal")?;
        Ok(Self {
            number,
            protocol,
            spi,
            transforms,
        })
    }

    fn write(&self, w: &mut Writer) {
        assert!(self.transforms.len() <= MAX_TRANSFORMS, "too many");
        w.u8(self.number);
        w.u8(self.protocol.number());
        w.u8(u8::try_from(self.spi.len()).expect("SPI of at most 255 octets"));
        w.u8(self.transforms.len() as u8);
        w.bytes(&self.spi);
        for (i, transform) in self.transforms.iter().enumerate() {
            let has_more = i + 1 < self.transforms.len();
            write_substructure(w, MORE_TRANSFORMS, has_more, |w| transform.write(w));
        }
    }

    /// The transforms of one type, in order of preference.
    pub fn transforms_of(&self, kind: TransformType) -> impl Iterator<Item = &Transform> {
        self.transforms.iter().filter(move |one| one.kind == kind)
    }
}

impl Transform {
    /// A transform without attributes.
    pub const fn new(kind: TransformType, id: u16) -> Self {
        Self {
            kind,
            id,
            attributes: Vec::new(),
        }
    }

    /// A cipher with a choice of key lengths.
    pub fn with_key_length(id: u16, bits: u16) -> Self {
        Self {
            attributes: vec![Attribute::short(transform::KEY_LENGTH, bits)],
            ..Self::new(TransformType::Encryption, id)
        }
    }

    /// Bits of the key, if the attribute is there, once, in its only form, and alone. `Err` if the
    /// attributes are anything else than nothing or that: the transform cannot be chosen (RFC 7296
    /// §3.3.6).
    pub fn key_length(&self) -> Result<Option<u16>, Malformed> {
        match self.attributes.as_slice() {
            [] => Ok(None),
            [
                Attribute {
                    kind: transform::KEY_LENGTH,
                    value: super::AttributeValue::Short(bits),
                },
            ] => Ok(Some(*bits)),
            _ => Err(Malformed::Value("transform attribute")),
        }
    }

    fn read(mut r: Reader<'_>) -> Result<Self, Malformed> {
        let kind = r.u8("transform type")?.into();
        r.u8("reserved octet")?;
        let id = r.u16("transform ID")?;
        let attributes = Attribute::read_all(&mut r)?;
        Ok(Self {
            kind,
            id,
            attributes,
        })
    }

    fn write(&self, w: &mut Writer) {
        w.u8(self.kind.number());
        w.u8(0);
        w.u16(self.id);
        Attribute::write_all(&self.attributes, w);
    }
}

/// Reads the common start of proposals and transforms. Its first octet is `more` or zero. Returns
/// whether another one follows, and the body.
fn read_substructure<'a>(
    r: &mut Reader<'a>,
    more: u8,
    what: &'static str,
) -> Result<(bool, Reader<'a>), Malformed> {
    let next = r.u8(what)?;
    if next != more && next != 0 {
        return Err(Malformed::Value("substructure"));
    }
    r.u8("reserved octet")?;
    let len = usize::from(r.u16(what)?);
    let body_len = len.checked_sub(4).ok_or(Malformed::Length(what))?;
    Ok((next == more, r.sub(body_len, what)?))
}

fn write_substructure(w: &mut Writer, more: u8, has_more: bool, body: impl FnOnce(&mut Writer)) {
    let start = w.len();
    w.u8(if has_more { more } else { 0 });
    w.u8(0);
    w.u16(0);
    body(w);
    let len = u16::try_from(w.len() - start).expect("substructure below 64 KiB");
    w.patch_u16(start + 2, len);
}

/// First octet of a proposal that another one follows.
const MORE_PROPOSALS: u8 = 2;
/// First octet of a transform that another one follows.
const MORE_TRANSFORMS: u8 = 3;

numbered!(Protocol: u8 { None = 0, Ike = 1, Ah = 2, Esp = 3 });

numbered!(TransformType: u8 {
    Encryption = 1,
    Prf = 2,
    Integrity = 3,
    KeyExchange = 4,
    SequenceNumbers = 5,
    AdditionalKeyExchange1 = 6,
    AdditionalKeyExchange2 = 7,
    AdditionalKeyExchange3 = 8,
    AdditionalKeyExchange4 = 9,
    AdditionalKeyExchange5 = 10,
    AdditionalKeyExchange6 = 11,
    AdditionalKeyExchange7 = 12,
});
