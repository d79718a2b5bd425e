//! One connection of a local program: what it wants (RFC 1928, RFC 1929), then octets both ways.
//!
//! Octets go straight between the program's socket and the stack's buffers. A full buffer stops the
//! reading, so either end feels the other one. Each end closes its direction alone.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engine::time::Instant;
use nix::poll::PollFlags;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, State};
use socket2::SockRef;
use wire::codec::{Malformed, Reader};
use wire::socks::{self, Command, Destination, Greeting, MESSAGE_MAX, Method, Outcome, Request};
use zeroize::Zeroize;

use super::access::Login;
use super::lookup::Lookup;
use super::stack::Stack;
use super::tunnel::Facts;
use super::{CONNECT_MAX, Counts, HANDSHAKE_MAX, IDLE_MAX};

/// Octets of a program that are kept until it is clear what it wants.
const HEARD_MAX: usize = 2 * MESSAGE_MAX;
/// What an answer without an address of ours says.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

pub(super) struct Flow {
    program: TcpStream,
    stage: Stage,
    /// From the program, and not understood yet. It may hold a password.
    heard: Vec<u8>,
    /// Answers to the program that are not written yet.
    owed: Vec<u8>,
    socket: Option<SocketHandle>,
    /// The last call did not say that it would block.
    is_readable: bool,
    is_writable: bool,
    /// The program sends nothing more.
    has_ended: bool,
    /// The far end sends nothing more.
    has_far_ended: bool,
    /// The far end sends nothing more, and the program knows.
    is_told: bool,
    begun: Instant,
    until: Instant,
}

enum Stage {
    Greeting,
    Login,
    Request,
    Naming(Lookup, u16),
    /// The addresses that are tried next, and the port.
    Connecting(Vec<IpAddr>, u16),
    Relaying,
    /// The answer is written, then it is over.
    Ending,
    Over,
}

/// What a connection sees of the others.
pub(super) struct Around<'a> {
    pub(super) stack: &'a mut Stack,
    pub(super) facts: &'a Facts,
    pub(super) login: Option<&'a Login>,
    pub(super) counts: &'a mut Counts,
    pub(super) is_up: bool,
    pub(super) now: Instant,
}

impl Flow {
    pub(super) fn new(program: TcpStream, now: Instant) -> io::Result<Self> {
        program.set_nonblocking(true)?;
        program.set_nodelay(true)?;
        Ok(Self {
            program,
            stage: Stage::Greeting,
            heard: Vec::new(),
            owed: Vec::new(),
            socket: None,
            is_readable: true,
            is_writable: true,
            has_ended: false,
            has_far_ended: false,
            is_told: false,
            begun: now,
            until: now + HANDSHAKE_MAX,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    pub(super) fn due(&self) -> Instant {
        self.until
    }

    /// When it has come, if it has not logged in.
    pub(super) fn stranger_since(&self) -> Option<Instant> {
        matches!(self.stage, Stage::Greeting | Stage::Login).then_some(self.begun)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Whether a turn would move octets at once.
    pub(super) fn is_ready(&self, stack: &Stack) -> bool {
        let (reads, writes) = self.wants(stack);
        reads && (self.is_readable || self.has_said_more()) || writes && self.is_writable
    }

    /// What to wait for. Without any, the descriptor is not watched: a program that is gone is
    /// noticed when there is something for it.
    pub(super) fn interest(&self, stack: &Stack) -> PollFlags {
        let (reads, writes) = self.wants(stack);
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, reads);
        flags.set(PollFlags::POLLOUT, writes);
        flags
    }

    /// The kernel says that these calls will not block.
    pub(super) fn hint(&mut self, flags: PollFlags) {
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
        self.is_readable |= flags.intersects(PollFlags::POLLIN | gone);
        self.is_writable |= flags.intersects(PollFlags::POLLOUT | gone);
    }

    /// Does what can be done. Returns whether anything moved.
    pub(super) fn turn(&mut self, around: &mut Around<'_>) -> bool {
        if self.until <= around.now {
            self.expire(around);
            return true;
        }
        match self.step(around) {
            Ok(is_moved) => is_moved,
            Err(fault) => {
                around.counts.misbehaved += u64::from(fault.kind() == ErrorKind::InvalidData);
                self.reset(around.stack, around.now);
                true
            }
        }
    }

    /// Ends both connections at once, so that neither end takes this for the end of a file.
    pub(super) fn reset(&mut self, stack: &mut Stack, now: Instant) {
        if let Stage::Naming(lookup, _) = &mut self.stage {
            lookup.cancel(stack);
        }
        self.drop_socket(stack, now);
        // An error leaves an ordinary close.
        let _ = SockRef::from(&self.program).set_linger(Some(Duration::ZERO));
        self.stage = Stage::Over;
    }

    /// Whether octets from the program, and octets to it, have somewhere to go.
    fn wants(&self, stack: &Stack) -> (bool, bool) {
        let owes = !self.owed.is_empty();
        match (&self.stage, self.socket) {
            (Stage::Greeting | Stage::Login | Stage::Request, _) => {
                (self.heard.len() < HEARD_MAX, owes)
            }
            (Stage::Relaying, Some(handle)) => {
                let socket = stack.sockets.get::<Socket<'_>>(handle);
                let has_room = !self.has_ended && socket.can_send();
                (has_room, owes || socket.can_recv())
            }
            _ => (false, owes),
        }
    }

    /// Whether octets wait that the program sent right behind its request.
    fn has_said_more(&self) -> bool {
        matches!(self.stage, Stage::Relaying) && !self.heard.is_empty()
    }

    fn step(&mut self, around: &mut Around<'_>) -> io::Result<bool> {
        let mut is_moved = self.pay()?;
        match &mut self.stage {
            Stage::Greeting | Stage::Login | Stage::Request => {
                is_moved |= self.hear()?;
                while self.understand(around)? {
                    is_moved = true;
                }
            }
            Stage::Naming(lookup, port) => {
                let port = *port;
                if let Some(found) = lookup.turn(around.stack) {
                    match found.is_empty() {
                        true => self.refuse(Outcome::HostUnreachable, around),
                        false => self.connect(found, port, around),
                    }
                    is_moved = true;
                }
            }
            Stage::Connecting(..) => is_moved |= self.look(around),
            Stage::Relaying => is_moved |= self.relay(around)?,
            Stage::Ending | Stage::Over => {}
        }
        // What was just answered.
        is_moved |= self.pay()?;
        if matches!(self.stage, Stage::Ending) && self.owed.is_empty() {
            self.stage = Stage::Over;
        }
        Ok(is_moved)
    }

    /// Its time is over.
    fn expire(&mut self, around: &mut Around<'_>) {
        match &mut self.stage {
            Stage::Greeting | Stage::Login | Stage::Request => {
                around.counts.misbehaved += 1;
                self.stage = Stage::Over;
            }
            Stage::Naming(lookup, _) => {
                lookup.cancel(around.stack);
                self.refuse(Outcome::HostUnreachable, around);
            }
            Stage::Connecting(next, port) => {
                let (next, port) = (std::mem::take(next), *port);
                self.drop_socket(around.stack, around.now);
                match next.is_empty() {
                    true => self.refuse(Outcome::HostUnreachable, around),
                    false => self.connect(next, port, around),
                }
            }
            Stage::Relaying => {
                around.counts.idle += 1;
                self.reset(around.stack, around.now);
            }
            Stage::Ending | Stage::Over => self.stage = Stage::Over,
        }
    }

    /// Writes answers.
    fn pay(&mut self) -> io::Result<bool> {
        let mut is_moved = false;
        while self.is_writable && !self.owed.is_empty() {
            match self.program.write(&self.owed) {
                Ok(written) => {
                    self.owed.drain(..written);
                    is_moved = true;
                }
                Err(fault) => self.is_writable = would_go_on(fault)?,
            }
        }
        Ok(is_moved)
    }

    /// Reads what the program says before it is connected.
    fn hear(&mut self) -> io::Result<bool> {
        let before = self.heard.len();
        while self.is_readable && self.heard.len() < HEARD_MAX {
            let len = self.heard.len();
            self.heard.resize(HEARD_MAX, 0);
            let read = self.program.read(&mut self.heard[len..]);
            self.heard
                .truncate(len + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(fault) => self.is_readable = would_go_on(fault)?,
            }
        }
        Ok(self.heard.len() > before)
    }

    /// Takes one message. Returns whether there was a whole one.
    fn understand(&mut self, around: &mut Around<'_>) -> io::Result<bool> {
        let heard = std::mem::take(&mut self.heard);
        let mut reader = Reader::new(&heard);
        let taken = match self.stage {
            Stage::Greeting => Greeting::read(&mut reader).map(|it| self.on_greeting(&it, around)),
            Stage::Login => socks::Login::read(&mut reader).map(|it| self.on_login(&it, around)),
            Stage::Request => Request::read(&mut reader).map(|it| self.on_request(it, around)),
            _ => Err(Malformed::Truncated("another message")),
        };
        let used = match taken {
            Ok(()) => heard.len() - reader.len(),
            Err(Malformed::Truncated(_)) => 0,
            Err(fault) => return Err(io::Error::new(ErrorKind::InvalidData, fault)),
        };
        self.heard = heard;
        self.heard[..used].zeroize();
        self.heard.drain(..used);
        Ok(used > 0)
    }

    fn on_greeting(&mut self, greeting: &Greeting, around: &mut Around<'_>) {
        let (wanted, next) = match around.login {
            Some(_) => (Method::Password, Stage::Login),
            None => (Method::None, Stage::Request),
        };
        if greeting.methods.contains(&wanted) {
            self.owed.extend(wanted.to_vec());
            self.stage = next;
        } else {
            around.counts.refused_logins += 1;
            self.owed.extend(Method::Refused.to_vec());
            self.stage = Stage::Ending;
        }
    }

    fn on_login(&mut self, login: &socks::Login<'_>, around: &mut Around<'_>) {
        let is_right = around.login.is_some_and(|own| own.is_right(login));
        self.owed.extend(socks::Login::answer(is_right));
        self.stage = if is_right {
            Stage::Request
        } else {
            around.counts.refused_logins += 1;
            Stage::Ending
        };
    }

    fn on_request(&mut self, request: Request, around: &mut Around<'_>) {
        if request.command != Command::Connect {
            return self.refuse(Outcome::CommandNotSupported, around);
        }
        if !around.is_up {
            return self.refuse(Outcome::NetworkUnreachable, around);
        }
        let name = match request.destination {
            Destination::Address(address) => {
                return self.connect(vec![address], request.port, around);
            }
            Destination::Name(name) => name,
        };
        if let Ok(address) = name.parse() {
            return self.connect(vec![address], request.port, around);
        }
        if !around.stack.has_resolvers() {
            return self.refuse(Outcome::AddressTypeNotSupported, around);
        }
        match Lookup::begin(around.stack, &name) {
            None => self.refuse(Outcome::Failed, around),
            Some(lookup) => {
                self.until = around.now + CONNECT_MAX;
                self.stage = Stage::Naming(lookup, request.port);
            }
        }
    }

    /// Connects to the first of these addresses that the tunnel leads to.
    fn connect(&mut self, addresses: Vec<IpAddr>, port: u16, around: &mut Around<'_>) {
        let mut addresses = addresses
            .into_iter()
            .filter(|it| around.facts.takes(*it, port));
        let Some(address) = addresses.next() else {
            return self.refuse(Outcome::NotAllowed, around);
        };
        let next: Vec<IpAddr> = addresses.collect();
        self.socket = around.stack.connect(SocketAddr::new(address, port));
        self.until = around.now + CONNECT_MAX;
        match (self.socket, next.is_empty()) {
            (Some(_), _) => self.stage = Stage::Connecting(next, port),
            (None, false) => self.connect(next, port, around),
            (None, true) => self.refuse(Outcome::NetworkUnreachable, around),
        }
    }

    /// Whether the far end is there.
    fn look(&mut self, around: &mut Around<'_>) -> bool {
        let (Some(handle), Stage::Connecting(next, port)) = (self.socket, &mut self.stage) else {
            return false;
        };
        let socket = around.stack.sockets.get::<Socket<'_>>(handle);
        match socket.state() {
            State::SynSent | State::SynReceived => return false,
            State::Closed => {
                let (next, port) = (std::mem::take(next), *port);
                self.drop_socket(around.stack, around.now);
                match next.is_empty() {
                    true => self.refuse(Outcome::ConnectionRefused, around),
                    false => self.connect(next, port, around),
                }
            }
            _ => {
                let own = socket.local_endpoint().map(SocketAddr::from);
                let answer = Outcome::Succeeded.answer(own.unwrap_or(NO_ADDRESS));
                self.owed.extend(answer);
                self.stage = Stage::Relaying;
                self.until = around.now + IDLE_MAX;
                around.counts.connected += 1;
            }
        }
        true
    }

    fn refuse(&mut self, outcome: Outcome, around: &mut Around<'_>) {
        around.counts.refused_requests += 1;
        self.owed.extend(outcome.answer(NO_ADDRESS));
        self.until = around.now + HANDSHAKE_MAX;
        self.stage = Stage::Ending;
    }

    /// Moves octets both ways.
    fn relay(&mut self, around: &mut Around<'_>) -> io::Result<bool> {
        let Some(handle) = self.socket else {
            return Err(ErrorKind::NotConnected.into());
        };
        let socket = around.stack.sockets.get_mut::<Socket<'_>>(handle);
        let sent = self.take_octets(socket)?;
        let received = self.give_octets(socket)?;
        around.counts.octets_out += sent as u64;
        around.counts.octets_in += received as u64;
        self.has_far_ended |= has_far_ended(socket.state());
        if socket.state() == State::TimeWait && socket.can_recv() {
            // At the end of this state, smoltcp forgets what was not taken.
            let left = socket.recv(|octets| (octets.len(), octets.to_vec()));
            self.owed.extend(left.unwrap_or_default());
        }
        let is_taken = !socket.can_recv() && self.owed.is_empty();
        if is_taken && self.has_far_ended && !self.is_told {
            self.program.shutdown(Shutdown::Write)?;
            self.is_told = true;
        } else if is_taken && !self.is_told && socket.state() == State::Closed {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if self.has_ended && self.is_told {
            around.stack.retire(handle, around.now);
            self.socket = None;
            self.stage = Stage::Over;
            return Ok(true);
        }
        let is_moved = sent + received > 0;
        if is_moved {
            self.until = around.now + IDLE_MAX;
        }
        Ok(is_moved)
    }

    /// From the program into the stack.
    fn take_octets(&mut self, socket: &mut Socket<'_>) -> io::Result<usize> {
        let mut moved = 0;
        // What it said right behind its request.
        if !self.heard.is_empty() && socket.can_send() {
            moved += socket.send_slice(&self.heard).unwrap_or(0);
            self.heard.drain(..moved);
        }
        while self.is_readable && !self.has_ended && self.heard.is_empty() && socket.can_send() {
            let program = &mut self.program;
            let read = socket.send(|room| {
                let read = program.read(room);
                let len = read.as_ref().copied().unwrap_or(0);
                (len, read.map(|len| (len, room.len())))
            });
            match read.map_err(|_| ErrorKind::ConnectionReset)? {
                Ok((0, _)) => {
                    self.has_ended = true;
                    socket.close();
                }
                Ok((len, room)) => {
                    moved += len;
                    // Less than there is room for: there was no more.
                    self.is_readable = len == room;
                }
                Err(fault) => self.is_readable = would_go_on(fault)?,
            }
        }
        Ok(moved)
    }

    /// From the stack to the program.
    fn give_octets(&mut self, socket: &mut Socket<'_>) -> io::Result<usize> {
        let mut moved = 0;
        while self.is_writable && self.owed.is_empty() && socket.can_recv() {
            let program = &mut self.program;
            let written = socket.recv(|octets| {
                let written = program.write(octets);
                (written.as_ref().copied().unwrap_or(0), written)
            });
            match written.map_err(|_| ErrorKind::ConnectionReset)? {
                Ok(len) => moved += len,
                Err(fault) => self.is_writable = would_go_on(fault)?,
            }
        }
        Ok(moved)
    }

    fn drop_socket(&mut self, stack: &mut Stack, now: Instant) {
        if let Some(handle) = self.socket.take() {
            stack.sockets.get_mut::<Socket<'_>>(handle).abort();
            stack.retire(handle, now);
        }
    }
}

/// Whether the far end has said that it sends nothing more.
fn has_far_ended(state: State) -> bool {
    matches!(
        state,
        State::CloseWait | State::LastAck | State::Closing | State::TimeWait
    )
}

/// After an error of a call that does not block: whether to call again at once.
fn would_go_on(fault: io::Error) -> io::Result<bool> {
    match fault.kind() {
        ErrorKind::WouldBlock => Ok(false),
        ErrorKind::Interrupted => Ok(true),
        _ => Err(fault),
    }
}
