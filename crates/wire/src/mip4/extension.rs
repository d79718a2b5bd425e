//! Extensions of control messages (RFC 5944 §1.8 to §1.11): types below 128 that we do not know
//! make the message unreadable, others are skipped.

use core::ops::Range;
use std::net::Ipv4Addr;

use crate::codec::{Malformed, Reader, Writer};

/// The enterprise number of our own extensions: that for examples (RFC 5612 §2), because we have
/// none.
pub const OUR_VENDOR: u32 = 32_473;

/// Extensions that one message may hold, padding not counted.
pub const MAX_EXTENSIONS: usize = 32;

/// Between which two an authenticator stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Authentication {
    /// Mobile node and home agent, type 32.
    MobileHome,
    /// Mobile node and foreign agent, type 33.
    MobileForeign,
    /// Foreign agent and home agent, type 34.
    ForeignHome,
    /// Mobile node and its AAA server, type 36 subtype 1 (RFC 4721 §6).
    MobileAaa,
}

/// An authentication extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticator {
    /// Between whom.
    pub between: Authentication,
    /// Names the mobility security association; 0 to 255 are reserved.
    pub spi: u32,
    /// The value itself.
    pub value: Vec<u8>,
}

/// Asks for a tunnel in UDP (RFC 3519 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpTunnelRequest {
    /// F: a tunnel in UDP even if there is no NAT.
    pub is_forced: bool,
    /// R: the request goes through a foreign agent because that agent requires it.
    pub is_through_foreign_agent: bool,
    /// 4, 47 or 55; 0 leaves it to the M and G flags.
    pub encapsulation: u8,
}

/// Grants or declines a tunnel in UDP (RFC 3519 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpTunnelReply {
    /// 0 to 63 grant, other values decline.
    pub code: u8,
    /// F: granted because the request forced it.
    pub is_forced: bool,
    /// Seconds; 0 leaves it to the mobile node.
    pub keepalive: u16,
}

impl UdpTunnelReply {
    /// Whether the tunnel is in UDP.
    pub const fn is_granted(self) -> bool {
        self.code < 64
    }
}

/// One extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// 32, 33, 34 and 36.
    Authenticator(Authenticator),
    /// 44.
    UdpTunnelReply(UdpTunnelReply),
    /// 130: packets to the foreign agent are encapsulated (RFC 3024 §3.3).
    EncapsulatingDelivery,
    /// 131: the mobile node's network access identifier (RFC 2794 §2).
    Nai(Vec<u8>),
    /// 132: the advertised challenge that is answered (RFC 4721 §4); in a reply, the next one.
    Challenge(Vec<u8>),
    /// 134: a vendor's own skippable extension (RFC 3115 §3).
    Vendor {
        /// The vendor's enterprise number.
        vendor: u32,
        /// The vendor's own type.
        kind: u16,
        /// What the vendor defines.
        value: Vec<u8>,
    },
    /// 134 of [`OUR_VENDOR`]: the care-of address is outside of the home network, behind this
    /// firewall of it. No document that we could read lays this extension out.
    Traversal {
        /// Where the home agent sends packets for the care-of address, encapsulated.
        firewall: Ipv4Addr,
    },
    /// 137: revocation is supported (RFC 3543 §3.2).
    RevocationSupport {
        /// I: whether the inform bit is understood.
        informs: bool,
        /// The sender's clock, in seconds.
        timestamp: u32,
    },
    /// 144.
    UdpTunnelRequest(UdpTunnelRequest),
    /// 149: the home agent serves only requests from networks that it is told to trust (RFC 5265
    /// §3.4).
    TrustedNetworks,
    /// A skippable extension that we do not know, or one whose reserved fields ask to be skipped.
    Skipped {
        /// 128 to 255.
        kind: u8,
        /// What it holds.
        value: Vec<u8>,
    },
}

/// An extension and where it stands in the datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The extension.
    pub extension: Extension,
    /// Octets of the datagram.
    pub range: Range<usize>,
}

impl Located {
    /// Between whom an authenticator stands. None for other extensions.
    pub fn between(&self) -> Option<Authentication> {
        match &self.extension {
            Extension::Authenticator(one) => Some(one.between),
            _ => None,
        }
    }

    /// The octets that an authenticator covers: from the start of the datagram to the end of its
    /// own SPI (RFC 5944 §3.5.1). None for other extensions.
    pub fn covered(&self) -> Option<Range<usize>> {
        match &self.extension {
            Extension::Authenticator(one) => Some(0..self.range.end - one.value.len()),
            _ => None,
        }
    }
}

/// The extensions of `datagram` from the offset `at` on.
pub fn extensions(datagram: &[u8], at: usize) -> Result<Vec<Located>, Malformed> {
    let body = datagram
        .get(at..)
        .ok_or(Malformed::Truncated("Mobile IP message"))?;
    let mut r = Reader::new(body);
    let mut list = Vec::new();
    while !r.is_empty() {
        let start = datagram.len() - r.len();
        let kind = r.u8("extension type")?;
        if kind == PADDING {
            continue;
        }
        if list.len() == MAX_EXTENSIONS {
            return Err(Malformed::TooMany("Mobile IP extensions"));
        }
        let extension = Extension::read(kind, &mut r)?;
        let range = start..datagram.len() - r.len();
        list.push(Located { extension, range });
    }
    Ok(list)
}

impl Authentication {
    /// Writes an extension up to its SPI. The caller appends `len` octets: the authenticator over
    /// all that is in `w` then.
    pub fn write_start(self, spi: u32, len: usize, w: &mut Writer) {
        let octets = 4 + len;
        match self {
            Self::MobileAaa => {
                w.u8(GENERALIZED);
                w.u8(MOBILE_AAA);
                w.u16(u16::try_from(octets).expect("authenticator below 64 KiB"));
            }
            _ => {
                w.u8(match self {
                    Self::MobileHome => MOBILE_HOME,
                    Self::MobileForeign => MOBILE_FOREIGN,
                    Self::ForeignHome => FOREIGN_HOME,
                    Self::MobileAaa => unreachable!("has the long form"),
                });
                w.u8(u8::try_from(octets).expect("authenticator below 252 octets"));
            }
        }
        w.u32(spi);
    }
}

impl Extension {
    fn read(kind: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if kind == GENERALIZED {
            return Self::generalized(r);
        }
        let len = r.u8("extension length")?;
        let body = r.take(len.into(), "extension")?;
        let mut r = Reader::new(body);
        let extension = match kind {
            MOBILE_HOME => Self::authenticator(Authentication::MobileHome, &mut r)?,
            MOBILE_FOREIGN => Self::authenticator(Authentication::MobileForeign, &mut r)?,
            FOREIGN_HOME => Self::authenticator(Authentication::ForeignHome, &mut r)?,
            UDP_TUNNEL_REPLY => Self::udp_tunnel_reply(&mut r)?,
            NAI => Self::Nai(r.rest().to_vec()),
            CHALLENGE => Self::Challenge(r.rest().to_vec()),
            _ if kind < FIRST_SKIPPABLE => return Err(Malformed::Value("extension type")),
            _ => match Self::skippable(kind, &mut r) {
                Some(extension) if r.is_empty() => extension,
                _ => {
                    let value = body.to_vec();
                    return Ok(Self::Skipped { kind, value });
                }
            },
        };
        r.finish("extension")?;
        Ok(extension)
    }

    fn generalized(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if r.u8("authentication subtype")? != MOBILE_AAA {
            return Err(Malformed::Value("authentication subtype"));
        }
        let len = r.u16("extension length")?;
        let mut body = r.sub(len.into(), "extension")?;
        Self::authenticator(Authentication::MobileAaa, &mut body)
    }

    fn authenticator(between: Authentication, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self::Authenticator(Authenticator {
            between,
            spi: r.u32("SPI")?,
            value: r.rest().to_vec(),
        }))
    }

    fn udp_tunnel_reply(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if r.u8("subtype")? != 0 {
            return Err(Malformed::Value("UDP tunnel reply subtype"));
        }
        Ok(Self::UdpTunnelReply(UdpTunnelReply {
            code: r.u8("reply code")?,
            is_forced: r.u16("reply flags")? & REPLY_FORCED != 0,
            keepalive: r.u16("keepalive interval")?,
        }))
    }

    /// A skippable extension that we understand.
    fn skippable(kind: u8, r: &mut Reader<'_>) -> Option<Self> {
        match kind {
            ENCAPSULATING_DELIVERY => Some(Self::EncapsulatingDelivery),
            VENDOR => Self::vendor(r).ok(),
            REVOCATION_SUPPORT => Some(Self::RevocationSupport {
                informs: r.u16("revocation flags").ok()? & SUPPORTS_INFORM != 0,
                timestamp: r.u32("timestamp").ok()?,
            }),
            UDP_TUNNEL_REQUEST => {
                if r.u8("subtype").ok()? != 0 {
                    return None;
                }
                r.u8("reserved octet").ok()?;
                let flags = r.u8("request flags").ok()?;
                let encapsulation = r.u8("encapsulation").ok()?;
                // RFC 3519 §3.1.3: if these two octets are used, we do not understand the rest.
                (r.u16("reserved octets").ok()? == 0).then_some(Self::UdpTunnelRequest(
                    UdpTunnelRequest {
                        is_forced: flags & REQUEST_FORCED != 0,
                        is_through_foreign_agent: flags & REQUEST_THROUGH_AGENT != 0,
                        encapsulation,
                    },
                ))
            }
            TRUSTED_NETWORKS => {
                let subtype = r.u8("subtype").ok()?;
                r.u8("reserved octet").ok()?;
                (subtype == 0).then_some(Self::TrustedNetworks)
            }
            _ => None,
        }
    }

    fn vendor(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.u16("reserved octets")?;
        let vendor = r.u32("vendor")?;
        let kind = r.u16("vendor type")?;
        let value = r.rest();
        let firewall = <[u8; 4]>::try_from(value)
            .ok()
            .filter(|_| (vendor, kind) == (OUR_VENDOR, TRAVERSAL));
        Ok(match firewall {
            Some(octets) => Self::Traversal {
                firewall: octets.into(),
            },
            None => Self::Vendor {
                vendor,
                kind,
                value: value.to_vec(),
            },
        })
    }

    /// Appends the extension. Panics if it holds more octets than its length field can say.
    pub fn write(&self, w: &mut Writer) {
        match self {
            Self::Authenticator(one) => {
                one.between.write_start(one.spi, one.value.len(), w);
                w.bytes(&one.value);
            }
            Self::UdpTunnelReply(reply) => {
                start(w, UDP_TUNNEL_REPLY, 6);
                w.u8(0);
                w.u8(reply.code);
                w.u16(if reply.is_forced { REPLY_FORCED } else { 0 });
                w.u16(reply.keepalive);
            }
            Self::EncapsulatingDelivery => start(w, ENCAPSULATING_DELIVERY, 0),
            Self::Nai(name) => whole(w, NAI, name),
            Self::Challenge(challenge) => whole(w, CHALLENGE, challenge),
            Self::Vendor {
                vendor,
                kind,
                value,
            } => write_vendor(w, *vendor, *kind, value),
            Self::Traversal { firewall } => {
                write_vendor(w, OUR_VENDOR, TRAVERSAL, &firewall.octets());
            }
            Self::RevocationSupport { informs, timestamp } => {
                start(w, REVOCATION_SUPPORT, 6);
                w.u16(if *informs { SUPPORTS_INFORM } else { 0 });
                w.u32(*timestamp);
            }
            Self::UdpTunnelRequest(request) => {
                start(w, UDP_TUNNEL_REQUEST, 6);
                w.u16(0);
                let forced = if request.is_forced { REQUEST_FORCED } else { 0 };
                let through = if request.is_through_foreign_agent {
                    REQUEST_THROUGH_AGENT
                } else {
                    0
                };
                w.u8(forced | through);
                w.u8(request.encapsulation);
                w.u16(0);
            }
            Self::TrustedNetworks => {
                start(w, TRUSTED_NETWORKS, 2);
                w.u16(0);
            }
            Self::Skipped { kind, value } => whole(w, *kind, value),
        }
    }
}

fn start(w: &mut Writer, kind: u8, len: usize) {
    w.u8(kind);
    w.u8(u8::try_from(len).expect("extension below 256 octets"));
}

fn write_vendor(w: &mut Writer, vendor: u32, kind: u16, value: &[u8]) {
    start(w, VENDOR, 8 + value.len());
    w.u16(0);
    w.u32(vendor);
    w.u16(kind);
    w.bytes(value);
}

fn whole(w: &mut Writer, kind: u8, value: &[u8]) {
    start(w, kind, value.len());
    w.bytes(value);
}

const PADDING: u8 = 0;
const MOBILE_HOME: u8 = 32;
const MOBILE_FOREIGN: u8 = 33;
const FOREIGN_HOME: u8 = 34;
const GENERALIZED: u8 = 36;
const UDP_TUNNEL_REPLY: u8 = 44;
const FIRST_SKIPPABLE: u8 = 128;
const ENCAPSULATING_DELIVERY: u8 = 130;
const NAI: u8 = 131;
const CHALLENGE: u8 = 132;
const VENDOR: u8 = 134;
/// Of [`OUR_VENDOR`].
const TRAVERSAL: u16 = 1;
const REVOCATION_SUPPORT: u8 = 137;
const UDP_TUNNEL_REQUEST: u8 = 144;
const TRUSTED_NETWORKS: u8 = 149;
/// Subtype of [`GENERALIZED`].
const MOBILE_AAA: u8 = 1;
const REPLY_FORCED: u16 = 0x8000;
const REQUEST_FORCED: u8 = 0x80;
const REQUEST_THROUGH_AGENT: u8 = 0x40;
const SUPPORTS_INFORM: u16 = 0x8000;
