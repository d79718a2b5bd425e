//! The payloads of a phase 1 message, sorted. A payload that may occur once occurs at most once.

use wire::isakmp::{Identification, Located, Notify, Payload, SaPayload};

use crate::counters::DropReason;
use crate::ike::auth::MAX_CERTIFICATES;

/// Certificate requests that are remembered at most.
const MAX_REQUESTS: usize = 32;

/// Encoding 4: X.509 certificate for signatures (RFC 2408 §3.9).
pub(super) const X509_SIGNATURE: u8 = 4;

/// A message's payloads. Unknown ones are skipped.
#[derive(Default)]
pub(super) struct Parts<'a> {
    /// With its octets without the generic header.
    pub(super) sa: Option<(&'a SaPayload, &'a [u8])>,
    pub(super) public: Option<&'a [u8]>,
    pub(super) nonce: Option<&'a [u8]>,
    /// With its octets without the generic header.
    pub(super) id: Option<(&'a Identification, &'a [u8])>,
    /// DER of X.509 certificates. Other encodings are skipped.
    pub(super) certificates: Vec<&'a [u8]>,
    /// DER names of authorities whose X.509 certificates are requested.
    pub(super) requests: Vec<&'a [u8]>,
    pub(super) hash: Option<&'a [u8]>,
    pub(super) signature: Option<&'a [u8]>,
    pub(super) discovery: Vec<&'a [u8]>,
    pub(super) vendors: Vec<&'a [u8]>,
    pub(super) notices: Vec<&'a Notify>,
}

impl<'a> Parts<'a> {
    /// Sorts what [`wire::isakmp::payloads`] found in `body`.
    pub(super) fn sort(body: &'a [u8], located: &'a [Located]) -> Result<Self, DropReason> {
        let mut parts = Self::default();
        for found in located {
            let octets = &body[found.body_range()];
            let is_again = match &found.payload {
                Payload::Sa(sa) => parts.sa.replace((sa, octets)).is_some(),
                Payload::KeyExchange(public) => parts.public.replace(public).is_some(),
                Payload::Nonce(nonce) => parts.nonce.replace(nonce).is_some(),
                Payload::Identification(id) => parts.id.replace((id, octets)).is_some(),
                Payload::Hash(hash) => parts.hash.replace(hash).is_some(),
                Payload::Signature(signature) => parts.signature.replace(signature).is_some(),
                other => {
                    parts.add(other);
                    false
                }
            };
            if is_again {
                return Err(DropReason::MalformedMessage);
            }
        }
        Ok(parts)
    }

    /// Adds a payload that may occur several times.
    fn add(&mut self, payload: &'a Payload) {
        match payload {
            Payload::Certificate { encoding, body }
                if *encoding == X509_SIGNATURE && self.certificates.len() < MAX_CERTIFICATES =>
            {
                self.certificates.push(body);
            }
            Payload::CertificateRequest {
                encoding,
                authority,
            } if *encoding == X509_SIGNATURE && self.requests.len() < MAX_REQUESTS => {
                self.requests.push(authority);
            }
            Payload::NatDiscovery(hash) => self.discovery.push(hash),
            Payload::VendorId(id) => self.vendors.push(id),
            Payload::Notify(notify) => self.notices.push(notify),
            _ => {}
        }
    }
}
