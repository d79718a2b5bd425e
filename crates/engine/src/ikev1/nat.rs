//! NAT detection and its answer: port 4500 (RFC 3947 §3.2, §4).

use std::net::SocketAddr;

use crypto::hash::{Hash, is_equal};
use wire::isakmp::{Cookies, Payload};

pub(super) use crate::ike::nat::float;
use crate::ike::nat::{self, NatFinding};
use crate::sa::Path;

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

/// HASH(CKY-I | CKY-R | IP | Port) (RFC 3947 §3.2).
fn hash_of(hash: Hash, cookies: Cookies, end: SocketAddr) -> Vec<u8> {
    nat::hash_of(hash, cookies.into(), end)
}
