//! The users of a gateway, by name, with the hashes of their passwords.

use std::collections::BTreeMap;

use crypto::mschapv2::NtHash;

use crate::identity::Identity;
use crate::sa::Secret;

/// Octets of a user's name at most.
pub const MAX_USER_LEN: usize = 64;

/// Users and the hashes of their passwords, which count as passwords: no `Debug`, wiped on drop.
#[derive(Clone, Default)]
pub struct Users(BTreeMap<String, User>);

#[derive(Clone)]
struct User {
    identity: Identity,
    hash: NtHash,
}

/// The identity of a user whom a server of RADIUS has named; `None` for no name at all. What our
/// own users could not be called is opaque, so that it equals no name.
pub(crate) fn user_of_server(name: &[u8]) -> Option<Identity> {
    let own = core::str::from_utf8(name).ok();
    let own = own.and_then(|name| Users::identity_of(name).ok());
    let opaque = || (!name.is_empty()).then(|| Identity::KeyId(name.to_vec()));
    own.or_else(opaque)
}

/// Why a text is not a user's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAUser {
    /// Nothing, or more than a name may have.
    #[error("a user's name has 1 to {MAX_USER_LEN} characters")]
    Length,
    /// A character that means something else somewhere.
    #[error(
        "a user's name has letters, digits and . _ - @ only, and begins with a letter or digit"
    )]
    Characters,
    /// It would be read as an address.
    #[error("a user's name is not an address")]
    Address,
    /// Names differ by more than the case of their letters.
    #[error("there is a user of this name")]
    Taken,
}

impl Users {
    /// The identity of a user's name. Two names that differ only in case are one user: people type
    /// them.
    pub fn identity_of(name: &str) -> Result<Identity, NotAUser> {
        if name.is_empty() || name.len() > MAX_USER_LEN {
            return Err(NotAUser::Length);
        }
        let is_fine = |it: u8| it.is_ascii_alphanumeric() || b"._-@".contains(&it);
        let begins = name.starts_with(|it: char| it.is_ascii_alphanumeric());
        if !begins || !name.bytes().all(is_fine) {
            return Err(NotAUser::Characters);
        }
        match Identity::parse(name) {
            Ok(Identity::Address(_)) => Err(NotAUser::Address),
            Ok(identity) => Ok(identity),
            Err(_) => Err(NotAUser::Characters),
        }
    }

    /// Adds a user.
    pub fn add(&mut self, name: &str, hash: NtHash) -> Result<(), NotAUser> {
        let identity = Self::identity_of(name)?;
        let key = name.to_ascii_lowercase();
        if self.0.contains_key(&key) {
            return Err(NotAUser::Taken);
        }
        self.0.insert(key, User { identity, hash });
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is the identity of one of them.
    pub fn has(&self, identity: &Identity) -> bool {
        let mut all = self.0.values();
        all.any(|it| it.identity.is_same(identity))
    }

    /// What changes with a user's password, for who has this key; `None`: there is no such user.
    pub(crate) fn mark(&self, identity: &Identity, key: &Secret) -> Option<Vec<u8>> {
        let mut all = self.0.values();
        let user = all.find(|it| it.identity.is_same(identity))?;
        Some(user.hash.mark(&key.0))
    }

    /// The user whom a peer calls so.
    pub(super) fn find(&self, name: &[u8]) -> Option<(&Identity, &NtHash)> {
        let name = core::str::from_utf8(name).ok()?;
        let user = self.0.get(&name.to_ascii_lowercase())?;
        Some((&user.identity, &user.hash))
    }
}
