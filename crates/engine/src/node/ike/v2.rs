//! What only IKEv2 has; of IKEv1 it is the answer of an end without it.

use std::net::IpAddr;

use wire::ikev2::Gateway;

use super::Ike;
use crate::ikev2::ppk::PpkInUse;
use crate::ikev2::session::Session as Ikev2;

impl Ike {
    /// Whether both ends speak MOBIKE (RFC 4555).
    pub(in crate::node) fn has_mobike(&self) -> bool {
        self.v2().is_some_and(Ikev2::has_mobike)
    }

    /// The post-quantum pre-shared key in its keys.
    pub(in crate::node) fn ppk(&self) -> Option<&PpkInUse> {
        self.v2().and_then(Ikev2::ppk)
    }

    /// Whether each end has proven itself over both messages of IKE_SA_INIT.
    pub(in crate::node) fn has_full_transcript(&self) -> bool {
        self.v2().is_some_and(Ikev2::has_full_transcript)
    }

    /// Whether an end has proven itself by RSA with SHA-1 in IKEv2.
    pub(in crate::node) fn has_signed_sha1(&self) -> bool {
        self.v2().is_some_and(Ikev2::has_signed_sha1)
    }

    /// Whether the peer alone renews children.
    pub(in crate::node) fn leaves_children_to_peer(&self) -> bool {
        self.v2().is_some_and(Ikev2::leaves_children_to_peer)
    }

    /// Whether we decide where both ends send.
    pub(in crate::node) fn is_mover(&self) -> bool {
        self.v2().is_some_and(Ikev2::is_mover)
    }

    /// The peer's addresses besides the one in use, by MOBIKE.
    pub(in crate::node) fn peer_addresses(&self) -> &[IpAddr] {
        self.v2().map_or(&[], Ikev2::peer_addresses)
    }

    /// Whether the peer knows these addresses of ours.
    pub(in crate::node) fn is_told(&self, own: &[IpAddr]) -> bool {
        self.v2().is_some_and(|it| it.is_told(own))
    }

    /// Octets of IKEv2's open requests.
    pub(in crate::node) fn open_octets(&self) -> u64 {
        self.v2().map_or(0, Ikev2::open_octets)
    }

    /// Whether it goes on from a session that was lost (RFC 5723).
    pub(in crate::node) fn is_resumed(&self) -> bool {
        self.v2().is_some_and(Ikev2::is_resumed)
    }

    /// Whether the peer goes to this gateway when it is sent there (RFC 5685).
    pub(in crate::node) fn may_be_sent_to(&self, gateway: &Gateway) -> bool {
        self.v2().is_some_and(|it| it.may_be_sent_to(gateway))
    }
}
