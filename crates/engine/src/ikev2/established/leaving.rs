//! The end of a session, which the peer is told in a request like any other: in its turn, and again
//! until it is answered (RFC 7296 §1.4.1, §2.1, §2.3).

use wire::ikev2::{Exchange, NotifyType};

use super::super::parts::{delete_ike, notify};
use super::super::tasks::Awaited;
use super::super::window::{At, Opened};
use super::{Established, Subject};
use crate::ike::Fact;

impl Established {
    /// The session is over. The request that is open must be answered before the peer takes
    /// another one; if its next repetition is far, it is repeated at once. An authentication that
    /// was not answered yet is answered with a refusal, after which there is nothing to end.
    pub(in crate::ikev2) fn leave(&mut self, at: &mut At<'_>) {
        let question = self.question.take();
        self.queue.close();
        if let Some(question) = question
            && matches!(question.subject, Subject::Auth { .. })
        {
            let refusal = [notify(NotifyType::AuthenticationFailed)];
            self.sas[0].answer(&question.opened, &refusal, at);
            self.is_over = true;
            return;
        }
        self.sas[0].hurry(at.now, at.out);
        self.pump(at);
    }

    /// Sends the end.
    pub(super) fn ask_end(&mut self, at: &mut At<'_>) {
        let awaited = Awaited::DeletedIke;
        self.current()
            .ask(Exchange::Informational, &[delete_ike()], awaited, None, at);
    }

    /// Nothing new begins under an IKE SA that is about to end, as nothing does while it is
    /// renewed (RFC 7296 §2.25.2).
    pub(super) fn refuse_while_leaving(
        &mut self,
        index: usize,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let notice = [notify(NotifyType::TemporaryFailure)];
        self.sas[index].answer(opened, &notice, at);
        vec![Fact::Heard]
    }

    /// The peer has ended the session, and needs no request of ours any more.
    pub(in crate::ikev2) fn ended_by_peer(&mut self) {
        self.is_over = true;
        self.sas[1..].iter_mut().for_each(|sa| sa.asked = None);
    }

    /// Whether the peer knows that the session is over, and that replaced IKE SAs are.
    pub(in crate::ikev2) fn has_left(&self) -> bool {
        self.is_over && self.sas[1..].iter().all(|sa| sa.asked.is_none())
    }
}
