//! What a gateway of IKEv2 accepts besides its defaults: the choices of clients that are not
//! Caravan. A client offers none of these, so its messages stay short.

use engine::config::{Connection, Version};
use engine::suite::{EspSuite, Ikev2Suite};

use super::file::{ChildTable, ConnectionTable};
use super::ours;

/// What Apple's systems offer when they are set up by hand, and what our script chooses for
/// Windows. Android offers nearly everything.
const IKE: [&str; 3] = [
    "aes256gcm16-prfsha256-ecp256",
    "aes256-sha256-ecp256",
    "aes256-sha256-modp2048",
];
/// The same for children. Without PFS, because a child may have it or not.
const ESP: [&str; 4] = [
    "aes256gcm16-modp2048",
    "aes256-sha256-modp2048",
    "aes256gcm16",
    "aes256-sha256",
];

/// Adds them where the configuration names no proposals.
pub(super) fn accept(connection: &mut Connection, table: &ConnectionTable) {
    if !connection.remote_addrs.is_empty() || connection.version == Version::V1 {
        return;
    }
    if table.proposals.is_empty() {
        let more: Vec<Ikev2Suite> = ours(IKE);
        connection.ikev2_proposals.extend(more);
    }
    for child in &mut connection.children {
        let named = table.children.get(&child.name);
        if named.is_some_and(ChildTable::names_no_proposals) {
            let more: Vec<EspSuite> = ours(ESP);
            child.proposals.extend(more);
        }
    }
}
