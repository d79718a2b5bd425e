//! The gateway's side: it lets a peer prove that it is a user, or has a certificate.
//!
//! The identity that EAP asks for first is only a hint, which some peers leave empty: who the peer
//! is, its method proves. A name that nobody has is asked for its password like any other, so that
//! a stranger does not learn which users there are.

use std::sync::Arc;

use crypto::cert::{Certificate, TrustStore};
use crypto::mschapv2::{CHALLENGE_LEN, Challenges, HASH_LEN, NtHash};
use crypto::rand::Stream;
use crypto::sign::PrivateKey;
use crypto::tls::handshake::End;
use wire::eap::mschapv2::{Request, Response};
use wire::eap::{Eap, EapCode, EapKind};

use super::mschapv2::{failure, success, without_domain};
use super::tls::{Tls, Turn};
use super::{Budget, Users};
use crate::identity::Identity;
use crate::sa::Secret;
use crate::work::Work;

/// What we call ourselves in a challenge. No method uses it.
const NAME: &[u8] = b"caravan";
/// Characters of a stranger's name in the log at most.
const MAX_TOLD: usize = 64;

/// Who may prove itself, and how. Each method that is there is offered, certificates first.
#[derive(Default)]
pub struct Examiner {
    /// Users with passwords.
    pub users: Option<Arc<Users>>,
    /// Certificates by these authorities.
    pub trusted: Option<Arc<TrustStore>>,
    /// Servers of RADIUS know the peers, and there is nothing else.
    pub asks_servers: bool,
}

impl Examiner {
    /// Whether every method proves the gateway too, by more than a password, so that nothing else
    /// has to (RFC 5998 §4).
    pub fn is_safe_alone(&self) -> bool {
        self.trusted.is_some() && self.users.is_none() && !self.asks_servers
    }
}

/// What a gateway itself proves in EAP-TLS: what it proves in IKE.
pub struct Own<'a> {
    /// Its key.
    pub key: &'a Arc<PrivateKey>,
    /// Its certificate, then intermediates.
    pub chain: &'a [Certificate],
    /// The date, seconds since 1970.
    pub now: i64,
}

/// One exchange with a peer.
pub struct Server {
    users: Option<Arc<Users>>,
    tls: Option<Box<Tls>>,
    /// The identifier of our open request.
    id: u8,
    stage: Stage,
    budget: Budget,
    work: Work,
}

enum Stage {
    Identity,
    Tls(Box<Tls>),
    Challenge([u8; CHALLENGE_LEN]),
    /// The peer has proven itself and reads that we have.
    Proven(Identity, Secret),
    /// The peer reads why it is refused.
    Refused(String),
    Over,
}

/// Who a peer has proven to be.
pub enum Subject {
    /// A user.
    User(Identity),
    /// The holder of a certificate, which TLS has checked: DER, its own first.
    Certificate(Vec<Vec<u8>>),
}

/// What follows from a response.
pub enum Asked {
    /// The next request.
    More(Eap),
    /// Who the peer is, the packet that says so, and the key that AUTH proves.
    Proven(Subject, Eap, Secret),
    /// The packet that says so, and why.
    Refused(Eap, String),
}

impl Server {
    /// Begins with a request for the peer's identity.
    pub fn begin(
        examiner: &Examiner,
        own: &Own<'_>,
        random: &mut Stream,
    ) -> Result<(Self, Eap), String> {
        let tls = match &examiner.trusted {
            Some(trusted) => {
                let end = End {
                    key: Arc::clone(own.key),
                    chain: own.chain.to_vec(),
                    trusted: Arc::clone(trusted),
                };
                Some(Box::new(Tls::server(&end, own.now, random)?))
            }
            None => None,
        };
        let mut id = [0];
        random.fill(&mut id);
        let server = Self {
            users: examiner.users.clone(),
            tls,
            id: id[0],
            stage: Stage::Identity,
            budget: Budget::new(),
            work: Work::default(),
        };
        let asked = server.request(EapKind::Identity, &[]);
        Ok((server, asked))
    }

    /// Handles a response.
    pub fn on_packet(&mut self, packet: &Eap, random: &mut Stream) -> Asked {
        if !self.budget.take(packet.octets().len()) {
            return self.refuse("the peer sends more than an exchange of EAP needs");
        }
        let is_answer = packet.code() == EapCode::Response && packet.id() == self.id;
        let Some(kind) = packet.kind().filter(|_| is_answer) else {
            return self.refuse("the peer's packet of EAP does not answer ours");
        };
        let data = packet.data();
        match (core::mem::replace(&mut self.stage, Stage::Over), kind) {
            (Stage::Identity, EapKind::Identity) => self.offer(random),
            (Stage::Tls(tls), EapKind::Tls) => self.on_tls(tls, data),
            // The peer wants the other method (RFC 3748 §5.3.1).
            (Stage::Tls(_), EapKind::Nak) if self.wants_password(data) => self.challenge(random),
            (Stage::Tls(_) | Stage::Challenge(_), EapKind::Nak) => self.refuse_nak(data),
            (Stage::Challenge(challenge), EapKind::MsChapV2) => {
                self.on_proof(&challenge, data, random)
            }
            (Stage::Proven(user, key), EapKind::MsChapV2) => match Response::parse(data) {
                Ok(Response::Success) => {
                    let verdict = Eap::verdict(true, self.id);
                    Asked::Proven(Subject::User(user), verdict, key)
                }
                Ok(_) => self.refuse("the peer does not take our proof of the password"),
                Err(fault) => self.refuse(&format!("EAP-MSCHAPv2: {fault}")),
            },
            (Stage::Refused(why), _) => self.refuse(&why),
            _ => self.refuse("the peer answers a request of EAP by another type"),
        }
    }

    /// What was computed since the last call, as far as it is counted: that of TLS.
    pub fn take_work(&mut self) -> Work {
        core::mem::take(&mut self.work)
    }

    /// The user whose password a packet is to prove. Names of nobody are told apart too.
    pub fn user_of(&self, packet: &Eap) -> Option<Identity> {
        let is_proof = matches!(self.stage, Stage::Challenge(_));
        let kind = packet.kind().filter(|_| is_proof);
        let kind = kind.filter(|kind| *kind == EapKind::MsChapV2);
        let Ok(Response::Proof { name, .. }) = kind.and(Some(Response::parse(packet.data())))?
        else {
            return None;
        };
        let name = without_domain(&name);
        let user = self.users.as_ref()?.find(name);
        let user = user.map(|(identity, _)| identity.clone());
        Some(user.unwrap_or_else(|| Identity::KeyId(name.to_ascii_lowercase())))
    }

    /// Whether the peer has proven a password, and is reading our proof.
    pub fn has_right_password(&self) -> bool {
        matches!(self.stage, Stage::Proven(..))
    }

    /// Why the peer is refused, if it is reading that.
    pub fn refusal(&self) -> Option<&str> {
        match &self.stage {
            Stage::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Begins the first method that there is.
    fn offer(&mut self, random: &mut Stream) -> Asked {
        match self.tls.take() {
            Some(tls) => {
                self.stage = Stage::Tls(tls);
                self.id = self.id.wrapping_add(1);
                Asked::More(self.request(EapKind::Tls, &Tls::start()))
            }
            None => self.challenge(random),
        }
    }

    fn on_tls(&mut self, mut tls: Box<Tls>, data: &[u8]) -> Asked {
        let turn = tls.serve(data);
        self.work.merge(&tls.take_work());
        match turn {
            Turn::Say(data) => {
                self.id = self.id.wrapping_add(1);
                let asked = self.request(EapKind::Tls, &data);
                self.stage = Stage::Tls(tls);
                Asked::More(asked)
            }
            Turn::Done => match tls.key() {
                Ok(key) => {
                    let verdict = Eap::verdict(true, self.id);
                    Asked::Proven(Subject::Certificate(tls.peer()), verdict, key)
                }
                Err(why) => self.refuse(&why),
            },
            Turn::Failed(why) => self.refuse(&why),
        }
    }

    fn wants_password(&self, wanted: &[u8]) -> bool {
        self.users.is_some() && wanted.contains(&EapKind::MsChapV2.number())
    }

    fn challenge(&mut self, random: &mut Stream) -> Asked {
        if self.users.is_none() {
            return self.refuse("no method of EAP is left");
        }
        let mut challenge = [0; CHALLENGE_LEN];
        random.fill(&mut challenge);
        self.stage = Stage::Challenge(challenge);
        self.id = self.id.wrapping_add(1);
        self.ask(&Request::Challenge {
            id: self.id,
            challenge,
            name: NAME.to_vec(),
        })
    }

    fn on_proof(
        &mut self,
        challenge: &[u8; CHALLENGE_LEN],
        data: &[u8],
        random: &mut Stream,
    ) -> Asked {
        let (peer, response, name) = match Response::parse(data) {
            Ok(Response::Proof {
                id,
                challenge: peer,
                response,
                name,
            }) if id == self.id => (peer, response, name),
            Ok(_) => {
                return self.refuse("the peer's proof of its password is not of our challenge");
            }
            Err(fault) => return self.refuse(&format!("EAP-MSCHAPv2: {fault}")),
        };
        let user = without_domain(&name);
        let challenges = Challenges {
            server: challenge,
            peer: &peer,
            user,
        };
        let mut nobody = [0; HASH_LEN];
        random.fill(&mut nobody);
        let nobody = NtHash::from_octets(nobody);
        let users = self.users.clone().unwrap_or_default();
        let known = users.find(user);
        let hash = known.map_or(&nobody, |(_, hash)| hash);
        let is_proven = hash.is_proven_by(&response, challenges);
        let request_id = self.id;
        self.id = self.id.wrapping_add(1);
        match known.filter(|_| is_proven) {
            Some((identity, hash)) => {
                let text = success(&hash.authenticator(&response, challenges));
                let key = Secret(hash.key(&response).to_vec());
                self.stage = Stage::Proven(identity.clone(), key);
                self.ask(&Request::Success {
                    id: request_id,
                    text,
                })
            }
            None => {
                let told = told(user);
                self.stage = Stage::Refused(match known {
                    Some(_) => format!("the password of user {told} is wrong"),
                    None => format!("there is no user {told}"),
                });
                let mut unused = [0; CHALLENGE_LEN];
                random.fill(&mut unused);
                self.ask(&Request::Failure {
                    id: request_id,
                    text: failure(&unused),
                })
            }
        }
    }

    /// A Nak names the methods that the peer has.
    fn refuse_nak(&mut self, wanted: &[u8]) -> Asked {
        let methods: Vec<String> = wanted.iter().take(8).map(u8::to_string).collect();
        let methods = methods.join(", ");
        self.refuse(&format!(
            "the peer has none of our methods of EAP, but those with the numbers {methods}"
        ))
    }

    fn refuse(&mut self, why: &str) -> Asked {
        self.stage = Stage::Over;
        Asked::Refused(Eap::verdict(false, self.id), why.to_owned())
    }

    fn ask(&self, request: &Request) -> Asked {
        Asked::More(self.request(EapKind::MsChapV2, &request.to_data()))
    }

    fn request(&self, kind: EapKind, data: &[u8]) -> Eap {
        Eap::of_kind(EapCode::Request, self.id, kind, data)
    }
}

/// A stranger's text for the log.
pub(crate) fn told(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let short: String = text.chars().take(MAX_TOLD).collect();
    format!("{short:?}")
}
