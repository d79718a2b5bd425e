//! The device of the stack: packets in memory. Both queues are bounded; a full one makes the stack
//! wait, or drops what comes from the network, as a router would.

use std::collections::VecDeque;
use std::ops::Range;

use smoltcp::phy::{DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant as Micros;

/// Packets from the tunnel that wait for the stack.
const INCOMING_MAX: usize = 4_096;
/// Octets of the stack that wait for the tunnel: the stack goes on when they are sealed.
const OUTGOING_BYTES: usize = 256 << 10;

pub(super) struct Device {
    pub(super) mtu: usize,
    incoming: VecDeque<Vec<u8>>,
    outgoing: Vec<u8>,
    packets: Vec<Range<usize>>,
    pub(super) overflowed: u64,
}

impl Device {
    pub(super) fn new(mtu: usize) -> Self {
        Self {
            mtu,
            incoming: VecDeque::new(),
            outgoing: Vec::new(),
            packets: Vec::new(),
            overflowed: 0,
        }
    }

    /// A packet from the tunnel.
    pub(super) fn give(&mut self, packet: Vec<u8>) {
        match self.incoming.len() < INCOMING_MAX {
            true => self.incoming.push_back(packet),
            false => self.overflowed += 1,
        }
    }

    /// Whether the stack stopped because there was no room.
    pub(super) fn is_full(&self) -> bool {
        self.outgoing.len() >= OUTGOING_BYTES
    }

    /// The stack's packets, one after the other.
    pub(super) fn drain(&mut self, mut each: impl FnMut(&mut [u8])) {
        for range in self.packets.drain(..) {
            each(&mut self.outgoing[range]);
        }
        self.outgoing.clear();
    }
}

impl smoltcp::phy::Device for Device {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, now: Micros) -> Option<(Incoming, Outgoing<'_>)> {
        if self.is_full() {
            return None;
        }
        let packet = self.incoming.pop_front()?;
        Some((Incoming(packet), self.transmit(now)?))
    }

    fn transmit(&mut self, _: Micros) -> Option<Outgoing<'_>> {
        (!self.is_full()).then_some(Outgoing(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

pub(super) struct Incoming(Vec<u8>);

pub(super) struct Outgoing<'a>(&'a mut Device);

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let device = self.0;
        let start = device.outgoing.len();
        device.outgoing.resize(start + len, 0);
        device.packets.push(start..start + len);
        write(&mut device.outgoing[start..])
    }
}
