//! INFORMATIONAL: deletes, notifications, signs of life, in both roles (RFC 7296 §1.4, §2.4,
//! §2.25). What it says of addresses is in `mobike.rs`.

use wire::ikev2::{Delete, Exchange, Notify, NotifyType, Payload, Protocol as WireProtocol};

use super::children::ChildState;
use super::established::Established;
use super::mobike::{fresh_cookie, wrong_cookie};
use super::parts::{Parts, SUPERSEDED, notify, notify_name, notify_with};
use super::proposal::{child_protocol, wire_protocol};
use super::tasks::{Awaited, Task};
use super::window::{At, IkeSa, Opened};
use crate::ike::{Complaint, Fact, Notification, Refusal, Role, Sent};
use crate::sa::Protocol;
use crate::time::Duration;

/// Deleted SPIs that an open request remembers.
const MAX_GONE: usize = 16;

impl Established {
    /// A request of the peer.
    pub(super) fn on_inform(
        &mut self,
        index: usize,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let Ok(parts) = opened.parts() else {
            return vec![Fact::Heard];
        };
        self.crash.take(self.sas[index].spis, &parts);
        let (answer, gone) = self.take_deletes(&parts);
        let mut chain = answer;
        let (more, mut notices) = self.on_addresses(index, opened, &parts, at);
        chain.extend(more);
        // Beside something else, a ticket is refused: it must be answered (RFC 5723 §4.1).
        let asks = self.role == Role::Responder && parts.has(NotifyType::TicketRequest);
        chain.extend(asks.then(|| notify(NotifyType::TicketNack)));
        self.sas[index].answer(opened, &chain, at);
        let answered = at.out.messages.last().map_or(0, Sent::octets);
        for notice in &mut notices {
            if let Notification::Moved { came, went } | Notification::Addresses { came, went } =
                notice
            {
                (*came, *went) = (opened.octets() as u64, answered as u64);
            }
        }
        if !gone.is_empty() {
            notices.push(Notification::DeletedChildren(gone));
        }
        notices.extend(parts.notices.iter().filter_map(|it| notification(it)));
        notices.extend(self.sent_to(&parts));
        let is_over = parts.deletes.iter().any(|it| matches!(it, Delete::IkeSa));
        if is_over && self.ike_deleted(index, at) {
            self.ended_by_peer();
            notices.push(Notification::DeletedIke);
        }
        match notices.is_empty() {
            true => vec![Fact::Heard],
            false => vec![Fact::Told(0, notices)],
        }
    }

    /// The children that the peer deletes: our half of each for the answer, and the peer's SPIs.
    fn take_deletes(&mut self, parts: &Parts<'_>) -> (Vec<Payload>, Vec<u32>) {
        let (mut answer, mut gone) = (Vec::new(), Vec::new());
        for delete in &parts.deletes {
            let Delete::Children { protocol, spis } = delete else {
                continue;
            };
            let Some(own) = child_protocol(*protocol) else {
                continue;
            };
            let mut halves = Vec::new();
            for spi in spis {
                let mut is_known = false;
                // A bad peer gives several children one SPI.
                while let Some(child) = self.children.of_peer(own, *spi) {
                    let spi_in = child.spi_in;
                    // RFC 7296 §1.4.1: of what we delete ourselves, the answer says nothing.
                    if !self.is_deleting(spi_in) {
                        halves.push(spi_in);
                    }
                    self.children.remove(spi_in);
                    self.queue.remove_delete(spi_in);
                    self.note_collision_gone(spi_in);
                    is_known = true;
                }
                match is_known {
                    true => gone.push(*spi),
                    false => self.note_gone(*spi),
                }
            }
            if !halves.is_empty() {
                answer.push(delete_children(own, halves));
            }
        }
        (answer, gone)
    }

    /// The peer deletes what it may have made in answer to our open request.
    fn note_gone(&mut self, spi: u32) {
        if let Some(asked) = self.asked_child()
            && asked.gone.len() < MAX_GONE
        {
            asked.gone.push(spi);
        }
    }

    /// Whether our own delete of a child is on the way.
    fn is_deleting(&self, spi: u32) -> bool {
        let mut asked = self.sas.iter().filter_map(|sa| sa.asked.as_ref());
        asked.any(|it| matches!(it.awaited, Awaited::DeletedChild { spi_in } if spi_in == spi))
    }

    /// The pair that crossed our renewal is gone. Whether ours stands is known with the answer.
    fn note_collision_gone(&mut self, spi_in: u32) {
        let asked = self.asked_child();
        let collision = asked.and_then(|it| it.collision.as_mut());
        if let Some(collision) = collision.filter(|it| it.spi == spi_in) {
            collision.is_gone = true;
        }
    }

    /// The peer has deleted an IKE SA. Returns whether it was the last one: the session is over.
    fn ike_deleted(&mut self, index: usize, at: &mut At<'_>) -> bool {
        let spi = self.sas[index].own_spi();
        // RFC 7296 §2.8.2: the peer did not notice that our renewal crossed its own.
        let crossing = self.asked_rekey_of(spi).and_then(|it| it.collision.take());
        if let Some(peers) = crossing
            .map(|it| it.spi)
            .filter(|it| self.sa_of(*it).is_some())
        {
            self.succeed(peers, spi, at);
            self.is_renewed_now = true;
        }
        // The redundant one of two that crossed.
        let own = self.sas.iter_mut().filter_map(|sa| sa.asked.as_mut());
        for asked in own {
            if let Awaited::Rekey(asked) = &mut asked.awaited {
                asked.collision.take_if(|it| it.spi == spi);
            }
        }
        let is_current = self.sas[0].own_spi() == spi;
        if !is_current && let Some(index) = self.sas.iter().position(|it| it.own_spi() == spi) {
            self.forget_replaced(index);
        }
        is_current
    }

    /// The peer has removed an IKE SA in whose place another stands.
    pub(super) fn forget_replaced(&mut self, index: usize) {
        let gone = self.sas.remove(index);
        self.abandon(gone);
        self.held_until = None;
    }

    /// An IKE SA is gone, and with it a request that the peer may not have read. What it must still
    /// know is said again under the current one.
    pub(super) fn abandon(&mut self, gone: IkeSa) {
        let begun = gone.unfinished.and_then(|it| it.child());
        self.overtaken.extend(begun);
        match gone.asked.map(|it| it.awaited) {
            Some(Awaited::Update(_)) => {
                self.mobility.told = None;
                self.mobility.is_due = true;
            }
            Some(Awaited::Addresses { names_path }) => {
                self.mobility.told = None;
                self.mobility.names_path |= names_path;
            }
            Some(Awaited::Told(payload)) => self.queue.add_first(Task::Tell(payload)),
            Some(awaited) => self.overtaken.extend(awaited.child()),
            None => {}
        }
    }

    /// The answer to our delete of a child.
    pub(super) fn on_child_deleted(&mut self, spi_in: u32) -> Vec<Fact> {
        let child = self.children.remove(spi_in);
        match child {
            // Whatever the peer still has of it is over.
            Some(child) => vec![Fact::Told(
                0,
                vec![Notification::DeletedChildren(vec![child.spi_out])],
            )],
            None => vec![Fact::Heard],
        }
    }

    /// The answer to a probe. One without COOKIE2 proves that the peer is there, and not where.
    pub(super) fn on_probe_answer(&self, number: u32, cookie: &[u8], opened: &Opened) -> Vec<Fact> {
        let Ok(parts) = opened.parts() else {
            return vec![Fact::Heard];
        };
        let returned = parts.notice(NotifyType::Cookie2).map(|it| &it.value[..]);
        if self.peer.mobike && returned.is_some_and(|it| it != cookie) {
            return vec![Fact::Failed(wrong_cookie())];
        }
        match returned == Some(cookie) || !self.peer.mobike {
            true => vec![Fact::Told(0, vec![Notification::IAmHere(number)])],
            false => vec![Fact::Heard],
        }
    }

    /// Sends a probe.
    pub(super) fn ask_probe(&mut self, number: u32, at: &mut At<'_>) {
        if self.probe_is_update() {
            return self.ask_update(Some(number), at);
        }
        let cookie = fresh_cookie(at);
        let chain = match self.peer.mobike {
            true => vec![notify_with(NotifyType::Cookie2, cookie.clone())],
            false => Vec::new(),
        };
        let awaited = Awaited::Probe {
            number,
            path: at.path,
            cookie,
        };
        self.current()
            .ask(Exchange::Informational, &chain, awaited, None, at);
    }

    /// Sends the end of a child, unless it is over.
    pub(super) fn ask_delete(&mut self, protocol: Protocol, spi_in: u32, at: &mut At<'_>) {
        self.children.set(spi_in, ChildState::Deleting);
        let chain = [delete_children(protocol, vec![spi_in])];
        let awaited = Awaited::DeletedChild { spi_in };
        self.current()
            .ask(Exchange::Informational, &chain, awaited, None, at);
    }

    /// The old pairs whose packets have arrived are deleted.
    pub(super) fn delete_due(&mut self, at: &mut At<'_>) {
        for child in self.children.due(at.now) {
            self.children.set(child.spi_in, ChildState::Deleting);
            let delete = Task::DeleteChild {
                protocol: child.protocol,
                spi_in: child.spi_in,
            };
            self.add_task(delete, at);
        }
    }
}

/// Deletes children, by the SPIs on which we receive.
pub(super) fn delete_children(protocol: Protocol, spis: Vec<u32>) -> Payload {
    let protocol: WireProtocol = wire_protocol(protocol);
    Payload::Delete(Delete::Children { protocol, spis })
}

/// The meaning of a notification outside an exchange that waits for one.
fn notification(notify: &Notify) -> Option<Notification> {
    match notify.kind {
        NotifyType::InitialContact => Some(Notification::InitialContact),
        SUPERSEDED => Some(Notification::Superseded),
        NotifyType::AuthLifetime => notify.to_auth_lifetime_seconds().ok().map(|seconds| {
            let lifetime = Duration::from_secs(seconds.into());
            Notification::AuthenticationLasts(lifetime)
        }),
        kind if kind.is_error() => Some(Notification::Other(complaint(notify))),
        _ => None,
    }
}

/// How long our authentication is good for, if an answer says so (RFC 4478 §3).
pub(super) fn lasts(parts: &Parts<'_>) -> Option<Notification> {
    parts
        .notice(NotifyType::AuthLifetime)
        .and_then(notification)
}

/// An error.
pub(super) fn complaint(notify: &Notify) -> Complaint {
    Complaint {
        name: notify_name(notify.kind),
        is_error: true,
        refuses: match notify.kind {
            NotifyType::NoProposalChosen => Some(Refusal::Proposal),
            NotifyType::TsUnacceptable => Some(Refusal::Selectors),
            _ => None,
        },
        is_about_identity: notify.kind == NotifyType::AuthenticationFailed,
        child: notify.to_child().map(|(_, spi)| spi),
    }
}
