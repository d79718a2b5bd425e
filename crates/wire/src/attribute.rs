//! Data attributes, fixed (AF = 1) and variable (RFC 2408 §3.3, RFC 7296 §3.3.5).

use crate::codec::{Malformed, Reader, Writer};

/// Attributes that one transform or one mode config payload may hold.
pub const MAX_ATTRIBUTES: usize = 256;

/// A data attribute: type (without the AF bit) and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Attribute type, 15 bits.
    pub kind: u16,
    /// Its value.
    pub value: AttributeValue,
}

/// A value in its form on the wire; [`AttributeValue::number`] reads either form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Two octets in place of the length.
    Short(u16),
    /// A length, then this many octets.
    Long(Vec<u8>),
}

impl Attribute {
    /// The fixed form, `kind` below 2^15.
    pub const fn short(kind: u16, value: u16) -> Self {
        Self {
            kind,
            value: AttributeValue::Short(value),
        }
    }

    /// The variable form, `kind` below 2^15.
    pub fn long(kind: u16, value: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            value: AttributeValue::Long(value.into()),
        }
    }

    /// A number in the form of RFC 2409 appendix A and RFC 2407 §4.5: fixed if it fits in two
    /// octets, otherwise variable with four.
    pub fn number(kind: u16, value: u32) -> Self {
        match u16::try_from(value) {
            Ok(short) => Self::short(kind, short),
            Err(_) => Self::long(kind, value.to_be_bytes()),
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = r.u16("attribute type")?;
        let value = r.u16("attribute length or value")?;
        if kind & FIXED != 0 {
            return Ok(Self::short(kind & !FIXED, value));
        }
        Ok(Self::long(kind, r.take(value.into(), "attribute value")?))
    }

    fn write(&self, w: &mut Writer) {
        assert!(self.kind & FIXED == 0, "attribute types have 15 bits");
        match &self.value {
            AttributeValue::Short(value) => {
                w.u16(self.kind | FIXED);
                w.u16(*value);
            }
            AttributeValue::Long(value) => {
                w.u16(self.kind);
                w.u16(u16::try_from(value.len()).expect("attribute value below 64 KiB"));
                w.bytes(value);
            }
        }
    }

    /// Attributes up to the end of `r`.
    pub fn read_all(r: &mut Reader<'_>) -> Result<Vec<Self>, Malformed> {
        Self::read_until(r, |r| r.is_empty())
    }

    /// Attributes until this is their end.
    pub(super) fn read_until(
        r: &mut Reader<'_>,
        is_end: impl Fn(&Reader<'_>) -> bool,
    ) -> Result<Vec<Self>, Malformed> {
        let mut attributes = Vec::new();
        while !is_end(r) {
            if attributes.len() == MAX_ATTRIBUTES {
                return Err(Malformed::TooMany("attributes"));
            }
            attributes.push(Self::read(r)?);
        }
        Ok(attributes)
    }

    /// Attributes one after the other.
    pub fn write_all(attributes: &[Self], w: &mut Writer) {
        for attribute in attributes {
            attribute.write(w);
        }
    }
}

impl AttributeValue {
    /// The value as a number: the fixed form, or a variable one of 1 to 8 octets, big-endian.
    /// Longer values are refused, even with leading zeros.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Short(value) => Some((*value).into()),
            Self::Long(octets) if (1..=8).contains(&octets.len()) => {
                Some(octets.iter().fold(0, |n, octet| n << 8 | u64::from(*octet)))
            }
            Self::Long(_) => None,
        }
    }

    /// The octets of the value in either form.
    pub fn octets(&self) -> Vec<u8> {
        match self {
            Self::Short(value) => value.to_be_bytes().to_vec(),
            Self::Long(octets) => octets.clone(),
        }
    }
}

/// The AF bit.
const FIXED: u16 = 0x8000;
