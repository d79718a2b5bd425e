//! The group key of an access point.

use crypto::rand::Stream;

use super::random_key;
use crate::link::wireless::cipher::{GroupKey, PermittedCipher};
use crate::link::wireless::port::Port;
use crate::time::{Deadline, Instant};

/// The numbers of group keys take turns: a station keeps the key of before until all have the new
/// one.
const KEY_IDS: [u8; 2] = [1, 2];

/// The group key, and when it is in force.
pub(super) struct Group {
    cipher: PermittedCipher,
    random: Stream,
    key: GroupKey,
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
            stopped_until: None,
        }
    }

    /// The key, with the packet number that it has in this port.
    pub(super) fn key(&self, port: &Port) -> GroupKey {
        GroupKey {
            last_number: port.last_group_number(),
            ..self.key.clone()
        }
    }

    /// Countermeasures: who joins after them gets another key, so that frames of before are worth
    /// nothing.
    pub(super) fn stop(&mut self, until: Option<Instant>) {
        self.key = self.fresh();
        self.stopped_until = until;
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
        self.stopped_until.map(|at| Deadline {
            at,
            why: "end countermeasures",
        })
    }

    pub(super) fn fire(&mut self, now: Instant, port: &mut Port) {
        if self.stopped_until.take_if(|at| *at <= now).is_some() {
            port.install_group(&self.key);
        }
    }
}
