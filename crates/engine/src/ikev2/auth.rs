//! AUTH: what each end signs, with which key, and how that is checked (RFC 7296 §2.15; RFC 4754,
//! RFC 7427, RFC 8420 and draft-ietf-ipsecme-ikev2-pqc-auth for signatures).
//!
//! Each end chooses its own method: a pre-shared key at one and a certificate at the other are
//! fine. So is EAP at the initiator ([`super::eap`]): its key then serves as a shared one. RSA with
//! SHA-1 (method 1) is made and believed only where the connection allows it, and never with a peer
//! that announces hashes. Left out: raw public keys, hash and URL.

use std::sync::Arc;

use crypto::cert::{Certificate, LeafKeys};
use crypto::curve::Curve;
use crypto::hash::{Digest, Hash, is_equal};
use crypto::rand::Stream;
use crypto::sign::{KeyKind, PrivateKey, PublicKey, Scheme, SignFault};
use wire::ikev2::{
    Authentication, AuthenticationMethod as Method, Certificate as CertificatePayload,
    CertificateEncoding, CertificateRequest, DigitalSignature, HashAlgorithm, Identification,
    KEY_HASH_LEN, Payload,
};

use super::Abilities;
use super::parts::Parts;
use crate::config::{Connection, LocalMethod, RemoteMethod};
use crate::counters::DropReason;
use crate::identity::Identity;
use crate::ike::Fault;
use crate::ike::auth::{Proven, accepting, proven_by_key, trusted, unaccepted, wrong_key};
use crate::sa::Secret;
use crate::time::Calendar;
use crate::work::{Task, Work};

/// The hashes of signatures that we check (RFC 7427 §4). Ed25519 and ML-DSA hash by themselves.
pub(super) const HASHES: [HashAlgorithm; 4] = [
    HashAlgorithm::Sha2_256,
    HashAlgorithm::Sha2_384,
    HashAlgorithm::Sha2_512,
    HashAlgorithm::Identity,
];
/// What the signed octets begin with if both messages of IKE_SA_INIT are in them. A message begins
/// with an SPI, which is never zero, so the two forms cannot be taken for each other.
const ZERO_PREFIX: [u8; 8] = [0; 8];
/// RFC 7296 §2.15.
const KEY_PAD: &[u8] = b"Key Pad for IKEv2";

/// What an end signs: its message of IKE_SA_INIT, after the other's if both ends announce that, the
/// other's nonce, a mac of its identity, and what was exchanged in between.
#[derive(Clone, Copy)]
pub(super) struct Signed<'a> {
    /// The other's message of IKE_SA_INIT, if both count
    /// (draft-ietf-ipsecme-ikev2-downgrade-prevention).
    pub(super) other: Option<&'a [u8]>,
    pub(super) message: &'a [u8],
    pub(super) nonce: &'a [u8],
    pub(super) prf: Hash,
    /// SK_pi or SK_pr.
    pub(super) p: &'a Secret,
    /// The ID payload without its generic header.
    pub(super) id: &'a [u8],
    /// IntAuth: what was exchanged in between (RFC 9242 §3.3.2). Nothing without IKE_INTERMEDIATE.
    pub(super) between: &'a [u8],
}

impl Signed<'_> {
    fn with<T>(&self, work: &mut Work, sign: impl FnOnce(&[&[u8]], &mut Work) -> T) -> T {
        work.count(Task::Prf(self.prf), self.id.len() as u64);
        let mac = self.prf.hmac(&self.p.0, &[self.id]);
        let own = [self.message, self.nonce, mac.as_ref(), self.between];
        match self.other {
            Some(other) => {
                let [message, nonce, id, between] = own;
                sign(&[&ZERO_PREFIX, other, message, nonce, id, between], work)
            }
            None => sign(&own, work),
        }
    }

    /// AUTH of an IKE SA that goes on from an earlier one (RFC 5723 §4.3.3).
    pub(super) fn resumed(&self, form: ResumedForm, work: &mut Work) -> Digest {
        let prf = self.prf;
        let of = |parts: &[&[u8]], work: &mut Work| {
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            work.count(Task::Prf(prf), bytes as u64);
            prf.hmac(&self.p.0, parts)
        };
        match form {
            ResumedForm::Whole => self.with(work, of),
            ResumedForm::MessageOnly => of(&[self.message], work),
        }
    }

    /// AUTH with a key that both ends know.
    fn mac(&self, key: &Secret, work: &mut Work) -> Digest {
        let prf = self.prf;
        self.with(work, |parts, work| {
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            work.add(Task::Prf(prf), 2, (bytes + KEY_PAD.len()) as u64);
            let padded = prf.hmac(&key.0, &[KEY_PAD]);
            prf.hmac(padded.as_ref(), parts)
        })
    }
}

/// What AUTH of a resumed IKE SA covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ResumedForm {
    /// All that AUTH covers otherwise: RFC 5723 §4.3.3 says so.
    #[default]
    Whole,
    /// The message of IKE_SESSION_RESUME alone, as Libreswan does it. The key depends on both
    /// nonces, and the identity is that of the ticket, so nothing is left open.
    MessageOnly,
}

/// Our proof: certificates, if we have any, and AUTH. All certificates but a self-signed anchor go
/// along, whether or not the peer asks for them: some do not.
pub(super) fn prove(
    connection: &Connection,
    signed: Signed<'_>,
    peer: &Abilities,
    random: &mut Stream,
    work: &mut Work,
) -> Result<Vec<Payload>, Fault> {
    let auth = |method, value| Payload::Authentication(Authentication { method, value });
    match &connection.local.method {
        LocalMethod::PresharedKey(key) => {
            let mac = signed.mac(key, work);
            Ok(vec![auth(Method::SharedKey, mac.as_ref().to_vec())])
        }
        LocalMethod::Signature { key, chain } => {
            let mut all: Vec<Payload> = chain.iter().map(certificate).collect();
            let (method, value) = sign(connection, key, signed, peer, random, work)?;
            all.push(auth(method, value));
            Ok(all)
        }
        // The key that EAP gives proves us later.
        LocalMethod::Eap(_) => Ok(Vec::new()),
    }
}

/// AUTH among our payloads.
pub(super) fn proof_in(chain: &[Payload]) -> Option<&Authentication> {
    chain.iter().find_map(|payload| match payload {
        Payload::Authentication(auth) => Some(auth),
        _ => None,
    })
}

/// Whether a proof that is made or believed is by RSA with SHA-1: method 1 has no other hash here.
pub(super) fn is_by_sha1(auth: &Authentication) -> bool {
    auth.method == Method::RsaDigitalSignature
}

fn certificate(certificate: &Certificate) -> Payload {
    Payload::Certificate(CertificatePayload {
        encoding: CertificateEncoding::X509Signature,
        body: certificate.der().to_vec(),
    })
}

/// A signature with the first scheme that suits our key and that the peer reads.
fn sign(
    connection: &Connection,
    key: &PrivateKey,
    signed: Signed<'_>,
    peer: &Abilities,
    random: &mut Stream,
    work: &mut Work,
) -> Result<(Method, Vec<u8>), Fault> {
    let unfit = || {
        Fault::Unauthenticated(
            "the peer reads no signature that our key makes: it announces no hash that we use; one \
             that announces none reads RSA with SHA-1, which rsa_sha1 = true allows"
                .into(),
        )
    };
    let schemes: Vec<(Method, Scheme)> = match (&peer.hashes, key.kind()) {
        (Some(hashes), kind) => {
            let reads = |scheme: &&Scheme| hashes.contains(&hash_algorithm(**scheme));
            let all = kind.schemes().iter().filter(reads);
            all.map(|scheme| (Method::DigitalSignature, *scheme))
                .collect()
        }
        (None, KeyKind::Ecdsa(curve)) => vec![(curve_method(curve), Scheme::EcdsaRaw(curve))],
        (None, KeyKind::Rsa { .. }) if connection.takes_sha1() => {
            vec![(Method::RsaDigitalSignature, Scheme::RsaPkcs1(Hash::Sha1))]
        }
        (None, KeyKind::Rsa { .. } | KeyKind::Ed25519 | KeyKind::MlDsa(_)) => Vec::new(),
    };
    for (method, scheme) in schemes {
        let made = signed.with(work, |parts, work| {
            work.count_sign(key.kind());
            key.sign(scheme, parts, random)
        });
        let signature = match made {
            Ok(signature) => signature,
            // The modulus is too short for this hash.
            Err(SignFault::Unsuitable) => continue,
            Err(fault) => return Err(Fault::Unauthenticated(fault.to_string())),
        };
        if method != Method::DigitalSignature {
            return Ok((method, signature));
        }
        let algorithm = scheme.to_algorithm_identifier().ok_or_else(unfit)?;
        let value = DigitalSignature {
            algorithm,
            signature,
        };
        return Ok((method, value.to_value()));
    }
    Err(unfit())
}

/// Checks the peer's proof. `candidates` accept the suite of the IKE SA; the closest one to the
/// identity is taken, among those whose own identity the peer asks for if there are any.
pub(super) fn check(
    candidates: &[Arc<Connection>],
    (claimed, asked): (&Identity, Option<&Identity>),
    parts: &Parts<'_>,
    (signed, peer): (Signed<'_>, &Abilities),
    calendar: Calendar,
    work: &mut Work,
) -> Result<Proven, Fault> {
    let unproven = || Fault::Unauthenticated("the peer does not prove itself".into());
    let auth = parts.auth.ok_or_else(unproven)?;
    let mut accepting = accepting(candidates, claimed);
    if accepting.is_empty() {
        return Err(unaccepted(claimed, candidates));
    }
    if let Some(asked) = asked {
        // A stable sort: among equals the closest stays first.
        accepting.sort_by_key(|it| !it.local.identity.is_same(asked));
    }
    match auth.method {
        Method::SharedKey => {
            let has_key = |it: &&Arc<Connection>| it.preshared_key().is_some();
            let mut by_key = accepting.iter().filter(has_key).peekable();
            if by_key.peek().is_none() {
                return Err(other_method(auth.method));
            }
            let is_right = |it: &&Arc<Connection>| {
                let key = it.preshared_key();
                key.is_some_and(|key| is_equal(signed.mac(key, work).as_ref(), &auth.value))
            };
            let proven = by_key.take(MAX_KEYS).find(is_right);
            proven
                .map(|it| proven_by_key(it, claimed))
                .ok_or_else(wrong_key)
        }
        _ => check_signature(
            &accepting,
            claimed,
            parts,
            auth,
            (signed, peer),
            calendar,
            work,
        ),
    }
}

/// AUTH by the key that EAP gives (RFC 7296 §2.16).
pub(super) fn prove_key(signed: Signed<'_>, key: &Secret, work: &mut Work) -> Payload {
    Payload::Authentication(Authentication {
        method: Method::SharedKey,
        value: signed.mac(key, work).as_ref().to_vec(),
    })
}

/// Checks AUTH by the key that EAP gives.
pub(super) fn check_key(
    signed: Signed<'_>,
    key: &Secret,
    parts: &Parts<'_>,
    work: &mut Work,
) -> Result<(), Fault> {
    let auth = parts
        .auth
        .filter(|auth| auth.method == Method::SharedKey)
        .ok_or_else(|| Fault::Misbehaved("no AUTH by the key of EAP follows its success".into()))?;
    match is_equal(signed.mac(key, work).as_ref(), &auth.value) {
        true => Ok(()),
        false => Err(Fault::Unauthenticated(
            "the peer does not have the key of EAP: somebody may sit between the ends".into(),
        )),
    }
}

/// Pre-shared keys that one message makes us try.
const MAX_KEYS: usize = 16;

/// Checks certificate, then signature.
fn check_signature(
    accepting: &[Arc<Connection>],
    claimed: &Identity,
    parts: &Parts<'_>,
    auth: &Authentication,
    (signed, peer): (Signed<'_>, &Abilities),
    calendar: Calendar,
    work: &mut Work,
) -> Result<Proven, Fault> {
    let takes = |it: &Arc<Connection>| matches!(it.remote.method, RemoteMethod::Signature(_));
    if !accepting.iter().any(takes) {
        return Err(other_method(auth.method));
    }
    let trusted = trusted(
        LeafKeys::Any,
        accepting,
        claimed,
        &parts.certificates,
        calendar,
    )?;
    let (scheme, signature) = scheme_of(auth, peer, trusted.connection)?;
    let wrong = |fault: SignFault| {
        Fault::Unauthenticated(format!("the signature of {claimed} is wrong: {fault}"))
    };
    let key = PublicKey::from_spki(&trusted.verified.spki).map_err(wrong)?;
    signed
        .with(work, |parts, work| {
            work.count_verify(key.kind());
            key.verify(scheme, parts, &signature)
        })
        .map_err(wrong)?;
    let proven = trusted.proven(claimed);
    Ok(proven.ok_or(DropReason::AuthenticationFailed)?)
}

/// The scheme of a signature, and its octets.
fn scheme_of(
    auth: &Authentication,
    peer: &Abilities,
    connection: &Connection,
) -> Result<(Scheme, Vec<u8>), Fault> {
    let refused = |what: &str| Fault::Unauthenticated(what.to_owned());
    let raw = |scheme| Ok((scheme, auth.value.clone()));
    match auth.method {
        Method::RsaDigitalSignature if peer.hashes.is_some() => Err(refused(
            "the peer signs with SHA-1, although it announces better hashes",
        )),
        Method::RsaDigitalSignature if connection.takes_sha1() => raw(Scheme::RsaPkcs1(Hash::Sha1)),
        Method::RsaDigitalSignature => Err(refused(
            "the peer signs with SHA-1, which only rsa_sha1 = true accepts",
        )),
        Method::EcdsaSha256P256 => raw(Scheme::EcdsaRaw(Curve::P256)),
        Method::EcdsaSha384P384 => raw(Scheme::EcdsaRaw(Curve::P384)),
        Method::EcdsaSha512P521 => raw(Scheme::EcdsaRaw(Curve::P521)),
        Method::DigitalSignature => {
            let read = DigitalSignature::parse(&auth.value)?;
            let scheme = Scheme::of_algorithm_identifier(&read.algorithm);
            let scheme = scheme.filter(|it| HASHES.contains(&hash_algorithm(*it)));
            let scheme = scheme.ok_or_else(|| {
                refused("the peer signs with an algorithm that we have not announced")
            })?;
            Ok((scheme, read.signature))
        }
        other => Err(other_method(other)),
    }
}

/// The request for the peer's certificate, if it has to have one.
pub(super) fn certificate_request(candidates: &[Arc<Connection>]) -> Option<Payload> {
    let mut hashes: Vec<[u8; KEY_HASH_LEN]> = Vec::new();
    let mut has_store = false;
    for connection in candidates {
        if let RemoteMethod::Signature(store) = &connection.remote.method {
            has_store = true;
            hashes.extend(store.authorities.iter().map(Certificate::key_hash));
        }
    }
    hashes.sort_unstable();
    hashes.dedup();
    // With more, an empty request: any authority.
    if hashes.len() > MAX_REQUESTED {
        hashes.clear();
    }
    has_store.then(|| Payload::CertificateRequest(CertificateRequest::x509(&hashes)))
}

/// Authorities that a request names at most.
const MAX_REQUESTED: usize = 16;

/// Reads an identity. Types that IKEv2 does not have are refused.
pub(super) fn identity_of(id: &Identification) -> Result<Identity, Fault> {
    let number = id.kind.number();
    let kind = wire::isakmp::IdentificationType::from(number);
    let same = wire::isakmp::Identification::of(kind, id.value.clone());
    Identity::from_identification(&same).map_err(|fault| {
        Fault::Unauthenticated(format!(
            "the peer's ID of type {number} is no identity: {fault}"
        ))
    })
}

/// Writes an identity. The types have the numbers of IKEv1.
pub(super) fn identification(identity: &Identity) -> Identification {
    let same = identity.to_identification();
    Identification::new(same.kind.number().into(), same.value)
}

fn other_method(method: Method) -> Fault {
    Fault::Unauthenticated(format!(
        "the peer authenticates by method {}, which its connection does not accept",
        method.number()
    ))
}

const fn hash_algorithm(scheme: Scheme) -> HashAlgorithm {
    match scheme.hash() {
        None => HashAlgorithm::Identity,
        Some(Hash::Sha256) => HashAlgorithm::Sha2_256,
        Some(Hash::Sha384) => HashAlgorithm::Sha2_384,
        Some(Hash::Sha512) => HashAlgorithm::Sha2_512,
        Some(Hash::Sha1) => HashAlgorithm::Sha1,
        // Nobody has a number for it.
        Some(Hash::Md5) => HashAlgorithm::Other(0),
    }
}

const fn curve_method(curve: Curve) -> Method {
    match curve {
        Curve::P256 => Method::EcdsaSha256P256,
        Curve::P384 => Method::EcdsaSha384P384,
        Curve::P521 => Method::EcdsaSha512P521,
    }
}
