//! A client of RADIUS for EAP (RFC 2865, RFC 3579): a gateway passes packets between a peer and a
//! server, and takes the key that the server sends (RFC 2548 §2.4).
//!
//! [`Client`] is a machine without sockets: questions and datagrams go in, datagrams and verdicts
//! come out. Each request and each response has a Message-Authenticator, in ours as the first
//! attribute. A response without one is dropped, whatever its Response Authenticator says, because
//! who collides MD5 can forge that (CVE-2024-3596). A dropped response changes nothing: the request
//! waits for the genuine one.
//!
//! A request is repeated, then the next server is asked. Who has answered nothing meanwhile is
//! passed over for [`DEAD_TIME`]. One server answers all requests of an exchange, because no other
//! one knows its State.
//!
//! Left out: accounting and therefore Class, changes of authorization (RFC 5176), Status-Server,
//! proxies, RADIUS over TLS, and what servers may say of addresses and filters.

mod packet;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crypto::hash::is_equal;
use crypto::rand::Stream;
use wire::eap::Eap;
use wire::radius::{AUTHENTICATOR_LEN, Code, Packet, without_padding};

use crate::counters::{DropCounters, DropReason};
use crate::sa::Secret;
use crate::time::{Deadline, Duration, Instant};

/// The port of a server (RFC 2865 §3).
pub const PORT: u16 = 1812;
/// Servers at most.
pub const MAX_SERVERS: usize = 8;
/// How long a server has to answer, after each time that a request is sent.
const TRIES: [Duration; 3] = [
    Duration::from_millis(1_000),
    Duration::from_millis(1_500),
    Duration::from_millis(2_500),
];
/// How long all servers together have. The peer has little more time itself.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a silent server is passed over before one question tries it again.
pub const DEAD_TIME: Duration = Duration::from_secs(60);
/// Octets of an EAP packet that fit into a request with everything else.
pub const MAX_EAP_LEN: usize = 3_000;

/// A server. It has no `Debug`, because of its secret.
pub struct Server {
    /// Where it is.
    pub address: SocketAddr,
    /// What it shares with us.
    pub secret: Secret,
}

/// The servers of a gateway, the preferred ones first.
pub struct Servers {
    /// All of them.
    pub all: Vec<Arc<Server>>,
    /// What we call ourselves.
    pub nas_identifier: String,
}

/// Tells questions apart. The asker chooses it.
pub type Ticket = u64;

/// A packet of a peer for a server.
pub struct Question {
    /// The server that has asked for the packet; `None`: whoever is there.
    pub server: Option<Arc<Server>>,
    /// What the peer calls itself, at most 253 octets.
    pub user: Vec<u8>,
    /// Its packet, at most [`MAX_EAP_LEN`] octets.
    pub eap: Eap,
    /// What the server wants back.
    pub state: Option<Vec<u8>>,
    /// Where the peer is.
    pub peer: IpAddr,
}

/// What comes of a question.
pub enum Verdict {
    /// The server goes on asking.
    Challenge {
        /// For the peer.
        eap: Eap,
        /// For the next question.
        state: Option<Vec<u8>>,
        /// Who asks.
        server: Arc<Server>,
    },
    /// The peer is who it says.
    Accept {
        /// For the peer.
        eap: Eap,
        /// What the server calls it, if it says.
        user: Option<Vec<u8>>,
        /// MSK. `None`: the method has none, or it cannot be read.
        key: Option<Secret>,
        /// Session-Timeout: the peer must authenticate again then.
        lasts: Option<Duration>,
    },
    /// It is not.
    Reject {
        /// For the peer, if the server says something.
        eap: Option<Eap>,
        /// Who refuses it.
        server: SocketAddr,
    },
    /// There is no usable answer, and why.
    Failed(String),
}

/// A server at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Where it is.
    pub address: SocketAddr,
    /// It has not answered, and nothing since.
    pub is_silent: bool,
    /// What was sent to it, and came from it.
    pub counts: Counts,
}

/// What was sent to a server, and came from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Repetitions of them.
    pub repeats: u64,
    /// Requests that were given up.
    pub unanswered: u64,
    /// Access-Challenge.
    pub challenges: u64,
    /// Access-Accept.
    pub accepts: u64,
    /// Access-Reject.
    pub rejects: u64,
    /// Datagrams that are no answer, by every reason.
    pub drops: u64,
}

/// What we know of a server.
#[derive(Default)]
struct State {
    /// The identifier of the next request. Each one is used again as late as possible.
    next_id: Option<u8>,
    /// Open requests by identifier.
    open: BTreeMap<u8, Ticket>,
    /// The last genuine answer.
    heard: Option<Instant>,
    /// It is passed over until then, and silent until it answers.
    silent_until: Option<Instant>,
    counts: Counts,
}

impl State {
    fn has_room(&self) -> bool {
        self.open.len() <= usize::from(u8::MAX)
    }

    fn is_passed_over(&self, now: Instant) -> bool {
        self.silent_until.is_some_and(|until| until > now)
    }
}

/// A question whose answer is awaited.
struct Open {
    question: Question,
    server: Arc<Server>,
    id: u8,
    authenticator: [u8; AUTHENTICATOR_LEN],
    datagram: Vec<u8>,
    /// When this server was asked first.
    begun: Instant,
    /// How often the request was sent.
    tries: usize,
    /// When it is sent again, or given up.
    next: Instant,
    /// No server is asked after that.
    until: Instant,
    /// Servers that have not answered.
    asked: Vec<SocketAddr>,
}

/// All open questions of a gateway.
#[derive(Default)]
pub struct Client {
    servers: Option<Arc<Servers>>,
    /// One for each server of the configuration.
    states: BTreeMap<SocketAddr, State>,
    open: BTreeMap<Ticket, Open>,
    datagrams: VecDeque<(SocketAddr, Vec<u8>)>,
    verdicts: VecDeque<(Ticket, Verdict)>,
    changes: VecDeque<(SocketAddr, bool)>,
}

impl Servers {
    /// Whether both are alike, secrets included.
    pub fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.all.iter().zip(&other.all);
        self.nas_identifier == other.nas_identifier
            && self.all.len() == other.all.len()
            && pairs.all(|(one, other)| one.is_same(other))
    }
}

impl Server {
    fn is_same(&self, other: &Self) -> bool {
        self.address == other.address && is_equal(&self.secret.0, &other.secret.0)
    }
}

/// What goes in.
impl Client {
    /// Takes over a configuration. Questions to servers that are gone fail.
    pub fn configure(&mut self, servers: Option<Arc<Servers>>) {
        self.servers = servers;
        let gone = self.open.iter();
        let gone = gone.filter(|(_, open)| !self.is_configured(&open.server));
        let gone: Vec<Ticket> = gone.map(|(ticket, _)| *ticket).collect();
        for ticket in gone {
            self.close(ticket);
            self.fail(ticket, "its RADIUS server is not configured any more");
        }
        let all = self.servers.iter().flat_map(|it| &it.all);
        let mut states = BTreeMap::new();
        for server in all {
            let known = self.states.remove(&server.address);
            states.insert(server.address, known.unwrap_or_default());
        }
        self.states = states;
    }

    /// Asks a question. An earlier one with the same ticket is forgotten.
    pub fn ask(&mut self, ticket: Ticket, question: Question, random: &mut Stream, now: Instant) {
        self.close(ticket);
        let known = |it: &Arc<Server>| self.is_configured(it) && self.has_room(it);
        let server = match &question.server {
            Some(server) => known(server).then(|| Arc::clone(server)),
            None => self.choice(&[], now),
        };
        let Some(server) = server else {
            let why = match self.states.is_empty() {
                true => "there is no RADIUS server",
                false => "more questions are open than a RADIUS server has numbers for",
            };
            return self.fail(ticket, why);
        };
        let open = Open {
            question,
            server,
            id: 0,
            authenticator: [0; AUTHENTICATOR_LEN],
            datagram: Vec::new(),
            begun: now,
            tries: 0,
            next: now,
            until: now + PATIENCE,
            asked: Vec::new(),
        };
        self.begin(ticket, open, random, now);
    }

    /// Nobody waits for this answer any more.
    pub fn forget(&mut self, ticket: Ticket) {
        self.close(ticket);
    }

    /// Handles a datagram of a server.
    pub fn on_datagram(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        now: Instant,
        drops: &mut DropCounters,
    ) {
        if let Err(reason) = self.answer(from, datagram, now) {
            drops.count(reason);
            if let Some(state) = self.states.get_mut(&from) {
                state.counts.drops += 1;
            }
        }
    }

    /// Repeats requests, goes on to other servers, and gives up.
    pub fn on_deadline(&mut self, random: &mut Stream, now: Instant) {
        let due = self.open.iter().filter(|(_, open)| open.next <= now);
        let due: Vec<Ticket> = due.map(|(ticket, _)| *ticket).collect();
        for ticket in due {
            self.on_due(ticket, random, now);
        }
    }
}

/// What comes out.
impl Client {
    /// A datagram to send.
    pub fn datagram(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.datagrams.pop_front()
    }

    /// What has come of a question.
    pub fn verdict(&mut self) -> Option<(Ticket, Verdict)> {
        self.verdicts.pop_front()
    }

    /// A server that has become silent, or answers again (`false`).
    pub fn change(&mut self) -> Option<(SocketAddr, bool)> {
        self.changes.pop_front()
    }

    /// When to call [`Self::on_deadline`].
    pub fn deadline(&self) -> Option<Deadline> {
        let next = self.open.values().map(|open| open.next).min();
        next.map(|at| Deadline {
            at,
            why: "a RADIUS server has not answered",
        })
    }

    /// All servers, the preferred ones first.
    pub fn status(&self) -> Vec<ServerStatus> {
        let all = self.servers.iter().flat_map(|it| &it.all);
        let known = all.filter_map(|it| Some((it.address, self.states.get(&it.address)?)));
        let told = known.map(|(address, state)| ServerStatus {
            address,
            is_silent: state.silent_until.is_some(),
            counts: state.counts,
        });
        told.collect()
    }
}

impl Client {
    fn is_configured(&self, server: &Server) -> bool {
        let mut all = self.servers.iter().flat_map(|it| &it.all);
        all.any(|it| it.is_same(server))
    }

    fn has_room(&self, server: &Server) -> bool {
        let state = self.states.get(&server.address);
        state.is_some_and(State::has_room)
    }

    /// The server for an exchange that begins: the first one that may answer, else the first that
    /// has not been asked. Whose time to be passed over has ended gets one question.
    fn choice(&mut self, asked: &[SocketAddr], now: Instant) -> Option<Arc<Server>> {
        let servers = Arc::clone(self.servers.as_ref()?);
        let is_left = |it: &&Arc<Server>| !asked.contains(&it.address) && self.has_room(it);
        let answers = |it: &&Arc<Server>| !self.states[&it.address].is_passed_over(now);
        let mut left = servers.all.iter().filter(is_left);
        let first = left.clone().next();
        let chosen = left.find(answers).or(first)?;
        let state = self.states.get_mut(&chosen.address)?;
        if state.silent_until.is_some() {
            state.silent_until = Some(now + DEAD_TIME);
        }
        Some(Arc::clone(chosen))
    }

    /// Writes a request for its server, and sends it.
    fn begin(&mut self, ticket: Ticket, mut open: Open, random: &mut Stream, now: Instant) {
        let address = open.server.address;
        let (Some(state), Some(servers)) = (self.states.get_mut(&address), &self.servers) else {
            return self.fail(ticket, "there is no RADIUS server");
        };
        let mut first = [0];
        random.fill(&mut first);
        let next = state.next_id.unwrap_or(first[0]);
        let mut ids = (0..=u8::MAX).map(|step| next.wrapping_add(step));
        let Some(id) = ids.find(|id| !state.open.contains_key(id)) else {
            return self.fail(ticket, "a RADIUS server has no number left");
        };
        state.next_id = Some(id.wrapping_add(1));
        state.open.insert(id, ticket);
        state.counts.requests += 1;
        open.id = id;
        random.fill(&mut open.authenticator);
        open.datagram = packet::request(&open, &servers.nas_identifier);
        open.begun = now;
        open.tries = 1;
        open.next = (now + TRIES[0]).min(open.until);
        self.datagrams.push_back((address, open.datagram.clone()));
        self.open.insert(ticket, open);
    }

    /// A request has waited long enough.
    fn on_due(&mut self, ticket: Ticket, random: &mut Stream, now: Instant) {
        let Some(open) = self.open.get_mut(&ticket) else {
            return;
        };
        let address = open.server.address;
        let Some(state) = self.states.get_mut(&address) else {
            return;
        };
        if open.tries < TRIES.len() && now < open.until {
            open.next = (now + TRIES[open.tries]).min(open.until);
            open.tries += 1;
            state.counts.repeats += 1;
            let again = open.datagram.clone();
            return self.datagrams.push_back((address, again));
        }
        state.counts.unanswered += 1;
        // A server that answers others does not like this request.
        if state.heard.is_none_or(|at| at < open.begun) {
            if state.silent_until.is_none() {
                self.changes.push_back((address, true));
            }
            state.silent_until = Some(now + DEAD_TIME);
        }
        let Some(mut open) = self.close(ticket) else {
            return;
        };
        open.asked.push(address);
        // Another server does not know the State of this one.
        let may_move = open.question.server.is_none() && now < open.until;
        let next = may_move.then(|| self.choice(&open.asked, now)).flatten();
        match next {
            Some(server) => {
                open.server = server;
                self.begin(ticket, open, random, now);
            }
            None => {
                let asked: Vec<String> = open.asked.iter().map(ToString::to_string).collect();
                let asked = asked.join(", ");
                self.fail(
                    ticket,
                    &format!("no RADIUS server answers ({asked}): is the secret the same?"),
                );
            }
        }
    }

    /// Finds the question that a datagram answers, and what comes of it.
    fn answer(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        let malformed = |_| DropReason::RadiusMalformed;
        let octets = without_padding(datagram).map_err(malformed)?;
        let packet = Packet::parse(octets).map_err(malformed)?;
        let state = self.states.get_mut(&from);
        let state = state.ok_or(DropReason::RadiusUnasked)?;
        let ticket = *state
            .open
            .get(&packet.id)
            .ok_or(DropReason::RadiusUnasked)?;
        let open = self.open.get(&ticket).ok_or(DropReason::RadiusUnasked)?;
        packet::check(octets, &packet, &open.authenticator, &open.server.secret)?;
        let counted = match packet.code {
            Code::AccessAccept => &mut state.counts.accepts,
            Code::AccessReject => &mut state.counts.rejects,
            Code::AccessChallenge => &mut state.counts.challenges,
            _ => return Err(DropReason::RadiusMalformed),
        };
        *counted += 1;
        state.heard = Some(now);
        if state.silent_until.take().is_some() {
            self.changes.push_back((from, false));
        }
        let verdict = packet::verdict(&packet, &open.authenticator, &open.server);
        self.close(ticket);
        self.verdicts.push_back((ticket, verdict));
        Ok(())
    }

    /// The identifier is free again.
    fn close(&mut self, ticket: Ticket) -> Option<Open> {
        let open = self.open.remove(&ticket)?;
        if let Some(state) = self.states.get_mut(&open.server.address) {
            state.open.remove(&open.id);
        }
        Some(open)
    }

    fn fail(&mut self, ticket: Ticket, why: &str) {
        let verdict = Verdict::Failed(why.to_owned());
        self.verdicts.push_back((ticket, verdict));
    }
}
