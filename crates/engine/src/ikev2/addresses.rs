//! The addresses of both ends besides the path's, and what an end says of its own (RFC 4555 §3.1,
//! §3.4).

use std::net::IpAddr;

use wire::ikev2::{Notify, NotifyType, Payload};

use super::parts::notify;
use crate::config::Connection;
use crate::sa::Path;
use crate::site::{is_private, is_unicast};

/// Addresses of a peer that are kept, and addresses of ours that it is told.
pub(crate) const MAX_ADDRESSES: usize = 8;

/// Addresses of both ends besides the path's.
#[derive(Default)]
pub(super) struct Mobility {
    /// The peer's.
    pub(super) peers: Vec<IpAddr>,
    /// Ours.
    pub(super) own: Vec<IpAddr>,
    /// Ours, as the peer was told; `None`: it may not have read it.
    pub(super) told: Option<Vec<IpAddr>>,
    /// The path has changed, and the peer must be told.
    pub(super) is_due: bool,
    /// We have lost our address: the peer is told the one that we send from, too.
    pub(super) names_path: bool,
    /// The peer's address is proven: an update may be long.
    pub(super) is_proven: bool,
}

/// An update of the addresses that was sent.
pub(super) struct AskedUpdate {
    /// Where it was sent first. It holds hashes of these ends.
    pub(super) path: Path,
    pub(super) cookie: Vec<u8>,
    /// It is a probe of the node too, with this number.
    pub(super) number: Option<u32>,
}

/// What an end says of its addresses in IKE_AUTH (RFC 4555 §3.1, §3.4).
pub(super) fn announcement(connection: &Connection, own: &[IpAddr]) -> Vec<Payload> {
    if !connection.mobike {
        return Vec::new();
    }
    let mut all = vec![notify(NotifyType::MobikeSupported)];
    all.extend(additional(own));
    all
}

/// All addresses besides the one that the message comes from.
pub(super) fn additional(own: &[IpAddr]) -> Vec<Payload> {
    if own.is_empty() {
        return vec![notify(NotifyType::NoAdditionalAddresses)];
    }
    let each = own.iter().map(|it| Notify::additional_address(*it));
    each.map(Payload::Notify).collect()
}

/// Those of our addresses that a peer is told, besides the path's: an address may be the other end
/// of a path only if the connection uses it, if it is not in the tunnel itself, and if it is not
/// private while the path's is public.
pub(crate) fn told(connection: &Connection, all: &[IpAddr], path: IpAddr) -> Vec<IpAddr> {
    let is_inside = |address: &IpAddr| {
        let mut children = connection.children.iter();
        children.any(|child| {
            let mut local = child.local.iter();
            local.any(|it| it.prefix_len() != Some(0) && it.contains_address(*address))
        })
    };
    let fits = |address: &&IpAddr| {
        **address != path
            && is_usable(address)
            && connection.speaks_from(**address)
            && (is_private(&path) || !is_private(address))
            && !is_inside(address)
    };
    all.iter()
        .filter(fits)
        .copied()
        .take(MAX_ADDRESSES)
        .collect()
}

/// Whether another end of a path may be here.
pub(super) fn is_usable(address: &IpAddr) -> bool {
    let is_on_link = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    is_unicast(address) && !is_on_link
}
