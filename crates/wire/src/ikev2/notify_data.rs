//! What notifications carry: each reader checks the type and every length. `Err` is a notification
//! of the right type with wrong data; a reader for another type is the caller's mistake and is an
//! error too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{AuthenticationMethod, HashAlgorithm, MAX_HASH_ALGORITHMS, Notify, NotifyType};
use crate::codec::{Malformed, Reader, Writer};

/// Octets of a cookie (RFC 7296 §2.6).
pub const COOKIE_LEN: core::ops::RangeInclusive<usize> = 1..=64;
/// Octets of a cookie of return routability (RFC 4555 §4.2.5).
const COOKIE2_LEN: core::ops::RangeInclusive<usize> = 8..=64;
/// Octets of the ends of a path (RFC 4555 §4.2.6).
const NO_NATS_V4_LEN: usize = 12;
const NO_NATS_V6_LEN: usize = 36;
/// Octets of a token of quick crash detection (RFC 6290 §5).
const QCD_TOKEN_LEN: core::ops::RangeInclusive<usize> = 16..=128;
/// Octets of a PPK confirmation (RFC 9867 §3.1).
pub const PPK_CONFIRMATION_LEN: usize = 8;
/// Methods that one SUPPORTED_AUTH_METHODS may announce.
pub const MAX_ANNOUNCED_METHODS: usize = 64;

/// A gateway in a redirection (RFC 5685 §9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// Types 1 and 2.
    Address(IpAddr),
    /// Type 3: letters, digits, hyphens and dots.
    Fqdn(String),
}

/// REDIRECT (RFC 5685 §9.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Where to go.
    pub gateway: Gateway,
    /// The initiator's nonce in an answer to IKE_SA_INIT, otherwise empty.
    pub nonce: Vec<u8>,
}

/// TICKET_LT_OPAQUE (RFC 5723 §7.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// How long it is valid.
    pub lifetime_seconds: u32,
    /// Octets that only the gateway reads.
    pub opaque: Vec<u8>,
}

/// One method of SUPPORTED_AUTH_METHODS (RFC 9593 §3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationAnnouncement {
    /// The method.
    pub method: AuthenticationMethod,
    /// From 1, which authority of CERTREQ it is for; 0 for all of them, and for a method without.
    pub authority: u8,
    /// DER of an AlgorithmIdentifier, or nothing.
    pub algorithm: Vec<u8>,
}

impl Notify {
    /// INVALID_KE_PAYLOAD: the key exchange method that the responder wants (RFC 7296 §1.3).
    pub fn invalid_ke(method: u16) -> Self {
        Self::new(NotifyType::InvalidKePayload, method.to_be_bytes())
    }

    /// The method of INVALID_KE_PAYLOAD.
    pub fn to_method(&self) -> Result<u16, Malformed> {
        let mut r = self.expect(NotifyType::InvalidKePayload)?;
        let method = r.u16("key exchange method")?;
        r.finish("INVALID_KE_PAYLOAD")?;
        Ok(method)
    }

    /// The octets of COOKIE or COOKIE2.
    pub fn to_cookie(&self) -> Result<&[u8], Malformed> {
        let lengths = match self.kind {
            NotifyType::Cookie => COOKIE_LEN,
            NotifyType::Cookie2 => COOKIE2_LEN,
            _ => return Err(WRONG_TYPE),
        };
        self.sized(lengths, "cookie")
    }

    /// The token of QUICK_CRASH_DETECTION (RFC 6290 §4.1).
    pub fn to_qcd_token(&self) -> Result<&[u8], Malformed> {
        self.expect(NotifyType::QuickCrashDetection)?;
        self.sized(QCD_TOKEN_LEN, "token of quick crash detection")
    }

    /// SET_WINDOW_SIZE: how many requests may be outstanding, at least 1 (RFC 7296 §2.3).
    pub fn to_window_size(&self) -> Result<u32, Malformed> {
        match self.number(NotifyType::SetWindowSize)? {
            0 => Err(Malformed::Value("window size")),
            size => Ok(size),
        }
    }

    /// AUTH_LIFETIME (RFC 4478 §3).
    pub fn auth_lifetime(seconds: u32) -> Self {
        Self::new(NotifyType::AuthLifetime, seconds.to_be_bytes())
    }

    /// AUTH_LIFETIME: seconds until the initiator must authenticate again (RFC 4478 §3).
    pub fn to_auth_lifetime_seconds(&self) -> Result<u32, Malformed> {
        self.number(NotifyType::AuthLifetime)
    }

    /// SIGNATURE_HASH_ALGORITHMS (RFC 7427 §4).
    pub fn hash_algorithms(algorithms: &[HashAlgorithm]) -> Self {
        let mut w = Writer::new();
        algorithms.iter().for_each(|one| w.u16(one.number()));
        Self::new(NotifyType::SignatureHashAlgorithms, w.into_vec())
    }

    /// The algorithms of SIGNATURE_HASH_ALGORITHMS, unknown ones included.
    pub fn to_hash_algorithms(&self) -> Result<Vec<HashAlgorithm>, Malformed> {
        let mut r = self.expect(NotifyType::SignatureHashAlgorithms)?;
        if r.len() > 2 * MAX_HASH_ALGORITHMS {
            return Err(Malformed::TooMany("hash algorithms"));
        }
        let mut algorithms = Vec::with_capacity(r.len() / 2);
        while !r.is_empty() {
            algorithms.push(r.u16("hash algorithm")?.into());
        }
        Ok(algorithms)
    }

    /// ADDITIONAL_IP4_ADDRESS or ADDITIONAL_IP6_ADDRESS (RFC 4555 §4.2.2).
    pub fn additional_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::new(NotifyType::AdditionalIp4Address, v4.octets()),
            IpAddr::V6(v6) => Self::new(NotifyType::AdditionalIp6Address, v6.octets()),
        }
    }

    /// The address of ADDITIONAL_IP4_ADDRESS or ADDITIONAL_IP6_ADDRESS.
    pub fn to_additional_address(&self) -> Result<IpAddr, Malformed> {
        let is_v6 = match self.kind {
            NotifyType::AdditionalIp4Address => false,
            NotifyType::AdditionalIp6Address => true,
            _ => return Err(WRONG_TYPE),
        };
        let mut r = Reader::new(&self.value);
        let address = read_address(&mut r, is_v6)?;
        r.finish("additional address")?;
        Ok(address)
    }

    /// NO_NATS_ALLOWED: both ends of the path as the sender sees them, addresses first (RFC 4555
    /// §4.2.6). `None`: they are of different families.
    pub fn no_nats(source: SocketAddr, destination: SocketAddr) -> Option<Self> {
        let mut w = Writer::new();
        match (source.ip(), destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                w.bytes(&from.octets());
                w.bytes(&to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                w.bytes(&from.octets());
                w.bytes(&to.octets());
            }
            _ => return None,
        }
        w.u16(source.port());
        w.u16(destination.port());
        Some(Self::new(NotifyType::NoNatsAllowed, w.into_vec()))
    }

    /// Source and destination of NO_NATS_ALLOWED.
    pub fn to_no_nats(&self) -> Result<(SocketAddr, SocketAddr), Malformed> {
        let mut r = self.expect(NotifyType::NoNatsAllowed)?;
        let is_v6 = match r.len() {
            NO_NATS_V4_LEN => false,
            NO_NATS_V6_LEN => true,
            _ => return Err(Malformed::Length("ends of a path")),
        };
        let source = read_address(&mut r, is_v6)?;
        let destination = read_address(&mut r, is_v6)?;
        let ports = (r.u16("source port")?, r.u16("destination port")?);
        r.finish("ends of a path")?;
        Ok(((source, ports.0).into(), (destination, ports.1).into()))
    }

    /// The hash of NAT_DETECTION_SOURCE_IP or NAT_DETECTION_DESTINATION_IP: SHA-1 over SPIs,
    /// address and port (RFC 7296 §2.23).
    pub fn to_nat_detection(&self) -> Result<[u8; 20], Malformed> {
        match self.kind {
            NotifyType::NatDetectionSourceIp | NotifyType::NatDetectionDestinationIp => {
                let hash = <[u8; 20]>::try_from(&self.value[..]);
                hash.map_err(|_| Malformed::Length("NAT detection"))
            }
            _ => Err(WRONG_TYPE),
        }
    }

    /// PPK_IDENTITY: the octets that name the key (RFC 8784 §5.1). Type 1, PPK_ID_OPAQUE, is for a
    /// back-end; type 2, PPK_ID_FIXED, is configured at both ends.
    pub fn ppk_identity(kind: u8, identity: &[u8]) -> Self {
        Self::new(NotifyType::PpkIdentity, [&[kind], identity].concat())
    }

    /// Type and octets of PPK_IDENTITY.
    pub fn to_ppk_identity(&self) -> Result<(u8, &[u8]), Malformed> {
        let mut r = self.expect(NotifyType::PpkIdentity)?;
        let kind = r.u8("PPK identity type")?;
        Ok((kind, r.rest()))
    }

    /// PPK_IDENTITY_KEY (RFC 9867 §3.1).
    pub fn ppk_identity_key(named: &PpkIdentityKey<'_>) -> Self {
        let value = [&[named.kind], named.identity, named.confirmation];
        Self::new(NotifyType::PpkIdentityKey, value.concat())
    }

    /// Type and octets of the identity in PPK_IDENTITY_KEY, and its confirmation (RFC 9867 §3.1).
    pub fn to_ppk_identity_key(&self) -> Result<PpkIdentityKey<'_>, Malformed> {
        let mut r = self.expect(NotifyType::PpkIdentityKey)?;
        let kind = r.u8("PPK identity type")?;
        let (identity, confirmation) = r
            .rest()
            .split_last_chunk::<PPK_CONFIRMATION_LEN>()
            .ok_or(Malformed::Truncated("PPK confirmation"))?;
        Ok(PpkIdentityKey {
            kind,
            identity,
            confirmation,
        })
    }

    /// REDIRECT, for an answer to IKE_SA_INIT with its nonce.
    pub fn redirect(redirect: &Redirect) -> Self {
        let mut w = Writer::new();
        redirect.gateway.write(&mut w);
        w.bytes(&redirect.nonce);
        Self::new(NotifyType::Redirect, w.into_vec())
    }

    /// The gateway and the nonce of REDIRECT.
    pub fn to_redirect(&self) -> Result<Redirect, Malformed> {
        let mut r = self.expect(NotifyType::Redirect)?;
        Ok(Redirect {
            gateway: Gateway::read(&mut r)?,
            nonce: r.rest().to_vec(),
        })
    }

    /// REDIRECTED_FROM: the gateway that has sent us here.
    pub fn redirected_from(gateway: &Gateway) -> Self {
        let mut w = Writer::new();
        gateway.write(&mut w);
        Self::new(NotifyType::RedirectedFrom, w.into_vec())
    }

    /// The gateway of REDIRECTED_FROM.
    pub fn to_redirected_from(&self) -> Result<Gateway, Malformed> {
        let mut r = self.expect(NotifyType::RedirectedFrom)?;
        let gateway = Gateway::read(&mut r)?;
        r.finish("REDIRECTED_FROM")?;
        Ok(gateway)
    }

    /// TICKET_LT_OPAQUE.
    pub fn ticket(ticket: &Ticket) -> Self {
        let mut w = Writer::new();
        w.u32(ticket.lifetime_seconds);
        w.bytes(&ticket.opaque);
        Self::new(NotifyType::TicketLtOpaque, w.into_vec())
    }

    /// The ticket of TICKET_LT_OPAQUE: not empty.
    pub fn to_ticket(&self) -> Result<Ticket, Malformed> {
        let mut r = self.expect(NotifyType::TicketLtOpaque)?;
        let lifetime_seconds = r.u32("ticket lifetime")?;
        if r.is_empty() {
            return Err(Malformed::Truncated("ticket"));
        }
        Ok(Ticket {
            lifetime_seconds,
            opaque: r.rest().to_vec(),
        })
    }

    /// SUPPORTED_AUTH_METHODS.
    pub fn auth_methods(announcements: &[AuthenticationAnnouncement]) -> Self {
        let mut w = Writer::new();
        for one in announcements {
            one.write(&mut w);
        }
        Self::new(NotifyType::SupportedAuthMethods, w.into_vec())
    }

    /// The methods of SUPPORTED_AUTH_METHODS.
    pub fn to_auth_methods(&self) -> Result<Vec<AuthenticationAnnouncement>, Malformed> {
        let mut r = self.expect(NotifyType::SupportedAuthMethods)?;
        let mut announcements = Vec::new();
        while !r.is_empty() {
            if announcements.len() == MAX_ANNOUNCED_METHODS {
                return Err(Malformed::TooMany("authentication methods"));
            }
            announcements.push(AuthenticationAnnouncement::read(&mut r)?);
        }
        Ok(announcements)
    }

    fn expect(&self, kind: NotifyType) -> Result<Reader<'_>, Malformed> {
        match self.kind == kind {
            true => Ok(Reader::new(&self.value)),
            false => Err(WRONG_TYPE),
        }
    }

    fn number(&self, kind: NotifyType) -> Result<u32, Malformed> {
        let mut r = self.expect(kind)?;
        let number = r.u32("notification data")?;
        r.finish("notification data")?;
        Ok(number)
    }

    fn sized(
        &self,
        lengths: core::ops::RangeInclusive<usize>,
        what: &'static str,
    ) -> Result<&[u8], Malformed> {
        match lengths.contains(&self.value.len()) {
            true => Ok(&self.value),
            false => Err(Malformed::Length(what)),
        }
    }
}

/// PPK_IDENTITY_KEY (RFC 9867 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PpkIdentityKey<'a> {
    /// Type of the identity.
    pub kind: u8,
    /// Which key.
    pub identity: &'a [u8],
    /// The start of a prf under that key.
    pub confirmation: &'a [u8; PPK_CONFIRMATION_LEN],
}

impl Gateway {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = r.u8("gateway type")?;
        let len = usize::from(r.u8("gateway length")?);
        let mut body = r.sub(len, "gateway")?;
        let gateway = match kind {
            IPV4 => Self::Address(read_address(&mut body, false)?),
            IPV6 => Self::Address(read_address(&mut body, true)?),
            FQDN => Self::Fqdn(read_name(body.rest())?),
            _ => return Err(Malformed::Value("gateway type")),
        };
        body.finish("gateway")?;
        Ok(gateway)
    }

    /// Panics on a name of more than 255 octets.
    fn write(&self, w: &mut Writer) {
        let (kind, octets) = match self {
            Self::Address(IpAddr::V4(v4)) => (IPV4, v4.octets().to_vec()),
            Self::Address(IpAddr::V6(v6)) => (IPV6, v6.octets().to_vec()),
            Self::Fqdn(name) => (FQDN, name.as_bytes().to_vec()),
        };
        w.u8(kind);
        w.u8(u8::try_from(octets.len()).expect("a name of at most 255 octets"));
        w.bytes(&octets);
    }
}

impl AuthenticationAnnouncement {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let len = usize::from(r.u8("announcement length")?);
        let body_len = len.checked_sub(1).filter(|len| *len > 0);
        let body_len = body_len.ok_or(Malformed::Length("announcement"))?;
        let mut body = r.sub(body_len, "announcement")?;
        let method = body.u8("authentication method")?.into();
        let authority = match body.is_empty() {
            true => 0,
            false => body.u8("authority of an announcement")?,
        };
        Ok(Self {
            method,
            authority,
            algorithm: body.rest().to_vec(),
        })
    }

    /// Panics on an AlgorithmIdentifier of more than 252 octets.
    fn write(&self, w: &mut Writer) {
        let has_authority = self.authority != 0 || !self.algorithm.is_empty();
        let len = 2 + usize::from(has_authority) + self.algorithm.len();
        w.u8(u8::try_from(len).expect("an announcement of at most 255 octets"));
        w.u8(self.method.number());
        if has_authority {
            w.u8(self.authority);
            w.bytes(&self.algorithm);
        }
    }
}

fn read_address(r: &mut Reader<'_>, is_v6: bool) -> Result<IpAddr, Malformed> {
    match is_v6 {
        true => Ok(Ipv6Addr::from(r.array::<16>("address")?).into()),
        false => Ok(Ipv4Addr::from(r.array::<4>("address")?).into()),
    }
}

fn read_name(octets: &[u8]) -> Result<String, Malformed> {
    let is_of_names = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.');
    let name = core::str::from_utf8(octets).ok();
    let name = name.filter(|name| !name.is_empty() && octets.iter().all(is_of_names));
    Ok(name.ok_or(Malformed::Value("gateway name"))?.to_owned())
}

const WRONG_TYPE: Malformed = Malformed::Value("notify message type");
/// Gateway types.
const IPV4: u8 = 1;
const IPV6: u8 = 2;
const FQDN: u8 = 3;
