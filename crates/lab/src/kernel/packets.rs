//! Packets in flight: a slab with reused slots.

use std::net::IpAddr;

use engine::time::Instant;

/// Names a packet in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketId(u32);

/// A packet. Plain packets have a length only; real ones have octets, and `bytes` is their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Current length of the IP packet.
    pub bytes: u32,
    /// Its clear length, before anything was added.
    pub clear: u32,
    /// Its source.
    pub flow: u32,
    /// When its source made it.
    pub born: Instant,
    /// The IP packet itself; empty for a plain one.
    pub octets: Vec<u8>,
    /// The node that gets it next on its segment; none: the one with its destination, or the head.
    pub next: Option<IpAddr>,
}

/// The slab.
#[derive(Default)]
pub struct Packets {
    places: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    /// A packet of a length and no octets.
    #[inline]
    pub fn plain(&mut self, bytes: u32, flow: u32, born: Instant) -> PacketId {
        let id = self.place();
        let packet = &mut self.places[id.0 as usize];
        (packet.bytes, packet.clear) = (bytes, bytes);
        (packet.flow, packet.born) = (flow, born);
        packet.next = None;
        id
    }

    /// An IP packet.
    pub fn give(&mut self, octets: Vec<u8>, born: Instant) -> PacketId {
        let id = self.plain(octets.len() as u32, 0, born);
        self.places[id.0 as usize].octets = octets;
        id
    }

    /// Removes a packet and returns its octets.
    pub fn take(&mut self, id: PacketId) -> Vec<u8> {
        let octets = std::mem::take(&mut self.places[id.0 as usize].octets);
        self.free.push(id.0);
        octets
    }

    /// The packet with this name.
    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.places[id.0 as usize]
    }

    /// The same, mutable.
    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.places[id.0 as usize]
    }

    /// Removes a packet.
    #[inline]
    pub fn free(&mut self, id: PacketId) {
        self.places[id.0 as usize].octets = Vec::new();
        self.free.push(id.0);
    }

    /// The number in flight.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Slots created so far: the most packets that were in flight at the same time.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Whether none is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn place(&mut self) -> PacketId {
        if let Some(id) = self.free.pop() {
            return PacketId(id);
        }
        self.places.push(Packet::default());
        PacketId(self.places.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_forget() {
        let mut packets = Packets::default();
        let first = packets.give(vec![1, 2, 3], Instant(5));
        assert_eq!(packets.get(first).octets, [1, 2, 3]);
        packets.free(first);
        assert!(packets.is_empty());
        let second = packets.plain(9, 1, Instant(6));
        assert_eq!(first, second);
        assert!(packets.get(second).octets.is_empty());
        assert_eq!(packets.len(), 1);
    }
}
