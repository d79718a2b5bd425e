use proptest::prelude::*;
use wire::isakmp::{Identification, IdentificationType};

use super::*;
use crate::ikev1::identification::NoIkev1Form;

fn selector(text: &str) -> TrafficSelector {
    text.parse().unwrap()
}

#[test]
fn reads_and_prints_swanctls_words() {
    for text in [
        "10.10.0.0/24",
        "10.0.0.1",
        "10.0.0.1-10.0.0.9",
        "10.1.0.0/16[tcp/80]",
        "10.1.0.0/16[tcp/1000-2000]",
        "10.1.0.0/16[udp/0-1023]",
        "10.1.0.1[udp]",
        "0.0.0.0/0",
        "::/0",
        "2001:db8::/32[ipv6-icmp]",
        "2001:db8::1-2001:db8::8[47]",
    ] {
        assert_eq!(selector(text).to_string(), text);
    }
    assert_eq!(selector("10.1.2.3/16").to_string(), "10.1.0.0/16");
    assert_eq!(selector("10.0.0.0-10.0.0.255").to_string(), "10.0.0.0/24");
    assert_eq!(selector("10.0.0.1/32[any]").to_string(), "10.0.0.1");
    assert_eq!(
        selector("10.0.0.1[tcp/0-65535]").to_string(),
        "10.0.0.1[tcp]"
    );
    assert_eq!(selector("10.0.0.1[tcp/7-7]").to_string(), "10.0.0.1[tcp/7]");
    assert_eq!(TrafficSelector::parse("dynamic"), Ok(None));
}

#[test]
fn refuses_with_a_sentence() {
    for (text, part) in [
        ("10.0.0.0/33", "33 bits is longer than the 32"),
        ("10.0.0.9-10.0.0.1", "does not follow"),
        ("10.0.0.9-::1", "does not follow"),
        ("10.0.0.256", "is not ADDRESS"),
        ("", "is not ADDRESS"),
        ("10.0.0.1[tcp/80", "brackets hold"),
        ("10.0.0.1[any/80]", "brackets hold"),
        ("10.0.0.1[tcp/65536]", "brackets hold"),
        ("10.0.0.1[tcp/9-8]", "brackets hold"),
        ("10.0.0.1[tcp/0-0]", "brackets hold"),
        ("10.0.0.1[tcp/8-]", "brackets hold"),
        ("10.0.0.1[8-9]", "brackets hold"),
        ("10.0.0.1[icmp/8]", "ICMP has no ports"),
        ("dynamic[tcp]", "brackets hold"),
        ("dynamic", "not known here"),
    ] {
        let fault = text.parse::<TrafficSelector>().unwrap_err().to_string();
        assert!(fault.contains(part), "{text}: {fault}");
    }
}

#[test]
fn contains_packets_and_selectors() {
    let web = selector("10.1.0.0/16[tcp/80]");
    assert!(web.takes(6, Some(80)));
    assert!(!web.takes(17, Some(80)));
    assert!(!web.takes(6, Some(0)));
    assert!(!web.takes(6, None));
    let high = selector("10.1.0.0/16[tcp/1000-2000]");
    let taken = |port| high.takes(6, Some(port));
    assert!(taken(1000) && taken(2000) && !taken(999) && !taken(2001));
    assert!(!high.takes(6, None) && !high.takes(17, Some(1500)));
    assert!(selector("10.1.0.0/16[tcp]").contains(&high));
    assert!(high.contains(&selector("10.1.0.0/16[tcp/1000-1999]")));
    assert!(!high.contains(&selector("10.1.0.0/16[tcp/80]")));
    assert!(!high.contains(&selector("10.1.0.0/16[tcp/999-1001]")));
    assert!(web.contains_address("10.1.2.3".parse().unwrap()));
    assert!(!web.contains_address("10.2.0.0".parse().unwrap()));
    assert!(selector("10.1.0.0/16").contains(&web));
    assert!(!web.contains(&selector("10.1.0.0/16")));
    assert!(!selector("::/0").contains(&web));
    assert!(!selector("0.0.0.0/0").contains_address("::1".parse().unwrap()));
}

#[test]
fn intersects() {
    let both = |a: &str, b: &str| {
        let (a, b) = (selector(a), selector(b));
        a.intersection(&b).map(|found| found.to_string())
    };
    assert_eq!(
        both("10.0.0.0/8[tcp]", "10.1.0.0/16").as_deref(),
        Some("10.1.0.0/16[tcp]")
    );
    assert_eq!(both("10.0.0.0/24", "10.0.1.0/24"), None);
    assert_eq!(both("10.0.0.0/24[tcp]", "10.0.0.0/24[udp]"), None);
    assert_eq!(both("0.0.0.0/0", "::/0"), None);
    assert_eq!(
        both("10.0.0.0/8[tcp/1-1023]", "10.0.0.0/8[tcp/1000-2000]").as_deref(),
        Some("10.0.0.0/8[tcp/1000-1023]")
    );
    assert_eq!(
        both("10.0.0.0/8[tcp/1-99]", "10.0.0.0/8[tcp/100-200]"),
        None
    );
    assert_eq!(
        both("10.0.0.1[tcp/80]", "10.0.0.1[tcp/1-99]").as_deref(),
        Some("10.0.0.1[tcp/80]")
    );
}

#[test]
fn travels_as_the_shortest_identification() {
    for (text, kind) in [
        ("10.0.0.1", IdentificationType::Ipv4Addr),
        ("10.0.0.0/24[tcp/80]", IdentificationType::Ipv4AddrSubnet),
        ("10.0.0.1-10.0.0.9", IdentificationType::Ipv4AddrRange),
        ("::1", IdentificationType::Ipv6Addr),
        ("2001:db8::/32", IdentificationType::Ipv6AddrSubnet),
        ("::1-::9[udp/53]", IdentificationType::Ipv6AddrRange),
    ] {
        let id = selector(text).to_identification().unwrap();
        assert_eq!(id.kind, kind);
        assert_eq!(
            TrafficSelector::from_identification(&id),
            Some(selector(text))
        );
    }
    let fqdn = Identification::of(IdentificationType::Fqdn, "x");
    assert_eq!(TrafficSelector::from_identification(&fqdn), None);
    let with_hole = [10, 0, 0, 0, 255, 0, 255, 0];
    let with_hole = Identification::of(IdentificationType::Ipv4AddrSubnet, with_hole);
    assert_eq!(TrafficSelector::from_identification(&with_hole), None);
    let port_alone = Identification::address("10.0.0.1".parse().unwrap()).with_port(0, 80);
    assert_eq!(TrafficSelector::from_identification(&port_alone), None);
}

#[test]
fn what_ikev1_cannot_say_is_refused_by_its_name() {
    let some_ports = selector("10.0.0.0/24[tcp/80-90]");
    let refused = Err(NoIkev1Form::Ports(some_ports));
    assert_eq!(some_ports.to_identification(), refused);
    let families = TrafficSelector {
        last: "2001:db8::1".parse().unwrap(),
        ..selector("10.0.0.1")
    };
    let refused = Err(NoIkev1Form::Families(families));
    assert_eq!(families.to_identification(), refused);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-f:./\\[\\]tcpudp -]{0,40}") {
        if let Ok(Some(selector)) = TrafficSelector::parse(&text) {
            prop_assert_eq!(selector.to_string().parse(), Ok(selector));
        }
    }

    #[test]
    fn every_selector_survives_text_and_payload(
        (a, b) in any::<(u32, u32)>(), protocol: u8, port: u16, more: u16, bits in 0_u8..=32,
    ) {
        let (low, high) = (a.min(b), a.max(b));
        let has_ports = ![0, 1, 58].contains(&protocol);
        let ports = Ports::range(port, port.saturating_add(more)).filter(|_| has_ports);
        let range = TrafficSelector {
            first: IpAddr::from(low.to_be_bytes()),
            last: IpAddr::from(high.to_be_bytes()),
            protocol,
            ports: ports.unwrap_or(Ports::ANY),
        };
        let subnet = TrafficSelector::subnet(range.first, bits);
        for selector in [range, subnet] {
            prop_assert_eq!(selector.to_string().parse(), Ok(selector));
            prop_assert_eq!(
                TrafficSelector::from_ikev2(&selector.to_ikev2()),
                Some(selector)
            );
            if selector.ports.to_ikev1().is_some() {
                let id = selector.to_identification().unwrap();
                prop_assert_eq!(TrafficSelector::from_identification(&id), Some(selector));
            }
        }
        if let Some(both) = range.intersection(&subnet) {
            prop_assert!(range.contains(&both) && subnet.contains(&both));
        }
    }

    #[test]
    fn every_v6_subnet_survives(number: u128, bits in 0_u8..=128) {
        let selector = TrafficSelector::subnet(IpAddr::from(number.to_be_bytes()), bits);
        prop_assert_eq!(selector.prefix_len(), Some(bits));
        prop_assert_eq!(selector.to_string().parse(), Ok(selector));
        let id = selector.to_identification().unwrap();
        prop_assert_eq!(TrafficSelector::from_identification(&id), Some(selector));
    }
}
