//! A message of ours without an answer: explains it to the user.

use core::fmt;
use std::net::{IpAddr, SocketAddr};

use super::Step;

/// The message that authenticates us in main mode. Its cipher key depends on the pre-shared key, so
/// a peer with another key cannot read it.
const MAIN_PROOF: Step = Step::Main(5);

/// A message without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The message.
    pub step: Step,
    /// Its destination.
    pub remote: SocketAddr,
    /// The other port of the peer that has answered. This message is the first to `remote`.
    pub moved_from: Option<u16>,
    /// How often it was sent.
    pub tries: u32,
    /// Both ends authenticate with a pre-shared key.
    pub is_by_key: bool,
    /// The first ICMP report about it. Anybody can send ICMP, so it is a hint.
    pub unreachable: Option<Unreachable>,
}

/// An ICMP report about a datagram that did not arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unreachable {
    /// Why it did not arrive.
    pub why: NotReached,
    /// The sender of the report: a router, the peer, or our own host for its own link.
    pub by: IpAddr,
}

/// Why a datagram did not arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotReached {
    /// Nothing listens on the port.
    Port,
    /// A rule forbids it.
    Forbidden,
    /// A router has no route.
    Network,
    /// The last router finds no such host.
    Host,
    /// We find no such host on our own link.
    Neighbour,
    /// We find no router to it on our own link.
    NextHop,
}

impl Unanswered {
    /// Whether the silence suggests that the peer has another pre-shared key.
    pub fn may_be_unreadable(&self) -> bool {
        self.is_by_key && self.step == MAIN_PROOF
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ip, port) = (self.remote.ip(), self.remote.port());
        let tries = match self.tries {
            0 | 1 => "1 try".to_owned(),
            tries => format!("{tries} tries"),
        };
        if let Some(Unreachable { why, by }) = self.unreachable {
            if why == NotReached::Port && by == ip {
                return write!(
                    f,
                    "{ip} says that nothing listens on UDP {port} (ICMP port unreachable, \
                     {tries}): does the gateway run there?"
                );
            }
            write!(f, "no reply from {ip}, UDP {port} ({tries}): ")?;
            return match why.words() {
                (true, words) => write!(f, "{by} answers {words}"),
                (false, words) => f.write_str(words),
            };
        }
        match (self.step, self.is_by_key) {
            (MAIN_PROOF, true) => {
                write!(
                    f,
                    "the peer answers but cannot read our authentication: a wrong PSK looks like \
                     this"
                )?;
                match self.moved_from {
                    Some(_) => write!(
                        f,
                        ", and so does a firewall that drops UDP {port} ({tries})"
                    ),
                    None => write!(f, " ({tries})"),
                }
            }
            (step, _) if step.is_first() => write!(
                f,
                "no reply from {ip}, UDP {port} ({tries}): is the address right and the port open?"
            ),
            (step, _) => match self.moved_from {
                Some(answers) => write!(
                    f,
                    "{ip} answers on UDP {answers} and not on UDP {port} ({tries}): does a \
                     firewall drop UDP {port}?"
                ),
                None => write!(f, "no reply from {ip}, UDP {port}, to {step} ({tries})"),
            },
        }
    }
}

impl NotReached {
    /// The words for a report by somebody other than the peer, and whether another host answered.
    fn words(self) -> (bool, &'static str) {
        match self {
            Self::Port => (
                true,
                "in its place that the port is closed (ICMP port unreachable): does a firewall \
                 refuse it?",
            ),
            Self::Forbidden => (
                true,
                "that this is forbidden (ICMP administratively prohibited): does a firewall refuse \
                 it?",
            ),
            Self::Network => (
                true,
                "that it has no route there (ICMP network unreachable)",
            ),
            Self::Host => (
                true,
                "that it cannot reach this host (ICMP host unreachable)",
            ),
            Self::Neighbour => (false, "no host with this address answers on our own link"),
            Self::NextHop => (false, "the router to it does not answer on our own link"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(step: Step, ports: (Option<u16>, u16), is_by_key: bool) -> String {
        let silence = Unanswered {
            step,
            remote: ([192, 0, 2, 1], ports.1).into(),
            moved_from: ports.0,
            tries: 2,
            is_by_key,
            unreachable: None,
        };
        silence.to_string()
    }

    #[test]
    fn silence_says_what_to_look_at() {
        for step in [Step::Main(1), Step::Aggressive(1)] {
            assert_eq!(
                said(step, (None, 500), true),
                "no reply from 192.0.2.1, UDP 500 (2 tries): is the address right and the port \
                 open?"
            );
        }
        assert_eq!(
            said(Step::Main(5), (Some(500), 4500), false),
            "192.0.2.1 answers on UDP 500 and not on UDP 4500 (2 tries): does a firewall drop UDP \
             4500?"
        );
        let key = "the peer answers but cannot read our authentication: a wrong PSK looks like \
                   this";
        for port in [500, 4500] {
            let told = said(Step::Main(5), (None, port), true);
            assert_eq!(told, format!("{key} (2 tries)"));
        }
        assert_eq!(
            said(Step::Main(5), (Some(500), 4500), true),
            format!("{key}, and so does a firewall that drops UDP 4500 (2 tries)")
        );
        assert_eq!(
            said(Step::Main(5), (None, 4500), false),
            "no reply from 192.0.2.1, UDP 4500, to main 5 (2 tries)"
        );
        assert_eq!(
            said(Step::Quick(1), (None, 4500), true),
            "no reply from 192.0.2.1, UDP 4500, to quick 1 (2 tries)"
        );
    }

    #[test]
    fn what_icmp_says_is_told_with_who_says_it() {
        let told = |why, by: &str| {
            let silence = Unanswered {
                step: Step::Main(1),
                remote: ([192, 0, 2, 1], 500).into(),
                moved_from: None,
                tries: 1,
                is_by_key: true,
                unreachable: Some(Unreachable {
                    why,
                    by: by.parse().expect("an address"),
                }),
            };
            silence.to_string()
        };
        let router = "198.51.100.1";
        assert_eq!(
            told(NotReached::Port, "192.0.2.1"),
            "192.0.2.1 says that nothing listens on UDP 500 (ICMP port unreachable, 1 try): does \
             the gateway run there?"
        );
        let silent = "no reply from 192.0.2.1, UDP 500 (1 try): 198.51.100.1 answers";
        for (why, words) in [
            (
                NotReached::Port,
                "in its place that the port is closed (ICMP port unreachable): does a firewall \
                 refuse it?",
            ),
            (
                NotReached::Forbidden,
                "that this is forbidden (ICMP administratively prohibited): does a firewall \
                 refuse it?",
            ),
            (
                NotReached::Network,
                "that it has no route there (ICMP network unreachable)",
            ),
            (
                NotReached::Host,
                "that it cannot reach this host (ICMP host unreachable)",
            ),
        ] {
            assert_eq!(told(why, router), format!("{silent} {words}"));
        }
        let own = "no reply from 192.0.2.1, UDP 500 (1 try):";
        for (why, words) in [
            (
                NotReached::Neighbour,
                "no host with this address answers on our own link",
            ),
            (
                NotReached::NextHop,
                "the router to it does not answer on our own link",
            ),
        ] {
            assert_eq!(told(why, "192.0.2.2"), format!("{own} {words}"));
        }
    }
}
