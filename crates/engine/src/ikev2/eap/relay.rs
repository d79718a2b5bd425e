//! A server of RADIUS in the place of our own: we pass on what the peer and the server say (RFC
//! 3579 §2). The first request, for the peer's identity, is ours.

use std::net::IpAddr;
use std::sync::Arc;

use crypto::rand::Stream;
use wire::eap::{Eap, EapCode, EapKind, mschapv2};
use wire::ikev2::Payload;
use wire::radius::MAX_VALUE_LEN;

use super::{Examined, Examining};
use crate::eap::{Budget, told, user_of_server};
use crate::ike::Fault;
use crate::ike::auth::proven_by_eap;
use crate::radius::{MAX_EAP_LEN, Question, Server, Verdict};
use crate::sa::Secret;
use crate::time::Instant;

/// Types of EAP with TLS around another method (RFC 5281 §9.1; PEAP has no RFC).
const PEAP: u8 = 25;
const TTLS: u8 = 21;
/// Their flags (RFC 5216 §3.1): the length of the message comes first, more fragments follow.
const TLS_HAS_LENGTH: u8 = 0x80;
const TLS_HAS_MORE: u8 = 0x40;

/// What we keep between the peer's packets.
pub(in crate::ikev2) struct Relay {
    /// The server that asks.
    server: Option<Arc<Server>>,
    state: Option<Vec<u8>>,
    /// What the peer calls itself.
    user: Option<Vec<u8>>,
    /// The identifier of the open request.
    id: u8,
    /// Of PEAP and TTLS, the peer's first message was passed on.
    has_begun_tls: bool,
    /// A server was given what may be a password.
    has_guess: bool,
    /// It asks on: who guesses may have read in its question that the password was wrong.
    is_tried: bool,
    budget: Budget,
}

impl Relay {
    /// Begins with a request for the peer's identity.
    pub(super) fn begin(random: &mut Stream) -> (Self, Eap) {
        let mut id = [0];
        random.fill(&mut id);
        let relay = Self {
            server: None,
            state: None,
            user: None,
            id: id[0],
            has_begun_tls: false,
            has_guess: false,
            is_tried: false,
            budget: Budget::new(),
        };
        let asked = Eap::of_kind(EapCode::Request, id[0], EapKind::Identity, &[]);
        (relay, asked)
    }

    /// Whether no server has been asked yet.
    pub(super) fn is_first(&self) -> bool {
        self.user.is_none()
    }

    /// Whether a response may prove a password. Inside of TLS we see none, and the records may be
    /// cut anywhere: all that comes after the peer's first message counts.
    pub(super) fn may_hold_password(&self, packet: &Eap) -> bool {
        match packet.kind() {
            Some(EapKind::MsChapV2) => packet.data().first() == Some(&mschapv2::PROOF),
            Some(EapKind::Other(PEAP | TTLS)) => {
                self.has_begun_tls && fragment_of_tls(packet).is_some()
            }
            Some(EapKind::Identity | EapKind::Notification | EapKind::Nak | EapKind::Tls)
            | None => false,
            Some(_) => true,
        }
    }

    /// Whether a server was given what may be a password, and has not said that it is right.
    pub(super) fn has_guess(&self) -> bool {
        self.has_guess
    }

    /// Whether a password was tried and nobody has said that it is right.
    pub(super) fn is_tried(&self) -> bool {
        self.is_tried
    }

    /// What a server is asked about a packet of the peer.
    pub(super) fn question(
        &mut self,
        packet: &Eap,
        peer: IpAddr,
    ) -> Result<Question, &'static str> {
        if !self.budget.take(packet.octets().len()) {
            return Err("the peer sends more than an exchange of EAP needs");
        }
        if packet.octets().len() > MAX_EAP_LEN {
            return Err("the peer's packet of EAP does not fit into one of RADIUS");
        }
        if packet.code() != EapCode::Response || packet.id() != self.id {
            return Err("the peer's packet of EAP does not answer the request");
        }
        let user = match &self.user {
            Some(user) => user.clone(),
            None if packet.kind() != Some(EapKind::Identity) => {
                return Err("the peer answers a request of EAP by another type");
            }
            // RFC 3579 §2.1: User-Name is what the peer calls itself.
            None if packet.data().is_empty() || packet.data().len() > MAX_VALUE_LEN => {
                return Err("the peer gives no name that RADIUS could carry");
            }
            None => packet.data().to_vec(),
        };
        self.user = Some(user.clone());
        self.has_guess |= self.may_hold_password(packet);
        if let (true, Some(flags)) = (is_in_tls(packet), fragment_of_tls(packet)) {
            self.has_begun_tls |= flags & TLS_HAS_MORE == 0;
        }
        Ok(Question {
            server: self.server.clone(),
            user,
            eap: packet.clone(),
            state: self.state.take(),
            peer,
        })
    }
}

impl Examining {
    /// What a server of RADIUS says of the peer's last packet.
    pub(in crate::ikev2) fn on_verdict(&mut self, verdict: Verdict, now: Instant) -> Examined {
        let Some(relay) = self.relay_mut() else {
            return failed(None, 0, "a RADIUS server answers what nobody has asked");
        };
        let id = relay.id;
        relay.is_tried = false;
        match verdict {
            Verdict::Challenge { eap, state, server } => {
                relay.has_guess &= !says_right(&eap);
                relay.is_tried = relay.has_guess;
                (relay.id, relay.state, relay.server) = (eap.id(), state, Some(server));
                Examined::Next(Payload::Eap(eap))
            }
            Verdict::Accept {
                eap,
                user,
                key,
                lasts,
            } => {
                let user = user.or_else(|| relay.user.take()).unwrap_or_default();
                match self.accept(&user, key, lasts.map(|it| now + it)) {
                    Ok(()) => Examined::Next(Payload::Eap(eap)),
                    Err(fault) => Examined::Failed(Payload::Eap(Eap::verdict(false, id)), fault),
                }
            }
            Verdict::Reject { eap, server } => {
                let user = told(relay.user.as_deref().unwrap_or_default());
                let why = format!("the RADIUS server {server} refuses the user {user}");
                failed(eap, id, &why)
            }
            Verdict::Failed(why) => failed(None, id, &why),
        }
    }

    /// The server has accepted a user, who must authenticate again at `until`.
    fn accept(
        &mut self,
        user: &[u8],
        key: Option<Secret>,
        until: Option<Instant>,
    ) -> Result<(), Fault> {
        let refused = |why: String| Err(Fault::Unauthenticated(why));
        let Some(key) = key else {
            return refused(format!(
                "the RADIUS server accepts the user {} by a method without a key",
                told(user)
            ));
        };
        let Some(name) = user_of_server(user) else {
            return refused("the RADIUS server accepts a user without a name".into());
        };
        let mut proven = proven_by_eap(&self.connection, &name);
        proven.until = until;
        self.proven = Some((self.accepted(proven)?, key));
        Ok(())
    }
}

fn is_in_tls(packet: &Eap) -> bool {
    matches!(packet.kind(), Some(EapKind::Other(PEAP | TTLS)))
}

/// The flags of a packet that carries something of TLS, and does not only ask for more.
fn fragment_of_tls(packet: &Eap) -> Option<u8> {
    let (flags, rest) = packet.data().split_first()?;
    let len = if flags & TLS_HAS_LENGTH == 0 { 0 } else { 4 };
    (rest.len() > len).then_some(*flags)
}

/// Whether a server's question says that the password was right.
fn says_right(question: &Eap) -> bool {
    question.kind() == Some(EapKind::MsChapV2)
        && question.data().first() == Some(&mschapv2::SUCCESS)
}

fn failed(eap: Option<Eap>, id: u8, why: &str) -> Examined {
    let verdict = eap.unwrap_or_else(|| Eap::verdict(false, id));
    Examined::Failed(Payload::Eap(verdict), Fault::Unauthenticated(why.into()))
}

#[cfg(test)]
mod tests {
    use crypto::rand::Seed;

    use super::*;

    fn relay() -> (Relay, u8) {
        let mut random = Seed::new([5; 32]).stream("relay", 0);
        let (relay, asked) = Relay::begin(&mut random);
        assert_eq!(asked.kind(), Some(EapKind::Identity));
        (relay, asked.id())
    }

    fn refusal(packet: impl Fn(u8) -> Eap) -> &'static str {
        let (mut relay, id) = relay();
        let asked = relay.question(&packet(id), [192, 0, 2, 7].into());
        asked.err().expect("a refusal")
    }

    #[test]
    fn what_may_hold_a_password_is_told_from_what_cannot() {
        let (mut relay, _) = relay();
        let of = |kind, data: &[u8]| Eap::of_kind(EapCode::Response, 7, kind, data);
        for (packet, may) in [
            (of(EapKind::MsChapV2, &[2, 7, 0]), true),
            (of(EapKind::MsChapV2, &[3]), false),
            (of(EapKind::MsChapV2, &[]), false),
            (of(EapKind::Md5Challenge, &[16]), true),
            (of(EapKind::Nak, &[26]), false),
            (of(EapKind::Tls, &[0, 23]), false),
        ] {
            assert_eq!(relay.may_hold_password(&packet), may, "{packet:?}");
        }
        for kind in [PEAP, TTLS].map(EapKind::from) {
            (relay.has_begun_tls, relay.has_guess) = (false, false);
            let identity = of(EapKind::Identity, b"alice");
            let hello = [&[0xc0, 0, 0, 2, 0][..], &[22]].concat();
            for (data, may) in [
                (&hello[..], false),
                // The end of the hello, a request for the next fragment, a record of TLS.
                (&[0, 22], false),
                (&[0], false),
                (&[0x80, 0, 0, 0, 1], false),
                (&[0, 21, 3, 3, 0, 2, 1, 0, 23], true),
            ] {
                let packet = of(kind, data);
                assert_eq!(relay.may_hold_password(&packet), may, "{data:?}");
                (relay.id, relay.user) = (7, Some(identity.data().to_vec()));
                assert!(relay.question(&packet, [192, 0, 2, 7].into()).is_ok());
                assert_eq!(relay.has_guess, may, "{data:?}");
            }
        }
    }

    #[test]
    fn a_packet_that_radius_cannot_carry_is_refused() {
        let of = |code, kind, len: usize| move |id| Eap::of_kind(code, id, kind, &vec![b'a'; len]);
        let response = EapCode::Response;
        for (packet, why) in [
            (of(response, EapKind::Identity, 0), "no name"),
            (of(response, EapKind::Identity, 254), "no name"),
            (of(response, EapKind::Tls, 10), "another type"),
            (of(response, EapKind::Identity, 4_000), "does not fit"),
            (
                of(EapCode::Request, EapKind::Identity, 5),
                "does not answer",
            ),
        ] {
            let told = refusal(packet);
            assert!(told.contains(why), "{told}");
        }
        let other = refusal(|id| Eap::of_kind(response, id ^ 1, EapKind::Identity, b"alice"));
        assert!(other.contains("does not answer"), "{other}");
    }

    #[test]
    fn a_peer_that_goes_on_without_end_is_refused() {
        let (mut relay, id) = relay();
        let packet = Eap::of_kind(EapCode::Response, id, EapKind::Identity, b"alice");
        let mut asked = 0;
        while relay.question(&packet, [192, 0, 2, 7].into()).is_ok() {
            asked += 1;
        }
        assert_eq!(asked, crate::eap::MAX_PACKETS);
    }
}
