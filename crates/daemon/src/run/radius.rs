//! A socket to each server of RADIUS. It is connected, so that the kernel drops what others send,
//! and its port is one that nobody else can foresee.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use engine::radius::Servers;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use wire::radius::MAX_LEN;

/// The sockets, by the servers' addresses.
#[derive(Default)]
pub(super) struct RadiusSockets {
    all: BTreeMap<SocketAddr, UdpSocket>,
    mark: u32,
}

impl RadiusSockets {
    /// None yet. Their datagrams will have this mark, which keeps them out of our tunnels.
    pub(super) fn new(mark: u32) -> Self {
        Self {
            mark,
            ..Self::default()
        }
    }

    /// Closes sockets to servers that are not configured any more.
    pub(super) fn follow(&mut self, servers: Option<&Servers>) {
        let all = servers.map_or(&[][..], |it| &it.all);
        self.all
            .retain(|address, _| all.iter().any(|it| it.address == *address));
    }

    /// Sends a datagram. The client repeats what is lost.
    pub(super) fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        // A fresh socket can send before the runtime knows that.
        let socket = SockRef::from(self.socket(to)?);
        let sent = match socket.send(datagram) {
            // It reports what came of the datagram before, and sends nothing.
            Err(fault) if fault.kind() == io::ErrorKind::ConnectionRefused => socket.send(datagram),
            sent => sent,
        };
        sent.map(drop)
    }

    /// The socket to a server, opened if there is none yet.
    fn socket(&mut self, to: SocketAddr) -> io::Result<&UdpSocket> {
        if !self.all.contains_key(&to) {
            let socket = open(to, self.mark)?;
            self.all.insert(to, socket);
        }
        Ok(&self.all[&to])
    }

    /// The next datagram and its server. Cancel-safe.
    pub(super) async fn hear(&self) -> (SocketAddr, Vec<u8>) {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<(SocketAddr, Vec<u8>)> {
        if self.all.is_empty() {
            return Poll::Pending;
        }
        let mut octets = vec![0; MAX_LEN];
        for (from, socket) in &self.all {
            loop {
                let mut buffer = ReadBuf::new(&mut octets);
                match socket.poll_recv(context, &mut buffer) {
                    Poll::Ready(Ok(())) => {
                        let heard = buffer.filled().to_vec();
                        return Poll::Ready((*from, heard));
                    }
                    // An ICMP report about an earlier datagram: the client repeats it.
                    Poll::Ready(Err(_)) => {}
                    Poll::Pending => break,
                }
            }
        }
        Poll::Pending
    }
}

fn open(to: SocketAddr, mark: u32) -> io::Result<UdpSocket> {
    let (domain, any): (_, SocketAddr) = match to.is_ipv4() {
        true => (Domain::IPV4, (Ipv4Addr::UNSPECIFIED, 0).into()),
        false => (Domain::IPV6, (Ipv6Addr::UNSPECIFIED, 0).into()),
    };
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    // A process without this right has no route into a tunnel that leads to the server.
    let _ = socket.set_mark(mark);
    socket.set_nonblocking(true)?;
    socket.bind(&any.into())?;
    socket.connect(&to.into())?;
    UdpSocket::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_server_has_a_socket_and_strangers_are_not_heard() {
        let server = UdpSocket::bind("127.0.0.1:0").await.expect("a server");
        let stranger = UdpSocket::bind("127.0.0.1:0").await.expect("a stranger");
        let to = server.local_addr().expect("an address");
        let mut sockets = RadiusSockets::new(0);
        sockets.send(to, b"question").expect("sent");
        let mut octets = [0; 16];
        let (len, from) = server.recv_from(&mut octets).await.expect("a datagram");
        assert_eq!(&octets[..len], b"question");
        stranger.send_to(b"forged", from).await.expect("sent");
        server.send_to(b"answer", from).await.expect("sent");
        assert_eq!(sockets.hear().await, (to, b"answer".to_vec()));
        sockets.follow(None);
        assert!(sockets.all.is_empty());
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_blocks_nobody() {
        let gone = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let to = gone.local_addr().expect("an address");
        drop(gone);
        let mut sockets = RadiusSockets::new(0);
        for _ in 0..4 {
            sockets
                .send(to, b"question")
                .expect("sent, or refused later");
            let heard = tokio::time::timeout(core::time::Duration::from_millis(20), sockets.hear());
            assert!(heard.await.is_err());
        }
    }
}
