//! Host between clients, its database and Target.

use std::collections::{BTreeMap, BTreeSet};

use crypto::rand::Stream;
use engine::agent::Digest;
use engine::agent::envelope::request_digest;
use engine::agent::host::{Answer, Ask, Config, Half, Host, Output, Record, State, TargetEntry};
use engine::agent::ppk::KeyPpk;
use engine::time::{Calendar, Duration, Instant};
use wire::agent::{Authorization, Inquiry, Kind, Offer, Referral, Response, Verdict};

use super::*;

const KEYS: u8 = 3;
const TARGET: u8 = 3;

/// The agent, and what was said to it.
pub struct Stage {
    host: Host,
    random: Stream,
    now: Instant,
    keys: BTreeMap<Handle, Record>,
    asked: Vec<(u64, Ask)>,
    heard: Vec<Vec<u8>>,
    inquiry: Option<Inquiry>,
    /// Requests that were referred, in their order.
    referrals: Vec<Digest>,
    /// Requests that were referred, by key.
    referred: BTreeMap<[u8; 16], BTreeSet<Digest>>,
    granted: usize,
}

impl Default for Stage {
    fn default() -> Self {
        let identity = target_keys().identity();
        let entry = TargetEntry {
            identity,
            address: address(TARGET),
        };
        let config = Config {
            keys: host_keys(),
            targets: [(identity.fingerprint(), entry)].into(),
            accepts_legacy: false,
        };
        let record = |number| {
            let half = Half::Public(one_time(number).public());
            let mut record = Record::new(half, USER.into(), Calendar(TODAY + 3_600));
            record.ppk = Some(KeyPpk::of(&[number; 32]));
            record
        };
        let now = Instant(0);
        Self {
            host: Host::new(config, clock(now, 0), now, random("host")),
            random: random("others"),
            now,
            keys: (0..KEYS).map(|it| (handle(it), record(it))).collect(),
            asked: Vec::new(),
            heard: Vec::new(),
            inquiry: None,
            referrals: Vec::new(),
            referred: BTreeMap::new(),
            granted: 0,
        }
    }
}

impl Stage {
    pub fn step(&mut self, kind: u8, script: &mut Script<'_>) {
        match kind % 9 {
            0 => {
                let octets = script.octets();
                self.host.handle(address(script.octet()), &octets, self.now);
            }
            1 | 2 => self.request(script),
            3 => {
                let at = usize::from(script.octet());
                if let Some(message) = self.heard.get(at % self.heard.len().max(1)).cloned() {
                    self.host
                        .handle(address(script.octet()), &message, self.now);
                }
            }
            4 => {
                let at = usize::from(script.octet());
                if !self.asked.is_empty() {
                    let (number, ask) = self.asked.remove(at % self.asked.len());
                    let answer = match script.octet() {
                        255 => Answer::Unavailable,
                        _ => self.database(&ask),
                    };
                    self.host.answered(number, answer, self.now);
                }
            }
            5 => self.offer(script),
            6 => self.authorization(script),
            7 => self.host.set_clock(clock(self.now, script.number())),
            _ => {
                self.now = self.now + script.span();
                self.host.handle_timeout(self.now);
            }
        }
        self.drain();
    }

    /// Left alone with a database that answers, it forgets everything and leaves no key taken.
    pub fn end(mut self) {
        for _ in 0..2_000 {
            self.now = self.now + Duration::from_secs(1);
            self.host.handle_timeout(self.now);
            self.drain();
            for (number, ask) in std::mem::take(&mut self.asked) {
                let answer = self.database(&ask);
                self.host.answered(number, answer, self.now);
            }
            self.drain();
        }
        assert_eq!(self.host.exchanges(), 0);
        let is_taken = |it: &Record| matches!(it.state, State::Taken { .. });
        // The clock may have gone back: then a sweep comes later.
        self.host.set_clock(clock(self.now, u16::MAX));
        self.now = self.now + Duration::from_secs(100);
        self.host.handle_timeout(self.now);
        self.drain();
        for (_, ask) in std::mem::take(&mut self.asked) {
            self.database(&ask);
        }
        assert!(!self.keys.values().any(is_taken), "a key stays taken");
    }

    /// How many clients were told of a tunnel.
    pub fn granted(&self) -> usize {
        self.granted
    }

    fn request(&mut self, script: &mut Script<'_>) {
        let number = script.octet() % (KEYS + 1);
        let by = one_time(number ^ (script.octet() >> 7));
        let body = request(script, self.now).to_vec();
        let to = host_keys().identity().sealing;
        let message = sealed(
            Kind::Request,
            handle(number).0,
            to,
            &body,
            &by,
            &mut self.random,
        );
        let message = script.damage(message);
        self.heard.push(message.clone());
        self.host
            .handle(address(script.octet()), &message, self.now);
    }

    fn offer(&mut self, script: &mut Script<'_>) {
        let Some(inquiry) = self.inquiry else {
            return;
        };
        let change = script.octet();
        let body = Offer {
            nonce: inquiry.nonce,
            options: 15 ^ change,
            ike: 7 ^ change >> 4,
            lifetime: script.octet().into(),
            room: 4,
        };
        self.target_says(Kind::Offer, &body.to_vec(), script);
    }

    fn authorization(&mut self, script: &mut Script<'_>) {
        let at = usize::from(script.octet());
        let Some(request) = self.referrals.get(at % self.referrals.len().max(1)) else {
            return;
        };
        let body = Authorization {
            request: request.0,
            verdict: Verdict::from(script.octet()),
            option: 4,
            until: TODAY as u64 + 600,
            part: script.octets(),
        };
        self.target_says(Kind::Authorization, &body.to_vec(), script);
    }

    fn target_says(&mut self, kind: Kind, body: &[u8], script: &mut Script<'_>) {
        let keys = (&target_keys(), &host_keys());
        let message = proven(kind, keys, body, self.now, &mut self.random);
        let message = script.damage(message);
        self.host.handle(address(TARGET), &message, self.now);
    }

    fn database(&mut self, ask: &Ask) -> Answer {
        let rank = |state: &State| match state {
            State::Valid => 0,
            State::Taken { .. } => 1,
            _ => 2,
        };
        let handle = match ask {
            Ask::Find(handle)
            | Ask::Take { handle, .. }
            | Ask::Refuse { handle, .. }
            | Ask::Finish { handle, .. } => handle,
            Ask::Sweep { .. } => {
                let list = self.keys.iter_mut();
                let swept = list.filter_map(|(handle, it)| {
                    (it.apply(ask) == Answer::Finished).then_some(*handle)
                });
                return Answer::Swept(swept.collect());
            }
        };
        let Some(record) = self.keys.get_mut(handle) else {
            return Answer::Found(None);
        };
        let before = rank(&record.state);
        let answer = record.apply(ask);
        assert!(rank(&record.state) >= before, "a key went back");
        answer
    }

    fn drain(&mut self) {
        while let Some(output) = self.host.poll() {
            match output {
                Output::Ask(number, ask) => self.asked.push((number, ask)),
                Output::Audit(event) => assert!(!event.to_string().contains('\n')),
                Output::Send { payload, .. } => self.sent(&payload),
            }
        }
        assert!(self.host.exchanges() <= 1_024);
        assert!(self.host.deadline().at >= self.now);
    }

    fn sent(&mut self, payload: &[u8]) {
        let target = target_keys().sealing;
        if let Some((_, body)) = read(payload, Kind::Inquiry, &target) {
            self.inquiry = Inquiry::parse(&body).ok();
        }
        if let Some((_, body)) = read(payload, Kind::Referral, &target) {
            let referral = Referral::parse(&body).expect("what we write reads");
            let digest = request_digest(&referral.request, &Signature(referral.signature));
            let of_key = self.referred.entry(referral.handle).or_default();
            of_key.insert(digest);
            assert_eq!(of_key.len(), 1, "a key was taken twice");
            let state = &self.keys[&Handle(referral.handle)].state;
            assert_ne!(*state, State::Valid, "a user was referred by a valid key");
            self.referrals.push(digest);
        }
        if let Some((_, body)) = read(payload, Kind::Response, &fresh()) {
            let response = Response::parse(&body).expect("what we write reads");
            let is_used = |it: &Record| matches!(it.state, State::Used { .. });
            if response.verdict == Verdict::Granted {
                assert!(
                    self.keys.values().any(is_used),
                    "a tunnel without a used key"
                );
                self.granted += 1;
            }
        }
    }
}
