//! The traffic that a child protects: what we request, what we accept, what the planes get.

use std::net::IpAddr;

use super::{ChildEntry, Pair};
use wire::ip::protocol::ESP;

use crate::config::{Child, ChildLayer, Connection, SELECTORS_MAX};
use crate::ike::{ChildOffer, NegotiatedChild};
use crate::ike::{Fault, Refusal};
use crate::sa::{Direction, Ipsec, Keys, Layer, Mode, Path, Sa};
use crate::selector::{Ports, TrafficSelector};

/// Our side's traffic and the peer's.
pub(super) type Traffic = (Vec<TrafficSelector>, Vec<TrafficSelector>);

/// The selectors that a child requests: in transport mode our own address and the peer's, with the
/// configured protocol and ports; in tunnel mode the configured ones, otherwise our inner
/// addresses.
pub(super) fn wanted_selectors(entry: &ChildEntry, path: Path, inner: &[IpAddr]) -> Traffic {
    let host = |address: IpAddr, like: Option<&TrafficSelector>| TrafficSelector {
        protocol: like.map_or(0, |selector| selector.protocol),
        ports: like.map_or(Ports::ANY, |selector| selector.ports),
        ..TrafficSelector::host(address)
    };
    let (own, peer) = (path.local.ip(), path.remote.ip());
    if entry.child().layer == ChildLayer::Around {
        return (vec![sealed_at(own)], vec![sealed_at(peer)]);
    }
    let (local, remote) = (&entry.local, &entry.remote);
    match entry.child().mode {
        Mode::Transport => (
            vec![host(own, local.first())],
            vec![host(peer, remote.first())],
        ),
        Mode::Tunnel => {
            let dynamic = || match inner {
                [] => vec![host(own, None)],
                some => some.iter().map(|address| host(*address, None)).collect(),
            };
            let local = if local.is_empty() {
                dynamic()
            } else {
                local.clone()
            };
            let remote = match remote.is_empty() {
                true => vec![host(peer, None)],
                false => remote.clone(),
            };
            (local, remote)
        }
    }
}

/// ESP packets of this end: what a child around another one seals.
fn sealed_at(end: IpAddr) -> TrafficSelector {
    TrafficSelector {
        protocol: ESP,
        ..TrafficSelector::host(end)
    }
}

/// The addresses that stand for a side of a tunnel without configured selectors.
pub(super) struct Ends {
    path: Path,
    /// Ours: what we were lent, if the connection asks for that. The peer may not have more of us.
    own: Vec<IpAddr>,
    /// What the peer was lent by us.
    lent: Vec<IpAddr>,
}

impl Ends {
    /// `lease`: the addresses that one end has lent to the other.
    pub(super) fn new(connection: &Connection, path: Path, lease: Vec<IpAddr>) -> Self {
        let (own, lent) = match connection.wants_inner.is_any() {
            true => (lease, Vec::new()),
            false => (vec![path.local.ip()], lease),
        };
        Self { path, own, lent }
    }
}

/// What of an offer a child protects; `None`: nothing. In IKEv1 an offer is taken whole or not at
/// all; in IKEv2 it is narrowed (RFC 7296 §2.9).
pub(super) fn accepted(
    child: &Child,
    offer: &ChildOffer,
    ends: &Ends,
    narrows: bool,
) -> Option<Traffic> {
    let is_narrowed = narrows && child.layer != ChildLayer::Around && child.mode == Mode::Tunnel;
    if child.mode != offer.mode {
        return None;
    }
    if !is_narrowed {
        let (local, remote) = (offer.local.first()?, offer.remote.first()?);
        let holds = holds_local(child, local, ends) && holds_remote(child, remote, ends);
        return holds.then(|| (vec![*local], vec![*remote]));
    }
    let own = match child.local.is_empty() {
        true => hosts(&ends.own),
        false => child.local.clone(),
    };
    let peers = match child.remote.is_empty() {
        true => hosts(&ends.lent),
        false => child.remote.clone(),
    };
    let local = common(&offer.local, &own);
    let remote = common(&offer.remote, &peers);
    one_family(&local, &remote).ok()?;
    Some((local, remote))
}

/// What matches a selector of both sides, without repetitions. What the peer names first comes
/// first: it may be the packet for which it asks (RFC 7296 §2.9).
pub(super) fn common(offered: &[TrafficSelector], own: &[TrafficSelector]) -> Vec<TrafficSelector> {
    let mut found: Vec<TrafficSelector> = Vec::new();
    for both in offered
        .iter()
        .flat_map(|it| own.iter().filter_map(|own| it.intersection(own)))
    {
        let is_held = found.iter().any(|it| it.contains(&both));
        if !is_held && found.len() < SELECTORS_MAX {
            found.retain(|it| !both.contains(it));
            found.push(both);
        }
    }
    found
}

fn holds_local(child: &Child, offered: &TrafficSelector, ends: &Ends) -> bool {
    if child.layer == ChildLayer::Around {
        return *offered == sealed_at(ends.path.local.ip());
    }
    // Behind our own destination NAT, the peer names the address that it sees.
    if child.mode == Mode::Transport {
        let fits = |own: &TrafficSelector| own.holds_ports_of(offered);
        return child.local.is_empty() || child.local.iter().any(fits);
    }
    if child.local.is_empty() {
        return hosts(&ends.own).iter().any(|own| own.contains(offered));
    }
    child.local.iter().any(|own| own.contains(offered))
}

fn holds_remote(child: &Child, offered: &TrafficSelector, ends: &Ends) -> bool {
    if child.layer == ChildLayer::Around {
        return *offered == sealed_at(ends.path.remote.ip());
    }
    if child.mode == Mode::Transport {
        let fits = |remote: &TrafficSelector| remote.holds_ports_of(offered);
        return offered.is_host() && (child.remote.is_empty() || child.remote.iter().any(fits));
    }
    if child.remote.is_empty() {
        return hosts(&ends.lent).iter().any(|it| it.contains(offered));
    }
    child.remote.iter().any(|remote| remote.contains(offered))
}

/// Whether an offer is for the traffic of a pair. In transport mode the addresses do not matter:
/// the two ends are the same, whichever addresses the peer uses for them.
pub(super) fn is_renewal(pair: &Pair, offer: &ChildOffer) -> bool {
    let is_same = |own: &TrafficSelector, offered: &TrafficSelector| match offer.mode {
        Mode::Tunnel => own == offered,
        Mode::Transport => (own.protocol, own.ports) == (offered.protocol, offered.ports),
    };
    let are_same = |own: &[TrafficSelector], offered: &[TrafficSelector]| {
        own.len() == offered.len() && own.iter().zip(offered).all(|(a, b)| is_same(a, b))
    };
    pair.mode == offer.mode
        && are_same(&pair.local, &offer.local)
        && are_same(&pair.remote, &offer.remote)
}

/// Refuses selectors that no packet matches because their addresses have different families.
pub(super) fn one_family(
    local: &[TrafficSelector],
    remote: &[TrafficSelector],
) -> Result<(), Fault> {
    let mut pairs = local
        .iter()
        .flat_map(|own| remote.iter().map(move |it| (own, it)));
    if pairs.any(|(own, peers)| own.is_of_family(peers)) {
        return Ok(());
    }
    Err(Fault::Incompatible {
        what: format!(
            "{} === {} mixes IPv4 and IPv6: no packet goes from one to the other",
            listed(local),
            listed(remote)
        ),
        refusal: Refusal::Selectors,
    })
}

/// All traffic of these addresses.
pub(super) fn hosts(addresses: &[IpAddr]) -> Vec<TrafficSelector> {
    addresses
        .iter()
        .map(|it| TrafficSelector::host(*it))
        .collect()
}

/// Selectors in a sentence.
pub(in crate::node) fn listed(selectors: &[TrafficSelector]) -> String {
    let words: Vec<String> = selectors.iter().map(ToString::to_string).collect();
    words.join(",")
}

pub(super) fn mismatch(connection: &Connection, offer: &ChildOffer, inner: &[IpAddr]) -> Fault {
    let ours: Vec<String> = connection
        .children
        .iter()
        .map(|child| {
            let list = |selectors: &[TrafficSelector], dynamic: &str| match selectors {
                [] => dynamic.to_owned(),
                some => listed(some),
            };
            let lent = inner
                .first()
                .map_or("its inner address".to_owned(), IpAddr::to_string);
            let (local, remote) = (
                list(&child.local, "our address"),
                list(&child.remote, &lent),
            );
            format!("{} {local} === {remote}", child.mode)
        })
        .collect();
    Fault::Incompatible {
        what: format!(
            "no selector in common: the peer asks for {} {} === {}; we protect {}",
            offer.mode,
            listed(&offer.local),
            listed(&offer.remote),
            ours.join(" or ")
        ),
        refusal: Refusal::Selectors,
    }
}

/// The SA of one direction. In transport mode the selectors are the addresses that our own stack
/// sees: the peer's pool address, or its proven address (`home`).
pub(super) fn association(
    entry: &ChildEntry,
    negotiated: &NegotiatedChild,
    direction: Direction,
    (path, home): (Path, Path),
) -> Sa {
    let child = entry.child();
    let is_inbound = direction == Direction::Inbound;
    let keys = if is_inbound {
        &negotiated.keys_in
    } else {
        &negotiated.keys_out
    };
    let (local, remote) = match negotiated.mode {
        Mode::Tunnel => (negotiated.local.clone(), negotiated.remote.clone()),
        Mode::Transport => {
            let peer = entry.pool_address.unwrap_or(home.remote.ip());
            let own = path.local.ip();
            (
                negotiated.local.iter().map(|it| it.at(own)).collect(),
                negotiated.remote.iter().map(|it| it.at(peer)).collect(),
            )
        }
    };
    let path = match negotiated.is_udp_encapsulated {
        true => Path::udp_with_marker(path.local, path.remote),
        false => Path::raw(path.local.ip(), path.remote.ip()),
    };
    let is_authenticated = negotiated.suite.protection.is_authenticated();
    Sa {
        direction,
        child: entry.id,
        layer: Layer::Ipsec(Ipsec {
            protocol: negotiated.suite.protocol,
            spi: if is_inbound {
                negotiated.spi_in
            } else {
                negotiated.spi_out
            },
            protection: negotiated.suite.protection,
            keys: Keys {
                encryption: keys.0.clone(),
                integrity: keys.1.clone(),
            },
        }),
        mode: negotiated.mode,
        has_esn: negotiated.suite.has_esn,
        replay_window: if is_authenticated {
            child.replay_window
        } else {
            0
        },
        path,
        local,
        remote,
        original: negotiated.original,
        pool_address: entry.pool_address,
        soft_packets: child.lifetime_packets,
        soft_bytes: child.lifetime_bytes,
        copies_df: true,
        path_mtu: child.path_mtu,
        is_nested: is_nested(child.layer, direction),
        carried_by: None,
        removes_header: false,
        sent_on_from: None,
    }
}

/// Whether packets of such a child are those of other SAs.
fn is_nested(layer: ChildLayer, direction: Direction) -> bool {
    match layer {
        ChildLayer::Alone | ChildLayer::Around => false,
        ChildLayer::Inside => true,
        ChildLayer::Carried => direction == Direction::Outbound,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::tests::{Change, config};

    /// A gateway may ask for children, too.
    #[test]
    fn a_station_lets_its_gateway_reach_what_it_was_lent_and_no_other_address_of_it() {
        let unchanged: Change = Arc::new(|_, _| {});
        let station = Arc::clone(&config(true, &unchanged).connections[0]);
        let everything: TrafficSelector = "0.0.0.0/0".parse().unwrap();
        let offer = ChildOffer {
            mode: Mode::Tunnel,
            local: vec![everything],
            remote: vec![everything],
            original: None,
            renews: None,
        };
        let path = Path::udp(([192, 0, 2, 7], 500), ([192, 0, 2, 1], 500));
        let lent: IpAddr = [10, 9, 0, 5].into();
        for (lease, found) in [
            (vec![lent], Some(vec![TrafficSelector::host(lent)])),
            (vec![], None),
        ] {
            let ends = Ends::new(&station, path, lease);
            let accepted = accepted(&station.children[0], &offer, &ends, true);
            assert_eq!(accepted.map(|(local, _)| local), found);
        }
    }
}
