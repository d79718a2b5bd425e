//! GRE with IPv4 inside (RFC 2784 §2). Checksum, key and sequence number (RFC 1701) are read over;
//! we send none.

use super::checksum::checksum;
use crate::codec::{Malformed, Reader};

/// Octets of the header that we send.
pub const LEN: usize = 4;

/// The header that we send: no options, IPv4 follows.
pub const HEADER: [u8; LEN] = [0, 0, 0x08, 0x00];

/// Checks the header of `packet`, which begins with it, and returns the header's length.
pub fn check(packet: &[u8]) -> Result<usize, Malformed> {
    let mut r = Reader::new(packet);
    let flags = r.u16("GRE flags")?;
    if flags & VERSION != 0 {
        return Err(Malformed::Value("GRE version"));
    }
    // Of bits 1 to 5, RFC 1701's source routes and the first one of recursion control are refused,
    // bits 6 to 12 are ignored (RFC 2784 §2.3).
    if flags & (ROUTING | STRICT | RECURSION) != 0 {
        return Err(Malformed::Value("GRE flags"));
    }
    if r.u16("GRE protocol")? != ETHERTYPE_IPV4 {
        return Err(Malformed::Value("GRE protocol"));
    }
    if flags & CHECKSUM != 0 {
        r.u32("GRE checksum")?;
        if checksum(packet) != 0 {
            return Err(Malformed::Value("GRE checksum"));
        }
    }
    if flags & KEY != 0 {
        r.u32("GRE key")?;
    }
    if flags & SEQUENCE != 0 {
        r.u32("GRE sequence number")?;
    }
    Ok(packet.len() - r.len())
}

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const STRICT: u16 = 0x0800;
const RECURSION: u16 = 0x0400;
const VERSION: u16 = 0x0007;
const ETHERTYPE_IPV4: u16 = 0x0800;
