//! What a peer asks of a child or offers, and why an exchange for one fails.

use crypto::key_exchange::Method;
use wire::ikev2::{Notify, NotifyType};

use super::children::ChildSa;
use super::parts::{Parts, notify_name};
use super::selectors::read;
use super::tasks::ChildTask;
use crate::ike::{ChildOffer, Fault, Refusal};
use crate::sa::Mode;
use crate::selector::TrafficSelector;

/// The traffic that a peer asks for.
pub(super) fn offer_of(parts: &Parts<'_>, renewed: Option<&ChildSa>) -> Option<ChildOffer> {
    let (remote, local) = (read(parts.traffic_i?), read(parts.traffic_r?));
    Some(ChildOffer {
        remote,
        local,
        mode: match parts.has(NotifyType::UseTransportMode) {
            true => Mode::Transport,
            false => Mode::Tunnel,
        },
        original: None,
        renews: renewed.map(|old| old.child),
    })
}

/// The fault of a refusal, with what we asked for.
pub(super) fn refused(task: &ChildTask, error: &Notify) -> Fault {
    let name = notify_name(error.kind);
    let list = |all: &[TrafficSelector]| {
        let words: Vec<String> = all.iter().map(ToString::to_string).collect();
        words.join(",")
    };
    let (local, remote) = (list(&task.local), list(&task.remote));
    let suites: Vec<String> = task.suites.iter().map(ToString::to_string).collect();
    let asked = format!("{}, {}, {local} === {remote}", task.mode, suites.join(" "));
    Fault::Refused(match error.kind {
        NotifyType::TsUnacceptable => format!(
            "the peer refused with {name}: it does not protect these networks for us; we asked \
             for {asked}"
        ),
        _ => format!("the peer refused with {name}; we asked for {asked}"),
    })
}

pub(super) fn bad_value(fault: Fault) -> Fault {
    match fault {
        Fault::BadPublicValue(what) => Fault::Incompatible {
            what,
            refusal: Refusal::KeyExchange,
        },
        other => other,
    }
}

pub(super) fn other_method(method: Method) -> Fault {
    Fault::Incompatible {
        what: format!(
            "PFS with group {} was agreed, and the peer sent no public value of it",
            method.number()
        ),
        refusal: Refusal::KeyExchange,
    }
}

pub(super) fn not_in_udp() -> Fault {
    Fault::Incompatible {
        what: "ESP must be in UDP, and the path to the peer is not".into(),
        refusal: Refusal::Proposal,
    }
}
