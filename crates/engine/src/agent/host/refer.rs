//! Steps 3, 6, 7 and 8: what Host and Target say to each other, and what Client is told of it.

use std::net::SocketAddr;

use crypto::hpke::PublicKey;
use wire::agent::{Authorization, Inquiry, Kind, Offer, Ppk, Referral, Sealed, Verdict};

use super::{Ask, Discard, Host, Output, STORE_MAX, Stage};
use crate::agent::audit::{Step, Why};
use crate::agent::envelope::{self, Use};
use crate::agent::identity::Fingerprint;
use crate::agent::ike::IkeAbilities;
use crate::agent::objectives::{Options, SecurityOption};
use crate::agent::retry::{self, Retry};
use crate::agent::{Digest, calendar};
use crate::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The longest time for which an offer holds, whatever Target says.
const OFFER_MAX: Duration = Duration::from_secs(300);

/// What one Target offers.
#[derive(Default)]
pub(super) struct Market {
    offer: Option<Offered>,
    /// The inquiry that is not answered yet.
    inquiry: Option<(Retry<Sealed>, [u8; 16])>,
}

struct Offered {
    options: Options,
    ike: IkeAbilities,
    /// Tunnels that it would still build for us.
    room: u16,
    /// This holds until then.
    until: Instant,
}

impl Market {
    pub(super) fn due(&self) -> Option<Instant> {
        self.inquiry.as_ref().map(|(retry, _)| retry.next)
    }
}

impl Host {
    /// Goes on with a request once Target's options are known.
    pub(super) fn inquire(&mut self, id: Digest, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.stage = Stage::Inquiring;
        let Some(verified) = &mut exchange.verified else {
            return;
        };
        let (target, option) = (verified.target, verified.option);
        let ike = verified.ike();
        let market = self.offers.entry(target).or_default();
        if let Some(offer) = market.offer.as_mut().filter(|it| it.until > now) {
            if offer.options == Options::default() {
                return self.refuse(id, Why::NotReady, now);
            }
            if !option.is_some_and(|option| offer.options.has(option)) {
                return self.refuse(id, Why::OptionNotAtTarget, now);
            }
            // Nothing is negotiated for unprotected traffic.
            if option != Some(SecurityOption::Native) && offer.ike.common(ike).best().is_none() {
                return self.refuse(id, Why::NoCommonVersion, now);
            }
            if offer.room == 0 {
                return self.refuse(id, Why::NoRoom, now);
            }
            if !offer.ike.has_ppk() {
                // Target would not use it, so nobody hears of it.
                verified.ppk = None;
            }
            offer.room -= 1;
            if offer.room == 0 {
                // Somebody may leave: it is asked again before anybody is refused.
                market.offer = None;
            }
            return self.take(id, now);
        }
        if market.inquiry.is_some() {
            return;
        }
        self.send_inquiry(target, now);
        let market = self.offers.get(&target);
        if market.is_none_or(|it| it.inquiry.is_none()) {
            self.refuse(id, Why::Misdirected, now);
        }
    }

    fn send_inquiry(&mut self, target: Fingerprint, now: Instant) {
        let Some(entry) = self.config.targets.get(&target) else {
            return;
        };
        let to = entry.identity.sealing;
        let mut nonce = [0; 16];
        self.random.fill(&mut nonce);
        let time = self.clock.seconds(now);
        let body = Inquiry { nonce, time }.to_vec();
        let Some(sealed) = self.seal_to_target(Kind::Inquiry, to, &body) else {
            return;
        };
        self.send_to_target(target, &sealed, now);
        let retry = Retry::new(sealed, retry::OF_HOST, now);
        let market = self.offers.entry(target).or_default();
        market.inquiry = Some((retry, nonce));
    }

    pub(super) fn hear_offer(&mut self, from: SocketAddr, sealed: &Sealed, now: Instant) {
        let target = self.target_of(from, sealed);
        let waits = |it: &Fingerprint| {
            let market = self.offers.get(it);
            market.is_some_and(|it| it.inquiry.is_some())
        };
        let Some(target) = target.filter(waits) else {
            return self.count(Discard::Unexpected);
        };
        let Some(body) = self.open_from_target(target, sealed, now) else {
            return;
        };
        let Ok(offer) = Offer::parse(&body) else {
            return self.count(Discard::NotProven);
        };
        let market = self.offers.entry(target).or_default();
        match &market.inquiry {
            Some((_, nonce)) if *nonce == offer.nonce => {}
            _ => return self.count(Discard::Unexpected),
        }
        let lifetime = Duration::from_secs(offer.lifetime.into()).min(OFFER_MAX);
        // One that ends at once would be asked for again and again.
        let lifetime = lifetime.max(Duration::from_secs(1));
        market.inquiry = None;
        market.offer = Some(Offered {
            options: Options::of_number(offer.options),
            ike: IkeAbilities::of_number(offer.ike),
            room: offer.room,
            until: now + lifetime,
        });
        for id in self.inquiring(target) {
            self.inquire(id, now);
        }
    }

    /// Inquiries are repeated, and given up.
    pub(super) fn wake_offers(&mut self, now: Instant) {
        let due = self
            .offers
            .iter()
            .filter(|(_, it)| it.due().is_some_and(|at| at <= now));
        let due: Vec<Fingerprint> = due.map(|(target, _)| *target).collect();
        for target in due {
            let Some(market) = self.offers.get_mut(&target) else {
                continue;
            };
            let Some((retry, _)) = &mut market.inquiry else {
                continue;
            };
            match retry.again(now) {
                Some(true) => {
                    let sealed = retry.message.clone();
                    self.send_to_target(target, &sealed, now);
                }
                Some(false) => {}
                None => {
                    market.inquiry = None;
                    for id in self.inquiring(target) {
                        self.refuse(id, Why::NoAnswer, now);
                    }
                }
            }
        }
    }

    fn inquiring(&self, target: Fingerprint) -> Vec<Digest> {
        let list = self.exchanges.iter().filter(|(_, it)| {
            let is_there = it.verified.as_ref().is_some_and(|it| it.target == target);
            is_there && matches!(it.stage, Stage::Inquiring)
        });
        list.map(|(id, _)| *id).collect()
    }

    /// The key is taken: Target is told.
    pub(super) fn refer(&mut self, id: Digest, now: Instant) {
        // A key gives its look-up back once, so its holder has no more of them than a stranger.
        self.door.is_proven();
        let event = self.event_of(id, Step::KeyTaken, None, now);
        self.outputs.push_back(Output::Audit(event));
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let Some(verified) = &mut exchange.verified else {
            return;
        };
        let tunnel = verified.tunnel();
        // It serves for this tunnel alone, and nobody asks for it again.
        let ppk = verified.ppk.take().map(|it| it.of_tunnel(tunnel));
        let referral = Referral {
            handle: exchange.handle.0,
            key: verified.key.0,
            time: self.clock.seconds(now),
            request: verified.body.clone(),
            signature: verified.signature.0,
            ppk: ppk.as_ref().map(|it| Ppk(it.octets())),
        };
        let body = Zeroizing::new(referral.to_vec());
        let entry = self.config.targets.get(&verified.target);
        let Some(to) = entry.map(|entry| entry.identity.sealing) else {
            return self.fail(id, Why::Misdirected, now);
        };
        let Some(sealed) = self.seal_to_target(Kind::Referral, to, &body) else {
            return self.fail(id, Why::Misdirected, now);
        };
        self.send_referral(id, &sealed, now);
        let retry = Retry::new(sealed, retry::OF_HOST, now);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.stage = Stage::Referring(Box::new(retry));
        }
        let event = self.event_of(id, Step::Referred, None, now);
        self.outputs.push_back(Output::Audit(event));
    }

    pub(super) fn send_referral(&mut self, id: Digest, sealed: &Sealed, now: Instant) {
        let verified = self.exchanges.get(&id).and_then(|it| it.verified.as_ref());
        if let Some(target) = verified.map(|it| it.target) {
            self.send_to_target(target, sealed, now);
        }
    }

    /// Sends it, proven for this moment.
    fn send_to_target(&mut self, target: Fingerprint, sealed: &Sealed, now: Instant) {
        let entry = self.config.targets.get(&target);
        if let (Some(entry), Some(bond)) = (entry, self.bonds.get(&target)) {
            let payload = bond.prove(sealed, self.clock.milliseconds(now));
            let to = entry.address;
            self.outputs.push_back(Output::Send { to, payload });
        }
    }

    /// Step 6 has come.
    pub(super) fn hear_authorization(&mut self, from: SocketAddr, sealed: &Sealed, now: Instant) {
        let Some(target) = self.target_of(from, sealed) else {
            return self.count(Discard::Unexpected);
        };
        let waits = |it: &super::Exchange| {
            let is_there = it.verified.as_ref().is_some_and(|it| it.target == target);
            is_there && matches!(it.stage, Stage::Referring(_))
        };
        if !self.exchanges.values().any(waits) {
            return self.count(Discard::Unexpected);
        }
        let Some(body) = self.open_from_target(target, sealed, now) else {
            return;
        };
        let Ok(said) = Authorization::parse(&body) else {
            return self.count(Discard::NotProven);
        };
        let is_it = |it: &super::Exchange| {
            let verified = it.verified.as_ref();
            waits(it) && verified.is_some_and(|it| it.digest.0 == said.request)
        };
        let found = self.exchanges.iter().find(|(_, it)| is_it(it));
        let Some(id) = found.map(|(id, _)| *id) else {
            return self.count(Discard::Unexpected);
        };
        if said.verdict != Verdict::Granted {
            return self.hear_refusal(id, said.verdict, now);
        }
        let end = calendar(said.until);
        let mut event = self.event_of(id, Step::Authorized, None, now);
        event.until = Some(end);
        self.outputs.push_back(Output::Audit(event));
        let Some(answer) = self.response(id, Verdict::Granted, said.part, now) else {
            return self.fail(id, Why::Unreadable, now);
        };
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let handle = exchange.handle;
        exchange.stage = Stage::Finishing {
            answer: answer.clone(),
            end,
            until: now + STORE_MAX,
        };
        let (request, answer) = (id, Some(answer));
        let ask = Ask::Finish {
            handle,
            request,
            answer,
        };
        self.ask(Some(id), ask);
    }

    /// Target has refused. The key stays spent: Target was told of the user.
    fn hear_refusal(&mut self, id: Digest, verdict: Verdict, now: Instant) {
        let Some(exchange) = self.exchanges.get(&id) else {
            return;
        };
        let (handle, request, answer) = (exchange.handle, id, None);
        let event = self.event_of(id, Step::KeyFailed, Some(Why::TargetRefused), now);
        self.outputs.push_back(Output::Audit(event));
        let ask = Ask::Finish {
            handle,
            request,
            answer,
        };
        self.ask(None, ask);
        self.refuse_with(id, verdict, Why::TargetRefused, now);
    }

    /// The key is used, and the database has the answer: Client gets it.
    pub(super) fn finished(&mut self, id: Digest, now: Instant) {
        let Some(exchange) = self.exchanges.get(&id) else {
            return;
        };
        let Stage::Finishing { answer, end, .. } = &exchange.stage else {
            return;
        };
        let (answer, end) = (answer.clone(), *end);
        let mut event = self.event_of(id, Step::KeyUsed, None, now);
        event.until = Some(end);
        event.tunnel = exchange.verified.as_ref().map(|it| it.tunnel());
        self.outputs.push_back(Output::Audit(event));
        self.answer(id, answer, now);
    }

    /// The Target that a message says it is of. Anybody can say so: this is the cheap check.
    fn target_of(&self, from: SocketAddr, sealed: &Sealed) -> Option<Fingerprint> {
        let targets = self.config.targets.iter();
        let mut named =
            targets.filter(|(it, entry)| it.name().0 == sealed.label && entry.address == from);
        named.next().map(|(fingerprint, _)| *fingerprint)
    }

    /// Opens a message in the name of a Target, if that has made it.
    fn open_from_target(
        &mut self,
        target: Fingerprint,
        sealed: &Sealed,
        now: Instant,
    ) -> Option<zeroize::Zeroizing<Vec<u8>>> {
        let by = self.config.targets.get(&target)?.identity.signing;
        let time_ms = self.clock.milliseconds(now);
        if let Err(why) = self.bonds.get_mut(&target)?.admit(sealed, time_ms, now) {
            self.count(why.into());
            return None;
        }
        let opened = envelope::open(sealed, &self.config.keys.sealing).ok();
        let (what, to) = (Use::Message(sealed.kind), self.config.keys.sealing.public());
        let proven = opened.filter(|it| it.is_by(by, what, &sealed.label, to));
        if proven.is_none() {
            self.count(Discard::NotProven);
        }
        proven.map(|opened| opened.body)
    }

    fn seal_to_target(&mut self, kind: Kind, to: PublicKey, body: &[u8]) -> Option<Sealed> {
        let label = self.config.keys.identity().name().0;
        let by = &self.config.keys.signing;
        envelope::seal(kind, label, to, body, by, &mut self.random)
    }
}
