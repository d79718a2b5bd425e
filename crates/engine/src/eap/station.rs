//! The station's side: it answers a gateway that has proven itself by its certificate.

use std::sync::Arc;

use crypto::cert::{Certificate, TrustStore};
use crypto::hash::is_equal;
use crypto::mschapv2::{CHALLENGE_LEN, Challenges, NtHash};
use crypto::rand::Stream;
use crypto::sign::PrivateKey;
use crypto::tls::handshake::End;
use wire::eap::mschapv2::{Request, Response};
use wire::eap::{Eap, EapCode, EapKind};

use super::Budget;
use super::mschapv2::{authenticator, complaint, without_domain};
use super::tls::{Tls, Turn};
use crate::identity::IdentityPattern;
use crate::sa::Secret;
use crate::work::Work;

/// What a station proves itself with: no `Debug`, wiped on drop.
pub struct Login {
    /// What it calls itself, perhaps with a domain before it.
    pub user: String,
    /// How it proves that.
    pub method: LoginMethod,
    /// Whose certificate the server of EAP-TLS has, where that is not the gateway: a server of
    /// RADIUS behind it.
    pub server: Option<IdentityPattern>,
}

/// The method of EAP that a station has.
pub enum LoginMethod {
    /// MSCHAPv2: its password, hashed.
    Password(NtHash),
    /// TLS: its key, and its certificate before intermediates.
    Certificate(Arc<PrivateKey>, Vec<Certificate>),
}

impl Login {
    /// Whether its method proves the gateway too, by more than a password, so that nothing else
    /// has to (RFC 5998 §4).
    pub fn is_safe_alone(&self) -> bool {
        matches!(self.method, LoginMethod::Certificate(..))
    }
}

impl LoginMethod {
    const fn kind(&self) -> EapKind {
        match self {
            Self::Password(_) => EapKind::MsChapV2,
            Self::Certificate(..) => EapKind::Tls,
        }
    }
}

/// One exchange with a gateway.
pub struct Station {
    login: Arc<Login>,
    /// Whose certificate a server of EAP-TLS must have, and the date, seconds since 1970.
    trusted: (Arc<TrustStore>, i64),
    stage: Stage,
    budget: Budget,
    work: Work,
}

enum Stage {
    /// The gateway may ask for an identity, and for a method.
    Begun,
    /// TLS.
    Tls(Box<Tls>),
    /// We have proven our password; the gateway must know it too.
    Proving {
        id: u8,
        authenticator: [u8; 20],
        key: Secret,
    },
    /// Both ends have proven the password.
    Proven(Secret),
    /// The gateway has refused our password.
    Refused(&'static str),
}

/// What follows from a packet.
pub enum Told {
    /// Our answer.
    Answer(Eap),
    /// The gateway is content: the key that AUTH proves, and with TLS the server's certificates in
    /// DER, its own first, whose names are to be compared.
    Content(Secret, Option<Vec<Vec<u8>>>),
    /// The gateway says that our password is wrong, or why else it refuses the user.
    Refused(String),
    /// The exchange is over, and why.
    Over(String),
}

impl Station {
    /// Waits for the gateway's first request.
    pub fn new(login: Arc<Login>, trusted: Arc<TrustStore>, now: i64) -> Self {
        Self {
            login,
            trusted: (trusted, now),
            stage: Stage::Begun,
            budget: Budget::new(),
            work: Work::default(),
        }
    }

    /// What was computed since the last call, as far as it is counted: that of TLS.
    pub fn take_work(&mut self) -> Work {
        core::mem::take(&mut self.work)
    }

    /// Handles a packet.
    pub fn on_packet(&mut self, packet: &Eap, random: &mut Stream) -> Told {
        if !self.budget.take(packet.octets().len()) {
            return Told::Over("the gateway sends more than an exchange of EAP needs".into());
        }
        let Some(kind) = packet.kind().filter(|_| packet.code() == EapCode::Request) else {
            return self.on_verdict(packet.code());
        };
        let answer = |kind, data: &[u8]| {
            Told::Answer(Eap::of_kind(EapCode::Response, packet.id(), kind, data))
        };
        let own = self.login.method.kind();
        match (&self.stage, kind) {
            (Stage::Begun, EapKind::Identity) => answer(kind, self.login.user.as_bytes()),
            // RFC 3748 §5.2: a text for the user; we have none who would read it.
            (_, EapKind::Notification) => answer(kind, &[]),
            (_, EapKind::MsChapV2) if own == kind => match Request::parse(packet.data()) {
                Ok(request) => match self.on_request(request, random) {
                    Ok(response) => answer(kind, &response.to_data()),
                    Err(why) => Told::Over(why.into()),
                },
                Err(fault) => Told::Over(format!("EAP-MSCHAPv2: {fault}")),
            },
            (_, EapKind::Tls) if own == kind => match self.on_tls(packet.data(), random) {
                Ok(data) => answer(kind, &data),
                Err(why) => Told::Over(why),
            },
            // RFC 3748 §5.3.1: the method that we have.
            (Stage::Begun, _) => answer(EapKind::Nak, &[own.number()]),
            _ => Told::Over("the gateway changes the method of EAP".into()),
        }
    }

    fn on_tls(&mut self, data: &[u8], random: &mut Stream) -> Result<Vec<u8>, String> {
        if let (Stage::Begun, LoginMethod::Certificate(key, chain)) =
            (&self.stage, &self.login.method)
        {
            let end = End {
                key: Arc::clone(key),
                chain: chain.clone(),
                trusted: Arc::clone(&self.trusted.0),
            };
            self.stage = Stage::Tls(Box::new(Tls::client(&end, self.trusted.1, random)?));
        }
        let Stage::Tls(tls) = &mut self.stage else {
            return Err("the gateway breaks the order of EAP".into());
        };
        let turn = tls.answer(data);
        self.work.merge(&tls.take_work());
        match turn {
            Turn::Say(data) => Ok(data),
            Turn::Done => Err("the gateway breaks the order of EAP-TLS".into()),
            Turn::Failed(why) => Err(why),
        }
    }

    fn on_request(
        &mut self,
        request: Request,
        random: &mut Stream,
    ) -> Result<Response, &'static str> {
        match (request, &self.stage, &self.login.method) {
            (
                Request::Challenge {
                    id,
                    challenge: server,
                    ..
                },
                Stage::Begun,
                LoginMethod::Password(hash),
            ) => {
                let hash = hash.clone();
                Ok(self.prove(id, &hash, &server, random))
            }
            (
                Request::Success { id, text },
                Stage::Proving {
                    id: asked,
                    authenticator: due,
                    key,
                },
                _,
            ) if id == *asked => {
                let proof = authenticator(&text).unwrap_or_default();
                if !is_equal(&proof, due) {
                    return Err("the gateway does not know our password: it may be an impostor");
                }
                self.stage = Stage::Proven(key.clone());
                Ok(Response::Success)
            }
            // A retry, if it is offered, would be with the same password.
            (Request::Failure { text, .. }, Stage::Proving { .. }, _) => {
                self.stage = Stage::Refused(complaint(&text));
                Ok(Response::Failure)
            }
            _ => Err("the gateway breaks the order of EAP-MSCHAPv2"),
        }
    }

    fn prove(
        &mut self,
        id: u8,
        hash: &NtHash,
        server: &[u8; CHALLENGE_LEN],
        random: &mut Stream,
    ) -> Response {
        let mut peer = [0; CHALLENGE_LEN];
        random.fill(&mut peer);
        let name = self.login.user.as_bytes();
        let challenges = Challenges {
            server,
            peer: &peer,
            user: without_domain(name),
        };
        let response = hash.respond(challenges);
        self.stage = Stage::Proving {
            id,
            authenticator: hash.authenticator(&response, challenges),
            key: Secret(hash.key(&response).to_vec()),
        };
        Response::Proof {
            id,
            challenge: peer,
            response,
            name: name.to_vec(),
        }
    }

    /// Success counts only after both ends have proven themselves (RFC 3748 §4.2).
    fn on_verdict(&mut self, code: EapCode) -> Told {
        match (&self.stage, code) {
            (Stage::Proven(key), EapCode::Success) => Told::Content(key.clone(), None),
            (Stage::Tls(tls), EapCode::Success) if tls.may_succeed() => match tls.key() {
                Ok(key) => Told::Content(key, Some(tls.peer())),
                Err(why) => Told::Over(why),
            },
            (Stage::Refused(why), _) => Told::Refused((*why).to_owned()),
            (Stage::Tls(tls), EapCode::Failure) => match tls.fault() {
                Some(why) => Told::Over(why.to_owned()),
                None => Told::Over("the gateway refuses our certificate in EAP-TLS".into()),
            },
            // Perhaps it cannot ask its server.
            (_, EapCode::Failure) => {
                Told::Over("the gateway refuses the user without saying why".into())
            }
            _ => Told::Over("the gateway breaks the order of EAP".into()),
        }
    }
}
