//! EAP inside IKEv2 (RFC 3748, RFC 7296 §2.16): how a gateway lets a peer prove itself as a user,
//! and how a station does that.
//!
//! [`Server`] is authenticator and server in one, [`Station`] is the peer of RFC 3748. Both are
//! machines: a packet in, a packet or a verdict out. IKE repeats what is lost, so nothing is
//! repeated here, and every packet must fit the one before it. One exchange has [`MAX_PACKETS`]
//! packets and [`MAX_OCTETS`] octets at most; its time is that of the half-open session.
//!
//! The methods are MSCHAPv2 (`mschapv2`) and TLS (`tls`). Both export a key, which both ends
//! prove in AUTH. With servers of RADIUS ([`crate::radius`]) the methods are theirs. Left out:
//! methods without a key, such as MD5-Challenge, and expanded types.

mod mschapv2;
mod server;
mod station;
#[cfg(test)]
mod tests;
mod tls;
mod users;

pub(crate) use server::told;
pub use server::{Asked, Examiner, Own, Server, Subject};
pub use station::{Login, LoginMethod, Station, Told};
pub(crate) use users::user_of_server;
pub use users::{MAX_USER_LEN, NotAUser, Users};

/// Packets that one end takes in one exchange.
pub const MAX_PACKETS: usize = 64;
/// Octets of packets that one end takes in one exchange.
pub const MAX_OCTETS: usize = 64 << 10;

/// What one exchange may still cost.
pub(crate) struct Budget {
    packets: usize,
    octets: usize,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self {
            packets: MAX_PACKETS,
            octets: MAX_OCTETS,
        }
    }

    /// Takes a packet into account. Returns whether there was room for it.
    pub(crate) fn take(&mut self, octets: usize) -> bool {
        let packets = self.packets.checked_sub(1);
        let octets = self.octets.checked_sub(octets);
        let (Some(packets), Some(octets)) = (packets, octets) else {
            return false;
        };
        (self.packets, self.octets) = (packets, octets);
        true
    }
}
