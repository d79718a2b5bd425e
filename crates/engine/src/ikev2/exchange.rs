//! The key exchange of a message, counted as work (RFC 7296 §3.4).

use crypto::dh::{Group, SharedSecret};
use crypto::key_exchange::{self, Initiator, Method};
use crypto::rand::Stream;
use wire::ikev2::{KeyExchange, Payload};

use crate::counters::DropReason;
use crate::ike::Fault;
use crate::work::{Task, Work};

/// Our first half.
pub(super) fn generate(method: Method, random: &mut Stream, work: &mut Work) -> Initiator {
    match group_of(method) {
        Some(group) => work.count(Task::KeyPair(group), 0),
        None => work.count(Task::KeyShare(method), 0),
    }
    Initiator::generate(method, random)
}

/// The payload of our first half.
pub(super) fn payload(half: &Initiator) -> Payload {
    Payload::KeyExchange(KeyExchange {
        method: half.method().number(),
        value: half.public().to_vec(),
    })
}

/// The secret of our first half and the peer's second one.
pub(super) fn finish(
    half: &Initiator,
    theirs: &KeyExchange,
    work: &mut Work,
) -> Result<SharedSecret, Fault> {
    if theirs.method != half.method().number() {
        return Err(Fault::Misbehaved(format!(
            "the peer answers with a public value of method {}, and we sent one of {}",
            theirs.method,
            half.method().number()
        )));
    }
    match group_of(half.method()) {
        Some(group) => work.count(Task::Agree(group), 0),
        None => work.count(Task::KeySecret(half.method()), 0),
    }
    half.finish(&theirs.value).map_err(refused)
}

/// Our second half and the secret. The peer's payload must be of this method.
pub(super) fn respond(
    method: Method,
    theirs: &KeyExchange,
    random: &mut Stream,
    work: &mut Work,
) -> Result<(Payload, SharedSecret), Fault> {
    debug_assert_eq!(theirs.method, method.number());
    match group_of(method) {
        Some(group) => {
            work.count(Task::KeyPair(group), 0);
            work.count(Task::Agree(group), 0);
        }
        None if method.is_kem() => work.count(Task::KeyAnswer(method), 0),
        None => {
            work.count(Task::KeyShare(method), 0);
            work.count(Task::KeySecret(method), 0);
        }
    }
    let answered = key_exchange::respond(method, &theirs.value, random);
    let (value, secret) = answered.map_err(refused)?;
    let payload = Payload::KeyExchange(KeyExchange {
        method: method.number(),
        value,
    });
    Ok((payload, secret))
}

/// The group with the same operations, whose costs are known.
fn group_of(method: Method) -> Option<Group> {
    Group::of_number(method.number().into())
}

fn refused(fault: crypto::dh::BadPublicValue) -> Fault {
    match fault {
        crypto::dh::BadPublicValue::Own => DropReason::Reflected.into(),
        other => Fault::BadPublicValue(other.to_string()),
    }
}
