//! What a part in Mobile IPv4 needs of its host, beyond what it sets itself.

use std::net::Ipv4Addr;

use engine::firewall::access::Origin;
use engine::selector::TrafficSelector;

use crate::config::{FirewallSetup, Mobility, VisitedLink};
use crate::interfaces::{Entry, entries};
use crate::routes::watch::address_towards;
use crate::routes::{self, next_hop, roaming};
use crate::status::MobilityStatus;

/// Under another name, or without its address, nothing would be told apart outside: refuse to run.
pub(super) fn check_outside(setup: &FirewallSetup) -> anyhow::Result<()> {
    let (link, outside) = (&setup.outside_interface, setup.config.outside);
    let found = entries()?;
    anyhow::ensure!(
        is_there(&found, outside, Some(link)),
        "firewall.outside_interface: no interface {link} has the address {outside}: `ip address` \
         shows which one has it"
    );
    Ok(())
}

/// Any address that is not near: one that only measurements in laboratories use (RFC 2544 §C.2.2).
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Bindings whose routes are looked up for one status, and those without a route that it names.
const LOOKED_UP_MAX: usize = 256;
const NAMED_MAX: usize = 8;

/// What is missing. It may still come: addresses often do after a start. `tun`: our own device,
/// whose addresses are not those of links.
pub(in crate::run) fn missing(mobility: &Mobility, tun: &str) -> Vec<String> {
    let found = links(tun);
    let mut texts = Vec::new();
    let mut need = |key: &str, address, link: Option<&str>, what_happens: &str| {
        if !is_there(&found, address, link) {
            let holder = found.iter().find(|it| has(it, address));
            let which = match (link, holder) {
                (None, _) => format!("no interface has the address {address}"),
                (Some(link), None) => format!("{link} does not have the address {address}"),
                (Some(link), Some(holder)) => {
                    format!("{} has the address {address}, not {link}", holder.interface)
                }
            };
            texts.push(format!(
                "{key}: {which}: {what_happens}; `ip address` shows who has what"
            ));
        }
    };
    match mobility {
        Mobility::HomeAgent(it) => {
            let link = Some(it.interface.as_str());
            let what = "nodes that are away and hosts of the home network may not reach each other";
            need("home_agent.address", it.config.address, link, what);
            texts.extend(no_carrier(&found, "home_agent.interface", &it.interface));
            if !is_routed(ELSEWHERE) {
                let text = "this host has no default route: replies and packets to care-of \
                            addresses without another route are dropped, and so is what comes \
                            from there; `ip route add default via ROUTER` adds one";
                texts.push(text.to_owned());
            }
            texts.extend(routes::forwarding_warning(false));
            let hosts = "nodes that come home";
            texts.extend(routes::source_check_warning(&it.interface, hosts));
        }
        Mobility::ForeignAgent(it) => {
            let what = "the tunnels of home agents do not end here";
            need("foreign_agent.care_of", it.config.care_of, None, what);
            let link = Some(it.interface.as_str());
            let what = "visitors may not reach the agent";
            need("foreign_agent.address", it.config.address, link, what);
            texts.extend(no_carrier(&found, "foreign_agent.interface", &it.interface));
            texts.extend(no_way_home(it));
            texts.extend(routes::forwarding_warning(false));
            texts.extend(routes::source_check_warning(&it.interface, "visitors"));
        }
        // `closed` says the rest. One that forwards before its filter stands would be open.
        Mobility::Firewall(it) => {
            let what = "home agents may not reach the firewall";
            need("firewall.inside", it.config.inside, None, what);
            let (outside, link) = (it.config.outside, Some(it.outside_interface.as_str()));
            let what = "nodes may not reach the firewall";
            need("firewall.outside", outside, link, what);
            texts.extend(no_way_out(it, &found));
        }
        Mobility::MobileNode(it) => {
            let home = it.config.home_address;
            let mut own = it.interfaces.iter();
            if own.any(|link| is_there(&found, home, Some(link))) {
                let agent = it.config.home_agent;
                texts.extend(other_source(home, &[agent, ELSEWHERE]));
            }
        }
    }
    texts
}

/// The interfaces of this host without our own device.
fn links(tun: &str) -> Vec<Entry> {
    let mut found = entries().unwrap_or_default();
    found.retain(|it| it.interface != tun);
    found
}

/// Says that an interface is down, or nothing is plugged in.
fn no_carrier(found: &[Entry], key: &str, link: &str) -> Option<String> {
    let mut own = found.iter().filter(|it| it.interface == link).peekable();
    let is_down = own.peek().is_some() && !own.any(Entry::is_running);
    is_down.then(|| {
        format!(
            "{key}: {link} has no link, so nobody is heard there: is it up (`ip link set {link} \
             up`), and its cable plugged in?"
        )
    })
}

/// Home agents that a foreign agent does not reach: those of its file, or those elsewhere.
fn no_way_home(setup: &VisitedLink) -> Option<String> {
    let named = setup.config.home_agents.keys();
    let mut lost = named.filter(|it| !is_routed(**it)).map(Ipv4Addr::to_string);
    let text = if let Some(lost) = lost.next() {
        format!("this host has no route to the home agent {lost}")
    } else if setup.config.relays_to.is_none() && !is_routed(ELSEWHERE) {
        "this host has no default route: only home agents with another route are reached".to_owned()
    } else {
        return None;
    };
    Some(format!(
        "{text}; `ip route add default via ROUTER` adds one"
    ))
}

/// Says that nodes anywhere outside get no answer from a firewall.
fn no_way_out(setup: &FirewallSetup, found: &[Entry]) -> Option<String> {
    let config = &setup.config;
    let mut origins = config.entries.iter().map(|(origin, _)| origin);
    let is_for_all = !config.end_to_end.is_empty() || origins.any(|it| *it == Origin::Nomadic);
    let link = setup.outside_interface.as_str();
    // Another sentence says so.
    if !is_there(found, config.outside, Some(link)) {
        return None;
    }
    let is_one_link = is_there(found, config.inside, Some(link));
    let outside = nix::net::if_::if_nametoindex(link).ok();
    let hop = next_hop(ELSEWHERE.into(), None);
    let leads_out = hop.is_some_and(|hop| is_one_link || hop.device == outside);
    (is_for_all && !leads_out).then(|| {
        format!(
            "this host has no default route outside: nodes elsewhere get no answer; `ip route add \
             default via ROUTER dev {link}` adds one"
        )
    })
}

/// Says that no interface of a mobile node has a link, and which of them this host does not have.
pub(super) fn no_link(interfaces: &[String]) -> String {
    let found = entries().unwrap_or_default();
    let is_here = |name: &&String| found.iter().any(|it| it.interface == **name);
    let (here, lost): (Vec<_>, Vec<_>) = interfaces.iter().partition(is_here);
    let list = |names: Vec<&String>| {
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        names.join(", ")
    };
    match (here.is_empty(), lost.is_empty()) {
        (_, true) => format!("no interface of the file has a link ({})", list(here)),
        (true, false) => format!("this host has no interface {}", list(lost)),
        (false, false) => format!(
            "no interface of the file has a link ({}), and this host has no {}",
            list(here),
            list(lost)
        ),
    }
}

/// Says from which other address programs speak to one of these, while the home address is on a
/// link.
pub(super) fn other_source(home: Ipv4Addr, to: &[Ipv4Addr]) -> Option<String> {
    let sources = to
        .iter()
        .filter_map(|it| address_towards((*it).into(), None, 0));
    let other = sources.into_iter().find(|it| *it != home)?;
    Some(format!(
        "at home, programs use the address {other}, not the home address {home}: what they begin \
         ends with the next move; let DHCP give the home address here, or no address"
    ))
}

/// What a firewall whose filter stands lacks to let anything through: forwarding, and routes to who
/// is behind it.
pub(in crate::run) fn closed(mobility: &Mobility) -> (Option<String>, Option<String>) {
    let Mobility::Firewall(it) = mobility else {
        return (None, None);
    };
    let behind = it.config.home_agents.iter().chain(&it.config.end_to_end);
    let found = entries().unwrap_or_default();
    // A default route leads outside. With one link for both sides, every route leads there.
    let is_one_link = is_there(&found, it.config.inside, Some(&it.outside_interface));
    let outside = nix::net::if_::if_nametoindex(it.outside_interface.as_str()).ok();
    let leads_inside = |end: Ipv4Addr| {
        let hop = next_hop(end.into(), None);
        hop.is_some_and(|hop| is_one_link || hop.device != outside)
    };
    let lost = behind.filter(|it| !leads_inside(**it)).take(NAMED_MAX);
    let lost: Vec<String> = lost.map(Ipv4Addr::to_string).collect();
    let routes = (!lost.is_empty()).then(|| {
        format!(
            "this host has no route inside to {}, where nodes send to: `ip route add NETWORK via \
             ROUTER` adds one",
            lost.join(", ")
        )
    });
    (routes::forwarding_warning(false), routes)
}

/// Interfaces of the file that this host has without the address beside it, or the address without
/// them, other addresses of such a host, and interfaces of a mobile node that are not there. A host
/// that has neither address nor interface of an agent is another one: the file may be checked
/// anywhere. `tun`: our own device.
pub fn misplaced(mobility: &Mobility, tun: &str) -> Vec<String> {
    let (key, address, link) = match mobility {
        Mobility::HomeAgent(it) => ("home_agent", it.config.address, &it.interface),
        Mobility::ForeignAgent(it) => ("foreign_agent", it.config.address, &it.interface),
        Mobility::Firewall(it) => ("firewall", it.config.outside, &it.outside_interface),
        Mobility::MobileNode(it) => return strange(&it.interfaces),
    };
    let found = links(tun);
    let holders: Vec<_> = found.iter().filter(|it| has(it, address)).collect();
    let is_link = found.iter().any(|it| it.interface == *link);
    let mut texts = Vec::new();
    match holders.first() {
        _ if holders.iter().any(|it| it.interface == *link) => {}
        Some(other) => texts.push(format!(
            "{key}: on this host {} has {address}, not {link}",
            other.interface
        )),
        None if is_link => texts.push(format!(
            "{key}: on this host {link} does not have the address {address}"
        )),
        None => return texts,
    }
    let other = match mobility {
        Mobility::ForeignAgent(it) => Some(("care_of", it.config.care_of)),
        Mobility::Firewall(it) => Some(("inside", it.config.inside)),
        Mobility::HomeAgent(_) | Mobility::MobileNode(_) => None,
    };
    if let Some((word, other)) = other.filter(|(_, other)| !is_there(&found, *other, None)) {
        texts.push(format!(
            "{key}.{word}: no interface of this host has the address {other}"
        ));
    }
    texts
}

/// Interfaces of a mobile node that this host does not have.
fn strange(interfaces: &[String]) -> Vec<String> {
    let found = entries().unwrap_or_default();
    let is_here = |name: &String| found.iter().any(|it| it.interface == *name);
    let lost = interfaces.iter().filter(|name| !is_here(name));
    lost.map(|name| {
        format!(
            "mobile.interfaces: this host has no interface {name} now: `ip link` shows which there \
             are"
        )
    })
    .collect()
}

/// Bindings whose care-of addresses this host has no route to.
pub(in crate::run) fn unrouted(status: &MobilityStatus) -> Vec<String> {
    let bindings = status.bindings.iter().take(LOOKED_UP_MAX);
    let ends = bindings.map(|it| (it.home_address, it.udp.map_or(it.care_of, |udp| *udp.ip())));
    let lost = ends.filter(|(_, end)| !is_routed(*end));
    lost.take(NAMED_MAX)
        .map(|(home, end)| format!("{home} is not reached: this host has no route to {end}"))
        .collect()
}

/// Whether this host has a route to an address.
pub(super) fn is_routed(end: Ipv4Addr) -> bool {
    next_hop(end.into(), None).is_some()
}

/// The addresses that no visitor of this interface has.
pub(super) fn local(interface: &str) -> Vec<TrafficSelector> {
    let all = roaming::local(interface).into_iter();
    all.map(|it| TrafficSelector::subnet(it.address, it.length))
        .collect()
}

/// Whether this interface, or any, has the address.
fn is_there(found: &[Entry], address: Ipv4Addr, link: Option<&str>) -> bool {
    found
        .iter()
        .any(|it| link.is_none_or(|link| it.interface == link) && has(it, address))
}

/// Whether this entry is that of the address.
fn has(entry: &Entry, address: Ipv4Addr) -> bool {
    entry.v4() == Some(address)
}

#[cfg(test)]
mod tests {
    use nix::net::if_::InterfaceFlags;

    use super::*;

    #[test]
    fn interfaces_without_a_link_are_named_and_those_that_are_not_there() {
        let names = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let here = no_link(&names(&["lo"]));
        assert_eq!(here, "no interface of the file has a link (lo)");
        let lost = no_link(&names(&["nowhere0", "nowhere1"]));
        assert_eq!(lost, "this host has no interface nowhere0, nowhere1");
        let both = no_link(&names(&["lo", "nowhere0"]));
        assert_eq!(
            both,
            "no interface of the file has a link (lo), and this host has no nowhere0"
        );
        let strange = strange(&names(&["lo", "nowhere0"]));
        assert_eq!(strange.len(), 1);
        assert!(
            strange[0].contains("no interface nowhere0 now"),
            "{strange:?}"
        );
    }

    #[test]
    fn an_interface_that_is_down_is_told() {
        let entry = |flags| Entry {
            interface: "eth1".to_owned(),
            flags,
            address: None,
            mask: None,
        };
        let up = [entry(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING)];
        assert_eq!(no_carrier(&up, "key", "eth1"), None);
        assert_eq!(
            no_carrier(&up, "key", "eth2"),
            None,
            "another sentence says so"
        );
        let unplugged = [entry(InterfaceFlags::IFF_UP)];
        let text = no_carrier(&unplugged, "key", "eth1").expect("told");
        assert!(text.starts_with("key: eth1 has no link"), "{text}");
    }
}
