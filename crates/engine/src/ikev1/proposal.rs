//! Phase 1 proposals (RFC 2409 appendix A, RFC 3602): offering, choosing, and describing
//! differences.
//!
//! Left out: groups described in full, prfs other than HMAC, lifetimes in kilobytes.

use std::collections::{BTreeMap, BTreeSet};

use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use wire::codec::{Reader, Writer};
use wire::isakmp::phase1 as attr;
use wire::isakmp::phase2::life;
use wire::isakmp::{Attribute, Notify, Proposal, ProtocolId, SaPayload, Transform};

use super::foreign;
use crate::ike::auth::listed;
use crate::ike::{Fault, Refusal};
use crate::suite::IkeSuite;
use crate::time::Duration;

/// The authentication method of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    PresharedKey,
    RsaSignatures,
}

/// The known transforms of a peer's offer, read once: a stranger may send thousands of transforms,
/// and each connection looks for its suites among them.
pub(super) struct Offered<'a>(BTreeMap<(IkeSuite, u16), (&'a Proposal, &'a Transform)>);

/// The choice.
pub(super) struct Choice {
    pub(super) suite: IkeSuite,
    /// The smaller of both lifetimes.
    pub(super) lifetime_s: u64,
    /// The peer's lifetime, if it sent one.
    pub(super) peer_lifetime_s: Option<u64>,
    /// The chosen transform alone, as the peer wrote it.
    pub(super) reply: SaPayload,
}

/// Shorter lifetimes are a misunderstanding.
const MIN_LIFETIME_S: u64 = 60;

impl Method {
    const fn number(self) -> u16 {
        match self {
            Self::PresharedKey => attr::authentication::PRE_SHARED_KEY,
            Self::RsaSignatures => attr::authentication::RSA_SIGNATURES,
        }
    }
}

/// One proposal with a transform for each suite.
pub(super) fn offer(suites: &[IkeSuite], method: Method, lifetime: Duration) -> SaPayload {
    let transforms = (1..=u8::MAX)
        .zip(suites)
        .map(|(number, suite)| Transform {
            number,
            id: attr::transform::KEY_IKE,
            attributes: attributes(suite, method, lifetime),
        })
        .collect();
    only(1, transforms)
}

impl<'a> Offered<'a> {
    /// Of equal transforms, the first counts.
    pub(super) fn read(sa: &'a SaPayload) -> Self {
        let mut found = BTreeMap::new();
        for (proposal, transform) in transforms(sa) {
            let method = read_method(transform);
            if let Some(suite) = read_suite(transform).filter(|_| METHODS.contains(&method)) {
                let key = (suite, method);
                found.entry(key).or_insert((proposal, transform));
            }
        }
        Self(found)
    }

    /// Chooses by our order of preference. In aggressive mode, the length `public_len` of the
    /// public value determines the group.
    pub(super) fn choose(
        &self,
        accepted: &[IkeSuite],
        method: Method,
        public_len: Option<usize>,
        lifetime: Duration,
    ) -> Option<Choice> {
        let fits = |suite: &&IkeSuite| public_len.is_none_or(|len| suite.group.len() == len);
        let mut suites = accepted.iter().filter(fits);
        suites.find_map(|suite| {
            let (proposal, transform) = self.0.get(&(*suite, method.number()))?;
            let peer_lifetime_s = read_lifetime(transform);
            let own = lifetime.as_secs();
            Some(Choice {
                suite: *suite,
                lifetime_s: peer_lifetime_s.map_or(own, |peer| peer.min(own)),
                peer_lifetime_s,
                reply: only(proposal.number, vec![(*transform).clone()]),
            })
        })
    }
}

/// Reads the responder's choice, which must be one of our transforms.
pub(super) fn chosen(
    reply: &SaPayload,
    offered: &[IkeSuite],
    method: Method,
    lifetime: Duration,
) -> Option<Choice> {
    let mut all = transforms(reply);
    let is_one = all.next().is_some() && all.next().is_none();
    is_one
        .then(|| Offered::read(reply).choose(offered, method, None, lifetime))
        .flatten()
}

/// One sentence on the difference.
pub(super) fn mismatch(
    offered: &SaPayload,
    accepted: &[IkeSuite],
    methods: &[Method],
    public_len: Option<usize>,
) -> Fault {
    let has_suite = transforms(offered)
        .any(|(_, transform)| read_suite(transform).is_some_and(|suite| accepted.contains(&suite)));
    let theirs = transforms(offered).map(|(_, transform)| read_method(transform));
    let asked: BTreeSet<u16> = theirs.collect();
    let has_method = methods.iter().any(|it| asked.contains(&it.number()));
    let wants_xauth = !asked.is_empty() && asked.iter().all(|number| is_xauth(*number));
    let our_methods = || listed(methods.iter(), |it| method_words(it.number()));
    let theirs = listed(transforms(offered), |(_, transform)| {
        transform_words(transform)
    });
    let ours = words(accepted);
    let what = if wants_xauth {
        let (theirs, ours) = (listed(asked.into_iter(), method_words), our_methods());
        format!(
            "the peer wants XAUTH, a user's name and password, which we do not speak: it offers \
             {theirs}; we accept {ours}"
        )
    } else if has_suite && !has_method {
        let (theirs, ours) = (listed(asked.into_iter(), method_words), our_methods());
        format!("no authentication method in common: the peer offers {theirs}; we accept {ours}")
    } else if has_suite && public_len.is_some() {
        format!(
            "no proposal in common: the peer offers {theirs} with a public value of {} octets; \
             we accept {ours}",
            public_len.unwrap_or_default()
        )
    } else {
        format!("no proposal in common: the peer offers {theirs}; we accept {ours}")
    };
    Fault::Incompatible {
        what,
        refusal: Refusal::Proposal,
    }
}

/// Our offer in words.
pub(super) fn words(suites: &[IkeSuite]) -> String {
    listed(suites.iter(), suite_words)
}

/// Reads a RESPONDER-LIFETIME notification (RFC 2407 §4.6.3.1).
pub(super) fn lifetime_of(notify: &Notify) -> Option<u64> {
    lifetime_in(&Attribute::read_all(&mut Reader::new(&notify.value)).ok()?)
}

/// The content of a RESPONDER-LIFETIME notification for this many seconds.
pub(super) fn lifetime_octets(seconds: u64) -> Vec<u8> {
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    let mut w = Writer::new();
    let attributes = [
        Attribute::short(attr::LIFE_TYPE, life::SECONDS),
        Attribute::number(attr::LIFE_DURATION, seconds),
    ];
    Attribute::write_all(&attributes, &mut w);
    w.into_vec()
}

/// Seconds of life in a list of attributes: a type, then its duration.
pub(super) fn lifetime_in(attributes: &[Attribute]) -> Option<u64> {
    let mut is_seconds = true;
    for attribute in attributes {
        let number = attribute.value.number();
        match attribute.kind {
            attr::LIFE_TYPE => is_seconds = number == Some(life::SECONDS.into()),
            attr::LIFE_DURATION if is_seconds => {
                return number.map(|seconds| seconds.max(MIN_LIFETIME_S));
            }
            _ => {}
        }
    }
    None
}

fn attributes(suite: &IkeSuite, method: Method, lifetime: Duration) -> Vec<Attribute> {
    let (encryption, key_bits) = match suite.cipher {
        Cipher::Des => (attr::encryption::DES_CBC, None),
        Cipher::TripleDes => (attr::encryption::TRIPLE_DES_CBC, None),
        Cipher::Aes128 => (attr::encryption::AES_CBC, Some(128)),
        Cipher::Aes192 => (attr::encryption::AES_CBC, Some(192)),
        Cipher::Aes256 => (attr::encryption::AES_CBC, Some(256)),
    };
    let hash = match suite.hash {
        Hash::Md5 => attr::hash::MD5,
        Hash::Sha1 => attr::hash::SHA1,
        Hash::Sha256 => attr::hash::SHA2_256,
        Hash::Sha384 => attr::hash::SHA2_384,
        Hash::Sha512 => attr::hash::SHA2_512,
    };
    let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
    let mut all = vec![Attribute::short(attr::ENCRYPTION, encryption)];
    all.extend(key_bits.map(|bits| Attribute::short(attr::KEY_LENGTH, bits)));
    all.extend([
        Attribute::short(attr::HASH, hash),
        Attribute::short(attr::GROUP, suite.group.number()),
        Attribute::short(attr::AUTHENTICATION, method.number()),
        Attribute::short(attr::LIFE_TYPE, life::SECONDS),
        Attribute::number(attr::LIFE_DURATION, seconds),
    ]);
    all
}

fn only(number: u8, transforms: Vec<Transform>) -> SaPayload {
    SaPayload {
        proposals: vec![Proposal {
            number,
            protocol: ProtocolId::Isakmp,
            spi: Vec::new(),
            transforms,
        }],
    }
}

/// Every transform of protocol ISAKMP, in the peer's order.
fn transforms(sa: &SaPayload) -> impl Iterator<Item = (&Proposal, &Transform)> {
    sa.proposals
        .iter()
        .filter(|proposal| proposal.protocol == ProtocolId::Isakmp)
        .flat_map(|proposal| proposal.transforms.iter().map(move |t| (proposal, t)))
}

fn read_suite(transform: &Transform) -> Option<IkeSuite> {
    if transform.id != attr::transform::KEY_IKE || transform.number_of(attr::PRF).is_some() {
        return None;
    }
    let short = |kind| u16::try_from(transform.number_of(kind)?).ok();
    let cipher = match (short(attr::ENCRYPTION)?, short(attr::KEY_LENGTH)) {
        (attr::encryption::DES_CBC, None | Some(64)) => Cipher::Des,
        (attr::encryption::TRIPLE_DES_CBC, None | Some(192)) => Cipher::TripleDes,
        (attr::encryption::AES_CBC, Some(128)) => Cipher::Aes128,
        (attr::encryption::AES_CBC, Some(192)) => Cipher::Aes192,
        (attr::encryption::AES_CBC, Some(256)) => Cipher::Aes256,
        _ => return None,
    };
    let hash = match short(attr::HASH)? {
        attr::hash::MD5 => Hash::Md5,
        attr::hash::SHA1 => Hash::Sha1,
        attr::hash::SHA2_256 => Hash::Sha256,
        attr::hash::SHA2_384 => Hash::Sha384,
        attr::hash::SHA2_512 => Hash::Sha512,
        _ => return None,
    };
    let group = Group::of_number(transform.number_of(attr::GROUP)?)?;
    Some(IkeSuite {
        cipher,
        hash,
        group,
    })
}

fn read_method(transform: &Transform) -> u16 {
    let number = transform.number_of(attr::AUTHENTICATION);
    number.and_then(|n| u16::try_from(n).ok()).unwrap_or(0)
}

fn read_lifetime(transform: &Transform) -> Option<u64> {
    lifetime_in(&transform.attributes)
}

fn method_words(number: u16) -> String {
    foreign::method(number.into())
}

/// Methods with a user's name and password after phase 1.
fn is_xauth(number: u16) -> bool {
    attr::authentication::XAUTH.contains(&number) || attr::authentication::HYBRID.contains(&number)
}

fn suite_words(suite: &IkeSuite) -> String {
    suite.to_string()
}

/// The words of a suite, ours or not.
fn transform_words(transform: &Transform) -> String {
    if let Some(suite) = read_suite(transform) {
        return suite_words(&suite);
    }
    let number = |kind| transform.number_of(kind);
    let key_bits = number(attr::KEY_LENGTH);
    let cipher = number(attr::ENCRYPTION).map(|it| foreign::ike_cipher(it, key_bits));
    let hash = number(attr::HASH).map(foreign::ike_hash);
    let group = number(attr::GROUP).map(foreign::group);
    let parts = [("cipher", cipher), ("hash", hash), ("group", group)];
    let (named, missing): (Vec<_>, Vec<_>) = parts.iter().partition(|(_, word)| word.is_some());
    let named: Vec<&str> = named.iter().filter_map(|(_, it)| it.as_deref()).collect();
    let missing: Vec<&str> = missing.iter().map(|(what, _)| *what).collect();
    match (named.join("-"), missing.join(" and ")) {
        (words, none) if none.is_empty() => words,
        (words, missing) if words.is_empty() => format!("a suite without {missing}"),
        (words, missing) => format!("{words} without {missing}"),
    }
}

const METHODS: [u16; 2] = [
    Method::PresharedKey.number(),
    Method::RsaSignatures.number(),
];
