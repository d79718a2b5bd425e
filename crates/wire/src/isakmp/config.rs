//! The attribute payload of mode config (draft-dukes-ike-mode-cfg-02 §3.2).

use super::Attribute;
use crate::codec::{Malformed, Reader, Writer};

/// Configuration message types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigType {
    /// 1
    Request,
    /// 2
    Reply,
    /// 3
    Set,
    /// 4
    Ack,
    /// Any other value.
    Other(u8),
}

/// Attribute types; numbers as in the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum ConfigKind {
    InternalIp4Address,
    InternalIp4Netmask,
    InternalIp4Dns,
    InternalIp4Nbns,
    InternalAddressExpiry,
    InternalIp4Dhcp,
    ApplicationVersion,
    InternalIp6Address,
    InternalIp6Netmask,
    InternalIp6Dns,
    InternalIp6Nbns,
    InternalIp6Dhcp,
    InternalIp4Subnet,
    SupportedAttributes,
    InternalIp6Subnet,
    Other(u16),
}

/// Attributes of XAUTH: a user's name, password and so on (draft-beaulieu-ike-xauth-02 §6.2).
pub const XAUTH_KINDS: core::ops::RangeInclusive<u16> = 16_520..=16_529;

/// An attribute payload. Use [`ConfigKind`] to name an [`Attribute`]'s `kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAttributes {
    /// Request, reply, set or acknowledgement.
    pub kind: ConfigType,
    /// Ties a reply to its request.
    pub identifier: u16,
    /// The attributes.
    pub attributes: Vec<Attribute>,
}

impl ConfigAttributes {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = r.u8("configuration message type")?.into();
        r.u8("reserved octet")?;
        let found = Self {
            kind,
            identifier: r.u16("configuration identifier")?,
            attributes: Attribute::read_until(r, is_padding)?,
        };
        r.rest();
        Ok(found)
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u8(self.kind.number());
        w.u8(0);
        w.u16(self.identifier);
        Attribute::write_all(&self.attributes, w);
    }
}

/// Whether nothing is left but octets that fill the payload up to a multiple of four. Padding is at
/// the end of a message alone (RFC 2408 §3.6), but Libreswan has it here, too.
fn is_padding(r: &Reader<'_>) -> bool {
    r.len() < ALIGNMENT && r.clone().rest().iter().all(|octet| *octet == 0)
}

/// Octets to which payloads may be padded, and those of the shortest attribute.
const ALIGNMENT: usize = 4;

numbered!(ConfigType: u8 { Request = 1, Reply = 2, Set = 3, Ack = 4 });

numbered!(ConfigKind: u16 {
    InternalIp4Address = 1,
    InternalIp4Netmask = 2,
    InternalIp4Dns = 3,
    InternalIp4Nbns = 4,
    InternalAddressExpiry = 5,
    InternalIp4Dhcp = 6,
    ApplicationVersion = 7,
    InternalIp6Address = 8,
    InternalIp6Netmask = 9,
    InternalIp6Dns = 10,
    InternalIp6Nbns = 11,
    InternalIp6Dhcp = 12,
    InternalIp4Subnet = 13,
    SupportedAttributes = 14,
    InternalIp6Subnet = 15,
});
