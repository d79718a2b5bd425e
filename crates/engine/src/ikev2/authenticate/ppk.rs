//! Post-quantum pre-shared keys in IKE_AUTH (RFC 8784), in both roles.
//!
//! ```text
//! initiator                                                          responder
//! IKE_SA_INIT: .., N(USE_PPK) -->
//!                                                      <-- .., N(USE_PPK)
//! IKE_AUTH: AUTH, N(PPK_IDENTITY)(id), [N(NO_PPK_AUTH)(AUTH without it)] -->
//!                                                      <-- AUTH, [N(PPK_IDENTITY)]
//! ```
//!
//! The key goes into SK_pi and SK_pr, so into AUTH, and into SK_d, so into the keys of children and
//! of every later IKE SA. The messages of the first IKE SA are without it. With EAP the initiator
//! names the key with its last AUTH, so the responder's first one is without it. Left out: the type
//! PPK_ID_OPAQUE.

use std::sync::Arc;

use crypto::hash::is_equal;
use wire::ikev2::{Authentication, NotifyType, Payload};

use super::super::init::Init;
use super::super::keys::with_ppk;
use super::super::parts::{Parts, notify};
use super::super::ppk::{Agreed, FIXED, Mixed, has_any, lacking};
use super::super::window::IkeSa;
use crate::config::{Connection, Ppk};
use crate::eap::told;
use crate::ike::Fault;
use crate::work::Work;

impl Init {
    /// Uses a key from the next AUTH on.
    pub(in crate::ikev2) fn mix(&mut self, ppk: &Arc<Ppk>, work: &mut Work) {
        let prf = self.suite.prf;
        let mut mix = |key| with_ppk(prf, &ppk.key, key, work);
        self.ppk.mixed = Some(Mixed {
            ppk: Arc::clone(ppk),
            p: Some((mix(&self.p.0), mix(&self.p.1))),
        });
    }

    /// The session has the key from now on: whatever SK_d makes depends on it.
    pub(in crate::ikev2) fn mix_into(&self, sa: &mut IkeSa, work: &mut Work) {
        if let Some(mixed) = self.ppk.mixed.as_ref().filter(|it| it.p.is_some()) {
            sa.d = with_ppk(self.suite.prf, &mixed.ppk.key, &sa.d, work);
        }
    }

    /// The key that an initiator names, if the peer has announced that it has one.
    pub(in crate::ikev2) fn wanted_ppk(&self, connection: &Connection) -> Option<Arc<Ppk>> {
        let is_due = self.peer.ppk && !self.ppk.is_early;
        let ppk = connection.ppk.as_ref().filter(|_| is_due);
        ppk.map(Arc::clone)
    }

    /// Initiator: the responder has answered, with the key or without.
    pub(in crate::ikev2) fn settle(&mut self, parts: &Parts<'_>) -> Result<(), Fault> {
        let is_used = self.ppk.is_early || parts.has(NotifyType::PpkIdentity);
        match self.ppk.mixed.take_if(|_| !is_used) {
            Some(mixed) if mixed.ppk.is_required => Err(lacking(&mixed.ppk)),
            _ => Ok(()),
        }
    }

    /// Responder: the initiator's AUTH is here, with a key or without.
    pub(in crate::ikev2) fn take_ppk(
        &mut self,
        candidates: &[Arc<Connection>],
        parts: &Parts<'_>,
        work: &mut Work,
    ) -> Result<(), Fault> {
        if self.ppk.is_early {
            return Ok(());
        }
        self.ppk = Agreed::default();
        let mut known = candidates.iter().filter_map(|it| it.ppk.as_ref());
        let named = parts.notice(NotifyType::PpkIdentity);
        let (Some(named), true) = (named, self.peer.ppk && has_any(candidates)) else {
            return Ok(());
        };
        let (kind, id) = named.to_ppk_identity()?;
        match known.find(|it| kind == FIXED && it.id.as_bytes() == id) {
            Some(ppk) => self.mix(&Arc::clone(ppk), work),
            None => {
                let fallback = parts.notice(NotifyType::NoPpkAuth);
                let fallback = fallback.ok_or_else(|| {
                    let id = told(id);
                    Fault::Unauthenticated(format!(
                        "the peer requires the post-quantum pre-shared key {id}, which no \
                         connection here has"
                    ))
                })?;
                self.ppk.fallback = Some(fallback.value.clone());
            }
        }
        Ok(())
    }

    /// The AUTH that counts, if it is that without a key.
    pub(in crate::ikev2) fn fallback(&self, parts: &Parts<'_>) -> Option<Authentication> {
        Some(Authentication {
            method: parts.auth?.method,
            value: self.ppk.fallback.clone()?,
        })
    }

    /// Responder: whether the connection of a peer that has proven itself takes it with this key,
    /// or without one.
    pub(in crate::ikev2) fn confirm(&self, connection: &Connection) -> Result<(), Fault> {
        let own = connection.ppk.as_ref();
        match (&self.ppk.mixed, own) {
            (Some(mixed), Some(own)) if is_equal(&mixed.ppk.key.0, &own.key.0) => Ok(()),
            (Some(mixed), _) => Err(Fault::Unauthenticated(format!(
                "the post-quantum pre-shared key {:?} is not the one of connection {}",
                mixed.ppk.id, connection.name
            ))),
            (None, Some(own)) if own.is_required => Err(lacking(own)),
            (None, _) => Ok(()),
        }
    }

    /// Responder: what the answer says of the key.
    pub(in crate::ikev2) fn ppk_answer(&self) -> Option<Payload> {
        let mixed = self.ppk.mixed.as_ref().filter(|it| it.p.is_some());
        mixed.map(|_| notify(NotifyType::PpkIdentity))
    }
}
