//! The EAPOL header (IEEE 802.1X-2020 §11.3).

use crate::codec::{Malformed, Reader, Writer};

/// The Ethernet type of EAPOL.
pub const ETHERTYPE_EAPOL: u16 = 0x888e;
/// Octets of the header.
pub const EAPOL_LEN: usize = 4;

/// What an EAPOL packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of IEEE 802.1X")]
pub enum PacketType {
    Eap,
    Start,
    Logoff,
    Key,
    Other(u8),
}

numbered!(PacketType: u8 { Eap = 0, Start = 1, Logoff = 2, Key = 3 });

/// An EAPOL packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eapol<'a> {
    /// Version: 1 of 2001, 2 of 2004, 3 of 2010. Receivers ignore it.
    pub version: u8,
    /// What the body is.
    pub kind: PacketType,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Eapol<'a> {
    /// Reads a packet. Octets behind its length are the padding of Ethernet and are ignored.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(packet);
        let version = r.u8("EAPOL version")?;
        let kind = r.u8("EAPOL type")?.into();
        let len = r.u16("EAPOL length")?;
        Ok(Self {
            version,
            kind,
            body: r.take(len.into(), "EAPOL body")?,
        })
    }

    /// Appends the packet. Panics if the body has more than 65,535 octets.
    pub fn write(&self, w: &mut Writer) {
        w.u8(self.version);
        w.u8(self.kind.number());
        w.u16(u16::try_from(self.body.len()).expect("an EAPOL body of 16 bits"));
        w.bytes(self.body);
    }
}
