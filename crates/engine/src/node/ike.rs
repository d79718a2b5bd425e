//! One peer's IKE SA, of either version. The node speaks to both through this type; only where
//! their messages come in do the versions part (`messages.rs`, `ikev2.rs`).
//!
//! An enum and not a trait: there are two, both are known, and the node stores them by value.

mod v2;

use std::net::IpAddr;

use crypto::cert::CertificatePath;
use crypto::rand::Stream;

use crate::config::InnerFamilies;
use crate::identity::Peer;
use crate::ike::nat::NatFinding;
use crate::ike::round_trip::RoundTrip;
use crate::ike::{
    ChildExchange, ChildRequest, Complaint, Fact, Fault, Grant, Lease, MessageKeys,
    NegotiatedChild, Outbox, Refusal, RefusedChild, Role, Spi, Spis,
};
use crate::ikev1::session::{About, Session as Ikev1};
use crate::ikev2::session::{Beginning, Session as Ikev2};
use crate::sa::{ChildId, Path, Protocol};
use crate::suite::Standing;
use crate::time::{Deadline, Instant};

/// A session of IKEv1 or IKEv2.
pub(super) enum Ike {
    V1(Ikev1),
    V2(Box<Ikev2>),
}

use Ike::{V1, V2};

impl Ike {
    /// Begins. IKEv1 asks for less.
    pub(super) fn initiate(
        beginning: Beginning,
        random: &mut Stream,
        now: Instant,
    ) -> (Self, Outbox) {
        if beginning.connection.version.has_v1() {
            let Beginning {
                connection,
                path,
                is_first_contact: first,
                round_trip,
                ..
            } = beginning;
            let (ike, out) = Ikev1::initiate(connection, path, first, round_trip, random, now);
            return (V1(ike), out);
        }
        let (ike, out) = Ikev2::initiate(beginning, random, now);
        (V2(Box::new(ike)), out)
    }

    pub(super) fn v1(&self) -> Option<&Ikev1> {
        match self {
            V1(ike) => Some(ike),
            V2(_) => None,
        }
    }

    pub(super) fn v1_mut(&mut self) -> Option<&mut Ikev1> {
        match self {
            V1(ike) => Some(ike),
            V2(_) => None,
        }
    }

    pub(super) fn v2_mut(&mut self) -> Option<&mut Ikev2> {
        match self {
            V1(_) => None,
            V2(ike) => Some(ike),
        }
    }

    pub(super) fn v2(&self) -> Option<&Ikev2> {
        match self {
            V1(_) => None,
            V2(ike) => Some(ike),
        }
    }

    pub(super) fn is_v2(&self) -> bool {
        matches!(self, V2(_))
    }

    /// 1 or 2.
    pub(super) fn version(&self) -> u8 {
        if self.is_v2() { 2 } else { 1 }
    }
}

/// What both versions know.
impl Ike {
    pub(super) fn role(&self) -> Role {
        match self {
            V1(ike) => ike.role(),
            V2(ike) => ike.role(),
        }
    }

    /// Our SPIs: IKEv2 has several while it renews its IKE SA.
    pub(super) fn own_spis(&self) -> Vec<Spi> {
        match self {
            V1(ike) => vec![ike.own_spi()],
            V2(ike) => ike.own_spis(),
        }
    }

    pub(super) fn spis(&self) -> Spis {
        match self {
            V1(ike) => ike.spis(),
            V2(ike) => ike.spis(),
        }
    }

    pub(super) fn outbox(&self) -> Outbox {
        Outbox::over(self.round_trip())
    }

    pub(super) fn learn(&mut self, out: &Outbox) {
        match self {
            V1(ike) => ike.learn(out),
            V2(ike) => ike.learn(out),
        }
    }

    pub(super) fn round_trip(&self) -> RoundTrip {
        match self {
            V1(ike) => ike.round_trip(),
            V2(ike) => ike.round_trip(),
        }
    }

    pub(super) fn path(&self) -> Path {
        match self {
            V1(ike) => ike.path(),
            V2(ike) => ike.path(),
        }
    }

    pub(super) fn move_to(&mut self, path: Path) {
        match self {
            V1(ike) => ike.move_to(path),
            V2(ike) => ike.move_to(path),
        }
    }

    pub(super) fn is_established(&self) -> bool {
        match self {
            V1(ike) => ike.is_established(),
            V2(ike) => ike.is_established(),
        }
    }

    pub(super) fn identity(&self) -> Option<&Peer> {
        match self {
            V1(ike) => ike.identity(),
            V2(ike) => ike.identity(),
        }
    }

    pub(super) fn certificate(&self) -> Option<&CertificatePath> {
        match self {
            V1(ike) => ike.certificate(),
            V2(ike) => ike.certificate(),
        }
    }

    pub(super) fn since(&self) -> Option<Instant> {
        match self {
            V1(ike) => ike.since(),
            V2(ike) => ike.since(),
        }
    }

    /// The suite in proposal words, and its standing.
    pub(super) fn suite(&self) -> Option<(String, Standing)> {
        match self {
            V1(ike) => ike.suite().map(|it| (it.to_string(), it.standing())),
            V2(ike) => ike.suite().map(|it| (it.to_string(), it.standing())),
        }
    }

    pub(super) fn nat(&self) -> NatFinding {
        match self {
            V1(ike) => ike.nat(),
            V2(ike) => ike.nat(),
        }
    }

    pub(super) fn lifetime_s(&self) -> u64 {
        match self {
            V1(ike) => ike.lifetime_s(),
            V2(ike) => ike.lifetime_s(),
        }
    }

    /// Whether the peer is established and answers probes. Every peer of IKEv2 does (RFC 7296
    /// §2.4).
    pub(super) fn answers_probes(&self) -> bool {
        match self {
            V1(ike) => ike.answers_probes(),
            V2(ike) => ike.is_established(),
        }
    }

    pub(super) fn is_initial_contact(&self) -> bool {
        match self {
            V1(ike) => ike.is_initial_contact(),
            V2(ike) => ike.is_initial_contact(),
        }
    }

    /// The keys of its messages, for decrypting a capture. IKEv2 gives each IKE SA's once.
    pub(super) fn take_message_keys(&mut self) -> Option<MessageKeys> {
        match self {
            V1(ike) => ike.cipher_key().cloned().map(MessageKeys::V1),
            V2(ike) => ike.take_message_keys(),
        }
    }

    pub(super) fn has_proven(&self) -> bool {
        match self {
            V1(ike) => ike.has_proven(),
            V2(ike) => ike.has_proven(),
        }
    }

    pub(super) fn forget_first_contact(&mut self) {
        match self {
            V1(ike) => ike.forget_first_contact(),
            V2(ike) => ike.forget_first_contact(),
        }
    }

    /// The peer has all of our first messages. Returns whether there was something to forget.
    pub(super) fn forget_phase1(&mut self) -> bool {
        match self {
            V1(ike) => ike.forget_phase1(),
            V2(ike) => ike.is_established(),
        }
    }

    pub(super) fn has_phase1(&self) -> bool {
        match self {
            V1(ike) => ike.has_phase1(),
            V2(ike) => !ike.is_established(),
        }
    }

    /// Octets of fragments that it keeps itself.
    pub(super) fn fragment_octets(&self) -> usize {
        match self {
            V1(_) => 0,
            V2(ike) => ike.fragment_octets(),
        }
    }
}

/// Exchanges.
impl Ike {
    /// The number of the next exchange. IKEv2 counts by itself.
    pub(super) fn next_exchange(&self, random: &mut Stream) -> u32 {
        match self {
            V1(ike) => ike.next_exchange(random),
            V2(_) => 0,
        }
    }

    /// Asks for addresses. IKEv2 has asked with its authentication.
    pub(super) fn ask_addresses(
        &mut self,
        families: InnerFamilies,
        had: &[IpAddr],
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) {
        if let V1(ike) = self {
            ike.ask_addresses(families, had, random, now, out);
        }
    }

    pub(super) fn grant_address(&mut self, lease: &Lease, out: &mut Outbox) {
        match self {
            V1(ike) => ike.grant_address(lease, out),
            V2(ike) => ike.grant_address(lease),
        }
    }

    pub(super) fn end_request(&mut self) {
        if let V1(ike) = self {
            ike.end_request();
        }
    }

    pub(super) fn begin_child(
        &mut self,
        child: ChildId,
        request: ChildRequest<'_>,
        renews: Option<u32>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        match self {
            V1(ike) => ike.begin_child(child, request, renews, random, now, out),
            V2(ike) => ike.begin_child(child, request, renews, random, now, out),
        }
    }

    pub(super) fn grant_child(
        &mut self,
        grant: Grant<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Option<Box<NegotiatedChild>>, Fault> {
        match self {
            V1(ike) => ike.grant_child(grant, random, now, out).map(Some),
            V2(ike) => ike.grant_child(&grant, random, now, out),
        }
    }

    /// Sends IKEv2's one answer, with what was granted.
    pub(super) fn conclude(&mut self, random: &mut Stream, now: Instant, out: &mut Outbox) {
        if let V2(ike) = self {
            ike.conclude(random, now, out);
        }
    }

    pub(super) fn delete_child(
        &mut self,
        protocol: Protocol,
        spi: u32,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) {
        match self {
            V1(ike) => ike.delete_child(protocol, spi, random, out),
            V2(ike) => ike.delete_child(protocol, spi, random, now, out),
        }
    }

    pub(super) fn exchanges(&self) -> Vec<ChildExchange> {
        match self {
            V1(ike) => {
                let all = ike.exchanges().iter();
                let exchange = all.map(|it| ChildExchange {
                    child: it.child(),
                    spi: it.spi(),
                    is_asked: it.is_asked(),
                    is_done: it.is_done(),
                });
                exchange.collect()
            }
            V2(ike) => ike.exchanges(),
        }
    }

    /// Children with exchanges in progress.
    pub(super) fn under_way(&self) -> Vec<ChildId> {
        let is_open = |it: &ChildExchange| match self {
            V1(_) => !it.is_done,
            // One of the peer's may cross ours.
            V2(_) => it.is_asked,
        };
        let open = self.exchanges().into_iter().filter(is_open);
        open.map(|it| it.child).collect()
    }

    /// Whether another exchange must wait. IKEv2 waits by itself.
    pub(super) fn is_asking(&self) -> bool {
        self.v1().is_some_and(Ikev1::is_asking)
    }

    pub(super) fn own_exchanges(&self) -> Vec<u32> {
        self.v1()
            .map_or(Vec::new(), |ike| ike.own_exchanges().collect())
    }

    pub(super) fn forget_exchange(&mut self, spi: u32) {
        match self {
            V1(ike) => ike.forget_exchange(spi),
            V2(ike) => ike.forget_exchange(spi),
        }
    }

    pub(super) fn forget_exchanges_of(&mut self, child: ChildId) -> Vec<u32> {
        match self {
            V1(ike) => ike.forget_exchanges_of(child),
            V2(ike) => ike.forget_exchanges_of(child),
        }
    }

    pub(super) fn forget_answer(&mut self) {
        if let V1(ike) = self {
            ike.forget_answer();
        }
    }

    /// The exchange that an error in an exchange of its own ends. IKEv2's errors are answers.
    pub(super) fn refused(&self, complaint: &Complaint) -> Option<RefusedChild> {
        self.v1()?.refused(complaint)
    }

    pub(super) fn refuse(
        &mut self,
        refusal: Option<Refusal>,
        about: About,
        random: &mut Stream,
        out: &mut Outbox,
    ) {
        match self {
            V1(ike) => ike.refuse(refusal, about, random, out),
            V2(ike) if matches!(about, About::Question) => ike.refuse(refusal),
            V2(_) => {}
        }
    }

    /// Does not serve the peer's request now. IKEv1's will be repeated, as if it had been lost.
    pub(super) fn postpone(&mut self) {
        if let V2(ike) = self {
            ike.postpone();
        }
    }

    /// Exchanges for children that IKEv2 did not begin, because others stand in their place.
    pub(super) fn take_overtaken(&mut self) -> Vec<Fact> {
        match self {
            V1(_) => Vec::new(),
            V2(ike) => ike.take_overtaken(),
        }
    }

    pub(super) fn supersede(&mut self, random: &mut Stream, now: Instant, out: &mut Outbox) {
        match self {
            V1(ike) => ike.supersede(random, out),
            V2(ike) => ike.supersede(random, now, out),
        }
    }

    /// Asks whether the peer is there. Returns the number that the answer has, and octets.
    pub(super) fn probe(
        &mut self,
        (exchange, number): (u32, u32),
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Option<(u32, usize)> {
        match self {
            V1(ike) => Some((number, ike.probe(exchange, number, out))),
            V2(ike) => ike.probe(number, random, now, out),
        }
    }

    /// Answers a probe. IKEv2 has answered it.
    pub(super) fn answer_probe(&self, number: u32, random: &mut Stream, out: &mut Outbox) {
        if let V1(ike) = self {
            ike.answer_probe(number, random, out);
        }
    }

    /// Tells the peer that the session is over. Returns whether it must stay until the peer knows.
    pub(super) fn leave(
        &mut self,
        exchange: u32,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> bool {
        match self {
            V1(ike) if ike.is_established() => ike.delete(exchange, out),
            V1(_) => {}
            V2(ike) => return ike.leave(random, now, out),
        }
        false
    }
}

/// Time.
impl Ike {
    pub(super) fn deadline(&self) -> Option<Deadline> {
        match self {
            V1(ike) => ike.deadline(),
            V2(ike) => ike.deadline(),
        }
    }

    pub(super) fn departed(&mut self, began: Instant, now: Instant) {
        match self {
            V1(ike) => ike.departed(began, now),
            V2(ike) => ike.departed(began, now),
        }
    }

    /// Runs its timers. Returns whether the exchange of authentication was forgotten.
    pub(super) fn on_deadline(
        &mut self,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<bool, Fault> {
        match self {
            V1(ike) => ike.on_deadline(now, out),
            V2(ike) => ike.on_deadline(random, now, out).map(|()| false),
        }
    }

    /// Runs the timers of IKEv1's exchanges for children.
    pub(super) fn on_child_deadlines(
        &mut self,
        now: Instant,
        out: &mut Outbox,
    ) -> Vec<(ChildId, u32, Fault)> {
        match self {
            V1(ike) => ike.on_child_deadlines(now, out),
            V2(_) => Vec::new(),
        }
    }
}

/// For tests, which look into IKEv1's session and forge messages.
#[cfg(test)]
impl Ike {
    pub(super) fn sa(&self) -> Option<&crate::ikev1::IsakmpSa> {
        self.v1()?.sa()
    }

    pub(super) fn keys(&mut self) -> &mut crate::ikev1::IsakmpSa {
        self.v1_mut().expect("IKEv1").keys()
    }
}
