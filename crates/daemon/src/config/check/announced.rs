//! What a gateway of IKEv2 announces before it knows to which connection a client belongs: it does
//! so only if all do that the client may belong to by its address.

use std::sync::Arc;

use engine::config::Connection;

/// A key, and whether a connection has it on.
type Switch = (&'static str, fn(&Connection) -> bool);

/// Keys that are announced.
const ANNOUNCED: [Switch; 2] = [
    ("full_transcript", |it| it.full_transcript),
    ("fragmentation", |it| it.fragments),
];

/// Connections in which such a key has no effect, because another one turns it off: connection and
/// sentence.
pub(super) fn withheld(connections: &[Arc<Connection>]) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    for one in connections.iter().filter(|it| it.version.has_v2()) {
        for (key, is_wanted) in ANNOUNCED {
            let mut others = connections.iter().filter(|it| it.version.has_v2());
            let off = others.find(|it| is_wanted(one) && !is_wanted(it) && meet(one, it));
            if let Some(off) = off {
                let text = format!(
                    "{key} is off for its clients too, because {0} has {key} = false and a gateway \
                     cannot tell at the first message to which of the two a client belongs: write \
                     the same in both, or give them other local_addrs",
                    off.name
                );
                warnings.push((one.name.clone(), text));
            }
        }
    }
    warnings
}

/// Whether a peer that begins may belong to either.
fn meet(one: &Connection, other: &Connection) -> bool {
    let is_here = one.local_addrs.is_empty()
        || other.local_addrs.is_empty()
        || one
            .local_addrs
            .iter()
            .any(|it| other.local_addrs.contains(it));
    // Of two that begin themselves, each says what it has.
    is_here && (one.remote_addrs.is_empty() || other.remote_addrs.is_empty())
}
