//! The level `model` of a graph with access points: what each flow can have, and how long a station
//! takes until its data can go.
//!
//! A flow alone is as fast as the link or processor that its packets take longest, all passages
//! together: on a radio, both directions and both stations share one airtime. TCP is bulk with full
//! segments, an acknowledgement for two of them; in TLS, its records are full. Left out, and
//! therefore the expected difference to the simulation: slow start, several flows at a time,
//! collisions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::journey::{Journey, Server};
use super::{MTU_BYTES, SEGMENTS_AN_ACK, TCP_HEADER_BYTES};
use crate::kernel::KernelFault;
use crate::kernel::dialogue::Step;
use crate::kernel::world::{Blueprint, Parts, Said, Way, World};
use crate::scenario::Role;

/// The closed-form results of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Radio {
    /// In the order of the scenario.
    pub flows: Vec<FlowModel>,
    /// Each station of a flow.
    pub admitted: Vec<Admission>,
    /// The first operation of an access or of TLS without a cost, which takes no time here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpriced: Option<String>,
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

/// A station's way onto its link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Admission {
    /// Name of the station.
    pub station: String,
    /// How long it takes.
    #[serde(flatten)]
    pub parts: Parts,
}

/// TCP's first packets, with the options that the simulated hosts send.
const SYN_BYTES: u32 = 52;

/// The closed-form results of a graph; none if it has no access point.
pub fn model(blueprint: &Blueprint) -> Result<Option<Radio>, KernelFault> {
    let mut nodes = blueprint.nodes.iter();
    if !nodes.any(|node| node.role == Role::AccessPoint) {
        return Ok(None);
    }
    let mut radio = Radio {
        unpriced: blueprint.unpriced.clone(),
        ..Radio::default()
    };
    for flow in 0..blueprint.programs.len() {
        radio.flows.push(blueprint.flow_model(flow));
    }
    let ways = World::new(blueprint.idle())?.ways()?;
    for way in &ways {
        radio.admitted.push(Admission {
            station: blueprint.nodes[way.station].name.clone(),
            parts: blueprint.parts(way),
        });
    }
    Ok(Some(radio))
}

impl Blueprint {
    fn flow_model(&self, flow: usize) -> FlowModel {
        let program = &self.programs[flow];
        let ends = program.ends();
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
        let mut user = f64::from(if is_tcp { bytes - headers } else { bytes });
        if let Some([own, others]) = self.securities.get(&flow) {
            let most = program.transfer.unwrap_or_default();
            let record = f64::from(
                u32::try_from(most).map_or(own.record_bytes, |most| most.min(own.record_bytes)),
            );
            user *= record / f64::from(own.records.octets(record as u32));
            // The processor of each end takes its share of a record for a segment.
            let costs = match program.is_up {
                true => [
                    (program.station, &own.costs.seal),
                    (program.server, &others.costs.open),
                ],
                false => [
                    (program.server, &others.costs.seal),
                    (program.station, &own.costs.open),
                ],
            };
            for (node, cost) in costs {
                *spent.entry(Server::Node(node)).or_default() += cost.at(record) * user / record;
            }
        }
        let slowest = spent.iter().max_by(|one, other| one.1.total_cmp(other.1));
        if let Some((server, seconds)) = slowest {
            found.throughput_bps = Some(user * 8.0 / seconds);
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
        let works = way.works.iter().map(|share| {
            let costs = self.nodes[share.node].costs.as_ref();
            costs.map_or(0.0, |costs| {
                (costs.control)(&share.work).seconds * share.part
            })
        });
        let work_s: f64 = works.sum();
        // The first message after a dialogue waits until the station's last frame has left the air.
        let mut rest_s = self.last_frame_s(point, steps);
        let mut after = |all: &[Said], besides_s: f64| {
            let seconds = has(all).and(messages(all))?;
            Some(seconds + besides_s + core::mem::take(&mut rest_s))
        };
        let mut parts = Parts {
            eap_start_s: some(start),
            eap_s: some(rest),
            discovery_s: after(&way.discovery, way.wait_s),
            registration_s: after(&way.registration, 0.0),
            tunnel_s: after(&way.tunnel, work_s),
            transport_s: self.transport_s(way.station),
            all_s: None,
        };
        let all = [
            parts.eap_start_s,
            parts.eap_s,
            parts.discovery_s,
            parts.registration_s,
            parts.tunnel_s,
            parts.transport_s,
        ];
        parts.all_s = Some(all.into_iter().flatten().sum());
        parts
    }
}

impl Blueprint {
    /// From the first flight of TLS to the station's last, in its first flow that has it. TCP's
    /// acknowledgement of its answer goes before the first flight; one of a flight of several
    /// segments goes before the next.
    fn transport_s(&self, station: usize) -> Option<f64> {
        let (flow, [own, _]) = self.secured(station).next()?;
        let program = &self.programs[flow];
        let there = (program.station, program.server);
        let last = own.script.len().checked_sub(1)?;
        let mut seconds = 0.0;
        let mut is_acknowledged = true;
        for (index, flight) in own.script.iter().enumerate() {
            if index == last && flight.is_from_station {
                // It ends the handshake when it leaves.
                return Some(seconds + flight.station_s);
            }
            let ends = match flight.is_from_station {
                true => there,
                false => (there.1, there.0),
            };
            let sizes = self.segments(ends, flight.frame_bytes, is_acknowledged);
            is_acknowledged = sizes.len() > 1 + usize::from(is_acknowledged);
            seconds += flight.station_s + flight.server_s + self.burst_s(ends, &sizes)?;
        }
        Some(seconds)
    }

    /// The packets of so many octets of a stream, after an acknowledgement if there is one.
    fn segments(&self, ends: (usize, usize), octets: u32, is_acknowledged: bool) -> Vec<u32> {
        let headers = super::ip::header_bytes(false) as u32 + TCP_HEADER_BYTES;
        let most = self.segment(ends) - headers;
        let whole = (0..octets / most).map(|_| most);
        let rest = Some(octets % most).filter(|rest| *rest > 0);
        let acknowledgement = is_acknowledged.then_some(0);
        let all = acknowledgement.into_iter().chain(whole).chain(rest);
        all.map(|bytes| headers + bytes).collect()
    }

    /// Packets at once, until the last one has come: who comes first to a link or processor is
    /// served first.
    fn burst_s(&self, ends: (usize, usize), sizes: &[u32]) -> Option<f64> {
        let journeys = sizes.iter().map(|bytes| self.journey(ends, *bytes, false));
        let journeys = journeys.collect::<Option<Vec<Journey>>>()?;
        let mut free_at: BTreeMap<Server, f64> = BTreeMap::new();
        // How many visits each packet has made, and when the last of them ended.
        let mut made = vec![(0, 0.0_f64); journeys.len()];
        loop {
            let waiting = journeys.iter().zip(&made).enumerate();
            let waiting = waiting.filter_map(|(packet, (journey, (visit, since)))| {
                let (server, seconds) = *journey.visits.get(*visit)?;
                let free = free_at.get(&server).copied().unwrap_or_default();
                Some((free.max(*since), *since, packet, server, seconds))
            });
            let first = waiting.min_by(|one, other| {
                let begins = one.0.total_cmp(&other.0);
                begins.then(one.1.total_cmp(&other.1))
            });
            let Some((begins, _, packet, server, seconds)) = first else {
                break;
            };
            let end = begins + seconds;
            free_at.insert(server, end);
            made[packet] = (made[packet].0 + 1, end);
        }
        let last = journeys.last().zip(made.last());
        last.map(|(journey, (_, end))| end + journey.delay_s)
    }
}

fn add(spent: &mut BTreeMap<Server, f64>, journey: &Journey, share: f64) {
    for (server, seconds) in &journey.visits {
        *spent.entry(*server).or_default() += seconds * share;
    }
}

#[cfg(test)]
mod tests;
