//! Clients, Hosts that share a database, and Target in virtual time, joined by a network that
//! delays, loses, repeats and reorders. Each may crash between any two of its effects; databases
//! and back-ends stay.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crypto::ed25519::SigningKey;
use crypto::rand::{Seed, Stream};
use wire::agent::Network;

use crate::agent::audit::{Event, Step, Why};
use crate::agent::client::{self, Client, Outcome};
use crate::agent::host::{self, Half, Host, Record, State, TargetEntry};
use crate::agent::identity::Keys;
use crate::agent::ike::IkeAbilities;
use crate::agent::legacy::Pair;
use crate::agent::objectives::{Objective, Objectives, Options, SecurityOption};
use crate::agent::ppk::KeyPpk;
use crate::agent::sheet::{self, Key, Secret};
use crate::agent::target::{
    self, Access, Answer, Ask, Build, Came, Credential, Former, HostEntry, Progress, Seen,
    Spending, Standing, Target,
};
use crate::agent::{Clock, Digest, Handle, TunnelId};
use crate::ikev2::ppk::PpkExchange;
use crate::time::{Calendar, Duration, Instant};

pub(super) const TODAY: Calendar = Calendar(1_795_000_000);
pub(super) const USER: &str = "alice";
pub(super) const LIFETIME: Duration = Duration::from_secs(600);
/// What every tunnel is lent.
pub(super) const INNER: [u8; 4] = [10, 77, 0, 1];
/// IKE's time to detect a dead peer.
const DEAD_PEER: Duration = Duration::from_secs(60);

/// Who may crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    Client(usize),
    Host(usize),
    Target,
}

/// What comes later.
enum Coming {
    Message(Node, SocketAddr, Vec<u8>),
    HostAnswer(usize, u64, u64, host::Answer),
    TargetAnswer(u64, u64, Answer),
    Signed(usize, Box<crypto::ed25519::Signature>),
    Ike(usize, TunnelId),
    Closed(TunnelId),
    Hangup(usize, TunnelId),
    Destroyed(usize),
    Restart(Node),
}

/// A user's machine.
pub(super) struct Seat {
    pub(super) client: Option<Client>,
    key: SigningKey,
    certificate: Vec<u8>,
    /// Our end is there.
    pub(super) tunnel: Option<TunnelId>,
    pub(super) was_up: bool,
    pub(super) outcome: Option<Outcome>,
    pub(super) session_key: Option<[u8; 32]>,
    pub(super) ppk: Option<[u8; 32]>,
    pub(super) option: Option<SecurityOption>,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) chance: Stream,
    pub(super) seats: Vec<Seat>,
    pub(super) hosts: Vec<Option<Host>>,
    pub(super) target: Option<Target>,
    pub(super) keys: BTreeMap<Handle, Record>,
    /// Target's database: keys that are spent, tunnels that are not ended.
    pub(super) spent: BTreeMap<Digest, Spending>,
    noted: BTreeMap<TunnelId, (Spending, bool)>,
    /// Target's back-end.
    pub(super) ends: BTreeMap<TunnelId, Build>,
    /// Every tunnel that was ever built, by key.
    pub(super) ever: BTreeMap<Digest, BTreeSet<TunnelId>>,
    pub(super) access: Option<Access>,
    /// Keys that Target has enrolled. None: it does not ask for it.
    pub(super) enrolled: Option<BTreeSet<Digest>>,
    pub(super) log: Vec<Event>,
    /// What users were told about clocks: their machine's, and Host's.
    pub(super) told_times: Vec<(Calendar, Calendar)>,
    pub(super) sent: Vec<(Node, SocketAddr, Vec<u8>)>,
    /// Of 256.
    pub(super) loss: u32,
    pub(super) duplicates: u32,
    pub(super) crashes: u32,
    pub(super) jitter_ms: u32,
    /// Questions to databases and back-ends that are never answered or fail, of 256.
    pub(super) broken: u32,
    /// Crashes before the effect of this number.
    pub(super) crash_at: Option<(Node, u64)>,
    /// Whether a crashed machine comes back.
    pub(super) comes_back: bool,
    pub(super) effects: BTreeMap<Node, u64>,
    pub(super) options: Options,
    /// What Target's back-end can do in IKE.
    pub(super) ike: IkeAbilities,
    /// In which exchange both back-ends say that they have taken a PPK.
    pub(super) ppk_exchange: Option<PpkExchange>,
    /// What Target's back-end says when it is asked.
    pub(super) can_build: bool,
    pub(super) accepts_legacy: bool,
    /// Tunnels that Target allows one Host, and all.
    pub(super) places: [usize; 2],
    /// How far the clocks of clients, Hosts and Target are ahead.
    pub(super) ahead: [i64; 3],
    lost_in_row: BTreeMap<Node, u32>,
    pub(super) epochs: BTreeMap<Node, u64>,
    queue: BTreeMap<(Instant, u64), Coming>,
    count: u64,
    seed: u8,
}

pub(super) fn random(seed: u8, name: &str, number: u64) -> Stream {
    Seed::new([seed; 32]).stream(name, number)
}

pub(super) fn host_keys() -> Keys {
    Keys::generate(&mut random(1, "host keys", 0))
}

pub(super) fn target_keys() -> Keys {
    Keys::generate(&mut random(1, "target keys", 0))
}

pub(super) fn address(node: Node) -> SocketAddr {
    match node {
        Node::Client(number) => ([192, 0, 2, number as u8], 5_000).into(),
        Node::Host(number) => ([10, 0, 0, number as u8], 51_516).into(),
        Node::Target => ([10, 0, 1, 1], 51_516).into(),
    }
}

pub(super) fn handle(number: u8) -> Handle {
    Handle([number; 16])
}

/// The one-time key of this number.
pub(super) fn one_time(number: u8) -> SigningKey {
    SigningKey::of(&[number.wrapping_add(100); 32])
}

/// What it gives for the PPK of its tunnel.
pub(super) fn key_ppk(number: u8) -> KeyPpk {
    KeyPpk::of(one_time(number).secret())
}

pub(super) fn key_digest(key: &SigningKey) -> Digest {
    crate::agent::identity::digest(&[&key.public().0])
}

pub(super) fn all_objectives() -> Objectives {
    Objective::ALL.into_iter().collect()
}

pub(super) fn head() -> sheet::Head {
    sheet::Head {
        host: host_keys().identity(),
        addresses: vec!["0".into(), "1".into()],
        target: target_keys().identity().fingerprint(),
        not_after: Calendar(TODAY.0 + 86_400),
    }
}

impl World {
    /// Two Hosts, Target, and a valid key 1 of the user.
    pub(super) fn new(seed: u8) -> Self {
        let mut world = Self {
            now: Instant(1_000_000_000),
            chance: random(seed, "chance", 0),
            seats: Vec::new(),
            hosts: vec![None, None],
            target: None,
            keys: BTreeMap::new(),
            spent: BTreeMap::new(),
            noted: BTreeMap::new(),
            ends: BTreeMap::new(),
            ever: BTreeMap::new(),
            access: Some(Access {
                options: Options::ALL,
                networks: vec![Network {
                    address: [10, 9, 0, 0].into(),
                    prefix_len: 16,
                }],
                lifetime: LIFETIME,
            }),
            enrolled: None,
            log: Vec::new(),
            told_times: Vec::new(),
            sent: Vec::new(),
            loss: 0,
            duplicates: 0,
            crashes: 0,
            jitter_ms: 1,
            broken: 0,
            crash_at: None,
            comes_back: true,
            effects: BTreeMap::new(),
            options: Options::ALL,
            ike: IkeAbilities::ALL,
            ppk_exchange: Some(PpkExchange::IkeIntermediate),
            can_build: true,
            accepts_legacy: false,
            places: [16, 16],
            ahead: [0; 3],
            lost_in_row: BTreeMap::new(),
            epochs: BTreeMap::new(),
            queue: BTreeMap::new(),
            count: 0,
            seed,
        };
        world.issue(1, Half::Public(one_time(1).public()));
        world
    }

    pub(super) fn issue(&mut self, number: u8, half: Half) {
        let mut record = Record::new(half, USER.into(), Calendar(TODAY.0 + 86_400));
        let is_public = matches!(record.half, Half::Public(_));
        record.ppk = is_public.then(|| key_ppk(number));
        self.keys.insert(handle(number), record);
    }

    /// Starts Hosts and Target.
    pub(super) fn boot(&mut self) {
        for node in [Node::Host(0), Node::Host(1), Node::Target] {
            self.start(node);
        }
        self.settle();
    }

    pub(super) fn clock(&self, which: usize) -> Clock {
        let ahead = self.ahead[which] + (self.now.0 / 1_000_000_000) as i64;
        Clock {
            calendar: Calendar(TODAY.0 + ahead),
            told: self.now,
        }
    }

    /// The time on a clock, in milliseconds.
    pub(super) fn milliseconds(&self, which: usize) -> u64 {
        self.clock(which).milliseconds(self.now)
    }

    pub(super) fn start(&mut self, node: Node) {
        let epoch = self.epochs.entry(node).or_default();
        *epoch += 1;
        let epoch = *epoch;
        match node {
            Node::Client(_) => {}
            Node::Host(number) => {
                let target = target_keys().identity();
                let entry = TargetEntry {
                    identity: target,
                    address: address(Node::Target),
                };
                let config = host::Config {
                    keys: host_keys(),
                    targets: [(target.fingerprint(), entry)].into(),
                    accepts_legacy: self.accepts_legacy,
                };
                let random = random(self.seed, &format!("host {number}"), epoch);
                let host = Host::new(config, self.clock(1), self.now, random);
                self.hosts[number] = Some(host);
            }
            Node::Target => {
                let former = self.noted.values().map(|(spending, has_arrived)| Former {
                    spending: spending.clone(),
                    has_arrived: *has_arrived,
                });
                let former = former.collect();
                let config = self.target_config();
                let random = random(self.seed, "target", epoch);
                let target = Target::new(config, former, self.clock(2), self.now, random);
                self.target = Some(target);
            }
        }
    }

    pub(super) fn target_config(&self) -> target::Config {
        let host = host_keys().identity();
        let entry = HostEntry {
            name: "host.example".into(),
            identity: host,
            addresses: vec![address(Node::Host(0)).ip(), address(Node::Host(1)).ip()],
            accepts_legacy: self.accepts_legacy,
            tunnels: self.places[0],
        };
        target::Config {
            keys: target_keys(),
            hosts: [(host.name(), entry)].into(),
            tunnels: self.places[1],
            options: self.options,
            ike: self.ike,
            addresses: vec![[203, 0, 113, 1].into()],
            proposals: vec!["aes128gcm16".into()],
            identity: "target.example".into(),
            chain: vec![b"target's certificate".to_vec()],
        }
    }

    /// A user sits down with the key of this number. The fingerprint is that of his sheet.
    pub(super) fn sit(&mut self, number: u8, change: impl FnOnce(&mut client::Config)) -> usize {
        let seat = self.seats.len();
        let mut config = client::Config {
            head: head(),
            handle: handle(number),
            pair: None,
            user: USER.into(),
            objectives: all_objectives(),
            options: Options::ALL,
            ike: IkeAbilities::ALL,
            ppk: Some(key_ppk(number)),
            lifetime: LIFETIME,
            tunnel_key: format!("key of seat {seat}").into_bytes(),
        };
        change(&mut config);
        config.ppk = config.ppk.filter(|_| config.pair.is_none());
        let key = match &config.pair {
            Some(pair) => SigningKey::of(pair.signing.secret()),
            None => one_time(number),
        };
        let random = random(self.seed, "client", seat as u64);
        let mut client = Client::new(config, self.clock(0), random);
        client.start(self.now);
        self.seats.push(Seat {
            client: Some(client),
            key,
            certificate: format!("certificate of key of seat {seat}").into_bytes(),
            tunnel: None,
            was_up: false,
            outcome: None,
            session_key: None,
            ppk: None,
            option: None,
        });
        self.settle();
        seat
    }

    pub(super) fn shared(&mut self, number: u8) -> Key {
        let secret = [number.wrapping_add(50); 32];
        self.issue(number, Half::Shared(secret));
        Key {
            handle: handle(number),
            secret: Secret::Shared(secret),
        }
    }

    pub(super) fn pair(key: &Key) -> Pair {
        match &key.secret {
            Secret::Shared(secret) => Pair::of(secret),
            _ => panic!("not a shared pair"),
        }
    }

    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.chance.u32() % bound.max(1)
    }

    fn later(&mut self, span: Duration, coming: Coming) {
        self.count += 1;
        self.queue.insert((self.now + span, self.count), coming);
    }

    /// Runs for a time.
    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.settle();
            let deadlines = self.deadlines();
            let next = self.queue.keys().next().map(|(at, _)| *at);
            let next = next.into_iter().chain(deadlines).min();
            let Some(next) = next.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            let due = self.queue.first_key_value();
            if due.is_some_and(|((at, _), _)| *at <= self.now) {
                let (_, coming) = self.queue.pop_first().unwrap();
                self.come(coming);
            } else {
                self.wake();
            }
        }
        self.now = end;
        self.wake();
        self.settle();
    }

    fn deadlines(&self) -> Vec<Instant> {
        let seats = self.seats.iter().filter_map(|it| it.client.as_ref());
        let seats = seats.filter_map(|it| it.deadline());
        let hosts = self.hosts.iter().flatten().map(Host::deadline);
        let target = self.target.iter().filter_map(Target::deadline);
        seats.chain(hosts).chain(target).map(|it| it.at).collect()
    }

    fn wake(&mut self) {
        let now = self.now;
        for seat in &mut self.seats {
            if let Some(client) = &mut seat.client {
                client.handle_timeout(now);
            }
        }
        self.hosts
            .iter_mut()
            .flatten()
            .for_each(|it| it.handle_timeout(now));
        if let Some(target) = &mut self.target {
            target.handle_timeout(now);
        }
    }

    pub(super) fn deliver(&mut self, to: Node, from: SocketAddr, payload: &[u8]) {
        let now = self.now;
        match to {
            Node::Client(number) => {
                if let Some(client) = &mut self.seats[number].client {
                    client.handle(payload, now);
                }
            }
            Node::Host(number) => {
                if let Some(host) = &mut self.hosts[number] {
                    host.handle(from, payload, now);
                }
            }
            Node::Target => {
                if let Some(target) = &mut self.target {
                    target.handle(from, payload, now);
                }
            }
        }
        self.settle();
    }

    fn come(&mut self, coming: Coming) {
        let now = self.now;
        match coming {
            Coming::Message(to, from, payload) => self.deliver(to, from, &payload),
            Coming::HostAnswer(number, epoch, asked, answer) => {
                if self.epochs.get(&Node::Host(number)) == Some(&epoch)
                    && let Some(host) = &mut self.hosts[number]
                {
                    host.answered(asked, answer, now);
                }
            }
            Coming::TargetAnswer(epoch, asked, answer) => {
                if self.epochs.get(&Node::Target) == Some(&epoch)
                    && let Some(target) = &mut self.target
                {
                    target.answered(asked, answer, now);
                }
            }
            Coming::Signed(seat, signature) => {
                if let Some(client) = &mut self.seats[seat].client {
                    client.signed(Some(*signature), now);
                }
            }
            Coming::Ike(seat, id) => self.ike(seat, id),
            Coming::Closed(id) => {
                if let Some(target) = &mut self.target {
                    target.closed(id, now);
                }
            }
            Coming::Hangup(seat, id) => {
                if self.seats[seat].tunnel == Some(id)
                    && let Some(client) = &mut self.seats[seat].client
                {
                    client.closed(now);
                }
            }
            Coming::Destroyed(seat) => {
                self.seats[seat].tunnel = None;
                if let Some(client) = &mut self.seats[seat].client {
                    client.destroyed(true, now);
                }
            }
            Coming::Restart(node) => self.start(node),
        }
        self.settle();
    }

    /// IKE makes the tunnel if both ends are there and Client has what Target's end asks for.
    fn ike(&mut self, seat: usize, id: TunnelId) {
        let here = &mut self.seats[seat];
        if here.tunnel != Some(id) {
            return;
        }
        let is_good = self.ends.get(&id).is_some_and(|end| match &end.credential {
            Credential::Certificate(leaf) => *leaf == here.certificate,
            Credential::SessionKey(key) => here.session_key == Some(key.0),
        });
        let ppk = self.ends.get(&id).and_then(|end| end.ppk.as_ref());
        let is_good = is_good && ppk.map(|it| *it.octets()) == here.ppk;
        here.was_up |= is_good;
        let exchange = self.ppk_exchange;
        if let Some(client) = &mut here.client {
            client.ppk_taken(exchange);
            client.built(is_good, self.now);
        }
        if let Some(target) = &mut self.target
            && is_good
        {
            let peer = Some(address(Node::Client(seat)).ip());
            let seen = Seen {
                peer,
                ppk: exchange,
            };
            target.arrived(id, Came::Seen(seen), self.now);
        }
    }

    /// Does what the machines want, one effect after the other.
    pub(super) fn settle(&mut self) {
        loop {
            let mut is_busy = false;
            for seat in 0..self.seats.len() {
                let client = self.seats[seat].client.as_mut();
                if let Some(output) = client.and_then(Client::poll) {
                    is_busy = true;
                    self.of_client(seat, output);
                }
            }
            for number in 0..self.hosts.len() {
                let host = self.hosts[number].as_mut();
                if let Some(output) = host.and_then(Host::poll) {
                    is_busy = true;
                    self.of_host(number, output);
                }
            }
            if let Some(output) = self.target.as_mut().and_then(Target::poll) {
                is_busy = true;
                self.of_target(output);
            }
            if !is_busy {
                return;
            }
        }
    }

    /// Whether a machine dies at this effect: before it, or right after it.
    fn dies(&mut self, node: Node) -> Option<bool> {
        let number = self.effects.entry(node).or_default();
        *number += 1;
        let number = *number;
        let is_now = self.crash_at == Some((node, number));
        if !is_now && self.below(256) >= self.crashes {
            return None;
        }
        match node {
            Node::Client(seat) => {
                // A machine at hand that dies leaves nothing behind. Target's IKE notices in time.
                self.seats[seat].client = None;
                if let Some(id) = self.seats[seat].tunnel.take() {
                    self.later(DEAD_PEER, Coming::Closed(id));
                }
            }
            Node::Host(number) => self.hosts[number] = None,
            Node::Target => self.target = None,
        }
        if self.comes_back && !matches!(node, Node::Client(_)) {
            let pause = Duration::from_millis(u64::from(self.below(20_000)));
            self.later(pause, Coming::Restart(node));
        }
        Some(is_now || self.below(2) == 0)
    }

    fn of_client(&mut self, seat: usize, output: client::Output) {
        let node = Node::Client(seat);
        if let Some(is_before) = self.dies(node)
            && is_before
        {
            return;
        }
        match output {
            client::Output::Sign(octets) => {
                let signature = Box::new(self.seats[seat].key.sign(&[&octets]));
                self.later(Duration::from_millis(50), Coming::Signed(seat, signature));
            }
            client::Output::Send { host, payload } => self.send(node, Node::Host(host), payload),
            client::Output::Build(tunnel) => {
                let here = &mut self.seats[seat];
                here.tunnel = here.client.is_some().then_some(tunnel.id);
                here.session_key = tunnel.session_key.as_ref().map(|key| key.0);
                here.option = Some(tunnel.option);
                here.ppk = tunnel.ppk.as_ref().map(|ppk| *ppk.octets());
                if here.session_key.is_none() {
                    assert_eq!(tunnel.tunneling.client_chain[0], here.certificate);
                }
                self.later(Duration::from_secs(1), Coming::Ike(seat, tunnel.id));
            }
            client::Output::Destroy => {
                if let Some(id) = self.seats[seat].tunnel
                    && self.below(256) >= self.loss
                {
                    self.later(Duration::from_millis(20), Coming::Closed(id));
                }
                self.later(Duration::from_millis(50), Coming::Destroyed(seat));
            }
            client::Output::ClockDiffers { ours, told } => self.told_times.push((ours, told)),
            client::Output::Audit(event) => self.log.push(event),
            client::Output::Over(outcome) => self.seats[seat].outcome = Some(outcome),
        }
    }

    fn of_host(&mut self, number: usize, output: host::Output) {
        let node = Node::Host(number);
        let epoch = self.epochs[&node];
        if let Some(is_before) = self.dies(node)
            && is_before
        {
            return;
        }
        match output {
            host::Output::Send { to, payload } => match self.node_of(to) {
                Some(to) => self.send(node, to, payload),
                None => self.sent.push((node, to, payload)),
            },
            host::Output::Ask(asked, ask) => {
                if self.below(256) < self.broken {
                    return;
                }
                let answer = self.database(&ask);
                let coming = Coming::HostAnswer(number, epoch, asked, answer);
                let span = u64::from(self.below(20));
                self.later(Duration::from_millis(span), coming);
            }
            host::Output::Audit(event) => self.log.push(event),
        }
    }

    /// Host's database.
    fn database(&mut self, ask: &host::Ask) -> host::Answer {
        let handle = match ask {
            host::Ask::Find(handle)
            | host::Ask::Take { handle, .. }
            | host::Ask::Refuse { handle, .. }
            | host::Ask::Finish { handle, .. } => handle,
            host::Ask::Sweep { .. } => {
                let mut swept = Vec::new();
                for (handle, record) in &mut self.keys {
                    if record.apply(ask) == host::Answer::Finished {
                        swept.push(*handle);
                    }
                }
                return host::Answer::Swept(swept);
            }
        };
        match self.keys.get_mut(handle) {
            Some(record) => record.apply(ask),
            None => host::Answer::Found(None),
        }
    }

    fn of_target(&mut self, output: target::Output) {
        let epoch = self.epochs[&Node::Target];
        if let Some(is_before) = self.dies(Node::Target)
            && is_before
        {
            return;
        }
        match output {
            target::Output::Send { to, payload } => {
                if let Some(to) = self.node_of(to) {
                    self.send(Node::Target, to, payload);
                }
            }
            target::Output::Ask(asked, ask) => {
                if self.below(256) < self.broken {
                    return;
                }
                let Some(answer) = self.back_end(ask) else {
                    return;
                };
                let span = u64::from(self.below(40));
                let coming = Coming::TargetAnswer(epoch, asked, answer);
                self.later(Duration::from_millis(span), coming);
            }
            target::Output::Audit(event) => self.log.push(event),
        }
    }

    /// Target's databases, authority and back-end.
    fn back_end(&mut self, ask: Ask) -> Option<Answer> {
        Some(match ask {
            Ask::CanBuild if self.can_build => Answer::Done,
            Ask::CanBuild => Answer::Failed,
            Ask::Standing { user, key, .. } => {
                let enrolled = self.enrolled.as_ref();
                let is_enrolled =
                    enrolled.is_none_or(|it| key.is_some_and(|key| it.contains(&key)));
                Answer::Standing(match &self.access {
                    Some(_) if user != USER => Standing::Stranger,
                    Some(_) if !is_enrolled => Standing::KeyNotEnrolled,
                    Some(access) => Standing::Member(access.clone()),
                    None => Standing::Stranger,
                })
            }
            Ask::Spend(spending) => {
                if self.spent.contains_key(&spending.key) {
                    return Some(Answer::SpentBefore);
                }
                let noted = (spending.clone(), false);
                self.noted.insert(spending.tunnel, noted);
                self.spent.insert(spending.key, spending);
                Answer::Spent
            }
            Ask::Certify { tunnel_key, .. } => {
                Answer::Certified(vec![[b"certificate of ", &tunnel_key[..]].concat()])
            }
            Ask::Build(build) => {
                let id = build.tunnel;
                let spending = &self.noted[&id].0;
                self.ever.entry(spending.key).or_default().insert(id);
                self.ends.insert(id, *build);
                if let Some(target) = &mut self.target {
                    target.lent(id, INNER.into());
                }
                Answer::Done
            }
            Ask::Destroy(id) => {
                // IKE tells the other end.
                let seats = 0..self.seats.len();
                let seats = seats.filter(|it| self.seats[*it].tunnel == Some(id));
                for seat in seats.collect::<Vec<_>>() {
                    self.later(Duration::from_millis(20), Coming::Hangup(seat, id));
                }
                self.ends.remove(&id);
                Answer::Done
            }
            Ask::Note(id, Progress::Arrived) => {
                if let Some((_, has_arrived)) = self.noted.get_mut(&id) {
                    *has_arrived = true;
                }
                return None;
            }
            Ask::Note(id, Progress::Ended) => {
                self.noted.remove(&id);
                return None;
            }
        })
    }

    fn node_of(&self, to: SocketAddr) -> Option<Node> {
        let seats = (0..self.seats.len()).map(Node::Client);
        let hosts = (0..self.hosts.len()).map(Node::Host);
        let mut all = seats.chain(hosts).chain([Node::Target]);
        all.find(|node| address(*node) == to)
    }

    /// The network never loses more than two messages of a sender in a row.
    fn send(&mut self, from: Node, to: Node, payload: Vec<u8>) {
        self.sent.push((from, address(to), payload.clone()));
        let in_row = self.lost_in_row.get(&from).copied().unwrap_or(0);
        if in_row < 2 && self.below(256) < self.loss {
            self.lost_in_row.insert(from, in_row + 1);
            return;
        }
        self.lost_in_row.insert(from, 0);
        let copies = 1 + u32::from(self.below(256) < self.duplicates);
        for _ in 0..copies {
            let span = Duration::from_millis(10 + u64::from(self.below(self.jitter_ms)));
            let coming = Coming::Message(to, address(from), payload.clone());
            self.later(span, coming);
        }
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        self.log.iter().map(|event| event.step).collect()
    }

    pub(super) fn told(&self, step: Step, why: Why) -> usize {
        let is_it = |it: &&Event| it.step == step && it.why == Some(why);
        self.log.iter().filter(is_it).count()
    }

    /// At most one tunnel was ever built with a key, and a key with one is not valid.
    pub(super) fn check(&self) {
        for (key, tunnels) in &self.ever {
            assert!(tunnels.len() <= 1, "two tunnels with key {key}");
        }
        for record in self.keys.values() {
            if let Half::Public(public) = &record.half {
                let key = crate::agent::identity::digest(&[&public.0]);
                let is_spent = self.spent.contains_key(&key);
                assert!(!is_spent || record.state != State::Valid);
                assert!(record.state == State::Valid || record.ppk.is_none());
            }
        }
    }
}
