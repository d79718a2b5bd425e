//! What a part in Mobile IPv4 needs of its host, beyond what it sets itself.

use std::net::Ipv4Addr;

use engine::selector::TrafficSelector;
use nix::ifaddrs::getifaddrs;
use tracing::warn;

use crate::config::{FirewallSetup, Mobility};
use crate::routes::{self, roaming};

/// Under another name, or without its address, nothing would be told apart outside: refuse to run.
pub(super) fn check_outside(setup: &FirewallSetup) -> anyhow::Result<()> {
    let (link, outside) = (&setup.outside_interface, setup.config.outside);
    anyhow::ensure!(
        is_there(outside, Some(link))?,
        "firewall.outside_interface: no interface {link} has the address {outside}: `ip address` \
         shows which one has it"
    );
    Ok(())
}

/// Says what is missing. It may still come: addresses often do after a start.
pub(super) fn warn_of_missing(mobility: &Mobility) -> anyhow::Result<()> {
    let needed = match mobility {
        Mobility::HomeAgent(it) => vec![("home_agent.address", it.config.address, None)],
        Mobility::ForeignAgent(it) => vec![
            ("foreign_agent.care_of", it.config.care_of, None),
            (
                "foreign_agent.address",
                it.config.address,
                Some(it.interface.as_str()),
            ),
        ],
        Mobility::Firewall(it) => vec![("firewall.inside", it.config.inside, None)],
        Mobility::MobileNode(_) => vec![],
    };
    for (key, address, link) in needed {
        if !is_there(address, link)? {
            let link = link.map_or_else(
                || "this host".to_owned(),
                |link| format!("interface {link}"),
            );
            warn!("{key}: {link} does not have the address {address}: nobody reaches it there");
        }
    }
    // A firewall that forwards before its filter stands would be open: it is told to do so later.
    let forwards = matches!(mobility, Mobility::HomeAgent(_) | Mobility::ForeignAgent(_));
    if forwards && let Some(warning) = routes::forwarding_warning(false) {
        warn!("{warning}");
    }
    if let Mobility::ForeignAgent(it) = mobility
        && let Some(warning) = routes::source_check_warning(&it.interface)
    {
        warn!("{warning}");
    }
    Ok(())
}

/// The addresses that no visitor of this interface has.
pub(super) fn local(interface: &str) -> Vec<TrafficSelector> {
    let all = roaming::local(interface).into_iter();
    all.map(|it| TrafficSelector::subnet(it.address, it.length))
        .collect()
}

/// Whether this interface, or any, has the address.
fn is_there(address: Ipv4Addr, link: Option<&str>) -> anyhow::Result<bool> {
    Ok(getifaddrs()?.any(|it| {
        let own = it.address.as_ref().and_then(|it| it.as_sockaddr_in());
        link.is_none_or(|link| it.interface_name == link)
            && own.is_some_and(|own| own.ip() == address)
    }))
}
