//! Long messages of who has proven nothing yet: what a responder keeps of them has a bound.

use crypto::message::MessageKey;
use wire::ikev2::{
    Exchange, Flags, FragmentNumbers, GENERIC_LEN, HEADER_LEN, Header, Message, Payload,
    PayloadKind, payloads, sealed_frame, write_payloads,
};

use super::radius;
use super::world::{Flight, PASSWORD, Proof, Setup, Who, World};
use crate::ike::{DirectionKeys, MessageKeys};
use crate::ikev2::authenticate::MAX_WITHOUT_AUTH;
use Who::{Gateway, Station};

/// A station that can say anything under the keys of IKE_SA_INIT.
struct Forger {
    world: World,
    key: MessageKey,
    /// Where its messages come from.
    flight: Flight,
    /// The payloads of its first message under keys.
    asked: Vec<Payload>,
    next_iv: u64,
}

impl Forger {
    fn new(mut world: World) -> Self {
        assert!(world.deliver(Gateway) && world.deliver(Station));
        let flight = world.hold(Gateway).remove(0);
        let session = world.station.session.as_mut().expect("a session");
        let sa = session.unproven().expect("keys");
        let Some(MessageKeys::V2(keys)) = sa.take_message_keys() else {
            panic!("keys of IKEv2");
        };
        let DirectionKeys {
            protection,
            initiator: (encryption, integrity),
            ..
        } = &*keys;
        let key = MessageKey::new(*protection, &encryption.0, &integrity.0);
        Self {
            world,
            asked: opened(&key, &flight),
            key,
            flight,
            next_iv: 1 << 32,
        }
    }

    /// What the station answers to the gateway, which does not hear it.
    fn answer_of_station(&mut self) -> Vec<Payload> {
        while self.world.deliver(Station) {}
        let flight = self.world.hold(Gateway).remove(0);
        opened(&self.key, &flight)
    }

    /// A message of IKE_AUTH with a vendor ID of `before` octets in clear before its encrypted
    /// payload; none: nothing in clear.
    fn message(
        &mut self,
        message_id: u32,
        before: Option<usize>,
        (first, clear): (PayloadKind, &[u8]),
        fragment: Option<FragmentNumbers>,
    ) -> Vec<u8> {
        let session = self.world.station.session.as_ref().expect("a session");
        let header = Header {
            spis: session.spis().into(),
            next_payload: PayloadKind::None,
            minor_version: 0,
            exchange: Exchange::IkeAuth,
            flags: Flags::of(true, false),
            message_id,
        };
        let len = self.key.sealed_len(clear.len());
        let (mut message, mut start) = sealed_frame(&header, first, fragment, len);
        if let Some(before) = before {
            let mut vendor = vec![message[16], 0];
            vendor.extend(((GENERIC_LEN + before) as u16).to_be_bytes());
            vendor.resize(GENERIC_LEN + before, 7);
            message[16] = PayloadKind::VendorId.number();
            start += vendor.len();
            message.splice(HEADER_LEN..HEADER_LEN, vendor);
            let len = message.len() as u32;
            message[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&len.to_be_bytes());
        }
        self.next_iv += 1;
        let iv = self.next_iv.to_be_bytes();
        self.key.seal(&mut message, start, &iv, clear);
        message
    }

    /// The gateway hears it. What it answers, in words.
    fn say(&mut self, octets: Vec<u8>) -> Option<String> {
        let before = self.world.gateway.arrows.len();
        let flight = Flight {
            octets,
            ..self.flight.clone()
        };
        self.world.receive(Gateway, &flight);
        self.world.gateway.arrows.get(before).cloned()
    }
}

/// The payloads of a whole message of the station's.
fn opened(key: &MessageKey, flight: &Flight) -> Vec<Payload> {
    let read = Message::parse(&flight.octets).expect("a message");
    let protected = read.protected.expect("under keys");
    let mut octets = flight.octets.clone();
    let range = key.open(&mut octets, protected.sealed.start);
    let chain = payloads(protected.first, &octets[range.expect("authentic")]);
    let chain = chain.expect("payloads").into_iter();
    chain.map(|found| found.payload.clone()).collect()
}

/// These payloads with a vendor ID that fills them to so many octets.
fn filled(mut chain: Vec<Payload>, octets: usize) -> (PayloadKind, Vec<u8>) {
    let used = write_payloads(&chain).1.len() + GENERIC_LEN;
    chain.push(Payload::VendorId(vec![7; octets - used]));
    let (first, body) = write_payloads(&chain);
    assert_eq!(body.len(), octets);
    (first, body)
}

fn setup() -> Setup {
    Setup {
        station: Proof::Password(PASSWORD),
        gateway: Proof::Certificate,
        ..Setup::default()
    }
}

/// Octets of a message besides a vendor ID before its encrypted payload.
fn others(forger: &Forger, clear: &[u8]) -> usize {
    HEADER_LEN + 2 * GENERIC_LEN + forger.key.sealed_len(clear.len())
}

const REFUSED: &str = "auth 2: N(AUTHENTICATION_FAILED)";

#[test]
fn a_request_that_waits_for_eap_is_not_kept_if_it_is_long() {
    for (more, is_kept) in [(0, true), (1, false)] {
        let octets = MAX_WITHOUT_AUTH + more;
        // All of it encrypted: the message is longer than its payloads.
        let mut forger = Forger::new(setup().world());
        let over = others(&forger, &[]) - GENERIC_LEN;
        let (first, body) = filled(forger.asked.clone(), octets - over);
        let message = forger.message(1, None, (first, &body), None);
        assert_eq!(message.len(), octets);
        let answer = forger.say(message).expect("an answer");
        assert_eq!(answer != REFUSED, is_kept, "{answer}");
        // The most of it in clear.
        let mut forger = Forger::new(setup().world());
        let (first, body) = write_payloads(&forger.asked);
        let before = octets - others(&forger, &body);
        let message = forger.message(1, Some(before), (first, &body), None);
        assert_eq!(message.len(), octets);
        let answer = forger.say(message).expect("an answer");
        assert_eq!(answer != REFUSED, is_kept, "{answer}");
        assert_eq!(forger.world.gateway.session.is_some(), is_kept);
    }
    // Or in several fragments.
    let mut forger = Forger::new(setup().world());
    let (first, body) = filled(forger.asked.clone(), MAX_WITHOUT_AUTH + 1);
    let mut answer = None;
    for (number, part) in (1..).zip(body.chunks(1_000)) {
        assert_eq!(answer, None);
        let kind = if number == 1 {
            first
        } else {
            PayloadKind::None
        };
        let numbers = FragmentNumbers { number, total: 9 };
        let message = forger.message(1, None, (kind, part), Some(numbers));
        answer = forger.say(message);
    }
    assert_eq!(answer.as_deref(), Some(REFUSED));
}

#[test]
fn neither_is_one_that_waits_for_a_server_of_radius() {
    for (more, is_kept) in [(0, true), (1, false)] {
        for is_clear in [false, true] {
            let mut forger = Forger::new(radius::world(Proof::Password(PASSWORD)));
            let octets = MAX_WITHOUT_AUTH + more;
            let (first, body) = write_payloads(&forger.asked);
            let message = forger.message(1, None, (first, &body), None);
            let asked = forger.say(message).expect("an answer");
            assert!(asked.contains("EAP"), "{asked}");
            let chain = forger.answer_of_station();
            let message = match is_clear {
                false => {
                    let over = others(&forger, &[]) - GENERIC_LEN;
                    let (first, body) = filled(chain, octets - over);
                    forger.message(2, None, (first, &body), None)
                }
                true => {
                    let (first, body) = write_payloads(&chain);
                    let before = octets - others(&forger, &body);
                    forger.message(2, Some(before), (first, &body), None)
                }
            };
            assert_eq!(message.len(), octets);
            let answer = forger.say(message);
            assert_eq!(answer.is_none(), is_kept, "{answer:?}");
            assert_eq!(forger.world.gateway.questions.len(), usize::from(is_kept));
        }
    }
}

#[test]
fn a_fragment_counts_with_what_is_in_clear_before_it() {
    let mut forger = Forger::new(setup().world());
    let (first, body) = write_payloads(&forger.asked);
    let numbers = FragmentNumbers {
        number: 1,
        total: 2,
    };
    let message = forger.message(1, Some(20_000), (first, &body), Some(numbers));
    let octets = message.len() + body.len();
    assert_eq!(forger.say(message), None);
    let session = forger.world.gateway.session.as_ref().expect("a session");
    assert_eq!(session.fragment_octets(), octets);
}
