//! Keepalives of tunnels in UDP, without which a NAT forgets its entry (RFC 3519 §4.9): ICMP echo
//! requests through the tunnel device, from the home address to the home agent.
//!
//! A mobile node counts the answers. A foreign agent does not: they go to its visitor.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use engine::time::{Duration, Instant};
use socket2::{Domain, Protocol, Socket, Type};
use wire::ip::checksum::checksum;
use wire::ip::icmp::V4_ECHO_REQUEST;
use wire::ip::{ipv4, protocol};

use crate::sys::frame::{self, Instruction};

/// Requests without an answer before the tunnel is said to be silent, and how far apart.
const TRIES: u16 = 3;
const APART: Duration = Duration::from_secs(1);
/// Octets that are read of an answer: two IP headers are longer than an answer is.
const ANSWER_BYTES: usize = 128;
const ICMP_BYTES: usize = 8;
const ECHO_REPLY: u8 = 0;
/// By it, answers to us are told from those to other programs.
const IDENTIFIER: u16 = u16::from_be_bytes(*b"MN");

/// Keeps echo replies with our identifier. Offsets are those of the IP packet.
const FILTER: [Instruction; 7] = [
    frame::is(frame::LOAD_HEADER_LEN, 0, 0, 0),
    frame::is(frame::LOAD_BYTE_BEHIND, 0, 0, 0),
    frame::is(frame::JUMP_IF_EQUAL, 0, 3, ECHO_REPLY as u32),
    frame::is(frame::LOAD_HALF_BEHIND, 0, 0, 4),
    frame::is(frame::JUMP_IF_EQUAL, 0, 1, IDENTIFIER as u32),
    frame::is(frame::RETURN, 0, 0, u32::MAX),
    frame::is(frame::RETURN, 0, 0, 0),
];

/// A socket in the tunnel device.
pub(super) struct Echoes(Socket);

impl Echoes {
    /// Needs CAP_NET_RAW.
    pub(super) fn open(tun: &str) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
        frame::attach(socket.as_fd(), &FILTER)?;
        socket.bind_device(Some(tun.as_bytes()))?;
        socket.set_header_included_v4(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Sends a request. One that is lost is followed by others.
    pub(super) fn ask(&self, home: Ipv4Addr, agent: Ipv4Addr, sequence: u16) {
        let _ = self
            .0
            .send_to(&request(home, agent, sequence), &to(agent).into());
    }

    /// The numbers of the requests that were answered since the last call.
    fn answers(&self) -> impl Iterator<Item = u16> {
        core::iter::from_fn(|| {
            let mut packet = [0; ANSWER_BYTES];
            let len = (&self.0).read(&mut packet).ok()?;
            Some(answer(&packet[..len]))
        })
        .flatten()
    }
}

/// The keepalives of a mobile node.
#[derive(Debug, Default)]
pub(super) struct Keepalive {
    /// None: there is no tunnel in UDP.
    every: Option<Duration>,
    due: Instant,
    sequence: u16,
    /// Requests since the last answer.
    asked: u16,
    /// The home agent waits for them.
    is_awaited: bool,
}

impl Keepalive {
    /// A registration holds that wants keepalives, or none.
    pub(super) fn begin(&mut self, seconds: u16, now: Instant) {
        self.every = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        self.asked = 0;
        self.is_awaited = false;
        self.due = self.every.map_or(now, |every| now + every);
    }

    /// The home agent waits for the first one. If it does not answer, only later ones ask for a new
    /// registration, which would bring us here again.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.asked = 0;
        self.is_awaited = true;
        self.due = now;
    }

    /// When [`Self::keep`] is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.every.map(|_| self.due)
    }

    /// Sends a request if one is due. Whether the other end is silent.
    pub(super) fn keep(
        &mut self,
        echoes: &Echoes,
        (home, agent): (Ipv4Addr, Ipv4Addr),
        now: Instant,
    ) -> bool {
        let Some(every) = self.every.filter(|_| self.due <= now) else {
            return false;
        };
        let asked = self.asked;
        let is_ours = |number: u16| self.sequence.wrapping_sub(number) < asked;
        let is_answered = echoes.answers().filter(|it| is_ours(*it)).count() > 0;
        if is_answered || asked == TRIES {
            self.asked = 0;
            self.due = now + every;
            let was_awaited = core::mem::take(&mut self.is_awaited);
            return !is_answered && !was_awaited;
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.asked += 1;
        self.due = now + APART;
        echoes.ask(home, agent, self.sequence);
        false
    }
}

fn to(agent: Ipv4Addr) -> SocketAddrV4 {
    SocketAddrV4::new(agent, 0)
}

/// A packet with an ICMP echo request (RFC 792).
fn request(home: Ipv4Addr, agent: Ipv4Addr, sequence: u16) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN + ICMP_BYTES];
    let icmp = &mut packet[ipv4::HEADER_LEN..];
    icmp[0] = V4_ECHO_REQUEST;
    icmp[4..6].copy_from_slice(&IDENTIFIER.to_be_bytes());
    icmp[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = checksum(icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = ipv4::Header {
        tos: 0,
        id: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::ICMP,
        source: home,
        destination: agent,
    };
    header.write(&mut packet);
    packet
}

/// The number of an answer.
fn answer(packet: &[u8]) -> Option<u16> {
    let packet = ipv4::Ipv4::new(packet).ok()?;
    let icmp: &[u8; ICMP_BYTES] = packet.payload().first_chunk()?;
    let is_ours = packet.protocol() == protocol::ICMP
        && icmp[0] == ECHO_REPLY
        && icmp[4..6] == IDENTIFIER.to_be_bytes();
    is_ours.then(|| u16::from_be_bytes([icmp[6], icmp[7]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
    const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);

    #[test]
    fn only_an_answer_with_our_identifier_is_one() {
        let mut packet = request(AGENT, HOME, 7);
        assert_eq!(answer(&packet), None, "a request");
        packet[ipv4::HEADER_LEN] = ECHO_REPLY;
        assert_eq!(answer(&packet), Some(7));
        for len in 0..packet.len() {
            assert_eq!(answer(&packet[..len]), None, "{len}");
        }
        packet[ipv4::HEADER_LEN + 4] ^= 1;
        assert_eq!(answer(&packet), None, "of another program");
    }

    #[test]
    fn a_registration_without_keepalives_has_no_deadline() {
        let mut keepalive = Keepalive::default();
        keepalive.begin(10, Instant(0));
        assert_eq!(keepalive.due(), Some(Instant(0) + Duration::from_secs(10)));
        keepalive.hurry(Instant(0));
        assert_eq!(keepalive.due(), Some(Instant(0)));
        keepalive.begin(0, Instant(0));
        assert_eq!(keepalive.due(), None);
    }
}
