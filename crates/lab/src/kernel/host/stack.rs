//! A host's programs: TCP by smoltcp (CUBIC, window scaling, a window of any requested size), UDP
//! at a constant or a random rate, ping.
//!
//! smoltcp answers pings itself. Left out: SACK at the sender, which smoltcp does not use, any cost
//! of the stack, and path MTUs by destination: a report makes all later packets smaller, for the
//! rest of the run. What a report is about is sent again when TCP's timer ends.

mod datagrams;
mod device;
mod secured;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use engine::link::Chance;
use engine::time::{Duration, Instant};
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant as Micros;
use smoltcp::wire::IpCidr;
use wire::ip::{Flow, icmp, protocol};

use crate::kernel::ip;
use crate::kernel::random::Random;
use crate::scenario::graph::setup::DISCARD_PORT;

pub use datagrams::{Cut, Datagrams, Discarded, Sending};
use device::{Device, interface};
use secured::Secured;
pub use secured::Security;

/// Identifier of our pings.
const PING_IDENTIFIER: u16 = 0x4356;
/// The least that a report of a packet that was too large may claim: Linux's `min_pmtu`.
const LEAST_MTU: u16 = 552;

/// The role of a TCP end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends this many octets, then closes.
    Sends(u64),
    /// Receives.
    Receives,
}

/// One end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    handle: SocketHandle,
    role: Role,
    /// When it was established.
    pub since: Option<Instant>,
    /// When TLS was set up, of a protected one.
    pub secured: Option<Instant>,
    /// Octets sent or received.
    pub octets: u64,
    /// When the last of them moved.
    pub last: Instant,
}

/// Pings to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pings {
    to: IpAddr,
    left: u16,
    interval: Duration,
    payload_bytes: usize,
    next: Instant,
    sent_at: Vec<Instant>,
    /// Round trips, in the order of the answers.
    pub round_trips: Vec<Duration>,
}

/// A host's stack.
pub struct Stack {
    address: IpAddr,
    device: Device,
    seed: u64,
    interface: Interface,
    sockets: SocketSet<'static>,
    /// Its connections, in the order they were made.
    pub transfers: Vec<Transfer>,
    /// The protected ones of these, by index.
    secured: BTreeMap<usize, Secured>,
    /// Its pings.
    pub pings: Option<Pings>,
    /// Its datagrams, in the order of the flows.
    pub datagrams: Vec<Datagrams>,
    /// Received datagrams by port.
    pub discarded: BTreeMap<u16, Discarded>,
    /// What TCP has sent, by our port and the other's.
    sent_tcp: BTreeMap<(u16, u16), Sent>,
    next_id: u16,
    next_port: u16,
    /// Whether TCP waits until a segment is full (RFC 9293 §3.7.4).
    fills_segments: bool,
}

/// What a connection has sent.
#[derive(Clone, Copy, Default)]
struct Sent {
    /// The sequence number after the last octet.
    end: u32,
    /// What was sent again although nothing had come: its timer had ended.
    timeouts: u64,
}

/// Why a program cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tcp refuses: {0}")]
pub struct Refused(String);

impl Stack {
    /// A stack with an address, for packets of at most `mtu` octets.
    pub fn new(address: IpAddr, mtu: u32, seed: u64) -> Self {
        let mut device = Device {
            mtu: mtu as usize,
            incoming: VecDeque::new(),
            outgoing: Vec::new(),
        };
        // the low bits distinguish hosts of one network
        let number = match address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits() as u64,
        };
        let seed = Random::new(seed, "stack", number).below(u64::MAX);
        let interface = interface(&mut device, seed);
        let mut stack = Self {
            address,
            device,
            seed,
            interface,
            sockets: SocketSet::new(Vec::new()),
            transfers: Vec::new(),
            secured: BTreeMap::new(),
            pings: None,
            datagrams: Vec::new(),
            discarded: BTreeMap::from([(DISCARD_PORT, Discarded::default())]),
            sent_tcp: BTreeMap::new(),
            next_id: 0,
            next_port: 49_152,
            fills_segments: false,
        };
        stack.set_address(address);
        stack
    }

    /// From now on, TCP sends less than a full segment only if nothing is on its way. A radio takes
    /// as long for a small frame as for a large one.
    pub fn fill_segments(&mut self) {
        self.fills_segments = true;
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Takes another address.
    pub fn set_address(&mut self, address: IpAddr) {
        self.address = address;
        self.interface.update_ip_addrs(|addresses| {
            addresses.clear();
            // one address always fits
            let bits = if address.is_ipv6() { 128 } else { 32 };
            let _ = addresses.push(IpCidr::new(address.into(), bits));
        });
        // all others are behind the one port; a table with one route is never full
        let routes = self.interface.routes_mut();
        let _ = match address {
            IpAddr::V4(address) => routes.add_default_ipv4_route(address),
            IpAddr::V6(address) => routes.add_default_ipv6_route(address),
        };
    }

    /// Waits for one connection at a port. Returns its index in [`Stack::transfers`].
    pub fn listen(&mut self, port: u16, role: Role, window: usize) -> Result<usize, Refused> {
        let mut socket = socket(window, self.fills_segments);
        socket.listen(port).map_err(refused)?;
        Ok(self.add(socket, role))
    }

    /// Connects. Returns the connection's index in [`Stack::transfers`].
    pub fn connect(
        &mut self,
        to: (IpAddr, u16),
        role: Role,
        window: usize,
    ) -> Result<usize, Refused> {
        let mut socket = socket(window, self.fills_segments);
        let from = (self.address, self.next_port);
        self.next_port = self.next_port.checked_add(1).unwrap_or(49_152);
        let context = self.interface.context();
        socket.connect(context, to, from).map_err(refused)?;
        Ok(self.add(socket, role))
    }

    /// Protects a connection that has not begun with TLS.
    pub fn secure(&mut self, transfer: usize, security: Security) {
        if let Some(one) = self.transfers.get(transfer) {
            // No flight waits until a segment is full.
            let socket = self.sockets.get_mut::<Socket<'_>>(one.handle);
            socket.set_nagle_enabled(false);
            self.secured.insert(transfer, Secured::new(security));
        }
    }

    /// What the processor is to work for TLS: connections, and seconds. Then [`Stack::worked`].
    pub fn take_work(&mut self) -> Vec<(usize, f64)> {
        let all = self.secured.iter_mut();
        all.filter_map(|(index, one)| Some((*index, one.take_work()?)))
            .collect()
    }

    /// The work for a connection is done.
    pub fn worked(&mut self, transfer: usize, now: Instant) {
        let secured = self.secured.get_mut(&transfer);
        if let Some((secured, transfer)) = secured.zip(self.transfers.get_mut(transfer)) {
            secured.worked(transfer, now);
        }
    }

    /// Sends `count` pings of this payload from `now` on.
    pub fn ping(
        &mut self,
        to: IpAddr,
        count: u16,
        payload_bytes: usize,
        interval: Duration,
        now: Instant,
    ) {
        self.pings = Some(Pings {
            to,
            left: count,
            interval,
            payload_bytes,
            next: now,
            sent_at: Vec::new(),
            round_trips: Vec::new(),
        });
    }

    /// Sends datagrams.
    pub fn send_datagrams(&mut self, sending: Sending) {
        let cut = Cut::default();
        self.datagrams.push(Datagrams { sending, cut });
    }

    /// The datagrams sent from a port.
    pub fn sent(&self, port: u16) -> Option<&Datagrams> {
        self.datagrams
            .iter()
            .find(|datagrams| datagrams.sending.port == port)
    }

    /// From now on, counts datagrams received at this port.
    pub fn count_datagrams(&mut self, port: u16) {
        self.discarded.entry(port).or_default();
    }

    /// A packet for us.
    pub fn receive(&mut self, octets: Vec<u8>, now: Instant) {
        let Ok(flow) = Flow::of(&octets) else { return };
        if let Some((PING_IDENTIFIER, sequence)) = ip::echo_reply(&octets, &flow)
            && let Some(pings) = &mut self.pings
        {
            if let Some(sent) = pings.sent_at.get(usize::from(sequence)) {
                pings.round_trips.push(now.since(*sent));
            }
            return;
        }
        if let Some(told) = icmp::TooBig::read(&octets) {
            let mtu = usize::from(told.mtu.max(LEAST_MTU));
            if IpAddr::V4(told.source) == self.address && mtu < self.device.mtu {
                // smoltcp asks a device for its MTU once
                self.device.mtu = mtu;
                self.interface = interface(&mut self.device, self.seed);
                self.set_address(self.address);
            }
            return;
        }
        let discarded = flow
            .ports
            .and_then(|ports| self.discarded.get_mut(&ports.1));
        if let Some(discarded) = discarded.filter(|_| flow.protocol == protocol::UDP) {
            discarded.take(&octets, &flow, now);
            return;
        }
        self.device.incoming.push_back(octets);
    }

    /// Advances time to `now`. Returns the packets to send.
    pub fn poll(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.send_pings(now);
        self.send_due_datagrams(now);
        let micros = Micros::from_micros((now.0 / 1000) as i64);
        let is_silent = self.device.incoming.is_empty();
        loop {
            self.interface
                .poll(micros, &mut self.device, &mut self.sockets);
            let mut is_moved = false;
            for (index, transfer) in self.transfers.iter_mut().enumerate() {
                let socket = self.sockets.get_mut::<Socket<'_>>(transfer.handle);
                is_moved |= match self.secured.get_mut(&index) {
                    Some(secured) => secured.pump(transfer, socket, now),
                    None => transfer.pump(socket, now),
                };
            }
            if !is_moved {
                let outgoing = std::mem::take(&mut self.device.outgoing);
                self.note_sent(&outgoing, is_silent);
                return outgoing;
            }
        }
    }

    /// When to poll next.
    pub fn due(&mut self, now: Instant) -> Option<Instant> {
        let micros = Micros::from_micros((now.0 / 1000) as i64);
        let tcp = self.interface.poll_at(micros, &self.sockets);
        let tcp = tcp.map(|at| Instant((at.total_micros().max(0) as u64).saturating_mul(1000)));
        // a poll was just done: an immediate deadline needs another packet, or a microsecond
        let tcp = tcp.map(|at| at.max(now + Duration::from_micros(1)));
        let pings = self.pings.as_ref();
        let pings = pings.filter(|pings| pings.left > 0).map(|pings| pings.next);
        let datagrams = self.datagrams.iter();
        let datagrams = datagrams.filter_map(|datagrams| datagrams.sending.due());
        let datagrams = datagrams.min();
        [tcp, pings, datagrams].into_iter().flatten().min()
    }

    /// How often the timers of connections with this port ended.
    pub fn timeouts(&self, port: u16) -> u64 {
        let all = self.sent_tcp.iter();
        let own = all.filter(|((own, other), _)| [own, other].contains(&&port));
        own.map(|(_, sent)| sent.timeouts).sum()
    }

    /// Counts what is sent again, once for each silence.
    fn note_sent(&mut self, packets: &[Vec<u8>], is_silent: bool) {
        let mut repeats = Vec::new();
        for packet in packets {
            let Some((ports, start, end)) = ip::segment(packet) else {
                continue;
            };
            let sent = self.sent_tcp.entry(ports).or_insert(Sent {
                end: start,
                timeouts: 0,
            });
            let is_new = (end.wrapping_sub(sent.end) as i32) > 0;
            if is_new {
                sent.end = end;
            } else if is_silent && start != end && !repeats.contains(&ports) {
                sent.timeouts += 1;
                repeats.push(ports);
            }
        }
    }

    fn add(&mut self, socket: Socket<'static>, role: Role) -> usize {
        self.transfers.push(Transfer {
            handle: self.sockets.add(socket),
            role,
            since: None,
            secured: None,
            octets: 0,
            last: Instant(0),
        });
        self.transfers.len() - 1
    }

    fn send_pings(&mut self, now: Instant) {
        let Some(pings) = &mut self.pings else { return };
        while pings.left > 0 && pings.next <= now {
            let sequence = pings.sent_at.len() as u16;
            let ends = (self.address, pings.to);
            let number = (PING_IDENTIFIER, sequence);
            let packet = ip::echo(ends, true, number, pings.payload_bytes);
            self.device.outgoing.push(packet);
            pings.sent_at.push(now);
            pings.left -= 1;
            pings.next = pings.next + pings.interval;
        }
    }

    fn send_due_datagrams(&mut self, now: Instant) {
        for datagrams in &mut self.datagrams {
            while datagrams.sending.due().is_some_and(|due| due <= now) {
                let payload = datagrams.payload();
                self.next_id = self.next_id.wrapping_add(1);
                let Sending { to, port, .. } = datagrams.sending;
                let ends = ((self.address, port), (to, port));
                let packet = ip::udp(ends.0, ends.1, &payload, self.next_id);
                self.device.outgoing.push(packet);
            }
        }
    }
}

impl Pings {
    /// The number sent.
    pub fn sent(&self) -> usize {
        self.sent_at.len()
    }
}

impl Transfer {
    /// Moves octets between the program and its socket. Returns whether there were any.
    fn pump(&mut self, socket: &mut Socket<'_>, now: Instant) -> bool {
        self.note_established(socket, now);
        match self.role {
            Role::Receives => {
                let mut moved = 0;
                while socket.can_recv() {
                    let taken = socket.recv(|octets| (octets.len(), octets.len()));
                    let taken = taken.unwrap_or(0);
                    if taken == 0 {
                        break;
                    }
                    moved += taken;
                }
                self.octets += moved as u64;
                if moved > 0 {
                    self.last = now;
                }
                self.close_after(socket);
                moved > 0
            }
            Role::Sends(all) => {
                let before = self.octets;
                while self.octets < all && socket.can_send() {
                    let left = usize::try_from(all - self.octets).unwrap_or(usize::MAX);
                    // zeros, because the buffer was initialised to zeros
                    let sent = socket.send(|buffer| {
                        let sent = buffer.len().min(left);
                        (sent, sent)
                    });
                    match sent {
                        Ok(sent) if sent > 0 => self.octets += sent as u64,
                        _ => break,
                    }
                }
                (self.octets == all && self.finish(socket)) || self.octets > before
            }
        }
    }

    fn note_established(&mut self, socket: &Socket<'_>, now: Instant) {
        if self.since.is_none() && socket.may_send() && socket.state() == State::Established {
            self.since = Some(now);
        }
    }

    /// The receiver closes after the sender.
    fn close_after(&self, socket: &mut Socket<'_>) {
        if socket.state() == State::CloseWait {
            socket.close();
        }
    }

    /// The sender closes after its last octet. Returns whether it does by now.
    fn finish(&self, socket: &mut Socket<'_>) -> bool {
        let ends = self.since.is_some() && socket.may_send();
        if ends {
            socket.close();
        }
        ends
    }
}

fn socket(window: usize, fills_segments: bool) -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; window]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_congestion_control(CongestionControl::Cubic);
    socket.set_nagle_enabled(fills_segments);
    socket
}

fn refused(fault: impl std::fmt::Display) -> Refused {
    Refused(fault.to_string())
}
