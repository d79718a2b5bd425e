//! What a part in Mobile IPv4 needs of its host, beyond what it sets itself.

use std::net::Ipv4Addr;

use engine::selector::TrafficSelector;

use crate::config::{FirewallSetup, Mobility};
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

/// Any address that is not near: one for documentation (RFC 5737 §3).
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Bindings whose routes are looked up for one status, and those without a route that it names.
const LOOKED_UP_MAX: usize = 256;
const NAMED_MAX: usize = 8;

/// What is missing. It may still come: addresses often do after a start.
pub(in crate::run) fn missing(mobility: &Mobility) -> Vec<String> {
    let found = entries().unwrap_or_default();
    let mut texts = Vec::new();
    let mut need = |key: &str, address, link: Option<&str>| {
        if !is_there(&found, address, link) {
            let link = link.map_or("this host".to_owned(), |link| format!("interface {link}"));
            texts.push(format!(
                "{key}: {link} does not have the address {address}, so nobody is heard there: `ip \
                 address` shows which one has it"
            ));
        }
    };
    match mobility {
        Mobility::HomeAgent(it) => {
            need("home_agent.address", it.config.address, Some(&it.interface));
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
            need("foreign_agent.care_of", it.config.care_of, None);
            let link = Some(it.interface.as_str());
            need("foreign_agent.address", it.config.address, link);
            texts.extend(routes::forwarding_warning(false));
            texts.extend(routes::source_check_warning(&it.interface, "visitors"));
        }
        // `closed` says the rest. One that forwards before its filter stands would be open.
        Mobility::Firewall(it) => {
            need("firewall.inside", it.config.inside, None);
            let (outside, link) = (it.config.outside, Some(it.outside_interface.as_str()));
            need("firewall.outside", outside, link);
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
/// them. A host that has neither is another one: the file may be checked anywhere.
pub fn misplaced(mobility: &Mobility) -> Option<String> {
    let (key, address, link) = match mobility {
        Mobility::HomeAgent(it) => ("home_agent", it.config.address, &it.interface),
        Mobility::ForeignAgent(it) => ("foreign_agent", it.config.address, &it.interface),
        Mobility::Firewall(it) => ("firewall", it.config.outside, &it.outside_interface),
        Mobility::MobileNode(_) => return None,
    };
    let found = entries().unwrap_or_default();
    let holders = || found.iter().filter(|it| has(it, address));
    if holders().any(|it| it.interface == *link) {
        return None;
    }
    if let Some(other) = holders().next() {
        let other = &other.interface;
        return Some(format!(
            "{key}: on this host {other} has {address}, not {link}"
        ));
    }
    let is_link = found.iter().any(|it| it.interface == *link);
    is_link.then(|| format!("{key}: on this host {link} does not have the address {address}"))
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
