//! An ISAKMP SA between a client and a gateway, for tests of phase 2.

use wire::isakmp::{Cookie, Cookies};

use super::{IsakmpSa, NatFinding, PeerSupport};
use crate::config::Child;
use crate::config::IdentityPattern;
use crate::identity::{Identity, Peer};
use crate::ike::Role;
use crate::sa::{Mode, Path, Secret};
use crate::selector::TrafficSelector;
use crate::time::Instant;

/// The client's end and the gateway's. The path between them has a NAT: the gateway sees another
/// address than the client has.
pub(crate) fn isakmp_pair(words: &str) -> (IsakmpSa, IsakmpSa) {
    let gateway: std::net::SocketAddr = "198.51.100.1:4500".parse().unwrap();
    let station = Path::udp_with_marker(([10, 0, 0, 2], 4500), gateway);
    let seen = Path::udp_with_marker(gateway, ([192, 0, 2, 77], 61234));
    (
        end(words, Role::Initiator, station, "gw.example.org"),
        end(words, Role::Responder, seen, "ms.example.org"),
    )
}

fn end(words: &str, role: Role, path: Path, peer: &str) -> IsakmpSa {
    let suite: crate::suite::IkeSuite = words.parse().unwrap();
    IsakmpSa {
        cookies: Cookies {
            initiator: Cookie([0xc1; 8]),
            responder: Cookie([0xc2; 8]),
        },
        role,
        suite,
        skeyid_d: Secret(vec![0xd0; suite.hash.len()]),
        skeyid_a: Secret(vec![0xa0; suite.hash.len()]),
        cipher_key: Secret(vec![0xe0; suite.cipher.key_len()]),
        last_iv: vec![0x1f; suite.cipher.block_len()],
        nat: NatFinding {
            is_supported: true,
            ..NatFinding::default()
        },
        peer: PeerSupport {
            dpd: true,
            fragmentation: true,
            xauth: false,
            caravan: true,
        },
        identity: Peer::of_preshared_key(
            "testing",
            &Identity::parse(peer).unwrap(),
            &[IdentityPattern::Any],
        ),
        certificate: None,
        is_initial_contact: false,
        path,
        since: Instant(0),
        lifetime_s: 14_400,
    }
}

/// A child in tunnel mode, without proposals and selectors.
pub(crate) fn child() -> Child {
    Child::new("lan", Mode::Tunnel, Vec::new())
}

pub(crate) fn selector(text: &str) -> TrafficSelector {
    text.parse().unwrap()
}
