//! Mode config (draft-dukes-ike-mode-cfg-02): a client requests an inner address and resolvers, or
//! a gateway pushes them.
//!
//! ```text
//! client                                   gateway
//! HASH, ATTR(REQUEST) -->
//!                      <-- HASH, ATTR(REPLY)
//! or                   <-- HASH, ATTR(SET)
//! HASH, ATTR(ACK) -->
//! ```
//! Left out: XAUTH, which uses the same exchange and is refused by name; subnets, application
//! versions and expiry, which we do not use. A reply is matched to its request by the message ID,
//! which the hash covers; its identifier is not compared.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::isakmp::{
    Attribute, ConfigAttributes, ConfigKind, ConfigType, Exchange, Payload, XAUTH_KINDS,
};

use super::IsakmpSa;
use super::message::Message;
use super::names_read;
use super::phase2::{Label, sealed};
use super::protect::{Iv, Opened};
use crate::config::InnerFamilies;
use crate::counters::DropReason;
use crate::ike::retransmit::Retransmit;
use crate::ike::{Fault, Lease, Outbox, Refusal, Sent, Step, Wanted};
use crate::sa::Path;
use crate::site::is_unicast;
use crate::time::{Deadline, Instant};

/// Resolvers of a lease at most. Further ones are skipped.
pub const MAX_RESOLVERS: usize = 8;

/// A client's request in progress.
pub struct ConfigRequest {
    message_id: u32,
    families: InnerFamilies,
    iv: Iv,
    retransmit: Option<Retransmit>,
}

impl ConfigRequest {
    /// Sends a request, for the addresses that we `had` before if there are any.
    pub fn initiate(
        sa: &IsakmpSa,
        families: InnerFamilies,
        had: &[IpAddr],
        message_id: u32,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let mut attributes = Vec::new();
        let last = |is_v4: bool| {
            let mut had = had.iter().copied();
            had.find(|address| address.is_ipv4() == is_v4).map(octets)
        };
        if families.v4 {
            let wanted = last(true);
            attributes.extend([
                attribute(ConfigKind::InternalIp4Address, wanted.unwrap_or_default()),
                attribute(ConfigKind::InternalIp4Netmask, Vec::new()),
                attribute(ConfigKind::InternalIp4Dns, Vec::new()),
            ]);
        }
        if families.v6 {
            let wanted = last(false);
            attributes.extend([
                attribute(ConfigKind::InternalIp6Address, wanted.unwrap_or_default()),
                attribute(ConfigKind::InternalIp6Dns, Vec::new()),
            ]);
        }
        let mut iv = sa.first_iv(message_id);
        let request = ConfigAttributes {
            kind: ConfigType::Request,
            identifier: message_id as u16,
            attributes,
        };
        let sent = seal(sa, message_id, Step::Config(1), request, &mut iv, out);
        Self {
            message_id,
            families,
            iv,
            retransmit: Some(Retransmit::send(sent, now, out)),
        }
    }

    /// The exchange's message ID.
    pub fn message_id(&self) -> u32 {
        self.message_id
    }

    /// Reads the reply. A lease without addresses is a refusal. [`Fault::Dropped`]: it was no
    /// reply, and the request continues.
    pub fn on_message(
        &mut self,
        sa: &IsakmpSa,
        message: &Message<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Lease, Fault> {
        let mut iv = self.iv;
        let opened = open(sa, message, self.message_id, &mut iv, out)?;
        let reply = attributes(&opened, &[ConfigType::Reply])?;
        out.heard(
            Step::Config(2),
            message.size(),
            names_read(&opened.payloads),
        );
        if let Some(asked) = self.retransmit.take() {
            asked.answered(now, out);
        }
        self.iv = iv;
        Ok(lease(&reply.attributes, self.families))
    }

    /// The next retransmission.
    pub fn deadline(&self) -> Option<Deadline> {
        self.retransmit.as_ref().map(Retransmit::deadline)
    }

    /// Repetitions take this path.
    pub fn move_to(&mut self, path: Path) {
        if let Some(asked) = &mut self.retransmit {
            asked.move_to(path);
        }
    }

    /// A message sent at `began` left only `now`.
    pub fn departed(&mut self, began: Instant, now: Instant) {
        if let Some(asked) = &mut self.retransmit {
            asked.departed(began, now);
        }
    }

    /// Sends again, or gives up.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Fault> {
        match &mut self.retransmit {
            Some(retransmit) => retransmit.fire(now, out),
            None => Ok(()),
        }
    }
}

/// A peer's request with a valid hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRequest {
    /// The exchange.
    pub message_id: u32,
    /// Matches the reply to the request.
    pub identifier: u16,
    /// The requested addresses.
    pub wanted: Wanted,
    /// It wants a netmask with an IPv4 address.
    wants_netmask: bool,
    /// The IV of the reply.
    iv: Iv,
}

/// Reads a peer's request.
pub fn requested(
    sa: &IsakmpSa,
    message: &Message<'_>,
    out: &mut Outbox,
) -> Result<AddressRequest, Fault> {
    let message_id = message_id_of(message)?;
    let mut iv = sa.first_iv(message_id);
    let opened = open(sa, message, message_id, &mut iv, out)?;
    let request = attributes(&opened, &[ConfigType::Request])?;
    out.heard(
        Step::Config(1),
        message.size(),
        names_read(&opened.payloads),
    );
    Ok(AddressRequest {
        message_id,
        identifier: request.identifier,
        wanted: Wanted {
            families: InnerFamilies {
                v4: asks_for(request, ConfigKind::InternalIp4Address),
                v6: asks_for(request, ConfigKind::InternalIp6Address),
            },
            addresses: addresses(&request.attributes),
            wants_domains: false,
            wants_anchors: false,
        },
        wants_netmask: asks_for(request, ConfigKind::InternalIp4Netmask),
        iv,
    })
}

/// Makes the answer to a request, which must be sent and kept for a duplicate.
pub fn reply(sa: &IsakmpSa, asked: &AddressRequest, lease: &Lease, out: &mut Outbox) -> Sent {
    let reply = ConfigAttributes {
        kind: ConfigType::Reply,
        identifier: asked.identifier,
        attributes: lent_attributes(lease, asked.wants_netmask),
    };
    let (id, mut iv) = (asked.message_id, asked.iv);
    seal(sa, id, Step::Config(2), reply, &mut iv, out)
}

/// Reads a gateway's push. Returns the acknowledgement, which must be sent and kept for a
/// duplicate. Skips addresses outside `families`.
pub fn pushed(
    sa: &IsakmpSa,
    families: InnerFamilies,
    message: &Message<'_>,
    out: &mut Outbox,
) -> Result<(Lease, Sent), Fault> {
    let message_id = message_id_of(message)?;
    let mut iv = sa.first_iv(message_id);
    let opened = open(sa, message, message_id, &mut iv, out)?;
    let set = attributes(&opened, &[ConfigType::Set])?;
    out.heard(
        Step::ConfigSet,
        message.size(),
        names_read(&opened.payloads),
    );
    let taken = lease(&set.attributes, families);
    // The draft, §3.3: an acknowledgement names the accepted attributes, without values.
    let is_taken = |found: &&Attribute| {
        lent_address(found).is_some_and(|address| taken.addresses.contains(&address))
            || resolver(found).is_some_and(|address| taken.dns.contains(&address))
    };
    let ack = ConfigAttributes {
        kind: ConfigType::Ack,
        identifier: set.identifier,
        attributes: set
            .attributes
            .iter()
            .filter(is_taken)
            .map(|found| Attribute::long(found.kind, Vec::new()))
            .collect(),
    };
    let sent = seal(sa, message_id, Step::ConfigAck, ack, &mut iv, out);
    Ok((taken, sent))
}

fn message_id_of(message: &Message<'_>) -> Result<u32, Fault> {
    let header = message.header();
    // RFC 2408 §3.1: zero belongs to phase 1.
    if header.exchange != Exchange::Transaction || header.message_id == 0 {
        return Err(DropReason::UnexpectedMessage.into());
    }
    Ok(header.message_id)
}

fn open(
    sa: &IsakmpSa,
    message: &Message<'_>,
    message_id: u32,
    iv: &mut Iv,
    out: &mut Outbox,
) -> Result<Opened, Fault> {
    // The hash covers not the header, but only the message ID that we expect.
    if message_id_of(message)? != message_id {
        return Err(DropReason::UnexpectedMessage.into());
    }
    let id = message_id.to_be_bytes();
    Ok(sa.open_hashed(message, iv, &[&id], &mut out.work)?)
}

fn seal(
    sa: &IsakmpSa,
    message_id: u32,
    step: Step,
    attributes: ConfigAttributes,
    iv: &mut Iv,
    out: &mut Outbox,
) -> Sent {
    let label = Label {
        exchange: Exchange::Transaction,
        message_id,
        step,
    };
    let id = message_id.to_be_bytes();
    let chain = vec![Payload::Attributes(attributes)];
    sealed(sa, label, iv, &[&id], chain, out)
}

/// The attribute payload, if it has one of these types and no XAUTH attribute.
fn attributes<'a>(opened: &'a Opened, kinds: &[ConfigType]) -> Result<&'a ConfigAttributes, Fault> {
    let found = opened
        .payloads
        .iter()
        .find_map(|located| match &located.payload {
            Payload::Attributes(attributes) => Some(attributes),
            _ => None,
        });
    let is_xauth = |attribute: &Attribute| XAUTH_KINDS.contains(&attribute.kind);
    if found.is_some_and(|found| found.attributes.iter().any(is_xauth)) {
        return Err(Fault::Incompatible {
            what: "the peer asks for XAUTH, a user's name and password, which we do not speak"
                .into(),
            refusal: Refusal::Configuration,
        });
    }
    found
        .filter(|attributes| kinds.contains(&attributes.kind))
        .ok_or(Fault::Dropped(DropReason::UnexpectedMessage))
}

fn asks_for(request: &ConfigAttributes, kind: ConfigKind) -> bool {
    let number = kind.number();
    request.attributes.iter().any(|found| found.kind == number)
}

/// The lease in a reply or push, for the requested families.
fn lease(attributes: &[Attribute], families: InnerFamilies) -> Lease {
    let is_wanted = |address: &IpAddr| match address {
        IpAddr::V4(_) => families.v4,
        IpAddr::V6(_) => families.v6,
    };
    let mut lease = Lease {
        addresses: addresses(attributes),
        ..Lease::default()
    };
    lease.addresses.retain(is_wanted);
    let resolvers = attributes.iter().filter_map(resolver).filter(is_wanted);
    for resolver in resolvers.take(MAX_RESOLVERS) {
        if !lease.dns.contains(&resolver) {
            lease.dns.push(resolver);
        }
    }
    lease
}

/// The first address of each family.
fn addresses(attributes: &[Attribute]) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for address in attributes.iter().filter_map(lent_address) {
        let is_same_family = |held: &IpAddr| held.is_ipv4() == address.is_ipv4();
        if !found.iter().any(is_same_family) {
            found.push(address);
        }
    }
    found
}

fn lent_attributes(lease: &Lease, has_netmask: bool) -> Vec<Attribute> {
    let mut found = Vec::new();
    for address in &lease.addresses {
        let kind = match address {
            IpAddr::V4(_) => ConfigKind::InternalIp4Address,
            IpAddr::V6(_) => ConfigKind::InternalIp6Address,
        };
        found.push(attribute(kind, octets(*address)));
        if address.is_ipv4() && has_netmask {
            // One address is assigned, not a network.
            found.push(attribute(ConfigKind::InternalIp4Netmask, vec![255; 4]));
        }
    }
    for resolver in lease.dns.iter().take(MAX_RESOLVERS) {
        let kind = match resolver {
            IpAddr::V4(_) => ConfigKind::InternalIp4Dns,
            IpAddr::V6(_) => ConfigKind::InternalIp6Dns,
        };
        found.push(attribute(kind, octets(*resolver)));
    }
    found
}

/// An inner address that a host can have.
fn lent_address(attribute: &Attribute) -> Option<IpAddr> {
    let of_kind = |kind: ConfigKind| attribute.kind == kind.number();
    let v4 = of_kind(ConfigKind::InternalIp4Address);
    if !v4 && !of_kind(ConfigKind::InternalIp6Address) {
        return None;
    }
    address(attribute, v4)
}

fn resolver(attribute: &Attribute) -> Option<IpAddr> {
    let of_kind = |kind: ConfigKind| attribute.kind == kind.number();
    let v4 = of_kind(ConfigKind::InternalIp4Dns);
    if !v4 && !of_kind(ConfigKind::InternalIp6Dns) {
        return None;
    }
    address(attribute, v4)
}

/// An address of a host: 4 octets, or 16, which some peers extend with a prefix length as in IKEv2.
fn address(attribute: &Attribute, is_v4: bool) -> Option<IpAddr> {
    let octets = attribute.value.octets();
    let address: IpAddr = if is_v4 {
        Ipv4Addr::from(<[u8; 4]>::try_from(octets.as_slice()).ok()?).into()
    } else {
        let bare = octets.get(..16).filter(|_| octets.len() <= 17)?;
        Ipv6Addr::from(<[u8; 16]>::try_from(bare).ok()?).into()
    };
    is_unicast(&address).then_some(address)
}

fn attribute(kind: ConfigKind, value: Vec<u8>) -> Attribute {
    Attribute::long(kind.number(), value)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests;
