//! The host's notifications: that something changed, and which addresses of ours lead to a peer.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use rtnetlink::MulticastGroup;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc;

use super::reach;
use crate::interfaces::idle_addresses;

/// By peer: the addresses of ours that lead there, the best first.
pub type Ways = BTreeMap<IpAddr, Vec<IpAddr>>;

/// Delay before a broken watch is reopened.
const REOPEN: Duration = Duration::from_secs(1);
/// Our IPv6 addresses with their flags.
const IF_INET6: &str = "/proc/net/if_inet6";
/// Flags of linux/if_addr.h.
const OPTIMISTIC: u32 = 0x04;
const DAD_FAILED: u32 = 0x08;
const DEPRECATED: u32 = 0x20;
const TENTATIVE: u32 = 0x40;
/// The discard port. Nothing is sent to it.
const ANY_PORT: u16 = 9;

/// Reports changes of links, addresses, routes and rules at once, including our own changes.
/// Changes that come before the last report was read cause no other report. Must run within a tokio
/// runtime; ends when the receiver is dropped.
pub fn changes() -> io::Result<mpsc::Receiver<()>> {
    let mut messages = open()?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let seen = tokio::select! {
                message = messages.next() => message.is_some(),
                () = sender.closed() => return,
            };
            if seen {
                // A change of link is many messages at once.
                while let Some(Some(_)) = messages.next().now_or_never() {}
            } else {
                // Messages were lost: look at everything again.
                tokio::time::sleep(REOPEN).await;
                match open() {
                    Ok(opened) => messages = opened,
                    Err(_) => continue,
                }
            }
            // A report that is still unread says the same.
            let _ = sender.try_send(());
        }
    });
    Ok(receiver)
}

fn open() -> io::Result<impl futures_util::Stream<Item = impl Sized + Send> + Send + Unpin> {
    let groups = [
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv4Route,
        MulticastGroup::Ipv4Rule,
        MulticastGroup::Ipv6Ifaddr,
        MulticastGroup::Ipv6Route,
        MulticastGroup::Ipv6Rule,
    ];
    let (connection, _, messages) = rtnetlink::new_multicast_connection(&groups)?;
    tokio::spawn(connection);
    Ok(messages)
}

/// By peer, for datagrams of this mark: our addresses that lead there, the routing table's choice
/// first. Addresses of the device `tun` and those of `withheld` are left out, and those of links
/// without a carrier, unless they are named or the routing table's choice. A mark needs
/// CAP_NET_ADMIN; 0 means no mark.
pub fn ways(peers: &[IpAddr], named: &[IpAddr], tun: &str, fwmark: u32) -> Ways {
    let withheld = std::fs::read_to_string(IF_INET6).map(|text| withheld(&text, tun, named));
    let withheld = withheld.unwrap_or_default();
    let idle = idle_addresses();
    let mut own = reach::own_addresses(tun);
    own.retain(|it| !idle.contains(it));
    let ways = peers.iter().map(|peer| {
        let of_family = |it: &&IpAddr| it.is_ipv4() == peer.is_ipv4() && !it.is_unspecified();
        let others = own.iter().chain(named).filter(of_family);
        let leads = |own: &&IpAddr| address_towards(*peer, Some(**own), fwmark).is_some();
        // A network that has lost its addresses may have its route yet.
        let reaches = |own: &IpAddr| !reach::is_link_local(*own) || reach::is_link_local(*peer);
        let choice = address_towards(*peer, None, fwmark).filter(reaches);
        let mut found: Vec<IpAddr> = Vec::new();
        for address in choice.iter().chain(others.filter(leads)) {
            if !withheld.contains(address) && !found.contains(address) {
                found.push(*address);
            }
        }
        (*peer, found)
    });
    ways.collect()
}

/// The IPv6 addresses of this table that no session may begin from: tentative addresses and
/// duplicates, deprecated ones unless the configuration names them (RFC 4862 §5.4, §5.5.4), and
/// those of the device `tun`. An address that another device has as well, and may use, stays: a
/// gateway may have lent it to take it from us.
fn withheld(table: &str, tun: &str, named: &[IpAddr]) -> BTreeSet<IpAddr> {
    let mut usable = BTreeSet::new();
    let lines = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        let address = IpAddr::from(Ipv6Addr::from(address));
        let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
        let is_unusable = match flags {
            // An optimistic address may be used before it is certain (RFC 4429 §3).
            _ if flags & DAD_FAILED != 0 => true,
            _ if flags & (TENTATIVE | OPTIMISTIC) == TENTATIVE => true,
            _ => flags & DEPRECATED != 0 && !named.contains(&address),
        };
        let is_withheld = is_unusable || words.next() == Some(tun);
        if !is_withheld {
            usable.insert(address);
        }
        is_withheld.then_some(address)
    });
    let withheld: BTreeSet<IpAddr> = lines.collect();
    withheld.difference(&usable).copied().collect()
}

/// The address of ours from which a program speaks to this one, or whether it can from `own`.
pub fn address_towards(remote: IpAddr, own: Option<IpAddr>, fwmark: u32) -> Option<IpAddr> {
    let remote = SocketAddr::new(remote, ANY_PORT);
    let socket = Socket::new(
        Domain::for_address(remote),
        Type::DGRAM,
        Some(Protocol::UDP),
    )
    .ok()?;
    if fwmark != 0 {
        socket.set_mark(fwmark).ok()?;
    }
    if let Some(own) = own {
        socket.bind(&SocketAddr::new(own, 0).into()).ok()?;
    }
    socket.connect(&remote.into()).ok()?;
    let local = socket.local_addr().ok()?.as_socket()?.ip();
    (!local.is_unspecified()).then_some(local)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_DEVICE: &str = "no-such-device";

    #[test]
    fn loopback_is_reached_from_loopback() {
        let [loopback, own]: [IpAddr; 2] = ["127.0.0.1", "127.0.0.9"].map(|it| it.parse().unwrap());
        let first = |named: &[IpAddr]| ways(&[loopback], named, NO_DEVICE, 0)[&loopback].clone();
        assert_eq!(first(&[])[0], loopback);
        let named = first(&[own]);
        assert!(named[0] == loopback && named.contains(&own), "{named:?}");
    }

    #[test]
    fn an_address_that_is_not_ours_or_of_the_other_family_leads_nowhere() {
        let [loopback, strange, six]: [IpAddr; 3] =
            ["127.0.0.1", "192.0.2.77", "::1"].map(|it| it.parse().unwrap());
        let found = &ways(&[loopback], &[strange, six], NO_DEVICE, 0)[&loopback];
        assert!(!found.contains(&strange) && !found.contains(&six));
    }

    #[test]
    fn addresses_that_may_go_or_be_anothers_are_withheld() {
        let table = "\
            20010db8000000000000000000000001 02 40 00 80     eth0\n\
            20010db8000000000000000000000002 02 40 00 c0     eth0\n\
            20010db8000000000000000000000003 02 40 00 44     eth0\n\
            20010db8000000000000000000000004 02 40 00 48     eth0\n\
            20010db8000000000000000000000005 02 40 00 20     eth0\n\
            20010db8000000000000000000000006 02 40 00 a0     eth0\n\
            20010db8000000000000000000000007 05 40 00 80 caravan0\n\
            20010db8000000000000000000000001 05 40 00 80 caravan0\n\
            20010db8000000000000000000000003 05 40 00 80 caravan0\n\
            20010db8000000000000000000000004 05 40 00 80 caravan0\n\
            what is this\n";
        let named: IpAddr = "2001:db8::6".parse().unwrap();
        let last = |address: &IpAddr| match address {
            IpAddr::V6(v6) => v6.segments()[7],
            IpAddr::V4(_) => 0,
        };
        let found = withheld(table, "caravan0", &[named]);
        let found: Vec<u16> = found.iter().map(last).collect();
        assert_eq!(found, [2, 4, 5, 7]);
    }
}
