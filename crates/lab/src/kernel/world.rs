//! The road of a scenario with real machines on it: station, NAT, gateway and server; the tunnel
//! is brought up and used, and what that took is measured.
//!
//! Addresses are those of the testbed's road. With a tunnel in transport mode, or in clear, the
//! station talks to the gateway's own address, which publishes the server's port; in tunnel mode to
//! the server's. Left out: several stations, IPv6.

mod addresses;
mod build;
mod outcome;
mod plan;
#[cfg(test)]
pub(super) mod tests;
mod tunnel;

use std::io::Write;

use engine::time::{Duration, Instant};
use engine::work::Work;

use super::host::control::since;
use super::host::stack::Role;
use super::{Element, Fault, Host, Kernel};

pub use addresses::{GATEWAY, NAT, SERVER, SERVER_PORT, STATION};
pub use outcome::{Cut, Drops, Exchange, Outcome, RoundTrips, Row, Streamed, Transferred};
pub use plan::{Joint, Plan, Programs, Station};
pub use tunnel::{Proof, Tunnel};

use build::Places;

/// Longest handshake that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Pings of a round-trip measurement, and their distance.
pub const PINGS: u16 = 20;
const PING_INTERVAL: Duration = Duration::from_millis(200);
/// What follows the last ping, so that its answer may come.
const QUIET: Duration = Duration::from_secs(2);
/// IP packets whose size on the wire is measured: paper U's example and its mean.
pub const SIZES_BYTES: [u32; 2] = [64, 480];
/// Largest IP packet that a UDP datagram makes without headers' bytes: 65,507.
pub const MOST_BYTES: u32 = 65_507;

/// A world and where its elements are.
pub struct World {
    plan: Plan,
    kernel: Kernel,
    places: Places,
}

impl World {
    /// Builds the road.
    pub fn new(plan: Plan) -> Result<Self, Fault> {
        let (mut kernel, places) = build::build(&plan)?;
        kernel.keep_fingerprint();
        Ok(Self {
            plan,
            kernel,
            places,
        })
    }

    /// Writes every link's packets, both ways, to a capture.
    pub fn capture(&mut self, to: Box<dyn Write>) {
        let links = &self.places.links;
        let taps: Vec<u32> = links.iter().flat_map(|link| [link.0, link.1]).collect();
        self.kernel.capture(to, self.plan.calendar, &taps);
    }

    /// Brings the tunnel up, uses it as planned, and says what it took.
    pub fn run(mut self) -> Result<Outcome, Fault> {
        self.kernel.start()?;
        let exchange = self.handshake()?;
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
            if let Some(bytes) = self.plan.programs.transfer {
                outcome.transferred = Some(self.transfer(bytes)?);
            }
            if self.plan.programs.stream.is_some() {
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
        written.map_err(|fault| Fault::Element("capture".into(), fault.to_string()))?;
        Ok(outcome)
    }

    /// Only the exchange, until all of it is there: its messages, and each host's work by name
    /// from the first message on.
    pub fn exchange_alone(mut self) -> Result<(Exchange, Vec<(String, Work)>), Fault> {
        let before = self.works();
        self.kernel.start()?;
        let exchange = self.handshake()?.unwrap_or_default();
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
                Element::Host(host) => Some((name.to_owned(), host.control.as_ref()?.work())),
                _ => None,
            });
        works.collect()
    }

    fn handshake(&mut self) -> Result<Option<Exchange>, Fault> {
        if self.plan.tunnel.is_none() {
            return Ok(None);
        }
        let (station, gateway) = (self.places.station, self.places.gateway);
        let is_up = |kernel: &Kernel, host: Option<u32>| {
            let host = host.and_then(|host| kernel.host(host));
            let control = host.and_then(|host| host.control.as_ref());
            control.is_some_and(|control| control.log.established.is_some())
        };
        let both = |kernel: &Kernel| is_up(kernel, Some(station)) && is_up(kernel, gateway);
        let end = self.kernel.now() + PATIENCE;
        self.kernel.run_while(end, |kernel| !both(kernel))?;
        let is_up = both(&self.kernel);
        let host = self.host(station);
        let log = host.and_then(|host| host.control.as_ref()).map(|c| &c.log);
        let log = log.cloned().unwrap_or_default();
        Ok(Some(Exchange::new(&log, is_up)))
    }

    /// Octets of the IP packet that carries a clear one of `bytes` over the link to the gateway.
    /// IKE may have something to say meanwhile: what the station has sealed is looked at, and the
    /// link only where nothing is.
    fn wire_bytes(&mut self, bytes: u32) -> Result<u32, Fault> {
        let (link, station) = (self.places.outer_link, self.places.station);
        let carried = |kernel: &Kernel| {
            let host = kernel.host(station);
            let control = host.and_then(|host| host.control.as_ref());
            match (control, kernel.element(link)) {
                (Some(control), _) => control.sealed_bytes(),
                (None, Some(Element::Link(link, _))) => link.counters().offered_bytes,
                _ => 0,
            }
        };
        let to = self.places.far_end(&self.plan);
        let now = self.kernel.now();
        let before = carried(&self.kernel);
        self.with_stack(station, |stack| {
            stack.ping(to, 1, bytes.saturating_sub(28) as usize, PING_INTERVAL, now);
        });
        self.kernel
            .run_while(now + PATIENCE, |kernel| carried(kernel) == before)?;
        let wire = carried(&self.kernel) - before;
        self.kernel.run(self.kernel.now() + QUIET)?;
        Ok(wire as u32)
    }

    fn round_trips(&mut self) -> Result<RoundTrips, Fault> {
        let to = self.places.far_end(&self.plan);
        let (station, now) = (self.places.station, self.kernel.now());
        self.with_stack(station, |stack| {
            stack.ping(to, PINGS, PING_PAYLOAD_BYTES, PING_INTERVAL, now);
        });
        let end = now + PING_INTERVAL * u32::from(PINGS) + QUIET;
        self.kernel.run(end)?;
        let stack = self.host(station).and_then(|host| host.stack.as_ref());
        let pings = stack.and_then(|stack| stack.pings.as_ref());
        Ok(RoundTrips::of(pings))
    }

    fn transfer(&mut self, bytes: u64) -> Result<Transferred, Fault> {
        let (station, server) = (self.places.station, self.places.server);
        let to = (self.places.far_end(&self.plan), SERVER_PORT);
        let is_up = self.plan.programs.is_up;
        let (client, other) = if is_up {
            (Role::Sends(bytes), Role::Receives)
        } else {
            (Role::Receives, Role::Sends(bytes))
        };
        let window = self.plan.window_bytes();
        let mut refused = None;
        let listened = self.with_stack(server, |stack| {
            let result = stack.listen(SERVER_PORT, other, window);
            result.map_err(|fault| refused = Some(fault)).ok()
        });
        let connected = self.with_stack(station, |stack| {
            let result = stack.connect(to, client, window);
            result.map_err(|fault| refused = Some(fault)).ok()
        });
        if let Some(fault) = refused {
            return Err(Fault::Element("tcp".into(), fault.to_string()));
        }
        let (Some(Some(listened)), Some(Some(connected))) = (listened, connected) else {
            return Err(Fault::Element("tcp".into(), "an end has no stack".into()));
        };
        let (end, index) = if is_up {
            (server, listened)
        } else {
            (station, connected)
        };
        let received = |kernel: &Kernel| {
            let stack = kernel.host(end).and_then(|host| host.stack.as_ref());
            stack.and_then(|stack| stack.transfers.get(index)).copied()
        };
        let start = self.kernel.now();
        let limit = start + self.plan.programs.limit;
        let goes_on = |kernel: &Kernel| received(kernel).is_some_and(|one| one.octets < bytes);
        self.kernel.run_while(limit, goes_on)?;
        let transfer = received(&self.kernel);
        // what is under way comes to its end
        self.kernel.run(self.kernel.now() + QUIET)?;
        Ok(Transferred::of(transfer, bytes, start, limit))
    }

    fn stream(&mut self) -> Result<Streamed, Fault> {
        let Some((gaps, sizes)) = self.plan.programs.stream else {
            return Ok(Streamed::default());
        };
        let (station, server) = (self.places.station, self.places.server);
        let is_up = self.plan.programs.is_up;
        let (from, end) = if is_up {
            (station, server)
        } else {
            (server, station)
        };
        let to = self.places.address_of(end, from, &self.plan, &self.kernel);
        let now = self.kernel.now();
        let until = now + self.plan.programs.limit;
        let (most, seed) = (self.plan.most_bytes(), self.plan.seed);
        self.with_stack(from, |stack| {
            stack.send_datagrams(to, (gaps, sizes), most, (now, until), seed);
        });
        self.kernel.run(until + QUIET)?;
        let stack = |host: u32| self.host(host).and_then(|host| host.stack.as_ref());
        let cut = stack(from).and_then(|stack| stack.datagrams.as_ref());
        let discarded = stack(end).map(|stack| stack.discarded).unwrap_or_default();
        let limit = self.plan.programs.limit;
        Ok(Streamed::of(cut, &discarded, limit, most))
    }

    fn host(&self, number: u32) -> Option<&Host> {
        self.kernel.host(number)
    }

    /// Gives a host's programs something and lets it look.
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
        hosts.into_iter().next()
    }

    fn drops(&self) -> Vec<Drops> {
        let elements = self.kernel.elements();
        elements
            .flat_map(|(_, name, element)| outcome::drops(name, element))
            .collect()
    }
}

/// What `ping` sends.
const PING_PAYLOAD_BYTES: usize = 56;

/// The moment after so many seconds; for limits, so far away at most that sums stay possible.
fn after(seconds: f64) -> Duration {
    Duration::from_nanos(super::cpu::nanoseconds(seconds))
}

/// Seconds between two moments.
fn seconds(from: Instant, to: Instant) -> f64 {
    to.since(from).as_secs_f64()
}
