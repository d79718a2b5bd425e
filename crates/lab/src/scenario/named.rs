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
    for text in edits {
        edit::apply(&mut document, text)?;
    }
    let mut names = Vec::new();
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

fn value<'a>(item: &'a Item, key: &str) -> Option<&'a Value> {
    match &item.value {
        Value::Table(table) => table.get(key).map(|item| &item.value),
        _ => None,
    }
}
