//! `caravan link`: a relay between two interfaces of its network namespace that gives them the
//! rate, delay, loss and queue of a link, for machines whose kernel has no netem.
//!
//! Packet sockets receive and send the frames. Super-frames are split, so that each datagram on the
//! wire is charged separately; offloads of both interfaces are turned off if possible.
//! [`engine::link`] decides what happens to them, as in simulations: datagrams are charged by their
//! IP length. Frames without IP (ARP) pass at once and free while the link is up, or are charged
//! too with `--all-frames`. With `--control` a running link takes changes (`control`). A frame's
//! time on the link begins when the kernel had it (`lateness`). Once everything is open, the
//! process keeps no capability.

mod control;
mod lateness;
mod output;
pub mod split;
mod values;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crypto::rand::{Seed, Stream};
use engine::link::recording::{BadRecording, Replay, survey};
use engine::link::{Carrier, Fate, Limit, Link, Shape};
use engine::time::Instant;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use tracing::warn;

use crate::planes::Clock;
use crate::privileges::{self, Speaker};
use crate::sys::device::{feature, turn_off};
use crate::sys::frame::{self, HEADER_BYTES};
use crate::sys::gather::Gather;
use crate::sys::set_option;
use control::{Commander, Order, Orders};
use lateness::{Log, Receiver};
use output::Output;
use split::{ETHERNET_BYTES, is_ip};
use values::{parse_delay, parse_loss, parse_queue, parse_rate};

/// Largest super-frame with its virtio-net header.
const FRAME_BYTES: usize = HEADER_BYTES + ETHERNET_BYTES + 65_536;
/// Frames read before due frames are sent.
const BURST: usize = 64;
/// Frames whose memory is kept for reuse.
const POOL: usize = 4096;
/// Octets in flight in one direction: 200 ms of 10 Gbit/s.
const MOST_UNDER_WAY_BYTES: usize = 256 << 20;
/// Octets that a packet socket may hold while we are not running.
const BUFFER_BYTES: i32 = 16 << 20;

/// Options of `caravan link`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Interface on one side.
    #[arg(long)]
    pub left: String,
    /// Interface on the other side.
    #[arg(long)]
    pub right: String,
    /// Rate of each direction, such as 2mbit.
    #[arg(long, value_parser = parse_rate, group = "carrier")]
    pub rate: Option<u64>,
    /// Rate from right to left, if different.
    #[arg(long, value_parser = parse_rate, conflicts_with = "trace_back")]
    pub rate_back: Option<u64>,
    /// One-way delay, such as 50ms.
    #[arg(long, value_parser = parse_delay, default_value = "0ms")]
    pub delay: Duration,
    /// Probability of loss, 0 to 1.
    #[arg(long, value_parser = parse_loss, default_value_t = 0.0)]
    pub loss: f64,
    /// Queue limit of each direction: datagrams, or bytes such as 64kb.
    #[arg(long, value_parser = parse_queue, default_value = "1000")]
    pub queue: Limit,
    /// Recorded link in Mahimahi's format, in place of a rate.
    #[arg(long, group = "carrier")]
    pub trace: Option<PathBuf>,
    /// The same from right to left, if different.
    #[arg(long)]
    pub trace_back: Option<PathBuf>,
    /// Bytes that the link adds to each datagram.
    #[arg(long, default_value_t = 0)]
    pub overhead: u32,
    /// Time that the medium takes for each datagram besides its bytes, such as 810us. Needs a rate.
    #[arg(long, value_parser = parse_delay, default_value = "0ms", requires = "rate")]
    pub access_time: Duration,
    /// Both directions share one medium: one sends at a time, in the order of arrival. Needs a
    /// rate.
    #[arg(long, requires = "rate")]
    pub half_duplex: bool,
    /// Charge every frame by its length without the Ethernet header. Without this, ARP, EAPOL and
    /// all other frames without IP pass at once and free while the link is up.
    #[arg(long)]
    pub all_frames: bool,
    /// Share of the datagrams that are held back until two full ones can overtake, 0 to 1. Needs a
    /// rate or a trace.
    #[arg(long, value_parser = parse_loss, default_value_t = 0.0, requires = "carrier")]
    pub reorder: f64,
    /// Seed of the random losses.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write behind this file, for each datagram that leaves: when it was due, in seconds since
    /// 1970, how many ns later it leaves, how many ns others had the medium before it, and the
    /// Ethernet addresses that it is from and for. A program that is asleep wakes some 50 us late.
    /// It is a plain file of the user who starts this (mode 0600).
    #[arg(long)]
    pub late: Option<PathBuf>,
    /// User to run as after the setup; default: caravan, if there is one.
    #[arg(long)]
    pub user: Option<String>,
    /// Read changes from standard input, one per line, such as "rate=1mbit delay=80ms" or
    /// "up=false", and answer each on standard output.
    #[arg(long)]
    pub control: bool,
}

/// What one direction did.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Passed {
    /// Datagrams offered to the link.
    pub offered: u64,
    /// Datagrams that have left to the other interface.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Datagrams that are still on the link.
    pub under_way: usize,
    /// Carried and lost.
    pub lost: u64,
    /// Refused by a full queue.
    pub overflowed: u64,
    /// Came while the link was down, frames without IP too.
    pub down: u64,
    /// Most datagrams that waited at once.
    pub longest_queue: usize,
    /// Datagrams dropped because too many bytes were in flight for the memory limit.
    pub beyond_memory: u64,
    /// Frames without IP that were not charged, and came while the link was up.
    pub free_frames: u64,
    /// Frames that could not be split.
    pub malformed: u64,
    /// Frames that the other interface refused.
    pub refused: u64,
}

/// Printed at the end.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Summary {
    /// Left to right.
    pub forth: Passed,
    /// Right to left.
    pub back: Passed,
}

/// Relays until SIGTERM or SIGINT, then prints a [`Summary`] as JSON. Prints "ready" on standard
/// error once frames pass.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut stopping = SigSet::empty();
    stopping.add(Signal::SIGTERM);
    stopping.add(Signal::SIGINT);
    stopping.thread_block()?;
    if args.left == args.right {
        let text = format!(
            "--left and --right are both {}: a link has two ends",
            args.left
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
    }
    let speaker = Speaker::choose(args.user.as_deref())?;
    let (relays, commanders) = relays(args)?;
    // Everything is open, and no thread has begun.
    privileges::confine_speaker(&speaker, None)?;
    if let Some(text) = &speaker.warning {
        warn!("{text}");
    }
    Ok(carry(args.control, relays, commanders, &stopping)?)
}

/// Both directions with all that they need open, and who gives them orders.
fn relays(args: &Args) -> io::Result<([Relay; 2], [Commander; 2])> {
    let forth = shape(args, args.rate, ("--trace", args.trace.as_deref()))?;
    let (option_back, trace_back) = match args.trace_back.as_deref() {
        None => ("--trace", args.trace.as_deref()),
        own => ("--trace-back", own),
    };
    let rate_back = args.rate_back.or(args.rate);
    let back = shape(args, rate_back, (option_back, trace_back))?;
    let left = Arc::new(open(&args.left)?);
    let right = Arc::new(open(&args.right)?);
    let ((forward, orders), (backward, orders_back)) = (control::orders()?, control::orders()?);
    let mut both = [
        Relay::new(("--trace", forth), &left, &right, orders, (args.seed, 0)),
        Relay::new(
            (option_back, back),
            &right,
            &left,
            orders_back,
            (args.seed, 1),
        ),
    ];
    let log = args.late.as_deref().map(Log::open).transpose()?;
    let free = || Medium(Arc::new(Mutex::new(Instant(0))));
    let medium = args.half_duplex.then(free);
    for relay in &mut both {
        relay.line.medium.clone_from(&medium);
        relay.line.charges_all = args.all_frames;
        relay.log.clone_from(&log);
    }
    Ok((both, [forward, backward]))
}

/// Relays until a signal comes, and prints the counts.
fn carry(
    has_control: bool,
    relays: [Relay; 2],
    commanders: [Commander; 2],
    stopping: &SigSet,
) -> io::Result<()> {
    // Of both, so that they mean the same time by what they share.
    let clock = Clock::start();
    let threads = relays.map(|relay| {
        std::thread::spawn(move || {
            let ended = relay.run(clock);
            if ended.is_err() {
                // A link with one direction is useless, so the other one ends too.
                kill(Pid::this(), Signal::SIGTERM)?;
            }
            ended
        })
    });
    let output = Output::new(io::stdout().as_fd().try_clone_to_owned()?);
    if has_control {
        listen(commanders.clone(), output.clone());
    }
    writeln!(io::stderr(), "ready")?;
    stopping.wait()?;
    for relay in &commanders {
        relay.give(Order::End);
    }
    let [forth, back] = threads.map(|thread| {
        let ended = thread.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("a relay panicked")))
    });
    let summary = Summary {
        forth: forth?,
        back: back?,
    };
    let text = serde_json::to_string(&summary).map_err(io::Error::other)?;
    output.finish(&text)
}

/// Follows standard input in a thread that ends with the process.
fn listen(relays: [Commander; 2], output: Output) {
    std::thread::spawn(move || {
        let lines = BufReader::new(io::stdin().lock());
        if let Err(fault) = control::follow(lines, |line| output.answer(line), &relays) {
            // The link stays as it is: nobody is left to tell but the log.
            let _ = writeln!(io::stderr(), "no more changes: {fault}");
        }
    });
}

fn shape(
    args: &Args,
    rate: Option<u64>,
    (option, trace): (&str, Option<&Path>),
) -> io::Result<Shape<Recording>> {
    let carrier = match (rate, trace) {
        (Some(bits), _) => Carrier::Rate(bits),
        (None, Some(path)) => Carrier::Recording(replay(path).map_err(|fault| {
            let path = path.display();
            let place = fault
                .line()
                .map_or(String::new(), |line| format!(":{line}"));
            io::Error::other(format!("{option} {path}{place}: {fault}"))
        })?),
        (None, None) => Carrier::Unlimited,
    };
    let shape = Shape {
        carrier,
        loss: args.loss,
        queue: args.queue,
        overhead_bytes: args.overhead,
        access_time: args.access_time,
        reorder: args.reorder,
        ..Shape::at_once(args.delay)
    };
    let refused = |fault| io::Error::new(io::ErrorKind::InvalidInput, fault);
    shape.check().map_err(refused)?;
    Ok(shape)
}

/// The recording that a direction replays.
type Recording = Box<Replay<File>>;

/// Opens a recording: checks it once, then reads it as time passes.
fn replay(path: &Path) -> Result<Recording, BadRecording> {
    let file = File::open(path).map_err(|fault| BadRecording::Unreadable(fault.to_string()))?;
    let survey = survey(&file)?;
    Replay::new(file, survey).map(Box::new)
}

fn open(interface: &str) -> io::Result<OwnedFd> {
    for each in [feature::TSO, feature::GSO, feature::GRO, feature::TX_CSUM] {
        // If it cannot be turned off, frames are split and summed here.
        let _ = turn_off(interface, each);
    }
    let fd = frame::open(interface).map_err(|fault| unopened(interface, &fault))?;
    for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        // Without CAP_NET_ADMIN the system's maximum applies.
        let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, name, BUFFER_BYTES);
    }
    Ok(fd)
}

/// What to do about an interface that cannot be opened.
pub(crate) fn unopened(interface: &str, fault: &io::Error) -> io::Error {
    let text = match fault.raw_os_error() {
        Some(libc::ENODEV) => {
            format!("there is no interface {interface:?} here: `ip link` lists those that are")
        }
        Some(libc::EPERM) => format!("interface {interface:?}: {fault}: this needs CAP_NET_RAW"),
        _ => format!("interface {interface:?}: {fault}"),
    };
    io::Error::new(fault.kind(), text)
}

/// One direction, in a thread of its own.
struct Relay {
    from: Arc<OwnedFd>,
    to: Arc<OwnedFd>,
    orders: Orders,
    line: Line,
    /// Where it says how late frames leave; none: nowhere.
    log: Option<Log>,
    /// The option that names its recording.
    option: &'static str,
}

/// What two directions share: until when it is taken.
#[derive(Clone)]
struct Medium(Arc<Mutex<Instant>>);

/// A frame in flight.
#[derive(Debug, PartialEq, Eq)]
struct UnderWay {
    due: Instant,
    /// How long others had the link before.
    waited: Duration,
    octets: Vec<u8>,
}

/// When a frame was due, and how long others had the link before.
type Turn = (Instant, Duration);

/// The link and the frames in flight on it.
struct Line {
    link: Link<File, Stream>,
    /// None: this direction has its own.
    medium: Option<Medium>,
    under_way: VecDeque<UnderWay>,
    under_way_bytes: usize,
    most_under_way_bytes: usize,
    charges_all: bool,
    pool: Vec<Vec<u8>>,
    free: VecDeque<Vec<u8>>,
    passed: Passed,
}

impl Relay {
    fn new(
        (option, shape): (&'static str, Shape<Recording>),
        from: &Arc<OwnedFd>,
        to: &Arc<OwnedFd>,
        orders: Orders,
        (seed, direction): (u64, u64),
    ) -> Self {
        let mut octets = [0; 32];
        octets[..8].copy_from_slice(&seed.to_be_bytes());
        Self {
            from: from.clone(),
            to: to.clone(),
            orders,
            line: Line::new(
                Link::new(shape, Seed::new(octets).stream("link", direction)),
                MOST_UNDER_WAY_BYTES,
            ),
            log: None,
            option,
        }
    }

    fn run(mut self, clock: Clock) -> io::Result<Passed> {
        // The default slack of 50 us would be the largest error of every delay.
        nix::sys::prctl::set_timerslack(1)?;
        let mut received = vec![0; FRAME_BYTES];
        let mut gather = Gather::new();
        let from = self.from.clone();
        let mut receiver = Receiver::new(from.as_fd())?;
        loop {
            for _ in 0..BURST {
                let next = receiver.receive(from.as_fd(), &mut received, clock)?;
                let Some((len, came)) = next else { break };
                let taken = self.line.take(&mut received[..len], came);
                let broken = |fault| format!("{}: {fault}", self.option);
                taken.map_err(|fault| io::Error::other(broken(fault)))?;
            }
            self.send_due(&mut gather, clock)?;
            let timeout = self.line.due_at().map(|at| {
                let span = at.since(clock.now());
                TimeSpec::from_duration(span)
            });
            let mut polled = [
                PollFd::new(from.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.orders.bell(), PollFlags::POLLIN),
            ];
            // An interrupted wait counts as a wait that ended.
            let _ = ppoll(&mut polled, timeout, None);
            if polled[1].any().unwrap_or(false) && self.obey()? {
                return Ok(self.line.passed());
            }
        }
    }

    /// Sends what is due by now. That it is late is written first, so that whoever has the frame
    /// finds it said.
    fn send_due(&mut self, gather: &mut Gather, clock: Clock) -> io::Result<()> {
        loop {
            let now = clock.now();
            let Some((turn, frame)) = self.line.next_due(now) else {
                return Ok(());
            };
            if let (Some(log), Some((due, waited))) = (&self.log, turn) {
                log.write(&frame, now.since(due), waited)?;
            }
            let mut writing = gather.begin();
            writing.push(&[0; HEADER_BYTES]);
            writing.push(&frame);
            let has_left = writing.write(self.to.as_fd()).is_ok();
            self.line.note_sent(turn.is_some(), &frame, has_left);
            self.line.recycle(frame);
        }
    }

    /// Does what it is told; whether that is to end.
    fn obey(&mut self) -> io::Result<bool> {
        while let Some(order) = self.orders.next() {
            match order {
                Order::Change(change) => {
                    let changed = self.line.link.change(change);
                    changed.map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
                }
                Order::End => return Ok(true),
            }
        }
        Ok(false)
    }
}

impl Line {
    fn new(link: Link<File, Stream>, most_under_way_bytes: usize) -> Self {
        Self {
            link,
            medium: None,
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            most_under_way_bytes,
            charges_all: false,
            pool: Vec::new(),
            free: VecDeque::new(),
            passed: Passed::default(),
        }
    }

    fn take(&mut self, received: &mut [u8], now: Instant) -> Result<(), BadRecording> {
        let mut broken = None;
        let done = split::split(received, |frame| {
            if !self.charges_all && !is_ip(frame) {
                if self.link.is_down() {
                    self.passed.down += 1;
                    return;
                }
                self.passed.free_frames += 1;
                self.free.push_back(frame.to_vec());
                return;
            }
            if self.under_way_bytes + frame.len() > self.most_under_way_bytes {
                self.passed.beyond_memory += 1;
                return;
            }
            let bytes = frame.len().saturating_sub(ETHERNET_BYTES) as u32;
            match self.offer(bytes, now) {
                Ok((Fate::Arrives(due), waited)) => {
                    let mut octets = self.pool.pop().unwrap_or_default();
                    octets.clear();
                    octets.extend_from_slice(frame);
                    self.under_way_bytes += octets.len();
                    // One that is held back arrives after some that come later.
                    let place = self.under_way.partition_point(|other| other.due <= due);
                    let kept = UnderWay {
                        due,
                        waited,
                        octets,
                    };
                    self.under_way.insert(place, kept);
                }
                Ok((Fate::Lost | Fate::Overflows | Fate::TooBig | Fate::Down, _)) => {}
                Err(why) => broken = Some(why),
            }
        });
        if done.is_err() {
            self.passed.malformed += 1;
        }
        broken.map_or(Ok(()), Err)
    }

    /// Offers a datagram when the medium is free. Returns how long it waits for that, too.
    fn offer(&mut self, bytes: u32, now: Instant) -> Result<(Fate, Duration), BadRecording> {
        let Some(Medium(medium)) = &self.medium else {
            let waited = self.link.free_at().since(now);
            return Ok((self.link.offer(bytes, now)?, waited));
        };
        let mut taken = medium.lock().unwrap_or_else(PoisonError::into_inner);
        self.link.occupy(*taken);
        let waited = self.link.free_at().since(now);
        let fate = self.link.offer(bytes, now);
        *taken = taken.max(self.link.free_at());
        Ok((fate?, waited))
    }

    /// The next frame to send; one that is not charged is due at no time.
    fn next_due(&mut self, now: Instant) -> Option<(Option<Turn>, Vec<u8>)> {
        if let Some(frame) = self.free.pop_front() {
            return Some((None, frame));
        }
        let first = self.under_way.pop_front_if(|first| first.due <= now)?;
        self.under_way_bytes -= first.octets.len();
        Some((Some((first.due, first.waited)), first.octets))
    }

    /// Counts a frame once the other interface has it, or has refused it.
    fn note_sent(&mut self, is_charged: bool, frame: &[u8], has_left: bool) {
        if !has_left {
            self.passed.refused += 1;
        } else if is_charged {
            self.passed.delivered += 1;
            self.passed.delivered_bytes += frame.len().saturating_sub(ETHERNET_BYTES) as u64;
        }
    }

    fn passed(&self) -> Passed {
        let link = self.link.counters();
        Passed {
            offered: link.offered,
            under_way: self.under_way.len(),
            lost: link.lost,
            overflowed: link.overflowed,
            down: self.passed.down + link.down,
            longest_queue: link.longest_queue,
            ..self.passed
        }
    }

    fn due_at(&self) -> Option<Instant> {
        self.under_way.front().map(|first| first.due)
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        if self.pool.len() < POOL {
            self.pool.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::link::Change;

    use super::*;

    #[test]
    fn datagrams_overtake_on_a_rate_and_on_a_trace() {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            args: Args,
        }
        let read = |words: &str| {
            let all = format!("link --left a --right b {words}");
            let read = <Program as clap::Parser>::try_parse_from(all.split_whitespace());
            read.map(|program| program.args.reorder)
        };
        let of = |words: &str| read(words).map_err(|fault| fault.kind());
        assert_eq!(of("--reorder 0.1 --rate 1mbit"), Ok(0.1));
        assert_eq!(of("--reorder 0.1 --trace road.trace"), Ok(0.1));
        let missing = clap::error::ErrorKind::MissingRequiredArgument;
        assert_eq!(of("--reorder 0.1"), Err(missing));
        let both = clap::error::ErrorKind::ArgumentConflict;
        assert_eq!(of("--trace road.trace --rate 1mbit"), Err(both));
        assert_eq!(of("--rate-back 1mbit --trace road.trace"), Ok(0.0));
    }

    /// An Ethernet frame with this many bytes of IP, as from a packet socket.
    fn received(ip_bytes: usize) -> Vec<u8> {
        let mut received = vec![0; HEADER_BYTES + ETHERNET_BYTES + ip_bytes];
        received[HEADER_BYTES + 12..HEADER_BYTES + 14].copy_from_slice(&[0x08, 0x00]);
        received
    }

    fn line(shape: Shape<Recording>, most_under_way_bytes: usize) -> Line {
        let chance = Seed::new([1; 32]).stream("link", 0);
        Line::new(Link::new(shape, chance), most_under_way_bytes)
    }

    #[test]
    fn what_is_under_way_has_a_bound_and_arrives_in_time() {
        let mut line = line(Shape::at_once(Duration::from_millis(50)), 2 * 1014);
        let mut received = received(1000);
        for _ in 0..3 {
            line.take(&mut received, Instant(0)).expect("no recording");
        }
        let passed = line.passed();
        assert_eq!((passed.offered, passed.beyond_memory), (2, 1));
        assert_eq!(line.next_due(Instant(49_999_999)), None);
        let at = Instant(50_000_000);
        let turn = Some((at, Duration::ZERO));
        let due = |line: &mut Line| line.next_due(at).map(|(due, frame)| (due, frame.len()));
        // Whoever asks later than that hears when it was.
        assert_eq!(
            line.next_due(Instant(50_000_007)).map(|(turn, _)| turn),
            Some(turn)
        );
        assert_eq!([due(&mut line), due(&mut line)], [Some((turn, 1014)), None]);
        line.take(&mut received, Instant(50_000_000))
            .expect("no recording");
        assert_eq!((line.passed().offered, line.passed().under_way), (3, 1));
    }

    #[test]
    fn a_datagram_is_delivered_once_it_has_left() {
        let mut line = line(Shape::at_once(Duration::from_secs(5)), MOST_UNDER_WAY_BYTES);
        for _ in 0..4 {
            line.take(&mut received(1000), Instant(0))
                .expect("no recording");
        }
        let counted = |line: &Line| {
            let it = line.passed();
            let delivered = (it.delivered, it.delivered_bytes);
            (it.offered, delivered, it.refused, it.under_way)
        };
        assert_eq!(counted(&line), (4, (0, 0), 0, 4));
        for has_left in [true, true, false] {
            let (turn, frame) = line.next_due(Instant(5_000_000_000)).expect("due");
            line.note_sent(turn.is_some(), &frame, has_left);
        }
        assert_eq!(counted(&line), (4, (2, 2000), 1, 1));
        line.note_sent(false, &[0; 60], true);
        assert_eq!(counted(&line), (4, (2, 2000), 1, 1), "one without IP");
    }

    #[test]
    fn frames_without_ip_stay_in_order_and_end_at_a_link_that_is_down() {
        let mut line = line(
            Shape::plain(8_000_000, Duration::ZERO),
            MOST_UNDER_WAY_BYTES,
        );
        let take = |line: &mut Line, number: u8| {
            let mut frame = received(100);
            frame[HEADER_BYTES + 12..HEADER_BYTES + 14].copy_from_slice(&[0x88, 0x8e]);
            frame[HEADER_BYTES + 14] = number;
            line.take(&mut frame, Instant(0)).expect("no recording");
        };
        (0..20).for_each(|number| take(&mut line, number));
        let came: Vec<u8> = std::iter::from_fn(|| line.next_due(Instant(0)))
            .map(|(_, frame)| frame[14])
            .collect();
        assert_eq!(came, (0..20).collect::<Vec<u8>>());
        let up = |line: &mut Line, is_up| line.link.change(Change::Up(is_up)).expect("a change");
        up(&mut line, false);
        take(&mut line, 20);
        line.take(&mut received(100), Instant(0))
            .expect("no recording");
        assert_eq!(line.next_due(Instant(1_000_000_000)), None);
        let passed = line.passed();
        assert_eq!((passed.free_frames, passed.down), (20, 2));
        up(&mut line, true);
        take(&mut line, 21);
        assert!(line.next_due(Instant(0)).is_some());
    }

    #[test]
    fn frames_without_ip_are_charged_where_all_are() {
        let mut frame = received(100);
        frame[HEADER_BYTES + 12..HEADER_BYTES + 14].copy_from_slice(&[0x88, 0x8e]);
        // An octet takes 1 us.
        let mut line = line(
            Shape::plain(8_000_000, Duration::ZERO),
            MOST_UNDER_WAY_BYTES,
        );
        line.take(&mut frame, Instant(0)).expect("no recording");
        let passed = line.passed();
        assert_eq!((passed.free_frames, passed.offered), (1, 0));
        assert!(line.next_due(Instant(0)).is_some());
        line.charges_all = true;
        line.take(&mut frame, Instant(0)).expect("no recording");
        let passed = line.passed();
        assert_eq!((passed.free_frames, passed.offered), (1, 1));
        assert!(line.next_due(Instant(99_999)).is_none());
        assert!(line.next_due(Instant(100_000)).is_some());
    }

    #[test]
    fn a_frame_says_how_long_others_had_the_medium() {
        // An octet takes 1 us.
        let shape = || Shape::plain(8_000_000, Duration::ZERO);
        let medium = Medium(Arc::new(Mutex::new(Instant(0))));
        let mut both = [(); 2].map(|()| line(shape(), MOST_UNDER_WAY_BYTES));
        for line in &mut both {
            line.medium = Some(medium.clone());
        }
        let [forth, back] = &mut both;
        forth
            .take(&mut received(100), Instant(0))
            .expect("no recording");
        back.take(&mut received(100), Instant(40_000))
            .expect("no recording");
        let turn = |line: &mut Line| line.next_due(Instant(1_000_000)).and_then(|(turn, _)| turn);
        assert_eq!(turn(forth), Some((Instant(100_000), Duration::ZERO)));
        let waited = Duration::from_micros(60);
        assert_eq!(turn(back), Some((Instant(200_000), waited)));
    }

    #[test]
    fn a_datagram_that_is_held_back_is_overtaken_and_delays_nobody() {
        let mut shape = Shape::plain(2_400_000, Duration::ZERO);
        shape.reorder = 1.0;
        let mut held = line(shape, MOST_UNDER_WAY_BYTES);
        held.take(&mut received(100), Instant(0))
            .expect("no recording");
        let prompt = Shape::at_once(Duration::ZERO);
        held.link = Link::new(prompt, Seed::new([1; 32]).stream("link", 0));
        held.take(&mut received(200), Instant(1))
            .expect("no recording");
        let due = |line: &mut Line, at| line.next_due(Instant(at)).map(|(_, frame)| frame.len());
        assert_eq!(due(&mut held, 1), Some(214));
        // sent after 333,333 ns, and held back for 10 ms
        assert_eq!(due(&mut held, 10_333_332), None);
        assert_eq!(due(&mut held, 10_333_333), Some(114));
    }
}
