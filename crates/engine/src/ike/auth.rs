//! Authentication as both versions of IKE do it: which connections accept an identity, and which
//! of them trusts the certificate that proves it (RFC 4945).
//!
//! Left out: what is signed. Each version has its own.

use std::sync::Arc;

use crypto::cert::{CertFault, Certificate, CertificatePath, CertificateVerified, LeafKeys, Name};
use crypto::hash::is_equal;

use super::Fault;
use crate::config::{Connection, IdentityPattern, RemoteMethod};
use crate::identity::{Breadth, Identity, Peer};
use crate::sa::Secret;
use crate::time::{Calendar, Instant};

/// Certificates of a message that are read at most.
pub const MAX_CERTIFICATES: usize = 8;

/// A peer that has proven its identity.
pub struct Proven {
    /// Who it is.
    pub identity: Peer,
    /// The closest candidate that accepts it and trusts its certificate's authority.
    pub connection: Arc<Connection>,
    /// Its certificate, if it has one.
    pub certified: Option<Certified>,
    /// It must authenticate again then, because a server of RADIUS says so.
    pub until: Option<Instant>,
}

/// The parts of a verified certificate that matter later.
pub struct Certified {
    /// When it ends, seconds since 1970.
    pub not_after: i64,
    /// The path, for checks against later revocation lists.
    pub path: CertificatePath,
}

/// A certificate that names an identity and that a connection trusts. The key has proven nothing
/// yet.
pub struct Trusted<'a> {
    /// The closest connection whose authorities issued it.
    pub connection: &'a Arc<Connection>,
    /// What it says.
    pub verified: CertificateVerified,
}

impl Connection {
    /// The peer's pre-shared key, if that is its method.
    pub(crate) fn preshared_key(&self) -> Option<&Secret> {
        match &self.remote.method {
            RemoteMethod::PresharedKey(key) => Some(key),
            RemoteMethod::Signature(_) | RemoteMethod::Eap(_) => None,
        }
    }

    /// Whether RSA with SHA-1 is fine for a peer that announces no hashes.
    pub(crate) fn takes_sha1(&self) -> bool {
        self.is_legacy || self.takes_rsa_sha1
    }

    /// Whether we accept this identity.
    pub(crate) fn accepts(&self, identity: &Identity) -> bool {
        self.closeness(identity).is_some()
    }

    /// How narrowly our patterns match an identity; `None` if none does.
    fn closeness(&self, identity: &Identity) -> Option<Breadth> {
        let patterns = self.remote.identities.iter();
        let fitting = patterns.filter(|pattern| pattern.fits(identity));
        fitting.map(IdentityPattern::breadth).min()
    }
}

/// The candidates that accept an identity, the closest first: a connection for one peer comes
/// before one for everybody, whatever their names and order.
pub fn accepting(candidates: &[Arc<Connection>], identity: &Identity) -> Vec<Arc<Connection>> {
    let close = |it: &Arc<Connection>| Some((it.closeness(identity)?, Arc::clone(it)));
    let mut found: Vec<_> = candidates.iter().filter_map(close).collect();
    found.sort_by_key(|(breadth, _)| *breadth);
    found
        .into_iter()
        .map(|(_, connection)| connection)
        .collect()
}

/// The error for an identity that no candidate accepts.
pub fn unaccepted(identity: &Identity, candidates: &[Arc<Connection>]) -> Fault {
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

/// Whether two connections have the same pre-shared key, or none.
pub fn is_same_key(a: Option<&Secret>, b: Option<&Secret>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => is_equal(&a.0, &b.0),
        _ => false,
    }
}

/// The error for a wrong pre-shared key.
pub fn wrong_key() -> Fault {
    Fault::Unauthenticated("the pre-shared key differs".into())
}

/// Names of a certificate in an error at most. A stranger chooses how many it has.
const MAX_NAMES_TOLD: usize = 8;

/// Finds among a peer's certificates the one that names its identity, and checks its path with the
/// authorities of the connections that accept this identity. `keys`: the kinds that its leaf may
/// have. The caller checks the signature.
pub fn trusted<'a>(
    keys: LeafKeys,
    accepting: &'a [Arc<Connection>],
    identity: &Identity,
    certificates: &[&[u8]],
    calendar: Calendar,
) -> Result<Trusted<'a>, Fault> {
    let refused = |fault: CertFault| Fault::Unauthenticated(fault.to_string());
    let mut chain = certificates
        .iter()
        .map(|der| Certificate::from_der(der).map_err(refused))
        .collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() {
        return Err(Fault::Unauthenticated(
            "the peer sent no certificate".into(),
        ));
    }
    // The leaf should come first, but IKEv1 does not require that.
    let named = chain
        .iter()
        .position(|certificate| identity.proven_by(&certificate.names()).is_some());
    let leaf = chain.remove(named.unwrap_or(0));
    if named.is_none() {
        return Err(unnamed(identity, &leaf));
    }
    let (connection, verified) =
        verify(keys, accepting, (&leaf, &chain), calendar).map_err(refused)?;
    Ok(Trusted {
        connection,
        verified,
    })
}

impl Trusted<'_> {
    /// The peer, once the key has proven itself.
    pub fn proven(self, claimed: &Identity) -> Option<Proven> {
        let names = &self.verified.names;
        let identity = Peer::of_certificate(&self.connection.name, claimed, names)?;
        Some(Proven {
            identity,
            connection: Arc::clone(self.connection),
            certified: Some(Certified {
                not_after: self.verified.not_after,
                path: self.verified.path,
            }),
            until: None,
        })
    }
}

/// The user of this connection's gateway that has proven its password.
pub fn proven_by_eap(connection: &Arc<Connection>, user: &Identity) -> Proven {
    let (of, method) = (&connection.name, &connection.remote.method);
    let is_of_server = matches!(method, RemoteMethod::Eap(examiner) if examiner.asks_servers);
    Proven {
        identity: match is_of_server {
            true => Peer::of_server_user(of, user),
            false => Peer::of_user(of, user),
        },
        connection: Arc::clone(connection),
        certified: None,
        until: None,
    }
}

/// The peer that has proven this connection's pre-shared key.
pub fn proven_by_key(connection: &Arc<Connection>, claimed: &Identity) -> Proven {
    let patterns = &connection.remote.identities;
    Proven {
        identity: Peer::of_preshared_key(&connection.name, claimed, patterns),
        connection: Arc::clone(connection),
        certified: None,
        until: None,
    }
}

fn unnamed(identity: &Identity, leaf: &Certificate) -> Fault {
    let subject = leaf.subject();
    let mut names: Vec<String> = leaf.names().iter().map(Name::to_string).collect();
    let more = names.len().saturating_sub(MAX_NAMES_TOLD);
    names.truncate(MAX_NAMES_TOLD);
    let mut names = names.join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    Fault::Unauthenticated(format!(
        "the peer identifies itself as {identity}, which its certificate {subject} does \
         not name; it names {names}"
    ))
}

/// The first connection that trusts the issuer of a certificate. If one trusts the issuer but
/// refuses the certificate, as revoked or expired, its error counts; if none trusts the issuer,
/// that of the closest connection.
fn verify<'a>(
    keys: LeafKeys,
    accepting: &'a [Arc<Connection>],
    (leaf, chain): (&Certificate, &[Certificate]),
    calendar: Calendar,
) -> Result<(&'a Arc<Connection>, CertificateVerified), CertFault> {
    let mut stranger = None;
    for connection in accepting {
        let Some(store) = connection.remote.method.trust_store() else {
            continue;
        };
        match store.verify_with(keys, leaf, chain, calendar.0) {
            Ok(verified) => return Ok((connection, verified)),
            Err(
                fault @ (CertFault::UnknownAuthority { .. }
                | CertFault::BadSignature { .. }
                | CertFault::Namesake { .. }
                | CertFault::NotPinned { .. }),
            ) => drop(stranger.get_or_insert(fault)),
            Err(fault) => return Err(fault),
        }
    }
    let subject = leaf.subject();
    Err(stranger.unwrap_or(CertFault::NotPinned { subject }))
}

/// Transforms, methods or identities that a failure text names at most.
const MAX_NAMED: usize = 12;

/// "a, b, c and 4 more". Items beyond the limit are not converted to words.
pub fn listed<T>(mut all: impl Iterator<Item = T>, word: impl Fn(T) -> String) -> String {
    let named: Vec<String> = all.by_ref().take(MAX_NAMED).map(word).collect();
    let mut text = named.join(", ");
    match all.count() {
        0 if text.is_empty() => text.push_str("nothing"),
        0 => {}
        rest => text.push_str(&format!(" and {rest} more")),
    }
    text
}
