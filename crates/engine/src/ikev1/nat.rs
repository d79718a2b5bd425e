//! NAT detection and the float to port 4500 (RFC 3947 §3.2, §4).

use std::net::SocketAddr;

use crypto::hash::{Hash, is_equal};
use wire::isakmp::{Cookies, Payload};

use super::NatFinding;
use crate::sa::Path;

/// Where IKE begins.
pub const IKE_PORT: u16 = 500;
/// Where IKE and ESP in UDP go through a NAT (RFC 3947 §4, RFC 3948 §2).
pub const NAT_T_PORT: u16 = 4500;

/// The NAT-D payloads: the peer's end first, then ours. Who forces encapsulation gives a wrong
/// hash of its own end, so that the peer believes in a NAT.
pub(super) fn discovery(hash: Hash, cookies: Cookies, path: Path, is_forced: bool) -> [Payload; 2] {
    let own = if is_forced {
        SocketAddr::from(([0, 0, 0, 0], 0))
    } else {
        path.local
    };
    [path.remote, own].map(|end| Payload::NatDiscovery(hash_of(hash, cookies, end)))
}

/// Compares what the peer sent with what we see.
pub(super) fn find(hash: Hash, cookies: Cookies, path: Path, found: &[&[u8]]) -> NatFinding {
    let Some((ours, theirs)) = found.split_first() else {
        return NatFinding::default();
    };
    let own = hash_of(hash, cookies, path.local);
    let peer = hash_of(hash, cookies, path.remote);
    NatFinding {
        is_supported: true,
        is_local: !is_equal(ours, &own),
        is_remote: !theirs.iter().any(|their| is_equal(their, &peer)),
    }
}

/// Moves the ends that are on port 500 to 4500.
pub(super) fn float(path: Path) -> Path {
    let moved = |mut end: SocketAddr| {
        if end.port() == IKE_PORT {
            end.set_port(NAT_T_PORT);
        }
        end
    };
    Path {
        local: moved(path.local),
        remote: moved(path.remote),
    }
}

/// HASH(CKY-I | CKY-R | IP | Port) (RFC 3947 §3.2).
fn hash_of(hash: Hash, cookies: Cookies, end: SocketAddr) -> Vec<u8> {
    let (v4, v6);
    let address: &[u8] = match end.ip().to_canonical() {
        std::net::IpAddr::V4(address) => {
            v4 = address.octets();
            &v4
        }
        std::net::IpAddr::V6(address) => {
            v6 = address.octets();
            &v6
        }
    };
    let (cky_i, cky_r) = (&cookies.initiator.0, &cookies.responder.0);
    let parts = [&cky_i[..], cky_r, address, &end.port().to_be_bytes()];
    hash.digest(&parts).as_ref().to_vec()
}
