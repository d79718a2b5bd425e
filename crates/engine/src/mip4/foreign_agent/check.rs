//! What a request must be before it is relayed (RFC 5944 §3.7.2.1, RFC 3024 §4.1,
//! RFC 4721 §3.2).

use std::net::Ipv4Addr;

use wire::mip4::{Authentication, Code, Extension, INFINITE, Located, Request, RequestFlags};

use super::Config;
use crate::mip4::revocation;
use crate::mip4::tunnel::ReverseTunnel;
use crate::sa::Encapsulation;
use crate::selector::TrafficSelector;
use crate::site::is_unicast;

/// A request with what its extensions say.
pub(super) struct Asked<'a> {
    pub(super) request: Request,
    /// Where what the home agent gets ends: the mobile node's authenticator for it, or that for
    /// its AAA server (RFC 4721 §3.2).
    pub(super) relayed_end: usize,
    pub(super) own: Vec<&'a Located>,
    /// The mobile node's authenticators for its AAA server.
    pub(super) aaa: Vec<&'a Located>,
    pub(super) challenge: Option<&'a [u8]>,
    pub(super) encapsulates_delivery: bool,
    pub(super) nai: Option<&'a [u8]>,
    /// Whether the mobile node supports revocation.
    pub(super) supports_revocation: bool,
}

impl<'a> Asked<'a> {
    /// None if nothing authenticates the request to its home agent.
    pub(super) fn sort(request: Request, list: &'a [Located]) -> Option<Self> {
        let is_for_home = |one: &Located| one.between() == Some(Authentication::MobileHome);
        let at = list.iter().position(is_for_home)?;
        let (before, rest) = list.split_at(at);
        let (authenticator, rest) = rest.split_first()?;
        let is_own = |one: &Located| one.between() == Some(Authentication::MobileForeign);
        // Behind the node's authenticator for us, nothing is the node's.
        let end = rest.iter().position(is_own).unwrap_or(rest.len());
        let said = &rest[..end];
        let is_aaa = |one: &&Located| one.between() == Some(Authentication::MobileAaa);
        let aaa: Vec<&Located> = said.iter().filter(is_aaa).collect();
        let covered = said.iter().take_while(|one| !is_aaa(one));
        let challenge = covered.into_iter().find_map(|one| match &one.extension {
            Extension::Challenge(challenge) => Some(challenge.as_slice()),
            _ => None,
        });
        let nai = before.iter().find_map(|one| match &one.extension {
            Extension::Nai(name) => Some(name.as_slice()),
            _ => None,
        });
        let is_delivery = |one: &Located| one.extension == Extension::EncapsulatingDelivery;
        Some(Self {
            request,
            relayed_end: aaa.last().unwrap_or(&authenticator).range.end,
            own: rest.iter().filter(|one| is_own(one)).collect(),
            aaa,
            challenge,
            encapsulates_delivery: said.iter().any(is_delivery),
            nai,
            supports_revocation: revocation::support(before).is_some(),
        })
    }
}

/// Whether we can do what a request asks; its encapsulation.
pub(super) fn relayable(config: &Config, asked: &Asked<'_>) -> Result<Encapsulation, Code> {
    let request = &asked.request;
    let flags = request.flags;
    let is_colocated = flags.has(RequestFlags::DECAPSULATES);
    let is_end = request.lifetime == 0;
    // A node that must register here keeps its own care-of address; one that ends another binding
    // names that one.
    if !is_end && !is_colocated && request.care_of_address != config.care_of {
        return Err(Code::InvalidCareOfAddress);
    }
    if !is_end && is_too_long(request.lifetime, config.max_lifetime) {
        return Err(Code::LifetimeTooLong);
    }
    let ours = [config.address, config.care_of];
    if !is_host(request.home_agent) || ours.contains(&request.home_agent) {
        return Err(Code::InvalidHomeAgentAddress);
    }
    let serves = |list: &Vec<TrafficSelector>| {
        let mut list = list.iter();
        list.any(|it| it.contains_address(request.home_agent.into()))
    };
    if !config.relays_to.as_ref().is_none_or(serves) {
        return Err(Code::ForeignProhibited);
    }
    let home = request.home_address;
    if home.is_unspecified() {
        // RFC 2794 §3: then the node has another name.
        asked.nai.ok_or(Code::MissingNai)?;
    } else if !is_host(home) || home == request.home_agent {
        return Err(Code::ForeignBadRequest);
    }
    let is_reverse = flags.has(RequestFlags::REVERSE_TUNNEL);
    match config.reverse_tunnel {
        ReverseTunnel::Refused if is_reverse => return Err(Code::ForeignReverseTunnelUnavailable),
        ReverseTunnel::Required if !is_reverse && !is_end => {
            return Err(Code::ForeignReverseTunnelRequired);
        }
        _ => {}
    }
    if asked.encapsulates_delivery && !is_reverse {
        return Err(Code::ForeignBadRequest);
    }
    let wanted = if flags.has(RequestFlags::MINIMAL) {
        Encapsulation::Minimal
    } else if flags.has(RequestFlags::GRE) {
        Encapsulation::Gre
    } else {
        return Ok(Encapsulation::IpInIp);
    };
    let is_offered = is_colocated || config.encapsulations.contains(&wanted);
    is_offered
        .then_some(wanted)
        .ok_or(Code::ForeignEncapsulation)
}

fn is_too_long(lifetime: u16, longest: u16) -> bool {
    longest != INFINITE && lifetime > longest
}

/// Whether an address can be a host's.
pub(super) fn is_host(address: Ipv4Addr) -> bool {
    is_unicast(&address.into())
}
