//! A part in Mobile IPv4 beside the node of IKE: it passes datagrams, frames and time to its
//! machine, and says what the sockets, the packet threads and the host must do.
//!
//! Tunnels are the same to the packet threads as those of IKE; `engine::mip4::carriers` says which
//! there are. What the host must do goes to the steward with everything else that is wanted.

mod counts;
mod firewall;
mod foreign_agent;
mod home_agent;
mod homecoming;
mod keepalive;
mod look;
mod mobile_node;
mod opened;
mod refusals;
mod shared;
pub(super) mod surroundings;
mod tunnel;
mod walls;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use crypto::rand::Seed;
use engine::ike::Unreachable;
use engine::mip4::carriers::{Carrier, Carriers, Change, Owner};
use engine::mip4::{identification, security};
use engine::plane::{Notice, SaReport};
use engine::sa::{ChildId, Direction, Path};
use engine::skip::udp::KEEPALIVE;
use engine::time::{Deadline, Instant};
use futures_util::future::select_all;
use tracing::{info, warn};

use super::Process;
use crate::capture::udp_packet;
use crate::config::Mobility;
use crate::count_file::CountFile;
use crate::ether::{Heard, Link};
use crate::nft;
use crate::routes::{Desired, NextHop, next_hop};
use crate::status::MobilityStatus;
use firewall::FirewallPart;
use foreign_agent::ForeignAgentPart;
use home_agent::HomeAgentPart;
use mobile_node::MobileNodePart;
pub(super) use opened::Opened;

/// What a machine hears.
pub(super) enum Input<'a> {
    /// A UDP payload from port 434.
    Datagram {
        from: SocketAddrV4,
        to: SocketAddrV4,
        payload: &'a [u8],
    },
    /// A frame of the link with this number.
    Frame(usize, &'a Heard),
    /// ICMP says that a host is not reached.
    Unreachable(Ipv4Addr, Unreachable),
    /// Links or addresses may have changed.
    Look,
    /// Time has passed.
    Wake,
    /// The tunnel to the node's VPN gateway is up, with this inner address and by a NAT, or not.
    Tunnel(Option<Ipv4Addr>, bool),
    /// The node of IKE has a new configuration: what it was told of the tunnel may be forgotten.
    Configured,
    /// The host is as it was wanted last.
    Applied,
    /// A datagram to this host could not be sent.
    Unsent(Ipv4Addr),
    /// The process ends: registrations are taken back.
    Leave,
    /// That of a home agent outside too: the tunnel that goes by way of it has ended.
    LeaveOutside,
    /// A plane says something about an SA of ours.
    Notice(&'a Notice),
    /// The inbound plane's SAs: the answer to [`Effect::WantsReport`].
    Report(&'a [SaReport]),
    /// A bound of n is on the disk: its number and the bound, of [`Effect::StoreN`].
    Stored(u32, u32),
}

/// What must be done.
pub(super) enum Effect {
    /// Send a UDP payload.
    Datagram {
        from: SocketAddrV4,
        to: SocketAddrV4,
        payload: Vec<u8>,
    },
    /// Keep the state of a NAT on this path.
    Keepalive(Path),
    /// Change a packet plane.
    Plane(Change),
    /// The host must change.
    Host,
    /// Send a UDP payload through the tunnel to this firewall, or that of the VPN gateway, not from
    /// a socket.
    Sealed {
        firewall: Option<Ipv4Addr>,
        from: SocketAddrV4,
        to: SocketAddrV4,
        payload: Vec<u8>,
    },
    /// Bring the tunnel to the VPN gateway up, or take it down.
    Connect(bool),
    /// Send a packet through each tunnel that takes it.
    Packet(Vec<u8>),
    /// Give the inbound plane's report.
    WantsReport,
    /// Store how far n has come with a pair, then say so.
    StoreN {
        pair: String,
        number: u32,
        bound: u32,
    },
    /// Store within a minute the highest n that was heard from a pair's other end.
    KeepN { pair: String, n: u32 },
}

/// What a part holds besides its machine.
pub(super) struct Common {
    pub(super) links: Vec<Link>,
    pub(super) effects: VecDeque<Effect>,
    /// Messages that were not served, by reason.
    pub(super) refused: BTreeMap<String, u64>,
    /// Frames that a link did not take.
    pub(super) unsent: u64,
}

/// A part in Mobile IPv4.
pub(super) struct MobilePart {
    common: Common,
    machine: Machine,
    name: &'static str,
    /// Where the last message went, and by which next hop.
    last: Option<(Ipv4Addr, Option<NextHop>)>,
}

enum Machine {
    HomeAgent(Box<HomeAgentPart>),
    ForeignAgent(Box<ForeignAgentPart>),
    MobileNode(Box<MobileNodePart>),
    Firewall(Box<FirewallPart>),
}

/// Reasons that are counted separately. A reason consists of our own words and codes, so there are
/// few.
const REASONS_MAX: usize = 256;

impl Common {
    /// Counts a message that was not served.
    fn refuse(&mut self, reason: String) {
        if self.refused.len() < REASONS_MAX || self.refused.contains_key(&reason) {
            *self.refused.entry(reason).or_default() += 1;
        }
    }

    fn plane(&mut self, changes: Vec<Change>) {
        self.effects.extend(changes.into_iter().map(Effect::Plane));
    }

    /// Counts a frame that a link did not take.
    fn sent(&mut self, result: std::io::Result<()>) {
        self.unsent += u64::from(result.is_err());
    }
}

/// The pairs whose n is counted, as they are stored.
pub(super) fn pairs(mobility: Option<&Mobility>) -> BTreeSet<String> {
    match mobility {
        Some(Mobility::MobileNode(setup)) => walls::pairs(setup),
        Some(Mobility::Firewall(setup)) => firewall::pairs(setup),
        Some(Mobility::HomeAgent(setup)) => {
            let own = setup.own_skip.as_deref();
            own.map(firewall::pairs).unwrap_or_default()
        }
        Some(Mobility::ForeignAgent(_)) | None => BTreeSet::new(),
    }
}

impl MobilePart {
    /// Starts a machine.
    pub(super) fn start(
        (mobility, mark, tun): (&Mobility, u32, &str),
        opened: Opened,
        counts: &CountFile,
        (seed, now): (&Seed, Instant),
    ) -> anyhow::Result<Self> {
        let random = seed.stream("mobile ip", 0);
        let clock = clock(now);
        let mut common = Common {
            links: opened.links,
            effects: VecDeque::new(),
            refused: BTreeMap::new(),
            unsent: 0,
        };
        for text in surroundings::missing(mobility, tun) {
            warn!("{text}");
        }
        let machine = match mobility {
            Mobility::HomeAgent(setup) => {
                let beacon = seed.stream("mobile ip", 1);
                let own = (setup, counts);
                let (part, begun) = HomeAgentPart::new(own, clock, now, (random, beacon))?;
                common.plane(begun);
                Machine::HomeAgent(Box::new(part))
            }
            Mobility::ForeignAgent(setup) => Machine::ForeignAgent(Box::new(
                ForeignAgentPart::new(setup, (clock, now), opened.echoes, random),
            )),
            Mobility::MobileNode(setup) => Machine::MobileNode(Box::new(MobileNodePart::new(
                (setup, mark),
                clock,
                (opened.echoes, counts),
                (random, seed.stream("mobile ip", 2)),
            ))),
            Mobility::Firewall(setup) => {
                Machine::Firewall(Box::new(FirewallPart::new(setup, counts)?))
            }
        };
        Ok(Self {
            common,
            machine,
            name: mobility.name(),
            last: None,
        })
    }

    /// The name under which it runs.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether a home agent outside is between a mobile node and its gateway.
    pub(super) fn has_outer(&self) -> bool {
        matches!(&self.machine, Machine::MobileNode(it) if it.has_outer())
    }

    /// The connection to a mobile node's VPN gateway.
    pub(super) fn connection(&self) -> Option<&str> {
        match &self.machine {
            Machine::MobileNode(it) => it.connection(),
            Machine::HomeAgent(_) | Machine::ForeignAgent(_) | Machine::Firewall(_) => None,
        }
    }

    /// The next frame of a link, with the link's number; without a part, never. Cancel-safe.
    pub(super) async fn hear(part: Option<&Self>) -> anyhow::Result<(usize, Heard)> {
        let links = part.map(|part| part.common.links.as_slice());
        let links = links.unwrap_or_default();
        if links.is_empty() {
            return std::future::pending().await;
        }
        let each = links.iter().map(|link| Box::pin(link.hear()));
        let (heard, number, _) = select_all(each).await;
        let name = links[number].name();
        let heard = heard.with_context(|| format!("the interface {name} is gone"))?;
        Ok((number, heard))
    }

    /// Handles one input.
    pub(super) fn handle(&mut self, input: &Input<'_>, now: Instant) {
        let common = &mut self.common;
        match &mut self.machine {
            Machine::HomeAgent(it) => it.handle(input, common, now),
            Machine::ForeignAgent(it) => it.handle(input, common, now),
            Machine::MobileNode(it) => it.handle(input, common, now),
            Machine::Firewall(it) => it.handle(input, common, now),
        }
    }

    /// The next thing to do.
    pub(super) fn poll(&mut self) -> Option<Effect> {
        self.common.effects.pop_front()
    }

    /// When [`Input::Wake`] is due.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        match &self.machine {
            Machine::HomeAgent(it) => it.deadline(),
            Machine::ForeignAgent(it) => Some(it.deadline()),
            Machine::MobileNode(it) => it.deadline(),
            Machine::Firewall(it) => it.deadline(),
        }
    }

    /// The calendar time was set.
    pub(super) fn set_clock(&mut self, now: Instant) {
        match &mut self.machine {
            Machine::HomeAgent(it) => it.agent.set_clock(clock(now)),
            Machine::ForeignAgent(it) => it.agent.set_clock(clock(now)),
            Machine::MobileNode(it) => it.set_clock(clock(now)),
            Machine::Firewall(_) => {}
        }
    }

    /// Adds what it wants of the host.
    pub(super) fn want(&self, desired: &mut Desired) {
        match &self.machine {
            Machine::HomeAgent(it) => it.want(desired),
            Machine::ForeignAgent(it) => it.want(desired),
            Machine::MobileNode(it) => it.want(desired),
            Machine::Firewall(it) => it.want(desired),
        }
    }

    /// Whether peers have not yet said that they know of [`Input::Leave`].
    pub(super) fn is_leaving(&self) -> bool {
        match &self.machine {
            Machine::HomeAgent(it) => it.agent.is_revoking(),
            Machine::ForeignAgent(it) => it.agent.is_revoking(),
            Machine::MobileNode(it) => it.is_leaving(),
            Machine::Firewall(_) => false,
        }
    }

    /// Takes over a configuration from which [`Mobility::moved_key`] names nothing.
    fn configure(&mut self, mobility: &Mobility, now: Instant) {
        match (&mut self.machine, mobility) {
            (Machine::HomeAgent(it), Mobility::HomeAgent(setup)) => it.configure(setup, now),
            (Machine::ForeignAgent(it), Mobility::ForeignAgent(setup)) => it.configure(setup),
            (Machine::MobileNode(it), Mobility::MobileNode(setup)) => it.configure(setup, now),
            _ => {}
        }
    }

    /// Ends the registration of a node at an agent. Whether there was one.
    fn revoke(&mut self, home: Ipv4Addr, now: Instant) -> bool {
        match &mut self.machine {
            Machine::HomeAgent(it) => it.agent.revoke(home, now),
            Machine::ForeignAgent(it) => it.agent.revoke(home, now),
            Machine::MobileNode(_) | Machine::Firewall(_) => false,
        }
    }

    /// Another next hop leads there now than the last message took.
    fn look_at_next_hop(&mut self, mark: u32, now: Instant) {
        let last = self
            .last
            .take_if(|(to, last)| *last != next_hop((*to).into(), Some(mark)));
        if let Some((to, _)) = last {
            self.handle(&Input::Unsent(to), now);
        }
    }

    /// Whether it serves, or a mobile node is registered.
    pub(super) fn is_up(&self) -> bool {
        match &self.machine {
            Machine::HomeAgent(_) | Machine::ForeignAgent(_) | Machine::Firewall(_) => true,
            Machine::MobileNode(it) => it.is_up(),
        }
    }

    /// What an administrator should look at.
    pub(super) fn warnings(&self, now: Instant) -> Vec<String> {
        match &self.machine {
            Machine::HomeAgent(it) => it.places.warnings(now),
            Machine::ForeignAgent(_) | Machine::MobileNode(_) | Machine::Firewall(_) => Vec::new(),
        }
    }

    /// Why a mobile node is not registered.
    pub(super) fn trouble(&self) -> Option<String> {
        match &self.machine {
            Machine::MobileNode(it) if !it.is_up() => Some(it.trouble()),
            _ => None,
        }
    }

    /// What stays on this host if the process ends by itself now.
    pub(super) fn standing(&self) -> Option<String> {
        let is_filtered = match &self.machine {
            Machine::MobileNode(it) => it.is_filtered(),
            Machine::Firewall(_) => true,
            Machine::HomeAgent(_) | Machine::ForeignAgent(_) => false,
        };
        is_filtered.then(|| nft::names::standing(self.name))
    }

    /// Ends all tunnels.
    fn end(&mut self) -> Vec<Change> {
        match &mut self.machine {
            Machine::HomeAgent(it) => it.end(),
            Machine::ForeignAgent(it) => end_all(&mut it.carriers),
            Machine::MobileNode(it) => it.end(),
            // The planes end with the process, which is nothing else.
            Machine::Firewall(_) => Vec::new(),
        }
    }

    /// For `status`.
    pub(super) fn status(&self, now: Instant) -> MobilityStatus {
        let mut status = match &self.machine {
            Machine::HomeAgent(it) => it.status(now),
            Machine::ForeignAgent(it) => it.status(now),
            Machine::MobileNode(it) => it.status(now),
            Machine::Firewall(it) => it.status(now),
        };
        self.name.clone_into(&mut status.name);
        status.refused.extend(self.common.refused.clone());
        status.unsent = self.common.unsent;
        status
    }
}

impl Process {
    /// Gives the part in Mobile IPv4 an input, and does what follows.
    pub(super) fn mobile_input(&mut self, input: &Input<'_>) -> anyhow::Result<()> {
        let now = self.clock.now();
        let Some(part) = &mut self.mobility else {
            return Ok(());
        };
        if matches!(input, Input::Look) {
            part.look_at_next_hop(self.loaded.daemon.fwmark, now);
        }
        part.handle(input, now);
        let mut wants_host = false;
        while let Some(effect) = self.mobility.as_mut().and_then(MobilePart::poll) {
            match effect {
                Effect::Datagram { from, to, payload } => {
                    self.note_next_hop(*to.ip());
                    let is_sent = self.send(&Path::udp_with_type(from, to), &payload);
                    if let Some(part) = self.mobility.as_mut().filter(|_| !is_sent) {
                        part.handle(&Input::Unsent(*to.ip()), now);
                    }
                }
                Effect::Keepalive(path) => {
                    let _ = self.send(&path, &KEEPALIVE);
                }
                Effect::Plane(change) => self.change_plane(change)?,
                Effect::Host => wants_host = true,
                Effect::Sealed {
                    firewall,
                    from,
                    to,
                    payload,
                } => {
                    if let Some(firewall) = firewall {
                        self.note_next_hop(firewall);
                    }
                    let packet = udp_packet(from.into(), to.into(), 0, &payload);
                    self.planes.send_packet(packet)?;
                }
                Effect::Connect(is_wanted) => self.owed.extend(self.tunnel_command(is_wanted)),
                Effect::Packet(packet) => self.planes.send_packet(packet)?,
                Effect::WantsReport => self.owes_report = true,
                Effect::StoreN {
                    pair,
                    number,
                    bound,
                } => self.store_n(pair, (number, bound))?,
                Effect::KeepN { pair, n } => self.counts.keep(&pair, n),
            }
        }
        self.planes.wake()?;
        if wants_host {
            self.update_host();
            // What is wanted may be what is there.
            if self.host.is_up_to_date() && !matches!(input, Input::Applied) {
                return self.mobile_input(&Input::Applied);
            }
        }
        self.become_ready()
    }

    /// Gives the part the report that it wants.
    pub(super) async fn report_to_part(&mut self) -> anyhow::Result<()> {
        while core::mem::take(&mut self.owes_report) {
            let report = self.planes.report(Direction::Inbound)?.await?;
            self.mobile_input(&Input::Report(&report.plane.associations))?;
        }
        Ok(())
    }

    /// A message from UDP port 434.
    pub(super) fn mobile_message(&mut self, path: &Path, payload: &[u8]) -> anyhow::Result<()> {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (path.remote, path.local) else {
            return Ok(());
        };
        self.mobile_input(&Input::Datagram { from, to, payload })
    }

    /// Whether the host is as it was wanted last: messages of a node that came home wait for that.
    pub(super) fn mobile_applied(&mut self) -> anyhow::Result<()> {
        match self.host.is_up_to_date() {
            true => self.mobile_input(&Input::Applied),
            false => Ok(()),
        }
    }

    /// The administrator of an agent ends a node's registration. Whether there was one.
    pub(super) fn revoke(&mut self, home: Ipv4Addr) -> anyhow::Result<bool> {
        let now = self.clock.now();
        let part = self.mobility.as_mut();
        let was_there = part.is_some_and(|part| part.revoke(home, now));
        self.mobile_input(&Input::Wake)?;
        Ok(was_there)
    }

    /// The configuration was read again.
    pub(super) fn follow_mobility(&mut self, old: Option<&Mobility>) -> anyhow::Result<()> {
        let now = self.clock.now();
        if let (Some(part), Some(new)) = (&mut self.mobility, &self.loaded.mobility)
            && Some(new) != old
        {
            part.configure(new, now);
        }
        self.mobile_input(&Input::Configured)?;
        self.tell_tunnel()
    }

    /// Notes by which next hop a message leaves. An address is there sooner than its route, and
    /// that of the link before may still be there: then the message goes nowhere.
    fn note_next_hop(&mut self, to: Ipv4Addr) {
        let part = self.mobility.as_mut();
        // Agents ask nothing.
        let node = part.filter(|it| matches!(it.machine, Machine::MobileNode(_)));
        if let Some(part) = node {
            let mark = Some(self.loaded.daemon.fwmark);
            part.last = Some((to, next_hop(to.into(), mark)));
        }
    }

    /// Takes the part in Mobile IPv4 down.
    pub(super) fn end_mobility(&mut self) -> anyhow::Result<()> {
        let Some(mut part) = self.mobility.take() else {
            return Ok(());
        };
        for change in part.end() {
            self.change_plane(change)?;
        }
        self.planes.wake()?;
        info!("the part in Mobile IPv4 has ended");
        Ok(())
    }
}

/// Whether a plane speaks of an SA of the part, not of one of the node of IKE.
pub(super) fn is_about(notice: &Notice) -> bool {
    let child = match notice {
        Notice::PathMoved { child, .. }
        | Notice::InboundUsed { child, .. }
        | Notice::SoftLimit { child }
        | Notice::Acquire { child }
        | Notice::LargeUnanswered { child }
        | Notice::PathShrank { child, .. }
        | Notice::StoreN { child, .. }
        | Notice::HeardN { child, .. }
        | Notice::OutboundUsed { child, .. } => *child,
        Notice::Removed(_, report) => report.child,
        Notice::UnknownSpi { .. } => return false,
    };
    child >= ChildId(security::FIRST_CHILD)
}

fn end_all(carriers: &mut Carriers) -> Vec<Change> {
    let owners: BTreeSet<Owner> = carriers.iter().map(|(owner, ..)| owner).collect();
    let each = owners.into_iter();
    each.flat_map(|owner| carriers.follow(owner, Vec::<Carrier>::new()))
        .collect()
}

/// The calendar time, with which registrations are marked.
fn clock(now: Instant) -> identification::Clock {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    identification::Clock::new(now, since.unwrap_or_default())
}
