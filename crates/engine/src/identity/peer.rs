//! A peer: who it is once its credential has proven it. Uniqueness, INITIAL-CONTACT, leases,
//! selectors, logs and `status` all tell peers apart by this type.
//!
//! Only what the credential proves counts, never what the peer claims:
//!
//! - **A certificate** counts as its subject and its first alternative name, whichever of its names
//!   the peer claims, in any case or encoding. Both count, because some authorities give all
//!   devices one subject and tell them apart by the alternative name, and others do the reverse. A
//!   renewed certificate with the same two names is the same peer, even with another key, serial
//!   number or issuer: it keeps its lease and replaces its own tunnel. Within a connection every
//!   authority is trusted for every name, so the issuer does not count.
//! - **A pre-shared key** counts as the identity that it is configured for. A key for many (`id =
//!   "*"`, `id = "*.example"`) proves only that its holder is one of them: they are told apart by
//!   what they claim.
//! - **A user of EAP** counts as the name that its method has proven, in any case. A server of
//!   RADIUS may repeat whatever name the peer has given, so its users are one group, as the holders
//!   of a key for many are.
//!
//! Each is a peer of one connection. Two connections may accept the same name by different
//! authorities, or by a guest's key and a colleague's certificate: these are different peers, and
//! neither can end or take anything of the other.

use core::cmp::Ordering;
use core::fmt;
use std::sync::Arc;

use crypto::cert::Name;
use crypto::hash::Hash;

use super::{Identity, IdentityPattern};

/// A peer of one connection. Compared by what its credential proves, and shown as the name that it
/// uses, in the spelling of its certificate or our configuration. Cheap to clone.
#[derive(Clone)]
pub struct Peer(Arc<Proven>);

/// A digest of a connection and of what a peer's credential proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub [u8; 32]);

struct Proven {
    connection: String,
    credential: Credential,
    identity: Identity,
    /// It is one of many, who are told apart by what they claim alone.
    is_of_group: bool,
}

/// The parts that tell peers of one connection apart. Identities are canonical.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Credential {
    /// A certificate of these names.
    Certificate {
        subject: Option<Identity>,
        first_alternative: Option<Identity>,
    },
    /// A pre-shared key.
    PresharedKey(Identity),
    /// A user of EAP.
    User(Identity),
}

impl Credential {
    /// The credential of a certificate with these names; `None` if it names nobody.
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
    /// The peer with this verified certificate, if one of the names matches its claim.
    pub fn of_certificate(connection: &str, claimed: &Identity, names: &[Name]) -> Option<Self> {
        let identity = claimed.proven_by(names)?;
        let credential = Credential::of_certificate(names)?;
        Some(Self::new(connection, credential, identity, false))
    }

    /// The peer that has proven the pre-shared key for `patterns`, if one of them matches its
    /// claim.
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

    /// The user of this name, which EAP has proven. What it claims in IKE does not count.
    pub fn of_user(connection: &str, user: &Identity) -> Self {
        Self::new(connection, credential_of(user), user.clone(), false)
    }

    /// The user whom a server of RADIUS has accepted under this name.
    pub fn of_server_user(connection: &str, user: &Identity) -> Self {
        Self::new(connection, credential_of(user), user.clone(), true)
    }

    /// What to remember it by. Nobody reads a name from it.
    pub fn mark(&self) -> Mark {
        let mut parts = vec![self.0.connection.clone()];
        let text = |it: &Option<Identity>| it.as_ref().map(ToString::to_string).unwrap_or_default();
        parts.extend(match &self.0.credential {
            Credential::Certificate {
                subject,
                first_alternative,
            } => [
                "certificate".to_owned(),
                text(subject),
                text(first_alternative),
            ],
            Credential::PresharedKey(identity) => {
                ["psk".to_owned(), identity.to_string(), String::new()]
            }
            Credential::User(user) => ["user".to_owned(), user.to_string(), String::new()],
        });
        let mut octets = Vec::new();
        for part in parts {
            octets.extend_from_slice(&(part.len() as u64).to_be_bytes());
            octets.extend_from_slice(part.as_bytes());
        }
        let mut mark = [0; 32];
        mark.copy_from_slice(Hash::Sha256.digest(&[&octets]).as_ref());
        Mark(mark)
    }

    /// Subject and first alternative name of its certificate as text, empty where it has none;
    /// `None` if no certificate proved it. [`Self::of_written`] reads them.
    pub(crate) fn certificate_names(&self) -> Option<[String; 2]> {
        let text = |it: &Option<Identity>| it.as_ref().map(ToString::to_string).unwrap_or_default();
        match &self.0.credential {
            Credential::Certificate {
                subject,
                first_alternative,
            } => Some([text(subject), text(first_alternative)]),
            Credential::PresharedKey(_) | Credential::User(_) => None,
        }
    }

    /// The peer whose certificate had these names when it proved itself.
    pub(crate) fn of_written(
        connection: &str,
        [subject, first_alternative]: [Option<Identity>; 2],
        identity: Identity,
    ) -> Self {
        let credential = Credential::Certificate {
            subject: subject.map(|it| it.canonical()),
            first_alternative: first_alternative.map(|it| it.canonical()),
        };
        Self::new(connection, credential, identity, false)
    }

    /// The name that it uses.
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Whether this is the name that it uses. A user's counts in any case.
    pub fn is_called(&self, name: &Identity) -> bool {
        match &self.0.credential {
            Credential::User(_) => credential_of(name) == self.0.credential,
            _ => self.0.identity.is_same(name),
        }
    }

    /// The connection that it is a peer of.
    pub fn connection(&self) -> &str {
        &self.0.connection
    }

    /// Whether a certificate proved it; otherwise a pre-shared key or a password did.
    pub fn has_certificate(&self) -> bool {
        matches!(self.0.credential, Credential::Certificate { .. })
    }

    /// The connection, if all that is proven is a pre-shared key that many share, or that a server
    /// of RADIUS knows the user: one of them may pose as any number of peers.
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

/// What tells users apart: their names without case, because people type them, and most servers
/// ignore it.
fn credential_of(user: &Identity) -> Credential {
    Credential::User(match user.canonical() {
        Identity::UserFqdn(name) => Identity::UserFqdn(name.to_ascii_lowercase()),
        other => other,
    })
}

#[cfg(test)]
mod tests;
