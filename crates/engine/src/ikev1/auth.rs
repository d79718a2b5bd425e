//! Authentication of both ends: certificates, signatures, pre-shared keys, identities (RFC 2409
//! §5.1, §5.4, RFC 4945).
//!
//! Left out: public key encryption (RFC 2409 §5.2, §5.3), PKCS #7 chains, CRLs in CERT payloads.

use std::sync::Arc;

use crypto::cert::{CertFault, Certificate, CertificatePath, CertificateVerified, Name};
use crypto::hash::{Digest, is_equal};
use crypto::rsa::PublicKey;
use wire::isakmp::{Identification, Payload};

use super::parts::{Parts, X509_SIGNATURE};
use super::proposal::{Method, listed};
use crate::config::{Connection, IdentityPattern, LocalMethod, RemoteMethod};
use crate::counters::DropReason;
use crate::identity::{Breadth, Identity, Peer};
use crate::ike::Fault;
use crate::sa::Secret;
use crate::time::Calendar;
use crate::work::{Task, Work};

/// Authorities named in certificate requests. With more, one empty request is sent.
const MAX_REQUESTS_SENT: usize = 8;

/// A peer that has proven its identity.
pub(super) struct Proven {
    pub(super) identity: Peer,
    /// The closest candidate that accepts it and trusts its certificate's authority.
    pub(super) connection: Arc<Connection>,
    /// Its certificate, if it has one.
    pub(super) certified: Option<Certified>,
}

/// The parts of a verified certificate that matter later.
pub(super) struct Certified {
    /// When it ends, seconds since 1970.
    pub(super) not_after: i64,
    /// The path, for checks against later revocation lists.
    pub(super) path: CertificatePath,
}

impl Connection {
    /// The method of both ends; `None` if they differ, which IKEv1 cannot express.
    pub(super) fn method(&self) -> Option<Method> {
        match (&self.local.method, &self.remote.method) {
            (LocalMethod::Signature { .. }, RemoteMethod::Signature(_)) => {
                Some(Method::RsaSignatures)
            }
            (LocalMethod::PresharedKey(_), RemoteMethod::PresharedKey(_)) => {
                Some(Method::PresharedKey)
            }
            _ => None,
        }
    }

    /// The pre-shared key, if that is the method.
    pub(super) fn preshared_key(&self) -> Option<&Secret> {
        match &self.remote.method {
            RemoteMethod::PresharedKey(key) => Some(key),
            RemoteMethod::Signature(_) => None,
        }
    }

    /// Whether we accept this identity.
    pub(super) fn accepts(&self, identity: &Identity) -> bool {
        self.closeness(identity).is_some()
    }

    /// How narrowly our patterns match an identity; `None` if none does.
    fn closeness(&self, identity: &Identity) -> Option<Breadth> {
        let patterns = self.remote.identities.iter();
        let fitting = patterns.filter(|pattern| pattern.fits(identity));
        fitting.map(IdentityPattern::breadth).min()
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
                let signature = key.sign_bare(hash.as_ref());
                work.count(Task::Sign(8 * signature.len() as u32), 0);
                all.push(Payload::Signature(signature));
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

/// The candidates that accept an identity, the closest first: a connection for one peer comes
/// before one for everybody, whatever their names and order.
pub(super) fn accepting(
    candidates: &[Arc<Connection>],
    identity: &Identity,
) -> Vec<Arc<Connection>> {
    let close = |it: &Arc<Connection>| Some((it.closeness(identity)?, Arc::clone(it)));
    let mut found: Vec<_> = candidates.iter().filter_map(close).collect();
    found.sort_by_key(|(breadth, _)| *breadth);
    found
        .into_iter()
        .map(|(_, connection)| connection)
        .collect()
}

/// The error for an identity that no candidate accepts.
pub(super) fn unaccepted(identity: &Identity, candidates: &[Arc<Connection>]) -> Fault {
    let mut accepted: Vec<&IdentityPattern> = candidates
        .iter()
        .flat_map(|connection| &connection.remote.identities)
        .collect();
    accepted.dedup();
    let accepted = listed(accepted.into_iter(), ToString::to_string);
    Fault::Unauthenticated(format!(
        "the peer identifies itself as {identity}; we accept {accepted}"
    ))
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
    let (connection, identity, certified) = match &first.remote.method {
        RemoteMethod::PresharedKey(_) => {
            if !is_equal(parts.hash.unwrap_or_default(), hash.as_ref()) {
                return Err(wrong_key());
            }
            let patterns = &first.remote.identities;
            let peer = Peer::of_preshared_key(&first.name, &claimed, patterns);
            (first, peer, None)
        }
        RemoteMethod::Signature(_) => {
            let (connection, names, certified) =
                check_signature(&accepting, &claimed, parts, hash, calendar, work)?;
            let peer = Peer::of_certificate(&connection.name, &claimed, &names);
            let peer = peer.ok_or(DropReason::AuthenticationFailed)?;
            (connection, peer, Some(certified))
        }
    };
    Ok(Proven {
        identity,
        connection: Arc::clone(connection),
        certified,
    })
}

/// Whether two connections would derive the same SKEYID.
pub(super) fn is_same_key(a: Option<&Secret>, b: Option<&Secret>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => crypto::hash::is_equal(&a.0, &b.0),
        _ => false,
    }
}

/// The error for a wrong pre-shared key.
pub(super) fn wrong_key() -> Fault {
    Fault::Unauthenticated("the pre-shared key differs".into())
}

/// Names of a certificate in an error at most. A stranger chooses how many it has.
const MAX_NAMES_TOLD: usize = 8;

/// Checks certificate, then signature. Returns the connection whose authorities issued the
/// certificate, the certificate's names, and the parts that matter later.
fn check_signature<'a>(
    accepting: &'a [Arc<Connection>],
    identity: &Identity,
    parts: &Parts<'_>,
    hash: &Digest,
    calendar: Calendar,
    work: &mut Work,
) -> Result<(&'a Arc<Connection>, Vec<Name>, Certified), Fault> {
    let refused = |fault: CertFault| Fault::Unauthenticated(fault.to_string());
    let signature = parts
        .signature
        .ok_or_else(|| Fault::Unauthenticated("the peer sent no signature".into()))?;
    let mut chain = parts
        .certificates
        .iter()
        .map(|der| Certificate::from_der(der).map_err(refused))
        .collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() {
        return Err(Fault::Unauthenticated(
            "the peer sent no certificate".into(),
        ));
    }
    // The leaf should come first, but no document requires that.
    let named = chain
        .iter()
        .position(|certificate| identity.proven_by(&certificate.names()).is_some());
    let leaf = chain.remove(named.unwrap_or(0));
    if named.is_none() {
        let subject = leaf.subject();
        let mut names: Vec<String> = leaf.names().iter().map(ToString::to_string).collect();
        let more = names.len().saturating_sub(MAX_NAMES_TOLD);
        names.truncate(MAX_NAMES_TOLD);
        let mut names = names.join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        return Err(Fault::Unauthenticated(format!(
            "the peer identifies itself as {identity}, which its certificate {subject} does \
             not name; it names {names}"
        )));
    }
    let (connection, verified) = verify(accepting, &leaf, &chain, calendar).map_err(refused)?;
    let wrong = |fault: crypto::rsa::RsaFault| {
        Fault::Unauthenticated(format!("the signature of {identity} is wrong: {fault}"))
    };
    let key = PublicKey::from_spki(&verified.spki).map_err(wrong)?;
    work.count(Task::Verify(key.bits()), 0);
    key.verify_bare(hash.as_ref(), signature).map_err(wrong)?;
    let certified = Certified {
        not_after: verified.not_after,
        path: verified.path,
    };
    Ok((connection, verified.names, certified))
}

/// The first connection that trusts the issuer of a certificate. If one trusts the issuer but
/// refuses the certificate, as revoked or expired, its error counts; if none trusts the issuer,
/// that of the closest connection.
fn verify<'a>(
    accepting: &'a [Arc<Connection>],
    leaf: &Certificate,
    chain: &[Certificate],
    calendar: Calendar,
) -> Result<(&'a Arc<Connection>, CertificateVerified), CertFault> {
    let mut stranger = None;
    for connection in accepting {
        let RemoteMethod::Signature(store) = &connection.remote.method else {
            continue;
        };
        match store.verify(leaf, chain, calendar.0) {
            Ok(verified) => return Ok((connection, verified)),
            Err(
                fault @ (CertFault::UnknownAuthority { .. }
                | CertFault::BadSignature { .. }
                | CertFault::NotPinned { .. }),
            ) => drop(stranger.get_or_insert(fault)),
            Err(fault) => return Err(fault),
        }
    }
    let subject = leaf.subject();
    Err(stranger.unwrap_or(CertFault::NotPinned { subject }))
}
