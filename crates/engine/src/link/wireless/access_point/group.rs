//! The group key of an access point, and how the next one replaces it: first all stations get it,
//! then frames to groups are under it.

use crypto::rand::Stream;

use super::random_key;
use crate::link::wireless::cipher::{GroupKey, PermittedCipher};
use crate::link::wireless::port::Port;
use crate::time::{Deadline, Duration, Instant};

/// The numbers of group keys take turns: a station keeps the key of before until all have the new
/// one.
const KEY_IDS: [u8; 2] = [1, 2];
/// From the leaving of a station to the next key: others may leave with it.
const SETTLING: Duration = Duration::from_millis(500);

/// Which keys of stations are made anew with the group key, where the access point makes those too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Renewal {
    /// A station has left: it has had no other one's key.
    GroupAlone,
    /// It is time.
    All,
}

/// The group key, and when it is in force.
pub(super) struct Group {
    cipher: PermittedCipher,
    random: Stream,
    key: GroupKey,
    /// Is given to the stations. Once all have it, it is the key.
    next: Option<GroupKey>,
    interval: Option<Duration>,
    /// When the next key is made.
    due_at: Option<Instant>,
    /// When it is because a station has left.
    left_at: Option<Instant>,
    /// Countermeasures have taken the key from the port. At this time the new one goes there.
    stopped_until: Option<Instant>,
}

impl Group {
    pub(super) fn new(cipher: PermittedCipher, mut random: Stream, port: &mut Port) -> Self {
        let key = GroupKey {
            key: random_key(cipher, &mut random),
            key_id: KEY_IDS[0],
            last_number: 0,
        };
        port.install_group(&key);
        Self {
            cipher,
            random,
            key,
            next: None,
            interval: None,
            due_at: None,
            left_at: None,
            stopped_until: None,
        }
    }

    /// The key in force, with the packet number that it has in this port.
    pub(super) fn key(&self, port: &Port) -> GroupKey {
        GroupKey {
            last_number: port.last_group_number(),
            ..self.key.clone()
        }
    }

    /// The key that every station should have.
    pub(super) fn newest(&self, port: &Port) -> GroupKey {
        self.next.clone().unwrap_or_else(|| self.key(port))
    }

    pub(super) fn is_renewed(&self) -> bool {
        self.next.is_some()
    }

    pub(super) fn renew_every(&mut self, interval: Duration, now: Instant) {
        self.interval = Some(interval);
        self.due_at = Some(now + interval);
    }

    /// Who had the key has left.
    pub(super) fn note_leaving(&mut self, now: Instant) {
        self.left_at.get_or_insert(now + SETTLING);
    }

    /// Countermeasures: who joins after them gets another key, so that frames of before are worth
    /// nothing.
    pub(super) fn stop(&mut self, until: Option<Instant>) {
        self.key = self.fresh();
        self.next = None;
        self.stopped_until = until;
    }

    /// Puts the next key in force: all stations have it.
    pub(super) fn replace(&mut self, port: &mut Port) {
        if let Some(next) = self.next.take() {
            port.install_group(&next);
            self.key = next;
        }
    }

    fn fresh(&mut self) -> GroupKey {
        let [one, two] = KEY_IDS;
        GroupKey {
            key: random_key(self.cipher, &mut self.random),
            key_id: if self.key.key_id == one { two } else { one },
            last_number: 0,
        }
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        if let Some(at) = self.stopped_until {
            let why = "end countermeasures";
            return Some(Deadline { at, why });
        }
        let due_at = self.due_at.into_iter().chain(self.left_at).min();
        due_at.filter(|_| self.next.is_none()).map(|at| Deadline {
            at,
            why: "make another group key",
        })
    }

    /// Does what it is time for: whether the stations must get the next key.
    pub(super) fn fire(&mut self, now: Instant, port: &mut Port) -> Option<Renewal> {
        self.deadline().filter(|it| it.at <= now)?;
        if self.stopped_until.take().is_some() {
            port.install_group(&self.key);
            self.due_at = self.interval.map(|interval| now + interval);
            self.left_at = None;
            return None;
        }
        self.left_at = None;
        self.next = Some(self.fresh());
        if self.due_at.is_none_or(|at| at > now) {
            return Some(Renewal::GroupAlone);
        }
        self.due_at = self.interval.map(|interval| now + interval);
        Some(Renewal::All)
    }
}
