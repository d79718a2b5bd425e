//! `--control`: one order a line on standard input, one line of answer on standard output: `ok`,
//! JSON, or `refused:` and why.
//!
//! `status`; `session HEX` at a station and `session ADDRESS HEX` at an access point, with EAP's
//! key; `search` at a station: leave and look again; `end ADDRESS` at an access point.

use std::os::fd::AsFd;

use nix::errno::Errno;
use wire::ieee80211::Address;
use zeroize::{Zeroize, Zeroizing};

use crate::config::wireless::octets_of;

/// Octets of a line.
const MAX_LINE: usize = 512;

/// What the process is told.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// To report.
    Status,
    /// To look for another access point.
    Search,
    /// EAP's key, and whose it is.
    Session(Option<Address>, Zeroizing<Vec<u8>>),
    /// To end the link to a station.
    End(Address),
}

/// Standard input, line by line.
pub(super) struct Orders {
    held: Zeroizing<Vec<u8>>,
    is_too_long: bool,
    /// Whether more may come.
    pub(super) is_open: bool,
}

impl Orders {
    pub(super) fn new(is_open: bool) -> Self {
        Self {
            held: Zeroizing::new(Vec::with_capacity(MAX_LINE)),
            is_too_long: false,
            is_open,
        }
    }

    /// Reads what is there. Each line is an order, or why it is none.
    pub(super) fn read(&mut self, from: impl AsFd) -> Vec<Result<Order, String>> {
        let mut octets = Zeroizing::new([0; MAX_LINE]);
        match nix::unistd::read(from, &mut octets[..]) {
            Err(Errno::EAGAIN | Errno::EINTR) => Vec::new(),
            Ok(0) | Err(_) => {
                self.is_open = false;
                Vec::new()
            }
            Ok(len) => self.take(&octets[..len]),
        }
    }

    fn take(&mut self, octets: &[u8]) -> Vec<Result<Order, String>> {
        let mut orders = Vec::new();
        for &octet in octets {
            if octet != b'\n' {
                self.is_too_long |= self.held.len() == MAX_LINE;
                if !self.is_too_long {
                    self.held.push(octet);
                }
                continue;
            }
            orders.push(match self.is_too_long {
                true => Err(format!("a line has at most {MAX_LINE} octets")),
                false => read(&String::from_utf8_lossy(&self.held)),
            });
            self.held.zeroize();
            self.is_too_long = false;
        }
        orders
    }
}

fn read(line: &str) -> Result<Order, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let key = |digits| octets_of(digits).ok_or("a key is hexadecimal digits");
    Ok(match words[..] {
        ["status"] => Order::Status,
        ["search"] => Order::Search,
        ["session", digits] => Order::Session(None, key(digits)?),
        ["session", station, digits] => Order::Session(Some(address(station)?), key(digits)?),
        ["end", station] => Order::End(address(station)?),
        // The line may have a key: it is not repeated.
        _ => {
            let orders = "status, search, session [ADDRESS] HEX, end ADDRESS";
            return Err(format!("this is no order; there are: {orders}"));
        }
    })
}

fn address(text: &str) -> Result<Address, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let octets: Option<Vec<u8>> = parts
        .iter()
        .map(|part| octets_of(part).filter(|it| it.len() == 1).map(|it| it[0]))
        .collect();
    let octets = octets.and_then(|it| <[u8; 6]>::try_from(it).ok());
    // The word may be a key: it is not repeated.
    octets
        .map(Address)
        .ok_or_else(|| "the address is not one such as 02:00:00:00:00:01".to_owned())
}

/// An address as people write it.
pub(super) fn shown(address: Address) -> String {
    let octets = address.0.map(|octet| format!("{octet:02x}"));
    octets.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &[&str]) -> Vec<Result<Order, String>> {
        let mut orders = Orders::new(true);
        let parts = text.iter();
        parts
            .flat_map(|part| orders.take(part.as_bytes()))
            .collect()
    }

    #[test]
    fn orders_are_read_however_they_come() {
        let station = Address([2, 0, 0, 0, 0, 0xab]);
        let key = |octets: &[u8]| Zeroizing::new(octets.to_vec());
        let all = told(&[
            "sta",
            "tus\nsearch\nsession 01",
            "ff\n",
            "session 02:00:00:00:00:ab 07\n",
        ]);
        let expected = [
            Order::Status,
            Order::Search,
            Order::Session(None, key(&[1, 0xff])),
            Order::Session(Some(station), key(&[7])),
        ];
        assert!(all.into_iter().map(Result::unwrap).eq(expected));
        assert!(told(&["end 02:0:0:0:0:1\n"])[0].is_err());
        assert!(told(&["end 02:00:00:00:00:ab\n"])[0] == Ok(Order::End(station)));
        assert_eq!(shown(station), "02:00:00:00:00:ab");
    }

    #[test]
    fn what_is_no_order_is_refused_without_its_words() {
        let key = "0123456789abcdef";
        for wrong in [format!("sesion {key}\n"), format!("session {key} 00\n")] {
            let [Err(why)] = &told(&[&wrong])[..] else {
                panic!("an order");
            };
            assert!(!why.contains("0123"), "{why}");
        }
        for bad in [
            "\n",
            "session\n",
            "session xy\n",
            "session 0\n",
            "end +2:00:00:00:00:01\n",
        ] {
            assert!(told(&[bad])[0].is_err(), "{bad}");
        }
        let long = "x".repeat(2_000) + "\nstatus\n";
        let answers = told(&[&long]);
        assert!(answers[0].is_err() && answers[1] == Ok(Order::Status));
        assert_eq!(answers.len(), 2);
    }
}
