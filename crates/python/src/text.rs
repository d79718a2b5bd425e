//! Texts for Python: a TOML document with the position of every value, with which studies are read,
//! and the names of other texts in a scenario.

use document::{Item, Value};
use serde_json::{Value as Json, json};

use crate::answers::write;
use crate::refused::Refused;

/// The document as JSON: each value has its line and column as `at`, and one of `value`, `list` and
/// `table`; a table is a list of pairs in the order of the file.
pub(crate) fn document(file: &str, text: &str) -> Result<String, Refused> {
    let tree = document::parse(file, text).and_then(|item| node(&item));
    Ok(tree?.to_string())
}

/// The names in a scenario's text after edits: pairs of kind and name.
pub(crate) fn named(file: &str, text: &str, edits: &[String]) -> Result<String, Refused> {
    let edits: Vec<&str> = edits.iter().map(String::as_str).collect();
    write(&lab::scenario::named(file, text, &edits)?)
}

fn node(item: &Item) -> Result<Json, document::Fault> {
    let at = (item.place.line, item.place.column);
    Ok(match &item.value {
        Value::Text(text) => {
            item.check_shown(text)?;
            json!({ "at": at, "value": text.as_str() })
        }
        Value::Integer(number) => json!({ "at": at, "value": number }),
        Value::Float(number) if number.is_finite() => json!({ "at": at, "value": number }),
        Value::Float(number) => return Err(item.fault(format!("{number} is not a finite number"))),
        Value::Boolean(is) => json!({ "at": at, "value": is }),
        Value::List(items) => {
            let items: Result<Vec<Json>, _> = items.iter().map(node).collect();
            json!({ "at": at, "list": items? })
        }
        Value::Table(items) => {
            let mut pairs: Vec<(&String, &Item)> = items.iter().collect();
            pairs.sort_by_key(|(_, item)| (item.place.line, item.place.column));
            let pair = |(key, item): (&String, &Item)| node(item).map(|value| json!([key, value]));
            let pairs: Result<Vec<Json>, _> = pairs.into_iter().map(pair).collect();
            json!({ "at": at, "table": pairs? })
        }
        Value::Removed => json!({ "at": at, "value": null }),
    })
}
