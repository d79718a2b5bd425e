//! How the tunnels of a world come up, and what their stations saw of it. A station that begins
//! inside needs none yet.
//!
//! A tunnel that goes on from a lost session (RFC 5723) has had one before: it comes up, its
//! gateway crashes and begins anew with what it has kept, and its station notices by its probes
//! that nobody answers. Only what follows counts: from the message with the ticket on.

use engine::ike::Step;

use super::build::anew;
use super::{Exchange, PATIENCE, World};
use crate::kernel::host::{Control, Log, Part};
use crate::kernel::{Host, Kernel, KernelFault};

impl World {
    /// Waits for all tunnels. Returns what each client saw, in the order of the graph's tunnels.
    pub(super) fn handshakes(&mut self) -> Result<Vec<Exchange>, KernelFault> {
        if self.blueprint.tunnels.is_empty() {
            return Ok(Vec::new());
        }
        self.bring_up()?;
        let exchanges = self
            .ends_of_tunnels()
            .into_iter()
            .zip(&self.blueprint.tunnels)
            .map(|((from, to), tunnel)| {
                let logs = (&self.log_of(from), &self.log_of(to));
                let is_up = has_child(&self.kernel, from) && has_child(&self.kernel, to);
                Exchange::new(logs, is_up, tunnel.is_outer_v6)
            });
        Ok(exchanges.collect())
    }

    /// Brings up the sessions that tunnels go on from, and lets their stations notice that they are
    /// lost. Call it before [`World::handshakes`].
    pub(super) fn lose_earlier(&mut self) -> Result<(), KernelFault> {
        let tunnels = self.blueprint.tunnels.iter();
        let lost = tunnels.zip(&self.blueprint.graph.tunnels);
        let lost = lost.filter(|(tunnel, _)| tunnel.is_resumed);
        let lost: Vec<(usize, usize)> = lost.map(|(_, ends)| (ends.from, ends.to)).collect();
        if lost.is_empty() {
            return Ok(());
        }
        self.bring_up()?;
        let mut gateways: Vec<usize> = lost.iter().map(|(_, to)| *to).collect();
        gateways.sort_unstable();
        gateways.dedup();
        for gateway in gateways {
            self.crash(gateway);
        }
        let is_ticket = |step: Step| matches!(step, Step::Resume(_));
        let stations: Vec<u32> = lost.iter().map(|(from, _)| self.number(*from)).collect();
        let is_back = |kernel: &Kernel, station: u32| {
            control(kernel, station).is_some_and(|it| it.has_logged(is_ticket))
        };
        let end = self.kernel.now() + PATIENCE;
        self.kernel.run_while(end, |kernel| {
            !stations.iter().all(|station| is_back(kernel, *station))
        })?;
        for station in stations {
            let host = self.kernel.host_mut(station);
            if let Some(control) = host.and_then(|host| host.part.control_mut()) {
                control.log_from(is_ticket);
            }
        }
        Ok(())
    }

    /// A gateway crashes and begins anew at once.
    fn crash(&mut self, gateway: usize) {
        let (now, number) = (self.kernel.now(), self.number(gateway));
        let Some(host) = self.kernel.host_mut(number) else {
            return;
        };
        let addresses = host.config().addresses.clone();
        let (Some(former), Some(mut next)) = (
            host.part.control(),
            anew(&self.blueprint, gateway, addresses),
        ) else {
            return;
        };
        next.take_over(former, now);
        host.part = Part::Control(Box::new(next));
        self.kernel.wake(number);
    }

    /// What a host's control has logged.
    pub(super) fn log_of(&self, host: u32) -> Log {
        let found = control(&self.kernel, host);
        found.map_or_else(Log::default, |control| control.log.clone())
    }

    fn ends_of_tunnels(&self) -> Vec<(u32, u32)> {
        let tunnels = self.blueprint.graph.tunnels.iter();
        let ends = tunnels.map(|tunnel| (self.number(tunnel.from), self.number(tunnel.to)));
        ends.collect()
    }

    /// Whether a station is inside, where it needs no tunnel.
    pub(super) fn is_inside(&self, station: usize) -> bool {
        is_inside(&self.kernel, self.number(station))
    }

    /// The exchange of a station's first tunnel, if it began inside; `seen` is what it had said at
    /// the beginning. A tunnel may be given up there before it is up.
    pub(super) fn first_exchange(
        &self,
        seen: Exchange,
        (from, to): (usize, usize),
        is_v6: bool,
    ) -> Exchange {
        let mut log = self.log_of(self.number(from));
        let Some(established) = log.established.filter(|_| !seen.is_up) else {
            return seen;
        };
        log.messages.retain(|message| message.at <= established);
        let mut messages = log.messages.iter();
        let first = messages.rposition(|it| it.is_sent && it.step.is_first());
        log.messages.drain(..first.unwrap_or(0));
        let gateways = self.log_of(self.number(to));
        Exchange::new((&log, &gateways), true, is_v6)
    }

    /// Runs until all tunnels are up that are needed, or patience ends.
    fn bring_up(&mut self) -> Result<(), KernelFault> {
        let ends = self.ends_of_tunnels();
        let is_whole = |kernel: &Kernel, gateway: u32| {
            let own = ends.iter().filter(|(_, to)| *to == gateway);
            let wanted = own.filter(|(from, _)| !is_inside(kernel, *from)).count() as u64;
            control(kernel, gateway).is_some_and(|it| it.log.children >= wanted)
        };
        let all = |kernel: &Kernel| {
            let mut each = ends.iter();
            each.all(|(from, to)| {
                is_inside(kernel, *from) || has_child(kernel, *from) && is_whole(kernel, *to)
            })
        };
        let end = self.kernel.now() + PATIENCE;
        self.kernel.run_while(end, |kernel| !all(kernel))
    }
}

fn control(kernel: &Kernel, host: u32) -> Option<&Control> {
    kernel.host(host).and_then(|host| host.part.control())
}

fn is_inside(kernel: &Kernel, host: u32) -> bool {
    kernel.host(host).is_some_and(Host::is_inside)
}

fn has_child(kernel: &Kernel, host: u32) -> bool {
    control(kernel, host).is_some_and(|it| it.log.established.is_some())
}
