//! The outputs of a node in order, and the causes of its events.

use std::collections::VecDeque;

use super::{Event, Output};
use crate::identity::Peer;
use crate::plane::{InboundChange, OutboundChange};

/// The established peer that caused an event, if one did. [`Node::takes_line`] decides whether the
/// log may have one more line about it.
///
/// [`Node::takes_line`]: super::Node::takes_line
#[derive(Clone, Default)]
pub struct Cause(pub(super) Option<Peer>);

/// Outputs that have not been polled yet.
pub(super) struct Outputs {
    queue: VecDeque<Output>,
    /// Whether the queue is drained, so that the next input may come.
    is_drained: bool,
    cause: Cause,
}

impl Outputs {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            is_drained: true,
            cause: Cause::default(),
        }
    }

    /// An input has come. Its events have no cause until [`Self::blame`] names one.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.is_drained, "drain outputs before the next input");
        self.is_drained = false;
        self.cause = Cause::default();
    }

    /// Events from now on are caused by this established peer; `None`: by no authenticated one.
    pub(super) fn blame(&mut self, peer: Option<Peer>) {
        self.cause = Cause(peer);
    }

    pub(super) fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.push(Output::Event(event, self.cause.clone()));
    }

    pub(super) fn inbound(&mut self, change: InboundChange) {
        self.push(Output::Inbound(change));
    }

    pub(super) fn outbound(&mut self, change: OutboundChange) {
        self.push(Output::Outbound(change));
    }

    /// The next output. `None`: the queue is drained.
    pub(super) fn pop(&mut self) -> Option<Output> {
        self.is_drained = self.queue.is_empty();
        self.queue.pop_front()
    }
}
