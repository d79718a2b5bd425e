//! The table of sessions, and the names by which messages, peers and users find them.

use core::ops::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::first_message::First;
use super::session::Session;
use super::session_id::SessionId;
use crate::identity::Peer;
use crate::ike::{Role, Spi, Spis};

/// All sessions of a node.
#[derive(Default)]
pub(super) struct Sessions {
    /// The sessions are boxed, because the nodes of a tree with growing keys are half empty.
    by_id: BTreeMap<SessionId, Box<Session>>,
    next: u32,
    /// Our own SPI of every session's IKE SA.
    by_spi: BTreeMap<Spi, SessionId>,
    /// At a responder, while the peer may repeat its first message.
    by_first_message: BTreeMap<First, SessionId>,
    /// The peers of established sessions; the oldest session of a peer is first.
    by_peer: BTreeSet<(Peer, SessionId)>,
}

impl Sessions {
    pub(super) fn add(&mut self, mut session: Session) -> SessionId {
        // Strangers start many sessions: numbers wrap around, and some are in use.
        while self.by_id.contains_key(&SessionId(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let id = SessionId(self.next);
        self.next = self.next.wrapping_add(1);
        session.spis = session.ike.own_spis();
        for spi in &session.spis {
            self.by_spi.insert(*spi, id);
        }
        if let Some(first) = &session.first_message {
            self.by_first_message.insert(**first, id);
        }
        self.by_id.insert(id, Box::new(session));
        id
    }

    /// Removes a session and all its names.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<Box<Session>> {
        let session = self.by_id.remove(&id)?;
        for spi in &session.spis {
            self.by_spi.remove(spi);
        }
        if let Some(first) = &session.first_message {
            self.by_first_message.remove(&**first);
        }
        if let Some(peer) = session.ike.identity() {
            self.by_peer.remove(&(peer.clone(), id));
        }
        Some(session)
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<&Session> {
        self.by_id.get(id).map(|session| &**session)
    }

    pub(super) fn get_mut(&mut self, id: &SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(id).map(|session| &mut **session)
    }

    pub(super) fn contains_key(&self, id: &SessionId) -> bool {
        self.by_id.contains_key(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// From the oldest to the newest, until numbers wrap around.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (SessionId, &Session)> {
        self.by_id.iter().map(|(id, session)| (*id, &**session))
    }

    pub(super) fn iter_mut(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = (SessionId, &mut Session)> {
        let all = self.by_id.iter_mut();
        all.map(|(id, session)| (*id, &mut **session))
    }

    pub(super) fn values(&self) -> impl DoubleEndedIterator<Item = &Session> {
        self.by_id.values().map(|session| &**session)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.by_id.values_mut().map(|session| &mut **session)
    }

    /// The sessions for which `is_wanted` holds.
    pub(super) fn ids(&self, is_wanted: impl Fn(&Session) -> bool) -> Vec<SessionId> {
        let wanted = self.iter().filter(|(_, session)| is_wanted(session));
        wanted.map(|(id, _)| id).collect()
    }

    /// Its IKE SA was renewed, or an old one is over: it is found by other SPIs.
    pub(super) fn rename(&mut self, id: SessionId) {
        let Some(session) = self.by_id.get_mut(&id) else {
            return;
        };
        if !session.ike.is_v2() {
            return;
        }
        let spis = session.ike.own_spis();
        if spis == session.spis {
            return;
        }
        for former in core::mem::replace(&mut session.spis, spis) {
            self.by_spi.remove(&former);
        }
        for spi in &session.spis {
            self.by_spi.insert(*spi, id);
        }
    }

    /// The session that has this SPI of ours.
    pub(super) fn of_own_spi(&self, spi: Spi) -> Option<SessionId> {
        self.by_spi.get(&spi).copied()
    }

    /// The session of a message of IKEv1, by our SPI in it.
    pub(super) fn named(&self, spis: Spis) -> Option<SessionId> {
        let by = |spi: &Spi, role: Role| {
            let id = *self.by_spi.get(spi)?;
            let ike = &self.get(&id)?.ike;
            (ike.role() == role && !ike.is_v2()).then_some(id)
        };
        by(&spis.responder, Role::Responder).or_else(|| by(&spis.initiator, Role::Initiator))
    }

    /// Whether an SPI is ours in some session.
    pub(super) fn has_spi(&self, spi: Spi) -> bool {
        self.by_spi.contains_key(&spi)
    }

    /// The session that this first message started.
    pub(super) fn begun_by(&self, first: First) -> Option<SessionId> {
        self.by_first_message.get(&first).copied()
    }

    /// The same for IKEv2. Nothing is computed if none with this address and SPI started one.
    pub(super) fn begun_by_v2(
        &self,
        from: SocketAddr,
        spi: Spi,
        message: &[u8],
    ) -> Option<SessionId> {
        let range = First::all_of_v2(from, spi);
        self.by_first_message.range(range).next()?;
        self.begun_by(First::of_v2(from, spi, message))
    }

    /// Forgets the first message of a session, so that the same message starts a new session.
    pub(super) fn forget_first_message(&mut self, id: SessionId) {
        let session = self.by_id.get_mut(&id);
        if let Some(first) = session.and_then(|it| it.first_message.take()) {
            self.by_first_message.remove(&*first);
        }
    }

    /// Records that the peer of a session has authenticated.
    pub(super) fn enter(&mut self, id: SessionId, peer: Peer) {
        self.by_peer.insert((peer, id));
    }

    /// The established sessions of a peer under its connection, the oldest first.
    pub(super) fn of_peer(&self, peer: &Peer) -> impl Iterator<Item = (SessionId, &Session)> {
        let all = (peer.clone(), SessionId(0))..=(peer.clone(), SessionId(u32::MAX));
        let found = self.by_peer.range(all);
        found.filter_map(|(_, id)| Some((*id, self.get(id)?)))
    }

    /// The newest session that has taken over from this one, or this one.
    pub(super) fn heir_of(&self, mut id: SessionId) -> SessionId {
        // Heirs are always later sessions, so this ends.
        let heir = |id: SessionId| self.get(&id)?.heir();
        while let Some(next) = heir(id).filter(|next| self.contains_key(next)) {
            id = next;
        }
        id
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = &SessionId> {
        self.by_id.keys()
    }

    #[cfg(test)]
    pub(super) fn peers(&self) -> usize {
        self.by_peer.len()
    }

    /// The first messages that may be repeated.
    #[cfg(test)]
    pub(super) fn first_messages(&self) -> impl ExactSizeIterator<Item = &First> + Clone {
        self.by_first_message.keys()
    }
}

impl Index<&SessionId> for Sessions {
    type Output = Session;

    fn index(&self, id: &SessionId) -> &Session {
        &self.by_id[id]
    }
}
