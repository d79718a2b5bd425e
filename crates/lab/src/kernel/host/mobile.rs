//! A host's part in Mobile IPv4: a mobile node or a home agent with its packet planes; and a host
//! with a mobile node's SKIP alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use engine::counters::DropCounters;
use engine::mip4::endpoint::{Effect, Endpoint};
use engine::mip4::mobile_node::{Attachment, State};
use engine::mip4::security::Approach;
use engine::plane::TooBig;
use engine::sa::Via;
use engine::time::Instant;
use engine::work::Work;
use wire::ip::{Flow, protocol};
use wire::mip4::{Message, SOLICITATION};

use super::Send;
use super::carried::{Datagrams, Meter, Takes, bytes_of};
use super::control::LOG_ENTRIES;
use crate::kernel::ip;

/// What happened, for results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// When a mobile node's state changed, and to what: the first ones.
    pub states: Vec<(Instant, State)>,
    /// UDP payload octets of registrations that were sent.
    pub sent_bytes: u64,
    /// Registrations that were sent.
    pub sent: u64,
    /// Octets of the last message of an agent to all.
    pub heard_bytes: u32,
    /// When the first of them left at the present place.
    pub asked: Option<Instant>,
    /// The codes and reasons of what was denied or refused, each a word: the first ones.
    pub failures: Vec<String>,
    /// The first places of a node.
    pub places: Vec<Stay>,
    /// The first registrations that a home agent has heard, and its replies.
    pub registrations: Vec<Registration>,
}

/// A message of a registration, as a home agent sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// When it came or left.
    pub at: Instant,
    /// The home address that it is about.
    pub home: Ipv4Addr,
    /// Whether it is a request.
    pub is_request: bool,
    /// The same in all copies of a request.
    pub identification: u64,
    /// Octets of its UDP payload.
    pub bytes: usize,
}

/// A node came to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// When.
    pub since: Instant,
    /// Its address there.
    pub address: IpAddr,
    /// When the first packet came there that is for its programs.
    pub heard: Option<Instant>,
}

/// A mobile node or a home agent.
pub struct Mobile {
    endpoint: Endpoint,
    /// A mobile node's home address and the prefix of its home network.
    home: Option<(Ipv4Addr, Network)>,
    /// A mobile node's home agent.
    agent: Option<Ipv4Addr>,
    /// Whether a mobile node is on its home link.
    is_home: bool,
    /// How packets get to the firewalls of a node with SKIP, by its address.
    approaches: BTreeMap<Ipv4Addr, Approach>,
    /// Its addresses on links of foreign agents, which it does not use.
    visits: BTreeSet<Ipv4Addr>,
    /// A node with SKIP and no home.
    is_guest: bool,
    datagrams: Datagrams,
    meter: Meter,
    /// Addresses that this host claims by ARP, or gives up.
    claims: Vec<(Ipv4Addr, bool)>,
    /// When it came to a radio that has not let it in yet.
    came: Option<Instant>,
    /// The events so far.
    pub log: Log,
}

const TAKES: Takes = Takes {
    messages: true,
    skip: true,
};

/// First and last address.
pub type Network = (IpAddr, IpAddr);

impl Mobile {
    /// A mobile node, with its home address and the range of its home network.
    pub fn node(endpoint: Endpoint, home: (Ipv4Addr, Network)) -> Self {
        Self::new(endpoint, Some(home))
    }

    /// A host with SKIP and without Mobile IPv4.
    pub fn guest(endpoint: Endpoint) -> Self {
        Self {
            is_guest: true,
            ..Self::new(endpoint, None)
        }
    }

    /// How packets get to the firewalls of a node with SKIP, by its address.
    #[must_use]
    pub fn with_approaches(mut self, approaches: BTreeMap<Ipv4Addr, Approach>) -> Self {
        self.approaches = approaches;
        self
    }

    /// Its addresses on links of foreign agents: there it takes theirs.
    #[must_use]
    pub fn with_visits(mut self, visits: BTreeSet<Ipv4Addr>) -> Self {
        self.visits = visits;
        self
    }

    /// The address of a node's home agent.
    #[must_use]
    pub fn with_agent(mut self, agent: Ipv4Addr) -> Self {
        self.agent = Some(agent);
        self
    }

    /// A home agent.
    pub fn home_agent(endpoint: Endpoint) -> Self {
        Self::new(endpoint, None)
    }

    fn new(endpoint: Endpoint, home: Option<(Ipv4Addr, Network)>) -> Self {
        Self {
            endpoint,
            home,
            agent: None,
            is_home: false,
            approaches: BTreeMap::new(),
            visits: BTreeSet::new(),
            is_guest: false,
            datagrams: Datagrams::default(),
            meter: Meter::default(),
            claims: Vec::new(),
            came: None,
            log: Log::default(),
        }
    }

    /// Messages and packets dropped, by reason.
    pub fn drops(&self) -> DropCounters {
        self.endpoint.drops()
    }

    /// The address of its programs, whatever link it is on.
    pub(super) fn home_address(&self) -> Option<IpAddr> {
        self.home().map(IpAddr::V4)
    }

    /// The same.
    pub(super) fn home(&self) -> Option<Ipv4Addr> {
        self.home.map(|(address, _)| address)
    }

    pub(super) fn agent(&self) -> Option<IpAddr> {
        self.agent.map(IpAddr::V4)
    }

    pub(super) fn is_guest(&self) -> bool {
        self.is_guest
    }

    /// A packet for our stack has come.
    pub(super) fn note_arrival(&mut self, octets: &[u8], now: Instant) {
        let Some(stay) = self.log.places.last_mut().filter(|it| it.heard.is_none()) else {
            return;
        };
        let home = self.home.map_or(stay.address, |(home, _)| home.into());
        let is_data = |flow: Flow| flow.destination == home && flow.protocol != protocol::ICMP;
        if Flow::of(octets).is_ok_and(is_data) {
            stay.heard = Some(now);
        }
    }

    /// Whether packets for its home address reach it.
    pub fn is_reachable(&self) -> bool {
        let state = self.endpoint.state();
        state.is_some_and(|state| state != State::Unreachable)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.endpoint.deadline().map(|deadline| deadline.at)
    }

    /// What this host claims by ARP since the last call.
    pub(super) fn take_claims(&mut self) -> Vec<(Ipv4Addr, bool)> {
        std::mem::take(&mut self.claims)
    }

    /// The work of the planes since the last call.
    pub(super) fn take_work(&mut self) -> Work {
        self.meter.take(&self.endpoint.work())
    }

    pub(super) fn wake(&mut self, now: Instant, sends: &mut Vec<Send>) {
        self.endpoint.handle_timeout(now);
        self.drain(now, sends);
    }

    /// The host has come to a radio, which may let it in later.
    pub(super) fn come(&mut self, now: Instant) {
        self.came = Some(now);
    }

    /// The host has this address on its present link.
    pub(super) fn attach(&mut self, address: IpAddr, now: Instant, sends: &mut Vec<Send>) {
        let Some(attachment) = self.look(address) else {
            return;
        };
        self.log.asked = None;
        self.come_to(address, now);
        self.endpoint.attach(attachment, now);
        self.drain(now, sends);
    }

    /// What its present link is, where the graph gives it this address. None at a home agent.
    pub(super) fn look(&mut self, address: IpAddr) -> Option<Attachment> {
        let IpAddr::V4(care_of) = address else {
            return None;
        };
        if self.home.is_none() && !self.is_guest {
            return None; // a home agent
        }
        let is_home = |(_, (first, last)): (_, Network)| (first..=last).contains(&address);
        self.is_home = self.home.is_some_and(is_home);
        if let Some(approach) = self.approaches.get(&care_of) {
            self.endpoint.set_approach(*approach);
        }
        Some(match self.is_home {
            true => Attachment::Home,
            false if self.visits.contains(&care_of) => Attachment::Visiting,
            false => Attachment::Colocated(care_of),
        })
    }

    /// It is attached in this way, whatever link it is on.
    pub(super) fn attach_as(
        &mut self,
        attachment: Attachment,
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        self.endpoint.attach(attachment, now);
        self.drain(now, sends);
    }

    /// As [`Endpoint::probe`].
    pub(super) fn probe(&mut self, own: Option<Ipv4Addr>, now: Instant, sends: &mut Vec<Send>) {
        self.endpoint.probe(own, now);
        self.drain(now, sends);
    }

    /// As [`Endpoint::state`].
    pub(super) fn state(&self) -> Option<State> {
        self.endpoint.state()
    }

    /// As [`Endpoint::leave`].
    pub(super) fn leave(&mut self, now: Instant, sends: &mut Vec<Send>) {
        self.endpoint.leave(now);
        self.drain(now, sends);
    }

    /// As [`Endpoint::leave_from`].
    pub(super) fn leave_from(&mut self, own: Ipv4Addr, now: Instant, sends: &mut Vec<Send>) {
        self.endpoint.leave_from(own, now);
        self.drain(now, sends);
    }

    /// As [`Endpoint::rejoin`].
    pub(super) fn rejoin(&mut self, now: Instant, sends: &mut Vec<Send>) {
        self.endpoint.rejoin(now);
        self.drain(now, sends);
    }

    /// As [`Endpoint::is_proven_inside`].
    pub(super) fn is_proven_inside(&self) -> bool {
        self.endpoint.is_proven_inside()
    }

    /// As [`Endpoint::attachment`].
    pub(super) fn attachment(&self) -> Option<Attachment> {
        self.endpoint.attachment()
    }

    /// As [`Endpoint::secured`].
    pub(super) fn secured(&self) -> Option<Ipv4Addr> {
        self.endpoint.secured()
    }

    /// The host has come to its present place, with this address there.
    pub(super) fn come_to(&mut self, address: IpAddr, now: Instant) {
        if self.log.places.len() < LOG_ENTRIES {
            self.log.places.push(Stay {
                since: self.came.take().unwrap_or(now),
                address,
                heard: None,
            });
        }
    }

    /// Whether a packet is an agent's message to all on the link.
    pub(super) fn hears(&self, flow: &Flow) -> bool {
        let is_to_all = flow.destination == IpAddr::V4(Ipv4Addr::BROADCAST);
        self.home.is_some() && flow.protocol == protocol::ICMP && is_to_all
    }

    /// Takes a message that it [`Mobile::hears`].
    pub(super) fn hear(&mut self, octets: &[u8], flow: &Flow, now: Instant, sends: &mut Vec<Send>) {
        self.log.heard_bytes = octets.len() as u32;
        if let IpAddr::V4(from) = flow.source {
            let message = &octets[flow.transport..flow.total_len];
            self.endpoint.hear(from, message, now);
            self.drain(now, sends);
        }
    }

    /// Whether a packet for our address is for the machine or its planes.
    pub(super) fn takes(flow: &Flow) -> bool {
        TAKES.path_of(flow).is_some()
    }

    /// Handles a packet that [`Mobile::takes`]. Returns the packets that come out of it.
    pub(super) fn open(
        &mut self,
        mut octets: Vec<u8>,
        flow: &Flow,
        now: Instant,
        sends: &mut Vec<Send>,
    ) -> Vec<Vec<u8>> {
        let Some(path) = TAKES.path_of(flow) else {
            return Vec::new();
        };
        let bytes = bytes_of(&mut octets, flow, &path);
        if path.via == Via::UdpWithType {
            self.log_registration(bytes, now);
        }
        self.endpoint.receive(path, bytes, now);
        self.drain(now, sends)
    }

    /// TCP's maximum segment size passes as it is.
    pub fn keep_mss(&mut self) {
        self.endpoint.keep_mss();
    }

    /// What our own links carry.
    pub fn set_link_mtu(&mut self, mtu: u16) {
        self.endpoint.set_link_mtu(mtu);
    }

    /// A packet of a tunnel of ours was too large.
    pub(super) fn too_big(&mut self, report: &TooBig<'_>, now: Instant) {
        self.endpoint.too_big(report, now);
    }

    /// Whether a packet goes into a tunnel.
    pub(super) fn carries(&self, flow: &Flow) -> bool {
        self.endpoint.carries(flow.source, flow.destination)
    }

    /// Whether this is a message to a foreign agent, of a node without an address.
    pub(super) fn asks(&self, flow: &Flow) -> bool {
        self.attachment() == Some(Attachment::Visiting) && Self::takes(flow)
    }

    /// Whether packets of the home address may leave as they are. Where a node is a guest, only its
    /// home agent may send for it if it has a reverse tunnel.
    pub(super) fn sends_plain(&self) -> bool {
        let is_one_way = match self.endpoint.state() {
            // A foreign agent takes it from the link.
            Some(State::Registered {
                tunnel, through, ..
            }) => !tunnel.is_reverse || (through.is_some() && !tunnel.is_colocated),
            _ => false,
        };
        self.home.is_none() || self.is_home || is_one_way
    }

    /// Whether it takes packets for another's address.
    pub(super) fn intercepts(&self, destination: IpAddr) -> bool {
        self.endpoint.intercepts(destination)
    }

    /// Puts a packet into its tunnel. Returns what its sender is told about it.
    pub(super) fn seal(
        &mut self,
        mut clear: Vec<u8>,
        now: Instant,
        sends: &mut Vec<Send>,
    ) -> Vec<Vec<u8>> {
        self.endpoint.send(&mut clear, now);
        self.drain(now, sends)
    }

    /// Does everything that follows from the last input. Returns the packets that came out of
    /// tunnels.
    fn drain(&mut self, now: Instant, sends: &mut Vec<Send>) -> Vec<Vec<u8>> {
        let mut opened = Vec::new();
        while let Some(effect) = self.endpoint.poll() {
            match effect {
                Effect::Datagram {
                    from,
                    to,
                    is_direct,
                    payload,
                    ttl,
                } => {
                    self.log.sent += 1;
                    self.log.asked.get_or_insert(now);
                    self.log.sent_bytes += payload.len() as u64;
                    self.log_registration(&payload, now);
                    let mut packet = self.datagrams.packet(
                        ((*from.ip()).into(), from.port()),
                        ((*to.ip()).into(), to.port()),
                        &payload,
                    );
                    if let Some(ttl) = ttl {
                        ip::set_ttl(&mut packet, ttl);
                    }
                    let (own, other) = ((*from.ip()).into(), (*to.ip()).into());
                    match !is_direct && self.endpoint.carries(own, other) {
                        true => drop(self.endpoint.send(&mut packet, now)),
                        false => sends.push(Send::Out(packet)),
                    }
                }
                Effect::Sealed(path, octets) => {
                    sends.push(Send::Out(self.datagrams.sealed(&path, octets)));
                }
                Effect::Opened(packet) => opened.push(packet),
                Effect::AnswerArp(address, answers) => {
                    self.claims.push((address, answers));
                }
                Effect::State(state) if self.log.states.len() < LOG_ENTRIES => {
                    self.log.states.push((now, state));
                }
                Effect::Denied(code) => self.fail(format!("denied: {code:?}")),
                Effect::Revoked => self.fail("revoked".to_owned()),
                Effect::Refused(why) => self.fail(format!("refused: {why:?}")),
                Effect::Solicit => {
                    if let Some((home, _)) = self.home {
                        let all = (home, Ipv4Addr::BROADCAST);
                        sends.push(Send::Out(ip::icmp(all, &SOLICITATION)));
                    }
                }
                Effect::State(_) | Effect::Bound(..) | Effect::Advertise(..) => {}
            }
        }
        opened
    }

    /// Notes a message at a home agent.
    fn log_registration(&mut self, payload: &[u8], now: Instant) {
        let is_agent = self.home.is_none() && !self.is_guest;
        if !is_agent || self.log.registrations.len() >= LOG_ENTRIES {
            return;
        }
        let (home, is_request, identification) = match Message::parse(payload) {
            Ok((Message::Request(it), _)) => (it.home_address, true, it.identification),
            Ok((Message::Reply(it), _)) => (it.home_address, false, it.identification),
            _ => return,
        };
        self.log.registrations.push(Registration {
            at: now,
            home,
            is_request,
            identification,
            bytes: payload.len(),
        });
    }

    fn fail(&mut self, what: String) {
        if self.log.failures.len() < LOG_ENTRIES {
            self.log.failures.push(what);
        }
    }
}
