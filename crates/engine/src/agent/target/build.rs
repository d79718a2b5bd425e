//! Steps 5 and 6: the certificate, our end of the tunnel, the answer; and taking the end down.

use crypto::hpke::PublicKey;
use wire::agent::{Authorization, Kind, Tunneling, Verdict};
use zeroize::Zeroizing;

use super::{
    ANSWER_LIVES, ASK_MAX, Answered, Ask, Build, Credential, DESTROY_AGAIN, DESTROY_AGAIN_MAX,
    Progress, Question, SessionKey, Stage, Target, verdict_of,
};
use crate::agent::audit::{Step, Why};
use crate::agent::description::words_of;
use crate::agent::envelope::{self, Use};
use crate::agent::legacy::SESSION_KEY_LEN;
use crate::agent::{ARRIVAL_MAX, TunnelId};
use crate::time::Instant;

/// Octets of our part, so that the messages around it are within their limit.
const PART_MAX: usize = 12_288;

impl Target {
    /// The key is spent: the certificate comes next, or the session key of the paper's own form.
    pub(super) fn certify(&mut self, id: TunnelId, now: Instant) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let Some(referred) = &mut tunnel.referral else {
            return;
        };
        let Some(fresh) = &referred.fresh else {
            let mut key = SessionKey([0; SESSION_KEY_LEN]);
            self.random.fill(&mut key.0);
            referred.session_key = Some(key);
            return self.build(id, Vec::new(), now);
        };
        tunnel.stage = Stage::Asking(Question::Certify, now + ASK_MAX);
        let ask = Ask::Certify {
            tunnel: id,
            tunnel_key: fresh.tunnel_key.clone(),
            client_identity: tunnel.spending.client_identity.clone(),
            until: tunnel.spending.until,
        };
        self.ask(id, ask);
    }

    /// Builds our end, if what Client needs to know fits into a message.
    pub(super) fn build(&mut self, id: TunnelId, chain: Vec<Vec<u8>>, now: Instant) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let (Some(referred), Some(option)) = (&mut tunnel.referral, tunnel.option) else {
            return;
        };
        let credential = match (&referred.session_key, chain.first()) {
            (Some(key), _) => Credential::SessionKey(key.clone()),
            (None, Some(leaf)) => Credential::Certificate(leaf.clone()),
            (None, None) => return self.refuse(id, Why::NoCertificate, now),
        };
        referred.client_chain = chain;
        let Some((ike, _)) = tunnel.ike else {
            return self.refuse(id, Why::NoCommonVersion, now);
        };
        let build = Build {
            tunnel: id,
            option,
            client_identity: tunnel.spending.client_identity.clone(),
            credential,
            ike,
            ppk: referred.ppk.take(),
            networks: referred.networks.clone(),
            lifetime: referred.ends - now,
        };
        if self.tunneling(id).is_none() {
            return self.refuse(id, Why::NoCertificate, now);
        }
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            tunnel.stage = Stage::Asking(Question::Build, now + ASK_MAX);
        }
        self.ask(id, Ask::Build(Box::new(build)));
    }

    /// The octets of Tunneling Info. None if they are above a limit.
    fn tunneling(&self, id: TunnelId) -> Option<Vec<u8>> {
        let tunnel = self.tunnels.get(&id)?;
        let referred = tunnel.referral.as_ref()?;
        let (version, has_ppk) = tunnel.ike?;
        let identity = self.config.keys.identity();
        let tunneling = Tunneling {
            sealing_key: identity.sealing.0,
            signing_key: identity.signing.0,
            option: tunnel.option?.id(),
            ike_version: version.number(),
            has_ppk,
            until: u64::try_from(tunnel.spending.until.0).ok()?,
            addresses: self.config.addresses.clone(),
            networks: referred.networks.clone(),
            proposals: words_of(&self.config.proposals, version),
            target_identity: self.config.identity.clone(),
            client_identity: tunnel.spending.client_identity.clone(),
            target_chain: match referred.session_key {
                None => self.config.chain.clone(),
                Some(_) => Vec::new(),
            },
            client_chain: referred.client_chain.clone(),
        };
        let octets = tunneling.to_vec().ok()?;
        (octets.len() <= PART_MAX).then_some(octets)
    }

    /// Our part for Client: sealed to its fresh key and signed by us, or in clear with the session
    /// key in the paper's own form.
    fn part(&mut self, id: TunnelId) -> Option<Vec<u8>> {
        let tunneling = Zeroizing::new(self.tunneling(id)?);
        let referred = self.tunnels.get(&id)?.referral.as_ref()?;
        let Some(fresh) = &referred.fresh else {
            let key = referred.session_key.as_ref()?;
            return Some([&key.0[..], &tunneling].concat());
        };
        let (what, label) = (Use::Part, referred.request_id);
        let to = PublicKey(fresh.sealing_key);
        let body = [&referred.request.0[..], &tunneling].concat();
        let octets = envelope::signed_octets(what, &label, to, &body);
        let signature = self.config.keys.signing.sign(&[&octets]);
        let signed = (&body[..], &signature);
        let sealed = envelope::seal_signed(what, label, to, signed, &mut self.random);
        let (encapsulated, ciphertext) = sealed?;
        Some([&encapsulated[..], &ciphertext].concat())
    }

    /// Our end is there: Host is told, and Client expected.
    pub(super) fn authorize(&mut self, id: TunnelId, now: Instant) {
        self.tell(id, Step::Built, None, now);
        let Some(part) = self.part(id) else {
            return self.give_up(id, Question::Build, now);
        };
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let Some(referred) = &tunnel.referral else {
            return;
        };
        tunnel.stage = Stage::Waiting(now + ARRIVAL_MAX, referred.ends);
        self.answer(id, Verdict::Granted, part, now);
        self.tell(id, Step::Authorized, None, now);
    }

    /// An answer has not come, or says no.
    pub(super) fn give_up(&mut self, id: TunnelId, question: Question, now: Instant) {
        let why = match question {
            Question::Standing | Question::Spend => Why::StoreUnavailable,
            Question::Certify => Why::NoCertificate,
            Question::Build => Why::BackEndFailed,
        };
        self.refuse(id, why, now);
        // It may be built in part.
        if question == Question::Build {
            self.destroy(id, why, now);
        }
    }

    /// Refuses a referral. Nothing of it is left but the answer.
    pub(super) fn refuse(&mut self, id: TunnelId, why: Why, now: Instant) {
        self.tell(id, Step::Refused, Some(why), now);
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        // What may be written of it is over, and nothing is built. A key that was spent before
        // belongs to another tunnel.
        let is_written = match tunnel.stage {
            Stage::Asking(Question::Spend, _) => why != Why::Replayed,
            Stage::Asking(Question::Certify, _) => true,
            _ => false,
        };
        tunnel.stage = Stage::Over;
        self.answer(id, verdict_of(why), Vec::new(), now);
        if is_written {
            self.put(Ask::Note(id, Progress::Ended));
        }
    }

    fn answer(&mut self, id: TunnelId, verdict: Verdict, part: Vec<u8>, now: Instant) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let Some(referred) = tunnel.referral.take() else {
            return;
        };
        let is_granted = verdict == Verdict::Granted;
        let body = Authorization {
            request: referred.request.0,
            verdict,
            option: match tunnel.option {
                Some(option) if is_granted => option.id(),
                _ => 0,
            },
            until: match u64::try_from(tunnel.spending.until.0) {
                Ok(until) if is_granted => until,
                _ => 0,
            },
            part,
        };
        let body = Zeroizing::new(body.to_vec());
        let message = self.seal_to_host(Kind::Authorization, referred.host, &body);
        let (Some(message), Some(tunnel)) = (message, self.tunnels.get_mut(&id)) else {
            return;
        };
        let (to, host) = (referred.from, referred.host);
        tunnel.answer = Some(Answered {
            message: message.clone(),
            host,
            repeats: 0,
            until: now + ANSWER_LIVES,
        });
        self.send_to_host(to, host, &message, now);
    }

    /// Takes our end down.
    pub(super) fn destroy(&mut self, id: TunnelId, why: Why, now: Instant) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        tunnel.stage = Stage::Destroying {
            why,
            next: now + ASK_MAX,
            pause: DESTROY_AGAIN,
            has_failed: false,
        };
        self.ask(id, Ask::Destroy(id));
    }

    /// It could not be taken down: the log says so once, and it is tried until it is.
    pub(super) fn still_up(&mut self, id: TunnelId, now: Instant) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let Stage::Destroying {
            why,
            next,
            pause,
            has_failed,
        } = &mut tunnel.stage
        else {
            return;
        };
        *next = now + *pause;
        *pause = (*pause * 2).min(DESTROY_AGAIN_MAX);
        let why = *why;
        if !std::mem::replace(has_failed, true) {
            self.tell(id, Step::StillUp, Some(why), now);
        }
    }

    /// Our end is down.
    pub(super) fn destroyed(&mut self, id: TunnelId, now: Instant) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let Stage::Destroying { why, .. } = tunnel.stage else {
            return;
        };
        tunnel.stage = Stage::Over;
        self.tell(id, Step::Ended, Some(why), now);
        self.put(Ask::Note(id, Progress::Ended));
        self.handle_timeout(now);
    }
}
