//! The values of one exchange: commits, keys and confirms (IEEE 802.11-2020 §12.4.5).

use crypto::hash::Hash;
use crypto::p256::{GROUP, LEN, Point, Scalar};
use crypto::prf::kdf;
use crypto::rand::Stream;
use wire::ieee80211::CommitParts;
use zeroize::Zeroizing;

use crate::counters::DropReason;
use crate::link::wireless::handshake::{MASTER_KEY_LEN, MasterKey};
use crate::work::{Task, Work};

/// Scalar and element.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) scalar: Scalar,
    pub(super) element: Point,
}

/// Our half of an exchange.
pub(super) struct Half {
    password_element: Point,
    secret: Scalar,
    pub(super) commit: Commit,
}

/// What both have after the commits.
pub(super) struct Shared {
    confirmation: Zeroizing<[u8; LEN]>,
    pub(super) master: MasterKey,
    pub(super) pmkid: [u8; 16],
}

impl Commit {
    pub(super) fn of(parts: &CommitParts<'_>) -> Result<Self, DropReason> {
        let scalar = Scalar::new(&parts.scalar).filter(Scalar::is_above_1);
        let element = Point::new(&parts.element);
        match (scalar, element) {
            (Some(scalar), Some(element)) => Ok(Self { scalar, element }),
            _ => Err(DropReason::BadPublicValue),
        }
    }

    pub(super) fn parts<'a>(&self, token: &'a [u8]) -> CommitParts<'a> {
        CommitParts {
            group: GROUP,
            token,
            scalar: *self.scalar.octets(),
            element: *self.element.octets(),
        }
    }
}

impl Half {
    pub(super) fn generate(password_element: Point, random: &mut Stream, work: &mut Work) -> Self {
        loop {
            let (secret, mask) = (Scalar::generate(random), Scalar::generate(random));
            if let Some(half) = Self::of(password_element, secret, &mask, work) {
                return half;
            }
        }
    }

    /// None if the two cancel each other out.
    pub(super) fn of(
        password_element: Point,
        secret: Scalar,
        mask: &Scalar,
        work: &mut Work,
    ) -> Option<Self> {
        let scalar = secret.plus(mask);
        work.count(Task::ScalePoint, LEN as u64);
        let element = password_element.times(mask)?.negated();
        scalar.is_above_1().then_some(Self {
            password_element,
            secret,
            commit: Commit { scalar, element },
        })
    }

    /// The keys, from the peer's commit.
    pub(super) fn share(&self, peer: &Commit, work: &mut Work) -> Result<Shared, DropReason> {
        work.add(Task::ScalePoint, 2, 2 * LEN as u64);
        let sum = self.password_element.times(&peer.scalar);
        let sum = sum.and_then(|it| it.plus(&peer.element));
        let shared = sum.and_then(|it| it.times(&self.secret));
        let shared = shared.ok_or(DropReason::BadPublicValue)?;
        let secret = Zeroizing::new(shared.x());
        let seed = Hash::Sha256.hmac(&[0; LEN], &[&secret[..]]);
        let context = self.commit.scalar.plus(&peer.scalar);
        let context = context.octets();
        let mut keys = Zeroizing::new([0; LEN + MASTER_KEY_LEN]);
        let label = "SAE KCK and PMK";
        kdf(Hash::Sha256, seed.as_ref(), label, context, &mut keys[..]);
        let (confirmation, master) = keys.split_first_chunk().expect("two keys");
        Ok(Shared {
            confirmation: Zeroizing::new(*confirmation),
            master: MasterKey::new(master.try_into().expect("its length")),
            pmkid: *context.first_chunk().expect("16 octets"),
        })
    }
}

impl Shared {
    /// The confirm of `from` to `to`, numbered.
    pub(super) fn confirm(
        &self,
        number: u16,
        from: &Commit,
        to: &Commit,
        work: &mut Work,
    ) -> [u8; LEN] {
        work.count(Task::Prf(Hash::Sha256), 2 + 2 * 3 * LEN as u64);
        let parts: [&[u8]; 5] = [
            &number.to_le_bytes(),
            from.scalar.octets(),
            from.element.octets(),
            to.scalar.octets(),
            to.element.octets(),
        ];
        let confirm = Hash::Sha256.hmac(&self.confirmation[..], &parts);
        *confirm.as_ref().first_chunk().expect("32 octets")
    }
}
