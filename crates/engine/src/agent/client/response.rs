//! Steps 8 and 9: what Host has brought, and whether it is Target's.

use crypto::ed25519::VerifyKey;
use crypto::hpke::PublicKey;
use wire::agent::{Fate, Kind, Response, Retry, Sealed, Tunneling, Verdict};

use super::{
    Asking, BUILD_MAX, CLOCK_BEHIND_MAX, COOKIES_MAX, Client, Discard, Outcome, Output, Stage,
    Tunnel,
};
use crate::agent::audit::{Step, Why};
use crate::agent::envelope::{self, Use};
use crate::agent::identity::Identity;
use crate::agent::ike::IkeVersion;
use crate::agent::objectives::SecurityOption;
use crate::agent::target::SessionKey;
use crate::agent::{Clock, LIFETIME_MIN, TunnelId, calendar};
use crate::time::{Duration, Instant};

impl Client {
    /// Host is busy. The same request goes out again, with the cookie.
    pub(super) fn hear_retry(&mut self, retry: &Retry) {
        let Stage::Asking(asking) = &mut self.stage else {
            return self.count(Discard::Unexpected);
        };
        if retry.label != self.config.handle.0 || asking.cookies >= COOKIES_MAX {
            return self.count(Discard::Unexpected);
        }
        asking.cookies += 1;
        asking.sealed.cookie = Some(retry.cookie);
        let payload = asking.sealed.to_vec();
        asking.retry.message.clone_from(&payload);
        let hosts = self.config.head.addresses.len().max(1);
        let host = (asking.retry.sent as usize - 1) % hosts;
        self.outputs.push_back(Output::Send { host, payload });
    }

    pub(super) fn hear_response(&mut self, sealed: &Sealed, now: Instant) {
        let Stage::Asking(asking) = &self.stage else {
            return self.count(Discard::Unexpected);
        };
        if sealed.label != asking.draft.request.request_id {
            return self.count(Discard::Unexpected);
        }
        let Some(response) = self.open_response(asking, sealed) else {
            return self.count(Discard::NotProven);
        };
        if response.request != asking.digest.0 {
            return self.count(Discard::Unexpected);
        }
        let told = Clock {
            calendar: calendar(response.time),
            told: now,
        };
        self.fate = match response.verdict {
            Verdict::Granted | Verdict::KeyUsed => Fate::Spent,
            _ => Fate::of_part(&response.part),
        };
        let is_spent = self.fate == Fate::Spent;
        match response.verdict {
            Verdict::Granted => self.accept(&response, told, now),
            // Once, and with the time of the Host on the sheet.
            Verdict::ClocksApart
                if !is_spent && !self.has_time && self.may_be(response.time, now) =>
            {
                self.has_time = true;
                let (ours, told_time) = (self.clock.at(now), told.at(now));
                self.clock = told;
                self.outputs.push_back(Output::ClockDiffers {
                    ours,
                    told: told_time,
                });
                self.draft(now);
            }
            verdict => {
                let why = match verdict {
                    Verdict::KeyUsed => Why::KeyUsed,
                    Verdict::KeyRevoked => Why::KeyRevoked,
                    Verdict::KeyExpired => Why::KeyExpired,
                    Verdict::OptionUnavailable => Why::OptionNotAtTarget,
                    _ => Why::HostRefused,
                };
                self.over(Outcome::Refused(why, Some(verdict)), now);
            }
        }
    }

    /// Whether a request may be signed for this time, because Host says that it is now. A lying
    /// Host would keep it until then.
    fn may_be(&self, time: u64, now: Instant) -> bool {
        let latest = self
            .clock
            .seconds(now)
            .saturating_add(CLOCK_BEHIND_MAX.as_secs());
        time <= latest.min(self.not_after())
    }

    /// Opens a response of Host, or of whoever holds the shared pair.
    fn open_response(&self, asking: &Asking, sealed: &Sealed) -> Option<Response> {
        let (with, by) = match (&asking.draft.secret, &self.config.pair) {
            (Some(secret), _) => (secret, self.config.head.host.signing),
            (None, Some(pair)) => (&pair.sealing, pair.signing.public()),
            (None, None) => return None,
        };
        let opened = envelope::open(sealed, with).ok()?;
        let what = Use::Message(Kind::Response);
        let is_by = opened.is_by(by, what, &sealed.label, with.public());
        let response = Response::parse(&opened.body).ok();
        response.filter(|_| is_by)
    }

    /// There is a tunnel, says Host. Target's part decides.
    fn accept(&mut self, response: &Response, told: Clock, now: Instant) {
        let Stage::Asking(asking) = &self.stage else {
            return;
        };
        let read = match &asking.draft.secret {
            Some(_) => self.target_part(asking, &response.part),
            None => legacy_part(&response.part),
        };
        let id = TunnelId::of(&asking.digest);
        let wanted = self.config.objectives.option();
        let good =
            read.filter(|(tunneling, _)| SecurityOption::of_id(tunneling.option) == Some(wanted));
        let Some((tunneling, session_key)) = good else {
            return self.over(Outcome::Refused(Why::FalseTarget, None), now);
        };
        // Target uses what we have said that we can do.
        let version = IkeVersion::of_number(tunneling.ike_version);
        let Some(ike) = version.filter(|it| self.may_use(*it, &tunneling)) else {
            return self.over(Outcome::Refused(Why::FalseTarget, None), now);
        };
        let ppk = match tunneling.has_ppk {
            true => self.config.ppk.take().map(|it| it.of_tunnel(id)),
            false => None,
        };
        self.chosen = Some((ike, tunneling.has_ppk));
        // Our clock may be wrong, so Host's counts. Target takes its end down in any case.
        let left = tunneling.until.saturating_sub(told.seconds(now));
        let longest = self.lifetime();
        let left = Duration::from_secs(left).clamp(LIFETIME_MIN, longest.max(LIFETIME_MIN));
        let until = calendar(tunneling.until);
        self.granted = Some((id, until));
        self.stage = Stage::Building(now + left, now + BUILD_MAX);
        self.tell(Step::Accepted, None, now);
        self.outputs.push_back(Output::Build(Box::new(Tunnel {
            id,
            option: wanted,
            tunneling,
            ike,
            ppk,
            session_key,
            lifetime: left,
        })));
    }

    /// Whether this version, with the PPK or without it, is one that we have offered.
    fn may_use(&self, version: IkeVersion, tunneling: &Tunneling) -> bool {
        let (ike, is_native) = (self.ike(), tunneling.option == SecurityOption::Native.id());
        let has_version = is_native || ike.has(version);
        let has_ppk = ike.has_ppk() && !is_native && version == IkeVersion::V2;
        has_version && (!tunneling.has_ppk || has_ppk)
    }

    /// Opens Target's part: sealed to us, of this request, by the Target on the sheet.
    fn target_part(&self, asking: &Asking, part: &[u8]) -> Option<(Tunneling, Option<SessionKey>)> {
        let secret = asking.draft.secret.as_ref()?;
        let (encapsulated, ciphertext) = part.split_first_chunk::<32>()?;
        let label = &asking.draft.request.request_id;
        let sealed = (*encapsulated, ciphertext);
        let opened = envelope::open_part(Use::Part, label, sealed, secret).ok()?;
        let (request, tunneling) = opened.body.split_first_chunk::<32>()?;
        let tunneling = Tunneling::parse(tunneling).ok()?;
        let signing = VerifyKey(tunneling.signing_key);
        let target = Identity {
            sealing: PublicKey(tunneling.sealing_key),
            signing,
        };
        let is_target = target.fingerprint() == self.config.head.target;
        let is_for_us = *request == asking.digest.0 && !tunneling.client_chain.is_empty();
        let is_signed = opened.is_by(signing, Use::Part, label, secret.public());
        (is_target && is_for_us && is_signed).then_some((tunneling, None))
    }
}

/// The session key, then Tunneling Info ([`crate::agent::legacy`]): nothing of it can be checked.
fn legacy_part(part: &[u8]) -> Option<(Tunneling, Option<SessionKey>)> {
    let (key, tunneling) = part.split_first_chunk()?;
    let tunneling = Tunneling::parse(tunneling).ok()?;
    Some((tunneling, Some(SessionKey(*key))))
}
