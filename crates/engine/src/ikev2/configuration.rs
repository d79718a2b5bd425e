//! The configuration payload: inner addresses and resolvers (RFC 7296 §2.19, §3.15).
//!
//! Split DNS (RFC 8598): the domains for whose names alone the resolvers are asked, and keys of
//! DNSSEC for them (INTERNAL_DNSSEC_TA). A gateway gives keys to who asks. A station asks, and
//! takes any, only for domains that its owner has listed (RFC 8598 §6): with a key a gateway could
//! speak for any domain.
//!
//! Left out: subnets, NetBIOS and DHCP servers, and application versions.

use std::net::IpAddr;

use wire::ikev2::{ConfigAttribute, ConfigKind, ConfigType, Configuration, Payload};

use crate::config::InnerFamilies;
use crate::dns::{MAX_DOMAINS, MAX_TRUST_ANCHORS, TrustAnchor, domain, is_within};
use crate::ike::{Lease, Wanted};
use crate::site::is_unicast;

/// Resolvers of a lease at most. Further ones are skipped.
pub(super) const MAX_RESOLVERS: usize = 8;

/// What stands for the domain of a key that comes without one.
const NO_DOMAIN: &str = "none";

/// A request for addresses of these families, those that we `had` before if there are any. `None`:
/// no family.
pub(super) fn request(
    families: InnerFamilies,
    had: &[IpAddr],
    wants_anchors: bool,
) -> Option<Payload> {
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
    if wants_anchors {
        attributes.push(ConfigAttribute::request(ConfigKind::InternalDnssecTa));
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
    let wants_domains = has(ConfigKind::InternalDnsDomain);
    is_request.then(|| Wanted {
        families,
        addresses: addresses(configuration),
        wants_domains,
        // Who asks for keys must ask for domains as well (RFC 8598 §3.1).
        wants_anchors: wants_domains && has(ConfigKind::InternalDnssecTa),
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
    let domains = domains.flat_map(|domain| {
        // Its keys come right after it (RFC 8598 §3.2).
        let keys = lease.trust_anchors.iter();
        let keys = keys.filter(move |it| it.domain == *domain);
        let keys = keys.map(|it| ConfigAttribute::trust_anchor(&it.signer));
        core::iter::once(ConfigAttribute::domain(domain)).chain(keys)
    });
    payload(ConfigType::Reply, lent.chain(dns).chain(domains).collect())
}

/// The lease of a reply, for the requested families. `listed`: domains for which we take keys.
pub(super) fn lease(
    configuration: &Configuration,
    families: InnerFamilies,
    listed: &[String],
) -> Lease {
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
    if !listed.is_empty() {
        lease.take_anchors(configuration, listed);
    }
    lease
}

impl Lease {
    /// Takes the keys of accepted domains that are listed, or below a listed one. All others are
    /// ignored (RFC 8598 §6), and a malformed one never ends a session.
    fn take_anchors(&mut self, configuration: &Configuration, listed: &[String]) {
        let mut last: Option<String> = None;
        for attribute in &configuration.attributes {
            match attribute.kind {
                ConfigKind::InternalDnsDomain => last = attribute.to_domain().and_then(domain),
                ConfigKind::InternalDnssecTa => self.take_anchor(attribute, last.clone(), listed),
                // A key is about the domain right before it and its keys (RFC 8598 §4.2).
                _ => last = None,
            }
        }
    }

    fn take_anchor(
        &mut self,
        attribute: &ConfigAttribute,
        domain: Option<String>,
        listed: &[String],
    ) {
        let accepted = domain.filter(|it| self.domains.contains(it));
        let anchor = accepted.as_ref().filter(|it| is_within(it, listed));
        let anchor = anchor.and_then(|domain| {
            Some(TrustAnchor {
                domain: domain.clone(),
                signer: attribute.to_trust_anchor()?,
            })
        });
        match anchor {
            Some(anchor) if self.trust_anchors.contains(&anchor) => {}
            Some(anchor) if self.trust_anchors.len() < MAX_TRUST_ANCHORS => {
                self.trust_anchors.push(anchor);
            }
            _ => {
                let of = accepted.unwrap_or_else(|| NO_DOMAIN.to_owned());
                if !self.refused_anchors.contains(&of) {
                    self.refused_anchors.push(of);
                }
            }
        }
    }
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
    use proptest::prelude::*;

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
        let asked = inside(request(BOTH, &had, false).expect("a request"));
        let wanted = wanted(&asked).expect("read");
        assert_eq!(wanted.families, BOTH);
        assert_eq!(wanted.addresses, had);
        assert!(request(InnerFamilies::default(), &had, true).is_none());
    }

    #[test]
    fn a_reply_gives_what_was_requested_and_no_more() {
        let lent = Lease {
            addresses: vec![ip("10.9.0.7"), ip("2001:db8::7")],
            dns: vec![ip("10.9.0.1"), ip("2001:db8::1"), ip("10.9.0.1")],
            domains: vec!["corp.example".into()],
            ..Lease::default()
        };
        let reply = inside(reply(&lent));
        let read = lease(&reply, BOTH, &[]);
        assert_eq!(read.addresses, lent.addresses);
        assert_eq!(read.dns, lent.dns[..2]);
        assert_eq!(read.domains, lent.domains);
        let v4 = InnerFamilies {
            v4: true,
            v6: false,
        };
        assert_eq!(lease(&reply, v4, &[]).addresses, [ip("10.9.0.7")]);
        assert_eq!(lease(&reply, v4, &[]).dns, [ip("10.9.0.1")]);
        // A reply is no request, and a lease of the unspecified address is none.
        assert_eq!(wanted(&reply), None);
        let nowhere = Lease {
            addresses: vec![ip("0.0.0.0")],
            ..Lease::default()
        };
        assert!(
            lease(&inside(super::reply(&nowhere)), BOTH, &[])
                .addresses
                .is_empty()
        );
    }

    fn domains_of(names: &[&str]) -> Vec<String> {
        let lent = Lease {
            addresses: vec![ip("10.9.0.7")],
            dns: vec![ip("10.9.0.1")],
            domains: names.iter().map(|it| (*it).to_owned()).collect(),
            ..Lease::default()
        };
        lease(&inside(reply(&lent)), BOTH, &[]).domains
    }

    #[test]
    fn domains_are_taken_all_or_none() {
        let asked = inside(request(BOTH, &[], false).expect("a request"));
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
            ..Lease::default()
        };
        let reply = inside(reply(&unasked));
        assert_eq!(reply.attributes.len(), 1, "nobody to ask");
    }

    /// Three domains, and two keys of the first and one of the second.
    fn signed() -> Lease {
        let anchor = |text: &str| text.parse().unwrap();
        let digest = "07".repeat(32);
        Lease {
            addresses: vec![ip("10.9.0.7")],
            dns: vec![ip("10.9.0.1")],
            domains: ["corp.example", "lab.example", "a.corp.example"]
                .map(str::to_owned)
                .into(),
            trust_anchors: vec![
                anchor(&format!("corp.example 1 13 2 {digest}")),
                anchor(&format!("lab.example 2 13 2 {digest}")),
                anchor(&format!("corp.example 3 13 2 {digest}")),
            ],
            ..Lease::default()
        }
    }

    fn taken(reply: &Configuration, listed: &[&str]) -> (Vec<String>, Vec<String>) {
        let listed: Vec<String> = listed.iter().map(|it| (*it).to_owned()).collect();
        let lease = lease(reply, BOTH, &listed);
        let keys = lease.trust_anchors.iter();
        let brief = |it: &TrustAnchor| {
            let signer = it.signer.to_string();
            let tag = signer.split(' ').next().unwrap_or_default();
            format!("{} {tag}", it.domain)
        };
        (keys.map(brief).collect(), lease.refused_anchors)
    }

    #[test]
    fn keys_of_dnssec_are_asked_for_with_a_list_and_with_domains() {
        let asks = |configuration: &Configuration| {
            let wanted = wanted(configuration).expect("read");
            (wanted.wants_domains, wanted.wants_anchors)
        };
        let plain = inside(request(BOTH, &[], false).expect("a request"));
        assert_eq!(asks(&plain), (true, false));
        let mut asked = inside(request(BOTH, &[], true).expect("a request"));
        assert_eq!(asks(&asked), (true, true));
        asked
            .attributes
            .retain(|it| it.kind != ConfigKind::InternalDnsDomain);
        assert_eq!(asks(&asked), (false, false));
    }

    #[test]
    fn keys_of_dnssec_follow_their_domain() {
        let reply = inside(reply(&signed()));
        let kinds: Vec<ConfigKind> = reply.attributes.iter().map(|it| it.kind).collect();
        let (domain, key) = (ConfigKind::InternalDnsDomain, ConfigKind::InternalDnssecTa);
        assert_eq!(kinds[2..], [domain, key, key, domain, key, domain]);
        let read = lease(&reply, BOTH, &signed().domains);
        assert_eq!(read.refused_anchors, [""; 0]);
        let mut expected = signed().trust_anchors;
        expected.swap(1, 2);
        assert_eq!(read.trust_anchors, expected);
    }

    #[test]
    fn keys_of_dnssec_are_taken_for_listed_domains_alone() {
        let reply = inside(reply(&signed()));
        let all = ["corp.example 1", "corp.example 3", "lab.example 2"];
        let none = || (vec![], vec![]);
        assert_eq!(taken(&reply, &[]), none());
        let of = |keys: &[&str], refused: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            (owned(keys), owned(refused))
        };
        assert_eq!(taken(&reply, &["example"]), of(&all, &[]));
        let corp = of(&all[..2], &["lab.example"]);
        assert_eq!(taken(&reply, &["corp.example"]), corp);
        let neither = of(&[], &["corp.example", "lab.example"]);
        assert_eq!(taken(&reply, &["a.corp.example", "ab.example"]), neither);
        // No domain counts if one of them is no name, and then no key does.
        let mut torn = reply.clone();
        torn.attributes.push(ConfigAttribute::domain("a b"));
        assert_eq!(taken(&torn, &["example"]), of(&[], &["none"]));
    }

    #[test]
    fn malformed_and_lost_keys_of_dnssec_are_ignored() {
        let good = inside(reply(&signed()));
        let key = |value: &[u8]| ConfigAttribute {
            kind: ConfigKind::InternalDnssecTa,
            value: value.to_vec(),
        };
        let with = |at: usize, attribute: ConfigAttribute| {
            let mut reply = good.clone();
            reply.attributes.insert(at, attribute);
            taken(&reply, &["example"])
        };
        let (all, _) = taken(&good, &["example"]);
        // RFC 8598 §4.2: key tag, algorithm, digest type and digest.
        let long = [&[0, 9, 13, 2][..], &[7; 33]].concat();
        let odd = [&[0, 9, 13, 3][..], &[7; 32]].concat();
        let all_bad: [&[u8]; 5] = [&[], &[0, 9, 13], &long[..4], &long, &odd];
        for bad in all_bad {
            let (keys, refused) = with(4, key(bad));
            assert_eq!(
                (keys, refused),
                (all.clone(), vec!["corp.example".to_owned()])
            );
        }
        let stray = key(&long[..36]);
        let (keys, refused) = with(0, stray.clone());
        assert_eq!((keys, refused), (all.clone(), vec!["none".to_owned()]));
        // Something else between the domain and its key.
        let subnet = ConfigAttribute::subnet(ip("10.1.0.0"), 16);
        let mut reply = good.clone();
        reply.attributes.splice(8..8, [subnet, stray]);
        assert_eq!(taken(&reply, &["example"]), (all, vec!["none".to_owned()]));
    }

    #[test]
    fn more_keys_of_dnssec_than_a_lease_may_have_are_ignored() {
        let mut lent = signed();
        let anchor = |tag: usize| format!("corp.example {tag} 13 1 {}", "07".repeat(20));
        let many = (0..=MAX_TRUST_ANCHORS).map(|tag| anchor(tag).parse().unwrap());
        lent.trust_anchors = many.collect();
        let reply = inside(reply(&lent));
        let (keys, refused) = taken(&reply, &["corp.example"]);
        assert_eq!(keys.len(), MAX_TRUST_ANCHORS);
        assert_eq!(refused, ["corp.example"]);
        let mut twice = signed();
        twice.trust_anchors.extend(signed().trust_anchors);
        let read = lease(&inside(super::reply(&twice)), BOTH, &signed().domains);
        assert_eq!(read.trust_anchors.len(), 3);
    }

    /// Domains, keys, and now and then something else.
    fn attribute() -> impl Strategy<Value = ConfigAttribute> {
        let names = vec![
            "corp.example",
            "a.corp.example",
            "lab.example",
            "Corp.Example.",
        ];
        let domain = prop::sample::select(names).prop_map(ConfigAttribute::domain);
        let key = (0u8..5, 0usize..60).prop_map(|(kind, len)| ConfigAttribute {
            kind: ConfigKind::InternalDnssecTa,
            value: [&[0, 1, 13, kind][..], &vec![7; len][..]].concat(),
        });
        let good = any::<[u8; 32]>().prop_map(|digest| ConfigAttribute {
            kind: ConfigKind::InternalDnssecTa,
            value: [&[0, 1, 13, 2][..], &digest].concat(),
        });
        let other = (0u16..30, prop::collection::vec(any::<u8>(), 0..20));
        let other = other.prop_map(|(kind, value)| ConfigAttribute {
            kind: kind.into(),
            value,
        });
        prop_oneof![8 => domain, 4 => key, 8 => good, 1 => other]
    }

    proptest! {
        #[test]
        fn whatever_a_gateway_says_no_key_is_of_a_domain_that_is_not_listed(
            attributes in prop::collection::vec(attribute(), 0..40)
        ) {
            let resolver = ConfigAttribute::address(ConfigKind::InternalIp4Dns, ip("10.9.0.1"));
            let attributes = [vec![resolver], attributes].concat();
            let reply = Configuration { kind: ConfigType::Reply, attributes };
            let read = lease(&reply, BOTH, &["corp.example".to_owned()]);
            prop_assert!(read.trust_anchors.len() <= MAX_TRUST_ANCHORS);
            prop_assert!(read.refused_anchors.len() <= MAX_DOMAINS + 1);
            for anchor in &read.trust_anchors {
                prop_assert!(read.domains.contains(&anchor.domain));
                prop_assert!(anchor.domain.ends_with("corp.example"));
            }
        }
    }
}
