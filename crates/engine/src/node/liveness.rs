//! Dead peer detection (RFC 3706) and NAT keepalives (RFC 3948 §4).
//! Probes by timer are here; probes that traffic makes earlier are in `unheard.rs`.

mod unheard;

use super::ike::Ike;
use super::proof::JUMP;
use super::session_id::SessionId;
use super::{EndCause, Node, Output};
use crate::config::{Connection, Encapsulation};
use crate::ike::Outbox;
use crate::plane::SaReport;
use crate::sa::Via;
use crate::time::{Deadline, Duration, Instant};
use unheard::Unheard;

/// How long a station sends without an answer before it probes, unless `dpd_delay` is shorter.
pub(super) const UNHEARD: Duration = Duration::from_secs(5);
/// Time between two unanswered R-U-THEREs.
const DPD_INTERVAL: Duration = Duration::from_secs(2);

/// Runs of probe numbers that are remembered. Each new address of the peer begins one. An older
/// probe of ours that is reflected counts as the peer's.
const MAX_RUNS: usize = 64;

/// Minimum time between keepalives.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(100);

/// A report contains every SA. With many sessions, one of them always wants a report. A session
/// that is not answered asks again and is in the next report.
const REPORT_INTERVAL: Duration = DPD_INTERVAL;

/// Reports of the inbound plane: what it has received.
#[derive(Default)]
pub(super) struct Reports {
    /// A report was requested and has not come.
    is_wanted: bool,
    /// Probes request none before this time.
    next: Instant,
}

/// When a session last heard from its peer, and when it must probe.
#[derive(Default)]
pub(super) struct Liveness {
    last_sign: Instant,
    ask_at: Option<Instant>,
    /// Since when probes have no answer.
    unanswered_since: Option<Instant>,
    /// The numbers of our probes, first and last of each run, the latest run at the end.
    numbers: Vec<(u32, u32)>,
    /// The number of the first unanswered probe.
    first_unanswered: u32,
    /// The number of the peer's latest probe.
    heard: Option<u32>,
    keepalive_at: Option<Instant>,
    /// Only for a station.
    unheard: Option<Box<Unheard>>,
}

impl Liveness {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            last_sign: now,
            ..Self::default()
        }
    }

    pub(super) fn establish(&mut self, connection: &Connection, ike: &Ike, now: Instant) {
        self.last_sign = now;
        self.unanswered_since = None;
        self.ask_at = connection
            .dpd_delay
            .filter(|_| ike.answers_probes())
            .map(|delay| now + delay);
        self.follow_nat(connection, ike, now);
    }

    /// Keepalives begin or end, as NATs on the path demand.
    pub(super) fn follow_nat(&mut self, connection: &Connection, ike: &Ike, now: Instant) {
        // UDP may be configured because of a firewall that forgets idle flows. IKEv2 fakes no NAT.
        let is_in_udp = ike.nat().is_supported && ike.path().via == Via::UdpWithMarker;
        let is_ordered = connection.encapsulation == Encapsulation::Always && is_in_udp;
        let keeps = ike.nat().is_local || is_ordered;
        self.keepalive_at = keeps.then(|| next_keepalive(connection, now)).flatten();
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let ask = self.ask_at.map(|at| Deadline {
            at,
            why: "ask whether the peer is there",
        });
        let keep = self.keepalive_at.map(|at| Deadline {
            at,
            why: "keep the NAT's mapping alive",
        });
        let look = self.unheard.as_ref().and_then(|unheard| unheard.look_at);
        let look = look.map(|at| Deadline {
            at,
            why: "see whether the peer is heard",
        });
        [ask, keep, look].into_iter().flatten().min()
    }

    /// Something authenticated came from the peer.
    pub(super) fn sign(&mut self, now: Instant) {
        self.last_sign = self.last_sign.max(now);
        self.unanswered_since = None;
    }

    /// Whether this answers one of our open probes.
    pub(super) fn is_answer(&self, number: u32) -> bool {
        let (first, latest) = (self.first_unanswered, self.numbers.last());
        let is_unanswered = latest.is_some_and(|run| is_within(number, first, run.1));
        self.unanswered_since.is_some() && is_unanswered && self.is_ours(number)
    }

    /// Whether a probe of ours had this number.
    fn is_ours(&self, number: u32) -> bool {
        let mut runs = self.numbers.iter();
        runs.any(|(first, last)| is_within(number, *first, *last))
    }

    /// The number of our next probe, `gap` after the latest.
    fn next_number(&mut self, first: u32, gap: u32) -> u32 {
        let number = match self.numbers.last_mut() {
            Some((_, latest)) if gap == 1 => {
                *latest = latest.wrapping_add(1);
                return *latest;
            }
            Some((_, latest)) => latest.wrapping_add(gap),
            None => first,
        };
        if self.numbers.len() == MAX_RUNS {
            self.numbers.remove(0);
        }
        self.numbers.push((number, number));
        number
    }

    /// The peer is probed at another address: unanswered probes at this one do not count.
    pub(super) fn start_over(&mut self, now: Instant) {
        if self.unanswered_since.is_some() {
            self.unanswered_since = Some(now);
        }
    }

    /// Whether this is a new probe of the peer, and remembers it. A reflected probe of ours is not.
    pub(super) fn is_question(&mut self, number: u32) -> bool {
        let is_newer = |last: u32| number != last && number.wrapping_sub(last) < 1 << 31;
        let is_new = self.heard.is_none_or(is_newer) && !self.is_ours(number);
        if is_new {
            self.heard = Some(number);
        }
        is_new
    }

    /// Whether this is the peer's latest probe.
    pub(super) fn is_last_question(&self, number: u32) -> bool {
        self.heard == Some(number)
    }
}

impl Node {
    /// Sends keepalives and probes that are due.
    pub(super) fn check_liveness(&mut self, id: SessionId, now: Instant) {
        self.look(id, now);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(connection) = session.connection().cloned() else {
            return;
        };
        let liveness = &mut session.liveness;
        if liveness.keepalive_at.is_some_and(|at| at <= now) {
            liveness.keepalive_at = next_keepalive(&connection, now);
            let keepalive = Output::Datagram(session.path(), vec![0xff]);
            self.outputs.push(keepalive);
        }
        let Some(delay) = connection.dpd_delay else {
            // One probe was enough; no timer needs another.
            if let Some(session) = self.sessions.get_mut(&id) {
                session.liveness.ask_at.take_if(|at| *at <= now);
            }
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let liveness = &mut session.liveness;
        if liveness.ask_at.is_none_or(|at| at > now) {
            return;
        }
        let since = liveness.unanswered_since;
        if let Some(since) = since {
            if now.since(since) >= connection.dpd_timeout {
                return self.close_session(id, EndCause::PeerSilent, false, now);
            }
        } else if now.since(liveness.last_sign) < delay {
            liveness.ask_at = Some(liveness.last_sign + delay);
            return;
        }
        self.ask(id, now);
        if since.is_some() {
            self.test_paths(id);
        }
        // Packets prove that the peer is alive too. The report ends the probes.
        if now >= self.reports.next {
            self.reports.next = now + REPORT_INTERVAL;
            self.want_report();
        }
    }

    /// Sends R-U-THERE at once, unless nothing more may be sent to the peer's address. Returns its
    /// number.
    pub(super) fn ask(&mut self, id: SessionId, now: Instant) -> Option<u32> {
        let session = self.sessions.get_mut(&id)?;
        let exchange = session.ike.next_exchange(&mut self.random);
        let first_number = self.random.u32() >> 1;
        let jump = 2 + self.random.u32() % JUMP;
        if !session.ike.answers_probes() {
            return None;
        }
        let liveness = &mut session.liveness;
        let gap = if session.unproven.is_some() { jump } else { 1 };
        let number = liveness.next_number(first_number, gap);
        liveness.ask_at = Some(now + DPD_INTERVAL);
        let mut out = Outbox::default();
        let numbers = (exchange, number);
        let random = &mut self.random;
        let Some((number, octets)) = session.ike.probe(numbers, random, now, &mut out) else {
            // Another request is open: its answer is the sign of life.
            liveness.unanswered_since.get_or_insert(now);
            self.flush(Some(id), out);
            self.arm_session(id);
            return None;
        };
        let may_go = match &mut session.unproven {
            Some(unproven) => unproven.may_ask(number, octets),
            None => true,
        };
        if may_go {
            if liveness.unanswered_since.is_none() {
                liveness.unanswered_since = Some(now);
                liveness.first_unanswered = number;
            }
            self.flush(Some(id), out);
        }
        self.arm_session(id);
        may_go.then_some(number)
    }

    /// Requests a report from the planes, unless one is outstanding.
    fn want_report(&mut self) {
        if !core::mem::replace(&mut self.reports.is_wanted, true) {
            self.outputs.push(Output::WantsReport);
        }
    }

    /// Inbound traffic since the last report proves that its session's peer is alive.
    pub(super) fn on_report(&mut self, report: &[SaReport], now: Instant) {
        self.reports.is_wanted = false;
        for sa in report {
            let session = self.children.get(&sa.child).and_then(|child| child.session);
            let session = session.and_then(|id| self.sessions.get_mut(&id));
            if let (Some(session), Some(last)) = (session, sa.last)
                && last > session.liveness.last_sign
            {
                session.liveness.sign(last.min(now));
            }
        }
        self.judge(now);
    }
}

/// Zero: never.
fn next_keepalive(connection: &Connection, now: Instant) -> Option<Instant> {
    let interval = connection.keepalive;
    (!interval.is_zero()).then(|| now + interval.max(KEEPALIVE_INTERVAL))
}

/// Whether a wrapping number is in `first..=last`.
fn is_within(number: u32, first: u32, last: u32) -> bool {
    number.wrapping_sub(first) <= last.wrapping_sub(first)
}
