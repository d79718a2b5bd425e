//! The level `model` of a graph with access points: what each flow can have, and how long a station
//! takes until its data can go.
//!
//! A flow alone is as fast as the link or processor that its packets take longest, all passages
//! together: on a radio, both directions and both stations share one airtime. TCP is bulk with full
//! segments, an acknowledgement for two of them. Left out, and therefore the expected difference to
//! the simulation: slow start, several flows at a time, collisions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::journey::{Journey, Server};
use super::{MTU_BYTES, SEGMENTS_AN_ACK, TCP_HEADER_BYTES};
use crate::kernel::KernelFault;
use crate::kernel::dialogue::Step;
use crate::kernel::world::{Blueprint, Programs, Said, Way, World};
use crate::scenario::Role;

/// The closed-form results of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Radio {
    /// In the order of the scenario.
    pub flows: Vec<FlowModel>,
    /// Each station of a flow.
    pub admitted: Vec<Parts>,
}

/// A flow that has the network for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowModel {
    /// Its name in the scenario.
    pub name: String,
    /// TCP payload in bits per second, of a transfer; of datagrams, their clear IP packets.
    pub throughput_bps: Option<f64>,
    /// What limits it: a link or a node.
    pub narrowest: String,
    /// Octets of its largest clear packet.
    pub packet_bytes: u32,
    /// Seconds of TCP's first two packets, there and back on an empty path.
    pub response_s: Option<f64>,
}

/// How long a station takes until its data can go, in seconds; a part that it lacks is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Name of the station.
    pub station: String,
    /// From the beginning until the first question of the access point has come.
    pub eap_start_s: Option<f64>,
    /// From there to the last message of the access.
    pub eap_s: Option<f64>,
    /// From the open radio until the registration is asked for.
    pub discovery_s: Option<f64>,
    /// From the registration request to its answer.
    pub registration_s: Option<f64>,
    /// From the first message of the tunnel's exchange to its last.
    pub tunnel_s: Option<f64>,
    /// All of them.
    pub all_s: Option<f64>,
}

/// TCP's first packets, with the options that the simulated hosts send.
const SYN_BYTES: u32 = 52;

/// The closed-form results of a graph; none if it has no access point.
pub fn model(blueprint: &Blueprint) -> Result<Option<Radio>, KernelFault> {
    let mut nodes = blueprint.nodes.iter();
    if !nodes.any(|node| node.role == Role::AccessPoint) {
        return Ok(None);
    }
    let mut radio = Radio::default();
    for program in &blueprint.programs {
        radio.flows.push(blueprint.flow_model(program));
    }
    let ways = World::new(blueprint.idle())?.ways()?;
    for way in &ways {
        radio.admitted.push(blueprint.parts(way));
    }
    Ok(Some(radio))
}

impl Blueprint {
    fn flow_model(&self, program: &Programs) -> FlowModel {
        let ends = match program.is_up {
            true => (program.station, program.server),
            false => (program.server, program.station),
        };
        let back = (ends.1, ends.0);
        let first = self.journey(ends, SYN_BYTES, false);
        let first = first.zip(self.journey(back, SYN_BYTES, false));
        let mut found = FlowModel {
            name: program.name.clone(),
            response_s: first.map(|(there, back)| there.seconds() + back.seconds()),
            ..FlowModel::default()
        };
        let headers = super::ip::header_bytes(false) as u32 + TCP_HEADER_BYTES;
        let (bytes, is_tcp) = match &program.stream {
            Some((_, sizes)) => (sizes.mean_bytes() as u32, false),
            None => (self.segment(ends), true),
        };
        let Some(data) = self.journey(ends, bytes, false) else {
            return found;
        };
        let mut spent: BTreeMap<Server, f64> = BTreeMap::new();
        add(&mut spent, &data, 1.0);
        if is_tcp && let Some(ack) = self.journey(back, headers, false) {
            add(&mut spent, &ack, 1.0 / SEGMENTS_AN_ACK);
        }
        let slowest = spent.iter().max_by(|one, other| one.1.total_cmp(other.1));
        if let Some((server, seconds)) = slowest {
            let user = if is_tcp { bytes - headers } else { bytes };
            found.throughput_bps = Some(f64::from(user) * 8.0 / seconds);
            found.narrowest = match server {
                Server::Node(node) => self.nodes[*node].name.clone(),
                Server::Link(link, _) => self.joints[*link].link.clone(),
            };
        }
        found.packet_bytes = bytes;
        found
    }

    /// The largest clear packet that fits into every link of its way, with all around it.
    fn segment(&self, ends: (usize, usize)) -> u32 {
        let fits = |bytes: &u32| {
            let way = self.journey(ends, *bytes, false);
            let back = self.journey((ends.1, ends.0), *bytes, false);
            way.zip(back)
                .is_some_and(|(way, back)| !way.is_too_big && !back.is_too_big)
        };
        let sizes = (TCP_HEADER_BYTES * 2 + 1..=MTU_BYTES).rev();
        sizes.into_iter().find(fits).unwrap_or(MTU_BYTES)
    }

    /// The parts of a station's way onto its radio.
    fn parts(&self, way: &Way) -> Parts {
        let first = self.graph.ports_of(way.station).next();
        let point = first.map(|port| self.joints[port.link].far);
        let point = point.unwrap_or_default();
        let steps: &[Step] = way.script.as_deref().unwrap_or_default();
        // The first question is the first message that comes.
        let asked = steps.iter().position(|step| !step.is_from_station);
        let (start, rest) = steps.split_at(asked.map_or(0, |at| at + 1));
        let some = |steps: &[Step]| {
            let seconds = self.dialogue_s(point, steps);
            seconds.filter(|_| way.script.is_some())
        };
        let messages = |all: &[Said]| -> Option<f64> {
            let each = all.iter().map(|said| {
                let journey = self.journey((said.from, said.to), said.bytes, true);
                journey.map(|it| it.seconds())
            });
            each.sum()
        };
        let has = |all: &[Said]| (!all.is_empty()).then_some(());
        let works = way.works.iter().map(|(node, work)| {
            let costs = self.nodes[*node].costs.as_ref();
            costs.map_or(0.0, |costs| (costs.control)(work).seconds)
        });
        let work_s: f64 = works.sum();
        let mut parts = Parts {
            station: self.nodes[way.station].name.clone(),
            eap_start_s: some(start),
            eap_s: some(rest),
            discovery_s: has(&way.discovery)
                .and(messages(&way.discovery))
                .map(|seconds| seconds + way.wait_s),
            registration_s: has(&way.registration).and(messages(&way.registration)),
            tunnel_s: has(&way.tunnel)
                .and(messages(&way.tunnel))
                .map(|seconds| seconds + work_s),
            all_s: None,
        };
        let all = [
            parts.eap_start_s,
            parts.eap_s,
            parts.discovery_s,
            parts.registration_s,
            parts.tunnel_s,
        ];
        parts.all_s = Some(all.into_iter().flatten().sum());
        parts
    }
}

fn add(spent: &mut BTreeMap<Server, f64>, journey: &Journey, share: f64) {
    for (server, seconds) in &journey.visits {
        *spent.entry(*server).or_default() += seconds * share;
    }
}

#[cfg(test)]
mod tests;
