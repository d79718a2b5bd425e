//! The client against a server of the test: what is believed, what is dropped, and who is asked
//! next.

use crypto::hash::Hash;
use crypto::rand::Seed;
use wire::eap::{EapCode, EapKind};
use wire::radius::{
    ATTRIBUTE_HEAD_LEN, Attribute, HEAD_LEN, Kind, MICROSOFT, MPPE_RECV_KEY, MPPE_SEND_KEY,
};

use super::*;

pub(crate) const SECRET: &[u8] = b"a secret of the house";
const USER: &[u8] = b"alice";

/// Servers at these addresses.
pub(crate) fn servers(addresses: &[&str]) -> Arc<Servers> {
    let all = addresses.iter().map(|address| {
        Arc::new(Server {
            address: address.parse().unwrap(),
            secret: Secret(SECRET.to_vec()),
        })
    });
    Arc::new(Servers {
        all: all.collect(),
        nas_identifier: "gateway".into(),
    })
}

/// What a server does with a request.
pub(crate) struct Reply {
    pub(crate) code: Code,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) secret: &'static [u8],
    pub(crate) is_signed: bool,
}

impl Reply {
    pub(crate) fn of(code: Code, eap: &Eap) -> Self {
        Self {
            code,
            attributes: Attribute::of_eap(eap.octets()).collect(),
            secret: SECRET,
            is_signed: true,
        }
    }

    pub(crate) fn with(mut self, kind: Kind, octets: &[u8]) -> Self {
        self.attributes.extend(Attribute::of_octets(kind, octets));
        self
    }

    /// With both halves of this key, encrypted for a request.
    pub(crate) fn with_key(mut self, request: &[u8], key: &[u8]) -> Self {
        let (receive, send) = key.split_at(key.len() / 2);
        for (kind, half) in [(MPPE_RECV_KEY, receive), (MPPE_SEND_KEY, send)] {
            let salt = [0x80 | kind, 7];
            let value = encrypt(half, &request[4..HEAD_LEN], salt, self.secret);
            let mut octets = MICROSOFT.to_be_bytes().to_vec();
            octets.extend([kind, (value.len() + ATTRIBUTE_HEAD_LEN) as u8]);
            octets.extend(value);
            self.attributes
                .extend(Attribute::of_octets(Kind::VendorSpecific, &octets));
        }
        self
    }

    /// The octets of the response to a request.
    pub(crate) fn to(&self, request: &[u8]) -> Vec<u8> {
        let asked: [u8; AUTHENTICATOR_LEN] = request[4..HEAD_LEN].try_into().unwrap();
        let mut attributes = self.attributes.clone();
        if self.is_signed {
            attributes.insert(0, signature());
        }
        let packet = Packet {
            code: self.code,
            id: request[1],
            authenticator: asked,
            attributes,
        };
        let mut octets = packet.to_vec();
        if self.is_signed {
            let mac = Hash::Md5.hmac(self.secret, &[&octets]);
            let at = HEAD_LEN + ATTRIBUTE_HEAD_LEN;
            octets[at..at + AUTHENTICATOR_LEN].copy_from_slice(mac.as_ref());
        }
        let whole = Hash::Md5.digest(&[&octets, self.secret]);
        octets[4..HEAD_LEN].copy_from_slice(whole.as_ref());
        octets
    }
}

fn signature() -> Attribute {
    Attribute::of_octets(Kind::MessageAuthenticator, &[0; AUTHENTICATOR_LEN]).unwrap()
}

/// The other way round of what [`packet::decrypt`] does.
fn encrypt(key: &[u8], asked: &[u8], salt: [u8; 2], secret: &[u8]) -> Vec<u8> {
    let mut clear = vec![key.len() as u8];
    clear.extend(key);
    clear.resize(clear.len().next_multiple_of(16), 0);
    let mut value = salt.to_vec();
    let mut before = [asked, &salt].concat();
    for block in clear.chunks(16) {
        let pad = Hash::Md5.digest(&[secret, &before]);
        before = block
            .iter()
            .zip(pad.as_ref())
            .map(|(one, other)| one ^ other)
            .collect();
        value.extend(&before);
    }
    value
}

struct Bed {
    client: Client,
    random: Stream,
    now: Instant,
    drops: DropCounters,
}

impl Bed {
    fn new(addresses: &[&str]) -> Self {
        let mut client = Client::default();
        client.configure(Some(servers(addresses)));
        Self {
            client,
            random: Seed::new([9; 32]).stream("radius", 0),
            now: Instant(0),
            drops: DropCounters::default(),
        }
    }

    fn ask(&mut self, ticket: Ticket, server: Option<Arc<Server>>) {
        let question = Question {
            server,
            user: USER.to_vec(),
            eap: response(),
            state: None,
            peer: "192.0.2.7".parse().unwrap(),
        };
        let (random, now) = (&mut self.random, self.now);
        self.client.ask(ticket, question, random, now);
    }

    fn sent(&mut self) -> (SocketAddr, Vec<u8>) {
        self.client.datagram().expect("a datagram")
    }

    fn hear(&mut self, from: SocketAddr, datagram: &[u8]) {
        let (now, drops) = (self.now, &mut self.drops);
        self.client.on_datagram(from, datagram, now, drops);
    }

    fn verdict(&mut self) -> Verdict {
        self.client.verdict().expect("a verdict").1
    }

    /// Waits for the next deadline.
    fn wait(&mut self) {
        self.now = self.client.deadline().expect("a deadline").at;
        self.client.on_deadline(&mut self.random, self.now);
    }

    /// Waits until the question fails or something is sent, and counts what is sent to each.
    fn wait_out(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        while self.client.deadline().is_some() {
            while let Some((to, _)) = self.client.datagram() {
                sent.push(to.to_string());
            }
            self.wait();
        }
        while let Some((to, _)) = self.client.datagram() {
            sent.push(to.to_string());
        }
        sent
    }
}

fn response() -> Eap {
    Eap::of_kind(EapCode::Response, 5, EapKind::Identity, USER)
}

fn challenge() -> Reply {
    let eap = Eap::of_kind(EapCode::Request, 6, EapKind::Tls, &[0x20]);
    Reply::of(Code::AccessChallenge, &eap).with(Kind::State, b"where we are")
}

const ONE: &str = "10.1.0.5:1812";
const TWO: &str = "10.1.0.6:1812";

#[test]
fn a_request_has_its_message_authenticator_first_and_says_who_asks() {
    let mut bed = Bed::new(&[ONE]);
    bed.ask(1, None);
    let (to, octets) = bed.sent();
    assert_eq!(to, ONE.parse().unwrap());
    let packet = Packet::parse(&octets).unwrap();
    assert_eq!(packet.code, Code::AccessRequest);
    assert_eq!(packet.attributes[0].kind, Kind::MessageAuthenticator);
    let mut blank = octets.clone();
    blank[22..38].fill(0);
    let mac = Hash::Md5.hmac(SECRET, &[&blank]);
    assert_eq!(mac.as_ref(), &octets[22..38]);
    let of = |kind| packet.all(kind).next();
    assert_eq!(of(Kind::UserName), Some(USER));
    assert_eq!(of(Kind::NasIdentifier), Some(&b"gateway"[..]));
    assert_eq!(of(Kind::CallingStationId), Some(&b"192.0.2.7"[..]));
    assert_eq!(of(Kind::State), None);
    assert_eq!(packet.eap(), response().octets());
}

#[test]
fn a_challenge_brings_the_state_that_the_next_request_has() {
    let mut bed = Bed::new(&[ONE, TWO]);
    bed.ask(1, None);
    let (to, octets) = bed.sent();
    bed.hear(to, &challenge().to(&octets));
    let Verdict::Challenge { eap, state, server } = bed.verdict() else {
        panic!("no challenge");
    };
    assert_eq!((eap.id(), server.address), (6, to));
    assert_eq!(state.as_deref(), Some(&b"where we are"[..]));
    let question = Question {
        server: Some(server),
        user: USER.to_vec(),
        eap: response(),
        state,
        peer: "2001:db8::7".parse().unwrap(),
    };
    bed.client.ask(1, question, &mut bed.random, bed.now);
    let packet = Packet::parse(&bed.sent().1).unwrap();
    let of = |kind| packet.all(kind).next();
    assert_eq!(of(Kind::State), Some(&b"where we are"[..]));
    assert_eq!(of(Kind::CallingStationId), Some(&b"2001:db8::7"[..]));
    assert_eq!(bed.drops, DropCounters::default());
    let counts = bed.client.status()[0].counts;
    assert_eq!((counts.requests, counts.challenges), (2, 1));
}

#[test]
fn an_accept_brings_key_name_and_time() {
    let mut bed = Bed::new(&[ONE]);
    for len in [64, 32] {
        bed.ask(1, None);
        let (to, octets) = bed.sent();
        let key: Vec<u8> = (0..len).collect();
        let reply = Reply::of(Code::AccessAccept, &Eap::verdict(true, 5))
            .with(Kind::UserName, b"alice@example")
            .with(Kind::SessionTimeout, &3600_u32.to_be_bytes())
            .with_key(&octets, &key);
        bed.hear(to, &reply.to(&octets));
        let Verdict::Accept {
            user,
            key: found,
            lasts,
            ..
        } = bed.verdict()
        else {
            panic!("no accept");
        };
        let found = found.expect("a key").0.clone();
        assert_eq!(found.len(), 64);
        assert!(found.starts_with(&key));
        assert!(found[key.len()..].iter().all(|it| *it == 0));
        assert_eq!(user.as_deref(), Some(&b"alice@example"[..]));
        assert_eq!(lasts, Some(Duration::from_secs(3600)));
    }
}

#[test]
fn an_accept_without_both_halves_of_a_key_has_none() {
    let mut bed = Bed::new(&[ONE]);
    for len in [0, 8, 30, 66] {
        bed.ask(1, None);
        let (to, octets) = bed.sent();
        let mut reply = Reply::of(Code::AccessAccept, &Eap::verdict(true, 5));
        if len > 0 {
            reply = reply.with_key(&octets, &vec![3; len]);
        }
        bed.hear(to, &reply.to(&octets));
        assert!(matches!(bed.verdict(), Verdict::Accept { key: None, .. }));
    }
}

#[test]
fn answers_that_say_nothing_usable_fail_the_question() {
    let request = Eap::of_kind(EapCode::Request, 6, EapKind::Tls, &[0x20]);
    for (code, eap) in [
        (Code::AccessAccept, request),
        (Code::AccessAccept, Eap::verdict(false, 5)),
        (Code::AccessChallenge, Eap::verdict(true, 5)),
    ] {
        let mut bed = Bed::new(&[ONE]);
        bed.ask(1, None);
        let (to, octets) = bed.sent();
        bed.hear(to, &Reply::of(code, &eap).to(&octets));
        assert!(matches!(bed.verdict(), Verdict::Failed(_)));
    }
}

/// Who collides MD5 can make any Response Authenticator (CVE-2024-3596).
#[test]
fn a_response_without_a_message_authenticator_is_dropped() {
    let mut bed = Bed::new(&[ONE]);
    bed.ask(1, None);
    let (to, octets) = bed.sent();
    let mut reply = Reply::of(Code::AccessAccept, &Eap::verdict(true, 5));
    reply = reply.with_key(&octets, &[1; 64]);
    reply.is_signed = false;
    bed.hear(to, &reply.to(&octets));
    assert_eq!(bed.drops.of(DropReason::RadiusUnsigned), 1);
    reply.is_signed = true;
    // Two of them.
    let mut twice = Reply::of(Code::AccessAccept, &Eap::verdict(true, 5));
    twice.attributes.push(signature());
    bed.hear(to, &twice.to(&octets));
    assert_eq!(bed.drops.of(DropReason::RadiusMalformed), 1);
    assert!(bed.client.verdict().is_none());
    bed.hear(to, &reply.to(&octets));
    assert!(matches!(
        bed.verdict(),
        Verdict::Accept { key: Some(_), .. }
    ));
}

#[test]
fn a_response_by_another_secret_or_changed_anywhere_is_dropped() {
    let mut bed = Bed::new(&[ONE]);
    bed.ask(1, None);
    let (to, octets) = bed.sent();
    let mut other = challenge();
    other.secret = b"another secret of a house";
    bed.hear(to, &other.to(&octets));
    assert_eq!(bed.drops.of(DropReason::RadiusForged), 1);
    let genuine = challenge().to(&octets);
    let total = |bed: &Bed| {
        DropReason::ALL
            .map(|it| bed.drops.of(it))
            .iter()
            .sum::<u64>()
    };
    for at in 0..genuine.len() {
        let mut changed = genuine.clone();
        changed[at] ^= 0x40;
        bed.hear(to, &changed);
        assert!(bed.client.verdict().is_none(), "{at}");
        assert_eq!(total(&bed), at as u64 + 2);
    }
    for len in 0..genuine.len() {
        bed.hear(to, &genuine[..len]);
    }
    // Somebody else.
    bed.hear("10.1.0.7:1812".parse().unwrap(), &genuine);
    assert!(bed.client.verdict().is_none());
    bed.hear(to, &genuine);
    assert!(matches!(bed.verdict(), Verdict::Challenge { .. }));
    // Again: it is late now.
    let before = bed.drops.of(DropReason::RadiusUnasked);
    bed.hear(to, &genuine);
    assert!(bed.client.verdict().is_none());
    assert_eq!(bed.drops.of(DropReason::RadiusUnasked), before + 1);
    let counts = bed.client.status()[0].counts;
    assert_eq!(counts.drops, total(&bed) - 1);
}

#[test]
fn a_request_is_repeated_as_it_was_then_the_next_server_is_asked() {
    let mut bed = Bed::new(&[ONE, TWO]);
    bed.ask(1, None);
    let first = bed.sent();
    for ms in [1_000, 2_500] {
        bed.wait();
        assert_eq!(bed.now.0, ms * 1_000_000);
        assert_eq!(bed.sent(), first);
    }
    bed.wait();
    let (to, octets) = bed.sent();
    assert_eq!(to, TWO.parse().unwrap());
    assert_ne!(octets[4..20], first.1[4..20]);
    assert_eq!(bed.client.change(), Some((first.0, true)));
    // The first one answers too late.
    bed.hear(first.0, &challenge().to(&first.1));
    assert_eq!(bed.drops.of(DropReason::RadiusUnasked), 1);
    bed.hear(to, &challenge().to(&octets));
    assert!(matches!(bed.verdict(), Verdict::Challenge { server, .. } if server.address == to));
    // It is passed over, then tried by one question.
    bed.ask(2, None);
    assert_eq!(bed.sent().0, to);
    bed.now = bed.now + DEAD_TIME;
    bed.ask(3, None);
    bed.ask(4, None);
    let third = bed.sent();
    assert_eq!((third.0, bed.sent().0), (first.0, to));
    assert!(bed.client.status()[0].is_silent);
    bed.hear(third.0, &challenge().to(&third.1));
    assert_eq!(bed.client.change(), Some((first.0, false)));
    bed.ask(5, None);
    assert_eq!(bed.sent().0, first.0);
}

#[test]
fn a_question_fails_in_bounded_time_if_nobody_answers() {
    let four = [ONE, TWO, "10.1.0.7:1812", "[2001:db8::5]:1812"];
    for servers in 1..=4 {
        let mut bed = Bed::new(&four[..servers]);
        bed.ask(1, None);
        let sent = bed.wait_out();
        assert!(bed.now <= Instant(0) + PATIENCE);
        for address in &four[..servers.min(3)] {
            assert!(sent.iter().any(|to| to == address), "{address}");
        }
        let Verdict::Failed(why) = bed.verdict() else {
            panic!("it does not fail");
        };
        assert!(why.contains("no RADIUS server answers"), "{why}");
        assert!(why.contains(ONE), "{why}");
        // Who has not been asked is next. If all are silent, they are asked all the same.
        bed.ask(2, None);
        let next = if servers == 4 { four[3] } else { ONE };
        assert_eq!(bed.sent().0, next.parse().unwrap());
    }
}

#[test]
fn nobody_else_answers_for_a_server_that_has_begun() {
    let mut bed = Bed::new(&[ONE, TWO]);
    bed.ask(1, None);
    let (to, octets) = bed.sent();
    bed.hear(to, &challenge().to(&octets));
    let Verdict::Challenge { server, .. } = bed.verdict() else {
        panic!("no challenge");
    };
    bed.now = bed.now + Duration::from_secs(1);
    bed.ask(1, Some(server));
    let sent = bed.wait_out();
    assert_eq!(sent, [ONE; 3]);
    assert!(matches!(bed.verdict(), Verdict::Failed(_)));
}

/// Else a peer whose packets a server does not like would keep all others from it.
#[test]
fn a_server_that_answers_others_is_not_passed_over() {
    let mut bed = Bed::new(&[ONE, TWO]);
    bed.ask(1, None);
    bed.sent();
    bed.ask(2, None);
    let (to, octets) = bed.sent();
    bed.hear(to, &challenge().to(&octets));
    let sent = bed.wait_out();
    assert_eq!(sent.first().map(String::as_str), Some(ONE));
    assert_eq!(bed.client.status()[0].counts.unanswered, 1);
    assert!(!bed.client.status()[0].is_silent);
}

#[test]
fn an_identifier_is_not_used_again_while_its_request_is_open() {
    let mut bed = Bed::new(&[ONE]);
    let mut ids = std::collections::BTreeSet::new();
    for ticket in 0..256 {
        bed.ask(ticket, None);
        assert!(ids.insert(bed.sent().1[1]));
    }
    bed.ask(256, None);
    assert!(bed.client.datagram().is_none());
    let (ticket, verdict) = bed.client.verdict().expect("a verdict");
    assert!(matches!(verdict, Verdict::Failed(_)));
    assert_eq!(ticket, 256);
    bed.client.forget(17);
    bed.ask(257, None);
    assert!(!ids.insert(bed.sent().1[1]));
    // One after the other where there is room.
    let mut bed = Bed::new(&[ONE]);
    bed.ask(0, None);
    let (to, first) = bed.sent();
    bed.hear(to, &challenge().to(&first));
    bed.ask(1, None);
    assert_eq!(bed.sent().1[1], first[1].wrapping_add(1));
}

#[test]
fn a_server_that_is_not_configured_any_more_is_not_asked() {
    let mut bed = Bed::new(&[ONE, TWO]);
    bed.ask(1, None);
    let (to, octets) = bed.sent();
    bed.client.configure(Some(servers(&[TWO, ONE])));
    bed.hear(to, &challenge().to(&octets));
    let Verdict::Challenge { server, .. } = bed.verdict() else {
        panic!("the same server, at another place");
    };
    bed.ask(2, None);
    assert_eq!(bed.sent().0, TWO.parse().unwrap());
    bed.client.configure(Some(servers(&[ONE])));
    assert!(matches!(bed.verdict(), Verdict::Failed(_)));
    bed.client.configure(None);
    bed.ask(3, Some(server));
    assert!(matches!(bed.verdict(), Verdict::Failed(_)));
    assert!(bed.client.deadline().is_none() && bed.client.status().is_empty());
}

/// RFC 2865 §7.1 and §7.2: responses to requests with these authenticators. They have no
/// Message-Authenticator, and so are not believed.
#[test]
fn the_response_authenticators_of_the_document() {
    for (asked, response) in [
        (
            "0f403f9473978057bd83d5cb98f4227a",
            "0200002686fe220e7624ba2a1005f6bf9b55e0b20606000000010f06000000000e06c0a80103",
        ),
        (
            "2aee86f08d0d55969ca5978e0d3367a2",
            "0201003815efbc7dab26cfa3dc34d9c03c8601a40606000000020706000000010806fffffffe\
             0a06000000020d06000000010c06000005dc",
        ),
    ] {
        let (asked, response) = (hex(asked), hex(response));
        let packet = Packet::parse(&response).unwrap();
        let whole = Hash::Md5.digest(&[&response[..4], &asked, &response[20..], b"xyzzy5461"]);
        assert_eq!(whole.as_ref(), packet.authenticator);
        let secret = Secret(b"xyzzy5461".to_vec());
        let checked = packet::check(&response, &packet, &asked.try_into().unwrap(), &secret);
        assert_eq!(checked, Err(DropReason::RadiusUnsigned));
    }
}

/// The Message-Authenticator of a request (RFC 5997 §6.1).
#[test]
fn the_message_authenticator_of_a_document() {
    let request =
        hex("0cda00268a54f4686fb394c52866e302185d062350125a665e2e1e8411f3e243822097c84fa3");
    let mut blank = request.clone();
    blank[22..].fill(0);
    let mac = Hash::Md5.hmac(b"xyzzy5461", &[&blank]);
    assert_eq!(mac.as_ref(), &request[22..]);
}

/// RFC 2548 has no example: this one is of OpenBSD's library for RADIUS.
#[test]
fn the_key_of_another_implementation_is_read() {
    let asked = hex("678ae6ed696e1bd10ae2fea105d46a56").try_into().unwrap();
    let value = hex("8036f4abbe2117fb3e4a7874dce91c5b04498ec7720f168688562dbc88e21cab6271");
    let secret = Secret(b"hogehogefugafuga".to_vec());
    let clear = packet::decrypt(&value, &asked, &secret).expect("a key");
    assert_eq!(*clear, hex("fc6ea418373d8e90c136fae3735e37d1"));
    for len in (0..value.len()).filter(|len| *len != 18) {
        assert!(packet::decrypt(&value[..len], &asked, &secret).is_none());
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    let pairs = digits.chunks(2);
    pairs.map(|d| digit(d[0]) << 4 | digit(d[1])).collect()
}
