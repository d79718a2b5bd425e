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
//! AUTH prove the key that the method exports: who only sat between the ends does not have it.
//!
//! With EAP alone (RFC 5998 §3) the initiator says so in its first message, and the responder sends
//! neither CERT nor AUTH in its first answer. That is safe only with a method that proves both ends
//! by more than a password (RFC 5998 §4): here TLS. Left out: methods without a key, several
//! authentications (RFC 4739).

mod relay;

use std::net::IpAddr;
use std::sync::Arc;

use crypto::cert::{Certificate, LeafKeys};
use crypto::rand::Stream;
use wire::eap::Eap;
use wire::ikev2::Payload;

use super::auth::identity_of;
use super::parts::Parts;
use super::window::Opened;
use crate::config::{Connection, IdentityPattern, LocalMethod, RemoteMethod};
use crate::eap::{Asked, Examiner, Login, Own, Server, Station, Subject, Told};
use crate::identity::{Identity, Peer};
use crate::ike::Fault;
use crate::ike::auth::{Proven, proven_by_eap, trusted, unaccepted};
use crate::radius::Question;
use crate::sa::{Path, Secret};
use crate::time::{Calendar, Duration};
use crate::work::Work;

use relay::Relay;

/// How long an initiator lets a gateway examine it.
pub(super) const EXAMINATION: Duration = Duration::from_secs(30);

/// A responder that examines a peer.
pub(super) struct Examining {
    connection: Arc<Connection>,
    /// The first request: who the peer says that it is, and what it wishes.
    pub(super) first: Opened,
    backend: Backend,
    /// A message of the peer that waits for a server of RADIUS, and where it came from.
    pub(super) waiting: Option<(Opened, Path)>,
    /// Who the peer is, and the key that its AUTH must prove.
    pub(super) proven: Option<(Proven, Secret)>,
    /// The log has a line that it must wait.
    pub(super) is_told: bool,
}

/// Who knows the peers.
pub(super) enum Backend {
    /// We do.
    Own(Box<Server>),
    /// Servers of RADIUS do.
    Relay(Relay),
}

/// What a peer tries.
pub(super) enum Tried {
    /// The password of this user, who may be nobody.
    User(Peer),
    /// A server of RADIUS will say.
    Server,
}

/// What follows from a packet of the peer.
pub(super) enum Examined {
    /// A server of RADIUS is asked first.
    Asked(Box<Question>),
    /// The examination goes on, or the peer has passed it and proves the key next.
    Next(Payload),
    /// It has failed.
    Failed(Payload, Fault),
}

impl Examining {
    /// Begins with the first request of a peer that has sent no AUTH in it.
    pub(super) fn new(connection: Arc<Connection>, first: Opened, backend: Backend) -> Self {
        Self {
            connection,
            first,
            backend,
            waiting: None,
            proven: None,
            is_told: false,
        }
    }

    /// The connection that examines it.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Handles a packet.
    pub(super) fn on_packet(
        &mut self,
        packet: &Eap,
        peer: IpAddr,
        calendar: Calendar,
        (random, work): (&mut Stream, &mut Work),
    ) -> Examined {
        let server = match &mut self.backend {
            Backend::Own(server) => server,
            Backend::Relay(relay) => {
                return match relay.question(packet, peer) {
                    Ok(question) => Examined::Asked(Box::new(question)),
                    Err(why) => Examined::Failed(
                        Payload::Eap(Eap::verdict(false, packet.id())),
                        Fault::Unauthenticated(why.into()),
                    ),
                };
            }
        };
        let asked = server.on_packet(packet, random);
        work.merge(&server.take_work());
        match asked {
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
        match &self.backend {
            Backend::Own(server) => server.refusal(),
            Backend::Relay(_) => None,
        }
    }

    /// Whether the peer has proven a password to us, and has yet to say that it believes us.
    pub(super) fn has_right_password(&self) -> bool {
        matches!(&self.backend, Backend::Own(server) if server.has_right_password())
    }

    /// Whether a server of RADIUS has seen what may be a password of the peer's, and has neither
    /// accepted nor refused it. If the peer lets the examination end so, it counts as a wrong one.
    pub(super) fn is_unsettled(&self) -> bool {
        match &self.backend {
            Backend::Own(_) => false,
            Backend::Relay(relay) => relay.is_tried() && self.proven.is_none(),
        }
    }

    /// Whether a server of RADIUS has seen what may be a password of the peer's.
    pub(super) fn has_guess(&self) -> bool {
        matches!(&self.backend, Backend::Relay(relay) if relay.has_guess())
    }

    fn relay_mut(&mut self) -> Option<&mut Relay> {
        match &mut self.backend {
            Backend::Own(_) => None,
            Backend::Relay(relay) => Some(relay),
        }
    }

    /// Whether servers of RADIUS examine the peer.
    pub(super) fn asks_servers(&self) -> bool {
        matches!(self.backend, Backend::Relay(_))
    }

    /// Whose password a packet is to prove, if it is to prove one. A server of RADIUS is not asked
    /// at all for a site without a try left.
    pub(super) fn tries(&self, packet: &Eap) -> Option<Tried> {
        match &self.backend {
            Backend::Own(server) => {
                let user = server.user_of(packet)?;
                Some(Tried::User(Peer::of_user(&self.connection.name, &user)))
            }
            Backend::Relay(relay) => {
                let is_asked = relay.is_first() || relay.may_hold_password(packet);
                is_asked.then_some(Tried::Server)
            }
        }
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
        self.accepted(proven)
    }

    fn accepted(&self, proven: Proven) -> Result<Proven, Fault> {
        let identity = proven.identity.identity();
        match self.connection.accepts(identity) {
            true => Ok(proven),
            false => {
                let accepting = core::slice::from_ref(&self.connection);
                Err(unaccepted(identity, accepting))
            }
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
) -> Result<(Backend, Eap), Fault> {
    if examiner.asks_servers {
        let (relay, packet) = Relay::begin(random);
        return Ok((Backend::Relay(relay), packet));
    }
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
    let begun = Server::begin(examiner, &own, random).map_err(Fault::Unauthenticated);
    begun.map(|(server, packet)| (Backend::Own(Box::new(server)), packet))
}

/// An initiator that its gateway examines.
pub(super) struct LoggingIn {
    /// Who the gateway has proven to be, by certificate or within TLS.
    gateway: Option<Proven>,
    /// Who it claims to be, and must prove within TLS.
    claimed: Option<(Arc<Connection>, Identity)>,
    /// The body of its ID payload, which its last AUTH covers.
    pub(super) id: Vec<u8>,
    station: Station,
    /// Who the server of EAP-TLS is, if not the gateway.
    server: Option<IdentityPattern>,
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
            gateway: Some(gateway),
            claimed: None,
            id: id.to_vec(),
            station,
            server: login.server.clone(),
            key: None,
        })
    }

    /// Begins without a proof of the gateway, which then proves itself within TLS (RFC 5998 §3).
    pub(super) fn begin_alone(
        connection: &Arc<Connection>,
        (claimed, id): (Identity, &[u8]),
        calendar: Calendar,
    ) -> Result<Self, Fault> {
        let store = match (login_of(connection), &connection.remote.method) {
            (Some(login), RemoteMethod::Signature(store)) if connection.is_eap_only => {
                Some((login, store)).filter(|_| login.is_safe_alone())
            }
            _ => None,
        };
        let (login, store) = store.ok_or_else(|| {
            Fault::Unauthenticated("the peer does not prove itself before it asks".into())
        })?;
        if !connection.accepts(&claimed) {
            return Err(unaccepted(&claimed, core::slice::from_ref(connection)));
        }
        let station = Station::new(Arc::clone(login), Arc::clone(store), calendar.0);
        Ok(Self {
            gateway: None,
            claimed: Some((Arc::clone(connection), claimed)),
            id: id.to_vec(),
            station,
            server: None,
            key: None,
        })
    }

    /// Who the gateway is, once both ends have proven the key.
    pub(super) fn proven(self) -> Result<Proven, Fault> {
        self.gateway.ok_or_else(|| {
            Fault::Unauthenticated("the gateway has not proven itself within TLS".into())
        })
    }

    /// Handles the gateway's packet. Gives our answer, or the key.
    pub(super) fn on_packet(
        &mut self,
        parts: &Parts<'_>,
        calendar: Calendar,
        (random, work): (&mut Stream, &mut Work),
    ) -> Result<Step, Fault> {
        let Some(packet) = parts.eap else {
            return Err(Fault::Misbehaved(
                "the gateway sends no packet of EAP where one is due".into(),
            ));
        };
        let told = self.station.on_packet(packet, random);
        work.merge(&self.station.take_work());
        match told {
            Told::Answer(packet) => Ok(Step::Answer(Payload::Eap(packet))),
            Told::Content(key, None) => match self.gateway {
                Some(_) => Ok(Step::Prove(key)),
                None => Err(Fault::Unauthenticated(
                    "the gateway has proven itself neither by a certificate nor within TLS".into(),
                )),
            },
            Told::Content(key, Some(server)) if self.gateway.is_none() => {
                self.gateway = Some(self.gateway_of(&server, calendar)?);
                Ok(Step::Prove(key))
            }
            Told::Content(key, Some(server)) => match self.is_gateways(&server) {
                true => Ok(Step::Prove(key)),
                false => Err(Fault::Unauthenticated(
                    "the server of EAP-TLS has a certificate that names neither a gateway of ours \
                     nor local aaa_id"
                        .into(),
                )),
            },
            Told::Refused(why) => Err(Fault::PasswordRefused(why)),
            Told::Over(why) => Err(Fault::Unauthenticated(why)),
        }
    }

    /// Whether a certificate that TLS has checked names a gateway that we accept, or the server
    /// that we are to find behind it.
    fn is_gateways(&self, chain: &[Vec<u8>]) -> bool {
        let leaf = chain.first().map(|der| Certificate::from_der(der));
        let Some(Ok(leaf)) = leaf else {
            return false;
        };
        let names = leaf.names();
        let mut named = names.iter().filter_map(Identity::of_certificate);
        if let Some(server) = &self.server {
            return named.any(|name| server.fits(&name));
        }
        let connection = self.gateway.as_ref().map(|it| &it.connection);
        named.any(|name| connection.is_some_and(|it| it.accepts(&name)))
    }

    /// The gateway that has proven itself within TLS alone. Its certificate must name who it
    /// claimed to be: AUTH covers that.
    fn gateway_of(&self, chain: &[Vec<u8>], calendar: Calendar) -> Result<Proven, Fault> {
        let (connection, claimed) = self.claimed.as_ref().ok_or_else(nameless)?;
        let ders: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
        // TLS has proven the key of the first certificate: no other may be the gateway's.
        let leaf = chain.first().map(|der| Certificate::from_der(der));
        let names = leaf.and_then(Result::ok).map(|it| it.names());
        let is_named = names.is_some_and(|it| claimed.proven_by(&it).is_some());
        let certificates = if is_named { ders.len() } else { 1 };
        let ders = ders.get(..certificates).ok_or_else(nameless)?;
        let accepting = core::slice::from_ref(connection);
        let found = trusted(LeafKeys::Any, accepting, claimed, ders, calendar)?;
        found.proven(claimed).ok_or_else(nameless)
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
