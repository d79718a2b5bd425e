//! Message sequences: how often a node waits before its data may go, what its messages weigh, and
//! how long that takes over a link.
//!
//! An exchange is a file of `exchanges/`:
//! ```toml
//! name = "mobile-ip"
//! title = "for people"
//! knows = 1                      # the peer sends to the new address after this message; absent:
//!                                # after the last message, or after the first data without any
//! framing = 32                   # octets of the link's own header and LLC that are not to be
//!                                # counted again, because messages are frames without FCS and not
//!                                # IP packets; absent: 0
//! [[message]]
//! from = "node"                  # or peer
//! says = "Registration Request"
//! source = "document and section"
//! bytes = 74                     # of its IP packet; absent: not known, and neither are times
//! packets = 2                    # these bytes are those of several IP packets, of equal size,
//!                                # such as fragments of IKE; absent: 1
//! stream = 22                    # octets of these that TCP carries for the protocol; absent:
//!                                # none, TCP itself says it
//! relayed = 196                  # octets of the IP packet in which an access point hands it on to
//!                                # a server behind it, or gets it from there; absent: it does not
//! work = ["x25519-agree"]        # what the node computes before it sends, or after it receives
//! peer_work = ["rsa2048-sign"]   # the same of the peer, or of the server behind it
//! [data]                         # what the protocol does to an IP packet of data; absent: nothing
//! added = 60
//! block = 16                     # the packet is filled up to whole blocks; absent: 1
//! trailer = 2                    # octets behind the packet that are in these blocks too, or
//!                                # headers before it; absent: 0
//! source = "document and section"
//! ```
//! If the first message is of the peer, the peer sends it when the node has come, as an access
//! point does. Left out: losses.

use document::{Fault, Item, parse};
use serde::Serialize;

use crate::cost::{self, Device, Missing};
use crate::scenario::{Direction, Link};
use crate::staircase::{Staircase, Step};

/// The messages of an exchange in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exchange {
    /// The name in the catalogue.
    pub name: String,
    /// For people.
    pub title: String,
    /// The messages.
    pub messages: Vec<Message>,
    /// How many of them the peer needs before it sends to the node's new address; none: all, and
    /// without messages the first data.
    pub knows: Option<usize>,
    /// What the protocol does to data.
    pub data: Option<Data>,
}

/// What a protocol adds to an IP packet of data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Data {
    /// Octets.
    pub added: u32,
    /// The packet is filled up to whole blocks of as many octets.
    pub block: u32,
    /// Octets that are in these blocks with it.
    #[serde(skip_serializing_if = "is_zero")]
    pub trailer: u32,
    /// Where the protocol says so.
    pub source: String,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// Whether the node sends it, otherwise the peer.
    pub is_from_node: bool,
    /// Its name in the protocol.
    pub says: String,
    /// Where the protocol says so.
    pub source: String,
    /// Octets of its IP packet, or of its frame without the check sum.
    pub bytes: Option<u32>,
    /// IP packets that have these octets together.
    #[serde(skip_serializing_if = "is_one")]
    pub packets: u32,
    /// Octets of these that are the link's own header.
    #[serde(skip_serializing_if = "is_zero")]
    pub framing: u32,
    /// Octets of the IP packet between an access point and the server behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relayed: Option<u32>,
    /// Octets of these that TCP carries for the protocol; none: it is not in TCP, or TCP's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
    /// What the node computes before it sends this message or after it has received it.
    pub work: Vec<String>,
    /// The same of the peer, or of the server behind it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peer_work: Vec<String>,
}

/// A path for messages.
#[derive(Clone, Debug)]
pub struct Way<'a> {
    /// The link between node and peer.
    pub link: &'a Link,
    /// Octets on the wire of an IP packet of messages and data.
    pub size: Staircase,
    /// The links behind the peer, if it is an access point, to the server to which it relays
    /// messages.
    pub behind: &'a [Link],
    /// The node's device; none: its work takes no time.
    pub device: Option<&'a Device>,
    /// The device of the peer, or of the server behind it.
    pub peer: Option<&'a Device>,
    /// Seconds from the loss of the old address until the node knows its new one.
    pub detection_s: f64,
    /// Octets of the first data packet in each direction, an IP packet.
    pub data_bytes: u32,
}

/// What an exchange takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Taken {
    /// How often the node waits for the peer before its first data.
    pub rounds: usize,
    /// Messages.
    pub messages: usize,
    /// Octets of all messages on the wire; none if one is not known.
    pub bytes: Option<f64>,
    /// Octets of the data packet on the wire.
    pub data_bytes: f64,
    /// Seconds until the node's first data leaves.
    pub send_s: Option<f64>,
    /// Seconds until the peer's first data arrives at the new address: the gap of a handover.
    pub gap_s: Option<f64>,
}

const ENDS: [(&str, bool); 2] = [("node", true), ("peer", false)];
/// More messages than any exchange has.
const MESSAGES_MAX: u64 = 64;
/// The largest header of a link.
const FRAMING_MAX: u64 = 64;
/// As many fragments as a message of IKE has here at most.
const PACKETS_MAX: u64 = 64;
/// More octets than any protocol adds to a packet.
const ADDED_MAX: u64 = 4096;

impl Exchange {
    /// Reads a file of `exchanges/`; `file` names it in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, Fault> {
        let document = parse(file, text)?;
        let table = document.table()?;
        let framing = table.or("framing", 0, octets(0, FRAMING_MAX))?;
        let read = |item| Message::read(item, framing);
        let messages = match table.find("message") {
            Some(item) => item.list()?.iter().map(read).collect(),
            None => Ok(Vec::new()),
        }?;
        let most = messages.len() as u64;
        if most > MESSAGES_MAX {
            return Err(document.fault(format!("{most} messages, limit {MESSAGES_MAX}")));
        }
        let exchange = Self {
            name: table.need("name")?.text()?.to_owned(),
            title: table.need("title")?.text()?.to_owned(),
            messages,
            data: table.or("data", None, |item| Data::read(item).map(Some))?,
            knows: table.or("knows", None, |item| {
                Ok(Some(item.whole(1, most.max(1))? as usize))
            })?,
        };
        let known = exchange.knows.map(|knows| exchange.messages.get(knows - 1));
        if known.is_some_and(|it| it.is_none_or(|message| !message.is_from_node)) {
            let what = "this must be the number of a message from the node";
            return Err(table.fault_of(&["knows"], what));
        }
        let first = exchange.messages.first();
        if first.is_some_and(|it| !it.is_from_node && it.relayed.is_some()) {
            let what = "the first message answers nothing, so no server has sent it";
            return Err(table.fault_of(&["message"], what));
        }
        table.finish()?;
        Ok(exchange)
    }

    /// This exchange and then another. What it does to data, and when the peer knows the node, is
    /// as the other one says.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        let before = self.messages.len();
        self.messages.extend(other.messages);
        self.knows = other.knows.map(|knows| before + knows);
        self.data = other.data.or(self.data);
        self
    }

    /// The messages that TCP carries for the protocol.
    pub fn flights(&self) -> impl Iterator<Item = &Message> {
        let messages = self.messages.iter();
        messages.filter(|message| message.stream.is_some())
    }

    /// How often the node waits for the peer before its first data.
    pub fn rounds(&self) -> usize {
        let ends = self.messages.iter().map(|message| message.is_from_node);
        // The first data follows the last message.
        let nexts = self
            .messages
            .iter()
            .skip(1)
            .map(|message| message.is_from_node);
        let pairs = ends.zip(nexts.chain([true]));
        pairs.filter(|(own, next)| !own && *next).count()
    }

    /// Octets of all messages, by the size of each one's packets.
    fn total(&self, sizes: &[f64]) -> f64 {
        let messages = self.messages.iter().zip(sizes);
        messages.fold(0.0, |sum, (message, bytes)| {
            sum + f64::from(message.packets) * bytes
        })
    }

    /// What it takes over a link.
    pub fn over(&self, way: &Way<'_>) -> Result<Taken, Missing> {
        let sizes = self.messages.iter();
        // Of each packet of a message.
        let sizes = sizes.map(|message| {
            let packet = f64::from(message.bytes?) / f64::from(message.packets);
            Some(way.size.at(packet))
        });
        let sizes: Option<Vec<f64>> = sizes.collect();
        let carried = self.data.as_ref();
        let carried = carried.map_or(Staircase::linear(1.0), Data::octets);
        let data = way.size.at(carried.at(f64::from(way.data_bytes)));
        let mut taken = Taken {
            rounds: self.rounds(),
            messages: self.messages.len(),
            bytes: sizes.as_ref().map(|sizes| self.total(sizes)),
            data_bytes: data,
            send_s: None,
            gap_s: None,
        };
        let Some(sizes) = sizes else {
            return Ok(taken);
        };
        // When each end has sent what it had to, and received what it waited for.
        // A peer with the first word, as an access point, has it when the node has come.
        let is_asked = self.messages.first().is_some_and(|it| !it.is_from_node);
        let (mut node_s, mut peer_s) = (way.detection_s, 0.0_f64);
        if is_asked {
            peer_s = way.detection_s;
        }
        let mut known_s = None;
        for (index, (message, bytes)) in self.messages.iter().zip(sizes).enumerate() {
            let own_s = work_s(way.device, &message.work)?;
            let other_s = work_s(way.peer, &message.peer_work)?;
            let bytes = way.on_link(bytes, message.framing);
            let sends_s = |direction| f64::from(message.packets) * way.sends_s(bytes, direction);
            if message.is_from_node {
                node_s += own_s + sends_s(Direction::Up);
                peer_s = peer_s.max(node_s + way.link.delay_s);
                peer_s += way.relays_s(message) + other_s;
            } else {
                peer_s += other_s + way.relays_s(message);
                peer_s += sends_s(Direction::Down);
                node_s = node_s.max(peer_s + way.link.delay_s) + own_s;
            }
            if self.knows == Some(index + 1) {
                known_s = Some(peer_s);
            }
        }
        let last_s = match self.messages.is_empty() {
            true => node_s + way.sends_s(data, Direction::Up) + way.link.delay_s,
            false => peer_s,
        };
        let back_s = way.sends_s(data, Direction::Down) + way.link.delay_s;
        taken.send_s = Some(node_s);
        taken.gap_s = Some(known_s.unwrap_or(last_s) + back_s);
        Ok(taken)
    }
}

impl Way<'_> {
    /// Seconds to send octets, without the delay.
    fn sends_s(&self, bytes: f64, direction: Direction) -> f64 {
        self.link.sends_s(bytes, direction)
    }

    /// Octets of a message as the link's overhead finds them: without the framing, if the link
    /// counts that. Below zero for a frame that is shorter than header and LLC, such as one of
    /// authentication without an LLC; with the overhead it is the frame again.
    fn on_link(&self, bytes: f64, framing: u32) -> f64 {
        bytes - f64::from(framing).min(self.link.overhead_bytes)
    }

    /// Seconds of a message on the links behind an access point.
    fn relays_s(&self, message: &Message) -> f64 {
        let Some(bytes) = message.relayed else {
            return 0.0;
        };
        let direction = match message.is_from_node {
            true => Direction::Up,
            false => Direction::Down,
        };
        let links = self.behind.iter();
        links
            .map(|link| link.sends_s(f64::from(bytes), direction) + link.delay_s)
            .sum()
    }
}

/// Seconds of operations on a device; none: they take no time.
fn work_s(device: Option<&Device>, work: &[String]) -> Result<f64, Missing> {
    let Some(device) = device else {
        return Ok(0.0);
    };
    work.iter().map(|name| device.operation(name)).sum()
}

impl Data {
    fn read(item: &Item) -> Result<Self, Fault> {
        let table = item.table()?;
        let data = Self {
            added: octets(0, ADDED_MAX)(table.need("added")?)?,
            block: table.or("block", 1, octets(1, ADDED_MAX))?,
            trailer: table.or("trailer", 0, octets(0, ADDED_MAX))?,
            source: table.need("source")?.text()?.to_owned(),
        };
        table.finish()?;
        Ok(data)
    }

    /// As a function of the packet's octets.
    fn octets(&self) -> Staircase {
        let block = f64::from(self.block);
        Staircase {
            fixed: f64::from(self.added),
            per_byte: 0.0,
            steps: vec![Step {
                height: block,
                offset: f64::from(self.trailer),
                width: block,
            }],
        }
    }
}

impl Message {
    fn read(item: &Item, framing: u32) -> Result<Self, Fault> {
        let table = item.table()?;
        let work = |item: &Item| {
            let names = item.list()?.iter();
            names
                .map(|name| known_work(name).map(str::to_owned))
                .collect()
        };
        let most = u64::from(crate::IP_BYTES_MAX);
        let bytes = table.or("bytes", None, |item| octets(1, most)(item).map(Some))?;
        let inside = bytes.map_or(most, u64::from).saturating_sub(TCP_HEADERS);
        let message = Self {
            is_from_node: table.need("from")?.choice("end", &ENDS)?,
            says: table.need("says")?.text()?.to_owned(),
            source: table.need("source")?.text()?.to_owned(),
            bytes,
            packets: table.or("packets", 1, octets(1, PACKETS_MAX))?,
            framing,
            relayed: table.or("relayed", None, |item| {
                octets(RELAYED_MIN, most)(item).map(Some)
            })?,
            stream: table.or("stream", None, |item| {
                octets(STREAM_MIN, inside.max(STREAM_MIN))(item).map(Some)
            })?,
            work: table.or("work", Vec::new(), work)?,
            peer_work: table.or("peer_work", Vec::new(), work)?,
        };
        table.finish()?;
        Ok(message)
    }
}

/// The smallest packet of RADIUS: headers of IP and UDP, and its own (RFC 2865 §3).
const RELAYED_MIN: u64 = 20 + 8 + 20;
/// The least headers of a message in TCP: those of IPv4 and TCP without options.
const TCP_HEADERS: u64 = 20 + 20;
/// The smallest flight of TLS that the event kernel sends: a record with something in it.
const STREAM_MIN: u64 = 16;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one(packets: &u32) -> bool {
    *packets == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(octets: &u32) -> bool {
    *octets == 0
}

/// A whole number of octets.
fn octets(least: u64, most: u64) -> impl Fn(&Item) -> Result<u32, Fault> {
    move |item| {
        let octets = item.whole(least, most)?;
        Ok(u32::try_from(octets).expect("the limit is below"))
    }
}

/// An operation that devices may have a cost of.
fn known_work(item: &Item) -> Result<&str, Fault> {
    let name = item.text()?;
    match cost::is_operation(name) {
        true => Ok(name),
        false => Err(item.fault(format!("no device has a cost of '{name}'"))),
    }
}

#[cfg(test)]
mod tests;
