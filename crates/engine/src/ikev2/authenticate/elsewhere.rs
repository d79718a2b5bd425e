//! Another gateway, once both ends have keys (RFC 5685 §5, §6): in IKE_AUTH, where the gateway has
//! proven itself first, and in an INFORMATIONAL.

use wire::ikev2::{Gateway, Notify, NotifyType, Payload, Redirect};

use super::super::established::{Established, Subject};
use super::super::parts::{Parts, delete_ike};
use super::super::tasks::Task;
use super::super::window::At;
use super::{Answered, Authenticating};
use crate::ike::{Fact, Fault, Notification, Role};

impl Authenticating {
    /// Where a gateway that has proven itself sends us. `is_established`: we have proven ourselves
    /// too, so it is told that the IKE SA is over.
    pub(super) fn elsewhere(
        &mut self,
        parts: &Parts<'_>,
        is_established: bool,
        at: &mut At<'_>,
    ) -> Option<Result<Gateway, Fault>> {
        let sent = self.wishes.travel.sent_to(&self.connection, &[], parts)?;
        if is_established {
            self.sa.tell_end(delete_ike(), at);
        }
        Some(sent)
    }

    /// Nothing goes on, but for what the gateway is told.
    pub(super) fn over(self, fact: Fact) -> Answered {
        Answered::Over(Box::new(self.sa), fact)
    }
}

impl Established {
    /// Where a message of our gateway sends us.
    pub(in crate::ikev2) fn sent_to(&self, parts: &Parts<'_>) -> Option<Notification> {
        let redirect = parts.notice(NotifyType::Redirect)?.to_redirect().ok()?;
        let is_fine = self.role == Role::Initiator && redirect.nonce.is_empty();
        is_fine.then_some(Notification::SentTo(redirect.gateway))
    }

    /// Whether the peer goes to this gateway when it is sent there. Who has just come from there is
    /// not sent back; who is connected may be: later the other gateway may take peers again.
    pub(in crate::ikev2) fn may_be_sent_to(&self, gateway: &Gateway) -> bool {
        let question = self.question.as_ref();
        let is_new = question.is_some_and(|it| matches!(it.subject, Subject::Auth { .. }));
        let comes_from_there = is_new && self.peer.from.as_deref() == Some(gateway);
        self.role == Role::Responder && self.peer.redirect && !comes_from_there
    }

    /// Sends the peer to another gateway: with the answer to its authentication, which then gives
    /// it nothing else, or at once.
    pub(in crate::ikev2) fn send_away(&mut self, gateway: &Gateway, at: &mut At<'_>) {
        let redirect = Redirect {
            gateway: gateway.clone(),
            nonce: Vec::new(),
        };
        let notice = Payload::Notify(Notify::redirect(&redirect));
        match &mut self.question {
            Some(question) if matches!(question.subject, Subject::Auth { .. }) => {
                question.is_refused = true;
                self.is_sent_away = true;
                question.answer = vec![notice];
            }
            _ => self.add_task(Task::Tell(notice), at),
        }
    }
}
