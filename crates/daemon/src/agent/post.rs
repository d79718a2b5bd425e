//! What both agents that serve have: a socket, a log, and counts of what was dropped.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::io;
use std::net::SocketAddr;

use engine::agent::Output;
use tokio::net::UdpSocket;
use tracing::info;

use super::drops::Shown;
use super::log::Log;
use super::ppk;

/// Brings messages and lines of the log where they belong.
pub(super) struct Post {
    pub(super) socket: Door,
    log: Log,
    shown: Shown,
}

/// The socket. Its owner sees each address in the one form that configurations and counts have: on
/// a socket of IPv6, one of IPv4 comes as ::ffff:192.0.2.1 (RFC 4291 §2.5.5.2).
pub(super) struct Door(UdpSocket);

impl Door {
    pub(super) async fn recv_from(&self, octets: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (len, from) = self.0.recv_from(octets).await?;
        let mapped = match from {
            SocketAddr::V6(from) => from.ip().to_ipv4_mapped(),
            SocketAddr::V4(_) => None,
        };
        let from = mapped.map_or(from, |ip| (ip, from.port()).into());
        Ok((len, from))
    }

    async fn send_to(&self, octets: &[u8], to: SocketAddr) -> io::Result<usize> {
        let to = match (to, self.0.local_addr()?) {
            (SocketAddr::V4(to), SocketAddr::V6(_)) => (to.ip().to_ipv6_mapped(), to.port()).into(),
            (to, _) => to,
        };
        self.0.send_to(octets, to).await
    }
}

impl Post {
    pub(super) fn new(socket: UdpSocket, log: Log) -> Self {
        Self {
            socket: Door(socket),
            log,
            shown: Shown::default(),
        }
    }

    /// Does what a machine wants. A question is left to the caller.
    pub(super) async fn put<A>(&mut self, output: Output<A>) -> Option<(u64, A)> {
        match output {
            Output::Send { to, payload } => {
                // The other agents repeat what is lost.
                if let Err(fault) = self.socket.send_to(&payload, to).await {
                    self.shown.unsent += 1;
                    tracing::debug!("cannot send to {to}: {fault}");
                }
            }
            Output::Ask(number, ask) => return Some((number, ask)),
            Output::Audit(event) => {
                self.log.write(&event);
                ppk::tell(&event);
            }
        }
        None
    }

    /// Whether something may begin that the log tells.
    pub(super) fn is_ready(&mut self) -> bool {
        self.log.is_ready()
    }

    /// Shows what was dropped, if there is more of it.
    pub(super) fn show<D: Debug>(&mut self, drops: &BTreeMap<D, u64>) {
        self.shown.show(drops);
    }

    /// Says how it stands, at SIGHUP. A changed file is read at the next start.
    pub(super) fn stand<D: Debug>(&self, what: impl Display, drops: &BTreeMap<D, u64>) {
        let head = self.log.head();
        info!(
            "{what}; the log ends at {}:{}; dropped: {}",
            head.lines,
            head.former,
            self.shown.text(drops)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both families, on a socket of each and on one for both.
    #[tokio::test]
    async fn an_address_has_one_form_on_each_socket() {
        for (listen, peers) in [
            ("127.0.0.1:0", &["127.0.0.1"][..]),
            ("[::1]:0", &["::1"]),
            ("[::]:0", &["127.0.0.1", "::1"]),
        ] {
            let listen: SocketAddr = listen.parse().unwrap();
            // A machine may have no IPv6.
            let Ok(socket) = UdpSocket::bind(listen).await else {
                assert!(listen.is_ipv6());
                continue;
            };
            let door = Door(socket);
            let port = door.0.local_addr().unwrap().port();
            for peer in peers {
                let ip: std::net::IpAddr = peer.parse().unwrap();
                let peer = UdpSocket::bind((ip, 0)).await.unwrap();
                let own = peer.local_addr().unwrap();
                peer.send_to(b"question", (ip, port)).await.unwrap();
                let mut octets = [0; 16];
                let heard = door.recv_from(&mut octets).await.unwrap();
                assert_eq!(heard, (8, own), "{listen}");
                door.send_to(b"answer", own).await.unwrap();
                assert_eq!(peer.recv(&mut octets).await.unwrap(), 6, "{listen}");
            }
        }
    }
}
