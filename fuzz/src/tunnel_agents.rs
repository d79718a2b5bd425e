//! Tunnel agents: one machine at a time against a script of messages, authentic ones, damaged ones
//! and any octets, while questions are answered in any order or never, time passes and clocks jump.

pub mod client;
pub mod host;
pub mod seeds;
pub mod target;

use std::net::SocketAddr;

use crypto::ed25519::{Signature, SigningKey};
use crypto::hpke::{PublicKey, SecretKey};
use crypto::rand::Stream;
use engine::agent::bond::Bond;
use engine::agent::envelope::{self, Use};
use engine::agent::identity::Keys;
use engine::agent::{Clock, Handle};
use engine::time::{Calendar, Instant};
use wire::agent::{Fresh, Kind, Message, Request, Sealed};

use crate::mobility::{Script, random};

const TODAY: i64 = 1_795_000_000;
const USER: &str = "alice";

fn host_keys() -> Keys {
    Keys::generate(&mut random("host keys"))
}

fn target_keys() -> Keys {
    Keys::generate(&mut random("target keys"))
}

fn one_time(number: u8) -> SigningKey {
    SigningKey::of(&[number; 32])
}

fn handle(number: u8) -> Handle {
    Handle([number; 16])
}

/// Opens what is sealed to a Client.
fn fresh() -> SecretKey {
    SecretKey::of(&[77; 32])
}

fn address(number: u8) -> SocketAddr {
    ([10, 0, 0, number % 4], 51_516).into()
}

fn clock(now: Instant, ahead: u16) -> Clock {
    Clock {
        calendar: Calendar(TODAY + (now.0 / 1_000_000_000) as i64 + i64::from(ahead)),
        told: now,
    }
}

/// A request as a script wants it. Mostly a good one.
fn request(script: &mut Script<'_>, now: Instant) -> Request {
    let kind = script.octet();
    let target = target_keys().identity().fingerprint();
    Request {
        request_id: [script.octet(); 16],
        target: if kind & 1 == 0 { target.0.0 } else { [1; 32] },
        user_id: if kind & 2 == 0 { USER } else { "mallory" }.into(),
        objectives: if kind & 4 == 0 { 31 } else { script.octet() },
        options: if kind & 8 == 0 { 15 } else { script.octet() },
        ike: if kind & 8 == 0 { 7 } else { script.octet() },
        time: TODAY as u64 + now.0 / 1_000_000_000 + u64::from(kind >> 6) * 200,
        lifetime: u32::from(script.octet()) * 30,
        fresh: (kind & 16 == 0).then(|| Fresh {
            sealing_key: match kind & 32 {
                0 => fresh().public().0,
                _ => [0; 32],
            },
            tunnel_key: vec![script.octet()],
        }),
    }
}

/// A request's signature by a one-time key.
fn sign(request: &[u8], label: [u8; 16], by: &SigningKey) -> Signature {
    let to = host_keys().identity().sealing;
    let what = Use::Message(Kind::Request);
    by.sign(&[&envelope::signed_octets(what, &label, to, request)])
}

fn sealed(
    kind: Kind,
    label: [u8; 16],
    to: PublicKey,
    body: &[u8],
    by: &SigningKey,
    random: &mut Stream,
) -> Vec<u8> {
    let sealed = envelope::seal(kind, label, to, body, by, random);
    sealed.expect("no value of low order").to_vec()
}

/// A message of Host or Target to the other.
fn proven(
    kind: Kind,
    (keys, peer): (&Keys, &Keys),
    body: &[u8],
    now: Instant,
    random: &mut Stream,
) -> Vec<u8> {
    let (label, to) = (keys.identity().name().0, peer.sealing.public());
    let sealed = envelope::seal(kind, label, to, body, &keys.signing, random);
    let bond = Bond::new(keys, &peer.identity()).expect("no value of low order");
    let time_ms = TODAY as u64 * 1_000 + now.0 / 1_000_000;
    bond.prove(&sealed.expect("no value of low order"), time_ms)
}

/// What a receiver with this key reads.
fn read(payload: &[u8], kind: Kind, with: &SecretKey) -> Option<(Sealed, Vec<u8>)> {
    let Ok(Message::Sealed(sealed)) = Message::parse(payload) else {
        return None;
    };
    let opened = envelope::open(&sealed, with).ok()?;
    (sealed.kind == kind).then(|| (sealed, opened.body.to_vec()))
}
