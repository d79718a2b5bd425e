//! Vendor IDs: what we announce and what we understand. Unknown ones, including those of the drafts
//! before RFC 3947, are skipped.

use wire::isakmp::{Payload, vendor};

use super::PeerSupport;

/// Octets after the hash of "FRAGMENTATION": both phase 1 modes may be fragmented.
const FRAGMENTATION_MODES: [u8; 4] = [0x80, 0, 0, 0];

/// What we announce.
pub(super) fn announcements(fragments: bool) -> Vec<Payload> {
    let mut all = vec![
        Payload::VendorId(vendor::NAT_T_RFC_3947.to_vec()),
        Payload::VendorId(vendor::DPD.to_vec()),
    ];
    if fragments {
        let id = [&vendor::FRAGMENTATION[..], &FRAGMENTATION_MODES].concat();
        all.push(Payload::VendorId(id));
    }
    all.push(Payload::VendorId(vendor::CARAVAN.to_vec()));
    all
}

/// What the peer announced, and whether RFC 3947 was among it.
pub(super) fn understood(ids: &[&[u8]]) -> (PeerSupport, bool) {
    let has = |wanted: &[u8]| ids.contains(&wanted);
    let fragmentation = ids
        .iter()
        .filter_map(|id| id.strip_prefix(&vendor::FRAGMENTATION[..]))
        .any(|modes| {
            modes
                .first()
                .is_none_or(|first| first & FRAGMENTATION_MODES[0] != 0)
        });
    let support = PeerSupport {
        dpd: has(&vendor::DPD),
        fragmentation,
        xauth: has(&vendor::XAUTH),
        caravan: has(vendor::CARAVAN),
    };
    (support, has(&vendor::NAT_T_RFC_3947))
}
