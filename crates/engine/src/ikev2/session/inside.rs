//! What tests reach of a session.

use std::sync::Arc;

use crypto::rand::Stream;
use wire::ikev2::Payload;

use super::{Session, State};
use crate::config::Connection;
use crate::ike::Outbox;
use crate::ikev2::established::Established;
use crate::ikev2::tasks::Task;
use crate::ikev2::window::IkeSa;
use crate::sa::Secret;
use crate::time::Instant;

impl Session {
    /// The key that a user who has passed EAP must prove next.
    pub(in crate::ikev2) fn key_of_eap(&mut self) -> Option<&mut Secret> {
        let State::Answering(answering) = &mut self.state else {
            return None;
        };
        let proven = answering.examining.as_mut()?.proven.as_mut()?;
        Some(&mut proven.1)
    }

    /// A station that waits for an answer has another configuration.
    pub(in crate::ikev2) fn reconfigure(&mut self, connection: Arc<Connection>) {
        let State::Authenticating(it) = &mut self.state else {
            panic!("it does not wait for an answer");
        };
        it.connection = connection;
    }

    /// Our own message of IKE_SA_INIT as AUTH covers it.
    pub(in crate::ikev2) fn own_first(&mut self) -> &mut Vec<u8> {
        match &mut self.state {
            State::Asking(it) => &mut it.0.request,
            State::Answering(it) => &mut it.init.answer,
            _ => panic!("IKE_SA_INIT is over"),
        }
    }

    /// What AUTH covers of the exchanges before it.
    pub(in crate::ikev2) fn between(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.state {
            State::Answering(it) => Some(&mut it.init.between.authenticated),
            State::Authenticating(it) => Some(it.between()),
            _ => None,
        }
    }

    /// The IKE SA of an initiator that is not established.
    pub(in crate::ikev2) fn unproven(&mut self) -> Option<&mut IkeSa> {
        match &mut self.state {
            State::Authenticating(it) => Some(&mut it.sa),
            _ => None,
        }
    }

    /// Tells the peer something that it only has to read.
    pub(crate) fn tell_for_testing(
        &mut self,
        notice: Payload,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) {
        self.with(random, now, out, |it, at| {
            it.add_task(Task::Tell(notice), at);
        });
    }

    /// An established session.
    pub(in crate::ikev2) fn inside(&mut self) -> &mut Established {
        self.established_mut().expect("established")
    }
}
