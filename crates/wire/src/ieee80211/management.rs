//! The bodies of management frames by which a station finds an access point, joins it and leaves
//! it (IEEE 802.11-2020 §9.3.3). What is in elements is for their readers.

use super::elements::{Element, Elements, element_id, extension, write_extension};
use crate::codec::{Malformed, Reader, Writer};

/// The authentication algorithm number that proves nothing.
pub const OPEN_ALGORITHM: u16 = 0;

/// Bits of the capability information field (§9.4.1.4).
pub mod capability {
    /// An infrastructure network.
    pub const ESS: u16 = 0x0001;
    /// Data are protected.
    pub const PRIVACY: u16 = 0x0010;
}

/// Why an access point refuses (§9.4.1.9).
pub mod status {
    /// It does not.
    pub const SUCCESS: u16 = 0;
    /// For no reason of this list.
    pub const UNSPECIFIED: u16 = 1;
    /// It has no room for another station.
    pub const NO_ROOM: u16 = 17;
    /// The station may ask again after a time, see [`super::write_comeback`].
    pub const REFUSED_TEMPORARILY: u16 = 30;
    /// The group cipher is not its own.
    pub const INVALID_GROUP_CIPHER: u16 = 41;
    /// The pairwise cipher is not one of its own.
    pub const INVALID_PAIRWISE_CIPHER: u16 = 42;
    /// The key management is not one of its own.
    pub const INVALID_AKM: u16 = 43;
    /// An element is missing or wrong.
    pub const INVALID_ELEMENT: u16 = 40;
    /// The group of a Diffie-Hellman exchange is not one of its own.
    pub const UNSUPPORTED_GROUP: u16 = 77;
}

/// Why one end leaves the other (§9.4.1.7).
pub mod reason {
    /// The station goes, or the access point ends.
    pub const LEAVING: u16 = 3;
    /// The station was silent for too long.
    pub const INACTIVITY: u16 = 4;
    /// The access point has no room for all its stations.
    pub const NO_ROOM: u16 = 5;
    /// An association request of a station that has not authenticated.
    pub const NOT_AUTHENTICATED: u16 = 6;
    /// Data of a station that has not joined.
    pub const NOT_ASSOCIATED: u16 = 7;
    /// Wrong MICs of TKIP.
    pub const MIC_FAILURE: u16 = 14;
    /// The handshake was not completed.
    pub const HANDSHAKE_TIMEOUT: u16 = 15;
    /// The handshake of a new group key was not completed.
    pub const GROUP_HANDSHAKE_TIMEOUT: u16 = 16;
    /// The handshake had other elements than the association.
    pub const OTHER_ELEMENT: u16 = 17;
}

/// The body of a probe response, and of a beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beacon<'a> {
    /// Microseconds since the access point began.
    pub timestamp: u64,
    /// Time units of 1024 us between beacons.
    pub interval: u16,
    /// See [`capability`].
    pub capabilities: u16,
    /// The elements.
    pub elements: &'a [u8],
}

/// The body of an association request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssociationRequest<'a> {
    /// See [`capability`].
    pub capabilities: u16,
    /// Beacons between two at which a sleeping station listens.
    pub listen_interval: u16,
    /// The elements.
    pub elements: &'a [u8],
}

/// The body of an association response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssociationResponse<'a> {
    /// See [`capability`].
    pub capabilities: u16,
    /// See [`status`].
    pub status: u16,
    /// The station's number, 1 to 2007.
    pub association_id: u16,
    /// The elements.
    pub elements: &'a [u8],
}

/// Two bits that are always set in an association identifier on the wire (§9.4.1.8).
const ASSOCIATION_ID_BITS: u16 = 0xc000;

impl<'a> Beacon<'a> {
    /// Reads a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        Ok(Self {
            timestamp: u64::from_le_bytes(r.array("timestamp")?),
            interval: r.u16_le("beacon interval")?,
            capabilities: r.u16_le("capabilities")?,
            elements: r.rest(),
        })
    }

    /// Appends the body.
    pub fn write(&self, w: &mut Writer) {
        w.bytes(&self.timestamp.to_le_bytes());
        w.u16_le(self.interval);
        w.u16_le(self.capabilities);
        w.bytes(self.elements);
    }
}

impl<'a> AssociationRequest<'a> {
    /// Reads a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        Ok(Self {
            capabilities: r.u16_le("capabilities")?,
            listen_interval: r.u16_le("listen interval")?,
            elements: r.rest(),
        })
    }

    /// Appends the body.
    pub fn write(&self, w: &mut Writer) {
        w.u16_le(self.capabilities);
        w.u16_le(self.listen_interval);
        w.bytes(self.elements);
    }
}

impl<'a> AssociationResponse<'a> {
    /// Reads a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        Ok(Self {
            capabilities: r.u16_le("capabilities")?,
            status: r.u16_le("status code")?,
            association_id: r.u16_le("association identifier")? & !ASSOCIATION_ID_BITS,
            elements: r.rest(),
        })
    }

    /// Appends the body.
    pub fn write(&self, w: &mut Writer) {
        w.u16_le(self.capabilities);
        w.u16_le(self.status);
        w.u16_le(self.association_id | ASSOCIATION_ID_BITS);
        w.bytes(self.elements);
    }
}

/// The reason in the body of a deauthentication or disassociation.
pub fn read_reason(body: &[u8]) -> Result<u16, Malformed> {
    Reader::new(body).u16_le("reason code")
}

/// The first element of this kind, with the two octets before its body.
pub fn find_element(elements: &[u8], id: u8) -> Option<&[u8]> {
    let mut at = 0;
    for element in Elements::new(elements) {
        let element = element.ok()?;
        let end = at + 2 + element.body.len();
        if element.id == id {
            return elements.get(at..end);
        }
        at = end;
    }
    None
}

/// The body of the first extended element of this kind.
pub fn find_extension(elements: &[u8], kind: u8) -> Option<&[u8]> {
    let found = Elements::new(elements).map_while(Result::ok);
    let mut extended = found.filter_map(|element| element.extended());
    extended
        .find(|(found, _)| *found == kind)
        .map(|(_, body)| body)
}

/// Appends the name of a network. Panics if it has more than 32 octets.
pub fn write_ssid(ssid: &[u8], w: &mut Writer) {
    assert!(ssid.len() <= 32, "a name of 32 octets");
    let (id, body) = (element_id::SSID, ssid);
    Element { id, body }.write(w);
}

/// Appends the rates of 802.11g, those of 802.11b basic: the first eight, and the others in an
/// element of their own.
pub fn write_rates(w: &mut Writer) {
    const BASIC: u8 = 0x80;
    // In units of 500 kbit/s.
    let rates = [
        BASIC | 2,
        BASIC | 4,
        BASIC | 11,
        BASIC | 22,
        12,
        18,
        24,
        36,
        48,
        72,
        96,
        108,
    ];
    let (first, others) = rates.split_at(8);
    for (id, body) in [
        (element_id::RATES, first),
        (element_id::EXTENDED_RATES, others),
    ] {
        Element { id, body }.write(w);
    }
}

/// The type of a timeout interval after which a station may ask for association again (§9.4.2.48).
const COMEBACK: u8 = 3;

/// Appends the time units after which a station may ask for association again.
pub fn write_comeback(time_units: u32, w: &mut Writer) {
    let [a, b, c, d] = time_units.to_le_bytes();
    let (id, body) = (element_id::TIMEOUT_INTERVAL, &[COMEBACK, a, b, c, d]);
    Element { id, body }.write(w);
}

/// The time units after which a station may ask for association again.
pub fn read_comeback(elements: &[u8]) -> Option<u32> {
    match find_element(elements, element_id::TIMEOUT_INTERVAL)? {
        [_, _, COMEBACK, a, b, c, d] => Some(u32::from_le_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

/// Appends the Diffie-Hellman parameter element of OWE.
pub fn write_diffie_hellman(body: &[u8], w: &mut Writer) {
    write_extension(extension::DIFFIE_HELLMAN, body, w);
}
