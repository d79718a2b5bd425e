//! Logs who was connected: a line when a peer's first child is up, and one when the peer is
//! disconnected. The lines have a target of their own, `session`, and stable fields
//! (`docs/vpn-sessions.md`).

use engine::node::{Stay, Summary};
use tracing::info;

/// A peer has connected.
pub(super) fn began(stay: &Stay) {
    info!(
        target: "session",
        session = %stay.id,
        connection = stay.connection,
        identity = stay.identity,
        peer = %stay.remote,
        inner = inner(stay),
        "session began"
    );
}

/// A peer has disconnected.
pub(super) fn ended(stay: &Stay, summary: &Summary) {
    let (received, sent) = (summary.received, summary.sent);
    info!(
        target: "session",
        session = %stay.id,
        connection = stay.connection,
        identity = stay.identity,
        peer = %stay.remote,
        inner = inner(stay),
        cause = summary.cause.code(),
        reason = %summary.cause,
        duration_s = summary.duration.as_millis() as f64 / 1e3,
        bytes_in = received.bytes,
        bytes_out = sent.bytes,
        packets_in = received.packets,
        packets_out = sent.packets,
        is_complete = summary.is_complete,
        "session ended"
    );
}

fn inner(stay: &Stay) -> String {
    let all: Vec<String> = stay.inner.iter().map(ToString::to_string).collect();
    all.join(", ")
}
