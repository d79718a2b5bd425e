//! Assigns the directions to threads.
//!
//! While one thread suffices, it serves both directions, so answers to received packets wake no
//! other thread. While both directions keep it busy, it lends the outbound one to the second
//! thread, which returns it when there is little to do. A direction moves by value: the thread that
//! has it owns it, and neither thread ever waits for the other.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use engine::time::{Duration, Instant};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::inbound::{Inbound, Source};
use super::news::Line;
use super::outbound::{Outbound, Turn};
use super::{Clock, InboundOrder, Orders};
use crate::raw::RawSockets;
use crate::udp::UdpSockets;

/// How long until a fact for a busy control is retried, in ms.
const RETELL_MS: u16 = 10;
/// The load of a thread is judged after this time.
const WINDOW: Duration = Duration::from_millis(10);
/// If the first thread is busy for at least this part of a window, it needs help.
const HELP_SIXTEENTHS: u64 = 15;
/// Help pays if the smaller direction has at least this part of all octets.
const LESSER_SIXTEENTHS: u64 = 2;
/// If the second thread is busy for less than this part of a window, it returns the direction.
const REST_SIXTEENTHS: u64 = 4;
/// The second thread returns the direction when nothing came for this long, in ms.
const REST_MS: u16 = 100;
/// Most events per wait.
const EVENTS: usize = 16;

/// Names of the awaited descriptors. Sockets follow.
const BELL: u64 = 0;
const OUTBOUND: u64 = 1;
const OUTBOUND_BELL: u64 = 2;
const SOURCES: u64 = 3;

/// The thread that always serves the inbound direction, and the outbound one unless it is lent.
pub(super) struct First {
    inbound: Inbound,
    outbound: Option<Box<Outbound>>,
    lending: SyncSender<Box<Outbound>>,
    returned: Receiver<Returned>,
    /// Of an outbound direction that failed, until control has heard it.
    failed: Option<Line>,
    waiting: Waiting,
    clock: Clock,
}

/// The thread that helps.
pub(super) struct Second {
    lent: Receiver<Box<Outbound>>,
    returning: SyncSender<Returned>,
    /// Rings the first thread's bell.
    first: Orders<InboundOrder>,
    waiting: Waiting,
    clock: Clock,
}

/// What the second thread returns.
enum Returned {
    /// There is little to do.
    Direction(Box<Outbound>),
    /// It failed. This line has news for a busy control.
    Failed(Line),
}

/// How the second thread's service of a direction ended.
enum Served {
    /// There is little to do.
    Rest,
    /// It was told to stop.
    Stopped,
    /// [`Turn::Failed`].
    Failed,
}

/// Makes both threads; the first has the outbound direction. `first`: the queue of the inbound
/// direction.
pub(super) fn pair(
    inbound: Inbound,
    outbound: Outbound,
    first: Orders<InboundOrder>,
    clock: Clock,
) -> io::Result<(First, Second)> {
    let (lending, lent) = sync_channel(1);
    let (returning, returned) = sync_channel(1);
    let waiting = Waiting::new()?;
    waiting.add(inbound.bell(), BELL)?;
    let (udp, raw) = inbound.sockets();
    for ((_, fd), name) in sources(&udp, raw.as_deref()).iter().zip(SOURCES..) {
        waiting.add(*fd, name)?;
    }
    waiting.add_outbound(&outbound);
    let first_thread = First {
        inbound,
        outbound: Some(Box::new(outbound)),
        lending,
        returned,
        failed: None,
        waiting,
        clock,
    };
    let second_thread = Second {
        lent,
        returning,
        first,
        waiting: Waiting::new()?,
        clock,
    };
    Ok((first_thread, second_thread))
}

impl First {
    /// Serves until told to stop.
    pub(super) fn run(mut self) {
        let (mut for_udp, mut for_raw) = self.inbound.buffers();
        let (udp, raw) = self.inbound.sockets();
        let sources = sources(&udp, raw.as_deref());
        let mut load = Load::new(self.clock);
        let mut may_be_more = false;
        loop {
            let events = self.wait(may_be_more, &mut load);
            let mut is_outbound_due = may_be_more;
            for index in 0..events {
                let event = self.waiting.event(index);
                match event.name {
                    BELL if !self.inbound.listen() => return,
                    BELL => self.take_back(),
                    OUTBOUND_BELL => self.listen_outbound(),
                    OUTBOUND => is_outbound_due = true,
                    name => {
                        let (source, fd) = sources[(name - SOURCES) as usize];
                        if event.is_error {
                            self.inbound.read_errors(source, fd);
                        }
                        if event.is_readable {
                            let buffers = match (source, &mut for_raw) {
                                (Source::Raw(_), Some(buffers)) => buffers,
                                _ => &mut for_udp,
                            };
                            self.inbound.turn(source, fd, buffers);
                            // The delivered packets may have been answered already.
                            is_outbound_due = true;
                        }
                    }
                }
            }
            may_be_more = is_outbound_due && self.turn_outbound();
            self.judge(&mut load);
        }
    }

    fn wait(&mut self, may_be_more: bool, load: &mut Load) -> usize {
        let outbound = self.outbound.as_mut();
        self.failed.take_if(|line| !line.retry());
        let is_waiting =
            self.inbound.retell() | outbound.is_some_and(|it| it.retell()) | self.failed.is_some();
        let timeout = match (may_be_more, is_waiting) {
            (true, _) => EpollTimeout::ZERO,
            (false, true) => EpollTimeout::from(RETELL_MS),
            (false, false) => EpollTimeout::NONE,
        };
        load.wait(&mut self.waiting, timeout)
    }

    /// Returns whether there may be more.
    fn turn_outbound(&mut self) -> bool {
        match self.outbound.as_mut().map(|outbound| outbound.turn()) {
            Some(Turn::More) => true,
            Some(Turn::Failed) => {
                self.failed = self.let_go().map(|outbound| outbound.into_line());
                false
            }
            Some(Turn::Drained) | None => false,
        }
    }

    fn listen_outbound(&mut self) {
        if self.outbound.as_mut().is_some_and(|it| !it.listen()) {
            self.let_go();
        }
    }

    /// Lends the outbound direction if this thread cannot serve both.
    fn judge(&mut self, load: &mut Load) {
        let Some(outbound) = &self.outbound else {
            return;
        };
        let moved = [self.inbound.bytes(), outbound.bytes()];
        if load.judge(moved).is_some_and(|past| past.needs_help())
            && let Some(outbound) = self.let_go()
            && let Err(refused) = self.lending.try_send(outbound)
        {
            // The second thread is gone.
            let (TrySendError::Full(outbound) | TrySendError::Disconnected(outbound)) = refused;
            self.hold(outbound);
        }
    }

    fn take_back(&mut self) {
        match self.returned.try_recv() {
            Ok(Returned::Direction(outbound)) => self.hold(outbound),
            Ok(Returned::Failed(line)) => self.failed = Some(line),
            // The bell rang for an order.
            Err(_) => {}
        }
    }

    fn let_go(&mut self) -> Option<Box<Outbound>> {
        let outbound = self.outbound.take()?;
        self.waiting.remove_outbound(&outbound);
        Some(outbound)
    }

    fn hold(&mut self, outbound: Box<Outbound>) {
        self.waiting.add_outbound(&outbound);
        self.outbound = Some(outbound);
    }
}

impl Second {
    /// Serves the lent direction until the first thread is gone.
    pub(super) fn run(mut self) {
        while let Ok(mut outbound) = self.lent.recv() {
            self.waiting.add_outbound(&outbound);
            let served = self.serve(&mut outbound);
            self.waiting.remove_outbound(&outbound);
            let returned = match served {
                Served::Rest => Returned::Direction(outbound),
                Served::Failed => Returned::Failed(outbound.into_line()),
                Served::Stopped => continue,
            };
            if self.returning.try_send(returned).is_ok() {
                // The first thread is gone, so this one ends too.
                let _ = self.first.ring();
            }
        }
    }

    fn serve(&mut self, outbound: &mut Outbound) -> Served {
        let mut load = Load::new(self.clock);
        let mut may_be_more = true;
        loop {
            let timeout = match (may_be_more, outbound.retell()) {
                (true, _) => EpollTimeout::ZERO,
                (false, true) => EpollTimeout::from(RETELL_MS),
                (false, false) => EpollTimeout::from(REST_MS),
            };
            let events = load.wait(&mut self.waiting, timeout);
            for index in 0..events {
                if self.waiting.event(index).name == OUTBOUND_BELL && !outbound.listen() {
                    return Served::Stopped;
                }
            }
            may_be_more = match outbound.turn() {
                Turn::More => true,
                Turn::Drained => false,
                Turn::Failed => return Served::Failed,
            };
            if load.judge([0, 0]).is_some_and(|past| past.is_rest()) {
                return Served::Rest;
            }
        }
    }
}

/// The descriptors that a thread waits for.
struct Waiting {
    epoll: Epoll,
    events: [EpollEvent; EVENTS],
}

#[derive(Clone, Copy)]
struct Event {
    name: u64,
    is_readable: bool,
    is_error: bool,
}

impl Waiting {
    fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            events: [EpollEvent::empty(); EVENTS],
        })
    }

    fn add(&self, fd: BorrowedFd<'_>, name: u64) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, name);
        self.epoll.add(fd, event).map_err(io::Error::from)
    }

    fn add_outbound(&self, outbound: &Outbound) {
        let [device, bell] = outbound.wakers();
        for (fd, name) in [(device, OUTBOUND), (bell, OUTBOUND_BELL)] {
            // Fails only if the kernel has no memory, when nothing else would work either.
            let _ = self.add(fd, name);
        }
    }

    fn remove_outbound(&self, outbound: &Outbound) {
        for fd in outbound.wakers() {
            // It was added before.
            let _ = self.epoll.delete(fd);
        }
    }

    /// Waits and returns the number of events.
    fn wait(&mut self, timeout: EpollTimeout) -> usize {
        // An interrupted wait counts as a wait that ended.
        self.epoll.wait(&mut self.events, timeout).unwrap_or(0)
    }

    fn event(&self, index: usize) -> Event {
        let event = &self.events[index];
        let has = |flag| event.events().contains(flag);
        Event {
            name: event.data(),
            is_readable: has(EpollFlags::EPOLLIN),
            is_error: has(EpollFlags::EPOLLERR),
        }
    }
}

/// How busy a thread is.
struct Load {
    clock: Clock,
    began: Instant,
    rested: Duration,
    moved: [u64; 2],
}

/// A completed window.
struct Past {
    whole: Duration,
    rested: Duration,
    /// Octets of either direction.
    moved: [u64; 2],
}

impl Load {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            began: clock.now(),
            rested: Duration::ZERO,
            moved: [0; 2],
        }
    }

    /// Waits for events and returns their number.
    fn wait(&mut self, waiting: &mut Waiting, timeout: EpollTimeout) -> usize {
        let before = self.clock.now();
        let events = waiting.wait(timeout);
        self.rested += self.clock.now().since(before);
        events
    }

    /// Ends the window if its time is over. `moved` counts octets since the start.
    fn judge(&mut self, moved: [u64; 2]) -> Option<Past> {
        let now = self.clock.now();
        let whole = now.since(self.began);
        if whole < WINDOW {
            return None;
        }
        let past = Past {
            whole,
            rested: self.rested,
            moved: [0, 1].map(|way| moved[way] - self.moved[way]),
        };
        *self = Self {
            began: now,
            moved,
            rested: Duration::ZERO,
            ..*self
        };
        Some(past)
    }
}

impl Past {
    /// Whether one thread cannot keep up and a second one would have enough to do.
    fn needs_help(&self) -> bool {
        let lesser = self.moved[0].min(self.moved[1]);
        let both = self.moved[0] + self.moved[1];
        self.busy_sixteenths() >= HELP_SIXTEENTHS && lesser * 16 >= both * LESSER_SIXTEENTHS
    }

    fn is_rest(&self) -> bool {
        self.busy_sixteenths() < REST_SIXTEENTHS
    }

    fn busy_sixteenths(&self) -> u64 {
        let busy = self.whole.saturating_sub(self.rested);
        (busy.as_nanos() * 16 / self.whole.as_nanos().max(1)) as u64
    }
}

fn sources<'a>(udp: &'a UdpSockets, raw: Option<&'a RawSockets>) -> Vec<(Source, BorrowedFd<'a>)> {
    let udp = udp.iter().map(|(role, fd)| (Source::Udp(role), fd));
    let raw = raw.into_iter().flat_map(RawSockets::iter);
    udp.chain(raw.map(|(protocol, fd)| (Source::Raw(protocol), fd)))
        .collect()
}

#[cfg(test)]
mod tests;
