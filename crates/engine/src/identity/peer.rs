//! Who a peer is to us, once its credential has proven it: the one object by which uniqueness,
//! INITIAL-CONTACT, leases and selectors tell peers apart, and which logs and `status` show.
//!
//! What counts is what the credential proves, never what the peer claims:
//!
//! - **A certificate** is its subject and its first alternative name. Whichever of its names the
//!   peer claims, in whatever case or encoding, it is one peer. Both belong to it: some authorities
//!   give all devices one subject and part them by the alternative name, others the other way
//!   round. A renewed certificate of the same two names is the same peer, although its key, serial
//!   number and issuer may be others: it keeps its lease and replaces its own tunnel. Within a
//!   connection every authority is trusted for every name, so that the issuer says nothing.
//! - **A pre-shared key** is the identity that it is configured for. A key that is configured for
//!   many (`id = "*"`, `id = "*.example"`) proves no more than that its holder is one of them:
//!   each is told apart by its own word.
//!
//! Each is a peer of one connection. Two connections may trust different authorities, or a guest's
//! key and a colleague's certificate, for the same name: they are different peers, and nothing that
//! one says ends or takes what is the other's.

use core::cmp::Ordering;
use core::fmt;
use std::sync::Arc;

use crypto::cert::Name;

use super::{Identity, IdentityPattern};

/// A peer of one connection. Compared by what its credential proves; shown as the name that the
/// peer goes by, as its certificate or our configuration writes it. Cheap to clone.
#[derive(Clone)]
pub struct Peer(Arc<Proven>);

struct Proven {
    connection: String,
    credential: Credential,
    identity: Identity,
    /// Its pre-shared key is for many, who tell themselves apart.
    is_of_group: bool,
}

/// What tells peers of one connection apart. Identities are canonical.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Credential {
    /// A certificate of these names.
    Certificate {
        subject: Option<Identity>,
        first_alternative: Option<Identity>,
    },
    /// A pre-shared key.
    PresharedKey(Identity),
}

impl Credential {
    /// That of a certificate with these names; `None`: it names nobody.
    pub(crate) fn of_certificate(names: &[Name]) -> Option<Self> {
        let (subjects, others): (Vec<&Name>, Vec<&Name>) = names
            .iter()
            .partition(|name| matches!(name, Name::Subject(_)));
        let first = |names: Vec<&Name>| {
            let mut named = names.into_iter().filter_map(Identity::of_certificate);
            named.next().map(|identity| identity.canonical())
        };
        let (subject, first_alternative) = (first(subjects), first(others));
        (subject.is_some() || first_alternative.is_some()).then_some(Self::Certificate {
            subject,
            first_alternative,
        })
    }
}

impl Peer {
    /// Whose certificate with these names was verified, if one of them is what it claims to be.
    pub fn of_certificate(connection: &str, claimed: &Identity, names: &[Name]) -> Option<Self> {
        let identity = claimed.proven_by(names)?;
        let credential = Credential::of_certificate(names)?;
        Some(Self::new(connection, credential, identity, false))
    }

    /// Who has shown the pre-shared key that is configured for `patterns`, one of which fits what
    /// it claims to be.
    pub fn of_preshared_key(
        connection: &str,
        claimed: &Identity,
        patterns: &[IdentityPattern],
    ) -> Self {
        let mut fitting = patterns.iter().filter(|pattern| pattern.fits(claimed));
        let (identity, is_of_group) = match fitting.find(|pattern| pattern.is_exact()) {
            Some(IdentityPattern::Is(configured)) => (configured, false),
            _ => (claimed, true),
        };
        let credential = Credential::PresharedKey(identity.canonical());
        Self::new(connection, credential, identity.clone(), is_of_group)
    }

    /// The name it goes by.
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// The connection that it is a peer of.
    pub fn connection(&self) -> &str {
        &self.0.connection
    }

    /// Whether a certificate proved it, else a pre-shared key.
    pub fn has_certificate(&self) -> bool {
        matches!(self.0.credential, Credential::Certificate { .. })
    }

    /// The connection, where all that is proven is a pre-shared key that many have: whoever has it
    /// may be any number of peers.
    pub fn group(&self) -> Option<&str> {
        self.0.is_of_group.then_some(&self.0.connection[..])
    }

    fn new(
        connection: &str,
        credential: Credential,
        identity: Identity,
        is_of_group: bool,
    ) -> Self {
        Self(Arc::new(Proven {
            connection: connection.to_owned(),
            credential,
            identity,
            is_of_group,
        }))
    }

    fn key(&self) -> (&str, &Credential) {
        (&self.0.connection, &self.0.credential)
    }
}

impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.key() == other.key()
    }
}

impl Eq for Peer {}

impl PartialOrd for Peer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Peer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.identity)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.0.identity, self.0.connection)
    }
}

#[cfg(test)]
mod tests;
