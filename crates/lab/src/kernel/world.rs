//! A scenario with real machines in it: clients, NATs, routers, gateways and servers.
//!
//! On a chain the tunnel is set up, used and measured. On a graph all tunnels are set up, then all
//! flows run at the same time while moves change links and addresses ([`flows`]). With a tunnel in
//! transport mode, or without one, a client talks to the gateway's own address, which publishes the
//! server's port; in tunnel mode to the server's. Outer and inner packets may have different
//! families.

mod access;
pub mod admitted;
mod blueprint;
mod build;
pub mod flows;
mod handshakes;
mod inside;
mod mobility;
pub mod moved;
mod outcome;
mod protection;
mod scripts;
mod skip;
#[cfg(test)]
pub(super) mod tests;
mod told;
mod tunnel;
mod ways;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

use engine::time::{Duration, Instant};
use engine::work::Work;

use super::host::since;
use super::host::stack::{Role, Sending};
use super::{Element, Host, Kernel, KernelFault, Subject, ip};

pub use admitted::Parts;
pub use blueprint::{Blueprint, Joint, NodeBlueprint, Programs};
pub use flows::Flowed;
pub use outcome::{Cut, Drops, Exchange, Outcome, RoundTrips, Row, Streamed, Transferred};
pub use told::Told;
pub use tunnel::{Proof, Tunnel};
pub(crate) use ways::{Said, Way};

use build::Elements;

/// How long to wait for a handshake.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Pings of a round-trip measurement, and their interval.
pub const PINGS: u16 = 20;
const PING_INTERVAL: Duration = Duration::from_millis(200);
/// Time after the last ping, so that its answer can arrive.
const QUIET: Duration = Duration::from_secs(2);
/// IP packets whose size on the wire is measured: paper U's example and its mean.
pub const SIZES_BYTES: [u32; 2] = [64, 480];
/// Largest IP packet that one UDP datagram can carry, without header bytes: 65,507.
pub const MOST_BYTES: u32 = 65_507;

/// A world and the positions of its elements.
pub struct World {
    blueprint: Blueprint,
    kernel: Kernel,
    elements: Elements,
}

impl World {
    /// Builds the world.
    pub fn new(blueprint: Blueprint) -> Result<Self, KernelFault> {
        let (mut kernel, elements) = build::build(&blueprint)?;
        kernel.keep_fingerprint();
        Ok(Self {
            blueprint,
            kernel,
            elements,
        })
    }

    /// Writes every link's packets in both directions to a capture.
    pub fn capture(&mut self, to: Box<dyn Write>) {
        let links = &self.elements.links;
        let taps: Vec<u32> = links.iter().flat_map(|link| [link.0, link.1]).collect();
        self.kernel.capture(to, self.blueprint.calendar, &taps);
    }

    /// Sets up the tunnel, uses it as the blueprint says, and returns the results.
    pub fn run(mut self) -> Result<Outcome, KernelFault> {
        let outcome = self.run_chain();
        outcome.map_err(|fault| self.placed(fault))
    }

    fn run_chain(&mut self) -> Result<Outcome, KernelFault> {
        self.kernel.start()?;
        self.lose_earlier()?;
        let exchange = self.handshakes()?.pop();
        let is_up = exchange.as_ref().is_none_or(|exchange| exchange.is_up);
        let mut outcome = Outcome {
            exchange,
            ..Outcome::default()
        };
        if is_up {
            for bytes in SIZES_BYTES {
                let wire = self.wire_bytes(bytes)?;
                outcome.wire_bytes.push((bytes, wire));
            }
            outcome.round_trips = Some(self.round_trips()?);
            if let Some(bytes) = self.blueprint.program().transfer {
                outcome.transferred = Some(self.transfer(bytes)?);
            }
            if self.blueprint.program().stream.is_some() {
                outcome.streamed = Some(self.stream()?);
            }
        }
        outcome.drops = self.drops();
        outcome.unpriced = self.unpriced();
        outcome.events = self.kernel.events();
        outcome.simulated_s = self.kernel.now().0 as f64 * 1e-9;
        let hash = self.kernel.fingerprint().unwrap_or_default();
        outcome.fingerprint = super::fingerprint::hex(&hash);
        let written = self.kernel.finish_capture();
        written.map_err(|fault| KernelFault::Capture(crate::system::said(&fault)))?;
        Ok(outcome)
    }

    /// Runs only the exchange until it is complete. Returns its messages, and each host's work by
    /// name from the first message on.
    pub fn exchange_alone(mut self) -> Result<(Exchange, Vec<(String, Work)>), KernelFault> {
        let exchange = self.measured_exchange();
        exchange.map_err(|fault| self.placed(fault))
    }

    fn measured_exchange(&mut self) -> Result<(Exchange, Vec<(String, Work)>), KernelFault> {
        let mut before = self.works();
        self.kernel.start()?;
        if self.blueprint.tunnels.iter().any(|it| it.is_resumed) {
            self.lose_earlier()?;
            before = self.works();
        }
        let exchange = self.handshakes()?.pop().unwrap_or_default();
        self.kernel.run(self.kernel.now() + QUIET)?;
        let pairs = self.works().into_iter().zip(before);
        let works = pairs.map(|((name, all), (_, begun))| (name, since(&all, &begun)));
        Ok((exchange, works.collect()))
    }

    fn works(&self) -> Vec<(String, Work)> {
        let works = self
            .kernel
            .elements()
            .filter_map(|(_, name, element)| match element {
                Element::Host(host) => Some((name.to_owned(), host.part.control()?.work())),
                _ => None,
            });
        works.collect()
    }

    /// Octets of the IP packet that carries a clear one of `bytes` over the link to the gateway.
    /// IKE may send in the meantime, so it looks at what the client has sealed, and at the link
    /// only if there is nothing.
    fn wire_bytes(&mut self, bytes: u32) -> Result<u32, KernelFault> {
        let program = self.blueprint.program();
        let (link, station) = (self.elements.outer_link, self.number(program.station));
        let carried = |kernel: &Kernel| {
            let host = kernel.host(station);
            let control = host.and_then(|host| host.part.control());
            match (control, kernel.element(link)) {
                (Some(control), _) => control.sealed_bytes(),
                (None, Some(Element::Link(link, _))) => link.counters().offered_bytes,
                _ => 0,
            }
        };
        let to = self.blueprint.setup.flows[0].server_address;
        let now = self.kernel.now();
        let before = carried(&self.kernel);
        self.with_stack(station, |stack| {
            let payload_bytes = (bytes as usize).saturating_sub(ip::overhead_bytes(to.is_ipv6()));
            stack.ping(to, 1, payload_bytes, PING_INTERVAL, now);
        });
        self.kernel
            .run_while(now + PATIENCE, |kernel| carried(kernel) == before)?;
        let wire = carried(&self.kernel) - before;
        self.kernel.run(self.kernel.now() + QUIET)?;
        Ok(wire as u32)
    }

    fn round_trips(&mut self) -> Result<RoundTrips, KernelFault> {
        let program = self.blueprint.program();
        let to = self.blueprint.setup.flows[0].server_address;
        let (station, now) = (self.number(program.station), self.kernel.now());
        self.with_stack(station, |stack| {
            stack.ping(to, PINGS, PING_PAYLOAD_BYTES, PING_INTERVAL, now);
        });
        let end = now + PING_INTERVAL * u32::from(PINGS) + QUIET;
        self.kernel.run(end)?;
        let stack = self.host(station).and_then(|host| host.stack.as_ref());
        let pings = stack.and_then(|stack| stack.pings.as_ref());
        Ok(RoundTrips::of(pings))
    }

    fn transfer(&mut self, bytes: u64) -> Result<Transferred, KernelFault> {
        let begun = self.begin_transfer(0, bytes)?;
        let (end, index) = begun.receiver;
        let received = |kernel: &Kernel| {
            let stack = kernel.host(end).and_then(|host| host.stack.as_ref());
            stack.and_then(|stack| stack.transfers.get(index)).copied()
        };
        let start = self.kernel.now();
        let limit = start + self.blueprint.program().limit;
        let goes_on = |kernel: &Kernel| received(kernel).is_some_and(|one| one.octets < bytes);
        self.kernel.run_while(limit, goes_on)?;
        let transferred = self.transferred(0, begun, (start, limit));
        // let packets in flight arrive
        self.kernel.run(self.kernel.now() + QUIET)?;
        Ok(transferred)
    }

    /// What came of a flow's transfer.
    fn transferred(
        &self,
        flow: usize,
        begun: Begun,
        (start, end): (Instant, Instant),
    ) -> Transferred {
        let program = &self.blueprint.programs[flow];
        let bytes = program.transfer.unwrap_or_default();
        let stack = |host: u32| self.host(host).and_then(|host| host.stack.as_ref());
        let of = |(host, index): (u32, usize)| {
            let transfer = stack(host).and_then(|stack| stack.transfers.get(index));
            transfer.copied()
        };
        let (sender, port) = (self.ends(flow).0, self.blueprint.setup.flows[flow].port);
        let client = of(begun.client);
        let since = |at: Option<Instant>| at.map(|at| seconds(start, at));
        let secured = client.and_then(|transfer| transfer.secured);
        let connected = client.and_then(|transfer| transfer.since);
        let handshake = secured.zip(connected).map(|(end, begin)| end.since(begin));
        let begin = start + handshake.unwrap_or_default();
        Transferred {
            connected_s: since(connected),
            secured_s: since(secured),
            timeouts: stack(sender).map_or(0, |stack| stack.timeouts(port)),
            ..Transferred::of(of(begun.receiver), bytes, begin, end)
        }
    }

    /// Opens the connection of a flow.
    fn begin_transfer(&mut self, flow: usize, bytes: u64) -> Result<Begun, KernelFault> {
        let program = &self.blueprint.programs[flow];
        let (station, server) = (self.number(program.station), self.number(program.server));
        let aim = self.blueprint.setup.flows[flow];
        let (port, to) = (aim.port, (aim.server_address, aim.port));
        let is_up = program.is_up;
        let (client, other) = if is_up {
            (Role::Sends(bytes), Role::Receives)
        } else {
            (Role::Receives, Role::Sends(bytes))
        };
        let window = self.blueprint.window_bytes(flow);
        let mut refused = None;
        let listened = self.with_stack(server, |stack| {
            let result = stack.listen(port, other, window);
            result.map_err(|fault| refused = Some(fault)).ok()
        });
        let connected = self.with_stack(station, |stack| {
            let result = stack.connect(to, client, window);
            result.map_err(|fault| refused = Some(fault)).ok()
        });
        let (Some(Some(listened)), Some(Some(connected))) = (listened, connected) else {
            let refused = refused.map(|fault| fault.to_string());
            return Err(KernelFault::Impossible {
                subject: Subject::Flow(flow),
                name: "tcp".to_owned(),
                why: refused.unwrap_or_else(|| "an end has no stack".to_owned()),
            });
        };
        if let Some([own, others]) = self.blueprint.securities.get(&flow).cloned() {
            self.with_stack(station, |stack| stack.secure(connected, own));
            self.with_stack(server, |stack| stack.secure(listened, others));
        }
        let client = (station, connected);
        Ok(Begun {
            receiver: if is_up { (server, listened) } else { client },
            client,
        })
    }

    fn stream(&mut self) -> Result<Streamed, KernelFault> {
        let until = self.kernel.now() + self.blueprint.program().limit;
        self.begin_stream(0);
        self.kernel.run(until + QUIET)?;
        Ok(self.streamed(0))
    }

    /// Starts the datagrams of a flow.
    fn begin_stream(&mut self, flow: usize) {
        let program = &self.blueprint.programs[flow];
        let Some(departures) = self.blueprint.departures(flow) else {
            return;
        };
        let (from, end) = self.ends(flow);
        let aim = self.blueprint.setup.flows[flow];
        let to = if program.is_up {
            aim.server_address
        } else {
            let inner = || self.inner_address(aim.station);
            aim.station_address.unwrap_or_else(inner)
        };
        let sending = Sending {
            to,
            port: aim.port,
            departures,
            begins: self.kernel.now(),
        };
        let port = sending.port;
        let receiver = self
            .kernel
            .host_mut(end)
            .and_then(|host| host.stack.as_mut());
        if let Some(stack) = receiver {
            stack.count_datagrams(port);
        }
        self.with_stack(from, |stack| stack.send_datagrams(sending));
    }

    /// The results of a flow's datagrams.
    fn streamed(&self, flow: usize) -> Streamed {
        let (from, end) = self.ends(flow);
        let stack = |host: u32| self.host(host).and_then(|host| host.stack.as_ref());
        let port = self.blueprint.setup.flows[flow].port;
        let sent = stack(from).and_then(|stack| stack.sent(port));
        let came = stack(end).and_then(|stack| stack.discarded.get(&port));
        let program = &self.blueprint.programs[flow];
        let (limit, most) = (program.limit, self.blueprint.most_bytes(program));
        Streamed::of(sent, came, limit, most)
    }

    /// The sender and the receiver of a flow's counted packets.
    fn ends(&self, flow: usize) -> (u32, u32) {
        let program = &self.blueprint.programs[flow];
        let (station, server) = (self.number(program.station), self.number(program.server));
        if program.is_up {
            (station, server)
        } else {
            (server, station)
        }
    }

    /// The inner address that the gateway has leased to a client.
    fn inner_address(&self, station: usize) -> IpAddr {
        let host = self.host(self.number(station));
        let stack = host.and_then(|host| host.stack.as_ref());
        stack.map_or(Ipv4Addr::UNSPECIFIED.into(), super::host::Stack::address)
    }

    /// A fault of the kernel, about a link, a node or a flow of the scenario.
    fn placed(&self, mut fault: KernelFault) -> KernelFault {
        match &mut fault {
            KernelFault::Impossible { subject, .. } => {
                if let Subject::Element(number) = *subject {
                    *subject = self.elements.subject(number);
                }
            }
            // the flow of which the most datagrams are on their way
            KernelFault::Overloaded { subject, .. } => {
                let waiting = |flow: &usize| {
                    let streamed = self.streamed(*flow);
                    streamed.sent.saturating_sub(streamed.received)
                };
                let flows = 0..self.blueprint.programs.len();
                *subject = Subject::Flow(flows.max_by_key(waiting).unwrap_or_default());
            }
            KernelFault::Cycle(_) | KernelFault::Capture(_) => {}
        }
        fault
    }

    /// The element index of a node of the blueprint.
    fn number(&self, node: usize) -> u32 {
        self.elements.nodes[node]
    }

    fn host(&self, number: u32) -> Option<&Host> {
        self.kernel.host(number)
    }

    /// Gives a host's programs something to do and wakes it.
    fn with_stack<R>(
        &mut self,
        host: u32,
        with: impl FnOnce(&mut super::host::Stack) -> R,
    ) -> Option<R> {
        let stack = self
            .kernel
            .host_mut(host)
            .and_then(|host| host.stack.as_mut());
        let result = stack.map(with);
        self.kernel.wake(host);
        result
    }

    fn unpriced(&self) -> Option<String> {
        let hosts = self
            .kernel
            .elements()
            .filter_map(|(_, name, element)| match element {
                Element::Host(host) => host.unpriced().map(|what| format!("{name}: {what}")),
                _ => None,
            });
        self.blueprint.unpriced.clone().or(hosts.into_iter().next())
    }

    fn drops(&self) -> Vec<Drops> {
        let elements = self.kernel.elements();
        elements
            .flat_map(|(_, name, element)| outcome::drops(name, element))
            .collect()
    }
}

/// The ends of a transfer: hosts, and the transfer in the stack of each.
#[derive(Clone, Copy)]
struct Begun {
    receiver: (u32, usize),
    /// The one that connects.
    client: (u32, usize),
}

/// The payload of `ping`.
const PING_PAYLOAD_BYTES: usize = 56;

/// Seconds between two times.
fn seconds(from: Instant, to: Instant) -> f64 {
    to.since(from).as_secs_f64()
}
