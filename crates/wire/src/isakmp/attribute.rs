//! Data attributes, fixed (AF = 1) and variable (RFC 2408 §3.3).

/// A data attribute: type (without the AF bit) and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Attribute type, 15 bits.
    pub kind: u16,
    /// Its value.
    pub value: AttributeValue,
}

/// A value as it stood on the wire; [`AttributeValue::number`] reads either form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Two octets in place of the length.
    Short(u16),
    /// A length, then this many octets.
    Long(Vec<u8>),
}
