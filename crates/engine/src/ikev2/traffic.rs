//! How both ends of a child name its traffic. In transport mode a NAT makes them see different
//! addresses (RFC 7296 §2.23.1).

use std::net::SocketAddr;

use wire::ikev2::{NotifyType, Payload};

use super::established::Established;
use super::parts::notify;
use super::selectors::{self, are_within, write};
use super::tasks::ChildTask;
use crate::ike::{Fault, Grant};
use crate::sa::{Mode, OriginalAddresses, Path};
use crate::selector::TrafficSelector;

impl Established {
    /// What our answer says of the traffic. Through a NAT, the ends of transport mode are named as
    /// we see them (RFC 7296 §2.23.1).
    pub(super) fn granted_payloads(&self, grant: &Grant<'_>, path: Path) -> Vec<Payload> {
        let is_translated = self.is_translated(grant.child.mode);
        let named = |all: &[TrafficSelector], seen: SocketAddr| match is_translated {
            true => write(&selectors::at(seen.ip(), all)),
            false => write(all),
        };
        let mut payloads = vec![
            Payload::TrafficSelectorsInitiator(named(&grant.remote, path.remote)),
            Payload::TrafficSelectorsResponder(named(&grant.local, path.local)),
        ];
        if grant.child.mode == Mode::Transport {
            payloads.push(notify(NotifyType::UseTransportMode));
        }
        payloads
    }

    /// The selectors of an answer, which lie within what was asked for. Through a NAT, the peer
    /// names the ends of transport mode as it sees them.
    pub(super) fn as_asked(
        &self,
        task: &ChildTask,
        (mut local, mut remote): (Vec<TrafficSelector>, Vec<TrafficSelector>),
    ) -> Result<(Vec<TrafficSelector>, Vec<TrafficSelector>), Fault> {
        if self.is_translated(task.mode)
            && let (Some(own), Some(peer)) = (task.local.first(), task.remote.first())
        {
            local = selectors::at(own.first, &local);
            remote = selectors::at(peer.first, &remote);
        }
        match are_within(&local, &task.local) && are_within(&remote, &task.remote) {
            true => Ok((local, remote)),
            false => Err(Fault::Misbehaved(
                "the peer answers with traffic selectors that we did not ask for".into(),
            )),
        }
    }

    fn is_translated(&self, mode: Mode) -> bool {
        mode == Mode::Transport && self.nat.is_between()
    }

    /// Transport mode through a NAT: the addresses before translation are in the selectors (RFC
    /// 7296 §2.23.1).
    pub(super) fn original(
        &self,
        mode: Mode,
        (peer, own): (&[TrafficSelector], &[TrafficSelector]),
    ) -> Option<OriginalAddresses> {
        let (peer, own) = (peer.first()?, own.first()?);
        self.is_translated(mode).then_some(OriginalAddresses {
            peer: peer.first,
            own: own.first,
        })
    }
}
