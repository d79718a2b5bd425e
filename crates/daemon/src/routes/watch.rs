//! The host's notifications: that something changed, and which address of ours leads to a peer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use rtnetlink::MulticastGroup;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc;

/// One change of a link causes many messages at once.
const SETTLE: Duration = Duration::from_millis(100);
/// Delay before a broken watch is reopened.
const REOPEN: Duration = Duration::from_secs(1);
/// The discard port. Nothing is sent to it.
const ANY_PORT: u16 = 9;

/// Reports each change of links, addresses and routes, at most ten times a second, including our
/// own changes. Must run within a tokio runtime; ends when the receiver is dropped.
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
                tokio::time::sleep(SETTLE).await;
                while let Ok(Some(_)) = tokio::time::timeout(Duration::ZERO, messages.next()).await
                {
                }
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
        MulticastGroup::Ipv6Ifaddr,
        MulticastGroup::Ipv6Route,
    ];
    let (connection, _, messages) = rtnetlink::new_multicast_connection(&groups)?;
    tokio::spawn(connection);
    Ok(messages)
}

/// Our address towards `remote` for datagrams of this mark: the first of `among` that is ours and
/// leads there. If `among` is empty, the routing table chooses. `None` if there is no route. A mark
/// needs CAP_NET_ADMIN; 0 means no mark.
pub fn local_address_for(remote: IpAddr, among: &[IpAddr], fwmark: u32) -> Option<IpAddr> {
    if among.is_empty() {
        return address_towards(remote, None, fwmark);
    }
    let mut of_family = among.iter().filter(|own| own.is_ipv4() == remote.is_ipv4());
    of_family.find_map(|own| address_towards(remote, Some(*own), fwmark))
}

fn address_towards(remote: IpAddr, own: Option<IpAddr>, fwmark: u32) -> Option<IpAddr> {
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

    #[test]
    fn loopback_is_reached_from_loopback() {
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(local_address_for(loopback, &[], 0), Some(loopback));
    }

    #[test]
    fn the_first_address_that_is_ours_is_taken() {
        let [loopback, other, strange, six]: [IpAddr; 4] =
            ["127.0.0.1", "127.0.0.9", "192.0.2.77", "::1"].map(|it| it.parse().unwrap());
        let from = |among: &[IpAddr]| local_address_for(loopback, among, 0);
        assert_eq!(from(&[six, strange, other, loopback]), Some(other));
        assert_eq!(from(&["0.0.0.0".parse().unwrap()]), Some(loopback));
        assert_eq!(from(&[strange]), None);
        assert_eq!(from(&[six]), None);
    }
}
