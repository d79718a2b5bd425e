//! A TOML text as a tree that remembers the place of every key, and its reader. The reader asks for
//! each key and its type; a key that it never asks for is an error.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::fault::{Fault, Place};
use super::position::Lines;
use super::words::{is_hidden, is_like, is_slip, nearest, unknown};

/// People do not write larger texts.
pub const TEXT_BYTES_MAX: usize = 1 << 22;
/// Nor deeper tables.
pub const DEPTH_MAX: usize = 16;
/// Nor texts with more values.
const ITEMS_MAX: usize = 200_000;
/// Nor longer keys, with those of the tables around them. Each value stores its full key.
pub const KEY_BYTES_MAX: usize = 256;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Item {
    /// The place of its key, or of the value itself in a list.
    pub place: Place,
    /// The value.
    pub value: Value,
}

/// The types of TOML. Dates are text.
#[derive(Clone, Debug)]
pub enum Value {
    /// In quotes. Wiped on drop: it may be a secret.
    Text(Zeroizing<String>),
    /// Whole.
    Integer(i64),
    /// With a point or an exponent.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// In brackets, or `[[key]]`.
    List(Vec<Item>),
    /// By key.
    Table(BTreeMap<String, Item>),
    /// An edit removed the key. It is kept for messages about missing keys.
    Removed,
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Removed => "nothing",
        }
    }
}

/// Reads a whole text; `file` is the name for messages.
pub fn parse(file: &str, text: &str) -> Result<Item, Fault> {
    let file: Arc<str> = file.into();
    let lines = Lines::of(text);
    let at = |position: Option<(usize, usize)>, what: String| Fault {
        place: Place {
            file: file.clone(),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            key: String::new(),
        },
        what,
    };
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("{} bytes, limit {TEXT_BYTES_MAX}", text.len());
        return Err(at(None, what));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let position = error.span().map(|span| lines.position(span.start));
        at(position, error.message().replace('\n', ", "))
    })?;
    if table.get_ref().is_empty() {
        return Err(at(None, "the file is empty".to_owned()));
    }
    let reader = Reader {
        file,
        lines,
        items: Cell::new(0),
    };
    let top = reader.table(table.get_ref(), "", 0)?;
    Ok(Item {
        place: reader.place(0, String::new()),
        value: Value::Table(top),
    })
}

struct Reader<'a> {
    file: Arc<str>,
    lines: Lines<'a>,
    /// Values read so far.
    items: Cell<usize>,
}

impl Reader<'_> {
    fn place(&self, at: usize, key: String) -> Place {
        let (line, column) = self.lines.position(at);
        Place {
            file: self.file.clone(),
            line: Some(line),
            column: Some(column),
            key,
        }
    }

    /// A key below `path`.
    fn join(&self, at: usize, path: &str, key: &str) -> Result<String, Fault> {
        let bytes = path.len() + 1 + key.len();
        if bytes <= KEY_BYTES_MAX {
            return Ok(join(path, key));
        }
        let what = format!("a key of {bytes} bytes with its tables, limit {KEY_BYTES_MAX}");
        let place = self.place(at, path.to_owned());
        Err(Fault { place, what })
    }

    fn table(
        &self,
        table: &DeTable<'_>,
        path: &str,
        depth: usize,
    ) -> Result<BTreeMap<String, Item>, Fault> {
        let mut items = BTreeMap::new();
        for (key, value) in table {
            let at = key.span().start;
            let path = self.join(at, path, key.get_ref())?;
            let item = self.item(value, at, path, depth)?;
            items.insert(key.get_ref().to_string(), item);
        }
        Ok(items)
    }

    fn item(
        &self,
        value: &Spanned<DeValue<'_>>,
        at: usize,
        path: String,
        depth: usize,
    ) -> Result<Item, Fault> {
        let place = self.place(at, path);
        let fault = |what: &str| Fault {
            place: place.clone(),
            what: what.to_owned(),
        };
        if depth > DEPTH_MAX {
            return Err(fault("nested too deeply"));
        }
        self.items.set(self.items.get() + 1);
        if self.items.get() > ITEMS_MAX {
            return Err(fault(&format!("more than {ITEMS_MAX} values")));
        }
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string().into()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(Value::Integer)
                .map_err(|_| fault("must be a whole number of at most 63 bits"))?,
            DeValue::Float(number) => number
                .as_str()
                .parse()
                .map(Value::Float)
                .map_err(|_| fault("not a number"))?,
            DeValue::Boolean(is) => Value::Boolean(*is),
            DeValue::Datetime(date) => Value::Text(date.to_string().into()),
            DeValue::Array(list) => {
                let mut items = Vec::new();
                for (index, value) in list.iter().enumerate() {
                    let index = index.to_string();
                    let at = value.span().start;
                    let name = member(value.get_ref()).unwrap_or(&index);
                    let path = self.join(at, &place.key, name)?;
                    items.push(self.item(value, at, path, depth + 1)?);
                }
                Value::List(items)
            }
            DeValue::Table(table) => Value::Table(self.table(table, &place.key, depth + 1)?),
        };
        Ok(Item { place, value })
    }
}

/// The key that names a list's member: the `name` of a node, the `from` of a link.
fn naming<V>(find: impl Fn(&'static str) -> Option<V>) -> Option<V> {
    find("name").or_else(|| find("from"))
}

/// The name of a list's member.
fn member<'a>(value: &'a DeValue<'_>) -> Option<&'a str> {
    let DeValue::Table(table) = value else {
        return None;
    };
    let name = naming(|key| table.get(key))?;
    name.get_ref().as_str().filter(|name| !name.is_empty())
}

fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

impl Item {
    /// The same as `member`, for a parsed value. Empty if it has no name.
    pub fn name(&self) -> String {
        let Value::Table(table) = &self.value else {
            return String::new();
        };
        match naming(|key| table.get(key)).map(|item| &item.value) {
            Some(Value::Text(text)) => text.to_string(),
            _ => String::new(),
        }
    }

    /// An error about a combination of `keys` of this table. It blames an edited one if there is
    /// one.
    pub fn fault_of(&self, keys: &[&str], what: impl Into<String>) -> Fault {
        let mut places = Vec::new();
        if let Value::Table(items) = &self.value {
            places.extend(keys.iter().filter_map(|key| Some(&items.get(*key)?.place)));
        }
        let edited = places.into_iter().find(|place| place.is_edit());
        Fault {
            place: edited.unwrap_or(&self.place).clone(),
            what: what.into(),
        }
    }

    /// The place of every value, by its key. Members of lists appear under their names, a key that
    /// an edit removed as `key=`.
    pub fn places(&self) -> BTreeMap<String, Place> {
        let mut places = BTreeMap::new();
        self.gather(String::new(), &mut places);
        places
    }

    fn gather(&self, key: String, places: &mut BTreeMap<String, Place>) {
        match &self.value {
            Value::Table(items) => {
                for (name, item) in items {
                    item.gather(join(&key, name), places);
                }
            }
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let name = Some(item.name()).filter(|name| !name.is_empty());
                    item.gather(join(&key, &name.unwrap_or(index.to_string())), places);
                }
            }
            _ => {}
        }
        let mark = if matches!(self.value, Value::Removed) {
            "="
        } else {
            ""
        };
        places.insert(format!("{key}{mark}"), self.place.clone());
    }

    /// The place of a dotted key below this table, or of the nearest table around it.
    pub fn place_of(&self, key: &str) -> &Place {
        let mut found = self;
        for word in key.split('.') {
            let inner = match &found.value {
                Value::Table(items) => items.get(word),
                Value::List(items) => word.parse().ok().and_then(|at: usize| items.get(at)),
                _ => None,
            };
            let Some(inner) = inner else { break };
            found = inner;
        }
        &found.place
    }

    /// An error at this place.
    pub fn fault(&self, what: impl Into<String>) -> Fault {
        Fault {
            place: self.place.clone(),
            what: what.into(),
        }
    }

    fn wrong(&self, wanted: &str) -> Fault {
        self.fault(format!("must be {wanted}, found {}", self.value.kind()))
    }

    /// A table that is read key by key.
    pub fn table(&self) -> Result<Table<'_>, Fault> {
        Ok(Table {
            item: self,
            items: self.members()?,
            asked: RefCell::default(),
        })
    }

    /// A text for people: neither empty, nor with a character that a terminal would obey. It may
    /// have several lines.
    pub fn text(&self) -> Result<&str, Fault> {
        let text = self.octets()?;
        self.check_shown(text)?;
        Ok(text)
    }

    /// Refuses a text of this item with a character that a terminal would obey.
    pub fn check_shown(&self, text: &str) -> Result<(), Fault> {
        let is_odd = |c: &char| is_hidden(*c) && !matches!(c, '\n' | '\t');
        match text.chars().find(is_odd) {
            Some(odd) => Err(self.fault(format!(
                "this text has the character U+{:04X}, which is not shown",
                u32::from(odd)
            ))),
            None => Ok(()),
        }
    }

    /// A text that is not empty, of any characters.
    pub fn octets(&self) -> Result<&str, Fault> {
        match &self.value {
            Value::Text(text) if text.trim().is_empty() => Err(self.fault("this text is empty")),
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong("text")),
        }
    }

    /// A finite number in `least..=most`.
    pub fn number(&self, least: f64, most: f64) -> Result<f64, Fault> {
        let number = match &self.value {
            #[expect(clippy::cast_precision_loss, reason = "a measure, not a count")]
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            _ => return Err(self.wrong("a number")),
        };
        if (least..=most).contains(&number) {
            Ok(number)
        } else {
            let number = match number == 0.0 || (1e-6..1e15).contains(&number.abs()) {
                true => number.to_string(),
                false => format!("{number:e}"),
            };
            Err(self.fault(format!("{number} is outside {least} to {most}")))
        }
    }

    /// A number above zero, at most `most`.
    pub fn positive(&self, most: f64) -> Result<f64, Fault> {
        match self.number(f64::NEG_INFINITY, f64::INFINITY) {
            Ok(number) if number > 0.0 && number <= most => Ok(number),
            Ok(number) => Err(self.fault(format!(
                "must be above zero and at most {most:e}, found {number}"
            ))),
            Err(fault) => Err(fault),
        }
    }

    /// A whole number in `least..=most`.
    pub fn whole(&self, least: u64, most: u64) -> Result<u64, Fault> {
        let Value::Integer(number) = self.value else {
            return Err(self.wrong("a whole number"));
        };
        match u64::try_from(number) {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.fault(format!("{number} is outside {least} to {most}"))),
        }
    }

    /// True or false.
    pub fn boolean(&self) -> Result<bool, Fault> {
        match self.value {
            Value::Boolean(is) => Ok(is),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// A table whose keys are names: every entry, without a check of its key.
    pub fn members(&self) -> Result<&BTreeMap<String, Item>, Fault> {
        match &self.value {
            Value::Table(items) => Ok(items),
            _ => Err(self.wrong("a table")),
        }
    }

    /// A list.
    pub fn list(&self) -> Result<&[Item], Fault> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.wrong("a list")),
        }
    }

    /// One of the given words, as the value beside it.
    pub fn choice<T: Copy>(&self, what: &str, words: &[(&str, T)]) -> Result<T, Fault> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| self.fault(unknown(what, text, words.iter().map(|(word, _)| *word))))
    }

    /// A text with a number and its unit, read by `quantity`.
    pub fn quantity<T>(&self, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Fault> {
        match &self.value {
            Value::Text(text) => read(text).map_err(|what| self.fault(what)),
            Value::Integer(number) => Err(self.without_unit(&number.to_string(), read)),
            Value::Float(number) => Err(self.without_unit(&number.to_string(), read)),
            _ => Err(self.wrong("text with a number and its unit")),
        }
    }

    /// The error of an empty text says what a number with its unit looks like.
    fn without_unit<T>(&self, number: &str, read: impl Fn(&str) -> Result<T, String>) -> Fault {
        let usual = read("").err().unwrap_or_default();
        self.fault(format!("{number} has no unit: {usual}"))
    }
}

/// A table whose every key must be asked for.
pub struct Table<'a> {
    item: &'a Item,
    items: &'a BTreeMap<String, Item>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Table<'a> {
    /// The value of a key that may be absent.
    pub fn find(&self, key: &'static str) -> Option<&'a Item> {
        self.asked.borrow_mut().insert(key);
        let item = self.items.get(key);
        item.filter(|item| !matches!(item.value, Value::Removed))
    }

    /// The value of a key that must be there.
    pub fn need(&self, key: &'static str) -> Result<&'a Item, Fault> {
        self.find(key).ok_or_else(|| match self.items.get(key) {
            Some(removed) => removed.fault("this key is needed and cannot be removed"),
            None => self.missing(key),
        })
    }

    /// An error for a missing key. It points to the line of what looks like a slip of it.
    fn missing(&self, key: &str) -> Fault {
        let asked = self.asked.borrow();
        let others = self.items.keys().map(String::as_str);
        let near = nearest(key, others.filter(|other| !asked.contains(other)));
        let is_table = |key: &str| {
            let found = self.items.get(key).map(|item| &item.value);
            matches!(found, Some(Value::Table(_)))
        };
        // Few keys are tables, so one of them may be less alike.
        let is_meant = |near: &&str| is_slip(near, key) || is_table(near) && is_like(near, key);
        let slip = near.filter(is_meant);
        match slip.and_then(|slip| self.items.get(slip)) {
            Some(slip) => slip.fault(format!("did you mean '{key}'? That key is missing")),
            None => self.item.fault(format!("the key '{key}' is missing")),
        }
    }

    /// The value of a key, or a default if it is absent.
    pub fn or<T>(
        &self,
        key: &'static str,
        otherwise: T,
        read: impl FnOnce(&'a Item) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.find(key).map_or(Ok(otherwise), read)
    }

    /// Refuses a key that has no meaning here, with the reason.
    pub fn refuse(&self, key: &'static str, why: &str) -> Result<(), Fault> {
        match self.find(key) {
            Some(item) => Err(item.fault(why)),
            None => Ok(()),
        }
    }

    /// An error about a combination of keys.
    pub fn fault_of(&self, keys: &[&str], what: impl Into<String>) -> Fault {
        self.item.fault_of(keys, what)
    }

    /// An error for the first key of the text that is none of these.
    pub fn only(&self, keys: &[&str]) -> Result<(), Fault> {
        let others = self.items.iter().filter(|(key, item)| {
            !keys.contains(&key.as_str()) && !matches!(item.value, Value::Removed)
        });
        match others.min_by_key(|(_, item)| (item.place.line, item.place.column)) {
            Some((key, item)) => Err(item.fault(unknown("key", key, keys.iter().copied()))),
            None => Ok(()),
        }
    }

    /// An error for a key that nobody asked for.
    pub fn finish(self) -> Result<(), Fault> {
        let asked: Vec<&str> = self.asked.borrow().iter().copied().collect();
        self.only(&asked)
    }
}

#[cfg(test)]
mod tests;
