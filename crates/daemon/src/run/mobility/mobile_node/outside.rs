//! A home agent outside (x-HA of RFC 5265): it keeps an address for the node, where the tunnel to
//! the VPN gateway begins. A move between networks outside is one registration there, and the
//! gateway sees nothing of it. This home agent proves nothing: everybody may know its key of the
//! node, and gets no more than what is encrypted. On a link without an address, a foreign agent of
//! that link takes part (mode fvc): then IPsec leaves by the link, with nothing around it.
//!
//! Left out: a NAT between this home agent and the gateway. A NAT's entry for a tunnel in UDP is
//! kept by registering again, where RFC 3519 §4.9 asks for an echo: both have the same ports, and
//! nothing but IPsec may go through the tunnel.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use crypto::rand::Stream;
use engine::mip4::carriers::{self, Carrier, HomeNetwork, Owner, Traffic};
use engine::mip4::detection::{Outside, OutsideStep, Track};
use engine::mip4::identification::Clock;
use engine::mip4::mobile_node::{Attachment, Config, MobileNode, Output, State};
use engine::sa::Path;
use engine::selector::TrafficSelector;
use engine::time::{Deadline, Duration, Instant};
use tracing::info;
use wire::ip::checksum::checksum;
use wire::ip::ipv4;
use wire::ip::protocol::{ESP, UDP};
use wire::mip4::{Code, PORT, SOLICITATION};

use super::MobileNodePart;
use super::denials::refused;
use crate::capture::udp_packet;
use crate::ether::ALL_ROUTERS;
use crate::routes::roaming::ByAgent;
use crate::routes::{Desired, Prefix};
use crate::run::mobility::{Common, Effect};
use crate::status::OutsideStatus;

/// How long the tunnel may be down before the registration outside is made anew.
const STALLED: Duration = Duration::from_secs(5);

/// The node as this home agent knows it.
pub(super) struct Outer {
    node: MobileNode,
    config: Config,
    /// The addresses of the VPN gateway.
    gateways: Vec<Ipv4Addr>,
    track: Track,
    /// The last request did not leave this host.
    is_unsent: bool,
    /// The host has followed the last registration.
    is_led: bool,
    /// Since when the node is outside and not registered there.
    cut_off: Option<Instant>,
    /// The tunnel to the gateway is wanted and down: when the registration is made anew.
    stalled: Option<Instant>,
    /// The tunnel was up.
    had_tunnel: bool,
    /// Answers before this link with a wrong authenticator.
    unproven: u64,
    /// How often a NAT's entry is kept, and when next.
    keepalive: Option<(Duration, Instant)>,
    /// Why the last registration was denied.
    denied: Option<Code>,
    /// Of the last message to the gateway.
    last_id: u16,
}

impl Outer {
    pub(super) fn new(
        (config, gateways): (&Config, &[Ipv4Addr]),
        clock: Clock,
        random: Stream,
    ) -> Self {
        Self {
            node: MobileNode::new(config.clone(), clock, random),
            config: config.clone(),
            gateways: gateways.to_vec(),
            track: Track::default(),
            is_unsent: false,
            is_led: false,
            cut_off: None,
            stalled: None,
            had_tunnel: false,
            unproven: 0,
            keepalive: None,
            denied: None,
            last_id: 0,
        }
    }

    pub(super) fn set_clock(&mut self, clock: Clock) {
        self.node.set_clock(clock);
    }

    /// Where packets for its address go now.
    pub(super) fn care_of(&self) -> Option<Ipv4Addr> {
        match self.node.state() {
            State::Registered { tunnel, .. } => Some(tunnel.care_of),
            State::Home | State::Unreachable => None,
        }
    }

    /// How packets for its address come; an agent's count once those from it leave this host.
    pub(super) fn reach(&self) -> Outside {
        match self.track.reach(&self.node.state()) {
            Outside::ByAgent if !self.is_led => Outside::Unreachable,
            reach => reach,
        }
    }

    /// Whether the node has been outside for so long and is not registered there.
    pub(super) fn is_cut_off_for(&self, span: Duration, now: Instant) -> bool {
        self.cut_off.is_some_and(|since| since + span <= now)
    }

    /// The host has followed.
    pub(super) fn lead(&mut self) {
        self.is_led = true;
    }

    /// Answers that proved nothing.
    pub(super) fn unproven(&self) -> u64 {
        self.node.ignored().unauthenticated
    }

    /// Whether the node is outside and not registered there.
    pub(super) fn is_cut_off(&self) -> bool {
        self.cut_off.is_some()
    }

    /// The foreign agent through which it is registered or asks.
    pub(super) fn through(&self) -> Option<Ipv4Addr> {
        self.node.through()
    }

    /// The foreign agent that delivers its packets on this link, if one does: then it has no
    /// tunnel.
    fn agent(&self) -> Option<Ipv4Addr> {
        self.node
            .state()
            .delivering()
            .filter(|_| self.track.holds())
    }

    /// An advertisement of an agent on the node's link. With an address of its own the node needs
    /// none.
    pub(super) fn hear(&mut self, from: Ipv4Addr, icmp: &[u8], now: Instant) {
        if self.node.attachment() == Attachment::Visiting {
            self.node.hear(from, icmp, now);
        }
    }

    /// Whether this address is that of somebody outside whom the node reaches through others.
    pub(super) fn is_far(&self, address: Ipv4Addr) -> bool {
        let config = &self.config;
        let ours = [config.home_agent, config.home_address];
        ours.contains(&address) || self.gateways.contains(&address)
    }

    /// A message that came as a frame of the node's link, if it is from its foreign agent.
    pub(super) fn hear_reply(&mut self, from: SocketAddrV4, payload: &[u8], now: Instant) {
        if self.node.through() == Some(*from.ip()) {
            self.node.handle(from, payload, now);
        }
    }

    /// For `status`.
    pub(super) fn status(&self) -> OutsideStatus {
        OutsideStatus {
            home_address: self.config.home_address,
            home_agent: self.config.home_agent,
            care_of: self.care_of(),
            through: self.agent(),
        }
    }

    /// Why the node is not registered there.
    pub(super) fn trouble(&self) -> Option<String> {
        let agent = self.config.home_agent;
        if self.care_of().is_some() {
            return None;
        }
        let is_unproven = self.node.ignored().unauthenticated > self.unproven;
        Some(match (self.denied, self.through()) {
            (Some(code), _) => format!("outside, {}", refused(code)),
            (None, _) if is_unproven => format!(
                "an answer of the home agent outside, {agent}, has a wrong authenticator: the keys \
                 of `association` differ, or somebody forges answers"
            ),
            (None, Some(through)) => format!(
                "nothing comes back from the home agent outside, {agent}, through the foreign \
                 agent {through}: look at `caravan status` at both"
            ),
            (None, None) => format!(
                "nothing comes back from the home agent outside, {agent}: look at `caravan \
                 status` there"
            ),
        })
    }

    /// The node has lost its link, or has another one.
    pub(super) fn lose(&mut self) {
        self.track.lose();
        // What did not leave by the former link is not asked again here.
        self.is_unsent = false;
        self.denied = None;
        self.unproven = self.node.ignored().unauthenticated;
    }

    /// A datagram to this host could not be sent. Whether it was one for this home agent.
    pub(super) fn is_unsent(&mut self, to: Ipv4Addr) -> bool {
        let is_its = to == self.config.home_agent;
        self.is_unsent |= is_its;
        is_its
    }

    /// If the last request did not leave this host, perhaps it can now.
    pub(super) fn retry(&mut self, now: Instant) {
        if core::mem::take(&mut self.is_unsent) {
            self.node.retry(now);
        }
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let keepalive = self.keepalive.map(|(_, at)| Deadline {
            at,
            why: "keep the NAT's entry for the home agent outside",
        });
        let stalled = self.stalled.map(|at| Deadline {
            at,
            why: "doubt the registration outside",
        });
        let own = self.node.deadline().into_iter();
        own.chain(keepalive).chain(stalled).min()
    }

    /// The tunnel to the gateway is wanted and does not come up, or has gone: perhaps this home
    /// agent has forgotten the node, and nobody says so.
    fn follow_tunnel(&mut self, (is_wanted, is_open): (bool, bool), now: Instant) {
        let had_tunnel = core::mem::replace(&mut self.had_tunnel, is_open);
        if !is_wanted || is_open || self.reach() == Outside::Unreachable {
            self.stalled = None;
            return;
        }
        let first = if had_tunnel { now } else { now + STALLED };
        let due = *self.stalled.get_or_insert(first);
        if due <= now {
            self.stalled = Some(now + STALLED);
            self.node.renew(now);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.node.handle_timeout(now);
        if let Some((every, due)) = &mut self.keepalive
            && *due <= now
        {
            *due = now + *every;
            self.node.renew(now);
        }
    }

    /// A message, if it is from this home agent, or from its foreign agent, which is heard as
    /// frames. Whether it is.
    pub(super) fn handle(&mut self, from: SocketAddrV4, payload: &[u8], now: Instant) -> bool {
        let through = self.node.through();
        let is_its = *from.ip() == self.config.home_agent;
        if is_its && through.is_none() {
            self.node.handle(from, payload, now);
        }
        is_its || through == Some(*from.ip())
    }

    /// The node ends: the registration is taken back.
    pub(super) fn end(&mut self, now: Instant) {
        self.node.retire(now);
    }

    /// How the node is on its link, or it is proven to be inside, with this address. Inside, the
    /// registration is taken back.
    fn follow(&mut self, place: Option<Attachment>, inside: Option<Ipv4Addr>, now: Instant) {
        match self.track.follow(place, inside, &self.node.state()) {
            OutsideStep::Stay => {}
            OutsideStep::Detach => self.node.attach(Attachment::Detached, now),
            OutsideStep::Leave => self.node.leave(now),
            OutsideStep::LeaveFrom(from) => self.node.leave_from(from, now),
            OutsideStep::Attach(place) => self.node.attach(place, now),
            OutsideStep::Rejoin(place) => {
                self.node.rejoin(now);
                self.node.attach(place, now);
            }
        }
    }

    /// A number for the next message to the gateway, which may become fragments.
    pub(super) fn next_id(&mut self) -> u16 {
        self.last_id = self.last_id.wrapping_add(1).max(1);
        self.last_id
    }

    /// What may go between the node and these addresses of the gateway: its IKE and ESP, and
    /// nothing of programs.
    fn traffic(&self, gateways: &[Ipv4Addr]) -> Traffic {
        let each = gateways.iter().flat_map(|gateway| {
            [ESP, UDP].map(|protocol| TrafficSelector {
                protocol,
                ..TrafficSelector::host((*gateway).into())
            })
        });
        Traffic {
            local: vec![TrafficSelector::host(self.config.home_address.into())],
            remote: each.collect(),
        }
    }

    /// What carries the IPsec of this state.
    fn carriers(&self, state: &State) -> Vec<Carrier> {
        let home = self.config.home_address;
        if state.delivering().is_some() {
            let gateways = self.gateways.iter();
            let by_link = gateways
                .map(|it| Carrier::by_link((home, *it), self.traffic(core::slice::from_ref(it))));
            return by_link.collect();
        }
        let own = HomeNetwork {
            address: home,
            prefix_len: 32,
        };
        let mut all = carriers::of_node(own, self.config.home_agent, state);
        let traffic = self.traffic(&self.gateways);
        for carrier in &mut all {
            carrier.inbound = carrier.inbound.is_some().then(|| traffic.clone());
            carrier.outbound = carrier.outbound.is_some().then(|| traffic.clone());
        }
        all
    }
}

impl MobileNodePart {
    pub(in crate::run::mobility) fn has_outer(&self) -> bool {
        self.outer.is_some()
    }

    /// Whether a home agent has not yet said that it knows of the end.
    pub(in crate::run::mobility) fn is_leaving(&self) -> bool {
        let outer = self.outer.as_ref();
        self.node.is_leaving() || outer.is_some_and(|it| it.node.is_leaving())
    }

    /// Registers with the home agent outside where the node is, while nothing proves that it is
    /// inside (RFC 5265 §3.2.3).
    pub(super) fn register_outside(&mut self, common: &mut Common, now: Instant) {
        let place = self.place_outside();
        let home = self.setup.config.home_address;
        let is_inside = self.node.is_proven_inside();
        let Some(outer) = &mut self.outer else { return };
        let own = match place {
            Some(Attachment::Colocated(own)) => own,
            _ => home,
        };
        if !self.is_ending {
            outer.follow(place, is_inside.then_some(own), now);
            let tunnel = (self.gateway.is_wanted(), self.gateway.is_open());
            outer.follow_tunnel(tunnel, now);
        }
        let (mut states, mut requests) = (Vec::new(), Vec::new());
        while let Some(output) = outer.node.poll() {
            match output {
                Output::Send {
                    from,
                    to,
                    ttl,
                    payload,
                    ..
                } => requests.push(((from, to, ttl), payload)),
                Output::State(state) => states.push(state),
                Output::Denied(code) => {
                    outer.denied = Some(code);
                    common.refuse(format!("outside-denied-{}", code.number()));
                }
                Output::Revoked => info!("the home agent outside has ended the registration"),
                Output::Solicit => {
                    if let Some(link) = self.link {
                        let own = Ipv4Addr::UNSPECIFIED;
                        let sent = common.links[link].send_icmp(own, ALL_ROUTERS, &SOLICITATION);
                        common.sent(sent);
                    }
                }
                // Its home is no link of this host.
                Output::AnswerArp(_) | Output::WantsKeepalive => {}
            }
        }
        let is_cut_off = place.is_some() && !is_inside && outer.reach() == Outside::Unreachable;
        outer.cut_off = outer.cut_off.or(Some(now)).filter(|_| is_cut_off);
        for (ends, payload) in requests {
            self.ask_outside(ends, payload, common);
        }
        for state in states {
            self.become_state_outside(state, common, now);
        }
    }

    /// To the foreign agent as a frame, to the home agent outside by the socket.
    fn ask_outside(
        &mut self,
        (from, to, ttl): (Ipv4Addr, SocketAddrV4, Option<u8>),
        payload: Vec<u8>,
        common: &mut Common,
    ) {
        let through = self.outer.as_ref().and_then(Outer::through);
        match through.is_some_and(|it| it == *to.ip()) {
            true => self.send_to_agent((from, to, ttl), &payload, common),
            false => common.effects.push_back(Effect::Datagram {
                from: SocketAddrV4::new(from, PORT),
                to,
                payload,
            }),
        }
    }

    /// What its host needs for that: the gateway's messages come to this address, and out of the
    /// tunnel device.
    pub(super) fn want_outside(&self, desired: &mut Desired) {
        let Some(outer) = &self.outer else { return };
        let own = IpAddr::V4(outer.config.home_address);
        desired.addresses.insert(own);
        if outer.agent().is_some() && !self.node.is_proven_inside() {
            desired.roaming.by_agent = self.by_agent(outer);
            // The kernel takes nothing out of the tunnel device from where no route leads, and a
            // link without an address has none.
            let config = &self.setup.config;
            let agent = Prefix::host(config.home_agent.into());
            let home = IpAddr::V4(config.home_address);
            desired.routes.insert(agent, Some(home));
        } else if self.gateway.is_wanted() {
            let gateways = outer.gateways.iter();
            let routes = gateways.map(|it| (Prefix::host((*it).into()), Some(own)));
            desired.routes.extend(routes);
        }
    }

    /// The foreign agent that takes the node's IPsec.
    fn by_agent(&self, outer: &Outer) -> Option<ByAgent> {
        let address = outer.agent()?;
        Some(ByAgent {
            own: outer.config.home_address,
            gateways: outer.gateways.iter().copied().collect(),
            interface: self.setup.interfaces[self.link?].clone(),
            address,
            mac: *self.macs.get(&address)?,
        })
    }

    /// A message to the VPN gateway as a packet of the address that the home agent outside keeps:
    /// it goes into that one's tunnel. `None`: it is none.
    pub(in crate::run::mobility) fn outside_packet(
        &mut self,
        path: &Path,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let outer = self.outer.as_mut()?;
        (path.local.ip() == IpAddr::V4(outer.config.home_address)).then_some(())?;
        let mut packet = udp_packet(path.local, path.remote, 0, payload);
        let header = packet.get_mut(..ipv4::HEADER_LEN)?;
        // It must arrive, in fragments too.
        header[4..6].copy_from_slice(&outer.next_id().to_be_bytes());
        header[6..8].fill(0);
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(packet)
    }

    fn become_state_outside(&mut self, state: State, common: &mut Common, now: Instant) {
        let Some(outer) = &mut self.outer else { return };
        (outer.keepalive, outer.is_led) = (None, false);
        if let State::Registered {
            tunnel, keepalive, ..
        } = &state
        {
            outer.denied = None;
            let every = Duration::from_secs((*keepalive).into());
            outer.keepalive = (*keepalive > 0).then(|| (every, now + every));
            info!(
                care_of = %tunnel.care_of,
                through = outer.agent().map(|it| it.to_string()),
                udp = tunnel.udp.map(|it| it.to_string()),
                "registered outside"
            );
        }
        if state == State::Unreachable {
            info!("not registered outside");
        }
        let (own, wanted) = (outer.config.home_address, outer.carriers(&state));
        // An agent needs a route to it, and without one the routes of a tunnel hold.
        common.effects.push_back(Effect::Host);
        let changes = self.carriers.follow(Owner::Home(own), wanted);
        common.plane(changes);
    }
}

#[cfg(test)]
mod tests;
