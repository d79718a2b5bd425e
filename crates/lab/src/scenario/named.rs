//! The names of catalogue texts in a scenario's text, for a caller that opens files.

use document::{Fault, Item, Value, parse};

use super::catalogue::Kind;
use super::edit;

/// The key of a kind of text, in which list it is; `None`: at the top.
const KEYS: [(Option<&str>, &str, Kind); 7] = [
    (None, "base", Kind::Scenario),
    (None, "policy", Kind::Policy),
    (Some("layer"), "policy", Kind::Policy),
    (Some("layer"), "method", Kind::Exchange),
    (Some("node"), "device", Kind::Device),
    (Some("link"), "link", Kind::Link),
    (Some("link"), "trace", Kind::Trace),
];

/// The names in a text after edits, each once. The rest of the text is not checked.
pub fn named(file: &str, text: &str, edits: &[&str]) -> Result<Vec<(Kind, String)>, Fault> {
    let mut document = parse(file, text)?;
    let has_base = value(&document, "base").is_some();
    let mut names = Vec::new();
    for text in edits {
        match edit::apply(&mut document, text) {
            Ok(()) => {}
            // It may be about a member that the base has.
            Err(_) if has_base => names.extend(of_edit(text)),
            Err(fault) => return Err(fault),
        }
    }
    for (list, key, kind) in KEYS {
        let tables = match list.map(|list| value(&document, list)) {
            None => std::slice::from_ref(&document),
            Some(Some(Value::List(tables))) => tables,
            Some(_) => continue,
        };
        for table in tables {
            if let Some(Value::Text(name)) = value(table, key) {
                names.push((kind, name.as_str().to_owned()));
            }
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The name in an edit such as `link.access.link=lte`.
fn of_edit(edit: &str) -> Option<(Kind, String)> {
    let (path, text) = edit.split_once('=')?;
    let mut parts = path.trim().split('.');
    let (list, last) = (parts.next()?, parts.next_back()?);
    let mut keys = KEYS.into_iter();
    let (.., kind) = keys.find(|(of, key, _)| *of == Some(list) && *key == last)?;
    match edit::value(path, text.trim()).value {
        Value::Text(name) if !name.is_empty() => Some((kind, name.as_str().to_owned())),
        _ => None,
    }
}

fn value<'a>(item: &'a Item, key: &str) -> Option<&'a Value> {
    match &item.value {
        Value::Table(table) => table.get(key).map(|item| &item.value),
        _ => None,
    }
}
