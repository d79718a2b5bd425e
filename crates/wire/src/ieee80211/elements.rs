//! Elements (IEEE 802.11-2020 §9.4.2): an identifier, a length, a body.

use crate::codec::{Malformed, Reader, Writer};

/// Identifiers of elements.
pub mod element_id {
    /// The network's name.
    pub const SSID: u8 = 0;
    /// Supported rates.
    pub const RATES: u8 = 1;
    /// RSN.
    pub const RSN: u8 = 48;
    /// A timeout.
    pub const TIMEOUT_INTERVAL: u8 = 56;
    /// The supported rates from the ninth on.
    pub const EXTENDED_RATES: u8 = 50;
    /// Vendor specific: key data encapsulations, and WPA of 2003.
    pub const VENDOR: u8 = 221;
    /// An element whose first octet extends the identifier, see [`super::extension`].
    pub const EXTENSION: u8 = 255;
}

/// Extensions of [`element_id::EXTENSION`].
pub mod extension {
    /// A Diffie-Hellman public value of OWE (RFC 8110 §4.3).
    pub const DIFFIE_HELLMAN: u8 = 32;
    /// The token of SAE with hash-to-element.
    pub const ANTI_CLOGGING_TOKEN: u8 = 93;
}

/// An element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// See [`element_id`].
    pub id: u8,
    /// What is in it.
    pub body: &'a [u8],
}

impl<'a> Element<'a> {
    /// Reads one.
    pub fn read(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let id = r.u8("element identifier")?;
        let len = r.u8("element length")?;
        Ok(Self {
            id,
            body: r.take(len.into(), "element")?,
        })
    }

    /// Appends it. Panics if the body has more than 255 octets.
    pub fn write(&self, w: &mut Writer) {
        w.u8(self.id);
        w.u8(u8::try_from(self.body.len()).expect("an element of 255 octets"));
        w.bytes(self.body);
    }

    /// The extension and its body, if the element is one.
    pub fn extended(&self) -> Option<(u8, &'a [u8])> {
        let (extension, body) = self.body.split_first()?;
        (self.id == element_id::EXTENSION).then_some((*extension, body))
    }
}

/// Appends an extended element. Panics if the body has more than 254 octets.
pub fn write_extension(extension: u8, body: &[u8], w: &mut Writer) {
    w.u8(element_id::EXTENSION);
    w.u8(u8::try_from(body.len() + 1).expect("an element of 255 octets"));
    w.u8(extension);
    w.bytes(body);
}

/// Reads elements up to the end, or to the first that is malformed.
pub struct Elements<'a>(Reader<'a>);

impl<'a> Elements<'a> {
    /// Starts at the first.
    pub fn new(octets: &'a [u8]) -> Self {
        Self(Reader::new(octets))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let element = Element::read(&mut self.0);
        if element.is_err() {
            self.0.rest();
        }
        Some(element)
    }
}
