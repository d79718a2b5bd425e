//! EAP in IKE_AUTH (RFC 7296 §2.16): what each end keeps between its messages.
//!
//! ```text
//! initiator                                                     responder
//! IDi, [CERTREQ], [IDr], [CP], [SA, TSi, TSr] -->
//!                                             <-- IDr, CERT, AUTH, EAP
//! EAP -->                                     <-- EAP (as often as the method needs)
//! AUTH -->                                    <-- AUTH, [CP], [SA, TSi, TSr]
//! ```
//!
//! The responder proves itself by its certificate before anything is asked of a user. The last two
//! AUTH prove the key that the method exports: who only sat between the ends does not have it. Left
//! out: methods without a key, EAP alone (RFC 5998), several authentications (RFC 4739).

use std::sync::Arc;

use crypto::cert::{Certificate, LeafKeys};
use crypto::rand::Stream;
use wire::eap::Eap;
use wire::ikev2::Payload;

use super::auth::identity_of;
use super::parts::Parts;
use super::window::Opened;
use crate::config::{Connection, LocalMethod, RemoteMethod};
use crate::eap::{Asked, Examiner, Login, Own, Server, Station, Subject, Told};
use crate::identity::{Identity, Peer};
use crate::ike::Fault;
use crate::ike::auth::{Proven, proven_by_eap, trusted, unaccepted};
use crate::sa::Secret;
use crate::time::{Calendar, Duration};

/// How long an initiator lets a gateway examine it.
pub(super) const EXAMINATION: Duration = Duration::from_secs(30);

/// A responder that examines a peer.
pub(super) struct Examining {
    connection: Arc<Connection>,
    /// The first request: who the peer says that it is, and what it wishes.
    pub(super) first: Opened,
    server: Server,
    /// Who the peer is, and the key that its AUTH must prove.
    pub(super) proven: Option<(Proven, Secret)>,
}

/// What follows from a packet of the peer.
pub(super) enum Examined {
    /// The examination goes on, or the peer has passed it and proves the key next.
    Next(Payload),
    /// It has failed.
    Failed(Payload, Fault),
}

impl Examining {
    /// Begins with the first request of a peer that has sent no AUTH in it.
    pub(super) fn new(connection: Arc<Connection>, first: Opened, server: Server) -> Self {
        Self {
            connection,
            first,
            server,
            proven: None,
        }
    }

    /// Handles a packet.
    pub(super) fn on_packet(
        &mut self,
        packet: &Eap,
        calendar: Calendar,
        random: &mut Stream,
    ) -> Examined {
        match self.server.on_packet(packet, random) {
            Asked::More(packet) => Examined::Next(Payload::Eap(packet)),
            Asked::Proven(subject, packet, key) => match self.admit(subject, calendar) {
                Ok(proven) => {
                    self.proven = Some((proven, key));
                    Examined::Next(Payload::Eap(packet))
                }
                Err(fault) => {
                    let verdict = Eap::verdict(false, packet.id());
                    Examined::Failed(Payload::Eap(verdict), fault)
                }
            },
            Asked::Refused(packet, why) => {
                Examined::Failed(Payload::Eap(packet), Fault::Unauthenticated(why))
            }
        }
    }

    /// Why the peer is refused, if it is reading that.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.server.refusal()
    }

    /// The user whose password a packet is to prove, if there is one.
    pub(super) fn user_of(&self, packet: &Eap) -> Option<Peer> {
        let user = self.server.user_of(packet)?;
        Some(Peer::of_user(&self.connection.name, &user))
    }

    /// Whether the connection accepts who has proven itself.
    fn admit(&self, subject: Subject, calendar: Calendar) -> Result<Proven, Fault> {
        let accepting = core::slice::from_ref(&self.connection);
        let proven = match subject {
            Subject::User(user) => proven_by_eap(&self.connection, &user),
            Subject::Certificate(chain) => {
                let ders: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
                let identity = self.name_of(&ders)?;
                let found = trusted(LeafKeys::Any, accepting, &identity, &ders, calendar)?;
                found.proven(&identity).ok_or_else(nameless)?
            }
        };
        let identity = proven.identity.identity();
        match self.connection.accepts(identity) {
            true => Ok(proven),
            false => Err(unaccepted(identity, accepting)),
        }
    }

    /// Which of its certificate's names a peer uses: the one that it claims in IKE, else the first.
    fn name_of(&self, chain: &[&[u8]]) -> Result<Identity, Fault> {
        let leaf = chain
            .first()
            .and_then(|der| Certificate::from_der(der).ok());
        let names = leaf.ok_or_else(nameless)?.names();
        let claimed = self.first.parts()?.initiator;
        let claimed = claimed.and_then(|(id, _)| identity_of(id).ok());
        let claimed = claimed.filter(|it| it.proven_by(&names).is_some());
        let first = || names.iter().find_map(Identity::of_certificate);
        claimed.or_else(first).ok_or_else(nameless)
    }
}

fn nameless() -> Fault {
    Fault::Unauthenticated("the peer's certificate names nobody".into())
}

/// How a connection's peers are examined, if they are.
fn examiner_of(connection: &Connection) -> Option<&Arc<Examiner>> {
    match &connection.remote.method {
        RemoteMethod::Eap(examiner) => Some(examiner),
        RemoteMethod::Signature(_) | RemoteMethod::PresharedKey(_) => None,
    }
}

/// The first candidate that examines peers; one whose own identity the peer asks for comes first.
/// Who the peer claims to be in IKE does not count: some send their address.
pub(super) fn examiner(
    candidates: &[Arc<Connection>],
    claimed: &Identity,
    asked: Option<&Identity>,
) -> Result<(Arc<Connection>, Arc<Examiner>), Fault> {
    let with_examiner = |it: &Arc<Connection>| {
        let examiner = Arc::clone(examiner_of(it)?);
        Some((Arc::clone(it), examiner))
    };
    let mut fitting: Vec<_> = candidates.iter().filter_map(with_examiner).collect();
    // A stable sort: among equals the first stays first.
    fitting.sort_by_key(|(it, _)| !asked.is_some_and(|id| it.local.identity.is_same(id)));
    fitting.into_iter().next().ok_or_else(|| {
        Fault::Unauthenticated(format!(
            "the peer {claimed} wants to authenticate by EAP, and no connection here does that: \
             remote auth = \"eap\""
        ))
    })
}

/// Begins an examination. We have a certificate: the configuration is checked for it.
pub(super) fn begin(
    connection: &Connection,
    examiner: &Examiner,
    calendar: Calendar,
    random: &mut Stream,
) -> Result<(Server, Eap), Fault> {
    let LocalMethod::Signature { key, chain } = &connection.local.method else {
        return Err(Fault::Unauthenticated(
            "a gateway without a certificate examines nobody".into(),
        ));
    };
    let own = Own {
        key,
        chain,
        now: calendar.0,
    };
    Server::begin(examiner, &own, random).map_err(Fault::Unauthenticated)
}

/// An initiator whose gateway has proven itself, and examines it.
pub(super) struct LoggingIn {
    /// The gateway.
    pub(super) gateway: Proven,
    /// The body of its ID payload, which its last AUTH covers.
    pub(super) id: Vec<u8>,
    station: Station,
    /// Our AUTH, which proves it, is on the way.
    pub(super) key: Option<Secret>,
}

impl LoggingIn {
    /// Begins after the gateway's proof, which must be a certificate: who only knows a shared key
    /// may be another client.
    pub(super) fn begin(
        login: &Arc<Login>,
        gateway: Proven,
        id: &[u8],
        calendar: Calendar,
    ) -> Result<Self, Fault> {
        let RemoteMethod::Signature(store) = &gateway.connection.remote.method else {
            return Err(Fault::Unauthenticated(
                "the gateway asks who we are and has not proven itself by a certificate".into(),
            ));
        };
        let station = Station::new(Arc::clone(login), Arc::clone(store), calendar.0);
        Ok(Self {
            gateway,
            id: id.to_vec(),
            station,
            key: None,
        })
    }

    /// Handles the gateway's packet. Gives our answer, or the key.
    pub(super) fn on_packet(
        &mut self,
        parts: &Parts<'_>,
        random: &mut Stream,
    ) -> Result<Step, Fault> {
        let Some(packet) = parts.eap else {
            return Err(Fault::Misbehaved(
                "the gateway sends no packet of EAP where one is due".into(),
            ));
        };
        match self.station.on_packet(packet, random) {
            Told::Answer(packet) => Ok(Step::Answer(Payload::Eap(packet))),
            Told::Content(key, None) => Ok(Step::Prove(key)),
            Told::Content(key, Some(server)) => match self.is_gateways(&server) {
                true => Ok(Step::Prove(key)),
                false => Err(Fault::Unauthenticated(
                    "the server of EAP-TLS has a certificate that names no gateway of ours".into(),
                )),
            },
            Told::Over(why) => Err(Fault::Unauthenticated(why)),
        }
    }

    /// Whether a certificate that TLS has checked names a gateway that we accept.
    fn is_gateways(&self, chain: &[Vec<u8>]) -> bool {
        let leaf = chain.first().map(|der| Certificate::from_der(der));
        let Some(Ok(leaf)) = leaf else {
            return false;
        };
        let names = leaf.names();
        let mut named = names.iter().filter_map(Identity::of_certificate);
        named.any(|name| self.gateway.connection.accepts(&name))
    }
}

/// What an initiator does next.
pub(super) enum Step {
    Answer(Payload),
    Prove(Secret),
}

/// What we log in with, if that is how we authenticate.
pub(super) fn login_of(connection: &Connection) -> Option<&Arc<Login>> {
    match &connection.local.method {
        LocalMethod::Eap(login) => Some(login),
        LocalMethod::Signature { .. } | LocalMethod::PresharedKey(_) => None,
    }
}
