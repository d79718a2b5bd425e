//! The stage of a session, and the data that exists in each stage.

use std::sync::Arc;

use crate::config::Connection;
use crate::node::EndCause;
use crate::node::half_open::Slot;
use crate::node::session_id::SessionId;
use crate::time::Instant;

/// The stage of a session.
pub(in crate::node) enum Stage {
    /// A peer has started it and has not authenticated yet. Its connection is not known yet.
    HalfOpen(Box<Slot>),
    /// We have started it, and the peer has not authenticated yet.
    Begun(Arc<Connection>, Purpose),
    /// Both ends have authenticated.
    Established(Arc<Connection>, Tenure),
}

/// Why we have started a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::node) enum Purpose {
    /// To reach the peer, for the first time or again.
    Connect,
    /// To replace this session.
    Renew(SessionId),
    /// Another address of the same gateway authenticated first: it is deleted when it is
    /// established, or at this time.
    Surplus(Instant),
}

/// The lifetime of an established session.
pub(in crate::node) struct Tenure {
    /// Whether another session has taken over.
    pub(in crate::node) rule: Rule,
    /// When it ends, renewed or not.
    pub(in crate::node) end: End,
}

/// When an established session ends, and why.
#[derive(Clone, Copy)]
pub(in crate::node) enum End {
    /// Its lifetime, or the time that it has after another took over, is over then.
    At(Instant),
    /// At once: it has no number for another exchange.
    UsedUp,
    /// The peer was sent to another gateway, and has until then to end it itself.
    SentAway(Instant),
}

/// Whether an established session is its peer's current one.
pub(in crate::node) enum Rule {
    /// It is current. It is renewed at this time, unless a renewal is in progress.
    Current(Option<Instant>),
    /// Another session, this one, has taken over. The old one stays for exchanges in progress.
    Replaced(SessionId),
}

impl Stage {
    /// Its connection. An initiator knows it at once, a responder once the peer has authenticated.
    pub(in crate::node) fn connection(&self) -> Option<&Arc<Connection>> {
        match self {
            Self::HalfOpen(_) => None,
            Self::Begun(connection, _) | Self::Established(connection, _) => Some(connection),
        }
    }

    pub(in crate::node) fn connection_mut(&mut self) -> Option<&mut Arc<Connection>> {
        match self {
            Self::HalfOpen(_) => None,
            Self::Begun(connection, _) | Self::Established(connection, _) => Some(connection),
        }
    }

    /// When the session is to be renewed.
    pub(super) fn rekey_at(&self) -> Option<Instant> {
        match self {
            Self::Established(_, tenure) => match tenure.rule {
                Rule::Current(at) => at,
                Rule::Replaced(_) => None,
            },
            _ => None,
        }
    }

    /// When it ends, and why. A half-open exchange has its own limit.
    pub(super) fn end(&self) -> Option<(Instant, EndCause)> {
        match self {
            Self::Established(_, tenure) => Some(match tenure.end {
                End::At(at) => (at, EndCause::Expired),
                End::UsedUp => (Instant(0), EndCause::MessageIdsUsedUp),
                End::SentAway(at) => (at, EndCause::SentAway),
            }),
            Self::Begun(_, Purpose::Surplus(until)) => Some((*until, EndCause::NegotiationTooLong)),
            _ => None,
        }
    }

    /// It has no number for another exchange.
    pub(super) fn use_up(&mut self) {
        if let Self::Established(_, tenure) = self {
            tenure.end = End::UsedUp;
        }
    }

    /// The peer was sent to another gateway: it ends then at the latest.
    pub(in crate::node) fn sent_away(&mut self, until: Instant) {
        if let Self::Established(_, tenure) = self {
            tenure.end = End::SentAway(until);
        }
    }

    /// Sets when to renew it, while no other session has taken over; `None`: not now.
    pub(in crate::node) fn renew_at(&mut self, at: Option<Instant>) {
        if let Self::Established(_, tenure) = self
            && let Rule::Current(rekey_at) = &mut tenure.rule
        {
            *rekey_at = at;
        }
    }

    /// The session that took over has ended: this one is current again.
    pub(super) fn rule_again(&mut self) {
        if let Self::Established(_, tenure) = self
            && matches!(tenure.rule, Rule::Replaced(_))
        {
            tenure.rule = Rule::Current(None);
        }
    }
}
