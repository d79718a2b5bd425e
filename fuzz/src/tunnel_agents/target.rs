//! Target between Hosts, its databases, its authority and its back-end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crypto::rand::Stream;
use engine::agent::ike::IkeAbilities;
use engine::agent::objectives::Options;
use engine::agent::target::{
    Access, Answer, Ask, Came, Config, HostEntry, Output, Seen, Standing, Target,
};
use engine::agent::{Digest, TunnelId};
use engine::time::{Duration, Instant};
use wire::agent::{Authorization, Inquiry, Kind, Ppk, Referral, Verdict};

use super::*;

const HOST: u8 = 1;

/// The agent, and what was said to it.
pub struct Stage {
    target: Target,
    random: Stream,
    now: Instant,
    asked: Vec<(u64, Ask)>,
    heard: Vec<Vec<u8>>,
    spent: BTreeMap<Digest, TunnelId>,
    built: BTreeSet<TunnelId>,
    /// What the back-end has now.
    ends: BTreeSet<TunnelId>,
    granted: usize,
}

impl Default for Stage {
    fn default() -> Self {
        let identity = host_keys().identity();
        let entry = HostEntry {
            name: "host.example".into(),
            identity,
            addresses: vec![address(HOST).ip()],
            accepts_legacy: true,
            tunnels: 8,
        };
        let config = Config {
            keys: target_keys(),
            hosts: [(identity.name(), entry)].into(),
            tunnels: 16,
            options: Options::ALL,
            ike: IkeAbilities::ALL,
            addresses: vec![IpAddr::from([203, 0, 113, 1])],
            proposals: vec!["aes128gcm16".into()],
            identity: "target.example".into(),
            chain: Vec::new(),
        };
        let now = Instant(0);
        Self {
            target: Target::new(config, Vec::new(), clock(now, 0), now, random("target")),
            random: random("others"),
            now,
            asked: Vec::new(),
            heard: Vec::new(),
            spent: BTreeMap::new(),
            built: BTreeSet::new(),
            ends: BTreeSet::new(),
            granted: 0,
        }
    }
}

impl Stage {
    pub fn step(&mut self, kind: u8, script: &mut Script<'_>) {
        match kind % 9 {
            0 => {
                let octets = script.octets();
                let from = address(script.octet());
                self.target.handle(from, &octets, self.now);
            }
            1 | 2 => self.referral(script),
            3 => {
                let at = usize::from(script.octet());
                if let Some(message) = self.heard.get(at % self.heard.len().max(1)).cloned() {
                    self.target.handle(address(HOST), &message, self.now);
                }
            }
            4 => {
                let at = usize::from(script.octet());
                if !self.asked.is_empty() {
                    let (number, ask) = self.asked.remove(at % self.asked.len());
                    let answer = self.answer(&ask, script.octet());
                    self.target.answered(number, answer, self.now);
                }
            }
            5 => {
                let nonce = [script.octet(); 16];
                let time = TODAY as u64 + u64::from(script.number());
                self.host_says(Kind::Inquiry, &Inquiry { nonce, time }.to_vec(), script);
            }
            6 => {
                let at = usize::from(script.octet());
                let id = self.built.iter().nth(at % self.built.len().max(1)).copied();
                match (id, script.octet() % 3) {
                    (None, _) => {}
                    (Some(id), 0) => {
                        let came = Came::Seen(Seen::default());
                        self.target.arrived(id, came, self.now);
                    }
                    (Some(id), 1) => self.target.closed(id, self.now),
                    (Some(id), _) => self.target.close(id, self.now),
                }
            }
            7 => match script.octet() % 2 {
                0 => self.target.set_clock(clock(self.now, script.number())),
                _ => self.target.set_options(Options::of_number(script.octet())),
            },
            _ => {
                self.now = self.now + script.span();
                self.target.handle_timeout(self.now);
            }
        }
        self.drain();
    }

    /// Left alone with a back-end that works, nothing is left of any tunnel.
    pub fn end(mut self) {
        for _ in 0..1_000 {
            self.now = self.now + Duration::from_secs(200);
            self.target.handle_timeout(self.now);
            self.drain();
            for (number, ask) in std::mem::take(&mut self.asked) {
                let answer = self.answer(&ask, 0);
                self.target.answered(number, answer, self.now);
                self.drain();
            }
        }
        assert!(self.target.is_empty() && self.target.deadline().is_none());
        assert!(self.ends.is_empty(), "an end is left");
    }

    /// How many tunnels Host was told of.
    pub fn granted(&self) -> usize {
        self.granted
    }

    fn referral(&mut self, script: &mut Script<'_>) {
        let number = script.octet() % 4;
        let request = request(script, self.now).to_vec();
        let by = one_time(number ^ (script.octet() >> 7));
        let label = handle(number).0;
        let ppk = [number; 32];
        let referral = Referral {
            handle: label,
            key: one_time(number).public().0,
            time: TODAY as u64 + self.now.0 / 1_000_000_000,
            signature: sign(&request, label, &by).0,
            ppk: (number < 3).then_some(Ppk(&ppk)),
            request,
        };
        self.host_says(Kind::Referral, &referral.to_vec(), script);
    }

    fn host_says(&mut self, kind: Kind, body: &[u8], script: &mut Script<'_>) {
        let keys = (&host_keys(), &target_keys());
        let message = proven(kind, keys, body, self.now, &mut self.random);
        let message = script.damage(message);
        self.heard.push(message.clone());
        self.target.handle(address(HOST), &message, self.now);
    }

    /// 255: it has failed, but is done; 254: it has failed and is not done.
    fn answer(&mut self, ask: &Ask, how: u8) -> Answer {
        if how == 254 {
            return Answer::Failed;
        }
        let answer = match ask {
            Ask::Standing { user, .. } if user != USER => Answer::Standing(Standing::Stranger),
            Ask::Standing { .. } => Answer::Standing(Standing::Member(Access {
                options: Options::ALL,
                networks: Vec::new(),
                lifetime: Duration::from_secs(600),
            })),
            Ask::Spend(spending) => match self.spent.contains_key(&spending.key) {
                true => Answer::SpentBefore,
                false => {
                    self.spent.insert(spending.key, spending.tunnel);
                    Answer::Spent
                }
            },
            Ask::Certify { tunnel_key, .. } => Answer::Certified(vec![tunnel_key.clone()]),
            Ask::Build(build) => {
                let mut of_key = self.spent.values().filter(|it| **it == build.tunnel);
                assert_eq!(
                    of_key.next(),
                    Some(&build.tunnel),
                    "built without a spent key"
                );
                assert!(self.built.insert(build.tunnel), "built twice");
                self.ends.insert(build.tunnel);
                Answer::Done
            }
            Ask::Destroy(id) => {
                self.ends.remove(id);
                Answer::Done
            }
            Ask::CanBuild | Ask::Note(..) => Answer::Done,
        };
        match how {
            255 => Answer::Failed,
            _ => answer,
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.target.poll() {
            match output {
                // What is asked of one tunnel is done in its order: one that is asked to be
                // destroyed is not built any more.
                Output::Ask(number, ask) => {
                    if let Ask::Destroy(id) = &ask {
                        self.asked.retain(
                            |(_, it)| !matches!(it, Ask::Build(build) if build.tunnel == *id),
                        );
                    }
                    self.asked.push((number, ask));
                }
                Output::Audit(event) => assert!(!event.to_string().contains('\n')),
                Output::Send { to, payload } => {
                    assert_eq!(to.ip(), address(HOST).ip(), "an answer to a stranger");
                    let read = read(&payload, Kind::Authorization, &host_keys().sealing);
                    let body = read.map(|(_, body)| Authorization::parse(&body));
                    if let Some(said) = body.and_then(Result::ok) {
                        self.granted += usize::from(said.verdict == Verdict::Granted);
                    }
                }
            }
        }
        let due = self.target.deadline();
        assert!(due.is_none_or(|due| due.at >= self.now), "{due:?}");
    }
}
