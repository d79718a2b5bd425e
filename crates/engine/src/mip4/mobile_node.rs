//! The mobile node: it finds agents, registers where it is, renews, and deregisters at home (RFC
//! 5944 §2.4, §3.6).
//!
//! The owner says to which link the node is attached ([`Attachment`]) and passes on advertisements
//! and replies. The node says what to send, and which tunnel holds ([`State`]).

mod agents;
mod probe;
mod registration;
mod revocation;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Stream;
use wire::mip4::{AgentAdvertisement, AgentFlags, Code};

use super::aaa::AaaKey;
use super::association::Associations;
use super::firewall::{HomeFirewall, Side};
use super::identification::{Clock, Identifier};
use super::revocation::Agreement;
use super::tunnel::{Tunnel, UdpWish};
use crate::sa::Encapsulation;
use crate::time::{Deadline, Duration, Instant};

use agents::{Agents, Solicitations};
use probe::Probe;
use registration::Pending;

/// What a mobile node is and wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The address that it keeps.
    pub home_address: Ipv4Addr,
    /// Its home agent.
    pub home_agent: Ipv4Addr,
    /// Its network access identifier, if it names itself by it (RFC 2794).
    pub nai: Option<Vec<u8>>,
    /// Its AAA key: each request also proves that the node has it (RFC 4721).
    pub aaa: Option<AaaKey>,
    /// With the home agent.
    pub associations: Associations,
    /// With foreign agents, by their address.
    pub foreign_agents: BTreeMap<Ipv4Addr, Associations>,
    /// The lifetime that it asks for, in seconds.
    pub lifetime: u16,
    /// How its packets travel.
    pub encapsulation: Encapsulation,
    /// Whether it sends through the tunnel too (RFC 3024).
    pub is_reverse: bool,
    /// Whether it encapsulates what it sends to a foreign agent (RFC 3024 §5.2).
    pub encapsulates_delivery: bool,
    /// Whether it wants broadcasts of the home network.
    pub wants_broadcasts: bool,
    /// Whether it keeps its former binding when it moves.
    pub is_simultaneous: bool,
    /// Tunnels in UDP (RFC 3519).
    pub udp: UdpWish,
    /// What is between the home agent and care-of addresses outside of the home network.
    pub firewall: Option<HomeFirewall>,
    /// Whether its home agent may tell it that a registration has ended, while it is co-located
    /// (RFC 3543).
    pub hears_revocations: bool,
    /// The node is outside of its home network until a reply says that its home agent hears the
    /// networks inside alone, and again when it has had no other such reply for so long: T_MONITOR
    /// (RFC 5265 §3.2.4).
    pub monitor: Option<Duration>,
}

/// To what the node is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// No link.
    Detached,
    /// The home link.
    Home,
    /// Another link, on which it has this address of its own.
    Colocated(Ipv4Addr),
    /// Any link, through a VPN gateway that has given it this address (RFC 5266).
    Secured(Ipv4Addr),
    /// Another link, without an address: it needs a foreign agent.
    Visiting,
}

/// What the node's home address can do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Unreachable,
    /// It is at home, and its home agent knows.
    Home,
    /// Packets go through this tunnel.
    Registered {
        /// The tunnel.
        tunnel: Tunnel,
        /// The foreign agent, unless the node is the tunnel's end.
        through: Option<Ipv4Addr>,
        /// Packets go to the foreign agent in a tunnel (RFC 3024 §5.2).
        encapsulates_delivery: bool,
        /// Seconds between keepalives in UDP; 0 if there are none.
        keepalive: u16,
    },
}

impl State {
    /// The foreign agent that delivers packets for the home address, if one does.
    pub fn delivering(&self) -> Option<Ipv4Addr> {
        match self {
            Self::Registered {
                tunnel, through, ..
            } => through.filter(|_| !tunnel.is_colocated),
            Self::Home | Self::Unreachable => None,
        }
    }
}

/// What the owner must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a UDP payload to port 434.
    Send {
        /// From this address.
        from: Ipv4Addr,
        /// To the home agent or, on this link, the foreign agent.
        to: SocketAddrV4,
        /// TTL 255 through a foreign agent with a reverse tunnel, which shows that it is on this
        /// link (RFC 3024 §3.1).
        ttl: Option<u8>,
        /// Through this firewall of the home network, as all packets for the home agent.
        firewall: Option<Ipv4Addr>,
        /// The payload.
        payload: Vec<u8>,
    },
    /// Send an Agent Solicitation.
    Solicit,
    /// Whether to answer ARP for the home address. With `true`, announce it first (RFC 5944 §4.6).
    AnswerArp(bool),
    /// The state has changed.
    State(State),
    /// A registration was denied. It is tried again, later and later.
    Denied(Code),
    /// The home agent has ended the registration. The node registers again.
    Revoked,
    /// Send a keepalive through the tunnel at once: it carries nothing before (RFC 3519 §4.4).
    WantsKeepalive,
}

/// Counted messages that the node has not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Not readable, or not a reply.
    pub malformed: u64,
    /// A reply to no request of ours.
    pub unexpected: u64,
    /// A wrong authenticator, or none.
    pub unauthenticated: u64,
    /// A revocation of another registration than ours, or an old one.
    pub stale: u64,
    /// An answer of a home agent that does not say which networks are inside.
    pub untrusted: u64,
}

/// A mobile node.
pub struct MobileNode {
    config: Config,
    clock: Clock,
    random: Stream,
    identifier: Identifier,
    attachment: Attachment,
    side: Side,
    agents: Agents,
    solicitations: Option<Solicitations>,
    state: State,
    /// The foreign agent of the registration that holds or is tried. None: the home agent itself.
    through: Option<Ipv4Addr>,
    pending: Option<Pending>,
    /// The question in clear whether this link is inside, beside the registration.
    probe: Option<Probe>,
    /// When the last request was built.
    asked: Option<Instant>,
    /// When the registration that holds must be renewed, and when it ends.
    renewal: Option<(Instant, Instant)>,
    /// What was agreed on about revocation in the registration that holds.
    agreement: Option<Agreement>,
    ignored: Ignored,
    /// The owner ends: the registration that holds is taken back.
    is_leaving: bool,
    outputs: VecDeque<Output>,
}

impl MobileNode {
    /// A node that is attached to nothing.
    pub fn new(config: Config, clock: Clock, mut random: Stream) -> Self {
        let replay = config.associations.first().replay();
        Self {
            identifier: Identifier::new(replay, &mut random),
            config,
            clock,
            random,
            attachment: Attachment::Detached,
            side: Side::default(),
            agents: Agents::default(),
            solicitations: None,
            state: State::Unreachable,
            through: None,
            pending: None,
            probe: None,
            asked: None,
            renewal: None,
            agreement: None,
            ignored: Ignored::default(),
            is_leaving: false,
            outputs: VecDeque::new(),
        }
    }

    /// The calendar time was set.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// The node has moved, or its address has changed.
    pub fn attach(&mut self, attachment: Attachment, now: Instant) {
        if attachment == self.attachment {
            return;
        }
        self.attachment = attachment;
        self.begin(now);
    }

    /// The user says on which side of the firewall the node is.
    pub fn set_side(&mut self, side: Side, now: Instant) {
        let before = self.firewall();
        self.side = side;
        if self.firewall() != before {
            self.begin(now);
        }
    }

    /// The configuration has changed. Home address and home agent are the same. A registration that
    /// holds is made anew.
    pub fn configure(&mut self, config: Config, now: Instant) {
        if config.associations != self.config.associations {
            let replay = config.associations.first().replay();
            self.identifier = Identifier::new(replay, &mut self.random);
        }
        self.config = config;
        self.pending = None;
        self.register(now);
    }

    /// The last request did not leave this host, and perhaps it can now: asks again at once.
    pub fn retry(&mut self, now: Instant) {
        if self.pending.as_ref().is_some_and(Pending::is_asked) {
            self.register(now);
        }
        self.probe_again(now);
    }

    /// Nothing comes through the tunnel: the registration that holds is made anew.
    /// RFC 3519 §4.10.
    pub fn renew(&mut self, now: Instant) {
        if matches!(self.state, State::Registered { .. }) && self.pending.is_none() {
            self.register(now);
        }
    }

    /// Takes back a registration that holds, so that its agents need not wait for the end of its
    /// lifetime. Then the state is [`State::Unreachable`].
    pub fn leave(&mut self, now: Instant) {
        if matches!(self.state, State::Registered { .. }) {
            self.is_leaving = true;
            self.register(now);
        }
    }

    /// The node ends: as [`Self::leave`], and what is asked for is not wanted any more.
    pub fn retire(&mut self, now: Instant) {
        self.probe = None;
        if !matches!(self.state, State::Registered { .. }) {
            (self.pending, self.solicitations, self.renewal) = (None, None, None);
            self.attachment = Attachment::Detached;
        }
        self.leave(now);
    }

    /// As [`Self::leave`], from this address of a link to which the node has moved since.
    pub fn leave_from(&mut self, own: Ipv4Addr, now: Instant) {
        if matches!(self.state, State::Registered { .. }) {
            self.attachment = Attachment::Colocated(own);
            self.through = None;
        }
        self.leave(now);
    }

    /// The node goes on after [`Self::leave`], or has lost its link: it is attached to nothing, and
    /// what held holds no more.
    pub fn rejoin(&mut self, now: Instant) {
        self.is_leaving = false;
        self.attach(Attachment::Detached, now);
    }

    /// Whether the answer to [`Self::leave`] is still awaited.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving && matches!(self.state, State::Registered { .. })
    }

    /// Whether packets from a care-of address must go through the firewall.
    pub fn is_outside(&self, care_of: Ipv4Addr) -> bool {
        let firewall = self.config.firewall.as_ref();
        firewall.is_some_and(|it| it.is_outside(care_of, self.side))
    }

    /// The node's own care-of address, if the firewall is between it and the home agent.
    pub fn outside(&self) -> Option<Ipv4Addr> {
        self.colocated().filter(|it| self.is_outside(*it))
    }

    /// Whether the state proves that no firewall is between the node and its home agent. A UDP
    /// tunnel leads to anybody who has passed the request on, and so does a foreign agent, unless
    /// its key proves that it is one of ours. What the user says counts more.
    pub fn is_proven_inside(&self) -> bool {
        if self.secured().is_some() {
            return false;
        }
        match self.state {
            State::Home => self.side != Side::Outside,
            State::Registered {
                tunnel, through, ..
            } => {
                let is_ours = |agent| self.config.foreign_agents.contains_key(&agent);
                tunnel.firewall.is_none() && tunnel.udp.is_none() && through.is_none_or(is_ours)
            }
            State::Unreachable => false,
        }
    }

    /// To what the node is attached.
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// The node's own care-of address.
    pub fn colocated(&self) -> Option<Ipv4Addr> {
        match self.attachment {
            Attachment::Colocated(address) => Some(address),
            Attachment::Detached
            | Attachment::Home
            | Attachment::Secured(_)
            | Attachment::Visiting => None,
        }
    }

    /// The care-of address that a VPN gateway has given.
    pub fn secured(&self) -> Option<Ipv4Addr> {
        match self.attachment {
            Attachment::Secured(address) => Some(address),
            _ => None,
        }
    }

    /// Begins on the link to which the node is attached.
    fn begin(&mut self, now: Instant) {
        self.agents = Agents::default();
        self.solicitations = None;
        self.through = None;
        self.pending = None;
        self.probe = None;
        self.asked = None;
        // The former care-of address is not ours here.
        self.lose();
        let attachment = self.attachment;
        match attachment {
            Attachment::Detached => {}
            Attachment::Visiting => {
                self.outputs.push_back(Output::AnswerArp(false));
                self.choose(now);
            }
            Attachment::Home | Attachment::Colocated(_) | Attachment::Secured(_) => {
                let is_home = attachment == Attachment::Home;
                self.outputs.push_back(Output::AnswerArp(is_home));
                self.register(now);
            }
        }
    }

    /// An ICMP message that came from `from` on the node's link. The caller has checked that its
    /// TTL is 1 (RFC 5944 §2.1): so it comes from this link.
    pub fn hear(&mut self, from: Ipv4Addr, icmp: &[u8], now: Instant) {
        let advertisement = match AgentAdvertisement::parse(icmp) {
            Ok(Some(advertisement)) => advertisement,
            Ok(None) => return,
            Err(_malformed) => {
                self.ignored.malformed += 1;
                return;
            }
        };
        if self.attachment == Attachment::Detached {
            return;
        }
        // Anybody on a link can advertise. The firewall's keys prove who is heard outside of it,
        // and an advertisement leads nowhere else.
        if self.outside().is_some() || self.secured().is_some() {
            return;
        }
        let flags = advertisement.agent.flags;
        if flags.has(AgentFlags::HOME_AGENT) && from == self.config.home_agent {
            // RFC 5944 §2.4.3: this is our home link.
            self.attach(Attachment::Home, now);
            return;
        }
        let in_use = self.through;
        let has_restarted = self.agents.hear((from, in_use), &advertisement, now);
        let is_ours = self.through == Some(from);
        let is_told = is_ours && has_restarted;
        if is_told && flags.has(AgentFlags::BUSY) && self.agents.best(now).is_some() {
            // RFC 3543 §4.1: the agent has ended our registration, and another one takes us.
            self.through = None;
            self.pending = None;
            self.lose();
            self.choose(now);
            return;
        }
        if is_told && self.pending.is_none() {
            self.register_in_time(now);
        }
        let is_away = match self.attachment {
            Attachment::Visiting => true,
            Attachment::Colocated(_) => {
                flags.has(AgentFlags::REGISTRATION_REQUIRED) && !self.agents.is_doubted(from)
            }
            Attachment::Home | Attachment::Secured(_) | Attachment::Detached => false,
        };
        if is_away && self.through.is_none() && self.agents.best(now).is_some() {
            self.choose(now);
        } else if !is_ours {
            self.give_agent_up(now);
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(lost) = self.through.filter(|it| self.agents.is_silent(*it, now)) {
            // RFC 5944 §2.4.2.1: it is gone; another one serves, or is looked for.
            self.agents.forget(lost);
            self.through = None;
            self.pending = None;
            self.lose();
            self.choose(now);
        }
        if self.renewal.is_some_and(|(_, end)| end <= now) {
            self.lose();
            if self.pending.is_none() {
                // We were asleep longer than the lifetime.
                self.register(now);
            }
        }
        if self.renewal.is_some_and(|(due, _)| due <= now) && self.pending.is_none() {
            self.register(now);
        }
        if self.pending.as_ref().is_some_and(|it| it.due <= now) {
            self.repeat(now);
        }
        if self.solicitations.as_ref().is_some_and(|it| it.due <= now) {
            self.solicit(now);
        }
        if self.probe.as_ref().is_some_and(|it| it.due <= now) {
            self.ask_in_clear(now);
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn deadline(&self) -> Option<Deadline> {
        let renewal = self.renewal.map(|(due, end)| match self.pending {
            Some(_) => end,
            None => due,
        });
        let silence = self.through.and_then(|it| self.agents.silent_at(it));
        let pending = self.pending.as_ref().map(|it| it.due);
        let solicitation = self.solicitations.as_ref().map(|it| it.due);
        let probe = self.probe.as_ref().map(|it| it.due);
        [
            (probe, "ask in clear whether this is inside"),
            (renewal, "renew the registration"),
            (silence, "give up the foreign agent"),
            (pending, "repeat the registration request"),
            (solicitation, "solicit agents"),
        ]
        .into_iter()
        .filter_map(|(at, why)| at.map(|at| Deadline { at, why }))
        .min()
    }

    /// What holds now.
    pub fn state(&self) -> State {
        self.state
    }

    /// The foreign agent of the registration that holds or is tried.
    pub fn through(&self) -> Option<Ipv4Addr> {
        self.through
    }

    /// When the registration that holds ends; never, or none holds, if None.
    pub fn end(&self) -> Option<Instant> {
        self.renewal.map(|(_, end)| end)
    }

    /// Messages that were not accepted.
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    /// Registers with the best agent heard, or goes on looking.
    fn choose(&mut self, now: Instant) {
        match self.agents.best(now) {
            None if matches!(self.attachment, Attachment::Colocated(_)) => self.register(now),
            Some(agent) => {
                self.through = Some(agent);
                self.solicitations = None;
                self.register_in_time(now);
            }
            None if self.solicitations.is_none() => {
                self.solicitations = Some(Solicitations::new(now, &mut self.random));
            }
            None => {}
        }
    }

    /// Registers, but not sooner than a second after the last request on this link, whatever agents
    /// say.
    fn register_in_time(&mut self, now: Instant) {
        match self.asked.map(|asked| asked + INTERVAL_MIN) {
            Some(due) if due > now => {
                self.pending = None;
                // What holds ends when it would have ended.
                let end = self.renewal.map_or(Instant(u64::MAX), |(_, end)| end);
                self.renewal = Some((due, end));
            }
            _ => self.register(now),
        }
    }

    fn solicit(&mut self, now: Instant) {
        if let Some(solicitations) = &mut self.solicitations {
            solicitations.sent(now, &mut self.random);
            self.outputs.push_back(Output::Solicit);
        }
    }

    /// The firewall between the home agent and the care-of address that the node has now.
    fn firewall(&self) -> Option<Ipv4Addr> {
        let agent = self.through.and_then(|it| self.agents.get(it));
        let care_of = match (self.attachment, agent) {
            (Attachment::Colocated(address), _) => address,
            (Attachment::Visiting, Some(agent)) => agent.care_of,
            _ => return None,
        };
        let address = self.config.firewall.as_ref()?.address;
        self.is_outside(care_of).then_some(address)
    }

    fn lose(&mut self) {
        self.renewal = None;
        self.agreement = None;
        self.set(State::Unreachable);
    }

    fn set(&mut self, state: State) {
        if state != self.state {
            self.state = state;
            self.outputs.push_back(Output::State(state));
        }
    }
}

/// The shortest time between two requests (RFC 5944 §3.6.3).
const INTERVAL_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
