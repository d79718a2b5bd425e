//! Registration Request and Reply (RFC 5944 §3.3, §3.4).

use std::net::Ipv4Addr;

use crate::codec::{Malformed, Reader, Writer};

/// A lifetime that never ends.
pub const INFINITE: u16 = 0xffff;

/// The second octet of a request. Reserved bits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RequestFlags(pub u8);

impl RequestFlags {
    /// S: keep the bindings that the home agent has.
    pub const SIMULTANEOUS: u8 = 0x80;
    /// B: send broadcasts of the home network too.
    pub const BROADCASTS: u8 = 0x40;
    /// D: the mobile node is the end of the tunnel.
    pub const DECAPSULATES: u8 = 0x20;
    /// M: minimal encapsulation.
    pub const MINIMAL: u8 = 0x10;
    /// G: GRE.
    pub const GRE: u8 = 0x08;
    /// T: reverse tunnel (RFC 3024 §3.2).
    pub const REVERSE_TUNNEL: u8 = 0x02;

    /// Whether all bits of `mask` are set.
    pub const fn has(self, mask: u8) -> bool {
        self.0 & mask == mask
    }
}

/// The fixed part of a Registration Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the mobile node asks for.
    pub flags: RequestFlags,
    /// Seconds; 0 deregisters, [`INFINITE`] never ends.
    pub lifetime: u16,
    /// The mobile node's home address; unspecified if it asks for one (RFC 2794 §4).
    pub home_address: Ipv4Addr,
    /// Its home agent.
    pub home_agent: Ipv4Addr,
    /// Where packets shall go; the home address in a request that ends all bindings.
    pub care_of_address: Ipv4Addr,
    /// Matches reply to request, and protects from replays (RFC 5944 §5.7).
    pub identification: u64,
}

/// The fixed part of a Registration Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The result.
    pub code: Code,
    /// Seconds granted; in [`Code::LifetimeTooLong`] the most that the foreign agent grants.
    pub lifetime: u16,
    /// The mobile node's home address.
    pub home_address: Ipv4Addr,
    /// Its home agent.
    pub home_agent: Ipv4Addr,
    /// Its low 32 bits are those of the request.
    pub identification: u64,
}

impl Request {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            flags: RequestFlags(r.u8("request flags")?),
            lifetime: r.u16("lifetime")?,
            home_address: r.array("home address")?.into(),
            home_agent: r.array("home agent")?.into(),
            care_of_address: r.array("care-of address")?.into(),
            identification: r.u64("identification")?,
        })
    }

    /// Writes the fixed part; extensions follow.
    pub fn write(&self, w: &mut Writer) {
        w.u8(REQUEST);
        w.u8(self.flags.0);
        w.u16(self.lifetime);
        w.bytes(&self.home_address.octets());
        w.bytes(&self.home_agent.octets());
        w.bytes(&self.care_of_address.octets());
        w.u64(self.identification);
    }
}

impl Reply {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            code: r.u8("reply code")?.into(),
            lifetime: r.u16("lifetime")?,
            home_address: r.array("home address")?.into(),
            home_agent: r.array("home agent")?.into(),
            identification: r.u64("identification")?,
        })
    }

    /// Writes the fixed part; extensions follow.
    pub fn write(&self, w: &mut Writer) {
        w.u8(REPLY);
        w.u8(self.code.number());
        w.u16(self.lifetime);
        w.bytes(&self.home_address.octets());
        w.bytes(&self.home_agent.octets());
        w.u64(self.identification);
    }
}

/// The result of a registration (RFC 5944 §3.4; RFC 3024 §3.4, RFC 2794 §5, RFC 3519 §3.5,
/// RFC 4721 §10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the documents' own")]
pub enum Code {
    Accepted,
    /// Accepted, but the home agent keeps one binding only.
    AcceptedWithoutSimultaneous,
    ForeignUnspecified,
    ForeignProhibited,
    ForeignResources,
    ForeignMobileAuthentication,
    ForeignHomeAuthentication,
    LifetimeTooLong,
    ForeignBadRequest,
    ForeignBadReply,
    ForeignEncapsulation,
    ForeignReverseTunnelUnavailable,
    ForeignReverseTunnelRequired,
    TooDistant,
    InvalidCareOfAddress,
    RegistrationTimeout,
    DeliveryStyle,
    HomeNetworkUnreachable,
    HomeAgentHostUnreachable,
    HomeAgentPortUnreachable,
    HomeAgentUnreachable,
    NonZeroHomeAddressRequired,
    MissingNai,
    MissingHomeAgent,
    MissingHomeAddress,
    UnknownChallenge,
    MissingChallenge,
    StaleChallenge,
    ForeignAaaAuthentication,
    InvalidHomeAgentAddress,
    HomeUnspecified,
    HomeProhibited,
    HomeResources,
    HomeMobileAuthentication,
    HomeForeignAuthentication,
    IdentificationMismatch,
    HomeBadRequest,
    TooManyBindings,
    UnknownHomeAgent,
    HomeReverseTunnelUnavailable,
    HomeReverseTunnelRequired,
    HomeEncapsulation,
    HomeUdpEncapsulation,
    HomeAaaAuthentication,
    /// Any other value.
    Other(u8),
}

impl Code {
    /// Whether the registration was accepted.
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Accepted | Self::AcceptedWithoutSimultaneous)
    }

    /// Whether a foreign agent gives this code. Its own denials have no Mobile-Home authentication
    /// (RFC 5944 §3.6.2.1).
    pub const fn is_from_foreign_agent(self) -> bool {
        matches!(self.number(), 64..=127 | 194)
    }
}

numbered!(Code: u8 {
    Accepted = 0,
    AcceptedWithoutSimultaneous = 1,
    ForeignUnspecified = 64,
    ForeignProhibited = 65,
    ForeignResources = 66,
    ForeignMobileAuthentication = 67,
    ForeignHomeAuthentication = 68,
    LifetimeTooLong = 69,
    ForeignBadRequest = 70,
    ForeignBadReply = 71,
    ForeignEncapsulation = 72,
    ForeignReverseTunnelUnavailable = 74,
    ForeignReverseTunnelRequired = 75,
    TooDistant = 76,
    InvalidCareOfAddress = 77,
    RegistrationTimeout = 78,
    DeliveryStyle = 79,
    HomeNetworkUnreachable = 80,
    HomeAgentHostUnreachable = 81,
    HomeAgentPortUnreachable = 82,
    HomeAgentUnreachable = 88,
    NonZeroHomeAddressRequired = 96,
    MissingNai = 97,
    MissingHomeAgent = 98,
    MissingHomeAddress = 99,
    UnknownChallenge = 104,
    MissingChallenge = 105,
    StaleChallenge = 106,
    ForeignAaaAuthentication = 108,
    InvalidHomeAgentAddress = 194,
    HomeUnspecified = 128,
    HomeProhibited = 129,
    HomeResources = 130,
    HomeMobileAuthentication = 131,
    HomeForeignAuthentication = 132,
    IdentificationMismatch = 133,
    HomeBadRequest = 134,
    TooManyBindings = 135,
    UnknownHomeAgent = 136,
    HomeReverseTunnelUnavailable = 137,
    HomeReverseTunnelRequired = 138,
    HomeEncapsulation = 139,
    HomeUdpEncapsulation = 142,
    HomeAaaAuthentication = 144,
});

pub(super) const REQUEST: u8 = 1;
pub(super) const REPLY: u8 = 3;
