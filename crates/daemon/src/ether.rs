//! The link of a mobile node or agent: Ethernet frames with what Mobile IPv4 says there. That is
//! ARP, agent advertisements and solicitations, and registration messages whose link-layer address
//! matters. A filter in the kernel drops everything else.
//!
//! Frames are hostile input: what is not whole and right is ignored.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{MsgFlags, recv, send};
use tokio::io::unix::AsyncFd;
use wire::ip::checksum::Sum;
use wire::ip::{ipv4, protocol, udp};
use wire::mip4::PORT;
use wire::vnet::{Gso, VnetHeader};

use crate::sys::frame::{
    self, HEADER_BYTES, Instruction, JUMP_IF_EQUAL, JUMP_IF_SET, LOAD_BYTE, LOAD_BYTE_BEHIND,
    LOAD_HALF, LOAD_HALF_BEHIND, LOAD_HEADER_LEN, RETURN, is,
};

/// An IEEE 802 address.
pub type Mac = [u8; 6];

/// Everybody on the link.
pub const BROADCAST: Mac = [0xff; 6];
/// All hosts: where advertisements go (RFC 1112 §6.4 maps the group).
pub const ALL_HOSTS: (Mac, Ipv4Addr) = ([0x01, 0x00, 0x5e, 0, 0, 1], Ipv4Addr::new(224, 0, 0, 1));
/// All routers: where solicitations go.
pub const ALL_ROUTERS: (Mac, Ipv4Addr) = ([0x01, 0x00, 0x5e, 0, 0, 2], Ipv4Addr::new(224, 0, 0, 2));
/// All mobility agents (RFC 5944 §2.4).
const ALL_AGENTS: Mac = [0x01, 0x00, 0x5e, 0, 0, 11];

/// Octets of the longest frame that is read. Longer ones are no registration messages.
const FRAME_BYTES: usize = 2_048;
const ETHERNET_BYTES: usize = 14;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
/// The flag of a virtio-net header: the checksum is not complete yet.
const NEEDS_CHECKSUM: u8 = 1;
/// ARP for IPv4 over Ethernet, without its operation (RFC 826).
const ARP_START: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;
/// ICMP router advertisement and solicitation.
const AGENT_TYPES: [u8; 2] = [9, 10];

/// Keeps ARP, ICMP of types 9 and 10, and UDP to port 434, no fragments.
const FILTER: [Instruction; 16] = [
    is(LOAD_HALF, 0, 0, 12),
    is(JUMP_IF_EQUAL, 12, 0, ETHERTYPE_ARP as u32),
    is(JUMP_IF_EQUAL, 0, 12, ETHERTYPE_IPV4 as u32),
    is(LOAD_HALF, 0, 0, 20),
    is(JUMP_IF_SET, 10, 0, 0x3fff),
    is(LOAD_BYTE, 0, 0, 23),
    is(LOAD_HEADER_LEN, 0, 0, 14),
    is(JUMP_IF_EQUAL, 0, 3, protocol::ICMP as u32),
    is(LOAD_BYTE_BEHIND, 0, 0, 14),
    is(JUMP_IF_EQUAL, 4, 0, 9),
    is(JUMP_IF_EQUAL, 3, 4, 10),
    is(JUMP_IF_EQUAL, 0, 3, protocol::UDP as u32),
    is(LOAD_HALF_BEHIND, 0, 0, 16),
    is(JUMP_IF_EQUAL, 0, 1, PORT as u32),
    is(RETURN, 0, 0, u32::MAX),
    is(RETURN, 0, 0, 0),
];
/// Keeps IPv4 to everybody on the link. What stands behind it decides on the rest.
const BROADCASTS: [Instruction; 9] = [
    is(LOAD_HALF, 0, 0, 12),
    is(JUMP_IF_EQUAL, 0, 7, ETHERTYPE_IPV4 as u32),
    is(LOAD_HALF, 0, 0, 0),
    is(JUMP_IF_EQUAL, 0, 5, 0xffff),
    is(LOAD_HALF, 0, 0, 2),
    is(JUMP_IF_EQUAL, 0, 3, 0xffff),
    is(LOAD_HALF, 0, 0, 4),
    is(JUMP_IF_EQUAL, 0, 1, 0xffff),
    is(RETURN, 0, 0, u32::MAX),
];
/// What came over a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Somebody asks for the link-layer address of `target`.
    ArpRequest {
        /// Who asks: both addresses.
        from: (Mac, Ipv4Addr),
        /// Whom it asks for.
        target: Ipv4Addr,
    },
    /// An advertisement or solicitation, an ICMP message with TTL 1.
    Agent {
        /// Who sent it.
        from: (Mac, Ipv4Addr),
        /// The message.
        icmp: Vec<u8>,
    },
    /// A registration message to UDP port 434.
    Registration {
        /// Its sender's link-layer address.
        mac: Mac,
        /// Where it came from.
        from: SocketAddrV4,
        /// Where it was sent to.
        to: SocketAddrV4,
        /// Its TTL.
        ttl: u8,
        /// Its payload.
        payload: Vec<u8>,
    },
    /// A packet to everybody on the link, that is none of the others.
    Broadcast {
        /// Where it came from.
        from: Ipv4Addr,
        /// The broadcast address.
        to: Ipv4Addr,
        /// The packet.
        packet: Vec<u8>,
    },
}

/// A registration message on its way over a link.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    /// To this host on the link.
    pub mac: Mac,
    /// From this address.
    pub from: SocketAddrV4,
    /// To this address.
    pub to: SocketAddrV4,
    /// TTL.
    pub ttl: u8,
    /// The UDP payload.
    pub payload: &'a [u8],
}

/// One interface, which may come later.
pub struct Link {
    socket: AsyncFd<OwnedFd>,
    name: String,
    /// Which interface of this name is heard.
    index: Option<u32>,
}

/// Groups that are heard.
const GROUPS: [Mac; 3] = [ALL_HOSTS.0, ALL_ROUTERS.0, ALL_AGENTS];

impl Link {
    /// Opens an interface, with or without [`Heard::Broadcast`]. One that does not exist is heard
    /// once [`Link::follow`] finds it. Needs CAP_NET_RAW, and must run within a tokio runtime.
    pub fn open(name: &str, hears_broadcasts: bool) -> io::Result<Self> {
        let filter = match hears_broadcasts {
            true => [&BROADCASTS[..], &FILTER].concat(),
            false => FILTER.to_vec(),
        };
        let mut link = Self {
            socket: frame::watched(frame::open_filtered(&filter)?)?,
            name: name.to_owned(),
            index: None,
        };
        link.follow()?;
        Ok(link)
    }

    /// Interfaces come and go: hears the one that has the name now.
    pub fn follow(&mut self) -> io::Result<()> {
        let index = if_nametoindex(&*self.name).ok();
        if index == self.index {
            return Ok(());
        }
        self.index = index;
        if index.is_some() {
            frame::listen(self.socket.get_ref(), &self.name, &GROUPS)?;
            self.mac()?;
        }
        Ok(())
    }

    /// The index of the interface; none: there is none.
    pub fn index(&self) -> Option<u32> {
        self.index
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its link-layer address now: some programs change it while a link has no network.
    pub fn mac(&self) -> io::Result<Mac> {
        let own = frame::own_address(self.socket.get_ref().as_fd())?;
        own.ok_or_else(|| {
            let text = "it has no link-layer address: only Ethernet works";
            io::Error::new(io::ErrorKind::Unsupported, text)
        })
    }

    /// The next message. Cancel-safe.
    pub async fn hear(&self) -> io::Result<Heard> {
        let mut frame = [0; FRAME_BYTES];
        loop {
            let mut guard = self.socket.readable().await?;
            let received = guard.try_io(|socket| {
                let flags = MsgFlags::MSG_DONTWAIT;
                let fd = socket.get_ref().as_fd().as_raw_fd();
                recv(fd, &mut frame, flags).map_err(io::Error::from)
            });
            match received {
                Ok(Ok(len)) => {
                    // An interface that has just gone has no address.
                    let own = self.mac().ok();
                    if let Some(heard) = own.and_then(|own| read(&frame[..len], own)) {
                        return Ok(heard);
                    }
                }
                // The interface went down. It may come up again.
                Ok(Err(fault)) if fault.raw_os_error() == Some(nix::libc::ENETDOWN) => {}
                Ok(Err(fault)) => return Err(fault),
                Err(_would_block) => {}
            }
        }
    }

    /// Answers an ARP request: `address` is at our link-layer address.
    pub fn answer_arp(&self, asker: (Mac, Ipv4Addr), address: Ipv4Addr) -> io::Result<()> {
        let own = self.mac()?;
        self.send(&arp(own, asker.0, ARP_REPLY, (own, address), asker))
    }

    /// Tells everybody where `address` is: at that link-layer address, or here (RFC 5944 §4.6).
    pub fn announce(&self, place: Option<Mac>, address: Ipv4Addr) -> io::Result<()> {
        let own = self.mac()?;
        let at = (place.unwrap_or(own), address);
        let everybody = (BROADCAST, address);
        self.send(&arp(own, BROADCAST, ARP_REPLY, at, everybody))?;
        let nobody = ([0; 6], address);
        self.send(&arp(own, BROADCAST, ARP_REQUEST, at, nobody))
    }

    /// Sends an ICMP message with TTL 1 to a group.
    pub fn send_icmp(
        &self,
        source: Ipv4Addr,
        (mac, group): (Mac, Ipv4Addr),
        icmp: &[u8],
    ) -> io::Result<()> {
        let header = ipv4::Header {
            tos: 0,
            id: 0,
            dont_fragment: true,
            ttl: 1,
            protocol: protocol::ICMP,
            source,
            destination: group,
        };
        self.send(&packet(self.mac()?, mac, &header, icmp))
    }

    /// Sends a registration message to a host on the link.
    pub fn send_registration(&self, it: &Registration<'_>) -> io::Result<()> {
        let mut datagram = vec![0; 8 + it.payload.len()];
        datagram[8..].copy_from_slice(it.payload);
        udp::write_header(&mut datagram, it.from.port(), it.to.port());
        let sum = udp_sum(*it.from.ip(), *it.to.ip(), &datagram);
        let sum = if sum == 0 { 0xffff } else { sum };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        let header = ipv4::Header {
            tos: 0,
            id: 0,
            dont_fragment: true,
            ttl: it.ttl,
            protocol: protocol::UDP,
            source: *it.from.ip(),
            destination: *it.to.ip(),
        };
        self.send(&packet(self.mac()?, it.mac, &header, &datagram))
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        let fd = self.socket.get_ref().as_fd().as_raw_fd();
        send(fd, frame, MsgFlags::MSG_DONTWAIT)?;
        Ok(())
    }
}

/// Reads a frame behind its virtio-net header. None: it is not for us, or not right.
fn read(frame: &[u8], own: Mac) -> Option<Heard> {
    let (offload, frame) = frame.split_at_checked(HEADER_BYTES)?;
    let (header, payload) = frame.split_at_checked(ETHERNET_BYTES)?;
    let (to, from): (Mac, Mac) = (header[..6].try_into().ok()?, header[6..12].try_into().ok()?);
    let is_group = to[0] & 1 == 1;
    if !is_group && to != own || from[0] & 1 == 1 {
        return None;
    }
    match u16::from_be_bytes([header[12], header[13]]) {
        ETHERTYPE_ARP => read_arp(payload),
        ETHERTYPE_IPV4 => {
            let heard = read_packet(from, payload, offload[0] & NEEDS_CHECKSUM != 0);
            let broadcast = || read_broadcast(offload, frame).filter(|_| to == BROADCAST);
            heard.or_else(broadcast)
        }
        _ => None,
    }
}

fn read_arp(payload: &[u8]) -> Option<Heard> {
    let arp: &[u8; 28] = payload.first_chunk()?;
    if arp[..6] != ARP_START || arp[6..8] != [0, ARP_REQUEST] {
        return None;
    }
    let address = |at: usize| Ipv4Addr::new(arp[at], arp[at + 1], arp[at + 2], arp[at + 3]);
    Some(Heard::ArpRequest {
        from: (arp[8..14].try_into().ok()?, address(14)),
        target: address(24),
    })
}

/// A whole packet to everybody. The sender's device may have left its checksum to the receiver's.
fn read_broadcast(offload: &[u8], frame: &[u8]) -> Option<Heard> {
    let (offload, _) = VnetHeader::split(offload, HEADER_BYTES).ok()?;
    if offload.gso != Gso::None {
        return None;
    }
    let mut frame = frame.to_vec();
    offload.complete_checksum(&mut frame).ok()?;
    let mut packet = frame.split_off(ETHERNET_BYTES);
    let read = ipv4::Ipv4::new(&packet[..]).ok()?;
    let (from, to) = (read.source(), read.destination());
    let (is_right, length) = (read.has_valid_checksum(), read.total_len());
    // Short frames are padded.
    packet.truncate(length);
    is_right.then_some(Heard::Broadcast { from, to, packet })
}

fn read_packet(mac: Mac, payload: &[u8], is_unsummed: bool) -> Option<Heard> {
    let packet = ipv4::Ipv4::new(payload).ok()?;
    if packet.is_fragment() || !packet.has_valid_checksum() {
        return None;
    }
    let (source, destination) = (packet.source(), packet.destination());
    if packet.protocol() == protocol::ICMP {
        let kind = packet.payload().first();
        let is_agents = kind.is_some_and(|kind| AGENT_TYPES.contains(kind));
        // RFC 5944 §2.1: so it comes from this link.
        return (is_agents && packet.ttl() == 1).then(|| Heard::Agent {
            from: (mac, source),
            icmp: packet.payload().to_vec(),
        });
    }
    let datagram = udp::Udp::new(packet.payload()).ok()?;
    let whole = &packet.payload()[..datagram.total_len()];
    let is_right =
        is_unsummed || datagram.checksum() == 0 || udp_sum(source, destination, whole) == 0;
    let is_ours = packet.protocol() == protocol::UDP && datagram.destination_port() == PORT;
    (is_ours && is_right).then(|| Heard::Registration {
        mac,
        from: SocketAddrV4::new(source, datagram.source_port()),
        to: SocketAddrV4::new(destination, datagram.destination_port()),
        ttl: packet.ttl(),
        payload: datagram.payload().to_vec(),
    })
}

fn udp_sum(source: Ipv4Addr, destination: Ipv4Addr, datagram: &[u8]) -> u16 {
    let (source, destination) = (source.into(), destination.into());
    let sum = Sum::pseudo_header(source, destination, protocol::UDP, datagram.len());
    sum.bytes(datagram).finish()
}

/// A frame with an ARP message: who sends it, and about whom.
fn arp(
    from: Mac,
    to: Mac,
    operation: u8,
    sender: (Mac, Ipv4Addr),
    target: (Mac, Ipv4Addr),
) -> Vec<u8> {
    let mut frame = start(from, to, ETHERTYPE_ARP);
    frame.extend_from_slice(&ARP_START);
    frame.extend_from_slice(&[0, operation]);
    for (mac, address) in [sender, target] {
        frame.extend_from_slice(&mac);
        frame.extend_from_slice(&address.octets());
    }
    frame
}

/// A frame with an IPv4 packet.
fn packet(from: Mac, to: Mac, header: &ipv4::Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = start(from, to, ETHERTYPE_IPV4);
    let at = frame.len();
    frame.resize(at + ipv4::HEADER_LEN, 0);
    frame.extend_from_slice(payload);
    header.write(&mut frame[at..]);
    frame
}

fn start(from: Mac, to: Mac, ethertype: u16) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&from);
    frame.extend_from_slice(&ethertype.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Mac = [2, 0, 0, 0, 0, 1];
    const THEIRS: Mac = [2, 0, 0, 0, 0, 2];
    const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
    const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);

    fn datagram(port: u16, checksum: u16) -> Vec<u8> {
        let mut datagram = vec![0; 12];
        datagram[8..].copy_from_slice(b"text");
        udp::write_header(&mut datagram, 1_000, port);
        let sum = udp_sum(HOME, AGENT, &datagram);
        datagram[6..8].copy_from_slice(&(sum ^ checksum).to_be_bytes());
        let header = ipv4::Header {
            tos: 0,
            id: 0,
            dont_fragment: true,
            ttl: 255,
            protocol: protocol::UDP,
            source: HOME,
            destination: AGENT,
        };
        packet(THEIRS, OURS, &header, &datagram)
    }

    #[test]
    fn a_registration_is_heard_with_the_address_of_its_sender() {
        let heard = read(&datagram(PORT, 0), OURS);
        assert_eq!(
            heard,
            Some(Heard::Registration {
                mac: THEIRS,
                from: SocketAddrV4::new(HOME, 1_000),
                to: SocketAddrV4::new(AGENT, PORT),
                ttl: 255,
                payload: b"text".to_vec(),
            })
        );
        assert_eq!(read(&datagram(PORT, 0), THEIRS), None, "to another host");
        assert_eq!(read(&datagram(PORT, 1), OURS), None, "a wrong checksum");
        let mut unsummed = datagram(PORT, 1);
        unsummed[0] = NEEDS_CHECKSUM;
        assert!(read(&unsummed, OURS).is_some(), "the device computes it");
    }

    #[test]
    fn arp_is_read_as_it_is_written() {
        let asks = arp(
            THEIRS,
            BROADCAST,
            ARP_REQUEST,
            (THEIRS, AGENT),
            ([0; 6], HOME),
        );
        let heard = Heard::ArpRequest {
            from: (THEIRS, AGENT),
            target: HOME,
        };
        assert_eq!(read(&asks, OURS), Some(heard));
        let reply = arp(THEIRS, OURS, ARP_REPLY, (THEIRS, HOME), (OURS, AGENT));
        assert_eq!(read(&reply, OURS), None);
        assert_eq!(asks.len(), HEADER_BYTES + ETHERNET_BYTES + 28);
    }

    #[test]
    fn only_icmp_of_this_link_is_heard() {
        for (ttl, is_heard) in [(1, true), (2, false), (255, false)] {
            let header = ipv4::Header {
                tos: 0,
                id: 0,
                dont_fragment: false,
                ttl,
                protocol: protocol::ICMP,
                source: AGENT,
                destination: ALL_HOSTS.1,
            };
            let icmp = wire::mip4::SOLICITATION;
            let frame = packet(THEIRS, ALL_HOSTS.0, &header, &icmp);
            assert_eq!(read(&frame, OURS).is_some(), is_heard, "{ttl}");
        }
    }

    #[test]
    fn broadcasts_are_read_without_padding_and_with_their_checksum() {
        let mut frame = datagram(1_900, 0);
        frame[HEADER_BYTES..][..6].copy_from_slice(&BROADCAST);
        let whole = frame[HEADER_BYTES + ETHERNET_BYTES..].to_vec();
        frame.extend_from_slice(&[0; 18]);
        let heard = Some(Heard::Broadcast {
            from: HOME,
            to: AGENT,
            packet: whole,
        });
        assert_eq!(read(&frame, OURS), heard);
        // The device was to complete it.
        let at = HEADER_BYTES + ETHERNET_BYTES + ipv4::HEADER_LEN;
        let sum = Sum::pseudo_header(HOME.into(), AGENT.into(), protocol::UDP, 12);
        frame[at + 6..at + 8].copy_from_slice(&sum.folded().to_be_bytes());
        frame.truncate(at + 12);
        frame[0] = NEEDS_CHECKSUM;
        frame[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        frame[8..10].copy_from_slice(&6_u16.to_ne_bytes());
        assert_eq!(read(&frame, OURS), heard);
        // To one host, it is none.
        frame[HEADER_BYTES..][..6].copy_from_slice(&OURS);
        assert_eq!(read(&frame, OURS), None);
    }

    #[test]
    fn a_cut_or_damaged_frame_does_no_harm() {
        let whole = datagram(PORT, 0);
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], OURS), None, "{end}");
        }
        for at in 0..whole.len() * 8 {
            let mut other = whole.clone();
            other[at / 8] ^= 1 << (at % 8);
            let _ = read(&other, OURS);
        }
    }
}
