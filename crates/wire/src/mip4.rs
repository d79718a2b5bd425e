//! Mobile IPv4: registration (RFC 5944 §3), its extensions, agent discovery (RFC 5944 §2),
//! revocation (RFC 3543 §3) and the header of a tunnel in UDP (RFC 3519 §3.3).
//!
//! Left out: authenticators (the engine computes them), tunnels (`ip::minimal`, `ip::gre`), and
//! what a message means. Where an extension may stand is checked by who reads it.

mod advertisement;
mod extension;
mod registration;
mod revocation;
mod tunnel;

pub use advertisement::{
    AgentAdvertisement, AgentFlags, MAX_CARE_OF_ADDRESSES, MAX_ROUTERS, MobilityAgent, Router,
    SOLICITATION, is_solicitation,
};
pub use extension::{
    Authentication, Authenticator, Extension, Located, MAX_EXTENSIONS, OUR_VENDOR, UdpTunnelReply,
    UdpTunnelRequest, extensions,
};
pub use registration::{Code, INFINITE, Reply, Request, RequestFlags};
pub use revocation::{Revocation, RevocationAcknowledgment};
pub use tunnel::{TUNNEL_HEADER_LEN, TunnelHeader};

use crate::codec::{Malformed, Reader};

/// The UDP port of home and foreign agents (RFC 5944 §3.1).
pub const PORT: u16 = 434;

/// A control message, without its extensions: they begin at the offset that [`Message::parse`]
/// returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Type 1.
    Request(Request),
    /// Type 3.
    Reply(Reply),
    /// Type 4. A packet follows, not extensions.
    Tunnel(TunnelHeader),
    /// Type 7.
    Revocation(Revocation),
    /// Type 15.
    RevocationAcknowledgment(RevocationAcknowledgment),
}

impl Message {
    /// Reads the fixed part of a UDP payload. Returns it and its length.
    pub fn parse(datagram: &[u8]) -> Result<(Self, usize), Malformed> {
        let mut r = Reader::new(datagram);
        let message = match r.u8("Mobile IP message type")? {
            registration::REQUEST => Self::Request(Request::read(&mut r)?),
            registration::REPLY => Self::Reply(Reply::read(&mut r)?),
            tunnel::TUNNEL => Self::Tunnel(TunnelHeader::read(&mut r)?),
            revocation::REVOCATION => Self::Revocation(Revocation::read(&mut r)?),
            revocation::ACKNOWLEDGMENT => {
                Self::RevocationAcknowledgment(RevocationAcknowledgment::read(&mut r)?)
            }
            _ => return Err(Malformed::Value("Mobile IP message type")),
        };
        Ok((message, datagram.len() - r.len()))
    }
}

#[cfg(test)]
mod tests;
