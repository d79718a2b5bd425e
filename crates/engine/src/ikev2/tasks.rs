//! What a session wants to ask its peer, one request at a time, and what an open request waits for.

use std::collections::VecDeque;

use crypto::key_exchange::{Initiator, Method};
use wire::ikev2::Payload;
use zeroize::Zeroizing;

use super::addresses::AskedUpdate;
use super::unfinished::{Made, Unfinished, UnfinishedChild};
use crate::ike::{FirstChild, Spi};
use crate::sa::{ChildId, Mode, Path, Protocol};
use crate::selector::TrafficSelector;
use crate::suite::{EspSuite, Ikev2Suite};
use crate::time::{Duration, Instant};

/// Requests that wait for the window at most, so that nothing that a peer does makes us keep more.
pub(super) const MAX_TASKS: usize = 256;

/// A request that is not sent yet.
pub(super) enum Task {
    /// A child, new or renewed.
    Child(Box<ChildTask>),
    /// A new IKE SA in place of this one, with this method first.
    RekeyIke(Option<Method>),
    /// A child's SAs are over.
    DeleteChild {
        /// Their protocol.
        protocol: Protocol,
        /// Our inbound SPI.
        spi_in: u32,
    },
    /// Is the peer there?
    Probe(u32),
    /// A notification.
    Tell(Payload),
    /// Our token of the current IKE SA (RFC 6290 §4.3).
    Token,
    /// A ticket of the current IKE SA (RFC 5723 §4.1).
    Ticket,
    /// The session is over.
    DeleteIke,
}

/// A child that we ask for.
pub(super) struct ChildTask {
    pub(super) child: ChildId,
    pub(super) mode: Mode,
    /// In order of preference.
    pub(super) suites: Vec<EspSuite>,
    /// Our inbound SPI.
    pub(super) spi: u32,
    pub(super) local: Vec<TrafficSelector>,
    pub(super) remote: Vec<TrafficSelector>,
    /// Our SPI of the pair that it renews.
    pub(super) renews: Option<u32>,
    pub(super) must_be_udp: bool,
    /// Whether it is the only one of its packets' layers, so that it may be in UDP.
    pub(super) may_be_udp: bool,
    pub(super) lifetime: Duration,
    /// The method whose public value is sent: the peer has named it in INVALID_KE_PAYLOAD.
    pub(super) named: Option<Method>,
}

impl ChildTask {
    /// The method whose public value goes with the request.
    pub(super) fn method(&self) -> Option<Method> {
        let mut methods = self.suites.iter().filter_map(|suite| suite.pfs?.method());
        self.named.or_else(|| methods.next())
    }
}

/// What an open request waits for.
pub(super) enum Awaited {
    /// IKE_AUTH.
    Auth,
    /// A child.
    Child(Box<AskedChild>),
    /// A new IKE SA.
    Rekey(Box<AskedRekey>),
    /// The other half of a child's end.
    DeletedChild {
        /// Our inbound SPI.
        spi_in: u32,
    },
    /// The end of the IKE SA.
    DeletedIke,
    /// A sign of life.
    Probe {
        /// Its number in the node.
        number: u32,
        /// Where it was sent first.
        path: Path,
        /// What must come back (RFC 4555 §3.7).
        cookie: Vec<u8>,
    },
    /// That the peer has followed us.
    Update(Box<AskedUpdate>),
    /// A ticket.
    Ticket,
    /// That the peer knows our addresses.
    Addresses {
        /// The address that we send from was among them on purpose.
        names_path: bool,
    },
    /// That the peer has our token.
    Token,
    /// That the peer has read a notification.
    Told(Payload),
    /// That the peer knows why all is over.
    End,
}

impl Awaited {
    /// The child that it is about and that is still wanted, and our SPI for it.
    pub(super) fn child(&self) -> Option<(ChildId, u32)> {
        match self {
            Self::Child(asked) if !asked.is_abandoned => Some((asked.task.child, asked.task.spi)),
            _ => None,
        }
    }
}

/// A child that we have asked for.
pub(super) struct AskedChild {
    pub(super) task: ChildTask,
    pub(super) nonce: Zeroizing<Vec<u8>>,
    /// Of the key exchange that is under way.
    pub(super) half: Option<Initiator>,
    /// What is agreed, while additional key exchanges go on.
    pub(super) unfinished: Option<Box<UnfinishedChild>>,
    pub(super) begun: Instant,
    /// The peer has renewed the same pair meanwhile.
    pub(super) collision: Option<Collision<u32>>,
    /// SPIs that the peer has deleted meanwhile and that we do not know: one of them may be the
    /// answer's, which is late.
    pub(super) gone: Vec<u32>,
    /// Nobody wants it any more: if it is agreed, it is deleted.
    pub(super) is_abandoned: bool,
}

/// A new IKE SA that we have asked for.
pub(super) struct AskedRekey {
    pub(super) spi: Spi,
    pub(super) suites: Vec<Ikev2Suite>,
    pub(super) nonce: Zeroizing<Vec<u8>>,
    /// Of the key exchange that is under way.
    pub(super) half: Initiator,
    /// What is agreed, while additional key exchanges go on.
    pub(super) unfinished: Option<Unfinished>,
    /// The peer has renewed the same IKE SA meanwhile.
    pub(super) collision: Option<Collision<Spi>>,
}

/// What the peer has made in the exchange that crosses ours.
pub(super) struct Collision<S> {
    /// Our SPI in it.
    pub(super) spi: S,
    /// The lower of its two nonces.
    pub(super) lowest: Vec<u8>,
    /// The peer has deleted it meanwhile.
    pub(super) is_gone: bool,
}

impl<S> Collision<S> {
    /// Whether the exchange with this lower nonce makes what is redundant (RFC 7296 §2.8.1).
    pub(super) fn outdoes(&self, ours: &[u8]) -> bool {
        *ours < *self.lowest
    }
}

/// Requests that wait.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Task>,
    is_closed: bool,
}

impl Queue {
    /// Adds a request at the end. Returns it if there are too many.
    pub(super) fn add(&mut self, task: Task) -> Result<(), Task> {
        if self.waiting.len() >= MAX_TASKS {
            return Err(task);
        }
        if !self.is_closed {
            self.waiting.push_back(task);
        }
        Ok(())
    }

    /// Adds one that was refused and is asked again at once.
    pub(super) fn add_first(&mut self, task: Task) {
        if !self.is_closed {
            self.waiting.push_front(task);
        }
    }

    /// The session is over: what the peer is to be told still goes, the end comes last, and
    /// nothing more is added.
    pub(super) fn close(&mut self) {
        self.waiting.retain(|task| matches!(task, Task::Tell(_)));
        self.waiting.push_back(Task::DeleteIke);
        self.is_closed = true;
    }

    /// Whether the session is over.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn next(&mut self) -> Option<Task> {
        self.waiting.pop_front()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the next one cannot be sent while the peer has not finished this: a new IKE SA, or
    /// a child (RFC 7296 §2.25).
    pub(super) fn waits_for(&self, made: &Made) -> bool {
        match self.waiting.front() {
            Some(Task::RekeyIke(_)) => true,
            Some(Task::Child(_)) => matches!(made, Made::Ike(_)),
            _ => false,
        }
    }

    /// The children that wait.
    pub(super) fn children(&self) -> impl Iterator<Item = &ChildTask> {
        self.waiting.iter().filter_map(|task| match task {
            Task::Child(child) => Some(&**child),
            _ => None,
        })
    }

    /// Removes children that are not wanted. Returns our SPIs in them.
    pub(super) fn remove_children(&mut self, is_unwanted: impl Fn(&ChildTask) -> bool) -> Vec<u32> {
        let mut removed = Vec::new();
        self.waiting.retain(|task| match task {
            Task::Child(child) if is_unwanted(child) => {
                removed.push(child.spi);
                false
            }
            _ => true,
        });
        removed
    }

    /// Whether a renewal of the IKE SA waits.
    pub(super) fn has_rekey(&self) -> bool {
        let mut all = self.waiting.iter();
        all.any(|task| matches!(task, Task::RekeyIke(_)))
    }

    /// Whether a request for a ticket waits.
    pub(super) fn has_ticket(&self) -> bool {
        let mut all = self.waiting.iter();
        all.any(|task| matches!(task, Task::Ticket))
    }

    /// Whether the end of this child waits.
    pub(super) fn has_delete(&self, spi: u32) -> bool {
        self.waiting
            .iter()
            .any(|task| matches!(task, Task::DeleteChild { spi_in, .. } if *spi_in == spi))
    }

    /// The end of this child need not be told any more.
    pub(super) fn remove_delete(&mut self, spi: u32) {
        self.waiting
            .retain(|task| !matches!(task, Task::DeleteChild { spi_in, .. } if *spi_in == spi));
    }

    /// Whether a probe waits.
    pub(super) fn has_probe(&self) -> bool {
        let mut all = self.waiting.iter();
        all.any(|task| matches!(task, Task::Probe(_)))
    }

    /// Takes the probe that waits, and gives its number.
    pub(super) fn take_probe(&mut self) -> Option<u32> {
        let mut all = self.waiting.iter();
        let at = all.position(|it| matches!(it, Task::Probe(_)))?;
        match self.waiting.remove(at) {
            Some(Task::Probe(number)) => Some(number),
            _ => None,
        }
    }

    /// Removes renewals of the IKE SA: another one has renewed it.
    pub(super) fn remove_rekeys(&mut self) {
        self.waiting
            .retain(|task| !matches!(task, Task::RekeyIke(_)));
    }
}

/// The suites of a child that is asked for with IKE_AUTH: it has no key exchange of its own (RFC
/// 7296 §1.2).
pub(super) fn without_pfs(suites: &[EspSuite]) -> Vec<EspSuite> {
    let mut all: Vec<EspSuite> = Vec::new();
    for suite in suites {
        let bare = suite.without_pfs();
        if !all.contains(&bare) {
            all.push(bare);
        }
    }
    all
}

impl FirstChild {
    /// The request that goes with IKE_AUTH.
    pub(super) fn into_task(self, connection: &crate::config::Connection) -> Option<ChildTask> {
        let child = connection.children.get(self.index)?;
        Some(ChildTask {
            child: self.child,
            mode: child.mode,
            suites: without_pfs(&child.proposals),
            spi: self.spi,
            local: self.local,
            remote: self.remote,
            renews: None,
            must_be_udp: connection.must_be_in_udp(child),
            may_be_udp: child.may_be_in_udp(),
            lifetime: child.lifetime,
            named: None,
        })
    }
}

/// The suites that IKEv2 can negotiate: PFS with groups below 2048 bits is IKEv1's.
pub(super) fn usable(suites: &[EspSuite]) -> Vec<EspSuite> {
    let is_usable = |it: &&EspSuite| it.is_for_ikev2();
    suites.iter().filter(is_usable).copied().collect()
}
