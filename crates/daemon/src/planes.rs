//! The packet threads. Each direction is a value that contains one of the engine's planes and its
//! buffers. One thread serves both; while there is enough work, two threads serve one each
//! (`threads`). The packet path has no lock, allocation or async, except that a packet from one
//! tunnel into another is copied into an order.
//!
//! Control gives orders to a direction through a bounded queue, which is drained between bursts. It
//! receives events through one bounded channel. If that channel is full, messages from strangers
//! are counted and dropped; facts about our own SAs are kept.
//!
//! See `docs/design/offloads.md` and `docs/design/control-and-packets.md`.

mod inbound;
mod news;
mod outbound;
mod threads;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use engine::ike::Unreachable;
use engine::plane::{
    InboundChange, InboundPlane, Notice, OutboundChange, OutboundPlane, PlaneReport,
};
use engine::sa::{Direction, Path, Via};
use engine::time::Instant;
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::{mpsc, oneshot};

use self::inbound::Inbound;
use self::outbound::Outbound;
use crate::capture::Tap;
use crate::raw::RawSockets;
use crate::sys::datagram::QueuedError;
use crate::tun::Tun;
use crate::udp::UdpSockets;

/// Orders that may wait for a packet thread. When the queue is full, control waits.
const ORDERS: usize = 4096;
/// Octets of returned packets that may wait for the outbound direction: a burst of full ones, but
/// no more than passes while control waits for a change.
const RETURNED_BYTES: usize = 256 << 10;
/// Messages and notices that may wait for control.
const NEWS: usize = 1024;

/// The engine's clock: nanoseconds since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock(std::time::Instant);

/// What the threads need.
pub struct Parts {
    /// Owns outbound SAs.
    pub outbound: OutboundPlane,
    /// Owns inbound SAs.
    pub inbound: InboundPlane,
    /// The device for clear packets.
    pub tun: Arc<Tun>,
    /// IKE, and ESP in UDP.
    pub udp: Arc<UdpSockets>,
    /// Raw ESP and AH, if an SA may need them.
    pub raw: Option<Arc<RawSockets>>,
    /// The capture, if one is on.
    pub tap: Option<Tap>,
    /// The clock that control uses too.
    pub clock: Clock,
}

/// The parts that both directions share.
struct Devices {
    tun: Arc<Tun>,
    udp: Arc<UdpSockets>,
    raw: Option<Arc<RawSockets>>,
    tap: Option<Tap>,
    clock: Clock,
    news: mpsc::Sender<News>,
    returned: Returned,
}

/// Both threads, running. Dropping it stops them.
pub struct Planes {
    outbound: Orders<OutboundOrder>,
    inbound: Orders<InboundOrder>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads report to control.
#[derive(Debug)]
pub enum News {
    /// An IKE message. On the NAT port it still has its marker.
    Message {
        /// The sender, and which of our addresses and ports received it.
        path: Path,
        /// The UDP payload.
        bytes: Vec<u8>,
    },
    /// An event of a plane.
    Notice(Notice),
    /// ICMP says that one of our datagrams did not arrive.
    Unreachable {
        /// Its destination.
        remote: SocketAddr,
        /// The reason, and who reports it.
        what: Unreachable,
    },
    /// A thread ended because its device is gone.
    Failed {
        /// The thread.
        direction: Direction,
        /// The reason.
        reason: String,
    },
}

/// The counts of one thread.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The plane's counts, including its associations.
    pub plane: PlaneReport,
    /// The thread's own counts.
    pub io: IoReport,
}

/// Counts of input and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct IoReport {
    /// Frames read from or written to the TUN device; a frame may be many packets.
    pub frames: u64,
    /// Datagrams sent or received.
    pub datagrams: u64,
    /// Their octets.
    pub bytes: u64,
    /// System calls that moved packets.
    pub calls: u64,
    /// Datagrams or frames that the kernel refused.
    pub refused: u64,
    /// Packets from a tunnel into another one that found too many waiting.
    pub overflowed: u64,
    /// Datagrams that were empty, or larger than their buffer.
    pub truncated: u64,
    /// Messages and notices lost because control was busy.
    pub unheard: u64,
    /// Path MTUs learnt from the network.
    pub path_mtus: u64,
}

/// The packet thread has ended: it failed, or it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet thread is gone")]
pub struct Gone;

enum InboundOrder {
    Change(InboundChange),
    Report(oneshot::Sender<Report>),
    /// Keys of idle SAs may rest.
    Rest,
    Stop,
}

enum OutboundOrder {
    Change(OutboundChange),
    /// A whole IP packet of control's own, to send as if it came from the TUN device.
    Packet(Vec<u8>),
    /// One that came out of a tunnel, likewise. It counts in [`Returned`].
    Returned(Vec<u8>),
    Report(oneshot::Sender<Report>),
    /// Keys of idle SAs may rest.
    Rest,
    Icmp(IcmpReport),
    Stop,
}

/// Octets of returned packets that wait for the outbound direction.
#[derive(Clone, Default)]
struct Returned(Arc<AtomicUsize>);

/// An ICMP report passed from one direction to the other, with the packet that it quotes.
struct IcmpReport {
    via: Via,
    error: QueuedError,
}

/// The sending half of a thread's queue.
struct Orders<O> {
    queue: SyncSender<O>,
    bell: Arc<Bell>,
}

/// Wakes a thread that waits for its queue. Rings once until it is silenced, however many orders
/// come: each ring is a system call, and may be a change of threads.
struct Bell {
    counter: EventFd,
    is_rung: AtomicBool,
    /// An order was left for which it has not rung.
    is_due: AtomicBool,
}

/// Tells control that a thread panicked: a tunnel must not stop silently.
struct Witness {
    direction: Direction,
    news: mpsc::Sender<News>,
}

/// The receiving half of a thread's queue.
struct OrderQueue<O> {
    queue: Receiver<O>,
    bell: Arc<Bell>,
}

impl Clock {
    /// A clock that starts at zero.
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Time since the start.
    pub fn now(&self) -> Instant {
        Instant(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Planes {
    /// Starts both threads. The receiver delivers their events.
    pub fn start(parts: Parts) -> io::Result<(Self, mpsc::Receiver<News>)> {
        let (news, heard) = mpsc::channel(NEWS);
        let devices = Devices {
            tun: parts.tun,
            udp: parts.udp,
            raw: parts.raw,
            tap: parts.tap,
            clock: parts.clock,
            news: news.clone(),
            returned: Returned::default(),
        };
        let (to_outbound, outbound_queue) = orders()?;
        let (to_inbound, inbound_queue) = orders()?;
        let witness = |direction| Witness {
            direction,
            news: news.clone(),
        };
        // The first thread may own both directions, so control must learn about a failure of
        // either.
        let (of_first, of_second) = (witness(Direction::Inbound), witness(Direction::Outbound));
        let out = Outbound::new(&devices, parts.outbound, outbound_queue);
        let back = Inbound::new(&devices, parts.inbound, inbound_queue, to_outbound.clone());
        let (first, second) = threads::pair(back, out, to_inbound.clone(), parts.clock)?;
        let mut planes = Self {
            outbound: to_outbound,
            inbound: to_inbound,
            threads: Vec::new(),
        };
        planes.spawn("caravan-1", move || {
            let _seen = of_first;
            first.run();
        })?;
        planes.spawn("caravan-2", move || {
            let _seen = of_second;
            second.run();
        })?;
        Ok((planes, heard))
    }

    /// Leaves a change for the inbound plane, which takes it after [`Self::wake`]. Waits if its
    /// queue is full.
    pub fn change_inbound(&self, change: InboundChange) -> Result<(), Gone> {
        self.inbound.leave(InboundOrder::Change(change))
    }

    /// Leaves a change for the outbound plane, which takes it after [`Self::wake`]. Waits if its
    /// queue is full.
    pub fn change_outbound(&self, change: OutboundChange) -> Result<(), Gone> {
        self.outbound.leave(OutboundOrder::Change(change))
    }

    /// Wakes the planes that have changes to take. A tunnel has several, and each wake is a system
    /// call here and one there.
    pub fn wake(&self) -> Result<(), Gone> {
        self.inbound.wake()?;
        self.outbound.wake()
    }

    /// Sends a whole IP packet through the tunnel that takes it. Waits if the queue is full.
    pub fn send_packet(&self, packet: Vec<u8>) -> Result<(), Gone> {
        self.outbound.give(OutboundOrder::Packet(packet))
    }

    /// Requests the counts of one direction. The answer comes between two bursts.
    pub fn report(&self, direction: Direction) -> Result<oneshot::Receiver<Report>, Gone> {
        let (answer, receiver) = oneshot::channel();
        match direction {
            Direction::Inbound => self.inbound.give(InboundOrder::Report(answer))?,
            Direction::Outbound => self.outbound.give(OutboundOrder::Report(answer))?,
        }
        Ok(receiver)
    }

    /// Lets keys rest that no packet has used since the last call.
    pub fn rest(&self) -> Result<(), Gone> {
        self.inbound.give(InboundOrder::Rest)?;
        self.outbound.give(OutboundOrder::Rest)
    }

    /// Stops both threads and waits for them.
    pub fn stop(self) {
        drop(self);
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let builder = std::thread::Builder::new().name(name.to_owned());
        self.threads.push(builder.spawn(body)?);
        Ok(())
    }
}

impl Drop for Planes {
    fn drop(&mut self) {
        // A failed direction needs no order.
        let _ = self.outbound.give(OutboundOrder::Stop);
        let _ = self.inbound.give(InboundOrder::Stop);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "the thread panicked".to_owned();
            let direction = self.direction;
            // Control is gone too, or too busy: nothing else can be done.
            let _ = self.news.try_send(News::Failed { direction, reason });
        }
    }
}

impl<O> Clone for Orders<O> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            bell: self.bell.clone(),
        }
    }
}

impl<O> Orders<O> {
    fn give(&self, order: O) -> Result<(), Gone> {
        let order = match self.queue.try_send(order) {
            Ok(()) => return self.ring(),
            Err(TrySendError::Disconnected(_)) => return Err(Gone),
            Err(TrySendError::Full(order)) => order,
        };
        self.ring()?;
        self.queue.send(order).map_err(|_| Gone)?;
        self.ring()
    }

    /// The same, but the thread is woken later.
    fn leave(&self, order: O) -> Result<(), Gone> {
        match self.queue.try_send(order) {
            Ok(()) => {
                self.bell.is_due.store(true, Ordering::Release);
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => Err(Gone),
            Err(TrySendError::Full(order)) => self.give(order),
        }
    }

    /// Wakes the thread for what was left.
    fn wake(&self) -> Result<(), Gone> {
        match self.bell.is_due.swap(false, Ordering::AcqRel) {
            true => self.ring(),
            false => Ok(()),
        }
    }

    /// Never waits: for messages between packet threads. The order is lost if the queue is full.
    fn offer(&self, order: O) -> bool {
        self.queue.try_send(order).is_ok() && self.ring().is_ok()
    }

    /// Wakes the thread that serves the direction.
    fn ring(&self) -> Result<(), Gone> {
        self.bell.ring()
    }
}

impl Returned {
    /// Whether one more packet of this length may wait, which then counts. One thread asks.
    fn take(&self, length: usize) -> bool {
        let waiting = self.0.load(Ordering::Relaxed);
        let is_room = waiting + length <= RETURNED_BYTES;
        if is_room {
            self.0.fetch_add(length, Ordering::Relaxed);
        }
        is_room
    }

    /// It waits no more.
    fn give_back(&self, length: usize) {
        self.0.fetch_sub(length, Ordering::Relaxed);
    }
}

impl<O> OrderQueue<O> {
    /// The next order, if one waits.
    fn take(&self) -> Option<O> {
        self.queue.try_recv().ok()
    }

    /// Resets the bell after it rang. Orders are taken afterwards.
    fn silence(&self) {
        self.bell.silence();
    }
}

impl Bell {
    fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self {
            counter: EventFd::from_value_and_flags(0, flags)?,
            is_rung: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
        })
    }

    fn ring(&self) -> Result<(), Gone> {
        if self.is_rung.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.counter.write(1).map(drop).map_err(|_| Gone)
    }

    /// Resets the counter first and the flag second: a ring between both changes nothing, and its
    /// order is already in the queue, which is read afterwards.
    fn silence(&self) {
        // An empty counter is reset already.
        let _ = self.counter.read();
        self.is_rung.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.as_fd()
    }
}

fn orders<O>() -> io::Result<(Orders<O>, OrderQueue<O>)> {
    let bell = Arc::new(Bell::new()?);
    let (sender, queue) = sync_channel(ORDERS);
    let orders = Orders {
        queue: sender,
        bell: bell.clone(),
    };
    Ok((orders, OrderQueue { queue, bell }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_rings_once_until_it_is_silenced() {
        let bell = Bell::new().expect("a bell");
        for _ in 0..2 {
            for _ in 0..3 {
                bell.ring().expect("it rings");
            }
            assert_eq!(bell.counter.read(), Ok(1));
            bell.silence();
            assert!(bell.counter.read().is_err(), "it is silent");
        }
    }

    #[test]
    fn an_order_that_was_given_while_the_bell_rang_is_there_afterwards() {
        let (orders, queue) = orders().expect("a queue");
        orders.give(1).expect("room");
        orders.give(2).expect("room");
        queue.silence();
        assert_eq!(
            (queue.take(), queue.take(), queue.take()),
            (Some(1), Some(2), None)
        );
        orders.give(3).expect("room");
        assert_eq!(queue.bell.counter.read(), Ok(1));
    }

    #[test]
    fn for_orders_that_were_left_the_bell_rings_once_and_only_then() {
        let (orders, queue) = orders().expect("a queue");
        orders.wake().expect("nothing to do");
        orders.leave(1).expect("room");
        orders.leave(2).expect("room");
        assert!(queue.bell.counter.read().is_err(), "it is silent");
        orders.wake().expect("it rings");
        assert_eq!(queue.bell.counter.read(), Ok(1));
        queue.silence();
        orders.wake().expect("nothing to do");
        assert!(queue.bell.counter.read().is_err(), "it is silent");
        // More than there is room for: who serves the queue is woken at once.
        let serving = std::thread::spawn(move || {
            let mut taken = Vec::new();
            while taken.len() < ORDERS + 10 {
                taken.extend(queue.take());
            }
            taken.len()
        });
        (3..ORDERS as i32 + 11).for_each(|number| orders.leave(number).expect("room"));
        assert_eq!(serving.join().expect("served"), ORDERS + 10);
    }
}
