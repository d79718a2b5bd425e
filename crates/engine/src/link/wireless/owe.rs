//! Opportunistic wireless encryption over P-256 (RFC 8110): an unauthenticated Diffie-Hellman
//! exchange in the association, whose result is the master key of the handshake. Public values are
//! the first coordinate of a point (RFC 6090 §4.2).

use crypto::hash::{Hash, HmacKey, expand, extract};
use crypto::p256::{GROUP, LEN, Point, Scalar};
use crypto::rand::Stream;
use zeroize::Zeroizing;

use super::handshake::{MASTER_KEY_LEN, MasterKey};
use crate::counters::DropReason;
use crate::work::{Task, Work};

/// Which end of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OweRole {
    /// The station.
    Client,
    /// The access point.
    AccessPoint,
}

/// Our pair, for one association.
pub struct OwePair {
    secret: Scalar,
    public: [u8; LEN],
}

/// What both ends have afterwards.
pub struct OweKeys {
    /// The master key.
    pub master: MasterKey,
    /// Its name.
    pub pmkid: [u8; 16],
}

impl OwePair {
    /// A fresh pair.
    pub fn generate(random: &mut Stream, work: &mut Work) -> Self {
        Self::of(Scalar::generate(random), work)
    }

    fn of(secret: Scalar, work: &mut Work) -> Self {
        work.count(Task::ScalePoint, LEN as u64);
        let public = Point::GENERATOR.times(&secret);
        Self {
            secret,
            public: public.expect("a scalar below the order").x(),
        }
    }

    /// The body of our Diffie-Hellman parameter element: the group, then the public value.
    pub fn element(&self) -> Vec<u8> {
        [&GROUP.to_le_bytes()[..], &self.public].concat()
    }

    /// Whether the body of a peer's element may be good: its group and length, which cost nothing.
    pub fn check(element: &[u8]) -> Result<(), DropReason> {
        let (group, public) = element
            .split_first_chunk()
            .ok_or(DropReason::MalformedMessage)?;
        if u16::from_le_bytes(*group) != GROUP {
            return Err(DropReason::NoProposalChosen);
        }
        match public.len() == LEN {
            true => Ok(()),
            false => Err(DropReason::BadPublicValue),
        }
    }

    /// The keys, from the body of the peer's element (RFC 8110 §4.4).
    pub fn agree(
        &self,
        role: OweRole,
        element: &[u8],
        work: &mut Work,
    ) -> Result<OweKeys, DropReason> {
        Self::check(element)?;
        let (group, public) = element.split_at(2);
        let public: &[u8; LEN] = public.try_into().map_err(|_| DropReason::BadPublicValue)?;
        if *public == self.public {
            return Err(DropReason::Reflected);
        }
        work.count(Task::ScalePoint, LEN as u64);
        // Both points with this coordinate give the same first coordinate.
        let shared = Point::of_x(public, false).and_then(|it| it.times(&self.secret));
        let shared = shared.ok_or(DropReason::BadPublicValue)?;
        let (client, access_point) = match role {
            OweRole::Client => (&self.public, public),
            OweRole::AccessPoint => (public, &self.public),
        };
        let salt = [&client[..], access_point, group].concat();
        let shared = Zeroizing::new(shared.x());
        let extracted = extract(Hash::Sha256, &salt, &shared[..]);
        let key = HmacKey::new(Hash::Sha256, extracted.as_ref());
        let mut master = Zeroizing::new([0; MASTER_KEY_LEN]);
        expand(&key, &[b"OWE Key Generation"], &mut master[..]);
        let name = Hash::Sha256.digest(&[client, access_point]);
        Ok(OweKeys {
            master: MasterKey::new(&master),
            pmkid: *name.as_ref().first_chunk().expect("16 octets"),
        })
    }
}

#[cfg(test)]
mod tests;
