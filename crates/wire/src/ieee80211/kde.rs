//! Key data of EAPOL-Key frames: elements and key data encapsulations, KDEs (IEEE 802.11-2020
//! §12.7.2).

use super::elements::{Element, Elements, element_id};
use crate::codec::{Malformed, Reader, Writer};

/// A group key as it is given to stations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gtk<'a> {
    /// Which key, 0 to 3.
    pub key_id: u8,
    /// The key.
    pub key: &'a [u8],
}

/// One part of key data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeyDatum<'a> {
    /// A group key.
    Gtk(Gtk<'a>),
    /// The name of a pairwise master key.
    Pmkid([u8; 16]),
    /// An element, such as RSN, or a KDE of another type.
    Element(Element<'a>),
}

const OUI: [u8; 3] = [0x00, 0x0f, 0xac];
const GTK: u8 = 1;
const PMKID: u8 = 4;

/// Reads key data up to the end, to the padding, or to the first malformed part.
pub struct KeyData<'a>(Elements<'a>);

impl<'a> KeyData<'a> {
    /// Starts at the first part.
    pub fn new(octets: &'a [u8]) -> Self {
        Self(Elements::new(octets))
    }
}

impl<'a> Iterator for KeyData<'a> {
    type Item = Result<KeyDatum<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let element = match self.0.next()? {
            Ok(element) => element,
            // The padding is one octet of 0xdd and zeros. One octet alone is no element.
            Err(Malformed::Truncated("element length")) => return None,
            Err(malformed) => return Some(Err(malformed)),
        };
        if element.id == element_id::VENDOR && element.body.is_empty() {
            return None;
        }
        Some(KeyDatum::of(element))
    }
}

impl<'a> KeyDatum<'a> {
    fn of(element: Element<'a>) -> Result<Self, Malformed> {
        let mut r = Reader::new(element.body);
        let other = Ok(Self::Element(element));
        if element.id != element_id::VENDOR || r.array("OUI") != Ok(OUI) {
            return other;
        }
        let datum = match r.u8("KDE type")? {
            GTK => {
                let [flags, _] = r.array("GTK KDE")?;
                Self::Gtk(Gtk {
                    key_id: flags & 3,
                    key: r.rest(),
                })
            }
            PMKID => Self::Pmkid(r.array("PMKID KDE")?),
            _ => return other,
        };
        r.finish("KDE")?;
        Ok(datum)
    }
}

/// Appends a GTK KDE. Panics if the key has more than 249 octets.
pub fn write_gtk(gtk: &Gtk<'_>, w: &mut Writer) {
    write_kde(GTK, gtk.key.len() + 2, w);
    w.bytes(&[gtk.key_id & 3, 0]);
    w.bytes(gtk.key);
}

/// Appends a PMKID KDE.
pub fn write_pmkid(pmkid: &[u8; 16], w: &mut Writer) {
    write_kde(PMKID, 16, w);
    w.bytes(pmkid);
}

/// Pads key data for AES key wrap: to whole blocks of 8 octets, and to at least two.
pub fn pad_key_data(w: &mut Writer) {
    let end = w.len().next_multiple_of(8).max(16);
    if w.len() < end {
        w.u8(element_id::VENDOR);
    }
    while w.len() < end {
        w.u8(0);
    }
}

fn write_kde(kind: u8, len: usize, w: &mut Writer) {
    w.u8(element_id::VENDOR);
    w.u8(u8::try_from(len + 4).expect("a KDE of 255 octets"));
    w.bytes(&OUI);
    w.u8(kind);
}
