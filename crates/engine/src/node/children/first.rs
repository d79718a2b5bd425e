//! IKEv2: the child that a station asks for together with its authentication, and what a gateway
//! leaves of the traffic that was asked for.

use super::super::session_id::SessionId;
use super::super::{Event, Node};
use super::ChildEntry;
use super::selectors::{common, hosts, listed, wanted_selectors};
use crate::config::{ChildLayer, Connection};
use crate::ike::{AgreedChild, Fault, FirstChild};
use crate::sa::{ChildId, Mode, Path};
use crate::selector::TrafficSelector;

impl Node {
    /// A gateway may not narrow what we asked for before we knew our inner addresses. Nothing but
    /// these is protected, whatever it answers: all else is ours alone, such as the addresses of
    /// containers here. A fault: it answers with none of them.
    pub(super) fn narrow_to_lease(
        &self,
        id: SessionId,
        agreed: &mut AgreedChild,
    ) -> Result<(), Fault> {
        let (Some(session), Some(entry)) =
            (self.sessions.get(&id), self.children.get(&agreed.child))
        else {
            return Ok(());
        };
        let lease = session.held.lease.as_ref();
        let child = entry.child();
        let is_inner = child.mode == Mode::Tunnel && child.layer != ChildLayer::Around;
        let is_inner = is_inner && agreed.is_ours && entry.local.is_empty();
        let Some(lease) = lease.filter(|_| is_inner) else {
            return Ok(());
        };
        let inner = hosts(&lease.addresses);
        let local = common(&agreed.negotiated.local, &inner);
        if local.is_empty() {
            return Err(Fault::Misbehaved(format!(
                "the gateway has lent {} and protects {}",
                listed(&inner),
                listed(&agreed.negotiated.local)
            )));
        }
        agreed.negotiated.local = local;
        Ok(())
    }

    /// The session ends before its first child was agreed or refused.
    pub(in super::super) fn abandon_first_child(&mut self, id: SessionId) {
        let session = self.sessions.get_mut(&id);
        if let Some((child, spi)) = session.and_then(|it| it.first_child.take()) {
            self.undo_exchange(child, spi);
            self.drop_unused_child(child);
        }
    }

    /// The child that a station asks for together with its authentication.
    pub(in super::super) fn first_child(
        &mut self,
        connection: &Connection,
        path: Path,
        child: ChildId,
    ) -> Option<FirstChild> {
        let entry = self.children.get(&child)?;
        let (mut local, remote) = wanted_selectors(entry, path, &[]);
        let of = entry.child();
        let is_around = of.layer == ChildLayer::Around;
        let is_dynamic = entry.local.is_empty() && of.mode == Mode::Tunnel && !is_around;
        if is_dynamic && connection.wants_inner.is_any() {
            local = everything_towards(&remote);
        }
        let index = entry.index;
        let spi = self.children.take_spi(&mut self.random);
        Some(FirstChild {
            child,
            index,
            spi,
            local,
            remote,
        })
    }

    /// The peer protects only a part of what we requested: the rest is refused.
    pub(super) fn tell_narrowed(&mut self, id: SessionId, child: ChildId) {
        let (Some(session), Some(entry)) = (self.sessions.get(&id), self.children.get(&child))
        else {
            return;
        };
        let Some(pair) = entry.current.as_ref().filter(|it| it.mode == Mode::Tunnel) else {
            return;
        };
        let Some(lost) = entry.narrowed() else {
            let is_unlent =
                |it: &&TrafficSelector| !pair.local.iter().any(|own| own.is_of_family(it));
            let unlent = pair.remote.iter().find(is_unlent).copied();
            return unlent.map_or((), |remote| self.tell_unlent(id, child, remote));
        };
        let event = Event::PeerComplains {
            connection: Some(entry.connection.name.clone()),
            path: session.path(),
            complaint: format!(
                "it protects only {} === {}, not all of {lost}; nothing else passes",
                listed(&pair.local),
                listed(&pair.remote),
            ),
            is_proven: true,
        };
        self.outputs.tell(event);
    }
}

impl ChildEntry {
    /// The selectors that we asked for and that the peer does not protect, or only in part: "ours
    /// === the peer's", or one side alone.
    pub(in super::super) fn narrowed(&self) -> Option<String> {
        let pair = self.current.as_ref().filter(|it| it.mode == Mode::Tunnel)?;
        let lost = |asked: &[TrafficSelector], got: &[TrafficSelector]| {
            let lost = asked.iter().filter(|it| !got.contains(it));
            listed(&lost.copied().collect::<Vec<_>>())
        };
        let local = lost(&self.local, &pair.local);
        let remote = lost(&self.remote, &pair.remote);
        match (local.is_empty(), remote.is_empty()) {
            (true, true) => None,
            (false, true) => Some(local),
            (true, false) => Some(remote),
            (false, false) => Some(format!("{local} === {remote}")),
        }
    }
}

/// Every address of the families that a child leads to: the gateway narrows it to what it lends.
fn everything_towards(remote: &[TrafficSelector]) -> Vec<TrafficSelector> {
    let mut all: Vec<TrafficSelector> = Vec::new();
    for one in remote {
        let everything = TrafficSelector::everything(one.first);
        if !all.contains(&everything) {
            all.push(everything);
        }
    }
    all
}
