//! Suites in the words of an implementation.

use core::fmt::Display;

use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::Integrity;
use wire::agent::Network;

use super::{Kind, WriteFault};
use crate::suite::EspSuite;

/// Every suite that the implementation has words for; an error if there is none.
pub(super) fn all<T: Display, W>(
    kind: Kind,
    what: &'static str,
    suites: &[T],
    words: impl Fn(&T) -> Option<W>,
) -> Result<Vec<W>, WriteFault> {
    let known: Vec<W> = suites.iter().filter_map(words).collect();
    match known.is_empty() {
        true => {
            let offered: Vec<String> = suites.iter().map(ToString::to_string).collect();
            let offered = offered.join(", ");
            Err(WriteFault::Suite {
                kind,
                what,
                offered,
            })
        }
        false => Ok(known),
    }
}

/// The best suite that the implementation has words for.
pub(super) fn best<T: Display, W>(
    kind: Kind,
    what: &'static str,
    suites: &[T],
    words: impl Fn(&T) -> Option<W>,
) -> Result<W, WriteFault> {
    let known = all(kind, what, suites, words)?;
    Ok(known.into_iter().next().expect("there is one"))
}

/// The hash of a suite's HMAC.
pub(super) fn hash(suite: &EspSuite) -> Option<Hash> {
    match suite.protection.integrity {
        Integrity::Hmac(hash) => Some(hash),
        Integrity::None => None,
    }
}

/// `modp2048`
pub(super) fn modp(group: Group) -> Option<&'static str> {
    match group {
        Group::Curve25519 => None,
        group => Some(crate::suite::of_group(group)),
    }
}

/// The number of a MODP group (RFC 2409 §6, RFC 3526).
pub(super) fn number(group: Group) -> Option<u8> {
    match group {
        Group::Modp768 => Some(1),
        Group::Modp1024 => Some(2),
        Group::Modp1536 => Some(5),
        Group::Modp2048 => Some(14),
        Group::Modp3072 => Some(15),
        Group::Modp4096 => Some(16),
        Group::Curve25519 => None,
    }
}

/// `10.0.0.0/8`
pub(super) fn network(network: &Network) -> String {
    format!("{}/{}", network.address, network.prefix_len)
}

/// All of them.
pub(super) fn networks(networks: &[Network]) -> Vec<String> {
    networks.iter().map(network).collect()
}
