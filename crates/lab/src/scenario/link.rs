//! Link files, and the links of a scenario: a file of the catalogue with keys overridden.

use document::{Fault, Item, Table, Value, parse};
use serde::Serialize;

use super::quantity;
use super::traffic::Direction;
use crate::IP_BYTES_MAX;

/// The properties of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Name in the catalogue; empty for a link that the scenario describes itself.
    pub link: String,
    /// Bits per second.
    pub rate: Rate,
    /// Propagation delay in seconds, from the last bit sent to the last bit received.
    pub delay_s: f64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// The share of packets that are overtaken by the next one.
    pub reorder: f64,
    /// The size of the queue in bytes, above which packets are dropped; none: no limit.
    pub queue_bytes: Option<f64>,
    /// The MTU; none: no limit, as in the papers.
    pub mtu_bytes: Option<f64>,
    /// Bytes that the link adds to every packet.
    pub overhead_bytes: f64,
    /// Seconds that the medium takes for every packet besides its bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub access_s: f64,
    /// Name of a recording of delivery opportunities that is used instead of the rate.
    pub trace: Option<String>,
    /// Whether both directions share one wire. Message sequences go one way at a time anyway.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_half_duplex: bool,
}

/// The rates of both directions, which may differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Away from the station.
    pub up_bps: f64,
    /// Towards the station.
    pub down_bps: f64,
}

impl Rate {
    /// Bits per second in a direction.
    pub const fn of(&self, direction: Direction) -> f64 {
        match direction {
            Direction::Up => self.up_bps,
            Direction::Down => self.down_bps,
        }
    }
}

/// A file of `links/`: a link, and the sources of its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkFile {
    /// A title of one line.
    pub title: String,
    /// The link itself.
    pub link: Link,
    /// Key and source of every number that the file gives.
    pub sources: Vec<(String, String)>,
}

/// The keys of a link, in its file and in a scenario that overrides them.
const NUMBERS: [&str; 10] = [
    "rate",
    "delay",
    "loss",
    "reorder",
    "queue",
    "mtu",
    "overhead",
    "access_time",
    "trace",
    "half_duplex",
];

/// The smallest MTU that IPv4 permits (RFC 791 §3.2).
const MTU_MIN: f64 = 68.0;
/// That of the largest packet.
const MTU_MAX: f64 = IP_BYTES_MAX as f64;

impl LinkFile {
    /// Reads a file of the catalogue under its name; a number without a source is an error.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, Fault> {
        let document = parse(file, text)?;
        let table = document.table()?;
        let title = table.need("title")?.text()?.to_owned();
        let named = table.need("sources")?.table()?;
        let mut sources = Vec::new();
        for key in NUMBERS {
            match (table.find(key), named.find(key)) {
                (Some(_), Some(source)) => {
                    sources.push((key.to_owned(), source.text()?.to_owned()));
                }
                (Some(number), None) => {
                    return Err(number.fault("this number has no source: add one to [sources]"));
                }
                (None, Some(source)) => return Err(source.fault("this source has no number")),
                (None, None) => {}
            }
        }
        named.finish()?;
        let link = Link::read(&table, name)?;
        table.finish()?;
        Ok(Self {
            title,
            link,
            sources,
        })
    }
}

impl Link {
    /// Seconds that a packet of this size takes the link, without the delay.
    pub fn sends_s(&self, bytes: f64, direction: Direction) -> f64 {
        (bytes + self.overhead_bytes) * 8.0 / self.rate.of(direction) + self.access_s
    }

    fn read(table: &Table<'_>, name: &str) -> Result<Self, Fault> {
        let part = |item: &Item| item.number(0.0, 1.0);
        Ok(Self {
            link: name.to_owned(),
            rate: read_rate(table.need("rate")?)?,
            delay_s: table.or("delay", 0.0, |item| item.quantity(quantity::delay))?,
            loss: table.or("loss", 0.0, part)?,
            reorder: table.or("reorder", 0.0, part)?,
            queue_bytes: table.or("queue", None, |item| {
                match item.quantity(quantity::size)? {
                    ..1.0 => Err(item.fault("a queue needs room for at least one byte")),
                    bytes => Ok(Some(bytes)),
                }
            })?,
            mtu_bytes: table.or("mtu", None, |item| read_mtu(item).map(Some))?,
            overhead_bytes: table.or("overhead", 0.0, read_overhead)?,
            access_s: table.or("access_time", 0.0, |item| item.quantity(quantity::delay))?,
            trace: read_trace(table)?,
            is_half_duplex: table.or("half_duplex", false, Item::boolean)?,
        })
    }

    /// The link of a scenario: `base` is the file that it names; each of its keys may be
    /// overridden.
    pub(super) fn overridden(
        item: &Item,
        table: &Table<'_>,
        base: Option<(&str, &str, &str)>,
    ) -> Result<Self, Fault> {
        let Some((name, file, text)) = base else {
            return Self::read(table, "");
        };
        // A catalogue file with an error is not used at all.
        LinkFile::parse(name, file, text)?;
        Self::check_heard(item, table, (name, &parse(file, text)?))?;
        let mut merged = item.clone();
        let (Value::Table(keys), Value::Table(filed)) =
            (&mut merged.value, parse(file, text)?.value)
        else {
            unreachable!("both were read as tables");
        };
        for (key, number) in filed {
            let is_absent = |item: &Item| matches!(item.value, Value::Removed);
            if NUMBERS.contains(&key.as_str()) && keys.get(&key).is_none_or(is_absent) {
                keys.insert(key, number);
            }
        }
        for key in NUMBERS {
            table.find(key);
        }
        Self::read(&merged.table()?, name)
    }
}

impl Link {
    /// Refuses an edit that names another link file if the scenario states numbers itself, which
    /// would override those of the new file.
    fn check_heard(
        item: &Item,
        table: &Table<'_>,
        (name, filed): (&str, &Item),
    ) -> Result<(), Fault> {
        let filed = filed.table()?;
        let Some(chosen) = table.find("link").filter(|item| item.place.is_edit()) else {
            return Ok(());
        };
        let is_stated = |key: &&'static str| {
            let own = table.find(key);
            own.is_some_and(|own| !own.place.is_edit()) && filed.find(key).is_some()
        };
        let stated: Vec<&str> = NUMBERS.into_iter().filter(is_stated).collect();
        if stated.is_empty() {
            return Ok(());
        }
        let stem = chosen.place.key.strip_suffix(".link");
        let stem = stem.unwrap_or(&item.place.key);
        let away: Vec<String> = stated
            .iter()
            .map(|key| format!("--set {stem}.{key}="))
            .collect();
        Err(chosen.fault(format!(
            "the scenario itself gives {} of this link, which takes precedence over '{name}': \
             remove it too, {}",
            stated.join(", "),
            away.join(" ")
        )))
    }
}

/// A recording has opportunities instead of access times.
fn read_trace(table: &Table<'_>) -> Result<Option<String>, Fault> {
    let Some(trace) = table.find("trace") else {
        return Ok(None);
    };
    table.refuse("access_time", "a link with a trace has no access time")?;
    Ok(Some(trace.text()?.to_owned()))
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// The bytes that a link adds to a packet, at most the size of a packet.
fn read_overhead(item: &Item) -> Result<f64, Fault> {
    match item.quantity(quantity::size)? {
        bytes @ ..=MTU_MAX => Ok(bytes),
        bytes => Err(item.fault(format!("{bytes} bytes of overhead, limit {MTU_MAX}"))),
    }
}

/// A number of bytes without a unit, as systems show an MTU, or a size with its unit.
fn read_mtu(item: &Item) -> Result<f64, Fault> {
    let bytes = match item.value {
        Value::Text(_) => item.quantity(quantity::size)?,
        _ => item.number(MTU_MIN, MTU_MAX)?,
    };
    match (MTU_MIN..=MTU_MAX).contains(&bytes) && bytes.fract() == 0.0 {
        true => Ok(bytes),
        false => Err(item.fault(format!(
            "an MTU must be {MTU_MIN} to {MTU_MAX} whole bytes, such as 1500"
        ))),
    }
}

/// One rate for both directions, or a table with `up` and `down`.
pub(super) fn read_rate(item: &Item) -> Result<Rate, Fault> {
    if let Value::Table(_) = item.value {
        let table = item.table()?;
        let rate = Rate {
            up_bps: table.need("up")?.quantity(quantity::rate)?,
            down_bps: table.need("down")?.quantity(quantity::rate)?,
        };
        table.finish()?;
        return Ok(rate);
    }
    let bps = item.quantity(quantity::rate)?;
    Ok(Rate {
        up_bps: bps,
        down_bps: bps,
    })
}
