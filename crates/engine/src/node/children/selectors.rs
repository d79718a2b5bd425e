//! The traffic that a child protects: what we request, what we accept, what the planes get.

use std::net::IpAddr;

use super::{ChildEntry, Pair};
use wire::ip::protocol::ESP;

use crate::config::{Child, ChildLayer, Connection};
use crate::ike::{ChildOffer, NegotiatedChild};
use crate::ike::{Fault, Refusal};
use crate::sa::{Direction, Ipsec, Keys, Layer, Mode, Path, Sa};
use crate::selector::TrafficSelector;

/// The selectors that quick mode requests: in transport mode our own address and the peer's, with
/// the configured protocol and port; in tunnel mode the configured ones, otherwise our inner
/// address.
pub(super) fn wanted_selectors(
    entry: &ChildEntry,
    path: Path,
    inner: Option<IpAddr>,
) -> (TrafficSelector, TrafficSelector) {
    let host = |address: IpAddr, like: Option<TrafficSelector>| TrafficSelector {
        protocol: like.map_or(0, |selector| selector.protocol),
        port: like.map_or(0, |selector| selector.port),
        ..TrafficSelector::host(address)
    };
    let (own, peer) = (path.local.ip(), path.remote.ip());
    if entry.child().layer == ChildLayer::Around {
        return (sealed_at(own), sealed_at(peer));
    }
    match entry.child().mode {
        Mode::Transport => (host(own, entry.local), host(peer, entry.remote)),
        Mode::Tunnel => {
            let local = entry
                .local
                .unwrap_or_else(|| host(inner.unwrap_or(own), None));
            let remote = entry.remote.unwrap_or_else(|| host(peer, None));
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

pub(super) fn holds_local(child: &Child, offered: &TrafficSelector, path: Path) -> bool {
    if child.layer == ChildLayer::Around {
        return *offered == sealed_at(path.local.ip());
    }
    if child.local.is_empty() || child.mode == Mode::Transport {
        let own = TrafficSelector::host(path.local.ip());
        // Behind our own destination NAT, the peer names the address that it sees.
        let is_own = child.mode == Mode::Transport || own.contains(offered);
        let fits = |own: &TrafficSelector| own.holds_ports_of(offered);
        return is_own && (child.local.is_empty() || child.local.iter().any(fits));
    }
    child.local.iter().any(|own| own.contains(offered))
}

pub(super) fn holds_remote(
    child: &Child,
    offered: &TrafficSelector,
    path: Path,
    inner: &[IpAddr],
) -> bool {
    if child.layer == ChildLayer::Around {
        return *offered == sealed_at(path.remote.ip());
    }
    if child.mode == Mode::Transport {
        return offered.is_host();
    }
    if child.remote.is_empty() {
        return inner
            .iter()
            .any(|address| TrafficSelector::host(*address).contains(offered));
    }
    child.remote.iter().any(|remote| remote.contains(offered))
}

/// Whether an offer is for the traffic of a pair. In transport mode the addresses do not matter:
/// the two ends are the same, whichever addresses the peer uses for them.
pub(super) fn is_renewal(pair: &Pair, offer: &ChildOffer) -> bool {
    let is_same = |own: &TrafficSelector, offered: &TrafficSelector| match offer.mode {
        Mode::Tunnel => own == offered,
        Mode::Transport => (own.protocol, own.port) == (offered.protocol, offered.port),
    };
    let (local, remote) = (&pair.local, &pair.remote);
    pair.mode == offer.mode && is_same(local, &offer.local) && is_same(remote, &offer.remote)
}

/// Refuses selectors that no packet matches because their addresses have different families.
pub(super) fn one_family(local: &TrafficSelector, remote: &TrafficSelector) -> Result<(), Fault> {
    if local.is_of_family(remote) {
        return Ok(());
    }
    Err(Fault::Incompatible {
        what: format!(
            "{local} === {remote} mixes IPv4 and IPv6: no packet goes from one to the other"
        ),
        refusal: Refusal::Selectors,
    })
}

pub(super) fn mismatch(connection: &Connection, offer: &ChildOffer, inner: &[IpAddr]) -> Fault {
    let ours: Vec<String> = connection
        .children
        .iter()
        .map(|child| {
            let list = |selectors: &[TrafficSelector], dynamic: &str| match selectors {
                [] => dynamic.to_owned(),
                some => some
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(","),
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
            offer.local,
            offer.remote,
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
        Mode::Tunnel => (negotiated.local, negotiated.remote),
        Mode::Transport => {
            let peer = entry.pool_address.unwrap_or(home.remote.ip());
            (
                negotiated.local.at(path.local.ip()),
                negotiated.remote.at(peer),
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
        local: vec![local],
        remote: vec![remote],
        original: negotiated.original,
        pool_address: entry.pool_address,
        soft_packets: child.lifetime_packets,
        soft_bytes: child.lifetime_bytes,
        copies_df: true,
        path_mtu: child.path_mtu,
        is_nested: child.layer == ChildLayer::Inside,
        carried_by: None,
        removes_header: false,
        sent_on_from: None,
    }
}
