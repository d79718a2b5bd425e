//! TCP/IP behind the tunnel, by smoltcp: the inner addresses, connections and questions for names.
//!
//! smoltcp answers pings by itself. Path MTUs are not kept by destination: a report makes all later
//! packets smaller, until the tunnel's packets have another size.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use crypto::rand::Stream;
use engine::time::{Duration, Instant};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::dns;
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration as Span, Instant as Micros};
use smoltcp::wire::{DnsQueryType, HardwareAddress, IpCidr};

use super::device::Device;
use super::{CONNECTIONS_MAX, LINGER_MAX};

/// What a connection may have on its way to us: 80 Mbit/s over 100 ms. Memory is used as octets
/// come.
const RECEIVE_BYTES: usize = 1 << 20;
/// What a connection may have on its way to the far end.
const SEND_BYTES: usize = 512 << 10;
/// Questions for names at once.
const QUESTIONS_MAX: usize = 64;
/// Before a tunnel says more: what every path of IPv6 carries (RFC 8200 §5).
const FIRST_MTU: usize = 1_280;
/// Ports of our connections (RFC 6335 §6).
const FIRST_PORT: u16 = 49_152;
/// How often a silent far end is probed, and after how long without an answer it is given up.
const KEEPALIVE: Span = Span::from_secs(60);
const SILENCE_MAX: Span = Span::from_secs(180);

pub(super) struct Stack {
    pub(super) device: Device,
    interface: Interface,
    pub(super) sockets: SocketSet<'static>,
    names: SocketHandle,
    questions: usize,
    has_resolvers: bool,
    addresses: Vec<IpAddr>,
    /// Connections without a program, which still say goodbye to the far end.
    retired: VecDeque<(SocketHandle, Instant)>,
    random: Stream,
    next_port: u16,
}

/// A question for the addresses of a name.
pub(super) struct Question(dns::QueryHandle);

impl Stack {
    pub(super) fn new(mut random: Stream) -> Self {
        let mut device = Device::new(FIRST_MTU);
        let interface = interface(&mut device, &mut random);
        let mut sockets = SocketSet::new(Vec::new());
        let names = sockets.add(dns::Socket::new(&[], Vec::new()));
        let start = draw(&mut random) as u16 % (u16::MAX - FIRST_PORT);
        Self {
            device,
            interface,
            sockets,
            names,
            questions: 0,
            has_resolvers: false,
            addresses: Vec::new(),
            retired: VecDeque::new(),
            random,
            next_port: FIRST_PORT + start,
        }
    }

    /// The largest packet from now on.
    pub(super) fn set_mtu(&mut self, mtu: usize) {
        if mtu == self.device.mtu {
            return;
        }
        // smoltcp asks a device for its MTU once.
        self.device.mtu = mtu;
        self.interface = interface(&mut self.device, &mut self.random);
        self.place();
    }

    /// Our addresses, at most one of each family, and the resolvers.
    pub(super) fn set_addresses(&mut self, addresses: &[IpAddr], resolvers: &[IpAddr]) {
        let of = |is_v4| addresses.iter().find(|it| it.is_ipv4() == is_v4);
        self.addresses = [true, false].into_iter().filter_map(of).copied().collect();
        self.place();
        let reachable = resolvers.iter().filter(|it| self.own(**it).is_some());
        let servers: Vec<_> = reachable.map(|it| (*it).into()).collect();
        self.has_resolvers = !servers.is_empty();
        let names = self.sockets.get_mut::<dns::Socket<'_>>(self.names);
        names.update_servers(&servers);
    }

    fn place(&mut self) {
        let own = self.addresses.clone();
        self.interface.update_ip_addrs(|addresses| {
            addresses.clear();
            for address in &own {
                let bits = if address.is_ipv6() { 128 } else { 32 };
                // There is room for two.
                let _ = addresses.push(IpCidr::new((*address).into(), bits));
            }
        });
        // All others are behind the one device; there is room for two routes.
        let routes = self.interface.routes_mut();
        for address in own {
            let _ = match address {
                IpAddr::V4(address) => routes.add_default_ipv4_route(address),
                IpAddr::V6(address) => routes.add_default_ipv6_route(address),
            };
        }
    }

    /// Our address for traffic to this one.
    pub(super) fn own(&self, to: IpAddr) -> Option<IpAddr> {
        let mut own = self.addresses.iter();
        own.find(|own| own.is_ipv4() == to.is_ipv4()).copied()
    }

    /// Begins a connection.
    pub(super) fn connect(&mut self, to: SocketAddr) -> Option<SocketHandle> {
        let own = self.own(to.ip())?;
        let buffer = |len| SocketBuffer::new(vec![0; len]);
        let mut socket = Socket::new(buffer(RECEIVE_BYTES), buffer(SEND_BYTES));
        socket.set_congestion_control(CongestionControl::Cubic);
        // Programs decide how they write.
        socket.set_nagle_enabled(false);
        socket.set_keep_alive(Some(KEEPALIVE));
        socket.set_timeout(Some(SILENCE_MAX));
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        let context = self.interface.context();
        socket.connect(context, to, (own, port)).ok()?;
        Some(self.sockets.add(socket))
    }

    /// Asks for the addresses of a name, in one family.
    pub(super) fn ask(&mut self, name: &str, is_v4: bool) -> Option<Question> {
        if !self.has_resolvers || self.questions >= QUESTIONS_MAX {
            return None;
        }
        let kind = match is_v4 {
            true => DnsQueryType::A,
            false => DnsQueryType::Aaaa,
        };
        let names = self.sockets.get_mut::<dns::Socket<'_>>(self.names);
        let asked = names.start_query(self.interface.context(), name, kind);
        let question = Question(asked.ok()?);
        self.questions += 1;
        Some(question)
    }

    /// Whether anybody could answer a question.
    pub(super) fn has_resolvers(&self) -> bool {
        self.has_resolvers
    }

    /// The families in which we have addresses: IPv4.
    pub(super) fn has_family(&self, is_v4: bool) -> bool {
        self.addresses.iter().any(|own| own.is_ipv4() == is_v4)
    }

    /// The answer to a question, which is then forgotten. Gives the question back while there is
    /// none.
    pub(super) fn answer(&mut self, question: Question) -> Result<Vec<IpAddr>, Question> {
        let names = self.sockets.get_mut::<dns::Socket<'_>>(self.names);
        let found = match names.get_query_result(question.0) {
            Err(dns::GetQueryResultError::Pending) => return Err(question),
            Err(dns::GetQueryResultError::Failed) => Vec::new(),
            Ok(found) => found.into_iter().map(IpAddr::from).collect(),
        };
        self.questions -= 1;
        Ok(found)
    }

    /// Forgets a question.
    pub(super) fn forget(&mut self, question: Question) {
        let names = self.sockets.get_mut::<dns::Socket<'_>>(self.names);
        names.cancel_query(question.0);
        self.questions -= 1;
    }

    /// Keeps a connection until it is closed, for [`LINGER_MAX`] at most. There are no more of them
    /// than connections with programs: the oldest is forgotten.
    pub(super) fn retire(&mut self, handle: SocketHandle, now: Instant) {
        self.retired.push_back((handle, now + LINGER_MAX));
        if self.retired.len() > CONNECTIONS_MAX
            && let Some((oldest, _)) = self.retired.pop_front()
        {
            self.sockets.remove(oldest);
        }
    }

    /// Lets the stack work. It stops when its device is full.
    pub(super) fn poll(&mut self, now: Instant) {
        self.interface
            .poll(micros(now), &mut self.device, &mut self.sockets);
        let sockets = &mut self.sockets;
        self.retired.retain(|(handle, until)| {
            let is_closed = sockets.get::<Socket<'_>>(*handle).state() == State::Closed;
            let is_kept = !is_closed && now < *until;
            if !is_kept {
                sockets.remove(*handle);
            }
            is_kept
        });
    }

    /// Ends every connection.
    pub(super) fn abort_all(&mut self) {
        for (handle, _) in &self.retired {
            self.sockets.get_mut::<Socket<'_>>(*handle).abort();
        }
    }

    /// When it is to work next, right after it did.
    pub(super) fn due(&mut self, now: Instant) -> Option<Instant> {
        let at = self.interface.poll_at(micros(now), &self.sockets)?;
        let at = u64::try_from(at.total_micros()).unwrap_or(0);
        let at = Instant(at.saturating_mul(1_000));
        // It has just done what it could: it needs a packet, or its clock's next step.
        Some(at.max(now + Duration::from_millis(1)))
    }
}

fn interface(device: &mut Device, random: &mut Stream) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = draw(random);
    Interface::new(config, device, Micros::ZERO)
}

fn draw(random: &mut Stream) -> u64 {
    let mut octets = [0; 8];
    random.fill(&mut octets);
    u64::from_be_bytes(octets)
}

fn micros(now: Instant) -> Micros {
    Micros::from_micros(i64::try_from(now.0 / 1_000).unwrap_or(i64::MAX))
}
