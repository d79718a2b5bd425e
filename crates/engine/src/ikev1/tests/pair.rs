//! Two ends of a phase 1 exchange and the wire between them.
//!
//! The keys in `keys/` are for tests only and worth nothing, valid from November 2026 to July
//! 2051: `ca` issued `station` and `mid`, `mid` issued `gateway`, `stranger` issued `intruder`.

use std::collections::VecDeque;
use std::sync::Arc;

use crypto::cert::{Certificate, TrustStore};
use crypto::rand::{Seed, Stream};
use crypto::sign::PrivateKey;

use crate::config::{
    Config, Connection, Encapsulation, IdentityPattern, InnerFamilies, Limits, LocalAuth,
    LocalMethod, RemoteAuth, RemoteMethod, Start, Unique,
};
use crate::identity::Identity;
use crate::ike::{Fault, IKE_PORT, NAT_T_PORT, Outbox, Sent};
use crate::ikev1::IsakmpSa;
use crate::ikev1::decoy::Decoys;
use crate::ikev1::message::Message;
use crate::ikev1::phase1::{Means, Outcome, Phase1};
use crate::quotas::Quotas;
use crate::sa::{Path, Secret};
use crate::time::{Calendar, Duration, Instant};

/// All test certificates are valid at this time.
pub(crate) const JANUARY_2027: Calendar = Calendar(1_800_000_000);

/// The settings of a test, the same for both ends.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) is_aggressive: bool,
    pub(super) has_certificates: bool,
    pub(super) suites: &'static str,
    pub(super) is_natted: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            is_aggressive: false,
            has_certificates: false,
            suites: "aes128-sha256-modp1024",
            is_natted: false,
        }
    }
}

impl Setup {
    /// The initiator's side.
    pub(super) fn station(&self) -> Connection {
        let (method, remote) = if self.has_certificates {
            signatures("station", &["station"])
        } else {
            preshared("secret")
        };
        let mut connection = self.connection("home", method, remote);
        connection.remote_addrs = vec!["192.0.2.1:500".parse().unwrap()];
        connection.local.identity = Identity::parse("station@example").unwrap();
        connection.remote.identities = vec![pattern("gateway.example")];
        connection
    }

    /// The responder's side.
    pub(super) fn gateway(&self) -> Connection {
        let (method, remote) = if self.has_certificates {
            signatures("gateway", &["gateway", "mid"])
        } else {
            preshared("secret")
        };
        let mut connection = self.connection("stations", method, remote);
        connection.local.identity = Identity::parse("gateway.example").unwrap();
        connection.remote.identities = vec![pattern("*@example")];
        connection
    }

    pub(super) fn pair(&self) -> Pair {
        Pair::new(self.station(), vec![self.gateway()], self.is_natted)
    }

    fn connection(&self, name: &str, local: LocalMethod, remote: RemoteMethod) -> Connection {
        Connection {
            name: name.into(),
            revision: 0,
            local_addrs: Vec::new(),
            remote_addrs: Vec::new(),
            version: crate::config::Version::V1,
            is_aggressive: self.is_aggressive,
            ikev2_proposals: Vec::new(),
            ppk: None,
            proposals: self.suites.split(' ').map(|s| s.parse().unwrap()).collect(),
            local: LocalAuth {
                identity: Identity::KeyId(Vec::new()),
                method: local,
            },
            remote: RemoteAuth {
                identities: vec![IdentityPattern::Any],
                method: remote,
            },
            children: Vec::new(),
            wants_inner: InnerFamilies::default(),
            pools: Vec::new(),
            dnssec_domains: Vec::new(),
            is_legacy: true,
            takes_rsa_sha1: false,
            start: Start::AtOnce,
            encapsulation: Encapsulation::ThroughNat,
            fragments: true,
            full_transcript: true,
            is_eap_only: false,
            mobike: true,
            reauth: true,
            childless: crate::config::Childless::Allow,
            crash_detection: false,
            resumption: false,
            redirects: crate::config::Redirects::default(),
            dpd_delay: None,
            dpd_timeout: Duration::from_secs(30),
            keepalive: Duration::from_secs(20),
            lifetime: Duration::from_secs(3600),
            rekey_margin: Duration::from_secs(300),
            unique: Unique::Replace,
            peers_max: crate::config::PEERS_MAX,
        }
    }
}

fn means(random: &mut Stream, calendar: Calendar) -> Means<'_> {
    Means {
        random,
        quotas: None,
        calendar,
    }
}

pub(crate) fn pattern(text: &str) -> IdentityPattern {
    IdentityPattern::parse(text).unwrap()
}

pub(super) fn preshared(key: &str) -> (LocalMethod, RemoteMethod) {
    let key = Arc::new(Secret(key.as_bytes().to_vec()));
    (
        LocalMethod::PresharedKey(Arc::clone(&key)),
        RemoteMethod::PresharedKey(key),
    )
}

/// The key of `key`, the certificates of `chain`, and trust in the authority.
pub(crate) fn signatures(key: &str, chain: &[&str]) -> (LocalMethod, RemoteMethod) {
    let method = LocalMethod::Signature {
        key: Arc::new(PrivateKey::from_pem(file(key, "key")).unwrap()),
        chain: chain.iter().map(|name| certificate(name)).collect(),
    };
    (method, RemoteMethod::Signature(Arc::new(trust("ca"))))
}

pub(super) fn certificate(name: &str) -> Certificate {
    Certificate::all_from_pem(file(name, "crt"))
        .unwrap()
        .swap_remove(0)
}

pub(super) fn trust(authority: &str) -> TrustStore {
    TrustStore {
        authorities: vec![certificate(authority)],
        ..TrustStore::default()
    }
}

fn file(name: &str, kind: &str) -> &'static str {
    match (name, kind) {
        ("ca", "crt") => include_str!("keys/ca.crt"),
        ("mid", "crt") => include_str!("keys/mid.crt"),
        ("stranger", "crt") => include_str!("keys/stranger.crt"),
        ("gateway", "crt") => include_str!("keys/gateway.crt"),
        ("station", "crt") => include_str!("keys/station.crt"),
        ("intruder", "crt") => include_str!("keys/intruder.crt"),
        ("gateway", "key") => include_str!("keys/gateway.key"),
        ("station", "key") => include_str!("keys/station.key"),
        ("intruder", "key") => include_str!("keys/intruder.key"),
        _ => unreachable!("no such file"),
    }
}

/// One end.
pub(super) struct End {
    pub(super) phase1: Option<Phase1>,
    pub(super) sa: Option<(IsakmpSa, Arc<Connection>)>,
    pub(super) fault: Option<Fault>,
    pub(super) out: Outbox,
    /// In flight to the other end.
    pub(super) sent: VecDeque<Sent>,
    /// Everything ever sent.
    pub(super) log: Vec<Sent>,
    pub(super) random: Stream,
}

/// Both ends.
pub(super) struct Pair {
    pub(super) i: End,
    pub(super) r: End,
    pub(super) responders: Config,
    pub(super) now: Instant,
    pub(super) calendar: Calendar,
    /// The responder's quotas.
    pub(super) quotas: Option<Quotas>,
    is_natted: bool,
}

impl Pair {
    /// The initiator has sent its first message.
    pub(super) fn new(initiator: Connection, responders: Vec<Connection>, is_natted: bool) -> Self {
        let seed = Seed::new([7; 32]);
        let end = |name| End {
            phase1: None,
            sa: None,
            fault: None,
            out: Outbox::default(),
            sent: VecDeque::new(),
            log: Vec::new(),
            random: seed.stream(name, 0),
        };
        let mut pair = Self {
            i: end("initiator"),
            r: end("responder"),
            responders: Config {
                connections: responders.into_iter().map(Arc::new).collect(),
                pools: Vec::new(),
                radius: None,
                limits: Limits::default(),
            },
            now: Instant(0),
            calendar: JANUARY_2027,
            quotas: None,
            is_natted,
        };
        let (own, gateway) = ([10, 0, 0, 2], [192, 0, 2, 1]);
        let path = match initiator.remote_addrs[0].port() {
            IKE_PORT => Path::udp((own, IKE_PORT), (gateway, IKE_PORT)),
            other => Path::udp_with_marker((own, NAT_T_PORT), (gateway, other)),
        };
        let i = &mut pair.i;
        let connection = Arc::new(initiator);
        let phase1 = Phase1::initiate(connection, path, true, &mut i.random, pair.now, &mut i.out);
        i.phase1 = Some(phase1);
        i.after(Ok(None));
        pair
    }

    /// Delivers until nothing is in flight.
    pub(super) fn run(&mut self) {
        while let Some((to_responder, sent)) = self.next() {
            self.deliver(to_responder, &sent);
        }
    }

    /// The next message in flight, and whether it goes to the responder.
    pub(super) fn next(&mut self) -> Option<(bool, Sent)> {
        let first = self.i.sent.pop_front().map(|sent| (true, sent));
        first.or_else(|| self.r.sent.pop_front().map(|sent| (false, sent)))
    }

    /// Delivers one message.
    pub(super) fn deliver(&mut self, to_responder: bool, sent: &Sent) {
        let path = self.seen(to_responder, sent.path);
        if to_responder {
            self.responder_gets(path, &sent.message);
        } else {
            self.initiator_gets(path, &sent.message);
        }
    }

    pub(super) fn responder_gets(&mut self, path: Path, message: &[u8]) {
        let (now, calendar) = (self.now, self.calendar);
        let r = &mut self.r;
        let message = match (Message::parse(message), &r.phase1) {
            (Ok(message), _) => message,
            (Err(reason), Some(_)) => return r.out.drops.count(reason),
            (Err(reason), None) => return r.after(Err(reason.into())),
        };
        let message = &message;
        let result = match &mut r.phase1 {
            Some(phase1) => {
                let quotas = self.quotas.as_mut();
                let means = Means {
                    quotas,
                    ..means(&mut r.random, calendar)
                };
                let result = phase1.on_message(path, message, means, now, &mut r.out);
                result.map(|(_, sa)| sa)
            }
            None if r.fault.is_some() => return,
            None => {
                let all = self.responders.between(path);
                let decoys = Decoys::new(&Seed::new([9; 32]));
                Phase1::respond(&all, &decoys, path, message, &mut r.random, now, &mut r.out).map(
                    |phase1| {
                        r.phase1 = Some(phase1);
                        None
                    },
                )
            }
        };
        r.after(result);
    }

    pub(super) fn initiator_gets(&mut self, path: Path, message: &[u8]) {
        let (now, calendar) = (self.now, self.calendar);
        let i = &mut self.i;
        let Some(phase1) = &mut i.phase1 else { return };
        let message = match Message::parse(message) {
            Ok(message) => message,
            Err(reason) => return i.out.drops.count(reason),
        };
        let means = means(&mut i.random, calendar);
        let result = phase1.on_message(path, &message, means, now, &mut i.out);
        i.after(result.map(|(_, sa)| sa));
    }

    /// Advances time to the next deadline. Returns whether there was one.
    pub(super) fn wait(&mut self) -> bool {
        let deadline = |end: &End| end.phase1.as_ref().and_then(Phase1::deadline);
        let Some(next) = deadline(&self.i).into_iter().chain(deadline(&self.r)).min() else {
            return false;
        };
        self.now = self.now.max(next.at);
        for end in [&mut self.i, &mut self.r] {
            if let Some(phase1) = &mut end.phase1
                && phase1
                    .deadline()
                    .is_some_and(|deadline| deadline.at <= self.now)
            {
                let result = phase1.on_deadline(self.now, &mut end.out);
                end.after(result.map(|()| None));
            }
        }
        true
    }

    /// Delivers and waits until both ends have finished or nothing more can happen.
    pub(super) fn settle(&mut self) {
        for _ in 0..100 {
            self.run();
            if self.is_established() || !self.wait() {
                return;
            }
        }
    }

    pub(super) fn is_established(&self) -> bool {
        self.i.sa.is_some() && self.r.sa.is_some()
    }

    /// Both ends are done and have the same keys.
    pub(super) fn assert_established(&self) {
        let faults = (&self.i.fault, &self.r.fault);
        let (Some((i, _)), Some((r, _))) = (&self.i.sa, &self.r.sa) else {
            panic!("not established: {faults:?}");
        };
        assert_eq!(i.cookies, r.cookies);
        assert_eq!(i.suite, r.suite);
        assert!(i.skeyid_d.0 == r.skeyid_d.0 && i.skeyid_a.0 == r.skeyid_a.0);
        assert!(i.cipher_key.0 == r.cipher_key.0);
        assert_eq!(i.last_iv, r.last_iv);
        assert_eq!(i.last_iv.len(), i.suite.cipher.block_len());
        assert_eq!(i.peer, r.peer);
    }

    /// A path as the other end sees it.
    pub(super) fn seen(&self, to_responder: bool, path: Path) -> Path {
        let mut seen = path.reversed();
        if self.is_natted && to_responder {
            seen.remote = match path.local.port() {
                500 => "198.51.100.7:40500",
                _ => "198.51.100.7:44500",
            }
            .parse()
            .unwrap();
        } else if self.is_natted {
            seen.local = match seen.local.port() {
                40500 => "10.0.0.2:500",
                _ => "10.0.0.2:4500",
            }
            .parse()
            .unwrap();
        }
        seen
    }
}

impl End {
    /// Handles the result of a call.
    fn after(&mut self, result: Result<Option<Outcome>, Fault>) {
        for sent in self.out.messages.drain(..) {
            self.log.push(sent.clone());
            self.sent.push_back(sent);
        }
        match result {
            Ok(None) | Err(Fault::Dropped(_) | Fault::Malformed(_)) => {}
            Ok(Some((sa, connection))) => self.sa = Some((*sa, connection)),
            Err(fault) => {
                self.fault = Some(fault);
                self.phase1 = None;
            }
        }
    }

    pub(super) fn sentence(&self) -> String {
        self.fault
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// What was sent: names and payloads.
    pub(super) fn arrows(&self) -> Vec<String> {
        let line = |sent: &Sent| format!("{}: {}", sent.step, sent.payloads);
        self.log.iter().map(line).collect()
    }
}
