//! Resolves a gateway's name (RFC 1035).
//!
//! The system resolver comes first. If it finds nothing, this module asks the host's resolvers with
//! datagrams that carry our mark: while a full tunnel is down, blocks refuse the datagrams of all
//! other programs, and its gateway must still be found. Left out: TCP, search lists, names that
//! only other services of the host know.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::dns::backup::RESOLV_CONF;
use crate::sys::random;
use crate::users::IS_STATIC;

/// The resolvers behind systemd-resolved's own, which only forwards.
const BEHIND_RESOLVED: &str = "/run/systemd/resolve/resolv.conf";
const HOSTS: &str = "/etc/hosts";
const PORT: u16 = 53;
/// Resolvers to ask, and how long each may take for one question.
const RESOLVERS_MAX: usize = 3;
const PATIENCE: Duration = Duration::from_secs(1);
/// Addresses of one name.
const ADDRESSES_MAX: usize = 16;
/// A datagram without EDNS (RFC 1035 §2.3.4).
const DATAGRAM_BYTES_MAX: usize = 512;
const HEADER_BYTES: usize = 12;
/// Octets of a record's type, class, time to live and length, behind its name.
const RECORD_BYTES: usize = 10;

/// The type of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    V4 = 1,
    V6 = 28,
}

/// The addresses of a name. On failure, the system's reason.
pub fn addresses(name: &str, port: u16, mark: u32) -> io::Result<Vec<SocketAddr>> {
    let fault = match by_system(name, port) {
        Ok(found) => return Ok(found),
        Err(fault) => fault,
    };
    let files = [RESOLV_CONF, BEHIND_RESOLVED].map(fs::read_to_string);
    let texts: Vec<String> = files.into_iter().flatten().collect();
    for resolver in resolvers(&texts).into_iter().take(RESOLVERS_MAX) {
        // A silent resolver is not asked again.
        let Ok(mut found) = ask(resolver, name, Kind::V4, mark) else {
            continue;
        };
        found.extend(ask(resolver, name, Kind::V6, mark).unwrap_or_default());
        if !found.is_empty() {
            let found = found.into_iter().take(ADDRESSES_MAX);
            return Ok(found.map(|ip| SocketAddr::new(ip, port)).collect());
        }
    }
    Err(fault)
}

/// What the C library's name service says. A static program reads /etc/hosts alone: it must not
/// load plugins, see [`crate::users`].
fn by_system(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if !IS_STATIC {
        return (name, port).to_socket_addrs().map(Iterator::collect);
    }
    let text = fs::read_to_string(HOSTS).unwrap_or_default();
    let mut found = in_hosts(&text, name);
    found.extend(name.parse::<IpAddr>().ok());
    match found.is_empty() {
        true => Err(io::Error::other(format!(
            "neither {HOSTS} nor a resolver of {RESOLV_CONF} knows {name}"
        ))),
        false => Ok(found
            .into_iter()
            .map(|ip| SocketAddr::new(ip, port))
            .collect()),
    }
}

/// The addresses of a name in hosts(5).
fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words
            .any(|word| word.eq_ignore_ascii_case(name))
            .then_some(address)
    };
    lines.filter_map(of_line).collect()
}

/// The resolvers in these files, except the host's own, which was already asked: but by no static
/// program.
fn resolvers(texts: &[String]) -> Vec<IpAddr> {
    let lines = texts.iter().flat_map(|text| text.lines());
    let named = lines.filter_map(|line| line.trim().strip_prefix("nameserver"));
    let addresses = named.filter_map(|word| word.trim().parse().ok());
    let mut found: Vec<IpAddr> = Vec::new();
    for address in addresses.filter(|address: &IpAddr| IS_STATIC || !address.is_loopback()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// Sends one question to one resolver.
fn ask(resolver: IpAddr, name: &str, kind: Kind, mark: u32) -> io::Result<Vec<IpAddr>> {
    let mut id = [0; 2];
    random(&mut id)?;
    let Some(question) = question(id, name, kind) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let to = SocketAddr::new(resolver, PORT);
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    // Without the right to mark, there are no blocks of ours either.
    let _ = socket.set_mark(mark);
    // From here on, datagrams of others are not received.
    socket.connect(&to.into())?;
    let socket = UdpSocket::from(socket);
    socket.send(&question)?;
    let until = Instant::now() + PATIENCE;
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let length = socket.recv(&mut datagram)?;
        if let Some(found) = answer(&datagram[..length], &question, kind) {
            return Ok(found);
        }
    }
}

/// RFC 1035 §4.1.1, §4.1.2. `None` if the name is invalid.
fn question(id: [u8; 2], name: &str, kind: Kind) -> Option<Vec<u8>> {
    // One question, with recursion desired.
    let mut out = vec![id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.trim_end_matches('.').split('.') {
        if !(1..=63).contains(&label.len()) || !label.is_ascii() {
            return None;
        }
        out.push(label.len() as u8);
        out.extend(label.bytes());
    }
    out.push(0);
    out.extend([0, kind as u8, 0, 1]);
    (out.len() <= HEADER_BYTES + 255 + 4).then_some(out)
}

/// The addresses in the answer to this question. `None` if the datagram is something else; the
/// answer may still come.
fn answer(datagram: &[u8], question: &[u8], kind: Kind) -> Option<Vec<IpAddr>> {
    let is_answer = datagram.get(2)? & 0x80 != 0;
    let asked = datagram.get(HEADER_BYTES..question.len())?;
    let is_ours = datagram[..2] == question[..2]
        && datagram[4..6] == [0, 1]
        && asked.eq_ignore_ascii_case(&question[HEADER_BYTES..]);
    if !is_answer || !is_ours {
        return None;
    }
    let count = u16::from_be_bytes([datagram[6], datagram[7]]);
    let mut at = question.len();
    let mut found = Vec::new();
    for _ in 0..count {
        let Some((kind_of, value, next)) = record(datagram, at) else {
            break;
        };
        match <[u8; 4]>::try_from(value) {
            Ok(octets) if kind == Kind::V4 && kind_of == Kind::V4 as u16 => {
                found.push(Ipv4Addr::from(octets).into());
            }
            _ => {}
        }
        match <[u8; 16]>::try_from(value) {
            Ok(octets) if kind == Kind::V6 && kind_of == Kind::V6 as u16 => {
                found.push(Ipv6Addr::from(octets).into());
            }
            _ => {}
        }
        at = next;
    }
    Some(found)
}

/// Type and data of the record at this offset, and the offset of the next one (RFC 1035 §4.1.3).
fn record(datagram: &[u8], at: usize) -> Option<(u16, &[u8], usize)> {
    let at = past_name(datagram, at)?;
    let fields = datagram.get(at..at + RECORD_BYTES)?;
    let length = usize::from(u16::from_be_bytes([fields[8], fields[9]]));
    let begins = at + RECORD_BYTES;
    let value = datagram.get(begins..begins + length)?;
    let kind = u16::from_be_bytes([fields[0], fields[1]]);
    let is_internet = fields[2..4] == [0, 1];
    Some((if is_internet { kind } else { 0 }, value, begins + length))
}

/// A name ends with an empty label or with a pointer (RFC 1035 §4.1.4).
fn past_name(datagram: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *datagram.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer: an alias, then its address.
    fn answered(question: &[u8]) -> Vec<u8> {
        let mut out = question.to_vec();
        out[2] = 0x81;
        out[7] = 2;
        out.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 3, 1, b'b', 0]);
        out.extend([1, b'b', 0, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
        out
    }

    #[test]
    fn a_file_of_hosts_is_read() {
        let text = "127.0.0.1 localhost\n# 192.0.2.9 sg.example\n192.0.2.1\tsg.example sg # ours\n\
                    2001:db8::1 SG.example\nnonsense sg\n";
        let found: Vec<String> = in_hosts(text, "sg.example")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(in_hosts(text, "sg").len(), 1);
        assert_eq!(in_hosts(text, "ours"), [IpAddr::V4(Ipv4Addr::LOCALHOST); 0]);
    }

    #[test]
    fn an_answer_behind_an_alias_is_read_and_a_cut_one_gives_nothing() {
        let asked = question([7, 9], "gw.example", Kind::V4).unwrap();
        let whole = answered(&asked);
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(answer(&whole, &asked, Kind::V4), Some(vec![address]));
        assert_eq!(answer(&whole, &asked, Kind::V6), Some(vec![]));
        for length in 0..whole.len() {
            let found = answer(&whole[..length], &asked, Kind::V4);
            assert!(found.unwrap_or_default().is_empty(), "{length}");
        }
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let asked = question([7, 9], "gw.example", Kind::V4).unwrap();
        for other in [
            question([7, 8], "gw.example", Kind::V4),
            question([7, 9], "gx.example", Kind::V4),
            question([7, 9], "gw.example", Kind::V6),
        ] {
            assert_eq!(answer(&answered(&other.unwrap()), &asked, Kind::V4), None);
        }
        assert_eq!(answer(&asked, &asked, Kind::V4), None, "a question itself");
    }

    #[test]
    fn names_that_cannot_be_asked_for_are_refused() {
        let long = "a".repeat(64);
        let many = "a.".repeat(200);
        for name in ["", "a..b", "\u{e4}.example", &long, &many] {
            assert_eq!(question([0; 2], name, Kind::V4), None, "{name}");
        }
        assert!(question([0; 2], "gw.example.", Kind::V6).is_some());
    }

    #[test]
    fn the_hosts_own_resolver_is_not_asked_again() {
        let texts = [
            "nameserver 127.0.0.53\n",
            "nameserver 192.0.2.53\nsearch x\n",
        ];
        let found = resolvers(&texts.map(str::to_owned));
        assert_eq!(found, ["192.0.2.53".parse::<IpAddr>().unwrap()]);
    }
}
