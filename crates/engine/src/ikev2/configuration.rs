//! The configuration payload: inner addresses and resolvers (RFC 7296 §2.19, §3.15).
//!
//! Split DNS (RFC 8598): the domains for whose names alone the resolvers are asked. Keys for DNSSEC
//! (INTERNAL_DNSSEC_TA) are neither requested, given nor used: a client that has no list of domains
//! for which it takes them must not use any (RFC 8598 §6), and there is no such list here. The
//! host's resolver would take a key for all programs, so a gateway could speak for any domain.
//!
//! Left out: subnets, NetBIOS and DHCP servers, and application versions.

use std::net::IpAddr;

use wire::ikev2::{ConfigAttribute, ConfigKind, ConfigType, Configuration, Payload};

use crate::config::InnerFamilies;
use crate::ike::{Lease, MAX_DOMAINS, Wanted, domain};
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
    attributes.push(ConfigAttribute::request(ConfigKind::InternalDnsDomain));
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
        wants_domains: has(ConfigKind::InternalDnsDomain),
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
    // Without resolvers there is nobody to ask (RFC 8598 §3.2).
    let domains = lease.domains.iter().filter(|_| !lease.dns.is_empty());
    let domains = domains.map(|it| ConfigAttribute::domain(it));
    payload(ConfigType::Reply, lent.chain(dns).chain(domains).collect())
}

/// The lease of a reply, for the requested families.
pub(super) fn lease(configuration: &Configuration, families: InnerFamilies) -> Lease {
    let mut lease = Lease {
        addresses: addresses(configuration),
        ..Lease::default()
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
    if !lease.dns.is_empty() {
        lease.domains = domains(configuration);
    }
    lease
}

/// The domains, in lower case, without repetitions; empty if they are too many, or one is no name.
fn domains(configuration: &Configuration) -> Vec<String> {
    let is_domain = |it: &&ConfigAttribute| it.kind == ConfigKind::InternalDnsDomain;
    let mut found: Vec<String> = Vec::new();
    for attribute in configuration.attributes.iter().filter(is_domain) {
        let Some(name) = attribute.to_domain().and_then(domain) else {
            return Vec::new();
        };
        if !found.contains(&name) {
            found.push(name);
        }
    }
    match found.len() > MAX_DOMAINS {
        true => Vec::new(),
        false => found,
    }
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
            domains: vec!["corp.example".into()],
        };
        let reply = inside(reply(&lent));
        let read = lease(&reply, BOTH);
        assert_eq!(read.addresses, lent.addresses);
        assert_eq!(read.dns, lent.dns[..2]);
        assert_eq!(read.domains, lent.domains);
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
            ..Lease::default()
        };
        assert!(
            lease(&inside(super::reply(&nowhere)), BOTH)
                .addresses
                .is_empty()
        );
    }

    fn domains_of(names: &[&str]) -> Vec<String> {
        let lent = Lease {
            addresses: vec![ip("10.9.0.7")],
            dns: vec![ip("10.9.0.1")],
            domains: names.iter().map(|it| (*it).to_owned()).collect(),
        };
        lease(&inside(reply(&lent)), BOTH).domains
    }

    #[test]
    fn domains_are_taken_all_or_none() {
        let asked = inside(request(BOTH, &[]).expect("a request"));
        assert!(wanted(&asked).expect("read").wants_domains);
        let two = ["Corp.Example.", "corp.example", "_sip.lab.example"];
        assert_eq!(domains_of(&two), ["corp.example", "_sip.lab.example"]);
        // With a part of them, names of the others would be asked for outside.
        for bad in [
            "",
            ".",
            "a..example",
            "-a.example",
            "a b",
            "\u{e4}.example",
            &"x".repeat(64),
        ] {
            assert_eq!(domains_of(&["corp.example", bad]), [""; 0], "{bad:?}");
        }
        let many: Vec<String> = (0..=MAX_DOMAINS).map(|n| format!("d{n}.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(domains_of(&many[..MAX_DOMAINS]).len(), MAX_DOMAINS);
        assert_eq!(domains_of(&many).len(), 0);
        let unasked = Lease {
            addresses: vec![ip("10.9.0.7")],
            dns: Vec::new(),
            domains: vec!["corp.example".into()],
        };
        let reply = inside(reply(&unasked));
        assert_eq!(reply.attributes.len(), 1, "nobody to ask");
    }

    #[test]
    fn keys_for_dnssec_are_not_requested_given_or_used() {
        let is_key = |it: &ConfigAttribute| it.kind == ConfigKind::InternalDnssecTa;
        let asked = inside(request(BOTH, &[ip("10.9.0.7")]).expect("a request"));
        assert!(!asked.attributes.iter().any(is_key));
        // Who asks for them gets the same answer as others.
        let mut asks = asked.clone();
        let wish = ConfigAttribute::request(ConfigKind::InternalDnssecTa);
        asks.attributes.push(wish);
        assert_eq!(wanted(&asks), wanted(&asked));
        // RFC 8598 §4.2: key tag, algorithm, digest type and digest, after the domain.
        let lent = Lease {
            addresses: vec![ip("10.9.0.7")],
            dns: vec![ip("10.9.0.1")],
            domains: vec!["corp.example".into(), "lab.example".into()],
        };
        let plain = inside(reply(&lent));
        assert!(!plain.attributes.iter().any(is_key));
        let mut with_keys = plain.clone();
        for at in (1..=plain.attributes.len()).rev() {
            let key = ConfigAttribute {
                kind: ConfigKind::InternalDnssecTa,
                value: [&[0x4F, 0x66, 13, 2][..], &[7; 32]].concat(),
            };
            with_keys.attributes.insert(at, key);
        }
        assert_eq!(lease(&with_keys, BOTH), lent);
    }
}
