//! NAT detection: hashes of both ends of a path, as their owner sees it (RFC 3947 §3.2, RFC 7296
//! §2.23), and the port that serves behind a NAT.

use std::net::{IpAddr, SocketAddr};

use crypto::hash::Hash;

use super::{NAT_T_PORT, Spis};
use crate::sa::{Path, Via};

/// The result of NAT detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatFinding {
    /// The peer supports it.
    pub is_supported: bool,
    /// We are behind a NAT.
    pub is_local: bool,
    /// The peer is behind a NAT, or sent a wrong hash that is not Caravan's, so that we assume one.
    pub is_remote: bool,
    /// We sent a wrong hash, or the peer sent Caravan's and is not behind a NAT. Only in IKEv1:
    /// RFC 7296 §2.23 lets either end send ESP in UDP without a NAT.
    pub is_pretended: bool,
}

impl NatFinding {
    /// Whether packets pass a NAT at either end, or must travel as if they did.
    pub fn is_between(&self) -> bool {
        self.is_local || self.is_remote || self.is_pretended
    }
}

/// The path with the marker: both ends on port 4500 (RFC 3947 §4, RFC 7296 §2.23), unless it has
/// the marker already.
pub fn float(path: Path) -> Path {
    match path.via {
        Via::UdpWithMarker => path,
        Via::Udp | Via::UdpWithType | Via::UdpWithSkip | Via::Raw => Path::udp_with_marker(
            (path.local.ip(), NAT_T_PORT),
            (path.remote.ip(), NAT_T_PORT),
        ),
    }
}

/// HASH(SPIi | SPIr | IP | Port). IKEv1 calls the SPIs cookies; IKEv2 always takes SHA-1.
pub fn hash_of(hash: Hash, spis: Spis, end: SocketAddr) -> Vec<u8> {
    let (v4, v6);
    let address: &[u8] = match end.ip().to_canonical() {
        IpAddr::V4(address) => {
            v4 = address.octets();
            &v4
        }
        IpAddr::V6(address) => {
            v6 = address.octets();
            &v6
        }
    };
    let (initiator, responder) = (&spis.initiator.0, &spis.responder.0);
    let parts = [
        &initiator[..],
        responder,
        address,
        &end.port().to_be_bytes(),
    ];
    hash.digest(&parts).as_ref().to_vec()
}
