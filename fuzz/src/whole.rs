//! The messages that the other end of a node reads: whole ones, and reassembled fragments.

use std::net::SocketAddr;

use engine::ikev1::fragments::{Assembly, Sender, Standing};
use engine::ikev1::message::Message;
use engine::time::Instant;

/// The message that a datagram is or completes.
pub fn whole(
    assembly: &mut Assembly,
    datagram: &[u8],
    from: SocketAddr,
    now: Instant,
) -> Option<Vec<u8>> {
    let message = Message::parse(datagram).ok()?;
    if !message.is_fragment() {
        return Some(datagram.to_vec());
    }
    let standing = Standing::Established;
    let sender = Sender { from, standing };
    let whole = assembly.take(&message, sender, now).whole.ok()??;
    Some(whole.message().ok()?.octets().to_vec())
}
