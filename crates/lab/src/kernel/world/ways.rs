//! What stations say until their data can go, from a world in which nothing takes time: the sizes
//! of messages and the work of the machines, for the level `model`.

use engine::time::{Duration, Instant};
use engine::work::Work;

use super::admitted::is_on;
use super::{PATIENCE, QUIET, World, seconds};
use crate::kernel::dialogue::Script;
use crate::kernel::host::since;
use crate::kernel::{Kernel, KernelFault, ip};

/// The messages of a station.
#[derive(Clone, Default)]
pub(crate) struct Way {
    /// Index of the station.
    pub station: usize,
    /// The dialogue with its access point.
    pub script: Option<Script>,
    /// How it finds an agent.
    pub discovery: Vec<Said>,
    /// How long it waits before that.
    pub wait_s: f64,
    /// How it registers.
    pub registration: Vec<Said>,
    /// The exchange of its tunnel.
    pub tunnel: Vec<Said>,
    /// What each of its nodes computes for that exchange.
    pub works: Vec<Share>,
}

/// What a node computes for the exchanges of several stations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    /// Index of the node.
    pub node: usize,
    /// For all of them.
    pub work: Work,
    /// Which part of it is of one station: a gateway does the same for each.
    pub part: f64,
}

/// A message between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Index of the node that sends it.
    pub from: usize,
    /// Index of the node that gets it.
    pub to: usize,
    /// Octets of its IP packet.
    pub bytes: u32,
}

/// An ICMP router solicitation (RFC 1256 §3).
const SOLICITATION_BYTES: u32 = 28;
/// A registration reply is shorter than its request (RFC 5944 §3.3, §3.4).
const REPLY_SHORTER_BYTES: u32 = 4;
/// Before measured stations begin.
const BEFORE: Duration = Duration::from_secs(9);

impl World {
    /// What each station of a flow says. One that does not get so far says less.
    pub(crate) fn ways(mut self) -> Result<Vec<Way>, KernelFault> {
        let all = self.measured_ways();
        all.map_err(|fault| self.placed(fault))
    }

    fn measured_ways(&mut self) -> Result<Vec<Way>, KernelFault> {
        self.kernel.start()?;
        self.kernel.run(Instant(0) + BEFORE)?;
        let before = self.node_works();
        let stations: Vec<usize> = (0..self.blueprint.nodes.len())
            .filter(|station| self.blueprint.is_measured(*station))
            .collect();
        let hosts: Vec<u32> = stations.iter().map(|one| self.number(*one)).collect();
        let all = |kernel: &Kernel| {
            let mut hosts = hosts.iter().filter_map(|host| kernel.host(*host));
            hosts.all(is_on)
        };
        let end = self.kernel.now() + PATIENCE;
        self.kernel.run_while(end, |kernel| !all(kernel))?;
        self.kernel.run(self.kernel.now() + QUIET)?;
        let works = self.node_works().into_iter().zip(before);
        let works = works.map(|((node, all), (_, begun))| (node, since(&all, &begun)));
        let works: Vec<(usize, Work)> = works.collect();
        let ways = stations.iter().map(|station| {
            let mut way = self.way(*station);
            way.works = self.shares(*station, &stations, &works);
            way
        });
        Ok(ways.collect())
    }

    /// What a station and the gateway of its tunnel compute for it. Other nodes work for others.
    fn shares(&self, station: usize, all: &[usize], works: &[(usize, Work)]) -> Vec<Share> {
        let gateway = |from: usize| {
            let mut tunnels = self.blueprint.graph.tunnels.iter();
            tunnels.find(|tunnel| tunnel.from == from).map(|it| it.to)
        };
        let own = gateway(station);
        let others = all.iter().filter(|other| gateway(**other) == own).count();
        let shares = works.iter().filter_map(|(node, work)| {
            let part = match *node {
                one if one == station => 1.0,
                one if Some(one) == own => 1.0 / others as f64,
                _ => return None,
            };
            let work = work.clone();
            Some(Share {
                node: *node,
                work,
                part,
            })
        });
        shares.collect()
    }

    fn node_works(&self) -> Vec<(usize, Work)> {
        let nodes = 0..self.blueprint.nodes.len();
        let works = nodes.filter_map(|node| {
            let host = self.host(self.number(node))?;
            Some((node, host.part.control()?.work()))
        });
        works.collect()
    }

    fn way(&self, station: usize) -> Way {
        let mut way = Way {
            station,
            ..Way::default()
        };
        let first = self.blueprint.graph.ports_of(station).next();
        if let Some(port) = first {
            let point = self.blueprint.joints[port.link].far;
            way.script = self.blueprint.dialogues.get(&(station, point)).cloned();
        }
        let Some(host) = self.host(self.number(station)) else {
            return way;
        };
        let mobile = host.entrance.roaming.as_deref().or(host.part.mobile());
        let mut setups = self.blueprint.setup.mobile.iter();
        let setup = setups.find(|it| it.layer.station == station);
        if let (Some(mobile), Some(setup)) = (mobile, setup)
            && mobile.log.sent > 0
        {
            let headers = ip::overhead_bytes(false) as u32;
            let request = (mobile.log.sent_bytes / mobile.log.sent) as u32 + headers;
            let reply = request - REPLY_SHORTER_BYTES;
            let home_agent = setup.layer.agent;
            let agent = self.blueprint.agent_of(station).map(|(agent, _)| agent);
            let said = |from, to, bytes| Said { from, to, bytes };
            way.registration = match agent {
                None => vec![
                    said(station, home_agent, request),
                    said(home_agent, station, reply),
                ],
                Some(agent) => vec![
                    said(station, agent, request),
                    said(agent, home_agent, request),
                    said(home_agent, agent, reply),
                    said(agent, station, reply),
                ],
            };
            if let Some(agent) = agent {
                // Nothing else takes time here.
                let waited = host.entrance.opened.zip(mobile.log.asked);
                way.wait_s = waited.map_or(0.0, |(from, to)| seconds(from, to));
                way.discovery = vec![
                    said(station, agent, SOLICITATION_BYTES),
                    said(agent, station, mobile.log.heard_bytes),
                ];
            }
        }
        let mut tunnels = self.blueprint.graph.tunnels.iter();
        let tunnel = tunnels.find(|tunnel| tunnel.from == station);
        if let (Some(control), Some(tunnel)) = (host.part.control(), tunnel) {
            let headers = ip::overhead_bytes(tunnel_is_v6(self, station)) as u32;
            let said = control.log.messages.iter().map(|message| {
                let (from, to) = match message.is_sent {
                    true => (station, tunnel.to),
                    false => (tunnel.to, station),
                };
                let bytes = message.bytes as u32 + headers * message.datagrams as u32;
                Said { from, to, bytes }
            });
            way.tunnel = said.collect();
            // The station's last message ends the exchange when it leaves.
            way.tunnel.pop_if(|said| said.from == station);
        }
        way
    }
}

fn tunnel_is_v6(world: &World, station: usize) -> bool {
    let mut sets = world.blueprint.setup.tunnels.iter();
    let set = sets.find(|set| set.from == station);
    set.is_some_and(|set| set.gateway.is_ipv6())
}
