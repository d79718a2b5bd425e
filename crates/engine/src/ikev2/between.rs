//! What AUTH covers of the exchanges between IKE_SA_INIT and IKE_AUTH (RFC 9242 §3.3.2).

use crypto::hash::{Digest, Hash};

use crate::ike::Role;
use crate::sa::Secret;
use crate::work::{Task, Work};

/// The exchanges that are done, and what AUTH covers of them: nothing before the first.
#[derive(Default)]
pub(super) struct Between {
    pub(super) done: usize,
    /// IntAuth_i and IntAuth_r.
    initiator: Option<Digest>,
    responder: Option<Digest>,
    /// IntAuth.
    pub(super) authenticated: Vec<u8>,
}

impl Between {
    /// Takes a message of this sender, under the keys SK_pi and SK_pr that it was sent with:
    /// IntAuth_N = prf(SK_p, IntAuth_(N-1) | A | P) (RFC 9242 §3.3.2).
    pub(super) fn cover(
        &mut self,
        sender: Role,
        (prf, p): (Hash, &(Secret, Secret)),
        covered: &[u8],
        work: &mut Work,
    ) {
        let (key, chain) = match sender {
            Role::Initiator => (&p.0, &mut self.initiator),
            Role::Responder => (&p.1, &mut self.responder),
        };
        work.count(Task::Prf(prf), covered.len() as u64);
        let before = chain.as_ref().map_or(&[][..], AsRef::as_ref);
        let next = prf.hmac(&key.0, &[before, covered]);
        *chain = Some(next);
        self.authenticated = self.to_octets();
    }

    /// IntAuth_iN | IntAuth_rN | message ID of the first IKE_AUTH: one more than exchanges before.
    fn to_octets(&self) -> Vec<u8> {
        let (Some(initiator), Some(responder)) = (&self.initiator, &self.responder) else {
            return Vec::new();
        };
        let message_id = self.done as u32 + 2;
        let parts = [
            initiator.as_ref(),
            responder.as_ref(),
            &message_id.to_be_bytes(),
        ];
        parts.concat()
    }
}
