//! Seeds of the `ikev2_responder` target.

use std::net::IpAddr;

use wire::ikev2::transform::{encryption, key_exchange, sequence_numbers};
use wire::ikev2::{
    AddressSelector, Authentication, AuthenticationMethod, ConfigAttribute, ConfigKind, ConfigType,
    Configuration, Delete, Exchange, Flags, Header, KeyExchange, Notify, NotifyType, Payload,
    Proposal, Protocol, Spi, Spis, TrafficSelector, Transform, TransformType, write_payloads,
};

use super::flag;
use crate::script::{Op, Sealed};
use crate::sealed::offer;

/// The message ID of the gateway's request.
const THEIRS: u8 = 255;
const NEXT: u8 = 0;

/// Names and scripts.
pub fn all() -> Vec<(&'static str, Vec<Op>)> {
    vec![
        ("children", children()),
        ("moves", moves()),
        ("ike-rekey", renewal()),
        ("notices", notices()),
        ("tickets", tickets()),
        ("flood", flood()),
    ]
}

fn up(kind: u8) -> Vec<Op> {
    let sealed = chain(0, &first_child());
    vec![Op::Begin { kind, from: 1 }, Op::Prove { peer: 0, sealed }]
}

/// A tunnel, one more child, its renewal and its end, in fragments and again.
fn children() -> Vec<Op> {
    let mut ops = up(1);
    let more = [
        vec![Payload::SecurityAssociation(vec![esp(2)]), nonce()],
        selectors(),
    ]
    .concat();
    let rekey = [
        vec![Payload::Notify(Notify::of_child(
            NotifyType::RekeySa,
            Protocol::Esp,
            0x0101_0101,
        ))],
        more.clone(),
    ]
    .concat();
    ops.push(say(Exchange::CreateChildSa, NEXT, 0, &more));
    ops.push(Op::Again { peer: 0, from: 3 });
    ops.push(say(Exchange::CreateChildSa, NEXT, flag::FRAGMENTS, &rekey));
    let delete = Payload::Delete(Delete::Children {
        protocol: Protocol::Esp,
        spis: vec![0x0101_0101, 0x0202_0202],
    });
    ops.push(say(Exchange::Informational, NEXT, 0, &[delete]));
    // Its own renewals, which get no answer of worth.
    ops.push(Op::Order { what: 0 });
    ops.push(say(Exchange::CreateChildSa, THEIRS, flag::RESPONSE, &more));
    ops.push(Op::Wait(60_000));
    ops
}

/// Another address, then back, with the proof that the gateway asks for.
fn moves() -> Vec<Op> {
    let update = [Payload::Notify(Notify::new(
        NotifyType::UpdateSaAddresses,
        Vec::new(),
    ))];
    let mut ops = up(0);
    for place in [3u8, 5, 1] {
        let flags = flag::MOVE | place << 5;
        ops.push(say(Exchange::Informational, NEXT, flags, &update));
        ops.push(say(
            Exchange::Informational,
            THEIRS,
            flag::RESPONSE | flag::COOKIE2,
            &[],
        ));
    }
    ops.extend([
        Op::Order { what: 5 },
        Op::Reflect { peer: 0 },
        Op::Wait(9_000),
    ]);
    ops
}

/// The IKE SA is renewed by either end.
fn renewal() -> Vec<Op> {
    let mut new = offer();
    new.spi = vec![9; 8];
    let chain = [
        Payload::SecurityAssociation(vec![new]),
        nonce(),
        Payload::KeyExchange(KeyExchange {
            method: key_exchange::CURVE25519,
            value: vec![9; 32],
        }),
    ];
    let mut ops = up(0);
    ops.push(say(Exchange::CreateChildSa, NEXT, 0, &chain));
    ops.extend(up(1));
    ops.push(Op::Order { what: 1 });
    ops.push(say(Exchange::CreateChildSa, THEIRS, flag::RESPONSE, &chain));
    ops.push(say(
        Exchange::Informational,
        NEXT,
        0,
        &[Payload::Delete(Delete::IkeSa)],
    ));
    ops
}

/// All that a notice may say, once.
fn notices() -> Vec<Op> {
    let mut ops = up(0);
    for kind in [
        NotifyType::NoAdditionalAddresses,
        NotifyType::UnacceptableAddresses,
        NotifyType::InvalidSpi,
        NotifyType::ChildSaNotFound,
        NotifyType::TemporaryFailure,
        NotifyType::NatDetectionSourceIp,
        NotifyType::Cookie2,
    ] {
        let chain = [Payload::Notify(Notify::new(kind, vec![7; 20]))];
        ops.push(say(Exchange::Informational, NEXT, 0, &chain));
    }
    ops.push(say(Exchange::IkeIntermediate, NEXT, flag::WRONG, &[]));
    ops.push(say(Exchange::IkeFollowupKe, NEXT, 0, &[nonce()]));
    ops
}

/// A ticket with the first child, one more, a forged one, tokens, and a redirect.
fn tickets() -> Vec<Op> {
    let notice = |kind, value: &[u8]| Payload::Notify(Notify::new(kind, value.to_vec()));
    let asks = notice(NotifyType::TicketRequest, &[]);
    let token = notice(NotifyType::QuickCrashDetection, &[7; 16]);
    let mut first = first_child();
    first.extend([asks.clone(), token.clone()]);
    let sealed = chain(0, &first);
    let mut ops = vec![
        Op::Begin { kind: 0, from: 1 },
        Op::Prove { peer: 0, sealed },
    ];
    ops.push(say(Exchange::Informational, NEXT, 0, &[asks]));
    let redirect = notice(NotifyType::Redirect, &[1, 4, 203, 0, 113, 9]);
    ops.push(say(Exchange::Informational, NEXT, 0, &[redirect]));
    let opaque = notice(NotifyType::TicketOpaque, &[3; 120]);
    let clear = [
        (Exchange::IkeSessionResume, false, vec![nonce(), opaque]),
        (Exchange::Informational, true, vec![token]),
    ];
    for (exchange, is_response, payloads) in clear {
        let (next_payload, body) = write_payloads(&payloads);
        let header = Header {
            spis: Spis {
                initiator: Spi([4; 8]),
                responder: Spi([if is_response { 6 } else { 0 }; 8]),
            },
            next_payload,
            minor_version: 0,
            exchange,
            flags: Flags::of(true, is_response),
            message_id: 0,
        };
        let octets = header.write(&body);
        ops.push(Op::Datagram { from: 2, octets });
    }
    ops.push(Op::Wait(4_000));
    ops
}

/// More beginnings than the gateway holds: it asks for cookies.
fn flood() -> Vec<Op> {
    let mut ops: Vec<_> = (0..6).map(|from| Op::Begin { kind: 0, from }).collect();
    ops.push(Op::Exchange { peer: 5 });
    ops.push(Op::Prove {
        peer: 5,
        sealed: chain(flag::FRAGMENTS, &first_child()),
    });
    ops.push(Op::Wait(4_000));
    ops
}

fn first_child() -> Vec<Payload> {
    let id =
        wire::ikev2::Identification::new(wire::ikev2::IdentificationType::Fqdn, "p0.moves.example");
    [
        vec![
            Payload::IdentificationInitiator(id),
            Payload::Authentication(Authentication {
                method: AuthenticationMethod::SharedKey,
                value: vec![0; 32],
            }),
            Payload::Configuration(Configuration {
                kind: ConfigType::Request,
                attributes: vec![ConfigAttribute::request(ConfigKind::InternalIp4Address)],
            }),
            Payload::SecurityAssociation(vec![esp(1)]),
        ],
        selectors(),
        vec![Payload::Notify(Notify::new(
            NotifyType::MobikeSupported,
            Vec::new(),
        ))],
    ]
    .concat()
}

/// A suite of ESP with this SPI.
pub(crate) fn esp(number: u8) -> Proposal {
    Proposal {
        number: 1,
        protocol: Protocol::Esp,
        spi: vec![number; 4],
        transforms: vec![
            Transform::with_key_length(encryption::AES_GCM_16, 128),
            Transform::new(
                TransformType::SequenceNumbers,
                sequence_numbers::SEQUENTIAL_32,
            ),
        ],
    }
}

/// All traffic of IPv4.
pub(crate) fn selectors() -> Vec<Payload> {
    let any = TrafficSelector::Addresses(AddressSelector::of_addresses(
        IpAddr::from([0; 4]),
        IpAddr::from([255; 4]),
    ));
    vec![
        Payload::TrafficSelectorsInitiator(vec![any.clone()]),
        Payload::TrafficSelectorsResponder(vec![any]),
    ]
}

fn nonce() -> Payload {
    Payload::Nonce(vec![5; 32])
}

fn say(exchange: Exchange, id: u8, flags: u8, payloads: &[Payload]) -> Op {
    Op::Phase2 {
        peer: 0,
        exchange: exchange.number(),
        id,
        sealed: chain(flags, payloads),
    }
}

/// A step's payloads.
pub(crate) fn chain(flags: u8, payloads: &[Payload]) -> Sealed {
    let (first, chain) = write_payloads(payloads);
    Sealed {
        flags,
        first: first.number(),
        chain,
    }
}
