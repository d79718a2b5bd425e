//! What a peer has refused in authenticated messages, and what is offered next.
//!
//! A message carries one public value (RFC 2409 §5.5). So proposals of several groups, or with and
//! without PFS, are offered one group after the other, in the order of the configuration. Only the
//! authenticated peer can cause this: an unencrypted refusal changes nothing. A renewal begins with
//! the agreed group.

use super::super::session_id::SessionId;
use super::super::{Event, Node};
use crate::counters::DropReason;
use crate::ike::{Complaint, Fault, Remedy};
use crate::sa::ChildId;
use crate::suite::Pfs;
use crate::time::Instant;

impl Node {
    /// Handles an authenticated error notification: its exchange is over. Returns whether there was
    /// one to end.
    pub(in super::super) fn peer_refuses(
        &mut self,
        id: SessionId,
        complaint: &Complaint,
        now: Instant,
    ) -> bool {
        let session = self.sessions.get(&id);
        let Some(refused) = session.and_then(|it| it.ike.refused(complaint)) else {
            return false;
        };
        let (child, spi) = (refused.child, refused.spi);
        match refused.remedy {
            Remedy::OtherGroups(group) => {
                self.drops.count(DropReason::NoProposalChosen);
                self.offer_others(id, (child, spi), group, refused.text, now);
            }
            Remedy::Nothing => {
                let fault = Fault::Refused(refused.text);
                self.drops.count(fault.drop_reason());
                self.child_failed(id, child, spi, &fault, now);
            }
        }
        self.begin_waiting(id, now);
        self.arm_session(id);
        true
    }

    /// The peer has refused all suites of one group: offers those of the next.
    fn offer_others(
        &mut self,
        id: SessionId,
        (child, spi): (ChildId, u32),
        group: Option<Pfs>,
        refusal: String,
        now: Instant,
    ) {
        let (Some(session), Some(entry)) =
            (self.sessions.get_mut(&id), self.children.get_mut(&child))
        else {
            return;
        };
        session.ike.forget_exchange(spi);
        entry.refused.push(group);
        let event = Event::ProposalsRefused {
            connection: entry.connection.name.clone(),
            path: session.path(),
            refusal,
        };
        self.release(child, spi);
        self.outputs.tell(event);
        self.begin_child(id, child, now);
    }
}
