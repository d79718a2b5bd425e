//! The loop between the TAP device and the air.

use std::io;
use std::os::fd::AsFd;

use engine::counters::DropReason;
use engine::link::wireless::{AirOutbox, LinkCipher, LinkEvent, Received};
use engine::time::Instant;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use tracing::{debug, info};
use wire::ieee80211::{Header, control};

use super::air::{Air, BEFORE, Heard};
use super::capture::Capture;
use super::key_log::KeyLog;
use super::lines::Lines;
use super::machine::Machine;
use super::orders::{Order, Orders, shown};
use super::report::{Counts, MOST_STATIONS, Report, StationReport, by_reason};
use super::stopwatch::{Stopwatch, used_ns};
use super::tap::Tap;
use crate::config::wireless::WirelessConfig;
use crate::console::Answers;
use crate::planes::Clock;

/// Frames of each side that are read before the other one has its turn.
const BURST: usize = 64;
/// Octets of a buffer: the longest frame, and what comes before it.
const BUFFER_BYTES: usize = 4_096;

/// What is recorded.
pub(super) struct Records {
    pub(super) capture: Option<Capture>,
    pub(super) key_log: Option<KeyLog>,
}

/// One end of a wireless link.
pub(super) struct Shim {
    config: WirelessConfig,
    machine: Machine,
    tap: Tap,
    air: Air,
    records: Records,
    clock: Clock,
    counts: Counts,
    stopwatch: Stopwatch,
    is_usable: bool,
    is_secured: bool,
    times_secured: u64,
    lines: Lines,
    answers: Answers,
    /// A frame from the host or from the air.
    frame: Vec<u8>,
    /// A frame for the air.
    sending: Vec<u8>,
}

impl Shim {
    pub(super) fn new(
        config: WirelessConfig,
        machine: Machine,
        (tap, air): (Tap, Air),
        records: Records,
        clock: Clock,
    ) -> Self {
        Self {
            config,
            machine,
            tap,
            air,
            records,
            clock,
            counts: Counts::default(),
            stopwatch: Stopwatch::new(),
            is_usable: false,
            is_secured: false,
            times_secured: 0,
            lines: Lines::default(),
            answers: Answers::default(),
            frame: vec![0; BUFFER_BYTES],
            sending: vec![0; BUFFER_BYTES],
        }
    }

    /// Carries frames until a signal comes.
    pub(super) fn run(&mut self, signals: &SignalFd, has_control: bool) -> io::Result<()> {
        if matches!(self.machine, Machine::AccessPoint(..)) {
            self.set_usable(true)?;
        }
        let mut orders = Orders::new(has_control);
        let (stdin, stdout) = (io::stdin(), io::stdout());
        loop {
            let timeout = self.machine.deadline().map(|at| {
                let span = at.since(self.clock.now());
                TimeSpec::from_duration(span)
            });
            let mut polled = vec![
                PollFd::new(self.air.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.tap.as_fd(), PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            ];
            // Orders wait until somebody has read the answers to those before.
            let has_answers = !self.answers.are_taken();
            if has_answers {
                polled.push(PollFd::new(stdout.as_fd(), PollFlags::POLLOUT));
            } else if orders.is_open {
                polled.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
            }
            // An interrupted wait counts as a wait that ended.
            let _ = ppoll(&mut polled, timeout, None);
            let is_ready = |at: usize| polled.get(at).is_some_and(|it| it.any().unwrap_or(false));
            let ready = [0, 1, 2, 3].map(is_ready);
            if ready[2] {
                return Ok(());
            }
            if ready[3] {
                if !has_answers {
                    for order in orders.read(&stdin) {
                        self.obey(order)?;
                    }
                }
                // Whose answers nobody can read may still give orders.
                let _ = self.answers.give(stdout.as_fd());
            }
            self.fire()?;
            if ready[0] {
                self.take_air()?;
            }
            if ready[1] {
                self.take_host()?;
            }
            if let Some(capture) = &mut self.records.capture {
                capture.flush();
            }
        }
    }

    /// Leaves the other end.
    pub(super) fn close(&mut self) {
        let mut out = self.outbox();
        self.machine.close(self.clock.now(), &mut out);
        // The report is what counts at the end.
        let _ = self.apply(out);
        if let Some(capture) = &mut self.records.capture {
            capture.flush();
        }
    }

    fn fire(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        if self.machine.deadline().is_none_or(|at| at > now) {
            return Ok(());
        }
        let began = used_ns();
        let mut out = self.outbox();
        self.machine.fire(now, &mut out);
        self.stopwatch.agree_ns += self.stopwatch.since(began);
        self.apply(out)
    }

    /// Frames of the host.
    fn take_host(&mut self) -> io::Result<()> {
        for _ in 0..BURST {
            let Some(len) = self.tap.read(&mut self.frame)? else {
                return Ok(());
            };
            if len == self.frame.len() {
                // The device gives no more than there is room for.
                self.counts.too_long += 1;
                continue;
            }
            self.machine.note_host(&self.frame[..len], self.clock.now());
            // Dropped and counted otherwise.
            if self.protect(0..len).is_ok() {
                self.counts.sent.count(len);
            }
        }
        Ok(())
    }

    /// Protects a frame in `self.frame` and sends it.
    fn protect(&mut self, frame: std::ops::Range<usize>) -> Result<(), DropReason> {
        let began = used_ns();
        let protected = self
            .machine
            .protect(&self.frame[frame], &mut self.sending[BEFORE..]);
        self.stopwatch.protect_ns += self.stopwatch.since(began);
        let end = BEFORE + protected?;
        let flags = u16::from_le_bytes([self.sending[BEFORE], self.sending[BEFORE + 1]]);
        self.counts.clear_sent += u64::from(flags & control::PROTECTED == 0);
        self.send(end);
        Ok(())
    }

    /// Sends the frame of 802.11 that ends here in `self.sending`.
    fn send(&mut self, end: usize) {
        let frame = &mut self.sending[..end];
        if let Some(capture) = &mut self.records.capture {
            capture.frame(&frame[BEFORE..]);
        }
        match self.air.send(frame) {
            Ok(()) => self.counts.air_sent.count(end - BEFORE),
            Err(_) => self.counts.refused += 1,
        }
    }

    fn take_air(&mut self) -> io::Result<()> {
        for _ in 0..BURST {
            match self.air.receive(&mut self.frame)? {
                Heard::Frame(end) => self.take(end)?,
                Heard::Other => {}
                Heard::TooLong => self.counts.too_long += 1,
                Heard::Nothing => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes a frame of 802.11 that ends here in `self.frame`.
    fn take(&mut self, end: usize) -> io::Result<()> {
        let mut out = self.outbox();
        let air = &mut self.frame[BEFORE..end];
        if let Some(capture) = &mut self.records.capture {
            capture.frame(air);
        }
        self.counts.air_received.count(air.len());
        let is_management = Header::parse(air).is_ok_and(|(it, _)| it.is_management());
        let now = self.clock.now();
        let began = used_ns();
        let received = self.machine.receive(air, now, &mut out);
        let spent = self.stopwatch.since(began);
        match &received {
            Received::Taken => self.stopwatch.agree_ns += spent,
            _ if is_management => self.stopwatch.agree_ns += spent,
            _ => self.stopwatch.unprotect_ns += spent,
        }
        match received {
            Received::Frame {
                frame,
                is_protected,
            } => {
                self.counts.clear_received += u64::from(!is_protected);
                self.pass_on(BEFORE + frame.start..BEFORE + frame.end, now);
            }
            Received::Taken => self.counts.agreed_received += 1,
            Received::Dropped(_) => {}
        }
        self.apply(out)
    }

    /// An Ethernet frame in `self.frame` goes its ways.
    fn pass_on(&mut self, frame: std::ops::Range<usize>, now: Instant) {
        let way = self.machine.way_of(&self.frame[frame.clone()], now);
        if way.up {
            match self.tap.write(&self.frame[frame.clone()]) {
                Ok(()) => self.counts.received.count(frame.len()),
                Err(_) => self.counts.refused += 1,
            }
        }
        // Dropped and counted otherwise.
        if way.back && self.protect(frame.clone()).is_ok() {
            self.counts.relayed.count(frame.len());
        }
    }

    fn outbox(&self) -> AirOutbox {
        AirOutbox {
            wants_masters: self.records.key_log.is_some(),
            ..AirOutbox::default()
        }
    }

    /// Sends what a machine has put out, and follows what has happened.
    fn apply(&mut self, out: AirOutbox) -> io::Result<()> {
        for frame in out.frames {
            let end = BEFORE + frame.len();
            self.sending[BEFORE..end].copy_from_slice(&frame);
            self.send(end);
        }
        if let Some(log) = &mut self.records.key_log {
            out.masters.iter().for_each(|it| log.master(it));
        }
        for event in out.events {
            self.note(event)?;
        }
        Ok(())
    }

    fn note(&mut self, event: LinkEvent) -> io::Result<()> {
        let is_station = matches!(self.machine, Machine::Station(_));
        match event {
            LinkEvent::Joined(peer) => {
                match is_station {
                    true => self.say(&format!("joined: {}", shown(peer))),
                    false => debug!("joined: {}", shown(peer)),
                }
                // EAP needs the link before there are keys.
                if is_station && self.config.network.security.wants_session() {
                    self.set_usable(true)?;
                }
            }
            LinkEvent::Secured(peer) => {
                let word = match self.config.network.security.has_key_packets() {
                    true => "keys",
                    false => "link",
                };
                self.say(&format!("{word}: {}", shown(peer)));
                self.times_secured += 1;
                if is_station {
                    self.is_secured = true;
                    self.set_usable(true)?;
                }
            }
            LinkEvent::Left(peer, why) => {
                self.say(&format!("left: {}: {why}", shown(peer)));
                if is_station {
                    self.is_secured = false;
                    self.set_usable(false)?;
                }
            }
            LinkEvent::NotFound => {
                let name = String::from_utf8_lossy(&self.config.network.ssid).into_owned();
                self.say(&format!("no access point with the name {name:?} answers"));
            }
            LinkEvent::NotSuitable(peer, announced) => {
                let (peer, ours) = (shown(peer), self.config.security);
                let cipher = self.config.network.security.cipher();
                let with = cipher.map_or(String::new(), |it| format!(" with {}", it.name()));
                self.say(&format!(
                    "access point {peer} does not suit: its security is {announced}, \
                     not {ours}{with}"
                ));
            }
        }
        Ok(())
    }

    /// Strangers can make events: only so many lines are printed.
    fn say(&mut self, line: &str) {
        match self.lines.take(self.clock.now()) {
            Some(0) => info!("{line}"),
            Some(left_out) => info!("{line} (and {left_out} lines that are left out)"),
            None => {}
        }
    }

    fn set_usable(&mut self, is_usable: bool) -> io::Result<()> {
        self.is_usable = is_usable;
        self.tap.set_carrier(is_usable)
    }

    fn obey(&mut self, order: Result<Order, String>) -> io::Result<()> {
        let (now, mut out) = (self.clock.now(), self.outbox());
        let began = used_ns();
        let done = order.and_then(|order| match (order, &mut self.machine) {
            (Order::Status, _) => self.report().map_err(|fault| fault.to_string()),
            (Order::Session(station, key), machine) => {
                let taken = machine.session(station, &key, now, &mut out);
                taken.map(|()| "ok".to_owned()).map_err(|it| it.to_string())
            }
            (Order::Search, Machine::Station(it)) => {
                it.search(now, &mut out);
                Ok("ok".to_owned())
            }
            (Order::End(station), Machine::AccessPoint(_, it)) => {
                match it.end(station, now, &mut out) {
                    true => Ok("ok".to_owned()),
                    false => Err("the station has not joined".to_owned()),
                }
            }
            (Order::Search, _) => Err("an access point does not search".to_owned()),
            (Order::End(_), _) => Err("a station ends nobody's link: search".to_owned()),
        });
        self.stopwatch.agree_ns += self.stopwatch.since(began);
        self.apply(out)?;
        let answer = done.unwrap_or_else(|why| format!("refused: {why}"));
        self.answers.add(&answer);
        Ok(())
    }

    /// Prints the report, behind answers that nobody has read.
    pub(super) fn say_report(&mut self) -> io::Result<()> {
        let report = self.report()?;
        self.answers.add(&report);
        self.answers.finish(io::stdout().as_fd())
    }

    /// JSON in one line.
    fn report(&self) -> io::Result<String> {
        let security = &self.config.network.security;
        let drops = self.machine.drops();
        let (access_point, stations) = match &self.machine {
            Machine::Station(it) => (it.access_point().map(shown), Vec::new()),
            Machine::AccessPoint(_, it) => {
                let all = it.stations().into_iter();
                let each = all.filter_map(|one| it.station(one).map(|found| (one, found)));
                (None, each.collect())
            }
        };
        let all = stations.len();
        let (stations, joining): (Vec<_>, Vec<_>) =
            stations.into_iter().partition(|(_, (secured, _))| *secured);
        debug_assert_eq!(stations.len() + joining.len(), all);
        let more_stations = stations.len().saturating_sub(MOST_STATIONS);
        let listed = stations.into_iter().take(MOST_STATIONS);
        let stations = listed.map(|(address, (secured, it))| {
            let report = StationReport {
                secured,
                received_frames: it.received_frames,
                received_octets: it.received_octets,
                sent_frames: it.sent_frames,
                sent_octets: it.sent_octets,
                dropped: it.dropped,
            };
            (shown(address), report)
        });
        let cpu = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
        let report = Report {
            role: self.config.role,
            ssid: String::from_utf8_lossy(&self.config.network.ssid).into_owned(),
            security: self.config.security,
            cipher: security.cipher().map(LinkCipher::name),
            legacy: security.cipher().is_some_and(LinkCipher::is_legacy),
            address: shown(self.air.own),
            usable: self.is_usable,
            secured: self.is_secured,
            times_secured: self.times_secured,
            access_point,
            stations: stations.collect(),
            joining: joining.len(),
            more_stations,
            counts: self.counts,
            drops: by_reason(&drops),
            mic_failures: drops.of(DropReason::LinkBadMic),
            protect_ns: self.stopwatch.protect_ns,
            unprotect_ns: self.stopwatch.unprotect_ns,
            agree_ns: self.stopwatch.agree_ns,
            cpu_ns: u64::try_from(cpu.tv_sec() * 1_000_000_000 + cpu.tv_nsec()).unwrap_or(0),
            capture_fault: self
                .records
                .capture
                .as_ref()
                .and_then(|it| it.fault.clone()),
            key_log_fault: self
                .records
                .key_log
                .as_ref()
                .and_then(|it| it.fault.clone()),
        };
        serde_json::to_string(&report).map_err(io::Error::other)
    }
}
