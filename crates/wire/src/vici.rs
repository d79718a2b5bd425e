//! VICI, the control protocol of strongSwan's charon (its file
//! `src/libcharon/plugins/vici/README.md`).
//!
//! A packet on the socket is its length in four octets, then [`Packet`]. A message is elements:
//! sections, key/value pairs and lists. Everything is bounded, although charon is trusted: what it
//! lists has names and addresses that strangers chose. Left out: the transport, which is the
//! owner's.

use crate::codec::{Malformed, Reader, Writer};

/// Octets of a packet at most, without its length. charon accepts 512 KiB.
pub const PACKET_MAX: usize = 512 * 1024;
/// Sections in sections.
const DEPTH_MAX: usize = 16;
/// Elements of a message: a listing of many SAs has a few dozen each.
const ELEMENTS_MAX: usize = 65_536;

/// What goes over the socket.
#[derive(Clone, PartialEq, Eq)]
pub enum Packet {
    /// A command, to charon.
    Request(String, Section),
    /// Its answer.
    Response(Section),
    /// charon has no such command.
    UnknownCommand,
    /// Asks for events of this name.
    Register(String),
    /// Asks for no more of them.
    Unregister(String),
    /// It is so.
    Confirm,
    /// charon has no such event.
    UnknownEvent,
    /// An event of this name.
    Event(String, Section),
}

/// Elements of a message or section, in their order.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Section(pub Vec<(String, Value)>);

/// An element.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// Further elements.
    Section(Section),
    /// Octets, mostly text.
    Octets(Vec<u8>),
    /// Several of them.
    List(Vec<Vec<u8>>),
}

impl Packet {
    /// Reads a whole packet.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        if octets.len() > PACKET_MAX {
            return Err(Malformed::TooMany("octets of a vici packet"));
        }
        let mut r = Reader::new(octets);
        let kind = r.u8("kind of a vici packet")?;
        let packet = match kind {
            0 => Self::Request(name(&mut r)?, Section::read(&mut r)?),
            1 => Self::Response(Section::read(&mut r)?),
            2 => Self::UnknownCommand,
            3 => Self::Register(name(&mut r)?),
            4 => Self::Unregister(name(&mut r)?),
            5 => Self::Confirm,
            6 => Self::UnknownEvent,
            7 => Self::Event(name(&mut r)?, Section::read(&mut r)?),
            _ => return Err(Malformed::Value("kind of a vici packet")),
        };
        r.finish("vici packet")?;
        Ok(packet)
    }

    /// Its octets, without its length, in a buffer that has not grown: a key in it has one copy. An
    /// error if anything is above its limit.
    pub fn to_vec(&self) -> Result<Vec<u8>, Malformed> {
        let (kind, text, section) = match self {
            Self::Request(name, section) => (0, Some(name), Some(section)),
            Self::Response(section) => (1, None, Some(section)),
            Self::UnknownCommand => (2, None, None),
            Self::Register(name) => (3, Some(name), None),
            Self::Unregister(name) => (4, Some(name), None),
            Self::Confirm => (5, None, None),
            Self::UnknownEvent => (6, None, None),
            Self::Event(name, section) => (7, Some(name), Some(section)),
        };
        let room = text.map_or(0, |it| 1 + it.len()) + section.map_or(0, Section::written_len);
        let mut w = Writer::with_room(1 + room);
        w.u8(kind);
        if let Some(text) = text {
            write_name(&mut w, text)?;
        }
        if let Some(section) = section {
            section.write(&mut w)?;
        }
        let octets = w.into_vec();
        match octets.len() > PACKET_MAX {
            true => Err(Malformed::TooMany("octets of a vici packet")),
            false => Ok(octets),
        }
    }
}

impl Section {
    /// Without elements.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a pair more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        let value = Value::Octets(value.as_ref().to_vec());
        self.0.push((key.to_owned(), value));
        self
    }

    /// With a list more.
    #[must_use]
    pub fn with_list<T: AsRef<[u8]>>(
        mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
    ) -> Self {
        let items = items.into_iter().map(|item| item.as_ref().to_vec());
        self.0.push((key.to_owned(), Value::List(items.collect())));
        self
    }

    /// With a section more.
    #[must_use]
    pub fn with_section(mut self, key: &str, section: Self) -> Self {
        self.0.push((key.to_owned(), Value::Section(section)));
        self
    }

    /// The first element of this key.
    pub fn find(&self, key: &str) -> Option<&Value> {
        let mut all = self.0.iter();
        all.find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of this key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.find(key)? {
            Value::Octets(octets) => core::str::from_utf8(octets).ok(),
            Value::Section(_) | Value::List(_) => None,
        }
    }

    /// The section of this key.
    pub fn section(&self, key: &str) -> Option<&Self> {
        match self.find(key)? {
            Value::Section(section) => Some(section),
            Value::Octets(_) | Value::List(_) => None,
        }
    }

    /// Every section and its key.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.0.iter().filter_map(|(key, value)| match value {
            Value::Section(section) => Some((key.as_str(), section)),
            Value::Octets(_) | Value::List(_) => None,
        })
    }

    /// Reads elements to the end.
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut open = vec![(String::new(), Self::default())];
        let mut left = ELEMENTS_MAX;
        while !r.is_empty() {
            left = left
                .checked_sub(1)
                .ok_or(Malformed::TooMany("elements of a vici message"))?;
            match r.u8("element of a vici message")? {
                SECTION_START if open.len() > DEPTH_MAX => {
                    return Err(Malformed::TooMany("sections of vici in each other"));
                }
                SECTION_START => open.push((name(r)?, Self::default())),
                SECTION_END => {
                    let (key, section) = open.pop().unwrap_or_default();
                    let Some((_, above)) = open.last_mut() else {
                        return Err(Malformed::Value("end of a vici section"));
                    };
                    above.0.push((key, Value::Section(section)));
                }
                KEY_VALUE => {
                    let key = name(r)?;
                    let value = Value::Octets(octets(r)?);
                    push(&mut open, key, value);
                }
                LIST_START => {
                    let key = name(r)?;
                    let list = list(r, &mut left)?;
                    push(&mut open, key, Value::List(list));
                }
                _ => return Err(Malformed::Value("element of a vici message")),
            }
        }
        match (open.pop(), open.is_empty()) {
            (Some((_, whole)), true) => Ok(whole),
            _ => Err(Malformed::Truncated("vici section")),
        }
    }

    /// Octets that it has when it is written.
    fn written_len(&self) -> usize {
        let elements = self.0.iter().map(|(key, value)| {
            let inner = match value {
                Value::Section(section) => section.written_len() + 1,
                Value::Octets(octets) => 2 + octets.len(),
                Value::List(items) => items.iter().map(|it| 3 + it.len()).sum::<usize>() + 1,
            };
            2 + key.len() + inner
        });
        elements.sum()
    }

    fn write(&self, w: &mut Writer) -> Result<(), Malformed> {
        for (key, value) in &self.0 {
            match value {
                Value::Section(section) => {
                    w.u8(SECTION_START);
                    write_name(w, key)?;
                    section.write(w)?;
                    w.u8(SECTION_END);
                }
                Value::Octets(octets) => {
                    w.u8(KEY_VALUE);
                    write_name(w, key)?;
                    write_octets(w, octets)?;
                }
                Value::List(items) => {
                    w.u8(LIST_START);
                    write_name(w, key)?;
                    for item in items {
                        w.u8(LIST_ITEM);
                        write_octets(w, item)?;
                    }
                    w.u8(LIST_END);
                }
            }
        }
        Ok(())
    }
}

const SECTION_START: u8 = 1;
const SECTION_END: u8 = 2;
const KEY_VALUE: u8 = 3;
const LIST_START: u8 = 4;
const LIST_ITEM: u8 = 5;
const LIST_END: u8 = 6;

fn push(open: &mut [(String, Section)], key: String, value: Value) {
    if let Some((_, section)) = open.last_mut() {
        section.0.push((key, value));
    }
}

fn list(r: &mut Reader<'_>, left: &mut usize) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut items = Vec::new();
    loop {
        *left = left
            .checked_sub(1)
            .ok_or(Malformed::TooMany("elements of a vici message"))?;
        match r.u8("element of a vici list")? {
            LIST_ITEM => items.push(octets(r)?),
            LIST_END => return Ok(items),
            _ => return Err(Malformed::Value("element of a vici list")),
        }
    }
}

fn name(r: &mut Reader<'_>) -> Result<String, Malformed> {
    let len = usize::from(r.u8("length of a vici name")?);
    let octets = r.take(len, "vici name")?;
    let text = core::str::from_utf8(octets).map_err(|_| Malformed::Value("vici name"))?;
    Ok(text.to_owned())
}

fn octets(r: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let len = usize::from(r.u16("length of a vici value")?);
    Ok(r.take(len, "vici value")?.to_vec())
}

fn write_name(w: &mut Writer, text: &str) -> Result<(), Malformed> {
    let len = u8::try_from(text.len()).map_err(|_| Malformed::TooMany("octets of a vici name"))?;
    w.u8(len);
    w.bytes(text.as_bytes());
    Ok(())
}

fn write_octets(w: &mut Writer, octets: &[u8]) -> Result<(), Malformed> {
    let len = u16::try_from(octets.len());
    w.u16(len.map_err(|_| Malformed::TooMany("octets of a vici value"))?);
    w.bytes(octets);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Section {
        let inner = Section::new().with("key2", "value2");
        let inner = inner.with_section("sub-section", Section::new().with("key3", "value3"));
        let section = Section::new().with("key1", "value1");
        let section = section.with_section("section1", inner);
        section.with_list("list1", ["item1", "item2"])
    }

    /// The example of vici's own description, element by element.
    #[test]
    fn a_message_is_laid_out_as_documented() {
        let octets = [
            &[1, 3, 4][..],
            b"key1\0\x06value1",
            b"\x01\x08section1",
            b"\x03\x04key2\0\x06value2",
            b"\x01\x0bsub-section",
            b"\x03\x04key3\0\x06value3",
            b"\x02\x02",
            b"\x04\x05list1\x05\0\x05item1\x05\0\x05item2\x06",
        ]
        .concat();
        let packet = Packet::Response(message());
        let written = packet.to_vec().expect("within its limits");
        assert!(written == octets && written.capacity() == octets.len());
    }

    #[test]
    fn packets_read_back_whole_and_no_part_of_one_is_another() {
        let packets = [
            Packet::Request("load-conn".into(), message()),
            Packet::Response(message()),
            Packet::UnknownCommand,
            Packet::Register("ike-updown".into()),
            Packet::Unregister("ike-updown".into()),
            Packet::Confirm,
            Packet::UnknownEvent,
            Packet::Event("ike-updown".into(), Section::new()),
        ];
        for packet in packets {
            let octets = packet.to_vec().unwrap();
            assert!(Packet::parse(&octets).as_ref() == Ok(&packet));
            for len in 0..octets.len() {
                assert!(Packet::parse(&octets[..len]) != Ok(packet.clone()));
            }
        }
        assert!(Packet::parse(&[2, 0]).is_err() && Packet::parse(&[8]).is_err());
    }

    #[test]
    fn what_is_found_in_a_message_has_its_kind() {
        let message = message();
        assert_eq!(message.text("key1"), Some("value1"));
        assert_eq!(message.text("section1"), None);
        let section = message.section("section1").unwrap();
        assert_eq!(section.sections().next().unwrap().0, "sub-section");
        assert!(message.section("key1").is_none() && message.find("none").is_none());
    }

    #[test]
    fn what_is_above_a_limit_or_does_not_close_is_refused() {
        let deep = |depth: usize| {
            let start = b"\x01\x01s".repeat(depth);
            [&[1][..], &start, &vec![SECTION_END; depth]].concat()
        };
        assert!(Packet::parse(&deep(DEPTH_MAX)).is_ok());
        assert!(Packet::parse(&deep(DEPTH_MAX + 1)).is_err());
        for wrong in [
            &b"\x01\x02"[..],
            b"\x01\x01\x01s",
            b"\x01\x04\x01l\x05\0\0",
            b"\x01\x07",
        ] {
            assert!(Packet::parse(wrong).is_err(), "{wrong:?}");
        }
        let many = [&[1][..], &b"\x03\x00\x00\x00".repeat(ELEMENTS_MAX + 1)].concat();
        assert!(Packet::parse(&many).is_err());
        assert!(Packet::parse(&vec![1; PACKET_MAX + 1]).is_err());
        let long = "x".repeat(256);
        assert!(Packet::Register(long).to_vec().is_err());
        let wide = Section::new().with("x", vec![0; 65_536]);
        assert!(Packet::Response(wide).to_vec().is_err());
    }
}
