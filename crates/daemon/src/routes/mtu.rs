//! The MTU of our own link towards a peer: that of the route's device, or a smaller one that the
//! administrator gave the route. Path MTUs that the kernel learned from ICMP are left out on
//! purpose: anybody can send ICMP.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::Socket;

use super::ask::{self, ask, open};

/// How a packet leaves this host: through this device, to this router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The number of the device.
    pub device: Option<u32>,
    router: Option<RouteAddress>,
}

/// The next hop of datagrams of this mark towards this address; none if there is no route.
pub fn next_hop(remote: IpAddr, mark: Option<u32>) -> Option<NextHop> {
    let route = get_route(&open().ok()?, remote, mark, RouteFlags::empty()).ok()?;
    let mut attributes = route.attributes.iter();
    Some(NextHop {
        device: device(&route),
        router: attributes.find_map(|attribute| match attribute {
            RouteAttribute::Gateway(address) => Some(address.clone()),
            _ => None,
        }),
    })
}

/// The interface by which datagrams of this mark leave, from one address to another.
pub fn leaves_by(from: Ipv4Addr, to: Ipv4Addr, mark: u32) -> Option<u32> {
    let mut request = route_request(to.into(), Some(mark), RouteFlags::empty());
    add_source(&mut request, from);
    device(&ask_for(&open().ok()?, request).ok()?)
}

/// Whether a route for datagrams of this mark leads by this interface. The kernel would take any
/// address for a neighbour there, so only an entry of a table counts.
pub(super) fn leads_by(interface: u32, remote: IpAddr, mark: u32) -> bool {
    let mut request = route_request(remote, Some(mark), RouteFlags::FibMatch);
    request.attributes.push(RouteAttribute::Oif(interface));
    let entry = open().and_then(|socket| ask_for(&socket, request)).ok();
    entry.as_ref().and_then(device) == Some(interface)
}

/// How long the MTU of a device counts as known.
const KNOWN: Duration = Duration::from_secs(1);

/// Asks for the MTU of our own link. Each new tunnel does, so the socket is kept, and for a second
/// what the last device carries.
#[derive(Default)]
pub struct LinkMtus {
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    socket: Socket,
    device: Option<Device>,
}

/// What a device carries, and since when we know.
#[derive(Clone, Copy)]
struct Device {
    index: u32,
    mtu: u32,
    since: Instant,
}

impl LinkMtus {
    /// The MTU of our own link towards this address, for datagrams of this mark. `own`: what they
    /// are from, where a rule may tell them by that.
    pub fn of(
        &self,
        (own, remote): (Option<Ipv4Addr>, IpAddr),
        mark: Option<u32>,
    ) -> io::Result<u16> {
        let mut held = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // After an error the next answer may be that of an earlier question.
        let mut kept = match held.take() {
            Some(kept) => kept,
            None => Kept {
                socket: open()?,
                device: None,
            },
        };
        let mtu = link_mtu(&mut kept, (own, remote), mark)?;
        *held = Some(kept);
        Ok(mtu)
    }

    /// The same, but nothing that is known counts.
    pub fn now(&self, ends: (Option<Ipv4Addr>, IpAddr), mark: Option<u32>) -> io::Result<u16> {
        let mut held = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = held.as_mut() {
            kept.device = None;
        }
        drop(held);
        self.of(ends, mark)
    }
}

fn link_mtu(
    kept: &mut Kept,
    (own, remote): (Option<Ipv4Addr>, IpAddr),
    mark: Option<u32>,
) -> io::Result<u16> {
    let socket = &kept.socket;
    let ask = |flags| {
        let mut request = route_request(remote, mark, flags);
        match own {
            Some(own) => {
                add_source(&mut request, own);
                // The kernel refuses a source that is not ours, or not ours any more.
                ask_for(socket, request)
                    .or_else(|_| ask_for(socket, route_request(remote, mark, flags)))
            }
            None => ask_for(socket, request),
        }
    };
    // The entry as it is in the table. A kernel without this flag (before 4.15) may include ICMP.
    let entry = ask(RouteFlags::FibMatch).ok();
    // An entry of several routers names no device: one of them is chosen for each address.
    let device = match entry.as_ref().and_then(device) {
        Some(device) => device,
        None => {
            let chosen = ask(RouteFlags::empty())?;
            device(&chosen).ok_or(io::ErrorKind::NotFound)?
        }
    };
    let known = kept.device;
    let known = known.filter(|it| it.index == device && it.since.elapsed() < KNOWN);
    let of_device = match known {
        Some(known) => known.mtu,
        None => device_mtu(socket, device)?,
    };
    kept.device = known.or_else(|| {
        Some(Device {
            index: device,
            mtu: of_device,
            since: Instant::now(),
        })
    });
    let of_route = entry.as_ref().and_then(route_mtu);
    let mtu = of_route.map_or(of_device, |mtu| mtu.min(of_device));
    Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
}

/// The number of the device by which a route leads.
fn device(route: &RouteMessage) -> Option<u32> {
    let mut attributes = route.attributes.iter();
    attributes.find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    })
}

fn route_mtu(entry: &RouteMessage) -> Option<u32> {
    let metrics = entry
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Metrics(metrics) => Some(metrics),
            _ => None,
        });
    metrics?.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
        _ => None,
    })
}

fn get_route(
    socket: &Socket,
    remote: IpAddr,
    mark: Option<u32>,
    flags: RouteFlags,
) -> io::Result<RouteMessage> {
    ask_for(socket, route_request(remote, mark, flags))
}

fn route_request(remote: IpAddr, mark: Option<u32>, flags: RouteFlags) -> RouteMessage {
    let mut request = RouteMessage::default();
    let (family, length, address) = match remote {
        IpAddr::V4(v4) => (AddressFamily::Inet, 32, RouteAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(v6)),
    };
    request.header.address_family = family;
    request.header.destination_prefix_length = length;
    request.header.flags = flags;
    request
        .attributes
        .push(RouteAttribute::Destination(address));
    request.attributes.extend(mark.map(RouteAttribute::Mark));
    request
}

/// Asks for what is from this address.
fn add_source(request: &mut RouteMessage, from: Ipv4Addr) {
    request.header.source_prefix_length = 32;
    let source = RouteAttribute::Source(RouteAddress::Inet(from));
    request.attributes.push(source);
}

fn ask_for(socket: &Socket, request: RouteMessage) -> io::Result<RouteMessage> {
    match ask(socket, RouteNetlinkMessage::GetRoute(request))? {
        RouteNetlinkMessage::NewRoute(route) => Ok(route),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn device_mtu(socket: &Socket, index: u32) -> io::Result<u32> {
    let link = ask::link(socket, index)?;
    let mtu = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
    mtu.ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_from_here_to_here_leaves_by_the_loopback_interface() {
        let local = Ipv4Addr::LOCALHOST;
        let index = nix::net::if_::if_nametoindex("lo").ok();
        assert_eq!(leaves_by(local, Ipv4Addr::new(127, 0, 0, 9), 0), index);
        let strange = Ipv4Addr::new(192, 0, 2, 77);
        assert_eq!(leaves_by(strange, local, 0), None, "not an address of ours");
    }

    #[test]
    fn loopback_carries_what_its_device_does() {
        for (remote, least) in [("127.0.0.1", 1_280), ("::1", 1_280)] {
            let remote: IpAddr = remote.parse().expect("an address");
            let is_there = std::net::UdpSocket::bind((remote, 0)).is_ok();
            let asked = LinkMtus::default();
            // The second time on the same socket, as one that is known.
            for ask in [LinkMtus::of, LinkMtus::of, LinkMtus::now] {
                let mtu = |own| ask(&asked, (own, remote), None).expect("a route");
                assert!(!is_there || mtu(None) >= least);
                // From no address of ours, too.
                let strange = Some(Ipv4Addr::new(192, 0, 2, 77));
                assert!(!is_there || mtu(strange) >= least);
            }
        }
    }
}
