//! Connections with pre-shared keys that a gateway cannot tell apart in main mode.

use std::sync::Arc;

use engine::config::{Connection, LocalMethod, RemoteMethod};
use engine::sa::Secret;

/// A responder of main mode needs the pre-shared key before the peer sends its identity (RFC 2409
/// §5.4): it takes the key of the first connection that matches the peer's address and proposals.
/// Returns connection and sentence of each connection that therefore never gets its turn.
pub(super) fn hidden(connections: &[Arc<Connection>]) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    for (at, later) in connections.iter().enumerate() {
        if let Some(first) = connections[..at].iter().find(|first| hides(first, later)) {
            let text = format!(
                "main mode picks a pre-shared key before the client says who it is, and takes \
                 that of {}: clients of {} that offer the same proposals never come up; use \
                 certificates, one key for both, or other local_addrs",
                first.name, later.name
            );
            warnings.push((later.name.clone(), text));
        }
    }
    warnings
}

fn hides(first: &Connection, later: &Connection) -> bool {
    let (Some(key), Some(other)) = (main_mode_key(first), main_mode_key(later)) else {
        return false;
    };
    let is_anywhere = |it: &Connection| it.local_addrs.is_empty();
    let mut locals = first.local_addrs.iter();
    let is_here = is_anywhere(first)
        || is_anywhere(later)
        || locals.any(|address| later.local_addrs.contains(address));
    let mut suites = later.proposals.iter();
    let is_offered = suites.any(|suite| first.proposals.contains(suite));
    is_here && is_offered && !crypto::hash::is_equal(&key.0, &other.0)
}

/// The key of a connection that clients from any address may use in main mode.
fn main_mode_key(connection: &Connection) -> Option<&Secret> {
    let is_for_any = connection.remote_addrs.is_empty() && !connection.is_aggressive;
    match (&connection.local.method, &connection.remote.method) {
        (LocalMethod::PresharedKey(_), RemoteMethod::PresharedKey(key)) if is_for_any => Some(key),
        _ => None,
    }
}
