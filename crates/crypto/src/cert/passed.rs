//! A path that passed its check: the part that later revocation lists and pins need.

use std::sync::Arc;

use super::Certificate;
use super::read::Signer;
use crate::hash::{Digest, Hash};

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
    fingerprint: Digest,
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
        certificate.facts.serial == self.serial
            && fingerprint(certificate).as_ref() == self.fingerprint.as_ref()
    }
}

fn fingerprint(certificate: &Certificate) -> Digest {
    Hash::Sha256.digest(&[certificate.der()])
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
}
