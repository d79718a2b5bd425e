//! Suites as proposals, and the choice among a peer's (RFC 7296 §2.7, §3.3).
//!
//! Each suite is one proposal, in our order of preference; two suites of a child that differ only
//! in their sequence numbers share one. A responder takes the first of its own suites that the peer
//! offers. An additional key exchange (RFC 9370 §2.2.1) that no suite of ours has is left out if
//! the proposal allows it.

use std::sync::Arc;

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity};
use wire::ikev2::transform::{self, encryption, integrity, prf, sequence_numbers};
use wire::ikev2::{Proposal, Protocol as WireProtocol, Transform, TransformType};

use super::Abilities;
use super::offered::described;
use crate::config::Connection;
use crate::ike::auth::listed;
use crate::ike::{Fault, Refusal, Spi};
use crate::sa::Protocol;
use crate::suite::{Additional, EspSuite, Ikev2Suite, Pfs};

/// Suites that are offered at most.
pub(super) const MAX_OFFERED: usize = 32;

/// What both ends agreed on.
pub(super) struct Chosen<'a, S> {
    pub(super) suite: S,
    /// As the peer offered or answered it.
    pub(super) proposal: &'a Proposal,
}

/// A suite that can be offered.
pub(super) trait Suite: Copy + ToString {
    fn protocol(&self) -> WireProtocol;
    /// What it needs, one of each type.
    fn transforms(&self) -> Vec<Transform>;
    /// The only transform in which it differs from `other`; `None`: they need a proposal each.
    fn differs_by(&self, other: &Self) -> Option<Transform>;
}

impl Suite for Ikev2Suite {
    fn protocol(&self) -> WireProtocol {
        WireProtocol::Ike
    }

    fn transforms(&self) -> Vec<Transform> {
        let mut all = vec![cipher(self.protection.encryption)];
        all.push(Transform::new(TransformType::Prf, prf_number(self.prf)));
        all.extend(mac(self.protection.integrity));
        all.push(key_exchange(self.method.number()));
        all.extend(additional(&self.additional));
        all
    }

    fn differs_by(&self, _: &Self) -> Option<Transform> {
        None
    }
}

impl Suite for EspSuite {
    fn protocol(&self) -> WireProtocol {
        wire_protocol(self.protocol)
    }

    fn transforms(&self) -> Vec<Transform> {
        let mut all = Vec::new();
        if self.protocol == Protocol::Esp {
            all.push(cipher(self.protection.encryption));
        }
        all.extend(mac(self.protection.integrity));
        let method = self.pfs.and_then(Pfs::method);
        all.extend(method.map(|it| key_exchange(it.number())));
        all.extend(additional(&self.additional));
        all.push(numbers(self.has_esn));
        all
    }

    fn differs_by(&self, other: &Self) -> Option<Transform> {
        let alike = Self {
            has_esn: !other.has_esn,
            ..*other
        };
        (*self == alike).then(|| numbers(self.has_esn))
    }
}

fn numbers(has_esn: bool) -> Transform {
    let id = match has_esn {
        true => sequence_numbers::PARTIALLY_TRANSMITTED_64,
        false => sequence_numbers::SEQUENTIAL_32,
    };
    Transform::new(TransformType::SequenceNumbers, id)
}

/// The suites of each proposal that we offer.
fn proposed<S: Suite>(suites: &[S]) -> impl Iterator<Item = &[S]> {
    let offered = &suites[..suites.len().min(MAX_OFFERED)];
    offered.chunk_by(|one, next| next.differs_by(one).is_some())
}

/// Our suites as proposals, numbered from 1, with our SPI if the exchange needs one.
pub(super) fn offer<S: Suite>(suites: &[S], spi: &[u8]) -> Vec<Proposal> {
    let proposal = |(number, suites): (u8, &[S])| {
        let (first, others) = suites.split_first()?;
        let mut transforms = first.transforms();
        transforms.extend(others.iter().filter_map(|it| it.differs_by(first)));
        Some(Proposal {
            number,
            protocol: first.protocol(),
            spi: spi.to_vec(),
            transforms,
        })
    };
    (1..).zip(proposed(suites)).filter_map(proposal).collect()
}

/// The first of our suites that the peer offers.
pub(super) fn choose<'a, S: Suite>(suites: &[S], offered: &'a [Proposal]) -> Option<Chosen<'a, S>> {
    suites.iter().find_map(|suite| {
        let needs = suite.transforms();
        let mut fitting = offered.iter();
        let proposal = fitting.find(|it| fits(it, suite.protocol(), &needs))?;
        Some(Chosen {
            suite: *suite,
            proposal,
        })
    })
}

/// The suite of the first connection that has one in common with an offer, and all connections that
/// accept it.
pub(super) fn choose_connections<'a>(
    candidates: &[Arc<Connection>],
    offered: &'a [Proposal],
    peer: &Abilities,
) -> Option<(Chosen<'a, Ikev2Suite>, Vec<Arc<Connection>>)> {
    let is_possible = |it: &Ikev2Suite| peer.intermediate || it.additional.is_empty();
    let mut suites = all_suites(candidates);
    suites.retain(is_possible);
    let chosen = choose(&suites, offered)?;
    let accepts = |it: &&Arc<Connection>| it.ikev2_proposals.contains(&chosen.suite);
    let accepting = candidates.iter().filter(accepts).cloned().collect();
    Some((chosen, accepting))
}

/// The suites of these connections, each once: strangers make us look through them.
pub(super) fn all_suites(connections: &[Arc<Connection>]) -> Vec<Ikev2Suite> {
    let mut all = Vec::new();
    for suite in connections.iter().flat_map(|it| &it.ikev2_proposals) {
        if !all.contains(suite) {
            all.push(*suite);
        }
    }
    all
}

/// The answer that chooses this suite from a proposal.
pub(super) fn answer<S: Suite>(chosen: &Chosen<'_, S>, spi: &[u8]) -> Proposal {
    let offered = chosen.proposal;
    let is_offered = |kind| offered.transforms_of(kind).next().is_some();
    let mut transforms = chosen.suite.transforms();
    // A peer that leaves sequence numbers out means 32 bits.
    transforms.retain(|one| is_offered(one.kind));
    // What it may leave out is answered as left out.
    let may_be_none = [TransformType::Integrity, TransformType::KeyExchange];
    let more = TransformType::ADDITIONAL_KEY_EXCHANGES;
    for kind in may_be_none.into_iter().chain(more) {
        let is_chosen = transforms.iter().any(|one| one.kind == kind);
        if is_offered(kind) && !is_chosen {
            transforms.push(Transform::new(kind, NONE));
        }
    }
    Proposal {
        number: offered.number,
        protocol: offered.protocol,
        spi: spi.to_vec(),
        transforms,
    }
}

/// Which of the offered suites the peer's answer chooses.
pub(super) fn chosen<'a, S: Suite>(
    offered: &[S],
    answer: &'a [Proposal],
) -> Result<Chosen<'a, S>, Fault> {
    let [proposal] = answer else {
        return Err(Fault::Misbehaved("an answer chooses one proposal".into()));
    };
    let at = usize::from(proposal.number).checked_sub(1);
    let suites = at.and_then(|at| proposed(offered).nth(at)).unwrap_or(&[]);
    let is_right = |suite: &&S| fits(proposal, suite.protocol(), &suite.transforms());
    let is_single = |one: &Transform| proposal.transforms_of(one.kind).count() == 1;
    let mut right = suites.iter().filter(is_right).copied();
    let suite = right
        .next()
        .filter(|_| proposal.transforms.iter().all(is_single));
    let suite = suite.ok_or_else(|| {
        Fault::Misbehaved("the peer chose a proposal that we did not offer".into())
    })?;
    Ok(Chosen { suite, proposal })
}

/// The fault if there is nothing in common.
pub(super) fn nothing_in_common<S: Suite>(suites: &[S], offered: &[Proposal]) -> Fault {
    Fault::Incompatible {
        what: format!(
            "no proposal in common: the peer offers {}; we accept {}",
            described(offered),
            listed(suites.iter(), ToString::to_string)
        ),
        refusal: Refusal::Proposal,
    }
}

/// The SPI of a proposal for an IKE SA.
pub(super) fn ike_spi(proposal: &Proposal) -> Result<Spi, Fault> {
    let spi = <[u8; 8]>::try_from(&proposal.spi[..]).ok();
    let spi = spi.filter(|spi| *spi != [0; 8]);
    spi.map(Spi)
        .ok_or_else(|| Fault::Misbehaved("an IKE SA's SPI has 8 octets and is not zero".into()))
}

/// The SPI of a proposal for a child.
pub(super) fn child_spi(proposal: &Proposal) -> Result<u32, Fault> {
    let spi = <[u8; 4]>::try_from(&proposal.spi[..])
        .ok()
        .map(u32::from_be_bytes);
    // RFC 4303 §2.1: 1 to 255 are reserved.
    spi.filter(|spi| *spi > 255)
        .ok_or_else(|| Fault::Misbehaved("a child's SPI has 4 octets and is above 255".into()))
}

/// The protocol of a child, as on the wire.
pub(super) const fn wire_protocol(protocol: Protocol) -> WireProtocol {
    match protocol {
        Protocol::Esp => WireProtocol::Esp,
        Protocol::Ah => WireProtocol::Ah,
    }
}

/// The protocol of a child.
pub(super) const fn child_protocol(protocol: WireProtocol) -> Option<Protocol> {
    match protocol {
        WireProtocol::Esp => Some(Protocol::Esp),
        WireProtocol::Ah => Some(Protocol::Ah),
        _ => None,
    }
}

/// NONE, of the types that have it.
const NONE: u16 = transform::key_exchange::NONE;

/// Whether a proposal offers all that is needed, and requires nothing else.
fn fits(proposal: &Proposal, protocol: WireProtocol, needs: &[Transform]) -> bool {
    let is_needed = |kind| needs.iter().any(|need| need.kind == kind);
    let offers = |need: &Transform| {
        let mut of_kind = proposal.transforms_of(need.kind).peekable();
        let is_left_out = of_kind.peek().is_none();
        of_kind.any(|one| one == need) || is_left_out && is_implied(need)
    };
    let has_none = |kind| {
        let mut of_kind = proposal.transforms_of(kind);
        of_kind.any(|one| one.id == NONE && one.attributes.is_empty())
    };
    let may_be_none = |kind| kind != TransformType::SequenceNumbers && has_none(kind);
    let mut kinds = proposal.transforms.iter().map(|one| one.kind);
    proposal.protocol == protocol
        && needs.iter().all(offers)
        && kinds.all(|kind| is_needed(kind) || may_be_none(kind))
}

/// Whether leaving a transform out means it.
fn is_implied(need: &Transform) -> bool {
    need.kind == TransformType::SequenceNumbers && need.id == sequence_numbers::SEQUENTIAL_32
}

fn cipher(cipher: Encryption) -> Transform {
    let plain = |id| Transform::new(TransformType::Encryption, id);
    match cipher {
        Encryption::Null => plain(encryption::NULL),
        Encryption::Cbc(Cipher::Des) => plain(encryption::DES),
        Encryption::Cbc(Cipher::TripleDes) => plain(encryption::TRIPLE_DES),
        Encryption::Cbc(aes) => {
            Transform::with_key_length(encryption::AES_CBC, 8 * aes.key_len() as u16)
        }
        Encryption::AesGcm { key_len } => {
            Transform::with_key_length(encryption::AES_GCM_16, 8 * u16::from(key_len))
        }
        Encryption::ChaCha20Poly1305 => plain(encryption::CHACHA20_POLY1305),
    }
}

fn mac(mac: Integrity) -> Option<Transform> {
    let id = match mac {
        Integrity::None => return None,
        Integrity::Hmac(Hash::Md5) => integrity::HMAC_MD5_96,
        Integrity::Hmac(Hash::Sha1) => integrity::HMAC_SHA1_96,
        Integrity::Hmac(Hash::Sha256) => integrity::HMAC_SHA2_256_128,
        Integrity::Hmac(Hash::Sha384) => integrity::HMAC_SHA2_384_192,
        Integrity::Hmac(Hash::Sha512) => integrity::HMAC_SHA2_512_256,
    };
    Some(Transform::new(TransformType::Integrity, id))
}

fn key_exchange(method: u16) -> Transform {
    Transform::new(TransformType::KeyExchange, method)
}

fn additional(all: &Additional) -> impl Iterator<Item = Transform> {
    all.places().map(|(place, method)| {
        let kind = TransformType::ADDITIONAL_KEY_EXCHANGES[place];
        Transform::new(kind, method.number())
    })
}

const fn prf_number(hash: Hash) -> u16 {
    match hash {
        Hash::Md5 => prf::HMAC_MD5,
        Hash::Sha1 => prf::HMAC_SHA1,
        Hash::Sha256 => prf::HMAC_SHA2_256,
        Hash::Sha384 => prf::HMAC_SHA2_384,
        Hash::Sha512 => prf::HMAC_SHA2_512,
    }
}

#[cfg(test)]
mod tests {
    use wire::ikev2::transform::key_exchange as method;

    use super::*;

    fn suites<S: core::str::FromStr>(words: &str) -> Vec<S>
    where
        S::Err: core::fmt::Debug,
    {
        words.split(' ').map(|it| it.parse().unwrap()).collect()
    }

    fn offered(number: u8, transforms: Vec<Transform>) -> Proposal {
        Proposal {
            number,
            protocol: WireProtocol::Ike,
            spi: Vec::new(),
            transforms,
        }
    }

    #[test]
    fn the_first_of_our_own_suites_is_chosen_from_one_large_proposal() {
        // As Android sends it: all algorithms in one proposal.
        let of = TransformType::KeyExchange;
        let all = vec![
            Transform::with_key_length(encryption::AES_GCM_16, 128),
            Transform::with_key_length(encryption::AES_GCM_16, 256),
            Transform::new(TransformType::Prf, prf::HMAC_SHA2_512),
            Transform::new(TransformType::Prf, prf::HMAC_SHA2_256),
            Transform::new(of, method::MODP_4096),
            Transform::new(of, method::CURVE25519),
        ];
        let offer = [offered(1, all)];
        let ours: Vec<Ikev2Suite> =
            suites("aes128-sha256-curve25519 aes256gcm16-prfsha256-curve25519");
        let found = choose(&ours, &offer).expect("a common suite");
        assert_eq!(found.suite, ours[1]);
        let reply = answer(&found, &[]);
        assert_eq!(reply.transforms, ours[1].transforms());
        assert!(
            chosen(&ours[1..], core::slice::from_ref(&reply)).is_ok_and(|it| it.suite == ours[1])
        );
        // The peer answers with a proposal that we did not make.
        assert!(chosen(&ours, core::slice::from_ref(&reply)).is_err());
        assert!(chosen(&ours, &[reply.clone(), reply]).is_err());
    }

    #[test]
    fn a_proposal_that_requires_more_is_not_chosen() {
        let ours: Vec<Ikev2Suite> = suites("aes128gcm16-prfsha256-curve25519");
        let with = |more: Vec<Transform>| {
            let mut all = ours[0].transforms();
            all.extend(more);
            offered(1, all)
        };
        let none = |kind| Transform::new(kind, NONE);
        let additional = TransformType::AdditionalKeyExchange1;
        let kem = Transform::new(additional, method::ML_KEM_768);
        for (more, is_chosen) in [
            (vec![], true),
            (vec![none(TransformType::Integrity)], true),
            (vec![kem.clone(), none(additional)], true),
            (vec![kem], false),
            (vec![Transform::new(TransformType::Other(200), 1)], false),
        ] {
            let proposal = [with(more)];
            assert_eq!(
                choose(&ours, &proposal).is_some(),
                is_chosen,
                "{proposal:?}"
            );
        }
        // A key length that is not ours, and an attribute that nobody knows.
        let mut other = ours[0].transforms();
        other[0] = Transform::with_key_length(encryption::AES_GCM_16, 256);
        assert!(choose(&ours, &[offered(1, other)]).is_none());
    }

    #[test]
    fn a_childs_key_exchange_and_sequence_numbers_may_be_left_out() {
        let ours: Vec<EspSuite> = suites("aes128gcm16-esn aes128gcm16");
        let gcm = Transform::with_key_length(encryption::AES_GCM_16, 128);
        let of = TransformType::KeyExchange;
        let esp = |transforms| Proposal {
            protocol: WireProtocol::Esp,
            spi: vec![1, 2, 3, 4],
            ..offered(1, transforms)
        };
        let bare = [esp(vec![gcm.clone()])];
        let found = choose(&ours, &bare).expect("32-bit numbers are implied");
        assert_eq!(found.suite, ours[1]);
        assert_eq!(answer(&found, &[]).transforms, vec![gcm.clone()]);
        let optional = [esp(vec![
            gcm.clone(),
            Transform::new(of, method::MODP_2048),
            Transform::new(of, NONE),
            Transform::new(TransformType::SequenceNumbers, 1),
            Transform::new(TransformType::SequenceNumbers, 0),
        ])];
        let found = choose(&ours, &optional).expect("no PFS");
        assert_eq!(found.suite, ours[0]);
        let reply = answer(&found, &[9; 4]);
        assert!(reply.transforms.contains(&Transform::new(of, NONE)));
        assert_eq!(child_spi(&reply).unwrap(), 0x0909_0909);
        let needed = [esp(vec![gcm, Transform::new(of, method::MODP_2048)])];
        assert!(choose(&ours, &needed).is_none());
    }

    #[test]
    fn an_offer_is_described_in_the_words_of_its_suite() {
        for (suite, words) in [
            ("aes128-sha1-modp2048", "aes128 modp2048 prfsha1 sha1"),
            (
                "chacha20poly1305-prfsha512-ecp521",
                "chacha20poly1305 ecp521 prfsha512",
            ),
        ] {
            let text = described(&offer(&suites::<Ikev2Suite>(suite), &[]));
            let mut told: Vec<&str> = text.split(' ').collect();
            told.sort_unstable();
            assert_eq!(told.join(" "), words);
        }
    }

    #[test]
    fn suites_that_differ_in_sequence_numbers_share_a_proposal() {
        let ours: Vec<EspSuite> = suites(
            "aes128gcm16-esn aes128gcm16 aes128-sha256 aes256gcm16 aes256gcm16-esn aes128gcm16-esn",
        );
        let offer = offer(&ours, &[1, 2, 3, 4]);
        let ids = |it: &Proposal| -> Vec<u16> {
            let numbers = it.transforms_of(TransformType::SequenceNumbers);
            numbers.map(|one| one.id).collect()
        };
        let all: Vec<_> = offer.iter().map(ids).collect();
        assert_eq!(all, [vec![1, 0], vec![0], vec![0, 1], vec![1]]);
        let numbered: Vec<u8> = offer.iter().map(|it| it.number).collect();
        assert_eq!(numbered, [1, 2, 3, 4]);
        // Each choice among them is understood; both numbers at once are none.
        for (number, suite) in [(1, 0), (1, 1), (2, 2), (3, 3), (3, 4), (4, 5)] {
            let answer = Proposal {
                transforms: ours[suite].transforms(),
                ..offer[number - 1].clone()
            };
            let chosen = chosen(&ours, core::slice::from_ref(&answer)).expect("ours");
            assert_eq!(chosen.suite, ours[suite]);
        }
        assert!(chosen(&ours, &offer[..1]).is_err());
    }
}
