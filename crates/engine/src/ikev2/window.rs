//! One IKE SA: its keys, and its two windows of one message each (RFC 7296 §2.1, §2.2, §2.3).
//!
//! We have one request of ours open at a time and repeat it until it is answered. The peer's next
//! request has the next message ID; the last one is answered again from memory, a bounded number of
//! times and for [`ANSWER_KEPT`]. Everything else is dropped. Nothing changes before a message is
//! authentic.

use crypto::rand::Stream;
use wire::ikev2::{
    Exchange, Flags, Header, Located, NotifyType, Payload, PayloadKind, first_unknown_critical,
    payloads, write_payloads,
};
use zeroize::{Zeroize, Zeroizing};

use super::keys::Keys;
use super::message::Message;
use super::parts::{Parts, names, names_read, notify, notify_with};
use super::seal::{Assembly, Clear, Sealer, Taken, covered};
use super::tasks::Awaited;
use super::unfinished::{Linked, Unfinished};
use crate::counters::DropReason;
use crate::ike::retransmit::{Answered, Retransmit};
use crate::ike::{DirectionKeys, Fault, MessageKeys, Outbox, Role, Sent, Spi, Spis, Step};
use crate::sa::{Path, Secret};
use crate::suite::Ikev2Suite;
use crate::time::{Deadline, Duration, Instant};
use crate::work::Work;

/// An answer is forgotten then, because an idle session should be small: the RFC allows it after
/// several minutes (§2.1). Peers give a request up earlier: we after 63 s, strongSwan after 165 s.
const ANSWER_KEPT: Duration = Duration::from_secs(180);

/// IKE SAs of one session at most: the current one, both of two renewals that cross, and those that
/// were replaced and whose end is not told yet. A peer may renew as often as it likes.
pub(super) const MAX_SAS: usize = 8;

/// What making a message takes.
pub(super) struct At<'a> {
    pub(super) path: Path,
    pub(super) random: &'a mut Stream,
    pub(super) now: Instant,
    pub(super) out: &'a mut Outbox,
}

/// An IKE SA.
pub(super) struct IkeSa {
    pub(super) spis: Spis,
    /// Our role in the exchange that made it.
    pub(super) role: Role,
    pub(super) suite: Ikev2Suite,
    /// SK_d.
    pub(super) d: Secret,
    outbound: Sealer,
    inbound: Sealer,
    /// The peer reads fragments.
    may_fragment: bool,
    /// The message ID of our next request.
    next_id: u32,
    /// Our open request. On the heap, because an idle IKE SA has none.
    pub(super) asked: Option<Box<Asked>>,
    /// The message ID of the peer's next request.
    expected: u32,
    /// Our answer to its last one, and when it is forgotten.
    answered: Option<(Answered, Instant)>,
    requests: Assembly,
    responses: Assembly,
    /// What AUTH covers of our last message of IKE_INTERMEDIATE.
    covered: Vec<u8>,
    /// The peer renews it, and not all key exchanges are done.
    pub(super) unfinished: Option<Box<Linked>>,
    /// Another IKE SA stands in its place, or will: nothing new begins under it.
    pub(super) is_replaced: bool,
    /// It is forgotten then.
    pub(super) until: Option<Instant>,
    /// Its keys, until they have been asked for.
    shown: Option<Box<MessageKeys>>,
}

/// An open request of ours.
pub(super) struct Asked {
    id: u32,
    exchange: Exchange,
    retransmit: Retransmit,
    pub(super) awaited: Awaited,
}

#[cfg(test)]
impl Asked {
    /// The request is not sent again.
    pub(super) fn is_last(&self) -> bool {
        self.retransmit.is_last()
    }
}

/// An authentic message that is new.
pub(super) struct Opened {
    pub(super) exchange: Exchange,
    pub(super) is_response: bool,
    /// Where it came from.
    pub(super) from: Path,
    body: Zeroizing<Vec<u8>>,
    chain: Vec<Located>,
    /// What the peer sends again if it does not get our answer.
    request: Vec<u8>,
}

impl Opened {
    /// Whether it is a request of this exchange.
    pub(super) fn is_request(&self, exchange: Exchange) -> bool {
        self.exchange == exchange && !self.is_response
    }

    /// Octets of it, or of its first fragment.
    pub(super) fn octets(&self) -> usize {
        self.request.len()
    }

    /// Octets of its payloads.
    pub(super) fn payload_octets(&self) -> usize {
        self.body.len()
    }

    pub(super) fn parts(&self) -> Result<Parts<'_>, DropReason> {
        Parts::sort(&self.body, &self.chain)
    }

    /// What AUTH covers of it, if it is of IKE_INTERMEDIATE.
    pub(super) fn covered(&self) -> Option<Vec<u8>> {
        covered(&self.request, &self.body)
    }
}

/// Nonces are secret in these messages.
impl Drop for Opened {
    fn drop(&mut self) {
        for located in &mut self.chain {
            if let Payload::Nonce(nonce) = &mut located.payload {
                nonce.zeroize();
            }
        }
    }
}

/// A message that is authentic and that we cannot read. The peer of a request is told so
/// (RFC 7296 §2.21.3).
pub(super) struct Unreadable {
    exchange: Exchange,
    is_response: bool,
    from: Path,
    notice: Payload,
    request: Vec<u8>,
}

impl Unreadable {
    pub(super) fn is_response(&self) -> bool {
        self.is_response
    }
}

/// What became of a message.
pub(super) enum Read {
    /// It is authentic and new.
    New(Opened),
    /// It is authentic and malformed.
    Unreadable(Unreadable),
    /// It repeats the last request, which was answered again; or fragments are missing.
    Nothing,
}

impl IkeSa {
    pub(super) fn new(
        spis: Spis,
        role: Role,
        suite: Ikev2Suite,
        keys: &Keys,
        may_fragment: bool,
    ) -> Self {
        let peer = role.other();
        Self {
            spis,
            role,
            suite,
            d: keys.d.clone(),
            outbound: Sealer::new(suite.protection, keys.of(role)),
            inbound: Sealer::new(suite.protection, keys.of(peer)),
            may_fragment,
            next_id: 0,
            asked: None,
            expected: 0,
            answered: None,
            requests: Assembly::default(),
            responses: Assembly::default(),
            covered: Vec::new(),
            unfinished: None,
            is_replaced: false,
            until: None,
            shown: Some(Box::new(shown(suite, keys))),
        }
    }

    /// The keys of its messages, once.
    pub(super) fn take_message_keys(&mut self) -> Option<MessageKeys> {
        self.shown.take().map(|keys| *keys)
    }

    /// The first IKE SA of a session: message ID 0 was IKE_SA_INIT's.
    pub(super) fn after_init(mut self) -> Self {
        match self.role {
            Role::Initiator => self.next_id = 1,
            Role::Responder => self.expected = 1,
        }
        self
    }

    /// The one that a finished renewal makes in its place.
    pub(super) fn successor(
        &self,
        role: Role,
        made: &Unfinished,
        work: &mut Work,
    ) -> Result<Self, Fault> {
        let keys = made.keys((self.suite.prf, &self.d), work)?;
        let (suite, may_fragment) = (made.suite, self.may_fragment);
        Ok(Self::new(made.spis, role, suite, &keys, may_fragment))
    }

    /// The next message has these keys: one more key exchange is done (RFC 9370 §2.2.2).
    pub(super) fn take_keys(&mut self, keys: &Keys) {
        let peer = self.role.other();
        self.d = keys.d.clone();
        self.outbound = Sealer::new(self.suite.protection, keys.of(self.role));
        self.inbound = Sealer::new(self.suite.protection, keys.of(peer));
        self.shown = Some(Box::new(shown(self.suite, keys)));
    }

    /// What AUTH covers of the message of IKE_INTERMEDIATE that was just sent.
    pub(super) fn take_covered(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.covered)
    }

    /// Our own SPI.
    pub(super) fn own_spi(&self) -> Spi {
        match self.role {
            Role::Initiator => self.spis.initiator,
            Role::Responder => self.spis.responder,
        }
    }

    /// As if our open request had never been sent.
    #[cfg(test)]
    pub(super) fn forget_request(&mut self) {
        if self.asked.take().is_some() {
            self.next_id -= 1;
        }
    }

    /// Reads a message that came over this path, if it is due and authentic.
    pub(super) fn read(
        &mut self,
        from: Path,
        message: &Message<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Read, DropReason> {
        if message.spis() != self.spis || message.our_role() != self.role {
            return Err(DropReason::UnknownCookies);
        }
        if message.is_response() {
            let is_due =
                |asked: &Asked| (asked.id, asked.exchange) == (message.id(), message.exchange());
            if !self.asked.as_deref().is_some_and(is_due) {
                return Err(DropReason::RetransmittedMessage);
            }
        } else if message.id() != self.expected {
            return self.repeat(message, out);
        }
        let found = message.read()?;
        let protected = found.protected.ok_or(DropReason::UnexpectedMessage)?;
        let clear = self
            .inbound
            .open(message.octets(), &protected, &mut out.work);
        let clear = clear.ok_or(DropReason::UndecryptableMessage)?;
        let whole = match protected.fragment {
            None => Clear {
                first: protected.first,
                body: clear,
                size: message.size(),
                head: message.octets().to_vec(),
            },
            Some(numbers) => {
                let assembly = match message.is_response() {
                    true => &mut self.responses,
                    false => &mut self.requests,
                };
                let part = (protected.first, clear, message);
                match assembly.take(message.id(), numbers, part, now) {
                    Taken::Whole(whole) => whole,
                    Taken::Kept => return Ok(Read::Nothing),
                    Taken::Useless => return Err(DropReason::RetransmittedMessage),
                    Taken::TooLong => return Err(DropReason::TooManyFragments),
                }
            }
        };
        Ok(self.parse(from, message, whole, out))
    }

    fn parse(&self, from: Path, message: &Message<'_>, whole: Clear, out: &mut Outbox) -> Read {
        let (exchange, is_response) = (message.exchange(), message.is_response());
        let unreadable = |notice, request| {
            Read::Unreadable(Unreadable {
                exchange,
                is_response,
                from,
                notice,
                request,
            })
        };
        let Ok(chain) = payloads(whole.first, &whole.body) else {
            return unreadable(notify(NotifyType::InvalidSyntax), whole.head);
        };
        let number = if is_response { 2 } else { 1 };
        out.heard(step(exchange, number), whole.size, names_read(&chain));
        if let Some(kind) = first_unknown_critical(&chain) {
            let kind = vec![kind];
            let notice = notify_with(NotifyType::UnsupportedCriticalPayload, kind);
            return unreadable(notice, whole.head);
        }
        if Parts::sort(&whole.body, &chain).is_err() {
            return unreadable(notify(NotifyType::InvalidSyntax), whole.head);
        }
        Read::New(Opened {
            exchange,
            is_response,
            from,
            body: whole.body,
            chain,
            request: whole.head,
        })
    }

    /// The peer's last request again, or one that is not due.
    fn repeat(&mut self, message: &Message<'_>, out: &mut Outbox) -> Result<Read, DropReason> {
        if message.id().wrapping_add(1) != self.expected {
            return Err(DropReason::UnexpectedMessage);
        }
        let (answered, _) = self
            .answered
            .as_mut()
            .ok_or(DropReason::RetransmittedMessage)?;
        if answered.take_duplicate(message.octets(), out).is_some() {
            return Ok(Read::Nothing);
        }
        // Its sender may have gone over to fragments, or to smaller ones (RFC 7383 §2.6.1). Who
        // has the keys may ask for the answer in any form.
        let protected = message
            .read()?
            .protected
            .ok_or(DropReason::UnexpectedMessage)?;
        if protected.fragment.is_some_and(|it| it.number > 1) {
            return Err(DropReason::RetransmittedMessage);
        }
        let octets = message.octets();
        let clear = self.inbound.open(octets, &protected, &mut out.work);
        clear.ok_or(DropReason::RetransmittedMessage)?;
        out.heard_again();
        answered.repeat(out);
        Ok(Read::Nothing)
    }

    /// Sends a request. The window must be free.
    pub(super) fn ask(
        &mut self,
        exchange: Exchange,
        chain: &[Payload],
        awaited: Awaited,
        patience: Option<Duration>,
        at: &mut At<'_>,
    ) {
        debug_assert!(self.asked.is_none(), "a window of one");
        let id = self.next_id;
        let sent = self.message(exchange, (id, false), chain, at);
        self.next_id += 1;
        let retransmit = match patience {
            Some(patience) => Retransmit::send_within(patience, sent, at.now, at.out),
            None => Retransmit::send(sent, at.now, at.out),
        };
        self.asked = Some(Box::new(Asked {
            id,
            exchange,
            retransmit,
            awaited,
        }));
    }

    /// Tells the peer why all is over, in place of the request that is open. It is repeated like
    /// any other until it is answered.
    pub(super) fn tell_end(&mut self, notice: Payload, at: &mut At<'_>) {
        self.asked = None;
        let exchange = Exchange::Informational;
        self.ask(exchange, &[notice], Awaited::End, None, at);
    }

    /// Whether the peer is being told why all is over.
    pub(super) fn is_telling(&self) -> bool {
        let asked = self.asked.as_ref();
        asked.is_some_and(|it| matches!(it.awaited, Awaited::End))
    }

    /// Our answer to the peer's last request, by which its repetitions are answered.
    pub(super) fn take_answer(&mut self) -> Option<Answered> {
        self.answered.take().map(|(answered, _)| answered)
    }

    /// Our open request was answered: what it waited for.
    pub(super) fn answered(&mut self, now: Instant, out: &mut Outbox) -> Option<Awaited> {
        let asked = self.asked.take()?;
        asked.retransmit.answered(now, out);
        Some(asked.awaited)
    }

    /// Answers a request, which is then the peer's last one. The answer goes where the request came
    /// from (RFC 7296 §2.11).
    pub(super) fn answer(&mut self, opened: &Opened, chain: &[Payload], at: &mut At<'_>) {
        let what = (opened.exchange, opened.from);
        self.answer_to(what, &opened.request, chain, at);
    }

    /// The same for one that we cannot read.
    pub(super) fn answer_unreadable(&mut self, unreadable: &Unreadable, at: &mut At<'_>) {
        at.out.drops.count(DropReason::MalformedMessage);
        let chain = core::slice::from_ref(&unreadable.notice);
        let what = (unreadable.exchange, unreadable.from);
        self.answer_to(what, &unreadable.request, chain, at);
    }

    fn answer_to(
        &mut self,
        (exchange, from): (Exchange, Path),
        request: &[u8],
        chain: &[Payload],
        at: &mut At<'_>,
    ) {
        let sent = Sent {
            path: from,
            ..self.message(exchange, (self.expected, true), chain, at)
        };
        self.expected += 1;
        let answered = Answered::send(request, Some(sent), at.out);
        self.answered = Some((answered, at.now + ANSWER_KEPT));
    }

    fn message(
        &mut self,
        exchange: Exchange,
        (message_id, is_response): (u32, bool),
        chain: &[Payload],
        at: &mut At<'_>,
    ) -> Sent {
        let header = Header {
            spis: self.spis.into(),
            next_payload: PayloadKind::None,
            minor_version: 0,
            exchange,
            flags: Flags::of(self.role == Role::Initiator, is_response),
            message_id,
        };
        let (first, body) = write_payloads(chain);
        let body = Zeroizing::new(body);
        let (random, work) = (&mut *at.random, &mut at.out.work);
        let mut parts = match self.may_fragment {
            true => self
                .outbound
                .seal_in_fragments(&header, (first, &body), random, work),
            false => vec![self.outbound.seal(&header, (first, &body), random, work)],
        };
        let message = parts.remove(0);
        if exchange == Exchange::IkeIntermediate {
            self.covered = covered(&message, &body).unwrap_or_default();
        }
        Sent {
            path: at.path,
            message,
            more: parts,
            step: step(exchange, if is_response { 2 } else { 1 }),
            payloads: names(chain.iter()),
            may_fragment: false,
        }
    }

    /// Repetitions take this path.
    pub(super) fn move_to(&mut self, path: Path) {
        if let Some(asked) = &mut self.asked {
            asked.retransmit.move_to(path);
        }
        if let Some((answered, _)) = &mut self.answered {
            answered.move_to(path);
        }
    }

    /// A message sent at `began` left only `now`.
    pub(super) fn departed(&mut self, began: Instant, now: Instant) {
        if let Some(asked) = &mut self.asked {
            asked.retransmit.departed(began, now);
        }
    }

    /// When to call [`Self::fire`].
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let asked = self.asked.as_ref().map(|asked| asked.retransmit.deadline());
        let answered = self.answered.as_ref().map(|(_, at)| Deadline {
            at: *at,
            why: "forget the last answer",
        });
        let (requests, responses) = (self.requests.deadline(), self.responses.deadline());
        let all = [asked, answered, requests, responses];
        all.into_iter().flatten().min()
    }

    /// Repeats our open request if it is time; [`Fault::TimedOut`] at the end. Forgets our last
    /// answer if it is old, and messages of which fragments are missing.
    pub(super) fn fire(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Fault> {
        self.answered.take_if(|(_, at)| *at <= now);
        for assembly in [&mut self.requests, &mut self.responses] {
            if assembly.give_up(now) {
                out.drops.count(DropReason::IncompleteMessage);
            }
        }
        match &mut self.asked {
            Some(asked) => asked.retransmit.fire(now, out),
            None => Ok(()),
        }
    }

    /// Sends our open request at once again, as to a new address. Returns its octets.
    pub(super) fn ask_again(&mut self, out: &mut Outbox) -> usize {
        match &self.asked {
            Some(asked) => asked.retransmit.again(out),
            None => 0,
        }
    }

    /// The path is another one: sends our open request at once again, and its timer begins again.
    pub(super) fn begin_again(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(asked) = &mut self.asked {
            asked.retransmit.begin_again(now, out);
        }
    }

    /// Nobody can wait long for the answer to our open request.
    pub(super) fn hurry(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(asked) = &mut self.asked {
            asked.retransmit.hurry(now, out);
        }
    }

    /// Octets of our open request.
    pub(super) fn open_octets(&self) -> usize {
        let asked = self.asked.as_ref();
        asked.map_or(0, |asked| asked.retransmit.octets())
    }

    /// Sends our open request over this path too.
    pub(super) fn try_over(&self, path: Path, out: &mut Outbox) {
        if let Some(asked) = &self.asked {
            asked.retransmit.try_over(path, out);
        }
    }

    /// Octets of fragments that wait for the rest of their message.
    pub(super) fn fragment_octets(&self) -> usize {
        self.requests.octets() + self.responses.octets()
    }
}

/// A copy of the keys, for who decrypts a capture.
fn shown(suite: Ikev2Suite, keys: &Keys) -> MessageKeys {
    MessageKeys::V2(Box::new(DirectionKeys {
        protection: suite.protection,
        initiator: keys.initiator.clone(),
        responder: keys.responder.clone(),
    }))
}

/// The place of a message in its exchange.
pub(super) const fn step(exchange: Exchange, number: u8) -> Step {
    match exchange {
        Exchange::IkeSaInit => Step::Init(number),
        Exchange::IkeSessionResume => Step::Resume(number),
        Exchange::IkeIntermediate => Step::Intermediate(number),
        Exchange::IkeAuth => Step::Auth(number),
        Exchange::IkeFollowupKe => Step::Followup(number),
        Exchange::CreateChildSa => Step::Create(number),
        _ => Step::Inform(number),
    }
}
