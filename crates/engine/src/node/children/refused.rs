//! What a peer has refused in authenticated messages, and what is offered next.
//!
//! A message carries one public value (RFC 2409 §5.5). So proposals of several groups, or with and
//! without PFS, are offered one group after the other, in the order of the configuration. Only the
//! peer itself can cause this: an unencrypted refusal changes nothing. A renewal begins with the
//! group that was agreed on.

use crypto::dh::Group;

use super::super::session_id::SessionId;
use super::super::{Event, Node};
use crate::counters::DropReason;
use crate::ike::{Fault, Refusal};
use crate::ikev1::informational::Complaint;
use crate::sa::ChildId;
use crate::time::Instant;

impl Node {
    /// An authentic error notification: the quick mode that it names by our SPI is over, or, where
    /// it names none, the one of ours that has waited longest. Some peers name an SPI of their own:
    /// then it is the one under way, if there is no other. Whether there was one to end.
    pub(in super::super) fn peer_refuses(
        &mut self,
        id: SessionId,
        complaint: &Complaint,
        now: Instant,
    ) -> bool {
        let Some(session) = self.sessions.get(&id) else {
            return false;
        };
        let mut open = session.quicks.iter().filter(|p| !p.quick.is_done());
        let asked = || session.quicks.iter().filter(|p| p.quick.asked().is_some());
        let names_none = complaint.child().is_none() || asked().count() == 1;
        let named = open.find(|pending| complaint.child() == Some(pending.spi));
        let Some(pending) = named.or_else(|| asked().next().filter(|_| names_none)) else {
            return false;
        };
        let (child, spi) = (pending.child, pending.spi);
        let name = complaint.name();
        let is_about_proposals = complaint.refuses() == Some(Refusal::Proposal);
        let text = match pending.quick.asked() {
            Some((words, _)) if complaint.refuses() == Some(Refusal::Selectors) => format!(
                "the peer refused with {name}: it does not protect these networks for us; we \
                 asked for {words}"
            ),
            Some((words, _)) => format!("the peer refused with {name}; we asked for {words}"),
            None => format!("the peer refused our answer with {name}"),
        };
        let further = pending.quick.group_before_others();
        if let Some(group) = further.filter(|_| is_about_proposals) {
            self.drops.count(DropReason::NoProposalChosen);
            self.offer_others(id, (child, spi), group, text, now);
        } else {
            let is_pfs = is_about_proposals && pending.quick.needs_pfs();
            let fault = Fault::Refused(match is_pfs {
                true => format!("{text}; all of that is with PFS, which the peer may not want"),
                false => text,
            });
            self.count_fault(&fault);
            self.quick_failed(id, child, spi, &fault, now);
        }
        self.begin_waiting(id, now);
        self.arm_session(id);
        true
    }

    /// The peer has refused all of one group: the next one's are offered.
    fn offer_others(
        &mut self,
        id: SessionId,
        (child, spi): (ChildId, u32),
        group: Option<Group>,
        refusal: String,
        now: Instant,
    ) {
        let (Some(session), Some(entry)) =
            (self.sessions.get_mut(&id), self.children.get_mut(&child))
        else {
            return;
        };
        session.quicks.retain(|pending| pending.spi != spi);
        entry.refused.push(group);
        let event = Event::PeerComplains {
            connection: Some(entry.connection.name.clone()),
            path: session.path,
            complaint: format!("{refusal}; our other proposals are next"),
        };
        self.by_spi.remove(&spi);
        self.tell(event);
        self.begin_quick(id, child, now);
    }
}
