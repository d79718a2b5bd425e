//! Seeds of the `ikev2_station` target.

use wire::ikev2::{
    Authentication, AuthenticationMethod, Delete, Exchange, Identification, IdentificationType,
    Notify, NotifyType, Payload, Protocol,
};

use super::flag;
use crate::responder::ikev2::seeds::{chain, esp, selectors};
use crate::script::{Op, Sealed};
use crate::sealed::AUTH_LEN;
use crate::station::world::{OVER_V6, UNDER_OWN_KEYS};

/// Orders of [`crate::station::world::Stage`].
const REKEY_CHILDREN: u8 = 0;
const REKEY_IKE: u8 = 1;
const DOWN: u8 = 2;
const MOVE: u8 = 0x86;
/// A packet of the first child comes from the second gateway, over IPv4 and IPv6.
const PACKET_FROM: [u8; 2] = [0x15, 0x1e];

/// Names and scripts.
pub fn all() -> Vec<(&'static str, Vec<Op>)> {
    vec![
        ("answers", answers()),
        ("changes", changes()),
        ("wrong-proofs", wrong_proofs()),
        ("astray", astray()),
        ("renewals", renewals()),
        ("own", own()),
        ("first-notices", first_notices()),
        ("later-notices", later_notices()),
        ("requests", requests()),
        ("eap", eap()),
    ]
}

fn begin(kind: u8) -> Op {
    Op::Begin { kind, from: 0 }
}

const ANSWER: Op = Op::Exchange { peer: 0 };

/// Up, moved, probed and down.
fn answers() -> Vec<Op> {
    vec![
        begin(0),
        ANSWER,
        ANSWER,
        Op::Order { what: MOVE },
        ANSWER,
        ANSWER,
        Op::Wait(9_000),
        ANSWER,
        Op::Order { what: DOWN },
        ANSWER,
    ]
}

/// Each answer with an octet of its clear text changed.
fn changes() -> Vec<Op> {
    let mut ops = Vec::new();
    for at in [0u16, 20, 40, 60, 90, 120] {
        ops.push(begin(0));
        for _ in 0..2 {
            let chain = [&at.to_be_bytes()[..], &[4]].concat();
            let sealed = Sealed {
                flags: 0,
                first: 0,
                chain,
            };
            ops.push(Op::Prove { peer: 0, sealed });
        }
        ops.extend([ANSWER, Op::Order { what: DOWN }, ANSWER, Op::Wait(400)]);
    }
    ops
}

/// AUTH with a changed octet, first and after the right one; and one that covers nothing.
fn wrong_proofs() -> Vec<Op> {
    let child = [
        vec![Payload::SecurityAssociation(vec![esp(7)])],
        selectors(),
    ];
    let wrong = [
        Op::Prove {
            peer: 0,
            sealed: Sealed {
                flags: 0,
                first: 0,
                chain: vec![0, 40, 4],
            },
        },
        under_own_keys(flag::WRONG, &[proof(), child.concat()].concat()),
    ];
    let mut ops = Vec::new();
    for wrong in wrong {
        ops.extend([begin(0), ANSWER, wrong.clone()]);
        ops.extend([Op::Order { what: DOWN }, ANSWER, Op::Wait(400)]);
        ops.extend([begin(0), ANSWER, ANSWER, Op::Order { what: DOWN }, ANSWER]);
        ops.extend([begin(0), ANSWER, wrong]);
        ops.extend([Op::Order { what: DOWN }, ANSWER, Op::Wait(400)]);
    }
    ops
}

/// Packets and messages come from elsewhere, over both families.
fn astray() -> Vec<Op> {
    let mut ops = vec![begin(0), ANSWER, ANSWER];
    ops.extend(PACKET_FROM.map(|what| Op::Order { what }));
    let gateway = [198, 51, 100, 2];
    let mut other = [0; 16];
    other[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    (other[5], other[15]) = (2, 2);
    for (flags, kind, address) in [
        (OVER_V6, NotifyType::NoAdditionalAddresses, &[][..]),
        (OVER_V6, NotifyType::AdditionalIp4Address, &gateway),
        (0, NotifyType::AdditionalIp6Address, &other),
        (OVER_V6, NotifyType::NoAdditionalAddresses, &[]),
    ] {
        let told = [notice(kind, address)];
        ops.push(say(Exchange::Informational, flags, &told));
        ops.push(Op::Order { what: MOVE });
        ops.extend([ANSWER, ANSWER]);
        ops.extend(PACKET_FROM.map(|what| Op::Order { what }));
    }
    ops.push(Op::Wait(9_000));
    ops
}

/// Both kinds of SAs are renewed by the client.
fn renewals() -> Vec<Op> {
    let mut ops = vec![begin(1), ANSWER, ANSWER];
    for what in [REKEY_CHILDREN | 1 << 4, REKEY_IKE | 1 << 4] {
        ops.extend([Op::Order { what }, ANSWER, ANSWER, Op::Wait(3_000)]);
    }
    ops
}

fn under_own_keys(flags: u8, payloads: &[Payload]) -> Op {
    let sealed = chain(UNDER_OWN_KEYS | flags, payloads);
    Op::Prove { peer: 0, sealed }
}

fn proof() -> Vec<Payload> {
    let id = Identification::new(IdentificationType::Fqdn, "gateway.example");
    vec![
        Payload::IdentificationResponder(id),
        Payload::Authentication(Authentication {
            method: AuthenticationMethod::SharedKey,
            value: vec![0; AUTH_LEN],
        }),
    ]
}

fn notice(kind: NotifyType, value: &[u8]) -> Payload {
    Payload::Notify(Notify::new(kind, value.to_vec()))
}

/// The right proof with other payloads: another child, a ticket, a redirect, fragments.
fn own() -> Vec<Op> {
    let mut ops = Vec::new();
    for (flags, more) in [
        (
            0,
            [
                vec![Payload::SecurityAssociation(vec![esp(7)])],
                selectors(),
            ]
            .concat(),
        ),
        (
            flag::FRAGMENTS,
            vec![notice(NotifyType::TicketLtOpaque, &[0, 0, 14, 16, 7, 7, 7])],
        ),
        (0, vec![notice(NotifyType::NoProposalChosen, &[])]),
        (
            0,
            vec![notice(NotifyType::Redirect, &[1, 4, 203, 0, 113, 9])],
        ),
        (flag::WRONG, Vec::new()),
    ] {
        ops.extend([begin(0), ANSWER]);
        ops.push(under_own_keys(flags, &[proof(), more].concat()));
        ops.extend([Op::Order { what: DOWN }, ANSWER, Op::Wait(400)]);
    }
    ops
}

/// What an answer to the first message may ask for.
fn first_notices() -> Vec<Op> {
    let mut ops = vec![begin(0)];
    for (kind, value) in [
        (NotifyType::Cookie, &[7; 20][..]),
        (NotifyType::InvalidKePayload, &[0, 19]),
        (NotifyType::Redirect, &[1, 4, 203, 0, 113, 9]),
        (NotifyType::NoProposalChosen, &[]),
        (NotifyType::InvalidMajorVersion, &[]),
        (NotifyType::TicketNack, &[]),
    ] {
        ops.push(under_own_keys(0, &[notice(kind, value)]));
        ops.push(Op::Wait(100));
    }
    ops.push(Op::Wait(2_000));
    ops
}

fn say(exchange: Exchange, flags: u8, payloads: &[Payload]) -> Op {
    Op::Phase2 {
        peer: 0,
        exchange: exchange.number(),
        id: 0,
        sealed: chain(flags, payloads),
    }
}

/// All that a gateway may notify of under keys.
fn later_notices() -> Vec<Op> {
    let mut ops = vec![begin(0), ANSWER, ANSWER];
    for kind in [
        NotifyType::AdditionalIp4Address,
        NotifyType::NoAdditionalAddresses,
        NotifyType::UpdateSaAddresses,
        NotifyType::Cookie2,
        NotifyType::Redirect,
        NotifyType::TicketLtOpaque,
        NotifyType::QuickCrashDetection,
        NotifyType::InvalidSpi,
    ] {
        ops.push(say(Exchange::Informational, 0, &[notice(kind, &[7; 8])]));
    }
    ops.push(Op::Again { peer: 0, from: 3 });
    ops.push(Op::Reflect { peer: 0 });
    ops
}

/// Requests of a gateway: another child, deletes, wrong messages.
fn requests() -> Vec<Op> {
    let child = [
        vec![
            Payload::SecurityAssociation(vec![esp(8)]),
            Payload::Nonce(vec![5; 32]),
        ],
        selectors(),
    ]
    .concat();
    let delete = Payload::Delete(Delete::Children {
        protocol: Protocol::Esp,
        spis: vec![0x4141_4141],
    });
    vec![
        begin(1),
        ANSWER,
        ANSWER,
        say(Exchange::CreateChildSa, 0, &child),
        say(Exchange::CreateChildSa, flag::FRAGMENTS, &child),
        say(Exchange::Informational, 0, &[delete]),
        say(Exchange::IkeIntermediate, 0, &[]),
        say(Exchange::IkeFollowupKe, 0, &[]),
        say(Exchange::Informational, flag::WRONG, &[]),
        say(
            Exchange::Informational,
            0,
            &[Payload::Delete(Delete::IkeSa)],
        ),
        Op::Wait(3_000),
    ]
}

/// EAP that nobody has asked for.
fn eap() -> Vec<Op> {
    let request = wire::eap::Eap::parse(&[1, 7, 0, 5, 1]).expect("a request");
    let mut chain = proof();
    chain.push(Payload::Eap(request));
    vec![begin(0), ANSWER, under_own_keys(0, &chain), Op::Wait(400)]
}
