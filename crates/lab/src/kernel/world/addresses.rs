//! The addresses of a road: the testbed's.

use std::net::Ipv4Addr;

/// The station's address behind a NAT.
pub const STATION: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The NAT's towards the world, or the station's without one.
pub const NAT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The gateway's towards the world.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The server's, behind the gateway.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 2);
/// Of the server's TCP: iperf3's.
pub const SERVER_PORT: u16 = 5201;
/// Inner addresses, or addresses that stand for peers in transport mode.
pub(super) const POOL: (Ipv4Addr, Ipv4Addr) =
    (Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 254));
