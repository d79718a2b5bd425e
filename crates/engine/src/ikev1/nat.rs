//! NAT detection and the float to port 4500 (RFC 3947 §3.2, §4).

use std::net::{IpAddr, SocketAddr};

use crypto::hash::{Hash, is_equal};
use wire::isakmp::{Cookies, Payload};

use super::NatFinding;
use crate::ike::NAT_T_PORT;
use crate::sa::{Path, Via};

/// Our NAT-D payloads: the peer's end first, then ours. To get UDP without a NAT, we send a wrong
/// hash of our own end, so that the peer assumes one. Caravan recognizes that hash, and sees from
/// the address that there is no NAT.
pub(super) fn discovery(hash: Hash, cookies: Cookies, path: Path, pretends: bool) -> [Payload; 2] {
    let own = if pretends {
        pretended(path.local)
    } else {
        path.local
    };
    [path.remote, own].map(|end| Payload::NatDiscovery(hash_of(hash, cookies, end)))
}

/// Replaces an end behind a pretended NAT: its address with an impossible port.
fn pretended(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip(), 0)
}

/// Compares the peer's hashes with what we see.
pub(super) fn find(hash: Hash, cookies: Cookies, path: Path, found: &[&[u8]]) -> NatFinding {
    let Some((ours, theirs)) = found.split_first() else {
        return NatFinding::default();
    };
    let is_of = |sent: &[u8], end| is_equal(sent, &hash_of(hash, cookies, end));
    let names = |end| theirs.iter().any(|their| is_of(their, end));
    let is_pretended = names(pretended(path.remote));
    NatFinding {
        is_supported: true,
        is_local: !is_of(ours, path.local),
        is_remote: !is_pretended && !names(path.remote),
        is_pretended,
    }
}

/// The path with the marker: both ends on port 4500 (RFC 3947 §4), unless it has the marker
/// already.
pub(super) fn float(path: Path) -> Path {
    match path.via {
        Via::UdpWithMarker => path,
        Via::Udp | Via::UdpWithType | Via::UdpWithSkip | Via::Raw => Path::udp_with_marker(
            (path.local.ip(), NAT_T_PORT),
            (path.remote.ip(), NAT_T_PORT),
        ),
    }
}

/// HASH(CKY-I | CKY-R | IP | Port) (RFC 3947 §3.2).
fn hash_of(hash: Hash, cookies: Cookies, end: SocketAddr) -> Vec<u8> {
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
    let (cky_i, cky_r) = (&cookies.initiator.0, &cookies.responder.0);
    let parts = [&cky_i[..], cky_r, address, &end.port().to_be_bytes()];
    hash.digest(&parts).as_ref().to_vec()
}
