//! The level `model` of a path: the closed-form cost of its tunnel, beside the kernel's simulation.
//!
//! Sizes come from the engine: those of packets, and the messages of one exchange between
//! two directly connected real nodes. Left out, and therefore the expected difference: loss,
//! queues, TCP's slow start and the return path of its acknowledgements.

use engine::link::Shape;
use engine::time::Duration;
use serde::Serialize;

mod journey;
pub mod radio;

use super::trace::{Trace, bits_per_second};
use super::world::{Blueprint, Exchange, Joint, NodeBlueprint, Row, SIZES_BYTES, World};
use super::{Costs, KernelFault, ip};
use crate::scenario::Role;

/// The closed-form results of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Closed {
    /// Every flight over the real links, and all computation; none without a tunnel, or if
    /// something has no cost.
    pub handshake_s: Option<f64>,
    /// IP packets of all messages, in octets.
    pub handshake_wire_bytes: u64,
    /// Number of messages.
    pub handshake_messages: usize,
    /// Clear IP packets and the IP packets that carry them to the gateway, in octets.
    pub wire_bytes: Vec<(u32, u32)>,
    /// The round trip of a ping.
    pub round_trip_s: f64,
    /// TCP payload rate at the bottleneck, in bits per second.
    pub throughput_bps: f64,
    /// The bottleneck.
    pub narrowest: String,
    /// The first work without a cost.
    pub unpriced: Option<String>,
}

/// ICMP header and ping's 56 octets.
const PING_BYTES: u32 = 64;
/// A TCP header without options, as smoltcp sends it.
const TCP_HEADER_BYTES: u32 = 20;
/// Data packets per acknowledgement.
const SEGMENTS_AN_ACK: f64 = 2.0;
/// The MTU of a link that states none.
const MTU_BYTES: u32 = 1500;

/// The closed-form results of a chain.
pub fn model(blueprint: &Blueprint) -> Result<Closed, KernelFault> {
    let mut closed = Closed {
        wire_bytes: SIZES_BYTES
            .iter()
            .map(|size| (*size, blueprint.protected(*size)))
            .collect(),
        round_trip_s: blueprint.round_trip_s(blueprint.header_bytes() + PING_BYTES),
        ..Closed::default()
    };
    let (narrowest, throughput_bps) = blueprint.narrowest();
    (closed.narrowest, closed.throughput_bps) = (narrowest, throughput_bps);
    if blueprint.tunnel().is_some() {
        let (exchange, computing) = exchange(blueprint)?;
        closed.handshake_wire_bytes = exchange.wire_bytes;
        closed.handshake_messages = exchange.messages.len();
        match computing {
            Ok(seconds) => {
                closed.handshake_s = Some(blueprint.flights_s(&exchange.messages) + seconds);
            }
            Err(missing) => closed.unpriced = Some(missing),
        }
    }
    Ok(closed)
}

/// The exchange of two directly connected nodes, and the time of its computation.
fn exchange(blueprint: &Blueprint) -> Result<(Exchange, Result<f64, String>), KernelFault> {
    let (exchange, works) = World::new(blueprint.idle())?.exchange_alone()?;
    let mut seconds = Ok(0.0);
    for (name, work) in works {
        let node = blueprint.nodes.iter().find(|node| node.name == name);
        let Some(costs) = node.and_then(|node| node.costs.as_ref()) else {
            continue;
        };
        let price = (costs.control)(&work).whole();
        let price = price.map_err(|missing| format!("{name}: {missing}"));
        seconds = seconds.and_then(|sum| Ok(sum + price?));
    }
    Ok((exchange, seconds))
}

/// Seconds that a packet takes a link, without the delay.
fn sends_s(shape: &Shape<Trace>, bytes: f64) -> f64 {
    let bits = (bytes + f64::from(shape.overhead_bytes)) * 8.0;
    bits / bits_per_second(shape) + shape.access_time.as_secs_f64()
}

impl Blueprint {
    /// The same network, in which nothing takes time.
    fn idle(&self) -> Self {
        let at_once = |shape: &Shape<Trace>| Shape {
            mtu: shape.mtu,
            overhead_bytes: shape.overhead_bytes,
            ..Shape::at_once(Duration::ZERO)
        };
        let joints = self.joints.iter().map(|joint| Joint {
            up: at_once(&joint.up),
            down: at_once(&joint.down),
            ..joint.clone()
        });
        let idle = |node: &NodeBlueprint| NodeBlueprint {
            costs: None,
            frames: None,
            ..node.clone()
        };
        Self {
            joints: joints.collect(),
            nodes: self.nodes.iter().map(idle).collect(),
            ..self.clone()
        }
    }

    /// Joints between client and gateway, where packets are protected.
    fn outer_joints(&self) -> usize {
        let gateway = self.nodes.iter().position(|one| one.role == Role::Gateway);
        gateway.unwrap_or(self.joints.len())
    }

    /// The size of the IP packet that carries a clear one to the gateway.
    fn protected(&self, clear: u32) -> u32 {
        let tunnel = self.setup.tunnels.first();
        tunnel.map_or(clear, |tunnel| tunnel.wire_bytes(clear))
    }

    /// Flights are sequential. A flight is everything that one end sends before the other must
    /// answer. The client's last message ends the handshake when it leaves.
    fn flights_s(&self, messages: &[Row]) -> f64 {
        let mut flights: Vec<(bool, Vec<u64>)> = Vec::new();
        for row in messages {
            let datagrams = row.datagrams.max(1);
            let sizes = (0..datagrams).map(|_| row.wire_bytes / datagrams);
            match flights.last_mut() {
                Some((is_sent, flight)) if *is_sent == row.is_sent => flight.extend(sizes),
                _ => flights.push((row.is_sent, sizes.collect())),
            }
        }
        flights.pop_if(|(is_sent, _)| *is_sent);
        let times = flights
            .iter()
            .map(|(is_up, sizes)| self.flight_s(*is_up, sizes));
        times.sum()
    }

    /// From the first octet sent to the last one received: the last packet over every link, the
    /// earlier ones over the slowest.
    fn flight_s(&self, is_up: bool, sizes: &[u64]) -> f64 {
        let Some((last, others)) = sizes.split_last() else {
            return 0.0;
        };
        let shapes = || self.shapes(is_up).take(self.outer_joints());
        let over = |shape: &Shape<Trace>, bytes: u64| sends_s(shape, bytes as f64);
        let alone: f64 = shapes()
            .map(|shape| shape.mean_delay_s() + over(shape, *last))
            .sum();
        let before = shapes().map(|shape| others.iter().map(|bytes| over(shape, *bytes)).sum());
        alone + before.fold(0.0, f64::max)
    }

    /// Octets of a clear packet's IP header.
    fn header_bytes(&self) -> u32 {
        ip::header_bytes(self.setup.flows[0].server_address.is_ipv6()) as u32
    }

    fn shapes(&self, is_up: bool) -> impl Iterator<Item = &Shape<Trace>> {
        let joints = self.joints.iter();
        joints.map(move |joint| if is_up { &joint.up } else { &joint.down })
    }

    /// A ping to the client's peer: the gateway if it publishes the server.
    fn round_trip_s(&self, clear: u32) -> f64 {
        let outer = self.outer_joints();
        let is_peer =
            |gateway| self.graph.address(gateway) == Some(self.setup.flows[0].server_address);
        let gateway = self.nodes.iter().position(|it| it.role == Role::Gateway);
        let far = if gateway.is_some_and(is_peer) {
            outer
        } else {
            self.joints.len()
        };
        let mut seconds = 0.0;
        for (index, joint) in self.joints.iter().take(far).enumerate() {
            let bytes = if index < outer {
                self.protected(clear)
            } else {
                clear
            };
            for shape in [&joint.up, &joint.down] {
                seconds += shape.mean_delay_s() + sends_s(shape, f64::from(bytes));
            }
        }
        let costs = self.costs();
        let each = costs.map(|(_, costs)| {
            costs.packet.seal.at(f64::from(clear)) + costs.packet.open.at(f64::from(clear))
        });
        seconds + each.sum::<f64>()
    }

    fn costs(&self) -> impl Iterator<Item = (&str, &Costs)> {
        let nodes = self.nodes.iter().filter(|_| self.tunnel().is_some());
        nodes.filter_map(|one| Some((one.name.as_str(), one.costs.as_ref()?)))
    }

    /// The place where a full segment takes longest, and TCP's payload rate there.
    fn narrowest(&self) -> (String, f64) {
        let clear = self.segment_bytes();
        let headers = self.header_bytes() + TCP_HEADER_BYTES;
        let outer = self.outer_joints();
        let is_up = self.program().is_up;
        let joints = self.joints.iter().enumerate().map(|(index, joint)| {
            let shape = if is_up { &joint.up } else { &joint.down };
            let bytes = if index < outer {
                self.protected(clear)
            } else {
                clear
            };
            let mut seconds = sends_s(shape, f64::from(bytes));
            if joint.is_half_duplex {
                let back = if is_up { &joint.down } else { &joint.up };
                let ack = if index < outer {
                    self.protected(headers)
                } else {
                    headers
                };
                seconds += sends_s(back, f64::from(ack)) / SEGMENTS_AN_ACK;
            }
            (joint.name.clone(), seconds)
        });
        let processors = self.costs().map(|(name, costs)| {
            let (data, ack) = (f64::from(clear), f64::from(headers));
            let is_sender = (name == self.nodes[0].name) == is_up;
            let seconds = if is_sender {
                costs.packet.seal.at(data) + costs.packet.open.at(ack) / SEGMENTS_AN_ACK
            } else {
                costs.packet.open.at(data) + costs.packet.seal.at(ack) / SEGMENTS_AN_ACK
            };
            (name.to_owned(), seconds)
        });
        let slowest = joints
            .chain(processors)
            .max_by(|one, other| one.1.total_cmp(&other.1));
        let (name, seconds) = slowest.unwrap_or_default();
        let payload = f64::from(clear.saturating_sub(headers));
        (name, payload * 8.0 / seconds)
    }

    /// The largest clear TCP packet that the planes pass unfragmented.
    fn segment_bytes(&self) -> u32 {
        let program = self.program();
        let mtu = self.mtu_bytes(program.station, program.server);
        let mtu = mtu.min(MTU_BYTES);
        let tunnel = self.setup.tunnels.first();
        let fits = tunnel.map_or(mtu, |tunnel| tunnel.largest_packet(mtu));
        fits.min(mtu)
    }
}

#[cfg(test)]
mod tests;
