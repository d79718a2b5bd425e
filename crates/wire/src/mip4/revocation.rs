//! Registration Revocation and its acknowledgment (RFC 3543 §3.3, §3.4).

use std::net::Ipv4Addr;

use crate::codec::{Malformed, Reader, Writer};

/// Ends a registration before its lifetime does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// A: whether a home agent sends it. Tells a reflected message from the peer's.
    pub is_from_home_agent: bool,
    /// I: whether the mobile node shall be told.
    pub informs: bool,
    /// Whose registration ends.
    pub home_address: Ipv4Addr,
    /// The home agent of the binding.
    pub home_domain: Ipv4Addr,
    /// The foreign agent or the co-located care-of address of the binding.
    pub foreign_domain: Ipv4Addr,
    /// The sender's clock, in seconds. Protects from replays.
    pub identifier: u32,
}

/// The answer to a [`Revocation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevocationAcknowledgment {
    /// I: from a foreign agent, whether the mobile node was told.
    pub informs: bool,
    /// As in the revocation.
    pub home_address: Ipv4Addr,
    /// As in the revocation.
    pub identifier: u32,
}

impl Revocation {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.u8("reserved octet")?;
        let flags = r.u16("revocation flags")?;
        Ok(Self {
            is_from_home_agent: flags & AGENT != 0,
            informs: flags & INFORM != 0,
            home_address: r.array("home address")?.into(),
            home_domain: r.array("home domain address")?.into(),
            foreign_domain: r.array("foreign domain address")?.into(),
            identifier: r.u32("revocation identifier")?,
        })
    }

    /// Writes the fixed part; extensions follow.
    pub fn write(&self, w: &mut Writer) {
        w.u8(REVOCATION);
        w.u8(0);
        let agent = if self.is_from_home_agent { AGENT } else { 0 };
        let inform = if self.informs { INFORM } else { 0 };
        w.u16(agent | inform);
        w.bytes(&self.home_address.octets());
        w.bytes(&self.home_domain.octets());
        w.bytes(&self.foreign_domain.octets());
        w.u32(self.identifier);
    }
}

impl RevocationAcknowledgment {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.u8("reserved octet")?;
        Ok(Self {
            informs: r.u16("acknowledgment flags")? & ACKNOWLEDGED_INFORM != 0,
            home_address: r.array("home address")?.into(),
            identifier: r.u32("revocation identifier")?,
        })
    }

    /// Writes the fixed part; extensions follow.
    pub fn write(&self, w: &mut Writer) {
        w.u8(ACKNOWLEDGMENT);
        w.u8(0);
        w.u16(if self.informs { ACKNOWLEDGED_INFORM } else { 0 });
        w.bytes(&self.home_address.octets());
        w.u32(self.identifier);
    }
}

pub(super) const REVOCATION: u8 = 7;
pub(super) const ACKNOWLEDGMENT: u8 = 15;
const AGENT: u16 = 0x8000;
const INFORM: u16 = 0x4000;
/// The acknowledgment has no A bit; I stands in its place.
const ACKNOWLEDGED_INFORM: u16 = 0x8000;
