//! A child's own key exchange: perfect forward secrecy (RFC 2409 §5.5, RFC 7296 §1.3.1).

use core::fmt;

use crypto::dh::Group;
use crypto::key_exchange::Method;

use super::words;

/// A child's own key exchange. Each has one form: a group that both versions of IKE have is a
/// [`Self::Method`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pfs {
    /// A group below 2048 bits, which only IKEv1 uses here.
    Legacy(Group),
    /// A method of IKEv2.
    Method(Method),
}

impl Pfs {
    /// The group in IKEv1; `None` for a method that IKEv1 does not have.
    pub fn group(self) -> Option<Group> {
        match self {
            Self::Legacy(group) => Some(group),
            Self::Method(method) => Group::of_number(method.number().into()),
        }
    }

    /// The method in IKEv2; `None` for a group that IKEv2 does not use.
    pub fn method(self) -> Option<Method> {
        match self {
            Self::Legacy(_) => None,
            Self::Method(method) => Some(method),
        }
    }
}

impl From<Group> for Pfs {
    fn from(group: Group) -> Self {
        let method = Method::of_number(group.number());
        method.map_or(Self::Legacy(group), Self::Method)
    }
}

impl fmt::Display for Pfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy(group) => words::of_group(*group),
            Self::Method(method) => words::of_method(*method),
        })
    }
}
