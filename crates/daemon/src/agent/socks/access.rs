//! Who may use the tunnel: every program of this machine can connect to loopback, also those of
//! other users.
//!
//! By default it takes a password, drawn anew at each start: it is 128 bits, so nobody guesses it,
//! and only who has read it can use the tunnel. Browsers do not know passwords for SOCKS: for them,
//! [`Access::SameUser`] lets in the programs of the user that started it, by the kernel's table of
//! connections. Root can do either, and much else.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crypto::hash::is_equal;
use nix::unistd::geteuid;
use zeroize::Zeroizing;

use crate::sys::random;

/// Who may use the tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Who has the name and the password (RFC 1929).
    #[default]
    Password,
    /// Programs of our own user, without a password.
    SameUser,
}

/// Name and password.
#[derive(Clone)]
pub struct Login {
    password: Zeroizing<String>,
}

/// The name beside the password.
pub const NAME: &str = "caravan";
/// Octets of a password, before they become text.
const PASSWORD_BYTES: usize = 16;

impl Login {
    pub(super) fn random() -> io::Result<Self> {
        let mut octets = Zeroizing::new([0u8; PASSWORD_BYTES]);
        random(&mut octets[..])?;
        let mut password = Zeroizing::new(String::with_capacity(2 * PASSWORD_BYTES));
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        for octet in &octets[..] {
            password.push(digit(octet >> 4));
            password.push(digit(octet & 15));
        }
        Ok(Self { password })
    }

    /// The password, for the person who may use it.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Whether a program has said the right ones.
    pub(super) fn is_right(&self, login: &wire::socks::Login<'_>) -> bool {
        let is_name = is_equal(login.name, NAME.as_bytes());
        is_equal(login.password, self.password.as_bytes()) && is_name
    }
}

/// Whether the program at the other end of a connection on loopback runs as our own user.
pub(super) fn is_of_our_user(program: SocketAddr, own: SocketAddr) -> bool {
    let table = match program {
        SocketAddr::V4(_) => "/proc/self/net/tcp",
        SocketAddr::V6(_) => "/proc/self/net/tcp6",
    };
    // Without /proc nobody can say.
    let text = std::fs::read_to_string(table).unwrap_or_default();
    owner(&text, program, own) == Some(geteuid().as_raw())
}

/// The user of the socket between these two ends, in a table of proc_net_tcp(5). A socket without
/// an inode has been closed, and belongs to nobody.
fn owner(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, _, _, _, _, user, _, inode, ..] = fields[..] else {
            return None;
        };
        let is_it = end(local) == Some(from) && end(remote) == Some(to) && inode != "0";
        is_it.then(|| user.parse().ok()).flatten()
    })
}

/// An end as the table writes it: words of 32 bits in the machine's order, and the port.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(8 * at..8 * at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let address: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (at, octets) in octets.chunks_exact_mut(4).enumerate() {
                octets.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_says_whose_a_connection_is() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else {
                continue;
            };
            let own = listener.local_addr().expect("bound");
            let program = TcpStream::connect(own).expect("connected");
            let (accepted, from) = listener.accept().expect("accepted");
            assert!(is_of_our_user(from, own), "{any}");
            let mut stranger = from;
            stranger.set_port(from.port() ^ 1);
            assert!(!is_of_our_user(stranger, own), "{any}");
            drop((program, accepted));
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_table_is_read_and_a_closed_socket_is_nobodys() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt \
                     uid  timeout inode\n   \
                     1: 0100007F:B3C4 0100007F:0438 01 00000000:00000000 00:00000000 00000000  \
                     1000        0 22 1 0 20 4 30 10 -1\n   \
                     2: 0100007F:B3C5 0100007F:0438 06 00000000:00000000 03:00000000 00000000  \
                     0        0 0 3 0\n   \
                     3: nonsense\n";
        let to = "127.0.0.1:1080".parse().expect("an address");
        let of = |port| owner(table, SocketAddr::new([127, 0, 0, 1].into(), port), to);
        assert_eq!(of(0xb3c4), Some(1000));
        assert_eq!(of(0xb3c5), None);
        assert_eq!(of(0xb3c6), None);
        let six = end("00000000000000000000000001000000:0050");
        assert_eq!(six, "[::1]:80".parse().ok());
    }

    #[test]
    fn only_the_whole_password_is_right_and_no_two_are_alike() {
        let login = Login::random().expect("random octets");
        assert_eq!(login.password().len(), 2 * PASSWORD_BYTES);
        let said = |name, password| {
            let said = wire::socks::Login { name, password };
            login.is_right(&said)
        };
        let right = login.password().as_bytes();
        assert!(said(NAME.as_bytes(), right));
        assert!(!said(b"another", right));
        assert!(!said(NAME.as_bytes(), &right[1..]));
        let other = Login::random().expect("random octets");
        assert!(!said(NAME.as_bytes(), other.password().as_bytes()));
    }
}
