//! A home agent in virtual time, against requests that a test writes field by field.

use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Seed;
use wire::codec::Writer;
use wire::ip::{ipv4, protocol};
use wire::mip4::{
    AgentAdvertisement, AgentFlags, Authentication, Authenticator, Code, Extension, INFINITE,
    Located, Message, PORT, Reply, Request, RequestFlags, UdpTunnelReply, UdpTunnelRequest,
    extensions,
};

use super::*;
use crate::mip4::association::{Algorithm, Association, ReplayProtection};
use crate::mip4::carriers::{HomeCarriers, HomeNetwork};
use crate::sa::Path;
use crate::selector::TrafficSelector;
use crate::time::Duration;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);
const CARE_OF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const SECOND_CARE_OF: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const AGENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const SPI: u32 = 0x1000;
const AGENT_SPI: u32 = 0x2000;
const KEY: &[u8] = b"0123456789abcdef";

fn association(spi: u32, replay: ReplayProtection, key: &[u8]) -> Association {
    Association::new(spi, Algorithm::HmacMd5, replay, key).unwrap()
}

fn associations(spi: u32, replay: ReplayProtection) -> Associations {
    Associations::new(vec![association(spi, replay, KEY)]).unwrap()
}

fn config() -> Config {
    let client = Client {
        home_address: HOME,
        nai: Some(b"node@home".to_vec()),
        aaa: None,
        associations: associations(SPI, ReplayProtection::Timestamps),
    };
    let agent = associations(AGENT_SPI, ReplayProtection::Timestamps);
    Config {
        address: OURS,
        prefix_len: 24,
        max_lifetime: 600,
        max_bindings: 2,
        encapsulations: [Encapsulation::Minimal].into(),
        reverse_tunnel: ReverseTunnel::Allowed,
        udp_keepalive: Some(110),
        allows_forced_udp: true,
        clients: vec![client],
        foreign_agents: [(AGENT, agent)].into(),
        outside: vec![],
        trusts_traversal: BTreeSet::new(),
        trusted: Vec::new(),
        tunnelled: Vec::new(),
        revocation: None,
    }
}

fn clock() -> Clock {
    Clock::new(Instant(0), Duration::from_secs(1_795_000_000))
}

fn at(seconds: u64) -> Instant {
    Instant(0) + Duration::from_secs(seconds)
}

fn started(config: Config) -> HomeAgent {
    let random = Seed::new([1; 32]).stream("home agent", 0);
    HomeAgent::new(config, clock(), Instant(0), random)
}

/// What a test asks for; each field may be changed.
#[derive(Clone)]
struct Ask {
    flags: u8,
    lifetime: u16,
    home_address: Ipv4Addr,
    home_agent: Ipv4Addr,
    care_of: Ipv4Addr,
    identification: u64,
    from: Ipv4Addr,
    to: Ipv4Addr,
    before: Vec<Extension>,
    after: Vec<Extension>,
    key: Vec<u8>,
    agent_key: Option<Vec<u8>>,
}

/// A valid request of a co-located node at this second.
fn ask(second: u64) -> Ask {
    Ask {
        flags: RequestFlags::DECAPSULATES | RequestFlags::REVERSE_TUNNEL,
        lifetime: 300,
        home_address: HOME,
        home_agent: OURS,
        care_of: CARE_OF,
        identification: clock().ntp(at(second)),
        from: CARE_OF,
        to: OURS,
        before: vec![],
        after: vec![],
        key: KEY.to_vec(),
        agent_key: None,
    }
}

/// The same through the foreign agent.
fn ask_through_agent(second: u64) -> Ask {
    Ask {
        flags: RequestFlags::REVERSE_TUNNEL,
        care_of: AGENT,
        from: AGENT,
        agent_key: Some(KEY.to_vec()),
        ..ask(second)
    }
}

impl Ask {
    fn datagram(&self) -> Vec<u8> {
        let mut w = Writer::new();
        Request {
            flags: RequestFlags(self.flags),
            lifetime: self.lifetime,
            home_address: self.home_address,
            home_agent: self.home_agent,
            care_of_address: self.care_of,
            identification: self.identification,
        }
        .write(&mut w);
        let write = |list: &[Extension], w: &mut Writer| list.iter().for_each(|it| it.write(w));
        write(&self.before, &mut w);
        let own = association(SPI, ReplayProtection::Timestamps, &self.key);
        own.sign(Authentication::MobileHome, &mut w);
        write(&self.after, &mut w);
        if let Some(key) = &self.agent_key {
            let agent = association(AGENT_SPI, ReplayProtection::Timestamps, key);
            agent.sign(Authentication::ForeignHome, &mut w);
        }
        w.into_vec()
    }

    fn source(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.from, 40_000)
    }
}

fn deliver(agent: &mut HomeAgent, ask: &Ask, payload: &[u8], now: Instant) -> Vec<Output> {
    let datagram = Datagram {
        from: ask.source(),
        to: SocketAddrV4::new(ask.to, PORT),
        payload,
    };
    agent.handle(datagram, now);
    std::iter::from_fn(|| agent.poll()).collect()
}

fn tell(agent: &mut HomeAgent, ask: &Ask, second: u64) -> Vec<Output> {
    deliver(agent, ask, &ask.datagram(), at(second))
}

/// The reply of some outputs and its extensions, whose authenticators are right.
fn reply(outputs: &[Output], ask: &Ask) -> (Reply, Vec<Located>) {
    let sent = outputs.iter().find_map(|it| match it {
        Output::Send { to, payload, .. } => Some((*to, payload)),
        _ => None,
    });
    let (to, payload) = sent.expect("a reply");
    assert_eq!(to, ask.source());
    let (message, at) = Message::parse(payload).unwrap();
    let Message::Reply(reply) = message else {
        panic!("a reply");
    };
    let low = |identification: u64| identification as u32;
    assert_eq!(low(reply.identification), low(ask.identification));
    let list = extensions(payload, at).unwrap();
    let authenticators: Vec<&Located> = list.iter().filter(|it| it.covered().is_some()).collect();
    let own = association(SPI, ReplayProtection::Timestamps, KEY);
    assert!(own.verifies(payload, authenticators[0]));
    if ask.from == AGENT {
        let agent = association(AGENT_SPI, ReplayProtection::Timestamps, KEY);
        assert!(agent.verifies(payload, authenticators[1]));
    }
    let count = if ask.from == AGENT { 2 } else { 1 };
    assert_eq!(authenticators.len(), count);
    (reply, list)
}

fn code(agent: &mut HomeAgent, ask: &Ask, second: u64) -> Code {
    reply(&tell(agent, ask, second), ask).0.code
}

/// Why a request that gets no answer was dropped.
fn silence(agent: &mut HomeAgent, ask: &Ask, payload: &[u8], second: u64) -> Refusal {
    match deliver(agent, ask, payload, at(second)).as_slice() {
        [Output::Refused { why, .. }] => *why,
        other => panic!("not silent: {other:?}"),
    }
}

/// Denied, but nobody is told.
fn is_prohibited_silently(agent: &mut HomeAgent, ask: &Ask, second: u64) -> bool {
    silence(agent, ask, &ask.datagram(), second) == Refusal::Denied(Code::HomeProhibited)
}

fn care_of_addresses(agent: &HomeAgent) -> Vec<Ipv4Addr> {
    agent.bindings(HOME).map(|it| it.tunnel.care_of).collect()
}

#[test]
fn a_registration_binds_renews_and_ends() {
    let mut agent = started(config());
    let first = ask(1);
    let outputs = tell(&mut agent, &first, 1);
    let tunnel = Tunnel {
        care_of: CARE_OF,
        encapsulation: Encapsulation::IpInIp,
        udp: None,
        firewall: None,
        is_reverse: true,
        has_broadcasts: false,
        is_colocated: true,
    };
    let bound = Output::Tunnels {
        home_address: HOME,
        tunnels: vec![tunnel],
        why: Change::Registered,
    };
    assert_eq!(outputs[0], bound);
    let (said, _) = reply(&outputs, &first);
    assert_eq!((said.code, said.lifetime), (Code::Accepted, 300));
    assert_eq!(said.identification, first.identification);
    assert_eq!(agent.deadline().unwrap().at, at(301));

    assert_eq!(code(&mut agent, &ask(200), 200), Code::Accepted);
    agent.handle_timeout(at(301));
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);
    agent.handle_timeout(at(500));
    let ended = Output::Tunnels {
        home_address: HOME,
        tunnels: vec![],
        why: Change::Expired,
    };
    assert_eq!(agent.poll(), Some(ended));
    assert_eq!(agent.deadline(), None);
}

#[test]
fn a_node_that_returns_home_ends_all_its_bindings() {
    let mut agent = started(config());
    tell(&mut agent, &ask(1), 1);
    let home = Ask {
        lifetime: 0,
        care_of: HOME,
        from: HOME,
        ..ask(2)
    };
    let outputs = tell(&mut agent, &home, 2);
    let ended = Output::Tunnels {
        home_address: HOME,
        tunnels: vec![],
        why: Change::Deregistered,
    };
    assert_eq!(outputs[0], ended);
    assert!(matches!(
        &outputs[1],
        Output::Send {
            is_at_home: true,
            ..
        }
    ));
    let (said, _) = reply(&outputs, &home);
    assert_eq!((said.code, said.lifetime), (Code::Accepted, 0));
    // Once more, by the network: an answer, and no change.
    let outputs = tell(&mut agent, &home, 2);
    assert_eq!(outputs.len(), 1);
    assert_eq!(reply(&outputs, &home).0.code, Code::Accepted);
}

#[test]
fn simultaneous_bindings_are_kept_up_to_the_limit_and_end_one_by_one() {
    let mut agent = started(config());
    let simultaneous = |second, care_of| Ask {
        flags: ask(0).flags | RequestFlags::SIMULTANEOUS,
        care_of,
        from: care_of,
        ..ask(second)
    };
    tell(&mut agent, &ask(1), 1);
    tell(&mut agent, &simultaneous(2, SECOND_CARE_OF), 2);
    assert_eq!(care_of_addresses(&agent), [CARE_OF, SECOND_CARE_OF]);
    let third = simultaneous(3, Ipv4Addr::new(192, 0, 2, 99));
    assert_eq!(code(&mut agent, &third, 3), Code::TooManyBindings);
    let one = Ask {
        lifetime: 0,
        ..ask(4)
    };
    tell(&mut agent, &one, 4);
    assert_eq!(care_of_addresses(&agent), [SECOND_CARE_OF]);
    // Without the flag, the new one replaces all.
    tell(&mut agent, &ask(5), 5);
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);

    let mut single = started(Config {
        max_bindings: 1,
        ..config()
    });
    let without = Code::AcceptedWithoutSimultaneous;
    assert_eq!(code(&mut single, &simultaneous(1, CARE_OF), 1), without);
    assert_eq!(
        code(&mut single, &simultaneous(2, SECOND_CARE_OF), 2),
        without
    );
    assert_eq!(care_of_addresses(&single), [SECOND_CARE_OF]);
}

#[test]
fn a_lifetime_is_shortened_never_lengthened() {
    let mut agent = started(config());
    let forever = Ask {
        lifetime: INFINITE,
        ..ask(1)
    };
    assert_eq!(
        reply(&tell(&mut agent, &forever, 1), &forever).0.lifetime,
        600
    );
    let mut endless = started(Config {
        max_lifetime: INFINITE,
        ..config()
    });
    assert_eq!(
        reply(&tell(&mut endless, &forever, 1), &forever).0.lifetime,
        INFINITE
    );
    assert_eq!(endless.deadline(), None);
}

/// RFC 5944 §3.8.2.2: a repeated request is answered, but its lifetime runs from the first.
#[test]
fn a_repeated_request_gets_what_is_left_and_a_replayed_one_nothing() {
    let mut agent = started(config());
    let first = ask(1);
    tell(&mut agent, &first, 1);
    let outputs = tell(&mut agent, &first, 5);
    assert_eq!(outputs.len(), 1);
    assert_eq!(reply(&outputs, &first).0.lifetime, 296);
    let moved = Ask {
        care_of: SECOND_CARE_OF,
        from: SECOND_CARE_OF,
        ..ask(6)
    };
    assert_eq!(code(&mut agent, &moved, 6), Code::Accepted);
    for second in [6, 100] {
        let code = code(&mut agent, &first, second);
        assert_eq!(code, Code::IdentificationMismatch);
    }
    // The newest, after its binding was replaced by nothing but time.
    agent.handle_timeout(at(400));
    assert_eq!(code(&mut agent, &moved, 400), Code::IdentificationMismatch);
    assert_eq!(care_of_addresses(&agent), [] as [Ipv4Addr; 0]);
}

/// How many replies a thousand requests get within a second, each changed by a function.
fn replies_to_a_flood(agent: &mut HomeAgent, second: u64, change: impl Fn(u64) -> Ask) -> usize {
    let sent = (0..1000).map(|index| {
        let now = at(second) + Duration::from_millis(index);
        let one = change(index);
        let outputs = deliver(agent, &one, &one.datagram(), now);
        let is_sent = |it: &&Output| matches!(it, Output::Send { .. });
        outputs.iter().filter(is_sent).count()
    });
    sent.sum()
}

/// Anybody can send forged requests, and copies of those that he has heard, from any address.
#[test]
fn floods_of_forged_and_copied_requests_get_a_few_replies() {
    let mut agent = started(config());
    let (first, newest) = (ask(1), ask(10));
    assert_eq!(code(&mut agent, &first, 1), Code::Accepted);
    assert_eq!(code(&mut agent, &newest, 10), Code::Accepted);
    let forged = |index| Ask {
        key: b"another key of 16".to_vec(),
        identification: newest.identification + index,
        ..newest.clone()
    };
    assert_eq!(replies_to_a_flood(&mut agent, 20, forged), 4);
    // One copied request, from anywhere.
    let copied = |index: u64| Ask {
        from: Ipv4Addr::from_bits(0xc000_0200 + index as u32),
        ..first.clone()
    };
    // The first time, it is new to those that are stale.
    assert_eq!(replies_to_a_flood(&mut agent, 30, copied), 5);
    for second in 2..9 {
        tell(&mut agent, &ask(second), 31 + second);
    }
    let many = |index| ask(1 + index % 8);
    assert_eq!(replies_to_a_flood(&mut agent, 50, many), 4);
    // Within the flood, a stale request that only the node can have written is answered.
    let behind = Ask {
        identification: 7,
        ..ask(1)
    };
    for own in [ask(90), behind] {
        assert_eq!(code(&mut agent, &own, 50), Code::IdentificationMismatch);
    }
    // The node itself still registers, and what was silenced lasts a second.
    assert_eq!(code(&mut agent, &ask(50), 50), Code::Accepted);
    assert_eq!(code(&mut agent, &first, 52), Code::IdentificationMismatch);
    let forged = forged(5000);
    assert_eq!(
        code(&mut agent, &forged, 52),
        Code::HomeMobileAuthentication
    );
}

#[test]
fn a_request_with_a_wrong_clock_learns_the_right_time() {
    let mut agent = started(config());
    let wrong = Ask {
        identification: 0x1234_5678_9abc_def0,
        ..ask(1)
    };
    let (said, _) = reply(&tell(&mut agent, &wrong, 1), &wrong);
    assert_eq!(said.code, Code::IdentificationMismatch);
    assert_eq!(said.identification >> 32, clock().ntp(at(1)) >> 32);
}

#[test]
fn nonces_agree_after_one_refusal() {
    let client = Client {
        home_address: HOME,
        nai: None,
        aaa: None,
        associations: associations(SPI, ReplayProtection::Nonces),
    };
    let mut agent = started(Config {
        clients: vec![client],
        ..config()
    });
    let mut identification = 7;
    for expected in [Code::IdentificationMismatch, Code::Accepted, Code::Accepted] {
        let one = Ask {
            identification,
            ..ask(1)
        };
        let (said, _) = reply(&tell(&mut agent, &one, 1), &one);
        assert_eq!(said.code, expected);
        identification = said.identification & !0xffff_ffff | u64::from(identification as u32 + 1);
    }
}

/// One bit of the authenticator is changed. The denial would be authentic for the original, too.
#[test]
fn a_spoiled_copy_of_a_request_from_elsewhere_is_denied_silently() {
    let mut agent = started(config());
    let request = ask(1);
    let mut spoiled = request.datagram();
    *spoiled.last_mut().unwrap() ^= 1;
    let elsewhere = Ask {
        from: SECOND_CARE_OF,
        ..request.clone()
    };
    let why = silence(&mut agent, &elsewhere, &spoiled, 1);
    assert_eq!(why, Refusal::Denied(Code::HomeMobileAuthentication));
    assert_eq!(code(&mut agent, &request, 1), Code::Accepted);
}

#[test]
fn a_forged_request_changes_nothing() {
    let mut agent = started(config());
    tell(&mut agent, &ask(1), 1);
    let before = care_of_addresses(&agent);
    let forged = Ask {
        key: b"not the key".to_vec(),
        care_of: SECOND_CARE_OF,
        from: SECOND_CARE_OF,
        ..ask(2)
    };
    let code_of = code(&mut agent, &forged, 2);
    assert_eq!(code_of, Code::HomeMobileAuthentication);
    let good = ask(3).datagram();
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 0x10;
        let outputs = deliver(&mut agent, &ask(3), &damaged, self::at(3));
        assert!(
            outputs
                .iter()
                .all(|it| !matches!(it, Output::Tunnels { .. })),
            "{at}"
        );
        let is_refused = |it: &Output| matches!(it, Output::Refused { .. });
        assert!(outputs.iter().any(is_refused), "{at}");
    }
    for end in 0..good.len() {
        let why = silence(&mut agent, &ask(3), &good[..end], 3);
        assert!(
            matches!(why, Refusal::Malformed(_) | Refusal::NotAuthenticated),
            "{end}"
        );
    }
    assert_eq!(care_of_addresses(&agent), before);
    // The damaged ones have not used up the identification.
    assert_eq!(code(&mut agent, &ask(3), 3), Code::Accepted);
}

#[test]
fn strangers_and_messages_for_others_are_not_answered() {
    let mut agent = started(config());
    let stranger = Ask {
        home_address: Ipv4Addr::new(10, 18, 3, 99),
        ..ask(1)
    };
    let why = silence(&mut agent, &stranger, &stranger.datagram(), 1);
    assert_eq!(why, Refusal::UnknownNode);
    let mut w = Writer::new();
    Reply {
        code: Code::Accepted,
        lifetime: 1,
        home_address: HOME,
        home_agent: OURS,
        identification: 1,
    }
    .write(&mut w);
    let why = silence(&mut agent, &ask(1), w.as_slice(), 1);
    assert_eq!(why, Refusal::NotARequest);
    // A foreign agent's authenticator first, or two of the mobile node.
    let authenticator = |between| {
        Extension::Authenticator(Authenticator {
            between,
            spi: SPI,
            value: vec![0; 16],
        })
    };
    for list in [
        (vec![authenticator(Authentication::ForeignHome)], vec![]),
        (vec![], vec![authenticator(Authentication::MobileHome)]),
    ] {
        let (before, after) = list;
        let one = Ask {
            before,
            after,
            ..ask(1)
        };
        let why = silence(&mut agent, &one, &one.datagram(), 1);
        assert_eq!(why, Refusal::NotAuthenticated);
    }
}

/// RFC 5944 §3.8.2.1 c and d.
#[test]
fn a_foreign_agent_with_an_association_must_prove_itself_and_another_must_not_pretend() {
    let mut agent = started(config());
    let first = ask_through_agent(1);
    assert_eq!(code(&mut agent, &first, 1), Code::Accepted);
    assert_eq!(care_of_addresses(&agent), [AGENT]);
    let bare = Ask {
        agent_key: None,
        ..ask_through_agent(2)
    };
    let refused = Code::HomeForeignAuthentication;
    assert_eq!(code(&mut agent, &bare, 2), refused);
    let wrong = Ask {
        agent_key: Some(b"wrong".to_vec()),
        ..ask_through_agent(3)
    };
    assert_eq!(code(&mut agent, &wrong, 3), refused);
    let other = Ask {
        agent_key: Some(KEY.to_vec()),
        ..ask(4)
    };
    let why = silence(&mut agent, &other, &other.datagram(), 4);
    assert_eq!(why, Refusal::UnexpectedForeignAuthenticator);
    let end = Ask {
        lifetime: 0,
        agent_key: None,
        ..ask_through_agent(5)
    };
    assert_eq!(code(&mut agent, &end, 5), Code::Accepted);
}

#[test]
fn care_of_addresses_that_cannot_be_one_are_refused() {
    let mut agent = started(config());
    let other_own = Ipv4Addr::new(203, 0, 113, 5);
    agent.set_reserved([other_own].into());
    let unusable = [
        other_own,
        HOME,
        OURS,
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::new(224, 0, 0, 11),
        Ipv4Addr::new(240, 0, 0, 1),
        Ipv4Addr::new(0, 1, 2, 3),
        Ipv4Addr::new(169, 254, 1, 1),
        Ipv4Addr::new(10, 18, 3, 0),
        Ipv4Addr::new(10, 18, 3, 255),
    ];
    for (second, care_of) in (1..).zip(unusable) {
        let one = Ask {
            care_of,
            ..ask(second)
        };
        let code = code(&mut agent, &one, second);
        assert_eq!(code, Code::HomeBadRequest, "{care_of}");
    }
    assert_eq!(care_of_addresses(&agent), [] as [Ipv4Addr; 0]);
}

/// Two nodes that are at each other's home address would send packets round.
#[test]
fn the_home_address_of_another_node_is_no_care_of_address() {
    let other = Ipv4Addr::new(10, 18, 3, 18);
    let mut both = config();
    both.clients.push(Client {
        home_address: other,
        nai: None,
        aaa: None,
        associations: associations(SPI, ReplayProtection::Timestamps),
    });
    let mut agent = started(both);
    let there = Ask {
        care_of: other,
        ..ask(1)
    };
    assert_eq!(code(&mut agent, &there, 1), Code::HomeBadRequest);
    assert_eq!(care_of_addresses(&agent), [] as [Ipv4Addr; 0]);
}

#[test]
fn what_is_not_offered_is_denied_with_its_code() {
    let mut agent = started(config());
    let with = |second, flags| Ask {
        flags: ask(0).flags | flags,
        ..ask(second)
    };
    let gre = with(1, RequestFlags::GRE);
    assert_eq!(code(&mut agent, &gre, 1), Code::HomeEncapsulation);
    let both = with(2, RequestFlags::GRE | RequestFlags::MINIMAL);
    assert_eq!(code(&mut agent, &both, 2), Code::Accepted);
    let first = agent.bindings(HOME).next().unwrap();
    assert_eq!(first.tunnel.encapsulation, Encapsulation::Minimal);
    let other = Ask {
        home_agent: Ipv4Addr::new(10, 18, 3, 2),
        ..ask(3)
    };
    assert_eq!(code(&mut agent, &other, 3), Code::UnknownHomeAgent);
    let broadcast = Ask {
        home_agent: Ipv4Addr::new(10, 18, 3, 255),
        to: Ipv4Addr::new(10, 18, 3, 255),
        ..ask(4)
    };
    let outputs = tell(&mut agent, &broadcast, 4);
    let (said, _) = reply(&outputs, &broadcast);
    assert_eq!((said.code, said.home_agent), (Code::UnknownHomeAgent, OURS));
    let from = outputs
        .iter()
        .any(|it| matches!(it, Output::Send { from, .. } if *from.ip() == OURS));
    assert!(from);

    let refused = |reverse_tunnel, flags| {
        let mut agent = started(Config {
            reverse_tunnel,
            ..config()
        });
        let one = Ask { flags, ..ask(1) };
        code(&mut agent, &one, 1)
    };
    let without = RequestFlags::DECAPSULATES;
    let unavailable = refused(ReverseTunnel::Refused, ask(0).flags);
    assert_eq!(unavailable, Code::HomeReverseTunnelUnavailable);
    let required = refused(ReverseTunnel::Required, without);
    assert_eq!(required, Code::HomeReverseTunnelRequired);
}

/// RFC 2794 §3: by name alone, and a name that is another's.
#[test]
fn a_node_may_name_itself() {
    let mut agent = started(config());
    let nai = Extension::Nai(b"node@home".to_vec());
    let named = Ask {
        home_address: Ipv4Addr::UNSPECIFIED,
        before: vec![nai.clone()],
        ..ask(1)
    };
    let (said, list) = reply(&tell(&mut agent, &named, 1), &named);
    assert_eq!((said.code, said.home_address), (Code::Accepted, HOME));
    assert_eq!(list[0].extension, nai);
    let other = Ask {
        before: vec![Extension::Nai(b"other@home".to_vec())],
        ..ask(2)
    };
    let why = silence(&mut agent, &other, &other.datagram(), 2);
    assert_eq!(why, Refusal::UnknownNode);
}

const UDP: UdpTunnelRequest = UdpTunnelRequest {
    is_forced: false,
    is_through_foreign_agent: false,
    encapsulation: 0,
};

fn with_udp(second: u64, from: Ipv4Addr, request: UdpTunnelRequest) -> Ask {
    Ask {
        from,
        before: vec![Extension::UdpTunnelRequest(request)],
        ..ask(second)
    }
}

fn udp_reply(list: &[Located]) -> Option<UdpTunnelReply> {
    list.iter().find_map(|it| match it.extension {
        Extension::UdpTunnelReply(reply) => Some(reply),
        _ => None,
    })
}

/// An echo request from the node's home address to `to`, as a tunnel in UDP carries it.
fn keepalive(form: u8, source: Ipv4Addr, to: Ipv4Addr, kind: u8) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN + 8];
    packet[ipv4::HEADER_LEN] = kind;
    ipv4::Header {
        tos: 0,
        id: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::ICMP,
        source,
        destination: to,
    }
    .write(&mut packet);
    [&[4, form, 0, 0][..], &packet].concat()
}

const THROUGH: UdpTunnelRequest = UdpTunnelRequest {
    is_through_foreign_agent: true,
    ..UDP
};

fn hear(agent: &mut HomeAgent, from: SocketAddrV4, payload: &[u8]) -> Vec<Output> {
    let to = SocketAddrV4::new(OURS, PORT);
    agent.handle(Datagram { from, to, payload }, at(2));
    std::iter::from_fn(|| agent.poll()).collect()
}

fn refuses(agent: &mut HomeAgent, from: SocketAddrV4, payload: &[u8]) -> bool {
    match &hear(agent, from, payload)[..] {
        [Output::Refused { why, .. }] => *why == Refusal::UnexpectedKeepalive,
        _ => false,
    }
}

/// RFC 3519 §4.6, §4.11: the request comes from the foreign agent, the node's port with its first
/// keepalive.
#[test]
fn a_tunnel_through_an_agent_waits_for_the_nodes_keepalive() {
    const REQUEST: u8 = 8;
    let mut agent = started(config());
    let nat = Ipv4Addr::new(198, 51, 100, 1);
    let own = HomeNetwork {
        address: OURS,
        prefix_len: 24,
    };
    let mut carriers = HomeCarriers::new(own, Vec::new());
    let right = keepalive(protocol::IPV4, HOME, OURS, REQUEST);
    let end = SocketAddrV4::new(nat, 50_123);
    assert!(refuses(&mut agent, end, &right), "nobody waits for it");
    for second in [1, 2] {
        let one = with_udp(second, nat, THROUGH);
        let outputs = tell(&mut agent, &one, second);
        let (said, list) = reply(&outputs, &one);
        assert_eq!(said.code, Code::Accepted);
        assert!(udp_reply(&list).is_some_and(|it| it.is_granted()));
        let tunnel = agent.bindings(HOME).next().expect("a binding").tunnel;
        assert!(tunnel.is_half_bound());
        carriers.follow(HOME, &[tunnel]);
        assert_eq!(carriers.carriers().iter().count(), 0, "nothing is sent yet");
        let elsewhere = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 66), 50_123);
        for (from, payload) in [
            (elsewhere, right.clone()),
            (end, keepalive(protocol::IPV4, OURS, OURS, REQUEST)),
            (end, keepalive(protocol::IPV4, HOME, CARE_OF, REQUEST)),
            (end, keepalive(protocol::IPV4, HOME, OURS, 0)),
            (end, keepalive(protocol::GRE, HOME, OURS, REQUEST)),
            (end, right[..right.len() - 9].to_vec()),
        ] {
            assert!(refuses(&mut agent, from, &payload), "{from}");
        }
        let [Output::Tunnels { tunnels, why, .. }] = &hear(&mut agent, end, &right)[..] else {
            panic!("a tunnel");
        };
        assert_eq!((tunnels[0].udp, *why), (Some(end), Change::Completed));
        carriers.follow(HOME, tunnels);
        let path = carriers.carriers().iter().next().map(|it| it.2.path);
        assert_eq!(path, Some(Path::udp_with_type((OURS, PORT), end)));
        let other = SocketAddrV4::new(nat, 50_124);
        assert!(refuses(&mut agent, other, &right), "it has an end");
    }
}

#[test]
fn without_a_nat_the_keepalive_comes_from_the_care_of_address() {
    let mut agent = started(config());
    let router = Ipv4Addr::new(198, 51, 100, 1);
    let right = keepalive(protocol::IPV4, HOME, OURS, 8);
    tell(&mut agent, &with_udp(4, router, THROUGH), 4);
    let itself = SocketAddrV4::new(CARE_OF, PORT);
    assert_eq!(hear(&mut agent, itself, &right).len(), 1);
    let tunnel = agent.bindings(HOME).next().expect("a binding").tunnel;
    assert_eq!(tunnel.udp, Some(itself));
    // An agent of ours is seen as it is: there is no NAT.
    let one = Ask {
        agent_key: Some(KEY.to_vec()),
        ..with_udp(5, AGENT, THROUGH)
    };
    let (_, list) = reply(&tell(&mut agent, &one, 5), &one);
    assert!(udp_reply(&list).is_some_and(|it| !it.is_granted()));
}

/// RFC 3519 §4.6: behind a NAT, or forced.
#[test]
fn a_tunnel_is_in_udp_behind_a_nat_and_where_it_is_forced() {
    let mut agent = started(config());
    let nat = Ipv4Addr::new(198, 51, 100, 1);
    let mut udp = |second, from, request| {
        let one = with_udp(second, from, request);
        let (said, list) = reply(&tell(&mut agent, &one, second), &one);
        let end = agent.bindings(HOME).last().and_then(|it| it.tunnel.udp);
        (
            said.code,
            udp_reply(&list).map(|it| (it.is_granted(), it.is_forced)),
            end,
        )
    };
    let forced = UdpTunnelRequest {
        is_forced: true,
        ..UDP
    };
    let behind = Some(SocketAddrV4::new(nat, 40_000));
    let accepted = Code::Accepted;
    assert_eq!(udp(1, nat, UDP), (accepted, Some((true, false)), behind));
    assert_eq!(udp(2, CARE_OF, UDP), (accepted, Some((false, false)), None));
    let own = Some(SocketAddrV4::new(CARE_OF, 40_000));
    assert_eq!(udp(3, CARE_OF, forced), (accepted, Some((true, true)), own));
    let gre = UdpTunnelRequest {
        encapsulation: protocol::GRE,
        ..UDP
    };
    assert_eq!(udp(4, nat, gre).0, Code::HomeUdpEncapsulation);
    let without = Ask {
        flags: RequestFlags::REVERSE_TUNNEL,
        ..with_udp(5, nat, UDP)
    };
    assert_eq!(code(&mut agent, &without, 5), Code::HomeBadRequest);

    let mut strict = started(Config {
        udp_keepalive: None,
        allows_forced_udp: true,
        ..config()
    });
    let prohibited = code(&mut strict, &with_udp(1, nat, forced), 1);
    assert_eq!(prohibited, Code::HomeProhibited);
    assert_eq!(code(&mut strict, &with_udp(2, nat, UDP), 2), accepted);

    // RFC 3519 §4.6.1: forced only where there is a NAT, which needs no force.
    let mut unforced = started(Config {
        allows_forced_udp: false,
        ..config()
    });
    let prohibited = code(&mut unforced, &with_udp(1, CARE_OF, forced), 1);
    assert_eq!(prohibited, Code::HomeProhibited);
    assert!(care_of_addresses(&unforced).is_empty());
    assert_eq!(code(&mut unforced, &with_udp(2, nat, forced), 2), accepted);
    assert_eq!(code(&mut unforced, &with_udp(3, CARE_OF, UDP), 3), accepted);
}

/// A storm from a seed: whatever arrives and whenever, limits and lifetimes hold, and after silence
/// nothing is left.
#[test]
fn a_storm_leaves_nothing_behind() {
    let mut random = Seed::new([9; 32]).stream("storm", 0);
    let mut agent = started(config());
    let mut kept: Vec<(Ask, Vec<u8>)> = Vec::new();
    let mut now = Instant(0);
    for _ in 0..3_000 {
        now = now + Duration::from_millis(u64::from(random.u32() % 4_000));
        let second = now.0 / 1_000_000_000;
        let care_of = Ipv4Addr::from_bits(CARE_OF.to_bits() + random.u32() % 5);
        let one = Ask {
            flags: (random.u32() % 256) as u8,
            lifetime: [0, 1, 5, 300, INFINITE][random.u32() as usize % 5],
            care_of: if random.u32().is_multiple_of(8) {
                HOME
            } else {
                care_of
            },
            from: care_of,
            ..ask(second)
        };
        let mut payload = one.datagram();
        match random.u32() % 4 {
            0 if !kept.is_empty() => {
                let (again, octets) = &kept[random.u32() as usize % kept.len()];
                deliver(&mut agent, again, octets, now);
            }
            1 => {
                let at = random.u32() as usize % payload.len();
                payload[at] ^= 1 << (random.u32() % 8);
                deliver(&mut agent, &one, &payload, now);
            }
            _ => {
                deliver(&mut agent, &one, &payload, now);
                kept.push((one, payload));
            }
        }
        let bindings: Vec<&Binding> = agent.bindings(HOME).collect();
        assert!(bindings.len() <= 2);
        let longest = now + Duration::from_secs(600);
        assert!(
            bindings
                .iter()
                .all(|it| it.end.is_some_and(|end| end > now && end <= longest))
        );
    }
    agent.handle_timeout(now + Duration::from_secs(601));
    assert_eq!(agent.bindings(HOME).count(), 0);
    assert_eq!(agent.deadline(), None);
}

/// Nothing proves the source of a request. Who repeats one through the foreign agent from
/// elsewhere, with a wish for a UDP tunnel to himself behind it, gets no tunnel.
#[test]
fn an_overheard_request_leads_no_tunnel_elsewhere() {
    let mut agent = started(config());
    let stolen = Ask {
        from: Ipv4Addr::new(198, 51, 100, 66),
        agent_key: None,
        after: vec![Extension::UdpTunnelRequest(UDP)],
        ..ask_through_agent(1)
    };
    let outputs = tell(&mut agent, &stolen, 1);
    assert!(
        outputs
            .iter()
            .all(|it| !matches!(it, Output::Tunnels { .. }))
    );
    let denied = Refusal::Denied(Code::HomeForeignAuthentication);
    assert!(
        outputs
            .iter()
            .any(|it| matches!(it, Output::Refused { why, .. } if *why == denied))
    );
    assert_eq!(care_of_addresses(&agent), [] as [Ipv4Addr; 0]);
    // Of an agent without association, such a wish is not heard.
    let mut open = started(Config {
        foreign_agents: BTreeMap::new(),
        ..config()
    });
    let one = Ask {
        from: Ipv4Addr::new(198, 51, 100, 66),
        ..stolen
    };
    tell(&mut open, &one, 1);
    assert_eq!(open.bindings(HOME).next().unwrap().tunnel.udp, None);
}

#[test]
fn a_node_comes_home_where_a_reverse_tunnel_is_required() {
    let mut agent = started(Config {
        reverse_tunnel: ReverseTunnel::Required,
        ..config()
    });
    assert_eq!(code(&mut agent, &ask(1), 1), Code::Accepted);
    let home = Ask {
        flags: 0,
        lifetime: 0,
        care_of: HOME,
        from: HOME,
        ..ask(2)
    };
    assert_eq!(code(&mut agent, &home, 2), Code::Accepted);
    assert_eq!(care_of_addresses(&agent), [] as [Ipv4Addr; 0]);
}

/// Who hears a request may send a copy from elsewhere, before or after it.
#[test]
fn a_copied_request_gets_no_udp_tunnel() {
    let (nat, copier) = (
        Ipv4Addr::new(198, 51, 100, 1),
        Ipv4Addr::new(203, 0, 113, 66),
    );
    let mut agent = started(config());
    let own = with_udp(1, nat, UDP);
    let copy = Ask {
        from: copier,
        ..own.clone()
    };
    assert_eq!(code(&mut agent, &copy, 1), Code::Accepted);
    let outputs = tell(&mut agent, &own, 2);
    let is_refused = |it: &Output| {
        let why = Refusal::CopiedRequest;
        matches!(it, Output::Refused { why: said, .. } if *said == why)
    };
    assert!(outputs.iter().any(is_refused));
    let ended = Output::Tunnels {
        home_address: HOME,
        tunnels: vec![],
        why: Change::Copied,
    };
    assert!(outputs.contains(&ended));
    let said = reply(&outputs, &own).0;
    assert_eq!(said.code, Code::IdentificationMismatch);
    // The node asks anew.
    let again = with_udp(3, nat, UDP);
    assert_eq!(code(&mut agent, &again, 3), Code::Accepted);
    // The same request from there gets the same answer, and a late copy changes nothing.
    assert_eq!(code(&mut agent, &again, 4), Code::Accepted);
    let late = Ask {
        from: copier,
        ..again
    };
    assert_eq!(code(&mut agent, &late, 60), Code::IdentificationMismatch);
    let ends: Vec<_> = agent.bindings(HOME).map(|it| it.tunnel.udp).collect();
    assert_eq!(
        ends,
        [Some(late.source()).map(|it| SocketAddrV4::new(nat, it.port()))]
    );
}

/// A reply may be lost, so a repeated request gets the same one.
#[test]
fn a_repeated_request_gets_the_same_answer() {
    let mut agent = started(config());
    tell(&mut agent, &ask(1), 1);
    let denied = Ask {
        lifetime: 0,
        home_agent: Ipv4Addr::new(10, 18, 3, 2),
        ..ask(2)
    };
    for _ in 0..2 {
        assert_eq!(code(&mut agent, &denied, 2), Code::UnknownHomeAgent);
    }
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);
    let natted = with_udp(3, Ipv4Addr::new(198, 51, 100, 1), UDP);
    for _ in 0..2 {
        let (said, list) = reply(&tell(&mut agent, &natted, 3), &natted);
        assert_eq!(said.code, Code::Accepted);
        assert!(udp_reply(&list).is_some_and(UdpTunnelReply::is_granted));
    }
}

/// RFC 5944 §3.8.2.2: a home agent with more nodes than its outputs may wait tells of each end.
#[test]
fn each_end_of_a_binding_is_told() {
    let count = 2 * OUTPUTS_MAX as u32;
    let home = |number: u32| Ipv4Addr::from_bits(Ipv4Addr::new(10, 20, 0, 1).to_bits() + number);
    let clients = (0..count).map(|number| Client {
        home_address: home(number),
        nai: None,
        aaa: None,
        associations: associations(SPI, ReplayProtection::Timestamps),
    });
    let mut agent = started(Config {
        clients: clients.collect(),
        ..config()
    });
    for number in 0..count {
        let one = Ask {
            home_address: home(number),
            ..ask(1)
        };
        assert_eq!(code(&mut agent, &one, 1), Code::Accepted);
    }
    agent.handle_timeout(at(400));
    let ended = std::iter::from_fn(|| agent.poll()).count();
    assert_eq!(ended, count as usize);
}

const FIREWALL: Ipv4Addr = Ipv4Addr::new(192, 168, 4, 20);
const SECOND_FIREWALL: Ipv4Addr = Ipv4Addr::new(192, 168, 4, 21);

/// A home agent whose care-of addresses of 192.0.2.0/24 are outside, and which believes nodes about
/// both firewalls.
fn behind_firewalls() -> HomeAgent {
    started(Config {
        outside: vec![Outside {
            care_of: TrafficSelector::subnet(CARE_OF.into(), 24),
            firewall: FIREWALL,
        }],
        trusts_traversal: [FIREWALL, SECOND_FIREWALL].into(),
        trusted: Vec::new(),
        tunnelled: Vec::new(),
        ..config()
    })
}

fn naming(second: u64, care_of: Ipv4Addr, firewall: Ipv4Addr) -> Ask {
    Ask {
        care_of,
        from: care_of,
        before: vec![Extension::Traversal { firewall }],
        ..ask(second)
    }
}

/// Through which firewall the reply goes, and packets for the binding.
fn firewalls(
    agent: &mut HomeAgent,
    ask: &Ask,
    second: u64,
) -> (Option<Ipv4Addr>, Option<Ipv4Addr>) {
    let outputs = tell(agent, ask, second);
    reply(&outputs, ask);
    let of_reply = outputs.iter().find_map(|it| match it {
        Output::Send { firewall, .. } => Some(*firewall),
        _ => None,
    });
    let binding = agent.bindings(HOME).last();
    (
        of_reply.expect("a reply"),
        binding.and_then(|it| it.tunnel.firewall),
    )
}

#[test]
fn a_care_of_address_outside_is_reached_through_its_firewall() {
    let mut agent = behind_firewalls();
    let configured = (Some(FIREWALL), Some(FIREWALL));
    assert_eq!(firewalls(&mut agent, &ask(1), 1), configured);
    let elsewhere = Ask {
        care_of: SECOND_CARE_OF,
        from: SECOND_CARE_OF,
        ..ask(2)
    };
    assert_eq!(firewalls(&mut agent, &elsewhere, 2), (None, None));
    // What the node says counts more: it knows through which firewall it came.
    let second = (Some(SECOND_FIREWALL), Some(SECOND_FIREWALL));
    for (number, care_of) in (3..).zip([CARE_OF, SECOND_CARE_OF]) {
        let named = naming(number, care_of, SECOND_FIREWALL);
        assert_eq!(firewalls(&mut agent, &named, number), second);
        // The reply to a repeated request goes the same way.
        assert_eq!(firewalls(&mut agent, &named, number), second);
    }
    let home = Ask {
        lifetime: 0,
        care_of: HOME,
        from: HOME,
        ..ask(5)
    };
    assert_eq!(firewalls(&mut agent, &home, 5), (None, None));
}

/// Without the firewall that it asks for, packets would leave in the clear: so it gets no binding.
#[test]
fn a_request_through_an_unknown_firewall_is_denied() {
    let mut agent = behind_firewalls();
    tell(&mut agent, &ask(1), 1);
    let stranger = Ipv4Addr::new(198, 51, 100, 66);
    let one = naming(2, SECOND_CARE_OF, stranger);
    for _ in 0..2 {
        let outputs = tell(&mut agent, &one, 2);
        assert_eq!(reply(&outputs, &one).0.code, Code::HomeProhibited);
        let refused = outputs.iter().find_map(|it| match it {
            Output::Refused { why, .. } => Some(*why),
            _ => None,
        });
        assert_eq!(refused, Some(Refusal::UntrustedFirewall(stranger)));
    }
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);
    // It may end a binding.
    let end = Ask {
        lifetime: 0,
        ..naming(3, CARE_OF, stranger)
    };
    assert_eq!(code(&mut agent, &end, 3), Code::Accepted);
    assert_eq!(care_of_addresses(&agent), [] as [Ipv4Addr; 0]);
}

#[test]
fn a_forged_traversal_extension_changes_nothing() {
    let mut agent = behind_firewalls();
    tell(&mut agent, &ask(1), 1);
    let before: Vec<Binding> = agent.bindings(HOME).copied().collect();
    let forged = Ask {
        key: b"not the key".to_vec(),
        ..naming(2, SECOND_CARE_OF, FIREWALL)
    };
    let answered = firewalls(&mut agent, &forged, 2);
    assert_eq!(answered, (None, Some(FIREWALL)));
    assert!(agent.bindings(HOME).eq(&before));
    // Behind the node's authenticator it is not the node's.
    let appended = Ask {
        before: vec![],
        after: vec![Extension::Traversal { firewall: FIREWALL }],
        ..naming(3, SECOND_CARE_OF, FIREWALL)
    };
    assert_eq!(firewalls(&mut agent, &appended, 3), (None, None));
}

/// RFC 5944 §2.4.3: a node that hears its home agent is at home.
#[test]
fn a_home_agent_advertises_itself_without_care_of_addresses() {
    let config = config();
    let mut beacon = Beacon::new(
        &config,
        9,
        Instant(0),
        Seed::new([4; 32]).stream("beacon", 0),
    );
    let mut times = Vec::new();
    let mut now = Instant(0);
    for number in 0..4 {
        let icmp = beacon.next(now).expect("due");
        assert_eq!(beacon.next(now), None, "one at a time");
        let heard = AgentAdvertisement::parse(&icmp).unwrap().unwrap();
        assert!(heard.agent.flags.has(AgentFlags::HOME_AGENT));
        assert!(!heard.agent.flags.has(AgentFlags::FOREIGN_AGENT));
        assert_eq!(heard.agent.sequence, number);
        assert_eq!(heard.routers[0].prefix_len, Some(config.prefix_len));
        assert!(heard.agent.care_of_addresses.is_empty());
        times.push(now);
        now = beacon.deadline().at;
    }
    let apart = times.windows(2).map(|pair| pair[1].since(pair[0]));
    for apart in apart {
        assert!(apart <= Duration::from_secs(3) && apart >= Duration::from_millis(2_250));
    }
    // Eight in a second are answered at once; the next ones with all others.
    let early = times[3] + Duration::from_millis(100);
    for number in 4..12 {
        let icmp = beacon.solicited(early).expect("an answer");
        let heard = AgentAdvertisement::parse(&icmp).unwrap().unwrap();
        assert_eq!(heard.agent.sequence, number);
    }
    assert!(beacon.deadline().at > times[3] + Duration::from_secs(2));
    assert_eq!(beacon.solicited(early), None);
    assert_eq!(beacon.deadline().at, times[3] + Duration::from_secs(1));
}

#[test]
fn a_replaced_key_ends_the_bindings_that_were_made_with_the_former_one() {
    let timestamps = ReplayProtection::Timestamps;
    let with = |keys: &[(u32, &[u8])]| {
        let all = keys
            .iter()
            .map(|(spi, key)| association(*spi, timestamps, key));
        let mut config = config();
        config.clients[0].associations = Associations::new(all.collect()).unwrap();
        config
    };
    let mut agent = started(with(&[(SPI, KEY)]));
    assert_eq!(code(&mut agent, &ask(1), 1), Code::Accepted);
    agent.configure(with(&[(SPI, KEY), (SPI + 1, b"another")]), at(2));
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);
    agent.configure(
        with(&[(SPI, b"its successor"), (SPI + 1, b"another")]),
        at(3),
    );
    assert_eq!(agent.bindings(HOME).count(), 0);
}

#[test]
fn a_changed_configuration_keeps_the_bindings_and_records_of_nodes_that_stay() {
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 18);
    let client = |home_address| Client {
        home_address,
        nai: None,
        aaa: None,
        associations: associations(SPI, ReplayProtection::Timestamps),
    };
    let with = |clients| Config {
        clients,
        ..config()
    };
    let mut agent = started(with(vec![client(HOME), client(OTHER)]));
    let other = Ask {
        home_address: OTHER,
        care_of: SECOND_CARE_OF,
        from: SECOND_CARE_OF,
        ..ask(2)
    };
    assert_eq!(code(&mut agent, &ask(1), 1), Code::Accepted);
    assert_eq!(code(&mut agent, &other, 2), Code::Accepted);
    agent.configure(with(vec![client(HOME)]), at(3));
    let ended: Vec<Output> = std::iter::from_fn(|| agent.poll()).collect();
    let gone = Output::Tunnels {
        home_address: OTHER,
        tunnels: vec![],
        why: Change::Revoked,
    };
    assert_eq!(ended, [gone]);
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);
    // An old request is still known, and a node that is gone is not.
    let older = Ask {
        identification: clock().ntp(at(1)) - 1,
        ..ask(4)
    };
    assert_eq!(code(&mut agent, &older, 4), Code::IdentificationMismatch);
    let late = Ask {
        identification: clock().ntp(at(5)),
        ..other
    };
    let payload = late.datagram();
    assert_eq!(
        silence(&mut agent, &late, &payload, 5),
        Refusal::UnknownNode
    );
}

/// RFC 4721 §3.4.
#[test]
fn a_node_with_an_aaa_key_must_prove_it() {
    let key = |text: &[u8]| AaaKey::new(0x4000, Algorithm::HmacSha256, text).unwrap();
    let mut with_key = config();
    with_key.clients[0].aaa = Some(key(b"an AAA key"));
    let mut agent = started(with_key);
    let said = |agent: &mut HomeAgent, sign: &dyn Fn(&mut Writer), ask: &Ask, second| {
        let mut w = Writer::new();
        w.bytes(&ask.datagram());
        sign(&mut w);
        let outputs = deliver(agent, ask, w.as_slice(), at(second));
        reply(&outputs, ask)
    };
    let directly = |text: &'static [u8]| move |w: &mut Writer| key(text).sign_directly(w);
    let none = |_: &mut Writer| ();
    let wrong = Code::HomeAaaAuthentication;
    assert_eq!(said(&mut agent, &none, &ask(1), 1).0.code, wrong);
    assert_eq!(
        said(&mut agent, &directly(b"another"), &ask(2), 2).0.code,
        wrong
    );
    assert!(care_of_addresses(&agent).is_empty());
    let good = said(&mut agent, &directly(b"an AAA key"), &ask(3), 3);
    assert_eq!(good.0.code, Code::Accepted);
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);
    // Nor can somebody without it end the binding.
    let end = Ask {
        lifetime: 0,
        ..ask(4)
    };
    assert_eq!(said(&mut agent, &none, &end, 4).0.code, wrong);
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);
    // Through a foreign agent: the challenge comes back behind our authenticator for the node.
    let through = Ask {
        agent_key: None,
        after: vec![Extension::Challenge(b"challenge".to_vec())],
        ..ask_through_agent(5)
    };
    let signed = |w: &mut Writer| {
        key(b"an AAA key").sign(Some(b"challenge"), w);
        association(AGENT_SPI, ReplayProtection::Timestamps, KEY)
            .sign(Authentication::ForeignHome, w);
    };
    let (answer, list) = said(&mut agent, &signed, &through, 5);
    assert_eq!(answer.code, Code::Accepted);
    let own = list.iter().position(|it| it.covered().is_some()).unwrap();
    assert_eq!(list[own + 1].extension, through.after[0]);
}

/// Somebody inside passes on what a node outside wrote, which takes itself to be inside.
#[test]
fn a_request_that_somebody_passed_on_is_refused() {
    let relay = Ipv4Addr::new(10, 19, 5, 14);
    let inside = |second| Ask {
        care_of: SECOND_CARE_OF,
        from: SECOND_CARE_OF,
        ..ask(second)
    };
    let relayed = |second| Ask {
        from: relay,
        ..inside(second)
    };
    let mut agent = behind_firewalls();
    for _ in 0..2 {
        assert!(is_prohibited_silently(&mut agent, &relayed(1), 1));
    }
    assert!(care_of_addresses(&agent).is_empty());
    assert_eq!(code(&mut agent, &inside(2), 2), Code::Accepted);
    // Outside, the node names its firewall and believes nothing else.
    let named = Ask {
        from: relay,
        ..naming(3, SECOND_CARE_OF, FIREWALL)
    };
    assert_eq!(code(&mut agent, &named, 3), Code::Accepted);
    // Without firewalls, a NAT may be on the way.
    let mut open = started(config());
    assert_eq!(code(&mut open, &relayed(1), 1), Code::Accepted);
}

/// A stranger's foreign agent leads to an accomplice, who needs no forged source to pass it on.
#[test]
fn inside_of_firewalls_a_foreign_agent_needs_a_key() {
    let accomplice = Ipv4Addr::new(10, 19, 5, 14);
    let through = |second| Ask {
        flags: RequestFlags::REVERSE_TUNNEL,
        care_of: accomplice,
        from: accomplice,
        ..ask(second)
    };
    let mut agent = behind_firewalls();
    let refused = code(&mut agent, &through(1), 1);
    assert_eq!(refused, Code::HomeProhibited);
    assert!(care_of_addresses(&agent).is_empty());
    assert_eq!(code(&mut agent, &ask_through_agent(2), 2), Code::Accepted);
    let mut open = started(config());
    assert_eq!(code(&mut open, &through(1), 1), Code::Accepted);
}

/// Whoever hears a request may be faster than the one who carries it.
#[test]
fn a_copy_of_a_request_from_elsewhere_spoils_nothing() {
    for (mut agent, request) in [
        (started(config()), ask_through_agent(1)),
        (behind_firewalls(), ask(1)),
    ] {
        let copy = Ask {
            from: Ipv4Addr::new(198, 51, 100, 66),
            agent_key: None,
            ..request.clone()
        };
        // What the home agent says would be passed on to the node, before the true answer.
        let why = silence(&mut agent, &copy, &copy.datagram(), 1);
        assert!(matches!(why, Refusal::Denied(_)), "{why:?}");
        assert!(care_of_addresses(&agent).is_empty());
        assert_eq!(code(&mut agent, &request, 1), Code::Accepted);
        assert_eq!(care_of_addresses(&agent), [request.care_of]);
    }
}

#[test]
fn only_a_node_at_home_ends_all_its_bindings_from_there() {
    let relay = Ipv4Addr::new(10, 19, 5, 14);
    let home = |second, from| Ask {
        flags: 0,
        lifetime: 0,
        care_of: HOME,
        from,
        ..ask(second)
    };
    for mut agent in [started(config()), behind_firewalls()] {
        tell(&mut agent, &ask(1), 1);
        for (second, from) in [(2, relay), (3, CARE_OF)] {
            assert!(is_prohibited_silently(
                &mut agent,
                &home(second, from),
                second
            ));
        }
        assert_eq!(care_of_addresses(&agent), [CARE_OF]);
        assert_eq!(code(&mut agent, &home(4, HOME), 4), Code::Accepted);
        assert!(care_of_addresses(&agent).is_empty());
        // A node that ends elsewhere says so.
        tell(&mut agent, &ask(5), 5);
        let leaves = Ask {
            flags: RequestFlags::DECAPSULATES,
            ..home(6, CARE_OF)
        };
        assert_eq!(code(&mut agent, &leaves, 6), Code::Accepted);
        assert!(care_of_addresses(&agent).is_empty());
        // A foreign agent that proves itself passes it on.
        tell(&mut agent, &ask(7), 7);
        let passed_on = Ask {
            agent_key: Some(KEY.to_vec()),
            ..home(8, AGENT)
        };
        assert_eq!(code(&mut agent, &passed_on, 8), Code::Accepted);
    }
}

#[test]
fn no_node_sends_the_request_of_another() {
    let other = Ipv4Addr::new(10, 18, 3, 18);
    let mut both = config();
    both.clients.push(Client {
        home_address: other,
        nai: None,
        ..both.clients[0].clone()
    });
    let mut agent = started(both);
    let of_other = |care_of| Ask {
        care_of,
        from: other,
        ..with_udp(1, other, UDP)
    };
    assert!(is_prohibited_silently(&mut agent, &of_other(CARE_OF), 1));
    assert_eq!(code(&mut agent, &of_other(other), 1), Code::HomeProhibited);
    assert!(care_of_addresses(&agent).is_empty());
    assert_eq!(code(&mut agent, &ask(2), 2), Code::Accepted);
}

#[test]
fn nobody_gets_a_udp_tunnel_in_clear_past_firewalls() {
    let mut agent = behind_firewalls();
    let forced = UdpTunnelRequest {
        is_forced: true,
        ..UDP
    };
    let asks = |second, request, firewall: Option<Ipv4Addr>| {
        let traversal = firewall.map(|firewall| Extension::Traversal { firewall });
        let udp = Extension::UdpTunnelRequest(request);
        Ask {
            before: [udp].into_iter().chain(traversal).collect(),
            ..ask(second)
        }
    };
    let unforced = asks(1, UDP, None);
    let (said, list) = reply(&tell(&mut agent, &unforced, 1), &unforced);
    let declined = udp_reply(&list).map(|it| it.is_granted());
    assert_eq!((said.code, declined), (Code::Accepted, Some(false)));
    let refused = code(&mut agent, &asks(2, forced, None), 2);
    assert_eq!(refused, Code::HomeProhibited);
    let udp = agent.bindings(HOME).filter_map(|it| it.tunnel.udp);
    assert_eq!(udp.count(), 0);
    // Nor outside, where the node's data would leave SKIP.
    let named = asks(3, forced, Some(FIREWALL));
    assert_eq!(code(&mut agent, &named, 3), Code::HomeProhibited);
    let mut open = started(config());
    assert_eq!(code(&mut open, &asks(4, forced, None), 4), Code::Accepted);
    let udp = open.bindings(HOME).filter_map(|it| it.tunnel.udp);
    assert_eq!(udp.count(), 1);
}

/// RFC 5265 §4.3: from elsewhere nobody is heard or answered, whatever his key.
#[test]
fn with_trusted_networks_requests_from_elsewhere_are_dropped_and_replies_say_so() {
    let home = TrafficSelector::subnet(HOME.into(), 24);
    let mut agent = started(Config {
        trusted: vec![home, TrafficSelector::host(CARE_OF.into())],
        ..config()
    });
    let outside = Ask {
        care_of: SECOND_CARE_OF,
        from: SECOND_CARE_OF,
        ..ask(1)
    };
    // Also where somebody names a care-of address inside.
    let pretended = Ask {
        from: SECOND_CARE_OF,
        ..ask(2)
    };
    for (second, one) in (1..).zip([&outside, &pretended]) {
        let outputs = tell(&mut agent, one, second);
        let [Output::Refused { why, .. }] = &outputs[..] else {
            panic!("no answer: {outputs:?}");
        };
        assert_eq!(*why, Refusal::UntrustedNetwork);
    }
    // A node outside whose request somebody inside passes on is not taken to be there.
    let passed_on = Ask {
        care_of: SECOND_CARE_OF,
        ..ask(3)
    };
    assert_eq!(says_trusted(&tell(&mut agent, &passed_on, 3)), None);
    assert!(care_of_addresses(&agent).is_empty());
    assert_eq!(says_trusted(&tell(&mut agent, &ask(4), 4)), Some(true));
    let at_home = Ask {
        lifetime: 0,
        care_of: HOME,
        from: HOME,
        ..ask(5)
    };
    assert_eq!(says_trusted(&tell(&mut agent, &at_home, 5)), Some(true));
    let mut open = started(config());
    assert_eq!(says_trusted(&tell(&mut open, &ask(6), 6)), Some(false));
}

/// Who has an account of the VPN gateway may pass on what a node outside asks, and a hostile
/// network may have given it the address of his tunnel. He gets no word for it.
#[test]
fn replies_to_addresses_of_a_vpn_gateway_prove_nothing() {
    let inside = TrafficSelector::subnet(Ipv4Addr::new(10, 0, 0, 0).into(), 8);
    let pool = TrafficSelector::subnet(Ipv4Addr::new(10, 18, 9, 0).into(), 24);
    let other = TrafficSelector::host(CARE_OF.into());
    let mut agent = started(Config {
        trusted: vec![inside],
        tunnelled: vec![pool, other],
        ..config()
    });
    let inner = Ipv4Addr::new(10, 18, 9, 7);
    let branch = Ipv4Addr::new(10, 20, 7, 7);
    let at = |second, lifetime, care_of, from| Ask {
        lifetime,
        care_of,
        from,
        ..ask(second)
    };
    // Heard, also where the networks inside do not have it.
    for (second, lifetime, place) in [(1, 300, inner), (2, 300, CARE_OF), (3, 0, inner)] {
        let one = at(second, lifetime, place, place);
        let outputs = tell(&mut agent, &one, second);
        assert_eq!(reply(&outputs, &one).0.code, Code::Accepted);
        assert_eq!(says_trusted(&outputs), Some(false), "{place}");
    }
    // From his tunnel, about somewhere inside, and from inside about his tunnel.
    for (second, lifetime, care_of, from) in [
        (4, 0, branch, inner),
        (5, 300, branch, inner),
        (6, 0, inner, branch),
        (7, 0, branch, Ipv4Addr::new(10, 20, 7, 8)),
    ] {
        let one = at(second, lifetime, care_of, from);
        assert_eq!(says_trusted(&tell(&mut agent, &one, second)), None);
    }
    let there = at(8, 0, branch, branch);
    assert_eq!(says_trusted(&tell(&mut agent, &there, 8)), Some(true));
}

/// The question whether a node is inside ends a binding that is not there.
#[test]
fn a_question_changes_no_binding() {
    let everybody = TrafficSelector::subnet(Ipv4Addr::UNSPECIFIED.into(), 0);
    let mut agent = started(Config {
        trusted: vec![everybody],
        ..config()
    });
    assert_eq!(says_trusted(&tell(&mut agent, &ask(1), 1)), Some(true));
    let question = Ask {
        lifetime: 0,
        care_of: SECOND_CARE_OF,
        from: SECOND_CARE_OF,
        ..ask(2)
    };
    let is_change = |it: &Output| matches!(it, Output::Tunnels { .. });
    for second in 2..5 {
        // The same one again, too.
        let outputs = tell(&mut agent, &question, second);
        assert_eq!(reply(&outputs, &question).0.code, Code::Accepted);
        assert!(!outputs.iter().any(is_change), "{outputs:?}");
    }
    assert_eq!(care_of_addresses(&agent), [CARE_OF]);
}

/// A foreign agent of ours outside has signed a request. Who passes it on from inside gets nothing.
#[test]
fn what_a_foreign_agent_outside_has_signed_is_not_passed_on() {
    let inside = TrafficSelector::subnet(Ipv4Addr::new(10, 0, 0, 0).into(), 8);
    let mut agent = started(Config {
        trusted: vec![inside],
        ..config()
    });
    let passed_on = Ask {
        from: Ipv4Addr::new(10, 20, 7, 8),
        ..ask_through_agent(1)
    };
    let why = silence(&mut agent, &passed_on, &passed_on.datagram(), 1);
    assert_eq!(why, Refusal::Denied(Code::HomeProhibited));
    assert!(care_of_addresses(&agent).is_empty());
    let mut agent = started(Config {
        trusted: vec![inside, TrafficSelector::host(AGENT.into())],
        ..config()
    });
    let outputs = tell(&mut agent, &ask_through_agent(2), 2);
    assert_eq!(says_trusted(&outputs), Some(true));
    // It serves nodes with an address of their own, too. That must also be inside.
    for (second, care_of, is_inside) in
        [(3, CARE_OF, false), (4, Ipv4Addr::new(10, 20, 7, 9), true)]
    {
        let required = Ask {
            care_of,
            flags: ask(0).flags,
            ..ask_through_agent(second)
        };
        let outputs = tell(&mut agent, &required, second);
        assert_eq!(says_trusted(&outputs), Some(is_inside));
    }
}

/// Whether a reply says that only networks inside are heard; None: there is no reply.
fn says_trusted(outputs: &[Output]) -> Option<bool> {
    outputs.iter().find_map(|it| match it {
        Output::Send { payload, .. } => {
            let (_, at) = Message::parse(payload).unwrap();
            let list = extensions(payload, at).unwrap();
            let signed = list.iter().take_while(|one| one.covered().is_none());
            let mut signed = signed.map(|one| &one.extension);
            Some(signed.any(|one| *one == Extension::TrustedNetworks))
        }
        _ => None,
    })
}
