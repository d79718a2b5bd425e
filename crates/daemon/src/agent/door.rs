//! The socket of an agent that serves. On a machine with several addresses it answers from the one
//! at which it was asked: whoever asked takes an answer from no other.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::libc;
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::sys::datagram::{Outgoing, send};

/// So many of those that asked last are remembered. The kernel chooses our address for others.
const ASKED_MAX: usize = 1024;
/// And so long: an answer takes less. What an agent sends of its own accord later leaves as the
/// kernel chooses.
const ANSWERED_IN: Duration = Duration::from_secs(10);

/// Its owner sees each address in the one form that configurations and counts have: on a socket of
/// IPv6, one of IPv4 comes as ::ffff:192.0.2.1 (RFC 4291 §2.5.5.2).
pub(super) struct Door {
    socket: UdpSocket,
    is_v6: bool,
    asked: Mutex<Asked>,
}

/// Who asked, our address at which that was, and when; the newest last.
#[derive(Default)]
struct Asked(VecDeque<(SocketAddr, IpAddr, Instant)>);

impl Asked {
    fn note(&mut self, from: SocketAddr, own: IpAddr, now: Instant) {
        self.0.retain(|(other, ..)| *other != from);
        if self.0.len() >= ASKED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((from, own, now));
    }

    fn at(&self, peer: SocketAddr, now: Instant) -> Option<IpAddr> {
        let mut newest = self.0.iter().rev();
        let found = newest.find(|(it, ..)| *it == peer)?;
        (now < found.2 + ANSWERED_IN).then_some(found.1)
    }
}

impl Door {
    /// Listens here. Must run within a tokio runtime.
    pub(super) async fn open(listen: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(listen).await?;
        // A socket with an address of its own answers from that.
        if listen.ip().is_unspecified() {
            match listen.is_ipv4() {
                true => setsockopt(&socket, Ipv4PacketInfo, &true)?,
                false => setsockopt(&socket, Ipv6RecvPacketInfo, &true)?,
            }
        }
        Ok(Self {
            socket,
            is_v6: listen.is_ipv6(),
            asked: Mutex::default(),
        })
    }

    /// The next datagram, and who sent it. Cancel-safe.
    pub(super) async fn recv_from(&self, octets: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let receive = || receive(&self.socket, octets);
        let (len, from, own) = self.socket.async_io(Interest::READABLE, receive).await?;
        if let Some(own) = own {
            self.asked().note(from, own, Instant::now());
        }
        Ok((len, from))
    }

    pub(super) async fn send_to(&self, octets: &[u8], to: SocketAddr) -> io::Result<usize> {
        let own = self.asked().at(to, Instant::now());
        let sent = self.send_from(own, octets, to).await;
        match sent {
            // That address may be gone, or may be none to send from.
            Err(_) if own.is_some() => self.send_from(None, octets, to).await,
            sent => sent,
        }
    }

    async fn send_from(
        &self,
        own: Option<IpAddr>,
        octets: &[u8],
        to: SocketAddr,
    ) -> io::Result<usize> {
        let form = |ip: IpAddr| match ip {
            IpAddr::V4(ip) if self.is_v6 => IpAddr::V6(ip.to_ipv6_mapped()),
            _ => ip,
        };
        let mut remote = to;
        remote.set_ip(form(to.ip()));
        let beside = Outgoing {
            remote,
            source: own.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), form),
            interface: 0,
            traffic_class: 0,
            segment_bytes: None,
            never_waits: true,
        };
        let write = || send(self.socket.as_fd(), octets, &beside);
        self.socket.async_io(Interest::WRITABLE, write).await
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn port(&self) -> u16 {
        self.socket.local_addr().expect("it is bound").port()
    }
}

/// One datagram, its sender, and our address if the kernel tells it.
fn receive(
    socket: &UdpSocket,
    octets: &mut [u8],
) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
    let mut control = cmsg_space!(libc::in_pktinfo, libc::in6_pktinfo);
    let mut slices = [IoSliceMut::new(octets)];
    let fd = socket.as_raw_fd();
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), flags)?;
    let from = message.address.as_ref().and_then(address);
    let from = from.ok_or_else(|| io::Error::other("a datagram without a sender"))?;
    let own = message.cmsgs()?.find_map(|it| match it {
        // Not the header's destination, which may be that of a broadcast.
        ControlMessageOwned::Ipv4PacketInfo(it) => {
            Some(IpAddr::from(it.ipi_spec_dst.s_addr.to_ne_bytes()))
        }
        ControlMessageOwned::Ipv6PacketInfo(it) => Some(IpAddr::from(it.ipi6_addr.s6_addr)),
        _ => None,
    });
    let own = own.map(|own| own.to_canonical());
    let own = own.filter(|own| !own.is_multicast() && !own.is_unspecified());
    Ok((message.bytes, from, own))
}

fn address(found: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = found.as_sockaddr_in().map(|it| (it.ip(), it.port()).into());
    let v6 = || {
        let it = found.as_sockaddr_in6()?;
        Some(match it.ip().to_ipv4_mapped() {
            Some(ip) => (ip, it.port()).into(),
            // A link-local address needs its link.
            None => SocketAddrV6::new(it.ip(), it.port(), 0, it.scope_id()).into(),
        })
    };
    v4.or_else(v6)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Both families, on a socket of each and on one for both.
    #[tokio::test]
    async fn an_address_has_one_form_on_each_socket_and_answers_come_from_the_asked_one() {
        for (listen, asks) in [
            ("127.0.0.1:0", &[("127.0.0.1", "127.0.0.1")][..]),
            ("[::1]:0", &[("::1", "::1")]),
            ("0.0.0.0:0", &[("127.0.0.1", "127.0.0.7")]),
            ("[::]:0", &[("127.0.0.1", "127.0.0.7"), ("::1", "::1")]),
        ] {
            let listen: SocketAddr = listen.parse().unwrap();
            // A machine may have no IPv6.
            let Ok(door) = Door::open(listen).await else {
                assert!(listen.is_ipv6());
                continue;
            };
            for (peer, at) in asks {
                let [peer, at] = [peer, at].map(|it| it.parse::<IpAddr>().unwrap());
                let peer = UdpSocket::bind((peer, 0)).await.unwrap();
                // From here on it hears that address alone.
                peer.connect((at, door.port())).await.unwrap();
                let own = peer.local_addr().unwrap();
                peer.send(b"question").await.unwrap();
                let mut octets = [0; 16];
                let heard = door.recv_from(&mut octets).await.unwrap();
                assert_eq!(heard, (8, own), "{listen}");
                door.send_to(b"answer", own).await.unwrap();
                let answered = timeout(PATIENCE, peer.recv(&mut octets)).await;
                assert_eq!(answered.expect("an answer").unwrap(), 6, "{listen}");
            }
        }
    }

    #[test]
    fn the_newest_that_asked_are_remembered() {
        let mut asked = Asked::default();
        let peer = |port| SocketAddr::from(([192, 0, 2, 1], port));
        let own = |last| IpAddr::from([192, 0, 2, last]);
        let now = Instant::now();
        for port in 1..=ASKED_MAX as u16 {
            asked.note(peer(port), own(7), now);
        }
        // Whoever asks elsewhere is answered from there.
        asked.note(peer(1), own(8), now);
        asked.note(peer(0), own(7), now);
        assert_eq!(asked.0.len(), ASKED_MAX);
        assert_eq!(asked.at(peer(1), now), Some(own(8)));
        assert_eq!(asked.at(peer(2), now), None);
        assert_eq!(asked.at(peer(3), now), Some(own(7)));
        assert_eq!(asked.at(peer(3), now + ANSWERED_IN), None);
    }
}
