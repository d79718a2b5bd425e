//! A path that passed its check: the part that later revocation lists and pins need.

use std::sync::Arc;

use super::Certificate;
use super::read::Signer;
use super::signed::VerifyKey;
use crate::counted::{fixed, put, take};
use crate::hash::Hash;

/// Steps of a path that was written.
const MAX_STEPS: usize = 8;
/// Octets of a fingerprint.
const FINGERPRINT_LEN: usize = 32;

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

impl CertificatePath {
    pub(super) fn new(leaf: &Certificate, steps: Vec<Step>) -> Self {
        let leaf = Leaf::new(leaf);
        Self { leaf, steps }
    }

    /// The path as octets, for a place where nobody can change them. `None` if one of its names has
    /// more octets than a certificate that is sent.
    pub fn to_octets(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        put(&mut out, self.leaf.subject.as_bytes())?;
        put(&mut out, &self.leaf.serial)?;
        out.extend_from_slice(&self.leaf.fingerprint);
        for step in &self.steps {
            put(&mut out, step.subject.as_bytes())?;
            put(&mut out, &step.serial)?;
            put(&mut out, &step.issuer.name)?;
            put(&mut out, step.issuer.text.as_bytes())?;
            let (kind, octets) = step.issuer.key.parts();
            out.extend([kind, u8::from(step.issuer.signs_revocations)]);
            put(&mut out, octets)?;
        }
        Some(out)
    }

    /// Reads what [`Self::to_octets`] wrote; `None` for anything else.
    pub fn from_octets(mut rest: &[u8]) -> Option<Self> {
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
            let (name, words) = (take(rest)?.to_vec(), text(rest)?);
            let [kind, signs] = *fixed(rest)?;
            let issuer = Signer {
                name,
                text: words,
                key: VerifyKey::of_parts(kind, take(rest)?)?,
                signs_revocations: signs != 0,
            };
            steps.push(Step {
                subject,
                serial,
                issuer: Arc::new(issuer),
            });
        }
        Some(Self { leaf, steps })
    }
}

fn text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(rest)?.to_vec()).ok()
}
