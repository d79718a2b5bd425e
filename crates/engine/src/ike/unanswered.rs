//! A message of ours that nobody answers: what that looks like to whoever waits.

use core::fmt;
use std::net::SocketAddr;

use super::{NAT_T_PORT, Step};

/// The message that proves who we are in main mode; a pre-shared key makes its cipher key, so that
/// a peer with another one cannot read it.
const MAIN_PROOF: Step = Step::Main(5);

/// A message without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Which message of ours.
    pub step: Step,
    /// Where it went.
    pub remote: SocketAddr,
    /// How often it was sent.
    pub tries: u32,
    /// Both ends prove who they are by a pre-shared key.
    pub is_by_key: bool,
    /// ICMP said that the port is closed. Anybody can send that: it is a hint.
    pub is_refused: bool,
}

impl Unanswered {
    /// Whether silence looks as if the peer had another pre-shared key.
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
        if self.is_refused {
            return write!(
                f,
                "{ip} says that nothing listens on UDP {port} (ICMP port unreachable, {tries}): \
                 does the gateway run there?"
            );
        }
        let is_nat_port = port == NAT_T_PORT;
        match (self.step, self.is_by_key) {
            (MAIN_PROOF, true) => {
                write!(
                    f,
                    "the peer answers but cannot read our authentication: a wrong PSK looks like \
                     this"
                )?;
                match is_nat_port {
                    true => write!(
                        f,
                        ", and so does a firewall that drops UDP {port} ({tries})"
                    ),
                    false => write!(f, " ({tries})"),
                }
            }
            (MAIN_PROOF, false) if is_nat_port => write!(
                f,
                "{ip} answers on UDP 500 and not on UDP {port} ({tries}): does a firewall drop \
                 UDP {port}?"
            ),
            (step, _) if step.is_first() => write!(
                f,
                "no reply from {ip}, UDP {port} ({tries}): is the address right and the port open?"
            ),
            (step, _) => write!(f, "no reply from {ip}, UDP {port}, to {step} ({tries})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(step: Step, port: u16, is_by_key: bool) -> String {
        let silence = Unanswered {
            step,
            remote: ([192, 0, 2, 1], port).into(),
            tries: 2,
            is_by_key,
            is_refused: false,
        };
        silence.to_string()
    }

    #[test]
    fn silence_says_what_to_look_at() {
        for step in [Step::Main(1), Step::Aggressive(1)] {
            assert_eq!(
                said(step, 500, true),
                "no reply from 192.0.2.1, UDP 500 (2 tries): is the address right and the port \
                 open?"
            );
        }
        assert_eq!(
            said(Step::Main(5), 4500, false),
            "192.0.2.1 answers on UDP 500 and not on UDP 4500 (2 tries): does a firewall drop UDP \
             4500?"
        );
        let key = "the peer answers but cannot read our authentication: a wrong PSK looks like \
                   this";
        assert_eq!(said(Step::Main(5), 500, true), format!("{key} (2 tries)"));
        assert_eq!(
            said(Step::Main(5), 4500, true),
            format!("{key}, and so does a firewall that drops UDP 4500 (2 tries)")
        );
        assert_eq!(
            said(Step::Quick(1), 4500, true),
            "no reply from 192.0.2.1, UDP 4500, to quick 1 (2 tries)"
        );
    }

    #[test]
    fn a_closed_port_is_told() {
        let refused = Unanswered {
            step: Step::Main(1),
            remote: ([192, 0, 2, 1], 500).into(),
            tries: 1,
            is_by_key: true,
            is_refused: true,
        };
        assert_eq!(
            refused.to_string(),
            "192.0.2.1 says that nothing listens on UDP 500 (ICMP port unreachable, 1 try): does \
             the gateway run there?"
        );
    }
}
