//! TLS at one end of a connection of TCP: the flights of its handshake, and then its records.
//!
//! A record has its header, and then the number of octets that it stands for; the rest are zeros.
//! Whatever an end computes is a job of its host's processor, and until it is done the end neither
//! sends nor receives. Left out: alerts, session tickets after the handshake, and data in its first
//! flight.

use engine::time::Instant;
use smoltcp::socket::tcp::Socket;

use super::{Role, Transfer};
use crate::cost::{HEADER_BYTES, Records};
use crate::kernel::cpu::PacketCosts;
use crate::kernel::dialogue::Script;

/// How a connection is protected, and what that takes one of its ends.
#[derive(Clone)]
pub struct Security {
    /// The flights of the handshake. The station of these is the client.
    pub script: Script,
    /// The form of records.
    pub records: Records,
    /// The most that a record carries.
    pub record_bytes: u32,
    /// Seconds to protect and unprotect a record, by what it carries.
    pub costs: PacketCosts,
    /// Whether this is the client's end.
    pub is_client: bool,
}

/// One end of a protected connection.
pub(super) struct Secured {
    security: Security,
    /// The flight that is next.
    next: usize,
    /// What the processor is to do, or does.
    work: Work,
    /// What is to be sent of a record: its beginning, and how many octets in all.
    out: (Vec<u8>, usize),
    /// What has come of a record, in the same way.
    coming: (Vec<u8>, usize),
}

enum Work {
    None,
    /// Seconds that nobody has been asked for.
    Wanted(f64, Then),
    /// The processor is at it.
    Begun(Then),
}

/// What follows the work.
#[derive(Clone, Copy)]
enum Then {
    /// A record of this type leaves, of this length, for so many octets.
    Send(u8, usize, u32),
    /// The program has so many octets.
    Deliver(u32),
    /// The next flight may come.
    GoOn,
}

/// Octets of a record's header and number.
const HEAD_BYTES: usize = HEADER_BYTES as usize + 4;
/// Types of records (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// The version that records of both have (RFC 8446 §5.1).
const VERSION: [u8; 2] = [3, 3];

impl Secured {
    /// An end that has not begun.
    pub(super) fn new(security: Security) -> Self {
        Self {
            security,
            next: 0,
            work: Work::None,
            out: (Vec::new(), 0),
            coming: (Vec::new(), 0),
        }
    }

    /// Moves octets between the program and its socket. Returns whether there were any, or anything
    /// to do for them.
    pub(super) fn pump(
        &mut self,
        transfer: &mut Transfer,
        socket: &mut Socket<'_>,
        now: Instant,
    ) -> bool {
        transfer.note_established(socket, now);
        if transfer.since.is_none() || !matches!(self.work, Work::None) {
            return false;
        }
        if self.out.1 > 0 {
            return self.write(socket);
        }
        let Some(flight) = self.security.script.get(self.next).copied() else {
            return self.carry(transfer, socket, now);
        };
        let is_own = flight.is_from_station == self.security.is_client;
        let seconds = match self.security.is_client {
            true => flight.station_s,
            false => flight.server_s,
        };
        if is_own {
            self.next += 1;
            let bytes = flight.frame_bytes as usize;
            self.want(seconds, Then::Send(HANDSHAKE, bytes, 0), transfer, now);
            return true;
        }
        let (is_moved, whole) = self.read(socket);
        if whole.is_some() {
            self.next += 1;
            self.want(seconds, Then::GoOn, transfer, now);
        }
        is_moved
    }

    /// Data, after the handshake.
    fn carry(&mut self, transfer: &mut Transfer, socket: &mut Socket<'_>, now: Instant) -> bool {
        if transfer.secured.is_none() {
            transfer.secured = Some(now);
            // What a record leaves of a segment waits for the next one, as in Linux.
            socket.set_nagle_enabled(true);
        }
        match transfer.role {
            Role::Receives => {
                let (is_moved, whole) = self.read(socket);
                if let Some(bytes) = whole {
                    let seconds = self.security.costs.open.at(f64::from(bytes));
                    self.want(seconds, Then::Deliver(bytes), transfer, now);
                }
                transfer.close_after(socket);
                is_moved
            }
            Role::Sends(all) if transfer.octets < all => {
                let most = self.security.record_bytes;
                let left = all - transfer.octets;
                let bytes = u32::try_from(left).map_or(most, |left| left.min(most));
                transfer.octets += u64::from(bytes);
                let length = self.security.records.octets(bytes) as usize;
                let seconds = self.security.costs.seal.at(f64::from(bytes));
                self.want(seconds, Then::Send(DATA, length, bytes), transfer, now);
                true
            }
            Role::Sends(_) => transfer.finish(socket),
        }
    }

    /// The seconds that the processor is to work for it, once.
    pub(super) fn take_work(&mut self) -> Option<f64> {
        let Work::Wanted(seconds, then) = self.work else {
            return None;
        };
        self.work = Work::Begun(then);
        Some(seconds)
    }

    /// The work is done.
    pub(super) fn worked(&mut self, transfer: &mut Transfer, now: Instant) {
        if let Work::Begun(then) = std::mem::replace(&mut self.work, Work::None) {
            self.follow(then, transfer, now);
        }
    }

    /// What takes no time follows at once.
    fn want(&mut self, seconds: f64, then: Then, transfer: &mut Transfer, now: Instant) {
        match seconds > 0.0 {
            true => self.work = Work::Wanted(seconds, then),
            false => self.follow(then, transfer, now),
        }
    }

    fn follow(&mut self, then: Then, transfer: &mut Transfer, now: Instant) {
        match then {
            Then::Send(kind, length, bytes) => {
                let body = length.saturating_sub(HEADER_BYTES as usize);
                let mut head = vec![kind];
                head.extend(VERSION);
                head.extend((body as u16).to_be_bytes());
                head.extend(bytes.to_be_bytes());
                self.out = (head, length);
            }
            Then::Deliver(bytes) => {
                transfer.octets += u64::from(bytes);
                transfer.last = now;
            }
            Then::GoOn => {}
        }
    }

    /// Writes what fits of the record that leaves.
    fn write(&mut self, socket: &mut Socket<'_>) -> bool {
        let (head, left) = &mut self.out;
        let mut is_moved = false;
        while *left > 0 && socket.can_send() {
            let sent = socket.send(|buffer| {
                let sent = buffer.len().min(*left);
                let named = head.len().min(sent);
                buffer[..named].copy_from_slice(&head[..named]);
                buffer[named..sent].fill(0);
                (sent, sent)
            });
            let sent = sent.unwrap_or(0);
            if sent == 0 {
                break;
            }
            head.drain(..head.len().min(sent));
            *left -= sent;
            is_moved = true;
        }
        is_moved
    }

    /// Reads as much of the next record as has come. Returns whether that was anything, and of a
    /// whole record what it stands for.
    fn read(&mut self, socket: &mut Socket<'_>) -> (bool, Option<u32>) {
        let mut is_moved = false;
        while socket.can_recv() {
            let (head, count) = &mut self.coming;
            let wanted = length_of(head).unwrap_or(HEAD_BYTES) - *count;
            let taken = socket.recv(|octets| {
                let taken = octets.len().min(wanted);
                let named = (HEAD_BYTES - head.len()).min(taken);
                head.extend_from_slice(&octets[..named]);
                (taken, taken)
            });
            let taken = taken.unwrap_or(0);
            if taken == 0 {
                break;
            }
            *count += taken;
            is_moved = true;
            if length_of(head) == Some(*count) {
                let (head, _) = std::mem::take(&mut self.coming);
                return (true, Some(number(&head)));
            }
        }
        (is_moved, None)
    }
}

/// The length of a record, once its beginning is there.
fn length_of(head: &[u8]) -> Option<usize> {
    let whole = head.get(..HEAD_BYTES)?;
    let body = u16::from_be_bytes([whole[3], whole[4]]);
    Some(HEADER_BYTES as usize + usize::from(body))
}

fn number(head: &[u8]) -> u32 {
    let octets = head[HEADER_BYTES as usize..].first_chunk();
    octets.map_or(0, |octets| u32::from_be_bytes(*octets))
}
