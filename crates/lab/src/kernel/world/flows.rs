//! All flows of a graph at the same time, while moves change nodes and links.
//!
//! Time 0 of flows and moves is when the last tunnel is up. A client that moves is on its new link
//! at once, and its node learns the new address at the same moment, as in the program. After the
//! move, packets with the former address are not sent, and packets that arrive on the former link
//! are lost.

use std::net::{IpAddr, Ipv4Addr};

use engine::link::{self, Counters};
use engine::time::{Duration, Instant};
use serde::Serialize;

use super::access;
use super::admitted::{Admitted, is_on};
use super::moved::{Gap, Moved};
use super::outcome::{Drops, Exchange, Row, Streamed, Transferred};
use super::{Begun, PATIENCE, QUIET, World, seconds};
use crate::kernel::host::Supplicant;
use crate::kernel::{Element, Kernel, KernelFault, Link, Port, Subject, Target, access_point};
use crate::scenario::{Change, WholeLinkChange, WholeMove};

/// Flows over radios begin at a multiple of this.
const GRID: Duration = Duration::from_secs(10);

/// The results of a graph. Serialized, it is the JSON of the level `simulate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Flowed {
    /// Each tunnel's key exchange.
    pub tunnels: Vec<Tunnelled>,
    /// In the order of the scenario. Empty unless all tunnels are up.
    pub flows: Vec<Flow>,
    /// How the stations of flows came onto their radio links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub admitted: Vec<Admitted>,
    /// What each mobile node did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mobile: Vec<Moved>,
    /// What each link carried from the flows' beginning to the end.
    pub links: Vec<Carried>,
    /// Dropped packets, by element and reason.
    pub drops: Vec<Drops>,
    /// The first operation of a processor that has no price. It took no simulated time.
    pub unpriced: Option<String>,
    /// Total simulated time.
    pub simulated_s: f64,
    /// Total number of events.
    pub events: u64,
    /// SHA-256 of the event trace.
    pub fingerprint: String,
}

/// The result of one tunnel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tunnelled {
    /// Name of the station.
    pub station: String,
    /// Name of the gateway.
    pub gateway: String,
    /// The key exchange as the station saw it.
    pub exchange: Exchange,
    /// How often the gateway saw an address of a peer change, summed over all of its stations.
    pub moved: u64,
    /// What the station sent and received of IKE after that exchange, such as for its moves; times
    /// are from the exchange's first message on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<Row>,
    /// The moves of the station: it is reachable when its gateway has answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Gap>,
}

/// The result of one flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// Its name in the scenario.
    pub name: String,
    /// The result of a TCP transfer.
    pub transferred: Option<Transferred>,
    /// The result of a datagram flow.
    pub streamed: Option<Streamed>,
    /// The numbers of the datagrams that arrived, as ranges (first, last), counted from 0.
    pub numbers: Vec<(u64, u64)>,
}

/// The packets that one link carried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Carried {
    /// Its name in the scenario.
    pub name: String,
    /// Away from the stations.
    pub up: Count,
    /// Towards them.
    pub down: Count,
}

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Packets that were handed to the link.
    pub offered: u64,
    /// The packets among them that the link has delivered, or that are on their way: without those
    /// lost, and those that did not fit into its queue.
    pub delivered: u64,
    /// The sum of the lengths of the delivered IP packets, in octets.
    pub delivered_bytes: u64,
}

impl World {
    /// Brings all tunnels up, runs all flows and moves, and returns the results.
    pub fn run_flows(mut self) -> Result<Flowed, KernelFault> {
        let outcome = self.run_graph();
        outcome.map_err(|fault| self.placed(fault))
    }

    fn run_graph(&mut self) -> Result<Flowed, KernelFault> {
        self.kernel.start()?;
        self.lose_earlier()?;
        let exchanges = self.handshakes()?;
        let tunnels = self.blueprint.graph.tunnels.iter().zip(&exchanges);
        let mut tunnels = tunnels.map(|(ends, exchange)| (ends.from, exchange.is_up));
        let is_up = tunnels.all(|(station, is_up)| is_up || self.is_inside(station));
        let is_up = is_up && self.are_on()?;
        if self.blueprint.has_radio() {
            // Flows begin at one time of agents' clocks, however long the access took.
            let now = self.kernel.now().0;
            let round = GRID.as_nanos() as u64;
            self.kernel.run(Instant(now.div_ceil(round) * round))?;
        }
        // A move has an arrival of its own, which is no part of this one.
        let admitted = self.admitted();
        let mut outcome = Flowed::default();
        if is_up {
            let before = self.carried();
            outcome.flows = self.flows()?;
            let carried = self.carried().into_iter().zip(before);
            outcome.links = carried.map(|(all, before)| all.since(&before)).collect();
        }
        outcome.tunnels = self.tunnelled(exchanges);
        let transferred: Vec<_> = outcome.flows.iter().map(|flow| flow.transferred).collect();
        outcome.admitted = self.with_transport(admitted, &transferred);
        outcome.mobile = self.moved();
        outcome.drops = self.drops();
        outcome.unpriced = self.unpriced();
        outcome.events = self.kernel.events();
        outcome.simulated_s = seconds(Instant(0), self.kernel.now());
        let hash = self.kernel.fingerprint().unwrap_or_default();
        outcome.fingerprint = crate::kernel::fingerprint::hex(&hash);
        let written = self.kernel.finish_capture();
        written.map_err(|fault| KernelFault::Capture(crate::system::said(&fault)))?;
        Ok(outcome)
    }

    /// Waits until the stations of flows are on their radio links. Returns whether they are.
    fn are_on(&mut self) -> Result<bool, KernelFault> {
        let stations = self
            .blueprint
            .programs
            .iter()
            .map(|program| program.station);
        let measured = stations.filter(|station| self.blueprint.is_measured(*station));
        let hosts: Vec<u32> = measured.map(|station| self.number(station)).collect();
        let all = |kernel: &Kernel| {
            let mut hosts = hosts.iter().filter_map(|host| kernel.host(*host));
            hosts.all(is_on)
        };
        let end = self.kernel.now() + PATIENCE;
        if !all(&self.kernel) {
            self.kernel.run_while(end, |kernel| !all(kernel))?;
        }
        Ok(all(&self.kernel))
    }

    fn flows(&mut self) -> Result<Vec<Flow>, KernelFault> {
        let start = self.kernel.now();
        let mut transfers = vec![None; self.blueprint.programs.len()];
        self.begin(Duration::ZERO, &mut transfers)?;
        for flow in 0..self.blueprint.programs.len() {
            self.begin_stream(flow);
        }
        let limits = self.blueprint.programs.iter().map(|program| program.limit);
        let end = start + limits.max().unwrap_or_default();
        self.follow(start, &mut transfers)?;
        self.kernel.run(end)?;
        let transfers = transfers.into_iter().enumerate();
        let transferred: Vec<Option<Transferred>> = transfers
            .map(|(flow, begun)| {
                let begins = start + self.blueprint.programs[flow].begins;
                begun.map(|begun| self.transferred(flow, begun, (begins, end)))
            })
            .collect();
        // what is under way comes to its end
        self.kernel.run(end + QUIET)?;
        let flows = transferred.into_iter().enumerate();
        Ok(flows
            .map(|(flow, transferred)| self.flow(flow, transferred))
            .collect())
    }

    /// Begins the transfers of this time after the start.
    fn begin(&mut self, at: Duration, transfers: &mut [Option<Begun>]) -> Result<(), KernelFault> {
        for (flow, begun) in transfers.iter_mut().enumerate() {
            let program = &self.blueprint.programs[flow];
            if let Some(bytes) = program.transfer.filter(|_| program.begins == at) {
                *begun = Some(self.begin_transfer(flow, bytes)?);
            }
        }
        Ok(())
    }

    fn flow(&self, flow: usize, transferred: Option<Transferred>) -> Flow {
        let program = &self.blueprint.programs[flow];
        let (_, end) = self.ends(flow);
        let stack = self.host(end).and_then(|host| host.stack.as_ref());
        let came =
            stack.and_then(|stack| stack.discarded.get(&self.blueprint.setup.flows[flow].port));
        Flow {
            name: program.name.clone(),
            transferred,
            streamed: program.stream.is_some().then(|| self.streamed(flow)),
            numbers: came.map(|came| came.numbers.clone()).unwrap_or_default(),
        }
    }

    /// Advances time to each of the moves and to later transfers, and makes them.
    fn follow(
        &mut self,
        start: Instant,
        transfers: &mut [Option<Begun>],
    ) -> Result<(), KernelFault> {
        let mut moves = self.blueprint.moves.clone().into_iter().peekable();
        let programs = self.blueprint.programs.iter();
        let later = programs.filter_map(|one| one.transfer.map(|_| one.begins));
        let later = later.filter(|begins| !begins.is_zero());
        let moving = self.blueprint.moves.iter();
        let moving = moving.map(|step| Duration::from_nanos(step.at_ns));
        let mut times: Vec<Duration> = later.chain(moving).collect();
        times.sort_unstable();
        times.dedup();
        for at in times {
            self.kernel.run(start + at)?;
            let is_due = |step: &WholeMove| Duration::from_nanos(step.at_ns) <= at;
            while let Some(step) = moves.next_if(is_due) {
                self.change(step.change)?;
            }
            if !at.is_zero() {
                self.begin(at, transfers)?;
            }
        }
        Ok(())
    }

    fn change(&mut self, change: Change<WholeLinkChange>) -> Result<(), KernelFault> {
        match change {
            Change::Station { node, to } => {
                self.attach(node, to);
                Ok(())
            }
            Change::Link { link, to } => self.change_link(link, to),
        }
    }

    /// Detaches a station from its present link and attaches it to another.
    fn attach(&mut self, station: usize, to: usize) {
        let graph = &self.blueprint.graph;
        let Some(port) = graph.port(station, to).copied() else {
            return;
        };
        let own = graph.ports.iter().filter(|port| port.node == station);
        let own: Vec<(usize, IpAddr)> = own.map(|port| (port.link, port.address)).collect();
        let host = self.number(station);
        let mobile = self.blueprint.setup.mobile.iter();
        let mobile = mobile.filter(|it| it.layer.station == station);
        let outers = self.blueprint.outers(station).into_iter();
        let homes: Vec<IpAddr> = mobile.chain(outers).map(|it| it.home.into()).collect();
        for (link, address) in own {
            let Some(number) = self.elements.forks[link] else {
                continue;
            };
            let Some(Element::Fork(fork)) = self.kernel.element_mut(number) else {
                continue;
            };
            // A home agent may answer for the address.
            fork.forget_of(address, host);
            let (element, port) = (host, Port(0));
            // A visitor is found by its home addresses, and hears what is sent to all.
            let is_visit = self.blueprint.is_visit(link);
            let is_visit = is_visit || self.blueprint.visitor(station, link).is_some();
            let visitor = homes.iter().filter(|_| is_visit).copied();
            for other in visitor.chain([Ipv4Addr::BROADCAST.into()]) {
                fork.forget_of(other, host);
                if link == to && is_visit && !homes.is_empty() {
                    fork.lead_one(other, Target { element, port });
                }
            }
            if link == to {
                fork.lead_one(address, Target { element, port });
            }
            fork.frames.remove(&(station as u32));
            if link == to && self.blueprint.is_radio(link) {
                fork.frames.insert(station as u32, Target { element, port });
            }
        }
        let supplicant = self.at_radios(station, to);
        let (element, port_of_link) = (self.elements.links[to].0, Port(0));
        let outer = Target {
            element,
            port: port_of_link,
        };
        let now = self.kernel.now();
        let is_radio = self.blueprint.is_radio(to);
        if let Some(found) = self.kernel.host_mut(host) {
            if is_radio {
                found.ask_for_access(supplicant, now);
            }
            found.attach(port.address, outer);
        }
        self.kernel.wake(host);
    }

    /// Tells access points that a station has left their radios, or comes to one. Returns its part
    /// in the dialogue there.
    fn at_radios(&mut self, station: usize, to: usize) -> Option<Supplicant> {
        let number = station as u32;
        let points: Vec<usize> = self.blueprint.joints.iter().map(|it| it.far).collect();
        for point in points {
            let element = self.number(point);
            if let Some(Element::AccessPoint(point)) = self.kernel.element_mut(element) {
                point.forget(number);
            }
        }
        if !self.blueprint.is_radio(to) {
            return None;
        }
        let (addresses, script) = access::expected(&self.blueprint, station, to);
        // From now on nobody on the link behind answers for the addresses.
        let behind = self.blueprint.behind(self.blueprint.joints[to].far);
        let fork = behind.and_then(|link| self.elements.forks[link]);
        if let Some(Element::Fork(fork)) = fork.and_then(|it| self.kernel.element_mut(it)) {
            for address in &addresses {
                fork.forget(*address);
            }
        }
        let element = self.number(self.blueprint.joints[to].far);
        if let Some(Element::AccessPoint(point)) = self.kernel.element_mut(element) {
            point.expect(number, addresses, script.clone());
        }
        let port = access_point::RADIO;
        script.map(|script| Supplicant::new(number, script, Target { element, port }))
    }

    fn change_link(&mut self, joint: usize, to: WholeLinkChange) -> Result<(), KernelFault> {
        let changes = match to {
            WholeLinkChange::Rate(rate) => [rate.up_bps, rate.down_bps].map(link::Change::Rate),
            WholeLinkChange::DelayNs(ns) => [link::Change::Delay(Duration::from_nanos(ns)); 2],
            WholeLinkChange::Loss(loss) => [link::Change::Loss(loss); 2],
            WholeLinkChange::Up(is_up) => [link::Change::Up(is_up); 2],
        };
        let (up, down) = self.elements.links[joint];
        for (number, change) in [up, down].into_iter().zip(changes) {
            if let Some(Element::Link(link, _)) = self.kernel.element_mut(number) {
                link.change(change).map_err(|why| KernelFault::Impossible {
                    subject: Subject::Link(joint),
                    name: self.blueprint.joints[joint].name.clone(),
                    why: why.to_string(),
                })?;
            }
        }
        Ok(())
    }

    fn tunnelled(&self, exchanges: Vec<Exchange>) -> Vec<Tunnelled> {
        let name = |node: usize| self.blueprint.nodes[node].name.clone();
        let tunnels = self.blueprint.graph.tunnels.iter().zip(exchanges);
        let moved = |gateway: usize| {
            let control = self
                .host(self.number(gateway))
                .and_then(|host| host.part.control());
            control.map_or(0, |control| control.log.moved)
        };
        let later = |ends: (usize, usize), exchange: &Exchange, is_v6: bool| {
            let log = |node: usize| self.log_of(self.number(node));
            let logs = (&log(ends.0), &log(ends.1));
            let whole = Exchange::new(logs, exchange.is_up, is_v6).messages;
            whole.into_iter().skip(exchange.messages.len()).collect()
        };
        let tunnels = tunnels.zip(&self.blueprint.tunnels);
        let told = tunnels.map(|((tunnel, seen), set)| {
            let (ends, is_v6) = ((tunnel.from, tunnel.to), set.is_outer_v6);
            let exchange = self.first_exchange(seen, ends, is_v6);
            Tunnelled {
                station: name(tunnel.from),
                gateway: name(tunnel.to),
                moved: moved(tunnel.to),
                moves: self.tunnel_moves(tunnel.from),
                later: later(ends, &exchange, is_v6),
                exchange,
            }
        });
        told.collect()
    }

    fn carried(&self) -> Vec<Carried> {
        let links = self.blueprint.joints.iter().zip(&self.elements.links);
        let counts = |number: u32| match self.kernel.element(number) {
            Some(Element::Link(link, _)) => Link::counters(link),
            _ => Counters::default(),
        };
        let carried = links.map(|(joint, (up, down))| Carried {
            name: joint.link.clone(),
            up: Count::of(counts(*up)),
            down: Count::of(counts(*down)),
        });
        carried.collect()
    }
}

impl Carried {
    fn since(self, before: &Self) -> Self {
        Self {
            name: self.name,
            up: self.up.since(before.up),
            down: self.down.since(before.down),
        }
    }
}

impl Count {
    fn of(counters: Counters) -> Self {
        Self {
            offered: counters.offered,
            delivered: counters.delivered,
            delivered_bytes: counters.delivered_bytes,
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            offered: self.offered - before.offered,
            delivered: self.delivered - before.delivered,
            delivered_bytes: self.delivered_bytes - before.delivered_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
