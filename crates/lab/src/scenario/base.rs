//! Scenarios that share a network: a file with the key `base` has all of another scenario, and its
//! own keys on top.
//!
//! A key of the file replaces that of the base, a table is merged key by key, and the members of a
//! list follow those of the base. A member with the `name` of one of the base's is merged with it.

use std::collections::BTreeMap;

use document::{Fault, Item, Value, parse};

use super::catalogue::{Catalogue, Kind};

/// The key that names the base.
pub(super) const BASE: &str = "base";
/// A base may have a base, but not as many as this.
const DEPTH_MAX: usize = 4;

/// A document with those of its bases, and kind and fingerprint of each base.
pub(super) fn with_bases(
    mut document: Item,
    catalogue: &Catalogue,
) -> Result<(Item, Vec<(String, String)>), Fault> {
    let mut files = Vec::new();
    for _ in 0..=DEPTH_MAX {
        let Value::Table(keys) = &mut document.value else {
            return Ok((document, files));
        };
        let Some(named) = keys.remove(BASE) else {
            return Ok((document, files));
        };
        if files.len() == DEPTH_MAX {
            return Err(named.fault(format!("more than {DEPTH_MAX} bases, one of the other")));
        }
        let entry = catalogue.named(Kind::Scenario, &named)?;
        files.push(entry.fingerprint());
        document = over(parse(&entry.file, &entry.text)?, document);
    }
    Ok((document, files))
}

/// `own` on top of `base`.
fn over(base: Item, own: Item) -> Item {
    let place = own.place.clone();
    let value = match (base.value, own.value) {
        (Value::Table(base), Value::Table(own)) => Value::Table(tables(base, own)),
        (Value::List(base), Value::List(own)) => Value::List(lists(base, own)),
        (_, own) => own,
    };
    Item { place, value }
}

fn tables(mut base: BTreeMap<String, Item>, own: BTreeMap<String, Item>) -> BTreeMap<String, Item> {
    for (key, item) in own {
        let merged = match base.remove(&key) {
            Some(under) => over(under, item),
            None => item,
        };
        base.insert(key, merged);
    }
    base
}

/// Lists of anything but tables are replaced.
fn lists(mut base: Vec<Item>, own: Vec<Item>) -> Vec<Item> {
    let is_table = |item: &Item| matches!(item.value, Value::Table(_));
    if !base.iter().chain(&own).all(is_table) {
        return own;
    }
    for item in own {
        let name = named(&item).map(str::to_owned);
        let found = base
            .iter()
            .position(|under| name.is_some() && named(under) == name.as_deref());
        match found {
            Some(at) => {
                let under = base.remove(at);
                base.insert(at, over(under, item));
            }
            None => base.push(item),
        }
    }
    base
}

fn named(item: &Item) -> Option<&str> {
    let Value::Table(keys) = &item.value else {
        return None;
    };
    match &keys.get("name")?.value {
        Value::Text(name) => Some(name.as_str()),
        _ => None,
    }
}
