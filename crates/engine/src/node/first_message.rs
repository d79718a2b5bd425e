//! How a responder knows that a first message is one that it has had.

use core::ops::RangeInclusive;
use std::net::SocketAddr;

use crypto::hash::Hash;

use crate::ike::Spi;

/// What tells a first message from others. In IKEv2, a digest of the whole message is part of it
/// (RFC 7296 §2.1): who copies an SPI does not keep its owner out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct First {
    pub(super) from: SocketAddr,
    spi: Spi,
    digest: Option<[u8; 32]>,
}

impl First {
    /// Of IKEv1: its initiator sends no other one with this cookie.
    pub(super) fn of_v1(from: SocketAddr, spi: Spi) -> Self {
        let digest = None;
        Self { from, spi, digest }
    }

    /// The least and the greatest of IKEv2 with this address and SPI.
    pub(super) fn all_of_v2(from: SocketAddr, spi: Spi) -> RangeInclusive<Self> {
        let of = |octet: u8| Self {
            from,
            spi,
            digest: Some([octet; 32]),
        };
        of(0)..=of(u8::MAX)
    }

    /// Of IKEv2.
    pub(super) fn of_v2(from: SocketAddr, spi: Spi, message: &[u8]) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(Hash::Sha256.digest(&[message]).as_ref());
        let digest = Some(digest);
        Self { from, spi, digest }
    }
}
