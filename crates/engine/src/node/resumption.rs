//! Session resumption (RFC 5723): who gets a ticket, when one is worth nothing any more, and the
//! station that keeps one for its next session. `ikev2/ticket.rs` has what is in a ticket.

use super::ike::Ike;
use super::session::Session;
use super::session_id::SessionId;
use super::{EndCause, Event, Node};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::ikev2::Ticket;
use crate::sa::Path;
use crate::time::{Calendar, Instant};

impl EndCause {
    /// Whether a session ended without either end's will: a station goes on from it, and its
    /// gateway lets it.
    fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::PeerSilent | Self::PeerCrashed | Self::OwnAddressChanged | Self::Failed(_)
        )
    }
}

impl Node {
    /// A peer asks for a ticket.
    pub(super) fn give_ticket(&mut self, id: SessionId, now: Instant) {
        let calendar = self.today(now);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(ike) = session.ike.v2_mut() else {
            return;
        };
        let (tickets, random) = self.kept.tickets();
        let given = ike.grant_ticket(tickets, (calendar, now), random);
        if let Some(former) = given.former {
            tickets.spend(former.expires, former.id);
        }
        self.kept.note(given.has_new_key);
        self.keep_secrets();
        if let Some(octets) = given.too_large {
            self.tell_ticket_too_large(id, octets);
        }
    }

    /// A ticket has so many octets, and may have so many: it is not given, or not kept.
    pub(super) fn tell_ticket_too_large(&mut self, id: SessionId, (octets, most): (usize, usize)) {
        let session = self.sessions.get(&id);
        let peer = session.and_then(|it| it.ike.identity());
        self.outputs.tell(Event::TicketTooLarge {
            connection: session
                .and_then(Session::connection_name)
                .unwrap_or_default(),
            peer: peer.map(ToString::to_string).unwrap_or_default(),
            octets,
            most,
        });
    }

    /// A session goes on from one that was lost, which ends without a word (RFC 5723 §4.3.4).
    /// Returns whether its ticket was used before: then it has ended instead.
    pub(super) fn refuses_ticket(
        &mut self,
        id: SessionId,
        connection: &Connection,
        now: Instant,
    ) -> bool {
        let ike = self.sessions.get(&id).and_then(|it| it.ike.v2());
        let Some((spent, lost)) = ike.and_then(|ike| ike.resumed_by()) else {
            return false;
        };
        let (tickets, _) = self.kept.tickets();
        let is_first = tickets.spend(spent.expires, spent.id);
        if !is_first {
            self.drops.count(DropReason::TicketRefused);
            let path = self.sessions[&id].path();
            self.outputs.tell(Event::NegotiationFailed {
                connection: Some(connection.name.clone()),
                path,
                reason: "a ticket was used twice at the same time".to_owned(),
            });
            self.close_session(
                id,
                EndCause::Failed("a ticket was used twice".into()),
                true,
                now,
            );
            return true;
        }
        if let Some(old) = self.sessions.of_own_spi(lost).filter(|old| *old != id) {
            self.close_session(old, EndCause::Resumed, false, now);
        }
        false
    }

    /// The IKE SA of a session was renewed: its ticket is worth nothing (RFC 5723 §6.2).
    pub(super) fn renew_ticket(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = session.ike.outbox();
        let Some(ike) = session.ike.v2_mut() else {
            return;
        };
        let given = ike.renew_ticket(&mut self.random, now, &mut out);
        self.flush(Some(id), out);
        if let Some(spent) = given {
            self.kept.tickets().0.spend(spent.expires, spent.id);
        }
    }

    /// A session ends. If it was lost, or has not come to be, its station keeps the ticket;
    /// otherwise nobody may use it.
    pub(super) fn settle_ticket(&mut self, id: SessionId, cause: &EndCause) {
        let Some(Session {
            ike: Ike::V2(ike), ..
        }) = self.sessions.get_mut(&id)
        else {
            return;
        };
        let remote = ike.path().remote.ip();
        let is_kept = cause.is_loss() || !ike.is_established() && *cause != EndCause::TakenDown;
        let (ticket, given) = (ike.take_ticket(), ike.take_given());
        let index = self.stations.of_session(id);
        let index = index.or_else(|| self.stations.of_racer(id));
        if let (Some(ticket), Some(index), true) = (ticket, index, is_kept) {
            self.stations.keep_ticket(index, remote, ticket);
        }
        if let Some(spent) = given.filter(|_| !cause.is_loss()) {
            self.kept.tickets().0.spend(spent.expires, spent.id);
        }
    }

    /// The ticket with which a station goes on over this path. It is used once.
    pub(super) fn take_ticket(
        &mut self,
        connection: &Connection,
        path: Path,
        now: Instant,
    ) -> Option<Box<Ticket>> {
        let ticket = self
            .stations
            .take_ticket(&connection.name, path.remote.ip())?;
        ticket.is_good(connection, now).then_some(ticket)
    }

    /// The date.
    pub(super) fn today(&self, now: Instant) -> Calendar {
        self.calendar.0.at(self.calendar.1, now)
    }
}
