//! What is kept of a path that passed its check: enough for later revocation lists.

use std::sync::Arc;

use super::Certificate;
use super::read::Signer;

/// A path that passed, as far as a later list can name a certificate of it.
#[derive(Clone)]
pub struct CertificatePath {
    pub(super) steps: Vec<Step>,
}

/// A certificate and who issued it.
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
    pub(super) fn new(steps: Vec<Step>) -> Self {
        Self { steps }
    }
}
