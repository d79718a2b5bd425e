//! RADIUS packets (RFC 2865 §3, §5), with EAP inside (RFC 3579 §3) and Microsoft's keys (RFC 2548
//! §2.4).
//!
//! Left out: every computation with the shared secret, accounting, and attributes that we neither
//! send nor read, which are kept as octets.

#[cfg(test)]
mod tests;

use crate::codec::{Malformed, Reader, Writer};

/// Octets of a packet at most (RFC 2865 §3).
pub const MAX_LEN: usize = 4096;
/// Octets before the attributes.
pub const HEAD_LEN: usize = 20;
/// Octets of an authenticator.
pub const AUTHENTICATOR_LEN: usize = 16;
/// Octets of an attribute's type and length.
pub const ATTRIBUTE_HEAD_LEN: usize = 2;
/// Octets of an attribute's value at most.
pub const MAX_VALUE_LEN: usize = 253;

/// Codes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// 1
    AccessRequest,
    /// 2
    AccessAccept,
    /// 3
    AccessReject,
    /// 11
    AccessChallenge,
    /// Any other value.
    Other(u8),
}

/// Types of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// 1: text.
    UserName,
    /// 12: how long a packet the peer can take, a number.
    FramedMtu,
    /// 24: octets that come back with the next request.
    State,
    /// 26: a vendor's number, and its own attributes.
    VendorSpecific,
    /// 27: seconds, a number.
    SessionTimeout,
    /// 31: text.
    CallingStationId,
    /// 32: text.
    NasIdentifier,
    /// 61: a number.
    NasPortType,
    /// 79: a part of an EAP packet.
    EapMessage,
    /// 80: a MAC of the packet.
    MessageAuthenticator,
    /// Any other value.
    Other(u8),
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its type.
    pub kind: Kind,
    /// 1 to 253 octets.
    pub value: Vec<u8>,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its code.
    pub code: Code,
    /// Pairs a response with its request.
    pub id: u8,
    /// Random in a request, a hash in a response.
    pub authenticator: [u8; AUTHENTICATOR_LEN],
    /// In order.
    pub attributes: Vec<Attribute>,
}

/// The octets of the packet in a datagram. What follows is padding (RFC 2865 §3).
pub fn without_padding(datagram: &[u8]) -> Result<&[u8], Malformed> {
    let mut r = Reader::new(datagram);
    r.take(LEN_AT, "RADIUS packet")?;
    let len = usize::from(r.u16("RADIUS packet")?);
    let octets = datagram.get(..len);
    octets.ok_or(Malformed::Length("RADIUS packet"))
}

impl Packet {
    /// Reads the octets of a packet.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(octets);
        let code = Code::from(r.u8("RADIUS code")?);
        let id = r.u8("RADIUS identifier")?;
        let len = usize::from(r.u16("RADIUS length")?);
        if len != octets.len() || len > MAX_LEN {
            return Err(Malformed::Length("RADIUS packet"));
        }
        let authenticator = r.array("RADIUS authenticator")?;
        let mut attributes = Vec::new();
        while !r.is_empty() {
            attributes.push(Attribute::read(&mut r)?);
        }
        Ok(Self {
            code,
            id,
            authenticator,
            attributes,
        })
    }

    /// Writes it. Panics if a value is empty or longer than [`MAX_VALUE_LEN`], or the packet longer
    /// than [`MAX_LEN`].
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(self.code.number());
        w.u8(self.id);
        w.u16(0);
        w.bytes(&self.authenticator);
        self.attributes.iter().for_each(|it| it.write(&mut w));
        assert!(w.len() <= MAX_LEN, "a RADIUS packet");
        w.patch_u16(LEN_AT, w.len() as u16);
        w.into_vec()
    }

    /// The values of a type's attributes, in order.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &[u8]> {
        let all = self.attributes.iter();
        all.filter(move |it| it.kind == kind)
            .map(|it| &it.value[..])
    }

    /// The number in the first attribute of a type; `None` if there is none, or it is no number.
    pub fn number(&self, kind: Kind) -> Option<u32> {
        let value = self.all(kind).next()?;
        Some(u32::from_be_bytes(value.try_into().ok()?))
    }

    /// The octets of the EAP packet in it (RFC 3579 §3.1): all parts, one after the other.
    pub fn eap(&self) -> Vec<u8> {
        self.all(Kind::EapMessage).collect::<Vec<_>>().concat()
    }

    /// The first value of one of a vendor's attributes (RFC 2865 §5.26).
    pub fn of_vendor(&self, vendor: u32, kind: u8) -> Option<&[u8]> {
        let mut all = self.all(Kind::VendorSpecific);
        all.find_map(|value| {
            let mut r = Reader::new(value);
            if r.u32("vendor").ok()? != vendor {
                return None;
            }
            while !r.is_empty() {
                let found = r.u8("vendor's type").ok()?;
                let len = usize::from(r.u8("vendor's length").ok()?);
                let len = len.checked_sub(ATTRIBUTE_HEAD_LEN)?;
                let value = r.take(len, "vendor's value").ok()?;
                if found == kind {
                    return Some(value);
                }
            }
            None
        })
    }
}

impl Attribute {
    /// A number.
    pub fn of_number(kind: Kind, number: u32) -> Self {
        let value = number.to_be_bytes().to_vec();
        Self { kind, value }
    }

    /// Octets, cut after [`MAX_VALUE_LEN`]. `None` if there are none (RFC 2865 §5).
    pub fn of_octets(kind: Kind, octets: &[u8]) -> Option<Self> {
        let value = octets[..octets.len().min(MAX_VALUE_LEN)].to_vec();
        (!value.is_empty()).then_some(Self { kind, value })
    }

    /// The parts of an EAP packet.
    pub fn of_eap(packet: &[u8]) -> impl Iterator<Item = Self> {
        let parts = packet.chunks(MAX_VALUE_LEN);
        parts.filter_map(|part| Self::of_octets(Kind::EapMessage, part))
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = Kind::from(r.u8("RADIUS attribute")?);
        let len = usize::from(r.u8("RADIUS attribute")?);
        let len = len.checked_sub(ATTRIBUTE_HEAD_LEN).filter(|len| *len > 0);
        let len = len.ok_or(Malformed::Length("RADIUS attribute"))?;
        let value = r.take(len, "RADIUS attribute")?.to_vec();
        Ok(Self { kind, value })
    }

    fn write(&self, w: &mut Writer) {
        let len = self.value.len();
        assert!((1..=MAX_VALUE_LEN).contains(&len), "an attribute's value");
        w.u8(self.kind.number());
        w.u8((len + ATTRIBUTE_HEAD_LEN) as u8);
        w.bytes(&self.value);
    }
}

/// Microsoft's number (RFC 2548 §2).
pub const MICROSOFT: u32 = 311;
/// MS-MPPE-Send-Key (RFC 2548 §2.4.2).
pub const MPPE_SEND_KEY: u8 = 16;
/// MS-MPPE-Recv-Key (RFC 2548 §2.4.3).
pub const MPPE_RECV_KEY: u8 = 17;
/// NAS-Port-Type "Virtual" (RFC 2865 §5.41).
pub const VIRTUAL_PORT: u32 = 5;

/// Where a packet has its length.
const LEN_AT: usize = 2;

numbered!(Code: u8 {
    AccessRequest = 1,
    AccessAccept = 2,
    AccessReject = 3,
    AccessChallenge = 11,
});

numbered!(Kind: u8 {
    UserName = 1,
    FramedMtu = 12,
    State = 24,
    VendorSpecific = 26,
    SessionTimeout = 27,
    CallingStationId = 31,
    NasIdentifier = 32,
    NasPortType = 61,
    EapMessage = 79,
    MessageAuthenticator = 80,
});
