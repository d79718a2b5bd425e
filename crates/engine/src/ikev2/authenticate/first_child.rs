//! The first child of an initiator, which it has asked for with its authentication (RFC 7296 §1.2).

use wire::ikev2::NotifyType;

use super::super::children::{ChildSa, ChildState};
use super::super::established::Established;
use super::super::keys::Nonces;
use super::super::offers::refused;
use super::super::parts::Parts;
use super::super::tasks::AskedChild;
use super::super::window::At;
use crate::ike::{AgreedChild, Fact, Role};

/// Whether an answer says that the IKE SA stands and the child has an exchange of its own: the
/// gateway requires that (RFC 6023), or cannot make it now (RFC 7296 §2.25).
pub(super) fn comes_later(parts: &Parts<'_>) -> bool {
    let error = parts.error().filter(|_| parts.sa.is_none());
    error.is_some_and(|it| {
        matches!(
            it.kind,
            NotifyType::NoAdditionalSas | NotifyType::TemporaryFailure
        )
    })
}

impl Established {
    /// What became of the child that we asked for with our authentication.
    pub(super) fn first_child(
        &mut self,
        asked: AskedChild,
        parts: &Parts<'_>,
        (ni, nr): &(Vec<u8>, Vec<u8>),
        at: &mut At<'_>,
    ) -> Fact {
        let (child, spi) = (asked.task.child, asked.task.spi);
        if let (Some(error), None) = (parts.error(), parts.sa) {
            return Fact::ChildFailed(child, spi, refused(&asked.task, error));
        }
        let nonces = Nonces {
            initiator: ni,
            responder: nr,
        };
        if asked.is_abandoned {
            self.delete_unknown(&asked, at);
            return Fact::Heard;
        }
        let made = self.agree_child(&asked, parts, Some(nonces), at);
        let sa = (self.sas[0].suite.prf, &self.sas[0].d);
        let work = &mut at.out.work;
        match made.and_then(|made| made.finish(Role::Initiator, sa, work)) {
            Ok(negotiated) => {
                self.children.add(ChildSa {
                    child,
                    protocol: negotiated.suite.protocol,
                    spi_in: negotiated.spi_in,
                    spi_out: negotiated.spi_out,
                    state: ChildState::Installed,
                });
                Fact::Child(Box::new(AgreedChild {
                    child,
                    exchange: 0,
                    is_ours: true,
                    begun: asked.begun,
                    renews: None,
                    negotiated,
                    is_redundant: Some(false),
                }))
            }
            Err(fault) => {
                self.delete_unknown(&asked, at);
                Fact::ChildFailed(child, spi, fault)
            }
        }
    }
}
