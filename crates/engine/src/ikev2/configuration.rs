//! The configuration payload: inner addresses and resolvers (RFC 7296 §2.19, §3.15).
//!
//! Left out: subnets, NetBIOS and DHCP servers, application versions, and split DNS (RFC 8598),
//! whose domains are not used.

use std::net::IpAddr;

use wire::ikev2::{ConfigAttribute, ConfigKind, ConfigType, Configuration, Payload};

use crate::config::InnerFamilies;
use crate::ike::{Lease, Wanted};
use crate::site::is_unicast;

/// Resolvers of a lease at most. Further ones are skipped.
pub(super) const MAX_RESOLVERS: usize = 8;

/// A request for addresses of these families, those that we `had` before if there are any. `None`:
/// no family.
pub(super) fn request(families: InnerFamilies, had: &[IpAddr]) -> Option<Payload> {
    let ask = |kind: ConfigKind, is_v4: bool| {
        let last = had.iter().find(|it| it.is_ipv4() == is_v4);
        last.map_or(ConfigAttribute::request(kind), |it| {
            ConfigAttribute::address(kind, *it)
        })
    };
    let mut attributes = Vec::new();
    if families.v4 {
        attributes.push(ask(ConfigKind::InternalIp4Address, true));
        attributes.push(ConfigAttribute::request(ConfigKind::InternalIp4Dns));
    }
    if families.v6 {
        attributes.push(ask(ConfigKind::InternalIp6Address, false));
        attributes.push(ConfigAttribute::request(ConfigKind::InternalIp6Dns));
    }
    families
        .is_any()
        .then(|| payload(ConfigType::Request, attributes))
}

/// What a peer requests; `None` for anything but a request for addresses.
pub(super) fn wanted(configuration: &Configuration) -> Option<Wanted> {
    let has = |kind| configuration.attributes.iter().any(|it| it.kind == kind);
    let families = InnerFamilies {
        v4: has(ConfigKind::InternalIp4Address),
        v6: has(ConfigKind::InternalIp6Address),
    };
    let is_request = configuration.kind == ConfigType::Request && families.is_any();
    is_request.then(|| Wanted {
        families,
        addresses: addresses(configuration),
    })
}

/// The reply with a lease. It names what was assigned, and the resolvers.
pub(super) fn reply(lease: &Lease) -> Payload {
    let address = |it: &IpAddr| {
        let kind = match it {
            IpAddr::V4(_) => ConfigKind::InternalIp4Address,
            IpAddr::V6(_) => ConfigKind::InternalIp6Address,
        };
        ConfigAttribute::address(kind, *it)
    };
    let resolver = |it: &IpAddr| {
        let kind = match it {
            IpAddr::V4(_) => ConfigKind::InternalIp4Dns,
            IpAddr::V6(_) => ConfigKind::InternalIp6Dns,
        };
        ConfigAttribute::address(kind, *it)
    };
    let lent = lease.addresses.iter().map(address);
    let dns = lease.dns.iter().take(MAX_RESOLVERS).map(resolver);
    payload(ConfigType::Reply, lent.chain(dns).collect())
}

/// The lease of a reply, for the requested families.
pub(super) fn lease(configuration: &Configuration, families: InnerFamilies) -> Lease {
    let mut lease = Lease {
        addresses: addresses(configuration),
        dns: Vec::new(),
    };
    let is_wanted = |it: &IpAddr| families.has(it.is_ipv4());
    lease.addresses.retain(is_wanted);
    let is_resolver = |it: &&ConfigAttribute| {
        matches!(
            it.kind,
            ConfigKind::InternalIp4Dns | ConfigKind::InternalIp6Dns
        )
    };
    let named = configuration.attributes.iter().filter(is_resolver);
    let named = named.filter_map(host).filter(is_wanted);
    for resolver in named.take(MAX_RESOLVERS) {
        if !lease.dns.contains(&resolver) {
            lease.dns.push(resolver);
        }
    }
    lease
}

/// The first address of each family.
fn addresses(configuration: &Configuration) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for attribute in &configuration.attributes {
        let is_address = matches!(
            attribute.kind,
            ConfigKind::InternalIp4Address | ConfigKind::InternalIp6Address
        );
        let Some(address) = host(attribute).filter(|_| is_address) else {
            continue;
        };
        if !found.iter().any(|it| it.is_ipv4() == address.is_ipv4()) {
            found.push(address);
        }
    }
    found
}

/// An address that a host can have.
fn host(attribute: &ConfigAttribute) -> Option<IpAddr> {
    attribute.to_address().filter(is_unicast)
}

fn payload(kind: ConfigType, attributes: Vec<ConfigAttribute>) -> Payload {
    Payload::Configuration(Configuration { kind, attributes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn inside(payload: Payload) -> Configuration {
        match payload {
            Payload::Configuration(inside) => inside,
            other => panic!("{other:?}"),
        }
    }

    const BOTH: InnerFamilies = InnerFamilies { v4: true, v6: true };

    #[test]
    fn a_request_is_read_as_it_was_meant() {
        let had = [ip("10.9.0.7")];
        let asked = inside(request(BOTH, &had).expect("a request"));
        let wanted = wanted(&asked).expect("read");
        assert_eq!(wanted.families, BOTH);
        assert_eq!(wanted.addresses, had);
        assert!(request(InnerFamilies::default(), &had).is_none());
    }

    #[test]
    fn a_reply_gives_what_was_requested_and_no_more() {
        let lent = Lease {
            addresses: vec![ip("10.9.0.7"), ip("2001:db8::7")],
            dns: vec![ip("10.9.0.1"), ip("2001:db8::1"), ip("10.9.0.1")],
        };
        let reply = inside(reply(&lent));
        let read = lease(&reply, BOTH);
        assert_eq!(read.addresses, lent.addresses);
        assert_eq!(read.dns, lent.dns[..2]);
        let v4 = InnerFamilies {
            v4: true,
            v6: false,
        };
        assert_eq!(lease(&reply, v4).addresses, [ip("10.9.0.7")]);
        assert_eq!(lease(&reply, v4).dns, [ip("10.9.0.1")]);
        // A reply is no request, and a lease of the unspecified address is none.
        assert_eq!(wanted(&reply), None);
        let nowhere = Lease {
            addresses: vec![ip("0.0.0.0")],
            dns: Vec::new(),
        };
        assert!(
            lease(&inside(super::reply(&nowhere)), BOTH)
                .addresses
                .is_empty()
        );
    }
}
