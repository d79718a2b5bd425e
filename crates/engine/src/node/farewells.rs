//! Sessions of IKEv2 that are over here, and whose peers are told: the request with the delete goes
//! in its turn, and again until it is answered (RFC 7296 §1.4.1, §2.1), for [`FAREWELL`]. Nobody
//! waits for them, except the end of the program.

use std::collections::BTreeMap;

use super::proof::Unproven;
use super::session_id::SessionId;
use super::{Node, Timer};
use crate::ike::{Fact, Outbox, Spi};
use crate::ikev2::message::Message;
use crate::ikev2::session::{Means, Session as Ikev2};
use crate::sa::Path;
use crate::time::{Deadline, Duration, Instant};

/// How long a peer is told at most. On an unknown path, the delete is then sent three times. The
/// program ends so much later if a peer is gone.
pub(super) const FAREWELL: Duration = Duration::from_secs(4);

/// A session that is over.
struct Farewell {
    ike: Box<Ikev2>,
    /// Our SPIs by which messages find it.
    spis: Vec<Spi>,
    /// It has not shown that it is where it went.
    unproven: Option<Box<Unproven>>,
    until: Instant,
    armed: Option<Instant>,
}

impl Farewell {
    fn withhold(&mut self, out: &mut Outbox) {
        let there = self.ike.path().remote.ip();
        if let Some(unproven) = &mut self.unproven {
            unproven.withhold(there, out);
        }
    }
}

/// All sessions that are over and whose peers do not know yet.
#[derive(Default)]
pub(super) struct Farewells {
    by_id: BTreeMap<SessionId, Farewell>,
    by_spi: BTreeMap<Spi, SessionId>,
}

impl Farewells {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Octets of fragments of answers that wait for the rest.
    pub(super) fn fragment_octets(&self) -> usize {
        let held = self.by_id.values().map(|it| it.ike.fragment_octets());
        held.sum()
    }

    /// The one that has this SPI of ours.
    pub(super) fn of_own_spi(&self, spi: Spi) -> Option<SessionId> {
        self.by_spi.get(&spi).copied()
    }

    fn add(
        &mut self,
        id: SessionId,
        (ike, unproven): (Box<Ikev2>, Option<Box<Unproven>>),
        until: Instant,
    ) {
        let farewell = Farewell {
            ike,
            spis: Vec::new(),
            unproven,
            until,
            armed: None,
        };
        self.by_id.insert(id, farewell);
        self.rename(id);
    }

    /// A renewal that was under way may have ended.
    fn rename(&mut self, id: SessionId) {
        let Some(it) = self.by_id.get_mut(&id) else {
            return;
        };
        let spis = it.ike.own_spis();
        for former in core::mem::replace(&mut it.spis, spis) {
            self.by_spi.remove(&former);
        }
        for spi in &it.spis {
            self.by_spi.insert(*spi, id);
        }
    }

    fn remove(&mut self, id: SessionId) -> Option<Farewell> {
        let removed = self.by_id.remove(&id)?;
        for spi in &removed.spis {
            self.by_spi.remove(spi);
        }
        Some(removed)
    }
}

impl Node {
    /// The session of this number was removed, and its peer does not know yet.
    /// `unproven`: it has not shown that it is where it went.
    pub(super) fn say_farewell(
        &mut self,
        id: SessionId,
        ike: Box<Ikev2>,
        unproven: Option<Box<Unproven>>,
        now: Instant,
    ) {
        self.farewells.add(id, (ike, unproven), now + FAREWELL);
        self.arm_farewell(id);
    }

    /// Whether peers have not yet said that they know of the end of a session.
    pub fn is_saying_farewell(&self) -> bool {
        !self.farewells.by_id.is_empty()
    }

    /// Whether an SPI is ours in some IKE SA, also in one that is about to end.
    pub(super) fn has_ike_sa(&self, spi: Spi) -> bool {
        self.sessions.has_spi(spi) || self.farewells.of_own_spi(spi).is_some()
    }

    /// A message for a session that is over.
    pub(super) fn on_farewell(
        &mut self,
        id: SessionId,
        path: Path,
        message: &Message<'_>,
        now: Instant,
    ) {
        let calendar = self.today(now);
        let Some(it) = self.farewells.by_id.get_mut(&id) else {
            return;
        };
        let mut out = it.ike.outbox();
        let means = Means {
            random: &mut self.random,
            quotas: None,
            may_ask: false,
            calendar,
            addresses: &[],
            maker: None,
        };
        let home = it.ike.path();
        let facts = it.ike.on_message(path, message, means, now, &mut out);
        it.ike.learn(&out);
        it.withhold(&mut out);
        self.bound(&mut out, home, path, message.octets().len());
        self.flush(None, out);
        let mut has_failed = false;
        for fact in facts {
            match fact {
                Fact::Dropped(reason) => self.drops.count(reason),
                Fact::Unproven(fault) | Fact::Unreadable(fault) => {
                    self.drops.count(fault.drop_reason());
                }
                Fact::Failed(fault) => {
                    self.drops.count(fault.drop_reason());
                    has_failed = true;
                }
                Fact::Crashed | Fact::SentTo(_) => has_failed = true,
                // Nobody needs what it says any more.
                _ => {}
            }
        }
        self.go_on_leaving(id, has_failed, now);
    }

    pub(super) fn on_farewell_timer(&mut self, id: SessionId, now: Instant) {
        let Some(it) = self.farewells.by_id.get_mut(&id) else {
            return;
        };
        it.armed = None;
        let mut out = it.ike.outbox();
        let mut is_over = it.until <= now;
        if !is_over {
            is_over = it.ike.on_deadline(&mut self.random, now, &mut out).is_err();
            it.ike.learn(&out);
            it.withhold(&mut out);
        }
        self.flush(None, out);
        self.go_on_leaving(id, is_over, now);
    }

    /// Forgets a session that is over if its peer knows, or need not be told any more.
    fn go_on_leaving(&mut self, id: SessionId, is_over: bool, now: Instant) {
        let it = self.farewells.by_id.get(&id);
        if !is_over && it.is_some_and(|it| !it.ike.has_left()) {
            self.farewells.rename(id);
            return self.arm_farewell(id);
        }
        if let Some(mut gone) = self.farewells.remove(id) {
            let timer = Timer::Farewell(id);
            self.timers.arm(timer, &mut gone.armed, None);
            self.last_answers.keep(gone.ike.take_answers(), now);
        }
        self.tell_if_stopped();
    }

    fn arm_farewell(&mut self, id: SessionId) {
        let Some(it) = self.farewells.by_id.get_mut(&id) else {
            return;
        };
        let end = Deadline {
            at: it.until,
            why: "forget a session whose peer does not answer its end",
        };
        let next = it.ike.deadline().map_or(end, |due| due.min(end));
        let timer = Timer::Farewell(id);
        self.timers.arm(timer, &mut it.armed, Some(next));
    }
}
