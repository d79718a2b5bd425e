//! The loop of the thread: wait for a descriptor or a deadline, then let everything do what it can.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use engine::node::EndCause;
use engine::time::{Duration, Instant};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tokio::sync::watch;
use tracing::{info, warn};

use super::access::{Login, is_of_our_user};
use super::flow::{Around, Flow};
use super::stack::Stack;
use super::tunnel::Tunnel;
use super::{CONNECTIONS_MAX, Counts, End, GOODBYE_MAX, STRANGER_MIN, STRANGERS_MAX, State};
use crate::sys::datagram::Batch;

/// How often counts are told.
const TELL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the listener rests after the kernel has refused a connection, as when this process has
/// too many files.
const REST: Duration = Duration::from_millis(500);

pub(super) struct Server {
    tunnel: Tunnel,
    stack: Stack,
    flows: Vec<Flow>,
    listener: TcpListener,
    address: SocketAddr,
    login: Option<Login>,
    /// Readable when its other end is closed.
    stopped: UnixStream,
    tell_state: watch::Sender<State>,
    tell_counts: watch::Sender<Counts>,
    counts: Counts,
    told_at: Instant,
    until: Option<Instant>,
    reconnects: bool,
    is_up: bool,
    inner: Vec<IpAddr>,
    rests_until: Instant,
    ready: Ready,
}

/// What the last wait has found.
#[derive(Clone, Copy, Default)]
struct Ready {
    network: bool,
    errors: bool,
    listener: bool,
    stop: bool,
}

impl Server {
    pub(super) fn new(
        tunnel: Tunnel,
        (listener, address, login): (TcpListener, SocketAddr, Option<Login>),
        stopped: UnixStream,
        (tell_state, tell_counts): (watch::Sender<State>, watch::Sender<Counts>),
        (until, reconnects): (Option<Duration>, bool),
    ) -> Self {
        let now = tunnel.now();
        let stack = Stack::new(tunnel.random("stack"));
        Self {
            tunnel,
            stack,
            flows: Vec::new(),
            listener,
            address,
            login,
            stopped,
            tell_state,
            tell_counts,
            counts: Counts::default(),
            told_at: now,
            until: until.map(|span| now + span),
            reconnects,
            is_up: false,
            inner: Vec::new(),
            rests_until: now,
            ready: Ready::default(),
        }
    }

    pub(super) fn run(mut self) {
        let mut batch = Tunnel::batch();
        let end = loop {
            let now = self.tunnel.now();
            if let Some(end) = self.turn(&mut batch, now) {
                break end;
            }
            let now = self.tunnel.now();
            let sleep = self.due(now).since(now);
            if let Err(fault) = self.wait(sleep) {
                break End::Failed(format!("cannot wait for sockets: {fault}"));
            }
        };
        self.part(&mut batch);
        info!(?end, "the tunnel without root has ended");
        // Whoever hears of the end finds its port closed.
        let (tell_state, tell_counts, counts) = self.close();
        tell_counts.send_replace(counts);
        tell_state.send_replace(State::Over(end));
    }

    fn close(self) -> (watch::Sender<State>, watch::Sender<Counts>, Counts) {
        (self.tell_state, self.tell_counts, self.counts)
    }

    /// Everything does what it can. Returns why it is over, if it is.
    fn turn(&mut self, batch: &mut Batch, now: Instant) -> Option<End> {
        if self.ready.stop {
            return Some(End::Stopped);
        }
        if self.until.is_some_and(|until| until <= now) {
            return Some(End::TimeOver);
        }
        if self.ready.errors {
            self.tunnel.read_errors();
        }
        if self.ready.network {
            self.tunnel.receive(batch);
        }
        if self.tunnel.due() <= now {
            self.tunnel.wake(now);
        }
        if let Some(end) = self.notice(now) {
            return Some(end);
        }
        self.work(now);
        if self.ready.listener {
            self.accept(now);
        }
        self.serve(now);
        self.work(now);
        self.tell(now);
        None
    }

    /// The stack takes what came, and sends.
    fn work(&mut self, now: Instant) {
        for packet in self.tunnel.facts.opened.drain(..) {
            self.stack.device.give(packet);
        }
        self.stack.poll(now);
        let (tunnel, counts) = (&mut self.tunnel, &mut self.counts);
        self.stack.device.drain(|packet| {
            counts.unsealed += u64::from(!tunnel.send(packet, now));
        });
        tunnel.flush();
        if let Some(mtu) = self.tunnel.facts.mtu {
            self.stack.set_mtu(mtu);
        }
    }

    /// Takes events of the tunnel.
    fn notice(&mut self, now: Instant) -> Option<End> {
        if !std::mem::take(&mut self.tunnel.facts.is_changed) {
            return None;
        }
        let was_up = std::mem::replace(&mut self.is_up, self.tunnel.is_up(now));
        let facts = &self.tunnel.facts;
        if !self.is_up {
            match &facts.end {
                Some(EndCause::DeletedByPeer) if was_up && !self.reconnects => {
                    return Some(End::DeletedByPeer);
                }
                Some(cause) if was_up => info!("the tunnel is down: {cause}"),
                _ => {}
            }
            let trouble = match &facts.end {
                Some(cause) if was_up => Some(cause.to_string()),
                _ => facts.trouble.clone(),
            };
            self.say(State::Waiting { trouble });
            return None;
        }
        let (inner, dns) = (facts.inner.clone(), facts.dns.clone());
        if inner != self.inner {
            // Connections belong to an address.
            self.reset_all(now);
            self.inner.clone_from(&inner);
        }
        let facts = &self.tunnel.facts;
        let ppk = facts.ppk;
        let reachable = dns.iter().filter(|it| facts.reaches(**it)).copied();
        let reachable: Vec<IpAddr> = reachable.collect();
        self.stack.set_addresses(&inner, &reachable);
        if !was_up {
            info!(?inner, "the tunnel is up, without root");
            if reachable.len() < dns.len() {
                warn!("the tunnel does not lead to every resolver that the gateway names");
            }
        }
        self.say(State::Up {
            inner,
            dns: reachable,
            ppk,
        });
        None
    }

    fn say(&self, state: State) {
        self.tell_state.send_if_modified(|said| {
            let is_new = *said != state;
            *said = state;
            is_new
        });
    }

    fn accept(&mut self, now: Instant) {
        while self.opens_at().is_some_and(|at| at <= now) {
            let (program, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => return,
                Err(fault) if fault.kind() == ErrorKind::ConnectionAborted => continue,
                Err(fault) => {
                    warn!("cannot accept a connection: {fault}");
                    self.rests_until = now + REST;
                    return;
                }
            };
            self.counts.accepted += 1;
            if self.login.is_none() && !is_of_our_user(from, self.address) {
                self.counts.strangers += 1;
                continue;
            }
            self.make_room(now);
            self.flows.extend(Flow::new(program, now).ok());
        }
    }

    /// When a further program may come. None: when another one has left.
    fn opens_at(&self) -> Option<Instant> {
        let since = || self.flows.iter().filter_map(Flow::stranger_since);
        let strangers = since().count();
        if self.flows.len() - strangers >= CONNECTIONS_MAX {
            return None;
        }
        let oldest = since().min().filter(|_| strangers >= STRANGERS_MAX);
        let opens = oldest.map(|oldest| oldest + STRANGER_MIN);
        Some(opens.map_or(self.rests_until, |at| at.max(self.rests_until)))
    }

    /// The oldest of too many programs that have not logged in has to go: those that do so at once
    /// do not wait for others that never will.
    fn make_room(&mut self, now: Instant) {
        let since = |at: &usize| self.flows[*at].stranger_since();
        let strangers = (0..self.flows.len()).filter(|at| since(at).is_some());
        if strangers.clone().count() >= STRANGERS_MAX
            && let Some(oldest) = strangers.min_by_key(since)
        {
            self.flows.remove(oldest).reset(&mut self.stack, now);
            self.counts.misbehaved += 1;
        }
    }

    fn serve(&mut self, now: Instant) {
        let mut around = Around {
            stack: &mut self.stack,
            facts: &self.tunnel.facts,
            login: self.login.as_ref(),
            counts: &mut self.counts,
            is_up: self.is_up,
            now,
        };
        for flow in &mut self.flows {
            flow.turn(&mut around);
        }
        self.flows.retain(|flow| !flow.is_over());
    }

    fn reset_all(&mut self, now: Instant) {
        for mut flow in self.flows.drain(..) {
            flow.reset(&mut self.stack, now);
        }
    }

    fn tell(&mut self, now: Instant) {
        self.counts.overflowed = self.stack.device.overflowed;
        self.counts.unsent = self.tunnel.facts.unsent;
        if self.told_at <= now && *self.tell_counts.borrow() != self.counts {
            self.told_at = now + TELL_INTERVAL;
            self.tell_counts.send_replace(self.counts);
        }
    }

    /// When the next turn is due, if no descriptor needs one before.
    fn due(&mut self, now: Instant) -> Instant {
        let is_ready = |flow: &Flow| flow.is_ready(&self.stack) || flow.is_over();
        if self.stack.device.is_full()
            || !self.tunnel.facts.opened.is_empty()
            || self.tunnel.facts.is_changed
            || self.flows.iter().any(is_ready)
        {
            return now;
        }
        let is_untold = *self.tell_counts.borrow() != self.counts;
        let others = [
            self.stack.due(now),
            self.until,
            is_untold.then_some(self.told_at),
            self.opens_at().filter(|at| now < *at),
        ];
        let flows = self.flows.iter().map(Flow::due);
        let all = others.into_iter().flatten().chain(flows);
        all.fold(self.tunnel.due(), Instant::min)
    }

    /// Sleeps until a descriptor is ready, for `sleep` at most.
    fn wait(&mut self, sleep: Duration) -> nix::Result<()> {
        let now = self.tunnel.now();
        let listens = self.opens_at().is_some_and(|at| at <= now);
        let mut fds = vec![PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN)];
        let sockets = self.tunnel.sockets();
        fds.extend(sockets.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let after_network = fds.len();
        let listener = match listens {
            true => PollFlags::POLLIN,
            false => PollFlags::empty(),
        };
        fds.push(PollFd::new(self.listener.as_fd(), listener));
        let mut watched = Vec::with_capacity(self.flows.len());
        for (index, flow) in self.flows.iter().enumerate() {
            let interest = flow.interest(&self.stack);
            if !interest.is_empty() {
                watched.push(index);
                fds.push(PollFd::new(flow.fd(), interest));
            }
        }
        match ppoll(&mut fds, Some(TimeSpec::from_duration(sleep)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(fault) => return Err(fault),
        }
        let flags = |fd: &PollFd<'_>| fd.revents().unwrap_or(PollFlags::empty());
        let network = &fds[1..after_network];
        self.ready = Ready {
            stop: !flags(&fds[0]).is_empty(),
            network: network
                .iter()
                .any(|fd| flags(fd).contains(PollFlags::POLLIN)),
            errors: network
                .iter()
                .any(|fd| flags(fd).contains(PollFlags::POLLERR)),
            listener: flags(&fds[after_network]).contains(PollFlags::POLLIN),
        };
        let hints: Vec<PollFlags> = fds[after_network + 1..].iter().map(flags).collect();
        for (index, hint) in watched.into_iter().zip(hints) {
            self.flows[index].hint(hint);
        }
        Ok(())
    }

    /// Says goodbye: to programs and far ends by a reset, to the peer by a delete.
    fn part(&mut self, batch: &mut Batch) {
        let now = self.tunnel.now();
        self.reset_all(now);
        self.stack.abort_all();
        self.work(now);
        self.tunnel.stop(now);
        let until = now + GOODBYE_MAX;
        while !self.tunnel.facts.is_stopped {
            let now = self.tunnel.now();
            let sleep = until.min(self.tunnel.due()).since(now);
            if until <= now || self.tunnel.wait(sleep).is_err() {
                break;
            }
            self.tunnel.read_errors();
            self.tunnel.receive(batch);
            self.tunnel.wake(self.tunnel.now());
        }
    }
}
