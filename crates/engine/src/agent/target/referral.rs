//! Step 4: what Host says, who the user is, and what he may.

use std::net::SocketAddr;

use crypto::ed25519::{Signature, VerifyKey};
use crypto::hpke::PublicKey;
use wire::agent::{Inquiry, Kind, LABEL_LEN, Offer, Referral, Request, Sealed};

use super::{
    ASK_MAX, Ask, Discard, Evidence, HostEntry, IN_PROGRESS_MAX, Inquired, Output, Question,
    Referred, STANDING_EVERY, Spending, Stage, Standing, TUNNELS_MAX, Target, Tunnel,
};
use crate::agent::audit::{Step, Why};
use crate::agent::envelope::{self, Use};
use crate::agent::identity::{AgentName, digest};
use crate::agent::ike::{IkeAbilities, IkeVersion};
use crate::agent::objectives::{Objectives, Options, SecurityOption};
use crate::agent::ppk::TunnelPpk;
use crate::agent::{Digest, Handle, LIFETIME_MAX, LIFETIME_MIN, TunnelId};
use crate::time::{Calendar, Duration, Instant};

/// How often an authorization is repeated.
const REPEATS_MAX: u32 = 8;
/// How long an offer holds, in seconds: what it needs, such as a gateway that runs, may be gone the
/// next moment, and then a key is spent for nothing.
const OFFER_LIVES: u32 = 1;

impl Target {
    /// Host asks for our options. Our back-end is asked first whether it could build.
    pub(super) fn hear_inquiry(&mut self, from: SocketAddr, sealed: &Sealed, now: Instant) {
        let Some((name, body)) = self.open_from_host(from, sealed, now) else {
            return;
        };
        let Ok(inquiry) = Inquiry::parse(&body) else {
            return self.count(Discard::Malformed);
        };
        if !self.clock.is_near(inquiry.time, now) {
            return self.count(Discard::ClocksApart);
        }
        let nonce = inquiry.nonce;
        if !self.is_ready {
            return self.offer(name, (from, nonce), Options::default(), now);
        }
        let mut waits = self.inquired.iter();
        let waits = waits.find(|((host, _), it)| *host == name && it.until > now);
        let waits = waits.map(|(_, it)| (it.number, it.until));
        // Host repeats itself, or asks anew, or another one with it: the answer to the question
        // serves all.
        let (number, until) = waits.unwrap_or((self.next_number, now + ASK_MAX));
        if waits.is_none() {
            self.put(Ask::CanBuild);
        }
        let inquired = Inquired {
            from,
            nonce,
            number,
            until,
        };
        self.inquired.insert((name, from.ip()), inquired);
    }

    /// The question of this number, if it was whether we can build, is answered.
    pub(super) fn offer_if(&mut self, number: u64, can_build: bool, now: Instant) {
        let options = match can_build && self.is_ready {
            true => self.config.options,
            false => Options::default(),
        };
        let all = self.inquired.iter().filter(|(_, it)| it.number == number);
        let all: Vec<_> = all.map(|(key, it)| (*key, it.from, it.nonce)).collect();
        for (key, from, nonce) in all {
            self.inquired.remove(&key);
            self.offer(key.0, (from, nonce), options, now);
        }
    }

    /// Answers an inquiry. No options: nothing can be built now.
    fn offer(
        &mut self,
        name: AgentName,
        (from, nonce): (SocketAddr, [u8; LABEL_LEN]),
        options: Options,
        now: Instant,
    ) {
        let host = self.config.hosts.get(&name);
        let room = match options == Options::default() {
            true => 0,
            false => host.map_or(0, |host| self.room(host)),
        };
        let body = Offer {
            nonce,
            options: options.number(),
            ike: self.config.ike.number(),
            // Where there is none, there may be some at any time.
            lifetime: if room > 0 { OFFER_LIVES } else { 0 },
            room: u16::try_from(room).unwrap_or(u16::MAX),
        }
        .to_vec();
        if let Some(sealed) = self.seal_to_host(Kind::Offer, name, &body) {
            self.send_to_host(from, name, &sealed, now);
        }
    }

    /// How many tunnels more this Host may have.
    fn room(&self, host: &HostEntry) -> usize {
        let all = self
            .tunnels
            .values()
            .filter(|it| !matches!(it.stage, Stage::Over));
        let of_host = all.clone().filter(|it| it.host == host.name).count();
        let of_all = self.config.tunnels.saturating_sub(all.count());
        host.tunnels.saturating_sub(of_host).min(of_all)
    }

    /// Host refers a user to us.
    pub(super) fn hear_referral(&mut self, from: SocketAddr, sealed: &Sealed, now: Instant) {
        let Some((name, body)) = self.open_from_host(from, sealed, now) else {
            return;
        };
        let Ok(referral) = Referral::parse(&body) else {
            return self.count(Discard::Malformed);
        };
        let ppk = referral.ppk.map(|it| TunnelPpk::of_octets(it.0));
        let signature = Signature(referral.signature);
        let request_digest = envelope::request_digest(&referral.request, &signature);
        let id = TunnelId::of(&request_digest);
        if self.tunnels.contains_key(&id) {
            return self.repeat(id, from, now);
        }
        let Ok(request) = Request::parse(&referral.request) else {
            return self.count(Discard::Malformed);
        };
        let host = self.config.hosts[&name].clone();
        let of_host = self.tunnels.values().filter(|it| it.host == host.name);
        let in_progress = of_host
            .clone()
            .filter(|it| matches!(it.stage, Stage::Asking(..)));
        if in_progress.count() >= IN_PROGRESS_MAX || of_host.count() >= TUNNELS_MAX {
            return self.count(Discard::OverRate);
        }
        let objectives = Objectives::of_number(request.objectives);
        let option = objectives.map(Objectives::option);
        let evidence = Evidence {
            key: VerifyKey(referral.key),
            request: referral.request.clone(),
            signature,
        };
        let signed = (&referral, &evidence);
        let why = self.why_not(&host, signed, &request, option, now);
        let ike = self.ike_of(&request, option);
        let user = request.user_id.clone();
        let key = digest(&[&referral.key]);
        let tunnel = Tunnel {
            spending: Spending {
                key,
                handle: Handle(referral.handle),
                tunnel: id,
                client_identity: format!("{user}@{}", host.name),
                until: Calendar(0),
                evidence,
            },
            host: host.name.clone(),
            user,
            option,
            ike,
            ppk_exchange: None,
            referral: Some(Box::new(Referred {
                ppk: ppk.filter(|_| ike.is_some_and(|(_, has_ppk)| has_ppk)),
                ..Referred::new(name, from, request_digest, request, now)
            })),
            answer: None,
            networks: Vec::new(),
            inner: None,
            peer: None,
            next_standing: now + STANDING_EVERY,
            stage: Stage::Asking(Question::Standing, now + ASK_MAX),
        };
        self.tunnels.insert(id, tunnel);
        if let Some(why) = why {
            return self.refuse(id, why, now);
        }
        if let Some(ask) = self.tunnels.get(&id).map(Tunnel::standing) {
            self.ask(id, ask);
        }
    }

    /// What is wrong with a referral, whoever the user is.
    fn why_not(
        &self,
        host: &HostEntry,
        (referral, evidence): (&Referral<'_>, &Evidence),
        request: &Request,
        option: Option<SecurityOption>,
        now: Instant,
    ) -> Option<Why> {
        if !self.is_ready {
            return Some(Why::LogUnavailable);
        }
        if self.room(host) == 0 {
            return Some(Why::NoRoom);
        }
        let handle = Handle(referral.handle);
        match &request.fresh {
            // The pair's sealing key is no business of ours, and Host could sign too.
            None if !host.accepts_legacy => return Some(Why::LegacyRefused),
            None => {}
            Some(_) if !evidence.holds(handle, host.identity.sealing) => {
                return Some(Why::WrongSignature);
            }
            Some(_) => {}
        }
        if request.target != self.config.keys.identity().fingerprint().0.0 {
            return Some(Why::Misdirected);
        }
        let is_near = |time| self.clock.is_near(time, now);
        if !is_near(referral.time) || !is_near(request.time) {
            return Some(Why::ClocksApart);
        }
        let Some(option) = option else {
            return Some(Why::Unreadable);
        };
        if !Options::of_number(request.options).has(option) {
            return Some(Why::OptionNotAtClient);
        }
        if !self.config.options.has(option) {
            return Some(Why::OptionNotAtTarget);
        }
        match self.ike_of(request, Some(option)) {
            None => Some(Why::NoCommonVersion),
            // Host cannot take it away: the request says that there is one, and is signed.
            Some((_, true)) if referral.ppk.is_none() => Some(Why::NoPpk),
            Some(_) => None,
        }
    }

    /// The version of IKE for a request, and whether there is a PPK. None: there is no common
    /// version. Nothing is negotiated for unprotected traffic, so any version serves it.
    fn ike_of(
        &self,
        request: &Request,
        option: Option<SecurityOption>,
    ) -> Option<(IkeVersion, bool)> {
        let common = IkeAbilities::of_number(request.ike).common(self.config.ike);
        if option == Some(SecurityOption::Native) {
            return Some((self.config.ike.best()?, false));
        }
        let version = common.best()?;
        Some((version, version == IkeVersion::V2 && common.has_ppk()))
    }

    /// The membership database has answered.
    pub(super) fn admit(&mut self, id: TunnelId, standing: Standing, now: Instant) {
        let access = match standing {
            Standing::Member(access) => access,
            Standing::Stranger => return self.refuse(id, Why::NotMember, now),
            Standing::KeyNotEnrolled => return self.refuse(id, Why::KeyNotEnrolled, now),
        };
        let today = self.clock.at(now);
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let is_allowed = tunnel.option.is_some_and(|it| access.options.has(it));
        if !is_allowed {
            return self.refuse(id, Why::NotAllowed, now);
        }
        let Some(referred) = &mut tunnel.referral else {
            return;
        };
        let lifetime = referred.asked_lifetime.min(access.lifetime);
        let lifetime = lifetime.clamp(LIFETIME_MIN, LIFETIME_MAX);
        tunnel.networks.clone_from(&access.networks);
        referred.networks = access.networks;
        referred.ends = now + lifetime;
        let seconds = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
        tunnel.spending.until = Calendar(today.0.saturating_add(seconds));
        tunnel.stage = Stage::Asking(Question::Spend, now + ASK_MAX);
        let spending = tunnel.spending.clone();
        self.tell(id, Step::Admitted, None, now);
        self.ask(id, Ask::Spend(spending));
    }

    /// Host has not heard our answer, or another Host of the same database has asked.
    fn repeat(&mut self, id: TunnelId, from: SocketAddr, now: Instant) {
        let answer = self.tunnels.get_mut(&id).and_then(|it| it.answer.as_mut());
        match answer {
            Some(answer) if answer.repeats < REPEATS_MAX => {
                answer.repeats += 1;
                let (host, sealed) = (answer.host, answer.message.clone());
                self.send_to_host(from, host, &sealed, now);
            }
            _ => self.count(Discard::Repeated),
        }
    }

    /// Sends it, proven for this moment.
    pub(super) fn send_to_host(
        &mut self,
        to: SocketAddr,
        name: AgentName,
        sealed: &Sealed,
        now: Instant,
    ) {
        if let Some(bond) = self.bonds.get(&name) {
            let payload = bond.prove(sealed, self.clock.milliseconds(now));
            self.outputs.push_back(Output::Send { to, payload });
        }
    }

    /// Opens a message of a Host that we know.
    fn open_from_host(
        &mut self,
        from: SocketAddr,
        sealed: &Sealed,
        now: Instant,
    ) -> Option<(AgentName, zeroize::Zeroizing<Vec<u8>>)> {
        let name = AgentName(sealed.label);
        let Some(host) = self.config.hosts.get(&name) else {
            self.count(Discard::Stranger);
            return None;
        };
        if !host.addresses.contains(&from.ip()) {
            self.count(Discard::Stranger);
            return None;
        }
        let by = host.identity.signing;
        let time_ms = self.clock.milliseconds(now);
        let admitted = match self.bonds.get_mut(&name) {
            Some(bond) => bond.admit(sealed, time_ms, now).map_err(Discard::from),
            None => Err(Discard::Stranger),
        };
        if let Err(why) = admitted {
            self.count(why);
            return None;
        }
        let what = Use::Message(sealed.kind);
        let to: PublicKey = self.config.keys.sealing.public();
        let opened = envelope::open(sealed, &self.config.keys.sealing).ok();
        let proven = opened.filter(|it| it.is_by(by, what, &sealed.label, to));
        if proven.is_none() {
            self.count(Discard::NotProven);
        }
        proven.map(|opened| (name, opened.body))
    }

    pub(super) fn seal_to_host(
        &mut self,
        kind: Kind,
        name: AgentName,
        body: &[u8],
    ) -> Option<Sealed> {
        let to = self.config.hosts.get(&name)?.identity.sealing;
        let label = self.config.keys.identity().name().0;
        let by = &self.config.keys.signing;
        envelope::seal(kind, label, to, body, by, &mut self.random)
    }
}

impl Referred {
    fn new(
        host: AgentName,
        from: SocketAddr,
        digest: Digest,
        request: Request,
        now: Instant,
    ) -> Self {
        Self {
            host,
            from,
            request: digest,
            request_id: request.request_id,
            fresh: request.fresh,
            asked_lifetime: Duration::from_secs(request.lifetime.into()),
            networks: Vec::new(),
            ends: now,
            client_chain: Vec::new(),
            session_key: None,
            ppk: None,
        }
    }
}
