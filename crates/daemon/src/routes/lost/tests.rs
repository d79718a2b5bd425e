use std::collections::BTreeSet;

use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::rule::RuleAttribute;

use super::*;
use crate::routes::Rule;
use crate::routes::full::Purpose;

fn rule(purpose: Purpose) -> Rule {
    Rule {
        purpose,
        is_ipv6: false,
        fwmark: 7,
        table: 221,
    }
}

/// As the kernel reports it: with attributes that nobody has set.
fn reported(rule: &Rule) -> RuleMessage {
    let mut message = netlink::rule_message(rule);
    let more = [
        RuleAttribute::SuppressPrefixLen(u32::MAX),
        RuleAttribute::Protocol(rtnetlink::packet_route::route::RouteProtocol::Unspec),
    ];
    message.attributes.extend(more);
    message
}

#[test]
fn only_a_rule_of_ours_is_put_back() {
    let visitor = |link: &str| {
        rule(Purpose::Visitor {
            home: [10, 18, 3, 17].into(),
            link: link.to_owned(),
        })
    };
    let all = [rule(Purpose::Tunnel), visitor("eth1"), visitor("eth2")];
    for one in &all {
        let found = reported(one);
        assert!(netlink::has_our_priority(&found));
        let same: Vec<_> = all.iter().filter(|it| netlink::is_of(&found, it)).collect();
        assert_eq!(same, [one]);
    }
    let mut strange = reported(&all[0]);
    strange
        .attributes
        .retain(|it| !matches!(it, RuleAttribute::Priority(_)));
    strange.attributes.push(RuleAttribute::Priority(5000));
    let mut removed = Removed::default();
    let message = RouteNetlinkMessage::DelRule(strange);
    removed.note(NetlinkPayload::InnerMessage(message));
    assert!(removed.is_empty());
    let message = RouteNetlinkMessage::DelRule(reported(&all[0]));
    removed.note(NetlinkPayload::InnerMessage(message));
    assert!(!removed.is_empty());
}

/// Another process may have the same priority and table for another link, or for all.
#[test]
fn a_rule_names_its_interface_although_that_is_gone() {
    let one = rule(Purpose::Arrived {
        link: "no-such-device".to_owned(),
    });
    let message = netlink::rule_message(&one);
    let name = RuleAttribute::Iifname("no-such-device".to_owned());
    assert!(message.attributes.contains(&name));
}

#[test]
fn blocking_routes_are_noted_and_many_mean_all() {
    let block = |text: &str| {
        let to: Prefix = text.parse().unwrap();
        let message = RouteMessageBuilder::<std::net::IpAddr>::new()
            .destination_prefix(to.address, to.length)
            .unwrap()
            .kind(RouteType::Unreachable);
        RouteNetlinkMessage::DelRoute(message.build())
    };
    let mut removed = Removed::default();
    for text in ["10.0.0.0/8", "0.0.0.0/0", "::/0"] {
        removed.note(NetlinkPayload::InnerMessage(block(text)));
    }
    let expected: BTreeSet<Prefix> = ["10.0.0.0/8", "0.0.0.0/0", "::/0"]
        .map(|it| it.parse().unwrap())
        .into();
    assert_eq!(removed.blocks, expected);
    let ordinary = RouteNetlinkMessage::DelRoute(RouteMessage::default());
    removed.note(NetlinkPayload::InnerMessage(ordinary));
    assert_eq!(removed.blocks.len(), 3);
    for number in 0..REMOVALS_MAX as u32 {
        let host = std::net::Ipv4Addr::from(number);
        removed.note(NetlinkPayload::InnerMessage(block(&format!("{host}/32"))));
    }
    assert!(removed.may_be_all && removed.blocks.len() < REMOVALS_MAX);
}
