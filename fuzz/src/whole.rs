//! The messages that the other end of a node reads: whole ones, and fragments put together.

use std::net::SocketAddr;

use engine::ikev1::fragments::{Assembly, Sender, Standing};
use engine::time::Instant;
use wire::isakmp::{Header, PayloadKind};

/// The message that a datagram is or completes.
pub fn whole(
    assembly: &mut Assembly,
    datagram: &[u8],
    from: SocketAddr,
    now: Instant,
) -> Option<Vec<u8>> {
    let (header, _) = Header::parse(datagram).ok()?;
    if header.next_payload != PayloadKind::Fragment {
        return Some(datagram.to_vec());
    }
    let standing = Standing::Established;
    let sender = Sender { from, standing };
    assembly.take(datagram, sender, now).ok()?
}
