//! A path that passed its check: the part that later revocation lists and pins need.

use std::sync::Arc;

use super::read::Signer;
use super::signed::VerifyKey;
use super::{Certificate, TrustStore};
use crate::counted::{fixed, put, take};
use crate::hash::Hash;

/// Steps of a path that was written.
const MAX_STEPS: usize = 8;
/// Octets of a fingerprint.
const FINGERPRINT_LEN: usize = 32;
/// In the place of a kind of key: the issuer is known here, and its fingerprint follows.
const KNOWN: u8 = u8::MAX;

/// What later lists and pins need of a path that passed.
#[derive(Clone)]
pub struct CertificatePath {
    pub(super) leaf: Leaf,
    pub(super) steps: Vec<Step>,
}

/// The end entity, without its certificate.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) subject: String,
    serial: Vec<u8>,
    fingerprint: [u8; FINGERPRINT_LEN],
}

impl Leaf {
    fn new(certificate: &Certificate) -> Self {
        Self {
            subject: certificate.subject(),
            serial: certificate.facts.serial.clone(),
            fingerprint: fingerprint(certificate),
        }
    }

    /// Whether this is the same certificate, octet by octet.
    pub(super) fn is(&self, certificate: &Certificate) -> bool {
        certificate.facts.serial == self.serial && fingerprint(certificate) == self.fingerprint
    }
}

fn fingerprint(certificate: &Certificate) -> [u8; FINGERPRINT_LEN] {
    let mut octets = [0; FINGERPRINT_LEN];
    octets.copy_from_slice(Hash::Sha256.digest(&[certificate.der()]).as_ref());
    octets
}

/// A certificate and its issuer.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) subject: String,
    pub(super) serial: Vec<u8>,
    pub(super) issuer: Arc<Signer>,
}

impl Step {
    pub(super) fn new(certificate: &Certificate, issuer: &Certificate) -> Self {
        Self {
            subject: certificate.subject(),
            serial: certificate.facts.serial.clone(),
            issuer: Arc::clone(&issuer.facts.signer),
        }
    }
}

impl TrustStore {
    /// Whether the authority at the end of a path that passed in another store is trusted here, or
    /// the peer's certificate is pinned.
    pub fn has_root_of(&self, path: &CertificatePath) -> bool {
        let root = path.steps.last().map(|step| step.issuer.fingerprint());
        self.pinned.iter().any(|one| path.leaf.is(one))
            || root.is_none_or(|root| signers(self).any(|it| it.fingerprint() == root))
    }
}

impl CertificatePath {
    pub(super) fn new(leaf: &Certificate, steps: Vec<Step>) -> Self {
        let leaf = Leaf::new(leaf);
        Self { leaf, steps }
    }

    /// The path as octets, for a place where nobody can change them. Of issuers that this store
    /// knows, it has fingerprints: keys can be long. `None` if one of its names has more octets
    /// than a certificate that is sent.
    pub fn to_octets(&self, store: &TrustStore) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        put(&mut out, self.leaf.subject.as_bytes())?;
        put(&mut out, &self.leaf.serial)?;
        out.extend_from_slice(&self.leaf.fingerprint);
        for step in &self.steps {
            put(&mut out, step.subject.as_bytes())?;
            put(&mut out, &step.serial)?;
            let known = step.issuer.fingerprint()?;
            if signers(store).any(|it| it.fingerprint() == Some(known)) {
                out.push(KNOWN);
                out.extend_from_slice(&known);
                continue;
            }
            let (kind, octets) = step.issuer.key.parts();
            out.extend([kind, u8::from(step.issuer.signs_revocations)]);
            put(&mut out, &step.issuer.name)?;
            put(&mut out, step.issuer.text.as_bytes())?;
            put(&mut out, octets)?;
        }
        Some(out)
    }

    /// Reads what [`Self::to_octets`] wrote with a store that knew the same issuers; `None` for
    /// anything else.
    pub fn from_octets(mut rest: &[u8], store: &TrustStore) -> Option<Self> {
        let rest = &mut rest;
        let leaf = Leaf {
            subject: text(rest)?,
            serial: take(rest)?.to_vec(),
            fingerprint: *fixed(rest)?,
        };
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() == MAX_STEPS {
                return None;
            }
            let (subject, serial) = (text(rest)?, take(rest)?.to_vec());
            let [kind] = *fixed(rest)?;
            let issuer = match kind {
                KNOWN => {
                    let named = *fixed(rest)?;
                    Arc::clone(signers(store).find(|it| it.fingerprint() == Some(named))?)
                }
                _ => Arc::new(signer(kind, rest)?),
            };
            steps.push(Step {
                subject,
                serial,
                issuer,
            });
        }
        Some(Self { leaf, steps })
    }
}

impl Signer {
    fn fingerprint(&self) -> Option<[u8; FINGERPRINT_LEN]> {
        let (kind, key) = self.key.parts();
        let mut written = vec![kind, u8::from(self.signs_revocations)];
        put(&mut written, &self.name)?;
        put(&mut written, key)?;
        let mut octets = [0; FINGERPRINT_LEN];
        octets.copy_from_slice(Hash::Sha256.digest(&[&written]).as_ref());
        Some(octets)
    }
}

/// The issuers that a store knows.
fn signers(store: &TrustStore) -> impl Iterator<Item = &Arc<Signer>> {
    let known = store.authorities.iter().chain(&store.pinned);
    known.map(|it| &it.facts.signer)
}

fn signer(kind: u8, rest: &mut &[u8]) -> Option<Signer> {
    let [signs] = *fixed(rest)?;
    Some(Signer {
        name: take(rest)?.to_vec(),
        text: text(rest)?,
        key: VerifyKey::of_parts(kind, take(rest)?)?,
        signs_revocations: signs != 0,
    })
}

fn text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(rest)?.to_vec()).ok()
}
