//! The outer side: UDP sockets, the engine's endpoint, and what the stack must know of the tunnel.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use crypto::rand::{Seed, Stream};
use engine::config::Config;
use engine::endpoint::{Effect, Endpoint};
use engine::ikev2::ppk::PpkExchange;
use engine::node::{Command, ConnectionState, EndCause, Event, Input, NAT_T_PORT};
use engine::plane::{Offloads, OutboundChange, Run, Shape, TooBig};
use engine::sa::{ChildId, Layer, Path, Sa, Via};
use engine::selector::TrafficSelector;
use engine::time::{Calendar, Duration, Instant};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tracing::debug;
use wire::ip::{icmp, protocol};

use crate::planes::Clock;
use crate::sys::datagram::{Batch, receive_error};
use crate::sys::random;
use crate::udp::{UdpConfig, UdpSockets, is_too_big};

/// Buffers of one `recvmmsg`: each may hold what the kernel gathered.
const BATCH: usize = 16;
/// Largest datagram.
const DATAGRAM_BYTES: usize = 65_535;
/// Entries of an error queue that are read at once. Strangers can fill it.
const ERRORS_AT_ONCE: usize = 64;
/// How often our own address, the calendar and the entropy are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Tunnel {
    endpoint: Endpoint,
    udp: UdpSockets,
    clock: Clock,
    out: Out,
    pub(super) facts: Facts,
    seed: Seed,
    look_at: Instant,
}

/// Datagrams of equal size on their way out.
#[derive(Default)]
struct Out {
    octets: Vec<u8>,
    path: Option<Path>,
    segment_bytes: usize,
    /// The last one is shorter.
    is_complete: bool,
}

/// What the endpoint has told.
#[derive(Default)]
pub(super) struct Facts {
    /// Packets from the tunnel.
    pub(super) opened: Vec<Vec<u8>>,
    /// Our inner addresses, and resolvers.
    pub(super) inner: Vec<IpAddr>,
    pub(super) dns: Vec<IpAddr>,
    /// The largest packet that the tunnel takes.
    pub(super) mtu: Option<usize>,
    /// In which exchange IKE has taken a post-quantum pre-shared key.
    pub(super) ppk: Option<PpkExchange>,
    /// How the tunnel ended last.
    pub(super) end: Option<EndCause>,
    /// What went wrong last.
    pub(super) trouble: Option<String>,
    /// An event came since this was last taken.
    pub(super) is_changed: bool,
    /// Everything is down.
    pub(super) is_stopped: bool,
    /// By child, the SPI and the networks behind the peer.
    traffic: BTreeMap<ChildId, (u32, Vec<TrafficSelector>)>,
    /// By child, what decides the size of its packets, and the outer MTU.
    shapes: BTreeMap<ChildId, (Shape, u16)>,
    pub(super) unsent: u64,
}

impl Tunnel {
    pub(super) fn open(config: Config) -> io::Result<Self> {
        // A panic there would come back at the first signature.
        std::thread::spawn(crypto::rsa::prepare_blinding);
        let ports = vec![(0, Via::UdpWithMarker)];
        let udp = UdpSockets::bind(UdpConfig { ports, mark: None })?;
        let mut octets = zeroize::Zeroizing::new([0; 32]);
        random(&mut octets[..])?;
        let seed = Seed::new(*octets);
        let endpoint = Endpoint::new(config, &seed, Offloads::default(), Vec::new());
        Ok(Self {
            endpoint,
            udp,
            clock: Clock::start(),
            out: Out::default(),
            facts: Facts::default(),
            seed,
            look_at: Instant(0),
        })
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// A stream of random octets of this name.
    pub(super) fn random(&self, name: &str) -> Stream {
        self.seed.stream(name, 0)
    }

    /// The sockets to wait for.
    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.udp.iter().map(|(_, fd)| fd)
    }

    /// Buffers for [`Tunnel::receive`]. They stay in one thread.
    pub(super) fn batch() -> Batch {
        Batch::new(BATCH, DATAGRAM_BYTES, 0)
    }

    /// Sleeps until a datagram comes, for `sleep` at most.
    pub(super) fn wait(&self, sleep: Duration) -> nix::Result<()> {
        let sockets = self.sockets();
        let mut fds: Vec<PollFd<'_>> = sockets
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        ppoll(&mut fds, Some(TimeSpec::from_duration(sleep)), None).map(drop)
    }

    /// Receives one batch from each socket. Returns whether there was anything.
    pub(super) fn receive(&mut self, batch: &mut Batch) -> bool {
        let now = self.now();
        let Self { endpoint, udp, .. } = self;
        let mut is_any = false;
        for (_, fd) in udp.iter() {
            // An ICMP error for an earlier datagram is no reason to stop.
            let received = batch.receive(fd).unwrap_or(0);
            is_any |= received > 0;
            for index in 0..received {
                let incoming = batch.incoming(index);
                if incoming.is_truncated || incoming.len == 0 {
                    continue;
                }
                let local = SocketAddr::new(incoming.local, NAT_T_PORT);
                let path = Path::udp_with_marker(local, incoming.remote);
                let octets = batch.bytes_mut(index, incoming.len);
                for datagram in octets.chunks_mut(incoming.segment()) {
                    endpoint.receive(path, datagram, now);
                }
            }
        }
        if is_any {
            self.settle(now);
        }
        is_any
    }

    /// Reads ICMP reports. Only their MTU counts: anybody can send the others.
    pub(super) fn read_errors(&mut self) {
        let now = self.now();
        for (_, fd) in self.udp.iter() {
            for _ in 0..ERRORS_AT_ONCE {
                let Ok(Some(error)) = receive_error(fd) else {
                    break;
                };
                if is_too_big(&error) {
                    let report = TooBig {
                        remote: error.destination,
                        via: Via::UdpWithMarker,
                        mtu: error.mtu,
                        quoted: error.quoted(),
                    };
                    self.endpoint.outbound.too_big(&report, now);
                }
            }
        }
    }

    /// Sends a packet of the stack. Returns whether the tunnel took it. [`Tunnel::flush`] follows.
    pub(super) fn send(&mut self, packet: &mut [u8], now: Instant) -> bool {
        let is_sealed = self.endpoint.send(packet, now);
        self.drain(now);
        is_sealed
    }

    /// Sends what still waits for more of the same.
    pub(super) fn flush(&mut self) {
        let too_large = self.out.flush(&self.udp, &mut self.facts.unsent);
        if let Some(remote) = too_large {
            self.endpoint.outbound.doubt_link(remote);
        }
    }

    /// Does what is due, and everything that follows at the current time.
    pub(super) fn wake(&mut self, now: Instant) {
        if self.look_at <= now {
            self.look(now);
        }
        let due = self.endpoint.deadline();
        if due.is_some_and(|due| due.at <= now) {
            self.endpoint.handle(Input::Wake, now);
        }
        self.settle(now);
    }

    /// When it is to be woken.
    pub(super) fn due(&self) -> Instant {
        let due = self.endpoint.deadline().map_or(self.look_at, |due| due.at);
        due.min(self.look_at)
    }

    /// Whether packets can go through.
    pub(super) fn is_up(&self, now: Instant) -> bool {
        let status = self.endpoint.node.status(now);
        let mut connections = status.connections.iter();
        connections.any(|it| it.state == ConnectionState::Established)
    }

    /// Tells the peer that the tunnel ends.
    pub(super) fn stop(&mut self, now: Instant) {
        self.settle(now);
        let stop = Input::Command(Command::Stop);
        self.endpoint.handle(stop, now);
        self.settle(now);
    }

    /// Our own address, the calendar and the entropy.
    fn look(&mut self, now: Instant) {
        self.look_at = now + LOOK_INTERVAL;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = since.unwrap_or_default().as_secs();
        let calendar = Calendar(i64::try_from(seconds).unwrap_or(i64::MAX));
        self.settle(now);
        self.endpoint.handle(Input::Calendar(calendar), now);
        self.settle(now);
        let mut octets = zeroize::Zeroizing::new([0; 32]);
        if random(&mut octets[..]).is_ok() {
            self.endpoint.handle(Input::Entropy(&octets), now);
            self.settle(now);
        }
        let peers = self.endpoint.node.peers().into_iter();
        let mut own: Vec<IpAddr> = peers.filter_map(own_address).collect();
        own.sort();
        own.dedup_by_key(|it| it.is_ipv4());
        if own != self.endpoint.addresses {
            self.endpoint.addresses = own;
            let ways = self.endpoint.ways();
            self.endpoint.handle(Input::Ways(ways), now);
            self.settle(now);
        }
    }

    /// Does everything that follows at this time, and sends it.
    fn settle(&mut self, now: Instant) {
        self.drain(now);
        self.ask_links(now);
        self.flush();
    }

    fn drain(&mut self, now: Instant) {
        let Self {
            endpoint,
            udp,
            out,
            facts,
            ..
        } = self;
        let mut too_large = None;
        while let Some(effect) = endpoint.poll(now) {
            match effect {
                Effect::Message(path, octets) => {
                    facts.unsent += u64::from(udp.send(&path, &octets).is_err());
                }
                Effect::Sealed(path, octets) => {
                    if !out.takes(path, octets.len()) {
                        too_large = out.flush(udp, &mut facts.unsent).or(too_large);
                    }
                    out.push(path, octets);
                }
                Effect::Opened(packet) => facts.opened.push(packet),
                Effect::Reply(packet) => facts.reply(packet),
                Effect::Outbound(change) => facts.outbound(change),
                Effect::Event(event) => facts.event(event),
                Effect::Inbound(_) | Effect::IkeKeys(..) | Effect::Radius(..) | Effect::Keep(_) => {
                }
            }
        }
        if let Some(remote) = too_large {
            endpoint.outbound.doubt_link(remote);
        }
    }

    /// Our own link may carry less than an SA assumes.
    fn ask_links(&mut self, now: Instant) {
        while let Some((child, path)) = self.endpoint.outbound.link_to_ask(now) {
            let Ok(mtu) = self.udp.link_mtu(&path) else {
                continue;
            };
            let change = OutboundChange::LinkMtu(child, mtu);
            if let Some(notice) = self.endpoint.outbound.apply(change, now) {
                self.endpoint.handle(Input::Notice(notice), now);
                self.drain(now);
            }
            self.facts.link(child, mtu);
        }
    }
}

impl Out {
    /// Whether a datagram can leave together with those that wait.
    fn takes(&self, path: Path, len: usize) -> bool {
        let whole = self.octets.len() + len;
        self.octets.is_empty()
            || self.path == Some(path)
                && !self.is_complete
                && len <= self.segment_bytes
                && whole <= engine::plane::datagrams::MAX_RUN_BYTES
                && self.octets.len() / self.segment_bytes.max(1)
                    < engine::plane::datagrams::MAX_SEGMENTS
    }

    fn push(&mut self, path: Path, octets: &[u8]) {
        if self.octets.is_empty() {
            (self.path, self.segment_bytes) = (Some(path), octets.len());
            self.is_complete = false;
        }
        self.is_complete |= octets.len() < self.segment_bytes;
        self.octets.extend_from_slice(octets);
    }

    /// Sends them. Returns the peer towards which our own link carries less.
    fn flush(&mut self, udp: &UdpSockets, unsent: &mut u64) -> Option<SocketAddr> {
        let path = self.path.take()?;
        let run = Run {
            path,
            traffic_class: 0,
            segment_bytes: self.segment_bytes,
            is_oversize: false,
            range: 0..self.octets.len(),
        };
        let sent = udp.send_run(&run, &self.octets);
        *unsent += u64::from(sent.failed);
        self.octets.clear();
        sent.is_too_large.then_some(path.remote)
    }
}

impl Facts {
    /// Whether a connection to this address and port goes through the tunnel.
    pub(super) fn takes(&self, to: IpAddr, port: u16) -> bool {
        let mut all = self.traffic.values().flat_map(|(_, networks)| networks);
        all.any(|network| network.contains_address(to) && network.takes(protocol::TCP, Some(port)))
    }

    /// Whether questions to this resolver go through the tunnel.
    pub(super) fn reaches(&self, resolver: IpAddr) -> bool {
        const DNS_PORT: u16 = 53;
        let mut all = self.traffic.values().flat_map(|(_, networks)| networks);
        all.any(|network| {
            network.contains_address(resolver) && network.takes(protocol::UDP, Some(DNS_PORT))
        })
    }

    fn outbound(&mut self, change: &OutboundChange) {
        match change {
            OutboundChange::Install(sa) => self.install(sa),
            // A newer SA of the child stays.
            OutboundChange::Remove(child, spi)
                if self.traffic.get(child).is_some_and(|(own, _)| own == spi) =>
            {
                self.traffic.remove(child);
                self.shapes.remove(child);
                self.is_changed = true;
            }
            _ => {}
        }
    }

    fn install(&mut self, sa: &Sa) {
        self.traffic.insert(sa.child, (sa.spi(), sa.remote.clone()));
        if let Layer::Ipsec(ipsec) = &sa.layer {
            let shape = Shape::of(ipsec, sa.mode, &sa.path);
            self.shapes.insert(sa.child, (shape, sa.path_mtu));
            self.measure();
        }
        self.is_changed = true;
    }

    /// Our own link towards the peer of this child carries this much.
    fn link(&mut self, child: ChildId, mtu: u16) {
        if let Some((_, path_mtu)) = self.shapes.get_mut(&child) {
            *path_mtu = mtu.min(*path_mtu);
            self.measure();
        }
    }

    fn measure(&mut self) {
        let all = self.shapes.values();
        let sizes = all.map(|(shape, mtu)| shape.largest_packet(usize::from(*mtu)));
        self.mtu = sizes.min();
    }

    /// An ICMP answer to a packet of the stack: the path carries less.
    fn reply(&mut self, packet: &[u8]) {
        const V6_TYPE: usize = 40;
        let v6 = packet.get(V6_TYPE..V6_TYPE + 8);
        let v6 = v6.filter(|it| packet[0] >> 4 == 6 && it[0] == icmp::V6_PACKET_TOO_BIG);
        let told = match (icmp::TooBig::read(packet), v6) {
            (Some(told), _) => usize::from(told.mtu),
            (None, Some(&[.., a, b, c, d])) => u32::from_be_bytes([a, b, c, d]) as usize,
            (None, _) => return,
        };
        self.mtu = Some(self.mtu.map_or(told, |mtu| mtu.min(told)));
    }

    fn event(&mut self, event: Event) {
        debug!(?event);
        match event {
            Event::InnerAddress { addresses, dns, .. } => {
                (self.inner, self.dns) = (addresses, dns);
            }
            Event::ChildClosed { cause, .. } | Event::IkeClosed { cause, .. } => {
                self.end = Some(cause);
            }
            Event::NegotiationFailed { reason, .. } => self.trouble = Some(reason),
            Event::PeerComplains { complaint, .. } => self.trouble = Some(complaint),
            Event::Stopped => self.is_stopped = true,
            Event::ChildEstablished { .. } => self.end = None,
            Event::IkeEstablished { ppk, .. } => self.ppk = ppk.map(|it| it.exchange),
            _ => return,
        }
        self.is_changed = true;
    }
}

/// Our address for datagrams to this peer, if there is a route.
fn own_address(peer: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Nothing is sent: the kernel only chooses the route.
    socket.connect((peer, NAT_T_PORT)).ok()?;
    socket.local_addr().ok().map(|own| own.ip())
}
