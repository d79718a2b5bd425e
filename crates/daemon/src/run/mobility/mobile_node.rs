//! A mobile node: it watches its interfaces, tells its machine where it is, and keeps the home
//! address where it belongs: on the interface at home, else on the tunnel device alone.

mod denials;
mod gateway;
mod links;
mod outside;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Stream;
use engine::mip4::carriers::{self, Carriers, Change, HomeNetwork, Owner};
use engine::mip4::identification::Clock;
use engine::mip4::mobile_node::{MobileNode, Output, State};
use engine::mip4::security::{FIRST_CHILD, Security, SecurityLayer};
use engine::plane::{Notice, OutboundChange};
use engine::sa::ChildId;
use engine::time::{Deadline, Duration, Instant};
use tracing::{debug, info, warn};
use wire::mip4::{Code, PORT, SOLICITATION};

use super::keepalive::{Echoes, Keepalive};
use super::look::Link;
use super::{Common, Effect, Input, surroundings, walls};
use crate::config::{MobileSetup, Wall};
use crate::count_file::CountFile;
use crate::ether::{ALL_ROUTERS, Mac, Registration};
use crate::routes::roaming::{Place, Router};
use crate::routes::{Desired, Prefix};

/// Agents of the link whose link-layer address is known. Anybody can advertise.
const AGENTS_MAX: usize = 16;
/// TTL of our messages to agents on the link, unless the machine says another.
const TTL: u8 = 64;
/// How often the home address is announced at home, and how far apart (RFC 5944 §4.6).
const ANNOUNCEMENTS: u32 = 3;
const ANNOUNCED_APART: Duration = Duration::from_secs(1);

/// A mobile node and its surroundings.
pub(super) struct MobileNodePart {
    pub(super) node: MobileNode,
    pub(super) carriers: Carriers,
    setup: MobileSetup,
    /// Of our datagrams, which no route into the tunnel leads.
    mark: u32,
    /// The interface in use.
    link: Option<usize>,
    /// The interfaces that are there, by index.
    links: BTreeSet<u32>,
    /// What the interfaces showed last.
    seen: Option<Link>,
    /// How often each of them has lost its link.
    losses: Vec<Option<u32>>,
    is_at_home: bool,
    /// The host does not yet know that the home address has moved: messages wait for that.
    is_moving: bool,
    /// The interface on which the home agent has advertised itself last, and until when that holds.
    home_heard: Option<(usize, Instant)>,
    /// A link was left for one on which only advertisements say that it is home: until when the
    /// home agent must have answered there.
    trial: Option<Instant>,
    /// Such an interface where nobody answered, and how often it had lost its link then; and until
    /// when nobody is believed there.
    doubted: Option<(usize, Option<u32>, Instant)>,
    /// A link without another address is new, or somebody has put the home address on it: until
    /// when it may be home, though nothing says so yet.
    arrival: Option<Instant>,
    /// An interface has the home address.
    is_given: bool,
    /// Somebody has put it on this link, and that was taken for a sign of home.
    was_given: bool,
    /// Agents of this link.
    macs: BTreeMap<Ipv4Addr, Mac>,
    /// An agent in use has another address on the link, and when the host was told that last.
    has_new_mac: bool,
    mac_told: Option<Instant>,
    /// The message that waits until the host has followed.
    held: Option<Effect>,
    /// The same, through the security layer.
    held_sealed: Option<Effect>,
    /// The host has followed once: the tunnel device has an address. Before, the kernel drops what
    /// comes out of it, such as the reply of a home agent behind a firewall.
    has_address: bool,
    /// The last message did not leave this host.
    is_unsent: bool,
    /// Why the last registration on this link was denied.
    denied: Option<Code>,
    /// What is known of a registration that does not come.
    wait: report::Wait,
    announcement: Option<(Instant, u32)>,
    keepalive: Keepalive,
    /// None: this host refused it.
    echoes: Option<Echoes>,
    /// What secures packets for the home agent outside of its firewall.
    layer: SecurityLayer,
    /// The way through a VPN gateway.
    gateway: gateway::Way,
    /// What it is to a home agent outside.
    outer: Option<outside::Outer>,
    /// The layer has asked for its first n.
    has_begun: bool,
    /// The registrations are taken back, and no new ones are wanted.
    is_ending: bool,
}

impl MobileNodePart {
    pub(super) fn new(
        (setup, mark): (&MobileSetup, u32),
        clock: Clock,
        (echoes, counts): (Option<Echoes>, &CountFile),
        (random, random_outside): (Stream, Stream),
    ) -> Self {
        let mut node = MobileNode::new(setup.config.clone(), clock, random);
        let mut security = Security::None;
        if let Some(firewall) = &setup.firewall {
            node.set_side(firewall.side, Instant(0));
            security = walls::skip(firewall, setup.config.home_address, counts);
        }
        let mut outer = None;
        if let Some(gateway) = &setup.gateway {
            security = Security::Ipsec;
            let config = gateway.outside.as_ref();
            let known = config.map(|it| (it, &*gateway.addresses));
            outer = known.map(|it| outside::Outer::new(it, clock, random_outside));
        }
        Self {
            node,
            layer: SecurityLayer::new(security, setup.config.home_agent),
            gateway: gateway::Way::new(setup),
            outer,
            has_begun: false,
            is_ending: false,
            carriers: Carriers::default(),
            setup: setup.clone(),
            mark,
            link: None,
            links: BTreeSet::new(),
            seen: None,
            losses: Vec::new(),
            is_at_home: false,
            is_moving: false,
            home_heard: None,
            trial: None,
            doubted: None,
            arrival: None,
            is_given: false,
            was_given: false,
            macs: BTreeMap::new(),
            has_new_mac: false,
            mac_told: None,
            held: None,
            held_sealed: None,
            has_address: false,
            is_unsent: false,
            denied: None,
            wait: report::Wait::default(),
            announcement: None,
            keepalive: Keepalive::default(),
            echoes,
        }
    }

    /// The calendar time was set.
    pub(super) fn set_clock(&mut self, clock: Clock) {
        self.node.set_clock(clock);
        self.outer.iter_mut().for_each(|it| it.set_clock(clock));
    }

    /// The configuration has changed.
    pub(super) fn configure(&mut self, setup: &MobileSetup, now: Instant) {
        self.setup = setup.clone();
        self.gateway.configure(setup);
        self.node.configure(setup.config.clone(), now);
    }

    pub(super) fn handle(&mut self, input: &Input<'_>, common: &mut Common, now: Instant) {
        match *input {
            Input::Datagram { from, payload, .. } => {
                let mut outer = self.outer.iter_mut();
                let is_outside = outer.any(|it| it.handle(from, payload, now));
                // Through an agent of the link, replies come as frames.
                if !is_outside && self.node.through().is_none() {
                    self.node.handle(from, payload, now);
                }
            }
            Input::Frame(number, heard) => self.hear(number, heard, now),
            Input::Look => {
                self.find_links(common);
                self.look(now);
                common.effects.push_back(Effect::Host);
                self.retry(now);
            }
            Input::Unsent(to) => {
                let mut outer = self.outer.iter_mut();
                self.is_unsent |= !outer.any(|it| it.is_unsent(to));
                return;
            }
            Input::Leave => {
                self.is_ending = true;
                self.node.retire(now);
            }
            Input::LeaveOutside => self.outer.iter_mut().for_each(|it| it.end(now)),
            Input::Wake => {
                self.node.handle_timeout(now);
                self.outer.iter_mut().for_each(|it| it.handle_timeout(now));
                let keepalive = self.layer.keepalive(now);
                common.effects.extend(keepalive.map(Effect::Keepalive));
                self.doubt_in_time(common, now);
            }
            Input::Tunnel(inner, is_natted) => self.follow_tunnel(inner, is_natted, common),
            Input::Configured => self.gateway.forget(),
            Input::Applied => {
                self.outer.iter_mut().for_each(outside::Outer::lead);
                self.release(common);
                self.retry(now);
            }
            Input::Notice(Notice::StoreN { child, bound }) => self.store_n(*child, *bound, common),
            Input::Notice(Notice::HeardN { child, n }) => {
                let pair = self.wall(*child).map(walls::heard);
                let keep = pair.map(|pair| Effect::KeepN { pair, n: *n });
                common.effects.extend(keep);
            }
            Input::Stored(number, bound) => {
                let stored = OutboundChange::StoredN(ChildId(FIRST_CHILD + number), bound);
                common.plane(vec![Change::Outbound(stored)]);
            }
            Input::Unreachable(host, what) => {
                if host == self.setup.config.home_agent {
                    self.wait.unreached = Some(what);
                }
            }
            Input::Notice(_) | Input::Report(_) => {}
        }
        self.tell_mac(common, now);
        self.keep_alive(now);
        self.register_outside(common, now);
        self.pass_gateway(common, now);
        self.secure(common);
        self.drain(common, now);
        self.announce(common, now);
        self.complain(now);
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let keepalive = self.keepalive.due();
        let all = [
            (
                self.home_heard.map(|(_, until)| until),
                "notice that the home agent is silent",
            ),
            (self.trial, "doubt that this link is home"),
            (self.arrival, "take the home address off a strange link"),
            (self.mac_due(), "follow an agent's new address on the link"),
            (
                self.announcement.map(|(at, _)| at),
                "announce the home address",
            ),
            (keepalive, "keep the NAT's entry"),
            (self.wait.due(), "look why it is not registered"),
        ];
        let all = all.into_iter();
        let own = all.filter_map(|(at, why)| at.map(|at| Deadline { at, why }));
        let machines = self
            .node
            .deadline()
            .into_iter()
            .chain(self.layer.deadline())
            .chain(self.gateway.deadline())
            .chain(self.outer.as_ref().and_then(outside::Outer::deadline));
        own.chain(machines).min()
    }

    /// At home and away, the home address is on the tunnel device.
    pub(super) fn want(&self, desired: &mut Desired) {
        let home = self.setup.config.home_address;
        desired.addresses.insert(home.into());
        desired.roaming.is_outside = self.is_outside();
        desired.roaming.links.clone_from(&self.links);
        self.want_outside(desired);
        if self.is_at_home
            && let Some(link) = self.link
        {
            let interface = self.setup.interfaces[link].clone();
            desired.roaming.place = Some(Place::Home { interface });
            return;
        }
        let state = self.node.state();
        let is_tunnelled = match &state {
            State::Registered {
                tunnel,
                encapsulates_delivery,
                ..
            } => tunnel.is_reverse && (tunnel.is_colocated || *encapsulates_delivery),
            _ => false,
        };
        if is_tunnelled {
            let everything = Prefix::everything(false);
            desired.routes.insert(everything, Some(home.into()));
        }
        let care_of = match self.seen {
            Some(Link::Address(_, own)) => Some(own),
            _ => None,
        };
        let router = self.router(&state, is_tunnelled);
        let is_registered = matches!(state, State::Registered { .. });
        // Through a gateway, the registration holds for a while on another link too.
        let is_elsewhere = is_registered && self.node.secured().is_none();
        desired.roaming.place = Some(Place::Away {
            may_be_home: self.arrival.is_some() && !is_elsewhere,
            is_given: self.is_given,
            care_of,
            router,
            is_registered,
        });
    }

    /// Whether its links are filtered: nothing proves that the firewall is not in between.
    fn is_outside(&self) -> bool {
        let is_inside = self.node.is_proven_inside() && !self.layer.is_active();
        self.setup.has_outside() && !is_inside
    }

    /// Whether a packet filter stays if the process ends now.
    pub(super) fn is_filtered(&self) -> bool {
        self.is_outside() && self.setup.is_filtered()
    }

    /// Ends all tunnels.
    pub(super) fn end(&mut self) -> Vec<Change> {
        let mut changes = super::end_all(&mut self.carriers);
        changes.extend(self.layer.follow(None));
        changes
    }

    /// The security layer follows the care-of address.
    fn secure(&mut self, common: &mut Common) {
        let care_of = match self.is_end_to_end() {
            true => self.node.colocated(),
            false => self.node.outside().or(self.node.secured()),
        };
        let changes = self.layer.follow(care_of);
        if changes.is_empty() {
            return;
        }
        common.plane(changes);
        if !std::mem::replace(&mut self.has_begun, true) {
            for (child, bound) in self.layer.first_n() {
                self.store_n(child, bound, common);
            }
        }
    }

    /// Whether the home agent ends SKIP itself.
    fn is_end_to_end(&self) -> bool {
        let firewall = self.setup.firewall.as_ref();
        firewall.is_some_and(|it| it.machine.is_none())
    }

    fn store_n(&self, child: ChildId, bound: u32, common: &mut Common) {
        common
            .effects
            .extend(self.wall(child).map(|it| Effect::StoreN {
                pair: walls::pair(it),
                number: child.0 - FIRST_CHILD,
                bound,
            }));
    }

    /// The firewall of a child of the security layer.
    fn wall(&self, child: ChildId) -> Option<&Wall> {
        let number = child.0.checked_sub(FIRST_CHILD)?;
        let firewall = self.setup.firewall.as_ref()?;
        firewall.walls().nth(number as usize)
    }

    pub(super) fn is_up(&self) -> bool {
        self.node.state() != State::Unreachable
    }

    fn router(&self, state: &State, is_tunnelled: bool) -> Option<Router> {
        let State::Registered { through, .. } = state else {
            return None;
        };
        let is_visiting = matches!(
            self.seen,
            Some(Link::Bare(_) | Link::HomeAddress(_) | Link::Heard(_))
        );
        let address = (*through).filter(|_| is_visiting)?;
        Some(Router {
            interface: self.setup.interfaces[self.link?].clone(),
            address,
            mac: *self.macs.get(&address)?,
            is_default: !is_tunnelled,
        })
    }

    fn drain(&mut self, common: &mut Common, now: Instant) {
        while let Some(output) = self.node.poll() {
            match output {
                Output::Send {
                    from,
                    to,
                    ttl,
                    payload,
                    firewall,
                } => match firewall.is_some() && self.layer.is_active()
                    || self.layer.carries(from.into(), (*to.ip()).into())
                {
                    true => {
                        let firewall = self.setup.firewall.as_ref();
                        let sealed = Effect::Sealed {
                            firewall: firewall.map(|it| it.first.outside),
                            from: SocketAddrV4::new(from, PORT),
                            to,
                            payload,
                        };
                        match self.has_address {
                            true => common.effects.push_back(sealed),
                            false => self.held_sealed = Some(sealed),
                        }
                        self.layer.sent(now);
                    }
                    false => self.send((from, to, ttl), payload, common),
                },
                Output::Solicit => {
                    if let Some(link) = self.link {
                        let link = &common.links[link];
                        let sent = link.send_icmp(self.source(), ALL_ROUTERS, &SOLICITATION);
                        common.sent(sent);
                    }
                }
                Output::AnswerArp(is_at_home) => {
                    self.is_moving = true;
                    common.effects.push_back(Effect::Host);
                    self.is_at_home = is_at_home;
                    (self.held, self.held_sealed) = (None, None);
                    self.announcement = is_at_home.then_some((now, ANNOUNCEMENTS));
                }
                Output::State(state) => self.become_state(state, common, now),
                Output::Revoked => info!("the home agent has ended the registration"),
                Output::WantsKeepalive => self.keepalive.hurry(now),
                Output::Denied(code) => {
                    // Outside, an agent that nobody knows does not reach the home agent inside.
                    let through = self.node.through();
                    let is_known = |it| self.setup.config.foreign_agents.contains_key(&it);
                    if self.outer.is_none() || through.is_none_or(is_known) {
                        self.denied = Some(code);
                    }
                    common.refuse(format!("denied-{}", code.number()));
                }
            }
        }
    }

    fn source(&self) -> Ipv4Addr {
        match self.seen {
            Some(Link::Address(_, own)) => own,
            _ => Ipv4Addr::UNSPECIFIED,
        }
    }

    /// To an agent whose link-layer address is known as a frame, else by the socket.
    fn send(
        &mut self,
        (from, to, ttl): (Ipv4Addr, SocketAddrV4, Option<u8>),
        payload: Vec<u8>,
        common: &mut Common,
    ) {
        if self.node.through().is_some() && self.macs.contains_key(to.ip()) && self.link.is_some() {
            return self.send_to_agent((from, to, ttl), &payload, common);
        }
        let from = SocketAddrV4::new(from, PORT);
        let datagram = Effect::Datagram { from, to, payload };
        match self.is_moving {
            true => self.held = Some(datagram),
            false => common.effects.push_back(datagram),
        }
    }

    /// To an agent on the link, as a frame.
    fn send_to_agent(
        &self,
        (from, to, ttl): (Ipv4Addr, SocketAddrV4, Option<u8>),
        payload: &[u8],
        common: &mut Common,
    ) {
        let (Some(mac), Some(link)) = (self.macs.get(to.ip()), self.link) else {
            common.unsent += 1;
            return;
        };
        let sent = common.links[link].send_registration(&Registration {
            mac: *mac,
            from: SocketAddrV4::new(from, PORT),
            to,
            ttl: ttl.unwrap_or(TTL),
            payload,
        });
        common.sent(sent);
    }

    /// The last message did not leave this host: an address is there sooner than a route, and a
    /// node that comes inside is still filtered.
    fn retry(&mut self, now: Instant) {
        self.outer.iter_mut().for_each(|it| it.retry(now));
        if core::mem::take(&mut self.is_unsent) {
            debug!("asking again: the last request was not sent");
            self.node.retry(now);
        }
    }

    fn release(&mut self, common: &mut Common) {
        self.is_moving = false;
        self.has_address = true;
        common.effects.extend(self.held_sealed.take());
        common.effects.extend(self.held.take());
    }

    fn become_state(&mut self, state: State, common: &mut Common, now: Instant) {
        if state != State::Unreachable {
            (self.denied, self.trial) = (None, None);
        }
        match &state {
            State::Registered {
                tunnel, through, ..
            } => info!(
                care_of = %tunnel.care_of,
                through = through.map(|it| it.to_string()),
                udp = tunnel.udp.map(|it| it.to_string()),
                "registered"
            ),
            State::Home => {
                info!("at home");
                let config = &self.setup.config;
                let other = surroundings::other_source(config.home_address, &[config.home_agent]);
                if let Some(text) = other {
                    warn!("{text}");
                }
            }
            State::Unreachable => {
                info!("not registered");
                self.begin_to_wait(now);
            }
        }
        let seconds = match &state {
            State::Registered { keepalive, .. } => *keepalive,
            _ => 0,
        };
        self.keepalive.begin(seconds, now);
        let config = &self.setup.config;
        let own = HomeNetwork {
            address: config.home_address,
            prefix_len: self.setup.prefix,
        };
        let mut wanted = carriers::of_node(own, config.home_agent, &state);
        self.layer.nest(&mut wanted);
        let changes = self.carriers.follow(Owner::Home(own.address), wanted);
        common.plane(changes);
        common.effects.push_back(Effect::Host);
    }

    /// A registration is to come.
    fn begin_to_wait(&mut self, now: Instant) {
        self.wait = report::Wait::new(self.node.ignored(), now);
    }

    fn announce(&mut self, common: &mut Common, now: Instant) {
        let (Some((due, left)), Some(link)) = (self.announcement, self.link) else {
            return;
        };
        if due <= now {
            let announced = common.links[link].announce(None, self.setup.config.home_address);
            common.sent(announced);
            self.announcement = (left > 1).then(|| (now + ANNOUNCED_APART, left - 1));
        }
    }

    fn keep_alive(&mut self, now: Instant) {
        let config = &self.setup.config;
        let ends = (config.home_address, config.home_agent);
        if let Some(echoes) = &self.echoes
            && self.keepalive.keep(echoes, ends, now)
        {
            info!("no answer through the tunnel: registering again");
            self.node.renew(now);
        }
    }
}
