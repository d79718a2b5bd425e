//! Proposals of quick mode: converts a child's suites to an SA payload and back (RFC 2407 §4.4,
//! §4.5, RFC 3947 §5.1, RFC 4304 §2.1, RFC 4106 §8).
//!
//! Left out: bundles (proposals of one number that belong together) and IP compression. Both are
//! read and never chosen.

use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity, Protection};
use wire::isakmp::phase2::{self, ah, authentication, encapsulation, esp, life, sequence_number};
use wire::isakmp::{Attribute, Proposal, ProtocolId, SaPayload, Transform};

use super::phase2::list;
use super::{IsakmpSa, NatFinding, foreign};
use crate::config::{Child, ChildLayer};
use crate::ike::{Fault, Groups, Refusal};
use crate::sa::{Mode, Protocol};
use crate::suite::{Additional, EspSuite, Pfs};

/// Lifetime in seconds of a proposal without one (RFC 2407 §4.5).
const DEFAULT_LIFETIME_S: u64 = 28_800;
/// We keep an SA at least this many seconds even if the peer would end it sooner: its delete will
/// come, and nobody can make us renew without pause.
const MIN_LIFETIME_S: u64 = 60;
/// Transforms that a proposal can hold.
const MAX_TRANSFORMS: usize = 255;

/// The terms of one transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) suite: EspSuite,
    pub(super) mode: Mode,
    /// Encapsulation modes 3 and 4.
    pub(super) is_udp: bool,
    pub(super) life: Life,
}

/// Limits of an SA's lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) seconds: u64,
    pub(super) kilobytes: Option<u64>,
}

/// A chosen transform.
pub(super) struct Choice {
    pub(super) terms: Terms,
    /// The peer's SPI.
    pub(super) spi: u32,
    /// The proposal with only that transform. It still has the peer's SPI.
    pub(super) proposal: Proposal,
}

impl Life {
    /// The configured terms.
    pub(super) fn of(child: &Child) -> Self {
        let kilobytes = child.lifetime_bytes / 1024;
        // 4 TiB or more does not fit in the four octets that peers read, and is no limit.
        let is_bound = (1..=u64::from(u32::MAX)).contains(&kilobytes);
        Self {
            seconds: child.lifetime.as_secs().max(1),
            kilobytes: is_bound.then_some(kilobytes),
        }
    }

    /// The shorter of both.
    pub(super) fn shorter(self, other: Self) -> Self {
        Self {
            seconds: self.seconds.min(other.seconds.max(MIN_LIFETIME_S)),
            kilobytes: match (self.kilobytes, other.kilobytes) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
        }
    }

    /// Whether it ends before `other` does.
    pub(super) fn ends_before(self, other: Self) -> bool {
        let bytes = |life: Self| life.kilobytes.unwrap_or(u64::MAX);
        self.seconds < other.seconds || bytes(self) < bytes(other)
    }

    /// As attributes, for transforms and for RESPONDER-LIFETIME (RFC 2407 §4.6.3.1).
    pub(super) fn attributes(self) -> Vec<Attribute> {
        let clamped = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let mut found = vec![
            Attribute::short(phase2::LIFE_TYPE, life::SECONDS),
            Attribute::number(phase2::LIFE_DURATION, clamped(self.seconds)),
        ];
        if let Some(kilobytes) = self.kilobytes {
            found.extend([
                Attribute::short(phase2::LIFE_TYPE, life::KILOBYTES),
                Attribute::number(phase2::LIFE_DURATION, clamped(kilobytes)),
            ]);
        }
        found
    }

    /// Reads attributes. A duration without a preceding type is ignored. `None` if a value is not a
    /// number, is zero, or has an unknown unit.
    pub(super) fn read(attributes: &[Attribute]) -> Option<Self> {
        let mut found = Self {
            seconds: DEFAULT_LIFETIME_S,
            kilobytes: None,
        };
        let mut counts = 0;
        for attribute in attributes {
            match attribute.kind {
                phase2::LIFE_TYPE => counts = attribute.value.number()?,
                phase2::LIFE_DURATION => {
                    let value = attribute.value.number().filter(|value| *value > 0)?;
                    match u16::try_from(counts).ok()? {
                        life::SECONDS => found.seconds = value,
                        life::KILOBYTES => found.kilobytes = Some(value),
                        _ => return None,
                    }
                }
                _ => {}
            }
        }
        Some(found)
    }
}

/// The suites that one message 1 can offer.
pub(super) struct Offerable {
    pub(super) suites: Vec<EspSuite>,
    /// Another message could offer others.
    pub(super) has_more: bool,
}

/// The suites of a child that can be offered to this peer: private-use ones only to Caravan, AH and
/// layers only if packets need no UDP. One message carries one public value (RFC 2409 §5.5), so all
/// suites have one group: that of the first, or the one that the child already has.
///
/// Curve25519 comes last if phase 1 used another group and the child has other PFS groups. IKEv1
/// has no number for it: a peer that did not choose it in phase 1 may not know it, and some peers
/// do not answer an unknown group at all, so that nothing else would be offered.
pub(super) fn offerable(
    child: &Child,
    groups: &Groups<'_>,
    sa: &IsakmpSa,
    is_udp: bool,
) -> Offerable {
    let fits = |suite: &&EspSuite| {
        (sa.peer.caravan || suite.protection.encryption != Encryption::ChaCha20Poly1305)
            && !(is_udp && (suite.protocol == Protocol::Ah || child.layer != ChildLayer::Alone))
            && suite.is_for_ikev1()
            && !groups.refused.contains(&suite.pfs)
    };
    let is_curve = |suite: &EspSuite| suite.pfs == Some(Group::Curve25519.into());
    let is_modp = |suite: &EspSuite| suite.pfs.is_some() && !is_curve(suite);
    let mut suites: Vec<EspSuite> = child.proposals.iter().filter(fits).copied().collect();
    if sa.suite.group != Group::Curve25519 && child.proposals.iter().any(is_modp) {
        suites.sort_by_key(is_curve);
    }
    let is_agreed = |suite: &&EspSuite| Some(suite.pfs) == groups.agreed;
    let first = suites.iter().find(is_agreed).or(suites.first());
    let group = first.and_then(|suite| suite.pfs);
    let all = suites.len();
    suites.retain(|suite| suite.pfs == group);
    let has_more = suites.len() < all;
    suites.truncate(MAX_TRANSFORMS);
    Offerable { suites, has_more }
}

/// An SA payload that offers `suites` in their order: a proposal for each run of suites of one
/// protocol, a transform for each suite. `suites` must not be empty.
pub(super) fn offer(
    suites: &[EspSuite],
    mode: Mode,
    is_udp: bool,
    life: Life,
    spi: u32,
) -> SaPayload {
    let runs = suites.chunk_by(|a, b| a.protocol == b.protocol);
    let proposals = runs.zip(1_u8..).map(|(run, number)| Proposal {
        number,
        protocol: match run[0].protocol {
            Protocol::Esp => ProtocolId::Esp,
            Protocol::Ah => ProtocolId::Ah,
        },
        spi: spi.to_be_bytes().to_vec(),
        transforms: run
            .iter()
            .zip(1_u8..)
            .map(|(suite, number)| {
                let terms = Terms {
                    suite: *suite,
                    mode,
                    is_udp,
                    life,
                };
                terms.transform(number)
            })
            .collect(),
    });
    SaPayload {
        proposals: proposals.collect(),
    }
}

/// Chooses from a peer's offer by our preference.
pub(super) fn choose(offered: &SaPayload, child: &Child, sa: &IsakmpSa) -> Result<Choice, Fault> {
    let alone = |proposal: &&Proposal| {
        let same = |other: &&Proposal| other.number == proposal.number;
        offered.proposals.iter().filter(same).count() == 1
    };
    let all: Vec<(&Proposal, &Transform, Terms)> = offered
        .proposals
        .iter()
        .filter(alone)
        .flat_map(|proposal| {
            proposal.transforms.iter().filter_map(move |transform| {
                let terms = Terms::read(proposal.protocol, transform, sa.peer.caravan)?;
                Some((proposal, transform, terms))
            })
        })
        .collect();
    let fits = |terms: &Terms| {
        let is_raw = !terms.is_udp || child.layer == ChildLayer::Alone;
        terms.mode == child.mode && is_raw && is_carried(terms, sa.nat)
    };
    for suite in &child.proposals {
        let found = all
            .iter()
            .find(|(.., terms)| terms.suite == *suite && fits(terms));
        if let Some((proposal, transform, terms)) = found {
            return Ok(Choice {
                terms: *terms,
                spi: spi_of(proposal)?,
                proposal: Proposal {
                    transforms: vec![(*transform).clone()],
                    ..(*proposal).clone()
                },
            });
        }
    }
    Err(difference(offered, &all, child, sa))
}

/// Reads the peer's choice from our offer: the one transform of the one proposal.
pub(super) fn chosen(answer: &SaPayload, allows_private: bool) -> Result<(Terms, u32), Fault> {
    let ([proposal], Some([transform])) = (
        answer.proposals.as_slice(),
        answer.proposals.first().map(|p| p.transforms.as_slice()),
    ) else {
        return Err(incompatible(
            "the peer did not choose exactly one of our proposals".into(),
        ));
    };
    match Terms::read(proposal.protocol, transform, allows_private) {
        Some(terms) => Ok((terms, spi_of(proposal)?)),
        None => Err(incompatible(format!(
            "the peer chose {}, which we did not offer",
            foreign_words(proposal.protocol, transform)
        ))),
    }
}

/// The mode of the first transform; tunnel mode if it is unknown.
pub(super) fn first_mode(offered: &SaPayload) -> Mode {
    let first = offered.proposals.first().and_then(|p| p.transforms.first());
    let value = first.and_then(|transform| transform.number_of(phase2::ENCAPSULATION));
    match value.and_then(encapsulation_of) {
        Some((mode, _)) => mode,
        None => Mode::Tunnel,
    }
}

/// The error for refused proposals.
pub(super) fn incompatible(what: String) -> Fault {
    Fault::Incompatible {
        what,
        refusal: Refusal::Proposal,
    }
}

impl Terms {
    fn transform(&self, number: u8) -> Transform {
        let Protection {
            encryption,
            integrity,
        } = self.suite.protection;
        let encapsulation = match (self.mode, self.is_udp) {
            (Mode::Tunnel, false) => encapsulation::TUNNEL,
            (Mode::Transport, false) => encapsulation::TRANSPORT,
            (Mode::Tunnel, true) => encapsulation::UDP_TUNNEL,
            (Mode::Transport, true) => encapsulation::UDP_TRANSPORT,
        };
        let mut attributes = self.life.attributes();
        attributes.push(Attribute::short(phase2::ENCAPSULATION, encapsulation));
        let hash = match integrity {
            Integrity::None => None,
            Integrity::Hmac(hash) => Some(hash),
        };
        let (id, key_bits) = match (self.suite.protocol, hash) {
            (Protocol::Ah, hash) => (ah_transform(hash.unwrap_or(Hash::Sha256)), None),
            (Protocol::Esp, _) => esp_transform(encryption),
        };
        if let Some(hash) = hash {
            let value = authentication_number(hash);
            attributes.push(Attribute::short(phase2::AUTHENTICATION, value));
        }
        if let Some(bits) = key_bits {
            attributes.push(Attribute::short(phase2::KEY_LENGTH, bits));
        }
        if let Some(group) = self.suite.pfs.and_then(Pfs::group) {
            attributes.push(Attribute::short(phase2::GROUP, group.number()));
        }
        if self.suite.has_esn {
            let value = sequence_number::BITS_64;
            attributes.push(Attribute::short(phase2::EXTENDED_SEQUENCE_NUMBER, value));
        }
        Transform {
            number,
            id,
            attributes,
        }
    }

    /// `None` if the transform asks for anything that we do not support: it cannot be chosen.
    fn read(protocol: ProtocolId, transform: &Transform, allows_private: bool) -> Option<Self> {
        let is_known = |attribute: &Attribute| KNOWN_ATTRIBUTES.contains(&attribute.kind);
        if !transform.attributes.iter().all(is_known) {
            return None;
        }
        let number = |kind| {
            let present = transform.attributes.iter().any(|a| a.kind == kind);
            // A present attribute must be a number.
            present.then(|| transform.number_of(kind))
        };
        let required = |found: Option<Option<u64>>| match found {
            None => Some(None),
            Some(None) => None,
            Some(value) => Some(value),
        };
        let hash = match required(number(phase2::AUTHENTICATION))? {
            Some(value) => Some(authentication_of(value)?),
            None => None,
        };
        let key_bits = required(number(phase2::KEY_LENGTH))?;
        let pfs = match required(number(phase2::GROUP))? {
            Some(value) => Some(Group::of_number(value)?.into()),
            None => None,
        };
        let has_esn = match required(number(phase2::EXTENDED_SEQUENCE_NUMBER))? {
            Some(value) if value == u64::from(sequence_number::BITS_64) => true,
            Some(_) => return None,
            None => false,
        };
        let (mode, is_udp) = match required(number(phase2::ENCAPSULATION))? {
            Some(value) => encapsulation_of(value)?,
            None => (Mode::Tunnel, false),
        };
        let (protocol, encryption) = match protocol {
            ProtocolId::Esp => {
                let encryption = esp_encryption(transform.id, key_bits, allows_private)?;
                (Protocol::Esp, encryption)
            }
            ProtocolId::Ah if transform.id == ah_transform(hash?) && key_bits.is_none() => {
                (Protocol::Ah, Encryption::Null)
            }
            _ => return None,
        };
        Some(Self {
            suite: EspSuite {
                protection: Protection {
                    encryption,
                    integrity: hash.map_or(Integrity::None, Integrity::Hmac),
                },
                protocol,
                pfs,
                additional: Additional::NONE,
                has_esn,
            },
            mode,
            is_udp,
            life: Life::read(&transform.attributes)?,
        })
    }
}

/// Whether packets in this form can be carried: unencapsulated ones not through a NAT, AH never in
/// UDP, UDP only if the peer supports RFC 3947.
fn is_carried(terms: &Terms, nat: NatFinding) -> bool {
    if terms.is_udp {
        nat.is_supported && terms.suite.protocol == Protocol::Esp
    } else {
        !nat.is_between()
    }
}

fn spi_of(proposal: &Proposal) -> Result<u32, Fault> {
    let octets = <[u8; 4]>::try_from(proposal.spi.as_slice());
    // RFC 4303 §2.1: 0 to 255 are reserved.
    match octets.map(u32::from_be_bytes) {
        Ok(spi) if spi > 255 => Ok(spi),
        _ => Err(Fault::Incompatible {
            what: "the peer's SPI is not four octets of more than 255".into(),
            refusal: Refusal::Spi,
        }),
    }
}

/// One sentence on why nothing matches.
fn difference(
    offered: &SaPayload,
    readable: &[(&Proposal, &Transform, Terms)],
    child: &Child,
    sa: &IsakmpSa,
) -> Fault {
    let ours = |terms: &&Terms| child.proposals.contains(&terms.suite);
    let known: Vec<&Terms> = readable.iter().map(|(.., terms)| terms).collect();
    if let Some(terms) = known.iter().copied().find(ours) {
        let has_mode =
            |terms: &Terms| child.proposals.contains(&terms.suite) && terms.mode == child.mode;
        if !known.iter().any(|terms| has_mode(terms)) {
            return incompatible(format!(
                "modes differ: the peer asks for {}, child {} is {}",
                terms.mode, child.name, child.mode
            ));
        }
        let what = match (terms.is_udp, terms.suite.protocol) {
            (_, Protocol::Ah) => "the peer offers AH, which cannot cross the NAT between us",
            (true, _) => "the peer offers ESP in UDP, but NAT traversal was not agreed",
            (false, _) => "the peer offers ESP without UDP, but there is a NAT between us",
        };
        return incompatible(what.into());
    }
    if let Some(what) = pfs_difference(&known, child) {
        return incompatible(what);
    }
    let all = offered.proposals.iter().flat_map(|proposal| {
        proposal.transforms.iter().map(|transform| {
            match Terms::read(proposal.protocol, transform, sa.peer.caravan) {
                Some(terms) => terms.suite.to_string(),
                None => foreign_words(proposal.protocol, transform),
            }
        })
    });
    let mut theirs: Vec<String> = all.collect();
    theirs.dedup();
    // Keep the sentence short: the first ones say enough.
    let more = theirs.len().saturating_sub(MAX_NAMED);
    theirs.truncate(MAX_NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    incompatible(format!(
        "no proposal in common: the peer offers {}{more}; child {} accepts {}",
        list(theirs),
        child.name,
        list(&child.proposals)
    ))
}

/// One sentence if the same algorithms are offered with another group, or with none.
fn pfs_difference(offered: &[&Terms], child: &Child) -> Option<String> {
    let is_alike = |a: &EspSuite, b: &EspSuite| EspSuite { pfs: b.pfs, ..*a } == *b;
    let words = |suite: &EspSuite| match suite.pfs {
        Some(_) => suite.to_string(),
        None => format!("{suite} without PFS"),
    };
    let suites = offered.iter().map(|terms| terms.suite);
    let alike: Vec<EspSuite> = suites
        .filter(|suite| child.proposals.iter().any(|own| is_alike(own, suite)))
        .collect();
    let accepted = child.proposals.iter();
    let accepted = accepted.filter(|own| alike.iter().any(|suite| is_alike(own, suite)));
    (!alike.is_empty()).then(|| {
        format!(
            "PFS differs: the peer offers {}; child {} accepts {}",
            list(alike.iter().take(MAX_NAMED).map(words)),
            child.name,
            list(accepted.take(MAX_NAMED).map(words))
        )
    })
}

/// Proposals that one sentence names.
const MAX_NAMED: usize = 12;

/// Words for a transform that is not one of our suites.
fn foreign_words(protocol: ProtocolId, transform: &Transform) -> String {
    let number = |kind| transform.number_of(kind);
    let mut words = vec![match protocol {
        ProtocolId::Esp => foreign::esp(transform.id, number(phase2::KEY_LENGTH)),
        ProtocolId::Ah => foreign::ah(transform.id),
        other => format!("protocol {} transform {}", other.number(), transform.id),
    }];
    if protocol != ProtocolId::Ah {
        words.extend(number(phase2::AUTHENTICATION).map(foreign::integrity));
    }
    words.extend(number(phase2::GROUP).map(foreign::group));
    words.join("-")
}

fn encapsulation_of(value: u64) -> Option<(Mode, bool)> {
    match u16::try_from(value).ok()? {
        encapsulation::TUNNEL => Some((Mode::Tunnel, false)),
        encapsulation::TRANSPORT => Some((Mode::Transport, false)),
        encapsulation::UDP_TUNNEL => Some((Mode::Tunnel, true)),
        encapsulation::UDP_TRANSPORT => Some((Mode::Transport, true)),
        _ => None,
    }
}

/// Transform ID and key length in bits; the salt of AES-GCM does not count (RFC 4106 §8.2).
fn esp_transform(encryption: Encryption) -> (u8, Option<u16>) {
    match encryption {
        Encryption::Null => (esp::NULL, None),
        Encryption::Cbc(Cipher::Des) => (esp::DES, None),
        Encryption::Cbc(Cipher::TripleDes) => (esp::TRIPLE_DES, None),
        Encryption::Cbc(Cipher::Aes128) => (esp::AES_CBC, Some(128)),
        Encryption::Cbc(Cipher::Aes192) => (esp::AES_CBC, Some(192)),
        Encryption::Cbc(Cipher::Aes256) => (esp::AES_CBC, Some(256)),
        Encryption::AesGcm { key_len } => (esp::AES_GCM_16, Some(u16::from(key_len) * 8)),
        Encryption::ChaCha20Poly1305 => (esp::CARAVAN_CHACHA20_POLY1305, None),
    }
}

fn esp_encryption(id: u8, key_bits: Option<u64>, allows_private: bool) -> Option<Encryption> {
    match (id, key_bits) {
        (esp::NULL, None) => Some(Encryption::Null),
        (esp::DES, None) => Some(Encryption::Cbc(Cipher::Des)),
        (esp::TRIPLE_DES, None) => Some(Encryption::Cbc(Cipher::TripleDes)),
        (esp::AES_CBC, None | Some(128)) => Some(Encryption::Cbc(Cipher::Aes128)),
        (esp::AES_CBC, Some(192)) => Some(Encryption::Cbc(Cipher::Aes192)),
        (esp::AES_CBC, Some(256)) => Some(Encryption::Cbc(Cipher::Aes256)),
        (esp::AES_GCM_16, Some(128)) => Some(Encryption::AesGcm { key_len: 16 }),
        (esp::AES_GCM_16, Some(192)) => Some(Encryption::AesGcm { key_len: 24 }),
        (esp::AES_GCM_16, Some(256)) => Some(Encryption::AesGcm { key_len: 32 }),
        (esp::CARAVAN_CHACHA20_POLY1305, None) if allows_private => {
            Some(Encryption::ChaCha20Poly1305)
        }
        _ => None,
    }
}

fn ah_transform(hash: Hash) -> u8 {
    match hash {
        Hash::Md5 => ah::MD5,
        Hash::Sha1 => ah::SHA1,
        Hash::Sha256 => ah::SHA2_256,
        Hash::Sha384 => ah::SHA2_384,
        Hash::Sha512 => ah::SHA2_512,
    }
}

fn authentication_number(hash: Hash) -> u16 {
    match hash {
        Hash::Md5 => authentication::HMAC_MD5,
        Hash::Sha1 => authentication::HMAC_SHA1,
        Hash::Sha256 => authentication::HMAC_SHA2_256,
        Hash::Sha384 => authentication::HMAC_SHA2_384,
        Hash::Sha512 => authentication::HMAC_SHA2_512,
    }
}

fn authentication_of(value: u64) -> Option<Hash> {
    HASHES
        .into_iter()
        .find(|hash| u64::from(authentication_number(*hash)) == value)
}

const HASHES: [Hash; 5] = [
    Hash::Md5,
    Hash::Sha1,
    Hash::Sha256,
    Hash::Sha384,
    Hash::Sha512,
];
const KNOWN_ATTRIBUTES: [u16; 7] = [
    phase2::LIFE_TYPE,
    phase2::LIFE_DURATION,
    phase2::GROUP,
    phase2::ENCAPSULATION,
    phase2::AUTHENTICATION,
    phase2::KEY_LENGTH,
    phase2::EXTENDED_SEQUENCE_NUMBER,
];
