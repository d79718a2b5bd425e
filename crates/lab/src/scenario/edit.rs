//! Edits from the command line, `KEY=VALUE`, applied before anything is checked.

use std::collections::BTreeMap;

use document::{DEPTH_MAX, EDIT, Fault, Item, KEY_BYTES_MAX, Place, Value, parse, unknown};

/// In a path: every member of a list.
const EACH: &str = "*";

/// Sets one value; an empty value removes the key.
pub(super) fn apply(document: &mut Item, edit: &str) -> Result<(), Fault> {
    let fault = |key: &str, what: String| Fault {
        place: Place::edit(key),
        what,
    };
    let Some((key, text)) = edit.split_once('=') else {
        let what = format!("'{edit}' is not an edit: write KEY=VALUE, such as node.ms.mips=200");
        return Err(fault("", what));
    };
    let (key, text) = (key.trim(), text.trim());
    if key.len() > KEY_BYTES_MAX {
        let what = format!("a key of {} bytes, limit {KEY_BYTES_MAX}", key.len());
        return Err(fault("", what));
    }
    let mut parts: Vec<&str> = key.split('.').collect();
    if parts.len() > DEPTH_MAX {
        let what = format!("a key of {} parts, limit {DEPTH_MAX}", parts.len());
        return Err(fault(key, what));
    }
    let last = parts.pop().unwrap_or_default();
    if last.is_empty() || parts.iter().any(|part| part.is_empty()) {
        return Err(fault(
            key,
            "a key needs a name before and after each dot".to_owned(),
        ));
    }
    set(document, &parts, last, (key, text))
}

/// Sets `last` below a path, in every member of a list where the path has a star.
fn set(item: &mut Item, path: &[&str], last: &str, edit: (&str, &str)) -> Result<(), Fault> {
    let (key, text) = edit;
    if let Some((part, rest)) = path.split_first() {
        if let (&EACH, Value::List(items)) = (part, &mut item.value) {
            let mut items = items.iter_mut();
            return items.try_for_each(|item| set(item, rest, last, edit));
        }
        return set(step(item, part, key)?, rest, last, edit);
    }
    match &mut item.value {
        Value::Table(table) if text.is_empty() => drop(table.insert(
            last.to_owned(),
            Item {
                place: Place::edit(key),
                value: Value::Removed,
            },
        )),
        Value::Table(table) => drop(table.insert(last.to_owned(), value(key, text))),
        _ => {
            return Err(Fault {
                place: Place::edit(key),
                what: format!("'{last}' can only be set in a table"),
            });
        }
    }
    Ok(())
}

/// One step into a table, or to the member of a list with this name or number.
fn step<'a>(item: &'a mut Item, part: &str, key: &str) -> Result<&'a mut Item, Fault> {
    match &mut item.value {
        Value::Table(table) => Ok(table.entry(part.to_owned()).or_insert_with(|| Item {
            place: Place::edit(key),
            value: Value::Table(BTreeMap::new()),
        })),
        Value::List(items) => {
            let names: Vec<String> = items.iter().map(Item::name).collect();
            let by_name = names.iter().position(|name| name == part);
            let index = by_name.or_else(|| part.parse().ok().filter(|index| *index < items.len()));
            match index {
                Some(index) => Ok(&mut items[index]),
                None => Err(Fault {
                    place: Place::edit(key),
                    what: unknown("name", part, names.iter().map(String::as_str)),
                }),
            }
        }
        _ => Err(Fault {
            place: Place::edit(key),
            what: format!("'{part}' can only be in a table or a list"),
        }),
    }
}

/// The text as a TOML value if it is one, otherwise as a string.
pub(super) fn value(key: &str, text: &str) -> Item {
    let parsed = parse(EDIT, &format!("value = {text}")).ok();
    let found = parsed.and_then(|item| match item.value {
        // A text with a line break could define further keys.
        Value::Table(mut table) if table.len() == 1 => table.remove("value"),
        _ => None,
    });
    let mut item = found.unwrap_or_else(|| Item {
        place: Place::edit(key),
        value: Value::Text(text.to_owned().into()),
    });
    relocate(&mut item, key);
    item
}

/// Sets the position of everything inside an edit to that of the edit.
fn relocate(item: &mut Item, key: &str) {
    item.place = Place::edit(key);
    match &mut item.value {
        Value::List(items) => items.iter_mut().for_each(|item| relocate(item, key)),
        Value::Table(table) => {
            for (name, item) in table {
                relocate(item, &format!("{key}.{name}"));
            }
        }
        _ => {}
    }
}
