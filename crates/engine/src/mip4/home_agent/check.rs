//! What a request must be before it changes a binding (RFC 5944 §3.8.2.1).

use std::net::Ipv4Addr;

use wire::codec::Malformed;
use wire::mip4::{
    Authentication, Code, Extension, Located, Message, Request, RequestFlags, UdpTunnelRequest,
    extensions,
};

use super::Config;
use crate::mip4::aaa::AaaKey;
use crate::mip4::association::Associations;
use crate::mip4::revocation::{self, Fault};
use crate::mip4::tunnel::ReverseTunnel;
use crate::sa::Encapsulation;
use crate::selector::TrafficSelector;
use crate::site::is_unicast;

/// Why a message was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read.
    Malformed(Malformed),
    /// It is none for a home agent.
    NotARequest,
    /// We do not know the mobile node.
    UnknownNode,
    /// The first authenticator is not one of a mobile node and its home agent.
    NotAuthenticated,
    /// The foreign agent has no association with us, but sent an authenticator.
    UnexpectedForeignAuthenticator,
    /// It does not come from a network inside. Nobody is answered (RFC 5265 §4.3).
    UntrustedNetwork,
    /// The request names a firewall that we do not trust. It was denied.
    UntrustedFirewall(Ipv4Addr),
    /// A revocation, or an acknowledgment of one, that changed nothing.
    Revocation(Fault),
    /// The same request came from two places, for a tunnel in UDP to where it came from. It was
    /// denied.
    CopiedRequest,
    /// A keepalive of a tunnel that waits for none.
    UnexpectedKeepalive,
    /// Denied with this code. In a reply, unless the request came from where its node is not, or
    /// after too many others.
    Denied(Code),
}

/// A request that could be read, with what its extensions say.
pub(super) struct Asked<'a> {
    pub(super) request: Request,
    pub(super) nai: Option<&'a [u8]>,
    /// The mobile node's authenticator, and all others behind it.
    pub(super) authenticator: &'a Located,
    pub(super) foreign: Vec<&'a Located>,
    /// The mobile node's authenticators for its AAA server, and the foreign agent's challenge that
    /// it answers.
    pub(super) aaa: Vec<&'a Located>,
    pub(super) challenge: Option<&'a [u8]>,
    /// From the mobile node.
    pub(super) udp: Option<UdpTunnelRequest>,
    /// The firewall that the mobile node names.
    pub(super) firewall: Option<Ipv4Addr>,
    /// Whether the mobile node supports revocation: its I bit and timestamp.
    pub(super) revocation: Option<(bool, u32)>,
    /// The same of the foreign agent, before its authenticator.
    pub(super) foreign_revocation: Option<(bool, u32)>,
    /// From the foreign agent, before its authenticator.
    pub(super) foreign_udp: Option<UdpTunnelRequest>,
}

/// Reads the fixed part and the extensions.
pub(super) fn read(datagram: &[u8]) -> Result<(Request, Vec<Located>), Refusal> {
    let (message, at) = Message::parse(datagram).map_err(Refusal::Malformed)?;
    let Message::Request(request) = message else {
        return Err(Refusal::NotARequest);
    };
    let list = extensions(datagram, at).map_err(Refusal::Malformed)?;
    Ok((request, list))
}

impl<'a> Asked<'a> {
    /// Sorts extensions by who wrote them: those up to the first authenticator are the mobile
    /// node's.
    pub(super) fn sort(request: Request, list: &'a [Located]) -> Result<Self, Refusal> {
        let is_authenticator = |one: &Located| one.covered().is_some();
        let at = list.iter().position(is_authenticator);
        let (own, rest) = list.split_at(at.ok_or(Refusal::NotAuthenticated)?);
        let [authenticator, foreign @ ..] = rest else {
            return Err(Refusal::NotAuthenticated);
        };
        if authenticator.between() != Some(Authentication::MobileHome) {
            return Err(Refusal::NotAuthenticated);
        }
        let is_second = |one: &&Located| one.between() == Some(Authentication::MobileHome);
        if foreign.iter().any(|one| is_second(&one)) {
            return Err(Refusal::NotAuthenticated);
        }
        let nai = own.iter().find_map(|one| match &one.extension {
            Extension::Nai(name) => Some(name.as_slice()),
            _ => None,
        });
        let firewall = own.iter().find_map(|one| match one.extension {
            Extension::Traversal { firewall } => Some(firewall),
            _ => None,
        });
        let is_signature = |one: &Located| one.between() == Some(Authentication::ForeignHome);
        let signed = foreign.iter().position(is_signature);
        let is_foreign = |one: &&Located| one.between() == Some(Authentication::ForeignHome);
        let is_aaa = |one: &&Located| one.between() == Some(Authentication::MobileAaa);
        let challenge = foreign.iter().find_map(|one| match &one.extension {
            Extension::Challenge(challenge) => Some(challenge.as_slice()),
            _ => None,
        });
        Ok(Self {
            request,
            nai,
            authenticator,
            aaa: foreign.iter().filter(is_aaa).collect(),
            challenge,
            foreign: foreign.iter().filter(is_foreign).collect(),
            udp: udp(own),
            firewall,
            revocation: revocation::support(own),
            foreign_revocation: signed.and_then(|at| revocation::support(&foreign[..at])),
            foreign_udp: signed.and_then(|at| udp(&foreign[..at])),
        })
    }

    /// The firewall that the mobile node names. Err: we do not trust it. A request that ends a
    /// binding is served all the same.
    pub(super) fn firewall(&self, config: &Config) -> Result<Option<Ipv4Addr>, Refusal> {
        match self.firewall {
            Some(named) if config.trusts_traversal.contains(&named) => Ok(Some(named)),
            Some(named) if self.request.lifetime > 0 => Err(Refusal::UntrustedFirewall(named)),
            _ => Ok(None),
        }
    }

    /// Whether the node takes itself to be inside our firewalls: it names none.
    pub(super) fn is_from_inside(&self, config: &Config) -> bool {
        let has_outside = !config.trusts_traversal.is_empty() || !config.trusted.is_empty();
        has_outside && self.firewall.is_none()
    }

    /// Whether the node has proven its AAA key, if it has one (RFC 4721 §3.4).
    pub(super) fn check_aaa(&self, datagram: &[u8], key: Option<&AaaKey>) -> Result<(), Code> {
        match (key, self.aaa.as_slice()) {
            (None, _) => Ok(()),
            (Some(key), [one]) if key.verifies(self.challenge, datagram, one) => Ok(()),
            (Some(_), _) => Err(Code::HomeAaaAuthentication),
        }
    }

    /// Whether the foreign agent's authenticator is as its association wants it (RFC 5944 §3.8.2.1
    /// c, d). A deregistration needs none.
    pub(super) fn check_foreign(
        &self,
        datagram: &[u8],
        agent: Option<&Associations>,
    ) -> Result<(), Refusal> {
        let Some(agent) = agent else {
            return match self.foreign.is_empty() {
                true => Ok(()),
                false => Err(Refusal::UnexpectedForeignAuthenticator),
            };
        };
        if self.request.lifetime == 0 && self.foreign.is_empty() {
            return Ok(());
        }
        match self.foreign.as_slice() {
            [one] if agent.proven(datagram, one).is_some() => Ok(()),
            _ => Err(Refusal::Denied(Code::HomeForeignAuthentication)),
        }
    }
}

/// Whether we can do what an authentic request asks; its encapsulation.
pub(super) fn grantable(config: &Config, request: &Request) -> Result<Encapsulation, Code> {
    let home = TrafficSelector::subnet(config.address.into(), config.prefix_len);
    let care_of = request.care_of_address;
    let is_end = [home.first, home.last].contains(&care_of.into());
    let is_unusable = !is_unicast(&care_of.into())
        || care_of.is_link_local()
        // This network, and what is reserved.
        || care_of.octets()[0] == 0
        || care_of.octets()[0] >= 240
        || care_of == config.address
        || config.prefix_len < 31 && is_end;
    // A care-of address that is the home address makes a tunnel that ends in itself.
    if is_unusable || request.lifetime > 0 && care_of == request.home_address {
        return Err(Code::HomeBadRequest);
    }
    let is_reverse = request.flags.has(RequestFlags::REVERSE_TUNNEL);
    match config.reverse_tunnel {
        ReverseTunnel::Refused if is_reverse => return Err(Code::HomeReverseTunnelUnavailable),
        ReverseTunnel::Required if !is_reverse && request.lifetime > 0 => {
            return Err(Code::HomeReverseTunnelRequired);
        }
        _ => {}
    }
    let wanted = [
        (RequestFlags::MINIMAL, Encapsulation::Minimal),
        (RequestFlags::GRE, Encapsulation::Gre),
    ];
    let mut wanted = wanted
        .into_iter()
        .filter(|(flag, _)| request.flags.has(*flag))
        .map(|(_, encapsulation)| encapsulation)
        .peekable();
    if wanted.peek().is_none() {
        return Ok(Encapsulation::IpInIp);
    }
    wanted
        .find(|one| config.encapsulations.contains(one))
        .ok_or(Code::HomeEncapsulation)
}

fn udp(list: &[Located]) -> Option<UdpTunnelRequest> {
    list.iter().find_map(|one| match one.extension {
        Extension::UdpTunnelRequest(request) => Some(request),
        _ => None,
    })
}
