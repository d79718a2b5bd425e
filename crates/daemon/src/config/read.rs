//! How each type of value is read from a file, and how a table asks for its keys.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use document::{Fault, Item, Table, Value};

use super::values::{SecretText, Size, Span, Transport};

/// A value of a file, or a whole table.
pub(super) trait Read: Sized {
    /// Reads it. The error names the place, and says what to write.
    fn read(item: &Item) -> Result<Self, Fault>;
}

/// A table of keys that are known.
pub(super) trait ReadTable: Sized {
    /// Reads its keys.
    fn of(keys: &Keys<'_>) -> Result<Self, Fault>;
}

impl<T: ReadTable> Read for T {
    fn read(item: &Item) -> Result<Self, Fault> {
        let keys = Keys(item.table()?);
        let table = T::of(&keys)?;
        keys.0.finish()?;
        Ok(table)
    }
}

/// A table whose keys are read one by one. A key that nobody asks for is an error.
pub(super) struct Keys<'a>(Table<'a>);

impl Keys<'_> {
    /// The value of a key, or a default.
    pub(super) fn or<T: Read>(&self, key: &'static str, otherwise: T) -> Result<T, Fault> {
        self.0.or(key, otherwise, T::read)
    }

    /// The value of a key, or the default of its type.
    pub(super) fn given<T: Read + Default>(&self, key: &'static str) -> Result<T, Fault> {
        self.or(key, T::default())
    }

    /// The value of a key that must be there. `example` shows one.
    pub(super) fn needed<T: Read>(&self, key: &'static str, example: &str) -> Result<T, Fault> {
        let item = self.0.need(key).map_err(|mut fault| {
            fault.what.push_str(": ");
            fault.what.push_str(example);
            fault
        })?;
        T::read(item)
    }

    /// Refuses every other key.
    pub(super) fn only(&self, keys: &[&'static str]) -> Result<(), Fault> {
        self.0.only(keys)
    }

    /// The place and value of a key, if it is there.
    pub(super) fn item(&self, key: &'static str) -> Option<&Item> {
        self.0.find(key)
    }

    /// Refuses a table where a list of tables is meant.
    pub(super) fn refuse_table(&self, key: &'static str, why: &str) -> Result<(), Fault> {
        match self.0.find(key) {
            Some(item) if matches!(item.value, Value::Table(_)) => Err(item.fault(why)),
            _ => Ok(()),
        }
    }
}

/// Reads a text that has a form of its own. `form` describes it.
fn parsed<T: FromStr>(item: &Item, form: &str) -> Result<T, Fault> {
    let text = item.text()?;
    text.parse()
        .map_err(|_| item.fault(format!("{text:?} is not {form}")))
}

/// A whole number of a type with fewer than 64 bits, or of 63.
fn whole<T: TryFrom<u64>>(item: &Item, most: u64) -> Result<T, Fault> {
    let most = most.min(i64::MAX as u64);
    let number = item.whole(0, most)?;
    T::try_from(number).map_err(|_| item.fault(format!("{number} is outside 0 to {most}")))
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Read for $type {
            fn read(item: &Item) -> Result<Self, Fault> {
                whole(item, <$type>::MAX as u64)
            }
        }
    )*};
}

whole_numbers!(u8, u16, u32, u64, usize);

impl Read for bool {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.boolean()
    }
}

impl Read for String {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.text().map(str::to_owned)
    }
}

impl Read for PathBuf {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.text().map(Self::from)
    }
}

impl Read for SecretText {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.octets().map(Self::from)
    }
}

impl Read for Ipv4Addr {
    fn read(item: &Item) -> Result<Self, Fault> {
        parsed(item, "an IPv4 address, such as \"192.0.2.1\"")
    }
}

impl Read for IpAddr {
    fn read(item: &Item) -> Result<Self, Fault> {
        parsed(item, "an address, such as \"192.0.2.1\" or \"2001:db8::1\"")
    }
}

impl Read for SocketAddr {
    fn read(item: &Item) -> Result<Self, Fault> {
        parsed(
            item,
            "ADDRESS:PORT, such as \"10.10.0.2:80\" or \"[fd00::2]:80\"",
        )
    }
}

impl Read for Span {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.quantity(Self::parse)
    }
}

impl Read for Transport {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.choice("value", &[("tcp", Self::Tcp), ("udp", Self::Udp)])
    }
}

impl Read for Size {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.quantity(Self::parse)
    }
}

impl<T: Read> Read for Option<T> {
    fn read(item: &Item) -> Result<Self, Fault> {
        T::read(item).map(Some)
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(item: &Item) -> Result<Self, Fault> {
        item.list()?.iter().map(T::read).collect()
    }
}

/// Tables by name.
impl<T: Read> Read for BTreeMap<String, T> {
    fn read(item: &Item) -> Result<Self, Fault> {
        let members = item.members()?.iter();
        members
            .filter(|(_, item)| !matches!(item.value, Value::Removed))
            .map(|(name, item)| Ok((name.clone(), T::read(item)?)))
            .collect()
    }
}
