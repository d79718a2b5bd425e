//! What an answer to our request for a child agrees to.

use crypto::dh::SharedSecret;
use wire::ikev2::{KeyExchange, NotifyType};

use super::super::established::Established;
use super::super::exchange;
use super::super::keys::Nonces;
use super::super::offers::{bad_value, not_in_udp, other_method};
use super::super::parts::Parts;
use super::super::proposal::{self, child_spi};
use super::super::selectors::read;
use super::super::tasks::AskedChild;
use super::super::unfinished::{UnfinishedChild, no_keys};
use super::super::window::At;
use super::is_in_udp;
use crate::ike::{Fault, NegotiatedChild};
use crate::sa::Mode;
use crate::suite::Pfs;

impl Established {
    /// What an answer agrees to. `nonces`: those of IKE_SA_INIT, for the child of IKE_AUTH.
    pub(in crate::ikev2) fn agree_child(
        &self,
        asked: &AskedChild,
        parts: &Parts<'_>,
        nonces: Option<Nonces<'_>>,
        at: &mut At<'_>,
    ) -> Result<UnfinishedChild, Fault> {
        let task = &asked.task;
        let missing =
            || Fault::Misbehaved("an answer without SA, nonce or traffic selectors".into());
        let answer = parts.sa.ok_or_else(missing)?;
        let chosen = proposal::chosen(&task.suites, answer)?;
        let (suite, spi_out) = (chosen.suite, child_spi(chosen.proposal)?);
        let traffic = parts.traffic_i.zip(parts.traffic_r).ok_or_else(missing)?;
        let answered = (read(traffic.0), read(traffic.1));
        let original = self.original(task.mode, (&answered.1, &answered.0));
        let (local, remote) = self.as_asked(task, answered)?;
        let mode = match parts.has(NotifyType::UseTransportMode) {
            true => Mode::Transport,
            false => Mode::Tunnel,
        };
        if mode != task.mode {
            return Err(Fault::Misbehaved(format!(
                "we asked for {}, and the peer answers with {mode}",
                task.mode
            )));
        }
        let shared = finish_exchange(asked, suite.pfs, parts.exchange, at)?;
        let nonces = match nonces {
            Some(nonces) => (
                nonces.initiator.to_vec().into(),
                nonces.responder.to_vec().into(),
            ),
            None => {
                let theirs = parts.nonce.ok_or_else(missing)?;
                (asked.nonce.clone(), theirs.to_vec().into())
            }
        };
        let wishes = (self.nat.is_between(), self.connection.prefers_udp());
        let is_udp = is_in_udp(&suite, at.path, wishes, task.may_be_udp);
        if task.must_be_udp && !is_udp {
            return Err(not_in_udp());
        }
        let agreed = NegotiatedChild {
            suite,
            mode,
            is_udp_encapsulated: is_udp,
            spi_in: task.spi,
            spi_out,
            keys_in: no_keys(),
            keys_out: no_keys(),
            original,
            local,
            remote,
            lifetime_s: task.lifetime.as_secs(),
            lifetime_bytes: None,
        };
        Ok(UnfinishedChild {
            child: task.child,
            renews: task.renews,
            agreed: Box::new(agreed),
            nonces,
            secrets: shared.into_iter().collect(),
        })
    }
}

/// The shared secret of the first key exchange, where the child has PFS.
fn finish_exchange(
    asked: &AskedChild,
    pfs: Option<Pfs>,
    theirs: Option<&KeyExchange>,
    at: &mut At<'_>,
) -> Result<Option<SharedSecret>, Fault> {
    match (pfs.and_then(Pfs::method), &asked.half, theirs) {
        (None, ..) => Ok(None),
        (Some(method), Some(half), Some(theirs)) if half.method() == method => {
            let work = &mut at.out.work;
            exchange::finish(half, theirs, work)
                .map(Some)
                .map_err(bad_value)
        }
        (Some(method), ..) => Err(other_method(method)),
    }
}
