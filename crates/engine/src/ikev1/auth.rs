//! Authentication of both ends: signatures, pre-shared keys, ID payloads (RFC 2409 §5.1, §5.4, RFC
//! 4945). [`crate::ike::auth`] finds connections and checks certificates.
//!
//! Left out: public key encryption (RFC 2409 §5.2, §5.3), PKCS #7 chains, CRLs in CERT payloads.

use std::sync::Arc;

use crypto::cert::{Certificate, LeafKeys};
use crypto::hash::{Digest, is_equal};
use crypto::rsa::PublicKey;
use crypto::sign::PrivateKey;
use wire::isakmp::{Identification, Payload};

use super::parts::{Parts, X509_SIGNATURE};
use super::proposal::Method;
use crate::config::{Connection, LocalMethod, RemoteMethod};
use crate::counters::DropReason;
use crate::identity::Identity;
use crate::ike::Fault;
use crate::ike::auth::{proven_by_key, trusted};
use crate::time::Calendar;
use crate::work::{Task, Work};

pub(super) use crate::ike::auth::{Proven, accepting, is_same_key, unaccepted, wrong_key};

/// Authorities named in certificate requests. With more, one empty request is sent.
const MAX_REQUESTS_SENT: usize = 8;

impl Connection {
    /// The method of both ends; `None` if they differ, which IKEv1 cannot express.
    pub(super) fn method(&self) -> Option<Method> {
        match (&self.local.method, &self.remote.method) {
            (LocalMethod::Signature { key, .. }, RemoteMethod::Signature(_)) => {
                let is_rsa = matches!(**key, PrivateKey::Rsa(_));
                is_rsa.then_some(Method::RsaSignatures)
            }
            (LocalMethod::PresharedKey(_), RemoteMethod::PresharedKey(_)) => {
                Some(Method::PresharedKey)
            }
            _ => None,
        }
    }

    /// The proof of our identity: certificates and signature, or the hash itself. The chain ends
    /// before the authorities that the peer requested, because it has them.
    pub(super) fn proof(
        &self,
        hash: &Digest,
        requests: &[Vec<u8>],
        work: &mut Work,
    ) -> Vec<Payload> {
        match &self.local.method {
            LocalMethod::PresharedKey(_) => vec![Payload::Hash(hash.as_ref().to_vec())],
            // EAP is IKEv2's: such a connection has no method here, and no exchange.
            LocalMethod::Eap(_) => Vec::new(),
            LocalMethod::Signature { key, chain } => {
                let is_asked =
                    |certificate: &Certificate| requests.contains(&certificate.subject_der());
                let mut all: Vec<Payload> = chain
                    .iter()
                    .enumerate()
                    .take_while(|(at, certificate)| *at == 0 || !is_asked(certificate))
                    .map(|(_, certificate)| Payload::Certificate {
                        encoding: X509_SIGNATURE,
                        body: certificate.der().to_vec(),
                    })
                    .collect();
                // With another key there is no method, and no exchange.
                if let PrivateKey::Rsa(key) = &**key {
                    let signature = key.sign_bare(hash.as_ref());
                    work.count(Task::Sign(8 * signature.len() as u32), 0);
                    all.push(Payload::Signature(signature));
                }
                all
            }
        }
    }

    /// Certificate requests for the authorities that we trust.
    pub(super) fn requests(&self) -> Vec<Payload> {
        let RemoteMethod::Signature(store) = &self.remote.method else {
            return Vec::new();
        };
        let mut names: Vec<Vec<u8>> = Vec::new();
        if store.authorities.len() <= MAX_REQUESTS_SENT {
            names.extend(store.authorities.iter().map(Certificate::subject_der));
        }
        if names.is_empty() {
            names.push(Vec::new());
        }
        let request = |authority| Payload::CertificateRequest {
            encoding: X509_SIGNATURE,
            authority,
        };
        names.into_iter().map(request).collect()
    }
}

/// Reads an identity. Address ranges are refused.
pub(super) fn identity_of(id: &Identification) -> Result<Identity, Fault> {
    Identity::from_identification(id).map_err(|fault| {
        let number = id.kind.number();
        Fault::Unauthenticated(format!(
            "the peer's ID of type {number} is no identity: {fault}"
        ))
    })
}

/// Checks the peer's proof of its identity against `hash`, the HASH_I or HASH_R that we computed.
/// All candidates have the same method and, if that is it, the same pre-shared key. Cheap checks
/// come first.
pub(super) fn check(
    candidates: &[Arc<Connection>],
    id: &Identification,
    parts: &Parts<'_>,
    hash: &Digest,
    calendar: Calendar,
    work: &mut Work,
) -> Result<Proven, Fault> {
    let claimed = identity_of(id)?;
    let accepting = accepting(candidates, &claimed);
    let first = accepting
        .first()
        .ok_or_else(|| unaccepted(&claimed, candidates))?;
    match &first.remote.method {
        RemoteMethod::PresharedKey(_) => {
            if !is_equal(parts.hash.unwrap_or_default(), hash.as_ref()) {
                return Err(wrong_key());
            }
            Ok(proven_by_key(first, &claimed))
        }
        RemoteMethod::Signature(_) => {
            check_signature(&accepting, &claimed, parts, hash, calendar, work)
        }
        RemoteMethod::Eap(_) => Err(unaccepted(&claimed, candidates)),
    }
}

/// Checks certificate, then signature.
fn check_signature(
    accepting: &[Arc<Connection>],
    identity: &Identity,
    parts: &Parts<'_>,
    hash: &Digest,
    calendar: Calendar,
    work: &mut Work,
) -> Result<Proven, Fault> {
    let signature = parts
        .signature
        .ok_or_else(|| Fault::Unauthenticated("the peer sent no signature".into()))?;
    let trusted = trusted(
        LeafKeys::RsaOnly,
        accepting,
        identity,
        &parts.certificates,
        calendar,
    )?;
    let wrong = |fault: crypto::rsa::RsaFault| {
        Fault::Unauthenticated(format!("the signature of {identity} is wrong: {fault}"))
    };
    let key = PublicKey::from_spki(&trusted.verified.spki).map_err(wrong)?;
    work.count(Task::Verify(key.bits()), 0);
    key.verify_bare(hash.as_ref(), signature).map_err(wrong)?;
    let proven = trusted.proven(identity);
    Ok(proven.ok_or(DropReason::AuthenticationFailed)?)
}
